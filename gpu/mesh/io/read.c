/* read.c - ct_mesh_read: detects the format, reads and validates. */
#include "gpu/mesh/io/read.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/base/cancel.h"
#include "gpu/mesh/io/cursor.h"
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
    length = ct_off_word_length(word, length);
    return length >= 3 && length <= 8 && ct_word_is(word + length - 3, 3, "off");
}

/* Whether some line starts as a vertex of an OBJ file does: for those that begin with a keyword of their own. */
static bool has_obj_vertex(ct_cursor cursor) {
    while (ct_skip_space(&cursor)) {
        float x;
        const char *word;
        size_t length;
        ct_next_word(&cursor, &word, &length);
        if (ct_word_is(word, length, "v") && !ct_at_line_end(&cursor) && ct_parse_float(cursor.at, cursor.end, &x))
            return true;
        ct_skip_line(&cursor);
    }
    return false;
}

static ct_mesh_format detect_format(const char *bytes, size_t size) {
    if (ct_is_binary_stl(bytes, size)) return CT_FORMAT_STL;
    ct_cursor cursor = {bytes, bytes, bytes + size, '#', NULL};
    if (!ct_skip_space(&cursor)) return CT_FORMAT_AUTO;
    if (*cursor.at == '{' || (size >= 4 && memcmp(bytes, "glTF", 4) == 0)) return CT_FORMAT_GLTF;
    const char *word;
    size_t length;
    ct_next_word(&cursor, &word, &length);
    if (ct_word_is(word, length, "ply")) return CT_FORMAT_PLY;
    if (ct_word_is(word, length, "solid")) return CT_FORMAT_STL;
    if (is_off_header(word, length)) return CT_FORMAT_OFF;
    if (is_obj_keyword(word, length)) return CT_FORMAT_OBJ;
    if (ct_has_binary_stl(bytes, size)) return CT_FORMAT_STL;
    return has_obj_vertex(cursor) ? CT_FORMAT_OBJ : CT_FORMAT_AUTO;
}

size_t ct_text_size(const char *bytes, size_t size) {
    enum { DOS_END = 0x1a };
    for (; size; size--) {
        const char c = bytes[size - 1];
        if (!(c == 0 || c == DOS_END || ct_is_blank(c) || ct_is_eol(c))) break;
        if (CT_POLL_EVERY(size, 1 << 14) && ct_is_cancelled()) break;
    }
    return size;
}

/* ---- what is no mesh file of ours ---- */

#ifdef CT_HAVE_JANSSON
#define FORMATS  "GLB, glTF, OBJ, OFF, PLY or STL"
#define GLTF_TOO "GLB, "
#else
#define FORMATS  "OBJ, OFF, PLY or STL"
#define GLTF_TOO ""
#endif

struct foreign {
    const char *begin, *name, *remedy;
};

static const struct foreign foreign_files[] = {
    {"BLENDER", "a Blender file", "in Blender, export the mesh as " GLTF_TOO "STL, OBJ or PLY"},
    {"ISO-10303-21", "a STEP file", "in the CAD program, export a tessellated mesh as STL or OBJ"},
    {"#usda", "a USD file", "export its meshes as " GLTF_TOO "OBJ, PLY or STL"},
    {"PXR-USDC", "a USD file", "export its meshes as " GLTF_TOO "OBJ, PLY or STL"},
#ifndef CT_HAVE_JANSSON
    {"glTF", "a binary glTF file (.glb), which this build does not read", "export the mesh as OBJ, PLY or STL"},
    {"{", "JSON, as of a .gltf file, which this build does not read", "export the mesh as OBJ, PLY or STL"},
#endif
    {"Kaydara FBX", "an FBX file", "export the mesh as " GLTF_TOO "OBJ, PLY or STL"},
    {"; FBX", "an FBX file", "export the mesh as " GLTF_TOO "OBJ, PLY or STL"},
    {"PK\x03\x04", "a zip archive, as of a .3mf or .usdz file",
     "unpack it, or export the mesh as " GLTF_TOO "OBJ, PLY or STL"},
    {"\x1f\x8b", "compressed by gzip", "unpack it"},
    {"version https://git-lfs", "a pointer of Git LFS in place of the file", "run git lfs pull"},
    {"# vtk DataFile", "a VTK file", "save the surface as PLY or STL"},
    {"$MeshFormat", "a Gmsh file", "save the surface as STL"},
    {"#VRML", "a VRML file", "export the mesh as " GLTF_TOO "OBJ, PLY or STL"},
    {"<!DOCTYPE html", "a page of HTML in place of the file", "download the file itself"},
    {"<html", "a page of HTML in place of the file", "download the file itself"},
    {"<", "XML, as of an X3D, VTK or 3MF file", "export the mesh as " GLTF_TOO "OBJ, PLY or STL"},
};

static bool is_collada(const char *bytes, size_t size) {
    enum { HEAD = 1 << 12 }; /* bytes before the root: a declaration and comments */
    static const char root[] = "<COLLADA";
    return memmem(bytes, size < HEAD ? size : HEAD, root, sizeof root - 1) != NULL;
}

/* NULL: it may be a mesh file. */
static const struct foreign *find_foreign(const char *bytes, size_t size) {
    static const struct foreign collada = {"<", "a COLLADA file (.dae)",
                                           "export the mesh as " GLTF_TOO "OBJ, PLY or STL"};
    ct_cursor cursor = {bytes, bytes, bytes + size, 0, NULL};
    if (!ct_skip_space(&cursor)) return NULL;
    if (*cursor.at == '<' && is_collada(cursor.at, ct_remaining(&cursor))) return &collada;
    for (size_t i = 0; i < sizeof foreign_files / sizeof *foreign_files; i++) {
        const size_t n = strlen(foreign_files[i].begin);
        if (ct_remaining(&cursor) >= n && memcmp(cursor.at, foreign_files[i].begin, n) == 0) return &foreign_files[i];
    }
    return NULL;
}

static ct_status fail_unknown(const char *bytes, size_t size, ct_error *error) {
    ct_cursor cursor = {bytes, bytes, bytes + size, '#', NULL};
    int64_t number;
    ct_skip_space(&cursor);
    if (ct_parse_integer(cursor.at, cursor.end, &number))
        return ct_fail(error, CT_PARSE_ERROR, "bytes",
                       "the format of these %zu bytes is unknown: they begin with a number. If it is the number of "
                       "vertices, put a line \"OFF\" before it",
                       size);
    const uint64_t whole = ct_binary_stl_size(bytes, size);
    enum { MOST_PARTS = 100 }; /* bytes of another kind read as a count are some random number, far above the size */
    if (whole > size && whole / MOST_PARTS <= size)
        return ct_fail(error, CT_PARSE_ERROR, "bytes",
                       "the format of these %zu bytes is unknown, expected " FORMATS ". If it is a binary STL, it is "
                       "truncated: by its header it has %llu bytes",
                       size, (unsigned long long)whole);
    return ct_fail(error, CT_PARSE_ERROR, "bytes",
                   "the format of these %zu bytes is unknown, expected " FORMATS " (a binary STL has "
                   "84 bytes and 50 per triangle)",
                   size);
}

/* ---- two-byte text ---- */

/* 1: UTF-16 with the low byte first, 2: with the high byte first, 0: other bytes. Without a byte order mark, ASCII in
 * UTF-16 has every other byte 0. */
static int find_utf16(const char *bytes, size_t size) {
    if (size < 4) return 0;
    if (memcmp(bytes, "\xff\xfe", 2) == 0) return 1;
    if (memcmp(bytes, "\xfe\xff", 2) == 0) return 2;
    for (int high = 0; high < 2; high++)
        if (!bytes[high] && !bytes[2 + high] && bytes[1 - high] > 0 && bytes[3 - high] > 0) return 2 - high;
    return 0;
}

/* The characters as bytes, those beyond ASCII as '?', without a byte order mark. *size becomes theirs. The caller frees
 * it; NULL: no memory, or cancelled. */
static char *narrow_text(const char *bytes, size_t *size, int order) {
    const size_t n = *size / 2;
    char *text = malloc(n + 1);
    *size = 0;
    for (size_t i = 0; i < n && text; i++) {
        const uint8_t low = (uint8_t)bytes[2 * i + (order == 2)], high = (uint8_t)bytes[2 * i + (order == 1)];
        if (CT_POLL_EVERY(i, 1 << 14) && ct_is_cancelled()) break;
        if (i == 0 && low == 0xff && high == 0xfe) continue;
        text[(*size)++] = high || low > 127 ? '?' : (char)low;
    }
    return text;
}

static ct_status read_soup(const char *bytes, size_t size, ct_mesh_format format, ct_soup *soup, ct_error *error) {
    const struct foreign *foreign = NULL;
    if (format == CT_FORMAT_AUTO && !ct_is_binary_stl(bytes, size) && (foreign = find_foreign(bytes, size)))
        return ct_fail(error, CT_PARSE_ERROR, "bytes", "this is %s, not " FORMATS ": %s", foreign->name,
                       foreign->remedy);
    if (format == CT_FORMAT_AUTO) format = detect_format(bytes, size);
    switch (format) {
    case CT_FORMAT_OBJ:
        return ct_read_obj(bytes, ct_text_size(bytes, size), soup, error);
    case CT_FORMAT_OFF:
        return ct_read_off(bytes, ct_text_size(bytes, size), soup, error);
    case CT_FORMAT_PLY:
        return ct_read_ply(bytes, size, soup, error);
    case CT_FORMAT_STL:
        return ct_read_stl(bytes, size, soup, error);
    case CT_FORMAT_GLTF:
#ifdef CT_HAVE_JANSSON
        return ct_read_gltf(bytes, size, soup, error);
#else
        return ct_fail(error, CT_UNSUPPORTED, "format", "this build reads no glTF: export the mesh as OBJ, PLY or STL");
#endif
    case CT_FORMAT_AUTO:
        return fail_unknown(bytes, size, error);
    default:
        return ct_fail(error, CT_INVALID_ARGUMENT, "format", "format %d is unknown, expected %d to %d", (int)format,
                       CT_FORMAT_AUTO, CT_FORMAT_GLTF);
    }
}

/* Whether a mesh is so far from the origin that float32 is coarser there than about the mesh. */
static bool is_far(const ct_soup *soup) {
    double lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY}, extent = 0, away = 0;
    for (size_t i = 0; i < 3 * soup->n_vertices; i++) {
        if (CT_POLL_EVERY(i, 1 << 14) && ct_is_cancelled()) return false;
        lo[i % 3] = fmin(lo[i % 3], (double)soup->positions[i]);
        hi[i % 3] = fmax(hi[i % 3], (double)soup->positions[i]);
    }
    for (int k = 0; k < 3 && soup->n_vertices; k++) {
        extent = fmax(extent, hi[k] - lo[k]);
        away = fmax(away, fmax(fabs(lo[k]), fabs(hi[k])));
    }
    return away > CT_FAR * extent;
}

/* Reads the file, again in double precision where float32 does not hold it (digits.h): what is beside an origin then is
 * scaled already. */
static ct_status read_file(const char *bytes, size_t size, ct_mesh_format format, ct_mesh_options *options,
                           ct_soup *soup, ct_error *error) {
    ct_soup_init(soup, &options->limits);
    ct_error narrow = {0};
    ct_status status = read_soup(bytes, size, format, soup, &narrow);
    if (!soup->digits.loses_many && !(status == CT_OK && soup->digits.loses_some && is_far(soup))) {
        ct_hand_on(error, &narrow);
        return status;
    }
    ct_soup_free(soup);
    ct_soup_init(soup, &options->limits);
    soup->digits.is_wide = true;
    status = read_soup(bytes, size, format, soup, error);
    if (status != CT_OK) return status;
    if (!ct_soup_split(soup, soup->wide, soup->n_vertices, options->scale != 0 ? options->scale : 1))
        return ct_fail(error, CT_OUT_OF_MEMORY, "bytes", "no memory for %zu vertices", soup->n_vertices);
    free(soup->wide);
    soup->wide = NULL;
    soup->digits.is_wide = false;
    options->scale = 0;
    return CT_OK;
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
    const int utf16 = ct_is_binary_stl(text, size) ? 0 : find_utf16(text, size);
    char *narrow = utf16 ? narrow_text(text, &size, utf16) : NULL;
    if (utf16 && !narrow) return ct_fail(error, CT_OUT_OF_MEMORY, "bytes", "no memory for text in UTF-16");
    ct_soup soup;
    ct_mesh_options rest = *options;
    ct_error cause = {0};
    status = read_file(narrow ? narrow : text, size, format, &rest, &soup, &cause);
    free(narrow);
    if (ct_is_cancelled()) /* whatever the reader says of the text, which ended there */
        status = ct_fail_cancelled(error);
    else
        ct_hand_on(error, &cause);
    if (status != CT_OK) {
        ct_soup_free(&soup);
        return status;
    }
    return ct_soup_finish(&soup, &rest, out, changes, error);
}
