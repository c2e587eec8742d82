/* tile_depths.h - the depths over a tile where both bodies may be inside, and the length of the tile's ray. For
 * tile_cpu.simd.c. */
#ifndef CT_EBPI_TILE_DEPTHS_H
#define CT_EBPI_TILE_DEPTHS_H

#include "gpu/methods/ebpi/tile_faces.h"

static inline int32_t least_of(ct_v4i x) {
    const ct_v4i y = min_v4i(x, __builtin_shufflevector(x, x, 2, 3, 0, 1));
    return y[0] < y[1] ? y[0] : y[1];
}

static inline int32_t most_of(ct_v4i x) {
    const ct_v4i y = max_v4i(x, __builtin_shufflevector(x, x, 2, 3, 0, 1));
    return y[0] > y[1] ? y[0] : y[1];
}

/* Adds those of faces i to i + 3 that layer `at` holds, or all four if each touches it and none the layers beside it.
 * Returns the lanes that are left. */
static inline unsigned add_to_layer(const struct tile_faces *t, uint32_t i, const ct_layers *to, uint32_t at) {
    ct_layer *layer = &to->of[at];
    const ct_v4i lo = load_v4i(t->lo + i), hi = load_v4i(t->hi + i);
    ct_v4i is_out = (lo < layer->lo) | (hi > layer->hi);
    if (sign_bits_v4i(is_out) && !sign_bits_v4i((lo > layer->hi) | (hi < layer->lo))) {
        const int32_t least = least_of(lo), most = most_of(hi);
        if ((at == 0 || layer[-1].hi < least) && (at + 1 == to->n || layer[1].lo > most)) {
            if (least < layer->lo) layer->lo = least;
            if (most > layer->hi) layer->hi = most;
            is_out = v4i(0);
        }
    }
    const ct_v4i crossing = load_v4i(t->crossing + i) & ~is_out;
    layer->crossings += crossing[0] + crossing[1] + crossing[2] + crossing[3];
    return sign_bits_v4i(is_out);
}

/* The layers of faces first to end - 1. */
static void find_layers(const struct tile_faces *t, uint32_t first, uint32_t end, ct_layers *to) {
    uint32_t at = 0; /* the layer of the face before: neighbours in the list are often neighbours in space */
    to->n = 0;
    for (uint32_t i = first; i < end; i += 4) {
        if (CT_POLL_EVERY((i - first) / 4 + 1, 256) && ct_is_cancelled()) return;
        unsigned left = end - i >= 4 ? 15 : (1u << (end - i)) - 1;
        if (to->n && left == 15) left = add_to_layer(t, i, to, at);
        for (; left; left &= left - 1) {
            const uint32_t f = i + (uint32_t)__builtin_ctz(left);
            const int32_t lo = t->lo[f], hi = t->hi[f];
            if (to->n && lo >= to->of[at].lo && hi <= to->of[at].hi)
                to->of[at].crossings += t->crossing[f];
            else
                at = ct_layers_add(to, lo, hi, t->crossing[f]);
        }
    }
}

/* Sets `inside` and `is_jump` of all faces. */
static void measure_faces(struct tile_faces *t) {
    const ct_v4d width = v4d(t->width), height = v4d(t->height);
    for (uint32_t i = 0; i < t->all; i += 4) {
        if (CT_POLL_EVERY(i / 4 + 1, 64) && ct_is_cancelled()) return;
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
    return (3 * n + 12) * sizeof(ct_interval) + (n + 4) * sizeof(ct_layer);
}

/* Finds J, what of each face lies in it, and the depths in J that hold a face. memory: joint_size. */
static int64_t find_joint(struct tile_faces *t, void *memory) {
    ct_interval *interval = memory;
    ct_intervals possible[2]; /* where the surface is found, once J is */
    const size_t n = t->all;
    ct_layers *layers = t->layers;
    layers[0] = (ct_layers){(ct_layer *)(void *)(interval + 3 * n + 12), 0};
    layers[1] = (ct_layers){layers[0].of + t->n[0] + 1, 0};
    possible[0] = (ct_intervals){interval, 0};
    possible[1] = (ct_intervals){interval + t->n[0] + 3, 0};
    t->joint = (ct_intervals){interval + n + 6, 0};
    for (int b = 0; b < 2; b++) {
        find_layers(t, b ? t->n[0] : 0, b ? t->all : t->n[0], &layers[b]);
        ct_find_possible(&layers[b], t->winding[b], t->view->lo, t->view->hi, &possible[b]);
    }
    ct_intervals_intersect(&possible[0], &possible[1], &t->joint);
    if (!t->joint.n) return 0;
    measure_faces(t);
    return ct_measure_surface(layers, &t->joint, interval);
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
            if (CT_POLL_EVERY(i, 128) && ct_is_cancelled()) return 0;
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
