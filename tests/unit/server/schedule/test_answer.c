/* Sequence numbers and kept answers: which number is new, repeated, forgotten or out of order, and who is let go when.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/schedule/answer.h"

static atomic_uint_fast64_t total;

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
    assert_true(answer_window_init(&window, 4, &total));
    for (uint64_t n = 1; n <= 10; n++) admit_and_answer(&sequence, &window, n);
    for (uint64_t n = 7; n <= 10; n++) expect_kept(&sequence, n);
    assert_int_equal(judge(&sequence, 6), SEQUENCE_FORGOTTEN);
    assert_int_equal(sequence.bytes, 400);
    assert_int_equal(total, 400);
    sequence_clear(&sequence);
    assert_int_equal(total, 0);
    answer_window_free(&window);
}

/* Many scenes of one session: each keeps its newest, and only the session's newest beyond that. */
static void test_every_scene_keeps_its_newest(void **state) {
    (void)state;
    sequence a = {0}, b = {0};
    answer_window window;
    assert_true(answer_window_init(&window, 3, &total));
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
    assert_int_equal(total, 300);
    sequence_clear(&b); /* its scene is closed; the window must not remember it */
    for (uint64_t n = 5; n <= 9; n++) admit_and_answer(&a, &window, n);
    for (uint64_t n = 7; n <= 9; n++) expect_kept(&a, n);
    sequence_clear(&a);
    assert_int_equal(total, 0);
    answer_window_free(&window);
}

static void test_answers_outlive_their_scene(void **state) {
    (void)state;
    sequence sequence = {0};
    answer_window window;
    assert_true(answer_window_init(&window, 2, &total));
    admit_and_answer(&sequence, &window, 1);
    step_answer *kept = NULL;
    sequence_judge(&sequence, 1, &kept);
    step_answer *sending = step_answer_retain(kept);
    sequence_clear(&sequence);
    assert_int_equal(sending->number, 1);
    assert_null(step_answer_result(sending));
    step_answer_release(&sending);
    assert_null(sending);
    answer_window_free(&window);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_refused_ones_hold_back_those_behind),
        cmocka_unit_test(test_newest_of_the_session_are_kept),
        cmocka_unit_test(test_every_scene_keeps_its_newest),
        cmocka_unit_test(test_answers_outlive_their_scene),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
