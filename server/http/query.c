/* query.c - queries as options. See requests.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/requests.h"
#include "server/http/router.h"
#include "server/http/text.h"

typedef struct parameter {
    const char *name, *text;
    problem *problem;
} parameter;

static bool expected(const parameter *p, const char *what) {
    char shown[96];
    return problem_set(p->problem, CONTACTD_INVALID_ARGUMENT, p->name, "the query parameter %s is \"%s\", expected %s",
                       p->name, text_clean(p->text, shown, sizeof shown), what);
}

/* n decimal numbers between commas, and nothing else. */
static bool numbers(const parameter *p, double *out, int n, const char *what) {
    const char *at = p->text;
    for (int i = 0; i < n; i++) {
        char *end;
        if (strspn(at, "+-.0123456789eE") < strcspn(at, ","))
            return expected(p, what); /* nor hexadecimal, nor blanks */
        out[i] = strtod(at, &end);
        if (end == at || *end != (i + 1 < n ? ',' : 0) || !isfinite(out[i])) return expected(p, what);
        at = end + 1;
    }
    return true;
}

static bool number(const parameter *p, double *out) {
    return numbers(p, out, 1, "a number");
}

static bool point(const parameter *p, double out[3], bool *has) {
    *has = true;
    return numbers(p, out, 3, "three numbers, e.g. 0,0,1");
}

static bool whole(const parameter *p, uint32_t *out, int n, const char *what) {
    double values[2];
    if (!numbers(p, values, n, what)) return false;
    for (int i = 0; i < n; i++) {
        if (!(values[i] >= 0 && values[i] <= UINT32_MAX && values[i] == floor(values[i]))) return expected(p, what);
        out[i] = (uint32_t)values[i];
    }
    return true;
}

static bool show(const parameter *p, uint32_t *out) {
    *out = 0;
    for (const char *at = p->text;; at++) {
        const size_t length = strcspn(at, ",");
        const uint32_t bits = ct_show_find(at, length);
        if (!bits) return expected(p, "some of " CT_SHOW_WORDS);
        *out |= bits;
        at += length;
        if (!*at) return true;
    }
}

/* RRGGBB or RRGGBBAA. */
static bool color(const parameter *p, double out[4]) {
    size_t n = strlen(p->text);
    bool good = (n == 6 || n == 8) && strspn(p->text, "0123456789abcdefABCDEF") == n;
    if (!good) return expected(p, "RRGGBB or RRGGBBAA in hexadecimal, e.g. ffffff");
    out[3] = 1;
    for (size_t i = 0; i < n / 2; i++) {
        const char digits[3] = {p->text[2 * i], p->text[2 * i + 1], 0};
        out[i] = (double)strtoul(digits, NULL, 16) / 255;
    }
    return true;
}

#define PARAMETERS(X)                                                                                                  \
    X(WIDTH, "width")                                                                                                  \
    X(HEIGHT, "height")                                                                                                \
    X(CONTACT, "contact")                                                                                              \
    X(SHOW, "show")                                                                                                    \
    X(RESOLUTION, "resolution")                                                                                        \
    X(AZIMUTH, "azimuth")                                                                                              \
    X(ELEVATION, "elevation")                                                                                          \
    X(UP, "up")                                                                                                        \
    X(EYE, "eye")                                                                                                      \
    X(TARGET, "target")                                                                                                \
    X(ZOOM, "zoom")                                                                                                    \
    X(FIELD_OF_VIEW, "field_of_view")                                                                                  \
    X(OPACITY, "opacity")                                                                                              \
    X(BACKGROUND, "background")
#define ENUM(id, name) id,
#define NAME(id, name) name,
enum { PARAMETERS(ENUM) N_PARAMETERS };
static const char *const names[N_PARAMETERS] = {PARAMETERS(NAME)};

static bool take(const parameter *p, int which, ct_snapshot_options *out) {
    bool given;
    switch (which) {
    case WIDTH:
        return whole(p, &out->width, 1, "a number of pixels");
    case HEIGHT:
        return whole(p, &out->height, 1, "a number of pixels");
    case CONTACT:
        return whole(p, out->contact, 2, "the numbers of two bodies, e.g. 1,2");
    case SHOW:
        return show(p, &out->show);
    case RESOLUTION:
        return whole(p, &out->resolution, 1, "a whole number");
    case AZIMUTH:
        return number(p, &out->azimuth);
    case ELEVATION:
        return number(p, &out->elevation);
    case UP:
        return point(p, out->up, &given);
    case EYE:
        return point(p, out->eye, &out->has_eye);
    case TARGET:
        return point(p, out->target, &out->has_target);
    case ZOOM:
        return number(p, &out->zoom);
    case FIELD_OF_VIEW:
        return number(p, &out->field_of_view);
    case OPACITY:
        return number(p, &out->opacity);
    default:
        return color(p, out->background);
    }
}

bool request_snapshot(const char *query, ct_snapshot_options *out, problem *p) {
    text_view key, value;
    bool seen[N_PARAMETERS] = {false};
    ct_snapshot_options_init(out);
    while (text_next_parameter(&query, &key, &value)) {
        char name[32] = "", text[160];
        int which = 0;
        if (!text_unescape(key.data, key.size, true, name, sizeof name)) name[0] = 0;
        while (which < N_PARAMETERS && strcmp(name, names[which]) != 0) which++;
        if (which == N_PARAMETERS) {
            char shown[64];
            return problem_set(p, CONTACTD_INVALID_ARGUMENT, "query",
                               "unknown query parameter %s; known are: " HTTP_QUERY_SNAPSHOT,
                               text_clean(name, shown, sizeof shown));
        }
        if (seen[which])
            return problem_set(p, CONTACTD_INVALID_ARGUMENT, names[which], "the query parameter %s stands twice",
                               names[which]);
        seen[which] = true;
        if (!text_unescape(value.data, value.size, true, text, sizeof text))
            return problem_set(p, CONTACTD_INVALID_ARGUMENT, names[which],
                               "the query parameter %s is no percent-encoded text of less than %zu bytes", names[which],
                               sizeof text);
        const parameter parameter = {names[which], text, p};
        if (!take(&parameter, which, out)) return false;
    }
    ct_error cause = {0};
    if (ct_snapshot_options_check(out, &cause) == CT_OK) return true;
    server_error error = {0};
    server_fail_engine(&error, "", &cause);
    return problem_take(p, &error);
}

bool request_fields(const char *query, query_field *fields, const char *known, problem *p) {
    text_view key, value;
    while (text_next_parameter(&query, &key, &value)) {
        char name[64] = "", shown[64];
        query_field *field = fields;
        if (!text_unescape(key.data, key.size, true, name, sizeof name)) name[0] = 0;
        while (field->name && strcmp(field->name, name) != 0) field++;
        if (!field->name) {
            text_clean(name, shown, sizeof shown);
            return problem_set(p, CONTACTD_INVALID_ARGUMENT, shown, "unknown query parameter %s; known are: %s", shown,
                               known);
        }
        if (field->text[0])
            return problem_set(p, CONTACTD_INVALID_ARGUMENT, field->name, "the query parameter %s stands twice",
                               field->name);
        if (!text_unescape(value.data, value.size, true, field->text, sizeof field->text) || !field->text[0])
            return problem_set(p, CONTACTD_INVALID_ARGUMENT, field->name,
                               "the query parameter %s is no percent-encoded text of 1 to %zu bytes", field->name,
                               sizeof field->text - 1);
    }
    return true;
}

bool request_whole(const query_field *field, uint64_t least, uint64_t most, uint64_t *out, problem *p) {
    if (!field->text[0]) return true;
    const bool is_zero = strcmp(field->text, "0") == 0;
    if (is_zero) *out = 0;
    if ((is_zero || route_number(field->text, most, out)) && *out >= least) return true;
    return problem_set(p, CONTACTD_INVALID_ARGUMENT, field->name, "%s is not a whole number from %llu to %llu",
                       field->name, (unsigned long long)least, (unsigned long long)most);
}

bool request_flag(const query_field *field, bool *out, problem *p) {
    if (!field->text[0]) return true;
    *out = strcmp(field->text, "true") == 0;
    return *out || strcmp(field->text, "false") == 0 ||
           problem_set(p, CONTACTD_INVALID_ARGUMENT, field->name, "%s is neither true nor false", field->name);
}

/* The fields of ?limit=N&after=ID, in this order. */
static bool take_page(const query_field field[2], page_request *out, problem *p) {
    uint64_t limit = 0;
    *out = (page_request){0};
    if (!request_whole(&field[0], 1, REQUEST_MAX_PAGE, &limit, p) ||
        !request_whole(&field[1], 1, INT64_MAX, &out->after, p))
        return false;
    out->limit = (uint32_t)limit;
    return true;
}

bool request_page(const char *query, page_request *out, problem *p) {
    query_field field[] = {{.name = "limit"}, {.name = "after"}, {.name = NULL}};
    return request_fields(query, field, HTTP_QUERY_PAGE, p) && take_page(field, out, p);
}

bool request_scene_list(const char *query, scene_list_request *out, problem *p) {
    query_field field[] = {{.name = "limit"}, {.name = "after"}, {.name = "find"}, {.name = NULL}};
    if (!request_fields(query, field, HTTP_QUERY_SCENES, p) || !take_page(field, &out->page, p)) return false;
    memcpy(out->find, field[2].text, sizeof out->find);
    return true;
}
