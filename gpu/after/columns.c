/* columns.c - casts columns through the triangles of two bodies that reach into the contact's window. */
#include "gpu/after/columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/mesh/mesh.h"

/* Of the window's size: far above rounding, far below what matters in a contact. */
static const double SMALL = 1e-6;

/* So many boxes may be compared for a contact before it is searched with less. The free ones are for bodies of few
 * triangles. */
enum { VISITS_OF_TRIANGLE = 4096, FREE_VISITS = 1 << 22 };
/* As many hits are sorted by insertion. */
enum { FEW_HITS = 32 };
/* Between polls: visits, which take some 1 to 4 ns, and as many hits or vertices. */
enum { VISITS_BETWEEN_POLLS = 8192, POLL = 4096 };

void *ct_column_grow(void *items, size_t *capacity, size_t n, size_t size, size_t alignment) {
    if (n < *capacity) return items;
    const size_t more = *capacity ? 2 * *capacity : 64;
    void *larger =
        alignment > _Alignof(max_align_t) ? aligned_alloc(alignment, more * size) : realloc(items, more * size);
    if (larger) *capacity = more;
    if (!larger || alignment <= _Alignof(max_align_t)) return larger;
    if (n > 0) memcpy(larger, items, n * size);
    free(items);
    return larger;
}

/* ---- the window ---- */

/* The vertices of one side of a contact, in rising order. */
struct list {
    const uint32_t *vertices;
    uint64_t n;
};

static ct_column_placing find_placing(const ct_columns *c, const double pose[12]) {
    ct_column_placing placing;
    double from[3];
    for (int i = 0; i < 3; i++) from[i] = pose[4 * i + 3] - c->center[i];
    for (int k = 0; k < 3; k++) {
        for (int j = 0; j < 3; j++)
            placing.turn[k][j] = c->axis[k][0] * pose[j] + c->axis[k][1] * pose[4 + j] + c->axis[k][2] * pose[8 + j];
        placing.shift[k] = ct_dot3(c->axis[k], from);
    }
    return placing;
}

/* Lists the vertices of the contact as corners, wherever they are, and finds the window: both sides' vertices bound the
 * contact. False: out of memory. */
static bool find_window(ct_columns *c, ct_surface *const surfaces[2], const ct_column_placing placings[2],
                        const struct list lists[2]) {
    c->corner_capacity = 2 * (lists[0].n + lists[1].n) + 64;
    c->corners = malloc(c->corner_capacity * sizeof *c->corners);
    if (!c->corners) return false;
    for (int k = 0; k < 2; k++) {
        c->lo[k] = -INFINITY;
        c->hi[k] = INFINITY;
    }
    for (int s = 0; s < 2; s++) {
        double lo[2] = {INFINITY, INFINITY}, hi[2] = {-INFINITY, -INFINITY}, q[3];
        if (c->is_half_space[s] || lists[s].n == 0) continue;
        for (uint64_t i = 0; i < lists[s].n; i++) {
            if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled_at("points", c->n_points)) return false;
            ct_column_place(&placings[s], surfaces[s]->positions + 3 * (size_t)lists[s].vertices[i], q);
            for (int k = 0; k < 2; k++) {
                lo[k] = q[k] < lo[k] ? q[k] : lo[k];
                hi[k] = q[k] > hi[k] ? q[k] : hi[k];
            }
            memcpy(c->corners[c->n_corners++], q, sizeof *c->corners);
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
    return true;
}

/* Of the vertices, those in the window. */
static void keep_corners_in_window(ct_columns *c) {
    const size_t n = c->n_corners;
    c->n_corners = 0;
    for (size_t i = 0; i < n; i++) {
        const double u = c->corners[i][0], v = c->corners[i][1];
        if (u < c->lo[0] || u > c->hi[0] || v < c->lo[1] || v > c->hi[1]) continue;
        c->corners[c->n_corners][0] = u;
        c->corners[c->n_corners++][1] = v;
    }
}

/* ---- columns ---- */

static bool list_triangle(ct_column_list *list, const ct_column_triangle *triangle, const ct_column_node *boxes,
                          uint32_t lane) {
    static const ct_v4f infinite = {INFINITY, INFINITY, INFINITY, INFINITY};
    const size_t group = list->n / CT_COLUMN_FAN, to = list->n % CT_COLUMN_FAN;
    void *all = ct_column_grow(list->all, &list->capacity, group, sizeof *list->all, _Alignof(ct_column_near));
    if (!all) return false;
    list->all = all;
    ct_column_near *near = &list->all[group];
    for (int k = 0; k < 2; k++) {
        if (to == 0) near->lo[k] = infinite;
        if (to == 0) near->hi[k] = -infinite;
        near->lo[k][to] = boxes->lo[k][lane];
        near->hi[k][to] = boxes->hi[k][lane];
    }
    near->triangles[to] = triangle;
    list->n++;
    return true;
}

static uint32_t lanes_near(const ct_v4f lo[2], const ct_v4f hi[2], const ct_column_node *box) {
    return ct_v4i_signs((lo[0] <= box->hi[0]) & (hi[0] >= box->lo[0]) & (lo[1] <= box->hi[1]) & (hi[1] >= box->lo[1]));
}

static bool list_part(ct_columns *c, int side, const ct_column_block *block, uint32_t part, const ct_column_node *box) {
    const uint32_t begin = part * CT_COLUMN_PART;
    if (ct_columns_are_cancelled(c)) return false;
    for (uint32_t first = begin; first < begin + CT_COLUMN_PART; first += CT_COLUMN_FAN) {
        const ct_column_node *boxes = &block->boxes[first / CT_COLUMN_FAN];
        for (uint32_t lanes = lanes_near(boxes->lo, boxes->hi, box); lanes; lanes &= lanes - 1) {
            const uint32_t lane = (uint32_t)__builtin_ctz(lanes);
            if (!list_triangle(&c->near[side], &block->triangles[first + lane], boxes, lane)) return false;
        }
    }
    c->visits += CT_COLUMN_PART;
    return true;
}

static bool list_block(ct_columns *c, int side, const ct_column_block *block, const ct_column_node *box) {
    for (uint32_t first = 0; first * CT_COLUMN_PART < block->n; first += CT_COLUMN_FAN) {
        const ct_column_node *parts = &block->parts[first / CT_COLUMN_FAN];
        for (uint32_t lanes = lanes_near(parts->lo, parts->hi, box); lanes; lanes &= lanes - 1)
            if (!list_part(c, side, block, first + (uint32_t)__builtin_ctz(lanes), box)) return false;
        c->visits += CT_COLUMN_FAN;
    }
    return true;
}

/* Rounding may put a column on a triangle that it is just beside, so those are looked at too. */
static ct_column_box box_around(const double at[2], double r) {
    return (ct_column_box){{at[0] - r, at[1] - r, -INFINITY}, {at[0] + r, at[1] + r, INFINITY}};
}

bool ct_columns_gather_side(ct_columns *c, int side, const double at[2], double reach) {
    const ct_column_box box = box_around(at, reach + c->step);
    ct_column_search search = ct_column_tree_find(&c->surface[side].tree, &box);
    c->near[side].n = 0;
    for (uint32_t i; ct_column_search_next(&search, &i);) {
        const ct_column_block *block = ct_column_surface_block(&c->surface[side], i);
        if (!block || !list_block(c, side, block, &search.box)) return false;
    }
    c->visits += search.visits;
    return true;
}

bool ct_columns_gather(ct_columns *c, const double at[2], double reach) {
    return ct_columns_gather_side(c, 0, at, reach) && ct_columns_gather_side(c, 1, at, reach);
}

/* Twice the area of p, q and the column, positive if it is on the left of p to q. The same number for q and p, with the
 * other sign: triangles that share an edge agree about the side of it that a column is on. */
static double side_of(const double p[3], const double q[3], double u, double v) {
    const bool is_turned = p[CT_U] > q[CT_U] || (p[CT_U] == q[CT_U] && p[CT_V] > q[CT_V]);
    const double *a = is_turned ? q : p, *b = is_turned ? p : q;
    double area = (b[CT_U] - a[CT_U]) * (v - a[CT_V]) - (b[CT_V] - a[CT_V]) * (u - a[CT_U]);
    if (area == 0) area = 5e-324; /* a column on an edge is on its left, seen from its smaller end */
    return is_turned ? -area : area;
}

static bool add_hit(ct_columns *c, double w, int enters, uint32_t side, bool is_listed) {
    if (CT_POLL_EVERY(c->n_hits + 1, POLL) && ct_is_cancelled_at("points", c->n_points)) return false;
    void *hits = ct_column_grow(c->hits, &c->hit_capacity, c->n_hits, sizeof *c->hits, _Alignof(struct ct_column_hit));
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
    const double w = (of[0] * t->p[0][CT_W] + of[1] * t->p[1][CT_W] + of[2] * t->p[2][CT_W]) / (of[0] + of[1] + of[2]);
    return add_hit(c, w, is_left ? -1 : 1, side, t->is_listed);
}

bool ct_columns_hit(ct_columns *c, int side, const double at[2]) {
    const ct_column_list *list = &c->near[side];
    const ct_column_box around = box_around(at, c->step);
    const ct_column_node box = ct_column_node_of(&around);
    for (size_t first = 0; first < list->n; first += CT_COLUMN_FAN) {
        const ct_column_near *near = &list->all[first / CT_COLUMN_FAN];
        for (uint32_t lanes = lanes_near(near->lo, near->hi, &box); lanes; lanes &= lanes - 1)
            if (!hit_triangle(c, near->triangles[__builtin_ctz(lanes)], (uint32_t)side, at[0], at[1])) return false;
    }
    c->visits += list->n;
    return true;
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

bool ct_columns_sort_hits(ct_columns *c) {
    if (c->n_hits > FEW_HITS) {
        c->visits += CT_VISITS_OF_HIT * c->n_hits;
        return !ct_columns_are_cancelled(c) && ct_sort_large(c->hits, c->n_hits, sizeof *c->hits, by_order);
    }
    for (size_t i = 1; i < c->n_hits; i++)
        for (size_t k = i; k > 0 && is_before(&c->hits[k], &c->hits[k - 1]); k--) {
            const struct ct_column_hit moved = c->hits[k];
            c->hits[k] = c->hits[k - 1];
            c->hits[k - 1] = moved;
        }
    return true;
}

int ct_columns_least_winding(const ct_columns *c) {
    return c->is_self ? 2 : 1;
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

bool ct_columns_cast(ct_columns *c, const double at[2], ct_column_span *span) {
    int winding[2] = {0, 0};
    *span = (ct_column_span){0, 0};
    c->n_hits = 0;
    if (at[0] < c->lo[0] || at[0] > c->hi[0] || at[1] < c->lo[1] || at[1] > c->hi[1]) return true;
    for (int s = 0; s < 2; s++)
        if (!ct_columns_hit(c, s, at)) return false;
    for (uint32_t s = 0; s < 2; s++)
        if (c->is_half_space[s] && !hit_half_space(c, s, at[0], at[1], &winding[s])) return false;
    if (!ct_columns_sort_hits(c)) return false;
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

bool ct_columns_are_cancelled(ct_columns *c) {
    if (c->visits < c->next_poll) return false;
    c->next_poll = c->visits + VISITS_BETWEEN_POLLS;
    return ct_is_cancelled_at("points", c->n_points);
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
    memcpy(c->axis[CT_U], t, sizeof c->axis[CT_U]);
    memcpy(c->axis[CT_W], n, sizeof c->axis[CT_W]);
    for (int i = 0; i < 3; i++) c->axis[CT_V][i] = n[(i + 1) % 3] * t[(i + 2) % 3] - n[(i + 2) % 3] * t[(i + 1) % 3];
}

static void find_plane(ct_columns *c, int side, const double pose[12]) {
    const double normal[3] = {pose[2], pose[6], pose[10]};
    c->plane[side][3] = 0;
    for (int i = 0; i < 3; i++) {
        c->plane[side][i] = ct_dot3(normal, c->axis[i]);
        c->plane[side][3] += normal[i] * (c->center[i] - pose[4 * i + 3]);
    }
}

/* The sides' bodies, and bits for their vertices in the contact. False: out of memory. */
static bool open_surfaces(ct_columns *c, ct_surface *const surfaces[2], const ct_column_placing placings[2],
                          const struct list lists[2]) {
    for (int s = 0; s < 2; s++) {
        ct_column_surface *of = &c->surface[c->is_self ? 0 : s];
        if (c->is_half_space[s]) continue;
        if (!of->listed && !ct_column_surface_open(of, surfaces[s], &placings[s])) return false;
        for (uint64_t i = 0; i < lists[s].n; i++)
            of->listed[lists[s].vertices[i] / 64] |= (uint64_t)1 << (lists[s].vertices[i] % 64);
    }
    return true;
}

static bool fill_surfaces(ct_columns *c) {
    for (int s = 0; s < 2; s++)
        if (c->surface[s].listed && !ct_column_surface_fill(&c->surface[s], c->lo, c->hi, c->step)) return false;
    c->bound = VISITS_OF_TRIANGLE * (uint64_t)(c->surface[0].n_triangles + c->surface[1].n_triangles) + FREE_VISITS;
    ct_columns_renew(c);
    return true;
}

ct_status ct_columns_open(ct_columns *c, ct_surfaces *surfaces, const ct_result *result, const ct_contact *contact,
                          bool is_divided, ct_error *error) {
    ct_surface *surface[2];
    ct_column_placing placings[2];
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
        placings[s] = find_placing(c, body->pose);
        lists[s] = (struct list){result->vertices + contact->first[s], contact->count[s]};
    }
    if (find_window(c, surface, placings, lists) && open_surfaces(c, surface, placings, lists) && fill_surfaces(c)) {
        keep_corners_in_window(c);
        if (ct_columns_find_piercings(c)) {
            ct_columns_renew(c);
            return CT_OK;
        }
    }
    return ct_fail(error, CT_OUT_OF_MEMORY, "max_points", "no memory for points of bodies %u and %u", contact->body[0],
                   contact->body[1]);
}

void ct_columns_close(ct_columns *c) {
    for (int s = 0; s < 2; s++) {
        ct_column_surface_close(&c->surface[s]);
        free(c->near[s].all);
        free(c->inside[s].all);
        free(c->surely_inside[s].all);
    }
    free(c->ranges.all);
    free(c->hits);
    free(c->corners);
    memset(c, 0, sizeof *c);
}
