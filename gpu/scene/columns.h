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
#include "gpu/scene/surfaces.h"

typedef struct ct_column_triangle ct_column_triangle;

typedef struct ct_columns {
    double center[3], axis[3][3]; /* m, world: the origin of u, v, w, and their unit vectors; axis[2] is the normal */
    double lo[2], hi[2];          /* m: the contact is within this window of u, v */
    double step;                  /* m: small beside the window */
    bool is_self;                 /* spans are where the first body's winding number is 2 or more */
    bool is_divided;    /* the pair has other contacts: spans count if both ends are on this one's triangles */
    double plane[2][4]; /* of half-spaces: inside where plane . (u, v, w, 1) <= 0 */
    bool is_half_space[2];
    ct_column_triangle *triangles; /* those that reach into the window */
    size_t n_triangles, capacity;
    uint32_t n_along;           /* cells of a grid over the window along u and v */
    uint32_t *first, *in_cell;  /* [n_along^2 + 1], and the triangles of each cell */
    struct ct_column_hit *hits; /* reusable memory of a column */
    size_t n_hits, hit_capacity;
    double (*corners)[2]; /* u, v of what may be corners of the contact: its vertices, and where edges of one body
                             pierce the other; some more than once */
    size_t n_corners, corner_capacity;
} ct_columns;

typedef struct ct_column_span {
    double lo, hi; /* m, w of its ends; equal: there is none */
} ct_column_span;

/* Prepares columns of a contact that has a normal, and lists its corners. is_divided: the pair has other contacts. To
 * be closed in any case. OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_columns_open(ct_columns *columns, ct_surfaces *surfaces, const ct_result *result,
                          const ct_contact *contact, bool is_divided, ct_error *error);
void ct_columns_close(ct_columns *columns);

/* False: out of memory. */
bool ct_columns_cast(ct_columns *columns, double u, double v, ct_column_span *span);

#endif
