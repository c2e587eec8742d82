/* polygons.c - cuts polygons: fans where they are right, ears, or the least area.
 *
 * A polygon's normal N, as Newell has it, is the sum of the area vectors of the triangles of any way to cut it. Seen
 * along N, triangles that all turn the same way cover each point as often as the polygon winds around it: so a cut is
 * right where no triangle's area vector points against N, and the polygon is flat where their lengths sum to N's. */
#include "gpu/mesh/build/polygons.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/build/repair.h"

/* Of a polygon's area. A triangle folds over where it has so much against the normal: rounding gives less. */
#define FOLD 1e-12

/* Of a polygon's area: what a cut may have more than the polygon seen along its normal, and still be flat. Triangles
 * that lean by 1.4e-3 of an angle of 1 have as much. */
#define UNEVEN 1e-6

/* The least area is looked for among all cuts of so many corners: some 0.1 ms. Ears of more than CLIPPED are not
 * clipped, as that may take n^2. */
enum { LEAST_AREA_CORNERS = 32, CLIPPED_CORNERS = 1 << 14 };

struct area {
    double normal[3]; /* Newell's, twice the area */
    double most_against, sum;
    bool is_finite;
};

static const float *position(const ct_soup *soup, uint32_t v) {
    return soup->positions + 3 * (size_t)v;
}

/* Twice the area vector. */
static void area_vector(const ct_soup *soup, uint32_t a, uint32_t b, uint32_t c, double out[3]) {
    const float *p = position(soup, a), *q = position(soup, b), *r = position(soup, c);
    for (int k = 0; k < 3; k++) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        out[k] = ((double)q[i] - (double)p[i]) * ((double)r[j] - (double)p[j]) -
                 ((double)q[j] - (double)p[j]) * ((double)r[i] - (double)p[i]);
    }
}

static double length_of(const double a[3]) {
    return sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
}

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Of n triangles that cut a polygon. */
static struct area measure_cut(const ct_soup *soup, const uint32_t *triangles, size_t n) {
    struct area out = {{0, 0, 0}, 0, 0, true};
    double v[3];
    for (size_t t = 0; t < n; t++) {
        if (CT_POLL_EVERY(t + 1, 4096) && ct_is_cancelled()) return out;
        area_vector(soup, triangles[3 * t], triangles[3 * t + 1], triangles[3 * t + 2], v);
        for (int k = 0; k < 3; k++) out.normal[k] += v[k];
        out.sum += length_of(v);
    }
    const double size = length_of(out.normal);
    for (size_t t = 0; t < n && size > 0; t++) {
        if (CT_POLL_EVERY(t + 1, 4096) && ct_is_cancelled()) return out;
        area_vector(soup, triangles[3 * t], triangles[3 * t + 1], triangles[3 * t + 2], v);
        out.most_against = fmax(out.most_against, -dot(v, out.normal) / size);
    }
    out.is_finite = isfinite(out.sum);
    return out;
}

static bool folds(const struct area *a) {
    return a->most_against > FOLD * a->sum;
}

static bool is_flat(const struct area *a) {
    return a->sum <= (1 + UNEVEN) * length_of(a->normal);
}

static void cross(const double a[3], const double b[3], double out[3]) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

/* Whether the fan of a quadrilateral is flat and folds nowhere; false also where the other functions have to tell. Most
 * polygons of most files are such, so it does without loops and roots. */
static bool is_plain_quad(const ct_soup *soup, const uint32_t *fan) {
    const size_t n = soup->n_vertices;
    if (fan[0] >= n || fan[1] >= n || fan[2] >= n || fan[5] >= n) return false;
    const float *o = position(soup, fan[0]), *p = position(soup, fan[1]), *q = position(soup, fan[2]),
                *r = position(soup, fan[5]);
    const double x = (double)o[0], y = (double)o[1], z = (double)o[2];
    const double edge[3][3] = {{(double)p[0] - x, (double)p[1] - y, (double)p[2] - z},
                               {(double)q[0] - x, (double)q[1] - y, (double)q[2] - z},
                               {(double)r[0] - x, (double)r[1] - y, (double)r[2] - z}};
    double v[2][3];
    cross(edge[0], edge[1], v[0]);
    cross(edge[1], edge[2], v[1]);
    /* n = v0 + v1. No triangle points against n: v0 n >= 0 and v1 n >= 0. Flat: (|v0| + |v1|)^2 <= (1 + UNEVEN)^2 |n|^2,
     * without the square of UNEVEN: |v0| |v1| <= v0 v1 + UNEVEN |n|^2. Squares that overflow tell nothing. */
    const double square0 = dot(v[0], v[0]), square1 = dot(v[1], v[1]), both = dot(v[0], v[1]);
    const double most = both + UNEVEN * (square0 + square1 + 2 * both);
    return square0 + both >= 0 && square1 + both >= 0 && most >= 0 && square0 * square1 <= most * most &&
           most * most < INFINITY;
}

/* The corners of a polygon's fan. False: one is out of range. */
static bool list_corners(const ct_soup *soup, const ct_polygon *polygon, uint32_t *corners) {
    const uint32_t *fan = soup->triangles + 3 * (size_t)polygon->first;
    bool is_inside = true;
    for (uint32_t i = 0; i < polygon->n; i++) {
        if (CT_POLL_EVERY(i + 1, 4096) && ct_is_cancelled()) return false;
        corners[i] = i < 2 ? fan[i] : fan[3 * (size_t)(i - 2) + 2];
        is_inside = is_inside && corners[i] < soup->n_vertices;
    }
    return is_inside;
}

/* Writes the n - 2 triangles of the cut whose area is least (Barequet and Sharir 1995). */
static void cut_least(const ct_soup *soup, const uint32_t *corners, uint32_t n, uint32_t *triangles) {
    double least[LEAST_AREA_CORNERS][LEAST_AREA_CORNERS], v[3];
    uint8_t third[LEAST_AREA_CORNERS][LEAST_AREA_CORNERS];
    for (uint32_t i = 0; i + 1 < n; i++) least[i][i + 1] = 0;
    for (uint32_t span = 2; span < n; span++)
        for (uint32_t i = 0; i + span < n; i++) {
            const uint32_t j = i + span;
            least[i][j] = INFINITY;
            for (uint32_t k = i + 1; k < j; k++) {
                area_vector(soup, corners[i], corners[k], corners[j], v);
                const double sum = least[i][k] + least[k][j] + length_of(v);
                if (sum >= least[i][j] && k > i + 1) continue;
                least[i][j] = sum;
                third[i][j] = (uint8_t)k;
            }
        }
    uint8_t stack[LEAST_AREA_CORNERS][2];
    uint32_t n_stack = 1;
    stack[0][0] = 0, stack[0][1] = (uint8_t)(n - 1);
    while (n_stack) {
        n_stack--;
        const uint8_t i = stack[n_stack][0], j = stack[n_stack][1];
        if (j - i < 2) continue;
        const uint8_t k = third[i][j];
        *triangles++ = corners[i], *triangles++ = corners[k], *triangles++ = corners[j];
        stack[n_stack][0] = i, stack[n_stack++][1] = k;
        stack[n_stack][0] = k, stack[n_stack++][1] = j;
    }
}

/* m, from the plane through the middle of the corners. */
static double measure_unevenness(const ct_soup *soup, const uint32_t *corners, uint32_t n, const double normal[3]) {
    double lo = INFINITY, hi = -INFINITY;
    const double size = length_of(normal);
    for (uint32_t i = 0; i < n && size > 0; i++) {
        const float *p = position(soup, corners[i]), *q = position(soup, corners[0]);
        const double from[3] = {(double)p[0] - (double)q[0], (double)p[1] - (double)q[1], (double)p[2] - (double)q[2]};
        const double height = dot(from, normal) / size;
        lo = fmin(lo, height), hi = fmax(hi, height);
    }
    return size > 0 ? (hi - lo) / 2 : 0;
}

static ct_status fail_crossing(const ct_soup *soup, const uint32_t *corners, uint32_t n, ct_error *error) {
    const float *p = position(soup, corners[0]);
    return ct_fail(
        error, CT_INVALID_MESH, "bytes",
        "the face of %u corners from vertex %u at (%g, %g, %g) crosses itself, seen along its normal, or has "
        "more corners than can be cut: save the mesh as triangles",
        n, corners[0], (double)p[0], (double)p[1], (double)p[2]);
}

struct cutter {
    ct_soup *soup;
    ct_soup cut;       /* the triangles of one polygon between the soup's vertices */
    uint32_t *corners; /* [capacity] */
    size_t capacity;
    ct_mesh_changes *changes;
};

/* Cuts a polygon whose fan is not right. */
static ct_status cut_polygon(struct cutter *c, const ct_polygon *polygon, const struct area *fan, ct_error *error) {
    const ct_loop loop = {c->corners, polygon->n};
    uint32_t *triangles = c->soup->triangles + 3 * (size_t)polygon->first;
    const size_t bytes = 12 * (size_t)(polygon->n - 2);
    bool is_cut = false;
    c->cut.n_triangles = 0;
    ct_status status = CT_OK;
    if (polygon->n <= CLIPPED_CORNERS && folds(fan)) status = ct_clip_polygon(&c->cut, &loop, &is_cut, error);
    if (status != CT_OK) return status;
    struct area best = *fan;
    if (is_cut) {
        best = measure_cut(c->soup, c->cut.triangles, polygon->n - 2);
        memcpy(triangles, c->cut.triangles, bytes);
    }
    if (is_cut && is_flat(&best)) return CT_OK;
    if (polygon->n <= LEAST_AREA_CORNERS) {
        uint32_t least[3 * LEAST_AREA_CORNERS];
        cut_least(c->soup, c->corners, polygon->n, least);
        const struct area found = measure_cut(c->soup, least, polygon->n - 2);
        if (found.sum < (1 - 1e-9) * best.sum) {
            best = found;
            memcpy(triangles, least, bytes);
        }
    } else if (folds(&best)) {
        return fail_crossing(c->soup, c->corners, polygon->n, error);
    }
    if (is_flat(&best)) return CT_OK;
    c->changes->uneven_polygons++;
    c->changes->unevenness =
        fmax(c->changes->unevenness, measure_unevenness(c->soup, c->corners, polygon->n, best.normal));
    return CT_OK;
}

static ct_status reserve_corners(struct cutter *c, uint32_t n, ct_error *error) {
    if (n <= c->capacity) return CT_OK;
    uint32_t *grown = realloc(c->corners, n * sizeof *grown);
    if (!grown) return ct_fail(error, CT_OUT_OF_MEMORY, "bytes", "no memory for a face of %u corners", n);
    c->corners = grown;
    c->capacity = n;
    return CT_OK;
}

ct_status ct_cut_polygons(ct_soup *soup, bool keeps_crossing, ct_mesh_changes *changes, ct_error *error) {
    struct cutter c = {.soup = soup, .cut = *soup, .changes = changes};
    c.cut.triangles = NULL;
    c.cut.triangle_capacity = 0;
    ct_status status = CT_OK;
    for (size_t i = 0; i < soup->n_polygons && status == CT_OK; i++) {
        const ct_polygon *polygon = &soup->polygons[i];
        if (CT_POLL_EVERY(i, 256) && ct_is_cancelled()) status = ct_fail_cancelled(error);
        if (polygon->n == 4 && is_plain_quad(soup, soup->triangles + 3 * (size_t)polygon->first)) continue;
        if (status == CT_OK) status = reserve_corners(&c, polygon->n, error);
        if (status != CT_OK || !list_corners(soup, polygon, c.corners)) continue;
        const struct area fan = measure_cut(soup, soup->triangles + 3 * (size_t)polygon->first, polygon->n - 2);
        if (fan.is_finite && (folds(&fan) || !is_flat(&fan))) status = cut_polygon(&c, polygon, &fan, error);
        if (status == CT_INVALID_MESH && keeps_crossing) status = CT_OK;
    }
    free(c.cut.triangles);
    free(c.corners);
    return status;
}
