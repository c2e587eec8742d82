/* proof.h - whether a driver's OpenGL gives the same bits as the CPU: tried once, before it is used. */
#ifndef CT_PROOF_H
#define CT_PROOF_H

#include "gpu/raster/raster_gl.h"

/* Draws some triangles, those most awkward for numbers among them. UNSUPPORTED: `renderer` drew something else. */
ct_status ct_raster_gl_prove(ct_raster_gl *gl, const char *renderer, ct_error *error);

#endif
