/* test_keyfile.c - keys as text: Z85 and hexadecimal stand for the same bytes, and nothing else is a key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <zmq.h>

#include "proto/keyfile.h"

static void hex_is_what_zeromq_encodes(void **state) {
    (void)state;
    uint32_t random = 1;
    for (int round = 0; round < 200; round++) {
        unsigned char bytes[KEYFILE_BYTES];
        char hex[2 * KEYFILE_BYTES + 1], expected[KEYFILE_KEY + 1], key[KEYFILE_KEY + 1];
        for (int i = 0; i < KEYFILE_BYTES; i++) {
            random = random * 1664525 + 1013904223;
            bytes[i] = (unsigned char)(round == 0 ? 0 : round == 1 ? 255 : random >> 24);
            snprintf(hex + 2 * i, 3, round % 2 ? "%02X" : "%02x", bytes[i]);
        }
        assert_non_null(zmq_z85_encode(expected, bytes, sizeof bytes));
        assert_true(keyfile_parse(hex, key));
        assert_string_equal(key, expected);
        assert_true(keyfile_parse(expected, key));
        assert_string_equal(key, expected);
    }
}

static void nothing_else_is_a_key(void **state) {
    (void)state;
    static const char hex[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    static const char z85[] = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
    char key[KEYFILE_KEY + 1], text[2 * KEYFILE_BYTES + 2];
    assert_true(keyfile_parse(hex, key) && keyfile_parse(z85, key));
    snprintf(text, sizeof text, "%.63s", hex);
    assert_false(keyfile_parse(text, key));
    snprintf(text, sizeof text, "%s0", hex);
    assert_false(keyfile_parse(text, key));
    snprintf(text, sizeof text, "%.63sg", hex);
    assert_false(keyfile_parse(text, key));
    snprintf(text, sizeof text, "0x%.62s", hex);
    assert_false(keyfile_parse(text, key));
    snprintf(text, sizeof text, "%.39s", z85);
    assert_false(keyfile_parse(text, key));
    snprintf(text, sizeof text, "%.39s\"", z85);
    assert_false(keyfile_parse(text, key));
    assert_false(keyfile_parse("", key));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hex_is_what_zeromq_encodes),
        cmocka_unit_test(nothing_else_is_a_key),
    };
    return cmocka_run_group_tests_name("keyfile", tests, NULL, NULL);
}
