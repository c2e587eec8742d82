/* hull.c - quickhull (Barber, Dobkin and Huhdanpaa 1996) with exact sides.
 *
 * Each face of the hull so far lists vertices in front of it. A vertex is added by taking away the faces that it is in front
 * of, and joining it to the edges around them:
 *
 *          p                  The faces that p is in front of are removed. A vertex that one of them listed is
 *         /|\                 listed by a new face that it is in front of; if there is none, it is inside the hull.
 *     ___/_|_\___  horizon
 *
 * A vertex in the plane of a face is not in front of it. So faces in one plane go together, the horizon is one simple loop,
 * and no new face is without area: a horizon edge in line with p lies in the plane of both of its faces, of which neither
 * is seen. */
#include "gpu/mesh/build/hull.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/build/validate.h"

static const uint32_t NONE = UINT32_MAX;

typedef struct ct_hull_face {
    uint32_t corner[3];
    uint32_t beside[3]; /* the face behind the edge from corner k to k + 1 */
    uint32_t front;     /* the first vertex in front, linked by `next`; the furthest one, by double arithmetic */
    double distance;    /* of that, times twice the face's area */
    bool is_alive, is_seen;
} ct_hull_face;

typedef struct ct_horizon_edge {
    uint32_t from, to, behind; /* as the face that goes runs through it; the face that stays */
} ct_horizon_edge;

typedef struct ct_hull {
    const float *positions;
    ct_hull_face *faces;
    uint32_t n_faces, cap_faces, free; /* free: of the faces that are gone, linked by corner[0] */
    uint32_t *next;                    /* [n_vertices] in the list of the same face */
    uint32_t *face_from;               /* [n_vertices] the new face on the horizon edge that begins there */
    uint32_t *open;                    /* stack: faces that may list vertices, then faces to look at */
    size_t n_open, cap_open;
    ct_horizon_edge *horizon;
    size_t n_horizon, cap_horizon;
    uint32_t *seen;
    size_t n_seen, cap_seen;
    uint64_t tests;
} ct_hull;

static const float *position(const ct_hull *hull, uint32_t v) {
    return hull->positions + 3 * (size_t)v;
}

static bool is_in_front(ct_hull *hull, const ct_hull_face *face, uint32_t v) {
    const uint32_t *c = face->corner;
    hull->tests++;
    return ct_side_of_plane(position(hull, c[0]), position(hull, c[1]), position(hull, c[2]), position(hull, v)) > 0;
}

/* In front of the plane, times twice the triangle's area; rounded. */
static double measure_distance(const ct_hull *hull, const uint32_t corner[3], uint32_t v) {
    const float *a = position(hull, corner[0]), *b = position(hull, corner[1]), *c = position(hull, corner[2]);
    const float *d = position(hull, v);
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        sum += ((double)d[i] - (double)a[i]) * (((double)b[j] - (double)a[j]) * ((double)c[k] - (double)a[k]) -
                                                ((double)b[k] - (double)a[k]) * ((double)c[j] - (double)a[j]));
    }
    return sum;
}

static bool grow(void *array, size_t n, size_t *cap, size_t element) {
    if (n < *cap) return true;
    const size_t more = *cap ? 2 * *cap : 64;
    void *grown = realloc(*(void **)array, more * element);
    if (!grown) return false;
    *(void **)array = grown;
    *cap = more;
    return true;
}

static bool push(uint32_t **stack, size_t *n, size_t *cap, uint32_t value) {
    if (!grow(stack, *n, cap, sizeof **stack)) return false;
    (*stack)[(*n)++] = value;
    return true;
}

/* NONE: out of memory. */
static uint32_t add_face(ct_hull *hull, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t f = hull->free;
    if (f != NONE) {
        hull->free = hull->faces[f].corner[0];
    } else {
        size_t cap = hull->cap_faces;
        if (!grow(&hull->faces, hull->n_faces, &cap, sizeof *hull->faces)) return NONE;
        hull->cap_faces = (uint32_t)cap;
        f = hull->n_faces++;
    }
    hull->faces[f] = (ct_hull_face){.corner = {a, b, c}, .beside = {NONE, NONE, NONE}, .front = NONE, .is_alive = true};
    return f;
}

static void free_face(ct_hull *hull, uint32_t f) {
    hull->faces[f].is_alive = false;
    hull->faces[f].corner[0] = hull->free;
    hull->free = f;
}

/* Gives a vertex to the first of the faces that it is in front of. */
static void list_vertex(ct_hull *hull, const uint32_t *faces, size_t n, uint32_t v) {
    for (size_t i = 0; i < n; i++) {
        ct_hull_face *face = &hull->faces[faces[i]];
        if (!is_in_front(hull, face, v)) continue;
        const double distance = measure_distance(hull, face->corner, v);
        if (face->front == NONE || distance > face->distance) {
            hull->next[v] = face->front;
            face->front = v;
            face->distance = distance;
        } else { /* behind the furthest */
            hull->next[v] = hull->next[face->front];
            hull->next[face->front] = v;
        }
        return;
    }
}

/* ---- the first four vertices ---- */

static double square_distance(const float *a, const float *b) {
    double sum = 0;
    for (int k = 0; k < 3; k++) sum += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
    return sum;
}

static double square_area(const float *a, const float *b, const float *c) {
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        const double n = ((double)b[j] - (double)a[j]) * ((double)c[k] - (double)a[k]) -
                         ((double)b[k] - (double)a[k]) * ((double)c[j] - (double)a[j]);
        sum += n * n;
    }
    return sum;
}

/* Of the vertices that may be corner number `n`, the one that spans most with those before; NONE: there is none. */
static uint32_t find_corner(const ct_hull *hull, const uint32_t *used, size_t n_used, const uint32_t *before, int n) {
    const float *p[3];
    uint32_t best = NONE;
    double most = 0;
    for (int k = 0; k < n; k++) p[k] = position(hull, before[k]);
    for (size_t i = 0; i < n_used; i++) {
        if (CT_POLL_EVERY(i, 256) && ct_is_cancelled()) return NONE; /* an exact side takes some 5 us */
        const float *q = position(hull, used[i]);
        const double span = n == 1   ? square_distance(p[0], q)
                            : n == 2 ? square_area(p[0], p[1], q)
                                     : fabs(measure_distance(hull, before, used[i]));
        if (best != NONE && !(span > most)) continue;
        const bool spans = n == 1   ? square_distance(p[0], q) > 0
                           : n == 2 ? !ct_are_on_line(p[0], p[1], q)
                                    : ct_side_of_plane(p[0], p[1], p[2], q) != 0;
        if (!spans) continue;
        best = used[i];
        most = span;
    }
    return best;
}

static ct_status begin(ct_hull *hull, const uint32_t *used, size_t n_used, ct_error *error) {
    static const char *const SHAPES[4] = {"", "at one point", "on a line", "in a plane"};
    uint32_t c[4] = {used[0]};
    for (int n = 1; n < 4; n++) {
        c[n] = find_corner(hull, used, n_used, c, n);
        if (c[n] == NONE && ct_is_cancelled()) return ct_fail_cancelled(error);
        if (c[n] == NONE)
            return ct_fail(error, CT_INVALID_MESH, "positions",
                           "all vertices that triangles use lie %s, so their convex hull has no volume: a hull needs "
                           "four vertices that do not; a wrap (closing) takes any",
                           SHAPES[n]);
    }
    if (ct_side_of_plane(position(hull, c[0]), position(hull, c[1]), position(hull, c[2]), position(hull, c[3])) > 0) {
        const uint32_t first = c[0];
        c[0] = c[1], c[1] = first;
    }
    /* Now corner 3 is behind 0 1 2. */
    static const int FACES[4][3] = {{0, 1, 2}, {0, 3, 1}, {1, 3, 2}, {2, 3, 0}};
    static const uint32_t BESIDE[4][3] = {{1, 2, 3}, {3, 2, 0}, {1, 3, 0}, {2, 1, 0}};
    uint32_t all[4];
    for (int f = 0; f < 4; f++) {
        all[f] = add_face(hull, c[FACES[f][0]], c[FACES[f][1]], c[FACES[f][2]]);
        if (all[f] == NONE) return ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory for a convex hull");
        memcpy(hull->faces[all[f]].beside, BESIDE[f], sizeof BESIDE[f]); /* the first faces have the numbers 0 to 3 */
        if (!push(&hull->open, &hull->n_open, &hull->cap_open, all[f]))
            return ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory for a convex hull");
    }
    for (size_t i = 0; i < n_used; i++) {
        if (CT_POLL_EVERY(i, 256) && ct_is_cancelled()) return ct_fail_cancelled(error);
        list_vertex(hull, all, 4, used[i]);
    }
    return CT_OK;
}

/* ---- adding a vertex ---- */

/* Marks the faces seen from p, beginning with `first`, and notes the edges around them. False: out of memory, or
 * cancelled. */
static bool find_horizon(ct_hull *hull, uint32_t first, uint32_t p) {
    hull->n_seen = hull->n_horizon = 0;
    hull->faces[first].is_seen = true;
    if (!push(&hull->seen, &hull->n_seen, &hull->cap_seen, first)) return false;
    for (size_t i = 0; i < hull->n_seen; i++) {
        if (CT_POLL_EVERY(i, 256) && ct_is_cancelled()) return false;
        for (int k = 0; k < 3; k++) {
            const ct_hull_face *face = &hull->faces[hull->seen[i]];
            ct_hull_face *other = &hull->faces[face->beside[k]];
            if (other->is_seen) continue;
            if (is_in_front(hull, other, p)) {
                other->is_seen = true;
                if (!push(&hull->seen, &hull->n_seen, &hull->cap_seen, face->beside[k])) return false;
                continue;
            }
            if (!grow(&hull->horizon, hull->n_horizon, &hull->cap_horizon, sizeof *hull->horizon)) return false;
            hull->horizon[hull->n_horizon++] =
                (ct_horizon_edge){face->corner[k], face->corner[(k + 1) % 3], face->beside[k]};
        }
    }
    return true;
}

static void join_behind(ct_hull_face *behind, uint32_t from, uint32_t face) {
    for (int k = 0; k < 3; k++) /* it runs through the edge the other way */
        if (behind->corner[(k + 1) % 3] == from && behind->is_alive) {
            behind->beside[k] = face;
            return;
        }
}

/* New faces from p to the horizon, whose numbers come to stand at the end of `open`. False: out of memory. */
static bool add_cone(ct_hull *hull, uint32_t p) {
    for (size_t i = 0; i < hull->n_horizon; i++) {
        const ct_horizon_edge edge = hull->horizon[i];
        const uint32_t face = add_face(hull, edge.from, edge.to, p);
        if (face == NONE || !push(&hull->open, &hull->n_open, &hull->cap_open, face)) return false;
        hull->faces[face].beside[0] = edge.behind;
        join_behind(&hull->faces[edge.behind], edge.from, face);
        hull->face_from[edge.from] = face;
    }
    for (size_t i = 0; i < hull->n_horizon; i++) {
        const ct_horizon_edge edge = hull->horizon[i];
        const uint32_t face = hull->face_from[edge.from], after = hull->face_from[edge.to];
        hull->faces[face].beside[1] = after;
        hull->faces[after].beside[2] = face;
    }
    return true;
}

/* Vertices in front of the faces that go are in front of new ones, or inside. False: cancelled. */
static bool hand_on(ct_hull *hull, const uint32_t *added, size_t n_added, uint32_t p) {
    for (size_t i = 0; i < hull->n_seen; i++) {
        uint32_t v = hull->faces[hull->seen[i]].front;
        for (uint32_t next; v != NONE; v = next) {
            next = hull->next[v];
            const uint64_t before = hull->tests;
            if (v != p) list_vertex(hull, added, n_added, v);
            if ((before ^ hull->tests) >> 10 && ct_is_cancelled()) return false;
        }
        free_face(hull, hull->seen[i]);
    }
    return true;
}

static bool add_vertex(ct_hull *hull, uint32_t face, uint32_t p) {
    if (!find_horizon(hull, face, p)) return false;
    const size_t first = hull->n_open;
    return add_cone(hull, p) && hand_on(hull, hull->open + first, hull->n_open - first, p);
}

static bool add_all(ct_hull *hull) {
    while (hull->n_open) {
        const uint32_t face = hull->open[--hull->n_open];
        const uint32_t p = hull->faces[face].is_alive ? hull->faces[face].front : NONE;
        if (p != NONE && !add_vertex(hull, face, p)) return false;
    }
    return true;
}

/* ---- the soup ---- */

/* The vertices that triangles use, rising; the caller frees them. NULL: out of memory, or cancelled. */
static uint32_t *list_used(const ct_soup *soup, size_t *n) {
    uint32_t *used = calloc(soup->n_vertices, sizeof *used);
    for (size_t i = 0; used && i < 3 * soup->n_triangles; i++) {
        used[soup->triangles[i]] = 1;
        if (!CT_POLL_EVERY(i, 1 << 14) || !ct_is_cancelled()) continue;
        free(used);
        return NULL;
    }
    *n = 0;
    for (uint32_t v = 0; used && v < soup->n_vertices; v++)
        if (used[v]) used[(*n)++] = v; /* behind v, or at it */
    return used;
}

static ct_status put_triangles(const ct_hull *hull, ct_soup *soup, ct_error *error) {
    soup->n_triangles = soup->n_polygons = 0;
    for (uint32_t f = 0; f < hull->n_faces; f++) {
        const ct_hull_face *face = &hull->faces[f];
        if (CT_POLL_EVERY(f, 1024) && ct_is_cancelled()) return ct_fail_cancelled(error);
        if (!face->is_alive) continue;
        ct_status status = ct_soup_add_triangle(soup, face->corner[0], face->corner[1], face->corner[2], error);
        if (status != CT_OK) return status;
    }
    return CT_OK;
}

ct_status ct_take_hull(ct_soup *soup, ct_error *error) {
    ct_status status =
        ct_validate_elements(soup->positions, soup->n_vertices, soup->triangles, soup->n_triangles, error);
    if (status != CT_OK) return status;
    size_t n_used;
    uint32_t *used = list_used(soup, &n_used);
    ct_hull hull = {.positions = soup->positions, .free = NONE};
    hull.next = malloc(soup->n_vertices * sizeof *hull.next);
    hull.face_from = malloc(soup->n_vertices * sizeof *hull.face_from);
    if (!used || !hull.next || !hull.face_from)
        status = ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory for the convex hull of %zu vertices",
                         soup->n_vertices);
    if (status == CT_OK) status = begin(&hull, used, n_used, error);
    if (status == CT_OK && !add_all(&hull))
        status = ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory for the convex hull of %zu vertices", n_used);
    if (status == CT_OK) status = put_triangles(&hull, soup, error);
    free(used);
    free(hull.next);
    free(hull.face_from);
    free(hull.faces);
    free(hull.open);
    free(hull.horizon);
    free(hull.seen);
    return status;
}
