/* cross_lanes.h - crosses pairs of triangles, four at a time, and leaves out those that
 * cannot cross. For exact_cpu.simd.c. */
#ifndef CT_EXACT_CROSS_LANES_H
#define CT_EXACT_CROSS_LANES_H

#include "gpu/exact/share_lanes.h"

/* ---- crossing ---- */

static inline void add_crossing(ct_crossing_lists *lists, ct_budget *budget, int body, uint32_t triangle,
                                uint32_t other, const ct_triangle_share *share, bool crosses, uint32_t passes) {
    ct_crossing *to = ct_append_crossing(lists, budget, body);
    if (!to) return;
    to->triangle = triangle;
    to->other = other;
    to->share = *share;
    to->crosses = crosses;
    memset(to->turn, 0, sizeof to->turn);
    to->passes = (uint8_t)passes;
}

static inline void load_triangle(const ct_placed_cluster *c, uint32_t t, const double *p[3]) {
    for (int k = 0; k < 3; k++) p[k] = c->points[c->corners[t][k]];
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

/* ---- four pairs at a time ---- */

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

/* As ct_find_edge_signs, without integers; returns the lanes in which it might need them. */
static inline uint32_t find_edge_values4(const struct triangles4 pairs[2], struct values4 e[3]) {
    struct edges4 a, b;
    ct_v4l needs_integers = {0, 0, 0, 0};
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
            needs_integers |= absolute(e[i].value[j]) <= e[i].error[j] * CT_PRECISE;
        }
    return ct_v4l_to_bits(needs_integers);
}

/* The edges that pierce the other triangle, in each lane: bit i for edge i of the first triangle, 3 + j for edge j of
 * the second. Their ends are on two sides of the plane, and their orientations to the other triangle's edges are the
 * same.
 */
static inline ct_v4l find_piercing(const struct values4 sides[2], const struct values4 e[3]) {
    ct_v4l pierce = {0, 0, 0, 0};
    for (int i = 0; i < 3; i++) {
        const ct_v4l x = e[i].value[0] > 0, y = e[i].value[1] > 0, z = e[i].value[2] > 0;
        pierce |= (((sides[0].value[i] > 0) ^ (sides[0].value[(i + 1) % 3] > 0)) & ~(x ^ y) & ~(y ^ z)) & (1 << i);
    }
    for (int j = 0; j < 3; j++) {
        const ct_v4l x = e[0].value[j] > 0, y = e[1].value[j] > 0, z = e[2].value[j] > 0;
        pierce |= (((sides[1].value[j] > 0) ^ (sides[1].value[(j + 1) % 3] > 0)) & ~(x ^ y) & ~(y ^ z)) & (8 << j);
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

/* Of a lane with edges that pierce: a bit each. sides, orientations: the lane's first; most, size: of the triangle that
 * comes first, and of the other one. */
static void cross_lane(const struct pair_queue *queue, uint32_t ta, uint32_t tb, int first, const double *sides,
                       const double *orientations, uint32_t piercing, v2d most, v2d size) {
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
        to[b]->passes = 3;
    }
    share_crossing2(sides, orientations, &edges, most, size,
                    (ct_triangle_share *[2]){&to[first]->share, &to[1 - first]->share});
}

/* ---- four pairs with ties ---- */

/* Where bodies coincide, or share vertices, nearly all pairs have ties: a corner of one triangle is one of the other's.
 * Its side is 0, whatever doubles say, and the sign that the perturbation gives it is that of the other triangle's
 * normal. So most of these pairs need no integers, and both perturbations are decided at once: the signs of ties are
 * those of the other one, reversed. */

/* The sign of vectors along (e, e^2, e^3), as ct_perturbed_cross_sign; where neither is set, doubles do not tell. */
struct signs4 {
    ct_v4l positive, negative;
};

static inline struct signs4 find_perturbed_signs(const ct_v4d of[3], const ct_v4d size[3]) {
    struct signs4 signs = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    ct_v4l is_open = {-1, -1, -1, -1};
    for (int k = 0; k < 3; k++) {
        const ct_v4d margin = size[k] * CT_FILTER;
        signs.positive |= is_open & (of[k] > margin);
        signs.negative |= is_open & (of[k] < -margin);
        is_open &= size[k] == 0; /* of both terms: then it is 0 exactly */
    }
    return signs;
}

/* The ties of four pairs. */
struct ties4 {
    ct_v4l moves_second;    /* the second triangle's body is perturbed in pass 0, else the first one's */
    ct_v4l coincides[3][3]; /* [k][j]: corner k of the first triangle is corner j of the second */
    ct_v4l side[2][3];      /* the side of a corner is a tie */
    ct_v4l sign[2];         /* in pass 0 the tied corners of this triangle are above the other one's plane */
    uint32_t known;         /* lanes whose sides are decided: with signs for their ties */
    uint32_t tied;          /* of these, lanes with a tie */
};

static inline ct_v4l are_same(const struct vector4 *a, const struct vector4 *b) {
    return (a->of[0] == b->of[0]) & (a->of[1] == b->of[1]) & (a->of[2] == b->of[2]);
}

/* False: no side is 0, so there are no ties. */
static inline bool may_have_ties(const struct values4 sides[2]) {
    ct_v4l is_small = {0, 0, 0, 0};
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < 3; k++) is_small |= absolute(sides[s].value[k]) <= sides[s].error[k];
    return ct_v4l_to_bits(is_small) != 0;
}

/* Decides sides that were measured. Of ties the values and errors become 0, as ct_decide_sides makes them. */
static void decide_sides4(const struct pair_queue *queue, const int first[4], const struct triangles4 pairs[2],
                          const struct normal4 normal[2], struct values4 sides[2], struct ties4 *ties) {
    ct_v4l is_open = {0, 0, 0, 0}, has_tie[2];
    for (int i = 0; i < 4; i++) ties->moves_second[i] = (first[i] ? -queue->moved : queue->moved) > 0 ? -1 : 0;
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < 3; j++) ties->coincides[k][j] = are_same(&pairs[0].corner[k], &pairs[1].corner[j]);
    for (int s = 0; s < 2; s++) {
        has_tie[s] = (ct_v4l){0, 0, 0, 0};
        for (int k = 0; k < 3; k++) {
            ct_v4l tie = sides[s].error[k] == 0; /* all terms are 0 */
            for (int j = 0; j < 3; j++) tie |= s ? ties->coincides[j][k] : ties->coincides[k][j];
            is_open |= (absolute(sides[s].value[k]) <= sides[s].error[k] * CT_PRECISE) & ~tie;
            sides[s].value[k] = (ct_v4d)(~tie & (ct_v4l)sides[s].value[k]);
            sides[s].error[k] = (ct_v4d)(~tie & (ct_v4l)sides[s].error[k]);
            ties->side[s][k] = tie;
            has_tie[s] |= tie;
        }
    }
    for (int s = 0; s < 2; s++) {
        const struct signs4 plane = find_perturbed_signs(normal[1 - s].n.of, normal[1 - s].size.of);
        const ct_v4l along = s ? ties->moves_second : ~ties->moves_second; /* it is the corners that move */
        ties->sign[s] = (along & plane.positive) | (~along & plane.negative);
        is_open |= has_tie[s] & ~(plane.positive | plane.negative);
    }
    ties->known = ct_v4l_to_bits(~is_open);
    ties->tied = ct_v4l_to_bits(has_tie[0] | has_tie[1]) & ties->known;
}

/* Whether corner k of triangle s is above the other one's plane. */
static inline ct_v4l is_above(const struct ties4 *ties, const struct values4 sides[2], int s, int k, int pass) {
    const ct_v4l sign = pass ? ~ties->sign[s] : ties->sign[s];
    return (ties->side[s][k] & sign) | (~ties->side[s][k] & (sides[s].value[k] > 0));
}

/* The lanes in which one of the triangles is on one side of the other's plane, in both passes: they do not cross. */
static inline uint32_t find_one_sided(const struct ties4 *ties, const struct values4 sides[2]) {
    ct_v4l both = {-1, -1, -1, -1};
    for (int pass = 0; pass < 2; pass++) {
        ct_v4l is_one_sided = {0, 0, 0, 0};
        for (int s = 0; s < 2; s++) {
            const ct_v4l at[3] = {is_above(ties, sides, s, 0, pass), is_above(ties, sides, s, 1, pass),
                                  is_above(ties, sides, s, 2, pass)};
            is_one_sided |= ~((at[0] ^ at[1]) | (at[1] ^ at[2]));
        }
        both &= is_one_sided;
    }
    return ct_v4l_to_bits(both);
}

/* Where the mask is set, a, elsewhere b. */
static inline ct_v4d choose(ct_v4l mask, ct_v4d a, ct_v4d b) {
#ifdef __AVX2__
    return (ct_v4d)_mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)mask);
#else
    return (ct_v4d)((mask & (ct_v4l)a) | (~mask & (ct_v4l)b));
#endif
}

/* A triangle of which one corner is a tie, turned so that this corner v comes first: the other two, seen from v, and
 * whether these are above the other triangle's plane. */
struct turned4 {
    ct_v4d next[3], last[3];
    ct_v4l next_above, last_above;
};

static inline void turn_to_tie(const struct triangles4 *t, const ct_v4l tie[3], const struct values4 *sides,
                               struct turned4 *to) {
    for (int k = 0; k < 3; k++) {
        const ct_v4d p[3] = {t->corner[0].of[k], t->corner[1].of[k], t->corner[2].of[k]};
        const ct_v4d v = choose(tie[0], p[0], choose(tie[1], p[1], p[2]));
        to->next[k] = choose(tie[0], p[1], choose(tie[1], p[2], p[0])) - v;
        to->last[k] = choose(tie[0], p[2], choose(tie[1], p[0], p[1])) - v;
    }
    const ct_v4d *value = sides->value;
    to->next_above = choose(tie[0], value[1], choose(tie[1], value[2], value[0])) > 0;
    to->last_above = choose(tie[0], value[2], choose(tie[1], value[0], value[1])) > 0;
}

/* The sign of a x b along (e, e^2, e^3), from its first component. *is_open: lanes in which that does not tell. */
static inline ct_v4l find_cross_sign(const ct_v4d a[3], const ct_v4d b[3], ct_v4l *is_open) {
    const ct_v4d u = a[1] * b[2], v = a[2] * b[1], cross = u - v;
    *is_open |= absolute(cross) <= (absolute(u) + absolute(v)) * CT_FILTER;
    return cross > 0;
}

static inline ct_v4l are_alike(ct_v4l x, ct_v4l y, ct_v4l z) {
    return ~((x ^ y) | (y ^ z));
}

/* Of lanes whose sides are decided: those in which the triangles v a b and v c d have nothing but v in common, and no
 * edge pierces the other triangle in either pass. Most determinants of two edges are those of a side, or 0: see
 * ct_find_vertex_crossing in self_k.h, which has the same signs. */
static uint32_t find_apart_at_vertex(const struct ties4 *ties, const struct triangles4 pairs[2],
                                     const struct values4 sides[2]) {
    struct turned4 t, u;
    ct_v4l is_open = {0, 0, 0, 0}, pierces = {0, 0, 0, 0}, has_one[2], meets = {0, 0, 0, 0};
    for (int s = 0; s < 2; s++) {
        const ct_v4l *tie = ties->side[s];
        has_one[s] = (tie[0] ^ tie[1] ^ tie[2]) & ~(tie[0] & tie[1] & tie[2]);
    }
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < 3; j++) meets |= ties->coincides[k][j];
    const ct_v4l fits = has_one[0] & has_one[1] & meets;
    if (!ct_v4l_to_bits(fits)) return 0;
    turn_to_tie(&pairs[0], ties->side[0], &sides[0], &t);
    turn_to_tie(&pairs[1], ties->side[1], &sides[1], &u);
    const ct_v4l ac = find_cross_sign(t.next, u.next, &is_open), ad = find_cross_sign(t.next, u.last, &is_open);
    const ct_v4l bc = find_cross_sign(t.last, u.next, &is_open), bd = find_cross_sign(t.last, u.last, &is_open);
    /* Of a b and c d: det(b - a, c - a, d - a). */
    ct_v4d along[3], to_c[3], to_d[3], value = {0, 0, 0, 0}, error = {0, 0, 0, 0};
    for (int k = 0; k < 3; k++) {
        along[k] = t.last[k] - t.next[k];
        to_c[k] = u.next[k] - t.next[k];
        to_d[k] = u.last[k] - t.next[k];
    }
    for (int k = 0; k < 3; k++) {
        const int x = (k + 1) % 3, y = (k + 2) % 3;
        const ct_v4d p = to_c[x] * to_d[y], q = to_c[y] * to_d[x];
        value += along[k] * (p - q);
        error += absolute(along[k]) * (absolute(p) + absolute(q));
    }
    is_open |= absolute(value) <= error * CT_FILTER;
    const ct_v4l opposite = value > 0, a = t.next_above, b = t.last_above, c = u.next_above, d = u.last_above;
    pierces |= (a ^ b) & are_alike(c, opposite, ~d);
    pierces |= (c ^ d) & are_alike(a, opposite, ~b);
    for (int pass = 0; pass < 2; pass++) {
        const ct_v4l moves_second = pass ? ~ties->moves_second : ties->moves_second;
        const ct_v4l v_above[2] = {pass ? ~ties->sign[0] : ties->sign[0], pass ? ~ties->sign[1] : ties->sign[1]};
        /* Of edges v a, b v and v c, d v. */
        const ct_v4l va_vc = ac ^ moves_second, va_dv = ~ad ^ moves_second, bv_vc = ~bc ^ moves_second,
                     bv_dv = bd ^ moves_second;
        pierces |= (v_above[0] ^ a) & are_alike(va_vc, a, va_dv);
        pierces |= (v_above[0] ^ b) & are_alike(bv_vc, ~b, bv_dv);
        pierces |= (v_above[1] ^ c) & are_alike(va_vc, c, bv_vc);
        pierces |= (v_above[1] ^ d) & are_alike(va_dv, ~d, bv_dv);
    }
    return ct_v4l_to_bits(fits & ~is_open & ~pierces);
}

/* Of lanes whose sides are decided: those in which an edge pierces the other triangle in either pass, or in which
 * doubles do not tell. Edges with a common end have a determinant of 0. */
static uint32_t find_tied_piercing(const struct ties4 *ties, const struct triangles4 pairs[2],
                                   const struct values4 sides[2], const struct values4 e[3]) {
    ct_v4l above[2][3][3], is_open = {0, 0, 0, 0}, pierces = {0, 0, 0, 0}; /* above[pass][i][j]: the sign of e[i][j] */
    ct_v4l changes[2][2][3];                                               /* [pass][s][k]: edge k meets the plane */
    for (int pass = 0; pass < 2; pass++)
        for (int s = 0; s < 2; s++)
            for (int k = 0; k < 3; k++)
                changes[pass][s][k] = is_above(ties, sides, s, k, pass) ^ is_above(ties, sides, s, (k + 1) % 3, pass);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const int i1 = (i + 1) % 3, j1 = (j + 1) % 3;
            const ct_v4l tie =
                ties->coincides[i][j] | ties->coincides[i][j1] | ties->coincides[i1][j] | ties->coincides[i1][j1];
            const ct_v4l matters =
                changes[0][0][i] | changes[1][0][i] | changes[0][1][j] | changes[1][1][j]; /* as in ct_decide_edges */
            ct_v4d cross[3], size[3];
            for (int k = 0; k < 3; k++) {
                const int x = (k + 1) % 3, y = (k + 2) % 3;
                const ct_v4d u = (pairs[0].corner[i1].of[x] - pairs[0].corner[i].of[x]) *
                                 (pairs[1].corner[j1].of[y] - pairs[1].corner[j].of[y]);
                const ct_v4d v = (pairs[0].corner[i1].of[y] - pairs[0].corner[i].of[y]) *
                                 (pairs[1].corner[j1].of[x] - pairs[1].corner[j].of[x]);
                cross[k] = u - v;
                size[k] = absolute(u) + absolute(v);
            }
            const struct signs4 sign = find_perturbed_signs(cross, size);
            /* The sign of a tie is against the cross product where the second edge moves. Edges with both ends in
             * common have none, and are never asked for: both of their ends are ties, on the same side. */
            const ct_v4l is_same =
                (ties->coincides[i][j] & ties->coincides[i1][j1]) | (ties->coincides[i][j1] & ties->coincides[i1][j]);
            const ct_v4l of_tie = (ties->moves_second & sign.negative) | (~ties->moves_second & sign.positive);
            is_open |= matters & tie & ~is_same & ~(sign.positive | sign.negative);
            is_open |= matters & ~tie & (absolute(e[i].value[j]) <= e[i].error[j] * CT_PRECISE);
            const ct_v4l of_value = ~tie & (e[i].value[j] > 0);
            above[0][i][j] = (tie & of_tie) | of_value;
            above[1][i][j] = (tie & ~of_tie) | of_value;
        }
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < 3; k++) {
            const ct_v4l *own = above[pass][k];
            pierces |= changes[pass][0][k] & ~(own[0] ^ own[1]) & ~(own[1] ^ own[2]);
            const ct_v4l of[3] = {above[pass][0][k], above[pass][1][k], above[pass][2][k]};
            pierces |= changes[pass][1][k] & ~(of[0] ^ of[1]) & ~(of[1] ^ of[2]);
        }
    return ct_v4l_to_bits(is_open | pierces);
}

/* Edges with a common end have a determinant of 0, as ct_decide_edges finds after more work. */
static void drop_tied_edges(const struct ties4 *ties, int lane, ct_edge_signs *edges) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const int i1 = (i + 1) % 3, j1 = (j + 1) % 3;
            if (ties->coincides[i][j][lane] | ties->coincides[i][j1][lane] | ties->coincides[i1][j][lane] |
                ties->coincides[i1][j1][lane])
                edges->value[i][j] = edges->error[i][j] = 0;
        }
}

/* Two triangles that do not cross in either pass: ct_cross_sided of them. most, size: of the triangle that comes first,
 * and of the other one. */
static void add_apart(const struct pair_queue *queue, uint32_t ta, uint32_t tb, int first, const double most[2],
                      const double size[2]) {
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
    add_found(queue->a, ta, queue->b, tb, first, found, share, BOTH_PASSES, BOTH_PASSES, queue->budget, queue->lists);
    add_left_out_area(queue, ta, tb, left_out, BOTH_PASSES);
}

/* ---- pairs one by one ---- */

/* Four pairs as they were measured, or decided where they have ties. */
struct measured4 {
    const int *first;
    const ct_v4d *size;
    const struct values4 *sides, *e;
    const struct ties4 *ties; /* of lanes that are `tied` */
    uint32_t tied;
};

static inline void measure_lane(const struct measured4 *four, int lane, struct measured_pair *m) {
    m->first = four->first[lane];
    for (int s = 0; s < 2; s++) {
        m->size[s] = four->size[s][lane];
        take_lane(&four->sides[s], lane, m->sides[s].value, m->sides[s].error);
    }
    for (int i = 0; i < 3; i++) take_lane(&four->e[i], lane, m->edges.value[i], m->edges.error[i]);
    if (four->tied >> lane & 1) drop_tied_edges(four->ties, lane, &m->edges);
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
    add_left_out_area(queue, ta, tb, left_out, passes);
    if (passes == BOTH_PASSES) return;
    measure_lane(four, lane, &m); /* deciding wrote to it */
    const int found_next =
        ct_cross_measured(p, m.first, -moved_second, m.sides, m.size, &m.edges, share, &left_out, &has_ties);
    add_found(a, ta, b, tb, 0, found_next, share, 2, 2, queue->budget, lists);
    add_left_out_area(queue, ta, tb, left_out, 2);
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
        decide_sides4(queue, first, pairs, normal, sides, &ties);
        needs_integers &= ~ties.known;
    }
    const ct_v4d size[2] = {size1_of(&normal[0]), size1_of(&normal[1])};
    const uint32_t beyond =
        ct_v4l_to_bits(find_beyond(&sides[0], size[1]) | find_beyond(&sides[1], size[0])) & ~needs_integers;
    const uint32_t all = ((1u << n) - 1) & ~beyond;
    if (!all) return;
    const uint32_t tied = ties.tied & all;
    uint32_t apart = 0; /* tied lanes that do not cross in either pass */
    ct_v4l piercing = {0, 0, 0, 0};
    if (tied) {
        queue->lists->has_ties = true;
        apart = find_one_sided(&ties, sides) & tied;
        if (tied & ~apart) apart |= find_apart_at_vertex(&ties, pairs, sides) & tied;
    }
    if (all & ~apart) {
        const uint32_t open = find_edge_values4(pairs, e);
        if (tied & ~apart) apart |= ~find_tied_piercing(&ties, pairs, sides, e) & tied;
        needs_integers |= (open | tied) & ~apart;
        piercing = find_piercing(sides, e);
    }
    uint32_t long_way = needs_integers, matters = all;
    const ct_v4d most[2] = {find_largest_sides(&sides[0]), find_largest_sides(&sides[1])};
    if (all & ~needs_integers) {
        /* Rounding does not matter for what goes the long way: near parts above CT_NEAR_PART, and all of a triangle. */
        const ct_v4l near = (size[1] * (16 * 1024 * 1.0001) >= most[0]) | (size[0] * (16 * 1024 * 1.0001) >= most[1]);
        const ct_v4l wholly_near = (16 * size[1] >= most[0]) | (16 * size[0] >= most[1]);
        long_way |= ct_v4l_to_bits(wholly_near);
        if (queue->has_narrow) long_way |= ct_v4l_to_bits(find_narrow(pairs, size));
        matters &= long_way | (ct_v4l_to_bits(piercing != 0) & ~apart) | ct_v4l_to_bits(near);
        matters |= add_small_near_areas(most, size, all & ~matters, &queue->left_out);
    }
    for (uint32_t left = matters; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const uint32_t ta = queue->triangle[0][at + (uint32_t)lane], tb = queue->triangle[1][at + (uint32_t)lane];
        const double size_of_lane[2] = {size[0][lane], size[1][lane]}, most_of_lane[2] = {most[0][lane], most[1][lane]};
        if (apart >> lane & 1) {
            add_apart(queue, ta, tb, first[lane], most_of_lane, size_of_lane);
            continue;
        }
        if (long_way >> lane & 1) {
            const struct measured4 four = {first, size, sides, e, &ties, tied};
            cross_pair(queue, ta, tb, &four, lane);
            continue;
        }
        if (piercing[lane]) {
            cross_lane(queue, ta, tb, first[lane], (const double *)sides + lane, (const double *)e + lane,
                       (uint32_t)piercing[lane], (v2d){most_of_lane[0], most_of_lane[1]},
                       (v2d){size_of_lane[0], size_of_lane[1]});
            continue;
        }
        ct_triangle_share share[2];
        double left_out;
        const int found = ct_share_crossing(CT_TRIANGLES_APART, NULL, most_of_lane, size_of_lane, share, &left_out);
        add_found(queue->a, ta, queue->b, tb, first[lane], found, share, BOTH_PASSES, BOTH_PASSES, queue->budget,
                  queue->lists);
        add_left_out_area(queue, ta, tb, left_out, BOTH_PASSES);
    }
}

/* ---- leaving out most pairs ---- */

static inline uint32_t mask_of(v8i flags) {
#ifdef __AVX2__
    return (uint32_t)_mm256_movemask_ps((__m256)flags);
#else
    uint32_t mask = 0;
    for (int i = 0; i < 8; i++) mask |= (uint32_t)(flags[i] & 1) << i;
    return mask;
#endif
}

static inline uint32_t count_bits8(uint32_t bits) {
#ifdef __AVX2__
    return (uint32_t)__builtin_popcount(bits);
#else
    bits -= bits >> 1 & 0x55;
    bits = (bits & 0x33) + (bits >> 2 & 0x33);
    return (bits + (bits >> 4)) & 15;
#endif
}

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

/* ---- leaving out most clusters ---- */

static inline v8f load_bytes8(const uint8_t *p) {
    typedef uint8_t v8b __attribute__((vector_size(8)));
    v8b v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, v8f);
}

/* Around the cluster along axis k, with 2^-20 of the coordinates and 16 units more on either side: what the sums below
 * are rounded by in floats, and how far a triangle's box reaches from the triangle (fill_floats), come to less than
 * 2^-21 of them and 8 units. */
static inline void place_extent(const ct_cluster_box *box, const ct_lattice_pose *pose, int k, float *lo, float *hi) {
    const double *row = pose->row[k];
    double at = row[3], half = 0, size = fabs(row[3]);
    for (int j = 0; j < 3; j++) {
        const double middle = 0.5 * ((double)box->lo[j] + (double)box->hi[j]);
        at += row[j] * middle;
        half += fabs(row[j]) * (0.5 * ((double)box->hi[j] - (double)box->lo[j]));
        size += fabs(row[j] * middle);
    }
    const double margin = (fabs(at) + 2 * half) * 0x1p-20 + size * 0x1p-48 + pose->rounding + 16;
    *lo = (float)(at - half - margin);
    *hi = (float)(at + half + margin);
}

static void place_blocks(const ct_rigid_blocks *blocks, const ct_cluster_box *box, const ct_lattice_pose *pose,
                         ct_block_boxes *to) {
    double step[3];
    for (int j = 0; j < 3; j++) step[j] = ct_block_step(box, j);
    for (int k = 0; k < 3; k++) place_extent(box, pose, k, &to->lo[k], &to->hi[k]);
    for (int half = 0; half < CT_EXACT_BLOCKS; half += 8) {
        v8f inset[6];
        for (int i = 0; i < 6; i++) inset[i] = load_bytes8(blocks->inset[i] + half);
        for (int k = 0; k < 3; k++) {
            v8f from = (v8f){0, 0, 0, 0, 0, 0, 0, 0} + to->lo[k], end = (v8f){0, 0, 0, 0, 0, 0, 0, 0} + to->hi[k];
            for (int j = 0; j < 3; j++) {
                const float steps = (float)(pose->row[k][j] * step[j]);
                const v8f low = steps > 0 ? inset[j] : inset[3 + j], high = steps > 0 ? inset[3 + j] : inset[j];
                from += fabsf(steps) * low; /* the side of the box that is lower along k */
                end -= fabsf(steps) * high;
            }
            store8(to->of[k] + half, from);
            store8(to->of[3 + k] + half, end);
        }
    }
}

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

#endif
