/* test_identity.c - contacts and points keep their numbers while they persist: at rest, sliding by more than their own
 * spacing, rolling, on bodies that deform, beside some that begin and end; failed steps and steps that do not want ids
 * change nothing. */
#include <math.h>
#include <string.h>

#include "gpu/scene/scene.h"
#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

enum { ROWS = 4 }; /* studs along either side of a plate */
static const double SPACING = 0.5;
static struct shape ground, box, studs, ball;

/* A plate, and under it ROWS x ROWS cubes of 0.2 m, whose lowest faces are at z = -0.4: one mesh of many shells. */
static struct shape make_studs(void) {
    struct shape all = shape_box(ROWS * SPACING, ROWS * SPACING, 0.1);
    shape_translate(&all, 0, 0, 0.1);
    for (int i = 0; i < ROWS * ROWS; i++) {
        struct shape stud = shape_box(0.2, 0.2, 0.2);
        shape_translate(&stud, SPACING * (i % ROWS) - 0.75, SPACING * (i / ROWS) - 0.75, -0.3);
        const struct shape both = shape_merge(&all, &stud);
        shape_free(&all);
        shape_free(&stud);
        all = both;
    }
    return all;
}

static ct_update pose_of(const struct stage *stage, int body, const double pose[12]) {
    ct_update update = {.body = stage->body[body], .kind = CT_UPDATE_POSE};
    memcpy(update.pose, pose, sizeof update.pose);
    return update;
}

static ct_result *step_at(struct stage *stage, double x, double y, double z) {
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = x;
    pose[7] = y;
    pose[11] = z;
    const ct_update update = pose_of(stage, 1, pose);
    return stage_step(stage, &update, 1, CT_WANT_IDS);
}

static struct stage open_two(ct_engine *engine, ct_scene_settings settings, const struct shape *moving,
                             ct_body_kind kind, double z) {
    double pose[12];
    shape_pose_identity(pose);
    pose[11] = z;
    const struct placed bodies[] = {{&ground, NULL, 0, 0}, {moving, pose, kind, 0}};
    return stage_open(engine, &settings, bodies, 2);
}

static void expect_ids(ct_result *result, uint64_t first, size_t n, bool are_new, size_t n_ended) {
    assert_int_equal(result->n_contacts, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(result->contacts[i].id, first + i);
        assert_int_equal(result->contacts[i].is_new, are_new);
    }
    assert_int_equal(result->n_ended_ids, n_ended);
    ct_result_free(&result);
}

static void test_begins_and_ends(void **state) {
    ct_engine *engine = *state;
    struct stage stage = open_two(engine, stage_exact(), &box, 0, 5);
    expect_ids(stage_step(&stage, NULL, 0, CT_WANT_IDS), 1, 0, false, 0);
    expect_ids(step_at(&stage, 0, 0, 0.49), 1, 1, true, 0);
    expect_ids(step_at(&stage, 0, 0, 0.48), 1, 1, false, 0);
    expect_ids(step_at(&stage, 3, 2, 0.48), 1, 1, false, 0); /* however far */
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_FRAME);
    assert_int_equal(result->contacts[0].id, 0); /* it did not want them */
    ct_result_free(&result);
    result = step_at(&stage, 0, 0, 5);
    assert_int_equal(result->n_contacts, 0);
    assert_int_equal(result->n_ended_ids, 1);
    assert_int_equal(result->ended_ids[0], 1);
    ct_result_free(&result);
    expect_ids(step_at(&stage, 0, 0, 5), 1, 0, false, 0);
    expect_ids(step_at(&stage, 0, 0, 0.49), 2, 1, true, 0);
    ct_error error;
    assert_int_equal(ct_scene_remove_body(stage.scene, stage.body[0], &error), CT_OK);
    expect_ids(stage_step(&stage, NULL, 0, CT_WANT_IDS), 0, 0, false, 1);
    stage_close(&stage);
}

/* A step that fails changes nothing; one that wants no ids is not compared with. */
static void test_other_steps(void **state) {
    ct_engine *engine = *state;
    struct stage stage = open_two(engine, stage_exact(), &box, 0, 0.49);
    expect_ids(stage_step(&stage, NULL, 0, CT_WANT_IDS), 1, 1, true, 0);
    double away[12];
    shape_pose_identity(away);
    away[11] = 5;
    ct_cancel cancel;
    ct_cancel_init(&cancel, 0);
    ct_cancel_request(&cancel, 1);
    const ct_update update = pose_of(&stage, 1, away);
    ct_step step = {.scene = stage.scene, .updates = &update, .n_updates = 1, .want = CT_WANT_IDS, .cancel = &cancel};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_CANCELLED);
    assert_null(step.result);
    expect_ids(stage_step(&stage, NULL, 0, CT_WANT_IDS), 1, 1, false, 0);
    ct_result *result = stage_step(&stage, &update, 1, CT_WANT_FRAME);
    assert_int_equal(result->n_contacts + result->n_ended_ids, 0);
    ct_result_free(&result);
    expect_ids(step_at(&stage, 0, 0, 0.45), 1, 1, false, 0);
    stage_close(&stage);
}

/* Studs slide by more than their spacing, so that each is nearest to where another was; then half of them are lifted, and
 * come back. */
static void test_patches(void **state) {
    ct_engine *engine = *state;
    ct_scene_settings settings = stage_exact();
    settings.patches = true;
    struct stage stage = open_two(engine, settings, &studs, 0, 0.399);
    enum { N = ROWS * ROWS };
    ct_result *before = step_at(&stage, 0, 0, 0.399);
    assert_int_equal(before->n_contacts, N);
    ct_result *now = step_at(&stage, SPACING + 0.07, -0.1, 0.398);
    assert_int_equal(now->n_contacts, N);
    assert_int_equal(now->n_ended_ids, 0);
    for (int i = 0; i < N; i++) {
        const ct_contact *contact = &now->contacts[i];
        assert_false(contact->is_new);
        int k = 0;
        while (before->contacts[k].id != contact->id) assert_true(++k < N);
        assert_true(fabs(contact->center[0] - before->contacts[k].center[0] - SPACING - 0.07) < 1e-6);
        assert_true(fabs(contact->center[1] - before->contacts[k].center[1] + 0.1) < 1e-6);
    }
    /* Turned about y by 1e-2: one half is above ground. */
    const double c = cos(0.01), s = sin(0.01);
    const double tilted[12] = {c, 0, s, SPACING + 0.07, 0, 1, 0, -0.1, -s, 0, c, 0.402};
    const ct_update update = pose_of(&stage, 1, tilted);
    ct_result *half = stage_step(&stage, &update, 1, CT_WANT_IDS);
    assert_int_equal(half->n_contacts + half->n_ended_ids, N);
    assert_true(half->n_ended_ids >= ROWS && half->n_contacts >= ROWS);
    for (size_t i = 1; i < half->n_ended_ids; i++) assert_true(half->ended_ids[i - 1] < half->ended_ids[i]);
    for (size_t i = 0; i < half->n_contacts; i++) assert_false(half->contacts[i].is_new);
    ct_result *again = step_at(&stage, SPACING + 0.07, -0.1, 0.398);
    size_t n_new = 0;
    for (int i = 0; i < N; i++) {
        const bool is_new = again->contacts[i].is_new;
        assert_int_equal(is_new, again->contacts[i].id > N);
        n_new += is_new;
        if (!is_new) assert_int_equal(again->contacts[i].id, now->contacts[i].id); /* in the same place */
    }
    assert_int_equal(n_new, half->n_ended_ids);
    assert_int_equal(again->n_ended_ids, 0);
    ct_result *results[] = {before, now, half, again};
    for (int i = 0; i < 4; i++) ct_result_free(&results[i]);
    stage_close(&stage);
}

/* A patch that begins far from one that ends, beside a third that persists, is another one. */
static void test_far_is_new(void **state) {
    ct_engine *engine = *state;
    ct_scene_settings settings = stage_exact();
    settings.patches = true;
    struct shape left = shape_box(0.2, 0.2, 0.2), right = shape_copy(&left), third = shape_copy(&left);
    shape_translate(&left, -3, 0, 0.09);
    shape_translate(&right, 3, 0, 0.11);
    shape_translate(&third, 0, 3, 0.09);
    struct shape two = shape_merge(&left, &right), all = shape_merge(&two, &third);
    struct stage stage = open_two(engine, settings, &all, CT_BODY_DEFORMABLE, 0);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_IDS);
    assert_int_equal(result->n_contacts, 2);
    ct_result_free(&result);
    for (uint32_t v = 0; v < 16; v++) all.positions[3 * v + 2] += v < 8 ? 0.02f : -0.02f;
    const ct_update update = {.body = stage.body[1],
                              .kind = CT_UPDATE_POSITIONS,
                              .positions = all.positions,
                              .dtype = CT_F32,
                              .count = all.n_vertices};
    result = stage_step(&stage, &update, 1, CT_WANT_IDS);
    assert_int_equal(result->n_contacts, 2);
    assert_int_equal(result->n_ended_ids, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(result->contacts[i].is_new, result->contacts[i].center[0] > 1);
        assert_int_equal(result->contacts[i].is_new, result->contacts[i].id == 3);
    }
    ct_result_free(&result);
    stage_close(&stage);
    shape_free(&left);
    shape_free(&right);
    shape_free(&third);
    shape_free(&two);
    shape_free(&all);
}

/* Two wheels of one body roll by many times the size of what they touch with. */
static void test_rolls(void **state) {
    ct_engine *engine = *state;
    ct_scene_settings settings = stage_exact();
    settings.patches = true;
    struct shape left = shape_copy(&ball), right = shape_copy(&ball);
    shape_translate(&left, 0, -0.6, 0);
    shape_translate(&right, 0, 0.6, 0);
    struct shape wheels = shape_merge(&left, &right);
    struct stage stage = open_two(engine, settings, &wheels, 0, 0.499);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_IDS);
    assert_int_equal(result->n_contacts, 2);
    const bool is_left_first = result->contacts[0].center[1] < 0;
    ct_result_free(&result);
    for (int k = 1; k < 8; k++) {
        const double turn = 0.3 * k, c = cos(turn), s = sin(turn);
        const double pose[12] = {c, 0, s, 0.5 * turn, 0, 1, 0, 0, -s, 0, c, 0.499};
        const ct_update update = pose_of(&stage, 1, pose);
        result = stage_step(&stage, &update, 1, CT_WANT_IDS);
        for (size_t i = 0; i < result->n_contacts; i++) {
            assert_false(result->contacts[i].is_new);
            assert_int_equal(result->contacts[i].id, (result->contacts[i].center[1] < 0) == is_left_first ? 1 : 2);
        }
        assert_int_equal(result->n_contacts, 2);
        ct_result_free(&result);
    }
    stage_close(&stage);
    shape_free(&left);
    shape_free(&right);
    shape_free(&wheels);
}

/* The four points of a box that slides are its corners, whatever their order. */
static void test_points(void **state) {
    ct_engine *engine = *state;
    ct_scene_settings settings = stage_exact();
    settings.max_points = 4;
    struct stage stage = open_two(engine, settings, &box, 0, 0.49);
    double corner[4][2];
    for (int k = 0; k < 6; k++) {
        const double x = 0.31 * k, y = -0.22 * k;
        ct_result *result = step_at(&stage, x, y, 0.49 - 1e-4 * k);
        assert_int_equal(result->n_contacts, 1);
        assert_int_equal(result->n_points, 4);
        for (int i = 0; i < 4; i++) {
            const ct_point *point = &result->points[i];
            assert_true(point->id >= 2 && point->id <= 5);
            double *at = corner[point->id - 2];
            for (int c = 0; c < 2; c++) {
                const double own = point->position[c] - (c ? y : x);
                if (k == 0) at[c] = own;
                assert_true(fabs(own - at[c]) < 1e-6);
            }
        }
        ct_result_free(&result);
    }
    stage_close(&stage);
}

static int open_engine(void **state) {
    ground = shape_box(20, 20, 1);
    shape_translate(&ground, 0, 0, -0.5);
    box = shape_box(1, 1, 1);
    studs = make_studs();
    ball = shape_icosphere(0.5, 4);
    *state = stage_engine(2, NULL);
    return 0;
}

static int close_engine(void **state) {
    struct shape *const shapes[] = {&ground, &box, &studs, &ball};
    for (int i = 0; i < 4; i++) shape_free(shapes[i]);
    ct_engine_destroy((ct_engine **)state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_begins_and_ends), cmocka_unit_test(test_other_steps),
                                       cmocka_unit_test(test_patches),         cmocka_unit_test(test_far_is_new),
                                       cmocka_unit_test(test_rolls),           cmocka_unit_test(test_points)};
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
