/* narrow_cpu.c - narrows the overlap of a pair's boxes on the CPU (gpu/methods/ldi/region_k.h). Cluster trees find the
 * triangles near the region and its probes. */
#include <math.h>

#include "gpu/base/cancel.h"
#include "gpu/mesh/mesh.h"
#include "gpu/methods/ldi/pair_cpu.h"
#include "gpu/methods/ldi/region_k.h"

/* A body's triangles that meet the region's box. The box only shrinks, so later rounds look at no others. */
enum { KEPT_TRIANGLES = 8192 };
struct kept_triangles {
    uint32_t n; /* KEPT_TRIANGLES + 1: too many, they are not listed */
    uint32_t triangle[KEPT_TRIANGLES];
};

/* One body, being measured. */
struct measured {
    const ct_narrowing *narrowing;
    const ct_probes *probes;
    const uint32_t *triangles;
    const float *positions;
    const double *pose; /* NULL: positions are in the world's frame */
    double area_scale;
    double lo[3], hi[3]; /* of the region's box, widened by its margins */
    ct_extent extent;
    struct kept_triangles *keep; /* NULL: triangles are not listed */
};

/* Coordinates k of a triangle's corners, relative to the region's origin. */
static inline void read_coordinates(const struct measured *m, uint32_t triangle, int k, double corner[3][3]) {
    const double origin = m->narrowing->region.origin[k];
    for (int i = 0; i < 3; i++) {
        const float *p = m->positions + 3 * (size_t)m->triangles[3 * (size_t)triangle + (size_t)i];
        corner[i][k] = (m->pose ? ct_pose_coord(m->pose + 4 * k, p[0], p[1], p[2]) : (double)p[k]) - origin;
    }
}

/* False: the triangle does not meet the region's box. */
static inline bool read_triangle_in_region(const struct measured *m, uint32_t triangle, double corner[3][3]) {
    for (int k = 0; k < 3; k++) {
        read_coordinates(m, triangle, k, corner);
        const double a = corner[0][k], b = corner[1][k], c = corner[2][k];
        if ((a < m->lo[k] && b < m->lo[k] && c < m->lo[k]) || (a > m->hi[k] && b > m->hi[k] && c > m->hi[k]))
            return false;
    }
    return true;
}

static void measure_surfaces(void *context, uint32_t first, uint32_t end) {
    struct measured *m = context;
    double corner[3][3];
    for (uint32_t t = first; t < end; t++) {
        if (!read_triangle_in_region(m, t, corner)) continue;
        ct_extent_add_surface(&m->extent, &m->narrowing->region, m->area_scale, (const double(*)[3])corner);
        if (m->keep && m->keep->n < KEPT_TRIANGLES)
            m->keep->triangle[m->keep->n++] = t;
        else if (m->keep)
            m->keep->n = KEPT_TRIANGLES + 1;
    }
}

static void measure_windings(void *context, uint32_t first, uint32_t end) {
    struct measured *m = context;
    double corner[3][3];
    for (uint32_t t = first; t < end; t++) {
        for (int k = 0; k < 3; k++) read_coordinates(m, t, k, corner);
        ct_extent_add_windings(&m->extent, &m->narrowing->region, m->probes, (const double(*)[3])corner);
    }
}

static void measure_samples(struct measured *m, uint32_t n_triangles) {
    for (uint32_t i = 0; i < ct_region_sample_count(n_triangles); i++) {
        const uint32_t triangle = ct_region_sample(i, n_triangles);
        measure_surfaces(m, triangle, triangle + 1);
    }
}

static void measure_kept(struct measured *m) {
    struct kept_triangles *keep = m->keep;
    const uint32_t n = keep->n;
    keep->n = 0; /* at most n are listed again, none before it was read */
    for (uint32_t i = 0; i < n; i++) measure_surfaces(m, keep->triangle[i], keep->triangle[i] + 1);
}

/* For bodies without current boxes of clusters. */
static void visit_all(ct_visit_triangles visit, struct measured *m, uint32_t n_triangles) {
    enum { CHUNK = 1 << 13 };
    for (uint32_t first = 0; first < n_triangles && !ct_is_cancelled(); first += CHUNK)
        visit(m, first, n_triangles - first < CHUNK ? n_triangles : first + CHUNK);
}

/* kept: of the last measurement of the body's surfaces; has_kept: there was one. */
static ct_extent measure(const ct_pair_task *pair, int b, const ct_narrowing *narrowing, struct kept_triangles *kept,
                         bool has_kept) {
    const ct_body *body = pair->body[b];
    const bool is_rigid = body->kind == CT_BODY_RIGID, is_about_surfaces = narrowing->phase != CT_NARROW_WINDINGS;
    struct measured m = {.narrowing = narrowing,
                         .probes = &narrowing->probes[b],
                         .triangles = body->mesh->triangles,
                         .positions = is_rigid ? body->mesh->positions : body->resident->positions,
                         .pose = ct_body_pose(body),
                         .area_scale = ct_narrowing_area_scale(narrowing),
                         .extent = ct_extent_empty(),
                         .keep = narrowing->phase == CT_NARROW_SURFACES ? kept : NULL};
    for (int k = 0; k < 3; k++) {
        m.lo[k] = narrowing->region.lo[k] - narrowing->region.margin[k];
        m.hi[k] = narrowing->region.hi[k] + narrowing->region.margin[k];
    }
    ct_box boxes[CT_REGION_FACES] = {ct_region_surface_box(&narrowing->region)};
    const uint32_t n = is_about_surfaces ? 1 : ct_region_probe_boxes(&narrowing->region, m.probes, boxes);
    const ct_visit_triangles visit = is_about_surfaces ? measure_surfaces : measure_windings;
    ct_near_body near;
    if (narrowing->phase == CT_NARROW_UNSEEN && !narrowing->is_unseen[b]) return m.extent;
    if (narrowing->phase == CT_NARROW_GUESS) {
        measure_samples(&m, body->mesh->n_triangles);
        return m.extent;
    }
    if (m.keep && has_kept && kept->n <= KEPT_TRIANGLES) {
        measure_kept(&m);
        return m.extent;
    }
    if (m.keep) kept->n = 0;
    if (n > 0 && ct_cpu_near_body(pair, b, &near))
        ct_visit_near_boxes(&near, boxes, n, visit, &m);
    else if (n > 0)
        visit_all(visit, &m, body->mesh->n_triangles);
    return m.extent;
}

ct_box ct_cpu_find_part(const ct_pair_task *pair) {
    const ct_body *const *body = pair->body;
    ct_narrowing narrowing;
    struct kept_triangles kept[2]; /* 64 KiB */
    ct_narrowing_begin(&narrowing, &body[0]->box, &body[1]->box, body[0]->mesh->n_triangles,
                       body[1]->mesh->n_triangles);
    while (narrowing.phase != CT_NARROW_DONE && body[0] != body[1]) {
        const bool has_kept = narrowing.round > 0;
        ct_extent extent[2] = {measure(pair, 0, &narrowing, &kept[0], has_kept),
                               measure(pair, 1, &narrowing, &kept[1], has_kept)};
        if (ct_is_cancelled()) break; /* what was measured may lack triangles */
        ct_narrowing_advance(&narrowing, extent);
    }
    return narrowing.region.box;
}
