/* exact_cpu.simd.c - the kernels of the method `exact`, compiled once per instruction set: they place clusters of
 * triangles, cross those of two clusters, and add up volume and gradient. */
#include "gpu/methods/exact/cross_clusters.inl"
#include "gpu/methods/exact/place.inl"

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

/* ---- moments ---- */

static inline ct_v4d lane_of(ct_v4d v, int k) {
    return (ct_v4d){v[k], v[k], v[k], v[k]};
}

/* The sums of ct_add_moments; of the products of two coordinates, of one and itself, and of one and the next. */
struct moment_sums {
    ct_v4d square, mixed; /* second moments of the volume */
    ct_v4d first[3];      /* of the surface */
    ct_v4d squares[3], mixes[3];
};

/* As ct_add_moments: a lane is an axis. */
static inline void add_share(const ct_v4d p[3], ct_v4d center, const double m[CT_MONOMIALS], struct moment_sums *sums) {
    const ct_v4d c = p[0] - center, u = p[1] - p[0], v = p[2] - p[0], n = cross_product(u, v);
    const ct_v4d next = rotate_lanes(c), next_u = rotate_lanes(u), next_v = rotate_lanes(v);
    const ct_v4d one = c * m[0] + u * m[1] + v * m[2], x = c * m[1] + u * m[3] + v * m[4],
                 y = c * m[2] + u * m[4] + v * m[5];
    const ct_v4d xx = c * m[3] + u * m[6] + v * m[7], xy = c * m[4] + u * m[7] + v * m[8],
                 yy = c * m[5] + u * m[8] + v * m[9];
    const ct_v4d x_square = c * x + u * xx + v * xy, y_square = c * y + u * xy + v * yy;
    const ct_v4d square = c * one + u * x + v * y, mixed = next * one + next_u * x + next_v * y;
    sums->square += n * (c * square + u * x_square + v * y_square) * (1.0 / 3);
    sums->mixed += n * (next * square + next_u * x_square + next_v * y_square) * 0.5;
    for (int k = 0; k < 3; k++) {
        sums->first[k] += lane_of(one, k) * n;
        sums->squares[k] += lane_of(square, k) * n;
        sums->mixes[k] += lane_of(mixed, k) * n;
    }
}

static void store_axes(ct_v4d v, double to[3]) {
    for (int j = 0; j < 3; j++) to[j] += v[j];
}

static void add_moments_of(const ct_placed_cluster *c, const ct_moment_share *shares, uint32_t n,
                           const double center[3], double sum[CT_MOMENTS]) {
    const ct_v4d from = {center[0], center[1], center[2], 0};
    struct moment_sums sums;
    memset(&sums, 0, sizeof sums);
    for (uint32_t i = 0; i < n; i++) {
        const uint16_t *corner = c->corners[shares[i].triangle];
        const ct_v4d p[3] = {load_point(c->points[corner[0]]), load_point(c->points[corner[1]]),
                             load_point(c->points[corner[2]])};
        add_share(p, from, shares[i].monomials, &sums);
    }
    store_axes(sums.square, sum);
    store_axes(sums.mixed, sum + 3);
    for (int k = 0; k < 3; k++) {
        store_axes(sums.first[k], sum + CT_SURFACE_FIRST + 3 * k);
        store_axes(sums.squares[k], sum + CT_SURFACE_SECOND + 3 * k);
        store_axes(sums.mixes[k], sum + CT_SURFACE_SECOND + 9 + 3 * k);
    }
}

const ct_exact_cpu CT_VARIANT(ct_exact_cpu) = {place_blocks, meet_blocks, place, cross, add, add_some, add_moments_of};
