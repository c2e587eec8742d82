/* compact_cpu.h - the CPU's contact stage: a pair's sums to moments, entries and barycentres, some of a body's vertices
 * at a time. In two passes, as what a vertex weighs in the barycentre depends on the normal, which the moments tell. */
#ifndef CT_COMPACT_CPU_H
#define CT_COMPACT_CPU_H

#include "gpu/contact/result.h"
#include "gpu/span/span_cpu.h"

/* One body's sums, in the parts of several threads, which all have the same layout. */
typedef struct ct_sum_parts {
    ct_contact_sums *const *parts;
    uint32_t n_parts; /* 1 or more */
    int body;
    const ct_coords *coords; /* [vertices, whole groups]; of vertices whose sums are zero they may hold anything */
} ct_sum_parts;

/* How sums are turned into entries and weights. */
typedef struct ct_entry_scaling {
    ct_weight_units units;
    const ct_contact *contact; /* whose normal counts, */
    int has_normal;            /* if it has one */
    double scale;              /* ct_barycentre_scale */
    double pressure;           /* forces are the gradient times this */
} ct_entry_scaling;

/* Vertices [first, end) are whole CT_VERTEX_BLOCK. */
typedef struct ct_compact_cpu {
    /* Adds the parts up in the first of them, clears the others, and adds to *moments. Returns how many vertices have a
     * sum that is not zero. */
    size_t (*sum_parts)(const ct_sum_parts *summed, size_t first, size_t end, ct_moments *moments);

    /* After that: writes the entries of these vertices, in rising order, to those of the arrays that there are: at
     * index `at` and after it, `count` of them, which is what sum_parts told; adds to *barycentre; clears the sums. */
    void (*write_entries)(const ct_sum_parts *summed, size_t first, size_t end, const ct_entry_scaling *how,
                          ct_barycentre *barycentre, const ct_entry_arrays *to, size_t at, size_t count);
} ct_compact_cpu;

extern const ct_compact_cpu ct_compact_cpu_base;
#ifdef __x86_64__
extern const ct_compact_cpu ct_compact_cpu_avx2;
#endif

#endif
