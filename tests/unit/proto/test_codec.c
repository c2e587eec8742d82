/* test_codec.c - every message survives the wire; what is truncated, contradictory or hostile is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/unit/proto/messages.h"

static samples store;
static wire_encoder *encoder;
static wire_scratch *scratch;

static int set_up(void **state) {
    (void)state;
    sample_store(&store);
    encoder = wire_encoder_new();
    scratch = wire_scratch_new();
    return encoder && scratch ? 0 : -1;
}
static int tear_down(void **state) {
    (void)state;
    wire_encoder_free(&encoder);
    wire_scratch_free(&scratch);
    return 0;
}

/* Copies the frames into blocks of exactly their size, at an odd address, so that a sanitizer sees every byte read
 * outside and every cast in place. */
typedef struct received {
    void *blocks[1 + WIRE_MAX_FRAMES];
    wire_frame frames[1 + WIRE_MAX_FRAMES];
    size_t n;
} received;
static received receive(const wire_encoded *sent) {
    received r = {.n = sent->n_frames};
    for (size_t i = 0; i < r.n; i++) {
        r.blocks[i] = malloc(sent->frames[i].size + 1);
        assert_non_null(r.blocks[i]);
        memcpy((char *)r.blocks[i] + 1, sent->frames[i].data, sent->frames[i].size);
        r.frames[i] = (wire_frame){(char *)r.blocks[i] + 1, sent->frames[i].size};
    }
    return r;
}
static void drop(received *r) {
    for (size_t i = 0; i < r->n; i++) free(r->blocks[i]);
}

static received send_message(const wire_message *m, size_t inline_bytes) {
    wire_encoded sent;
    assert_true(wire_encode(encoder, m, inline_bytes, &sent));
    return receive(&sent);
}

static void round_trip(const wire_message *m, size_t inline_bytes) {
    received r = send_message(m, inline_bytes);
    wire_message back;
    wire_fault fault;
    if (!wire_decode(r.frames, r.n, scratch, &back, &fault))
        fail_msg("%s: %s: %s", wire_type_name(m->type), fault.field, fault.message);
    const char *differs = differ_message(m, &back);
    if (differs) fail_msg("%s: %s differs", wire_type_name(m->type), differs);
    drop(&r);
}

static void every_message_round_trips(void **state) {
    (void)state;
    for (wire_type t = WIRE_HELLO; t < WIRE_TYPE_END; t++) {
        wire_message m = sample_message(&store, t);
        round_trip(&m, WIRE_INLINE_BYTES);
        round_trip(&m, 0);
        round_trip(&m, 60); /* some inline, some not */
    }
    wire_message file = sample_message(&store, WIRE_REGISTER_MESH);
    file.u.register_mesh = (wire_register_mesh){.file = {WIRE_U8, 20, store.file}, .format = WIRE_FORMAT_PLY};
    round_trip(&file, 0);
    round_trip(&file, WIRE_INLINE_BYTES);
    file.u.register_mesh.repair = true;
    file.u.register_mesh.max_hole = 0.25;
    round_trip(&file, 0);
    file.u.register_mesh.open_direction[1] = -0.5;
    round_trip(&file, 0);
    file.u.register_mesh.closing = WIRE_CLOSING_HULL;
    round_trip(&file, 0);
    file.u.register_mesh.closing = WIRE_CLOSING_WRAP;
    file.u.register_mesh.resolution = 0.125;
    round_trip(&file, 0);
    wire_message info = sample_message(&store, WIRE_MESH_INFO);
    info.u.mesh_info.closing = WIRE_CLOSING_HULL;
    info.u.mesh_info.deviation = 0.5;
    info.u.mesh_info.closed_as = 3;
    round_trip(&info, 0);
}

/* Apart from the other samples, which are also what the last release wrote: it had no devices. */
static void devices_round_trip(void **state) {
    (void)state;
    wire_device devices[64];
    for (uint64_t i = 0; i < 64; i++) {
        devices[i] = (wire_device){"a graphics card with a rather long name",
                                   1 + i,
                                   2,
                                   3,
                                   4,
                                   5,
                                   6,
                                   7,
                                   8,
                                   9,
                                   10,
                                   11,
                                   i % 2,
                                   "illegal memory access"};
    }
    wire_message m = sample_message(&store, WIRE_STATUS);
    m.u.status.devices = devices;
    m.u.status.n_devices = 64;
    round_trip(&m, WIRE_INLINE_BYTES);
    m.u.status.n_devices = 1;
    round_trip(&m, WIRE_INLINE_BYTES);
}

static void empty_messages_round_trip(void **state) {
    (void)state;
    for (wire_type t = WIRE_HELLO; t < WIRE_TYPE_END; t++) {
        wire_message m;
        memset(&m, 0, sizeof m);
        m.type = t;
        if (t == WIRE_ADD_BODY) m.u.add_body.kind = WIRE_BODY_DEFORMABLE;
        if (t == WIRE_REGISTER_MESH) {
            m.u.register_mesh.vertices.dtype = WIRE_F64; /* present, but empty */
            m.u.register_mesh.triangles.dtype = WIRE_U32;
        }
        round_trip(&m, WIRE_INLINE_BYTES);
        round_trip(&m, 0);
    }
}

static void newer_codes_and_methods_keep_their_number(void **state) {
    (void)state;
    wire_message m = sample_message(&store, WIRE_ERROR);
    unsigned code = 999;
    memcpy(&m.u.error.code, &code, sizeof code);
    round_trip(&m, 0);
    m = sample_message(&store, WIRE_OPEN_SCENE);
    code = 9;
    memcpy(&m.u.open_scene.settings.to.method, &code, sizeof code);
    round_trip(&m, 0);
    m = sample_message(&store, WIRE_STEP_RESULT);
    wire_warning warning = {.body = 3, .value = -1};
    memcpy(&warning.code, &(unsigned){77}, sizeof warning.code);
    m.u.step_result.warnings = &warning;
    m.u.step_result.n_warnings = 1;
    round_trip(&m, 0);
    assert_string_equal(wire_warning_name(77), "UNKNOWN");
    assert_string_equal(wire_warning_name(CONTACTD_WARNING_BODY_COLLAPSED), "BODY_COLLAPSED");
    assert_non_null(strstr(wire_warning_text(CONTACTD_WARNING_BODY_INVERTED), "inside out"));
    assert_string_equal(wire_code_name(999), "UNKNOWN");
    assert_string_equal(wire_code_name(-1), "UNKNOWN");
    assert_string_equal(wire_code_name(CONTACTD_BUSY), "BUSY");
    assert_true(wire_code_retry(CONTACTD_BUSY));
    assert_false(wire_code_retry(CONTACTD_MALFORMED));
    assert_string_equal(wire_type_name(WIRE_STEP_RESULT), "StepResult");
}

/* What decode says about a message that was encoded as given. */
static void refused(const wire_message *m, contactd_code code, const char *field) {
    received r = send_message(m, WIRE_INLINE_BYTES);
    wire_message back;
    wire_fault fault;
    assert_false(wire_decode(r.frames, r.n, scratch, &back, &fault));
    assert_string_equal(fault.field, field);
    assert_int_equal(fault.code, code);
    assert_int_equal(fault.request, m->request);
    assert_non_null(strstr(fault.message, strchr(field, '.') ? strchr(field, '.') + 1 : field));
    drop(&r);
}

static void repairs_round_trip(void **state) {
    (void)state;
    double numbers[WIRE_REPAIR_COUNTS + WIRE_REPAIR_ROW * (WIRE_REPAIR_ROWS + 1)];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) numbers[i] = (double)i / 8;
    wire_message m = sample_message(&store, WIRE_MESH_INFO);
    m.u.mesh_info.repair = numbers;
    for (int rows = 0; rows <= WIRE_REPAIR_ROWS; rows++) {
        m.u.mesh_info.n_repair = (uint32_t)(WIRE_REPAIR_COUNTS + rows * WIRE_REPAIR_ROW);
        m.u.mesh_info.closing_vertices = (uint64_t)rows;
        round_trip(&m, 0);
    }
    const uint32_t wrong[] = {0, WIRE_REPAIR_COUNTS - 1, WIRE_REPAIR_COUNTS + 1, sizeof numbers / sizeof *numbers};
    for (int i = 0; i < 4; i++) {
        m.u.mesh_info.n_repair = wrong[i];
        refused(&m, CONTACTD_WRONG_LENGTH, "repair");
    }
}

/* What came after the golden messages, which must decode without it. */
static void later_fields_round_trip(void **state) {
    (void)state;
    wire_message m = sample_message(&store, WIRE_STEP);
    m.u.step.time_budget_us = UINT32_MAX;
    m.u.step.tolerance = 1e-9;
    round_trip(&m, 0);
    m = sample_message(&store, WIRE_ADD_BODY);
    sample_numbers(m.u.add_body.start, 12, 0.75); /* where a reset takes it */
    round_trip(&m, 0);
    m.u.add_body.self_contact = true;
    round_trip(&m, 0);
    m = sample_message(&store, WIRE_BODY_ADDED);
    m.u.body_added.self_contact = true;
    round_trip(&m, 0);
    m = sample_message(&store, WIRE_STATUS);
    for (m.u.status.n_methods = 0; m.u.status.n_methods < WIRE_METHODS;) {
        m.u.status.methods[m.u.status.n_methods++] = "of a name that is as long as no method's should ever be";
        round_trip(&m, WIRE_INLINE_BYTES);
    }
    m.u.status.auto_method = "exact";
    round_trip(&m, 0);
    m = sample_message(&store, WIRE_SCENE_INFO); /* auto, with nothing named */
    m.u.scene_info.settings.to.method = CT_METHOD_AUTO;
    m.u.scene_info.settings.given &= ~CT_GIVEN(CT_SETTING_RESOLUTION);
    m.u.scene_info.running_method = CT_METHOD_EXACT;
    round_trip(&m, 0);
    m.u.scene_info.revision = UINT64_MAX;
    round_trip(&m, 0);
    m = sample_message(&store, WIRE_STEP_RESULT);
    m.u.step_result.settings = sample_settings();
    m.u.step_result.revision = 1ull << 60;
    round_trip(&m, 0);
    m = sample_message(&store, WIRE_SCENE_INFO);
    for (int strict = 0; strict < 2; strict++) {
        ct_scene_settings *settings = &m.u.scene_info.settings.to;
        m.u.scene_info.settings.given = CT_GIVEN_ALL;
        settings->optimize_directions = !strict;
        settings->allocation = strict ? CT_ALLOCATION_PER_PIXEL : CT_ALLOCATION_OPTIMAL;
        settings->method = CT_METHOD_EBPI;
        settings->tolerance = strict ? 0 : 1e-7;
        settings->tolerance_rel = strict ? 0.01 : 0;
        settings->strict = (int8_t)strict;
        settings->ray_budget = strict ? (uint64_t)INT64_MAX : 0;
        round_trip(&m, 0);
    }
    m = sample_message(&store, WIRE_OPEN_SCENE);
    m.u.open_scene.key = UINT64_MAX;
    m.u.open_scene.revision = 7;
    round_trip(&m, 0);
    m.u.open_scene.settings.given |= CT_GIVEN(CT_SETTING_PATCHES);
    for (int patches = 0; patches < 2; patches++) {
        m.u.open_scene.settings.to.patches = (int8_t)patches;
        round_trip(&m, 0);
    }
    ct_contact contacts[2] = {store.contacts[1], store.contacts[1]};
    contacts[1].index = UINT32_MAX;
    contacts[1].max_winding = 7;
    contacts[1].inverted_triangles = 1u << 31;
    m = sample_message(&store, WIRE_STEP_RESULT);
    m.u.step_result.contacts = contacts;
    m.u.step_result.n_contacts = 2;
    m.u.step_result.method = CT_METHOD_EXACT;
    round_trip(&m, 0);
    m.u.step_result.method = CT_METHOD_EBPI;
    m.u.step_result.ended = WIRE_PASS_LIMIT;
    m.u.step_result.passes = UINT32_MAX;
    round_trip(&m, 0);
}

static void many_round_trip(void **state) {
    (void)state;
    static uint64_t ids[WIRE_MOST_SCENES + 1];
    wire_message m = sample_message(&store, WIRE_STEP_MANY);
    round_trip(&m, 0);
    round_trip(&m, WIRE_INLINE_BYTES);
    m.u.step_many.posed.by_scene = false; /* two bodies, listed once */
    round_trip(&m, 0);
    m = (wire_message){.type = WIRE_STEP_MANY, .u.step_many = {.want = 1}};
    round_trip(&m, 0);
    m.u.step_many = (wire_step_many){.scenes = ids, .sequences = ids, .n = WIRE_MOST_SCENES};
    round_trip(&m, 0);
    m.u.step_many.n++;
    refused(&m, CONTACTD_TOO_LARGE, "scenes");
    m = sample_message(&store, WIRE_MANY_RESULT);
    round_trip(&m, 0);
    m.u.many_result = (wire_many_result){0};
    round_trip(&m, 0);
    m = sample_message(&store, WIRE_WELCOME);
    m.u.welcome.last_message = UINT8_MAX;
    round_trip(&m, 0);
}

/* Counts and sizes that do not fit each other. */
static void many_that_does_not_fit(void **state) {
    (void)state;
    wire_message good = sample_message(&store, WIRE_STEP_MANY), m = good;
    static const uint64_t huge[] = {4, UINT64_C(1) << 63}, few[] = {3};
    m.u.step_many.poses.count = 36; /* of 4 bodies in 2 scenes: neither 2 in each, nor 4 */
    refused(&m, CONTACTD_WRONG_LENGTH, "poses");
    m = good;
    m.u.step_many.poses.count = 0;
    refused(&m, CONTACTD_WRONG_LENGTH, "poses");
    m = good;
    m.u.step_many.posed = (wire_bodies){store.bodies, 3, false}; /* an odd number for two scenes */
    refused(&m, CONTACTD_WRONG_LENGTH, "poses");
    m = good;
    m.u.step_many.twists.count = 6;
    m.u.step_many.moving.n = 2;
    refused(&m, CONTACTD_WRONG_LENGTH, "twists");
    m = good;
    m.u.step_many.positions.count = 12;
    refused(&m, CONTACTD_WRONG_LENGTH, "positions");
    m = good;
    m.u.step_many.vertices = few;
    refused(&m, CONTACTD_OUT_OF_RANGE, "vertices");
    m = good;
    m.u.step_many.vertices = huge + 1;
    refused(&m, CONTACTD_OUT_OF_RANGE, "vertices");
    m = good;
    m.u.step_many.poses = sample_array(WIRE_F32, 48, store.poses);
    refused(&m, CONTACTD_MALFORMED, "poses");
    good = m = sample_message(&store, WIRE_MANY_RESULT);
    wire_column columns[2];
    memcpy(columns, store.columns, sizeof columns);
    m.u.many_result.columns = columns;
    columns[1].offset = 24; /* the last contact's numbers are beyond the end */
    refused(&m, CONTACTD_WRONG_LENGTH, "columns[1].offset");
    columns[1].offset = UINT64_MAX - 7;
    refused(&m, CONTACTD_WRONG_LENGTH, "columns[1].offset");
    columns[1].offset = 12;
    refused(&m, CONTACTD_WRONG_LENGTH, "columns[1].offset");
    columns[1] = (wire_column){0, WIRE_U32, UINT32_MAX, 16};
    refused(&m, CONTACTD_WRONG_LENGTH, "columns[1].offset");
    columns[1] = (wire_column){0, WIRE_F32, 1, 16};
    refused(&m, CONTACTD_MALFORMED, "columns[1].dtype");
    m = good;
    wire_many_error error = store.errors[0];
    error.index = 2;
    m.u.many_result.errors = &error;
    refused(&m, CONTACTD_OUT_OF_RANGE, "errors[0].index");
}

static void directions_round_trip(void **state) {
    (void)state;
    enum { N = 300 };
    static double values[3 * N];
    static float floats[6] = {1, 2, 3, 4, 5, 6};
    static wire_direction directions[N];
    for (int i = 0; i < 3 * N; i++) values[i] = i - 0.5;
    for (uint32_t k = 0; k < N; k++) {
        directions[k] = (wire_direction){.body = k, .index = k % 12, .has_twist = k % 3 == 0};
        if (directions[k].has_twist)
            for (int i = 0; i < 6; i++) directions[k].twist[i] = k + i;
        else
            directions[k].values =
                k % 3 == 1 ? sample_array(WIRE_F64, 3ull * (k % 50), values) : sample_array(WIRE_F32, 6, floats);
    }
    wire_message m = sample_message(&store, WIRE_STEP);
    m.u.step.directions = directions;
    for (m.u.step.n_directions = 1; m.u.step.n_directions <= N; m.u.step.n_directions *= 3) {
        round_trip(&m, 0);
        round_trip(&m, WIRE_INLINE_BYTES);
    }
    m.u.step.n_updates = 0;
    m.u.step.n_directions = N;
    round_trip(&m, WIRE_INLINE_BYTES);
    directions[0].has_twist = false; /* with neither, and with both */
    memset(directions[0].twist, 0, sizeof directions[0].twist);
    refused(&m, CONTACTD_MALFORMED, "directions[0].values");
    directions[0].has_twist = true;
    directions[0].values = sample_array(WIRE_F64, 3, values);
    refused(&m, CONTACTD_MALFORMED, "directions[0].values");
}

static void slip_round_trips(void **state) {
    (void)state;
    static const double values[6] = {1, 2, 3, -4, -5, -6};
    const wire_direction velocities[3] = {{.body = 4, .has_twist = true, .twist = {1, 2, 3, 4, 5, 6}},
                                          {.body = 5, .values = sample_array(WIRE_F64, 6, values)},
                                          {.body = 6, .has_twist = true}};
    wire_message m = sample_message(&store, WIRE_STEP);
    m.u.step.directions = velocities + 1;
    m.u.step.n_directions = 1;
    m.u.step.velocities = velocities;
    m.u.step.n_velocities = 3;
    m.u.step.viscosity = 0.25;
    m.u.step.received = 26;
    round_trip(&m, 0);
    round_trip(&m, WIRE_INLINE_BYTES);
    static double friction[3 * SAMPLE_ENTRIES];
    for (int i = 0; i < 3 * SAMPLE_ENTRIES; i++) friction[i] = 0.5 - i;
    ct_contact contacts[2] = {store.contacts[0], store.contacts[1]};
    contacts[1].spin = -7;
    sample_numbers(contacts[1].side_center[0], 6, 1.5);
    sample_numbers(contacts[1].relative_velocity, 3, 2.5);
    sample_numbers(contacts[1].friction[0], 12, 3.5);
    m = sample_message(&store, WIRE_STEP_RESULT);
    m.u.step_result.contacts = contacts;
    m.u.step_result.n_contacts = 2;
    m.u.step_result.groups = CT_CONTACT_FRAME | CT_CONTACT_SLIP;
    m.u.step_result.friction_forces = sample_array(WIRE_F64, 3 * SAMPLE_ENTRIES, friction);
    round_trip(&m, 0);
    round_trip(&m, WIRE_INLINE_BYTES);
    m.u.step_result.friction_forces.count = 3;
    refused(&m, CONTACTD_WRONG_LENGTH, "friction_forces");
    m = sample_message(&store, WIRE_STEP_RESULT);
    ct_contact pressed[2] = {store.contacts[0], store.contacts[1]};
    sample_numbers(pressed[0].wrench[0], 12, 0.25);
    sample_numbers(pressed[1].wrench[0], 12, 5.5);
    sample_numbers(pressed[1].extents, 2, 6.5);
    sample_numbers(pressed[1].axes[0], 6, 7.5);
    m.u.step_result.contacts = pressed;
    m.u.step_result.n_contacts = 2;
    m.u.step_result.groups = CT_CONTACT_FRAME | CT_CONTACT_LAW;
    round_trip(&m, 0);
}

static void cells_round_trip(void **state) {
    (void)state;
    wire_message m = sample_message(&store, WIRE_OPEN_SCENE);
    for (int set = 0; set < 2; set++) {
        const uint64_t bits =
            CT_GIVEN(CT_SETTING_CELL_SIZE) | CT_GIVEN(CT_SETTING_MARGIN) | CT_GIVEN(CT_SETTING_MAX_STEP_TIME);
        m.u.open_scene.settings.given = set ? bits : 0;
        m.u.open_scene.settings.to = (ct_scene_settings){.cell_size = 0.25, .margin = 0.125, .max_step_time = 1.5};
        round_trip(&m, 0);
    }
    ct_contact contacts[2] = {store.contacts[0], store.contacts[1]}, cells[3];
    for (int i = 0; i < 3; i++) {
        cells[i] = store.contacts[i % 2];
        cells[i].first_span = cells[i].n_spans = 0;
        cells[i].cell[0] = INT32_MIN + i;
        cells[i].cell[2] = INT32_MAX - i;
    }
    contacts[0].n_cells = 2;
    contacts[1].first_cell = 2;
    contacts[1].n_cells = 1;
    m = sample_message(&store, WIRE_STEP_RESULT);
    m.u.step_result.contacts = contacts;
    m.u.step_result.n_contacts = 2;
    m.u.step_result.cells = cells;
    m.u.step_result.n_cells = 3;
    round_trip(&m, 0);
    round_trip(&m, WIRE_INLINE_BYTES);
    contacts[1].n_cells = 2; /* more than there are */
    refused(&m, CONTACTD_WRONG_LENGTH, "contacts[1].first_cell");
    contacts[1].n_cells = 1;
    cells[2].first_span = 0;
    cells[2].n_spans = 1; /* cells have no spans */
    refused(&m, CONTACTD_WRONG_LENGTH, "cells[2].first_span");
}

/* What VOXTREE adds to settings and answers. */
static void voxels_round_trip(void **state) {
    (void)state;
    wire_message m = sample_message(&store, WIRE_CONFIGURE);
    uint64_t bits = 0;
    for (int k = 0; k < CT_SETTINGS; k++) bits |= ct_setting_rows[k].is_voxels ? CT_GIVEN(k) : 0;
    ct_scene_settings *to = &m.u.configure.settings.to;
    m.u.configure.settings.given = bits;
    *to = (ct_scene_settings){
        .voxel_level = 8, .level = 5, .pair_budget = INT64_MAX, .max_points = 4096, .center_normals = 1};
    round_trip(&m, 0);
    m.u.configure.settings.given = 0;
    round_trip(&m, 0);
    m.u.configure.settings.given = bits;
    to->level = (uint32_t)-2;
    refused(&m, CONTACTD_OUT_OF_RANGE, "level");
    to->level = 0;
    to->plain_average = 2;
    refused(&m, CONTACTD_OUT_OF_RANGE, "plain_average");

    static double points[3 * WIRE_POINT];
    static const uint32_t groups[6] = {1, 2, 3, 4, 65535, 6}, progress[2 * WIRE_PROGRESS] = {1, 2, 1, 6, 5, 4, 1, 3};
    for (int i = 0; i < 3 * WIRE_POINT; i++) points[i] = i + 0.5;
    ct_contact contacts[2] = {store.contacts[1], store.contacts[1]};
    contacts[0].n_points = 1;
    contacts[1].first_point = 1;
    contacts[1].n_points = 2;
    contacts[1].volume_lower = 0;
    contacts[1].volume_upper = 2;
    contacts[1].inverted_volume = 0.5;
    m = sample_message(&store, WIRE_STEP_RESULT);
    m.u.step_result.contacts = contacts;
    m.u.step_result.n_contacts = 2;
    m.u.step_result.method = CT_METHOD_VOXTREE;
    m.u.step_result.ended = WIRE_ENDED_TIME;
    m.u.step_result.quality = 0.25;
    m.u.step_result.has_wall = true;
    for (int p = 0; p < WIRE_TIMINGS; p++) m.u.step_result.wall_us[p] = 0.5 * p;
    m.u.step_result.points = sample_array(WIRE_F64, 3 * WIRE_POINT, points);
    m.u.step_result.point_groups = sample_array(WIRE_U32, 6, groups);
    m.u.step_result.progress = sample_array(WIRE_U32, 2 * WIRE_PROGRESS, progress);
    static const uint64_t ids[3] = {7, UINT64_MAX, 9};
    m.u.step_result.point_ids = sample_array(WIRE_U64, 3, ids);
    m.u.step_result.ended_ids = sample_array(WIRE_U64, 2, ids);
    contacts[0].id = UINT64_MAX - 1;
    contacts[0].is_new = true;
    round_trip(&m, 0);
    round_trip(&m, WIRE_INLINE_BYTES);
    contacts[1].n_points = 3;
    refused(&m, CONTACTD_WRONG_LENGTH, "contacts[1].first_point");
    contacts[1].n_points = 2;
    m.u.step_result.point_groups.count = 4;
    refused(&m, CONTACTD_WRONG_LENGTH, "point_groups");
    m.u.step_result.point_groups.count = 6;
    m.u.step_result.point_ids.count = 2;
    refused(&m, CONTACTD_WRONG_LENGTH, "point_ids");
    m.u.step_result.point_ids = sample_array(WIRE_U32, 3, ids);
    refused(&m, CONTACTD_MALFORMED, "point_ids");
    m.u.step_result.point_ids = sample_array(WIRE_U64, 3, ids);
    m.u.step_result.progress.count = 7;
    refused(&m, CONTACTD_WRONG_LENGTH, "progress");
    m.u.step_result.progress.count = 2 * WIRE_PROGRESS;
    static const double apart[2 * WIRE_SEPARATION] = {1, 2, 0.5, 0, 0, 1, 0, 0, 1.5, 0, 0, 1, 4e9};
    m.u.step_result.separations = sample_array(WIRE_F64, 2 * WIRE_SEPARATION, apart);
    round_trip(&m, 0);
    m.u.step_result.separations.count = 13;
    refused(&m, CONTACTD_WRONG_LENGTH, "separations");
    assert_string_equal(wire_ended_name(WIRE_ENDED_TIME), "time");
    assert_string_equal(wire_ended_name((wire_ended)99), "unknown");
}

/* Two polygons of three and four corners, one of them the contact's. */
static void surface_round_trips(void **state) {
    (void)state;
    static samples store;
    static double polygons[2 * WIRE_POLYGON], vertices[7 * WIRE_POLYGON_VERTEX];
    uint32_t offsets[3] = {0, 3, 7};
    for (int i = 0; i < 2 * WIRE_POLYGON; i++) polygons[i] = i + 0.25;
    for (int i = 0; i < 7 * WIRE_POLYGON_VERTEX; i++) vertices[i] = i - 0.5;
    wire_message m = sample_message(&store, WIRE_STEP_RESULT);
    ct_contact contact = store.contacts[1];
    contact.first_polygon = 1;
    contact.n_polygons = 1;
    wire_step_result *r = &m.u.step_result;
    r->contacts = &contact;
    r->n_contacts = 1;
    r->surface_polygons = sample_array(WIRE_F64, 2 * WIRE_POLYGON, polygons);
    r->surface_offsets = sample_array(WIRE_U32, 3, offsets);
    r->surface_vertices = sample_array(WIRE_F64, 7 * WIRE_POLYGON_VERTEX, vertices);
    round_trip(&m, 0);
    round_trip(&m, WIRE_INLINE_BYTES);
    contact.n_polygons = 2;
    refused(&m, CONTACTD_WRONG_LENGTH, "contacts[0].first_polygon");
    contact.n_polygons = 1;
    offsets[1] = 8;
    refused(&m, CONTACTD_MALFORMED, "surface_offsets");
    offsets[1] = 3;
    offsets[2] = 6;
    refused(&m, CONTACTD_WRONG_LENGTH, "surface_vertices");
    offsets[2] = 7;
    r->surface_offsets.count = 2;
    refused(&m, CONTACTD_WRONG_LENGTH, "surface_offsets");
    r->surface_offsets.count = 3;
    r->surface_polygons.count = WIRE_POLYGON + 1;
    refused(&m, CONTACTD_WRONG_LENGTH, "surface_polygons");
    r->surface_polygons = (wire_array){.dtype = WIRE_NONE};
    refused(&m, CONTACTD_MALFORMED, "surface_polygons");
}

static void successors_round_trip(void **state) {
    (void)state;
    static samples store;
    sample_store(&store);
    wire_message m = sample_message(&store, WIRE_ERROR);
    m.u.error.code = CONTACTD_SHUTTING_DOWN;
    m.u.error.successors = "tcp://a:1,tcp://b:2";
    round_trip(&m, 0);
    m = sample_message(&store, WIRE_WELCOME);
    m.u.welcome.successors = "ipc:///run/contactd";
    round_trip(&m, 0);
}

static void products_round_trip(void **state) {
    (void)state;
    static const uint32_t vertices[3] = {5, 7, 1};
    static double products[3 * 2 * 3], generalized[2 * 2 * 12];
    for (int i = 0; i < 18; i++) products[i] = i + 0.25;
    for (int i = 0; i < 48; i++) generalized[i] = -i;
    ct_contact contacts[2] = {store.contacts[1], store.contacts[1]};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) contacts[1].inertia[i][k] = 3 * (i + k) - 2.5;
    for (int w = 0; w < 3; w++) contacts[0].error_bounds[w] = 1e-3 * w;
    contacts[0].count_product[0] = 1;
    contacts[1].first_product[0] = contacts[1].first_product[1] = contacts[0].first_product[1] = 1;
    contacts[1].count_product[1] = 2;
    wire_message m = sample_message(&store, WIRE_STEP_RESULT);
    m.u.step_result.contacts = contacts;
    m.u.step_result.n_contacts = 2;
    m.u.step_result.groups = CT_CONTACT_INERTIA;
    m.u.step_result.directions = 2;
    m.u.step_result.product_vertices = sample_array(WIRE_U32, 3, vertices);
    m.u.step_result.products = sample_array(WIRE_F64, 18, products);
    m.u.step_result.generalized_products = sample_array(WIRE_F64, 48, generalized);
    round_trip(&m, 0);
    round_trip(&m, WIRE_INLINE_BYTES);
    contacts[1].count_product[1] = 3;
    refused(&m, CONTACTD_WRONG_LENGTH, "contacts[1].first_product_b");
    contacts[1].count_product[1] = 2;
    m.u.step_result.products.count = 15;
    refused(&m, CONTACTD_WRONG_LENGTH, "products");
    m.u.step_result.products.count = 18;
    m.u.step_result.directions = 3;
    refused(&m, CONTACTD_WRONG_LENGTH, "products");
    m.u.step_result.directions = 2;
    m.u.step_result.n_contacts = 1;
    refused(&m, CONTACTD_WRONG_LENGTH, "generalized_products");
}

static void methods_have_names(void **state) {
    (void)state;
    assert_string_equal(ct_method_name(CT_METHOD_LDI), "ldi");
    int64_t found = -1;
    const ct_setting_row *row = &ct_setting_rows[CT_SETTING_METHOD];
    for (const ct_setting_choice *c = row->choices; c->name; c++)
        assert_true(ct_setting_choice_find(row, c->name, &found) && found == c->number);
    assert_false(ct_setting_choice_find(row, "LDI", &found) || ct_setting_choice_find(row, "", &found));
    assert_string_equal(wire_ended_name(WIRE_COMPLETED), "completed");
    assert_string_equal(wire_ended_name(WIRE_PRECISION), "precision");
    ct_method newer;
    unsigned number = 77;
    memcpy(&newer, &number, sizeof newer);
    assert_string_equal(ct_method_name(newer), "unknown");
    wire_ended later;
    memcpy(&later, &number, sizeof later);
    assert_string_equal(wire_ended_name(later), "unknown");
    assert_string_equal(ct_method_name(CT_METHOD_NONE), "unknown");
}

/* A report of a newer peer, or of one that sends nonsense: it is for the receiver to refuse it. */
static void unknown_reports_round_trip(void **state) {
    (void)state;
    wire_message m = sample_message(&store, WIRE_GET_REPORT);
    const unsigned number = 116;
    memcpy(&m.u.get_report.kind, &number, sizeof m.u.get_report.kind);
    round_trip(&m, 0);
}

/* 40 bodies with large arrays: 16 frames hold the largest, the rest goes into the header. */
static void many_large_arrays(void **state) {
    (void)state;
    enum { BODIES = 40 };
    float *positions = calloc(BODIES * 3000, sizeof *positions);
    assert_non_null(positions);
    for (int i = 0; i < BODIES * 3000; i++) positions[i] = (float)i;
    wire_update updates[BODIES] = {0};
    for (uint32_t k = 0; k < BODIES; k++) {
        double pose[12] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
        memcpy(updates[k].pose, pose, sizeof pose);
        updates[k].body = k + 1;
        updates[k].kind = WIRE_UPDATE_POSITIONS;
        updates[k].positions = sample_array(WIRE_F32, 3 * (900 + (k * 37) % 100), positions + 3000 * k);
    }
    wire_message m = sample_message(&store, WIRE_STEP);
    m.u.step.updates = updates;
    m.u.step.n_updates = BODIES;
    round_trip(&m, 4096);
    wire_encoded sent;
    assert_true(wire_encode(encoder, &m, 4096, &sent));
    assert_int_equal(sent.n_frames, 17);
    size_t least = SIZE_MAX, largest_inline = 0;
    for (size_t i = 1; i < sent.n_frames; i++) least = sent.frames[i].size < least ? sent.frames[i].size : least;
    for (int k = 0; k < BODIES; k++) {
        bool framed = false;
        for (size_t i = 1; i < sent.n_frames; i++) framed |= sent.frames[i].data == updates[k].positions.data;
        size_t bytes = updates[k].positions.count * 4;
        if (!framed && bytes > largest_inline) largest_inline = bytes;
    }
    assert_true(largest_inline <= least);
    free(positions);
}

/* Beside many contacts and few, with numbers that are left out of the table because they are 0. */
static void warnings_round_trip(void **state) {
    (void)state;
    enum { N = 5000 };
    wire_warning *warnings = calloc(N, sizeof *warnings);
    assert_non_null(warnings);
    for (uint32_t k = 0; k < N; k++)
        warnings[k] = (wire_warning){.code = k & 1 ? CONTACTD_WARNING_BODY_INVERTED : CONTACTD_WARNING_BODY_COLLAPSED,
                                     .body = k + 1,
                                     .value = k & 2 ? 0 : -1.5 - k};
    for (uint32_t n_contacts = 0; n_contacts <= SAMPLE_CONTACTS; n_contacts++)
        for (uint32_t n = 0; n <= N; n = 3 * n + 1) {
            wire_message m = sample_message(&store, WIRE_STEP_RESULT);
            m.u.step_result.n_contacts = n_contacts;
            m.u.step_result.warnings = warnings;
            m.u.step_result.n_warnings = n;
            round_trip(&m, WIRE_INLINE_BYTES);
        }
    wire_message m = sample_message(&store, WIRE_STEP_RESULT); /* the smallest tables that there can be */
    for (uint32_t k = 0; k < N; k++) warnings[k].value = 0;
    m.u.step_result = (wire_step_result){.warnings = warnings, .n_warnings = N};
    round_trip(&m, 0);
    free(warnings);
}

/* The header's bound must cover the densest messages: many elements, long and short texts. */
static void many_elements(void **state) {
    (void)state;
    enum { N = 5000 };
    ct_contact *contacts = calloc(N, sizeof *contacts);
    wire_mesh_info *meshes = calloc(N, sizeof *meshes);
    wire_scene_info *scenes = calloc(N, sizeof *scenes);
    assert_true(contacts && meshes && scenes);
    for (unsigned k = 0; k < N; k++) {
        sample_contact(&contacts[k], k);
        contacts[k].first[0] = contacts[k].count[0] = contacts[k].first[1] = contacts[k].first_span = k % 3;
        if (k & 8) contacts[k].area = 0; /* many different vtables */
        if (k & 16) contacts[k].depth = 0;
        if (k & 32) contacts[k].error_estimate = 0;
        contacts[k].index = contacts[k].max_winding = k & 64 ? 0 : k;
        meshes[k] = sample_mesh((int)k);
        meshes[k].name = k & 1 ? "" : "a name that is a good deal longer than the hash of the mesh ever was";
        scenes[k] = sample_scene((int)(k % 20));
        scenes[k].settings.given = k & 1 ? CT_GIVEN(CT_SETTING_STIFFNESS) : 0;
        scenes[k].settings.to.stiffness = 1;
    }
    wire_message m = sample_message(&store, WIRE_STEP_RESULT);
    m.u.step_result.contacts = contacts;
    m.u.step_result.n_contacts = N;
    round_trip(&m, WIRE_INLINE_BYTES);
    m = sample_message(&store, WIRE_MESH_LIST);
    m.u.mesh_list = (wire_mesh_list){meshes, N};
    round_trip(&m, 0);
    m = sample_message(&store, WIRE_SCENE_LIST);
    m.u.scene_list = (wire_scene_list){scenes, N};
    round_trip(&m, 0);
    free(contacts);
    free(meshes);
    free(scenes);
}

/* Contacts with a frame, as combs of 330 teeth with patches have: 60 MiB. More than a header holds are refused. */
static void as_many_contacts_as_fit(void **state) {
    (void)state;
    enum { FITS = 106470, TOO_MANY = 250000 };
    ct_contact *contacts = calloc(TOO_MANY, sizeof *contacts);
    assert_non_null(contacts);
    for (unsigned k = 0; k < TOO_MANY; k++) {
        ct_contact *c = &contacts[k];
        c->body[0] = 1;
        c->body[1] = 2;
        c->index = k;
        c->max_winding = 1;
        c->volume = c->error_bound = c->error_estimate = c->area = c->depth = 1.0 / (k + 1);
        c->first[0] = c->first[1] = c->count[0] = c->count[1] = 2; /* of the sample's entries */
    }
    wire_message m = sample_message(&store, WIRE_STEP_RESULT), back;
    m.u.step_result.contacts = contacts;
    m.u.step_result.n_contacts = FITS;
    m.u.step_result.groups = CT_CONTACT_FRAME;
    wire_encoded sent;
    wire_fault fault;
    assert_true(wire_encode(encoder, &m, WIRE_INLINE_BYTES, &sent));
    received r = receive(&sent);
    assert_true(wire_decode(r.frames, r.n, scratch, &back, &fault));
    assert_int_equal(back.u.step_result.n_contacts, FITS);
    assert_int_equal(back.u.step_result.contacts[FITS - 1].index, FITS - 1);
    drop(&r);
    m.u.step_result.n_contacts = TOO_MANY;
    assert_false(wire_encode(encoder, &m, WIRE_INLINE_BYTES, &sent));
    free(contacts);
}

static void truncated_at_every_byte(void **state) {
    (void)state;
    int refused = 0;
    for (wire_type t = WIRE_HELLO; t < WIRE_TYPE_END; t++) {
        wire_message m = sample_message(&store, t), back;
        wire_encoded sent;
        wire_fault fault;
        for (size_t inline_bytes = 0; inline_bytes <= WIRE_INLINE_BYTES; inline_bytes += WIRE_INLINE_BYTES) {
            assert_true(wire_encode(encoder, &m, inline_bytes, &sent));
            for (size_t f = 0; f < sent.n_frames; f++)
                for (size_t size = 0; size < sent.frames[f].size; size++) {
                    wire_encoded cut = sent;
                    cut.frames[f].size = size;
                    received r = receive(&cut);
                    bool ok = wire_decode(r.frames, r.n, scratch, &back, &fault);
                    /* FlatBuffers end in padding or in the strings of the root, so a cut may be harmless: then the
                     * message must be the one that was sent. A cut array never is. */
                    if (ok) {
                        assert_int_equal(f, 0);
                        assert_null(differ_message(&m, &back));
                    } else {
                        assert_int_not_equal(fault.code, CONTACTD_OK);
                        assert_true(fault.message[0] && fault.field[0]);
                        refused++;
                    }
                    drop(&r);
                }
        }
    }
    assert_true(refused > 1000);
}

/* Any byte may be anything: no crash, no read outside (the sanitizer watches), and faults are complete. */
static void corrupted_bytes(void **state) {
    (void)state;
    uint32_t random = 12345;
    for (wire_type t = WIRE_HELLO; t < WIRE_TYPE_END; t++) {
        wire_message m = sample_message(&store, t), back;
        wire_fault fault;
        received r = send_message(&m, t & 1 ? 0 : WIRE_INLINE_BYTES);
        unsigned char *bytes = (unsigned char *)r.blocks[0] + 1;
        for (int k = 0; k < 20000; k++) {
            random = random * 1664525u + 1013904223u;
            size_t at = (random >> 8) % r.frames[0].size;
            unsigned char was = bytes[at];
            bytes[at] ^= (unsigned char)(1u << (random >> 29));
            if (!wire_decode(r.frames, r.n, scratch, &back, &fault)) assert_true(fault.message[0] != 0);
            if (k % 3) bytes[at] = was;
        }
        drop(&r);
    }
}

static void contradictions_name_the_field(void **state) {
    (void)state;
    wire_message m = sample_message(&store, WIRE_STEP);
    store.updates[1].indices.count = 1;
    refused(&m, CONTACTD_WRONG_LENGTH, "updates[1].indices");
    store.updates[1].indices = (wire_array){0};
    refused(&m, CONTACTD_MALFORMED, "updates[1].indices");
    sample_store(&store);
    store.updates[2].indices.count = 2;
    refused(&m, CONTACTD_WRONG_LENGTH, "updates[2].indices");
    store.updates[2].positions.count = 8;
    refused(&m, CONTACTD_WRONG_LENGTH, "updates[2].positions");
    store.updates[2].positions = sample_array(WIRE_U32, 3, store.indices);
    refused(&m, CONTACTD_MALFORMED, "updates[2].positions");
    sample_store(&store);
    store.updates[0].indices = sample_array(WIRE_U32, 2, store.ranges);
    refused(&m, CONTACTD_MALFORMED, "updates[0].indices");
    sample_store(&store);
    store.updates[3].positions = sample_array(WIRE_F32, 12, store.positions);
    refused(&m, CONTACTD_MALFORMED, "updates[3].positions");
    sample_store(&store);
    store.updates[3].kind = WIRE_UPDATE_NONE;
    refused(&m, CONTACTD_MALFORMED, "updates[3].kind");
    sample_store(&store);

    m = sample_message(&store, WIRE_REGISTER_MESH);
    m.u.register_mesh.triangles.count = 11;
    refused(&m, CONTACTD_WRONG_LENGTH, "triangles");
    m.u.register_mesh.triangles = (wire_array){0};
    refused(&m, CONTACTD_MALFORMED, "triangles");
    m.u.register_mesh.file = sample_array(WIRE_U8, 4, store.file);
    refused(&m, CONTACTD_MALFORMED, "file");
    m.u.register_mesh.file = (wire_array){0};
    m.u.register_mesh.vertices = sample_array(WIRE_U8, 12, store.positions);
    refused(&m, CONTACTD_MALFORMED, "vertices");

    m = sample_message(&store, WIRE_STEP_RESULT);
    m.u.step_result.gradient.count = 3;
    refused(&m, CONTACTD_WRONG_LENGTH, "gradient");
    m = sample_message(&store, WIRE_STEP_RESULT);
    store.contacts[2].first[1] = SAMPLE_ENTRIES - 1;
    refused(&m, CONTACTD_WRONG_LENGTH, "contacts[2].first_b");
    store.contacts[2].first[1] = UINT64_MAX;
    refused(&m, CONTACTD_WRONG_LENGTH, "contacts[2].first_b");
    sample_store(&store);

    m = sample_message(&store, WIRE_ADD_BODY);
    m.u.add_body.kind = WIRE_BODY_NONE;
    refused(&m, CONTACTD_MALFORMED, "kind");
    m = sample_message(&store, WIRE_ADD_BODIES);
    m.u.add_bodies.n_meshes = 0;
    refused(&m, CONTACTD_WRONG_LENGTH, "meshes");
    m.u.add_bodies.n_meshes = 1;
    round_trip(&m, 0);
    m.u.add_bodies.n_meshes = 2;
    m.u.add_bodies.n = 1;
    refused(&m, CONTACTD_WRONG_LENGTH, "meshes");
    const char *bad[] = {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "ok \xe2\x82", "\xe0\x80\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        m = sample_message(&store, WIRE_HELLO);
        m.u.hello.client = bad[i];
        refused(&m, CONTACTD_MALFORMED, "client");
    }
    m.u.hello.client = "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\xa9 \xf4\x8f\xbf\xbf";
    round_trip(&m, 0);
    m.type = WIRE_NO_BODY;
    refused(&m, CONTACTD_MALFORMED, "body");
}

static void frames_that_do_not_fit(void **state) {
    (void)state;
    wire_message m = sample_message(&store, WIRE_STEP), back;
    wire_fault fault;
    wire_encoded sent;
    assert_true(wire_encode(encoder, &m, 0, &sent));
    assert_true(sent.n_frames > 2);
    received r = receive(&sent);
    assert_false(wire_decode(r.frames, r.n - 1, scratch, &back, &fault)); /* the last array frame is missing */
    assert_int_equal(fault.code, CONTACTD_MALFORMED);
    assert_int_equal(fault.request, m.request);
    assert_false(wire_decode(r.frames, 0, scratch, &back, &fault));
    wire_frame many[2 + WIRE_MAX_FRAMES];
    for (size_t i = 0; i < 2 + WIRE_MAX_FRAMES; i++) many[i] = r.frames[0];
    assert_false(wire_decode(many, 2 + WIRE_MAX_FRAMES, scratch, &back, &fault));
    assert_int_equal(fault.code, CONTACTD_TOO_LARGE);
    many[0].size = (size_t)WIRE_MAX_HEADER + 1; /* refused before a byte is read */
    assert_false(wire_decode(many, 1, scratch, &back, &fault));
    assert_int_equal(fault.code, CONTACTD_TOO_LARGE);
    drop(&r);
    unsigned char garbage[64];
    for (size_t i = 0; i < sizeof garbage; i++) garbage[i] = (unsigned char)(i * 37);
    for (size_t n = 0; n <= sizeof garbage; n++) {
        wire_frame frame = {garbage, n};
        assert_false(wire_decode(&frame, 1, scratch, &back, &fault));
        assert_int_equal(fault.code, CONTACTD_MALFORMED);
    }
}

static size_t find_u32(const unsigned char *bytes, size_t size, size_t from, uint32_t value) {
    while (from + 4 <= size && memcmp(bytes + from, &value, 4) != 0) from += 4;
    assert_true(from + 4 <= size);
    return from;
}

/* References to one table cost their sender 4 bytes each: they are refused before they cost us hundreds. The last
 * update's inline positions are made to be the vector of updates, and all its offsets lead to the first update. */
static void shared_tables_are_bounded(void **state) {
    (void)state;
    enum { FORGED = 300000, REAL = 12345, MARK = 0x5eed5eed };
    wire_message m = sample_message(&store, WIRE_STEP), back;
    wire_fault fault;
    wire_encoded sent;
    uint32_t *forged = malloc(sizeof *forged * FORGED);
    wire_update *updates = calloc(REAL, sizeof *updates);
    assert_true(forged && updates);
    for (uint32_t k = 0; k < FORGED; k++) forged[k] = MARK;
    for (uint32_t k = 0; k < REAL; k++) updates[k] = store.updates[3];
    updates[REAL - 1].kind = WIRE_UPDATE_POSITIONS;
    updates[REAL - 1].positions = sample_array(WIRE_F32, FORGED, forged);
    m.u.step.updates = updates;
    m.u.step.n_updates = REAL;
    assert_true(wire_encode(encoder, &m, 4 * FORGED, &sent));
    assert_int_equal(sent.n_frames, 1);
    received r = receive(&sent);
    if (!wire_decode(r.frames, 1, scratch, &back, &fault)) fail_msg("%s: %s", fault.field, fault.message);
    assert_int_equal(back.u.step.n_updates, REAL);

    unsigned char *bytes = (unsigned char *)r.blocks[0] + 1;
    size_t size = r.frames[0].size, vector = find_u32(bytes, size, 0, REAL), mark = find_u32(bytes, size, vector, MARK);
    uint32_t offset, n = FORGED - 1;
    memcpy(&offset, bytes + vector + 4, 4); /* of the first update, which lies behind all others */
    size_t table = vector + 4 + offset, reference = 0;
    for (reference = 0;; reference += 4) {
        assert_true(reference < vector);
        memcpy(&offset, bytes + reference, 4);
        if (reference + offset == vector) break;
    }
    memcpy(bytes + mark, &n, 4);
    for (size_t k = 1; k < FORGED; k++) {
        offset = (uint32_t)(table - (mark + 4 * k));
        memcpy(bytes + mark + 4 * k, &offset, 4);
    }
    offset = (uint32_t)(mark - reference);
    memcpy(bytes + reference, &offset, 4);
    assert_false(wire_decode(r.frames, 1, scratch, &back, &fault));
    assert_int_equal(fault.code, CONTACTD_MALFORMED);
    n = 5; /* the same with few references is a valid message: it was their number that was refused */
    memcpy(bytes + mark, &n, 4);
    assert_true(wire_decode(r.frames, 1, scratch, &back, &fault));
    assert_int_equal(back.u.step.n_updates, 5);
    assert_int_equal(back.u.step.updates[4].body, updates[0].body);
    drop(&r);
    free(forged);
    free(updates);
}

static void a_small_step_is_cheap(void **state) {
    (void)state;
    enum { ROUNDS = 2000 };
    wire_update updates[2] = {store.updates[3], store.updates[3]};
    wire_message step = sample_message(&store, WIRE_STEP), result = sample_message(&store, WIRE_STEP_RESULT), back;
    step.u.step.updates = updates;
    step.u.step.n_updates = 2;
    result.u.step_result.n_contacts = 1;
    wire_encoded sent;
    wire_fault fault;
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (int k = 0; k < ROUNDS; k++) {
        assert_true(wire_encode(encoder, &step, WIRE_INLINE_BYTES, &sent));
        assert_true(wire_decode(sent.frames, sent.n_frames, scratch, &back, &fault));
        assert_true(wire_encode(encoder, &result, WIRE_INLINE_BYTES, &sent));
        assert_true(wire_decode(sent.frames, sent.n_frames, scratch, &back, &fault));
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    double us = ((double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) * 1e-3) / ROUNDS;
    print_message("codec: %.2f us for a two-body step and its answer, both ways\n", us);
    assert_true(us < 1000); /* nothing quadratic; the figure itself is for people */
}

/* What an older server does not say of a mesh is 0. */
static void facts_of_meshes_round_trip(void **state) {
    (void)state;
    for (uint32_t shells = 0; shells < 3; shells += 2) {
        wire_message m = sample_message(&store, WIRE_MESH_INFO);
        wire_mesh_info *info = &m.u.mesh_info;
        info->shells = shells;
        info->doubled_shells = shells / 2;
        static const double unchanged[WIRE_REPAIR_COUNTS] = {0};
        info->moved = 1e-5 * shells;
        info->repair = shells ? unchanged : NULL;
        info->n_repair = shells ? WIRE_REPAIR_COUNTS : 0;
        info->uneven_polygons = shells;
        info->unevenness = 0.25 * shells;
        info->self_overlap = shells ? 0.125 : 0;
        for (int k = 0; k < 3 && shells; k++) info->center_of_mass[k] = 0.25 * k - 1;
        for (int k = 0; k < 9 && shells; k++) info->inertia[k] = 1.0 / (k + 1);
        round_trip(&m, 0);
    }
}

/* A body's material, all or a part of it. */
static void materials_round_trip(void **state) {
    (void)state;
    const ct_material materials[] = {{1e7, 0.25, 2, 0.5}, {NAN, 0, NAN, NAN}};
    for (int i = 0; i < 2; i++) {
        wire_message m = sample_message(&store, WIRE_ADD_BODY);
        m.u.add_body.material = materials[i];
        round_trip(&m, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_round_trips),
        cmocka_unit_test(repairs_round_trip),
        cmocka_unit_test(devices_round_trip),
        cmocka_unit_test(empty_messages_round_trip),
        cmocka_unit_test(newer_codes_and_methods_keep_their_number),
        cmocka_unit_test(later_fields_round_trip),
        cmocka_unit_test(many_round_trip),
        cmocka_unit_test(many_that_does_not_fit),
        cmocka_unit_test(directions_round_trip),
        cmocka_unit_test(slip_round_trips),
        cmocka_unit_test(facts_of_meshes_round_trip),
        cmocka_unit_test(materials_round_trip),
        cmocka_unit_test(cells_round_trip),
        cmocka_unit_test(surface_round_trips),
        cmocka_unit_test(successors_round_trip),
        cmocka_unit_test(products_round_trip),
        cmocka_unit_test(voxels_round_trip),
        cmocka_unit_test(warnings_round_trip),
        cmocka_unit_test(methods_have_names),
        cmocka_unit_test(unknown_reports_round_trip),
        cmocka_unit_test(many_large_arrays),
        cmocka_unit_test(many_elements),
        cmocka_unit_test(as_many_contacts_as_fit),
        cmocka_unit_test(truncated_at_every_byte),
        cmocka_unit_test(corrupted_bytes),
        cmocka_unit_test(contradictions_name_the_field),
        cmocka_unit_test(frames_that_do_not_fit),
        cmocka_unit_test(shared_tables_are_bounded),
        cmocka_unit_test(a_small_step_is_cheap),
    };
    return cmocka_run_group_tests_name("codec", tests, set_up, tear_down);
}
