/* cells_cuda.cuh - divides contacts into cells (cells_k.h) on a device.
 *
 * Spans of contacts with cells are listed by find_spans. A thread cuts one of them at its walls and adds the parts to
 * cells, which it finds by their keys in a hash table; and in another pass the ends and walls of the parts to vertices
 * of cells, in a second hash table. Both hold only what is met, and sums are integers, so no order changes a bit.
 *
 *     meet_cells     spans -> cells: lengths and numbers of spans
 *     list_cells     the cells, one after the other, which numbers them
 *     sum_cells      spans -> vertices of cells: sums of weights
 *     list_entries   the vertices of cells whose sums are not zero, with their lattice coordinates
 *
 * Where a hash table turns out too small, its kernels give up; the host makes it larger and launches them again
 * (gpu/methods/ldi/divide_cuda.cu). The host sorts what is listed, and finishes the cells.
 */
#ifndef CT_CELLS_CUDA_CUH
#define CT_CELLS_CUDA_CUH

#include "gpu/methods/ldi/cells_k.h"
#include "gpu/methods/ldi/ldi_cuda.cuh"

/* A cell that a span reaches into. In the hash table a slot with key 0 is free. */
struct ct_gpu_cell {
    uint64_t key;                /* ct_gpu_cell_key */
    int64_t length[3], spans[3]; /* per view, as of a contact */
    uint64_t index;              /* in the list of cells */
};

/* The sums of a vertex in a cell. */
struct ct_gpu_cell_vertex {
    uint64_t key; /* ct_gpu_cell_vertex_key */
    int64_t sums[3];
};

/* The same, as the host gets it. */
struct ct_gpu_cell_entry {
    uint64_t key;
    int64_t sums[3];
    int32_t coords[3]; /* of the vertex, on the lattice */
    uint32_t unused;
};

enum { CT_CELL_KEY_BITS = 36, CT_CELL_INDEX_BITS = 29 };
static_assert((uint64_t)CT_MAX_CELLS_ALONG * CT_MAX_CELLS_ALONG * CT_MAX_CELLS_ALONG == (uint64_t)1 << CT_CELL_KEY_BITS,
              "a cell's key has so many bits");

/* cell: ct_cell_key. Candidates below 2^27. */
CT_FN uint64_t ct_gpu_cell_key(uint64_t candidate, uint64_t cell) {
    return (candidate << CT_CELL_KEY_BITS | cell) + 1;
}
CT_FN uint64_t ct_gpu_cell_candidate(uint64_t key) {
    return (key - 1) >> CT_CELL_KEY_BITS;
}
CT_FN uint64_t ct_gpu_cell_place(uint64_t key) { /* its ct_cell_key */
    return (key - 1) & (((uint64_t)1 << CT_CELL_KEY_BITS) - 1);
}

/* cell: index in the list of cells, below 2^CT_CELL_INDEX_BITS. */
CT_FN uint64_t ct_gpu_cell_vertex_key(uint64_t cell, uint32_t part, uint32_t vertex) {
    return (cell << 33 | (uint64_t)part << 32 | vertex) + 1;
}
CT_FN uint64_t ct_gpu_vertex_cell(uint64_t key) {
    return (key - 1) >> 33;
}
CT_FN uint32_t ct_gpu_vertex_part(uint64_t key) {
    return (uint32_t)((key - 1) >> 32) & 1;
}
CT_FN uint32_t ct_gpu_vertex_number(uint64_t key) {
    return (uint32_t)(key - 1);
}

/* All 0 before meet_cells; entries 0 before list_entries; is_full and vertices 0 before sum_cells. */
struct ct_gpu_cell_counts {
    uint64_t cells, listed, vertices, entries;
    uint32_t is_full, unused; /* 1: a key found no slot */
};

struct ct_cell_tables {
    const ct_cell_grid *grids; /* [counts->candidates] with walls on the device; axis[0].n == 0: no cells */
    uint64_t *met;             /* [counts->candidates] cells of each, beyond CT_CELLS_COUNTED times the limit not all */
    ct_gpu_cell_counts *counts;
    ct_gpu_cell *cells;           /* [2^cell_bits] hash table */
    ct_gpu_cell *list;            /* [counts->cells], in no order */
    ct_gpu_cell_vertex *vertices; /* [2^vertex_bits] hash table */
    ct_gpu_cell_entry *entries;   /* [counts->vertices], in no order */
    uint32_t cell_bits, vertex_bits;
};

/* Each launches one kernel. The hash table of the first and the third is zero before. */
unsigned ct_cuda_meet_cells(const ct_span_tables *tables, const ct_cell_tables *cells, unsigned grid,
                            cudaStream_t stream);
unsigned ct_cuda_list_cells(const ct_cell_tables *cells, unsigned grid, cudaStream_t stream);
/* After the sides of bodies with themselves are known, before the contact stage clears the sums. */
unsigned ct_cuda_sum_cells(const ct_span_tables *tables, const ct_cell_tables *cells, unsigned grid,
                           cudaStream_t stream);
unsigned ct_cuda_list_cell_entries(const ct_span_tables *tables, const ct_cell_tables *cells, unsigned grid,
                                   cudaStream_t stream);

extern const ct_kernel_entry ct_cell_kernels[];

#endif
