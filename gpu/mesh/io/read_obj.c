/* read_obj.c - reads Wavefront OBJ: v and f lines. Normals, textures, groups and materials are skipped. */
#include "gpu/mesh/io/cursor.h"
#include "gpu/mesh/io/read.h"

/* As ct_at_line_end, but a backslash before the line end joins the next line to this one. */
static bool at_joined_line_end(ct_cursor *cursor) {
    for (;;) {
        if (ct_at_line_end(cursor)) return true;
        if (*cursor->at != '\\' || cursor->at + 1 == cursor->end || !ct_is_eol(cursor->at[1])) return false;
        bool crlf = cursor->at[1] == '\r' && cursor->at + 2 < cursor->end && cursor->at[2] == '\n';
        cursor->at += crlf ? 3 : 2;
    }
}

/* As ct_skip_line, with lines joined by a backslash. */
static void skip_joined_line(ct_cursor *cursor) {
    ct_skip_line(cursor);
    while (cursor->at < cursor->end && cursor->at > cursor->begin && cursor->at[-1] == '\\') {
        bool crlf = cursor->at[0] == '\r' && cursor->at + 1 < cursor->end && cursor->at[1] == '\n';
        cursor->at += crlf ? 2 : 1;
        ct_skip_line(cursor);
    }
}

static ct_status read_vertex(ct_cursor *cursor, ct_soup *soup, ct_error *error) {
    ct_soup_point p;
    for (int k = 0; k < 3; k++) {
        if (at_joined_line_end(cursor)) return ct_fail_unexpected(cursor, "a coordinate", error);
        ct_status status = ct_read_coordinate(cursor, soup, k, &p, error);
        if (status != CT_OK) return status;
    }
    skip_joined_line(cursor); /* a weight or a colour */
    return ct_soup_add_point(soup, &p, error);
}

/* Reads "7", "7/1", "7//3" or "7/1/3". Negative numbers count back from the last vertex so far. */
static ct_status read_corner(ct_cursor *cursor, const ct_soup *soup, uint32_t *corner, ct_error *error) {
    int64_t number;
    const char *after = ct_parse_integer(cursor->at, cursor->end, &number);
    bool is_valid =
        after && (after == cursor->end || *after == '/' || ct_is_blank(*after) || ct_is_eol(*after) || *after == '\\');
    if (is_valid && number < 0) number += (int64_t)soup->n_vertices + 1;
    if (!is_valid || number < 1 || number > (int64_t)1 << 30)
        return ct_fail_unexpected(cursor, "a vertex number (from 1, or negative to count back from the last vertex)",
                                  error);
    while (after < cursor->end && (*after == '/' || *after == '-' || (*after >= '0' && *after <= '9'))) after++;
    cursor->at = after;
    *corner = (uint32_t)(number - 1);
    return CT_OK;
}

/* Reads the corners of a face after its first three, with the fan of triangles to them. Apart from read_face, so that
 * triangles, which most files have alone, take few registers. */
__attribute__((noinline)) static ct_status read_polygon(ct_cursor *cursor, ct_soup *soup, uint32_t first,
                                                        uint32_t previous, ct_error *error) {
    uint32_t n = 3, corner;
    for (; !at_joined_line_end(cursor); n++) {
        ct_status status = read_corner(cursor, soup, &corner, error);
        if (status == CT_OK) status = ct_soup_add_triangle(soup, first, previous, corner, error);
        if (status != CT_OK) return status;
        previous = corner;
    }
    return ct_soup_add_polygon(soup, n, error);
}

static ct_status read_face(ct_cursor *cursor, ct_soup *soup, ct_error *error) {
    uint32_t corner[3];
    int n = 0;
    for (; n < 3 && !at_joined_line_end(cursor); n++) {
        ct_status status = read_corner(cursor, soup, &corner[n], error);
        if (status != CT_OK) return status;
    }
    if (n == 0) return ct_fail_unexpected(cursor, "the vertex numbers of this face", error);
    /* A face of one or two corners has no area, as a triangle that names a vertex twice. */
    for (int i = n; i < 3; i++) corner[i] = corner[n - 1];
    ct_status status = ct_soup_add_triangle(soup, corner[0], corner[1], corner[2], error);
    if (status != CT_OK || n < 3 || at_joined_line_end(cursor)) return status;
    return read_polygon(cursor, soup, corner[0], corner[2], error);
}

ct_status ct_read_obj(const char *bytes, size_t size, ct_soup *soup, ct_error *error) {
    ct_cursor cursor = {bytes, bytes, bytes + size, '#', NULL};
    ct_status status = CT_OK;
    while (status == CT_OK && ct_skip_space(&cursor)) {
        if (ct_read_word(&cursor, "v"))
            status = read_vertex(&cursor, soup, error);
        else if (ct_read_word(&cursor, "f"))
            status = read_face(&cursor, soup, error);
        else
            skip_joined_line(&cursor);
    }
    if (status == CT_OK && !soup->n_vertices)
        status = ct_fail(error, CT_PARSE_ERROR, "bytes", "no vertex (\"v x y z\") in this OBJ file of %zu bytes", size);
    if (status == CT_OK && !soup->n_triangles)
        status =
            ct_fail(error, CT_INVALID_MESH, "bytes",
                    "the mesh is empty: this OBJ file has %zu vertices and no face (\"f 1 2 3\"): if it is a point "
                    "cloud, reconstruct a surface first; curves and free-form surfaces are to be saved as faces",
                    soup->n_vertices);
    return status;
}
