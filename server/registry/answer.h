/* answer.h - a step's outcome, and which answers are kept for repeats. For the scheduler, whose lock guards
 * them. */
#ifndef SERVER_ANSWER_H
#define SERVER_ANSWER_H

#include <stdatomic.h>

#include "server/registry/outcome.h"

/* Numbering and kept answers of one scene. Kept are a run of numbers that ends at the newest. */
typedef struct sequence {
    uint64_t admitted; /* the last number admitted; 0: none */
    uint64_t answered; /* the last number answered */
    uint64_t received; /* the client has the answers up to this number; 0: it did not say */
    uint64_t refused;  /* the next number was refused as BUSY; 0: it was not */
    step_answer *oldest, *newest;
    uint64_t newest_bytes;      /* of the newest; 0: none is kept */
    atomic_uint_fast64_t bytes; /* held by the kept answers */
    step_answer *unnumbered;    /* the last step's, where it had no number: for who looks at the scene; NULL: none */
} sequence;

/* All kept answers, from the oldest to the newest. Their bytes and those of scenes share one limit, and the oldest
 * answers make room. */
typedef struct answer_store {
    step_answer *oldest, *newest;
    uint64_t max_bytes; /* of scenes and kept answers */
    atomic_uint_fast64_t scene_bytes;
    atomic_uint_fast64_t kept_bytes;
} answer_store;

/* The kept answers of a session, from the oldest to the newest. The newest max_n of them are its window; an answer that
 * has left the window is kept only while it is its scene's newest. */
typedef struct answer_window {
    answer_store *store;
    step_answer *oldest, *newest;
    step_answer *first_in_window;
    uint32_t n_in_window, max_n;
    uint64_t bytes, max_bytes; /* of all that the session keeps */
} answer_window;

struct step_answer {
    atomic_uint references;
    uint64_t number;
    ct_result *result;
    ct_scene_settings settings; /* that it ran with */
    uint64_t revision;          /* of these */
    uint64_t steps;             /* of the scene that had a result, when this one ended */
    double queue_s;
    double cost_s; /* processor time of the step */
    uint64_t bytes;

    /* While kept: */
    sequence *keeper;
    answer_window *window;
    bool is_in_window;
    step_answer *newer; /* of its scene; a scene lets go of its oldest first */
    step_answer *older_of_session, *newer_of_session;
    step_answer *older_of_all, *newer_of_all;

    server_error error; /* code OK: result holds. Last: step_answer_new zeroes what is before it */
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
/* Keeps the answer to the next number (takes a reference) and lets go of those that need not be kept any longer, or
 * have no room: the session's oldest beyond its number or bytes, then the oldest of all beyond the store's. This answer
 * itself stays, whatever its size. */
void sequence_keep(sequence *sequence, answer_window *window, step_answer *answer);
/* The client has the answers up to this number: lets go of them, but for the scene's newest. */
void sequence_receive(sequence *sequence, answer_store *store, uint64_t number);
/* Keeps the answer to a step without a number (takes a reference) in place of the one before, if it has room. */
void sequence_keep_unnumbered(sequence *sequence, answer_store *store, step_answer *answer);
/* The last step's answer, with a reference; NULL: it is not kept. */
step_answer *sequence_last(const sequence *sequence);
void sequence_clear(sequence *sequence, answer_store *store); /* lets go of all answers */

/* Lets go of the oldest answers of all until `bytes` more have room in the store, or none is kept. */
void answer_store_make_room(answer_store *store, uint64_t bytes);

void answer_window_init(answer_window *window, uint32_t max_n, uint64_t max_bytes, answer_store *store);

#endif
