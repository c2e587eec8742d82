/* columns.h - lines along a contact's normal through both of its bodies: how long they are inside both. For the points
 * of contacts.
 *
 *        u, v: across the normal          w: along it
 *
 *      ____|____________                  A column at (u, v) crosses surfaces of both bodies. Its span is the longest
 *     |    |   A        |                 stretch that is inside both, or twice inside a body that overlaps itself.
 *     |____|____________|   } span
 *   -------|----------------  top of B
 */
#ifndef CT_COLUMNS_H
#define CT_COLUMNS_H

#include "gpu/base/box.h"
#include "gpu/scene/column_tree.h"
#include "gpu/scene/surfaces.h"

typedef struct ct_columns {
    double center[3], axis[3][3]; /* m, world: the origin of u, v, w, and their unit vectors; axis[2] is the normal */
    double lo[2], hi[2];          /* m: the contact is within this window of u, v */
    double step;                  /* m: small beside the window */
    bool is_self;                 /* spans are where the first body's winding number is 2 or more */
    bool is_divided;    /* the pair has other contacts: spans count if both ends are on this one's triangles */
    double plane[2][4]; /* of half-spaces: inside where plane . (u, v, w, 1) <= 0 */
    bool is_half_space[2];
    ct_column_tree tree[2]; /* of each side's triangles that reach into the window; both sides of a body with itself
                               are in the first */
    const ct_column_triangle **near; /* [n_near[0] + n_near[1]] by side: those that gathered columns may cross */
    size_t n_near[2], near_capacity;
    struct ct_column_hit *hits; /* reusable memory of a column */
    size_t n_hits, hit_capacity;
    double (*corners)[2]; /* u, v of what may be corners of the contact, once each, by rising u and v: its vertices,
                             and where edges of one body pierce the other */
    size_t n_corners, corner_capacity;
    uint64_t visits; /* boxes that all searches compared so far, and as much for what else takes time */
    uint64_t bound;  /* visits between ct_columns_renew and ct_columns_are_spent */
    uint64_t limit;
} ct_columns;

typedef struct ct_column_span {
    double lo, hi; /* m, w of its ends; equal: there is none */
} ct_column_span;

/* Prepares columns of a contact that has a normal, and lists its corners: where all that pierce one another take more
 * than the bound's visits, those of some triangles of the first body, evenly spread. is_divided: the pair has other
 * contacts. To be closed in any case. OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_columns_open(ct_columns *columns, ct_surfaces *surfaces, const ct_result *result,
                          const ct_contact *contact, bool is_divided, ct_error *error);
void ct_columns_close(ct_columns *columns);

/* Gathers the triangles of columns that are at most this far from a place, along u and along v. False: out of memory.
 */
bool ct_columns_gather(ct_columns *columns, const double at[2], double reach);
/* A column within reach of the last place. False: out of memory. */
bool ct_columns_cast(ct_columns *columns, const double at[2], ct_column_span *span);

/* Whether visits since ct_columns_open, or since ct_columns_renew, are more than the bound: 4,096 for each triangle
 * that reaches into the window, and 4 million. */
bool ct_columns_are_spent(const ct_columns *columns);
void ct_columns_renew(ct_columns *columns);

/* An order of 0 .. n - 1 whose first numbers, however many, are spread evenly: that of bits reversed. For k from 0 to
 * ct_spread_end(n) - 1, ct_spread(k, n) is each of them once; numbers of n and more are to be passed over. */
size_t ct_spread_end(size_t n);
size_t ct_spread(size_t k, size_t n);

#endif
