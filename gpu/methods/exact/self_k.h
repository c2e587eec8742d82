/* self_k.h - crossings of two triangles of one body that share a vertex, and where a flood over its surface begins.
 *
 * A contact of a body with itself minimises the integral of w (w - 1) / 2, with w the body's own winding number. The
 * gradient is the sum over triangles t of N_t times the integral of lambda_k w_out, w_out the winding number just
 * outside t. So w_out stands where a pair of bodies has the other one's winding number, and other triangles of the same
 * body stand where the other body's stand:
 *
 *   - Triangles without a common vertex cross as those of two bodies do, with the same ties: for triangle t all others
 *     move by (e, e^2, e^3) as a whole, and against it in the other pass. So two shells in one mesh have the crossings
 *     that they have as two bodies, coincident faces included.
 *   - Triangles that share two vertices never cross.
 *   - Triangles v a b and v c d that share v may cross in a segment that starts or ends there. At its other end, edge
 *     a b pierces the second or edge c d the first. Only these piercings are looked at; they are of edges and triangles
 *     without a common vertex, so their ties are broken as above. An edge at v pierces the other triangle at v alone,
 * if at all, and counts as not doing so. If both piercings occur (where there are ties), the segment has both as ends.
 *
 * Why this is consistent: let the whole surface cross its copy that moved by (e, e^2, e^3). All of these crossings are
 * consistent, and those that are left out here have segments that shrink to a vertex or an edge of the surface as e
 * goes to 0. So w_out is a function of the surface but for vertices with such segments, where it depends on the
 * direction: each triangle's corner k has a turn, the difference of w_out between the start of edge k and the end of
 * edge k - 1. Around a triangle jumps and turns sum to 0, and w_out is the same on both sides of any edge but where the
 * surface is folded flat (ct_jump_across_edge).
 */
#ifndef CT_EXACT_SELF_K_H
#define CT_EXACT_SELF_K_H

#include "gpu/methods/exact/predicates_k.h"
#include "gpu/methods/exact/segment_k.h"

/* How many vertices two triangles of one body have in common, and the corners that the last of them is in either. */
CT_FN int ct_count_shared_vertices(const uint32_t a[3], const uint32_t b[3], int corner[2]) {
    int n = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            if (a[i] == b[j]) {
                n++;
                corner[0] = i;
                corner[1] = j;
            }
    return n;
}

/* The triple product n . x with n = a x b, in doubles, or as an integer where these are not precise. */
typedef struct ct_triple_product {
    double value, error;
    int is_precise; /* else only the integer tells the sign */
} ct_triple_product;

CT_FN ct_triple_product ct_find_triple_product(const ct_normal *n, const double *x) {
    ct_triple_product p;
    p.value = n->of[0] * x[0] + n->of[1] * x[1] + n->of[2] * x[2];
    p.error = (n->size[0] * fabs(x[0]) + n->size[1] * fabs(x[1]) + n->size[2] * fabs(x[2])) * CT_FILTER;
    p.is_precise = fabs(p.value) > p.error * CT_PRECISE;
    return p;
}

/* Side of p of triangle v x y; product: (x - v) x (y - v) . (p - v). */
CT_FN void ct_set_side(ct_plane_sides *sides, int k, ct_triple_product *product, const double *p, const double *v,
                       const double *x, const double *y, int moved, int *has_ties) {
    sides->sign[k] = product->value > 0 ? 1 : -1;
    if (!product->is_precise) {
        const ct_signed_value s = ct_exact_side(p, v, x, y, moved);
        product->value = s.value;
        product->error = s.error;
        sides->sign[k] = s.sign;
        *has_ties |= s.is_tie;
    }
    sides->value[k] = product->value;
    sides->error[k] = product->error;
}

/* Orientation of edges p q and r s, whose determinant is `sign` times the product, which is exact if not precise. */
CT_FN int ct_edge_sign_of(const ct_triple_product *product, int sign, const double *p, const double *q, const double *r,
                          const double *s, int moved, int *has_ties) {
    if (product->is_precise || product->value != 0) return (product->value > 0) == (sign > 0) ? 1 : -1;
    *has_ties = 1;
    return ct_exact_edges(p, q, r, s, moved).sign;
}

/* An end at a shared corner: exact on both triangles. */
CT_FN void ct_set_shared_end(ct_segment_end *end, const int shared[2]) {
    for (int s = 0; s < 2; s++) {
        end->at[s][0] = shared[s] == 1;
        end->at[s][1] = shared[s] == 2;
        end->error[s] = 0;
    }
}

/* What ct_cross_at_vertex knows of the two triangles: v a b, and v c d. */
typedef struct ct_vertex_crossing {
    ct_plane_sides sides[2];
    double value[2][3], error[2][3]; /* [own]: of its edge opposite v to the other triangle's edges, by their number */
    int sign[2][3];
} ct_vertex_crossing;

CT_FN int ct_are_on_one_side(double x, double y) {
    return (x > 0 && y > 0) || (x < 0 && y < 0);
}

/* 0: the triangles do not cross, whatever moves. */
CT_FN int ct_find_vertex_crossing(const double *const p[2][3], const int shared[2], int moved, ct_vertex_crossing *x,
                                  int *has_ties) {
    const int i = shared[0], j = shared[1], i1 = (i + 1) % 3, i2 = (i + 2) % 3, j1 = (j + 1) % 3, j2 = (j + 2) % 3;
    const double *v = p[0][i], *a = p[0][i1], *b = p[0][i2], *c = p[1][j1], *d = p[1][j2];
    double from_v[4][3], skewed[3][3];
    for (int k = 0; k < 3; k++) {
        from_v[0][k] = a[k] - v[k];
        from_v[1][k] = b[k] - v[k];
        from_v[2][k] = c[k] - v[k];
        from_v[3][k] = d[k] - v[k];
    }
    const ct_normal second = ct_normal_of(from_v[2], from_v[3]);
    ct_triple_product of_a = ct_find_triple_product(&second, from_v[0]),
                      of_b = ct_find_triple_product(&second, from_v[1]);
    ct_set_side(&x->sides[0], i1, &of_a, a, v, c, d, -moved, has_ties);
    ct_set_side(&x->sides[0], i2, &of_b, b, v, c, d, -moved, has_ties);
    if (ct_are_on_one_side(of_a.value, of_b.value)) return 0;
    const ct_normal first = ct_normal_of(from_v[0], from_v[1]);
    ct_triple_product of_c = ct_find_triple_product(&first, from_v[2]),
                      of_d = ct_find_triple_product(&first, from_v[3]);
    ct_set_side(&x->sides[1], j1, &of_c, c, v, a, b, moved, has_ties);
    ct_set_side(&x->sides[1], j2, &of_d, d, v, a, b, moved, has_ties);
    if (ct_are_on_one_side(of_c.value, of_d.value)) return 0;
    if (of_a.value == 0 && of_b.value == 0 && of_c.value == 0 && of_d.value == 0) return 0; /* in one plane */
    x->sides[0].value[i] = x->sides[0].error[i] = x->sides[1].value[j] = x->sides[1].error[j] = 0;
    x->sides[0].sign[i] = x->sides[1].sign[j] = 0; /* never asked for */

    /* The same bits whichever triangle is given first. */
    const int is_first = ct_comes_first(a, c);
    const double *e[4] = {is_first ? a : c, is_first ? b : d, is_first ? c : a, is_first ? d : b};
    for (int k = 0; k < 3; k++)
        for (int n = 0; n < 3; n++) skewed[n][k] = e[n + 1][k] - e[0][k];
    const ct_normal skew = ct_normal_of(skewed[0], skewed[1]);
    ct_triple_product of_edges = ct_find_triple_product(&skew, skewed[2]);
    int sign_of_edges = of_edges.value > 0 ? 1 : -1;
    if (!of_edges.is_precise) {
        const ct_signed_value s = ct_exact_edges(a, b, c, d, moved);
        of_edges.value = s.value;
        of_edges.error = s.error;
        sign_of_edges = s.sign;
        *has_ties |= s.is_tie;
    }
    /* det(b - a, v - a, c - a) = det(a - v, b - v, c - v), and so on: edges at v add no determinants. */
    x->sign[0][j] = ct_edge_sign_of(&of_c, 1, a, b, v, c, moved, has_ties);
    x->sign[0][j1] = x->sign[1][i1] = sign_of_edges;
    x->sign[0][j2] = ct_edge_sign_of(&of_d, -1, a, b, d, v, moved, has_ties);
    x->sign[1][i] = ct_edge_sign_of(&of_a, 1, v, a, c, d, moved, has_ties);
    x->sign[1][i2] = ct_edge_sign_of(&of_b, -1, b, v, c, d, moved, has_ties);
    x->value[0][j] = of_c.value, x->error[0][j] = of_c.error;
    x->value[0][j2] = -of_d.value, x->error[0][j2] = of_d.error;
    x->value[1][i] = of_a.value, x->error[1][i] = of_a.error;
    x->value[1][i2] = -of_b.value, x->error[1][i2] = of_b.error;
    x->value[0][j1] = x->value[1][i1] = of_edges.value;
    x->error[0][j1] = x->error[1][i1] = of_edges.error;
    return 1;
}

/* The segment in which two triangles cross that share a vertex. */
typedef struct ct_vertex_ends {
    ct_plane_sides sides[2];
    ct_segment_end end[2]; /* 0: the start of triangle 0's segment, 1: its end */
    /* [own]: where the edge opposite the vertex pierces the other triangle, and how w jumps there; 0: it does not. */
    double along[2];
    int jump[2];
    int turn[2]; /* of either triangle at the shared corner */
} ct_vertex_ends;

/* The crossing of two triangles of one body that share the vertex at their corners shared[0] and shared[1], and no
 * other. moved: +1 if triangle 1 moves, -1 if triangle 0 does. CT_TRIANGLES_APART, _CROSS, or _INCONSISTENT (a bug). */
CT_FN int ct_find_vertex_ends(const double *const p[2][3], const int shared[2], int moved, ct_vertex_ends *ends,
                              int *has_ties) {
    ct_vertex_crossing x;
    int found = 0, ties = 0;
    if (!ct_find_vertex_crossing(p, shared, moved, &x, &ties)) return CT_TRIANGLES_APART;
    for (int own = 0; own < 2; own++) {
        const int i = (shared[own] + 1) % 3, i1 = (shared[own] + 2) % 3;
        const ct_plane_sides *sides = &x.sides[own];
        ends->sides[own] = *sides;
        ends->jump[own] = ends->turn[own] = 0;
        ends->along[own] = 0;
        if (sides->sign[i] == sides->sign[i1] || x.sign[own][0] != x.sign[own][1] || x.sign[own][1] != x.sign[own][2])
            continue;
        const int goes_in = sides->sign[i] > 0;
        const int which = own ? !goes_in : goes_in;
        if (found >> which & 1) return CT_TRIANGLES_INCONSISTENT;
        found |= 1 << which;
        ct_find_end(sides, i, own, x.value[own], x.error[own], &ends->end[which], &ends->along[own]);
        ends->jump[own] = goes_in ? 1 : -1;
    }
    *has_ties |= ties;
    if (!found) return CT_TRIANGLES_APART;
    if (found != 3) {
        ct_set_shared_end(&ends->end[found == 1], shared);
        ends->turn[0] = found == 1 ? 1 : -1; /* triangle 0's segment ends there, or starts */
        ends->turn[1] = -ends->turn[0];
    }
    return CT_TRIANGLES_CROSS;
}

/* The same; fills the shares and turns if they cross. Triangles that do not cross count as near nowhere. */
CT_FN int ct_cross_at_vertex(const double *const p[2][3], const int shared[2], int moved, ct_triangle_share share[2],
                             int turn[2], int *has_ties) {
    ct_vertex_ends ends;
    const int found = ct_find_vertex_ends(p, shared, moved, &ends, has_ties);
    if (found != CT_TRIANGLES_CROSS) return found;
    double size[2];
    for (int s = 0; s < 2; s++) {
        const ct_normal normal = ct_normal_of_triangle(p[s]);
        size[s] = ct_size1(&normal);
        turn[s] = ends.turn[s];
    }
    for (int s = 0; s < 2; s++) {
        const int edge = (shared[s] + 1) % 3;
        for (int k = 0; k < CT_INTEGRALS; k++) share[s].integrals.of[k] = 0;
        ct_add_segment(&share[s].integrals, ends.end[s].at[s], ends.end[1 - s].at[s]);
        share[s].near_area = ct_near_area(ct_largest_side(&ends.sides[s]), size[s], size[1 - s]);
        share[s].rounding = size[s] * (4 * (ends.end[0].error[s] + ends.end[1].error[s]) + 0x1p-48);
        share[s].jump[0] = share[s].jump[1] = share[s].jump[2] = 0;
        share[s].jump[edge] = (signed char)ends.jump[s];
        if (edge == 1 && ends.jump[s]) ct_add_edge(&share[s].integrals, ends.along[s], ends.jump[s]);
    }
    return found;
}

/* As ct_recross, of triangles of one body that share the vertex at corners shared[0] of own and shared[1] of other. */
CT_FN int ct_recross_at_vertex(const double *const own[3], const double *const other[3], const int shared[2], int moved,
                               ct_recrossing *out) {
    const double *const p[2][3] = {{own[0], own[1], own[2]}, {other[0], other[1], other[2]}};
    ct_vertex_ends ends;
    int has_ties = 0;
    if (ct_find_vertex_ends(p, shared, moved, &ends, &has_ties) != CT_TRIANGLES_CROSS) return 0;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 2; i++) {
            out->own[k][i] = ends.end[k].at[0][i];
            out->other[k][i] = ends.end[k].at[1][i];
        }
    out->n_jumps = (shared[0] + 1) % 3 == 1 && ends.jump[0];
    out->jump_at[0] = ends.along[0];
    out->jump[0] = ends.jump[0];
    const ct_normal normal = ct_normal_of_triangle(own), normal_other = ct_normal_of_triangle(other);
    ct_set_recrossing_normals(out, own, out->own, &normal, &normal_other);
    return 1;
}

/* How w jumps along the edge from p to q near p, where it pierces the triangle u, which has p as a corner; 0: it does
 * not. moved: +1 if u moves. */
CT_FN int ct_jump_at_start(const double *p, const double *q, const double *const u[3], int moved) {
    const int from = ct_exact_side(p, u[0], u[1], u[2], -moved).sign;
    if (from == ct_exact_side(q, u[0], u[1], u[2], -moved).sign) return 0;
    int sign[3];
    for (int k = 0; k < 3; k++) sign[k] = ct_exact_edges(p, q, u[k], u[(k + 1) % 3], moved).sign;
    return sign[0] == sign[1] && sign[1] == sign[2] ? from : 0;
}

/* 1: a point of triangle p lies inside its body's copy that moved by moved * (e, e^2, e^3), as far as p tells: it moved
 * to the outer side. 0 of a triangle without area. */
CT_FN int ct_is_inside_copy(const double *const p[3], int moved) {
    const ct_normal n = ct_normal_of_triangle(p);
    if (fabs(n.of[0]) > n.size[0] * CT_FILTER) return (n.of[0] > 0) == (moved > 0);
    return moved * ct_perturbed_cross_sign(ct_int3_between(p[0], p[1]), ct_int3_between(p[0], p[2])) > 0;
}

/* 1: the triangle t lies in one plane with its neighbour, whose corner off the common edge is `apex`. */
CT_FN int ct_is_in_plane(const double *const t[3], const double *apex) {
    double from[3];
    const ct_normal n = ct_normal_of_triangle(t);
    for (int k = 0; k < 3; k++) from[k] = apex[k] - t[0][k];
    const ct_triple_product p = ct_find_triple_product(&n, from);
    return fabs(p.value) <= p.error && ct_orientation(t[0], t[1], t[2], apex) == 0;
}

/* How w_out jumps from triangle t to its neighbour across an edge: not at all, but where the surface folds back in one
 * plane, and at triangles without area. There both lie where their copies are on one side of both, so that not w_out
 * but where they are inside the copy stays. is_inside: ct_is_inside_copy of the two. */
CT_FN int ct_jump_across_edge(const double *const t[3], const double *apex, const int is_inside[2]) {
    return is_inside[0] != is_inside[1] && ct_is_in_plane(t, apex) ? is_inside[0] - is_inside[1] : 0;
}

/* Whether a point of an edge between t and its neighbour lies inside the copy, as far as the two tell, where w_out is
 * to be that of t. */
CT_FN int ct_edge_is_inside_copy(const double *const t[3], const double *apex, const int is_inside[2]) {
    if (is_inside[0] == is_inside[1] || ct_is_in_plane(t, apex)) return is_inside[0];
    /* A point moved back is inside one face only: inside a reflex edge, outside a convex one. */
    return ct_orientation(t[0], t[1], t[2], apex) > 0;
}

/* ---- floods ---- */

/* Winding numbers outside a triangle at both ends of its three edges, relative to the start of edge 1. */
typedef struct ct_edge_numbers {
    int32_t start[3], end[3];
} ct_edge_numbers;

/* jump: along edge k; turn: at corner k, before edge k. Around the triangle all six sum to 0, so turn[1] is not asked
 * for. */
CT_FN ct_edge_numbers ct_find_edge_numbers(const int32_t jump[3], const int32_t turn[3]) {
    ct_edge_numbers n;
    n.start[1] = 0;
    n.end[1] = jump[1];
    n.start[2] = n.end[1] + turn[2];
    n.end[2] = n.start[2] + jump[2];
    n.start[0] = n.end[2] + turn[0];
    n.end[0] = n.start[0] + jump[0];
    return n;
}

/* The largest |winding number| along the edges of a triangle, whose number at the start of edge 1 is `number`;
 * *is_inverted: one of them is negative. */
CT_FN uint32_t ct_find_deepest_edge(const ct_edge_numbers *n, int32_t number, int *is_inverted) {
    uint32_t most = 0;
    *is_inverted = 0;
    for (int k = 0; k < 3; k++)
        for (int end = 0; end < 2; end++) {
            const int32_t w = number + (end ? n->end[k] : n->start[k]);
            const uint32_t size = (uint32_t)(w < 0 ? -w : w);
            if (size > most) most = size;
            *is_inverted |= w < 0;
        }
    return most;
}

/* What triangle t adds to the winding number of the body's moved copy just behind p = end[0], on the edge from p to
 * end[1]: +1, -1 or 0 for the ray from p along +x, as ct_ray_hit, and how the number changes along the edge at once, if
 * t has p as a corner (ct_jump_at_start). vertex: of the edge; corner: the triangle's vertices. */
CT_FN int ct_own_ray_hit(const double *const end[2], const uint32_t vertex[2], const double *const t[3],
                         const uint32_t corner[3], int moved) {
    int has[2] = {0, 0};
    if (!ct_ray_may_hit(t, end[0])) return 0;
    for (int k = 0; k < 3; k++)
        for (int e = 0; e < 2; e++) has[e] |= corner[k] == vertex[e];
    const int hit = ct_ray_hit(end[0], t, moved);
    return has[0] && !has[1] ? hit + ct_jump_at_start(end[0], end[1], t, moved) : hit;
}

#endif
