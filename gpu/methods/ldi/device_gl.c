/* device_gl.c - lets OpenGL draw for the CPU backend: one context per device, which the workspaces use in turn, and
 * buffers per workspace. */
#include "gpu/device/gl/context.h"
#include "gpu/methods/ldi/pair_cpu.h"

static ct_status draw(ct_workspace *workspace, ct_drawing *drawing, ct_error *error) {
    return ct_raster_gl_draw(ct_ldi_workspace_of(workspace)->gl, &workspace->device->budget, drawing, error);
}

ct_status ct_cpu_gl_open(ct_device *device, ct_error *error) {
    ct_ldi_device *ldi = ct_ldi_device_of(device);
    ct_status status = ct_gl_context_create(NULL, &ldi->gl, error);
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES && !status; i++)
        status = ct_raster_gl_create(ldi->gl, &ct_ldi_workspace_of(&device->workspaces[i])->gl, error);
    if (!status) ldi->draw = draw;
    return status;
}

void ct_cpu_gl_close(ct_device *device) {
    for (int i = 0; i < CT_MAX_CONCURRENT_BATCHES; i++)
        if (ct_ldi_workspace_of(&device->workspaces[i]))
            ct_raster_gl_destroy(&ct_ldi_workspace_of(&device->workspaces[i])->gl, &device->budget);
    if (ct_ldi_device_of(device)) ct_gl_context_destroy(&ct_ldi_device_of(device)->gl);
}

void ct_cpu_gl_release(ct_workspace *workspace) {
    ct_raster_gl *gl = ct_ldi_workspace_of(workspace)->gl;
    if (gl) ct_raster_gl_release(gl, &workspace->device->budget);
}

const char *ct_cpu_gl_renderer(const ct_device *device) {
    const struct ct_gl_context *gl = ct_ldi_device_of(device)->gl;
    return gl ? ct_gl_context_facts(gl)->renderer : "";
}
