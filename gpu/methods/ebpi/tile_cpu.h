/* tile_cpu.h - the CPU's kernels of the method EBPI for the pixels of views and for tiles, one set per instruction set.
 */
#ifndef CT_EBPI_TILE_CPU_H
#define CT_EBPI_TILE_CPU_H

#include "gpu/base/arena.h"
#include "gpu/methods/ebpi/tile_bound.h"

/* Per-thread memory. */
typedef struct ct_ebpi_scratch {
    ct_buffer faces, intervals, slots; /* of the tile that is measured */
    ct_buffer records, tags, parts;    /* of one that is cut: its faces, and which of them its parts have */
} ct_ebpi_scratch;

void ct_ebpi_scratch_free(ct_ebpi_scratch *scratch, ct_budget *budget);

typedef struct ct_ebpi_list_cpu {
    /* Counts the faces of a part of body b over each pixel of several views of one pair: ct_ebpi_view.next. */
    void (*count)(const ct_ebpi_view *views, int n_views, int b, uint32_t part);
    /* Writes them, once they are placed. */
    void (*write)(const ct_ebpi_view *views, int n_views, int b, uint32_t part);
    /* Cubic lattice units: bounds by how much snapping the body's vertices to the lattice changes a volume in the
     * window. Each moves by half a unit at most along each axis, so a triangle of a part stays within its Minkowski sum
     * with a cube of one unit. Exact: parts are added in any order. */
    __int128 (*bound_moved)(const ct_window *window, const ct_ebpi_view *view, int b, uint32_t part);
} ct_ebpi_list_cpu;

typedef struct ct_ebpi_cpu {
    /* Sets length and bound of a tile, and *polynomial, if it is not NULL, to that of the tile's edges and crossings.
     * False: out of memory. */
    bool (*measure)(const ct_ebpi_view *view, ct_ebpi_bound bound, ct_ebpi_tile *tile, ct_ebpi_polynomial *polynomial,
                    ct_ebpi_scratch *scratch, ct_budget *budget);
    /* Gives each of the tiles that another one was cut into, in rising order of v, then u, its part of that one's
     * faces. All have its list; their sides are its sides divided by 2^cut_u and 2^cut_v, each 0 to 2. Measures each,
     * too, with its polynomial, unless polynomials, one a tile, is NULL: that way faces are fetched once for all.
     * Memory is the arena's. False: out of memory. */
    bool (*share)(const ct_ebpi_view *view, ct_ebpi_bound bound, ct_ebpi_tile *tiles, int cut_u, int cut_v,
                  ct_ebpi_polynomial *polynomials, ct_ebpi_scratch *scratch, ct_arena *arena, ct_budget *budget);
    const ct_ebpi_list_cpu *list;
} ct_ebpi_cpu;

extern const ct_ebpi_cpu ct_ebpi_cpu_base;
extern const ct_ebpi_list_cpu ct_ebpi_list_cpu_base;
#ifdef __x86_64__
extern const ct_ebpi_cpu ct_ebpi_cpu_avx2;
extern const ct_ebpi_list_cpu ct_ebpi_list_cpu_avx2;
#endif

#endif
