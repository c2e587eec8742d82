/* driver_check.h - checks once, before an OpenGL driver is used, that it computes the same bits as the CPU. */
#ifndef CT_DRIVER_CHECK_H
#define CT_DRIVER_CHECK_H

#include "gpu/methods/ldi/raster_gl.h"

/* Draws triangles, numerically difficult ones among them, and compares all results with raster_k.h's. UNSUPPORTED: they
 * differ; `renderer` is the driver's name in the message. */
ct_status ct_raster_gl_check_driver(ct_raster_gl *gl, const char *renderer, ct_error *error);

#endif
