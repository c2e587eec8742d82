/* raster_gl.c - draws quads in two passes (raster_gl.h). The draw regions are side by side in a framebuffer without
 * attachments: only the shader's buffers are written. */
#include "gpu/methods/ldi/raster_gl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <epoxy/gl.h>

#include "gpu/base/fail.h"
#include "gpu/device/gl/context.h"
#include "gpu/methods/ldi/driver_check.h"

#include "quad_fragment_glsl.h"
#include "quad_vertex_glsl.h"

enum { N_SHADER_BUFFERS = CT_GL_COMMANDS }; /* all but the commands, which the draw call reads */
enum { UNIFORM_PIXEL, UNIFORM_CAPACITY, UNIFORM_IS_SECOND_PASS };

struct buffer {
    GLuint name;
    size_t capacity; /* bytes */
    bool mapped;
};

struct ct_raster_gl {
    ct_gl_context *context;
    GLuint program, framebuffer, vertices, indices;
    struct buffer buffers[CT_GL_BUFFERS];
    size_t max_buffer_bytes; /* bytes, of a buffer that a shader can access */
    int32_t max_side;        /* pixels, of the framebuffer */
};

/* ---- buffers ---- */

/* Grows a buffer to at least `bytes`; its content is undefined afterwards. */
static ct_status reserve(ct_raster_gl *gl, int which, ct_budget *budget, size_t bytes, ct_error *error) {
    struct buffer *buffer = &gl->buffers[which];
    if (bytes <= buffer->capacity) return CT_OK;
    if (bytes > gl->max_buffer_bytes)
        return ct_fail(error, CT_LIMIT_EXCEEDED, "rasterizer",
                       "a buffer of %zu bytes, but shaders can access at most %zu", bytes, gl->max_buffer_bytes);
    glDeleteBuffers(1, &buffer->name); /* also unmaps it */
    ct_budget_release(budget, buffer->capacity);
    *buffer = (struct buffer){0};
    size_t capacity = bytes + bytes / 4;
    if (capacity > gl->max_buffer_bytes) capacity = gl->max_buffer_bytes;
    if (!ct_budget_reserve(budget, capacity)) {
        capacity = bytes;
        if (!ct_budget_reserve(budget, capacity))
            return ct_fail(error, CT_OUT_OF_MEMORY, "scratch", "no memory for %zu bytes of OpenGL buffers", bytes);
    }
    buffer->capacity = capacity;
    glCreateBuffers(1, &buffer->name);
    glNamedBufferStorage(buffer->name, (GLsizeiptr)capacity, NULL, GL_MAP_READ_BIT | GL_DYNAMIC_STORAGE_BIT);
    return ct_gl_check(gl->context, "making a buffer", error);
}

static void unmap_all(ct_raster_gl *gl) {
    for (int i = 0; i < CT_GL_BUFFERS; i++) {
        if (gl->buffers[i].mapped) glUnmapNamedBuffer(gl->buffers[i].name);
        gl->buffers[i].mapped = false;
    }
}

static void *map_buffer(ct_raster_gl *gl, int which, size_t bytes) {
    struct buffer *buffer = &gl->buffers[which];
    if (!bytes) return NULL;
    buffer->mapped = true;
    return glMapNamedBufferRange(buffer->name, 0, (GLsizeiptr)bytes, GL_MAP_READ_BIT);
}

/* ---- drawing ---- */

/* Sets left and bottom of the draw regions: in rows, in a nearly square framebuffer, so that all of the GPU's raster
 * units have work. False: it exceeds OpenGL's limits. */
static bool place_regions(const ct_raster_gl *gl, ct_drawing *d, int32_t *width, int32_t *height) {
    int32_t side = (int32_t)fmin(ceil(sqrt(d->n_rays)), gl->max_side);
    for (uint32_t i = 0; i < d->n_regions; i++)
        if (d->regions[i].columns > side) side = d->regions[i].columns;
    int32_t left = 0, bottom = 0, top = 0;
    for (uint32_t i = 0; i < d->n_regions; i++) {
        ct_draw_region *region = &d->regions[i];
        if (left + region->columns > side) {
            left = 0;
            bottom = top;
        }
        region->left = left;
        region->bottom = bottom;
        left += region->columns;
        if (bottom + region->rows > top) top = bottom + region->rows;
    }
    *width = side;
    *height = top;
    return side <= gl->max_side && top <= gl->max_side;
}

static void set_state(const ct_raster_gl *gl, int32_t width, int32_t height, uint32_t capacity) {
    static const GLenum off[] = {GL_CULL_FACE, GL_DEPTH_TEST,         GL_STENCIL_TEST, GL_SCISSOR_TEST,     GL_BLEND,
                                 GL_DITHER,    GL_RASTERIZER_DISCARD, GL_MULTISAMPLE,  GL_PRIMITIVE_RESTART};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) glDisable(off[i]);
    glPolygonMode(GL_FRONT_AND_BACK, GL_FILL);
    glProvokingVertex(GL_LAST_VERTEX_CONVENTION);
    glClipControl(GL_LOWER_LEFT, GL_NEGATIVE_ONE_TO_ONE);
    glBindFramebuffer(GL_FRAMEBUFFER, gl->framebuffer);
    glNamedFramebufferParameteri(gl->framebuffer, GL_FRAMEBUFFER_DEFAULT_WIDTH, width);
    glNamedFramebufferParameteri(gl->framebuffer, GL_FRAMEBUFFER_DEFAULT_HEIGHT, height);
    glViewport(0, 0, width, height);
    glBindVertexArray(gl->vertices);
    glUseProgram(gl->program);
    glUniform2f(UNIFORM_PIXEL, 2.0f / (float)width, 2.0f / (float)height);
    glUniform1ui(UNIFORM_CAPACITY, capacity);
    for (GLuint i = 0; i < N_SHADER_BUFFERS; i++) glBindBufferBase(GL_SHADER_STORAGE_BUFFER, i, gl->buffers[i].name);
}

static size_t count_quads(const ct_drawing *d, int pass) {
    size_t n = 0;
    for (size_t i = 0; i < d->n_parts; i++) n += d->parts[pass][i]->n;
    return n;
}

/* Draws the first n quads in the buffer, at most as many per call as there are indices. */
static void draw_buffer(size_t n) {
    for (size_t first = 0; first < n; first += CT_COMMAND_QUADS) {
        size_t count = n - first < CT_COMMAND_QUADS ? n - first : CT_COMMAND_QUADS;
        glDrawElementsBaseVertex(GL_TRIANGLES, (GLsizei)(6 * count), GL_UNSIGNED_INT, NULL, (GLint)(4 * first));
    }
}

/* Draws all quads of a pass, as many at a time as the buffer holds. */
static void draw_quads(ct_raster_gl *gl, const ct_drawing *d, int pass) {
    const struct buffer *buffer = &gl->buffers[CT_GL_QUADS];
    size_t capacity = buffer->capacity / sizeof(ct_quad), used = 0;
    for (size_t i = 0; i < d->n_parts; i++) {
        const ct_quads *part = d->parts[pass][i];
        const ct_quad *quads = part->memory.data;
        for (size_t done = 0; done < part->n;) {
            size_t n = part->n - done < capacity - used ? part->n - done : capacity - used;
            glNamedBufferSubData(buffer->name, (GLintptr)(used * sizeof(ct_quad)), (GLsizeiptr)(n * sizeof(ct_quad)),
                                 quads + done);
            done += n;
            used += n;
            if (used < capacity) continue;
            draw_buffer(used);
            used = 0;
        }
    }
    draw_buffer(used);
}

static void clear_buffer(ct_raster_gl *gl, int which, size_t bytes, uint32_t value) {
    glClearNamedBufferSubData(gl->buffers[which].name, GL_R32UI, 0, (GLsizeiptr)bytes, GL_RED_INTEGER, GL_UNSIGNED_INT,
                              &value);
}

/* Draws both passes and returns the number of fragments, which may exceed the buffer's capacity. */
static uint32_t draw_passes(ct_raster_gl *gl, const ct_drawing *d, int32_t width, int32_t height) {
    clear_buffer(gl, CT_GL_HEADS, d->n_rays * sizeof *d->head, CT_END);
    clear_buffer(gl, CT_GL_WINDINGS, d->n_rays * sizeof *d->winding, 0);
    clear_buffer(gl, CT_GL_COUNTER, sizeof(uint32_t), 0);
    set_state(gl, width, height, (uint32_t)(gl->buffers[CT_GL_FRAGMENTS].capacity / sizeof *d->fragments));
    const GLbitfield barriers =
        GL_SHADER_STORAGE_BARRIER_BIT | GL_BUFFER_UPDATE_BARRIER_BIT | GL_CLIENT_MAPPED_BUFFER_BARRIER_BIT;
    for (int pass = 0; pass < 2; pass++) {
        glUniform1ui(UNIFORM_IS_SECOND_PASS, (GLuint)pass);
        draw_quads(gl, d, pass);
        glMemoryBarrier(barriers);
    }
    uint32_t n = 0;
    glGetNamedBufferSubData(gl->buffers[CT_GL_COUNTER].name, 0, sizeof n, &n);
    return n;
}

static ct_status reserve_all(ct_raster_gl *gl, ct_budget *budget, const ct_drawing *d, ct_error *error) {
    size_t first = count_quads(d, 0), second = count_quads(d, 1), larger = (first > second ? first : second);
    size_t quad_bytes = larger ? larger * sizeof(ct_quad) : sizeof(ct_quad); /* no buffer may be empty */
    if (quad_bytes > gl->max_buffer_bytes) quad_bytes = gl->max_buffer_bytes / sizeof(ct_quad) * sizeof(ct_quad);
    ct_status status = reserve(gl, CT_GL_QUADS, budget, quad_bytes, error);
    if (!status) status = reserve(gl, CT_GL_REGIONS, budget, d->n_regions * sizeof *d->regions, error);
    if (!status) status = reserve(gl, CT_GL_HEADS, budget, d->n_rays * sizeof *d->head, error);
    if (!status) status = reserve(gl, CT_GL_WINDINGS, budget, d->n_rays * sizeof *d->winding, error);
    if (!status) status = reserve(gl, CT_GL_FRAGMENTS, budget, 1024 * sizeof *d->fragments, error);
    if (!status) status = reserve(gl, CT_GL_COUNTER, budget, sizeof(uint32_t), error);
    return status;
}

static ct_status draw_views(ct_raster_gl *gl, ct_budget *budget, ct_drawing *d, ct_error *error) {
    unmap_all(gl);
    int32_t width, height;
    if (!place_regions(gl, d, &width, &height))
        return ct_fail(error, CT_LIMIT_EXCEEDED, "rasterizer",
                       "%u draw regions need %d x %d pixels, but OpenGL draws at most %d", d->n_regions, width, height,
                       gl->max_side);
    uint64_t samples = 0; /* an upper bound of the number of fragments, which is counted in 32 bits */
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < d->n_parts; i++) samples += d->parts[pass][i]->samples;
    if (samples > UINT32_MAX)
        return ct_fail(error, CT_LIMIT_EXCEEDED, "rasterizer",
                       "%llu samples to test, but at most 2^32 at a time are possible", (unsigned long long)samples);
    ct_status status = reserve_all(gl, budget, d, error);
    if (status) return status;
    glNamedBufferSubData(gl->buffers[CT_GL_REGIONS].name, 0, (GLsizeiptr)(d->n_regions * sizeof *d->regions),
                         d->regions);
    d->n_fragments = draw_passes(gl, d, width, height);
    size_t bytes = d->n_fragments * sizeof *d->fragments;
    if (bytes > gl->buffers[CT_GL_FRAGMENTS].capacity) {
        status = reserve(gl, CT_GL_FRAGMENTS, budget, bytes, error);
        if (status) return status;
        d->n_fragments = draw_passes(gl, d, width, height);
    }
    d->head = map_buffer(gl, CT_GL_HEADS, d->n_rays * sizeof *d->head);
    d->winding = map_buffer(gl, CT_GL_WINDINGS, d->n_rays * sizeof *d->winding);
    d->fragments = map_buffer(gl, CT_GL_FRAGMENTS, d->n_fragments * sizeof *d->fragments);
    return ct_gl_check(gl->context, "drawing views", error);
}

ct_status ct_raster_gl_draw(ct_raster_gl *gl, ct_budget *budget, ct_drawing *drawing, ct_error *error) {
    ct_status status = ct_gl_enter(gl->context, error);
    if (status) return status;
    status = draw_views(gl, budget, drawing, error);
    ct_gl_leave(gl->context);
    return status;
}

/* ---- shared buffers ---- */

size_t ct_raster_gl_max_buffer_bytes(const ct_raster_gl *gl) {
    return gl->max_buffer_bytes;
}

ct_status ct_raster_gl_replace_buffer(ct_raster_gl *gl, ct_gl_buffer which, size_t bytes, unsigned *name,
                                      ct_error *error) {
    struct buffer *buffer = &gl->buffers[which];
    glDeleteBuffers(1, &buffer->name);
    *buffer = (struct buffer){0};
    *name = 0;
    if (!bytes) return CT_OK;
    glCreateBuffers(1, &buffer->name);
    glNamedBufferStorage(buffer->name, (GLsizeiptr)bytes, NULL, GL_DYNAMIC_STORAGE_BIT);
    ct_status status = ct_gl_check(gl->context, "making a shared buffer", error);
    if (status) {
        glDeleteBuffers(1, &buffer->name);
        buffer->name = 0;
    }
    *name = buffer->name;
    return status;
}

ct_status ct_raster_gl_draw_shared(ct_raster_gl *gl, uint32_t n_commands, uint32_t capacity, ct_error *error) {
    set_state(gl, CT_FRAMEBUFFER_SIDE, CT_FRAMEBUFFER_SIDE, capacity);
    glUniform1ui(UNIFORM_IS_SECOND_PASS, 0); /* both bodies in one pass, which keeps all fragments */
    glBindBuffer(GL_DRAW_INDIRECT_BUFFER, gl->buffers[CT_GL_COMMANDS].name);
    glMultiDrawElementsIndirect(GL_TRIANGLES, GL_UNSIGNED_INT, NULL, (GLsizei)n_commands, 0);
    glMemoryBarrier(GL_SHADER_STORAGE_BARRIER_BIT | GL_BUFFER_UPDATE_BARRIER_BIT | GL_CLIENT_MAPPED_BUFFER_BARRIER_BIT);
    return ct_gl_check(gl->context, "drawing views", error);
}

ct_status ct_raster_gl_read(ct_raster_gl *gl, ct_gl_buffer which, size_t bytes, void *out, ct_error *error) {
    glGetNamedBufferSubData(gl->buffers[which].name, 0, (GLsizeiptr)bytes, out);
    return ct_gl_check(gl->context, "reading a buffer", error);
}

/* ---- creation ---- */

/* The two triangles of a quad share a diagonal, whose end 3 is the last vertex of both: the provoking vertex, which
 * supplies the flat values. */
static ct_status make_indices(ct_raster_gl *gl, ct_error *error) {
    static const uint32_t corners[6] = {0, 1, 3, 2, 0, 3};
    uint32_t *indices = malloc(6 * CT_COMMAND_QUADS * sizeof *indices);
    if (!indices) return ct_fail(error, CT_OUT_OF_MEMORY, "rasterizer", "no memory for a rasterizer");
    for (uint32_t i = 0; i < 6 * CT_COMMAND_QUADS; i++) indices[i] = 4 * (i / 6) + corners[i % 6];
    glCreateBuffers(1, &gl->indices);
    glNamedBufferStorage(gl->indices, 6 * CT_COMMAND_QUADS * sizeof *indices, indices, 0);
    glVertexArrayElementBuffer(gl->vertices, gl->indices);
    free(indices);
    return CT_OK;
}

static ct_status create_objects(ct_raster_gl *gl, ct_error *error) {
    const char *renderer = ct_gl_context_facts(gl->context)->renderer;
    GLint blocks = 0, width = 0, height = 0, viewport[2] = {0, 0};
    GLint64 bytes = 0;
    glGetIntegerv(GL_MAX_VERTEX_SHADER_STORAGE_BLOCKS, &blocks); /* OpenGL 4.5 guarantees none */
    if (blocks <= CT_GL_REGIONS)
        return ct_fail(
            error, CT_UNSUPPORTED, "rasterizer",
            "the vertex shaders of %s can access %d storage buffers, 2 are needed: use the native rasterizer", renderer,
            blocks);
    glGetInteger64v(GL_MAX_SHADER_STORAGE_BLOCK_SIZE, &bytes);
    glGetIntegerv(GL_MAX_FRAMEBUFFER_WIDTH, &width);
    glGetIntegerv(GL_MAX_FRAMEBUFFER_HEIGHT, &height);
    glGetIntegerv(GL_MAX_VIEWPORT_DIMS, viewport);
    gl->max_side = 16384; /* guaranteed by OpenGL 4.5; float32 vertex positions are exact enough up to there */
    const GLint sides[] = {width, height, viewport[0], viewport[1]};
    for (int i = 0; i < 4; i++)
        if (sides[i] < gl->max_side) gl->max_side = sides[i];
    /* Within CT_GL_MAX_BUFFER_BYTES, vertex numbers (4 a quad) fit in 31 bits. */
    gl->max_buffer_bytes = (uint64_t)bytes < CT_GL_MAX_BUFFER_BYTES ? (size_t)bytes : CT_GL_MAX_BUFFER_BYTES;
    glCreateFramebuffers(1, &gl->framebuffer);
    glCreateVertexArrays(1, &gl->vertices);
    ct_status indexed = make_indices(gl, error);
    if (indexed) return indexed;
    ct_status status = ct_gl_program(gl->context, "quad", quad_vertex_glsl, quad_fragment_glsl, &gl->program, error);
    return status ? status : ct_gl_check(gl->context, "preparing to draw", error);
}

ct_status ct_raster_gl_create(ct_gl_context *context, ct_raster_gl **out, ct_error *error) {
    *out = NULL;
    ct_raster_gl *gl = calloc(1, sizeof *gl);
    if (!gl) return ct_fail(error, CT_OUT_OF_MEMORY, "rasterizer", "no memory for a rasterizer");
    gl->context = context;
    ct_budget none = {0};
    ct_status status = ct_gl_enter(context, error);
    if (!status) {
        status = create_objects(gl, error);
        ct_gl_leave(context);
    }
    if (!status) status = ct_raster_gl_check_driver(gl, ct_gl_context_facts(context)->renderer, error);
    if (status)
        ct_raster_gl_destroy(&gl, &none);
    else
        *out = gl;
    return status;
}

void ct_raster_gl_release(ct_raster_gl *gl, ct_budget *budget) {
    bool is_inside = !ct_gl_enter(gl->context, NULL); /* if the context is lost, so are its buffers */
    for (int i = 0; i < CT_GL_BUFFERS; i++) {
        if (is_inside) glDeleteBuffers(1, &gl->buffers[i].name);
        ct_budget_release(budget, gl->buffers[i].capacity);
        gl->buffers[i] = (struct buffer){0};
    }
    if (is_inside) ct_gl_leave(gl->context);
}

void ct_raster_gl_destroy(ct_raster_gl **handle, ct_budget *budget) {
    ct_raster_gl *gl = *handle;
    if (!gl) return;
    ct_raster_gl_release(gl, budget);
    if (!ct_gl_enter(gl->context, NULL)) {
        glDeleteProgram(gl->program);
        glDeleteBuffers(1, &gl->indices);
        glDeleteFramebuffers(1, &gl->framebuffer);
        glDeleteVertexArrays(1, &gl->vertices);
        ct_gl_leave(gl->context);
    }
    free(gl);
    *handle = NULL;
}

void ct_raster_gl_close(ct_raster_gl **gl) {
    ct_budget none = {0};
    ct_raster_gl_destroy(gl, &none);
}
