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
    const ct_v4i take = a < b;
    return (ct_v4f)((take & (ct_v4i)a) | (~take & (ct_v4i)b));
}

static inline ct_v4f larger4(ct_v4f a, ct_v4f b) {
    const ct_v4i take = a > b;
    return (ct_v4f)((take & (ct_v4i)a) | (~take & (ct_v4i)b));
}

/* ---- placing ---- */

/* Around a triangle's box: two units, so that triangles closer than that are looked at, and as many for rounding. */
static const float BOX_MARGIN = 4;

/* Rounding a coordinate to float moves it by 2^-24 of itself at most. */
static const float FLOAT_ROUNDING = 0x1p-23f;

/* A triangle's box; lane 3 is unused. */
struct box4 {
    ct_v4f lo, hi;
};

static inline struct box4 box_of(const ct_placed_cluster *c, uint32_t t) {
    const uint16_t *corner = c->corners[t];
    const ct_v4d p = load_point(c->points[corner[0]]), q = load_point(c->points[corner[1]]),
                 r = load_point(c->points[corner[2]]);
    const ct_v4f lo = to_floats(smaller(smaller(p, q), r)), hi = to_floats(larger(larger(p, q), r));
    return (struct box4){lo - (absolute4(lo) * FLOAT_ROUNDING + BOX_MARGIN),
                         hi + (absolute4(hi) * FLOAT_ROUNDING + BOX_MARGIN)};
}

/* Writes x, y, z of four boxes' corners to arrays of x, of y and of z. */
static inline void store_transposed(ct_v4f a, ct_v4f b, ct_v4f c, ct_v4f d, float (*to)[CT_CLUSTER_TRIANGLES]) {
    const ct_v4f ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const ct_v4f ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7),
                 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    const ct_v4f x = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    const ct_v4f y = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    const ct_v4f z = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    memcpy(to[0], &x, sizeof x);
    memcpy(to[1], &y, sizeof y);
    memcpy(to[2], &z, sizeof z);
}

static void box_triangles(ct_placed_cluster *c) {
    const struct box4 empty = {(ct_v4f){0, 0, 0, 0} + INFINITY, (ct_v4f){0, 0, 0, 0} - INFINITY};
    ct_v4f lo = empty.lo, hi = empty.hi;
    for (uint32_t first = 0; first < (c->n_triangles + 7) / 8 * 8; first += 4) {
        struct box4 box[4];
        for (uint32_t i = 0; i < 4; i++) {
            box[i] = first + i < c->n_triangles ? box_of(c, first + i) : empty;
            lo = smaller4(lo, box[i].lo);
            hi = larger4(hi, box[i].hi);
        }
        float(*to)[CT_CLUSTER_TRIANGLES] = (float(*)[CT_CLUSTER_TRIANGLES])(c->boxes[0] + first);
        store_transposed(box[0].lo, box[1].lo, box[2].lo, box[3].lo, to);
        store_transposed(box[0].hi, box[1].hi, box[2].hi, box[3].hi, to + 3);
    }
    for (int k = 0; k < 3; k++) {
        c->lo[k] = lo[k];
        c->hi[k] = hi[k];
    }
}

static void place(ct_placed_cluster *c, const ct_lattice_pose *pose, const float *positions) {
    ct_v4d column[4], residual = {0, 0, 0, 0};
    for (int j = 0; j < 4; j++) column[j] = (ct_v4d){pose->row[0][j], pose->row[1][j], pose->row[2][j], 0};
    for (uint32_t v = 0; v < c->n_vertices; v++) {
        const float *p = positions + 3 * (size_t)c->vertices[v];
        const ct_v4d x = column[0] * (double)p[0] + column[1] * (double)p[1] + column[2] * (double)p[2] + column[3];
        const ct_v4d on_lattice = (x + CT_ROUND_MAGIC) - CT_ROUND_MAGIC;
        residual = larger(residual, absolute(x - on_lattice));
        memcpy(c->points[v], &on_lattice, sizeof on_lattice);
    }
    c->residual = fmax(residual[0], fmax(residual[1], residual[2]));
    if (c->boxes) box_triangles(c);
}

/* ---- crossing ---- */

static inline v8f load8(const float *p) {
    v8f v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t mask_of(v8i flags) {
#ifdef __AVX2__
    return (uint32_t)_mm256_movemask_ps((__m256)flags);
#else
    uint32_t mask = 0;
    for (int i = 0; i < 8; i++) mask |= (uint32_t)(flags[i] & 1) << i;
    return mask;
#endif
}

/* Boxes of triangles that may cross, with their numbers in the cluster. */
struct box_list {
    uint32_t n;
    uint8_t triangle[CT_CLUSTER_TRIANGLES];
    float box[6][CT_CLUSTER_TRIANGLES];
};

/* The bits of the boxes at [first, first + 8) that overlap a box. */
static inline uint32_t overlaps(const float (*boxes)[CT_CLUSTER_TRIANGLES], uint32_t first, const float *lo,
                                const float *hi) {
    v8i meets = load8(boxes[0] + first) <= hi[0];
    meets &= load8(boxes[1] + first) <= hi[1];
    meets &= load8(boxes[2] + first) <= hi[2];
    meets &= load8(boxes[3] + first) >= lo[0];
    meets &= load8(boxes[4] + first) >= lo[1];
    meets &= load8(boxes[5] + first) >= lo[2];
    return mask_of(meets);
}

/* The triangles of a that overlap b's box. */
static void list_boxes(const ct_placed_cluster *a, const ct_placed_cluster *b, struct box_list *list) {
    list->n = 0;
    for (uint32_t first = 0; first < a->n_triangles; first += 8)
        for (uint32_t left = overlaps((const float(*)[CT_CLUSTER_TRIANGLES])a->boxes, first, b->lo, b->hi); left;
             left &= left - 1)
            list->triangle[list->n++] = (uint8_t)(first + (uint32_t)__builtin_ctz(left));
    for (int k = 0; k < 6; k++) {
        for (uint32_t i = 0; i < list->n; i++) list->box[k][i] = a->boxes[k][list->triangle[i]];
        for (uint32_t i = list->n; i < (list->n + 7) / 8 * 8; i++) list->box[k][i] = k < 3 ? INFINITY : -INFINITY;
    }
}

static void add_crossing(ct_crossing_lists *lists, ct_budget *budget, int body, uint32_t triangle, uint32_t other,
                         const ct_triangle_share *share, bool crosses) {
    ct_buffer *buffer = &lists->of_body[body];
    const size_t at = lists->n[body], needed = (at + 1) * sizeof(ct_crossing);
    if (needed > buffer->capacity && !ct_buffer_reserve(buffer, budget, needed + needed / 2 + 64 * sizeof(ct_crossing),
                                                        at * sizeof(ct_crossing), false)) {
        lists->is_full = true;
        return;
    }
    ((ct_crossing *)buffer->data)[at] =
        (ct_crossing){.triangle = triangle, .other = other, .share = *share, .crosses = crosses};
    lists->n[body]++;
}

/* Compares by coordinates: the roles of the two triangles, and so all bits, do not depend on the order of the bodies.
 */
static inline bool comes_first(const double *a, const double *b) {
    for (int k = 0; k < 3; k++)
        if (a[k] != b[k]) return a[k] < b[k];
    return true;
}

static inline void load_triangle(const ct_placed_cluster *c, uint32_t t, const double *p[3]) {
    for (int k = 0; k < 3; k++) p[k] = c->points[c->corners[t][k]];
}

static inline ct_normal normal_of(const double *const p[3]) {
    double u[3], v[3];
    for (int k = 0; k < 3; k++) {
        u[k] = p[1][k] - p[0][k];
        v[k] = p[2][k] - p[0][k];
    }
    return ct_normal_of(u, v);
}

/* True: they are on one side of the plane and more than two units away from it. */
static inline bool is_beyond(const ct_plane_sides *s, const ct_normal *n) {
    const double margin = 4 * ct_size1(n);
    return ct_is_one_sided(s) && fabs(s->value[0]) > margin && fabs(s->value[1]) > margin && fabs(s->value[2]) > margin;
}

static void cross_pair(const ct_placed_cluster *a, uint32_t ta, const ct_placed_cluster *b, uint32_t tb, int moved,
                       ct_budget *budget, ct_crossing_lists *lists) {
    const double *p[2][3];
    load_triangle(a, ta, p[0]);
    load_triangle(b, tb, p[1]);
    const int first = comes_first(p[0][0], p[1][0]) ? 0 : 1, second = 1 - first;
    const int moved_second = first == 0 ? moved : -moved; /* +1 if the second triangle's body is perturbed */
    int has_ties = 0;
    ct_plane_sides sides[2];
    const ct_normal normal_second = normal_of(p[second]), normal_first = normal_of(p[first]);
    ct_find_sides(p[first], p[second], &normal_second, -moved_second, &sides[0], &has_ties);
    if (is_beyond(&sides[0], &normal_second)) return;
    ct_find_sides(p[second], p[first], &normal_first, moved_second, &sides[1], &has_ties);
    if (is_beyond(&sides[1], &normal_first)) return;
    ct_triangle_share share[2];
    const int found = ct_cross_triangles(p[first], p[second], &normal_first, &normal_second, &sides[0], &sides[1],
                                         moved_second, share, &has_ties);
    lists->has_ties |= has_ties; /* not where it made no difference: whether there are ties depends on no order */
    if (found == CT_TRIANGLES_INCONSISTENT) lists->n_inconsistent++;
    if (found != CT_TRIANGLES_CROSS && found != CT_TRIANGLES_NEAR) return;
    const uint32_t number_a = a->cluster * CT_CLUSTER_TRIANGLES + ta, number_b = b->cluster * CT_CLUSTER_TRIANGLES + tb;
    add_crossing(lists, budget, 0, number_a, number_b, &share[first], found == CT_TRIANGLES_CROSS);
    add_crossing(lists, budget, 1, number_b, number_a, &share[1 - first], found == CT_TRIANGLES_CROSS);
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

static inline void load_triangles4(const ct_placed_cluster *c, const uint32_t t[4], struct triangles4 *to) {
    for (int k = 0; k < 3; k++) {
        ct_v4d p[4];
        for (int i = 0; i < 4; i++) p[i] = load_point(c->points[c->corners[t[i]][k]]);
        const ct_v4d a = __builtin_shufflevector(p[0], p[1], 0, 4, 2, 6),
                     b = __builtin_shufflevector(p[0], p[1], 1, 5, 3, 7);
        const ct_v4d d = __builtin_shufflevector(p[2], p[3], 0, 4, 2, 6),
                     e = __builtin_shufflevector(p[2], p[3], 1, 5, 3, 7);
        to->corner[k].of[0] = __builtin_shufflevector(a, d, 0, 1, 4, 5);
        to->corner[k].of[1] = __builtin_shufflevector(b, e, 0, 1, 4, 5);
        to->corner[k].of[2] = __builtin_shufflevector(a, d, 2, 3, 6, 7);
    }
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

/* The lanes in which p's corners are beyond the plane of q, whose normal is n: surely on one side of it, and more than
 * two units away. */
static inline uint32_t find_beyond(const struct vector4 p[3], const struct vector4 *q, const struct normal4 *n) {
    const ct_v4d margin = 4 * (absolute(n->n.of[0]) + absolute(n->n.of[1]) + absolute(n->n.of[2]));
    ct_v4d least = {INFINITY, INFINITY, INFINITY, INFINITY}, most = -least;
    ct_v4d error = margin;
    for (int k = 0; k < 3; k++) {
        const ct_v4d x = p[k].of[0] - q->of[0], y = p[k].of[1] - q->of[1], z = p[k].of[2] - q->of[2];
        const ct_v4d value = n->n.of[0] * x + n->n.of[1] * y + n->n.of[2] * z;
        error =
            larger(error, (n->size.of[0] * absolute(x) + n->size.of[1] * absolute(y) + n->size.of[2] * absolute(z)) *
                              CT_FILTER);
        least = smaller(least, value);
        most = larger(most, value);
    }
    return mask4_of((least > error) | (most < -error));
}

static inline void broadcast_triangle(const double *const p[3], struct triangles4 *to) {
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < 3; j++) to->corner[k].of[j] = (ct_v4d){p[k][j], p[k][j], p[k][j], p[k][j]};
}

/* Removes the triangles of c from a list whose planes do not come within two units of a box. */
static void drop_beyond_box(const ct_placed_cluster *c, const ct_placed_cluster *box, struct box_list *list) {
    ct_v4d middle[3], half[3];
    for (int k = 0; k < 3; k++) {
        const double at = 0.5 * ((double)box->lo[k] + (double)box->hi[k]);
        const double size = 0.5 * ((double)box->hi[k] - (double)box->lo[k]);
        middle[k] = (ct_v4d){at, at, at, at};
        half[k] = (ct_v4d){size, size, size, size};
    }
    uint32_t kept = 0;
    for (uint32_t first = 0; first < list->n; first += 4) {
        const uint32_t n = list->n - first < 4 ? list->n - first : 4;
        uint32_t t[4];
        for (uint32_t i = 0; i < 4; i++) t[i] = list->triangle[first + (i < n ? i : 0)];
        struct triangles4 triangles;
        load_triangles4(c, t, &triangles);
        const struct normal4 normals = normals_of(triangles.corner);
        ct_v4d value = {0, 0, 0, 0}, reach = value, error = value;
        for (int k = 0; k < 3; k++) {
            const ct_v4d away = middle[k] - triangles.corner[0].of[k];
            value += normals.n.of[k] * away;
            reach += absolute(normals.n.of[k]) * (half[k] + 2);
            error += normals.size.of[k] * (absolute(away) + half[k]);
        }
        for (uint32_t left = ((1u << n) - 1) & ~mask4_of(absolute(value) > reach + error * CT_FILTER); left;
             left &= left - 1) {
            const uint32_t from = first + (uint32_t)__builtin_ctz(left);
            list->triangle[kept] = list->triangle[from];
            for (int k = 0; k < 6; k++) list->box[k][kept] = list->box[k][from];
            kept++;
        }
    }
    list->n = kept;
    for (int k = 0; k < 6; k++)
        for (uint32_t i = kept; i < (kept + 7) / 8 * 8; i++) list->box[k][i] = k < 3 ? INFINITY : -INFINITY;
}

/* A triangle of cluster a against up to four of b. */
struct row {
    const ct_placed_cluster *a, *b;
    uint32_t triangle; /* of a */
    struct triangles4 corners;
    struct normal4 normal;
    uint32_t n, other[4];
};

static void begin_row(struct row *row, uint32_t triangle) {
    const double *p[3];
    load_triangle(row->a, triangle, p);
    row->triangle = triangle;
    broadcast_triangle(p, &row->corners);
    row->normal = normals_of(row->corners.corner);
    row->n = 0;
}

static void cross_row(struct row *row, int moved, ct_budget *budget, ct_crossing_lists *lists) {
    struct triangles4 others;
    for (uint32_t i = row->n; i < 4; i++) row->other[i] = row->other[0];
    load_triangles4(row->b, row->other, &others);
    uint32_t left = ((1u << row->n) - 1) & ~find_beyond(others.corner, &row->corners.corner[0], &row->normal);
    row->n = 0;
    if (!left) return;
    const struct normal4 normals = normals_of(others.corner);
    left &= ~find_beyond(row->corners.corner, &others.corner[0], &normals);
    for (; left; left &= left - 1)
        cross_pair(row->a, row->triangle, row->b, row->other[__builtin_ctz(left)], moved, budget, lists);
}

static void cross(const ct_placed_cluster *a, const ct_placed_cluster *b, int moved, ct_budget *budget,
                  ct_crossing_lists *lists) {
    for (int k = 0; k < 3; k++)
        if (a->lo[k] > b->hi[k] || b->lo[k] > a->hi[k]) return;
    struct box_list list_a, list_b;
    list_boxes(a, b, &list_a);
    if (!list_a.n) return;
    list_boxes(b, a, &list_b);
    /* The shorter list first, as it may become empty; pays where triangles are large. */
    if (list_a.n > list_b.n) drop_beyond_box(b, a, &list_b);
    if (list_b.n) drop_beyond_box(a, b, &list_a);
    struct row row = {.a = a, .b = b};
    for (uint32_t i = 0; i < list_a.n && list_b.n; i++) {
        float lo[3], hi[3];
        bool has_begun = false;
        for (int k = 0; k < 3; k++) {
            lo[k] = list_a.box[k][i];
            hi[k] = list_a.box[3 + k][i];
        }
        for (uint32_t first = 0; first < list_b.n; first += 8)
            for (uint32_t left = overlaps((const float(*)[CT_CLUSTER_TRIANGLES])list_b.box, first, lo, hi); left;
                 left &= left - 1) {
                if (!has_begun) begin_row(&row, list_a.triangle[i]);
                has_begun = true;
                row.other[row.n++] = list_b.triangle[first + (uint32_t)__builtin_ctz(left)];
                if (row.n == 4) cross_row(&row, moved, budget, lists);
            }
        if (row.n) cross_row(&row, moved, budget, lists);
    }
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
    const ct_v4d sum = load_point(local->of[v]) + steps;
    memcpy(__builtin_assume_aligned(local->of[v], 32), &sum, sizeof sum);
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

static void add_triangles(const ct_placed_cluster *c, const ct_winding_numbers *w, double scale,
                          struct local_sums *local, struct surface_sums *surface, ct_cluster_sums *sums) {
    for (uint32_t t = 0; t < c->n_triangles; t++) {
        const uint32_t number = w->crossed ? w->crossed->number[t] : 0;
        const int32_t winding = winding_at(c, w, t, 1);
        if (!number && !winding) continue;
        uint32_t deepest = size_of(winding);
        if (number) {
            const ct_crossed_triangle *crossed = &w->crossed->triangles[number - 1];
            ct_integrals integrals = ct_whole_integrals(winding);
            for (int i = 0; i < CT_INTEGRALS; i++) integrals.of[i] += crossed->integrals.of[i];
            sums->near_area += crossed->near_area;
            sums->rounding += crossed->rounding;
            deepest = deepest_on(c, w, t, integrals.of[0]);
            add_crossed(c, t, &integrals, scale, local, surface);
        } else {
            add_whole(c, t, winding, scale, local, surface);
        }
        if (deepest > sums->max_winding) sums->max_winding = deepest;
    }
}

static void add_to_body(const ct_placed_cluster *c, const struct local_sums *local, const ct_exact_gradient *gradient) {
    for (uint32_t v = 0; v < c->n_vertices; v++) {
        const ct_v4d steps = load_point(local->of[v]) + CT_ROUND_MAGIC;
        const ct_v4l g = (ct_v4l)steps - (ct_v4l)((ct_v4d){0, 0, 0, 0} + CT_ROUND_MAGIC);
        if (!(g[0] | g[1] | g[2])) continue;
        const uint32_t global = c->vertices[v];
        int64_t *to = gradient->of[global];
        uint64_t *word = &gradient->touched[global / 64];
        uint64_t *group = &gradient->groups[global / 4096];
        const uint64_t bit = 1ull << global % 64, group_bit = 1ull << global / 64 % 64;
        if (gradient->is_shared) {
            for (int k = 0; k < 3; k++) __atomic_fetch_add(&to[k], g[k], __ATOMIC_RELAXED);
            if (__atomic_load_n(word, __ATOMIC_RELAXED) & bit) continue;
            __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
            __atomic_fetch_or(group, group_bit, __ATOMIC_RELAXED);
        } else {
            for (int k = 0; k < 3; k++) to[k] += g[k];
            *word |= bit;
            *group |= group_bit;
        }
    }
}

static void add(const ct_placed_cluster *cluster, const ct_winding_numbers *w, double scale,
                const ct_exact_gradient *gradient, ct_cluster_sums *sums) {
    _Alignas(32) struct local_sums local;
    struct surface_sums surface;
    memset(&surface, 0, sizeof surface);
    memset(local.of, 0, cluster->n_vertices * sizeof *local.of);
    add_triangles(cluster, w, scale, &local, &surface, sums);
    add_to_body(cluster, &local, gradient);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) sums->moment[i][j] = surface.moment[i][j];
        sums->first_moment[i] = surface.first_moment[i] / 2;
    }
    sums->area = sum3(surface.area);
    sums->reach = sum3(surface.reach);
}

const ct_exact_cpu CT_VARIANT(ct_exact_cpu) = {place, cross, add};
