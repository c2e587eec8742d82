/* internal.h - the registry itself, for its own files (meshes.c, sessions.c, scenes.c). */
#ifndef SERVER_REGISTRY_INTERNAL_H
#define SERVER_REGISTRY_INTERNAL_H

#include <pthread.h>

#include "server/guard/shares.h"
#include "server/registry/objects.h"
#include "server/registry/slots.h"

enum { STRAY_PLACES = 1024 };

struct registry {
    registry_limits limits;       /* [fixed] */
    ct_engine *engine;            /* [fixed] or NULL */
    uint32_t lanes;               /* [fixed] once there is a session: lane queues of each */
    metrics *metrics;             /* [fixed] */
    state *state;                 /* [fixed] or NULL. Its functions take the lock themselves: call them without it */
    pthread_mutex_t lock;         /* guards all that follows */
    slots meshes;                 /* of mesh_entry */
    shares mesh_bytes;            /* of meshes; each counts for the first of its owners */
    slots scenes;                 /* of scene */
    shares n_scenes, scene_bytes; /* by the principals that opened them */
    uint32_t n_strays;            /* scenes opened over HTTP without principal, which no client has taken yet */
    uint32_t strays_of[STRAY_PLACES]; /* of them, by origin modulo their number: few addresses share a place */
    answer_store kept; /* its lists are guarded by the scheduler's lock, its scene_bytes are written under this one */
    uint64_t bodies;
    session **sessions; /* open addressing by token; a power of two, at least twice max_sessions */
    uint32_t n_sessions, session_room;
    uint64_t last_session; /* number of the newest */
};

/* What others hold is in the way of a request: it may succeed when so long has passed. */
enum { RETRY_AFTER_MS = 1000 };

/* meshes.c */
void registry_free_meshes(registry *registry);
void registry_refresh_mesh_bytes(registry *registry); /* with the lock held: mesh_bytes as of now */
/* sessions.c */
bool registry_init_sessions(registry *registry);
void registry_free_sessions(registry *registry);
/* scenes.c */
void registry_free_scenes(registry *registry);

void registry_copy_name(char to[REGISTRY_NAME], const char *from); /* cut between characters; what is not UTF-8, or no
                                                                    * character of a name, becomes '?' */

#endif
