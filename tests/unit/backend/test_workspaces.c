/* test_workspaces.c - concurrent batches on one device: each gives the same bits as alone, whether it fits in memory
 * does not depend on the others, and one too many waits. Run it under ThreadSanitizer too. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "gpu/method/device_cpu.h"
#include "gpu/method/engine.h"
#include "tests/unit/backend/sizes.h"

enum { CALLERS = CT_MAX_CONCURRENT_BATCHES + 1, SMALL = 20 };

static ct_workspace *acquire(ct_device *device, bool is_large, bool in_background) {
    ct_workspace *workspace;
    while (!(workspace = ct_workspace_try(device, is_large, in_background))) {
    }
    return workspace;
}

static struct stage open_large(ct_engine *engine) {
    return open_ball_and_torus(engine, 4, 30, 48);
}

/* Runs the scenes as one batch. False: a step failed; hashes: of those that did not. */
static bool run_batch(struct stage *stages, int n, uint32_t want, char hashes[][33]) {
    ct_step steps[SMALL];
    for (int i = 0; i < n; i++) stage_forget_answers(&stages[i]);
    for (int i = 0; i < n; i++) steps[i] = (ct_step){.scene = stages[i].scene, .want = want};
    bool good = ct_engine_run(stages[0].engine, steps, (size_t)n) == CT_OK;
    for (int i = 0; i < n; i++) {
        if (!steps[i].result) continue;
        stage_hash(steps[i].result, hashes[i]);
        ct_result_free(&steps[i].result);
    }
    return good;
}

static void reference(struct stage (*open)(ct_engine *), uint32_t want, char hash[1][33], size_t *need) {
    ct_engine *engine = engine_of(3, 0);
    struct stage stage = open(engine);
    assert_true(run_batch(&stage, 1, want, hash));
    ct_engine_facts facts;
    ct_engine_get_facts(engine, 0, &facts);
    if (need) *need = facts.scratch_peak;
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

struct caller {
    ct_engine *engine;
    struct stage (*open)(ct_engine *);
    int n, rounds; /* scenes in a batch, batches */
    uint32_t want;
    const char *expected;
    int failed, wrong; /* out */
    atomic_int done;
};

static void *call(void *argument) {
    struct caller *caller = argument;
    struct stage stages[SMALL];
    char hashes[SMALL][33];
    for (int i = 0; i < caller->n; i++) stages[i] = caller->open(caller->engine);
    for (int round = 0; round < caller->rounds; round++) {
        caller->failed += !run_batch(stages, caller->n, caller->want, hashes);
        for (int i = 0; i < caller->n; i++) caller->wrong += strcmp(hashes[i], caller->expected) != 0;
        atomic_fetch_add(&caller->done, 1);
    }
    for (int i = 0; i < caller->n; i++) stage_close(&stages[i]);
    return NULL;
}

static void run_callers(struct caller *callers, int n) {
    pthread_t threads[CALLERS];
    for (int i = 0; i < n; i++) pthread_create(&threads[i], NULL, call, &callers[i]);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < n; i++) {
        assert_int_equal(callers[i].failed, 0);
        assert_int_equal(callers[i].wrong, 0);
        assert_int_equal(callers[i].done, callers[i].rounds);
    }
}

static void test_same_bits(void **state) {
    (void)state;
    char large[1][33], small[1][33];
    reference(open_large, CT_WANT_ALL, large, NULL);
    reference(open_small, everything, small, NULL);
    ct_engine *engine = engine_of(3, 0);
    struct caller callers[CALLERS] = {{engine, open_large, 1, 12, CT_WANT_ALL, large[0], 0, 0, 0},
                                      {engine, open_small, 1, 300, everything, small[0], 0, 0, 0},
                                      {engine, open_small, SMALL, 40, everything, small[0], 0, 0, 0}};
    for (int i = 3; i < CALLERS; i++) callers[i] = callers[i % 2];
    run_callers(callers, CALLERS);
    ct_engine_destroy(&engine);
}

/* Room for one of them at a time, and the lists of pairs: what does not fit beside another one waits and fits. */
static void test_fits_beside_a_neighbour(void **state) {
    (void)state;
    char large[1][33], small[1][33];
    size_t need;
    reference(open_large, everything, large, &need);
    reference(open_small, everything, small, NULL);
    ct_engine *engine = engine_of(3, need + CALLERS * SMALL * sizeof(ct_pair_task) * 2);
    struct caller callers[CALLERS] = {{engine, open_large, 1, 10, everything, large[0], 0, 0, 0},
                                      {engine, open_large, 2, 10, everything, large[0], 0, 0, 0},
                                      {engine, open_small, SMALL, 40, everything, small[0], 0, 0, 0}};
    run_callers(callers, CALLERS);
    ct_engine_destroy(&engine);
}

/* While one batch is in the middle of its work another begins and ends. */
static void test_second_does_not_wait(void **state) {
    (void)state;
    char expected[1][33], hash[1][33];
    reference(open_small, everything, expected, NULL);
    ct_engine *engine = engine_of(3, 0);
    struct stage small = open_small(engine);
    for (int large = 0; large < 2; large++) {
        ct_workspace *first = acquire(engine->devices[0].device, large, false);
        assert_true(run_batch(&small, 1, everything, hash));
        assert_string_equal(hash[0], expected[0]);
        ct_workspace_release(first);
    }
    stage_close(&small);
    ct_engine_destroy(&engine);
}

/* One more than there are lanes begins when one is left; while one lane is alone, none begins. */
static void test_further_ones_wait(void **state) {
    (void)state;
    char expected[1][33];
    reference(open_small, everything, expected, NULL);
    ct_engine *engine = engine_of(3, 0);
    ct_device *device = engine->devices[0].device;
    for (int alone = 0; alone < 2; alone++) {
        ct_workspace *lanes[CT_MAX_CONCURRENT_BATCHES];
        int n = alone ? 1 : CT_MAX_CONCURRENT_BATCHES;
        for (int i = 0; i < n; i++) lanes[i] = acquire(device, true, false);
        if (alone) assert_true(ct_workspace_begin_exclusive(lanes[0]));
        struct caller caller = {engine, open_small, 1, 1, everything, expected[0], 0, 0, 0};
        pthread_t thread;
        pthread_create(&thread, NULL, call, &caller);
        for (int i = 0; i < 20; i++) {
            const struct timespec nap = {0, 1000000};
            nanosleep(&nap, NULL);
            assert_int_equal(atomic_load(&caller.done), 0);
        }
        if (alone) ct_workspace_end_exclusive(lanes[0]);
        if (!alone) ct_workspace_release(lanes[0]);
        pthread_join(thread, NULL);
        assert_int_equal(caller.done, 1);
        assert_int_equal(caller.wrong, 0);
        for (int i = alone ? 0 : 1; i < n; i++) ct_workspace_release(lanes[i]);
    }
    ct_engine_destroy(&engine);
}

/* A batch in the background that waits for memory, or has it all, waits for others of the background alone, and lets
 * those of the foreground go on; what is cancelled waits no longer. */
static void test_background_lets_others_on(void **state) {
    (void)state;
    char expected[1][33], hash[1][33];
    reference(open_small, everything, expected, NULL);
    ct_engine *engine = engine_of(3, 0);
    ct_device *device = engine->devices[0].device;
    struct stage small = open_small(engine);
    ct_workspace *fore = acquire(device, false, false), *back = acquire(device, true, true);
    assert_true(ct_workspace_begin_exclusive(back));
    ct_workspaces_free_scratch(device);
    assert_true(run_batch(&small, 1, everything, hash));
    assert_string_equal(hash[0], expected[0]);
    assert_null(ct_workspace_try(device, true, true));
    ct_cancel cancel;
    ct_cancel_init(&cancel, 0);
    ct_cancel_request(&cancel, CT_CANCEL_CALLER);
    ct_cancel_scope(&cancel);
    assert_false(ct_workspace_begin_exclusive(fore));
    ct_cancel_scope(NULL);
    ct_step late = {.scene = small.scene, .in_background = true, .cancel = &cancel}; /* it finds no workspace */
    assert_int_equal(ct_engine_run(engine, &late, 1), CT_CANCELLED);
    ct_workspace_end_exclusive(back);
    ct_workspace_release(fore);
    assert_true(ct_workspace_begin_exclusive(back));
    ct_workspace_end_exclusive(back);
    ct_workspace_release(back);
    stage_close(&small);
    ct_engine_destroy(&engine);
}

static uint64_t scratch_of(ct_engine *engine) {
    ct_engine_facts facts;
    ct_engine_get_facts(engine, 0, &facts);
    return facts.scratch_bytes;
}

/* Scratch that was not used for a while is given back, also while other batches run; the next step allocates it anew. */
static void test_idle_scratch_is_released(void **state) {
    (void)state;
    char large[1][33], hash[1][33];
    reference(open_large, CT_WANT_ALL, large, NULL);
    ct_engine *engine = engine_of(2, 0);
    struct stage stage = open_large(engine);
    for (int round = 0; round < 2; round++) {
        assert_true(run_batch(&stage, 1, CT_WANT_ALL, hash));
        assert_string_equal(hash[0], large[0]);
        const uint64_t held = scratch_of(engine);
        assert_true(held > 100000);
        assert_int_equal(ct_engine_release_scratch(engine, 1e9), 0);
        assert_int_equal(scratch_of(engine), held);
        assert_int_equal(ct_engine_release_scratch(engine, 0), held);
        assert_int_equal(scratch_of(engine), 0);
        assert_int_equal(ct_engine_release_scratch(engine, 0), 0);
    }
    struct caller caller = {engine, open_large, 1, 12, CT_WANT_ALL, large[0], 0, 0, 0};
    pthread_t thread;
    pthread_create(&thread, NULL, call, &caller);
    while (atomic_load(&caller.done) < 12) ct_engine_release_scratch(engine, 0);
    pthread_join(thread, NULL);
    assert_int_equal(caller.failed + caller.wrong, 0);
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits),
                                       cmocka_unit_test(test_fits_beside_a_neighbour),
                                       cmocka_unit_test(test_second_does_not_wait),
                                       cmocka_unit_test(test_further_ones_wait),
                                       cmocka_unit_test(test_background_lets_others_on),
                                       cmocka_unit_test(test_idle_scratch_is_released)};
    return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
