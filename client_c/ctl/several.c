/* several.c - see several.h. */
#include "client_c/ctl/several.h"

#include <stdlib.h>
#include <string.h>

static void free_list(ctl_server *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        contactd_close(&list[i].ctl.client);
        free(list[i].address);
    }
    free(list);
}

void ctl_servers_close(ctl_servers *servers) {
    free_list(servers->list, servers->n);
    contactd_fleet_close(&servers->fleet);
    *servers = (ctl_servers){0};
}

static int connect_to_one(const ctl *ctl, ctl_servers *out) {
    out->list = calloc(1, sizeof *out->list);
    char *address = strdup(ctl->server);
    if (!out->list || !address) {
        free(address);
        return ctl_mistake("out of memory");
    }
    out->n = 1;
    out->list[0] = (ctl_server){.address = address, .ctl = *ctl};
    int code = ctl_connect(&out->list[0].ctl);
    out->list[0].is_up = code == EXIT_OK;
    return code;
}

/* Moves the connection of the server at the address, if there is one that still serves. */
static contactd_client *take_client(ctl_servers *servers, const char *address) {
    for (size_t i = 0; i < servers->n; i++) {
        contactd_client *client = servers->list[i].ctl.client;
        if (!client || strcmp(servers->list[i].address, address) != 0) continue;
        servers->list[i].ctl.client = NULL;
        return client;
    }
    return NULL;
}

static int fill(const ctl *ctl, ctl_servers *servers) {
    const contactd_fleet_server *found;
    size_t n;
    if (contactd_fleet_list_servers(servers->fleet, &found, &n))
        return ctl_report(contactd_fleet_last_error(servers->fleet), ctl->server);
    ctl_server *list = calloc(n + 1, sizeof *list);
    size_t done = 0;
    for (; list && done < n; done++) {
        ctl_server *to = &list[done];
        *to = (ctl_server){.address = strdup(found[done].address), .ctl = *ctl};
        if (!to->address) break;
        to->ctl.server = to->address;
        to->ctl.client = found[done].is_up ? take_client(servers, to->address) : NULL;
        to->is_up = found[done].is_up && (to->ctl.client || ctl_connect(&to->ctl) == EXIT_OK);
    }
    free_list(servers->list, servers->n);
    servers->list = list;
    servers->n = done;
    return list && done == n ? EXIT_OK : ctl_mistake("out of memory");
}

int ctl_servers_open(const ctl *ctl, ctl_servers *out) {
    contactd_fleet_options options;
    contactd_error error;
    *out = (ctl_servers){0};
    if (!ctl_is_several(ctl)) return connect_to_one(ctl, out);
    int code = ctl_check_refused(ctl);
    if (code != EXIT_OK) return code;
    contactd_fleet_options_init(&options);
    ctl_connect_options(ctl, &options.client);
    options.client.lease_ms = 1000; /* it only looks who is there */
    options.connections = 1;
    if (ctl->options[OPT_TIMEOUT]) options.probe_ms = ctl->timeout_ms;
    if (contactd_fleet_open(&options, &out->fleet, &error)) return ctl_report_connection(ctl, &error);
    return fill(ctl, out);
}

int ctl_servers_look(const ctl *ctl, ctl_servers *servers) {
    if (!servers->fleet) return EXIT_OK;
    if (contactd_fleet_look(servers->fleet, NULL))
        return ctl_report(contactd_fleet_last_error(servers->fleet), ctl->server);
    return fill(ctl, servers);
}
