/* state.h - what outlives the server: meshes as they were registered, and settings of scenes that somebody other than
 * their client changed. For the registry and whoever configures scenes. All functions may be called from any thread.
 *
 * The folder (--state-dir) belongs to one server at a time, which holds a lock on it:
 *
 *     lock                  with the number of the server's process; meshes/ is locked, too, as one may remove this file
 *     version               "contactd state 1"
 *     meshes/HASH           a mesh: a header, a checksum, and the arrays or the file that were registered; its hash is
 *                           its name
 *     meshes/HASH.owners    names of the principals that registered it, one a line
 *     meshes/HASH.damaged   what was found damaged and set aside
 *     scenes/KEY            settings of a scene, by the key that its client gave it
 *
 * Files are written beside their place, made durable (fsync) and renamed, so that a crash leaves an old file, a new one
 * or none. Meshes are read when somebody asks for them, and checked by their hash then. What cannot be written is told
 * in the log and counted; the server goes on without it.
 */
#ifndef SERVER_STATE_STATE_H
#define SERVER_STATE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/include/contact.h"
#include "server/base/error.h"
#include "server/guard/identity.h"
#include "server/metrics/metrics.h"

enum {
    STATE_HASH = 33, /* bytes of a mesh's hash with its NUL */
    STATE_NAME = 64, /* bytes of a mesh's name with its NUL */
    STATE_MAX_SCENES = 65536
};

typedef struct state state;

/* folder is made if it is not there; its parent must be. max_bytes: of all meshes. False: *error says what is wrong
 * with the folder: not a folder, read-only, full, another server's, of another version, or not empty and never a state
 * folder. */
bool state_open(state **out, const char *folder, uint64_t max_bytes, metrics *metrics, server_error *error);
void state_close(state **state); /* NULL inside is allowed */

/* ---- meshes ---- */

/* What was registered: a file, or arrays. Nothing is owned. */
typedef struct state_source {
    const char *name;
    const void *file; /* NULL: arrays */
    size_t size;
    ct_mesh_format format;
    const void *positions; /* [n_vertices][3] */
    ct_dtype dtype;
    size_t n_vertices;
    const void *triangles; /* u32 [n_triangles][3] */
    size_t n_triangles;
    double open_direction[3]; /* of ct_mesh_options; all 0: the mesh is closed */
    ct_closing closing;       /* that made these arrays */
    double deviation;         /* m, of a wrap */
} state_source;

/* Tells which meshes must stay when others make room: those that bodies use. It may be called with the state's lock
 * held, so whoever calls a function of this header must hold no lock that is_used takes. Before the first mesh is put.
 */
void state_set_users(state *state, bool (*is_used)(void *context, const char *hash), void *context);

/* Stores a mesh that is not stored yet, or whose file is damaged; the oldest unused ones make room. Waits for the disk. */
void state_put_mesh(state *state, const char *hash, const state_source *source);
bool state_has_mesh(state *state, const char *hash);
/* Reads and makes a mesh: 100s of ms for a large one. NOT_FOUND: it is not stored, or was damaged and set aside.
 * OUT_OF_MEMORY, also for want of descriptors; as server_fail_work where the thread's ct_cancel ended it. */
bool state_get_mesh(state *state, const char *hash, ct_mesh **out, char name[STATE_NAME], server_error *error);
void state_drop_mesh(state *state, const char *hash);

typedef char state_owner[IDENTITY_NAME];
/* Replaces the list. */
void state_put_owners(state *state, const char *hash, const state_owner *owners, size_t n);
/* *out is freed with free(); NULL and 0: none. */
void state_get_owners(state *state, const char *hash, state_owner **out, size_t *n);

/* ---- settings ---- */

/* A place on the disk for settings, taken before anything is changed, so that what is changed can be stored. */
typedef struct state_place {
    int fd; /* -1: none */
    char name[40];
} state_place;

/* Waits for the disk. False: *error says that the folder is full or cannot be written (LIMIT_EXCEEDED, which may be
 * over later), and *out is none. */
bool state_take_place(state *state, state_place *out, server_error *error);
void state_leave_place(state *state, state_place *place); /* gives it back, unused; of none: harmless */

/* Of the scene that `principal` opened under `key`. Older revisions than the stored one are ignored. Uses the place up.
 * Waits for the disk. */
void state_put_settings(state *state, state_place *place, uint64_t key, const char *principal,
                        const ct_scene_settings *settings, uint64_t revision);
/* Does not wait. False: none are stored. */
bool state_get_settings(state *state, uint64_t key, const char *principal, ct_scene_settings *out, uint64_t *revision);
/* The scene was closed for good. */
void state_drop_settings(state *state, uint64_t key, const char *principal);

/* ---- facts ---- */

typedef struct state_facts {
    uint64_t meshes, bytes, max_bytes, scenes;
} state_facts;

void state_get_facts(state *state, state_facts *out);

#endif
