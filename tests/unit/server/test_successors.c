/* Units of server/core/successors.h: addresses of the command line and of files, each once; what is none is named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/core/successors.h"
#include "tests/unit/unit.h"

static char path[64] = "/tmp/contactd-successors-XXXXXX", source[80];

static void write_lines(const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int setup(void **state) {
    (void)state;
    int fd = mkstemp(path);
    snprintf(source, sizeof source, "file:%s", path);
    return fd < 0 || close(fd);
}

static int teardown(void **state) {
    (void)state;
    unlink(path);
    return 0;
}

static void addresses_come_once_and_in_order(void **state) {
    (void)state;
    server_error error = {0};
    config_list list = {.n = 4, .items = {"tcp://b:2", source, "ipc:///run/c", "tcp://b:2"}};
    write_lines("# comment\n\n tcp://a:1 # the first\nipc:///run/c\ntcp://[::1]:5555\r\ntcp://b:22\n");
    assert_true(successors_check(&list, &error));
    char *text = successors_read(&list, &error);
    assert_string_equal(text, "tcp://b:2,tcp://a:1,ipc:///run/c,tcp://[::1]:5555,tcp://b:22");
    free(text);
    unlink(path); /* its server is not there yet */
    text = successors_read(&list, &error);
    assert_string_equal(text, "tcp://b:2,ipc:///run/c");
    free(text);
    list.n = 0;
    text = successors_read(&list, &error);
    assert_string_equal(text, "");
    free(text);
}

static void what_is_no_address_is_named(void **state) {
    (void)state;
    static char *const bad[] = {"",           "localhost:1",  "tcp://a",    "tcp://:1", "tcp://a:", "tcp://a:123456",
                                "tcp://a:1x", "http://a:1",   "tcp://a:1,", "ipc://",   "file:",    "tcp://a b:1",
                                "tcp://a:0",  "tcp://a:65536"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        server_error error = {0};
        config_list list = {.n = 1, .items = {bad[i]}};
        if (successors_check(&list, &error)) fail_msg("\"%s\" was taken", bad[i]);
        assert_string_equal(error.field, "successor");
        assert_non_null(strstr(error.message, "tcp://HOST:PORT"));
    }
    server_error error = {0};
    config_list list = {.n = 1, .items = {source}};
    write_lines("tcp://a:1\nsomewhere\n");
    assert_true(successors_check(&list, &error)); /* the file is read when it comes to that */
    assert_null(successors_read(&list, &error));
    assert_string_equal(error.object, path);
    assert_non_null(strstr(error.message, "somewhere"));
}

static void too_many_are_an_error(void **state) {
    (void)state;
    static char lines[SUCCESSORS_MAX_BYTES + 64];
    size_t n = 0;
    for (int i = 0; n < SUCCESSORS_MAX_BYTES; i++)
        n += (size_t)snprintf(lines + n, sizeof lines - n, "tcp://h%d:1\n", i);
    server_error error = {0};
    config_list list = {.n = 1, .items = {source}};
    write_lines(lines);
    assert_null(successors_read(&list, &error));
    assert_int_equal(error.code, CONTACTD_TOO_LARGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_come_once_and_in_order),
        cmocka_unit_test(what_is_no_address_is_named),
        cmocka_unit_test(too_many_are_an_error),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
