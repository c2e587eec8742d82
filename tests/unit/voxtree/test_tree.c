/* test_tree.c - voxel trees against closed forms: boxes cell by cell, volumes and areas of whole meshes, sums from
 * level to level, and any order of triangles. */
#include "gpu/methods/voxtree/tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/mesh.h"
#include "gpu/methods/voxtree/cut.h"
#include "tests/scenes/build.h"
#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

static const ct_voxel_tree *tree_of(ct_mesh *mesh, uint32_t finest) {
    ct_error error = {0};
    const ct_voxel_tree *tree = ct_voxel_tree_of(mesh, finest, &error);
    if (!tree) fail_msg("%s", error.message);
    assert_int_equal(tree->finest, finest);
    assert_ptr_equal(ct_voxel_tree_of(mesh, finest, NULL), tree); /* kept */
    return tree;
}

static double occupancy_of(const ct_voxel_level *level, uint32_t x, uint32_t y, uint32_t z) {
    bool is_full;
    const ct_voxel *node = ct_voxel_find(level, x, y, z, &is_full);
    return node ? (double)node->occupancy : is_full;
}

/* Every level adds up to the mesh's volume and to no area; nodes know where they are and point nowhere else. */
static void check_sums(const ct_mesh *mesh, const ct_voxel_tree *tree) {
    uint64_t n_nodes = 0;
    for (uint32_t l = 0; l <= tree->finest; l++) {
        const ct_voxel_level *level = &tree->level[l];
        assert_int_equal(level->n, 1u << l);
        const double cube = level->size * level->size * level->size;
        double sum = 0, area[3] = {0}, moment = 0, size = 0;
        uint32_t n = 0;
        uint64_t n_full = 0;
        for (uint32_t z = 0; z < level->n; z++)
            for (uint32_t y = 0; y < level->n; y++)
                for (uint32_t x = 0; x < level->n; x++) {
                    bool is_full;
                    const ct_voxel *node = ct_voxel_find(level, x, y, z, &is_full);
                    sum += node ? (double)node->occupancy : is_full;
                    n_full += is_full;
                    n_nodes += node || is_full;
                    if (!node) continue;
                    n++;
                    assert_true(node->at[0] == x && node->at[1] == y && node->at[2] == z);
                    assert_true(node->occupancy >= 0 && node->occupancy <= 1);
                    assert_true(node->group < tree->n_groups);
                    if (is_full) assert_true((double)node->occupancy >= 1 - CT_VOXEL_ERROR);
                    for (int k = 0; k < 3; k++) {
                        area[k] += (double)node->area[k];
                        size += fabs((double)node->area[k]);
                        /* V = 1/3 sum of area times centre, of a closed surface. */
                        moment += (double)node->area[k] * (node->at[k] + (node->center[k] + 0.5) / 256) / 3;
                    }
                }
        assert_int_equal(n, level->n_nodes);
        assert_int_equal(n_full, level->n_full);
        assert_float_equal(sum * cube, mesh->volume, 2 * CT_VOXEL_ERROR * mesh->volume + 1e-6 * cube * n);
        for (int k = 0; k < 3; k++) assert_float_equal(area[k], 0, 1e-5 * n);
        if (l >= 5) assert_float_equal(moment * cube, mesh->volume, 0.05 * mesh->volume + 0.01 * size * cube);
        if (l < tree->finest)
            for (uint32_t z = 0; z < level->n; z++)
                for (uint32_t y = 0; y < level->n; y++)
                    for (uint32_t x = 0; x < level->n; x++) {
                        double children = 0;
                        for (uint32_t c = 0; c < 8; c++)
                            children +=
                                occupancy_of(level + 1, 2 * x + (c & 1), 2 * y + (c >> 1 & 1), 2 * z + (c >> 2));
                        assert_float_equal(occupancy_of(level, x, y, z), children / 8, 1e-6);
                    }
    }
    assert_int_equal(n_nodes, tree->n_nodes);
}

static double overlap(double lo, double hi, double a, double b) {
    return fmax(0, fmin(hi, b) - fmax(lo, a));
}

/* Boxes of all proportions: every cube's occupancy is a product of three overlaps. */
static void test_boxes(void **state) {
    (void)state;
    uint64_t rng = 1;
    for (int round = 0; round < 12; round++) {
        double size[3] = {1, 1, 1};
        for (int k = 0; k < 3 && round; k++)
            size[k] = round < 4 ? ldexp(1, -(round + k) % 4) : (double)(float)shape_uniform(&rng, 0.1, 3);
        struct shape box = shape_box(size[0], size[1], size[2]);
        ct_mesh *mesh = shape_to_mesh(&box, NULL);
        const ct_voxel_tree *tree = tree_of(mesh, 3 + (uint32_t)round % 4);
        check_sums(mesh, tree);
        assert_false(tree->overlaps_itself);
        const ct_voxel_level *level = &tree->level[tree->finest];
        for (uint32_t z = 0; z < level->n; z++)
            for (uint32_t y = 0; y < level->n; y++)
                for (uint32_t x = 0; x < level->n; x++) {
                    const uint32_t at[3] = {x, y, z};
                    double expected = 1;
                    for (int k = 0; k < 3; k++)
                        expected *=
                            overlap(at[k] * level->size, (at[k] + 1) * level->size, 0, mesh->hi[k] - mesh->lo[k]) /
                            level->size;
                    const double found = occupancy_of(level, x, y, z);
                    assert_float_equal(found, expected, CT_VOXEL_ERROR);
                    /* Aligned with the lattice: exact. */
                    if (round < 4) assert_true(found == expected);
                }
        if (round == 0) assert_int_equal(tree->n_groups, 6);
        if (round == 0) assert_int_equal(level->n_full, (uint64_t)level->n * level->n * level->n);
        ct_mesh_release(&mesh);
        shape_free(&box);
    }
}

static void test_shapes(void **state) {
    (void)state;
    struct shape shapes[] = {shape_icosphere(0.7, 4), shape_cube(2, 5), shape_l_prism(2, 1)};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        ct_mesh *mesh = shape_to_mesh(&shapes[i], NULL);
        for (uint32_t l = 3; l <= 6; l++) {
            const ct_voxel_tree *tree = tree_of(mesh, l);
            check_sums(mesh, tree);
            assert_false(tree->overlaps_itself);
        }
        ct_mesh_release(&mesh);
        shape_free(&shapes[i]);
    }
}

static void test_scanned(void **state) {
    (void)state;
    ct_mesh *mesh = stage_scanned_mesh("bunny_70k.ply");
    if (!mesh) skip();
    check_sums(mesh, tree_of(mesh, ct_voxel_default_level(mesh)));
    ct_mesh_release(&mesh);
}

/* Two balls in one mesh that overlap: seen, and counted once. */
static void test_overlap(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 3);
    const size_t v = ball.n_vertices, t = ball.n_triangles;
    float *positions = shape_alloc(6 * v, sizeof *positions);
    uint32_t *triangles = shape_alloc(6 * t, sizeof *triangles);
    for (size_t i = 0; i < 6 * v; i++)
        positions[i] = ball.positions[i % (3 * v)] + (i >= 3 * v && i % 3 == 0 ? 1.0f : 0.0f);
    for (size_t i = 0; i < 6 * t; i++) triangles[i] = ball.triangles[i % (3 * t)] + (i >= 3 * t ? (uint32_t)v : 0);
    ct_mesh *mesh = NULL;
    assert_int_equal(ct_mesh_create(positions, CT_F32, 2 * v, triangles, 2 * t, NULL, &mesh, NULL), CT_OK);
    const ct_voxel_tree *tree = tree_of(mesh, 5);
    assert_true(tree->overlaps_itself);
    const double lens = acos(-1.0) * (4 + 1) * (2 - 1) * (2 - 1) / 12;
    assert_float_equal((double)tree->level[0].nodes[0].occupancy * pow(tree->side, 3), mesh->volume - lens, 0.1);
    ct_mesh_release(&mesh);
    free(positions);
    free(triangles);
    shape_free(&ball);
}

/* The same surface with triangles in another order and corners rotated has the same bits. */
static void test_order(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 4);
    ct_mesh *mesh = shape_to_mesh(&ball, NULL), *other = NULL;
    const size_t t = ball.n_triangles;
    uint32_t *triangles = shape_alloc(3 * t, sizeof *triangles);
    for (size_t i = 0; i < t; i++)
        for (size_t k = 0; k < 3; k++) triangles[3 * i + k] = ball.triangles[3 * (t - 1 - i) + (k + i) % 3];
    assert_int_equal(ct_mesh_create(ball.positions, CT_F32, ball.n_vertices, triangles, t, NULL, &other, NULL), CT_OK);
    const ct_voxel_tree *a = tree_of(mesh, 6), *b = tree_of(other, 6);
    for (uint32_t l = 0; l <= 6; l++) {
        const ct_voxel_level *x = &a->level[l], *y = &b->level[l];
        assert_int_equal(x->n_nodes, y->n_nodes);
        assert_same_bytes(x->nodes, y->nodes, x->n_nodes * sizeof *x->nodes);
        const size_t bricks = (size_t)x->n_bricks * x->n_bricks * x->n_bricks;
        assert_same_bytes(x->bricks, y->bricks, bricks * sizeof *x->bricks);
    }
    ct_mesh_release(&mesh);
    ct_mesh_release(&other);
    free(triangles);
    shape_free(&ball);
}

/* What cutting costs is known before: about the pieces that it then makes. */
static void test_pieces(void **state) {
    (void)state;
    struct shape shapes[] = {shape_icosphere(1, 4), shape_torus(1, 0.1, 30, 8), shape_box(1, 2, 3)};
    for (int i = 0; i < 3; i++) {
        ct_mesh *mesh = shape_to_mesh(&shapes[i], NULL);
        double side = 0;
        for (int k = 0; k < 3; k++) side = fmax(side, mesh->hi[k] - mesh->lo[k]);
        for (uint32_t l = 4; l <= 7; l++) {
            ct_cut cut;
            assert_int_equal(ct_cut_mesh(mesh, mesh->lo, ldexp(side, -(int)l), 1u << l, 1 << 20, &cut), CT_OK);
            const double expected = ct_count_pieces(mesh, ldexp(side, -(int)l));
            assert_true(expected > 0.7 * (double)cut.n_pieces && expected < 1.5 * (double)cut.n_pieces);
            ct_cut_free(&cut);
        }
        ct_mesh_release(&mesh);
        shape_free(&shapes[i]);
    }
}

/* Needles of which each goes through hundreds of cubes: the tree is refused before it is begun. */
static void test_too_many_pieces(void **state) {
    (void)state;
    enum { N = 150000 };
    struct shape s = {.n_vertices = 4 * N, .n_triangles = 4 * N};
    s.positions = malloc(12 * (size_t)s.n_vertices);
    s.triangles = malloc(12 * (size_t)s.n_triangles);
    static const uint32_t outward[4][3] = {{0, 1, 2}, {0, 3, 1}, {0, 2, 3}, {1, 3, 2}};
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t c = 0; c < 4; c++)
            for (uint32_t k = 0; k < 3; k++) {
                const float base = (float)(i >> 6 * k & 63) / 320;
                s.positions[3 * (4 * i + c) + k] = base + (c == 3 ? 0.8f : c == k ? 0.002f : 0);
                s.triangles[3 * (4 * i + c) + k] = 4 * i + outward[c][2 - k];
            }
    ct_error error = {0};
    ct_mesh *mesh = NULL;
    if (ct_mesh_create(s.positions, CT_F32, s.n_vertices, s.triangles, s.n_triangles, NULL, &mesh, &error))
        fail_msg("%s", error.message);
    ct_mesh_info before, after;
    ct_mesh_get_info(mesh, &before);
    assert_null(ct_voxel_tree_of(mesh, 8, &error));
    assert_int_equal(error.status, CT_LIMIT_EXCEEDED);
    assert_string_equal(error.field, "voxel_level");
    assert_non_null(strstr(error.message, "million pieces"));
    assert_non_null(strstr(error.message, "voxel_level of 3 to 7"));
    ct_mesh_get_info(mesh, &after);
    assert_int_equal(after.bytes, before.bytes);
    ct_mesh_release(&mesh);
    shape_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces),  cmocka_unit_test(test_too_many_pieces),
                                       cmocka_unit_test(test_boxes),   cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_scanned), cmocka_unit_test(test_overlap),
                                       cmocka_unit_test(test_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
