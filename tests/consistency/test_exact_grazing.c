/* test_exact_grazing.c - the bound of the method `exact` where much of one surface lies within two units of its lattice
 * off the other one: roofs, points and combs of both that graze a huge face. Moving vertices to the lattice lifts them
 * off the face or sinks them into it, by more than all of the rest of the contact is wrong. Truth is a closed form in
 * extended precision, from integer coordinates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tests/consistency/engine.h"
#include "tests/consistency/grazing.h"

/* ---- cases ---- */

static ct_result *run(const struct placed *bodies, int n) {
    const ct_scene_settings settings = stage_exact();
    return stage_once(engine, &settings, bodies, n, CT_WANT_GRADIENT);
}

struct tally {
    int contacts;
    double worst; /* error / bound */
};

static void check(const char *what, const ct_result *result, real truth, struct tally *tally) {
    assert_int_equal(result->n_contacts, 1);
    const ct_contact *c = result->contacts;
    const real error = fabsl((real)c->volume - truth);
    if (error > c->error_bound)
        fail_msg("%s: volume %.17g, truth %.17Lg: off by %.3Lg, bound %.3g", what, c->volume, truth, error,
                 c->error_bound);
    tally->contacts++;
    tally->worst = fmax(tally->worst, (double)error / c->error_bound);
}

static void print_tally(const char *what, const struct tally *tally) {
    print_message("%-24s %3d contacts, error / bound at most %.2g\n", what, tally->contacts, tally->worst);
}

/* Shifts, in units, that are rounded to whole ones: the heights of the teeth change from .sum to .rounded. */
static const double shifts[][3] = {
    {0.51, -0.45, -0.45}, {0.51, -0.3, -0.3}, {0.51, 0.51, -0.49},   {-0.51, 0.45, 0.45},
    {0.49, -0.3, -0.3},   {0.3, 0.2, 0.1},    {-0.49, -0.49, -0.49}, {0.5, 0.5, 0.5},
    {1.51, -0.45, -1.45}, {0, 0, 0},          {-1.3, -0.2, 0.51},    {0.25, 0.125, -0.5}};

/* The comb shifted by parts of units. The first shifts lift teeth off the face that they were in. */
static void test_lifted(void **state) {
    (void)state;
    struct tally tally = {0};
    struct shape ground = make_ground(&tilted);
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++)
        for (int ridges = 0; ridges < 2; ridges++)
            for (int deforms = 0; deforms < 2; deforms++)
                for (int64_t rise = 5ll << 12; rise <= 5ll << 20; rise <<= 4) {
                    real sum = 0;
                    double pose[12];
                    shape_pose_identity(pose);
                    for (int k = 0; k < 3; k++) {
                        pose[4 * k + 3] = shifts[i][k] * unit;
                        sum += (real)pose[4 * k + 3] / (real)unit;
                    }
                    struct comb comb = make_comb(&tilted, 0, rise, ridges, (struct offset){sum, 0}, 1ll << 24);
                    const struct placed bodies[2] = {{&ground, NULL, deforms ? CT_BODY_DEFORMABLE : CT_BODY_RIGID},
                                                     {&comb.shape, pose, CT_BODY_RIGID}};
                    ct_result *result = run(bodies, 2);
                    check("lifted", result, comb.below, &tally);
                    ct_result_free(&result);
                    shape_free(&comb.shape);
                }
    print_tally("lifted", &tally);
    shape_free(&ground);
}

/* det R, in extended precision: by how much a pose changes volumes. */
static real scale_of(const double pose[12]) {
    real det = 0;
    for (int k = 0; k < 3; k++)
        det += (real)pose[k] * ((real)pose[4 + (k + 1) % 3] * pose[8 + (k + 2) % 3] -
                                (real)pose[4 + (k + 2) % 3] * pose[8 + (k + 1) % 3]);
    return det;
}

enum { TURNS = 20 };

/* Both bodies turned together: each vertex is rounded in its own way, so some teeth come off the face and others sink
 * into it, from up to two units above to two units below. */
static void test_turned(void **state) {
    (void)state;
    uint64_t rng = 1;
    struct tally tally = {0};
    for (int i = 0; i < TURNS; i++) {
        double pose[12];
        shape_pose_random(&rng, 0, pose); /* in the origin, where a shift by parts of units is exact */
        for (int halves = -4; halves <= 4; halves++)
            for (int kind = 0; kind < 4; kind++) {
                const double dip = 0.5 * halves;
                const struct frame *f = kind < 2 ? &level : &tilted;
                const real size = kind < 2 ? 1 : 3;
                double moved[12];
                memcpy(moved, pose, sizeof moved);
                for (int k = 0; k < 3; k++) {
                    const double *row = pose + 4 * k;
                    moved[4 * k + 3] += (row[2] + (kind < 2 ? 0 : row[0] + row[1])) * dip * unit;
                }
                struct shape ground = make_ground(f);
                struct comb comb =
                    make_comb(f, 0, 5ll << 12 << 3 * (i % 3), kind % 2, (struct offset){size * dip, 0}, 1ll << 26);
                ct_result *result =
                    run((struct placed[]){{&ground, pose, CT_BODY_RIGID}, {&comb.shape, moved, CT_BODY_RIGID}}, 2);
                check("turned", result, comb.below * scale_of(pose), &tally);
                ct_result_free(&result);
                shape_free(&ground), shape_free(&comb.shape);
            }
    }
    print_tally("turned", &tally);
}

/* Deformable bodies have float32 positions, of which only those near 0 lie beside the lattice; as two bodies, and as
 * one that meets itself. */
static void test_deformable(void **state) {
    (void)state;
    struct tally of_pair = {0}, of_self = {0};
    for (int64_t dip = -2; dip <= 2; dip++)
        for (int kind = 0; kind < (dip ? 2 : 4); kind++)
            for (int eighths = -4; eighths <= 4; eighths++) {
                const struct frame *f = kind < 2 ? &level : &tilted;
                const struct offset offset = {0, kind < 2 ? eighths / 8.0 : 0};
                struct shape ground = make_ground(f);
                struct comb comb = make_comb(f, dip, 5ll << 12, kind % 2, offset, 1ll << 26);
                struct shape both = shape_merge(&ground, &comb.shape);
                ct_result *pair = run(
                    (struct placed[]){{&ground, NULL, CT_BODY_DEFORMABLE}, {&comb.shape, NULL, CT_BODY_DEFORMABLE}}, 2);
                check("deformable", pair, comb.below, &of_pair);
                ct_result *self = run((struct placed[]){{&both, NULL, CT_BODY_DEFORMABLE, .self_contact = 1}}, 1);
                check("deformable, itself", self, comb.below, &of_self);
                ct_result_free(&pair), ct_result_free(&self);
                shape_free(&ground), shape_free(&comb.shape), shape_free(&both);
            }
    print_tally("deformable", &of_pair);
    print_tally("deformable, itself", &of_self);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lifted),
        cmocka_unit_test(test_turned),
        cmocka_unit_test(test_deformable),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
