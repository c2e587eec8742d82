/* test_tile_bound.c - bounds of tiles against brute force: the mean length over a tile of thousands of rays. The strict
 * bound always holds; the published one is measured, with the signs of its algorithm 1 as meant and as printed. Terms
 * of an edge against integrals. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/mesh.h"
#include "gpu/methods/ebpi/edge_k.h"
#include "gpu/methods/ebpi/tile_cpu.h"
#include "gpu/view/raster_k.h"
#include "tests/scenes/build.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

/* ---- kernels of every instruction set ---- */

static const ct_ebpi_cpu *sets[2];
static int n_sets;

static void find_sets(void) {
    sets[n_sets++] = &ct_ebpi_cpu_base;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        sets[n_sets++] = &ct_ebpi_cpu_avx2;
#endif
}

/* A tile with a list of its own, which measuring changes. */
static ct_ebpi_tile copy_tile(const ct_ebpi_tile *tile) {
    ct_ebpi_tile copy = *tile;
    copy.faces = shape_alloc(tile->n_faces + 1, sizeof *copy.faces);
    if (tile->n_faces) memcpy(copy.faces, tile->faces, tile->n_faces * sizeof *copy.faces);
    return copy;
}

/* By all of them, which agree. */
static bool measure_tile(const ct_ebpi_view *view, ct_ebpi_bound bound, ct_ebpi_tile *tile, ct_ebpi_scratch *scratch,
                         ct_budget *budget) {
    for (int s = n_sets - 1; s > 0; s--) {
        ct_ebpi_tile other = copy_tile(tile), again = copy_tile(tile);
        ct_ebpi_polynomial polynomial[2];
        if (!sets[s]->measure(view, bound, &other, &polynomial[0], scratch, budget) ||
            !sets[0]->measure(view, bound, &again, &polynomial[1], scratch, budget))
            return false;
        assert_memory_equal(&polynomial[0], &polynomial[1], sizeof polynomial[0]);
        assert_true(other.length == again.length && other.bound == again.bound);
        assert_memory_equal(other.n_crossed, again.n_crossed, sizeof other.n_crossed);
        assert_memory_equal(other.start, again.start, sizeof other.start);
        assert_int_equal(other.n_faces, again.n_faces);
        if (other.n_faces) assert_memory_equal(other.faces, again.faces, other.n_faces * sizeof *other.faces);
        free(other.faces);
        free(again.faces);
    }
    return sets[0]->measure(view, bound, tile, NULL, scratch, budget);
}

static bool share_faces(const ct_ebpi_view *view, ct_ebpi_tile *tiles, int cut_u, int cut_v, ct_ebpi_scratch *scratch,
                        ct_arena *arena, ct_budget *budget) {
    ct_ebpi_tile other[CT_EBPI_PARTS_AT_ONCE], measured[CT_EBPI_PARTS_AT_ONCE];
    const int n = 1 << (cut_u + cut_v);
    memcpy(measured, tiles, (size_t)n * sizeof *tiles);
    for (int s = n_sets - 1; s > 0; s--) {
        memcpy(other, tiles, (size_t)n * sizeof *tiles);
        if (!sets[s]->share(view, CT_EBPI_STRICT, other, cut_u, cut_v, NULL, scratch, arena, budget)) return false;
    }
    if (!sets[0]->share(view, CT_EBPI_STRICT, tiles, cut_u, cut_v, NULL, scratch, arena, budget)) return false;
    for (int k = 0; k < n && n_sets > 1; k++) {
        assert_int_equal(other[k].n_faces, tiles[k].n_faces);
        assert_memory_equal(other[k].faces, tiles[k].faces, tiles[k].n_faces * sizeof *tiles[k].faces);
    }
    /* What share measures is what measure does. */
    ct_ebpi_polynomial polynomial[CT_EBPI_PARTS_AT_ONCE], alone;
    for (int s = 0; s < n_sets; s++) {
        memcpy(other, measured, (size_t)n * sizeof *tiles);
        if (!sets[s]->share(view, CT_EBPI_PUBLISHED, other, cut_u, cut_v, polynomial, scratch, arena, budget))
            return false;
        for (int k = 0; k < n; k++) {
            ct_ebpi_tile again = copy_tile(&tiles[k]);
            if (!sets[0]->measure(view, CT_EBPI_PUBLISHED, &again, &alone, scratch, budget)) return false;
            assert_true(other[k].length == again.length && other[k].bound == again.bound);
            assert_memory_equal(&polynomial[k], &alone, sizeof alone);
            assert_memory_equal(other[k].faces, again.faces, again.n_faces * sizeof *again.faces);
            assert_memory_equal(other[k].n_crossed, again.n_crossed, sizeof again.n_crossed);
            free(again.faces);
        }
    }
    return true;
}

/* Each pixel's list has every face over it once, but for those behind the window's depths; body 0's first. */
static void check_list(const ct_ebpi_view *view) {
    enum { MOST = 4096 }; /* triangles of a body */
    const int w = view->axis;
    for (int32_t row = 0; row < view->rows; row++)
        for (int32_t column = 0; column < view->columns; column++) {
            const ct_ebpi_rect rect = ct_ebpi_pixel_rect(view, column, row);
            const ct_ebpi_tile tile = ct_ebpi_pixel_tile(view, column, row);
            uint8_t times[2][MOST] = {{0}};
            for (uint32_t i = 0; i < tile.n_faces; i++) {
                assert_true((tile.faces[i] & 0x7fffffff) < MOST);
                assert_true(i == 0 || tile.faces[i - 1] >> 31 <= tile.faces[i] >> 31);
                times[tile.faces[i] >> 31][tile.faces[i] & 0x7fffffff]++;
            }
            for (int b = 0; b < 2; b++)
                for (uint32_t t = 0; t < view->body[b].n_triangles; t++) {
                    const int32_t *corner[3];
                    ct_ebpi_corners(&view->body[b], t, corner);
                    const bool is_behind = ct_min3(corner[0][w], corner[1][w], corner[2][w]) > view->hi;
                    assert_int_equal(times[b][t], !is_behind && ct_ebpi_face_meets(view, corner, &rect));
                }
        }
}

/* By all of them, which agree. */
static void list_faces_of(ct_ebpi_view *view, const ct_ebpi_body body[2], ct_arena *arena, ct_budget *budget) {
    const uint32_t *before = NULL;
    for (int s = 0; s < n_sets; s++) {
        assert_true(ct_ebpi_view_begin(view, body, arena, budget));
        for (int b = 0; b < 2; b++)
            for (uint32_t part = 0; part < view->parts[b]; part++) sets[s]->list->count(view, 1, b, part);
        assert_true(ct_ebpi_view_place(view, arena, budget));
        for (int b = 0; b < 2; b++)
            for (uint32_t part = 0; part < view->parts[b]; part++) sets[s]->list->write(view, 1, b, part);
        const uint32_t n = view->first[view->columns * view->rows];
        if (before) assert_memory_equal(before, view->faces, n * sizeof *before);
        before = view->faces;
    }
}

/* ---- terms of an edge ---- */

/* Equation 7 is half the integral of |g . x| over the tile, g across an edge through its centre, for one slope. */
static void test_frustum(void **state) {
    (void)state;
    uint64_t rng = 1;
    for (int i = 0; i < 50; i++) {
        const double w = shape_uniform(&rng, 0.1, 3), h = shape_uniform(&rng, 0.1, 3);
        const double alpha = shape_uniform(&rng, -4, 4), beta = shape_uniform(&rng, 0, w / h);
        enum { N = 400 };
        double sum = 0;
        for (int x = 0; x < N; x++)
            for (int y = 0; y < N; y++)
                sum += fabs(alpha * ((x + 0.5) / N - 0.5) * w - alpha * beta * ((y + 0.5) / N - 0.5) * h);
        sum /= 2.0 * N * N;
        assert_float_equal(ct_ebpi_frustum(alpha, beta, w, h), sum, 1e-4 * sum);
    }
}

static ct_ebpi_side side(double x, double y, double z, double depth) {
    return (ct_ebpi_side){{x, y, z}, depth, z == 0};
}

/* Along v, in a tile of 1 x 1: the error is that of the jump of the slope. */
static void test_signs(void **state) {
    (void)state;
    const double far = 100;
    const ct_ebpi_side left = side(-0.5, 0, 1, far), right = side(0.5, 0, 1, far), level = side(0, 0, 1, far);
    const ct_ebpi_side roof[2] = {left, right}, flat[2] = {right, side(0.51, 0, 1, far)}, same[2] = {left, left};
    const ct_ebpi_side silhouette[2] = {left, side(-0.5, 0, -1, far)}, wall[2] = {level, side(1, 0, 0, 0.25)};
    assert_float_equal(ct_ebpi_edge_error(roof, 0, 1, 1, 1), 1.0 / 8, 1e-12);
    assert_float_equal(ct_ebpi_edge_error(flat, 0, 1, 1, 1), 0.01 / 8, 1e-12);
    assert_float_equal(ct_ebpi_edge_error(silhouette, 0, 1, 1, 1), 1.0 / 8, 1e-12);
    assert_float_equal(ct_ebpi_edge_error(same, 0, 1, 1, 1), 0, 0);
    assert_float_equal(ct_ebpi_edge_error(wall, 0, 1, 1, 1), 0.25 / 2, 1e-12);
    assert_float_equal(ct_ebpi_edge_error(wall, 0, 0.5, 1, 1), 0.25 / 4, 1e-12); /* half the tiles are crossed */
    /* The axes' roles change where the edge runs along u. */
    const ct_ebpi_side turned[2] = {side(0, -0.5, 1, far), side(0, 0.5, 1, far)};
    assert_float_equal(ct_ebpi_edge_error(turned, 1, 0, 1, 1), 1.0 / 8, 1e-12);
    /* Steep next to falling away from it, and to rising: algorithm 1. */
    int k[2];
    const ct_ebpi_side convex[2] = {right, side(1, 0, 0, 1)}, concave[2] = {left, side(1, 0, 0, 1)};
    ct_ebpi_signs(convex, (const double[]){0.5, 0}, k);
    assert_true(k[0] == -1 && k[1] == 1);
    ct_ebpi_signs(concave, (const double[]){-0.5, 0}, k);
    assert_true(k[0] == 1 && k[1] == 1);
}

/* Which face of an edge comes first changes no bit of its error, also where both are steep. */
static void test_order_of_faces(void **state) {
    (void)state;
    uint64_t rng = 2;
    int n_steep = 0, n_positive = 0;
    for (int i = 0; i < 4000; i++) {
        ct_ebpi_side faces[2];
        for (int k = 0; k < 2; k++) {
            const double x = shape_uniform(&rng, -1, 1), y = shape_uniform(&rng, -1, 1), z = shape_uniform(&rng, -1, 1);
            faces[k] = side(x, y, shape_random(&rng) % 2 ? z : 0, shape_uniform(&rng, 0, 0.5));
        }
        const ct_ebpi_side swapped[2] = {faces[1], faces[0]};
        const double lu = shape_uniform(&rng, 0, 1), lv = shape_uniform(&rng, 0, 1);
        const double error = ct_ebpi_edge_error(faces, lu, lv, 1, 0.7);
        assert_true(error == ct_ebpi_edge_error(swapped, lu, lv, 1, 0.7));
        if (!faces[0].is_steep || !faces[1].is_steep) continue;
        n_steep++;
        n_positive += error > 0;
    }
    assert_true(n_steep > 500 && n_positive > 400); /* the larger depth counts, never less than 0 */
}

/* ---- tiles ---- */

/* Two bodies on a lattice, and the views of their window. */
struct views {
    ct_mesh *mesh[2];
    ct_coords *coords[2];
    ct_ebpi_body body[2];
    ct_ebpi_view view[3];
    ct_box box[2];
    ct_arena arena;
    ct_budget budget;
};

static void open_views(struct views *v, const struct shape *const shape[2], double pose[2][12], int32_t pixels) {
    ct_box box[2];
    ct_window window;
    memset(v, 0, sizeof *v);
    for (int b = 0; b < 2; b++) {
        v->mesh[b] = shape_to_mesh(shape[b], NULL);
        assert_non_null(v->mesh[b]);
        for (int k = 0; k < 3; k++) box[b].lo[k] = INFINITY, box[b].hi[k] = -INFINITY;
        for (uint32_t i = 0; i < v->mesh[b]->n_vertices; i++)
            for (int k = 0; k < 3; k++) {
                const float *p = v->mesh[b]->positions + 3 * (size_t)i;
                const double x = ct_pose_coord(pose[b] + 4 * k, p[0], p[1], p[2]);
                box[b].lo[k] = fmin(box[b].lo[k], x);
                box[b].hi[k] = fmax(box[b].hi[k], x);
            }
    }
    memcpy(v->box, box, sizeof box);
    const ct_box part = ct_overlap(&box[0], &box[1]);
    for (int k = 0; k < 3; k++) {
        ct_plan_need need;
        assert_int_equal(ct_plan_axis(&box[0], &box[1], &part, k, 0, 16384, 16384, &window.axis[k], &need), CT_PLAN_OK);
    }
    for (int b = 0; b < 2; b++) {
        const ct_mesh *mesh = v->mesh[b];
        v->coords[b] = shape_alloc(mesh->n_vertices, sizeof *v->coords[b]);
        for (uint32_t i = 0; i < mesh->n_vertices; i++)
            for (int k = 0; k < 3; k++) {
                const float *p = mesh->positions + 3 * (size_t)i;
                v->coords[b][i][k] = ct_snap(ct_pose_coord(pose[b] + 4 * k, p[0], p[1], p[2]), window.axis[k].origin,
                                             window.axis[k].scale);
            }
        v->body[b] = (ct_ebpi_body){.coords = (const ct_coords *)v->coords[b],
                                    .triangles = mesh->triangles,
                                    .adjacency = ct_mesh_adjacency(v->mesh[b], NULL),
                                    .n_triangles = mesh->n_triangles};
        assert_non_null(v->body[b].adjacency);
    }
    for (int w = 0; w < 3; w++) {
        v->view[w] = ct_ebpi_view_plan(&window, w, pixels);
        list_faces_of(&v->view[w], v->body, &v->arena, &v->budget);
    }
}

static void close_views(struct views *v) {
    for (int b = 0; b < 2; b++) {
        ct_mesh_release(&v->mesh[b]);
        free(v->coords[b]);
    }
    ct_arena_free(&v->arena, &v->budget);
}

static struct shape random_shape(uint64_t *rng) {
    switch (shape_random(rng) % 6) {
    case 0: { /* not as arguments, whose order is the compiler's */
        const double z = shape_uniform(rng, 0.3, 1.5), y = shape_uniform(rng, 0.3, 1.5);
        return shape_box(shape_uniform(rng, 0.3, 1.5), y, z);
    }
    case 1:
        return shape_tetrahedron(1.2);
    case 2:
        return shape_icosphere(0.6, (int)(shape_random(rng) % 4));
    case 3:
        return shape_torus(0.6, 0.25, 10, 6);
    case 4:
        return shape_box(1.5, 1.5, 0.01);
    default:
        return shape_blob(0.7, 2, 0.5, shape_random(rng));
    }
}

/* Rays along each side of a tile. */
enum { FINER = 5, FINER_RAYS = 1 << FINER };

/* Gives a tile those of its list's faces that meet it. memory: [faces]. */
static void pick_faces(const ct_ebpi_view *view, ct_ebpi_tile *tile, uint32_t *memory) {
    const ct_ebpi_rect rect = {tile->u, tile->u + (1 << tile->shift_u), tile->v, tile->v + (1 << tile->shift_v)};
    uint32_t n = 0;
    for (uint32_t i = 0; i < tile->n_faces; i++) {
        const int32_t *corner[3];
        ct_ebpi_corners(&view->body[tile->faces[i] >> 31], tile->faces[i] & 0x7fffffff, corner);
        if (ct_ebpi_face_meets(view, corner, &rect)) memory[n++] = tile->faces[i];
    }
    tile->faces = memory;
    tile->n_faces = n;
}

/* share_faces gives the parts of a tile what pick_faces gives each. */
static void check_sharing(const ct_ebpi_view *view, const ct_ebpi_tile *tile, ct_ebpi_scratch *scratch, ct_arena *arena,
                          ct_budget *budget) {
    static uint32_t memory[1 << 16];
    const int cut_u = 2, cut_v = 1;
    ct_ebpi_tile part[8];
    for (int k = 0; k < 8; k++) {
        part[k] = *tile;
        part[k].shift_u = (uint8_t)(tile->shift_u - cut_u);
        part[k].shift_v = (uint8_t)(tile->shift_v - cut_v);
        part[k].u += k % 4 << part[k].shift_u;
        part[k].v += k / 4 << part[k].shift_v;
    }
    assert_true(tile->n_faces <= sizeof memory / sizeof *memory);
    assert_true(share_faces(view, part, cut_u, cut_v, scratch, arena, budget));
    for (int k = 0; k < 8; k++) {
        ct_ebpi_tile alone = part[k];
        alone.faces = tile->faces;
        alone.n_faces = tile->n_faces;
        pick_faces(view, &alone, memory);
        assert_int_equal(part[k].n_faces, alone.n_faces);
        if (alone.n_faces) assert_memory_equal(part[k].faces, alone.faces, alone.n_faces * sizeof *memory);
    }
}

/* The mean length of the tile's rays, and in *error how far it is from the mean of all of them, at most. */
static double brute_force(const ct_ebpi_view *view, const ct_ebpi_tile *tile, ct_ebpi_scratch *scratch,
                          ct_budget *budget, double *error) {
    double sum = 0;
    *error = 0;
    for (int i = 0; i < FINER_RAYS; i++)
        for (int j = 0; j < FINER_RAYS; j++) {
            ct_ebpi_tile small = *tile;
            small.shift_u = (uint8_t)(tile->shift_u - FINER);
            small.shift_v = (uint8_t)(tile->shift_v - FINER);
            small.u += i << small.shift_u;
            small.v += j << small.shift_v;
            static uint32_t memory[1 << 16];
            assert_true(small.n_faces <= sizeof memory / sizeof *memory);
            pick_faces(view, &small, memory);
            assert_true(sets[n_sets - 1]->measure(view, CT_EBPI_STRICT, &small, NULL, scratch, budget));
            sum += small.length;
            *error += ldexp((double)small.bound, -CT_EBPI_DEPTH_BITS);
        }
    *error /= FINER_RAYS * FINER_RAYS;
    return sum / (FINER_RAYS * FINER_RAYS);
}

struct tally {
    int tiles, violated;
    double worst;
};

static void note(struct tally *tally, double error, double slack, double bound) {
    tally->tiles++;
    if (error <= bound + slack) return;
    tally->violated++;
    tally->worst = fmax(tally->worst, (error - slack) / bound);
}

static void test_random_tiles(void **state) {
    (void)state;
    static const char *const names[] = {"strict", "published"};
    struct tally tally[2] = {{0}};
    ct_ebpi_scratch scratch;
    uint64_t rng = 7;
    memset(&scratch, 0, sizeof scratch);
    ct_budget budget = {0};
    for (int i = 0; i < 400; i++) {
        struct shape a = random_shape(&rng), b = random_shape(&rng);
        double pose[2][12];
        for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.2, pose[k]);
        struct views v;
        open_views(&v, (const struct shape *const[]){&a, &b}, pose, 8);
        for (int t = 0; t < 20; t++) {
            const ct_ebpi_view *view = &v.view[shape_random(&rng) % 3];
            const int32_t row = (int32_t)(shape_random(&rng) % (uint64_t)view->rows);
            const int32_t column = (int32_t)(shape_random(&rng) % (uint64_t)view->columns);
            ct_ebpi_tile tile = ct_ebpi_pixel_tile(view, column, row);
            static uint32_t memory[1 << 16];
            ct_ebpi_tile listed = tile;
            pick_faces(view, &listed, memory);
            assert_int_equal(listed.n_faces, tile.n_faces); /* at the window's border, too */
            check_sharing(view, &tile, &scratch, &v.arena, &budget);
            const int cut = (int)(shape_random(&rng) % 3);
            tile.shift_u = (uint8_t)(tile.shift_u - cut);
            tile.shift_v = (uint8_t)(tile.shift_v - cut);
            tile.u += (int32_t)(shape_random(&rng) >> (64 - 8)) % (1 << cut) << tile.shift_u;
            tile.v += (int32_t)(shape_random(&rng) >> (64 - 8)) % (1 << cut) << tile.shift_v;
            pick_faces(view, &tile, memory);
            double slack, mean = brute_force(view, &tile, &scratch, &budget, &slack);
            for (int kind = 0; kind < 2; kind++) {
                assert_true(measure_tile(view, (ct_ebpi_bound)kind, &tile, &scratch, &budget));
                note(&tally[kind], fabs(mean - tile.length), slack,
                     fmax(ldexp((double)tile.bound, -CT_EBPI_DEPTH_BITS), 1));
            }
        }
        close_views(&v);
        shape_free(&a);
        shape_free(&b);
    }
    ct_ebpi_scratch_free(&scratch, &budget);
    for (int kind = 0; kind < 2; kind++)
        print_message("%-10s %d of %d tiles violated, at worst %.3g times the bound\n", names[kind],
                      tally[kind].violated, tally[kind].tiles, tally[kind].worst);
    assert_int_equal(tally[CT_EBPI_STRICT].violated, 0);
}

/* Parts of a measured tile, whose list lacks faces, come to the same as those of one that is not measured. Returns the
 * faces that it lacks. */
static uint32_t check_dropped(const ct_ebpi_view *view, const ct_ebpi_tile *tile, ct_ebpi_bound bound,
                              ct_ebpi_scratch *scratch, ct_arena *arena, ct_budget *budget) {
    enum { PARTS = CT_EBPI_PARTS_AT_ONCE };
    ct_ebpi_tile part[2][PARTS], whole[2] = {*tile, copy_tile(tile)};
    ct_ebpi_polynomial polynomial[2][PARTS];
    assert_true(measure_tile(view, bound, &whole[1], scratch, budget));
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < PARTS; k++) {
            part[i][k] = whole[i];
            part[i][k].shift_u = (uint8_t)(tile->shift_u - 2);
            part[i][k].shift_v = (uint8_t)(tile->shift_v - 2);
            part[i][k].u += k % 4 << part[i][k].shift_u;
            part[i][k].v += k / 4 << part[i][k].shift_v;
        }
        assert_true(sets[n_sets - 1]->share(view, bound, part[i], 2, 2, polynomial[i], scratch, arena, budget));
    }
    for (int k = 0; k < PARTS; k++) {
        assert_true(part[0][k].length == part[1][k].length && part[0][k].bound == part[1][k].bound);
        assert_memory_equal(&polynomial[0][k], &polynomial[1][k], sizeof polynomial[0][k]);
    }
    free(whole[1].faces);
    return tile->n_faces - whole[1].n_faces;
}

static void test_dropped_faces(void **state) {
    (void)state;
    uint64_t rng = 5;
    uint32_t n_dropped[3] = {0};
    ct_ebpi_scratch scratch;
    memset(&scratch, 0, sizeof scratch);
    ct_budget budget = {0};
    for (int i = 0; i < 12; i++) {
        struct shape a = i % 3 ? shape_blob(0.7, 3, 0.5, shape_random(&rng)) : shape_torus(0.6, 0.25, 40, 30);
        struct shape b = i % 2 ? shape_icosphere(i % 4 == 1 ? 0.3 : 0.7, 3) : shape_torus(0.6, 0.25, 40, 30);
        double pose[2][12];
        for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.1, pose[k]);
        struct views v;
        open_views(&v, (const struct shape *const[]){&a, &b}, pose, 12);
        for (int w = 0; w < 3; w++) {
            ct_ebpi_view *view = &v.view[w];
            for (int k = 0; k < 2; k++)
                view->initial[k] = (uint8_t)ct_find_initial_winding(&v.box[k], &v.box[1 - k], w);
            list_faces_of(view, v.body, &v.arena, &v.budget);
            for (int32_t pixel = 0; pixel < view->columns * view->rows; pixel++) {
                const ct_ebpi_tile tile = ct_ebpi_pixel_tile(view, pixel % view->columns, pixel / view->columns);
                const uint32_t n = check_dropped(view, &tile, pixel % 2 ? CT_EBPI_STRICT : CT_EBPI_PUBLISHED, &scratch,
                                                 &v.arena, &budget);
                for (int k = 0; k < 2; k++) n_dropped[view->initial[k]] += n;
            }
        }
        close_views(&v);
        shape_free(&a);
        shape_free(&b);
    }
    ct_ebpi_scratch_free(&scratch, &budget);
    for (int k = 0; k < 3; k++) assert_true(n_dropped[k] > 100); /* whatever the initial winding numbers come from */
}

/* Pixels' lists against all faces. */
static void test_lists(void **state) {
    (void)state;
    uint64_t rng = 11;
    for (int i = 0; i < 16; i++) {
        struct shape a = random_shape(&rng), b = random_shape(&rng);
        double pose[2][12];
        for (int k = 0; k < 2; k++) {
            shape_pose_random(&rng, 0.2, pose[k]);
            if (i % 4 == 0) shape_pose_identity(pose[k]); /* faces parallel to the rays, along borders of pixels */
        }
        struct views v;
        open_views(&v, (const struct shape *const[]){&a, &b}, pose, i % 2 ? 8 : 23);
        for (int w = 0; w < 3; w++) check_list(&v.view[w]);
        close_views(&v);
        shape_free(&a);
        shape_free(&b);
    }
}

/* Two cubes, one above the other and a little into it: nothing has an edge or crosses within the tile, so the ray is
 * exact; where the boxes share no volume there is neither length nor error. */
static void test_flat(void **state) {
    (void)state;
    struct shape a = shape_box(1, 1, 1), b = shape_box(3, 3, 1);
    double pose[2][12];
    shape_pose_identity(pose[0]);
    shape_pose_identity(pose[1]);
    pose[1][11] = 0.75;
    struct views v;
    ct_ebpi_scratch scratch;
    memset(&scratch, 0, sizeof scratch);
    open_views(&v, (const struct shape *const[]){&a, &b}, pose, 4);
    for (uint32_t p = 0; p < (uint32_t)(v.view[2].columns * v.view[2].rows); p++) {
        ct_ebpi_tile tile =
            ct_ebpi_pixel_tile(&v.view[2], (int32_t)p % v.view[2].columns, (int32_t)p / v.view[2].columns);
        assert_true(measure_tile(&v.view[2], CT_EBPI_STRICT, &tile, &scratch, &v.budget));
        assert_true(tile.length > 0);
        const int at_border =
            p % 4 == 0 || p % 4 == 3 || p / 4 == 0 || p / 4 == 3 || p % 4 == p / 4 || p % 4 + p / 4 == 3;
        if (!at_border) assert_true(tile.bound < 4 << CT_EBPI_DEPTH_BITS);
    }
    ct_ebpi_scratch_free(&scratch, &v.budget);
    close_views(&v);
    shape_free(&a);
    shape_free(&b);
}

/* A segment from a to a + length * step, and a closed rectangle. Where the segment enters and leaves the rectangle is
 * among the points that divide it into length * |step_u * step_v| parts. */
static bool has_point_in(const int32_t *a, const int32_t step[2], int32_t length, const ct_ebpi_rect *rect) {
    const int32_t parts = abs(length * step[0] * step[1]);
    for (int32_t k = 0; k <= parts; k++) {
        const int32_t u = a[0] * parts + k * length * step[0], v = a[1] * parts + k * length * step[1];
        if (u >= rect->u0 * parts && u <= rect->u1 * parts && v >= rect->v0 * parts && v <= rect->v1 * parts)
            return true;
    }
    return false;
}

/* A face that is parallel to the rays meets what its segment meets, not all of the segment's box. */
static void test_edge_on(void **state) {
    (void)state;
    uint64_t rng = 3;
    const ct_ebpi_view view = {.axis = 2, .u = 0, .v = 1};
    int n_met = 0, n_in_box = 0;
    for (int i = 0; i < 4000; i++) {
        int32_t step[2], p[3][3];
        const int32_t length = 1 + (int32_t)(shape_random(&rng) % 5), middle = (int32_t)(shape_random(&rng) % 6);
        for (int k = 0; k < 2; k++) {
            step[k] = (1 + (int32_t)(shape_random(&rng) % 4)) * (shape_random(&rng) % 2 ? 1 : -1);
            p[0][k] = (int32_t)(shape_random(&rng) % 20) - 10;
            p[1][k] = p[0][k] + length * step[k];
            p[2][k] = p[0][k] + (middle < length ? middle : length) * step[k];
        }
        for (int c = 0; c < 3; c++) p[c][2] = (int32_t)(shape_random(&rng) % 20);
        const int32_t u = (int32_t)(shape_random(&rng) % 24) - 12, v = (int32_t)(shape_random(&rng) % 24) - 12;
        const ct_ebpi_rect rect = {u, u + 1 + (int32_t)(shape_random(&rng) % 5), v,
                                   v + 1 + (int32_t)(shape_random(&rng) % 5)};
        const int turn = (int)(shape_random(&rng) % 3);
        const int32_t *const corner[3] = {p[turn], p[(turn + 1) % 3], p[(turn + 2) % 3]};
        const bool meets = has_point_in(p[0], step, length, &rect);
        assert_int_equal(ct_ebpi_face_meets(&view, corner, &rect), meets);
        n_met += meets;
        n_in_box += !meets && rect.u1 >= ct_min3(p[0][0], p[1][0], p[2][0]) &&
                    rect.u0 <= ct_max3(p[0][0], p[1][0], p[2][0]) && rect.v1 >= ct_min3(p[0][1], p[1][1], p[2][1]) &&
                    rect.v0 <= ct_max3(p[0][1], p[1][1], p[2][1]);
    }
    assert_true(n_met > 100 && n_in_box > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edge_on),       cmocka_unit_test(test_frustum), cmocka_unit_test(test_signs),
        cmocka_unit_test(test_random_tiles),  cmocka_unit_test(test_flat),    cmocka_unit_test(test_order_of_faces),
        cmocka_unit_test(test_dropped_faces), cmocka_unit_test(test_lists),
    };
    find_sets();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
