/* text.h - bytes that came from outside, made fit for JSON and logs; and query strings. */
#ifndef CONTACTD_HTTP_TEXT_H
#define CONTACTD_HTTP_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Copies s into out (size > 3) with every byte that is no part of valid UTF-8, and every character that no name may
 * have (name.h), replaced by U+FFFD, control characters by a space, cut at a character where it is too long. Returns
 * out. */
const char *text_clean(const char *s, char *out, size_t size);

bool text_is_utf8(const char *s, size_t n); /* also: no U+0000 and no other control characters */

/* Decodes %XX (and + as a space where plus) of n bytes into out, NUL-terminated. False: an escape that is none, a NUL,
 * or out is too small. */
bool text_unescape(const char *s, size_t n, bool plus, char *out, size_t size);

/* Walks "a=1&b=2": each call sets one name (and value, empty where there is no '=') as views into *query and moves it
 * on. False at the end. */
typedef struct text_view {
    const char *data;
    size_t size;
} text_view;
bool text_next_parameter(const char **query, text_view *name, text_view *value);

#endif
