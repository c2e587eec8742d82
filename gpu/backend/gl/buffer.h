/* buffer.h - what is in OpenGL's buffers, by their names, for the stand-in for CUDA (shim.cu): inside a context. */
#ifndef CT_GL_BUFFER_H
#define CT_GL_BUFFER_H

#include <stddef.h>

size_t ct_gl_buffer_size(unsigned buffer); /* bytes; 0: there is no such buffer */
void ct_gl_buffer_read(unsigned buffer, size_t bytes, void *to);
void ct_gl_buffer_write(unsigned buffer, size_t bytes, const void *from);

#endif
