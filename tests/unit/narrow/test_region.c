/* test_region.c - the region that both bodies reach into: probes against known insides, clipping that does not depend
 * on the order of corners, regions that hold the whole intersection and little more. */
#include "gpu/methods/ldi/region_k.h"

#include <stdlib.h>
#include <string.h>

#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

static void place(const struct shape *shape, uint32_t vertex, const double pose[12], double p[3]) {
    const float *q = shape->positions + 3 * (size_t)vertex;
    for (int k = 0; k < 3; k++) p[k] = ct_pose_coord(pose + 4 * k, q[0], q[1], q[2]);
}

static ct_box box_of(const struct shape *shape, const double pose[12]) {
    ct_box box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
    for (uint32_t v = 0; v < shape->n_vertices; v++) {
        double p[3];
        place(shape, v, pose, p);
        for (int k = 0; k < 3; k++) {
            box.lo[k] = fmin(box.lo[k], p[k]);
            box.hi[k] = fmax(box.hi[k], p[k]);
        }
    }
    return box;
}

static void corners_of(const struct shape *shape, uint32_t triangle, const double pose[12], const double origin[3],
                       double corner[3][3]) {
    for (int i = 0; i < 3; i++) {
        place(shape, shape->triangles[3 * triangle + (uint32_t)i], pose, corner[i]);
        for (int k = 0; k < 3; k++) corner[i][k] -= origin[k];
    }
}

/* The winding number of a point about a posed shape. */
static int32_t winding_at(const struct shape *shape, const double pose[12], const double at[3], int axis, int sign) {
    const ct_probe probe = {{0, 0, 0}, axis, sign, 1};
    int32_t winding = 0;
    for (uint32_t t = 0; t < shape->n_triangles; t++) {
        double corner[3][3];
        corners_of(shape, t, pose, at, corner);
        winding += ct_crossing_of_probe(&probe, 0x1p24, (const double(*)[3])corner);
    }
    return winding;
}

static void test_probes(void **state) {
    (void)state;
    struct shape torus = shape_torus(1, 0.4, 40, 24), cube = shape_cube(2, 4);
    double pose[12];
    uint64_t rng = 3;
    for (int i = 0; i < 300; i++) {
        double at[3];
        for (int k = 0; k < 3; k++) at[k] = shape_uniform(&rng, -1.5, 1.5);
        const double ring = sqrt(at[0] * at[0] + at[1] * at[1]) - 1, distance = sqrt(ring * ring + at[2] * at[2]);
        shape_pose_identity(pose);
        if (fabs(distance - 0.4) > 0.02)
            for (int face = 0; face < 6; face++)
                assert_int_equal(winding_at(&torus, pose, at, face / 2, face & 1 ? 1 : -1), distance < 0.4);
        /* On a lattice whose rays run through edges and vertices. */
        for (int k = 0; k < 3; k++) at[k] = ((double)(shape_random(&rng) % 13) - 6) * 0.25;
        const double size = fmax(fmax(fabs(at[0]), fabs(at[1])), fabs(at[2]));
        for (int face = 0; face < 6; face++) {
            const int32_t winding = winding_at(&cube, pose, at, face / 2, face & 1 ? 1 : -1);
            if (size != 1) assert_int_equal(winding, size < 1);
        }
    }
    const double on_face[3] = {1, 0.1, 0.3};
    assert_true(winding_at(&cube, pose, on_face, 0, 1) >= CT_WINDING_UNKNOWN - 8);
    shape_free(&torus);
    shape_free(&cube);
}

static void test_clipping(void **state) {
    (void)state;
    const ct_box a = {{0, 0, 0}, {1, 1, 1}}, b = {{-1, -1, -1}, {2, 2, 2}};
    uint64_t rng = 5;
    for (int round = 0; round < 2000; round++) {
        ct_region region;
        assert_true(ct_region_begin(&a, &b, &region));
        if (round % 2) {
            double pose[12];
            shape_pose_random(&rng, 1, pose);
            ct_region_set_direction(&region, (const double[3]){pose[0], pose[4], pose[8]});
            region.lo[3] += 0.3;
            region.hi[3] -= 0.3;
        }
        double corner[3][3];
        for (int i = 0; i < 9; i++) corner[i / 3][i % 3] = shape_uniform(&rng, -0.7, 1.7);
        const double scale = ct_area_scale(&region);
        ct_extent extent[6];
        for (int order = 0; order < 6; order++) {
            double turned[3][3];
            for (int i = 0; i < 3; i++)
                memcpy(turned[i], corner[(order < 3 ? order + i : order + 3 - i) % 3], sizeof turned[i]);
            extent[order] = ct_extent_empty();
            ct_extent_add_surface(&extent[order], &region, scale, (const double(*)[3])turned);
            const ct_extent *e = &extent[order];
            for (int k = 0; k < CT_REGION_AXES; k++)
                assert_true(e->lo[k] == extent->lo[k] && e->hi[k] == extent->hi[k]);
            if (order < 3) assert_memory_equal(e->area, extent->area, sizeof e->area);
            for (int k = 0; k < 3; k++) assert_true(llabs(llabs(e->area[k]) - llabs(extent->area[k])) <= 2);
        }
        /* Random points of the triangle that lie in the region lie in the extent. */
        for (int i = 0; i < 30; i++) {
            const double u = shape_uniform(&rng, 0, 1), v = shape_uniform(&rng, 0, 1 - u);
            double p[4];
            bool is_inside = true;
            for (int k = 0; k < 3; k++)
                p[k] = corner[0][k] + u * (corner[1][k] - corner[0][k]) + v * (corner[2][k] - corner[0][k]);
            p[3] = ct_along(region.direction, p);
            for (int k = 0; k < (region.has_direction ? 4 : 3); k++)
                is_inside = is_inside && p[k] >= region.lo[k] && p[k] <= region.hi[k];
            for (int k = 0; is_inside && k < 4; k++)
                assert_true(p[k] >= extent->lo[k] - 1e-12 && p[k] <= extent->hi[k] + 1e-12);
        }
    }
}

/* ---- narrowing ---- */

static ct_extent measure(const ct_narrowing *n, int body, const struct shape *shape, const double pose[12]) {
    ct_extent e = ct_extent_empty();
    const double scale = ct_narrowing_area_scale(n);
    const bool is_guessing = n->phase == CT_NARROW_GUESS;
    const uint32_t count = is_guessing ? ct_region_sample_count(shape->n_triangles) : shape->n_triangles;
    for (uint32_t i = 0; i < count; i++) {
        double corner[3][3];
        corners_of(shape, is_guessing ? ct_region_sample(i, shape->n_triangles) : i, pose, n->region.origin, corner);
        if (n->phase == CT_NARROW_WINDINGS)
            ct_extent_add_windings(&e, &n->region, &n->probes[body], (const double(*)[3])corner);
        else
            ct_extent_add_surface(&e, &n->region, scale, (const double(*)[3])corner);
    }
    return e;
}

struct posed {
    const struct shape *shape;
    const double *pose;
};

static ct_box narrow(struct posed a, struct posed b) {
    const ct_box boxes[2] = {box_of(a.shape, a.pose), box_of(b.shape, b.pose)};
    ct_narrowing n;
    ct_narrowing_begin(&n, &boxes[0], &boxes[1], a.shape->n_triangles, b.shape->n_triangles);
    int phases = 0;
    for (; n.phase != CT_NARROW_DONE; phases++) {
        ct_extent extent[2] = {measure(&n, 0, a.shape, a.pose), measure(&n, 1, b.shape, b.pose)};
        ct_narrowing_advance(&n, extent);
    }
    assert_in_range(phases, 1, 3 + 2 * CT_CUTS);
    return n.region.box;
}

/* All vertices of one body inside the other lie in the part. */
static uint32_t check_holds_vertices(struct posed a, struct posed b, const ct_box *part) {
    uint32_t found = 0;
    for (uint32_t v = 0; v < a.shape->n_vertices; v++) {
        double p[3];
        place(a.shape, v, a.pose, p);
        if (winding_at(b.shape, b.pose, p, 2, 1) <= 0) continue;
        found++;
        for (int k = 0; k < 3; k++) assert_true(p[k] >= part->lo[k] - 1e-7 && p[k] <= part->hi[k] + 1e-7);
    }
    return found;
}

static void test_holds_the_intersection(void **state) {
    (void)state;
    struct shape shapes[] = {shape_blob(1, 3, 0.4, 3), shape_torus(0.8, 0.3, 24, 12), shape_l_prism(1.5, 1),
                             shape_box(6, 6, 0.5),     shape_icosphere(0.7, 2),       shape_box(0.4, 0.5, 3)};
    uint64_t rng = 8;
    uint32_t inside = 0, narrowed = 0;
    for (int round = 0; round < 400; round++) {
        double pose[2][12];
        for (int b = 0; b < 2; b++) shape_pose_random(&rng, 0.9, pose[b]);
        const struct posed a = {&shapes[shape_random(&rng) % 6], pose[0]},
                           b = {&shapes[shape_random(&rng) % 6], pose[1]};
        const ct_box boxes[2] = {box_of(a.shape, a.pose), box_of(b.shape, b.pose)},
                     overlap = ct_overlap(&boxes[0], &boxes[1]);
        bool meets = true;
        for (int k = 0; k < 3; k++) meets = meets && overlap.lo[k] < overlap.hi[k];
        if (!meets) continue;
        const ct_box part = narrow(a, b), swapped = narrow(b, a);
        assert_memory_equal(&part, &swapped, sizeof part);
        for (int k = 0; k < 3; k++)
            assert_true(part.lo[k] >= overlap.lo[k] && part.hi[k] <= overlap.hi[k] && part.lo[k] < part.hi[k]);
        narrowed += memcmp(&part, &overlap, sizeof part) != 0;
        inside += check_holds_vertices(a, b, &part) + check_holds_vertices(b, a, &part);
    }
    assert_true(inside > 1000 && narrowed > 50);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) shape_free(&shapes[i]);
}

/* A ball on a slab, turned together: the part is not much wider than the lens in which they meet. */
static void test_shallow(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 5), slab = shape_box(6, 6, 1);
    double low = 0;
    for (uint32_t v = 0; v < ball.n_vertices; v++) low = fmin(low, (double)ball.positions[3 * v + 2]);
    uint64_t rng = 4;
    for (int turn = 0; turn < 9; turn++) {
        double pose[2][12];
        shape_pose_random(&rng, 0, pose[0]);
        if (turn == 0) shape_pose_identity(pose[0]);
        static const double depths[] = {1e-1, 1e-2, 1e-3, 1e-4, 1e-5};
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
            const double depth = depths[d];
            memcpy(pose[1], pose[0], sizeof pose[1]);
            for (int k = 0; k < 3; k++) {
                pose[0][4 * k + 3] = turn > 6 ? 1e5 : 0;
                pose[1][4 * k + 3] = pose[0][4 * k + 3] + pose[0][4 * k + 2] * (low + depth - 0.5);
            }
            const ct_box part = narrow((struct posed){&ball, pose[0]}, (struct posed){&slab, pose[1]});
            /* A cap of the ball, or of its lowest vertex's fan, which is steeper than a slope of 1/100. */
            const double width = fmin(2 * sqrt(2 * depth) + 0.04, 2 * depth / 0.01);
            for (int k = 0; k < 3; k++) {
                const double size = width * sqrt(1 - pose[0][4 * k + 2] * pose[0][4 * k + 2]) + depth;
                assert_true(part.hi[k] - part.lo[k] <= 1.6 * size + (turn > 6 ? 2e-5 : 2e-6));
            }
            assert_true(part.lo[0] < part.hi[0]);
        }
    }
    shape_free(&ball);
    shape_free(&slab);
}

/* Where bodies overlap deeply, the part is the overlap to the last bit. */
static void test_deep(void **state) {
    (void)state;
    struct shape a = shape_blob(1, 4, 0.2, 3), b = shape_torus(0.8, 0.35, 48, 24), cube = shape_cube(1.5, 4);
    double pose[2][12];
    uint64_t rng = 6;
    for (int round = 0; round < 20; round++) {
        shape_pose_random(&rng, 0.1, pose[0]);
        shape_pose_random(&rng, 0.1, pose[1]);
        const struct posed x = {round % 2 ? &a : &cube, pose[0]}, y = {&b, pose[1]};
        const ct_box boxes[2] = {box_of(x.shape, pose[0]), box_of(&b, pose[1])},
                     overlap = ct_overlap(&boxes[0], &boxes[1]);
        const ct_box part = narrow(x, y);
        assert_memory_equal(&part, &overlap, sizeof part);
    }
    shape_free(&a);
    shape_free(&b);
    shape_free(&cube);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probes),  cmocka_unit_test(test_clipping), cmocka_unit_test(test_holds_the_intersection),
        cmocka_unit_test(test_shallow), cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
