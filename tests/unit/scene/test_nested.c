/* test_nested.c - which contacts are nested, by every method with a gradient, on every backend, and the word that a
 * step has of it: the inner body, once, unless its surface has a graver condition. */
#include <math.h>
#include <string.h>

#include "gpu/method/backend.h"
#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

static struct shape big, small, bar;

static const ct_warning *warning_of(const ct_result *result, uint32_t body) {
    for (size_t i = 0; i < result->n_warnings; i++)
        if (result->warnings[i].body == body) return &result->warnings[i];
    return NULL;
}

static void expect(ct_engine *engine, const ct_scene_settings *settings, const struct placed *bodies, size_t n,
                   int inner, uint32_t want) {
    struct stage stage = stage_open(engine, settings, bodies, n);
    ct_result *result = stage_step(&stage, NULL, 0, want);
    assert_int_equal(result->n_contacts, 1);
    const ct_contact *contact = &result->contacts[0];
    assert_int_equal(contact->is_nested, inner >= 0);
    assert_int_equal(result->n_warnings, inner >= 0);
    if (inner >= 0) {
        const ct_warning *warning = warning_of(result, stage.body[inner]);
        assert_non_null(warning);
        assert_int_equal(warning->code, CT_WARNING_NESTED);
        assert_true(warning->value == contact->volume);
    }
    ct_result_free(&result);
    stage_close(&stage);
}

static void check(ct_engine *engine) {
    double beside[12], below[12], plane[12];
    shape_pose_identity(beside);
    shape_pose_identity(below);
    shape_pose_identity(plane);
    beside[3] = 0.6;
    below[11] = -3;
    const ct_scene_settings methods[] = {stage_exact(), stage_resolution(32)};
    for (int m = 0; m < 2; m++) {
        const struct placed inside[] = {{&big, NULL, 0, 0}, {&small, NULL, CT_BODY_DEFORMABLE, 0}};
        const struct placed rigid[] = {{&big, NULL, 0, 0}, {&small, NULL, 0, 0}};
        const struct placed around[] = {{&small, NULL, 0, 0}, {&big, NULL, 0, 0}};
        const struct placed emerged[] = {{&big, NULL, 0, 0}, {&small, beside, 0, 0}};
        const struct placed pierced[] = {{&big, NULL, 0, 0}, {&bar, NULL, 0, 0}};
        for (int w = 0; w < 3; w++) {
            const uint32_t want = (const uint32_t[]){CT_WANT_FRAME, CT_WANT_GRADIENT, CT_WANT_ALL}[w];
            expect(engine, &methods[m], inside, 2, 1, want);
            expect(engine, &methods[m], rigid, 2, 1, want);
            expect(engine, &methods[m], around, 2, 0, want);
            expect(engine, &methods[m], emerged, 2, -1, want);
            expect(engine, &methods[m], pierced, 2, -1, want); /* no normal, and not nested */
        }
        expect(engine, &methods[m], inside, 2, -1, 0); /* without a frame none is known to be */
    }
    const struct placed sunk[] = {{NULL, plane, 0, 0}, {&small, below, 0, 0}};
    const struct placed dips[] = {{NULL, plane, 0, 0}, {&small, NULL, 0, 0}};
    expect(engine, &methods[0], sunk, 2, 1, CT_WANT_FRAME);
    expect(engine, &methods[0], dips, 2, -1, CT_WANT_FRAME);
}

static void test_on_every_backend(void **state) {
    (void)state;
    int tested = 0;
    for (size_t i = 0; ct_backend_at(i); i++) {
        ct_engine_options options;
        ct_engine_options_init(&options);
        options.backend = ct_backend_at(i)->name;
        options.threads = 2;
        options.rasterizer = "native";
        ct_engine *engine;
        ct_error error = {0};
        if (ct_engine_create(&options, &engine, &error)) {
            print_message("%s: %s\n", options.backend, error.message);
            continue;
        }
        check(engine);
        ct_engine_destroy(&engine);
        tested++;
    }
    assert_true(tested > 0);
}

/* Two bodies inside a third: a word for each, in order; one inside two others: one word, of the larger contact. */
static void test_several(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(2, NULL);
    double left[12], right[12], shifted[12];
    shape_pose_identity(left);
    shape_pose_identity(right);
    shape_pose_identity(shifted);
    left[3] = -0.2;
    right[3] = 0.2;
    shifted[3] = 0.01;
    const ct_scene_settings settings = stage_exact();
    const struct placed two[] = {{&small, left, 0, 0}, {&big, NULL, 0, 0}, {&small, right, 0, 0}};
    struct stage stage = stage_open(engine, &settings, two, 3);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_FRAME);
    assert_int_equal(result->n_warnings, 2);
    assert_int_equal(result->warnings[0].body, stage.body[0]);
    assert_int_equal(result->warnings[1].body, stage.body[2]);
    ct_result_free(&result);
    stage_close(&stage);
    const struct placed both[] = {{&big, NULL, 0, 0}, {&small, NULL, 0, 0}, {&big, shifted, 0, 0}};
    stage = stage_open(engine, &settings, both, 3);
    result = stage_step(&stage, NULL, 0, CT_WANT_FRAME);
    assert_int_equal(result->n_contacts, 3);
    assert_int_equal(result->n_warnings, 1);
    assert_int_equal(result->warnings[0].body, stage.body[1]);
    ct_result_free(&result);
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

static int make_shapes(void **state) {
    (void)state;
    big = shape_box(1, 1, 1);
    small = shape_box(0.25, 0.25, 0.25);
    bar = shape_box(0.25, 0.25, 3);
    return 0;
}

static int free_shapes(void **state) {
    (void)state;
    shape_free(&big);
    shape_free(&small);
    shape_free(&bar);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_on_every_backend), cmocka_unit_test(test_several)};
    return cmocka_run_group_tests(tests, make_shapes, free_shapes);
}
