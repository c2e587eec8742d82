/* shells.c - which shells of a repaired surface face the wrong way, and turning them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/repair.h"

struct shell {
    double volume; /* m^3, signed, by the direction of its triangles */
    double lo[3], hi[3];
    uint32_t first; /* one of its triangles */
    bool has_triangle, is_turned;
};

/* More solid angles than this, some ten seconds' work, are not computed to find directions. */
#define MOST_SOLID_ANGLES ((uint64_t)1 << 28)

static void corners_of(const ct_soup *soup, size_t t, const double from[3], double p[3][3]) {
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < 3; k++)
            p[c][k] = (double)soup->positions[3 * (size_t)soup->triangles[3 * t + (size_t)c] + (size_t)k] - from[k];
}

static double determinant(double p[3][3]) {
    return p[0][0] * (p[1][1] * p[2][2] - p[1][2] * p[2][1]) + p[0][1] * (p[1][2] * p[2][0] - p[1][0] * p[2][2]) +
           p[0][2] * (p[1][0] * p[2][1] - p[1][1] * p[2][0]);
}

/* The solid angle of a triangle seen from the origin, over 2 (Van Oosterom and Strackee 1983). */
static double half_solid_angle(double p[3][3]) {
    double size[3], dot[3];
    for (int c = 0; c < 3; c++) {
        const double *a = p[c], *b = p[(c + 1) % 3];
        size[c] = sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
        dot[c] = a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    }
    return atan2(determinant(p), size[0] * size[1] * size[2] + dot[0] * size[2] + dot[1] * size[0] + dot[2] * size[1]);
}

static void measure_shells(const ct_soup *soup, const uint32_t *shell, struct shell *shells, size_t n_shells) {
    static const double origin[3] = {0, 0, 0};
    double p[3][3], from[3];
    for (size_t s = 0; s < n_shells; s++)
        for (int k = 0; k < 3; k++) shells[s].lo[k] = INFINITY, shells[s].hi[k] = -INFINITY;
    for (size_t t = 0; t < soup->n_triangles; t++) {
        struct shell *of = &shells[shell[t]];
        if (!of->has_triangle) of->first = (uint32_t)t;
        of->has_triangle = true;
        corners_of(soup, of->first, origin, p);
        memcpy(from, p[0], sizeof from); /* near the shell, so that a small one far away loses no digits */
        corners_of(soup, t, from, p);
        of->volume += determinant(p) / 6;
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < 3; k++) {
                of->lo[k] = fmin(of->lo[k], p[c][k] + from[k]);
                of->hi[k] = fmax(of->hi[k], p[c][k] + from[k]);
            }
    }
}

static bool box_holds(const struct shell *outer, const struct shell *inner) {
    for (int k = 0; k < 3; k++)
        if (inner->lo[k] < outer->lo[k] || inner->hi[k] > outer->hi[k]) return false;
    return true;
}

/* In how many other shells the middle of a shell's first triangle lies. winding: [n_shells], scratch. */
static uint32_t depth_of(const ct_soup *soup, const uint32_t *shell, const struct shell *shells, size_t n_shells,
                         size_t s, double *winding) {
    static const double origin[3] = {0, 0, 0};
    double p[3][3], at[3];
    corners_of(soup, shells[s].first, origin, p);
    for (int k = 0; k < 3; k++) at[k] = (p[0][k] + p[1][k] + p[2][k]) / 3;
    memset(winding, 0, n_shells * sizeof *winding);
    for (size_t t = 0; t < soup->n_triangles; t++) {
        if (shell[t] == s || !box_holds(&shells[shell[t]], &shells[s])) continue;
        corners_of(soup, t, at, p);
        winding[shell[t]] += half_solid_angle(p) / (2 * M_PI);
    }
    uint32_t depth = 0;
    for (size_t i = 0; i < n_shells; i++) depth += fabs(winding[i]) > 0.5;
    return depth;
}

ct_status ct_turn_shells(ct_soup *soup, const uint32_t *shell, size_t n_shells, const bool *was_mixed,
                         ct_error *error) {
    struct shell *shells = calloc(n_shells + 1, sizeof *shells);
    double *winding = malloc((n_shells + 1) * sizeof *winding);
    ct_status status = CT_OK;
    if (!shells || !winding)
        status = ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory for %zu shells", n_shells);
    if (status == CT_OK) measure_shells(soup, shell, shells, n_shells);
    uint64_t angles = 0;
    for (size_t s = 0; s < n_shells && status == CT_OK; s++) {
        if (!shells[s].has_triangle || (shells[s].volume > 0 && !was_mixed[s])) continue;
        bool may_be_inside = false;
        for (size_t i = 0; i < n_shells && !may_be_inside; i++)
            may_be_inside = i != s && shells[i].has_triangle && box_holds(&shells[i], &shells[s]);
        angles += n_shells + (may_be_inside ? soup->n_triangles : 0);
        if (angles > MOST_SOLID_ANGLES) {
            status = ct_fail(error, CT_INVALID_MESH, "triangles",
                             "the repair cannot find the direction of the %zu shells of %zu triangles in reasonable "
                             "time: turn those that face inwards by hand",
                             n_shells, soup->n_triangles);
            break;
        }
        const uint32_t depth = may_be_inside ? depth_of(soup, shell, shells, n_shells, s, winding) : 0;
        const bool is_inward = shells[s].volume < 0;
        /* A consistent shell inside others is kept: a cavity faces inwards. */
        shells[s].is_turned = depth == 0 ? is_inward : was_mixed[s] && is_inward != (depth % 2 == 1);
    }
    for (size_t t = 0; t < soup->n_triangles && status == CT_OK; t++) {
        uint32_t *corner = soup->triangles + 3 * t, second = corner[1];
        if (!shells[shell[t]].is_turned) continue;
        corner[1] = corner[2];
        corner[2] = second;
    }
    free(shells);
    free(winding);
    return status;
}
