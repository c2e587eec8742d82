/* cross_ties.inl - four pairs of triangles with ties. A part of exact_cpu.simd.c.
 *
 * Where bodies coincide, or share vertices, nearly all pairs have ties: a corner of one triangle is one of the other's.
 * Its side is 0, whatever doubles say, and the sign that the perturbation gives it is that of the other triangle's
 * normal. So most of these pairs need no integers, and both perturbations are decided at once: the signs of ties are
 * those of the other one, reversed. */
#ifndef CT_EXACT_CROSS_TIES_INL
#define CT_EXACT_CROSS_TIES_INL

#include "gpu/methods/exact/lanes.inl"

/* The sign of vectors along (e, e^2, e^3), as ct_perturbed_cross_sign; where neither is set, doubles do not tell. */
struct signs4 {
    ct_v4l positive, negative;
};

static inline struct signs4 find_perturbed_signs(const ct_v4d of[3], const ct_v4d size[3]) {
    struct signs4 signs = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    ct_v4l is_open = {-1, -1, -1, -1};
    for (int k = 0; k < 3; k++) {
        const ct_v4d margin = size[k] * CT_FILTER;
        signs.positive |= is_open & (of[k] > margin);
        signs.negative |= is_open & (of[k] < -margin);
        is_open &= size[k] == 0; /* of both terms: then it is 0 exactly */
    }
    return signs;
}

/* The ties of four pairs. */
struct ties4 {
    ct_v4l moves_second;    /* the second triangle's body is perturbed in pass 0, else the first one's */
    ct_v4l coincides[3][3]; /* [k][j]: corner k of the first triangle is corner j of the second */
    ct_v4l side[2][3];      /* the side of a corner is a tie */
    ct_v4l sign[2];         /* in pass 0 the tied corners of this triangle are above the other one's plane */
    uint32_t known;         /* lanes whose sides are decided: with signs for their ties */
    uint32_t tied;          /* of these, lanes with a tie */
};

static inline ct_v4l are_same(const struct vector4 *a, const struct vector4 *b) {
    return (a->of[0] == b->of[0]) & (a->of[1] == b->of[1]) & (a->of[2] == b->of[2]);
}

/* False: no side is 0, so there are no ties. */
static inline bool may_have_ties(const struct values4 sides[2]) {
    ct_v4l is_small = {0, 0, 0, 0};
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < 3; k++) is_small |= absolute(sides[s].value[k]) <= sides[s].error[k];
    return ct_v4l_to_bits(is_small) != 0;
}

/* Decides sides that were measured. moved: as in pair_queue. Of ties the values and errors become 0, as ct_decide_sides makes them. */
static void decide_sides4(int moved, const int first[4], const struct triangles4 pairs[2],
                          const struct normal4 normal[2], struct values4 sides[2], struct ties4 *ties) {
    ct_v4l is_open = {0, 0, 0, 0}, has_tie[2];
    for (int i = 0; i < 4; i++) ties->moves_second[i] = (first[i] ? -moved : moved) > 0 ? -1 : 0;
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < 3; j++) ties->coincides[k][j] = are_same(&pairs[0].corner[k], &pairs[1].corner[j]);
    for (int s = 0; s < 2; s++) {
        has_tie[s] = (ct_v4l){0, 0, 0, 0};
        for (int k = 0; k < 3; k++) {
            ct_v4l tie = sides[s].error[k] == 0; /* all terms are 0 */
            for (int j = 0; j < 3; j++) tie |= s ? ties->coincides[j][k] : ties->coincides[k][j];
            is_open |= (absolute(sides[s].value[k]) <= sides[s].error[k] * CT_PRECISE) & ~tie;
            sides[s].value[k] = (ct_v4d)(~tie & (ct_v4l)sides[s].value[k]);
            sides[s].error[k] = (ct_v4d)(~tie & (ct_v4l)sides[s].error[k]);
            ties->side[s][k] = tie;
            has_tie[s] |= tie;
        }
    }
    for (int s = 0; s < 2; s++) {
        const struct signs4 plane = find_perturbed_signs(normal[1 - s].n.of, normal[1 - s].size.of);
        const ct_v4l along = s ? ties->moves_second : ~ties->moves_second; /* it is the corners that move */
        ties->sign[s] = (along & plane.positive) | (~along & plane.negative);
        is_open |= has_tie[s] & ~(plane.positive | plane.negative);
    }
    ties->known = ct_v4l_to_bits(~is_open);
    ties->tied = ct_v4l_to_bits(has_tie[0] | has_tie[1]) & ties->known;
}

/* Whether corner k of triangle s is above the other one's plane. */
static inline ct_v4l is_above(const struct ties4 *ties, const struct values4 sides[2], int s, int k, int pass) {
    const ct_v4l sign = pass ? ~ties->sign[s] : ties->sign[s];
    return (ties->side[s][k] & sign) | (~ties->side[s][k] & (sides[s].value[k] > 0));
}

/* The lanes in which one of the triangles is on one side of the other's plane, in both passes: they do not cross. */
static inline uint32_t find_one_sided(const struct ties4 *ties, const struct values4 sides[2]) {
    ct_v4l both = {-1, -1, -1, -1};
    for (int pass = 0; pass < 2; pass++) {
        ct_v4l is_one_sided = {0, 0, 0, 0};
        for (int s = 0; s < 2; s++) {
            const ct_v4l at[3] = {is_above(ties, sides, s, 0, pass), is_above(ties, sides, s, 1, pass),
                                  is_above(ties, sides, s, 2, pass)};
            is_one_sided |= ~((at[0] ^ at[1]) | (at[1] ^ at[2]));
        }
        both &= is_one_sided;
    }
    return ct_v4l_to_bits(both);
}

/* A triangle of which one corner is a tie, turned so that this corner v comes first: the other two, seen from v, and
 * whether these are above the other triangle's plane. */
struct turned4 {
    ct_v4d next[3], last[3];
    ct_v4l next_above, last_above;
};

static inline void turn_to_tie(const struct triangles4 *t, const ct_v4l tie[3], const struct values4 *sides,
                               struct turned4 *to) {
    for (int k = 0; k < 3; k++) {
        const ct_v4d p[3] = {t->corner[0].of[k], t->corner[1].of[k], t->corner[2].of[k]};
        const ct_v4d v = choose(tie[0], p[0], choose(tie[1], p[1], p[2]));
        to->next[k] = choose(tie[0], p[1], choose(tie[1], p[2], p[0])) - v;
        to->last[k] = choose(tie[0], p[2], choose(tie[1], p[0], p[1])) - v;
    }
    const ct_v4d *value = sides->value;
    to->next_above = choose(tie[0], value[1], choose(tie[1], value[2], value[0])) > 0;
    to->last_above = choose(tie[0], value[2], choose(tie[1], value[0], value[1])) > 0;
}

/* The sign of a x b along (e, e^2, e^3), from its first component. *is_open: lanes in which that does not tell. */
static inline ct_v4l find_cross_sign(const ct_v4d a[3], const ct_v4d b[3], ct_v4l *is_open) {
    const ct_v4d u = a[1] * b[2], v = a[2] * b[1], cross = u - v;
    *is_open |= absolute(cross) <= (absolute(u) + absolute(v)) * CT_FILTER;
    return cross > 0;
}

static inline ct_v4l are_alike(ct_v4l x, ct_v4l y, ct_v4l z) {
    return ~((x ^ y) | (y ^ z));
}

/* Of lanes whose sides are decided: those in which the triangles v a b and v c d have nothing but v in common, and no
 * edge pierces the other triangle in either pass. Most determinants of two edges are those of a side, or 0: see
 * ct_find_vertex_crossing in self_k.h, which has the same signs. */
static uint32_t find_apart_at_vertex(const struct ties4 *ties, const struct triangles4 pairs[2],
                                     const struct values4 sides[2]) {
    struct turned4 t, u;
    ct_v4l is_open = {0, 0, 0, 0}, pierces = {0, 0, 0, 0}, has_one[2], meets = {0, 0, 0, 0};
    for (int s = 0; s < 2; s++) {
        const ct_v4l *tie = ties->side[s];
        has_one[s] = (tie[0] ^ tie[1] ^ tie[2]) & ~(tie[0] & tie[1] & tie[2]);
    }
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < 3; j++) meets |= ties->coincides[k][j];
    const ct_v4l fits = has_one[0] & has_one[1] & meets;
    if (!ct_v4l_to_bits(fits)) return 0;
    turn_to_tie(&pairs[0], ties->side[0], &sides[0], &t);
    turn_to_tie(&pairs[1], ties->side[1], &sides[1], &u);
    const ct_v4l ac = find_cross_sign(t.next, u.next, &is_open), ad = find_cross_sign(t.next, u.last, &is_open);
    const ct_v4l bc = find_cross_sign(t.last, u.next, &is_open), bd = find_cross_sign(t.last, u.last, &is_open);
    /* Of a b and c d: det(b - a, c - a, d - a). */
    ct_v4d along[3], to_c[3], to_d[3], value = {0, 0, 0, 0}, error = {0, 0, 0, 0};
    for (int k = 0; k < 3; k++) {
        along[k] = t.last[k] - t.next[k];
        to_c[k] = u.next[k] - t.next[k];
        to_d[k] = u.last[k] - t.next[k];
    }
    for (int k = 0; k < 3; k++) {
        const int x = (k + 1) % 3, y = (k + 2) % 3;
        const ct_v4d p = to_c[x] * to_d[y], q = to_c[y] * to_d[x];
        value += along[k] * (p - q);
        error += absolute(along[k]) * (absolute(p) + absolute(q));
    }
    is_open |= absolute(value) <= error * CT_FILTER;
    const ct_v4l opposite = value > 0, a = t.next_above, b = t.last_above, c = u.next_above, d = u.last_above;
    pierces |= (a ^ b) & are_alike(c, opposite, ~d);
    pierces |= (c ^ d) & are_alike(a, opposite, ~b);
    for (int pass = 0; pass < 2; pass++) {
        const ct_v4l moves_second = pass ? ~ties->moves_second : ties->moves_second;
        const ct_v4l v_above[2] = {pass ? ~ties->sign[0] : ties->sign[0], pass ? ~ties->sign[1] : ties->sign[1]};
        /* Of edges v a, b v and v c, d v. */
        const ct_v4l va_vc = ac ^ moves_second, va_dv = ~ad ^ moves_second, bv_vc = ~bc ^ moves_second,
                     bv_dv = bd ^ moves_second;
        pierces |= (v_above[0] ^ a) & are_alike(va_vc, a, va_dv);
        pierces |= (v_above[0] ^ b) & are_alike(bv_vc, ~b, bv_dv);
        pierces |= (v_above[1] ^ c) & are_alike(va_vc, c, bv_vc);
        pierces |= (v_above[1] ^ d) & are_alike(va_dv, ~d, bv_dv);
    }
    return ct_v4l_to_bits(fits & ~is_open & ~pierces);
}

/* The edges that pierce the other triangle in either pass, as find_piercing has them, of lanes whose sides are decided;
 * returns those in which doubles do not tell. A determinant of two edges is 0 where they have an end in common, and where
 * all terms of b - a times their cross product are 0, as they are on a plane of two axes; its value and error become 0, as
 * ct_decide_edges makes them. */
static uint32_t find_tied_piercing(const struct ties4 *ties, const struct triangles4 pairs[2],
                                   const struct values4 sides[2], struct values4 e[3], ct_v4l piercing[2]) {
    ct_v4l signs[2][3][3], is_open = {0, 0, 0, 0}; /* signs[pass][i][j]: whether e[i][j] is above 0 */
    ct_v4l changes[2][2][3];                       /* [pass][s][k]: edge k meets the plane */
    for (int pass = 0; pass < 2; pass++) {
        piercing[pass] = (ct_v4l){0, 0, 0, 0};
        for (int s = 0; s < 2; s++) {
            const ct_v4l at[3] = {is_above(ties, sides, s, 0, pass), is_above(ties, sides, s, 1, pass),
                                  is_above(ties, sides, s, 2, pass)};
            for (int k = 0; k < 3; k++) changes[pass][s][k] = at[k] ^ at[(k + 1) % 3];
        }
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const int i1 = (i + 1) % 3, j1 = (j + 1) % 3;
            const struct vector4 *a = &pairs[0].corner[i], *a1 = &pairs[0].corner[i1];
            const struct vector4 *b = &pairs[1].corner[j], *b1 = &pairs[1].corner[j1];
            const ct_v4l matters =
                changes[0][0][i] | changes[1][0][i] | changes[0][1][j] | changes[1][1][j]; /* as in ct_decide_edges */
            ct_v4d cross[3], size[3], terms = {0, 0, 0, 0}, terms1 = {0, 0, 0, 0};
            for (int k = 0; k < 3; k++) {
                const int x = (k + 1) % 3, y = (k + 2) % 3;
                const ct_v4d u = (a1->of[x] - a->of[x]) * (b1->of[y] - b->of[y]);
                const ct_v4d v = (a1->of[y] - a->of[y]) * (b1->of[x] - b->of[x]);
                cross[k] = u - v;
                size[k] = absolute(u) + absolute(v);
                terms += absolute(b->of[k] - a->of[k]) * size[k];
                terms1 += absolute(b1->of[k] - a->of[k]) * size[k];
            }
            const ct_v4l tie = (terms == 0) | (terms1 == 0) | ties->coincides[i][j] | ties->coincides[i][j1] |
                               ties->coincides[i1][j] | ties->coincides[i1][j1];
            const struct signs4 sign = find_perturbed_signs(cross, size);
            /* The sign of a tie is against the cross product where the second edge moves. Edges with both ends in
             * common have none, and are never asked for: both of their ends are ties, on the same side. */
            const ct_v4l is_same =
                (ties->coincides[i][j] & ties->coincides[i1][j1]) | (ties->coincides[i][j1] & ties->coincides[i1][j]);
            const ct_v4l of_tie = (ties->moves_second & sign.negative) | (~ties->moves_second & sign.positive);
            is_open |= matters & tie & ~is_same & ~(sign.positive | sign.negative);
            is_open |= matters & ~tie & (absolute(e[i].value[j]) <= e[i].error[j] * CT_PRECISE);
            e[i].value[j] = (ct_v4d)(~tie & (ct_v4l)e[i].value[j]);
            e[i].error[j] = (ct_v4d)(~tie & (ct_v4l)e[i].error[j]);
            const ct_v4l of_value = ~tie & (e[i].value[j] > 0);
            signs[0][i][j] = (tie & of_tie) | of_value;
            signs[1][i][j] = (tie & ~of_tie) | of_value;
        }
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < 3; k++) {
            const ct_v4l *own = signs[pass][k];
            piercing[pass] |= (changes[pass][0][k] & are_alike(own[0], own[1], own[2])) & (1 << k);
            const ct_v4l of[3] = {signs[pass][0][k], signs[pass][1][k], signs[pass][2][k]};
            piercing[pass] |= (changes[pass][1][k] & are_alike(of[0], of[1], of[2])) & (8 << k);
        }
    return ct_v4l_to_bits(is_open);
}

#endif
