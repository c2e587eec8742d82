/* closest.c - distances of corners, edges and faces of two parts of surfaces. */
#include "gpu/after/closest.h"

#include <math.h>
#include <string.h>

static int order_of(const double *a, const double *b, int n) {
    for (int i = 0; i < n; i++)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}

static bool is_better(const ct_closest_query *s, const ct_closest *next) {
    const ct_closest *best = &s->best;
    if (next->squared != best->squared) return next->squared < best->squared;
    if (next->is_on_face != best->is_on_face) return next->is_on_face;
    const double along = ct_dot3(next->normal, s->toward), best_along = ct_dot3(best->normal, s->toward);
    if (along != best_along) return along > best_along;
    const int order = order_of(next->point[0], best->point[0], 6);
    return order != 0 ? order < 0 : order_of(next->normal, best->normal, 3) < 0;
}

/* on_first: `p` is on the first surface, and q on the second. */
static void offer(ct_closest_query *s, bool on_first, const double p[3], const double q[3], const double *normal,
                  bool is_on_face) {
    ct_closest next = {.is_on_face = is_on_face};
    double between[3];
    memcpy(next.point[on_first ? 0 : 1], p, sizeof next.point[0]);
    memcpy(next.point[on_first ? 1 : 0], q, sizeof next.point[0]);
    ct_sub3(next.point[0], next.point[1], between);
    next.squared = ct_dot3(between, between);
    if (next.squared <= s->touching * s->touching) next.squared = 0;
    if (next.squared > s->best.squared) return;
    if (normal) memcpy(next.normal, normal, sizeof next.normal);
    if (is_better(s, &next)) s->best = next;
}

/* ---- features ---- */

ct_closest_edge ct_closest_edge_of(const double p[3], const double q[3]) {
    const bool is_turned = order_of(q, p, 3) < 0;
    ct_closest_edge edge = {.from = is_turned ? q : p, .to = is_turned ? p : q};
    ct_sub3(edge.to, edge.from, edge.along);
    edge.squared = ct_dot3(edge.along, edge.along);
    return edge;
}

static void offer_corner_and_edge(ct_closest_query *s, bool on_first, const double corner[3],
                                  const ct_closest_edge *edge) {
    double from[3], at[3];
    ct_sub3(corner, edge->from, from);
    const double part = edge->squared > 0 ? ct_dot3(from, edge->along) / edge->squared : 0;
    if (part >= 1) {
        memcpy(at, edge->to, sizeof at);
    } else {
        for (int i = 0; i < 3; i++) at[i] = part <= 0 ? edge->from[i] : edge->from[i] + part * edge->along[i];
    }
    offer(s, on_first, corner, at, NULL, false);
}

/* Points inside both edges; their ends are corners. */
static void offer_edges(ct_closest_query *s, const ct_closest_edge *a, const ct_closest_edge *b) {
    const int order = order_of(a->from, b->from, 3);
    const bool is_first = order < 0 || (order == 0 && order_of(a->to, b->to, 3) <= 0);
    const ct_closest_edge *p = is_first ? a : b, *q = is_first ? b : a;
    double from[3], on_p[3], on_q[3];
    ct_sub3(p->from, q->from, from);
    const double mixed = ct_dot3(p->along, q->along), of_p = ct_dot3(p->along, from), of_q = ct_dot3(q->along, from);
    const double det = p->squared * q->squared - mixed * mixed;
    if (!(det > 1e-14 * p->squared * q->squared)) return; /* parallel: a corner is as close */
    const double u = (mixed * of_q - q->squared * of_p) / det, v = (p->squared * of_q - mixed * of_p) / det;
    if (!(u > 0 && u < 1 && v > 0 && v < 1)) return;
    for (int i = 0; i < 3; i++) {
        on_p[i] = p->from[i] + u * p->along[i];
        on_q[i] = q->from[i] + v * q->along[i];
    }
    offer(s, is_first, on_p, on_q, NULL, false);
}

ct_closest_face ct_closest_face_of(const double p[3], const double q[3], const double r[3]) {
    const double *const t[3] = {p, q, r};
    ct_closest_face face;
    int first = 0;
    for (int k = 1; k < 3; k++)
        if (order_of(t[k], t[first], 3) < 0) first = k;
    for (int k = 0; k < 3; k++) face.corner[k] = t[(first + k) % 3];
    double a[3], b[3];
    ct_sub3(face.corner[1], face.corner[0], a);
    ct_sub3(face.corner[2], face.corner[0], b);
    ct_cross3(a, b, face.normal);
    const double length = sqrt(ct_dot3(face.normal, face.normal));
    face.has_normal = length > 0;
    for (int i = 0; i < 3; i++) face.normal[i] = face.has_normal ? face.normal[i] / length : 0;
    return face;
}

/* Whether a point of the face's plane is in the face. */
static bool covers(const ct_closest_face *face, const double at[3]) {
    for (int k = 0; k < 3; k++) {
        double along[3], from[3], inward[3];
        ct_sub3(face->corner[(k + 1) % 3], face->corner[k], along);
        ct_sub3(at, face->corner[k], from);
        ct_cross3(face->normal, along, inward);
        if (ct_dot3(inward, from) < 0) return false;
    }
    return true;
}

/* corner: of the first triangle if on_first, over a face of the other. The normal pushes the first away. */
static void offer_corner_and_face(ct_closest_query *s, bool on_first, const double corner[3],
                                  const ct_closest_face *face) {
    double from[3], at[3], normal[3];
    if (!face->has_normal) return;
    ct_sub3(corner, face->corner[0], from);
    const double above = ct_dot3(from, face->normal);
    for (int i = 0; i < 3; i++) {
        at[i] = corner[i] - above * face->normal[i];
        normal[i] = on_first ? face->normal[i] : -face->normal[i];
    }
    if (above >= -s->touching && covers(face, at)) offer(s, on_first, corner, at, normal, true);
}

/* An edge of one triangle pierces the face of the other: they cross. */
static void offer_piercing(ct_closest_query *s, bool on_first, const ct_closest_edge *edge,
                           const ct_closest_face *face) {
    double p[3], q[3], at[3], normal[3];
    if (!face->has_normal) return;
    ct_sub3(edge->from, face->corner[0], p);
    ct_sub3(edge->to, face->corner[0], q);
    const double from = ct_dot3(p, face->normal), to = ct_dot3(q, face->normal);
    if (!((from < 0 && to > 0) || (from > 0 && to < 0))) return;
    for (int i = 0; i < 3; i++) {
        at[i] = edge->from[i] + from / (from - to) * edge->along[i];
        normal[i] = on_first ? face->normal[i] : -face->normal[i];
    }
    if (covers(face, at)) offer(s, on_first, at, at, normal, true);
}

/* ---- parts ---- */

static bool may_be_closer(ct_closest_query *s, const ct_box *a, const ct_box *b) {
    s->compared++;
    return !(ct_squared_gap(a, b, s->error) > s->best.squared);
}

/* Corners come first: of faces that are parallel they have what is closest, and little else is compared then. */
static void compare_corners(ct_closest_query *s, bool on_first, const ct_closest_part *of,
                            const ct_closest_part *with) {
    for (uint32_t i = 0; i < of->n_corners; i++) {
        for (uint32_t k = 0; k < with->n_faces; k++)
            if (may_be_closer(s, &of->corner_boxes[i], &with->face_boxes[k]))
                offer_corner_and_face(s, on_first, of->corners[i], &with->faces[k]);
        for (uint32_t k = 0; k < with->n_edges; k++)
            if (may_be_closer(s, &of->corner_boxes[i], &with->edge_boxes[k]))
                offer_corner_and_edge(s, on_first, of->corners[i], &with->edges[k]);
    }
}

static void compare_edges(ct_closest_query *s, const ct_closest_part *a, const ct_closest_part *b) {
    for (uint32_t i = 0; i < a->n_edges; i++)
        for (uint32_t k = 0; k < b->n_edges; k++)
            if (may_be_closer(s, &a->edge_boxes[i], &b->edge_boxes[k])) offer_edges(s, &a->edges[i], &b->edges[k]);
}

static void compare_piercings(ct_closest_query *s, bool on_first, const ct_closest_part *of,
                              const ct_closest_part *with) {
    s->compared += (uint64_t)of->n_edges * with->n_faces;
    for (uint32_t i = 0; i < of->n_edges; i++)
        for (uint32_t k = 0; k < with->n_faces; k++)
            if (!(ct_squared_gap(&of->edge_boxes[i], &with->face_boxes[k], s->error) > 0))
                offer_piercing(s, on_first, &of->edges[i], &with->faces[k]);
}

void ct_closest_of_parts(const ct_closest_part *a, const ct_closest_part *b, ct_closest_query *query) {
    compare_corners(query, true, a, b);
    compare_corners(query, false, b, a);
    compare_edges(query, a, b);
    if (ct_squared_gap(&a->box, &b->box, query->error) > 0) return;
    compare_piercings(query, true, a, b);
    compare_piercings(query, false, b, a);
}
