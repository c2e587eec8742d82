/* test_volume.c - signed volumes with every instruction set: against the volume computed in one go, far from the
 * origin, inside out, flat; the same bits in any order of triangles and vertices, and as the terms of volume_k.h. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/volume_cpu.h"
#include "gpu/mesh/volume_k.h"
#include "tests/scenes/shapes.h"

static const ct_volume_cpu *sets[2];
static int n_sets;

static void find_sets(void) {
    sets[n_sets++] = &ct_volume_cpu_base;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        sets[n_sets++] = &ct_volume_cpu_avx2;
#endif
}

static ct_box box_of(const struct shape *shape) {
    ct_box box;
    for (int k = 0; k < 3; k++) {
        box.lo[k] = INFINITY;
        box.hi[k] = -INFINITY;
        for (uint64_t v = 0; v < shape->n_vertices; v++) {
            box.lo[k] = fmin(box.lo[k], (double)shape->positions[3 * v + (uint64_t)k]);
            box.hi[k] = fmax(box.hi[k], (double)shape->positions[3 * v + (uint64_t)k]);
        }
    }
    return box;
}

/* Term by term, as the GPU sums. */
static double volume_of_terms(const struct shape *shape, const ct_box *box) {
    const ct_volume_scale scale = ct_volume_scale_of(box);
    int64_t high = 0, low = 0;
    for (uint64_t i = 0; i < shape->n_triangles && scale.unit > 0; i++) {
        const uint32_t *t = shape->triangles + 3 * i;
        const int64_t term =
            ct_volume_term(shape->positions + 3 * (uint64_t)t[0], shape->positions + 3 * (uint64_t)t[1],
                           shape->positions + 3 * (uint64_t)t[2], &scale);
        assert_true(llabs(term) < (int64_t)1 << 51);
        high += term >> 32;
        low += term & 0xffffffff;
    }
    return ct_volume_of_sum(high, low, scale.unit);
}

/* The same bits with every instruction set, and with nothing readable after the padding. */
static double volume_of(const struct shape *shape) {
    const ct_box box = box_of(shape);
    const double expected = volume_of_terms(shape, &box);
    float *positions = malloc(12 * shape->n_vertices + CT_VOLUME_PADDING);
    assert_non_null(positions);
    memcpy(positions, shape->positions, 12 * shape->n_vertices);
    memset(positions + 3 * shape->n_vertices, 0xff, CT_VOLUME_PADDING); /* a NaN */
    for (int s = 0; s < n_sets; s++) {
        const double found = sets[s]->signed_volume(positions, shape->triangles, shape->n_triangles, &box);
        assert_same_bytes(&found, &expected, sizeof found);
    }
    free(positions);
    return expected;
}

static void scale(struct shape *shape, double x, double y, double z) {
    const double by[3] = {x, y, z};
    for (uint64_t i = 0; i < 3 * shape->n_vertices; i++)
        shape->positions[i] = (float)(by[i % 3] * (double)shape->positions[i]);
}

static struct shape make(int i) {
    return i == 0   ? shape_box(1, 2, 3)
           : i == 1 ? shape_tetrahedron(0.5)
           : i == 2 ? shape_torus(1, 0.25, 37, 19)
           : i == 3 ? shape_blob(0.1, 4, 0.3, 7)
                    : shape_icosphere(10, 5); /* 20,480 triangles: several blocks */
}
enum { SHAPES = 5 };

static void test_volumes(void **state) {
    (void)state;
    uint64_t rng = 5;
    for (int i = 0; i < SHAPES; i++) {
        struct shape shape = make(i);
        const double volume = volume_of(&shape);
        assert_true(fabs(volume - shape_volume(&shape)) <= 1e-13 * volume);
        struct shape mixed = shape_copy(&shape);
        shape_shuffle(&mixed, &rng);
        /* Shuffling may begin a triangle with another corner, which changes the rounding of its term. */
        assert_true(fabs(volume_of(&mixed) - volume) <= 1e-13 * volume);
        shape_free(&mixed);
        scale(&shape, -1, 1, 1);
        const double mirrored = -volume;
        const double found = volume_of(&shape);
        assert_same_bytes(&found, &mirrored, sizeof found);
        scale(&shape, 1e-15, 1e15, 1);
        assert_true(fabs(volume_of(&shape) + volume) <= 1e-6 * volume); /* float32 */
        shape_free(&shape);
    }
}

static void test_any_order(void **state) {
    (void)state;
    struct shape shape = shape_blob(0.1, 4, 0.3, 7);
    const double volume = volume_of(&shape);
    for (uint64_t i = 0; i < shape.n_triangles / 2; i++) { /* backwards */
        uint32_t t[3], *a = shape.triangles + 3 * i, *b = shape.triangles + 3 * (shape.n_triangles - 1 - i);
        memcpy(t, a, sizeof t);
        memcpy(a, b, sizeof t);
        memcpy(b, t, sizeof t);
    }
    const double found = volume_of(&shape);
    assert_same_bytes(&found, &volume, sizeof found);
    shape_free(&shape);
}

static void test_far_away(void **state) {
    (void)state;
    struct shape shape = shape_box(0.125, 0.25, 0.5);
    shape_translate(&shape, 16384, -65536, 32768);
    assert_true(volume_of(&shape) == 0.015625);
    shape_free(&shape);
}

static void test_flat(void **state) {
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        for (int axis = 0; axis < 4; axis++) {
            struct shape shape = make(i);
            const double volume = volume_of(&shape);
            for (uint64_t v = 0; v < shape.n_vertices; v++) {
                float *p = shape.positions + 3 * v;
                if (axis < 3)
                    p[axis] = 0.3f;
                else /* a slanted plane, met to within float32 */
                    p[2] = (float)(0.3 * (double)p[0] - 0.7 * (double)p[1]);
            }
            const double flat = volume_of(&shape);
            if (axis < 3)
                assert_true(flat == 0);
            else
                assert_true(fabs(flat) < 1e-6 * volume);
            shape_free(&shape);
        }
}

static void test_extreme_sizes(void **state) {
    (void)state;
    const double sizes[] = {1e-12, 1e12};
    for (int i = 0; i < 2; i++) {
        struct shape shape = shape_box(sizes[i], sizes[i], sizes[i]);
        const double expected = pow(sizes[i], 3);
        assert_true(fabs(volume_of(&shape) - expected) <= 1e-6 * expected);
        shape_free(&shape);
    }
    struct shape shape = shape_box(6e38, 6e38, 6e38); /* all of float32's range */
    assert_true(fabs(volume_of(&shape) / 2.16e116 - 1) < 1e-6);
    shape_free(&shape);
}

int main(void) {
    find_sets();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_volumes), cmocka_unit_test(test_any_order),
                                       cmocka_unit_test(test_far_away), cmocka_unit_test(test_flat),
                                       cmocka_unit_test(test_extreme_sizes)};
    return cmocka_run_group_tests_name("volume", tests, NULL, NULL);
}
