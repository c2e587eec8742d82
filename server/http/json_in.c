/* json_in.c - see json_in.h. */
#include "server/http/json_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/quaternion.h"
#include "server/http/text.h"

/* ---- before the parser ---- */

/* What jansson takes for a value of each kind on a 64-bit machine, allocator's share included, rounded up. */
enum { BYTES_OBJECT = 320, BYTES_ARRAY = 144, BYTES_VALUE = 48, BYTES_KEY = 80 };

/* Skips the string that begins at i (its opening quote); returns the index after its closing quote, or size. */
static size_t skip_string(const char *bytes, size_t size, size_t i) {
    for (i++; i < size; i++) {
        if (bytes[i] == '\\')
            i++;
        else if (bytes[i] == '"')
            return i + 1;
    }
    return size;
}

static bool unknown_field(problem *p, const char *full, const char *const *known) {
    char list[400] = "";
    size_t at = 0;
    for (const char *const *k = known; *k && at < sizeof list; k++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", *k);
    return problem_set(p, CONTACTD_INVALID_ARGUMENT, full, "unknown field %s; known are: %s", full, list);
}

/* A key of the document's own object, as it stands between its quotes. One with escapes may be another way to write a
 * known one: that is seen when it is parsed. */
static bool check_key(const char *key, size_t size, const char *const *known, problem *p) {
    if (memchr(key, '\\', size)) return true;
    for (const char *const *k = known; *k; k++)
        if (strlen(*k) == size && memcmp(*k, key, size) == 0) return true;
    char raw[64], full[96];
    snprintf(raw, sizeof raw, "%.*s", (int)(size < sizeof raw ? size : sizeof raw - 1), key);
    return unknown_field(p, text_clean(raw, full, sizeof full), known);
}

static bool too_deep(problem *p, const char *bytes, size_t size, size_t i) {
    char where[96];
    json_in_where(bytes, size, i, where, sizeof where);
    return problem_set(p, CONTACTD_MALFORMED, where, "nested deeper than %d levels", JSON_IN_DEPTH);
}

static bool too_many_fields(problem *p, const char *bytes, size_t size, size_t i) {
    char where[96];
    json_in_where(bytes, size, i, where, sizeof where);
    return problem_set(p, CONTACTD_MALFORMED, where, "an object has more than %d fields", JSON_IN_FIELDS);
}

/* Whether the document's values take a bounded memory, its objects have few fields, and its own are known. So nothing
 * of what a stranger sent becomes a tree before it is known to be worth it. */
static bool affordable(const char *bytes, size_t size, const char *const *known, problem *p) {
    uint64_t memory = 0;
    unsigned depth = 0;
    unsigned fields[JSON_IN_DEPTH + 1] = {0};
    bool is_object = false, awaits_key = false;
    for (size_t i = 0; i < size;) {
        char c = bytes[i];
        if (c == '"') {
            size_t end = skip_string(bytes, size, i);
            bool is_key = is_object && awaits_key && depth == 1 && end >= i + 2;
            if (is_key && !check_key(bytes + i + 1, end - i - 2, known, p)) return false;
            awaits_key = false;
            memory += end - i + BYTES_VALUE;
            i = end;
            continue;
        }
        if (c == '[' || c == '{') {
            memory += c == '[' ? BYTES_ARRAY : BYTES_OBJECT;
            if (++depth > JSON_IN_DEPTH) return too_deep(p, bytes, size, i);
            if (depth == 1) is_object = c == '{';
            fields[depth] = 0;
        }
        if (c == ':' && depth && ++fields[depth] > JSON_IN_FIELDS) return too_many_fields(p, bytes, size, i);
        if ((c == ']' || c == '}') && depth) depth--;
        if (c == ',') memory += BYTES_VALUE;
        if (c == ':') memory += BYTES_KEY;
        if (c == '{' || (c == ',' && depth == 1)) awaits_key = true;
        if (c == '[' || c == ':') awaits_key = false;
        i++;
    }
    if (memory <= JSON_IN_MEMORY) return true;
    return problem_set(
        p, CONTACTD_TOO_LARGE, NULL,
        "the JSON's values would take about %llu MiB once parsed; at most %u MiB are allowed. Send a large "
        "mesh as PLY, or use the stream",
        (unsigned long long)(memory >> 20), JSON_IN_MEMORY >> 20);
}

typedef struct level {
    bool array;
    size_t index;         /* of the element in an array */
    size_t key, key_size; /* in an object; key_size 0: none yet */
} level;

void json_in_where(const char *bytes, size_t size, size_t position, char *out, size_t out_size) {
    level stack[JSON_IN_DEPTH + 1];
    size_t depth = 0;
    bool awaits_key = false;
    for (size_t i = 0; i < size && i < position;) {
        level *top = depth ? &stack[depth - 1] : NULL;
        char c = bytes[i];
        size_t next = i + 1;
        if (c == '"') {
            next = skip_string(bytes, size, i);
            if (top && !top->array && awaits_key && next > i + 2) {
                top->key = i + 1;
                top->key_size = next - i - 2;
            }
        } else if ((c == '[' || c == '{')) {
            if (depth == JSON_IN_DEPTH + 1) break;
            stack[depth++] = (level){.array = c == '['};
            awaits_key = c == '{';
        } else if ((c == ']' || c == '}') && depth) {
            depth--;
            awaits_key = false;
        } else if (c == ',' && top) {
            top->index++;
            top->key_size = 0;
            awaits_key = !top->array;
        } else if (c == ':') {
            awaits_key = false;
        }
        i = next;
    }
    char raw[96];
    size_t at = 0;
    raw[0] = 0;
    for (size_t d = 0; d < depth && at < sizeof raw - 1; d++) {
        size_t room = sizeof raw - at;
        int n = 0;
        if (stack[d].array) {
            n = snprintf(raw + at, room, "[%zu]", stack[d].index);
        } else if (stack[d].key_size) {
            int key = stack[d].key_size > 60 ? 60 : (int)stack[d].key_size;
            n = snprintf(raw + at, room, "%s%.*s", d ? "." : "", key, bytes + stack[d].key);
        }
        at += (size_t)n < room ? (size_t)n : room - 1;
    }
    text_clean(raw, out, out_size);
}

json_t *json_in_parse(const char *bytes, size_t size, const char *const *known, problem *p) {
    if (size == 0) {
        problem_set(p, CONTACTD_MALFORMED, NULL, "the body is empty; expected a JSON object");
        return NULL;
    }
    if (!affordable(bytes, size, known, p)) return NULL;
    json_error_t error;
    json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        char where[96];
        size_t position = error.position > 0 ? (size_t)error.position - 1 : 0;
        json_in_where(bytes, size, position, where, sizeof where);
        enum json_error_code code = json_error_code(&error);
        contactd_code ours = code == json_error_numeric_overflow ? CONTACTD_OUT_OF_RANGE
                             : code == json_error_out_of_memory  ? CONTACTD_OUT_OF_MEMORY
                                                                 : CONTACTD_MALFORMED;
        problem_set(p, ours, where, "not the JSON that was expected: %s (line %d, column %d)", error.text, error.line,
                    error.column);
        return NULL;
    }
    if (!json_is_object(root)) {
        problem_set(p, CONTACTD_MALFORMED, NULL, "expected a JSON object, found an array");
        json_decref(root);
        return NULL;
    }
    return root;
}

/* ---- fields ---- */

static const char *kind_of(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number with a fraction or exponent";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    }
    return "something else";
}

static const char *full_name(const json_fields *fields, const char *name, char out[static 96]) {
    text_clean(fields->path, out, 96);
    size_t n = strlen(out);
    text_clean(name, out + n, 96 - n);
    return out;
}

bool json_wrong_type(const json_fields *fields, const char *name, const char *expected, const json_t *found) {
    char full[96];
    return problem_set(fields->problem, CONTACTD_INVALID_ARGUMENT, full_name(fields, name, full),
                       "%s: expected %s, found %s", full, expected, kind_of(found));
}

bool json_fields_begin(json_fields *fields, const json_t *value, const char *path, const char *const *known,
                       problem *p) {
    *fields = (json_fields){value, path, p};
    if (!json_is_object(value)) {
        char name[96];
        snprintf(name, sizeof name, "%s", path);
        if (name[0]) name[strlen(name) - 1] = 0; /* the dot */
        *fields = (json_fields){value, "", p};
        return json_wrong_type(fields, name, "an object", value);
    }
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)(uintptr_t)value, key, item) {
        const char *const *k = known;
        while (*k && strcmp(*k, key) != 0) k++;
        if (*k) continue;
        char full[96];
        return unknown_field(p, full_name(fields, key, full), known);
    }
    return true;
}

bool json_take_value(const json_fields *fields, const char *name, const json_t **out, bool *has) {
    json_t *value = json_object_get(fields->object, name);
    if (has) *has = value != NULL;
    if (value) *out = value;
    if (value || has) return true;
    char full[96];
    return problem_set(fields->problem, CONTACTD_INVALID_ARGUMENT, full_name(fields, name, full),
                       "the field %s is missing", full);
}

bool json_take_integer(const json_fields *fields, const char *name, int64_t low, int64_t high, int64_t *out,
                       bool *has) {
    const json_t *value = NULL;
    if (!json_take_value(fields, name, &value, has)) return false;
    if (!value) return true;
    if (!json_is_integer(value)) return json_wrong_type(fields, name, "an integer", value);
    json_int_t number = json_integer_value(value);
    if (number < low || number > high) {
        char full[96];
        return problem_set(fields->problem, CONTACTD_OUT_OF_RANGE, full_name(fields, name, full),
                           "%s is %lld; expected %lld to %lld", full, (long long)number, (long long)low,
                           (long long)high);
    }
    *out = number;
    return true;
}

bool json_take_number(const json_fields *fields, const char *name, double low, double high, double *out, bool *has) {
    const json_t *value = NULL;
    if (!json_take_value(fields, name, &value, has)) return false;
    if (!value) return true;
    if (!json_is_number(value)) return json_wrong_type(fields, name, "a number", value);
    double number = json_number_value(value);
    if (!(number >= low && number <= high)) {
        char full[96];
        return problem_set(fields->problem, CONTACTD_OUT_OF_RANGE, full_name(fields, name, full),
                           "%s is %g; expected %g to %g", full, number, low, high);
    }
    *out = number;
    return true;
}

bool json_take_bool(const json_fields *fields, const char *name, bool *out, bool *has) {
    const json_t *value = NULL;
    if (!json_take_value(fields, name, &value, has)) return false;
    if (!value) return true;
    if (!json_is_boolean(value)) return json_wrong_type(fields, name, "true or false", value);
    *out = json_is_true(value);
    return true;
}

bool json_take_string(const json_fields *fields, const char *name, size_t max, const char **out, bool *has) {
    const json_t *value = NULL;
    if (!json_take_value(fields, name, &value, has)) return false;
    if (!value) return true;
    if (!json_is_string(value)) return json_wrong_type(fields, name, "a string", value);
    char full[96];
    full_name(fields, name, full);
    size_t length = json_string_length(value);
    if (length > max)
        return problem_set(fields->problem, CONTACTD_OUT_OF_RANGE, full, "%s has %zu bytes; expected at most %zu", full,
                           length, max);
    if (!text_is_utf8(json_string_value(value), length))
        return problem_set(fields->problem, CONTACTD_INVALID_ARGUMENT, full, "%s holds a control character", full);
    *out = json_string_value(value);
    return true;
}

bool json_take_word(const json_fields *fields, const char *name, const char *const *words, int *out, bool *has) {
    const json_t *value = NULL;
    if (!json_take_value(fields, name, &value, has)) return false;
    if (!value) return true;
    if (!json_is_string(value)) return json_wrong_type(fields, name, "a string", value);
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], json_string_value(value)) == 0) {
            *out = i;
            return true;
        }
    char full[96], shown[64], list[200] = "";
    size_t at = 0;
    for (int i = 0; words[i] && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", words[i]);
    return problem_set(fields->problem, CONTACTD_INVALID_ARGUMENT, full_name(fields, name, full),
                       "%s is \"%s\"; expected one of: %s", full,
                       text_clean(json_string_value(value), shown, sizeof shown), list);
}

/* ---- arrays ---- */

static bool element_wrong(const json_fields *fields, const char *name, size_t row, unsigned column, unsigned columns,
                          const char *expected, const json_t *found) {
    char place[160];
    if (columns > 1)
        snprintf(place, sizeof place, "%s[%zu][%u]", name, row, column);
    else
        snprintf(place, sizeof place, "%s[%zu]", name, row);
    return json_wrong_type(fields, place, expected, found);
}

/* Calls put for each number of the rows, in order. */
static bool walk_rows(const json_fields *fields, const char *name, const json_t *array, unsigned columns,
                      const char *expected, bool (*put)(const json_t *number, size_t at, void *out), void *out) {
    size_t n = json_array_size(array);
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(array, i);
        if (columns > 1 && (!json_is_array(row) || json_array_size(row) != columns)) {
            char place[160], full[96];
            snprintf(place, sizeof place, "%s[%zu]", name, i);
            if (!json_is_array(row)) return json_wrong_type(fields, place, "an array of numbers", row);
            return problem_set(fields->problem, CONTACTD_WRONG_LENGTH, full_name(fields, place, full),
                               "%s has %zu numbers; expected %u", full, json_array_size(row), columns);
        }
        for (unsigned c = 0; c < columns; c++) {
            const json_t *number = columns > 1 ? json_array_get(row, c) : row;
            if (!put(number, i * columns + c, out)) return element_wrong(fields, name, i, c, columns, expected, number);
        }
    }
    return true;
}

static bool put_double(const json_t *number, size_t at, void *out) {
    if (!json_is_number(number)) return false;
    ((double *)out)[at] = json_number_value(number);
    return true;
}

static bool put_index(const json_t *number, size_t at, void *out) {
    if (!json_is_integer(number)) return false;
    json_int_t value = json_integer_value(number);
    if (value < 0 || value > UINT32_MAX) return false;
    ((uint32_t *)out)[at] = (uint32_t)value;
    return true;
}

static bool take_rows(const json_fields *fields, const char *name, unsigned columns, size_t item, const char *expected,
                      bool (*put)(const json_t *, size_t, void *), void **out, size_t *n, bool *has) {
    const json_t *value = NULL;
    if (!json_take_value(fields, name, &value, has)) return false;
    if (!value) return true;
    if (!json_is_array(value)) return json_wrong_type(fields, name, "an array", value);
    size_t count = json_array_size(value);
    void *memory = count ? malloc(count * columns * item) : NULL;
    if (count && !memory) return problem_set(fields->problem, CONTACTD_OUT_OF_MEMORY, name, "no memory for %s", name);
    if (!walk_rows(fields, name, value, columns, expected, put, memory)) {
        free(memory);
        return false;
    }
    *out = memory;
    *n = count;
    return true;
}

bool json_take_doubles(const json_fields *fields, const char *name, unsigned columns, double **out, size_t *n,
                       bool *has) {
    void *memory = NULL;
    if (!take_rows(fields, name, columns, sizeof **out, "a number", put_double, &memory, n, has)) return false;
    *out = memory;
    return true;
}

bool json_take_indices(const json_fields *fields, const char *name, unsigned columns, uint32_t **out, size_t *n,
                       bool *has) {
    void *memory = NULL;
    if (!take_rows(fields, name, columns, sizeof **out, "an integer from 0 to 4294967295", put_index, &memory, n, has))
        return false;
    *out = memory;
    return true;
}

bool json_take_pose(const json_fields *fields, const char *name, double out[12], bool *has) {
    const json_t *value = NULL;
    if (!json_take_value(fields, name, &value, has)) return false;
    if (!value) return true;
    static const char shape[] = "a pose: 12 numbers (row-major 3x4), 3 rows of 4, 4 rows of 4 ending in 0 0 0 1, or 7 "
                                "numbers (a translation and a quaternion x y z w)";
    if (!json_is_array(value)) return json_wrong_type(fields, name, shape, value);
    size_t n = json_array_size(value);
    bool rows = n && json_is_array(json_array_get(value, 0));
    double numbers[16], length;
    if (rows ? n != 3 && n != 4 : n != 12 && n != WIRE_QUATERNION_POSE) {
        char full[96];
        return problem_set(fields->problem, CONTACTD_WRONG_LENGTH, full_name(fields, name, full),
                           "%s has %zu %s; expected %s", full, n, rows ? "rows" : "numbers", shape);
    }
    if (!walk_rows(fields, name, value, rows ? 4 : 1, "a number", put_double, numbers)) return false;
    if (n == 4 && (numbers[12] != 0 || numbers[13] != 0 || numbers[14] != 0 || numbers[15] != 1)) {
        char full[96];
        return problem_set(fields->problem, CONTACTD_OUT_OF_RANGE, full_name(fields, name, full),
                           "the last row of %s is not 0 0 0 1", full);
    }
    if (rows || n == 12) {
        memcpy(out, numbers, 12 * sizeof *out);
    } else if (!wire_pose_of_quaternion(numbers, out, &length)) {
        char full[96];
        return problem_set(fields->problem, CONTACTD_OUT_OF_RANGE, full_name(fields, name, full),
                           "%s has a quaternion of length %g; expected 1", full, length);
    }
    return true;
}
