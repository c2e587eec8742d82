/* gltf_rows.c - the numbers in a glTF file's buffers: accessors, views of buffers, and base64. */
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/mesh/io/gltf.h"

/* ---- buffers ---- */

/* The 6 bits that a character of base64 stands for; -1: none. */
static int bits_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

/* Decodes to `out`, which has room for 3 bytes for each 4 characters begun. False: it is no base64, or cancelled. */
static bool decode_base64(const char *text, size_t n, uint8_t *out, size_t *size) {
    uint32_t bits = 0;
    size_t n_out = 0;
    while (n && text[n - 1] == '=') n--;
    for (size_t i = 0; i < n; i++) {
        const int six = bits_of(text[i]);
        if (six < 0 || (CT_POLL_EVERY(i, 1 << 14) && ct_is_cancelled())) return false;
        bits = bits << 6 | (uint32_t)six;
        if (i % 4) out[n_out++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    *size = n_out;
    return n % 4 != 1;
}

/* Shown in an error: the file chose it. */
static void clean(const char *text, size_t n, char out[41]) {
    size_t i = 0;
    for (; i < n && i < 40; i++) out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    out[i] = 0;
}

static ct_status decode_uri(const char *uri, size_t length, uint64_t i, ct_gltf_buffer *buffer, ct_error *error) {
    static const char mark[] = ";base64,";
    enum { LONGEST_TYPE = 200 }; /* of a MIME type before the mark */
    const size_t head = length < LONGEST_TYPE ? length : LONGEST_TYPE;
    const char *text = strncmp(uri, "data:", 5) == 0 ? memmem(uri, head, mark, sizeof mark - 1) : NULL;
    if (!text) {
        char shown[41];
        clean(uri, length, shown);
        return ct_fail(error, CT_PARSE_ERROR, "bytes",
                       "buffers[%llu] of the glTF file is in another file (\"%s\"): save it as one file, as GLB "
                       "(.glb) or with embedded buffers",
                       (unsigned long long)i, shown);
    }
    text += sizeof mark - 1;
    const size_t n = length - (size_t)(text - uri);
    buffer->decoded = malloc(n / 4 * 3 + 3);
    if (!buffer->decoded) return ct_fail(error, CT_OUT_OF_MEMORY, "bytes", "no memory for a buffer of a glTF file");
    if (!decode_base64(text, n, buffer->decoded, &buffer->size))
        return ct_is_cancelled()
                   ? ct_fail_cancelled(error)
                   : ct_fail(error, CT_PARSE_ERROR, "bytes",
                             "buffers[%llu] of the glTF file is no base64: the file is damaged", (unsigned long long)i);
    buffer->at = buffer->decoded;
    return CT_OK;
}

static ct_status find_buffer(ct_gltf *gltf, uint64_t i, ct_gltf_buffer **out, ct_error *error) {
    const json_t *object;
    uint64_t claimed;
    ct_status status = ct_gltf_find(gltf, "buffers", i, &object, error);
    if (status != CT_OK) return status;
    *out = &gltf->buffers[i];
    if ((*out)->at) return CT_OK;
    status = ct_gltf_read_count(object, "buffers", i, "byteLength", CT_GLTF_REQUIRED, &claimed, error);
    if (status != CT_OK) return status;
    const json_t *uri = json_object_get(object, "uri");
    if (uri) {
        if (!json_is_string(uri))
            return ct_fail(error, CT_PARSE_ERROR, "bytes", "buffers[%llu].uri of the glTF file is no text",
                           (unsigned long long)i);
        status = decode_uri(json_string_value(uri), json_string_length(uri), i, *out, error);
        if (status != CT_OK) return status;
    } else if (i == 0 && gltf->binary) {
        (*out)->at = (const uint8_t *)gltf->binary;
        (*out)->size = gltf->binary_size;
    } else {
        return ct_fail(
            error, CT_PARSE_ERROR, "bytes",
            "buffers[%llu] of the glTF file has no data in it, as of a compressed mesh: save it with plain buffers",
            (unsigned long long)i);
    }
    if ((*out)->size < claimed)
        return ct_fail(error, CT_PARSE_ERROR, "bytes",
                       "buffers[%llu] of the glTF file has %zu bytes, but its byteLength is %llu: it is truncated",
                       (unsigned long long)i, (*out)->size, (unsigned long long)claimed);
    (*out)->size = (size_t)claimed;
    return CT_OK;
}

/* ---- accessors ---- */

enum { I8 = 5120, U8, I16, U16, U32 = 5125, F32 };

/* 0: no type of numbers. */
static size_t size_of(uint64_t component) {
    switch (component) {
    case I8:
    case U8:
        return 1;
    case I16:
    case U16:
        return 2;
    case U32:
    case F32:
        return 4;
    default:
        return 0;
    }
}

/* Takes the view of a buffer: its bytes, and what a row takes there, or 0 where rows follow each other. */
static ct_status find_view(ct_gltf *gltf, uint64_t view, const uint8_t **at, uint64_t *size, uint64_t *stride,
                           ct_error *error) {
    const json_t *object;
    uint64_t buffer, offset;
    ct_gltf_buffer *bytes;
    ct_status status = ct_gltf_find(gltf, "bufferViews", view, &object, error);
    if (status == CT_OK)
        status = ct_gltf_read_count(object, "bufferViews", view, "buffer", CT_GLTF_REQUIRED, &buffer, error);
    if (status == CT_OK) status = ct_gltf_read_count(object, "bufferViews", view, "byteOffset", 0, &offset, error);
    if (status == CT_OK)
        status = ct_gltf_read_count(object, "bufferViews", view, "byteLength", CT_GLTF_REQUIRED, size, error);
    if (status == CT_OK) status = ct_gltf_read_count(object, "bufferViews", view, "byteStride", 0, stride, error);
    if (status == CT_OK) status = find_buffer(gltf, buffer, &bytes, error);
    if (status != CT_OK) return status;
    if (offset > bytes->size || *size > bytes->size - offset)
        return ct_fail(error, CT_PARSE_ERROR, "bytes",
                       "bufferViews[%llu] of the glTF file ends behind its buffer of %zu bytes",
                       (unsigned long long)view, bytes->size);
    *at = bytes->at + offset;
    return CT_OK;
}

ct_status ct_gltf_find_rows(ct_gltf *gltf, uint64_t accessor, const char *type, ct_gltf_rows *out, ct_error *error) {
    const json_t *object;
    uint64_t view, offset, n, component, size, stride;
    const uint8_t *at = NULL;
    const unsigned long long number = accessor;
    ct_status status = ct_gltf_find(gltf, "accessors", accessor, &object, error);
    if (status != CT_OK) return status;
    const char *found = json_string_value(json_object_get(object, "type"));
    if (!found || strcmp(found, type) != 0)
        return ct_fail(error, CT_PARSE_ERROR, "bytes", "accessors[%llu] of the glTF file is not of type %s", number,
                       type);
    if (json_object_get(object, "sparse") || !json_object_get(object, "bufferView"))
        return ct_fail(error, CT_PARSE_ERROR, "bytes",
                       "accessors[%llu] of the glTF file is %s, which is not read: save it with plain buffers", number,
                       json_object_get(object, "sparse") ? "sparse" : "without a bufferView, as of a compressed mesh");
    status = ct_gltf_read_count(object, "accessors", accessor, "bufferView", CT_GLTF_REQUIRED, &view, error);
    if (status == CT_OK) status = ct_gltf_read_count(object, "accessors", accessor, "byteOffset", 0, &offset, error);
    if (status == CT_OK)
        status = ct_gltf_read_count(object, "accessors", accessor, "count", CT_GLTF_REQUIRED, &n, error);
    if (status == CT_OK)
        status =
            ct_gltf_read_count(object, "accessors", accessor, "componentType", CT_GLTF_REQUIRED, &component, error);
    if (status == CT_OK) status = find_view(gltf, view, &at, &size, &stride, error);
    if (status != CT_OK) return status;
    const uint64_t row = size_of(component) * (strcmp(type, "VEC3") == 0 ? 3 : 1);
    if (!row)
        return ct_fail(error, CT_PARSE_ERROR, "bytes",
                       "accessors[%llu].componentType of the glTF file is %llu, expected 5120 to 5126", number,
                       (unsigned long long)component);
    if (!stride) stride = row;
    if (stride < row || (n && (offset > size || row > size - offset || (n - 1) > (size - offset - row) / stride)))
        return ct_fail(error, CT_PARSE_ERROR, "bytes",
                       "accessors[%llu] of the glTF file has %llu rows of %llu bytes, which end behind its view of "
                       "%llu bytes",
                       number, (unsigned long long)n, (unsigned long long)stride, (unsigned long long)size);
    *out = (ct_gltf_rows){at + (n ? offset : 0), (size_t)n, (size_t)stride, (uint32_t)component,
                          json_is_true(json_object_get(object, "normalized"))};
    return CT_OK;
}

bool ct_gltf_is_unsigned(const ct_gltf_rows *rows) {
    return !rows->is_normalized && (rows->component == U8 || rows->component == U16 || rows->component == U32);
}

double ct_gltf_number(const ct_gltf_rows *rows, size_t row, size_t k) {
    const uint8_t *at = rows->at + row * rows->stride + k * size_of(rows->component);
    uint16_t two;
    uint32_t four;
    float single_value;
    double value, largest;
    switch (rows->component) {
    case I8:
        value = (int8_t)*at, largest = INT8_MAX;
        break;
    case U8:
        value = *at, largest = UINT8_MAX;
        break;
    case I16:
        memcpy(&two, at, sizeof two);
        value = (int16_t)two, largest = INT16_MAX;
        break;
    case U16:
        memcpy(&two, at, sizeof two);
        value = two, largest = UINT16_MAX;
        break;
    case U32:
        memcpy(&four, at, sizeof four);
        return four;
    default:
        memcpy(&single_value, at, sizeof single_value);
        return (double)single_value;
    }
    if (!rows->is_normalized) return value;
    return value < -largest ? -1 : value / largest; /* -128 is -1, as -127 is */
}
