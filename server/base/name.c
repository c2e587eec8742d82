/* name.c - see name.h. */
#include "server/base/name.h"

#include <inttypes.h>
#include <string.h>

#include "proto/utf8.h"

/* In rising order. From The Unicode Standard 15: UnicodeData.txt (Cc, Cf, Zl, Zp), DerivedCoreProperties.txt. */
static const struct {
    uint32_t first, last;
} refused[] = {{0x0000, 0x001f},   {0x007f, 0x009f},   {0x00ad, 0x00ad},   {0x034f, 0x034f},   {0x0600, 0x0605},
               {0x061c, 0x061c},   {0x06dd, 0x06dd},   {0x070f, 0x070f},   {0x0890, 0x0891},   {0x08e2, 0x08e2},
               {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},
               {0x2060, 0x206f},   {0x3164, 0x3164},   {0xfdd0, 0xfdef},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},
               {0xffa0, 0xffa0},   {0xfff0, 0xfffb},   {0xfffe, 0xffff},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
               {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0x1fffe, 0x1ffff}, {0x2fffe, 0x2ffff},
               {0x3fffe, 0x10ffff}};

bool name_may_have(uint32_t code_point) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused && code_point >= refused[i].first; i++)
        if (code_point <= refused[i].last) return false;
    return true;
}

uint32_t name_code_point(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    if (n == 1) return s[0];
    uint32_t value = s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) value = value << 6 | (s[i] & 0x3f);
    return value;
}

bool name_check(const char *name, const char *object, server_error *error) {
    size_t left = name ? strlen(name) : 0;
    while (left) {
        size_t n = wire_utf8_length(name, left);
        if (n == 0)
            return server_fail(error, CONTACTD_INVALID_ARGUMENT, object, "name", "the name of the %s is not UTF-8",
                               object);
        uint32_t c = name_code_point(name, n);
        if (!name_may_have(c))
            return server_fail(error, CONTACTD_INVALID_ARGUMENT, object, "name",
                               "the name of the %s has the character U+%04" PRIX32
                               ", which is not shown, or changes how others are shown: leave it out",
                               object, c);
        name += n;
        left -= n;
    }
    return true;
}
