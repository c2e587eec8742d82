/* test_snap.c - boxes and lattice coordinates with every instruction set, bit for bit against the scalar formulas of
 * view_k.h, for any count and alignment; doubles as pairs of floats; numbers that are not finite. */
#include "tests/unit/unit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/split.h"
#include "gpu/view/snap_cpu.h"
#include "gpu/view/view.h"
#include "tests/scenes/shapes.h"

static const ct_snap_cpu *sets[2];
static int n_sets;

static void find_sets(void) {
    sets[n_sets++] = &ct_snap_cpu_base;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        sets[n_sets++] = &ct_snap_cpu_avx2;
#endif
}

static double world(const float *p, int axis, const double *pose) {
    return pose ? ct_pose_coord(pose + 4 * axis, p[0], p[1], p[2]) : (double)p[axis];
}

static void check_snap(const ct_window *window, const float *positions, const double *pose, size_t n, size_t first,
                       size_t last) {
    ct_coords *coords = malloc(n * sizeof *coords), mark = {-1, -2, -3, -4};
    ct_cells *cells = malloc(n * sizeof *cells);
    for (int s = 0; s < n_sets; s++) {
        for (size_t i = 0; i < n; i++) {
            memcpy(coords[i], mark, sizeof mark);
            cells[i] = 0x1234;
        }
        sets[s]->snap(window, positions, pose, first, last, coords, cells);
        for (size_t i = 0; i < n; i++) {
            if (i < first || i >= last) {
                assert_memory_equal(coords[i], mark, sizeof mark);
                assert_int_equal(cells[i], 0x1234);
                continue;
            }
            ct_cells expected = 0;
            for (int k = 0; k < 3; k++) {
                const ct_lattice *a = &window->axis[k];
                int32_t q = ct_snap(world(positions + 3 * i, k, pose), a->origin, a->scale);
                assert_int_equal(coords[i][k], q);
                ct_cells cell = (ct_cells)ct_samples_below(q, a->shift, a->n);
                if (q < a->lo) cell |= CT_CELL_BEFORE;
                if (q > a->hi) cell |= CT_CELL_AFTER;
                expected |= cell << (16 * k);
            }
            assert_int_equal(coords[i][3], 0);
            assert_int_equal(cells[i], expected);
        }
    }
    free(coords);
    free(cells);
}

static void check_box(const void *positions, size_t n, const double *pose) {
    ct_box expected;
    for (int k = 0; k < 3; k++) {
        expected.lo[k] = INFINITY;
        expected.hi[k] = -INFINITY;
    }
    for (size_t i = 0; i < n; i++) {
        float p[3];
        memcpy(p, (const char *)positions + 12 * i, 12);
        for (int k = 0; k < 3; k++) {
            double x = world(p, k, pose);
            expected.lo[k] = fmin(expected.lo[k], x);
            expected.hi[k] = fmax(expected.hi[k], x);
        }
    }
    for (int s = 0; s < n_sets; s++) {
        ct_box box;
        assert_true(sets[s]->box(positions, n, pose, &box));
        for (int k = 0; k < 3; k++) assert_true(box.lo[k] == expected.lo[k] && box.hi[k] == expected.hi[k]);
    }
}

static void test_random(void **state) {
    (void)state;
    uint64_t rng = 5;
    enum { MAX = 200 };
    float positions[3 * MAX];
    for (int round = 0; round < 400; round++) {
        size_t n = round < 42 ? (size_t)round / 2 : shape_random(&rng) % MAX;
        double pose[12], size = pow(10, shape_uniform(&rng, -2, 3));
        shape_pose_random(&rng, 10 * size, pose);
        for (size_t i = 0; i < 3 * n; i++) positions[i] = (float)shape_uniform(&rng, -size, size);
        const double *p = round % 2 ? pose : NULL;
        check_box(positions, n, p);
        if (n < 2) continue;
        ct_box box, other;
        sets[0]->box(positions, n, p, &box);
        other = box;
        for (int k = 0; k < 3; k++) { /* a window somewhere in the box, so that vertices lie before, in and after it */
            double a = shape_uniform(&rng, box.lo[k], box.hi[k]), b = shape_uniform(&rng, box.lo[k], box.hi[k]);
            other.lo[k] = fmin(a, b);
            other.hi[k] = fmax(a, b);
        }
        ct_scene_settings settings;
        ct_scene_settings_init(&settings);
        for (int k = 0; k < 3; k++) settings.resolution[k] = 1 + (uint32_t)(shape_random(&rng) % 300);
        if (round % 3 == 0) settings.pixel_size = size / 40;
        ct_window window;
        assert_int_equal(ct_view_plan(&box, &other, &settings, &window, NULL), CT_OK);
        check_snap(&window, positions, p, n, 0, n);
        size_t first = shape_random(&rng) % n;
        check_snap(&window, positions, p, n, first, first + shape_random(&rng) % (n - first + 1));
    }
}

/* Either output alone, and the corners of some triangles alone: the same numbers, and nothing else is written. */
static void test_parts(void **state) {
    (void)state;
    uint64_t rng = 8;
    struct shape ball = shape_icosphere(1, 2);
    const uint32_t n = ball.n_vertices;
    ct_coords *all = calloc(n, sizeof *all), *some = calloc(n, sizeof *some);
    ct_cells *cells = calloc(n, sizeof *cells), *cells_alone = calloc(n, sizeof *cells);
    float *exact = malloc(12 * (size_t)n); /* exact, so that a read beyond it is seen */
    memcpy(exact, ball.positions, 12 * (size_t)n);
    double random_pose[12];
    shape_pose_random(&rng, 1, random_pose);
    ct_window window;
    for (int k = 0; k < 3; k++) window.axis[k] = (ct_lattice){-1, 0.25, 4096, 1.0 / 4096, 10, 8, 0, 8192};
    for (int round = 0; round < 40; round++) {
        const ct_snap_cpu *set = sets[round % n_sets];
        const double *pose = round / 2 % 2 ? random_pose : NULL;
        set->snap(&window, exact, pose, 0, n, all, cells);
        memset(some, 0x55, n * sizeof *some);
        set->snap(&window, exact, pose, 0, n, some, NULL);
        assert_memory_equal(some, all, n * sizeof *all);
        set->snap(&window, exact, pose, 0, n, NULL, cells_alone);
        assert_memory_equal(cells_alone, cells, n * sizeof *cells);

        uint32_t entries[30], n_entries = (uint32_t)(shape_random(&rng) % 31);
        char wanted[200] = {0};
        for (uint32_t i = 0; i < n_entries; i++) { /* repeats allowed; the last vertex often */
            entries[i] = (uint32_t)(shape_random(&rng) % ball.n_triangles);
            for (int c = 0; c < 3; c++) wanted[ball.triangles[3 * (size_t)entries[i] + (size_t)c]] = 1;
        }
        memset(some, 0x55, n * sizeof *some);
        set->snap_corners(&window, exact, pose, ball.triangles, entries, n_entries, some);
        for (uint32_t v = 0; v < n; v++) {
            if (wanted[v])
                assert_memory_equal(some[v], all[v], sizeof *all);
            else
                for (int k = 0; k < 4; k++) assert_int_equal(some[v][k], 0x55555555);
        }
    }
    free(all);
    free(some);
    free(cells);
    free(cells_alone);
    free(exact);
    shape_free(&ball);
}

/* Vertices on samples, on the window's ends and halfway between two units: where a slip would show. */
static void test_on_the_lattice(void **state) {
    (void)state;
    ct_window window;
    for (int k = 0; k < 3; k++) window.axis[k] = (ct_lattice){-4, 1, 16, 0.0625, 4, 8, -1, 129};
    float positions[3 * 1200];
    size_t n = 0;
    for (int i = -150; i < 450; i++, n++)
        for (int k = 0; k < 3; k++) positions[3 * n + (size_t)k] = -4 + (float)(i + 3 * k) / 32;
    check_snap(&window, positions, NULL, n, 0, n);
    double identity[12];
    shape_pose_identity(identity);
    check_snap(&window, positions, identity, n, 0, n);
    ct_coords coords[1];
    ct_cells cells[1];
    const float at[3] = {-4 + 0.5f, -4 + 0.5625f, 4};
    sets[0]->snap(&window, at, NULL, 0, 1, coords, cells);
    assert_int_equal(cells[0], 0 | (ct_cells)1 << 16 | (ct_cells)8 << 32); /* a sample is not below itself */
    const float out[3] = {-4.125f, 4.125f, -4.0625f};
    sets[0]->snap(&window, out, NULL, 0, 1, coords, cells);
    assert_int_equal(cells[0], CT_CELL_BEFORE | (ct_cells)(8 | CT_CELL_AFTER) << 16);
}

static void test_not_finite(void **state) {
    (void)state;
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    double pose[12];
    uint64_t rng = 6;
    shape_pose_random(&rng, 1, pose);
    float positions[3 * 20];
    for (size_t n = 1; n <= 20; n++)
        for (size_t at = 0; at < 3 * n; at++)
            for (int b = 0; b < 4; b++) {
                for (size_t i = 0; i < 3 * n; i++) positions[i] = (float)i - 7;
                positions[at] = bad[b];
                ct_box box;
                for (int s = 0; s < n_sets; s++) {
                    assert_false(sets[s]->box(positions, n, NULL, &box));
                    assert_false(sets[s]->box(positions, n, pose, &box));
                }
            }
    for (size_t i = 0; i < 60; i++) positions[i] = i % 2 ? FLT_MAX : -FLT_MAX; /* the largest numbers are numbers */
    check_box(positions, 20, NULL);
    check_box(positions, 20, pose);
    for (size_t i = 0; i < 60; i++) positions[i] = i % 2 ? 1e-45f : -0.0f;
    check_box(positions, 20, NULL);
}

static void test_any_alignment_and_count(void **state) {
    (void)state;
    uint64_t rng = 7;
    for (size_t n = 0; n <= 20; n++)
        for (size_t shift = 0; shift < 8; shift++) {
            char *memory = malloc(12 * n + shift + 1); /* exact, so that the address sanitizer sees a read beyond */
            for (size_t i = 0; i < 3 * n; i++) {
                float x = (float)shape_uniform(&rng, -1, 1);
                memcpy(memory + shift + 4 * i, &x, 4);
            }
            check_box(memory + shift, n, NULL);
            free(memory);
            float *exact = malloc(n ? 12 * n : 1);
            for (size_t i = 0; i < 3 * n; i++) exact[i] = (float)shape_uniform(&rng, -1, 1);
            double pose[12];
            shape_pose_random(&rng, 1, pose);
            check_box(exact, n, pose);
            ct_window window;
            for (int k = 0; k < 3; k++) window.axis[k] = (ct_lattice){-1, 0.25, 64, 1.0 / 64, 4, 8, 0, 128};
            if (n) {
                check_snap(&window, exact, NULL, n, 0, n);
                check_snap(&window, exact, pose, n, n / 2, n);
            }
            free(exact);
        }
}

static double *copy_doubles(char *memory, size_t shift, const double *values, size_t n) {
    memcpy(memory + shift, values, 8 * n);
    return (double *)(void *)(memory + shift); /* which need not be aligned: as a caller's */
}

/* Of doubles: the box, whether float32 holds them all, and the two floats that each is split into. The same as by the
 * scalar formulas, and nothing behind the last one is read. */
static void test_doubles(void **state) {
    (void)state;
    uint64_t rng = 9;
    for (size_t n = 0; n <= 20; n++)
        for (size_t shift = 0; shift < 8; shift++)
            for (int kind = 0; kind < 3; kind++) { /* floats; one that is none; all of them */
                double values[60], lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
                const size_t odd = n ? shape_random(&rng) % (3 * n) : 0;
                bool are_floats = true;
                for (size_t i = 0; i < 3 * n; i++) {
                    const double x = shape_uniform(&rng, -9, 9);
                    values[i] = kind == 2 || (kind == 1 && i == odd) ? x : (double)(float)x;
                    are_floats = are_floats && values[i] == (double)(float)values[i];
                    lo[i % 3] = fmin(lo[i % 3], values[i]);
                    hi[i % 3] = fmax(hi[i % 3], values[i]);
                }
                char *memory = malloc(24 * n + shift + 1);
                const void *given = copy_doubles(memory, shift, values, 3 * n);
                const double origin[3] = {1, -3, kind == 2 ? 0.1 : 0};
                for (int s = 0; s < n_sets; s++) {
                    ct_box box;
                    bool said;
                    assert_true(sets[s]->wide_box(given, n, &box, &said));
                    assert_memory_equal(box.lo, lo, sizeof lo);
                    assert_memory_equal(box.hi, hi, sizeof hi);
                    assert_int_equal(said, are_floats);
                    float *high = malloc(12 * n + 1), *low = malloc(12 * n + 1), *alone = malloc(12 * n + 1);
                    sets[s]->split(given, n, origin, high, low);
                    sets[s]->split(given, n, origin, alone, NULL);
                    for (size_t i = 0; i < 3 * n; i++) {
                        float upper, lower;
                        ct_split_double(values[i] - origin[i % 3], &upper, &lower);
                        assert_memory_equal(high + i, &upper, 4);
                        assert_memory_equal(low + i, &lower, 4);
                    }
                    assert_memory_equal(alone, high, 12 * n);
                    free(high);
                    free(low);
                    free(alone);
                }
                free(memory);
            }
}

static void test_doubles_not_finite(void **state) {
    (void)state;
    const double bad[] = {NAN, -NAN, INFINITY, -INFINITY, 1e39, -1e300};
    double values[60];
    ct_box box;
    bool are_floats;
    for (size_t n = 1; n <= 20; n++)
        for (size_t at = 0; at < 3 * n; at++)
            for (int b = 0; b < 6; b++) {
                for (size_t i = 0; i < 3 * n; i++) values[i] = (double)i - 7.1;
                values[at] = bad[b];
                for (int s = 0; s < n_sets; s++) assert_false(sets[s]->wide_box(values, n, &box, &are_floats));
            }
    const double held[] = {FLT_MAX, 1e-45, -0.0}, not_held[] = {1e-320, 0.1, 0x1p-150 + 1};
    for (int s = 0; s < n_sets; s++)
        for (int i = 0; i < 3; i++) {
            for (int k = 0; k < 60; k++) values[k] = (double)(float)held[i];
            assert_true(sets[s]->wide_box(values, 20, &box, &are_floats));
            assert_true(are_floats);
            values[41] = not_held[i];
            assert_true(sets[s]->wide_box(values, 20, &box, &are_floats));
            assert_int_equal(are_floats, not_held[i] == 1);
        }
}

int main(void) {
    find_sets();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_on_the_lattice),
                                       cmocka_unit_test(test_not_finite),
                                       cmocka_unit_test(test_any_alignment_and_count),
                                       cmocka_unit_test(test_doubles),
                                       cmocka_unit_test(test_doubles_not_finite)};
    return cmocka_run_group_tests_name("snap", tests, NULL, NULL);
}
