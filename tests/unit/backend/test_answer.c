/* test_answer.c - a step's answer: exactly the requested arrays, each contact's part of them, spans that add up to the
 * volumes, and the stiffness product. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

static ct_engine *engine;

/* Three balls in a row: two contacts. */
static struct stage open_row(uint32_t resolution) {
    struct shape ball = shape_icosphere(0.6, 2);
    double poses[3][12];
    struct placed placed[3];
    for (int i = 0; i < 3; i++) {
        shape_pose_identity(poses[i]);
        poses[i][3] = i;
        poses[i][7] = 0.1 * i * i;
        placed[i] = (struct placed){&ball, poses[i], i == 1 ? CT_BODY_DEFORMABLE : CT_BODY_RIGID};
    }
    ct_scene_settings settings = stage_resolution(resolution);
    settings.stiffness = 3;
    struct stage stage = stage_open(engine, &settings, placed, 3);
    shape_free(&ball);
    return stage;
}

static void test_only_what_was_asked_for(void **state) {
    (void)state;
    struct stage stage = open_row(20);
    ct_result *all = stage_step(&stage, NULL, 0, CT_WANT_ALL | CT_WANT_SPANS);
    assert_int_equal(all->n_contacts, 2);
    assert_true(all->n_entries > 20 && all->n_spans > 100);
    uint64_t n = all->n_entries;
    for (uint32_t want = 0; want < 32; want++) {
        ct_result *r = stage_step(&stage, NULL, 0, want);
        assert_int_equal(r->want, want & CT_WANT_FRICTION ? want | CT_WANT_FRAME : want);
        assert_int_equal(r->method, CT_METHOD_LDI);
        assert_int_equal(r->pairs, 2);
        assert_int_equal(r->rays, 2 * 3 * 20 * 20);
        assert_int_equal(r->fragments, all->fragments);
        bool gradient = want & CT_WANT_GRADIENT, weights = want & CT_WANT_FRICTION, forces = want & CT_WANT_FORCES;
        bool sparse = gradient || weights || forces, framed = sparse || want & CT_WANT_FRAME;
        assert_int_equal(r->n_entries, sparse ? n : 0);
        assert_int_equal(r->vertices != NULL, sparse);
        assert_int_equal(r->gradient != NULL, gradient);
        assert_int_equal(r->weights != NULL, weights);
        assert_int_equal(r->forces != NULL, forces);
        assert_int_equal(r->spans != NULL, (want & CT_WANT_SPANS) != 0);
        assert_int_equal(r->n_spans, want & CT_WANT_SPANS ? all->n_spans : 0);
        if (sparse) assert_memory_equal(r->vertices, all->vertices, n * sizeof *r->vertices);
        if (gradient) assert_memory_equal(r->gradient, all->gradient, 3 * n * sizeof *r->gradient);
        if (weights) assert_memory_equal(r->weights, all->weights, n * sizeof *r->weights);
        if (forces) assert_memory_equal(r->forces, all->forces, 3 * n * sizeof *r->forces);
        for (size_t i = 0; i < 2; i++) {
            const ct_contact *c = &r->contacts[i], *a = &all->contacts[i];
            assert_memory_equal(c->body, a->body, sizeof c->body);
            assert_memory_equal(c->volumes, a->volumes, sizeof c->volumes);
            assert_true(c->volume == a->volume && c->error_estimate == a->error_estimate && isnan(c->error_bound));
            if (framed) {
                assert_memory_equal(c->normal, a->normal, sizeof c->normal);
                assert_memory_equal(c->generalized_gradient, a->generalized_gradient, sizeof c->generalized_gradient);
                assert_true(c->area == a->area && c->depth == a->depth);
            } else {
                assert_true(c->area == 0 && c->normal[0] == 0);
            }
            assert_int_equal(c->count[0] != 0, sparse);
            assert_int_equal(c->n_spans != 0, r->spans != NULL);
        }
        ct_result_free(&r);
        assert_null(r);
    }
    ct_result_free(&all);
    ct_result_free(&all);
    stage_close(&stage);
}

/* The contacts' parts follow each other without gaps; each is in rising order of vertex and matches the contact. */
static void test_parts(void **state) {
    (void)state;
    struct stage stage = open_row(33);
    ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_ALL);
    uint64_t next = 0;
    for (size_t i = 0; i < r->n_contacts; i++) {
        const ct_contact *c = &r->contacts[i];
        assert_int_equal(c->body[0], stage.body[i]);
        assert_int_equal(c->body[1], stage.body[i + 1]);
        double all[3] = {0}, push[3] = {0}, positive = 0;
        for (int b = 0; b < 2; b++) {
            assert_int_equal(c->first[b], next);
            next += c->count[b];
            assert_true(c->count[b] > 0);
            for (uint64_t k = c->first[b]; k < next; k++) {
                const double *g = r->gradient + 3 * k;
                assert_true(k == c->first[b] || r->vertices[k] > r->vertices[k - 1]);
                assert_true(r->vertices[k] < 162);
                assert_true(g[0] || g[1] || g[2]);
                double weight = 0;
                for (int a = 0; a < 3; a++) {
                    all[a] += g[a];
                    if (b == 0) push[a] += g[a];
                    weight += c->normal[a] * g[a];
                    assert_true(r->forces[3 * k + (uint64_t)a] == -3 * c->volume * g[a]);
                }
                assert_true(fabs(r->weights[k] - weight) < 1e-15);
                if (weight > 0) positive += weight;
            }
        }
        for (int a = 0; a < 3; a++) {
            assert_true(fabs(all[a]) < 1e-14); /* Newton */
            assert_true(fabs(push[a] - c->generalized_gradient[0][a]) < 1e-14);
        }
        assert_true(c->normal[0] < -0.9); /* body[0] is pushed towards -x */
        assert_true(fabs(c->area - positive) < 1e-12);
        assert_true(fabs(c->depth - c->volume / c->area) < 1e-15);
    }
    assert_int_equal(next, r->n_entries);
    ct_result_free(&r);
    stage_close(&stage);
}

static void test_spans(void **state) {
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        struct stage stage = open_row(24);
        if (mode) {
            ct_scene_settings settings = stage_pixel(0.03);
            assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
        }
        ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_SPANS | CT_WANT_FRAME);
        uint64_t next = 0;
        for (size_t i = 0; i < r->n_contacts; i++) {
            const ct_contact *c = &r->contacts[i];
            ct_body_info info[2];
            double length[3] = {0}, pitch[3], lo[3], hi[3];
            for (int b = 0; b < 2; b++)
                assert_int_equal(ct_scene_body_info(stage.scene, c->body[b], &info[b], NULL), CT_OK);
            for (int a = 0; a < 3; a++) {
                lo[a] = fmax(info[0].lo[a], info[1].lo[a]);
                hi[a] = fmin(info[0].hi[a], info[1].hi[a]);
                pitch[a] = mode ? 0.03 : (hi[a] - lo[a]) / 24;
            }
            assert_int_equal(c->first_span, next);
            next += c->n_spans;
            uint32_t by_body[2] = {0, 0};
            for (uint64_t k = c->first_span; k < next; k++) {
                const ct_span *s = &r->spans[k];
                assert_true(s->axis < 3 && s->lower_body < 2);
                by_body[s->lower_body] += s->axis == 0;
                for (uint32_t a = 0; a < 3; a++) {
                    if (a == s->axis) continue;
                    assert_true(s->lower[a] == s->upper[a]);
                    double sample = (s->lower[a] - (mode ? 0 : lo[a])) / pitch[a] - 0.5;
                    assert_true(fabs(sample - nearbyint(sample)) < 1e-4);
                }
                assert_true(s->upper[s->axis] >= s->lower[s->axis]);
                assert_true(s->lower[s->axis] >= lo[s->axis] - 1e-6 && s->upper[s->axis] <= hi[s->axis] + 1e-6);
                length[s->axis] += (double)s->upper[s->axis] - (double)s->lower[s->axis];
            }
            for (int a = 0; a < 3; a++) {
                double volume = length[a] * pitch[(a + 1) % 3] * pitch[(a + 2) % 3];
                assert_true(fabs(volume - c->volumes[a]) < 1e-5 * c->volume);
            }
            assert_int_equal(by_body[0], 0); /* along x the right ball's left side begins the span */
            assert_true(by_body[1] > 0);
        }
        assert_int_equal(next, r->n_spans);
        ct_result_free(&r);
        stage_close(&stage);
    }
}

static void test_nothing_found(void **state) {
    (void)state;
    struct stage stage = open_row(8);
    ct_update away = {.body = stage.body[2], .kind = CT_UPDATE_POSE};
    shape_pose_identity(away.pose);
    away.pose[3] = 100;
    ct_update too = away;
    too.body = stage.body[0];
    too.pose[3] = -100;
    const ct_update updates[] = {away, too};
    ct_result *r = stage_step(&stage, updates, 2, CT_WANT_ALL | CT_WANT_SPANS);
    assert_int_equal(r->n_contacts, 0);
    assert_int_equal(r->n_entries, 0);
    assert_int_equal(r->n_spans, 0);
    assert_int_equal(r->pairs, 0);
    assert_int_equal(r->rays, 0);
    assert_non_null(r->contacts); /* arrays asked for are there, if empty */
    assert_non_null(r->vertices);
    assert_non_null(r->gradient);
    assert_non_null(r->spans);
    ct_result_free(&r);
    /* A pair whose boxes overlap but whose surfaces do not is no contact. */
    too.pose[3] = 0.35;
    too.pose[7] = too.pose[11] = 0.9;
    r = stage_step(&stage, &too, 1, CT_WANT_ALL);
    assert_int_equal(r->pairs, 1);
    assert_int_equal(r->n_contacts, 0);
    assert_true(r->rays > 0);
    ct_result_free(&r);
    stage_close(&stage);
}

static void test_stiffness_product(void **state) {
    (void)state;
    struct stage stage = open_row(16);
    ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_GRADIENT);
    enum { N = 3 * 162 };
    static double g[2][2 * N], x[2][2 * N], y[2][2 * N];
    uint64_t rng = 61;
    for (size_t i = 0; i < 2; i++) {
        const ct_contact *c = &r->contacts[i];
        memset(g, 0, sizeof g);
        for (uint64_t k = c->first[0]; k < c->first[1] + c->count[1]; k++)
            for (uint64_t a = 0; a < 3; a++)
                g[0][(k >= c->first[1] ? N : 0) + 3 * r->vertices[k] + a] = r->gradient[3 * k + a];
        double along[2] = {0, 0}, products[2] = {0, 0};
        for (int t = 0; t < 2; t++) {
            for (int k = 0; k < 2 * N; k++) {
                x[t][k] = shape_uniform(&rng, -1, 1);
                y[t][k] = 0.5; /* added to */
                along[t] += g[0][k] * x[t][k];
            }
            const double *const in[2] = {x[t], x[t] + N};
            double *const out[2] = {y[t], y[t] + N};
            ct_contact_stiffness_product(r, i, 7, in, out);
            for (int k = 0; k < 2 * N; k++) assert_true(fabs(y[t][k] - (0.5 - 7 * g[0][k] * along[t])) < 1e-15);
        }
        for (int k = 0; k < 2 * N; k++) { /* symmetric: x0 K x1 = x1 K x0 */
            products[0] += x[0][k] * (y[1][k] - 0.5);
            products[1] += x[1][k] * (y[0][k] - 0.5);
        }
        assert_true(fabs(products[0] - products[1]) < 1e-13);
        assert_true(fabs(products[0] + 7 * along[0] * along[1]) < 1e-13);
    }
    ct_result_free(&r);
    stage_close(&stage);
}

/* Over all contacts, many vectors: the sum of single products, and the same bits in any company. */
static void test_stiffness_products(void **state) {
    (void)state;
    struct stage stage = open_row(16);
    ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_GRADIENT);
    enum { VERTICES = 162, MANY = 19 };
    assert_true(r->n_contacts >= 2 && stage.n == 3);
    static double in[3][MANY][3 * VERTICES], out[3][MANY][3 * VERTICES], single[3][3 * VERTICES], alone[3 * VERTICES];
    uint64_t rng = 62;
    ct_body_vectors bodies[3];
    for (int b = 0; b < 3; b++) {
        bodies[b] = (ct_body_vectors){stage.body[b], VERTICES, in[b][0], out[b][0]};
        for (int v = 0; v < MANY; v++)
            for (int k = 0; k < 3 * VERTICES; k++) in[b][v][k] = shape_uniform(&rng, -1, 1), out[b][v][k] = 0.25;
    }
    assert_int_equal(ct_result_stiffness_products(r, 7, bodies, 3, MANY, NULL), CT_OK);
    double largest = 0;
    for (int v = 0; v < MANY; v++) {
        memset(single, 0, sizeof single);
        for (size_t i = 0; i < r->n_contacts; i++) {
            const uint32_t a = r->contacts[i].body[0] - stage.body[0], b = r->contacts[i].body[1] - stage.body[0];
            ct_contact_stiffness_product(r, i, 7, (const double *[]){in[a][v], in[b][v]},
                                         (double *[]){single[a], single[b]});
        }
        for (int b = 0; b < 3; b++)
            for (int k = 0; k < 3 * VERTICES; k++) {
                assert_true(fabs(out[b][v][k] - 0.25 - single[b][k]) < 1e-13);
                largest = fmax(largest, fabs(single[b][k]));
            }
    }
    assert_true(largest > 1e-4);

    /* A body that does not move, one that wants nothing, one left out. */
    bodies[1].in = NULL, bodies[1].out = alone, bodies[0].out = NULL;
    bodies[0].in = in[0][5];
    memset(alone, 0, sizeof alone);
    memset(single, 0, sizeof single);
    static const double still[3 * VERTICES];
    assert_int_equal(ct_result_stiffness_products(r, 2, bodies, 2, 1, NULL), CT_OK);
    for (size_t i = 0; i < r->n_contacts; i++) {
        const uint32_t a = r->contacts[i].body[0] - stage.body[0], b = r->contacts[i].body[1] - stage.body[0];
        ct_contact_stiffness_product(r, i, 2, (const double *[]){a ? still : in[0][5], still},
                                     (double *[]){single[a], single[b]});
    }
    for (int k = 0; k < 3 * VERTICES; k++) assert_true(fabs(alone[k] - single[1][k]) < 1e-15);

    /* The bits of a product do not depend on the other vectors. */
    for (int b = 0; b < 3; b++)
        bodies[b] = (ct_body_vectors){stage.body[b], VERTICES, in[b][17], b == 1 ? alone : NULL};
    for (int k = 0; k < 3 * VERTICES; k++) alone[k] = 0.25;
    assert_int_equal(ct_result_stiffness_products(r, 7, bodies, 3, 1, NULL), CT_OK);
    assert_memory_equal(alone, out[1][17], sizeof alone);

    ct_error error = {0};
    const ct_body_vectors swapped[2] = {bodies[1], bodies[0]};
    assert_int_equal(ct_result_stiffness_products(r, 7, swapped, 2, 1, &error), CT_INVALID_ARGUMENT);
    assert_string_equal(error.field, "bodies");
    error = (ct_error){0};
    bodies[1].vertices = 1;
    assert_int_equal(ct_result_stiffness_products(r, 7, bodies, 3, 1, &error), CT_WRONG_LENGTH);
    assert_string_equal(error.field, "vertices");
    assert_memory_equal(alone, out[1][17], sizeof alone); /* nothing was added */
    ct_result_free(&r);
    r = stage_step(&stage, NULL, 0, CT_WANT_FRAME);
    error = (ct_error){0};
    assert_int_equal(ct_result_stiffness_products(r, 7, bodies, 1, 1, &error), CT_INVALID_ARGUMENT);
    assert_string_equal(error.field, "want");
    ct_result_free(&r);
    stage_close(&stage);
}

int main(void) {
    engine = stage_engine(2, NULL);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_only_what_was_asked_for),
                                       cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_spans),
                                       cmocka_unit_test(test_nothing_found),
                                       cmocka_unit_test(test_stiffness_product),
                                       cmocka_unit_test(test_stiffness_products)};
    int failed = cmocka_run_group_tests_name("answer", tests, NULL, NULL);
    ct_engine_destroy(&engine);
    return failed;
}
