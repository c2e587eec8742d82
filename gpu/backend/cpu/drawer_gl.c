/* drawer_gl.c - the CPU backend's way to OpenGL: one context for the device, which lanes take turns with, and for each
 * lane buffers of its own. */
#include "gpu/backend/cpu/device.h"
#include "gpu/backend/gl/context.h"
#include "gpu/raster/raster_gl.h"

static ct_status open(ct_device *device, ct_error *error) {
    ct_status status = ct_gl_context_create(NULL, &device->gl, error);
    for (int i = 0; i < CT_LANES && !status; i++) status = ct_raster_gl_create(device->gl, &device->lanes[i].gl, error);
    return status;
}

static void close(ct_device *device) {
    for (int i = 0; i < CT_LANES; i++) ct_raster_gl_destroy(&device->lanes[i].gl, &device->budget);
    ct_gl_context_destroy(&device->gl);
}

static void release(ct_lane *lane) {
    if (lane->gl) ct_raster_gl_release(lane->gl, &lane->device->budget);
}

static ct_status draw(ct_lane *lane, ct_drawing *drawing, ct_error *error) {
    return ct_raster_gl_draw(lane->gl, &lane->device->budget, drawing, error);
}

static const char *renderer(const ct_device *device) {
    return ct_gl_context_facts(device->gl)->renderer;
}

const ct_drawer ct_drawer_egl = {"egl", open, close, release, draw, renderer};
