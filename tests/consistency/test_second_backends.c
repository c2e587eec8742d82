/* test_second_backends.c - every backend that has the method `exact` computes the CPU's bits of what few steps want:
 * products with the second derivative, and the inertia of the intersection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/consistency/twin.h"
#include "tests/scenes/build.h"

enum { MOST_BODIES = 6 };

/* Directions of all bodies of a scene but those that `left_out` names, and their values. */
struct directions {
    ct_direction parts[MOST_BODIES * CT_MAX_DIRECTIONS];
    size_t n;
    double *values[MOST_BODIES];
};

static struct directions random_directions(const struct stage *stage, const struct placed *bodies,
                                           uint32_t n_directions, uint64_t *rng) {
    struct directions d = {.n = 0};
    for (int b = 0; b < stage->n; b++) {
        const bool is_soft = bodies[b].kind == CT_BODY_DEFORMABLE;
        const uint64_t vertices = is_soft ? bodies[b].shape->n_vertices : 1;
        d.values[b] = shape_alloc(vertices, 3 * sizeof(double));
        for (uint64_t i = 0; i < 3 * vertices; i++) d.values[b][i] = shape_uniform(rng, -1, 1);
        for (uint32_t k = 0; k < n_directions; k++) {
            if ((k + (uint32_t)b) % 4 == 3) continue; /* it does not move along this one */
            ct_direction *part = &d.parts[d.n++];
            *part = (ct_direction){.body = stage->body[b], .index = k};
            if (is_soft) {
                part->values = d.values[b];
                part->dtype = CT_F64;
                part->count = vertices;
            } else {
                for (int i = 0; i < 6; i++) part->twist[i] = shape_uniform(rng, -1, 1);
            }
        }
    }
    return d;
}

static void free_directions(struct directions *d) {
    for (int b = 0; b < MOST_BODIES; b++) free(d->values[b]);
}

static void assert_same_second(const ct_result *a, const ct_result *b) {
    assert_int_equal(a->n_contacts, b->n_contacts);
    assert_int_equal(a->n_directions, b->n_directions);
    assert_int_equal(a->n_products, b->n_products);
    for (size_t i = 0; i < a->n_contacts; i++) {
        const ct_contact *c = &a->contacts[i], *d = &b->contacts[i];
        assert_memory_equal(c->inertia, d->inertia, sizeof c->inertia);
        assert_memory_equal(c->first_product, d->first_product, sizeof c->first_product);
        assert_memory_equal(c->count_product, d->count_product, sizeof c->count_product);
        assert_true(c->volume == d->volume && c->area == d->area);
        assert_memory_equal(c->center, d->center, sizeof c->center);
    }
    if (!a->n_directions) return;
    if (a->n_products) {
        assert_memory_equal(a->product_vertices, b->product_vertices, a->n_products * sizeof *a->product_vertices);
        assert_memory_equal(a->products, b->products, a->n_products * a->n_directions * 3 * sizeof *a->products);
    }
    assert_memory_equal(a->generalized_product, b->generalized_product,
                        a->n_contacts * a->n_directions * 12 * sizeof *a->generalized_product);
}

/* One batch of n scenes, of which scene i has n_directions[i]. Returns the products and inertias that are not 0. */
static uint64_t compare_second(struct twin *twins, struct placed (*bodies)[MOST_BODIES], const uint32_t *n_directions,
                               size_t n, uint32_t want) {
    enum { MOST = 8 };
    ct_step steps[2][MOST];
    struct directions directions[MOST];
    uint64_t rng = 5, found = 0;
    memset(steps, 0, sizeof steps);
    for (size_t i = 0; i < n; i++) {
        directions[i] = random_directions(&twins[i].of[0], bodies[i], n_directions[i], &rng);
        for (int e = 0; e < 2; e++)
            steps[e][i] = (ct_step){.scene = twins[i].of[e].scene,
                                    .want = want,
                                    .directions = n_directions[i] ? directions[i].parts : NULL,
                                    .n_directions = n_directions[i] ? directions[i].n : 0};
    }
    for (int e = 0; e < 2; e++) ct_engine_run(engines[e], steps[e], n);
    for (size_t i = 0; i < n; i++) {
        for (int e = 0; e < 2; e++)
            if (steps[e][i].error.status) fail_msg("engine %d: %s", e, steps[e][i].error.message);
        assert_same_second(steps[0][i].result, steps[1][i].result);
        found += steps[0][i].result->n_products;
        for (size_t c = 0; c < steps[0][i].result->n_contacts; c++)
            found += steps[0][i].result->contacts[c].inertia[0][0] != 0;
        for (int e = 0; e < 2; e++) ct_result_free(&steps[e][i].result);
        free_directions(&directions[i]);
    }
    return found;
}

static uint64_t compare_pair(const struct placed a, const struct placed b, uint32_t n_directions, uint32_t want) {
    const ct_scene_settings settings = stage_exact();
    struct placed bodies[1][MOST_BODIES] = {{a, b}};
    struct twin twin = twin_open(&settings, bodies[0], 2);
    const uint64_t found = compare_second(&twin, bodies, &n_directions, 1, want);
    twin_close(&twin);
    return found;
}

static const uint32_t wants[] = {CT_WANT_INERTIA, CT_WANT_ALL | CT_WANT_INERTIA, 0, CT_WANT_GRADIENT};

static void test_random_pairs(void **state) {
    (void)state;
    struct shape shapes[] = {shape_box(1.2, 1, 0.7), shape_blob(0.8, 3, 0.4, 2), shape_torus(0.8, 0.35, 40, 20),
                             shape_tetrahedron(1.4), shape_cube(1.3, 6)};
    uint64_t rng = 41;
    int found = 0;
    for (int round = 0; round < 32; round++) {
        double pose[2][12];
        for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.4, pose[k]);
        const struct placed a = {&shapes[round % 5], pose[0], round % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE},
                            b = {&shapes[round / 5 % 5], pose[1], round % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
        found += compare_pair(a, b, (uint32_t[]){0, 1, 3, CT_MAX_DIRECTIONS}[round % 4], wants[round / 4 % 4]) > 0;
    }
    assert_true(found > 20);
    for (int i = 0; i < 5; i++) shape_free(&shapes[i]);
}

/* Coincident faces: both passes. */
static void test_ties(void **state) {
    (void)state;
    struct shape cube = shape_cube(1, 5), box = shape_box(1, 1, 1);
    int found = 0;
    for (int i = 0; i < 8; i++) {
        double pose[12];
        shape_pose_identity(pose);
        pose[3] = i % 2 * 0.5, pose[7] = i / 2 % 2 * 0.25, pose[11] = i / 4 * 0.5;
        found += compare_pair((struct placed){&cube, NULL, i % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE},
                              (struct placed){i % 2 ? &box : &cube, pose, 0}, 4, wants[i % 2]) > 0;
    }
    assert_int_equal(found, 8);
    shape_free(&cube);
    shape_free(&box);
}

/* A half-space moves by a twist, and has no products of its own. */
static void test_half_spaces(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 3);
    for (int i = 0; i < 4; i++) {
        double plane[12];
        assert_int_equal(ct_plane_pose((const double[]){0.1 * i, 0.3, 1}, 0.4 - 0.2 * i, plane, NULL), CT_OK);
        const struct placed body = {&ball, NULL, i / 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE}, below = {.pose = plane};
        assert_true(compare_pair(i % 2 ? body : below, i % 2 ? below : body, 5, wants[1]) > 100);
    }
    shape_free(&ball);
}

/* Scenes of several bodies in a batch, some of which want nothing of it. */
static void test_batches(void **state) {
    (void)state;
    enum { N = 6 };
    uint64_t rng = 3;
    struct shape shapes[] = {shape_icosphere(0.6, 2), shape_box(0.9, 0.8, 1), shape_blob(0.7, 3, 0.3, 7)};
    struct placed bodies[N][MOST_BODIES];
    double poses[N][MOST_BODIES][12];
    struct twin twins[N];
    const uint32_t n_directions[N] = {2, 0, 12, 1, 0, 6};
    const ct_scene_settings settings = stage_exact();
    for (int i = 0; i < N; i++) {
        const int n = i == 3 ? 1 : MOST_BODIES - i % 3;
        memset(bodies[i], 0, sizeof bodies[i]);
        for (int b = 0; b < n; b++) {
            shape_pose_random(&rng, 0.5, poses[i][b]);
            bodies[i][b] =
                (struct placed){&shapes[b % 3], poses[i][b], (b + i) % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
        }
        twins[i] = twin_open(&settings, bodies[i], n);
    }
    assert_true(compare_second(twins, bodies, n_directions, N, CT_WANT_GRADIENT) > 1000);
    assert_true(compare_second(twins, bodies, n_directions, N, CT_WANT_INERTIA) > 1000);
    assert_int_equal(compare_second(twins + 1, bodies + 1, n_directions + 1, 1, 0), 0);
    for (int i = 0; i < N; i++) twin_close(&twins[i]);
    for (int i = 0; i < 3; i++) shape_free(&shapes[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_pairs),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_half_spaces),
        cmocka_unit_test(test_batches),
    };
    static const char *const rasterizers[] = {"native"};
    return twin_run_on_backends(tests, sizeof tests / sizeof *tests, rasterizers, 1);
}
