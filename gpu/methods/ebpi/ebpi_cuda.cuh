/* ebpi_cuda.cuh - the kernels of the method EBPI: faces over pixels, parts of tiles, measuring tiles, and spans of the
 * last ones. The host drives the passes of many pairs side by side (refine.h, gpu/methods/ebpi/passes_cuda.cu) and waits
 * between them, so it knows how much memory each launch needs. A launch is for all pairs that need the same.
 *
 *    begin     snap_vertices                              once
 *    lists     count_faces, write_faces                   each pixel's faces; the host places them
 *    pass      count_parts, write_parts                   a cut tile's faces to its parts; the host places them
 *              measure_tiles
 *    spans     claim_tile_pages, add_tile_spans           of the tiles that are left, once
 *
 * No order of faces or threads changes a bit: whatever they add up is an integer.
 */
#ifndef CT_EBPI_CUDA_CUH
#define CT_EBPI_CUDA_CUH

#include "gpu/methods/ebpi/intervals_k.h"
#include "gpu/methods/ebpi/measure_k.h"
#include "gpu/methods/ldi/ldi_cuda.cuh"
#include "gpu/view/turned_k.h"

extern "C" {
#include "gpu/methods/ebpi/refine.h"
}

enum { CT_EBPI_LANES = 32 }; /* threads of a tile: a warp */

/* A pair, with pointers of the device; of `view` only what the plan says (ct_ebpi_view_plan, initial). */
struct ct_ebpi_pair {
    const ct_gpu_body *body[2];
    const uint32_t (*opposite[2])[3]; /* ct_adjacency */
    const uint32_t *triangles[2];
    uint32_t n_vertices[2], n_triangles[2];
    uint64_t first_vertex; /* among those of all pairs: body 0's come first */
    uint64_t candidate, step;
    ct_window window;
    const ct_turned_views *turned; /* NULL: the views lie along the world's axes */
    ct_ebpi_view view[3];
    int32_t (*coords[2])[4]; /* [n_vertices] */
};

struct ct_ebpi_snap_tables {
    const ct_ebpi_pair *pairs;
    uint64_t n_pairs, n_vertices; /* n_vertices: of all pairs */
};

/* A pair whose faces are listed over pixels. */
struct ct_ebpi_listed {
    uint32_t pair;
    uint64_t first_chunk;    /* of CT_BLOCK faces, among those of all */
    uint64_t first_count;    /* among those of all: [2][n_pixels], per body */
    uint64_t first_pixel[3]; /* of each view among all of the pair's */
    uint64_t n_pixels;       /* of all views */
    uint64_t first_face[3];  /* where each view's are written */
};

struct ct_ebpi_list_tables {
    const ct_ebpi_pair *pairs;
    const ct_ebpi_listed *listed; /* [n] */
    uint64_t n, n_chunks;
    uint64_t (*moved)[2][2]; /* [n] per body, cubic units: sums of the lower and the upper 32 bits of each face's */
    uint32_t *count;         /* of faces over a pixel; then where the next one goes, from the view's faces on */
    uint32_t *faces;
};

/* Parts of tiles. A tile that is not cut is its only part. */
struct ct_ebpi_cut_tables {
    const ct_ebpi_pair *pairs;
    const ct_ebpi_tile *tiles;               /* [n] */
    const uint32_t *pair_of;                 /* [n] */
    const ct_ebpi_cut *cut;                  /* [n], at most twice a side */
    const uint64_t *first_part, *first_face; /* [n] among all parts; among the bits of all tiles */
    uint64_t n;
    uint16_t *covered;    /* a bit for each part that a face is over */
    uint32_t (*count)[2]; /* per part and body: faces; then how many are written */
    uint32_t **faces;     /* per part */
    uint32_t *second;     /* per part: where body 1's begin */
};

/* What a tile is measured with. */
struct ct_ebpi_measured {
    uint64_t memory; /* where its ct_ebpi_measure_bytes begin */
    uint32_t pair, is_strict;
};

struct ct_ebpi_measure_tables {
    const ct_ebpi_pair *pairs;
    ct_ebpi_tile *tiles;              /* [n] */
    const ct_ebpi_measured *measured; /* [n] */
    uint64_t n;
    char *memory;
    ct_ebpi_polynomial *polynomials; /* [n]; NULL: not wanted, and cuts are planned */
};

/* Spans of tiles. */
struct ct_ebpi_span_tables : ct_answer_tables {
    const ct_ebpi_pair *of;
    const ct_ebpi_tile *tiles; /* [n_tiles], each with a length */
    const uint32_t *pair_of;   /* [n_tiles] */
    uint64_t n_tiles;
    const uint64_t *first_fragment; /* [n_tiles + 1] */
    ct_gpu_fragment *crossings;
};

/* Memory to measure a tile of n faces: the faces, crossings of each body in the ray's order, layers, intervals, slots.
 */
CT_FN uint32_t ct_ebpi_slots_for(uint32_t n) {
    uint32_t slots = 8;
    while (slots < 2 * n) slots *= 2;
    return slots;
}
CT_FN uint64_t ct_ebpi_measure_bytes(uint32_t n) {
    const uint64_t bytes = n * (sizeof(ct_ebpi_face) + sizeof(uint32_t)) + (n + 4) * sizeof(ct_layer) +
                           (3 * (uint64_t)n + 12) * sizeof(ct_interval) + ct_ebpi_slots_for(n) * sizeof(uint32_t);
    return (bytes + 15) / 16 * 16;
}

unsigned ct_cuda_snap_ebpi(const ct_ebpi_snap_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_count_faces(const ct_ebpi_list_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_write_faces(const ct_ebpi_list_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_count_parts(const ct_ebpi_cut_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_write_parts(const ct_ebpi_cut_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_measure_tiles(const ct_ebpi_measure_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_span_tiles(const ct_ebpi_span_tables *tables, unsigned grid, cudaStream_t stream);

extern const ct_kernel_entry ct_ebpi_list_kernels[], ct_ebpi_tile_kernels[], ct_ebpi_span_kernels[];

#endif
