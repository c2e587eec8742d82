/* cells_cpu.h - what one thread of the CPU's span stage collects of a contact's cells: their spans, and records of what
 * their spans' ends and walls add to the gradient. The contact stage sorts all threads' records by cell and sums them:
 * integers, so neither threads nor the order of rays change a bit. */
#ifndef CT_CELLS_CPU_H
#define CT_CELLS_CPU_H

#include "gpu/base/scratch.h"
#include "gpu/span/cells_k.h"

/* The spans of a cell, as in ct_contact_sums. */
typedef struct ct_cell_spans {
    uint64_t key; /* ct_cell_key */
    int64_t length[3], spans[3];
} ct_cell_spans;

/* What a triangle's corners get of one view in one cell: corners 1 and 2 l1 and l2, corner 0 the rest of `whole`. In
 * units of weight times ray area. */
typedef struct ct_cell_record {
    uint32_t cell; /* index of the cell << 2 | view */
    uint32_t tag;  /* as in ct_fragment */
    int64_t whole, l1, l2;
} ct_cell_record;

/* Neighbouring rays mostly meet the same triangles and cells, so records are added up in a direct-mapped cache. It
 * holds what a row of a thousand rays meets, until the next row meets the same. */
enum { CT_CELL_CACHE_BITS = 11 };

#define CT_NO_RECORD UINT32_MAX /* the tag of an unused record of the cache */

typedef struct ct_cell_scratch {
    ct_buffer table;   /* uint32_t [table_mask + 1]: 1 + index of a cell, or 0 */
    ct_buffer cells;   /* ct_cell_spans [n_cells], in the order in which they were met */
    ct_buffer records; /* ct_cell_record [n_records] */
    uint32_t table_mask, n_cells;
    size_t n_records, max_records; /* max_records: that `records` has memory for */
    uint64_t last_key;             /* of cell number last */
    uint32_t last;
    ct_cell_record cache[1 << CT_CELL_CACHE_BITS]; /* unused between bins */
} ct_cell_scratch;

/* Beyond the limit of cells, they are only counted, up to so many times the limit: for the error's message. */
enum { CT_CELLS_COUNTED = 16 };

/* Drops all cells. False: out of memory. */
bool ct_cells_clear(ct_cell_scratch *scratch, ct_budget *budget);
/* Finds or adds the cell of that key; then it is scratch->last. False: out of memory. */
bool ct_cells_find(ct_cell_scratch *scratch, ct_budget *budget, uint64_t key);
/* Doubles the memory for records. False: out of memory. */
bool ct_cells_grow_records(ct_cell_scratch *scratch, ct_budget *budget);

#endif
