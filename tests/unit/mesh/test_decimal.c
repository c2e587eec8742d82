/* test_decimal.c - conversion of decimal text to float32 against the C library's, which rounds correctly: random
 * numbers, midpoints, subnormals, overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/io/decimal.h"
#include "tests/scenes/shapes.h"

/* The text is copied to the end of a heap block of its own, so that the address sanitizer sees any read past it. */
static void check(const char *text) {
    size_t n = strlen(text);
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    float mine, theirs = strtof(text, NULL);
    const char *after = ct_parse_float(copy, copy + n, &mine);
    if (after != copy + n) fail_msg("\"%s\" was not read whole", text);
    if (memcmp(&mine, &theirs, 4) != 0) fail_msg("\"%s\" gave %.9g, expected %.9g", text, (double)mine, (double)theirs);
    free(copy);
}

static void test_plain(void **state) {
    (void)state;
    static const char *const texts[] = {
        "0",
        "-0",
        "+1",
        "1.",
        ".5",
        "-.5e1",
        "1e0",
        "1E+5",
        "1e-5",
        "00012.500",
        "0.0000001",
        "123456789",
        "16777217",
        "16777219",
        "1e10",
        "1e22",
        "1e23",
        "1e38",
        "3.4028235e38",
        "3.40282356779733e38",
        "3.402823567797336e38",
        "3.4028235677973367e38",
        "3.5e38",
        "1e39",
        "1e400",
        "-1e400",
        "1e99999999999999999999",
        "1e-45",
        "7e-46",
        "7.1e-46",
        "1.4e-45",
        "1e-46",
        "1e-400",
        "1.17549435e-38",
        "1.17549421e-38",
        "1.1754943508222875e-38",
        "0e999",
        "340282346638528859811704183484516925440",
        "340282356779733661637539395458142568447",
        "340282356779733661637539395458142568448",
        "0."
        "00000000000000000000000000000000000000000000070064923216240853546186479164495806564013097093825788587853414194"
        "4895541342930300743319094181060791015625",
        "0."
        "00000000000000000000000000000000000000000000070064923216240853546186479164495806564013097093825788587853414194"
        "48955413429303007433190941810607910156250000000000000000000000000000000001",
        "1.00000005960464477539062500000000000000000000000000000000000000000000000000000000000000",
        "1.00000005960464477539062499999999999999999999999999999999999999999999999999999999999999",
        "1."
        "00000005960464477539062500000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "000000000000000000000000000000001",
        "1.00000017881393432617187500000000000000000000000000000000000000000",
        "inf",
        "-Infinity",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) check(texts[i]);
    static const char nan_text[] = "NaN";
    float x = 0;
    assert_ptr_equal(ct_parse_float(nan_text, nan_text + 3, &x), nan_text + 3);
    assert_true(isnan(x));
}

static void test_where_it_stops(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int used; /* -1: no number */
    } cases[] = {{"", -1},   {"-", -1},  {".", -1},   {"e5", -1},  {"abc", -1}, {"1.2.3", 3}, {"1e", 1},
                 {"1e+", 1}, {"1,5", 1}, {"0x10", 1}, {"--1", -1}, {"1 2", 1},  {"in", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float x;
        const char *after = ct_parse_float(cases[i].text, cases[i].text + strlen(cases[i].text), &x);
        if (cases[i].used < 0)
            assert_null(after);
        else
            assert_ptr_equal(after, cases[i].text + cases[i].used);
    }
}

/* Doubles are within 2^-10 of a unit in the last place of the nearest one, so at most the other neighbour of the number. */
static void test_doubles(void **state) {
    (void)state;
    uint64_t rng = 5;
    char text[200];
    size_t differ = 0;
    for (int i = 0; i < 200000; i++) {
        const uint64_t bits = shape_random(&rng);
        double x, mine, theirs;
        memcpy(&x, &bits, 8);
        x = ldexp(frexp(x, &(int){0}), (int)(shape_random(&rng) % 240) - 120);
        if (!isfinite(x)) continue;
        snprintf(text, sizeof text, "%.*e", i % 26, x);
        theirs = strtod(text, NULL);
        assert_ptr_equal(ct_parse_double(text, text + strlen(text), &mine), text + strlen(text));
        if (!(fabs(mine - theirs) <= 0x1p-52 * fabs(theirs))) fail_msg("%s gave %.17g", text, mine);
        differ += mine != theirs;
    }
    assert_true(differ < 200);
    static const char *const plain[] = {
        "0", "-0", "1e400", "-1e400", "1e-400", "inf", "0.1", "-.5D2", "18446744073709551615"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        double mine, theirs = i == 7 ? -50 : strtod(plain[i], NULL);
        assert_ptr_equal(ct_parse_double(plain[i], plain[i] + strlen(plain[i]), &mine), plain[i] + strlen(plain[i]));
        if (memcmp(&mine, &theirs, 8) != 0) fail_msg("%s gave %.17g", plain[i], mine);
    }
}

/* Exponents far outside of what floats hold, and zeros at the end that make them so: nothing is lost of 0, nor of what
 * float32 holds; the rest loses many digits. */
static void test_digits(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool loses_many;
    } cases[] = {{"123456789e-9999999999", false},
                 {"12345678901234e-9999999999", false},
                 {"16777216000000000000000000000000", false},
                 {"1234567890123456e15", true},
                 {"12345678901234560000000000000000", true},
                 {"1234567890000000e22", false},
                 {"500000.123456789", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_digits digits = {0};
        float value;
        const char *end = cases[i].text + strlen(cases[i].text);
        assert_ptr_equal(ct_parse_coordinate(cases[i].text, end, &digits, &value), end);
        if (digits.loses_many != cases[i].loses_many) fail_msg("%s: %d", cases[i].text, digits.loses_many);
    }
}

static void test_random(void **state) {
    (void)state;
    uint64_t rng = 17;
    char text[200];
    for (int i = 0; i < 300000; i++) {
        uint32_t bits = (uint32_t)shape_random(&rng);
        float x;
        memcpy(&x, &bits, 4);
        if (!isfinite(x)) continue;
        switch (i % 6) {
        case 0:
            snprintf(text, sizeof text, "%.9g", (double)x);
            break;
        case 1:
            snprintf(text, sizeof text, "%.*g", (int)(shape_random(&rng) % 30 + 1), (double)x);
            break;
        case 2:
            snprintf(text, sizeof text, "%.*f", (int)(shape_random(&rng) % 12), shape_uniform(&rng, -1000, 1000));
            break;
        case 3: /* exactly between two floats, or a little off */
            snprintf(text, sizeof text, "%.*e", i % 4 ? 120 : (int)(shape_random(&rng) % 40 + 1),
                     ((double)x + (double)nextafterf(x, INFINITY)) / 2);
            break;
        case 4: /* subnormal */
            snprintf(text, sizeof text, "%.*e", (int)(shape_random(&rng) % 60),
                     shape_uniform(&rng, -2e-38, 2e-38) * 1e-4);
            break;
        default:
            snprintf(text, sizeof text, "%llu%llue%d", (unsigned long long)shape_random(&rng),
                     (unsigned long long)shape_random(&rng), (int)(shape_random(&rng) % 90) - 85);
        }
        check(text);
    }
}

/* All lengths, points and exponents around the bounds of the fast path, with something behind the number. */
static void test_short(void **state) {
    (void)state;
    static const char *const behind[] = {"", " 1", "\n", ",5", ".5", "e", "e+", "#"};
    uint64_t rng = 23;
    for (int i = 0; i < 200000; i++) {
        char text[80];
        const int n_digits = (int)(shape_random(&rng) % 22 + 1), point = (int)(shape_random(&rng) % 30);
        int n = 0;
        for (int d = 0; d < n_digits; d++) {
            if (d == point) text[n++] = '.';
            text[n++] = (char)('0' + shape_random(&rng) % (i % 3 ? 10 : 2));
        }
        if (i % 2) n += sprintf(text + n, "%c%d", "eEdD"[i / 2 % 4], (int)(shape_random(&rng) % 60) - 30);
        text[n] = 0;
        char *letter = strpbrk(text, "dD");
        if (letter) *letter = 'e';
        char *stop;
        const float theirs = strtof(text, &stop);
        assert_ptr_equal(stop, text + n);
        if (letter) *letter = 'D';
        /* a second exponent, or a second point, ends the number */
        const char *const tail = behind[shape_random(&rng) % (i % 2 || point < n_digits ? 8 : 4)];
        strcpy(text + n, tail);
        float mine;
        const char *const after = ct_parse_float(text, text + strlen(text), &mine);
        if (after != text + n) fail_msg("\"%s\" was read up to character %td, expected %d", text, after - text, n);
        if (memcmp(&mine, &theirs, 4) != 0)
            fail_msg("\"%s\" gave %.9g, expected %.9g", text, (double)mine, (double)theirs);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),  cmocka_unit_test(test_where_it_stops), cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_digits), cmocka_unit_test(test_random),         cmocka_unit_test(test_short),
    };
    return cmocka_run_group_tests_name("decimal", tests, NULL, NULL);
}
