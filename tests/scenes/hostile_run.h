/* hostile_run.h - runs a hostile scene and ends its step early, and checks what has to hold of that, however long the
 * step would have taken: it ends soon, within its memory, has changed nothing, and says what it was doing. For the fuzz
 * target and its test, which are linked as polls.h says.
 */
#ifndef HOSTILE_RUN_H
#define HOSTILE_RUN_H

#include "tests/scenes/hostile_scene.h"

/* s of processor time that a call may take between two polls, or after one that said to end. Polls are at most 5 ms
 * apart on a slow machine, and sanitizers make that 25 ms; twenty times as much is taken by nothing but a loop that
 * does not poll. What other programs do counts little, as it is not the clock's time. */
#define HOSTILE_GRACE 0.5

enum { HOSTILE_SCRATCH = 256 << 20 }; /* bytes of working memory that a step may take */

typedef struct hostile_end { /* what ends the calls; all 0: nothing does */
    double seconds;          /* s; the limit of each call */
    uint64_t at_poll;        /* of the step */
    double request;          /* s after which another thread requests the step's end */
    bool is_requested;       /* before the step begins */
} hostile_end;

/* Checks one step. compares: also that the next step, which nothing ends, has the bits of a fresh engine's; for small
 * scenes. status: of the step, or of the scene if it was not made. Returns what is wrong; NULL: nothing. Valid until
 * the next call. */
const char *hostile_check(const hostile_scene *scene, const hostile_end *end, bool compares, ct_status *status);

#endif
