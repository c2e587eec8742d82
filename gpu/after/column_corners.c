/* column_corners.c - where the surfaces of a contact pierce one another. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/after/columns.h"
#include "gpu/base/large.h"

/* What a corner costs beside its search: it is stored and sorted. */
enum { VISITS_OF_CORNER = 16 };
/* What comparing two triangles costs whose boxes meet. */
enum { VISITS_OF_PAIR = 8 };

/* ---- corners ---- */

static int by_place(const void *a, const void *b) {
    const double *p = a, *q = b;
    for (int k = 0; k < 2; k++)
        if (p[k] != q[k]) return p[k] < q[k] ? -1 : 1;
    return 0;
}

/* Sorts corners by place, one for each. False: out of memory. */
static bool merge_corners(ct_columns *c) {
    if (c->n_corners == 0) return true;
    if (!ct_sort_large(c->corners, c->n_corners, sizeof *c->corners, by_place)) return false;
    size_t kept = 1;
    for (size_t i = 1; i < c->n_corners; i++) {
        if (by_place(c->corners[i], c->corners[kept - 1]) == 0) continue;
        memcpy(c->corners[kept++], c->corners[i], sizeof *c->corners);
    }
    c->n_corners = kept;
    return true;
}

bool ct_columns_add_corner(ct_columns *c, double u, double v) {
    if (u < c->lo[0] || u > c->hi[0] || v < c->lo[1] || v > c->hi[1]) return true;
    if (c->n_corners == c->corner_capacity) {
        /* Surfaces that coincide pierce one another at the same places again and again. */
        if (!merge_corners(c)) return false;
        const bool is_half_full = 2 * c->n_corners >= c->corner_capacity;
        void *corners = is_half_full ? ct_column_grow(c->corners, &c->corner_capacity, c->corner_capacity,
                                                      sizeof *c->corners, _Alignof(double))
                                     : c->corners;
        if (!corners) return false;
        c->corners = corners;
    }
    c->corners[c->n_corners][0] = u;
    c->corners[c->n_corners++][1] = v;
    c->visits += VISITS_OF_CORNER;
    return true;
}

static void normal_of(const double *const p[3], double normal[3]) {
    double a[3], b[3];
    for (int i = 0; i < 3; i++) {
        a[i] = p[1][i] - p[0][i];
        b[i] = p[2][i] - p[0][i];
    }
    for (int i = 0; i < 3; i++) normal[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

/* Whether a point of the triangle's plane is in it, seen along the normal's largest component, but for rounding. */
static bool covers(const double *const p[3], const double normal[3], const double x[3]) {
    int k = 0;
    for (int i = 1; i < 3; i++)
        if (fabs(normal[i]) > fabs(normal[k])) k = i;
    const int i = (k + 1) % 3, j = (k + 2) % 3;
    for (int e = 0; e < 3; e++) {
        const double *a = p[e], *b = p[(e + 1) % 3];
        const double area = (b[i] - a[i]) * (x[j] - a[j]) - (b[j] - a[j]) * (x[i] - a[i]);
        if (area / normal[k] < -1e-9) return false;
    }
    return true;
}

/* A triangle as what others pierce. */
struct face {
    const ct_column_triangle *triangle;
    double normal[3];
    bool has_normal;
};

static struct face face_of(const ct_column_triangle *t) {
    struct face face = {.triangle = t};
    normal_of(t->p, face.normal);
    face.has_normal = ct_dot3(face.normal, face.normal) > 0;
    return face;
}

/* Of the corners of a triangle: how far above the face they are, times the normal's length. False: they are all on the
 * same side of its plane. */
static bool find_heights(const struct face *face, const ct_column_triangle *t, double above[3]) {
    for (int k = 0; k < 3; k++) {
        double from[3];
        for (int i = 0; i < 3; i++) from[i] = t->p[k][i] - face->triangle->p[0][i];
        above[k] = ct_dot3(face->normal, from);
    }
    return !((above[0] > 0 && above[1] > 0 && above[2] > 0) || (above[0] < 0 && above[1] < 0 && above[2] < 0));
}

/* Where edges of `edges`, with these heights, pierce the face. */
static bool add_piercings_of(ct_columns *c, const struct face *face, const ct_column_triangle *edges,
                             const double above[3]) {
    if (!face->has_normal) return true;
    for (int k = 0; k < 3; k++) {
        const int next = (k + 1) % 3;
        if ((above[k] > 0 && above[next] > 0) || (above[k] < 0 && above[next] < 0) || above[k] == above[next]) continue;
        const double at = above[k] / (above[k] - above[next]);
        double x[3];
        for (int i = 0; i < 3; i++) x[i] = edges->p[k][i] + at * (edges->p[next][i] - edges->p[k][i]);
        if (covers(face->triangle->p, face->normal, x) && !ct_columns_add_corner(c, x[CT_U], x[CT_V])) return false;
    }
    return true;
}

/* Where two triangles pierce one another: each has corners on both sides of the other's plane. */
static bool add_piercings(ct_columns *c, const struct face *a, const ct_column_triangle *b) {
    double of_b[3], of_a[3];
    if (!find_heights(a, b, of_b)) return true;
    const struct face other = face_of(b);
    if (!find_heights(&other, a->triangle, of_a)) return true;
    return add_piercings_of(c, a, b, of_b) && add_piercings_of(c, &other, a->triangle, of_a);
}

/* ---- pairs of clusters ---- */

/* Some triangles of a block that have entries, with their boxes, four a node. */
struct chosen {
    const ct_column_triangle *triangles[CT_CLUSTER_TRIANGLES];
    ct_column_node boxes[CT_COLUMN_GROUPS];
    uint32_t n;
};

/* Whether the box is on both sides of the triangle's plane, or so near that rounding may have it there. */
static bool may_pass_box(const ct_column_triangle *t, const ct_column_box *box) {
    double normal[3], above = 0, half = 0;
    normal_of(t->p, normal);
    for (int k = 0; k < 3; k++) {
        above += normal[k] * (0.5 * (box->lo[k] + box->hi[k]) - t->p[0][k]);
        half += fabs(normal[k]) * (0.5 * (box->hi[k] - box->lo[k]) + 1e-9 * (fabs(box->lo[k]) + fabs(box->hi[k])));
    }
    return fabs(above) <= half * (1 + 1e-9);
}

/* Those that may reach into the box; `around`: the box, rounded outwards. */
static void choose_triangles(ct_columns *c, const ct_column_block *block, const ct_column_box *box,
                             const ct_column_node *around, struct chosen *chosen) {
    chosen->n = 0;
    for (uint32_t first = 0; first < block->n; first += CT_COLUMN_FAN) {
        const ct_column_node *boxes = &block->boxes[first / CT_COLUMN_FAN];
        for (uint32_t lanes = ct_column_nodes_meet(boxes, around); lanes; lanes &= lanes - 1) {
            const uint32_t lane = (uint32_t)__builtin_ctz(lanes);
            const ct_column_triangle *t = &block->triangles[first + lane];
            if (!t->is_listed || !may_pass_box(t, box)) continue;
            const uint32_t to = chosen->n % CT_COLUMN_FAN;
            ct_column_node *node = &chosen->boxes[chosen->n / CT_COLUMN_FAN];
            if (to == 0) *node = ct_column_node_of_none();
            for (int k = 0; k < 3; k++) {
                node->lo[k][to] = boxes->lo[k][lane];
                node->hi[k][to] = boxes->hi[k][lane];
            }
            chosen->triangles[chosen->n++] = t;
        }
    }
    c->visits += block->n;
}

/* The box of all that are chosen. */
static ct_column_box box_of_chosen(const struct chosen *chosen) {
    ct_column_box box;
    for (int k = 0; k < 3; k++) {
        box.lo[k] = INFINITY;
        box.hi[k] = -INFINITY;
        for (uint32_t i = 0; i < chosen->n; i++) {
            const ct_column_node *node = &chosen->boxes[i / CT_COLUMN_FAN];
            const double lo = (double)node->lo[k][i % CT_COLUMN_FAN], hi = (double)node->hi[k][i % CT_COLUMN_FAN];
            box.lo[k] = lo < box.lo[k] ? lo : box.lo[k];
            box.hi[k] = hi > box.hi[k] ? hi : box.hi[k];
        }
    }
    return box;
}

static bool pierce_chosen(ct_columns *c, const struct chosen *a, const struct chosen *b, bool is_same) {
    for (uint32_t i = 0; i < a->n; i++) {
        if (ct_columns_are_cancelled(c)) return false;
        const struct face face = face_of(a->triangles[i]);
        ct_column_node box;
        for (int k = 0; k < 3; k++) {
            const float lo = a->boxes[i / CT_COLUMN_FAN].lo[k][i % CT_COLUMN_FAN];
            const float hi = a->boxes[i / CT_COLUMN_FAN].hi[k][i % CT_COLUMN_FAN];
            box.lo[k] = (ct_v4f){lo, lo, lo, lo};
            box.hi[k] = (ct_v4f){hi, hi, hi, hi};
        }
        for (uint32_t first = 0; first < b->n; first += CT_COLUMN_FAN)
            for (uint32_t lanes = ct_column_nodes_meet(&b->boxes[first / CT_COLUMN_FAN], &box); lanes;
                 lanes &= lanes - 1) {
                const uint32_t k = first + (uint32_t)__builtin_ctz(lanes);
                if (is_same && k <= i) continue;
                c->visits += VISITS_OF_PAIR;
                if (!add_piercings(c, &face, b->triangles[k])) return false;
            }
        c->visits += b->n;
    }
    return true;
}

static double size_of(const ct_column_box *box) {
    return (box->hi[0] - box->lo[0]) + (box->hi[1] - box->lo[1]) + (box->hi[2] - box->lo[2]);
}

/* Where triangles of two clusters pierce one another, of a cluster of each of two surfaces, which may be the same.
 * Few triangles of the larger one reach into the smaller one's box, so the smaller one is often left alone. */
static bool pierce_clusters(ct_columns *c, ct_column_surface *a, uint32_t i, ct_column_surface *b, uint32_t k) {
    struct chosen of_large, of_small;
    const bool is_same = a == b && i == k, is_larger = size_of(&a->boxes[i]) >= size_of(&b->boxes[k]);
    ct_column_surface *large = is_larger ? a : b, *small = is_larger ? b : a;
    const uint32_t at_large = is_larger ? i : k, at_small = is_larger ? k : i;
    const ct_column_block *block = ct_column_surface_block(large, at_large);
    if (!block) return false;
    const ct_column_node around = ct_column_node_of(&small->boxes[at_small]);
    choose_triangles(c, block, &small->boxes[at_small], &around, &of_large);
    if (of_large.n == 0) return true;
    if (is_same) return pierce_chosen(c, &of_large, &of_large, true);
    block = ct_column_surface_block(small, at_small);
    if (!block) return false;
    const ct_column_box box = box_of_chosen(&of_large);
    const ct_column_node around_large = ct_column_node_of(&box);
    choose_triangles(c, block, &box, &around_large, &of_small);
    return pierce_chosen(c, &of_large, &of_small, false);
}

/* Where triangles of the first surface's cluster pierce the other surface, or later clusters of a body with itself. */
static bool pierce_from(ct_columns *c, uint32_t cluster) {
    ct_column_surface *a = &c->surface[0], *b = &c->surface[c->is_self ? 0 : 1];
    ct_column_search search = ct_column_tree_find(&b->tree, &a->boxes[cluster]);
    bool ok = !ct_columns_are_cancelled(c);
    for (uint32_t other; ok && ct_column_search_next(&search, &other);)
        if (!c->is_self || other >= cluster) ok = pierce_clusters(c, a, cluster, b, other);
    c->visits += search.visits;
    return ok;
}

/* ---- planes ---- */

/* Where the edges of a triangle pass through the plane of a half-space. */
static bool pass_triangle(ct_columns *c, const ct_column_triangle *t, const double plane[4]) {
    double above[3];
    for (int k = 0; k < 3; k++) above[k] = ct_dot3(plane, t->p[k]) + plane[3];
    for (int k = 0; k < 3; k++) {
        const int next = (k + 1) % 3;
        if ((above[k] > 0) == (above[next] > 0)) continue;
        const double at = above[k] / (above[k] - above[next]);
        if (!ct_columns_add_corner(c, t->p[k][CT_U] + at * (t->p[next][CT_U] - t->p[k][CT_U]),
                                   t->p[k][CT_V] + at * (t->p[next][CT_V] - t->p[k][CT_V])))
            return false;
    }
    return true;
}

static bool reaches_plane(const ct_column_box *box, const double plane[4]) {
    double above = plane[3], half = 0;
    for (int k = 0; k < 3; k++) {
        above += plane[k] * 0.5 * (box->lo[k] + box->hi[k]);
        half += fabs(plane[k]) * 0.5 * (box->hi[k] - box->lo[k]);
    }
    return fabs(above) <= half + 1e-9 * (half + fabs(plane[3]));
}

static bool pass_plane(ct_columns *c, ct_column_surface *surface, const double plane[4]) {
    for (uint32_t i = 0; i < surface->n; i++) {
        if (!reaches_plane(&surface->boxes[i], plane)) continue;
        const ct_column_block *block = ct_column_surface_block(surface, i);
        if (!block || ct_columns_are_cancelled(c)) return false;
        for (uint32_t t = 0; t < block->n; t++)
            if (!pass_triangle(c, &block->triangles[t], plane)) return false;
        c->visits += block->n;
    }
    return true;
}

/* The clusters of the first surface come evenly spread, for the case that the bound ends the search. */
bool ct_columns_find_piercings(ct_columns *c) {
    const size_t n = c->surface[0].n;
    for (size_t k = 0; k < ct_spread_end(n) && !ct_columns_are_spent(c); k++) {
        const size_t i = ct_spread(k, n);
        if (i < n && !pierce_from(c, (uint32_t)i)) return false;
    }
    for (int s = 0; s < 2; s++)
        if (c->is_half_space[s] && !pass_plane(c, &c->surface[1 - s], c->plane[s])) return false;
    return true;
}
