/* compact_lanes.h - what is made of a group's sums, its four vertices at a time; for compact_cpu.simd.c with AVX2. */
#ifndef CT_COMPACT_LANES_H
#define CT_COMPACT_LANES_H

#ifdef __AVX2__

#include "gpu/contact/compact_part.h"
#include "gpu/contact/wide_sums.h"

static_assert(CT_VERTEX_GROUP == 4, "a group is a vector");

static inline ct_v4l load(const int64_t *from) {
    ct_v4l x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* ---- moments ---- */

/* Sums of some groups, MOST_PRODUCTS at most since they went to where they belong. */
struct moments_block {
    ct_v4l force[3];
    struct product_sum moment[3][3]; /* [i][j] of coordinate i, weight j */
    size_t groups, all_groups;
    ct_v4l empty; /* vertices of these without a sum, less than 0 */
};

static void flush_moments(struct moments_block *block, ct_moments *to) {
    for (int j = 0; j < 3; j++) {
        to->force[j] += sum_of_lanes(block->force[j]);
        for (int i = 0; i < 3; i++)
            if (i != j) to->moment[i][j] += sum_of_products(&block->moment[i][j]);
    }
    memset(block->force, 0, sizeof block->force);
    memset(block->moment, 0, sizeof block->moment);
    block->groups = 0;
}

/* Before so many groups are added. */
static inline void reserve_moments(struct moments_block *block, ct_moments *to, size_t groups) {
    if (block->groups + groups > MOST_PRODUCTS) flush_moments(block, to);
    block->groups += groups;
    block->all_groups += groups;
}

__attribute__((noinline)) static void moments_one_by_one(ct_moments *to, const struct part *sums,
                                                         const ct_coords *coords, size_t vertex) {
    int64_t of[3];
    for (size_t v = vertex; v < vertex + CT_VERTEX_GROUP; v++)
        if (load_sums(sums, v, of)) ct_moments_add(to, coords[v], of);
}

static inline void add_group(struct moments_block *block, ct_moments *to, const struct part *sums,
                             const ct_coords *coords, size_t vertex) {
    const ct_v4l g[3] = {load(sums->plane[0] + vertex), load(sums->plane[1] + vertex), load(sums->plane[2] + vertex)};
    block->empty += (g[0] | g[1] | g[2]) == 0;
    if (any(beyond_range(g[0]) | beyond_range(g[1]) | beyond_range(g[2]))) {
        moments_one_by_one(to, sums, coords, vertex);
        return;
    }
    ct_lower q[3];
    lower_coords(coords + vertex, q);
    for (int j = 0; j < 3; j++) {
        const struct digits weight = digits_of(g[j]);
        block->force[j] += g[j];
        for (int i = 0; i < 3; i++)
            if (i != j) add_products(&block->moment[i][j], weight, q[i]);
    }
}

/* Returns the number of vertices that have a sum. */
static inline size_t end_moments(struct moments_block *block, ct_moments *to) {
    flush_moments(block, to);
    return block->all_groups * CT_VERTEX_GROUP + (size_t)sum_of_lanes(block->empty);
}

/* ---- entries and barycentre ---- */

struct barycentre_block {
    struct product_sum first[3], first_abs[3];
    ct_v4l sum, sum_abs;
    size_t groups;
};

static void end_barycentre(struct barycentre_block *block, ct_barycentre *to) {
    to->sum += sum_of_lanes(block->sum);
    to->sum_abs += sum_of_lanes(block->sum_abs);
    for (int i = 0; i < 3; i++) {
        to->first[i] += sum_of_products(&block->first[i]);
        to->first_abs[i] += sum_of_products(&block->first_abs[i]);
    }
    memset(block, 0, sizeof *block);
}

static inline void reserve_barycentre(struct barycentre_block *block, ct_barycentre *to, size_t groups) {
    if (block->groups + groups > MOST_PRODUCTS) end_barycentre(block, to);
    block->groups += groups;
}

__attribute__((noinline)) static void barycentre_one_by_one(const struct entry_writer *t, size_t vertex) {
    const ct_entry_scaling *how = t->how;
    int64_t of[3];
    for (size_t v = vertex; v < vertex + CT_VERTEX_GROUP; v++)
        if (load_sums(&t->sums, v, of))
            ct_barycentre_add(t->barycentre, how->contact, how->has_normal, how->scale, &how->units, t->coords[v], of);
}

/* llrint, where that is in the range; out of it where that is. */
static inline ct_v4l rounded(ct_v4d x) {
    const ct_v4d magic = {CT_ROUND_MAGIC, CT_ROUND_MAGIC, CT_ROUND_MAGIC, CT_ROUND_MAGIC};
    return (ct_v4l)((ct_v4u)(x + magic) - (ct_v4u)magic);
}

static inline ct_v4d sizes(ct_v4d x) {
    return (ct_v4d)((ct_v4u)x & INT64_MAX);
}

/* False: some weight is out of the range. */
static inline bool add_barycentre(struct barycentre_block *b, const ct_coords *at, ct_v4d scaled) {
    const ct_v4l weight = rounded(scaled);
    if (any(beyond_range(weight))) return false;
    const ct_v4l sign = weight < 0, size = (weight ^ sign) - sign;
    const struct digits of_weight = digits_of(weight), of_size = digits_of(size);
    ct_lower q[3];
    lower_coords(at, q);
    b->sum += weight;
    b->sum_abs += size;
    for (int i = 0; i < 3; i++) {
        add_products(&b->first[i], of_weight, q[i]);
        add_products(&b->first_abs[i], of_size, q[i]);
    }
    return true;
}

/* Where a group's entries go: those of lanes that have none where the next one's will be. */
struct entry_rows {
    size_t of[CT_VERTEX_GROUP], next;
};

static inline struct entry_rows entry_rows_of(size_t at, ct_v4l empty) {
    const unsigned lanes = bits(empty);
    const size_t second = at + 1 - (lanes & 1), third = second + 1 - (lanes >> 1 & 1);
    const size_t fourth = third + 1 - (lanes >> 2 & 1);
    return (struct entry_rows){{at, second, third, fourth}, fourth + 1 - (lanes >> 3)};
}

/* What is written of a group. */
struct entries {
    struct entry_rows at;
    size_t vertex;          /* the first */
    const ct_v4d *gradient; /* [3] */
    ct_v4d weight;
    double pressure;
};

static inline void store_rows(double *to, const struct entry_rows *at, const ct_v4d g[3]) {
    typedef double v2d __attribute__((vector_size(16)));
    const ct_v4d even = __builtin_shufflevector(g[0], g[1], 0, 4, 2, 6); /* x0 y0 x2 y2 */
    const ct_v4d odd = __builtin_shufflevector(g[0], g[1], 1, 5, 3, 7);
    const v2d xy[CT_VERTEX_GROUP] = {__builtin_shufflevector(even, even, 0, 1), __builtin_shufflevector(odd, odd, 0, 1),
                                     __builtin_shufflevector(even, even, 2, 3),
                                     __builtin_shufflevector(odd, odd, 2, 3)};
    for (int k = 0; k < CT_VERTEX_GROUP; k++) {
        memcpy(to + 3 * at->of[k], &xy[k], sizeof xy[k]);
        to[3 * at->of[k] + 2] = g[2][k];
    }
}

/* May write CT_VERTEX_GROUP rows, however many entries there are. */
static inline void store_entries(const ct_entry_arrays *to, const struct entries *e) {
    for (size_t k = 0; k < CT_VERTEX_GROUP; k++) to->vertices[e->at.of[k]] = (uint32_t)(e->vertex + k);
    if (to->gradient) store_rows(to->gradient, &e->at, e->gradient);
    for (int k = 0; k < CT_VERTEX_GROUP && to->weights; k++) to->weights[e->at.of[k]] = e->weight[k];
    if (to->forces) {
        const ct_v4d force[3] = {e->gradient[0] * e->pressure, e->gradient[1] * e->pressure,
                                 e->gradient[2] * e->pressure};
        store_rows(to->forces, &e->at, force);
    }
}

/* Writes the entries alone, where others' rows come after them. */
__attribute__((noinline)) static void store_last_entries(const ct_entry_arrays *to, const struct entries *entries) {
    enum { ROWS = CT_VERTEX_GROUP + 1 };
    uint32_t vertices[ROWS];
    double gradient[3 * ROWS], weights[ROWS], forces[3 * ROWS];
    const ct_entry_arrays here = {vertices, to->gradient ? gradient : NULL, to->weights ? weights : NULL,
                                  to->forces ? forces : NULL};
    struct entries e = *entries;
    const size_t first = e.at.of[0], n = e.at.next - first;
    for (int k = 0; k < CT_VERTEX_GROUP; k++) e.at.of[k] -= first;
    store_entries(&here, &e);
    memcpy(to->vertices + first, vertices, n * sizeof *vertices);
    if (to->gradient) memcpy(to->gradient + 3 * first, gradient, 3 * n * sizeof *gradient);
    if (to->weights) memcpy(to->weights + first, weights, n * sizeof *weights);
    if (to->forces) memcpy(to->forces + 3 * first, forces, 3 * n * sizeof *forces);
}

static inline void write_group_entries(struct barycentre_block *block, struct entry_writer *t, size_t vertex) {
    const ct_entry_scaling *how = t->how;
    const double *n = how->contact->normal, *units = how->units.of;
    int64_t *const *plane = t->sums.plane;
    const ct_v4l sums[3] = {load(plane[0] + vertex), load(plane[1] + vertex), load(plane[2] + vertex)};
    const ct_v4d g[3] = {int64_to_double(sums[0]) * units[0], int64_to_double(sums[1]) * units[1],
                         int64_to_double(sums[2]) * units[2]};
    const ct_v4d weight = g[0] * n[0] + g[1] * n[1] + g[2] * n[2];
    const ct_v4d counts = how->has_normal ? weight : sizes(g[0]) + sizes(g[1]) + sizes(g[2]);
    if (!add_barycentre(block, t->coords + vertex, counts * how->scale)) barycentre_one_by_one(t, vertex);
    clear_group(&t->sums, vertex);
    if (!t->to.vertices) return;
    const ct_v4l empty = (sums[0] | sums[1] | sums[2]) == 0;
    const struct entries e = {entry_rows_of(t->at, empty), vertex, g, weight, how->pressure};
    if (t->at + CT_VERTEX_GROUP <= t->last)
        store_entries(&t->to, &e);
    else
        store_last_entries(&t->to, &e);
    t->at = e.at.next;
}

#endif

#endif
