/* frame_k.h - turns a contact's integer sums into volumes, gradient, contact frame and friction weights.
 *
 * All sums over vertices are sums of integers: gradient weights, lattice coordinates, and friction weights rounded to a
 * fixed-point unit. So the order of vertices, triangles or threads does not change a bit of the answer.
 */
#ifndef CT_FRAME_K_H
#define CT_FRAME_K_H

#include "gpu/include/contact.h"
#include "gpu/view/raster_k.h"
#include "gpu/view/view_k.h"

typedef __int128 ct_wide;

/* (double)x, rounded to nearest, ties to even. Written out because not every compiler can convert an __int128 on a
 * device. */
CT_FN double ct_wide_to_double(ct_wide x) {
    unsigned __int128 size = x < 0 ? -(unsigned __int128)x : (unsigned __int128)x;
    int shift = 0;
    uint64_t high = (uint64_t)(size >> 64);
    while (high) { /* shift: the bits above the lowest 64 that are used */
        high >>= 1;
        shift++;
    }
    uint64_t top = (uint64_t)(size >> shift);
    /* The bits shifted out lie below the bits that a double keeps; a sticky bit stands for them if any is set. */
    if (shift && (size & (((unsigned __int128)1 << shift) - 1))) top |= 1;
    double value = shift ? ldexp((double)top, shift) : (double)top;
    return x < 0 ? -value : value;
}

/* m^2 per unit of weight, for each component w: the area of a ray of view w over CT_WEIGHT_ONE. An entry's dV/dx is its
 * sums times these. */
typedef struct ct_weight_units {
    double of[3];
} ct_weight_units;

CT_FN ct_weight_units ct_frame_units(const ct_window *window) {
    ct_weight_units units;
    for (int w = 0; w < 3; w++)
        units.of[w] = ldexp(window->axis[ct_view_u(w)].pitch * window->axis[ct_view_v(w)].pitch, -CT_WEIGHT_BITS);
    return units;
}

CT_FN void ct_frame_gradient(const ct_weight_units *units, const int64_t sums[3], double gradient[3]) {
    for (int w = 0; w < 3; w++) gradient[w] = (double)sums[w] * units->of[w];
}

/* Friction weight of one entry: n . dV/dx, m^2 (Allard 2010, equation 20). */
CT_FN double ct_frame_friction(const ct_contact *contact, const double g[3]) {
    return contact->normal[0] * g[0] + contact->normal[1] * g[1] + contact->normal[2] * g[2];
}

/* ---- volume ---- */

/* How much detail of the contact a view resolves: the pixels that the contact covers, for each pixel of its outline,
 * which the sides of the part that the samples span estimate. The less, the more of the view's volume depends on where
 * samples happen to lie. A contact cannot cover more than that part. A view in which a side of the part is shorter than
 * two pitches hardly counts beside one that resolves it. */
CT_FN double ct_view_detail(const ct_window *window, int w, int64_t spans) {
    const double u = window->axis[ct_view_u(w)].across, v = window->axis[ct_view_v(w)].across;
    const double sharp = fmin(fmax(fmin(u, v) - 1, 0x1p-6), 1.0);
    return u * v > 0 ? sharp * fmin((double)spans, u * v) / (u + v) : 0;
}

/* From this much detail on, views count equally; or from half of the best view's. */
#define CT_FULL_DETAIL 12.0

/* Weights of the views, whose sum is 1: inverse to the squares of their errors, which are as 1 over the detail. Equal
 * ones are exactly 1/3, also where no view has any detail. */
CT_FN void ct_view_weights(const ct_window *window, const int64_t spans[3], double weight[3]) {
    double most = 0, sum = 0;
    for (int w = 0; w < 3; w++) {
        weight[w] = ct_view_detail(window, w, spans[w]);
        most = fmax(most, weight[w]);
    }
    const double full = fmin(0.5 * most, CT_FULL_DETAIL);
    for (int w = 0; w < 3; w++) {
        const double part = full > 0 ? fmin(weight[w] / full, 1.0) : 1;
        weight[w] = part * part;
        sum += weight[w];
    }
    for (int w = 0; w < 3; w++) weight[w] /= sum;
}

/* Of an estimate: how many standard deviations of the three volumes, and how many rays a view may be off. With these,
 * 97 of 100 true errors lie below the estimate for the shapes of bench_estimate.c, where it is five times the error in
 * the median, and 93 to 97 for pairs of scanned meshes. */
#define CT_ESTIMATE_DEVIATIONS 2.5
#define CT_ESTIMATE_RAYS       1.25

/* The same where views have deviations of their own, which those of tiles amount to as if they were independent. But what
 * tiles are off where a surface bends the same way all over has one sign, so that of the bound at least a share is counted:
 * the finer tiles are, the more it is beside the deviation. */
#define CT_BOUNDED_DEVIATIONS 6.0
#define CT_BOUNDED_SHARE      0.25

/* Estimates the error of the contact's volume by what the views differ by, and by a ray more or less in each view:
 * views may agree by symmetry. */
CT_FN double ct_volume_error(const ct_contact *contact, const int64_t spans[3], const double weight[3]) {
    double spread = 0, rays = 0;
    for (int w = 0; w < 3; w++) {
        const double difference = contact->volumes[w] - contact->volume;
        const double ray = spans[w] > 0 ? weight[w] * contact->volume / (double)spans[w] : 0;
        spread += weight[w] * difference * difference;
        rays += ray * ray;
    }
    return sqrt(CT_ESTIMATE_DEVIATIONS * CT_ESTIMATE_DEVIATIONS * spread + CT_ESTIMATE_RAYS * CT_ESTIMATE_RAYS * rays);
}

CT_FN double ct_view_volume(const ct_window *window, int w, int64_t length) {
    const double ray_area = window->axis[ct_view_u(w)].pitch * window->axis[ct_view_v(w)].pitch; /* m^2 */
    return ray_area * window->axis[w].unit * (double)length;
}

/* The mean of the views' volumes. That of equal ones is their own, to the last bit. */
CT_FN double ct_mean_volume(const double v[3], const double weight[3]) {
    return weight[0] == weight[1] && weight[1] == weight[2]
               ? (v[0] + v[1] + v[2]) / 3
               : v[0] + (weight[1] * (v[1] - v[0]) + weight[2] * (v[2] - v[0]));
}

/* Computes volumes and error estimate from the sums of span lengths, the numbers of spans and the views' weights.
 * Returns 0 if the volume is zero: no contact. */
CT_FN int ct_frame_weighted_volumes(const ct_window *window, const int64_t length[3], const int64_t spans[3],
                                    const double weight[3], ct_contact *contact) {
    double *v = contact->volumes;
    for (int w = 0; w < 3; w++) {
        v[w] = ct_view_volume(window, w, length[w]);
        contact->pitch[w] = window->axis[w].pitch;
    }
    contact->volume = ct_mean_volume(v, weight);
    contact->error_bound = contact->error_bounds[0] = contact->error_bounds[1] = contact->error_bounds[2] = NAN;
    contact->max_winding = contact->inverted_triangles = 0;
    contact->inverted_volume = NAN;
    contact->error_estimate = ct_volume_error(contact, spans, weight);
    return contact->volume > 0;
}

/* The same, with the weights that follow from the numbers of spans. */
CT_FN int ct_frame_volumes(const ct_window *window, const int64_t length[3], const int64_t spans[3],
                           ct_contact *contact) {
    double weight[3];
    ct_view_weights(window, spans, weight);
    return ct_frame_weighted_volumes(window, length, spans, weight, contact);
}

/* ct_contact.inverted_volume, from the sums of the lengths in which a body is inside out. */
CT_FN double ct_frame_inverted_volume(const ct_window *window, const int64_t inverted[3], const int64_t spans[3]) {
    double weight[3], volume[3];
    if (!(inverted[0] | inverted[1] | inverted[2])) return 0;
    ct_view_weights(window, spans, weight);
    for (int w = 0; w < 3; w++) volume[w] = ct_view_volume(window, w, inverted[w]);
    return fmax(ct_mean_volume(volume, weight), 0.0);
}

/* The error of a view's volume, m^3: a bound, and an estimate of a standard deviation. */
typedef struct ct_view_error {
    double bound, deviation;
} ct_view_error;

/* Replaces volume, bounds and estimate where the views' errors are known: views weigh inversely to their bounds, so the
 * bound of the whole is never above the least of three times the views'. Returns 0 if the volume is zero: no contact.
 */
CT_FN int ct_frame_bounded_volume(const ct_view_error error[3], ct_contact *contact) {
    double sum = 0, volume = 0, variance = 0;
    for (int w = 0; w < 3; w++) sum += 1 / error[w].bound;
    for (int w = 0; w < 3; w++) {
        const double weight = 1 / (error[w].bound * sum);
        volume += weight * (contact->volumes[w] - contact->volumes[0]);
        variance += weight * weight * error[w].deviation * error[w].deviation;
    }
    contact->volume = contact->volumes[0] + volume;
    for (int w = 0; w < 3; w++) contact->error_bounds[w] = error[w].bound;
    contact->error_bound = 3 / sum;
    contact->error_estimate = fmin(
        contact->error_bound, fmax(CT_BOUNDED_DEVIATIONS * sqrt(variance), CT_BOUNDED_SHARE * contact->error_bound));
    return contact->volume > 0;
}

/* ---- force and torque ---- */

/* Sums over one body's vertices: force[j] of gradient sum j, moment[i][j] (i != j) of coordinate i times gradient sum
 * j.
 */
typedef struct ct_moments {
    ct_wide force[3], moment[3][3];
} ct_moments;

CT_FN void ct_moments_add(ct_moments *m, const int32_t q[3], const int64_t g[3]) {
    for (int i = 0; i < 3; i++) {
        m->force[i] += g[i];
        for (int j = 0; j < 3; j++)
            if (i != j) m->moment[i][j] += (ct_wide)q[i] * g[j];
    }
}

CT_FN void ct_moments_join(ct_moments *m, const ct_moments *part) {
    for (int i = 0; i < 3; i++) {
        m->force[i] += part->force[i];
        for (int j = 0; j < 3; j++) m->moment[i][j] += part->moment[i][j];
    }
}

/* out: the body's 6-vector, dV/d(translation) and dV/d(rotation about `origin`). */
CT_FN void ct_moments_finish(const ct_moments *sums, const ct_window *window, const ct_weight_units *units,
                             const double origin[3], double out[6]) {
    double f[3], arm[3], m[3][3];
    for (int i = 0; i < 3; i++) {
        f[i] = ct_wide_to_double(sums->force[i]) * units->of[i];
        arm[i] = window->axis[i].origin - origin[i];
        for (int j = 0; j < 3; j++)
            m[i][j] = ct_wide_to_double(sums->moment[i][j]) * window->axis[i].unit * units->of[j];
    }
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;
        out[i] = f[i];
        out[3 + i] = (m[j][k] - m[k][j]) + (arm[j] * f[k] - arm[k] * f[j]);
    }
}

/* Two tangents that form a right-handed frame with n. They are the tangents at a fixed pole, turned by the smallest
 * rotation that takes the pole to n. The frame is continuous in n except at -pole, an unlikely direction; no frame is
 * continuous on the whole sphere. For vectors perpendicular to the pole, that rotation is the reflection at the plane
 * perpendicular to pole + n. A reflection keeps right angles even where pole + n is mostly rounding error.
 */
CT_FN void ct_frame_tangents(const double n[3], double tangents[2][3]) {
    const double pole[3] = {0.36, 0.48, 0.8};
    const double at_pole[2][3] = {{0.8, -0.6, 0}, {0.48, 0.64, -0.6}}, opposite[2] = {1, -1};
    double sum[3], size = 0;
    for (int i = 0; i < 3; i++) {
        sum[i] = pole[i] + n[i];
        size += sum[i] * sum[i];
    }
    for (int t = 0; t < 2; t++) {
        const double *a = at_pole[t];
        double along = a[0] * sum[0] + a[1] * sum[1] + a[2] * sum[2];
        for (int i = 0; i < 3; i++)
            tangents[t][i] = size > 1e-20 ? a[i] - 2 * along / size * sum[i] : opposite[t] * a[i];
    }
}

/* Normal and tangents, from the sum f of body 0's gradient. rounding: m^2, how large the rounding of its terms can make
 * f where it is zero; 0 for sums of integers, which have none. Returns 0 if f is no larger: there is no normal, and all
 * are zero.
 */
CT_FN int ct_frame_normal(ct_contact *contact, const double f[3], double rounding) {
    double size = sqrt(f[0] * f[0] + f[1] * f[1] + f[2] * f[2]);
    for (int i = 0; i < 3; i++) contact->normal[i] = contact->tangents[0][i] = contact->tangents[1][i] = 0;
    if (!(size > rounding)) return 0;
    for (int i = 0; i < 3; i++) contact->normal[i] = -f[i] / size;
    ct_frame_tangents(contact->normal, contact->tangents);
    return 1;
}

/* Area and depth of a contact with volume, 6-vectors and normal. Any other area, such as the sum of the positive
 * friction weights, would depend on how flat faces are divided into triangles: one vertex may have faces of both signs.
 */
CT_FN void ct_frame_area(ct_contact *contact) {
    const double *f = contact->generalized_gradient[0], *n = contact->normal;
    const int has_normal = n[0] != 0 || n[1] != 0 || n[2] != 0;
    contact->area = has_normal ? sqrt(f[0] * f[0] + f[1] * f[1] + f[2] * f[2]) : 0;
    contact->depth = contact->area > 0 ? contact->volume / contact->area : 0;
}

/* Whether a contact is nested, from its normal and from which parts have a surface inside the other at all. One without
 * a normal need not be: a bar through a plate. */
CT_FN void ct_frame_nested(ct_contact *contact, int has_surface0, int has_surface1) {
    const double *n = contact->normal;
    const int has_normal = n[0] != 0 || n[1] != 0 || n[2] != 0;
    contact->is_nested = !has_normal && has_surface0 != has_surface1;
    contact->inner_part = contact->is_nested && has_surface1;
}

/* ---- centre ---- */

/* Sums over one body's vertices, of fixed-point weights. */
typedef struct ct_barycentre {
    ct_wide first[3], first_abs[3]; /* sums of weight times coordinate, and of |weight| times coordinate */
    ct_wide sum, sum_abs;           /* of weights, and of |weight| */
} ct_barycentre;

/* Units of weight per m^2: 2^50 units are the area of the largest view. The weight of a vertex that is shared by
 * thousands of layers fits in 63 bits, and rounding to a unit loses less than a double's own rounding. */
CT_FN double ct_barycentre_scale(const ct_window *window) {
    double largest = 0;
    for (int w = 0; w < 3; w++) {
        const ct_lattice *u = &window->axis[ct_view_u(w)], *v = &window->axis[ct_view_v(w)];
        largest = fmax(largest, u->pitch * u->n * (v->pitch * v->n));
    }
    return ldexp(1.0, 50) / largest;
}

CT_FN void ct_barycentre_add(ct_barycentre *b, const ct_contact *contact, int has_normal, double scale,
                             const ct_weight_units *units, const int32_t q[3], const int64_t sums[3]) {
    double g[3];
    ct_frame_gradient(units, sums, g);
    double a = has_normal ? ct_frame_friction(contact, g) : fabs(g[0]) + fabs(g[1]) + fabs(g[2]);
    int64_t weight = llrint(a * scale);
    int64_t size = weight < 0 ? -weight : weight;
    b->sum += weight;
    b->sum_abs += size;
    for (int i = 0; i < 3; i++) {
        b->first[i] += (ct_wide)weight * q[i];
        b->first_abs[i] += (ct_wide)size * q[i];
    }
}

CT_FN void ct_barycentre_join(ct_barycentre *b, const ct_barycentre *part) {
    b->sum += part->sum;
    b->sum_abs += part->sum_abs;
    for (int i = 0; i < 3; i++) {
        b->first[i] += part->first[i];
        b->first_abs[i] += part->first_abs[i];
    }
}

/* One body's barycentre, weighted by friction weights. Where these nearly cancel (the other body touches the surface
 * from both sides) it would lie far outside the contact, so |weight| is used instead. Returns 0 if all weights are
 * zero. */
CT_FN int ct_barycentre_at(const ct_barycentre *b, const ct_window *window, double p[3]) {
    if (b->sum_abs == 0) return 0;
    ct_wide size = b->sum < 0 ? -b->sum : b->sum;
    int cancels = size == 0 || 10 * (size + 1) <= b->sum_abs;
    for (int i = 0; i < 3; i++) {
        double q = cancels ? ct_wide_to_double(b->first_abs[i]) / ct_wide_to_double(b->sum_abs)
                           : ct_wide_to_double(b->first[i]) / ct_wide_to_double(b->sum);
        p[i] = window->axis[i].origin + q * window->axis[i].unit;
    }
    return 1;
}

/* Area, depth, centre and nesting of a contact whose volume, 6-vectors and normal are set. */
CT_FN void ct_frame_finish(const ct_window *window, const ct_barycentre side[2], ct_contact *contact) {
    ct_frame_area(contact);
    double p[2][3];
    int found0 = ct_barycentre_at(&side[0], window, p[0]), found1 = ct_barycentre_at(&side[1], window, p[1]);
    ct_frame_nested(contact, found0, found1);
    for (int i = 0; i < 3; i++) {
        contact->center[i] = found0 && found1 ? (p[0][i] + p[1][i]) / 2 : found0 ? p[0][i] : found1 ? p[1][i] : 0;
        contact->side_center[0][i] = found0 ? p[0][i] : contact->center[i];
        contact->side_center[1][i] = found1 ? p[1][i] : contact->center[i];
    }
}

#endif
