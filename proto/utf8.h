/* utf8.h - which bytes are UTF-8: for the codec, for HTTP and for names. In C and C++. */
#ifndef CONTACTD_UTF8_H
#define CONTACTD_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character that begins the n bytes at text, or 0 if they begin with none: no overlong forms, no
 * surrogates, no code points above U+10FFFF (The Unicode Standard, table 3-7). */
static inline size_t wire_utf8_length(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    if (n == 0) return 0;
    if (s[0] < 0x80) return 1;
    size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || length > n) return 0;
    unsigned low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80, high = 0xbf;
    if (s[0] == 0xed) high = 0x9f;
    if (s[0] == 0xf4) high = 0x8f;
    if (s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
    }
    return length;
}

/* Whether all n bytes are UTF-8 without NUL. */
static inline bool wire_is_utf8(const char *text, size_t n) {
    for (size_t i = 0, length; i < n; i += length) {
        length = wire_utf8_length(text + i, n - i);
        if (length == 0 || text[i] == 0) return false;
    }
    return true;
}

#endif
