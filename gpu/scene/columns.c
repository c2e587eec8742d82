/* columns.c - casts columns through the triangles of two bodies, by a grid over the contact's window. */
#include "gpu/scene/columns.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"

enum { U = 0, V = 1, W = 2 };

struct ct_column_triangle {
    double p[3][3]; /* m: u, v, w of its corners */
    uint32_t side;
    bool is_listed; /* a corner of it has an entry in the contact */
};

struct ct_column_hit {
    double w;
    int enters; /* 1, or -1: leaves */
    uint32_t side;
    bool is_listed;
};

/* Of the window's size: far above rounding, far below what matters in a contact. */
static const double SMALL = 1e-6;

/* The items with capacity for one more than n. NULL: out of memory; the items are as they were. */
static void *grown(void *items, size_t *capacity, size_t n, size_t size) {
    if (n < *capacity) return items;
    const size_t more = *capacity ? 2 * *capacity : 64;
    void *larger = realloc(items, more * size);
    if (larger) *capacity = more;
    return larger;
}

/* ---- triangles ---- */

/* Takes positions of a body to u, v, w. */
struct placing {
    double turn[3][3], shift[3];
};

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static struct placing place(const ct_columns *c, const double pose[12]) {
    struct placing placing;
    double from[3];
    for (int i = 0; i < 3; i++) from[i] = pose[4 * i + 3] - c->center[i];
    for (int k = 0; k < 3; k++) {
        for (int j = 0; j < 3; j++)
            placing.turn[k][j] = c->axis[k][0] * pose[j] + c->axis[k][1] * pose[4 + j] + c->axis[k][2] * pose[8 + j];
        placing.shift[k] = dot(c->axis[k], from);
    }
    return placing;
}

static void placed(const struct placing *placing, const float p[3], double out[3]) {
    const double q[3] = {(double)p[0], (double)p[1], (double)p[2]};
    for (int k = 0; k < 3; k++) out[k] = dot(placing->turn[k], q) + placing->shift[k];
}

/* The vertices of one side of a contact, in rising order. */
struct list {
    const uint32_t *vertices;
    uint64_t n;
};

static bool is_in(const struct list *list, uint32_t vertex) {
    uint64_t lo = 0, hi = list->n;
    while (lo < hi) {
        const uint64_t middle = lo + (hi - lo) / 2;
        if (list->vertices[middle] < vertex)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < list->n && list->vertices[lo] == vertex;
}

static bool reaches_window(const ct_columns *c, const struct placing *placing, const ct_cluster_box *box) {
    for (int k = 0; k < 2; k++) {
        double middle = placing->shift[k], half = 0;
        for (int i = 0; i < 3; i++) {
            middle += placing->turn[k][i] * 0.5 * ((double)box->lo[i] + (double)box->hi[i]);
            half += fabs(placing->turn[k][i]) * 0.5 * ((double)box->hi[i] - (double)box->lo[i]);
        }
        half += c->step; /* for rounding */
        if (middle + half < c->lo[k] || middle - half > c->hi[k]) return false;
    }
    return true;
}

static bool add_cluster(ct_columns *c, const ct_surface *surface, const struct placing *placing, uint32_t side,
                        const struct list lists[2], uint32_t cluster) {
    const ct_mesh *mesh = surface->body->mesh;
    const uint32_t first = cluster * CT_CLUSTER_TRIANGLES, left = mesh->n_triangles - first;
    const uint32_t end = first + (left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES);
    for (uint32_t t = first; t < end; t++) {
        void *triangles = grown(c->triangles, &c->capacity, c->n_triangles, sizeof *c->triangles);
        if (!triangles) return false;
        c->triangles = triangles;
        ct_column_triangle *triangle = &c->triangles[c->n_triangles];
        const uint32_t *corner = mesh->triangles + 3 * (size_t)t;
        for (int k = 0; k < 3; k++) placed(placing, surface->positions + 3 * (size_t)corner[k], triangle->p[k]);
        bool is_near = true;
        for (int k = 0; k < 2; k++)
            is_near = is_near && fmin(triangle->p[0][k], fmin(triangle->p[1][k], triangle->p[2][k])) <= c->hi[k] &&
                      fmax(triangle->p[0][k], fmax(triangle->p[1][k], triangle->p[2][k])) >= c->lo[k];
        if (!is_near) continue;
        triangle->side = side;
        triangle->is_listed = false;
        for (int k = 0; k < 3; k++)
            triangle->is_listed = triangle->is_listed || is_in(&lists[side], corner[k]) ||
                                  (c->is_self && is_in(&lists[1 - side], corner[k]));
        c->n_triangles++;
    }
    return true;
}

static bool add_node(ct_columns *c, const ct_surface *surface, const struct placing *placing, uint32_t side,
                     const struct list lists[2], uint32_t level, uint32_t node) {
    const ct_clusters *clusters = surface->clusters;
    if (!reaches_window(c, placing, &surface->boxes[node])) return true;
    if (level == 0) return add_cluster(c, surface, placing, side, lists, node);
    const uint32_t first = clusters->level[level - 1] + (node - clusters->level[level]) * CT_CLUSTER_FAN;
    for (uint32_t n = first; n < first + CT_CLUSTER_FAN && n < clusters->level[level]; n++)
        if (!add_node(c, surface, placing, side, lists, level - 1, n)) return false;
    return true;
}

/* ---- the window ---- */

/* Both sides' vertices bound the contact. */
static void find_window(ct_columns *c, ct_surface *const surfaces[2], const struct placing placings[2],
                        const struct list lists[2]) {
    for (int k = 0; k < 2; k++) {
        c->lo[k] = -INFINITY;
        c->hi[k] = INFINITY;
    }
    for (int s = 0; s < 2; s++) {
        double lo[2] = {INFINITY, INFINITY}, hi[2] = {-INFINITY, -INFINITY}, q[3];
        if (c->is_half_space[s] || lists[s].n == 0) continue;
        for (uint64_t i = 0; i < lists[s].n; i++) {
            placed(&placings[s], surfaces[s]->positions + 3 * (size_t)lists[s].vertices[i], q);
            for (int k = 0; k < 2; k++) {
                lo[k] = fmin(lo[k], q[k]);
                hi[k] = fmax(hi[k], q[k]);
            }
        }
        for (int k = 0; k < 2; k++) {
            c->lo[k] = fmax(c->lo[k], lo[k]);
            c->hi[k] = fmin(c->hi[k], hi[k]);
        }
    }
    c->step = SMALL * fmax(c->hi[0] - c->lo[0], c->hi[1] - c->lo[1]);
    for (int k = 0; k < 2; k++) {
        c->lo[k] -= 4 * c->step;
        c->hi[k] += 4 * c->step;
    }
}

/* ---- the grid ---- */

static uint32_t cell_of(const ct_columns *c, int k, double at) {
    const double cell = (at - c->lo[k]) / (c->hi[k] - c->lo[k]) * c->n_along;
    return cell > 0 ? (cell < c->n_along ? (uint32_t)cell : c->n_along - 1) : 0;
}

struct cells {
    uint32_t lo[2], hi[2]; /* both included */
};

static struct cells cells_of(const ct_columns *c, const ct_column_triangle *t) {
    struct cells cells;
    for (int k = 0; k < 2; k++) {
        cells.lo[k] = cell_of(c, k, fmin(t->p[0][k], fmin(t->p[1][k], t->p[2][k])));
        cells.hi[k] = cell_of(c, k, fmax(t->p[0][k], fmax(t->p[1][k], t->p[2][k])));
    }
    return cells;
}

static size_t count_in_cells(const ct_columns *c) {
    size_t total = 0;
    for (size_t i = 0; i < c->n_triangles; i++) {
        const struct cells cells = cells_of(c, &c->triangles[i]);
        total += (size_t)(cells.hi[0] - cells.lo[0] + 1) * (cells.hi[1] - cells.lo[1] + 1);
    }
    return total;
}

static bool make_grid(ct_columns *c) {
    size_t total;
    for (c->n_along = 1; c->n_along < 256 && (size_t)c->n_along * c->n_along < c->n_triangles;) c->n_along *= 2;
    /* Large triangles lie in many cells: the grid is coarser for them, at 16 cells a triangle on average. */
    while ((total = count_in_cells(c)) > 16 * c->n_triangles + 4096 && c->n_along > 1) c->n_along /= 2;
    const size_t n_cells = (size_t)c->n_along * c->n_along;
    if (total > UINT32_MAX) return false;
    c->first = calloc(n_cells + 2, sizeof *c->first);
    c->in_cell = malloc((total + 1) * sizeof *c->in_cell);
    if (!c->first || !c->in_cell) return false;
    for (int pass = 0; pass < 2; pass++) { /* counts, and then fills */
        for (size_t i = 0; i < c->n_triangles; i++) {
            const struct cells cells = cells_of(c, &c->triangles[i]);
            for (uint32_t v = cells.lo[1]; v <= cells.hi[1]; v++)
                for (uint32_t u = cells.lo[0]; u <= cells.hi[0]; u++) {
                    const size_t cell = (size_t)v * c->n_along + u;
                    if (pass)
                        c->in_cell[c->first[cell + 1]++] = (uint32_t)i;
                    else
                        c->first[cell + 2]++;
                }
        }
        for (size_t cell = 0; !pass && cell < n_cells; cell++) c->first[cell + 2] += c->first[cell + 1];
    }
    return true;
}

/* ---- corners ---- */

static bool add_corner(ct_columns *c, double u, double v) {
    if (u < c->lo[0] || u > c->hi[0] || v < c->lo[1] || v > c->hi[1]) return true;
    void *corners = grown(c->corners, &c->corner_capacity, c->n_corners, sizeof *c->corners);
    if (!corners) return false;
    c->corners = corners;
    c->corners[c->n_corners][0] = u;
    c->corners[c->n_corners++][1] = v;
    return true;
}

static void normal_of(double (*const p)[3], double normal[3]) {
    double a[3], b[3];
    for (int i = 0; i < 3; i++) {
        a[i] = p[1][i] - p[0][i];
        b[i] = p[2][i] - p[0][i];
    }
    for (int i = 0; i < 3; i++) normal[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

/* Whether a point of the triangle's plane is in it, seen along the normal's largest component, but for rounding. */
static bool covers(double (*const p)[3], const double normal[3], const double x[3]) {
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

/* Where edges of `edges` pierce `face`. */
static bool add_piercings(ct_columns *c, ct_column_triangle *face, ct_column_triangle *edges) {
    double normal[3], above[3];
    normal_of(face->p, normal);
    if (!(dot(normal, normal) > 0)) return true;
    for (int k = 0; k < 3; k++) {
        double from[3];
        for (int i = 0; i < 3; i++) from[i] = edges->p[k][i] - face->p[0][i];
        above[k] = dot(normal, from);
    }
    for (int k = 0; k < 3; k++) {
        const int next = (k + 1) % 3;
        if ((above[k] > 0 && above[next] > 0) || (above[k] < 0 && above[next] < 0) || above[k] == above[next]) continue;
        const double at = above[k] / (above[k] - above[next]);
        double x[3];
        for (int i = 0; i < 3; i++) x[i] = edges->p[k][i] + at * (edges->p[next][i] - edges->p[k][i]);
        if (covers(face->p, normal, x) && !add_corner(c, x[U], x[V])) return false;
    }
    return true;
}

static bool overlap_along(const ct_column_triangle *a, const ct_column_triangle *b, int k) {
    return fmin(a->p[0][k], fmin(a->p[1][k], a->p[2][k])) <= fmax(b->p[0][k], fmax(b->p[1][k], b->p[2][k])) &&
           fmin(b->p[0][k], fmin(b->p[1][k], b->p[2][k])) <= fmax(a->p[0][k], fmax(a->p[1][k], a->p[2][k]));
}

static bool add_crossings_in_cell(ct_columns *c, uint32_t u, uint32_t v) {
    const size_t cell = (size_t)v * c->n_along + u;
    for (uint32_t i = c->first[cell]; i < c->first[cell + 1]; i++) {
        ct_column_triangle *a = &c->triangles[c->in_cell[i]];
        if (!a->is_listed) continue;
        const struct cells of_a = cells_of(c, a);
        for (uint32_t j = i + 1; j < c->first[cell + 1]; j++) {
            ct_column_triangle *b = &c->triangles[c->in_cell[j]];
            if (!b->is_listed || (a->side == b->side && !c->is_self)) continue;
            const struct cells of_b = cells_of(c, b);
            /* Of the cells that both lie in, the first is where they are tested. */
            const uint32_t first_u = of_a.lo[0] > of_b.lo[0] ? of_a.lo[0] : of_b.lo[0];
            const uint32_t first_v = of_a.lo[1] > of_b.lo[1] ? of_a.lo[1] : of_b.lo[1];
            if (u != first_u || v != first_v) continue;
            if (!overlap_along(a, b, U) || !overlap_along(a, b, V) || !overlap_along(a, b, W)) continue;
            if (!add_piercings(c, a, b) || !add_piercings(c, b, a)) return false;
        }
    }
    return true;
}

/* Where the edges of a triangle pass through the plane of a half-space. */
static bool add_plane_crossings(ct_columns *c, const double plane[4]) {
    for (size_t i = 0; i < c->n_triangles; i++) {
        const ct_column_triangle *t = &c->triangles[i];
        double above[3];
        for (int k = 0; k < 3; k++) above[k] = dot(plane, t->p[k]) + plane[3];
        for (int k = 0; k < 3; k++) {
            const int next = (k + 1) % 3;
            if ((above[k] > 0) == (above[next] > 0)) continue;
            const double at = above[k] / (above[k] - above[next]);
            if (!add_corner(c, t->p[k][U] + at * (t->p[next][U] - t->p[k][U]),
                            t->p[k][V] + at * (t->p[next][V] - t->p[k][V])))
                return false;
        }
    }
    return true;
}

static int by_place(const void *a, const void *b) {
    const double *p = a, *q = b;
    for (int k = 0; k < 2; k++)
        if (p[k] != q[k]) return p[k] < q[k] ? -1 : 1;
    return 0;
}

static bool find_corners(ct_columns *c, ct_surface *const surfaces[2], const struct placing placings[2],
                         const struct list lists[2]) {
    for (int s = 0; s < 2; s++) {
        if (c->is_half_space[s] && !add_plane_crossings(c, c->plane[s])) return false;
        for (uint64_t i = 0; i < lists[s].n; i++) {
            double q[3];
            placed(&placings[s], surfaces[s]->positions + 3 * (size_t)lists[s].vertices[i], q);
            if (!add_corner(c, q[U], q[V])) return false;
        }
    }
    for (uint32_t v = 0; v < c->n_along; v++)
        for (uint32_t u = 0; u < c->n_along; u++)
            if (!add_crossings_in_cell(c, u, v)) return false;
    if (c->n_corners) qsort(c->corners, c->n_corners, sizeof *c->corners, by_place);
    return true;
}

/* ---- columns ---- */

/* Twice the area of p, q and the column, positive if it is on the left of p to q. The same number for q and p, with the
 * other sign: triangles that share an edge agree about the side of it that a column is on. */
static double side_of(const double p[3], const double q[3], double u, double v) {
    const bool is_turned = p[U] > q[U] || (p[U] == q[U] && p[V] > q[V]);
    const double *a = is_turned ? q : p, *b = is_turned ? p : q;
    double area = (b[U] - a[U]) * (v - a[V]) - (b[V] - a[V]) * (u - a[U]);
    if (area == 0) area = 5e-324; /* a column on an edge is on its left, seen from its smaller end */
    return is_turned ? -area : area;
}

static bool add_hit(ct_columns *c, double w, int enters, uint32_t side, bool is_listed) {
    void *hits = grown(c->hits, &c->hit_capacity, c->n_hits, sizeof *c->hits);
    if (!hits) return false;
    c->hits = hits;
    c->hits[c->n_hits++] = (struct ct_column_hit){w, enters, side, is_listed};
    return true;
}

static bool hit_triangle(ct_columns *c, const ct_column_triangle *t, double u, double v) {
    double of[3];
    for (int k = 0; k < 3; k++) of[k] = side_of(t->p[(k + 1) % 3], t->p[(k + 2) % 3], u, v);
    const bool is_left = of[0] > 0;
    if ((of[1] > 0) != is_left || (of[2] > 0) != is_left) return true;
    const double w = (of[0] * t->p[0][W] + of[1] * t->p[1][W] + of[2] * t->p[2][W]) / (of[0] + of[1] + of[2]);
    return add_hit(c, w, is_left ? -1 : 1, t->side, t->is_listed);
}

/* Rising w; at the same w, leaving before entering, so that surfaces that only touch give no span. */
static bool is_before(const struct ct_column_hit *a, const struct ct_column_hit *b) {
    if (a->w != b->w) return a->w < b->w;
    if (a->enters != b->enters) return a->enters < b->enters;
    return a->side != b->side ? a->side < b->side : a->is_listed < b->is_listed;
}

static void sort_hits(ct_columns *c) {
    for (size_t i = 1; i < c->n_hits; i++)
        for (size_t k = i; k > 0 && is_before(&c->hits[k], &c->hits[k - 1]); k--) {
            const struct ct_column_hit moved = c->hits[k];
            c->hits[k] = c->hits[k - 1];
            c->hits[k - 1] = moved;
        }
}

static bool is_inside(const ct_columns *c, const int winding[2]) {
    return c->is_self ? winding[0] > 1 : winding[0] > 0 && winding[1] > 0;
}

/* The plane of a half-space ends it, or begins it, along the column. */
static bool hit_half_space(ct_columns *c, uint32_t side, double u, double v, int *winding) {
    const double *plane = c->plane[side], rest = plane[0] * u + plane[1] * v + plane[3];
    if (fabs(plane[2]) < 1e-12) { /* along the column */
        *winding = rest <= 0;
        return true;
    }
    *winding = plane[2] > 0;
    return add_hit(c, -rest / plane[2], plane[2] > 0 ? -1 : 1, side, true);
}

bool ct_columns_cast(ct_columns *c, double u, double v, ct_column_span *span) {
    int winding[2] = {0, 0};
    *span = (ct_column_span){0, 0};
    c->n_hits = 0;
    const size_t cell = (size_t)cell_of(c, 1, v) * c->n_along + cell_of(c, 0, u);
    for (uint32_t i = c->first[cell]; i < c->first[cell + 1]; i++)
        if (!hit_triangle(c, &c->triangles[c->in_cell[i]], u, v)) return false;
    for (uint32_t s = 0; s < 2; s++)
        if (c->is_half_space[s] && !hit_half_space(c, s, u, v, &winding[s])) return false;
    sort_hits(c);
    size_t began = 0;
    bool was_inside = false;
    for (size_t i = 0; i < c->n_hits; i++) {
        const struct ct_column_hit *hit = &c->hits[i], *first = &c->hits[began];
        winding[hit->side] += hit->enters;
        const bool is_in_both = is_inside(c, winding);
        if (is_in_both && !was_inside) began = i;
        if (!is_in_both && was_inside && hit->w - first->w > span->hi - span->lo &&
            (!c->is_divided || (hit->is_listed && first->is_listed)))
            *span = (ct_column_span){first->w, hit->w};
        was_inside = is_in_both;
    }
    return true;
}

/* ---- opening and closing ---- */

static void find_axes(ct_columns *c, const ct_contact *contact) {
    const double *n = contact->normal, *t = contact->tangents[0];
    memcpy(c->center, contact->center, sizeof c->center);
    memcpy(c->axis[U], t, sizeof c->axis[U]);
    memcpy(c->axis[W], n, sizeof c->axis[W]);
    for (int i = 0; i < 3; i++) c->axis[V][i] = n[(i + 1) % 3] * t[(i + 2) % 3] - n[(i + 2) % 3] * t[(i + 1) % 3];
}

static void find_plane(ct_columns *c, int side, const double pose[12]) {
    const double normal[3] = {pose[2], pose[6], pose[10]};
    c->plane[side][3] = 0;
    for (int i = 0; i < 3; i++) {
        c->plane[side][i] = dot(normal, c->axis[i]);
        c->plane[side][3] += normal[i] * (c->center[i] - pose[4 * i + 3]);
    }
}

ct_status ct_columns_open(ct_columns *c, ct_surfaces *surfaces, const ct_result *result, const ct_contact *contact,
                          bool is_divided, ct_error *error) {
    ct_surface *surface[2];
    struct placing placings[2];
    struct list lists[2];
    memset(c, 0, sizeof *c);
    c->is_self = contact->body[0] == contact->body[1];
    c->is_divided = is_divided;
    find_axes(c, contact);
    for (int s = 0; s < 2; s++) {
        const uint32_t index = ct_scene_index_of(surfaces->scene, contact->body[s]);
        const ct_body *body = surfaces->scene->bodies[index];
        c->is_half_space[s] = body->is_half_space;
        if (body->is_half_space) find_plane(c, s, body->pose);
        const ct_status status = body->is_half_space
                                     ? ct_surfaces_get(surfaces, index, "max_points", &surface[s], error)
                                     : ct_surfaces_tree(surfaces, index, "max_points", &surface[s], error);
        if (status) return status;
        placings[s] = place(c, body->pose);
        lists[s] = (struct list){result->vertices + contact->first[s], contact->count[s]};
    }
    find_window(c, surface, placings, lists);
    bool ok = true;
    for (uint32_t s = 0; s < (c->is_self ? 1 : 2); s++)
        if (!c->is_half_space[s])
            ok = ok && add_node(c, surface[s], &placings[s], s, lists, surface[s]->clusters->n_levels - 1,
                                surface[s]->clusters->n_nodes - 1);
    if (ok && make_grid(c) && find_corners(c, surface, placings, lists)) return CT_OK;
    return ct_fail(error, CT_OUT_OF_MEMORY, "max_points", "no memory for points of bodies %u and %u", contact->body[0],
                   contact->body[1]);
}

void ct_columns_close(ct_columns *c) {
    free(c->triangles);
    free(c->first);
    free(c->in_cell);
    free(c->hits);
    free(c->corners);
    memset(c, 0, sizeof *c);
}
