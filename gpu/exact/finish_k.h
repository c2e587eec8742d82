/* finish_k.h - from the sums over both surfaces to the contact: volume, bound, 6-vectors, centre. */
#ifndef CT_EXACT_FINISH_K_H
#define CT_EXACT_FINISH_K_H

#include "gpu/exact/lattice_k.h"
#include "gpu/exact/segment_k.h"
#include "gpu/include/contact.h"
#include "gpu/mesh/cluster_k.h"

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
    const double size = fmax(fabs(n.of[0]), fmax(fabs(n.of[1]), fabs(n.of[2])));
    double sum[3];
    for (int k = 0; k < 3; k++) sum[k] = whole.of[k] + rest->of[k];
    return size * fmax(fabs(sum[0] - sum[1] - sum[2]), fmax(fabs(sum[1]), fabs(sum[2])));
}

/* m^2 per step of the fixed point; the mean over the passes. */
CT_FN double ct_exact_step(const ct_exact_lattice *lattice, int exponent, int n_passes) {
    return ldexp(lattice->unit * lattice->unit, exponent - (n_passes - 1));
}

/* ---- the bound ---- */

/* Why the bound holds, and when. The volume of the bodies as they are differs from the computed one by the rounding of
 * sums (rounding, arithmetic), and by what moving the vertices to the lattice changes (moved_volume). Let each vertex
 * go there in a straight line, by at most `residual` along each axis. At every moment V changes by no more than
 * residual times |.|_1 of the area of both surfaces that is inside at that moment. That is the area inside at the end,
 * and beside it
 *
 *   - what triangles change their area by: ct_bound_moved_area;
 *   - parts that come within two units of the other surface, which may have entered or left: near_area, of pairs of
 *     triangles that cross or count as near. Pairs whose boxes are further apart have none.
 *
 * Left out of near_area are pairs that do not cross and of which either triangle has at most 1 / 1024 of its own area
 * near the other's plane (CT_NEAR_PART). For all of them stand 2^-8 of the area inside. So the bound is proven where
 * the parts left out, added up over such pairs, come to at most 2^-8 of the area inside. That is so
 *
 *   - if no triangle comes within two units of the other surface without crossing it;
 *   - where surfaces cross at an angle, if the area inside is some thousand units^2 for each triangle that the curve
 *     passes within two units: of such a triangle a few units^2 are near;
 *   - if only triangles that are inside do so, each near four others at most.
 *
 * It is not proven where a triangle far larger than all of the surface inside comes within two units of another one
 * that it does not cross, or where points of many triangles that are outside hover within two units over a face. What
 * the bound then lacks is at most `residual`, about half a unit, times the parts left out. See README, Limits.
 *
 * Of a body with itself the same holds, with the winding number just outside the surface in place of the other body's.
 * Triangles that share a vertex or an edge are within two units of each other there, which near_area leaves out, unless
 * they cross at the vertex. A part of one can enter the other's volume by a move of two units only where they fold back
 * on each other at less than two units; so the bound is proven if, beside the above, triangles that share vertices
 * without crossing do so by 2^-8 of the area inside at most. */

/* A cluster's products and sums of doubles, over 128 triangles: bounds their rounding. reach and area as in
 * ct_cluster_sums. */
CT_FN double ct_bound_arithmetic(double reach, double area) {
    return reach * area * 0x1p-47;
}

/* Triangles change their area as their corners move: within the other body, by two steps along each of three edges at
 * most, none longer than its box there. sides: of the cluster's box, cut to the other body's. */
CT_FN double ct_bound_moved_area(double sides) {
    return 6 * CT_CLUSTER_TRIANGLES * sides;
}

/* residual: units, how far a vertex of the surface inside was moved. */
CT_FN double ct_bound_moved_volume(double residual, double area, double near_area) {
    return residual * (area * (1 + 0x1p-8) + near_area);
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
}

/* Where the weights of a side nearly cancel, its barycentre lies far outside the contact: then it is the centre
 * instead. After the area. */
CT_FN void ct_exact_check_side_centers(ct_contact *contact) {
    for (int b = 0; b < 2; b++) {
        double weight = 0;
        for (int j = 0; j < 3; j++) weight += contact->generalized_gradient[b][j] * contact->normal[j];
        if (10 * fabs(weight) > contact->area) continue;
        for (int i = 0; i < 3; i++) contact->side_center[b][i] = contact->center[i];
    }
}

#endif
