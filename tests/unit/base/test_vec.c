/* test_vec.c - vectors, poses and boxes against identities that hold to the bit for small integers. */
#include "tests/unit/unit.h"

#include "gpu/base/vec.h"

static void assert_vec(ct_vec3 v, double x, double y, double z) {
    assert_true(v.x == x && v.y == y && v.z == z);
}

static void test_vectors(void **state) {
    (void)state;
    const ct_vec3 a = ct_vec3_make(1, -2, 3), b = ct_vec3_make(4, 5, -6);
    assert_vec(ct_vec3_add(a, b), 5, 3, -3);
    assert_true(ct_vec3_dot(a, b) == 4 - 10 - 18);
    const ct_vec3 n = ct_vec3_cross(a, b);
    assert_vec(n, -3, 18, 13);
    assert_true(ct_vec3_dot(n, a) == 0 && ct_vec3_dot(n, b) == 0);
    double out[3];
    ct_vec3_put(out, a);
    assert_vec(ct_vec3_of(out), 1, -2, 3);
}

static void test_arrays(void **state) {
    (void)state;
    double a[3] = {1, -2, 3};
    const double b[3] = {4, 5, -6};
    double out[3];
    assert_true(ct_dot3(a, b) == -24);
    ct_sub3(a, b, out);
    assert_vec(ct_vec3_of(out), -3, -7, 9);
    ct_cross3(a, b, a);
    assert_vec(ct_vec3_of(a), -3, 18, 13);
}

static void test_poses(void **state) {
    (void)state;
    /* A quarter turn about z: x to y. */
    const double pose[12] = {0, -1, 0, 10, 1, 0, 0, 20, 0, 0, 1, 30};
    const ct_vec3 v = ct_vec3_make(1, 2, 3);
    assert_vec(ct_pose_turn(pose, v), -2, 1, 3);
    assert_vec(ct_pose_origin(pose), 10, 20, 30);
}

static void test_boxes(void **state) {
    (void)state;
    ct_box a = ct_box_none(), b = ct_box_none();
    ct_box_add_point(&a, (double[3]){0, 0, 0});
    assert_true(a.lo[0] == 0 && a.hi[2] == 0);
    ct_box_add_point(&a, (double[3]){2, -1, 4});
    ct_box_add_point(&b, (double[3]){2, 0, 1});
    ct_box_add_point(&b, (double[3]){5, 3, 2});
    ct_box_add_box(&b, &a);
    assert_true(b.lo[0] == 0 && b.lo[1] == -1 && b.lo[2] == 0 && b.hi[0] == 5 && b.hi[1] == 3 && b.hi[2] == 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_poses),
        cmocka_unit_test(test_boxes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
