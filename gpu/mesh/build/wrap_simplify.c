/* wrap_simplify.c - takes vertices out of a wrap where it is flat: each goes to a neighbour, if its triangles allow it.
 *
 * In each pass the triangles around a vertex that has moved are left alone after, so that all of the surface gets coarser
 * alike. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/mesh/build/wrap_surface.h"

enum { MOST_RING = 32, MOST_PASSES = 24 };
#define LEAST_TURN        0.8 /* cosine of the angle that a triangle may turn by in one move */
#define NEEDLE            0.1 /* quality below which a triangle's normal says little: all around count instead */
#define LEAST_NEEDLE_TURN 0.3
#define LEAST_QUALITY     0.05 /* of a triangle, 1 where its sides are equal; less where it was less */

typedef struct simplifier {
    ct_wrap_surface *surface;
    double most;
    uint32_t *first, *last; /* [n_points] corners of a vertex: a list */
    uint32_t *next;         /* [3 n_triangles] */
    float *moved;           /* [n_points] how far the surface at the vertex may have moved so far */
    uint8_t *is_resting;    /* [n_points] for this pass */
    uint8_t *is_gone;       /* [n_triangles] */
} simplifier;

enum { NONE = -1 };

typedef struct shape {
    double normal[3]; /* of length 1; 0 without area */
    double area, quality;
} shape;

/* The triangles around a vertex, and its neighbours. */
typedef struct ring {
    uint32_t triangles[MOST_RING], beside[2 * MOST_RING];
    int n_triangles, n_beside;
    shape shapes[MOST_RING]; /* measure_ring */
    double normal[3];        /* of all, of length 1 */
} ring;

static bool has(const uint32_t *list, int n, uint32_t value) {
    for (int i = 0; i < n; i++)
        if (list[i] == value) return true;
    return false;
}

/* False: it has too many. Drops corners of triangles that are gone from the list. */
static bool find_ring(simplifier *s, uint32_t v, ring *out) {
    out->n_triangles = out->n_beside = 0;
    uint32_t *link = &s->first[v], before = UINT32_MAX;
    while (*link != UINT32_MAX) {
        const uint32_t corner = *link, t = corner / 3;
        if (s->is_gone[t]) {
            *link = s->next[corner];
            continue;
        }
        if (out->n_triangles == MOST_RING) return false;
        out->triangles[out->n_triangles++] = t;
        for (uint32_t k = 1; k < 3; k++) {
            const uint32_t w = s->surface->triangles[t][(corner + k) % 3];
            if (!has(out->beside, out->n_beside, w)) out->beside[out->n_beside++] = w;
        }
        before = corner;
        link = &s->next[corner];
    }
    s->last[v] = before;
    return true;
}

static shape measure(const ct_wrap_surface *s, const uint32_t corner[3]) {
    shape out = {{0, 0, 0}, 0, 0};
    const double *p[3] = {s->points[corner[0]], s->points[corner[1]], s->points[corner[2]]};
    double edges = 0, size = 0;
    for (int k = 0; k < 3; k++) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        out.normal[k] = (p[1][i] - p[0][i]) * (p[2][j] - p[0][j]) - (p[1][j] - p[0][j]) * (p[2][i] - p[0][i]);
        size += out.normal[k] * out.normal[k];
        for (int c = 0; c < 3; c++) edges += (p[c][k] - p[(c + 1) % 3][k]) * (p[c][k] - p[(c + 1) % 3][k]);
    }
    size = sqrt(size);
    for (int k = 0; k < 3; k++) out.normal[k] = size > 0 ? out.normal[k] / size : 0;
    out.area = size / 2;
    out.quality = edges > 0 ? 2 * sqrt(3.0) * size / edges : 0;
    return out;
}

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* How good the worst triangle is once u has moved to v; NONE: it may not. *moves: how far the surface moves. */
static double judge(simplifier *s, uint32_t u, uint32_t v, const ring *around, double *moves) {
    double worst = 1, before = 1, way[3];
    int n_shared = 0;
    *moves = 0;
    for (int k = 0; k < 3; k++) way[k] = s->surface->points[v][k] - s->surface->points[u][k];
    for (int i = 0; i < around->n_triangles; i++) {
        const uint32_t *t = s->surface->triangles[around->triangles[i]];
        const shape old = around->shapes[i];
        const bool is_needle = old.quality < NEEDLE;
        if (!is_needle) *moves = fmax(*moves, fabs(dot(way, old.normal)));
        before = fmin(before, old.quality);
        if (has(t, 3, v)) {
            n_shared++;
            continue;
        }
        uint32_t corner[3];
        for (int c = 0; c < 3; c++) corner[c] = t[c] == u ? v : t[c];
        const shape new = measure(s->surface, corner);
        if (is_needle ? dot(around->normal, new.normal) < LEAST_NEEDLE_TURN : dot(old.normal, new.normal) < LEAST_TURN)
            return NONE;
        worst = fmin(worst, new.quality);
    }
    *moves += (double)s->moved[u];
    if (n_shared != 2 || *moves > s->most || worst < fmin(LEAST_QUALITY, before)) return NONE;
    return worst;
}

/* An edge may go if its ends have just those two neighbours in common that its triangles have. */
static bool may_join(simplifier *s, uint32_t v, const ring *around) {
    ring other;
    if (!find_ring(s, v, &other) || other.n_triangles + around->n_triangles - 4 > MOST_RING) return false;
    int n = 0;
    for (int i = 0; i < other.n_beside; i++) n += has(around->beside, around->n_beside, other.beside[i]);
    return n == 2 && other.n_triangles > 3;
}

static void join(simplifier *s, uint32_t u, uint32_t v, const ring *around, double moves) {
    for (int i = 0; i < around->n_triangles; i++) {
        uint32_t *t = s->surface->triangles[around->triangles[i]];
        if (has(t, 3, v)) s->is_gone[around->triangles[i]] = 1;
        for (int c = 0; c < 3; c++)
            if (t[c] == u) t[c] = v;
    }
    for (int i = 0; i < around->n_beside; i++) {
        const uint32_t w = around->beside[i];
        s->is_resting[w] = 1;
        s->moved[w] = fmaxf(s->moved[w], (float)moves);
    }
    if (s->first[u] == UINT32_MAX) return;
    s->next[s->last[u]] = s->first[v];
    s->first[v] = s->first[u];
    s->first[u] = UINT32_MAX;
}

static void measure_ring(const simplifier *s, ring *r) {
    double sum[3] = {0, 0, 0};
    for (int i = 0; i < r->n_triangles; i++) {
        r->shapes[i] = measure(s->surface, s->surface->triangles[r->triangles[i]]);
        for (int k = 0; k < 3; k++) sum[k] += r->shapes[i].area * r->shapes[i].normal[k];
    }
    const double size = sqrt(dot(sum, sum));
    for (int k = 0; k < 3; k++) r->normal[k] = size > 0 ? sum[k] / size : 0;
}

static bool try_vertex(simplifier *s, uint32_t u) {
    ring around;
    if (s->first[u] == UINT32_MAX || s->is_resting[u] || !find_ring(s, u, &around)) return false;
    measure_ring(s, &around);
    double best = NONE, best_moves = 0, moves;
    uint32_t to = 0;
    for (int i = 0; i < around.n_beside; i++) {
        if (s->is_resting[around.beside[i]]) continue;
        const double quality = judge(s, u, around.beside[i], &around, &moves);
        if (!(quality > best) || !may_join(s, around.beside[i], &around)) continue;
        best = quality, best_moves = moves, to = around.beside[i];
    }
    if (best < 0) return false;
    join(s, u, to, &around, best_moves);
    return true;
}

/* Points that triangles use, and triangles that are there, in their order. */
static bool compact(simplifier *s) {
    ct_wrap_surface *surface = s->surface;
    size_t n = 0, n_points = 0;
    uint32_t *number = s->first;
    for (size_t t = 0; t < surface->n_triangles; t++) {
        if (CT_POLL_EVERY(t, 1 << 14) && ct_is_cancelled()) return false;
        if (!s->is_gone[t]) memmove(surface->triangles[n++], surface->triangles[t], sizeof surface->triangles[0]);
    }
    surface->n_triangles = n;
    memset(number, 0, surface->n_points * sizeof *number);
    for (size_t t = 0; t < n; t++)
        for (int c = 0; c < 3; c++) number[surface->triangles[t][c]] = 1;
    for (size_t v = 0; v < surface->n_points; v++) {
        if (!number[v]) continue;
        memmove(surface->points[n_points], surface->points[v], sizeof surface->points[0]);
        number[v] = (uint32_t)n_points++;
    }
    surface->n_points = n_points;
    for (size_t t = 0; t < n; t++)
        for (int c = 0; c < 3; c++) surface->triangles[t][c] = number[surface->triangles[t][c]];
    return !ct_is_cancelled();
}

static bool run_passes(simplifier *s) {
    const size_t n = s->surface->n_points;
    for (int pass = 0; pass < MOST_PASSES; pass++) {
        size_t n_moved = 0;
        memset(s->is_resting, 0, n);
        for (uint32_t v = 0; v < n; v++) {
            if (CT_POLL_EVERY(v, 64) && ct_is_cancelled()) return false;
            n_moved += try_vertex(s, v);
        }
        if (n_moved < n / 200) break;
    }
    return true;
}

bool ct_simplify_wrap(ct_wrap_surface *surface, double most) {
    const size_t n = surface->n_points, m = surface->n_triangles;
    simplifier s = {surface,
                    most,
                    malloc((n + 1) * sizeof *s.first),
                    malloc((n + 1) * sizeof *s.last),
                    malloc((3 * m + 1) * sizeof *s.next),
                    calloc(n + 1, sizeof *s.moved),
                    calloc(n + 1, 1),
                    calloc(m + 1, 1)};
    bool is_right = s.first && s.last && s.next && s.moved && s.is_resting && s.is_gone && 3 * m < UINT32_MAX;
    if (is_right) memset(s.first, 0xff, n * sizeof *s.first);
    for (size_t i = 3 * m; i-- > 0 && is_right;) {
        const uint32_t v = surface->triangles[i / 3][i % 3];
        if (CT_POLL_EVERY(i, 1 << 14) && ct_is_cancelled()) is_right = false;
        s.next[i] = s.first[v];
        s.first[v] = (uint32_t)i;
    }
    is_right = is_right && run_passes(&s) && compact(&s);
    free(s.first), free(s.last), free(s.next), free(s.moved), free(s.is_resting), free(s.is_gone);
    return is_right;
}
