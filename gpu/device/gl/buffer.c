/* buffer.c - copies OpenGL buffers to and from the host; compiled only with the CUDA shim. */
#include "gpu/device/gl/buffer.h"

#ifdef CT_CUDA_SHIM

#include <epoxy/gl.h>

size_t ct_gl_buffer_size(unsigned buffer) {
    GLint64 bytes = 0;
    if (glIsBuffer(buffer)) glGetNamedBufferParameteri64v(buffer, GL_BUFFER_SIZE, &bytes);
    return (size_t)bytes;
}

void ct_gl_buffer_read(unsigned buffer, size_t bytes, void *to) {
    glGetNamedBufferSubData(buffer, 0, (GLsizeiptr)bytes, to);
}

void ct_gl_buffer_write(unsigned buffer, size_t bytes, const void *from) {
    glNamedBufferSubData(buffer, 0, (GLsizeiptr)bytes, from);
}

#endif
