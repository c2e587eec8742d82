/* finish_k.h - from the sums over both surfaces to the contact: volume, bound, 6-vectors, centre. */
#ifndef CT_EXACT_FINISH_K_H
#define CT_EXACT_FINISH_K_H

#include "gpu/contact/frame_k.h"
#include "gpu/include/contact.h"
#include "gpu/mesh/cluster_k.h"
#include "gpu/methods/exact/lattice_k.h"
#include "gpu/methods/exact/segment_k.h"

/* What the pair's sums come to, over one or both perturbations. */
typedef struct ct_exact_totals {
    double moment[2][3][3]; /* per body; see ct_cluster_sums */
    ct_int128 force[2][3];  /* per body, steps of the fixed point: the gradient's sum, balanced */
    double first_moment[3];
    double rounding;     /* units^3: bounds what the rounding of the integrals adds to three times the volume */
    double arithmetic;   /* units^3: bounds that of products and sums */
    double moved_volume; /* units^3: the part that comes from moving vertices to the lattice */
    double area;         /* units^2: sum of |area vector|_1 of both surfaces inside */
    double excess[3];    /* units^2: the gradient's sum before it was balanced */
    double n_clusters;   /* that were added */
    double about[3];     /* units: where volumes count from; 0 unless ct_move_reference has moved it */
    uint32_t max_winding;
    uint32_t inverted; /* triangles of both surfaces, the more of both perturbations; see ct_contact */
} ct_exact_totals;

/* ---- the fixed point ---- */

/* The exponent of a step of the fixed point in which the gradient is added up: a triangle's share, at most `most`, is
 * below 2^45 steps, so that a cluster's sums are integers that doubles hold, and the sum of all shares, at most `sum`,
 * is below 2^61, so that nothing overflows. Both in units^2. */
CT_FN int ct_fixed_point_exponent(double most, double sum) {
    int of_most, of_sum;
    frexp(most, &of_most);
    frexp(sum, &of_sum);
    return of_most - 45 > of_sum - 61 ? of_most - 45 : of_sum - 61;
}

/* The largest share of a crossed triangle, from its integrals: between its corners a triangle may be as deep inside as
 * the other body has layers, which no winding number at a corner tells. winding: at corner 1; rest: the sums over its
 * crossings. */
CT_FN double ct_crossed_share(const double *const p[3], double winding, const ct_integrals *rest) {
    const ct_integrals whole = ct_whole_integrals(winding);
    const ct_normal n = ct_normal_of_triangle(p);
    const double size = ct_greater(fabs(n.of[0]), ct_greater(fabs(n.of[1]), fabs(n.of[2])));
    double sum[3];
    for (int k = 0; k < 3; k++) sum[k] = whole.of[k] + rest->of[k];
    return size * ct_greater(fabs(sum[0] - sum[1] - sum[2]), ct_greater(fabs(sum[1]), fabs(sum[2])));
}

/* m^2 per step of the fixed point; the mean over the passes. */
CT_FN double ct_exact_step(const ct_exact_lattice *lattice, int exponent, int n_passes) {
    return ldexp(lattice->unit * lattice->unit, exponent - (n_passes - 1));
}

/* ---- the bound ---- */

/* Why the bound holds. The volume of the bodies as they are differs from the computed one by the rounding of sums
 * (rounding, arithmetic), and by what moving the vertices to the lattice changes (moved_volume). The rest of this
 * comment proves moved_volume.
 *
 * The way to the lattice. Let time t run from 0 to 1, and each vertex go to its lattice point in a straight line. Along
 * each axis it moves by r at most: r is `residual` plus the rounding of the pose, 0.51 units at most (of a half-space
 * beyond 500 of the pair's extents from the world's origin more: that is not covered). Two points of the two surfaces
 * so move by 1.02 units along an axis against each other. Triangle T has the area vector N(t) / 2, and xi is a point of
 * T in barycentric coordinates. Then
 *
 *     |dV/dt|  <=  sum over both surfaces' triangles T of  r  integral over T of |w(xi, t)| |N(t)|_1 d xi,
 *
 * where w is the other body's winding number at xi, and |V(1) - V(0)| is at most the largest value of the right side.
 * With D(xi) = w(xi, t) - w(xi, 1) three areas bound the integrals:
 *
 *     (1) |w(1)| |N(1)|_1                  the area inside, computed: `area`, if no w is negative on T
 *     (2) |w(1)| (|N(t)|_1 - |N(1)|_1)     triangles inside change their area
 *     (3) |D| |N(t)|_1                     parts have entered or left the other body
 *
 * (2) Corners move by 0.51, so edges e change by 1.02 along each axis, and |N|_1 grows by g = 2.04 (|e_1|_1 + |e_2|_1)
 * + 6.3 at most (ct_growth_of_normal) for any two of T's edges. Of three choices of two edges one has |e_1|_1 + |e_2|_1
 * <= 4/3 L, L the sum of the sides of T's box. If all of T is inside, half of g is 1.36 L + 3.2 or less. If only a part
 * is, which lies in the other body's box: of T's barycentric domain at most 2 W_k / L_k lies in an interval W_k of axis
 * k, so it is 2.72 W + 3.2 or less, W the sides of T's box cut to the other body's box. ct_bound_moved_area counts 6 W,
 * with boxes that are 6 units wider along each axis, for each triangle of a cluster that is inside in part: enough for
 * |w| <=
 * 2. ct_bound_layers adds what clusters need that have deeper corners. (So a triangle that is more than two layers deep
 * only between its corners is assumed to be no needle: to be some thousand units wide.)
 *
 * (3), pairs of triangles. D(xi) is not 0 only if the point x of T passed a triangle u of the other surface after t. It
 * is at most the sum of the net number of times, over all u. Where x passed u, x was at a point y of u. So at t = 1 the
 * two are 1.02 units apart along each axis or less, and the distance of x from u's plane, times u's |normal|, is at
 * most d = 1.02 |N_u|_1. This height is linear over T. If its largest size at a corner is M, it is at most d on 4 d / M
 * of T at most. So `near`, ct_near_area = |N|_1 / 2 min(1, 16 |N_u|_1 / M), is four times what x can pass once:
 *
 *   - u's corners move independently, so x may pass its plane three times: in, out and in again. A net number of 2 at
 *     most. That and a growth of |N|_1 by 0.96 of itself are less than four.
 *   - If the growth is more (a triangle of some four units or less in width), ct_near_growth adds the same part of g.
 *   - Where `near` is all of T, it has no factor to spare. Growth then takes g. And D = 2 only where x passed u, went
 *     around one of its edges and passed it again, so that x is at t = 1 within 2.04 units along each axis of a point
 * of this edge. T has at most 12.3 units times its diameter of such area for each of three edges, and the diameter is
 *     less than g / 2.04. Together 20 g: ct_near_growth.
 *
 * Nothing is left of pairs of which one triangle is more than four units from the other one's plane (ct_is_beyond),
 * whose boxes or whose clusters' boxes are six units apart, or which tests in floats leave out, since they leave out no
 * others.
 *
 * (3), sums. `near` of pairs that cross, or of which more than 1 / 1024 of either triangle is near (CT_NEAR_PART), is
 * in the sums over crossings: near_area. `near` of the others, and what ct_near_growth adds, is summed up in whole
 * units^2: ct_left_out, over both surfaces, with the largest r of clusters that have any. Most of this is so little
 * that it drowns in rounding, but a comb of ridges on a huge face may have more of it than all of the contact has area.
 *
 * The slack. Instead of adding ct_left_out to every bound, 2^-8 of the area inside stand for it (CT_BOUND_SLACK), and
 * ct_bound_left_out adds what these do not cover: nothing for ordinary bodies.
 *
 * Pieces. Each piece has all of near_area and ct_left_out of its pair, as if both belonged to it alone.
 *
 * A body with itself. The same holds, with the winding number just outside the surface in place of the other body's.
 * Triangles that share a vertex or an edge are within two units of each other there, of which only those that cross at
 * the vertex are counted. A part of one can pass the other by a move of two units only where they fold back on each
 * other at less than two units; so the bound is proven if triangles that share vertices without crossing do so by 2^-8
 * of the area inside at most. */

/* A cluster's products and sums of doubles, over 128 triangles: bounds their rounding. reach and area as in
 * ct_cluster_sums. */
CT_FN double ct_bound_arithmetic(double reach, double area) {
    return reach * area * 0x1p-47;
}

/* (2) above, of a cluster's triangles. sides: of the cluster's box, cut to the other body's. */
CT_FN double ct_bound_moved_area(double sides) {
    return 6 * CT_CLUSTER_TRIANGLES * sides;
}

/* A part of the area inside, which stands for small areas near the other surface: see above. */
#define CT_BOUND_SLACK 0x1p-8

/* residual: units, how far a vertex of the surface inside was moved. */
CT_FN double ct_bound_moved_volume(double residual, double area, double near_area) {
    return residual * (area * (1 + CT_BOUND_SLACK) + near_area);
}

/* What ct_bound_moved_area lacks of a cluster in which winding numbers are above 2. */
CT_FN double ct_bound_layers(double moved_area, uint32_t max_winding) {
    return max_winding > 2 ? moved_area * (max_winding - 2) : 0;
}

/* What a pair's moved volume in one pass has to have beside ct_bound_moved_volume of both bodies. rounding: units, of
 * either pose; excess: units^3, residual times ct_bound_layers; slack: residual times area times CT_BOUND_SLACK; both
 * summed over both bodies. 0 of ordinary bodies. */
CT_FN double ct_bound_left_out(const ct_left_out *left_out, double rounding_a, double rounding_b, double excess,
                               double slack) {
    const double residual = left_out->residual + fmax(rounding_a, rounding_b);
    return fmax(0.0, residual * ct_left_out_area(left_out) + excess - slack);
}

/* ---- the reference point ---- */

/* The volume is a third of the sum over both surfaces of x . dV/dx, whatever point x counts from, because the gradient
 * sums to 0: V = (M - c . G) / 3 with M and G the computed sums of x dV/dx and dV/dx. Where a triangle's integrals are
 * wrong by d, M is wrong by N . x d and G by N d, with x any point of its plane, so V is wrong by a third of N . (x -
 * c) d. From a point c in the planes of the triangles with the largest errors, those far larger than the contact, they
 * add nothing; up to three planes have one, whose distances, weighted by the errors, have the least sum of squares. G
 * is the sum of the gradient in fixed point, which is an integer, so it is wrong by the rounding to steps only. */
typedef struct ct_plane_fit {
    double square[6], linear[3]; /* xx, yy, zz, xy, yz, zx */
} ct_plane_fit;

/* True: rounding counts for more in the bound than what another reference point cannot change. */
CT_FN int ct_should_move_reference(const ct_exact_totals *totals) {
    return totals->rounding / 3 > totals->moved_volume + totals->arithmetic;
}

/* Adds a crossed triangle. rounding: as in ct_triangle_share. */
CT_FN void ct_fit_plane(ct_plane_fit *fit, const double *const p[3], double rounding) {
    const ct_normal n = ct_normal_of_triangle(p);
    const double size = ct_size1(&n);
    if (!(size > 0)) return;
    double distance = 0;
    for (int k = 0; k < 3; k++) distance += n.of[k] / size * p[0][k];
    for (int k = 0; k < 3; k++) {
        const double weighted = rounding * rounding * (n.of[k] / size);
        fit->square[k] += weighted * (n.of[k] / size);
        fit->square[3 + k] += weighted * (n.of[(k + 1) % 3] / size);
        fit->linear[k] += weighted * distance;
    }
}

CT_FN void ct_add_fit(ct_plane_fit *sum, const ct_plane_fit *a, const ct_plane_fit *b) {
    for (int k = 0; k < 6; k++) sum->square[k] += a->square[k] + b->square[k];
    for (int k = 0; k < 3; k++) sum->linear[k] += a->linear[k] + b->linear[k];
}

/* The point, units. Along directions that no plane with large errors has, it stays near the lattice's origin. 0: there
 * is none. */
CT_FN int ct_find_reference(const ct_plane_fit *fit, double about[3]) {
    const double *s = fit->square, hold = (s[0] + s[1] + s[2]) * 0x1p-20;
    const double xx = s[0] + hold, yy = s[1] + hold, zz = s[2] + hold, xy = s[3], yz = s[4], zx = s[5];
    const double c[6] = {yy * zz - yz * yz, zz * xx - zx * zx, xx * yy - xy * xy,
                         yz * zx - xy * zz, zx * xy - yz * xx, xy * yz - zx * yy};
    const double det = xx * c[0] + xy * c[3] + zx * c[5];
    if (!(det > 0)) return 0;
    about[0] = (c[0] * fit->linear[0] + c[3] * fit->linear[1] + c[5] * fit->linear[2]) / det;
    about[1] = (c[3] * fit->linear[0] + c[1] * fit->linear[1] + c[4] * fit->linear[2]) / det;
    about[2] = (c[5] * fit->linear[0] + c[4] * fit->linear[1] + c[2] * fit->linear[2]) / det;
    for (int k = 0; k < 3; k++)
        if (!(fabs(about[k]) < CT_LATTICE_LIMIT)) return 0;
    return 1;
}

/* rounding: that of all triangles about the point. Takes the point if it makes the bound smaller. What it adds: G was
 * rounded, by half a step for each corner of each triangle and by products and sums of doubles. */
CT_FN void ct_move_reference(ct_exact_totals *totals, int exponent, const double about[3], double rounding) {
    const double reach = fabs(about[0]) + fabs(about[1]) + fabs(about[2]);
    const double of_steps = 1.5 * CT_CLUSTER_TRIANGLES * totals->n_clusters * ldexp(reach, exponent);
    const double added = ct_bound_arithmetic(reach, totals->area) + of_steps;
    if (rounding / 3 + added >= totals->rounding / 3) return;
    totals->rounding = rounding;
    totals->arithmetic += added;
    for (int k = 0; k < 3; k++) totals->about[k] = about[k];
}

/* ---- the contact ---- */

/* Volume and bound. 0: there is no contact, or none that could be told from rounding.
 *
 * The bound is the sum of what can be wrong: (1) coordinates were moved to the lattice, by `residual` at most along
 * each axis, which changes the volume by no more than that times the area (in the 1-norm) of both surfaces inside each
 * other, at any time while they move: their present area, and what lies within two units of the other surface; (2) the
 * integrals over crossed triangles were rounded, which matters as much as a triangle's plane is away from the reference
 * point: the origin of the lattice, in the middle of the boxes' overlap, or ct_find_reference (ct_volume_rounding); (3)
 * so were products and sums. */
CT_FN int ct_exact_volume(const ct_exact_totals *totals, const ct_exact_lattice *lattice, int n_passes,
                          ct_contact *contact) {
    const double unit = lattice->unit, passes = n_passes;
    double trace[2] = {0, 0};
    for (int i = 0; i < 3; i++)
        for (int p = 0; p < 2; p++) trace[p] += totals->moment[p][i][i];
    double moved = 0;
    for (int k = 0; k < 3; k++) moved += totals->about[k] * totals->excess[k];
    contact->volume = (trace[0] + trace[1] - moved) / 3 / passes * (unit * unit * unit);
    const double wrong = totals->moved_volume + totals->rounding / 3 + totals->arithmetic;
    contact->error_bound = wrong / passes * (1 + 0x1p-10) * (unit * unit * unit) + fabs(contact->volume) * 0x1p-50;
    contact->error_estimate = contact->error_bound;
    contact->inverted_volume = NAN;
    for (int k = 0; k < 3; k++) {
        contact->volumes[k] = contact->volume;
        contact->error_bounds[k] = contact->error_bound;
    }
    return contact->volume > contact->error_bound;
}

/* The 6-vector of body b. center: m, what torques are about. step: ct_exact_step. */
CT_FN void ct_exact_force(const ct_exact_totals *totals, const ct_exact_lattice *lattice, int n_passes, double step,
                          int b, const double center[3], double out[6]) {
    const double unit = lattice->unit;
    double force[3], arm[3], moment[3][3];
    for (int i = 0; i < 3; i++) {
        force[i] = ct_int128_to_double(totals->force[b][i]) * step;
        arm[i] = lattice->origin[i] - center[i];
        for (int j = 0; j < 3; j++) moment[i][j] = totals->moment[b][i][j] / n_passes * (unit * unit * unit);
    }
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        out[i] = force[i];
        out[3 + i] = (moment[j][k] - moment[k][j]) + (arm[j] * force[k] - arm[k] * force[j]);
    }
}

/* The force that counts as none, m^2: a normal that follows from less would follow from rounding.
 *
 * Where surfaces coincide, as of two bodies that are the same, the parts of a triangle that are inside are bounded by
 * crossings of nearly parallel triangles, whose rounding is 2^-36 at most (CT_PRECISE in segment_k.h), so a triangle's
 * part of the gradient is wrong by a few times 2^-36 of its area. The sum over the surface is wrong by as much of the
 * area inside at most; 2^-37.8 is the most that was measured, of 13 meshes of up to 86,000 triangles, as they are and
 * turned. 2^-32 leaves room. A step of the fixed point is below 2^-44 of the area inside. If a contact's force is less,
 * the lattice does not know its true normal either: moving vertices by half a unit, 2^-38 of the bodies' size, changes
 * the force by as much. Shallow contacts are far from it: their force is about as large as the area inside. */
CT_FN double ct_exact_force_rounding(const ct_exact_totals *totals, const ct_exact_lattice *lattice, int n_passes) {
    return totals->area / n_passes * (lattice->unit * lattice->unit) * 0x1p-32;
}

/* The centre of gravity of the intersection, which lies in both bodies' boxes. */
CT_FN void ct_exact_center(const ct_exact_totals *totals, const ct_exact_lattice *lattice, int n_passes,
                           const ct_box box[2], ct_contact *contact) {
    const double unit = lattice->unit;
    for (int i = 0; i < 3; i++) {
        const double moment = totals->first_moment[i] / n_passes * unit * unit * unit * unit;
        const double center = lattice->origin[i] + moment / contact->volume;
        contact->center[i] = fmin(fmax(center, fmax(box[0].lo[i], box[1].lo[i])), fmin(box[0].hi[i], box[1].hi[i]));
    }
}

/* The barycentre of each body's surface inside the other, weighted by friction weights: the moment of the gradient
 * along the normal, over the gradient's sum. After the normal; step: ct_exact_step. */
CT_FN void ct_exact_side_centers(const ct_exact_totals *totals, const ct_exact_lattice *lattice, int n_passes,
                                 double step, ct_contact *contact) {
    const double cubed = lattice->unit * lattice->unit * lattice->unit, *n = contact->normal;
    for (int b = 0; b < 2; b++) {
        double weight = 0;
        for (int j = 0; j < 3; j++) weight += ct_int128_to_double(totals->force[b][j]) * step * n[j];
        for (int i = 0; i < 3; i++) {
            double moment = 0;
            for (int j = 0; j < 3; j++) moment += totals->moment[b][i][j] / n_passes * cubed * n[j];
            contact->side_center[b][i] = lattice->origin[i] + (weight != 0 ? moment / weight : 0);
        }
    }
    for (int i = 0; i < 3; i++) contact->middle[i] = (contact->side_center[0][i] + contact->side_center[1][i]) / 2;
}

/* Where the weights of a side nearly cancel, its barycentre lies far outside the contact: then it is the centre
 * instead. After the area. */
CT_FN void ct_exact_check_side_centers(const ct_exact_totals *totals, const ct_exact_lattice *lattice, int n_passes,
                                       ct_contact *contact) {
    const double inside = totals->area / n_passes * (lattice->unit * lattice->unit); /* of both sides */
    for (int b = 0; b < 2 && 20 * contact->area <= inside; b++)
        for (int i = 0; i < 3; i++) contact->side_center[b][i] = contact->center[i];
}

/* Of a surface wholly inside the other body, the moment of the gradient is the volume, whatever it is about; a surface
 * that is nowhere inside has no terms. After the normal. */
CT_FN void ct_exact_find_nested(const ct_exact_totals *totals, ct_contact *contact) {
    int has_surface[2] = {0, 0};
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < 3; i++) has_surface[b] = has_surface[b] || totals->moment[b][i][i] != 0;
    ct_frame_nested(contact, has_surface[0], has_surface[1]);
}

#endif
