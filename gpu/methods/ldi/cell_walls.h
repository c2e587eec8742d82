/* cell_walls.h - what the walls that cut a span add to the gradient (cells_k.h), several walls at a time; for *.simd.c
 * files of this stage. */
#ifndef CT_CELL_WALLS_H
#define CT_CELL_WALLS_H

#include <string.h>

#include "gpu/methods/ldi/cells_cpu.h"
#include "gpu/view/lanes.h"

/* Fills column->share and column->rest for the walls above cells [first, last), which cut the span [lower, upper], and
 * up to CT_COLUMN_LANES - 1 elements behind with 0. walls: the grid's. */
static inline void find_shares(const ct_cell_column *column, const int32_t *walls, int32_t first, int32_t last,
                               int32_t lower, int32_t upper) {
#ifdef __AVX2__
    /* The quotient of ct_wall_share, to within 1 from doubles; the remainder tells which way. */
    const int64_t length = (int64_t)upper - lower, half = length / 2;
    const ct_v4l lengths = {length, length, length, length};
    const double shares_per_unit = (double)(CT_WEIGHT_ONE / 2) / (double)length;
    for (int32_t c = first; c < last; c += CT_COLUMN_LANES) {
        ct_v4i wall;
        memcpy(&wall, walls + c + 1, sizeof wall);
        const ct_v4i from_lower = min_v4i(wall, v4i(upper)) - v4i(lower);
        const ct_v4l from = ct_v4l_of_v4i(from_lower);
        ct_v4l share = ct_v4l_of_v4i(round_v4d(to_double(from_lower) * shares_per_unit));
        const ct_v4l product = (ct_v4l)_mm256_mul_epi32((__m256i)share, (__m256i)lengths);
        const ct_v4l left = (from << (CT_WEIGHT_BITS - 1)) + half - product;
        share += left < 0;
        share -= left >= length;
        const ct_v4l is_cut = from < length;
        share = 2 * share & is_cut;
        const ct_v4l rest = (CT_WEIGHT_ONE - share) & is_cut;
        memcpy(column->share + c, &share, sizeof share);
        memcpy(column->rest + c, &rest, sizeof rest);
    }
#else
    for (int32_t c = first; c < last; c++) {
        column->share[c] = ct_wall_share(lower, upper, walls[c + 1]);
        column->rest[c] = CT_WEIGHT_ONE - column->share[c];
    }
#endif
}

#ifdef __AVX2__
static inline void add_four(int64_t *to, ct_v4l x) {
    ct_v4l sum;
    memcpy(&sum, to, sizeof sum);
    sum += x;
    memcpy(to, &sum, sizeof sum);
}
#endif

/* Adds, to the sums of the walls above cells [first, last), their shares of an end's weights, which are not negative.
 * share: column->share for an upper end, column->rest for a lower one. */
static inline void add_walls(const ct_end_sums *sums, const int64_t *share, int32_t first, int32_t last, int is_shared,
                             int64_t l1, int64_t l2) {
#ifdef __AVX2__
    const __m256i weight1 = _mm256_set1_epi64x(l1), weight2 = _mm256_set1_epi64x(l2);
    for (int32_t c = first; c < last; c += CT_COLUMN_LANES) {
        const __m256i s = _mm256_loadu_si256((const __m256i *)(const void *)(share + c));
        add_four(sums->walls[0] + c, (ct_v4l)_mm256_srli_epi64(s, is_shared));
        add_four(sums->walls[1] + c, (ct_v4l)_mm256_srli_epi64(_mm256_mul_epu32(s, weight1), CT_WEIGHT_BITS));
        add_four(sums->walls[2] + c, (ct_v4l)_mm256_srli_epi64(_mm256_mul_epu32(s, weight2), CT_WEIGHT_BITS));
    }
#else
    for (int32_t c = first; c < last; c++) {
        sums->walls[0][c] += share[c] >> is_shared;
        sums->walls[1][c] += ct_share_weight(l1, share[c]);
        sums->walls[2][c] += ct_share_weight(l2, share[c]);
    }
#endif
}

#endif
