/* test_frame.c - contact frames computed from hand-made sums, against plain double arithmetic: every direction of the
 * normal, bodies without a normal, any order of the entries. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/contact/frame_k.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

enum { MAX = 64 };

/* Sums at vertices, whose numbers need not be in order: a frame must not mind. */
struct side {
    uint32_t vertices[MAX];
    int64_t sums[MAX][3];
    int32_t coords[MAX][4];
    double origin[3];
    size_t count;
};

static ct_contact frame_of(const ct_window *window, const struct side sides[2], double volume) {
    ct_contact contact;
    memset(&contact, 0, sizeof contact);
    contact.volume = volume;
    const ct_weight_units units = ct_frame_units(window);
    const double scale = ct_barycentre_scale(window);
    ct_barycentre centre[2];
    memset(centre, 0, sizeof centre);
    for (int b = 0; b < 2; b++) {
        const struct side *s = &sides[b];
        ct_moments moments;
        memset(&moments, 0, sizeof moments);
        for (size_t k = 0; k < s->count; k++) ct_moments_add(&moments, s->coords[s->vertices[k]], s->sums[k]);
        ct_moments_finish(&moments, window, &units, s->origin, contact.generalized_gradient[b]);
    }
    const int has_normal = ct_frame_normal(&contact, contact.generalized_gradient[0], 0);
    for (int b = 0; b < 2; b++)
        for (size_t k = 0; k < sides[b].count; k++)
            ct_barycentre_add(&centre[b], &contact, has_normal, scale, &units, sides[b].coords[sides[b].vertices[k]],
                              sides[b].sums[k]);
    ct_frame_finish(window, centre, &contact);
    return contact;
}

static ct_window window_of(double pitch_x, double pitch_y, double pitch_z) {
    const double pitch[3] = {pitch_x, pitch_y, pitch_z}, origin[3] = {3, -7, 0.5};
    ct_window window;
    for (int k = 0; k < 3; k++)
        window.axis[k] = (ct_lattice){.origin = origin[k],
                                      .pitch = pitch[k],
                                      .scale = ldexp(1, 16) / pitch[k],
                                      .unit = ldexp(pitch[k], -16),
                                      .shift = 16,
                                      .n = 4096,
                                      .across = 4096,
                                      .hi = 4096 << 16};
    return window;
}

static double at(const ct_window *window, const struct side *s, size_t k, int axis) {
    return window->axis[axis].origin + s->coords[s->vertices[k]][axis] * window->axis[axis].unit;
}

static double ray_area(const ct_window *window, int w) {
    return window->axis[(w + 1) % 3].pitch * window->axis[(w + 2) % 3].pitch;
}

static double gradient(const ct_window *window, const struct side *s, size_t k, int w) {
    return (double)s->sums[k][w] / (double)CT_WEIGHT_ONE * ray_area(window, w);
}

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void assert_close(double a, double b, double tolerance) {
    if (!(fabs(a - b) <= tolerance)) fail_msg("%.17g is not %.17g within %g", a, b, tolerance);
}

static void test_volumes(void **state) {
    (void)state;
    ct_window window = window_of(0.5, 0.25, 2);
    const int64_t length[3] = {1 << 16, 3 << 16, 5 << 16}, many[3] = {1 << 20, 1 << 20, 1 << 20};
    ct_contact c;
    assert_true(ct_frame_volumes(&window, length, many, &c));
    assert_true(c.volumes[0] == 1 * 0.5 * 0.25 * 2);
    assert_true(c.volumes[1] == 3 * 0.5 * 0.25 * 2);
    assert_true(c.volumes[2] == 5 * 0.5 * 0.25 * 2);
    assert_true(c.volume == 0.75);
    assert_close(c.error_estimate, 2.5 * sqrt(1.0 / 6), 1e-6);
    assert_true(isnan(c.error_bound));
    const int64_t one[3] = {0, 0, 1}, none[3] = {0, 0, 0};
    assert_true(ct_frame_volumes(&window, one, many, &c));
    assert_true(c.volume > 0 && c.volumes[0] == 0);
    assert_false(ct_frame_volumes(&window, none, many, &c));
}

/* Views that resolve a contact count equally, to the last bit; one that does not hardly counts. */
static void test_weights(void **state) {
    (void)state;
    ct_window window = window_of(0.5, 0.5, 0.5);
    double weight[3];
    for (int k = 0; k < 3; k++) window.axis[k].across = 64;
    ct_view_weights(&window, (int64_t[]){2000, 3000, 4000}, weight);
    for (int w = 0; w < 3; w++) assert_true(weight[w] == 1.0 / 3);
    ct_view_weights(&window, (int64_t[]){0, 0, 0}, weight);
    for (int w = 0; w < 3; w++) assert_true(weight[w] == 1.0 / 3);
    ct_view_weights(&window, (int64_t[]){64, 3000, 4000}, weight); /* seen edge-on along x */
    assert_true(weight[0] > 0 && weight[0] < 0.01 && weight[1] == weight[2]);
    ct_view_weights(&window, (int64_t[]){0, 3000, 4000}, weight);
    assert_true(weight[0] == 0 && weight[1] == 0.5 && weight[2] == 0.5);
    window.axis[2].across = 0.1; /* thinner than a pitch along z */
    ct_view_weights(&window, (int64_t[]){64, 64, 3000}, weight);
    assert_true(weight[0] < 1e-4 && weight[1] < 1e-4 && weight[2] > 0.999);
    /* A view without weight changes neither the volume nor the estimate. */
    ct_contact c;
    assert_true(ct_frame_volumes(&window, (int64_t[]){0, 0, 1 << 20}, (int64_t[]){0, 0, 3000}, &c));
    assert_close(c.volume, c.volumes[2], 1e-15 * c.volume);
    assert_close(c.error_estimate, 1.25 * c.volume / 3000, 1e-12 * c.volume);
}

/* Random sums of both sides that cancel, as spans' do. */
static void random_sides(uint64_t *rng, struct side sides[2]) {
    int64_t total[3] = {0, 0, 0};
    for (int s = 0; s < 2; s++) {
        sides[s].count = 2 + shape_random(rng) % (MAX - 2);
        for (size_t k = 0; k < sides[s].count; k++) {
            sides[s].vertices[k] = (uint32_t)(MAX - 1 - k);
            for (int i = 0; i < 3; i++) {
                int64_t push = (s ? 1 : -1) * (int64_t)(shape_random(rng) % (1ull << 40));
                sides[s].sums[k][i] = push + (int64_t)(shape_random(rng) % (1ull << 39)) - (1ll << 38);
                if (s == 1 && k + 1 == sides[s].count) sides[s].sums[k][i] = -total[i];
                total[i] += sides[s].sums[k][i];
            }
        }
        for (int v = 0; v < MAX; v++)
            for (int i = 0; i < 3; i++) sides[s].coords[v][i] = (int32_t)(shape_random(rng) % (1u << 29)) - (1 << 28);
        for (int i = 0; i < 3; i++) sides[s].origin[i] = shape_uniform(rng, -20, 20);
    }
}

static void test_against_plain_sums(void **state) {
    (void)state;
    uint64_t rng = 31;
    for (int round = 0; round < 300; round++) {
        ct_window window = window_of(0.01, 0.02, 0.015);
        static struct side sides[2];
        random_sides(&rng, sides);
        ct_contact c = frame_of(&window, sides, 0.25);
        double p[2][3] = {{0}}, weight[2] = {0, 0}, size[2] = {0, 0}, reach = 0, strength = 0;
        for (int s = 0; s < 2; s++) {
            double six[6] = {0};
            for (size_t k = 0; k < sides[s].count; k++) {
                double g[3], arm[3];
                for (int i = 0; i < 3; i++) {
                    g[i] = gradient(&window, &sides[s], k, i);
                    arm[i] = at(&window, &sides[s], k, i) - sides[s].origin[i];
                    reach = fmax(reach, fabs(arm[i]));
                    strength += fabs(g[i]);
                }
                for (int i = 0; i < 3; i++) {
                    int a = (i + 1) % 3, b = (i + 2) % 3;
                    six[i] += g[i];
                    six[3 + i] += arm[a] * g[b] - arm[b] * g[a];
                }
                double w = dot(c.normal, g);
                weight[s] += w;
                size[s] += fabs(w);
                for (int i = 0; i < 3; i++) p[s][i] += w * at(&window, &sides[s], k, i);
            }
            for (int i = 0; i < 6; i++)
                assert_close(c.generalized_gradient[s][i], six[i], 1e-13 * strength * (i < 3 ? 1 : reach));
        }
        for (int i = 0; i < 3; i++) /* Newton, to the last bit where the rays' sums are exact */
            assert_true(c.generalized_gradient[0][i] == -c.generalized_gradient[1][i]);
        double n = sqrt(dot(c.generalized_gradient[0], c.generalized_gradient[0]));
        for (int i = 0; i < 3; i++) assert_close(c.normal[i], -c.generalized_gradient[0][i] / n, 1e-15);
        assert_close(c.area, n, 1e-12 * n);
        assert_close(c.depth, 0.25 / n, 1e-12 / n);
        if (fabs(weight[0]) > 0.2 * size[0] && fabs(weight[1]) > 0.2 * size[1])
            for (int i = 0; i < 3; i++)
                assert_close(c.center[i], (p[0][i] / weight[0] + p[1][i] / weight[1]) / 2, 1e-9 * reach);
        /* Any order of the entries: the same bits. */
        for (int s = 0; s < 2; s++)
            for (size_t k = sides[s].count - 1; k > 0; k--) {
                size_t j = shape_random(&rng) % (k + 1);
                uint32_t v = sides[s].vertices[k];
                int64_t swapped[3];
                memcpy(swapped, sides[s].sums[k], sizeof swapped);
                sides[s].vertices[k] = sides[s].vertices[j];
                memcpy(sides[s].sums[k], sides[s].sums[j], sizeof swapped);
                sides[s].vertices[j] = v;
                memcpy(sides[s].sums[j], swapped, sizeof swapped);
            }
        ct_contact again = frame_of(&window, sides, 0.25);
        assert_memory_equal(&again, &c, sizeof c);
    }
}

/* A push along n, given as body 1's sum; body 0 has the opposite. */
static ct_contact pushed(const double n[3]) {
    static struct side sides[2];
    ct_window window = window_of(1, 1, 1);
    for (int s = 0; s < 2; s++) {
        sides[s].count = 1;
        sides[s].vertices[0] = 5;
        for (int i = 0; i < 3; i++) sides[s].sums[0][i] = llrint((s ? 1 : -1) * n[i] * 0x1p58);
    }
    return frame_of(&window, sides, 1);
}

/* Right angles to rounding, but to the normal no better than the normal's own rounding allows near the one direction
 * where the tangents have to jump. */
static void assert_frame(const ct_contact *c, const double n[3], double tolerance) {
    const double *t = c->tangents[0], *b = c->tangents[1];
    for (int i = 0; i < 3; i++) {
        assert_close(c->normal[i], n[i], 1e-15);
        int j = (i + 1) % 3, k = (i + 2) % 3;
        assert_close(t[j] * b[k] - t[k] * b[j], n[i], tolerance);
    }
    assert_close(dot(t, t), 1, 1e-14);
    assert_close(dot(b, b), 1, 1e-14);
    assert_close(dot(t, b), 0, 1e-14);
    assert_close(dot(t, n), 0, tolerance);
    assert_close(dot(b, n), 0, tolerance);
}

static void test_normal_and_tangents(void **state) {
    (void)state;
    uint64_t rng = 32;
    for (int round = 0; round < 2000; round++) {
        double n[3], m[3], size = 0, moved = 0, turned = 0;
        for (int i = 0; i < 3; i++)
            n[i] = round < 6 ? (round / 2 == i ? 1 - 2 * (round % 2) : 0) : shape_uniform(&rng, -1, 1);
        size = sqrt(dot(n, n));
        if (size < 0.1) continue;
        for (int i = 0; i < 3; i++) n[i] /= size;
        ct_contact c = pushed(n);
        assert_frame(&c, n, 1e-14 / (1.0001 + 0.36 * n[0] + 0.48 * n[1] + 0.8 * n[2]));
        for (int i = 0; i < 3; i++) m[i] = n[i] + shape_uniform(&rng, -1e-6, 1e-6);
        size = sqrt(dot(m, m));
        for (int i = 0; i < 3; i++) m[i] /= size;
        ct_contact d = pushed(m);
        for (int i = 0; i < 3; i++) {
            moved += fabs(m[i] - n[i]);
            for (int t = 0; t < 2; t++) turned += fabs(d.tangents[t][i] - c.tangents[t][i]);
        }
        double from_jump = 1.0001 + 0.36 * n[0] + 0.48 * n[1] + 0.8 * n[2];
        assert_true(turned <= 20 * moved / from_jump);
    }
    /* Close to the one direction where the tangents have to jump, and there. */
    for (int e = 1; e <= 17; e++) {
        double off = pow(10, -e), n[3] = {-0.36 + 0.8 * off, -0.48 - 0.6 * off, -0.8}, size = sqrt(dot(n, n));
        for (int i = 0; i < 3; i++) n[i] /= size;
        ct_contact c = pushed(n);
        assert_frame(&c, n, fmin(1e-14 + 4e-16 / off, 1e-6));
    }
}

static void test_nested_body_has_no_normal(void **state) {
    (void)state;
    ct_window window = window_of(0.5, 0.5, 0.5);
    static struct side sides[2];
    sides[0].count = 0;
    sides[1].count = 2; /* held from both sides */
    for (int k = 0; k < 2; k++) {
        sides[1].vertices[k] = (uint32_t)k;
        for (int i = 0; i < 3; i++) {
            sides[1].sums[k][i] = i == 0 ? (k ? 8 : -8) * CT_WEIGHT_ONE : 0;
            sides[1].coords[k][i] = (k ? 10 : 6) << 16;
        }
    }
    ct_contact c = frame_of(&window, sides, 0.25);
    const double zero[6] = {0};
    for (int i = 0; i < 3; i++) {
        assert_true(c.normal[i] == 0 && c.tangents[0][i] == 0 && c.tangents[1][i] == 0);
        assert_true(c.generalized_gradient[1][i] == 0);
        assert_close(c.center[i], window.axis[i].origin + 8 * 0.5, 1e-12);
    }
    assert_memory_equal(c.generalized_gradient[0], zero, sizeof zero);
    assert_true(c.area == 0 && c.depth == 0);
    /* Its turning still matters: two forces apart from each other. */
    assert_close(c.generalized_gradient[1][4], 2 * 2.0, 1e-12);
    assert_close(c.generalized_gradient[1][5], -2 * 2.0, 1e-12);
}

/* More layers than 64 bits of weight could take. */
static void test_thousands_of_layers(void **state) {
    (void)state;
    ct_window window = window_of(0.5, 0.5, 0.5);
    static struct side sides[2];
    memset(sides, 0, sizeof sides);
    for (int s = 0; s < 2; s++) {
        sides[s].count = MAX;
        for (int k = 0; k < MAX; k++) {
            sides[s].vertices[k] = (uint32_t)k;
            sides[s].sums[k][0] = (s ? 1 : -1) * (CT_WEIGHT_ONE << 32); /* 2^8 layers of all rays for each vertex */
        }
    }
    ct_contact c = frame_of(&window, sides, 1);
    assert_close(c.area, MAX * 0x1p32 * 0.25, 1);
    assert_close(c.normal[0], 1, 0);
    for (int i = 0; i < 3; i++) assert_close(c.center[i], window.axis[i].origin, 1e-9);
}

/* A side whose weights cancel has no barycentre by them: by their sizes it has, among its vertices. */
static void test_cancelling_side(void **state) {
    (void)state;
    ct_window window = window_of(0.5, 0.5, 0.5);
    static struct side sides[2];
    for (int s = 0; s < 2; s++) {
        sides[s].count = 2;
        for (int k = 0; k < 2; k++) {
            sides[s].vertices[k] = (uint32_t)k;
            for (int i = 0; i < 3; i++) {
                sides[s].sums[k][i] = i < 2 ? 0 : s ? (k ? 101 : -100) * CT_WEIGHT_ONE : (k ? -1 : 0) * CT_WEIGHT_ONE;
                sides[s].coords[k][i] = (k ? 10 : 6) << 16;
            }
        }
    }
    ct_contact c = frame_of(&window, sides, 0.25);
    assert_close(c.normal[2], 1, 0);
    for (int i = 0; i < 3; i++) { /* side 0: vertex 1; side 1: between its vertices */
        double p0 = window.axis[i].origin + 10 * 0.5, p1 = window.axis[i].origin + (6 * 100 + 10 * 101) / 201.0 * 0.5;
        assert_close(c.center[i], (p0 + p1) / 2, 1e-9);
    }
}

/* Weights of a few units that add up to nothing: their sizes count, as where there are more of them. */
static void test_few_units_that_cancel(void **state) {
    (void)state;
    ct_window window = window_of(0.5, 0.5, 0.5);
    ct_barycentre few = {.first = {4, 4, 4}, .first_abs = {20, 40, 60}, .sum = 0, .sum_abs = 2};
    double p[3];
    assert_int_equal(ct_barycentre_at(&few, &window, p), 1);
    for (int i = 0; i < 3; i++) assert_close(p[i], window.axis[i].origin + 10 * (i + 1) * window.axis[i].unit, 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_volumes),
                                       cmocka_unit_test(test_weights),
                                       cmocka_unit_test(test_against_plain_sums),
                                       cmocka_unit_test(test_normal_and_tangents),
                                       cmocka_unit_test(test_nested_body_has_no_normal),
                                       cmocka_unit_test(test_thousands_of_layers),
                                       cmocka_unit_test(test_cancelling_side),
                                       cmocka_unit_test(test_few_units_that_cancel)};
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
