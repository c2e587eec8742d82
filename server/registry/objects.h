/* objects.h - the insides of sessions and scenes, shared by the registry that holds them and the scheduler that works
 * on them. Each field says what guards it:
 *   - [fixed] set before anyone else sees the object;
 *   - [registry] the registry's lock;
 *   - [scheduler] the scheduler's lock;
 *   - [runner] whoever runs the scene's commands now (one thread, `running` is set).
 * Where both locks are taken the scheduler's comes first.
 */
#ifndef SERVER_OBJECTS_H
#define SERVER_OBJECTS_H

#include <stdatomic.h>

#include "server/registry/answer.h"
#include "server/registry/registry.h"

typedef struct scene scene;
typedef struct session session;
typedef struct mesh_entry mesh_entry;
typedef struct command command; /* schedule.h */

/* A session's part of one lane's queue. */
typedef struct lane_queue {
    scene *first, *last; /* the session's scenes that have commands to run there */
    session *next;       /* of the lane's list of sessions, which are served round robin */
    bool is_listed;      /* the session is in that list */
    int n_batches;       /* of the large lane that run now and hold scenes of it */
    uint64_t mark;       /* of the lane, when it was last counted */
} lane_queue;

struct session {
    atomic_uint references;
    uint64_t token;             /* [fixed] */
    char client[REGISTRY_NAME]; /* [fixed] */
    uint32_t lease_ms;          /* [fixed] */
    uint32_t principal;         /* [fixed] */
    uint64_t number;            /* [fixed] */
    atomic_uint_fast64_t heard_ns;
    uint32_t scenes;           /* [registry] that it owns */
    uint64_t left_ns;          /* [registry] when its connection ended; 0: it has not, or a message has come since */
    atomic_uint in_flight;     /* steps; changed under [scheduler] */
    atomic_uint pending;       /* commands of any kind; changed under [scheduler] */
    bool is_away;              /* [scheduler] as left_ns: its commands are held */
    uint64_t doubted_until_ns; /* [scheduler] see is_doubtful of lane_queue.c */
    answer_window window;      /* [scheduler] */
    lane_queue lane_queues[];  /* [scheduler] one for each of the scheduler's lanes */
};

typedef struct body_use {
    uint32_t body;
    uint64_t triangles;
    mesh_entry *mesh;
} body_use;

/* What the runner knows of a scene's bodies. */
typedef struct scene_contents {
    body_use *uses;
    size_t n_uses;
    uint64_t triangles;
    double size_m[2];
} scene_contents;

struct scene {
    /* What each command touches lies together: of many small scenes each costs the processor some cache lines. */
    atomic_uint references;
    uint32_t principal;            /* [fixed] who opened it */
    uint64_t handle;               /* [fixed] */
    session *owner;                /* written under [scheduler] and [registry], so either may read; holds a reference */
    atomic_uint_fast64_t asked_ns; /* when the last command for it came */
    command *first, *last;         /* [scheduler] waiting, in order */
    command *stepping;             /* [scheduler] the step that runs now */
    bool running;                  /* [scheduler] */
    bool ready;                    /* [scheduler] it is in its session's list */
    bool closing;                  /* [scheduler] a CLOSE was admitted */
    uint32_t lane;                 /* [scheduler] in whose queue it was last */
    scene *next_ready;             /* [scheduler] */
    struct runner *runner;         /* [scheduler] that runs it, while running is set */
    session *runs_for;             /* [scheduler] whose queue it was taken from, while running is set */
    sequence sequence;             /* [scheduler] */
    double cost_s;       /* [scheduler] a step's processor time: it rises at once and falls slowly; 0: unknown */
    double last_cost_s;  /* [scheduler] of the last step; 0: unknown */
    atomic_uint pending; /* changed under [scheduler] */
    uint32_t origin;     /* [registry] of a stray (registry.h): from where it was opened; 0: it is none */
    size_t device;       /* [fixed] that it lies on */
    uint64_t triangles;  /* [runner] of all bodies */
    ct_scene *engine;    /* [runner] */
    size_t n_warnings;   /* [runner] of `warnings` */
    uint64_t stepped_ns; /* [registry] */

    scene_record record; /* [registry] but for owner_name, pending, age_s, idle_s, which are made when it is read */
    float latency_s[REGISTRY_RECENT]; /* [registry] of step k at k modulo its length */
    uint64_t opened_ns;               /* [fixed] */
    body_use *uses;                   /* [runner] */
    size_t n_uses, room_uses;         /* [runner] */
    double size_m[2];                 /* [runner] diagonals of the largest bodies that it had, the largest first */
    ct_warning *warnings;             /* [runner] of the last step that had a result, [n_warnings] */
    size_t room_warnings;             /* [runner] */
};

/* ---- sessions ---- */

session *session_acquire(registry *registry, uint64_t token, server_error *error); /* STATE_LOST; a new reference */
void session_release(session **session);
/* How many lane queues a session has; by the scheduler, before there is any session. */
void registry_set_lanes(registry *registry, uint32_t lanes);
/* A session without a token, for commands that come without a session. NULL: out of memory. */
session *session_new(registry *registry);
/* Takes the sessions that were not heard for their lease out of the registry, but for those that are connected and wait
 * for answers; and those that left some time ago and have no scenes, so that there is nothing to come back to. At most
 * `room`; the caller gets their references. */
size_t registry_take_silent_sessions(registry *registry, uint64_t now_ns, session **out, size_t room);
/* For so long until now nobody could be heard: it counts for no lease, nor for the ttl_s of a scene. */
void registry_excuse_silence(registry *registry, uint64_t ns, uint64_t now_ns);
/* ---- scenes ---- */

/* Registers a new scene; it takes `engine` and what `contents` points to over (NULL: it has no bodies), and a reference to
 * the owner (may be NULL). The caller gets a reference. NULL: LIMIT_EXCEEDED, OUT_OF_MEMORY; engine and contents are the
 * caller's still. */
scene *scene_new(registry *registry, ct_scene *engine, const char *name, session *owner, const identity *who,
                 const scene_contents *contents, server_error *error);
scene *scene_acquire(registry *registry, uint64_t handle, server_error *error); /* NOT_FOUND, STALE_HANDLE */
/* With one lock for so many scenes, which is not held for long. */
enum { SCENES_AT_ONCE = 32 };
/* n of them, SCENES_AT_ONCE at most: out[i] is NULL where there is no such scene. */
void scenes_acquire(registry *registry, const uint64_t *handles, size_t n, scene **out);
void scene_release(scene **scene);
void scene_adopt(registry *registry, scene *scene, session *owner);
/* What it was opened with; revision 0 stands for 1. */
void scene_set_key(registry *registry, scene *scene, uint64_t key, uint64_t revision);
/* Handles of the scenes whose owner this is; of all scenes where owner is NULL. *out is freed with free(). */
bool registry_scenes_of(registry *registry, const session *owner, uint64_t **out, size_t *n);
/* Calls visit for each scene, with the registry's lock held. */
void registry_visit_scenes(registry *registry, void (*visit)(void *context, scene *scene), void *context);
/* Handles of at most `room` scenes that have no owner, wait for nothing, and got no command for their ttl_s. */
size_t registry_expired_scenes(registry *registry, uint64_t now_ns, uint64_t *out, size_t room);
/* A scene without an owner is closed when no command comes for so long; 0: it stays. */
void scene_set_ttl(registry *registry, scene *scene, uint32_t ttl_s);
/* Takes it out of the registry: its handle is stale from now on. The runner has destroyed scene->engine before. */
void scene_forget(registry *registry, scene *scene);
void scene_get_record(registry *registry, scene *scene, scene_record *out);
/* Brings the record up to date with scene->engine after a change. By the runner. */
void scene_note_change(registry *registry, scene *scene);
/* The same after a change of settings, which have a new revision then. */
void scene_note_settings(registry *registry, scene *scene);
/* Notes what came of n steps, SCENES_AT_ONCE at most and each of another scene; counts[i]: how many steps of the scene had
 * a result by then. By the runner. */
typedef struct scene_step {
    scene *scene;
    const ct_result *result; /* NULL: it failed */
    double queue_s;
    uint64_t number;                 /* 0: none */
    uint64_t submitted_ns, ended_ns; /* of clock_ns() */
} scene_step;
void scenes_note_steps(registry *registry, const scene_step *steps, size_t n, uint64_t counts[SCENES_AT_ONCE]);
/* Kept answers, which make room for scenes. Its lists belong to the scheduler's lock. */
answer_store *registry_kept_answers(registry *registry);
/* LIMIT_EXCEEDED if scenes would hold more than the limit, or the principal's more than its share (guard/shares.h),
 * with so many bytes more. */
bool registry_has_scene_room(registry *registry, uint64_t bytes, const identity *who, const char *object,
                             server_error *error);
/* For whose share the scene counts: who opened it. Without name. */
identity scene_payer(registry *registry, const scene *scene);

/* ---- meshes in use ---- */

/* Counts one more body on it, so that it stays. The mesh itself is borrowed until mesh_unuse. NULL: error. */
mesh_entry *mesh_use(registry *registry, uint64_t handle, const identity *who, ct_mesh **mesh, server_error *error);
void mesh_unuse(registry *registry, mesh_entry *entry); /* NULL: harmless */
uint64_t mesh_handle(const mesh_entry *entry);          /* 0 of NULL */

#endif
