/* test_cancelled.c - a step that is cancelled, wherever it is, fails with CANCELLED and has changed nothing: the next
 * step of its scene gives the bits of a scene that never had it. */
#include <stdlib.h>
#include <string.h>

#include "gpu/base/clock.h"
#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ /* slow: fewer polls are tried */
enum { FEWER = 3 };
#else
enum { FEWER = 1 };
#endif

static struct shape ball, block;

/* The updates of a step, of every kind, that move all bodies. */
struct move {
    ct_update updates[8];
    size_t n;
    float *positions;
    double *wide;
    uint32_t indices[4];
};

static struct move move_of(const struct stage *stage, bool rigid_only, double by) {
    struct move move = {.n = 0};
    const uint32_t n = ball.n_vertices;
    move.positions = malloc(12 * (size_t)n);
    move.wide = malloc(24 * (size_t)n);
    assert_non_null(move.positions);
    assert_non_null(move.wide);
    for (uint32_t i = 0; i < 3 * n; i++) {
        move.positions[i] = ball.positions[i] + (float)(i % 3 == 0 ? by : 0);
        move.wide[i] = (double)move.positions[i] + 0.01;
    }
    double pose[12];
    shape_pose_axis((const double[3]){0, 0, 1}, by, (const double[3]){0.4, by, 0}, pose);
    ct_update *u = move.updates;
    u[move.n] = (ct_update){.body = stage->body[1], .kind = CT_UPDATE_POSE};
    memcpy(u[move.n++].pose, pose, sizeof pose);
    u[move.n] = (ct_update){.body = stage->body[1], .kind = CT_UPDATE_POSE};
    pose[11] += 0.05;
    memcpy(u[move.n++].pose, pose, sizeof pose);
    if (rigid_only) return move;
    /* Parts before all, all twice, and a part after them; and a body of which only a part moves. */
    const uint32_t indices[4] = {2, 3, 7, 2};
    memcpy(move.indices, indices, sizeof indices);
    const uint32_t soft = stage->body[0], other = stage->body[2];
    u[move.n++] = (ct_update){soft, CT_UPDATE_RANGES, move.wide, CT_F64, 5, NULL, 4, {0}};
    u[move.n++] = (ct_update){soft, CT_UPDATE_POSITIONS, move.positions, CT_F32, n, NULL, 0, {0}};
    u[move.n++] = (ct_update){soft, CT_UPDATE_POSITIONS, move.wide, CT_F64, n, NULL, 0, {0}};
    u[move.n++] = (ct_update){soft, CT_UPDATE_INDEXED, move.positions, CT_F32, 4, NULL, 4, {0}};
    u[move.n++] = (ct_update){other, CT_UPDATE_INDEXED, move.positions, CT_F32, 4, NULL, 4, {0}};
    u[move.n++] = (ct_update){other, CT_UPDATE_RANGES, move.wide, CT_F64, 5, NULL, 4, {0}};
    return move;
}

static void point_at_indices(struct move *move) {
    for (size_t i = 0; i < move->n; i++)
        if (move->updates[i].n_indices) move->updates[i].indices = move->indices;
}

static void free_move(struct move *move) {
    free(move->positions);
    free(move->wide);
}

static struct stage open_scene(ct_engine *engine, const ct_scene_settings *settings, bool rigid_only) {
    static double poses[3][12];
    for (int b = 0; b < 3; b++)
        shape_pose_axis((const double[3]){1, 2, 3}, 0.1 * b, (const double[3]){0.3 * b, 0.1 * b, 0}, poses[b]);
    const ct_body_kind soft = rigid_only ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
    const struct placed bodies[] = {
        {&ball, poses[0], soft, 0}, {&block, poses[1], CT_BODY_RIGID, 0}, {&ball, poses[2], soft, 0}};
    return stage_open(engine, settings, bodies, 3);
}

static void hash_step(struct stage *stage, const struct move *move, uint32_t want, char hex[33]) {
    ct_result *result = stage_step(stage, move ? move->updates : NULL, move ? move->n : 0, want);
    stage_hash(result, hex);
    ct_result_free(&result);
}

/* Runs the move, to be cancelled at that poll. False: it had fewer. */
static bool is_cancelled_at(struct stage *stage, const struct move *move, uint32_t want, uint64_t poll) {
    ct_cancel cancel;
    ct_cancel_init(&cancel, 0);
    cancel.at_poll = poll;
    ct_step step = {
        .scene = stage->scene, .updates = move->updates, .n_updates = move->n, .want = want, .cancel = &cancel};
    const ct_status status = ct_engine_run(stage->engine, &step, 1);
    if (status == CT_OK) {
        assert_true(cancel.at_poll > 0); /* else a poll that said so was overheard */
        ct_result_free(&step.result);
        return false;
    }
    if (status != CT_CANCELLED) fail_msg("%s: %s", ct_status_name(status), step.error.message);
    assert_null(step.result);
    assert_int_equal(ct_cancel_reason(&cancel), CT_CANCEL_CALLER);
    assert_non_null(strstr(step.error.message, "cancelled while "));
    assert_non_null(strstr(step.error.message, ct_cancel_where(&cancel).phase));
    return true;
}

static void assert_same_bodies(const struct stage *stage, const struct stage *fresh) {
    for (size_t b = 0; b < 3; b++) {
        ct_body_info is, was;
        assert_int_equal(ct_scene_body_at(stage->scene, b, &is), CT_OK);
        assert_int_equal(ct_scene_body_at(fresh->scene, b, &was), CT_OK);
        assert_same_bytes(is.lo, was.lo, sizeof is.lo);
        assert_same_bytes(is.hi, was.hi, sizeof is.hi);
        assert_same_bytes(is.pose, was.pose, sizeof is.pose);
    }
}

/* Threads 0: the CUDA backend, which looks between its launches. */
static void check_method(const ct_scene_settings *settings, bool rigid_only, uint32_t threads) {
    ct_engine *engine = threads ? stage_engine(threads, NULL) : NULL;
    if (!engine) {
        ct_engine_options options;
        ct_engine_options_init(&options);
        options.backend = "cuda";
        assert_int_equal(ct_engine_create(&options, &engine, NULL), CT_OK);
    }
    const uint32_t want = settings->method == CT_METHOD_VOXTREE ? CT_WANT_FRAME : CT_WANT_ALL;
    struct stage stage = open_scene(engine, settings, rigid_only), fresh = open_scene(engine, settings, rigid_only);
    char expected[3][33], hex[33];
    struct move first = move_of(&fresh, rigid_only, 0.02), second = move_of(&fresh, rigid_only, 0.07);
    point_at_indices(&first);
    point_at_indices(&second);
    hash_step(&fresh, &first, want, expected[0]);
    hash_step(&stage, &first, want, hex);
    assert_string_equal(hex, expected[0]);
    uint64_t n_cancelled = 0;
    for (uint64_t poll = 1;; poll += 1 + (threads && FEWER == 1 ? poll / 3 : FEWER * poll)) {
        if (!is_cancelled_at(&stage, &second, want, poll)) break;
        n_cancelled++;
        assert_same_bodies(&stage, &fresh);
        hash_step(&stage, NULL, want, hex);
        hash_step(&fresh, NULL, want, expected[1]);
        assert_string_equal(hex, expected[1]);
    }
    assert_true(n_cancelled >= (threads ? 3 : 1));
    hash_step(&stage, &second, want, hex); /* the last move was not cancelled */
    hash_step(&fresh, &second, want, expected[2]);
    assert_string_equal(hex, expected[2]);
    free_move(&first);
    free_move(&second);
    stage_close(&stage);
    stage_close(&fresh);
    ct_engine_destroy(&engine);
}

static void check_methods(uint32_t threads) {
    ct_scene_settings s = stage_resolution(threads ? 32 : 8);
    check_method(&s, false, threads);
    s.cell_size = 0.2;
    check_method(&s, false, threads);
    s = stage_exact();
    check_method(&s, false, threads);
    s.patches = true;
    s.margin = 0.5;
    check_method(&s, false, threads);
    s = stage_exact();
    s.max_points = 4;
    check_method(&s, false, threads);
    ct_scene_settings_init(&s);
    s.method = CT_METHOD_EBPI;
    s.tolerance_rel = threads ? 1e-2 : 0.2;
    check_method(&s, false, threads);
    s = stage_voxtree(threads ? 5 : 3, 0);
    check_method(&s, true, threads);
    s.refine = true;
    check_method(&s, true, threads);
}

static void test_one_thread(void **state) {
    (void)state;
    check_methods(1);
}

static void test_three_threads(void **state) {
    (void)state;
    check_methods(3);
}

#ifdef CT_CUDA_SHIM
static void test_cuda(void **state) {
    (void)state;
    check_methods(0);
}
#endif

/* A time that has passed ends the step before it begins, and a request made before counts. */
static void test_before_it_begins(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(1, NULL);
    const ct_scene_settings settings = stage_exact();
    struct stage stage = open_scene(engine, &settings, false);
    for (int by_time = 0; by_time < 2; by_time++) {
        ct_cancel cancel;
        ct_cancel_init(&cancel, 0);
        if (by_time)
            cancel.until = 1e-9;
        else
            ct_cancel_request(&cancel, 77);
        ct_step step = {.scene = stage.scene, .cancel = &cancel};
        assert_int_equal(ct_engine_run(engine, &step, 1), CT_CANCELLED);
        assert_int_equal(ct_cancel_reason(&cancel), by_time ? CT_CANCEL_TIME : 77);
    }
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

/* The memory that a cancelled step took for its work is given back. */
static void test_memory(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(2, NULL);
    const ct_scene_settings settings = stage_resolution(64);
    struct stage stage = open_scene(engine, &settings, true);
    ct_engine_facts facts;
    ct_cancel cancel;
    ct_cancel_init(&cancel, 0);
    cancel.at_poll = 30;
    ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL, .cancel = &cancel};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_CANCELLED);
    ct_engine_get_facts(engine, 0, &facts);
    assert_true(facts.scratch_peak > 0);
    assert_int_equal(facts.scratch_bytes, 0);
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

/* Of a step in which a body moves: whether it moves by more or by less, it is not where the step before left it. */
static double seconds_of(struct stage *stage, double by, ct_cancel *cancel, ct_status *status) {
    struct move move = move_of(stage, true, by);
    ct_step step = {
        .scene = stage->scene, .want = CT_WANT_ALL, .cancel = cancel, .updates = move.updates, .n_updates = move.n};
    const double began = ct_now();
    *status = ct_engine_run(stage->engine, &step, 1);
    const double seconds = ct_now() - began;
    ct_result_free(&step.result);
    free_move(&move);
    return seconds;
}

/* A limit below a tick of the kernel's clock, such as that of a loop at 1 kHz, ends whatever takes longer. */
static void test_short_limit(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(1, NULL);
    const ct_scene_settings settings = stage_exact();
    struct stage stage = open_scene(engine, &settings, true);
    ct_status status;
    double least = 1;
    for (int i = 0; i < 20; i++) {
        const double seconds = seconds_of(&stage, 0.01 * (1 + i % 2), NULL, &status);
        assert_int_equal(status, CT_OK);
        if (seconds < least) least = seconds;
    }
    for (int i = 0; i < 40; i++) {
        ct_cancel cancel;
        ct_cancel_init(&cancel, 0.25 * least);
        seconds_of(&stage, 0.03, &cancel, &status);
        assert_int_equal(status, CT_CANCELLED);
        assert_int_equal(ct_cancel_reason(&cancel), CT_CANCEL_TIME);
    }
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

/* The scene's own limit ends a step as its ct_cancel would, and leaves that one as it was. */
static void test_limit_of_a_scene(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(1, NULL);
    ct_scene_settings settings = stage_resolution(512);
    settings.max_step_time = 1e-9;
    struct stage stage = open_scene(engine, &settings, true);
    for (int has_cancel = 0; has_cancel < 2; has_cancel++) {
        ct_cancel cancel;
        ct_cancel_init(&cancel, 3600);
        ct_step step = {.scene = stage.scene, .cancel = has_cancel ? &cancel : NULL};
        assert_int_equal(ct_engine_run(engine, &step, 1), CT_CANCELLED);
        assert_ptr_equal(step.cancel, has_cancel ? &cancel : NULL);
        assert_int_equal(ct_cancel_reason(&cancel), CT_CANCEL_NONE);
    }
    settings.max_step_time = 3600;
    assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
    ct_result *result = stage_step(&stage, NULL, 0, 0);
    ct_result_free(&result);
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

/* Of a batch only the step is cancelled whose ct_cancel says so; the thread's own ends those that have none. */
static void test_batch(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(2, NULL);
    const ct_scene_settings settings = stage_exact();
    enum { STEPS = 12 };
    struct stage stages[STEPS];
    ct_step steps[STEPS];
    ct_cancel cancel[STEPS], of_thread;
    for (int scope = 0; scope < 2; scope++) {
        for (int i = 0; i < STEPS; i++) {
            stages[i] = open_scene(engine, &settings, false);
            ct_cancel_init(&cancel[i], 0);
            if (i % 3 == 0) ct_cancel_request(&cancel[i], CT_CANCEL_CALLER);
            steps[i] = (ct_step){.scene = stages[i].scene, .cancel = scope && i % 3 == 1 ? NULL : &cancel[i]};
        }
        ct_cancel_init(&of_thread, 0);
        ct_cancel_request(&of_thread, CT_CANCEL_CALLER);
        if (scope) assert_null(ct_cancel_scope(&of_thread));
        assert_int_equal(ct_engine_run(engine, steps, STEPS), CT_CANCELLED);
        if (scope) assert_ptr_equal(ct_cancel_scope(NULL), &of_thread);
        for (int i = 0; i < STEPS; i++) {
            const bool ends = i % 3 == 0 || (scope && i % 3 == 1);
            assert_int_equal(steps[i].error.status, ends ? CT_CANCELLED : CT_OK);
            assert_int_equal(steps[i].result == NULL, ends);
            ct_result_free(&steps[i].result);
            stage_close(&stages[i]);
        }
    }
    ct_engine_destroy(&engine);
}

static int setup(void **state) {
    (void)state;
#ifdef CT_CUDA_SHIM
    ball = shape_icosphere(0.5, 2);
    block = shape_cube(0.6, 3);
#else
    ball = shape_icosphere(0.5, 3);
    block = shape_cube(0.6, 8);
#endif
    return 0;
}

static int teardown(void **state) {
    (void)state;
    shape_free(&ball);
    shape_free(&block);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_three_threads),
#ifdef CT_CUDA_SHIM
        cmocka_unit_test(test_cuda),
#endif
        cmocka_unit_test(test_before_it_begins),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_short_limit),
        cmocka_unit_test(test_limit_of_a_scene),
        cmocka_unit_test(test_batch),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
