/* test_descend.c - what one cube adds to a level: cubes around a point with and without an index, boxes against all
 * cubes one by one, with branches and in lanes, fixed point, and the largest sums. */
#include "gpu/methods/voxtree/descend_k.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/mesh/mesh.h"
#include "gpu/methods/voxtree/test_lanes.h"
#include "gpu/methods/voxtree/tree.h"
#include "tests/scenes/build.h"
#include "tests/unit/unit.h"

enum { FINEST = 7 };

static ct_mesh *mesh;
static const ct_voxel_tree *tree;

static int setup(void **state) {
    (void)state;
    struct shape shape = shape_blob(0.6, 4, 0.4, 5);
    mesh = shape_to_mesh(&shape, NULL);
    shape_free(&shape);
    tree = mesh ? ct_voxel_tree_of(mesh, FINEST, NULL) : NULL;
    return tree ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    ct_mesh_release(&mesh);
    return 0;
}

/* An index has every cube, and empty ones around the root. */
static void index_is_complete(void **state) {
    (void)state;
    for (uint32_t l = 0; l <= FINEST; l++) {
        const ct_voxel_level *level = &tree->level[l];
        assert_int_equal(level->index != NULL, level->n <= CT_MAX_VOXEL_INDEX);
        const int n = (int)level->n, side = n + 2 * CT_VOXEL_BORDER;
        for (int i = 0; level->index && i < side * side * side; i++) {
            const int x = i % side - CT_VOXEL_BORDER, y = i / side % side - CT_VOXEL_BORDER,
                      z = i / side / side - CT_VOXEL_BORDER;
            bool is_full = false;
            const ct_voxel *node = NULL;
            if (x >= 0 && y >= 0 && z >= 0 && x < n && y < n && z < n)
                node = ct_voxel_find(level, (uint32_t)x, (uint32_t)y, (uint32_t)z, &is_full);
            assert_int_equal(level->index[i], node ? node - level->nodes + CT_VOXEL_PLAIN : is_full);
        }
    }
}

/* The cubes around a point are the same with and without an index, also beside the root. */
static void cubes_around_need_no_index(void **state) {
    (void)state;
    uint64_t rng = 1;
    for (uint32_t l = 0; l <= 6; l++) {
        ct_voxel_level with = tree->level[l], without = with;
        without.index = NULL;
        for (int round = 0; round < 3000; round++) {
            double u[4] = {0};
            for (int k = 0; k < 3; k++) u[k] = shape_uniform(&rng, round % 9 ? -1 : -9, with.n + (round % 9 ? 1 : 9));
            ct_voxel_around a, b;
            ct_voxel_look(u, &a);
            b = a;
            ct_voxel_find_around(&with, &a);
            ct_voxel_find_around(&without, &b);
            for (int i = 0; i < 8; i++) assert_ptr_equal(a.node[i], b.node[i]);
            for (int k = 0; k < 3 && round % 9; k++)
                assert_true(a.from[k] >= 0 && a.from[k] <= 1 && fabs(a.center[k] + a.from[k] - u[k]) < 1e-12);
            const double occupancy = ct_voxel_interpolate(a.node, a.from);
            if (round % 9) assert_true(occupancy >= 0 && occupancy <= 1);
        }
    }
}

/* What a box's cubes are, one by one. */
static ct_voxel_status classify_each(const ct_voxel_level *level, const double u[3], const double reach[3]) {
    int lo[3], hi[3];
    bool has_full = false, has_empty = false;
    for (int k = 0; k < 3; k++) {
        lo[k] = (int)floor(u[k] - reach[k]);
        hi[k] = (int)floor(u[k] + reach[k]);
        if (hi[k] < 0 || lo[k] >= (int)level->n) return CT_VOXEL_IS_EMPTY;
    }
    for (int z = lo[2]; z <= hi[2]; z++)
        for (int y = lo[1]; y <= hi[1]; y++)
            for (int x = lo[0]; x <= hi[0]; x++) {
                const uint32_t n = level->n, at[3] = {(uint32_t)x, (uint32_t)y, (uint32_t)z};
                bool is_full = false;
                const bool is_in = at[0] < n && at[1] < n && at[2] < n;
                const ct_voxel *node = is_in ? ct_voxel_find(level, at[0], at[1], at[2], &is_full) : NULL;
                if (node && !is_full) return CT_VOXEL_IS_OPEN;
                has_full |= is_full;
                has_empty |= !is_full;
            }
    return has_full && has_empty ? CT_VOXEL_IS_OPEN : has_full ? CT_VOXEL_IS_FULL : CT_VOXEL_IS_EMPTY;
}

static void boxes_are_classified(void **state) {
    (void)state;
    uint64_t rng = 2;
    int n[3] = {0};
    for (int round = 0; round < 60000; round++) {
        ct_voxel_geometry g = {.b = tree->level[round % (FINEST + 1)]};
        double u[4] = {0};
        for (int k = 0; k < 3; k++) {
            g.reach[k] = g.b.n > 1 ? shape_uniform(&rng, 0.3, 0.9) : shape_uniform(&rng, 0.3, 5);
            u[k] = shape_uniform(&rng, -1.5, g.b.n + 1.5);
        }
        ct_voxel_around around;
        const ct_voxel_status status = ct_voxel_test(&g, u, &around);
        assert_int_equal(status, classify_each(&g.b, u, g.reach));
        const ct_v4d middle = {u[0], u[1], u[2], 0}, reach = {g.reach[0], g.reach[1], g.reach[2], 0};
        assert_int_equal(test_box(&g, middle, reach), status);
        n[status]++;
    }
    for (int i = 0; i < 3; i++) assert_true(n[i] > 1000);
}

/* Terms are rounded to the nearest step, and the largest sums that a level can have fit. */
static void sums_fit(void **state) {
    (void)state;
    uint64_t rng = 3;
    for (int i = 0; i < 10000; i++) {
        const double x = shape_uniform(&rng, -2, 2);
        assert_int_equal(ct_voxel_fixed(x), llrint(ldexp(x, CT_VOXEL_SUM_BITS)));
    }
    const double cubes = pow(8, CT_MAX_VOXEL_LEVEL), most = ldexp(1, 63);
    assert_true(cubes * (double)ct_voxel_fixed(1) < most);
    assert_true(cubes * (double)ct_voxel_fixed(2) < most);
    assert_true(8 * cubes * ldexp(1, CT_VOXEL_WEIGHT_BITS + CT_VOXEL_VECTOR_BITS) < most);
    for (uint32_t l = 0; l <= FINEST; l++)
        for (uint32_t i = 0; i < tree->level[l].n_nodes; i++)
            for (int k = 0; k < 3; k++) assert_true(fabsf(tree->level[l].nodes[i].area[k]) <= tree->level[l].most_area);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(index_is_complete),
                                       cmocka_unit_test(cubes_around_need_no_index),
                                       cmocka_unit_test(boxes_are_classified), cmocka_unit_test(sums_fit)};
    return cmocka_run_group_tests_name("descend", tests, setup, teardown);
}
