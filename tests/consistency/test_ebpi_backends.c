/* test_ebpi_backends.c - every backend that has the method EBPI computes the CPU's bits: contacts, bounds of each view,
 * gradients, rays, passes, and how each step ended; also with turned views. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/consistency/ebpi_pairs.h"
#include "tests/consistency/twin.h"

static ct_scene_settings ebpi(double tolerance, double tolerance_rel, bool strict, ct_allocation allocation) {
    ct_scene_settings settings = ebpi_settings(tolerance, tolerance_rel, strict);
    settings.allocation = allocation;
    return settings;
}

/* What the method gives. */
enum { WANTED = CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES | CT_WANT_TILES };

#ifdef CT_CUDA_SHIM /* slow */
enum { SHARE = 3 };
#else
enum { SHARE = 1 };
#endif

/* A tolerance for slow builds, which takes fewer rays. */
static double coarser(double tolerance) {
    return SHARE > 1 ? 3 * tolerance : tolerance;
}

/* n and least_contacts: on a device. */
static void compare_random_pairs(uint64_t seed, int n, const ct_scene_settings *settings, uint64_t least_contacts) {
    static const uint32_t wants[] = {WANTED, CT_WANT_FRAME, 0};
    uint64_t rng = seed, contacts = 0;
    for (int i = 0; i < (n + SHARE - 1) / SHARE; i++) {
        struct random_pair pair = random_pair(&rng, i % 2 ? 0.3 : 0.8, i % 4 == 3);
        const struct placed bodies[] = {{&pair.shape[0], pair.pose[0], 0}, {&pair.shape[1], pair.pose[1], 0}};
        contacts += compare_once("random pair", settings, bodies, 2, wants[i % 4 == 1 ? 1 : i % 4 == 2 ? 2 : 0]);
        random_pair_free(&pair);
    }
    assert_true(contacts >= least_contacts / SHARE);
}

static void test_published(void **state) {
    (void)state;
    const ct_scene_settings coarse = ebpi(1e-1, 0, false, CT_ALLOCATION_OPTIMAL),
                            fine = ebpi(0, 2e-2, false, CT_ALLOCATION_OPTIMAL);
    compare_random_pairs(3, 12, &coarse, 6);
    compare_random_pairs(5, 12, &fine, 6);
}

static void test_strict(void **state) {
    (void)state;
    const ct_scene_settings coarse = ebpi(1e-1, 0, true, CT_ALLOCATION_OPTIMAL),
                            fine = ebpi(0, 5e-2, true, CT_ALLOCATION_OPTIMAL);
    compare_random_pairs(7, 12, &coarse, 6);
    compare_random_pairs(11, 12, &fine, 6);
}

static void test_allocations(void **state) {
    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        const ct_scene_settings published = ebpi(3e-2, 0, strict, CT_ALLOCATION_PUBLISHED),
                                per_pixel = ebpi(0, strict ? 0.4 : coarser(0.1), strict, CT_ALLOCATION_PER_PIXEL);
        compare_random_pairs(13, 6, &published, 3);
        compare_random_pairs(17, 6, &per_pixel, 3);
    }
}

/* Budgets that end the search: of rays, by the fewest and by some, with each allocation. */
static void test_budgets(void **state) {
    (void)state;
    static const uint64_t budgets[] = {3, 200, 3000};
    for (int i = 0; i < 3; i++)
        for (int allocation = 0; allocation < 3; allocation++) {
            ct_scene_settings settings = ebpi(1e-4, 0, i & 1, (ct_allocation)allocation);
            settings.ray_budget = budgets[i];
            compare_random_pairs(19 + (uint64_t)i, 3, &settings, 0);
        }
}

/* Boxes whose faces lie in each other's planes. */
static void test_ties(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1), plate = shape_box(2, 2, 0.02);
    const double offsets[][3] = {{0, 0, 0}, {0.5, 0, 0}, {0.5, 0.5, 0}, {1, 0, 0}, {0.25, 0.25, 0.25}};
    for (int strict = 0; strict < 2; strict++)
        for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
            double pose[12];
            shape_pose_identity(pose);
            for (int k = 0; k < 3; k++) pose[4 * k + 3] = offsets[i][k];
            const ct_scene_settings settings = ebpi(0, 0.05, strict, CT_ALLOCATION_OPTIMAL);
            const struct placed cubes[] = {{&cube, NULL, 0}, {&cube, pose, 0}};
            const struct placed plates[] = {{&plate, NULL, 0}, {&cube, pose, 0}};
            compare_once("two cubes", &settings, cubes, 2, WANTED);
            compare_once("a plate", &settings, plates, 2, WANTED);
        }
    shape_free(&cube);
    shape_free(&plate);
}

/* Tolerances that their coordinates cannot carry, with the same words. */
static void test_refused(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 2);
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.5;
    const struct placed bodies[] = {{&ball, NULL, 0}, {&ball, pose, 0}};
    const ct_scene_settings settings = ebpi(1e-15, 0, false, CT_ALLOCATION_OPTIMAL);
    struct twin twin = twin_open(&settings, bodies, 2);
    ct_step step = {.scene = twin.of[1].scene, .want = CT_WANT_FRAME};
    ct_engine_run(engines[1], &step, 1);
    assert_int_equal(step.error.status, CT_OUT_OF_RANGE);
    assert_string_equal(step.error.field, "tolerance");
    assert_int_equal(compare("too small a tolerance", &twin, NULL, NULL, 1, CT_WANT_FRAME), 0);
    twin_close(&twin);
    shape_free(&ball);
}

/* Several scenes in a batch, each of several bodies, of which one is deformed; then they move. turns: views of all but
 * one scene may be turned. */
static void compare_batches(bool turns) {
    enum { SCENES = 4, PILE = 5, STEPS = SHARE > 1 ? 2 : 3 };
    uint64_t rng = 23, contacts = 0;
    struct shape shapes[KINDS];
    struct twin twins[SCENES];
    for (int i = 0; i < KINDS; i++) shapes[i] = shape_of_kind(i, &rng);
    for (int i = 0; i < SCENES; i++) {
        struct placed bodies[PILE];
        double poses[PILE][12];
        for (int k = 0; k < PILE; k++) {
            shape_pose_random(&rng, 0.8, poses[k]);
            bodies[k] = (struct placed){&shapes[shape_random(&rng) % KINDS], k == 3 ? NULL : poses[k],
                                        k == 3 ? CT_BODY_DEFORMABLE : CT_BODY_RIGID};
        }
        ct_scene_settings settings = ebpi(i == 2 ? 1e-15 : coarser(0.1), i == 1 ? 0.1 : 0, i & 1,
                                          i == 3 ? CT_ALLOCATION_PUBLISHED : CT_ALLOCATION_OPTIMAL);
        settings.optimize_directions = turns && i != 1;
        twins[i] = twin_open(&settings, bodies, i == 1 ? 2 : PILE);
    }
    for (int step = 0; step < STEPS; step++) {
        ct_update moves[SCENES][2];
        const ct_update *updates[SCENES];
        size_t n_updates[SCENES];
        for (int i = 0; i < SCENES; i++) {
            updates[i] = moves[i];
            n_updates[i] = i == 1 && step ? 1 : (size_t)step;
            for (int k = 0; k < 2; k++) {
                moves[i][k] = (ct_update){.kind = CT_UPDATE_POSE, .body = twins[i].of[0].body[k]};
                shape_pose_random(&rng, 0.5, moves[i][k].pose);
            }
        }
        contacts += compare("batch", twins, updates, n_updates, SCENES, step ? WANTED : CT_WANT_FRAME);
    }
    assert_true(contacts > (SHARE > 1 ? 10 : 20));
    for (int i = 0; i < SCENES; i++) twin_close(&twins[i]);
    for (int i = 0; i < KINDS; i++) shape_free(&shapes[i]);
}

static void test_batches(void **state) {
    (void)state;
    if (SHARE == 1) compare_batches(false);
    compare_batches(true);
}

/* Turned views have other volumes than views along the world's axes, and gradients that add up to exactly 0. */
static void expect_turned(const ct_scene_settings *settings, struct stage *stage) {
    double volumes[2][3], sum[3] = {0, 0, 0};
    ct_scene_settings straight = *settings;
    straight.optimize_directions = false;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ct_scene_configure(stage->scene, i ? settings : &straight, NULL), CT_OK);
        ct_result *result = stage_step(stage, NULL, 0, WANTED);
        assert_int_equal(result->n_contacts, 1);
        memcpy(volumes[i], result->contacts[0].volumes, sizeof volumes[i]);
        for (uint64_t e = 0; i && e < 3 * result->n_entries; e++) sum[e % 3] += result->gradient[e];
        ct_result_free(&result);
    }
    for (int k = 0; k < 3; k++) {
        assert_true(volumes[0][k] != volumes[1][k]);
        assert_true(sum[k] == 0);
    }
}

static void test_turned(void **state) {
    (void)state;
    struct shape box = shape_box(1, 0.8, 0.6);
    double pose[12];
    shape_pose_identity(pose);
    for (int k = 0; k < 3; k++) pose[4 * k + 3] = 0.21;
    for (int strict = 0; strict < 2; strict++)
        for (int deforms = 0; deforms < 2; deforms++) {
            const struct placed boxes[] = {{&box, NULL, deforms ? CT_BODY_DEFORMABLE : CT_BODY_RIGID},
                                           {&box, pose, CT_BODY_RIGID}};
            ct_scene_settings settings = ebpi(0, coarser(0.05), strict, CT_ALLOCATION_OPTIMAL);
            settings.optimize_directions = true;
            settings.max_points = 4;
            struct stage stage = stage_open(engines[1], &settings, boxes, 2);
            expect_turned(&settings, &stage);
            stage_close(&stage);
            assert_int_equal(compare_once("turned boxes", &settings, boxes, 2, WANTED), 1);
            settings.tolerance_rel = coarser(0.1);
            settings.allocation = deforms ? CT_ALLOCATION_PUBLISHED : CT_ALLOCATION_OPTIMAL;
            compare_random_pairs(29 + (uint64_t)deforms, 4, &settings, 2);
        }
    shape_free(&box);
}

/* A step's tolerance makes a scene that chooses for itself run this method; other methods run in between. */
static void test_chosen_by_a_step(void **state) {
    (void)state;
    struct shape blob = shape_blob(0.7, 3, 0.5, 4), ball = shape_icosphere(0.5, 3);
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.6;
    const struct placed bodies[] = {{&blob, NULL, 0}, {&ball, pose, 0}};
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    struct twin twin = twin_open(&settings, bodies, 2);
    for (int i = 0; i < 4; i++) {
        char hex[2][33];
        for (int e = 0; e < 2; e++) {
            ct_step step = {.scene = twin.of[e].scene, .want = CT_WANT_GRADIENT, .tolerance = i % 2 ? 0.01 : 0};
            ct_engine_run(engines[e], &step, 1);
            assert_int_equal(step.error.status, CT_OK);
            assert_int_equal(step.result->method == CT_METHOD_EBPI, i % 2);
            stage_hash(step.result, hex[e]);
            ct_result_free(&step.result);
        }
        assert_string_equal(hex[0], hex[1]);
    }
    twin_close(&twin);
    shape_free(&blob);
    shape_free(&ball);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published), cmocka_unit_test(test_strict), cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_budgets),   cmocka_unit_test(test_ties),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_batches),   cmocka_unit_test(test_turned), cmocka_unit_test(test_chosen_by_a_step),
    };
    static const char *const rasterizers[] = {"native"};
    return twin_run_on_backends(tests, sizeof tests / sizeof *tests, rasterizers, 1);
}
