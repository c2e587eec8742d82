/* snap_cpu.simd.c - bounding boxes, pairs of floats, and lattice coordinates: these one vertex (four lanes: x, y, z,
 * unused) at a time. */
#include "gpu/view/snap_cpu.h"

#include <math.h>
#include <string.h>

#include "gpu/base/kernel.h"
#include "gpu/base/simd.h"
#include "gpu/mesh/split.h"
#ifdef __SSE2__
#include <immintrin.h>
#endif

/* Loads four floats at once and masks off the fourth, which is the next vertex's x; after the last vertex there is none
 * to load. (v[3] = 0 instead of the mask would go through memory and wait for the store.) */
static inline ct_v4f load_float(const char *p, int is_last) {
    ct_v4f v = {0};
    if (is_last) {
        float x, y, z;
        memcpy(&x, p, 4);
        memcpy(&y, p + 4, 4);
        memcpy(&z, p + 8, 4);
        v = (ct_v4f){x, y, z, 0};
    } else {
        memcpy(&v, p, sizeof v);
    }
    return (ct_v4f)((ct_v4i)v & (ct_v4i){-1, -1, -1, 0});
}

static inline ct_v4d load(const char *p, int is_last) {
    return ct_v4d_of_v4f(load_float(p, is_last));
}

struct pose_columns {
    ct_v4d column[4];
};

static struct pose_columns load_pose(const double *pose) {
    struct pose_columns p;
    for (int c = 0; c < 4; c++) p.column[c] = (ct_v4d){pose[c], pose[4 + c], pose[8 + c], 0};
    return p;
}

/* The same operations in the same order as ct_pose_coord. */
static inline ct_v4d apply_pose(const struct pose_columns *p, const char *position) {
    float x, y, z; /* three loads: one load of 12 bytes would go through memory */
    memcpy(&x, position, 4);
    memcpy(&y, position + 4, 4);
    memcpy(&z, position + 8, 4);
    return p->column[0] * (double)x + p->column[1] * (double)y + p->column[2] * (double)z + p->column[3];
}

/* Per lane; b where a or b is NaN, as minpd and maxpd do. */
#ifdef __AVX2__
static inline ct_v4d smaller(ct_v4d a, ct_v4d b) {
    return (ct_v4d)_mm256_min_pd((__m256d)a, (__m256d)b);
}

static inline ct_v4d larger(ct_v4d a, ct_v4d b) {
    return (ct_v4d)_mm256_max_pd((__m256d)a, (__m256d)b);
}
#else
static inline ct_v4d smaller(ct_v4d a, ct_v4d b) {
    ct_v4l less = a < b;
    return (ct_v4d)((less & (ct_v4l)a) | (~less & (ct_v4l)b));
}

static inline ct_v4d larger(ct_v4d a, ct_v4d b) {
    ct_v4l more = a > b;
    return (ct_v4d)((more & (ct_v4l)a) | (~more & (ct_v4l)b));
}
#endif

static bool compute_posed_box(const char *positions, size_t n, const double *pose, ct_box *out) {
    ct_v4d lo = {INFINITY, INFINITY, INFINITY, INFINITY}, hi = -lo;
    ct_v4d nan_if_not_finite = {0}; /* 0 * x is NaN for infinite x and for NaN, and a sum with NaN stays NaN */
    struct pose_columns p = load_pose(pose);
    for (size_t i = 0; i < n; i++) {
        ct_v4d v = apply_pose(&p, positions + 12 * i);
        lo = smaller(v, lo);
        hi = larger(v, hi);
        nan_if_not_finite += v * 0.0;
    }
    for (int k = 0; k < 3; k++) {
        out->lo[k] = lo[k];
        out->hi[k] = hi[k];
    }
    return nan_if_not_finite[0] == 0 && nan_if_not_finite[1] == 0 && nan_if_not_finite[2] == 0;
}

/* As many doubles as the processor has in a register, and twice as many floats. */
#ifdef __AVX2__
enum { LANES = 4 };
#else
enum { LANES = 2 };
#endif
typedef float floats __attribute__((vector_size(8 * LANES)));
typedef int32_t float_mask __attribute__((vector_size(8 * LANES)));

static inline floats load_floats(const char *from) {
    floats x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline floats choose_floats(float_mask which, floats a, floats b) {
    return (floats)((which & (float_mask)a) | (~which & (float_mask)b));
}

/* As many vertices as a register has floats are three registers. Each is loaded by itself: as one, the row would go
 * through memory in pieces, for which the registers wait. */
static bool compute_unposed_box(const char *positions, size_t n, ct_box *out) {
    enum { ROW = 2 * LANES };
    floats lo[3], hi[3], nan_if_not_finite[3] = {{0}};
    char last[12 * ROW];
    for (int k = 0; k < 3; k++) {
        lo[k] = (floats){0} + INFINITY;
        hi[k] = -lo[k];
    }
    for (size_t i = 0; i < n; i += ROW) {
        const char *from = positions + 12 * i;
        if (n - i < ROW) { /* the last vertices, padded with copies of the first of them */
            for (size_t k = 0; k < ROW; k++) memcpy(last + 12 * k, from + 12 * (k < n - i ? k : 0), 12);
            from = last;
        }
        const floats p[3] = {load_floats(from), load_floats(from + sizeof *p), load_floats(from + 2 * sizeof *p)};
        for (int k = 0; k < 3; k++) {
            lo[k] = choose_floats(p[k] < lo[k], p[k], lo[k]);
            hi[k] = choose_floats(p[k] > hi[k], p[k], hi[k]);
            nan_if_not_finite[k] += p[k] * 0.0f;
        }
    }
    bool finite = true;
    for (int k = 0; k < 3; k++) {
        out->lo[k] = INFINITY;
        out->hi[k] = -INFINITY;
        for (int j = k; j < 3 * ROW; j += 3) {
            const floats *l = lo + j / ROW, *h = hi + j / ROW;
            if ((*l)[j % ROW] < out->lo[k]) out->lo[k] = (*l)[j % ROW];
            if ((*h)[j % ROW] > out->hi[k]) out->hi[k] = (*h)[j % ROW];
            finite = finite && nan_if_not_finite[j / ROW][j % ROW] == 0;
        }
    }
    return finite;
}

static bool compute_box(const void *positions, size_t n, const double *pose, ct_box *out) {
    return pose ? compute_posed_box(positions, n, pose, out) : compute_unposed_box(positions, n, out);
}

/* ---- float64 ---- */

typedef double wide __attribute__((vector_size(8 * LANES)));
typedef float narrow __attribute__((vector_size(4 * LANES)));
typedef int64_t wide_mask __attribute__((vector_size(8 * LANES)));

static inline narrow to_floats(wide x) {
#ifdef __AVX2__
    return (narrow)_mm256_cvtpd_ps((__m256d)x);
#else
    return __builtin_convertvector(x, narrow);
#endif
}

static inline wide to_doubles(narrow x) {
#ifdef __AVX2__
    return ct_v4d_of_v4f(x);
#else
    return __builtin_convertvector(x, wide);
#endif
}

static inline wide choose(wide_mask which, wide a, wide b) {
    return (wide)((which & (wide_mask)a) | (~which & (wide_mask)b));
}

static inline wide absolute(wide x) {
    return (wide)((wide_mask)x & INT64_MAX);
}

/* As many vertices as there are lanes: three registers. Behind the last vertex there are copies of others. */
struct wide_row {
    wide of[3];
};

static inline wide load_wide(const char *from) {
    wide x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* Each register by itself: as one, the row would go through memory in pieces, for which the registers wait. */
static inline struct wide_row load_wide_row(const char *positions, size_t i, size_t n) {
    char last[3 * LANES * 8];
    const char *from = positions + 24 * i;
    if (n - i < LANES) {
        for (size_t k = 0; k < LANES; k++) memcpy(last + 24 * k, from + 24 * (k < n - i ? k : 0), 24);
        from = last;
    }
    return (struct wide_row){{load_wide(from), load_wide(from + sizeof(wide)), load_wide(from + 2 * sizeof(wide))}};
}

static bool compute_wide_box(const void *positions, size_t n, ct_box *out, bool *are_floats) {
    struct wide_row lo, hi,
        left = {0}; /* left: sums of what float32 leaves, endless or NaN where it does not hold one */
    for (int k = 0; k < 3; k++) {
        lo.of[k] = (wide){0} + INFINITY;
        hi.of[k] = -lo.of[k];
    }
    for (size_t i = 0; i < n; i += LANES) {
        const struct wide_row p = load_wide_row(positions, i, n);
        for (int k = 0; k < 3; k++) {
            lo.of[k] = choose(p.of[k] < lo.of[k], p.of[k], lo.of[k]);
            hi.of[k] = choose(p.of[k] > hi.of[k], p.of[k], hi.of[k]);
            left.of[k] += absolute(p.of[k] - to_doubles(to_floats(p.of[k])));
        }
    }
    double l[3 * LANES], h[3 * LANES], sum = 0;
    memcpy(l, &lo, sizeof l);
    memcpy(h, &hi, sizeof h);
    for (int k = 0; k < 3 * LANES; k++) sum += left.of[k / LANES][k % LANES];
    for (int k = 0; k < 3; k++) {
        out->lo[k] = INFINITY;
        out->hi[k] = -INFINITY;
        for (int j = k; j < 3 * LANES; j += 3) {
            out->lo[k] = fmin(out->lo[k], l[j]);
            out->hi[k] = fmax(out->hi[k], h[j]);
        }
    }
    *are_floats = sum == 0;
    return isfinite(sum);
}

/* As ct_split_double. */
static inline void split_row(wide x, narrow *high, narrow *low) {
    const wide upper = to_doubles(to_floats(x)), sum = upper + to_doubles(to_floats(x - upper));
    *high = to_floats(sum);
    *low = to_floats(sum - to_doubles(*high));
}

/* Of as many vertices as there are, and are left. */
static inline void store_row(float *to, const narrow row[3], size_t n_left) {
    if (n_left >= LANES)
        for (int k = 0; k < 3; k++) memcpy(to + k * LANES, row + k, sizeof *row);
    else
        memcpy(to, row, 12 * n_left);
}

static void split(const void *positions, size_t n, const double origin[3], float *high, float *low) {
    struct wide_row origins;
    for (int k = 0; k < LANES; k++) memcpy((char *)&origins + 24 * k, origin, 24);
    for (size_t i = 0; i < n; i += LANES) {
        const struct wide_row p = load_wide_row(positions, i, n);
        narrow upper[3], lower[3];
        for (int k = 0; k < 3; k++) split_row(p.of[k] - origins.of[k], upper + k, lower + k);
        store_row(high + 3 * i, upper, n - i);
        if (low) store_row(low + 3 * i, lower, n - i);
    }
}

/* ---- lattice coordinates ---- */

/* The window's lattices, one axis a lane. half: half a pitch, less one unit. */
struct lattice_lanes {
    ct_v4d origin, scale;
    ct_v4i half, shift, n, lo, hi;
};

static struct lattice_lanes load_lattice(const ct_window *window) {
    const ct_lattice *a = window->axis;
    return (struct lattice_lanes){
        .origin = {a[0].origin, a[1].origin, a[2].origin, 0},
        .scale = {a[0].scale, a[1].scale, a[2].scale, 0},
        .half = {(1 << (a[0].shift - 1)) - 1, (1 << (a[1].shift - 1)) - 1, (1 << (a[2].shift - 1)) - 1, 0},
        .shift = {a[0].shift, a[1].shift, a[2].shift, 0},
        .n = {a[0].n, a[1].n, a[2].n, 0},
        .lo = {a[0].lo, a[1].lo, a[2].lo, 0},
        .hi = {a[0].hi, a[1].hi, a[2].hi, 0},
    };
}

/* The same operations as ct_snap. */
static inline ct_v4i snap_position(const struct lattice_lanes *s, ct_v4d p) {
    ct_v4d t = (p - s->origin) * s->scale + CT_ROUND_MAGIC;
    return ct_v4i_of_v4l((ct_v4l)t);
}

/* The same operations as ct_samples_below, and the two flags. */
static inline ct_cells make_cells(const struct lattice_lanes *s, ct_v4i q) {
    ct_v4i c = (q + s->half) >> s->shift;
    c &= c > 0;
    ct_v4i over = c > s->n;
    c = (over & s->n) | (~over & c);
    c |= ((q < s->lo) & CT_CELL_BEFORE) | ((q > s->hi) & CT_CELL_AFTER);
    ct_v4s packed = ct_v4s_of_v4i(c);
    ct_cells cells;
    memcpy(&cells, &packed, sizeof cells);
    return cells;
}

static inline __attribute__((always_inline)) void snap_range(const ct_window *window, const char *positions,
                                                             const double *pose, size_t first, size_t last,
                                                             ct_coords *coords, ct_cells *cells) {
    const struct lattice_lanes s = load_lattice(window);
    const double identity[12] = {0};
    const struct pose_columns p = load_pose(pose ? pose : identity);
    for (size_t i = first; i < last; i++) {
        ct_v4i q =
            snap_position(&s, pose ? apply_pose(&p, positions + 12 * i) : load(positions + 12 * i, i + 1 == last));
        if (coords) memcpy(coords[i], &q, sizeof q);
        if (cells) cells[i] = make_cells(&s, q);
    }
}

/* Each call below is inlined with constant NULLs, so that the loop has no branches. */
static void snap(const ct_window *window, const float *positions, const double *pose, size_t first, size_t last,
                 ct_coords *coords, ct_cells *cells) {
    const char *data = (const char *)positions;
    if (pose)
        snap_range(window, data, pose, first, last, coords, cells);
    else if (coords && cells)
        snap_range(window, data, NULL, first, last, coords, cells);
    else if (coords)
        snap_range(window, data, NULL, first, last, coords, NULL);
    else
        snap_range(window, data, NULL, first, last, NULL, cells);
}

static void snap_corners(const ct_window *window, const float *positions, const double *pose, const uint32_t *triangles,
                         const uint32_t *kept, size_t n_kept, ct_coords *coords) {
    const struct lattice_lanes s = load_lattice(window);
    const double identity[12] = {0};
    const struct pose_columns p = load_pose(pose ? pose : identity);
    for (size_t i = 0; i < n_kept; i++)
        for (int j = 0; j < 3; j++) {
            size_t k = triangles[3 * (size_t)kept[i] + j];
            const char *at = (const char *)(positions + 3 * k);
            ct_v4i q = snap_position(&s, pose ? apply_pose(&p, at) : load(at, 1));
            memcpy(coords[k], &q, sizeof q);
        }
}

static void snap_list(const ct_window *window, const float *positions, const double *pose, const uint32_t *vertices,
                      size_t n, ct_coords *coords, ct_cells *cells) {
    const struct lattice_lanes s = load_lattice(window);
    const double identity[12] = {0};
    const struct pose_columns p = load_pose(pose ? pose : identity);
    for (size_t i = 0; i < n; i++) {
        const size_t k = vertices[i];
        const char *at = (const char *)(positions + 3 * k);
        ct_v4i q = snap_position(&s, pose ? apply_pose(&p, at) : load(at, 1));
        if (coords) memcpy(coords[k], &q, sizeof q);
        if (cells) cells[k] = make_cells(&s, q);
    }
}

/* Loads a vertex and the number behind it, which the caller ignores. */
static inline ct_v4f load_any(const float *p) {
    ct_v4f v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void refit(const ct_clusters *clusters, const float *positions, uint32_t first, uint32_t end,
                  ct_cluster_box *boxes) {
    enum { PREFETCH_AHEAD = 16 }; /* vertices: those of a cluster lie in any order */
    const uint32_t *vertices = clusters->vertices, n = clusters->first_vertex[clusters->n];
    for (uint32_t c = first; c < end; c++) {
        const uint32_t last = clusters->first_vertex[c + 1] - 1; /* loaded apart: nothing may lie behind it */
        ct_v4f lo = load_float((const char *)(positions + 3 * (size_t)vertices[last]), 1), hi = lo;
        for (uint32_t i = clusters->first_vertex[c]; i < last; i++) {
            if (i + PREFETCH_AHEAD < n) __builtin_prefetch(positions + 3 * (size_t)vertices[i + PREFETCH_AHEAD]);
            const ct_v4f p = load_any(positions + 3 * (size_t)vertices[i]);
            lo = ct_v4f_min(lo, p);
            hi = ct_v4f_max(hi, p);
        }
        for (int k = 0; k < 3; k++) {
            boxes[c].lo[k] = lo[k];
            boxes[c].hi[k] = hi[k];
        }
    }
}

const ct_snap_cpu CT_VARIANT(ct_snap_cpu) = {compute_box,  compute_wide_box, split, snap,
                                             snap_corners, snap_list,        refit};
