/* internal.h - the scheduler itself, for its own files: schedule.c (the door), worker.c (what runs), commands.c (what a
 * command does), probe.c (readiness). */
#ifndef SERVER_SCHEDULE_INTERNAL_H
#define SERVER_SCHEDULE_INTERNAL_H

#include <pthread.h>

#include "server/registry/objects.h"
#include "server/schedule/schedule.h"

enum { BATCH_STEPS = 512 }; /* at most so many scenes are taken at once */

struct scheduler {
    ct_engine *engine;      /* [fixed] */
    const char *backend;    /* [fixed] as requested */
    uint32_t queue;         /* [fixed] */
    uint32_t max_in_flight; /* [fixed] */
    registry *registry;     /* [fixed] */
    metrics *metrics;       /* [fixed] */
    double batch_s;         /* [fixed] processor time after which a batch is full */
    session *nobody;        /* [fixed] stands for what comes without a session */
    pthread_t worker;

    pthread_mutex_t lock; /* guards all that follows but the runner's part */
    pthread_cond_t wake;  /* the worker: something is ready, or the end */
    pthread_cond_t idle;  /* drain: something ended */
    bool draining, ending;
    bool engine_busy; /* somebody is the runner */
    uint32_t depth;   /* commands waiting or running */
    session *first_turn, *last_turn;
    double rate; /* commands per second of running time, smoothed; 0: unknown */
    bool ready;
    char ready_reason[256];
    uint64_t probed_ns; /* when readiness was last told */

    /* The runner's: whoever set engine_busy. */
    scene *scenes[BATCH_STEPS];
    size_t n_scenes;
    command *first_taken, *last_taken;
    ct_step steps[BATCH_STEPS];
    command *stepping[BATCH_STEPS];
    size_t n_steps;
};

/* worker.c */
void *scheduler_worker(void *scheduler);
void scheduler_make_ready(scheduler *scheduler,
                          scene *scene); /* with the lock held: it has commands and runs nothing */
void command_let_go(command *command);   /* drops what an admitted command held */

/* commands.c; on any thread, without the lock */
bool command_open(scheduler *scheduler, command *command);
/* By the runner. Everything but OPEN and STEP; fills command->error or command->out. */
void command_run(scheduler *scheduler, command *command);
/* Drops the scene's bodies and engine state, and its place in the registry. By the runner, after sequence_clear. */
void command_close_scene(scheduler *scheduler, scene *scene);
void command_object(const command *command, char object[96]);

/* probe.c */
/* Runs a step whose volume is known. By the runner. False: reason says what is wrong. */
bool probe_run(ct_engine *engine, const char *requested, char *reason, size_t size);

#endif
