/* test_search.c - the pairs of clusters that the search of two trees finds, against all pairs of clusters one by one:
 * which are found is a part of the answer, on each instruction set and backend. */
#include "gpu/methods/exact/exact_cpu.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/mesh.h"
#include "tests/scenes/build.h"
#include "tests/unit/unit.h"

struct counts {
    size_t found, all;
};

static ct_exact_body make_body(struct shape shape, const ct_exact_lattice *lattice, const double *pose,
                               ct_mesh **mesh) {
    ct_error error = {0};
    *mesh = shape_to_mesh(&shape, &error);
    assert_non_null(*mesh);
    shape_free(&shape);
    const ct_topology *topology = ct_mesh_topology(*mesh, &error);
    return (ct_exact_body){.topology = topology,
                           .boxes = topology->clusters->rest,
                           .pose = ct_lattice_pose_of(lattice, pose, 2),
                           .n_triangles = (*mesh)->n_triangles};
}

static bool may_meet(const ct_exact_body body[2], const ct_own_axes axes[2], uint32_t a, uint32_t b) {
    const ct_node_box box_a = ct_exact_node_box(&body[0], a), box_b = ct_exact_node_box(&body[1], b);
    const ct_cluster_box *const boxes[2] = {&body[0].boxes[a], &body[1].boxes[b]};
    return ct_boxes_may_meet(&box_a, &box_b, boxes, axes, 0);
}

static void check_bodies(const ct_search_cpu *kernels, const ct_exact_body body[2], struct counts *counts) {
    const uint32_t n[2] = {body[0].topology->clusters->n, body[1].topology->clusters->n};
    const ct_cluster_box *root[2];
    ct_own_axes axes[2];
    ct_budget budget = {.limit = 0};
    ct_buffer pairs = {NULL, 0};
    size_t n_pairs;
    for (int b = 0; b < 2; b++) root[b] = &body[b].boxes[body[b].topology->clusters->n_nodes - 1];
    for (int b = 0; b < 2; b++) axes[b] = ct_find_own_axes(&body[b].pose, root[b], &body[1 - b].pose, root[1 - b]);
    uint8_t *is_found = shape_alloc((uint64_t)n[0] * n[1], 1);
    assert_true(kernels->find_pairs(&body[0], &body[1], &pairs, &n_pairs, &budget));
    for (size_t i = 0; i < n_pairs; i++) {
        const ct_cluster_pair p = ((const ct_cluster_pair *)pairs.data)[i];
        assert_true(p.a < n[0] && p.b < n[1]);
        assert_int_equal(is_found[(size_t)p.a * n[1] + p.b]++, 0); /* once */
    }
    for (uint32_t a = 0; a < n[0]; a++)
        for (uint32_t b = 0; b < n[1]; b++)
            assert_int_equal(is_found[(size_t)a * n[1] + b], may_meet(body, axes, a, b));
    counts->found += n_pairs;
    counts->all += (size_t)n[0] * n[1];
    ct_buffer_free(&pairs, &budget);
    free(is_found);
}

/* A body with itself: each two clusters once. */
static void check_own(const ct_search_cpu *kernels, const ct_exact_body *body) {
    const uint32_t n = body->topology->clusters->n;
    const ct_cluster_box *root = &body->boxes[body->topology->clusters->n_nodes - 1];
    const ct_exact_body twice[2] = {*body, *body};
    const ct_own_axes one = ct_find_own_axes(&body->pose, root, &body->pose, root), axes[2] = {one, one};
    ct_budget budget = {.limit = 0};
    ct_buffer pairs = {NULL, 0};
    size_t n_pairs;
    uint8_t *is_found = shape_alloc((uint64_t)n * n, 1);
    assert_true(kernels->find_own_pairs(body, &pairs, &n_pairs, &budget));
    for (size_t i = 0; i < n_pairs; i++) {
        const ct_cluster_pair p = ((const ct_cluster_pair *)pairs.data)[i];
        assert_true(p.a <= p.b && p.b < n);
        assert_int_equal(is_found[(size_t)p.a * n + p.b]++, 0);
    }
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a; b < n; b++)
            assert_int_equal(is_found[(size_t)a * n + b], a == b || may_meet(twice, axes, a, b));
    ct_buffer_free(&pairs, &budget);
    free(is_found);
}

static struct shape shape_at(int i) {
    switch (i % 5) {
    case 0:
        return shape_icosphere(1, 5);
    case 1:
        return shape_torus(0.8, 0.3, 101, 60);
    case 2:
        return shape_box(1.5, 1, 0.5); /* one cluster */
    case 3:
        return shape_slab(2, 0.3, 0.004, 5, 40);
    default:
        return shape_cylinder(0.5, 2, 900); /* long triangles */
    }
}

static void check(const ct_search_cpu *kernels) {
    uint64_t rng = 3;
    struct counts counts = {0};
    for (int i = 0; i < 25; i++) {
        double pose[2][12];
        ct_mesh *mesh[2];
        const ct_exact_lattice lattice = {.unit = 0x1p-36, .inverse = 0x1p36};
        for (int b = 0; b < 2; b++) shape_pose_random(&rng, 0.5, pose[b]);
        pose[1][3] += 0.9;
        /* Bodies with the world's axes are looked at along these alone. */
        const ct_exact_body body[2] = {make_body(shape_at(i), &lattice, i % 3 == 1 ? NULL : pose[0], &mesh[0]),
                                       make_body(shape_at(i / 5), &lattice, i % 4 == 1 ? NULL : pose[1], &mesh[1])};
        check_bodies(kernels, body, &counts);
        check_own(kernels, &body[0]);
        for (int b = 0; b < 2; b++) ct_mesh_release(&mesh[b]);
    }
    assert_true(counts.found > 0 && counts.found < counts.all / 4);
}

static void test_base(void **state) {
    (void)state;
    check(&ct_search_cpu_base);
}

static void test_avx2(void **state) {
    (void)state;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        check(&ct_search_cpu_avx2);
        return;
    }
#endif
    skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_base), cmocka_unit_test(test_avx2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
