/* gather_cpu.simd.c - sums to moments, entries and barycentres on the CPU, a group of four vertices at a time. */
#include "gpu/contact/gather_cpu.h"

#include <string.h>

#include "gpu/contact/exact.h"

static_assert(CT_GROUP == 4, "a group is a vector");

/* One body's sums in one part. */
struct part {
    int64_t *plane[3];
    uint8_t *touched;
};

static inline struct part part_of(const ct_summed *s, uint32_t i) {
    const ct_sums *sums = s->parts[i];
    int64_t *const *plane = sums->gradient[s->body];
    return (struct part){{plane[0], plane[1], plane[2]}, sums->touched[s->body]};
}

/* The marks of CT_MARKED vertices, a byte for each group. */
static inline uint64_t load_marks(const struct part *p, size_t vertex) {
    uint64_t marks;
    memcpy(&marks, p->touched + vertex / CT_GROUP, sizeof marks);
    return marks;
}

static inline void store_marks(const struct part *p, size_t vertex, uint64_t marks) {
    memcpy(p->touched + vertex / CT_GROUP, &marks, sizeof marks);
}

/* The first vertex of the first group that is marked, from the marks' first. */
static inline size_t first_group(uint64_t marks) {
    return (size_t)__builtin_ctzll(marks) / 8 * CT_GROUP;
}

/* A group's sums. */
struct group {
    ct_v4l of[3];
};

static inline ct_v4l load(const int64_t *from) {
    ct_v4l x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline void store(int64_t *to, ct_v4l x) {
    memcpy(to, &x, sizeof x);
}

static inline struct group load_group(const struct part *p, size_t vertex) {
    return (struct group){{load(p->plane[0] + vertex), load(p->plane[1] + vertex), load(p->plane[2] + vertex)}};
}

static inline void clear_group(const struct part *p, size_t vertex) {
    const ct_v4l zero = {0};
    for (int w = 0; w < 3; w++) store(p->plane[w] + vertex, zero);
}

/* Lanes that have no sum. */
static inline ct_v4l is_zero(const struct group *g) {
    return (g->of[0] | g->of[1] | g->of[2]) == 0;
}

static inline void sums_of_lane(const struct group *g, int lane, int64_t sums[3]) {
    for (int w = 0; w < 3; w++) sums[w] = g->of[w][lane];
}

/* ---- parts together, and their moments ---- */

/* CT_MARKED vertices. Returns the marks of all parts. */
static uint64_t unite(const ct_summed *s, size_t vertex) {
    const struct part to = part_of(s, 0);
    const uint64_t own = load_marks(&to, vertex);
    uint64_t all = own;
    for (uint32_t i = 1; i < s->n_parts; i++) {
        const struct part from = part_of(s, i);
        const uint64_t marks = load_marks(&from, vertex);
        if (!marks) continue;
        for (uint64_t left = marks; left; left &= left - 1) {
            const size_t at = vertex + first_group(left);
            const struct group more = load_group(&from, at);
            for (int w = 0; w < 3; w++) store(to.plane[w] + at, load(to.plane[w] + at) + more.of[w]);
            clear_group(&from, at);
        }
        store_marks(&from, vertex, 0);
        all |= marks;
    }
    if (all != own) store_marks(&to, vertex, all);
    return all;
}

/* Of some groups, MOST_PRODUCTS at most. */
struct moments {
    ct_v4l force[3];
    struct product_sum moment[3][3]; /* [i][j] of coordinate i, weight j */
};

static void end_moments(ct_moments *to, struct moments *m) {
    for (int j = 0; j < 3; j++) {
        to->force[j] += sum_of_lanes(m->force[j]);
        for (int i = 0; i < 3; i++)
            if (i != j) to->moment[i][j] += sum_of_products(&m->moment[i][j]);
    }
    memset(m, 0, sizeof *m);
}

__attribute__((noinline)) static void moments_one_by_one(ct_moments *to, const ct_coords *at, const struct group *g) {
    for (int k = 0; k < CT_GROUP; k++) {
        int64_t sums[3];
        sums_of_lane(g, k, sums);
        ct_moments_add(to, at[k], sums);
    }
}

static size_t add_up(const ct_summed *s, size_t first, size_t end, ct_moments *moments) {
    const struct part sums = part_of(s, 0);
    const ct_coords *coords = s->coords;
    struct moments block;
    memset(&block, 0, sizeof block);
    ct_v4l empty = {0}; /* lanes, less than 0 */
    size_t n = 0, in_block = 0;
    for (size_t word = first; word < end; word += CT_MARKED) {
        uint64_t marks = s->n_parts > 1 ? unite(s, word) : load_marks(&sums, word);
        if (!marks) continue; /* most have none */
        const size_t groups = (size_t)__builtin_popcountll(marks);
        n += groups;
        if ((in_block += groups) > MOST_PRODUCTS) {
            end_moments(moments, &block);
            in_block = groups;
        }
        for (; marks; marks &= marks - 1) {
            const size_t vertex = word + first_group(marks);
            const struct group g = load_group(&sums, vertex);
            empty += is_zero(&g);
            if (any(beyond_range(g.of[0]) | beyond_range(g.of[1]) | beyond_range(g.of[2]))) {
                moments_one_by_one(moments, coords + vertex, &g);
                continue;
            }
            ct_lower q[3];
            lower_coords(coords + vertex, q);
            for (int j = 0; j < 3; j++) {
                const struct digits weight = digits_of(g.of[j]);
                block.force[j] += g.of[j];
                for (int i = 0; i < 3; i++)
                    if (i != j) add_products(&block.moment[i][j], weight, q[i]);
            }
        }
    }
    end_moments(moments, &block);
    return n * CT_GROUP + (size_t)sum_of_lanes(empty);
}

/* ---- entries and barycentre ---- */

struct barycentre {
    struct product_sum first[3], first_abs[3];
    ct_v4l sum, sum_abs;
};

static void end_barycentre(ct_barycentre *to, struct barycentre *b) {
    to->sum += sum_of_lanes(b->sum);
    to->sum_abs += sum_of_lanes(b->sum_abs);
    for (int i = 0; i < 3; i++) {
        to->first[i] += sum_of_products(&b->first[i]);
        to->first_abs[i] += sum_of_products(&b->first_abs[i]);
    }
    memset(b, 0, sizeof *b);
}

__attribute__((noinline)) static void barycentre_one_by_one(ct_barycentre *to, const ct_weighing *how,
                                                            const ct_coords *at, const struct group *g) {
    for (int k = 0; k < CT_GROUP; k++) {
        int64_t sums[3];
        sums_of_lane(g, k, sums);
        ct_barycentre_add(to, how->contact, how->has_normal, how->scale, &how->units, at[k], sums);
    }
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
static inline bool add_barycentre(struct barycentre *b, const ct_coords *at, ct_v4d scaled) {
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
struct places {
    size_t of[CT_GROUP], next;
};

static inline struct places places_of(size_t at, ct_v4l empty) {
    const unsigned lanes = bits(empty);
    const size_t second = at + 1 - (lanes & 1), third = second + 1 - (lanes >> 1 & 1);
    const size_t fourth = third + 1 - (lanes >> 2 & 1);
    return (struct places){{at, second, third, fourth}, fourth + 1 - (lanes >> 3)};
}

/* What is written of a group. */
struct entries {
    struct places at;
    size_t vertex;          /* the first */
    const ct_v4d *gradient; /* [3] */
    ct_v4d weight;
    double pressure;
};

static inline void put_rows(double *to, const struct places *at, const ct_v4d g[3]) {
    typedef double v2d __attribute__((vector_size(16)));
    const ct_v4d even = __builtin_shufflevector(g[0], g[1], 0, 4, 2, 6); /* x0 y0 x2 y2 */
    const ct_v4d odd = __builtin_shufflevector(g[0], g[1], 1, 5, 3, 7);
    const v2d xy[CT_GROUP] = {__builtin_shufflevector(even, even, 0, 1), __builtin_shufflevector(odd, odd, 0, 1),
                              __builtin_shufflevector(even, even, 2, 3), __builtin_shufflevector(odd, odd, 2, 3)};
    for (int k = 0; k < CT_GROUP; k++) {
        memcpy(to + 3 * at->of[k], &xy[k], sizeof xy[k]);
        to[3 * at->of[k] + 2] = g[2][k];
    }
}

/* May write CT_GROUP rows, however many entries there are. */
static inline void put_entries(const ct_arrays *to, const struct entries *e) {
    for (size_t k = 0; k < CT_GROUP; k++) to->vertices[e->at.of[k]] = (uint32_t)(e->vertex + k);
    if (to->gradient) put_rows(to->gradient, &e->at, e->gradient);
    for (int k = 0; k < CT_GROUP && to->weights; k++) to->weights[e->at.of[k]] = e->weight[k];
    if (to->forces) {
        const ct_v4d force[3] = {e->gradient[0] * e->pressure, e->gradient[1] * e->pressure,
                                 e->gradient[2] * e->pressure};
        put_rows(to->forces, &e->at, force);
    }
}

/* Writes the entries alone, where others' rows come after them. */
__attribute__((noinline)) static void put_last_entries(const ct_arrays *to, const struct entries *entries) {
    enum { ROWS = CT_GROUP + 1 };
    uint32_t vertices[ROWS];
    double gradient[3 * ROWS], weights[ROWS], forces[3 * ROWS];
    const ct_arrays here = {vertices, to->gradient ? gradient : NULL, to->weights ? weights : NULL,
                            to->forces ? forces : NULL};
    struct entries e = *entries;
    const size_t first = e.at.of[0], n = e.at.next - first;
    for (int k = 0; k < CT_GROUP; k++) e.at.of[k] -= first;
    put_entries(&here, &e);
    memcpy(to->vertices + first, vertices, n * sizeof *vertices);
    if (to->gradient) memcpy(to->gradient + 3 * first, gradient, 3 * n * sizeof *gradient);
    if (to->weights) memcpy(to->weights + first, weights, n * sizeof *weights);
    if (to->forces) memcpy(to->forces + 3 * first, forces, 3 * n * sizeof *forces);
}

static void take(const ct_summed *s, size_t first, size_t end, const ct_weighing *how, ct_barycentre *barycentre,
                 const ct_arrays *to, size_t at, size_t count) {
    /* Copies, so that no store can change them. */
    const struct part sums = part_of(s, 0);
    const ct_coords *coords = s->coords;
    const ct_arrays out = *to;
    const ct_weight_units units = how->units;
    const double *const normal = how->contact->normal, nx = normal[0], ny = normal[1], nz = normal[2];
    const double scale = how->scale, pressure = how->pressure;
    const int has_normal = how->has_normal;
    const size_t last = at + count;
    struct barycentre block;
    memset(&block, 0, sizeof block);
    size_t in_block = 0;
    for (size_t word = first; word < end; word += CT_MARKED) {
        uint64_t marks = load_marks(&sums, word);
        if (!marks) continue;
        const size_t groups = (size_t)__builtin_popcountll(marks);
        if ((in_block += groups) > MOST_PRODUCTS) {
            end_barycentre(barycentre, &block);
            in_block = groups;
        }
        for (; marks; marks &= marks - 1) {
            const size_t vertex = word + first_group(marks);
            const struct group sum = load_group(&sums, vertex);
            clear_group(&sums, vertex);
            ct_v4d g[3];
            for (int w = 0; w < 3; w++) g[w] = int64_to_double(sum.of[w]) * units.of[w];
            const ct_v4d weight = g[0] * nx + g[1] * ny + g[2] * nz;
            const ct_v4d counts = has_normal ? weight : sizes(g[0]) + sizes(g[1]) + sizes(g[2]);
            if (!add_barycentre(&block, coords + vertex, counts * scale))
                barycentre_one_by_one(barycentre, how, coords + vertex, &sum);
            if (!out.vertices) continue;
            const struct entries e = {places_of(at, is_zero(&sum)), vertex, g, weight, pressure};
            if (at + CT_GROUP <= last)
                put_entries(&out, &e);
            else
                put_last_entries(&out, &e);
            at = e.at.next;
        }
        store_marks(&sums, word, 0);
    }
    end_barycentre(barycentre, &block);
}

const ct_gather_cpu CT_VARIANT(ct_gather_cpu) = {add_up, take};
