/* messages.h - one of every message with every field set, and their comparison field by field: for the tests, the
 * golden buffers and the fuzz target of the codec. */
#ifndef TESTS_MESSAGES_H
#define TESTS_MESSAGES_H

#include <math.h>
#include <string.h>

#include "proto/codec.h"
#include "proto/contact_rows.h"

enum { SAMPLE_CONTACTS = 3, SAMPLE_ENTRIES = 7, SAMPLE_SPANS = 5, SAMPLE_UPDATES = 4 };

/* What the sample messages point to. Its numbers never change: golden buffers hold them. */
typedef struct samples {
    float positions[12], spans[SAMPLE_SPANS * 6];
    double positions64[9], gradient[SAMPLE_ENTRIES * 3], weights[SAMPLE_ENTRIES], forces[SAMPLE_ENTRIES * 3];
    uint32_t triangles[12], ranges[2], indices[3], ignore[2], vertices[SAMPLE_ENTRIES];
    uint8_t axes[SAMPLE_SPANS], file[20];
    wire_mesh_info meshes[2];
    wire_scene_info scenes[2];
    wire_update updates[SAMPLE_UPDATES];
    ct_contact contacts[SAMPLE_CONTACTS];
    uint64_t ids[2], sequences[2], soft_vertices[1];
    uint32_t bodies[6], counts[2];
    double poses[2 * 2 * 12], twists[2 * 6];
    float soft[2 * 4 * 3];
    wire_column columns[2];
    wire_many_error errors[1];
    uint8_t ended[2], data[40];
} samples;

static inline void sample_numbers(double *to, int n, double first) {
    for (int i = 0; i < n; i++) to[i] = first + i / 3.0;
}

static inline wire_mesh_info sample_mesh(int k) {
    wire_mesh_info m = {.mesh = 1000u + (unsigned)k,
                        .hash = "00112233445566778899aabbccddeeff",
                        .name = "h\xc3\xa9lice",
                        .vertices = 11,
                        .triangles = 18,
                        .bytes = 1u << 20,
                        .volume = 0.1,
                        .area = 6.5,
                        .bodies = 3,
                        .existed = k == 0};
    sample_numbers(m.lo, 3, -1.5);
    sample_numbers(m.hi, 3, 2.5);
    return m;
}

static inline wire_settings sample_settings(void) {
    return (wire_settings){
        CT_GIVEN(CT_SETTING_METHOD) | CT_GIVEN(CT_SETTING_RESOLUTION) | CT_GIVEN(CT_SETTING_PIXEL_SIZE) |
            CT_GIVEN(CT_SETTING_STIFFNESS),
        {.method = CT_METHOD_LDI, .resolution = {16, 32, 64}, .pixel_size = 0.001, .stiffness = 1e9}};
}

static inline wire_scene_info sample_scene(int k) {
    return (wire_scene_info){.scene = 1ull << (40 + k),
                             .name = "bolt",
                             .settings = sample_settings(),
                             .bodies = 9,
                             .bytes = 4096,
                             .steps = 1234567890123,
                             .contacts = 4,
                             .mine = k == 0,
                             .owner = "sim 3"};
}

static inline void sample_contact(ct_contact *c, unsigned k) {
    *c = (ct_contact){.body = {k + 1, k + 2},
                      .volume = 1e-7 + k,
                      .error_bound = k ? 0.25 : __builtin_nan(""),
                      .volume_lower = __builtin_nan(""),
                      .volume_upper = __builtin_nan(""),
                      .inverted_volume = __builtin_nan(""),
                      .error_bounds = {__builtin_nan(""), __builtin_nan(""), __builtin_nan("")},
                      .error_estimate = 1e-9,
                      .area = 0.3,
                      .depth = 0.02,
                      .first = {k, k + 1},
                      .count = {k, 2},
                      .first_span = k,
                      .n_spans = 2};
    sample_numbers(c->volumes, 3, 1);
    sample_numbers(c->normal, 3, 2);
    sample_numbers(c->tangents[0], 6, 3);
    sample_numbers(c->center, 3, 4);
    sample_numbers(c->generalized_gradient[0], 12, 5);
}

static inline wire_array sample_array(wire_dtype dtype, uint64_t count, const void *data) {
    return (wire_array){dtype, count, data};
}

static inline void sample_many(samples *s) {
    memcpy(s->ids, (uint64_t[]){UINT64_C(9) << 32 | 1, UINT64_C(7) << 32 | 2}, sizeof s->ids);
    memcpy(s->sequences, (uint64_t[]){1, UINT64_C(1) << 40}, sizeof s->sequences);
    s->soft_vertices[0] = 4;
    for (uint32_t i = 0; i < 6; i++) s->bodies[i] = 10 + i;
    sample_numbers(s->poses, 48, -2);
    sample_numbers(s->twists, 12, 6);
    for (int i = 0; i < 24; i++) s->soft[i] = 0.25f * (float)i;
    memcpy(s->counts, (uint32_t[]){2, 0}, sizeof s->counts);
    s->columns[0] = (wire_column){2, WIRE_F64, 1, 0};
    s->columns[1] = (wire_column){0, WIRE_U32, 2, 16};
    for (int i = 0; i < 40; i++) s->data[i] = (uint8_t)(3 * i);
    s->errors[0] =
        (wire_many_error){1, {CONTACTD_OUT_OF_RANGE, "scene 4", "pose", "is no rotation", false, 0, ""}, true};
    s->ended[0] = WIRE_PASS_LIMIT;
}

static inline void sample_store(samples *s) {
    memset(s, 0, sizeof *s);
    for (int i = 0; i < 12; i++) s->positions[i] = 0.1f * (float)i, s->triangles[i] = (uint32_t)(i * 7 % 5);
    sample_numbers(s->positions64, 9, 0.7);
    sample_numbers(s->gradient, SAMPLE_ENTRIES * 3, -3);
    sample_numbers(s->weights, SAMPLE_ENTRIES, 0);
    sample_numbers(s->forces, SAMPLE_ENTRIES * 3, 1e6);
    for (uint32_t i = 0; i < SAMPLE_ENTRIES; i++) s->vertices[i] = i * 1000003u;
    for (int i = 0; i < SAMPLE_SPANS * 6; i++) s->spans[i] = (float)i / 7;
    for (int i = 0; i < SAMPLE_SPANS; i++) s->axes[i] = (uint8_t)(i % 3);
    for (int i = 0; i < 20; i++) s->file[i] = (uint8_t)(250 + i);
    memcpy(s->ranges, (uint32_t[]){2, 4}, sizeof s->ranges);
    memcpy(s->indices, (uint32_t[]){5, 1, 4000000000u}, sizeof s->indices);
    memcpy(s->ignore, (uint32_t[]){77, 78}, sizeof s->ignore);
    for (int k = 0; k < 2; k++) s->meshes[k] = sample_mesh(k), s->scenes[k] = sample_scene(k);
    for (unsigned k = 0; k < SAMPLE_CONTACTS; k++) sample_contact(&s->contacts[k], k);
    for (uint32_t k = 0; k < SAMPLE_UPDATES; k++) {
        wire_update *u = &s->updates[k];
        u->body = 100 + k;
        u->kind = (wire_update_kind)(k + 1);
        memcpy(u->pose, (double[]){1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, sizeof u->pose);
        if (u->kind == WIRE_UPDATE_POSE)
            sample_numbers(u->pose, 12, -0.5);
        else if (u->kind == WIRE_UPDATE_INDEXED)
            u->positions = sample_array(WIRE_F64, 9, s->positions64);
        else
            u->positions = sample_array(WIRE_F32, 12, s->positions);
        if (u->kind == WIRE_UPDATE_RANGES) u->indices = sample_array(WIRE_U32, 2, s->ranges);
        if (u->kind == WIRE_UPDATE_INDEXED) u->indices = sample_array(WIRE_U32, 3, s->indices);
    }
    sample_many(s);
}

/* The sample of a type; s was filled by sample_store. */
static inline wire_message sample_message(const samples *s, wire_type type) {
    wire_message m;
    memset(&m, 0, sizeof m);
    m.request = 0x1122334455667788, m.session = 42, m.epoch = 0xfedcba9876543210, m.type = type;
    switch (type) {
    case WIRE_HELLO:
        m.u.hello = (wire_hello){3, 1, "contactd-test 0.1", 30000};
        break;
    case WIRE_WELCOME:
        m.u.welcome = (wire_welcome){.version = 1,
                                     .epoch = 7,
                                     .session = 8,
                                     .server = "contactd 0.1.0",
                                     .backend = "cpu",
                                     .rasterizer = "native",
                                     .device = "some processor",
                                     .lease_ms = 60000,
                                     .max_message_bytes = 1ull << 33,
                                     .max_triangles = 1u << 27,
                                     .max_vertices = 1u << 26,
                                     .max_resolution = 4096,
                                     .max_in_flight = 4,
                                     .methods = {"ldi", "ebpi"},
                                     .n_methods = 2};
        break;
    case WIRE_PING:
        m.u.ping.nonce = 99;
        break;
    case WIRE_PONG:
        m.u.pong.nonce = 98;
        break;
    case WIRE_ERROR:
        m.u.error = (wire_error){CONTACTD_BUSY, "scene 17", "queue", "64 steps wait; try again", true, 25, ""};
        break;
    case WIRE_REGISTER_MESH:
        m.u.register_mesh.vertices = sample_array(WIRE_F32, 12, s->positions);
        m.u.register_mesh.triangles = sample_array(WIRE_U32, 12, s->triangles);
        m.u.register_mesh.format = WIRE_FORMAT_AUTO;
        m.u.register_mesh.name = "bunny";
        break;
    case WIRE_MESH_INFO:
        m.u.mesh_info = s->meshes[0];
        break;
    case WIRE_GET_MESH:
        m.u.get_mesh = (wire_get_mesh){5, "0011223344", true, false};
        break;
    case WIRE_MESH_GEOMETRY:
        m.u.mesh_geometry.info = s->meshes[1];
        m.u.mesh_geometry.vertices = sample_array(WIRE_F32, 12, s->positions);
        m.u.mesh_geometry.triangles = sample_array(WIRE_U32, 12, s->triangles);
        break;
    case WIRE_MESH_LIST:
        m.u.mesh_list = (wire_mesh_list){s->meshes, 2};
        break;
    case WIRE_REMOVE_MESH:
        m.u.remove_mesh = (wire_remove_mesh){5, "0011223344"};
        break;
    case WIRE_OPEN_SCENE:
        m.u.open_scene = (wire_open_scene){.settings = sample_settings(), .name = "bolt"};
        break;
    case WIRE_SCENE_INFO:
        m.u.scene_info = s->scenes[0];
        break;
    case WIRE_CONFIGURE:
        m.u.configure = (wire_configure){17, sample_settings()};
        break;
    case WIRE_GET_SCENE:
        m.u.get_scene.scene = 18;
        break;
    case WIRE_SCENE_LIST:
        m.u.scene_list = (wire_scene_list){s->scenes, 2};
        break;
    case WIRE_CLOSE_SCENE:
        m.u.close_scene.scene = 19;
        break;
    case WIRE_ADD_BODY:
        m.u.add_body = (wire_add_body){.scene = 20,
                                       .mesh = 21,
                                       .kind = WIRE_BODY_RIGID,
                                       .group = 6,
                                       .mask = 5,
                                       .ignore = s->ignore,
                                       .n_ignore = 2,
                                       .material = CT_MATERIAL_NONE};
        sample_numbers(m.u.add_body.pose, 12, 0.25);
        memcpy(m.u.add_body.start, m.u.add_body.pose, sizeof m.u.add_body.start); /* absent, as in older messages */
        break;
    case WIRE_ADD_BODIES:
        m.u.add_bodies = (wire_add_bodies){.scene = 36,
                                           .meshes = s->ids,
                                           .n_meshes = 2,
                                           .poses = s->poses,
                                           .n = 2,
                                           .group = 6,
                                           .mask = 5,
                                           .ignore = s->ignore,
                                           .n_ignore = 2,
                                           .self_contact = true,
                                           .material = {1e7, 0.5, 1.5, 0.625}};
        break;
    case WIRE_BODIES_ADDED:
        m.u.bodies_added = (wire_bodies_added){37, s->ignore, 2};
        break;
    case WIRE_BODY_ADDED:
        m.u.body_added = (wire_body_added){22, 23, false};
        break;
    case WIRE_REMOVE_BODY:
        m.u.remove_body = (wire_body_ref){24, 25};
        break;
    case WIRE_REPLACE_MESH:
        m.u.replace_mesh = (wire_replace_mesh){26, 27, UINT64_C(28) << 40};
        break;
    case WIRE_SET_MATERIAL:
        m.u.set_material = (wire_set_material){29, 30, 31, {1e6, 0.25, NAN, 0.5}};
        break;
    case WIRE_STEP:
        m.u.step = (wire_step){.scene = 26,
                               .sequence = 27,
                               .want = 31,
                               .deadline_us = 5000,
                               .updates = s->updates,
                               .n_updates = SAMPLE_UPDATES};
        break;
    case WIRE_STEP_RESULT:
        m.u.step_result = (wire_step_result){.scene = 28,
                                             .sequence = 29,
                                             .contacts = s->contacts,
                                             .n_contacts = SAMPLE_CONTACTS,
                                             .method = CT_METHOD_LDI,
                                             .backend = "cpu",
                                             .pairs = 30,
                                             .rays = 31,
                                             .fragments = 32,
                                             .quality = 1,
                                             .cached = true};
        m.u.step_result.vertices = sample_array(WIRE_U32, SAMPLE_ENTRIES, s->vertices);
        m.u.step_result.gradient = sample_array(WIRE_F64, SAMPLE_ENTRIES * 3, s->gradient);
        m.u.step_result.weights = sample_array(WIRE_F64, SAMPLE_ENTRIES, s->weights);
        m.u.step_result.forces = sample_array(WIRE_F64, SAMPLE_ENTRIES * 3, s->forces);
        m.u.step_result.spans = sample_array(WIRE_F32, SAMPLE_SPANS * 6, s->spans);
        m.u.step_result.span_axes = sample_array(WIRE_U8, SAMPLE_SPANS, s->axes);
        sample_numbers(m.u.step_result.timings_us, WIRE_TIMINGS, 12.5);
        break;
    case WIRE_STEP_MANY:
        m.u.step_many = (wire_step_many){.scenes = s->ids,
                                         .sequences = s->sequences,
                                         .n = 2,
                                         .want = 33,
                                         .deadline_us = 5000,
                                         .posed = {s->bodies, 2, true},
                                         .moving = {s->bodies + 4, 1, false},
                                         .soft = {s->bodies + 5, 1, false},
                                         .vertices = s->soft_vertices};
        m.u.step_many.poses = sample_array(WIRE_F64, 48, s->poses);
        m.u.step_many.twists = sample_array(WIRE_F64, 12, s->twists);
        m.u.step_many.positions = sample_array(WIRE_F32, 24, s->soft);
        break;
    case WIRE_CANCEL:
        m.u.cancel.request = UINT64_C(32) << 33;
        break;
    case WIRE_RESET_SCENES:
        m.u.reset_scenes = (wire_scene_ids){s->ids, 2};
        break;
    case WIRE_CLOSE_SCENES:
        m.u.close_scenes = (wire_scene_ids){s->ids, 1};
        break;
    case WIRE_COPY_SCENE:
        m.u.copy_scene = (wire_copy_scene){34, s->ids, 2};
        break;
    case WIRE_SCENES_OPENED:
        m.u.scenes_opened = (wire_scenes_opened){s->ids, 2, sample_settings(), 35, CT_METHOD_EXACT};
        break;
    case WIRE_MANY_RESULT:
        m.u.many_result = (wire_many_result){.counts = s->counts,
                                             .n = 2,
                                             .columns = s->columns,
                                             .n_columns = 2,
                                             .data = sample_array(WIRE_U8, 32, s->data),
                                             .errors = s->errors,
                                             .n_errors = 1,
                                             .ended = s->ended};
        break;
    case WIRE_STATUS:
        m.u.status = (wire_status){.server = "contactd 0.1.0",
                                   .backend = "cpu",
                                   .rasterizer = "native",
                                   .device = "d",
                                   .simd = "avx2",
                                   .threads = 2,
                                   .ready = true,
                                   .ready_reason = "a real step ran",
                                   .epoch = 7,
                                   .uptime_s = 1.5,
                                   .sessions = 1,
                                   .scenes = 2,
                                   .meshes = 3,
                                   .bodies = 4,
                                   .mesh_bytes = 5,
                                   .mesh_bytes_limit = 6,
                                   .scene_bytes = 7,
                                   .scratch_bytes = 8,
                                   .queue_depth = 9,
                                   .queue_capacity = 10,
                                   .steps = 11,
                                   .contacts = 12,
                                   .max_resolution = 13,
                                   .max_message_bytes = 14};
        break;
    case WIRE_GET_SNAPSHOT:
        m.u.get_snapshot = (wire_get_snapshot){.scene = 33,
                                               .width = 640,
                                               .height = 480,
                                               .contact = {34, 35},
                                               .show = 3,
                                               .resolution = 16,
                                               .has_up = true,
                                               .has_eye = true,
                                               .has_target = true,
                                               .has_background = true,
                                               .azimuth = -30.5,
                                               .elevation = 15,
                                               .zoom = 1.5,
                                               .field_of_view = 40,
                                               .opacity = 0.25};
        sample_numbers(m.u.get_snapshot.up, 3, 0.5);
        sample_numbers(m.u.get_snapshot.eye, 3, -7);
        sample_numbers(m.u.get_snapshot.target, 3, 8);
        sample_numbers(m.u.get_snapshot.background, 4, 0);
        break;
    case WIRE_SNAPSHOT:
        m.u.snapshot = (wire_snapshot){36, 640, 480, sample_array(WIRE_U8, 20, s->file)};
        break;
    case WIRE_GET_REPORT:
        m.u.get_report = (wire_get_report){WIRE_REPORT_BODIES, 37};
        break;
    case WIRE_REPORT:
        m.u.report.json = sample_array(WIRE_U8, 20, s->file);
        break;
    default:
        break; /* the others have no content */
    }
    return m;
}

/* ---- comparison: the name of the first field that differs, or NULL ---- */

static inline bool same_bytes(const void *a, const void *b, size_t size) {
    return memcmp(a, b, size) == 0;
}
/* FlatBuffers leaves a scalar out that equals its default: then -0 comes back as 0, a NaN as the default's NaN. */
static inline bool same_numbers(const void *a, const void *b, size_t size) {
    const double *x = a, *y = b;
    for (size_t i = 0; i < size / sizeof *x; i++)
        if (x[i] != y[i] && !(isnan(x[i]) && isnan(y[i]))) return false;
    return true;
}

#define SAME(field)                                                                                                    \
    do {                                                                                                               \
        const bool is_number = _Generic((a->field), double : true, default : false);                                   \
        if (!(is_number ? same_numbers : same_bytes)(&a->field, &b->field, sizeof a->field)) return #field;            \
    } while (0)
#define SAME_NUMBERS(field)                                                                                            \
    do {                                                                                                               \
        if (!same_numbers(a->field, b->field, sizeof a->field)) return #field;                                         \
    } while (0)
#define SAME_TEXT(field)                                                                                               \
    do {                                                                                                               \
        if (strcmp(a->field ? a->field : "", b->field ? b->field : "") != 0) return #field;                            \
    } while (0)
#define SAME_ARRAY(field)                                                                                              \
    do {                                                                                                               \
        if (!same_array(&a->field, &b->field)) return #field;                                                          \
    } while (0)
#define SAME_PART(compare, field)                                                                                      \
    do {                                                                                                               \
        const char *inner = compare(&a->field, &b->field);                                                             \
        if (inner) return inner;                                                                                       \
    } while (0)
#define SAME_LIST(compare, field, n)                                                                                   \
    do {                                                                                                               \
        SAME(n);                                                                                                       \
        for (uint32_t i = 0; i < a->n; i++) SAME_PART(compare, field[i]);                                              \
    } while (0)

static inline bool same_array(const wire_array *a, const wire_array *b) {
    size_t bytes = (size_t)a->count * wire_dtype_size(a->dtype);
    return a->dtype == b->dtype && a->count == b->count && (bytes == 0 || memcmp(a->data, b->data, bytes) == 0);
}
static inline const char *differ_settings(const wire_settings *a, const wire_settings *b) {
    if (a->given != b->given) return "given";
    for (int s = 0; s < CT_SETTINGS; s++) {
        const ct_setting_row *row = &ct_setting_rows[s];
        if (!(a->given & CT_GIVEN(s))) continue;
        const double x = ct_setting_number(row, &a->to), y = ct_setting_number(row, &b->to);
        bool is_same = x == y || (isnan(x) && isnan(y)); /* which the wire carries, and the engine refuses */
        for (int i = 0; i < (row->type == CT_SETTING_IS_U32X3 ? 3 : 1); i++)
            is_same = is_same && ct_setting_integer(row, &a->to, i) == ct_setting_integer(row, &b->to, i);
        if (!is_same) return row->name;
    }
    return NULL;
}
static inline const char *differ_mesh(const wire_mesh_info *a, const wire_mesh_info *b) {
    SAME(mesh);
    SAME_TEXT(hash);
    SAME_TEXT(name);
    SAME(vertices);
    SAME(triangles);
    SAME(bytes);
    SAME(volume);
    SAME(area);
    SAME(lo);
    SAME(hi);
    SAME(bodies);
    SAME(existed);
    SAME(n_repair);
    SAME(closing_vertices);
    SAME(shells);
    SAME(doubled_shells);
    SAME(center_of_mass);
    SAME(inertia);
    SAME(moved);
    SAME(closing);
    SAME(deviation);
    SAME(closed_as);
    SAME(self_overlap);
    SAME(uneven_polygons);
    SAME(unevenness);
    if (!a->repair != !b->repair) return "repair";
    if (a->repair && memcmp(a->repair, b->repair, a->n_repair * sizeof *a->repair) != 0) return "repair";
    return NULL;
}
static inline const char *differ_scene(const wire_scene_info *a, const wire_scene_info *b) {
    SAME_PART(differ_settings, settings);
    SAME(scene);
    SAME_TEXT(name);
    SAME(bodies);
    SAME(bytes);
    SAME(steps);
    SAME(contacts);
    SAME(mine);
    SAME_TEXT(owner);
    SAME(running_method);
    SAME(revision);
    return NULL;
}
static inline const char *differ_update(const wire_update *a, const wire_update *b) {
    SAME(body);
    SAME(kind);
    SAME_ARRAY(positions);
    SAME_ARRAY(indices);
    SAME(pose);
    return NULL;
}
static inline const char *differ_contact(const ct_contact *a, const ct_contact *b) {
    for (int k = 0; k < CT_CONTACT_ROWS; k++) {
        const ct_contact_row *row = &ct_contact_rows[k];
        const bool is_f64 = row->type == CT_CONTACT_IS_F64;
        const size_t each = is_f64 || row->type == CT_CONTACT_IS_U64 ? 8 : row->type == CT_CONTACT_IS_FLAG ? 1 : 4;
        const size_t size = (row->rows ? (size_t)(row->rows * row->columns) : 1) * each;
        const char *x = (const char *)a + row->offset, *y = (const char *)b + row->offset;
        if (!(is_f64 ? same_numbers : same_bytes)(x, y, size)) return row->name;
    }
    SAME(body);
    SAME(first);
    SAME(count);
    SAME(first_span);
    SAME(n_spans);
    SAME(first_product);
    SAME(count_product);
    SAME(first_cell);
    SAME(n_cells);
    SAME(first_point);
    SAME(n_points);
    SAME(first_polygon);
    SAME(n_polygons);
    return NULL;
}
static inline const char *differ_direction(const wire_direction *a, const wire_direction *b) {
    SAME(body);
    SAME(index);
    SAME_ARRAY(values);
    SAME(has_twist);
    SAME(twist);
    return NULL;
}
static inline const char *differ_warning(const wire_warning *a, const wire_warning *b) {
    SAME(code);
    SAME(body);
    SAME(value);
    return NULL;
}
static inline const char *differ_result(const wire_step_result *a, const wire_step_result *b) {
    SAME_PART(differ_settings, settings);
    SAME(revision);
    SAME(quality);
    SAME_ARRAY(points);
    SAME_ARRAY(point_groups);
    SAME_ARRAY(progress);
    SAME_ARRAY(separations);
    SAME_ARRAY(surface_polygons);
    SAME_ARRAY(surface_offsets);
    SAME_ARRAY(surface_vertices);
    SAME_ARRAY(point_ids);
    SAME_ARRAY(ended_ids);
    SAME(scene);
    SAME(sequence);
    SAME_ARRAY(vertices);
    SAME_ARRAY(gradient);
    SAME_ARRAY(weights);
    SAME_ARRAY(forces);
    SAME_ARRAY(spans);
    SAME_ARRAY(span_axes);
    SAME(method);
    SAME_TEXT(backend);
    SAME(pairs);
    SAME(rays);
    SAME(ended);
    SAME(passes);
    SAME(fragments);
    SAME(timings_us);
    SAME(has_wall);
    SAME(wall_us);
    SAME(cached);
    SAME_LIST(differ_contact, contacts, n_contacts);
    if ((a->groups ^ b->groups) & (CT_CONTACT_FRAME | CT_CONTACT_INERTIA | CT_CONTACT_SLIP | CT_CONTACT_LAW))
        return "groups";
    SAME_LIST(differ_warning, warnings, n_warnings);
    SAME(directions);
    SAME_ARRAY(product_vertices);
    SAME_ARRAY(products);
    SAME_ARRAY(generalized_products);
    SAME_ARRAY(friction_forces);
    SAME_LIST(differ_contact, cells, n_cells);
    return NULL;
}
static inline const char *differ_bodies(const wire_bodies *a, const wire_bodies *b, uint32_t scenes) {
    SAME(n);
    SAME(by_scene);
    const size_t listed = a->by_scene ? (size_t)a->n * scenes : a->n;
    return listed && memcmp(a->bodies, b->bodies, listed * sizeof *a->bodies) ? "bodies" : NULL;
}
static inline const char *differ_ids(const uint64_t *a, uint32_t n, const uint64_t *b, uint32_t m) {
    return n != m || (n && memcmp(a, b, n * sizeof *a) != 0) ? "ids" : NULL;
}
static inline const char *differ_step_many(const wire_step_many *a, const wire_step_many *b) {
    SAME(n);
    SAME(want);
    SAME(deadline_us);
    if (a->n && memcmp(a->scenes, b->scenes, a->n * sizeof *a->scenes)) return "scenes";
    if (a->n && memcmp(a->sequences, b->sequences, a->n * sizeof *a->sequences)) return "sequences";
    const char *differs = differ_bodies(&a->posed, &b->posed, a->n);
    if (!differs) differs = differ_bodies(&a->moving, &b->moving, a->n);
    if (!differs) differs = differ_bodies(&a->soft, &b->soft, a->n);
    if (differs) return differs;
    if (a->soft.n && memcmp(a->vertices, b->vertices, a->soft.n * sizeof *a->vertices)) return "vertices";
    SAME_ARRAY(poses);
    SAME_ARRAY(twists);
    SAME_ARRAY(positions);
    return NULL;
}
static inline const char *differ_many_error(const wire_many_error *a, const wire_many_error *b) {
    SAME(index);
    SAME(is_answer);
    SAME(error.code);
    SAME(error.retry);
    SAME(error.retry_after_ms);
    SAME_TEXT(error.object);
    SAME_TEXT(error.field);
    SAME_TEXT(error.message);
    return NULL;
}
static inline const char *differ_column(const wire_column *a, const wire_column *b) {
    SAME(field);
    SAME(dtype);
    SAME(width);
    SAME(offset);
    return NULL;
}
static inline const char *differ_many(const wire_many_result *a, const wire_many_result *b) {
    SAME(n);
    if (a->n && memcmp(a->counts, b->counts, a->n * sizeof *a->counts)) return "counts";
    if (a->n && memcmp(a->ended, b->ended, a->n)) return "ended";
    SAME_LIST(differ_column, columns, n_columns);
    SAME_LIST(differ_many_error, errors, n_errors);
    SAME_ARRAY(data);
    return NULL;
}
static inline const char *differ_welcome(const wire_welcome *a, const wire_welcome *b) {
    SAME(version);
    SAME(epoch);
    SAME(session);
    SAME_TEXT(server);
    SAME_TEXT(backend);
    SAME_TEXT(rasterizer);
    SAME_TEXT(device);
    SAME(lease_ms);
    SAME(max_message_bytes);
    SAME(max_triangles);
    SAME(max_vertices);
    SAME(max_resolution);
    SAME(max_in_flight);
    SAME(last_message);
    SAME_TEXT(successors);
    SAME(n_methods);
    for (uint32_t i = 0; i < a->n_methods; i++) SAME_TEXT(methods[i]);
    return NULL;
}
static inline const char *differ_device(const wire_device *a, const wire_device *b) {
    SAME_TEXT(device);
    SAME(scenes);
    SAME(triangles);
    SAME(memory_budget);
    SAME(memory_used);
    SAME(memory_meshes);
    SAME(memory_bodies);
    SAME(scratch_bytes);
    SAME(scratch_peak);
    SAME(uploaded);
    SAME(downloaded);
    SAME(launches);
    SAME(lost);
    SAME_TEXT(lost_reason);
    return NULL;
}
static inline const char *differ_status(const wire_status *a, const wire_status *b) {
    SAME_TEXT(server);
    SAME_TEXT(backend);
    SAME_TEXT(rasterizer);
    SAME_TEXT(device);
    SAME_TEXT(simd);
    SAME_TEXT(ready_reason);
    SAME(threads);
    SAME(ready);
    SAME(epoch);
    SAME(uptime_s);
    SAME(sessions);
    SAME(scenes);
    SAME(meshes);
    SAME(bodies);
    SAME(mesh_bytes);
    SAME(mesh_bytes_limit);
    SAME(scene_bytes);
    SAME(scratch_bytes);
    SAME(queue_depth);
    SAME(queue_capacity);
    SAME(steps);
    SAME(contacts);
    SAME(max_resolution);
    SAME(max_message_bytes);
    SAME_LIST(differ_device, devices, n_devices);
    SAME_TEXT(auto_method);
    SAME(n_methods);
    for (uint32_t i = 0; i < a->n_methods; i++) SAME_TEXT(methods[i]);
    return NULL;
}
static inline const char *differ_get_snapshot(const wire_get_snapshot *a, const wire_get_snapshot *b) {
    SAME(scene);
    SAME(width);
    SAME(height);
    SAME(contact);
    SAME(show);
    SAME(resolution);
    SAME(has_up);
    SAME(has_eye);
    SAME(has_target);
    SAME(has_background);
    SAME(azimuth);
    SAME(elevation);
    SAME(zoom);
    SAME(field_of_view);
    SAME(opacity);
    SAME(up);
    SAME(eye);
    SAME(target);
    SAME(background);
    return NULL;
}
static inline const char *differ_message(const wire_message *a, const wire_message *b) {
    SAME(request);
    SAME(session);
    SAME(epoch);
    SAME(type);
    switch (a->type) {
    case WIRE_HELLO:
        SAME(u.hello.version);
        SAME(u.hello.min_version);
        SAME_TEXT(u.hello.client);
        SAME(u.hello.lease_ms);
        break;
    case WIRE_WELCOME:
        return differ_welcome(&a->u.welcome, &b->u.welcome);
    case WIRE_PING:
    case WIRE_PONG:
        SAME(u.ping.nonce);
        break;
    case WIRE_ERROR:
        SAME(u.error.code);
        SAME_TEXT(u.error.object);
        SAME_TEXT(u.error.field);
        SAME_TEXT(u.error.message);
        SAME_TEXT(u.error.successors);
        SAME(u.error.retry);
        SAME(u.error.retry_after_ms);
        break;
    case WIRE_REGISTER_MESH:
        SAME_ARRAY(u.register_mesh.vertices);
        SAME_ARRAY(u.register_mesh.triangles);
        SAME_ARRAY(u.register_mesh.file);
        SAME(u.register_mesh.format);
        SAME_TEXT(u.register_mesh.name);
        SAME(u.register_mesh.repair);
        SAME(u.register_mesh.max_hole);
        SAME(u.register_mesh.scale);
        SAME(u.register_mesh.weld);
        SAME(u.register_mesh.closing);
        SAME(u.register_mesh.resolution);
        SAME_NUMBERS(u.register_mesh.open_direction); /* of zeros: left out, too */
        break;
    case WIRE_MESH_INFO:
        return differ_mesh(&a->u.mesh_info, &b->u.mesh_info);
    case WIRE_GET_MESH:
        SAME(u.get_mesh.mesh);
        SAME_TEXT(u.get_mesh.hash);
        SAME(u.get_mesh.with_geometry);
        SAME(u.get_mesh.takes_doubles);
        break;
    case WIRE_MESH_GEOMETRY:
        SAME_ARRAY(u.mesh_geometry.vertices);
        SAME_ARRAY(u.mesh_geometry.triangles);
        return differ_mesh(&a->u.mesh_geometry.info, &b->u.mesh_geometry.info);
    case WIRE_MESH_LIST:
        SAME_LIST(differ_mesh, u.mesh_list.meshes, u.mesh_list.n);
        break;
    case WIRE_REMOVE_MESH:
        SAME(u.remove_mesh.mesh);
        SAME_TEXT(u.remove_mesh.hash);
        break;
    case WIRE_OPEN_SCENE:
        SAME_TEXT(u.open_scene.name);
        SAME(u.open_scene.key);
        SAME(u.open_scene.revision);
        return differ_settings(&a->u.open_scene.settings, &b->u.open_scene.settings);
    case WIRE_SCENE_INFO:
        return differ_scene(&a->u.scene_info, &b->u.scene_info);
    case WIRE_CONFIGURE:
        SAME(u.configure.scene);
        return differ_settings(&a->u.configure.settings, &b->u.configure.settings);
    case WIRE_CLOSE_SCENE:
        SAME(u.close_scene.scene);
        SAME(u.close_scene.of_others);
        break;
    case WIRE_GET_SCENE:
        SAME(u.get_scene.scene);
        break;
    case WIRE_SCENE_LIST:
        SAME_LIST(differ_scene, u.scene_list.scenes, u.scene_list.n);
        break;
    case WIRE_ADD_BODY:
        SAME(u.add_body.scene);
        SAME(u.add_body.mesh);
        SAME(u.add_body.kind);
        SAME(u.add_body.pose);
        SAME(u.add_body.start);
        SAME(u.add_body.group);
        SAME(u.add_body.mask);
        SAME(u.add_body.self_contact);
        if (memcmp(&a->u.add_body.material, &b->u.add_body.material, sizeof(ct_material))) return "u.add_body.material";
        SAME(u.add_body.n_ignore);
        for (uint32_t i = 0; i < a->u.add_body.n_ignore; i++) {
            SAME(u.add_body.ignore[i]);
        }
        break;
    case WIRE_ADD_BODIES:
        SAME(u.add_bodies.scene);
        SAME(u.add_bodies.n);
        for (uint32_t i = 0; i < 12 * a->u.add_bodies.n; i++) SAME(u.add_bodies.poses[i]);
        SAME(u.add_bodies.group);
        SAME(u.add_bodies.mask);
        SAME(u.add_bodies.self_contact);
        if (memcmp(&a->u.add_bodies.material, &b->u.add_bodies.material, sizeof(ct_material)))
            return "u.add_bodies.material";
        SAME(u.add_bodies.n_ignore);
        for (uint32_t i = 0; i < a->u.add_bodies.n_ignore; i++) SAME(u.add_bodies.ignore[i]);
        return differ_ids(a->u.add_bodies.meshes, a->u.add_bodies.n_meshes, b->u.add_bodies.meshes,
                          b->u.add_bodies.n_meshes);
    case WIRE_BODIES_ADDED:
        SAME(u.bodies_added.scene);
        SAME(u.bodies_added.n);
        for (uint32_t i = 0; i < a->u.bodies_added.n; i++) SAME(u.bodies_added.bodies[i]);
        break;
    case WIRE_BODY_ADDED:
        SAME(u.body_added.self_contact);
        SAME(u.body_added.scene);
        SAME(u.body_added.body);
        break;
    case WIRE_REMOVE_BODY:
        SAME(u.remove_body.scene);
        SAME(u.remove_body.body);
        break;
    case WIRE_REPLACE_MESH:
        SAME(u.replace_mesh.scene);
        SAME(u.replace_mesh.body);
        SAME(u.replace_mesh.mesh);
        break;
    case WIRE_SET_MATERIAL:
        SAME(u.set_material.scene);
        SAME(u.set_material.body);
        SAME(u.set_material.other);
        if (memcmp(&a->u.set_material.material, &b->u.set_material.material, sizeof(ct_material)))
            return "u.set_material.material";
        break;
    case WIRE_STEP:
        SAME(u.step.scene);
        SAME(u.step.sequence);
        SAME(u.step.received);
        SAME(u.step.want);
        SAME(u.step.deadline_us);
        SAME(u.step.time_budget_us);
        SAME(u.step.tolerance);
        SAME_LIST(differ_update, u.step.updates, u.step.n_updates);
        SAME_LIST(differ_direction, u.step.directions, u.step.n_directions);
        SAME_LIST(differ_direction, u.step.velocities, u.step.n_velocities);
        SAME(u.step.viscosity);
        break;
    case WIRE_STEP_RESULT:
        return differ_result(&a->u.step_result, &b->u.step_result);
    case WIRE_STEP_MANY:
        return differ_step_many(&a->u.step_many, &b->u.step_many);
    case WIRE_CANCEL:
        SAME(u.cancel.request);
        break;
    case WIRE_RESET_SCENES:
        return differ_ids(a->u.reset_scenes.scenes, a->u.reset_scenes.n, b->u.reset_scenes.scenes, b->u.reset_scenes.n);
    case WIRE_CLOSE_SCENES:
        return differ_ids(a->u.close_scenes.scenes, a->u.close_scenes.n, b->u.close_scenes.scenes, b->u.close_scenes.n);
    case WIRE_COPY_SCENE:
        SAME(u.copy_scene.scene);
        return differ_ids(a->u.copy_scene.keys, a->u.copy_scene.n, b->u.copy_scene.keys, b->u.copy_scene.n);
    case WIRE_SCENES_OPENED:
        SAME(u.scenes_opened.revision);
        SAME(u.scenes_opened.running_method);
        if (differ_settings(&a->u.scenes_opened.settings, &b->u.scenes_opened.settings)) return "settings";
        return differ_ids(a->u.scenes_opened.scenes, a->u.scenes_opened.n, b->u.scenes_opened.scenes,
                          b->u.scenes_opened.n);
    case WIRE_MANY_RESULT:
        return differ_many(&a->u.many_result, &b->u.many_result);
    case WIRE_STATUS:
        return differ_status(&a->u.status, &b->u.status);
    case WIRE_GET_SNAPSHOT:
        return differ_get_snapshot(&a->u.get_snapshot, &b->u.get_snapshot);
    case WIRE_SNAPSHOT:
        SAME(u.snapshot.scene);
        SAME(u.snapshot.width);
        SAME(u.snapshot.height);
        SAME_ARRAY(u.snapshot.png);
        break;
    case WIRE_GET_REPORT:
        SAME(u.get_report.kind);
        SAME(u.get_report.scene);
        break;
    case WIRE_REPORT:
        SAME_ARRAY(u.report.json);
        break;
    default:
        break;
    }
    return NULL;
}
#undef SAME
#undef SAME_NUMBERS
#undef SAME_TEXT
#undef SAME_ARRAY
#undef SAME_PART
#undef SAME_LIST
#endif
