/* tile_kept.h - which of a tile's faces its parts need. For tile_cpu.simd.c.
 *
 * Where a layer of one body lies wholly in front of the other body, or behind it, no ray has a span there. Its faces
 * leave the tile's list, and what they add to the winding number where the rays begin goes into ct_ebpi_tile.start:
 *
 *     body A   ==========   layer in front of B: dropped, start[A] = +1
 *     body B          ------------
 *     body A      ==========   kept: it may cross B
 *     body B   ------------
 *     body A   ===========   layer behind B: dropped
 *
 * So deep contacts of large meshes have half the faces in their small tiles. No bit of a part's length, bound,
 * polynomial or spans changes: where a body is dropped the other one's winding number is 0, all over the tile. Depths
 * of a part may be rounded to a unit beyond the tile's, for which layers are MARGIN apart. */
#ifndef CT_EBPI_TILE_KEPT_H
#define CT_EBPI_TILE_KEPT_H

#include "gpu/methods/ebpi/tile_depths.h"

enum { MARGIN = 4 };

/* The faces of a body that are kept: those whose depths begin behind `front` and end before `behind`. */
struct kept {
    int64_t front, behind;
    int32_t in_front, at_back; /* sums of the crossings that are dropped */
};

/* Of a body with layers `own`, which may be dropped before the depth `first` and behind `last`, of the other body. */
static struct kept find_kept(const ct_layers *own, const ct_ebpi_view *view, int64_t first, int64_t last) {
    struct kept kept = {INT64_MIN, INT64_MAX, 0, 0};
    int32_t sum = 0;
    uint32_t n_front = 0;
    for (uint32_t i = 0; i < own->n && own->of[i].hi + MARGIN <= first; i++) {
        const int64_t next = i + 1 < own->n ? own->of[i + 1].lo : INT64_MAX;
        sum += own->of[i].crossings;
        if (own->of[i].hi + MARGIN > next || next <= view->lo) continue;
        kept.front = own->of[i].hi;
        kept.in_front = sum;
        n_front = i + 1;
    }
    sum = 0;
    for (uint32_t i = own->n; i > n_front && own->of[i - 1].lo - MARGIN >= last; i--) {
        const int64_t before = i > 1 ? own->of[i - 2].hi : INT64_MIN;
        sum += own->of[i - 1].crossings;
        if (i > 1 && own->of[i - 1].lo - MARGIN < before) continue;
        kept.behind = own->of[i - 1].lo;
        kept.at_back = sum;
    }
    return kept;
}

static inline bool is_kept(const struct tile_faces *t, const struct kept *kept, uint32_t i) {
    return t->lo[i] > kept->front && t->hi[i] < kept->behind;
}

/* Drops the faces of a measured tile that its parts do not need. layers: of both bodies. */
static void drop_faces(const struct tile_faces *t, ct_ebpi_tile *tile) {
    const ct_ebpi_view *view = t->view;
    struct kept kept[2];
    bool drops = false;
    for (int b = 0; b < 2; b++) {
        const ct_layers *other = &t->layers[1 - b];
        int64_t first = INT64_MIN, last = INT64_MAX; /* depths outside of which the other body is not */
        if (other->n) {
            int32_t winding = t->winding[1 - b];
            if (winding == 0 && other->of[0].lo > view->lo) first = other->of[0].lo;
            for (uint32_t i = 0; i < other->n; i++) winding += other->of[i].crossings;
            if (winding == 0 && other->of[other->n - 1].hi < view->hi) last = other->of[other->n - 1].hi;
        }
        kept[b] = find_kept(&t->layers[b], view, first, last);
        drops = drops || kept[b].front != INT64_MIN || kept[b].behind != INT64_MAX;
    }
    if (!drops) return;
    uint32_t n = 0;
    for (int b = 0; b < 2; b++) {
        tile->begin[b] = n;
        for (uint32_t i = 0; i < t->n_crossed[b]; i++)
            if (is_kept(t, &kept[b], t->crossed[b][i])) tile->faces[n++] = t->tag[t->crossed[b][i]];
        tile->n_crossed[b] = n - tile->begin[b];
        for (uint32_t i = b ? t->n[0] : 0; i < (b ? t->all : t->n[0]); i++) {
            tile->faces[n] = t->tag[i];
            n += !t->crossing[i] && is_kept(t, &kept[b], i);
        }
        tile->start[b] += view->initial[b] == CT_INITIAL_FROM_BALANCE ? -kept[b].at_back : kept[b].in_front;
    }
    tile->n_faces = n;
}

#endif
