/* test_cross.c - crosses the triangles of two clusters, by pairs of triangles that touch in all ways: both
 * perturbations at once are those one after the other, twins crossed once are those crossed both ways, and of triangles
 * whose boxes all overlap few are looked at. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/mesh.h"
#include "gpu/methods/exact/exact_cpu.h"
#include "tests/scenes/build.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

enum { MOST_CLUSTERS = 64 };

/* A body on the lattice, with all of its clusters placed. */
struct body {
    ct_mesh *mesh;
    ct_placed_cluster clusters[MOST_CLUSTERS];
    uint32_t n;
};

static const ct_exact_cpu *const *list_kernels(int *n) {
    static const ct_exact_cpu *kernels[2] = {&ct_exact_cpu_base, NULL};
    *n = 1;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        kernels[(*n)++] = &ct_exact_cpu_avx2;
#endif
    return kernels;
}

static void open_body(struct body *body, const ct_exact_cpu *kernels, const struct shape *shape, const double *pose) {
    ct_error error = {0};
    memset(body, 0, sizeof *body);
    body->mesh = shape_to_mesh(shape, &error);
    assert_non_null(body->mesh);
    const ct_topology *topology = ct_mesh_topology(body->mesh, &error);
    assert_non_null(topology);
    const ct_clusters *clusters = topology->clusters;
    const ct_exact_lattice lattice = {.unit = 0x1p-30, .inverse = 0x1p30};
    const ct_lattice_pose on_lattice = ct_lattice_pose_of(&lattice, pose, 4);
    assert_true(clusters->n <= MOST_CLUSTERS);
    for (uint32_t i = 0; i < clusters->n; i++) {
        const uint32_t first = i * CT_CLUSTER_TRIANGLES, left = body->mesh->n_triangles - first;
        ct_placed_cluster *c = &body->clusters[body->n++];
        *c = (ct_placed_cluster){.cluster = i,
                                 .first_vertex = clusters->first_vertex[i],
                                 .blocks = UINT16_MAX,
                                 .n_triangles = left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES,
                                 .n_vertices = clusters->first_vertex[i + 1] - clusters->first_vertex[i],
                                 .vertices = clusters->vertices + clusters->first_vertex[i],
                                 .corners = topology->corners + first,
                                 .block_order = topology->block_order + first};
        c->points = aligned_alloc(64, (c->n_vertices * sizeof *c->points + 63) / 64 * 64);
        c->floats = aligned_alloc(64, (sizeof *c->floats + 63) / 64 * 64);
        assert_true(c->points && c->floats);
        const ct_exact_body placed = {.positions = body->mesh->positions, .pose = on_lattice};
        kernels->place(c, &placed);
    }
}

static void close_body(struct body *body) {
    for (uint32_t i = 0; i < body->n; i++) {
        free(body->clusters[i].points);
        free(body->clusters[i].floats);
    }
    ct_mesh_release(&body->mesh);
}

static ct_budget budget;

static void free_lists(ct_crossing_lists *lists) {
    for (int b = 0; b < 2; b++) ct_buffer_free(&lists->of_body[b], &budget);
}

static int compare(const void *a, const void *b) {
    const ct_crossing *x = a, *y = b;
    if (x->triangle != y->triangle) return x->triangle < y->triangle ? -1 : 1;
    return x->other < y->other ? -1 : x->other > y->other;
}

/* The crossings of a list, sorted, that have this bit; mirrored: those of the other one, too, but of a triangle with
 * itself, that have the other bit. */
struct sorted {
    ct_crossing *of;
    size_t n;
};

static void take(struct sorted *to, const ct_crossing_lists *lists, int of, uint32_t bit, bool drops_diagonal) {
    const ct_crossing *list = lists->of_body[of].data;
    for (size_t i = 0; i < lists->n[of]; i++)
        if ((list[i].passes & bit) && !(drops_diagonal && list[i].triangle == list[i].other)) to->of[to->n++] = list[i];
}

static struct sorted sort(const ct_crossing_lists *lists, int b, uint32_t pass, bool mirrored) {
    struct sorted sorted = {.of = shape_alloc(lists->n[0] + lists->n[1] + 1, sizeof(ct_crossing))};
    take(&sorted, lists, b, 1u << pass, false);
    if (mirrored) take(&sorted, lists, 1 - b, 2u >> pass, true);
    qsort(sorted.of, sorted.n, sizeof *sorted.of, compare);
    return sorted;
}

static void assert_same(struct sorted found, struct sorted expected) {
    assert_int_equal(found.n, expected.n);
    for (size_t i = 0; i < found.n; i++) {
        const ct_crossing *x = &found.of[i], *y = &expected.of[i];
        assert_int_equal(compare(x, y), 0);
        assert_int_equal(x->crosses, y->crosses);
        assert_memory_equal(&x->share.integrals, &y->share.integrals, sizeof x->share.integrals);
        assert_true(x->share.near_area == y->share.near_area && x->share.rounding == y->share.rounding);
        assert_memory_equal(x->share.jump, y->share.jump, sizeof x->share.jump);
    }
    free(found.of);
    free(expected.of);
}

static void assert_same_left_out(const ct_left_out *a, const ct_left_out *b) {
    assert_true(ct_left_out_area(a) == ct_left_out_area(b) && a->residual == b->residual);
}

static void cross_all(const ct_exact_cpu *kernels, const struct body *a, const struct body *b, int moved,
                      ct_crossing_lists *lists) {
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t j = lists->is_twin ? i : 0; j < b->n; j++)
            kernels->cross(&a->clusters[i], &b->clusters[j], moved, &budget, lists);
    assert_true(!lists->is_full && lists->n_inconsistent == 0);
}

/* Adds the numbers of crossings and of pairs that were looked at. */
struct counts {
    size_t crossings, looked_at, ties;
};

static void check_passes(const ct_exact_cpu *kernels, const struct body *a, const struct body *b,
                         struct counts *counts) {
    ct_crossing_lists both = {.has_both = true}, one[2] = {{.is_full = false}, {.is_full = false}};
    cross_all(kernels, a, b, 1, &both);
    for (uint32_t pass = 0; pass < 2; pass++) {
        cross_all(kernels, a, b, pass ? -1 : 1, &one[pass]);
        assert_int_equal(one[pass].has_ties, both.has_ties);
        assert_same_left_out(&both.left_out[pass], &one[pass].left_out[0]);
        for (int of = 0; of < 2; of++) assert_same(sort(&both, of, pass, false), sort(&one[pass], of, 0, false));
        free_lists(&one[pass]);
    }
    counts->crossings += both.n[0];
    counts->looked_at += both.n_looked_at;
    counts->ties += both.has_ties;
    free_lists(&both);
}

/* Body 0's crossings of a body and its copy. */
static void check_twins(const ct_exact_cpu *kernels, const struct body *body, struct counts *counts) {
    ct_crossing_lists once = {.has_both = true, .is_twin = true}, twice = {.has_both = true};
    cross_all(kernels, body, body, 1, &once);
    cross_all(kernels, body, body, 1, &twice);
    assert_true(once.n_looked_at <= twice.n_looked_at * 2 / 3);
    for (uint32_t pass = 0; pass < 2; pass++) {
        assert_same_left_out(&once.left_out[pass], &twice.left_out[pass]);
        assert_same(sort(&once, 0, pass, true), sort(&twice, 0, pass, false));
        assert_same(sort(&once, 0, pass, true), sort(&twice, 1, 1 - pass, false));
    }
    counts->crossings += twice.n[0];
    free_lists(&once);
    free_lists(&twice);
}

/* ---- shapes ---- */

static void set_tetrahedron(struct shape *shape, uint32_t i, double p[4][3]) {
    static const uint32_t corners[4][3] = {{0, 2, 1}, {0, 1, 3}, {1, 2, 3}, {2, 0, 3}};
    double u[3], v[3], w[3];
    for (int k = 0; k < 3; k++) {
        u[k] = p[1][k] - p[0][k];
        v[k] = p[2][k] - p[0][k];
        w[k] = p[3][k] - p[0][k];
    }
    const double volume =
        u[0] * (v[1] * w[2] - v[2] * w[1]) + u[1] * (v[2] * w[0] - v[0] * w[2]) + u[2] * (v[0] * w[1] - v[1] * w[0]);
    for (uint32_t c = 0; c < 4; c++)
        for (uint32_t k = 0; k < 3; k++) {
            shape->positions[12 * (size_t)i + 3 * c + k] = (float)p[c][k];
            shape->triangles[12 * (size_t)i + 3 * c + k] = 4 * i + corners[c][volume > 0 ? k : 2 - k];
        }
}

static struct shape new_tetrahedra(uint32_t n) {
    return (struct shape){shape_alloc(12 * (size_t)n, sizeof(float)), 4 * n, shape_alloc(12 * (size_t)n, 4), 4 * n};
}

/* n * n needles along (1, 1, 1), moved by a part of what is between them: all boxes overlap, and nothing touches. */
static struct shape make_needles(uint32_t n, double moved) {
    static const double u[3] = {0.70710678, -0.70710678, 0}, w[3] = {0.40824829, 0.40824829, -0.81649658};
    const double gap = 0.2 / n, r = 0.2 * gap;
    struct shape shape = new_tetrahedra(n * n);
    for (uint32_t i = 0; i < n * n; i++) {
        const double x = (i % n + moved) * gap, y = (double)(i / n) * gap + moved * gap;
        double p[4][3];
        for (int k = 0; k < 3; k++) {
            const double at = x * u[k] + y * w[k];
            p[0][k] = at + r * u[k];
            p[1][k] = at - r * .5 * u[k] + r * .8 * w[k];
            p[2][k] = at - r * .5 * u[k] - r * .8 * w[k];
            p[3][k] = at + 0.577;
        }
        set_tetrahedron(&shape, i, p);
    }
    return shape;
}

/* n spikes that share their first corner. */
static struct shape make_star(uint32_t n, uint64_t seed) {
    uint64_t rng = seed;
    struct shape loose = new_tetrahedra(n);
    for (uint32_t i = 0; i < n; i++) {
        double p[4][3] = {{0}}, tip[3];
        for (int k = 0; k < 3; k++) tip[k] = shape_uniform(&rng, -1, 1);
        for (int c = 1; c < 4; c++)
            for (int k = 0; k < 3; k++) p[c][k] = tip[k] + shape_uniform(&rng, -0.1, 0.1);
        set_tetrahedron(&loose, i, p);
    }
    for (uint32_t i = 0; i < 3 * loose.n_triangles; i++) /* vertices 4, 8, .. are left over */
        if (loose.triangles[i] % 4 == 0) loose.triangles[i] = 0;
    return loose;
}

/* ---- tests ---- */

static void test_passes(void **state) {
    (void)state;
    int n_kernels;
    const ct_exact_cpu *const *kernels = list_kernels(&n_kernels);
    uint64_t rng = 3;
    struct counts counts = {0, 0, 0};
    struct shape shapes[] = {shape_icosphere(1, 3), shape_blob(1, 3, 0.4, 7), shape_cube(1, 5),   shape_box(1, 1, 1),
                             make_star(60, 1),      make_star(60, 2),         shape_l_prism(1, 1)};
    const int n = sizeof shapes / sizeof *shapes;
    for (int k = 0; k < n_kernels; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                struct body a, b;
                double pose[12], other[12];
                shape_pose_random(&rng, 0.1, pose);
                if ((i + j) % 2) shape_pose_identity(pose);
                memcpy(other, pose, sizeof other);
                other[3] += (i + j) % 3 * 0.25; /* whole parts of cubes' sides, in the same place, too */
                open_body(&a, kernels[k], &shapes[i], pose);
                open_body(&b, kernels[k], &shapes[j], other);
                check_passes(kernels[k], &a, &b, &counts);
                close_body(&a);
                close_body(&b);
            }
    for (int i = 0; i < n; i++) shape_free(&shapes[i]);
    assert_true(counts.ties > 10 * (size_t)n_kernels && counts.crossings > 10000);
}

static void test_twins(void **state) {
    (void)state;
    int n_kernels;
    const ct_exact_cpu *const *kernels = list_kernels(&n_kernels);
    uint64_t rng = 4;
    struct counts counts = {0, 0, 0};
    struct shape shapes[] = {shape_icosphere(1, 3), shape_blob(1, 3, 0.4, 7), shape_cube(1, 5),
                             shape_box(1, 1, 1),    make_star(60, 1),         shape_torus(0.8, 0.3, 20, 10)};
    for (int k = 0; k < n_kernels; k++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int turned = 0; turned < 2; turned++) {
                struct body body;
                double pose[12];
                shape_pose_random(&rng, 0.1, pose);
                if (!turned) shape_pose_identity(pose);
                open_body(&body, kernels[k], &shapes[i], pose);
                check_twins(kernels[k], &body, &counts);
                close_body(&body);
            }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) shape_free(&shapes[i]);
    assert_true(counts.crossings > 1000);
}

/* Of two clusters of needles 16,384 pairs of triangles have boxes that overlap. */
static void test_needles(void **state) {
    (void)state;
    int n_kernels;
    const ct_exact_cpu *const *kernels = list_kernels(&n_kernels);
    struct shape shapes[2] = {make_needles(30, 0), make_needles(30, 0.5)};
    for (int k = 0; k < n_kernels; k++) {
        struct counts counts = {0, 0, 0};
        struct body a, b;
        uint64_t near = 0;
        open_body(&a, kernels[k], &shapes[0], NULL);
        open_body(&b, kernels[k], &shapes[1], NULL);
        check_passes(kernels[k], &a, &b, &counts);
        for (uint32_t i = 0; i < a.n; i++) near += a.clusters[i].floats->turned_box_state == 2;
        assert_int_equal(counts.crossings, 0);
        assert_true(near > a.n / 2); /* most clusters were held against turned boxes */
        assert_true(counts.looked_at < (uint64_t)a.mesh->n_triangles * b.mesh->n_triangles / 20);
        close_body(&a);
        close_body(&b);
    }
    for (int i = 0; i < 2; i++) shape_free(&shapes[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_passes), cmocka_unit_test(test_twins),
                                       cmocka_unit_test(test_needles)};
    return cmocka_run_group_tests_name("cross", tests, NULL, NULL);
}
