/* answer.c - counted answers, and the rule which of them are kept: see the top of schedule.h. */
#include "server/registry/answer.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

step_answer *step_answer_new(uint64_t number) {
    step_answer *answer = malloc(sizeof *answer);
    if (!answer) return NULL;
    memset(answer, 0, offsetof(step_answer, error));
    server_clear(&answer->error);
    atomic_init(&answer->references, 1);
    answer->number = number;
    return answer;
}

step_answer *step_answer_retain(step_answer *answer) {
    atomic_fetch_add_explicit(&answer->references, 1, memory_order_relaxed);
    return answer;
}

void step_answer_release(step_answer **answer) {
    step_answer *gone = *answer;
    *answer = NULL;
    if (!gone || atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) != 1) return;
    ct_result_free(&gone->result);
    free(gone);
}

const ct_result *step_answer_result(const step_answer *answer) {
    return answer->result;
}

uint64_t step_answer_bytes(const step_answer *answer) {
    return answer->bytes;
}

const ct_scene_settings *step_answer_settings(const step_answer *answer, uint64_t *revision) {
    *revision = answer->revision;
    return &answer->settings;
}

uint64_t step_answer_steps(const step_answer *answer) {
    return answer->steps;
}

double step_answer_queue_seconds(const step_answer *answer) {
    return answer->queue_s;
}

sequence_verdict sequence_judge(const sequence *sequence, uint64_t number, step_answer **kept) {
    if (number == sequence->admitted + 1) return SEQUENCE_NEW;
    if (number > sequence->admitted) {
        return sequence->refused == sequence->admitted + 1 ? SEQUENCE_REFUSED : SEQUENCE_GAP;
    }
    if (number > sequence->answered) return SEQUENCE_IN_FLIGHT;
    for (step_answer *answer = sequence->oldest; answer; answer = answer->newer) {
        if (answer->number == number) {
            *kept = answer;
            return SEQUENCE_KEPT;
        }
    }
    return SEQUENCE_FORGOTTEN;
}

void sequence_admit(sequence *sequence, uint64_t number) {
    sequence->admitted = number;
    sequence->refused = 0;
}

void sequence_refuse(sequence *sequence, uint64_t number) {
    sequence->refused = number;
}

/* ---- the three lists that a kept answer is in ---- */

static void shrink_window(answer_window *window) {
    step_answer *answer = window->first_in_window;
    window->first_in_window = answer->newer_of_session;
    window->n_in_window--;
    answer->is_in_window = false;
}

static void leave_session(step_answer *answer) {
    answer_window *window = answer->window;
    if (answer->is_in_window) {
        window->n_in_window--;
        if (window->first_in_window == answer) window->first_in_window = answer->newer_of_session;
    }
    *(answer->older_of_session ? &answer->older_of_session->newer_of_session : &window->oldest) =
        answer->newer_of_session;
    *(answer->newer_of_session ? &answer->newer_of_session->older_of_session : &window->newest) =
        answer->older_of_session;
    answer->older_of_session = answer->newer_of_session = NULL;
    answer->window = NULL;
    window->bytes -= answer->bytes;
}

static void enter_session(answer_window *window, step_answer *answer) {
    answer->window = window;
    answer->is_in_window = true;
    answer->older_of_session = window->newest;
    answer->newer_of_session = NULL;
    *(window->newest ? &window->newest->newer_of_session : &window->oldest) = answer;
    window->newest = answer;
    if (!window->first_in_window) window->first_in_window = answer;
    window->n_in_window++;
    window->bytes += answer->bytes;
}

static void leave_store(answer_store *store, step_answer *answer) {
    *(answer->older_of_all ? &answer->older_of_all->newer_of_all : &store->oldest) = answer->newer_of_all;
    *(answer->newer_of_all ? &answer->newer_of_all->older_of_all : &store->newest) = answer->older_of_all;
    answer->older_of_all = answer->newer_of_all = NULL;
    store->kept_bytes -= answer->bytes;
}

static void enter_store(answer_store *store, step_answer *answer) {
    answer->older_of_all = store->newest;
    answer->newer_of_all = NULL;
    *(store->newest ? &store->newest->newer_of_all : &store->oldest) = answer;
    store->newest = answer;
    store->kept_bytes += answer->bytes;
}

static void enter_sequence(sequence *sequence, step_answer *answer) {
    answer->keeper = sequence;
    answer->newer = NULL;
    *(sequence->newest ? &sequence->newest->newer : &sequence->oldest) = answer;
    sequence->newest = answer;
    sequence->newest_bytes = answer->bytes;
    sequence->answered = answer->number;
    sequence->bytes += answer->bytes;
}

/* ---- keeping and letting go ---- */

static void drop_oldest(sequence *sequence, answer_store *store) {
    step_answer *answer = sequence->oldest;
    sequence->oldest = answer->newer;
    if (!sequence->oldest) sequence->newest = NULL, sequence->newest_bytes = 0;
    sequence->bytes -= answer->bytes;
    leave_session(answer);
    leave_store(store, answer);
    answer->keeper = NULL;
    answer->newer = NULL;
    step_answer_release(&answer);
}

/* Those that have left the window, or were received, but for the scene's newest. */
static void drop_expired(sequence *sequence, answer_store *store) {
    while (sequence->oldest && sequence->oldest != sequence->newest &&
           (!sequence->oldest->is_in_window || sequence->oldest->number <= sequence->received))
        drop_oldest(sequence, store);
}

void sequence_receive(sequence *sequence, answer_store *store, uint64_t number) {
    if (number > sequence->answered) number = sequence->answered; /* nobody has an answer before it is given */
    if (number > sequence->received) sequence->received = number;
    drop_expired(sequence, store);
}

/* The oldest of all, and of a session, is the oldest of its scene too: a scene's answers belong to one session and come
 * in order. */
void answer_store_make_room(answer_store *store, uint64_t bytes) {
    if (store->scene_bytes + bytes > store->max_bytes) return; /* answers cannot make enough */
    while (store->oldest && store->scene_bytes + store->kept_bytes + bytes > store->max_bytes)
        drop_oldest(store->oldest->keeper, store);
}

static void make_room_in_session(answer_window *window, uint64_t bytes) {
    while (window->oldest && window->bytes + bytes > window->max_bytes)
        drop_oldest(window->oldest->keeper, window->store);
    if (window->n_in_window < window->max_n) return;
    sequence *keeper = window->first_in_window->keeper;
    shrink_window(window);
    drop_expired(keeper, window->store);
}

/* An answer that has no room at all beside scenes is the only one kept. */
static void make_room_for(answer_store *store, const step_answer *answer) {
    while (store->oldest && store->scene_bytes + store->kept_bytes + answer->bytes > store->max_bytes)
        drop_oldest(store->oldest->keeper, store);
}

static void drop_unnumbered(sequence *sequence, answer_store *store) {
    if (!sequence->unnumbered) return;
    sequence->bytes -= sequence->unnumbered->bytes;
    store->kept_bytes -= sequence->unnumbered->bytes;
    step_answer_release(&sequence->unnumbered);
}

void sequence_keep_unnumbered(sequence *sequence, answer_store *store, step_answer *answer) {
    drop_unnumbered(sequence, store);
    answer_store_make_room(store, answer->bytes);
    if (store->scene_bytes + store->kept_bytes + answer->bytes > store->max_bytes) return;
    sequence->unnumbered = step_answer_retain(answer);
    sequence->bytes += answer->bytes;
    store->kept_bytes += answer->bytes;
}

step_answer *sequence_last(const sequence *sequence) {
    step_answer *last = sequence->unnumbered ? sequence->unnumbered : sequence->newest;
    return last ? step_answer_retain(last) : NULL;
}

void sequence_keep(sequence *sequence, answer_window *window, step_answer *answer) {
    drop_unnumbered(sequence, window->store);
    make_room_in_session(window, answer->bytes);
    make_room_for(window->store, answer);
    step_answer_retain(answer);
    enter_sequence(sequence, answer);
    enter_session(window, answer);
    enter_store(window->store, answer);
    drop_expired(sequence, window->store);
}

void sequence_clear(sequence *sequence, answer_store *store) {
    drop_unnumbered(sequence, store);
    while (sequence->oldest) drop_oldest(sequence, store);
}

void answer_window_init(answer_window *window, uint32_t max_n, uint64_t max_bytes, answer_store *store) {
    *window = (answer_window){.store = store, .max_n = max_n, .max_bytes = max_bytes};
}
