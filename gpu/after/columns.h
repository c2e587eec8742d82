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

#include "gpu/after/column_surface.h"
#include "gpu/base/vec.h"

/* Four triangles that columns may cross, a lane each. */
typedef struct ct_column_near {
    ct_v4f lo[2], hi[2]; /* u, v of their boxes, rounded outwards; of none: empty */
    const ct_column_triangle *triangles[CT_COLUMN_FAN];
} ct_column_near;

typedef struct ct_column_list {
    ct_column_near *all;
    size_t n, capacity; /* triangles; groups of four */
} ct_column_list;

typedef struct ct_column_span {
    double lo, hi; /* m, w of its ends; equal: there is none */
} ct_column_span;

/* m: how long spans are at least, and at most. */
typedef struct ct_column_bounds {
    double least, most;
} ct_column_bounds;

typedef struct ct_column_spans {
    ct_column_span *all;
    size_t n, capacity;
} ct_column_spans;

typedef struct ct_columns {
    double center[3], axis[3][3]; /* m, world: the origin of u, v, w, and their unit vectors; axis[2] is the normal */
    double lo[2], hi[2];          /* m: the contact is within this window of u, v */
    double step;                  /* m: small beside the window */
    bool is_self;                 /* spans are where the first body's winding number is 2 or more */
    bool is_divided;    /* the pair has other contacts: spans count if both ends are on this one's triangles */
    double plane[2][4]; /* of half-spaces: inside where plane . (u, v, w, 1) <= 0 */
    bool is_half_space[2];
    ct_column_surface surface[2]; /* of each side; both sides of a body with itself are in the first */
    ct_column_list near[2];       /* by side: what gathered columns may cross */
    struct ct_column_hit *hits;   /* reusable memory of a column */
    size_t n_hits, hit_capacity;
    ct_column_spans inside[2], surely_inside[2], ranges; /* reusable memory of a bound */
    double (*corners)[2]; /* u, v of what may be corners of the contact: its vertices, and where edges of one body
                             pierce the other */
    size_t n_corners, corner_capacity;
    uint64_t visits; /* boxes that all searches compared so far, and as much for what else takes time */
    uint64_t bound;  /* visits between ct_columns_renew and ct_columns_are_spent */
    uint64_t limit;
    uint64_t next_poll; /* in visits */
    uint64_t n_points;  /* that the step has so far, for the error of a search that is cancelled */
} ct_columns;

/* Prepares columns of a contact that has a normal, and lists its corners: where all that pierce one another take more
 * than the bound's visits, those of some triangles of the first body, evenly spread. is_divided: the pair has other
 * contacts. To be closed in any case. OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_columns_open(ct_columns *columns, ct_surfaces *surfaces, const ct_result *result,
                          const ct_contact *contact, bool is_divided, ct_error *error);
void ct_columns_close(ct_columns *columns);

/* Gathers the triangles of columns that are at most this far from a place, along u and along v. False: out of memory.
 */
bool ct_columns_gather(ct_columns *columns, const double at[2], double reach);
/* A column within reach of the last place. Outside of the window it has no span. False: out of memory. */
bool ct_columns_cast(ct_columns *columns, const double at[2], ct_column_span *span);
/* Of all columns in a rectangle: see column_bound.c. False: out of memory. */
bool ct_columns_bound(ct_columns *columns, const double lo[2], const double hi[2], ct_column_bounds *bounds);

/* Whether visits since ct_columns_open, or since ct_columns_renew, are more than the bound: 4,096 for each triangle of
 * the clusters that reach into the window, and 4 million. */
bool ct_columns_are_spent(const ct_columns *columns);
void ct_columns_renew(ct_columns *columns);

/* An order of 0 .. n - 1 whose first numbers, however many, are spread evenly: that of bits reversed. For k from 0 to
 * ct_spread_end(n) - 1, ct_spread(k, n) is each of them once; numbers of n and more are to be passed over. */
size_t ct_spread_end(size_t n);
size_t ct_spread(size_t k, size_t n);

/* Whether the work is to end; polls every few thousand visits. */
bool ct_columns_are_cancelled(ct_columns *columns);

/* ---- shared by the files of columns ---- */

enum { CT_U = 0, CT_V = 1, CT_W = 2 };

struct ct_column_hit {
    double w;
    int enters; /* 1, or -1: leaves */
    uint32_t side;
    bool is_listed;
};

/* What a hit costs beside finding it where there are many: they are stored and sorted. */
enum { CT_VISITS_OF_HIT = 16 };

/* The items with capacity for one more than n. NULL: out of memory; the items are as they were. */
void *ct_column_grow(void *items, size_t *capacity, size_t n, size_t size, size_t alignment);

bool ct_columns_gather_side(ct_columns *columns, int side, const double at[2], double reach);
/* The hits of a side's listed triangles, unsorted. False: out of memory. */
bool ct_columns_hit(ct_columns *columns, int side, const double at[2]);
bool ct_columns_sort_hits(ct_columns *columns); /* false: out of memory */
/* Of a side: how many bodies a column is in where it is inside. */
int ct_columns_least_winding(const ct_columns *columns);

/* Adds a corner, unless it is outside of the window. False: out of memory. */
bool ct_columns_add_corner(ct_columns *columns, double u, double v);
/* Lists where the surfaces pierce one another, and where planes of half-spaces do. False: out of memory. */
bool ct_columns_find_piercings(ct_columns *columns);

#endif
