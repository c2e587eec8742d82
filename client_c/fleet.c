/* fleet.c - several servers as one: clients spread over them, and where a new scene goes. fleet_meshes.c has the meshes
 * that all of these share. Each client finds another server by itself when its own is gone (servers.c, restore.c), in
 * the order that its number gives; here it is only decided where it begins and, by a look, where it should be
 * (fleet_look.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client_c/connect.h"
#include "client_c/fleet_look.h"
#include "client_c/fleet_meshes.h"
#include "client_c/servers.h"
#include "client_c/session.h"

#define FLEET_COOKIE 0xf1ee7u

enum { MAX_CONNECTIONS = 1024, CONNECTIONS_EACH = 2, CONNECTIONS_AT_LEAST = 8 };

void contactd_fleet_options_init(contactd_fleet_options *options) {
    if (!options) return;
    *options = (contactd_fleet_options){.cookie = FLEET_COOKIE, .probe_ms = 2000};
    contactd_options_init(&options->client);
}

/* ---- errors ---- */

const contactd_error *contactd_fleet_last_error(const contactd_fleet *fleet) {
    static const contactd_error no_fleet = {.code = CONTACTD_INVALID_ARGUMENT,
                                            .object = "fleet",
                                            .field = "fleet",
                                            .message = "fleet is NULL: contactd_fleet_open fills it when it succeeds"};
    return fleet ? &fleet->error : &no_fleet;
}

/* ---- opening and closing ---- */

static void erase(const char *key) {
    if (key) explicit_bzero((char *)(uintptr_t)key, strlen(key));
    free((void *)(uintptr_t)key);
}

void contactd_fleet_close(contactd_fleet **fleet) {
    if (!fleet || !*fleet) return;
    contactd_fleet *f = *fleet;
    for (uint32_t i = 0; i < f->n_connections; i++) contactd_close(&f->connections[i]);
    for (uint32_t i = 0; i < f->n_meshes; i++) ctc_fleet_mesh_free(f->meshes[i]);
    ctc_fleet_servers_free(&f->servers);
    free((void *)(uintptr_t)f->options.server);
    free((void *)(uintptr_t)f->options.name);
    erase(f->options.server_key);
    erase(f->options.client_key);
    free(f->connections);
    free(f->meshes);
    free(f->list);
    free(f);
    *fleet = NULL;
}

static bool keep_options(contactd_fleet *fleet, const contactd_fleet_options *options) {
    const contactd_options *from = &options->client;
    contactd_options *to = &fleet->options;
    *to = *from;
    to->keep_meshes = true;
    to->server = ctc_strdup(from->server);
    to->name = ctc_strdup(from->name);
    to->server_key = from->server_key ? ctc_strdup(from->server_key) : NULL;
    to->client_key = from->client_key ? ctc_strdup(from->client_key) : NULL;
    fleet->placement = options->placement;
    fleet->probe_ms = options->probe_ms;
    return to->server && to->name && (to->server_key || !from->server_key) && (to->client_key || !from->client_key);
}

static bool may_list_others(const char *sources) {
    return strstr(sources, "file:") || strstr(sources, "dns:");
}

static contactd_code connect_all(contactd_fleet *fleet, uint32_t asked) {
    uint32_t n = asked ? asked : CONNECTIONS_EACH * fleet->servers.n;
    if (!asked && may_list_others(fleet->options.server) && n < CONNECTIONS_AT_LEAST) n = CONNECTIONS_AT_LEAST;
    if (n > MAX_CONNECTIONS) n = MAX_CONNECTIONS;
    fleet->connections = calloc(n, sizeof *fleet->connections);
    uint32_t *where = malloc(n * sizeof *where);
    contactd_code code = fleet->connections && where ? CONTACTD_OK : ctc_fleet_no_memory(fleet);
    for (uint32_t i = 0; where && i < n; i++) where[i] = CTC_NOWHERE;
    if (code == CONTACTD_OK) code = ctc_fleet_spread(fleet, where, n);
    while (code == CONTACTD_OK && fleet->n_connections < n) {
        uint32_t i = fleet->n_connections;
        ctc_start start = {fleet->servers.list[where[i]].address, ctc_fleet_seed(i), fleet->probe_ms};
        code = ctc_client_new(&fleet->options, &start, &fleet->connections[i], &fleet->error);
        if (code != CONTACTD_OK) break;
        fleet->n_connections++;
        code = ctc_hello(fleet->connections[i]);
        if (code != CONTACTD_OK) ctc_fleet_fail_as(fleet, fleet->connections[i]);
    }
    free(where);
    return code;
}

/* Until one answers, at most for the clients' timeout. */
static contactd_code find_servers(contactd_fleet *fleet) {
    uint64_t end = ctc_now() + (uint64_t)fleet->options.timeout_ms * 1000000u;
    for (;;) {
        contactd_code code = ctc_fleet_find(fleet, &fleet->servers);
        if (code != CONTACTD_UNREACHABLE || ctc_now() >= end) return code;
        ctc_fleet_servers_free(&fleet->servers);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
}

static contactd_code check_options(const contactd_fleet_options *options, contactd_error *error) {
    if (!options || options->cookie != FLEET_COOKIE)
        return ctc_fill_error(error, CONTACTD_INVALID_ARGUMENT, "fleet", "options",
                              "options were not filled by contactd_fleet_options_init of this version");
    if (options->placement < CONTACTD_PLACE_FEWEST || options->placement > CONTACTD_PLACE_BY_LOAD)
        return ctc_fill_error(error, CONTACTD_INVALID_ARGUMENT, "fleet", "placement",
                              "placement %d is none of contactd_placement", (int)options->placement);
    if (options->connections > MAX_CONNECTIONS)
        return ctc_fill_error(error, CONTACTD_INVALID_ARGUMENT, "fleet", "connections",
                              "connections is %u, expected at most %d", options->connections, MAX_CONNECTIONS);
    if (!options->probe_ms)
        return ctc_fill_error(error, CONTACTD_INVALID_ARGUMENT, "fleet", "probe_ms", "probe_ms is 0, expected > 0");
    return ctc_options_check(&options->client, error);
}

contactd_code contactd_fleet_open(const contactd_fleet_options *options, contactd_fleet **out, contactd_error *error) {
    if (error) *error = (contactd_error){.code = CONTACTD_OK};
    if (!out) return ctc_fill_error(error, CONTACTD_INVALID_ARGUMENT, "fleet", "out", "out is NULL");
    *out = NULL;
    contactd_code code = check_options(options, error);
    if (code != CONTACTD_OK) return code;
    contactd_fleet *fleet = calloc(1, sizeof *fleet);
    if (!fleet) return ctc_fill_error(error, CONTACTD_OUT_OF_MEMORY, "fleet", "", "out of memory in this process");
    code = keep_options(fleet, options) ? find_servers(fleet) : ctc_fleet_no_memory(fleet);
    if (code == CONTACTD_OK) code = connect_all(fleet, options->connections);
    if (code == CONTACTD_OK) {
        *out = fleet;
        return code;
    }
    if (error) *error = fleet->error;
    contactd_fleet_close(&fleet);
    return code;
}

/* ---- scenes ---- */

static uint32_t scenes_of(const contactd_client *client) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < client->n_scenes; i++) n += client->scenes[i] != NULL;
    return n;
}

typedef struct occupancy {
    uint32_t connections, scenes; /* of this fleet */
    uint64_t load[2];             /* as the server says: scenes, commands in its queue; or 0 */
} occupancy;

/* [servers.n], to be freed. NULL: out of memory. */
static occupancy *occupancies(const contactd_fleet *fleet) {
    occupancy *all = calloc(fleet->servers.n + 1, sizeof *all);
    for (uint32_t i = 0; all && i < fleet->n_connections; i++) {
        uint32_t at = ctc_fleet_where(&fleet->servers, fleet->connections[i]);
        if (at == CTC_NOWHERE) continue;
        all[at].connections++;
        all[at].scenes += scenes_of(fleet->connections[i]);
    }
    return all;
}

/* Each server by one of its connections. */
static contactd_code ask_for_load(contactd_fleet *fleet, occupancy *all) {
    for (uint32_t s = 0; s < fleet->servers.n; s++) {
        contactd_client *client = NULL;
        for (uint32_t i = 0; i < fleet->n_connections && !client; i++)
            if (ctc_fleet_where(&fleet->servers, fleet->connections[i]) == s) client = fleet->connections[i];
        if (!client) continue;
        contactd_status status;
        if (contactd_get_status(client, &status) != CONTACTD_OK) return ctc_fleet_fail_as(fleet, client);
        all[s].load[0] = status.scenes;
        all[s].load[1] = status.queue_depth;
    }
    return CONTACTD_OK;
}

static bool is_less(const occupancy *a, const occupancy *b) {
    if (a->load[0] != b->load[0]) return a->load[0] < b->load[0];
    if (a->load[1] != b->load[1]) return a->load[1] < b->load[1];
    return a->scenes < b->scenes;
}

static contactd_code choose_connection(contactd_fleet *fleet, const char *name, contactd_client **out) {
    if (fleet->placement == CONTACTD_PLACE_BY_NAME && name && *name) {
        *out = fleet->connections[ctc_servers_rank(0, name) % fleet->n_connections];
        return CONTACTD_OK;
    }
    occupancy *all = occupancies(fleet);
    if (!all) return ctc_fleet_no_memory(fleet);
    contactd_code code = fleet->placement == CONTACTD_PLACE_BY_LOAD ? ask_for_load(fleet, all) : CONTACTD_OK;
    uint32_t best = CTC_NOWHERE;
    for (uint32_t s = 0; s < fleet->servers.n; s++)
        if (all[s].connections && (best == CTC_NOWHERE || is_less(&all[s], &all[best]))) best = s;
    *out = NULL;
    for (uint32_t i = 0; i < fleet->n_connections; i++) {
        contactd_client *client = fleet->connections[i];
        bool is_there = best == CTC_NOWHERE || ctc_fleet_where(&fleet->servers, client) == best;
        if (is_there && (!*out || scenes_of(client) < scenes_of(*out))) *out = client;
    }
    if (!*out) *out = fleet->connections[0]; /* the last ones left that server while it was asked */
    free(all);
    return code;
}

contactd_code contactd_fleet_open_scene(contactd_fleet *fleet, const char *name, const contactd_settings *settings,
                                        contactd_client **client, contactd_scene *scene) {
    FLEET_BEGIN(fleet);
    FLEET_REQUIRE(fleet, client);
    FLEET_REQUIRE(fleet, scene);
    *client = NULL;
    *scene = 0;
    contactd_client *chosen = NULL;
    contactd_code code = choose_connection(fleet, name, &chosen);
    if (code != CONTACTD_OK) return code;
    code = contactd_open_scene(chosen, name, settings, scene);
    if (code != CONTACTD_OK) return ctc_fleet_fail_as(fleet, chosen);
    *client = chosen;
    return CONTACTD_OK;
}

contactd_code contactd_fleet_list_servers(contactd_fleet *fleet, const contactd_fleet_server **out, size_t *n) {
    FLEET_BEGIN(fleet);
    FLEET_REQUIRE(fleet, out);
    FLEET_REQUIRE(fleet, n);
    *out = NULL;
    *n = 0;
    occupancy *all = occupancies(fleet);
    contactd_fleet_server *list = realloc(fleet->list, (fleet->servers.n + 1) * sizeof *list);
    if (list) fleet->list = list;
    if (!all || !list) {
        free(all);
        return ctc_fleet_no_memory(fleet);
    }
    for (uint32_t i = 0; i < fleet->servers.n; i++) {
        const ctc_fleet_server *server = &fleet->servers.list[i];
        list[i] = (contactd_fleet_server){.address = server->address,
                                          .is_up = server->is_up,
                                          .epoch = server->epoch,
                                          .connections = all[i].connections,
                                          .scenes = all[i].scenes};
    }
    free(all);
    *out = list;
    *n = fleet->servers.n;
    return CONTACTD_OK;
}

contactd_code contactd_fleet_look(contactd_fleet *fleet, uint32_t *moved) {
    FLEET_BEGIN(fleet);
    uint32_t n = 0;
    contactd_code code = ctc_fleet_look(fleet, &n);
    if (moved) *moved = n;
    return code;
}
