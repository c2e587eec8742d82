/* pair_distance.h - the closest points of two bodies, by descending both of their cluster trees. For separations. */
#ifndef CT_PAIR_DISTANCE_H
#define CT_PAIR_DISTANCE_H

#include "gpu/scene/placed_cluster.h"

/* A search, and its memory for further ones: one for each thread. Zero-initialise; free with
 * ct_pair_distance_free. */
typedef struct ct_pair_distance {
    const ct_surface *surface[2];
    ct_closest_query closest;
    ct_search_axes axes;
    uint64_t n_axes;
    double turn[2][3][3], shift[2][3]; /* of each surface's positions to the axes */
    ct_placed_cluster *placed[2];
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
