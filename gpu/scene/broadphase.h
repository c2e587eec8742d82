/* broadphase.h - finds all pairs of bodies with overlapping boxes, once per scene and step; for the engine.
 *
 * Sweep and prune along the axis of largest spread, separately in each cell of a grid over the other two axes. A stack,
 * a plane or a pile of bodies then costs a small multiple of the number of bodies. Results do not depend on the number
 * of threads or on earlier calls.
 */
#ifndef CT_BROADPHASE_H
#define CT_BROADPHASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/base/box.h"
#include "gpu/include/contact.h"

typedef struct ct_broad_body {
    ct_box box; /* finite; an empty box (lo >= hi on some axis) overlaps nothing */
    uint32_t group, mask;
    bool meets_itself; /* a pair (i, i) is reported of the body, whatever its group and mask */
} ct_broad_body;

typedef struct ct_pair {
    uint32_t a, b; /* indices of bodies, a < b; a == b: a body that meets itself */
} ct_pair;

/* Reusable memory and the pairs of the last call. Zero-initialise (ct_broadphase x = {0}); free with
 * ct_broadphase_free.
 */
typedef struct ct_broadphase {
    const ct_pair *pairs; /* sorted by (a, b); owned, valid until the next call */
    size_t n_pairs;
    size_t most_pairs;  /* a call that finds more fails; 0: no limit */
    uint64_t box_tests; /* of the last call: a metric */
    size_t bytes;       /* of memory */
    void *memory[6];    /* private: reusable arrays */
    size_t capacity[6]; /* bytes of each */
} ct_broadphase;

/* The key of an ignored pair; the order of the bodies does not matter. */
static inline uint64_t ct_pair_key(uint32_t i, uint32_t j) {
    return i < j ? (uint64_t)i << 32 | j : (uint64_t)j << 32 | i;
}

/* Finds every pair whose boxes overlap by more than 0 on all three axes, for which (a.group & b.mask) and
 * (b.group & a.mask) are both non-zero, and whose key is not in ignored[n_ignored], which is sorted ascending and may
 * contain duplicates; and the pairs of bodies that meet themselves. Allocates only to grow its memory. LIMIT_EXCEEDED
 * (2^32 bodies, most_pairs), OUT_OF_MEMORY, CANCELLED. */
ct_status ct_broadphase_run(ct_broadphase *broad, const ct_broad_body *bodies, size_t n_bodies, const uint64_t *ignored,
                            size_t n_ignored, ct_error *error);

void ct_broadphase_free(ct_broadphase *broad); /* frees the memory and zeroes the struct */

#endif
