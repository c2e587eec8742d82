/* internal.h - the state folder itself, for its own files. */
#ifndef SERVER_STATE_INTERNAL_H
#define SERVER_STATE_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>

#include "server/state/state.h"

typedef struct stored_mesh {
    char hash[STATE_HASH];
    bool is_damaged;
    bool is_sound; /* this server wrote or read it; else it may be damaged */
    uint64_t bytes;
    uint64_t used_ns; /* when it was last stored or read, since 1970 */
} stored_mesh;

typedef struct stored_settings {
    uint64_t key;
    char principal[IDENTITY_NAME];
    ct_scene_settings settings;
    uint64_t revision;
    uint64_t used_ns;
} stored_settings;

struct state {
    char *folder;                          /* [fixed] as it was named, for messages */
    int meshes_fd, scenes_fd;              /* [fixed] its folders */
    int lock_fd;                           /* [fixed] */
    uint64_t max_bytes;                    /* [fixed] */
    metrics *metrics;                      /* [fixed] */
    bool (*is_used)(void *, const char *); /* [fixed] or NULL */
    void *context;

    pthread_mutex_t lock; /* guards all that follows; not held while a mesh is read or written */
    stored_mesh *meshes;  /* [n_meshes] in rising order of hash, the damaged one after the sound one */
    size_t n_meshes, room_meshes;
    uint64_t bytes;            /* of all of them, and of those that are being written */
    uint64_t newest_ns;        /* of the last use of any file: no later one may seem earlier, whatever the clock says */
    uint64_t n_temporary;      /* names given to files that are being written */
    stored_settings *settings; /* [n_settings] in rising order of key */
    size_t n_settings, room_settings;
    pthread_mutex_t writing; /* of settings and owners, one after the other; taken before `lock` */
};

/* ---- files.c ---- */

typedef struct state_part {
    const void *data;
    size_t size;
} state_part;

/* Writes a file and makes it durable: temporary is its name until it is whole. 0, or errno; then there is no file. */
int state_write_file(int folder_fd, const char *temporary, const char *name, const state_part *parts, size_t n);
/* The same into a file that is open and has its temporary name, and closes it. */
int state_fill_file(int folder_fd, int fd, const char *temporary, const char *name, const state_part *parts, size_t n);
/* The whole file, which the caller frees; a NUL follows it. NULL: errno says why; EFBIG: it has more than most bytes.
 */
void *state_read_file(int folder_fd, const char *name, size_t most, size_t *size);
/* Whether the cause is the server's want of memory or descriptors, which passes, and not the file. */
bool state_is_passing(int why);
bool state_is_full(int why);           /* the disk, or the user's part of it */
uint64_t state_next_use(state *state); /* ns since 1970, above all that were given. With the lock held */
/* When a file was last used, which no later use is before. */
uint64_t state_file_use(state *state, const struct timespec *time);
void state_note_failure(state *state, const char *what, int why); /* in the log and the metrics */

/* ---- meshes.c, settings.c ---- */

/* Reads the folder's list. 0 or errno. */
int state_scan_meshes(state *state);
/* Removes the oldest unused mesh; damaged ones first. False: there is none. With the lock held. */
bool state_evict_mesh(state *state);
int state_scan_settings(state *state);

#endif
