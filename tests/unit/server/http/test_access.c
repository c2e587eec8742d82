/* Units of server/http/access.h, media.h and text.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/http/access.h"
#include "server/http/media.h"
#include "server/http/text.h"

static int asked(const char *host, const char *origin, const char *site, bool changes, bool loopback) {
    static const char *const names[] = {"sim.example", "gateway"};
    problem p = {0};
    access_request request = {.host = host,
                              .origin = origin,
                              .sec_fetch_site = site,
                              .changes = changes,
                              .loopback = loopback,
                              .names = names,
                              .n_names = 2};
    return access_check(&request, &p) ? 200 : problem_status(&p);
}

static void knows_this_machine(void **state) {
    (void)state;
    static const char *const ours[] = {"localhost", "localhost:8080", "LocalHost",   "127.0.0.1:1",     "127.9.8.7",
                                       "[::1]",     "[::1]:8080",     "a.localhost", "x.y.localhost:80"};
    static const char *const others[] = {"evil.example",  "evil.example:8080",      "localhost.evil.example",
                                         "evillocalhost", "127.0.0.1.evil.example", ".localhost",
                                         "x.sim.example", "gateway.evil.example"};
    static const char *const addresses[] = {"10.0.0.1", "[2001:db8::1]:80", "192.0.2.1:8080"};
    static const char *const listed[] = {"sim.example", "SIM.example:8080", "gateway:1"};
    static const char *const broken[] = {"",   ":80", "[::1", "localhost:port", "localhost:123456", "[::1]x",
                                         "[]", "a b", "a/b",  "b\xc3\xbc"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        assert_int_equal(asked(ours[i], NULL, NULL, false, true), 200);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(asked(others[i], NULL, NULL, false, true), 403);
        assert_int_equal(asked(others[i], NULL, NULL, true, false), 403); /* rebinding needs a name */
    }
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        assert_int_equal(asked(addresses[i], NULL, NULL, false, true), 403);
        assert_int_equal(asked(addresses[i], NULL, NULL, true, false), 200);
    }
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) {
        assert_int_equal(asked(listed[i], NULL, NULL, false, true), 200);
        assert_int_equal(asked(listed[i], NULL, NULL, true, false), 200);
    }
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_int_equal(asked(broken[i], NULL, NULL, false, false), 400);
    assert_int_equal(asked(NULL, NULL, NULL, false, true), 400);
}

static void refuses_other_sites(void **state) {
    (void)state;
    const char *host = "localhost:8080";
    assert_int_equal(asked(host, NULL, NULL, true, true), 200); /* no browser */
    assert_int_equal(asked(host, "http://localhost:8080", "same-origin", true, true), 200);
    assert_int_equal(asked(host, NULL, "none", true, true), 200);
    assert_int_equal(asked(host, "http://localhost:8080", NULL, true, true), 200);
    assert_int_equal(asked(host, "http://evil.example", NULL, true, true), 403);
    assert_int_equal(asked(host, "http://localhost:9090", NULL, true, true), 403);
    assert_int_equal(asked(host, "null", NULL, true, true), 403);
    assert_int_equal(asked(host, NULL, "cross-site", true, true), 403);
    assert_int_equal(asked(host, NULL, "same-site", true, true), 403);
    assert_int_equal(asked(host, "http://evil.example", "same-origin", true, true), 403);
    assert_int_equal(asked(host, "http://evil.example", "cross-site", false, true), 200); /* changes nothing */
}

static int asked_for_work(const char *site) {
    problem p = {0};
    access_request request = {.host = "localhost", .sec_fetch_site = site, .computes = true, .loopback = true};
    return access_check(&request, &p) ? 200 : problem_status(&p);
}

static void other_sites_cause_no_work(void **state) {
    (void)state;
    assert_int_equal(asked_for_work(NULL), 200);
    assert_int_equal(asked_for_work("same-origin"), 200);
    assert_int_equal(asked_for_work("none"), 200); /* typed by a person */
    assert_int_equal(asked_for_work("cross-site"), 403);
    assert_int_equal(asked_for_work("same-site"), 403);
}

static void reads_tokens(void **state) {
    (void)state;
    size_t size;
    const char *token = access_token("Bearer abc123", &size);
    assert_int_equal(size, 6);
    assert_memory_equal(token, "abc123", 6);
    assert_non_null(access_token("bearer   x", &size)); /* schemes have no case */
    assert_int_equal(size, 1);
    static const char *const broken[] = {"", "Bearer", "Bearer ", "Bearerabc", "Basic abc", "Bearer a b", "Bearer a "};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) assert_null(access_token(broken[i], &size));
    assert_null(access_token(NULL, &size));
}

static void knows_media(void **state) {
    (void)state;
    problem p = {0};
    media m;
    assert_true(media_find("Model/PLY; charset=binary", true, &m, &p));
    assert_true(m.kind == MEDIA_MESH && m.format == CT_FORMAT_PLY);
    assert_true(media_find("model/gltf-binary", true, &m, &p) && m.format == CT_FORMAT_GLTF);
    assert_true(media_find("application/json", true, &m, &p) && m.kind == MEDIA_JSON);
    assert_true(media_find(NULL, true, &m, &p) && m.kind == MEDIA_ANY);
    assert_true(media_find(NULL, false, &m, &p) && m.kind == MEDIA_JSON);
    assert_false(media_find("model/obj", false, &m, &p));
    assert_int_equal(problem_status(&p), 415);
    problem q = {0};
    assert_true(media_find("application/x-www-form-urlencoded", true, &m, &q) && m.kind == MEDIA_ANY);
    problem form = {0};
    assert_false(media_find("application/x-www-form-urlencoded", false, &m, &form));
    assert_int_equal(problem_status(&form), 415);
    assert_false(media_find("text/html", true, &m, &q));
    assert_non_null(strstr(q.detail, "model/ply"));
    problem r = {0};
    assert_false(media_find("", false, &m, &r));
    assert_true(media_looks_like_json(" \n{", 3));
    assert_true(media_looks_like_json("{\"vertices\":", 12));
    assert_false(media_looks_like_json("{ \"asset\":", 10));
    assert_true(media_looks_like_json("{\"asse", 6));
    assert_false(media_looks_like_json("ply", 3));
    assert_false(media_looks_like_json("  ", 2));
}

static void cleans_text(void **state) {
    (void)state;
    char out[64], small[8];
    assert_string_equal(text_clean("a\xff"
                                   "b\n\xc3\xa9",
                                   out, sizeof out),
                        "a\xef\xbf\xbd"
                        "b \xc3\xa9");
    assert_string_equal(text_clean("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", small, sizeof small),
                        "\xc3\xa9\xc3\xa9\xc3\xa9");
    assert_true(text_is_utf8("\xf0\x9f\x94\xa9", 4));
    assert_false(text_is_utf8("\xf0\x9f\x94\xa9", 3));
    assert_false(text_is_utf8("\xed\xa0\x80", 3));     /* a surrogate */
    assert_false(text_is_utf8("\xc0\xaf", 2));         /* overlong */
    assert_false(text_is_utf8("\xf4\x90\x80\x80", 4)); /* above U+10FFFF */
    assert_false(text_is_utf8("a\0b", 3));
}

static void reads_queries(void **state) {
    (void)state;
    const char *query = "&name=a%20b+c&x&y=";
    text_view name, value;
    char out[8];
    assert_true(text_next_parameter(&query, &name, &value));
    assert_true(name.size == 4 && memcmp(name.data, "name", 4) == 0);
    assert_true(text_unescape(value.data, value.size, true, out, sizeof out));
    assert_string_equal(out, "a b c");
    assert_true(text_next_parameter(&query, &name, &value) && name.size == 1 && value.size == 0);
    assert_true(text_next_parameter(&query, &name, &value) && name.data[0] == 'y' && value.size == 0);
    assert_false(text_next_parameter(&query, &name, &value));
    static const char *const bad[] = {"%", "%4", "%zz", "%00", "12345678"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(text_unescape(bad[i], strlen(bad[i]), true, out, sizeof out));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_this_machine),
        cmocka_unit_test(refuses_other_sites),
        cmocka_unit_test(other_sites_cause_no_work),
        cmocka_unit_test(reads_tokens),
        cmocka_unit_test(knows_media),
        cmocka_unit_test(cleans_text),
        cmocka_unit_test(reads_queries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
