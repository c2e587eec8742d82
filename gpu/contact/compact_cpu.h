/* compact_cpu.h - the CPU's contact stage: turns the gradient sums of one body's vertices into moments, entries and
 * barycentres. It works on ranges of vertices, so that several threads can share a body, and in two passes:
 *
 *     reduce_sums     threads' partial sums -> total sums, their number, moments -> normal
 *     write_entries   total sums, normal -> entries (gradient, friction weight, force), barycentre
 *
 * The second pass needs the contact's normal, which follows from the moments of the first. */
#ifndef CT_COMPACT_CPU_H
#define CT_COMPACT_CPU_H

#include "gpu/contact/result.h"
#include "gpu/contact/sums_cpu.h"
#include "gpu/view/snap_cpu.h"

/* One body's gradient sums, in one set of partial sums per thread that computed spans. */
typedef struct ct_partial_sums {
    ct_contact_sums *const *of_thread;
    uint32_t n_threads; /* at least 1 */
    int body;
    const ct_coords *coords; /* [vertices, whole groups]; undefined for vertices whose sums are zero */
} ct_partial_sums;

/* How sums are turned into entries and barycentre weights. */
typedef struct ct_entry_scaling {
    ct_weight_units units;
    const ct_contact *contact; /* its normal; zero without has_normal */
    int has_normal;
    double barycentre_scale; /* ct_barycentre_scale */
    double pressure;         /* N/m^2; force = pressure * gradient */
} ct_entry_scaling;

/* Both functions process vertices [first, end), which are whole CT_VERTEX_BLOCKs. */
typedef struct ct_compact_cpu {
    /* Adds all threads' sums into the first thread's, clears the others, and adds to *moments. Returns the number of
     * vertices whose total is not zero. */
    size_t (*reduce_sums)(const ct_partial_sums *partial, size_t first, size_t end, ct_moments *moments);

    /* Call it after reduce_sums. Writes the entries of these vertices to the arrays that are not NULL, by rising
     * vertex, at indices [at, at + count), where count is what reduce_sums returned. Adds to *barycentre and clears the
     * sums. */
    void (*write_entries)(const ct_partial_sums *partial, size_t first, size_t end, const ct_entry_scaling *scaling,
                          ct_barycentre *barycentre, const ct_entry_arrays *arrays, size_t at, size_t count);
} ct_compact_cpu;

extern const ct_compact_cpu ct_compact_cpu_base;
#ifdef __x86_64__
extern const ct_compact_cpu ct_compact_cpu_avx2;
#endif

#endif
