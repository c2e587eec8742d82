/* point_column.h - the triangles of a body that lie over a contact, where they are few: the many lines along the contact's
 * normal then look at these alone, in place of the body's tree.
 *
 *      lo    hi
 *      |  ____|    The window is that of the contact, across its normal (u, v). All triangles of the
 *      | / /\ |    body over it are listed, each with its box, also those above and below the
 *      |/_/__\|    contact: a line goes through the whole body.
 */
#ifndef CT_POINT_COLUMN_H
#define CT_POINT_COLUMN_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/base/simd.h"

struct ct_line_body;

/* Of more triangles than these the tree finds a line's few sooner. */
enum { CT_COLUMN_TRIANGLES = 256 };

typedef struct ct_point_column {
    bool is_whole;       /* all triangles over the window are here; else the rest is of no meaning */
    double lo[2], hi[2]; /* m: the window, u and v */
    uint32_t n;
    uint32_t triangle[CT_COLUMN_TRIANGLES];                                     /* rising */
    ct_v4f least[3][CT_COLUMN_TRIANGLES / 4], most[3][CT_COLUMN_TRIANGLES / 4]; /* m: u, v, w of their boxes */
} ct_point_column;

/* Finds the triangles of a body that is no half-space. beside: m, how far rounding may put a line beside what it crosses.
 * *visits: of triangles and boxes, counted up. False: out of memory. */
bool ct_point_column_fill(ct_point_column *column, struct ct_line_body *body, const double lo[2], const double hi[2],
                          double beside, uint64_t *visits);

/* Whether all triangles that meet this box are in the column. */
bool ct_point_column_covers(const ct_point_column *column, const double lo[3], const double hi[3]);

/* Of the four triangles from number `at` on, a bit for each whose box meets this one. */
uint32_t ct_point_column_meets(const ct_point_column *column, uint32_t at, const ct_v4f lo[3], const ct_v4f hi[3]);

#endif
