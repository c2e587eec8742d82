/* way_out.c - searches the tree of a surface from a point, the nearest boxes first. */
#include "gpu/after/way_out.h"

#include <math.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/triangle.h"
#include "gpu/base/vec.h"
#include "gpu/mesh/mesh.h"

struct search {
    const ct_surface *surface;
    double from[3], place[3]; /* in the body's axes */
    double square;            /* m^2: of the distance to the place */
};

/* A lower bound of the square of the distance to what lies between these. */
static double square_beyond(const struct search *s, const double lo[3], const double hi[3]) {
    double square = 0;
    for (int k = 0; k < 3; k++) {
        const double before = lo[k] - s->from[k], behind = s->from[k] - hi[k], gap = before > behind ? before : behind;
        square += gap > 0 ? gap * gap : 0;
    }
    return square * (1 - 1e-9); /* for rounding */
}

static double square_to_node(const struct search *s, uint32_t node) {
    const ct_cluster_box *box = &s->surface->boxes[node];
    double lo[3], hi[3];
    for (int k = 0; k < 3; k++) lo[k] = (double)box->lo[k], hi[k] = (double)box->hi[k];
    return square_beyond(s, lo, hi);
}

static double square_to_corners(const struct search *s, double corner[3][3]) {
    ct_box box = ct_box_none();
    for (int k = 0; k < 3; k++) ct_box_add_point(&box, corner[k]);
    return square_beyond(s, box.lo, box.hi);
}

static void corner_of(const ct_surface *surface, uint32_t vertex, double out[3]) {
    for (size_t k = 0, at = 3 * (size_t)vertex; k < 3; k++, at++)
        out[k] = (double)surface->positions[at] + (surface->low ? (double)surface->low[at] : 0);
}

static bool comes_first(const double p[3], const double q[3]) {
    for (int k = 0; k < 3; k++)
        if (p[k] != q[k]) return p[k] < q[k];
    return false;
}

static void search_cluster(struct search *s, uint32_t cluster) {
    const ct_mesh *mesh = s->surface->body->mesh;
    const uint32_t first = cluster * CT_CLUSTER_TRIANGLES, left = mesh->n_triangles - first;
    for (uint32_t t = first; t < first + (left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES); t++) {
        double corner[3][3], place[3];
        for (size_t k = 0; k < 3; k++) corner_of(s->surface, mesh->triangles[3 * (size_t)t + k], corner[k]);
        if (square_to_corners(s, corner) > s->square) continue;
        const double square =
            ct_nearest_of_triangle((const double *const[]){corner[0], corner[1], corner[2]}, s->from, place);
        if (square > s->square || (square == s->square && !comes_first(place, s->place))) continue;
        s->square = square;
        memcpy(s->place, place, sizeof place);
    }
}

static void search_node(struct search *s, uint32_t level, uint32_t node) {
    const ct_clusters *c = s->surface->clusters;
    if (ct_is_cancelled()) return;
    if (level == 0) {
        search_cluster(s, node);
        return;
    }
    const uint32_t first = c->level[level - 1] + (node - c->level[level]) * CT_CLUSTER_FAN, most = c->level[level];
    const uint32_t n = most - first < CT_CLUSTER_FAN ? most - first : CT_CLUSTER_FAN;
    double square[CT_CLUSTER_FAN];
    uint32_t order[CT_CLUSTER_FAN];
    for (uint32_t i = 0, at; i < n; i++) {
        square[i] = square_to_node(s, first + i);
        for (at = i; at > 0 && square[order[at - 1]] > square[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    for (uint32_t i = 0; i < n && square[order[i]] <= s->square; i++) search_node(s, level - 1, first + order[i]);
}

void ct_way_out(const ct_surface *surface, const double from[3], double place[3]) {
    const double *pose = surface->body->pose;
    struct search s = {.surface = surface, .square = INFINITY};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 3; i++) s.from[k] += pose[4 * i + k] * (from[i] - pose[4 * i + 3]);
    search_node(&s, surface->clusters->n_levels - 1, surface->clusters->n_nodes - 1);
    for (int i = 0; i < 3; i++) place[i] = ct_dot3(pose + 4 * i, s.place) + pose[4 * i + 3];
}
