/* context.h - headless OpenGL for the rasteriser and for pictures: a surfaceless EGL context of OpenGL 4.5 core on one
 * of the devices that EGL enumerates. Only in builds with CT_HAVE_EGL. Libraries are loaded at run time; if they are
 * missing, creating a context fails with UNSUPPORTED.
 */
#ifndef CT_GL_CONTEXT_H
#define CT_GL_CONTEXT_H

#include <stdbool.h>

#include "gpu/include/contact.h"

typedef struct ct_gl_context ct_gl_context;

/* Devices are numbered in EGL's order. At most one of the two fields differs from CT_GL_ANY. With both CT_GL_ANY the
 * first device with OpenGL 4.5 is used, GPUs before software renderers. */
enum { CT_GL_ANY = -1 };
typedef struct ct_gl_choice {
    int device;      /* EGL's device number */
    int cuda_device; /* CUDA's device number (EGL_NV_device_cuda) */
} ct_gl_choice;

typedef struct ct_gl_facts {
    char vendor[64], renderer[96], version[64]; /* as the driver reports them */
    int device;                                 /* CT_GL_ANY: EGL cannot enumerate devices */
    int cuda_device;                            /* CT_GL_ANY: not a CUDA device, or the driver does not say */
    bool software;                              /* the CPU draws */
    int subpixel_bits;
} ct_gl_facts;

/* choice may be NULL: any device. UNSUPPORTED: no EGL, no such device, or none with OpenGL 4.5; the message says which
 * devices were found and which packages to install. The context is not current on any thread. EGL displays belong to
 * the process and stay open for later contexts. */
ct_status ct_gl_context_create(const ct_gl_choice *choice, ct_gl_context **out, ct_error *error);
void ct_gl_context_destroy(ct_gl_context **context); /* no thread may be inside; nulls; NULL is allowed */
const ct_gl_facts *ct_gl_context_facts(const ct_gl_context *context);

/* Makes the context current on the calling thread; waits while another thread is inside. All GL calls are made between
 * enter and leave, from any thread; enter does not nest. After a failure the thread is not inside. */
ct_status ct_gl_enter(ct_gl_context *context, ct_error *error);

/* Inside. Returns the first error that GL reported since enter or the last check as OUT_OF_MEMORY or DEVICE_ERROR; OK
 * if there was none. `doing` names the failed operation in the message, e.g. "drawing 3 views". */
ct_status ct_gl_check(ct_gl_context *context, const char *doing, ct_error *error);

void ct_gl_leave(ct_gl_context *context); /* discards GL errors that were not checked */

/* Inside. Makes a program from GLSL sources of two shaders; the caller deletes it. DEVICE_ERROR with the start of the
 * compiler's log. */
ct_status ct_gl_program(ct_gl_context *context, const char *name, const char *vertex, const char *fragment,
                        unsigned *program, ct_error *error);

#endif
