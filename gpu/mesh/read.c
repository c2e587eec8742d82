/* read.c - ct_mesh_read: detects the format, reads and validates. */
#include "gpu/mesh/read.h"

#include "gpu/base/cancel.h"
#include "gpu/mesh/cursor.h"
#include "gpu/mesh/mesh.h"

/* Keywords that can start the first line of an OBJ file. */
static bool is_obj_keyword(const char *word, size_t length) {
    static const char *const keywords[] = {"v",      "vn",     "vt", "vp", "f",      "o",   "g",    "s",
                                           "mtllib", "usemtl", "l",  "p",  "cstype", "deg", "surf", "curv"};
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (ct_word_is(word, length, keywords[i])) return true;
    return false;
}

static bool is_off_header(const char *word, size_t length) {
    return length >= 3 && length <= 8 && memcmp(word + length - 3, "OFF", 3) == 0;
}

static ct_mesh_format detect_format(const char *bytes, size_t size) {
    if (ct_is_binary_stl(bytes, size)) return CT_FORMAT_STL;
    ct_cursor cursor = {bytes, bytes, bytes + size, '#', NULL};
    if (!ct_skip_space(&cursor)) return CT_FORMAT_AUTO;
    const char *word;
    size_t length;
    ct_next_word(&cursor, &word, &length);
    if (ct_word_is(word, length, "ply")) return CT_FORMAT_PLY;
    if (ct_word_is(word, length, "solid")) return CT_FORMAT_STL;
    if (is_off_header(word, length)) return CT_FORMAT_OFF;
    if (is_obj_keyword(word, length)) return CT_FORMAT_OBJ;
    return CT_FORMAT_AUTO;
}

ct_status ct_mesh_read(const void *bytes, size_t size, ct_mesh_format format, const ct_mesh_limits *limits,
                       ct_mesh **out, ct_error *error) {
    const ct_mesh_options options = ct_mesh_options_of(limits);
    return ct_mesh_read_with(bytes, size, format, &options, out, NULL, error);
}

ct_status ct_mesh_read_with(const void *bytes, size_t size, ct_mesh_format format, const ct_mesh_options *options,
                            ct_mesh **out, ct_mesh_changes *changes, ct_error *error) {
    *out = NULL;
    ct_status status = ct_mesh_options_check(options, error);
    if (status != CT_OK) return status;
    ct_enter_phase("reading the mesh");
    if (!bytes || !size) return ct_fail(error, CT_PARSE_ERROR, "bytes", "the file is empty");
    const char *text = bytes;
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3, size -= 3; /* a byte order mark */
    if (format == CT_FORMAT_AUTO) format = detect_format(text, size);

    ct_soup soup;
    ct_soup_init(&soup, &options->limits);
    switch (format) {
    case CT_FORMAT_OBJ:
        status = ct_read_obj(text, size, &soup, error);
        break;
    case CT_FORMAT_OFF:
        status = ct_read_off(text, size, &soup, error);
        break;
    case CT_FORMAT_PLY:
        status = ct_read_ply(text, size, &soup, error);
        break;
    case CT_FORMAT_STL:
        status = ct_read_stl(text, size, &soup, error);
        break;
    case CT_FORMAT_AUTO:
        status = ct_fail(error, CT_PARSE_ERROR, "bytes",
                         "the format of these %zu bytes is unknown, expected OBJ, OFF, PLY or STL (a binary STL has "
                         "84 bytes and 50 per triangle)",
                         size);
        break;
    default:
        status = ct_fail(error, CT_INVALID_ARGUMENT, "format", "format %d is unknown, expected %d to %d", (int)format,
                         CT_FORMAT_AUTO, CT_FORMAT_STL);
    }
    if (ct_is_cancelled()) { /* whatever the reader says of the text, which ended there */
        if (error) error->status = CT_OK;
        status = ct_fail_cancelled(error);
    }
    if (status != CT_OK) {
        ct_soup_free(&soup);
        return status;
    }
    return ct_soup_finish(&soup, options, out, changes, error);
}
