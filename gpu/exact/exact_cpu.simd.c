/* exact_cpu.simd.c - the kernels of the method `exact`, compiled once per instruction set: places clusters of triangles
 * (place_lanes.h), crosses those of two clusters (cross_lanes.h), and adds up volume and gradient. */
#include "gpu/base/cancel.h"
#include "gpu/exact/cross_lanes.h"
#include "gpu/exact/place_lanes.h"

/* ---- two clusters ---- */

/* The loops below have as many turns as there is work: what is left out makes lists shorter, so that hardly a branch
 * depends on it. */

/* Two blocks with triangles that may cross, a bit each. Of the shorter list, each is held against the eight of the
 * other block. */
struct block_pair {
    uint8_t swaps; /* 1: the one is of b */
    uint8_t one, eight, ones, others;
};

/* A triangle, by its number in the block order, and the bits of others in a block. */
struct row {
    uint8_t swaps, triangle, eight, others;
};

struct block_pairs {
    uint32_t n, n_ones;
    struct block_pair list[BLOCK_PAIRS + 1]; /* one more than are used */
};

/* found: the triangles of either block that overlap the other one's box. */
static inline void add_block_pair(struct block_pairs *pairs, const uint32_t block[2], const uint32_t found[2]) {
    const uint32_t n[2] = {count_bits8(found[0]), count_bits8(found[1])}, swaps = n[1] < n[0];
    pairs->list[pairs->n] = (struct block_pair){.swaps = (uint8_t)swaps,
                                                .one = (uint8_t)block[swaps],
                                                .eight = (uint8_t)block[1 - swaps],
                                                .ones = (uint8_t)found[swaps],
                                                .others = (uint8_t)found[1 - swaps]};
    pairs->n += n[swaps] > 0;
    pairs->n_ones += n[swaps];
}

/* Lists the triangles with others whose boxes they overlap. Returns their number. used: bits of both clusters' blocks
 * in the rows. */
static inline uint32_t list_rows(const ct_triangle_floats *const floats[2], const struct block_pairs *pairs,
                                 struct row *rows, uint32_t used[2]) {
    uint32_t n = 0, at = 0, ones = pairs->list[0].ones;
    used[0] = used[1] = 0;
    for (uint32_t i = 0; i < pairs->n_ones; i++) {
        const struct block_pair *p = &pairs->list[at];
        const ct_triangle_floats *one = floats[p->swaps];
        const uint32_t t = CT_EXACT_BLOCK * p->one + (uint32_t)__builtin_ctz(ones);
        const float lo[3] = {one->box[0][t], one->box[1][t], one->box[2][t]};
        const float hi[3] = {one->box[3][t], one->box[4][t], one->box[5][t]};
        const uint32_t others = overlapping_triangles(floats[1 - p->swaps], p->eight, lo, hi) & p->others;
        rows[n] = (struct row){p->swaps, (uint8_t)t, p->eight, (uint8_t)others};
        n += others != 0;
        used[p->swaps] |= (uint32_t)(others != 0) << p->one;
        used[1 - p->swaps] |= (uint32_t)(others != 0) << p->eight;
        ones &= ones - 1;
        const uint32_t is_last = ones == 0;
        at += is_last;
        ones |= pairs->list[at].ones & (0 - is_last); /* not a choice, which would become a branch */
    }
    return n;
}

/* Keeps of the rows what planes do not separate. Returns the number of rows left. */
static inline uint32_t separate_rows(const ct_triangle_floats *const floats[2], struct row *rows, uint32_t n_rows,
                                     float margin, uint32_t *n_pairs) {
    uint32_t n = 0, sum = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        struct row row = rows[i];
        row.others &= (uint8_t)not_separated(floats[1 - row.swaps], row.eight, floats[row.swaps], row.triangle, margin);
        rows[n] = row;
        n += row.others != 0;
        sum += count_bits8(row.others);
    }
    *n_pairs = sum;
    return n;
}

/* chooses: a constant where this is inlined. */
static inline __attribute__((always_inline)) void queue_rows(struct pair_queue *queue, const struct row *rows,
                                                             uint32_t n_pairs, bool chooses) {
    const uint8_t *const order[2] = {queue->a->block_order, queue->b->block_order};
    uint32_t at = 0, others = rows[0].others, n = queue->n;
    for (uint32_t i = 0; i < n_pairs; i++) {
        const uint32_t t = rows[at].triangle, u = CT_EXACT_BLOCK * rows[at].eight + (uint32_t)__builtin_ctz(others);
        const uint32_t swaps = rows[at].swaps;
        queue->triangle[swaps][n] = order[swaps][t];
        queue->triangle[1 - swaps][n] = order[1 - swaps][u];
        if (!chooses || is_wanted(queue, queue->triangle[0][n], queue->triangle[1][n])) n++;
        others &= others - 1;
        const uint32_t is_last = others == 0;
        at += is_last;
        others |= rows[at].others & (0 - is_last);
    }
    queue->n = n;
}

/* Fills the planes of these blocks, where they are not yet. */
static inline void prepare_planes(struct pair_queue *queue, const uint32_t blocks[2]) {
    const ct_placed_cluster *const clusters[2] = {queue->a, queue->b};
    for (int s = 0; s < 2; s++) {
        const uint32_t missing = blocks[s] & ~clusters[s]->floats->has_planes;
        if (missing) fill_planes(clusters[s], missing);
    }
    queue->has_narrow = may_have_narrow(queue->a) || may_have_narrow(queue->b);
}

/* Apart, so that it takes no registers from the usual case. */
static __attribute__((noinline)) void queue_chosen_rows(struct pair_queue *queue, const struct row *rows,
                                                        uint32_t n_pairs) {
    queue_rows(queue, rows, n_pairs, true);
}

static void cross_block_pairs(struct pair_queue *queue, struct block_pairs *pairs, float margin) {
    const ct_triangle_floats *const floats[2] = {queue->a->floats, queue->b->floats};
    struct row rows[BLOCK_PAIRS * CT_EXACT_BLOCK + 1];
    uint32_t n_pairs, used[2];
    pairs->list[pairs->n].ones = 0;
    uint32_t n = list_rows(floats, pairs, rows, used);
    prepare_planes(queue, used);
    n = separate_rows(floats, rows, n, margin, &n_pairs);
    rows[n].others = 0;
    const uint32_t n_before = queue->n;
    if (queue->chooses)
        queue_chosen_rows(queue, rows, n_pairs);
    else
        queue_rows(queue, rows, n_pairs, false);
    queue->lists->n_looked_at += queue->n - n_before;
    pairs->n = pairs->n_ones = 0;
    uint32_t at = 0;
    for (; at + 4 <= queue->n; at += 4) cross_queue(queue, at, 4);
    queue->n -= at;
    for (uint32_t i = 0; i < queue->n; i++)
        for (int s = 0; s < 2; s++) queue->triangle[s][i] = queue->triangle[s][at + i];
}

static inline void load_block(const ct_triangle_floats *f, uint32_t block, float lo[3], float hi[3]) {
    for (int k = 0; k < 3; k++) {
        lo[k] = f->block[k][block];
        hi[k] = f->block[3 + k][block];
    }
}

/* Triangles whose planes come near the other cluster, a bit each, by their blocks, and the blocks with any. */
struct near_triangles {
    uint8_t of[2][CT_EXACT_BLOCKS];
    uint32_t blocks[2];
};

static void find_near_triangles(struct pair_queue *queue, float margin, struct near_triangles *near) {
    const ct_placed_cluster *const clusters[2] = {queue->a, queue->b};
    prepare_planes(queue, (const uint32_t[2]){queue->a->blocks, queue->b->blocks});
    for (int s = 0; s < 2; s++) {
        const ct_turned_box box = turned_box_of(clusters[1 - s]);
        near->blocks[s] = 0;
        memset(near->of[s], 0, sizeof near->of[s]);
        for (uint32_t left = clusters[s]->blocks; left; left &= left - 1) {
            const uint32_t block = (uint32_t)__builtin_ctz(left);
            near->of[s][block] = (uint8_t)meeting_box(clusters[s]->floats, block, &box, margin);
            near->blocks[s] |= (uint32_t)(near->of[s][block] != 0) << block;
        }
    }
}

static void drop_far_triangles(struct block_pairs *pairs, const struct near_triangles *near) {
    const uint32_t n = pairs->n;
    pairs->n = pairs->n_ones = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct block_pair p = pairs->list[i];
        uint32_t block[2], found[2];
        block[p.swaps] = p.one;
        block[1 - p.swaps] = p.eight;
        found[p.swaps] = p.ones & near->of[p.swaps][p.one];
        found[1 - p.swaps] = p.others & near->of[1 - p.swaps][p.eight];
        add_block_pair(pairs, block, found);
    }
}

/* Of the most that BLOCK_PAIRS may have, 256: so many triangles overlap other blocks that boxes leave out hardly any.
 */
enum { MANY_ONES = 192 };

static void cross(const ct_placed_cluster *a, const ct_placed_cluster *b, int moved, ct_budget *budget,
                  ct_crossing_lists *lists) {
    for (int k = 0; k < 3; k++)
        if (a->lo[k] > b->hi[k] || b->lo[k] > a->hi[k]) return;
    const float margin = plane_margin(a, b);
    const ct_triangle_floats *fa = a->floats, *fb = b->floats;
    uint32_t blocks_b = overlapping_blocks(fb->block, a->lo, a->hi);
    if (!blocks_b) return;
    struct pair_queue queue;
    struct block_pairs pairs;
    struct near_triangles near;
    bool has_near = false;
    queue.a = a;
    queue.b = b;
    queue.moved = moved;
    queue.budget = budget;
    queue.lists = lists;
    queue.left_out = (ct_v4l){0, 0, 0, 0};
    queue.has_both = lists->has_both && !lists->is_self;
    queue.chooses = lists->is_self || (lists->is_twin && a == b);
    queue.n = pairs.n = pairs.n_ones = 0;
    for (uint32_t of_a = overlapping_blocks(fa->block, b->lo, b->hi); of_a; of_a &= of_a - 1) {
        const uint32_t block_a = (uint32_t)__builtin_ctz(of_a);
        float lo_a[3], hi_a[3], lo_b[3], hi_b[3];
        if (has_near && !near.of[0][block_a]) continue;
        load_block(fa, block_a, lo_a, hi_a);
        for (uint32_t of_b = overlapping_blocks(fb->block, lo_a, hi_a) & blocks_b; of_b; of_b &= of_b - 1) {
            const uint32_t block_b = (uint32_t)__builtin_ctz(of_b);
            load_block(fb, block_b, lo_b, hi_b);
            uint32_t found[2] = {overlapping_triangles(fa, block_a, lo_b, hi_b),
                                 overlapping_triangles(fb, block_b, lo_a, hi_a)};
            if (has_near) {
                found[0] &= near.of[0][block_a];
                found[1] &= near.of[1][block_b];
            }
            add_block_pair(&pairs, (const uint32_t[2]){block_a, block_b}, found);
            if (pairs.n < BLOCK_PAIRS) continue;
            if (!has_near && pairs.n_ones >= MANY_ONES) {
                has_near = true;
                find_near_triangles(&queue, margin, &near);
                drop_far_triangles(&pairs, &near);
                blocks_b &= near.blocks[1];
                if (pairs.n < BLOCK_PAIRS) continue;
            }
            cross_block_pairs(&queue, &pairs, margin); /* of up to 2,048 pairs: 100 us or less */
            if (lists->is_full || ct_is_cancelled_at("pairs of triangles", lists->n_looked_at)) {
                lists->is_full = true;
                return;
            }
        }
    }
    if (pairs.n) cross_block_pairs(&queue, &pairs, margin);
    if (queue.n) cross_queue(&queue, 0, queue.n);
    const ct_v4l sum = queue.left_out; /* 2^12 summands below 2^44 a lane at most */
    if (ct_v4l_to_bits(sum > 0))
        add_left_out(&queue, (uint64_t)(sum[0] + sum[1] + sum[2] + sum[3]), 0, BOTH_PASSES, lists->is_twin);
}

/* ---- adding ---- */

/* A cluster's own sums, before they are added to the body's: integers in doubles, below 2^53. */
struct local_sums {
    double of[3 * CT_CLUSTER_TRIANGLES][4];
};

/* To the nearest integer, |x| < 2^51. */
static inline ct_v4d round_to_integer(ct_v4d x) {
    return (x + CT_ROUND_MAGIC) - CT_ROUND_MAGIC;
}

static inline void add_to_vertex(struct local_sums *local, uint32_t v, ct_v4d steps) {
    store_point(local->of[v], load_point(local->of[v]) + steps);
}

static inline ct_v4d rotate_lanes(ct_v4d v) { /* y z x */
    return __builtin_shufflevector(v, v, 1, 2, 0, 3);
}

static inline ct_v4d cross_product(ct_v4d a, ct_v4d b) {
    return rotate_lanes(a * rotate_lanes(b) - rotate_lanes(a) * b);
}

static inline double sum3(ct_v4d v) {
    return v[0] + v[1] + v[2];
}

/* The winding number at a corner of a triangle. */
static inline int32_t winding_at(const ct_placed_cluster *c, const ct_winding_numbers *w, uint32_t t, int corner) {
    const int32_t of_unit = w->of_unit[w->unit_in_cluster[t]];
    return w->crossed ? of_unit + w->crossed->winding[c->corners[t][corner]] : of_unit;
}

static inline uint32_t size_of(int32_t winding) {
    return (uint32_t)(winding < 0 ? -winding : winding);
}

/* The running sums of a cluster. */
struct surface_sums {
    ct_v4d moment[3]; /* of coordinate i times the gradient */
    ct_v4d first_moment, twice_area, reach;
};

static inline void add_moments(struct surface_sums *sums, ct_v4d point, ct_v4d gradient) {
    sums->moment[0] += __builtin_shufflevector(point, point, 0, 0, 0, 0) * gradient;
    sums->moment[1] += __builtin_shufflevector(point, point, 1, 1, 1, 1) * gradient;
    sums->moment[2] += __builtin_shufflevector(point, point, 2, 2, 2, 2) * gradient;
}

/* Fetches what add_alone or add_beside_others adds the triangle's first corner to. Nearly every vertex is the first
 * corner of a triangle, and fetches that lie apart do not wait for each other. */
static inline void prefetch_gradient(const ct_placed_cluster *c, const uint16_t *corner,
                                     const ct_exact_gradient *gradient) {
    __builtin_prefetch(gradient->of[c->vertices[corner[0]]], 1);
}

/* Triangles first .. end - 1, which are not crossed and have one winding number: corners get equal parts. */
static inline void add_whole_run(const ct_placed_cluster *c, uint32_t first, uint32_t end, int32_t winding,
                                 double scale, const ct_exact_gradient *gradient, struct local_sums *local,
                                 struct surface_sums *to) {
    const ct_v4d times = (ct_v4d){0, 0, 0, 0} + (double)winding;
    struct surface_sums sums = *to; /* in registers */
    for (uint32_t t = first; t < end; t++) {
        const uint16_t *corner = c->corners[t];
        const ct_v4d p = load_point(c->points[corner[0]]), q = load_point(c->points[corner[1]]),
                     r = load_point(c->points[corner[2]]);
        prefetch_gradient(c, corner, gradient);
        const ct_v4d n = cross_product(q - p, r - p) * times, third = n * (1.0 / 6), sum = p + q + r;
        const ct_v4d steps = round_to_integer(third * scale);
        for (int k = 0; k < 3; k++) add_to_vertex(local, corner[k], steps);
        add_moments(&sums, sum, third);
        /* The integral of x^2 over the barycentric domain: ((p + q + r)^2 + p^2 + q^2 + r^2) / 24. */
        sums.first_moment += n * (sum * sum + p * p + q * q + r * r) * (1.0 / 24);
        sums.twice_area += absolute(n);
        sums.reach = larger(sums.reach, larger(absolute(p), larger(absolute(q), absolute(r))));
    }
    *to = sums;
}

static inline void add_crossed(const ct_placed_cluster *c, uint32_t t, const ct_integrals *w, double scale,
                               struct local_sums *local, struct surface_sums *sums) {
    const uint16_t *corner = c->corners[t];
    const ct_v4d p = load_point(c->points[corner[0]]), q = load_point(c->points[corner[1]]),
                 r = load_point(c->points[corner[2]]);
    const ct_v4d u = q - p, v = r - p, n = cross_product(u, v);
    const double part[3] = {w->of[0] - w->of[1] - w->of[2], w->of[1], w->of[2]};
    for (int k = 0; k < 3; k++) add_to_vertex(local, corner[k], round_to_integer(n * part[k] * scale));
    add_moments(sums, p * w->of[0] + u * w->of[1] + v * w->of[2], n);
    sums->first_moment += n * (p * p * w->of[0] + 2 * p * (u * w->of[1] + v * w->of[2]) + u * u * w->of[3] +
                               2 * u * v * w->of[4] + v * v * w->of[5]);
    sums->twice_area += absolute(n) * (2 * fabs(w->of[0]));
    sums->reach = larger(sums->reach, larger(absolute(p), larger(absolute(q), absolute(r))));
}

/* The largest |winding number| on a crossed triangle. */
static uint32_t deepest_on(const ct_placed_cluster *c, const ct_winding_numbers *w, uint32_t t, double integral) {
    uint32_t most = integral != 0; /* inside between its corners alone, maybe */
    for (int k = 0; k < 3; k++) {
        const uint32_t size = size_of(winding_at(c, w, t, k));
        if (size > most) most = size;
    }
    return most;
}

static inline bool has_negative_corner(const ct_placed_cluster *c, const ct_winding_numbers *w, uint32_t t) {
    return winding_at(c, w, t, 0) < 0 || winding_at(c, w, t, 1) < 0 || winding_at(c, w, t, 2) < 0;
}

static inline __attribute__((always_inline)) void
add_crossed_triangle(const ct_placed_cluster *c, const ct_winding_numbers *w, uint32_t t, double scale,
                     struct local_sums *local, struct surface_sums *surface, ct_cluster_sums *sums) {
    const ct_crossed_triangle *crossed = &w->crossed->triangles[w->crossed->number[t] - 1];
    ct_integrals integrals = ct_whole_integrals(winding_at(c, w, t, 1));
    for (int i = 0; i < CT_INTEGRALS; i++) integrals.of[i] += crossed->integrals.of[i];
    sums->near_area += crossed->near_area;
    const double *p[3];
    load_triangle(c, t, p);
    sums->rounding += ct_volume_rounding(p, crossed->rounding);
    const uint32_t deepest = deepest_on(c, w, t, integrals.of[0]);
    if (deepest > sums->max_winding) sums->max_winding = deepest;
    sums->inverted += has_negative_corner(c, w, t);
    add_crossed(c, t, &integrals, scale, local, surface);
}

/* The end of the triangles from t on that are not crossed and have this winding number. */
static inline uint32_t find_end_of_run(const ct_placed_cluster *c, const ct_winding_numbers *w, uint32_t t,
                                       int32_t winding) {
    if (w->crossed)
        while (t < c->n_triangles && !w->crossed->number[t] && winding_at(c, w, t, 1) == winding) t++;
    else
        while (t < c->n_triangles && w->of_unit[w->unit_in_cluster[t]] == winding) t++;
    return t;
}

/* In the order of the triangles, in which doubles are summed. */
static void add_triangles(const ct_placed_cluster *c, const ct_winding_numbers *w, double scale,
                          const ct_exact_gradient *gradient, struct local_sums *local, struct surface_sums *surface,
                          ct_cluster_sums *sums) {
    for (uint32_t t = 0; t < c->n_triangles;) {
        if (w->crossed && w->crossed->number[t]) {
            prefetch_gradient(c, c->corners[t], gradient);
            add_crossed_triangle(c, w, t++, scale, local, surface, sums);
            continue;
        }
        const int32_t winding = winding_at(c, w, t, 1);
        const uint32_t end = find_end_of_run(c, w, t + 1, winding);
        if (winding) {
            add_whole_run(c, t, end, winding, scale, gradient, local, surface);
            if (size_of(winding) > sums->max_winding) sums->max_winding = size_of(winding);
            sums->inverted += winding < 0 ? end - t : 0;
        }
        t = end;
    }
}

/* A vertex's steps as integers; the last lane is 0. */
static inline ct_v4l take_steps(const struct local_sums *local, uint32_t v) {
    const ct_v4d magic = (ct_v4d){0, 0, 0, 0} + CT_ROUND_MAGIC;
    return (ct_v4l)(load_point(local->of[v]) + magic) - (ct_v4l)magic;
}

static inline bool is_zero(ct_v4l g) {
    return ct_v4l_to_bits(g == 0) == 15;
}

/* Lists the vertices that have steps. Which do is hard to guess where a cluster is crossed, so that no branch depends
 * on it. Returns their number. */
static uint32_t list_stepped(const ct_placed_cluster *c, const struct local_sums *local, uint16_t *to) {
    uint32_t n = 0;
    for (uint32_t v = 0; v < c->n_vertices; v++) {
        to[n] = (uint16_t)v;
        n += !is_zero(take_steps(local, v));
    }
    return n;
}

static inline void add_to_gradient(const ct_exact_gradient *gradient, uint32_t vertex, ct_v4l g) {
    int64_t *const of = gradient->of[vertex];
    unaligned_v2l *to = (unaligned_v2l *)of;
    *to += __builtin_shufflevector(g, g, 0, 1);
    of[2] += g[2];
    gradient->touched[vertex / 64] |= 1ull << vertex % 64;
    gradient->groups[vertex / 4096] |= 1ull << vertex / 64 % 64;
}

static void add_alone(const ct_placed_cluster *c, const struct local_sums *local, const ct_exact_gradient *gradient) {
    const ct_exact_gradient to = *gradient; /* its pointers stay in registers */
    uint16_t list[3 * CT_CLUSTER_TRIANGLES];
    const uint32_t n = list_stepped(c, local, list);
    for (uint32_t i = 0; i < n; i++) add_to_gradient(&to, c->vertices[list[i]], take_steps(local, list[i]));
}

/* Other threads add to other clusters at the same time. */
static void add_beside_others(const ct_placed_cluster *c, const struct local_sums *local,
                              const ct_exact_gradient *gradient) {
    int64_t(*const of)[3] = gradient->of;
    uint8_t *const marks = gradient->marks;
    const uint64_t *const in_several_runs = gradient->in_several_runs;
    const uint32_t *const vertices = c->vertices, n = c->n_vertices, first = c->first_vertex;
    for (uint32_t v = 0; v < n; v++) {
        const ct_v4l g = take_steps(local, v);
        if (is_zero(g)) continue;
        const uint32_t vertex = vertices[v], i = first + v;
        int64_t *to = of[vertex];
        if (in_several_runs[i / 64] >> i % 64 & 1)
            for (int k = 0; k < 3; k++) __atomic_fetch_add(&to[k], g[k], __ATOMIC_RELAXED);
        else
            for (int k = 0; k < 3; k++) to[k] += g[k];
        __atomic_store_n(&marks[vertex], 1, __ATOMIC_RELAXED);
    }
}

static void store_sums(const struct surface_sums *surface, ct_cluster_sums *sums) {
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) sums->moment[i][j] = surface->moment[i][j];
        sums->first_moment[i] = surface->first_moment[i] / 2;
    }
    sums->area = sum3(surface->twice_area) / 2;
    sums->reach = sum3(surface->reach);
}

static void add(const ct_placed_cluster *cluster, const ct_winding_numbers *w, double scale,
                const ct_exact_gradient *gradient, ct_cluster_sums *sums) {
    _Alignas(32) struct local_sums local;
    struct surface_sums surface;
    memset(&surface, 0, sizeof surface);
    memset(local.of, 0, cluster->n_vertices * sizeof *local.of);
    add_triangles(cluster, w, scale, gradient, &local, &surface, sums);
    if (gradient->marks)
        add_beside_others(cluster, &local, gradient);
    else
        add_alone(cluster, &local, gradient);
    store_sums(&surface, sums);
}

static void add_some(const ct_placed_cluster *c, const ct_winding_numbers *w, const uint8_t *triangles, uint32_t n,
                     double scale, const ct_exact_gradient *gradient, ct_cluster_sums *sums) {
    _Alignas(32) struct local_sums local;
    struct surface_sums surface;
    const ct_v4d zero = {0, 0, 0, 0};
    memset(&surface, 0, sizeof surface);
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) store_point(local.of[c->corners[triangles[i]][k]], zero);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t t = triangles[i];
        const int32_t winding = winding_at(c, w, t, 1);
        if (w->crossed && w->crossed->number[t]) {
            add_crossed_triangle(c, w, t, scale, &local, &surface, sums);
        } else if (winding) {
            add_whole_run(c, t, t + 1, winding, scale, gradient, &local, &surface);
            if (size_of(winding) > sums->max_winding) sums->max_winding = size_of(winding);
            sums->inverted += winding < 0;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) {
            const uint32_t v = c->corners[triangles[i]][k];
            const ct_v4l g = take_steps(&local, v);
            if (is_zero(g)) continue;
            add_to_gradient(gradient, c->vertices[v], g);
            store_point(local.of[v], zero); /* other triangles share the vertex */
        }
    store_sums(&surface, sums);
}

const ct_exact_cpu CT_VARIANT(ct_exact_cpu) = {place_blocks, meet_blocks, place, cross, add, add_some};
