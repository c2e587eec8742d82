/* point_lines.c - casts lines through the cluster trees of a contact's two bodies, in the axes of each body: nothing is
 * placed for a contact but its vertices. */
#include "gpu/after/point_lines.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/array.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/base/vec.h"
#include "gpu/mesh/mesh.h"

/* Of the window's size: see `rounding`. */
static const double SMALL = 1e-6;
/* Of coordinates: far above what floats round. */
static const double FLOATS = 0x1p-20;
/* Of the window's size: how far beside it columns reach, for lines just beside the contact's outline. */
static const double COLUMN_BESIDE = 1e-3;
/* As many hits are sorted by insertion. */
enum { FEW_HITS = 32 };
/* Between polls: visits, which take some 1 to 4 ns, and as many vertices. */
enum { VISITS_BETWEEN_POLLS = 1024, POLL = 4096 };
/* What a hit costs beside finding it where there are many: they are stored and sorted. */
enum { VISITS_OF_HIT = 16 };

bool ct_point_lines_are_cancelled(ct_point_lines *l) {
    if (l->visits < l->next_poll) return false;
    l->next_poll = l->visits + VISITS_BETWEEN_POLLS;
    return ct_is_cancelled_at("points", l->n_points);
}

/* ---- axes ---- */

/* The normal, or its opposite: of the two, that whose first component that is not 0 is positive. And as u the axis of
 * the world that is farthest from it, made perpendicular. */
static void find_axes(ct_point_lines *l, const ct_contact *contact) {
    const double *n = contact->normal;
    const double first = n[0] != 0 ? n[0] : n[1] != 0 ? n[1] : n[2];
    int far = 0;
    memcpy(l->center, contact->center, sizeof l->center);
    l->sense = first < 0 ? -1 : 1;
    for (int i = 0; i < 3; i++) {
        l->axis[2][i] = l->sense * n[i];
        if (fabs(n[i]) < fabs(n[far])) far = i;
    }
    double length = 0;
    for (int i = 0; i < 3; i++) {
        l->axis[0][i] = (i == far) - l->axis[2][far] * l->axis[2][i];
        length += l->axis[0][i] * l->axis[0][i];
    }
    for (int i = 0; i < 3; i++) l->axis[0][i] /= sqrt(length);
    ct_cross3(l->axis[2], l->axis[0], l->axis[1]);
}

void ct_point_lines_place(const ct_point_lines *l, const double uvw[3], double out[3]) {
    for (int i = 0; i < 3; i++)
        out[i] = l->center[i] + l->axis[0][i] * uvw[0] + l->axis[1][i] * uvw[1] + l->axis[2][i] * uvw[2];
}

static void find_placing(const ct_point_lines *l, const double pose[12], ct_line_body *body) {
    const double from[3] = {pose[3] - l->center[0], pose[7] - l->center[1], pose[11] - l->center[2]};
    for (int k = 0; k < 3; k++) {
        for (int j = 0; j < 3; j++)
            body->turn[k][j] = l->axis[k][0] * pose[j] + l->axis[k][1] * pose[4 + j] + l->axis[k][2] * pose[8 + j];
        body->shift[k] = ct_dot3(l->axis[k], from);
    }
    /* A pose is a rotation but for what its sender rounded, so the way back is the inverse, not the transpose. */
    double across[3][3];
    for (int k = 0; k < 3; k++) ct_cross3(body->turn[(k + 1) % 3], body->turn[(k + 2) % 3], across[k]);
    const double size = ct_dot3(body->turn[0], across[0]);
    for (int j = 0; j < 3; j++) {
        for (int k = 0; k < 3; k++) body->back[j][k] = across[k][j] / size;
        body->origin[j] = -ct_dot3(body->back[j], body->shift);
    }
}

static void find_plane(const ct_point_lines *l, const double pose[12], ct_line_body *body) {
    const double normal[3] = {pose[2], pose[6], pose[10]};
    body->plane[3] = 0;
    for (int i = 0; i < 3; i++) {
        body->plane[i] = ct_dot3(normal, l->axis[i]);
        body->plane[3] += normal[i] * (l->center[i] - pose[4 * i + 3]);
    }
}

/* In the body's axes. */
static void find_position(const ct_line_body *body, uint32_t vertex, double out[3]) {
    const float *high = body->surface->positions + 3 * (size_t)vertex;
    for (int k = 0; k < 3; k++) out[k] = (double)high[k];
    for (int k = 0; k < 3 && body->surface->low; k++)
        out[k] += (double)body->surface->low[3 * (size_t)vertex + (size_t)k];
}

void ct_point_lines_vertex(const ct_line_body *body, uint32_t vertex, double out[3]) {
    double q[3];
    find_position(body, vertex, q);
    for (int k = 0; k < 3; k++) out[k] = ct_dot3(body->turn[k], q) + body->shift[k];
}

static bool is_entry(const ct_line_body *body, uint32_t vertex) {
    uint64_t lo = 0, hi = body->n_entries;
    while (lo < hi) {
        const uint64_t middle = lo + (hi - lo) / 2;
        if (body->entries[middle] < vertex)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < body->n_entries && body->entries[lo] == vertex;
}

bool ct_point_lines_are_listed(const ct_line_body *body, uint32_t triangle) {
    const uint32_t *corner = body->surface->body->mesh->triangles + 3 * (size_t)triangle;
    return is_entry(body, corner[0]) || is_entry(body, corner[1]) || is_entry(body, corner[2]);
}

/* ---- lines in a body's axes ---- */

/* Moves the line to begin at a place in u, v, w. */
static void move_line(const ct_line_body *body, const double from[3], ct_body_line *line) {
    double size = body->size;
    for (int k = 0; k < 3; k++) {
        line->from[k] = ct_dot3(body->back[k], from) + body->origin[k];
        size += fabs(line->from[k]);
    }
    line->near_from[0] = ct_v4f_of(line->from[line->x]);
    line->near_from[1] = ct_v4f_of(line->from[line->y]);
    line->near_from[2] = ct_v4f_of(line->from[line->z]);
    line->near_beside = ct_v4f_of(line->beside + FLOATS * size);
}

static void limit_line(ct_body_line *line, double least, double most) {
    const double rise = line->along[line->z];
    line->least = least;
    line->most = most;
    line->reach[0] = (rise > 0 ? least : most) * rise;
    line->reach[1] = (rise > 0 ? most : least) * rise;
}

static ct_body_line make_line(const ct_line_body *body, const double from[3], const double along[3], double beside) {
    ct_body_line line = {.beside = beside};
    for (int k = 0; k < 3; k++) {
        line.along[k] = ct_dot3(body->back[k], along);
        if (fabs(line.along[k]) > fabs(line.along[line.z])) line.z = k;
    }
    line.x = (line.z + 1) % 3;
    line.y = (line.z + 2) % 3;
    line.slope[0] = line.along[line.x] / line.along[line.z];
    line.slope[1] = line.along[line.y] / line.along[line.z];
    for (int k = 0; k < 2; k++) line.near_slope[k] = ct_v4f_of(line.slope[k]);
    move_line(body, from, &line);
    limit_line(&line, -INFINITY, INFINITY);
    return line;
}

/* ---- opening and closing ---- */

/* Prepares the lines along w of a body. */
static void start_lines(const ct_point_lines *l, ct_line_body *body) {
    if (body->is_half_space) return;
    const ct_cluster_box *all = &body->surface->boxes[body->surface->clusters->n_nodes - 1];
    for (int k = 0; k < 3; k++) body->size += fmax(fabs((double)all->lo[k]), fabs((double)all->hi[k]));
    body->upright = make_line(body, (double[]){0, 0, 0}, (double[]){0, 0, 1}, l->rounding);
}

/* The columns of both bodies. False: out of memory, or cancelled. */
static bool fill_columns(ct_point_lines *l) {
    double lo[2], hi[2];
    for (int k = 0; k < 2; k++) {
        const double beside = COLUMN_BESIDE * (l->hi[k] - l->lo[k]);
        lo[k] = l->lo[k] - beside;
        hi[k] = l->hi[k] + beside;
    }
    for (int s = 0; s < (l->is_self ? 1 : 2); s++) {
        ct_line_body *body = &l->body[s];
        if (body->is_half_space) continue;
        const double size = body->size + fabs(body->shift[0]) + fabs(body->shift[1]) + fabs(body->shift[2]);
        if (!ct_point_column_fill(&l->column[s], body, lo, hi, l->rounding + FLOATS * size, &l->visits)) return false;
    }
    return !ct_point_lines_are_cancelled(l);
}

/* Both sides' vertices bound the contact along u and v; either side's ends are somewhere between all of them along w. A
 * half-space has none, and bounds nothing. False: out of memory, or cancelled. */
static bool find_window(ct_point_lines *l) {
    size_t n = 0;
    if (!ct_array_grow(&l->vertices, &l->vertex_capacity, l->body[0].n_entries + l->body[1].n_entries + 1))
        return false;
    for (int k = 0; k < 3; k++) {
        l->lo[k] = k < 2 ? -INFINITY : INFINITY;
        l->hi[k] = -l->lo[k];
    }
    for (int s = 0; s < 2; s++) {
        double lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
        const ct_line_body *body = &l->body[s];
        l->n_vertices[s] = body->n_entries;
        if (body->n_entries == 0) continue;
        for (uint64_t i = 0; i < body->n_entries; i++, n++) {
            if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled_at("points", l->n_points)) return false;
            double *at = l->vertices[n];
            ct_point_lines_vertex(body, body->entries[i], at);
            for (int k = 0; k < 3; k++) {
                lo[k] = at[k] < lo[k] ? at[k] : lo[k];
                hi[k] = at[k] > hi[k] ? at[k] : hi[k];
            }
        }
        for (int k = 0; k < 2; k++) {
            l->lo[k] = fmax(l->lo[k], lo[k]);
            l->hi[k] = fmin(l->hi[k], hi[k]);
        }
        l->lo[2] = fmin(l->lo[2], lo[2]);
        l->hi[2] = fmax(l->hi[2], hi[2]);
    }
    l->rounding = SMALL * fmax(l->hi[0] - l->lo[0], l->hi[1] - l->lo[1]);
    for (int s = 0; s < 2; s++) start_lines(l, &l->body[s]);
    return fill_columns(l);
}

ct_status ct_point_lines_open(ct_point_lines *l, ct_surfaces *surfaces, const ct_result *result,
                              const ct_contact *contact, bool is_divided, ct_error *error) {
    l->n_points = result->n_points;
    l->is_self = contact->body[0] == contact->body[1];
    l->is_divided = is_divided;
    find_axes(l, contact);
    for (int s = 0; s < 2; s++) {
        const uint32_t index = ct_scene_index_of(surfaces->scene, contact->body[s]);
        const ct_body *of = surfaces->scene->bodies[index];
        ct_surface *surface;
        const ct_status status = of->is_half_space ? ct_surfaces_get(surfaces, index, "max_points", &surface, error)
                                                   : ct_surfaces_tree(surfaces, index, "max_points", &surface, error);
        if (status) return status;
        l->body[s] = (ct_line_body){.surface = surface, .is_half_space = of->is_half_space};
        find_placing(l, of->pose, &l->body[s]);
        if (of->is_half_space) {
            find_plane(l, of->pose, &l->body[s]);
        } else {
            l->body[s].entries = result->vertices + contact->first[s];
            l->body[s].n_entries = contact->count[s];
        }
    }
    if (find_window(l)) return CT_OK;
    return ct_fail(error, CT_OUT_OF_MEMORY, "max_points", "no memory for points of bodies %u and %u", contact->body[0],
                   contact->body[1]);
}

void ct_point_lines_free(ct_point_lines *l) {
    free(l->vertices);
    free(l->hits);
    memset(l, 0, sizeof *l);
}

/* ---- crossing triangles ---- */

static bool may_cross(const ct_body_line *line, const ct_cluster_box *box) {
    const double lo = (double)box->lo[line->z] - line->from[line->z],
                 hi = (double)box->hi[line->z] - line->from[line->z];
    if (hi < line->reach[0] - line->beside || lo > line->reach[1] + line->beside) return false;
    for (int k = 0; k < 2; k++) {
        const int axis = k ? line->y : line->x;
        const double middle = 0.5 * ((double)box->lo[axis] + (double)box->hi[axis]) - line->from[axis];
        const double half = 0.5 * ((double)box->hi[axis] - (double)box->lo[axis]);
        const double apart = fabs(middle - line->slope[k] * 0.5 * (lo + hi));
        if (apart > half + 0.5 * fabs(line->slope[k]) * (hi - lo) + line->beside) return false;
    }
    return true;
}

/* Twice the area of p, q and the line, positive if it is on the left of p to q. The same number for q and p, with the
 * other sign: triangles that share an edge agree about the side of it that a line is on. A line on an edge is on its left,
 * seen from its smaller end. */
static double side_of(const double p[2], const double q[2]) {
    const double area = p[0] * q[1] - q[0] * p[1];
    if (area != 0) return area;
    return p[0] < q[0] || (p[0] == q[0] && p[1] < q[1]) ? 5e-324 : -5e-324;
}

static bool add_hit(ct_point_lines *l, double t, int enters, int side, uint32_t triangle) {
    if (!ct_array_grow(&l->hits, &l->hit_capacity, l->n_hits + 1)) return false;
    l->hits[l->n_hits++] = (ct_line_hit){t, enters, (uint32_t)side, triangle};
    l->visits += VISITS_OF_HIT;
    return true;
}

/* A corner as the line sees it: x and y from the line, and z. */
static void see(const ct_body_line *line, const ct_surface *surface, uint32_t vertex, double out[3]) {
    const float *high = surface->positions + 3 * (size_t)vertex;
    double x = (double)high[line->x], y = (double)high[line->y], z = (double)high[line->z];
    if (surface->low) {
        const float *low = surface->low + 3 * (size_t)vertex;
        x += (double)low[line->x];
        y += (double)low[line->y];
        z += (double)low[line->z];
    }
    out[2] = z - line->from[line->z];
    out[0] = x - line->from[line->x] - line->slope[0] * out[2];
    out[1] = y - line->from[line->y] - line->slope[1] * out[2];
}

/* Whether all are on the same side of the line. */
static bool are_beside(const double a[3], const double b[3], const double c[3], int k) {
    return (a[k] > 0 && b[k] > 0 && c[k] > 0) || (a[k] < 0 && b[k] < 0 && c[k] < 0);
}

static bool hit_triangle(ct_point_lines *l, const ct_body_line *line, int side, uint32_t triangle) {
    const ct_surface *surface = l->body[side].surface;
    const uint32_t *corner = surface->body->mesh->triangles + 3 * (size_t)triangle;
    double a[3], b[3], c[3];
    see(line, surface, corner[0], a);
    see(line, surface, corner[1], b);
    see(line, surface, corner[2], c);
    if (are_beside(a, b, c, 0) || are_beside(a, b, c, 1)) return true;
    const double of[3] = {side_of(b, c), side_of(c, a), side_of(a, b)};
    const bool is_left = of[0] > 0;
    if ((of[1] > 0) != is_left || (of[2] > 0) != is_left) return true;
    const double rise = (of[0] * a[2] + of[1] * b[2] + of[2] * c[2]) / (of[0] + of[1] + of[2]);
    const double t = rise / line->along[line->z];
    if (t < line->least || t > line->most) return true;
    return add_hit(l, t, is_left == (line->along[line->z] > 0) ? -1 : 1, side, triangle);
}

/* Of four triangles from `at` on, a bit for each that the line may cross, by floats. */
static uint32_t may_hit(const ct_body_line *line, const ct_surface_cluster *cluster, uint32_t at) {
    ct_v4i is_right = {-1, -1, -1, -1}, is_left = is_right, is_above = is_right, is_below = is_right;
    for (int c = 0; c < 3; c++) {
        const ct_v4f *x = (const void *)&cluster->corner[c][line->x][at],
                     *y = (const void *)&cluster->corner[c][line->y][at],
                     *z = (const void *)&cluster->corner[c][line->z][at];
        const ct_v4f rise = *z - line->near_from[2], u = *x - line->near_from[0] - line->near_slope[0] * rise,
                     v = *y - line->near_from[1] - line->near_slope[1] * rise;
        is_right &= u > line->near_beside;
        is_left &= u < -line->near_beside;
        is_above &= v > line->near_beside;
        is_below &= v < -line->near_beside;
    }
    return ~ct_v4i_signs(is_right | is_left | is_above | is_below) & 15;
}

static uint32_t fewer(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* Triangles `at` to `end` of a cluster, whose first one is `first`. */
static bool hit_part(ct_point_lines *l, const ct_body_line *line, int side, const ct_surface_cluster *cluster,
                     uint32_t first, uint32_t at, uint32_t end) {
    for (; at < end; at += 4) {
        for (uint32_t lanes = may_hit(line, cluster, at); lanes; lanes &= lanes - 1) {
            const uint32_t triangle = at + (uint32_t)__builtin_ctz(lanes);
            if (triangle < end && !hit_triangle(l, line, side, first + triangle)) return false;
        }
        l->visits += 4;
    }
    return true;
}

static bool hit_cluster(ct_point_lines *l, const ct_body_line *line, int side, uint32_t index) {
    ct_surface *surface = l->body[side].surface;
    const uint32_t first = index * CT_CLUSTER_TRIANGLES;
    const uint32_t n = fewer(surface->body->mesh->n_triangles - first, CT_CLUSTER_TRIANGLES);
    const ct_surface_cluster *cluster = ct_surface_cluster_of(surface, index);
    if (!cluster || ct_point_lines_are_cancelled(l)) return false;
    for (uint32_t at = 0; at < n; at += CT_PART_OF_CLUSTER)
        if ((n <= CT_PART_OF_CLUSTER || may_cross(line, &cluster->part[at / CT_PART_OF_CLUSTER])) &&
            !hit_part(l, line, side, cluster, first, at, fewer(n, at + CT_PART_OF_CLUSTER)))
            return false;
    l->visits += CT_PARTS_OF_CLUSTER;
    return true;
}

static bool hit_node(ct_point_lines *l, const ct_body_line *line, int side, uint32_t level, uint32_t node) {
    const ct_surface *surface = l->body[side].surface;
    const ct_clusters *clusters = surface->clusters;
    if (!may_cross(line, &surface->boxes[node])) return true;
    if (level == 0) return hit_cluster(l, line, side, node);
    const uint32_t first = clusters->level[level - 1] + (node - clusters->level[level]) * CT_CLUSTER_FAN;
    for (uint32_t n = first; n < first + CT_CLUSTER_FAN && n < clusters->level[level]; n++)
        if (!hit_node(l, line, side, level - 1, n)) return false;
    l->visits += CT_CLUSTER_FAN;
    return true;
}

/* Of a half-space's plane; a line along it has none. */
static bool hit_plane(ct_point_lines *l, int side, const double from[3], const double along[3], double least,
                      double most) {
    const double *plane = l->body[side].plane;
    const double fall = ct_dot3(plane, along), t = -(ct_dot3(plane, from) + plane[3]) / fall;
    if (fabs(fall) < 1e-12 || t < least || t > most) return true;
    return add_hit(l, t, fall > 0 ? -1 : 1, side, 0);
}

/* Of a line that is within lo and hi, where the column covers that. */
static bool hit_column(ct_point_lines *l, const ct_body_line *line, int side, const double lo[3], const double hi[3]) {
    const ct_point_column *column = &l->column[side];
    ct_v4f least[3], most[3];
    for (int k = 0; k < 3; k++) {
        least[k] = ct_v4f_of(lo[k]);
        most[k] = ct_v4f_of(hi[k]);
    }
    if (ct_point_lines_are_cancelled(l)) return false;
    for (uint32_t at = 0; at < column->n; at += 4)
        for (uint32_t lanes = ct_point_column_meets(column, at, least, most); lanes; lanes &= lanes - 1)
            if (!hit_triangle(l, line, side, column->triangle[at + (uint32_t)__builtin_ctz(lanes)])) return false;
    l->visits += column->n;
    return true;
}

/* Adds the hits of a line on a body that is no half-space. lo, hi: m, u, v, w: where the line is. */
static bool hit_body(ct_point_lines *l, int side, const ct_body_line *line, const double lo[3], const double hi[3]) {
    const ct_clusters *clusters = l->body[side].surface->clusters;
    if (ct_point_column_covers(&l->column[side], lo, hi)) return hit_column(l, line, side, lo, hi);
    if (clusters->n_nodes == 1) return hit_cluster(l, line, side, 0);
    return hit_node(l, line, side, clusters->n_levels - 1, clusters->n_nodes - 1);
}

/* Adds the hits of a line on a side's surface, with t from least to most. */
static bool hit_side(ct_point_lines *l, int side, const double from[3], const double along[3], double least,
                     double most) {
    if (l->body[side].is_half_space) return hit_plane(l, side, from, along, least, most);
    ct_body_line line = make_line(&l->body[side], from, along, l->rounding);
    double lo[3], hi[3];
    limit_line(&line, least, most);
    for (int k = 0; k < 3; k++) {
        const double a = from[k] + least * along[k], b = from[k] + most * along[k];
        lo[k] = fmin(a, b);
        hi[k] = fmax(a, b);
    }
    return hit_body(l, side, &line, lo, hi);
}

/* The same of the whole line along w. */
static bool hit_upright(ct_point_lines *l, int side, const double from[3]) {
    if (l->body[side].is_half_space) return hit_plane(l, side, from, (double[]){0, 0, 1}, -INFINITY, INFINITY);
    ct_body_line line = l->body[side].upright;
    move_line(&l->body[side], from, &line);
    return hit_body(l, side, &line, (double[]){from[0], from[1], -INFINITY}, (double[]){from[0], from[1], INFINITY});
}

/* Rising t; at the same t, leaving before entering, so that surfaces that only touch give no stretch. */
static bool is_before(const ct_line_hit *a, const ct_line_hit *b) {
    if (a->t != b->t) return a->t < b->t;
    if (a->enters != b->enters) return a->enters < b->enters;
    return a->side < b->side;
}

static int by_order(const void *a, const void *b) {
    return is_before(a, b) ? -1 : is_before(b, a);
}

static bool sort_hits(ct_point_lines *l) {
    if (l->n_hits > FEW_HITS) return ct_sort_large(l->hits, l->n_hits, sizeof *l->hits, by_order);
    for (size_t i = 1; i < l->n_hits; i++)
        for (size_t k = i; k > 0 && is_before(&l->hits[k], &l->hits[k - 1]); k--) {
            const ct_line_hit moved = l->hits[k];
            l->hits[k] = l->hits[k - 1];
            l->hits[k - 1] = moved;
        }
    return true;
}

/* Those of both bodies, sorted; of a body with itself, once. */
static bool hit_both(ct_point_lines *l, const double from[3], const double along[3], double least, double most) {
    l->n_hits = 0;
    for (int s = 0; s < (l->is_self ? 1 : 2); s++)
        if (!hit_side(l, s, from, along, least, most)) return false;
    return sort_hits(l);
}

bool ct_point_lines_cross(ct_point_lines *l, int side, const double p[3], const double q[3]) {
    double along[3];
    l->n_hits = 0;
    ct_sub3(q, p, along);
    if (along[0] == 0 && along[1] == 0 && along[2] == 0) return true;
    return hit_side(l, side, p, along, 0, 1);
}

/* ---- stretches ---- */

static bool is_inside(const ct_point_lines *l, const int winding[2]) {
    return l->is_self ? winding[0] > 1 : winding[0] > 0 && winding[1] > 0;
}

/* Of a body with itself, either side may have it. */
static bool is_of_contact(const ct_point_lines *l, const ct_line_hit *hit) {
    return l->body[hit->side].is_half_space || ct_point_lines_are_listed(&l->body[hit->side], hit->triangle) ||
           (l->is_self && ct_point_lines_are_listed(&l->body[1], hit->triangle));
}

/* Where both are ends of a stretch, whether that belongs to the contact. */
static bool are_of_contact(const ct_point_lines *l, const ct_line_hit *a, const ct_line_hit *b) {
    return !l->is_divided || (is_of_contact(l, a) && is_of_contact(l, b));
}

static void find_normal(const ct_point_lines *l, const ct_line_hit *hit, double normal[3]) {
    const ct_line_body *body = &l->body[hit->side];
    double p[3][3], of_body[3];
    if (body->is_half_space) {
        memcpy(normal, body->plane, 3 * sizeof *normal);
        return;
    }
    for (int c = 0; c < 3; c++)
        find_position(body, body->surface->body->mesh->triangles[3 * (size_t)hit->triangle + (size_t)c], p[c]);
    for (int c = 1; c < 3; c++) ct_sub3(p[c], p[0], p[c]);
    ct_cross3(p[1], p[2], of_body);
    for (int k = 0; k < 3; k++)
        normal[k] = body->back[0][k] * of_body[0] + body->back[1][k] * of_body[1] + body->back[2][k] * of_body[2];
    const double length = sqrt(ct_dot3(normal, normal));
    for (int k = 0; k < 3; k++) normal[k] = length > 0 ? normal[k] / length : 0;
}

/* Of the stretch between two hits. */
static ct_stretch stretch_of(const ct_point_lines *l, const ct_line_hit *lo, const ct_line_hit *hi) {
    ct_stretch stretch = {.lo = lo->t, .hi = hi->t};
    find_normal(l, lo, stretch.normal[0]);
    find_normal(l, hi, stretch.normal[1]);
    return stretch;
}

/* How many times a line begins in a half-space: the line comes from where w is -infinity. */
static int first_winding(const ct_point_lines *l, int side, const double at[3]) {
    const double *plane = l->body[side].plane;
    if (!l->body[side].is_half_space) return 0;
    if (fabs(plane[2]) < 1e-12) return ct_dot3(plane, at) + plane[3] <= 0;
    return plane[2] > 0;
}

/* Whether the start is inside the side that has all hits so far. */
static bool is_start_inside(const ct_point_lines *l, int side, const double from[3], double w) {
    int winding = first_winding(l, side, from);
    for (size_t i = 0; i < l->n_hits; i++)
        if (l->hits[i].t <= w) winding += l->hits[i].enters;
    return winding > 0;
}

/* The hits of both bodies of the line along w, sorted. None, where they do not matter for the start. */
static bool hit_both_upright(ct_point_lines *l, const double from[3], const ct_line_start *start) {
    const int first = start ? 1 - start->side : 0;
    l->n_hits = 0;
    if (!hit_upright(l, l->is_self ? 0 : first, from)) return false;
    if (l->is_self) return sort_hits(l);
    if (start && !is_start_inside(l, first, from, start->w)) l->n_hits = 0;
    return l->n_hits == 0 || (hit_upright(l, 1 - first, from) && sort_hits(l));
}

bool ct_point_lines_cast(ct_point_lines *l, const double at[2], const ct_line_start *start, ct_stretch *stretch) {
    const double from[3] = {at[0], at[1], 0};
    int winding[2] = {first_winding(l, 0, from), first_winding(l, 1, from)};
    const int before[2] = {winding[0], winding[1]};
    const ct_line_hit *first = NULL, *ends[2] = {NULL, NULL};
    *stretch = (ct_stretch){0};
    if (!hit_both_upright(l, from, start)) return false;
    for (const ct_line_hit *hit = l->hits; hit < l->hits + l->n_hits; hit++) {
        const bool was_inside = is_inside(l, winding);
        winding[hit->side] += hit->enters;
        const bool is_in_both = is_inside(l, winding);
        if (is_in_both && !was_inside) first = hit;
        if (is_in_both || !was_inside || !first || !are_of_contact(l, first, hit)) continue;
        if (ends[0] && hit->t - first->t <= ends[1]->t - ends[0]->t) continue;
        ends[0] = first;
        ends[1] = hit;
    }
    if (!ends[0] || !(ends[1]->t > ends[0]->t)) return true;
    *stretch = stretch_of(l, ends[0], ends[1]);
    memcpy(stretch->winding, before, sizeof before);
    const double middle = 0.5 * (stretch->lo + stretch->hi);
    for (size_t i = 0; i < l->n_hits && l->hits[i].t <= middle; i++)
        stretch->winding[l->hits[i].side] += l->hits[i].enters;
    return true;
}

/* The first hit from t = 0 on, upwards or downwards, that ends what is inside both. NULL: none does. */
static const ct_line_hit *find_end(const ct_point_lines *l, const int from[2], bool upwards) {
    int winding[2] = {from[0], from[1]};
    for (size_t k = 0; k < l->n_hits; k++) {
        const ct_line_hit *hit = &l->hits[upwards ? k : l->n_hits - 1 - k];
        if (upwards ? hit->t <= 0 : hit->t > 0) continue;
        winding[hit->side] += upwards ? hit->enters : -hit->enters;
        if (!is_inside(l, winding)) return hit;
    }
    return NULL;
}

bool ct_point_lines_reach(ct_point_lines *l, const double from[3], const double along[3], const int winding[2],
                          double least, double most, ct_stretch *stretch) {
    *stretch = (ct_stretch){0};
    if (!hit_both(l, from, along, least, most)) return false;
    const ct_line_hit *lo = find_end(l, winding, false), *hi = find_end(l, winding, true);
    if (lo && hi && are_of_contact(l, lo, hi)) *stretch = stretch_of(l, lo, hi);
    return true;
}
