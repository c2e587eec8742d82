/* test_cells_backends.c - contacts divided into cells: every backend gives the CPU's bits and its refusals, with walls
 * on faces and samples, thin bodies, many cells, several pairs, batches, and bodies with themselves. */
#include "tests/consistency/scratch.h"
#include "tests/consistency/twin.h"

static const uint32_t everything = CT_WANT_ALL | CT_WANT_SPANS;

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ /* slow on the shim */
enum { ROUNDS = 5, SMALL = 1 };
#else
enum { ROUNDS = 10, SMALL = 0 };
#endif

static ct_scene_settings with_cells(ct_scene_settings settings, double size) {
    settings.cell_size = size;
    return settings;
}

static struct shape corner_box(double x, double y, double z) {
    struct shape box = shape_box(x, y, z);
    shape_translate(&box, x / 2, y / 2, z / 2);
    return box;
}

static struct shape random_shape(uint64_t *rng) {
    const uint64_t seed = shape_random(rng);
    switch (seed % 4) {
    case 0:
        return shape_torus(0.8, 0.35, 20, 12);
    case 1:
        return shape_blob(1, 2 + (int)(seed / 4 % 2), 0.5, seed);
    case 2:
        return shape_bolt(0.9, 0.2, 0.4, 2, 24, 8);
    default:
        return shape_cube(1.5, 3);
    }
}

/* Compares one step of both engines, and their cells' numbers that stage_hash leaves out. Returns the cells. */
static uint64_t compare_twin(const char *name, struct twin *twin, uint32_t want) {
    ct_step steps[2];
    uint64_t n_cells = 0;
    for (int e = 0; e < 2; e++) {
        steps[e] = (ct_step){.scene = twin->of[e].scene, .want = want};
        ct_engine_run(engines[e], &steps[e], 1);
    }
    if (steps[0].error.status != steps[1].error.status || strcmp(steps[0].error.message, steps[1].error.message) != 0)
        fail_msg("%s: \"%s\" but \"%s\"", name, steps[0].error.message, steps[1].error.message);
    if (!steps[0].error.status) {
        const ct_result *a = steps[0].result, *b = steps[1].result;
        assert_int_equal(a->n_cells, b->n_cells);
        n_cells = a->n_cells;
        for (uint64_t i = 0; i < n_cells; i++) {
            const ct_contact *c = &a->cells[i], *d = &b->cells[i];
            assert_memory_equal(c->cell, d->cell, sizeof c->cell);
            assert_memory_equal(c->body, d->body, sizeof c->body);
            assert_memory_equal(c->side_center, d->side_center, sizeof c->side_center);
            assert_memory_equal(c->first, d->first, sizeof c->first);
            assert_memory_equal(c->count, d->count, sizeof c->count);
            assert_int_equal(c->index, d->index);
            assert_true(c->volume == d->volume && c->error_estimate == d->error_estimate);
            assert_true(isnan(c->inverted_volume) && isnan(d->inverted_volume));
        }
    }
    for (int e = 0; e < 2; e++) ct_result_free(&steps[e].result);
    compare(name, twin, NULL, NULL, 1, want);
    return n_cells;
}

static uint64_t compare_cells(const char *name, const ct_scene_settings *settings, const struct placed *bodies, int n,
                              uint32_t want) {
    struct twin twin = twin_open(settings, bodies, n);
    const uint64_t n_cells = compare_twin(name, &twin, want);
    twin_close(&twin);
    return n_cells;
}

static void random_pairs_are_alike(void **state) {
    (void)state;
    static const uint32_t wants[] = {0,
                                     CT_WANT_FRAME,
                                     CT_WANT_SPANS,
                                     CT_WANT_GRADIENT,
                                     CT_WANT_ALL,
                                     CT_WANT_FRICTION | CT_WANT_SPANS,
                                     CT_WANT_ALL | CT_WANT_SPANS};
    uint64_t rng = 31, cells = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct shape a = random_shape(&rng), b = random_shape(&rng);
        double poses[2][12];
        for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.4, poses[k]);
        ct_scene_settings settings =
            with_cells(round % 2 ? stage_resolution(1 + (uint32_t)shape_random(&rng) % 50) : stage_pixel(0.03),
                       0.09 + 0.07 * (round % 6));
        settings.stiffness = 1 + round;
        const struct placed bodies[] = {{&a, poses[0], round % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE},
                                        {&b, poses[1], round % 5 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE}};
        cells += compare_cells("random", &settings, bodies, 2, wants[round % 7]);
        shape_free(&a);
        shape_free(&b);
    }
    assert_true(cells > 40 * ROUNDS);
}

/* Faces of both bodies coincide and lie on walls, and so do samples; rays are coarser than cells; walls coincide. */
static void ties_are_alike(void **state) {
    (void)state;
    struct shape a = corner_box(1, 1, 1), fine = shape_cube(1, 4), flat = corner_box(1, 1, 0.01);
    const double pose[12] = {1, 0, 0, 0.5, 0, 1, 0, 0.5, 0, 0, 1, 0.5};
    const double below[12] = {1, 0, 0, 0.5, 0, 1, 0, 0.5, 0, 0, 1, -0.5};
    const double same[12] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
    const double turned[12] = {0, -1, 0, 0.75, 1, 0, 0, 0.25, 0, 0, 1, -0.005};
    const struct {
        const struct shape *shape[2];
        const double *pose;
        double pixel, cell;
    } cases[] = {{{&a, &a}, pose, 0.25, 0.0625},     {{&a, &a}, same, 0.125, 0.25},
                 {{&fine, &fine}, same, 0.25, 0.25}, {{&a, &fine}, pose, 0.0625, 0.5},
                 {{&flat, &a}, below, 0.05, 0.1},    {{&flat, &flat}, turned, 0.03125, 0.125},
                 {{&a, &fine}, same, 0.5, 0.03125},  {{&flat, &flat}, same, 0.25, 0.002}};
    uint64_t cells = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ct_scene_settings settings = with_cells(stage_pixel(cases[i].pixel), cases[i].cell);
        const struct placed bodies[] = {{cases[i].shape[0], NULL, 0}, {cases[i].shape[1], cases[i].pose, 0}};
        cells += compare_cells("ties", &settings, bodies, 2, everything);
    }
    assert_true(cells > 350);
    shape_free(&a);
    shape_free(&fine);
    shape_free(&flat);
}

/* More cells and vertices than the first hash tables hold; and cells along a ray by the hundred. */
static void many_cells_are_alike(void **state) {
    (void)state;
    struct shape a = shape_icosphere(0.5, SMALL ? 3 : 4), b = shape_blob(0.5, SMALL ? 3 : 4, 0.3, 9);
    const double pose[12] = {1, 0, 0, 0.15, 0, 1, 0, 0.1, 0, 0, 1, 0.12};
    const struct placed bodies[] = {{&a, NULL, 0}, {&b, pose, CT_BODY_DEFORMABLE}};
    const ct_scene_settings many = with_cells(stage_resolution(SMALL ? 20 : 32), SMALL ? 0.09 : 0.055),
                            deep = with_cells(stage_resolution(4), 0.008);
    assert_true(compare_cells("many", &many, bodies, 2, everything) > (SMALL ? 250 : 1000));
    assert_true(compare_cells("deep", &deep, bodies, 2, CT_WANT_ALL) > 500);
    shape_free(&a);
    shape_free(&b);
}

static uint64_t launches_of_step(struct twin *twin) {
    ct_engine_facts before, after;
    ct_engine_get_facts(engines[1], 0, &before);
    compare_twin("alternating", twin, CT_WANT_ALL);
    ct_engine_get_facts(engines[1], 0, &after);
    return after.launches - before.launches;
}

/* A hash table that a large contact needed is not kept for small ones, and grows again; alike steps never grow it. */
static void tables_shrink_and_grow(void **state) {
    (void)state;
    struct shape a = shape_icosphere(0.5, SMALL ? 3 : 4), b = shape_blob(0.5, SMALL ? 3 : 4, 0.3, 9);
    const double pose[12] = {1, 0, 0, 0.15, 0, 1, 0, 0.1, 0, 0, 1, 0.12};
    const struct placed bodies[] = {{&a, NULL, 0}, {&b, pose, 0}};
    const ct_scene_settings many = with_cells(stage_resolution(SMALL ? 20 : 32), SMALL ? 0.09 : 0.055),
                            few = with_cells(stage_resolution(4), 10);
    struct twin large = twin_open(&many, bodies, 2), small = twin_open(&few, bodies, 2);
    launches_of_step(&large); /* its other buffers grow as well, and stay */
    const uint64_t launches = launches_of_step(&large);
    for (int i = 0; i < 3; i++) assert_int_equal(launches_of_step(&large), launches);
    for (int i = 0; i < 8; i++) launches_of_step(&small);
    if (launches) assert_true(launches_of_step(&large) > launches);
    for (int i = 0; i < 3; i++) assert_int_equal(launches_of_step(&large), launches);
    twin_close(&large);
    twin_close(&small);
    shape_free(&a);
    shape_free(&b);
}

/* Scenes of several bodies, deformable ones among them, some with and some without cells, as one batch. */
static void batches_are_alike(void **state) {
    (void)state;
    enum { N = 5, BODIES = 7 };
    uint64_t rng = 77;
    struct twin twins[N];
    struct shape soft[N];
    ct_update updates[N];
    const ct_update *of_twin[N];
    size_t n_updates[N];
    for (int i = 0; i < N; i++) {
        struct shape shapes[BODIES];
        struct placed bodies[BODIES];
        double poses[BODIES][12];
        for (int b = 0; b < BODIES; b++) {
            shapes[b] = b ? shape_icosphere(0.4, 2) : shape_blob(0.6, 3, 0.3, (uint64_t)i);
            shape_pose_random(&rng, 0.6, poses[b]);
            bodies[b] = (struct placed){&shapes[b], poses[b], b ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
        }
        soft[i] = shape_copy(&shapes[0]);
        const ct_scene_settings settings = with_cells(stage_resolution(8), i == 2 ? 0 : 0.1 + 0.05 * i);
        twins[i] = twin_open(&settings, bodies, i == 3 ? 1 : BODIES);
        for (int b = 0; b < BODIES; b++) shape_free(&shapes[b]);
    }
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < N; i++) {
            for (uint32_t v = 0; v < 3 * soft[i].n_vertices; v++)
                soft[i].positions[v] *= (float)shape_uniform(&rng, 0.97, 1.03);
            updates[i] = (ct_update){.kind = CT_UPDATE_POSITIONS,
                                     .body = twins[i].of[0].body[0],
                                     .positions = soft[i].positions,
                                     .count = soft[i].n_vertices,
                                     .dtype = CT_F32};
            of_twin[i] = &updates[i];
            n_updates[i] = 1;
        }
        assert_true(compare("batch", twins, of_twin, n_updates, N, step == 1 ? CT_WANT_ALL : everything) > N);
    }
    for (int i = 0; i < N; i++) {
        twin_close(&twins[i]);
        shape_free(&soft[i]);
    }
}

/* A crowd of pairs, of which many are contacts. */
static void crowds_are_alike(void **state) {
    (void)state;
    enum { BODIES = 140 };
    uint64_t rng = 3;
    struct shape ball = shape_icosphere(0.5, 1);
    ct_mesh *mesh = shape_to_mesh(&ball, NULL);
    const ct_scene_settings settings = with_cells(stage_resolution(4), 0.4);
    struct twin twin = {{{.engine = engines[0]}, {.engine = engines[1]}}};
    for (int e = 0; e < 2; e++)
        assert_int_equal(ct_scene_create(engines[e], &settings, &twin.of[e].scene, NULL), CT_OK);
    ct_engine_facts facts;
    ct_engine_get_facts(engines[1], 0, &facts);
    /* OpenGL does not reach as much at once as a crowd takes. */
    const bool is_small = SMALL || !strcmp(facts.rasterizer, "egl");
    for (int b = 0; b < (is_small ? 20 : BODIES); b++) {
        ct_body_options options;
        uint32_t id;
        ct_body_options_init(&options);
        options.kind = CT_BODY_RIGID;
        options.pose[3] = 0.75 * b;
        options.pose[7] = shape_uniform(&rng, 0, 0.3);
        for (int e = 0; e < 2; e++)
            assert_int_equal(ct_scene_add_body(twin.of[e].scene, mesh, &options, &id, NULL), CT_OK);
    }
    assert_true(compare_twin("crowd", &twin, everything) > (is_small ? 80 : 500));
    twin_close(&twin);
    ct_mesh_release(&mesh);
    shape_free(&ball);
}

/* ---- bodies with themselves ---- */

static void bodies_with_themselves_are_alike(void **state) {
    (void)state;
    uint64_t rng = 19, cells = 0;
    for (int round = 0; round < ROUNDS / 2; round++) {
        struct shape a = random_shape(&rng), b = random_shape(&rng);
        double pose[12];
        shape_pose_random(&rng, 0.6, pose);
        shape_transform(&b, pose);
        struct shape both = shape_merge(&a, &b);
        const ct_scene_settings settings =
            with_cells(stage_resolution(6 + 3 * (uint32_t)round), 0.2 + 0.1 * (round % 4));
        static const uint32_t wants[] = {CT_WANT_ALL, CT_WANT_ALL | CT_WANT_SPANS, CT_WANT_SPANS, 0, CT_WANT_FRICTION};
        const struct placed bodies[] = {
            {&both, NULL, round % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE, .self_contact = 1}, {&a, pose, 0}};
        cells += compare_cells("self", &settings, bodies, 1 + round % 2, wants[round % 5]);
        shape_free(&a);
        shape_free(&b);
        shape_free(&both);
    }
    assert_true(cells > 15 * ROUNDS);
    /* Coinciding shells have ends that both share. */
    struct shape cube = shape_cube(1, 4), twice = shape_merge(&cube, &cube);
    const ct_scene_settings settings = with_cells(stage_pixel(0.125), 0.25);
    assert_int_equal(
        compare_cells("twice", &settings, &(struct placed){&twice, NULL, 0, .self_contact = 1}, 1, everything), 64);
    shape_free(&cube);
    shape_free(&twice);
}

/* ---- refusals ---- */

static ct_error error_on(ct_engine *engine, const ct_scene_settings *settings, const struct placed *bodies, int n) {
    struct stage stage = stage_open(engine, settings, bodies, n);
    ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL};
    ct_engine_run(engine, &step, 1);
    assert_true(step.error.status && !step.result);
    /* The scene goes on. */
    ct_scene_settings larger = *settings;
    larger.cell_size = 100;
    assert_int_equal(ct_scene_configure(stage.scene, &larger, NULL), CT_OK);
    ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_ALL);
    assert_true(r->n_cells >= 1);
    ct_result_free(&r);
    stage_close(&stage);
    return step.error;
}

static ct_engine *open_small(const char *backend, uint32_t max_cells) {
    ct_engine_options options;
    ct_engine *engine;
    ct_engine_options_init(&options);
    options.backend = backend;
    options.max_cells = max_cells;
    assert_int_equal(ct_engine_create(&options, &engine, NULL), CT_OK);
    return engine;
}

static const char *name_of_backend(void) {
    static ct_engine_facts facts;
    ct_engine_get_facts(engines[1], 0, &facts);
    return facts.backend;
}

static void refusals_are_alike(void **state) {
    (void)state;
    struct shape a = corner_box(1, 1, 1);
    const double half[12] = {1, 0, 0, 0.5, 0, 1, 0, 0.5, 0, 0, 1, 0.5},
                 third[12] = {1, 0, 0, 0.75, 0, 1, 0, 0.25, 0, 0, 1, 0.25},
                 distant[2][12] = {{1, 0, 0, 0, 0, 1, 0, 1e7, 0, 0, 1, 0}, {1, 0, 0, 0.5, 0, 1, 0, 1e7, 0, 0, 1, 0.5}};
    const struct {
        double cell;
        uint32_t resolution;
        bool is_far;
        ct_status status;
        const char *message;
    } cases[] = {{0.125, 16, false, CT_LIMIT_EXCEEDED, "which 64 hold"},
                 {0.0625, 16, false, CT_LIMIT_EXCEEDED, "more than 64 hold"},
                 {1e-4, 16, false, CT_LIMIT_EXCEEDED, "4096"},
                 {0.001, 16, true, CT_OUT_OF_RANGE, "from the origin"}};
    const char *names[] = {"cpu", name_of_backend()};
    ct_error errors[2];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ct_scene_settings settings = with_cells(stage_resolution(cases[i].resolution), cases[i].cell);
        const struct placed bodies[] = {
            {&a, cases[i].is_far ? distant[0] : NULL, 0}, {&a, cases[i].is_far ? distant[1] : half, 0}, {&a, third, 0}};
        for (int e = 0; e < 2; e++) {
            ct_engine *engine = open_small(names[e], 4);
            errors[e] = error_on(engine, &settings, bodies, 3);
            ct_engine_destroy(&engine);
        }
        assert_int_equal(errors[1].status, cases[i].status);
        assert_int_equal(errors[0].status, cases[i].status);
        assert_string_equal(errors[1].field, errors[0].field);
        assert_string_equal(errors[1].message, errors[0].message);
        assert_non_null(strstr(errors[1].message, cases[i].message));
    }
    shape_free(&a);
}

/* In a batch, only the scene with too many cells fails. */
static void others_of_a_batch_go_on(void **state) {
    (void)state;
    struct shape a = corner_box(1, 1, 1);
    const double pose[12] = {1, 0, 0, 0.5, 0, 1, 0, 0.5, 0, 0, 1, 0.5};
    const struct placed bodies[] = {{&a, NULL, 0}, {&a, pose, 0}};
    const double cell[3] = {0.125, 1e-5, 0.25};
    struct stage stages[3];
    ct_step steps[3];
    for (int i = 0; i < 3; i++) {
        const ct_scene_settings settings = with_cells(stage_resolution(16), cell[i]);
        stages[i] = stage_open(engines[1], &settings, bodies, 2);
        steps[i] = (ct_step){.scene = stages[i].scene, .want = CT_WANT_ALL};
    }
    ct_engine_run(engines[1], steps, 3);
    assert_int_equal(steps[1].error.status, CT_LIMIT_EXCEEDED);
    assert_true(!steps[0].error.status && steps[0].result->n_cells == 64);
    assert_true(!steps[2].error.status && steps[2].result->n_cells == 8);
    for (int i = 0; i < 3; i++) {
        ct_result_free(&steps[i].result);
        stage_close(&stages[i]);
    }
    shape_free(&a);
}

/* Whatever the scratch limit, a step either fits or says that it does not; and a step that fits has its own bits. */
static void memory_may_run_short(void **state) {
    (void)state;
    struct shape a = shape_blob(0.5, 2, 0.3, 9);
    const double pose[12] = {1, 0, 0, 0.2, 0, 1, 0, 0.1, 0, 0, 1, 0.15};
    const struct placed bodies[] = {{&a, NULL, 0}, {&a, pose, 0}};
    const ct_scene_settings settings = with_cells(stage_resolution(8), 0.3);
    ct_result *right = stage_once(engines[0], &settings, bodies, 2, CT_WANT_ALL);
    char expected[33];
    stage_hash(right, expected);
    ct_result_free(&right);
    const struct scratch_limits limits = {.first = 1 << 15, .part = SMALL ? 2 : 4, .n_steps = 2};
    check_scratch_limits(engines[1], &limits, "working memory", &settings, bodies, 2, CT_WANT_ALL, expected);
    shape_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_pairs_are_alike),
        cmocka_unit_test(ties_are_alike),
        cmocka_unit_test(many_cells_are_alike),
        cmocka_unit_test(tables_shrink_and_grow),
        cmocka_unit_test(batches_are_alike),
        cmocka_unit_test(crowds_are_alike),
        cmocka_unit_test(bodies_with_themselves_are_alike),
        cmocka_unit_test(refusals_are_alike),
        cmocka_unit_test(others_of_a_batch_go_on),
        cmocka_unit_test(memory_may_run_short),
    };
    static const char *const rasterizers[] = {"native", "egl"};
    return twin_run_on_backends(tests, sizeof tests / sizeof *tests, rasterizers, 2);
}
