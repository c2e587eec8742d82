/* device_gl.c - lets OpenGL draw for the CPU backend: one context per device, which the workspaces use in turn, and
 * buffers per workspace. */
#include "gpu/backend/cpu/device.h"
#include "gpu/backend/gl/context.h"
#include "gpu/raster/raster_gl.h"

static ct_status draw(ct_workspace *workspace, ct_drawing *drawing, ct_error *error) {
    return ct_raster_gl_draw(workspace->gl, &workspace->device->budget, drawing, error);
}

ct_status ct_cpu_gl_open(ct_device *device, ct_error *error) {
    ct_status status = ct_gl_context_create(NULL, &device->gl, error);
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES && !status; i++)
        status = ct_raster_gl_create(device->gl, &device->workspaces[i].gl, error);
    if (!status) device->draw = draw;
    return status;
}

void ct_cpu_gl_close(ct_device *device) {
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++)
        ct_raster_gl_destroy(&device->workspaces[i].gl, &device->budget);
    ct_gl_context_destroy(&device->gl);
}

void ct_cpu_gl_release(ct_workspace *workspace) {
    if (workspace->gl) ct_raster_gl_release(workspace->gl, &workspace->device->budget);
}

const char *ct_cpu_gl_renderer(const ct_device *device) {
    return device->gl ? ct_gl_context_facts(device->gl)->renderer : "";
}
