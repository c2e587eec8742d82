/* painter_gl.c - draws snapshots with OpenGL. First the span ends and marks, which are opaque; then the bodies and
 * films, whose glass layers go into one linked list per sample; then a pass that sorts each list and blends it, so that
 * any number of overlapping surfaces is drawn in the right order. Large pictures are drawn in parts. Pixels are
 * averages of 2 x 2 samples.
 *
 * OpenGL cannot be told to stop. So where the thread's work may be cancelled, commands are given in pieces that take
 * some 20 ms each where the processor draws (llvmpipe): ranges of triangles, marks and spans, and bands of rows, cut
 * out by the scissor. They change no pixel. */
#include <epoxy/gl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/device/gl/context.h"
#include "gpu/mesh/mesh.h"
#include "gpu/picture/picture.h"

#include "film_vertex_glsl.h"
#include "glass_fragment_glsl.h"
#include "glass_vertex_glsl.h"
#include "mark_fragment_glsl.h"
#include "mark_vertex_glsl.h"
#include "resolve_fragment_glsl.h"
#include "screen_vertex_glsl.h"
#include "span_end_fragment_glsl.h"
#include "span_end_vertex_glsl.h"

enum {
    SCALE = 2,        /* samples of a pixel along each side */
    MAX_PART = 1024,  /* pixels along a side of the largest part drawn at once */
    LAYER_BYTES = 16, /* struct Layer of glass_fragment.glsl */
};

/* Of commands between polls: triangles, of which each command counts as COMMAND more, for it may cover much of a part;
 * bands of a part in which bodies are drawn, unless there are so many triangles that drawing them again costs more;
 * layers that resolving looks at. */
enum { PIECE = 1 << 16, COMMAND = 1 << 12, MOST_BANDS = 16, BAND_TRIANGLES = 1 << 20, RESOLVED = 1 << 19 };

struct ct_painter {
    ct_gl_context *context;
    GLuint glass, film, span_ends, marks, resolve; /* programs */
    GLuint vertex_array;                           /* empty: the shaders fetch vertices from storage buffers */
    double layers_a_sample;                        /* of the part drawn last */
};

/* A body's buffers. Bodies of one mesh share its triangles, and rigid bodies of one mesh also its positions and
 * normals; the first of them owns the buffers. */
typedef struct body_buffers {
    GLuint positions, normals, triangles;
    bool owns_triangles;
    bool owns_positions; /* and normals */
    float per_size;      /* ct_per_size of the positions */
} body_buffers;

/* One picture while it is drawn. */
typedef struct rendering {
    ct_painter *painter;
    const ct_snapshot *snapshot;
    body_buffers *bodies;
    GLuint span_ends;                      /* buffer */
    GLuint marks[CT_MARK_KINDS];           /* buffers */
    GLint max_block_bytes, alignment;      /* of a storage block */
    uint32_t part_size[2];                 /* pixels, of the largest part */
    GLuint solid, depth, result;           /* textures: span ends and their depths, SCALE times as large; pixels */
    GLuint solid_target, result_target;    /* framebuffers */
    GLuint layers, heads;                  /* buffers of glass_fragment.glsl */
    uint64_t layer_capacity, max_capacity; /* layers */
    uint64_t pending;                      /* of commands since the last poll, as PIECE counts */
    uint64_t n_pixels;                     /* that are done */
    bool is_cancelled;
    float eye[3], light[3]; /* relative to the camera's origin; unit vector towards the light */
    float matrix[16];
} rendering;

/* sRGB, pale enough to be distinguished from the colours of span ends. */
static const float palette[][3] = {
    {0.36f, 0.52f, 0.66f}, {0.80f, 0.64f, 0.46f}, {0.55f, 0.50f, 0.66f}, {0.45f, 0.60f, 0.54f},
    {0.74f, 0.56f, 0.58f}, {0.66f, 0.64f, 0.48f}, {0.48f, 0.48f, 0.50f}, {0.42f, 0.56f, 0.60f},
};
enum { PALETTE = sizeof palette / sizeof *palette };

static float to_linear(double c) {
    return (float)(c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4));
}

/* ---- the painter ---- */

ct_status ct_painter_create(ct_painter **out, ct_error *error) {
    *out = NULL;
    ct_painter *painter = calloc(1, sizeof *painter);
    if (!painter) return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for a painter");
    const struct {
        const char *name, *vertex, *fragment;
        GLuint *program;
    } programs[] = {
        {"glass", glass_vertex_glsl, glass_fragment_glsl, &painter->glass},
        {"film", film_vertex_glsl, glass_fragment_glsl, &painter->film},
        {"marks", mark_vertex_glsl, mark_fragment_glsl, &painter->marks},
        {"span ends", span_end_vertex_glsl, span_end_fragment_glsl, &painter->span_ends},
        {"resolve", screen_vertex_glsl, resolve_fragment_glsl, &painter->resolve},
    };
    ct_status status = ct_gl_context_create(NULL, &painter->context, error);
    if (!status) status = ct_gl_enter(painter->context, error);
    if (!status) {
        for (size_t i = 0; !status && i < sizeof programs / sizeof *programs; i++)
            status = ct_gl_program(painter->context, programs[i].name, programs[i].vertex, programs[i].fragment,
                                   programs[i].program, error);
        glCreateVertexArrays(1, &painter->vertex_array);
        if (!status) status = ct_gl_check(painter->context, "preparing to draw pictures", error);
        ct_gl_leave(painter->context);
    }
    if (status) ct_painter_destroy(&painter);
    *out = painter;
    return status;
}

void ct_painter_destroy(ct_painter **handle) {
    ct_painter *painter = *handle;
    if (!painter) return;
    if (painter->context && ct_gl_enter(painter->context, NULL) == CT_OK) {
        const GLuint programs[] = {painter->glass, painter->film, painter->marks, painter->span_ends, painter->resolve};
        for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) glDeleteProgram(programs[i]);
        glDeleteVertexArrays(1, &painter->vertex_array);
        ct_gl_leave(painter->context);
    }
    ct_gl_context_destroy(&painter->context);
    free(painter);
    *handle = NULL;
}

/* ---- pieces ---- */

/* Whether to go on after commands of so many triangles. */
static bool go_on(rendering *r, uint64_t n_triangles) {
    r->pending += n_triangles + COMMAND;
    if (r->is_cancelled || !ct_thread_working.cancel) return !r->is_cancelled;
    if (r->pending < PIECE) return true;
    glFinish();
    r->pending = 0;
    r->is_cancelled = ct_is_cancelled_at("pixels", r->n_pixels);
    return !r->is_cancelled;
}

/* Rows of the i-th of n bands of a part. */
static void set_band(const uint32_t size[2], uint32_t scale, uint32_t i, uint32_t n) {
    const uint32_t first = (uint32_t)((uint64_t)size[1] * i / n), end = (uint32_t)((uint64_t)size[1] * (i + 1) / n);
    glScissor(0, (GLint)(first * scale), (GLsizei)(size[0] * scale), (GLsizei)((end - first) * scale));
}

/* ---- uploading ---- */

static GLuint make_buffer(const void *data, size_t bytes) {
    GLuint buffer;
    glCreateBuffers(1, &buffer);
    glNamedBufferStorage(buffer, (GLsizeiptr)(bytes ? bytes : 4), bytes ? data : NULL, 0);
    return buffer;
}

/* same_mesh, same_positions: buffers of an earlier body of the mesh, and of one that has the mesh's positions; NULL:
 * there is none. */
static ct_status upload_body(rendering *r, size_t index, const body_buffers *same_mesh,
                             const body_buffers *same_positions, ct_error *error) {
    const ct_snapshot_body *bodies = r->snapshot->bodies, *body = &bodies[index];
    body_buffers *to = &r->bodies[index];
    ct_mesh_info info;
    ct_mesh_get_info(body->mesh, &info);
    if (info.vertices * 12 > (uint64_t)r->max_block_bytes)
        return ct_fail(error, CT_LIMIT_EXCEEDED, "snapshot",
                       "body %u has %llu vertices, more than the %d that this OpenGL driver can draw", body->id,
                       (unsigned long long)info.vertices, r->max_block_bytes / 12);
    const uint32_t *triangles = ct_mesh_triangles(body->mesh);
    to->owns_triangles = !same_mesh;
    to->triangles = same_mesh ? same_mesh->triangles : make_buffer(triangles, info.triangles * 12);
    if (!body->positions && same_positions) {
        to->positions = same_positions->positions;
        to->normals = same_positions->normals;
        to->per_size = same_positions->per_size;
        return CT_OK;
    }
    float *normals = malloc(info.vertices * 12);
    if (!normals)
        return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for the normals of %llu vertices",
                       (unsigned long long)info.vertices);
    const float *positions = ct_snapshot_body_positions(body);
    ct_vertex_normals(positions, triangles, info.vertices, info.triangles, normals);
    to->owns_positions = true;
    to->per_size = ct_per_size(positions, info.vertices);
    to->positions = make_buffer(positions, info.vertices * 12);
    to->normals = make_buffer(normals, info.vertices * 12);
    free(normals);
    return CT_OK;
}

struct body_of_mesh {
    uintptr_t mesh;
    size_t body;
};

static int by_mesh(const void *a, const void *b) {
    const struct body_of_mesh *x = a, *y = b;
    if (x->mesh != y->mesh) return x->mesh < y->mesh ? -1 : 1;
    return x->body < y->body ? -1 : x->body > y->body;
}

static ct_status upload_bodies(rendering *r, ct_error *error) {
    const ct_snapshot *snapshot = r->snapshot;
    r->bodies = calloc(snapshot->n_bodies ? snapshot->n_bodies : 1, sizeof *r->bodies);
    if (!r->bodies) return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for a picture");
    ct_status status = CT_OK;
    if (!(snapshot->options.show & CT_SHOW_BODIES)) return status;
    struct body_of_mesh *order = malloc((snapshot->n_bodies + 1) * sizeof *order);
    for (size_t i = 0; order && i < snapshot->n_bodies; i++)
        order[i] = (struct body_of_mesh){(uintptr_t)snapshot->bodies[i].mesh, i};
    if (!order || !ct_sort_large(order, snapshot->n_bodies, sizeof *order, by_mesh))
        status = ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for a picture");
    const body_buffers *same_mesh = NULL, *same_positions = NULL;
    for (size_t i = 0; !status && i < snapshot->n_bodies; i++) {
        const body_buffers *buffers = &r->bodies[order[i].body];
        if (i == 0 || order[i].mesh != order[i - 1].mesh) same_mesh = same_positions = NULL;
        status = upload_body(r, order[i].body, same_mesh, same_positions, error);
        same_mesh = buffers;
        if (!snapshot->bodies[order[i].body].positions) same_positions = buffers;
        if (!status && ct_is_cancelled()) status = ct_fail_cancelled(error);
    }
    free(order);
    return status;
}

static ct_status upload_span_ends(rendering *r, ct_error *error) {
    const ct_snapshot *snapshot = r->snapshot;
    const double *origin = snapshot->camera.origin;
    float *span_ends = malloc((snapshot->n_spans ? snapshot->n_spans : 1) * 8 * sizeof *span_ends);
    if (!span_ends)
        return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory to draw %llu samples",
                       (unsigned long long)snapshot->n_spans);
    for (uint64_t i = 0; i < snapshot->n_spans; i++) {
        if (CT_POLL_EVERY(i, 4096) && ct_is_cancelled()) break; /* drawing polls too */
        const ct_span *span = &snapshot->spans[i];
        for (int end = 0; end < 2; end++) {
            const float *p = end ? span->upper : span->lower;
            float *span_end = span_ends + 8 * i + 4 * end; /* as span_end_vertex.glsl reads it */
            for (int k = 0; k < 3; k++) span_end[k] = (float)(p[k] - origin[k]);
            span_end[3] = (float)(2 * span->axis + (uint32_t)end);
        }
    }
    r->span_ends = make_buffer(span_ends, snapshot->n_spans * 32);
    free(span_ends);
    return CT_OK;
}

static void upload_marks(rendering *r) {
    for (int kind = 0; kind < CT_MARK_KINDS; kind++) {
        const ct_mark_list *list = &r->snapshot->marks[kind];
        if (list->n) r->marks[kind] = make_buffer(list->marks, list->n * sizeof *list->marks);
    }
}

/* ---- render targets ---- */

static GLuint make_texture(const rendering *r, GLenum format, GLsizei scale) {
    GLuint texture;
    glCreateTextures(GL_TEXTURE_2D, 1, &texture);
    glTextureStorage2D(texture, 1, format, (GLsizei)r->part_size[0] * scale, (GLsizei)r->part_size[1] * scale);
    glTextureParameteri(texture, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
    glTextureParameteri(texture, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
    return texture;
}

static void make_layers(rendering *r, uint64_t capacity) {
    glDeleteBuffers(1, &r->layers);
    glCreateBuffers(1, &r->layers);
    glNamedBufferStorage(r->layers, (GLsizeiptr)(capacity * LAYER_BYTES), NULL, 0);
    r->layer_capacity = capacity;
}

static void make_targets(rendering *r) {
    r->solid = make_texture(r, GL_RGBA16F, SCALE);
    r->depth = make_texture(r, GL_DEPTH_COMPONENT32F, SCALE);
    r->result = make_texture(r, GL_RGBA8, 1);
    glCreateFramebuffers(1, &r->solid_target);
    glNamedFramebufferTexture(r->solid_target, GL_COLOR_ATTACHMENT0, r->solid, 0);
    glNamedFramebufferTexture(r->solid_target, GL_DEPTH_ATTACHMENT, r->depth, 0);
    glCreateFramebuffers(1, &r->result_target);
    glNamedFramebufferTexture(r->result_target, GL_COLOR_ATTACHMENT0, r->result, 0);
    uint64_t samples = (uint64_t)r->part_size[0] * r->part_size[1] * SCALE * SCALE;
    glCreateBuffers(1, &r->heads);
    glNamedBufferStorage(r->heads, (GLsizeiptr)(4 + 4 * samples), NULL, 0);
    /* Two layers a sample to begin with, those of one body that fills the picture, or as many as the last one had. It
     * grows if needed, and then the part is drawn again. */
    const uint64_t layers = 1 + (uint64_t)(fmax(2, 1.1 * r->painter->layers_a_sample) * (double)samples);
    make_layers(r, layers < r->max_capacity ? layers : r->max_capacity);
}

static void free_all(rendering *r) {
    for (size_t i = 0; r->bodies && i < r->snapshot->n_bodies; i++) {
        const body_buffers *body = &r->bodies[i];
        if (body->owns_triangles) glDeleteBuffers(1, &body->triangles);
        if (!body->owns_positions) continue;
        glDeleteBuffers(1, &body->positions);
        glDeleteBuffers(1, &body->normals);
    }
    free(r->bodies);
    const GLuint buffers[] = {r->span_ends, r->layers, r->heads};
    const GLuint textures[] = {r->solid, r->depth, r->result}, targets[] = {r->solid_target, r->result_target};
    glDeleteBuffers(3, buffers);
    glDeleteBuffers(CT_MARK_KINDS, r->marks); /* 0 is allowed */
    glDeleteFramebuffers(2, targets);
    glDeleteTextures(3, textures);
}

/* ---- drawing ---- */

static void set_target(GLuint target, const uint32_t size[2], uint32_t scale) {
    glBindFramebuffer(GL_FRAMEBUFFER, target);
    glViewport(0, 0, (GLsizei)(size[0] * scale), (GLsizei)(size[1] * scale));
}

/* A power of two, 1 / the size of a pixel. */
static float per_pixel(const rendering *r) {
    return (float)ldexp(1, -(int)fmin(fmax(logb(r->snapshot->camera.pixel), -126), 126));
}

static void draw_span_ends(rendering *r) {
    const ct_snapshot *snapshot = r->snapshot;
    float colors[9];
    for (int i = 0; i < 9; i++) colors[i] = to_linear(ct_axis_color[i / 3][i % 3]);
    glUseProgram(r->painter->span_ends);
    glUniformMatrix4fv(0, 1, GL_FALSE, r->matrix);
    glUniform3fv(2, 1, r->eye);
    glUniform3fv(3, 3, colors);
    glUniform3fv(6, 1, r->light);
    glUniform1f(7, per_pixel(r));
    glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 0, r->span_ends);
    for (size_t i = 0; i < snapshot->n_contacts; i++) {
        const ct_snapshot_contact *contact = &snapshot->contacts[i];
        float half_side[3];
        for (int a = 0; a < 3; a++) /* with a visible gap between neighbours if the pitch is more than 5 pixels */
            half_side[a] = (float)(contact->pitch[a] * (contact->pitch[a] > 5 * snapshot->camera.pixel ? 0.44 : 0.5));
        glUniform3fv(1, 1, half_side);
        enum { SPANS = PIECE / 8 }; /* of four triangles, most of them visible */
        for (uint64_t first = 0; first < contact->n_spans && go_on(r, PIECE); first += SPANS) {
            const uint64_t n = contact->n_spans - first < SPANS ? contact->n_spans - first : SPANS;
            glDrawArrays(GL_TRIANGLES, (GLint)(12 * (contact->first_span + first)), (GLsizei)(12 * n));
        }
    }
}

/* Draws all marks of a kind with the current program; one with more than a storage block holds is drawn in ranges. */
static void draw_marks_of(rendering *r, ct_mark_kind kind, uint32_t corners) {
    const uint64_t n = r->snapshot->marks[kind].n;
    uint64_t step = (uint64_t)r->max_block_bytes / sizeof(ct_mark);
    if (step > INT32_MAX / corners) step = INT32_MAX / corners;
    if (step > 3 * PIECE / corners) step = 3 * PIECE / corners;
    if (step > (uint64_t)r->alignment)
        step -= step % (uint64_t)r->alignment;
    else
        step = (uint64_t)r->alignment;
    for (uint64_t first = 0; first < n && go_on(r, PIECE); first += step) {
        const uint64_t some = n - first < step ? n - first : step;
        glBindBufferRange(GL_SHADER_STORAGE_BUFFER, 0, r->marks[kind], (GLintptr)(first * sizeof(ct_mark)),
                          (GLsizeiptr)(some * sizeof(ct_mark)));
        glDrawArrays(GL_TRIANGLES, 0, (GLsizei)(some * corners));
    }
}

/* Ends before the nearest or behind the farthest body are shown all the same. */
static void draw_opaque_marks(rendering *r, const uint32_t size[2]) {
    static const uint32_t corners[CT_MARK_KINDS] = {0, 6, 6, 9, 6, 36 + 72}; /* as mark_vertex.glsl has them */
    glUseProgram(r->painter->marks);
    glUniformMatrix4fv(0, 1, GL_FALSE, r->matrix);
    glUniform2f(3, (float)(size[0] * SCALE), (float)(size[1] * SCALE));
    glUniform1f(4, SCALE);
    glEnable(GL_DEPTH_CLAMP);
    for (int kind = CT_MARK_FILM + 1; kind < CT_MARK_KINDS; kind++) {
        if (!r->snapshot->marks[kind].n) continue;
        glUniform1i(1, kind);
        glUniform1i(2, (GLint)corners[kind]);
        draw_marks_of(r, (ct_mark_kind)kind, corners[kind]);
    }
    glDisable(GL_DEPTH_CLAMP);
}

static void draw_films(rendering *r, const uint32_t size[2]) {
    glUseProgram(r->painter->film);
    glUniformMatrix4fv(0, 1, GL_FALSE, r->matrix);
    glUniform3fv(2, 1, r->eye);
    glUniform3fv(5, 1, r->light);
    glUniform1ui(6, size[0] * SCALE);
    glUniform1f(7, per_pixel(r));
    draw_marks_of(r, CT_MARK_FILM, 3);
}

static void draw_bodies(rendering *r) {
    const ct_snapshot *snapshot = r->snapshot;
    for (size_t i = 0; i < snapshot->n_bodies; i++) {
        const ct_snapshot_body *body = &snapshot->bodies[i];
        const body_buffers *from = &r->bodies[i];
        const float *color = palette[i % PALETTE];
        float matrix[16] = {[15] = 1};
        for (int row = 0; row < 3; row++)
            for (int column = 0; column < 4; column++)
                matrix[4 * column + row] =
                    (float)(body->pose[4 * row + column] - (column == 3 ? snapshot->camera.origin[row] : 0));
        glUniformMatrix4fv(1, 1, GL_FALSE, matrix);
        glUniform3f(3, to_linear(color[0]), to_linear(color[1]), to_linear(color[2]));
        glUniform1f(7, from->per_size);
        glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 0, from->positions);
        glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 1, from->normals);
        ct_mesh_info info;
        ct_mesh_get_info(body->mesh, &info);
        /* A mesh with more triangles than a storage block holds is drawn in ranges. A multiple of `alignment` triangles
         * is also a multiple of `alignment` bytes. */
        uint64_t step = (uint64_t)r->max_block_bytes / 12;
        if (step > PIECE) step = PIECE;
        step -= step % (uint64_t)r->alignment;
        for (uint64_t first = 0; first < info.triangles; first += step) {
            uint64_t n = info.triangles - first < step ? info.triangles - first : step;
            glBindBufferRange(GL_SHADER_STORAGE_BUFFER, 2, from->triangles, (GLintptr)(first * 12),
                              (GLsizeiptr)(n * 12));
            glDrawArrays(GL_TRIANGLES, 0, (GLsizei)(n * 3));
            if (!go_on(r, n)) return;
        }
    }
}

/* In how many bands bodies are drawn. */
static uint32_t count_bands(const rendering *r) {
    uint64_t n = 1;
    for (size_t i = 0; i < r->snapshot->n_bodies; i++)
        n += r->snapshot->bodies[i].mesh->n_triangles + 16; /* a command costs about as much */
    const uint64_t bands = BAND_TRIANGLES / n;
    return !ct_thread_working.cancel || bands < 1 ? 1 : bands < MOST_BANDS ? (uint32_t)bands : MOST_BANDS;
}

/* Fills the lists of glass layers. Returns the number of layers, which may exceed the buffer's capacity. */
static uint64_t collect_glass(rendering *r, const uint32_t size[2]) {
    const GLuint zero = 0;
    glClearNamedBufferData(r->heads, GL_R32UI, GL_RED_INTEGER, GL_UNSIGNED_INT, &zero);
    glMemoryBarrier(GL_SHADER_STORAGE_BARRIER_BIT | GL_BUFFER_UPDATE_BARRIER_BIT);
    glColorMask(GL_FALSE, GL_FALSE, GL_FALSE, GL_FALSE);
    glDepthMask(GL_FALSE);
    const uint32_t n_bands = count_bands(r);
    glEnable(GL_SCISSOR_TEST);
    for (uint32_t i = 0; i < n_bands && !r->is_cancelled; i++) {
        set_band(size, SCALE, i, n_bands);
        glUseProgram(r->painter->glass);
        glUniformMatrix4fv(0, 1, GL_FALSE, r->matrix);
        glUniform3fv(2, 1, r->eye);
        glUniform1f(4, (float)r->snapshot->options.opacity);
        glUniform3fv(5, 1, r->light);
        glUniform1ui(6, size[0] * SCALE);
        if (r->snapshot->options.show & CT_SHOW_BODIES) draw_bodies(r);
        if (r->snapshot->marks[CT_MARK_FILM].n) draw_films(r, size);
        go_on(r, PIECE);
    }
    glDisable(GL_SCISSOR_TEST);
    glDepthMask(GL_TRUE);
    glColorMask(GL_TRUE, GL_TRUE, GL_TRUE, GL_TRUE);
    glMemoryBarrier(GL_SHADER_STORAGE_BARRIER_BIT | GL_BUFFER_UPDATE_BARRIER_BIT);
    GLuint n = 0;
    glGetNamedBufferSubData(r->heads, 0, sizeof n, &n);
    return n;
}

/* Blends each pixel's layers, of which the part has n. */
static void resolve(rendering *r, const uint32_t size[2], uint64_t n) {
    const uint64_t samples = (uint64_t)size[0] * size[1] * SCALE * SCALE;
    /* A list is walked once for each 8 layers of it (resolve_fragment.glsl), until the glass lets no light through. */
    const double opacity = r->snapshot->options.opacity, mean = (double)n / (double)samples;
    const double seen = opacity > 0 && opacity < 1 ? fmin(mean, 1 + log(0.002) / log1p(-opacity)) : mean;
    const double work = (double)samples + (double)n * (1 + seen / 8);
    uint32_t n_bands = (uint32_t)fmin(fmax(ceil(work / RESOLVED), 1), size[1]);
    if (!ct_thread_working.cancel) n_bands = 1;
    glEnable(GL_SCISSOR_TEST);
    for (uint32_t i = 0; i < n_bands && go_on(r, PIECE); i++) {
        set_band(size, 1, i, n_bands);
        glDrawArrays(GL_TRIANGLES, 0, 3);
    }
    glDisable(GL_SCISSOR_TEST);
}

/* Draws a part into the result texture. False: its glass layers exceed max_capacity. */
static bool draw_part(rendering *r, const uint32_t size[2]) {
    const ct_snapshot *snapshot = r->snapshot;
    const float clear_color[4] = {0}, clear_depth = 1;
    bool has_glass = (snapshot->options.show & CT_SHOW_BODIES && snapshot->n_bodies) || snapshot->marks[CT_MARK_FILM].n;
    glClearNamedFramebufferfv(r->solid_target, GL_COLOR, 0, clear_color);
    glClearNamedFramebufferfv(r->solid_target, GL_DEPTH, 0, &clear_depth);
    set_target(r->solid_target, size, SCALE);
    glEnable(GL_DEPTH_TEST);
    if (snapshot->n_spans) draw_span_ends(r);
    if (snapshot->n_marks > snapshot->marks[CT_MARK_FILM].n) draw_opaque_marks(r, size);
    glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 4, r->heads);
    uint64_t need = 0;
    for (bool retry = has_glass; retry && !r->is_cancelled;) {
        glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 3, r->layers);
        need = 1 + collect_glass(r, size); /* layers[0] is not used */
        retry = need > r->layer_capacity;
        if (need > r->max_capacity) return false;
        if (retry) make_layers(r, need);
    }
    if (has_glass) r->painter->layers_a_sample = (double)need / ((double)size[0] * size[1] * SCALE * SCALE);
    glDisable(GL_DEPTH_TEST);

    const double *background = snapshot->options.background;
    set_target(r->result_target, size, 1);
    glBindTextureUnit(0, r->solid);
    glUseProgram(r->painter->resolve);
    glUniform1i(0, SCALE);
    glUniform4f(1, to_linear(background[0]), to_linear(background[1]), to_linear(background[2]), (float)background[3]);
    glUniform1ui(2, has_glass ? size[0] * SCALE : 0);
    glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 3, r->layers);
    resolve(r, size, need);
    return true;
}

/* The light is to the left of the camera and above it. */
static void place_light(rendering *r) {
    const ct_camera *camera = &r->snapshot->camera;
    for (int i = 0; i < 3; i++) {
        r->eye[i] = (float)(camera->eye[i] - camera->origin[i]);
        r->light[i] = (float)((-0.45 * camera->right[i] + 0.6 * camera->up[i] + 0.66 * camera->back[i]));
    }
    float length = sqrtf(r->light[0] * r->light[0] + r->light[1] * r->light[1] + r->light[2] * r->light[2]);
    for (int i = 0; i < 3; i++) r->light[i] /= length;
}

/* Draws area {x0, y0, x1, y1} into the pixels. Halves an area that is too large or has too much glass for one pass. */
static ct_status draw_area(rendering *r, const uint32_t area[4], uint8_t *rows, uint8_t *pixels, ct_error *error) {
    const ct_snapshot_options *o = &r->snapshot->options;
    const uint32_t size[2] = {area[2] - area[0], area[3] - area[1]}, whole[2] = {o->width, o->height};
    int longer = size[1] > size[0];
    if (size[0] <= MAX_PART && size[1] <= MAX_PART) {
        ct_camera_matrix(&r->snapshot->camera, whole, area, r->matrix);
        bool drawn = draw_part(r, size);
        if (r->is_cancelled) return ct_fail_cancelled(error);
        if (drawn) glReadPixels(0, 0, (GLsizei)size[0], (GLsizei)size[1], GL_RGBA, GL_UNSIGNED_BYTE, rows);
        ct_status status = ct_gl_check(r->painter->context, "drawing a picture", error);
        if (!status && !drawn && size[longer] < 2)
            status = ct_fail(error, CT_LIMIT_EXCEEDED, "snapshot",
                             "one pixel has more surfaces than fit in memory: show one contact, or samples without "
                             "bodies");
        for (uint32_t row = 0; !status && drawn && row < size[1]; row++) /* OpenGL's first row is the lowest */
            memcpy(pixels + 4 * ((size_t)(area[3] - 1 - row) * o->width + area[0]), rows + 4 * (size_t)row * size[0],
                   4 * (size_t)size[0]);
        if (!status && drawn) r->n_pixels += (uint64_t)size[0] * size[1];
        if (status || drawn) return status;
    }
    uint32_t halves[2][4];
    memcpy(halves[0], area, sizeof halves[0]);
    memcpy(halves[1], area, sizeof halves[1]);
    halves[0][2 + longer] = halves[1][longer] = area[longer] + size[longer] / 2;
    ct_status status = draw_area(r, halves[0], rows, pixels, error);
    return status ? status : draw_area(r, halves[1], rows, pixels, error);
}

static ct_status draw_picture(rendering *r, uint8_t *pixels, ct_error *error) {
    const ct_snapshot_options *o = &r->snapshot->options;
    uint8_t *rows = malloc((size_t)r->part_size[0] * r->part_size[1] * 4);
    if (!rows) return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for a part of a picture");
    glBindVertexArray(r->painter->vertex_array);
    glPixelStorei(GL_PACK_ALIGNMENT, 4);
    ct_status status = draw_area(r, (const uint32_t[4]){0, 0, o->width, o->height}, rows, pixels, error);
    free(rows);
    return status;
}

ct_status ct_painter_draw(ct_painter *painter, const ct_snapshot *snapshot, uint64_t max_glass_bytes, uint8_t *pixels,
                          ct_error *error) {
    rendering r = {.painter = painter, .snapshot = snapshot};
    ct_enter_phase("drawing the picture");
    ct_status status = ct_gl_enter(painter->context, error);
    if (status) return status;
    glGetIntegerv(GL_MAX_SHADER_STORAGE_BLOCK_SIZE, &r.max_block_bytes);
    glGetIntegerv(GL_SHADER_STORAGE_BUFFER_OFFSET_ALIGNMENT, &r.alignment);
    if (r.max_block_bytes <= 0) r.max_block_bytes = INT32_MAX; /* the driver's limit overflowed GLint */
    if (r.alignment < 1) r.alignment = 1;
    /* bytes, until the division */
    r.max_capacity =
        (max_glass_bytes < (uint64_t)r.max_block_bytes ? max_glass_bytes : (uint64_t)r.max_block_bytes) / LAYER_BYTES;
    if (r.max_capacity < 2) r.max_capacity = 2; /* layers[0] is not used */
    const ct_snapshot_options *o = &snapshot->options;
    r.part_size[0] = o->width < MAX_PART ? o->width : MAX_PART;
    r.part_size[1] = o->height < MAX_PART ? o->height : MAX_PART;
    place_light(&r);
    make_targets(&r);
    status = upload_bodies(&r, error);
    if (!status) status = upload_span_ends(&r, error);
    if (!status) upload_marks(&r);
    if (!status) status = ct_gl_check(painter->context, "uploading a picture's bodies", error);
    if (!status) status = draw_picture(&r, pixels, error);
    free_all(&r);
    ct_gl_leave(painter->context);
    return status;
}
