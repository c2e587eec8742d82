/* decimal.c - decimal to float32: double arithmetic where its error provably cannot matter, exact integers elsewhere.
 */
#include "gpu/mesh/decimal.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A number as written: about leading x 10^exponent, exactly what digits and written say. */
typedef struct decimal {
    const char *digits, *digits_end; /* with at most one '.' among them */
    uint64_t leading;                /* the first up to 19 significant digits */
    int n_leading;
    int64_t exponent; /* of the last digit of leading */
    int64_t written;  /* exponent as written after e */
} decimal;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static const char *scan(const char *at, const char *end, decimal *d) {
    memset(d, 0, sizeof *d);
    d->digits = at;
    bool point = false, any = false;
    for (; at < end; at++) {
        if (*at == '.' && !point) {
            point = true;
            continue;
        }
        if (!is_digit(*at)) break;
        any = true;
        if (d->n_leading < 19) {
            d->leading = d->leading * 10 + (uint64_t)(*at - '0');
            if (d->leading) d->n_leading++;
            d->exponent -= point;
        } else {
            d->exponent += !point;
        }
    }
    if (!any) return NULL;
    d->digits_end = at;
    if (at < end && (*at == 'e' || *at == 'E')) {
        const char *e = at + 1;
        bool minus = e < end && *e == '-';
        if (e < end && (*e == '-' || *e == '+')) e++;
        if (e < end && is_digit(*e)) {
            for (; e < end && is_digit(*e); e++)
                if (d->written < 1000000000) d->written = d->written * 10 + (*e - '0');
            if (minus) d->written = -d->written;
            d->exponent += d->written;
            at = e;
        }
    }
    return at;
}

/* Non-negative integers of up to 1,500 bits: more than 128 digits times the powers that float32's range can ask for. */
typedef struct big {
    uint32_t limb[48];
    int n;
} big;

static void multiply_add(big *b, uint32_t factor, uint32_t addend) {
    uint64_t carry = addend;
    for (int i = 0; i < b->n; i++) {
        carry += (uint64_t)b->limb[i] * factor;
        b->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry) b->limb[b->n++] = (uint32_t)carry;
}

static void multiply_power(big *b, uint32_t base, int64_t power) {
    for (; power > 0; power--) multiply_add(b, base, 0);
}

static int compare_big(const big *a, const big *b) {
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (int i = a->n - 1; i >= 0; i--)
        if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

/* The decimal against the midpoint between the float of these bits and the next larger one. Midpoints have at most 113
 * significant digits, so of a longer decimal's tail it matters only whether it is zero. */
static int compare_midpoint(const decimal *d, uint32_t bits) {
    big value = {{0}, 0}, midpoint = {{0}, 0};
    int64_t exponent = d->written;
    int kept = 0;
    bool point = false, tail = false;
    for (const char *at = d->digits; at < d->digits_end; at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        if (kept < 128) {
            multiply_add(&value, 10, (uint32_t)(*at - '0'));
            if (value.n) kept++;
            exponent -= point;
        } else {
            tail |= *at != '0';
            exponent += !point;
        }
    }
    uint32_t biased = bits >> 23, mantissa = bits & 0x7fffff;
    int power = biased ? (int)biased - 151 : -150;
    multiply_add(&midpoint, 1, 2 * (biased ? mantissa | 0x800000 : mantissa) + 1);
    multiply_power(&value, 2, -power);
    multiply_power(&midpoint, 2, power);
    multiply_power(&value, 10, exponent);
    multiply_power(&midpoint, 10, -exponent);
    int order = compare_big(&value, &midpoint);
    return order ? order : tail;
}

static uint32_t round_exactly(const decimal *d, uint32_t bits) {
    for (;;) {
        int above = compare_midpoint(d, bits);
        if (above > 0 || (above == 0 && bits & 1)) {
            bits++;
            if (above == 0) return bits;
            continue;
        }
        if (!bits) return bits;
        int below = compare_midpoint(d, bits - 1);
        if (below > 0 || (below == 0 && !(bits & 1))) return bits;
        bits--;
        if (below == 0) return bits;
    }
}

static float convert(const decimal *d) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (!d->leading) return 0;
    int64_t magnitude = d->exponent + d->n_leading; /* 10^(magnitude-1) <= value < 10^magnitude */
    if (magnitude > 39) return INFINITY;
    if (magnitude < -45) return 0;
    double x = (double)d->leading;
    int64_t e = d->exponent;
    for (; e > 22; e -= 22) x *= 1e22;
    for (; e < -22; e += 22) x /= 1e22;
    if (e < 0)
        x /= powers[-e];
    else
        x *= powers[e];
    /* At most six roundings so far: x is within 4 units in its last place of the value, or 5 with dropped digits. Only
     * within that distance of a midpoint between floats could rounding x go the wrong way. */
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint64_t tail = bits & 0x1fffffff;
    float nearest = (float)x; /* may be infinite */
    bool certain = tail < 0x10000000 - 8 || tail > 0x10000000 + 8;
    if (certain && x > 1.1754945e-38) return nearest;
    uint32_t small;
    memcpy(&small, &nearest, sizeof small);
    small = round_exactly(d, small);
    memcpy(&nearest, &small, sizeof small);
    return nearest;
}

/* Length of the word at `at` if it is this one, in any case. */
static bool starts_with(const char *at, const char *end, const char *word) {
    for (; *word; word++, at++)
        if (at >= end || (*at | 0x20) != *word) return false;
    return true;
}

const char *ct_parse_float(const char *at, const char *end, float *value) {
    bool minus = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) at++;
    float magnitude;
    if (starts_with(at, end, "nan")) {
        magnitude = NAN;
        at += 3;
    } else if (starts_with(at, end, "inf")) {
        magnitude = INFINITY;
        at += starts_with(at, end, "infinity") ? 8 : 3;
    } else {
        decimal d;
        at = scan(at, end, &d);
        if (!at) return NULL;
        magnitude = convert(&d);
    }
    *value = minus ? -magnitude : magnitude;
    return at;
}
