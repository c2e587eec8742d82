/* test_rigid_clusters.c - positions and boxes of blocks by cluster against the mesh; boxes on the lattice against the
 * triangles in them, so that no two triangles that may be near each other are left out; and the memory of a mesh. */
#include "gpu/methods/exact/topology.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/mesh/mesh.h"
#include "gpu/methods/exact/exact_cpu.h"
#include "tests/scenes/build.h"
#include "tests/unit/unit.h"

static uint32_t triangles_in(const ct_mesh *mesh, uint32_t cluster) {
    const uint32_t left = mesh->n_triangles - cluster * CT_CLUSTER_TRIANGLES;
    return left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES;
}

static ct_mesh *make_mesh(struct shape shape) {
    ct_error error = {0};
    ct_mesh *mesh = shape_to_mesh(&shape, &error);
    assert_non_null(mesh);
    shape_free(&shape);
    return mesh;
}

static void check_positions(const ct_mesh *mesh, const ct_topology *t, const ct_rigid_clusters *rigid) {
    for (uint32_t i = 0; i < mesh->n_triangles; i++)
        for (int k = 0; k < 3; k++) {
            const float *p = rigid->positions[t->clusters->first_vertex[i / CT_CLUSTER_TRIANGLES] + t->corners[i][k]];
            assert_memory_equal(p, mesh->positions + 3 * (size_t)mesh->triangles[3 * (size_t)i + (size_t)k],
                                3 * sizeof(float));
        }
}

/* Corner i of the mesh's triangles, cluster by cluster and block by block. */
static const float *corner_in_order(const ct_mesh *mesh, const uint8_t *order, size_t i) {
    const size_t t = i / 3, triangle = t / CT_CLUSTER_TRIANGLES * CT_CLUSTER_TRIANGLES + order[t];
    return mesh->positions + 3 * (size_t)mesh->triangles[3 * triangle + i % 3];
}

/* Blocks contain their triangles, and are not much larger. */
static void check_blocks(const ct_mesh *mesh, const ct_topology *topology, const ct_rigid_clusters *rigid) {
    const ct_clusters *clusters = topology->clusters;
    for (uint32_t i = 0; i < clusters->n * CT_EXACT_BLOCKS; i++) {
        const uint32_t cluster = i / CT_EXACT_BLOCKS, block = i % CT_EXACT_BLOCKS;
        const uint8_t(*inset)[CT_EXACT_BLOCKS] = rigid->blocks[cluster].inset;
        for (int k = 0; k < 3; k++) {
            const ct_cluster_box *whole = &clusters->rest[cluster];
            const double step = ct_block_step(whole, k), slack = 2.1 * step;
            const double from = (double)whole->lo[k] + inset[k][block] * step,
                         to = (double)whole->hi[k] - inset[3 + k][block] * step;
            double lo = INFINITY, hi = -INFINITY;
            for (uint32_t c = 3 * CT_EXACT_BLOCK * i; c < 3 * CT_EXACT_BLOCK * (i + 1); c++) {
                if (c >= 3 * mesh->n_triangles) break;
                const double x = (double)corner_in_order(mesh, topology->block_order, c)[k];
                lo = fmin(lo, x);
                hi = fmax(hi, x);
            }
            if (lo > hi)
                assert_true(inset[k][block] == 255 && inset[3 + k][block] == 255);
            else
                assert_true(from <= lo && lo <= from + slack && hi <= to && to <= hi + slack);
        }
    }
}

static void check_rest(struct shape shape) {
    ct_error error = {0};
    ct_mesh *mesh = make_mesh(shape);
    const ct_rigid_clusters *rigid = ct_mesh_rigid_clusters(mesh, &error);
    assert_non_null(rigid);
    assert_ptr_equal(ct_mesh_rigid_clusters(mesh, &error), rigid);
    check_positions(mesh, ct_mesh_topology(mesh, &error), rigid);
    check_blocks(mesh, ct_mesh_topology(mesh, &error), rigid);
    ct_mesh_release(&mesh);
}

/* Half the surface of the boxes of all full blocks, by this order in each cluster. */
static double sum_faces(const ct_mesh *mesh, const uint8_t *order) {
    double sum = 0;
    for (size_t first = 0; first + CT_EXACT_BLOCK <= mesh->n_triangles; first += CT_EXACT_BLOCK) {
        double size[3];
        for (int k = 0; k < 3; k++) {
            double lo = INFINITY, hi = -INFINITY;
            for (size_t c = 3 * first; c < 3 * (first + CT_EXACT_BLOCK); c++) {
                lo = fmin(lo, (double)corner_in_order(mesh, order, c)[k]);
                hi = fmax(hi, (double)corner_in_order(mesh, order, c)[k]);
            }
            size[k] = hi - lo;
        }
        sum += size[0] * size[1] + size[1] * size[2] + size[2] * size[0];
    }
    return sum;
}

/* Each triangle of a cluster is in one block. Blocks are smaller than runs of the mesh's order by this part at least.
 */
static void check_order(struct shape shape, double least_gain) {
    ct_error error = {0};
    ct_mesh *mesh = make_mesh(shape);
    const uint8_t *order = ct_mesh_topology(mesh, &error)->block_order;
    uint8_t *as_given = shape_alloc(mesh->n_triangles, 1);
    for (uint32_t i = 0; i < mesh->n_triangles; i++) as_given[i] = (uint8_t)(i % CT_CLUSTER_TRIANGLES);
    for (uint32_t c = 0; c < ct_cluster_count(mesh->n_triangles); c++) {
        bool is_listed[CT_CLUSTER_TRIANGLES] = {false};
        for (uint32_t i = 0; i < triangles_in(mesh, c); i++) {
            const uint32_t t = order[c * CT_CLUSTER_TRIANGLES + i];
            assert_true(t < triangles_in(mesh, c) && !is_listed[t]);
            is_listed[t] = true;
        }
    }
    assert_true(sum_faces(mesh, order) <= (1 - least_gain) * sum_faces(mesh, as_given));
    free(as_given);
    ct_mesh_release(&mesh);
}

static void test_order(void **state) {
    (void)state;
    check_order(shape_tetrahedron(1), 0);
    check_order(shape_icosphere(1, 4), 0.2);
    check_order(shape_blob(1, 5, 0.5, 3), 0.2);
    check_order(shape_torus(1, 0.4, 61, 40), 0.2);
    check_order(shape_slab(2, 0.3, 0.004, 5, 20), 0);
}

static void test_rest(void **state) {
    (void)state;
    check_rest(shape_tetrahedron(1));
    check_rest(shape_icosphere(1, 4));
    check_rest(shape_torus(1, 0.4, 61, 40));      /* the last block and the last cluster are not full */
    check_rest(shape_slab(2, 0.3, 0.004, 5, 20)); /* flat clusters along all axes */
}

/* ---- on the lattice ---- */

struct posed {
    ct_mesh *mesh;
    ct_lattice_pose pose;
    const ct_topology *topology;
    ct_placed_cluster *clusters;
    ct_block_boxes *boxes;
};

static void *allocate_aligned(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(memory);
    return memory;
}

static struct posed pose_mesh(const ct_exact_cpu *kernels, struct shape shape, const ct_exact_lattice *lattice,
                              const double pose[12]) {
    ct_error error = {0};
    struct posed p = {.mesh = make_mesh(shape)};
    p.pose = ct_lattice_pose_of(lattice, pose, 2);
    p.topology = ct_mesh_topology(p.mesh, &error);
    const ct_rigid_clusters *rigid = ct_mesh_rigid_clusters(p.mesh, &error);
    const ct_clusters *clusters = p.topology->clusters;
    p.clusters = shape_alloc(clusters->n, sizeof *p.clusters);
    p.boxes = allocate_aligned(clusters->n * sizeof *p.boxes);
    for (uint32_t c = 0; c < clusters->n; c++) {
        const uint32_t first = clusters->first_vertex[c];
        p.clusters[c] = (ct_placed_cluster){.cluster = c,
                                            .n_triangles = triangles_in(p.mesh, c),
                                            .n_vertices = clusters->first_vertex[c + 1] - first,
                                            .first_vertex = first,
                                            .vertices = clusters->vertices + first,
                                            .positions = c % 2 ? rigid->positions + first : NULL,
                                            .corners = p.topology->corners + (size_t)c * CT_CLUSTER_TRIANGLES,
                                            .block_order = p.topology->block_order + (size_t)c * CT_CLUSTER_TRIANGLES,
                                            .blocks = UINT16_MAX};
        p.clusters[c].points = allocate_aligned(p.clusters[c].n_vertices * sizeof *p.clusters[c].points);
        p.clusters[c].floats = allocate_aligned(sizeof *p.clusters[c].floats);
        kernels->place(&p.clusters[c], &(ct_exact_body){.positions = p.mesh->positions, .pose = p.pose});
        kernels->place_blocks(&rigid->blocks[c], &clusters->rest[c], &p.pose, &p.boxes[c]);
    }
    return p;
}

static void free_posed(struct posed *p) {
    for (uint32_t c = 0; c < p->topology->clusters->n; c++) {
        free(p->clusters[c].points);
        free(p->clusters[c].floats);
    }
    free(p->clusters);
    free(p->boxes);
    ct_mesh_release(&p->mesh);
}

/* A block's box contains its triangles' boxes, and the cluster's contains both. */
static void check_containment(const struct posed *p) {
    for (uint32_t c = 0; c < p->topology->clusters->n; c++)
        for (uint32_t t = 0; t < p->clusters[c].n_triangles; t++)
            for (int k = 0; k < 3; k++) {
                const ct_block_boxes *boxes = &p->boxes[c];
                const ct_triangle_floats *floats = p->clusters[c].floats;
                assert_true(boxes->of[k][t / CT_EXACT_BLOCK] <= floats->box[k][t]);
                assert_true(boxes->of[3 + k][t / CT_EXACT_BLOCK] >= floats->box[3 + k][t]);
                assert_true(boxes->lo[k] <= floats->box[k][t] && boxes->hi[k] >= floats->box[3 + k][t]);
            }
}

static bool triangles_meet(const ct_triangle_floats *a, uint32_t ta, const ct_triangle_floats *b, uint32_t tb) {
    for (int k = 0; k < 3; k++)
        if (a->box[k][ta] > b->box[3 + k][tb] || b->box[k][tb] > a->box[3 + k][ta]) return false;
    return true;
}

/* Blocks of triangles whose boxes overlap have met. Returns how many have. */
static uint32_t check_pair(const ct_placed_cluster *a, const ct_placed_cluster *b, const uint16_t met[2]) {
    assert_true((met[0] == 0) == (met[1] == 0));
    for (uint32_t ta = 0; ta < a->n_triangles; ta++)
        for (uint32_t tb = 0; tb < b->n_triangles; tb++)
            if (triangles_meet(a->floats, ta, b->floats, tb))
                assert_true(met[0] >> ta / CT_EXACT_BLOCK & met[1] >> tb / CT_EXACT_BLOCK & 1);
    return (uint32_t)__builtin_popcount(met[0]) + (uint32_t)__builtin_popcount(met[1]);
}

/* The same as by all blocks, where fewer blocks are filled: the others never meet anything. */
static void check_part(const ct_exact_cpu *kernels, struct posed *p, uint32_t cluster) {
    ct_placed_cluster part = p->clusters[cluster];
    part.blocks = 0x0412;
    part.floats = allocate_aligned(sizeof *part.floats);
    kernels->place(&part, &(ct_exact_body){.positions = p->mesh->positions, .pose = p->pose});
    for (uint32_t i = 0; i < CT_EXACT_BLOCKS; i++)
        for (int k = 0; k < 6; k++) {
            const bool is_filled = part.blocks >> i & 1 && i * CT_EXACT_BLOCK < part.n_triangles;
            const float expected = is_filled ? p->clusters[cluster].floats->block[k][i] : k < 3 ? INFINITY : -INFINITY;
            assert_true(part.floats->block[k][i] == expected);
        }
    free(part.floats);
}

static void check_lattice(const ct_exact_cpu *kernels, double distance) {
    uint64_t rng = 7;
    uint32_t n_met = 0, n_blocks = 0;
    for (int round = 0; round < 2; round++) {
        double pose[2][12];
        const double far[3] = {distance, -0.4 * distance, 0};
        ct_exact_lattice lattice = {.unit = 0x1p-36, .inverse = 0x1p36};
        for (int b = 0; b < 2; b++) shape_pose_random(&rng, 0.3, pose[b]);
        for (int k = 0; k < 3; k++) lattice.origin[k] = far[k];
        for (int b = 0; b < 2; b++)
            for (int k = 0; k < 3; k++) pose[b][4 * k + 3] += far[k] + (b && !k ? 1.2 : 0);
        struct posed a = pose_mesh(kernels, shape_torus(0.7, 0.3, 61, 30), &lattice, pose[0]);
        struct posed b = pose_mesh(kernels, shape_icosphere(1, 4), &lattice, pose[1]);
        check_containment(&a);
        check_containment(&b);
        for (uint32_t i = 0; i < a.topology->clusters->n; i++) check_part(kernels, &a, i);
        for (uint32_t i = 0; i < a.topology->clusters->n; i++)
            for (uint32_t j = 0; j < b.topology->clusters->n; j++) {
                uint16_t met[2];
                kernels->meet_blocks(&a.boxes[i], &b.boxes[j], met);
                n_met += check_pair(&a.clusters[i], &b.clusters[j], met);
                n_blocks += 2 * CT_EXACT_BLOCKS;
            }
        free_posed(&a);
        free_posed(&b);
    }
    assert_true(n_met > 0 && n_met < n_blocks / 4);
}

static void test_lattice(void **state) {
    (void)state;
    check_lattice(&ct_exact_cpu_base, 0);
    check_lattice(&ct_exact_cpu_base, 500);
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx2")) return;
    check_lattice(&ct_exact_cpu_avx2, 0);
    check_lattice(&ct_exact_cpu_avx2, 500);
#endif
}

/* ---- memory ---- */

/* Bytes a triangle beside positions and indices. */
static void check_memory(struct shape shape, double most) {
    ct_error error = {0};
    ct_mesh *mesh = make_mesh(shape);
    assert_non_null(ct_mesh_topology(mesh, &error));
    assert_non_null(ct_mesh_rigid_clusters(mesh, &error));
    const double bytes = (double)mesh->slot_bytes / mesh->n_triangles;
    printf("%u triangles, %.1f bytes a triangle\n", mesh->n_triangles, bytes);
    assert_true(bytes <= most);
    ct_mesh_release(&mesh);
}

static void test_memory(void **state) {
    (void)state;
    check_memory(shape_icosphere(1, 5), 24);
    check_memory(shape_torus(1, 0.4, 150, 100), 24);
    check_memory(shape_blob(1, 5, 0.5, 3), 24);
    check_memory(shape_bolt(1, 0.2, 0.3, 20, 100, 16), 24);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rest), cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_lattice), cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
