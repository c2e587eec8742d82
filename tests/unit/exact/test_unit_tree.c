/* test_unit_tree.c - the spanning forest of a mesh's units: every link joins neighbours at a vertex that both have, and
 * the units below a link follow each other. */
#include "gpu/methods/exact/topology.h"

#include <stdlib.h>

#include "gpu/mesh/mesh.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

static uint32_t vertex_of(const ct_topology *t, uint32_t unit, uint16_t vertex) {
    return t->clusters->vertices[t->clusters->first_vertex[t->cluster_of_unit[unit]] + vertex];
}

static bool is_below(const ct_unit_link *links, uint32_t unit, uint32_t top) {
    while (unit != CT_NO_PARENT && unit != top) unit = links[unit].parent;
    return unit == top;
}

static void check_tree(const ct_topology *t) {
    ct_unit_link *links = malloc(t->n_units * sizeof *links);
    bool *is_taken = calloc(t->n_units, sizeof *is_taken);
    assert_non_null(links);
    assert_non_null(is_taken);
    assert_true(ct_make_unit_tree(t, links));
    uint32_t roots = 0;
    for (uint32_t unit = 0; unit < t->n_units; unit++) {
        const ct_unit_link link = links[unit];
        assert_true(link.first < link.end && link.end <= t->n_units);
        assert_false(is_taken[link.first]);
        is_taken[link.first] = true;
        if (link.parent == CT_NO_PARENT) {
            assert_int_equal(unit, t->first_of_component[t->component_of_unit[unit]]);
            roots++;
        } else {
            assert_int_equal(t->component_of_unit[unit], t->component_of_unit[link.parent]);
            assert_int_equal(vertex_of(t, unit, link.own_vertex), vertex_of(t, link.parent, link.its_vertex));
        }
    }
    assert_int_equal(roots, t->n_components);
    for (uint32_t i = 0; i < t->n_units; i++)
        for (uint32_t j = 0; j < t->n_units; j += 1 + t->n_units / 50)
            assert_int_equal(is_below(links, i, j), links[j].first <= links[i].first && links[i].first < links[j].end);
    free(links);
    free(is_taken);
}

static void test_trees(void **state) {
    (void)state;
    enum { COPIES = 5 };
    struct shape shapes[] = {shape_box(1, 1, 1), shape_torus(1, 0.3, 80, 40), shape_blob(1, 4, 0.4, 3),
                             shape_cube(1, 20), shape_bolt(0.5, 0.2, 0.1, 10, 12, 6)};
    for (int i = 0; i < 5; i++) {
        const struct shape *s = &shapes[i];
        struct shape many = {calloc(COPIES * 3 * (size_t)s->n_vertices, sizeof(float)), COPIES * s->n_vertices,
                             calloc(COPIES * 3 * (size_t)s->n_triangles, sizeof(uint32_t)), COPIES * s->n_triangles};
        assert_true(many.positions && many.triangles);
        for (uint32_t c = 0; c < COPIES; c++) { /* components that share clusters */
            for (uint32_t v = 0; v < 3 * s->n_vertices; v++)
                many.positions[3 * c * s->n_vertices + v] = s->positions[v] + 0.1F * (float)c;
            for (uint32_t k = 0; k < 3 * s->n_triangles; k++)
                many.triangles[3 * c * s->n_triangles + k] = s->triangles[k] + c * s->n_vertices;
        }
        const struct shape *both[2] = {s, &many};
        for (int k = 0; k < 2; k++) {
            ct_mesh *mesh = shape_to_mesh(both[k], NULL);
            const ct_topology *topology = ct_mesh_topology(mesh, NULL);
            assert_non_null(topology);
            assert_int_equal(topology->n_components, k ? COPIES : 1);
            check_tree(topology);
            ct_mesh_release(&mesh);
        }
        shape_free(&many);
        shape_free(&shapes[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_trees)};
    return cmocka_run_group_tests_name("unit tree", tests, NULL, NULL);
}
