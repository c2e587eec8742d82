/* cursor.h - reading text of known length token by token, for the mesh readers. Nothing here needs a terminating zero.
 */
#ifndef CT_CURSOR_H
#define CT_CURSOR_H

#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/decimal.h"

typedef struct ct_cursor {
    const char *begin, *at, *end;
    char comment; /* from this character to the end of the line is nothing; 0: no comments */
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

/* Past blanks and a comment, but not past the end of the line. */
static inline void ct_skip_blanks(ct_cursor *cursor) {
    while (cursor->at < cursor->end && ct_is_blank(*cursor->at)) cursor->at++;
    if (cursor->comment && cursor->at < cursor->end && *cursor->at == cursor->comment)
        while (cursor->at < cursor->end && !ct_is_eol(*cursor->at)) cursor->at++;
}

static inline bool ct_at_line_end(ct_cursor *cursor) {
    ct_skip_blanks(cursor);
    return cursor->at == cursor->end || ct_is_eol(*cursor->at);
}

/* To the end of this line, or of the text. */
static inline void ct_skip_line(ct_cursor *cursor) {
    while (cursor->at < cursor->end && !ct_is_eol(*cursor->at)) cursor->at++;
}

/* Past blanks, comments and line ends; false at the end of the text. */
static inline bool ct_skip_space(ct_cursor *cursor) {
    for (;;) {
        ct_skip_blanks(cursor);
        if (cursor->at == cursor->end) return false;
        if (!ct_is_eol(*cursor->at)) return true;
        cursor->at++;
    }
}

/* A word starts at cursor->at: its length, up to the next blank or line end. */
size_t ct_word_length(const ct_cursor *cursor);

/* Takes the word at cursor->at if it is this one, in upper or lower case. */
bool ct_read_word(ct_cursor *cursor, const char *word);

/* The next word of this line; false at its end. */
bool ct_next_word(ct_cursor *cursor, const char **word, size_t *length);
bool ct_word_is(const char *word, size_t length, const char *expected);

/* Numbers, after space of any kind. A failure names the line, what was expected and what is there. */
ct_status ct_read_float(ct_cursor *cursor, float *value, const char *what, ct_error *error);
ct_status ct_read_integer(ct_cursor *cursor, int64_t *value, const char *what, ct_error *error);

/* PARSE_ERROR "line 7: expected <what>, found '<word>'". */
ct_status ct_unexpected(const ct_cursor *cursor, const char *what, ct_error *error);

/* Which line cursor->at is on, from 1; walks the text, for messages only. */
size_t ct_line_number(const ct_cursor *cursor);

/* Parses an integer, saturating at 2^62; gives where it ends, or NULL. */
const char *ct_parse_integer(const char *at, const char *end, int64_t *value);

#endif
