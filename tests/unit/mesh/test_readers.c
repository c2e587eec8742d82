/* test_readers.c - every mesh format in its variants, and malformed files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/include/contact.h"
#include "tests/scenes/shapes.h"

/* ---- a growing buffer of bytes ---- */

typedef struct buffer {
    char *bytes;
    size_t size, capacity;
} buffer;

static void put(buffer *b, const void *bytes, size_t n) {
    if (b->size + n > b->capacity) {
        b->capacity = 2 * (b->size + n) + 256;
        b->bytes = realloc(b->bytes, b->capacity);
        assert_non_null(b->bytes);
    }
    memcpy(b->bytes + b->size, bytes, n);
    b->size += n;
}

__attribute__((format(printf, 2, 3))) static void print(buffer *b, const char *format, ...) {
    char line[4096];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof line);
    put(b, line, (size_t)n);
}

/* ---- reading ---- */

/* The bytes lie at the end of a heap block of their own, so that the address sanitizer sees any read past them. */
static ct_status read_bytes(const void *bytes, size_t size, ct_mesh_format format, ct_mesh **mesh, ct_error *error) {
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    if (size) memcpy(copy, bytes, size);
    ct_status status = ct_mesh_read(copy, size, format, NULL, mesh, error);
    free(copy);
    return status;
}

/* Frees the buffer. Reads it with its format told and found out. */
static ct_mesh *accept(buffer *b, ct_mesh_format format) {
    ct_error error = {0};
    ct_mesh *told, *found;
    if (read_bytes(b->bytes, b->size, format, &told, &error) != CT_OK)
        fail_msg("refused: %s\n%.300s", error.message, b->bytes);
    if (read_bytes(b->bytes, b->size, CT_FORMAT_AUTO, &found, &error) != CT_OK) fail_msg("auto: %s", error.message);
    ct_mesh_info a, c;
    ct_mesh_get_info(told, &a);
    ct_mesh_get_info(found, &c);
    assert_string_equal(a.hash, c.hash);
    ct_mesh_release(&found);
    free(b->bytes);
    memset(b, 0, sizeof *b);
    return told;
}

/* Bit for bit the shape, hash included. */
static void accept_same(buffer *b, ct_mesh_format format, const struct shape *shape) {
    ct_mesh *mesh = accept(b, format), *expected = shape_to_mesh(shape, NULL);
    ct_mesh_info a, c;
    ct_mesh_get_info(mesh, &a);
    ct_mesh_get_info(expected, &c);
    assert_int_equal(a.vertices, c.vertices);
    assert_int_equal(a.triangles, c.triangles);
    assert_memory_equal(ct_mesh_positions(mesh), ct_mesh_positions(expected), 12 * c.vertices);
    assert_memory_equal(ct_mesh_triangles(mesh), ct_mesh_triangles(expected), 12 * c.triangles);
    assert_string_equal(a.hash, c.hash);
    ct_mesh_release(&mesh);
    ct_mesh_release(&expected);
}

static void accept_cube(const char *text, ct_mesh_format format) {
    buffer b = {0};
    print(&b, "%s", text);
    ct_mesh *mesh = accept(&b, format);
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    assert_int_equal(info.vertices, 8);
    assert_int_equal(info.triangles, 12);
    assert_true(info.volume == 1 && info.area == 6);
    ct_mesh_release(&mesh);
}

static void refuse_bytes(const void *bytes, size_t size, ct_mesh_format format, ct_status status, const char *words) {
    ct_error error = {0};
    ct_mesh *mesh;
    ct_status got = read_bytes(bytes, size, format, &mesh, &error);
    assert_null(mesh);
    if (got != status || !strstr(error.message, words))
        fail_msg("expected %s \"...%s...\", got %s \"%s\"", ct_status_name(status), words, ct_status_name(got),
                 error.message);
}

static void refuse(const char *text, ct_mesh_format format, ct_status status, const char *words) {
    refuse_bytes(text, strlen(text), format, status, words);
}

/* ---- writing ---- */

static const float *corner(const struct shape *s, uint32_t t, int c) {
    return s->positions + 3 * (size_t)s->triangles[3 * t + (uint32_t)c];
}

static buffer write_obj(const struct shape *s, const char *eol) {
    buffer b = {0};
    for (uint32_t v = 0; v < s->n_vertices; v++)
        print(&b, "v %.9g %.9g %.9g%s", (double)s->positions[3 * v], (double)s->positions[3 * v + 1],
              (double)s->positions[3 * v + 2], eol);
    for (uint32_t t = 0; t < s->n_triangles; t++)
        print(&b, "f %u %u %u%s", s->triangles[3 * t] + 1, s->triangles[3 * t + 1] + 1, s->triangles[3 * t + 2] + 1,
              eol);
    return b;
}

static buffer write_off(const struct shape *s, const char *header) {
    buffer b = {0};
    print(&b, "%s%u %u 0\n", header, s->n_vertices, s->n_triangles);
    for (uint32_t v = 0; v < s->n_vertices; v++)
        print(&b, "%.9g %.9g %.9g\n", (double)s->positions[3 * v], (double)s->positions[3 * v + 1],
              (double)s->positions[3 * v + 2]);
    for (uint32_t t = 0; t < s->n_triangles; t++)
        print(&b, "3 %u %u %u\n", s->triangles[3 * t], s->triangles[3 * t + 1], s->triangles[3 * t + 2]);
    return b;
}

static void put_number(buffer *b, double x, const char *type, const char *encoding) {
    char bytes[8];
    size_t n = 4;
    if (!strcmp(encoding, "ascii")) {
        print(b, "%.17g ", x);
        return;
    }
    if (!strcmp(type, "double") || !strcmp(type, "float64")) {
        memcpy(bytes, &x, n = 8);
    } else if (!strcmp(type, "float") || !strcmp(type, "float32")) {
        float f = (float)x;
        memcpy(bytes, &f, 4);
    } else {
        int64_t i = (int64_t)x;
        n = strstr(type, "char") || strstr(type, "int8") ? 1 : strstr(type, "short") || strstr(type, "int16") ? 2 : 4;
        memcpy(bytes, &i, n);
    }
    for (size_t i = 0; i < n; i++) put(b, &bytes[strcmp(encoding, "binary_big_endian") ? i : n - 1 - i], 1);
}

/* With another element before, between and after, extra properties and lists everywhere. */
static buffer write_rich_ply(const struct shape *s, const char *encoding, const char *coordinate, const char *index,
                             const char *count) {
    buffer b = {0};
    print(
        &b,
        "ply\nformat %s 1.0\ncomment made by a test\nobj_info element vertex 9\nelement camera 2\nproperty list uchar "
        "short "
        "shape\nproperty double zoom\nelement face %u\nproperty uchar red\nproperty list %s %s vertex_index\nproperty "
        "list uint8 float32 texcoord\nelement nothing 4000000000\nelement vertex %u\nproperty %s y\nproperty int16 "
        "flags\nproperty %s z\nproperty %s x\nelement edge 3\nproperty int a\nend_header\n",
        encoding, s->n_triangles, count, index, s->n_vertices, coordinate, coordinate, coordinate);
    for (int i = 0; i < 2; i++) {
        put_number(&b, i, "uchar", encoding);
        if (i) put_number(&b, -300, "short", encoding);
        put_number(&b, 1.5, "double", encoding);
    }
    for (uint32_t t = 0; t < s->n_triangles; t++) {
        put_number(&b, 255, "uchar", encoding);
        put_number(&b, 3, count, encoding);
        for (int c = 0; c < 3; c++) put_number(&b, s->triangles[3 * t + (uint32_t)c], index, encoding);
        put_number(&b, t % 3, "uint8", encoding);
        for (uint32_t i = 0; i < t % 3; i++) put_number(&b, 0.5, "float32", encoding);
        if (!strcmp(encoding, "ascii")) print(&b, "\n");
    }
    for (uint32_t v = 0; v < s->n_vertices; v++) {
        const float *p = s->positions + 3 * v;
        put_number(&b, (double)p[1], coordinate, encoding);
        put_number(&b, -7, "int16", encoding);
        put_number(&b, (double)p[2], coordinate, encoding);
        put_number(&b, (double)p[0], coordinate, encoding);
        if (!strcmp(encoding, "ascii")) print(&b, "\n");
    }
    for (int i = 0; i < 3; i++) put_number(&b, i, "int", encoding);
    return b;
}

static buffer write_plain_ply(const struct shape *s) {
    buffer b = {0};
    print(&b,
          "ply\r\nformat binary_little_endian 1.0\r\nelement vertex %u\r\nproperty float x\r\nproperty float "
          "y\r\nproperty float "
          "z\r\nelement face %u\r\nproperty list uchar int vertex_indices\r\nend_header\r\n",
          s->n_vertices, s->n_triangles);
    put(&b, s->positions, 12 * (size_t)s->n_vertices);
    for (uint32_t t = 0; t < s->n_triangles; t++) {
        put(&b, "\3", 1);
        put(&b, s->triangles + 3 * t, 12);
    }
    return b;
}

static buffer write_binary_stl(const struct shape *s, const char *title) {
    char header[80] = {0}, zeros[12] = {0};
    memcpy(header, title, strlen(title));
    buffer b = {0};
    put(&b, header, 80);
    put(&b, &s->n_triangles, 4);
    for (uint32_t t = 0; t < s->n_triangles; t++) {
        put(&b, zeros, 12);
        for (int c = 0; c < 3; c++) put(&b, corner(s, t, c), 12);
        put(&b, zeros, 2);
    }
    return b;
}

static buffer write_text_stl(const struct shape *s) {
    buffer b = {0};
    print(&b, "solid a facet of vertex\n");
    for (uint32_t t = 0; t < s->n_triangles; t++) {
        print(&b, "  facet normal 0 0 nan\n    outer loop\n");
        for (int c = 0; c < 3; c++)
            print(&b, "      vertex %.9e %.9e %.9e\n", (double)corner(s, t, c)[0], (double)corner(s, t, c)[1],
                  (double)corner(s, t, c)[2]);
        print(&b, "    ENDLOOP\n  endfacet\n");
        if (t == 5) print(&b, "endsolid a\nsolid b\n");
    }
    print(&b, "endsolid facet\n");
    return b;
}

/* What welding makes of a shape: vertices in order of appearance. */
static struct shape by_appearance(const struct shape *s) {
    struct shape out = shape_copy(s);
    uint32_t *seen = calloc(s->n_vertices, sizeof *seen), n = 0;
    assert_non_null(seen);
    for (uint32_t i = 0; i < 3 * s->n_triangles; i++) {
        uint32_t v = s->triangles[i];
        if (!seen[v]) {
            memcpy(out.positions + 3 * n, s->positions + 3 * v, 12);
            seen[v] = ++n;
        }
        out.triangles[i] = seen[v] - 1;
    }
    out.n_vertices = n;
    free(seen);
    return out;
}

/* ---- tests ---- */

static void test_obj(void **state) {
    (void)state;
    static const char *const ends[] = {"\n", "\r\n", "\r", " \n\n", " # note\n"};
    struct shape blob = shape_blob(1, 2, 0.4, 1);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        buffer b = write_obj(&blob, ends[i]);
        accept_same(&b, CT_FORMAT_OBJ, &blob);
    }
    shape_free(&blob);
    /* Quads, all kinds of corners, colours, weights, continued lines, faces before their vertices, no last line end. */
    accept_cube(
        "# a cube\nmtllib x.mtl\nf 5//9 6//9 \\\n 7//9 8//9\no c\nv 0 0 0 1.0\nv 1 0 0 0.5 0.5 0.5\nv 1 1 0\nv 0 1 0\n"
        "v 0 \\\n0 1\nvn 0 0 1\nv 1 0 1\nv 1 1 1\nv 0 1 1\nvt 0 0\ns off\nusemtl red\\\nv 5 5 5\n"
        "f 4/1 3/1 2/1 1/1\nf 1 2 6 5\nf -7/1/1 -6/2/2 -2/3/3 -3/4/4\nf 3 4 8 7\ng f 1 1 1\nf 4 1 5 8",
        CT_FORMAT_OBJ);
    refuse("v 0 0\nf 1 1 1\n", CT_FORMAT_OBJ, CT_PARSE_ERROR,
           "line 1: expected a coordinate, found the end of the line");
    refuse("v 0 0 0\n\nv 1 0x5 0\n", CT_FORMAT_OBJ, CT_PARSE_ERROR, "line 3: expected a coordinate, found '0x5'");
    refuse("v 0 0 0\nf 1 0 1\n", CT_FORMAT_OBJ, CT_PARSE_ERROR, "line 2: expected a vertex number");
    refuse("v 0 0 0\nf 1 -2 1\n", CT_FORMAT_OBJ, CT_PARSE_ERROR, "found '-2'");
    refuse("v 0 0 0\nf 1 1\n", CT_FORMAT_OBJ, CT_INVALID_MESH, "triangle 0 names vertex 0 twice");
    refuse("v 0 0 0\nf\n", CT_FORMAT_OBJ, CT_PARSE_ERROR, "the vertex numbers of this face");
    refuse("v 0,5 0 0\n", CT_FORMAT_OBJ, CT_PARSE_ERROR, "a decimal comma?");
    refuse("v 0 0 0v 1 0 0", CT_FORMAT_OBJ, CT_PARSE_ERROR, "--data-binary");
    refuse("v 0 0 0\nf 1 99999999999999999999 1\n", CT_FORMAT_OBJ, CT_PARSE_ERROR, "line 2");
    refuse("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n", CT_FORMAT_OBJ, CT_INVALID_MESH, "triangle 0 names vertex 3");
    refuse("v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", CT_FORMAT_OBJ, CT_NON_FINITE, "vertex 0");
    refuse("o nothing\n", CT_FORMAT_OBJ, CT_PARSE_ERROR, "no vertex");
    refuse("v 0 0 0\n", CT_FORMAT_OBJ, CT_INVALID_MESH, "point cloud");
    refuse("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", CT_FORMAT_AUTO, CT_INVALID_MESH,
           "edge 0-1 at (0, 0, 0) has 1 face, expected 2 (and 2 more: 0-2, 1-2)");
}

static void test_off(void **state) {
    (void)state;
    struct shape blob = shape_blob(1, 2, 0.4, 1);
    static const char *const headers[] = {"OFF\n", "OFF ", "# first\n\n  OFF # with a note\n# and one more\n",
                                          "OFF\r\n"};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        buffer b = write_off(&blob, headers[i]);
        accept_same(&b, CT_FORMAT_OFF, &blob);
    }
    buffer b = write_off(&blob, "OFF ");
    for (size_t i = 0; i < b.size; i++)
        if (b.bytes[i] == '\n') b.bytes[i] = ' '; /* all on one line */
    accept_same(&b, CT_FORMAT_OFF, &blob);
    shape_free(&blob);
#define FACES "4 4 5 6 7 255 0 0\n4 3 2 1 0\n4 0 1 5 4 # side\n4 1 2 6 5\n4 2 3 7 6\n4 3 0 4 7"
    accept_cube("COFF\n8 6 12\n0 0 0 1 0 0 1\n1 0 0 1 0 0 1\n1 1 0 1 0 0 1\n0 1 0 1 0 0 1\n0 0 1 1 0 0 1\n1 0 1 1 0 0 "
                "1\n1 1 1 1 "
                "0 0 1\n0 1 1 1 0 0 1\n" FACES,
                CT_FORMAT_OFF);
    accept_cube("NOFF 8 6\n0 0 0 1 0 0\n1 0 0 1 0 0\n1 1 0 1 0 0\n0 1 0 1 0 0\n0 0 1 1 0 0\n1 0 1 1 0 0\n1 1 1 1 0 "
                "0\n0 1 1 1 0 "
                "0\n" FACES,
                CT_FORMAT_OFF);
    accept_cube("OFF\n8 6 0\n0 0 0 9 9 9 9\n1 0 0 9 9 9 9\n1 1 0 9 9 9 9\n0 1 0 9 9 9 9\n0 0 1 9 9 9 9\n1 0 1 9 9 9 "
                "9\n1 1 1 9 9 9 "
                "9\n0 1 1 9 9 9 9\n" FACES,
                CT_FORMAT_OFF);
    accept_cube("OFF\n8 6 0\n0 0 0 1 0 0\n1 1 0 0 1 0\n0 0 1 1 0 1\n1 1 1 0 1 1\n" FACES,
                CT_FORMAT_OFF); /* two a line */
    refuse("OFF\n4000000000 4000000000 0\n", CT_FORMAT_OFF, CT_PARSE_ERROR, "4000000000, but only");
    refuse("OFF\n99999999999999999999 1 0\n", CT_FORMAT_OFF, CT_PARSE_ERROR, "99999999999999999999, but only");
    refuse("OFF\n-3 0 0\n", CT_FORMAT_OFF, CT_PARSE_ERROR, "-3");
    refuse("OFF\n1 1 0\n0 0 0\n0 0 0\n", CT_FORMAT_OFF, CT_PARSE_ERROR, "face 0 has 0 corners");
    refuse("OFF\n1 1 0\n0 0 0\n2 0 0\n", CT_FORMAT_OFF, CT_INVALID_MESH, "names vertex 0 twice");
    refuse("OFF\n1 1 0\n0 0 0\n3 0 0\n", CT_FORMAT_OFF, CT_PARSE_ERROR, "found the end of the file");
    refuse("OFF\n1 1 0\n0 0 0\n3 0 0 -1\n", CT_FORMAT_OFF, CT_PARSE_ERROR, "vertex -1");
    refuse("OFF\n1 1 0\n0 zero 0\n3 0 0 0\n", CT_FORMAT_OFF, CT_PARSE_ERROR,
           "line 3: expected a coordinate, found 'zero'");
    refuse("OFF BINARY\n1 1 0\n", CT_FORMAT_OFF, CT_PARSE_ERROR, "binary OFF");
    refuse("4OFF\n1 1 0\n", CT_FORMAT_OFF, CT_PARSE_ERROR, "found '4OFF'");
    refuse("COFF 1 0 0 0 0 0 1 1 1 1", CT_FORMAT_OFF, CT_PARSE_ERROR, "one line");
    refuse("OFF", CT_FORMAT_OFF, CT_PARSE_ERROR, "end of the file");
}

static void test_ply(void **state) {
    (void)state;
    struct shape blob = shape_blob(1, 2, 0.4, 1);
    static const char *const encodings[] = {"ascii", "binary_little_endian", "binary_big_endian"};
    static const char *const types[][3] = {{"float", "int", "uchar"},      {"double", "uint", "int"},
                                           {"float32", "uint16", "uint8"}, {"float64", "short", "char"},
                                           {"float", "double", "uint32"},  {"double", "float", "int16"}};
    for (size_t e = 0; e < 3; e++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            buffer b = write_rich_ply(&blob, encodings[e], types[t][0], types[t][1], types[t][2]);
            accept_same(&b, CT_FORMAT_PLY, &blob);
        }
    buffer b = write_plain_ply(&blob);
    for (size_t cut = 0; cut < b.size; cut += cut < 400 ? 1 : 97) { /* every beginning of it is refused */
        ct_error error = {0};
        ct_mesh *mesh;
        assert_int_equal(read_bytes(b.bytes, cut, CT_FORMAT_PLY, &mesh, &error), CT_PARSE_ERROR);
    }
    accept_same(&b, CT_FORMAT_PLY, &blob);
    shape_free(&blob);

#define HEADER(nv, nf)                                                                                                 \
    "ply\nformat ascii 1.0\nelement vertex " nv                                                                        \
    "\nproperty float x\nproperty float y\nproperty float z\nelement face " nf                                         \
    "\nproperty list uchar int vertex_indices\nend_header\n"
    accept_cube(
        HEADER("8",
               "6") "0 0 0\n1 0 0\n1 1 0\n0 1 0\n0 0 1\n1 0 1\n1 1 1\n0 1 1\n4 4 5 6 7\n4 3 2 1 0\n4 0 1 5 4\n4 1 2 "
                    "6 5\n4 2 3 7 6\n4 3 0 4 7",
        CT_FORMAT_PLY);
    refuse(HEADER("4000000000", "1"), CT_FORMAT_PLY, CT_PARSE_ERROR,
           "4000000000 of element 'vertex', at least 6 bytes each, but only 0 bytes");
    refuse(HEADER("1", "4000000000") "0 0 0\n", CT_FORMAT_PLY, CT_PARSE_ERROR, "element 'face'");
    refuse(HEADER("99999999999999999999999", "1") "0 0 0\n", CT_FORMAT_PLY, CT_PARSE_ERROR, "of element 'vertex'");
    refuse(HEADER("-1", "1") "0 0 0\n", CT_FORMAT_PLY, CT_PARSE_ERROR, "-1");
    refuse(HEADER("1", "1") "0 0 0\n0 0 0 0\n", CT_FORMAT_PLY, CT_PARSE_ERROR, "face 0 has 0 corners");
    refuse(HEADER("1", "1") "0 0 0\n2 0 0\n", CT_FORMAT_PLY, CT_INVALID_MESH, "names vertex 0 twice");
    refuse("ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
           "0 0 0\n",
           CT_FORMAT_PLY, CT_PARSE_ERROR, "no element face: if the file is a point cloud");
    refuse(HEADER("1", "1") "0 0 0\n255 0 0 0\n", CT_FORMAT_PLY, CT_PARSE_ERROR, "list of 255 items");
    refuse(HEADER("1", "1") "0 0 0\n3 0 0 -5\n", CT_FORMAT_PLY, CT_PARSE_ERROR, "names vertex -5");
    refuse(HEADER("1", "1") "0 0 0\n3 0 0 0.5\n", CT_FORMAT_PLY, CT_PARSE_ERROR, "names vertex 0.5");
    refuse(HEADER("1", "1") "0 0 0\n3 0 0 nan\n", CT_FORMAT_PLY, CT_PARSE_ERROR, "names vertex nan");
    refuse(HEADER("1", "1") "0 0 0\n3 0 0 0", CT_FORMAT_PLY, CT_INVALID_MESH, "twice");
    refuse("ply\nformat ascii 2\nelement x\n", CT_FORMAT_PLY, CT_PARSE_ERROR, "line 3: expected an element's count");
    refuse("ply\nformat ebcdic 1.0\n", CT_FORMAT_PLY, CT_PARSE_ERROR, "found 'ebcdic'");
    refuse("ply\nproperty float x\n", CT_FORMAT_PLY, CT_PARSE_ERROR, "expected an element before");
    refuse("ply\nformat ascii 1.0\nelement vertex 1\nproperty half x\n", CT_FORMAT_PLY, CT_PARSE_ERROR, "found 'half'");
    refuse("ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty int x\n", CT_FORMAT_PLY, CT_PARSE_ERROR,
           "'x' is declared twice");
    refuse("ply\nformat ascii 1.0\nelement face 1\nproperty list float int vertex_index\n", CT_FORMAT_PLY,
           CT_PARSE_ERROR, "integer type");
    refuse("ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nend_header\n", CT_FORMAT_PLY,
           CT_PARSE_ERROR, "no property z");
    refuse("ply\nend_header\n", CT_FORMAT_PLY, CT_PARSE_ERROR, "no \"format\" line");
    refuse("ply\nformat ascii 1.0\n", CT_FORMAT_PLY, CT_PARSE_ERROR, "end of the file");
}

static void test_stl(void **state) {
    (void)state;
    struct shape blob = shape_blob(1, 2, 0.4, 1), welded = by_appearance(&blob);
    buffer b = write_binary_stl(&blob, "made by a test");
    accept_same(&b, CT_FORMAT_STL, &welded);
    b = write_binary_stl(&blob, "solid but binary");
    accept_same(&b, CT_FORMAT_STL, &welded);
    b = write_text_stl(&blob);
    accept_same(&b, CT_FORMAT_STL, &welded);
    shape_free(&blob);
    shape_free(&welded);

    /* -0 and 0 are one position; the next float is another. */
    struct shape cube = shape_tetrahedron(1);
    b = write_binary_stl(&cube, "");
    for (size_t i = 84 + 12; i + 4 <= b.size; i += 50)
        for (size_t k = 0; k < 36; k += 8) {
            float x;
            memcpy(&x, b.bytes + i + k, 4);
            if (x == 0) x = -0.0f;
            memcpy(b.bytes + i + k, &x, 4);
        }
    ct_mesh *mesh = accept(&b, CT_FORMAT_STL);
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    assert_int_equal(info.vertices, 4);
    for (int i = 0; i < 12; i++) assert_false(signbit(ct_mesh_positions(mesh)[i]));
    ct_mesh_release(&mesh);
    b = write_binary_stl(&cube, "");
    float next = nextafterf(0, 1);
    memcpy(b.bytes + 84 + 12, &next, 4);
    refuse_bytes(b.bytes, b.size, CT_FORMAT_AUTO, CT_INVALID_MESH, "has 1 face, expected 2");
    refuse_bytes(b.bytes, b.size - 1, CT_FORMAT_STL, CT_PARSE_ERROR,
                 "claims 4 triangles, which take 284 bytes, but the file has 283");
    refuse_bytes(b.bytes, b.size - 1, CT_FORMAT_AUTO, CT_PARSE_ERROR,
                 "it is truncated: by its header it has 284 bytes");
    uint32_t many = UINT32_MAX;
    memcpy(b.bytes + 80, &many, 4);
    refuse_bytes(b.bytes, b.size, CT_FORMAT_AUTO, CT_PARSE_ERROR, "(a binary STL has 84 bytes and 50 per triangle)");
    refuse_bytes(b.bytes, b.size, CT_FORMAT_STL, CT_PARSE_ERROR, "claims 4294967295 triangles");
    refuse_bytes(b.bytes, 83, CT_FORMAT_STL, CT_PARSE_ERROR, "83 bytes are neither");
    free(b.bytes);
    shape_free(&cube);
    refuse("# by hand\nsolid\nfacet normal 0 0 1 # up\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nendloop\n",
           CT_FORMAT_AUTO, CT_PARSE_ERROR, "line 7: expected \"vertex\", found 'endloop'");
    refuse("solid\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nendloop\n", CT_FORMAT_STL,
           CT_PARSE_ERROR, "line 6: expected \"vertex\", found 'endloop'");
    refuse("solid\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nvertex 1 1 0\n",
           CT_FORMAT_STL, CT_PARSE_ERROR, "\"endloop\" after three vertices");
    refuse("solid\nsquare\n", CT_FORMAT_STL, CT_PARSE_ERROR, "line 2: expected \"facet\"");
    refuse("solid x\nendsolid x\n", CT_FORMAT_STL, CT_INVALID_MESH, "empty");
    char empty[84] = {0};
    refuse_bytes(empty, 84, CT_FORMAT_AUTO, CT_INVALID_MESH, "empty");
}

#define CUBE_OBJ                                                                                                       \
    "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0 0 1\nv 1 0 1\nv 1 1 1\nv 0 1 1\nf 5 6 7 8\nf 4 3 2 1\nf 1 2 6 5\nf 2 3 "  \
    "7 6\n"                                                                                                            \
    "f 3 4 8 7\nf 4 1 5 8\n"
#define CUBE_VERTICES "0 0 0\n1 0 0\n1 1 0\n0 1 0\n0 0 1\n1 0 1\n1 1 1\n0 1 1\n"

static buffer spell_stl(const struct shape *s, const char *facet, const char *end_facet, const char *end) {
    buffer b = {0};
    print(&b, "solid a\n");
    for (uint32_t t = 0; t < s->n_triangles; t++) {
        print(&b, "%s", facet);
        for (int c = 0; c < 3; c++)
            print(&b, "vertex %.9g %.9g %.9gD+00 ", (double)corner(s, t, c)[0], (double)corner(s, t, c)[1],
                  (double)corner(s, t, c)[2]);
        print(&b, "%s", end_facet);
    }
    print(&b, "%s", end);
    return b;
}

/* What programs write that no definition of the formats has. */
static void test_dialects(void **state) {
    (void)state;
    static const char *const off[] = {"OFF8 6 0\n", "off\n8 6 0\n", "Off\n8 6\n", "COFF8 6 0\n"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s%s", off[i], CUBE_VERTICES, FACES);
        accept_cube(text, CT_FORMAT_OFF);
    }
    accept_cube("OFF\n8 6 0\n0 0 0 0 0 0\n1 0 0 9 9 9\n# note\n\n1 1 0 9 9 9\n0 1 0 9 9 9\n0 0 1 9 9 9\n1 0 1 9 9 9\n"
                "1 1 1 9 9 9\n0 1 1 9 9 9\n" FACES,
                CT_FORMAT_OFF); /* a colour of three numbers, on a line of its own each */

    struct shape box = shape_tetrahedron(1), welded = by_appearance(&box);
    static const char *const spellings[][3] = {
        {"facet normal 0 0 1\nouter loop\n", "\nend loop\nend facet\n", "end solid a\n"},
        {"facet normal 0 0 1 outer loop ", "endloop endfacet\n", "endsolid a\n"},
        {"facet normal 0 0 1 outer loop ", "endloop endfacet ", "endsolid"},
        {"facet\nouter loop\n", "\nendloop\nendfacet\n", "endsolid a\n\x1a"},
        {"facet normal -nan(ind) 1.#QNAN 1.#INF\r\nouter loop\r\n", "\r\nendloop\r\nendfacet\r\n", ""},
    };
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        buffer b = spell_stl(&box, spellings[i][0], spellings[i][1], spellings[i][2]);
        if (i % 2) put(&b, "\0\0\0", 3);
        accept_same(&b, CT_FORMAT_STL, &welded);
    }
    for (size_t extra = 1; extra < 200; extra += 66) {
        buffer b = write_binary_stl(&box, extra % 2 ? "" : "solid");
        for (size_t i = 0; i < extra; i++) put(&b, "x", 1);
        accept_same(&b, CT_FORMAT_STL, &welded);
    }
    shape_free(&box);
    shape_free(&welded);

    accept_cube(CUBE_OBJ "\x1a", CT_FORMAT_OBJ);
    accept_cube("maplib x\n" CUBE_OBJ, CT_FORMAT_OBJ); /* a keyword that tells nothing */
    for (int order = 0; order < 4; order++) {
        buffer b = {0};
        if (order >= 2) put(&b, order == 2 ? "\xff\xfe" : "\xfe\xff", 2);
        for (const char *text = CUBE_OBJ; *text; text++) {
            const char pair[2] = {order % 2 ? 0 : *text, order % 2 ? *text : 0};
            put(&b, pair, 2);
        }
        ct_mesh *mesh = accept(&b, CT_FORMAT_OBJ);
        ct_mesh_info info;
        ct_mesh_get_info(mesh, &info);
        assert_true(info.vertices == 8 && info.volume == 1);
        ct_mesh_release(&mesh);
    }

    static const char *const not_finite[] = {"1.#QNAN", "-1.#IND00", "1.#INF", "1.#SNAN0", "-nan(ind)", "nan(snan)"};
    for (size_t i = 0; i < sizeof not_finite / sizeof *not_finite; i++) {
        char text[128];
        snprintf(text, sizeof text, "v 0 0 0\nv 0 1 %s\nv 1 0 0\nf 1 2 3\n", not_finite[i]);
        refuse(text, CT_FORMAT_OBJ, CT_NON_FINITE, "vertex 1");
    }
    refuse("v 0 0 1.#WHAT\nf 1 1 1\n", CT_FORMAT_OBJ, CT_INVALID_MESH, "twice"); /* a comment behind a number */
}

/* Faces of fewer than three corners are dropped by a repair, and counted. */
static void test_faces_without_area(void **state) {
    (void)state;
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    options.repair = true;
    static const char *const files[] = {
        CUBE_OBJ "f 1 2\nf 3\n",
        "OFF\n8 8 0\n" CUBE_VERTICES FACES "\n2 0 1\n1 2",
        HEADER("8", "8") CUBE_VERTICES "2 0 1\n1 2\n4 4 5 6 7\n4 3 2 1 0\n4 0 1 5 4\n4 1 2 6 5\n4 2 3 7 6\n4 3 0 4 7",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        ct_mesh *mesh;
        ct_mesh_changes changes;
        ct_error error = {0};
        if (ct_mesh_read_with(files[i], strlen(files[i]), CT_FORMAT_AUTO, &options, &mesh, &changes, &error) != CT_OK)
            fail_msg("%s", error.message);
        ct_mesh_info info;
        ct_mesh_get_info(mesh, &info);
        assert_true(info.volume == 1 && info.triangles == 12);
        assert_int_equal(changes.of[CT_CHANGE_DEGENERATE].count, 2);
        ct_mesh_release(&mesh);
    }
}

static void test_what_is_no_mesh(void **state) {
    (void)state;
    refuse("", CT_FORMAT_AUTO, CT_PARSE_ERROR, "empty");
    refuse("hello\n", CT_FORMAT_AUTO, CT_PARSE_ERROR, "bytes is unknown");
    refuse("  \n\n", CT_FORMAT_AUTO, CT_PARSE_ERROR, "bytes is unknown");
    refuse("8 12\n0 0 0\n", CT_FORMAT_AUTO, CT_PARSE_ERROR, "begin with a number");
    static const char *const foreign[][2] = {
        {"BLENDER-v300", "in Blender, export"},
        {"ISO-10303-21;\nHEADER;", "STEP"},
        {"#usda 1.0\n", "USD"},
        {"PK\x03\x04", "zip"},
        {"\n<?xml version=\"1.0\"?>", "XML"},
        {"<?xml version=\"1.0\"?>\n<!-- a comment -->\n<COLLADA version=\"1.4.1\">", "COLLADA file (.dae)"},
        {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
        {"<!DOCTYPE html><html>", "HTML"},
        {"; FBX 7.4.0 project file\n", "FBX"},
    };
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        refuse(foreign[i][0], CT_FORMAT_AUTO, CT_PARSE_ERROR, foreign[i][1]);
    refuse("v 0 0 0\n", (ct_mesh_format)9, CT_INVALID_ARGUMENT, "format 9");
    accept_cube("\xef\xbb\xbfv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0 0 1\nv 1 0 1\nv 1 1 1\nv 0 1 1\nf 5 6 7 8\nf 4 3 "
                "2 1\nf 1 2 6 "
                "5\nf 2 3 7 6\nf 3 4 8 7\nf 4 1 5 8\n",
                CT_FORMAT_OBJ);
}

static void test_limits(void **state) {
    (void)state;
    struct shape torus = shape_torus(1, 0.3, 20, 20);
    const ct_mesh_limits few_vertices = {399, 10000}, few_triangles = {10000, 799}, enough = {400, 800};
    for (int format = CT_FORMAT_OBJ; format <= CT_FORMAT_STL; format++) {
        buffer b = format == CT_FORMAT_OBJ   ? write_obj(&torus, "\n")
                   : format == CT_FORMAT_OFF ? write_off(&torus, "OFF\n")
                   : format == CT_FORMAT_PLY ? write_plain_ply(&torus)
                                             : write_binary_stl(&torus, "");
        ct_mesh *mesh;
        ct_error error = {0};
        assert_int_equal(ct_mesh_read(b.bytes, b.size, (ct_mesh_format)format, &few_vertices, &mesh, &error),
                         CT_LIMIT_EXCEEDED);
        assert_string_equal(error.field, "positions");
        error = (ct_error){0};
        assert_int_equal(ct_mesh_read(b.bytes, b.size, (ct_mesh_format)format, &few_triangles, &mesh, &error),
                         CT_LIMIT_EXCEEDED);
        assert_string_equal(error.field, "triangles");
        assert_int_equal(ct_mesh_read(b.bytes, b.size, (ct_mesh_format)format, &enough, &mesh, NULL), CT_OK);
        ct_mesh_release(&mesh);
        free(b.bytes);
    }
    shape_free(&torus);
}

/* Files with bytes changed at random: any answer will do, as long as there is one (the sanitizers watch). */
static void test_damaged(void **state) {
    (void)state;
    uint64_t rng = 99;
    struct shape ball = shape_icosphere(1, 1);
    size_t accepted = 0, refused = 0;
    for (int kind = 0; kind < 6; kind++) {
        buffer b = kind == 0   ? write_obj(&ball, "\n")
                   : kind == 1 ? write_off(&ball, "OFF\n")
                   : kind == 2 ? write_rich_ply(&ball, "ascii", "float", "int", "uchar")
                   : kind == 3 ? write_rich_ply(&ball, "binary_big_endian", "double", "short", "int")
                   : kind == 4 ? write_binary_stl(&ball, "")
                               : write_text_stl(&ball);
        char *copy = malloc(b.size);
        assert_non_null(copy);
        for (int round = 0; round < 2000; round++) {
            memcpy(copy, b.bytes, b.size);
            size_t span = round % 2 ? b.size : b.size < 300 ? b.size : 300; /* half of the time in the header */
            for (uint64_t n = shape_random(&rng) % 4 + 1; n > 0; n--)
                copy[shape_random(&rng) % span] = (char)shape_random(&rng);
            size_t size = round % 5 ? b.size : shape_random(&rng) % b.size;
            ct_mesh *mesh;
            ct_error error = {0};
            ct_status status = read_bytes(copy, size, CT_FORMAT_AUTO, &mesh, &error);
            assert_true((status == CT_OK) == (mesh != NULL));
            assert_true(status == error.status);
            if (mesh)
                accepted++;
            else
                refused++;
            ct_mesh_release(&mesh);
        }
        free(copy);
        free(b.bytes);
    }
    shape_free(&ball);
    assert_true(accepted > 100 && refused > 1000);
}

/* ---- double precision ---- */

static ct_mesh *accept_text(const char *text) {
    buffer b = {NULL, 0, 0};
    print(&b, "%s", text);
    return accept(&b, CT_FORMAT_OBJ);
}

/* A box of 1 m, turned by 30 degrees, with its middle at `at`. The numbers are printed by the format. */
static ct_mesh *accept_box(ct_mesh_format format, const char *number, const double at[3], double expected[8][3]) {
    struct shape box = shape_box(1, 1, 1);
    buffer b = {NULL, 0, 0};
    double p[8][3];
    char text[8][3][400];
    for (int v = 0; v < 8; v++) {
        const float *q = box.positions + 3 * v;
        const double c = sqrt(0.75);
        p[v][0] = at[0] + c * (double)q[0] - 0.5 * (double)q[1];
        p[v][1] = at[1] + 0.5 * (double)q[0] + c * (double)q[1];
        p[v][2] = at[2] + (double)q[2];
        for (int k = 0; k < 3; k++) {
            snprintf(text[v][k], sizeof text[v][k], number, p[v][k]);
            expected[v][k] = strtod(text[v][k], NULL);
        }
    }
    const bool is_binary = format == CT_FORMAT_PLY && !strcmp(number, "%.17g");
    if (format == CT_FORMAT_OFF) print(&b, "OFF\n8 %u 0\n", box.n_triangles);
    if (format == CT_FORMAT_STL) print(&b, "solid box\n");
    if (format == CT_FORMAT_PLY)
        print(&b,
              "ply\nformat %s 1.0\nelement vertex 8\nproperty double x\nproperty double y\nproperty double z\n"
              "element face %u\nproperty list uchar int vertex_indices\nend_header\n",
              is_binary ? "binary_little_endian" : "ascii", box.n_triangles);
    for (int v = 0; v < 8 && format != CT_FORMAT_STL; v++) {
        if (is_binary)
            put(&b, expected[v], sizeof expected[v]);
        else
            print(&b, "%s%s %s %s\n", format == CT_FORMAT_OBJ ? "v " : "", text[v][0], text[v][1], text[v][2]);
    }
    for (uint32_t t = 0; t < box.n_triangles; t++) {
        const uint32_t *c = box.triangles + 3 * t;
        if (format == CT_FORMAT_OBJ) print(&b, "f %u %u %u\n", c[0] + 1, c[1] + 1, c[2] + 1);
        if (is_binary) put(&b, "\3", 1), put(&b, c, 12);
        if (format == CT_FORMAT_OFF || (format == CT_FORMAT_PLY && !is_binary))
            print(&b, "3 %u %u %u\n", c[0], c[1], c[2]);
        if (format != CT_FORMAT_STL) continue;
        print(&b, "facet normal 0 0 0\nouter loop\n");
        for (int k = 0; k < 3; k++) print(&b, "vertex %s %s %s\n", text[c[k]][0], text[c[k]][1], text[c[k]][2]);
        print(&b, "endloop\nendfacet\n");
    }
    if (format == CT_FORMAT_STL) print(&b, "endsolid\n");
    shape_free(&box);
    return accept(&b, format);
}

static void test_far_away(void **state) {
    (void)state;
    static const ct_mesh_format formats[] = {CT_FORMAT_OBJ, CT_FORMAT_OFF, CT_FORMAT_PLY, CT_FORMAT_STL};
    static const double utm[3] = {448262.237, 5411932.678, 113.4};
    for (int f = 0; f < 4; f++)
        for (int digits = 0; digits < 3; digits++) {
            static const char *const NUMBERS[3] = {"%.6f", "%.16e", "%.17g"};
            double expected[8][3], positions[8][3];
            ct_mesh *mesh = accept_box(formats[f], NUMBERS[digits], utm, expected);
            ct_mesh_info info;
            ct_mesh_get_info(mesh, &info);
            assert_int_equal(info.dtype, CT_F64);
            assert_int_equal(info.vertices, 8);
            assert_true(fabs(info.volume - 1) < 3e-6);
            ct_mesh_positions_f64(mesh, &positions[0][0]);
            for (int v = 0; v < 8; v++) { /* STL has them in another order */
                double nearest = INFINITY;
                for (int w = 0; w < 8; w++) {
                    double off = 0;
                    for (int k = 0; k < 3; k++) off = fmax(off, fabs(positions[v][k] - expected[w][k]));
                    nearest = fmin(nearest, off);
                }
                assert_true(nearest <= 0x1p-47); /* 48 bits beside an origin half a metre away, and a double's own */
            }
            ct_mesh_release(&mesh);
        }
}

/* What float32 holds within its digits, and what is near the origin and of few digits, is float32 as ever. */
static void test_which_are_doubles(void **state) {
    (void)state;
    static const struct {
        const char *x;
        bool is_double;
    } cases[] = {
        {"0.1", false},          {"0.123456789", false},         {"0.1234567891", true},
        {"0.1000000000", false}, {"0.10000000149011612", false}, {"1234.56789", false},
        {"1234.567891", true},   {"0.30000001192092896", false}, {"1.23456789e2", false},
        {"1e-30", false},        {"123456789.0000000", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buffer b = {NULL, 0, 0};
        print(&b, "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 %s\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n", cases[i].x);
        ct_mesh *mesh = accept(&b, CT_FORMAT_OBJ);
        ct_mesh_info info;
        double positions[4][3];
        ct_mesh_get_info(mesh, &info);
        ct_mesh_positions_f64(mesh, &positions[0][0]);
        if (info.dtype != (cases[i].is_double ? CT_F64 : CT_F32)) fail_msg("%s is %d", cases[i].x, info.dtype);
        const double x = strtod(cases[i].x, NULL);
        if (cases[i].is_double)
            assert_true(fabs(positions[3][2] - x) <= 0x1p-48 * x);
        else
            assert_true(positions[3][2] == (double)strtof(cases[i].x, NULL));
        ct_mesh_release(&mesh);
    }
    ct_mesh *mesh = accept_text("v 448262.2 5411932 113\nv 448263.2 5411932 113\nv 448262.2 5411933 113\n"
                                "v 448262.2 5411932 114\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n");
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    assert_int_equal(info.dtype, CT_F32); /* float32 is 1/64 m off at most, less than the last digit */
    ct_mesh_release(&mesh);
    mesh = accept_text("v 448262.24 5411932 113\nv 448263.24 5411932 113\nv 448262.24 5411933 113\n"
                       "v 448262.24 5411932 114\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n");
    ct_mesh_get_info(mesh, &info);
    assert_int_equal(info.dtype, CT_F64);
    assert_true(fabs(info.volume - 1.0 / 6) < 1e-9);
    ct_mesh_release(&mesh);
}

/* Scaled before they are rounded; and numbers that are none are refused by name. */
static void test_doubles_with_options(void **state) {
    (void)state;
    static const char text[] = "v 448262237.1 5411932678 0\nv 448263237.1 5411932678 0\nv 448262237.1 5411933678 0\n"
                               "v 448262237.1 5411932678 1000\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n";
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    options.scale = 1e-3;
    ct_mesh *mesh;
    ct_error error = {0};
    assert_int_equal(ct_mesh_read_with(text, sizeof text - 1, CT_FORMAT_AUTO, &options, &mesh, NULL, &error), CT_OK);
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    assert_int_equal(info.dtype, CT_F64);
    assert_true(fabs(info.volume - 1.0 / 6) < 1e-7 && fabs(info.lo[0] - 448262.2371) < 1e-7);
    ct_mesh_release(&mesh);
    refuse("v 0.12345678912345 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1.#IND\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n",
           CT_FORMAT_OBJ, CT_NON_FINITE, "vertex 3");
    refuse("v 0.12345678912345 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 x\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n", CT_FORMAT_OBJ,
           CT_PARSE_ERROR, "line 4: expected a coordinate");
    refuse("v 0.12345678912345 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 4e38\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n", CT_FORMAT_OBJ,
           CT_NON_FINITE, "vertex 3");
}

/* The first failure is kept, also by calls that fail for the same reason, and by those that read a file twice. */
static void test_first_failure_is_kept(void **state) {
    (void)state;
    static const char turned[] = "OFF\n4 4 6\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 3 1\n3 0 2 3\n3 1 3 2\n",
                      far[] = "OFF\n4 4 6\n500000.12345 4000000 0\n500001.12345 4000000 0\n500000.12345 4000001 0\n"
                              "500000.12345 4000000 1.0625\n3 0 2 1\n3 0 1 3\n3 0 3 2\n3 1 2 3\n";
    ct_mesh *mesh;
    ct_mesh_info info;
    ct_error error = {0};
    assert_int_equal(ct_mesh_read(turned, sizeof turned - 1, CT_FORMAT_AUTO, NULL, &mesh, &error), CT_INVALID_MESH);
    const ct_error first = error;
    assert_int_equal(ct_mesh_read(turned, sizeof turned - 1, CT_FORMAT_AUTO, NULL, &mesh, &error), CT_INVALID_MESH);
    assert_memory_equal(&error, &first, sizeof error);
    assert_int_equal(ct_mesh_read(far, sizeof far - 1, CT_FORMAT_AUTO, NULL, &mesh, &error), CT_OK);
    assert_memory_equal(&error, &first, sizeof error);
    ct_mesh_get_info(mesh, &info);
    assert_int_equal(info.dtype, CT_F64); /* so it was read twice */
    ct_mesh_release(&mesh);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_failure_is_kept),
        cmocka_unit_test(test_obj),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_ply),
        cmocka_unit_test(test_stl),
        cmocka_unit_test(test_dialects),
        cmocka_unit_test(test_faces_without_area),
        cmocka_unit_test(test_what_is_no_mesh),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_far_away),
        cmocka_unit_test(test_which_are_doubles),
        cmocka_unit_test(test_doubles_with_options),
    };
    return cmocka_run_group_tests_name("readers", tests, NULL, NULL);
}
