/* test_hull.c - boxes of posed voxel trees contain the mesh, are wider by less than two cubes on each side, and need
 * few corners. */
#include "gpu/methods/voxtree/tree.h"

#include "gpu/mesh/mesh.h"
#include "gpu/view/snap_cpu.h"
#include "tests/scenes/build.h"
#include "tests/unit/unit.h"

static void check(struct shape shape, uint32_t finest, uint32_t most_corners) {
    ct_mesh *mesh = shape_to_mesh(&shape, NULL);
    assert_non_null(mesh);
    const ct_voxel_tree *tree = ct_voxel_tree_of(mesh, finest, NULL);
    assert_non_null(tree);
    assert_in_range(tree->hull.n, 8, most_corners);
    const double cube = tree->side / (1u << tree->hull.level);
    uint64_t rng = 7;
    for (int round = 0; round < 200; round++) {
        double pose[12];
        shape_pose_random(&rng, round % 2 ? 1 : 1e7, pose);
        if (round == 0) shape_pose_identity(pose);
        ct_box mine, box;
        assert_true(ct_snap_cpu_base.box(mesh->positions, mesh->n_vertices, pose, &mine));
        ct_voxel_posed_box(tree, pose, &box);
        for (int k = 0; k < 3; k++) {
            assert_true(box.lo[k] <= mine.lo[k] && box.hi[k] >= mine.hi[k]);
            assert_true(box.lo[k] > mine.lo[k] - 2 * cube && box.hi[k] < mine.hi[k] + 2 * cube);
        }
    }
    ct_mesh_release(&mesh);
    shape_free(&shape);
}

static void test_boxes(void **state) {
    (void)state;
    check(shape_box(1, 1, 1), 3, 8); /* all cubes of the boundary, of which the hull has the corners */
    check(shape_box(0.3, 1.7, 0.9), 5, 8);
    check(shape_tetrahedron(1), 6, 400);
    check(shape_icosphere(0.6, 4), 5, 400);
    check(shape_torus(0.6, 0.2, 48, 24), 7, 400);
    check(shape_l_prism(1.2, 0.5), 4, 200);
    check(shape_blob(0.6, 4, 0.3, 5), 8, 400);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_boxes)};
    return cmocka_run_group_tests_name("hull", tests, NULL, NULL);
}
