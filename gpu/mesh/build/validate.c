/* validate.c - checks that triangles form a closed, consistently oriented surface around a volume. */
#include "gpu/mesh/build/validate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/mesh/build/edges.h"

enum { BLOCK = 1 << 14 }; /* numbers between polls, some 10 us */

/* x - x is 0 for finite x and NaN otherwise. The sum has no branches, so it vectorises. */
static bool are_finite(const float *x, size_t n) {
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] - x[i];
    return sum == 0;
}

static ct_status check_positions(const float *positions, size_t n, ct_error *error) {
    size_t bad = 0, first = 0;
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        const size_t end = begin + BLOCK < n ? begin + BLOCK : n;
        if (ct_is_cancelled()) return ct_fail_cancelled(error);
        if (are_finite(positions + 3 * begin, 3 * (end - begin))) continue;
        for (size_t i = begin; i < end; i++)
            if (!are_finite(positions + 3 * i, 3) && !bad++) first = i;
    }
    if (!bad) return CT_OK;
    const float *p = positions + 3 * first;
    return ct_fail(
        error, CT_NON_FINITE, "positions",
        "vertex %zu is (%g, %g, %g), expected finite numbers within float32's range (%zu of %zu vertices are "
        "not): remove or repair them",
        first, (double)p[0], (double)p[1], (double)p[2], bad, n);
}

static uint32_t largest_of(const uint32_t *x, size_t n) {
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

static ct_status check_indices(const uint32_t *triangles, size_t n, size_t n_vertices, ct_error *error) {
    uint32_t largest = 0;
    size_t bad = 0, first = 0;
    for (size_t begin = 0; begin < 3 * n; begin += BLOCK) {
        const size_t end = begin + BLOCK < 3 * n ? begin + BLOCK : 3 * n;
        if (ct_is_cancelled()) return ct_fail_cancelled(error);
        const uint32_t most = largest_of(triangles + begin, end - begin);
        if (most > largest) largest = most;
        if (most < n_vertices) continue;
        for (size_t i = begin; i < end; i++)
            if (triangles[i] >= n_vertices && !bad++) first = i;
    }
    if (!bad) return CT_OK;
    return ct_fail(error, CT_INVALID_MESH, "triangles",
                   "triangle %zu names vertex %u, but there are %zu vertices, numbered from 0 (%zu of %zu corners are "
                   "out of range, the largest number is %u): correct the indices",
                   first / 3, triangles[first], n_vertices, bad, 3 * n, largest);
}

typedef struct message {
    char bytes[400];
    size_t used;
} message;

__attribute__((format(printf, 2, 3))) static void append(message *to, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(to->bytes + to->used, sizeof to->bytes - to->used, format, args);
    va_end(args);
    to->used += n < 0 ? 0 : (size_t)n;
    if (to->used >= sizeof to->bytes) to->used = sizeof to->bytes - 1;
}

static void append_edge(message *to, const float *positions, const ct_edge_defects *defects) {
    const uint32_t *v = defects->first[0].vertex;
    const float *p = positions + 3 * (size_t)v[0];
    append(to, "%sedge %u-%u at (%g, %g, %g) ", to->used ? ". " : "", v[0], v[1], (double)p[0], (double)p[1],
           (double)p[2]);
}

static void append_examples(message *to, const ct_edge_defects *defects) {
    if (defects->count < 2) return;
    append(to, " (and %zu more:", defects->count - 1);
    for (size_t i = 1; i < defects->count && i < CT_EDGE_EXAMPLES; i++)
        append(to, "%s %u-%u", i > 1 ? "," : "", defects->first[i].vertex[0], defects->first[i].vertex[1]);
    append(to, "%s)", defects->count > CT_EDGE_EXAMPLES ? ", ..." : "");
}

static ct_status report_edges(const ct_edge_report *report, const float *positions, ct_error *error) {
    message text = {"", 0};
    const ct_edge_defects *open = &report->open, *crowded = &report->crowded, *turned = &report->turned;
    if (report->n_repeating) {
        append(&text, "triangle %zu names vertex %u twice", report->repeating, report->repeated_vertex);
        if (report->n_repeating > 1) append(&text, " (and %zu more such triangles)", report->n_repeating - 1);
        append(&text, ": remove it, it has no area, or let a repair drop it (repair)");
    }
    if (open->count) {
        append_edge(&text, positions, open);
        append(&text, "has 1 face, expected 2");
        append_examples(&text, open);
        append(&text, ": close the holes, or let a repair weld and fill them (repair)");
    }
    if (crowded->count) {
        append_edge(&text, positions, crowded);
        append(&text, "has %u faces, expected 2", crowded->first[0].faces);
        append_examples(&text, crowded);
        append(&text, ": separate the surfaces that share it, or let a repair drop what is there twice (repair)");
    }
    if (turned->count) {
        append_edge(&text, positions, turned);
        append(&text, "is traversed in the same direction by both its faces");
        append_examples(&text, turned);
        append(&text, ": turn all faces counter-clockwise seen from outside, or let a repair do it (repair)");
    }
    if (!text.used) return CT_OK;
    return ct_fail(error, CT_INVALID_MESH, "triangles", "%s", text.bytes);
}

/* Computes box, area and signed volume, the sum of det(p0, p1, p2) / 6 over the triangles (divergence theorem).
 * Positions are relative to the box's centre, so that a small body far from the origin loses no digits. `magnitude` is
 * the same sum with absolute terms, the scale of the volume's rounding error. False: cancelled. */
static bool measure_surface(const float *positions, size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                            ct_surface_facts *facts, double *magnitude) {
    float lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (size_t i = 0; i < n_vertices; i++) {
        if (CT_POLL_EVERY(i, BLOCK) && ct_is_cancelled()) return false;
        for (int k = 0; k < 3; k++) {
            float x = positions[3 * i + (size_t)k];
            lo[k] = x < lo[k] ? x : lo[k];
            hi[k] = x > hi[k] ? x : hi[k];
        }
    }
    double center[3];
    for (int k = 0; k < 3; k++) {
        facts->lo[k] = (double)lo[k];
        facts->hi[k] = (double)hi[k];
        center[k] = 0.5 * (facts->lo[k] + facts->hi[k]);
    }
    double volume = 0, area = 0, total = 0;
    enum { SUMMED = 1024 }; /* blocked summation: the rounding error grows with n / 1024 + 1024 instead of n */
    for (size_t begin = 0; begin < n_triangles; begin += SUMMED) {
        if (ct_is_cancelled()) return false;
        size_t end = begin + SUMMED < n_triangles ? begin + SUMMED : n_triangles;
        double block_volume = 0, block_area = 0, block_total = 0;
        for (size_t t = begin; t < end; t++) {
            double p[3][3], e[2][3];
            for (int c = 0; c < 3; c++)
                for (int k = 0; k < 3; k++)
                    p[c][k] = (double)positions[3 * (size_t)triangles[3 * t + (size_t)c] + (size_t)k] - center[k];
            for (int c = 0; c < 2; c++)
                for (int k = 0; k < 3; k++) e[c][k] = p[c + 1][k] - p[0][k];
            double n[3] = {e[0][1] * e[1][2] - e[0][2] * e[1][1], e[0][2] * e[1][0] - e[0][0] * e[1][2],
                           e[0][0] * e[1][1] - e[0][1] * e[1][0]};
            double det = p[0][0] * n[0] + p[0][1] * n[1] + p[0][2] * n[2];
            block_volume += det;
            block_total += fabs(p[0][0] * n[0]) + fabs(p[0][1] * n[1]) + fabs(p[0][2] * n[2]);
            block_area += sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
        }
        volume += block_volume;
        area += block_area;
        total += block_total;
    }
    facts->volume = volume / 6;
    facts->area = area / 2;
    *magnitude = total / 6;
    return true;
}

/* Counts the sets of triangles connected by shared vertices, with a union-find over the vertices. Unused vertices do
 * not count. */
static ct_status count_components(const uint32_t *triangles, size_t n_triangles, size_t n_vertices,
                                  uint32_t *components, ct_error *error) {
    uint32_t *parent = malloc(n_vertices * sizeof *parent);
    if (!parent) return ct_fail(error, CT_OUT_OF_MEMORY, "positions", "no memory for %zu vertices", n_vertices);
    bool is_counting = ct_fill_large(parent, 0xff, n_vertices * sizeof *parent);
    uint32_t count = 0;
    size_t steps = 0; /* a single path may be as long as the mesh */
    for (size_t t = 0; t < n_triangles && is_counting; t++) {
        uint32_t root[3];
        for (int c = 0; c < 3; c++) {
            uint32_t v = triangles[3 * t + (size_t)c];
            if (parent[v] == UINT32_MAX) parent[v] = v, count++;
            for (; parent[v] != v; v = parent[v] = parent[parent[v]])
                if (CT_POLL_EVERY(++steps, 4096) && ct_is_cancelled()) break;
            root[c] = v;
            /* Both roots point to the smaller, which is also this corner's root for the next corner's union. */
            if (c && root[c] != root[c - 1]) {
                uint32_t low = root[c] < root[c - 1] ? root[c] : root[c - 1];
                parent[root[c]] = parent[root[c - 1]] = low;
                root[c] = low;
                count--;
            }
        }
        if (CT_POLL_EVERY(t, 1024)) is_counting = !ct_is_cancelled();
    }
    free(parent);
    *components = count;
    return is_counting ? CT_OK : ct_fail_cancelled(error);
}

ct_status ct_validate_elements(const float *positions, size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                               ct_error *error) {
    if (!n_vertices || !n_triangles)
        return ct_fail(error, CT_INVALID_MESH, n_vertices ? "triangles" : "positions",
                       "the mesh is empty: it has %zu vertices and %zu triangles, expected at least 4 of each",
                       n_vertices, n_triangles);
    ct_status status = check_positions(positions, n_vertices, error);
    return status == CT_OK ? check_indices(triangles, n_triangles, n_vertices, error) : status;
}

ct_status ct_validate(const float *positions, size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                      ct_surface_facts *facts, ct_error *error) {
    ct_status status = ct_validate_elements(positions, n_vertices, triangles, n_triangles, error);
    if (status != CT_OK) return status;

    ct_edge_report report;
    status = ct_check_edges(triangles, n_triangles, n_vertices, &report, error);
    if (status == CT_OK) status = report_edges(&report, positions, error);
    if (status != CT_OK) return status;

    double magnitude;
    if (!measure_surface(positions, n_vertices, triangles, n_triangles, facts, &magnitude))
        return ct_fail_cancelled(error);
    if (!(fabs(facts->volume) > 1e-12 * magnitude)) /* rounding errors alone: a doubled sheet, for example */
        return ct_fail(
            error, CT_INVALID_MESH, "positions",
            "the surface encloses no volume: its signed volume is %g m^3 and its area %g m^2; a solid body is "
            "needed, not a sheet",
            facts->volume, facts->area);
    if (facts->volume < 0)
        return ct_fail(
            error, CT_INVALID_MESH, "triangles",
            "the surface is inside out: its signed volume is %g m^3, expected more than 0; flip the triangles "
            "(swap two corners of each), or let a repair do it (repair)",
            facts->volume);
    return count_components(triangles, n_triangles, n_vertices, &facts->components, error);
}
