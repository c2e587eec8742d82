/* Units of server/http/router.h, and that proto/openapi.json describes exactly its rows: resources, methods, who may ask,
 * query parameters, bodies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "server/http/assets.h"
#include "server/http/handlers.h"
#include "server/http/requests.h"
#include "server/http/router.h"

static const uint32_t methods_of[ROUTE_COUNT] = {
#define METHODS(name, path, methods, ...) methods,
    HTTP_ROUTES(METHODS)
#undef METHODS
};

static void finds_every_resource(void **state) {
    (void)state;
    for (int i = 0; i < ROUTE_COUNT; i++) {
        char path[200] = "";
        for (const char *c = route_path((http_route)i); *c; c++) {
            size_t n = strlen(path);
            if (*c == '{') {
                path[n] = '7';
                c += strcspn(c, "}");
            } else {
                path[n] = *c;
            }
            path[n + 1] = 0;
        }
        problem p = {0};
        route_match match;
        const char *method = methods_of[i] & HTTP_GET ? "GET" : "POST";
        assert_true(route_find(method, path, &match, &p));
        assert_int_equal(match.route, i);
        if (strchr(route_path((http_route)i), '{')) assert_string_equal(match.parameter[0], "7");
    }
}

static void takes_parameters(void **state) {
    (void)state;
    problem p = {0};
    route_match match;
    uint64_t scene;
    uint32_t body;
    assert_true(route_find("DELETE", "/v1/scenes/4503599627370495/bodies/4294967295", &match, &p));
    assert_int_equal(match.route, ROUTE_BODY);
    assert_int_equal(match.method, HTTP_DELETE);
    assert_true(route_scene(&match, &scene, &p));
    assert_true(route_body(&match, &body, &p));
    assert_true(scene == 4503599627370495u && body == UINT32_MAX);
    assert_true(route_find("HEAD", "/v1/meshes/0badcafe", &match, &p));
    assert_int_equal(match.method, HTTP_GET);
    assert_string_equal(match.parameter[0], "0badcafe");
}

static void refuses_paths(void **state) {
    (void)state;
    static const char *const none[] = {"",
                                       "//",
                                       "/v1",
                                       "/v1/",
                                       "/v1/meshes/",
                                       "/v1/meshes/a/b",
                                       "/v1/scenes/1/bodies/",
                                       "/v1/scenes//bodies",
                                       "/v1/scenes/1/steps",
                                       "/V1/status",
                                       "/v1/status%00",
                                       "/../etc/passwd",
                                       "/v1/status\xff"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        problem p = {0};
        route_match match;
        assert_false(route_find("GET", none[i], &match, &p));
        assert_int_equal(p.code, CONTACTD_NOT_FOUND);
    }
}

static void refuses_methods(void **state) {
    (void)state;
    problem p = {0};
    route_match match;
    char allow[48];
    assert_false(route_find("PUT", "/v1/scenes/3", &match, &p));
    assert_int_equal(p.code, CONTACTD_METHOD_NOT_ALLOWED);
    assert_int_equal(problem_status(&p), 405);
    assert_string_equal(route_allow(p.allow, allow, sizeof allow), "GET, HEAD, PATCH, DELETE");
    problem q = {0};
    assert_false(route_find("GET", "/v1/scenes/3/step", &match, &q));
    assert_string_equal(route_allow(q.allow, allow, sizeof allow), "POST");
}

static void reads_numbers(void **state) {
    (void)state;
    uint64_t n = 5;
    assert_true(route_number("1", 10, &n) && n == 1);
    assert_true(route_number("10", 10, &n) && n == 10);
    assert_true(route_number("18446744073709551615", UINT64_MAX, &n) && n == UINT64_MAX);
    static const char *const bad[] = {"", "0", "01", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "11", "99999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(route_number(bad[i], 10, &n));
    assert_false(route_number("18446744073709551616", UINT64_MAX, &n));
    problem p = {0};
    route_match match;
    assert_true(route_find("GET", "/v1/scenes/0x1", &match, &p));
    assert_false(route_scene(&match, &n, &p));
    assert_int_equal(problem_status(&p), 404);
}

/* A parameter of an operation, or what its $ref refers to. */
static const json_t *resolved(const json_t *root, const json_t *parameter) {
    const char *link = json_string_value(json_object_get(parameter, "$ref"));
    if (!link) return parameter;
    const json_t *all = json_object_get(json_object_get(root, "components"), "parameters");
    return json_object_get(all, strrchr(link, '/') + 1);
}

/* The operation's query parameters are the route's words, in the same order. */
static void check_query(const json_t *root, const json_t *operation, http_route route, uint32_t method) {
    char words[300] = "";
    size_t i;
    const json_t *item;
    json_array_foreach(json_object_get(operation, "parameters"), i, item) {
        const json_t *parameter = resolved(root, item);
        if (strcmp(json_string_value(json_object_get(parameter, "in")), "query") != 0) continue;
        const size_t n = strlen(words);
        snprintf(words + n, sizeof words - n, "%s%s", n ? " " : "",
                 json_string_value(json_object_get(parameter, "name")));
    }
    assert_string_equal(words, route_query(route, method));
}

/* security []: nobody has to say who they are. Elsewhere the document's default holds. */
static void check_operation(const json_t *root, const json_t *operation, http_route route, uint32_t method) {
    const route_match match = {.route = route, .method = method};
    const json_t *security = json_object_get(operation, "security");
    if ((handler_auth(&match) == AUTH_NONE) != (security && json_array_size(security) == 0))
        fail_msg("%s: openapi.json and the row differ in who may ask", route_path(route));
    const bool has_body = json_object_get(operation, "requestBody") != NULL;
    if (has_body != (handler_takes_body(&match) && route != ROUTE_DRAIN)) /* which is a POST of nothing */
        fail_msg("%s: openapi.json and the router differ in the body", route_path(route));
    check_query(root, operation, route, method);
}

static void openapi_describes_the_routes(void **state) {
    (void)state;
    json_error_t error;
    json_t *root = json_loadb(asset_openapi().bytes, asset_openapi().size, JSON_REJECT_DUPLICATES, &error);
    assert_non_null(root);
    const json_t *paths = json_object_get(root, "paths");
    assert_int_equal(json_object_size(paths), ROUTE_COUNT);
    static const char *const names[] = {"get", "post", "patch", "delete"};
    for (int i = 0; i < ROUTE_COUNT; i++) {
        const json_t *item = json_object_get(paths, route_path((http_route)i));
        if (!item) fail_msg("%s is not in openapi.json", route_path((http_route)i));
        for (int m = 0; m < 4; m++) {
            const json_t *operation = json_object_get(item, names[m]);
            if ((operation != NULL) != ((methods_of[i] >> m & 1) != 0))
                fail_msg("%s %s: openapi.json and the router differ", names[m], route_path((http_route)i));
            if (operation) check_operation(root, operation, (http_route)i, 1u << m);
        }
        assert_null(json_object_get(item, "put"));
        assert_null(json_object_get(item, "options"));
    }
    json_decref(root);
}

/* The readers of queries know the words of the rows: each refuses the value, not the word. */
static void readers_know_the_words(void **state) {
    (void)state;
    static const struct {
        http_route route;
        const char *expected;
    } read_by[] = {{ROUTE_SESSIONS, "limit after"}, {ROUTE_SNAPSHOT, HTTP_QUERY_SNAPSHOT}};
    for (size_t r = 0; r < sizeof read_by / sizeof *read_by; r++) {
        const char *words = route_query(read_by[r].route, HTTP_GET);
        assert_string_equal(words, read_by[r].expected);
        for (size_t length; *words; words += length + (words[length] == ' ')) {
            char query[64];
            ct_snapshot_options options;
            page_request page;
            problem p = {0};
            length = strcspn(words, " ");
            snprintf(query, sizeof query, "%.*s=%%7E", (int)length, words);
            assert_false(r ? request_snapshot(query, &options, &p) : request_page(query, &page, &p));
            if (strncmp(p.field, words, length) != 0) fail_msg("%s: %s", query, p.detail);
        }
    }
}

static void slow_methods_are_methods(void **state) {
    (void)state;
    for (int i = 0; i < ROUTE_COUNT; i++)
        for (uint32_t method = 1; method <= HTTP_DELETE; method *= 2) {
            const route_match match = {.route = (http_route)i, .method = method};
            work_kind kind = WORK_KINDS;
            const bool is_slow = handler_is_slow(&match, &kind);
            assert_true(is_slow == (kind != WORK_KINDS) && kind >= 0);
            assert_true(handler_computes(&match) == is_slow);
            /* What changes something, or computes, is no work of the threads that answer from memory. */
            if (methods_of[i] & method & ~(uint32_t)HTTP_GET && i != ROUTE_DRAIN) assert_true(is_slow);
        }
}

static void openapi_lists_the_codes(void **state) {
    (void)state;
    json_t *root = json_loadb(asset_openapi().bytes, asset_openapi().size, 0, NULL);
    assert_non_null(root);
    json_t *codes = NULL;
    assert_int_equal(json_unpack(root, "{s{s{s{s{s{so}}}}}}", "components", "schemas", "Problem", "properties", "code",
                                 "enum", &codes),
                     0);
    static const char *const names[] = {
#define NAME(name, ...) #name,
        CONTACTD_ERROR_MAP(NAME)
#undef NAME
    };
    size_t n = sizeof names / sizeof *names;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) { /* all but those that no server sends over HTTP */
        if (strcmp(names[i], "OK") == 0 || strcmp(names[i], "UNREACHABLE") == 0 ||
            strcmp(names[i], "SERVER_ENDED") == 0 || strcmp(names[i], "CANCELLED") == 0)
            continue;
        assert_true(at < json_array_size(codes));
        assert_string_equal(json_string_value(json_array_get(codes, at)), names[i]);
        at++;
    }
    assert_int_equal(json_array_size(codes), at);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_every_resource),
        cmocka_unit_test(takes_parameters),
        cmocka_unit_test(refuses_paths),
        cmocka_unit_test(refuses_methods),
        cmocka_unit_test(reads_numbers),
        cmocka_unit_test(openapi_describes_the_routes),
        cmocka_unit_test(openapi_lists_the_codes),
        cmocka_unit_test(readers_know_the_words),
        cmocka_unit_test(slow_methods_are_methods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
