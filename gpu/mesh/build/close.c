/* close.c - walls and a far cap for an open surface. */
#include "gpu/mesh/build/close.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/mesh/build/repair.h"
#include "gpu/mesh/build/validate.h"

/* Edges of a rim: pairs of them are compared. */
enum { MOST_RIM_EDGES = 1 << 15 };

/* A triangle that faces along the direction by more than this sine hangs over. */
#define LEVEL 1e-6

enum { POLL = 1024 }; /* triangles, vertices or pairs of edges between polls */

struct flat {
    double u, v;
};

struct side { /* an edge of the rim, along its triangle */
    uint32_t from, to;
    struct flat p, q;
    double lo, hi; /* along u */
};

struct closing {
    ct_soup *soup;
    const double *direction;
    double u[3], v[3]; /* the plane across the direction */
    struct side *sides;
    size_t n_sides;
};

static double along(const double a[3], const float *p) {
    return a[0] * (double)p[0] + a[1] * (double)p[1] + a[2] * (double)p[2];
}

static const float *position(const ct_soup *soup, uint32_t v) {
    return soup->positions + 3 * (size_t)v;
}

static ct_status fail_at(const ct_soup *soup, uint32_t vertex, const char *what, const char *remedy, ct_error *error) {
    const float *p = position(soup, vertex);
    return ct_fail(error, CT_INVALID_MESH, "open_direction", "%s at vertex %u (%g, %g, %g): %s", what, vertex,
                   (double)p[0], (double)p[1], (double)p[2], remedy);
}

/* Every triangle faces against the direction, or stands along it. */
static ct_status check_facing(const struct closing *c, ct_error *error) {
    const ct_soup *soup = c->soup;
    size_t n_over = 0, first = 0;
    double facing = 0;
    for (size_t t = 0; t < soup->n_triangles; t++) {
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return ct_fail_cancelled(error);
        const uint32_t *k = soup->triangles + 3 * t;
        const float *p = position(soup, k[0]), *q = position(soup, k[1]), *r = position(soup, k[2]);
        double n[3], size = 0, dot = 0;
        for (int i = 0; i < 3; i++) {
            const int a = (i + 1) % 3, b = (i + 2) % 3;
            n[i] = ((double)q[a] - (double)p[a]) * ((double)r[b] - (double)p[b]) -
                   ((double)q[b] - (double)p[b]) * ((double)r[a] - (double)p[a]);
            size += n[i] * n[i];
            dot += n[i] * c->direction[i];
        }
        facing += dot;
        if (dot > LEVEL * sqrt(size) && !n_over++) first = t;
    }
    if (!n_over) return CT_OK;
    if (facing >= 0)
        return fail_at(soup, soup->triangles[3 * first], "the surface faces along the open direction",
                       "the volume lies behind the surface; turn its triangles, or the direction", error);
    return fail_at(soup, soup->triangles[3 * first], "a triangle hangs over, seen along the open direction",
                   "each line along it may meet the surface once; cut overhangs off, or close the surface", error);
}

/* A vertex's root; paths are halved on the way. One alone may be as long as the mesh. */
static uint32_t root_of(uint32_t *parent, uint32_t v) {
    for (size_t i = 1; parent[v] != v; v = parent[v] = parent[parent[v]], i++)
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) break;
    return v;
}

/* Sets *other to a vertex that triangles do not connect with the first one's, or to the first one. False: cancelled. */
static bool find_other_part(const ct_soup *soup, uint32_t *parent, uint32_t *other) {
    for (size_t v = 0; v < soup->n_vertices; v++) {
        if (CT_POLL_EVERY(v, 8 * POLL) && ct_is_cancelled()) return false;
        parent[v] = (uint32_t)v;
    }
    for (size_t i = 0; i < 3 * soup->n_triangles; i++) {
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return false;
        const uint32_t a = root_of(parent, soup->triangles[i]), b = root_of(parent, soup->triangles[i - i % 3]);
        parent[a > b ? a : b] = a > b ? b : a;
    }
    const uint32_t root = root_of(parent, soup->triangles[0]);
    *other = soup->triangles[0];
    for (size_t t = 0; t < soup->n_triangles; t++) {
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        if (root_of(parent, soup->triangles[3 * t]) != root) *other = soup->triangles[3 * t];
    }
    return true;
}

/* Triangles are connected by vertices. */
static ct_status check_connected(const ct_soup *soup, ct_error *error) {
    uint32_t *parent = malloc((soup->n_vertices + 1) * sizeof *parent), other;
    const bool is_found = parent && find_other_part(soup, parent, &other);
    free(parent);
    if (!is_found) return ct_fail(error, CT_OUT_OF_MEMORY, "open_direction", "no memory to close the surface");
    if (other == soup->triangles[0]) return CT_OK;
    return fail_at(soup, other, "the surface has several parts, one of them", "register each as a mesh of its own",
                   error);
}

/* ---- the rim ---- */

static void set_plane(struct closing *c) {
    int least = 0;
    double axis[3] = {0, 0, 0}, length = 0;
    for (int k = 1; k < 3; k++)
        if (fabs(c->direction[k]) < fabs(c->direction[least])) least = k;
    axis[least] = 1;
    for (int k = 0; k < 3; k++) {
        const int a = (k + 1) % 3, b = (k + 2) % 3;
        c->u[k] = axis[a] * c->direction[b] - axis[b] * c->direction[a];
        length += c->u[k] * c->u[k];
    }
    for (int k = 0; k < 3; k++) c->u[k] /= sqrt(length);
    for (int k = 0; k < 3; k++) {
        const int a = (k + 1) % 3, b = (k + 2) % 3;
        c->v[k] = c->direction[a] * c->u[b] - c->direction[b] * c->u[a];
    }
}

static int by_lo(const void *a, const void *b) {
    const struct side *x = a, *y = b;
    if (x->lo != y->lo) return x->lo < y->lo ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Lists the edges with one triangle. */
static ct_status find_rim(struct closing *c, ct_error *error) {
    size_t n;
    ct_half_edge *edges = ct_half_edges(c->soup->triangles, c->soup->n_triangles, &n);
    c->sides = edges ? malloc((n + 1) * sizeof *c->sides) : NULL;
    if (!c->sides) {
        free(edges);
        return ct_fail(error, CT_OUT_OF_MEMORY, "open_direction", "no memory to close the surface");
    }
    for (size_t i = 0, k = 0, end; i < n; i = end, k++) {
        if (CT_POLL_EVERY(k, POLL) && ct_is_cancelled()) {
            free(edges);
            return ct_fail_cancelled(error);
        }
        for (end = i + 1; end < n && edges[end].key == edges[i].key; end++) continue;
        if (end - i > 1) continue;
        struct side *s = &c->sides[c->n_sides++];
        s->from = edges[i].from, s->to = edges[i].to;
        const float *p = position(c->soup, s->from), *q = position(c->soup, s->to);
        s->p = (struct flat){along(c->u, p), along(c->v, p)};
        s->q = (struct flat){along(c->u, q), along(c->v, q)};
        s->lo = fmin(s->p.u, s->q.u);
        s->hi = fmax(s->p.u, s->q.u);
    }
    free(edges);
    if (!c->n_sides)
        return ct_fail(error, CT_INVALID_MESH, "open_direction",
                       "the surface has no rim: it is closed, so leave out open_direction");
    if (c->n_sides > MOST_RIM_EDGES)
        return ct_fail(error, CT_INVALID_MESH, "open_direction", "the rim has %zu edges, at most %d can be closed",
                       c->n_sides, MOST_RIM_EDGES);
    if (ct_sort_large(c->sides, c->n_sides, sizeof *c->sides, by_lo)) return CT_OK;
    return ct_fail(error, CT_OUT_OF_MEMORY, "open_direction", "no memory to close the surface");
}

static double turn(struct flat a, struct flat b, struct flat c) {
    return (b.u - a.u) * (c.v - a.v) - (b.v - a.v) * (c.u - a.u);
}

static int sign(double x) {
    return (x > 0) - (x < 0);
}

/* Whether two edges of the rim meet in the plane, elsewhere than at a vertex that they share. */
static bool sides_meet(const struct side *a, const struct side *b) {
    if (fmax(a->p.v, a->q.v) < fmin(b->p.v, b->q.v) || fmax(b->p.v, b->q.v) < fmin(a->p.v, a->q.v)) return false;
    const bool in_line = a->to == b->from, in_line_back = b->to == a->from;
    if (in_line && in_line_back) return true;
    if (in_line || in_line_back) {
        const struct side *first = in_line ? a : b, *second = in_line ? b : a;
        const double du = first->q.u - first->p.u, dv = first->q.v - first->p.v, eu = second->q.u - second->p.u,
                     ev = second->q.v - second->p.v;
        return turn(first->p, first->q, second->q) == 0 && du * eu + dv * ev < 0; /* it turns back on itself */
    }
    const int a0 = sign(turn(b->p, b->q, a->p)), a1 = sign(turn(b->p, b->q, a->q));
    const int b0 = sign(turn(a->p, a->q, b->p)), b1 = sign(turn(a->p, a->q, b->q));
    if (a0 * a1 > 0 || b0 * b1 > 0) return false;
    if (a0 || a1 || b0 || b1) return true;
    return a->lo <= b->hi && b->lo <= a->hi; /* on one line, and their boxes overlap */
}

/* Seen along the direction, the rim is made of simple loops. */
static ct_status check_rim(const struct closing *c, ct_error *error) {
    static const char *const remedy = "the walls along the open direction would cross or have no width there";
    for (size_t i = 0; i < c->n_sides; i++) {
        const struct side *s = &c->sides[i];
        if (s->p.u == s->q.u && s->p.v == s->q.v)
            return fail_at(c->soup, s->from, "an edge of the rim runs along the open direction", remedy, error);
        for (size_t k = i + 1; k < c->n_sides && c->sides[k].lo <= s->hi; k++) {
            if (CT_POLL_EVERY(k, POLL) && ct_is_cancelled()) return ct_fail_cancelled(error);
            if (sides_meet(s, &c->sides[k]))
                return fail_at(c->soup, s->from, "the rim meets itself, seen along the open direction,", remedy, error);
        }
    }
    return CT_OK;
}

/* ---- walls and cap ---- */

static ct_status add_copies(struct closing *c, uint32_t *copy, uint32_t *rim, uint32_t *n_rim, ct_error *error) {
    ct_soup *soup = c->soup;
    double lo[3], hi[3], deepest = -INFINITY, diagonal = 0;
    for (int k = 0; k < 3; k++) lo[k] = INFINITY, hi[k] = -INFINITY;
    for (size_t i = 0; i < 3 * soup->n_triangles; i++) { /* not all vertices: no triangle may use some */
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return ct_fail_cancelled(error);
        const float *p = position(soup, soup->triangles[i]);
        deepest = fmax(deepest, along(c->direction, p));
        for (int k = 0; k < 3; k++) lo[k] = fmin(lo[k], (double)p[k]), hi[k] = fmax(hi[k], (double)p[k]);
    }
    for (int k = 0; k < 3; k++) diagonal += (hi[k] - lo[k]) * (hi[k] - lo[k]);
    const double far = deepest + CT_OPEN_DEPTH * sqrt(diagonal);
    if (!ct_fill_large(copy, 0xff, soup->n_vertices * sizeof *copy)) return ct_fail_cancelled(error);
    const size_t n_given = soup->n_vertices;
    for (size_t i = 0; i < c->n_sides; i++) copy[c->sides[i].from] = 0;
    for (size_t v = 0; v < n_given; v++) { /* in rising order, so that no order of triangles matters */
        if (CT_POLL_EVERY(v, 8 * POLL) && ct_is_cancelled()) return ct_fail_cancelled(error);
        if (copy[v] == UINT32_MAX) continue;
        const float *p = position(soup, (uint32_t)v);
        const double way = far - along(c->direction, p);
        float moved[3];
        for (int k = 0; k < 3; k++) moved[k] = (float)((double)p[k] + way * c->direction[k]);
        copy[v] = (uint32_t)soup->n_vertices;
        rim[(*n_rim)++] = (uint32_t)v;
        const ct_status status = ct_soup_add_vertex(soup, moved, error);
        if (status != CT_OK) return status;
    }
    return CT_OK;
}

/* The cap is a fan around one copy. Where a loop is not star-shaped its triangles overlap on the plane, with signs that
 * cancel: its winding numbers are those of any other cap of the same loops on the plane. */
static ct_status add_walls(struct closing *c, const uint32_t *copy, const uint32_t *rim, ct_error *error) {
    ct_status status = CT_OK;
    const uint32_t fan = copy[rim[0]];
    for (size_t i = 0; i < c->n_sides && status == CT_OK; i++) {
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return ct_fail_cancelled(error);
        const uint32_t a = c->sides[i].from, b = c->sides[i].to, far_a = copy[a], far_b = copy[b];
        if (far_b == UINT32_MAX)
            return fail_at(c->soup, b, "the rim has no direction", "turn all triangles of the surface alike", error);
        status = ct_soup_add_triangle(c->soup, b, a, far_a, error);
        if (status == CT_OK) status = ct_soup_add_triangle(c->soup, b, far_a, far_b, error);
        if (status == CT_OK && far_a != fan && far_b != fan)
            status = ct_soup_add_triangle(c->soup, far_b, far_a, fan, error);
    }
    return status;
}

ct_status ct_close_along(ct_soup *soup, const double direction[3], uint32_t **rim, uint32_t *n_rim, ct_error *error) {
    struct closing c = {.soup = soup, .direction = direction};
    uint32_t *copy = NULL;
    *rim = NULL;
    *n_rim = 0;
    ct_status status =
        ct_validate_elements(soup->positions, soup->n_vertices, soup->triangles, soup->n_triangles, error);
    set_plane(&c);
    if (status == CT_OK) status = find_rim(&c, error); /* before other checks: no turn or cut helps a closed mesh */
    if (status == CT_OK) status = check_connected(soup, error);
    if (status == CT_OK) status = check_facing(&c, error);
    if (status == CT_OK) status = check_rim(&c, error);
    if (status == CT_OK) {
        copy = malloc((soup->n_vertices + 1) * sizeof *copy);
        *rim = malloc((c.n_sides + 1) * sizeof **rim);
        if (!copy || !*rim)
            status = ct_fail(error, CT_OUT_OF_MEMORY, "open_direction", "no memory to close the surface");
    }
    if (status == CT_OK) status = add_copies(&c, copy, *rim, n_rim, error);
    if (status == CT_OK) status = add_walls(&c, copy, *rim, error);
    free(copy);
    free(c.sides);
    if (status != CT_OK) {
        free(*rim);
        *rim = NULL;
    }
    return status;
}
