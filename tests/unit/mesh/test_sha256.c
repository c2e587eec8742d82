/* test_sha256.c - the standard's own examples, in one piece and in many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "gpu/mesh/build/sha256.h"

static void check(const char *text, size_t repeat, size_t piece, const char *expected) {
    ct_sha256 sha;
    uint8_t digest[32];
    char hex[65];
    ct_sha256_init(&sha);
    for (size_t r = 0; r < repeat; r++)
        for (size_t at = 0, n = strlen(text); at < n; at += piece)
            ct_sha256_update(&sha, text + at, n - at < piece ? n - at : piece);
    ct_sha256_final(&sha, digest);
    for (int i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(hex, expected);
}

static void test_examples(void **state) {
    (void)state;
    static const char *const two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    for (size_t piece = 1; piece < 130; piece += 9) {
        check("", 1, piece, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        check("abc", 1, piece, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check(two_blocks, 1, piece, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }
    check("a", 1000000, 1, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples)};
    return cmocka_run_group_tests_name("sha256", tests, NULL, NULL);
}
