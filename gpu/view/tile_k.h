/* tile_k.h - a view as a list of tiles, and how tiles are cut into bins.
 *
 * A view casts rays along one axis. Its samples form tiles: rectangles of equally spaced samples, each with its own
 * origin, pitch and ray area. The uniform layered depth image is one tile that fills the window. A tile is cut into
 * bins, rectangles of its samples; a bin is the unit of work of the raster and span stages, which do not depend on how
 * the tiles of a view were chosen.
 *
 *      v ^   tile 0, pitch p      tile 1, pitch p / 2
 *        |  +-----+-----+-----+  +--+--+--+--+
 *        |  |  .  |  .  |  .  |  | .| .| .| .|        . sample, at the centre of the area that its ray stands for
 *        |  +-----+-----+-----+  +--+--+--+--+
 *        |  |  .  |  .  |  .  |  | .| .| .| .|
 *        |  +-----+-----+-----+  +--+--+--+--+
 *        +---------------------------------------> u
 */
#ifndef CT_TILE_K_H
#define CT_TILE_K_H

#include "gpu/view/view_k.h"

typedef struct ct_tile {
    int32_t origin_u, origin_v; /* lattice coordinates of the tile's lower corner */
    int32_t shift_u, shift_v;   /* log2 of the sample pitch in lattice units, 1..28 */
    int32_t n_u, n_v;           /* samples along u and v */
    int64_t ray_area;           /* area of a ray, in multiples of the window's pitch_u x pitch_v; >= 1 */
} ct_tile;

/* Lattice coordinates of sample column i, and of sample row j. */
CT_FN int32_t ct_tile_u(const ct_tile *tile, int32_t i) {
    return tile->origin_u + ct_sample_coord(i, tile->shift_u);
}
CT_FN int32_t ct_tile_v(const ct_tile *tile, int32_t j) {
    return tile->origin_v + ct_sample_coord(j, tile->shift_v);
}

/* Samples [u0, u1) x [v0, v1); empty where u0 >= u1 or v0 >= v1. */
typedef struct ct_sample_rect {
    int32_t u0, u1, v0, v1;
} ct_sample_rect;

/* The samples of a tile that a triangle with these corners' extents in lattice coordinates can cover. */
CT_FN ct_sample_rect ct_tile_rect(const ct_tile *tile, int32_t lo_u, int32_t hi_u, int32_t lo_v, int32_t hi_v) {
    ct_sample_rect r;
    r.u0 = ct_samples_below(lo_u - tile->origin_u, tile->shift_u, tile->n_u);
    r.u1 = ct_samples_below(hi_u - tile->origin_u, tile->shift_u, tile->n_u);
    r.v0 = ct_samples_below(lo_v - tile->origin_v, tile->shift_v, tile->n_v);
    r.v1 = ct_samples_below(hi_v - tile->origin_v, tile->shift_v, tile->n_v);
    return r;
}

/* The tile of a uniform view along axis w: all samples of the window. */
CT_FN ct_tile ct_uniform_tile(const ct_window *window, int w) {
    const ct_lattice *u = &window->axis[ct_view_u(w)], *v = &window->axis[ct_view_v(w)];
    ct_tile tile;
    tile.origin_u = tile.origin_v = 0;
    tile.shift_u = u->shift;
    tile.shift_v = v->shift;
    tile.n_u = u->n;
    tile.n_v = v->n;
    tile.ray_area = 1;
    return tile;
}

#endif
