/* painter_gl.c - draws snapshots with OpenGL: samples as they are, then the bodies' glass over them, peeled layer by
 * layer from the front, so that any number of surfaces lies in the right order. Large pictures are drawn in parts, each
 * at twice the size and averaged.
 */
#include <epoxy/gl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend/gl/context.h"
#include "gpu/base/fail.h"
#include "gpu/picture/picture.h"

#include "glass_fragment_glsl.h"
#include "glass_vertex_glsl.h"
#include "resolve_fragment_glsl.h"
#include "screen_vertex_glsl.h"
#include "tile_fragment_glsl.h"
#include "tile_vertex_glsl.h"

enum {
    SCALE = 2,   /* samples of a pixel along each side */
    PART = 1024, /* pixels along a side of the largest part drawn at once */
    PIECE = 16,  /* bytes, see glass_fragment.glsl */
};

struct ct_painter {
    ct_gl_context *context;
    GLuint glass, tiles, resolve; /* programs */
    GLuint nothing;               /* a vertex array without arrays */
};

/* What a picture's vertices are read from. */
typedef struct ct_paint_body {
    GLuint positions, normals, triangles; /* buffers */
    bool owns_triangles;                  /* else another body of the same mesh does */
    bool owns_positions;
} ct_paint_body;

typedef struct ct_paint {
    const ct_painter *painter;
    const ct_snapshot *snapshot;
    ct_paint_body *bodies;
    GLuint tiles;
    GLint most_bytes, alignment; /* of a storage block */
    uint32_t part_size[2];       /* pixels, of the largest part */
    GLuint solid, depth, result; /* textures */
    GLuint on_solid, on_result;  /* framebuffers */
    GLuint pieces, heads;        /* buffers: of glass, for `room` pieces; and of their number and the samples' lists */
    uint64_t room, most_room;
    float eye[3], light[3];
    float matrix[16];
} ct_paint;

/* sRGB, pale enough not to be taken for a sample's colour. */
static const float palette[][3] = {
    {0.36f, 0.52f, 0.66f}, {0.80f, 0.64f, 0.46f}, {0.55f, 0.50f, 0.66f}, {0.45f, 0.60f, 0.54f},
    {0.74f, 0.56f, 0.58f}, {0.66f, 0.64f, 0.48f}, {0.48f, 0.48f, 0.50f}, {0.42f, 0.56f, 0.60f},
};
enum { PALETTE = sizeof palette / sizeof *palette };

static float linear_of(double c) {
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
        {"tiles", tile_vertex_glsl, tile_fragment_glsl, &painter->tiles},
        {"resolve", screen_vertex_glsl, resolve_fragment_glsl, &painter->resolve},
    };
    ct_status status = ct_gl_context_create(NULL, &painter->context, error);
    if (!status) status = ct_gl_enter(painter->context, error);
    if (!status) {
        for (size_t i = 0; !status && i < sizeof programs / sizeof *programs; i++)
            status = ct_gl_program(painter->context, programs[i].name, programs[i].vertex, programs[i].fragment,
                                   programs[i].program, error);
        glCreateVertexArrays(1, &painter->nothing);
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
        const GLuint programs[] = {painter->glass, painter->tiles, painter->resolve};
        for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) glDeleteProgram(programs[i]);
        glDeleteVertexArrays(1, &painter->nothing);
        ct_gl_leave(painter->context);
    }
    ct_gl_context_destroy(&painter->context);
    free(painter);
    *handle = NULL;
}

/* ---- what is drawn ---- */

static GLuint buffer_of(const void *data, size_t bytes) {
    GLuint buffer;
    glCreateBuffers(1, &buffer);
    glNamedBufferStorage(buffer, (GLsizeiptr)(bytes ? bytes : 4), bytes ? data : NULL, 0);
    return buffer;
}

static ct_status upload_body(ct_paint *paint, size_t index, ct_error *error) {
    const ct_shown_body *bodies = paint->snapshot->bodies, *body = &bodies[index];
    ct_paint_body *to = &paint->bodies[index], *same = NULL, *still = NULL;
    ct_mesh_info info;
    ct_mesh_get_info(body->mesh, &info);
    for (size_t i = 0; i < index; i++) {
        if (bodies[i].mesh != body->mesh) continue;
        same = &paint->bodies[i];
        if (!bodies[i].positions) still = same;
    }
    if (info.vertices * 12 > (uint64_t)paint->most_bytes)
        return ct_fail(error, CT_LIMIT_EXCEEDED, "snapshot",
                       "body %u has %llu vertices, and this OpenGL draws bodies of at most %d", body->id,
                       (unsigned long long)info.vertices, paint->most_bytes / 12);
    const uint32_t *triangles = ct_mesh_triangles(body->mesh);
    to->owns_triangles = !same;
    to->triangles = same ? same->triangles : buffer_of(triangles, info.triangles * 12);
    if (!body->positions && still) {
        to->positions = still->positions;
        to->normals = still->normals;
        return CT_OK;
    }
    float *normals = malloc(info.vertices * 12);
    if (!normals)
        return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for the normals of %llu vertices",
                       (unsigned long long)info.vertices);
    const float *positions = ct_shown_positions(body);
    ct_vertex_normals(positions, triangles, info.vertices, info.triangles, normals);
    to->owns_positions = true;
    to->positions = buffer_of(positions, info.vertices * 12);
    to->normals = buffer_of(normals, info.vertices * 12);
    free(normals);
    return CT_OK;
}

static ct_status upload_bodies(ct_paint *paint, ct_error *error) {
    const ct_snapshot *snapshot = paint->snapshot;
    paint->bodies = calloc(snapshot->n_bodies ? snapshot->n_bodies : 1, sizeof *paint->bodies);
    if (!paint->bodies) return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for a picture");
    ct_status status = CT_OK;
    if (!(snapshot->options.show & CT_SHOW_BODIES)) return status;
    for (size_t i = 0; !status && i < snapshot->n_bodies; i++) status = upload_body(paint, i, error);
    return status;
}

static ct_status upload_tiles(ct_paint *paint, ct_error *error) {
    const ct_snapshot *snapshot = paint->snapshot;
    const double *origin = snapshot->camera.origin;
    float *tiles = malloc((snapshot->n_spans ? snapshot->n_spans : 1) * 8 * sizeof *tiles);
    if (!tiles)
        return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory to draw %llu samples",
                       (unsigned long long)snapshot->n_spans);
    for (uint64_t i = 0; i < snapshot->n_spans; i++) {
        const ct_span *span = &snapshot->spans[i];
        for (int end = 0; end < 2; end++) {
            const float *p = end ? span->upper : span->lower;
            float *tile = tiles + 8 * i + 4 * end;
            for (int k = 0; k < 3; k++) tile[k] = (float)(p[k] - origin[k]);
            tile[3] = (float)(2 * span->axis + (uint32_t)end);
        }
    }
    paint->tiles = buffer_of(tiles, snapshot->n_spans * 32);
    free(tiles);
    return CT_OK;
}

/* ---- where it is drawn ---- */

static GLuint make_texture(const ct_paint *paint, GLenum format, GLsizei scale) {
    GLuint texture;
    glCreateTextures(GL_TEXTURE_2D, 1, &texture);
    glTextureStorage2D(texture, 1, format, (GLsizei)paint->part_size[0] * scale, (GLsizei)paint->part_size[1] * scale);
    glTextureParameteri(texture, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
    glTextureParameteri(texture, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
    return texture;
}

static void make_pieces(ct_paint *paint, uint64_t room) {
    glDeleteBuffers(1, &paint->pieces);
    glCreateBuffers(1, &paint->pieces);
    glNamedBufferStorage(paint->pieces, (GLsizeiptr)(room * PIECE), NULL, 0);
    paint->room = room;
}

static void make_targets(ct_paint *paint) {
    paint->solid = make_texture(paint, GL_RGBA16F, SCALE);
    paint->depth = make_texture(paint, GL_DEPTH_COMPONENT32F, SCALE);
    paint->result = make_texture(paint, GL_RGBA8, 1);
    glCreateFramebuffers(1, &paint->on_solid);
    glNamedFramebufferTexture(paint->on_solid, GL_COLOR_ATTACHMENT0, paint->solid, 0);
    glNamedFramebufferTexture(paint->on_solid, GL_DEPTH_ATTACHMENT, paint->depth, 0);
    glCreateFramebuffers(1, &paint->on_result);
    glNamedFramebufferTexture(paint->on_result, GL_COLOR_ATTACHMENT0, paint->result, 0);
    uint64_t samples = (uint64_t)paint->part_size[0] * paint->part_size[1] * SCALE * SCALE;
    glCreateBuffers(1, &paint->heads);
    glNamedBufferStorage(paint->heads, (GLsizeiptr)(4 + 4 * samples), NULL, 0);
    make_pieces(paint, 1 + samples < paint->most_room ? 1 + samples : paint->most_room);
}

static void free_all(ct_paint *paint) {
    for (size_t i = 0; paint->bodies && i < paint->snapshot->n_bodies; i++) {
        const ct_paint_body *body = &paint->bodies[i];
        if (body->owns_triangles) glDeleteBuffers(1, &body->triangles);
        if (!body->owns_positions) continue;
        glDeleteBuffers(1, &body->positions);
        glDeleteBuffers(1, &body->normals);
    }
    free(paint->bodies);
    const GLuint buffers[] = {paint->tiles, paint->pieces, paint->heads};
    const GLuint textures[] = {paint->solid, paint->depth, paint->result},
                 targets[] = {paint->on_solid, paint->on_result};
    glDeleteBuffers(3, buffers);
    glDeleteFramebuffers(2, targets);
    glDeleteTextures(3, textures);
}

/* ---- drawing ---- */

static void set_target(GLuint target, const uint32_t size[2], uint32_t scale) {
    glBindFramebuffer(GL_FRAMEBUFFER, target);
    glViewport(0, 0, (GLsizei)(size[0] * scale), (GLsizei)(size[1] * scale));
}

static void draw_tiles(const ct_paint *paint) {
    const ct_snapshot *snapshot = paint->snapshot;
    float colors[9];
    for (int i = 0; i < 9; i++) colors[i] = linear_of(ct_axis_color[i / 3][i % 3]);
    glUseProgram(paint->painter->tiles);
    glUniformMatrix4fv(0, 1, GL_FALSE, paint->matrix);
    glUniform3fv(2, 1, paint->eye);
    glUniform3fv(3, 3, colors);
    glUniform3fv(6, 1, paint->light);
    glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 0, paint->tiles);
    for (size_t i = 0; i < snapshot->n_contacts; i++) {
        const ct_shown_contact *contact = &snapshot->contacts[i];
        float reach[3];
        for (int a = 0; a < 3; a++) /* a gap between those that are large enough for it */
            reach[a] = (float)(contact->pitch[a] * (contact->pitch[a] > 5 * snapshot->camera.pixel ? 0.44 : 0.5));
        glUniform3fv(1, 1, reach);
        glDrawArrays(GL_TRIANGLES, (GLint)(12 * contact->first_span), (GLsizei)(12 * contact->n_spans));
    }
}

static void draw_bodies(const ct_paint *paint) {
    const ct_snapshot *snapshot = paint->snapshot;
    for (size_t i = 0; i < snapshot->n_bodies; i++) {
        const ct_shown_body *body = &snapshot->bodies[i];
        const ct_paint_body *from = &paint->bodies[i];
        const float *color = palette[i % PALETTE];
        float matrix[16] = {[15] = 1};
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 4; c++)
                matrix[4 * c + r] = (float)(body->pose[4 * r + c] - (c == 3 ? snapshot->camera.origin[r] : 0));
        glUniformMatrix4fv(1, 1, GL_FALSE, matrix);
        glUniform3f(3, linear_of(color[0]), linear_of(color[1]), linear_of(color[2]));
        glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 0, from->positions);
        glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 1, from->normals);
        ct_mesh_info info;
        ct_mesh_get_info(body->mesh, &info);
        /* More triangles than a storage block holds are drawn range by range. */
        uint64_t step = (uint64_t)paint->most_bytes / 12;
        step -= step % (uint64_t)paint->alignment; /* of triangles, so that the range's bytes are aligned too */
        for (uint64_t first = 0; first < info.triangles; first += step) {
            uint64_t n = info.triangles - first < step ? info.triangles - first : step;
            glBindBufferRange(GL_SHADER_STORAGE_BUFFER, 2, from->triangles, (GLintptr)(first * 12),
                              (GLsizeiptr)(n * 12));
            glDrawArrays(GL_TRIANGLES, 0, (GLsizei)(n * 3));
        }
    }
}

/* The glass as lists; returns how many pieces there are, which may be more than there was room for. */
static uint64_t draw_glass(const ct_paint *paint, const uint32_t size[2]) {
    const GLuint zero = 0;
    glClearNamedBufferData(paint->heads, GL_R32UI, GL_RED_INTEGER, GL_UNSIGNED_INT, &zero);
    glMemoryBarrier(GL_SHADER_STORAGE_BARRIER_BIT | GL_BUFFER_UPDATE_BARRIER_BIT);
    glUseProgram(paint->painter->glass);
    glUniformMatrix4fv(0, 1, GL_FALSE, paint->matrix);
    glUniform3fv(2, 1, paint->eye);
    glUniform1f(4, (float)paint->snapshot->options.opacity);
    glUniform3fv(5, 1, paint->light);
    glUniform1ui(6, size[0] * SCALE);
    glColorMask(GL_FALSE, GL_FALSE, GL_FALSE, GL_FALSE);
    glDepthMask(GL_FALSE);
    draw_bodies(paint);
    glDepthMask(GL_TRUE);
    glColorMask(GL_TRUE, GL_TRUE, GL_TRUE, GL_TRUE);
    glMemoryBarrier(GL_SHADER_STORAGE_BARRIER_BIT | GL_BUFFER_UPDATE_BARRIER_BIT);
    GLuint n = 0;
    glGetNamedBufferSubData(paint->heads, 0, sizeof n, &n);
    return n;
}

/* False: the glass of the part is too much at once. */
static bool draw_part(ct_paint *paint, const uint32_t size[2]) {
    const ct_snapshot *snapshot = paint->snapshot;
    const float nothing[4] = {0}, far = 1;
    bool glass = snapshot->options.show & CT_SHOW_BODIES && snapshot->n_bodies;
    glClearNamedFramebufferfv(paint->on_solid, GL_COLOR, 0, nothing);
    glClearNamedFramebufferfv(paint->on_solid, GL_DEPTH, 0, &far);
    set_target(paint->on_solid, size, SCALE);
    glEnable(GL_DEPTH_TEST);
    if (snapshot->n_spans) draw_tiles(paint);
    glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 4, paint->heads);
    for (bool again = glass; again;) {
        glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 3, paint->pieces);
        uint64_t need = 1 + draw_glass(paint, size);
        again = need > paint->room;
        if (need > paint->most_room) return false;
        if (again) make_pieces(paint, need);
    }
    glDisable(GL_DEPTH_TEST);

    const double *background = snapshot->options.background;
    set_target(paint->on_result, size, 1);
    glBindTextureUnit(0, paint->solid);
    glUseProgram(paint->painter->resolve);
    glUniform1i(0, SCALE);
    glUniform4f(1, linear_of(background[0]), linear_of(background[1]), linear_of(background[2]), (float)background[3]);
    glUniform1ui(2, glass ? size[0] * SCALE : 0);
    glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 3, paint->pieces);
    glDrawArrays(GL_TRIANGLES, 0, 3);
    return true;
}

/* From over the camera's left shoulder. */
static void place_light(ct_paint *paint) {
    const ct_camera *camera = &paint->snapshot->camera;
    for (int i = 0; i < 3; i++) {
        paint->eye[i] = (float)(camera->eye[i] - camera->origin[i]);
        paint->light[i] = (float)((-0.45 * camera->right[i] + 0.6 * camera->up[i] + 0.66 * camera->back[i]));
    }
    float length = sqrtf(paint->light[0] * paint->light[0] + paint->light[1] * paint->light[1] +
                         paint->light[2] * paint->light[2]);
    for (int i = 0; i < 3; i++) paint->light[i] /= length;
}

/* Draws columns x0..x1 and rows y0..y1 into the pixels; what is too much at once, half by half. */
static ct_status draw_area(ct_paint *paint, const uint32_t area[4], uint8_t *rows, uint8_t *pixels, ct_error *error) {
    const ct_snapshot_options *o = &paint->snapshot->options;
    const uint32_t size[2] = {area[2] - area[0], area[3] - area[1]}, whole[2] = {o->width, o->height};
    int longer = size[1] > size[0];
    if (size[0] <= PART && size[1] <= PART) {
        ct_camera_matrix(&paint->snapshot->camera, whole, area, paint->matrix);
        bool drawn = draw_part(paint, size);
        if (drawn) glReadPixels(0, 0, (GLsizei)size[0], (GLsizei)size[1], GL_RGBA, GL_UNSIGNED_BYTE, rows);
        ct_status status = ct_gl_check(paint->painter->context, "drawing a picture", error);
        if (!status && !drawn && size[longer] < 2)
            status = ct_fail(error, CT_LIMIT_EXCEEDED, "snapshot",
                             "more surfaces lie behind one pixel than there is memory for: show one contact, or "
                             "samples alone");
        for (uint32_t r = 0; !status && drawn && r < size[1]; r++) /* OpenGL's first row is the lowest */
            memcpy(pixels + 4 * ((size_t)(area[3] - 1 - r) * o->width + area[0]), rows + 4 * (size_t)r * size[0],
                   4 * (size_t)size[0]);
        if (status || drawn) return status;
    }
    uint32_t halves[2][4];
    memcpy(halves[0], area, sizeof halves[0]);
    memcpy(halves[1], area, sizeof halves[1]);
    halves[0][2 + longer] = halves[1][longer] = area[longer] + size[longer] / 2;
    ct_status status = draw_area(paint, halves[0], rows, pixels, error);
    return status ? status : draw_area(paint, halves[1], rows, pixels, error);
}

static ct_status draw_all(ct_paint *paint, uint8_t *pixels, ct_error *error) {
    const ct_snapshot_options *o = &paint->snapshot->options;
    uint8_t *rows = malloc((size_t)paint->part_size[0] * paint->part_size[1] * 4);
    if (!rows) return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for a part of a picture");
    glBindVertexArray(paint->painter->nothing);
    glPixelStorei(GL_PACK_ALIGNMENT, 4);
    ct_status status = draw_area(paint, (const uint32_t[4]){0, 0, o->width, o->height}, rows, pixels, error);
    free(rows);
    return status;
}

ct_status ct_painter_draw(ct_painter *painter, const ct_snapshot *snapshot, uint64_t most_glass, uint8_t *pixels,
                          ct_error *error) {
    ct_paint paint = {.painter = painter, .snapshot = snapshot};
    ct_status status = ct_gl_enter(painter->context, error);
    if (status) return status;
    glGetIntegerv(GL_MAX_SHADER_STORAGE_BLOCK_SIZE, &paint.most_bytes);
    glGetIntegerv(GL_SHADER_STORAGE_BUFFER_OFFSET_ALIGNMENT, &paint.alignment);
    if (paint.most_bytes <= 0) paint.most_bytes = INT32_MAX; /* does not fit a GLint */
    if (paint.alignment < 1) paint.alignment = 1;
    paint.most_room = (most_glass < (uint64_t)paint.most_bytes ? most_glass : (uint64_t)paint.most_bytes) / PIECE;
    if (paint.most_room < 2) paint.most_room = 2; /* the first is not used */
    const ct_snapshot_options *o = &snapshot->options;
    paint.part_size[0] = o->width < PART ? o->width : PART;
    paint.part_size[1] = o->height < PART ? o->height : PART;
    place_light(&paint);
    make_targets(&paint);
    status = upload_bodies(&paint, error);
    if (!status) status = upload_tiles(&paint, error);
    if (!status) status = ct_gl_check(painter->context, "bringing a picture's bodies to the device", error);
    if (!status) status = draw_all(&paint, pixels, error);
    free_all(&paint);
    ct_gl_leave(painter->context);
    return status;
}
