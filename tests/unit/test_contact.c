/* test_contact.c - the engine's public functions: options, facts, batches of any size with failing steps among them;
 * the bits do not depend on how steps are batched or on the number of threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/clock.h"
#include "gpu/method/backend.h"
#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

static void expect_refusal(const ct_engine_options *options, ct_status status, const char *field, const char *words) {
    ct_engine *engine = (void *)1;
    ct_error error = {0};
    assert_int_equal(ct_engine_create(options, &engine, &error), status);
    assert_null(engine);
    assert_int_equal(error.status, status);
    assert_string_equal(error.field, field);
    if (!strstr(error.message, words)) fail_msg("\"%s\" does not say \"%s\"", error.message, words);
}

static void test_options(void **state) {
    (void)state;
    ct_engine_options o;
    ct_engine_options_init(&o);
    o.cookie = 0;
    expect_refusal(&o, CT_INVALID_ARGUMENT, "options", "ct_engine_options_init");
    ct_engine_options_init(&o);
    o.backend = "abacus";
    expect_refusal(&o, CT_UNSUPPORTED, "backend", "\"abacus\" is not in this build, which has: ");
    ct_engine_options_init(&o);
    o.backend = "cpu";
    o.simd = "mmx";
    expect_refusal(&o, CT_UNSUPPORTED, "simd", "base");
    ct_engine_options_init(&o);
    o.backend = "cpu";
    o.threads = 257;
    expect_refusal(&o, CT_OUT_OF_RANGE, "threads", "at most 256");
    ct_engine *engine = NULL;
    ct_engine_destroy(&engine);
}

/* "auto" gives the reason for its choice. */
static void test_reason(void **state) {
    (void)state;
    ct_engine_options o;
    ct_engine_options_init(&o);
    ct_engine *engine = NULL;
    ct_error error = {0};
    assert_int_equal(ct_engine_create(&o, &engine, &error), CT_OK);
    ct_engine_facts f;
    ct_engine_get_facts(engine, 0, &f);
    const char *reason = ct_engine_reason(engine);
    assert_ptr_equal(strstr(reason, "the best that works"), reason);
    for (size_t i = 0; strcmp(ct_backend_at(i)->name, f.backend) != 0; i++) {
        char passed[32];
        snprintf(passed, sizeof passed, "; not %s: ", ct_backend_at(i)->name);
        if (!strstr(reason, passed)) fail_msg("\"%s\" does not say why not %s", reason, ct_backend_at(i)->name);
    }
    ct_engine_destroy(&engine);
}

static void test_facts(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads < 4; threads++) {
        ct_engine *engine = stage_engine(threads, "base");
        ct_engine_facts f;
        memset(&f, 0xff, sizeof f);
        ct_engine_get_facts(engine, 0, &f);
        assert_string_equal(f.backend, "cpu");
        assert_string_equal(f.rasterizer, "native");
        assert_string_equal(f.simd, "base");
        assert_non_null(strstr(f.simd_available, "base"));
        assert_true(f.device[0] != 0 && !strchr(f.device, '\n'));
        assert_int_equal(f.threads, threads);
        assert_int_equal(f.scratch_bytes, 0);
        assert_int_equal(f.scratch_peak, 0);
        assert_string_equal(ct_engine_reason(engine), "asked for");
        ct_engine_destroy(&engine);
        assert_null(engine);
    }
    ct_engine *engine = stage_engine(0, NULL);
    ct_engine_facts f;
    ct_engine_get_facts(engine, 0, &f);
    assert_true(f.threads >= 1);
    assert_ptr_equal(strstr(f.simd_available, f.simd), f.simd_available); /* auto takes the first */
    ct_engine_destroy(&engine);
}

static void test_phase_names(void **state) {
    (void)state;
    assert_string_equal(ct_phase_name(CT_PHASE_UPLOAD), "upload");
    assert_string_equal(ct_phase_name(CT_PHASE_DOWNLOAD), "download");
    assert_string_equal(ct_phase_name(CT_PHASES), "unknown");
    assert_string_equal(ct_phase_name((ct_phase)-1), "unknown");
}

/* ---- batches
 * --------------------------------------------------------------------------------------------------------- */

enum { N = 40 };

/* Scenes of one to four bodies each, some without a contact; every body is rigid or soft. */
static void open_scenes(ct_engine *engine, struct stage stages[N]) {
    uint64_t rng = 71;
    struct shape shapes[] = {shape_icosphere(0.6, 2), shape_torus(0.6, 0.25, 16, 8), shape_cube(1, 2)};
    for (int i = 0; i < N; i++) {
        double poses[4][12];
        struct placed placed[4];
        int n = 1 + i % 4;
        for (int b = 0; b < n; b++) {
            shape_pose_random(&rng, 0.5, poses[b]);
            placed[b] =
                (struct placed){&shapes[shape_random(&rng) % 3], poses[b], b % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
        }
        ct_scene_settings settings = i % 3 ? stage_resolution(5 + (uint32_t)i) : stage_pixel(0.05);
        if (i == 17) settings = stage_resolution(150); /* large enough to be spread over threads */
        stages[i] = stage_open(engine, &settings, placed, n);
    }
    for (int i = 0; i < 3; i++) shape_free(&shapes[i]);
}

static void close_scenes(struct stage stages[N]) {
    for (int i = 0; i < N; i++) stage_close(&stages[i]);
}

/* Phases by the clock add up to no more than the batch took, and to as much as its threads can have worked. */
static void check_times(const ct_step *steps, size_t n, uint32_t threads, double took) {
    double seconds = 0, wall_seconds = 0;
    for (size_t i = 0; i < n; i++) {
        for (int p = 0; p < CT_PHASES; p++) {
            assert_true(steps[i].result->seconds[p] >= 0 && steps[i].result->wall_seconds[p] >= 0);
            seconds += steps[i].result->seconds[p];
            wall_seconds += steps[i].result->wall_seconds[p];
        }
    }
    assert_true(wall_seconds > 0 && wall_seconds <= took * (1 + 1e-9));
    assert_true(seconds <= threads * wall_seconds * (1 + 1e-9));
}

static void test_batches(void **state) {
    (void)state;
    static char one_by_one[N][33], hex[33];
    struct stage stages[N];
    ct_engine *engine = stage_engine(1, "base");
    open_scenes(engine, stages);
    size_t contacts = 0;
    for (int i = 0; i < N; i++) {
        ct_result *result = stage_step(&stages[i], NULL, 0, CT_WANT_ALL);
        contacts += result->n_contacts;
        stage_hash(result, one_by_one[i]);
        ct_result_free(&result);
    }
    assert_true(contacts > N);
    close_scenes(stages);
    ct_engine_destroy(&engine);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        engine = stage_engine(threads, NULL);
        open_scenes(engine, stages);
        for (int size = 1; size <= N; size = size * 3 + 1) {
            for (int first = 0; first < N; first += size) {
                ct_step steps[N];
                int n = first + size > N ? N - first : size;
                for (int i = 0; i < n; i++) /* backwards, too: a batch has no order */
                    steps[i] =
                        (ct_step){.scene = stages[size % 2 ? first + i : first + n - 1 - i].scene, .want = CT_WANT_ALL};
                const double begin = ct_now();
                assert_int_equal(ct_engine_run(engine, steps, (size_t)n), CT_OK);
                check_times(steps, (size_t)n, threads, ct_now() - begin);
                for (int i = 0; i < n; i++) {
                    stage_hash(steps[i].result, hex);
                    assert_string_equal(hex, one_by_one[size % 2 ? first + i : first + n - 1 - i]);
                    ct_result_free(&steps[i].result);
                }
            }
        }
        close_scenes(stages);
        ct_engine_destroy(&engine);
    }
}

/* A fine mesh seen at few samples: one thread works out the coordinates that it needs, several work out all. */
static void test_few_samples_of_many_vertices(void **state) {
    (void)state;
    struct shape a = shape_icosphere(1, 5), b = shape_torus(0.9, 0.4, 100, 50);
    double pose[12];
    uint64_t rng = 72;
    for (int round = 0; round < 6; round++) {
        char expected[33], hex[33];
        shape_pose_random(&rng, 0.3, pose);
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            ct_engine *engine = stage_engine(threads, round % 2 ? "base" : NULL);
            ct_scene_settings settings = stage_resolution(1 + 2 * (uint32_t)round), finer = stage_resolution(40);
            struct stage stage = stage_open(engine, &finer, (struct placed[]){{&a, pose, 0}, {&b, NULL, 0}}, 2);
            ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_ALL); /* leaves other coordinates behind */
            ct_result_free(&result);
            assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
            result = stage_step(&stage, NULL, 0, CT_WANT_ALL);
            assert_int_equal(result->n_contacts, 1);
            stage_hash(result, threads == 1 ? expected : hex);
            ct_result_free(&result);
            stage_close(&stage);
            ct_engine_destroy(&engine);
        }
        assert_string_equal(hex, expected);
    }
    shape_free(&a);
    shape_free(&b);
}

static void test_an_empty_batch(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(2, NULL);
    assert_int_equal(ct_engine_run(engine, NULL, 0), CT_OK);
    ct_scene_settings settings = stage_resolution(8);
    struct stage stage = stage_open(engine, &settings, NULL, 0);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_ALL | CT_WANT_SPANS);
    assert_int_equal(result->n_contacts, 0);
    ct_result_free(&result);
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

/* Steps refused for their updates, or for a window that cannot be, fail alone. */
static void test_failing_steps_in_a_batch(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(3, NULL);
    struct stage stages[N];
    open_scenes(engine, stages);
    static char expected[N][33], hex[33];
    ct_step steps[N];
    for (int i = 0; i < N; i++) {
        ct_result *result = stage_step(&stages[i], NULL, 0, CT_WANT_ALL);
        stage_hash(result, expected[i]);
        ct_result_free(&result);
    }
    const ct_update unknown = {.body = 99, .kind = CT_UPDATE_POSE};
    ct_scene_settings fine = stage_pixel(1e-5);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            steps[i] = (ct_step){.scene = stages[i].scene, .want = CT_WANT_ALL};
            steps[i].error.status = CT_PARSE_ERROR; /* of an earlier life */
            steps[i].result = (ct_result *)steps;
            if (i % 7 == 2) steps[i].updates = &unknown, steps[i].n_updates = 1;
            if (i == 5 && round == 0) assert_int_equal(ct_scene_configure(stages[i].scene, &fine, NULL), CT_OK);
        }
        assert_int_equal(ct_engine_run(engine, steps, N), CT_NOT_FOUND); /* the first that failed */
        for (int i = 0; i < N; i++) {
            if (i % 7 == 2 || i == 5) {
                assert_null(steps[i].result);
                assert_int_equal(steps[i].error.status, i == 5 ? CT_LIMIT_EXCEEDED : CT_NOT_FOUND);
                if (i == 5) assert_string_equal(steps[i].error.field, "pixel_size");
                if (i == 5) assert_non_null(strstr(steps[i].error.message, "bodies 1 and 2: pixel_size"));
            } else {
                assert_int_equal(steps[i].error.status, CT_OK);
                assert_string_equal(steps[i].error.message, "");
                stage_hash(steps[i].result, hex);
                assert_string_equal(hex, expected[i]);
                ct_result_free(&steps[i].result);
            }
        }
    }
    close_scenes(stages);
    ct_engine_destroy(&engine);
}

/* A scene that is in a batch twice would have the answer of its last step twice: the batch is refused, and moves nothing. */
static void test_a_scene_twice(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(2, NULL);
    struct stage stages[N];
    open_scenes(engine, stages);
    ct_step steps[N + 1];
    ct_body_info before, after;
    assert_int_equal(ct_scene_body_at(stages[1].scene, 1, &before), CT_OK);
    const ct_update away = {
        .body = stages[1].body[1], .kind = CT_UPDATE_POSE, .pose = {1, 0, 0, 9, 0, 1, 0, 0, 0, 0, 1, 0}};
    for (int i = 0; i <= N; i++) steps[i] = (ct_step){.scene = stages[i == N ? 1 : i].scene};
    steps[N].updates = &away, steps[N].n_updates = 1;
    assert_int_equal(ct_engine_run(engine, steps, N + 1), CT_INVALID_ARGUMENT);
    for (int i = 0; i <= N; i++) {
        assert_null(steps[i].result);
        assert_int_equal(steps[i].error.status, CT_INVALID_ARGUMENT);
        assert_string_equal(steps[i].error.field, "scene");
    }
    assert_int_equal(ct_scene_body_at(stages[1].scene, 1, &after), CT_OK);
    assert_memory_equal(before.pose, after.pose, sizeof before.pose);
    assert_int_equal(ct_engine_run(engine, steps, N), CT_OK);
    ct_steps_free_results(steps, N);
    close_scenes(stages);
    ct_engine_destroy(&engine);
}

/* Settings take effect on the next step. */
static void test_configure_between_steps(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(1, NULL);
    struct shape box = shape_box(1, 1, 1);
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.5;
    ct_scene_settings settings = stage_resolution(4);
    settings.stiffness = 2;
    struct stage stage = stage_open(engine, &settings, (struct placed[]){{&box, NULL, 0}, {&box, pose, 0}}, 2);
    ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_ALL);
    assert_int_equal(r->rays, 3 * 16);
    assert_true(r->forces[0] == -2 * r->contacts[0].volume * r->gradient[0]);
    ct_result_free(&r);
    settings.resolution[0] = 10, settings.resolution[1] = 7, settings.resolution[2] = 3;
    settings.stiffness = 0;
    assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
    r = stage_step(&stage, NULL, 0, CT_WANT_ALL);
    assert_int_equal(r->rays, 7 * 3 + 3 * 10 + 10 * 7);
    assert_true(r->forces[0] == 0);
    ct_result_free(&r);
    settings.pixel_size = 0.25;
    assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
    r = stage_step(&stage, NULL, 0, 0);
    assert_int_equal(r->rays, 4 * 4 + 4 * 2 + 2 * 4);
    ct_result_free(&r);
    stage_close(&stage);
    shape_free(&box);
    ct_engine_destroy(&engine);
}

/* ---- hooks ---- */

static void count_call(const void *object, void *data) {
    assert_non_null(object);
    ++*(int *)data;
}

static void test_hooks(void **state) {
    (void)state;
    static char objects[CT_HOOK_OBJECTS + 1];
    const void *all[CT_HOOK_OBJECTS + 1];
    for (size_t i = 0; i <= CT_HOOK_OBJECTS; i++) all[i] = &objects[i];
    assert_null(ct_hook(CT_HOOKS));
    assert_false(ct_hook_set(CT_HOOKS, count_call, all, 1));
    for (uint32_t k = 0; k < CT_HOOKS; k++) {
        int calls = 0, others = 0;
        const ct_hook_call hook = ct_hook(k);
        hook(all[0], &calls);
        assert_int_equal(calls, 0);
        assert_true(ct_hook_set(k, count_call, all, CT_HOOK_OBJECTS));
        for (size_t i = 0; i <= CT_HOOK_OBJECTS; i++) hook(all[i], &calls);
        assert_int_equal(calls, CT_HOOK_OBJECTS);
        ct_hook(!k)(all[0], &others);
        assert_false(ct_hook_set(k, count_call, all, CT_HOOK_OBJECTS + 1));
        hook(all[CT_HOOK_OBJECTS - 1], &calls);
        assert_int_equal(calls, CT_HOOK_OBJECTS + 1);
        assert_true(ct_hook_set(k, count_call, all + 1, 1));
        for (size_t i = 0; i < 4; i++) hook(all[i], &calls);
        assert_int_equal(calls, CT_HOOK_OBJECTS + 2);
        assert_true(ct_hook_set(k, NULL, NULL, 0));
        hook(all[1], &calls);
        assert_int_equal(calls, CT_HOOK_OBJECTS + 2);
        assert_int_equal(others, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_reason),         cmocka_unit_test(test_phase_names),
        cmocka_unit_test(test_batches),        cmocka_unit_test(test_few_samples_of_many_vertices),
        cmocka_unit_test(test_an_empty_batch), cmocka_unit_test(test_failing_steps_in_a_batch),
        cmocka_unit_test(test_a_scene_twice),  cmocka_unit_test(test_configure_between_steps),
        cmocka_unit_test(test_hooks)};
    return cmocka_run_group_tests_name("contact", tests, NULL, NULL);
}
