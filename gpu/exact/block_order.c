/* block_order.c - orders the triangles of a cluster by a k-d tree over their centroids whose leaves are blocks. */
#include "gpu/exact/block_order.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

struct item {
    float center[3]; /* three times the centroid */
    uint8_t triangle;
};

static int longest_axis(const struct item *items, uint32_t n) {
    float size[3];
    for (int k = 0; k < 3; k++) {
        float lo = INFINITY, hi = -INFINITY;
        for (uint32_t i = 0; i < n; i++) {
            lo = items[i].center[k] < lo ? items[i].center[k] : lo;
            hi = items[i].center[k] > hi ? items[i].center[k] : hi;
        }
        size[k] = hi - lo;
    }
    const int of_two = size[1] > size[0];
    return size[2] > size[of_two] ? 2 : of_two;
}

/* Moves the `left` first items along an axis to the front (quickselect). */
static void select_first(struct item *items, uint32_t n, uint32_t left, int axis) {
    for (int64_t first = 0, last = (int64_t)n - 1; first < last;) {
        const float pivot = items[(first + last) / 2].center[axis];
        int64_t i = first, j = last;
        while (i <= j) {
            while (items[i].center[axis] < pivot) i++;
            while (items[j].center[axis] > pivot) j--;
            if (i > j) break;
            const struct item moved = items[i];
            items[i++] = items[j];
            items[j--] = moved;
        }
        /* [first, j] are not after the pivot, [i, last] not before it, and what is between equals it. */
        if (left <= j)
            last = j;
        else if (left > i)
            first = i;
        else
            return;
    }
}

static void split(struct item *items, uint32_t n) {
    if (n <= CT_EXACT_BLOCK) return;
    const uint32_t left = (n / 2 + CT_EXACT_BLOCK - 1) / CT_EXACT_BLOCK * CT_EXACT_BLOCK;
    select_first(items, n, left, longest_axis(items, n));
    split(items, left);
    split(items + left, n - left);
}

void ct_order_blocks(const float *positions, const uint32_t *triangles, uint32_t n, uint8_t *order) {
    struct item items[CT_CLUSTER_TRIANGLES];
    for (uint32_t t = 0; t < n; t++) {
        const float *p = positions + 3 * (size_t)triangles[3 * t], *q = positions + 3 * (size_t)triangles[3 * t + 1],
                    *r = positions + 3 * (size_t)triangles[3 * t + 2];
        for (int k = 0; k < 3; k++) items[t].center[k] = p[k] + q[k] + r[k];
        items[t].triangle = (uint8_t)t;
    }
    split(items, n);
    for (uint32_t t = 0; t < n; t++) order[t] = items[t].triangle;
}
