/* intervals_k.h - the depths over a tile where bodies have faces, where they may be inside, and the length of a ray
 * inside both. For the kernels that measure a tile. */
#ifndef CT_EBPI_INTERVALS_K_H
#define CT_EBPI_INTERVALS_K_H

#include "gpu/base/kernel.h"

typedef struct ct_interval {
    int64_t lo, hi;
} ct_interval;

/* Disjoint intervals in rising order. */
typedef struct ct_intervals {
    ct_interval *of;
    uint32_t n;
} ct_intervals;

CT_FN void ct_intervals_append(ct_intervals *to, int64_t lo, int64_t hi) {
    if (to->n && to->of[to->n - 1].hi >= lo) {
        if (hi > to->of[to->n - 1].hi) to->of[to->n - 1].hi = hi;
        return;
    }
    to->of[to->n].lo = lo;
    to->of[to->n++].hi = hi;
}

CT_FN void ct_intervals_intersect(const ct_intervals *a, const ct_intervals *b, ct_intervals *to) {
    to->n = 0;
    for (uint32_t i = 0, j = 0; i < a->n && j < b->n;) {
        const int64_t lo = a->of[i].lo > b->of[j].lo ? a->of[i].lo : b->of[j].lo;
        const int64_t hi = a->of[i].hi < b->of[j].hi ? a->of[i].hi : b->of[j].hi;
        if (lo < hi) ct_intervals_append(to, lo, hi);
        if (a->of[i].hi < b->of[j].hi)
            i++;
        else
            j++;
    }
}

/* How much of lo to hi the intervals hold. */
CT_FN int64_t ct_intervals_within(const ct_intervals *in, int64_t lo, int64_t hi) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < in->n && in->of[i].lo < hi; i++) {
        const int64_t from = in->of[i].lo > lo ? in->of[i].lo : lo, to = in->of[i].hi < hi ? in->of[i].hi : hi;
        if (from < to) sum += to - from;
    }
    return sum;
}

/* Faces of a body whose depths touch: a layer of its surface. */
typedef struct ct_layer {
    int32_t lo, hi;
    int32_t crossings; /* their sum */
} ct_layer;

typedef struct ct_layers {
    ct_layer *of; /* disjoint, in rising order */
    uint32_t n;
} ct_layers;

/* The first layer that ends at lo or behind. */
CT_FN uint32_t ct_layers_find(const ct_layers *in, int32_t lo) {
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
CT_FN uint32_t ct_layers_add(ct_layers *to, int32_t lo, int32_t hi, int32_t crossing) {
    const uint32_t at = ct_layers_find(to, lo);
    ct_layer *of = &to->of[at];
    if (at == to->n || of->lo > hi) {
        for (uint32_t k = to->n++; k > at; k--) to->of[k] = to->of[k - 1];
        of->lo = lo;
        of->hi = hi;
        of->crossings = crossing;
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

/* The depths where a body may be inside somewhere over the tile: where it has a face, and between its layers where its
 * winding number, the same all over the tile, is positive. The rays begin at `lo`, with this winding number, and end at
 * `hi`. */
CT_FN void ct_find_possible(const ct_layers *layers, int32_t winding, int32_t lo, int32_t hi, ct_intervals *to) {
    to->n = 0;
    if (winding > 0) ct_intervals_append(to, lo, lo);
    for (uint32_t i = 0; i < layers->n; i++) {
        const ct_layer *of = &layers->of[i];
        ct_intervals_append(to, winding > 0 ? to->of[to->n - 1].hi : of->lo, of->hi);
        winding += of->crossings;
    }
    if (winding > 0) ct_intervals_append(to, to->of[to->n - 1].hi, hi);
}

/* How much of J, `joint`, holds a face of either body. surface: memory for as many intervals as there are layers. */
CT_FN int64_t ct_measure_surface(const ct_layers layers[2], const ct_intervals *joint, ct_interval *memory) {
    ct_intervals surface = {memory, 0};
    for (uint32_t i = 0, j = 0; i < layers[0].n || j < layers[1].n;) {
        const int is_first = j == layers[1].n || (i < layers[0].n && layers[0].of[i].lo < layers[1].of[j].lo);
        const ct_layer *of = is_first ? &layers[0].of[i++] : &layers[1].of[j++];
        ct_intervals_append(&surface, of->lo, of->hi);
    }
    int64_t sum = 0;
    for (uint32_t i = 0; i < surface.n; i++) sum += ct_intervals_within(joint, surface.of[i].lo, surface.of[i].hi);
    return sum;
}

#endif
