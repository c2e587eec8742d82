/* edge_pairs.c - pairs the faces of an edge by their angles around it, as opening and closing brackets are paired.
 *
 * Seen along the edge from high to low, angles run counter-clockwise. The normal of a face that runs up points on, to
 * larger angles, and that of one that runs down points back: so the surface encloses what lies before a face that runs
 * up, and what lies behind one that runs down. A face that runs down opens a wedge, and one that runs up closes it.
 *
 *        down \   / up       two parts that touch: down up down up
 *              \./
 *              /'\           Parts that overlap there have down down up up: the inner two are one's, the outer two the
 *        up   /   \ down     other's. */
#include "gpu/mesh/edge_pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/large.h"

enum { POLL = 1024 }; /* faces between polls */

/* Sets the faces' directions: 0 to 4 around the edge, by divisions alone, which all platforms round alike. */
static void find_directions(const float *positions, uint32_t low, uint32_t high, ct_edge_face *faces, size_t n) {
    const float *p = positions + 3 * (size_t)low, *q = positions + 3 * (size_t)high;
    double d[3], u[3] = {0, 0, 0}, v[3];
    for (int k = 0; k < 3; k++) d[k] = (double)q[k] - (double)p[k];
    const double a[3] = {fabs(d[0]), fabs(d[1]), fabs(d[2])};
    const int axis = a[0] <= a[1] && a[0] <= a[2] ? 0 : a[1] <= a[2] ? 1 : 2; /* the furthest from the edge's line */
    const int i = (axis + 1) % 3, j = (axis + 2) % 3;
    u[i] = d[j], u[j] = -d[i]; /* d x axis */
    const double size = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
    for (int k = 0; k < 3 && size > 0; k++) d[k] /= size;
    for (int k = 0; k < 3; k++) v[k] = d[(k + 1) % 3] * u[(k + 2) % 3] - d[(k + 2) % 3] * u[(k + 1) % 3];
    for (size_t f = 0; f < n; f++) {
        double x = 0, y = 0;
        memcpy(faces[f].at, positions + 3 * (size_t)faces[f].apex, sizeof faces[f].at);
        for (int k = 0; k < 3; k++) {
            const double r = (double)faces[f].at[k] - (double)p[k];
            x += r * u[k];
            y += r * v[k];
        }
        const double sum = fabs(x) + fabs(y), part = sum > 0 ? y / sum : 0;
        faces[f].direction = x < 0 ? 2 - part : part < 0 ? 4 + part : part;
    }
}

/* At one angle a wedge is closed before the next is opened. */
static int by_angle(const void *a, const void *b) {
    const ct_edge_face *x = a, *y = b;
    if (x->direction != y->direction) return x->direction < y->direction ? -1 : 1;
    if (x->runs_up != y->runs_up) return x->runs_up ? -1 : 1;
    for (int k = 0; k < 3; k++)
        if (x->at[k] != y->at[k]) return x->at[k] < y->at[k] ? -1 : 1;
    return x->apex < y->apex ? -1 : x->apex > y->apex;
}

static bool is_balanced(const ct_edge_face *faces, size_t n) {
    size_t up = 0;
    for (size_t f = 0; f < n; f++) up += faces[f].runs_up;
    return 2 * up == n;
}

/* Where every wedge that is closed has been opened before: behind the place where most are missing. */
static size_t find_start(const ct_edge_face *faces, size_t n) {
    int64_t open = 0, least = 0;
    size_t start = 0;
    for (size_t f = 0; f < n; f++) {
        open += faces[f].runs_up ? -1 : 1;
        if (open >= least) continue;
        least = open;
        start = f + 1;
    }
    return start < n ? start : 0;
}

ct_edge_pairing ct_pair_edge_faces(const float *positions, uint32_t low, uint32_t high, ct_edge_face *faces, size_t n) {
    if (!is_balanced(faces, n)) return CT_EDGE_UNBALANCED;
    find_directions(positions, low, high, faces, n);
    ct_edge_face *sorted = malloc((n + 1) * sizeof *sorted), *open = malloc((n / 2 + 1) * sizeof *open);
    ct_edge_pairing end =
        sorted && open && ct_sort_large(faces, n, sizeof *faces, by_angle) ? CT_EDGE_PAIRED : CT_EDGE_FAILED;
    for (size_t f = 1; f < n && end == CT_EDGE_PAIRED; f++)
        if (faces[f].apex == faces[f - 1].apex && faces[f].runs_up == faces[f - 1].runs_up) end = CT_EDGE_DOUBLED;
    if (end == CT_EDGE_PAIRED) {
        const size_t start = find_start(faces, n);
        size_t n_open = 0, n_paired = 0;
        memcpy(sorted, faces, n * sizeof *sorted);
        for (size_t f = 0; f < n && end == CT_EDGE_PAIRED; f++) {
            const ct_edge_face *face = &sorted[(start + f) % n];
            if (CT_POLL_EVERY(f + 1, POLL) && ct_is_cancelled()) end = CT_EDGE_FAILED;
            if (!face->runs_up) {
                open[n_open++] = *face;
                continue;
            }
            faces[n_paired++] = open[--n_open];
            faces[n_paired++] = *face;
        }
    }
    free(sorted);
    free(open);
    return end;
}
