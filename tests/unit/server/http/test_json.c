/* Units of server/http/json_in.h, json_out.h and problem.h. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/base/json_out.h"
#include "server/http/json_in.h"

static const char *where(const char *text, const char *mark) {
    static char out[96];
    json_in_where(text, strlen(text), (size_t)(strstr(text, mark) - text), out, sizeof out);
    return out;
}

static void tells_where(void **state) {
    (void)state;
    assert_string_equal(where("{\"a\": 1e999}", "1e999"), "a");
    assert_string_equal(where("{\"v\": [[1,2],[3,XX]]}", "XX"), "v[1][1]");
    assert_string_equal(where("{\"a\": {\"b\": [0, {\"c\": XX", "XX"), "a.b[1].c");
    assert_string_equal(where("{\"a\\\"]\": [], \"b\": XX", "XX"), "b");
    assert_string_equal(where("XX", "XX"), "");
    assert_string_equal(where("]]}}{\"a\":XX", "XX"), "a");
    assert_string_equal(where("[[[[[[[[[[[[[[[[[[[[[[[[XX", "XX"),
                        "[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]");
}

static problem parse(const char *text, size_t size) {
    problem p = {0};
    static const char *const known[] = {"a", NULL};
    json_t *root = json_in_parse(text, size, known, &p);
    assert_true((root != NULL) == (p.code == CONTACTD_OK));
    json_decref(root);
    return p;
}

static void refuses_what_is_no_json(void **state) {
    (void)state;
    static const struct {
        const char *text;
        contactd_code code;
        const char *field;
    } cases[] = {
        {"", CONTACTD_MALFORMED, ""},
        {"{", CONTACTD_MALFORMED, ""},
        {"[]", CONTACTD_MALFORMED, ""},
        {"7", CONTACTD_MALFORMED, ""},
        {"{} {}", CONTACTD_MALFORMED, ""},
        {"{\"a\": 1, \"a\": 2}", CONTACTD_MALFORMED, NULL},
        {"{\"a\": NaN}", CONTACTD_MALFORMED, "a"},
        {"{\"a\": [1, 1e999]}", CONTACTD_OUT_OF_RANGE, "a[1]"},
        {"{\"a\": -1e999}", CONTACTD_OUT_OF_RANGE, "a"},
        {"{\"a\": 99999999999999999999}", CONTACTD_OUT_OF_RANGE, "a"},
        {"{\"a\": \"\xff\"}", CONTACTD_MALFORMED, NULL},
        {"{\"a\": \"\\ud800\"}", CONTACTD_MALFORMED, NULL},
        {"{\"a\": \"\\u0000\"}", CONTACTD_MALFORMED, NULL},
        {"{\"a\": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}", CONTACTD_MALFORMED, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        problem p = parse(cases[i].text, strlen(cases[i].text));
        if (p.code != cases[i].code || (cases[i].field && strcmp(p.field, cases[i].field) != 0))
            fail_msg("%s: code %d, field \"%s\", %s", cases[i].text, p.code, p.field, p.detail);
    }
    problem nul = parse("{\"a\": 1}\0", 9);
    assert_int_equal(nul.code, CONTACTD_MALFORMED);
}

static void refuses_bombs_before_parsing(void **state) {
    (void)state;
    size_t n = 4 << 20;
    char *text = malloc(n);
    assert_non_null(text);
    static const char *const pieces[] = {"{},", "[],", "[[", "{\"a\":"};
    for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
        size_t length = strlen(pieces[k]);
        memcpy(text, "{\"a\":[", 6);
        for (size_t i = 6; i < n; i++) text[i] = pieces[k][(i - 6) % length];
        problem p = parse(text, n);
        assert_int_equal(p.code, k < 2 ? CONTACTD_TOO_LARGE : CONTACTD_MALFORMED);
    }
    free(text);
}

static problem take(const char *text, bool (*read)(json_fields *fields)) {
    static const char *const known[] = {"n", "x", "s", "w", "rows", "flat", "pose", NULL};
    problem p = {0};
    json_fields fields;
    json_t *root = json_in_parse(text, strlen(text), known, &p);
    if (!root) return p;
    if (json_fields_begin(&fields, root, "", known, &p)) assert_true(read(&fields) == (p.code == CONTACTD_OK));
    json_decref(root);
    return p;
}

static bool read_n(json_fields *f) {
    int64_t n = -1;
    return json_take_integer(f, "n", 1, 9, &n, NULL) && n >= 1 && n <= 9;
}
static bool read_x(json_fields *f) {
    double x = -1;
    bool has;
    return json_take_number(f, "x", 0, 1e300, &x, &has) && (has ? x >= 0 : x == -1);
}
static bool read_s(json_fields *f) {
    const char *s = NULL;
    return json_take_string(f, "s", 3, &s, NULL) && strlen(s) <= 3;
}
static bool read_w(json_fields *f) {
    static const char *const words[] = {"one", "two", NULL};
    int w = -1;
    return json_take_word(f, "w", words, &w, NULL) && w == 1;
}
static bool read_rows(json_fields *f) {
    double *rows = NULL;
    size_t n = 0;
    bool ok = json_take_doubles(f, "rows", 3, &rows, &n, NULL);
    if (ok && n) assert_true(rows[0] == 1 && rows[3 * n - 1] == 6.5);
    free(rows);
    return ok;
}
static bool read_flat(json_fields *f) {
    uint32_t *flat = NULL;
    size_t n = 0;
    bool ok = json_take_indices(f, "flat", 1, &flat, &n, NULL);
    if (ok && n) assert_true(flat[n - 1] == UINT32_MAX);
    free(flat);
    return ok;
}
static bool read_pose(json_fields *f) {
    double pose[12] = {0};
    bool ok = json_take_pose(f, "pose", pose, NULL);
    if (ok) assert_true(pose[0] == 1 && pose[3] == 7 && pose[11] == 9);
    return ok;
}

static void reads_fields(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool (*read)(json_fields *);
        contactd_code code;
        const char *field;
    } cases[] = {
        {"{\"n\": 9}", read_n, CONTACTD_OK, ""},
        {"{\"n\": 0}", read_n, CONTACTD_OUT_OF_RANGE, "n"},
        {"{\"n\": 10}", read_n, CONTACTD_OUT_OF_RANGE, "n"},
        {"{\"n\": 2.0}", read_n, CONTACTD_INVALID_ARGUMENT, "n"},
        {"{\"n\": \"2\"}", read_n, CONTACTD_INVALID_ARGUMENT, "n"},
        {"{\"n\": true}", read_n, CONTACTD_INVALID_ARGUMENT, "n"},
        {"{\"n\": null}", read_n, CONTACTD_INVALID_ARGUMENT, "n"},
        {"{}", read_n, CONTACTD_INVALID_ARGUMENT, "n"},
        {"{\"N\": 1}", read_n, CONTACTD_INVALID_ARGUMENT, "N"},
        {"{\"x\": 1}", read_x, CONTACTD_OK, ""},
        {"{\"x\": 1.5e3}", read_x, CONTACTD_OK, ""},
        {"{}", read_x, CONTACTD_OK, ""},
        {"{\"x\": -1e-9}", read_x, CONTACTD_OUT_OF_RANGE, "x"},
        {"{\"x\": []}", read_x, CONTACTD_INVALID_ARGUMENT, "x"},
        {"{\"s\": \"abc\"}", read_s, CONTACTD_OK, ""},
        {"{\"s\": \"abcd\"}", read_s, CONTACTD_OUT_OF_RANGE, "s"},
        {"{\"s\": \"\\n\"}", read_s, CONTACTD_INVALID_ARGUMENT, "s"},
        {"{\"w\": \"two\"}", read_w, CONTACTD_OK, ""},
        {"{\"w\": \"Two\"}", read_w, CONTACTD_INVALID_ARGUMENT, "w"},
        {"{\"rows\": [[1,2,3],[4,5,6.5]]}", read_rows, CONTACTD_OK, ""},
        {"{\"rows\": []}", read_rows, CONTACTD_OK, ""},
        {"{\"rows\": [[1,2,3],[4,5]]}", read_rows, CONTACTD_WRONG_LENGTH, "rows[1]"},
        {"{\"rows\": [[1,2,3],[4,5,null]]}", read_rows, CONTACTD_INVALID_ARGUMENT, "rows[1][2]"},
        {"{\"rows\": [1,2,3]}", read_rows, CONTACTD_INVALID_ARGUMENT, "rows[0]"},
        {"{\"rows\": {}}", read_rows, CONTACTD_INVALID_ARGUMENT, "rows"},
        {"{\"flat\": [0, 4294967295]}", read_flat, CONTACTD_OK, ""},
        {"{\"flat\": [0, 4294967296]}", read_flat, CONTACTD_INVALID_ARGUMENT, "flat[1]"},
        {"{\"flat\": [-1]}", read_flat, CONTACTD_INVALID_ARGUMENT, "flat[0]"},
        {"{\"pose\": [1,0,0,7,0,1,0,8,0,0,1,9]}", read_pose, CONTACTD_OK, ""},
        {"{\"pose\": [[1,0,0,7],[0,1,0,8],[0,0,1,9]]}", read_pose, CONTACTD_OK, ""},
        {"{\"pose\": [[1,0,0,7],[0,1,0,8],[0,0,1,9],[0,0,0,1]]}", read_pose, CONTACTD_OK, ""},
        {"{\"pose\": [[1,0,0,7],[0,1,0,8],[0,0,1,9],[0,0,0,2]]}", read_pose, CONTACTD_OUT_OF_RANGE, "pose"},
        {"{\"pose\": [[1,0,0],[0,1,0],[0,0,1]]}", read_pose, CONTACTD_WRONG_LENGTH, "pose[0]"},
        {"{\"pose\": [1,0,0]}", read_pose, CONTACTD_WRONG_LENGTH, "pose"},
        {"{\"pose\": []}", read_pose, CONTACTD_WRONG_LENGTH, "pose"},
        {"{\"pose\": [[1,0,0,7],[0,1,0,8]]}", read_pose, CONTACTD_WRONG_LENGTH, "pose"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        problem p = take(cases[i].text, cases[i].read);
        if (p.code != cases[i].code || strcmp(p.field, cases[i].field) != 0)
            fail_msg("%s: code %d, field \"%s\", %s", cases[i].text, p.code, p.field, p.detail);
    }
}

static void writes_json(void **state) {
    (void)state;
    json_out out;
    json_out_init(&out, 1 << 12);
    json_out_object(&out, NULL);
    json_out_array(&out, "a");
    json_out_number(&out, NULL, 0.1);
    json_out_number(&out, NULL, -1e-300);
    json_out_number(&out, NULL, NAN);
    json_out_number(&out, NULL, INFINITY);
    json_out_float(&out, NULL, 0.1f);
    json_out_array_end(&out);
    json_out_object(&out, "b");
    json_out_object_end(&out);
    json_out_integer(&out, "n", UINT64_MAX);
    json_out_bool(&out, "t", true);
    json_out_string(&out, "s", "q\"\\\n\xff\xc3\xa9");
    json_out_object_end(&out);
    static const char expected[] = "{\"a\":[0.1,-1e-300,null,null,0.1],\"b\":{},\"n\":18446744073709551615,\"t\":true,"
                                   "\"s\":\"q\\\"\\\\\\u000a\xef\xbf\xbd\xc3\xa9\"}";
    assert_int_equal(out.state, JSON_OUT_OK);
    assert_int_equal(out.size, sizeof expected - 1);
    assert_memory_equal(out.data, expected, out.size);
    json_out_free(&out);
}

static void writes_numbers_that_read_back(void **state) {
    (void)state;
    uint64_t bits = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        json_out out;
        json_out_init(&out, 64);
        json_out_number(&out, NULL, value);
        char text[65] = "";
        memcpy(text, out.data, out.size);
        assert_true(strtod(text, NULL) == value);
        json_out_free(&out);
    }
}

static void stops_at_the_limit(void **state) {
    (void)state;
    json_out out;
    json_out_init(&out, 100);
    json_out_array(&out, NULL);
    for (int i = 0; i < 1000; i++) json_out_integer(&out, NULL, 12345);
    json_out_array_end(&out);
    assert_int_equal(out.state, JSON_OUT_TOO_LARGE);
    assert_true(out.size <= 100);
    json_out_free(&out);
}

static void documents_problems(void **state) {
    (void)state;
    problem p = {0};
    assert_false(problem_set(&p, CONTACTD_BUSY, "a\"b", "queue \xff is full"));
    assert_false(problem_set(&p, CONTACTD_INTERNAL, NULL, "the first one wins"));
    p.retry_after_ms = 1001;
    size_t n = 0;
    char *text = problem_document(&p, &n);
    assert_non_null(text);
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "code")), "BUSY");
    assert_string_equal(json_string_value(json_object_get(root, "type")), "urn:contactd:error:BUSY");
    assert_string_equal(json_string_value(json_object_get(root, "title")), "the queue is full");
    assert_string_equal(json_string_value(json_object_get(root, "field")), "a\"b");
    assert_string_equal(json_string_value(json_object_get(root, "detail")), "queue \xef\xbf\xbd is full");
    assert_int_equal(json_integer_value(json_object_get(root, "status")), 429);
    assert_int_equal(json_integer_value(json_object_get(root, "retry_after")), 2);
    assert_null(json_object_get(root, "object"));
    json_decref(root);
    free(text);
    problem q = {0};
    problem_set(&q, CONTACTD_NOT_FOUND, NULL, "gone");
    assert_int_equal(problem_retry_after(&q), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_where),
        cmocka_unit_test(refuses_what_is_no_json),
        cmocka_unit_test(refuses_bombs_before_parsing),
        cmocka_unit_test(reads_fields),
        cmocka_unit_test(writes_json),
        cmocka_unit_test(writes_numbers_that_read_back),
        cmocka_unit_test(stops_at_the_limit),
        cmocka_unit_test(documents_problems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
