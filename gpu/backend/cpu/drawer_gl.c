/* drawer_gl.c - the CPU backend's way to OpenGL: one context for the device, which workspaces take turns with, and for
 * each workspace buffers of its own. */
#include "gpu/backend/cpu/device.h"
#include "gpu/backend/gl/context.h"
#include "gpu/raster/raster_gl.h"

static ct_status open(ct_device *device, ct_error *error) {
    ct_status status = ct_gl_context_create(NULL, &device->gl, error);
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES && !status; i++)
        status = ct_raster_gl_create(device->gl, &device->workspaces[i].gl, error);
    return status;
}

static void close(ct_device *device) {
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++)
        ct_raster_gl_destroy(&device->workspaces[i].gl, &device->budget);
    ct_gl_context_destroy(&device->gl);
}

static void release(ct_workspace *workspace) {
    if (workspace->gl) ct_raster_gl_release(workspace->gl, &workspace->device->budget);
}

static ct_status draw(ct_workspace *workspace, ct_drawing *drawing, ct_error *error) {
    return ct_raster_gl_draw(workspace->gl, &workspace->device->budget, drawing, error);
}

static const char *renderer(const ct_device *device) {
    return ct_gl_context_facts(device->gl)->renderer;
}

const ct_drawer ct_drawer_egl = {"egl", open, close, release, draw, renderer};
