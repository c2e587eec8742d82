/* flood.h - winding numbers of one body's units in the other body.
 *
 * Along an edge the winding number changes where the edge is crossed, so numbers spread over the surface from wherever
 * one is known: 0 outside the other body's box, or counted along one exact ray. The flood starts at crossed units and
 * goes on into units that are inside; it never visits units that are outside and not crossed, so its cost follows the
 * contact. Connected components that nothing crosses lie wholly inside or outside, which a ray decides.
 */
#ifndef CT_EXACT_FLOOD_H
#define CT_EXACT_FLOOD_H

#include "gpu/exact/body.h"

typedef struct ct_flood {
    const ct_exact_body *body[2]; /* the surface, and the body that it is in */
    int moved;                    /* +1 if body[1] is perturbed, -1 if body[0] is */
    const uint32_t *crossed_as;   /* [clusters] 1 + index into crossed; 0: no crossings */
    const ct_crossed_cluster *crossed;
    const uint32_t *crossed_clusters; /* [n_crossed] rising */
    uint32_t n_crossed;
    /* Places a cluster of body[i]. NULL: out of memory, or cancelled, which ends the flood. */
    const ct_placed_cluster *(*place)(void *argument, int i, uint32_t cluster);
    void *argument;
    /* Scratch, zeroed: */
    uint8_t *is_crossed, *is_known; /* [units] */
    uint8_t *is_done;               /* [components] */
    uint32_t *queue;                /* [units] */
    /* Out, zeroed before: */
    int32_t *of_unit;     /* [units] to be added to the relative numbers of its vertices */
    uint64_t *has_inside; /* a bit for each cluster: it is crossed, or some of it is inside */
    uint32_t n_rays;
} ct_flood;

/* False: out of memory, or cancelled. */
bool ct_flood_winding_numbers(ct_flood *flood);

#endif
