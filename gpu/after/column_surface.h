/* column_surface.h - the triangles of one body over a contact, as seen along its normal: clusters of the mesh, whose
 * triangles are placed when a search first comes to them. So the time that points take follows the part of the contact
 * that their searches look at, and not the meshes. */
#ifndef CT_COLUMN_SURFACE_H
#define CT_COLUMN_SURFACE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/after/surfaces.h"
#include "gpu/base/simd.h"

/* ---- the tree ---- */

/* A tree of boxes, four children a node: finds the boxes that meet a box. For the clusters of triangles of one body over
 * a contact, which come in the mesh's order, where neighbours are near one another. So the tree is implicit:
 * CT_COLUMN_FAN consecutive boxes of a level have one parent. */
enum { CT_COLUMN_FAN = 4, CT_COLUMN_LEVELS = 17 };

typedef struct ct_column_box {
    double lo[3], hi[3]; /* m: u, v, w; both included */
} ct_column_box;

/* The boxes of four children, a lane each, rounded outwards; of none: an empty one. */
typedef struct ct_column_node {
    ct_v4f lo[3], hi[3];
} ct_column_node;

typedef struct ct_column_tree {
    ct_column_node *nodes; /* of level 0, whose children are the boxes, and so on; the last is the root */
    uint32_t level[CT_COLUMN_LEVELS + 1]; /* the first node of each level, and their number */
    uint32_t n_levels;
} ct_column_tree;

/* A search, from ct_column_tree_find to the last ct_column_search_next. */
typedef struct ct_column_search {
    const ct_column_tree *tree;
    ct_column_node box; /* the same in each lane, rounded outwards */
    struct {
        uint32_t level, first; /* of whose children: nodes below, or boxes */
        uint32_t lanes;        /* of those that may meet the box and were not visited */
    } stack[CT_COLUMN_LEVELS];
    uint32_t depth;
    uint64_t visits; /* boxes that were compared */
} ct_column_search;

/* A float that is not above x, but is as near as the second that is not; a larger one for a larger x. */
static inline float ct_column_below(double x) {
    const float f = (float)x;
    return (double)f > x ? f - fabsf(f) * 0x1p-23f - 0x1p-149f : f;
}

ct_column_node ct_column_node_of_none(void);
/* Sets the box of one lane. */
void ct_column_node_set(ct_column_node *node, uint32_t lane, const ct_column_box *box);
/* The box in each lane. */
ct_column_node ct_column_node_of(const ct_column_box *box);
/* A bit for each lane whose boxes meet. */
static inline uint32_t ct_column_nodes_meet(const ct_column_node *a, const ct_column_node *b) {
    return ct_v4i_signs((a->lo[0] <= b->hi[0]) & (a->hi[0] >= b->lo[0]) & (a->lo[1] <= b->hi[1]) &
                        (a->hi[1] >= b->lo[1]) & (a->lo[2] <= b->hi[2]) & (a->hi[2] >= b->lo[2]));
}

/* False: out of memory, or more boxes than 31 bits count. */
bool ct_column_tree_make(ct_column_tree *tree, const ct_column_box *boxes, size_t n);
void ct_column_tree_free(ct_column_tree *tree);

ct_column_search ct_column_tree_find(const ct_column_tree *tree, const ct_column_box *box);
/* The next of the boxes that meet the search's once both are rounded outwards, in their order. False: there is none. */
bool ct_column_search_next(ct_column_search *search, uint32_t *index);

/* ---- the surface ---- */

enum {
    CT_COLUMN_GROUPS = CT_CLUSTER_TRIANGLES / CT_COLUMN_FAN,
    CT_COLUMN_PART = 16,
    CT_COLUMN_PARTS = CT_CLUSTER_TRIANGLES / CT_COLUMN_PART
};

typedef struct ct_column_triangle {
    const double *p[3]; /* m: u, v, w of its corners */
    bool is_listed;     /* a corner of it has an entry in the contact */
} ct_column_triangle;

/* The triangles of a cluster that reach into the contact's window. */
typedef struct ct_column_block {
    uint32_t n;
    ct_column_node boxes[CT_COLUMN_GROUPS];                /* of triangles, a lane each; of lanes from n on: empty */
    ct_column_node parts[CT_COLUMN_PARTS / CT_COLUMN_FAN]; /* of CT_COLUMN_PART consecutive triangles, likewise */
    double (*vertices)[3];                                 /* [of the cluster] m: u, v, w */
    ct_column_triangle triangles[];                        /* [n] */
} ct_column_block;

typedef struct ct_column_cluster {
    uint32_t index;         /* in the mesh */
    ct_column_block *block; /* NULL: not placed yet */
} ct_column_cluster;

/* Takes positions of a body to u, v, w. */
typedef struct ct_column_placing {
    double turn[3][3], shift[3];
} ct_column_placing;

typedef struct ct_column_surface {
    const ct_surface *surface;
    ct_column_placing placing;
    double lo[2], hi[2]; /* m: the window */
    ct_column_cluster *clusters;
    ct_column_box *boxes; /* [n] of clusters */
    size_t n, capacity;
    size_t n_triangles; /* of these clusters */
    ct_column_tree tree;
    uint64_t *listed; /* a bit for each vertex of the mesh that has an entry in the contact */
    uint32_t *places; /* of vertices of the mesh, in the list of the cluster that is placed */
} ct_column_surface;

void ct_column_place(const ct_column_placing *placing, const float p[3], double out[3]);

/* Allocates `listed`, all of it false. False: out of memory. */
bool ct_column_surface_open(ct_column_surface *s, const ct_surface *surface, const ct_column_placing *placing);
/* Finds the clusters that reach into the window; rounding: m, what places may be off by. False: out of memory. */
bool ct_column_surface_fill(ct_column_surface *s, const double lo[2], const double hi[2], double rounding);
void ct_column_surface_close(ct_column_surface *s);

/* The triangles of one of the clusters. NULL: out of memory. */
const ct_column_block *ct_column_surface_block(ct_column_surface *s, uint32_t cluster);

#endif
