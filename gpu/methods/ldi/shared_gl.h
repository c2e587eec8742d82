/* shared_gl.h - the OpenGL rasteriser for CUDA, which writes quads into OpenGL's buffers and reads fragments from
 * them, without copies through the host. Buffers are given by their OpenGL names, so this header needs no OpenGL
 * header.
 */
#ifndef CT_SHARED_GL_H
#define CT_SHARED_GL_H

#include "gpu/include/contact.h"
#include "gpu/methods/ldi/quad_k.h"

typedef struct ct_gl_context ct_gl_context;
typedef struct ct_raster_gl ct_raster_gl; /* a program and buffers; used by one thread at a time */

/* The context must outlive the rasteriser. Runs driver_check.h; UNSUPPORTED: the driver does not compute exactly, or
 * has not all needed features. */
ct_status ct_raster_gl_create(ct_gl_context *context, ct_raster_gl **out, ct_error *error);

/* Buffers, numbered as the shaders bind them; only the draw call itself reads CT_GL_COMMANDS. */
typedef enum ct_gl_buffer {
    CT_GL_QUADS,     /* ct_quad */
    CT_GL_REGIONS,   /* ct_draw_region, all within CT_FRAMEBUFFER_SIDE x CT_FRAMEBUFFER_SIDE pixels */
    CT_GL_HEADS,     /* uint32_t a ray: index of its first fragment; CT_END before a drawing */
    CT_GL_WINDINGS,  /* int32_t [2] a ray: initial winding numbers; 0 before a drawing */
    CT_GL_FRAGMENTS, /* ct_linked_fragment */
    CT_GL_COUNTER,   /* uint32_t: number of fragments, those beyond the capacity included; 0 before a drawing */
    CT_GL_COMMANDS,  /* ct_draw_command */
    CT_GL_BUFFERS
} ct_gl_buffer;

/* The largest buffer, in bytes, that a shader can access: the driver's limit, at most CT_GL_MAX_BUFFER_BYTES. */
size_t ct_raster_gl_max_buffer_bytes(const ct_raster_gl *gl);
#define CT_GL_MAX_BUFFER_BYTES ((size_t)1 << 30)

/* Call the next three inside the context (ct_gl_enter). */

/* Replaces a buffer by a new one of `bytes` bytes, at most ct_raster_gl_max_buffer_bytes, with undefined content, and
 * returns its OpenGL name in *name. 0 bytes: deletes the buffer. OUT_OF_MEMORY, DEVICE_ERROR: there is no buffer
 * afterwards. */
ct_status ct_raster_gl_replace_buffer(ct_raster_gl *gl, ct_gl_buffer which, size_t bytes, unsigned *name,
                                      ct_error *error);

/* Executes the first n_commands of CT_GL_COMMANDS. All seven buffers are shared; CT_GL_FRAGMENTS holds `capacity`
 * fragments. */
ct_status ct_raster_gl_draw_shared(ct_raster_gl *gl, uint32_t n_commands, uint32_t capacity, ct_error *error);

/* Reads the first bytes of a shared buffer, as OpenGL sees them. */
ct_status ct_raster_gl_read(ct_raster_gl *gl, ct_gl_buffer which, size_t bytes, void *out, ct_error *error);

/* Destroys a rasteriser that has only shared buffers, or none. Call outside the context; nulls; NULL is allowed. */
void ct_raster_gl_close(ct_raster_gl **gl);

#endif
