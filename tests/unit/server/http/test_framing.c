/* Units of server/http/framing.h: a header as libmicrohttpd 0.9 leaves it in its buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/http/framing.h"

/* Parses text in place, as libmicrohttpd 0.9.75 does: lines end at LF, which becomes a zero, as does a CR before it,
 * and the first colon of each; a value ends at a NUL. Returns the status of the refusal, or 200. */
static int asked(const char *text, size_t size) {
    char buffer[1024] = {0};
    problem p = {0};
    framing framing;
    assert_true(size < sizeof buffer - 8);
    memcpy(buffer + 4, text, size);
    char *at = buffer + 4;
    const char *version = NULL;
    for (bool first = true;; first = false) {
        char *end = memchr(at, '\n', (size_t)(buffer + sizeof buffer - at));
        assert_non_null(end);
        char *next = end + 1;
        bool has_cr = end > at && end[-1] == '\r';
        *end = 0;
        if (has_cr) *--end = 0;
        if (end == at) break;
        if (first) {
            char *space = strrchr(at, ' ');
            *space = 0;
            version = space + 1;
            char *uri = strchr(at, ' ') + 1;
            const char *path;
            char authority[64];
            assert_true(framing_split_uri(uri, &path, authority, sizeof authority));
            if (!framing_begin(&framing, uri, version, true, &p)) return problem_status(&p);
        } else {
            char *colon = strchr(at, ':');
            assert_non_null(colon);
            *colon++ = 0;
            colon += strspn(colon, " \t");
            if (!framing_take(&framing, at, strlen(at), colon, strlen(colon))) return problem_status(&p);
        }
        at = next;
    }
    return framing_end(&framing, version, NULL) ? 200 : problem_status(&p);
}

#define ASK(text) asked(text, sizeof(text) - 1)
#define LINE      "POST / HTTP/1.1\r\n"

static void takes_headers_without_doubt(void **state) {
    (void)state;
    assert_int_equal(ASK(LINE "Host: a\r\n\r\n"), 200);
    assert_int_equal(ASK(LINE "Host:a\r\nX: \t y z \r\nEmpty:\r\nContent-Length: 12\r\n\r\nGET"), 200);
    assert_int_equal(ASK(LINE "Transfer-Encoding: Chunked\r\nHost: a\r\n\r\n2\r\n"), 200);
    assert_int_equal(ASK(LINE "Accept: a\r\nAccept: b\r\n\r\n"), 200);
    assert_int_equal(ASK(LINE "X: \xc3\xa9\r\n\r\n"), 200);
}

static void refuses_what_others_may_read_differently(void **state) {
    (void)state;
    assert_int_equal(ASK("POST / HTTP/1.1\nHost: a\r\n\r\n"), 400);
    assert_int_equal(ASK(LINE "Host: a\nX: b\r\n\r\n"), 400);
    assert_int_equal(ASK(LINE "Host: a\r\nX: b\n\r\nGET"), 400);
    assert_int_equal(ASK(LINE "Host: a\r\n\nGET"), 400);
    assert_int_equal(ASK(LINE "Host: a\r\nX: b\0c\r\n\r\n"), 400);
    assert_int_equal(ASK(LINE "X: b\0c\r\nHost: a\r\n\r\n"), 400);
    assert_int_equal(ASK(LINE "X: b\rc\r\nHost: a\r\n\r\n"), 400);
    assert_int_equal(ASK(LINE "Content-Length : 1\r\n\r\n"), 400);
    assert_int_equal(ASK(LINE "Content-Length: 1x\r\n\r\n"), 400);
    assert_int_equal(ASK(LINE "Content-Length: \r\n\r\n"), 400);
    assert_int_equal(ASK(LINE "Content-Length: 1\r\ncontent-length: 1\r\n\r\n"), 400);
    assert_int_equal(ASK(LINE "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
    assert_int_equal(ASK(LINE "Transfer-Encoding: xchunked\r\n\r\n"), 400);
    assert_int_equal(ASK(LINE "Transfer-Encoding: chunked, identity\r\n\r\n"), 400);
    assert_int_equal(ASK(LINE "Transfer-Encoding: gzip,chunked\r\n\r\n"), 501);
    assert_int_equal(ASK("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
    assert_int_equal(ASK(LINE "Host: a\r\nHost: a\r\n\r\n"), 400);
    assert_int_equal(ASK("POST /\x01 HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
}

/* A name that libmicrohttpd moved, to append a continued line to it. */
static void refuses_continued_lines(void **state) {
    (void)state;
    char buffer[64] = "HTTP/1.1\0\0"
                      "Content-\0 2\0\0",
         moved[32] = "Content-Length";
    problem p = {0};
    framing framing;
    assert_true(framing_begin(&framing, "/", buffer, true, &p));
    assert_false(framing_take(&framing, moved, strlen(moved), buffer + 20, 1));
    problem q = {0};
    assert_true(framing_begin(&framing, "/", buffer, true, &q));
    assert_true(framing_take(&framing, buffer + 10, 8, buffer + 20, 1));
}

static void compares_hosts(void **state) {
    (void)state;
    static const struct {
        const char *uri, *path, *authority;
    } rows[] = {{"/a?b", "/a?b", ""},        {"http://h:1/a", "/a", "h:1"}, {"HTTPS://h", "/", "h"},
                {"http://h?x=/y", "/", "h"}, {"http:///a", "/a", ""},       {"ftp://h/a", "ftp://h/a", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path;
        char authority[16];
        assert_true(framing_split_uri(rows[i].uri, &path, authority, sizeof authority));
        assert_string_equal(path, rows[i].path);
        assert_string_equal(authority, rows[i].authority);
    }
    const char *path;
    char authority[4];
    assert_false(framing_split_uri("http://long/a", &path, authority, sizeof authority));
    for (int same = 0; same < 2; same++) {
        problem p = {0};
        framing framing;
        assert_true(framing_begin(&framing, "/", "HTTP/1.1", false, &p));
        assert_true(framing_take(&framing, "Host", 4, "here:1", 6));
        assert_int_equal(framing_end(&framing, "HTTP/1.1", same ? "HERE:1" : "there:1"), same);
    }
}

static void reads_sizes_of_chunks(void **state) {
    (void)state;
    static const struct {
        const char *line;
        uint64_t size;
    } rows[] = {{"\n1aF\r\n", 0x1af},
                {"\nffffffffffffffff\r\n", UINT64_MAX},
                {"\n0000000000000000ff\r\n", 0},
                {"\n2;x=ff\r\n", 0},
                {"\r\n\r\n", 0},
                {"\n\n", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char buffer[40] = {0};
        memcpy(buffer + 4, rows[i].line, strlen(rows[i].line));
        assert_true(framing_chunk_size(buffer + 4 + strlen(rows[i].line)) == rows[i].size);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_headers_without_doubt), cmocka_unit_test(refuses_what_others_may_read_differently),
        cmocka_unit_test(refuses_continued_lines),     cmocka_unit_test(compares_hosts),
        cmocka_unit_test(reads_sizes_of_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
