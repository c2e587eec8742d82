/* order.c - sorts triangles by their Morton keys, least significant digit first. */
#include "gpu/mesh/order.h"

#include <stdlib.h>
#include <string.h>

/* 10 bits an axis, so that a key fits in 32 bits. A digit of 10 bits: three passes, and the histogram (8 KiB) fits in
 * L1.
 */
enum { AXIS_BITS = 10, DIGIT_BITS = 10, DIGITS = 1 << DIGIT_BITS };

/* Spreads 10 bits over 30: bit i moves to bit 3 i. */
static uint32_t spread_bits(uint32_t x) {
    x = (x | x << 16) & 0x030000ff;
    x = (x | x << 8) & 0x0300f00f;
    x = (x | x << 4) & 0x030c30c3;
    x = (x | x << 2) & 0x09249249;
    return x;
}

static uint32_t morton_key(const float *positions, const uint32_t *corner, const double lo[3], const double scale[3]) {
    uint32_t key = 0;
    for (int k = 0; k < 3; k++) {
        double sum = (double)positions[3 * (size_t)corner[0] + k] + positions[3 * (size_t)corner[1] + k] +
                     positions[3 * (size_t)corner[2] + k];
        double cell = (sum / 3 - lo[k]) * scale[k];
        uint32_t x = cell > 0 ? (uint32_t)cell : 0;
        key |= spread_bits(x < (1 << AXIS_BITS) ? x : (1 << AXIS_BITS) - 1) << k;
    }
    return key;
}

struct keyed_triangle {
    uint32_t key, triangle;
};

static void sort_by_digit(const struct keyed_triangle *from, struct keyed_triangle *to, size_t n, int shift) {
    size_t start[DIGITS] = {0}, sum = 0;
    for (size_t i = 0; i < n; i++) start[from[i].key >> shift & (DIGITS - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
        size_t count = start[d];
        start[d] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++) to[start[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
}

bool ct_order_triangles(const float *positions, const double lo[3], const double hi[3], uint32_t *triangles, size_t n) {
    struct keyed_triangle *a = calloc(n, sizeof *a), *b = calloc(n, sizeof *b);
    uint32_t *old = malloc(n * 12);
    bool ok = a && b && old;
    if (ok) {
        double scale[3];
        for (int k = 0; k < 3; k++) scale[k] = hi[k] > lo[k] ? (1 << AXIS_BITS) / (hi[k] - lo[k]) : 0;
        for (size_t t = 0; t < n; t++)
            a[t] = (struct keyed_triangle){morton_key(positions, triangles + 3 * t, lo, scale), (uint32_t)t};
        sort_by_digit(a, b, n, 0);
        sort_by_digit(b, a, n, DIGIT_BITS);
        sort_by_digit(a, b, n, 2 * DIGIT_BITS);
        memcpy(old, triangles, n * 12);
        for (size_t t = 0; t < n; t++) memcpy(triangles + 3 * t, old + 3 * (size_t)b[t].triangle, 12);
    }
    free(a);
    free(b);
    free(old);
    return ok;
}
