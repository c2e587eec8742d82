/* cursor.c - reads tokens from text of known length. */
#include "gpu/mesh/io/cursor.h"

#include <stdio.h>

#include "gpu/base/cancel.h"

enum { PIECE = 1 << 14 }; /* bytes between polls: some 0.1 ms of numbers */

void ct_poll_cursor(ct_cursor *cursor) {
    if (ct_is_cancelled()) cursor->end = cursor->at;
    cursor->next_poll = ct_remaining(cursor) < PIECE ? cursor->end : cursor->at + PIECE;
}

static bool is_space(char c) {
    return ct_is_blank(c) || ct_is_eol(c);
}

size_t ct_word_length(const ct_cursor *cursor) {
    const char *at = cursor->at;
    while (at < cursor->end && !is_space(*at)) {
        if (CT_POLL_EVERY((uintptr_t)at, PIECE) && ct_is_cancelled()) break;
        at++;
    }
    return (size_t)(at - cursor->at);
}

static char to_lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

bool ct_word_is(const char *word, size_t length, const char *expected) {
    if (strlen(expected) != length) return false;
    for (size_t i = 0; i < length; i++)
        if (to_lower(word[i]) != expected[i]) return false;
    return true;
}

bool ct_read_word(ct_cursor *cursor, const char *word) {
    const char *at = cursor->at;
    for (; *word; word++, at++)
        if (at == cursor->end || to_lower(*at) != *word) return false;
    if (at < cursor->end && !is_space(*at)) return false;
    cursor->at = at;
    return true;
}

bool ct_next_word(ct_cursor *cursor, const char **word, size_t *length) {
    if (ct_at_line_end(cursor)) return false;
    *word = cursor->at;
    *length = ct_word_length(cursor);
    cursor->at += *length;
    return true;
}

size_t ct_line_number(const ct_cursor *cursor) {
    size_t line = 1;
    for (const char *c = cursor->begin; c < cursor->at; c++) {
        if (CT_POLL_EVERY((uintptr_t)c, PIECE) && ct_is_cancelled()) break;
        line += *c == '\n' || (*c == '\r' && !(c + 1 < cursor->end && c[1] == '\n'));
    }
    return line;
}

ct_status ct_fail_unexpected(const ct_cursor *cursor, const char *what, ct_error *error) {
    size_t line = ct_line_number(cursor);
    if (cursor->at == cursor->end)
        return ct_fail(error, CT_PARSE_ERROR, "bytes", "line %zu: expected %s, found the end of the file", line, what);
    if (ct_is_eol(*cursor->at))
        return ct_fail(error, CT_PARSE_ERROR, "bytes", "line %zu: expected %s, found the end of the line", line, what);
    char word[25];
    size_t n = ct_word_length(cursor), shown = n < sizeof word - 1 ? n : sizeof word - 1;
    for (size_t i = 0; i < shown; i++) word[i] = cursor->at[i] > ' ' && cursor->at[i] < 127 ? cursor->at[i] : '?';
    word[shown] = 0;
    return ct_fail(error, CT_PARSE_ERROR, "bytes", "line %zu: expected %s, found '%s%s'", line, what, word,
                   shown < n ? "..." : "");
}

/* What is often wrong with a word that should be a number, as a remedy; "": nothing known. */
static const char *remedy_of_number(const ct_cursor *cursor) {
    const char *word = cursor->at;
    const size_t n = ct_word_length(cursor);
    if (n && memchr(word, ',', n)) return " (a decimal comma? Save the numbers with points)";
    const bool has_line_ends = cursor->begin < cursor->at && ct_line_number(cursor) > 1;
    if (!has_line_ends && n > 1 && (word[n - 1] == 'v' || word[n - 1] == 'f'))
        return " (the line ends are missing: with curl, --data-binary keeps them)";
    return "";
}

static ct_status fail_number(const ct_cursor *cursor, const char *what, ct_error *error) {
    char expected[128];
    snprintf(expected, sizeof expected, "%s%s", what, remedy_of_number(cursor));
    return ct_fail_unexpected(cursor, expected, error);
}

static bool ends_word(const ct_cursor *cursor, const char *at) {
    return at == cursor->end || is_space(*at) || *at == cursor->comment;
}

ct_status ct_read_float(ct_cursor *cursor, float *value, const char *what, ct_error *error) {
    ct_skip_space(cursor);
    const char *after = ct_parse_float(cursor->at, cursor->end, value);
    if (!after || !ends_word(cursor, after)) return fail_number(cursor, what, error);
    cursor->at = after;
    return CT_OK;
}

ct_status ct_read_coordinate(ct_cursor *cursor, ct_soup *soup, int k, ct_soup_point *point, ct_error *error) {
    ct_skip_space(cursor);
    const char *after = soup->digits.is_wide
                            ? ct_parse_double(cursor->at, cursor->end, &point->wide[k])
                            : ct_parse_coordinate(cursor->at, cursor->end, &soup->digits, &point->rounded[k]);
    if (!after || !ends_word(cursor, after)) return fail_number(cursor, "a coordinate", error);
    cursor->at = after;
    return CT_OK;
}

const char *ct_parse_integer(const char *at, const char *end, int64_t *value) {
    const int64_t limit = (int64_t)1 << 62;
    bool minus = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) at++;
    if (at == end || *at < '0' || *at > '9') return NULL;
    enum { SAFE_DIGITS = 17 }; /* below limit / 10, and too few to poll between them */
    const char *const safe_end = end - at > SAFE_DIGITS ? at + SAFE_DIGITS : end;
    int64_t n = 0;
    for (; at < safe_end && *at >= '0' && *at <= '9'; at++) n = n * 10 + (*at - '0');
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (CT_POLL_EVERY((uintptr_t)at, PIECE) && ct_is_cancelled()) return NULL;
        n = n > limit / 10 - 1 ? limit : n * 10 + (*at - '0');
    }
    *value = minus ? -n : n;
    return at;
}

ct_status ct_read_integer(ct_cursor *cursor, int64_t *value, const char *what, ct_error *error) {
    ct_skip_space(cursor);
    const char *after = ct_parse_integer(cursor->at, cursor->end, value);
    if (!after || !ends_word(cursor, after)) return ct_fail_unexpected(cursor, what, error);
    cursor->at = after;
    return CT_OK;
}
