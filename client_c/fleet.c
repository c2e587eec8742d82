/* fleet.c - several servers as one: clients spread over them, the meshes that all of these share, and where a new scene
 * goes. Each client finds another server by itself when its own is gone (servers.c, recover.c), in the order that its
 * number gives; here it is only decided where it begins and, by a look, where it should be (fleet_look.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client_c/fleet.h"

#define FLEET_COOKIE 0xf1ee7u

enum { MAX_CONNECTIONS = 1024, CONNECTIONS_EACH = 2, CONNECTIONS_AT_LEAST = 8 };

void contactd_fleet_options_init(contactd_fleet_options *options) {
    if (!options) return;
    *options = (contactd_fleet_options){.cookie = FLEET_COOKIE, .probe_ms = 2000};
    contactd_options_init(&options->client);
}

/* ---- errors ---- */

contactd_code ctc_fleet_no_memory(contactd_fleet *fleet) {
    return ctc_fill_error(&fleet->error, CONTACTD_OUT_OF_MEMORY, "fleet", "", "out of memory in this process");
}

static contactd_code fail_as(contactd_fleet *fleet, const contactd_client *client) {
    fleet->error = client->error;
    return client->error.code;
}

/* The first lines of every public function. */
#define FLEET_BEGIN(fleet)                                                                                             \
    do {                                                                                                               \
        if (!(fleet)) return CONTACTD_INVALID_ARGUMENT;                                                                \
        (fleet)->error = (contactd_error){.code = CONTACTD_OK};                                                        \
    } while (0)
#define FLEET_REQUIRE(fleet, argument)                                                                                 \
    do {                                                                                                               \
        if (!(argument))                                                                                               \
            return ctc_fill_error(&(fleet)->error, CONTACTD_INVALID_ARGUMENT, "fleet", #argument,                      \
                                  #argument " is NULL");                                                               \
    } while (0)

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

static void mesh_free(ctc_fleet_mesh *mesh) {
    if (!mesh) return;
    free(mesh->name);
    free(mesh->positions);
    free(mesh->triangles);
    free(mesh->file);
    free(mesh->handles);
    free(mesh);
}

void contactd_fleet_close(contactd_fleet **fleet) {
    if (!fleet || !*fleet) return;
    contactd_fleet *f = *fleet;
    for (uint32_t i = 0; i < f->n_connections; i++) contactd_close(&f->connections[i]);
    for (uint32_t i = 0; i < f->n_meshes; i++) mesh_free(f->meshes[i]);
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
        ctc_start start = {fleet->servers.list[where[i]].address, ctc_fleet_seed(i)};
        code = ctc_client_new(&fleet->options, &start, &fleet->connections[i], &fleet->error);
        if (code != CONTACTD_OK) break;
        fleet->n_connections++;
        code = ctc_hello(fleet->connections[i]);
        if (code != CONTACTD_OK) fail_as(fleet, fleet->connections[i]);
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

/* ---- meshes ---- */

/* Makes the mesh that a client just registered the fleet's: its copy moves to the fleet, and the client's points there.
 */
static contactd_code adopt(contactd_fleet *fleet, ctc_fleet_mesh *to, uint32_t connection, contactd_mesh handle,
                           contactd_fleet_mesh *out) {
    contactd_client *client = fleet->connections[connection];
    ctc_mesh *from = client->meshes[handle - 1];
    to->name = ctc_strdup(from->name);
    if (!to->name) {
        contactd_forget_mesh(client, handle);
        mesh_free(to);
        return ctc_fleet_no_memory(fleet);
    }
    to->positions = from->positions;
    to->triangles = from->triangles;
    to->file = from->file;
    from->positions = from->triangles = from->file = NULL; /* from->source points to what is the fleet's now */
    to->source = from->source;
    to->repair = from->repair;
    to->vertices = from->vertices;
    memcpy(to->hash, from->hash, sizeof to->hash);
    to->handles[connection] = handle;
    fleet->meshes[fleet->n_meshes++] = to;
    *out = fleet->n_meshes;
    return CONTACTD_OK;
}

/* Room for a mesh, made before any server is asked. NULL: out of memory. */
static ctc_fleet_mesh *new_mesh(contactd_fleet *fleet) {
    ctc_fleet_mesh *mesh = calloc(1, sizeof *mesh);
    if (!mesh) return NULL;
    mesh->handles = calloc(fleet->n_connections, sizeof *mesh->handles);
    if (mesh->handles && ctc_grow32(&fleet->meshes, fleet->n_meshes, &fleet->cap_meshes, sizeof *fleet->meshes))
        return mesh;
    mesh_free(mesh);
    return NULL;
}

contactd_code contactd_fleet_register_mesh(contactd_fleet *fleet, const char *name, const float *positions,
                                           size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                           const contactd_mesh_options *options, contactd_fleet_mesh *out) {
    FLEET_BEGIN(fleet);
    FLEET_REQUIRE(fleet, out);
    *out = 0;
    ctc_fleet_mesh *mesh = new_mesh(fleet);
    if (!mesh) return ctc_fleet_no_memory(fleet);
    contactd_mesh handle;
    contactd_client *client = fleet->connections[0];
    if (contactd_register_mesh_with(client, name, positions, n_vertices, triangles, n_triangles, options, &handle) ==
        CONTACTD_OK)
        return adopt(fleet, mesh, 0, handle, out);
    mesh_free(mesh);
    return fail_as(fleet, client);
}

contactd_code contactd_fleet_register_mesh_file(contactd_fleet *fleet, const char *path, contactd_fleet_mesh *out) {
    FLEET_BEGIN(fleet);
    FLEET_REQUIRE(fleet, out);
    *out = 0;
    ctc_fleet_mesh *mesh = new_mesh(fleet);
    if (!mesh) return ctc_fleet_no_memory(fleet);
    contactd_mesh handle;
    contactd_client *client = fleet->connections[0];
    if (contactd_register_mesh_file(client, path, &handle) == CONTACTD_OK) return adopt(fleet, mesh, 0, handle, out);
    mesh_free(mesh);
    return fail_as(fleet, client);
}

contactd_code contactd_fleet_get_mesh(contactd_fleet *fleet, contactd_fleet_mesh mesh, contactd_client *client,
                                      contactd_mesh *out) {
    FLEET_BEGIN(fleet);
    FLEET_REQUIRE(fleet, client);
    FLEET_REQUIRE(fleet, out);
    *out = 0;
    uint32_t at = 0;
    while (at < fleet->n_connections && fleet->connections[at] != client) at++;
    if (at == fleet->n_connections)
        return ctc_fill_error(
            &fleet->error, CONTACTD_INVALID_ARGUMENT, "fleet", "client",
            "the client is none of this fleet's: expected one that contactd_fleet_open_scene returned");
    if (!mesh || mesh > fleet->n_meshes)
        return ctc_fill_error(&fleet->error, CONTACTD_NOT_FOUND, "fleet", "mesh",
                              "there is no mesh %u: this fleet registered none with that handle", mesh);
    ctc_fleet_mesh *from = fleet->meshes[mesh - 1];
    contactd_mesh *handle = &from->handles[at];
    if (!*handle || !client->meshes[*handle - 1]) { /* never asked for, or removed by the caller */
        ctc_mesh *to = calloc(1, sizeof *to);
        if (to) to->name = ctc_strdup(from->name);
        if (!to || !to->name ||
            !ctc_grow32(&client->meshes, client->n_meshes, &client->cap_meshes, sizeof *client->meshes)) {
            if (to) ctc_mesh_free(&to);
            return ctc_fleet_no_memory(fleet);
        }
        to->source = from->source;
        to->source.name = to->name;
        to->kept = true;
        to->repair = from->repair;
        to->vertices = from->vertices;
        memcpy(to->hash, from->hash, sizeof to->hash);
        client->meshes[client->n_meshes++] = to;
        *handle = client->n_meshes;
    }
    *out = *handle;
    return CONTACTD_OK;
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
        if (contactd_get_status(client, &status) != CONTACTD_OK) return fail_as(fleet, client);
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
    if (code != CONTACTD_OK) return fail_as(fleet, chosen);
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
