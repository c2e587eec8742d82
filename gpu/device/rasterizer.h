/* rasterizer.h - parses the option "rasterizer", for every backend. */
#ifndef CT_RASTERIZER_H
#define CT_RASTERIZER_H

#include <stdbool.h>

#include "gpu/include/contact.h"

/* *is_opengl: OpenGL rasterises, not the backend itself. UNSUPPORTED: the name is unknown or not in this build. */
ct_status ct_rasterizer_choose(const char *name, bool *is_opengl, ct_error *error);

#endif
