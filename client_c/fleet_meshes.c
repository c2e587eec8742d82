/* fleet_meshes.c - the meshes of a fleet: one copy for all of its clients, sent to each server that comes to need it.
 */
#include "client_c/fleet_meshes.h"

#include <stdlib.h>
#include <string.h>

#include "client_c/connect.h"
#include "client_c/fleet_look.h"
#include "client_c/meshes.h"
#include "client_c/records.h"
#include "client_c/session.h"

void ctc_fleet_mesh_free(ctc_fleet_mesh *mesh) {
    if (!mesh) return;
    free(mesh->name);
    free(mesh->positions);
    free(mesh->triangles);
    free(mesh->file);
    free(mesh->handles);
    free(mesh);
}

/* ---- registering ---- */

/* Makes the mesh that a client just registered the fleet's: its copy moves to the fleet, and the client's points there.
 */
static contactd_code adopt(contactd_fleet *fleet, ctc_fleet_mesh *to, uint32_t connection, contactd_mesh handle,
                           contactd_fleet_mesh *out) {
    contactd_client *client = fleet->connections[connection];
    ctc_mesh *from = client->meshes[handle - 1];
    to->name = ctc_strdup(from->name);
    if (!to->name) {
        contactd_forget_mesh(client, handle);
        ctc_fleet_mesh_free(to);
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
    ctc_fleet_mesh_free(mesh);
    return NULL;
}

/* Before the first connection registers a mesh. */
static contactd_code begin_registering(contactd_fleet *fleet, ctc_fleet_mesh **mesh, contactd_fleet_mesh *out) {
    FLEET_BEGIN(fleet);
    FLEET_REQUIRE(fleet, out);
    *out = 0;
    *mesh = new_mesh(fleet);
    return *mesh ? CONTACTD_OK : ctc_fleet_no_memory(fleet);
}

/* After it; code: how that ended. */
static contactd_code end_registering(contactd_fleet *fleet, ctc_fleet_mesh *mesh, contactd_code code,
                                     contactd_mesh handle, contactd_fleet_mesh *out) {
    if (code == CONTACTD_OK) return adopt(fleet, mesh, 0, handle, out);
    ctc_fleet_mesh_free(mesh);
    return ctc_fleet_fail_as(fleet, fleet->connections[0]);
}

static contactd_code register_arrays(contactd_fleet *fleet, const char *name, const void *positions, wire_dtype dtype,
                                     size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                     const contactd_mesh_options *options, contactd_fleet_mesh *out) {
    ctc_fleet_mesh *mesh;
    contactd_mesh handle = 0;
    contactd_code code = begin_registering(fleet, &mesh, out);
    if (code != CONTACTD_OK) return code;
    code = ctc_register_arrays(fleet->connections[0], name, positions, dtype, n_vertices, triangles, n_triangles,
                               options, &handle);
    return end_registering(fleet, mesh, code, handle, out);
}

contactd_code contactd_fleet_register_mesh(contactd_fleet *fleet, const char *name, const float *positions,
                                           size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                           const contactd_mesh_options *options, contactd_fleet_mesh *out) {
    return register_arrays(fleet, name, positions, WIRE_F32, n_vertices, triangles, n_triangles, options, out);
}

contactd_code contactd_fleet_register_mesh_f64(contactd_fleet *fleet, const char *name, const double *positions,
                                               size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                               const contactd_mesh_options *options, contactd_fleet_mesh *out) {
    return register_arrays(fleet, name, positions, WIRE_F64, n_vertices, triangles, n_triangles, options, out);
}

contactd_code contactd_fleet_register_mesh_file(contactd_fleet *fleet, const char *path, contactd_fleet_mesh *out) {
    ctc_fleet_mesh *mesh;
    contactd_mesh handle = 0;
    contactd_code code = begin_registering(fleet, &mesh, out);
    if (code != CONTACTD_OK) return code;
    code = contactd_register_mesh_file(fleet->connections[0], path, &handle);
    return end_registering(fleet, mesh, code, handle, out);
}

/* NULL: the error says why. */
static ctc_fleet_mesh *find_mesh(contactd_fleet *fleet, contactd_fleet_mesh mesh) {
    bool was = mesh && mesh <= fleet->n_meshes;
    if (was && fleet->meshes[mesh - 1]) return fleet->meshes[mesh - 1];
    ctc_fill_error(&fleet->error, was ? CONTACTD_STALE_HANDLE : CONTACTD_NOT_FOUND, "fleet", "mesh",
                   was ? "mesh %u was removed" : "there is no mesh %u: this fleet registered none with that handle",
                   mesh);
    return NULL;
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
    ctc_fleet_mesh *from = find_mesh(fleet, mesh);
    if (!from) return fleet->error.code;
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

/* ---- removing ---- */

/* What connection i calls the mesh; NULL: it does not have it. */
static ctc_mesh **mesh_at(const contactd_fleet *fleet, const ctc_fleet_mesh *mesh, uint32_t i) {
    contactd_mesh handle = mesh->handles[i];
    ctc_mesh **found = handle ? &fleet->connections[i]->meshes[handle - 1] : NULL;
    return found && *found ? found : NULL;
}

static contactd_code remove_by(contactd_client *client, const ctc_fleet_mesh *mesh) {
    contactd_code code = contactd_remove_mesh_by_hash(client, mesh->hash);
    /* Not there, or only others': gone is what was asked for. */
    if (code != CONTACTD_NOT_FOUND && code != CONTACTD_STALE_HANDLE && code != CONTACTD_FORBIDDEN) return code;
    ctc_begin(client);
    return CONTACTD_OK;
}

/* Through a connection that is there, or else through one for the moment. */
static contactd_code remove_from(contactd_fleet *fleet, const char *address, const ctc_fleet_mesh *mesh) {
    for (uint32_t i = 0; i < fleet->n_connections; i++) {
        contactd_client *client = fleet->connections[i];
        if (strcmp(client->address, address) != 0) continue;
        return remove_by(client, mesh) == CONTACTD_OK ? CONTACTD_OK : ctc_fleet_fail_as(fleet, client);
    }
    contactd_client *client;
    contactd_options options = ctc_fleet_probe_options(fleet, address);
    contactd_code code = ctc_client_new(&options, NULL, &client, &fleet->error);
    if (code != CONTACTD_OK) return code;
    code = ctc_hello(client);
    if (code == CONTACTD_OK) code = remove_by(client, mesh);
    if (code != CONTACTD_OK) ctc_fleet_fail_as(fleet, client);
    contactd_close(&client);
    return code;
}

contactd_code contactd_fleet_remove_mesh(contactd_fleet *fleet, contactd_fleet_mesh handle) {
    FLEET_BEGIN(fleet);
    ctc_fleet_mesh *mesh = find_mesh(fleet, handle);
    if (!mesh) return fleet->error.code;
    uint32_t bodies = 0;
    for (uint32_t i = 0; i < fleet->n_connections; i++)
        if (mesh_at(fleet, mesh, i)) bodies += (*mesh_at(fleet, mesh, i))->bodies;
    if (bodies)
        return ctc_fill_error(&fleet->error, CONTACTD_CONFLICT, "fleet", "mesh",
                              "%u bodies of this fleet use mesh %u: remove them or close their scenes first", bodies,
                              handle);
    contactd_code code = CONTACTD_OK;
    for (uint32_t s = 0; s < fleet->servers.n && code == CONTACTD_OK; s++)
        if (fleet->servers.list[s].is_up) code = remove_from(fleet, fleet->servers.list[s].address, mesh);
    for (uint32_t i = 0; i < fleet->n_connections; i++) {
        ctc_mesh **of_client = mesh_at(fleet, mesh, i);
        if (of_client && code == CONTACTD_OK)
            ctc_mesh_free(of_client);
        else if (of_client)
            (*of_client)->server = 0; /* it may be gone there: it is looked for, or sent again */
    }
    if (code != CONTACTD_OK) return code;
    ctc_fleet_mesh_free(mesh);
    fleet->meshes[handle - 1] = NULL;
    return CONTACTD_OK;
}
