/* test_context_gl.c - the headless OpenGL context: creation, use from several threads, reported errors; and the
 * messages when EGL, a device or OpenGL 4.5 is missing, which child processes with a broken environment produce.
 *
 * Without EGL and OpenGL 4.5 the tests that draw are skipped.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <epoxy/gl.h>

#include "gpu/device/gl/context.h"

static const char *self; /* this program */
static ct_gl_context *context;

static int open_context(void **state) {
    (void)state;
    ct_error error = {0};
    if (ct_gl_context_create(NULL, &context, &error)) fprintf(stderr, "SKIPPED: tests that draw: %s\n", error.message);
    return 0;
}

static int close_context(void **state) {
    (void)state;
    ct_gl_context_destroy(&context);
    assert_null(context);
    ct_gl_context_destroy(&context);
    return 0;
}

static void need_context(void) {
    if (!context) skip();
}

static void enter(void) {
    ct_error error = {0};
    ct_status status = ct_gl_enter(context, &error);
    if (status) fail_msg("%s", error.message);
}

static void test_facts(void **state) {
    (void)state;
    need_context();
    const ct_gl_facts *facts = ct_gl_context_facts(context);
    assert_true(facts->vendor[0] && facts->renderer[0]);
    assert_true(facts->version[0] > '4' || (facts->version[0] == '4' && facts->version[2] >= '5'));
    assert_true(facts->subpixel_bits >= 4); /* OpenGL asks for that */
    printf("drawing with %s, OpenGL %s, EGL device %d\n", facts->renderer, facts->version, facts->device);
}

static void test_choice(void **state) {
    (void)state;
    need_context();
    ct_gl_context *other = NULL;
    ct_error error = {0};
    ct_gl_choice choice = {ct_gl_context_facts(context)->device, CT_GL_ANY};
    assert_int_equal(ct_gl_context_create(&choice, &other, &error), CT_OK);
    assert_int_equal(ct_gl_context_facts(other)->device, choice.device);
    assert_string_equal(ct_gl_context_facts(other)->renderer, ct_gl_context_facts(context)->renderer);
    ct_gl_context_destroy(&other);

    choice.device = 63;
    assert_int_equal(ct_gl_context_create(&choice, &other, &error), CT_UNSUPPORTED);
    assert_null(other);
    assert_non_null(strstr(error.message, "there is no EGL device 63: EGL has"));
    error = (ct_error){0};
    choice = (ct_gl_choice){CT_GL_ANY, 61};
    assert_int_equal(ct_gl_context_create(&choice, &other, &error), CT_UNSUPPORTED);
    assert_non_null(strstr(error.message, "is CUDA's device 61"));

    enter(); /* the other's end was not this one's */
    assert_non_null(glGetString(GL_VERSION));
    ct_gl_leave(context);
}

static void test_errors(void **state) {
    (void)state;
    need_context();
    ct_error error = {0};
    enter();
    ct_gl_check(context, "nothing", &error);
    assert_string_equal(error.message, "");
    glEnable(0x1234);
    assert_int_equal(ct_gl_check(context, "enabling an unknown capability", &error), CT_DEVICE_ERROR);
    assert_non_null(strstr(error.message, "enabling an unknown capability: OpenGL error 0x0500"));
    error = (ct_error){0};
    assert_int_equal(ct_gl_check(context, "after that", &error), CT_OK); /* reported once */
    glEnable(0x1234);
    ct_gl_leave(context);
    enter(); /* dropped by leaving */
    assert_int_equal(ct_gl_check(context, "inside again", &error), CT_OK);
    ct_gl_leave(context);
}

static const char vertex[] = "#version 450 core\nvoid main() { gl_Position = vec4(0); }\n";
static const char fragment[] = "#version 450 core\nlayout(location = 0) out vec4 c;\nvoid main() { c = vec4(1); }\n";

static void test_programs(void **state) {
    (void)state;
    need_context();
    ct_error error = {0};
    unsigned program = 1;
    enter();
    assert_int_equal(ct_gl_program(context, "good", vertex, fragment, &program, &error), CT_OK);
    assert_true(glIsProgram(program));
    glDeleteProgram(program);
    assert_int_equal(
        ct_gl_program(context, "bad", vertex, "#version 450 core\nvoid main() { x = 1; }\n", &program, &error),
        CT_DEVICE_ERROR);
    assert_int_equal(program, 0);
    assert_non_null(strstr(error.message, "the fragment shader of bad"));
    error = (ct_error){0};
    assert_int_equal(ct_gl_program(context, "torn", "#version 450 core\nvoid missing();\nvoid main() { missing(); }\n",
                                   fragment, &program, &error),
                     CT_DEVICE_ERROR);
    assert_non_null(strstr(error.message, "torn"));
    ct_gl_leave(context);
}

/* Threads take turns: each clears a buffer of its own and reads it back. */
static void *use(void *argument) {
    uint32_t number = *(const uint32_t *)argument;
    uintptr_t bad = 0;
    for (uint32_t i = 0; i < 20; i++) {
        ct_error error = {0};
        if (ct_gl_enter(context, &error)) return (void *)1;
        GLuint buffer;
        uint32_t value = number * 1000 + i, read = 0;
        glCreateBuffers(1, &buffer);
        glNamedBufferStorage(buffer, 64, NULL, 0);
        glClearNamedBufferData(buffer, GL_R32UI, GL_RED_INTEGER, GL_UNSIGNED_INT, &value);
        glGetNamedBufferSubData(buffer, 60, 4, &read);
        glDeleteBuffers(1, &buffer);
        bad |= read != value;
        bad |= ct_gl_check(context, "clearing a buffer", &error) != CT_OK;
        ct_gl_leave(context);
    }
    return (void *)bad;
}

static void test_threads(void **state) {
    (void)state;
    need_context();
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    uint32_t numbers[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, use, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
}

/* ---- broken environments ---- */

/* Gets the message of creating a context in a child process with the variable set; the child destroys the context. */
static void message_with(const char *variable, const char *value, char *message, size_t size) {
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv(variable, value, 1);
        dup2(pipes[1], 1);
        close(pipes[0]);
        execl(self, self, "--say", (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(pipes[0], message + n, size - 1 - n)) > 0;) n += (size_t)got;
    message[n] = 0;
    close(pipes[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s=%s: the child ended with %x", variable, value, status);
}

static int say(void) {
    ct_gl_context *mine = NULL;
    ct_error error = {0};
    ct_gl_context_create(NULL, &mine, &error);
    printf("%s: %s\n", ct_status_name(error.status), error.message);
    ct_gl_context_destroy(&mine);
    return 0;
}

static void test_no_library(void **state) {
    (void)state;
    const char *names[] = {"libEGL.so.1", "libOpenGL.so.0", "libGL.so.1"};
    char folder[] = "/tmp/context_gl_XXXXXX", path[64], message[600];
    assert_non_null(mkdtemp(folder));
    /* A library that is found and cannot be loaded. */
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs("this is no library, and long enough that the loader reads its header and sees so ....................",
              f);
        fclose(f);
        if (i == 0) {
            message_with("LD_LIBRARY_PATH", folder, message, sizeof message);
            assert_non_null(strstr(message, "UNSUPPORTED: there is no EGL here (libEGL.so.1): install libegl1"));
        }
    }
    snprintf(path, sizeof path, "%s/%s", folder, names[0]);
    remove(path);
    if (context) {
        message_with("LD_LIBRARY_PATH", folder, message, sizeof message);
        assert_non_null(strstr(message, "UNSUPPORTED: there is no OpenGL here"));
    }
    for (int i = 1; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    rmdir(folder);
}

/* What libEGL is handed no driver by its vendor-neutral dispatch. */
static void test_no_driver(void **state) {
    (void)state;
    need_context();
    char message[600];
    message_with("__EGL_VENDOR_LIBRARY_FILENAMES", "/nonexistent.json", message, sizeof message);
    assert_non_null(strstr(message, "UNSUPPORTED: EGL has no device to draw on (no driver for it): install libegl1"));
}

static void test_old_version(void **state) {
    (void)state;
    need_context();
    if (!strstr(ct_gl_context_facts(context)->version, "Mesa")) skip(); /* others do not pretend */
    char message[600];
    message_with("MESA_GL_VERSION_OVERRIDE", "3.3", message, sizeof message);
    assert_non_null(strstr(message, "UNSUPPORTED: no EGL device with OpenGL 4.5 (found device 0: "));
    assert_non_null(strstr(message, "3.3"));
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 1 && !strcmp(argv[1], "--say")) return say();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),     cmocka_unit_test(test_choice),      cmocka_unit_test(test_errors),
        cmocka_unit_test(test_programs),  cmocka_unit_test(test_threads),     cmocka_unit_test(test_no_library),
        cmocka_unit_test(test_no_driver), cmocka_unit_test(test_old_version),
    };
    return cmocka_run_group_tests_name("context_gl", tests, open_context, close_context);
}
