/* test_winding.c - from two bodies' clusters to the winding number of each at every vertex of the other: search,
 * crossings, totals and flood together, against rays counted by brute force from bodies that really move by a little.
 *
 * Coordinates are whole numbers from -8 to 8 or so, so that faces, edges and vertices coincide all the time. The ray
 * that counts has them times 2^36, and offsets e = 2^-12, e^2, e^3 of that, so it meets no tie.
 */
#include "gpu/methods/exact/exact_cpu.h"
#include "gpu/methods/exact/predicates_k.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/mesh.h"
#include "tests/scenes/build.h"
#include "tests/unit/unit.h"

/* ---- by brute force ---- */

struct spot {
    int64_t x[3];
};

static struct spot spot_of(const float *p, bool moves) {
    struct spot s;
    for (int k = 0; k < 3; k++) s.x[k] = (int64_t)p[k] * ((int64_t)1 << 36) + (moves ? (int64_t)1 << (24 - 12 * k) : 0);
    return s;
}

/* Of p on the plane, to the left of the line from a to b. */
static int left_of(const struct spot *a, const struct spot *b, const struct spot *p) {
    const ct_int128 area =
        (ct_int128)(b->x[0] - a->x[0]) * (p->x[1] - a->x[1]) - (ct_int128)(b->x[1] - a->x[1]) * (p->x[0] - a->x[0]);
    return (area > 0) - (area < 0);
}

/* Whether a ray from p along +z goes out through the triangle (1), in (-1), or misses it (0). */
static int pass_upwards(const struct spot t[3], const struct spot *p) {
    const int side = left_of(&t[0], &t[1], p);
    if (!side || left_of(&t[1], &t[2], p) != side || left_of(&t[2], &t[0], p) != side) return 0;
    int64_t u[3], v[3], w[3];
    for (int k = 0; k < 3; k++) {
        u[k] = t[1].x[k] - t[0].x[k];
        v[k] = t[2].x[k] - t[0].x[k];
        w[k] = p->x[k] - t[0].x[k];
    }
    const ct_int128 height = ((ct_int128)u[1] * v[2] - (ct_int128)u[2] * v[1]) * w[0] +
                             ((ct_int128)u[2] * v[0] - (ct_int128)u[0] * v[2]) * w[1] +
                             ((ct_int128)u[0] * v[1] - (ct_int128)u[1] * v[0]) * w[2];
    /* Seen from above the triangle is counter-clockwise if its outside is up; then p must be on its inside. */
    return side > 0 ? height < 0 : -(height > 0);
}

static int32_t count_upwards(const ct_mesh *mesh, const float *positions, bool moves, const struct spot *p) {
    int32_t winding = 0;
    for (uint32_t t = 0; t < mesh->n_triangles; t++) {
        struct spot corner[3];
        for (size_t k = 0; k < 3; k++)
            corner[k] = spot_of(positions + 3 * (size_t)mesh->triangles[3 * (size_t)t + k], moves);
        winding += pass_upwards(corner, p);
    }
    return winding;
}

/* ---- by the method ---- */

struct one_body {
    ct_mesh *mesh;
    float *positions;
    ct_exact_body body;
    ct_cluster_box *boxes;
    ct_crossed_cluster *crossed;
    uint32_t *crossed_as, *crossed_clusters, n_crossed;
};

struct two_bodies {
    struct one_body of[2];
    const ct_exact_cpu *kernels;
    const ct_search_cpu *search;
    int first; /* of the flood */
};

/* A cluster on the lattice whose unit is 2^-20, so that few triangles are near without crossing. */
static ct_placed_cluster *place(struct two_bodies *pair, int b, uint32_t cluster) {
    ct_exact_body *body = &pair->of[b].body;
    if (body->placed_as[cluster]) return &body->placed[body->placed_as[cluster] - 1];
    const ct_clusters *clusters = body->topology->clusters;
    const uint32_t first = clusters->first_vertex[cluster], left = body->n_triangles - cluster * CT_CLUSTER_TRIANGLES;
    ct_placed_cluster *c = &body->placed[body->n_placed++];
    *c = (ct_placed_cluster){.cluster = cluster,
                             .first_vertex = first,
                             .blocks = UINT16_MAX,
                             .n_triangles = left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES,
                             .n_vertices = clusters->first_vertex[cluster + 1] - first,
                             .vertices = clusters->vertices + first,
                             .corners = body->topology->corners + (size_t)cluster * CT_CLUSTER_TRIANGLES,
                             .block_order = body->topology->block_order + (size_t)cluster * CT_CLUSTER_TRIANGLES};
    c->points = aligned_alloc(64, (c->n_vertices * sizeof *c->points + 63) / 64 * 64);
    c->floats = aligned_alloc(64, (sizeof *c->floats + 63) / 64 * 64);
    assert_true(c->points && c->floats);
    pair->kernels->place(c, body);
    assert_true(c->residual == 0);
    body->placed_as[cluster] = body->n_placed;
    return c;
}

static const ct_placed_cluster *place_for_flood(void *argument, int i, uint32_t cluster) {
    struct two_bodies *pair = argument;
    return place(pair, i ? 1 - pair->first : pair->first, cluster);
}

static void open_body(struct one_body *one, const struct shape *shape, const float *positions) {
    ct_error error = {0};
    one->mesh = shape_to_mesh(shape, &error);
    assert_non_null(one->mesh);
    const ct_topology *topology = ct_mesh_topology(one->mesh, &error);
    assert_non_null(topology);
    const uint32_t n = topology->clusters->n;
    one->positions = shape_alloc(one->mesh->n_vertices, 3 * sizeof(float));
    memcpy(one->positions, positions, 12 * (size_t)one->mesh->n_vertices);
    one->boxes = shape_alloc(topology->clusters->n_nodes, sizeof *one->boxes);
    ct_clusters_refit(topology->clusters, one->positions, 0, n, one->boxes);
    ct_clusters_refit_tree(topology->clusters, one->boxes);
    const ct_exact_lattice lattice = {.unit = 0x1p-20, .inverse = 0x1p20};
    one->body = (ct_exact_body){.topology = topology,
                                .boxes = one->boxes,
                                .positions = one->positions,
                                .pose = ct_lattice_pose_of(&lattice, NULL, 16),
                                .n_triangles = one->mesh->n_triangles,
                                .placed = shape_alloc(n, sizeof(ct_placed_cluster)),
                                .placed_as = shape_alloc(n, sizeof(uint32_t))};
    one->crossed = shape_alloc(n, sizeof *one->crossed);
    one->crossed_as = shape_alloc(n, sizeof *one->crossed_as);
    one->crossed_clusters = shape_alloc(n, sizeof *one->crossed_clusters);
    one->n_crossed = 0;
}

static void close_body(struct one_body *one) {
    for (uint32_t i = 0; i < one->body.n_placed; i++) {
        free(one->body.placed[i].points);
        free(one->body.placed[i].floats);
    }
    for (uint32_t i = 0; i < one->n_crossed; i++) {
        free(one->crossed[i].triangles);
        free(one->crossed[i].winding);
    }
    free(one->body.placed);
    free(one->body.placed_as);
    free(one->positions);
    free(one->boxes);
    free(one->crossed);
    free(one->crossed_as);
    free(one->crossed_clusters);
    ct_mesh_release(&one->mesh);
}

/* Totals the crossings of one body, cluster by cluster. */
static void total(struct one_body *one, ct_crossing *crossings, size_t n) {
    const ct_clusters *clusters = one->body.topology->clusters;
    ct_crossing **list = shape_alloc(n + 1, sizeof(ct_crossing *));
    for (uint32_t c = 0; c < clusters->n; c++) {
        size_t found = 0;
        for (size_t i = 0; i < n; i++)
            if (crossings[i].triangle / CT_CLUSTER_TRIANGLES == c) list[found++] = &crossings[i];
        if (!found) continue;
        ct_crossed_cluster *crossed = &one->crossed[one->n_crossed];
        crossed->triangles = shape_alloc(CT_CLUSTER_TRIANGLES, sizeof *crossed->triangles);
        crossed->winding = shape_alloc(clusters->first_vertex[c + 1] - clusters->first_vertex[c], sizeof(int32_t));
        assert_true(ct_total_crossings(one->body.topology, c, list, found, crossed));
        one->crossed_clusters[one->n_crossed] = c;
        one->crossed_as[c] = ++one->n_crossed;
    }
    free(list);
}

static void load_triangle(const struct two_bodies *pair, int b, uint32_t triangle, const double *p[3]) {
    const ct_exact_body *body = &pair->of[b].body;
    const ct_placed_cluster *c = &body->placed[body->placed_as[triangle / CT_CLUSTER_TRIANGLES] - 1];
    for (int k = 0; k < 3; k++) p[k] = c->points[c->corners[triangle % CT_CLUSTER_TRIANGLES][k]];
}

/* Each crossing's shares, which kernels compute several at a time, have the bits of ct_cross_pair. */
static void check_shares(const struct two_bodies *pair, const ct_crossing_lists *lists, int moved) {
    const ct_crossing *const found[2] = {lists->of_body[0].data, lists->of_body[1].data};
    assert_int_equal(lists->n[0], lists->n[1]);
    for (size_t i = 0; i < lists->n[0]; i++) {
        const double *p[2][3];
        ct_triangle_share share[2];
        double left_out;
        int has_ties = 0;
        for (int b = 0; b < 2; b++) load_triangle(pair, b, found[b][i].triangle, p[b]);
        const int how = ct_cross_pair((const double *const(*)[3])p, moved, share, &left_out, &has_ties);
        assert_int_equal(how, found[0][i].crosses ? CT_TRIANGLES_CROSS : CT_TRIANGLES_NEAR);
        for (int b = 0; b < 2; b++) {
            const ct_triangle_share *s = &found[b][i].share;
            assert_int_equal(found[b][i].other, found[1 - b][i].triangle);
            assert_memory_equal(&s->integrals, &share[b].integrals, sizeof s->integrals);
            assert_true(s->near_area == share[b].near_area && s->rounding == share[b].rounding);
            assert_memory_equal(s->jump, share[b].jump, sizeof s->jump);
        }
    }
}

/* Crosses the clusters that the search finds; no other two cross. Returns the number of crossings. */
static size_t cross(struct two_bodies *pair, int moved) {
    ct_budget budget = {.limit = 0};
    ct_buffer pairs = {NULL, 0};
    ct_crossing_lists lists = {.is_full = false}, others = {.is_full = false};
    size_t n_pairs;
    assert_true(pair->search->find_pairs(&pair->of[0].body, &pair->of[1].body, &pairs, &n_pairs, &budget));
    const uint32_t n[2] = {pair->of[0].body.topology->clusters->n, pair->of[1].body.topology->clusters->n};
    uint8_t *is_found = shape_alloc((uint64_t)n[0] * n[1] + 1, 1);
    for (size_t i = 0; i < n_pairs; i++) {
        const ct_cluster_pair p = ((const ct_cluster_pair *)pairs.data)[i];
        assert_false(is_found[(size_t)p.a * n[1] + p.b]);
        is_found[(size_t)p.a * n[1] + p.b] = 1;
        pair->kernels->cross(place(pair, 0, p.a), place(pair, 1, p.b), moved, &budget, &lists);
    }
    for (uint32_t a = 0; a < n[0]; a++)
        for (uint32_t b = 0; b < n[1]; b++)
            if (!is_found[(size_t)a * n[1] + b])
                pair->kernels->cross(place(pair, 0, a), place(pair, 1, b), moved, &budget, &others);
    assert_true(!lists.is_full && lists.n_inconsistent == 0 && others.n_inconsistent == 0);
    for (size_t i = 0; i < others.n[0]; i++) assert_false(((const ct_crossing *)others.of_body[0].data)[i].crosses);
    check_shares(pair, &lists, moved);
    for (int b = 0; b < 2; b++) {
        total(&pair->of[b], lists.of_body[b].data, lists.n[b]);
        ct_buffer_free(&lists.of_body[b], &budget);
        ct_buffer_free(&others.of_body[b], &budget);
    }
    ct_buffer_free(&pairs, &budget);
    free(is_found);
    return lists.n[0];
}

struct counts {
    uint64_t vertices, inside, deep, crossings, rays;
};

/* Of a body in each flood, at most. */
enum { CHECKED_POINTS = 6 };

/* Rays from a point of one body along all six directions give the same number. */
static void check_rays(struct two_bodies *pair, int b, const double *p, int moved, int32_t expected) {
    const ct_exact_body *other = &pair->of[1 - b].body;
    for (int direction = 0; direction < 6; direction++) {
        double far[3] = {p[0], p[1], p[2]};
        int32_t winding = 0;
        far[direction / 2] = direction % 2 ? CT_LATTICE_LIMIT : -CT_LATTICE_LIMIT;
        for (uint32_t cluster = 0; cluster < other->topology->clusters->n; cluster++) {
            const ct_placed_cluster *c = place(pair, 1 - b, cluster);
            for (uint32_t t = 0; t < c->n_triangles; t++) {
                const uint16_t *corner = c->corners[t];
                const double *const q[3] = {c->points[corner[0]], c->points[corner[1]], c->points[corner[2]]};
                winding += ct_ray_hit_towards(p, far, q, moved);
            }
        }
        assert_int_equal(winding, expected);
    }
}

/* Floods body b in the other one, and checks the number at every vertex. moved: +1 if the other body is. */
static void check_flood(struct two_bodies *pair, int b, int moved, struct counts *counts) {
    struct one_body *own = &pair->of[b], *other = &pair->of[1 - b];
    const ct_topology *t = own->body.topology;
    pair->first = b;
    ct_flood flood = {.body = {&own->body, &other->body},
                      .moved = moved,
                      .crossed_as = own->crossed_as,
                      .crossed = own->crossed,
                      .crossed_clusters = own->crossed_clusters,
                      .n_crossed = own->n_crossed,
                      .place = place_for_flood,
                      .argument = pair,
                      .is_crossed = shape_alloc(t->n_units, 1),
                      .is_known = shape_alloc(t->n_units, 1),
                      .is_done = shape_alloc(t->n_components, 1),
                      .queue = shape_alloc(t->n_units, sizeof(uint32_t)),
                      .of_unit = shape_alloc(t->n_units, sizeof(int32_t)),
                      .has_inside = shape_alloc((t->clusters->n + 63) / 64, sizeof(uint64_t))};
    assert_true(ct_flood_winding_numbers(&flood));
    int32_t *expected = shape_alloc(own->mesh->n_vertices, sizeof *expected);
    for (uint32_t v = 0; v < own->mesh->n_vertices; v++) {
        const struct spot spot = spot_of(own->positions + 3 * (size_t)v, moved < 0);
        expected[v] = count_upwards(other->mesh, other->positions, moved > 0, &spot);
        counts->vertices++;
        counts->inside += expected[v] != 0;
        counts->deep += expected[v] > 1 || expected[v] < 0;
    }
    for (uint32_t i = 0; i < own->mesh->n_triangles; i++) {
        const uint32_t c = i / CT_CLUSTER_TRIANGLES, as = own->crossed_as[c];
        const uint32_t unit = t->first_unit[c] + t->unit_in_cluster[i];
        for (int k = 0; k < 3; k++) {
            const int32_t winding = flood.of_unit[unit] + (as ? own->crossed[as - 1].winding[t->corners[i][k]] : 0);
            const int32_t at_vertex = expected[own->mesh->triangles[3 * (size_t)i + (size_t)k]];
            assert_int_equal(winding, at_vertex);
            if (at_vertex) assert_true(flood.has_inside[c / 64] >> c % 64 & 1);
            if (k == 0 && i % (own->mesh->n_triangles / CHECKED_POINTS + 1) == 0) {
                const ct_placed_cluster *placed = place(pair, b, c);
                check_rays(pair, b, placed->points[t->corners[i][k]], moved, at_vertex);
            }
        }
    }
    counts->rays += flood.n_rays;
    free(expected);
    free(flood.is_crossed);
    free(flood.is_known);
    free(flood.is_done);
    free(flood.queue);
    free(flood.of_unit);
    free(flood.has_inside);
}

static struct two_bodies begin_pair(int i) {
#ifdef __x86_64__
    if (i % 2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        return (struct two_bodies){.kernels = &ct_exact_cpu_avx2, .search = &ct_search_cpu_avx2};
#endif
    (void)i;
    return (struct two_bodies){.kernels = &ct_exact_cpu_base, .search = &ct_search_cpu_base};
}

/* The shapes are the meshes; the positions may be others. */
static void check(const struct shape *const shapes[2], const float *const positions[2], int number,
                  struct counts *counts) {
    for (int moved = -1; moved <= 1; moved += 2) {
        struct two_bodies pair = begin_pair(number);
        for (int b = 0; b < 2; b++) open_body(&pair.of[b], shapes[b], positions[b]);
        counts->crossings += cross(&pair, moved);
        check_flood(&pair, 0, moved, counts);
        check_flood(&pair, 1, -moved, counts);
        for (int b = 0; b < 2; b++) close_body(&pair.of[b]);
    }
}

static void print_counts(const char *name, const struct counts *counts) {
    print_message("%-18s %7llu vertices, %6llu inside, %6llu of them not once; %7llu crossings, %5llu rays\n", name,
                  (unsigned long long)counts->vertices, (unsigned long long)counts->inside,
                  (unsigned long long)counts->deep, (unsigned long long)counts->crossings,
                  (unsigned long long)counts->rays);
}

/* ---- scenes ---- */

static void append(struct shape *to, struct shape part, double x, double y, double z) {
    struct shape sum = shape_begin(to->n_vertices + part.n_vertices, to->n_triangles + part.n_triangles);
    const struct shape *parts[2] = {to, &part};
    for (int i = 0; i < 2; i++) {
        const uint32_t first = sum.n_vertices;
        for (uint32_t v = 0; v < parts[i]->n_vertices; v++) {
            const float *p = parts[i]->positions + 3 * (size_t)v;
            shape_add_vertex(&sum, (double)p[0] + i * x, (double)p[1] + i * y, (double)p[2] + i * z);
        }
        for (uint32_t t = 0; t < parts[i]->n_triangles; t++) {
            const uint32_t *v = parts[i]->triangles + 3 * (size_t)t;
            shape_add_triangle(&sum, first + v[0], first + v[1], first + v[2]);
        }
    }
    shape_free(to);
    shape_free(&part);
    *to = sum;
}

/* Boxes of even sizes at random: many components, nested, side by side, overlapping each other. */
static struct shape random_boxes(uint64_t *rng, int n) {
    struct shape all = {0};
    for (int i = 0; i < n; i++) {
        double size[3], at[3];
        for (int k = 0; k < 3; k++) {
            size[k] = 2 * (double)(1 + shape_random(rng) % 3);
            at[k] = (double)(shape_random(rng) % 9) - 4;
        }
        append(&all, shape_random(rng) % 4 ? shape_box(size[0], size[1], size[2]) : shape_cube(4, 4), at[0], at[1],
               at[2]);
    }
    return all;
}

static void test_random_boxes(void **state) {
    (void)state;
    uint64_t rng = 1;
    struct counts counts = {0};
    for (int i = 0; i < 40; i++) {
        struct shape a = random_boxes(&rng, 1 + i % 30), b = random_boxes(&rng, 1 + (7 * i) % 20);
        check((const struct shape *[]){&a, &b}, (const float *[]){a.positions, b.positions}, i, &counts);
        shape_free(&a);
        shape_free(&b);
    }
    print_counts("boxes", &counts);
    assert_true(counts.deep > 1000 && counts.rays > 100);
}

/* Vertices anywhere on a small grid: flat triangles, folds, surfaces inside out. */
static void test_random_surfaces(void **state) {
    (void)state;
    uint64_t rng = 2;
    struct counts counts = {0};
    for (int i = 0; i < 90; i++) {
        struct shape a = i % 3 ? shape_icosphere(1, i % 2) : shape_torus(1, 0.4, 20, 12),
                     b = i % 5 ? shape_torus(1, 0.4, 5, 4) : shape_icosphere(1, 2);
        struct shape moved[2] = {shape_copy(&a), shape_copy(&b)};
        const uint64_t grid = 2 + (uint64_t)i % 5;
        for (int body = 0; body < 2; body++)
            for (size_t k = 0; k < 3 * (size_t)moved[body].n_vertices; k++)
                moved[body].positions[k] = (float)(shape_random(&rng) % grid);
        check((const struct shape *[]){&a, &b}, (const float *[]){moved[0].positions, moved[1].positions}, i, &counts);
        for (int body = 0; body < 2; body++) shape_free(&moved[body]);
        shape_free(&a);
        shape_free(&b);
    }
    print_counts("surfaces", &counts);
    assert_true(counts.deep > 1000);
}

/* Meshes of tens of clusters, rounded to the grid, so that triangles are flat or coincide. */
static void test_large_meshes(void **state) {
    (void)state;
    uint64_t rng = 3;
    struct counts counts = {0};
    for (int i = 0; i < 4; i++) {
        struct shape a = shape_blob(7, 4, 0.5, 5 + (uint64_t)i), b = shape_torus(6, 2.5, 60, 30);
        append(&a, shape_icosphere(3, 3), 0, 0, 0);
        struct shape moved[2] = {shape_copy(&a), shape_copy(&b)};
        double pose[12];
        shape_pose_random(&rng, 2, pose);
        shape_transform(&moved[1], pose);
        for (int body = 0; body < 2; body++)
            for (size_t k = 0; k < 3 * (size_t)moved[body].n_vertices; k++)
                moved[body].positions[k] = rintf(moved[body].positions[k]);
        check((const struct shape *[]){&a, &b}, (const float *[]){moved[0].positions, moved[1].positions}, i, &counts);
        for (int body = 0; body < 2; body++) shape_free(&moved[body]);
        shape_free(&a);
        shape_free(&b);
    }
    print_counts("large meshes", &counts);
    assert_true(counts.inside > 2000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_boxes),
        cmocka_unit_test(test_random_surfaces),
        cmocka_unit_test(test_large_meshes),
    };
    return cmocka_run_group_tests_name("winding numbers of exact", tests, NULL, NULL);
}
