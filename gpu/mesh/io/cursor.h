/* cursor.h - reads text of known length token by token, for the mesh readers. The text need not end with a zero.
 *
 * When the thread's work is cancelled the text ends where the cursor is. So readers need no polls of their own, but
 * what they then say of the end of the text is not why they end: ct_mesh_read_with looks. */
#ifndef CT_CURSOR_H
#define CT_CURSOR_H

#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/io/decimal.h"
#include "gpu/mesh/soup.h"

typedef struct ct_cursor {
    const char *begin, *at, *end;
    char comment;          /* starts a comment that ends with the line; 0: the format has no comments */
    const char *next_poll; /* up to `end`; NULL at first */
} ct_cursor;

static inline bool ct_is_eol(char c) {
    return c == '\n' || c == '\r';
}

static inline bool ct_is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\v' || c == '\f';
}

static inline size_t ct_remaining(const ct_cursor *cursor) {
    return (size_t)(cursor->end - cursor->at);
}

/* Polls, and sets when to do so next. */
void ct_poll_cursor(ct_cursor *cursor);

/* Moves to the end of the line or of the text. */
static inline void ct_skip_line(ct_cursor *cursor) {
    do {
        if (cursor->at >= cursor->next_poll) ct_poll_cursor(cursor);
        while (cursor->at < cursor->next_poll && !ct_is_eol(*cursor->at)) cursor->at++;
    } while (cursor->at == cursor->next_poll && cursor->at < cursor->end);
}

/* Skips blanks and a comment, but not the end of the line. */
static inline void ct_skip_blanks(ct_cursor *cursor) {
    do {
        if (cursor->at >= cursor->next_poll) ct_poll_cursor(cursor);
        while (cursor->at < cursor->next_poll && ct_is_blank(*cursor->at)) cursor->at++;
    } while (cursor->at == cursor->next_poll && cursor->at < cursor->end);
    if (cursor->comment && cursor->at < cursor->end && *cursor->at == cursor->comment) ct_skip_line(cursor);
}

static inline bool ct_at_line_end(ct_cursor *cursor) {
    ct_skip_blanks(cursor);
    return cursor->at == cursor->end || ct_is_eol(*cursor->at);
}

/* Skips blanks, comments and line ends; false at the end of the text. */
static inline bool ct_skip_space(ct_cursor *cursor) {
    for (;;) {
        ct_skip_blanks(cursor);
        if (cursor->at == cursor->end) return false;
        if (!ct_is_eol(*cursor->at)) return true;
        cursor->at++;
    }
}

/* The length of the word at cursor->at, up to the next blank or line end. */
size_t ct_word_length(const ct_cursor *cursor);

/* Consumes the word at cursor->at if it equals `word`, which is lower-case, ignoring case. */
bool ct_read_word(ct_cursor *cursor, const char *word);

/* Consumes the next word of this line; false at the end of the line. */
bool ct_next_word(ct_cursor *cursor, const char **word, size_t *length);

/* Compares with `expected`, which is lower-case, ignoring case. */
bool ct_word_is(const char *word, size_t length, const char *expected);

/* Skip space and line ends, then read a number. On failure the error names the line, the expected item (`what`) and the
 * word found. */
ct_status ct_read_float(ct_cursor *cursor, float *value, const char *what, ct_error *error);
/* Coordinate k of a vertex of the soup, with its digits noted. */
ct_status ct_read_coordinate(ct_cursor *cursor, ct_soup *soup, int k, ct_soup_point *point, ct_error *error);
ct_status ct_read_integer(ct_cursor *cursor, int64_t *value, const char *what, ct_error *error);

/* Fails with PARSE_ERROR "line 7: expected <what>, found '<word>'". */
ct_status ct_fail_unexpected(const ct_cursor *cursor, const char *what, ct_error *error);

/* The line of cursor->at, from 1. Counts from the start of the text, so it is for messages only. */
size_t ct_line_number(const ct_cursor *cursor);

/* Parses an integer, saturating near +-2^62, and returns a pointer to its end, or NULL if none starts at `at`. */
const char *ct_parse_integer(const char *at, const char *end, int64_t *value);

#endif
