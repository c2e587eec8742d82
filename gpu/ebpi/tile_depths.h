/* tile_depths.h - the depths over a tile where both bodies may be inside, and the length of the tile's ray. For
 * tile_cpu.simd.c. */
#ifndef CT_EBPI_TILE_DEPTHS_H
#define CT_EBPI_TILE_DEPTHS_H

#include "gpu/ebpi/tile_faces.h"

static void append(struct intervals *to, int64_t lo, int64_t hi) {
    if (to->n && to->of[to->n - 1].hi >= lo) {
        if (hi > to->of[to->n - 1].hi) to->of[to->n - 1].hi = hi;
        return;
    }
    to->of[to->n++] = (struct interval){lo, hi};
}

static void intersect(const struct intervals *a, const struct intervals *b, struct intervals *to) {
    to->n = 0;
    for (uint32_t i = 0, j = 0; i < a->n && j < b->n;) {
        const int64_t lo = a->of[i].lo > b->of[j].lo ? a->of[i].lo : b->of[j].lo;
        const int64_t hi = a->of[i].hi < b->of[j].hi ? a->of[i].hi : b->of[j].hi;
        if (lo < hi) append(to, lo, hi);
        if (a->of[i].hi < b->of[j].hi)
            i++;
        else
            j++;
    }
}

/* How much of lo to hi the intervals hold. */
static int64_t measure_within(const struct intervals *in, int64_t lo, int64_t hi) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < in->n && in->of[i].lo < hi; i++) {
        const int64_t from = in->of[i].lo > lo ? in->of[i].lo : lo, to = in->of[i].hi < hi ? in->of[i].hi : hi;
        if (from < to) sum += to - from;
    }
    return sum;
}

/* Faces of a body whose depths touch: a layer of its surface. */
struct layer {
    int32_t lo, hi;
    int32_t crossings; /* their sum */
};

struct layers {
    struct layer *of; /* disjoint, in rising order */
    uint32_t n;
};

/* The first layer that ends at lo or behind. */
static uint32_t find_layer(const struct layers *in, int32_t lo) {
    uint32_t first = 0, end = in->n;
    while (first < end) {
        const uint32_t middle = (first + end) / 2;
        if (in->of[middle].hi < lo)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* Adds a face to layers, and joins those that it connects. Returns its layer. */
static uint32_t add_to_layers(struct layers *to, int32_t lo, int32_t hi, int32_t crossing) {
    const uint32_t at = find_layer(to, lo);
    struct layer *of = &to->of[at];
    if (at == to->n || of->lo > hi) {
        for (uint32_t k = to->n++; k > at; k--) to->of[k] = to->of[k - 1];
        *of = (struct layer){lo, hi, crossing};
        return at;
    }
    if (lo < of->lo) of->lo = lo;
    of->crossings += crossing;
    uint32_t joined = 0;
    for (; at + joined + 1 < to->n && of[joined + 1].lo <= hi; joined++) of->crossings += of[joined + 1].crossings;
    if (of[joined].hi > hi) hi = of[joined].hi;
    of->hi = hi;
    if (!joined) return at;
    to->n -= joined;
    for (uint32_t k = at + 1; k < to->n; k++) to->of[k] = to->of[k + joined];
    return at;
}

/* The layers of faces first to end - 1. */
static void find_layers(const struct tile_faces *t, uint32_t first, uint32_t end, struct layers *to) {
    uint32_t at = 0; /* the layer of the face before: neighbours in the list are often neighbours in space */
    to->n = 0;
    for (uint32_t i = first; i < end; i++) {
        const int32_t lo = t->lo[i], hi = t->hi[i];
        if (to->n && lo >= to->of[at].lo && hi <= to->of[at].hi)
            to->of[at].crossings += t->crossing[i];
        else
            at = add_to_layers(to, lo, hi, t->crossing[i]);
    }
}

/* The depths where a body may be inside somewhere over the tile: where it has a face, and between its layers where its
 * winding number, the same all over the tile, is positive. */
static void find_possible(const struct tile_faces *t, int b, const struct layers *layers, struct intervals *to) {
    int32_t winding = t->winding[b];
    to->n = 0;
    if (winding > 0) append(to, t->view->lo, t->view->lo);
    for (uint32_t i = 0; i < layers->n; i++) {
        const struct layer *of = &layers->of[i];
        append(to, winding > 0 ? to->of[to->n - 1].hi : of->lo, of->hi);
        winding += of->crossings;
    }
    if (winding > 0) append(to, to->of[to->n - 1].hi, t->view->hi);
}

/* Sets `inside` and `is_jump` of all faces. */
static void measure_faces(struct tile_faces *t) {
    const ct_v4d width = v4d(t->width), height = v4d(t->height);
    for (uint32_t i = 0; i < t->all; i += 4) {
        const ct_v4i lo = load_v4i(t->lo + i), hi = load_v4i(t->hi + i);
        ct_v4i inside = v4i(0);
        for (uint32_t k = 0; k < t->joint.n; k++) {
            const ct_v4i from = max_v4i(lo, v4i((int32_t)t->joint.of[k].lo));
            inside += max_v4i(min_v4i(hi, v4i((int32_t)t->joint.of[k].hi)) - from, v4i(0));
        }
        const ct_v4d drop =
            (absolute(load_v4d(t->slope[0] + i)) * width + absolute(load_v4d(t->slope[1] + i)) * height) * 0.125;
        store_v4i(t->inside + i, inside);
        store_v4i(t->is_jump + i, ~ct_v4i_of_v4l(drop <= to_double(inside))); /* also where the slope is NaN */
    }
}

/* Bytes for find_joint of n faces. */
static size_t joint_size(size_t n) {
    return (3 * n + 12) * sizeof(struct interval) + (n + 4) * sizeof(struct layer);
}

/* Finds J, what of each face lies in it, and the depths in J that hold a face. memory: joint_size. */
static int64_t find_joint(struct tile_faces *t, void *memory) {
    struct interval *interval = memory;
    struct intervals possible[2], surface = {interval, 0}; /* where the surface is found, once J is */
    struct layers layers[2];
    const size_t n = t->all;
    layers[0] = (struct layers){(struct layer *)(void *)(interval + 3 * n + 12), 0};
    layers[1] = (struct layers){layers[0].of + t->n[0] + 1, 0};
    possible[0] = (struct intervals){interval, 0};
    possible[1] = (struct intervals){interval + t->n[0] + 3, 0};
    t->joint = (struct intervals){interval + n + 6, 0};
    for (int b = 0; b < 2; b++) {
        find_layers(t, b ? t->n[0] : 0, b ? t->all : t->n[0], &layers[b]);
        find_possible(t, b, &layers[b], &possible[b]);
    }
    intersect(&possible[0], &possible[1], &t->joint);
    if (!t->joint.n) return 0;
    for (uint32_t i = 0, j = 0; i < layers[0].n || j < layers[1].n;) {
        const bool is_first = j == layers[1].n || (i < layers[0].n && layers[0].of[i].lo < layers[1].of[j].lo);
        const struct layer *of = is_first ? &layers[0].of[i++] : &layers[1].of[j++];
        append(&surface, of->lo, of->hi);
    }
    int64_t sum = 0;
    for (uint32_t i = 0; i < surface.n; i++) sum += measure_within(&t->joint, surface.of[i].lo, surface.of[i].hi);
    measure_faces(t);
    return sum;
}

/* The length of the ray inside both bodies (ct_is_in_span), and its number of spans. Sorts the crossings of each body
 * by depth. */
static int32_t measure_ray(struct tile_faces *t, int64_t *n_spans) {
    int32_t winding[2] = {t->winding[0], t->winding[1]}, length = 0, begin = 0;
    uint32_t next[2] = {0, 0};
    *n_spans = 0;
    for (int b = 0; b < 2; b++)
        for (uint32_t i = 1; i < t->n_crossed[b]; i++) {
            const int32_t depth = t->depth[b][i];
            const uint32_t face = t->crossed[b][i];
            uint32_t at = i;
            for (; at > 0 && t->depth[b][at - 1] > depth; at--) {
                t->depth[b][at] = t->depth[b][at - 1];
                t->crossed[b][at] = t->crossed[b][at - 1];
            }
            t->depth[b][at] = depth;
            t->crossed[b][at] = face;
        }
    while (next[0] < t->n_crossed[0] || next[1] < t->n_crossed[1]) {
        int32_t depth = INT32_MAX;
        for (int b = 0; b < 2; b++)
            if (next[b] < t->n_crossed[b] && t->depth[b][next[b]] < depth) depth = t->depth[b][next[b]];
        const bool was_inside = winding[0] > 0 && winding[1] > 0;
        for (int b = 0; b < 2; b++)
            for (; next[b] < t->n_crossed[b] && t->depth[b][next[b]] == depth; next[b]++)
                winding[b] += t->crossing[t->crossed[b][next[b]]];
        const bool is_inside = winding[0] > 0 && winding[1] > 0;
        if (is_inside && !was_inside) begin = depth;
        if (!was_inside || is_inside) continue;
        length += depth - begin;
        ++*n_spans;
    }
    return length;
}

#endif
