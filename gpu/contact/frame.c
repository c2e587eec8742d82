/* frame.c - contact frames from sums. */
#include "gpu/contact/frame.h"

#include <math.h>
#include <string.h>

typedef __int128 wide;

ct_weight_units ct_frame_units(const ct_window *window) {
    ct_weight_units units;
    for (int w = 0; w < 3; w++)
        units.of[w] = ldexp(window->axis[ct_view_u(w)].pitch * window->axis[ct_view_v(w)].pitch, -CT_WEIGHT_BITS);
    return units;
}

bool ct_frame_volumes(const ct_window *window, const int64_t length[3], ct_contact *contact) {
    double lo = INFINITY, hi = 0, sum = 0;
    for (int w = 0; w < 3; w++) {
        double tile = window->axis[ct_view_u(w)].pitch * window->axis[ct_view_v(w)].pitch;
        double volume = tile * window->axis[w].unit * (double)length[w];
        contact->volumes[w] = volume;
        sum += volume;
        lo = fmin(lo, volume);
        hi = fmax(hi, volume);
    }
    contact->volume = sum / 3;
    contact->error_bound = NAN;
    contact->error_estimate = (hi - lo) / 2;
    return contact->volume > 0;
}

/* A body's force sums, torque about its origin. */
static void generalized(const ct_window *window, const ct_weight_units *units, const ct_entries *body, double out[6]) {
    wide force[3] = {0}, moment[3][3] = {{0}}; /* moment[i][j]: sum of coordinate i times weight j */
    for (size_t k = 0; k < body->count; k++) {
        const int32_t *q = body->coords[body->vertices[k]];
        const int64_t *g = body->sums[k];
        for (int i = 0; i < 3; i++) {
            force[i] += g[i];
            for (int j = 0; j < 3; j++)
                if (i != j) moment[i][j] += (wide)q[i] * g[j];
        }
    }
    double f[3], arm[3], m[3][3];
    for (int i = 0; i < 3; i++) {
        f[i] = (double)force[i] * units->of[i];
        arm[i] = window->axis[i].origin - body->origin[i];
        for (int j = 0; j < 3; j++) m[i][j] = (double)moment[i][j] * window->axis[i].unit * units->of[j];
    }
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;
        out[i] = f[i];
        out[3 + i] = (m[j][k] - m[k][j]) + (arm[j] * f[k] - arm[k] * f[j]);
    }
}

/* Two tangents that turn with n by the smallest rotation from a fixed pole: continuous in n everywhere but at the
 * pole's opposite, which is a direction that hardly any contact has (a frame cannot be continuous on the whole sphere).
 * On the plane across the pole that rotation is the mirroring at the plane across pole + n, which keeps right angles
 * even where pole + n is hardly more than rounding. With n they are right-handed.
 */
static void tangent_frame(const double n[3], double tangents[2][3]) {
    static const double pole[3] = {0.36, 0.48, 0.8};
    static const double at_pole[2][3] = {{0.8, -0.6, 0}, {0.48, 0.64, -0.6}}, opposite[2] = {1, -1};
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

struct barycentre {
    wide first[3], first_abs[3]; /* sum of weight times coordinate, and of |weight| times coordinate */
    wide sum, sum_abs;
};

static void weigh(const ct_weight_units *units, const ct_entries *body, const ct_contact *contact, bool has_normal,
                  double per_unit, struct barycentre *b) {
    memset(b, 0, sizeof *b);
    for (size_t k = 0; k < body->count; k++) {
        double g[3];
        ct_frame_gradient(units, body->sums[k], g);
        double a = has_normal ? ct_frame_friction(contact, g) : fabs(g[0]) + fabs(g[1]) + fabs(g[2]);
        int64_t weight = llrint(a * per_unit);
        int64_t size = weight < 0 ? -weight : weight;
        b->sum += weight;
        b->sum_abs += size;
        const int32_t *q = body->coords[body->vertices[k]];
        for (int i = 0; i < 3; i++) {
            b->first[i] += (wide)weight * q[i];
            b->first_abs[i] += (wide)size * q[i];
        }
    }
}

/* Per side, the barycentre by friction weights. Where the weights of a side nearly cancel (a surface that the other
 * body holds from both sides) it would lie far outside the contact, so the weights' sizes are used there. */
static bool barycentre_at(const ct_window *window, const struct barycentre *b, double p[3]) {
    if (b->sum_abs == 0) return false;
    wide sum_size = b->sum < 0 ? -b->sum : b->sum;
    bool cancels = sum_size < b->sum_abs / 10;
    for (int i = 0; i < 3; i++) {
        double q = cancels ? (double)b->first_abs[i] / (double)b->sum_abs : (double)b->first[i] / (double)b->sum;
        p[i] = window->axis[i].origin + q * window->axis[i].unit;
    }
    return true;
}

void ct_frame_contact(const ct_window *window, const ct_entries bodies[2], ct_contact *contact) {
    const ct_weight_units units = ct_frame_units(window);
    generalized(window, &units, &bodies[0], contact->generalized_gradient[0]);
    generalized(window, &units, &bodies[1], contact->generalized_gradient[1]);

    const double *f = contact->generalized_gradient[0];
    double size = sqrt(f[0] * f[0] + f[1] * f[1] + f[2] * f[2]);
    bool has_normal = size > 0;
    memset(contact->normal, 0, sizeof contact->normal);
    memset(contact->tangents, 0, sizeof contact->tangents);
    if (has_normal) {
        for (int i = 0; i < 3; i++) contact->normal[i] = -f[i] / size;
        tangent_frame(contact->normal, contact->tangents);
    }

    /* 2^50 units to the largest view's area: the weight of a vertex that thousands of layers hang on fits, and rounding
     * is below double's own. */
    double largest = 0;
    for (int w = 0; w < 3; w++) {
        const ct_lattice *u = &window->axis[ct_view_u(w)], *v = &window->axis[ct_view_v(w)];
        largest = fmax(largest, u->pitch * u->n * (v->pitch * v->n));
    }
    double per_unit = ldexp(1, 50) / largest;
    struct barycentre side[2];
    for (int i = 0; i < 2; i++) weigh(&units, &bodies[i], contact, has_normal, per_unit, &side[i]);
    /* Weights add up to 0, so the positive ones are half of all sizes; said so, swapping the bodies changes no bit. */
    contact->area = has_normal ? (double)(side[0].sum_abs + side[1].sum_abs) / (2 * per_unit) : 0;
    contact->depth = contact->area > 0 ? contact->volume / contact->area : 0;

    double p[2][3];
    bool found[2] = {barycentre_at(window, &side[0], p[0]), barycentre_at(window, &side[1], p[1])};
    for (int i = 0; i < 3; i++)
        contact->center[i] = found[0] && found[1] ? (p[0][i] + p[1][i]) / 2
                             : found[0]           ? p[0][i]
                             : found[1]           ? p[1][i]
                                                  : 0;
}
