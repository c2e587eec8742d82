/* shared_gl.h - the OpenGL rasteriser for who makes patches, and takes fragments, in OpenGL's own buffers and not on
 * the host: CUDA. Buffers are told by the names that OpenGL has for them, so no header of its is needed here.
 */
#ifndef CT_SHARED_GL_H
#define CT_SHARED_GL_H

#include "gpu/include/contact.h"
#include "gpu/raster/patch_k.h"

typedef struct ct_gl_context ct_gl_context;
typedef struct ct_raster_gl ct_raster_gl; /* programs and buffers of one who draws; for one thread at a time */

/* The context outlives it. Draws a few triangles for which the answer is known: UNSUPPORTED if the driver gives
 * another.
 */
ct_status ct_raster_gl_create(ct_gl_context *context, ct_raster_gl **out, ct_error *error);

/* As the shaders number them; the last one is read by the draw call itself. */
typedef enum ct_gl_buffer {
    CT_GL_PATCHES,   /* ct_patch */
    CT_GL_REGIONS,   /* ct_draw_region, all within a picture of CT_PICTURE_SIDE pixels each way */
    CT_GL_HEADS,     /* uint32_t a ray, CT_END when a drawing begins */
    CT_GL_WINDINGS,  /* int32_t [2] a ray, 0 when a drawing begins */
    CT_GL_FRAGMENTS, /* ct_linked_fragment */
    CT_GL_COUNTER,   /* uint32_t, 0 when a drawing begins: fragments, those for which there is no room among them */
    CT_GL_COMMANDS,  /* ct_draw_command */
    CT_GL_BUFFERS
} ct_gl_buffer;

/* A shader reaches so many bytes of a buffer, at most this many in any driver's. */
size_t ct_raster_gl_reach(const ct_raster_gl *gl);
#define CT_GL_MOST_REACH ((size_t)1 << 30)

/* All inside the context (ct_gl_enter): */

/* Puts a new buffer of so many bytes, at most ct_raster_gl_reach, in the place of what there was, and tells the name
 * that OpenGL has for it; its content is undefined. 0 bytes: none. OUT_OF_MEMORY, DEVICE_ERROR: there is none. */
ct_status ct_raster_gl_share(ct_raster_gl *gl, ct_gl_buffer which, size_t bytes, unsigned *name, ct_error *error);

/* Executes the first n_commands of COMMANDS, with all seven buffers shared and room for `capacity` fragments. */
ct_status ct_raster_gl_draw_shared(ct_raster_gl *gl, uint32_t n_commands, uint32_t capacity, ct_error *error);

/* What OpenGL finds in the first bytes of a shared buffer. */
ct_status ct_raster_gl_read(ct_raster_gl *gl, ct_gl_buffer which, size_t bytes, void *out, ct_error *error);

/* Outside. One whose buffers were shared or not yet made; nulls; NULL is allowed. */
void ct_raster_gl_close(ct_raster_gl **gl);

#endif
