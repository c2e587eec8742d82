/* broadphase.h - which bodies of a scene may touch: all pairs of overlapping boxes, for the engine, once per scene and
 * step.
 *
 * Sweep and prune along the axis of largest spread inside a grid of columns over the other two, so that neither a
 * stack, a plane nor a pile costs more than a small multiple of its bodies. Results do not depend on threads or
 * history.
 */
#ifndef CT_BROADPHASE_H
#define CT_BROADPHASE_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/base/box.h"
#include "gpu/include/contact.h"

typedef struct ct_broad_body {
    ct_box box; /* finite; an empty one (lo >= hi on some axis) meets nothing */
    uint32_t group, mask;
} ct_broad_body;

typedef struct ct_pair {
    uint32_t a, b; /* indices of bodies, a < b */
} ct_pair;

/* Reusable memory and the last answer. Zero-initialise (or ct_broadphase x = {0}); free with ct_broadphase_free. */
typedef struct ct_broadphase {
    const ct_pair *pairs; /* in rising order of (a, b); owned, valid until the next call */
    size_t n_pairs;
    uint64_t box_tests; /* box against box, in the last call */
    size_t bytes;       /* memory held */
    void *memory[6];    /* private, with their sizes */
    size_t capacity[6];
} ct_broadphase;

/* The key of an ignored pair, in either order of its bodies. */
static inline uint64_t ct_pair_key(uint32_t i, uint32_t j) {
    return i < j ? (uint64_t)i << 32 | j : (uint64_t)j << 32 | i;
}

/* Finds every pair whose boxes overlap with positive extent on all three axes (touching is none), for which
 * (a.group & b.mask) and (b.group & a.mask) are both non-zero, and whose key is not in ignored[n_ignored], which is
 * sorted rising (repeats allowed). Allocates only when its memory has to grow. LIMIT_EXCEEDED (2^32 bodies),
 * OUT_OF_MEMORY. */
ct_status ct_broadphase_run(ct_broadphase *broad, const ct_broad_body *bodies, size_t n_bodies, const uint64_t *ignored,
                            size_t n_ignored, ct_error *error);

void ct_broadphase_free(ct_broadphase *broad); /* frees the memory and zeroes the struct */

#endif
