/* test_order.c - the order of a mesh's triangles, and the first corner of each, depend on positions alone. */
#include <string.h>

#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

#include "gpu/mesh/build/order.h"

/* Round shapes in positions where centroids lie in the planes between cells, so that rounding decides about the order.
 */
static struct shape shape_at(int i) {
    static const double z[] = {0, 0, 1}, nowhere[] = {0, 0, 0};
    struct shape shape;
    double pose[12];
    switch (i % 5) {
    case 0:
        shape = shape_torus(0.8, 0.35, 24, 16);
        break;
    case 1:
        shape = shape_icosphere(1, i % 4);
        break;
    case 2:
        shape = shape_cylinder(1, 1, 40);
        break;
    case 3:
        shape = shape_cube(1.5, 5);
        break;
    default:
        shape = shape_torus(1, 0.4, 80, 40);
    }
    shape_pose_axis(z, 0.25 * (i % 3) + 0.125 * (i % 7), nowhere, pose);
    shape_transform(&shape, pose);
    return shape;
}

static void test_shuffled_meshes(void **state) {
    (void)state;
    uint64_t rng = 3;
    for (int i = 0; i < 200; i++) {
        struct shape shape = shape_at(i), shuffled = shape_copy(&shape);
        shape_shuffle(&shuffled, &rng);
        ct_mesh *mesh[2] = {shape_to_mesh(&shape, NULL), shape_to_mesh(&shuffled, NULL)};
        assert_true(mesh[0] && mesh[1]);
        for (size_t k = 0; k < 3 * (size_t)shape.n_triangles; k++)
            assert_same_bytes(ct_mesh_positions(mesh[0]) + 3 * (size_t)ct_mesh_triangles(mesh[0])[k],
                              ct_mesh_positions(mesh[1]) + 3 * (size_t)ct_mesh_triangles(mesh[1])[k], 12);
        for (int side = 0; side < 2; side++) ct_mesh_release(&mesh[side]);
        shape_free(&shape);
        shape_free(&shuffled);
    }
}

/* Answers comparisons so that each pivot splits off next to nothing (McIlroy 1999, "A killer adversary for quicksort"):
 * what a pivot is compared with becomes larger than it. */
struct adversary {
    uint32_t *value; /* UINT32_MAX: not decided */
    uint32_t n_decided, candidate;
};

static bool is_less(struct adversary *a, uint32_t x, uint32_t y) {
    if (a->value[x] == UINT32_MAX && a->value[y] == UINT32_MAX) a->value[x == a->candidate ? x : y] = a->n_decided++;
    if (a->value[x] == UINT32_MAX)
        a->candidate = x;
    else if (a->value[y] == UINT32_MAX)
        a->candidate = y;
    return a->value[x] < a->value[y];
}

static void swap_ids(uint32_t *a, uint32_t *b) {
    const uint32_t old = *a;
    *a = *b;
    *b = old;
}

/* Quickselect with medians of three, as triangles are split, against the adversary. */
static void find_killer(struct adversary *adversary, uint32_t *id, size_t n, size_t left) {
    size_t first = 0, end = n;
    while (first < left && left < end) {
        uint32_t *a = &id[first], *b = &id[first + (end - first) / 2], *c = &id[end - 1];
        if (is_less(adversary, *b, *a)) swap_ids(a, b);
        if (is_less(adversary, *c, *b)) swap_ids(b, c);
        if (is_less(adversary, *b, *a)) swap_ids(a, b);
        if (end - first <= 3) return;
        const uint32_t pivot = *b;
        size_t i = first, j = end - 1;
        for (;;) {
            while (id[i] != pivot && is_less(adversary, id[i], pivot)) i++;
            while (id[j] != pivot && is_less(adversary, pivot, id[j])) j--;
            if (i >= j) break;
            swap_ids(&id[i++], &id[j--]);
        }
        if (i == first) i++;
        if (left < i)
            end = i;
        else
            first = i;
    }
}

/* No order of the triangles takes more than a few times as many comparisons as another. */
static void test_worst_order(void **state) {
    (void)state;
    enum { N = 8192, LEFT = N / 2 };
    uint32_t *id = malloc(N * sizeof *id), *value = malloc(N * sizeof *value);
    float *positions = malloc((size_t)N * 9 * sizeof *positions);
    uint32_t *triangles = malloc((size_t)N * 3 * sizeof *triangles);
    uint64_t n_compared[2];
    for (int is_killer = 0; is_killer < 2; is_killer++) {
        struct adversary adversary = {value, 0, 0};
        for (uint32_t i = 0; i < N; i++) id[i] = i, value[i] = is_killer ? UINT32_MAX : i * 2654435761u % N;
        if (is_killer) find_killer(&adversary, id, N, LEFT);
        for (uint32_t i = 0; i < N; i++)
            if (value[i] == UINT32_MAX) value[i] = adversary.n_decided++;
        for (uint32_t i = 0; i < 3 * N; i++) {
            triangles[i] = i;
            for (uint32_t k = 0; k < 3; k++)
                positions[3 * i + k] = k == 0 ? (float)value[i / 3] : k == i % 3 ? 0.1f : 0;
        }
        const double lo[3] = {0, 0, 0}, hi[3] = {N, 0.1, 0.1};
        assert_true(ct_order_triangles(positions, lo, hi, triangles, N, &n_compared[is_killer]));
        for (uint32_t t = 1; t < N; t++) /* Morton order within clusters is that along x here */
            assert_true(positions[9 * (triangles[3 * t] / 3)] / 128 >=
                        positions[9 * (triangles[3 * t - 3] / 3)] / 128 - 1);
    }
    assert_true(n_compared[1] < 8 * n_compared[0]);
    free(id), free(value), free(positions), free(triangles);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shuffled_meshes), cmocka_unit_test(test_worst_order)};
    return cmocka_run_group_tests_name("order of triangles", tests, NULL, NULL);
}
