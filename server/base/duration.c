/* duration.c - see duration.h. */
#include "server/base/duration.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A decimal number: strtod would also take NaN, infinity, hexadecimal numbers and exponents. *end: what follows. */
static bool read_number(const char *text, double *out, const char **end) {
    size_t digits = strspn(text, "0123456789"), n = digits;
    if (text[n] == '.') {
        const size_t more = strspn(text + n + 1, "0123456789");
        n += 1 + more;
        digits += more;
    }
    if (!digits || n > 32 || !isdigit((unsigned char)text[0])) return false;
    char copy[33];
    memcpy(copy, text, n);
    copy[n] = 0;
    *out = strtod(copy, NULL);
    *end = text + n;
    return true;
}

bool duration_read(const char *text, uint64_t *ms) {
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"", 1e3}, {"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}};
    const char *unit;
    double number;
    if (!read_number(text, &number, &unit)) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(unit, units[i].name) != 0) continue;
        number = ceil(number * units[i].factor);
        if (!(number >= 1 && number <= (double)DURATION_MOST_MS)) return false;
        *ms = (uint64_t)number;
        return true;
    }
    return false;
}
