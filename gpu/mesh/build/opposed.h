/* opposed.h - triangles that are there as often facing one way as the other, for the repair: which of them belong to the
 * surface. */
#ifndef CT_OPPOSED_H
#define CT_OPPOSED_H

#include "gpu/mesh/soup.h"

/* What the repair does with a triangle. */
typedef enum ct_dropping {
    CT_KEEP,
    CT_DROP_DEGENERATE,
    CT_DROP_DUPLICATE,
    CT_OPPOSED /* the first of those between three vertices that cancel each other out: to be settled */
} ct_dropping;

/* Makes CT_OPPOSED triangles CT_KEEP or CT_DROP_DUPLICATE. Those connected to each other by edges that no kept triangle
 * has are a patch. A patch is kept, once, that is a closed surface of its own, as of a body whose faces were all written
 * for both sides, or that fills a hole of the others; with is_open, the surface need not be closed, also one that ends
 * nowhere else. What hangs on the surface, parts it inside, or is a sheet is dropped. dropping: [n_triangles], of
 * ct_dropping. False: out of memory, or cancelled. */
bool ct_settle_opposed(const ct_soup *soup, bool is_open, uint8_t *dropping);

#endif
