/* build.c - makes a mesh of a soup: repairs or closes it, checks it, orders its triangles. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/mesh/build/backs.h"
#include "gpu/mesh/build/close.h"
#include "gpu/mesh/build/hull.h"
#include "gpu/mesh/build/order.h"
#include "gpu/mesh/build/polygons.h"
#include "gpu/mesh/build/repair.h"
#include "gpu/mesh/build/sha256.h"
#include "gpu/mesh/build/validate.h"
#include "gpu/mesh/build/wrap.h"
#include "gpu/mesh/clusters.h"
#include "gpu/mesh/mesh.h"
#include "gpu/mesh/soup.h"
#include "gpu/mesh/split.h"
#include "gpu/mesh/strays.h"

/* ---- making ---- */

static bool hash_large(ct_sha256 *sha, const void *bytes, size_t size) {
    enum { PIECE = 1 << 14 }; /* bytes: some 0.1 ms */
    for (size_t at = 0; at < size; at += PIECE) {
        if (ct_is_cancelled()) return false;
        ct_sha256_update(sha, (const char *)bytes + at, size - at < PIECE ? size - at : PIECE);
    }
    return true;
}

/* An open surface that was closed is not the mesh that a closed upload of the same triangles is. False: cancelled. */
static bool hash_content(const ct_soup *soup, uint64_t n_closing, uint8_t hash[16]) {
    const uint64_t counts[2] = {soup->n_vertices, soup->n_triangles};
    uint8_t digest[32];
    ct_sha256 sha;
    ct_sha256_init(&sha);
    ct_sha256_update(&sha, counts, sizeof counts);
    if (!hash_large(&sha, soup->positions, 12 * soup->n_vertices) ||
        !hash_large(&sha, soup->triangles, 12 * soup->n_triangles))
        return false;
    if (soup->low && !hash_large(&sha, soup->low, 12 * soup->n_low)) return false;
    if (soup->origin[0] || soup->origin[1] || soup->origin[2])
        ct_sha256_update(&sha, soup->origin, sizeof soup->origin);
    if (n_closing) ct_sha256_update(&sha, &n_closing, sizeof n_closing);
    ct_sha256_final(&sha, digest);
    memcpy(hash, digest, 16);
    return true;
}

static int compare_positions(const float *p, const float *q) {
    for (int k = 0; k < 3; k++)
        if (p[k] != q[k]) return p[k] < q[k] ? -1 : 1;
    return 0;
}

/* Chooses the rotation whose sequence of corner positions is lexicographically smallest. Rotations tie only where
 * corners coincide, and then either gives the same triangle. */
static void rotate_corners(const float *positions, const float *low, uint32_t *corner) {
    int best = 0;
    for (int start = 1; start < 3; start++) {
        int order = 0;
        for (int c = 0; c < 3 && !order; c++) {
            const size_t p = 3 * (size_t)corner[(start + c) % 3], q = 3 * (size_t)corner[(best + c) % 3];
            order = compare_positions(positions + p, positions + q);
            if (!order && low) order = compare_positions(low + p, low + q);
        }
        if (order < 0) best = start;
    }
    if (!best) return;
    const uint32_t old[3] = {corner[0], corner[1], corner[2]};
    for (int c = 0; c < 3; c++) corner[c] = old[(best + c) % 3];
}

/* False: cancelled. */
static bool rotate_all_corners(const float *positions, const float *low, uint32_t *triangles, size_t n) {
    for (size_t t = 0; t < n; t++) {
        if (CT_POLL_EVERY(t, 1024) && ct_is_cancelled()) return false;
        rotate_corners(positions, low, triangles + 3 * t);
    }
    return true;
}

/* Gives back what a growing array of 12-byte rows has reserved beyond n rows. */
static void shrink_rows(void **rows, size_t n, size_t *capacity) {
    const size_t bytes = 12 * n;
    if (!bytes || n == *capacity) return;
    void *exact = realloc(*rows, bytes);
    if (exact) *rows = exact;
    *capacity = n;
}

/* The open direction, of length 1. False: there is none. */
static bool find_direction(const ct_mesh_options *options, double direction[3]) {
    const double *d = options->open_direction;
    const double largest = fmax(fabs(d[0]), fmax(fabs(d[1]), fabs(d[2])));
    if (!(largest > 0)) return false;
    for (int k = 0; k < 3; k++) direction[k] = d[k] / largest; /* so that no square overflows */
    const double size = sqrt(direction[0] * direction[0] + direction[1] * direction[1] + direction[2] * direction[2]);
    for (int k = 0; k < 3; k++) direction[k] /= size;
    return true;
}

/* An error of a repaired mesh says so. */
static ct_status fail_repaired(ct_status status, const ct_error *cause, ct_error *error) {
    if (status == CT_INVALID_MESH)
        return ct_fail(error, status, cause->field, "what the repair leaves is refused: %s", cause->message);
    return ct_fail(error, status, cause->field, "%s", cause->message);
}

/* Names what closes any surface, where one is refused for what its triangles do. */
static void name_closing(const ct_soup *soup, ct_error *error) {
    static const char hint[] = "; closing (hull or wrap) takes any surface";
    ct_error ignored = {0};
    if (error->status != CT_INVALID_MESH ||
        ct_validate_elements(soup->positions, soup->n_vertices, soup->triangles, soup->n_triangles, &ignored) != CT_OK)
        return;
    const size_t used = strlen(error->message);
    if (used + sizeof hint <= sizeof error->message) memcpy(error->message + used, hint, sizeof hint);
}

/* The copies that close a surface have no lower parts. False: out of memory. */
static bool extend_low(ct_soup *soup) {
    if (!soup->low || soup->n_low == soup->n_vertices) return true;
    float *low = realloc(soup->low, 12 * soup->n_vertices);
    if (!low) return false;
    memset(low + 3 * soup->n_low, 0, 12 * (soup->n_vertices - soup->n_low));
    soup->low = low;
    return true;
}

/* False: cancelled. */
static bool scale_positions(ct_soup *soup, double scale) {
    for (size_t i = 0; i < 3 * soup->n_vertices; i++) {
        if (CT_POLL_EVERY(i, 1 << 14) && ct_is_cancelled()) return false;
        soup->positions[i] = (float)((double)soup->positions[i] * scale);
    }
    return true;
}

static ct_status take_closing(ct_soup *soup, const ct_mesh_options *options, ct_mesh_changes *changes,
                              ct_error *error) {
    changes->is_changed = true; /* it has the hash of what becomes of it */
    if (options->closing == CT_CLOSING_WRAP) {
        ct_error crossing = {0}; /* a face that crosses itself stays the fan that it is */
        const ct_status status = ct_cut_polygons(soup, true, changes, &crossing);
        if (status != CT_OK) return ct_fail(error, status, crossing.field, "%s", crossing.message);
        return ct_take_wrap(soup, options->resolution, &changes->deviation, error);
    }
    ct_enter_phase("taking the convex hull");
    return ct_take_hull(soup, error);
}

ct_status ct_soup_finish(ct_soup *soup, const ct_mesh_options *options, ct_mesh **out, ct_mesh_changes *changes,
                         ct_error *error) {
    ct_surface_facts facts;
    ct_mesh_changes ignored;
    ct_error own = {0}, cause = {0}; /* what is in *error already is not this mesh's */
    if (!changes) changes = &ignored;
    memset(changes, 0, sizeof *changes);
    changes->self_overlap = -1;
    ct_status status = CT_OK;
    if (options->scale != 0 && options->scale != 1 && !scale_positions(soup, options->scale))
        status = ct_fail_cancelled(&own);
    if (status == CT_OK && options->repair) status = ct_align_backs(soup, &own);
    if (status == CT_OK)
        status = options->closing == CT_CLOSING_NONE ? ct_cut_polygons(soup, false, changes, &own)
                                                     : take_closing(soup, options, changes, &own);
    if (options->repair) ct_enter_phase("repairing the mesh");
    uint32_t *rim = NULL, n_rim = 0;
    double direction[3];
    const bool is_open = find_direction(options, direction);
    if (status == CT_OK && options->repair)
        status = ct_repair(soup, options, is_open ? direction : NULL, changes, &own);
    ct_enter_phase("checking the mesh");
    if (status == CT_OK && is_open) status = ct_close_along(soup, direction, &rim, &n_rim, &own);
    if (status == CT_OK) {
        status = ct_validate(soup, &facts, options->repair ? &cause : &own);
        if (status != CT_OK && options->repair) fail_repaired(status, &cause, &own);
    }
    if (status != CT_OK && options->closing == CT_CLOSING_NONE) name_closing(soup, &own);
    ct_hand_on(error, &own);
    ct_mesh *mesh = status == CT_OK && extend_low(soup) ? calloc(1, sizeof *mesh) : NULL;
    if (!mesh) {
        ct_soup_free(soup);
        free(rim);
        return status != CT_OK ? status : ct_fail(error, CT_OUT_OF_MEMORY, "", "no memory for a mesh");
    }
    void *positions = soup->positions, *triangles = soup->triangles;
    shrink_rows(&positions, soup->n_vertices, &soup->vertex_capacity);
    shrink_rows(&triangles, soup->n_triangles, &soup->triangle_capacity);
    soup->positions = positions;
    soup->triangles = triangles;
    free(soup->polygons);
    soup->polygons = NULL;
    atomic_init(&mesh->references, 1);
    mesh->n_vertices = (uint32_t)soup->n_vertices;
    mesh->n_triangles = (uint32_t)soup->n_triangles;
    mesh->has_shared_edges = facts.n_shared_edges > 0;
    mesh->components = facts.components;
    mesh->n_shells = facts.n_shells;
    memcpy(mesh->center_of_mass, facts.center_of_mass, sizeof mesh->center_of_mass);
    memcpy(mesh->inertia, facts.inertia, sizeof mesh->inertia);
    mesh->n_doubled = facts.n_doubled;
    ct_mesh_set_closing(mesh, options->closing, changes->deviation);
    mesh->n_closing = n_rim;
    mesh->rim = rim;
    mesh->volume = facts.volume;
    mesh->area = facts.area;
    memcpy(mesh->lo, facts.lo, sizeof mesh->lo);
    memcpy(mesh->hi, facts.hi, sizeof mesh->hi);
    mesh->positions = positions;
    mesh->low = soup->low;
    memcpy(mesh->origin, soup->origin, sizeof mesh->origin);
    mesh->triangles = triangles;
    ct_enter_phase("ordering triangles");
    /* Corners are rotated before triangles are ordered, so that sums over corners, and with them the order, do not
     * depend on the rotations given. A mesh as it was given has the hash of what was given. */
    if ((!changes->is_changed && !hash_content(soup, n_rim, mesh->hash)) ||
        !rotate_all_corners(mesh->positions, mesh->low, mesh->triangles, soup->n_triangles) ||
        !ct_order_triangles(positions, mesh->lo, mesh->hi, triangles, soup->n_triangles, NULL) ||
        (changes->is_changed && !hash_content(soup, n_rim, mesh->hash)) ||
        (facts.n_strays && !ct_set_strays_aside(mesh))) {
        ct_soup_free(soup);
        free(rim);
        free(mesh->strays);
        free(mesh->as_given);
        free(mesh);
        return ct_fail(error, CT_OUT_OF_MEMORY, "", "no memory to order %zu triangles", soup->n_triangles);
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&mesh->made, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&mesh->lock, NULL);
    memset(soup, 0, sizeof *soup);
    if (mesh->n_triangles >= CT_CLUSTERED_TRIANGLES && !ct_mesh_clusters(mesh, error)) {
        ct_mesh_release(&mesh);
        return ct_failure();
    }
    *out = mesh;
    return CT_OK;
}

/* ---- options ---- */

#define OPTIONS_COOKIE 0x43744d34u /* "CtM4" */

void ct_mesh_options_init(ct_mesh_options *options) {
    memset(options, 0, sizeof *options);
    options->cookie = OPTIONS_COOKIE;
    ct_mesh_limits_init(&options->limits);
}

ct_mesh_options ct_mesh_options_of(const ct_mesh_limits *limits) {
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    if (limits) options.limits = *limits;
    return options;
}

ct_status ct_mesh_options_check(const ct_mesh_options *options, ct_error *error) {
    if (options->cookie != OPTIONS_COOKIE)
        return ct_fail(error, CT_INVALID_ARGUMENT, "options", "the options were not set by ct_mesh_options_init");
    if (!isfinite(options->scale))
        return ct_fail(error, CT_NON_FINITE, "scale", "scale is %g, expected a finite number of m", options->scale);
    if (options->scale != 0 && !(options->scale >= CT_LEAST_SCALE && options->scale <= CT_MOST_SCALE))
        return ct_fail(error, CT_OUT_OF_RANGE, "scale", "scale is %g m, expected %g to %g, or 0 for 1 m",
                       options->scale, CT_LEAST_SCALE, CT_MOST_SCALE);
    if (!isfinite(options->max_hole))
        return ct_fail(error, CT_NON_FINITE, "max_hole", "max_hole is %g, expected a finite number of m",
                       options->max_hole);
    if (options->max_hole < 0)
        return ct_fail(error, CT_OUT_OF_RANGE, "max_hole", "max_hole is %g m, expected 0 or more", options->max_hole);
    if (options->max_hole > 0 && !options->repair)
        return ct_fail(error, CT_INVALID_ARGUMENT, "max_hole", "max_hole is given, but no repair is asked for");
    for (int k = 0; k < 3; k++)
        if (!isfinite(options->open_direction[k]))
            return ct_fail(error, CT_NON_FINITE, "open_direction", "open_direction[%d] is %g, expected a finite number",
                           k, options->open_direction[k]);
    if (!isfinite(options->weld))
        return ct_fail(error, CT_NON_FINITE, "weld", "weld is %g, expected a finite number of m", options->weld);
    if (options->weld < 0)
        return ct_fail(error, CT_OUT_OF_RANGE, "weld", "weld is %g m, expected 0 or more", options->weld);
    if (options->weld > 0 && !options->repair)
        return ct_fail(error, CT_INVALID_ARGUMENT, "weld", "weld is given, but no repair is asked for");
    double direction[3];
    const bool is_open = find_direction(options, direction);
    if (options->closing < CT_CLOSING_NONE || options->closing > CT_CLOSING_WRAP)
        return ct_fail(error, CT_INVALID_ARGUMENT, "closing", "closing is %d, which is none of ct_closing",
                       (int)options->closing);
    if (options->closing != CT_CLOSING_NONE && (options->repair || is_open))
        return ct_fail(error, CT_INVALID_ARGUMENT, "closing",
                       "a %s is closed whatever the triangles do: leave out %s, or closing",
                       options->closing == CT_CLOSING_HULL ? "convex hull" : "wrap",
                       options->repair ? "repair" : "open_direction");
    if (!isfinite(options->resolution))
        return ct_fail(error, CT_NON_FINITE, "resolution", "resolution is %g, expected a finite number of m",
                       options->resolution);
    if (options->resolution < 0)
        return ct_fail(error, CT_OUT_OF_RANGE, "resolution", "resolution is %g m, expected 0 or more",
                       options->resolution);
    if (options->resolution > 0 && options->closing != CT_CLOSING_WRAP)
        return ct_fail(error, CT_INVALID_ARGUMENT, "resolution",
                       "resolution is given, but no wrap is asked for (closing)");
    if (options->max_hole > 0 && is_open)
        return ct_fail(error, CT_INVALID_ARGUMENT, "max_hole",
                       "the repair of an open surface fills no holes: leave out max_hole, or open_direction");
    return CT_OK;
}

/* ---- from arrays ---- */

ct_status ct_mesh_create(const void *positions, ct_dtype dtype, size_t n_vertices, const void *triangles_u32,
                         size_t n_triangles, const ct_mesh_limits *limits, ct_mesh **out, ct_error *error) {
    const ct_mesh_options options = ct_mesh_options_of(limits);
    return ct_mesh_create_with(positions, dtype, n_vertices, triangles_u32, n_triangles, &options, out, NULL, error);
}

ct_status ct_mesh_create_with(const void *positions, ct_dtype dtype, size_t n_vertices, const void *triangles_u32,
                              size_t n_triangles, const ct_mesh_options *options, ct_mesh **out,
                              ct_mesh_changes *changes, ct_error *error) {
    *out = NULL;
    ct_status status = ct_mesh_options_check(options, error);
    if (status != CT_OK) return status;
    if (dtype != CT_F32 && dtype != CT_F64)
        return ct_fail(error, CT_INVALID_ARGUMENT, "dtype",
                       "positions have dtype %d, expected %d (float32) or %d (float64)", (int)dtype, CT_F32, CT_F64);
    if ((n_vertices && !positions) || (n_triangles && !triangles_u32))
        return ct_fail(error, CT_INVALID_ARGUMENT, positions ? "triangles" : "positions", "the array is missing");
    ct_soup soup;
    ct_mesh_options rest = *options;
    const double scale = dtype == CT_F64 && options->scale != 0 ? options->scale : 1;
    if (dtype == CT_F64) rest.scale = 0; /* doubles are scaled before they are rounded */
    ct_soup_init(&soup, &options->limits);
    status = ct_soup_reserve_vertices(&soup, n_vertices, error);
    if (status == CT_OK) status = ct_soup_reserve_triangles(&soup, n_triangles, error);
    if (status != CT_OK) {
        ct_soup_free(&soup);
        return status;
    }
    ct_enter_phase("reading the mesh");
    const bool is_copied = ct_copy_large(soup.triangles, triangles_u32, 12 * n_triangles) &&
                           (dtype == CT_F32 ? ct_copy_large(soup.positions, positions, 12 * n_vertices)
                                            : ct_soup_split(&soup, positions, n_vertices, scale));
    if (!is_copied) {
        ct_soup_free(&soup);
        return ct_fail(error, CT_OUT_OF_MEMORY, "positions", "no memory for %zu vertices", n_vertices);
    }
    soup.n_vertices = n_vertices;
    soup.n_triangles = n_triangles;
    return ct_soup_finish(&soup, &rest, out, changes, error);
}
