/* cross_clusters.inl - crosses two clusters: leaves out most of their pairs of triangles by boxes and planes, and queues
 * the others. A part of exact_cpu.simd.c. */
#ifndef CT_EXACT_CROSS_CLUSTERS_INL
#define CT_EXACT_CROSS_CLUSTERS_INL

#include "gpu/base/cancel.h"
#include "gpu/methods/exact/cross_pairs.inl"
#include "gpu/methods/exact/place.inl"

/* ---- leaving out most pairs ---- */

/* The bits of eight boxes, at arrays[0..5], that overlap a box. stride: floats from one array to the next. */
static inline uint32_t overlaps(const float *arrays, size_t stride, const float *lo, const float *hi) {
    v8i meets = load8(arrays) <= hi[0];
    meets &= load8(arrays + stride) <= hi[1];
    meets &= load8(arrays + 2 * stride) <= hi[2];
    meets &= load8(arrays + 3 * stride) >= lo[0];
    meets &= load8(arrays + 4 * stride) >= lo[1];
    meets &= load8(arrays + 5 * stride) >= lo[2];
    return mask_of(meets);
}

static inline uint32_t overlapping_triangles(const ct_triangle_floats *f, uint32_t block, const float *lo,
                                             const float *hi) {
    return overlaps(f->box[0] + CT_EXACT_BLOCK * block, CT_CLUSTER_TRIANGLES, lo, hi);
}

static inline uint32_t overlapping_blocks(const float block[6][CT_EXACT_BLOCKS], const float *lo, const float *hi) {
    return overlaps(block[0], CT_EXACT_BLOCKS, lo, hi) | overlaps(block[0] + 8, CT_EXACT_BLOCKS, lo, hi) << 8;
}

/* Bounds the error, in units, of the distance of a point of one cluster from a plane of another as computed in floats,
 * and seven units, so that what is left out ct_is_beyond: rounding of coordinates, of the normal and of sums is 2^-21
 * of the largest |x|_1 or less. */
static float plane_margin(const ct_placed_cluster *a, const ct_placed_cluster *b) {
    float most[2] = {0, 0};
    for (int k = 0; k < 3; k++) {
        most[0] += fmaxf(fabsf(a->lo[k]), fabsf(a->hi[k]));
        most[1] += fmaxf(fabsf(b->lo[k]), fabsf(b->hi[k]));
    }
    return fmaxf(most[0], most[1]) * 0x1p-20f + 8;
}

/* The bits of eight triangles of which a corner is as near to a plane as margin, or that have corners on both of its
 * sides. x, y, z: of the three corners. Or of one triangle and eight planes. */
static inline v8i meet_planes(const v8f x[3], const v8f y[3], const v8f z[3], const v8f plane[4], float margin) {
    v8f least = fused8(x[0], plane[0], fused8(y[0], plane[1], fused8(z[0], plane[2], -plane[3]))), most = least;
    for (int k = 1; k < 3; k++) {
        const v8f d = fused8(x[k], plane[0], fused8(y[k], plane[1], fused8(z[k], plane[2], -plane[3])));
        least = smaller8(least, d);
        most = larger8(most, d);
    }
    return (least <= margin) & (most >= -margin);
}

/* The bits of a block's triangles that neither its plane nor theirs separates from triangle u of `row`. */
static inline uint32_t not_separated(const ct_triangle_floats *f, uint32_t block, const ct_triangle_floats *row,
                                     uint32_t u, float margin) {
    const uint32_t t = CT_EXACT_BLOCK * block;
    v8f x[3], y[3], z[3], plane[4];
    for (int k = 0; k < 3; k++) {
        x[k] = load8(f->corner[3 * k] + t);
        y[k] = load8(f->corner[3 * k + 1] + t);
        z[k] = load8(f->corner[3 * k + 2] + t);
    }
    for (int k = 0; k < 4; k++) plane[k] = all8(row->plane[k][u]);
    const v8i near = meet_planes(x, y, z, plane, margin);
    for (int k = 0; k < 3; k++) {
        x[k] = all8(row->corner[3 * k][u]);
        y[k] = all8(row->corner[3 * k + 1][u]);
        z[k] = all8(row->corner[3 * k + 2][u]);
    }
    for (int k = 0; k < 4; k++) plane[k] = load8(f->plane[k] + t);
    return mask_of(near & meet_planes(x, y, z, plane, margin));
}

/* ---- leaving out most triangles of two clusters ---- */

/* Boxes along the axes say nothing of triangles that are long in another direction, as of hair: all overlap. But the
 * plane of such a triangle has most of the other cluster on one side. Of two clusters whose boxes overlap nearly all
 * over, only triangles whose plane meets the other one's turned box are looked at: planes leave out the others anyway,
 * one by one. */

/* Along the longest edge and the normal of the cluster's first triangle. */
static void find_turned_axes(const ct_placed_cluster *c, float axis[3][3]) {
    const double *p[3];
    double edge[3], longest = 0, n[3], length = 0;
    load_triangle(c, c->block_order[0], p);
    memset(axis, 0, 3 * sizeof *axis);
    for (int i = 0; i < 3; i++) {
        double square = 0;
        for (int k = 0; k < 3; k++) square += (p[(i + 1) % 3][k] - p[i][k]) * (p[(i + 1) % 3][k] - p[i][k]);
        if (square <= longest) continue;
        longest = square;
        for (int k = 0; k < 3; k++) edge[k] = p[(i + 1) % 3][k] - p[i][k];
    }
    const ct_normal normal = ct_normal_of_triangle(p);
    for (int k = 0; k < 3; k++) length += normal.of[k] * normal.of[k];
    if (!(longest > 0 && length > 0)) {
        for (int k = 0; k < 3; k++) axis[k][k] = 1;
        return;
    }
    for (int k = 0; k < 3; k++) {
        edge[k] /= sqrt(longest);
        n[k] = normal.of[k] / sqrt(length);
    }
    for (int k = 0; k < 3; k++) {
        axis[0][k] = (float)edge[k];
        axis[1][k] = (float)n[k];
        axis[2][k] = (float)(edge[(k + 1) % 3] * n[(k + 2) % 3] - edge[(k + 2) % 3] * n[(k + 1) % 3]);
    }
}

static void find_turned_box(const ct_placed_cluster *c, ct_turned_box *box) {
    ct_v4d least[3], most[3];
    find_turned_axes(c, box->axis);
    for (int k = 0; k < 3; k++) {
        least[k] = (ct_v4d){0, 0, 0, 0} + INFINITY;
        most[k] = -least[k];
    }
    for (uint32_t v = 0; v < c->n_vertices; v += 4) {
        const double *p[4];
        struct vector4 four;
        for (uint32_t i = 0; i < 4; i++) p[i] = c->points[v + i < c->n_vertices ? v + i : v];
        transpose_points(load_point(p[0]), load_point(p[1]), load_point(p[2]), load_point(p[3]), &four);
        for (int k = 0; k < 3; k++) {
            const float *axis = box->axis[k];
            const ct_v4d at =
                four.of[0] * (double)axis[0] + four.of[1] * (double)axis[1] + four.of[2] * (double)axis[2];
            least[k] = smaller(least[k], at);
            most[k] = larger(most[k], at);
        }
    }
    for (int k = 0; k < 3; k++) {
        const double lo = fmin(fmin(least[k][0], least[k][1]), fmin(least[k][2], least[k][3]));
        const double hi = fmax(fmax(most[k][0], most[k][1]), fmax(most[k][2], most[k][3]));
        box->middle[k] = (float)(0.5 * (lo + hi));
        box->half[k] = (float)(0.5 * (hi - lo) * (1 + 0x1p-20));
    }
}

/* Several threads may want a shared cluster's: the first one keeps it for the others. */
static ct_turned_box turned_box_of(const ct_placed_cluster *c) {
    enum { NONE, BEING_FILLED, FILLED };
    ct_triangle_floats *f = c->floats;
    ct_turned_box box;
    if (__atomic_load_n(&f->turned_box_state, __ATOMIC_ACQUIRE) == FILLED) return f->turned_box;
    find_turned_box(c, &box);
    uint32_t none = NONE;
    if (__atomic_compare_exchange_n(&f->turned_box_state, &none, BEING_FILLED, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
        f->turned_box = box;
        __atomic_store_n(&f->turned_box_state, FILLED, __ATOMIC_RELEASE);
    }
    return box;
}

/* The bits of a block's triangles whose planes come as near to a box as margin. The axes are unit vectors and at right
 * angles but for 2^-22, and sums are rounded in floats: with four times plane_margin, what is left out here
 * not_separated leaves out too. */
static inline uint32_t meeting_box(const ct_triangle_floats *f, uint32_t block, const ct_turned_box *box,
                                   float margin) {
    const uint32_t t = CT_EXACT_BLOCK * block;
    v8f plane[4], distance, reach = all8(4 * margin);
    for (int k = 0; k < 4; k++) plane[k] = load8(f->plane[k] + t);
    distance = -plane[3];
    for (int k = 0; k < 3; k++) {
        const v8f along = fused8(plane[0], all8(box->axis[k][0]),
                                 fused8(plane[1], all8(box->axis[k][1]), plane[2] * all8(box->axis[k][2])));
        distance = fused8(along, all8(box->middle[k]), distance);
        reach = fused8(absolute8(along), all8(box->half[k]), reach);
    }
    return mask_of(absolute8(distance) <= reach);
}

/* ---- a body with itself ---- */

static void add_touching(ct_crossing_lists *lists, ct_budget *budget, uint32_t ta, uint32_t tb, int of_a, int of_b) {
    const size_t needed = (lists->n_touching + 1) * sizeof(ct_touching_pair);
    if (needed > lists->touching.capacity &&
        !ct_buffer_reserve(&lists->touching, budget, 2 * needed + 64 * sizeof(ct_touching_pair),
                           lists->n_touching * sizeof(ct_touching_pair), false)) {
        lists->is_full = true;
        return;
    }
    ((ct_touching_pair *)lists->touching.data)[lists->n_touching++] =
        (ct_touching_pair){{ta, tb}, {(uint8_t)of_a, (uint8_t)of_b}};
}

/* False: of twins in one cluster, the two are looked at the other way round. Of one body: they share a vertex, for
 * which they are listed, or are to be looked at the other way round: of a cluster with itself only triangles behind ta
 * count. */
static bool is_wanted(const struct pair_queue *queue, uint32_t ta, uint32_t tb) {
    const ct_placed_cluster *a = queue->a, *b = queue->b;
    if (queue->lists->is_twin) return tb >= ta;
    if (a == b && tb <= ta) return false;
    int shared = 0, of_a = 0, of_b = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            if (a->vertices[a->corners[ta][i]] == b->vertices[b->corners[tb][j]]) {
                shared++;
                of_a = i;
                of_b = j;
            }
    if (shared == 1) add_touching(queue->lists, queue->budget, ta, tb, of_a, of_b);
    return !shared;
}

/* ---- blocks of two clusters ---- */

static void meet_blocks(const ct_block_boxes *a, const ct_block_boxes *b, uint16_t met[2]) {
    uint32_t of_a = overlapping_blocks(a->of, b->lo, b->hi), met_a = 0, met_b = 0;
    const uint32_t of_b = of_a ? overlapping_blocks(b->of, a->lo, a->hi) : 0;
    for (; of_a && of_b; of_a &= of_a - 1) {
        const uint32_t i = (uint32_t)__builtin_ctz(of_a);
        const float lo[3] = {a->of[0][i], a->of[1][i], a->of[2][i]}, hi[3] = {a->of[3][i], a->of[4][i], a->of[5][i]};
        const uint32_t found = overlapping_blocks(b->of, lo, hi) & of_b;
        met_b |= found;
        if (found) met_a |= 1u << i;
    }
    met[0] = (uint16_t)met_a;
    met[1] = (uint16_t)met_b;
}

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

#endif
