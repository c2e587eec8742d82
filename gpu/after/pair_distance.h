/* pair_distance.h - the closest points of two bodies, by descending both of their cluster trees. For separations. */
#ifndef CT_PAIR_DISTANCE_H
#define CT_PAIR_DISTANCE_H

#include "gpu/after/closest.h"
#include "gpu/after/surfaces.h"
#include "gpu/base/vec.h"

/* A cluster's triangles in world axes and in those of a search, with the boxes of its parts.
 *
 *     parts[1]      0 ........................ 127        triangles
 *     parts[2, 3]   0 ......... 63  64 ....... 127
 *     ...
 *     parts[8..15]  0 .. 15  16 .. 31  ...                CT_PART_TRIANGLES each */
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

typedef struct ct_searched_cluster { /* zero-initialise */
    const ct_surface *surface;       /* what is placed; NULL: nothing yet */
    uint32_t cluster;
    uint64_t axes; /* the number of those that `turned` and the boxes are in; 0: none */
    uint32_t n, n_vertices;
    double world[CT_PLACED_VERTICES][3], turned[CT_PLACED_VERTICES][3];
    uint16_t corner[CT_CLUSTER_TRIANGLES][3];
    uint8_t owned[CT_CLUSTER_TRIANGLES]; /* bit k: the triangle lists its edge from corner k; the triangle on the other
                                            side of the edge does not */
    ct_box triangles[CT_CLUSTER_TRIANGLES];
    ct_box parts[CT_PLACED_PARTS]; /* of none: lo > hi */
} ct_searched_cluster;

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

/* The smallest part that has all triangles. */
static inline uint32_t ct_placed_root(const ct_searched_cluster *placed) {
    uint32_t root = 1;
    while (root < CT_PLACED_LEAVES && 2 * root * placed->n <= CT_CLUSTER_TRIANGLES) root *= 2;
    return root;
}

/* ---- the search ---- */

/* A search, and its memory for further ones: one for each thread. Zero-initialise; free with
 * ct_pair_distance_free. */
typedef struct ct_pair_distance {
    const ct_surface *surface[2];
    ct_closest_query closest;
    ct_search_axes axes;
    uint64_t n_axes;
    double turn[2][3][3], shift[2][3]; /* of each surface's positions to the axes */
    ct_searched_cluster *placed[2];
    ct_closest_part *part[2];
    ct_box *boxes[2]; /* of the trees' nodes in the axes, if has_boxes; else they follow from the bodies' boxes */
    size_t capacity[2];
    bool has_boxes;
    uint64_t loaded, load_limit; /* pairs of clusters that were looked into, and when to find boxes */
    bool is_over;                /* the descent ends here: see its two reasons */
    bool is_cancelled;
    uint64_t work, next_poll;
    uint64_t found; /* separations of the step so far, for the error of a search that is cancelled */
} ct_pair_distance;

/* False: out of memory. */
bool ct_pair_distance_open(ct_pair_distance *search);
void ct_pair_distance_free(ct_pair_distance *search);

/* Of two surfaces with trees that are closer than margin: fills all of *out but the bodies. *is_near: they are.
 * False: out of memory, or cancelled. */
bool ct_pair_distance_find(ct_pair_distance *search, const ct_surface *a, const ct_surface *b, double margin,
                           ct_separation *out, bool *is_near);

/* Of a surface above a half-space, which is the pair's body `side`. */
bool ct_pair_distance_above(ct_pair_distance *search, const ct_surface *surface, const ct_body *half_space, int side,
                            double margin, ct_separation *out, bool *is_near);

#endif
