/* column_surface.h - the triangles of one body over a contact, as seen along its normal: clusters of the mesh, whose
 * triangles are placed when a search first comes to them. So the time that points take follows the part of the contact
 * that their searches look at, and not the meshes. */
#ifndef CT_COLUMN_SURFACE_H
#define CT_COLUMN_SURFACE_H

#include "gpu/scene/column_tree.h"
#include "gpu/scene/surfaces.h"

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
