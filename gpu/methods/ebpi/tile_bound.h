/* tile_bound.h - a tile: its ray, and the bound of the error of the volume that it stands for. tile_cpu.h casts and
 * bounds.
 *
 * The bound holds for every tile whose faces are listed, wherever the bodies' edges and the curve in which their
 * surfaces cross happen to lie. It does not rest on what the ray meets. L(x) is the length of the ray at x inside both
 * bodies, c the tile's centre. L is linear but for kinks: at edges, and where the surfaces cross ("transient edges").
 * On the way from c to x, each kink that is crossed adds (jump of the slope) . (x - kink), and the linear rest
 * integrates to 0 over the tile by symmetry. So the error is at most the sum over the kinks of the integral beyond each
 * one, which is largest for a kink through c:
 *
 *     E(g) = 1/2 integral |g . x|,   g: the jump of the slope         (Wang 2012, equation 7, with g for both faces)
 *
 *     - a kink that passes c at a distance, or of which c sees a small angle, has less beyond it;
 *     - a steep or narrow face counts as a jump of its depth interval d: half the tile times d for each of its edges
 *       (equation 4), and its neighbours then by their whole slopes;
 *     - depths where one of the bodies is surely outside, all over the tile, hold no error: intervals are cut to J, the
 *       depths where both may be inside;
 *     - the sum is never more than the tile's area times the depths in J that hold a face.
 *
 * This is the strict bound: it has k = +1 for all faces of the paper's algorithm 1, counts every tile that an edge
 * touches, and needs no approximation planes. Bodies that overlap themselves are outside the proof. The published bound
 * (edge_k.h) also takes J into account, weighs an edge by the tiles that it may cross, l_u / w + l_v / h, which is less
 * than one for a short edge, and looks for transient edges only between faces that the ray meets (section 5).
 */
#ifndef CT_EBPI_TILE_BOUND_H
#define CT_EBPI_TILE_BOUND_H

#include "gpu/methods/ebpi/tile_size_k.h"
#include "gpu/methods/ebpi/view.h"

typedef struct ct_ebpi_tile {
    uint32_t *faces; /* those that meet the tile (ct_ebpi_face_meets), tagged as the view's, body 0's first; once it
                        is measured, those that its ray crosses come first of each body's, and those where the other
                        body is not, all over the tile, may be missing (tile_kept.h) */
    uint32_t n_faces;
    uint32_t begin[2]; /* once it is measured: of each body's faces; and how many the ray crosses */
    uint32_t n_crossed[2];
    int32_t start[2]; /* of each body: what missing faces add to the winding number where rays begin; an initial winding
                         number that is FROM_BALANCE is minus the sum of the listed crossings, and this */
    int32_t u, v;     /* lower corner, lattice coordinates */
    uint8_t view;     /* index among the views */
    uint8_t shift_u, shift_v; /* log2 of the sides, lattice units */
    ct_ebpi_cut cut[2];       /* for one pass and for two: the planner's (ct_ebpi_plan_cuts) */
    float left[2];            /* the part of the bound that should be left after each */
    int32_t length;           /* of its ray inside both bodies, lattice units */
    int64_t bound;            /* of the mean over the tile of L(x) - length; see CT_EBPI_DEPTH_BITS */
} ct_ebpi_tile;

/* Faces of body 0 in a tile's list. */
CT_FN uint32_t ct_ebpi_count_first(const ct_ebpi_tile *tile) {
    uint32_t lo = 0, hi = tile->n_faces;
    while (lo < hi) {
        const uint32_t middle = lo + (hi - lo) / 2;
        if (tile->faces[middle] >> 31)
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo;
}

/* A tile is cut into so many parts at once, at most: ct_ebpi_cut_at_once. */
enum { CT_EBPI_PARTS_AT_ONCE = 16 };

typedef enum ct_ebpi_bound {
    CT_EBPI_STRICT,
    CT_EBPI_PUBLISHED,
} ct_ebpi_bound;

/* Both bodies have faces over a pixel, once these are written. */
bool ct_ebpi_is_under_both(const ct_ebpi_view *view, int32_t column, int32_t row);

/* The tile of a whole pixel. */
ct_ebpi_tile ct_ebpi_pixel_tile(const ct_ebpi_view *view, int32_t column, int32_t row);

/* ---- sizes of tiles (tile_size.c) ---- */

/* How finely a pixel of a view, or a tile, is cut, from its error bound polynomial (Wang 2012, sections
 * 4.2 and 4.3). The polynomial predicts; what holds is the bound that ct_ebpi_cpu.measure finds for each tile.
 *
 *     Delta(w, h) = sum over the pixel's edges of the tiles crossed, l_u / w + l_v / h, times the error in each (8, 9)
 *
 * Of the sizes with Delta <= tolerance the one with the largest area needs the fewest rays (10). With the ratio w / h
 * of the edges' weighted lengths (11) it is the root of one variable. Sides are halved, so that tiles are whole
 * pitches: counts of tiles are the next powers of 2.
 */

/* The mean over the pixel for tiles whose sides are the parts p and q of the pixel's; at least 0. */
double ct_ebpi_evaluate(const ct_ebpi_polynomial *polynomial, double p, double q);

/* Equations 10 and 11: the parts of the pixel's sides that its tiles have, at most 1, so that the polynomial there is
 * at most `tolerance`, which is > 0. */
void ct_ebpi_tile_size(const ct_ebpi_polynomial *polynomial, double tolerance, double *p, double *q);

/* The cut to tiles of equation 10, and no coarser one beside it, within the tolerance; at most `most`. */
ct_ebpi_cut ct_ebpi_cut_to(const ct_ebpi_polynomial *polynomial, double tolerance, ct_ebpi_cut most);

#endif
