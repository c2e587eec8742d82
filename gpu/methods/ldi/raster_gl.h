/* raster_gl.h - the raster stage on OpenGL: draws the quads of many views at once and returns a list of fragments per
 * ray, for the CPU's span stage. The bits are those of raster_cpu.h (see quad_k.h).
 *
 * Of each pair one body is drawn first and the other in a second pass. A span needs both bodies, so the second pass
 * keeps fragments only on rays that have a fragment of the first body or start inside it. Other samples of the
 * second body are dropped before their depths and weights are computed.
 */
#ifndef CT_RASTER_GL_H
#define CT_RASTER_GL_H

#include "gpu/include/contact.h"
#include "gpu/methods/ldi/quad_k.h"
#include "gpu/methods/ldi/raster_cpu.h"
#include "gpu/methods/ldi/shared_gl.h"

/* bins.c: */
/* A growing list of quads. To reuse its memory, set n and samples to 0. */
typedef struct ct_quads {
    ct_buffer memory; /* ct_quad [n] */
    size_t n;
    uint64_t samples; /* in all their rectangles: an upper bound of the number of fragments */
} ct_quads;

/* Appends the quads of a chunk's entries in bins [first, end) of one view, which region number `region` of a drawing
 * shows. The plan is uniform and one bin across; the chunk holds no crossings. False: out of memory. */
bool ct_quads_add(ct_quads *quads, ct_budget *budget, const ct_window *window, const ct_bin_plan *plan,
                  const ct_binned_chunk *chunk, uint32_t first, uint32_t end, uint32_t region);

/* Input and output of ct_raster_gl_draw. */
typedef struct ct_drawing {
    ct_draw_region *regions; /* [n_regions]; ct_raster_gl_draw sets left and bottom */
    uint32_t n_regions;
    uint32_t n_rays;                 /* of all regions */
    const ct_quads *const *parts[2]; /* [n_parts] each: quads of the first and of the second pass */
    size_t n_parts;
    /* Output, in OpenGL's mapped buffers: valid until the next drawing, ct_raster_gl_release or ct_raster_gl_destroy.
     * In a ray's list the second body's fragments come before the first's. */
    uint32_t *head;                /* [n_rays]: index of the ray's first fragment, or CT_END */
    int32_t (*winding)[2];         /* [n_rays]: initial winding numbers of bodies that are CT_INITIAL_COUNTED, else 0 */
    ct_linked_fragment *fragments; /* [n_fragments] */
    uint32_t n_fragments;
} ct_drawing;

void ct_raster_gl_destroy(ct_raster_gl **gl, ct_budget *budget); /* nulls; NULL is allowed */

/* Buffers count against the budget and grow until all fragments fit. LIMIT_EXCEEDED: the drawing exceeds a limit of
 * OpenGL, so draw it in parts; OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_raster_gl_draw(ct_raster_gl *gl, ct_budget *budget, ct_drawing *drawing, ct_error *error);

void ct_raster_gl_release(ct_raster_gl *gl, ct_budget *budget); /* frees the buffers */

#endif
