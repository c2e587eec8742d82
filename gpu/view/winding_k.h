/* winding_k.h - how a ray's initial winding number about a body is found: the winding number with which the ray enters
 * the window's depths. For the raster and span stages of every backend.
 *
 *        body lo        window lo             window hi    body hi
 *   ray ----|--- in front ---|------ kept ---------|--- behind ---|---->
 *
 * A closed surface's crossings along a ray sum to 0 (+1 where the ray enters the body, -1 where it leaves). The initial
 * winding number is the sum of the crossings in front of the window. Where nothing lies behind the window it is also
 * minus the sum of the crossings that are kept, so the crossings in front need not be found.
 */
#ifndef CT_WINDING_K_H
#define CT_WINDING_K_H

#include "gpu/base/box.h"
#include "gpu/base/kernel.h"

typedef enum ct_initial_winding {
    CT_INITIAL_ZERO,         /* no triangle lies in front of the window */
    CT_INITIAL_FROM_BALANCE, /* none lies behind it: minus the sum of the crossings kept; those in front are dropped */
    CT_INITIAL_COUNTED,      /* triangles lie on both sides: crossings in front of the window are counted */
} ct_initial_winding;

/* For rays along axis w of the window of two bodies. Its depths are those that both boxes share (ct_view_plan). */
CT_FN ct_initial_winding ct_find_initial_winding(const ct_box *body, const ct_box *other, int w) {
    return body->lo[w] >= other->lo[w]   ? CT_INITIAL_ZERO
           : body->hi[w] <= other->hi[w] ? CT_INITIAL_FROM_BALANCE
                                         : CT_INITIAL_COUNTED;
}

#endif
