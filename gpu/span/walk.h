/* walk.h - one ray to spans to sums, for *.simd.c files of this stage. */
#ifndef CT_WALK_H
#define CT_WALK_H

#include <string.h>

#include "gpu/base/simd.h"
#include "gpu/span/gradient_accumulator.h"

/* ---- order along a ray ---- */

/* A fragment in a ray's order: its key, below it its index, below that its body. */
typedef uint64_t entry;

static const entry LAST = UINT64_MAX; /* after all: no key is that large */

static inline entry entry_of(const ct_fragment *f, uint32_t index) {
    return (entry)f->key << 32 | index << 1 | f->tag >> 31;
}

static inline uint32_t key_of(entry e) {
    return (uint32_t)(e >> 32);
}

static inline uint32_t index_of(entry e) {
    return (uint32_t)e >> 1;
}

static inline int body_of(entry e) {
    return (int)(e & 1);
}

/* Insertion is best for the few layers that most rays have; a ray through thousands must not cost their square. */
enum { INSERTION_MAX = 32 };

/* What scratch->ray needs to have room for before rays are walked. */
#define RAY_BYTES (4 * INSERTION_MAX * sizeof(entry))

static inline bool entry_before(const ct_linked_fragment *fragments, entry a, entry b) {
    if (key_of(a) != key_of(b)) return a < b;
    return ct_fragment_before(&fragments[index_of(a)].f, &fragments[index_of(b)].f);
}

static void sift_down(const ct_linked_fragment *fragments, entry *e, size_t i, size_t n) {
    entry moving = e[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && entry_before(fragments, e[child], e[child + 1])) child++;
        if (!entry_before(fragments, moving, e[child])) break;
        e[i] = e[child];
        i = child;
    }
    e[i] = moving;
}

static void heap_sort(const ct_linked_fragment *fragments, entry *e, size_t n) {
    for (size_t i = n / 2; i-- > 0;) sift_down(fragments, e, i, n);
    for (size_t end = n; end-- > 1;) {
        entry last = e[end];
        e[end] = e[0];
        e[0] = last;
        sift_down(fragments, e, 0, end);
    }
}

/* ---- bounds ---- */

/* Returns the depth of the bound. */
static inline int32_t add_bound(struct gradient_accumulator *s, const ct_linked_fragment *fragments,
                                const ct_bound *bound, int side) {
    int64_t a = bound->fragment[0], b = bound->fragment[1];
    if (a >= 0 && b >= 0) {
        add_fragment(s, &fragments[a].f, side, HALF);
        add_fragment(s, &fragments[b].f, side, HALF + 1);
    } else {
        add_fragment(s, &fragments[a >= 0 ? a : b].f, side, ALONE);
    }
    return ct_fragment_depth(fragments[a >= 0 ? a : b].f.key);
}

/* ---- rays ---- */

static bool keep_span(ct_span_scratch *scratch, ct_budget *budget, ct_raw_span span) {
    size_t used = scratch->n_spans * sizeof span;
    if (used + sizeof span > scratch->spans.capacity &&
        !ct_buffer_reserve(&scratch->spans, budget, 2 * used + 4096, used, false))
        return false;
    ((ct_raw_span *)scratch->spans.data)[scratch->n_spans++] = span;
    return true;
}

/* Walks n entries of one key. Their order matters only among those of one body, which hardly ever are several. */
static int walk_group(const ct_linked_fragment *fragments, ct_walk *walk, entry *e, uint32_t n, ct_bound *upper) {
    if (n > 2 || body_of(e[0]) == body_of(e[1])) heap_sort(fragments, e, n);
    ct_coincident_crossings group;
    ct_coincident_start(&group, walk);
    for (uint32_t i = 0; i < n; i++) ct_coincident_add(&group, walk, key_of(e[i]) & 1, body_of(e[i]), index_of(e[i]));
    *upper = group.crossed;
    return ct_coincident_end(&group, walk);
}

/* ---- simple rays ---- */

/* Nearly all rays cross each body's surface at most twice, once outwards and once inwards: between the later of the two
 * ways in and the earlier of the two ways out they are inside both. Nothing needs sorting then.
 *
 * What a body's crossings, bit OUT and bit IN of an index, tell of it is looked up in a table of four bytes. */
enum { OUT, IN };
enum { FITS = 0, NEVER_INSIDE = 1, IS_OTHER = 2 };
typedef uint32_t verdicts;
#define VERDICTS(neither, out, in, both)                                                                               \
    ((verdicts)(neither) | (verdicts)(out) << 8 | (verdicts)(in) << 16 | (verdicts)(both) << 24)

/* For a ray that enters the window with that winding number. */
static inline verdicts verdicts_of(int32_t winding) {
    return winding == 0   ? VERDICTS(NEVER_INSIDE, IS_OTHER, FITS, FITS)
           : winding == 1 ? VERDICTS(FITS, FITS, IS_OTHER, IS_OTHER)
           : winding > 1  ? VERDICTS(FITS, IS_OTHER, IS_OTHER, IS_OTHER)
                          : VERDICTS(NEVER_INSIDE, IS_OTHER, IS_OTHER, IS_OTHER);
}

/* For one that enters with what its crossings lack to 0. */
static const verdicts LISTED = VERDICTS(NEVER_INSIDE, FITS, IS_OTHER, FITS);

/* What is the same for all rays of a band, copied so that no store can change it. */
struct band {
    const ct_linked_fragment *fragments;
    const int32_t (*winding)[2]; /* may be NULL */
    verdicts verdicts[2];        /* of bodies that are not counted */
    bool counted[2];
};

static inline struct band band_of(const ct_ray_lists *rays) {
    struct band band = {.fragments = rays->fragments, .winding = (const int32_t(*)[2])rays->winding};
    for (int b = 0; b < 2; b++) {
        band.counted[b] = rays->winding && rays->entry[b] == CT_INITIAL_COUNTED;
        band.verdicts[b] = rays->entry[b] == CT_INITIAL_FROM_BALANCE ? LISTED : verdicts_of(0);
    }
    return band;
}

/* False: not such a ray; nothing was done. */
static inline bool walk_simple(struct gradient_accumulator *accumulator, const struct band *band, size_t ray,
                               uint32_t head, int64_t *total) {
    const ct_linked_fragment *fragments = band->fragments;
    /* Key and index of each body's crossings; where there is none: after all, or before all. */
    uint64_t crossed[4] = {UINT64_MAX, 0, UINT64_MAX, 0};
    uint32_t have = 0;
    for (uint32_t i = head; i != CT_END; i = fragments[i].next) {
        uint32_t key = fragments[i].f.key, slot = fragments[i].f.tag >> 31 << 1 | (key & 1);
        if (have >> slot & 1) return false;
        have |= 1u << slot;
        crossed[slot] = (uint64_t)key << 32 | i;
    }
    uint32_t verdict = 0;
    for (int b = 0; b < 2; b++) {
        verdicts table = band->counted[b] ? verdicts_of(band->winding[ray][b]) : band->verdicts[b];
        verdict |= table >> (8 * (have >> (2 * b) & 3));
    }
    if (verdict & NEVER_INSIDE) return true;
    if (verdict & IS_OTHER || crossed[IN] > crossed[OUT] || crossed[2 + IN] > crossed[2 + OUT]) return false;
    uint64_t lower = crossed[IN] > crossed[2 + IN] ? crossed[IN] : crossed[2 + IN];
    uint64_t upper = crossed[OUT] < crossed[2 + OUT] ? crossed[OUT] : crossed[2 + OUT];
    if (crossed[IN] >> 32 == crossed[2 + IN] >> 32 || crossed[OUT] >> 32 == crossed[2 + OUT] >> 32)
        return false; /* both at once, or neither within the window */
    if (lower > upper) return true;
    const ct_fragment *first = &fragments[(uint32_t)lower].f, *last = &fragments[(uint32_t)upper].f;
    add_fragment(accumulator, first, LOWER, ALONE);
    add_fragment(accumulator, last, UPPER, ALONE);
    *total += ct_fragment_depth(last->key) - ct_fragment_depth(first->key);
    return true;
}

/* ---- any ray ---- */

/* The winding numbers with which a ray enters, but for what its listed crossings tell of. */
static inline ct_walk walk_start(const ct_ray_lists *rays, size_t ray) {
    ct_walk walk = {{0, 0}, {{-1, -1}}};
    if (rays->winding)
        for (int b = 0; b < 2; b++) walk.winding[b] = rays->winding[ray][b];
    return walk;
}

/* Takes a listed crossing off the winding number with which the ray enters, where that is what they lack to 0. */
static inline void walk_back(const ct_ray_lists *rays, ct_walk *walk, uint32_t key, int body) {
    int listed = rays->entry[body] == CT_INITIAL_FROM_BALANCE;
    walk->winding[body] += key & 1 ? -listed : listed;
}

/* Copies a ray's list to e, in order if it is no longer than INSERTION_MAX, but for entries of equal key among
 * themselves, with LAST after them. Returns its length; beyond the capacity, which is more than INSERTION_MAX, entries
 * are only counted. */
static inline uint32_t gather(const ct_ray_lists *rays, size_t ray, entry *e, uint32_t capacity, ct_walk *walk) {
    const ct_linked_fragment *fragments = rays->fragments;
    uint32_t n = 0;
    for (uint32_t i = rays->head[ray]; i != CT_END; i = fragments[i].next, n++) {
        entry new = entry_of(&fragments[i].f, i);
        walk_back(rays, walk, key_of(new), body_of(new));
        if (n < INSERTION_MAX) {
            uint32_t at = n;
            for (; at > 0 && e[at - 1] > new; at--) e[at] = e[at - 1];
            e[at] = new;
        } else if (n + 1 < capacity) {
            e[n] = new;
        }
    }
    if (n < capacity) e[n] = LAST;
    return n;
}

/* Any ray. Adds the lengths of its spans to *total. scratch->ray has room for more than INSERTION_MAX. */
static bool walk_ray(struct gradient_accumulator *accumulator, const ct_ray_lists *rays, size_t ray,
                     ct_span_scratch *scratch, ct_budget *budget, bool keep, int64_t *total) {
    const ct_linked_fragment *fragments = rays->fragments;
    entry *e = scratch->ray.data;
    uint32_t capacity = (uint32_t)(scratch->ray.capacity / sizeof *e);
    ct_walk walk = walk_start(rays, ray);
    uint32_t n = gather(rays, ray, e, capacity, &walk);
    if (n >= capacity) {
        if (!ct_buffer_reserve(&scratch->ray, budget, ((size_t)n + 1) * sizeof *e, 0, false)) return false;
        e = scratch->ray.data;
        walk = walk_start(rays, ray);
        gather(rays, ray, e, n + 1, &walk);
    }
    if (n > INSERTION_MAX) heap_sort(fragments, e, n);

    for (uint32_t i = 0; i < n;) {
        uint32_t key = key_of(e[i]), j = i + 1;
        ct_bound upper;
        int closed;
        if (key_of(e[j]) != key) {
            int body = body_of(e[i]);
            closed = ct_walk_one(&walk, key & 1, body, index_of(e[i]));
            upper.fragment[body] = index_of(e[i]);
            upper.fragment[1 - body] = -1;
        } else {
            while (key_of(e[j]) == key) j++;
            closed = walk_group(fragments, &walk, e + i, j - i, &upper);
        }
        i = j;
        if (!closed) continue;
        int32_t z0 = add_bound(accumulator, fragments, &walk.lower, LOWER),
                z1 = add_bound(accumulator, fragments, &upper, UPPER);
        *total += z1 - z0;
        if (keep && !keep_span(scratch, budget,
                               (ct_raw_span){(int32_t)(ray % (size_t)rays->columns),
                                             rays->first_row + (int32_t)(ray / (size_t)rays->columns), z0, z1,
                                             rays->view, walk.lower.fragment[0] >= 0 ? 0 : 1}))
            return false;
    }
    return true;
}

/* ---- coarse bands (large_triangles_cpu.simd.c) ---- */

ct_large_status CT_VARIANT(ct_large_status)(ct_ray_lists *rays, const ct_window *window, const ct_bands *bands,
                                            uint32_t band, const ct_bin *bins, size_t n_bins,
                                            const uint32_t *const triangles[2], ct_contact_sums *sums,
                                            ct_span_scratch *scratch, ct_budget *budget);

#endif
