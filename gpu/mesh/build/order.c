/* order.c - orders triangles by a k-d tree over their centroids whose leaves are clusters. */
#include "gpu/mesh/build/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/large.h"
#include "gpu/mesh/clusters.h"

struct item {
    float center[3]; /* three times the centroid */
    uint32_t key;    /* on a Morton curve */
    uint32_t triangle;
};

struct order {
    const float *positions;
    const uint32_t *triangles;
    uint64_t n_compared;
    bool is_cancelled;
};

enum { POLL = 1024 }; /* items between polls */

static bool is_late(struct order *order) {
    if (ct_is_cancelled()) order->is_cancelled = true;
    return order->is_cancelled;
}

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

static void select_first(struct order *order, struct item *items, size_t n, size_t left, int axis);

static void sort_few(struct order *order, struct item *items, size_t n, int axis) {
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0 && comes_before(order, axis, &items[k], &items[k - 1]); k--)
            swap(&items[k], &items[k - 1]);
}

/* The median of the medians of fives (Blum et al. 1973), with three tenths of the items on either side at least.
 * Reorders the items. */
static struct item median_of_medians(struct order *order, struct item *items, size_t n, int axis) {
    size_t n_medians = 0;
    for (size_t i = 0; i + 5 <= n; i += 5) {
        sort_few(order, items + i, 5, axis);
        swap(&items[n_medians++], &items[i + 2]);
    }
    select_first(order, items, n_medians, n_medians / 2, axis);
    size_t best = n_medians / 2; /* the least of those behind */
    for (size_t i = best + 1; i < n_medians; i++)
        if (comes_before(order, axis, &items[i], &items[best])) best = i;
    return items[best];
}

/* Orders the first, the middle and the last item. */
static void order_three(struct order *order, struct item *a, struct item *b, struct item *c, int axis) {
    if (comes_before(order, axis, b, a)) swap(a, b);
    if (comes_before(order, axis, c, b)) swap(b, c);
    if (comes_before(order, axis, b, a)) swap(a, b);
}

/* Moves the `left` first items along an axis to the front (quickselect). Pivots are medians of three, with which some 3
 * n items are compared. Who knows that can give items in an order where each pivot splits off next to nothing: after 8
 * n, better and slower pivots are taken. */
static void select_first(struct order *order, struct item *items, size_t n, size_t left, int axis) {
    enum { SMALL = 64 };
    size_t first = 0, end = n;
    uint64_t n_compared = 0;
    while (first < left && left < end && !order->is_cancelled) {
        struct item *a = &items[first], *b = &items[first + (end - first) / 2], *c = &items[end - 1];
        order_three(order, a, b, c, axis);
        if (end - first <= 3) return;
        struct item pivot = *b;
        if (n_compared > 8 * (uint64_t)n && end - first > SMALL) pivot = median_of_medians(order, a, end - first, axis);
        n_compared += end - first;
        order->n_compared += end - first;
        size_t i = first, j = end - 1;
        for (;;) {
            for (; comes_before(order, axis, &items[i], &pivot); i++)
                if (CT_POLL_EVERY(i, POLL) && is_late(order)) return;
            for (; comes_before(order, axis, &pivot, &items[j]); j--)
                if (CT_POLL_EVERY(j, POLL) && is_late(order)) return;
            if (i >= j) break;
            if (CT_POLL_EVERY(i, POLL) && is_late(order)) return;
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

static int longest_axis(struct order *order, const struct item *items, size_t n) {
    float lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (size_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i, 4 * POLL) && is_late(order)) break;
        for (int k = 0; k < 3; k++) {
            const float x = items[i].center[k];
            lo[k] = x < lo[k] ? x : lo[k];
            hi[k] = x > hi[k] ? x : hi[k];
        }
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
static void split(struct order *order, struct item *items, size_t n, size_t node) {
    if (is_late(order)) return;
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
    select_first(order, items, n, left, longest_axis(order, items, n));
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

/* False: cancelled. */
static bool make_items(struct order *order, struct item *items, size_t n, const double lo[3], const double hi[3]) {
    double scale[3];
    for (int k = 0; k < 3; k++) scale[k] = hi[k] > lo[k] ? (1 << AXIS_BITS) / (hi[k] - lo[k]) : 0;
    for (size_t t = 0; t < n; t++) {
        if (CT_POLL_EVERY(t, POLL) && is_late(order)) return false;
        items[t] = item_of(order->positions, order->triangles + 3 * t, (uint32_t)t, lo, scale);
    }
    return true;
}

bool ct_order_triangles(const float *positions, const double lo[3], const double hi[3], uint32_t *triangles, size_t n,
                        uint64_t *n_compared) {
    struct item *items = malloc((n ? n : 1) * sizeof *items);
    uint32_t *old = malloc((n ? n : 1) * 12);
    struct order order = {.positions = positions, .triangles = old};
    bool is_ordered = items && old && ct_copy_large(old, triangles, n * 12) && make_items(&order, items, n, lo, hi);
    if (is_ordered) {
        size_t node = CT_CLUSTER_TRIANGLES;
        while (node < n) node *= CT_CLUSTER_FAN;
        split(&order, items, n, node);
        is_ordered = !order.is_cancelled;
    }
    for (size_t t = 0; t < n && is_ordered; t++) {
        if (CT_POLL_EVERY(t, POLL)) is_ordered = !is_late(&order);
        memcpy(triangles + 3 * t, old + 3 * (size_t)items[t].triangle, 12);
    }
    if (n_compared) *n_compared = order.n_compared;
    free(items);
    free(old);
    return is_ordered;
}
