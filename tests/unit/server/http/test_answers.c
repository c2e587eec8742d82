/* Steps as JSON, of results made by hand: several contacts of a pair, and a body with itself. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/http/answers.h"
#include "server/registry/answer.h"
#include "tests/unit/unit.h"

static json_t *answer_of(const ct_result *result) {
    json_out out;
    json_out_init(&out, 1 << 20);
    ct_result copy = *result;
    const step_answer answer = {
        .result = &copy, .settings = {.method = CT_METHOD_AUTO, .stiffness = 3, .patches = true}, .revision = 5};
    answer_step(&out, 9, &answer, "cpu");
    assert_int_equal(out.state, JSON_OUT_OK);
    json_error_t error;
    json_t *root = json_loadb(out.data, out.size, 0, &error);
    if (!root) fail_msg("%s: %.*s", error.text, (int)out.size, out.data);
    json_out_free(&out);
    return root;
}

static json_int_t integer(const json_t *array, size_t i) {
    assert_true(json_is_integer(json_array_get(array, i)));
    return json_integer_value(json_array_get(array, i));
}

static void every_contact_and_every_part(void **state) {
    (void)state;
    uint32_t vertices[] = {4, 5, 5, 6, 0, 1};
    double gradient[18] = {0};
    for (int i = 0; i < 18; i++) gradient[i] = i;
    ct_span spans[3] = {{.lower = {1, 2, 3}, .axis = 2, .lower_body = 1}};
    ct_contact contacts[] = {
        {.body = {3, 3}, .volume = 1, .error_bound = NAN, .first = {0, 2}, .count = {2, 2}, .n_spans = 1},
        {.body = {3, 8},
         .volume = 2,
         .error_bound = 0.5,
         .first = {4, 5},
         .count = {1, 0},
         .first_span = 1,
         .n_spans = 2},
        {.body = {3, 8}, .index = 1, .max_winding = 2, .volume = 3, .first = {5, 6}, .count = {1, 0}, .first_span = 3}};
    ct_result result = {.n_contacts = 3,
                        .contacts = contacts,
                        .n_entries = 6,
                        .vertices = vertices,
                        .gradient = gradient,
                        .n_spans = 3,
                        .spans = spans,
                        .want = CT_WANT_GRADIENT | CT_WANT_SPANS,
                        .method = CT_METHOD_LDI};
    json_t *root = answer_of(&result), *list = json_object_get(root, "contacts");
    assert_string_equal(json_string_value(json_object_get(root, "method")), "ldi");
    const json_t *settings = json_object_get(root, "settings");
    assert_string_equal(json_string_value(json_object_get(settings, "method")), "auto");
    assert_true(json_is_null(json_object_get(settings, "resolution")));
    assert_true(json_number_value(json_object_get(settings, "stiffness")) == 3);
    assert_true(json_is_true(json_object_get(settings, "patches")));
    assert_int_equal(json_integer_value(json_object_get(settings, "revision")), 5);
    assert_int_equal(json_array_size(list), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *contact = json_array_get(list, i), *sparse = json_object_get(contact, "sparse");
        const json_t *bodies = json_object_get(contact, "bodies");
        assert_true(json_number_value(json_object_get(contact, "volume")) == (double)(i + 1));
        assert_int_equal(json_array_size(json_object_get(contact, "spans")), contacts[i].n_spans);
        assert_int_equal(json_integer_value(json_object_get(contact, "index")), contacts[i].index);
        assert_int_equal(json_integer_value(json_object_get(contact, "max_winding")), contacts[i].max_winding);
        for (size_t part = 0; part < 2; part++) {
            const json_t *side = json_array_get(sparse, part), *named = json_object_get(side, "vertices");
            assert_int_equal(integer(bodies, part), contacts[i].body[part]);
            assert_int_equal(json_integer_value(json_object_get(side, "body")), contacts[i].body[part]);
            assert_int_equal(json_array_size(named), contacts[i].count[part]);
            for (size_t k = 0; k < contacts[i].count[part]; k++) {
                size_t entry = contacts[i].first[part] + k;
                const json_t *row = json_array_get(json_object_get(side, "gradient"), k);
                assert_int_equal(integer(named, k), vertices[entry]);
                assert_true(json_number_value(json_array_get(row, 2)) == gradient[3 * entry + 2]);
            }
        }
    }
    assert_true(json_is_null(json_object_get(json_array_get(list, 0), "error_bound")));
    assert_true(json_number_value(json_object_get(json_array_get(list, 1), "error_bound")) == 0.5);
    const json_t *span = json_array_get(json_object_get(json_array_get(list, 0), "spans"), 0);
    assert_int_equal(json_integer_value(json_object_get(span, "lower_body")), 3);
    json_decref(root);
}

/* What a scene was asked for, and what it runs. */
static void scenes_name_both_methods(void **state) {
    (void)state;
    static const char *const expected[] = {"\"running_method\":\"ldi\",\"method\":\"auto\",\"resolution\":null",
                                           "\"running_method\":\"ldi\",\"method\":\"ldi\",\"resolution\":[8,9,10]"};
    for (int named = 0; named < 2; named++) {
        scene_record scene = {.handle = 5, .settings = {.method = named ? CT_METHOD_LDI : CT_METHOD_AUTO}};
        for (uint32_t i = 0; named && i < 3; i++) scene.settings.resolution[i] = 8 + i;
        scene.running.method = CT_METHOD_LDI;
        json_out out;
        json_out_init(&out, 1 << 20);
        answer_scene(&out, &scene);
        char text[1024];
        snprintf(text, sizeof text, "%.*s", (int)out.size, out.data);
        if (!strstr(text, expected[named])) fail_msg("%s", text);
        json_out_free(&out);
    }
}

static void warnings_of_bodies(void **state) {
    (void)state;
    ct_warning warnings[] = {{CT_WARNING_BODY_INVERTED, 3, -0.125}, {CT_WARNING_BODY_COLLAPSED, 9, 0}};
    ct_result result = {.method = CT_METHOD_LDI, .warnings = warnings, .n_warnings = 2};
    json_t *root = answer_of(&result), *list = json_object_get(root, "warnings");
    assert_int_equal(json_array_size(list), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *w = json_array_get(list, i);
        assert_int_equal(json_object_size(w), 3);
        assert_string_equal(json_string_value(json_object_get(w, "code")), ct_warning_name(warnings[i].code));
        assert_int_equal(json_integer_value(json_object_get(w, "body")), warnings[i].body);
        assert_true(json_number_value(json_object_get(w, "volume")) == warnings[i].value);
    }
    json_decref(root);
    result.n_warnings = 0;
    root = answer_of(&result);
    assert_true(json_is_array(json_object_get(root, "warnings")));
    assert_int_equal(json_array_size(json_object_get(root, "warnings")), 0);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_contact_and_every_part),
                                       cmocka_unit_test(scenes_name_both_methods),
                                       cmocka_unit_test(warnings_of_bodies)};
    return cmocka_run_group_tests_name("answers", tests, NULL, NULL);
}
