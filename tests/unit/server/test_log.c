/* The log: its two formats, levels, escaping, cutting, and a file that cannot be written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "server/base/log.h"

static char path[64], message[256];

static void open_log(const char *format, const char *level) {
    snprintf(path, sizeof path, "/tmp/contactd-log-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    if (!log_open(format, level, path, message, sizeof message)) fail_msg("%s", message);
}

static char *close_log(void) {
    static char text[1 << 20];
    log_close();
    FILE *file = fopen(path, "r");
    size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = 0;
    fclose(file);
    unlink(path);
    return text;
}

static void test_text(void **state) {
    (void)state;
    open_log("text", "info");
    log_info("stream", "client %d\nsays \"%s\"", 7, "hi");
    log_debug("stream", "not logged");
    assert_false(log_enabled(LOG_LEVEL_DEBUG));
    char *text = close_log();
    assert_non_null(strstr(text, "Z info  stream: client 7\\x0asays \"hi\"\n"));
    assert_null(strstr(text, "not logged"));
}

static void test_json(void **state) {
    (void)state;
    open_log("json", "debug");
    log_debug("http", "a \"b\" \\ \t %s", "c");
    char *text = close_log();
    assert_memory_equal(text, "{\"time\":\"2", 10);
    assert_non_null(
        strstr(text, "\"level\":\"debug\",\"part\":\"http\",\"message\":\"a \\\"b\\\" \\\\ \\u0009 c\"}\n"));
}

static void test_fields(void **state) {
    (void)state;
    const log_fields all = {7, 9, "NOT_FOUND", 0.0125, "4bf92f3577b34da6a3ce929d0e0e4736"}, none = {.duration_s = -1};
    open_log("json", "info");
    log_event(LOG_LEVEL_INFO, "stream", &all, "answered %s", "Step");
    log_event(LOG_LEVEL_INFO, "stream", &none, "nothing");
    log_event(LOG_LEVEL_DEBUG, "stream", &all, "not logged");
    char *text = close_log();
    assert_non_null(strstr(text, "\"message\":\"answered Step\",\"session\":7,\"scene\":9,\"code\":\"NOT_FOUND\","
                                 "\"duration_s\":0.0125,\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\"}\n"));
    assert_non_null(strstr(text, "\"message\":\"nothing\"}\n"));
    assert_null(strstr(text, "not logged"));
    open_log("text", "info");
    log_event(LOG_LEVEL_INFO, "stream", &all, "answered Step");
    log_event(LOG_LEVEL_INFO, "stream", &none, "nothing");
    text = close_log();
    assert_non_null(strstr(text, "stream: answered Step (session 7, scene 9, NOT_FOUND, 0.012500 s, trace "
                                 "4bf92f3577b34da6a3ce929d0e0e4736)\n"));
    assert_non_null(strstr(text, "stream: nothing\n"));
}

static void test_long_lines_are_cut(void **state) {
    (void)state;
    char *text = malloc(5000);
    memset(text, '"', 4999);
    text[4999] = 0;
    open_log("json", "info");
    log_info("main", "%s", text);
    log_info("main", "next");
    char *got = close_log();
    char *end = strchr(got, '\n');
    assert_true(end && end - got < 2048);
    assert_memory_equal(end - 2, "\"}", 2); /* the line is whole, and cut within no escape */
    assert_non_null(strstr(end, "next"));
    free(text);
}

static void *write_lines(void *name) {
    for (int i = 0; i < 500; i++) log_info(name, "line %d of %s", i, (char *)name);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    pthread_t threads[4];
    char *names[4] = {"one", "two", "three", "four"};
    open_log("text", "info");
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, write_lines, names[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    int lines = 0;
    for (char *line = strtok(close_log(), "\n"); line; line = strtok(NULL, "\n"), lines++) {
        char part[16], name[16];
        int number;
        assert_int_equal(sscanf(line, "%*s info %15[a-z]: line %d of %15s", part, &number, name), 3);
        assert_string_equal(part, name);
    }
    assert_int_equal(lines, 2000);
}

static void test_unwritable(void **state) {
    (void)state;
    assert_false(log_open("text", "info", "/nonexistent/dir/log", message, sizeof message));
    assert_non_null(strstr(message, "/nonexistent/dir/log"));
    assert_non_null(strstr(message, "No such file"));
    assert_false(log_open("text", "loud", "", message, sizeof message));
    assert_non_null(strstr(message, "loud"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),    cmocka_unit_test(test_json),
        cmocka_unit_test(test_fields),  cmocka_unit_test(test_long_lines_are_cut),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_unwritable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
