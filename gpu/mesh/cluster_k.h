/* cluster_k.h - how long a cluster is, and its box, for every backend. See clusters.h. */
#ifndef CT_CLUSTER_K_H
#define CT_CLUSTER_K_H

#include "gpu/base/kernel.h"

/* 128 triangles: a box costs 0.2 bytes a triangle, and a patch of a contact touches few clusters beside it. */
enum { CT_CLUSTER_TRIANGLES = 128 };

typedef struct ct_cluster_box {
    float lo[3], hi[3]; /* m, in the frame of the positions */
} ct_cluster_box;

CT_FN uint32_t ct_cluster_count(uint32_t n_triangles) {
    return n_triangles / CT_CLUSTER_TRIANGLES + (n_triangles % CT_CLUSTER_TRIANGLES > 0);
}

#endif
