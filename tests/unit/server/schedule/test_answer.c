/* Sequence numbers and kept answers: which number is new, repeated, forgotten or out of order, and who is let go when.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/registry/answer.h"

static answer_store store = {.max_bytes = UINT64_MAX};

static void answer(sequence *sequence, answer_window *window, uint64_t number) {
    step_answer *fresh = step_answer_new(number);
    fresh->bytes = 100;
    sequence_keep(sequence, window, fresh);
    step_answer_release(&fresh);
}

static void admit_and_answer(sequence *sequence, answer_window *window, uint64_t number) {
    step_answer *kept = NULL;
    assert_int_equal(sequence_judge(sequence, number, &kept), SEQUENCE_NEW);
    sequence_admit(sequence, number);
    assert_int_equal(sequence_judge(sequence, number, &kept), SEQUENCE_IN_FLIGHT);
    answer(sequence, window, number);
}

static void expect_kept(const sequence *sequence, uint64_t number) {
    step_answer *kept = NULL;
    assert_int_equal(sequence_judge(sequence, number, &kept), SEQUENCE_KEPT);
    assert_int_equal(kept->number, number);
}

static sequence_verdict judge(const sequence *sequence, uint64_t number) {
    step_answer *kept = NULL;
    return sequence_judge(sequence, number, &kept);
}

static void test_order(void **state) {
    (void)state;
    sequence sequence = {0};
    assert_int_equal(judge(&sequence, 1), SEQUENCE_NEW);
    assert_int_equal(judge(&sequence, 2), SEQUENCE_GAP);
    sequence_admit(&sequence, 1);
    sequence_admit(&sequence, 2);
    assert_int_equal(judge(&sequence, 1), SEQUENCE_IN_FLIGHT);
    assert_int_equal(judge(&sequence, 2), SEQUENCE_IN_FLIGHT);
    assert_int_equal(judge(&sequence, 3), SEQUENCE_NEW);
    assert_int_equal(judge(&sequence, 4), SEQUENCE_GAP);
}

static void test_refused_ones_hold_back_those_behind(void **state) {
    (void)state;
    sequence sequence = {0};
    sequence_admit(&sequence, 1);
    sequence_refuse(&sequence, 2);
    assert_int_equal(judge(&sequence, 3), SEQUENCE_REFUSED);
    assert_int_equal(judge(&sequence, 2), SEQUENCE_NEW);
    sequence_admit(&sequence, 2);
    assert_int_equal(judge(&sequence, 4), SEQUENCE_GAP);
}

static void test_newest_of_the_session_are_kept(void **state) {
    (void)state;
    sequence sequence = {0};
    answer_window window;
    answer_window_init(&window, 4, UINT64_MAX, &store);
    for (uint64_t n = 1; n <= 10; n++) admit_and_answer(&sequence, &window, n);
    for (uint64_t n = 7; n <= 10; n++) expect_kept(&sequence, n);
    assert_int_equal(judge(&sequence, 6), SEQUENCE_FORGOTTEN);
    assert_int_equal(sequence.bytes, 400);
    assert_int_equal(store.kept_bytes, 400);
    sequence_clear(&sequence, &store);
    assert_int_equal(store.kept_bytes, 0);
}

/* Many scenes of one session: each keeps its newest, and only the session's newest beyond that. */
static void test_every_scene_keeps_its_newest(void **state) {
    (void)state;
    sequence a = {0}, b = {0};
    answer_window window;
    answer_window_init(&window, 3, UINT64_MAX, &store);
    for (uint64_t n = 1; n <= 3; n++) admit_and_answer(&a, &window, n);
    for (uint64_t n = 1; n <= 2; n++) admit_and_answer(&b, &window, n);
    expect_kept(&a, 3);
    assert_int_equal(judge(&a, 2), SEQUENCE_FORGOTTEN);
    for (uint64_t n = 3; n <= 5; n++) admit_and_answer(&b, &window, n);
    expect_kept(&a, 3); /* out of the session's window, but the scene's newest */
    assert_int_equal(a.bytes, 100);
    admit_and_answer(&a, &window, 4);
    expect_kept(&a, 4);
    assert_int_equal(judge(&a, 3), SEQUENCE_FORGOTTEN);
    expect_kept(&b, 4);
    assert_int_equal(judge(&b, 3), SEQUENCE_FORGOTTEN);
    assert_int_equal(store.kept_bytes, 300);
    sequence_clear(&b, &store); /* its scene is closed; the window must not remember it */
    for (uint64_t n = 5; n <= 9; n++) admit_and_answer(&a, &window, n);
    for (uint64_t n = 7; n <= 9; n++) expect_kept(&a, n);
    sequence_clear(&a, &store);
    assert_int_equal(store.kept_bytes, 0);
}

static void test_answers_outlive_their_scene(void **state) {
    (void)state;
    sequence sequence = {0};
    answer_window window;
    answer_window_init(&window, 2, UINT64_MAX, &store);
    admit_and_answer(&sequence, &window, 1);
    step_answer *kept = NULL;
    sequence_judge(&sequence, 1, &kept);
    step_answer *sending = step_answer_retain(kept);
    sequence_clear(&sequence, &store);
    assert_int_equal(sending->number, 1);
    assert_null(step_answer_result(sending));
    step_answer_release(&sending);
    assert_null(sending);
}

/* What the client has is let go of, in the middle of a window too, but for the scene's newest. */
static void test_received_ones_go(void **state) {
    (void)state;
    sequence a = {0}, b = {0};
    answer_window window;
    answer_window_init(&window, 4, UINT64_MAX, &store);
    for (uint64_t n = 1; n <= 2; n++) admit_and_answer(&a, &window, n), admit_and_answer(&b, &window, n);
    sequence_receive(&b, &store, 1);
    assert_int_equal(judge(&b, 1), SEQUENCE_FORGOTTEN);
    expect_kept(&a, 1);
    sequence_receive(&b, &store, 2); /* its newest stays */
    expect_kept(&b, 2);
    admit_and_answer(&b, &window, 3); /* until another is */
    assert_int_equal(judge(&b, 2), SEQUENCE_FORGOTTEN);
    sequence_receive(&b, &store, 1);          /* a message that was overtaken */
    sequence_receive(&a, &store, UINT64_MAX); /* nobody has the answers that are not given yet */
    assert_int_equal(judge(&a, 1), SEQUENCE_FORGOTTEN);
    for (uint64_t n = 3; n <= 4; n++) admit_and_answer(&a, &window, n);
    for (uint64_t n = 3; n <= 4; n++) expect_kept(&a, n);
    assert_int_equal(judge(&a, 2), SEQUENCE_FORGOTTEN);
    assert_int_equal(window.n_in_window, 3);
    assert_int_equal(store.kept_bytes, 300);
    sequence_clear(&a, &store);
    sequence_clear(&b, &store);
    assert_int_equal(window.n_in_window, 0);
}

/* By bytes too: of the session, then of all sessions and scenes together. The oldest go first, whosever they are. */
static void test_bytes_are_bounded(void **state) {
    (void)state;
    answer_store small = {.max_bytes = 1000};
    sequence a = {0}, b = {0}, c = {0};
    answer_window first, second;
    answer_window_init(&first, 100, 500, &small);
    answer_window_init(&second, 100, 500, &small);
    for (uint64_t n = 1; n <= 5; n++) admit_and_answer(&a, &first, n);
    assert_int_equal(first.bytes, 500);
    admit_and_answer(&b, &first, 1);
    assert_int_equal(judge(&a, 1), SEQUENCE_FORGOTTEN);
    expect_kept(&a, 2);
    assert_int_equal(first.bytes, 500);
    for (uint64_t n = 1; n <= 5; n++) admit_and_answer(&c, &second, n);
    assert_int_equal(small.kept_bytes, 1000);
    small.scene_bytes = 300; /* as bodies come, answers go: also one that is its scene's newest */
    answer_store_make_room(&small, 200);
    assert_int_equal(small.kept_bytes, 500);
    assert_int_equal(judge(&a, 5), SEQUENCE_FORGOTTEN);
    assert_int_equal(judge(&b, 1), SEQUENCE_FORGOTTEN);
    expect_kept(&c, 1);
    answer_store_make_room(&small, 800); /* answers alone cannot make that much */
    assert_int_equal(small.kept_bytes, 500);
    small.scene_bytes = 1000; /* no room at all: the answer just given is kept */
    admit_and_answer(&a, &first, 6);
    expect_kept(&a, 6);
    assert_int_equal(judge(&c, 5), SEQUENCE_FORGOTTEN);
    assert_int_equal(small.kept_bytes, 100);
    assert_int_equal(first.bytes, 100);
    assert_int_equal(second.bytes, 0);
    sequence_clear(&a, &small);
    assert_int_equal(small.kept_bytes, 0);
    assert_null(small.oldest);
    assert_null(first.oldest);
}

/* Also those that have left the window, as their scenes' newest. */
static void test_bytes_of_many_scenes_are_bounded(void **state) {
    (void)state;
    answer_store large = {.max_bytes = UINT64_MAX};
    sequence scenes[20] = {0};
    answer_window window;
    answer_window_init(&window, 2, 1000, &large);
    for (int i = 0; i < 20; i++) admit_and_answer(&scenes[i], &window, 1);
    assert_int_equal(window.bytes, 1000);
    assert_int_equal(large.kept_bytes, 1000);
    assert_int_equal(judge(&scenes[9], 1), SEQUENCE_FORGOTTEN);
    for (int i = 10; i < 20; i++) expect_kept(&scenes[i], 1);
    for (int i = 0; i < 20; i++) sequence_clear(&scenes[i], &large);
    assert_int_equal(window.bytes, 0);
    assert_int_equal(window.n_in_window, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_refused_ones_hold_back_those_behind),
        cmocka_unit_test(test_newest_of_the_session_are_kept),
        cmocka_unit_test(test_every_scene_keeps_its_newest),
        cmocka_unit_test(test_answers_outlive_their_scene),
        cmocka_unit_test(test_received_ones_go),
        cmocka_unit_test(test_bytes_are_bounded),
        cmocka_unit_test(test_bytes_of_many_scenes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
