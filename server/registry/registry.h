/* registry.h - what the server holds: meshes, sessions and scenes. For stream, HTTP and the scheduler.
 *
 * Everything here may be called from any thread; locks are short and none is held while a mesh is parsed or a step is
 * computed. Records are copies: they stay valid and do not change.
 *
 * Handles are small numbers (below 2^52, so that JSON carries them exactly) made of a slot and a generation: a handle
 * of something closed is told apart (STALE_HANDLE) from one that never was (NOT_FOUND). Zero is no handle.
 *
 * Functions that return bool fill *error on false.
 */
#ifndef SERVER_REGISTRY_H
#define SERVER_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/include/contact.h"
#include "server/base/error.h"
#include "server/guard/identity.h"
#include "server/metrics/metrics.h"
#include "server/state/state.h"

#define REGISTRY_NAME 64 /* bytes of a name with its NUL; longer ones are cut */

typedef struct registry registry;

typedef struct registry_limits {
    uint64_t mesh_bytes;  /* all registered meshes together */
    uint64_t scene_bytes; /* all scenes and their kept answers together */
    uint32_t max_sessions;
    uint32_t max_scenes;
    uint32_t max_in_flight; /* steps of one session queued or running; also how many of its answers are kept */
    uint32_t lease_ms;      /* default of a session, and the longest that a client may ask for */
} registry_limits;

/* The engine is told of meshes that are gone, so that devices drop their copies; it may be NULL. Returns NULL: out of
 * memory. */
/* Meshes are stored in it from now on, and found there. Before there is any. */
void registry_set_state(registry *registry, state *state);
/* NULL: there is none. */
state *registry_state(registry *registry);
registry *registry_new(const registry_limits *limits, ct_engine *engine, metrics *metrics);
void registry_free(registry **registry); /* after the scheduler, before the engine */

/* ---- meshes: content-addressed, immutable, shared by all clients ---- */

typedef struct mesh_record {
    uint64_t handle;
    char name[REGISTRY_NAME]; /* as the first to register it called it; may be empty */
    ct_mesh_info info;
    uint32_t bodies; /* that use it now */
    bool existed;    /* the content was resident before this registration */
} mesh_record;

/* Parse, validate, and make resident for the principal. Where the memory limit, or the principal's share of it
 * (guard/shares.h), would be passed, meshes that no body uses are evicted, the least recently used first: the
 * principal's own, and those of principals that have more than what is kept for them. If that is not enough
 * LIMIT_EXCEEDED names need, limit and share. A client whose mesh was evicted gets STALE_HANDLE when it next uses it,
 * and registers it again. options: how the mesh is made, with the default limits; NULL: the default. *changes (may be
 * NULL): what a repair did. May take 100s of ms: not for an I/O thread. */
bool registry_register_file(registry *registry, const void *bytes, size_t size, ct_mesh_format format, const char *name,
                            const ct_mesh_options *options, const identity *who, mesh_record *out,
                            ct_mesh_changes *changes, server_error *error);
bool registry_register_arrays(registry *registry, const void *positions, ct_dtype dtype, size_t n_vertices,
                              const void *triangles_u32, size_t n_triangles, const char *name,
                              const ct_mesh_options *options, const identity *who, mesh_record *out,
                              ct_mesh_changes *changes, server_error *error);

/* By handle if it is not 0, else by hash: the whole hash or the first 8 digits or more of it (CONFLICT if several
 * meshes begin so). Of the meshes that `who` may use (NULL: of all): NOT_FOUND says the same of others as of none.
 * out may be NULL; *mesh (may be NULL) gets a reference that the caller releases. */
bool registry_find_mesh(registry *registry, uint64_t handle, const char *hash, const identity *who, mesh_record *out,
                        ct_mesh **mesh, server_error *error);
/* Frees its memory, here and on devices. CONFLICT while bodies use it. */
bool registry_remove_mesh(registry *registry, uint64_t handle, const char *hash, server_error *error);
/* Whether the mesh of this whole hash is not resident, but registry_restore_mesh will find it. */
bool registry_is_stored(registry *registry, const char *hash);
/* Makes a stored mesh resident, with its owners. May take 100s of ms: not for an I/O thread. NOT_FOUND: it is not
 * stored, or damaged, or `who` may not use it; LIMIT_EXCEEDED and OUT_OF_MEMORY as above. */
bool registry_restore_mesh(registry *registry, const char *hash, const identity *who, mesh_record *out,
                           server_error *error);

/* A mesh belongs to the principals that registered it, and counts for the first one's share. Whether it may be seen and
 * used: by those it belongs to, and by operators and admins. */
bool registry_may_use_mesh(registry *registry, uint64_t handle, const identity *who);
/* For a principal that leaves it: *others tells whether it still belongs to others, and so must stay. */
void registry_disown_mesh(registry *registry, uint64_t handle, const identity *who, bool *others);
/* In rising order of handle. *out is freed with free(); NULL and 0 if there are none. False: OUT_OF_MEMORY. */
bool registry_list_meshes(registry *registry, mesh_record **out, size_t *n, server_error *error);

/* ---- sessions: one per client, known by a random token; only the stream opens any ---- */

#define SESSION_NONE 0 /* who asks over HTTP: no session, and may touch every scene */

typedef struct session_record {
    uint64_t token;  /* a secret: whoever has it can speak for the session */
    uint64_t number; /* from 1 in the order of their opening */
    char client[REGISTRY_NAME];
    uint32_t lease_ms;
    double idle_s;     /* since it was last heard */
    bool is_connected; /* false: its connection has ended */
    uint32_t scenes;
    uint32_t in_flight;
    uint32_t principal;
} session_record;

/* lease_ms 0: the default. At max_sessions one that holds no scene makes room, if its connection has ended or it was
 * not heard for a second; if there is none, LIMIT_EXCEEDED. */
bool registry_open_session(registry *registry, const char *client, uint32_t lease_ms, session_record *out,
                           server_error *error);
/* A session is its principal's from now on: before its token is told to anyone. */
void registry_bind_session(registry *registry, uint64_t token, uint32_t principal);
/* Notes that the session was heard. STATE_LOST if there is none of that token; another principal's counts as none.
 * *had_left: its connection had ended before. */
bool registry_touch_session(registry *registry, uint64_t token, uint32_t principal, bool *had_left,
                            server_error *error);
/* The session's connection has ended; a message of it takes that back. Without scenes the session ends soon after. */
void registry_leave_session(registry *registry, uint64_t token);
/* 0: there is no such session. */
uint64_t registry_session_number(registry *registry, uint64_t token);
/* In rising order of number. *out is freed with free(). */
bool registry_list_sessions(registry *registry, session_record **out, size_t *n, server_error *error);

/* ---- scenes: opened, changed and stepped through the scheduler (schedule.h), read here ----
 *
 * Strays are scenes that were opened over HTTP without principal, and that no client of the stream has taken yet. Where
 * --max-scenes allows more than a few, they have at most half of it, and those of one address an eighth: so nobody can
 * take all scenes. One that was not stepped yet is closed when it was not used for REGISTRY_UNSTEPPED_S, or its time to
 * live if that is less. */

enum { REGISTRY_UNSTEPPED_S = 300 };

typedef struct scene_record {
    uint64_t handle;
    char name[REGISTRY_NAME];
    ct_scene_settings settings; /* as asked for; see ct_scene_get_settings */
    ct_scene_settings running;  /* what steps run */
    uint32_t bodies;
    uint64_t bytes;        /* of bodies and kept answers, without meshes */
    uint64_t device_bytes; /* of them, memory of a device that has its own */
    uint64_t owner;        /* session token; SESSION_NONE: opened over HTTP and not yet used by a client */
    char owner_name[REGISTRY_NAME];
    uint32_t principal; /* that opened it */
    uint64_t version;   /* from 1, rises with every change of settings and bodies */
    uint64_t revision;  /* of the settings: rises with every change of them, also from one server to the next */
    uint64_t key;       /* the client's name for the scene, the same on every server; 0: none */
    uint32_t ttl_s;     /* opened over HTTP: closed when no command came for so long; 0: not */
    uint32_t pending;   /* commands waiting or running */

    /* Statistics since it was opened, and of the last step. Times in seconds. */
    uint64_t steps;    /* answered with a result */
    uint64_t failed;   /* answered with an error after they were admitted */
    uint64_t sequence; /* the last one admitted; 0: none */
    uint32_t contacts; /* of the last step, as the following */
    double volume;     /* m^3, sum over its contacts */
    uint64_t pairs, rays, fragments;
    double queue_s;            /* waited before it began */
    double phase_s[CT_PHASES]; /* by phase, summed over threads */
    double wall_s[CT_PHASES];  /* by phase, by the clock: see ct_result */
    double total_queue_s;      /* sums over all steps */
    double total_phase_s[CT_PHASES], total_wall_s[CT_PHASES];
    double age_s;  /* since opened */
    double idle_s; /* since the last step ended; since opened if there was none */
} scene_record;

/* Whether it may be looked at, configured and photographed: by whose it is, and by operators and admins. */
bool scene_is_visible(const scene_record *scene, const identity *who);
bool registry_scene(registry *registry, uint64_t handle, scene_record *out, server_error *error);
/* What is said of a scene that never was, for one that whoever asks may not see. Returns false. */
bool registry_fail_scene(uint64_t handle, server_error *error);
/* How long the last steps took that were answered with a result, from submission to result, in s and no order. */
#define REGISTRY_RECENT 128
bool registry_scene_latencies(registry *registry, uint64_t handle, float out[REGISTRY_RECENT], size_t *n,
                              server_error *error);
/* All of them in rising order of handle. *out is freed with free(). */
bool registry_list_scenes(registry *registry, scene_record **out, size_t *n, server_error *error);

/* ---- totals ---- */

typedef struct registry_totals {
    uint32_t sessions, scenes, meshes, bodies;
    uint64_t mesh_bytes, mesh_bytes_limit, scene_bytes;
} registry_totals;

void registry_get_totals(registry *registry, registry_totals *out);

#endif
