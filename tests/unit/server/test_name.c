/* Units of server/base/name.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/base/name.h"

static void knows_what_is_not_shown(void **state) {
    (void)state;
    static const uint32_t refused[] = {0,      0x1f,   0x7f,   0x85,    0x9f,    0xad,    0x61c,   0x200b,
                                       0x200f, 0x2028, 0x202a, 0x202e,  0x2060,  0x2066,  0x2069,  0x3164,
                                       0xfeff, 0xfff9, 0xfffe, 0x1d173, 0xe0001, 0xe007f, 0x10ffff};
    static const uint32_t taken[] = {' ',    '~',    0xa0,   0xe9,   0x5d0,  0x627,   0x905,
                                     0x2014, 0x3042, 0x540d, 0xac00, 0xfffd, 0x1f916, 0x20000};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (name_may_have(refused[i])) fail_msg("U+%04X", refused[i]);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (!name_may_have(taken[i])) fail_msg("U+%04X", taken[i]);
}

static void decodes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t code_point;
    } rows[] = {{"a", 'a'},
                {"\xc3\xa9", 0xe9},
                {"\xe2\x80\xae", 0x202e},
                {"\xf0\x9f\xa4\x96", 0x1f916},
                {"\xf4\x8f\xbf\xbf", 0x10ffff}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(name_code_point(rows[i].text, strlen(rows[i].text)), rows[i].code_point);
}

static void says_which(void **state) {
    (void)state;
    server_error error = {0};
    assert_true(name_check(NULL, "scene", &error) && name_check("", "scene", &error));
    assert_true(name_check("\xe5\x90\x8d\xe5\x89\x8d 7", "scene", &error));
    assert_false(name_check("a\xe2\x80\xae"
                            "b",
                            "scene", &error));
    assert_int_equal(error.code, CONTACTD_INVALID_ARGUMENT);
    assert_string_equal(error.field, "name");
    assert_non_null(strstr(error.message, "the name of the scene has the character U+202E"));
    server_error other = {0};
    assert_false(name_check("a\xff", "mesh", &other));
    assert_non_null(strstr(other.message, "UTF-8"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(knows_what_is_not_shown), cmocka_unit_test(decodes),
                                       cmocka_unit_test(says_which)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
