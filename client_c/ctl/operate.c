/* operate.c - contactctl sessions, bodies, scene close and drain: what operators look at and end. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "client_c/ctl/ctl.h"
#include "client_c/ctl/report.h"
#include "client_c/ctl/several.h"

static int connect_and_get(ctl *ctl, contactd_report kind, uint64_t scene, const char *what, json_t **out) {
    int code = ctl_connect(ctl);
    if (code == EXIT_OK) code = ctl_get_report(ctl, kind, scene, what, out);
    if (code == EXIT_OK && ctl->json) ctl_put_report(*out);
    return code;
}

/* ---- sessions, of all servers ---- */

/* Adds a server's sessions to those of all, with its address where there are several. An exit code. */
static int add_sessions(ctl_server *server, bool is_several, json_t *all) {
    json_t *report = NULL, *session;
    size_t i;
    const char *what = is_several ? server->address : "sessions";
    int code = ctl_get_report(&server->ctl, CONTACTD_REPORT_SESSIONS, 0, what, &report);
    json_array_foreach(json_object_get(report, "sessions"), i, session) {
        if (is_several) json_object_set_new(session, "address", json_string(server->address));
        json_array_append(all, session);
    }
    json_decref(report);
    return code;
}

static const char *connection_of(const json_t *session) {
    const json_t *connected = json_object_get(session, "connected"); /* older servers do not say */
    return !connected ? "-" : json_is_true(connected) ? "yes" : "no";
}

static void put_sessions(const json_t *all, bool is_several) {
    const json_t *session;
    size_t i;
    if (is_several) printf("%-28s ", "ADDRESS");
    printf("%-8s %-32s %-16s %9s %8s %8s %7s %9s\n", "ID", "CLIENT", "PRINCIPAL", "CONNECTED", "LEASE s", "IDLE s",
           "SCENES", "IN FLIGHT");
    json_array_foreach(all, i, session) {
        const char *principal = ctl_text_of(session, "principal");
        if (is_several) printf("%-28s ", ctl_text_of(session, "address"));
        printf("%-8" PRIu64 " %-32s %-16s %9s %8.1f %8.1f %7" PRIu64 " %9" PRIu64 "\n", ctl_count_of(session, "id"),
               ctl_text_of(session, "client"), *principal ? principal : "-", connection_of(session),
               json_number_value(json_object_get(session, "lease_s")),
               json_number_value(json_object_get(session, "idle_s")), ctl_count_of(session, "scenes"),
               ctl_count_of(session, "in_flight"));
    }
}

int ctl_sessions(ctl *ctl) {
    ctl_servers servers;
    const bool is_several = ctl_is_several(ctl);
    json_t *report = json_object(), *all = json_array(), *list = json_array();
    int code = ctl_servers_open(ctl, &servers);
    for (size_t i = 0; i < servers.n && code == EXIT_OK; i++) {
        ctl_server *server = &servers.list[i];
        if (server->is_up) code = add_sessions(server, is_several, all);
        if (!server->is_up) ctl_say("%s does not answer", server->address);
        json_array_append_new(list, json_pack("{s:s, s:b}", "address", server->address, "up", server->is_up));
    }
    json_object_set(report, "sessions", all);
    if (is_several) json_object_set(report, "servers", list);
    if (code == EXIT_OK && ctl->json) ctl_put_report(report);
    if (code == EXIT_OK && !ctl->json) put_sessions(all, is_several);
    json_decref(report);
    json_decref(all);
    json_decref(list);
    ctl_servers_close(&servers);
    return code;
}

/* ---- bodies, scene close, drain ---- */

int ctl_bodies(ctl *ctl) {
    uint64_t scene;
    if (!ctl_scene_id(ctl, &scene)) return EXIT_USAGE;
    json_t *report = NULL;
    int code = connect_and_get(ctl, CONTACTD_REPORT_BODIES, scene, "bodies", &report);
    if (code == EXIT_OK && !ctl->json) ctl_put_bodies(report);
    json_decref(report);
    return code;
}

int ctl_scene_close(ctl *ctl) {
    uint64_t scene;
    if (!ctl_scene_id(ctl, &scene)) return EXIT_USAGE;
    int code = ctl_connect(ctl);
    if (code != EXIT_OK) return code;
    if (contactd_close_scene_by_id(ctl->client, scene)) return ctl_error(ctl, "scene close");
    if (ctl->json) {
        json_open(NULL, '{');
        json_count("closed", scene);
        json_close('}');
    }
    return EXIT_OK;
}

int ctl_drain(ctl *ctl) {
    if (!ctl_is_one_address(ctl))
        return ctl_mistake("drain ends one server: --server is \"%s\", expected one address", ctl->server);
    int code = ctl_connect(ctl);
    if (code != EXIT_OK) return code;
    if (contactd_drain(ctl->client)) return ctl_error(ctl, "drain");
    if (ctl->json) {
        json_open(NULL, '{');
        json_bool("draining", true);
        json_close('}');
    }
    return EXIT_OK;
}
