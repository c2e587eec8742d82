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
    const ct_v4l take = a < b;
    return (ct_v4d)((take & (ct_v4l)a) | (~take & (ct_v4l)b));
}

static inline ct_v4d larger(ct_v4d a, ct_v4d b) {
    const ct_v4l take = a > b;
    return (ct_v4d)((take & (ct_v4l)a) | (~take & (ct_v4l)b));
}

/* ---- placing ---- */

/* Around a triangle's box: two units, so that triangles closer than that are looked at, and as many for rounding. */
static const float BOX_MARGIN = 4;

/* Rounding a coordinate to float moves it by 2^-24 of itself at most. */
static const float FLOAT_ROUNDING = 0x1p-23f;

static void box_triangles(ct_placed_cluster *c) {
    for (int k = 0; k < 3; k++) {
        c->lo[k] = INFINITY;
        c->hi[k] = -INFINITY;
    }
    const uint32_t padded = (c->n_triangles + 7) / 8 * 8;
    for (uint32_t t = 0; t < c->n_triangles; t++) {
        const uint16_t *corner = c->corners[t];
        const ct_v4d p = load_point(c->points[corner[0]]), q = load_point(c->points[corner[1]]),
                     r = load_point(c->points[corner[2]]);
        const ct_v4d lo = smaller(smaller(p, q), r), hi = larger(larger(p, q), r);
        for (int k = 0; k < 3; k++) {
            const float l = (float)lo[k], h = (float)hi[k];
            const float from = l - (fabsf(l) * FLOAT_ROUNDING + BOX_MARGIN);
            const float to = h + (fabsf(h) * FLOAT_ROUNDING + BOX_MARGIN);
            c->boxes[k][t] = from;
            c->boxes[3 + k][t] = to;
            c->lo[k] = from < c->lo[k] ? from : c->lo[k];
            c->hi[k] = to > c->hi[k] ? to : c->hi[k];
        }
    }
    for (uint32_t t = c->n_triangles; t < padded; t++)
        for (int k = 0; k < 3; k++) {
            c->boxes[k][t] = INFINITY;
            c->boxes[3 + k][t] = -INFINITY;
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
    const ct_normal normal_second = normal_of(p[second]);
    ct_find_sides(p[first], p[second], &normal_second, -moved_second, &sides[0], &has_ties);
    lists->has_ties |= has_ties;
    if (is_beyond(&sides[0], &normal_second)) return;
    const ct_normal normal_first = normal_of(p[first]);
    ct_find_sides(p[second], p[first], &normal_first, moved_second, &sides[1], &has_ties);
    lists->has_ties |= has_ties;
    if (is_beyond(&sides[1], &normal_first)) return;
    ct_triangle_share share[2];
    const int found = ct_cross_triangles(p[first], p[second], &normal_first, &normal_second, &sides[0], &sides[1],
                                         moved_second, share, &has_ties);
    lists->has_ties |= has_ties;
    if (found == CT_TRIANGLES_INCONSISTENT) lists->n_inconsistent++;
    if (found != CT_TRIANGLES_CROSS && found != CT_TRIANGLES_NEAR) return;
    const uint32_t number_a = a->cluster * CT_CLUSTER_TRIANGLES + ta, number_b = b->cluster * CT_CLUSTER_TRIANGLES + tb;
    add_crossing(lists, budget, 0, number_a, number_b, &share[first], found == CT_TRIANGLES_CROSS);
    add_crossing(lists, budget, 1, number_b, number_a, &share[1 - first], found == CT_TRIANGLES_CROSS);
}

static void cross(const ct_placed_cluster *a, const ct_placed_cluster *b, int moved, ct_budget *budget,
                  ct_crossing_lists *lists) {
    for (int k = 0; k < 3; k++)
        if (a->lo[k] > b->hi[k] || b->lo[k] > a->hi[k]) return;
    struct box_list list_a, list_b;
    list_boxes(a, b, &list_a);
    if (!list_a.n) return;
    list_boxes(b, a, &list_b);
    for (uint32_t i = 0; i < list_a.n && list_b.n; i++) {
        float lo[3], hi[3];
        for (int k = 0; k < 3; k++) {
            lo[k] = list_a.box[k][i];
            hi[k] = list_a.box[3 + k][i];
        }
        for (uint32_t first = 0; first < list_b.n; first += 8)
            for (uint32_t left = overlaps((const float(*)[CT_CLUSTER_TRIANGLES])list_b.box, first, lo, hi); left;
                 left &= left - 1)
                cross_pair(a, list_a.triangle[i], b, list_b.triangle[first + (uint32_t)__builtin_ctz(left)], moved,
                           budget, lists);
    }
}

/* ---- adding ---- */

/* A cluster's own sums, before they are added to the body's. */
struct local_sums {
    int64_t of[3 * CT_CLUSTER_TRIANGLES][4];
};

static inline ct_v4l round_to_integer(ct_v4d x) { /* |x| < 2^51 */
    return (ct_v4l)(x + CT_ROUND_MAGIC) - (ct_v4l)((ct_v4d){0, 0, 0, 0} + CT_ROUND_MAGIC);
}

static inline void add_to_vertex(struct local_sums *local, uint32_t v, ct_v4d gradient) {
    ct_v4l sum;
    memcpy(&sum, local->of[v], sizeof sum);
    sum += round_to_integer(gradient);
    memcpy(local->of[v], &sum, sizeof sum);
}

static inline ct_v4d rotate_lanes(ct_v4d v) { /* y z x */
#ifdef __clang__
    return __builtin_shufflevector(v, v, 1, 2, 0, 3);
#else
    return __builtin_shuffle(v, (ct_v4l){1, 2, 0, 3});
#endif
}

static inline ct_v4d cross_product(ct_v4d a, ct_v4d b) {
    return rotate_lanes(a * rotate_lanes(b) - rotate_lanes(a) * b);
}

static inline double sum3(ct_v4d v) {
    return v[0] + v[1] + v[2];
}

/* Integral over the triangle of w x_i^2, for each coordinate i. */
static inline ct_v4d second_order(const ct_integrals *w, ct_v4d p, ct_v4d u, ct_v4d v) {
    return p * p * w->of[0] + 2 * p * (u * w->of[1] + v * w->of[2]) + u * u * w->of[3] + 2 * u * v * w->of[4] +
           v * v * w->of[5];
}

/* The winding number at a corner of a triangle. */
static inline int32_t winding_at(const ct_placed_cluster *c, const ct_winding_numbers *w, uint32_t t, int corner) {
    const int32_t of_unit = w->of_unit[w->unit_in_cluster[t]];
    return w->crossed ? of_unit + w->crossed->winding[c->corners[t][corner]] : of_unit;
}

static uint32_t add_triangles(const ct_placed_cluster *c, const ct_winding_numbers *w, double scale,
                              struct local_sums *local, ct_cluster_sums *sums) {
    ct_v4d first_moment = {0, 0, 0, 0}, area = {0, 0, 0, 0};
    uint32_t n_added = 0;
    for (uint32_t t = 0; t < c->n_triangles; t++) {
        const uint32_t number = w->crossed ? w->crossed->number[t] : 0;
        const int32_t winding = winding_at(c, w, t, 1);
        if (!number && !winding) continue;
        ct_integrals integrals = ct_whole_integrals(winding);
        uint32_t size = (uint32_t)(winding < 0 ? -winding : winding);
        if (number) {
            const ct_crossed_triangle *crossed = &w->crossed->triangles[number - 1];
            for (int i = 0; i < CT_INTEGRALS; i++) integrals.of[i] += crossed->integrals.of[i];
            sums->near_area += crossed->near_area;
            sums->rounding += crossed->rounding;
            for (int k = 0; k < 3; k += 2) {
                const int32_t at_corner = winding_at(c, w, t, k);
                const uint32_t other = (uint32_t)(at_corner < 0 ? -at_corner : at_corner);
                if (other > size) size = other;
            }
            if (!size && integrals.of[0] != 0) size = 1; /* inside between its corners alone */
        }
        if (size > sums->max_winding) sums->max_winding = size;
        const uint16_t *corner = c->corners[t];
        const ct_v4d p = load_point(c->points[corner[0]]);
        const ct_v4d u = load_point(c->points[corner[1]]) - p, v = load_point(c->points[corner[2]]) - p;
        const ct_v4d n = cross_product(u, v), scaled = n * scale;
        add_to_vertex(local, corner[0], scaled * (integrals.of[0] - integrals.of[1] - integrals.of[2]));
        add_to_vertex(local, corner[1], scaled * integrals.of[1]);
        add_to_vertex(local, corner[2], scaled * integrals.of[2]);
        first_moment += n * second_order(&integrals, p, u, v);
        area += absolute(n) * fabs(integrals.of[0]);
        n_added++;
    }
    for (int k = 0; k < 3; k++) sums->first_moment[k] += first_moment[k] / 2;
    sums->area += sum3(area);
    return n_added;
}

/* Adds the local sums to the body's, and their moments to the cluster's. Returns the largest coordinate, |q|_1. */
static double add_to_body(const ct_placed_cluster *c, const struct local_sums *local, const ct_exact_gradient *gradient,
                          ct_cluster_sums *sums) {
    double reach = 0;
    for (uint32_t v = 0; v < c->n_vertices; v++) {
        const int64_t *g = local->of[v];
        if (!(g[0] | g[1] | g[2])) continue;
        const double *p = c->points[v];
        const int64_t q[3] = {(int64_t)p[0], (int64_t)p[1], (int64_t)p[2]};
        reach = fmax(reach, fabs(p[0]) + fabs(p[1]) + fabs(p[2]));
        for (int i = 0; i < 3; i++) {
            sums->force[i] += g[i];
            for (int j = 0; j < 3; j++) sums->moment[i][j] += (ct_int128)q[i] * g[j];
        }
        const uint32_t global = c->vertices[v];
        int64_t *to = gradient->of[global];
        uint64_t *word = &gradient->touched[global / 64];
        const uint64_t bit = 1ull << global % 64;
        if (gradient->is_shared) {
            for (int k = 0; k < 3; k++) __atomic_fetch_add(&to[k], g[k], __ATOMIC_RELAXED);
            if (!(__atomic_load_n(word, __ATOMIC_RELAXED) & bit)) __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
        } else {
            for (int k = 0; k < 3; k++) to[k] += g[k];
            *word |= bit;
        }
    }
    return reach;
}

static void add(const ct_placed_cluster *cluster, const ct_winding_numbers *w, double scale,
                const ct_exact_gradient *gradient, ct_cluster_sums *sums) {
    struct local_sums local;
    memset(local.of, 0, cluster->n_vertices * sizeof *local.of);
    const double area_before = sums->area;
    const uint32_t n = add_triangles(cluster, w, scale, &local, sums);
    const double reach = add_to_body(cluster, &local, gradient, sums);
    /* Nine roundings by half a step a triangle, and eight roundings of its area vector's share. */
    sums->fixed_point += reach / 3 * (4.5 * n / scale + 0x1p-48 * (sums->area - area_before));
}

const ct_exact_cpu CT_VARIANT(ct_exact_cpu) = {place, cross, add};
