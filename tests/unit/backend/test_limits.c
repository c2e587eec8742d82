/* test_limits.c - too little scratch memory: the step fails and names the pair; later steps give the same bits as in an
 * engine that never failed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/method/device_cpu.h"
#include "gpu/method/engine.h"
#include "tests/unit/backend/sizes.h"

static struct stage open_large(ct_engine *engine) {
    return open_ball_and_torus(engine, 3, 20, 40);
}

static void hash_and_free(ct_result **result, char hex[33]) {
    assert_int_equal((*result)->n_contacts, 1);
    stage_hash(*result, hex);
    ct_result_free(result);
}

static void reference(struct stage (*open)(ct_engine *), uint32_t want, char hex[33]) {
    ct_engine *engine = engine_of(1, 0);
    struct stage stage = open(engine);
    ct_result *result = stage_step(&stage, NULL, 0, want);
    hash_and_free(&result, hex);
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

static size_t need_of(uint32_t want) {
    ct_engine *engine = engine_of(1, 0);
    struct stage stage = open_large(engine);
    ct_result *result = stage_step(&stage, NULL, 0, want);
    ct_result_free(&result);
    ct_engine_facts facts;
    ct_engine_get_facts(engine, 0, &facts);
    assert_true(facts.scratch_bytes > 0 && facts.scratch_bytes <= facts.scratch_peak);
    stage_close(&stage);
    ct_engine_destroy(&engine);
    return facts.scratch_peak;
}

static void expect_out_of_memory(ct_step *step, const struct stage *stage) {
    assert_int_equal(step->error.status, CT_OUT_OF_MEMORY);
    assert_null(step->result);
    if (!step->error.field[0]) return; /* too little memory even for the list of pairs */
    char pair[64];
    snprintf(pair, sizeof pair, "bodies %u and %u", stage->body[0], stage->body[1]);
    assert_string_equal(step->error.field, "scratch");
    assert_non_null(strstr(step->error.message, pair));
    assert_non_null(strstr(step->error.message, "lower resolution"));
}

/* At every limit, wherever in the stages memory runs out. */
static void run_at_limits(uint32_t threads, uint32_t want) {
    char large[33], small[33], hex[33];
    reference(open_large, want, large);
    reference(open_small, want, small);
    size_t need = need_of(want), failed = 0, passed = 0, named = 0;
    for (size_t limit = 2000; limit < 4 * need; limit += limit / 4) {
        ct_engine *engine = engine_of(threads, limit);
        struct stage a = open_large(engine), b = open_small(engine);
        ct_step step = {.scene = a.scene, .want = want};
        if (ct_engine_run(engine, &step, 1) == CT_OK) {
            passed++;
            hash_and_free(&step.result, hex);
            assert_string_equal(hex, large);
        } else {
            failed++;
            named += step.error.field[0] != 0;
            expect_out_of_memory(&step, &a);
        }
        ct_engine_facts facts;
        ct_engine_get_facts(engine, 0, &facts);
        assert_true(facts.scratch_peak <= limit);
        /* Without the limit both scenes give the same answers as before. */
        engine->devices[0].device->budget.limit = 0;
        ct_result *result = stage_step(&b, NULL, 0, want);
        hash_and_free(&result, hex);
        assert_string_equal(hex, small);
        result = stage_step(&a, NULL, 0, want);
        hash_and_free(&result, hex);
        assert_string_equal(hex, large);
        stage_close(&a);
        stage_close(&b);
        ct_engine_destroy(&engine);
    }
    assert_true(failed > 10 && passed > 2 && named > 5);
}

static void test_one_thread(void **state) {
    (void)state;
    run_at_limits(1, everything);
    run_at_limits(1, 0);
}

static void test_several_threads(void **state) {
    (void)state;
    run_at_limits(3, everything); /* spans keep a pair on one thread */
    run_at_limits(3, CT_WANT_ALL);
}

/* A batch in which one step needs too much: the others get their answers. */
static void test_others_in_the_batch(void **state) {
    (void)state;
    char small[33], hex[33];
    reference(open_small, everything, small);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        ct_engine *engine = engine_of(threads, need_of(everything) / 3);
        struct stage stages[12];
        ct_step steps[12];
        for (int i = 0; i < 12; i++) {
            stages[i] = i == 4 ? open_large(engine) : open_small(engine);
            steps[i] = (ct_step){.scene = stages[i].scene, .want = everything};
        }
        for (int round = 0; round < 3; round++) {
            assert_int_equal(ct_engine_run(engine, steps, 12), CT_OUT_OF_MEMORY);
            for (int i = 0; i < 12; i++) {
                if (i == 4) {
                    expect_out_of_memory(&steps[i], &stages[i]);
                    assert_string_equal(steps[i].error.field, "scratch");
                } else {
                    assert_int_equal(steps[i].error.status, CT_OK);
                    hash_and_free(&steps[i].result, hex);
                    assert_string_equal(hex, small);
                }
            }
        }
        for (int i = 0; i < 12; i++) stage_close(&stages[i]);
        ct_engine_destroy(&engine);
    }
}

/* What fits once fits always, whichever threads have worked before and keep memory for the next time. */
static void test_threads_do_not_hoard(void **state) {
    (void)state;
    ct_engine *engine = engine_of(4, 3 * need_of(everything));
    struct stage stages[4];
    ct_step steps[4];
    for (int i = 0; i < 4; i++) {
        stages[i] = open_large(engine);
        steps[i] = (ct_step){.scene = stages[i].scene, .want = everything};
    }
    char large[33], hex[33];
    reference(open_large, everything, large);
    for (int round = 0; round < 5; round++) {
        ct_engine_run(engine, steps, 4);
        for (int i = 0; i < 4; i++) {
            if (steps[i].error.status) fail_msg("%s", steps[i].error.message);
            hash_and_free(&steps[i].result, hex);
            assert_string_equal(hex, large);
        }
    }
    for (int i = 0; i < 4; i++) stage_close(&stages[i]);
    ct_engine_destroy(&engine);
}

/* One scene's list of pairs is too long: it says so, and its neighbour in the batch has its answer. */
static void test_too_many_pairs(void **state) {
    (void)state;
    enum { BODIES = 64 }; /* all of them in one place: 2,016 pairs */
    ct_engine *engine = engine_of(2, (size_t)1 << 20);
    struct shape box = shape_box(1, 1, 1);
    struct placed bodies[BODIES];
    for (int i = 0; i < BODIES; i++) bodies[i] = (struct placed){&box, NULL, CT_BODY_RIGID};
    ct_scene_settings settings = stage_resolution(2);
    struct stage pile = stage_open(engine, &settings, bodies, BODIES), small = open_small(engine);
    shape_free(&box);
    ct_step steps[2] = {{.scene = pile.scene, .want = everything}, {.scene = small.scene, .want = everything}};
    assert_int_equal(ct_engine_run(engine, steps, 2), CT_OUT_OF_MEMORY);
    assert_null(steps[0].result);
    assert_non_null(strstr(steps[0].error.message, "2016 pairs of 64 bodies"));
    assert_int_equal(steps[1].error.status, CT_OK);
    char hex[33], expected[33];
    reference(open_small, everything, expected);
    hash_and_free(&steps[1].result, hex);
    assert_string_equal(hex, expected);
    stage_close(&pile);
    stage_close(&small);
    ct_engine_destroy(&engine);
}

/* ---- EBPI: tiles and their lists of faces ---- */

/* As contact.h and docs/limits.md say. */
enum { BYTES_PER_RAY = 200 };

/* It needs more rays than any budget here, so that all are cast. */
static struct stage open_ebpi(ct_engine *engine, uint64_t ray_budget) {
    struct shape ball = shape_icosphere(1, 3), torus = shape_torus(0.9, 0.4, 40, 20);
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_EBPI;
    settings.tolerance_rel = 1e-6;
    settings.strict = true;
    settings.ray_budget = ray_budget;
    const struct placed bodies[] = {{&ball, NULL, CT_BODY_RIGID}, {&torus, NULL, CT_BODY_RIGID}};
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    shape_free(&ball);
    shape_free(&torus);
    return stage;
}

/* *peak: bytes of working memory. */
static void run_ebpi(uint64_t ray_budget, char hex[33], size_t *peak) {
    ct_engine *engine = engine_of(1, 0);
    struct stage stage = open_ebpi(engine, ray_budget);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_ALL);
    assert_true(result->rays <= ray_budget && result->rays > ray_budget / 2);
    hash_and_free(&result, hex);
    ct_engine_facts facts;
    ct_engine_get_facts(engine, 0, &facts);
    *peak = facts.scratch_peak;
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

static void test_ebpi_bytes_per_ray(void **state) {
    (void)state;
    char hex[33];
    size_t few, many;
    run_ebpi(1 << 12, hex, &few);
    run_ebpi(1 << 18, hex, &many);
    print_message("%.0f bytes a ray\n", (double)(many - few) / ((1 << 18) - (1 << 12)));
    assert_true(many > few && many - few < (size_t)BYTES_PER_RAY * ((1 << 18) - (1 << 12)));
}

/* Wherever memory runs out, the step names the pair and what to change, and the engine goes on. */
static void test_ebpi_at_limits(void **state) {
    (void)state;
    enum { RAYS = 1 << 14 };
    char expected[33], hex[33], pair[64];
    size_t need, failed = 0, passed = 0;
    run_ebpi(RAYS, expected, &need);
    for (size_t limit = 20000; limit < 2 * need; limit += limit / 4) {
        ct_engine *engine = engine_of(1 + 2 * (failed % 2), limit);
        struct stage stage = open_ebpi(engine, RAYS);
        ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL};
        if (ct_engine_run(engine, &step, 1) == CT_OK) {
            passed++;
            hash_and_free(&step.result, hex);
            assert_string_equal(hex, expected);
        } else {
            failed++;
            snprintf(pair, sizeof pair, "bodies %u and %u need more working memory", stage.body[0], stage.body[1]);
            assert_int_equal(step.error.status, CT_OUT_OF_MEMORY);
            assert_string_equal(step.error.field, "scratch");
            assert_non_null(strstr(step.error.message, pair));
            assert_non_null(strstr(step.error.message, "use a lower ray_budget or a larger tolerance"));
            assert_null(step.result);
        }
        ct_budget *budget = &engine->devices[0].device->budget; /* answers have another, without a limit */
        assert_true(atomic_load(&budget->peak) <= limit);
        budget->limit = 0;
        ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_ALL);
        hash_and_free(&result, hex);
        assert_string_equal(hex, expected);
        stage_close(&stage);
        ct_engine_destroy(&engine);
    }
    assert_true(failed > 5 && passed > 1);
}

/* EXACT has no resolution to lower. */
static void test_exact_says_what_helps(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 4), torus = shape_torus(0.9, 0.4, 80, 40);
    const struct placed bodies[] = {{&ball, NULL, CT_BODY_RIGID}, {&torus, NULL, CT_BODY_RIGID}};
    const ct_scene_settings settings = stage_exact();
    ct_engine *engine = engine_of(1, 100000);
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_OUT_OF_MEMORY);
    assert_non_null(strstr(step.error.message, "use a mesh with fewer triangles, or raise the limit"));
    stage_close(&stage);
    shape_free(&ball), shape_free(&torus);
    ct_engine_destroy(&engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread),          cmocka_unit_test(test_several_threads),
        cmocka_unit_test(test_others_in_the_batch), cmocka_unit_test(test_threads_do_not_hoard),
        cmocka_unit_test(test_too_many_pairs),      cmocka_unit_test(test_ebpi_bytes_per_ray),
        cmocka_unit_test(test_ebpi_at_limits),      cmocka_unit_test(test_exact_says_what_helps)};
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
