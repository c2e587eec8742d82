/* answer.h - what came of a step, and which answers are kept for repeats. For the scheduler; locked by its caller. */
#ifndef SERVER_ANSWER_H
#define SERVER_ANSWER_H

#include <stdatomic.h>

#include "server/schedule/schedule.h"

/* Numbering and kept answers of one scene. Kept are a run of numbers that ends at the newest. */
typedef struct sequence {
    uint64_t admitted; /* the last number admitted; 0: none */
    uint64_t answered; /* the last number answered */
    uint64_t refused;  /* the next number was refused as BUSY; 0: it was not */
    step_answer *oldest, *newest;
    atomic_uint_fast64_t bytes; /* held by the kept answers */
} sequence;

/* A session's newest answers: a ring; an answer that falls out expires. */
typedef struct answer_window {
    step_answer **slots;
    uint32_t size, next;
    atomic_uint_fast64_t *total_bytes; /* of all kept answers everywhere */
} answer_window;

struct step_answer {
    atomic_uint references;
    uint64_t number;
    ct_result *result;
    server_error error; /* code OK: result holds */
    double queue_s;
    double cost_s; /* processor time of the step */
    uint64_t bytes;

    /* While kept: */
    step_answer *newer;
    sequence *keeper;
    answer_window *window;
    uint32_t slot;
    bool expired;
};

step_answer *step_answer_new(uint64_t number); /* one reference; NULL: out of memory */

typedef enum sequence_verdict {
    SEQUENCE_NEW,       /* the expected one */
    SEQUENCE_KEPT,      /* answered; *kept is the answer (no reference taken) */
    SEQUENCE_IN_FLIGHT, /* admitted, not answered */
    SEQUENCE_FORGOTTEN, /* answered, no longer kept */
    SEQUENCE_REFUSED,   /* behind one that was refused as BUSY */
    SEQUENCE_GAP,       /* any other */
} sequence_verdict;

sequence_verdict sequence_judge(const sequence *sequence, uint64_t number, step_answer **kept);
void sequence_admit(sequence *sequence, uint64_t number);
void sequence_refuse(sequence *sequence, uint64_t number); /* the expected number found the queue full */
/* Keeps the answer to the next number (takes a reference) and lets go of those that need not be kept any longer. */
void sequence_keep(sequence *sequence, answer_window *window, step_answer *answer);
void sequence_clear(sequence *sequence); /* lets go of all answers */

bool answer_window_init(answer_window *window, uint32_t size, atomic_uint_fast64_t *total_bytes);
void answer_window_free(answer_window *window); /* after its scenes' sequences were cleared */

#endif
