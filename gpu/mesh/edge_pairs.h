/* edge_pairs.h - pairs the faces of an edge that has more than two, where parts of a surface touch, so that what follows
 * edges goes on within a part. For validation, repair and adjacency. */
#ifndef CT_EDGE_PAIRS_H
#define CT_EDGE_PAIRS_H

#include "gpu/include/contact.h"

/* A face at an edge from vertex `low` to vertex `high`. */
typedef struct ct_edge_face {
    uint32_t id;      /* the caller's */
    uint32_t apex;    /* its third vertex */
    bool runs_up;     /* from low to high; else from high to low */
    float at[3];      /* the apex's position */
    double direction; /* rises with the angle around the edge */
} ct_edge_face;

/* How ct_pair_edge_faces ended. */
typedef enum ct_edge_pairing {
    CT_EDGE_PAIRED,
    CT_EDGE_UNBALANCED, /* not as many faces run up as down */
    CT_EDGE_DOUBLED,    /* two faces have the same apex and run the same way */
    CT_EDGE_FAILED      /* out of memory, or cancelled */
} ct_edge_pairing;

/* Orders n faces so that 0 and 1, 2 and 3, ... are pairs: one runs up, one runs down, and between them lies what the
 * surface encloses there. Only id, apex and runs_up need be set. The pairs do not depend on the order of the faces, nor
 * on which end is called low. */
ct_edge_pairing ct_pair_edge_faces(const float *positions, uint32_t low, uint32_t high, ct_edge_face *faces, size_t n);

#endif
