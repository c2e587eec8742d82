/* handle_meshes.c - /v1/meshes and /v1/meshes/{mesh}. See handlers.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/units.h"
#include "server/base/name.h"
#include "server/http/answers.h"
#include "server/http/geometry.h"
#include "server/http/handlers.h"
#include "server/http/requests.h"
#include "server/http/text.h"

static bool may_register(const identity *who, problem *p) {
    if (role_simulates(who->role)) return true;
    return problem_set(p, CONTACTD_FORBIDDEN, "role",
                       "%s has the role %s; registering and removing meshes takes the role simulator or admin",
                       who->name, role_name(who->role));
}

bool handler_find_mesh(const service *service, const identity *who, const char *text, mesh_record *out, problem *p) {
    uint64_t handle;
    server_error error = {0};
    if (route_number(text, INT64_MAX, &handle)) {
        if (registry_find_mesh(service->registry, handle, NULL, who, out, NULL, &error)) return true;
        /* Eight digits may also be the beginning of a hash. */
        if (error.code != CONTACTD_NOT_FOUND || !request_is_hash(text)) return problem_take(p, &error);
    } else if (!request_is_hash(text)) {
        char shown[96];
        text_clean(text, shown, sizeof shown);
        return problem_set(p, CONTACTD_NOT_FOUND, "mesh",
                           "there is no mesh %s: expected its number, or its hash (8 hexadecimal digits or more)",
                           shown);
    }
    char hash[33];
    size_t n = 0;
    for (; text[n] && n < sizeof hash - 1; n++) hash[n] = (char)tolower((unsigned char)text[n]);
    hash[n] = 0;
    error = (server_error){0};
    bool found = registry_is_stored(service->registry, hash)
                     ? registry_restore_mesh(service->registry, hash, who, out, &error)
                     : registry_find_mesh(service->registry, 0, hash, who, out, NULL, &error);
    return found || problem_take(p, &error);
}

/* How a mesh is to be registered:
 * ?name=...&repair=1&max_hole=...&weld=...&scale=0.001&open_direction=X,Y,Z&closing=wrap&resolution=... */
typedef struct upload {
    char name[REGISTRY_NAME];
    ct_mesh_options options;
    ct_mesh_changes changes;
} upload;

/* how: it was just registered; NULL: it was there. */
static void show(const service *service, json_out *out, const mesh_record *mesh, const upload *how) {
    answer_mesh(out, mesh, ct_engine_mesh_bytes(service->engine, mesh->info.hash), how ? &how->changes : NULL,
                how && how->options.repair, how ? how->options.closing : mesh->info.closing,
                how ? how->changes.deviation : mesh->info.deviation);
}

static bool list(const service *service, const http_request *request, http_answer *answer, problem *p) {
    mesh_record *meshes = NULL;
    size_t n = 0;
    server_error error = {0};
    json_out out;
    pager pager = {0};
    if (!request_page(request->query, &pager.page, p)) return false;
    if (!registry_list_meshes(service->registry, &meshes, &n, &error)) return problem_take(p, &error);
    json_out_init(&out, SIZE_MAX);
    json_out_object(&out, NULL);
    json_out_array(&out, "meshes");
    for (size_t i = 0; i < n; i++) {
        bool visible = registry_may_use_mesh(service->registry, meshes[i].handle, &request->who);
        if (visible && pager_takes(&pager, meshes[i].handle)) show(service, &out, &meshes[i], NULL);
    }
    json_out_array_end(&out);
    pager_finish(&pager, &out);
    json_out_object_end(&out);
    free(meshes);
    return handler_finish(&out, 200, answer, p);
}

static bool query_name(text_view value, upload *out, problem *p) {
    server_error error = {0};
    if (!text_unescape(value.data, value.size, true, out->name, REGISTRY_NAME) ||
        !text_is_utf8(out->name, strlen(out->name)))
        return problem_set(p, CONTACTD_INVALID_ARGUMENT, "name",
                           "the query parameter name is not percent-encoded UTF-8 of at most %d bytes without control "
                           "characters",
                           REGISTRY_NAME - 1);
    return name_check(out->name, "mesh", &error) || problem_take(p, &error);
}

static bool query_repair(text_view value, upload *out, problem *p) {
    out->options.repair = value.size == 1 && value.data[0] == '1';
    return out->options.repair || (value.size == 1 && value.data[0] == '0') ||
           problem_set(p, CONTACTD_INVALID_ARGUMENT, "repair", "the query parameter repair is neither 0 nor 1");
}

static bool query_max_hole(text_view value, upload *out, problem *p) {
    char text[64], *end = text;
    if (text_unescape(value.data, value.size, true, text, sizeof text)) out->options.max_hole = strtod(text, &end);
    return (end != text && !*end) ||
           problem_set(p, CONTACTD_INVALID_ARGUMENT, "max_hole", "the query parameter max_hole is not a number of m");
}

static bool query_weld(text_view value, upload *out, problem *p) {
    char text[64], *end = text;
    if (text_unescape(value.data, value.size, true, text, sizeof text)) out->options.weld = strtod(text, &end);
    return (end != text && !*end) ||
           problem_set(p, CONTACTD_INVALID_ARGUMENT, "weld", "the query parameter weld is not a number of m");
}

static bool query_scale(text_view value, upload *out, problem *p) {
    char text[64], *end = text;
    if (text_unescape(value.data, value.size, true, text, sizeof text)) out->options.scale = strtod(text, &end);
    return (end != text && !*end && out->options.scale != 0) ||
           problem_set(p, CONTACTD_INVALID_ARGUMENT, "scale", "the query parameter scale is not a number of m above 0");
}

static bool query_unit(text_view value, upload *out, problem *p) {
    out->options.scale = contactd_unit_of(value.data, value.size);
    return out->options.scale > 0 || problem_set(p, CONTACTD_INVALID_ARGUMENT, "unit",
                                                 "the query parameter unit is none of " CONTACTD_UNIT_NAMES);
}

static bool query_open_direction(text_view value, upload *out, problem *p) {
    char text[128], *at = text;
    bool good = text_unescape(value.data, value.size, true, text, sizeof text);
    for (int k = 0; k < 3 && good; k++) {
        char *end = at;
        out->options.open_direction[k] = strtod(at, &end);
        good = end != at && *end == (k < 2 ? ',' : 0);
        at = end + 1;
    }
    const double *d = out->options.open_direction;
    return (good && (d[0] != 0 || d[1] != 0 || d[2] != 0)) ||
           problem_set(p, CONTACTD_INVALID_ARGUMENT, "open_direction",
                       "the query parameter open_direction is not X,Y,Z: three numbers, not all 0");
}

static bool query_closing(text_view value, upload *out, problem *p) {
    const bool is_wrap = value.size == 4 && memcmp(value.data, "wrap", 4) == 0;
    out->options.closing = is_wrap ? CT_CLOSING_WRAP : CT_CLOSING_HULL;
    return is_wrap || (value.size == 4 && memcmp(value.data, "hull", 4) == 0) ||
           problem_set(
               p, CONTACTD_INVALID_ARGUMENT, "closing",
               "the query parameter closing is neither hull nor wrap: leave it out for a mesh that is closed as it is");
}

static bool query_resolution(text_view value, upload *out, problem *p) {
    char text[64], *end = text;
    if (text_unescape(value.data, value.size, true, text, sizeof text)) out->options.resolution = strtod(text, &end);
    return (end != text && !*end) || problem_set(p, CONTACTD_INVALID_ARGUMENT, "resolution",
                                                 "the query parameter resolution is not a number of m");
}

static bool query_upload(const char *query, upload *out, problem *p) {
    static const struct {
        const char *key;
        bool (*take)(text_view value, upload *out, problem *p);
    } known[] = {{"name", query_name},
                 {"repair", query_repair},
                 {"max_hole", query_max_hole},
                 {"weld", query_weld},
                 {"scale", query_scale},
                 {"unit", query_unit},
                 {"open_direction", query_open_direction},
                 {"closing", query_closing},
                 {"resolution", query_resolution}};
    enum { KNOWN = sizeof known / sizeof *known };
    bool is_seen[KNOWN] = {false}, has_scale = false;
    text_view key, value;
    memset(out, 0, sizeof *out);
    ct_mesh_options_init(&out->options);
    while (text_next_parameter(&query, &key, &value)) {
        size_t k = 0;
        while (k < KNOWN && (strlen(known[k].key) != key.size || memcmp(known[k].key, key.data, key.size) != 0)) k++;
        if (k == KNOWN) {
            char name[64] = "", shown[64];
            if (!text_unescape(key.data, key.size, true, name, sizeof name)) name[0] = 0;
            return problem_set(p, CONTACTD_INVALID_ARGUMENT, "query",
                               "unknown query parameter %s; known are: " HTTP_QUERY_MESH,
                               text_clean(name, shown, sizeof shown));
        }
        if (is_seen[k])
            return problem_set(p, CONTACTD_INVALID_ARGUMENT, known[k].key, "the query parameter %s stands twice",
                               known[k].key);
        is_seen[k] = true;
        if (known[k].take == query_scale || known[k].take == query_unit) {
            if (has_scale)
                return problem_set(p, CONTACTD_INVALID_ARGUMENT, "scale",
                                   "the query parameters unit and scale say the same: leave out one of them");
            has_scale = true;
        }
        if (!known[k].take(value, out, p)) return false;
    }
    return true;
}

static bool add_json(const service *service, const http_request *request, upload *how, mesh_record *out, problem *p) {
    mesh_request mesh;
    server_error error = {0};
    const char *name = how->name;
    if (!request_mesh(request->body, request->size, &mesh, p)) return false;
    if (name[0] && mesh.name[0] && strcmp(name, mesh.name) != 0) {
        request_mesh_free(&mesh);
        return problem_set(p, CONTACTD_INVALID_ARGUMENT, "name", "the query and the body give different names");
    }
    bool ok = registry_register_arrays(service->registry, mesh.positions, CT_F64, mesh.n_vertices, mesh.triangles,
                                       mesh.n_triangles, name[0] ? name : mesh.name, &how->options, &request->who, out,
                                       &how->changes, &error);
    request_mesh_free(&mesh);
    return ok || problem_take(p, &error);
}

static bool add(const service *service, const http_request *request, http_answer *answer, problem *p) {
    mesh_record mesh;
    upload how;
    server_error error = {0};
    if (!may_register(&request->who, p) || !query_upload(request->query, &how, p)) return false;
    bool json = request->media.kind == MEDIA_JSON ||
                (request->media.kind == MEDIA_ANY && media_looks_like_json(request->body, request->size));
    if (json) {
        if (!add_json(service, request, &how, &mesh, p)) return false;
    } else if (!registry_register_file(service->registry, request->body, request->size, request->media.format, how.name,
                                       &how.options, &request->who, &mesh, &how.changes, &error)) {
        return problem_take(p, &error);
    }
    json_out out;
    json_out_init(&out, 1 << 16);
    show(service, &out, &mesh, &how);
    if (!handler_finish(&out, mesh.existed ? 200 : 201, answer, p)) return false;
    snprintf(answer->location, sizeof answer->location, "/v1/meshes/%s", mesh.info.hash);
    return true;
}

static bool get(const service *service, const mesh_record *mesh, http_answer *answer, problem *p) {
    json_out out;
    json_out_init(&out, 1 << 16);
    show(service, &out, mesh, NULL);
    return handler_finish(&out, 200, answer, p);
}

/* A path with the whole hash names this content for ever; another one may name another mesh tomorrow. */
static bool get_geometry(const service *service, const http_request *request, const mesh_record *record,
                         http_answer *answer, problem *p) {
    ct_mesh *mesh = NULL;
    server_error error = {0};
    if (!registry_find_mesh(service->registry, record->handle, NULL, &request->who, NULL, &mesh, &error))
        return problem_take(p, &error);
    uint64_t size = 0;
    geometry *geometry = geometry_open(mesh, &size);
    ct_mesh_release(&mesh);
    if (!geometry)
        return problem_set(p, CONTACTD_OUT_OF_MEMORY, "mesh", "no memory for the mesh's file, or it has 4 GiB or more");
    *answer = (http_answer){.status = 200,
                            .type = "model/gltf-binary",
                            .source = {geometry_read, geometry_close, NULL, geometry},
                            .size = size,
                            .is_lasting = strcmp(request->match.parameter[0], record->info.hash) == 0};
    snprintf(answer->etag, sizeof answer->etag, "\"%s\"", record->info.hash);
    return true;
}

static bool drop(const service *service, const identity *who, const mesh_record *mesh, http_answer *answer,
                 problem *p) {
    server_error error = {0};
    bool others = false;
    if (!may_register(who, p)) return false;
    if (!role_administers(who->role)) registry_disown_mesh(service->registry, mesh->handle, who, &others);
    if (!others && !registry_remove_mesh(service->registry, mesh->handle, NULL, &error)) return problem_take(p, &error);
    *answer = (http_answer){.status = 204};
    return true;
}

bool handle_mesh_routes(const service *service, const http_request *request, http_answer *answer, problem *p) {
    if (request->match.route == ROUTE_MESHES)
        return request->match.method == HTTP_GET ? list(service, request, answer, p) : add(service, request, answer, p);
    mesh_record mesh;
    if (!handler_find_mesh(service, &request->who, request->match.parameter[0], &mesh, p)) return false;
    if (request->match.route == ROUTE_GEOMETRY) return get_geometry(service, request, &mesh, answer, p);
    return request->match.method == HTTP_GET ? get(service, &mesh, answer, p)
                                             : drop(service, &request->who, &mesh, answer, p);
}
