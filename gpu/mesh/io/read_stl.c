/* read_stl.c - reads text and binary STL, which repeats every vertex in every triangle; equal corners are welded. */
#include <stdlib.h>

#include "gpu/mesh/io/cursor.h"
#include "gpu/mesh/io/read.h"
#include "gpu/mesh/io/weld.h"

/* Bytes of the binary format: 80 of comment and the triangle count; then for each triangle the normal, three corners of
 * 12 bytes and 2 bytes of attributes. */
enum { HEADER = 84, RECORD = 50, NORMAL = 12 };

static uint64_t read_binary_count(const char *bytes) {
    uint32_t count;
    memcpy(&count, bytes + HEADER - 4, 4);
    return count;
}

bool ct_is_binary_stl(const char *bytes, size_t size) {
    return size >= HEADER && size - HEADER == RECORD * read_binary_count(bytes);
}

bool ct_has_binary_stl(const char *bytes, size_t size) {
    const uint64_t count = size >= HEADER ? read_binary_count(bytes) : 0;
    return count && (size - HEADER) / RECORD >= count;
}

uint64_t ct_binary_stl_size(const char *bytes, size_t size) {
    return size >= HEADER ? HEADER + RECORD * read_binary_count(bytes) : 0;
}

static void read_binary_corner(const void *bytes, size_t i, void *position) {
    memcpy(position, (const char *)bytes + HEADER + RECORD * (i / 3) + NORMAL + 12 * (i % 3), 12);
}

static ct_status read_binary(const char *bytes, size_t size, ct_soup *soup, ct_error *error) {
    if (size < HEADER)
        return ct_fail(error, CT_PARSE_ERROR, "bytes",
                       "%zu bytes are neither a text STL (\"solid ...\") nor a binary one (at least %d bytes)", size,
                       HEADER);
    uint64_t count = read_binary_count(bytes);
    if ((size - HEADER) / RECORD < count)
        return ct_fail(
            error, CT_PARSE_ERROR, "bytes",
            "the binary STL's header claims %llu triangles, which take %llu bytes, but the file has %zu: it is "
            "truncated or not an STL file",
            (unsigned long long)count, (unsigned long long)(HEADER + RECORD * count), size);
    return ct_weld(bytes, 3 * (size_t)count, read_binary_corner, soup, error);
}

static void read_text_corner(const void *positions, size_t i, void *position) {
    memcpy(position, (const float *)positions + 3 * i, 12);
}

static void read_wide_corner(const void *positions, size_t i, void *position) {
    memcpy(position, (const double *)positions + 3 * i, 24);
}

static ct_status expect_word(ct_cursor *cursor, const char *word, const char *what, ct_error *error) {
    ct_skip_space(cursor);
    return ct_read_word(cursor, word) ? CT_OK : ct_fail_unexpected(cursor, what, error);
}

static bool at_outer(ct_cursor *cursor) {
    ct_skip_space(cursor);
    return cursor->end - cursor->at >= 5 && ct_word_is(cursor->at, 5, "outer");
}

/* Skips a facet's normal, which follows from the order of the corners: the rest of the line, or up to "outer" where
 * that is on the same line. The whole file may be one line. */
static void skip_normal(ct_cursor *cursor) {
    enum { MOST_WORDS = 5, USUAL_LINE = 128 };
    const size_t n = ct_remaining(cursor) < USUAL_LINE ? ct_remaining(cursor) : USUAL_LINE;
    const char *const line_end = memchr(cursor->at, '\n', n), *word;
    ct_cursor next = *cursor;
    next.at = line_end;
    if (line_end && at_outer(&next)) {
        *cursor = next;
        return;
    }
    size_t length;
    for (int i = 0; i < MOST_WORDS && !ct_at_line_end(cursor); i++) {
        if (at_outer(cursor)) return;
        ct_next_word(cursor, &word, &length);
    }
    if (!at_outer(cursor)) ct_skip_line(cursor);
}

/* Reads "endloop" or "end loop". */
static ct_status expect_end(ct_cursor *cursor, const char *word, const char *what, ct_error *error) {
    ct_skip_space(cursor);
    if (ct_read_word(cursor, word)) return CT_OK;
    if (ct_read_word(cursor, "end")) ct_skip_space(cursor);
    return ct_read_word(cursor, word + 3) ? CT_OK : ct_fail_unexpected(cursor, what, error);
}

/* Reads a facet after its keyword. */
static ct_status read_facet(ct_cursor *cursor, ct_soup *corners, ct_error *error) {
    skip_normal(cursor);
    ct_status status = expect_word(cursor, "outer", "\"outer loop\"", error);
    if (status == CT_OK) status = expect_word(cursor, "loop", "\"outer loop\"", error);
    for (int c = 0; c < 3 && status == CT_OK; c++) {
        ct_soup_point p;
        status = expect_word(cursor, "vertex", "\"vertex\"", error);
        for (int k = 0; k < 3 && status == CT_OK; k++) status = ct_read_coordinate(cursor, corners, k, &p, error);
        if (status == CT_OK) status = ct_soup_add_point(corners, &p, error);
    }
    if (status == CT_OK) status = expect_end(cursor, "endloop", "\"endloop\" after three vertices", error);
    if (status == CT_OK) status = expect_end(cursor, "endfacet", "\"endfacet\"", error);
    return status;
}

static ct_status read_text(const char *bytes, size_t size, ct_soup *soup, ct_error *error) {
    ct_cursor cursor = {bytes, bytes, bytes + size, '#', NULL};
    ct_soup corners; /* only its vertices are used */
    ct_soup_init(&corners, NULL);
    corners.limits.max_vertices = 3 * soup->limits.max_triangles;
    corners.digits = soup->digits;
    ct_status status = CT_OK;
    while (status == CT_OK && ct_skip_space(&cursor)) {
        if (ct_read_word(&cursor, "facet"))
            status = read_facet(&cursor, &corners, error);
        else if (ct_read_word(&cursor, "solid") || ct_read_word(&cursor, "endsolid") || ct_read_word(&cursor, "end"))
            ct_skip_line(&cursor); /* a name */
        else
            status = ct_fail_unexpected(&cursor, "\"facet\", \"solid\" or \"endsolid\"", error);
    }
    soup->digits = corners.digits;
    const bool is_wide = soup->digits.is_wide;
    if (status == CT_OK)
        status = ct_weld(is_wide ? (const void *)corners.wide : corners.positions, corners.n_vertices,
                         is_wide ? read_wide_corner : read_text_corner, soup, error);
    ct_soup_free(&corners);
    return status;
}

/* True for text STL. Some binary files start with "solid" too, but text has no zero bytes; 4,096 bytes are enough to
 * meet one in a binary file. */
static bool is_text(const char *bytes, size_t size) {
    ct_cursor cursor = {bytes, bytes, bytes + size, '#', NULL};
    if (!ct_skip_space(&cursor) || !ct_read_word(&cursor, "solid")) return false;
    for (size_t i = 0; i < size && i < 4096; i++)
        if (bytes[i] == 0) return false;
    return true;
}

ct_status ct_read_stl(const char *bytes, size_t size, ct_soup *soup, ct_error *error) {
    if (!ct_is_binary_stl(bytes, size) && is_text(bytes, ct_text_size(bytes, size)))
        return read_text(bytes, ct_text_size(bytes, size), soup, error);
    return read_binary(bytes, size, soup, error);
}
