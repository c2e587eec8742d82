/* share_lanes.h - what two crossing triangles add to each other, both at once. For exact_cpu.simd.c.
 *
 * A crossing takes some twenty divisions, most of its time. Two of a kind, of the two ends of its segment or of the two
 * triangles, are one instruction. The arithmetic of each lane is that of segment_k.h, operation by operation. */
#ifndef CT_EXACT_SHARE_LANES_H
#define CT_EXACT_SHARE_LANES_H

#include "gpu/exact/exact_lanes.h"

/* Signed values of four pairs at a time, with their errors. */
struct values4 {
    ct_v4d value[3], error[3];
};

/* Of the two ends of a segment, or of the two triangles. */
typedef double v2d __attribute__((vector_size(16)));
typedef int64_t v2l __attribute__((vector_size(16)));

/* Numbers of both ends of a segment, by which end, so that either triangle's can be picked. */
enum { TAU, REST, ZERO, OTHER_X, OTHER_Y, OWN_ERROR, OTHER_ERROR, END_NUMBERS };
struct end_numbers {
    double of[END_NUMBERS][2];
};

/* What there is to know of an edge that pierces the other triangle, by its bit: i of the first triangle, 3 + j of the
 * second. Tables, as which edges pierce is hard to guess for a branch. */
enum { LANES = 4, VALUES = sizeof(struct values4) / sizeof(double), TO_ERROR = VALUES / 2, BITS = 6 };

/* Where its numbers lie, in doubles from those of its lane: in the sides of its triangle, and in the orientations to
 * the other triangle's edges. */
static const uint8_t side_at_start[BITS] = {0, LANES, 2 * LANES, VALUES, VALUES + LANES, VALUES + 2 * LANES};
static const uint8_t side_at_end[BITS] = {LANES, 2 * LANES, 0, VALUES + LANES, VALUES + 2 * LANES, VALUES};
static const uint8_t orientation_at[BITS] = {0, VALUES, 2 * VALUES, 0, LANES, 2 * LANES};
static const uint8_t orientation_step[BITS] = {LANES, LANES, LANES, VALUES, VALUES, VALUES};

/* Its triangle, and which edge of it; of either triangle, which of the numbers above are the barycentric coordinates
 * where it pierces, and their error. */
static const uint8_t triangle_of_bit[BITS] = {0, 0, 0, 1, 1, 1}, edge_of_bit[BITS] = {0, 1, 2, 0, 1, 2};
static const uint8_t x_of_bit[BITS][2] = {{TAU, OTHER_X}, {REST, OTHER_X}, {ZERO, OTHER_X},
                                          {OTHER_X, TAU}, {OTHER_X, REST}, {OTHER_X, ZERO}};
static const uint8_t y_of_bit[BITS][2] = {{ZERO, OTHER_Y}, {TAU, OTHER_Y}, {REST, OTHER_Y},
                                          {OTHER_Y, ZERO}, {OTHER_Y, TAU}, {OTHER_Y, REST}};
static const uint8_t error_of_bit[BITS][2] = {{OWN_ERROR, OTHER_ERROR}, {OWN_ERROR, OTHER_ERROR},
                                              {OWN_ERROR, OTHER_ERROR}, {OTHER_ERROR, OWN_ERROR},
                                              {OTHER_ERROR, OWN_ERROR}, {OTHER_ERROR, OWN_ERROR}};

/* The two edges that pierce: 0 at the start of the first triangle's segment, 1 at its end. */
struct piercing_edges {
    uint32_t bit[2];
    int jump[2]; /* of w along the edge */
};

/* False: there are not two, one at either end. */
static inline bool find_piercing_edges(const double *sides, uint32_t piercing, struct piercing_edges *found) {
    const uint32_t others = piercing & (piercing - 1);
    if (!others || others & (others - 1)) return false;
    const uint32_t bit[2] = {(uint32_t)__builtin_ctz(piercing), (uint32_t)__builtin_ctz(others)};
    const int goes_in[2] = {sides[side_at_start[bit[0]]] > 0, sides[side_at_start[bit[1]]] > 0};
    const int which = goes_in[0] ^ triangle_of_bit[bit[0]]; /* end of bit[0] */
    if (which == (goes_in[1] ^ triangle_of_bit[bit[1]])) return false;
    for (int end = 0; end < 2; end++) {
        found->bit[end] = bit[end ^ which];
        found->jump[end] = 2 * goes_in[end ^ which] - 1;
    }
    return true;
}

static inline void store_ends(struct end_numbers *ends, int number, v2d v) {
    memcpy(ends->of[number], &v, sizeof v);
}

/* As ct_find_end_between. */
static inline void find_ends2(const double *sides, const double *orientations, const struct piercing_edges *edges,
                              struct end_numbers *ends) {
    const uint32_t bit0 = edges->bit[0], bit1 = edges->bit[1];
    const double *start[2] = {sides + side_at_start[bit0], sides + side_at_start[bit1]};
    const double *end[2] = {sides + side_at_end[bit0], sides + side_at_end[bit1]};
    const double *at[2] = {orientations + orientation_at[bit0], orientations + orientation_at[bit1]};
    v2d e[3], error[3];
    for (int j = 0; j < 3; j++) {
        e[j] = (v2d){at[0][0], at[1][0]};
        error[j] = (v2d){at[0][TO_ERROR], at[1][TO_ERROR]};
        at[0] += orientation_step[bit0];
        at[1] += orientation_step[bit1];
    }
    const v2d side[2] = {{*start[0], *start[1]}, {*end[0], *end[1]}};
    const v2d side_error[2] = {{start[0][TO_ERROR], start[1][TO_ERROR]}, {end[0][TO_ERROR], end[1][TO_ERROR]}};
    const v2d length = side[0] - side[1], tau = side[0] / length, sum = e[0] + e[1] + e[2];
    const v2d size = (v2d)((v2l)length & INT64_MAX), sum_size = (v2d)((v2l)sum & INT64_MAX);
    store_ends(ends, TAU, tau);
    store_ends(ends, REST, 1 - tau);
    store_ends(ends, ZERO, (v2d){0, 0});
    store_ends(ends, OTHER_X, e[2] / sum);
    store_ends(ends, OTHER_Y, e[0] / sum);
    store_ends(ends, OWN_ERROR, (side_error[0] + side_error[1]) / size + 0x1p-51);
    store_ends(ends, OTHER_ERROR, 2 * (error[0] + error[1] + error[2]) / sum_size + 0x1p-51);
}

/* A number of the first triangle at end `first`, of the second at the other one. */
static inline v2d pick(const struct end_numbers *ends, const struct piercing_edges *edges, int first,
                       const uint8_t number_of_bit[BITS][2]) {
    return (v2d){ends->of[number_of_bit[edges->bit[first]][0]][first],
                 ends->of[number_of_bit[edges->bit[1 - first]][1]][1 - first]};
}

/* As ct_add_segment to sums that are 0, of the first triangle's segment and of the second one's, which is reversed. */
static inline void find_segments2(const struct piercing_edges *edges, const struct end_numbers *ends,
                                  v2d to[CT_INTEGRALS]) {
    const v2d x0 = pick(ends, edges, 0, x_of_bit), y0 = pick(ends, edges, 0, y_of_bit);
    const v2d x1 = pick(ends, edges, 1, x_of_bit), y1 = pick(ends, edges, 1, y_of_bit), dy = y1 - y0;
    const v2d zero = {0, 0};
    to[0] = zero + dy * (x0 + x1) / 2;
    to[1] = zero + dy * (x0 * x0 + x0 * x1 + x1 * x1) / 6;
    to[2] = zero + dy * (x0 * (2 * y0 + y1) + x1 * (y0 + 2 * y1)) / 6;
    to[3] = zero + dy * ((x0 + x1) * (x0 * x0 + x1 * x1)) / 12;
    to[4] = zero + dy * (x0 * x0 * (3 * y0 + y1) + 2 * x0 * x1 * (y0 + y1) + x1 * x1 * (y0 + 3 * y1)) / 24;
    to[5] = zero + dy * (x0 * (3 * y0 * y0 + 2 * y0 * y1 + y1 * y1) + x1 * (y0 * y0 + 2 * y0 * y1 + 3 * y1 * y1)) / 12;
}

/* As ct_share_crossing of a pair that crosses, of a lane of the four; share: of the first triangle, and of the second.
 */
static inline void share_crossing2(const double *sides, const double *orientations, const struct piercing_edges *edges,
                                   v2d most, v2d size, ct_triangle_share *const share[2]) {
    struct end_numbers ends;
    v2d integrals[CT_INTEGRALS];
    find_ends2(sides, orientations, edges, &ends);
    find_segments2(edges, &ends, integrals);
    const v2d error = pick(&ends, edges, 0, error_of_bit) + pick(&ends, edges, 1, error_of_bit);
    const v2d rounding = size * (4 * error + 0x1p-48);
    const v2d its_size = __builtin_shufflevector(size, size, 1, 0);
    const v2l is_wholly_near = 16 * its_size >= most;
    const v2d near = size / 2 * (16 * its_size / most);
    const v2d near_area = (v2d)((is_wholly_near & (v2l)(size / 2)) | (~is_wholly_near & (v2l)near));
    for (int s = 0; s < 2; s++) {
        for (int k = 0; k < CT_INTEGRALS; k++) share[s]->integrals.of[k] = integrals[k][s];
        share[s]->near_area = near_area[s];
        share[s]->rounding = rounding[s];
        share[s]->jump[0] = share[s]->jump[1] = share[s]->jump[2] = 0;
    }
    for (int end = 0; end < 2; end++) {
        const uint32_t edge = edge_of_bit[edges->bit[end]];
        ct_triangle_share *of = share[triangle_of_bit[edges->bit[end]]];
        of->jump[edge] = (signed char)(of->jump[edge] + edges->jump[end]);
        if (edge == 1) ct_add_edge(&of->integrals, ends.of[TAU][end], edges->jump[end]);
    }
}

#endif
