/* test_ebpi.c - the method `ebpi` against the method `exact`: the error of every volume is within the bound that comes
 * with it, the bound within the tolerance or the reason given, and no intersection is missed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/ebpi_pairs.h"
#include "tests/consistency/engine.h"

#ifdef __SANITIZE_ADDRESS__ /* under which all of them take minutes */
enum { PAIRS = 12, PAIRS_OF_BITS = 8 };
#else
enum { PAIRS = 30, PAIRS_OF_BITS = 16 };
#endif

struct tally {
    int pairs, contacts, missed, violated, ended[4];
    double worst, rays, ratio, estimate_held;
};

static void check_pair(const struct shape *a, const double *pose_a, const struct shape *b, const double *pose_b,
                       const ct_scene_settings *settings, struct tally *tally) {
    const ct_scene_settings exact = stage_exact();
    const struct placed bodies[] = {{a, pose_a, CT_BODY_RIGID}, {b, pose_b, CT_BODY_RIGID}};
    ct_result *truth = stage_once(engine, &exact, bodies, 2, CT_WANT_FRAME);
    ct_result *result = stage_once(engine, settings, bodies, 2, CT_WANT_ALL);
    const double volume = truth->n_contacts ? truth->contacts[0].volume : 0;
    const double slack = truth->n_contacts ? truth->contacts[0].error_bound : 0;
    tally->pairs++;
    tally->ended[result->ended]++;
    tally->rays += (double)result->rays;
    if (result->n_contacts) {
        const ct_contact *c = result->contacts;
        const double error = fabs(c->volume - volume), bound = c->error_bound + slack;
        tally->contacts++;
        for (int w = 0; w < 3; w++) { /* each view's, and the mean's, which is that of weights inverse to them */
            if (settings->strict) assert_true(fabs(c->volumes[w] - volume) <= c->error_bounds[w] + slack);
            assert_true(c->error_bound <= 3 * c->error_bounds[w] && c->error_bounds[w] > 0);
        }
        const double mean = 3 / (1 / c->error_bounds[0] + 1 / c->error_bounds[1] + 1 / c->error_bounds[2]);
        assert_true(fabs(c->error_bound - mean) <= 1e-12 * mean);
        if (error > bound) {
            tally->violated++;
            print_message("violated: volume %.9g, exact %.9g, off by %.3g, bound %.3g\n", c->volume, volume, error,
                          c->error_bound);
        }
        tally->worst = fmax(tally->worst, error / bound);
        tally->ratio += error / bound;
        tally->estimate_held += error <= c->error_estimate + slack;
        if (result->ended == CT_ENDED_COMPLETED)
            assert_true(c->error_bound <= fmax(settings->tolerance, settings->tolerance_rel * c->volume));
    } else if (result->ended == CT_ENDED_COMPLETED && volume > settings->tolerance + slack) {
        tally->missed++;
        print_message("missed: exact %.9g\n", volume);
    }
    ct_result_free(&truth);
    ct_result_free(&result);
}

static void print_tally(const char *name, const struct tally *t) {
    print_message("%-24s %4d pairs, %4d in contact; %d violated, %d missed; error / bound: worst %.3f, mean %.4f; "
                  "estimate held %.1f %%; %.0f rays a pair; ended %d %d %d %d\n",
                  name, t->pairs, t->contacts, t->violated, t->missed, t->worst, t->ratio / t->contacts,
                  100 * t->estimate_held / t->contacts, t->rays / t->pairs, t->ended[0], t->ended[1], t->ended[2],
                  t->ended[3]);
}

/* $EBPI_PAIRS: pairs of each tolerance. */
static int pairs_to_check(void) {
    const char *text = getenv("EBPI_PAIRS");
    return text ? atoi(text) : PAIRS;
}

static void check_random_pairs(const char *name, const ct_scene_settings *settings, uint64_t seed, struct tally *t) {
    uint64_t rng = seed;
    for (int i = 0; i < pairs_to_check(); i++) {
        struct random_pair pair = random_pair(&rng, i % 2 ? 0.3 : 0.8, i % 10 == 9);
        check_pair(&pair.shape[0], pair.pose[0], &pair.shape[1], pair.pose[1], settings, t);
        random_pair_free(&pair);
    }
    print_tally(name, t);
}

static void test_random_pairs_strict(void **state) {
    (void)state;
    const double tolerances[] = {1e-1, 1e-2, 1e-3};
    for (int i = 0; i < 3; i++) {
        struct tally t = {0};
        ct_scene_settings settings = ebpi_settings(tolerances[i], 0, true);
        check_random_pairs("strict", &settings, 11 + (uint64_t)i, &t);
        assert_int_equal(t.violated, 0);
        assert_int_equal(t.missed, 0);
    }
    struct tally t = {0};
    ct_scene_settings settings = ebpi_settings(0, 0.05, true);
    check_random_pairs("strict, relative", &settings, 17, &t);
    assert_int_equal(t.violated, 0);
}

/* Views along axes of their own: the same bounds hold. */
static void test_turned_views_strict(void **state) {
    (void)state;
    const double tolerances[] = {1e-1, 1e-2, 1e-3};
    for (int i = 0; i < 3; i++) {
        struct tally t = {0};
        ct_scene_settings settings = ebpi_settings(tolerances[i], 0, true);
        settings.optimize_directions = true;
        check_random_pairs("strict, turned views", &settings, 11 + (uint64_t)i, &t);
        assert_int_equal(t.violated, 0);
        assert_int_equal(t.missed, 0);
        assert_true(t.contacts > pairs_to_check() / 2);
    }
}

/* Measured: nothing is proven. Along the axes, then along axes of their own. */
static void test_random_pairs_published(void **state) {
    (void)state;
    const double tolerances[] = {1e-1, 1e-2, 1e-3};
    for (int i = 0; i < 6; i++) {
        struct tally t = {0};
        ct_scene_settings settings = ebpi_settings(tolerances[i % 3], 0, false);
        settings.optimize_directions = i >= 3;
        check_random_pairs(i < 3 ? "published" : "published, turned views", &settings, 11 + (uint64_t)i % 3, &t);
        assert_true(t.contacts > pairs_to_check() / 2);
        assert_true(t.violated <= t.contacts / 20);
    }
}

/* ---- allocations ---- */

static ct_result *answer_with(const struct placed *bodies, ct_scene_settings settings, ct_allocation allocation) {
    settings.allocation = allocation;
    return stage_once(engine, &settings, bodies, 2, CT_WANT_FRAME);
}

/* Each allocation keeps its bound; the optimal one takes a few rays of what equal parts take. */
static void test_allocations(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct tally t = {0};
        ct_scene_settings settings = ebpi_settings(i == 1 ? 0 : 1e-2, i == 1 ? 0.1 : 0, true);
        settings.allocation = i == 2 ? CT_ALLOCATION_PER_PIXEL : CT_ALLOCATION_PUBLISHED;
        settings.optimize_directions = i == 0;
        check_random_pairs(ct_allocation_name(settings.allocation), &settings, 11 + (uint64_t)i, &t);
        assert_int_equal(t.violated, 0);
        assert_int_equal(t.missed, 0);
        assert_true(t.ended[CT_ENDED_COMPLETED] > t.pairs / 2);
    }
    struct shape a = shape_icosphere(1, 3), b = shape_icosphere(1, 3);
    double pose[2][12];
    for (int k = 0; k < 2; k++) shape_pose_identity(pose[k]);
    pose[1][3] = 0.3, pose[1][7] = 0.5, pose[1][11] = 0.7;
    const struct placed bodies[] = {{&a, pose[0], CT_BODY_RIGID}, {&b, pose[1], CT_BODY_RIGID}};
    const ct_scene_settings settings = ebpi_settings(0, 0.02, false);
    uint64_t rays[3];
    for (int k = 0; k < 3; k++) {
        ct_result *result = answer_with(bodies, settings, (ct_allocation)k);
        assert_int_equal(result->ended, CT_ENDED_COMPLETED);
        assert_true(result->contacts[0].error_bound <= 0.02 * result->contacts[0].volume);
        rays[k] = result->rays;
        ct_result_free(&result);
    }
    print_message("rays: optimal %llu, published %llu, per pixel %llu\n", (unsigned long long)rays[0],
                  (unsigned long long)rays[1], (unsigned long long)rays[2]);
    assert_true(4 * rays[0] <= rays[1] && 4 * rays[0] <= rays[2]);
    /* A loose tolerance needs fewer rays than the image has pixels: these are gathered. */
    const ct_scene_settings loose = ebpi_settings(2, 0, false);
    ct_result *gathered = answer_with(bodies, loose, CT_ALLOCATION_PUBLISHED);
    ct_result *fine = answer_with(bodies, loose, CT_ALLOCATION_PER_PIXEL);
    assert_true(2 * gathered->rays <= fine->rays);
    ct_result_free(&gathered);
    ct_result_free(&fine);
    /* Too few rays for equal parts: what there are go where they do most, and the answer says so. */
    ct_scene_settings poor = ebpi_settings(0, 0.001, true);
    poor.ray_budget = 20000;
    for (int k = 0; k < 3; k++) {
        ct_result *result = answer_with(bodies, poor, (ct_allocation)k);
        assert_int_equal(result->ended, CT_ENDED_RAY_BUDGET);
        assert_true(result->rays <= 20000 && result->rays > 15000);
        assert_true(result->contacts[0].error_bound > 0.001 * result->contacts[0].volume);
        ct_result_free(&result);
    }
    shape_free(&a);
    shape_free(&b);
}

/* ---- bits ---- */

struct answer {
    char hash[33];
    double volume, bound, estimate, gradient[2][6];
    uint64_t rays;
    uint32_t passes;
    ct_ended ended;
};

static struct answer answer_of(ct_engine *on, const ct_scene_settings *settings, const struct placed *bodies) {
    struct answer a;
    memset(&a, 0, sizeof a);
    ct_result *result = stage_once(on, settings, bodies, 2, CT_WANT_ALL);
    stage_hash(result, a.hash);
    a.rays = result->rays;
    a.passes = result->passes;
    a.ended = result->ended;
    if (result->n_contacts) {
        const ct_contact *c = result->contacts;
        a.volume = c->volume;
        a.bound = c->error_bound;
        a.estimate = c->error_estimate;
        memcpy(a.gradient, c->generalized_gradient, sizeof a.gradient);
    }
    ct_result_free(&result);
    return a;
}

/* The same bits on any number of threads and by any instruction set; but for the numbers of vertices, also for any
 * order of triangles, vertices and bodies. */
static void test_same_bits(void **state) {
    (void)state;
    uint64_t rng = 5;
    ct_engine *engines[] = {stage_engine(1, "base"), stage_engine(1, NULL), stage_engine(7, NULL),
                            stage_engine(2, "base")};
    int n_found = 0;
    for (int i = 0; i < PAIRS_OF_BITS; i++) {
        struct random_pair pair = random_pair(&rng, 0.2, i % 8 == 0);
        ct_scene_settings settings = ebpi_settings(i % 3 ? 1e-2 : 0, i % 3 ? 0 : 0.05, i % 2);
        settings.optimize_directions = i / 2 % 2;
        settings.allocation = (ct_allocation)(i % 3);
        struct placed bodies[] = {{&pair.shape[0], pair.pose[0], CT_BODY_RIGID},
                                  {&pair.shape[1], pair.pose[1], i % 4 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE}};
        const struct answer first = answer_of(engine, &settings, bodies);
        n_found += first.volume > 0;
        for (int e = 0; e < 4; e++) {
            const struct answer other = answer_of(engines[e], &settings, bodies);
            assert_memory_equal(&first, &other, sizeof first);
        }
        struct shape mixed[2] = {shape_copy(&pair.shape[0]), shape_copy(&pair.shape[1])};
        for (int k = 0; k < 2; k++) shape_shuffle(&mixed[k], &rng);
        bodies[0].shape = &mixed[0];
        bodies[1].shape = &mixed[1];
        struct answer other = answer_of(engine, &settings, bodies);
        memcpy(other.hash, first.hash, sizeof other.hash);
        assert_memory_equal(&first, &other, sizeof first);
        const struct placed swapped[] = {bodies[1], bodies[0]};
        other = answer_of(engine, &settings, swapped);
        assert_true(other.volume == first.volume && other.bound == first.bound && other.rays == first.rays);
        for (int k = 0; k < 6; k++) assert_true(other.gradient[0][k] == first.gradient[1][k]);
        for (int k = 0; k < 2; k++) shape_free(&mixed[k]);
        random_pair_free(&pair);
    }
    assert_true(n_found >= PAIRS_OF_BITS / 2);
    for (int e = 0; e < 4; e++) ct_engine_destroy(&engines[e]);
}

/* ---- what else holds ---- */

/* Gradients sum to 0 to the last bit of the sums, and tend to those of `exact`. */
static void test_gradients(void **state) {
    (void)state;
    uint64_t rng = 3;
    for (int i = 0; i < 12; i++) {
        struct shape a = shape_icosphere(0.6, 3), b = shape_blob(0.7, 3, 0.3, shape_random(&rng));
        double pose[2][12];
        for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.25, pose[k]);
        const struct placed bodies[] = {{&a, pose[0], CT_BODY_RIGID}, {&b, pose[1], CT_BODY_RIGID}};
        const ct_scene_settings settings = ebpi_settings(0, 0.02, true), exact = stage_exact();
        ct_result *result = stage_once(engine, &settings, bodies, 2, CT_WANT_ALL);
        ct_result *truth = stage_once(engine, &exact, bodies, 2, CT_WANT_ALL);
        assert_int_equal(result->n_contacts, 1);
        const ct_contact *c = result->contacts, *t = truth->contacts;
        double sum[3] = {0}, size = 0, off = 0, scale = 0;
        for (uint64_t e = 0; e < result->n_entries; e++)
            for (uint64_t k = 0; k < 3; k++) {
                sum[k] += result->gradient[3 * e + k];
                size += fabs(result->gradient[3 * e + k]);
            }
        for (int k = 0; k < 3; k++) {
            assert_true(fabs(sum[k]) <= 1e-14 * size);
            assert_true(c->generalized_gradient[0][k] == -c->generalized_gradient[1][k]);
            off = fmax(off, fabs(c->generalized_gradient[0][k] - t->generalized_gradient[0][k]));
            scale += fabs(t->generalized_gradient[0][k]);
        }
        assert_true(off <= 0.05 * fmax(scale, c->area));
        assert_true(fabs(c->volume - t->volume) <= c->error_bound);
        ct_result_free(&result);
        ct_result_free(&truth);
        shape_free(&a);
        shape_free(&b);
    }
}

/* Two boxes along the world's axes, with all faces parallel to its views, so that others are taken. Volume, frame and
 * gradients are those of `exact` in world axes, the gradients sum to exactly 0 in any order, and the answer does not
 * depend on the steps before. */
static void test_turned_views(void **state) {
    (void)state;
    struct shape a = shape_box(1, 0.9, 0.8), b = shape_box(0.7, 0.8, 0.9);
    double pose[2][12];
    for (int k = 0; k < 2; k++) shape_pose_identity(pose[k]);
    pose[1][3] = 0.5;
    pose[1][7] = 0.41;
    pose[1][11] = -0.3;
    const struct placed bodies[] = {{&a, pose[0], CT_BODY_RIGID}, {&b, pose[1], CT_BODY_DEFORMABLE}};
    ct_scene_settings settings = ebpi_settings(0, 0.02, true);
    const ct_scene_settings exact = stage_exact();
    ct_result *straight = stage_once(engine, &settings, bodies, 2, CT_WANT_ALL);
    settings.optimize_directions = true;
    ct_result *turned = stage_once(engine, &settings, bodies, 2, CT_WANT_ALL);
    ct_result *truth = stage_once(engine, &exact, bodies, 2, CT_WANT_ALL);
    assert_int_equal(turned->n_contacts, 1);
    const ct_contact *c = turned->contacts, *t = truth->contacts;
    assert_true(c->error_bound <= 0.02 * c->volume && turned->ended == CT_ENDED_COMPLETED);
    assert_true(c->volumes[0] != straight->contacts[0].volumes[0] && turned->rays != straight->rays);
    assert_true(fabs(c->volume - t->volume) <= c->error_bound + t->error_bound);
    double up[3] = {0}, down[3] = {0};
    for (uint64_t e = 0; e < turned->n_entries; e++)
        for (uint64_t k = 0; k < 3; k++) {
            up[k] += turned->gradient[3 * e + k];
            down[k] += turned->gradient[3 * (turned->n_entries - 1 - e) + k];
        }
    for (int k = 0; k < 3; k++) {
        assert_true(up[k] == 0 && down[k] == 0);
        assert_true(c->generalized_gradient[0][k] == -c->generalized_gradient[1][k]);
        assert_float_equal(c->normal[k], t->normal[k], 0.05);
        assert_float_equal(c->center[k], t->center[k], 0.05);
        assert_float_equal(c->side_center[0][k], t->side_center[0][k], 0.05);
    }
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < 6; k++)
            assert_float_equal(c->generalized_gradient[s][k], t->generalized_gradient[s][k], 0.02);
    assert_true(fabs(c->area - t->area) < 0.05 * t->area);
    for (uint64_t e = 0; e < turned->n_entries; e++)
        for (uint64_t k = 0; k < 3; k++) {
            const double force = -settings.stiffness * c->volume * turned->gradient[3 * e + k];
            assert_true(fabs(turned->forces[3 * e + k] - force) <= 1e-12 * c->volume * c->area);
        }
    ct_result_free(&straight);
    ct_result_free(&turned);
    ct_result_free(&truth);
    shape_free(&a);
    shape_free(&b);
}

/* Contacts that a ray rarely meets: a needle's tip, a thin plate's edge, far from the origin too. */
static void test_thin_contacts(void **state) {
    (void)state;
    uint64_t rng = 9;
    struct shape needle = shape_box(0.004, 0.003, 1), plate = shape_box(1, 1, 0.002), block = shape_cube(0.8, 3);
    struct tally t = {0};
    const ct_scene_settings settings = ebpi_settings(1e-7, 0, true);
    for (int i = 0; i < 60; i++) {
        double pose[2][12];
        for (int k = 0; k < 2; k++) {
            shape_pose_random(&rng, 0.5, pose[k]);
            if (i % 3 == 2)
                for (int j = 0; j < 3; j++) pose[k][4 * j + 3] += 1000;
        }
        check_pair(i % 2 ? &needle : &plate, pose[0], i % 4 < 2 ? &block : &plate, pose[1], &settings, &t);
    }
    print_tally("thin, strict", &t);
    assert_int_equal(t.violated, 0);
    assert_int_equal(t.missed, 0);
    assert_true(t.contacts > 20);
    shape_free(&needle);
    shape_free(&plate);
    shape_free(&block);
}

/* Of a tolerance and a fraction of the volume the larger counts: one that is too small to be reached asks for nothing. */
static void test_both_tolerances(void **state) {
    (void)state;
    struct shape floor = shape_box(100, 100, 1), cube = shape_box(0.01, 0.01, 0.01);
    double high[12];
    shape_pose_identity(high);
    high[11] = 0.5 + 0.0045;
    const struct placed bodies[] = {{&floor, NULL, 0, 0}, {&cube, high, 0, 0}};
    const ct_scene_settings both = ebpi_settings(1e-9, 0.01, true), relative = ebpi_settings(0, 0.01, true);
    ct_result *r[2] = {stage_once(engine, &both, bodies, 2, CT_WANT_FRAME),
                       stage_once(engine, &relative, bodies, 2, CT_WANT_FRAME)};
    assert_int_equal(r[0]->n_contacts, 1);
    assert_memory_equal(&r[0]->contacts[0].volume, &r[1]->contacts[0].volume, sizeof(double));
    for (int i = 0; i < 2; i++) ct_result_free(&r[i]);
    shape_free(&floor);
    shape_free(&cube);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_pairs_strict), cmocka_unit_test(test_random_pairs_published),
        cmocka_unit_test(test_same_bits),           cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_thin_contacts),       cmocka_unit_test(test_turned_views_strict),
        cmocka_unit_test(test_turned_views),        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_both_tolerances),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
