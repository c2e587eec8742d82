/* sums_cpu.h - what the CPU's span stage hands to the contact stage: sums of a contact's vertices, and spans. */
#ifndef CT_SUMS_CPU_H
#define CT_SUMS_CPU_H

#include <stdint.h>

/* Vertices are summed and cleared in groups of CT_VERTEX_GROUP, each with one touched flag; CT_VERTEX_BLOCK vertices
 * have eight flags, which are read as one word. */
enum { CT_VERTEX_GROUP = 4, CT_VERTEX_BLOCK = 8 * CT_VERTEX_GROUP };

/* The sums of one contact, or one thread's part of them. All are integers, so parts add up to the same total however
 * the work was split. All are zero between uses: reading a sum clears it. */
typedef struct ct_contact_sums {
    /* Per body and view: [vertices], weights in units of CT_WEIGHT_ONE rays. One plane per view, because bins of one
     * view follow each other: the plane being added to then stays in a core's cache. */
    int64_t *gradient[2][3];
    uint8_t *touched[2]; /* per body, 1 for each group of vertices whose sums may be non-zero, else 0 */
    /* Both are padded to whole CT_VERTEX_BLOCKs. */
    int64_t length[3];   /* per view, sum of span lengths, in units of the view's axis times ray areas */
    int64_t spans[3];    /* per view, number of spans, times ray areas */
    int64_t inverted[3]; /* per view, as length: of intervals in which a body is inside out (ct_is_inverted) */
} ct_contact_sums;

/* A kept span, in lattice coordinates. */
typedef struct ct_raw_span {
    int32_t u, v, lower, upper; /* the ray; depths of the two ends */
    int32_t view;
    int32_t lower_body; /* of a span of a body with itself, instead: the triangle of the lower end, until sides are
                           known */
} ct_raw_span;

#endif
