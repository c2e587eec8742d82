/* meshes.c - registering meshes, the copies kept of them, and the server's list. */
#include "client_c/meshes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/base.h"
#include "client_c/records.h"
#include "client_c/restore.h"
#include "client_c/session.h"
#include "proto/units.h"

static void info_of(const wire_mesh_info *from, contactd_mesh_info *to) {
    *to = (contactd_mesh_info){.id = from->mesh,
                               .hash = from->hash,
                               .name = from->name,
                               .vertices = from->vertices,
                               .triangles = from->triangles,
                               .bytes = from->bytes,
                               .volume = from->volume,
                               .area = from->area,
                               .bodies = from->bodies,
                               .existed = from->existed,
                               .closing_vertices = from->closing_vertices,
                               .closing = from->closed_as,
                               .deviation = from->deviation,
                               .shells = from->shells,
                               .doubled_shells = from->doubled_shells};
    memcpy(to->center_of_mass, from->center_of_mass, sizeof to->center_of_mass);
    memcpy(to->inertia, from->inertia, sizeof to->inertia);
    memcpy(to->lo, from->lo, sizeof to->lo);
    memcpy(to->hi, from->hi, sizeof to->hi);
}

/* ---- registering ---- */

static const uint32_t MESH_COOKIE = 0x6d65736a;

double contactd_unit(const char *name) {
    return name ? contactd_unit_of(name, strlen(name)) : 0;
}

void contactd_mesh_options_init(contactd_mesh_options *options) {
    if (!options) return;
    *options = (contactd_mesh_options){.cookie = MESH_COOKIE};
}

static contactd_code take_options(contactd_client *client, const contactd_mesh_options *options,
                                  wire_register_mesh *source) {
    if (!options) return CONTACTD_OK;
    if (options->cookie != MESH_COOKIE)
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "mesh", "options",
                        "the options were not set by contactd_mesh_options_init");
    source->repair = options->repair != 0;
    source->max_hole = options->max_hole;
    source->scale = options->scale;
    source->weld = options->weld;
    if ((int)options->closing < CONTACTD_CLOSING_NONE || options->closing > CONTACTD_CLOSING_WRAP)
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "mesh", "closing", "closing %d is none of contactd_closing",
                        (int)options->closing);
    source->closing = (wire_mesh_closing)options->closing;
    source->resolution = options->resolution;
    memcpy(source->open_direction, options->open_direction, sizeof source->open_direction);
    return CONTACTD_OK;
}

static void take_repair(const wire_mesh_info *info, contactd_repair *to) {
    const double *from = info->repair;
    *to = (contactd_repair){.closing = (contactd_closing)info->closing,
                            .deviation = info->deviation,
                            .uneven_polygons = info->uneven_polygons,
                            .unevenness = info->unevenness,
                            .was_asked = from != NULL};
    if (!from) return;
    for (int k = 0; k < CONTACTD_CHANGE_KINDS; k++) to->counts[k] = (uint64_t)from[k];
    to->fill_triangles = (uint64_t)from[CONTACTD_CHANGE_KINDS];
    to->moved = info->moved;
    to->self_overlap = info->self_overlap < 0 ? NAN : info->self_overlap;
    for (uint32_t at = WIRE_REPAIR_COUNTS; at < info->n_repair; at += WIRE_REPAIR_ROW) {
        const double *row = from + at;
        if (!(row[0] >= 0 && row[0] < CONTACTD_CHANGE_KINDS)) continue; /* of a newer server */
        to->changes[to->n_changes++] = (contactd_change){.kind = (contactd_change_kind)row[0],
                                                         .index = (uint64_t)row[1],
                                                         .at = {row[2], row[3], row[4]},
                                                         .edges = (uint32_t)row[5]};
    }
}

static bool keep(wire_array *array, void **copy) {
    size_t bytes = (size_t)array->count * wire_dtype_size(array->dtype);
    if (array->dtype == WIRE_NONE) return true;
    *copy = malloc(bytes ? bytes : 1);
    if (!*copy) return false;
    memcpy(*copy, array->data, bytes);
    array->data = *copy;
    return true;
}

static contactd_code add_mesh(contactd_client *client, const char *name, const wire_register_mesh *source,
                              contactd_mesh *out) {
    *out = 0;
    ctc_mesh *mesh = calloc(1, sizeof *mesh);
    if (!mesh) return ctc_no_memory(client, "mesh");
    mesh->source = *source;
    mesh->name = ctc_strdup(name);
    mesh->source.name = mesh->name;
    contactd_code code = CONTACTD_OK;
    if (!mesh->name || !ctc_grow32(&client->meshes, client->n_meshes, &client->cap_meshes, sizeof *client->meshes))
        code = ctc_no_memory(client, "mesh");
    if (code == CONTACTD_OK) {
        wire_register_mesh named = *source;
        named.name = mesh->name;
        do code = ctc_send_register(client, mesh, &named);
        while (code == CTC_AGAIN);
    }
    if (code == CONTACTD_OK) take_repair(&client->message.u.mesh_info, &mesh->repair);
    if (code == CONTACTD_OK && client->keep_meshes) {
        mesh->kept = keep(&mesh->source.vertices, &mesh->positions) &&
                     keep(&mesh->source.triangles, &mesh->triangles) && keep(&mesh->source.file, &mesh->file);
        if (!mesh->kept) code = ctc_no_memory(client, "mesh");
    }
    if (code != CONTACTD_OK) {
        ctc_mesh_free(&mesh);
        return code;
    }
    if (!mesh->kept) mesh->source = (wire_register_mesh){0};
    client->meshes[client->n_meshes++] = mesh;
    *out = client->n_meshes;
    return CONTACTD_OK;
}

contactd_code ctc_register_arrays(contactd_client *client, const char *name, const void *positions, wire_dtype dtype,
                                  size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                  const contactd_mesh_options *options, contactd_mesh *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "mesh", out);
    *out = 0;
    if ((n_vertices && !positions) || (n_triangles && !triangles))
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "mesh", positions ? "triangles" : "positions", "%s is NULL",
                        positions ? "triangles" : "positions");
    if (n_vertices > UINT32_MAX || n_triangles > UINT32_MAX)
        return ctc_fail(client, CONTACTD_LIMIT_EXCEEDED, "mesh", n_vertices > UINT32_MAX ? "positions" : "triangles",
                        "%zu vertices and %zu triangles are more than any server takes", n_vertices, n_triangles);
    for (size_t i = 0; i < 3 * n_triangles; i++) {
        if (triangles[i] < n_vertices) continue;
        /* A signed index that went through uint32_t is shown as what it was. */
        long long index = triangles[i] > INT32_MAX ? (long long)(int32_t)triangles[i] : (long long)triangles[i];
        return ctc_fail(client, CONTACTD_INVALID_MESH, name && *name ? name : "mesh", "triangles",
                        "triangle %zu refers to vertex %lld, but there are %zu vertices: expected 0 to %zu", i / 3,
                        index, n_vertices, n_vertices ? n_vertices - 1 : 0);
    }
    wire_register_mesh source = {.vertices = {dtype, 3 * (uint64_t)n_vertices, positions},
                                 .triangles = {WIRE_U32, 3 * (uint64_t)n_triangles, triangles}};
    contactd_code code = take_options(client, options, &source);
    return code != CONTACTD_OK ? code : add_mesh(client, name, &source, out);
}

contactd_code contactd_register_mesh(contactd_client *client, const char *name, const float *positions,
                                     size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                     contactd_mesh *out) {
    return ctc_register_arrays(client, name, positions, WIRE_F32, n_vertices, triangles, n_triangles, NULL, out);
}

contactd_code contactd_register_mesh_with(contactd_client *client, const char *name, const float *positions,
                                          size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                          const contactd_mesh_options *options, contactd_mesh *out) {
    return ctc_register_arrays(client, name, positions, WIRE_F32, n_vertices, triangles, n_triangles, options, out);
}

contactd_code contactd_register_mesh_f64(contactd_client *client, const char *name, const double *positions,
                                         size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                         contactd_mesh *out) {
    return ctc_register_arrays(client, name, positions, WIRE_F64, n_vertices, triangles, n_triangles, NULL, out);
}

contactd_code contactd_register_mesh_bytes(contactd_client *client, const char *name, const void *bytes, size_t size,
                                           contactd_format format, contactd_mesh *out) {
    return contactd_register_mesh_bytes_with(client, name, bytes, size, format, NULL, out);
}

contactd_code contactd_register_mesh_bytes_with(contactd_client *client, const char *name, const void *bytes,
                                                size_t size, contactd_format format,
                                                const contactd_mesh_options *options, contactd_mesh *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "mesh", out);
    *out = 0;
    if (!bytes && size) return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "mesh", "bytes", "bytes is NULL");
    if (format < CONTACTD_FORMAT_AUTO || format > CONTACTD_FORMAT_GLTF)
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "mesh", "format", "format %d is none of contactd_format",
                        (int)format);
    wire_register_mesh source = {.file = {WIRE_U8, size, bytes}, .format = (wire_mesh_format)format};
    contactd_code code = take_options(client, options, &source);
    return code != CONTACTD_OK ? code : add_mesh(client, name, &source, out);
}

contactd_code contactd_register_mesh_file(contactd_client *client, const char *path, contactd_mesh *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "mesh", out);
    *out = 0;
    CTC_REQUIRE(client, "mesh", path);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = NULL;
    size_t size = 0, cap = 0;
    int why = file ? 0 : errno;
    while (file && !why) {
        if (size == cap && !ctc_grow(&bytes, cap ? cap : 1u << 16, &cap, 1)) {
            why = ENOMEM;
            break;
        }
        size_t n = fread(bytes + size, 1, cap - size, file);
        size += n;
        if (n == 0) {
            if (ferror(file)) why = errno ? errno : EIO;
            break;
        }
    }
    if (file) fclose(file);
    contactd_code code =
        why ? ctc_fail(client, CONTACTD_INVALID_ARGUMENT, name, "path", "cannot read %s: %s", path, strerror(why))
            : contactd_register_mesh_bytes(client, name, bytes, size, CONTACTD_FORMAT_AUTO, out);
    free(bytes);
    return code;
}

contactd_code contactd_get_mesh_repair(contactd_client *client, contactd_mesh mesh, contactd_repair *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "mesh", out);
    const ctc_mesh *found = ctc_find_mesh(client, mesh);
    if (!found) return client->error.code;
    *out = found->repair;
    return CONTACTD_OK;
}

/* ---- looking and removing ---- */

static contactd_code get_mesh(contactd_client *client, contactd_mesh handle, bool with_geometry) {
    ctc_mesh *mesh = ctc_find_mesh(client, handle);
    if (!mesh) return client->error.code;
    char object[CTC_OBJECT];
    wire_type expected = with_geometry ? WIRE_MESH_GEOMETRY : WIRE_MESH_INFO;
    contactd_code code;
    do {
        code = ctc_ensure_mesh(client, mesh);
        if (code != CONTACTD_OK) continue;
        wire_message m = {.type = WIRE_GET_MESH, .u.get_mesh = {.mesh = mesh->server, .with_geometry = with_geometry}};
        code = ctc_exchange(client, &m, expected, ctc_mesh_object(client, mesh, object));
        if (code == CONTACTD_STALE_HANDLE && mesh->kept) { /* it made room for others */
            mesh->server = 0;
            code = CTC_AGAIN;
        }
    } while (code == CTC_AGAIN);
    return code;
}

contactd_code contactd_get_mesh_info(contactd_client *client, contactd_mesh mesh, contactd_mesh_info *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "mesh", out);
    contactd_code code = get_mesh(client, mesh, false);
    if (code == CONTACTD_OK) info_of(&client->message.u.mesh_info, out);
    return code;
}

contactd_code contactd_get_mesh_geometry(contactd_client *client, contactd_mesh mesh, contactd_geometry *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "mesh", out);
    contactd_code code = get_mesh(client, mesh, true);
    if (code != CONTACTD_OK) return code;
    const wire_mesh_geometry *g = &client->message.u.mesh_geometry;
    if (g->vertices.dtype != WIRE_F32)
        return ctc_fail(client, CONTACTD_INTERNAL, "mesh", "vertices",
                        "the server sent doubles, which were not asked for");
    size_t positions = (size_t)g->vertices.count * 4, triangles = (size_t)g->triangles.count * 4;
    void *copy = realloc(client->list, positions + triangles + 1); /* frames come at any address */
    if (!copy) return ctc_no_memory(client, "mesh");
    client->list = copy;
    memcpy(copy, g->vertices.data, positions);
    memcpy((char *)copy + positions, g->triangles.data, triangles);
    *out = (contactd_geometry){.positions = copy,
                               .n_vertices = positions / 12,
                               .triangles = (const uint32_t *)((char *)copy + positions),
                               .n_triangles = triangles / 12};
    return CONTACTD_OK;
}

static void forget(contactd_client *client, contactd_mesh handle) {
    ctc_mesh_free(&client->meshes[handle - 1]);
    client->error = (contactd_error){.code = CONTACTD_OK};
}

contactd_code contactd_remove_mesh(contactd_client *client, contactd_mesh handle) {
    CTC_BEGIN(client);
    ctc_mesh *mesh = ctc_find_mesh(client, handle);
    if (!mesh) return client->error.code;
    char object[CTC_OBJECT];
    contactd_code code;
    do {
        wire_message m = {.type = WIRE_REMOVE_MESH, .u.remove_mesh = {.mesh = mesh->server, .hash = mesh->hash}};
        code = ctc_exchange(client, &m, WIRE_DONE, ctc_mesh_object(client, mesh, object));
    } while (code == CTC_AGAIN);
    if (code == CONTACTD_NOT_FOUND || code == CONTACTD_STALE_HANDLE)
        code = CONTACTD_OK; /* gone is what was asked for */
    if (code == CONTACTD_OK) forget(client, handle);
    return code;
}

contactd_code contactd_forget_mesh(contactd_client *client, contactd_mesh handle) {
    CTC_BEGIN(client);
    ctc_mesh *mesh = ctc_find_mesh(client, handle);
    if (!mesh) return client->error.code;
    char object[CTC_OBJECT];
    if (mesh->bodies)
        return ctc_fail(client, CONTACTD_CONFLICT, ctc_mesh_object(client, mesh, object), "mesh",
                        "%u bodies of this client use it: remove them or close their scene first", mesh->bodies);
    forget(client, handle);
    return CONTACTD_OK;
}

contactd_code contactd_list_meshes(contactd_client *client, const contactd_mesh_info **out, size_t *n) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "list of meshes", out);
    CTC_REQUIRE(client, "list of meshes", n);
    *out = NULL;
    *n = 0;
    contactd_code code;
    do {
        wire_message m = {.type = WIRE_LIST_MESHES};
        code = ctc_exchange(client, &m, WIRE_MESH_LIST, "server");
    } while (code == CTC_AGAIN);
    if (code != CONTACTD_OK) return code;
    const wire_mesh_list *from = &client->message.u.mesh_list;
    contactd_mesh_info *list = realloc(client->list, (from->n + 1) * sizeof *list);
    if (!list) return ctc_no_memory(client, "list of meshes");
    client->list = list;
    for (uint32_t i = 0; i < from->n; i++) info_of(&from->meshes[i], &list[i]);
    *out = list;
    *n = from->n;
    return CONTACTD_OK;
}

contactd_code contactd_find_mesh(contactd_client *client, const char *hash, contactd_mesh_info *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "mesh", hash);
    CTC_REQUIRE(client, "mesh", out);
    char object[CTC_OBJECT];
    snprintf(object, sizeof object, "mesh %s", hash);
    contactd_code code;
    do {
        wire_message m = {.type = WIRE_GET_MESH, .u.get_mesh.hash = hash};
        code = ctc_exchange(client, &m, WIRE_MESH_INFO, object);
    } while (code == CTC_AGAIN);
    if (code == CONTACTD_OK) info_of(&client->message.u.mesh_info, out);
    return code;
}

contactd_code contactd_use_mesh(contactd_client *client, const char *hash, contactd_mesh *out) {
    if (out) *out = 0;
    contactd_mesh_info info;
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "mesh", out);
    contactd_code code = contactd_find_mesh(client, hash, &info);
    if (code != CONTACTD_OK) return code;
    ctc_mesh *mesh = calloc(1, sizeof *mesh);
    if (mesh) mesh->name = ctc_strdup(info.name);
    if (!mesh || !mesh->name ||
        !ctc_grow32(&client->meshes, client->n_meshes, &client->cap_meshes, sizeof *client->meshes)) {
        if (mesh) ctc_mesh_free(&mesh);
        return ctc_no_memory(client, "mesh");
    }
    snprintf(mesh->hash, sizeof mesh->hash, "%s", info.hash);
    mesh->server = info.id;
    mesh->vertices = info.vertices - info.closing_vertices;
    client->meshes[client->n_meshes++] = mesh;
    *out = client->n_meshes;
    return CONTACTD_OK;
}

contactd_code contactd_remove_mesh_by_hash(contactd_client *client, const char *hash) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "mesh", hash);
    char object[CTC_OBJECT];
    snprintf(object, sizeof object, "mesh %s", hash);
    contactd_code code;
    do {
        wire_message m = {.type = WIRE_REMOVE_MESH, .u.remove_mesh.hash = hash};
        code = ctc_exchange(client, &m, WIRE_DONE, object);
    } while (code == CTC_AGAIN);
    return code;
}
