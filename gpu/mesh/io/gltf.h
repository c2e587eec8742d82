/* gltf.h - a glTF 2.0 file, as JSON text or as binary (GLB): its JSON, and the numbers in its buffers; for read_gltf.c.
 * In builds with jansson alone (CT_HAVE_JANSSON). */
#ifndef CT_GLTF_H
#define CT_GLTF_H

#include <jansson.h>

#include "gpu/base/fail.h"

/* Of the JSON: jansson takes some 100 bytes a value, 320 at most. */
#define CT_GLTF_MAX_VALUES (1u << 20)

typedef struct ct_gltf_buffer {
    const uint8_t *at;
    size_t size;
    uint8_t *decoded; /* the same, if it was in the JSON as base64 */
} ct_gltf_buffer;

typedef struct ct_gltf {
    json_t *root;
    const char *binary; /* what follows the JSON in a GLB file; NULL: nothing */
    size_t binary_size;
    ct_gltf_buffer *buffers; /* [n_buffers], each read when it is first used */
    size_t n_buffers;
} ct_gltf;

/* Parses the file and checks that all that it requires is understood; bytes must outlive *gltf. Close it whatever comes
 * of it. PARSE_ERROR, LIMIT_EXCEEDED, OUT_OF_MEMORY. */
ct_status ct_gltf_open(const char *bytes, size_t size, ct_gltf *gltf, ct_error *error);
void ct_gltf_close(ct_gltf *gltf);

/* Element i of the document's array `kind` ("nodes"). PARSE_ERROR: there is none, or it is no object. */
ct_status ct_gltf_find(const ct_gltf *gltf, const char *kind, uint64_t i, const json_t **out, ct_error *error);

/* The whole number `key` of element i of `kind`; absent: `otherwise`, or an error where that is CT_GLTF_REQUIRED. */
#define CT_GLTF_REQUIRED UINT64_MAX
ct_status ct_gltf_read_count(const json_t *object, const char *kind, uint64_t i, const char *key, uint64_t otherwise,
                             uint64_t *out, ct_error *error);

/* A whole number from 0 to 2^53; false: the value is none. */
bool ct_gltf_is_count(const json_t *value, uint64_t *out);

/* The n numbers of an array; false: it is none of n numbers. */
bool ct_gltf_read_numbers(const json_t *array, size_t n, double *out);

/* Rows of numbers in a buffer, checked against its end. */
typedef struct ct_gltf_rows {
    const uint8_t *at;
    size_t n, stride;
    uint32_t component; /* 5120 to 5126: the type of each number */
    bool is_normalized; /* integers stand for -1 to 1, or 0 to 1 */
} ct_gltf_rows;

/* The rows of an accessor whose elements are of `type` ("SCALAR", "VEC3"). */
ct_status ct_gltf_find_rows(ct_gltf *gltf, uint64_t accessor, const char *type, ct_gltf_rows *out, ct_error *error);

/* Whether the rows may be indices. */
bool ct_gltf_is_unsigned(const ct_gltf_rows *rows);

/* Number k of a row; an integer as it is, or scaled if is_normalized. */
double ct_gltf_number(const ct_gltf_rows *rows, size_t row, size_t k);

#endif
