/* requests.c - see requests.h. */
#include "server/http/requests.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/name.h"
#include "server/http/json_in.h"

enum { MAX_TTL_S = 31536000 }; /* a year */

static bool take_name(const json_fields *fields, const char *object, char out[REGISTRY_NAME]) {
    const char *name = "";
    bool has;
    server_error error = {0};
    if (!json_take_string(fields, "name", REGISTRY_NAME - 1, &name, &has)) return false;
    if (!name_check(name, object, &error)) return problem_take(fields->problem, &error);
    snprintf(out, REGISTRY_NAME, "%s", name);
    return true;
}

/* ---- meshes ---- */

bool request_mesh(const char *bytes, size_t size, mesh_request *out, problem *p) {
    static const char *const known[] = {"name", "vertices", "triangles", NULL};
    json_fields fields;
    memset(out, 0, sizeof *out);
    json_t *root = json_in_parse(bytes, size, known, p);
    bool ok = root && json_fields_begin(&fields, root, "", known, p) && take_name(&fields, "mesh", out->name) &&
              json_take_doubles(&fields, "vertices", 3, &out->positions, &out->n_vertices, NULL) &&
              json_take_indices(&fields, "triangles", 3, &out->triangles, &out->n_triangles, NULL);
    json_decref(root);
    if (!ok) request_mesh_free(out);
    return ok;
}

void request_mesh_free(mesh_request *request) {
    free(request->positions);
    free(request->triangles);
    memset(request, 0, sizeof *request);
}

/* ---- scenes ---- */

/* A number, or three of x, y and z. */
static bool take_three(const json_fields *fields, const ct_setting_row *row, ct_scene_settings *out, bool *has) {
    const json_t *value = NULL;
    if (!json_take_value(fields, row->name, &value, has)) return false;
    if (!value) return true;
    const bool three = json_is_array(value);
    if (three && json_array_size(value) != 3)
        return problem_set(fields->problem, CONTACTD_WRONG_LENGTH, row->name,
                           "%s has %zu numbers; expected one, or three for x, y and z", row->name,
                           json_array_size(value));
    for (size_t i = 0; i < 3; i++) {
        const json_t *number = three ? json_array_get(value, i) : value;
        char place[40];
        snprintf(place, sizeof place, three ? "%s[%zu]" : "%s", row->name, i);
        if (!json_is_integer(number))
            return json_wrong_type(fields, place, three ? "an integer" : "an integer or three", number);
        const json_int_t n = json_integer_value(number);
        if (n < (json_int_t)row->from || n > (json_int_t)row->to)
            return problem_set(fields->problem, CONTACTD_OUT_OF_RANGE, place, "%s is %lld; expected %llu to %llu",
                               place, (long long)n, (unsigned long long)row->from, (unsigned long long)row->to);
        ct_setting_set_integer(row, out, (int)i, n);
    }
    return true;
}

/* The index of a row's choice; of the method, whether the engine has it is asked when the scene is opened or changed. */
static bool take_choice(const json_fields *fields, const ct_setting_row *row, ct_scene_settings *out, bool *has) {
    enum { MOST = 16 };
    const char *names[MOST] = {NULL};
    int which = 0;
    for (int k = 0; k < MOST - 1 && row->choices[k].name; k++) names[k] = row->choices[k].name;
    if (!json_take_word(fields, row->name, names, &which, has)) return false;
    if (*has) ct_setting_set_integer(row, out, 0, row->choices[which].number);
    return true;
}

static bool take_setting(const json_fields *fields, const ct_setting_row *row, ct_scene_settings *out, bool *has) {
    bool flag = false;
    int64_t integer = 0;
    double number = 0;
    switch (row->type) {
    case CT_SETTING_IS_U32X3:
        return take_three(fields, row, out, has);
    case CT_SETTING_IS_CHOICE:
        return take_choice(fields, row, out, has);
    case CT_SETTING_IS_FLAG:
        if (!json_take_bool(fields, row->name, &flag, has)) return false;
        ct_setting_set_integer(row, out, 0, flag);
        break;
    case CT_SETTING_IS_U32:
    case CT_SETTING_IS_U64:
        if (!json_take_integer(fields, row->name, 0, (int64_t)row->to, &integer, has)) return false;
        ct_setting_set_integer(row, out, 0, integer);
        break;
    case CT_SETTING_IS_F64:
        if (!json_take_number(fields, row->name, -DBL_MAX, DBL_MAX, &number, has)) return false;
        ct_setting_set_number(row, out, number);
    }
    return true;
}

/* Wrong numbers are refused before the scene is looked for. */
static bool take_settings(const json_fields *fields, ct_settings_change *out) {
    memset(out, 0, sizeof *out);
    ct_scene_settings_init(&out->to);
    for (int s = 0; s < CT_SETTINGS; s++) {
        const ct_setting_row *row = &ct_setting_rows[s];
        bool has = false;
        char message[512];
        if (!take_setting(fields, row, &out->to, &has)) return false;
        if (!has) continue;
        const contactd_code code = ct_setting_check_request(row, &out->to, message, sizeof message);
        if (code) return problem_set(fields->problem, code, row->name, "%s", message);
        out->given |= CT_GIVEN(s);
    }
    return true;
}

/* The names of all settings after `own`, for json_in_parse. */
enum { MOST_FIELDS = 48 };
static_assert((int)CT_SETTINGS + 8 < (int)MOST_FIELDS, "a request has more fields");
static void list_fields(const char *const *own, const char *known[MOST_FIELDS]) {
    int n = 0;
    for (; own[n]; n++) known[n] = own[n];
    for (int s = 0; s < CT_SETTINGS; s++) known[n++] = ct_setting_rows[s].name;
    known[n] = NULL;
}

bool request_scene(const char *bytes, size_t size, scene_request *out, problem *p) {
    static const char *const own[] = {"name", "ttl_s", NULL};
    const char *known[MOST_FIELDS];
    json_fields fields;
    int64_t ttl_s = 0;
    list_fields(own, known);
    memset(out, 0, sizeof *out);
    json_t *root = json_in_parse(bytes, size, known, p);
    bool ok = root && json_fields_begin(&fields, root, "", known, p) && take_name(&fields, "scene", out->name) &&
              json_take_integer(&fields, "ttl_s", 0, MAX_TTL_S, &ttl_s, &out->has_ttl) &&
              take_settings(&fields, &out->settings);
    out->ttl_s = (uint32_t)ttl_s;
    json_decref(root);
    return ok;
}

bool request_settings(const char *bytes, size_t size, ct_settings_change *out, problem *p) {
    static const char *const own[] = {NULL};
    const char *known[MOST_FIELDS];
    json_fields fields;
    list_fields(own, known);
    memset(out, 0, sizeof *out);
    json_t *root = json_in_parse(bytes, size, known, p);
    bool ok = root && json_fields_begin(&fields, root, "", known, p) && take_settings(&fields, out);
    json_decref(root);
    return ok;
}

/* ---- bodies ---- */

bool request_is_hash(const char *text) {
    size_t n = strlen(text);
    return n >= 8 && n <= 32 && strspn(text, "0123456789abcdefABCDEF") == n;
}

static bool take_mesh(const json_fields *fields, body_request *out) {
    const json_t *value = NULL;
    if (!json_take_value(fields, "mesh", &value, NULL)) return false;
    static const char shape[] = "a mesh's number, or its hash (8 hexadecimal digits or more)";
    if (json_is_integer(value)) {
        int64_t number = 0;
        if (!json_take_integer(fields, "mesh", 1, INT64_MAX, &number, NULL)) return false;
        out->mesh = (uint64_t)number;
        return true;
    }
    if (!json_is_string(value)) return json_wrong_type(fields, "mesh", shape, value);
    if (!request_is_hash(json_string_value(value)))
        return problem_set(fields->problem, CONTACTD_INVALID_ARGUMENT, "mesh", "mesh: expected %s", shape);
    snprintf(out->mesh_hash, sizeof out->mesh_hash, "%s", json_string_value(value));
    return true;
}

/* Whether the body is a half-space, which decides what other fields it has. */
static bool take_is_half_space(const json_fields *fields, bool *out) {
    const json_t *kind = json_object_get(fields->object, "kind");
    *out = json_is_string(kind) && !strcmp(json_string_value(kind), "half_space");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"mesh", "normal", "offset"};
        if (json_object_get(fields->object, names[i]) && *out == (i == 0))
            return problem_set(fields->problem, CONTACTD_INVALID_ARGUMENT, names[i],
                               i == 0 ? "%s is for bodies with a mesh; a half-space has a normal and an offset"
                                      : "%s is for bodies of the kind \"half_space\"",
                               names[i]);
    }
    return true;
}

/* A half-space has a normal and an offset, or a pose. */
static bool take_plane(const json_fields *fields, ct_body_options *out) {
    double *normal = NULL, offset = 0;
    size_t n = 0;
    bool has_normal, has_pose, has;
    if (!json_take_pose(fields, "pose", out->pose, &has_pose) ||
        !json_take_number(fields, "offset", -DBL_MAX, DBL_MAX, &offset, &has) ||
        !json_take_doubles(fields, "normal", 1, &normal, &n, &has_normal))
        return false;
    ct_error cause = {0};
    bool ok = has_normal != has_pose && (has_normal || !has);
    if (!ok)
        problem_set(fields->problem, CONTACTD_INVALID_ARGUMENT, has_pose ? "pose" : "normal",
                    "a half-space takes a normal, with an offset or without, or a pose: give one of the two");
    if (ok && has_normal && n != 3)
        ok = problem_set(fields->problem, CONTACTD_WRONG_LENGTH, "normal", "normal has %zu numbers; expected 3", n);
    if (ok && has_normal && ct_plane_pose(normal, offset, out->pose, &cause))
        ok = problem_set(fields->problem, CONTACTD_OUT_OF_RANGE, cause.field, "%s", cause.message);
    free(normal);
    return ok;
}

/* null, as answers have what was not given, is as if left out. */
static bool take_of_material(const json_fields *fields, const char *name, double low, double high, double *out) {
    bool has;
    return json_is_null(json_object_get(fields->object, name)) || json_take_number(fields, name, low, high, out, &has);
}

static bool take_material(const json_fields *fields, ct_material *out) {
    return take_of_material(fields, "modulus", CT_MIN_MODULUS, CT_MAX_MODULUS, &out->modulus) &&
           take_of_material(fields, "friction", 0, CT_MAX_FRICTION, &out->friction) &&
           take_of_material(fields, "dissipation", 0, CT_MAX_DISSIPATION, &out->dissipation) &&
           take_of_material(fields, "static_friction", 0, CT_MAX_FRICTION, &out->static_friction);
}

static bool take_options(const json_fields *fields, bool is_half_space, ct_body_options *out) {
    static const char *const kinds[] = {"deformable", "rigid", "half_space", NULL};
    int kind = 0;
    int64_t group = out->group, mask = out->mask;
    bool has_kind, has_pose = false, has;
    if (!json_take_word(fields, "kind", kinds, &kind, &has_kind) ||
        !(is_half_space ? take_plane(fields, out) : json_take_pose(fields, "pose", out->pose, &has_pose)) ||
        !json_take_integer(fields, "group", 0, UINT32_MAX, &group, &has) ||
        !json_take_integer(fields, "mask", 0, UINT32_MAX, &mask, &has) ||
        !json_take_bool(fields, "self_contact", &out->self_contact, &has) || !take_material(fields, &out->material))
        return false;
    bool rigid = has_kind ? kind == 1 : has_pose;
    if (has_pose && !rigid)
        return problem_set(fields->problem, CONTACTD_INVALID_ARGUMENT, "pose",
                           "pose is for rigid bodies; a deformable body starts at its rest positions and moves by a "
                           "step's positions");
    out->kind = is_half_space ? CT_BODY_HALF_SPACE : rigid ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
    out->group = (uint32_t)group;
    out->mask = (uint32_t)mask;
    uint32_t *ignore = NULL;
    if (!json_take_indices(fields, "ignore", 1, &ignore, &out->n_ignore, &has)) return false;
    out->ignore = ignore;
    return true;
}

bool request_body(const char *bytes, size_t size, body_request *out, problem *p) {
    static const char *const known[] = {
        "mesh",   "kind",         "pose",    "normal",   "offset",      "group",           "mask",
        "ignore", "self_contact", "modulus", "friction", "dissipation", "static_friction", NULL};
    json_fields fields;
    bool is_half_space = false;
    memset(out, 0, sizeof *out);
    ct_body_options_init(&out->options);
    json_t *root = json_in_parse(bytes, size, known, p);
    bool ok = root && json_fields_begin(&fields, root, "", known, p) && take_is_half_space(&fields, &is_half_space) &&
              (is_half_space || take_mesh(&fields, out)) && take_options(&fields, is_half_space, &out->options);
    json_decref(root);
    return ok;
}

static bool take_new_material(const json_fields *fields, body_patch *out) {
    static const char *const known[] = {"other", "modulus", "friction", "dissipation", "static_friction", NULL};
    const json_t *value = NULL;
    json_fields inner;
    int64_t other = 0;
    bool has;
    if (!json_take_value(fields, "material", &value, &out->has_material)) return false;
    if (!out->has_material) return true;
    if (!json_fields_begin(&inner, value, "material.", known, fields->problem) ||
        !json_take_integer(&inner, "other", 1, UINT32_MAX, &other, &has) || !take_material(&inner, &out->material))
        return false;
    out->other = (uint32_t)other;
    return true;
}

bool request_body_patch(const char *bytes, size_t size, body_patch *out, problem *p) {
    static const char *const known[] = {"mesh", "material", NULL};
    json_fields fields;
    body_request mesh = {0};
    *out = (body_patch){.material = CT_MATERIAL_NONE};
    json_t *root = json_in_parse(bytes, size, known, p);
    bool ok = root && json_fields_begin(&fields, root, "", known, p) && take_new_material(&fields, out);
    if (ok && (!out->has_material || json_object_get(root, "mesh"))) {
        ok = take_mesh(&fields, &mesh);
        out->has_mesh = true;
        out->mesh = mesh.mesh;
        memcpy(out->mesh_hash, mesh.mesh_hash, sizeof out->mesh_hash);
    }
    json_decref(root);
    return ok;
}

void request_body_free(body_request *request) {
    free((void *)(uintptr_t)request->options.ignore);
    request->options.ignore = NULL;
}

/* ---- overlaps ---- */

static bool take_placed_mesh(const json_fields *fields, const char *name, body_request *out) {
    static const char *const known[] = {"mesh", "pose", NULL};
    const json_t *value = NULL;
    json_fields inner;
    char path[8];
    bool has;
    snprintf(path, sizeof path, "%s.", name);
    ct_body_options_init(&out->options);
    out->options.kind = CT_BODY_RIGID;
    return json_take_value(fields, name, &value, NULL) &&
           json_fields_begin(&inner, value, path, known, fields->problem) && take_mesh(&inner, out) &&
           json_take_pose(&inner, "pose", out->options.pose, &has);
}

static bool check_overlap_method(const ct_settings_change *settings, problem *p) {
    if (!(settings->given & CT_GIVEN(CT_SETTING_METHOD)) || settings->to.method != CT_METHOD_EBPI) return true;
    return problem_set(p, CONTACTD_INVALID_ARGUMENT, "method",
                       "an overlap takes \"auto\", \"ldi\", \"exact\" or \"voxtree\", and no tolerance, which \"ebpi\" "
                       "needs: open a scene for it");
}

bool request_overlap(const char *bytes, size_t size, overlap_request *out, problem *p) {
    static const char *const known[] = {"a", "b", "method", "resolution", "pixel_size", "max_step_time", NULL};
    json_fields fields;
    memset(out, 0, sizeof *out);
    json_t *root = json_in_parse(bytes, size, known, p);
    bool ok = root && json_fields_begin(&fields, root, "", known, p) && take_placed_mesh(&fields, "a", &out->body[0]) &&
              take_placed_mesh(&fields, "b", &out->body[1]) && take_settings(&fields, &out->settings) &&
              check_overlap_method(&out->settings, p);
    json_decref(root);
    return ok;
}

/* ---- steps ---- */

static const struct {
    const char *name;
    uint32_t bit;
} wishes[] = {{"frame", CT_WANT_FRAME},     {"gradient", CT_WANT_GRADIENT}, {"friction", CT_WANT_FRICTION},
              {"forces", CT_WANT_FORCES},   {"spans", CT_WANT_SPANS},       {"inertia", CT_WANT_INERTIA},
              {"surface", CT_WANT_SURFACE}, {"ids", CT_WANT_IDS},           {"points", CT_WANT_POINTS}};
enum { WISHES = sizeof wishes / sizeof *wishes };

static bool take_want(const json_fields *fields, uint32_t *out) {
    const json_t *value = NULL;
    bool has;
    *out = CT_WANT_FRAME;
    if (!json_take_value(fields, "want", &value, &has)) return false;
    if (!has) return true;
    if (!json_is_array(value)) return json_wrong_type(fields, "want", "an array of words", value);
    *out = 0;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *word = json_string_value(json_array_get(value, i));
        size_t k = 0;
        while (word && k < WISHES && strcmp(word, wishes[k].name) != 0) k++;
        char place[32];
        snprintf(place, sizeof place, "want[%zu]", i);
        if (!word || k == WISHES)
            return problem_set(
                fields->problem, CONTACTD_INVALID_ARGUMENT, place,
                "%s: expected one of frame, gradient, friction, forces, spans, inertia, surface, ids, points", place);
        *out |= wishes[k].bit;
    }
    return true;
}

static bool take_update(const json_t *value, size_t index, ct_update *out, problem *p) {
    static const char *const known[] = {"body", "positions", "ranges", "indices", "pose", NULL};
    char place[36], path[40], both[48];
    json_fields fields;
    snprintf(place, sizeof place, "updates[%zu]", index);
    snprintf(path, sizeof path, "%s.", place);
    snprintf(both, sizeof both, "%sindices", path);
    int64_t body = 0;
    bool has_positions = false, has_ranges = false, has_indices = false, has_pose = false;
    double *positions = NULL;
    uint32_t *indices = NULL;
    size_t n_positions = 0, n_indices = 0;
    if (!json_fields_begin(&fields, value, path, known, p)) return false;
    bool ok = json_take_integer(&fields, "body", 1, UINT32_MAX, &body, NULL) &&
              json_take_doubles(&fields, "positions", 3, &positions, &n_positions, &has_positions);
    out->positions = positions; /* owned by the request from here on, also when the rest fails */
    ok = ok && json_take_indices(&fields, "ranges", 2, &indices, &n_indices, &has_ranges);
    out->indices = indices;
    if (!ok) return false;
    if (has_ranges && json_object_get(value, "indices"))
        return problem_set(p, CONTACTD_INVALID_ARGUMENT, both, "%s has both ranges and indices; expected one of them",
                           place);
    if (!has_ranges) {
        ok = json_take_indices(&fields, "indices", 1, &indices, &n_indices, &has_indices);
        out->indices = indices;
    }
    if (!ok || !json_take_pose(&fields, "pose", out->pose, &has_pose)) return false;
    if (has_pose && (has_ranges || has_indices))
        return problem_set(p, CONTACTD_INVALID_ARGUMENT, both, "%s has a pose, which takes no ranges or indices",
                           place);
    if (has_positions == has_pose)
        return problem_set(p, CONTACTD_INVALID_ARGUMENT, place, "%s has %s positions %s a pose; expected one of them",
                           place, has_pose ? "both" : "neither", has_pose ? "and" : "nor");
    out->body = (uint32_t)body;
    out->kind = has_pose      ? CT_UPDATE_POSE
                : has_ranges  ? CT_UPDATE_RANGES
                : has_indices ? CT_UPDATE_INDEXED
                              : CT_UPDATE_POSITIONS;
    out->dtype = CT_F64;
    out->count = n_positions;
    out->n_indices = has_ranges ? 2 * n_indices : n_indices;
    return true;
}

static bool take_updates(const json_fields *fields, step_request *out) {
    const json_t *value = NULL;
    bool has;
    if (!json_take_value(fields, "updates", &value, &has)) return false;
    if (!has) return true;
    if (!json_is_array(value)) return json_wrong_type(fields, "updates", "an array", value);
    size_t n = json_array_size(value);
    out->updates = n ? calloc(n, sizeof *out->updates) : NULL;
    if (n && !out->updates)
        return problem_set(fields->problem, CONTACTD_OUT_OF_MEMORY, "updates", "no memory for %zu updates", n);
    for (size_t i = 0; i < n; i++) {
        out->n_updates = i + 1;
        if (!take_update(json_array_get(value, i), i, &out->updates[i], fields->problem)) return false;
    }
    return true;
}

/* Values of a deformable body's vertices, or a rigid one's twist. *values is the request's from then on, also where the
 * rest fails. */
static bool take_motion(const json_fields *fields, const char *place, const void **out, uint64_t *count,
                        double twist[6]) {
    bool has_values = false, has_twist = false;
    double *values = NULL, *numbers = NULL;
    size_t n = 0, n_twist = 0;
    if (!json_take_doubles(fields, "values", 3, &values, &n, &has_values)) return false;
    *out = values;
    *count = n;
    if (!json_take_doubles(fields, "twist", 1, &numbers, &n_twist, &has_twist)) return false;
    if (n_twist == 6) memcpy(twist, numbers, 6 * sizeof *twist);
    free(numbers);
    if (has_values == has_twist)
        return problem_set(fields->problem, CONTACTD_INVALID_ARGUMENT, place,
                           "%s has %s values %s a twist; expected one of them", place, has_twist ? "both" : "neither",
                           has_twist ? "and" : "nor");
    if (has_twist && n_twist != 6)
        return problem_set(fields->problem, CONTACTD_WRONG_LENGTH, place, "%s.twist has %zu numbers; expected 6", place,
                           n_twist);
    return true;
}

static bool take_direction(const json_t *value, size_t index, ct_direction *out, problem *p) {
    static const char *const known[] = {"body", "index", "values", "twist", NULL};
    char place[36], path[40];
    json_fields fields;
    snprintf(place, sizeof place, "directions[%zu]", index);
    snprintf(path, sizeof path, "%s.", place);
    int64_t body = 0, of = 0;
    bool has_index = false;
    if (!json_fields_begin(&fields, value, path, known, p) ||
        !json_take_integer(&fields, "body", 1, UINT32_MAX, &body, NULL) ||
        !json_take_integer(&fields, "index", 0, CT_MAX_DIRECTIONS - 1, &of, &has_index))
        return false;
    out->body = (uint32_t)body;
    out->index = (uint32_t)of;
    out->dtype = CT_F64;
    return take_motion(&fields, place, &out->values, &out->count, out->twist);
}

static bool take_velocity(const json_t *value, size_t index, ct_velocity *out, problem *p) {
    static const char *const known[] = {"body", "values", "twist", NULL};
    char place[36], path[40];
    json_fields fields;
    snprintf(place, sizeof place, "velocities[%zu]", index);
    snprintf(path, sizeof path, "%s.", place);
    int64_t body = 0;
    if (!json_fields_begin(&fields, value, path, known, p) ||
        !json_take_integer(&fields, "body", 1, UINT32_MAX, &body, NULL))
        return false;
    out->body = (uint32_t)body;
    out->dtype = CT_F64;
    return take_motion(&fields, place, &out->values, &out->count, out->twist);
}

static bool take_velocities(const json_fields *fields, step_request *out) {
    const json_t *value = NULL;
    bool has;
    if (!json_take_value(fields, "velocities", &value, &has)) return false;
    if (!has) return true;
    if (!json_is_array(value)) return json_wrong_type(fields, "velocities", "an array", value);
    size_t n = json_array_size(value);
    out->velocities = n ? calloc(n, sizeof *out->velocities) : NULL;
    if (n && !out->velocities)
        return problem_set(fields->problem, CONTACTD_OUT_OF_MEMORY, "velocities", "no memory for %zu of them", n);
    for (size_t i = 0; i < n; i++) {
        out->n_velocities = i + 1;
        if (!take_velocity(json_array_get(value, i), i, &out->velocities[i], fields->problem)) return false;
    }
    return true;
}

static bool take_directions(const json_fields *fields, step_request *out) {
    const json_t *value = NULL;
    bool has;
    if (!json_take_value(fields, "directions", &value, &has)) return false;
    if (!has) return true;
    if (!json_is_array(value)) return json_wrong_type(fields, "directions", "an array", value);
    size_t n = json_array_size(value);
    out->directions = n ? calloc(n, sizeof *out->directions) : NULL;
    if (n && !out->directions)
        return problem_set(fields->problem, CONTACTD_OUT_OF_MEMORY, "directions", "no memory for %zu parts", n);
    for (size_t i = 0; i < n; i++) {
        out->n_directions = i + 1;
        if (!take_direction(json_array_get(value, i), i, &out->directions[i], fields->problem)) return false;
    }
    return true;
}

/* 0, which says within the server that there is none, is refused: who leaves the field out means that. */
static bool take_step_tolerance(const json_fields *fields, double *out) {
    bool has;
    if (!json_take_number(fields, "tolerance", -DBL_MAX, DBL_MAX, out, &has)) return false;
    if (!has || (*out > 0 && *out <= 1e300)) return true;
    return problem_set(
        fields->problem, CONTACTD_OUT_OF_RANGE, "tolerance",
        "tolerance is %g; expected a volume above 0, up to 1e300 m^3; the smallest depends on the bodies' "
        "extents, and a step that asks for less names it",
        *out);
}

bool request_step(const char *bytes, size_t size, step_request *out, problem *p) {
    static const char *const known[] = {
        "updates", "want", "deadline_us", "time_budget_us", "tolerance", "directions", "velocities", "viscosity", NULL};
    json_fields fields;
    int64_t deadline = 0, budget = 0;
    bool has;
    memset(out, 0, sizeof *out);
    json_t *root = json_in_parse(bytes, size, known, p);
    bool ok = root && json_fields_begin(&fields, root, "", known, p) && take_want(&fields, &out->want) &&
              json_take_integer(&fields, "deadline_us", 0, UINT32_MAX, &deadline, &has) &&
              json_take_integer(&fields, "time_budget_us", 1, UINT32_MAX, &budget, &has) &&
              take_step_tolerance(&fields, &out->tolerance) && take_updates(&fields, out) &&
              take_directions(&fields, out) && take_velocities(&fields, out) &&
              json_take_number(&fields, "viscosity", 0, 1e100, &out->viscosity, &has);
    out->deadline_us = (uint64_t)deadline;
    out->time_budget_us = (double)budget;
    json_decref(root);
    if (!ok) request_step_free(out);
    return ok;
}

void request_step_free(step_request *request) {
    for (size_t i = 0; i < request->n_updates; i++) {
        free((void *)(uintptr_t)request->updates[i].positions);
        free((void *)(uintptr_t)request->updates[i].indices);
    }
    free(request->updates);
    for (size_t i = 0; i < request->n_directions; i++) free((void *)(uintptr_t)request->directions[i].values);
    free(request->directions);
    for (size_t i = 0; i < request->n_velocities; i++) free((void *)(uintptr_t)request->velocities[i].values);
    free(request->velocities);
    memset(request, 0, sizeof *request);
}
