/* test_setting_rows.c - settings as rows: defaults, what is left out, ranges and their messages, and what a change of the
 * method does, for every row. */
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

#include "proto/setting_rows.h"

static const ct_setting_row *row_of(int s) {
    return &ct_setting_rows[s];
}

/* A value in range that is not 0. */
static void set_some(const ct_setting_row *row, ct_scene_settings *settings) {
    for (int i = 0; i < (row->type == CT_SETTING_IS_U32X3 ? 3 : 1); i++)
        if (row->type == CT_SETTING_IS_F64)
            ct_setting_set_number(row, settings, row->most < 1 ? row->most : 1);
        else if (row->type == CT_SETTING_IS_CHOICE)
            ct_setting_set_integer(row, settings, 0, row->choices[1].number);
        else
            ct_setting_set_integer(row, settings, i, row->from > 1 ? (int64_t)row->from : 1);
}

static void test_rows_are_whole(void **state) {
    (void)state;
    for (int s = 0; s < CT_SETTINGS; s++) {
        const ct_setting_row *row = row_of(s);
        assert_true(row->offset < sizeof(ct_scene_settings) && *row->summary && row->methods);
        assert_int_equal(row->type == CT_SETTING_IS_CHOICE, row->choices != NULL);
        for (int other = 0; other < s; other++) {
            assert_string_not_equal(row_of(other)->name, row->name);
            assert_true(row_of(other)->id != row->id || row_of(other)->is_voxels != row->is_voxels);
            assert_true(row_of(other)->offset < row->offset);
        }
    }
}

static void test_defaults_are_in_range(void **state) {
    (void)state;
    ct_scene_settings settings;
    char message[512];
    ct_scene_settings_init(&settings);
    assert_true(ct_settings_are_filled(&settings));
    assert_true(settings.method == CT_METHOD_AUTO && settings.stiffness == 1 && !settings.resolution[2]);
    for (int s = 0; s < CT_SETTINGS; s++) {
        assert_int_equal(ct_setting_check(row_of(s), &settings, message, sizeof message), CONTACTD_OK);
        set_some(row_of(s), &settings);
        assert_int_equal(ct_setting_check(row_of(s), &settings, message, sizeof message), CONTACTD_OK);
    }
}

/* Each alone is told from those that are left out, and copied. */
static void test_what_is_given(void **state) {
    (void)state;
    ct_scene_settings partial, copy;
    ct_settings_leave_out(&partial);
    assert_true(ct_settings_given(&partial).given == 0);
    for (int s = 0; s < CT_SETTINGS; s++) {
        ct_settings_leave_out(&partial);
        set_some(row_of(s), &partial);
        const ct_settings_change change = ct_settings_given(&partial);
        assert_true(change.given == CT_GIVEN(s));
        assert_false(ct_setting_is_zero(row_of(s), &change.to));
        for (int other = 0; other < CT_SETTINGS; other++)
            if (other != s) assert_true(ct_setting_is_zero(row_of(other), &change.to));
        ct_scene_settings_init(&copy);
        ct_setting_copy(row_of(s), &copy, &partial);
        assert_true(ct_setting_number(row_of(s), &copy) == ct_setting_number(row_of(s), &partial));
        assert_true(ct_setting_integer(row_of(s), &copy, 0) == ct_setting_integer(row_of(s), &partial, 0));
    }
}

static void assert_says(contactd_code code, contactd_code expected, const char *message, const char *words) {
    assert_int_equal(code, expected);
    if (!strstr(message, words)) fail_msg("\"%s\" does not say \"%s\"", message, words);
}

static void test_ranges(void **state) {
    (void)state;
    static const struct {
        ct_setting setting;
        double value;
        contactd_code code;
        const char *words;
    } cases[] = {
        {CT_SETTING_MARGIN, -1, CONTACTD_OUT_OF_RANGE, "margin is -1 m, expected 0 to 1e+30"},
        {CT_SETTING_MARGIN, NAN, CONTACTD_NON_FINITE, "margin is nan"},
        {CT_SETTING_PIXEL_SIZE, 1e-31, CONTACTD_OUT_OF_RANGE, "expected 1e-30 to 1e+30, or 0 for none"},
        {CT_SETTING_RAY_BUDGET, 2, CONTACTD_OUT_OF_RANGE, "expected 3, one for each view, to 268435456, or 0 for"},
        {CT_SETTING_VOXEL_LEVEL, 9, CONTACTD_OUT_OF_RANGE, "voxel_level is 9, expected 3 to 8, or 0 for one that"},
        {CT_SETTING_ALLOCATION, 3, CONTACTD_OUT_OF_RANGE, "expected optimal, published or per_pixel"},
        {CT_SETTING_STRICT, 2, CONTACTD_OUT_OF_RANGE, "strict is 2, expected 0 or 1"},
        {CT_SETTING_RESOLUTION, 4097, CONTACTD_OUT_OF_RANGE, "resolution is 4097 along x, expected 1 to 4096"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_scene_settings settings;
        char message[512] = "";
        ct_scene_settings_init(&settings);
        ct_setting_set_number(row_of((int)cases[i].setting), &settings, cases[i].value);
        const contactd_code code = ct_setting_check(row_of((int)cases[i].setting), &settings, message, sizeof message);
        assert_says(code, cases[i].code, message, cases[i].words);
    }
    ct_scene_settings settings = {.pair_budget = UINT64_MAX - 5};
    char message[512];
    assert_says(ct_setting_check(row_of(CT_SETTING_PAIR_BUDGET), &settings, message, sizeof message),
                CONTACTD_OUT_OF_RANGE, message, "18446744073709551610");
}

/* What a request names chooses its method, and a change of the method drops what the new one does not take. */
static void test_changes(void **state) {
    (void)state;
    for (int s = 0; s < CT_SETTINGS; s++) {
        ct_scene_settings settings, partial;
        const char *field = NULL;
        char message[512];
        if (s == CT_SETTING_METHOD) continue;
        ct_scene_settings_init(&settings);
        ct_settings_leave_out(&partial);
        set_some(row_of(s), &partial);
        ct_settings_change change = ct_settings_given(&partial);
        assert_int_equal(ct_settings_apply(&settings, &change, &field, message, sizeof message), CONTACTD_OK);
        assert_int_equal(settings.method, row_of(s)->chooses ? row_of(s)->chooses : CT_METHOD_AUTO);
        assert_false(ct_setting_is_zero(row_of(s), &settings));
        for (const ct_setting_choice *m = row_of(CT_SETTING_METHOD)->choices; m->name; m++) {
            ct_scene_settings changed = settings;
            change = (ct_settings_change){CT_GIVEN(CT_SETTING_METHOD), {.method = (ct_method)m->number}};
            assert_int_equal(ct_settings_apply(&changed, &change, &field, message, sizeof message), CONTACTD_OK);
            const uint32_t takes = row_of(s)->methods | row_of(s)->kept_by;
            assert_int_equal(ct_setting_is_zero(row_of(s), &changed), !(takes & 1u << m->number));
            const ct_setting_row *refused = ct_settings_not_taken(&settings, (ct_method)m->number);
            assert_true((refused == row_of(s)) == !(row_of(s)->methods & 1u << m->number));
        }
        if (row_of(s)->methods != CT_METHODS_ALL)
            assert_true(row_of(s)->methods & 1u << ct_setting_taken_by(row_of(s)));
        set_some(row_of(s), &partial);
        change = ct_settings_given(&partial);
        memset(&change.to, 0, sizeof change.to);
        const contactd_code code = ct_settings_apply(&settings, &change, &field, message, sizeof message);
        assert_int_equal(code, row_of(s)->is_zero_left_out ? CONTACTD_OUT_OF_RANGE : CONTACTD_OK);
        if (code) assert_string_equal(field, row_of(s)->name);
    }
}

/* Points of voxel trees are others than those of methods without them. */
static void test_points_go_with_the_trees(void **state) {
    (void)state;
    ct_scene_settings settings;
    const char *field;
    char message[512];
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_VOXTREE;
    settings.max_points = 4;
    const ct_settings_change change = {CT_GIVEN(CT_SETTING_METHOD), {.method = CT_METHOD_EXACT}};
    assert_int_equal(ct_settings_apply(&settings, &change, &field, message, sizeof message), CONTACTD_OK);
    assert_int_equal(settings.max_points, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_whole), cmocka_unit_test(test_defaults_are_in_range),
        cmocka_unit_test(test_what_is_given),  cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_changes),        cmocka_unit_test(test_points_go_with_the_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
