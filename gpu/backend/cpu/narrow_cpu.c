/* narrow_cpu.c - narrows the overlap of a pair's boxes on the CPU (gpu/narrow/region_k.h). Cluster trees find the
 * triangles near the region and its probes. */
#include <math.h>

#include "gpu/backend/cpu/device.h"
#include "gpu/mesh/mesh.h"
#include "gpu/narrow/region_k.h"

/* One body, being measured. */
struct measured {
    const ct_narrowing *narrowing;
    const uint32_t *triangles;
    const float *positions;
    const double *pose; /* NULL: positions are in the world's frame */
    double area_scale;
    ct_extent extent;
};

/* Corners relative to the region's origin. */
static void read_corners(const struct measured *m, uint32_t triangle, double corner[3][3]) {
    const double *origin = m->narrowing->region.origin;
    for (int i = 0; i < 3; i++) {
        const float *p = m->positions + 3 * (size_t)m->triangles[3 * (size_t)triangle + (size_t)i];
        for (int k = 0; k < 3; k++)
            corner[i][k] = (m->pose ? ct_pose_coord(m->pose + 4 * k, p[0], p[1], p[2]) : (double)p[k]) - origin[k];
    }
}

static void measure_triangles(void *context, uint32_t first, uint32_t end) {
    struct measured *m = context;
    double corner[3][3];
    for (uint32_t t = first; t < end; t++) {
        read_corners(m, t, corner);
        ct_extent_add_surface(&m->extent, &m->narrowing->region, m->area_scale, (const double(*)[3])corner);
        ct_extent_add_windings(&m->extent, &m->narrowing->region, &m->narrowing->probes, (const double(*)[3])corner);
    }
}

static void measure_samples(struct measured *m, uint32_t n_triangles) {
    double corner[3][3];
    for (uint32_t i = 0; i < ct_region_sample_count(n_triangles); i++) {
        read_corners(m, ct_region_sample(i, n_triangles), corner);
        ct_extent_add_surface(&m->extent, &m->narrowing->region, m->area_scale, (const double(*)[3])corner);
    }
}

/* The boxes that hold all triangles which a measurement may need: the region's and those around its probes' rays.
 * Returns their number. */
static uint32_t boxes_of(const ct_narrowing *narrowing, ct_box boxes[1 + CT_REGION_FACES]) {
    const ct_region *region = &narrowing->region;
    uint32_t n = 1;
    for (int k = 0; k < 3; k++) {
        boxes[0].lo[k] = region->origin[k] + region->lo[k] - 2 * region->margin[k];
        boxes[0].hi[k] = region->origin[k] + region->hi[k] + 2 * region->margin[k];
    }
    for (int face = 0; face < CT_REGION_FACES; face++) {
        const ct_probe *probe = &narrowing->probes.of[face];
        if (!probe->is_valid) continue;
        for (int k = 0; k < 3; k++) {
            boxes[n].lo[k] = region->origin[k] + probe->at[k] - 2 * region->margin[k];
            boxes[n].hi[k] = region->origin[k] + probe->at[k] + 2 * region->margin[k];
        }
        *(probe->sign > 0 ? &boxes[n].hi[probe->axis] : &boxes[n].lo[probe->axis]) = probe->sign * (double)INFINITY;
        n++;
    }
    return n;
}

static ct_extent measure(const ct_pair_task *pair, int b, const ct_narrowing *narrowing) {
    const ct_body *body = pair->body[b];
    const bool is_rigid = body->kind == CT_BODY_RIGID;
    struct measured m = {.narrowing = narrowing,
                         .triangles = body->mesh->triangles,
                         .positions = is_rigid ? body->mesh->positions : body->resident->positions,
                         .pose = is_rigid ? body->pose : NULL,
                         .area_scale = ct_area_scale(&narrowing->region),
                         .extent = ct_extent_empty()};
    ct_near_body near;
    if (ct_is_guessing(narrowing)) {
        measure_samples(&m, body->mesh->n_triangles);
    } else if (ct_cpu_near_body(pair, b, &near)) {
        ct_box boxes[1 + CT_REGION_FACES];
        ct_visit_near_boxes(&near, boxes, boxes_of(narrowing, boxes), measure_triangles, &m);
    } else {
        measure_triangles(&m, 0, body->mesh->n_triangles);
    }
    return m.extent;
}

ct_box ct_cpu_find_part(const ct_pair_task *pair) {
    const ct_body *const *body = pair->body;
    ct_narrowing narrowing;
    bool is_going_on = ct_narrowing_begin(&narrowing, &body[0]->box, &body[1]->box, body[0]->mesh->n_triangles,
                                          body[1]->mesh->n_triangles) &&
                       body[0] != body[1];
    while (is_going_on) {
        ct_extent extent[2] = {measure(pair, 0, &narrowing), measure(pair, 1, &narrowing)};
        is_going_on = ct_narrowing_advance(&narrowing, extent);
    }
    return narrowing.region.box;
}
