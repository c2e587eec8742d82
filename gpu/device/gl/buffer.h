/* buffer.h - copies OpenGL buffers to and from the host, for the CUDA shim (shim.cu), which has to emulate buffers
 * shared with CUDA. Call inside a context (ct_gl_enter); buffers are given by their OpenGL names. */
#ifndef CT_GL_BUFFER_H
#define CT_GL_BUFFER_H

#include <stddef.h>

size_t ct_gl_buffer_size(unsigned buffer); /* bytes; 0: no such buffer */
void ct_gl_buffer_read(unsigned buffer, size_t bytes, void *to);
void ct_gl_buffer_write(unsigned buffer, size_t bytes, const void *from);

#endif
