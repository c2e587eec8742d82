/* fill.c - fills a hole by clipping ears of its loop of vertices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/repair.h"

double ct_measure_loop(const ct_soup *soup, const ct_loop *loop, double middle[3]) {
    double longest = 0;
    for (int k = 0; k < 3; k++) {
        double lo = INFINITY, hi = -INFINITY;
        for (size_t i = 0; i < loop->n; i++) {
            const double x = (double)soup->positions[3 * (size_t)loop->vertices[i] + (size_t)k];
            lo = fmin(lo, x), hi = fmax(hi, x);
        }
        middle[k] = (lo + hi) / 2;
        longest = fmax(longest, hi - lo);
    }
    return longest;
}

struct point {
    double u, v;
};

static double turn(struct point a, struct point b, struct point c) {
    return (b.u - a.u) * (c.v - a.v) - (b.v - a.v) * (c.u - a.u);
}

/* The loop as seen along its normal (Newell), so that it runs counter-clockwise. False: it encloses no area. */
static bool flatten(const ct_soup *soup, const ct_loop *loop, struct point *flat) {
    double middle[3], normal[3] = {0, 0, 0};
    ct_measure_loop(soup, loop, middle);
    for (size_t i = 0; i < loop->n; i++) {
        const float *p = soup->positions + 3 * (size_t)loop->vertices[i],
                    *q = soup->positions + 3 * (size_t)loop->vertices[(i + 1) % loop->n];
        for (int k = 0; k < 3; k++) {
            const int a = (k + 1) % 3, b = (k + 2) % 3;
            normal[k] += ((double)p[a] - middle[a]) * ((double)q[b] - middle[b]) -
                         ((double)p[b] - middle[b]) * ((double)q[a] - middle[a]);
        }
    }
    const double size = sqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2]);
    if (!(size > 0)) return false;
    int least = 0;
    for (int k = 1; k < 3; k++)
        if (fabs(normal[k]) < fabs(normal[least])) least = k;
    double axis[3] = {0, 0, 0}, u[3], v[3], length = 0;
    axis[least] = 1;
    for (int k = 0; k < 3; k++) normal[k] /= size;
    for (int k = 0; k < 3; k++) {
        const int a = (k + 1) % 3, b = (k + 2) % 3;
        u[k] = axis[a] * normal[b] - axis[b] * normal[a];
        length += u[k] * u[k];
    }
    for (int k = 0; k < 3; k++) u[k] /= sqrt(length);
    for (int k = 0; k < 3; k++) {
        const int a = (k + 1) % 3, b = (k + 2) % 3;
        v[k] = normal[a] * u[b] - normal[b] * u[a];
    }
    for (size_t i = 0; i < loop->n; i++) {
        flat[i] = (struct point){0, 0};
        for (int k = 0; k < 3; k++) {
            const double x = (double)soup->positions[3 * (size_t)loop->vertices[i] + (size_t)k] - middle[k];
            flat[i].u += x * u[k];
            flat[i].v += x * v[k];
        }
    }
    return true;
}

static bool has_edge(const ct_half_edge *edges, size_t n, uint32_t a, uint32_t b) {
    const uint64_t key = ct_edge_key(a, b);
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (edges[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && edges[low].key == key;
}

struct clipping {
    const ct_loop *loop;
    const struct point *flat;
    uint32_t *left;  /* [n_left], places in the loop that are not clipped yet */
    double *quality; /* [n_left], as quality_of_ear, or of a time when more places were left */
    size_t n_left;
    const ct_half_edge *edges;
    size_t n_edges;
};

/* How good an ear the i-th place that is left is: the sine of its smallest angle, or below 0: it is none. */
static double quality_of_ear(const struct clipping *c, size_t i) {
    const uint32_t before = c->left[(i + c->n_left - 1) % c->n_left], at = c->left[i],
                   after = c->left[(i + 1) % c->n_left];
    const struct point p = c->flat[before], q = c->flat[at], r = c->flat[after];
    const double area = turn(p, q, r);
    if (!(area > 0)) return -1;
    if (c->n_left > 3 && has_edge(c->edges, c->n_edges, c->loop->vertices[before], c->loop->vertices[after])) return -1;
    for (size_t k = 0; k < c->n_left; k++) {
        const uint32_t other = c->left[k];
        if (other == before || other == at || other == after) continue;
        const struct point x = c->flat[other];
        if (turn(p, q, x) >= 0 && turn(q, r, x) >= 0 && turn(r, p, x) >= 0) return -1;
    }
    const double a = hypot(q.u - p.u, q.v - p.v), b = hypot(r.u - q.u, r.v - q.v), d = hypot(p.u - r.u, p.v - r.v);
    return fmin(area / (a * b), fmin(area / (b * d), area / (d * a)));
}

static void measure_ears(struct clipping *c) {
    for (size_t i = 0; i < c->n_left; i++) c->quality[i] = quality_of_ear(c, i);
}

static size_t best_ear(const struct clipping *c) {
    size_t best = 0;
    for (size_t i = 1; i < c->n_left; i++)
        if (c->quality[i] > c->quality[best]) best = i;
    return best;
}

/* Clips one ear. An ear stays one when others are clipped, but for its neighbours; what was none may become one. False:
 * there is none, or *status says what failed. */
static bool clip_ear(ct_soup *soup, struct clipping *c, ct_status *status, ct_error *error) {
    size_t best = best_ear(c);
    if (c->quality[best] < 0) {
        measure_ears(c);
        best = best_ear(c);
        if (c->quality[best] < 0) return false;
    }
    const uint32_t *vertices = c->loop->vertices;
    *status = ct_soup_add_triangle(soup, vertices[c->left[(best + c->n_left - 1) % c->n_left]], vertices[c->left[best]],
                                   vertices[c->left[(best + 1) % c->n_left]], error);
    if (*status != CT_OK) return false;
    c->n_left--;
    memmove(c->left + best, c->left + best + 1, (c->n_left - best) * sizeof *c->left);
    memmove(c->quality + best, c->quality + best + 1, (c->n_left - best) * sizeof *c->quality);
    const size_t neighbours[] = {(best + c->n_left - 1) % c->n_left, best % c->n_left};
    for (int k = 0; k < 2; k++) c->quality[neighbours[k]] = quality_of_ear(c, neighbours[k]);
    return true;
}

ct_status ct_fill_hole(ct_soup *soup, const ct_loop *loop, const ct_half_edge *edges, size_t n_edges, ct_error *error) {
    double middle[3];
    ct_measure_loop(soup, loop, middle);
    struct point *flat = malloc(loop->n * sizeof *flat);
    uint32_t *left = malloc(loop->n * sizeof *left);
    double *quality = malloc(loop->n * sizeof *quality);
    struct clipping c = {loop, flat, left, quality, loop->n, edges, n_edges};
    ct_status status = CT_OK;
    if (!flat || !left || !quality)
        status = ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory to fill a hole of %zu edges", loop->n);
    if (status == CT_OK && loop->n >= 3 && flatten(soup, loop, flat)) {
        for (size_t i = 0; i < loop->n; i++) left[i] = (uint32_t)i;
        measure_ears(&c);
        while (c.n_left >= 3 && clip_ear(soup, &c, &status, error)) continue;
    }
    if (status == CT_OK && c.n_left >= 3)
        status = ct_fail(error, CT_INVALID_MESH, "triangles",
                         "the hole of %zu edges around (%g, %g, %g) cannot be filled by the repair: seen along its "
                         "normal its boundary crosses itself or has no width; close it by hand",
                         loop->n, middle[0], middle[1], middle[2]);
    free(flat);
    free(left);
    free(quality);
    return status;
}
