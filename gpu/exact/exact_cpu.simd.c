/* exact_cpu.simd.c - the kernels of the method `exact`, compiled once per instruction set. */
#include "gpu/exact/exact_cpu.h"

#include <math.h>
#include <string.h>

#include "gpu/base/simd.h"

typedef float v8f __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));

static inline ct_v4d load_point(const double *p) {
    ct_v4d v;
    memcpy(&v, __builtin_assume_aligned(p, 32), sizeof v);
    return v;
}

static inline void store_point(double *p, ct_v4d v) {
    memcpy(__builtin_assume_aligned(p, 32), &v, sizeof v);
}

static inline ct_v4d absolute(ct_v4d x) {
    return (ct_v4d)((ct_v4l)x & INT64_MAX);
}

static inline ct_v4d smaller(ct_v4d a, ct_v4d b) {
#ifdef __AVX2__
    return (ct_v4d)_mm256_min_pd((__m256d)a, (__m256d)b);
#else
    const ct_v4l take = a < b;
    return (ct_v4d)((take & (ct_v4l)a) | (~take & (ct_v4l)b));
#endif
}

static inline ct_v4d larger(ct_v4d a, ct_v4d b) {
#ifdef __AVX2__
    return (ct_v4d)_mm256_max_pd((__m256d)a, (__m256d)b);
#else
    const ct_v4l take = a > b;
    return (ct_v4d)((take & (ct_v4l)a) | (~take & (ct_v4l)b));
#endif
}

static inline ct_v4f to_floats(ct_v4d x) {
#ifdef __AVX2__
    return (ct_v4f)_mm256_cvtpd_ps((__m256d)x);
#else
    return __builtin_convertvector(x, ct_v4f);
#endif
}

static inline ct_v4f absolute4(ct_v4f x) {
    return (ct_v4f)((ct_v4i)x & INT32_MAX);
}

static inline ct_v4f smaller4(ct_v4f a, ct_v4f b) {
#ifdef __AVX2__
    return (ct_v4f)_mm_min_ps((__m128)a, (__m128)b);
#else
    const ct_v4i take = a < b;
    return (ct_v4f)((take & (ct_v4i)a) | (~take & (ct_v4i)b));
#endif
}

static inline ct_v4f larger4(ct_v4f a, ct_v4f b) {
#ifdef __AVX2__
    return (ct_v4f)_mm_max_ps((__m128)a, (__m128)b);
#else
    const ct_v4i take = a > b;
    return (ct_v4f)((take & (ct_v4i)a) | (~take & (ct_v4i)b));
#endif
}

/* ---- four triangles at a time ---- */

/* x, y, z of a corner, or of a vector, of four triangles. */
struct vector4 {
    ct_v4d of[3];
};

/* Four triangles; lanes that are not used repeat the first one. */
struct triangles4 {
    struct vector4 corner[3];
};

static inline void transpose_points(ct_v4d p, ct_v4d q, ct_v4d r, ct_v4d s, struct vector4 *to) {
    const ct_v4d a = __builtin_shufflevector(p, q, 0, 4, 2, 6), b = __builtin_shufflevector(p, q, 1, 5, 3, 7);
    const ct_v4d c = __builtin_shufflevector(r, s, 0, 4, 2, 6), d = __builtin_shufflevector(r, s, 1, 5, 3, 7);
    to->of[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    to->of[1] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    to->of[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
}

static inline void load_triangles4(const ct_placed_cluster *c, const uint32_t t[4], struct triangles4 *to) {
    for (int k = 0; k < 3; k++)
        transpose_points(load_point(c->points[c->corners[t[0]][k]]), load_point(c->points[c->corners[t[1]][k]]),
                         load_point(c->points[c->corners[t[2]][k]]), load_point(c->points[c->corners[t[3]][k]]),
                         &to->corner[k]);
}

static inline uint32_t mask4_of(ct_v4l flags) {
#ifdef __AVX2__
    return (uint32_t)_mm256_movemask_pd((__m256d)flags);
#else
    uint32_t mask = 0;
    for (int i = 0; i < 4; i++) mask |= (uint32_t)(flags[i] & 1) << i;
    return mask;
#endif
}

/* Normals, and the sums of the sizes of their terms. */
struct normal4 {
    struct vector4 n, size;
};

static inline struct normal4 normals_of(const struct vector4 p[3]) {
    struct normal4 out;
    for (int k = 0; k < 3; k++) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        const ct_v4d a = (p[1].of[i] - p[0].of[i]) * (p[2].of[j] - p[0].of[j]);
        const ct_v4d b = (p[1].of[j] - p[0].of[j]) * (p[2].of[i] - p[0].of[i]);
        out.n.of[k] = a - b;
        out.size.of[k] = absolute(a) + absolute(b);
    }
    return out;
}

/* ---- placing ---- */

/* Around a triangle's box: two units, so that triangles closer than that are looked at, and as many for rounding. */
static const float BOX_MARGIN = 4;

/* Rounding a coordinate to float moves it by 2^-24 of itself at most. */
static const float FLOAT_ROUNDING = 0x1p-23f;

static inline v8f load8(const float *p) {
    v8f v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline v8f absolute8(v8f x) {
    return (v8f)((v8i)x & INT32_MAX);
}

static inline float least_of(ct_v4f v) {
    const ct_v4f w = smaller4(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));
    return w[0] < w[1] ? w[0] : w[1];
}

static inline float most_of(ct_v4f v) {
    const ct_v4f w = larger4(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));
    return w[0] > w[1] ? w[0] : w[1];
}

static inline ct_v4d root4(ct_v4d x) {
#ifdef __AVX2__
    return (ct_v4d)_mm256_sqrt_pd((__m256d)x);
#else
    for (int i = 0; i < 4; i++) x[i] = sqrt(x[i]);
    return x;
#endif
}

/* Four boxes along axis k, and their corners. n: triangles that there are, of others boxes are empty. */
static inline void box_triangles(ct_triangle_floats *to, uint32_t first, int k, const struct triangles4 *triangles,
                                 uint32_t n, ct_v4f *lo, ct_v4f *hi) {
    ct_v4f corner[3];
    for (int i = 0; i < 3; i++) {
        corner[i] = to_floats(triangles->corner[i].of[k]);
        memcpy(to->corner[3 * i + k] + first, &corner[i], sizeof corner[i]);
    }
    *lo = smaller4(smaller4(corner[0], corner[1]), corner[2]);
    *hi = larger4(larger4(corner[0], corner[1]), corner[2]);
    *lo -= absolute4(*lo) * FLOAT_ROUNDING + BOX_MARGIN;
    *hi += absolute4(*hi) * FLOAT_ROUNDING + BOX_MARGIN;
    for (uint32_t i = n; i < 4; i++) {
        (*lo)[i] = INFINITY;
        (*hi)[i] = -INFINITY;
    }
    memcpy(to->box[k] + first, lo, sizeof *lo);
    memcpy(to->box[3 + k] + first, hi, sizeof *hi);
}

/* Four planes, from the corners in double: a normal in float is good to 2^-23, also of a needle. Where a normal is
 * mostly rounding the plane is 0, which leaves out nothing. */
static inline void find_planes(ct_triangle_floats *to, uint32_t first, const struct triangles4 *triangles) {
    const struct normal4 n = normals_of(triangles->corner);
    const ct_v4d length = root4(n.n.of[0] * n.n.of[0] + n.n.of[1] * n.n.of[1] + n.n.of[2] * n.n.of[2]);
    const ct_v4l is_sure = length > (n.size.of[0] + n.size.of[1] + n.size.of[2]) * 0x1p-26;
    const ct_v4d scale = (ct_v4d)(is_sure & (ct_v4l)(1 / length));
    ct_v4d distance = {0, 0, 0, 0};
    for (int k = 0; k < 3; k++) {
        const ct_v4f unit = to_floats(n.n.of[k] * scale);
        memcpy(to->plane[k] + first, &unit, sizeof unit);
        distance += ct_v4d_of_v4f(unit) * triangles->corner[0].of[k];
    }
    const ct_v4f d = to_floats(distance);
    memcpy(to->plane[3] + first, &d, sizeof d);
}

static void fill_floats(ct_placed_cluster *c) {
    ct_triangle_floats *to = c->floats;
    ct_v4f lo_all[3], hi_all[3];
    for (int k = 0; k < 3; k++) {
        lo_all[k] = (ct_v4f){0, 0, 0, 0} + INFINITY;
        hi_all[k] = (ct_v4f){0, 0, 0, 0} - INFINITY;
    }
    for (uint32_t i = 0; i < CT_EXACT_BLOCKS; i++)
        for (int k = 0; k < 6; k++) to->block[k][i] = k < 3 ? INFINITY : -INFINITY;
    for (uint32_t first = 0; first < c->n_triangles; first += CT_EXACT_BLOCK) {
        if (!(c->blocks >> first / CT_EXACT_BLOCK & 1)) continue;
        ct_v4f lo[2][3], hi[2][3];
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t four = first + 4 * half;
            const uint32_t left = four < c->n_triangles ? c->n_triangles - four : 0, n = left < 4 ? left : 4;
            struct triangles4 triangles;
            load_triangles4(
                c,
                (const uint32_t[4]){n > 0 ? four : 0, n > 1 ? four + 1 : 0, n > 2 ? four + 2 : 0, n > 3 ? four + 3 : 0},
                &triangles);
            for (int k = 0; k < 3; k++) box_triangles(to, four, k, &triangles, n, &lo[half][k], &hi[half][k]);
            find_planes(to, four, &triangles);
        }
        for (int k = 0; k < 3; k++) {
            const ct_v4f least = smaller4(lo[0][k], lo[1][k]), most = larger4(hi[0][k], hi[1][k]);
            to->block[k][first / CT_EXACT_BLOCK] = least_of(least);
            to->block[3 + k][first / CT_EXACT_BLOCK] = most_of(most);
            lo_all[k] = smaller4(lo_all[k], least);
            hi_all[k] = larger4(hi_all[k], most);
        }
    }
    for (int k = 0; k < 3; k++) {
        c->lo[k] = least_of(lo_all[k]);
        c->hi[k] = most_of(hi_all[k]);
    }
}

/* Vertices ahead: a cluster's are scattered over the mesh's. Where they lie side by side, this reaches into the next
 * cluster, which is likely to follow. */
enum { PREFETCH = 16, PREFETCH_RUN = 64 };

static inline void place_points(ct_placed_cluster *c, const ct_lattice_pose *pose, const float *positions) {
    ct_v4d column[4], residual = {0, 0, 0, 0};
    for (int j = 0; j < 4; j++) column[j] = (ct_v4d){pose->row[0][j], pose->row[1][j], pose->row[2][j], 0};
    for (uint32_t v = 0; v < c->n_vertices; v++) {
        if (!positions)
            __builtin_prefetch(c->positions[v] + 3 * PREFETCH_RUN);
        else if (v + PREFETCH < c->n_vertices)
            __builtin_prefetch(positions + 3 * (size_t)c->vertices[v + PREFETCH]);
        const float *p = positions ? positions + 3 * (size_t)c->vertices[v] : c->positions[v];
        const ct_v4d x = column[0] * (double)p[0] + column[1] * (double)p[1] + column[2] * (double)p[2] + column[3];
        const ct_v4d on_lattice = (x + CT_ROUND_MAGIC) - CT_ROUND_MAGIC;
        residual = larger(residual, absolute(x - on_lattice));
        memcpy(c->points[v], &on_lattice, sizeof on_lattice);
    }
    c->residual = fmax(residual[0], fmax(residual[1], residual[2]));
}

static void place(ct_placed_cluster *c, const ct_lattice_pose *pose, const float *positions) {
    if (c->positions)
        place_points(c, pose, NULL);
    else
        place_points(c, pose, positions);
    if (c->floats) fill_floats(c);
}

/* ---- crossing ---- */

static void add_crossing(ct_crossing_lists *lists, ct_budget *budget, int body, uint32_t triangle, uint32_t other,
                         const ct_triangle_share *share, bool crosses, uint32_t passes) {
    const ct_crossing crossing = {
        .triangle = triangle, .other = other, .share = *share, .crosses = crosses, .passes = (uint8_t)passes};
    ct_list_crossing(lists, budget, body, &crossing);
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

/* A pair of which some determinants are computed in integers. */
static void cross_pair(const ct_placed_cluster *a, uint32_t ta, const ct_placed_cluster *b, uint32_t tb, int moved,
                       ct_budget *budget, ct_crossing_lists *lists) {
    const double *p[2][3];
    load_triangle(a, ta, p[0]);
    load_triangle(b, tb, p[1]);
    ct_triangle_share share[2];
    int has_ties = 0;
    const int found = ct_cross_pair(p, moved, share, &has_ties);
    const bool is_one_sided = lists->is_self && has_ties; /* of one body: either triangle sees the other one move */
    add_found(a, ta, b, tb, 0, found, share, is_one_sided ? 1 : 3, is_one_sided ? 2 : 3, budget, lists);
    lists->has_ties |= has_ties && (!is_one_sided || found == CT_TRIANGLES_CROSS);
    if (!is_one_sided) return;
    const int found_next = ct_cross_pair(p, -moved, share, &has_ties);
    add_found(a, ta, b, tb, 0, found_next, share, 2, 1, budget, lists);
    lists->has_ties |= found_next == CT_TRIANGLES_CROSS; /* if neither crosses, the passes do not differ */
}

/* ---- four pairs at a time ---- */

/* Pairs of triangles that no plane separates, until there are four. */
struct pair_queue {
    const ct_placed_cluster *a, *b;
    int moved;
    ct_budget *budget;
    ct_crossing_lists *lists;
    uint32_t n, triangle[2][4];
};

/* The corners of four pairs' first triangles, and of their second ones. */
static inline void load_pairs(const struct pair_queue *queue, int first[4], struct triangles4 pairs[2]) {
    const double *p[2][4][3];
    for (int i = 0; i < 4; i++) {
        const double *t[2][3];
        load_triangle(queue->a, queue->triangle[0][i], t[0]);
        load_triangle(queue->b, queue->triangle[1][i], t[1]);
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

/* Signed values of four pairs at a time, with their errors. */
struct values4 {
    ct_v4d value[3], error[3];
};

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
    return mask4_of(needs_integers);
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
    return mask4_of(needs_integers);
}

/* The lanes in which an edge pierces the other triangle: its ends are on two sides of the plane, and its orientations
 * to the other triangle's edges are the same. */
static inline ct_v4l find_piercing(const struct values4 sides[2], const struct values4 e[3]) {
    ct_v4l pierces = {0, 0, 0, 0};
    for (int i = 0; i < 3; i++) {
        const ct_v4l x = e[i].value[0] > 0, y = e[i].value[1] > 0, z = e[i].value[2] > 0;
        pierces |= ((sides[0].value[i] > 0) ^ (sides[0].value[(i + 1) % 3] > 0)) & ~(x ^ y) & ~(y ^ z);
    }
    for (int j = 0; j < 3; j++) {
        const ct_v4l x = e[0].value[j] > 0, y = e[1].value[j] > 0, z = e[2].value[j] > 0;
        pierces |= ((sides[1].value[j] > 0) ^ (sides[1].value[(j + 1) % 3] > 0)) & ~(x ^ y) & ~(y ^ z);
    }
    return pierces;
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

/* The lanes in which ct_near_area may be more than CT_NEAR_PART. */
static inline ct_v4l find_near(const struct values4 *sides, ct_v4d its_size) {
    const ct_v4d most = larger(absolute(sides->value[0]), larger(absolute(sides->value[1]), absolute(sides->value[2])));
    return its_size * (16 * 1024 * 1.0001) >= most;
}

static void take_lane(const struct values4 *from, int lane, double value[3], double error[3], int sign[3]) {
    for (int k = 0; k < 3; k++) {
        value[k] = from->value[k][lane];
        error[k] = from->error[k][lane];
        sign[k] = value[k] > 0 ? 1 : -1;
    }
}

static void cross_queue(struct pair_queue *queue) {
    struct triangles4 pairs[2];
    struct normal4 normal[2];
    struct values4 sides[2], e[3];
    int first[4];
    const uint32_t n = queue->n;
    queue->n = 0;
    for (uint32_t i = n; i < 4; i++)
        for (int s = 0; s < 2; s++) queue->triangle[s][i] = queue->triangle[s][0];
    load_pairs(queue, first, pairs);
    for (int s = 0; s < 2; s++) normal[s] = normals_of(pairs[s].corner);
    uint32_t needs_integers = find_sides4(pairs[0].corner, &pairs[1].corner[0], &normal[1], &sides[0]);
    needs_integers |= find_sides4(pairs[1].corner, &pairs[0].corner[0], &normal[0], &sides[1]);
    const ct_v4d size[2] = {size1_of(&normal[0]), size1_of(&normal[1])};
    const uint32_t beyond =
        mask4_of(find_beyond(&sides[0], size[1]) | find_beyond(&sides[1], size[0])) & ~needs_integers;
    const uint32_t all = ((1u << n) - 1) & ~beyond;
    if (!all) return;
    needs_integers |= find_edge_values4(pairs, e);
    const uint32_t matters =
        mask4_of(find_piercing(sides, e) | find_near(&sides[0], size[1]) | find_near(&sides[1], size[0]));
    for (uint32_t left = all & (needs_integers | matters); left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const uint32_t ta = queue->triangle[0][lane], tb = queue->triangle[1][lane];
        if (needs_integers >> lane & 1) {
            cross_pair(queue->a, ta, queue->b, tb, queue->moved, queue->budget, queue->lists);
            continue;
        }
        ct_plane_sides of[2];
        ct_edge_signs edges;
        ct_triangle_share share[2];
        const double sizes[2] = {size[0][lane], size[1][lane]};
        for (int s = 0; s < 2; s++) take_lane(&sides[s], lane, of[s].value, of[s].error, of[s].sign);
        for (int i = 0; i < 3; i++) take_lane(&e[i], lane, edges.value[i], edges.error[i], edges.sign[i]);
        const int found = ct_finish_crossing(of, &edges, sizes, share);
        add_found(queue->a, ta, queue->b, tb, first[lane], found, share, 3, 3, queue->budget, queue->lists);
    }
}

static inline void queue_pair(struct pair_queue *queue, uint32_t ta, uint32_t tb) {
    queue->triangle[0][queue->n] = ta;
    queue->triangle[1][queue->n++] = tb;
    if (queue->n == 4) cross_queue(queue);
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

/* The triangles of a block that overlap a box, and whose planes come near it. */
static inline uint32_t triangles_near_box(const ct_triangle_floats *f, uint32_t block, const float *lo, const float *hi,
                                          float margin) {
    uint32_t found = overlapping_triangles(f, block, lo, hi);
    if (!found) return 0;
    const uint32_t t = CT_EXACT_BLOCK * block;
    v8f distance = -load8(f->plane[3] + t), reach = (v8f){0, 0, 0, 0, 0, 0, 0, 0} + margin;
    for (int k = 0; k < 3; k++) {
        const v8f n = load8(f->plane[k] + t);
        distance += n * (0.5f * (lo[k] + hi[k]));
        reach += absolute8(n) * (0.5f * (hi[k] - lo[k]));
    }
    return found & mask_of(absolute8(distance) <= reach);
}

/* The bits of a block's triangles that neither its plane nor theirs separates from triangle u of `row`. */
static inline uint32_t not_separated(const ct_triangle_floats *f, uint32_t block, const ct_triangle_floats *row,
                                     uint32_t u, float margin) {
    const uint32_t t = CT_EXACT_BLOCK * block;
    v8i near = (v8i){0, 0, 0, 0, 0, 0, 0, 0} == 0, below = near, above = near;
    for (int k = 0; k < 3; k++) { /* its corners, the row's plane */
        const v8f d = load8(f->corner[3 * k] + t) * row->plane[0][u] +
                      load8(f->corner[3 * k + 1] + t) * row->plane[1][u] +
                      load8(f->corner[3 * k + 2] + t) * row->plane[2][u] - row->plane[3][u];
        below &= d < -margin;
        above &= d > margin;
    }
    near &= ~(below | above);
    below = above = (v8i){0, 0, 0, 0, 0, 0, 0, 0} == 0;
    const v8f x = load8(f->plane[0] + t), y = load8(f->plane[1] + t), z = load8(f->plane[2] + t),
              w = load8(f->plane[3] + t);
    for (int k = 0; k < 3; k++) { /* the row's corners, its planes */
        const v8f d = x * row->corner[3 * k][u] + y * row->corner[3 * k + 1][u] + z * row->corner[3 * k + 2][u] - w;
        below &= d < -margin;
        above &= d > margin;
    }
    return mask_of(near & ~(below | above));
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

/* Triangles of block `first` .. of b, a bit each, that share no vertex with triangle ta of a. Those that share one are
 * listed; of a cluster with itself only triangles behind ta count. */
static uint32_t find_strangers(const struct pair_queue *queue, uint32_t ta, uint32_t first, uint32_t candidates) {
    const ct_placed_cluster *a = queue->a, *b = queue->b;
    uint32_t strangers = 0;
    for (; candidates; candidates &= candidates - 1) {
        const uint32_t bit = candidates & -candidates, tb = first + (uint32_t)__builtin_ctz(candidates);
        if (a == b && tb <= ta) continue;
        int shared = 0, of_a = 0, of_b = 0;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                if (a->vertices[a->corners[ta][i]] == b->vertices[b->corners[tb][j]]) {
                    shared++;
                    of_a = i;
                    of_b = j;
                }
        if (!shared) strangers |= bit;
        if (shared == 1) add_touching(queue->lists, queue->budget, ta, tb, of_a, of_b);
    }
    return strangers;
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
            memcpy(to->of[k] + half, &from, sizeof from);
            memcpy(to->of[3 + k] + half, &end, sizeof end);
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

/* ---- two clusters ---- */

static void cross(const ct_placed_cluster *a, const ct_placed_cluster *b, int moved, ct_budget *budget,
                  ct_crossing_lists *lists) {
    for (int k = 0; k < 3; k++)
        if (a->lo[k] > b->hi[k] || b->lo[k] > a->hi[k]) return;
    const float margin = plane_margin(a, b);
    const ct_triangle_floats *fa = a->floats, *fb = b->floats;
    uint32_t near_b[CT_EXACT_BLOCKS], blocks_b = 0;
    for (uint32_t left = overlapping_blocks(fb->block, a->lo, a->hi); left; left &= left - 1) {
        const uint32_t block = (uint32_t)__builtin_ctz(left);
        near_b[block] = triangles_near_box(fb, block, a->lo, a->hi, margin);
        if (near_b[block]) blocks_b |= 1u << block;
    }
    if (!blocks_b) return;
    struct pair_queue queue = {.a = a, .b = b, .moved = moved, .budget = budget, .lists = lists};
    for (uint32_t of_a = overlapping_blocks(fa->block, b->lo, b->hi); of_a; of_a &= of_a - 1) {
        const uint32_t block_a = (uint32_t)__builtin_ctz(of_a);
        float lo[3], hi[3];
        for (int k = 0; k < 3; k++) {
            lo[k] = fa->block[k][block_a];
            hi[k] = fa->block[3 + k][block_a];
        }
        const uint32_t blocks = overlapping_blocks(fb->block, lo, hi) & blocks_b;
        if (!blocks) continue;
        for (uint32_t rows = triangles_near_box(fa, block_a, b->lo, b->hi, margin); rows; rows &= rows - 1) {
            const uint32_t ta = CT_EXACT_BLOCK * block_a + (uint32_t)__builtin_ctz(rows);
            const float from[3] = {fa->box[0][ta], fa->box[1][ta], fa->box[2][ta]};
            const float to[3] = {fa->box[3][ta], fa->box[4][ta], fa->box[5][ta]};
            for (uint32_t of_b = blocks; of_b; of_b &= of_b - 1) {
                const uint32_t block = (uint32_t)__builtin_ctz(of_b);
                uint32_t left = overlapping_triangles(fb, block, from, to) & near_b[block];
                if (left) left &= not_separated(fb, block, fa, ta, margin);
                if (left && lists->is_self) left = find_strangers(&queue, ta, CT_EXACT_BLOCK * block, left);
                for (; left; left &= left - 1)
                    queue_pair(&queue, ta, CT_EXACT_BLOCK * block + (uint32_t)__builtin_ctz(left));
            }
        }
    }
    if (queue.n) cross_queue(&queue);
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
    ct_v4d first_moment, area, reach;
};

static inline void add_moments(struct surface_sums *sums, ct_v4d point, ct_v4d gradient) {
    sums->moment[0] += __builtin_shufflevector(point, point, 0, 0, 0, 0) * gradient;
    sums->moment[1] += __builtin_shufflevector(point, point, 1, 1, 1, 1) * gradient;
    sums->moment[2] += __builtin_shufflevector(point, point, 2, 2, 2, 2) * gradient;
}

/* A triangle that is not crossed: its corners get equal parts. */
static inline void add_whole(const ct_placed_cluster *c, uint32_t t, int32_t winding, double scale,
                             struct local_sums *local, struct surface_sums *sums) {
    const uint16_t *corner = c->corners[t];
    const ct_v4d p = load_point(c->points[corner[0]]), q = load_point(c->points[corner[1]]),
                 r = load_point(c->points[corner[2]]);
    const ct_v4d n = cross_product(q - p, r - p) * (double)winding, third = n * (1.0 / 6), sum = p + q + r;
    const ct_v4d steps = round_to_integer(third * scale);
    for (int k = 0; k < 3; k++) add_to_vertex(local, corner[k], steps);
    add_moments(sums, sum, third);
    /* The integral of x^2 over the barycentric domain: ((p + q + r)^2 + p^2 + q^2 + r^2) / 24. */
    sums->first_moment += n * (sum * sum + p * p + q * q + r * r) * (1.0 / 24);
    sums->area += absolute(n) / 2;
    sums->reach = larger(sums->reach, larger(absolute(p), larger(absolute(q), absolute(r))));
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
    sums->area += absolute(n) * fabs(w->of[0]);
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

static bool has_negative_corner(const ct_placed_cluster *c, const ct_winding_numbers *w, uint32_t t) {
    return winding_at(c, w, t, 0) < 0 || winding_at(c, w, t, 1) < 0 || winding_at(c, w, t, 2) < 0;
}

static void add_triangles(const ct_placed_cluster *c, const ct_winding_numbers *w, double scale,
                          const ct_exact_gradient *gradient, struct local_sums *local, struct surface_sums *surface,
                          ct_cluster_sums *sums) {
    for (uint32_t t = 0; t < c->n_triangles; t++) {
        if (t < c->n_vertices) __builtin_prefetch(gradient->of[c->vertices[t]], 1); /* add_to_body's, by and by */
        const uint32_t number = w->crossed ? w->crossed->number[t] : 0;
        const int32_t winding = winding_at(c, w, t, 1);
        if (!number && !winding) continue;
        uint32_t deepest = size_of(winding);
        if (number) {
            const ct_crossed_triangle *crossed = &w->crossed->triangles[number - 1];
            ct_integrals integrals = ct_whole_integrals(winding);
            for (int i = 0; i < CT_INTEGRALS; i++) integrals.of[i] += crossed->integrals.of[i];
            sums->near_area += crossed->near_area;
            const double *p[3];
            load_triangle(c, t, p);
            sums->rounding += ct_volume_rounding(p, crossed->rounding);
            deepest = deepest_on(c, w, t, integrals.of[0]);
            add_crossed(c, t, &integrals, scale, local, surface);
        } else {
            add_whole(c, t, winding, scale, local, surface);
        }
        if (deepest > sums->max_winding) sums->max_winding = deepest;
        sums->inverted += number ? has_negative_corner(c, w, t) : winding < 0;
    }
}

static inline void add_alone(const ct_exact_gradient *gradient, uint32_t vertex, ct_v4l g) {
    for (int k = 0; k < 3; k++) gradient->of[vertex][k] += g[k];
    gradient->touched[vertex / 64] |= 1ull << vertex % 64;
    gradient->groups[vertex / 4096] |= 1ull << vertex / 64 % 64;
}

/* Other threads add to other clusters at the same time. i: of the vertex in the list of all clusters' vertices. */
static inline void add_beside_others(const ct_exact_gradient *gradient, uint32_t vertex, uint32_t i, ct_v4l g) {
    int64_t *to = gradient->of[vertex];
    if (gradient->in_several_runs[i / 64] >> i % 64 & 1)
        for (int k = 0; k < 3; k++) __atomic_fetch_add(&to[k], g[k], __ATOMIC_RELAXED);
    else
        for (int k = 0; k < 3; k++) to[k] += g[k];
    __atomic_store_n(&gradient->marks[vertex], 1, __ATOMIC_RELAXED);
}

static void add_to_body(const ct_placed_cluster *c, const struct local_sums *local, const ct_exact_gradient *gradient) {
    for (uint32_t v = 0; v < c->n_vertices; v++) {
        const ct_v4d steps = load_point(local->of[v]) + CT_ROUND_MAGIC;
        const ct_v4l g = (ct_v4l)steps - (ct_v4l)((ct_v4d){0, 0, 0, 0} + CT_ROUND_MAGIC);
        if (!(g[0] | g[1] | g[2])) continue;
        if (gradient->marks)
            add_beside_others(gradient, c->vertices[v], c->first_vertex + v, g);
        else
            add_alone(gradient, c->vertices[v], g);
    }
}

static void add(const ct_placed_cluster *cluster, const ct_winding_numbers *w, double scale,
                const ct_exact_gradient *gradient, ct_cluster_sums *sums) {
    _Alignas(32) struct local_sums local;
    struct surface_sums surface;
    memset(&surface, 0, sizeof surface);
    memset(local.of, 0, cluster->n_vertices * sizeof *local.of);
    add_triangles(cluster, w, scale, gradient, &local, &surface, sums);
    add_to_body(cluster, &local, gradient);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) sums->moment[i][j] = surface.moment[i][j];
        sums->first_moment[i] = surface.first_moment[i] / 2;
    }
    sums->area = sum3(surface.area);
    sums->reach = sum3(surface.reach);
}

const ct_exact_cpu CT_VARIANT(ct_exact_cpu) = {place_blocks, meet_blocks, place, cross, add};
