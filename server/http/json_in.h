/* json_in.h - reading JSON that strangers sent: bounded before it is parsed, strict, and every refusal names the field.
 *
 * Paths name a place as a person would write it: "updates[2].positions[7][1]".
 */
#ifndef CONTACTD_HTTP_JSON_IN_H
#define CONTACTD_HTTP_JSON_IN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/problem.h"

#define JSON_IN_DEPTH  16           /* of nesting; our documents need 5 */
#define JSON_IN_FIELDS 64           /* of one object; our largest has 22 */
#define JSON_IN_MEMORY (256u << 20) /* that the parsed values of one document may take */

/* Parses one object (or refuses: MALFORMED with line and column, OUT_OF_RANGE for a number no double can hold,
 * TOO_LARGE for more values than JSON_IN_MEMORY allows, INVALID_ARGUMENT for a field that is not in the NULL-terminated
 * known, before any of it is parsed). The caller json_decref()s it. NULL: *p says why. */
json_t *json_in_parse(const char *bytes, size_t size, const char *const *known, problem *p);

/* Where in the document the byte at `position` stands, e.g. "vertices[3][0]"; empty at the top. Also for broken JSON.
 */
void json_in_where(const char *bytes, size_t size, size_t position, char *out, size_t out_size);

/* One object being read. path is "" at the top, "updates[2]." inside. */
typedef struct json_fields {
    const json_t *object;
    const char *path;
    problem *problem;
} json_fields;

/* Whether value is an object with no other keys than known (NULL-terminated). */
bool json_fields_begin(json_fields *fields, const json_t *value, const char *path, const char *const *known,
                       problem *p);

/* Each reads one field. has NULL: it must be there. has not NULL: *has tells, and *out is left alone if it is absent. A
 * null counts as absent nowhere: it is the wrong type. */
bool json_take_integer(const json_fields *fields, const char *name, int64_t low, int64_t high, int64_t *out, bool *has);
bool json_take_number(const json_fields *fields, const char *name, double low, double high, double *out, bool *has);
/* true or false. */
bool json_take_bool(const json_fields *fields, const char *name, bool *out, bool *has);
/* A string of at most max bytes without control characters; a view into the document. */
bool json_take_string(const json_fields *fields, const char *name, size_t max, const char **out, bool *has);
/* The index of the string in the NULL-terminated words. */
bool json_take_word(const json_fields *fields, const char *name, const char *const *words, int *out, bool *has);
/* Any value. */
bool json_take_value(const json_fields *fields, const char *name, const json_t **out, bool *has);

/* Arrays of rows of `columns` numbers: [[x,y,z],...]. columns 1: plain numbers. *out is malloc'd ([n][columns], NULL if
 * n is 0). */
bool json_take_doubles(const json_fields *fields, const char *name, unsigned columns, double **out, size_t *n,
                       bool *has);
bool json_take_indices(const json_fields *fields, const char *name, unsigned columns, uint32_t **out, size_t *n,
                       bool *has);
/* A rigid pose as row-major 3x4: 12 numbers, or 3 rows of 4, or 4 rows of 4 ending in 0 0 0 1. */
bool json_take_pose(const json_fields *fields, const char *name, double out[12], bool *has);

bool json_wrong_type(const json_fields *fields, const char *name, const char *expected, const json_t *found);

#endif
