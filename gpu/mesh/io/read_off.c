/* read_off.c - reads Object File Format text: OFF, and its variants with normals, colours or texture coordinates, which
 * are skipped. */
#include "gpu/base/cancel.h"
#include "gpu/mesh/io/cursor.h"
#include "gpu/mesh/io/read.h"

size_t ct_off_word_length(const char *word, size_t length) {
    size_t n = length;
    while (n > 0 && word[n - 1] >= '0' && word[n - 1] <= '9') n--;
    return n;
}

/* Reads "[ST][C][N]OFF". *has_extras: a vertex line continues after the three coordinates. 4OFF and nOFF are rejected,
 * because they are not three-dimensional. The number of vertices may follow without a space: "OFF490 518 0". */
static ct_status read_header(ct_cursor *cursor, bool *has_extras, ct_error *error) {
    if (!ct_skip_space(cursor)) return ct_fail_unexpected(cursor, "\"OFF\"", error);
    static const char *const names[] = {"off", "noff", "coff", "cnoff", "stoff", "stnoff", "stcoff", "stcnoff"};
    const size_t length = ct_off_word_length(cursor->at, ct_word_length(cursor));
    size_t i = 0;
    while (i < sizeof names / sizeof *names && !ct_word_is(cursor->at, length, names[i])) i++;
    if (i == sizeof names / sizeof *names)
        return ct_fail_unexpected(cursor, "\"OFF\" (or COFF, NOFF, CNOFF, STOFF)", error);
    *has_extras = i > 0;
    cursor->at += length;
    ct_skip_space(cursor);
    if (ct_read_word(cursor, "binary"))
        return ct_fail(error, CT_PARSE_ERROR, "bytes",
                       "binary OFF is not supported: save the mesh as text OFF, PLY or STL");
    return CT_OK;
}

static ct_status read_counts(ct_cursor *cursor, uint64_t counts[2], ct_error *error) {
    static const char *const names[2] = {"the number of vertices", "the number of faces"};
    /* bytes of the shortest vertex, "0 0 0 ", and of the shortest face, "1 0 "; the last has no space at its end */
    static const uint64_t min_bytes[2] = {6, 4};
    for (int i = 0; i < 2; i++) {
        int64_t n;
        ct_skip_space(cursor);
        const char *word = cursor->at;
        ct_status status = ct_read_integer(cursor, &n, names[i], error);
        if (status != CT_OK) return status;
        if (n < 0 || (uint64_t)n > ct_remaining(cursor) / min_bytes[i] + 1)
            return ct_fail(error, CT_PARSE_ERROR, "bytes", "line %zu: %s is %.*s, but only %zu bytes follow",
                           ct_line_number(cursor), names[i], (int)(cursor->at - word < 40 ? cursor->at - word : 40),
                           word, ct_remaining(cursor));
        counts[i] = (uint64_t)n;
    }
    if (!ct_at_line_end(cursor)) { /* the number of edges: often 0 or missing, and not used */
        int64_t edges;
        ct_status status = ct_read_integer(cursor, &edges, "the number of edges", error);
        if (status != CT_OK) return status;
    }
    return CT_OK;
}

/* A file on one line is legal OFF; vertices and faces then end where their numbers end. */
static bool has_lines(const ct_cursor *cursor) {
    enum { PIECE = 1 << 20 }; /* bytes between polls */
    for (const char *at = cursor->at; at < cursor->end && !ct_is_cancelled(); at += PIECE) {
        const size_t n = cursor->end - at < PIECE ? (size_t)(cursor->end - at) : PIECE;
        if (memchr(at, '\n', n) || memchr(at, '\r', n)) return true;
        if (n < PIECE) break;
    }
    return false;
}

/* Counts the words on the rest of this line; the cursor is a copy. */
static size_t count_words(ct_cursor cursor) {
    const char *word;
    size_t length, count = 0;
    while (ct_next_word(&cursor, &word, &length)) count++;
    return count;
}

/* Whether each vertex and face has a line of its own; the cursor is a copy. */
static bool has_line_each(ct_cursor cursor, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        if (!ct_skip_space(&cursor)) return false;
        ct_skip_line(&cursor);
    }
    return true;
}

/* Some writers add colours to plain OFF: then the first vertex line has more than three numbers. So has one of several
 * vertices, which leaves fewer lines than vertices and faces. */
static bool has_colours(const ct_cursor *cursor, const uint64_t counts[2]) {
    const size_t n = count_words(*cursor);
    return n % 3 != 0 || (n > 3 && has_line_each(*cursor, counts[0] + counts[1]));
}

static ct_status read_face(ct_cursor *cursor, uint64_t face, ct_soup *soup, ct_error *error) {
    int64_t n, corner;
    uint32_t first = 0, previous = 0;
    ct_status status = ct_read_integer(cursor, &n, "a face's number of corners", error);
    if (status != CT_OK) return status;
    if (n < 1)
        return ct_fail(error, CT_PARSE_ERROR, "bytes", "line %zu: face %llu has %lld corners, expected at least 3",
                       ct_line_number(cursor), (unsigned long long)face, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        status = ct_read_integer(cursor, &corner, "a vertex number", error);
        if (status != CT_OK) return status;
        if (corner < 0 || corner > UINT32_MAX)
            return ct_fail(error, CT_PARSE_ERROR, "bytes", "line %zu: face %llu names vertex %lld, expected 0 or more",
                           ct_line_number(cursor), (unsigned long long)face, (long long)corner);
        if (i >= 2) status = ct_soup_add_triangle(soup, first, previous, (uint32_t)corner, error);
        if (status != CT_OK) return status;
        if (i == 0) first = (uint32_t)corner;
        previous = (uint32_t)corner;
    }
    if (n > 3) return ct_soup_add_polygon(soup, (uint32_t)n, error);
    /* A face of one or two corners has no area, as a triangle that names a vertex twice. */
    return n == 3 ? CT_OK : ct_soup_add_triangle(soup, first, previous, previous, error);
}

ct_status ct_read_off(const char *bytes, size_t size, ct_soup *soup, ct_error *error) {
    ct_cursor cursor = {bytes, bytes, bytes + size, '#', NULL};
    bool has_extras = false;
    uint64_t counts[2] = {0, 0};
    ct_status status = read_header(&cursor, &has_extras, error);
    if (status == CT_OK) status = read_counts(&cursor, counts, error);
    if (status == CT_OK) status = ct_soup_reserve_vertices(soup, counts[0], error);
    if (status == CT_OK) status = ct_soup_reserve_triangles(soup, counts[1], error);
    if (status != CT_OK) return status;

    ct_skip_space(&cursor);
    bool is_multiline = has_lines(&cursor);
    if (!has_extras && is_multiline) has_extras = has_colours(&cursor, counts);
    if (has_extras && !is_multiline)
        return ct_fail(
            error, CT_PARSE_ERROR, "bytes",
            "all numbers are on one line, so coordinates cannot be separated from colours or normals: put each "
            "vertex on its own line");
    for (uint64_t v = 0; v < counts[0] && status == CT_OK; v++) {
        ct_soup_point p;
        for (int k = 0; k < 3 && status == CT_OK; k++) status = ct_read_coordinate(&cursor, soup, k, &p, error);
        if (status == CT_OK && has_extras) ct_skip_line(&cursor);
        if (status == CT_OK) status = ct_soup_add_point(soup, &p, error);
    }
    for (uint64_t f = 0; f < counts[1] && status == CT_OK; f++) {
        status = read_face(&cursor, f, soup, error);
        if (is_multiline) ct_skip_line(&cursor); /* a colour */
    }
    return status;
}
