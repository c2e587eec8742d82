/* text.c - see text.h. */
#include "server/http/text.h"

#include <stdint.h>
#include <string.h>

#include "proto/utf8.h"
#include "server/base/name.h"

static bool is_control(const char *s) {
    return (unsigned char)*s < 0x20 || *s == 0x7f;
}

const char *text_clean(const char *s, char *out, size_t size) {
    size_t n = strlen(s), at = 0;
    while (n) {
        size_t length = wire_utf8_length(s, n);
        bool is_shown = length && (length == 1 || name_may_have(name_code_point(s, length)));
        const char *piece = !is_shown ? "\xef\xbf\xbd" : length == 1 && is_control(s) ? " " : s;
        size_t piece_size = is_shown ? length : 3;
        if (length == 0) length = 1;
        if (at + piece_size >= size) break;
        memcpy(out + at, piece, piece_size);
        at += piece_size;
        s += length;
        n -= length;
    }
    out[at] = 0;
    return out;
}

bool text_is_utf8(const char *s, size_t n) {
    while (n) {
        size_t length = wire_utf8_length(s, n);
        if (length == 0 || (length == 1 && is_control(s))) return false;
        s += length;
        n -= length;
    }
    return true;
}

static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool text_unescape(const char *s, size_t n, bool plus, char *out, size_t size) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '+' && plus) c = ' ';
        if (c == '%') {
            if (n - i < 3 || hex(s[i + 1]) < 0 || hex(s[i + 2]) < 0) return false;
            c = (char)(hex(s[i + 1]) * 16 + hex(s[i + 2]));
            i += 2;
        }
        if (c == 0 || at + 1 >= size) return false;
        out[at++] = c;
    }
    if (size == 0) return false;
    out[at] = 0;
    return true;
}

bool text_next_parameter(const char **query, text_view *name, text_view *value) {
    const char *at = *query;
    while (*at == '&') at++;
    if (*at == 0) return false;
    size_t length = strcspn(at, "&");
    const char *equals = memchr(at, '=', length);
    name->data = at;
    name->size = equals ? (size_t)(equals - at) : length;
    value->data = equals ? equals + 1 : at + length;
    value->size = equals ? length - name->size - 1 : 0;
    *query = at + length;
    return true;
}
