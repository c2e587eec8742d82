/* test_query.c - the query of a snapshot: every parameter arrives, and everything else is refused by name. */
#include <string.h>

#include "server/http/requests.h"
#include "tests/unit/unit.h"

static void nothing_is_the_default(void **state) {
    (void)state;
    ct_snapshot_options o, defaults;
    problem p = {0};
    ct_snapshot_options_init(&defaults);
    memset(&o, 7, sizeof o);
    assert_true(request_snapshot("", &o, &p));
    assert_int_equal(o.width, defaults.width);
    assert_int_equal(o.show, defaults.show);
    assert_true(o.opacity == defaults.opacity && !o.has_eye && !o.has_target && o.up[2] == 1);
}

static void every_parameter_arrives(void **state) {
    (void)state;
    ct_snapshot_options o;
    problem p = {0};
    if (!request_snapshot("width=640&height=480&contact=3,1048578&show=axes,bodies&resolution=12&azimuth=-12.5&"
                          "elevation=%2B30&up=0%2C1,0&eye=1e3,-2,.5&target=0,0,1&zoom=2&field_of_view=45&opacity=0&"
                          "background=8040C020",
                          &o, &p))
        fail_msg("%s", p.detail);
    assert_int_equal(o.width, 640);
    assert_int_equal(o.height, 480);
    assert_int_equal(o.contact[0], 3);
    assert_int_equal(o.contact[1], 1048578);
    assert_int_equal(o.show, CT_SHOW_AXES | CT_SHOW_BODIES);
    assert_int_equal(o.resolution, 12);
    assert_true(o.azimuth == -12.5 && o.elevation == 30 && o.zoom == 2 && o.field_of_view == 45 && o.opacity == 0);
    assert_true(o.up[0] == 0 && o.up[1] == 1 && o.up[2] == 0);
    assert_true(o.has_eye && o.eye[0] == 1000 && o.eye[1] == -2 && o.eye[2] == 0.5);
    assert_true(o.has_target && o.target[0] == 0 && o.target[2] == 1);
    const int background[4] = {0x80, 0x40, 0xc0, 0x20};
    for (int i = 0; i < 4; i++) assert_true(o.background[i] == background[i] / 255.0);
}

static void refusals_name_the_parameter(void **state) {
    (void)state;
    static const struct {
        const char *query, *field;
        contactd_code code;
    } cases[] = {
        {"width", "width", CONTACTD_INVALID_ARGUMENT},
        {"width=", "width", CONTACTD_INVALID_ARGUMENT},
        {"width= 64", "width", CONTACTD_INVALID_ARGUMENT},
        {"width=64,", "width", CONTACTD_INVALID_ARGUMENT},
        {"width=64x", "width", CONTACTD_INVALID_ARGUMENT},
        {"width=0x40", "width", CONTACTD_INVALID_ARGUMENT},
        {"width=5000000000", "width", CONTACTD_INVALID_ARGUMENT},
        {"width=15", "width", CONTACTD_OUT_OF_RANGE},
        {"width=64&zoom=1&width=64", "width", CONTACTD_INVALID_ARGUMENT},
        {"eye=1,2", "eye", CONTACTD_INVALID_ARGUMENT},
        {"eye=1,2,3,4", "eye", CONTACTD_INVALID_ARGUMENT},
        {"eye=,,", "eye", CONTACTD_INVALID_ARGUMENT},
        {"eye=1,2,infinity", "eye", CONTACTD_INVALID_ARGUMENT},
        {"eye=1e400,2,3", "eye", CONTACTD_INVALID_ARGUMENT},
        {"show=bodies,", "show", CONTACTD_INVALID_ARGUMENT},
        {"show=body", "show", CONTACTD_INVALID_ARGUMENT},
        {"background=%23ffffff", "background", CONTACTD_INVALID_ARGUMENT},
        {"background=ff%00fff", "background", CONTACTD_INVALID_ARGUMENT},
        {"zoom=%zz", "zoom", CONTACTD_INVALID_ARGUMENT},
        {"Width=64", "query", CONTACTD_INVALID_ARGUMENT},
        {"=64", "query", CONTACTD_INVALID_ARGUMENT},
        {"%%%=1", "query", CONTACTD_INVALID_ARGUMENT},
        {"contact=5,5", "contact", CONTACTD_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_snapshot_options o;
        problem p = {0};
        if (request_snapshot(cases[i].query, &o, &p)) fail_msg("%s was taken", cases[i].query);
        if (p.code != cases[i].code || strcmp(p.field, cases[i].field) != 0)
            fail_msg("%s: %s: %s", cases[i].query, p.field, p.detail);
    }
}

static void pages(void **state) {
    (void)state;
    page_request page;
    problem p = {0};
    assert_true(request_page("", &page, &p) && page.limit == 0 && page.after == 0);
    assert_true(request_page("limit=7&after=1048577", &page, &p) && page.limit == 7 && page.after == 1048577);
    static const char *const broken[] = {"limit=0", "limit=1001", "limit=-1", "limit=1e2",
                                         "limit=",  "after=x",    "after=0",  "limit=1&limit=1",
                                         "size=3",  "limit",      "LIMIT=1",  "after=99999999999999999999",
                                         "limitt=1"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        p = (problem){0};
        if (request_page(broken[i], &page, &p)) fail_msg("%s is taken", broken[i]);
        assert_int_equal(p.code, CONTACTD_INVALID_ARGUMENT);
    }
}

static void scenes_are_found(void **state) {
    (void)state;
    scene_list_request list;
    problem p = {0};
    assert_true(request_scene_list("", &list, &p) && list.page.limit == 0 && !list.find[0]);
    assert_true(request_scene_list("find=arm%207&limit=20&after=3", &list, &p));
    assert_string_equal(list.find, "arm 7");
    assert_true(list.page.limit == 20 && list.page.after == 3);
    static const char *const broken[] = {"find=", "find=a&find=b", "limit=0&find=a", "name=a",
                                         "find=1234567890123456789012345678901234567890123456789012345678901234"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        if (request_scene_list(broken[i], &list, &p)) fail_msg("%s is taken", broken[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_the_default), cmocka_unit_test(scenes_are_found),
                                       cmocka_unit_test(every_parameter_arrives),
                                       cmocka_unit_test(refusals_name_the_parameter), cmocka_unit_test(pages)};
    return cmocka_run_group_tests_name("snapshot query", tests, NULL, NULL);
}
