/* test_warnings.c - what a step's result says of deformable bodies that were mirrored or flattened, on every backend
 * and instruction set; when a warning comes and goes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/method/backend.h"
#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

static struct shape box, sphere;

static float *scaled(const struct shape *shape, double x, double y, double z) {
    float *positions = malloc(12 * shape->n_vertices);
    const double by[3] = {x, y, z};
    for (uint64_t i = 0; i < 3 * shape->n_vertices; i++)
        positions[i] = (float)(by[i % 3] * (double)shape->positions[i]);
    return positions;
}

static ct_update update_of(uint32_t body, const struct shape *shape, const float *positions) {
    return (ct_update){
        .body = body, .kind = CT_UPDATE_POSITIONS, .positions = positions, .dtype = CT_F32, .count = shape->n_vertices};
}

/* Warnings of bodies' volumes: bodies here also lie inside one another. *first: the first of them. */
static size_t count_conditions(const ct_result *result, ct_warning *first) {
    size_t n = 0;
    for (size_t i = 0; i < result->n_warnings; i++) {
        if (result->warnings[i].code == CT_WARNING_NESTED) continue;
        if (n++ == 0 && first) *first = result->warnings[i];
    }
    return n;
}

/* Steps with one body scaled. Returns how many warnings there were; *first is the first. */
static size_t step_scaled(struct stage *stage, int body, const struct shape *shape, double x, double y, double z,
                          ct_warning *first) {
    float *positions = scaled(shape, x, y, z);
    const ct_update update = update_of(stage->body[body], shape, positions);
    ct_result *result = stage_step(stage, &update, 1, CT_WANT_ALL);
    const size_t n = count_conditions(result, first);
    assert_true(!result->n_warnings == !result->warnings);
    for (size_t c = 0; n && first->code == CT_WARNING_BODY_INVERTED && c < result->n_contacts; c++)
        for (int k = 0; k < 2; k++) assert_int_not_equal(result->contacts[c].body[k], first->body);
    ct_result_free(&result);
    free(positions);
    return n;
}

static size_t step_plain(struct stage *stage) {
    ct_result *result = stage_step(stage, NULL, 0, 0);
    const size_t n = count_conditions(result, NULL);
    ct_result_free(&result);
    return n;
}

/* Calls check with an engine of every backend and instruction set that works here. */
static void on_every_engine(void (*check)(ct_engine *engine)) {
    const char *const simd[] = {"base", "avx2"};
    int tested = 0;
    for (size_t i = 0; ct_backend_at(i); i++)
        for (size_t s = 0; s < 2; s++) {
            ct_engine_options options;
            ct_engine_options_init(&options);
            options.backend = ct_backend_at(i)->name;
            options.simd = simd[s];
            options.threads = 1 + (uint32_t)s;
            options.rasterizer = "native";
            ct_engine *engine;
            ct_error error = {0};
            if (ct_engine_create(&options, &engine, &error)) {
                print_message("%s %s: %s\n", options.backend, simd[s], error.message);
                continue;
            }
            check(engine);
            ct_engine_destroy(&engine);
            tested++;
        }
    assert_true(tested > 0);
}

static struct stage open_pair(ct_engine *engine) {
    static double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.25;
    ct_scene_settings settings = stage_resolution(8);
    const struct placed bodies[] = {
        {&box, pose, CT_BODY_RIGID}, {&sphere, NULL, CT_BODY_DEFORMABLE}, {&box, NULL, CT_BODY_DEFORMABLE}};
    return stage_open(engine, &settings, bodies, 3);
}

static void check_conditions(ct_engine *engine) {
    struct stage stage = open_pair(engine);
    const double volume = shape_volume(&sphere);
    ct_warning w = {0};
    assert_int_equal(step_plain(&stage), 0);
    assert_int_equal(step_scaled(&stage, 1, &sphere, 1, 1, 1, &w), 0);

    /* Mirrored. */
    assert_int_equal(step_scaled(&stage, 1, &sphere, 1, -1, 1, &w), 1);
    assert_int_equal(w.code, CT_WARNING_BODY_INVERTED);
    assert_int_equal(w.body, stage.body[1]);
    assert_true(fabs(w.value + volume) < 1e-12 * volume);
    for (int i = 0; i < 3; i++) assert_int_equal(step_plain(&stage), 1); /* while it lasts */

    /* Flat, exactly and almost, on either side. */
    const double flat[] = {0, 0.5e-6, -0.5e-6};
    for (int i = 0; i < 3; i++)
        for (int axis = 0; axis < 3; axis++) {
            assert_int_equal(step_scaled(&stage, 1, &sphere, axis == 0 ? flat[i] : 1, axis == 1 ? flat[i] : 1,
                                         axis == 2 ? flat[i] : 1, &w),
                             1);
            assert_int_equal(w.code, CT_WARNING_BODY_COLLAPSED);
            assert_true(fabs(w.value - flat[i] * volume) <= 1e-6 * fabs(flat[i]) * volume);
        }
    /* Around the limit. */
    assert_int_equal(step_scaled(&stage, 1, &sphere, 1, 1, 0.99e-6, &w), 1);
    assert_int_equal(w.code, CT_WARNING_BODY_COLLAPSED);
    assert_int_equal(step_scaled(&stage, 1, &sphere, 1, 1, 1.01e-6, &w), 0);
    assert_int_equal(step_scaled(&stage, 1, &sphere, 1, 1, -1.01e-6, &w), 1);
    assert_int_equal(w.code, CT_WARNING_BODY_INVERTED);

    assert_int_equal(step_scaled(&stage, 1, &sphere, 1, 1, 1, &w), 0); /* recovered */
    assert_int_equal(step_plain(&stage), 0);
    stage_close(&stage);
}

/* Some vertices pushed through the other side: part of the surface is inside out, the signed volume still positive. */
static void check_partly_inverted(ct_engine *engine) {
    struct stage stage = open_pair(engine);
    float *positions = scaled(&sphere, 1, 1, 1);
    for (int k = 0; k < 3; k++) positions[k] = -1.5f * positions[k];
    const ct_update update = update_of(stage.body[1], &sphere, positions);
    ct_result *result = stage_step(&stage, &update, 1, CT_WANT_ALL);
    assert_int_equal(count_conditions(result, NULL), 0);
    ct_result_free(&result);
    free(positions);
    stage_close(&stage);
}

/* By updates of parts, in double precision, in several updates of one step. */
static void check_other_updates(ct_engine *engine) {
    struct stage stage = open_pair(engine);
    float *mirrored = scaled(&sphere, -1, 1, 1), *plain = scaled(&sphere, 1, 1, 1);
    double *wide = malloc(24 * sphere.n_vertices);
    uint32_t *all = malloc(4 * sphere.n_vertices);
    for (uint64_t i = 0; i < 3 * sphere.n_vertices; i++) wide[i] = (double)mirrored[i];
    for (uint32_t i = 0; i < sphere.n_vertices; i++) all[i] = i;
    const uint32_t half = (uint32_t)sphere.n_vertices / 2, rest = (uint32_t)sphere.n_vertices - half;
    const uint32_t ranges[] = {0, half, half, rest};
    ct_update ranged = {.body = stage.body[1],
                        .kind = CT_UPDATE_RANGES,
                        .positions = mirrored,
                        .dtype = CT_F32,
                        .count = sphere.n_vertices,
                        .indices = ranges,
                        .n_indices = 4};
    ct_update indexed = ranged;
    indexed.kind = CT_UPDATE_INDEXED;
    indexed.indices = all;
    indexed.n_indices = sphere.n_vertices;
    ct_update doubles = update_of(stage.body[1], &sphere, mirrored);
    doubles.positions = wide;
    doubles.dtype = CT_F64;
    ct_update none = {.body = stage.body[1], .kind = CT_UPDATE_RANGES, .positions = plain, .dtype = CT_F32};
    const ct_update back = update_of(stage.body[1], &sphere, plain);
    const ct_update ways[][2] = {
        {ranged, ranged}, {indexed, indexed}, {doubles, doubles}, {back, ranged}, {doubles, none}};
    double value = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (size_t n = 2 - (i < 3); n <= 2; n++) {
            ct_result *result = stage_step(&stage, ways[i], n, 0);
            assert_int_equal(result->n_warnings, 1);
            assert_int_equal(result->warnings[0].code, CT_WARNING_BODY_INVERTED);
            if (value == 0) value = result->warnings[0].value;
            assert_true(result->warnings[0].value == value);
            ct_result_free(&result);
            result = stage_step(&stage, &none, 1, 0); /* no positions at all: it is as it was */
            assert_int_equal(result->n_warnings, 1);
            assert_true(result->warnings[0].value == value);
            ct_result_free(&result);
            const ct_update both[] = {ranged, back}; /* the last one counts */
            result = stage_step(&stage, both, 2, 0);
            assert_int_equal(result->n_warnings, 0);
            ct_result_free(&result);
        }
    free(mirrored);
    free(plain);
    free(wide);
    free(all);
    stage_close(&stage);
}

static void check_several(ct_engine *engine) {
    struct stage stage = open_pair(engine);
    float *soft[2] = {scaled(&sphere, 1, 1, -1), scaled(&box, 0, 1, 1)};
    ct_update updates[3] = {update_of(stage.body[2], &box, soft[1]),
                            update_of(stage.body[1], &sphere, soft[0]),
                            {.body = stage.body[0], .kind = CT_UPDATE_POSE}};
    shape_pose_identity(updates[2].pose);
    ct_result *result = stage_step(&stage, updates, 3, 0);
    assert_int_equal(result->n_warnings, 2);
    assert_int_equal(result->warnings[0].body, stage.body[1]);
    assert_int_equal(result->warnings[0].code, CT_WARNING_BODY_INVERTED);
    assert_int_equal(result->warnings[1].body, stage.body[2]);
    assert_int_equal(result->warnings[1].code, CT_WARNING_BODY_COLLAPSED);
    assert_true(result->warnings[1].value == 0);
    ct_result_free(&result);

    /* A step that is refused changes no condition. */
    float *back = scaled(&sphere, 1, 1, 1);
    back[5] = NAN;
    updates[0] = update_of(stage.body[1], &sphere, back);
    ct_step step = {.scene = stage.scene, .updates = updates, .n_updates = 1};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_NON_FINITE);
    assert_null(step.result);
    assert_int_equal(step_plain(&stage), 2);
    updates[0].count--;
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_WRONG_LENGTH);
    assert_int_equal(step_plain(&stage), 2);

    assert_int_equal(ct_scene_remove_body(stage.scene, stage.body[1], NULL), CT_OK);
    assert_int_equal(step_plain(&stage), 1);
    assert_int_equal(ct_scene_remove_body(stage.scene, stage.body[2], NULL), CT_OK);
    assert_int_equal(step_plain(&stage), 0);
    for (int i = 0; i < 2; i++) free(soft[i]);
    free(back);
    stage_close(&stage);
}

/* A step that fails late has not moved its bodies: only the next one that does warns. */
static void check_failed_step(ct_engine *engine) {
    struct shape large = shape_box(1, 1, 1);
    double pose[12];
    shape_pose_identity(pose);
    ct_scene_settings settings = stage_pixel(0.25);
    const struct placed bodies[] = {{&large, NULL, CT_BODY_DEFORMABLE}, {&large, pose, CT_BODY_RIGID}};
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    settings.pixel_size = 1e-5; /* more samples than a window may have */
    assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
    float *mirrored = scaled(&large, -1, 1, 1);
    const ct_update update = update_of(stage.body[0], &large, mirrored);
    ct_step step = {.scene = stage.scene, .updates = &update, .n_updates = 1};
    assert_int_not_equal(ct_engine_run(engine, &step, 1), CT_OK);
    settings.pixel_size = 0.25;
    assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
    assert_int_equal(step_plain(&stage), 0);
    ct_result *result = stage_step(&stage, &update, 1, 0);
    assert_int_equal(result->n_warnings, 1);
    ct_result_free(&result);
    free(mirrored);
    stage_close(&stage);
    shape_free(&large);
}

static void test_conditions(void **state) {
    (void)state;
    on_every_engine(check_conditions);
}

static void test_partly_inverted(void **state) {
    (void)state;
    on_every_engine(check_partly_inverted);
}

static void test_other_updates(void **state) {
    (void)state;
    on_every_engine(check_other_updates);
}

static void test_several(void **state) {
    (void)state;
    on_every_engine(check_several);
}

static void test_failed_step(void **state) {
    (void)state;
    on_every_engine(check_failed_step);
}

/* The same bits everywhere: a crumpled body, whose terms are of all sizes. */
static double crumpled[8];
static int n_crumpled;

static void note_crumpled(ct_engine *engine) {
    struct shape shape = shape_icosphere(1, 5);
    struct placed placed = {&shape, NULL, CT_BODY_DEFORMABLE};
    ct_scene_settings settings = stage_resolution(8);
    struct stage stage = stage_open(engine, &settings, &placed, 1);
    uint64_t rng = 3;
    for (uint64_t i = 0; i < 3 * shape.n_vertices; i++) shape.positions[i] *= -(float)shape_uniform(&rng, 0.5, 2);
    const ct_update update = update_of(stage.body[0], &shape, shape.positions);
    ct_result *result = stage_step(&stage, &update, 1, 0);
    assert_int_equal(result->n_warnings, 1);
    crumpled[n_crumpled++] = result->warnings[0].value;
    ct_result_free(&result);
    stage_close(&stage);
    shape_free(&shape);
}

static void test_same_bits(void **state) {
    (void)state;
    on_every_engine(note_crumpled);
    for (int i = 1; i < n_crumpled; i++) assert_same_bytes(&crumpled[i], &crumpled[0], sizeof *crumpled);
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(ct_warning_name(CT_WARNING_BODY_INVERTED), "BODY_INVERTED");
    assert_string_equal(ct_warning_name(CT_WARNING_BODY_COLLAPSED), "BODY_COLLAPSED");
    assert_string_equal(ct_warning_name(CT_WARNING_NONE), "unknown");
    assert_non_null(strstr(ct_warning_text(CT_WARNING_BODY_INVERTED), "inside out"));
    assert_string_equal(ct_warning_text((ct_warning_code)77), "unknown");
}

/* A large body's volume is measured after every eighth of its updates: the first, the ninth and so on. */
static void check_large(ct_engine *engine) {
    struct shape large = shape_icosphere(0.5, 5);
    ct_scene_settings settings = stage_resolution(4);
    struct stage stage = stage_open(
        engine, &settings, (struct placed[]){{&large, NULL, CT_BODY_DEFORMABLE}, {&box, NULL, CT_BODY_RIGID}}, 2);
    ct_warning w = {0};
    assert_true(large.n_triangles > 1 << 14);
    assert_int_equal(step_scaled(&stage, 0, &large, 1, 1, 1, &w), 0);
    for (int i = 1; i < 8; i++) assert_int_equal(step_scaled(&stage, 0, &large, -1, 1, 1, &w), 0);
    for (int i = 0; i < 8; i++) assert_int_equal(step_scaled(&stage, 0, &large, 1, -1, 1, &w), 1);
    assert_int_equal(w.code, CT_WARNING_BODY_INVERTED);
    assert_int_equal(step_scaled(&stage, 0, &large, 1, 1, 1, &w), 0);
    stage_close(&stage);
    shape_free(&large);
}

static void test_large_bodies(void **state) {
    (void)state;
    on_every_engine(check_large);
}

static int setup(void **state) {
    (void)state;
    box = shape_box(1, 1, 1);
    sphere = shape_icosphere(0.5, 3);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    shape_free(&box);
    shape_free(&sphere);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_conditions),    cmocka_unit_test(test_partly_inverted),
                                       cmocka_unit_test(test_other_updates), cmocka_unit_test(test_several),
                                       cmocka_unit_test(test_failed_step),   cmocka_unit_test(test_same_bits),
                                       cmocka_unit_test(test_large_bodies),  cmocka_unit_test(test_names)};
    return cmocka_run_group_tests_name("warnings", tests, setup, teardown);
}
