/* columns.c - casts columns through the triangles of two bodies that reach into the contact's window. */
#include "gpu/scene/columns.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"

enum { U = 0, V = 1, W = 2 };

struct ct_column_hit {
    double w;
    int enters; /* 1, or -1: leaves */
    uint32_t side;
    bool is_listed;
};

/* Of the window's size: far above rounding, far below what matters in a contact. */
static const double SMALL = 1e-6;

/* So many boxes may be compared for a contact before it is searched with less. For each triangle that reaches into the
 * window, contacts of scanned bodies take some 500, a nut on its bolt 3,000, and two gears of long thin triangles
 * 60,000. The free ones are for bodies of few triangles. */
enum { VISITS_OF_TRIANGLE = 4096, FREE_VISITS = 1 << 22 };
/* What a corner costs beside its search, and a hit where there are many: they are stored and sorted. */
enum { VISITS_OF_CORNER = 16, VISITS_OF_HIT = 16 };
/* As many hits are sorted by insertion. */
enum { FEW_HITS = 32 };

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
    ct_column_tree *tree = &c->tree[side];
    const uint32_t first = cluster * CT_CLUSTER_TRIANGLES, left = mesh->n_triangles - first;
    const uint32_t end = first + (left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES);
    for (uint32_t t = first; t < end; t++) {
        void *triangles = grown(tree->triangles, &tree->capacity, tree->n_triangles, sizeof *tree->triangles);
        if (!triangles) return false;
        tree->triangles = triangles;
        ct_column_triangle *triangle = &tree->triangles[tree->n_triangles];
        const uint32_t *corner = mesh->triangles + 3 * (size_t)t;
        for (int k = 0; k < 3; k++) placed(placing, surface->positions + 3 * (size_t)corner[k], triangle->p[k]);
        const ct_column_box box = ct_column_box_of(triangle);
        bool is_near = true;
        for (int k = 0; k < 2; k++) is_near = is_near && box.lo[k] <= c->hi[k] && box.hi[k] >= c->lo[k];
        if (!is_near) continue;
        triangle->is_listed = false;
        for (int k = 0; k < 3; k++)
            triangle->is_listed = triangle->is_listed || is_in(&lists[side], corner[k]) ||
                                  (c->is_self && is_in(&lists[1 - side], corner[k]));
        tree->n_triangles++;
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

/* ---- corners ---- */

static int by_place(const void *a, const void *b) {
    const double *p = a, *q = b;
    for (int k = 0; k < 2; k++)
        if (p[k] != q[k]) return p[k] < q[k] ? -1 : 1;
    return 0;
}

/* Sorts corners by place, one for each. */
static void merge_corners(ct_columns *c) {
    if (c->n_corners == 0) return;
    qsort(c->corners, c->n_corners, sizeof *c->corners, by_place);
    size_t kept = 1;
    for (size_t i = 1; i < c->n_corners; i++) {
        if (by_place(c->corners[i], c->corners[kept - 1]) == 0) continue;
        memcpy(c->corners[kept++], c->corners[i], sizeof *c->corners);
    }
    c->n_corners = kept;
}

static bool add_corner(ct_columns *c, double u, double v) {
    if (u < c->lo[0] || u > c->hi[0] || v < c->lo[1] || v > c->hi[1]) return true;
    if (c->n_corners == c->corner_capacity) {
        /* Surfaces that coincide pierce one another at the same places again and again. */
        merge_corners(c);
        const bool is_half_full = 2 * c->n_corners >= c->corner_capacity;
        void *corners =
            is_half_full ? grown(c->corners, &c->corner_capacity, c->corner_capacity, sizeof *c->corners) : c->corners;
        if (!corners) return false;
        c->corners = corners;
    }
    c->corners[c->n_corners][0] = u;
    c->corners[c->n_corners++][1] = v;
    c->visits += VISITS_OF_CORNER;
    return true;
}

static void normal_of(const double (*p)[3], double normal[3]) {
    double a[3], b[3];
    for (int i = 0; i < 3; i++) {
        a[i] = p[1][i] - p[0][i];
        b[i] = p[2][i] - p[0][i];
    }
    for (int i = 0; i < 3; i++) normal[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

/* Whether a point of the triangle's plane is in it, seen along the normal's largest component, but for rounding. */
static bool covers(const double (*p)[3], const double normal[3], const double x[3]) {
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
static bool add_piercings(ct_columns *c, const ct_column_triangle *face, const ct_column_triangle *edges) {
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

/* Where the triangle of the first side crosses triangles of the other side, or later ones of a body with itself. */
static bool add_crossings_of(ct_columns *c, const ct_column_triangle *a) {
    const ct_column_box box = ct_column_box_of(a);
    ct_column_search search = ct_column_tree_find(&c->tree[c->is_self ? 0 : 1], &box);
    bool ok = true;
    for (const ct_column_triangle *b; ok && (b = ct_column_search_next(&search));)
        if (b->is_listed && (!c->is_self || b > a)) ok = add_piercings(c, a, b) && add_piercings(c, b, a);
    c->visits += search.visits;
    return ok;
}

/* Where the first side's triangles cross the other's; where that takes too many visits, some of them, evenly spread. */
static bool add_crossings(ct_columns *c) {
    const ct_column_tree *tree = &c->tree[0];
    const size_t n = tree->n_triangles;
    ct_columns_renew(c);
    for (size_t i = 0; i < n && !ct_columns_are_spent(c); i++)
        if (tree->triangles[i].is_listed && !add_crossings_of(c, &tree->triangles[i])) return false;
    if (!ct_columns_are_spent(c)) return true;
    c->n_corners = 0;
    ct_columns_renew(c);
    for (size_t k = 0; k < ct_spread_end(n) && !ct_columns_are_spent(c); k++) {
        const size_t i = ct_spread(k, n);
        if (i < n && tree->triangles[i].is_listed && !add_crossings_of(c, &tree->triangles[i])) return false;
    }
    return true;
}

/* Where the edges of a triangle pass through the plane of a half-space. */
static bool add_plane_crossings(ct_columns *c, const ct_column_tree *tree, const double plane[4]) {
    for (size_t i = 0; i < tree->n_triangles; i++) {
        const ct_column_triangle *t = &tree->triangles[i];
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

static bool find_corners(ct_columns *c, ct_surface *const surfaces[2], const struct placing placings[2],
                         const struct list lists[2]) {
    if (!add_crossings(c)) return false;
    for (int s = 0; s < 2; s++) {
        if (c->is_half_space[s] && !add_plane_crossings(c, &c->tree[1 - s], c->plane[s])) return false;
        for (uint64_t i = 0; i < lists[s].n; i++) {
            double q[3];
            placed(&placings[s], surfaces[s]->positions + 3 * (size_t)lists[s].vertices[i], q);
            if (!add_corner(c, q[U], q[V])) return false;
        }
    }
    merge_corners(c);
    ct_columns_renew(c);
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

static bool hit_triangle(ct_columns *c, const ct_column_triangle *t, uint32_t side, double u, double v) {
    double of[3];
    for (int k = 0; k < 3; k++) of[k] = side_of(t->p[(k + 1) % 3], t->p[(k + 2) % 3], u, v);
    const bool is_left = of[0] > 0;
    if ((of[1] > 0) != is_left || (of[2] > 0) != is_left) return true;
    const double w = (of[0] * t->p[0][W] + of[1] * t->p[1][W] + of[2] * t->p[2][W]) / (of[0] + of[1] + of[2]);
    return add_hit(c, w, is_left ? -1 : 1, side, t->is_listed);
}

/* Rising w; at the same w, leaving before entering, so that surfaces that only touch give no span. */
static bool is_before(const struct ct_column_hit *a, const struct ct_column_hit *b) {
    if (a->w != b->w) return a->w < b->w;
    if (a->enters != b->enters) return a->enters < b->enters;
    return a->side != b->side ? a->side < b->side : a->is_listed < b->is_listed;
}

static int by_order(const void *a, const void *b) {
    return is_before(a, b) ? -1 : is_before(b, a);
}

static void sort_hits(ct_columns *c) {
    if (c->n_hits > FEW_HITS) {
        qsort(c->hits, c->n_hits, sizeof *c->hits, by_order);
        c->visits += VISITS_OF_HIT * c->n_hits;
        return;
    }
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

/* Rounding may put a column on a triangle that it is just beside, so those are looked at too. */
bool ct_columns_gather(ct_columns *c, const double at[2], double reach) {
    const double r = reach + c->step;
    const ct_column_box near = {{at[0] - r, at[1] - r, -INFINITY}, {at[0] + r, at[1] + r, INFINITY}};
    c->n_near[0] = c->n_near[1] = 0;
    for (uint32_t s = 0; s < 2; s++) {
        ct_column_search search = ct_column_tree_find(&c->tree[s], &near);
        for (const ct_column_triangle *t; (t = ct_column_search_next(&search));) {
            const size_t n = c->n_near[0] + c->n_near[1];
            void *all = grown(c->near, &c->near_capacity, n, sizeof *c->near);
            if (!all) return false;
            c->near = all;
            c->near[n] = t;
            c->n_near[s]++;
        }
        c->visits += search.visits;
    }
    return true;
}

bool ct_columns_cast(ct_columns *c, const double at[2], ct_column_span *span) {
    const double u = at[0], v = at[1];
    int winding[2] = {0, 0};
    *span = (ct_column_span){0, 0};
    c->n_hits = 0;
    const size_t n = c->n_near[0] + c->n_near[1];
    for (size_t i = 0; i < n; i++)
        if (!hit_triangle(c, c->near[i], i >= c->n_near[0], u, v)) return false;
    c->visits += n;
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

/* ---- the bound ---- */

void ct_columns_renew(ct_columns *c) {
    c->limit = c->visits + c->bound;
}

bool ct_columns_are_spent(const ct_columns *c) {
    return c->visits > c->limit;
}

size_t ct_spread_end(size_t n) {
    size_t end = 1;
    while (end < n) end *= 2;
    return end;
}

size_t ct_spread(size_t k, size_t n) {
    size_t index = 0;
    for (size_t bit = 1, end = ct_spread_end(n); bit < end; bit *= 2) index += k & bit ? end / (2 * bit) : 0;
    return index;
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
    for (int s = 0; s < 2; s++) ok = ok && ct_column_tree_make(&c->tree[s]);
    c->bound = VISITS_OF_TRIANGLE * (uint64_t)(c->tree[0].n_triangles + c->tree[1].n_triangles) + FREE_VISITS;
    if (ok && find_corners(c, surface, placings, lists)) return CT_OK;
    return ct_fail(error, CT_OUT_OF_MEMORY, "max_points", "no memory for points of bodies %u and %u", contact->body[0],
                   contact->body[1]);
}

void ct_columns_close(ct_columns *c) {
    for (int s = 0; s < 2; s++) ct_column_tree_free(&c->tree[s]);
    free(c->near);
    free(c->hits);
    free(c->corners);
    memset(c, 0, sizeof *c);
}
