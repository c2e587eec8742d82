/* context.h - headless OpenGL for the rasteriser and for pictures: a surfaceless EGL context of OpenGL 4.5 core, its
 * device chosen among those that EGL enumerates. Only builds with CT_HAVE_EGL have it; libraries are looked for at run
 * time, and where there are none, creating a context is an error like any other.
 */
#ifndef CT_GL_CONTEXT_H
#define CT_GL_CONTEXT_H

#include <stdbool.h>

#include "gpu/include/contact.h"

typedef struct ct_gl_context ct_gl_context;

/* Devices are numbered as EGL enumerates them. By default the first that has OpenGL 4.5 is taken, those that draw with
 * the processor after all others. At most one of the two is not CT_GL_ANY. */
enum { CT_GL_ANY = -1 };
typedef struct ct_gl_choice {
    int device;      /* that device and no other */
    int cuda_device; /* the one that CUDA calls so (EGL_NV_device_cuda) */
} ct_gl_choice;

typedef struct ct_gl_facts {
    char vendor[64], renderer[96], version[64]; /* as the driver names itself */
    int device;                                 /* CT_GL_ANY: EGL could not enumerate, and gave a display without */
    int cuda_device;                            /* CT_GL_ANY: none of CUDA's, or not told */
    bool software;                              /* draws with the processor */
    int subpixel_bits;
} ct_gl_facts;

/* choice may be NULL: any. UNSUPPORTED: no EGL, no such device, none with OpenGL 4.5; the message says what was found
 * and what to install. The context is current nowhere. EGL displays are the process's, and stay for later contexts. */
ct_status ct_gl_context_create(const ct_gl_choice *choice, ct_gl_context **out, ct_error *error);
void ct_gl_context_destroy(ct_gl_context **context); /* current nowhere; nulls; NULL is allowed */
const ct_gl_facts *ct_gl_context_facts(const ct_gl_context *context);

/* Makes the context current on the calling thread, once another thread that is inside has left. All GL calls go between
 * enter and leave, by any thread; they do not nest. On failure the thread is not inside. */
ct_status ct_gl_enter(ct_gl_context *context, ct_error *error);

/* Inside: the first error that GL reported since enter or the last check, if any, as OUT_OF_MEMORY or DEVICE_ERROR;
 * `doing` says what failed, e.g. "drawing 3 views". */
ct_status ct_gl_check(ct_gl_context *context, const char *doing, ct_error *error);

void ct_gl_leave(ct_gl_context *context); /* what was not checked is dropped */

/* Inside: a program of two shaders' GLSL sources; the caller deletes it. DEVICE_ERROR with the compiler's first words.
 */
ct_status ct_gl_program(ct_gl_context *context, const char *name, const char *vertex, const char *fragment,
                        unsigned *program, ct_error *error);

#endif
