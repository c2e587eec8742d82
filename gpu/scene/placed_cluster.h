/* placed_cluster.h - a cluster's triangles in world axes and in those of a search, with the boxes of its parts. For
 * separations.
 *
 *     parts[1]      0 ........................ 127        triangles
 *     parts[2, 3]   0 ......... 63  64 ....... 127
 *     ...
 *     parts[8..15]  0 .. 15  16 .. 31  ...                CT_PART_TRIANGLES each */
#ifndef CT_PLACED_CLUSTER_H
#define CT_PLACED_CLUSTER_H

#include "gpu/scene/closest.h"
#include "gpu/scene/surfaces.h"

enum {
    CT_PLACED_LEAVES = CT_CLUSTER_TRIANGLES / CT_PART_TRIANGLES, /* the first of the parts that have no halves */
    CT_PLACED_PARTS = 2 * CT_PLACED_LEAVES,
    CT_PLACED_VERTICES = 3 * CT_CLUSTER_TRIANGLES,
};

/* The axes of a search: rows of a rotation about the world's origin. */
typedef struct ct_search_axes {
    double row[3][3];
    uint64_t number; /* 1 and up; no two of a search are the same */
} ct_search_axes;

typedef struct ct_placed_cluster { /* zero-initialise */
    const ct_surface *surface;     /* what is placed; NULL: nothing yet */
    uint32_t cluster;
    uint64_t axes; /* the number of those that `turned` and the boxes are in; 0: none */
    uint32_t n, n_vertices;
    double world[CT_PLACED_VERTICES][3], turned[CT_PLACED_VERTICES][3];
    uint16_t corner[CT_CLUSTER_TRIANGLES][3];
    uint8_t owned[CT_CLUSTER_TRIANGLES]; /* bit k: the triangle lists its edge from corner k; the triangle on the other
                                            side of the edge does not */
    ct_box triangles[CT_CLUSTER_TRIANGLES];
    ct_box parts[CT_PLACED_PARTS]; /* of none: lo > hi */
} ct_placed_cluster;

/* A position of the surface in world axes. */
static inline void ct_surface_place(const ct_surface *surface, const float p[3], double out[3]) {
    const double *pose = surface->body->pose;
    for (int i = 0; i < 3; i++)
        out[i] = pose[4 * i] * (double)p[0] + pose[4 * i + 1] * (double)p[1] + pose[4 * i + 2] * (double)p[2] +
                 pose[4 * i + 3];
}

static inline void ct_search_turn(const ct_search_axes *axes, const double p[3], double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = axes->row[i][0] * p[0] + axes->row[i][1] * p[1] + axes->row[i][2] * p[2];
}

/* Nothing, if it is placed already. */
void ct_cluster_place(ct_placed_cluster *placed, const ct_surface *surface, uint32_t cluster);
/* Of a placed cluster; nothing, if it is turned to these axes already. */
void ct_cluster_turn(ct_placed_cluster *placed, const ct_search_axes *axes);

/* The smallest part that has all triangles. */
static inline uint32_t ct_placed_root(const ct_placed_cluster *placed) {
    uint32_t root = 1;
    while (root < CT_PLACED_LEAVES && 2 * root * placed->n <= CT_CLUSTER_TRIANGLES) root *= 2;
    return root;
}

/* Of the triangles of a part without halves that may be within a distance of a box: the features that may be.
 * squared: m^2, of the distance. False: there are none. */
bool ct_cluster_list_near(const ct_placed_cluster *placed, uint32_t part, const ct_box *box, double squared,
                          double error, ct_closest_part *features);

#endif
