/* repeats.h: what was answered is answered again, and what is kept is bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/repeats.h"

static repeat_outcome begin(repeats *repeats, const repeat_request *request, const char *expected, problem *p) {
    char *answer = NULL;
    size_t size = 0;
    *p = (problem){0};
    repeat_outcome outcome = repeats_begin(repeats, request, &answer, &size, p);
    assert_int_equal(outcome == REPEAT_REFUSED, p->code != CONTACTD_OK);
    if (outcome == REPEAT_ANSWERED && expected) {
        assert_int_equal(size, strlen(expected));
        assert_memory_equal(answer, expected, size);
    }
    free(answer);
    return outcome;
}

static void repeats_an_answer(void **state) {
    (void)state;
    repeats *repeats = repeats_new();
    problem p;
    const repeat_request first = {7, 1, "key-1", "{}", 2};
    repeat_request other = first;
    assert_int_equal(begin(repeats, &first, NULL, &p), REPEAT_FIRST);
    assert_int_equal(begin(repeats, &first, NULL, &p), REPEAT_REFUSED); /* it runs */
    assert_int_equal(p.code, CONTACTD_CONFLICT);
    assert_true(p.retry_after_ms > 0);
    repeats_end(repeats, &first, "answer", 6);
    assert_int_equal(begin(repeats, &first, "answer", &p), REPEAT_ANSWERED);
    assert_int_equal(begin(repeats, &first, "answer", &p), REPEAT_ANSWERED);
    other.body = "[]";
    assert_int_equal(begin(repeats, &other, NULL, &p), REPEAT_REFUSED);
    assert_int_equal(problem_status(&p), 422);
    other = first;
    other.scene = 8;
    assert_int_equal(begin(repeats, &other, NULL, &p), REPEAT_FIRST);
    other = first;
    other.principal = 2; /* cannot fetch another's answer */
    assert_int_equal(begin(repeats, &other, NULL, &p), REPEAT_FIRST);
    other.key = "key-2";
    assert_int_equal(begin(repeats, &other, NULL, &p), REPEAT_FIRST);
    repeats_end(repeats, &other, NULL, 0); /* failed: may be tried again */
    assert_int_equal(begin(repeats, &other, NULL, &p), REPEAT_FIRST);
    repeats_free(&repeats);
    assert_null(repeats);
}

static void refuses_keys(void **state) {
    (void)state;
    repeats *repeats = repeats_new();
    problem p;
    char longest[REPEATS_KEY + 2];
    memset(longest, 'k', sizeof longest);
    longest[REPEATS_KEY + 1] = 0;
    const char *const broken[] = {"", "a b", "a\tb", "\x7f", "\xc3\xbc", longest};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        const repeat_request request = {1, 0, broken[i], "", 0};
        assert_int_equal(begin(repeats, &request, NULL, &p), REPEAT_REFUSED);
        assert_int_equal(p.code, CONTACTD_INVALID_ARGUMENT);
    }
    longest[REPEATS_KEY] = 0;
    const repeat_request request = {1, 0, longest, "", 0};
    assert_int_equal(begin(repeats, &request, NULL, &p), REPEAT_FIRST);
    repeats_free(&repeats);
}

static void forgets_the_oldest(void **state) {
    (void)state;
    repeats *repeats = repeats_new();
    problem p;
    char key[16];
    for (int i = 0; i <= REPEATS_MOST; i++) {
        snprintf(key, sizeof key, "%d", i);
        const repeat_request request = {1, 0, key, "", 0};
        assert_int_equal(begin(repeats, &request, NULL, &p), REPEAT_FIRST);
        repeats_end(repeats, &request, key, strlen(key));
    }
    const repeat_request gone = {1, 0, "0", "", 0}, kept = {1, 0, "1", "", 0};
    assert_int_equal(begin(repeats, &kept, "1", &p), REPEAT_ANSWERED);
    assert_int_equal(begin(repeats, &gone, NULL, &p), REPEAT_FIRST);
    repeats_free(&repeats);
}

/* Answers of more than REPEATS_BYTES in all: the oldest go, and their keys are still known as used. */
static void large_answers_make_room(void **state) {
    (void)state;
    enum { SIZE = REPEATS_BYTES / 4, N = 6 };
    repeats *repeats = repeats_new();
    problem p;
    char *answer = calloc(1, SIZE + 1), key[16];
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "%d", i);
        const repeat_request request = {1, 0, key, "", 0};
        assert_int_equal(begin(repeats, &request, NULL, &p), REPEAT_FIRST);
        repeats_end(repeats, &request, answer, SIZE);
    }
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "%d", i);
        const repeat_request request = {1, 0, key, "", 0};
        repeat_outcome outcome = begin(repeats, &request, NULL, &p);
        assert_int_equal(outcome, i < N - 4 ? REPEAT_REFUSED : REPEAT_ANSWERED);
        if (i < N - 4) assert_non_null(strstr(p.detail, "no longer kept"));
    }
    const repeat_request huge = {1, 0, "huge", "", 0};
    assert_int_equal(begin(repeats, &huge, NULL, &p), REPEAT_FIRST);
    repeats_end(repeats, &huge, answer, SIZE + 1);
    assert_int_equal(begin(repeats, &huge, NULL, &p), REPEAT_REFUSED);
    free(answer);
    repeats_free(&repeats);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeats_an_answer),
        cmocka_unit_test(refuses_keys),
        cmocka_unit_test(forgets_the_oldest),
        cmocka_unit_test(large_answers_make_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
