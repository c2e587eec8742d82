/* test_points_backends.c - every backend gives the CPU's points of contacts and the CPU's separations within a margin,
 * to the bit: rigid and deformable bodies, half-spaces, patches, bodies with themselves, batches, and what is left when
 * the device's memory does not suffice. */
#include "tests/consistency/twin.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ROUNDS = 6 };
#else
enum { ROUNDS = 16 };
#endif

/* What a batch is expected to have had in all. */
struct found {
    uint64_t contacts, points, separations;
};

static void count(struct twin *twin, struct found *found) {
    ct_result *r = stage_step(&twin->of[1], NULL, 0, 0);
    found->points += r->n_points;
    found->separations += r->n_separations;
    ct_result_free(&r);
}

/* False: the backend lacks it. */
static bool has_method(ct_method method) {
    ct_method methods[CT_MAX_METHODS];
    const size_t n = ct_engine_methods(engines[1], methods);
    for (size_t i = 0; i < n; i++)
        if (methods[i] == method) return true;
    return false;
}

/* Bodies around one another, some of which touch and some of which are near; on a half-space with the method exact. */
static void test_piles(void **state) {
    (void)state;
    enum { N = 6 };
    struct shape shapes[] = {shape_blob(0.5, 3, 0.4, 3), shape_torus(0.4, 0.15, 20, 10), shape_box(0.5, 0.6, 0.7)};
    uint64_t rng = 91;
    struct found found = {0};
    for (int round = 0; round < ROUNDS; round++) {
        struct placed bodies[N];
        double poses[N][12];
        const int kind = round % 4; /* exact, ldi, exact with patches, voxtree */
        ct_scene_settings settings = kind == 1 ? stage_resolution(24) : kind == 3 ? stage_voxtree(4, 0) : stage_exact();
        if (settings.method != CT_METHOD_AUTO && !has_method(settings.method)) continue;
        settings.margin = 0.05 + 0.1 * (round % 3);
        settings.max_points = 1 + (uint32_t)round % 5;
        settings.patches = kind == 2;
        if (round % 8 == 5) settings.cell_size = 0.2; /* points are cells */
        for (int b = 0; b < N; b++) {
            shape_pose_random(&rng, 0.8, poses[b]);
            bodies[b] = (struct placed){&shapes[b % 3], poses[b], b % 2 && kind != 3 ? CT_BODY_DEFORMABLE : 0, 0};
        }
        if (kind == 0 || kind == 2) bodies[0] = (struct placed){NULL, poses[0], 0, 0};
        struct twin twin = twin_open(&settings, bodies, N);
        found.contacts += compare("pile", &twin, NULL, NULL, 1, round % 2 ? CT_WANT_ALL : 0);
        count(&twin, &found);
        twin_close(&twin);
    }
    assert_true(found.contacts > ROUNDS && found.points > ROUNDS && found.separations > ROUNDS / 2);
    for (int i = 0; i < 3; i++) shape_free(&shapes[i]);
}

/* A body that overlaps itself, beside another. */
static void test_self(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(0.5, 2), other = shape_box(0.6, 0.6, 0.6);
    shape_translate(&other, 0.5, 0.1, 0);
    struct shape both = shape_merge(&ball, &other);
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 1.4;
    const struct placed bodies[] = {{&both, NULL, CT_BODY_DEFORMABLE, 1}, {&ball, pose, 0, 0}};
    ct_scene_settings settings = stage_resolution(40);
    settings.max_points = 5;
    settings.margin = 0.5;
    struct twin twin = twin_open(&settings, bodies, 2);
    struct found found = {0};
    assert_int_equal(compare("self", &twin, NULL, NULL, 1, CT_WANT_ALL), 1);
    count(&twin, &found);
    assert_true(found.points >= 1 && found.separations == 1);
    twin_close(&twin);
    shape_free(&ball);
    shape_free(&other);
    shape_free(&both);
}

/* Scenes with and without points and a margin in one batch; bodies approach, by all kinds of updates, and part again.
 */
static void test_batches(void **state) {
    (void)state;
    enum { SCENES = 5, STEPS = 5 };
    struct shape ball = shape_icosphere(0.5, 3), moved = shape_copy(&ball);
    struct twin twins[SCENES];
    ct_update updates[SCENES][2];
    const ct_update *of_scene[SCENES];
    size_t n_updates[SCENES];
    struct found found = {0};
    for (int i = 0; i < SCENES; i++) {
        ct_scene_settings settings = i % 2 ? stage_pixel(0.05) : stage_exact();
        settings.margin = i == 3 ? 0 : 0.2;
        settings.max_points = i == 4 ? 0 : 3;
        double pose[12];
        shape_pose_identity(pose);
        pose[3] = 4;
        twins[i] =
            twin_open(&settings, (struct placed[]){{&ball, NULL, CT_BODY_DEFORMABLE, 0}, {&ball, pose, 0, 0}}, 2);
    }
    uint32_t range[2] = {0, ball.n_vertices};
    for (int step = 0; step < STEPS; step++) {
        const double gap[STEPS] = {0.3, 0.15, 0.02, -0.1, 0.1};
        for (uint32_t v = 0; v < 3 * ball.n_vertices; v++)
            moved.positions[v] = ball.positions[v] * (1 + 0.02f * (float)step);
        for (int i = 0; i < SCENES; i++) {
            updates[i][0] = (ct_update){.kind = step % 2 ? CT_UPDATE_RANGES : CT_UPDATE_POSITIONS,
                                        .body = twins[i].of[0].body[0],
                                        .positions = moved.positions,
                                        .count = moved.n_vertices,
                                        .dtype = CT_F32,
                                        .indices = step % 2 ? range : NULL,
                                        .n_indices = step % 2 ? 2 : 0};
            updates[i][1] = (ct_update){.kind = CT_UPDATE_POSE, .body = twins[i].of[0].body[1]};
            shape_pose_axis((const double[]){1, 2, 3}, 0.07 * step, (const double[]){1 + gap[step], 0.1, 0.02 * step},
                            updates[i][1].pose);
            of_scene[i] = updates[i];
            n_updates[i] = 2;
        }
        found.contacts += compare("batch", twins, of_scene, n_updates, SCENES, step == 2 ? CT_WANT_ALL : 0);
        for (int i = 0; i < SCENES; i++) count(&twins[i], &found);
    }
    assert_true(found.contacts >= SCENES);
    assert_true(found.points >= 4 && found.separations >= 2 * (SCENES - 1));
    for (int i = 0; i < SCENES; i++) twin_close(&twins[i]);
    shape_free(&ball);
    shape_free(&moved);
}

/* A scene of many bodies is a crowd on the device, and separations come in order of bodies. */
static void test_crowd(void **state) {
    (void)state;
    enum { N = 150 };
    struct shape ball = shape_icosphere(0.3, 1);
    ct_mesh *mesh = shape_to_mesh(&ball, NULL);
    ct_scene_settings settings = stage_resolution(8);
    settings.margin = 0.2;
    settings.max_points = 2;
    uint64_t rng = 12;
    double poses[N][12];
    struct twin twin = {0};
    for (int b = 0; b < N; b++) shape_pose_random(&rng, 2.5, poses[b]);
    for (int e = 0; e < 2; e++) {
        twin.of[e].engine = engines[e];
        assert_int_equal(ct_scene_create(engines[e], &settings, &twin.of[e].scene, NULL), CT_OK);
        uint32_t last = 0;
        for (int b = 0; b < N; b++) {
            ct_body_options options;
            ct_body_options_init(&options);
            options.kind = b % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
            options.group = b % 5 ? 1 : 2;
            options.mask = b % 4 ? 3 : 1;
            options.ignore = last ? &last : NULL;
            options.n_ignore = b % 7 == 0 && last ? 1 : 0;
            memcpy(options.pose, poses[b], sizeof options.pose);
            assert_int_equal(ct_scene_add_body(twin.of[e].scene, mesh, &options, &last, NULL), CT_OK);
        }
    }
    struct found found = {0};
    assert_true(compare("crowd", &twin, NULL, NULL, 1, CT_WANT_FRAME) > 10);
    count(&twin, &found);
    assert_true(found.separations > 10);
    twin_close(&twin);
    ct_mesh_release(&mesh);
    shape_free(&ball);
}

/* With too little of the device's memory a step fails whole, and the next that fits has points and separations. */
static void test_lack_of_memory(void **state) {
    (void)state;
    ct_engine_facts facts;
    ct_engine_get_facts(engines[1], 0, &facts);
    if (!strcmp(facts.backend, "cpu")) skip(); /* its memory has no limit */
    ct_engine_options options;
    ct_engine *engine;
    ct_error error = {0};
    ct_engine_options_init(&options);
    options.backend = facts.backend;
    options.rasterizer = "native";
    options.max_device_bytes = (uint64_t)64 << 20;
    if (ct_engine_create(&options, &engine, &error)) fail_msg("%s", error.message);
    struct shape ball = shape_icosphere(0.5, 4);
    double pose[12], far[12];
    shape_pose_identity(pose);
    pose[3] = 0.7;
    shape_pose_identity(far);
    far[3] = -1.1;
    const struct placed bodies[] = {
        {&ball, NULL, CT_BODY_DEFORMABLE, 0}, {&ball, pose, 0, 0}, {&ball, far, CT_BODY_DEFORMABLE, 0}};
    ct_scene_settings settings = stage_resolution(16);
    settings.margin = 0.2;
    settings.max_points = 4;
    struct stage stage = stage_open(engine, &settings, bodies, 3);
    ct_step step = {.scene = stage.scene};
    for (int k = 0; k < 3; k++) settings.resolution[k] = 4000;
    assert_int_equal(ct_scene_configure(stage.scene, &settings, &error), CT_OK);
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_OUT_OF_MEMORY);
    assert_string_equal(step.error.field, "scratch");
    assert_null(step.result);
    for (int k = 0; k < 3; k++) settings.resolution[k] = 16;
    assert_int_equal(ct_scene_configure(stage.scene, &settings, &error), CT_OK);
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
    assert_int_equal(step.result->n_contacts, 1);
    assert_int_equal(step.result->n_separations, 1);
    assert_true(step.result->n_points > 0);
    ct_result *same = stage_once(engines[0], &settings, bodies, 3, 0);
    assert_same_separations("memory", step.result, same);
    assert_int_equal(same->n_points, step.result->n_points);
    assert_memory_equal(same->points, step.result->points, same->n_points * sizeof *same->points);
    ct_result_free(&same);
    ct_result_free(&step.result);
    stage_close(&stage);
    ct_engine_destroy(&engine);
    shape_free(&ball);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_piles), cmocka_unit_test(test_self),           cmocka_unit_test(test_batches),
        cmocka_unit_test(test_crowd), cmocka_unit_test(test_lack_of_memory),
    };
    static const char *const rasterizers[] = {"native"};
    return twin_run_on_backends(tests, sizeof tests / sizeof *tests, rasterizers, 1);
}
