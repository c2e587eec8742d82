/* test_collective_cuda.c - the collective operations of a block and a warp (appending to lists, sums, prefix sums, the
 * last block), on a GPU where there is one or on the shim. And that the shim finds wrong kernels: races with
 * ThreadSanitizer, barriers and shuffles that some threads do not reach in every build. */
#include "tests/unit/unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

bool kernels_found(void);
bool kernels_are_right(void);
bool kernels_run_wrong(const char *name);

static const char *self;

#if defined(__SANITIZE_THREAD__)
#define RACES_SHOW 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RACES_SHOW 1
#endif
#endif

static void test_right(void **state) {
    (void)state;
    if (!kernels_found()) {
        printf("SKIPPED: this build's kernels need a GPU, and there is none\n");
        skip();
    }
    static const char *const orders[] = {"0", "63", "21", "1", "1000001"};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        setenv("CT_SHIM_ORDER", orders[i], 1);
        assert_true(kernels_are_right());
    }
    unsetenv("CT_SHIM_ORDER");
}

#ifdef CT_CUDA_SHIM

/* Runs a wrong kernel in its own process. Returns its exit code, or minus the signal that ended it. */
static int run_wrong(const char *name, char *said, size_t size) {
    char command[4096];
    snprintf(command, sizeof command, "exec '%s' %s 2>&1", self, name);
    FILE *child = popen(command, "r");
    assert_non_null(child);
    size_t n = fread(said, 1, size - 1, child);
    said[n] = 0;
    for (char rest[256]; fread(rest, 1, sizeof rest, child) > 0;) continue;
    int status = pclose(child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void expect_stop(const char *name, const char *message) {
    char said[8192];
    assert_int_equal(run_wrong(name, said, sizeof said), -SIGABRT);
    if (!strstr(said, message)) fail_msg("%s said: %s", name, said);
}

static void test_threads_that_do_not_meet(void **state) {
    (void)state;
    expect_stop("parts_at_a_barrier", "others wait at another barrier");
    expect_stop("shuffles_with_the_absent", "it waits for threads that do not come");
}

static void test_races(void **state) {
    (void)state;
#ifdef RACES_SHOW
    static const char *const races[] = {"reads_its_neighbour", "writes_where_others_write", "counts_without_a_fence"};
    for (size_t i = 0; i < sizeof races / sizeof *races; i++) {
        char said[8192];
        int code = run_wrong(races[i], said, sizeof said);
        if (code == 0 || !strstr(said, "data race") || !strstr(said, races[i]))
            fail_msg("%s: exit code %d, said: %s", races[i], code, said);
    }
#else
    printf("SKIPPED: races show in builds with SANITIZE=thread\n");
    skip();
#endif
}

#endif

int main(int argc, char **argv) {
    if (argc > 1) return kernels_run_wrong(argv[1]) ? 0 : 2;
    self = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),
#ifdef CT_CUDA_SHIM
        cmocka_unit_test(test_threads_that_do_not_meet),
        cmocka_unit_test(test_races),
#endif
    };
    return cmocka_run_group_tests_name("collective", tests, NULL, NULL);
}
