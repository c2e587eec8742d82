/* refine.h - refines the tiles of a pair in passes until the bound of the volume's error is within the tolerance. For
 * every backend of the method EBPI: which tiles are cut is decided here, on the host, from sums in the tiles' order. A
 * backend measures tiles and cuts them.
 *
 * In order: ct_ebpi_plan_views; the backend sets `initial` of the views; then it does what ct_ebpi_next asks for, and finds what
 * snapping moves when it lists faces.
 */
#ifndef CT_EBPI_REFINE_H
#define CT_EBPI_REFINE_H

#include "gpu/include/contact.h"
#include "gpu/methods/ebpi/allocation.h"

/* Pitches along each axis of a pair's window: the finest tiles. Gradient sums are weights of 30 bits times areas of at
 * most 28, so a vertex may bound 32 layers of the whole window. */
#define CT_EBPI_PITCHES 16384

/* Marks a tile that is not measured yet. */
enum { CT_EBPI_UNMEASURED = -1 };

/* What the tiles of a view come to. */
typedef struct ct_ebpi_totals {
    double bound, square, volume; /* m^3, m^6, m^3 */
} ct_ebpi_totals;

typedef struct ct_buffer ct_buffer; /* gpu/base/scratch.h */

/* What a refinement asks of its backend (ct_ebpi_next). */
typedef enum ct_ebpi_operation {
    CT_EBPI_BEGIN, /* nothing yet: it is to begin */
    /* To list the faces of the views, as for the first tiles: measuring and cutting tiles reorders their lists. */
    CT_EBPI_LIST,
    /* To measure the tiles whose bound is CT_EBPI_UNMEASURED: length, bound, cut and left. */
    CT_EBPI_MEASURE,
    /* To write to of->parts[n_parts] the tiles that each tile becomes by of->cut, no side halved more than
     * ct_ebpi_cut_at_once says, in their order: ct_ebpi_make_parts, with the faces that are over each. Those that are not
     * cut further may be measured, too. */
    CT_EBPI_CUT,
    /* To set of->cut of all tiles by ct_ebpi_equal_cut. */
    CT_EBPI_CUT_EQUALLY,
    CT_EBPI_DONE,  /* nothing more: of->ended says how it ended */
    CT_EBPI_FAILED /* nothing more: it is out of memory, or was cancelled */
} ct_ebpi_operation;

typedef struct ct_ebpi_refinement {
    ct_ebpi_operation asked; /* last */
    const ct_window *window;
    double tolerance, tolerance_rel; /* ct_scene_settings */
    ct_allocation allocation;
    uint64_t ray_budget;
    bool is_strict;  /* the bound that `measure` is to find; set where the views refute the published one */
    ct_arena *arena; /* of the shares */
    ct_budget *budget;
    ct_buffer *tile_memory, *cut_memory; /* [2], [1] */
    ct_ebpi_view view[3];
    double moved; /* m^3: what snapping changes */
    ct_ebpi_tile *tiles;
    uint32_t n;
    int current; /* which of tile_memory holds them */
    ct_ebpi_totals totals[3];
    ct_ebpi_cut *cut;       /* [n], of the pass */
    ct_ebpi_share share[3]; /* of the equal allocation */
    uint64_t n_new;         /* rays of the pass */
    uint32_t last_pass;     /* that there may be */
    ct_ebpi_tile *parts;    /* of the cut that is asked for, */
    uint32_t n_parts;       /* and how many */
    /* out: */
    uint64_t rays;
    uint32_t passes;
    ct_ended ended;
} ct_ebpi_refinement;

/* OUT_OF_RANGE: a tolerance, m^3, that is more than 0 and less than the window's lattice can carry, and no relative one
 * beside it: of both the larger counts. */
ct_status ct_ebpi_check_tolerance(double tolerance, double relative, const ct_window *window, ct_error *error);

/* Plans the pixels of the views of two bodies with so many faces together. False: out of memory. */
bool ct_ebpi_plan_views(ct_ebpi_refinement *of, double n_faces);

/* What is to be done next, once the backend has done what was asked before; of->asked is CT_EBPI_BEGIN at first. Until the
 * bound is within the tolerance, or nothing more helps. Many refinements may so go on side by side.
 *
 * The views see one volume. Where the volumes of two differ by more than the sum of their published bounds, one of
 * these is wrong: all tiles are then measured anew by the strict bound. If the ray budget has not the rays for that,
 * the bounds grow by what the views differ. */
ct_ebpi_operation ct_ebpi_next(ct_ebpi_refinement *of);

/* The error of the volume of each view. */
void ct_ebpi_view_errors(const ct_ebpi_refinement *of, double bound[3], double deviation[3]);

/* A tile for pictures: all but its corner and sides, and these as parts: corner, u, v, along; m, along the window's
 * axes. */
void ct_ebpi_describe_tile(const ct_ebpi_refinement *of, const ct_ebpi_tile *tile, ct_ray_tile *to, double part[4][3]);
void ct_ebpi_set_parts(ct_ray_tile *to, const double part[4][3]);

/* Memory of a refinement on the host, for backends whose own is on a device. new: NULL: out of memory. */
typedef struct ct_ebpi_memory ct_ebpi_memory;
ct_ebpi_memory *ct_ebpi_memory_new(void);
void ct_ebpi_memory_free(ct_ebpi_memory **memory);
void ct_ebpi_memory_use(ct_ebpi_memory *memory, ct_ebpi_refinement *of); /* drops what was allocated for the last one */
void *ct_ebpi_memory_alloc(ct_ebpi_memory *memory, size_t bytes);        /* until then */

/* The tiles that a cut makes of one. */
static inline uint32_t ct_ebpi_count_parts(ct_ebpi_cut cut) {
    return 1u << (cut.u + cut.v);
}

/* The part of a cut that is done at once: a side is halved twice at most. */
static inline ct_ebpi_cut ct_ebpi_cut_at_once(ct_ebpi_cut cut) {
    const ct_ebpi_cut at_once = {cut.u < 2 ? cut.u : (uint8_t)2, cut.v < 2 ? cut.v : (uint8_t)2};
    return at_once;
}

/* The parts of a tile by the first of `whole`, in rising order of v, then u, with the tile's faces. What is left of the
 * cut waits in cut[0] of each. */
void ct_ebpi_make_parts(const ct_ebpi_tile *tile, ct_ebpi_cut whole, ct_ebpi_tile *to);

#endif
