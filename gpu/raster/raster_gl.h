/* raster_gl.h - the raster stage on OpenGL: draws the patches of many views at once and gives the lists of fragments
 * per ray that the CPU's span stage takes. The same bits as raster_cpu.h: OpenGL fills rectangles of samples, and a
 * shader decides about each sample on integers and computes its fragment as raster_k.h does, so nothing hangs on how
 * exactly a driver places edges.
 */
#ifndef CT_RASTER_GL_H
#define CT_RASTER_GL_H

#include "gpu/include/contact.h"
#include "gpu/raster/patch.h"
#include "gpu/raster/shared_gl.h"

/* One drawing. */
typedef struct ct_drawing {
    ct_draw_region *tiles; /* [n_tiles]; left and bottom are set */
    uint32_t n_tiles;
    uint32_t n_rays;                   /* of all tiles */
    const ct_patches *const *parts[2]; /* [n_parts] each: of each pair the body that is drawn first, and the other */
    size_t n_parts;
    /* out: what OpenGL wrote, by ray; valid until the next drawing, ct_raster_gl_release or the end. Of each ray the
     * fragments of the second body come before those of the first. */
    uint32_t *head;
    int32_t (*winding)[2]; /* of bodies that are CT_INITIAL_COUNTED, else 0 */
    ct_linked_fragment *fragments;
    uint32_t n_fragments;
} ct_drawing;

void ct_raster_gl_destroy(ct_raster_gl **gl, ct_budget *budget); /* nulls; NULL is allowed */

/* Buffers are counted against the budget and grow until everything fits. LIMIT_EXCEEDED: it is more than OpenGL takes
 * at once, and has to be drawn in parts; OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_raster_gl_draw(ct_raster_gl *gl, ct_budget *budget, ct_drawing *drawing, ct_error *error);

void ct_raster_gl_release(ct_raster_gl *gl, ct_budget *budget); /* gives back the buffers' memory */

#endif
