/* cross_pairs.inl - crosses pairs of triangles, four at a time. A part of exact_cpu.simd.c. */
#ifndef CT_EXACT_CROSS_PAIRS_INL
#define CT_EXACT_CROSS_PAIRS_INL

#include "gpu/methods/exact/cross_ties.inl"

/* ---- the queue, and what is found ---- */

static inline void add_crossing(ct_crossing_lists *lists, ct_budget *budget, int body, uint32_t triangle,
                                uint32_t other, const ct_triangle_share *share, bool crosses, uint32_t passes) {
    ct_crossing *to = ct_append_crossing(lists, budget, body);
    if (!to) return;
    to->triangle = triangle;
    to->other = other;
    to->share = *share;
    to->crosses = crosses;
    memset(to->turn, 0, sizeof to->turn);
    to->passes = passes & 3;
    to->segment = 0;
}

/* passes: of either triangle, as in ct_crossing. */
static void add_found(const ct_placed_cluster *a, uint32_t ta, const ct_placed_cluster *b, uint32_t tb, int first,
                      int found, const ct_triangle_share share[2], uint32_t passes_a, uint32_t passes_b,
                      ct_budget *budget, ct_crossing_lists *lists) {
    if (found == CT_TRIANGLES_INCONSISTENT) lists->n_inconsistent++;
    if (found != CT_TRIANGLES_CROSS && found != CT_TRIANGLES_NEAR) return;
    const uint32_t number_a = a->cluster * CT_CLUSTER_TRIANGLES + ta, number_b = b->cluster * CT_CLUSTER_TRIANGLES + tb;
    const bool crosses = found == CT_TRIANGLES_CROSS;
    add_crossing(lists, budget, 0, number_a, number_b, &share[first], crosses, passes_a);
    add_crossing(lists, budget, 1, number_b, number_a, &share[1 - first], crosses, passes_b);
}

/* Blocks that are looked at together: of two blocks, eight times eight pairs of triangles may be left. */
enum { BLOCK_PAIRS = 32, MOST_PAIRS = BLOCK_PAIRS * CT_EXACT_BLOCK * CT_EXACT_BLOCK };

/* Pairs of triangles that no plane separates. Up to three wait for others, to be crossed four at a time. */
struct pair_queue {
    const ct_placed_cluster *a, *b;
    int moved;
    bool has_narrow; /* one of the clusters may have */
    ct_budget *budget;
    ct_crossing_lists *lists;
    uint32_t n;
    uint8_t triangle[2][MOST_PAIRS + 4];
    ct_v4l left_out; /* whole units^2 */
    bool chooses;    /* not all pairs are looked at: is_wanted */
    bool has_both;   /* as in the lists; not of a body with itself */
};

static inline void add_to_left_out(ct_left_out *sum, uint64_t low, uint64_t high, double residual) {
    sum->low += low & (((uint64_t)1 << CT_LEFT_OUT_BITS) - 1);
    sum->high += high + (low >> CT_LEFT_OUT_BITS);
    sum->residual = sum->residual < residual ? residual : sum->residual;
}

/* A sum below 2^62 over a part of the pairs of triangles of two clusters. passes: a bit for each that has it; mirrored:
 * the same of the triangles the other way round, in the other pass. */
static void add_left_out(const struct pair_queue *queue, uint64_t low, uint64_t high, uint32_t passes, bool mirrored) {
    ct_left_out *sum = queue->lists->left_out;
    if (!(low | high)) return;
    const double of_a = queue->a->residual, of_b = queue->b->residual, residual = of_a < of_b ? of_b : of_a;
    for (int pass = 0; pass < 2; pass++) {
        if (!(passes >> pass & 1)) continue;
        add_to_left_out(&sum[pass], low, high, residual);
        if (mirrored) add_to_left_out(&sum[1 - pass], low, high, residual);
    }
}

/* Of triangle ta of a, tb of b. */
static void add_left_out_area(const struct pair_queue *queue, uint32_t ta, uint32_t tb, double area, uint32_t passes) {
    uint64_t low, high;
    if (!(area > 0)) return;
    ct_round_left_out(area, &low, &high);
    add_left_out(queue, low, high, passes, queue->lists->is_twin && (queue->a != queue->b || ta != tb));
}

/* Two triangles of which one comes first (ct_comes_first), measured in doubles: without signs. */
struct measured_pair {
    int first; /* 0: the one of a */
    ct_plane_sides sides[2];
    ct_edge_signs edges;
    double size[2]; /* |normal|_1 */
};

enum { BOTH_PASSES = 3 };

/* A pair of one body's triangles that has ties: either triangle sees the other one move. found: by queue->moved. */
static void cross_own_tied(const struct pair_queue *queue, uint32_t ta, uint32_t tb, const double *const p[2][3],
                           int found, ct_triangle_share share[2], double left_out) {
    ct_crossing_lists *lists = queue->lists;
    int has_ties = 0;
    add_found(queue->a, ta, queue->b, tb, 0, found, share, 1, 2, queue->budget, lists);
    add_left_out_area(queue, ta, tb, left_out, BOTH_PASSES);
    const int found_next = ct_cross_pair(p, -queue->moved, share, &left_out, &has_ties);
    add_found(queue->a, ta, queue->b, tb, 0, found_next, share, 2, 1, queue->budget, lists);
    add_left_out_area(queue, ta, tb, left_out, BOTH_PASSES);
    /* If neither crosses, the passes do not differ. */
    lists->has_ties |= found == CT_TRIANGLES_CROSS || found_next == CT_TRIANGLES_CROSS;
}

/* ---- what two crossing triangles add to each other, both at once ---- */

/* A crossing takes some twenty divisions, most of its time. Two of a kind, of the two ends of its segment or of the two
 * triangles, are one instruction. The arithmetic of each lane is that of segment_k.h, operation by operation. */

/* Numbers of both ends of a segment, by which end, so that either triangle's can be picked. */
enum { TAU, REST, ZERO, OTHER_X, OTHER_Y, OWN_ERROR, OTHER_ERROR, END_NUMBERS };
struct end_numbers {
    double of[END_NUMBERS][2];
};

/* What there is to know of an edge that pierces the other triangle, by its bit: i of the first triangle, 3 + j of the
 * second. Tables, as which edges pierce is hard to guess for a branch. */
enum { LANES = 4, VALUES = sizeof(struct values4) / sizeof(double), TO_ERROR = VALUES / 2, BITS = 6 };

/* Where its numbers lie, in doubles from those of its lane: in the sides of its triangle, and in the orientations to
 * the other triangle's edges. */
static const uint8_t side_at_start[BITS] = {0, LANES, 2 * LANES, VALUES, VALUES + LANES, VALUES + 2 * LANES};
static const uint8_t side_at_end[BITS] = {LANES, 2 * LANES, 0, VALUES + LANES, VALUES + 2 * LANES, VALUES};
static const uint8_t orientation_at[BITS] = {0, VALUES, 2 * VALUES, 0, LANES, 2 * LANES};
static const uint8_t orientation_step[BITS] = {LANES, LANES, LANES, VALUES, VALUES, VALUES};

/* Its triangle, and which edge of it; of either triangle, which of the numbers above are the barycentric coordinates
 * where it pierces, and their error. */
static const uint8_t triangle_of_bit[BITS] = {0, 0, 0, 1, 1, 1}, edge_of_bit[BITS] = {0, 1, 2, 0, 1, 2};
static const uint8_t x_of_bit[BITS][2] = {{TAU, OTHER_X}, {REST, OTHER_X}, {ZERO, OTHER_X},
                                          {OTHER_X, TAU}, {OTHER_X, REST}, {OTHER_X, ZERO}};
static const uint8_t y_of_bit[BITS][2] = {{ZERO, OTHER_Y}, {TAU, OTHER_Y}, {REST, OTHER_Y},
                                          {OTHER_Y, ZERO}, {OTHER_Y, TAU}, {OTHER_Y, REST}};
static const uint8_t error_of_bit[BITS][2] = {{OWN_ERROR, OTHER_ERROR}, {OWN_ERROR, OTHER_ERROR},
                                              {OWN_ERROR, OTHER_ERROR}, {OTHER_ERROR, OWN_ERROR},
                                              {OTHER_ERROR, OWN_ERROR}, {OTHER_ERROR, OWN_ERROR}};

/* The two edges that pierce: 0 at the start of the first triangle's segment, 1 at its end. */
struct piercing_edges {
    uint32_t bit[2];
    int jump[2]; /* of w along the edge */
};

/* False: there are not two, one at either end. A side that is 0 has the sign of its tie. */
static inline bool find_piercing_edges(const double *sides, uint32_t piercing, struct piercing_edges *found) {
    const uint32_t others = piercing & (piercing - 1);
    if (!others || others & (others - 1)) return false;
    const uint32_t bit[2] = {(uint32_t)__builtin_ctz(piercing), (uint32_t)__builtin_ctz(others)};
    const int goes_in[2] = {!signbit(sides[side_at_start[bit[0]]]), !signbit(sides[side_at_start[bit[1]]])};
    const int which = goes_in[0] ^ triangle_of_bit[bit[0]]; /* end of bit[0] */
    if (which == (goes_in[1] ^ triangle_of_bit[bit[1]])) return false;
    for (int end = 0; end < 2; end++) {
        found->bit[end] = bit[end ^ which];
        found->jump[end] = 2 * goes_in[end ^ which] - 1;
    }
    return true;
}

static inline void store_ends(struct end_numbers *ends, int number, v2d v) {
    memcpy(ends->of[number], &v, sizeof v);
}

/* As ct_find_end_between. */
static inline void find_ends2(const double *sides, const double *orientations, const struct piercing_edges *edges,
                              struct end_numbers *ends) {
    const uint32_t bit0 = edges->bit[0], bit1 = edges->bit[1];
    const double *start[2] = {sides + side_at_start[bit0], sides + side_at_start[bit1]};
    const double *end[2] = {sides + side_at_end[bit0], sides + side_at_end[bit1]};
    const double *at[2] = {orientations + orientation_at[bit0], orientations + orientation_at[bit1]};
    v2d e[3], error[3];
    for (int j = 0; j < 3; j++) {
        e[j] = (v2d){at[0][0], at[1][0]};
        error[j] = (v2d){at[0][TO_ERROR], at[1][TO_ERROR]};
        at[0] += orientation_step[bit0];
        at[1] += orientation_step[bit1];
    }
    const v2d side[2] = {(v2d){*start[0], *start[1]} + 0.0, {*end[0], *end[1]}}; /* 0.0: without the sign of a tie */
    const v2d side_error[2] = {{start[0][TO_ERROR], start[1][TO_ERROR]}, {end[0][TO_ERROR], end[1][TO_ERROR]}};
    const v2d length = side[0] - side[1], tau = side[0] / length, sum = e[0] + e[1] + e[2];
    const v2d size = (v2d)((v2l)length & INT64_MAX), sum_size = (v2d)((v2l)sum & INT64_MAX);
    store_ends(ends, TAU, tau);
    store_ends(ends, REST, 1 - tau);
    store_ends(ends, ZERO, (v2d){0, 0});
    store_ends(ends, OTHER_X, e[2] / sum);
    store_ends(ends, OTHER_Y, e[0] / sum);
    store_ends(ends, OWN_ERROR, (side_error[0] + side_error[1]) / size + 0x1p-51);
    store_ends(ends, OTHER_ERROR, 2 * (error[0] + error[1] + error[2]) / sum_size + 0x1p-51);
}

/* A number of the first triangle at end `first`, of the second at the other one. */
static inline v2d pick(const struct end_numbers *ends, const struct piercing_edges *edges, int first,
                       const uint8_t number_of_bit[BITS][2]) {
    return (v2d){ends->of[number_of_bit[edges->bit[first]][0]][first],
                 ends->of[number_of_bit[edges->bit[1 - first]][1]][1 - first]};
}

/* As ct_add_segment to sums that are 0, of the first triangle's segment and of the second one's, which is reversed. */
static inline void find_segments2(const struct piercing_edges *edges, const struct end_numbers *ends,
                                  v2d to[CT_INTEGRALS]) {
    const v2d x0 = pick(ends, edges, 0, x_of_bit), y0 = pick(ends, edges, 0, y_of_bit);
    const v2d x1 = pick(ends, edges, 1, x_of_bit), y1 = pick(ends, edges, 1, y_of_bit), dy = y1 - y0;
    const v2d zero = {0, 0};
    to[0] = zero + dy * (x0 + x1) / 2;
    to[1] = zero + dy * (x0 * x0 + x0 * x1 + x1 * x1) / 6;
    to[2] = zero + dy * (x0 * (2 * y0 + y1) + x1 * (y0 + 2 * y1)) / 6;
    to[3] = zero + dy * ((x0 + x1) * (x0 * x0 + x1 * x1)) / 12;
    to[4] = zero + dy * (x0 * x0 * (3 * y0 + y1) + 2 * x0 * x1 * (y0 + y1) + x1 * x1 * (y0 + 3 * y1)) / 24;
    to[5] = zero + dy * (x0 * (3 * y0 * y0 + 2 * y0 * y1 + y1 * y1) + x1 * (y0 * y0 + 2 * y0 * y1 + 3 * y1 * y1)) / 12;
}

/* As ct_share_crossing of a pair that crosses, of a lane of the four; share: of the first triangle, and of the second.
 */
static inline void share_crossing2(const struct end_numbers *ends, const struct piercing_edges *edges, v2d most,
                                   v2d size, ct_triangle_share *const share[2]) {
    v2d integrals[CT_INTEGRALS];
    find_segments2(edges, ends, integrals);
    const v2d error = pick(ends, edges, 0, error_of_bit) + pick(ends, edges, 1, error_of_bit);
    const v2d rounding = size * (4 * error + 0x1p-48);
    const v2d its_size = __builtin_shufflevector(size, size, 1, 0);
    const v2l is_wholly_near = 16 * its_size >= most;
    const v2d near = size / 2 * (16 * its_size / most);
    const v2d near_area = (v2d)((is_wholly_near & (v2l)(size / 2)) | (~is_wholly_near & (v2l)near));
    for (int s = 0; s < 2; s++) {
        for (int k = 0; k < CT_INTEGRALS; k++) share[s]->integrals.of[k] = integrals[k][s];
        share[s]->near_area = near_area[s];
        share[s]->rounding = rounding[s];
        share[s]->jump[0] = share[s]->jump[1] = share[s]->jump[2] = 0;
    }
    for (int end = 0; end < 2; end++) {
        const uint32_t edge = edge_of_bit[edges->bit[end]];
        ct_triangle_share *of = share[triangle_of_bit[edges->bit[end]]];
        of->jump[edge] = (signed char)(of->jump[edge] + edges->jump[end]);
        if (edge == 1) ct_add_edge(&of->integrals, ends->of[TAU][end], edges->jump[end]);
    }
}

/* ---- measuring four pairs ---- */

/* The corners of four pairs' first triangles, and of their second ones. */
static inline void load_pairs(const struct pair_queue *queue, uint32_t at, int first[4], struct triangles4 pairs[2]) {
    const double *p[2][4][3];
    for (int i = 0; i < 4; i++) {
        const double *t[2][3];
        load_triangle(queue->a, queue->triangle[0][at + (uint32_t)i], t[0]);
        load_triangle(queue->b, queue->triangle[1][at + (uint32_t)i], t[1]);
        first[i] = ct_comes_first(t[0][0], t[1][0]) ? 0 : 1;
        for (int k = 0; k < 3; k++) {
            p[0][i][k] = t[first[i]][k];
            p[1][i][k] = t[1 - first[i]][k];
        }
    }
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < 3; k++)
            transpose_points(load_point(p[s][0][k]), load_point(p[s][1][k]), load_point(p[s][2][k]),
                             load_point(p[s][3][k]), &pairs[s].corner[k]);
}

/* As ct_find_sides, without integers; returns the lanes in which it needs them. */
static inline uint32_t find_sides4(const struct vector4 p[3], const struct vector4 *q, const struct normal4 *n,
                                   struct values4 *sides) {
    ct_v4l needs_integers = {0, 0, 0, 0};
    for (int k = 0; k < 3; k++) {
        const ct_v4d x = p[k].of[0] - q->of[0], y = p[k].of[1] - q->of[1], z = p[k].of[2] - q->of[2];
        sides->value[k] = n->n.of[0] * x + n->n.of[1] * y + n->n.of[2] * z;
        sides->error[k] =
            (n->size.of[0] * absolute(x) + n->size.of[1] * absolute(y) + n->size.of[2] * absolute(z)) * CT_FILTER;
        needs_integers |= absolute(sides->value[k]) <= sides->error[k] * CT_PRECISE;
    }
    return ct_v4l_to_bits(needs_integers);
}

/* As ct_edges, of four triangles. */
struct edges4 {
    struct vector4 along[3], moment[3], size[3];
};

static inline void find_edges4(const struct vector4 p[3], const struct vector4 *origin, struct edges4 *edges) {
    struct vector4 from[3];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) from[i].of[k] = p[i].of[k] - origin->of[k];
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) edges->along[i].of[k] = from[(i + 1) % 3].of[k] - from[i].of[k];
        for (int k = 0; k < 3; k++) {
            const int x = (k + 1) % 3, y = (k + 2) % 3;
            const ct_v4d u = from[i].of[x] * edges->along[i].of[y], v = from[i].of[y] * edges->along[i].of[x];
            edges->moment[i].of[k] = u - v;
            edges->size[i].of[k] = absolute(u) + absolute(v);
        }
    }
}

/* As ct_find_edge_signs, without integers; returns the lanes in which it might need them. Where sides are decided, that is
 * where an edge meets the other triangle's plane alone: parallel edges, of which boxes have many, do not. */
static inline uint32_t find_edge_values4(const struct triangles4 pairs[2], const struct values4 sides[2],
                                         struct values4 e[3]) {
    struct edges4 a, b;
    ct_v4l needs_integers = {0, 0, 0, 0}, meets[2][3];
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < 3; k++) meets[s][k] = (sides[s].value[k] > 0) ^ (sides[s].value[(k + 1) % 3] > 0);
    find_edges4(pairs[0].corner, &pairs[0].corner[0], &a);
    find_edges4(pairs[1].corner, &pairs[0].corner[0], &b);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const ct_v4d *da = a.along[i].of, *ma = a.moment[i].of, *sa = a.size[i].of;
            const ct_v4d *db = b.along[j].of, *mb = b.moment[j].of, *sb = b.size[j].of;
            e[i].value[j] =
                da[0] * mb[0] + da[1] * mb[1] + da[2] * mb[2] + (db[0] * ma[0] + db[1] * ma[1] + db[2] * ma[2]);
            e[i].error[j] = (absolute(da[0]) * sb[0] + absolute(da[1]) * sb[1] + absolute(da[2]) * sb[2] +
                             (absolute(db[0]) * sa[0] + absolute(db[1]) * sa[1] + absolute(db[2]) * sa[2])) *
                            CT_FILTER;
            needs_integers |= (absolute(e[i].value[j]) <= e[i].error[j] * CT_PRECISE) & (meets[0][i] | meets[1][j]);
        }
    return ct_v4l_to_bits(needs_integers);
}

/* The edges that pierce the other triangle, in each lane: bit i for edge i of the first triangle, 3 + j for edge j of the
 * second. Their ends are on two sides of the plane, and their orientations to the other triangle's edges are the same. */
static inline ct_v4l find_piercing(const struct values4 sides[2], const struct values4 e[3]) {
    ct_v4l pierce = {0, 0, 0, 0};
    for (int i = 0; i < 3; i++) {
        const ct_v4l x = e[i].value[0] > 0, y = e[i].value[1] > 0, z = e[i].value[2] > 0;
        pierce |= (((sides[0].value[i] > 0) ^ (sides[0].value[(i + 1) % 3] > 0)) & are_alike(x, y, z)) & (1 << i);
    }
    for (int j = 0; j < 3; j++) {
        const ct_v4l x = e[0].value[j] > 0, y = e[1].value[j] > 0, z = e[2].value[j] > 0;
        pierce |= (((sides[1].value[j] > 0) ^ (sides[1].value[(j + 1) % 3] > 0)) & are_alike(x, y, z)) & (8 << j);
    }
    return pierce;
}

static inline ct_v4d size1_of(const struct normal4 *n) {
    return absolute(n->n.of[0]) + absolute(n->n.of[1]) + absolute(n->n.of[2]);
}

/* As ct_is_beyond. */
static inline ct_v4l find_beyond(const struct values4 *sides, ct_v4d its_size) {
    const ct_v4d margin = 4 * its_size;
    const ct_v4d least = smaller(sides->value[0], smaller(sides->value[1], sides->value[2]));
    const ct_v4d most = larger(sides->value[0], larger(sides->value[1], sides->value[2]));
    return (least > margin) | (most < -margin);
}

static inline ct_v4d find_largest_sides(const struct values4 *sides) {
    return larger(absolute(sides->value[0]), larger(absolute(sides->value[1]), absolute(sides->value[2])));
}

/* The lanes with a triangle whose |normal|_1 may grow by more than CT_MOST_GROWTH; most clusters have none. */
static ct_v4l find_narrow(const struct triangles4 pairs[2], const ct_v4d size[2]) {
    ct_v4l narrow = {0, 0, 0, 0};
    for (int s = 0; s < 2; s++) {
        const struct vector4 *p = pairs[s].corner;
        ct_v4d sides = {0, 0, 0, 0};
        for (int k = 0; k < 3; k++) sides += absolute(p[1].of[k] - p[0].of[k]) + absolute(p[2].of[k] - p[0].of[k]);
        narrow |= sides * 2.05 + 6.4 > size[s] * CT_MOST_GROWTH;
    }
    return narrow;
}

/* As ct_round_left_out of ct_small_near_area, in the lanes of the mask; returns those that are too large. */
static inline uint32_t add_small_near_areas(const ct_v4d most[2], const ct_v4d size[2], uint32_t lanes, ct_v4l *sum) {
    static const ct_v4l mask_of_bits[16] = {{0, 0, 0, 0},   {-1, 0, 0, 0},   {0, -1, 0, 0},   {-1, -1, 0, 0},
                                            {0, 0, -1, 0},  {-1, 0, -1, 0},  {0, -1, -1, 0},  {-1, -1, -1, 0},
                                            {0, 0, 0, -1},  {-1, 0, 0, -1},  {0, -1, 0, -1},  {-1, -1, 0, -1},
                                            {0, 0, -1, -1}, {-1, 0, -1, -1}, {0, -1, -1, -1}, {-1, -1, -1, -1}};
    const ct_v4d area = 8 * (size[0] * size[1]) * ((most[0] + most[1]) / (most[0] * most[1]));
    const ct_v4d rounded = area + CT_ROUND_MAGIC;
    const uint32_t large = ct_v4l_to_bits(area >= 0x1p44) & lanes;
    *sum += ((ct_v4l)rounded - ((ct_v4l)((ct_v4d){0, 0, 0, 0} + CT_ROUND_MAGIC) - 1)) & mask_of_bits[lanes & ~large];
    return large;
}

static void take_lane(const struct values4 *from, int lane, double value[3], double error[3]) {
    for (int k = 0; k < 3; k++) {
        value[k] = from->value[k][lane];
        error[k] = from->error[k][lane];
    }
}

/* Where to keep the segment of the crossing that is in both lists, of the triangle that comes first in to[0]. Where corners 0
 * are one point, either comes first for its own body (ct_recross), and nothing is kept. NULL: so here, or out of memory. */
static ct_crossing_segment *begin_segment(const struct pair_queue *queue, uint32_t ta, uint32_t tb,
                                          ct_crossing *const to[2]) {
    ct_crossing_lists *lists = queue->lists;
    const double *p[2][3];
    load_triangle(queue->a, ta, p[0]);
    load_triangle(queue->b, tb, p[1]);
    if (p[0][0][0] == p[1][0][0] && p[0][0][1] == p[1][0][1] && p[0][0][2] == p[1][0][2]) return NULL;
    if (lists->n_segments == CT_MOST_SEGMENTS) return NULL;
    ct_crossing_segment *segment = ct_append_segment(lists, queue->budget);
    for (int t = 0; segment && t < 2; t++) {
        to[t]->is_second = t == 1;
        to[t]->worker = (uint8_t)lists->worker;
        to[t]->segment = lists->n_segments & CT_MOST_SEGMENTS;
    }
    return segment;
}

static void keep_segment(const struct pair_queue *queue, uint32_t ta, uint32_t tb, const struct end_numbers *ends,
                         const struct piercing_edges *edges, ct_crossing *const to[2]) {
    ct_crossing_segment *segment = begin_segment(queue, ta, tb, to);
    for (int end = 0; segment && end < 2; end++) {
        const uint32_t bit = edges->bit[end];
        for (int t = 0; t < 2; t++) {
            segment->at[end][t][0] = ends->of[x_of_bit[bit][t]][end];
            segment->at[end][t][1] = ends->of[y_of_bit[bit][t]][end];
        }
        segment->edge_of[end] = (int8_t)(edge_of_bit[bit] == 1 ? triangle_of_bit[bit] : -1);
    }
}

/* The same of the crossing that was added last, of a pair that was decided. */
static void keep_decided(const struct pair_queue *queue, uint32_t ta, uint32_t tb, const struct measured_pair *m) {
    ct_crossing_lists *lists = queue->lists;
    ct_crossing_ends ends;
    if (!lists->keeps_segments || lists->is_full ||
        ct_find_crossing_ends(m->sides, &m->edges, &ends) != CT_TRIANGLES_CROSS)
        return;
    ct_crossing *last[2];
    for (int b = 0; b < 2; b++) last[b] = (ct_crossing *)lists->of_body[b].data + lists->n[b] - 1;
    ct_crossing_segment *segment = begin_segment(queue, ta, tb, (ct_crossing *[2]){last[m->first], last[1 - m->first]});
    if (segment) ct_keep_ends(&ends, segment);
}

/* Of a lane with edges that pierce: a bit each. sides, orientations: the lane's first; most, size: of the triangle that
 * comes first, and of the other one; passes: as in ct_crossing. */
static void cross_lane(const struct pair_queue *queue, uint32_t ta, uint32_t tb, int first, const double *sides,
                       const double *orientations, uint32_t piercing, v2d most, v2d size, uint32_t passes) {
    ct_crossing_lists *lists = queue->lists;
    struct piercing_edges edges;
    if (!find_piercing_edges(sides, piercing, &edges)) {
        lists->n_inconsistent++;
        return;
    }
    ct_crossing *to[2];
    for (int b = 0; b < 2; b++)
        if (!(to[b] = ct_append_crossing(lists, queue->budget, b))) return;
    const uint32_t number[2] = {queue->a->cluster * CT_CLUSTER_TRIANGLES + ta,
                                queue->b->cluster * CT_CLUSTER_TRIANGLES + tb};
    for (int b = 0; b < 2; b++) {
        to[b]->triangle = number[b];
        to[b]->other = number[1 - b];
        to[b]->crosses = true;
        memset(to[b]->turn, 0, sizeof to[b]->turn);
        to[b]->passes = passes & BOTH_PASSES;
        to[b]->segment = 0;
    }
    struct end_numbers ends;
    find_ends2(sides, orientations, &edges, &ends);
    share_crossing2(&ends, &edges, most, size, (ct_triangle_share *[2]){&to[first]->share, &to[1 - first]->share});
    if (lists->keeps_segments) keep_segment(queue, ta, tb, &ends, &edges, (ct_crossing *[2]){to[first], to[1 - first]});
}

/* Two triangles that do not cross in these passes: ct_cross_sided of them. most, size: of the triangle that comes first,
 * and of the other one. */
static void add_apart(const struct pair_queue *queue, uint32_t ta, uint32_t tb, int first, const double most[2],
                      const double size[2], uint32_t passes) {
    ct_triangle_share share[2];
    double left_out;
    const int found = ct_share_crossing(CT_TRIANGLES_APART, NULL, most, size, share, &left_out);
    if (ct_may_grow(most[0], size[0], size[1]) || ct_may_grow(most[1], size[1], size[0])) {
        const double *p[2][3];
        load_triangle(queue->a, ta, p[0]);
        load_triangle(queue->b, tb, p[1]);
        left_out += ct_near_growth(p[first], most[0], size[0], size[1]) +
                    ct_near_growth(p[1 - first], most[1], size[1], size[0]);
    }
    add_found(queue->a, ta, queue->b, tb, first, found, share, passes, passes, queue->budget, queue->lists);
    add_left_out_area(queue, ta, tb, left_out, passes);
}

/* ---- crossing four pairs ---- */

/* Four pairs as they were measured, or decided where they have ties. */
struct measured4 {
    const int *first;
    const ct_v4d *most, *size;
    const struct values4 *sides, *e;
};

static inline void measure_lane(const struct measured4 *four, int lane, struct measured_pair *m) {
    m->first = four->first[lane];
    for (int s = 0; s < 2; s++) {
        m->size[s] = four->size[s][lane];
        take_lane(&four->sides[s], lane, m->sides[s].value, m->sides[s].error);
    }
    for (int i = 0; i < 3; i++) take_lane(&four->e[i], lane, m->edges.value[i], m->edges.error[i]);
}

/* A pair of which some determinants are computed in integers, or of which little is known of the near parts. */
static void cross_pair(const struct pair_queue *queue, uint32_t ta, uint32_t tb, const struct measured4 *four,
                       int lane) {
    const ct_placed_cluster *a = queue->a, *b = queue->b;
    ct_crossing_lists *lists = queue->lists;
    const double *p[2][3];
    struct measured_pair m;
    load_triangle(a, ta, p[0]);
    load_triangle(b, tb, p[1]);
    measure_lane(four, lane, &m);
    const int moved_second = m.first ? -queue->moved : queue->moved;
    ct_triangle_share share[2];
    double left_out;
    int has_ties = 0;
    const int found =
        ct_cross_measured(p, m.first, moved_second, m.sides, m.size, &m.edges, share, &left_out, &has_ties);
    if (has_ties && lists->is_self) {
        cross_own_tied(queue, ta, tb, (const double *const(*)[3])p, found, share, left_out);
        return;
    }
    lists->has_ties |= has_ties != 0;
    const uint32_t passes = has_ties && lists->has_both ? 1 : BOTH_PASSES;
    add_found(a, ta, b, tb, 0, found, share, passes, passes, queue->budget, lists);
    if (found == CT_TRIANGLES_CROSS) keep_decided(queue, ta, tb, &m);
    add_left_out_area(queue, ta, tb, left_out, passes);
    if (passes == BOTH_PASSES) return;
    measure_lane(four, lane, &m); /* deciding wrote to it */
    const int found_next =
        ct_cross_measured(p, m.first, -moved_second, m.sides, m.size, &m.edges, share, &left_out, &has_ties);
    add_found(a, ta, b, tb, 0, found_next, share, 2, 2, queue->budget, lists);
    if (found_next == CT_TRIANGLES_CROSS) keep_decided(queue, ta, tb, &m);
    add_left_out_area(queue, ta, tb, left_out, 2);
}

/* A pair with ties that crosses in one pass at least. piercing: its edges that do, in either. */
static void cross_tied(const struct pair_queue *queue, uint32_t ta, uint32_t tb, const struct measured4 *four, int lane,
                       const struct ties4 *ties, const ct_v4l piercing[2]) {
    const double most[2] = {four->most[0][lane], four->most[1][lane]},
                 size[2] = {four->size[0][lane], four->size[1][lane]};
    for (int pass = 0; pass < 2; pass++) {
        if (!piercing[pass][lane]) {
            add_apart(queue, ta, tb, four->first[lane], most, size, 1u << pass);
            continue;
        }
        struct values4 sides[2] = {four->sides[0], four->sides[1]};
        for (int s = 0; s < 2; s++)
            for (int k = 0; k < 3; k++) {
                const ct_v4l is_below = ties->side[s][k] & (pass ? ties->sign[s] : ~ties->sign[s]);
                sides[s].value[k] = (ct_v4d)((ct_v4l)sides[s].value[k] | (is_below & INT64_MIN)); /* of a tie: -0 */
            }
        cross_lane(queue, ta, tb, four->first[lane], (const double *)sides + lane, (const double *)four->e + lane,
                   (uint32_t)piercing[pass][lane], (v2d){most[0], most[1]}, (v2d){size[0], size[1]}, 1u << pass);
    }
}

/* Pairs at .. at + n - 1, n at most 4. */
static void cross_queue(struct pair_queue *queue, uint32_t at, uint32_t n) {
    struct triangles4 pairs[2];
    struct normal4 normal[2];
    struct values4 sides[2], e[3];
    struct ties4 ties; /* only filled where needed, as it is large */
    int first[4];
    ties.known = ties.tied = 0;
    for (uint32_t i = n; i < 4; i++)
        for (int s = 0; s < 2; s++) queue->triangle[s][at + i] = queue->triangle[s][at];
    load_pairs(queue, at, first, pairs);
    for (int s = 0; s < 2; s++) normal[s] = normals_of(pairs[s].corner);
    uint32_t needs_integers = find_sides4(pairs[0].corner, &pairs[1].corner[0], &normal[1], &sides[0]);
    needs_integers |= find_sides4(pairs[1].corner, &pairs[0].corner[0], &normal[0], &sides[1]);
    if (__builtin_expect(needs_integers, 0) && queue->has_both && may_have_ties(sides)) {
        decide_sides4(queue->moved, first, pairs, normal, sides, &ties);
        needs_integers &= ~ties.known;
    }
    const ct_v4d size[2] = {size1_of(&normal[0]), size1_of(&normal[1])};
    const uint32_t beyond =
        ct_v4l_to_bits(find_beyond(&sides[0], size[1]) | find_beyond(&sides[1], size[0])) & ~needs_integers;
    const uint32_t all = ((1u << n) - 1) & ~beyond;
    if (!all) return;
    const uint32_t tied = ties.tied & all;
    uint32_t apart = 0; /* tied lanes that do not cross in either pass */
    ct_v4l of_ties[2];  /* as piercing, of tied lanes in either pass */
    ct_v4l piercing = {0, 0, 0, 0};
    if (tied) {
        queue->lists->has_ties = true;
        apart = find_one_sided(&ties, sides) & tied;
        if (tied & ~apart) apart |= find_apart_at_vertex(&ties, pairs, sides) & tied;
    }
    if (all & ~apart) {
        needs_integers |= find_edge_values4(pairs, sides, e) & ~tied;
        piercing = find_piercing(sides, e);
        if (tied & ~apart) {
            needs_integers |= find_tied_piercing(&ties, pairs, sides, e, of_ties) & tied & ~apart;
            apart |= ct_v4l_to_bits((of_ties[0] | of_ties[1]) == 0) & tied & ~needs_integers;
        }
    }
    uint32_t long_way = needs_integers, matters = all;
    const ct_v4d most[2] = {find_largest_sides(&sides[0]), find_largest_sides(&sides[1])};
    if (all & ~needs_integers) {
        /* Rounding does not matter for what goes the long way: near parts above CT_NEAR_PART, and all of a triangle. */
        const ct_v4l near = (size[1] * (16 * 1024 * 1.0001) >= most[0]) | (size[0] * (16 * 1024 * 1.0001) >= most[1]);
        const ct_v4l wholly_near = (16 * size[1] >= most[0]) | (16 * size[0] >= most[1]);
        long_way |= ct_v4l_to_bits(wholly_near);
        if (queue->has_narrow) long_way |= ct_v4l_to_bits(find_narrow(pairs, size));
        matters &= long_way | ((ct_v4l_to_bits(piercing != 0) | tied) & ~apart) | ct_v4l_to_bits(near);
        matters |= add_small_near_areas(most, size, all & ~matters, &queue->left_out);
    }
    for (uint32_t left = matters; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const uint32_t ta = queue->triangle[0][at + (uint32_t)lane], tb = queue->triangle[1][at + (uint32_t)lane];
        const double size_of_lane[2] = {size[0][lane], size[1][lane]}, most_of_lane[2] = {most[0][lane], most[1][lane]};
        const struct measured4 four = {first, most, size, sides, e};
        if ((long_way & ~apart) >> lane & 1)
            cross_pair(queue, ta, tb, &four, lane);
        else if ((tied & ~apart) >> lane & 1)
            cross_tied(queue, ta, tb, &four, lane, &ties, of_ties);
        else if (piercing[lane] && !(apart >> lane & 1))
            cross_lane(queue, ta, tb, first[lane], (const double *)sides + lane, (const double *)e + lane,
                       (uint32_t)piercing[lane], (v2d){most_of_lane[0], most_of_lane[1]},
                       (v2d){size_of_lane[0], size_of_lane[1]}, BOTH_PASSES);
        else
            add_apart(queue, ta, tb, first[lane], most_of_lane, size_of_lane, BOTH_PASSES);
    }
}

#endif
