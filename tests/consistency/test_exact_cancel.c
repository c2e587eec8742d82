/* test_exact_cancel.c - the method `exact` where most of the work is in triangles that touch, and where it is ended
 * early: a step that is cancelled at any poll fails and changes nothing, the next one has the bits of a new engine's,
 * and what is nearly quadratic takes no more polls than its crossings ask for. */
#include "gpu/include/contact_cancel.h"
#include "tests/consistency/exact_checks.h"

/* ---- scenes ---- */

struct scene {
    const char *name;
    struct shape shapes[2];
    double pose[2][12];
    int n, kind, self_contact;
    uint32_t want;
    bool patches;
};

/* n coincident boxes in one body. */
static struct shape make_layers(uint32_t n) {
    const struct shape box = shape_box(1, 1, 0.125);
    struct shape layers = {shape_alloc(24 * (size_t)n, sizeof(float)), 8 * n, shape_alloc(36 * (size_t)n, 4), 12 * n};
    for (uint32_t i = 0; i < n; i++) {
        memcpy(layers.positions + 24 * (size_t)i, box.positions, 24 * sizeof(float));
        for (uint32_t c = 0; c < 36; c++) layers.triangles[36 * (size_t)i + c] = box.triangles[c] + 8 * i;
    }
    struct shape owned = box;
    shape_free(&owned);
    return layers;
}

/* n bars side by side along an axis, 0 or 1. */
static struct shape make_comb(uint32_t n, int axis) {
    struct shape comb = shape_box(1, 1, 1);
    struct shape all = {shape_alloc(24 * (size_t)n, sizeof(float)), 8 * n, shape_alloc(36 * (size_t)n, 4), 12 * n};
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t c = 0; c < 24; c++) {
            const int k = (int)c % 3;
            const double p = comb.positions[c] > comb.positions[k] ? 0.5 : -0.5;
            all.positions[24 * (size_t)i + c] = (float)(k == axis ? 1.1 * p
                                                        : k == 2  ? 0.1 * p
                                                                  : (i + 0.5 + 0.5 * p) / n - 0.5);
        }
        for (uint32_t c = 0; c < 36; c++) all.triangles[36 * (size_t)i + c] = comb.triangles[c] + 8 * i;
    }
    shape_free(&comb);
    if (shape_volume(&all) < 0)
        for (uint32_t t = 0; t < all.n_triangles; t++) {
            const uint32_t first = all.triangles[3 * t];
            all.triangles[3 * t] = all.triangles[3 * t + 2];
            all.triangles[3 * t + 2] = first;
        }
    return all;
}

enum { N_SCENES = 9 };

static void make_scenes(struct scene scenes[N_SCENES]) {
    const uint32_t all = CT_WANT_ALL;
    scenes[0] = (struct scene){"same place", {shape_blob(1, 5, 0.4, 3)}, .n = 2, .want = all};
    scenes[1] =
        (struct scene){"displaced", {shape_blob(1, 5, 0.4, 3), shape_torus(0.8, 0.3, 90, 50)}, .n = 2, .want = all};
    scenes[2] = (struct scene){"layers", {make_layers(40), make_layers(40)}, .n = 2, .want = all};
    scenes[3] = (struct scene){"combs", {make_comb(40, 0), make_comb(40, 1)}, .n = 2, .want = all};
    scenes[4] = (struct scene){"self", {shape_bolt(0.9, 0.2, 0.4, 4, 48, 16)}, .n = 1, .self_contact = 1, .want = all};
    scenes[5] = (struct scene){"layers, self", {make_layers(30)}, .n = 1, .self_contact = 1, .want = all};
    scenes[6] =
        (struct scene){"deformable", {shape_blob(1, 5, 0.3, 8)}, .n = 2, .kind = CT_BODY_DEFORMABLE, .want = all};
    scenes[7] = (struct scene){
        "inertia", {shape_blob(1, 4, 0.4, 3), shape_blob(1, 4, 0.4, 4)}, .n = 2, .want = all | CT_WANT_INERTIA};
    scenes[8] = (struct scene){"half-space", {shape_blob(1, 5, 0.4, 3)}, .n = 2, .want = all};
    for (int i = 0; i < N_SCENES; i++)
        for (int b = 0; b < 2; b++) {
            shape_pose_identity(scenes[i].pose[b]);
            if (!scenes[i].shapes[1].positions && scenes[i].n == 2 && b)
                scenes[i].shapes[1] = shape_copy(&scenes[i].shapes[0]);
        }
    scenes[1].pose[1][3] = 0.3;
    scenes[7].pose[1][7] = 0.4;
    shape_free(&scenes[8].shapes[1]); /* NULL: the half-space below z = 0 */
}

static void free_scenes(struct scene scenes[N_SCENES]) {
    for (int i = 0; i < N_SCENES; i++)
        for (int b = 0; b < 2; b++) shape_free(&scenes[i].shapes[b]);
}

static struct stage open_scene(ct_engine *on, const struct scene *scene) {
    struct placed bodies[2];
    ct_scene_settings settings = stage_exact();
    settings.patches = scene->patches;
    for (int b = 0; b < 2; b++)
        bodies[b] = (struct placed){scene->shapes[b].positions ? &scene->shapes[b] : NULL, scene->pose[b],
                                    (ct_body_kind)scene->kind, scene->self_contact, NULL};
    return stage_open(on, &settings, bodies, scene->n);
}

/* ---- cancelling ---- */

static const uint64_t NEVER = 1ull << 40;

/* Runs the scene's step; at_poll: of its ct_cancel. *polls: how many there were. */
static ct_status step_until(struct stage *stage, uint32_t want, uint64_t at_poll, uint64_t *polls, char hex[33],
                            ct_error *error) {
    ct_cancel cancel;
    stage_forget_answers(stage);
    ct_cancel_init(&cancel, 0);
    cancel.at_poll = at_poll;
    ct_step step = {.scene = stage->scene, .want = want, .cancel = &cancel};
    ct_engine_run(stage->engine, &step, 1);
    if (polls) *polls = at_poll - cancel.at_poll;
    if (step.result) stage_hash(step.result, hex);
    const ct_status status = step.result ? CT_OK : step.error.status;
    if (error) *error = step.error;
    ct_result_free(&step.result);
    return status;
}

static void test_cancelled(void **state) {
    (void)state;
    enum { TIMES = 25 };
    struct scene scenes[N_SCENES];
    uint64_t rng = 11;
    make_scenes(scenes);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        ct_engine *used = stage_engine(threads, NULL); /* scratch goes from one scene to the next */
        for (int i = 0; i < N_SCENES; i++) {
            ct_engine *fresh = stage_engine(threads, NULL);
            struct stage stage = open_scene(fresh, &scenes[i]);
            char expected[33], found[33];
            uint64_t polls;
            assert_int_equal(step_until(&stage, scenes[i].want, NEVER, &polls, expected, NULL), CT_OK);
            stage_close(&stage);
            ct_engine_destroy(&fresh);
            assert_true(polls > 20);
            stage = open_scene(used, &scenes[i]);
            for (int k = 0; k < TIMES; k++) {
                ct_error error;
                const uint64_t at =
                    1 + shape_random(&rng) % (polls * 9 / 10); /* threads share the polls as they come */
                const ct_status status = step_until(&stage, scenes[i].want, at, NULL, found, &error);
                if (status != CT_CANCELLED)
                    print_message("%s: poll %llu of %llu\n", scenes[i].name, (unsigned long long)at,
                                  (unsigned long long)polls);
                assert_int_equal(status, CT_CANCELLED);
                assert_non_null(strstr(error.message, "cancelled while "));
                if (k % 3) continue; /* several in a row */
                assert_int_equal(step_until(&stage, scenes[i].want, NEVER, NULL, found, NULL), CT_OK);
                assert_string_equal(found, expected);
            }
            assert_int_equal(step_until(&stage, scenes[i].want, NEVER, NULL, found, NULL), CT_OK);
            assert_string_equal(found, expected);
            stage_close(&stage);
        }
        ct_engine_destroy(&used);
    }
    free_scenes(scenes);
}

/* What making a body's trees needs is made anew after it was cancelled. */
static void test_cancelled_bodies(void **state) {
    (void)state;
    struct shape shape = shape_blob(1, 6, 0.4, 3);
    const ct_scene_settings settings = stage_exact();
    char expected[33], found[33];
    struct placed bodies[2] = {{&shape, NULL, 0, 1, NULL}, {&shape, NULL, 0, 0, NULL}};
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    assert_int_equal(step_until(&stage, CT_WANT_ALL, NEVER, NULL, expected, NULL), CT_OK);
    stage_close(&stage);
    ct_error error = {0};
    ct_mesh *mesh = shape_to_mesh(&shape, &error);
    assert_non_null(mesh);
    ct_scene *scene = NULL;
    assert_int_equal(ct_scene_create(engine, &settings, &scene, &error), CT_OK);
    uint32_t n_cancelled = 0;
    for (int i = 0; i < 2; i++) {
        ct_body_options options;
        uint32_t id;
        ct_body_options_init(&options);
        options.kind = CT_BODY_RIGID;
        options.self_contact = i == 0;
        ct_status status = CT_CANCELLED;
        for (uint64_t at = 1; status == CT_CANCELLED; at += 1 + at / 3) {
            ct_cancel cancel;
            ct_cancel_init(&cancel, 0);
            cancel.at_poll = at;
            memset(&error, 0, sizeof error);
            ct_cancel *before = ct_cancel_scope(&cancel);
            status = ct_scene_add_body(scene, mesh, &options, &id, &error);
            ct_cancel_scope(before);
            n_cancelled += status == CT_CANCELLED;
        }
        if (status) print_message("%s: %s\n", error.field, error.message);
        assert_int_equal(status, CT_OK);
    }
    assert_true(n_cancelled > 5);
    struct stage own = {.engine = engine, .scene = scene, .n = 0};
    assert_int_equal(step_until(&own, CT_WANT_ALL, NEVER, NULL, found, NULL), CT_OK);
    assert_string_equal(found, expected);
    ct_scene_destroy(&scene);
    ct_mesh_release(&mesh);
    shape_free(&shape);
}

/* ---- in the same place ---- */

/* Twins are computed by halves; a step that wants inertia computes both. */
static void test_twins(void **state) {
    (void)state;
    struct shape shapes[] = {shape_icosphere(1, 4), shape_blob(1, 5, 0.4, 3), shape_cube(1, 8), make_layers(20),
                             shape_torus(0.8, 0.3, 48, 24)};
    uint64_t rng = 5;
    for (int i = 0; i < 4 * (int)(sizeof shapes / sizeof *shapes); i++) {
        const struct shape *shape = &shapes[i / 4];
        const ct_scene_settings settings = stage_exact();
        const ct_body_kind kind = i % 4 == 3 ? CT_BODY_DEFORMABLE : CT_BODY_RIGID;
        double pose[12];
        shape_pose_random(&rng, 0.3, pose);
        if (i % 2) shape_pose_identity(pose);
        const struct placed bodies[2] = {{shape, pose, kind, 0, NULL}, {shape, pose, kind, 0, NULL}};
        ct_result *half = stage_once(engine, &settings, bodies, 2, CT_WANT_ALL);
        ct_result *whole = stage_once(engine, &settings, bodies, 2, CT_WANT_ALL | CT_WANT_INERTIA);
        const ct_contact *c = only_contact(half), *d = only_contact(whole);
        assert_true(c->volume == d->volume && c->error_bound == d->error_bound && c->area == d->area);
        assert_memory_equal(c->generalized_gradient, d->generalized_gradient, sizeof c->generalized_gradient);
        assert_memory_equal(c->center, d->center, sizeof c->center);
        assert_memory_equal(c->side_center, d->side_center, sizeof c->side_center);
        assert_int_equal(half->n_entries, whole->n_entries);
        assert_memory_equal(half->vertices, whole->vertices, half->n_entries * sizeof *half->vertices);
        assert_memory_equal(half->gradient, whole->gradient, half->n_entries * sizeof(double[3]));
        assert_true(half->rays == whole->rays && half->fragments == whole->fragments);
        const double layers = i / 4 == 3 ? 20 : 1, volume = shape_volume(shape) * layers; /* w_A w_B over the volume */
        assert_true(fabs(c->volume - volume) <= c->error_bound + 1e-6 * volume);          /* the pose rounds vertices */
        ct_result_free(&half);
        ct_result_free(&whole);
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) shape_free(&shapes[i]);
}

/* k boxes in the place of l boxes count k l times; combs of m and n bars cross in m n pieces. */
static void test_closed_forms(void **state) {
    (void)state;
    struct shape few = make_layers(3), many = make_layers(50), comb = make_comb(20, 0), other = make_comb(30, 1);
    ct_result *result = run_pair(&few, NULL, &many, NULL);
    assert_volume(only_contact(result), 3 * 50 * 0.125);
    ct_result_free(&result);
    result = run_pair(&comb, NULL, &other, NULL);
    const double expected =
        0.1; /* 1/40 by 1/60 by 0.1, 600 times: a quarter of the square, where bars are half of it */
    assert_true(fabs(only_contact(result)->volume - expected / 4) < 1e-7);
    ct_result_free(&result);
    shape_free(&few);
    shape_free(&many);
    shape_free(&comb);
    shape_free(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cancelled), cmocka_unit_test(test_cancelled_bodies),
                                       cmocka_unit_test(test_twins), cmocka_unit_test(test_closed_forms)};
    return cmocka_run_group_tests_name("exact, cancelled", tests, setup, teardown);
}
