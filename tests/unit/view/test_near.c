/* test_near.c - near clusters hold every triangle that the raster stage would keep, and few others; the box of a posed
 * body has the bits of the pass over all its vertices. */
#include "gpu/view/near.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/mesh.h"
#include "gpu/methods/ldi/bin_cpu.h"
#include "gpu/view/view.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

enum { MAX_RUN = 1 << 14 };

static void pose_of(uint64_t *rng, double reach, double far, double pose[12]) {
    shape_pose_random(rng, reach, pose);
    for (int k = 0; k < 3; k++) pose[4 * k + 3] += far;
}

/* A body in a window with another box, and what is kept of it. */
struct scene {
    ct_mesh *mesh;
    const ct_clusters *clusters;
    double pose[12];
    ct_box box, other;
    ct_window window;
};

/* False: the boxes do not overlap. */
static bool set_up(struct scene *s, uint64_t *rng, double far) {
    pose_of(rng, 0.5, far, s->pose);
    ct_snap_cpu_base.box(s->mesh->positions, s->mesh->n_vertices, s->pose, &s->box);
    for (int k = 0; k < 3; k++) {
        const double middle = far + shape_uniform(rng, -1.5, 1.5), half = shape_uniform(rng, 0.05, 1);
        s->other.lo[k] = middle - half;
        s->other.hi[k] = middle + half;
        if (s->other.hi[k] < s->box.lo[k] || s->other.lo[k] > s->box.hi[k]) return false;
    }
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    for (int k = 0; k < 3; k++) settings.resolution[k] = 1 + (uint32_t)(shape_random(rng) % 60);
    if (shape_random(rng) % 3 == 0) settings.pixel_size = 0.03;
    return ct_view_plan(&s->box, &s->other, &settings, &s->window, NULL) == CT_OK;
}

/* Marks the triangles that the cull of the raster stage keeps. */
static void mark_kept(const struct scene *s, const uint8_t initial[3], uint8_t *is_kept) {
    const ct_mesh *mesh = s->mesh;
    ct_coords *coords = malloc(mesh->n_vertices * sizeof *coords);
    ct_cells *cells = malloc(mesh->n_vertices * sizeof *cells);
    ct_snap_cpu_base.snap(&s->window, mesh->positions, s->pose, 0, mesh->n_vertices, coords, cells);
    ct_snapped_body snapped = {.coords = (const ct_coords *)coords,
                               .cells = cells,
                               .triangles = mesh->triangles,
                               .n_triangles = mesh->n_triangles,
                               .initial = {initial[0], initial[1], initial[2]}};
    ct_bin_scratch scratch = {{0}};
    ct_budget budget = {.limit = 0};
    const ct_triangle_run all = {0, mesh->n_triangles};
    assert_true(ct_bin_cpu_base.cull(&scratch, &budget, &snapped, &all, 1));
    memset(is_kept, 0, mesh->n_triangles);
    for (int list = 0; list < CT_KEPT_LISTS; list++)
        for (uint32_t i = 0; i < scratch.n_kept[list]; i++) is_kept[scratch.kept[list][i]] = 1;
    ct_bin_scratch_free(&scratch, &budget);
    free(coords);
    free(cells);
}

static void check(struct shape shape, double far) {
    struct scene s = {.mesh = shape_to_mesh(&shape, NULL)};
    s.clusters = ct_mesh_clusters(s.mesh, NULL);
    uint8_t *is_kept = malloc(s.mesh->n_triangles);
    ct_triangle_run *runs = malloc(s.clusters->n * sizeof *runs);
    uint64_t rng = 77, n_near = 0, n_all = 0;
    for (int round = 0; round < 60; round++) {
        if (!set_up(&s, &rng, far)) continue;
        ct_near_body body = {s.clusters, s.clusters->rest, s.pose, {0}, s.mesh->n_triangles};
        for (int w = 0; w < 3; w++) body.initial[w] = (uint8_t)ct_find_initial_winding(&s.box, &s.other, w);
        const ct_near near = ct_find_near(&body, &s.window, MAX_RUN, runs);
        const ct_near counted = ct_find_near(&body, &s.window, MAX_RUN, NULL);
        assert_memory_equal(&near, &counted, sizeof near);
        mark_kept(&s, body.initial, is_kept);
        uint64_t in_runs = 0, next = 0;
        for (uint32_t r = 0; r < near.n_runs; r++) {
            assert_true(runs[r].first >= next && runs[r].end > runs[r].first);
            assert_true(runs[r].end - runs[r].first <= MAX_RUN);
            assert_int_equal(runs[r].first % CT_CLUSTER_TRIANGLES, 0);
            next = runs[r].end;
            in_runs += runs[r].end - runs[r].first;
            for (uint32_t t = runs[r].first; t < runs[r].end; t++) is_kept[t] = 0;
        }
        assert_int_equal(in_runs, near.n_triangles);
        for (uint32_t t = 0; t < s.mesh->n_triangles; t++) assert_false(is_kept[t]); /* none is left out */
        n_near += near.n_triangles;
        n_all += s.mesh->n_triangles;
    }
    assert_true(n_all > 0);
    print_message("%llu of %llu triangles near\n", (unsigned long long)n_near, (unsigned long long)n_all);
    assert_true(s.clusters->n < 16 || n_near < 3 * n_all / 4);
    free(runs);
    free(is_kept);
    ct_mesh_release(&s.mesh);
    shape_free(&shape);
}

static void test_nothing_is_left_out(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        const double far = (double[]){0, 1000, 1e8}[i]; /* where positions are known to 1e-8 only, too */
        check(shape_icosphere(1, 5), far);
        check(shape_torus(1, 0.4, 60, 40), far);
        check(shape_cube(1.5, 2), far);
    }
}

static void test_posed_box(void **state) {
    (void)state;
    uint64_t rng = 3;
    struct shape shapes[] = {shape_icosphere(1, 5), shape_torus(1, 0.3, 200, 90), shape_tetrahedron(1),
                             shape_blob(1, 4, 0.4, 2)};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        ct_mesh *mesh = shape_to_mesh(&shapes[i], NULL);
        const ct_clusters *clusters = ct_mesh_clusters(mesh, NULL);
        assert_true(clusters->has_all_vertices);
        for (int round = 0; round < 50; round++) {
            double pose[12];
            pose_of(&rng, 1, round % 3 ? 0 : 1e7, pose);
            if (round == 0) shape_pose_identity(pose);
            ct_box expected, box;
            assert_true(ct_snap_cpu_base.box(mesh->positions, mesh->n_vertices, pose, &expected));
            ct_posed_box(clusters, mesh->positions, pose, &box);
            for (int k = 0; k < 3; k++) assert_true(box.lo[k] == expected.lo[k] && box.hi[k] == expected.hi[k]);
        }
        ct_mesh_release(&mesh);
        shape_free(&shapes[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_is_left_out), cmocka_unit_test(test_posed_box)};
    return cmocka_run_group_tests_name("near", tests, NULL, NULL);
}
