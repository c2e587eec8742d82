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
#include "gpu/mesh/build/shells.h"

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
    append(to, "edge %u-%u at (%g, %g, %g) ", v[0], v[1], (double)p[0], (double)p[1], (double)p[2]);
}

static void append_examples(message *to, const ct_edge_defects *defects) {
    if (defects->count < 2) return;
    append(to, " (and %zu more:", defects->count - 1);
    for (size_t i = 1; i < defects->count && i < CT_EDGE_EXAMPLES; i++)
        append(to, "%s %u-%u", i > 1 ? "," : "", defects->first[i].vertex[0], defects->first[i].vertex[1]);
    append(to, "%s)", defects->count > CT_EDGE_EXAMPLES ? ", ..." : "");
}

/* What is wrong with some edges: with an example and the remedy, and in a few words for where that has no room. */
typedef struct complaint {
    message full, brief;
} complaint;

enum { REPEATING, OPEN, CROWDED, TURNED, COMPLAINTS };

static void complain(const ct_edge_report *report, const float *positions, complaint of[COMPLAINTS]) {
    const ct_edge_defects *open = &report->open, *crowded = &report->crowded, *turned = &report->turned;
    memset(of, 0, COMPLAINTS * sizeof *of);
    if (report->n_repeating) {
        message *to = &of[REPEATING].full;
        append(to, "triangle %zu names vertex %u twice", report->repeating, report->repeated_vertex);
        if (report->n_repeating > 1) append(to, " (and %zu more such triangles)", report->n_repeating - 1);
        append(to, ": remove it, it has no area, or let a repair drop it (repair)");
    }
    if (open->count) {
        message *to = &of[OPEN].full;
        append_edge(to, positions, open);
        append(to, "has 1 face, expected 2");
        append_examples(to, open);
        append(to, ": close the holes, or let a repair weld and fill them (repair), or take the volume behind the "
                   "surface (open_direction)");
        append(&of[OPEN].brief, "edges with 1 face: %zu", open->count);
    }
    if (crowded->count) {
        message *to = &of[CROWDED].full;
        append_edge(to, positions, crowded);
        append(to, "has %u faces, expected 2, or as many each way and none twice", crowded->first[0].faces);
        append_examples(to, crowded);
        append(to, ": separate the surfaces that share it, or let a repair drop what is there twice (repair)");
        append(&of[CROWDED].brief, "edges with more than 2 faces: %zu", crowded->count);
    }
    if (turned->count) {
        message *to = &of[TURNED].full;
        append_edge(to, positions, turned);
        append(to, "is traversed in the same direction by both its faces");
        append_examples(to, turned);
        append(to, ": turn all faces counter-clockwise seen from outside, or let a repair do it (repair)");
        append(&of[TURNED].brief, "edges traversed in the same direction by both their faces: %zu", turned->count);
    }
}

static ct_status report_edges(const ct_edge_report *report, const float *positions, ct_error *error) {
    complaint of[COMPLAINTS];
    message text = {"", 0};
    size_t rest = 0; /* bytes of what is still to be said, in a few words */
    complain(report, positions, of);
    for (int i = 0; i < COMPLAINTS; i++) rest += of[i].brief.used + 2;
    for (int i = 0; i < COMPLAINTS; i++) {
        rest -= of[i].brief.used + 2;
        if (!of[i].full.used) continue;
        const bool has_room = text.used + 2 + of[i].full.used + rest < sizeof text.bytes;
        append(&text, "%s%s", text.used ? ". " : "", has_room || i == REPEATING ? of[i].full.bytes : of[i].brief.bytes);
    }
    if (!text.used) return CT_OK;
    return ct_fail(error, CT_INVALID_MESH, "triangles", "%s", text.bytes);
}

static void extend_box(const float *p, float lo[3], float hi[3]) {
    for (int k = 0; k < 3; k++) {
        lo[k] = p[k] < lo[k] ? p[k] : lo[k];
        hi[k] = p[k] > hi[k] ? p[k] : hi[k];
    }
}

static ct_status count_strays(const ct_soup *soup, ct_surface_facts *facts, ct_error *error) {
    uint8_t *is_used = calloc(soup->n_vertices, 1);
    bool is_counted = is_used;
    size_t n_used = 0;
    for (size_t i = 0; i < 3 * soup->n_triangles && is_counted; i++) {
        if (CT_POLL_EVERY(i, BLOCK)) is_counted = !ct_is_cancelled();
        is_used[soup->triangles[i]] = 1;
    }
    for (size_t v = 0; v < soup->n_vertices && is_counted; v++) {
        if (CT_POLL_EVERY(v, BLOCK)) is_counted = !ct_is_cancelled();
        n_used += is_used[v];
    }
    facts->n_strays = (uint32_t)(soup->n_vertices - n_used);
    free(is_used);
    return is_counted ? CT_OK
                      : ct_fail(error, CT_OUT_OF_MEMORY, "positions", "no memory for %zu vertices", soup->n_vertices);
}

/* The box of the vertices, or, where some are strays, of the triangles' corners. False: cancelled. */
static bool measure_box(const float *positions, size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                        ct_surface_facts *facts) {
    float lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (size_t i = 0; i < n_vertices && !facts->n_strays; i++) {
        if (CT_POLL_EVERY(i, BLOCK) && ct_is_cancelled()) return false;
        extend_box(positions + 3 * i, lo, hi);
    }
    for (size_t i = 0; i < 3 * n_triangles && facts->n_strays; i++) {
        if (CT_POLL_EVERY(i, BLOCK) && ct_is_cancelled()) return false;
        extend_box(positions + 3 * (size_t)triangles[i], lo, hi);
    }
    for (int k = 0; k < 3; k++) {
        facts->lo[k] = (double)lo[k];
        facts->hi[k] = (double)hi[k];
    }
    return true;
}

/* Integrals over a volume, of tetrahedra between an origin and the triangles (divergence theorem), 0 to 9: 1, x, y, z,
 * and the products xx, yy, zz, xy, yz, zx. */
enum { INTEGRALS = 10 };

static void add_tetrahedron(double p[3][3], double det, double sums[INTEGRALS]) {
    double s[3];
    sums[0] += det / 6;
    for (int k = 0; k < 3; k++) {
        s[k] = p[0][k] + p[1][k] + p[2][k];
        sums[1 + k] += det / 24 * s[k];
    }
    for (int k = 0; k < 3; k++) {
        const int l = (k + 1) % 3;
        sums[4 + k] += det / 120 * (p[0][k] * p[0][k] + p[1][k] * p[1][k] + p[2][k] * p[2][k] + s[k] * s[k]);
        sums[7 + k] += det / 120 * (p[0][k] * p[0][l] + p[1][k] * p[1][l] + p[2][k] * p[2][l] + s[k] * s[l]);
    }
}

/* origin: of the integrals. */
static void set_mass_properties(const double sums[INTEGRALS], const double origin[3], ct_surface_facts *facts) {
    double from[3], products[3][3];
    for (int k = 0; k < 3; k++) {
        from[k] = facts->volume != 0 ? sums[1 + k] / facts->volume : 0;
        facts->center_of_mass[k] = origin[k] + from[k];
    }
    for (int k = 0; k < 3; k++) {
        const int l = (k + 1) % 3;
        products[k][k] = sums[4 + k] - from[k] * sums[1 + k];
        products[k][l] = products[l][k] = sums[7 + k] - from[k] * sums[1 + l];
    }
    for (int k = 0; k < 3; k++)
        for (int l = 0; l < 3; l++)
            facts->inertia[k][l] =
                k == l ? products[(k + 1) % 3][(k + 1) % 3] + products[(k + 2) % 3][(k + 2) % 3] : -products[k][l];
}

/* Computes box, area, signed volume and mass properties. Positions are relative to the box's centre, so that a small body
 * far from the origin loses no digits. `magnitude` is the volume's sum with absolute terms, the scale of its rounding
 * error. False: cancelled. */
static bool measure_surface(const ct_soup *soup, ct_surface_facts *facts, double *magnitude) {
    const float *positions = soup->positions, *low = soup->low;
    const uint32_t *triangles = soup->triangles;
    const size_t n_triangles = soup->n_triangles, with_low = low ? 3 * soup->n_low : 0;
    if (!measure_box(positions, soup->n_vertices, triangles, n_triangles, facts)) return false;
    double center[3];
    for (int k = 0; k < 3; k++) center[k] = 0.5 * (facts->lo[k] + facts->hi[k]);
    double sums[INTEGRALS] = {0}, area = 0, total = 0;
    enum { SUMMED = 1024 }; /* blocked summation: the rounding error grows with n / 1024 + 1024 instead of n */
    for (size_t begin = 0; begin < n_triangles; begin += SUMMED) {
        if (ct_is_cancelled()) return false;
        size_t end = begin + SUMMED < n_triangles ? begin + SUMMED : n_triangles;
        double block[INTEGRALS] = {0}, block_area = 0, block_total = 0;
        for (size_t t = begin; t < end; t++) {
            double p[3][3], e[2][3];
            for (int c = 0; c < 3; c++)
                for (int k = 0; k < 3; k++) {
                    const size_t at = 3 * (size_t)triangles[3 * t + (size_t)c] + (size_t)k;
                    p[c][k] = (double)positions[at] - center[k] + (at < with_low ? (double)low[at] : 0);
                }
            for (int c = 0; c < 2; c++)
                for (int k = 0; k < 3; k++) e[c][k] = p[c + 1][k] - p[0][k];
            double n[3] = {e[0][1] * e[1][2] - e[0][2] * e[1][1], e[0][2] * e[1][0] - e[0][0] * e[1][2],
                           e[0][0] * e[1][1] - e[0][1] * e[1][0]};
            double det = p[0][0] * n[0] + p[0][1] * n[1] + p[0][2] * n[2];
            add_tetrahedron(p, det, block);
            block_total += fabs(p[0][0] * n[0]) + fabs(p[0][1] * n[1]) + fabs(p[0][2] * n[2]);
            block_area += sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
        }
        for (int i = 0; i < INTEGRALS; i++) sums[i] += block[i];
        area += block_area;
        total += block_total;
    }
    facts->volume = sums[0];
    facts->area = area / 2;
    *magnitude = total / 6;
    set_mass_properties(sums, center, facts);
    return true;
}

/* ---- shells ---- */

static uint32_t root_of(uint32_t *parent, uint32_t s) {
    for (; parent[s] != s; s = parent[s] = parent[parent[s]]) continue;
    return s;
}

/* Shells that share a vertex are connected. parent: [n_shells]; seen: [n_vertices] a shell that has the vertex. False:
 * cancelled. */
static bool connect_shells(const ct_soup *soup, const uint32_t *shell, uint32_t n_shells, uint32_t *parent,
                           uint32_t *seen, uint32_t *components) {
    if (!ct_fill_large(seen, 0xff, soup->n_vertices * sizeof *seen)) return false;
    *components = n_shells;
    for (uint32_t s = 0; s < n_shells; s++) parent[s] = s;
    for (size_t i = 0; i < 3 * soup->n_triangles; i++) {
        uint32_t *of = &seen[soup->triangles[i]], a = shell[i / 3];
        if (CT_POLL_EVERY(i, 4096) && ct_is_cancelled()) return false;
        if (*of == UINT32_MAX) *of = a;
        if (*of == a) continue;
        const uint32_t b = root_of(parent, *of);
        a = root_of(parent, a);
        if (a == b) continue;
        parent[a > b ? a : b] = a > b ? b : a;
        --*components;
    }
    return true;
}

static ct_status count_components(const ct_soup *soup, const uint32_t *shell, ct_surface_facts *facts,
                                  ct_error *error) {
    uint32_t *parent = malloc((facts->n_shells + 1) * sizeof *parent),
             *seen = malloc((soup->n_vertices + 1) * sizeof *seen);
    const bool is_counted =
        parent && seen && connect_shells(soup, shell, facts->n_shells, parent, seen, &facts->components);
    free(parent), free(seen);
    return is_counted ? CT_OK
                      : ct_fail(error, CT_OUT_OF_MEMORY, "positions", "no memory for %zu vertices", soup->n_vertices);
}

static ct_status count_twins(const ct_soup *soup, const uint32_t *shell, ct_surface_facts *facts, ct_error *error) {
    uint32_t *twin_of = malloc((facts->n_shells + 1) * sizeof *twin_of);
    if (!twin_of) return ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory for %u shells", facts->n_shells);
    const ct_status status = ct_find_twins(soup, shell, facts->n_shells, twin_of, error);
    for (uint32_t s = 0; s < facts->n_shells && status == CT_OK; s++) facts->n_doubled += twin_of[s] != s;
    free(twin_of);
    return status;
}

/* Names the shells that face the wrong way, unless all do: then the sign of the whole volume says it. */
static ct_status report_shells(const ct_soup *soup, const ct_shell *shells, uint32_t n, ct_error *error) {
    uint32_t wrong = 0, first = n;
    char more[64] = "";
    for (uint32_t s = n; s-- > 0;) {
        wrong += shells[s].is_wrong;
        if (shells[s].is_wrong && shells[s].volume < 0) first = s; /* what faces outwards is a cavity of such a one */
    }
    if (first == n || wrong == n) return CT_OK;
    const ct_shell *shell = &shells[first];
    const float *p = soup->positions + 3 * (size_t)soup->triangles[3 * (size_t)shell->first];
    if (wrong > 1) snprintf(more, sizeof more, " (and so are %u more shells)", wrong - 1);
    return ct_fail(
        error, CT_INVALID_MESH, "triangles",
        "a part of the surface is inside out: shell %u of %u, %u triangles from triangle %u at (%g, %g, %g) on, "
        "encloses %g m^3, and is no cavity of another%s: turn its triangles (swap two corners of each), or let "
        "a repair do it (repair)",
        first + 1, n, shell->n_triangles, shell->first, (double)p[0], (double)p[1], (double)p[2], shell->volume, more);
}

static ct_status check_directions(const ct_soup *soup, const uint32_t *shell, uint32_t n_shells, ct_error *error) {
    ct_shell *shells = malloc((n_shells + 1) * sizeof *shells);
    if (!shells) return ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory for %u shells", n_shells);
    ct_status status = ct_judge_shells(soup, shell, n_shells, NULL, shells, error);
    if (status == CT_OK) status = report_shells(soup, shells, n_shells, error);
    free(shells);
    return status;
}

/* What there is to say of several shells. */
static ct_status check_shells(const ct_soup *soup, const uint32_t *shell, ct_surface_facts *facts, ct_error *error) {
    facts->components = 1;
    facts->n_doubled = 0;
    if (facts->n_shells < 2) return CT_OK;
    ct_status status = check_directions(soup, shell, facts->n_shells, error);
    if (status == CT_OK) status = count_twins(soup, shell, facts, error);
    return status == CT_OK ? count_components(soup, shell, facts, error) : status;
}

/* ---- the whole ---- */

ct_status ct_validate_elements(const float *positions, size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                               ct_error *error) {
    if (!n_vertices || !n_triangles)
        return ct_fail(error, CT_INVALID_MESH, n_vertices ? "triangles" : "positions",
                       "the mesh is empty: it has %zu vertices and %zu triangles, expected at least 4 of each",
                       n_vertices, n_triangles);
    ct_status status = check_positions(positions, n_vertices, error);
    return status == CT_OK ? check_indices(triangles, n_triangles, n_vertices, error) : status;
}

static ct_status check_volume(const ct_soup *soup, const uint32_t *shell, ct_surface_facts *facts, ct_error *error) {
    double magnitude;
    if (!measure_surface(soup, facts, &magnitude)) return ct_fail_cancelled(error);
    const bool is_flat = !(fabs(facts->volume) > 1e-12 * magnitude); /* rounding alone: a doubled sheet, for example */
    ct_status status = CT_OK;
    if ((is_flat || facts->volume < 0) && facts->n_shells > 1)
        status = check_directions(soup, shell, facts->n_shells, error);
    if (status != CT_OK) return status;
    if (is_flat)
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
    return CT_OK;
}

ct_status ct_validate(const ct_soup *soup, ct_surface_facts *facts, ct_error *error) {
    const size_t n = soup->n_triangles;
    ct_edge_report report;
    ct_status status = ct_validate_elements(soup->positions, soup->n_vertices, soup->triangles, n, error);
    if (status != CT_OK) return status;
    uint32_t *shell = malloc(n * sizeof *shell);
    if (!shell) return ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory for %zu triangles", n);
    status = ct_check_edges(soup, &report, shell, &facts->n_shells, error);
    facts->n_shared_edges = report.n_shared;
    if (status == CT_OK) status = report_edges(&report, soup->positions, error);
    if (status == CT_OK) status = count_strays(soup, facts, error);
    if (status == CT_OK) status = check_volume(soup, shell, facts, error);
    if (status == CT_OK) status = check_shells(soup, shell, facts, error);
    free(shell);
    return status;
}
