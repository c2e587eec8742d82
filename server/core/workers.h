/* workers.h - the service's thread pool, for work that takes long or waits: neither the stream's I/O thread nor those
 * of libmicrohttpd do it. Each kind of work has threads of its own, so that a slow kind does not delay another.
 *
 * Work of one kind is taken in the order of start-time fair queueing over principals: each principal's works are tagged
 * one after the other, 1/weight apart, and the lowest tag runs first. So a principal that adds many works waits behind
 * its own, not in front of others'. Whoever comes over HTTP without principal counts as one by its address. Where
 * several principals are listed, one of them never has all threads of a kind.
 */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/include/contact_cancel.h"
#include "server/guard/identity.h"

typedef enum work_kind {
    WORK_MESHES,   /* reading meshes: up to seconds of one core each */
    WORK_SCENES,   /* opening scenes, freeing meshes, returning memory to the system: short */
    WORK_COMMANDS, /* HTTP requests that wait for the scheduler, but for pictures: their number is bounded by threads,
                      so that HTTP cannot fill the queue of steps */
    WORK_PICTURES, /* drawing */
    WORK_KINDS,
} work_kind;

enum {
    WORKERS_QUEUE = 512,   /* works of one kind that may wait */
    WORKERS_PICTURES = 24, /* pictures that may wait: each holds what it draws */
};

typedef struct work {               /* embedded in the object that is worked on; zero it but for the first part */
    void (*run)(struct work *work); /* on a worker; the work may be freed when it returns */
    ct_cancel *left;                /* requested once nobody waits for what comes of it: the engine's calls end. It
                                       outlives the work; NULL: somebody does to the end */
    const char *name;               /* of what it is about, as long as the work; NULL: none */
    /* The pool's: */
    struct work *next;
    uint32_t principal, origin; /* of whom it is: see identity.h */
    char who[IDENTITY_NAME];
    bool is_limited; /* not on all threads of the kind at once */
    double tag;
} work;

typedef enum workers_outcome {
    WORKERS_QUEUED,
    WORKERS_FULL,   /* as many works wait as may, or the principal has half of that: the work will not run */
    WORKERS_CLOSED, /* after workers_drain: the work will not run */
} workers_outcome;

typedef struct workers workers;

/* limit_s: the engine's calls of one work end after so long (contact_cancel.h); 0: no limit. NULL: out of memory or
 * threads. */
workers *workers_start(double limit_s);
workers_outcome workers_add(workers *workers, work_kind kind, const identity *who, work *work);
/* Whether workers_add would queue a work now: before something is done for it that costs. */
bool workers_have_room(workers *workers, work_kind kind, const identity *who);

/* Meshes that are read and pictures that are drawn. */
typedef struct running_work {
    work_kind kind;
    uint32_t principal;           /* that asked for it */
    char asked_by[IDENTITY_NAME]; /* its name; may be empty */
    char name[64];                /* as much of the work's as there is room for */
    const char *phase;            /* what it does now; static */
    double seconds;               /* since it began */
} running_work;

enum { WORKERS_RUNNING = 4 }; /* that can run at once */

/* Those that have run for so long or longer, the longest first; *n of them. */
void workers_list_running(workers *workers, double least_s, running_work out[WORKERS_RUNNING], size_t *n);
/* Says once of each that it has run for a second. */
void workers_log_long(workers *workers);
const char *work_name(work_kind kind); /* "register_mesh" */

void workers_drain(workers *workers); /* takes no more works, and waits for those there are */
/* The same; the engine's calls of those that have not ended by then are ended. */
void workers_drain_within(workers *workers, uint64_t ms);
void workers_stop(workers **workers); /* drains, ends the threads, frees; NULL inside is allowed */

#endif
