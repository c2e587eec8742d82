/* cells_cpu.h - what one thread of the CPU's span stage collects of a contact's cells: their spans, and records of what
 * their spans' ends and walls add to the gradient. The contact stage sums the records of each cell from all threads:
 * integers, so neither threads nor the order of rays change a bit. */
#ifndef CT_CELLS_CPU_H
#define CT_CELLS_CPU_H

#include "gpu/base/scratch.h"
#include "gpu/methods/ldi/cells_k.h"

/* A cell: its spans, as in ct_contact_sums, and its records. */
typedef struct ct_cell_spans {
    uint64_t key; /* ct_cell_key */
    int64_t length[3], spans[3];
    uint32_t chunk;           /* the last of its chunks of records, or CT_NO_CHUNK */
    uint32_t next, chunk_end; /* that chunk's next free record, and its end */
} ct_cell_spans;

/* What a triangle's corners get of one view in one cell. */
typedef struct ct_cell_record {
    uint32_t corner[3]; /* vertices */
    uint32_t of;        /* body << 2 | view */
    int64_t weight[3];  /* per corner, times ray area */
} ct_cell_record;

/* A cell's records lie in chunks among those of other cells, so that they need no sorting. The element at a chunk's
 * index is no record: its corner[0] is the chunk before this one, or CT_NO_CHUNK, and its corner[1] where that one
 * ends.
 */
#define CT_NO_CHUNK UINT32_MAX

/* Neighbouring rays mostly meet the same triangles and cells, so records are added up in a direct-mapped cache. It
 * holds what a row of a thousand rays meets, until the next row meets the same. */
enum { CT_CELL_CACHE_BITS = 11 };

/* Corners 1 and 2 get l1 and l2, corner 0 the rest of `whole`; in units of weight. */
typedef struct ct_cached_record {
    uint32_t cell; /* index of the cell << 2 | view */
    uint32_t tag;  /* as in ct_fragment, or CT_NO_RECORD */
    int64_t whole, l1, l2;
} ct_cached_record;
#define CT_NO_RECORD UINT32_MAX

/* What the rays of a run add at spans' lower or upper ends in one triangle. All sums are zero outside [begin, end), and
 * below the tag of a triangle that closes this one. */
typedef struct ct_end_sums {
    uint32_t tag;       /* of the triangle, or CT_NO_RECORD */
    int32_t begin, end; /* cells along the rays */
    int32_t n_rays;
    int64_t (*ends)[3]; /* [cells]: whole, l1 and l2 of the ends in a cell */
    int64_t *walls[3];  /* [cells, padded]: the same of the walls above each cell */
} ct_end_sums;

/* The cells that follow each other along the rays of a run: rays of one row whose samples are in the same cell across.
 * Zero, and CT_UNKNOWN_CELL, between runs. */
typedef struct ct_cell_column {
    int32_t begin, end;      /* cells along the rays that any span of the run reaches into */
    uint32_t *cell;          /* [cells]: index << 2 | view */
    int64_t *length, *spans; /* [cells], not yet added to the cells' */
    int64_t *share, *rest;   /* [cells, padded]: of one span, the shares of its upper and lower end in the wall above */
    ct_end_sums end_sums[2][2]; /* of lower and upper ends: those of one body alone or of body 0, those of body 1 */
} ct_cell_column;
enum { CT_UNKNOWN_CELL = -1, CT_UNCOUNTED_CELL = -2 }; /* as uint32_t; the second: it is far beyond the limit */

/* Sums over cells along the rays are padded to whole vectors of so many. */
enum { CT_COLUMN_LANES = 4 };

typedef struct ct_cell_scratch {
    ct_buffer table;   /* uint32_t [table_mask + 1]: 1 + index of a cell, or 0 */
    ct_buffer cells;   /* ct_cell_spans [n_cells], in the order in which they were met */
    ct_buffer records; /* ct_cell_record [n_records], in chunks */
    ct_buffer column_memory;
    uint32_t table_mask, n_cells;
    uint32_t n_records;
    ct_cell_column column;
    ct_cached_record cache[1 << CT_CELL_CACHE_BITS]; /* unused between bins */
} ct_cell_scratch;

/* Drops all cells, and prepares for those of a grid. False: out of memory. */
bool ct_cells_clear(ct_cell_scratch *scratch, ct_budget *budget, const ct_cell_grid *grid);
/* Finds or adds the cell of that key. Returns its index, or CT_NO_CELL: out of memory. */
uint32_t ct_cells_find(ct_cell_scratch *scratch, ct_budget *budget, uint64_t key);
#define CT_NO_CELL UINT32_MAX
/* Gives a cell another chunk. False: out of memory. */
bool ct_cells_add_chunk(ct_cell_scratch *scratch, ct_budget *budget, ct_cell_spans *cell);

#endif
