/* corner_search.h - finds the best of a contact's corners by a measure that grows with their depth, and measures the
 * depths of few of them: a k-d tree over u and v, whose nodes bound the depths of their corners, is searched best
 * first.
 *
 *     node's box, widened by what a depth looks beyond     no column there is longer than `most` (ct_columns_bound),
 *      ._________.                                         and the key of a corner is at most that of the box's
 *      |  .   .  |  key <= that of one of the corners      corners, as keys are convex: a node whose product of both
 *      |____._.__|                                         is below the best so far has nothing better. */
#ifndef CT_CORNER_SEARCH_H
#define CT_CORNER_SEARCH_H

#include "gpu/after/columns.h"

typedef struct ct_corner {
    double at[2];                                                              /* m: u, v */
    double depth;                                                              /* m; where it is measured */
    double w;                                                                  /* m: the middle of its span */
    double of[2];                                                              /* m: u, v of the column that is it */
    enum { CT_CORNER_UNKNOWN, CT_CORNER_HAS_DEPTH, CT_CORNER_MEASURED } state; /* HAS_DEPTH: it is above 0 */
} ct_corner;

typedef struct ct_corner_search {
    ct_columns *columns;
    double slope; /* m: how far beside a corner its depth is looked for */
    ct_corner *all;
    size_t n;
    struct ct_corner_node *nodes;
    size_t n_nodes, node_capacity;
    struct ct_corner_entry *heap;
    size_t n_heap, heap_capacity;
    bool is_partial; /* only corners that are measured count: see ct_corner_search_measure_some */
} ct_corner_search;

/* What to look for: the largest value, above `beat`; of equal ones the one at the smallest u, then v. */
typedef struct ct_corner_query {
    double (*key)(const void *of, const double at[2]); /* convex, and >= 0 if it counts depth */
    /* Whether corners up to this deep in the convex hull of these places are left out. NULL: none is. */
    bool (*leaves_out)(const void *of, double depth, const double (*places)[2], int n);
    const void *of;
    double per_depth;   /* 1/m: a value is key x depth x this; 0: it is the key, and depth has only to be above 0 */
    double least_depth; /* m: corners that are not as deep do not count */
    double beat;
    double slack; /* of a value: what the best may be missed by */
} ct_corner_query;

typedef enum ct_corner_found {
    CT_CORNER_FOUND,
    CT_CORNER_NONE,
    CT_CORNER_SPENT, /* the bound on visits is reached */
    CT_CORNER_NO_MEMORY
} ct_corner_found;

/* contact_depth: m, of the contact. False: out of memory. To be closed in any case. */
bool ct_corner_search_open(ct_corner_search *search, ct_columns *columns, double contact_depth);
void ct_corner_search_close(ct_corner_search *search);

ct_corner_found ct_corner_search_best(ct_corner_search *search, const ct_corner_query *query, ct_corner *best);

/* Measures as many corners as the bound on visits allows, evenly spread along u; later queries count the measured ones
 * alone, and are not SPENT. False: out of memory. */
bool ct_corner_search_measure_some(ct_corner_search *search);

#endif
