/* driver_check_gl.c - draws two bodies of random triangles and compares every fragment and winding number bit for bit.
 */
#include "gpu/methods/ldi/driver_check.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/view/view_k.h"

enum { COLUMNS = 24, ROWS = 20, RAYS = COLUMNS * ROWS, N_TRIANGLES = 40, SHIFT = 20, W = 2, U = 0, V = 1 };

/* Two bodies of unconnected triangles; the shaders need no closed surfaces. */
struct scene {
    ct_window window;
    ct_coords coords[2][3 * N_TRIANGLES];
    uint32_t triangles[2][3 * N_TRIANGLES];
};

static uint32_t random_bits(uint64_t *state, int bits) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> (64 - bits));
}

/* kind 0: over the full range of coordinates, so that edge functions have more bits than a double's mantissa; 1: within
 * the window; 2: on samples, where the fill rule (raster_k.h) decides coverage. */
static int32_t random_coordinate(uint64_t *state, int kind) {
    switch (kind) {
    case 0:
        return (int32_t)random_bits(state, 29) - (1 << 28);
    case 1:
        return (int32_t)random_bits(state, 25);
    default:
        return ct_sample_coord((int32_t)random_bits(state, 4), SHIFT);
    }
}

static void fill_scene(struct scene *scene) {
    uint64_t state = 1;
    const int32_t n[3] = {COLUMNS, ROWS, 1};
    for (int k = 0; k < 3; k++)
        scene->window.axis[k] = (ct_lattice){0, 1, 1, 1, SHIFT, n[k], k == W ? -(1 << 23) : 0, 1 << 28};
    for (int b = 0; b < 2; b++)
        for (uint32_t i = 0; i < 3 * N_TRIANGLES; i++) {
            int kind = (int)(i / 3 % 3);
            scene->triangles[b][i] = i;
            for (int k = 0; k < 3; k++) scene->coords[b][i][k] = random_coordinate(&state, k == W ? 0 : kind);
            scene->coords[b][i][3] = 0;
        }
}

/* Tests all triangles against one ray, in drawing order, and looks up each fragment in the ray's list. Adds the number
 * of fragments to *total. */
static bool ray_agrees(const struct scene *scene, const ct_drawing *d, int32_t row, int32_t column, uint32_t *total) {
    uint32_t ray = (uint32_t)(row * COLUMNS + column), n = 0;
    int32_t winding[2] = {0, 0};
    for (uint32_t b = 0; b < 2; b++) {
        bool is_kept = b == 0 || n > 0 || winding[0] > 0; /* the two-pass rule of raster_gl.h */
        for (uint32_t t = 0; t < N_TRIANGLES; t++) {
            const ct_coords *q = scene->coords[b] + 3 * t;
            ct_triangle_setup s;
            if (!ct_make_setup(&s, q[0], q[1], q[2], U, V, W, ct_sample_coord(column, SHIFT),
                               ct_sample_coord(row, SHIFT), SHIFT, SHIFT) ||
                !ct_covers(&s, s.edge[0], s.edge[1], s.edge[2]))
                continue;
            int32_t lo = scene->window.axis[W].lo;
            if (q[0][W] < lo && q[1][W] < lo && q[2][W] < lo) {
                winding[b] -= s.ccw;
                continue;
            }
            if (!is_kept) continue;
            ct_fragment f = ct_fragment_at(&s, (double)s.edge[1], (double)s.edge[2], b << 31 | t);
            uint32_t at = d->head[ray], steps = 0;
            while (at < d->n_fragments && steps < 2 * N_TRIANGLES && memcmp(&d->fragments[at].f, &f, sizeof f) != 0) {
                at = d->fragments[at].next;
                steps++;
            }
            if (at >= d->n_fragments || steps == 2 * N_TRIANGLES) return false;
            n++;
        }
    }
    *total += n;
    return d->winding[ray][0] == winding[0] && d->winding[ray][1] == winding[1];
}

static bool agrees(const struct scene *scene, const ct_drawing *d) {
    uint32_t total = 0;
    for (int32_t row = 0; row < ROWS; row++)
        for (int32_t column = 0; column < COLUMNS; column++)
            if (!ray_agrees(scene, d, row, column, &total)) return false;
    return total == d->n_fragments;
}

static bool add_quads(const struct scene *scene, const ct_bin_plan *plan, ct_quads quads[2], ct_budget *budget) {
    uint32_t entries[N_TRIANGLES], offsets[4];
    for (uint32_t i = 0; i < N_TRIANGLES; i++) entries[i] = i;
    for (uint32_t i = 0; i < 4; i++) offsets[i] = i > W ? N_TRIANGLES : 0; /* all in the only bin of view W */
    for (uint32_t b = 0; b < 2; b++) {
        const ct_snapped_body snapped = {.coords = scene->coords[b],
                                         .triangles = scene->triangles[b],
                                         .body = b,
                                         .initial = {0, 0, CT_INITIAL_COUNTED}};
        const ct_binned_chunk chunk = {.snapped = &snapped, .entries = entries, .offset = offsets};
        if (!ct_quads_add(&quads[b], budget, &scene->window, plan, &chunk, W, W + 1, 0)) return false;
    }
    return true;
}

ct_status ct_raster_gl_check_driver(ct_raster_gl *gl, const char *renderer, ct_error *error) {
    struct scene *scene = malloc(sizeof *scene);
    if (!scene) return ct_fail(error, CT_OUT_OF_MEMORY, "rasterizer", "no memory to check the OpenGL driver");
    fill_scene(scene);
    ct_budget budget = {0};
    ct_binned_tile tiles[3];
    const ct_bin_plan plan = ct_bin_plan_views(&scene->window, 1 << 20, CT_MAX_RESOLUTION, tiles); /* a bin per view */
    ct_quads quads[2] = {{.n = 0}, {.n = 0}};
    ct_draw_region region = {.columns = COLUMNS, .rows = ROWS, .shift_u = SHIFT, .shift_v = SHIFT};
    const ct_quads *parts[2] = {&quads[0], &quads[1]};
    ct_drawing drawing = {
        .regions = &region, .n_regions = 1, .n_rays = RAYS, .parts = {&parts[0], &parts[1]}, .n_parts = 1};
    ct_status status = add_quads(scene, &plan, quads, &budget)
                           ? ct_raster_gl_draw(gl, &budget, &drawing, error)
                           : ct_fail(error, CT_OUT_OF_MEMORY, "rasterizer", "no memory to check the OpenGL driver");
    if (!status && !agrees(scene, &drawing))
        status = ct_fail(error, CT_UNSUPPORTED, "rasterizer",
                         "%s does not compute exactly: its results differ from the CPU's. Use the native rasterizer or "
                         "another driver",
                         renderer);
    ct_raster_gl_release(gl, &budget);
    for (int b = 0; b < 2; b++) ct_buffer_free(&quads[b].memory, &budget);
    free(scene);
    return status;
}
