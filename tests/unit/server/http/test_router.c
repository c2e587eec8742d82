/* Units of server/http/router.h, and that proto/openapi.json describes exactly its resources and methods. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "server/http/assets.h"
#include "server/http/router.h"

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
        const char *method = route_methods((http_route)i) & HTTP_GET ? "GET" : "POST";
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
            bool described = json_object_get(item, names[m]) != NULL;
            if (described != ((route_methods((http_route)i) >> m & 1) != 0))
                fail_msg("%s %s: openapi.json and the router differ", names[m], route_path((http_route)i));
        }
        assert_null(json_object_get(item, "put"));
        assert_null(json_object_get(item, "options"));
    }
    json_decref(root);
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
    for (size_t i = 0; i < n; i++) { /* all but those that no server sends */
        if (strcmp(names[i], "OK") == 0 || strcmp(names[i], "UNREACHABLE") == 0 ||
            strcmp(names[i], "SERVER_ENDED") == 0)
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
        cmocka_unit_test(finds_every_resource),    cmocka_unit_test(takes_parameters),
        cmocka_unit_test(refuses_paths),           cmocka_unit_test(refuses_methods),
        cmocka_unit_test(reads_numbers),           cmocka_unit_test(openapi_describes_the_routes),
        cmocka_unit_test(openapi_lists_the_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
