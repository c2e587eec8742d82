/* large_triangles_cpu.simd.c - the fast path for bins that few large triangles cover: from triangles to sums without
 * storing fragments.
 *
 * A large triangle covers a run of samples in each row, and its depth is linear along the row. The samples at which one
 * triangle lies deeper than another by more than rounding could bridge are therefore a run as well. Blocks of 4 rows x
 * 64 columns are processed together: rows are SIMD lanes, columns are bits, so "covered by this triangle" or "bounds a
 * span here" are words of bits:
 *
 *     row 0   0011111111110000        lane 0
 *     row 1   0001111111111000        lane 1       triangle 17 covers these samples of the block
 *     row 2   0000111111111100        lane 2
 *     row 3   0000011111111110        lane 3
 *
 * Samples that the comparisons do not decide are walked one by one. The sums are exactly those of the raster and span
 * stages. Only for ct_may_sum_large_triangles. */
#include "gpu/base/clock.h"
#include "gpu/methods/ldi/raster_triangle.h"
#include "gpu/methods/ldi/single_layer.h"
#include "gpu/methods/ldi/walk.h"

/* The path applies to bins of at most MAX_LARGE triangles, and of at least SAMPLES_EACH samples per triangle: below
 * that, per-triangle set-up costs more than fragments do. */
enum { MAX_LARGE = 64, SAMPLES_EACH = 16 };

/* Depths are known to 1/8 unit. If two differ by more than this, the depths rounded to units differ in the same way. */
#define APART 2.0

/* A triangle's facing is 2 * body + IN or OUT. */
enum { FACINGS = 4 };

/* One word of bits per row. */
enum { BLOCK_COLUMNS = 64 };
typedef ct_v4u samples;

/* The samples [begin, end) that a triangle covers of each of ROWS_AT_ONCE rows. */
struct cover {
    int32_t begin[ROWS_AT_ONCE], end[ROWS_AT_ONCE];
};

/* A block of ROWS_AT_ONCE x BLOCK_COLUMNS samples, and the triangles that cover any of them, sorted by facing: those of
 * facing f are [of_facing[f], of_facing[f + 1]). */
struct sample_block {
    int32_t row, column; /* its first, counted from the bin's first */
    int32_t columns;     /* inside the bin */
    uint32_t n, of_facing[FACINGS + 1];
    struct raster_triangle *triangle[MAX_LARGE];
    ct_v4d depth[MAX_LARGE]; /* at the block's first column */
    samples cover[MAX_LARGE];
    samples alone[MAX_LARGE], shared[MAX_LARGE]; /* where it bounds spans, if the sample has a span at all */
    samples covered[FACINGS];                    /* by any triangle of the facing */
    samples needs_walk;                          /* covered by several of one facing, or by one of unknown depth */
};

struct large_bin {
    struct accumulators to;
    ct_ray_lists *rays;
    ct_span_scratch *scratch;
    ct_budget *budget;
    bool has_coplanar; /* triangles of both bodies lie in one plane across the rays */
    size_t n;
    struct raster_triangle triangles[MAX_LARGE];
    struct raster_triangle *by_facing[MAX_LARGE]; /* those of facing f are [of_facing[f], of_facing[f + 1]) */
    uint32_t of_facing[FACINGS + 1];
    const struct cover *covers; /* [groups of rows][n], in the order of by_facing */
    struct sample_block block;
};

/* ---- set-up ---- */

/* False: the path does not apply. (A triangle in front of the window would have to be counted.) */
static bool add_triangle(struct large_bin *bin, const ct_window *window, const ct_snapped_body *snapped, uint32_t id) {
    const int w = bin->rays->view;
    const uint32_t *k = snapped->triangles + 3 * (size_t)id;
    const int32_t *const q[3] = {snapped->coords[k[0]], snapped->coords[k[1]], snapped->coords[k[2]]};
    if (snapped->initial[w] == CT_INITIAL_COUNTED && ct_max3(q[0][w], q[1][w], q[2][w]) < window->axis[w].lo)
        return false;
    struct raster_triangle *t = &bin->triangles[bin->n];
    enum setup_result result = setup_raster_triangle(t, q, &bin->rays->bin);
    if (result == SETUP_NOT_EXACT) return false;
    t->tag = snapped->body << 31 | id;
    t->facing = (uint8_t)(2 * snapped->body + (t->setup.ccw < 0 ? IN : OUT));
    bin->n += result == SETUP_OK;
    return true;
}

/* False: the path does not apply. */
static bool add_triangles(struct large_bin *bin, const ct_window *window, uint32_t number,
                          const ct_binned_chunk *chunks, size_t n_chunks) {
    const ct_ray_lists *rays = bin->rays;
    size_t n = 0;
    for (size_t i = 0; i < n_chunks; i++) {
        if (chunks[i].snapped->front_winding[rays->view]) return false; /* rays may begin inside */
        const uint32_t *crossing = chunks[i].crossings[rays->view].offset + (number - rays->bin.of->first);
        if (crossing[1] > crossing[0]) return false; /* small triangles cross rays of the bin */
        n += chunks[i].offset[number + 1] - chunks[i].offset[number];
    }
    if (n > MAX_LARGE || SAMPLES_EACH * n > ct_ray_count(rays)) return false;
    for (size_t i = 0; i < n_chunks; i++)
        for (uint32_t e = chunks[i].offset[number]; e < chunks[i].offset[number + 1]; e++)
            if (!add_triangle(bin, window, chunks[i].snapped, chunks[i].entries[e])) return false;
    return true;
}

/* Where both cover a sample, they bound its span together. */
static inline bool are_coplanar(const struct raster_triangle *a, const struct raster_triangle *b) {
    return a->is_flat && b->is_flat && a->depth.at == b->depth.at && (a->facing ^ b->facing) == 2;
}

static void sort_by_facing(struct large_bin *bin) {
    uint32_t n = 0;
    for (int facing = 0; facing < FACINGS; facing++) {
        bin->of_facing[facing] = n;
        for (size_t i = 0; i < bin->n; i++)
            if (bin->triangles[i].facing == facing) bin->by_facing[n++] = &bin->triangles[i];
    }
    bin->of_facing[FACINGS] = n;
    bin->has_coplanar = false;
    for (const struct raster_triangle *a = bin->triangles; a < bin->triangles + bin->n; a++)
        for (const struct raster_triangle *b = bin->triangles; b < a && a->is_flat; b++)
            bin->has_coplanar |= are_coplanar(a, b);
}

static inline bool meets_rows(const struct raster_triangle *t, int32_t row) {
    return row < t->rect.v1 && row + ROWS_AT_ONCE > t->rect.v0;
}

/* Fills bin->covers. False: out of memory. */
static bool cover_bin(struct large_bin *bin) {
    const int32_t rows = bin->rays->bin.rows;
    const size_t groups = (size_t)(rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE;
    if (!ct_buffer_reserve(&bin->scratch->covers, bin->budget, (groups * bin->n + 1) * sizeof(struct cover), 0, false))
        return false;
    struct cover *cover = bin->scratch->covers.data;
    bin->covers = cover;
    for (int32_t row = 0; row < rows; row += ROWS_AT_ONCE)
        for (size_t i = 0; i < bin->n; i++, cover++) {
            if (!meets_rows(bin->by_facing[i], row)) continue; /* never read */
            ct_v4i begin, end;
            cover_rows(bin->by_facing[i], row, &begin, &end);
            memcpy(cover->begin, &begin, sizeof begin);
            memcpy(cover->end, &end, sizeof end);
        }
    return true;
}

/* ---- rays one by one ---- */

/* False: out of memory. */
static bool walk_sample(struct large_bin *bin, int r, int bit) {
    const struct sample_block *block = &bin->block;
    const int32_t row = block->row + r, column = block->column + bit;
    ct_linked_fragment fragments[MAX_LARGE];
    uint32_t n = 0;
    for (uint32_t k = 0; k < block->n; k++) {
        if (!(block->cover[k][r] >> bit & 1)) continue;
        const struct raster_triangle *t = block->triangle[k];
        const ct_triangle_setup *s = &t->setup;
        fragments[n].f = ct_fragment_at(s, (double)(s->edge[1] + column * s->step_u[1] + row * s->step_v[1]),
                                        (double)(s->edge[2] + column * s->step_u[2] + row * s->step_v[2]), t->tag);
        fragments[n].next = n ? n - 1 : CT_END;
        n++;
    }
    uint32_t head = n - 1;
    ct_ray_lists one = *bin->rays;
    one.head = &head;
    one.fragments = fragments;
    one.winding = NULL;
    return walk_ray(&bin->to, &one, 0, CT_SPAN_OF_PAIR, bin->scratch, bin->budget);
}

static bool walk_samples(struct large_bin *bin, samples which) {
    if (!any(which)) return true;
    for (int r = 0; r < ROWS_AT_ONCE; r++)
        for (uint64_t left = which[r]; left; left &= left - 1)
            if (!walk_sample(bin, r, __builtin_ctzll(left))) return false;
    return true;
}

/* ---- triangles that cover a block ---- */

/* Samples 0 to n - 1 of each row, n <= BLOCK_COLUMNS. */
static inline samples first_samples(ct_v4i n) {
    const samples is_any = (samples)ct_v4l_of_v4i(n > 0);
    const samples dropped = (samples)ct_v4l_of_v4i((BLOCK_COLUMNS - n) & (n > 0));
    return ~(samples){0} >> dropped & is_any;
}

/* Columns of the bin as columns of the block. */
static inline ct_v4i clamp_to_block(const struct sample_block *block, const int32_t column[ROWS_AT_ONCE]) {
    ct_v4i c;
    memcpy(&c, column, sizeof c);
    return min_v4i(max_v4i(c - block->column, v4i(0)), v4i(block->columns));
}

static void cover_block(struct large_bin *bin) {
    struct sample_block *block = &bin->block;
    const struct cover *covers = bin->covers + (size_t)(block->row / ROWS_AT_ONCE) * bin->n;
    const samples none = {0};
    uint32_t n = 0;
    block->needs_walk = none;
    for (int facing = 0; facing < FACINGS; facing++) {
        samples covered = none;
        block->of_facing[facing] = n;
        for (uint32_t i = bin->of_facing[facing]; i < bin->of_facing[facing + 1]; i++) {
            struct raster_triangle *t = bin->by_facing[i];
            if (!meets_rows(t, block->row)) continue;
            const ct_v4i begin = clamp_to_block(block, covers[i].begin), end = clamp_to_block(block, covers[i].end);
            if (!sign_bits_v4i(begin < end)) continue;
            const samples cover = first_samples(end) & ~first_samples(begin);
            block->triangle[n] = t;
            block->depth[n] = linear_on_rows(t->depth, block->column, block->row);
            block->cover[n] = cover;
            block->shared[n] = none;
            block->needs_walk |= t->depth.at == t->depth.at ? covered & cover : cover;
            covered |= cover;
            n++;
        }
        block->covered[facing] = covered;
    }
    block->of_facing[FACINGS] = block->n = n;
}

static inline samples crossed_by(const struct sample_block *block, int body) {
    return block->covered[2 * body + OUT] | block->covered[2 * body + IN];
}

/* Samples whose crossings of a body make one interval: with an exit where the initial winding number follows from the
 * balance, with an entry otherwise. */
static inline samples has_interval(const struct large_bin *bin, int body) {
    return bin->block.covered[2 * body + (bin->rays->initial[body] == CT_INITIAL_FROM_BALANCE ? OUT : IN)];
}

static inline uint32_t count(samples s) {
    return (uint32_t)(__builtin_popcountll(s[0]) + __builtin_popcountll(s[1]) + __builtin_popcountll(s[2]) +
                      __builtin_popcountll(s[3]));
}

/* The fragments that the raster stage would have kept: the second body's only on rays that cross the first. */
static inline uint32_t count_fragments(const struct large_bin *bin) {
    const struct sample_block *block = &bin->block;
    const samples kept = crossed_by(block, bin->rays->first_body);
    uint32_t n = 0;
    if (any(block->needs_walk))
        for (uint32_t k = 0; k < block->n; k++) n += count(block->cover[k] & kept);
    else
        for (int facing = 0; facing < FACINGS; facing++) n += count(block->covered[facing] & kept);
    return n;
}

/* ---- which triangles bound ---- */

/* Where one triangle lies certainly deeper along the rays than another, and where certainly less deep. */
struct order {
    samples deeper, shallower;
};

/* Where the difference of depths a + slope * column, slope >= 0, is above APART, and where it is below -APART. */
static inline struct order order_of(ct_v4d a, double slope) {
    const ct_v4d inverse = v4d(1 / slope);
    ct_v4d above = (APART - a) * inverse + 1, below = (-APART - a) * inverse + 1;
    above = min_v4d(max_v4d(above, v4d(0)), v4d(BLOCK_COLUMNS));
    below = min_v4d(max_v4d(below, v4d(0)), v4d(BLOCK_COLUMNS));
    return (struct order){~first_samples(ct_v4i_of_v4d(above)), first_samples(ct_v4i_of_v4d(below))};
}

static inline struct order compare_depths(const struct sample_block *block, uint32_t a, uint32_t b) {
    const ct_v4d depth = block->depth[a] - block->depth[b];
    const double slope = block->triangle[a]->depth.du - block->triangle[b]->depth.du;
    if (slope >= 0) return order_of(depth, fabs(slope)); /* fabs: -0.0 would change the sign of the quotients */
    struct order o = order_of(-depth, -slope);
    return (struct order){o.shallower, o.deeper};
}

/* Finds the triangles of both bodies that bound spans from one side (way: IN or OUT), for samples in `live`. */
static inline void find_bounds(struct large_bin *bin, int way, samples live) {
    struct sample_block *block = &bin->block;
    const samples lone[2] = {live & ~block->covered[2 + way], live & ~block->covered[way]};
    for (int body = 0; body < 2; body++)
        for (uint32_t k = block->of_facing[2 * body + way]; k < block->of_facing[2 * body + way + 1]; k++)
            block->alone[k] = block->cover[k] & lone[body];
    for (uint32_t a = block->of_facing[way]; a < block->of_facing[way + 1]; a++)
        for (uint32_t b = block->of_facing[2 + way]; b < block->of_facing[2 + way + 1]; b++) {
            const samples both = block->cover[a] & block->cover[b] & live;
            if (!any(both)) continue;
            const struct order o = compare_depths(block, a, b);
            block->alone[a] |= both & (way == IN ? o.deeper : o.shallower);
            block->alone[b] |= both & (way == IN ? o.shallower : o.deeper);
            if (bin->has_coplanar && are_coplanar(block->triangle[a], block->triangle[b])) {
                block->shared[a] |= both;
                block->shared[b] |= both;
            }
        }
}

/* Between the bounds of these facings: where there is a span (deeper), and where there is none (shallower). */
static inline void find_spans(const struct sample_block *block, int in_facing, int out_facing, struct order *spans) {
    for (uint32_t in = block->of_facing[in_facing]; in < block->of_facing[in_facing + 1]; in++) {
        const samples lower = block->alone[in] | block->shared[in];
        if (!any(lower)) continue;
        for (uint32_t out = block->of_facing[out_facing]; out < block->of_facing[out_facing + 1]; out++) {
            const samples both = lower & (block->alone[out] | block->shared[out]);
            if (!any(both)) continue;
            const struct order o = compare_depths(block, out, in);
            spans->deeper |= both & o.deeper;
            spans->shallower |= both & o.shallower;
        }
    }
}

/* Of samples without a span, those on which a body may be inside out: not certainly entered before it is left. */
static inline samples may_be_inverted(const struct sample_block *block, int body, samples without_span) {
    samples left = without_span & block->covered[2 * body + IN] & block->covered[2 * body + OUT];
    if (!any(left)) return left;
    for (uint32_t in = block->of_facing[2 * body + IN]; in < block->of_facing[2 * body + IN + 1]; in++)
        for (uint32_t out = block->of_facing[2 * body + OUT]; out < block->of_facing[2 * body + OUT + 1]; out++) {
            const samples both = block->cover[in] & block->cover[out] & left;
            if (any(both)) left &= ~(both & compare_depths(block, out, in).deeper);
        }
    return left;
}

/* Not inlined: rarely needed, and it would push hot code out of the instruction cache. */
__attribute__((noinline)) static void sum_shared_bounds(const struct sample_block *block, samples spans) {
    for (uint32_t k = 0; k < block->n; k++) {
        struct raster_triangle *t = block->triangle[k];
        sum_rows(&t->shared, t, block->row, block->column, block->shared[k] & spans, 1);
    }
}

static bool walk_block(struct large_bin *bin) {
    struct sample_block *block = &bin->block;
    cover_block(bin);
    bin->rays->n_fragments += count_fragments(bin);
    const samples both = crossed_by(block, 0) & crossed_by(block, 1);
    const samples live = both & has_interval(bin, 0) & has_interval(bin, 1) & ~block->needs_walk;
    samples undecided = both & ~live;
    if (any(live)) {
        find_bounds(bin, OUT, live);
        find_bounds(bin, IN, live);
        struct order spans = {{0}, {0}};
        for (int body = 0; body < 2; body++) {
            find_spans(block, 2 * body + IN, OUT, &spans);
            find_spans(block, 2 * body + IN, 2 + OUT, &spans);
        }
        undecided |= live & ~(spans.deeper | spans.shallower);
        for (int body = 0; body < 2; body++) undecided |= may_be_inverted(block, body, live & ~spans.deeper);
        for (uint32_t k = 0; k < block->n; k++) {
            struct raster_triangle *t = block->triangle[k];
            sum_rows(&t->alone, t, block->row, block->column, block->alone[k] & spans.deeper, 0);
        }
        if (bin->has_coplanar) sum_shared_bounds(block, spans.deeper);
    }
    return walk_samples(bin, undecided);
}

static bool walk_bin(struct large_bin *bin) {
    const ct_bin *extent = &bin->rays->bin;
    struct sample_block *block = &bin->block;
    for (block->row = 0; block->row < extent->rows; block->row += ROWS_AT_ONCE)
        for (block->column = 0; block->column < extent->columns; block->column += BLOCK_COLUMNS) {
            const int32_t left = extent->columns - block->column;
            block->columns = left < BLOCK_COLUMNS ? left : BLOCK_COLUMNS;
            if (!walk_block(bin)) return false;
        }
    return true;
}

/* Adds the triangles' sums to the accumulators. */
static void flush_sums(struct large_bin *bin) {
    for (size_t i = 0; i < bin->n; i++) {
        const struct raster_triangle *t = &bin->triangles[i];
        const int side = t->facing & IN ? LOWER : UPPER, body = t->facing / 2;
        for (int is_shared = 0; is_shared < 2; is_shared++) {
            const struct bound_sums *sums = is_shared ? &t->shared : &t->alone;
            const int kind = is_shared ? HALF + body : ALONE;
            if (!sums->n) continue;
            int64_t depth = sums->n * t->setup.z0 + bound_sum(sums->n, sums->depth, 0);
            if (is_shared && body == 1) depth = 0; /* a shared bound counts once */
            bin->to.length += side == UPPER ? depth : -depth;
            if (side == UPPER && !(is_shared && body == 1)) bin->to.n_spans += sums->n;
            add_bounds(&bin->to.gradient, t->tag, side, kind, sums->n, bound_sum(sums->n, sums->l1, is_shared),
                       bound_sum(sums->n, sums->l2, is_shared));
        }
    }
}

ct_large_status CT_VARIANT(ct_large_triangles)(ct_ray_lists *rays, const ct_window *window, const ct_bin_plan *plan,
                                               uint32_t number, const ct_binned_chunk *chunks, size_t n_chunks,
                                               const ct_span_options *options, ct_contact_sums *sums,
                                               ct_span_scratch *scratch, ct_budget *budget, double *rastered_at) {
    ct_ray_lists_begin(rays, plan, number, chunks, n_chunks);
    struct large_bin bin;
    bin.rays = rays;
    bin.scratch = scratch;
    bin.budget = budget;
    bin.n = 0;
    if (!add_triangles(&bin, window, number, chunks, n_chunks)) return CT_LARGE_NOT_APPLICABLE;
    sort_by_facing(&bin);
    if (!cover_bin(&bin) || !ct_buffer_reserve(&scratch->ray, budget, RAY_BYTES, 0, false)) return CT_LARGE_FAILED;
    *rastered_at = ct_now();
    begin_accumulating(&bin.to, rays, options, sums, scratch, budget);
    rays->n_fragments = 0;
    const bool ok = walk_bin(&bin);
    flush_sums(&bin);
    return end_accumulating(&bin.to, rays, options, sums) && ok ? CT_LARGE_DONE : CT_LARGE_FAILED;
}
