/* test_clusters.c - the cluster tree of a mesh: every triangle lies in its cluster's box, every box in its parent's;
 * the vertex lists are those of the triangles; refitted boxes are the smallest; the bytes are counted. */
#include "gpu/mesh/clusters.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/mesh.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

static void assert_inside(const ct_cluster_box *inner, const ct_cluster_box *outer) {
    for (int k = 0; k < 3; k++) assert_true(inner->lo[k] >= outer->lo[k] && inner->hi[k] <= outer->hi[k]);
}

static void check_levels(const ct_clusters *c, const ct_cluster_box *boxes) {
    assert_int_equal(c->level[0], 0);
    assert_int_equal(c->level[1], c->n);
    assert_int_equal(c->level[c->n_levels], c->n_nodes);
    assert_int_equal(c->level[c->n_levels] - c->level[c->n_levels - 1], 1); /* one root */
    for (uint32_t l = 0; l + 1 < c->n_levels; l++)
        for (uint32_t i = c->level[l]; i < c->level[l + 1]; i++) {
            const uint32_t parent = c->level[l + 1] + (i - c->level[l]) / CT_CLUSTER_FAN;
            assert_true(parent < c->level[l + 2 <= c->n_levels ? l + 2 : c->n_levels]);
            assert_inside(&boxes[i], &boxes[parent]);
        }
}

/* The lists by their definition: a flag per vertex. */
static void check_lists(const ct_mesh *mesh, const ct_clusters *c, const float *positions,
                        const ct_cluster_box *boxes) {
    uint8_t *is_used = malloc(mesh->n_vertices), *is_used_at_all = calloc(mesh->n_vertices, 1);
    assert_int_equal(c->n, (mesh->n_triangles + CT_CLUSTER_TRIANGLES - 1) / CT_CLUSTER_TRIANGLES);
    for (uint32_t i = 0; i < c->n; i++) {
        memset(is_used, 0, mesh->n_vertices);
        uint32_t n = 0;
        float lo[3] = {1e30f, 1e30f, 1e30f}, hi[3] = {-1e30f, -1e30f, -1e30f};
        for (uint32_t t = i * CT_CLUSTER_TRIANGLES; t < (i + 1) * CT_CLUSTER_TRIANGLES && t < mesh->n_triangles; t++)
            for (int k = 0; k < 3; k++) {
                const uint32_t v = mesh->triangles[3 * (size_t)t + (size_t)k];
                n += !is_used[v];
                is_used[v] = is_used_at_all[v] = 1;
                for (int a = 0; a < 3; a++) {
                    const float x = positions[3 * (size_t)v + (size_t)a];
                    lo[a] = x < lo[a] ? x : lo[a];
                    hi[a] = x > hi[a] ? x : hi[a];
                }
            }
        assert_int_equal(c->first_vertex[i + 1] - c->first_vertex[i], n);
        for (uint32_t j = c->first_vertex[i]; j < c->first_vertex[i + 1]; j++) {
            assert_true(is_used[c->vertices[j]]);
            if (j > c->first_vertex[i]) assert_true(c->vertices[j] > c->vertices[j - 1]);
        }
        for (int a = 0; a < 3; a++) assert_true(boxes[i].lo[a] == lo[a] && boxes[i].hi[a] == hi[a]);
    }
    uint32_t unused = 0;
    for (uint32_t v = 0; v < mesh->n_vertices; v++) unused += !is_used_at_all[v];
    assert_int_equal(c->has_all_vertices, unused == 0);
    free(is_used);
    free(is_used_at_all);
}

static void check(struct shape shape) {
    ct_mesh *mesh = shape_to_mesh(&shape, NULL);
    assert_non_null(mesh);
    ct_mesh_info info;
    ct_error error = {0};
    const ct_clusters *c = ct_mesh_clusters(mesh, &error);
    assert_non_null(c);
    assert_ptr_equal(ct_mesh_clusters(mesh, &error), c);
    ct_mesh_get_info(mesh, &info);
    assert_true(info.bytes > 12 * (info.vertices + info.triangles) + 4 * (uint64_t)c->first_vertex[c->n]);
    check_lists(mesh, c, mesh->positions, c->rest);
    check_levels(c, c->rest);

    float *moved = malloc(12 * (size_t)mesh->n_vertices);
    uint64_t rng = 5;
    for (size_t i = 0; i < 3 * (size_t)mesh->n_vertices; i++)
        moved[i] = mesh->positions[i] + (float)shape_uniform(&rng, -0.3, 0.3);
    ct_cluster_box *boxes = malloc(c->n_nodes * sizeof *boxes);
    ct_clusters_refit(c, moved, 0, c->n / 2, boxes); /* in parts */
    ct_clusters_refit(c, moved, c->n / 2, c->n, boxes);
    ct_clusters_refit_tree(c, boxes);
    check_lists(mesh, c, moved, boxes);
    check_levels(c, boxes);
    free(boxes);
    free(moved);
    ct_mesh_release(&mesh);
    shape_free(&shape);
}

static void test_every_shape(void **state) {
    (void)state;
    check(shape_tetrahedron(1));
    check(shape_cube(2, 3));
    check(shape_torus(1, 0.4, 40, 30));
    check(shape_icosphere(1, 4)); /* 5,120 triangles: 40 clusters, three levels */
    check(shape_torus(1, 0.4, 300, 150));
}

static void test_unused_vertices(void **state) {
    (void)state;
    const float positions[5][3] = {{9, 9, 9}, {0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    const uint32_t triangles[4][3] = {{1, 3, 2}, {1, 2, 4}, {1, 4, 3}, {2, 3, 4}};
    ct_mesh *mesh = NULL;
    ct_error error = {0};
    assert_int_equal(ct_mesh_create(positions, CT_F32, 5, triangles, 4, NULL, &mesh, &error), CT_OK);
    const ct_clusters *c = ct_mesh_clusters(mesh, &error);
    assert_false(c->has_all_vertices);
    assert_true(c->rest[0].hi[0] == 1);
    ct_mesh_release(&mesh);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_shape), cmocka_unit_test(test_unused_vertices)};
    return cmocka_run_group_tests_name("clusters", tests, NULL, NULL);
}
