/* test_lanes.h - what the other body's cubes are that the box of a cube of the driver reaches: what ct_voxel_test
 * finds, but without branches, as it is as likely one thing as another. For descend_cpu.simd.c. */
#ifndef CT_VOXEL_TEST_LANES_H
#define CT_VOXEL_TEST_LANES_H

#include "gpu/base/simd.h"
#include "gpu/methods/voxtree/descend_k.h"

/* ---- masks of a box's cubes, in two bricks along each axis ---- */

/* The bits of ct_voxel_x_bits, ct_voxel_y_bits and ct_voxel_z_bits for a range's ends; of no use if to < from. */
#define CT_X_CUBES_(from, to) (((uint64_t)2 << (to)) - ((uint64_t)1 << (from)))
#define CT_Y_CUBES_(from, to) (((uint64_t)16 << 4 * (to)) - ((uint64_t)1 << 4 * (from)))
#define CT_Z_LOW_(to)         (~(uint64_t)0 >> ((to) < 4 ? 16 * (3 - (to)) : 0))
#define CT_X_LOW_(from, to)   ((CT_X_CUBES_(from, to) & 15) * 0x1111111111111111)
#define CT_X_HIGH_(from, to)  ((CT_X_CUBES_(from, to) >> 4 & 15) * 0x1111111111111111)
/* Twice, for the two masks of a brick. */
#define CT_X_BITS_(from, to)                                                                                           \
    { CT_X_LOW_(from, to), CT_X_LOW_(from, to), CT_X_HIGH_(from, to), CT_X_HIGH_(from, to) }
#define CT_Y_BITS_(from, to)                                                                                           \
    {                                                                                                                  \
        (CT_Y_CUBES_(from, to) & 0xffff) * 0x0001000100010001,                                                         \
            (CT_Y_CUBES_(from, to) >> 16 & 0xffff) * 0x0001000100010001                                                \
    }
#define CT_Z_BITS_(from, to)                                                                                           \
    { ~(uint64_t)0 << 16 * (from)&CT_Z_LOW_(to), (to) < 4 ? 0 : ~(uint64_t)0 >> (16 * (7 - (to)) & 63) }

/* [8 from + to] */
#define CT_ENDS_FROM_(BITS, from)                                                                                      \
    BITS(from, 0), BITS(from, 1), BITS(from, 2), BITS(from, 3), BITS(from, 4), BITS(from, 5), BITS(from, 6),           \
        BITS(from, 7)
#define CT_ENDS_(BITS)                                                                                                 \
    { CT_ENDS_FROM_(BITS, 0), CT_ENDS_FROM_(BITS, 1), CT_ENDS_FROM_(BITS, 2), CT_ENDS_FROM_(BITS, 3) }

static const ct_v4l CT_VOXEL_X_BITS[32] = CT_ENDS_(CT_X_BITS_);
static const uint64_t CT_VOXEL_Y_BITS[32][2] = CT_ENDS_(CT_Y_BITS_);
static const uint64_t CT_VOXEL_Z_BITS[32][2] = CT_ENDS_(CT_Z_BITS_);

/* ---- boxes ---- */

/* The lower ends of boxes, or the upper ones, as indices of the other's cubes; of outside the root, -1 or n. */
static inline ct_v4i floor_lanes(ct_v4d x, double n) {
    const ct_v4d one = {1, 1, 1, 1};
    return ct_v4i_of_v4d(ct_v4d_min(ct_v4d_max(x, -one), one * n) + 1) - 1; /* ct_voxel_floor */
}

/* `full` and `boundary` of a brick, in the lower and the upper lane. */
static inline ct_v2l load_brick(const char *brick) {
    typedef int64_t masks __attribute__((vector_size(16), aligned(8), may_alias));
    return *(const masks *)(const void *)brick;
}

/* Whether any of the cubes from lo to hi, within the root, is full [0], and whether any is not [1], and whether any is
 * a boundary node that is not full [2]: of each, some bits or none. */
static inline void find_kinds(const ct_voxel_level *level, ct_v4i lo, ct_v4i hi, uint32_t kinds[3]) {
    const int n = (int)level->n_bricks, size = sizeof(ct_voxel_brick);
    const ct_v4i stride = {size, n * size, n * n * size, 0};
    const ct_v4i first = (lo >> 2) * stride, second = (hi >> 2) * stride, ends = ((lo & 3) << 3) + hi - (lo & ~3);
    const ct_v4l x = CT_VOXEL_X_BITS[ends[0]];
    const uint64_t *y = CT_VOXEL_Y_BITS[ends[1]], *z = CT_VOXEL_Z_BITS[ends[2]];
    ct_v4l in = {0}, out = {0};
    for (int i = 0; i < 4; i++) {
        const char *row = (const char *)level->bricks + (i & 2 ? second[2] : first[2]) + (i & 1 ? second[1] : first[1]);
        const ct_v4l bits = x & (int64_t)y[i & 1] & (int64_t)z[i >> 1], nothing = {0};
        const ct_v4l two = __builtin_shufflevector(load_brick(row + first[0]), load_brick(row + second[0]), 0, 1, 2, 3);
        const ct_v4l kind = two & ~__builtin_shufflevector(nothing, two, 0, 4, 2, 6); /* full; boundary and not full */
        in |= kind & bits;
        out |= ~kind & bits;
    }
    const uint32_t some = ct_v4l_to_bits(in != 0), none = ct_v4l_to_bits(out != 0);
    kinds[0] = some & 5;
    kinds[1] = none & 5;
    kinds[2] = some & 10;
}

/* u: the middle of the box. */
static inline ct_voxel_status test_box(const ct_voxel_geometry *g, ct_v4d u, ct_v4d reach) {
    const int last = (int)g->b.n - 1;
    const ct_v4i lo = floor_lanes(u - reach, g->b.n), hi = floor_lanes(u + reach, g->b.n), zero = {0};
    const uint32_t outside = ct_v4i_signs(hi | (last - lo)), across = ct_v4i_signs(lo | (last - hi));
    uint32_t kinds[3];
    find_kinds(&g->b, ct_v4i_clamp(lo, zero, zero + last), ct_v4i_clamp(hi, zero, zero + last), kinds);
    const bool is_open = (kinds[2] != 0) | ((kinds[0] != 0) & ((kinds[1] | across) != 0));
    const uint32_t status = is_open ? CT_VOXEL_IS_OPEN : kinds[0] ? CT_VOXEL_IS_FULL : CT_VOXEL_IS_EMPTY;
    return outside ? CT_VOXEL_IS_EMPTY : (ct_voxel_status)status;
}

#endif
