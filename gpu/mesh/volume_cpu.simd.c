/* volume_cpu.simd.c - the signed volume of a body, four triangles at a time. */
#include "gpu/mesh/volume_cpu.h"

#include <string.h>

#include "gpu/base/simd.h"
#include "gpu/mesh/volume_k.h"

struct corners { /* one corner of each of four triangles */
    ct_v4d x, y, z;
};

static inline ct_v4f load(const float *positions, uint32_t vertex) {
    ct_v4f row; /* the fourth is the next vertex's x, and is dropped */
    memcpy(&row, positions + 3 * (size_t)vertex, sizeof row);
    return row;
}

static inline struct corners load_corners(const float *positions, const uint32_t *triangles, int corner) {
    const ct_v4f a = load(positions, triangles[corner]), b = load(positions, triangles[3 + corner]),
                 c = load(positions, triangles[6 + corner]), d = load(positions, triangles[9 + corner]);
    const ct_v4f ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const ct_v4f ab_z = __builtin_shufflevector(a, b, 2, 6, 2, 6), cd_z = __builtin_shufflevector(c, d, 2, 6, 2, 6);
    return (struct corners){.x = ct_v4d_of_v4f(__builtin_shufflevector(ab, cd, 0, 1, 4, 5)),
                            .y = ct_v4d_of_v4f(__builtin_shufflevector(ab, cd, 2, 3, 6, 7)),
                            .z = ct_v4d_of_v4f(__builtin_shufflevector(ab_z, cd_z, 0, 1, 4, 5))};
}

/* The sum of ct_volume_term over the triangles, CT_VOLUME_BLOCK at most: the same operations in the same order. */
static int64_t sum_block(const float *positions, const uint32_t *triangles, size_t n, const ct_volume_scale *scale) {
    const ct_v4d rounder = {scale->rounder, scale->rounder, scale->rounder, scale->rounder};
    const ct_v4d middle3 = {scale->middle3, scale->middle3, scale->middle3, scale->middle3};
    ct_v4l sums = {0};
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const struct corners a = load_corners(positions, triangles + 3 * i, 0),
                             b = load_corners(positions, triangles + 3 * i, 1),
                             c = load_corners(positions, triangles + 3 * i, 2);
        const ct_v4d ux = b.x - a.x, uy = b.y - a.y, vx = c.x - a.x, vy = c.y - a.y;
        const ct_v4d z = (a.z + b.z) + (c.z - middle3);
        sums += (ct_v4l)((ux * vy - uy * vx) * z + rounder) - (ct_v4l)rounder;
    }
    int64_t sum = sums[0] + sums[1] + sums[2] + sums[3];
    for (; i < n; i++) {
        const uint32_t *t = triangles + 3 * i;
        sum += ct_volume_term(positions + 3 * (size_t)t[0], positions + 3 * (size_t)t[1], positions + 3 * (size_t)t[2],
                              scale);
    }
    return sum;
}

static double signed_volume(const float *positions, const uint32_t *triangles, size_t n_triangles, const ct_box *box) {
    const ct_volume_scale scale = ct_volume_scale_of(box);
    int64_t high = 0, low = 0;
    if (scale.unit == 0) return 0;
    for (size_t first = 0; first < n_triangles; first += CT_VOLUME_BLOCK) {
        const size_t n = n_triangles - first < CT_VOLUME_BLOCK ? n_triangles - first : CT_VOLUME_BLOCK;
        const int64_t sum = sum_block(positions, triangles + 3 * first, n, &scale);
        high += sum >> 32;
        low += sum & 0xffffffff;
    }
    return ct_volume_of_sum(high, low, scale.unit);
}

const ct_volume_cpu CT_VARIANT(ct_volume_cpu) = {signed_volume};
