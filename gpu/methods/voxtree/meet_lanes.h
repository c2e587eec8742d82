/* meet_lanes.h - contact primitives, four at a time: which of the cubes around an open cube it makes one with, and what
 * each adds to its groups' sums. For descend_cpu.simd.c. */
#ifndef CT_VOXEL_MEET_LANES_H
#define CT_VOXEL_MEET_LANES_H

#include <string.h>

#include "gpu/base/simd.h"

/* meet_k.h's primitives, one in each lane. */
#define CT_VOXEL_LANES
typedef ct_v4d ct_lanes;

static inline ct_lanes ct_lanes_sqrt(ct_lanes x) {
    return ct_v4d_sqrt(x);
}
static inline ct_lanes ct_lanes_max(ct_lanes x, ct_lanes y) {
    return ct_v4d_max(x, y);
}
static inline ct_lanes ct_lanes_min(ct_lanes x, ct_lanes y) {
    return ct_v4d_min(x, y);
}
static inline ct_lanes ct_lanes_where_positive(ct_lanes x, ct_lanes a, ct_lanes b) {
    return ct_v4d_choose(x > 0, a, b);
}
#include "gpu/methods/voxtree/meet_k.h"

/* ---- rows ---- */

static inline ct_v4d load_row(const double row[4]) {
    ct_v4d v;
    memcpy(&v, row, sizeof v);
    return v;
}

/* Lane j of row i goes to lane i of row j. */
static inline void transpose(ct_v4d row[4]) {
    const ct_v4d a = __builtin_shufflevector(row[0], row[1], 0, 4, 2, 6),
                 b = __builtin_shufflevector(row[0], row[1], 1, 5, 3, 7),
                 c = __builtin_shufflevector(row[2], row[3], 0, 4, 2, 6),
                 e = __builtin_shufflevector(row[2], row[3], 1, 5, 3, 7);
    row[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    row[1] = __builtin_shufflevector(b, e, 0, 1, 4, 5);
    row[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    row[3] = __builtin_shufflevector(b, e, 2, 3, 6, 7);
}

/* ---- primitives ---- */

/* Bytes, one in the lowest bits of each lane, as numbers: below 2^52 they are a mantissa. */
static inline ct_v4d bytes_to_doubles(ct_v4l bytes) {
    const ct_v4d magic = {0x1p52, 0x1p52, 0x1p52, 0x1p52};
    return (ct_v4d)((bytes & 255) | (ct_v4l)magic) - magic;
}

/* Four cubes, one in each lane, and their groups. */
static inline void load_others(const ct_voxel *const node[4], ct_voxel_others *out, ct_v4l *groups) {
    ct_v4f row[4];
    ct_v4l rest;
    for (int i = 0; i < 4; i++) {
        int64_t word;
        memcpy(&row[i], &node[i]->occupancy, sizeof row[i]); /* area follows it, */
        memcpy(&word, node[i]->center, sizeof word);         /* and then center, at and group */
        rest[i] = word;
    }
    const ct_v4f a = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5),
                 b = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5),
                 c = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7),
                 e = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
    out->occupancy = ct_v4d_of_v4f(__builtin_shufflevector(a, b, 0, 1, 4, 5));
    out->area[0] = ct_v4d_of_v4f(__builtin_shufflevector(a, b, 2, 3, 6, 7));
    out->area[1] = ct_v4d_of_v4f(__builtin_shufflevector(c, e, 0, 1, 4, 5));
    out->area[2] = ct_v4d_of_v4f(__builtin_shufflevector(c, e, 2, 3, 6, 7));
    for (int k = 0; k < 3; k++)
        out->arm[k] = bytes_to_doubles(rest >> 8 * k) * (1.0 / 256) + (0.5 / 256 - 0.5); /* ct_voxel_arm */
    *groups = rest >> 48 & 0xffff;
}

/* Integers in the lower halves of lanes; the upper halves are of no use. */
static inline ct_v4l round_low(ct_v4d x) {
    return (ct_v4l)(x + CT_ROUND_MAGIC);
}

static inline ct_v4l round_probability(const ct_voxel_met *met) {
    return round_low(met->probability) & 0xffffffff;
}

/* The terms of four primitives, in the order of ct_voxel_group_sums; the probabilities are in the lower halves. */
static inline void weigh_terms(const ct_voxel_met *met, bool is_plain, ct_v4l probability, ct_v4l term[8]) {
    const ct_v4l one = {1, 1, 1, 1}, whole = one << CT_VOXEL_WEIGHT_BITS;
    const ct_v4l normal_weight = is_plain ? whole : one, point_weight = is_plain ? whole : probability;
    for (int k = 0; k < 3; k++) {
        term[k] = ct_v4l_multiply_low(round_low(met->normal[k]), normal_weight);
        term[4 + k] = ct_v4l_multiply_low(round_low(met->point[k]), point_weight);
    }
    term[3] = ct_v4l_multiply_low(probability, one);
    term[7] = ct_v4l_multiply_low(round_low(met->depth), probability);
}

/* The corners of the cubes around a point, and 0. */
static const ct_v4d OFFSETS[8] = {{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}, {1, 1, 0, 0},
                                  {0, 0, 1, 0}, {1, 0, 1, 0}, {0, 1, 1, 0}, {1, 1, 1, 0}};

/* An open cube as its primitives see it. */
struct side {
    ct_v4d from, center, area, arm; /* the last lane of from: its occupancy */
    const ct_voxel *other[8];       /* cubes around its centre */
    uint32_t group;
};

static inline void find_side(const ct_voxel_geometry *g, const ct_voxel *node, const ct_voxel_around *around,
                             struct side *out) {
    ct_voxel_side side;
    ct_voxel_find_side(g, node, &side);
    out->from = (ct_v4d){around->from[0], around->from[1], around->from[2], side.occupancy};
    out->center = load_row(around->from) + load_row(around->center);
    out->area = (ct_v4d){side.area[0], side.area[1], side.area[2], 0};
    out->arm = (ct_v4d){side.arm[0], side.arm[1], side.arm[2], 0};
    memcpy(out->other, around->node, sizeof out->other);
    out->group = node ? node->group : CT_VOXEL_INSIDE;
}

/* Which of the cubes around it the cube makes a primitive with: a bit each. */
static inline uint32_t find_met(const ct_voxel_geometry *g, const struct side *side) {
    const ct_v4d zero = {0}, offset[2] = {{0, 1, 0, 1}, {0, 0, 1, 1}};
    ct_voxel_drivers driver = {.occupancy = zero + side->from[3]};
    for (int k = 0; k < 2; k++) driver.line[k] = side->from[k] - offset[k];
    const bool is_inside = side->group == CT_VOXEL_INSIDE; /* then some surface must be near */
    const ct_v4l least = (ct_v4l){0} + (is_inside ? (int64_t)(uintptr_t)g->b.nodes : 0);
    uint32_t bits = 0;
    for (uint32_t half = 0; half < 2; half++) {
        const ct_voxel *const *node = side->other + 4 * half;
        const ct_v4f occupancy = {node[0]->occupancy, node[1]->occupancy, node[2]->occupancy, node[3]->occupancy};
        const ct_voxel_others others = {.occupancy = ct_v4d_of_v4f(occupancy)};
        ct_v4l address;
        memcpy(&address, node, sizeof address);
        driver.line[2] = zero + (side->from[2] - half);
        ct_voxel_met met;
        ct_voxel_weigh(g, &driver, &others, &met);
        bits |= ct_v4l_to_bits((round_probability(&met) != 0) & (address >= least)) << 4 * half;
    }
    return bits;
}

/* A primitive: a cube of the driver, and which of the cubes around it. */
struct meeting {
    uint8_t side, other;
};

/* Four of them. */
struct met_lanes {
    ct_v4l row[4][2];          /* what each adds to ct_voxel_group_sums, from normal to depth */
    ct_v4l probability, group; /* in lanes: 0: there is none; of the other's cube */
};

static inline void meet_four(const ct_voxel_geometry *g, const struct side *sides, const struct meeting meetings[4],
                             struct met_lanes *out) {
    ct_v4d line[4], center[4], area[4], arm[4];
    const ct_voxel *other[4];
    for (int i = 0; i < 4; i++) {
        const struct side *side = &sides[meetings[i].side];
        line[i] = side->from - OFFSETS[meetings[i].other];
        center[i] = side->center;
        area[i] = side->area;
        arm[i] = side->arm;
        other[i] = side->other[meetings[i].other];
    }
    transpose(line);
    transpose(center);
    transpose(area);
    transpose(arm);
    const ct_voxel_drivers drivers = {.line = {line[0], line[1], line[2]},
                                      .center = {center[0], center[1], center[2]},
                                      .occupancy = line[3],
                                      .area = {area[0], area[1], area[2]},
                                      .arm = {arm[0], arm[1], arm[2]}};
    ct_voxel_others others;
    ct_v4l term[8];
    load_others(other, &others, &out->group);
    ct_voxel_met met;
    ct_voxel_weigh(g, &drivers, &others, &met);
    ct_voxel_meet(g, &drivers, &others, &met);
    out->probability = round_probability(&met); /* 0 where plain averages have no normal */
    weigh_terms(&met, g->has_plain_average, out->probability, term);
    for (int half = 0; half < 2; half++) {
        ct_v4d row[4];
        for (int i = 0; i < 4; i++) row[i] = (ct_v4d)term[4 * half + i];
        transpose(row);
        for (int i = 0; i < 4; i++) out->row[i][half] = (ct_v4l)row[i];
    }
}

#endif
