/* schedule.h - the queue of commands on scenes: admits them, runs them on the engine and answers them.
 *
 * Commands of one scene run in the order in which they were submitted; scenes are independent. What is ready runs as
 * one batch of the engine: at most one step of each scene, principals by fair queueing of
 * processor time and their sessions round robin. Other principals make a batch at most twice as long as the steps of
 * the one that it begins with. Nothing waits for a batch to fill, unless batch_window_us asks for it.
 *
 * Lanes. Each device has two: small steps, and large ones (4 ms of processor time and more). A step's size is judged by
 * what the scene's last ones took (the smaller of two in a row, as other programs may take the processor), or, where
 * the scene is new or was changed, estimated by what is in it and its settings (cost.c). No estimate bounds what a step
 * takes: some scenes of 15 kB take a minute. So a batch of small steps makes room when it has run 6 ms longer than was
 * expected: what of it is not done is preempted. It has changed nothing, and runs once more in the large lane, alone
 * and to its end; a command is preempted once at most, and has the bits that it would have had. Its scene counts as
 * large until quicker steps show otherwise, and for 10 s the client's other scenes that were not measured do too.
 *   - The small lane has one runner, so a small step waits for one batch of other small ones at most.
 *   - The I/O thread runs batches of the small lane itself where all of their steps were measured and take less than
 *     0.3 ms together; what takes it more than 2 ms is preempted.
 *   - The large lane has LARGE_RUNNERS runners for one queue. Its batches run side by side where one takes long: the
 * next one begins at once where that is expected, else after 8 ms. So a large step shares the processor with a very
 * long one. At a time a client has one batch in the lane, and a listed principal two; the runners' threads, and those
 * of the engine that help them, have a lower priority than those of small steps. Batches end at an estimated cost
 * (BATCH_SECONDS in schedule.c), so a step that takes longer runs alone, as does one of the large lane that was not
 * measured. A scene belongs to one runner while its commands run.
 *
 * Time limits. A command that runs ends early, and has changed nothing,
 *   - at its limit (TIME_LIMIT): --max-step-time, or the principal's own instead, or the scene's max_step_time if that
 * is less. Where the process was stopped meanwhile (base/pauses.h) it runs once more instead;
 *   - at its deadline (DEADLINE_EXCEEDED), which passes for the client however the server fares;
 *   - when its scene is closed (STALE_HANDLE);
 *   - when the drain time is over (SHUTTING_DOWN; a step's number counts as not used);
 *   - when its client's connection ends. Then it waits, with all else that the client asked for, until the client is
 *     heard again, and runs once more; or its scenes are closed with its lease. Commands of others on the scenes pass.
 *
 * Bounds: the queue's capacity, of which the last half is for principals that have less than their share of it
 * (guard/shares.h), and without principals the last quarter for such sessions, so that no client fills it alone; and
 * each session's max_in_flight; a command beyond them is refused with BUSY and a hint from the measured rate. A command
 * with a deadline that has not begun by then is not begun.
 *
 * Sequence numbers (steps of sessions). They rise by one from 1 in each scene.
 *   - A step that is admitted uses its number up, whatever its outcome: NaN positions, a passed deadline and a
 *     device error are answers too, and a repeat gets the same answer. The steps behind it run; a failed step has
 *     changed nothing.
 *   - A step that is not admitted (BUSY, SHUTTING_DOWN, CONFLICT, FORBIDDEN, NOT_FOUND, a message that cannot be
 *     decoded) uses no number: send it again with the same one. The steps pipelined behind one refused as BUSY are
 *     refused as BUSY too.
 *   - A repeat of an answered number gets the kept answer (cached = true), never a new computation. It waits in
 *     the scene's queue like a step, as encoding a large answer takes long. It is never BUSY, which to clients means
 * that the number was not used. A second repeat replaces the first. Kept are each scene's newest answer and, of those
 * that the client does not say it has received, the newest max_in_flight of the session; an older number is a CONFLICT.
 * Kept answers share the memory limit of scenes, and a session's may take a quarter of it; where there is no room the
 * oldest go first.
 *   - A repeat of a number in flight replaces the first request: one answer, to the newest requester. The older
 *     command ends with `superseded` set and must not be answered.
 *   - Any other number is a CONFLICT that names the expected one.
 *
 * A scene opened over HTTP has no owner until a session adds a body or steps it. Only the owner may add or remove
 * bodies, step and close; every session may configure and look (as an operator's tools do); HTTP (SESSION_NONE) may do
 * all.
 *
 * On top of that, a command's identity must have the right (guard/identity.h): a simulator touches its principal's own
 * scenes and meshes alone, an operator configures, looks and takes pictures, but neither opens nor steps nor closes.
 */
#ifndef SERVER_SCHEDULE_H
#define SERVER_SCHEDULE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/include/contact.h"
#include "gpu/include/snapshot.h"
#include "proto/setting_rows.h"
#include "server/base/error.h"
#include "server/guard/identity.h"
#include "server/metrics/metrics.h"
#include "server/registry/outcome.h"
#include "server/registry/registry.h"

typedef struct scheduler scheduler;

typedef struct scheduler_options {
    ct_engine *engine;        /* not owned */
    const char *backend;      /* as requested, for readiness: "auto" or a name that must be the one running */
    uint32_t queue;           /* commands waiting or running */
    uint32_t max_in_flight;   /* of one session */
    uint64_t batch_window_us; /* that a small step waits for others to share its batch; 0: it does not wait */
    /* Called once, on any thread, when a device has failed for good, or NULL. Steps on it are answered DEVICE_ERROR;
     * the rest runs on, but the caller had better drain, stop and start afresh. */
    void (*on_lost)(void *context);
    void *context;
    uint64_t scratch_bytes; /* the engine's limit, for messages; 0: none */
    uint64_t max_step_ms;   /* that a step, or any other command, may run for; 0: as long as it takes */
} scheduler_options;

/* Starts the workers and runs the first readiness step. NULL: error says why. */
scheduler *scheduler_start(const scheduler_options *options, registry *registry, metrics *metrics, server_error *error);
/* Refuses new commands with SHUTTING_DOWN and waits until the queued ones are answered. False: timeout_ms passed first,
 * and what had not begun was answered SHUTTING_DOWN. */
bool scheduler_drain(scheduler *scheduler, uint64_t timeout_ms);
/* Ends the workers, answers what is still queued with SHUTTING_DOWN, closes all scenes. */
void scheduler_stop(scheduler **scheduler);

/* ---- commands ---- */

typedef struct body_record {
    uint32_t body;
    ct_body_kind kind;
    uint64_t mesh;
    char mesh_hash[33];
    uint64_t vertices;
    uint64_t mesh_vertices, mesh_triangles; /* with closing ones */
    double pose[12];
    double lo[3], hi[3]; /* m, at the last step */
    bool self_contact;
    ct_material material;
} body_record;

typedef enum command_kind {
    COMMAND_OPEN = 1,
    COMMAND_CONFIGURE,
    COMMAND_ADD_BODY,
    COMMAND_REMOVE_BODY,
    COMMAND_REPLACE_MESH,
    COMMAND_SET_MATERIAL,
    COMMAND_LIST_BODIES,
    COMMAND_STEP,
    COMMAND_SNAPSHOT,
    COMMAND_CLOSE,
    COMMAND_RESET, /* ct_scene_reset */
    COMMAND_COPY,  /* opens another scene that is as this one: ct_scene_copy */
} command_kind;

/* What becomes of a command that a batch took. */
typedef enum command_fate {
    COMMAND_ENDS,        /* it is answered */
    COMMAND_WAITS_AGAIN, /* it goes back to the head of its scene's queue */
    COMMAND_IS_REFUSED,  /* its error says why; a step's number counts as not used */
} command_fate;

/* The reasons of a command's `left`. */
enum {
    SCHEDULE_LEFT = CT_CANCEL_CALLER + 3, /* the client has gone */
    SCHEDULE_TAKEN_BACK,                  /* the client does not want it any more */
};

/* What `until` of its cancel stands for. */
typedef enum command_bound { BOUND_LIMIT, BOUND_DEADLINE, BOUND_PREEMPTION } command_bound;

/* Steps of many scenes that one message asks for: they take one place in the queue, and one of the client's in flight. */
typedef struct command_group {
    uint64_t answer_room;    /* bytes: BUSY if new steps' answers are expected to be larger together; 0: no limit */
    uint64_t expected_bytes; /* out: of the answers of all that were admitted */
    uint32_t unfinished;     /* the scheduler's: admitted, and not ended */
} command_group;

typedef struct command command;
struct command { /* clear it, fill the first part and the kind's `in`; it and what it points at must live until it
                    is done */
    command_kind kind;
    uint64_t session;     /* that sent it, or SESSION_NONE */
    identity who;         /* on whose behalf */
    uint64_t scene;       /* but for OPEN */
    uint64_t received_ns; /* of clock_ns(), when its message came; 0: when it is submitted */
    uint64_t deadline_ns; /* of clock_ns(); 0: none */
    ct_cancel *left;      /* requested with one of these once nobody waits for the answer: the command ends when it
                             runs. Not of a CLOSE. It outlives the command; NULL: somebody does to the end */
    union {
        struct {
            const char *name; /* may be NULL */
            ct_settings_change settings;
            uint32_t ttl_s;         /* of a scene without owner, see scene_record; 0: none */
            uint64_t key, revision; /* see OpenScene of proto/contactd.fbs */
        } open;
        struct {
            uint64_t key; /* of the other scene, as open.key */
        } copy;
        struct {
            ct_settings_change settings;
            uint64_t if_version; /* CONFLICT if the scene has another one; 0: any */
        } configure;
        struct {
            uint64_t mesh;
            ct_body_options options; /* filled by ct_body_options_init first */
        } add_body;
        struct {
            uint32_t body;
        } remove_body;
        struct {
            uint32_t body;
            uint64_t mesh;
        } replace_mesh;
        struct {
            uint32_t body, other; /* see ct_scene_set_material */
            ct_material material;
        } set_material;
        struct {
            uint64_t sequence; /* 0: not numbered, not kept (only with SESSION_NONE) */
            uint64_t received; /* see contactd.fbs */
            uint32_t want;
            double time_budget_s; /* 0: none */
            double tolerance;     /* m^3; 0: none */
            const ct_update *updates;
            size_t n_updates;
            const ct_direction *directions;
            size_t n_directions;
            const ct_velocity *velocities;
            size_t n_velocities;
            double viscosity;     /* N s/m^3 */
            uint64_t answer_room; /* bytes: a new step is BUSY if its answer is expected to be larger; 0: no limit */
        } step;
        struct {
            bool with_positions, with_answer;
        } list_bodies;
        struct {
            ct_snapshot_options options;
        } snapshot; /* taken, not drawn: drawing is slow, and needs neither the scene nor the runner (server/core/picture.h)
                     */
    } in;
    command_group *group;           /* STEP: that it belongs to; it outlives the command. NULL: none */
    void (*done)(command *command); /* called once, on any thread; short. Not used by scheduler_execute */
    void *context;                  /* the caller's */

    bool superseded;         /* out: a repeat replaced it: do not answer */
    uint64_t expected_bytes; /* out: STEP that was queued: of its answer, by its scene's last one or its scene's size */

    /* The scheduler's own. */
    ct_cancel cancel;              /* ends it while it runs */
    atomic_uint_fast64_t began_ns; /* while it runs; else 0 */
    atomic_bool is_logged;         /* it was said that it runs long */
    command_fate fate;
    command_bound bound;
    uint64_t limit_ns;      /* that it may run for */
    const char *limit_name; /* whose limit that is */
    double ran_s;           /* until it was cancelled */
    bool is_preempted;      /* it was once */
    bool was_paused;        /* it ran when the process was stopped, and runs once more for that */
    command *next;
    struct scene *target;
    struct session *asker;
    command *follower;   /* a repeat that replaces it */
    step_answer *answer; /* allocated on admission, so that answering cannot fail later */
    uint64_t submitted_ns;
    uint64_t triangles; /* of the mesh, ADD_BODY and REPLACE_MESH */
    uint32_t lane;      /* whose depth counts it */
    bool internal;      /* from the scheduler itself: no limit applies */
    bool is_repeat;     /* STEP: `answer` is a kept one */

    /* Out, and last, as command_clear zeroes what is before it: error.code is CONTACTD_OK where it went well. */
    union {
        scene_record scene; /* OPEN, CONFIGURE; COPY: of the other scene */
        uint32_t body;      /* ADD_BODY */
        struct {
            body_record *items; /* the caller frees it, and positions, with free() */
            size_t n;
            float *
                positions; /* as asked for: of each deformable body's mesh_vertices, in the world, one after the other */
            step_answer *answer; /* as asked for: the last step's, the caller's reference; NULL: it is not kept */
        } bodies;                /* LIST_BODIES */
        ct_snapshot *snapshot;   /* SNAPSHOT: the caller frees it */
        struct {
            step_answer *answer; /* the caller's reference; also on an error that uses the number up */
            bool cached;
        } step;
    } out;
    server_error error;
};

/* Zeroes it but for what only answers and errors use, which is most of it. */
void command_clear(command *command);

typedef enum submit_outcome {
    SUBMIT_REFUSED, /* command->error says why; done is not called */
    SUBMIT_DONE,    /* finished at once (OPEN); done is not called */
    SUBMIT_QUEUED,  /* done will be called, or has been */
} submit_outcome;

/* Queues a command without waiting. Wakes no worker: scheduler_kick does. */
submit_outcome scheduler_submit(scheduler *scheduler, command *command);
/* Queues the steps of a group, n > 0 of one session and identity, each of another scene. False: *error says why none was:
 * BUSY, SHUTTING_DOWN, FORBIDDEN, STATE_LOST, OUT_OF_MEMORY; done is not called. Else it is called for each, on this thread
 * for those that their scenes refuse: command->error says why then, and there is no answer. */
bool scheduler_submit_group(scheduler *scheduler, command_group *group, command *commands, size_t n,
                            server_error *error);
void scheduler_kick(scheduler *scheduler);

/* For the I/O thread when it has nothing left to receive: runs the queued small steps on the calling thread if they are
 * few and no batch of their lane runs, which saves two thread switches; else wakes the worker. */
void scheduler_run_inline(scheduler *scheduler);

/* For threads that may wait (HTTP): submit, wake, wait. True: it went well; else command->error. */
bool scheduler_execute(scheduler *scheduler, command *command);

/* ---- facts ---- */

/* True if a real step ran right on every device of the requested backend, at start and within the last half minute when
 * the server was asked; else reason says what is wrong. */
bool scheduler_ready(scheduler *scheduler, char *reason, size_t size);

typedef enum schedule_lane { SCHEDULE_LARGE, SCHEDULE_SMALL, SCHEDULE_LANES } schedule_lane;

typedef struct lane_facts {  /* of all devices */
    uint32_t depth;          /* commands waiting or running */
    uint32_t busy;           /* batches running now */
    uint64_t batches, steps; /* since the start */
} lane_facts;

typedef struct scheduler_facts {
    uint32_t queue_depth, queue_capacity;
    lane_facts lanes[SCHEDULE_LANES];
    uint64_t drain_per_s; /* commands answered per second while busy, smoothed, all lanes together */
    bool draining;
} scheduler_facts;

void scheduler_get_facts(scheduler *scheduler, scheduler_facts *out);

typedef struct running_command {
    uint64_t scene;
    char name[REGISTRY_NAME];     /* of the scene; may be empty */
    uint32_t principal;           /* whose scene it is */
    char asked_by[IDENTITY_NAME]; /* principal that sent the command; may be empty */
    char client[REGISTRY_NAME];   /* that sent it; empty: it came over HTTP */
    command_kind kind;
    const char *phase; /* what it does now; static */
    double seconds;    /* since it began */
} running_command;

const char *command_name(command_kind kind); /* "add_body" */
/* The commands that have run for so long or longer, the longest first. *out is freed with free(). False: no memory. */
bool scheduler_list_running(scheduler *scheduler, double least_s, running_command **out, size_t *n);
double scheduler_longest_running(scheduler *scheduler); /* s; 0: nothing runs */

/* ---- clients that go and come back ---- */

/* The session's connection has ended. What runs for it is ended early, and waits with the rest of what it asked for
 * until it is heard again; then it has the bits that it would have had. At the end of its lease its scenes are closed.
 */
void scheduler_leave_session(scheduler *scheduler, uint64_t session);
/* It was heard again. */
void scheduler_return_session(scheduler *scheduler, uint64_t session);

/* Closes the scenes of sessions that were not heard for their lease, and the sessions. Called a few times a second by
 * the I/O thread, with the time of its round. */
void scheduler_reap(scheduler *scheduler, uint64_t now_ns);
/* For so long until now the I/O thread heard nobody: the process was stopped, or had no processor. */
void scheduler_excuse_silence(scheduler *scheduler, uint64_t ns, uint64_t now_ns);

#endif
