/* allocation.h - which tiles of a view a pass refines, and how. For the method EBPI.
 *
 * Optimal: one multiplier for all tiles. Of the ways to lower the sum of the bounds, those are taken that take off most
 * for each ray, until the sum should be within the target. For sums of convex functions that takes the fewest rays. A
 * tile's error is one where it holds an edge; cutting it four times leaves the parts that the edge misses alone, so
 * rays follow the edges.
 *
 * Equal: all pixels have the same part of the target, as published (Wang 2012, section 4.3). What one needs less is not
 * given to others. A pixel's tiles have one size (tile_bound.h). Where the rays find more, those of its tiles that hold
 * more than the others are cut 4 x 4 (section 5).
 */
#ifndef CT_EBPI_ALLOCATION_H
#define CT_EBPI_ALLOCATION_H

#include "gpu/methods/ebpi/tile_bound.h"

/* One view in a pass. */
typedef struct ct_ebpi_pass {
    const ct_ebpi_view *view;
    const ct_ebpi_tile *tiles; /* [n]; those of other views are left as they are */
    uint32_t n;
    double unit;      /* m^3 of a lattice unit of depth over a pitch */
    double bound;     /* m^3, of the view */
    double target;    /* m^3, to reach */
    uint64_t most;    /* rays that are left */
    uint64_t n_new;   /* rays that the cuts cast */
    bool is_short;    /* more were needed */
    ct_ebpi_cut *cut; /* [n], of the tiles of this view: {0, 0} leaves one as it is */
} ct_ebpi_pass;

/* Area of a tile in pitches. */
int64_t ct_ebpi_area(const ct_ebpi_view *view, const ct_ebpi_tile *tile);

/* Bound of a tile, m^3. */
double ct_ebpi_bound_of(const ct_ebpi_view *view, const ct_ebpi_tile *tile, double unit);

/* Sets a measured tile's cuts, and what they should leave, from its polynomial. */
void ct_ebpi_plan_cuts(const ct_ebpi_view *view, const ct_ebpi_polynomial *polynomial, ct_ebpi_tile *tile);

/* The optimal allocation: sets cut, n_new and is_short. level: [CT_EBPI_LEVELS], working memory. */
typedef struct ct_ebpi_level {
    double gain; /* m^3, off the bounds of its tiles */
    uint64_t rays;
} ct_ebpi_level;

/* Gains are sorted into levels, 64 to each factor of 2 below the largest one; the last has all that are smaller. */
enum { CT_EBPI_LEVELS = 64 * 40 };

void ct_ebpi_choose_optimal(ct_ebpi_pass *pass, ct_ebpi_level *level);

/* A pixel of a view under the equal allocation. */
typedef struct ct_ebpi_pixel {
    double bound; /* m^3, of its tiles */
    uint32_t n;   /* tiles in it; 0: it is gathered with others into a larger tile */
} ct_ebpi_pixel;

/* What the equal allocation gives a view. */
typedef struct ct_ebpi_share {
    int32_t pixel_shift;   /* log2 of a pixel's side in pitches */
    int32_t columns, rows; /* pixels */
    double unit;           /* m^3 of a lattice unit of depth over a pitch */
    double of_pitch;       /* m^3: the part of the target for each pitch */
    ct_ebpi_pixel *pixel;  /* [rows * columns] */
} ct_ebpi_share;

/* The pixel that a tile lies in. */
size_t ct_ebpi_pixel_of(const ct_ebpi_view *view, const ct_ebpi_share *share, const ct_ebpi_tile *tile);

/* Adds a tile to its pixel; larger ones are not added. */
void ct_ebpi_add_to_pixel(const ct_ebpi_view *view, const ct_ebpi_share *share, const ct_ebpi_tile *tile);

/* The cut of a tile, once all are added: {0, 0} where its pixel's bound is within the pixel's part. A larger tile, one
 * of pixels that are gathered, is cut in four. polynomial: of a tile that is a whole pixel; not read of others. */
ct_ebpi_cut ct_ebpi_equal_cut(const ct_ebpi_view *view, const ct_ebpi_share *share, const ct_ebpi_tile *tile,
                              const ct_ebpi_polynomial *polynomial);

#endif
