/* wrap.c - makes the wrap of a soup: a grid, its surface, that with fewer vertices, and how far it is from the soup. */
#include "gpu/mesh/build/wrap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/build/validate.h"
#include "gpu/mesh/build/wrap_surface.h"
#include "gpu/mesh/split.h"

#define SIMPLIFY 0.03 /* resolutions: how far the surface may move where vertices are taken out */

/* ---- the deviation ---- */

enum { MOST_SPLITS = 6 };
#define SLACK    1.1
#define LEAST    0.01  /* resolutions */
#define ROUNDING 0.002 /* resolutions, of vertices to float32: see LEAST_ULPS in wrap_grid.c */

/* Raises *most to what no point of a triangle is further from the soup. Convex: the distance to one triangle is greatest
 * at a corner. So where one triangle of the soup is near all of it, that is a bound, and else the corners' distances with
 * the way to the next corner; a triangle with too large a bound is cut into four. */
static void measure_triangle(const ct_wrap_grid *grid, double p[3][3], int n_splits, double *most) {
    double far = 0, longest = 0;
    uint32_t nearest[3];
    for (int c = 0; c < 3; c++) {
        const double *q = p[(c + 1) % 3];
        far = fmax(far, ct_wrap_distance(grid, p[c], &nearest[c]));
        double square = 0;
        for (int k = 0; k < 3; k++) square += (p[c][k] - q[k]) * (p[c][k] - q[k]);
        longest = fmax(longest, sqrt(square));
    }
    *most = fmax(*most, far);
    double bound = far + longest / sqrt(3.0);
    for (int c = 0; c < 3 && bound > fmax(SLACK * *most, LEAST); c++) {
        double furthest = 0;
        for (int d = 0; d < 3; d++) furthest = fmax(furthest, ct_wrap_square(grid, nearest[c], p[d], NULL));
        bound = fmin(bound, sqrt(furthest));
    }
    if (bound <= fmax(SLACK * *most, LEAST) || n_splits == MOST_SPLITS || ct_is_cancelled()) {
        *most = fmax(*most, n_splits == MOST_SPLITS ? bound : *most);
        return;
    }
    double middle[3][3]; /* of the edge behind each corner */
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < 3; k++) middle[c][k] = 0.5 * (p[c][k] + p[(c + 1) % 3][k]);
    for (int c = 0; c < 3; c++) {
        double part[3][3];
        memcpy(part[0], p[c], sizeof part[0]);
        memcpy(part[1], middle[c], sizeof part[1]);
        memcpy(part[2], middle[(c + 2) % 3], sizeof part[2]);
        measure_triangle(grid, part, n_splits + 1, most);
    }
    measure_triangle(grid, middle, n_splits + 1, most);
}

/* What no point of the surface is further from the triangles, at most a tenth above the furthest, or 0.01. Cancelled: any
 * number. */
static double measure_wrap(const ct_wrap_grid *grid, const ct_wrap_surface *surface) {
    uint32_t nearest;
    double bound = 0;
    for (size_t v = 0; v < surface->n_points; v++) {
        if (CT_POLL_EVERY(v, 16) && ct_is_cancelled()) return 0;
        bound = fmax(bound, ct_wrap_distance(grid, surface->points[v], &nearest));
    }
    for (size_t t = 0; t < surface->n_triangles; t++) {
        double p[3][3];
        if (CT_POLL_EVERY(t, 4) && ct_is_cancelled()) return 0;
        for (int c = 0; c < 3; c++) memcpy(p[c], surface->points[surface->triangles[t][c]], sizeof p[c]);
        measure_triangle(grid, p, 0, &bound);
    }
    return fmax(SLACK * bound, LEAST) + ROUNDING;
}

/* ---- the soup ---- */

/* The surface in place of what the soup was. */
static ct_status put_surface(ct_soup *soup, const ct_wrap_grid *grid, const ct_wrap_surface *surface, ct_error *error) {
    soup->n_vertices = soup->n_triangles = soup->n_polygons = 0;
    ct_status status = ct_soup_reserve_vertices(soup, surface->n_points, error);
    if (status == CT_OK) status = ct_soup_reserve_triangles(soup, surface->n_triangles, error);
    float *low = status == CT_OK && soup->low ? malloc(12 * surface->n_points) : NULL;
    if (status == CT_OK && soup->low && !low)
        status = ct_fail(error, CT_OUT_OF_MEMORY, "resolution", "no memory for %zu vertices", surface->n_points);
    if (status != CT_OK) return status;
    for (size_t v = 0; v < surface->n_points; v++) {
        if (CT_POLL_EVERY(v, 4096) && ct_is_cancelled()) break;
        for (int k = 0; k < 3; k++) {
            const size_t i = 3 * v + (size_t)k;
            float rest;
            ct_split_double(grid->origin[k] + grid->side * surface->points[v][k], &soup->positions[i], &rest);
            if (low) low[i] = rest;
        }
    }
    memcpy(soup->triangles, surface->triangles, surface->n_triangles * sizeof surface->triangles[0]);
    soup->n_vertices = surface->n_points;
    soup->n_triangles = surface->n_triangles;
    if (soup->low) soup->n_low = surface->n_points;
    free(soup->low);
    soup->low = low;
    return ct_is_cancelled() ? ct_fail_cancelled(error) : CT_OK;
}

ct_status ct_take_wrap(ct_soup *soup, double resolution, double *deviation, ct_error *error) {
    ct_wrap_grid grid = {0};
    ct_wrap_surface surface = {0};
    ct_status status =
        ct_validate_elements(soup->positions, soup->n_vertices, soup->triangles, soup->n_triangles, error);
    if (status != CT_OK) return status;
    ct_enter_phase("measuring distances for a wrap");
    status = ct_make_wrap_grid(soup, resolution, &grid, error);
    ct_enter_phase("making a wrap");
    if (status == CT_OK && (!ct_march_wrap(&grid, &surface) || !ct_simplify_wrap(&surface, SIMPLIFY)))
        status = ct_fail(error, CT_OUT_OF_MEMORY, "resolution", "no memory for a wrap of %zu triangles",
                         surface.n_triangles);
    if (status == CT_OK) *deviation = grid.side * measure_wrap(&grid, &surface);
    if (status == CT_OK && ct_is_cancelled()) status = ct_fail_cancelled(error);
    if (status == CT_OK) status = put_surface(soup, &grid, &surface, error);
    ct_free_wrap_surface(&surface);
    ct_free_wrap_grid(&grid);
    return status;
}
