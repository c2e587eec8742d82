/* test_view.c - windows: positions of samples, the range of lattice coordinates, and every error with its message. */
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

#include "gpu/view/view.h"
#include "tests/scenes/shapes.h"

static ct_scene_settings settings_of(double pixel_size, uint32_t n) {
    ct_scene_settings s;
    ct_scene_settings_init(&s);
    s.pixel_size = pixel_size;
    for (int i = 0; i < 3; i++) s.resolution[i] = n;
    return s;
}

static ct_box box_of(double x0, double x1) {
    return (ct_box){{x0, x0, x0}, {x1, x1, x1}};
}

static double sample_at(const ct_lattice *a, int32_t i) {
    return a->origin + a->unit * ct_sample_coord(i, a->shift);
}

static void check_lattice(const ct_lattice *a, double lo, double hi, double body_lo, double body_hi) {
    assert_in_range(a->shift, 1, 28);
    assert_in_range(a->n, 1, CT_MAX_RESOLUTION);
    assert_true(fabs(a->scale * a->unit - 1) < 1e-15);
    assert_true(ldexp(a->unit, a->shift) == a->pitch);
    /* Every vertex has a coordinate within +-2^28 (and a few units of rounding where the pitch is the finest). */
    const double ends[] = {body_lo, body_hi, lo, hi};
    for (int i = 0; i < 4; i++) assert_true(fabs((ends[i] - a->origin) * a->scale) <= 0x1p28 + 8);
    assert_true(ct_sample_coord(a->n - 1, a->shift) <= 0x1p28 + 8);
    /* As fine as fits: one more bit would not. */
    double reach = fmax(fmax(a->origin - body_lo, body_hi - a->origin), a->n * a->pitch);
    assert_true(a->shift == 28 || 8 * reach * a->scale > 0x1p28);
    assert_true(a->lo <= (lo - a->origin) * a->scale && (hi - a->origin) * a->scale <= a->hi);
    assert_true(a->hi - a->lo <= (hi - lo) * a->scale + 5);
}

static void test_resolution(void **state) {
    (void)state;
    uint64_t rng = 1;
    for (int round = 0; round < 3000; round++) {
        ct_box a, b;
        ct_scene_settings s = settings_of(0, 1);
        double far = round % 4 == 3 ? 1e5 : 10;
        for (int i = 0; i < 3; i++) {
            s.resolution[i] = 1 + (uint32_t)(shape_random(&rng) % (round % 2 ? 4096 : 20));
            double lo = shape_uniform(&rng, -far, far), hi = lo + pow(10, shape_uniform(&rng, -3, 3));
            a.lo[i] = lo, a.hi[i] = hi + shape_uniform(&rng, 0, 10);
            b.lo[i] = lo - shape_uniform(&rng, 0, 10), b.hi[i] = hi;
        }
        ct_window window, swapped;
        assert_int_equal(ct_view_plan(&a, &b, &s, &window, NULL), CT_OK);
        assert_int_equal(ct_view_plan(&b, &a, &s, &swapped, NULL), CT_OK);
        for (int i = 0; i < 3; i++) {
            const ct_lattice *l = &window.axis[i];
            double lo = a.lo[i], hi = b.hi[i];
            check_lattice(l, lo, hi, b.lo[i], a.hi[i]);
            assert_int_equal(l->n, s.resolution[i]);
            assert_true(l->origin == lo);
            assert_true(l->pitch == (hi - lo) / l->n);
            assert_true(swapped.axis[i].pitch == l->pitch && swapped.axis[i].shift == l->shift &&
                        swapped.axis[i].lo == l->lo && swapped.axis[i].hi == l->hi);
        }
    }
}

/* However the window slides, its samples are points of one grid of the world, at odd multiples of half a pitch. */
static void test_pixel_size_is_anchored_to_the_world(void **state) {
    (void)state;
    uint64_t rng = 2;
    const double pitches[] = {0.125, 1, 0.01, 3e-4};
    for (int round = 0; round < 3000; round++) {
        double pitch = pitches[round % 4];
        double lo = shape_uniform(&rng, -5, 5) * 100 * pitch, hi = lo + shape_uniform(&rng, 0.01, 60) * pitch;
        if (round % 5 == 0) lo = floor(lo / pitch) * pitch;
        ct_box a = box_of(lo, hi + 7 * pitch), b = box_of(lo - 11 * pitch, hi);
        ct_scene_settings s = settings_of(pitch, 1);
        ct_window window;
        assert_int_equal(ct_view_plan(&a, &b, &s, &window, NULL), CT_OK);
        const ct_lattice *l = &window.axis[1];
        check_lattice(l, lo, hi, b.lo[1], a.hi[1]);
        assert_true(l->pitch == pitch);
        double index = l->origin / pitch;
        assert_true(fabs(index - nearbyint(index)) < 1e-9);
        double first = nearbyint(index);
        for (int32_t i = 0; i < l->n; i++)
            assert_true(fabs(sample_at(l, i) - (first + i + 0.5) * pitch) <=
                        1e-12 * fabs(sample_at(l, i)) + 1e-9 * pitch);
        /* The window covers all that both boxes share, and not a whole pitch more on either side. */
        assert_true(l->origin <= lo + 1e-9 * pitch && l->origin > lo - pitch - 1e-9 * pitch);
        double end = l->origin + l->n * pitch;
        assert_true(end >= hi - 1e-9 * pitch && end < hi + pitch + 1e-9 * pitch);
    }
}

static void test_thin_windows(void **state) {
    (void)state;
    ct_scene_settings s = settings_of(0, 64);
    ct_window window;
    for (int e = -20; e >= -60; e--) {
        double thin = ldexp(1, e);
        ct_box a = {{0, 0, 0}, {1, 1, 1}}, b = {{1 - thin, 0, 0}, {2, 1, 1}};
        if (!(b.lo[0] < a.hi[0])) break;
        assert_int_equal(ct_view_plan(&a, &b, &s, &window, NULL), CT_OK);
        const ct_lattice *l = &window.axis[0];
        check_lattice(l, b.lo[0], 1, 0, 2);
        double finest = ldexp(1 + thin, -27);
        assert_true(l->pitch >= finest * (1 - 1e-15));
        if (thin / 64 >= finest) {
            assert_int_equal(l->n, 64);
        } else {
            assert_true(l->n >= 1 && l->n <= 64);
            assert_true(l->n * l->pitch >= thin * (1 - 1e-9) && (l->n - 1) * l->pitch < thin);
        }
        assert_int_equal(window.axis[1].n, 64);
    }
    assert_int_equal(window.axis[0].n, 1); /* the loop got down to where a single sample is left */
}

static void refused(const ct_box *a, const ct_box *b, double pixel_size, ct_status status, const char *words) {
    ct_scene_settings s = settings_of(pixel_size, 64);
    ct_window window;
    ct_error error = {0};
    assert_int_equal(ct_view_plan(a, b, &s, &window, &error), status);
    assert_int_equal(error.status, status);
    assert_string_equal(error.field, "pixel_size");
    if (!strstr(error.message, words)) fail_msg("\"%s\" does not say \"%s\"", error.message, words);
}

static void test_refusals(void **state) {
    (void)state;
    ct_box a = {{0, 0, 0}, {1, 8, 1}}, b = {{0, 0, 0}, {1, 8, 1}}, thin = {{0, 7.9999, 0}, {1, 1e7, 1}};
    refused(&a, &b, 8.0 / 4097, CT_LIMIT_EXCEEDED, "4097 samples along y");
    refused(&a, &b, 8.0 / 4097, CT_LIMIT_EXCEEDED, "use at least 0.001953");
    refused(&a, &thin, 1e-2, CT_OUT_OF_RANGE, "along y");
    refused(&a, &thin, 1e-2, CT_OUT_OF_RANGE, "at least 0.0745");
    /* What the messages advise is accepted. */
    ct_window window;
    ct_scene_settings s = settings_of(8.0 / 4095, 1);
    assert_int_equal(ct_view_plan(&a, &b, &s, &window, NULL), CT_OK);
    s.pixel_size = 8.0 / 4096;
    assert_int_equal(ct_view_plan(&a, &b, &s, &window, NULL), CT_OK);
    assert_int_equal(window.axis[1].n, 4096);
    s.pixel_size = ldexp(1e7, -27) * (1 + 1e-12);
    ct_box sliver = {{0, 7.9999, 0}, {1, 1e7, 1}};
    assert_int_equal(ct_view_plan(&a, &sliver, &s, &window, NULL), CT_OK);
    check_lattice(&window.axis[1], 7.9999, 8, 0, 1e7);
    assert_int_equal(window.axis[1].shift, 1);
}

static void test_cell_counts_samples_below(void **state) {
    (void)state;
    uint64_t rng = 3;
    for (int round = 0; round < 20000; round++) {
        int32_t shift = 1 + (int32_t)(shape_random(&rng) % 28);
        int32_t most = shift >= 28 ? 1 : 1 << (28 - shift);
        int32_t n = 1 + (int32_t)(shape_random(&rng) % (uint64_t)(most < 40 ? most : 40));
        int32_t i = (int32_t)(shape_random(&rng) % (uint64_t)n);
        int32_t q = ct_sample_coord(i, shift) + (int32_t)(shape_random(&rng) % 5) - 2;
        if (round % 3 == 0) q = (int32_t)(shape_random(&rng) % (1u << 29)) - (1 << 28);
        int32_t below = 0;
        for (int32_t k = 0; k < n; k++) below += (2 * (int64_t)k + 1) * ((int64_t)1 << (shift - 1)) < q;
        assert_int_equal(ct_samples_below(q, shift, n), below);
    }
    assert_int_equal(ct_samples_below(-(1 << 28), 28, 1), 0);
    assert_int_equal(ct_samples_below(1 << 28, 28, 1), 1);
    assert_int_equal(ct_samples_below(1 << 28, 16, 4096), 4096);
}

static void test_axes_are_right_handed(void **state) {
    (void)state;
    for (int w = 0; w < 3; w++) {
        assert_int_equal(ct_view_u(w), (w + 1) % 3);
        assert_int_equal(ct_view_v(w), (w + 2) % 3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_resolution),
                                       cmocka_unit_test(test_pixel_size_is_anchored_to_the_world),
                                       cmocka_unit_test(test_thin_windows),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_cell_counts_samples_below),
                                       cmocka_unit_test(test_axes_are_right_handed)};
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
