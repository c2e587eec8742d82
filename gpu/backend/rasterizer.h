/* rasterizer.h - what the option "rasterizer" asks for, the same for every backend. */
#ifndef CT_RASTERIZER_H
#define CT_RASTERIZER_H

#include <stdbool.h>

#include "gpu/include/contact.h"

/* *draws: OpenGL is to draw the views. UNSUPPORTED: there is none of that name, or not in this build. */
ct_status ct_rasterizer_choose(const char *name, bool *draws, ct_error *error);

#endif
