/* test_gltf.c - glTF, text and binary: nodes, kinds of primitives and of numbers, what is refused, and damaged files. */
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

/* ---- files ---- */

typedef struct file {
    char *bytes;
    size_t size, capacity;
} file;

static void put(file *f, const void *bytes, size_t n) {
    if (f->size + n + 1 > f->capacity) {
        f->capacity = 2 * (f->size + n + 1);
        f->bytes = realloc(f->bytes, f->capacity);
        assert_non_null(f->bytes);
    }
    if (n) memcpy(f->bytes + f->size, bytes, n);
    f->size += n;
    f->bytes[f->size] = 0;
}

__attribute__((format(printf, 2, 3))) static void print(file *f, const char *format, ...) {
    char text[4096];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof text);
    put(f, text, (size_t)n);
}

static void put_u32(file *f, uint32_t value) {
    put(f, &value, 4);
}

static file make_glb(const char *json, const void *binary, size_t size) {
    file f = {NULL, 0, 0};
    const size_t n = strlen(json), padded = (n + 3) / 4 * 4;
    put(&f, "glTF", 4), put_u32(&f, 2), put_u32(&f, (uint32_t)(12 + 8 + padded + (size ? 8 + size : 0)));
    put_u32(&f, (uint32_t)padded), put(&f, "JSON", 4);
    put(&f, json, n), put(&f, "   ", padded - n);
    if (!size) return f;
    put_u32(&f, (uint32_t)size), put(&f, "BIN\0", 4);
    put(&f, binary, size);
    return f;
}

/* As data of a URI. */
static char *encode(const void *bytes, size_t n) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *b = bytes;
    char *text = malloc(n / 3 * 4 + 5), *to = text;
    assert_non_null(text);
    for (size_t i = 0; i < n; i += 3) {
        const size_t left = n - i;
        const uint32_t bits =
            (uint32_t)b[i] << 16 | (left > 1 ? (uint32_t)b[i + 1] << 8 : 0) | (left > 2 ? b[i + 2] : 0);
        *to++ = letters[bits >> 18];
        *to++ = letters[bits >> 12 & 63];
        *to++ = left > 1 ? letters[bits >> 6 & 63] : '=';
        *to++ = left > 2 ? letters[bits & 63] : '=';
    }
    *to = 0;
    return text;
}

/* The bytes lie at the end of a heap block of their own, so that the address sanitizer sees any read past them. */
static ct_status read_bytes(const char *bytes, size_t size, ct_mesh **mesh, ct_error *error) {
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    if (size) memcpy(copy, bytes, size);
    const ct_status status = ct_mesh_read(copy, size, CT_FORMAT_AUTO, NULL, mesh, error);
    free(copy);
    return status;
}

static ct_mesh_info accept(file f) {
    ct_mesh *mesh;
    ct_error error = {0};
    ct_mesh_info info;
    if (read_bytes(f.bytes, f.size, &mesh, &error) != CT_OK) fail_msg("refused: %s", error.message);
    ct_mesh_get_info(mesh, &info);
    ct_mesh_release(&mesh);
    free(f.bytes);
    return info;
}

static void refuse(file f, ct_status expected, const char *words) {
    ct_mesh *mesh;
    ct_error error = {0};
    const ct_status status = read_bytes(f.bytes, f.size, &mesh, &error);
    if (status != expected || !strstr(error.message, words))
        fail_msg("expected %d with \"%s\", got %d: %s", expected, words, status, error.message);
    ct_mesh_release(&mesh);
    free(f.bytes);
}

/* ---- a box in many ways ---- */

/* [36][3] corners, a vertex for each corner of each triangle, then [36] indices of 16 bits, then the box's own. */
enum { CORNERS = 36 * 12, INDICES = 72, SHARED = 8 * 12, SHARED_INDICES = 36 };

typedef struct box_bytes {
    float corners[36][3];
    uint16_t indices[36];
    float shared[8][3];
    uint8_t shared_indices[36];
} box_bytes;

static void make_box(box_bytes *b) {
    struct shape box = shape_box(1, 2, 3);
    memset(b, 0, sizeof *b);
    memcpy(b->shared, box.positions, sizeof b->shared);
    for (int i = 0; i < 36; i++) {
        memcpy(b->corners[i], box.positions + 3 * (size_t)box.triangles[i], 12);
        b->indices[i] = (uint16_t)i;
        b->shared_indices[i] = (uint8_t)box.triangles[i];
    }
    shape_free(&box);
}

#define VIEWS                                                                                                          \
    "\"bufferViews\":[{\"buffer\":0,\"byteLength\":432},{\"buffer\":0,\"byteOffset\":432,\"byteLength\":72},"          \
    "{\"buffer\":0,\"byteOffset\":504,\"byteLength\":96},{\"buffer\":0,\"byteOffset\":600,\"byteLength\":36}],"        \
    "\"accessors\":[{\"bufferView\":0,\"componentType\":5126,\"count\":36,\"type\":\"VEC3\"},"                         \
    "{\"bufferView\":1,\"componentType\":5123,\"count\":36,\"type\":\"SCALAR\"},"                                      \
    "{\"bufferView\":2,\"componentType\":5126,\"count\":8,\"type\":\"VEC3\"},"                                         \
    "{\"bufferView\":3,\"componentType\":5121,\"count\":36,\"type\":\"SCALAR\"}]"
#define HEAD  "{\"asset\":{\"version\":\"2.0\"},\"buffers\":[{\"byteLength\":636}]," VIEWS
#define SPLIT "\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":0},\"indices\":1}]}]"

static file box_glb(const char *rest) {
    box_bytes b;
    char json[4096];
    make_box(&b);
    snprintf(json, sizeof json, HEAD ",%s}", rest);
    return make_glb(json, &b, 636);
}

static void check_box(ct_mesh_info info, double volume, double lo_x, double hi_x) {
    assert_true(fabs(info.volume - volume) < 1e-5 * volume);
    assert_true(fabs(info.lo[0] - lo_x) < 1e-6 && fabs(info.hi[0] - hi_x) < 1e-6);
}

/* What the clients get is the same whichever way a file says it. */
static void test_ways(void **state) {
    (void)state;
    static const char *const same[] = {
        SPLIT ",\"nodes\":[{\"mesh\":0}],\"scenes\":[{\"nodes\":[0]}],\"scene\":0",
        SPLIT ",\"nodes\":[{\"mesh\":0}]", /* no scene */
        SPLIT,                             /* no nodes */
        "\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":0}}]}]",
        "\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":0},\"mode\":4},{\"attributes\":{\"POSITION\":0},"
        "\"mode\":1}]}]", /* lines beside it */
        "\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":2},\"indices\":3}]}]",
        SPLIT ",\"nodes\":[{\"camera\":0,\"children\":[1]},{\"mesh\":0}],\"scenes\":[{\"nodes\":[]},{\"nodes\":[0]}],"
              "\"scene\":1",
    };
    ct_mesh_info first = accept(box_glb(same[0]));
    check_box(first, 6, -0.5, 0.5);
    assert_int_equal(first.vertices, 8);
    assert_int_equal(first.dtype, CT_F32);
    for (size_t i = 1; i < sizeof same / sizeof *same; i++)
        assert_string_equal(accept(box_glb(same[i])).hash, first.hash);

    box_bytes b;
    make_box(&b);
    char *text = encode(&b, 636);
    for (int i = 0; i < 2; i++) { /* as text, with white space before it or not */
        file f = {NULL, 0, 0};
        print(&f,
              "%s{\"asset\":{\"version\":\"2.0\"},\"buffers\":[{\"byteLength\":636,\"uri\":\"data:%s;base64,%s\"}],",
              i ? "\r\n " : "", i ? "application/gltf-buffer" : "application/octet-stream", text);
        print(&f, VIEWS "," SPLIT "}");
        assert_string_equal(accept(f).hash, first.hash);
    }
    free(text);
}

static void test_nodes(void **state) {
    (void)state;
    /* Turned by 90 degrees about z, made twice as large, then moved: x is from 2 * -1 to 2 * 1, moved by 10. */
    check_box(accept(box_glb(SPLIT ",\"nodes\":[{\"translation\":[10,0,0],\"children\":[1]},{\"mesh\":0,\"rotation\":["
                                   "0,0,0.70710678118654752,0.70710678118654752],\"scale\":[2,2,2]}]")),
              48, 8, 12);
    /* A matrix is kept by columns. */
    check_box(accept(box_glb(SPLIT ",\"nodes\":[{\"mesh\":0,\"matrix\":[0,1,0,0,-1,0,0,0,0,0,1,0,7,0,0,1]}]")), 6, 6,
              8);
    /* A mirror turns triangles, and the volume stays. */
    check_box(accept(box_glb(SPLIT ",\"nodes\":[{\"mesh\":0,\"scale\":[-1,1,1],\"translation\":[3,0,0]}]")), 6, 2.5,
              3.5);
    /* One mesh in several places is that many parts. */
    ct_mesh_info two = accept(
        box_glb(SPLIT ",\"nodes\":[{\"mesh\":0},{\"mesh\":0,\"translation\":[5,0,0]}],\"scenes\":[{\"nodes\":[0,1]}]"));
    check_box(two, 12, -0.5, 5.5);
    assert_int_equal(two.shells, 2);
    /* What is in no scene is not read. */
    check_box(accept(box_glb(SPLIT ",\"nodes\":[{\"mesh\":0},{\"mesh\":9}],\"scenes\":[{\"nodes\":[0]}]")), 6, -0.5,
              0.5);
    /* As far away as maps are, it keeps its shape. */
    ct_mesh_info far = accept(box_glb(
        SPLIT ",\"nodes\":[{\"mesh\":0,\"translation\":[448262.237,5411932.678,113.4],\"rotation\":[0,0,0.6,0.8]}]"));
    assert_int_equal(far.dtype, CT_F64);
    assert_true(fabs(far.volume - 6) < 2e-5);
}

/* Strips, fans, rows with other data between, and integers for positions. */
static void test_kinds_of_numbers(void **state) {
    (void)state;
    /* A tetrahedron as a strip, closed on itself, of points 20 bytes apart. */
    float rows[6][5];
    static const float corner[4][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    static const int strip[6] = {0, 2, 1, 3, 0, 2}, fan[5] = {0, 2, 1, 3, 2};
    static const char form[] =
        "{\"asset\":{\"version\":\"2.0\"},\"buffers\":[{\"byteLength\":%zu}],\"bufferViews\":[{\"buffer\":0,"
        "\"byteLength\":%zu,\"byteStride\":%d}],\"accessors\":[{\"bufferView\":0,\"byteOffset\":%d,"
        "\"componentType\":%d,\"normalized\":%s,\"count\":%d,\"type\":\"VEC3\"}],\"meshes\":[{\"primitives\":[{"
        "\"attributes\":{\"POSITION\":0},\"mode\":%d}]}]}";
    char json[2048];
    memset(rows, 0x7f, sizeof rows);
    for (int i = 0; i < 6; i++) memcpy(rows[i] + 1, corner[strip[i]], 12);
    snprintf(json, sizeof json, form, sizeof rows, sizeof rows, 20, 4, 5126, "false", 6, 5);
    assert_true(fabs(accept(make_glb(json, rows, sizeof rows)).volume - 1.0 / 6) < 1e-7);

    /* Three sides about one corner, with the fourth as a fan of its own. */
    float sides[8][3];
    for (int i = 0; i < 5; i++) memcpy(sides[i], corner[fan[i]], 12);
    static const int base[3] = {1, 2, 3};
    for (int i = 0; i < 3; i++) memcpy(sides[5 + i], corner[base[i]], 12);
    snprintf(json, sizeof json,
             "{\"asset\":{\"version\":\"2.0\"},\"buffers\":[{\"byteLength\":96}],\"bufferViews\":[{\"buffer\":0,"
             "\"byteLength\":96}],"
             "\"accessors\":[{\"bufferView\":0,\"componentType\":5126,\"count\":5,\"type\":\"VEC3\"},{\"bufferView\":0,"
             "\"byteOffset\":60,"
             "\"componentType\":5126,\"count\":3,\"type\":\"VEC3\"}],\"meshes\":[{\"primitives\":[{\"attributes\":{"
             "\"POSITION\":0},"
             "\"mode\":6},{\"attributes\":{\"POSITION\":1},\"mode\":6}]}]}");
    assert_true(fabs(accept(make_glb(json, sides, sizeof sides)).volume - 1.0 / 6) < 1e-7);

    static const int order[12] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3};
    int8_t bytes[12][4];
    uint16_t words[12][3];
    for (int i = 0; i < 12; i++)
        for (int k = 0; k < 3; k++) {
            bytes[i][k] = corner[order[i]][k] > 0 ? 127 : -128; /* -1 to 1 */
            words[i][k] = corner[order[i]][k] > 0 ? 3 : 0;
        }
    snprintf(json, sizeof json, form, sizeof bytes, sizeof bytes, 4, 0, 5120, "true", 12, 4);
    assert_true(fabs(accept(make_glb(json, bytes, sizeof bytes)).volume - 8.0 / 6) < 1e-6);
    snprintf(json, sizeof json, form, sizeof words, sizeof words, 6, 0, 5123, "false", 12, 4);
    assert_true(fabs(accept(make_glb(json, words, sizeof words)).volume - 27.0 / 6) < 1e-6);
}

/* ---- what is refused ---- */

static file text_file(const char *text) {
    file f = {NULL, 0, 0};
    put(&f, text, strlen(text));
    return f;
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *rest, *words;
    } cases[] = {
        {SPLIT ",\"nodes\":[{\"mesh\":1}]", "meshes[1]"},
        {SPLIT ",\"nodes\":[{\"mesh\":0,\"skin\":0}]", "with the pose applied"},
        {SPLIT ",\"nodes\":[{\"mesh\":0,\"weights\":[0,1]}]", "with the shape applied"},
        {SPLIT ",\"nodes\":[{\"mesh\":0,\"extensions\":{\"EXT_mesh_gpu_instancing\":{}}}]", "copies as nodes"},
        {SPLIT ",\"nodes\":[{\"children\":[1]},{\"children\":[0]}],\"scenes\":[{\"nodes\":[0]}]", "child of itself"},
        {SPLIT ",\"nodes\":[{\"mesh\":0,\"rotation\":[0,0,0,0]}]", "rotation without length"},
        {SPLIT ",\"nodes\":[{\"mesh\":0,\"matrix\":[1,0,0]}]", "16 numbers"},
        {SPLIT ",\"nodes\":[{\"mesh\":0,\"matrix\":[1,0,0,1,0,1,0,0,0,0,1,0,0,0,0,1]}]", "last row"},
        {SPLIT ",\"nodes\":[{\"mesh\":0,\"scale\":[1,2]}]", "nodes[0].scale"},
        {SPLIT ",\"nodes\":[{\"mesh\":0}],\"scenes\":[{\"nodes\":[3]}]", "nodes[3]"},
        {SPLIT ",\"nodes\":[{\"mesh\":0}],\"scenes\":[{\"nodes\":[0,0]}]", "twice"},
        {SPLIT ",\"extensionsRequired\":[\"KHR_draco_mesh_compression\"]", "save it without compression"},
        {"\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":1}}]}]", "not of type VEC3"},
        {"\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":0},\"indices\":-1}]}]", "no whole number"},
        {"\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":2},\"indices\":1}]}]", "names vertex 8"},
        {"\"meshes\":[{\"primitives\":[{\"attributes\":{}}]}]", "without attributes.POSITION"},
        {"\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":0},\"mode\":7}]}]", "unknown mode"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse(box_glb(cases[i].rest), CT_PARSE_ERROR, cases[i].words);
    refuse(box_glb("\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":0},\"mode\":0}]}]"), CT_INVALID_MESH,
           "no triangle");
    refuse(text_file("{\"asset\":{\"version\":\"2.0\"},\"buffers\":[{\"byteLength\":9,\"uri\":\"box.bin\"}]," VIEWS
                     "," SPLIT "}"),
           CT_PARSE_ERROR, "another file (\"box.bin\")");
    refuse(
        text_file("{\"asset\":{\"version\":\"2.0\"},\"buffers\":[{\"byteLength\":9,\"uri\":\"data:x;base64,!\"}]," VIEWS
                  "," SPLIT "}"),
        CT_PARSE_ERROR, "no base64");
    refuse(text_file(
               "{\"asset\":{\"version\":\"2.0\"},\"buffers\":[{\"byteLength\":9,\"uri\":\"data:x;base64,AAAA\"}]," VIEWS
               "," SPLIT "}"),
           CT_PARSE_ERROR, "truncated");
    refuse(text_file("{\"vertices\":[]}"), CT_PARSE_ERROR, "asset.version");
    refuse(text_file("{\"asset\":{\"version\":\"2.0\"},\"buffers\":[{\"byteLength\":9}]," VIEWS "," SPLIT "}"),
           CT_PARSE_ERROR, "save it with plain buffers");
    refuse(text_file("{\"asset\":{\"version\":\"1.0\"}}"), CT_PARSE_ERROR, "save it as 2.0");
    refuse(text_file("{\"asset\": x}"), CT_PARSE_ERROR, "line 1, column");
    file one = box_glb(SPLIT);
    one.bytes[4] = 1;
    refuse(one, CT_PARSE_ERROR, "glTF 2.0");
    file half = box_glb(SPLIT);
    half.size /= 2;
    refuse(half, CT_PARSE_ERROR, "truncated");
}

/* Small files that claim much: neither time nor memory follows what they claim. */
static void test_hostile(void **state) {
    (void)state;
    file f = {NULL, 0, 0};
    put(&f, "{\"asset\":[", 10);
    for (int i = 0; i < 1 << 20; i++) put(&f, "{},", 3);
    refuse(f, CT_LIMIT_EXCEEDED, "more than 1048576 values");
    file deep = {NULL, 0, 0};
    for (int i = 0; i < 100000; i++) put(&deep, "{\"a\":", 5);
    refuse(deep, CT_PARSE_ERROR, "broken");

    /* 40,000 places of one box: 1,440,000 corners of a file of 1 MB. */
    file many = {NULL, 0, 0};
    print(&many, HEAD "," SPLIT ",\"nodes\":[");
    for (int i = 0; i < 40000; i++) print(&many, "%s{\"mesh\":0}", i ? "," : "");
    print(&many, "]}");
    box_bytes b;
    make_box(&b);
    file glb = make_glb(many.bytes, &b, 636);
    refuse(glb, CT_LIMIT_EXCEEDED, "register the mesh once");
    free(many.bytes);

    refuse(make_glb("{\"asset\":{\"version\":\"2.0\"},\"buffers\":[{\"byteLength\":16}],\"bufferViews\":[{\"buffer\":0,"
                    "\"byteOffset\":8,"
                    "\"byteLength\":9007199254740992}],\"accessors\":[{\"bufferView\":0,\"componentType\":5126,"
                    "\"count\":9007199254740992,"
                    "\"type\":\"VEC3\"}],\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":0}}]}]}",
                    &b, 16),
           CT_PARSE_ERROR, "ends behind its buffer");
    refuse(make_glb("{\"asset\":{\"version\":\"2.0\"},\"buffers\":[{\"byteLength\":16}],\"bufferViews\":[{\"buffer\":0,"
                    "\"byteLength\":16,\"byteStride\":9007199254740992}],\"accessors\":[{\"bufferView\":0,"
                    "\"componentType\":5126,"
                    "\"count\":9007199254740992,\"type\":\"VEC3\"}],\"meshes\":[{\"primitives\":[{\"attributes\":{"
                    "\"POSITION\":0}}]}]}",
                    &b, 16),
           CT_PARSE_ERROR, "end behind its view");
}

/* Files with bytes changed at random: any answer will do, as long as there is one (the sanitizers watch). */
static void test_damaged(void **state) {
    (void)state;
    uint64_t rng = 7;
    size_t accepted = 0, refused = 0;
    file whole = box_glb(SPLIT ",\"nodes\":[{\"mesh\":0,\"translation\":[1,2,3]}],\"scenes\":[{\"nodes\":[0]}]");
    char *copy = malloc(whole.size);
    assert_non_null(copy);
    for (int round = 0; round < 4000; round++) {
        memcpy(copy, whole.bytes, whole.size);
        for (uint64_t n = shape_random(&rng) % 3 + 1; n > 0; n--)
            copy[shape_random(&rng) % whole.size] =
                (char)(round % 2 ? shape_random(&rng) : '0' + shape_random(&rng) % 10);
        const size_t size = round % 5 ? whole.size : shape_random(&rng) % whole.size;
        ct_mesh *mesh;
        ct_error error = {0};
        const ct_status status = read_bytes(copy, size, &mesh, &error);
        assert_true((status == CT_OK) == (mesh != NULL));
        assert_true(status == error.status);
        *(mesh ? &accepted : &refused) += 1;
        ct_mesh_release(&mesh);
    }
    free(copy);
    free(whole.bytes);
    assert_true(accepted > 20 && refused > 1000);
}

/* Wherever it is cancelled it says so, and nothing is lost. */
static void test_cancelled(void **state) {
    (void)state;
    file whole = box_glb(SPLIT);
    for (int i = 0; i < 2; i++) {
        ct_cancel cancel;
        ct_cancel_init(&cancel, 0);
        if (i) ct_cancel_request(&cancel, CT_CANCEL_CALLER);
        ct_cancel *before = ct_cancel_scope(&cancel);
        ct_mesh *mesh;
        ct_error error = {0};
        const ct_status status = read_bytes(whole.bytes, whole.size, &mesh, &error);
        ct_cancel_scope(before);
        assert_int_equal(status, i ? CT_CANCELLED : CT_OK);
        assert_int_equal(error.status, status);
        ct_mesh_release(&mesh);
    }
    free(whole.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),      cmocka_unit_test(test_nodes),   cmocka_unit_test(test_kinds_of_numbers),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_hostile), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests_name("gltf", tests, NULL, NULL);
}
