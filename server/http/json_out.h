/* json_out.h - writes JSON text into a bounded, growing buffer. Numbers in the fewest digits that read back as the same
 * double; a number that is not finite is null, which JSON has and NaN it has not. */
#ifndef CONTACTD_HTTP_JSON_OUT_H
#define CONTACTD_HTTP_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum json_out_state { JSON_OUT_OK, JSON_OUT_NO_MEMORY, JSON_OUT_TOO_LARGE } json_out_state;

typedef struct json_out {
    char *data; /* not NUL-terminated */
    size_t size, capacity, limit;
    bool comma;           /* the next value follows another one */
    json_out_state state; /* after the first failure nothing is written any more */
} json_out;

void json_out_init(json_out *out, size_t limit);
void json_out_free(json_out *out);

/* key NULL: an element of an array, or the document itself. Keys are written as they are: plain ASCII words. */
void json_out_object(json_out *out, const char *key);
void json_out_object_end(json_out *out);
void json_out_array(json_out *out, const char *key);
void json_out_array_end(json_out *out);
void json_out_string(json_out *out, const char *key, const char *value); /* bytes that are no UTF-8 become U+FFFD */
void json_out_number(json_out *out, const char *key, double value);
void json_out_float(json_out *out, const char *key, float value); /* as few digits as a float needs */
void json_out_integer(json_out *out, const char *key, uint64_t value);
void json_out_bool(json_out *out, const char *key, bool value);
void json_out_numbers(json_out *out, const char *key, const double *values, size_t n);
void json_out_floats(json_out *out, const char *key, const float *values, size_t n);

#endif
