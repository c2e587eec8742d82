/* compact_avx2.inl - moments, entries and barycentre of a group, one vertex per SIMD lane; for compact_cpu.simd.c with
 * AVX2. compact_scalar.inl has the same functions.
 *
 * wide_sums.h bounds how many groups can be summed before its 64-bit lanes overflow; a block is flushed into 128-bit
 * sums before that. */
#include "gpu/contact/wide_sums.h"

static_assert(CT_VERTEX_GROUP == 4, "a group is a vector");

static inline ct_v4l load_group(const int64_t *from) {
    ct_v4l x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* ---- moments ---- */

struct moments_block {
    ct_v4l force[3];
    struct product_sum moment[3][3]; /* [i][j]: coordinate i times sum j */
    size_t groups;                   /* since the last flush, at most MAX_PRODUCTS */
    size_t all_groups;
    ct_v4l minus_empty; /* per lane, minus the number of vertices whose sums are zero */
};

static void flush_moments(struct moments_block *block, ct_moments *to) {
    for (int j = 0; j < 3; j++) {
        to->force[j] += sum_lanes(block->force[j]);
        for (int i = 0; i < 3; i++)
            if (i != j) to->moment[i][j] += sum_products(&block->moment[i][j]);
    }
    memset(block->force, 0, sizeof block->force);
    memset(block->moment, 0, sizeof block->moment);
    block->groups = 0;
}

/* Call it before `groups` groups are added. */
static inline void reserve_moments(struct moments_block *block, ct_moments *to, size_t groups) {
    if (block->groups + groups > MAX_PRODUCTS) flush_moments(block, to);
    block->groups += groups;
    block->all_groups += groups;
}

__attribute__((noinline)) static void add_group_scalar(ct_moments *to, const struct body_sums *sums,
                                                       const ct_coords *coords, size_t vertex) {
    int64_t of_vertex[3];
    for (size_t v = vertex; v < vertex + CT_VERTEX_GROUP; v++)
        if (load_sums(sums, v, of_vertex)) ct_moments_add(to, coords[v], of_vertex);
}

static inline void add_group(struct moments_block *block, ct_moments *to, const struct body_sums *sums,
                             const ct_coords *coords, size_t vertex) {
    const ct_v4l g[3] = {load_group(sums->plane[0] + vertex), load_group(sums->plane[1] + vertex),
                         load_group(sums->plane[2] + vertex)};
    block->minus_empty += (g[0] | g[1] | g[2]) == 0;
    if (any(overflow_bits(g[0]) | overflow_bits(g[1]) | overflow_bits(g[2]))) {
        add_group_scalar(to, sums, coords, vertex);
        return;
    }
    ct_low_i32 q[3];
    load_group_coords(coords + vertex, q);
    for (int j = 0; j < 3; j++) {
        const struct digits weight = digits_of(g[j]);
        block->force[j] += g[j];
        for (int i = 0; i < 3; i++)
            if (i != j) add_products(&block->moment[i][j], weight, q[i]);
    }
}

/* Returns the number of vertices whose sums are not zero. */
static inline size_t end_moments(struct moments_block *block, ct_moments *to) {
    flush_moments(block, to);
    return block->all_groups * CT_VERTEX_GROUP + (size_t)sum_lanes(block->minus_empty);
}

/* ---- barycentre ---- */

struct barycentre_block {
    struct product_sum first[3], first_abs[3];
    ct_v4l sum, sum_abs;
    size_t groups; /* since the last flush, at most MAX_PRODUCTS */
};

static void end_barycentre(struct barycentre_block *block, ct_barycentre *to) {
    to->sum += sum_lanes(block->sum);
    to->sum_abs += sum_lanes(block->sum_abs);
    for (int i = 0; i < 3; i++) {
        to->first[i] += sum_products(&block->first[i]);
        to->first_abs[i] += sum_products(&block->first_abs[i]);
    }
    memset(block, 0, sizeof *block);
}

/* Call it before `groups` groups are added. */
static inline void reserve_barycentre(struct barycentre_block *block, ct_barycentre *to, size_t groups) {
    if (block->groups + groups > MAX_PRODUCTS) end_barycentre(block, to);
    block->groups += groups;
}

__attribute__((noinline)) static void add_barycentre_scalar(const struct entry_writer *writer, size_t vertex) {
    const ct_entry_scaling *scaling = writer->scaling;
    int64_t of_vertex[3];
    for (size_t v = vertex; v < vertex + CT_VERTEX_GROUP; v++)
        if (load_sums(&writer->sums, v, of_vertex))
            ct_barycentre_add(writer->barycentre, scaling->contact, scaling->has_normal, scaling->barycentre_scale,
                              &scaling->units, writer->coords[v], of_vertex);
}

/* llrint where |x| < 2^51. For larger x the result has overflow_bits, too. */
static inline ct_v4l round_to_int64(ct_v4d x) {
    const ct_v4d magic = {CT_ROUND_MAGIC, CT_ROUND_MAGIC, CT_ROUND_MAGIC, CT_ROUND_MAGIC};
    return (ct_v4l)((ct_v4u)(x + magic) - (ct_v4u)magic);
}

static inline ct_v4d abs_v4d(ct_v4d x) {
    return (ct_v4d)((ct_v4u)x & INT64_MAX);
}

/* False: a weight has overflow_bits; nothing was added. */
static inline bool add_barycentre(struct barycentre_block *b, const ct_coords *coords, ct_v4d weights) {
    const ct_v4l weight = round_to_int64(weights);
    if (any(overflow_bits(weight))) return false;
    const ct_v4l sign = weight < 0, size = (weight ^ sign) - sign;
    const struct digits weight_digits = digits_of(weight), size_digits = digits_of(size);
    ct_low_i32 q[3];
    load_group_coords(coords, q);
    b->sum += weight;
    b->sum_abs += size;
    for (int i = 0; i < 3; i++) {
        add_products(&b->first[i], weight_digits, q[i]);
        add_products(&b->first_abs[i], size_digits, q[i]);
    }
    return true;
}

/* ---- entries ---- */

/* The index of each lane's entry. Lanes are stored in order, so a lane without an entry gets the index of the next
 * entry, which overwrites it. */
struct entry_rows {
    size_t of[CT_VERTEX_GROUP], next;
};

static inline struct entry_rows entry_rows_of(size_t at, ct_v4l is_empty) {
    const unsigned lanes = sign_bits(is_empty);
    const size_t second = at + 1 - (lanes & 1), third = second + 1 - (lanes >> 1 & 1);
    const size_t fourth = third + 1 - (lanes >> 2 & 1);
    return (struct entry_rows){{at, second, third, fourth}, fourth + 1 - (lanes >> 3)};
}

/* One group's entries. */
struct group_entries {
    struct entry_rows rows;
    size_t vertex;          /* the group's first */
    const ct_v4d *gradient; /* [3] */
    ct_v4d weight;
    double pressure;
};

static inline void store_rows(double *to, const struct entry_rows *rows, const ct_v4d g[3]) {
    typedef double v2d __attribute__((vector_size(16)));
    const ct_v4d even = __builtin_shufflevector(g[0], g[1], 0, 4, 2, 6); /* x0 y0 x2 y2 */
    const ct_v4d odd = __builtin_shufflevector(g[0], g[1], 1, 5, 3, 7);
    const v2d xy[CT_VERTEX_GROUP] = {__builtin_shufflevector(even, even, 0, 1), __builtin_shufflevector(odd, odd, 0, 1),
                                     __builtin_shufflevector(even, even, 2, 3),
                                     __builtin_shufflevector(odd, odd, 2, 3)};
    for (int k = 0; k < CT_VERTEX_GROUP; k++) {
        memcpy(to + 3 * rows->of[k], &xy[k], sizeof xy[k]);
        to[3 * rows->of[k] + 2] = g[2][k];
    }
}

/* May write up to CT_VERTEX_GROUP rows, even for fewer entries. */
static inline void store_entries(const ct_entry_arrays *to, const struct group_entries *e) {
    for (size_t k = 0; k < CT_VERTEX_GROUP; k++) to->vertices[e->rows.of[k]] = (uint32_t)(e->vertex + k);
    if (to->gradient) store_rows(to->gradient, &e->rows, e->gradient);
    for (int k = 0; k < CT_VERTEX_GROUP && to->weights; k++) to->weights[e->rows.of[k]] = e->weight[k];
    if (to->forces) {
        const ct_v4d force[3] = {e->gradient[0] * e->pressure, e->gradient[1] * e->pressure,
                                 e->gradient[2] * e->pressure};
        store_rows(to->forces, &e->rows, force);
    }
}

/* As store_entries, but writes exactly the entries: for the end of a range, behind which another thread writes. */
__attribute__((noinline)) static void store_last_entries(const ct_entry_arrays *to,
                                                         const struct group_entries *entries) {
    enum { ROWS = CT_VERTEX_GROUP + 1 };
    uint32_t vertices[ROWS];
    double gradient[3 * ROWS], weights[ROWS], forces[3 * ROWS];
    const ct_entry_arrays local = {vertices, to->gradient ? gradient : NULL, to->weights ? weights : NULL,
                                   to->forces ? forces : NULL};
    struct group_entries e = *entries;
    const size_t first = e.rows.of[0], n = e.rows.next - first;
    for (int k = 0; k < CT_VERTEX_GROUP; k++) e.rows.of[k] -= first;
    store_entries(&local, &e);
    memcpy(to->vertices + first, vertices, n * sizeof *vertices);
    if (to->gradient) memcpy(to->gradient + 3 * first, gradient, 3 * n * sizeof *gradient);
    if (to->weights) memcpy(to->weights + first, weights, n * sizeof *weights);
    if (to->forces) memcpy(to->forces + 3 * first, forces, 3 * n * sizeof *forces);
}

static inline void write_group_entries(struct barycentre_block *block, struct entry_writer *writer, size_t vertex) {
    const ct_entry_scaling *scaling = writer->scaling;
    const double *n = scaling->contact->normal, *units = scaling->units.of;
    int64_t *const *plane = writer->sums.plane;
    const ct_v4l sums[3] = {load_group(plane[0] + vertex), load_group(plane[1] + vertex),
                            load_group(plane[2] + vertex)};
    const ct_v4d g[3] = {int64_to_double(sums[0]) * units[0], int64_to_double(sums[1]) * units[1],
                         int64_to_double(sums[2]) * units[2]};
    const ct_v4d friction = g[0] * n[0] + g[1] * n[1] + g[2] * n[2];
    const ct_v4d weight = scaling->has_normal ? friction : abs_v4d(g[0]) + abs_v4d(g[1]) + abs_v4d(g[2]);
    if (!add_barycentre(block, writer->coords + vertex, weight * scaling->barycentre_scale))
        add_barycentre_scalar(writer, vertex);
    clear_group(&writer->sums, vertex);
    if (!writer->arrays.vertices) return;
    const ct_v4l is_empty = (sums[0] | sums[1] | sums[2]) == 0;
    const struct group_entries e = {entry_rows_of(writer->at, is_empty), vertex, g, friction, scaling->pressure};
    if (writer->at + CT_VERTEX_GROUP <= writer->end)
        store_entries(&writer->arrays, &e);
    else
        store_last_entries(&writer->arrays, &e);
    writer->at = e.rows.next;
}
