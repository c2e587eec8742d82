/* gltf_file.c - opens a glTF file: the parts of a GLB, the JSON, and what it requires. */
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/mesh/io/gltf.h"

/* ---- JSON ---- */

/* Hands the text to jansson piece by piece, so that it ends when the work is cancelled, or when it holds too much. */
struct feed {
    const char *at, *end;
    size_t n_values; /* bounded from above: by what begins or separates values */
    bool is_in_string, is_escaped;
};

static size_t feed_piece(void *buffer, size_t capacity, void *data) {
    struct feed *feed = data;
    size_t n = (size_t)(feed->end - feed->at);
    if (n > capacity) n = capacity;
    if (ct_is_cancelled()) return (size_t)-1;
    for (size_t i = 0; i < n; i++) {
        const char c = feed->at[i];
        if (feed->is_in_string) {
            if (!feed->is_escaped && c == '"') feed->is_in_string = false;
            feed->is_escaped = !feed->is_escaped && c == '\\';
        } else {
            feed->is_in_string = c == '"';
            feed->n_values += c == ',' || c == '[' || c == '{';
        }
    }
    if (feed->n_values > CT_GLTF_MAX_VALUES) return (size_t)-1;
    memcpy(buffer, feed->at, n);
    feed->at += n;
    return n;
}

static ct_status parse_json(const char *text, size_t size, ct_gltf *gltf, ct_error *error) {
    while (size && (text[size - 1] == 0 || text[size - 1] == ' ')) { /* padding */
        if (CT_POLL_EVERY(size, 1 << 14) && ct_is_cancelled()) break;
        size--;
    }
    struct feed feed = {.at = text, .end = text + size};
    json_error_t why;
    gltf->root = json_load_callback(feed_piece, &feed, JSON_DECODE_INT_AS_REAL, &why);
    if (json_is_object(gltf->root)) return CT_OK;
    if (ct_is_cancelled()) return ct_fail_cancelled(error);
    if (feed.n_values > CT_GLTF_MAX_VALUES)
        return ct_fail(error, CT_LIMIT_EXCEEDED, "bytes",
                       "the glTF file's JSON has more than %u values: save the meshes alone, without animations",
                       CT_GLTF_MAX_VALUES);
    if (gltf->root) return ct_fail(error, CT_PARSE_ERROR, "bytes", "the glTF file's JSON is no object");
    if (json_error_code(&why) == json_error_out_of_memory)
        return ct_fail(error, CT_OUT_OF_MEMORY, "bytes", "no memory for a glTF file's JSON of %zu bytes", size);
    for (char *c = why.text; *c; c++) /* it quotes the file */
        if (*c < ' ' || *c > '~') *c = '?';
    return ct_fail(error, CT_PARSE_ERROR, "bytes", "the glTF file's JSON is broken at line %d, column %d: %s", why.line,
                   why.column, why.text);
}

/* ---- GLB ---- */

enum { HEADER = 12, CHUNK_HEADER = 8, JSON_CHUNK = 0x4e4f534a, BINARY_CHUNK = 0x004e4942 };

static uint32_t load_u32(const char *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static ct_status fail_truncated(size_t claimed, size_t left, ct_error *error) {
    return ct_fail(error, CT_PARSE_ERROR, "bytes",
                   "the GLB file is truncated: a part of %zu bytes is announced where %zu follow", claimed, left);
}

static ct_status open_binary(const char *bytes, size_t size, ct_gltf *gltf, ct_error *error) {
    if (size < HEADER + CHUNK_HEADER) return fail_truncated(HEADER + CHUNK_HEADER, size, error);
    const uint32_t version = load_u32(bytes + 4);
    if (version != 2)
        return ct_fail(error, CT_PARSE_ERROR, "bytes", "the GLB file is of version %u, expected 2: save it as glTF 2.0",
                       version);
    if (load_u32(bytes + 8) > size) return fail_truncated(load_u32(bytes + 8), size, error);
    const size_t json_size = load_u32(bytes + HEADER), after = HEADER + CHUNK_HEADER;
    if (load_u32(bytes + HEADER + 4) != JSON_CHUNK)
        return ct_fail(error, CT_PARSE_ERROR, "bytes", "the GLB file does not begin with its JSON: it is damaged");
    if (json_size > size - after) return fail_truncated(json_size, size - after, error);
    const size_t rest = size - after - json_size;
    const char *next = bytes + after + json_size;
    if (rest >= CHUNK_HEADER && load_u32(next + 4) == BINARY_CHUNK) {
        gltf->binary_size = load_u32(next);
        gltf->binary = next + CHUNK_HEADER;
        if (gltf->binary_size > rest - CHUNK_HEADER)
            return fail_truncated(gltf->binary_size, rest - CHUNK_HEADER, error);
    }
    return parse_json(bytes + after, json_size, gltf, error);
}

/* ---- what it requires ---- */

/* Extensions that leave the geometry as it is, or that are understood. */
static bool is_understood(const char *name) {
    static const char *const begins[] = {"KHR_mesh_quantization", "KHR_technique",  "KHR_materials_",
                                         "KHR_texture_",          "EXT_texture_",   "MSFT_texture_",
                                         "KHR_lights_",           "EXT_lights_",    "KHR_xmp",
                                         "ADOBE_materials_",      "KHR_animation_", "MSFT_packing_"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0) return true;
    return false;
}

static ct_status check_requirements(const ct_gltf *gltf, ct_error *error) {
    const char *version = json_string_value(json_object_get(json_object_get(gltf->root, "asset"), "version"));
    if (!version)
        return ct_fail(error, CT_PARSE_ERROR, "bytes",
                       "this JSON is no glTF file: it has no asset.version. Export the mesh as GLB, OBJ, PLY or STL");
    if (strncmp(version, "2.", 2) != 0)
        return ct_fail(error, CT_PARSE_ERROR, "bytes", "the glTF file is of another version than 2: save it as 2.0");
    const json_t *required = json_object_get(gltf->root, "extensionsRequired");
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (!name || is_understood(name)) continue;
        char shown[48];
        size_t n = 0;
        for (; name[n] && n < sizeof shown - 1; n++) shown[n] = name[n] > ' ' && name[n] <= '~' ? name[n] : '?';
        shown[n] = 0;
        return ct_fail(error, CT_PARSE_ERROR, "bytes",
                       "the glTF file requires the extension %s, which is not read: save it without compression and "
                       "without that extension, or as OBJ, PLY or STL",
                       shown);
    }
    return CT_OK;
}

ct_status ct_gltf_open(const char *bytes, size_t size, ct_gltf *gltf, ct_error *error) {
    *gltf = (ct_gltf){0};
    const bool is_binary = size >= 4 && memcmp(bytes, "glTF", 4) == 0;
    ct_status status = is_binary ? open_binary(bytes, size, gltf, error) : parse_json(bytes, size, gltf, error);
    if (status == CT_OK) status = check_requirements(gltf, error);
    if (status != CT_OK) return status;
    gltf->n_buffers = json_array_size(json_object_get(gltf->root, "buffers"));
    gltf->buffers = calloc(gltf->n_buffers + 1, sizeof *gltf->buffers);
    return gltf->buffers ? CT_OK : ct_fail(error, CT_OUT_OF_MEMORY, "bytes", "no memory for a glTF file's buffers");
}

void ct_gltf_close(ct_gltf *gltf) {
    for (size_t i = 0; i < gltf->n_buffers && gltf->buffers; i++) free(gltf->buffers[i].decoded);
    free(gltf->buffers);
    json_decref(gltf->root);
    *gltf = (ct_gltf){0};
}

/* ---- its values ---- */

ct_status ct_gltf_find(const ct_gltf *gltf, const char *kind, uint64_t i, const json_t **out, ct_error *error) {
    const json_t *all = json_object_get(gltf->root, kind);
    *out = i < json_array_size(all) ? json_array_get(all, (size_t)i) : NULL;
    if (json_is_object(*out)) return CT_OK;
    return ct_fail(error, CT_PARSE_ERROR, "bytes", "the glTF file names %s[%llu], but it has %zu of them", kind,
                   (unsigned long long)i, json_array_size(all));
}

bool ct_gltf_is_count(const json_t *value, uint64_t *out) {
    const double x = json_is_number(value) ? json_number_value(value) : -1;
    if (!(x >= 0 && x <= 0x1p53) || (double)(uint64_t)x != x) return false;
    *out = (uint64_t)x;
    return true;
}

ct_status ct_gltf_read_count(const json_t *object, const char *kind, uint64_t i, const char *key, uint64_t otherwise,
                             uint64_t *out, ct_error *error) {
    const json_t *value = json_object_get(object, key);
    *out = otherwise;
    if (value ? ct_gltf_is_count(value, out) : otherwise != CT_GLTF_REQUIRED) return CT_OK;
    return ct_fail(error, CT_PARSE_ERROR, "bytes", "%s[%llu].%s of the glTF file is %s", kind, (unsigned long long)i,
                   key, value ? "no whole number from 0" : "missing");
}

bool ct_gltf_read_numbers(const json_t *array, size_t n, double *out) {
    if (json_array_size(array) != n) return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(array, i);
        if (!json_is_number(value)) return false;
        out[i] = json_number_value(value);
    }
    return true;
}
