/* json_out.c - see json_out.h. */
#include "server/base/json_out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/utf8.h"

void json_out_init(json_out *out, size_t limit) {
    *out = (json_out){.limit = limit};
}

void json_out_init_fixed(json_out *out, char *buffer, size_t size) {
    *out = (json_out){.data = buffer, .capacity = size, .limit = size, .is_fixed = true};
}

void json_out_free(json_out *out) {
    if (!out->is_fixed) free(out->data);
    *out = (json_out){0};
}

static void put(json_out *out, const char *bytes, size_t n) {
    if (out->state != JSON_OUT_OK) return;
    if (n > out->limit - out->size) {
        out->state = JSON_OUT_TOO_LARGE;
        return;
    }
    if (out->size + n > out->capacity) {
        size_t capacity = out->capacity ? 2 * out->capacity : 1024;
        while (capacity < out->size + n) capacity *= 2;
        char *data = realloc(out->data, capacity);
        if (!data) {
            out->state = JSON_OUT_NO_MEMORY;
            return;
        }
        out->data = data;
        out->capacity = capacity;
    }
    memcpy(out->data + out->size, bytes, n);
    out->size += n;
}

static void begin(json_out *out, const char *key) {
    if (out->comma) put(out, ",", 1);
    out->comma = true;
    if (!key) return;
    put(out, "\"", 1);
    put(out, key, strlen(key));
    put(out, "\":", 2);
}

static void open_bracket(json_out *out, const char *key, const char *bracket) {
    begin(out, key);
    put(out, bracket, 1);
    out->comma = false;
}

static void close_bracket(json_out *out, const char *bracket) {
    put(out, bracket, 1);
    out->comma = true;
}

void json_out_object(json_out *out, const char *key) {
    open_bracket(out, key, "{");
}

void json_out_object_end(json_out *out) {
    close_bracket(out, "}");
}

void json_out_array(json_out *out, const char *key) {
    open_bracket(out, key, "[");
}

void json_out_array_end(json_out *out) {
    close_bracket(out, "]");
}

static void put_escape(json_out *out, char c) {
    char text[8];
    put(out, text, (size_t)snprintf(text, sizeof text, "\\u%04x", (unsigned char)c));
}

void json_out_string(json_out *out, const char *key, const char *value) {
    begin(out, key);
    put(out, "\"", 1);
    size_t n = strlen(value);
    while (n) {
        size_t length = wire_utf8_length(value, n);
        if (length == 0)
            put(out, "\xef\xbf\xbd", 3);
        else if (length == 1 && (*value == '"' || *value == '\\'))
            put(out, (char[]){'\\', *value}, 2);
        else if (length == 1 && ((unsigned char)*value < 0x20 || *value == 0x7f))
            put_escape(out, *value);
        else
            put(out, value, length);
        value += length ? length : 1;
        n -= length ? length : 1;
    }
    put(out, "\"", 1);
}

void json_out_number(json_out *out, const char *key, double value) {
    char text[40] = "null";
    begin(out, key);
    if (isfinite(value))
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, value);
            if (strtod(text, NULL) == value) break;
        }
    put(out, text, strlen(text));
}

void json_out_float(json_out *out, const char *key, float value) {
    char text[40] = "null";
    begin(out, key);
    if (isfinite(value))
        for (int digits = 6; digits <= 9; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, (double)value);
            if (strtof(text, NULL) == value) break;
        }
    put(out, text, strlen(text));
}

void json_out_integer(json_out *out, const char *key, uint64_t value) {
    char text[24];
    begin(out, key);
    put(out, text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)value));
}

void json_out_bool(json_out *out, const char *key, bool value) {
    begin(out, key);
    put(out, value ? "true" : "false", value ? 4 : 5);
}

void json_out_numbers(json_out *out, const char *key, const double *values, size_t n) {
    json_out_array(out, key);
    for (size_t i = 0; i < n; i++) json_out_number(out, NULL, values[i]);
    json_out_array_end(out);
}

void json_out_floats(json_out *out, const char *key, const float *values, size_t n) {
    json_out_array(out, key);
    for (size_t i = 0; i < n; i++) json_out_float(out, NULL, values[i]);
    json_out_array_end(out);
}

void json_out_raw(json_out *out, const char *bytes, size_t n) {
    put(out, bytes, n);
}

void json_out_base64(json_out *out, const char *key, const void *bytes, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum { AT_ONCE = 192 };
    const unsigned char *from = bytes;
    begin(out, key);
    put(out, "\"", 1);
    while (n && out->state == JSON_OUT_OK) {
        char text[4 * AT_ONCE / 3];
        size_t size = 0;
        for (size_t i = 0; i < AT_ONCE && n; i += 3) {
            const size_t left = n < 3 ? n : 3;
            const uint32_t three =
                (uint32_t)from[0] << 16 | (left > 1 ? (uint32_t)from[1] << 8 : 0) | (left > 2 ? from[2] : 0u);
            text[size++] = digits[three >> 18];
            text[size++] = digits[three >> 12 & 63];
            text[size++] = left > 1 ? digits[three >> 6 & 63] : '=';
            text[size++] = left > 2 ? digits[three & 63] : '=';
            from += left;
            n -= left;
        }
        put(out, text, size);
    }
    put(out, "\"", 1);
}
