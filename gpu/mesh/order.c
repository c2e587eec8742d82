/* order.c - orders triangles by a k-d tree over their centroids whose leaves are clusters. */
#include "gpu/mesh/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/clusters.h"

struct item {
    float center[3]; /* three times the centroid */
    uint32_t key;    /* on a Morton curve */
    uint32_t triangle;
};

struct order {
    const float *positions;
    const uint32_t *triangles;
    struct item *items;
};

/* ---- comparing ---- */

/* By centroid, from an axis on, then by the corners, sorted: a total order but for coinciding triangles. */
static int compare_equal(const struct order *order, const struct item *a, const struct item *b) {
    for (int k = 0; k < 3; k++)
        if (a->center[k] != b->center[k]) return a->center[k] < b->center[k] ? -1 : 1;
    const float *corner[2][3];
    for (int side = 0; side < 2; side++) {
        const uint32_t *t = order->triangles + 3 * (size_t)(side ? b : a)->triangle;
        for (int c = 0; c < 3; c++) {
            const float *p = order->positions + 3 * (size_t)t[c];
            int at = c;
            for (; at > 0 && memcmp(p, corner[side][at - 1], 12) < 0; at--) corner[side][at] = corner[side][at - 1];
            corner[side][at] = p;
        }
    }
    int sign = 0;
    for (int c = 0; c < 3 && !sign; c++) sign = memcmp(corner[0][c], corner[1][c], 12);
    return sign;
}

static inline bool comes_before(const struct order *order, int axis, const struct item *a, const struct item *b) {
    if (a->center[axis] != b->center[axis]) return a->center[axis] < b->center[axis];
    return compare_equal(order, a, b) < 0;
}

/* ---- splitting ---- */

static inline void swap(struct item *a, struct item *b) {
    const struct item old = *a;
    *a = *b;
    *b = old;
}

/* Moves the `left` first items along an axis to the front (quickselect). */
static void select_first(const struct order *order, struct item *items, size_t n, size_t left, int axis) {
    size_t first = 0, end = n;
    while (first < left && left < end) {
        /* The median of three as pivot. */
        struct item *a = &items[first], *b = &items[first + (end - first) / 2], *c = &items[end - 1];
        if (comes_before(order, axis, b, a)) swap(a, b);
        if (comes_before(order, axis, c, b)) swap(b, c);
        if (comes_before(order, axis, b, a)) swap(a, b);
        if (end - first <= 3) return;
        const struct item pivot = *b;
        size_t i = first, j = end - 1;
        for (;;) {
            while (comes_before(order, axis, &items[i], &pivot)) i++;
            while (comes_before(order, axis, &pivot, &items[j])) j--;
            if (i >= j) break;
            swap(&items[i++], &items[j--]);
        }
        /* [first, i) are not after the pivot, [i, end) not before it. */
        if (i == first) i++;
        if (left < i)
            end = i;
        else
            first = i;
    }
}

static int longest_axis(const struct item *items, size_t n) {
    float lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) {
            const float x = items[i].center[k];
            lo[k] = x < lo[k] ? x : lo[k];
            hi[k] = x > hi[k] ? x : hi[k];
        }
    int axis = 0;
    for (int k = 1; k < 3; k++)
        if (hi[k] - lo[k] > hi[axis] - lo[axis]) axis = k;
    return axis;
}

static void sort_cluster(const struct order *order, struct item *items, size_t n) {
    for (size_t i = 1; i < n; i++) {
        const struct item moved = items[i];
        size_t at = i;
        for (; at > 0; at--) {
            const struct item *before = &items[at - 1];
            if (before->key < moved.key) break;
            if (before->key == moved.key && compare_equal(order, before, &moved) <= 0) break;
            items[at] = *before;
        }
        items[at] = moved;
    }
}

/* node: how many triangles a full node of the cluster tree has that holds the items. */
static void split(const struct order *order, struct item *items, size_t n, size_t node) {
    if (n <= CT_CLUSTER_TRIANGLES) {
        sort_cluster(order, items, n);
        return;
    }
    const size_t child = node / CT_CLUSTER_FAN;
    if (n <= child) {
        split(order, items, n, child);
        return;
    }
    size_t left = (n / 2 + child / 2) / child * child; /* the boundary nearest to the middle */
    if (left == 0) left = child;
    select_first(order, items, n, left, longest_axis(items, n));
    split(order, items, left, node);
    split(order, items + left, n - left, node);
}

/* ---- keys ---- */

/* 10 bits an axis, so that a key fits in 32 bits. */
enum { AXIS_BITS = 10 };

/* Spreads 10 bits over 30: bit i moves to bit 3 i. */
static uint32_t spread_bits(uint32_t x) {
    x = (x | x << 16) & 0x030000ff;
    x = (x | x << 8) & 0x0300f00f;
    x = (x | x << 4) & 0x030c30c3;
    x = (x | x << 2) & 0x09249249;
    return x;
}

static struct item item_of(const float *positions, const uint32_t *corner, uint32_t triangle, const double lo[3],
                           const double scale[3]) {
    struct item item = {.triangle = triangle};
    for (int k = 0; k < 3; k++) {
        /* In double, which holds the sum exactly in any order of the corners unless they differ widely in size. */
        const double sum = (double)positions[3 * (size_t)corner[0] + k] + positions[3 * (size_t)corner[1] + k] +
                           positions[3 * (size_t)corner[2] + k];
        const double cell = (sum / 3 - lo[k]) * scale[k];
        const uint32_t x = cell > 0 ? (uint32_t)cell : 0;
        item.key |= spread_bits(x < (1 << AXIS_BITS) ? x : (1 << AXIS_BITS) - 1) << k;
        item.center[k] = (float)sum;
    }
    return item;
}

bool ct_order_triangles(const float *positions, const double lo[3], const double hi[3], uint32_t *triangles, size_t n) {
    struct item *items = malloc((n ? n : 1) * sizeof *items);
    uint32_t *old = malloc((n ? n : 1) * 12);
    const bool ok = items && old;
    if (ok) {
        double scale[3];
        for (int k = 0; k < 3; k++) scale[k] = hi[k] > lo[k] ? (1 << AXIS_BITS) / (hi[k] - lo[k]) : 0;
        memcpy(old, triangles, n * 12);
        for (size_t t = 0; t < n; t++) items[t] = item_of(positions, old + 3 * t, (uint32_t)t, lo, scale);
        const struct order order = {positions, old, items};
        size_t node = CT_CLUSTER_TRIANGLES;
        while (node < n) node *= CT_CLUSTER_FAN;
        split(&order, items, n, node);
        for (size_t t = 0; t < n; t++) memcpy(triangles + 3 * t, old + 3 * (size_t)items[t].triangle, 12);
    }
    free(items);
    free(old);
    return ok;
}
