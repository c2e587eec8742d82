/* test_fail.c - the first failure is kept, with its context; every status has a name and a text. */
#include "tests/unit/unit.h"

#include <string.h>

#include "gpu/base/fail.h"

static void test_first_wins(void **state) {
    (void)state;
    ct_error error = {0};
    assert_int_equal(ct_fail(&error, CT_NOT_FOUND, "body", "body %d of %s", 7, "x"), CT_NOT_FOUND);
    assert_int_equal(error.status, CT_NOT_FOUND);
    assert_string_equal(error.field, "body");
    assert_string_equal(error.message, "body 7 of x");
    assert_int_equal(ct_fail(&error, CT_OUT_OF_RANGE, "pose", "other"), CT_OUT_OF_RANGE);
    assert_int_equal(error.status, CT_NOT_FOUND);
    assert_string_equal(error.message, "body 7 of x");
    assert_int_equal(ct_fail(NULL, CT_OUT_OF_MEMORY, "f", "m"), CT_OUT_OF_MEMORY);
}

static void test_long_texts_are_cut_and_ended(void **state) {
    (void)state;
    ct_error error = {0};
    char text[2000];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 0;
    ct_fail(&error, CT_INVALID_ARGUMENT, text, "%s", text);
    assert_int_equal(strlen(error.message), sizeof error.message - 1);
    assert_int_equal(strlen(error.field), sizeof error.field - 1);
    error = (ct_error){0};
    ct_fail(&error, CT_INVALID_ARGUMENT, NULL, "m");
    assert_string_equal(error.field, "");
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(ct_status_name(CT_OK), "OK");
    assert_string_equal(ct_status_name(CT_OUT_OF_MEMORY), "OUT_OF_MEMORY");
    assert_string_equal(ct_status_name((ct_status)9999), "UNKNOWN");
    assert_string_equal(ct_status_text((ct_status)9999), "unknown status");
    int n = 0;
#define CHECK(name, text)                                                                                              \
    assert_string_equal(ct_status_name(CT_##name), #name);                                                             \
    assert_string_equal(ct_status_text(CT_##name), text);                                                              \
    n++;
    CT_STATUS_MAP(CHECK)
#undef CHECK
    assert_string_equal(ct_status_name((ct_status)n), "UNKNOWN");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_wins),
                                       cmocka_unit_test(test_long_texts_are_cut_and_ended),
                                       cmocka_unit_test(test_names)};
    return cmocka_run_group_tests_name("fail", tests, NULL, NULL);
}
