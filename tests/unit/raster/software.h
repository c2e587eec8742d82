/* software.h - a software drawer that replaces OpenGL in tests: it draws quads with raster_k.h, and checks the
 * quads. */
#ifndef SOFTWARE_H
#define SOFTWARE_H

#include <stdlib.h>
#include <string.h>

#include "gpu/methods/ldi/raster_gl.h"
#include "tests/unit/unit.h"

struct software {
    uint32_t *head;
    int32_t (*winding)[2];
    ct_linked_fragment *fragments;
    size_t capacity; /* fragments */
};

static inline void software_free(struct software *memory) {
    free(memory->head);
    free(memory->winding);
    free(memory->fragments);
    memset(memory, 0, sizeof *memory);
}

static inline void software_put(struct software *memory, ct_drawing *d, uint32_t ray, ct_fragment f) {
    if (d->n_fragments == memory->capacity) {
        memory->capacity = memory->capacity ? 2 * memory->capacity : 1024;
        memory->fragments = realloc(memory->fragments, memory->capacity * sizeof *memory->fragments);
        assert_non_null(memory->fragments);
    }
    memory->fragments[d->n_fragments] = (ct_linked_fragment){f, d->head[ray]};
    d->head[ray] = d->n_fragments++;
}

/* Tests one sample with nothing but the quad's fields, as quad_fragment.glsl does. */
static inline void software_sample(struct software *memory, ct_drawing *d, const ct_quad *p,
                                   const ct_draw_region *region, int32_t row, int32_t column, int second) {
    const int32_t a[3] = {0, 0, p->z0}, b[3] = {p->xb, p->yb, p->z0 + p->dz1}, c[3] = {p->xc, p->yc, p->z0 + p->dz2};
    int sign = p->flags & CT_QUAD_CLOCKWISE ? -1 : 1; /* the corners are negated where clockwise: seen from behind */
    const int32_t bb[3] = {sign * b[0], sign * b[1], b[2]}, cc[3] = {sign * c[0], sign * c[1], c[2]};
    ct_triangle_setup s;
    memset(&s, 0, sizeof s);
    assert_int_equal(ct_make_setup(&s, a, bb, cc, 0, 1, 2, ct_sample_coord(column, region->shift_u) - p->x0,
                                   ct_sample_coord(row, region->shift_v) - p->y0, 0, 0),
                     1);
    assert_int_equal(s.ccw, sign);
    assert_true(s.inverse == p->inverse);
    for (int k = 0; k < 3; k++) assert_int_equal(ct_edge_inside(&s, k), p->flags >> k & 1);
    if (!ct_covers(&s, s.edge[0], s.edge[1], s.edge[2])) return;
    uint32_t body = p->tag >> 31,
             ray = (uint32_t)(region->first_ray + (row - region->first_row) * region->columns + column);
    assert_true(ray < d->n_rays);
    if (p->flags & CT_QUAD_BEFORE)
        d->winding[ray][body] -= sign;
    else if (!second || d->head[ray] != CT_END || d->winding[ray][1 - body] > 0)
        software_put(memory, d, ray, ct_fragment_at(&s, (double)s.edge[1], (double)s.edge[2], p->tag));
}

/* Draws both passes. The output is valid until the next drawing or software_free. */
static inline void software_draw(struct software *memory, ct_drawing *d) {
    software_free(memory);
    d->n_fragments = 0;
    d->head = memory->head = malloc(d->n_rays * sizeof *d->head);
    d->winding = memory->winding = calloc(d->n_rays, sizeof *d->winding);
    assert_true(d->head && d->winding);
    memset(d->head, 0xff, d->n_rays * sizeof *d->head);
    for (int order = 0; order < 2; order++)
        for (size_t i = 0; i < d->n_parts; i++) {
            const ct_quads *part = d->parts[order][i];
            const ct_quad *quads = part->memory.data;
            uint64_t samples = 0;
            for (size_t k = 0; k < part->n; k++) {
                const ct_quad *p = &quads[k];
                assert_true(p->region < d->n_regions);
                const ct_draw_region *region = &d->regions[p->region];
                assert_true(p->u0 < p->u1 && p->u1 <= region->columns);
                assert_true(p->v0 >= region->first_row && p->v0 < p->v1 && p->v1 <= region->first_row + region->rows);
                samples += (uint64_t)(p->u1 - p->u0) * (uint64_t)(p->v1 - p->v0);
                for (int32_t row = p->v0; row < p->v1; row++)
                    for (int32_t column = p->u0; column < p->u1; column++)
                        software_sample(memory, d, p, region, row, column, order);
            }
            assert_int_equal(samples, part->samples);
        }
    d->fragments = memory->fragments;
}

#endif
