/* interop_cuda.cu - buffers that OpenGL and CUDA share, and which of the two may use them when. */
#include "gpu/methods/ldi/drive_cuda.cuh"

#ifdef CT_HAVE_EGL

extern "C" {
#include "gpu/device/gl/context.h"
}

#ifndef CT_CUDA_SHIM
/* As in cuda_gl_interop.h, which wants OpenGL's headers. */
extern "C" {
enum cudaGLDeviceList { cudaGLDeviceListAll = 1 };
cudaError_t CUDARTAPI cudaGLGetDevices(unsigned *n, int *devices, unsigned capacity, enum cudaGLDeviceList list);
cudaError_t CUDARTAPI cudaGraphicsGLRegisterBuffer(struct cudaGraphicsResource **resource, unsigned buffer,
                                                   unsigned flags);
}
#endif

/* The first error while a thread holds OpenGL's context. The thread reports it after leaving the context: reporting
 * takes the device's mutex, whose holder may be waiting for the context. */
struct first_error {
    cudaError_t code;
    const char *what;
    ct_error error; /* of OpenGL's */
};

static bool try_cuda(first_error *t, cudaError_t code, const char *what) {
    if (code == cudaSuccess) return true;
    if (t->code == cudaSuccess) {
        t->code = code;
        t->what = what;
    }
    return false;
}

/* Reports the error. False: there is one, and the device is lost. */
static bool report(ct_device *device, const first_error *t) {
    if (t->error.status) ct_gpu_lose(device, t->error.message);
    return ct_gpu_ok(device, t->code, t->what) && !t->error.status;
}

/* ---- buffers ---- */

static const uint64_t LEAST = 4096; /* bytes */

static void free_inside(ct_workspace *workspace, int which, first_error *t) {
    ct_gpu_shared *shared = &ct_gpu_ldi(workspace)->shared[which];
    cudaGraphicsResource_t resource = shared->resource;
    unsigned none;
    shared->resource = NULL;
    if (resource) try_cuda(t, cudaGraphicsUnregisterResource(resource), "unregistering an OpenGL buffer");
    ct_raster_gl_replace_buffer(ct_gpu_ldi(workspace)->gl, (ct_gl_buffer)which, 0, &none, NULL);
}

/* Buffers first to end - 1. False: the device is lost. */
static bool free_buffers(ct_device *device, ct_workspace *workspace, int first, int end) {
    first_error t = {cudaSuccess, "", {}};
    if (ct_gl_enter(device->gl, &t.error) == CT_OK) {
        for (int i = first; i < end; i++) free_inside(workspace, i, &t);
        ct_gl_leave(device->gl);
    }
    for (int i = first; i < end; i++) {
        if (ct_gpu_ldi(workspace)->shared[i].bytes)
            ct_gpu_return_foreign(device, ct_gpu_ldi(workspace)->shared[i].bytes);
        ct_gpu_ldi(workspace)->shared[i].bytes = 0;
    }
    return report(device, &t);
}

/* Grows a buffer to at least so many bytes; its content is lost if it grows. */
static bool grow(ct_device *device, ct_workspace *workspace, ct_gl_buffer which, uint64_t bytes) {
    ct_gpu_shared *shared = &ct_gpu_ldi(workspace)->shared[which];
    if (bytes <= shared->bytes) return true;
    const uint64_t reach = ct_raster_gl_max_buffer_bytes(ct_gpu_ldi(workspace)->gl);
    if (bytes > reach) return false;
    if (!free_buffers(device, workspace, which, which + 1)) return false;
    uint64_t more = bytes + bytes / 4;
    if (more > reach) more = reach;
    if (!ct_gpu_reserve_foreign(device, more, workspace)) {
        more = bytes;
        if (!ct_gpu_reserve_foreign(device, more, workspace)) return false;
    }
    ct_gpu_trim_pool(device);
    bool has = false;
    first_error t = {cudaSuccess, "", {}};
    if (ct_gl_enter(device->gl, &t.error) == CT_OK) {
        unsigned name = 0;
        has = ct_raster_gl_replace_buffer(ct_gpu_ldi(workspace)->gl, which, more, &name, &t.error) == CT_OK &&
              try_cuda(&t, cudaGraphicsGLRegisterBuffer(&shared->resource, name, 0), "sharing a buffer with OpenGL");
        if (!has) free_inside(workspace, which, &t);
        ct_gl_leave(device->gl);
    }
    if (has)
        shared->bytes = more;
    else
        ct_gpu_return_foreign(device, more);
    if (which == CT_GL_HEADS || which == CT_GL_WINDINGS) ct_gpu_ldi(workspace)->gl_is_clean = false;
    if (t.error.status == CT_OUT_OF_MEMORY || t.code == cudaErrorMemoryAllocation) { /* as with a smaller budget */
        cudaGetLastError();
        return false;
    }
    return report(device, &t) && has;
}

void ct_gpu_gl_free(ct_device *device, ct_workspace *workspace) {
    if (!ct_gpu_ldi(workspace)->gl) return;
    free_buffers(device, workspace, 0, CT_GL_BUFFERS);
    ct_gpu_ldi(workspace)->gl_is_clean = false;
}

static uint32_t commands_for(uint64_t quads) {
    return (uint32_t)(quads / CT_COMMAND_QUADS + 1);
}
static_assert((CT_GL_MAX_BUFFER_BYTES / sizeof(ct_quad) / CT_COMMAND_QUADS + 1) * sizeof(ct_draw_command) <= LEAST,
              "the buffer of commands never grows");

bool ct_gpu_gl_reserve(ct_device *device, ct_workspace *workspace) {
    bool ok = true;
    for (int i = 0; i < CT_GL_BUFFERS; i++) ok = ok && grow(device, workspace, (ct_gl_buffer)i, LEAST);
    return ok;
}

static bool grow_for(ct_device *device, ct_workspace *workspace, ct_gl_buffer which, uint64_t bytes, const char *what,
                     ct_gpu_need *n) {
    n->what = what;
    n->bytes = bytes;
    n->most = bytes > ct_raster_gl_max_buffer_bytes(ct_gpu_ldi(workspace)->gl)
                  ? ct_raster_gl_max_buffer_bytes(ct_gpu_ldi(workspace)->gl)
                  : 0;
    return grow(device, workspace, which, bytes);
}

bool ct_gpu_gl_grow(ct_device *device, ct_workspace *workspace, const ct_gpu_counts *c, uint32_t shortage,
                    ct_gpu_need *n) {
    bool ok = true;
    if (c->samples > UINT32_MAX) {
        n->what = "fragments, which are counted in 32 bits, of the rectangles around triangles";
        n->bytes = c->samples * sizeof(ct_linked_fragment);
        n->most = UINT32_MAX * (uint64_t)sizeof(ct_linked_fragment);
        return false;
    }
    if (shortage & CT_SHORT_PAIRS)
        ok =
            ok && grow_for(device, workspace, CT_GL_REGIONS, c->pairs * 3 * sizeof(ct_draw_region), "views to draw", n);
    if (shortage & CT_SHORT_RAYS)
        ok = ok && grow_for(device, workspace, CT_GL_HEADS, c->rays * sizeof(uint32_t), "rays to draw", n) &&
             grow_for(device, workspace, CT_GL_WINDINGS, c->rays * sizeof(int32_t[2]), "rays to draw", n);
    if (shortage & CT_SHORT_QUADS)
        ok = ok && grow_for(device, workspace, CT_GL_QUADS, c->quads * sizeof(ct_quad), "triangles to draw", n);
    if (shortage & CT_SHORT_FRAGMENTS)
        ok = ok && grow_for(device, workspace, CT_GL_FRAGMENTS, c->fragments * sizeof(ct_linked_fragment),
                            "ray crossings drawn", n);
    return ok;
}

static void lower(uint64_t *count, uint64_t bytes, uint64_t each) {
    if (bytes / each < *count) *count = bytes / each;
}

void ct_gpu_gl_limit(const ct_workspace *workspace, ct_gpu_capacity *capacity) {
    lower(&capacity->pairs, ct_gpu_ldi(workspace)->shared[CT_GL_REGIONS].bytes, 3 * sizeof(ct_draw_region));
    lower(&capacity->rays, ct_gpu_ldi(workspace)->shared[CT_GL_HEADS].bytes, sizeof(uint32_t));
    lower(&capacity->rays, ct_gpu_ldi(workspace)->shared[CT_GL_WINDINGS].bytes, sizeof(int32_t[2]));
    lower(&capacity->fragments, ct_gpu_ldi(workspace)->shared[CT_GL_FRAGMENTS].bytes, sizeof(ct_linked_fragment));
    capacity->quads = ct_gpu_ldi(workspace)->shared[CT_GL_QUADS].bytes / sizeof(ct_quad);
}

/* ---- a drawing ---- */

static void *pointer_to(ct_workspace *workspace, ct_gl_buffer which, first_error *t) {
    void *at = NULL;
    size_t bytes = 0;
    if (t->code == cudaSuccess)
        try_cuda(t, cudaGraphicsResourceGetMappedPointer(&at, &bytes, ct_gpu_ldi(workspace)->shared[which].resource),
                 "asking for the address of an OpenGL buffer");
    return at;
}

/* Maps buffers: CUDA may use them after OpenGL has finished its commands. */
static bool map_buffers(ct_workspace *workspace, const ct_gl_buffer *which, int n, first_error *t) {
    cudaGraphicsResource_t resources[CT_GL_BUFFERS];
    for (int i = 0; i < n; i++) resources[i] = ct_gpu_ldi(workspace)->shared[which[i]].resource;
    return try_cuda(t, cudaGraphicsMapResources(n, resources, workspace->stream), "mapping OpenGL buffers");
}

/* Unmaps buffers: OpenGL may use them after the stream has finished its work. */
static void unmap_buffers(ct_workspace *workspace, const ct_gl_buffer *which, int n, first_error *t) {
    cudaGraphicsResource_t resources[CT_GL_BUFFERS];
    for (int i = 0; i < n; i++) resources[i] = ct_gpu_ldi(workspace)->shared[which[i]].resource;
    try_cuda(t, cudaGraphicsUnmapResources(n, resources, workspace->stream), "unmapping OpenGL buffers");
}

/* Empties OpenGL's lists of fragments. A finished batch leaves them empty; new memory and a batch with a shortage do
 * not. */
static void clear_lists(ct_workspace *workspace, first_error *t) {
    static const ct_gl_buffer which[] = {CT_GL_HEADS, CT_GL_WINDINGS};
    if (ct_gpu_ldi(workspace)->gl_is_clean || !map_buffers(workspace, which, 2, t)) return;
    for (int i = 0; i < 2; i++) {
        void *at = pointer_to(workspace, which[i], t);
        if (at)
            try_cuda(
                t, cudaMemsetAsync(at, i ? 0 : 0xff, ct_gpu_ldi(workspace)->shared[which[i]].bytes, workspace->stream),
                "clearing a buffer of OpenGL's");
    }
    unmap_buffers(workspace, which, 2, t);
}

static unsigned make_quads(ct_workspace *workspace, ct_draw_tables *b, first_error *t) {
    static const ct_gl_buffer which[] = {CT_GL_QUADS, CT_GL_REGIONS, CT_GL_COMMANDS, CT_GL_COUNTER};
    unsigned n = 0;
    if (t->code != cudaSuccess || !map_buffers(workspace, which, 4, t)) return 0;
    b->quads = (ct_quad *)pointer_to(workspace, CT_GL_QUADS, t);
    b->draw_regions = (ct_draw_region *)pointer_to(workspace, CT_GL_REGIONS, t);
    b->draw_commands = (ct_draw_command *)pointer_to(workspace, CT_GL_COMMANDS, t);
    b->n_drawn = (uint32_t *)pointer_to(workspace, CT_GL_COUNTER, t);
    b->n_draw_commands = commands_for(b->capacity.quads);
    if (t->code == cudaSuccess) n = ct_cuda_make_quads(b, workspace->grid, workspace->stream);
    unmap_buffers(workspace, which, 4, t);
    return n;
}

static unsigned read_drawn(ct_workspace *workspace, ct_draw_tables *b, first_error *t) {
    static const ct_gl_buffer which[] = {CT_GL_HEADS, CT_GL_WINDINGS, CT_GL_FRAGMENTS, CT_GL_COUNTER};
    unsigned n = 0;
    if (t->code != cudaSuccess || !map_buffers(workspace, which, 4, t)) return 0;
    b->drawn_heads = (uint32_t *)pointer_to(workspace, CT_GL_HEADS, t);
    b->drawn_windings = (int32_t(*)[2])pointer_to(workspace, CT_GL_WINDINGS, t);
    b->drawn_fragments = (ct_linked_fragment *)pointer_to(workspace, CT_GL_FRAGMENTS, t);
    b->n_drawn = (uint32_t *)pointer_to(workspace, CT_GL_COUNTER, t);
    if (t->code == cudaSuccess) n = ct_cuda_read_drawn(b, workspace->grid, workspace->stream);
    unmap_buffers(workspace, which, 4, t);
    return n;
}

bool ct_gpu_gl_draw(ct_device *device, ct_workspace *workspace, const ct_raster_tables *batch, unsigned *launches) {
    ct_draw_tables b = {};
    static_cast<ct_raster_tables &>(b) = *batch;
    first_error t = {cudaSuccess, "", {}};
    if (ct_gl_enter(device->gl, &t.error) == CT_OK) {
        clear_lists(workspace, &t);
        *launches += make_quads(workspace, &b, &t);
        ct_gpu_ldi(workspace)->gl_is_clean =
            t.code == cudaSuccess && ct_raster_gl_draw_shared(ct_gpu_ldi(workspace)->gl, b.n_draw_commands,
                                                              (uint32_t)b.capacity.fragments, &t.error) == CT_OK;
        if (ct_gpu_ldi(workspace)->gl_is_clean) *launches += read_drawn(workspace, &b, &t);
        ct_gl_leave(device->gl);
    }
    return report(device, &t);
}

/* ---- opening ---- */

/* Checks that CUDA, too, says that the context is on this device. */
static ct_status check_same_gpu(ct_device *device, ct_error *error) {
    unsigned n = 0;
    int found[CT_MAX_DEVICES];
    ct_status status = ct_gl_enter(device->gl, error);
    if (status) return status;
    const cudaError_t code = cudaGLGetDevices(&n, found, CT_MAX_DEVICES, cudaGLDeviceListAll);
    cudaGetLastError(); /* "none" is an answer, not an error of a later call */
    ct_gl_leave(device->gl);
    for (unsigned i = 0; i < n && code == cudaSuccess; i++)
        if (found[i] == device->ordinal) return CT_OK;
    char what[96];
    if (code)
        snprintf(what, sizeof what, "none (%s)", cudaGetErrorName(code));
    else
        snprintf(what, sizeof what, n ? "device %d" : "none", found[0]);
    const ct_gl_facts *facts = ct_gl_context_facts(device->gl);
    return ct_fail(error, CT_UNSUPPORTED, "rasterizer",
                   "EGL device %d, %s, is not the GPU that CUDA calls device %d, %s, but to CUDA %s: choose GPUs by "
                   "devices in place of CUDA_VISIBLE_DEVICES, or use the native rasterizer",
                   facts->device, facts->renderer, device->ordinal, device->name, what);
}

/* CUDA writes a word into a shared buffer and OpenGL reads it. */
static bool write_and_read(ct_device *device, ct_workspace *workspace, uint32_t *read, first_error *t) {
    static const ct_gl_buffer which[] = {CT_GL_COUNTER};
    if (ct_gl_enter(device->gl, &t->error)) return false;
    if (map_buffers(workspace, which, 1, t)) {
        void *at = pointer_to(workspace, CT_GL_COUNTER, t);
        if (at)
            try_cuda(t, cudaMemsetAsync(at, 0xc7, sizeof *read, workspace->stream), "writing to a buffer of OpenGL's");
        unmap_buffers(workspace, which, 1, t);
    }
    const bool ok = t->code == cudaSuccess &&
                    ct_raster_gl_read(ct_gpu_ldi(workspace)->gl, CT_GL_COUNTER, sizeof *read, read, &t->error) == CT_OK;
    ct_gl_leave(device->gl);
    return ok;
}

static ct_status test_sharing(ct_device *device, ct_workspace *workspace, ct_error *error) {
    first_error t = {cudaSuccess, "", {}};
    uint32_t read = 0;
    const bool has = ct_gpu_gl_reserve(device, workspace), ok = has && write_and_read(device, workspace, &read, &t);
    if (!report(device, &t) || device->lost)
        return ct_fail(error, CT_UNSUPPORTED, "rasterizer",
                       "CUDA and OpenGL do not share memory on device %d, %s: %s. Use a newer driver, or the native "
                       "rasterizer",
                       device->ordinal, device->name, device->lost_reason);
    if (!has)
        return ct_fail(error, CT_OUT_OF_MEMORY, "rasterizer", "device %d, %s: no memory for buffers of OpenGL's",
                       device->ordinal, device->name);
    if (!ok || read != 0xc7c7c7c7)
        return ct_fail(error, CT_UNSUPPORTED, "rasterizer",
                       "CUDA and OpenGL do not share memory on device %d, %s: one wrote c7c7c7c7, the other read %08x. "
                       "Use a newer driver, or the native rasterizer",
                       device->ordinal, device->name, read);
    return CT_OK;
}

ct_status ct_gpu_gl_open(ct_device *device, ct_error *error) {
#ifdef CT_CUDA_SHIM
    const ct_gl_choice choice = {CT_GL_ANY, CT_GL_ANY}; /* the CPU is not one of CUDA's EGL devices */
#else
    const ct_gl_choice choice = {CT_GL_ANY, device->ordinal};
#endif
    ct_status status = ct_gl_context_create(&choice, &device->gl, error);
    if (!status) status = check_same_gpu(device, error);
    for (ct_workspace &workspace : device->workspaces) {
        if (!status) status = ct_raster_gl_create(device->gl, &ct_gpu_ldi(&workspace)->gl, error);
        if (!status) status = test_sharing(device, &workspace, error);
    }
    return status;
}

void ct_gpu_gl_close(ct_device *device) {
    ct_gl_context_destroy(&device->gl);
}

void ct_gpu_gl_destroy(ct_gpu_ldi_scratch *scratch) {
    ct_raster_gl_close(&scratch->gl);
}

#else

ct_status ct_gpu_gl_open(ct_device *, ct_error *error) {
    return ct_fail(error, CT_UNSUPPORTED, "rasterizer", "this build has no EGL");
}

void ct_gpu_gl_close(ct_device *) {
}

bool ct_gpu_gl_reserve(ct_device *, ct_workspace *) {
    return false;
}

bool ct_gpu_gl_grow(ct_device *, ct_workspace *, const ct_gpu_counts *, uint32_t, ct_gpu_need *) {
    return false;
}

void ct_gpu_gl_limit(const ct_workspace *, ct_gpu_capacity *) {
}

bool ct_gpu_gl_draw(ct_device *, ct_workspace *, const ct_raster_tables *, unsigned *) {
    return false;
}

void ct_gpu_gl_free(ct_device *, ct_workspace *) {
}

void ct_gpu_gl_destroy(ct_gpu_ldi_scratch *) {
}

#endif
