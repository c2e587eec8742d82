/* internal.h - the scheduler itself, for its own files: schedule.c (admission), runner_queue.c (what runs next),
 * worker.c (runs batches), commands.c (carries commands out), warn.c (warnings of steps), probe.c (readiness). */
#ifndef SERVER_SCHEDULE_INTERNAL_H
#define SERVER_SCHEDULE_INTERNAL_H

#include <pthread.h>

#include "server/guard/shares.h"
#include "server/registry/objects.h"
#include "server/schedule/schedule.h"

enum { BATCH_STEPS = 512 }; /* at most so many scenes are taken at once */

/* The sessions of one principal that wait for a runner, served round robin. */
typedef struct principal_queue {
    session *first, *last;
    double time_s; /* processor time that the runner gave it, divided by its weight; see pick_principal */
} principal_queue;

/* One lane of one device: a queue of sessions, and the batch that runs. Batches run on the runner's thread, or on the
 * I/O thread (scheduler_run_inline), one at a time. */
typedef struct runner {
    scheduler *scheduler; /* [fixed] */
    uint32_t index;       /* [fixed] among the scheduler's runners; also of its queue in each session */
    size_t device;        /* [fixed] */
    schedule_lane lane;   /* [fixed] */
    double batch_s;       /* [fixed] processor time after which a batch is full */
    double shared_s;      /* [fixed] the same where several principals are listed */
    double speed;         /* [fixed] of the device: a processor's core is 1, roughly */
    pthread_t thread;

    /* Guarded by the scheduler's lock: */
    pthread_cond_t wake;   /* its thread: something is ready, or the end */
    uint64_t asleep_until; /* when its thread will look by itself; UINT64_MAX: never; 0: it is awake or was woken */
    bool busy;             /* a thread runs a batch of it */
    principal_queue *principals; /* [n_principals] by principal, the first for sessions without one */
    uint32_t n_principals;
    uint32_t n_sessions;       /* that wait, in all of them */
    double time_s;             /* of the principal whose scene was taken last */
    uint64_t waiting_since_ns; /* when the steps that wait for a fuller batch began to wait; 0: they do not */
    double queued_s;           /* processor time of what was queued since a batch was last taken */
    uint32_t depth;            /* commands counted to it that wait or run */
    double rate;               /* commands per second of running time, smoothed; 0: unknown */
    uint64_t batches, steps;
    /* In the device's small lane only, for the device: */
    bool ready;
    char ready_reason[256];
    uint64_t probed_ns; /* when readiness was last told */

    /* The batch. Belongs to the thread that set busy. */
    scene *scenes[BATCH_STEPS];
    size_t n_scenes;
    command *first_taken, *last_taken;
    ct_step engine_steps[BATCH_STEPS];
    command *stepping[BATCH_STEPS];
    size_t n_steps;
} runner;

/* Limits how many lines the warnings of steps take in the log. */
typedef struct warning_log {
    atomic_uint_fast64_t begin_ns; /* of the present window of time; 0: there was none yet */
    atomic_uint_fast64_t lines;    /* asked for in this window */
    atomic_uint_fast64_t left_out; /* since it was last said how many */
} warning_log;

struct scheduler {
    ct_engine *engine;      /* [fixed] */
    const char *backend;    /* [fixed] as requested */
    uint32_t capacity;      /* [fixed] of the queues together, in commands */
    uint32_t max_in_flight; /* [fixed] */
    uint64_t scratch_bytes; /* [fixed] the engine's limit, 0: none */
    /* Of the thread that reaps: scenes that were closed since the line of the log about them, and when that was. */
    uint64_t n_expired, first_expired, said_expired_ns;
    uint64_t window_ns;             /* [fixed] that small steps wait for others to come */
    void (*on_lost)(void *context); /* [fixed] or NULL */
    void *context;                  /* [fixed] */
    registry *registry;             /* [fixed] */
    metrics *metrics;               /* [fixed] */
    session *anonymous_session;     /* [fixed] of commands that come without a session */
    warning_log warning_log;        /* any thread */

    pthread_mutex_t lock; /* guards all that follows */
    pthread_cond_t idle;  /* drain: something ended */
    bool draining, ending;
    uint32_t depth;           /* commands waiting or running */
    uint32_t n_busy_sessions; /* that have any of them */
    bool is_shared;           /* several principals are listed */
    shares shares;            /* of the queue's places, by principal */
    bool lost;                /* a device is, and on_lost was called */

    uint32_t n_runners; /* [fixed] */
    runner runners[];   /* a device's stand together, in the order of schedule_lane */
};

/* runner_queue.c; with the lock held */
/* Room for the sessions of principals up to this one. False: no memory. */
bool scheduler_know_principal(scheduler *scheduler, uint32_t principal);
/* The scene has commands and runs nothing: it is put into the queue that suits them, whose runner is returned. */
runner *scheduler_make_ready(scheduler *scheduler, scene *scene);
/* Fills the runner's batch from its queue. It may stay empty. */
void scheduler_fill_batch(runner *runner);
/* Whether all that is queued is short enough for the I/O thread. */
bool scheduler_may_run_inline(const runner *runner);
/* Updates the expected cost of the scene's steps after a command. */
void scheduler_note_cost(scheduler *scheduler, scene *scene, const command *command);
/* Removes all waiting commands from all queues, and returns them as a list. */
command *scheduler_empty_queues(scheduler *scheduler);

/* worker.c */
void *scheduler_worker(void *runner);
void scheduler_wake(runner *runner);                /* with the lock held: if a batch is due and none runs */
bool scheduler_is_idle(const scheduler *scheduler); /* with the lock held: no batch runs */
void command_release_objects(command *command);     /* its references to scene, session and answer */
/* schedule.c; with the lock held: an admitted command no longer counts anywhere */
void scheduler_uncount(scheduler *scheduler, command *command);

/* commands.c; on any thread, without the lock */
bool command_open(scheduler *scheduler, command *command);
/* By the runner. Everything but OPEN and STEP; fills command->error or command->out. */
void command_run(scheduler *scheduler, command *command);
/* Drops the scene's bodies and engine state, and its place in the registry. By the runner, after sequence_clear. */
void command_close_scene(scheduler *scheduler, scene *scene);
/* Whether it gives the scene a body's mesh. */
static inline bool command_brings_mesh(const command *command) {
    return command->kind == COMMAND_ADD_BODY || command->kind == COMMAND_REPLACE_MESH;
}
void command_object(const command *command, char object[96]);

/* warn.c; by the runner */
/* Counts the warnings of a step's result, and logs those that differ from the scene's step before. */
void scheduler_note_warnings(scheduler *scheduler, scene *scene, const ct_result *result);

/* probe.c */
/* Runs a step whose volume is known on the device. In the place of a batch. False: reason says what is wrong. */
bool probe_run(ct_engine *engine, size_t device, const char *requested, char *reason, size_t size);
/* Whether the device failed for good: reason says how. */
bool probe_lost(ct_engine *engine, size_t device, char *reason, size_t size);

#endif
