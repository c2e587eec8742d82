/* law.c - the law "pressure": an elastic foundation on each contact's area.
 *
 * Beneath both surfaces lies a foundation that answers a depth h with the pressure p = k h, k the pair's modulus. Along
 * lines that are parallel to the normal n, h is the intersection's thickness, so that
 *
 *     integral of h dA = V        and        integral of h x dA = V c,
 *
 *        ____________________     V the volume and c the centre of gravity of the intersection, dA the area as seen along
 *       |  part 0            |    n. Both are known exactly, and so are the area's moments on either surface. Of all
 *       |____________________|    functions h = a + b . y that are linear along the contact, one has these two integrals;
 *     ___|////////////////|____   where flat faces meet it is h itself, tilted or not, and the law is an elastic
 *    |     part 1              |  foundation to rounding. Elsewhere net force and centre of pressure are.
 *
 * The pressure acts along each surface's own normals N, so that a nut's thread turns it and a bowl's flanks center what
 * lies in it. The integrals of y N dS over the two surfaces add up to V, along y, by the divergence theorem: the walls
 * of the part inside, where a line along n runs within a surface, count too much, as h falls to 0 along them. Of all
 * forces between what either side says, the least along the contact acts on part 0 and its opposite on part 1: on a
 * flat contact none; where flanks matter, one side's. Torques about c agree. So forces and torques balance, and nothing
 * depends on how faces are divided into triangles.
 *
 * Dissipation multiplies h by 1 + d w (Hunt and Crossley 1975), w the approach speed, which is linear along the contact.
 * It comes from the powers of pressures along the surfaces' own normals (find_factor). So what dissipates takes energy,
 * unless one of the bounds below acts. The product is replaced by the linear function with its integrals, third moments
 * of the area left out. It is never negative. Friction is Coulomb's, at points of the ellipse whose area moments the
 * contact has: so it resists turning about the normal, too.
 *
 * Where a body wraps around the other, as a bowl around a ball, areas as seen along n nearly cancel, and what is
 * divided by them says little. Then the volume's own moments bound the contact's extents, and what the slope adds is at
 * most as much as the whole pressure: forces stay below twice k V, wherever n points, and torques below k V times the
 * volume's reach, also of a couple, whose forces cancel while their torque does not. All of these bounds are continuous, and
 * know no axes but the contact's own, so that a body that is pushed through another one feels no jumps but one: where its
 * tip leaves on the far side, or a gap closes around it, the area cancels altogether, and k V along n is followed by 0. */
#include "gpu/after/law.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/after/side.h"
#include "gpu/after/way_out.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/vec.h"
#include "gpu/mesh/mesh.h"

/* ---- the pressure ---- */

/* A function a + b . z along the contact, z from the barycentre of its area. */
struct linear {
    double mean, slope[2];
};

struct law {
    const ct_contact *contact;
    const ct_side *side; /* [2] */
    ct_material material;
    double speed;       /* m/s: of stiction */
    double at[3];       /* m, from the contact's centre: the barycentre of the area, midway between the surfaces */
    double q[2];        /* the same along the tangents */
    double spread[2];   /* m^2: variances of the area along its axes, 0 or more */
    double axis[2][2];  /* the axes, along the tangents */
    double trust[2];    /* 0..1: what of the slope along each axis counts */
    double reach;       /* m: sqrt(3) times the volume's standard deviation from its centre, in all directions */
    double velocity[3]; /* m/s: of part 1 relative to part 0 at `at` */
    double turning[3];  /* rad/s */
};

/* No pressure varies by more than this times its mean within the contact's extents: more would be negative at one end.
 * Of a triangle, with 0 at its base, it is 1.2. */
static const double MOST_VARIATION = 2;

/* No area has a larger variance than this times its volume's: of a wedge, a cap or a pyramid it is 1.5 times as
 * large. */
static const double MOST_SPREAD = 3;

/* Nor a smaller one than a third of it, as of a bar that is deep at its ends alone: below this times it, slopes count
 * the less. */
static const double LEAST_SPREAD = 0.3;

/* No area's barycentre is farther from the volume's than this times half its extent: of a wedge it is 0.4 times, of one
 * whose depth grows as the cube of the way, once. */
static const double FARTHEST = 2;

/* Unit eigenvectors of the symmetric matrix {{m + x, y}, {y, m - x}}, that of m + root first; root is the length of
 * (x, y). Sums, products and square roots have the same bits on all processors; sines and arc tangents do not. */
static void find_eigenvectors(double x, double y, double root, double axis[2][2]) {
    double cosine = 1, sine = 0; /* of half the angle of (x, y) */
    if (root > 0 && x >= 0) {
        cosine = sqrt((root + x) / (2 * root));
        sine = y / (2 * root * cosine);
    } else if (root > 0) {
        sine = copysign(sqrt((root - x) / (2 * root)), y);
        cosine = y / (2 * root * sine);
    }
    axis[0][0] = axis[1][1] = cosine;
    axis[0][1] = sine;
    axis[1][0] = -sine;
}

/* m^2: of the intersection along an axis. */
static double volume_variance(const ct_contact *c, const double axis[3]) {
    const double(*j)[3] = c->inertia;
    double along = 0;
    for (int i = 0; i < 3; i++) along += axis[i] * ct_dot3(j[i], axis);
    return ((j[0][0] + j[1][1] + j[2][2]) / 2 - along) / c->volume;
}

/* The barycentre of the area, from the contact's centre. Where weights nearly cancel it lies anywhere: no farther, then,
 * than FARTHEST half extents of the volume. */
static void find_barycentre(const ct_contact *c, struct law *law) {
    double way[3], size;
    for (int i = 0; i < 3; i++) law->at[i] = c->middle[i] - c->center[i];
    size = sqrt(ct_dot3(law->at, law->at));
    for (int i = 0; i < 3 && size > 0; i++) way[i] = law->at[i] / size;
    const double most = size > 0 ? FARTHEST * sqrt(3 * fmax(volume_variance(c, way), 0)) : 0;
    for (int i = 0; i < 3 && size > most; i++) law->at[i] *= most / size;
}

static void find_axes(struct law *law) {
    const ct_contact *c = law->contact;
    const double *m = c->plane_moments, area = c->area;
    find_barycentre(c, law);
    for (int t = 0; t < 2; t++) law->q[t] = ct_dot3(c->tangents[t], law->at);
    const bool has_moments = c->body[0] != c->body[1]; /* a body's own two sides are not told apart by triangles */
    const double uu = has_moments ? m[0] / area - law->q[0] * law->q[0] : 0,
                 uv = has_moments ? m[1] / area - law->q[0] * law->q[1] : 0,
                 vv = has_moments ? m[2] / area - law->q[1] * law->q[1] : 0;
    const double half = (uu - vv) / 2, root = sqrt(half * half + uv * uv), middle = (uu + vv) / 2;
    find_eigenvectors(half, uv, root, law->axis);
    law->spread[0] = fmax(middle + root, 0);
    law->spread[1] = fmax(middle - root, 0);
    /* What of an axis is rounding beside the other. */
    if (law->spread[1] < 1e-12 * law->spread[0]) law->spread[1] = 0;
    const double trace = c->inertia[0][0] + c->inertia[1][1] + c->inertia[2][2];
    law->reach = sqrt(3 * fmax(trace, 0) / (2 * c->volume));
    for (int a = 0; a < 2; a++) {
        double axis[3];
        for (int i = 0; i < 3; i++) axis[i] = law->axis[a][0] * c->tangents[0][i] + law->axis[a][1] * c->tangents[1][i];
        const double of_volume = fmax(volume_variance(c, axis), 0);
        law->spread[a] = fmin(law->spread[a], MOST_SPREAD * of_volume);
        law->trust[a] = law->spread[a] < LEAST_SPREAD * of_volume ? law->spread[a] / (LEAST_SPREAD * of_volume) : 1;
    }
}

/* The depth: what the volume and its centre of gravity say. */
static struct linear find_depth(const struct law *law) {
    const ct_contact *c = law->contact;
    struct linear depth = {.mean = c->volume / c->area};
    for (int i = 0; i < 2; i++) {
        if (!(law->spread[i] > 0)) continue;
        const double along = law->axis[i][0] * law->q[0] + law->axis[i][1] * law->q[1];
        const double most = MOST_VARIATION * depth.mean / sqrt(3 * law->spread[i]);
        const double slope =
            law->trust[i] * law->trust[i] * fmin(fmax(-depth.mean * along / law->spread[i], -most), most);
        for (int t = 0; t < 2; t++) depth.slope[t] += slope * law->axis[i][t];
    }
    return depth;
}

/* Of two functions along the contact: their covariance, m^2 of a product of slopes. */
static double covariance(const struct law *law, const double a[2], const double b[2]) {
    double sum = 0;
    for (int i = 0; i < 2; i++)
        sum += law->spread[i] * (law->axis[i][0] * a[0] + law->axis[i][1] * a[1]) *
               (law->axis[i][0] * b[0] + law->axis[i][1] * b[1]);
    return sum;
}

/* Force and torque about the contact's centre on part 0. */
struct wrench {
    double force[3], torque[3];
};

/* Takes from the matrix m, of forces along the tangents by unit slopes along them, half the volume: as far as that
 * leads towards 0 along the axes of its symmetric part. */
static void take_walls(double m[2][2], double volume) {
    const double half = (m[0][0] - m[1][1]) / 2, mixed = (m[0][1] + m[1][0]) / 2, middle = (m[0][0] + m[1][1]) / 2,
                 root = sqrt(half * half + mixed * mixed);
    double axis[2][2];
    find_eigenvectors(half, mixed, root, axis);
    for (int a = 0; a < 2; a++) {
        const double value = a ? middle - root : middle + root;
        const double less = fmin(fmax(value, -volume / 2), volume / 2);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) m[i][j] -= less * axis[a][i] * axis[a][j];
    }
}

/* Of a pressure of 1 Pa: the mean of both sides, which differ by rounding alone. */
static struct wrench press_evenly(const struct law *law) {
    struct wrench w = {{0, 0, 0}, {0, 0, 0}};
    for (int s = 0; s < 2; s++) {
        double shift[3];
        const double *g = law->contact->generalized_gradient[s], share = s ? 0.5 : -0.5;
        ct_cross3(law->side[s].origin, g, shift); /* from the body's origin to the contact's centre */
        for (int i = 0; i < 3; i++) {
            w.force[i] += share * g[i];
            w.torque[i] += share * (g[3 + i] + shift[i]);
        }
    }
    return w;
}

/* Of pressures of 1 Pa, and of 1 Pa/m along each tangent from the area's barycentre, where its force along n is 0. */
struct basis {
    struct wrench even, slope[2];
};

static struct basis find_basis(const struct law *law) {
    const ct_contact *c = law->contact;
    struct basis basis = {.even = press_evenly(law)};
    double along[2][2];
    for (int t = 0; t < 2; t++)
        for (int j = 0; j < 2; j++) along[t][j] = ct_dot3(c->linear_pressure[t], c->tangents[j]);
    take_walls(along, c->volume);
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 3; i++) {
            basis.slope[t].force[i] = along[t][0] * c->tangents[0][i] + along[t][1] * c->tangents[1][i];
            basis.slope[t].torque[i] = c->linear_pressure[t][3 + i] - law->q[t] * basis.even.torque[i];
        }
    return basis;
}

/* W: what the relative motion of the parts does against a wrench on part 0, of whose torque this share counts. */
static double power_of(const struct law *law, const struct wrench *w, double share) {
    double moved[3], power = share * ct_dot3(w->torque, law->turning);
    ct_cross3(law->turning, law->at, moved);
    for (int i = 0; i < 3; i++) power += w->force[i] * (law->velocity[i] - moved[i]);
    return power;
}

/* N m: the largest torque of a unit slope, in whichever direction along the contact: a bound of it knows no tangents. */
static double largest_torque(const struct wrench slope[2]) {
    const double a = ct_dot3(slope[0].torque, slope[0].torque), b = ct_dot3(slope[0].torque, slope[1].torque),
                 c = ct_dot3(slope[1].torque, slope[1].torque), half = (a - c) / 2;
    return sqrt((a + c) / 2 + sqrt(half * half + b * b));
}

/* How much of a torque counts. */
static double share_below(double most, double torque) {
    return torque > most ? most / torque : 1;
}

/* 1 + d w, w the approach speed, a linear function along the contact. Its integral over the area is the power of a pressure
 * of 1, and its integral times y the power of the pressure y. Where it is negative, the surfaces part too fast to press. */
static struct linear find_factor(const struct law *law, const struct basis *basis) {
    const double d = law->material.dissipation, area = law->contact->area, reach = law->reach;
    struct linear factor = {.mean = 1};
    if (!(d > 0)) return factor;
    const double even = sqrt(ct_dot3(basis->even.torque, basis->even.torque));
    factor.mean += d * power_of(law, &basis->even, share_below(area * reach, even)) / area;
    if (!(factor.mean > 0)) return (struct linear){.mean = 0};
    const double share = share_below(area * reach * reach, largest_torque(basis->slope));
    const double moment[2] = {power_of(law, &basis->slope[0], share) / area,
                              power_of(law, &basis->slope[1], share) / area};
    for (int i = 0; i < 2; i++) {
        if (!(law->spread[i] > 0)) continue;
        const double slope =
            d * (law->axis[i][0] * moment[0] + law->axis[i][1] * moment[1]) / law->spread[i] * law->trust[i];
        for (int t = 0; t < 2; t++) factor.slope[t] += slope * law->axis[i][t];
    }
    const double variation = sqrt(3 * covariance(law, factor.slope, factor.slope));
    const double scale = variation > factor.mean ? factor.mean / variation : 1;
    for (int t = 0; t < 2; t++) factor.slope[t] *= scale;
    return factor;
}

/* Pa: the depth's pressure, with dissipation. */
static struct linear find_pressure(const struct law *law, const struct basis *basis, const struct linear *depth) {
    const double k = law->material.modulus;
    const struct linear factor = find_factor(law, basis);
    struct linear pressure = {.mean = k * (depth->mean * factor.mean + covariance(law, depth->slope, factor.slope))};
    for (int t = 0; t < 2; t++) pressure.slope[t] = k * (depth->slope[t] * factor.mean + depth->mean * factor.slope[t]);
    return pressure;
}

static struct wrench press(const struct law *law, const struct basis *basis, const struct linear *pressure) {
    const struct wrench *even = &basis->even;
    struct wrench w, of_slope;
    for (int i = 0; i < 3; i++) {
        of_slope.force[i] =
            pressure->slope[0] * basis->slope[0].force[i] + pressure->slope[1] * basis->slope[1].force[i];
        of_slope.torque[i] =
            pressure->slope[0] * basis->slope[0].torque[i] + pressure->slope[1] * basis->slope[1].torque[i];
    }
    const double most = pressure->mean * law->contact->area, force = sqrt(ct_dot3(of_slope.force, of_slope.force)),
                 torque = sqrt(ct_dot3(of_slope.torque, of_slope.torque));
    const double scale =
        fmin(force > most ? most / force : 1, torque > most * law->reach ? most * law->reach / torque : 1);
    for (int i = 0; i < 3; i++) {
        w.force[i] = pressure->mean * even->force[i] + scale * of_slope.force[i];
        w.torque[i] = pressure->mean * even->torque[i] + scale * of_slope.torque[i];
    }
    const double whole = sqrt(ct_dot3(w.torque, w.torque));
    for (int i = 0; i < 3 && whole > most * law->reach; i++) w.torque[i] *= most * law->reach / whole;
    return w;
}

/* ---- friction ---- */

/* Points of the unit disc, each a share of its area: three radii, whose squares are those of Gauss's rule, at six
 * angles, of the middle one those between. The mean distance from the centre is 2 / 3, to half a percent. */
enum { RADII = 3, ANGLES = 6, POINTS = RADII * ANGLES };
#define LESS 0.8660254037844386 /* sqrt(3) / 2 */
static const double RADIUS[RADII] = {0.3357106870197290, 0.7071067811865476, 0.9419651451198934},
                    SHARE[RADII] = {5.0 / 18 / ANGLES, 8.0 / 18 / ANGLES, 5.0 / 18 / ANGLES},
                    DIRECTION[2][ANGLES][2] = {
                        {{1, 0}, {0.5, LESS}, {-0.5, LESS}, {-1, 0}, {-0.5, -LESS}, {0.5, -LESS}},
                        {{LESS, 0.5}, {0, 1}, {-LESS, 0.5}, {-LESS, -0.5}, {0, -1}, {LESS, -0.5}}};
#undef LESS

/* Each point stands for a share of the area. Where the contact turns, slips differ within a share, and near the point that
 * does not slip their directions cancel in part. So the length of a slip gets a part across it: the root of BLUR times the
 * slip at the rim of a disc of the share's area. Friction of a disc that slides and turns is within 3.5 % of the integral
 * then (tests/e2e/test_law.py). */
static const double BLUR = 0.09;

/* At a slip of this square. */
static double friction_at(const ct_material *m, double speed, double square) {
    const double stribeck = CT_STRIBECK * speed, r = square / (stribeck * stribeck);
    return m->friction + (m->static_friction - m->friction) / (1 + r * r);
}

static struct wrench rub(const struct law *law, const struct linear *pressure) {
    const ct_contact *c = law->contact;
    struct wrench w = {{0, 0, 0}, {0, 0, 0}};
    double at[POINTS][3], normal[POINTS], sum = 0;
    for (int p = 0; p < POINTS; p++) {
        double along[2], z[2];
        for (int a = 0; a < 2; a++) /* a disc's variance is a quarter of its radius squared */
            along[a] = RADIUS[p / ANGLES] * DIRECTION[p / ANGLES % 2][p % ANGLES][a] * 2 * sqrt(law->spread[a]);
        for (int t = 0; t < 2; t++) z[t] = along[0] * law->axis[0][t] + along[1] * law->axis[1][t];
        for (int i = 0; i < 3; i++) at[p][i] = law->at[i] + z[0] * c->tangents[0][i] + z[1] * c->tangents[1][i];
        normal[p] = SHARE[p / ANGLES] * fmax(pressure->mean + pressure->slope[0] * z[0] + pressure->slope[1] * z[1], 0);
        sum += normal[p];
    }
    if (!(sum > 0)) return w;
    const double scale = c->area * pressure->mean / sum, turn = ct_dot3(law->turning, c->normal);
    const double blur = BLUR * turn * turn * 4 * sqrt(law->spread[0] * law->spread[1]); /* times a share */
    for (int p = 0; p < POINTS; p++) {
        double arm[3], slip[3], turned[3], torque[3], force[3];
        ct_sub3(at[p], law->at, arm);
        ct_cross3(law->turning, arm, turned);
        for (int i = 0; i < 3; i++) slip[i] = law->velocity[i] + turned[i];
        const double rise = ct_dot3(slip, c->normal);
        for (int i = 0; i < 3; i++) slip[i] -= rise * c->normal[i];
        const double square = ct_dot3(slip, slip),
                     size = sqrt(square + law->speed * law->speed + blur * SHARE[p / ANGLES]);
        const double limit = scale * friction_at(&law->material, law->speed, square) * normal[p];
        for (int i = 0; i < 3; i++) force[i] = limit * slip[i] / size;
        ct_cross3(at[p], force, torque);
        for (int i = 0; i < 3; i++) {
            w.force[i] += force[i];
            w.torque[i] += torque[i];
        }
    }
    return w;
}

/* ---- velocities ---- */

/* The side's motion as a rigid one, which the forces that spread_wrench puts on its vertices do as much work on as any
 * wrench does on this: so friction never adds energy. A deformable body that moves like a rigid one has its motion. */
static void find_motion(const ct_side *side, const double at[3], double velocity[3], double turning[3]) {
    memset(turning, 0, 3 * sizeof *turning);
    if (side->body->kind == CT_BODY_RIGID || !side->velocity) {
        ct_side_velocity(side, at, velocity);
        if (side->velocity) memcpy(turning, side->velocity->twist + 3, 3 * sizeof *turning);
        return;
    }
    const double polar = side->uu + side->vv, det = side->uu * side->vv - side->uv * side->uv;
    double rise[2] = {0, 0}, arm[3], turned[3];
    for (int i = 0; i < 3; i++) velocity[i] = side->size > 0 ? side->drift[i] / side->size : 0;
    if (!(polar > 0)) return;
    if (det > 1e-9 * polar * polar) {
        rise[0] = (side->vv * side->tilt[0] - side->uv * side->tilt[1]) / det;
        rise[1] = (side->uu * side->tilt[1] - side->uv * side->tilt[0]) / det;
    }
    /* normal velocity grows along u and v by `rise`, which turns the side by rise x n */
    const double spin = (side->swirl + rise[1] * side->lift[0] - rise[0] * side->lift[1]) / polar;
    for (int i = 0; i < 3; i++) turning[i] = spin * side->normal[i] - rise[0] * side->v[i] + rise[1] * side->u[i];
    ct_sub3(at, side->middle, arm);
    ct_cross3(turning, arm, turned);
    for (int i = 0; i < 3; i++) velocity[i] += turned[i];
}

static void find_motions(struct law *law) {
    double velocity[2][3], turning[2][3];
    for (int s = 0; s < 2; s++) find_motion(&law->side[s], law->at, velocity[s], turning[s]);
    ct_sub3(velocity[1], velocity[0], law->velocity);
    ct_sub3(turning[1], turning[0], law->turning);
}

/* ---- what the result gets ---- */

/* The wrench on part s about its body's origin. */
static void turn_to_origin(const struct wrench *w, const ct_side *side, int s, double out[6]) {
    double shift[3];
    ct_cross3(side->origin, w->force, shift);
    for (int i = 0; i < 3; i++) {
        out[i] = s ? -w->force[i] : w->force[i];
        out[3 + i] = s ? -(w->torque[i] - shift[i]) : w->torque[i] - shift[i];
    }
}

/* Adds forces to the side's vertices, so that all forces on them amount to `wanted`. present: the sum of those that are
 * there already. */
static void spread_wrench(const ct_side *side, int s, const struct wrench *wanted, const struct wrench *present,
                          double *forces) {
    ct_side_load load = {.turn = 0};
    double torque[3];
    if (!(side->size > 0)) return;
    for (int i = 0; i < 3; i++) {
        load.pull[i] = ((s ? -wanted->force[i] : wanted->force[i]) - present->force[i]) / side->size;
        torque[i] = (s ? -wanted->torque[i] : wanted->torque[i]) - present->torque[i];
    }
    ct_side_balance(side, torque, &load);
    ct_side_push(side, &load, forces);
}

/* Pressure at the vertices times their gradient; then what that lacks of the wrench. */
static void press_vertices(const struct law *law, int s, const struct linear *pressure, const struct wrench *wanted,
                           const double *gradient, double *forces) {
    const ct_contact *c = law->contact;
    const ct_side *side = &law->side[s];
    struct wrench present = {{0, 0, 0}, {0, 0, 0}};
    for (uint64_t k = 0; k < side->n; k++) {
        double *row = side->rows + k * CT_SIDE_COLUMNS, *force = row + CT_SIDE_SCRATCH, arm[3];
        ct_sub3(row, law->at, arm);
        const double p = pressure->mean + pressure->slope[0] * ct_dot3(c->tangents[0], arm) +
                         pressure->slope[1] * ct_dot3(c->tangents[1], arm);
        for (int i = 0; i < 3; i++) force[i] = forces[3 * k + (uint64_t)i] = -p * gradient[3 * k + (uint64_t)i];
        ct_cross3(row, force, force + 3);
    }
    for (int i = 0; i < 3; i++) {
        present.force[i] = ct_side_sum(side, i);
        present.torque[i] = ct_side_sum(side, 3 + i);
    }
    spread_wrench(side, s, wanted, &present, forces);
}

static void put_extents(const struct law *law, ct_contact *contact) {
    for (int a = 0; a < 2; a++) {
        contact->extents[a] = sqrt(3 * law->spread[a]);
        for (int i = 0; i < 3; i++)
            contact->axes[a][i] = law->axis[a][0] * contact->tangents[0][i] + law->axis[a][1] * contact->tangents[1][i];
    }
}

static struct law open_law(const ct_scene *scene, const ct_contact *contact, const ct_side side[2]) {
    struct law law = {
        .contact = contact,
        .side = side,
        .material = ct_scene_material_of(scene, contact->body, &side[0].body->material, &side[1].body->material),
        .speed = scene->settings.stiction_speed > 0 ? scene->settings.stiction_speed : CT_DEFAULT_STICTION_SPEED};
    find_axes(&law);
    find_motions(&law);
    return law;
}

static void apply_law(const ct_scene *scene, const ct_step *step, ct_result *result, const ct_side side[2],
                      ct_contact *contact) {
    const struct law law = open_law(scene, contact, side);
    const struct wrench none = {{0, 0, 0}, {0, 0, 0}};
    struct wrench total, friction = none;
    const struct basis basis = find_basis(&law);
    const struct linear depth = find_depth(&law), pressure = find_pressure(&law, &basis, &depth);
    const struct wrench push = press(&law, &basis, &pressure);
    if (law.material.static_friction > 0 && step->n_velocities) friction = rub(&law, &pressure);
    for (int i = 0; i < 3; i++) {
        total.force[i] = push.force[i] + friction.force[i];
        total.torque[i] = push.torque[i] + friction.torque[i];
    }
    put_extents(&law, contact);
    for (int s = 0; s < 2; s++) {
        const uint64_t first = 3 * contact->first[s];
        turn_to_origin(&total, &side[s], s, contact->wrench[s]);
        if (step->n_velocities) turn_to_origin(&friction, &side[s], s, contact->friction[s]);
        if (!side[s].n) continue;
        if (result->forces) press_vertices(&law, s, &pressure, &push, result->gradient + first, result->forces + first);
        if (result->friction_forces) spread_wrench(&side[s], s, &friction, &none, result->friction_forces + first);
    }
}

/* ---- bodies wholly inside another ---- */

/* The way out of a body for one that is wholly inside it: its own gradient is 0, and names none. */
struct way_out {
    int inner;        /* side */
    double normal[3]; /* away from the outer one */
    double deeper;    /* m: than when the last of it went in */
    double extent;    /* m: of the inner one, along the normal */
};

/* How far above a plane through `at` the top of a body's box is, and its extent along the normal, m. The box of a rigid body
 * has the body's axes, so that forces turn with the scene; that of a deformable one the world's. */
static double height_above(const double normal[3], const double at[3], const ct_body *body, double *extent) {
    static const double world[12] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
    const bool is_rigid = body->kind == CT_BODY_RIGID;
    const double *lo = is_rigid ? body->mesh->lo : body->box.lo, *hi = is_rigid ? body->mesh->hi : body->box.hi,
                 *pose = is_rigid ? body->pose : world;
    double above = -ct_dot3(normal, at), half = 0;
    for (int k = 0; k < 3; k++) {
        const double along = normal[0] * pose[k] + normal[1] * pose[4 + k] + normal[2] * pose[8 + k];
        above += along * (lo[k] + hi[k]) / 2 + normal[k] * pose[4 * k + 3];
        half += fabs(along) * (hi[k] - lo[k]) / 2;
    }
    *extent = 2 * half;
    return above + half;
}

/* Out of a half-space along its normal, also where next to nothing is above it; out of a rigid body to the place of its
 * surface that is nearest to the contact's centre. The vertices of a deformable one have no part in the contact's gradient,
 * and could not be given the reaction. False: there is no way. */
static bool find_way_out(const ct_contact *contact, const ct_side side[2], struct way_out *way) {
    const bool is_plane[2] = {side[0].body->is_half_space, side[1].body->is_half_space};
    double at[3];
    way->inner = is_plane[0] ? 1 : is_plane[1] ? 0 : (int)contact->inner_part;
    const ct_side *outer = &side[1 - way->inner];
    if (outer->body->is_half_space) {
        const double *pose = outer->body->pose;
        for (int i = 0; i < 3; i++) way->normal[i] = pose[4 * i + 2], at[i] = pose[4 * i + 3];
    } else {
        if (!contact->is_nested || outer->body->kind != CT_BODY_RIGID || outer->body == side[way->inner].body)
            return false;
        ct_way_out(outer->surface, contact->center, at);
        ct_sub3(at, contact->center, way->normal);
        const double length = ct_length(way->normal[0], way->normal[1], way->normal[2]);
        if (!(length > 0)) return false;
        for (int i = 0; i < 3; i++) way->normal[i] /= length;
    }
    way->deeper = fmax(-height_above(way->normal, at, side[way->inner].body, &way->extent), 0);
    return true;
}

/* What of a force at the contact's centre each vertex of the inner body gets, in scratch column 0: a third of the volume
 * between the centre and the faces around it, so that the shares add up to 1, and their positions to the centre. The
 * gradient has it, as 3 V is the sum of (x - c) . dV/dx. */
static void share_out(const ct_side *side, const double *gradient, double volume) {
    for (uint64_t k = 0; k < side->n; k++) {
        double *row = side->rows + k * CT_SIDE_COLUMNS;
        row[CT_SIDE_SCRATCH] = ct_dot3(row, gradient + 3 * k) / (3 * volume);
        for (int i = 0; i < 3; i++) row[CT_SIDE_SCRATCH + 1 + i] = row[CT_SIDE_SCRATCH] * row[CT_SIDE_VELOCITY + i];
    }
}

/* Of the body's volume. */
static void find_mean_velocity(const ct_side *side, double out[3]) {
    if (side->body->kind == CT_BODY_RIGID || !side->velocity)
        ct_side_velocity(side, (const double[3]){0, 0, 0}, out);
    else
        for (int i = 0; i < 3; i++) out[i] = ct_side_sum(side, 1 + i);
}

/* The force is modulus times volume, as it was when the last of the body went in, and the more the deeper that is. */
static void press_out(const ct_scene *scene, ct_result *result, const ct_side side[2], ct_contact *contact) {
    double velocity[2][3], approach = 0;
    struct wrench w = {{0, 0, 0}, {0, 0, 0}};
    struct way_out way;
    if (!find_way_out(contact, side, &way)) return;
    const ct_side *inner = &side[way.inner];
    const int outer = 1 - way.inner;
    if (inner->n) share_out(inner, result->gradient + 3 * contact->first[way.inner], contact->volume);
    for (int s = 0; s < 2; s++) find_mean_velocity(&side[s], velocity[s]);
    for (int i = 0; i < 3; i++) approach += way.normal[i] * (velocity[outer][i] - velocity[way.inner][i]);
    const ct_material material =
        ct_scene_material_of(scene, contact->body, &side[0].body->material, &side[1].body->material);
    const double force = material.modulus * contact->volume * fmax(1 + material.dissipation * approach, 0) *
                         (way.extent > 0 ? 1 + way.deeper / way.extent : 1);
    for (int i = 0; i < 3; i++) w.force[i] = (way.inner ? -force : force) * way.normal[i];
    for (int s = 0; s < 2; s++) turn_to_origin(&w, &side[s], s, contact->wrench[s]);
    for (uint64_t k = 0; k < inner->n && result->forces; k++)
        for (int i = 0; i < 3; i++)
            result->forces[3 * (contact->first[way.inner] + k) + (uint64_t)i] =
                inner->rows[k * CT_SIDE_COLUMNS + CT_SIDE_SCRATCH] * force * way.normal[i];
}

/* ---- place by place ---- */

void ct_law_describe(const ct_scene *scene, const ct_step *step, const ct_contact *contact, const ct_side side[2],
                     ct_traction *t) {
    const struct law law = open_law(scene, contact, side);
    *t = (ct_traction){.has_law = scene->settings.law == CT_LAW_PRESSURE, .material = law.material, .speed = law.speed};
    t->has_friction = t->has_law && step->n_velocities && law.material.static_friction > 0;
    memcpy(t->at, law.at, sizeof t->at);
    memcpy(t->velocity, law.velocity, sizeof t->velocity);
    memcpy(t->turning, law.turning, sizeof t->turning);
    /* take_walls, of both axes together: what it takes leads from the mean of both sides to one of them. */
    double along = 0;
    for (int a = 0; a < 2; a++) along += ct_dot3(contact->linear_pressure[a], contact->tangents[a]) / 2;
    t->share = fmin(fmax(0.5 - along / contact->volume, 0), 1);
    if (!t->has_law) return;
    double shift[3];
    ct_cross3(side[0].origin, contact->wrench[0], shift);
    for (int i = 0; i < 3; i++) {
        t->wrench[i] = contact->wrench[0][i];
        t->wrench[3 + i] = contact->wrench[0][3 + i] + shift[i];
    }
}

void ct_traction_velocity(const ct_traction *t, const double place[3], double out[3]) {
    double arm[3];
    ct_sub3(place, t->at, arm);
    ct_cross3(t->turning, arm, out);
    for (int i = 0; i < 3; i++) out[i] += t->velocity[i];
}

double ct_traction_friction(const ct_traction *t, double square) {
    return friction_at(&t->material, t->speed, square);
}

/* ---- contacts ---- */

/* The motion of a deformable body is its vertices'. */
static bool moves_deformable(const ct_step *step) {
    for (size_t i = 0; i < step->n_velocities; i++)
        if (step->velocities[i].count) return true;
    return false;
}

bool ct_law_needs_rows(const ct_step *step) {
    return moves_deformable(step);
}

uint32_t ct_law_wants(const ct_step *step) {
    if (step->scene->settings.law != CT_LAW_PRESSURE) return 0;
    uint32_t want = CT_WANT_FRAME | CT_WANT_INERTIA;
    if (step->want & CT_WANT_FORCES) want |= CT_WANT_GRADIENT | CT_WANT_FRICTION;
    if (moves_deformable(step)) want |= CT_WANT_FRICTION | CT_WANT_GRADIENT; /* share_out */
    return want;
}

static void add_law(const ct_side_work *work, ct_contact *contact, ct_side side[2]) {
    if (contact->area > 0)
        apply_law(work->scene, work->step, work->result, side, contact);
    else
        press_out(work->scene, work->result, side, contact);
}

ct_status ct_result_add_law(ct_scene *scene, const ct_step *step, ct_result *result, ct_error *error) {
    const ct_side_work work = {.scene = scene,
                               .step = step,
                               .result = result,
                               .has_rows = result->forces || moves_deformable(step),
                               .has_moments = true,
                               .has_nested = true,
                               .phase = "applying the contact law",
                               .field = "law",
                               .task = add_law};
    const bool has_friction = result->forces && step->n_velocities;
    for (size_t i = 0; i < result->n_contacts; i++) {
        ct_contact *contact = &result->contacts[i];
        memset(contact->wrench, 0, sizeof contact->wrench);
        memset(contact->extents, 0, sizeof contact->extents);
        memset(contact->axes, 0, sizeof contact->axes);
        for (int s = 0; s < 2 && result->forces && !(contact->area > 0); s++) /* see press_out */
            memset(result->forces + 3 * contact->first[s], 0, 3 * contact->count[s] * sizeof *result->forces);
    }
    if (has_friction) result->friction_forces = calloc(3 * result->n_entries + 1, sizeof(double));
    const ct_status status =
        has_friction && !result->friction_forces
            ? ct_fail(error, CT_OUT_OF_MEMORY, "law", "no memory for the law of %zu contacts", result->n_contacts)
            : ct_side_work_run(&work, error);
    result->has_wrenches = !status;
    return status;
}
