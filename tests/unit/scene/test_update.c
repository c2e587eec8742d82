/* test_update.c - updates of a step: every error with its field and message; a step that fails changes nothing, not
 * even by the updates before the wrong one; valid updates in all their forms take effect. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

static ct_engine *engine;
static struct shape box;

/* Body 0 soft, body 1 rigid, overlapping. */
static struct stage open_pair(void) {
    static double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.25, pose[7] = 0.125;
    ct_scene_settings settings = stage_resolution(7);
    const struct placed bodies[] = {{&box, NULL, CT_BODY_DEFORMABLE}, {&box, pose, CT_BODY_RIGID}};
    return stage_open(engine, &settings, bodies, 2);
}

static void hash_now(struct stage *stage, char hex[33]) {
    ct_result *result = stage_step(stage, NULL, 0, CT_WANT_ALL | CT_WANT_SPANS);
    assert_int_equal(result->n_contacts, 1);
    stage_hash(result, hex);
    ct_result_free(&result);
}

/* A harmless update of body 0, to see that it is not applied alone. */
static ct_update good(const struct stage *stage, const float *moved) {
    return (ct_update){.body = stage->body[0],
                       .kind = CT_UPDATE_POSITIONS,
                       .positions = moved,
                       .dtype = CT_F32,
                       .count = box.n_vertices};
}

static void refused(const ct_update *bad, ct_status status, const char *field, const char *words) {
    struct stage stage = open_pair();
    float moved[24];
    for (int i = 0; i < 24; i++) moved[i] = 0.5f * box.positions[i];
    char before[33], after[33];
    ct_body_info was[2], is;
    hash_now(&stage, before);
    for (int b = 0; b < 2; b++) assert_int_equal(ct_scene_body_at(stage.scene, (size_t)b, &was[b]), CT_OK);
    for (int place = 0; place < 3; place++) {
        ct_update updates[3] = {good(&stage, moved), good(&stage, moved), good(&stage, moved)};
        updates[place] = *bad;
        ct_step step = {.scene = stage.scene, .updates = updates, .n_updates = 3, .want = CT_WANT_ALL};
        assert_int_equal(ct_engine_run(engine, &step, 1), status);
        assert_null(step.result);
        assert_int_equal(step.error.status, status);
        assert_string_equal(step.error.field, field);
        if (!strstr(step.error.message, words)) fail_msg("\"%s\" does not say \"%s\"", step.error.message, words);
        for (int b = 0; b < 2; b++) {
            assert_int_equal(ct_scene_body_at(stage.scene, (size_t)b, &is), CT_OK);
            assert_memory_equal(&is, &was[b], sizeof is);
        }
        hash_now(&stage, after);
        assert_string_equal(after, before);
    }
    ct_update fine = good(&stage, moved); /* and would have changed something */
    ct_result *result = stage_step(&stage, &fine, 1, 0);
    ct_result_free(&result);
    hash_now(&stage, after);
    assert_string_not_equal(after, before);
    stage_close(&stage);
}

static void test_refusals(void **state) {
    (void)state;
    const uint32_t soft = 1, rigid = 2;
    float p[30] = {0};
    double d[30] = {0};
    const uint32_t ranges[] = {0, 3, 6, 3}, past[] = {UINT32_MAX, 1}, indices[] = {0, 7, 8};
    ct_update u = {.body = 9, .kind = CT_UPDATE_POSITIONS, .positions = p, .dtype = CT_F32, .count = 8};
    refused(&u, CT_NOT_FOUND, "body", "body 9 is not in the scene, which has 2");
    u.body = soft;
    u.count = 7;
    refused(&u, CT_WRONG_LENGTH, "positions", "positions of 7 vertices, expected 8");
    u.count = 9;
    refused(&u, CT_WRONG_LENGTH, "positions", "positions of 9 vertices, expected 8");
    u.count = 8;
    u.positions = NULL;
    refused(&u, CT_INVALID_ARGUMENT, "positions", "no positions");
    u.positions = p;
    u.dtype = (ct_dtype)3;
    refused(&u, CT_INVALID_ARGUMENT, "positions", "float32 or float64");
    u.dtype = CT_F32;
    u.kind = (ct_update_kind)8;
    refused(&u, CT_INVALID_ARGUMENT, "kind", "update kind 8");
    u.kind = CT_UPDATE_POSE;
    refused(&u, CT_INVALID_ARGUMENT, "kind", "deformable");
    u.body = rigid;
    for (int kind = CT_UPDATE_POSITIONS; kind <= CT_UPDATE_INDEXED; kind++) {
        u.kind = (ct_update_kind)kind;
        refused(&u, CT_INVALID_ARGUMENT, "kind", "rigid");
    }
    u.body = soft;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        u.kind = CT_UPDATE_POSITIONS;
        p[3 * 7 + i] = bad[i];
        refused(&u, CT_NON_FINITE, "positions",
                (const char *[]){"position 7 has x", "position 7 has y = inf", "position 7 has z = -inf"}[i]);
        p[3 * 7 + i] = 0;
    }
    u.positions = d;
    u.dtype = CT_F64;
    d[4] = 1e39;
    refused(&u, CT_NON_FINITE, "positions",
            "position 1 has y = 1e+39, expected a finite number within float32's range");
    d[4] = 0;

    u = (ct_update){
        .body = soft, .kind = CT_UPDATE_RANGES, .positions = p, .dtype = CT_F32, .count = 6, .indices = ranges};
    u.n_indices = 3;
    refused(&u, CT_WRONG_LENGTH, "indices", "even number");
    u.n_indices = 4;
    refused(&u, CT_OUT_OF_RANGE, "indices", "range 1");
    u.n_indices = 2;
    refused(&u, CT_WRONG_LENGTH, "positions", "cover 3 vertices, but positions of 6");
    u.indices = past;
    refused(&u, CT_OUT_OF_RANGE, "indices", "range 0");
    u.indices = NULL;
    refused(&u, CT_INVALID_ARGUMENT, "indices", "no indices");
    u.indices = ranges;
    u.count = 3;
    p[2] = NAN;
    refused(&u, CT_NON_FINITE, "positions", "position 0 has z");
    p[2] = 0;

    u = (ct_update){
        .body = soft, .kind = CT_UPDATE_INDEXED, .positions = p, .dtype = CT_F32, .count = 3, .indices = indices};
    u.n_indices = 2;
    refused(&u, CT_WRONG_LENGTH, "indices", "2 indices for 3 positions");
    u.n_indices = 3;
    refused(&u, CT_OUT_OF_RANGE, "indices", "index 2 is vertex 8");

    u = (ct_update){.body = rigid, .kind = CT_UPDATE_POSE};
    shape_pose_identity(u.pose);
    u.pose[7] = NAN;
    refused(&u, CT_NON_FINITE, "pose", "number 7 of the pose");
    u.pose[7] = 0;
    u.pose[1] = 0.01;
    refused(&u, CT_OUT_OF_RANGE, "pose", "no rotation");
    u.pose[1] = 0;
    u.pose[10] = -1;
    refused(&u, CT_OUT_OF_RANGE, "pose", "determinant -1");
    memset(u.pose, 0, sizeof u.pose);
    refused(&u, CT_OUT_OF_RANGE, "pose", "no rotation");
}

/* ---- what arrives ---- */

/* The positions that body 0 has, as the step's answer and its box tell: compared with a scene given them whole. */
static void expect_positions(struct stage *stage, const float positions[24]) {
    struct stage whole = open_pair();
    char a[33], b[33];
    ct_update update = good(&whole, positions);
    ct_result *result = stage_step(&whole, &update, 1, 0);
    ct_result_free(&result);
    hash_now(&whole, a);
    hash_now(stage, b);
    assert_string_equal(a, b);
    ct_body_info x, y;
    assert_int_equal(ct_scene_body_at(whole.scene, 0, &x), CT_OK);
    assert_int_equal(ct_scene_body_at(stage->scene, 0, &y), CT_OK);
    assert_memory_equal(x.lo, y.lo, sizeof x.lo);
    assert_memory_equal(x.hi, y.hi, sizeof x.hi);
    for (int k = 0; k < 3; k++) {
        double lo = INFINITY, hi = -INFINITY;
        for (int v = 0; v < 8; v++) {
            lo = fmin(lo, positions[3 * v + k]);
            hi = fmax(hi, positions[3 * v + k]);
        }
        assert_true(y.lo[k] == lo && y.hi[k] == hi);
    }
    stage_close(&whole);
}

static void apply(struct stage *stage, const ct_update *updates, size_t n) {
    ct_result *result = stage_step(stage, updates, n, 0);
    ct_result_free(&result);
}

static void test_forms(void **state) {
    (void)state;
    uint64_t rng = 51;
    struct stage stage = open_pair();
    float now[24];
    memcpy(now, box.positions, sizeof now);
    for (int round = 0; round < 200; round++) {
        /* Rows for some vertices, as float or double, behind 0..7 stray bytes, as are the indices. */
        char rows[7 + 24 * 20], numbers[7 + 4 * 20];
        size_t stray = shape_random(&rng) % 8, row_stray = shape_random(&rng) % 8;
        bool wide = shape_random(&rng) % 2;
        uint32_t kind = 1 + (uint32_t)(shape_random(&rng) % 3), count = 0, n_indices = 0, touched[20];
        if (kind == CT_UPDATE_POSITIONS)
            for (; count < 8; count++) touched[count] = count;
        if (kind == CT_UPDATE_INDEXED)
            for (uint32_t n = (uint32_t)(shape_random(&rng) % 10); count < n; count++) {
                touched[count] = (uint32_t)(shape_random(&rng) % 8); /* also twice: the last wins */
                memcpy(numbers + stray + 4 * n_indices++, &touched[count], 4);
            }
        if (kind == CT_UPDATE_RANGES)
            for (uint32_t n = (uint32_t)(shape_random(&rng) % 4); n > 0; n--) {
                uint32_t range[2] = {(uint32_t)(shape_random(&rng) % 8), 0};
                range[1] = (uint32_t)(shape_random(&rng) % (9 - range[0]));
                if (count + range[1] > 20) continue;
                for (uint32_t i = 0; i < range[1]; i++) touched[count++] = range[0] + i;
                memcpy(numbers + stray + 4 * n_indices, range, 8);
                n_indices += 2;
            }
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < 3; k++) {
                const float f = (float)(box.positions[3 * touched[i] + k] * shape_uniform(&rng, 0.8, 1.2));
                const double x = (double)f;
                now[3 * touched[i] + k] = f;
                if (wide)
                    memcpy(rows + row_stray + 24 * i + 8 * k, &x, 8);
                else
                    memcpy(rows + row_stray + 12 * i + 4 * k, &f, 4);
            }
        ct_update update = {.body = stage.body[0],
                            .kind = (ct_update_kind)kind,
                            .positions = rows + row_stray,
                            .dtype = wide ? CT_F64 : CT_F32,
                            .count = count,
                            .indices = numbers + stray,
                            .n_indices = n_indices};
        apply(&stage, &update, 1);
        expect_positions(&stage, now);
    }
    stage_close(&stage);
}

/* Several updates of one body in a step: in order, and the box is that of the end, whichever form came last. */
static void test_several_of_one_body(void **state) {
    (void)state;
    float small[24], large[24], corner[3];
    double large64[24];
    for (int i = 0; i < 24; i++) {
        small[i] = 0.5f * box.positions[i];
        large[i] = 1.25f * box.positions[i];
        large64[i] = large[i];
    }
    const uint32_t vertex = 0;
    memcpy(corner, small, sizeof corner);
    for (int order = 0; order < 6; order++) {
        struct stage stage = open_pair();
        const ct_update s = good(&stage, small), l = good(&stage, large);
        ct_update l64 = l, one = s, pose = {.body = stage.body[1], .kind = CT_UPDATE_POSE};
        memcpy(pose.pose, (const double[]){1, 0, 0, 0.25, 0, 1, 0, 0.125, 0, 0, 1, 0}, sizeof pose.pose);
        l64.positions = large64;
        l64.dtype = CT_F64;
        one.kind = CT_UPDATE_INDEXED;
        one.positions = corner;
        one.count = one.n_indices = 1;
        one.indices = &vertex;
        float mixed[24];
        memcpy(mixed, large, sizeof mixed);
        memcpy(mixed, corner, sizeof corner);
        const ct_update lists[6][3] = {{s, pose, l},   {l, s, pose},   {s, s, l64},
                                       {l64, pose, s}, {one, pose, l}, {s, l, one}};
        const float *ends[6] = {large, small, large, small, large, mixed};
        apply(&stage, lists[order], 3);
        expect_positions(&stage, ends[order]);
        stage_close(&stage);
    }
}

static void test_poses(void **state) {
    (void)state;
    struct stage stage = open_pair();
    ct_update updates[2] = {{.body = stage.body[1], .kind = CT_UPDATE_POSE},
                            {.body = stage.body[1], .kind = CT_UPDATE_POSE}};
    shape_pose_identity(updates[0].pose);
    shape_pose_identity(updates[1].pose);
    updates[0].pose[3] = 5;
    updates[1].pose[3] = 0.75;
    ct_result *result = stage_step(&stage, updates, 2, 0);
    assert_int_equal(result->n_contacts, 1);
    assert_true(fabs(result->contacts[0].volume - 0.25) < 1e-6);
    ct_result_free(&result);
    ct_body_info info;
    assert_int_equal(ct_scene_body_at(stage.scene, 1, &info), CT_OK);
    assert_memory_equal(info.pose, updates[1].pose, sizeof info.pose);
    assert_true(info.lo[0] == 0.25 && info.hi[0] == 1.25);
    result = stage_step(&stage, updates, 1, 0); /* far off */
    assert_int_equal(result->n_contacts, 0);
    ct_result_free(&result);
    stage_close(&stage);
}

/* Memory that updates need to be taken back counts as the scene's, until the scene is reset. */
static void test_bytes(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 4);
    const uint64_t copy = 12 * (uint64_t)ball.n_vertices, slack = copy / 4; /* answers that are kept, and the like */
    const struct placed bodies[] = {{&ball, NULL, CT_BODY_DEFORMABLE}, {&box, NULL, CT_BODY_RIGID}};
    ct_scene_settings settings = stage_resolution(7);
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    double *wide = malloc((size_t)ball.n_vertices * 3 * sizeof *wide);
    assert_non_null(wide);
    for (size_t i = 0; i < 3 * (size_t)ball.n_vertices; i++) wide[i] = 1.1 * (double)ball.positions[i];
    const ct_update narrow = {.body = stage.body[0],
                              .kind = CT_UPDATE_POSITIONS,
                              .positions = ball.positions,
                              .dtype = CT_F32,
                              .count = ball.n_vertices};
    ct_update of_doubles = narrow;
    of_doubles.positions = wide;
    of_doubles.dtype = CT_F64;
    apply(&stage, NULL, 0);
    const uint64_t first = ct_scene_bytes(stage.scene);
    const struct {
        const ct_update *update; /* NULL: a reset */
        uint64_t copies;
    } steps[] = {{&narrow, 1}, {&of_doubles, 3}, {&of_doubles, 3}, {&narrow, 3}, {NULL, 0}, {&narrow, 1}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (steps[i].update)
            apply(&stage, steps[i].update, 1);
        else
            assert_int_equal(ct_scene_reset(stage.scene, NULL), CT_OK);
        const uint64_t now = ct_scene_bytes(stage.scene), expected = first + steps[i].copies * copy;
        assert_true(now + slack > expected && now < expected + slack);
    }
    free(wide);
    stage_close(&stage);
    shape_free(&ball);
}

int main(void) {
    engine = stage_engine(1, NULL);
    box = shape_box(1, 1, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refusals), cmocka_unit_test(test_forms),
                                       cmocka_unit_test(test_several_of_one_body), cmocka_unit_test(test_poses),
                                       cmocka_unit_test(test_bytes)};
    int failed = cmocka_run_group_tests_name("update", tests, NULL, NULL);
    ct_engine_destroy(&engine);
    shape_free(&box);
    return failed;
}
