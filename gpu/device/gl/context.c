/* context.c - finds an EGL device with OpenGL 4.5 and creates a surfaceless context on it. */
#include "gpu/device/gl/context.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <epoxy/egl.h>
#include <epoxy/gl.h>

#include "gpu/base/fail.h"

static const char INSTALL[] = "libegl1, libopengl0 and a driver (NVIDIA's, or Mesa's libegl-mesa0 and libgl1-mesa-dri)";

enum { MAX_EGL_DEVICES = 64, REQUIRED_VERSION = 45 };

struct ct_gl_context {
    pthread_mutex_t mutex; /* held by the thread that is inside */
    EGLDisplay display;
    EGLContext context;
    ct_gl_facts facts;
    ct_error reported; /* the driver's first debug message of an error since enter or the last check */
};

/* ---- libraries and devices ---- */

/* libepoxy aborts the process if it cannot load a library, so all libraries are checked before the first call to it. */
static bool has_library(const char *name) {
    void *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (handle) dlclose(handle);
    return handle;
}

static ct_status require_libraries(ct_error *error) {
    if (!has_library("libEGL.so.1"))
        return ct_fail(error, CT_UNSUPPORTED, "rasterizer", "there is no EGL here (libEGL.so.1): install %s", INSTALL);
    if (!has_library("libOpenGL.so.0") && !has_library("libGL.so.1"))
        return ct_fail(error, CT_UNSUPPORTED, "rasterizer",
                       "there is no OpenGL here (neither libOpenGL.so.0 nor libGL.so.1): install %s", INSTALL);
    return CT_OK;
}

static bool has_extension(const char *extensions, const char *name) {
    size_t length = strlen(name);
    for (const char *at = extensions; at && (at = strstr(at, name)); at += length)
        if ((at == extensions || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
    return false;
}

/* An EGL device on which a context may be created. If EGL cannot enumerate devices, `device` is EGL_NO_DEVICE_EXT. */
struct candidate {
    EGLDeviceEXT device;
    int index, cuda_device;
    bool software;
};

static struct candidate query_device(EGLDeviceEXT device, int index) {
    struct candidate candidate = {device, index, CT_GL_ANY, false};
    const char *extensions = eglQueryDeviceStringEXT(device, EGL_EXTENSIONS);
    candidate.software = has_extension(extensions, "EGL_MESA_device_software");
    EGLAttrib number;
    if (has_extension(extensions, "EGL_NV_device_cuda") && eglQueryDeviceAttribEXT(device, EGL_CUDA_DEVICE_NV, &number))
        candidate.cuda_device = (int)number;
    return candidate;
}

/* Lists candidates in the order in which to try them: EGL's order, but software renderers last. Returns their number.
 */
static int list_candidates(const char *extensions, struct candidate candidates[MAX_EGL_DEVICES]) {
    EGLDeviceEXT devices[MAX_EGL_DEVICES];
    EGLint n_devices = 0;
    bool can_enumerate =
        (has_extension(extensions, "EGL_EXT_device_base") || (has_extension(extensions, "EGL_EXT_device_enumeration") &&
                                                              has_extension(extensions, "EGL_EXT_device_query"))) &&
        has_extension(extensions, "EGL_EXT_platform_device");
    if (can_enumerate && !eglQueryDevicesEXT(MAX_EGL_DEVICES, devices, &n_devices)) n_devices = 0;
    int n = 0;
    for (int software = 0; software < 2; software++)
        for (int i = 0; i < n_devices; i++) {
            struct candidate candidate = query_device(devices[i], i);
            if (candidate.software == software) candidates[n++] = candidate;
        }
    if (n == 0 && has_extension(extensions, "EGL_MESA_platform_surfaceless"))
        candidates[n++] = (struct candidate){EGL_NO_DEVICE_EXT, CT_GL_ANY, CT_GL_ANY, false};
    return n;
}

/* ---- one device ---- */

static const char *egl_error_name(EGLint code) {
    static const char *const names[] = {"EGL_SUCCESS",       "EGL_NOT_INITIALIZED",     "EGL_BAD_ACCESS",
                                        "EGL_BAD_ALLOC",     "EGL_BAD_ATTRIBUTE",       "EGL_BAD_CONFIG",
                                        "EGL_BAD_CONTEXT",   "EGL_BAD_CURRENT_SURFACE", "EGL_BAD_DISPLAY",
                                        "EGL_BAD_MATCH",     "EGL_BAD_NATIVE_PIXMAP",   "EGL_BAD_NATIVE_WINDOW",
                                        "EGL_BAD_PARAMETER", "EGL_BAD_SURFACE",         "EGL_CONTEXT_LOST"};
    unsigned index = (unsigned)code - EGL_SUCCESS;
    return index < sizeof names / sizeof *names ? names[index] : "an unknown EGL error";
}

static EGLContext make_context(EGLDisplay display, EGLConfig config, int major, int minor) {
    const EGLint attributes[] = {
        EGL_CONTEXT_MAJOR_VERSION,           major,   EGL_CONTEXT_MINOR_VERSION, minor, EGL_CONTEXT_OPENGL_PROFILE_MASK,
        EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT, EGL_NONE};
    return eglCreateContext(display, config, EGL_NO_CONTEXT, attributes);
}

/* Writes the reason why a device cannot be used; returns false. */
__attribute__((format(printf, 3, 4))) static bool reject(char *why, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(why, size, format, args);
    va_end(args);
    return false;
}

static bool choose_config(EGLDisplay display, EGLConfig *config) {
    static const EGLint attributes[] = {EGL_SURFACE_TYPE, 0, EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_NONE};
    EGLint n = 0;
    *config = EGL_NO_CONFIG_KHR;
    if (epoxy_has_egl_extension(display, "EGL_KHR_no_config_context")) return true;
    return eglChooseConfig(display, attributes, config, 1, &n) && n > 0;
}

/* Writes the device's highest OpenGL version, for the message that says it is too old. */
static void find_version(EGLDisplay display, EGLConfig config, char *name, size_t size) {
    snprintf(name, size, "none that is core");
    EGLContext context = make_context(display, config, 3, 1);
    if (context == EGL_NO_CONTEXT) return;
    if (eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, context)) {
        snprintf(name, size, "%s", (const char *)glGetString(GL_VERSION));
        eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    }
    eglDestroyContext(display, context);
}

static void GLAPIENTRY on_message(GLenum source, GLenum type, GLuint id, GLenum severity, GLsizei length,
                                  const GLchar *text, const void *user) {
    (void)source, (void)id, (void)severity, (void)length;
    ct_gl_context *context = (ct_gl_context *)(uintptr_t)user;
    if (type == GL_DEBUG_TYPE_ERROR) ct_fail(&context->reported, CT_DEVICE_ERROR, "rasterizer", "%.300s", text);
}

/* With the context current: reads the facts, checks the version, and turns on debug messages. */
static bool init_context(ct_gl_context *context, const struct candidate *candidate, char *why, size_t size) {
    ct_gl_facts *facts = &context->facts;
    snprintf(facts->vendor, sizeof facts->vendor, "%s", (const char *)glGetString(GL_VENDOR));
    snprintf(facts->renderer, sizeof facts->renderer, "%s", (const char *)glGetString(GL_RENDERER));
    snprintf(facts->version, sizeof facts->version, "%s", (const char *)glGetString(GL_VERSION));
    if (epoxy_gl_version() < REQUIRED_VERSION)
        return reject(why, size, "%s has OpenGL %s", facts->renderer, facts->version);
    facts->device = candidate->index;
    facts->cuda_device = candidate->cuda_device;
    facts->software = candidate->software || strstr(facts->renderer, "llvmpipe") || strstr(facts->renderer, "softpipe");
    glGetIntegerv(GL_SUBPIXEL_BITS, &facts->subpixel_bits);
    glEnable(GL_DEBUG_OUTPUT);
    glEnable(GL_DEBUG_OUTPUT_SYNCHRONOUS); /* on_message then runs on the calling thread, which holds the mutex */
    glDebugMessageCallback(on_message, context);
    return true;
}

static bool open_device(ct_gl_context *context, const struct candidate *candidate, char *why, size_t size) {
    context->display = candidate->device == EGL_NO_DEVICE_EXT
                           ? eglGetPlatformDisplayEXT(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, NULL)
                           : eglGetPlatformDisplayEXT(EGL_PLATFORM_DEVICE_EXT, candidate->device, NULL);
    EGLint major, minor;
    if (context->display == EGL_NO_DISPLAY || !eglInitialize(context->display, &major, &minor))
        return reject(why, size, "it could not be initialised (%s)", egl_error_name(eglGetError()));
    if (!epoxy_has_egl_extension(context->display, "EGL_KHR_surfaceless_context") ||
        !epoxy_has_egl_extension(context->display, "EGL_KHR_create_context") || !eglBindAPI(EGL_OPENGL_API))
        return reject(why, size, "its EGL %d.%d has no surfaceless OpenGL contexts", major, minor);
    EGLConfig config;
    if (!choose_config(context->display, &config)) return reject(why, size, "it has no configuration for OpenGL");
    context->context = make_context(context->display, config, REQUIRED_VERSION / 10, REQUIRED_VERSION % 10);
    if (context->context == EGL_NO_CONTEXT) {
        char version[64];
        find_version(context->display, config, version, sizeof version);
        return reject(why, size, "its OpenGL is %s", version);
    }
    if (!eglMakeCurrent(context->display, EGL_NO_SURFACE, EGL_NO_SURFACE, context->context)) {
        reject(why, size, "its context could not be used (%s)", egl_error_name(eglGetError()));
        eglDestroyContext(context->display, context->context);
        return false;
    }
    bool ok = init_context(context, candidate, why, size);
    eglMakeCurrent(context->display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    if (!ok) eglDestroyContext(context->display, context->context);
    return ok;
}

/* ---- contexts ---- */

static bool is_chosen(const struct candidate *candidate, const ct_gl_choice *choice) {
    if (!choice) return true;
    return (choice->device == CT_GL_ANY || choice->device == candidate->index) &&
           (choice->cuda_device == CT_GL_ANY || choice->cuda_device == candidate->cuda_device);
}

static ct_status open_any(ct_gl_context *context, const ct_gl_choice *choice, ct_error *error) {
    struct candidate candidates[MAX_EGL_DEVICES];
    const char *extensions = eglQueryString(EGL_NO_DISPLAY, EGL_EXTENSIONS);
    int n = list_candidates(extensions, candidates);
    char reasons[300] = "";
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        if (!is_chosen(&candidates[i], choice)) continue;
        char why[160];
        if (open_device(context, &candidates[i], why, sizeof why)) return CT_OK;
        if (used < sizeof reasons)
            used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%sdevice %d: %s", used ? "; " : "",
                                     candidates[i].index, why);
    }
    if (used)
        return ct_fail(error, CT_UNSUPPORTED, "rasterizer",
                       "no EGL device with OpenGL 4.5 (found %s): install a newer driver", reasons);
    if (n && choice && choice->cuda_device != CT_GL_ANY)
        return ct_fail(error, CT_UNSUPPORTED, "rasterizer",
                       "none of the %d EGL devices is CUDA's device %d: install NVIDIA's EGL driver", n,
                       choice->cuda_device);
    if (n)
        return ct_fail(error, CT_UNSUPPORTED, "rasterizer", "there is no EGL device %d: EGL has %d", choice->device, n);
    return ct_fail(error, CT_UNSUPPORTED, "rasterizer", "EGL has no device to draw on (no driver for it): install %s",
                   INSTALL);
}

ct_status ct_gl_context_create(const ct_gl_choice *choice, ct_gl_context **out, ct_error *error) {
    *out = NULL;
    ct_status status = require_libraries(error);
    if (status) return status;
    ct_gl_context *context = calloc(1, sizeof *context);
    if (!context) return ct_fail(error, CT_OUT_OF_MEMORY, "rasterizer", "no memory for an OpenGL context");
    pthread_mutex_init(&context->mutex, NULL);
    status = open_any(context, choice, error);
    if (status) {
        pthread_mutex_destroy(&context->mutex);
        free(context);
        return status;
    }
    *out = context;
    return CT_OK;
}

void ct_gl_context_destroy(ct_gl_context **handle) {
    ct_gl_context *context = *handle;
    if (!context) return;
    eglDestroyContext(context->display, context->context);
    pthread_mutex_destroy(&context->mutex);
    free(context);
    *handle = NULL;
}

const ct_gl_facts *ct_gl_context_facts(const ct_gl_context *context) {
    return &context->facts;
}

ct_status ct_gl_enter(ct_gl_context *context, ct_error *error) {
    pthread_mutex_lock(&context->mutex);
    context->reported = (ct_error){0};
    eglBindAPI(EGL_OPENGL_API); /* the default of each thread is OpenGL ES */
    if (eglMakeCurrent(context->display, EGL_NO_SURFACE, EGL_NO_SURFACE, context->context)) return CT_OK;
    EGLint code = eglGetError();
    pthread_mutex_unlock(&context->mutex);
    return ct_fail(error, CT_DEVICE_ERROR, "rasterizer", "the OpenGL context of %s can no longer be used (%s)",
                   context->facts.renderer, egl_error_name(code));
}

/* Clears all error flags and returns the first that was set. */
static GLenum clear_errors(void) {
    GLenum first = GL_NO_ERROR, code;
    while ((code = glGetError()) != GL_NO_ERROR) {
        if (first == GL_NO_ERROR) first = code;
        if (code == GL_CONTEXT_LOST) break; /* this flag stays set */
    }
    return first;
}

ct_status ct_gl_check(ct_gl_context *context, const char *doing, ct_error *error) {
    ct_error reported = context->reported;
    context->reported = (ct_error){0};
    GLenum first = clear_errors();
    if (first == GL_NO_ERROR && !reported.status) return CT_OK;
    return ct_fail(error, first == GL_OUT_OF_MEMORY ? CT_OUT_OF_MEMORY : CT_DEVICE_ERROR, "rasterizer",
                   "%s, %s: OpenGL error 0x%04x%s%s", context->facts.renderer, doing, first,
                   reported.status ? ": " : "", reported.message);
}

void ct_gl_leave(ct_gl_context *context) {
    clear_errors();
    eglMakeCurrent(context->display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    pthread_mutex_unlock(&context->mutex);
}

/* ---- programs ---- */

static ct_status compile_shader(ct_gl_context *context, const char *name, GLenum kind, const char *source,
                                GLuint *shader, ct_error *error) {
    *shader = glCreateShader(kind);
    glShaderSource(*shader, 1, &source, NULL);
    glCompileShader(*shader);
    GLint ok = GL_FALSE;
    glGetShaderiv(*shader, GL_COMPILE_STATUS, &ok);
    if (ok) return CT_OK;
    char log[256] = "";
    glGetShaderInfoLog(*shader, sizeof log, NULL, log);
    return ct_fail(error, CT_DEVICE_ERROR, "rasterizer", "%s does not compile_shader the %s shader of %s: %s",
                   context->facts.renderer, kind == GL_VERTEX_SHADER ? "vertex" : "fragment", name, log);
}

ct_status ct_gl_program(ct_gl_context *context, const char *name, const char *vertex, const char *fragment,
                        unsigned *program, ct_error *error) {
    GLuint shaders[2] = {0, 0};
    *program = 0;
    ct_status status = compile_shader(context, name, GL_VERTEX_SHADER, vertex, &shaders[0], error);
    if (!status) status = compile_shader(context, name, GL_FRAGMENT_SHADER, fragment, &shaders[1], error);
    if (!status) {
        GLuint linked = glCreateProgram();
        for (int i = 0; i < 2; i++) glAttachShader(linked, shaders[i]);
        glLinkProgram(linked);
        GLint ok = GL_FALSE;
        glGetProgramiv(linked, GL_LINK_STATUS, &ok);
        if (ok) {
            *program = linked;
        } else {
            char log[256] = "";
            glGetProgramInfoLog(linked, sizeof log, NULL, log);
            status = ct_fail(error, CT_DEVICE_ERROR, "rasterizer", "%s does not link the shaders of %s: %s",
                             context->facts.renderer, name, log);
            glDeleteProgram(linked);
        }
    }
    for (int i = 0; i < 2; i++) glDeleteShader(shaders[i]);
    return status;
}
