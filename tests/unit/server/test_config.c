/* Options: precedence, kinds, ranges, messages, and that what is printed can be read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/base/config.h"

static char message[512];
static uint64_t memory_bytes = UINT64_C(1) << 40;

static config_outcome load(config *out, char *const argv[], char *const envp[]) {
    int argc = 0;
    while (argv[argc]) argc++;
    message[0] = 0;
    return config_load(out, argc, argv, envp, memory_bytes, message, sizeof message);
}

#define ARGS(...) ((char *[]){"contactd", __VA_ARGS__})
#define ENV(...)  ((char *[]){__VA_ARGS__})

static char *write_file(const char *text) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/contactd-config-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    return path;
}

static void test_defaults(void **state) {
    (void)state;
    config config;
    assert_int_equal(load(&config, ARGS(NULL), ENV("PATH=/bin", NULL)), CONFIG_RUN);
    assert_string_equal(config.http, "127.0.0.1:8080");
    assert_int_equal(config.stream.n, 1);
    assert_string_equal(config.stream.items[0], "tcp://127.0.0.1:5555");
    assert_int_equal(config.max_message, 256u << 20);
    assert_int_equal(config.lease, 60000);
    assert_string_equal(config.log_file, "");
    config_free(&config);
}

static void test_precedence(void **state) {
    (void)state;
    char *path = write_file("# comment\n\n threads = 3 \nqueue=30\nmax-in-flight = 5\nlog-file =\n");
    char variable[96];
    snprintf(variable, sizeof variable, "CONTACTD_CONFIG=%s", path);
    config config;
    /* --config by the environment; the flag stands before what it must win over. */
    assert_int_equal(
        load(&config, ARGS("--queue", "10", NULL), ENV(variable, "CONTACTD_THREADS=2", "CONTACTD_QUEUE=20", NULL)),
        CONFIG_RUN);
    assert_int_equal(config.queue, 10);
    assert_int_equal(config.threads, 2);
    assert_int_equal(config.max_in_flight, 5);
    config_free(&config);
    assert_int_equal(load(&config, ARGS("--config", path, "--threads=7", NULL), ENV(NULL)), CONFIG_RUN);
    assert_int_equal(config.threads, 7);
    assert_int_equal(config.queue, 30);
    config_free(&config);
    unlink(path);
}

static void test_lists(void **state) {
    (void)state;
    config config;
    assert_int_equal(load(&config, ARGS("--stream", "tcp://127.0.0.1:1", "--stream=ipc:///tmp/x", NULL),
                          ENV("CONTACTD_STREAM=tcp://127.0.0.1:9", NULL)),
                     CONFIG_RUN);
    assert_int_equal(config.stream.n, 2);
    assert_string_equal(config.stream.items[1], "ipc:///tmp/x");
    config_free(&config);
    assert_int_equal(load(&config, ARGS(NULL), ENV("CONTACTD_STREAM=tcp://a:1, ipc://b", NULL)), CONFIG_RUN);
    assert_int_equal(config.stream.n, 2);
    assert_string_equal(config.stream.items[0], "tcp://a:1");
    assert_string_equal(config.stream.items[1], "ipc://b");
    config_free(&config);
}

static void test_units(void **state) {
    (void)state;
    config config;
    assert_int_equal(
        load(&config,
             ARGS("--max-message", "64K", "--mesh-memory", "3GiB", "--lease", "1500ms", "--drain", "2m",
                  "--scratch-memory", "0", "--gpu-memory", "12G", "--devices", "0,2", "--raster", "egl", NULL),
             ENV(NULL)),
        CONFIG_RUN);
    assert_int_equal(config.max_message, 65536);
    assert_int_equal(config.mesh_memory, UINT64_C(3) << 30);
    assert_int_equal(config.lease, 1500);
    assert_int_equal(config.gpu_memory, UINT64_C(12) << 30);
    assert_string_equal(config.devices, "0,2");
    assert_string_equal(config.raster, "egl");
    assert_int_equal(config.drain, 120000);
    config_free(&config);
}

static void test_switches(void **state) {
    (void)state;
    config config;
    assert_int_equal(load(&config, ARGS(NULL), ENV(NULL)), CONFIG_RUN);
    assert_false(config.insecure);
    config_free(&config);
    assert_int_equal(load(&config, ARGS("--insecure", "--queue", "7", NULL), ENV(NULL)), CONFIG_RUN);
    assert_true(config.insecure);
    assert_int_equal(config.queue, 7);
    config_free(&config);
    assert_int_equal(load(&config, ARGS("--insecure=no", NULL), ENV("CONTACTD_INSECURE=yes", NULL)), CONFIG_RUN);
    assert_false(config.insecure);
    config_free(&config);
}

/* What clients, tests and Kubernetes put into the environment is not the server's business. */
static void test_variables_of_others(void **state) {
    (void)state;
    config config;
    assert_int_equal(
        load(&config, ARGS(NULL),
             ENV("CONTACTD_SERVER=tcp://a:1", "CONTACTD_SERVER_KEY=x", "CONTACTD_CLIENT_KEY=x", "CONTACTD_MESHES=/m",
                 "CONTACTD_PROGRAM=/p", "CONTACTD_LIBRARY=/l", "CONTACTD_SERVICE_HOST=10.0.0.1",
                 "CONTACTD_PORT=tcp://10.0.0.1:1", "CONTACTD_PORT_5555_TCP_ADDR=10.0.0.1", "CONTACTD_", NULL)),
        CONFIG_RUN);
    config_free(&config);
}

static void test_comments_behind_values(void **state) {
    (void)state;
    config config;
    char *path = write_file("queue = 7\nlog-file = /tmp/a # where it goes\n");
    assert_int_equal(load(&config, ARGS("--config", path, NULL), ENV(NULL)), CONFIG_INVALID);
    assert_non_null(strstr(message, ":2"));
    assert_non_null(strstr(message, "comment"));
    unlink(path);
    path = write_file("log-file = /tmp/a#1\nhttp-host =\n");
    assert_int_equal(load(&config, ARGS("--config", path, NULL), ENV(NULL)), CONFIG_RUN);
    assert_string_equal(config.log_file, "/tmp/a#1");
    assert_int_equal(config.http_host.n, 0);
    config_free(&config);
    unlink(path);
}

static void refused(char *const argv[], char *const envp[], const char *part, const char *other) {
    config config;
    assert_int_equal(load(&config, argv, envp), CONFIG_INVALID);
    if (!strstr(message, part) || !strstr(message, other)) fail_msg("\"%s\" lacks %s or %s", message, part, other);
}

static void test_refusals(void **state) {
    (void)state;
    refused(ARGS("--nonsense", "1", NULL), ENV(NULL), "--nonsense", "--help");
    refused(ARGS("stray", NULL), ENV(NULL), "stray", "unexpected");
    refused(ARGS("--queue", NULL), ENV(NULL), "--queue", "needs a value");
    refused(ARGS("--insecure=perhaps", NULL), ENV(NULL), "--insecure", "yes|no");
    refused(ARGS(NULL), ENV("CONTACTD_LOGLEVEL=debug", NULL), "CONTACTD_LOGLEVEL", "CONTACTD_LOG_LEVEL");
    refused(ARGS(NULL), ENV("CONTACTD_MAX_MESAGE=1M", NULL), "CONTACTD_MAX_MESAGE", "CONTACTD_MAX_MESSAGE");
    refused(ARGS(NULL), ENV("CONTACTD_COLOUR=red", NULL), "CONTACTD_COLOUR", "--help");
    refused(ARGS("--queue", "many", NULL), ENV(NULL), "--queue", "whole number");
    refused(ARGS("--queue", "-1", NULL), ENV(NULL), "-1", "whole number");
    refused(ARGS("--queue", "0", NULL), ENV(NULL), "--queue", "1 to 1000000");
    refused(ARGS("--max-message", "1", NULL), ENV(NULL), "--max-message", "65536 to");
    refused(ARGS("--max-message", "64Q", NULL), ENV(NULL), "64Q", "16M");
    refused(ARGS("--mesh-memory", "99999999999T", NULL), ENV(NULL), "99999999999T", "bytes");
    refused(ARGS("--lease", "30", NULL), ENV(NULL), "--lease", "250ms");
    refused(ARGS("--backend", "abacus", NULL), ENV(NULL), "abacus", "auto|cpu|cuda");
    refused(ARGS("--raster", "crayon", NULL), ENV(NULL), "crayon", "auto|native|egl");
    refused(ARGS("--gpu-memory", "lots", NULL), ENV(NULL), "--gpu-memory", "bytes");
    refused(ARGS("--stream", "a,,b", NULL), ENV(NULL), "--stream", "empty");
    refused(ARGS(NULL), ENV("CONTACTD_THREADS=x", NULL), "CONTACTD_THREADS", "whole number");
    refused(ARGS("--config", "/nonexistent/file", NULL), ENV(NULL), "/nonexistent/file", "No such file");
    char *path = write_file("threads = 1\nthread = 2\n");
    refused(ARGS("--config", path, NULL), ENV(NULL), ":2", "\"thread\"");
    unlink(path);
    path = write_file("threads = 1\nqueue = 3\nthreads = 1\n");
    refused(ARGS("--config", path, NULL), ENV(NULL), ":3", "twice");
    unlink(path);
    path = write_file("threads 1\n");
    refused(ARGS("--config", path, NULL), ENV(NULL), ":1", "key = value");
    unlink(path);
}

/* What some editors put in front of UTF-8; and a list, which may be repeated. */
static void test_marked_file(void **state) {
    (void)state;
    config config;
    char *path = write_file("\xEF\xBB\xBFthreads = 3\nhttp-host = a\nhttp-host = b\n");
    assert_int_equal(load(&config, ARGS("--config", path, NULL), ENV(NULL)), CONFIG_RUN);
    assert_int_equal(config.threads, 3);
    assert_int_equal(config.http_host.n, 2);
    config_free(&config);
    unlink(path);
}

static void test_durations(void **state) {
    (void)state;
    static const struct {
        char *text;
        uint64_t ms; /* 0: it is refused */
    } cases[] = {{"10", 10000},
                 {"0.5", 500},
                 {"0.0001", 1},
                 {"250ms", 250},
                 {"1.5s", 1500},
                 {"2m", 120000},
                 {"24h", 86400000},
                 {"25h", 0},
                 {"0", 0},
                 {"0s", 0},
                 {"-1", 0},
                 {"-1s", 0},
                 {"nan", 0},
                 {"inf", 0},
                 {"1e3", 0},
                 {"0x10", 0},
                 {"", 0},
                 {"s", 0},
                 {".5", 0},
                 {"10 s", 0},
                 {"10d", 0},
                 {"1e99999", 0},
                 {"99999999999999999999999999999999999999", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        config config;
        if (!cases[i].ms) {
            refused(ARGS("--max-step-time", cases[i].text, NULL), ENV(NULL), "--max-step-time", "250ms");
            continue;
        }
        assert_int_equal(load(&config, ARGS("--max-step-time", cases[i].text, NULL), ENV(NULL)), CONFIG_RUN);
        assert_int_equal(config.max_step_time, cases[i].ms);
        config_free(&config);
    }
    config config;
    assert_int_equal(load(&config, ARGS(NULL), ENV(NULL)), CONFIG_RUN);
    assert_int_equal(config.max_step_time, 10000);
    config_free(&config);
    refused(ARGS(NULL), ENV("CONTACTD_MAX_STEP_TIME=0", NULL), "CONTACTD_MAX_STEP_TIME", "1 ms to a day");
}

static void test_other_outcomes(void **state) {
    (void)state;
    config config;
    assert_int_equal(load(&config, ARGS("--queue", "0", "--help", NULL), ENV(NULL)), CONFIG_HELP);
    assert_int_equal(load(&config, ARGS("--version", NULL), ENV(NULL)), CONFIG_VERSION);
}

static void test_print_reads_back(void **state) {
    (void)state;
    config first, second;
    assert_int_equal(load(&first,
                          ARGS("--print-config", "--threads", "5", "--stream", "tcp://a:1", "--stream", "ipc://b",
                               "--lease", "3s", "--log-file", "/tmp/a b", NULL),
                          ENV(NULL)),
                     CONFIG_PRINT);
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    config_print(&first, out);
    fclose(out);
    char *path = write_file(text);
    assert_int_equal(load(&second, ARGS("--config", path, NULL), ENV(NULL)), CONFIG_RUN);
    char *again = NULL;
    out = open_memstream(&again, &size);
    config_print(&second, out);
    fclose(out);
    assert_string_equal(text, again);
    assert_int_equal(second.threads, 5);
    assert_string_equal(second.log_file, "/tmp/a b");
    unlink(path);
    free(text);
    free(again);
    config_free(&first);
    config_free(&second);
}

/* Every option is in the help, with its default. */
static void test_help_is_complete(void **state) {
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    config_help(out);
    fclose(out);
#define NAMED(field, fallback, ...)                                                                                    \
    {                                                                                                                  \
        char flag[64] = "--" #field;                                                                                   \
        for (char *c = flag; *c; c++) *c = *c == '_' ? '-' : *c;                                                       \
        if (!strstr(text, flag)) fail_msg("%s is not in the help", flag);                                              \
        if (*fallback && !strstr(text, "[" fallback "]")) fail_msg("%s lacks its default", flag);                      \
    }
#define NAMED_SWITCH(field, ...) NAMED(field, "no")
    CONFIG_MAP(NAMED, NAMED, NAMED, NAMED, NAMED, NAMED, NAMED, NAMED_SWITCH)
#undef NAMED_SWITCH
#undef NAMED
    free(text);
}

/* Defaults fit into a small machine; what is given is left alone. All together leave a quarter for the rest. */
static void test_defaults_fit_the_memory(void **state) {
    (void)state;
    config config;
    memory_bytes = UINT64_C(2) << 30;
    assert_int_equal(load(&config, ARGS("--mesh-memory", "4G", NULL), ENV("CONTACTD_MAX_MESSAGE=1G", NULL)),
                     CONFIG_RUN);
    assert_int_equal(config.mesh_memory, UINT64_C(4) << 30);
    assert_int_equal(config.max_message, 1 << 30);
    assert_int_equal(config.scene_memory, 256 << 20);
    config_free(&config);
    assert_int_equal(load(&config, ARGS(NULL), ENV(NULL)), CONFIG_RUN);
    uint64_t sum = config.mesh_memory + config.scene_memory + config.unread_memory + 12 * config.max_message +
                   memory_bytes / CONFIG_SCRATCH_PART;
    assert_true(sum <= memory_bytes / 4 * 3);
    assert_true(config.unread_per_client < config.unread_memory);
    config_free(&config);
    memory_bytes = UINT64_C(1) << 40;
    assert_int_equal(load(&config, ARGS(NULL), ENV(NULL)), CONFIG_RUN);
    assert_int_equal(config.scene_memory, UINT64_C(8) << 30);
    config_free(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_defaults_fit_the_memory),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_marked_file),
        cmocka_unit_test(test_switches),
        cmocka_unit_test(test_variables_of_others),
        cmocka_unit_test(test_comments_behind_values),
        cmocka_unit_test(test_other_outcomes),
        cmocka_unit_test(test_print_reads_back),
        cmocka_unit_test(test_help_is_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
