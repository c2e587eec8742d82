/* json.c - JSON written to stdout as it comes, for contactctl. */
#include <math.h>
#include <stdio.h>

#include "client_c/ctl/ctl.h"

static int depth;
static bool first = true;

static void put_text(const char *s) {
    putchar('"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void start(const char *key) {
    if (depth) printf("%s\n%*s", first ? "" : ",", 2 * depth, "");
    first = false;
    if (!key) return;
    put_text(key);
    fputs(": ", stdout);
}

static void put_number(double value) {
    if (isfinite(value))
        printf("%.17g", value);
    else
        fputs("null", stdout);
}

void json_open(const char *key, char bracket) {
    start(key);
    putchar(bracket);
    depth++;
    first = true;
}
void json_close(char bracket) {
    depth--;
    if (!first) printf("\n%*s", 2 * depth, "");
    putchar(bracket);
    first = false;
    if (depth == 0) putchar('\n');
}
void json_text(const char *key, const char *value) {
    start(key);
    put_text(value ? value : "");
}
void json_number(const char *key, double value) {
    start(key);
    put_number(value);
}
void json_count(const char *key, uint64_t value) {
    start(key);
    printf("%llu", (unsigned long long)value);
}
void json_bool(const char *key, bool value) {
    start(key);
    fputs(value ? "true" : "false", stdout);
}
void json_numbers(const char *key, const double *values, size_t n) {
    start(key);
    putchar('[');
    for (size_t i = 0; i < n; i++) {
        if (i) fputs(", ", stdout);
        put_number(values[i]);
    }
    putchar(']');
}
