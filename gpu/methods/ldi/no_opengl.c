/* no_opengl.c - device_gl.c's functions in a build without EGL. */
#include "gpu/methods/ldi/pair_cpu.h"

#ifndef CT_HAVE_EGL

#include "gpu/base/fail.h"

ct_status ct_cpu_gl_open(ct_device *device, ct_error *error) {
    (void)device;
    return ct_fail(error, CT_UNSUPPORTED, "rasterizer", "this build has no EGL rasteriser: build it with EGL=1");
}

void ct_cpu_gl_close(ct_device *device) {
    (void)device;
}

void ct_cpu_gl_release(ct_workspace *workspace) {
    (void)workspace;
}

const char *ct_cpu_gl_renderer(const ct_device *device) {
    (void)device;
    return "";
}

#endif
