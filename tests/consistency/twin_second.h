/* twin_second.h - products with the second derivative, and inertia, of the same scenes on two engines: what twin.h does
 * not compare. */
#ifndef CONSISTENCY_TWIN_SECOND_H
#define CONSISTENCY_TWIN_SECOND_H

#include "tests/consistency/twin.h"
#include "tests/scenes/build.h"

enum { MOST_BODIES = 6 }; /* of a scene */

/* Directions of all bodies of a scene but those that `left_out` names, and their values. */
struct directions {
    ct_direction parts[MOST_BODIES * CT_MAX_DIRECTIONS];
    size_t n;
    double *values[MOST_BODIES];
};

static inline struct directions random_directions(const struct stage *stage, const struct placed *bodies,
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

static inline void free_directions(struct directions *d) {
    for (int b = 0; b < MOST_BODIES; b++) free(d->values[b]);
}

static inline void assert_same_second(const ct_result *a, const ct_result *b) {
    assert_int_equal(a->n_contacts, b->n_contacts);
    assert_int_equal(a->n_directions, b->n_directions);
    assert_int_equal(a->n_products, b->n_products);
    for (size_t i = 0; i < a->n_contacts; i++) {
        const ct_contact *c = &a->contacts[i], *d = &b->contacts[i];
        assert_memory_equal(c->inertia, d->inertia, sizeof c->inertia);
        assert_memory_equal(c->linear_pressure, d->linear_pressure, sizeof c->linear_pressure);
        assert_memory_equal(c->plane_moments, d->plane_moments, sizeof c->plane_moments);
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
static inline uint64_t compare_second(struct twin *twins, struct placed (*bodies)[MOST_BODIES],
                                      const uint32_t *n_directions, size_t n, uint32_t want) {
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

#endif
