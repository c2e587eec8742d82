/* router.c - see router.h. */
#include "server/http/router.h"

#include <stdio.h>
#include <string.h>

#include "server/http/text.h"

static const struct {
    const char *path;
    uint32_t methods;
    const char *get_query, *post_query;
} routes[ROUTE_COUNT] = {
#define HTTP_ROUTE_ROW(name, path, methods, auth, slow, work, get_query, post_query, run)                              \
    {path, methods, get_query, post_query},
    HTTP_ROUTES(HTTP_ROUTE_ROW)
#undef HTTP_ROUTE_ROW
};

static const struct {
    const char *name;
    uint32_t bit;
} methods[] = {
    {"GET", HTTP_GET}, {"HEAD", HTTP_GET}, {"POST", HTTP_POST}, {"PATCH", HTTP_PATCH}, {"DELETE", HTTP_DELETE}};
enum { N_METHODS = sizeof methods / sizeof *methods };

const char *route_path(http_route route) {
    return routes[route].path;
}

const char *route_query(http_route route, uint32_t method) {
    return method == HTTP_GET ? routes[route].get_query : method == HTTP_POST ? routes[route].post_query : "";
}

uint32_t route_method(const char *method) {
    for (size_t i = 0; i < N_METHODS; i++)
        if (strcmp(method, methods[i].name) == 0) return methods[i].bit;
    return 0;
}

const char *route_allow(uint32_t allowed, char *out, size_t size) {
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < N_METHODS; i++)
        if (methods[i].bit & allowed && at < size)
            at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", methods[i].name);
    return out;
}

/* Whether path is one of the template's; copies what stands for {…} into parameter. */
static bool fits(const char *template, const char *path, char parameter[2][80]) {
    size_t n = 0;
    while (*template) {
        if (*template != '{') {
            if (*template ++ != *path++) return false;
            continue;
        }
        size_t length = strcspn(path, "/");
        if (length == 0 || length >= sizeof parameter[0]) return false;
        memcpy(parameter[n], path, length);
        parameter[n++][length] = 0;
        path += length;
        template += strcspn(template, "}") + 1;
    }
    return *path == 0;
}

bool route_find(const char *method, const char *path, route_match *match, problem *p) {
    char shown[200];
    for (int i = 0; i < ROUTE_COUNT; i++) {
        memset(match, 0, sizeof *match);
        if (!fits(routes[i].path, path, match->parameter)) continue;
        match->route = (http_route)i;
        match->method = route_method(method);
        if (match->method & routes[i].methods) return true;
        char allow[48];
        problem_set(p, CONTACTD_METHOD_NOT_ALLOWED, NULL, "%s has no method %s; it has %s", routes[i].path,
                    text_clean(method, shown, 32), route_allow(routes[i].methods, allow, sizeof allow));
        p->allow = routes[i].methods;
        return false;
    }
    return problem_set_http(p, CONTACTD_NOT_FOUND, 404, "no such resource", NULL,
                            "there is nothing at %s; /openapi.json lists what there is",
                            text_clean(path, shown, sizeof shown));
}

bool route_number(const char *text, uint64_t max, uint64_t *out) {
    uint64_t value = 0;
    if (*text < '1' || *text > '9') return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        uint64_t digit = (uint64_t)(*text - '0');
        if (value > (max - digit) / 10) return false;
        value = value * 10 + digit;
    }
    *out = value;
    return value <= max;
}

static bool no_such(problem *p, const char *kind, const char *text) {
    char shown[100];
    text_clean(text, shown, sizeof shown);
    problem_set(p, CONTACTD_NOT_FOUND, kind, "there is no %s %s: expected the number that was given when it was made",
                kind, shown);
    snprintf(p->object, sizeof p->object, "%s %.80s", kind, shown);
    return false;
}

bool route_scene(const route_match *match, uint64_t *scene, problem *p) {
    return route_number(match->parameter[0], INT64_MAX, scene) || no_such(p, "scene", match->parameter[0]);
}

bool route_body(const route_match *match, uint32_t *body, problem *p) {
    uint64_t number;
    if (!route_number(match->parameter[1], UINT32_MAX, &number)) return no_such(p, "body", match->parameter[1]);
    *body = (uint32_t)number;
    return true;
}
