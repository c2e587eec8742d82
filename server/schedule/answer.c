/* answer.c - counted answers, and the rule which of them are kept: see the top of schedule.h. */
#include "server/schedule/answer.h"

#include <stdlib.h>

step_answer *step_answer_new(uint64_t number) {
    step_answer *answer = calloc(1, sizeof *answer);
    if (!answer) return NULL;
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

const server_error *step_answer_error(const step_answer *answer) {
    return answer->error.code == CONTACTD_OK ? NULL : &answer->error;
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

static void drop_oldest(sequence *sequence) {
    step_answer *answer = sequence->oldest;
    sequence->oldest = answer->newer;
    if (!sequence->oldest) sequence->newest = NULL;
    sequence->bytes -= answer->bytes;
    *answer->window->total_bytes -= answer->bytes;
    if (!answer->expired) answer->window->slots[answer->slot] = NULL;
    answer->keeper = NULL;
    answer->newer = NULL;
    step_answer_release(&answer);
}

static void drop_expired(sequence *sequence) {
    while (sequence->oldest && sequence->oldest->expired && sequence->oldest != sequence->newest) drop_oldest(sequence);
}

void sequence_keep(sequence *sequence, answer_window *window, step_answer *answer) {
    step_answer_retain(answer);
    sequence->answered = answer->number;
    sequence->bytes += answer->bytes;
    *window->total_bytes += answer->bytes;
    answer->keeper = sequence;
    answer->newer = NULL;
    if (sequence->newest) {
        sequence->newest->newer = answer;
    } else {
        sequence->oldest = answer;
    }
    sequence->newest = answer;

    answer->window = window;
    answer->slot = window->next;
    step_answer *leaving = window->slots[window->next];
    window->slots[window->next] = answer;
    window->next = (window->next + 1) % window->size;
    if (leaving) {
        leaving->expired = true;
        drop_expired(leaving->keeper);
    }
    drop_expired(sequence);
}

void sequence_clear(sequence *sequence) {
    while (sequence->oldest) drop_oldest(sequence);
}

bool answer_window_init(answer_window *window, uint32_t size, atomic_uint_fast64_t *total_bytes) {
    window->slots = calloc(size, sizeof(step_answer *));
    window->size = size;
    window->total_bytes = total_bytes;
    window->next = 0;
    return window->slots != NULL;
}

void answer_window_free(answer_window *window) {
    free(window->slots);
    window->slots = NULL;
}
