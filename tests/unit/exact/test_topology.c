/* test_topology.c - units, walks, neighbours and components of meshes against their definitions, by brute force. */
#include "gpu/methods/exact/topology.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/mesh.h"
#include "tests/scenes/build.h"
#include "tests/unit/unit.h"

static uint32_t find_root(uint32_t *parent, uint32_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
}

static uint32_t triangles_in(const ct_mesh *mesh, uint32_t cluster) {
    const uint32_t left = mesh->n_triangles - cluster * CT_CLUSTER_TRIANGLES;
    return left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES;
}

/* The mesh's vertex at a corner of a cluster's triangle. */
static uint32_t vertex_at(const ct_topology *t, uint32_t cluster, uint32_t triangle, uint32_t corner) {
    const uint16_t local = t->corners[(size_t)cluster * CT_CLUSTER_TRIANGLES + triangle][corner];
    return t->clusters->vertices[t->clusters->first_vertex[cluster] + local];
}

static void check_corners(const ct_mesh *mesh, const ct_topology *t) {
    for (uint32_t i = 0; i < mesh->n_triangles; i++)
        for (uint32_t k = 0; k < 3; k++)
            assert_int_equal(vertex_at(t, i / CT_CLUSTER_TRIANGLES, i % CT_CLUSTER_TRIANGLES, k),
                             mesh->triangles[3 * (size_t)i + k]);
}

/* Two triangles of a cluster are in one unit if vertices connect them within the cluster. */
static void check_units(const ct_mesh *mesh, const ct_topology *t) {
    uint32_t *parent = shape_alloc(mesh->n_vertices, sizeof *parent);
    assert_int_equal(t->first_unit[0], 0);
    assert_int_equal(t->first_unit[t->clusters->n], t->n_units);
    for (uint32_t c = 0; c < t->clusters->n; c++) {
        const uint32_t n = triangles_in(mesh, c), n_units = t->first_unit[c + 1] - t->first_unit[c];
        const uint8_t *unit = t->unit_in_cluster + (size_t)c * CT_CLUSTER_TRIANGLES;
        uint32_t root_of_unit[CT_CLUSTER_TRIANGLES], n_roots = 0;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < 3; k++) parent[vertex_at(t, c, i, k)] = vertex_at(t, c, i, k);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 1; k < 3; k++)
                parent[find_root(parent, vertex_at(t, c, i, k))] = find_root(parent, vertex_at(t, c, i, 0));
        memset(root_of_unit, -1, sizeof root_of_unit);
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t root = find_root(parent, vertex_at(t, c, i, 0));
            assert_true(unit[i] < n_units);
            if (root_of_unit[unit[i]] == UINT32_MAX) {
                for (uint32_t u = 0; u < n_units; u++) assert_int_not_equal(root_of_unit[u], root);
                root_of_unit[unit[i]] = root;
                n_roots++;
            }
            assert_int_equal(root_of_unit[unit[i]], root);
        }
        assert_int_equal(n_roots, n_units);
        for (uint32_t u = t->first_unit[c]; u < t->first_unit[c + 1]; u++) assert_int_equal(t->cluster_of_unit[u], c);
    }
    free(parent);
}

/* Every vertex of a cluster is reached once, unit by unit, from one that was reached before, along an edge of a
 * triangle of that unit. */
static void check_walks(const ct_topology *t) {
    for (uint32_t c = 0; c < t->clusters->n; c++) {
        uint8_t is_reached[3 * CT_CLUSTER_TRIANGLES] = {0};
        const uint16_t(*corners)[3] = t->corners + (size_t)c * CT_CLUSTER_TRIANGLES;
        const uint8_t *unit_in_cluster = t->unit_in_cluster + (size_t)c * CT_CLUSTER_TRIANGLES;
        uint32_t n_starts = 0;
        for (uint32_t i = t->clusters->first_vertex[c]; i < t->clusters->first_vertex[c + 1]; i++) {
            const ct_walk_step step = t->walk[i];
            const uint32_t triangle = ct_walk_triangle(step), from = ct_walk_from(step), to = ct_walk_to(step);
            assert_true(from < 3 && to < 3);
            n_starts += from == to;
            assert_int_equal(unit_in_cluster[triangle] + 1, n_starts);
            if (from != to) assert_true(is_reached[corners[triangle][from]]);
            assert_false(is_reached[corners[triangle][to]]);
            is_reached[corners[triangle][to]] = 1;
        }
        assert_int_equal(n_starts, t->first_unit[c + 1] - t->first_unit[c]);
    }
}

/* A vertex is in several runs if triangles of different runs have it. */
static void check_runs(const ct_mesh *mesh, const ct_topology *t) {
    enum { RUN_TRIANGLES = CT_RUN_CLUSTERS * CT_CLUSTER_TRIANGLES };
    uint32_t *first_run = shape_alloc(mesh->n_vertices, sizeof *first_run);
    bool *is_in_several = shape_alloc(mesh->n_vertices, sizeof *is_in_several);
    memset(first_run, -1, mesh->n_vertices * sizeof *first_run);
    for (uint32_t i = 0; i < 3 * mesh->n_triangles; i++) {
        const uint32_t v = mesh->triangles[i], run = i / 3 / RUN_TRIANGLES;
        if (first_run[v] == UINT32_MAX) first_run[v] = run;
        if (first_run[v] != run) is_in_several[v] = true;
    }
    for (uint32_t i = 0; i < t->clusters->first_vertex[t->clusters->n]; i++)
        assert_int_equal(t->in_several_runs[i / 64] >> i % 64 & 1, is_in_several[t->clusters->vertices[i]]);
    free(first_run);
    free(is_in_several);
}

/* A unit's vertices: of the mesh, by brute force. */
static bool has_vertex(const ct_mesh *mesh, const ct_topology *t, uint32_t unit, uint32_t vertex) {
    const uint32_t c = t->cluster_of_unit[unit];
    for (uint32_t i = 0; i < triangles_in(mesh, c); i++)
        for (uint32_t k = 0; k < 3; k++)
            if (t->unit_in_cluster[(size_t)c * CT_CLUSTER_TRIANGLES + i] == unit - t->first_unit[c] &&
                vertex_at(t, c, i, k) == vertex)
                return true;
    return false;
}

/* share[u * n_units + v]: units u and v share a vertex. */
static void check_neighbours(const ct_mesh *mesh, const ct_topology *t) {
    const uint32_t n = t->n_units;
    uint8_t *share = shape_alloc((uint64_t)n * n, 1);
    uint32_t *first = shape_alloc(mesh->n_vertices + 1, sizeof *first), *parent = shape_alloc(n, sizeof *parent);
    uint32_t *last = shape_alloc(mesh->n_vertices, sizeof *last), *next, n_uses = 0;
    memset(last, -1, mesh->n_vertices * sizeof *last);
    /* Lists of the corners at each vertex. */
    next = shape_alloc(3 * (uint64_t)mesh->n_triangles, sizeof *next);
    for (; n_uses < 3 * mesh->n_triangles; n_uses++) {
        next[n_uses] = last[mesh->triangles[n_uses]];
        last[mesh->triangles[n_uses]] = n_uses;
    }
    for (uint32_t v = 0; v < mesh->n_vertices; v++)
        for (uint32_t a = last[v]; a != UINT32_MAX; a = next[a])
            for (uint32_t b = last[v]; b != UINT32_MAX; b = next[b]) {
                const uint32_t ta = a / 3, tb = b / 3;
                const uint32_t ua = t->first_unit[ta / CT_CLUSTER_TRIANGLES] + t->unit_in_cluster[ta];
                const uint32_t ub = t->first_unit[tb / CT_CLUSTER_TRIANGLES] + t->unit_in_cluster[tb];
                if (ua != ub) share[(size_t)ua * n + ub] = 1;
            }
    for (uint32_t u = 0; u < n; u++) parent[u] = u;
    for (uint32_t u = 0; u < n; u++) {
        for (uint32_t i = t->first_neighbour[u]; i < t->first_neighbour[u + 1]; i++) {
            const ct_unit_neighbour other = t->neighbours[i];
            assert_int_equal(share[(size_t)u * n + other.unit], 1); /* once */
            share[(size_t)u * n + other.unit] = 2;
            const ct_clusters *clusters = t->clusters;
            const uint32_t own = clusters->vertices[clusters->first_vertex[t->cluster_of_unit[u]] + other.own_vertex];
            const uint32_t its =
                clusters->vertices[clusters->first_vertex[t->cluster_of_unit[other.unit]] + other.its_vertex];
            assert_int_equal(own, its);
            assert_true(has_vertex(mesh, t, u, own) && has_vertex(mesh, t, other.unit, own));
            parent[find_root(parent, u)] = find_root(parent, other.unit);
        }
    }
    uint32_t n_components = 0;
    for (size_t i = 0; i < (size_t)n * n; i++) assert_int_not_equal(share[i], 1); /* none is missing */
    for (uint32_t u = 0; u < n; u++) {
        assert_true(t->component_of_unit[u] < t->n_components);
        assert_int_equal(find_root(parent, u), find_root(parent, t->first_of_component[t->component_of_unit[u]]));
        assert_true(t->first_of_component[t->component_of_unit[u]] <= u);
        n_components += find_root(parent, u) == u;
    }
    assert_int_equal(t->n_components, n_components);
    assert_int_equal(t->n_components, mesh->components);
    free(share);
    free(first);
    free(parent);
    free(last);
    free(next);
}

static void check(struct shape shape, uint32_t n_components) {
    ct_error error = {0};
    ct_mesh *mesh = shape_to_mesh(&shape, &error);
    assert_non_null(mesh);
    const ct_topology *t = ct_mesh_topology(mesh, &error);
    assert_non_null(t);
    assert_ptr_equal(ct_mesh_topology(mesh, &error), t);
    check_corners(mesh, t);
    check_units(mesh, t);
    check_walks(t);
    check_runs(mesh, t);
    check_neighbours(mesh, t);
    assert_int_equal(t->n_components, n_components);
    ct_mesh_release(&mesh);
    shape_free(&shape);
}

/* n^3 copies, each its own component. */
static struct shape copies(struct shape part, uint32_t n, double pitch) {
    struct shape all = shape_begin((uint64_t)n * n * n * part.n_vertices, (uint64_t)n * n * n * part.n_triangles);
    for (uint32_t i = 0; i < n * n * n; i++) {
        const uint32_t first = all.n_vertices;
        const double at[3] = {pitch * (i % n), pitch * (i / n % n), pitch * (i / n / n)};
        for (uint32_t v = 0; v < part.n_vertices; v++) {
            const float *p = part.positions + 3 * (size_t)v;
            shape_add_vertex(&all, (double)p[0] + at[0], (double)p[1] + at[1], (double)p[2] + at[2]);
        }
        for (uint32_t t = 0; t < part.n_triangles; t++) {
            const uint32_t *v = part.triangles + 3 * (size_t)t;
            shape_add_triangle(&all, first + v[0], first + v[1], first + v[2]);
        }
    }
    shape_free(&part);
    return all;
}

static void test_connected_shapes(void **state) {
    (void)state;
    check(shape_tetrahedron(1), 1);
    check(shape_box(1, 1, 1), 1);
    check(shape_icosphere(1, 2), 1);
    check(shape_torus(1, 0.4, 90, 40), 1);
    check(shape_blob(1, 4, 0.5, 3), 1);
    check(shape_cylinder(1, 2, 500), 1); /* fans: a vertex in many units */
    check(shape_bolt(1, 0.2, 0.3, 4, 40, 16), 1);
}

static void test_many_pieces(void **state) {
    (void)state;
    check(copies(shape_tetrahedron(0.5), 7, 1), 343); /* tens of units a cluster */
    check(copies(shape_box(1, 1, 1), 6, 1), 216);     /* which touch, but share no vertices */
    check(copies(shape_box(1, 1, 1), 5, 0.5), 125);   /* which overlap each other */
    check(copies(shape_icosphere(1, 2), 2, 0), 8);    /* which coincide */
}

/* Pieces that share a vertex are connected. */
static void test_shared_vertices(void **state) {
    (void)state;
    struct shape fan = shape_begin(1 + 3 * 200, 4 * 200);
    shape_add_vertex(&fan, 0, 0, 0);
    for (uint32_t i = 0; i < 200; i++) {
        const double x = 1 + i % 20, y = 1 + i / 20.0;
        const uint32_t a = shape_add_vertex(&fan, x, y, 5), b = shape_add_vertex(&fan, x + 0.02, y, 5),
                       c = shape_add_vertex(&fan, x, y + 0.02, 5);
        shape_add_triangle(&fan, 0, b, a);
        shape_add_triangle(&fan, 0, c, b);
        shape_add_triangle(&fan, 0, a, c);
        shape_add_triangle(&fan, a, b, c);
    }
    check(fan, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connected_shapes),
        cmocka_unit_test(test_many_pieces),
        cmocka_unit_test(test_shared_vertices),
    };
    return cmocka_run_group_tests_name("topology of clusters", tests, NULL, NULL);
}
