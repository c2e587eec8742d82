/* internal.h - the scheduler itself, for its own files: schedule.c (admission), lane_queue.c (what runs next), cost.c
 * (what it is expected to cost), worker.c (runs batches), limits.c (until when, and what ended early), away.c (sessions
 * without a connection), running.c (who looks at what runs), commands.c (carries commands out), warn.c (warnings of
 * steps), probe.c (readiness). */
#ifndef SERVER_SCHEDULE_INTERNAL_H
#define SERVER_SCHEDULE_INTERNAL_H

#include <assert.h>
#include <pthread.h>

#include "server/guard/shares.h"
#include "server/registry/objects.h"
#include "server/schedule/schedule.h"

enum {
    BATCH_STEPS = 512,     /* at most so many scenes are taken at once */
    CPU_BATCH_STEPS = 256, /* on a processor, from whose caches more of them would push each other */
    LARGE_RUNNERS = CT_MAX_CONCURRENT_BATCHES - 1,
};

/* A step of more processor time than this is large. */
#define SMALL_SECONDS 4e-3
/* Batches that are expected to take more are not run on the I/O thread, which cannot receive meanwhile. A step of two
 * boxes waited 4 us when the I/O thread ran it, 20 to 50 us when the worker was woken (two cores, busy). */
#define INLINE_SECONDS 300e-6

typedef struct lane lane;

/* The sessions of one principal that wait for a lane, served round robin. */
typedef struct principal_queue {
    session *first, *last;
    double time_s; /* processor time that the lane gave it, divided by its weight; see pick_principal */
    int n_batches; /* of the large lane that run now and hold scenes of it */
    uint64_t mark; /* of the lane, when it was last counted */
} principal_queue;

/* A thread that runs batches of a lane, one at a time. Those of the small lane may also run on the I/O thread
 * (scheduler_run_inline). */
typedef struct runner {
    lane *lane; /* [fixed] */
    pthread_t thread;
    bool is_started; /* the thread; [fixed] */

    /* Guarded by the scheduler's lock: */
    pthread_cond_t wake;   /* its thread: something is ready, or the end */
    uint64_t asleep_until; /* when its thread will look by itself; UINT64_MAX: never; 0: it is awake or was woken */
    bool busy;             /* a thread runs a batch of it */
    uint64_t begin_ns;     /* when its batch began */
    bool is_running;       /* the batch runs: the list of commands taken stays as it is */
    bool is_long;          /* the batch is expected to take long */

    /* The batch. Belongs to the thread that set busy. */
    scene *scenes[BATCH_STEPS];
    size_t n_scenes;
    double cost_s;    /* expected, processor time */
    uint32_t charged; /* principal of the scene that was taken last */
    command *first_taken, *last_taken;
    uint64_t preempt_ns; /* when what runs is put back for the large lane, of clock_ns(); 0: it is not */
    ct_step engine_steps[BATCH_STEPS];
    command *stepping[BATCH_STEPS];
    size_t n_steps;
    metrics_steps counted; /* of its steps */
    uint64_t ended_ns;     /* when they were over, of clock_ns() */
} runner;

/* Of one device: a queue of sessions, and the runners that take batches from it. */
struct lane {
    scheduler *scheduler; /* [fixed] */
    uint32_t index;       /* [fixed] among the scheduler's lanes; also of its queue in each session */
    size_t device;        /* [fixed] */
    schedule_lane kind;   /* [fixed] */
    size_t batch_steps;   /* [fixed] scenes of a batch, at most */
    double batch_s;       /* [fixed] processor time after which a batch is full */
    double shared_s;      /* [fixed] the same where several principals are listed */
    double speed;         /* [fixed] of the device: a processor's core is 1, roughly */
    double threads;       /* [fixed] of the device */
    runner *runners;      /* [n_runners] */
    uint32_t n_runners;   /* [fixed] */

    /* Guarded by the scheduler's lock: */
    principal_queue *principals; /* [n_principals] by principal, the first for sessions without one */
    uint32_t n_principals;
    uint32_t n_sessions;       /* that wait, in all of them */
    double time_s;             /* of the principal whose scene was taken last */
    uint64_t waiting_since_ns; /* when the steps that wait for a fuller batch began to wait; 0: they do not */
    double queued_s;           /* processor time of what was queued since a batch was last taken */
    uint32_t depth;            /* commands counted to it that wait or run */
    double rate;               /* commands per second of running time, smoothed; 0: unknown */
    uint64_t last_mark;        /* counts the times that batches were counted for their sessions and principals */
    uint64_t batches, steps;
    /* In the device's small lane only, for the device: */
    bool ready;
    char ready_reason[256];
    uint64_t probed_ns; /* when readiness was last told */
};

/* Limits how many lines the warnings of steps take in the log. */
typedef struct warning_log {
    atomic_uint_fast64_t begin_ns; /* of the present window of time; 0: there was none yet */
    atomic_uint_fast64_t lines;    /* asked for in this window */
    atomic_uint_fast64_t left_out; /* since it was last said how many */
} warning_log;

/* How long a batch may run beyond what it was expected to take before what is left of it is put back, in ns; 0: as long
 * as it takes. */
typedef struct preemption {
    uint64_t inline_ns; /* on the I/O thread */
    uint64_t small_ns;  /* on the small lane's thread */
    uint64_t large_ns;  /* of several scenes in the large lane */
} preemption;

struct scheduler {
    ct_engine *engine;      /* [fixed] */
    const char *backend;    /* [fixed] as requested */
    uint32_t capacity;      /* [fixed] of the queues together, in commands */
    uint32_t max_in_flight; /* [fixed] */
    uint64_t scratch_bytes; /* [fixed] the engine's limit, 0: none */
    /* Of the thread that reaps: scenes that were closed since the line of the log about them, and when that was. */
    uint64_t n_expired, first_expired, said_expired_ns;
    uint64_t window_ns;             /* [fixed] that small steps wait for others to come */
    uint64_t max_step_ns;           /* [fixed] of a step and of any other command that runs */
    preemption preemption;          /* [fixed] */
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

    uint32_t n_lanes; /* [fixed] */
    lane lanes[];     /* a device's stand together, in the order of schedule_lane */
};

/* cost.c; with the lock held */
/* What a lane takes of a scene at once: its next commands, up to and including the first step. */
typedef struct portion {
    int n; /* commands; 0: none may run */
    bool has_step;
    bool is_preempted; /* a command that was preempted, by itself: it runs in the large lane, alone */
    bool is_measured;  /* steps of the scene were measured since it was last changed, and nothing else takes long */
    double cost_s;
} portion;
portion scheduler_next_portion(const scene *scene, double speed);
/* Updates the expected cost of the scene's steps after a command. */
void scheduler_note_cost(scene *scene, const command *command);

/* lane_queue.c; with the lock held */
/* Room for the sessions of principals up to this one. False: no memory. */
bool scheduler_know_principal(scheduler *scheduler, uint32_t principal);
/* The scene has commands and runs nothing: it is put into the queue that suits them, whose lane is returned. NULL: all
 * its commands are held. */
lane *scheduler_make_ready(scheduler *scheduler, scene *scene);
/* Takes a scene that is ready out of its queue. */
void scheduler_withdraw(scheduler *scheduler, scene *scene);
/* Takes the session's scenes out of the queues, and puts those back that have commands which are not held. */
void scheduler_requeue_session(scheduler *scheduler, session *session);
/* Fills the runner's batch from its lane's queue. It may stay empty. */
void scheduler_fill_batch(runner *runner);
/* The batch of scheduler_fill_batch has run for so long. */
void scheduler_settle_batch(runner *runner, double seconds);
/* Whether the lane has a scene that a further batch may hold. */
bool scheduler_has_batch(lane *lane);
/* Whether all that is queued is short enough for the I/O thread. */
bool scheduler_may_run_inline(const lane *lane);
/* Removes all waiting commands, those that are held too, and returns them as a list. They no longer count. */
command *scheduler_empty_queues(scheduler *scheduler);

/* worker.c */
void *scheduler_worker(void *runner);
void scheduler_wake(lane *lane);                    /* with the lock held: if a batch is due that no runner will see */
bool scheduler_is_idle(const scheduler *scheduler); /* with the lock held: no batch runs */
void command_release_objects(command *command);     /* its references to scene, session and answer */

/* schedule.c; with the lock held */
/* An admitted command no longer counts anywhere. */
void scheduler_uncount(scheduler *scheduler, command *command);
/* Takes all waiting commands of a scene, which no longer count. */
command *scheduler_take_waiting(scheduler *scheduler, scene *scene);
/* Without the lock: answers a list of commands that no longer count. error NULL: each has its own. */
void scheduler_refuse(command *first, const server_error *error);
void scheduler_refuse_at_end(command *first); /* the same, with SHUTTING_DOWN */

/* limits.c */
/* Why a running command is to end, beside CT_CANCEL_TIME. */
enum {
    CANCEL_CLOSED = CT_CANCEL_CALLER,        /* its scene is being closed */
    CANCEL_AWAY,                             /* its client's connection has ended */
    CANCEL_SHUTDOWN,                         /* the drain time is over */
    CANCEL_LEFT = SCHEDULE_LEFT,             /* nobody waits for its answer */
    CANCEL_TAKEN_BACK = SCHEDULE_TAKEN_BACK, /* its client took it back */
};
static_assert((int)CANCEL_SHUTDOWN < (int)CANCEL_LEFT, "two reasons have one number");
/* That a step of the principal may run for, and the name of that limit; 0: none. */
uint64_t scheduler_limit_ns(const scheduler *scheduler, const identity *who, const char **name);
/* Sets until when the runner's batch may run if it is to make room for others. */
void runner_set_preemption(runner *runner, bool is_inline);
/* The command begins: sets until when it may run. now: of clock_ns(). */
void command_begin(runner *runner, command *command, uint64_t now);
/* The engine ended the command early, and said what it was doing ("cancelled while ..."): sets its fate, and its error
 * unless it waits again. */
void command_end_early(scheduler *scheduler, command *command, const char *cause);
/* With the lock held: asks commands that run to end. Those of the scene, or those that the session asked for on its own
 * scenes, or all where both are NULL. */
void scheduler_cancel(scheduler *scheduler, const scene *scene, const session *asker, uint32_t reason);

/* away.c; with the lock held */
/* Whether the command waits until its client is connected again. */
bool command_is_held(const scene *scene, const command *command);
/* Takes all commands that are held out of their scenes. They no longer count. */
command *scheduler_take_held(scheduler *scheduler);

/* running.c */
/* A command that was said to run long ran for so long, and ended or waits again. */
void running_log_end(const command *command, double seconds);
/* Says once of each command that it runs long. */
void running_log_long(scheduler *scheduler);

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
