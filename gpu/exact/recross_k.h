/* recross_k.h - recomputes the segment in which two triangles cross, for second derivatives and inertia. The pass that
 * finds crossings stores no segments, so that it is fast. Its predicates are exact, so the same two triangles cross
 * again, with the same ends. */
#ifndef CT_EXACT_RECROSS_K_H
#define CT_EXACT_RECROSS_K_H

#include "gpu/exact/segment_k.h"

/* A crossing as triangle `own` of one body sees it; `other` is the other body's. */
typedef struct ct_recrossing {
    /* Barycentric coordinates (lambda_1, lambda_2) of the segment's start and end, directed with the inside of the
     * other body on its left: on triangle `own`, and the same points on `other`. */
    double own[2][2], other[2][2];
    double normal_own[3], normal_other[3]; /* units^2: cross products of two sides */
    /* 1 / units^3: the segment's length over |normal_own x normal_other|; 0 where the normals are parallel. */
    double spread;
    int n_jumps; /* of w along the edge 1 -> 2 of `own`, as in ct_add_edge */
    double jump_at[2];
    int jump[2];
} ct_recrossing;

CT_FN void ct_cross_product(const double *a, const double *b, double *out) {
    for (int k = 0; k < 3; k++) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        out[k] = a[i] * b[j] - a[j] * b[i];
    }
}

CT_FN double ct_dot(const double *a, const double *b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Sets spread and normals. p: the triangle in which at[0], at[1] are the segment's start and end. */
CT_FN void ct_set_recrossing_normals(ct_recrossing *out, const double *const p[3], const double at[2][2],
                                     const ct_normal *own, const ct_normal *other) {
    double axis[3], along[3];
    ct_cross_product(own->of, other->of, axis);
    const double size = ct_dot(axis, axis);
    for (int k = 0; k < 3; k++)
        along[k] = (at[1][0] - at[0][0]) * (p[1][k] - p[0][k]) + (at[1][1] - at[0][1]) * (p[2][k] - p[0][k]);
    out->spread = size > 0 ? ct_dot(along, axis) / size : 0;
    for (int k = 0; k < 3; k++) {
        out->normal_own[k] = own->of[k];
        out->normal_other[k] = other->of[k];
    }
}

/* moved: +1 if the other body is perturbed, -1 if own's is. 0: they do not cross. */
CT_FN int ct_recross(const double *const own[3], const double *const other[3], int moved, ct_recrossing *out) {
    const int is_first = ct_comes_first(own[0], other[0]);
    const double *const *p[2] = {is_first ? own : other, is_first ? other : own};
    const int moved_second = is_first ? moved : -moved;
    const int mine = is_first ? 0 : 1;
    const ct_normal normal[2] = {ct_normal_of_triangle(p[0]), ct_normal_of_triangle(p[1])};
    ct_plane_sides sides[2];
    ct_edge_signs edges;
    ct_crossing_ends ends;
    int has_ties = 0;
    ct_find_sides(p[0], p[1], &normal[1], -moved_second, &sides[0], &has_ties);
    if (ct_is_one_sided(&sides[0])) return 0;
    ct_find_sides(p[1], p[0], &normal[0], moved_second, &sides[1], &has_ties);
    if (ct_is_one_sided(&sides[1])) return 0;
    ct_find_edge_signs(p[0], p[1], &sides[0], &sides[1], moved_second, &edges, &has_ties);
    if (ct_find_crossing_ends(sides, &edges, &ends) != CT_TRIANGLES_CROSS) return 0;

    /* The first triangle's segment goes from end 0 to end 1, the second's is the same, reversed. */
    out->n_jumps = 0;
    for (int k = 0; k < 2; k++) {
        const int from = is_first ? k : 1 - k;
        for (int i = 0; i < 2; i++) {
            out->own[k][i] = ends.end[from].at[mine][i];
            out->other[k][i] = ends.end[from].at[1 - mine][i];
        }
        if (ends.triangle[k] != mine || ends.edge[k] != 1) continue;
        out->jump_at[out->n_jumps] = ends.along[k];
        out->jump[out->n_jumps++] = ends.jump[k];
    }
    const double at[2][2] = {{ends.end[0].at[0][0], ends.end[0].at[0][1]},
                             {ends.end[1].at[0][0], ends.end[1].at[0][1]}};
    ct_set_recrossing_normals(out, p[0], at, &normal[0], &normal[1]);
    if (!is_first)
        for (int k = 0; k < 3; k++) {
            out->normal_own[k] = normal[1].of[k];
            out->normal_other[k] = normal[0].of[k];
        }
    return 1;
}

#endif
