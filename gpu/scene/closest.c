/* closest.c - distances of corners, edges and faces of two triangles. */
#include "gpu/scene/closest.h"

#include <math.h>
#include <string.h>

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void subtract(const double a[3], const double b[3], double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = a[i] - b[i];
}

static void cross(const double a[3], const double b[3], double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

static int order_of(const double *a, const double *b, int n) {
    for (int i = 0; i < n; i++)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}

struct search {
    const double *toward;
    double touching;
    ct_closest *best;
};

static bool is_better(const struct search *s, const ct_closest *next) {
    const ct_closest *best = s->best;
    if (next->squared != best->squared) return next->squared < best->squared;
    if (next->is_on_face != best->is_on_face) return next->is_on_face;
    const double along = dot(next->normal, s->toward), best_along = dot(best->normal, s->toward);
    if (along != best_along) return along > best_along;
    return order_of(next->point[0], best->point[0], 6) < 0;
}

/* on_first: `p` is on the first triangle, and q on the second. */
static void offer(const struct search *s, bool on_first, const double p[3], const double q[3], const double *normal,
                  bool is_on_face) {
    ct_closest next = {.is_on_face = is_on_face};
    double between[3];
    memcpy(next.point[on_first ? 0 : 1], p, sizeof next.point[0]);
    memcpy(next.point[on_first ? 1 : 0], q, sizeof next.point[0]);
    subtract(next.point[0], next.point[1], between);
    next.squared = dot(between, between);
    if (next.squared <= s->touching * s->touching) next.squared = 0;
    if (next.squared > s->best->squared) return;
    if (normal) memcpy(next.normal, normal, sizeof next.normal);
    if (is_better(s, &next)) *s->best = next;
}

/* ---- features ---- */

/* An edge from its smaller end: triangles that share it agree about it to the last bit. */
struct edge {
    const double *from, *to;
    double along[3], squared;
};

static struct edge edge_of(double (*const t)[3], int k) {
    const double *p = t[k], *q = t[(k + 1) % 3];
    const bool is_turned = order_of(q, p, 3) < 0;
    struct edge edge = {.from = is_turned ? q : p, .to = is_turned ? p : q};
    subtract(edge.to, edge.from, edge.along);
    edge.squared = dot(edge.along, edge.along);
    return edge;
}

static void offer_corner_and_edge(const struct search *s, bool on_first, const double corner[3],
                                  const struct edge *edge) {
    double from[3], at[3];
    subtract(corner, edge->from, from);
    const double part = edge->squared > 0 ? dot(from, edge->along) / edge->squared : 0;
    if (part >= 1) {
        memcpy(at, edge->to, sizeof at);
    } else {
        for (int i = 0; i < 3; i++) at[i] = part <= 0 ? edge->from[i] : edge->from[i] + part * edge->along[i];
    }
    offer(s, on_first, corner, at, NULL, false);
}

/* Points inside both edges; their ends are corners. */
static void offer_edges(const struct search *s, const struct edge *a, const struct edge *b) {
    const int order = order_of(a->from, b->from, 3);
    const bool is_first = order < 0 || (order == 0 && order_of(a->to, b->to, 3) <= 0);
    const struct edge *p = is_first ? a : b, *q = is_first ? b : a;
    double from[3], on_p[3], on_q[3];
    subtract(p->from, q->from, from);
    const double mixed = dot(p->along, q->along), of_p = dot(p->along, from), of_q = dot(q->along, from);
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

struct face {
    const double *corner[3]; /* from the smallest, in the triangle's sense */
    double normal[3];        /* unit */
    bool has_normal;
};

static struct face face_of(double (*const t)[3]) {
    struct face face;
    int first = 0;
    for (int k = 1; k < 3; k++)
        if (order_of(t[k], t[first], 3) < 0) first = k;
    for (int k = 0; k < 3; k++) face.corner[k] = t[(first + k) % 3];
    double p[3], q[3];
    subtract(face.corner[1], face.corner[0], p);
    subtract(face.corner[2], face.corner[0], q);
    cross(p, q, face.normal);
    const double length = sqrt(dot(face.normal, face.normal));
    face.has_normal = length > 0;
    for (int i = 0; i < 3; i++) face.normal[i] = face.has_normal ? face.normal[i] / length : 0;
    return face;
}

/* Whether a point of the face's plane is in the face. */
static bool covers(const struct face *face, const double at[3]) {
    for (int k = 0; k < 3; k++) {
        double along[3], from[3], inward[3];
        subtract(face->corner[(k + 1) % 3], face->corner[k], along);
        subtract(at, face->corner[k], from);
        cross(face->normal, along, inward);
        if (dot(inward, from) < 0) return false;
    }
    return true;
}

/* corner: of the first triangle if on_first, over a face of the other. The normal pushes the first away. */
static void offer_corner_and_face(const struct search *s, bool on_first, const double corner[3],
                                  const struct face *face) {
    double from[3], at[3], normal[3];
    if (!face->has_normal) return;
    subtract(corner, face->corner[0], from);
    const double above = dot(from, face->normal);
    for (int i = 0; i < 3; i++) {
        at[i] = corner[i] - above * face->normal[i];
        normal[i] = on_first ? face->normal[i] : -face->normal[i];
    }
    if (above >= -s->touching && covers(face, at)) offer(s, on_first, corner, at, normal, true);
}

/* An edge of one triangle pierces the face of the other: they cross. */
static void offer_piercing(const struct search *s, bool on_first, const struct edge *edge, const struct face *face) {
    double p[3], q[3], at[3], normal[3];
    if (!face->has_normal) return;
    subtract(edge->from, face->corner[0], p);
    subtract(edge->to, face->corner[0], q);
    const double from = dot(p, face->normal), to = dot(q, face->normal);
    if (!((from < 0 && to > 0) || (from > 0 && to < 0))) return;
    for (int i = 0; i < 3; i++) {
        at[i] = edge->from[i] + from / (from - to) * edge->along[i];
        normal[i] = on_first ? face->normal[i] : -face->normal[i];
    }
    if (covers(face, at)) offer(s, on_first, at, at, normal, true);
}

static bool boxes_meet(double (*const a)[3], double (*const b)[3]) {
    for (int i = 0; i < 3; i++)
        if (fmax(a[0][i], fmax(a[1][i], a[2][i])) < fmin(b[0][i], fmin(b[1][i], b[2][i])) ||
            fmax(b[0][i], fmax(b[1][i], b[2][i])) < fmin(a[0][i], fmin(a[1][i], a[2][i])))
            return false;
    return true;
}

void ct_closest_of_triangles(double (*const a)[3], double (*const b)[3], const double toward[3], double touching,
                             ct_closest *best) {
    const struct search s = {toward, touching, best};
    const struct face faces[2] = {face_of(a), face_of(b)};
    struct edge edges[2][3];
    for (int k = 0; k < 3; k++) {
        edges[0][k] = edge_of(a, k);
        edges[1][k] = edge_of(b, k);
    }
    const bool may_cross = boxes_meet(a, b);
    for (int k = 0; k < 3; k++) {
        offer_corner_and_face(&s, true, a[k], &faces[1]);
        offer_corner_and_face(&s, false, b[k], &faces[0]);
        if (may_cross) {
            offer_piercing(&s, true, &edges[0][k], &faces[1]);
            offer_piercing(&s, false, &edges[1][k], &faces[0]);
        }
        for (int j = 0; j < 3; j++) {
            offer_corner_and_edge(&s, true, a[k], &edges[1][j]);
            offer_corner_and_edge(&s, false, b[k], &edges[0][j]);
            offer_edges(&s, &edges[0][k], &edges[1][j]);
        }
    }
}
