/* test_snapshot.c - taking a snapshot: its contents, its errors, and that the scene does not change. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/contact/result.h"
#include "gpu/method/engine.h"
#include "gpu/picture/picture.h"
#include "gpu/scene/scene.h"
#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

typedef struct fixture {
    struct shape cube;
    double pose[12];
    struct stage stage;
} fixture;

static const ct_body_kind kinds[2] = {CT_BODY_RIGID, CT_BODY_DEFORMABLE};

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    f->cube = shape_box(1, 1, 1);
    shape_pose_identity(f->pose);
    f->pose[3] = f->pose[7] = f->pose[11] = 0.5;
    const struct placed bodies[2] = {{&f->cube, NULL, kinds[0]}, {&f->cube, f->pose, kinds[1]}};
    ct_scene_settings settings = stage_resolution(8);
    f->stage = stage_open(stage_engine(2, NULL), &settings, bodies, 2);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    ct_engine *engine = f->stage.engine;
    stage_close(&f->stage);
    ct_engine_destroy(&engine);
    shape_free(&f->cube);
    free(f);
    return 0;
}

static ct_snapshot *take(fixture *f, const ct_snapshot_options *options) {
    ct_snapshot *snapshot;
    ct_error error = {0};
    if (ct_snapshot_take(f->stage.scene, options, &snapshot, &error)) fail_msg("%s", error.message);
    return snapshot;
}

static void hash_of_step(fixture *f, char hash[33]) {
    ct_result *result = stage_step(&f->stage, NULL, 0, CT_WANT_ALL | CT_WANT_SPANS);
    stage_hash(result, hash);
    ct_result_free(&result);
}

static void the_scene_is_as_it_was(void **state) {
    fixture *f = *state;
    char before[33], after[33];
    hash_of_step(f, before);
    ct_scene_settings settings, now;
    ct_scene_get_settings(f->stage.scene, &settings);
    for (uint32_t resolution = 0; resolution < 100; resolution += 33) {
        ct_snapshot_options o;
        ct_snapshot_options_init(&o);
        o.resolution = resolution;
        if (resolution) o.show |= CT_SHOW_CONTACTS | CT_SHOW_GRADIENTS;
        ct_snapshot *snapshot = take(f, &o);
        ct_snapshot_free(&snapshot);
        assert_null(snapshot);
    }
    ct_scene_get_settings(f->stage.scene, &now);
    assert_same_bytes(&settings, &now, sizeof now);
    hash_of_step(f, after);
    assert_string_equal(before, after);
}

static void holds_bodies_and_spans(void **state) {
    fixture *f = *state;
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    ct_result *result = stage_step(&f->stage, NULL, 0, CT_WANT_SPANS);
    ct_snapshot *snapshot = take(f, &o);
    assert_int_equal(snapshot->n_bodies, 2);
    assert_null(snapshot->bodies[0].positions);
    assert_int_equal(snapshot->bodies[1].rigid, false);
    for (uint32_t v = 0; v < f->cube.n_vertices; v++)
        for (int i = 0; i < 3; i++) {
            double at = ct_snapshot_body_positions(&snapshot->bodies[1])[3 * v + i];
            assert_true(at == (float)(f->cube.positions[3 * v + i] + 0.5));
        }
    assert_int_equal(snapshot->n_contacts, 1);
    assert_int_equal(snapshot->n_spans, 3 * 8 * 8);
    assert_same_bytes(snapshot->spans, result->spans, snapshot->n_spans * sizeof(ct_span));
    for (int i = 0; i < 3; i++) assert_true(snapshot->contacts[0].pitch[i] == 0.5 / 8);
    ct_snapshot_free(&snapshot);
    ct_result_free(&result);

    o.resolution = 3;
    snapshot = take(f, &o);
    assert_int_equal(snapshot->n_spans, 3 * 3 * 3);
    ct_snapshot_free(&snapshot);
    o.show = CT_SHOW_BODIES;
    snapshot = take(f, &o);
    assert_int_equal(snapshot->n_spans, 0);
    ct_snapshot_free(&snapshot);
}

static void positions_are_current(void **state) {
    fixture *f = *state;
    float positions[24];
    for (int i = 0; i < 24; i++) positions[i] = f->cube.positions[i] + 3;
    const ct_update update = {
        .body = f->stage.body[1], .kind = CT_UPDATE_POSITIONS, .positions = positions, .dtype = CT_F32, .count = 8};
    ct_result *result = stage_step(&f->stage, &update, 1, 0);
    ct_result_free(&result);
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    ct_snapshot *snapshot = take(f, &o);
    assert_memory_equal(snapshot->bodies[1].positions, positions, sizeof positions);
    assert_int_equal(snapshot->n_contacts, 0);
    ct_snapshot_free(&snapshot);
}

static void one_contact_of_many(void **state) {
    fixture *f = *state;
    ct_mesh *mesh = shape_to_mesh(&f->cube, NULL);
    ct_body_options body;
    uint32_t third;
    ct_body_options_init(&body);
    assert_int_equal(ct_scene_add_body(f->stage.scene, mesh, &body, &third, NULL), CT_OK);
    ct_mesh_release(&mesh);
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    ct_snapshot *snapshot = take(f, &o);
    assert_int_equal(snapshot->n_contacts, 3);
    ct_snapshot_free(&snapshot);
    o.contact[0] = third;
    o.contact[1] = f->stage.body[1];
    snapshot = take(f, &o);
    assert_int_equal(snapshot->n_contacts, 1);
    assert_int_equal(snapshot->n_bodies, 2);
    assert_int_equal(snapshot->bodies[0].id, f->stage.body[1]);
    assert_int_equal(snapshot->contacts[0].first_span, 0);
    assert_int_equal(snapshot->contacts[0].n_spans, snapshot->n_spans);
    assert_int_equal(f->stage.scene->broad.n_pairs, 1); /* no other was looked at */
    ct_snapshot_options_init(&o);
    ct_snapshot *all = take(f, &o);
    assert_int_equal(all->n_contacts, 3);
    ct_snapshot_free(&all);
    /* The snapshot outlives its bodies. */
    assert_int_equal(ct_scene_remove_body(f->stage.scene, third, NULL), CT_OK);
    ct_mesh_info info;
    ct_mesh_get_info(snapshot->bodies[1].mesh, &info);
    assert_int_equal(info.vertices, 8);
    ct_snapshot_free(&snapshot);
}

/* A result made by hand: each body with itself, and two contacts of the pair, of 1, 2, 4 and 8 spans. */
static void run_by_hand(ct_device *device, ct_step *steps, size_t n_steps) {
    (void)device;
    assert_int_equal(n_steps, 1);
    const uint32_t a = steps[0].scene->bodies[0]->id, b = steps[0].scene->bodies[1]->id;
    const ct_contact contacts[] = {{.body = {a, a}, .first_span = 0, .n_spans = 1},
                                   {.body = {a, b}, .first_span = 1, .n_spans = 2},
                                   {.body = {a, b}, .index = 1, .first_span = 3, .n_spans = 4},
                                   {.body = {b, b}, .first_span = 7, .n_spans = 8}};
    ct_result *r = steps[0].result = ct_result_new(CT_WANT_SPANS, 4, 0, 15, NULL, NULL);
    assert_non_null(r);
    r->n_contacts = 4;
    memcpy(r->contacts, contacts, sizeof contacts);
    for (uint32_t i = 0; i < 15; i++) r->spans[i] = (ct_span){.lower = {(float)i}};
}

/* "contact=1,2" shows all contacts of the two with each other, and none of either with itself. */
static void several_contacts_of_a_pair(void **state) {
    fixture *f = *state;
    f->stage.engine->run[0] = run_by_hand;
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    ct_snapshot *snapshot = take(f, &o);
    assert_int_equal(snapshot->n_contacts, 4);
    assert_int_equal(snapshot->n_spans, 15);
    ct_snapshot_free(&snapshot);
    for (int turned = 0; turned < 2; turned++) {
        o.contact[turned] = f->stage.body[0];
        o.contact[!turned] = f->stage.body[1];
        snapshot = take(f, &o);
        assert_int_equal(snapshot->n_contacts, 2);
        assert_int_equal(snapshot->n_bodies, 2);
        assert_int_equal(snapshot->n_spans, 6);
        assert_int_equal(snapshot->contacts[1].first_span, 2);
        assert_int_equal(snapshot->contacts[1].n_spans, 4);
        for (uint32_t i = 0; i < 6; i++) assert_true(snapshot->spans[i].lower[0] == (float)(1 + i));
        ct_snapshot_free(&snapshot);
    }
}

static void refusals(void **state) {
    fixture *f = *state;
    ct_snapshot_options o;
    ct_snapshot *snapshot = (void *)1;
    ct_error error = {0};
    ct_snapshot_options_init(&o);
    o.contact[0] = f->stage.body[0];
    o.contact[1] = 999;
    assert_int_equal(ct_snapshot_take(f->stage.scene, &o, &snapshot, &error), CT_NOT_FOUND);
    assert_null(snapshot);
    assert_non_null(strstr(error.message, "body 999"));
    ct_snapshot_options_init(&o);
    o.zoom = -1;
    assert_int_equal(ct_snapshot_take(f->stage.scene, &o, &snapshot, NULL), CT_OUT_OF_RANGE);
    ct_snapshot_options_init(&o);
    o.resolution = 1200; /* 3 * 1200^2 spans */
    error = (ct_error){0};
    assert_int_equal(ct_snapshot_take(f->stage.scene, &o, &snapshot, &error), CT_LIMIT_EXCEEDED);
    assert_string_equal(error.field, "resolution");
    assert_non_null(strstr(error.message, "4320000 samples"));
    ct_snapshot_free(&snapshot);
}

static void an_empty_scene(void **state) {
    fixture *f = *state;
    for (int i = 0; i < 2; i++) assert_int_equal(ct_scene_remove_body(f->stage.scene, f->stage.body[i], NULL), CT_OK);
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    ct_snapshot *snapshot = take(f, &o);
    assert_int_equal(snapshot->n_bodies + snapshot->n_contacts, 0);
    ct_snapshot_free(&snapshot);
}

/* A thin sheet in the plane, opposite the other bodies, which the camera frames as if it was not there. */
static void half_spaces_are_sheets(void **state) {
    fixture *f = *state;
    const double normal[3] = {0.6, 0, 0.8}, offset = -1;
    ct_scene_settings settings = stage_exact();
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    o.show = CT_SHOW_BODIES;
    ct_snapshot *without = take(f, &o);
    uint32_t plane;
    assert_int_equal(ct_scene_configure(f->stage.scene, &settings, NULL), CT_OK);
    assert_int_equal(ct_scene_add_half_space(f->stage.scene, normal, offset, NULL, &plane, NULL), CT_OK);
    ct_snapshot *snapshot = take(f, &o);
    assert_int_equal(snapshot->n_bodies, 3);
    const ct_snapshot_body *sheet = &snapshot->bodies[2];
    assert_int_equal(sheet->id, plane);
    assert_same_bytes(snapshot->camera.eye, without->camera.eye, sizeof without->camera.eye);
    assert_same_bytes(snapshot->camera.tangent, without->camera.tangent, sizeof without->camera.tangent);
    const double diagonal = 1.5 * sqrt(3); /* of both cubes */
    double middle[3] = {0, 0, 0};
    int on_top = 0;
    for (int v = 0; v < 8; v++) {
        const float *p = ct_snapshot_body_positions(sheet) + 3 * v;
        const double depth = offset - (normal[0] * p[0] + normal[1] * p[1] + normal[2] * p[2]);
        assert_true(fabs(depth) < 1e-6 || fabs(depth - 0.0075 * diagonal) < 1e-6);
        on_top += fabs(depth) < 1e-6;
        for (int k = 0; k < 3; k++) middle[k] += (double)p[k] / 8;
        double square = 0;
        for (int k = 0; k < 3; k++) square += (p[k] - 0.25) * (p[k] - 0.25);
        assert_true(square > diagonal * diagonal); /* it sticks out from below them */
    }
    assert_int_equal(on_top, 4);
    for (int k = 0; k < 3; k++) { /* below the middle of the cubes, at 0.25 */
        const double height = (normal[0] + normal[2]) * 0.25 - offset + 0.00375 * diagonal;
        assert_true(fabs(middle[k] - (0.25 - normal[k] * height)) < 1e-6);
    }
    ct_snapshot_free(&snapshot);
    ct_snapshot_free(&without);
    for (int i = 0; i < 2; i++) assert_int_equal(ct_scene_remove_body(f->stage.scene, f->stage.body[i], NULL), CT_OK);
    snapshot = take(f, &o); /* alone it is framed */
    assert_int_equal(snapshot->n_bodies, 1);
    assert_false(snapshot->bodies[0].is_backdrop);
    ct_snapshot_free(&snapshot);
}

/* Samples that are too many are estimated, not taken. */
static void too_many_samples_are_not_taken(void **state) {
    fixture *f = *state;
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    o.resolution = 4096; /* some 3 x 4,096^2 samples */
    ct_snapshot *snapshot;
    ct_error error = {0};
    assert_int_equal(ct_snapshot_take(f->stage.scene, &o, &snapshot, &error), CT_LIMIT_EXCEEDED);
    assert_null(snapshot);
    assert_string_equal(error.field, "resolution");
    assert_non_null(strstr(error.message, "have about ")); /* who had taken them would know how many */
    o.resolution = 600;                                    /* estimated, and shown */
    snapshot = take(f, &o);
    assert_true(snapshot->n_spans > 600 * 600);
    ct_snapshot_free(&snapshot);
}

static void a_cancelled_one_is_not_taken(void **state) {
    fixture *f = *state;
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    ct_scene_settings before, after;
    ct_scene_get_settings(f->stage.scene, &before);
    ct_snapshot *first = take(f, &o), *snapshot;
    ct_cancel cancel;
    ct_error error = {0};
    ct_cancel_init(&cancel, 0);
    cancel.until = 1e-9;
    ct_cancel *scope = ct_cancel_scope(&cancel);
    assert_int_equal(ct_snapshot_take(f->stage.scene, &o, &snapshot, &error), CT_CANCELLED);
    ct_cancel_scope(scope);
    assert_null(snapshot);
    assert_int_equal(error.status, CT_CANCELLED);
    assert_non_null(strstr(error.message, ": ask for a picture of two bodies"));
    ct_scene_get_settings(f->stage.scene, &after);
    assert_memory_equal(&before, &after, sizeof before);
    snapshot = take(f, &o);
    assert_int_equal(snapshot->n_spans, first->n_spans);
    assert_memory_equal(snapshot->spans, first->spans, first->n_spans * sizeof *first->spans);
    ct_snapshot_free(&snapshot);
    ct_snapshot_free(&first);
}

#ifndef CT_HAVE_EGL
static void a_build_without_egl_says_so(void **state) {
    fixture *f = *state;
    ct_snapshot_options o;
    ct_error error = {0};
    uint8_t *png;
    size_t size;
    ct_snapshot_options_init(&o);
    ct_snapshot *snapshot = take(f, &o);
    uint8_t *pixels = malloc((size_t)o.width * o.height * 4);
    assert_int_equal(ct_snapshot_draw(snapshot, pixels, &error), CT_UNSUPPORTED);
    assert_non_null(strstr(error.message, "EGL=1"));
    assert_int_equal(ct_snapshot_png(o.width, o.height, pixels, &png, &size, NULL), CT_UNSUPPORTED);
    assert_null(png);
    free(pixels);
    ct_snapshot_free(&snapshot);
}
#endif

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_scene_is_as_it_was),
        TEST(holds_bodies_and_spans),
        TEST(positions_are_current),
        TEST(one_contact_of_many),
        TEST(several_contacts_of_a_pair),
        TEST(refusals),
        TEST(an_empty_scene),
        TEST(half_spaces_are_sheets),
        TEST(too_many_samples_are_not_taken),
        TEST(a_cancelled_one_is_not_taken),
#ifndef CT_HAVE_EGL
        TEST(a_build_without_egl_says_so),
#endif
    };
    return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
