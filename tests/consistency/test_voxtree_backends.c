/* test_voxtree_backends.c - every backend that has the method VOXTREE computes the CPU's bits: contacts, intervals,
 * points, and how far each pair came, with any settings and budgets of levels and pairs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/consistency/scratch.h"
#include "tests/consistency/twin.h"
#include "tests/scenes/build.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ /* slow on the shim */
enum { REFINED = 5, REFINED_STEPS = 5, BALL_LEVEL = 4 };
#else
enum { REFINED = 9, REFINED_STEPS = 6, BALL_LEVEL = 5 };
#endif

enum { N_SHAPES = 6, PILE = 9 };

static struct shape shapes[N_SHAPES];

static void test_random_pairs(void **state) {
    (void)state;
    static const uint32_t wants[] = {CT_WANT_FRAME, 0, CT_WANT_ALL};
    uint64_t rng = 17, contacts = 0;
    for (int round = 0; round < 40; round++) {
        double pose[2][12];
        for (int b = 0; b < 2; b++) shape_pose_random(&rng, b ? shape_uniform(&rng, 0, 1) : 0, pose[b]);
        const struct placed bodies[2] = {{&shapes[round % N_SHAPES], pose[0], 0},
                                         {&shapes[shape_random(&rng) % N_SHAPES], pose[1], 0}};
        ct_scene_settings settings = stage_voxtree(3 + (uint32_t)round % 3, round % 4 ? 0 : 2);
        settings.center_normals = round & 1;
        settings.plain_average = round >> 1 & 1;
        settings.max_points = round % 5 ? 0 : 1000;
        settings.pair_budget = round % 7 == 3 ? 500 : 0;
        contacts += compare_once("random pair", &settings, bodies, 2, wants[round % 3]);
    }
    assert_true(contacts > 25);
}

/* Trees too fine for an index, and bodies of which one is a thousandth of the other. */
static void test_sizes(void **state) {
    (void)state;
    struct shape small = shape_icosphere(6e-4, 2), sheet = shape_box(1, 1, 2e-3);
    double pose[12];
    shape_pose_axis((const double[]){1, 2, 3}, 0.3, (const double[]){0.3, 0.2, 1e-3}, pose);
    const struct placed bodies[] = {{&sheet, NULL, 0}, {&small, pose, 0}, {&shapes[2], pose, 0}};
    uint64_t contacts = 0;
    for (uint32_t level = 3; level <= 7; level += 4) {
        const ct_scene_settings settings = stage_voxtree(level, 0);
        contacts += compare_once("sizes", &settings, bodies, 3, CT_WANT_ALL);
    }
    assert_int_equal(contacts, 6);
    shape_free(&small);
    shape_free(&sheet);
}

/* Scenes of several settings in one batch, moving, and one of them without a body. */
static void test_batches(void **state) {
    (void)state;
    enum { SCENES = 5, STEPS = 3 };
    uint64_t rng = 23, contacts = 0;
    struct twin twins[SCENES];
    for (int i = 0; i < SCENES; i++) {
        struct placed bodies[PILE];
        double poses[PILE][12];
        for (int k = 0; k < PILE; k++) {
            shape_pose_random(&rng, 0.8, poses[k]);
            bodies[k] = (struct placed){&shapes[shape_random(&rng) % N_SHAPES], poses[k], 0};
        }
        ct_scene_settings settings = stage_voxtree(i % 2 ? 4 : 0, i == 3 ? 2 : 4);
        settings.pair_budget = i == 1 ? 3000 : i == 2 ? 5 : 0;
        settings.plain_average = i == 4;
        twins[i] = twin_open(&settings, bodies, i == 3 ? 0 : PILE);
    }
    for (int step = 0; step < STEPS; step++) {
        ct_update moves[SCENES][2];
        const ct_update *updates[SCENES];
        size_t n_updates[SCENES];
        for (int i = 0; i < SCENES; i++) {
            updates[i] = moves[i];
            n_updates[i] = i == 3 ? 0 : (size_t)step;
            for (int k = 0; k < 2; k++) {
                moves[i][k] = (ct_update){.kind = CT_UPDATE_POSE};
                if (i != 3) moves[i][k].body = twins[i].of[0].body[3 * k];
                shape_pose_random(&rng, 0.5, moves[i][k].pose);
            }
        }
        contacts += compare("batch", twins, updates, n_updates, SCENES, step ? CT_WANT_ALL : CT_WANT_FRAME);
    }
    assert_true(contacts > 100);
    for (int i = 0; i < SCENES; i++) twin_close(&twins[i]);
}

/* Bodies that VOXTREE moved are where the other methods find them, and have the boxes of their vertices again. */
static void test_other_methods(void **state) {
    (void)state;
    uint64_t rng = 29, contacts = 0;
    struct placed bodies[PILE];
    double poses[PILE][12];
    for (int k = 0; k < PILE; k++) {
        shape_pose_random(&rng, 0.7, poses[k]);
        bodies[k] = (struct placed){&shapes[k % N_SHAPES], poses[k], 0};
    }
    ct_scene_settings voxtree = stage_voxtree(4, 3), exact = stage_exact(), ldi = stage_resolution(16);
    const ct_scene_settings *turns[] = {&exact, &voxtree, &exact, &voxtree, &voxtree, &ldi, &voxtree, &exact};
    struct twin twin = twin_open(turns[0], bodies, PILE);
    for (int turn = 0; turn < 8; turn++) {
        for (int e = 0; e < 2; e++) assert_int_equal(ct_scene_configure(twin.of[e].scene, turns[turn], NULL), CT_OK);
        ct_update moves[2];
        for (int k = 0; k < 2; k++) {
            moves[k] = (ct_update){.kind = CT_UPDATE_POSE, .body = twin.of[0].body[2 * k + turn % 2]};
            memcpy(moves[k].pose, poses[2 * k], sizeof moves[k].pose);
            moves[k].pose[3] += 0.1 * (turn / 3); /* some are where they were */
        }
        const ct_update *updates = moves;
        const size_t n = turn % 4 == 2 ? 0 : 2;
        contacts += compare("turns", &twin, &updates, &n, 1, CT_WANT_ALL);
    }
    assert_true(contacts > 40);
    twin_close(&twin);
}

/* A time budget that is over at once, and one that never is. */
static void test_time(void **state) {
    (void)state;
    const struct placed bodies[] = {{&shapes[2], NULL, 0}, {&shapes[3], NULL, 0}};
    const ct_scene_settings settings = stage_voxtree(4, 0);
    struct stage stage = stage_open(engines[1], &settings, bodies, 2);
    for (int i = 0; i < 2; i++) {
        ct_step step = {.scene = stage.scene, .want = CT_WANT_FRAME, .time_budget = i ? 1e6 : 1e-9};
        assert_int_equal(ct_engine_run(engines[1], &step, 1), CT_OK);
        assert_int_equal(step.result->ended, i ? CT_ENDED_COMPLETED : CT_ENDED_TIME);
        assert_int_equal(step.result->n_contacts, i);
        assert_int_equal(step.result->n_progress, 1);
        assert_int_equal(step.result->progress[0].is_examined, i);
        assert_true(step.result->quality == i);
        ct_result_free(&step.result);
    }
    stage_close(&stage);
}

static struct twin open_refined(uint64_t *rng, int way) {
    struct placed bodies[REFINED];
    double poses[REFINED][12];
    for (int k = 0; k < REFINED; k++) {
        shape_pose_random(rng, 0.8, poses[k]);
        bodies[k] = (struct placed){&shapes[shape_random(rng) % N_SHAPES], poses[k], 0};
    }
    ct_scene_settings settings = stage_voxtree(way % 2 ? 4 : 0, way == 2 ? 2 : 4);
    settings.refine = way != 3; /* one of the batch is not refined */
    settings.pair_budget = way == 1 ? 3000 : way == 4 ? 5 : 0;
    settings.max_points = way == 2 ? 3 : 0;
    return twin_open(&settings, bodies, REFINED);
}

/* Moves bodies of scenes that are refined, of which some compare few cubes and one is not refined, and refines others
 * at some turns. */
static void test_refined(void **state) {
    (void)state;
    enum { SCENES = 5 };
    static const uint32_t wants[] = {0, CT_WANT_GRADIENT, CT_WANT_ALL, CT_WANT_FRAME};
    uint64_t rng = 31, contacts = 0;
    struct twin twins[SCENES];
    for (int i = 0; i < SCENES; i++) twins[i] = open_refined(&rng, i);
    for (int step = 0; step < REFINED_STEPS; step++) {
        ct_update moves[SCENES][2];
        const ct_update *updates[SCENES];
        const size_t n_moved = step % 3;
        size_t n_updates[SCENES];
        for (int i = 0; i < SCENES; i++) {
            updates[i] = moves[i];
            n_updates[i] = n_moved;
            for (int k = 0; k < 2; k++) {
                moves[i][k] = (ct_update){.kind = CT_UPDATE_POSE, .body = twins[i].of[0].body[2 * k + step % 2]};
                shape_pose_random(&rng, 0.5, moves[i][k].pose);
            }
            ct_scene_settings settings;
            ct_scene_get_settings(twins[i].of[0].scene, &settings);
            if (step > 2) settings.refine = (i + step) % 2;
            for (int e = 0; e < 2; e++)
                assert_int_equal(ct_scene_configure(twins[i].of[e].scene, &settings, NULL), CT_OK);
        }
        contacts += compare("refined", twins, updates, n_updates, SCENES, wants[step % 4]);
    }
    assert_true(contacts > REFINED * REFINED_STEPS);
    for (int i = 0; i < SCENES; i++) twin_close(&twins[i]);
}

static ct_result *step_of(int e, const ct_scene_settings *settings, const struct placed *bodies, int n, double budget) {
    struct stage stage = stage_open(engines[e], settings, bodies, n);
    ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL, .time_budget = budget};
    assert_int_equal(ct_engine_run(engines[e], &step, 1), CT_OK);
    stage_close(&stage);
    return step.result;
}

/* Refined contacts are those of EXACT, in all the time there is, and none are refined where it is over. */
static void test_refined_pairs(void **state) {
    (void)state;
    double pose[12], far[12];
    shape_pose_axis((const double[]){1, 2, 3}, 0.3, (const double[]){0.3, 0.2, 0.1}, pose);
    shape_pose_axis((const double[]){1, 2, 3}, 0.3, (const double[]){9, 9, 9}, far);
    const struct placed bodies[] = {{&shapes[2], NULL, 0}, {&shapes[3], pose, 0}, {&shapes[0], far, 0}};
    ct_scene_settings settings = stage_voxtree(4, 3);
    const ct_scene_settings exact = stage_exact();
    settings.refine = true;
    ct_result *truth = step_of(1, &exact, bodies, 3, 0);
    assert_int_equal(truth->n_contacts, 1);
    for (int way = 0; way < 3; way++) {
        ct_result *r = step_of(1, &settings, bodies, 3, way == 1 ? 1e6 : way == 2 ? 1e-9 : 0);
        assert_int_equal(r->n_progress, 1);
        assert_int_equal(r->progress[0].is_refined, way != 2);
        assert_int_equal(r->ended, way == 2 ? CT_ENDED_TIME : CT_ENDED_COMPLETED);
        assert_true(r->quality == (way != 2));
        assert_int_equal(r->n_contacts, way != 2);
        if (way != 2) {
            assert_true(r->contacts[0].volume == truth->contacts[0].volume);
            assert_true(r->contacts[0].error_bound == truth->contacts[0].error_bound);
            assert_int_equal(r->n_entries, truth->n_entries);
            assert_memory_equal(r->gradient, truth->gradient, 3 * sizeof(double) * truth->n_entries);
            assert_true(r->n_points > 0);
        }
        ct_result_free(&r);
    }
    ct_result_free(&truth);
}

/* Bodies too far apart in size for EXACT's lattice: the pair keeps the trees' answer, and others are refined. */
static void test_pairs_without_lattice(void **state) {
    (void)state;
    struct shape speck = shape_box(1e-9, 1e-9, 1e-9);
    double pose[12], other[12];
    shape_pose_axis((const double[]){1, 2, 3}, 0, (const double[]){0.1, 0.2, 0.3}, pose);
    shape_pose_axis((const double[]){1, 2, 3}, 0.5, (const double[]){-0.7, 0, 0}, other);
    const struct placed bodies[] = {{&shapes[0], NULL, 0}, {&speck, pose, 0}, {&shapes[2], other, 0}};
    ct_scene_settings settings = stage_voxtree(3, 3);
    settings.refine = true;
    assert_int_equal(compare_once("without lattice", &settings, bodies, 3, CT_WANT_ALL), 2);
    ct_result *r = step_of(1, &settings, bodies, 3, 0);
    assert_int_equal(r->n_progress, 2);
    assert_false(r->progress[0].is_refined);
    assert_true(r->progress[1].is_refined);
    ct_result_free(&r);
    shape_free(&speck);
}

/* With too little memory to refine a pair, the step fails and says so; with enough it has the CPU's bits. */
static void test_refined_out_of_memory(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(0.6, BALL_LEVEL);
    double pose[12];
    shape_pose_axis((const double[]){1, 2, 3}, 0.3, (const double[]){0.1, 0.2, 0.1}, pose);
    const struct placed bodies[] = {{&ball, NULL, 0}, {&ball, pose, 0}, {&shapes[0], pose, 0}};
    ct_scene_settings settings = stage_voxtree(3, 3);
    settings.refine = true;
    ct_result *whole = step_of(0, &settings, bodies, 3, 0);
    char expected[33];
    stage_hash(whole, expected);
    ct_result_free(&whole);
    const struct scratch_limits limits = {.first = 1 << 19, .more = 1 << 21, .n_steps = 1};
    check_scratch_limits(engines[1], &limits, "working memory", &settings, bodies, 3, CT_WANT_ALL, expected);
    shape_free(&ball);
}

int main(void) {
    shapes[0] = shape_box(1, 1, 1);
    shapes[1] = shape_box(0.3, 1.7, 0.9);
    shapes[2] = shape_icosphere(0.6, 3);
    shapes[3] = shape_torus(0.6, 0.2, 32, 16);
    shapes[4] = shape_l_prism(1.2, 0.5);
    shapes[5] = shape_blob(0.6, 3, 0.3, 5);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_pairs),
                                       cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_batches),
                                       cmocka_unit_test(test_other_methods),
                                       cmocka_unit_test(test_time),
                                       cmocka_unit_test(test_refined),
                                       cmocka_unit_test(test_refined_pairs),
                                       cmocka_unit_test(test_pairs_without_lattice),
                                       cmocka_unit_test(test_refined_out_of_memory)};
    const int failed = twin_run_on_backends(tests, sizeof tests / sizeof *tests, (const char *const[]){"native"}, 1);
    for (int i = 0; i < N_SHAPES; i++) shape_free(&shapes[i]);
    return failed;
}
