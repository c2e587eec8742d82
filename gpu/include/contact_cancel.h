/* contact_cancel.h - ends a call of the engine early: at a time, or when another thread asks for it.
 * Part of contact.h, which says what holds of all: units, ownership, errors, threads.
 *
 * The engine looks at a ct_cancel in every loop whose length follows from input, at most 5 ms apart on the CPU. A call
 * that it ends fails with CT_CANCELLED: the error says what the call was doing, for which pair of bodies, and the count
 * that had grown. It has changed nothing, and its memory is given back.
 *
 * A step has its own (ct_step.cancel). All other calls, such as making a mesh, adding a body or drawing a picture, are
 * ended by the ct_cancel of their thread (ct_cancel_scope). */
#ifndef CONTACT_CANCEL_H
#define CONTACT_CANCEL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why a call was ended. The caller may request any other number, which is kept for it. */
enum {
    CT_CANCEL_NONE = 0,
    CT_CANCEL_TIME = 1, /* `until` passed */
    CT_CANCEL_CALLER = 2,
};

/* What a call was doing when it ended. */
typedef struct ct_cancel_point {
    const char *phase; /* "finding patches"; static */
    const char *what;  /* "crossings": what `count` counts; static; NULL: nothing was counted */
    uint64_t count;
    uint32_t body[2]; /* of the pair that was computed; 0: none, or the scene as a whole */
} ct_cancel_point;

typedef struct ct_cancel {   /* fill it by ct_cancel_init; it must live until the call returns */
    double until;            /* s of CLOCK_MONOTONIC at which the call ends; 0: none. Fixed while a call runs */
    uint64_t at_poll;        /* for tests: ends the call when the engine looks for this time, from 1; 0: it does not */
    struct ct_cancel *outer; /* ends the call, too; NULL: none. It must live until the call returns */
    /* NULL, or asked on the thread that made the call, ten times a second while it computes there: true ends the call, by
     * CT_CANCEL_CALLER. It must not call the engine, whose locks the thread may have. */
    bool (*ask)(void *context);
    void *context;
    uint64_t asked; /* that thread, its pthread_self() */
    /* The engine's, read by the functions below: */
    double ask_at;
    bool is_asking; /* `ask` runs */
    uint32_t reason;
    uint32_t is_noted;
    const char *phase;
    ct_cancel_point at;
} ct_cancel;

/* seconds: from now on; 0: no limit. */
void ct_cancel_init(ct_cancel *cancel, double seconds);
/* On any thread, while a call runs or before it. The first reason stays. */
void ct_cancel_request(ct_cancel *cancel, uint32_t reason);
/* On any thread. CT_CANCEL_NONE: it was neither requested, nor did the engine see `until` pass. */
uint32_t ct_cancel_reason(const ct_cancel *cancel);
/* On any thread: what the call does now; static. NULL: it has not begun, or has not looked yet. */
const char *ct_cancel_phase(const ct_cancel *cancel);
/* After a call that failed with CT_CANCELLED. */
ct_cancel_point ct_cancel_where(const ct_cancel *cancel);

/* The calls of this thread that have no ct_cancel of their own are ended by this one from now on; NULL: by none.
 * Returns the one before. */
ct_cancel *ct_cancel_scope(ct_cancel *cancel);

#ifdef __cplusplus
}
#endif
#endif
