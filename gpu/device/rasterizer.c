/* rasterizer.c - the names of the rasterisers. */
#include "gpu/device/rasterizer.h"

#include <string.h>

#include "gpu/base/fail.h"

ct_status ct_rasterizer_choose(const char *name, bool *is_opengl, ct_error *error) {
    *is_opengl = name && !strcmp(name, "egl");
    if (!*is_opengl && name && strcmp(name, "auto") != 0 && strcmp(name, "native") != 0)
        return ct_fail(error, CT_UNSUPPORTED, "rasterizer", "there is no rasterizer \"%s\": choose native or egl",
                       name);
#ifndef CT_HAVE_EGL
    if (*is_opengl)
        return ct_fail(error, CT_UNSUPPORTED, "rasterizer",
                       "rasterizer \"egl\" is not in this build, which has: native. Install libepoxy-dev and "
                       "libpng-dev, and build without EGL=0");
#endif
    return CT_OK;
}
