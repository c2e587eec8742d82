/* decimal.c - converts decimal text to float32. Most numbers take a fast path in double, whose error is bounded; if the
 * bound does not decide the rounding, exact integers do (Clinger 1990, "How to read floating point numbers
 * accurately").
 */
#include "gpu/mesh/io/decimal.h"

#include "gpu/base/cancel.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A parsed number. Its exact value is the text [digits, digits_end) times 10^written_exponent; leading * 10^exponent is
 * that value truncated to 19 digits. */
typedef struct decimal {
    const char *digits, *digits_end; /* with at most one '.' among them */
    uint64_t leading;                /* the first 19 significant digits or fewer */
    int n_leading;
    int64_t exponent; /* of the last digit of leading */
    int64_t written_exponent;
} decimal;

enum { PIECE = 1 << 12 }; /* digits between polls. A number that was cancelled may have any value */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Fortran writes 1.5D+03. */
static bool is_exponent_letter(char c) {
    return (c | 0x20) == 'e' || (c | 0x20) == 'd';
}

static const char *scan_decimal(const char *at, const char *end, decimal *d) {
    memset(d, 0, sizeof *d);
    d->digits = at;
    bool point = false, has_digits = false;
    for (; at < end; at++) {
        if (CT_POLL_EVERY((uintptr_t)at, PIECE) && ct_is_cancelled()) return NULL;
        if (*at == '.' && !point) {
            point = true;
            continue;
        }
        if (!is_digit(*at)) break;
        has_digits = true;
        if (d->n_leading < 19) {
            d->leading = d->leading * 10 + (uint64_t)(*at - '0');
            if (d->leading) d->n_leading++;
            d->exponent -= point;
        } else {
            d->exponent += !point;
        }
    }
    if (!has_digits) return NULL;
    d->digits_end = at;
    if (at < end && is_exponent_letter(*at)) {
        const char *e = at + 1;
        bool minus = e < end && *e == '-';
        if (e < end && (*e == '-' || *e == '+')) e++;
        if (e < end && is_digit(*e)) {
            for (; e < end && is_digit(*e); e++) {
                if (CT_POLL_EVERY((uintptr_t)e, PIECE) && ct_is_cancelled()) return NULL;
                if (d->written_exponent < 1000000000) d->written_exponent = d->written_exponent * 10 + (*e - '0');
            }
            if (minus) d->written_exponent = -d->written_exponent;
            d->exponent += d->written_exponent;
            at = e;
        }
    }
    return at;
}

/* A non-negative integer. 1,536 bits hold 128 digits (426 bits) times the powers of 2 and 10 that scale a number within
 * float32's range to an integer. */
typedef struct big_integer {
    uint32_t limb[48]; /* least significant first */
    int n;
} big_integer;

static void multiply_add(big_integer *b, uint32_t factor, uint32_t addend) {
    uint64_t carry = addend;
    for (int i = 0; i < b->n; i++) {
        carry += (uint64_t)b->limb[i] * factor;
        b->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry) b->limb[b->n++] = (uint32_t)carry;
}

static void multiply_power(big_integer *b, uint32_t base, int64_t power) {
    for (; power > 0; power--) multiply_add(b, base, 0);
}

static int compare_big_integers(const big_integer *a, const big_integer *b) {
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (int i = a->n - 1; i >= 0; i--)
        if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

/* Compares the decimal with the midpoint between the float of these bits and the next larger float: -1, 0 or 1. A
 * midpoint has at most 113 significant digits, so digits after the 128th matter only if one of them is not zero. */
static int compare_midpoint(const decimal *d, uint32_t bits) {
    big_integer value = {{0}, 0}, midpoint = {{0}, 0};
    int64_t exponent = d->written_exponent;
    int n_digits = 0;
    bool point = false, tail = false;
    for (const char *at = d->digits; at < d->digits_end; at++) {
        if (CT_POLL_EVERY((uintptr_t)at, PIECE) && ct_is_cancelled()) return 0;
        if (*at == '.') {
            point = true;
            continue;
        }
        if (n_digits < 128) {
            multiply_add(&value, 10, (uint32_t)(*at - '0'));
            if (value.n) n_digits++;
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
    int order = compare_big_integers(&value, &midpoint);
    return order ? order : tail;
}

/* Returns the bits of the nearest float, ties to even; `bits` is a guess near it. */
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

enum { MOST_POWER = 22 }; /* of 10 that a double holds exactly */

static const double powers[MOST_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Whether rounding x, whose error is a few units in its last place, to float32 rounds the value that x stands for. Of a
 * double's 52 mantissa bits float32 drops 29, so `tail` is 2^28 at a midpoint between floats. Rounding x is correct
 * unless x is near such a midpoint (8 units: the error and a margin), or the float is subnormal. */
static bool rounds_for_certain(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t tail = bits & 0x1fffffff;
    return (tail < 0x10000000 - 8 || tail > 0x10000000 + 8) && x > 1.1754945e-38;
}

static float convert_to_float(const decimal *d) {
    if (!d->leading) return 0;
    int64_t magnitude = d->exponent + d->n_leading; /* 10^(magnitude-1) <= value < 10^magnitude */
    if (magnitude > 39) return INFINITY;
    if (magnitude < -45) return 0;
    double x = (double)d->leading;
    int64_t e = d->exponent;
    for (; e > MOST_POWER; e -= MOST_POWER) x *= powers[MOST_POWER];
    for (; e < -MOST_POWER; e += MOST_POWER) x /= powers[MOST_POWER];
    if (e < 0)
        x /= powers[-e];
    else
        x *= powers[e];
    /* At most six roundings so far: x is within 4 units in its last place of the value, or 5 with dropped digits. */
    float nearest = (float)x; /* may be infinite */
    if (rounds_for_certain(x)) return nearest;
    uint32_t nearest_bits;
    memcpy(&nearest_bits, &nearest, sizeof nearest_bits);
    nearest_bits = round_exactly(d, nearest_bits);
    memcpy(&nearest, &nearest_bits, sizeof nearest_bits);
    return nearest;
}

/* The value as a double: sums of two doubles hold `leading` and what rounding leaves of each product. */
static double convert_to_double(const decimal *d) {
    if (!d->leading) return 0;
    const int64_t magnitude = d->exponent + d->n_leading; /* 10^(magnitude-1) <= value < 10^magnitude */
    if (magnitude > 39) return INFINITY;
    if (magnitude < -45) return 0;
    double high = (double)d->leading;
    /* `leading` is below 10^19 and `high` at most 2^64, which no uint64_t holds, only above 2^64 - 1024 */
    double low = (double)(int64_t)(d->leading - (uint64_t)high);
    for (int64_t e = d->exponent; e != 0;) {
        const int step = e > MOST_POWER ? MOST_POWER : e < -MOST_POWER ? -MOST_POWER : (int)e;
        const double power = powers[step < 0 ? -step : step];
        const double product = step < 0 ? high / power : high * power;
        const double rest =
            step < 0 ? (fma(-product, power, high) + low) / power : fma(high, power, -product) + low * power;
        high = product + rest;
        low = rest - (high - product);
        e -= step;
    }
    return high;
}

/* Notes that float32 is more than 10^exponent, a unit of the last digit, off the number leading * 10^exponent; of its
 * digits, zeros at the end do not count. */
__attribute__((noinline, cold)) static void note_loss(uint64_t leading, int64_t exponent, double off,
                                                      ct_digits *digits) {
    if (!(off > 0)) return;
    while (leading % 10 == 0) leading /= 10, exponent++;
    if (leading <= digits->watched) return;
    double unit = 1;
    for (; exponent < -MOST_POWER; exponent += MOST_POWER) unit /= powers[MOST_POWER];
    for (; exponent > MOST_POWER; exponent -= MOST_POWER) unit *= powers[MOST_POWER];
    unit = exponent < 0 ? unit / powers[-exponent] : unit * powers[exponent];
    if (off <= unit) return;
    digits->loses_some = true;
    digits->loses_many = leading > CT_FEW_DIGITS;
    digits->watched = digits->loses_many ? UINT64_MAX : CT_FEW_DIGITS;
}

/* Most numbers of most files: at most 18 digits and a power of 10 that a double holds exactly, of which one division or
 * product gives what convert_to_float gives. NULL: the text is something else, or the rounding is not certain. */
static inline const char *parse_short(const char *at, const char *end, ct_digits *digits, float *value) {
    enum { MOST_CHARACTERS = 19, MOST_EXPONENT_DIGITS = 3 };
    const char *const begin = at, *const safe_end = end - at > MOST_CHARACTERS ? at + MOST_CHARACTERS : end;
    uint64_t leading = 0;
    int exponent = 0;
    for (; at < safe_end && is_digit(*at); at++) leading = leading * 10 + (uint64_t)(*at - '0');
    bool has_digits = at > begin;
    if (at < safe_end && *at == '.') {
        const char *const fraction = ++at;
        for (; at < safe_end && is_digit(*at); at++) leading = leading * 10 + (uint64_t)(*at - '0');
        has_digits = has_digits || at > fraction;
        exponent = -(int)(at - fraction);
    }
    if (!has_digits || (at == safe_end && at < end)) return NULL;
    if (at < end && is_exponent_letter(*at)) {
        const bool minus = ++at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) at++;
        const char *const first = at;
        int written = 0;
        for (; at < end && is_digit(*at) && at - first <= MOST_EXPONENT_DIGITS; at++)
            written = written * 10 + (*at - '0');
        if (at == first || at - first > MOST_EXPONENT_DIGITS) return NULL;
        exponent += minus ? -written : written;
    }
    if (at < end && *at == '#') return NULL; /* "1.#INF" */
    if (exponent < -MOST_POWER || exponent > MOST_POWER) return NULL;
    double x = (double)leading;
    if (exponent < 0)
        x /= powers[-exponent];
    else
        x *= powers[exponent];
    if (leading && !(rounds_for_certain(x) && x < 1e38)) return NULL;
    *value = (float)x;
    if (leading > digits->watched) {
        const double off = fabs(x - (double)*value);
        if (exponent < 0 ? off * powers[-exponent] > 1 : off > powers[exponent])
            note_loss(leading, exponent, off, digits);
    }
    return at;
}

/* Compares with `word`, which is lower-case, ignoring case. */
static bool starts_with(const char *at, const char *end, const char *word) {
    for (; *word; word++, at++)
        if (at >= end || (*at | 0x20) != *word) return false;
    return true;
}

/* The end of what old C libraries of Windows print behind "1." for a number that is none, such as "#QNAN0" or "#INF",
 * with *value set; NULL: it is nothing of the kind. */
static const char *parse_not_finite(const char *at, const char *end, float *value) {
    static const char *const words[] = {"#ind", "#qnan", "#snan", "#inf"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!starts_with(at, end, words[i])) continue;
        *value = i < 3 ? NAN : INFINITY;
        for (at += strlen(words[i]); at < end && *at == '0'; at++)
            if (CT_POLL_EVERY((uintptr_t)at, PIECE) && ct_is_cancelled()) break;
        return at;
    }
    return NULL;
}

const char *ct_parse_coordinate(const char *at, const char *end, ct_digits *digits, float *value) {
    bool minus = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) at++;
    float magnitude;
    const char *const after_short = parse_short(at, end, digits, &magnitude);
    if (after_short) {
        at = after_short;
    } else if (starts_with(at, end, "nan")) {
        magnitude = NAN;
        at += 3;
        for (size_t i = 0; i < 2; i++) /* "nan(ind)" and "nan(snan)" of Windows */
            if (starts_with(at, end, i ? "(snan)" : "(ind)")) at += i ? 6 : 5;
    } else if (starts_with(at, end, "inf")) {
        magnitude = INFINITY;
        at += starts_with(at, end, "infinity") ? 8 : 3;
    } else {
        decimal d;
        at = scan_decimal(at, end, &d);
        if (!at) return NULL;
        magnitude = convert_to_float(&d);
        if (d.leading > digits->watched && d.exponent <= MOST_POWER && isfinite(magnitude))
            note_loss(d.leading, d.exponent, fabs(convert_to_double(&d) - (double)magnitude), digits);
        const char *after = at < end && *at == '#' ? parse_not_finite(at, end, &magnitude) : NULL;
        if (after) at = after;
    }
    *value = minus ? -magnitude : magnitude;
    return at;
}

const char *ct_parse_float(const char *at, const char *end, float *value) {
    ct_digits digits = {.watched = UINT64_MAX};
    return ct_parse_coordinate(at, end, &digits, value);
}

const char *ct_parse_double(const char *at, const char *end, double *value) {
    const bool minus = at < end && *at == '-', has_sign = minus || (at < end && *at == '+');
    float rounded;
    decimal d;
    const char *const number = scan_decimal(at + has_sign, end, &d);
    if (!number || (number < end && *number == '#')) { /* "nan", "inf", "-1.#IND" */
        const char *const after = ct_parse_float(at, end, &rounded);
        if (after) *value = (double)rounded;
        return after;
    }
    *value = minus ? -convert_to_double(&d) : convert_to_double(&d);
    return number;
}
