/* test_cost.c - what a step or a change is expected to cost, by what is in the scene: its triangles, its settings, and
 * what the catalogue says of its method. */
#include <math.h>

#include "proto/setting_rows.h"
#include "tests/unit/server/schedule/world.h"

enum { TRIANGLES = 1000 };

/* Of a scene of two bodies that was never stepped, on one core. */
static double estimate(command *command, const ct_scene_settings *running) {
    scene *scene = calloc(1, sizeof *scene);
    scene->record.running = scene->record.settings = *running;
    scene->triangles = TRIANGLES;
    scene->n_uses = 2;
    scene->size_m[1] = 1;
    scene->first = command;
    const portion portion = scheduler_next_portion(scene, 1);
    assert_int_equal(portion.n, 1);
    assert_false(portion.is_measured);
    free(scene);
    return portion.cost_s;
}

static ct_scene_settings with_method(ct_method method) {
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.method = method;
    return settings;
}

static void check_step(const ct_scene_settings *settings, double expected_s) {
    command step = {.kind = COMMAND_STEP};
    const double cost = estimate(&step, settings);
    if (fabs(cost - expected_s) > 1e-12) fail_msg("%g s, expected %g", cost, expected_s);
}

/* 30 us, and 100 ns a triangle: 130 us. */
static void test_steps(void **state) {
    (void)state;
    ct_scene_settings s = with_method(CT_METHOD_EXACT);
    check_step(&s, 130e-6);
    s.patches = true;
    check_step(&s, 430e-6);
    s = with_method(CT_METHOD_EXACT);
    s.margin = 0.1;
    check_step(&s, 180e-6);
    s = with_method(CT_METHOD_LDI);
    for (int k = 0; k < 3; k++) s.resolution[k] = 100;
    check_step(&s, 130e-6 + 3e4 * 5e-9);
    s.cell_size = 0.1;
    check_step(&s, 130e-6 + 3e4 * 10e-9);
    s = with_method(CT_METHOD_LDI);
    s.pixel_size = 0.01; /* of a scene of 1 m */
    check_step(&s, 130e-6 + 3e4 * 5e-9);
    s = with_method(CT_METHOD_EBPI);
    s.tolerance = 1e-9;
    check_step(&s, 130e-6 + CT_DEFAULT_RAY_BUDGET * 5e-9);
    s.ray_budget = 1000;
    check_step(&s, 130e-6 + 1000 * 5e-9);
    s = with_method(CT_METHOD_VOXTREE);
    s.max_points = 8; /* which its trees have */
    check_step(&s, 138e-6);
}

static void test_laws_and_points_count(void **state) {
    (void)state;
    ct_scene_settings s = with_method(CT_METHOD_EXACT);
    s.law = CT_LAW_PRESSURE;
    check_step(&s, 330e-6);
    s = with_method(CT_METHOD_EXACT);
    s.max_points = 8;
    check_step(&s, 138e-6 + 0.1e-6 * TRIANGLES);
    s = with_method(CT_METHOD_LDI);
    for (int k = 0; k < 3; k++) s.resolution[k] = 100;
    s.max_points = 8;
    check_step(&s, 138e-6 + 3e4 * 5e-9 + 0.1e-6 * TRIANGLES);
}

/* A change to a method makes what it derives from each mesh. */
static void test_changes(void **state) {
    (void)state;
    static const struct {
        ct_method to;
        double each_ns;
    } changes[] = {{CT_METHOD_AUTO, 200}, {CT_METHOD_LDI, 0}, {CT_METHOD_EXACT, 200}, {CT_METHOD_VOXTREE, 1000}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const ct_scene_settings before = with_method(CT_METHOD_LDI);
        command change = {.kind = COMMAND_CONFIGURE};
        change.in.configure.settings = (ct_settings_change){CT_GIVEN(CT_SETTING_METHOD), {.method = changes[i].to}};
        const double cost = estimate(&change, &before), expected = 1e-6 + 1e-9 * changes[i].each_ns * TRIANGLES;
        if (fabs(cost - expected) > 1e-12) fail_msg("to %d: %g s, expected %g", changes[i].to, cost, expected);
    }
}

static void test_methods_of_no_row_cost_nothing(void **state) {
    (void)state;
    static const int none[] = {CT_METHOD_NONE, 6, 1000, -1};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        const ct_method_cost cost = ct_method_cost_of((ct_method)none[i]);
        assert_true(cost.prepare_ns == 0 && cost.points_ns == 0 && cost.usual_rays == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_laws_and_points_count),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_methods_of_no_row_cost_nothing),
    };
    return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
