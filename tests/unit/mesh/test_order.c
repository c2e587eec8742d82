/* test_order.c - the order of a mesh's triangles, and the first corner of each, depend on positions alone. */
#include <string.h>

#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shuffled_meshes)};
    return cmocka_run_group_tests_name("order of triangles", tests, NULL, NULL);
}
