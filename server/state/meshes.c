/* meshes.c - stored meshes: files named by the hash of what they hold, checked when they are read, bounded in bytes. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "server/base/log.h"
#include "server/state/internal.h"

#define DAMAGED ".damaged"
#define OWNERS  ".owners"
enum { FILE_NAME = STATE_HASH + 24 };

/* Files of versions 1 and 2 are read; their headers are under no checksum. */
static const char magic_1[] = "contactd mesh 1\n", magic_2[] = "contactd mesh 2\n", magic_3[] = "contactd mesh 3\n";

enum { MAGIC = sizeof magic_1 - 1 };
enum { FLAG_FILE = 1, FLAG_OPEN = 2, FLAG_DOUBLES = 4, CLOSING_SHIFT = 8, CLOSING_MASK = 0xff };

/* Little-endian, as the arrays behind it are. */
typedef struct mesh_header {
    char magic[MAGIC];
    /* FLAG_..., and from CLOSING_SHIFT on the ct_closing that made arrays. Version 1: a file or not; version 2: the same,
     * and the surface is open. */
    uint32_t flags;
    uint32_t format;                  /* of a file; of arrays the bits of a float: the deviation of a wrap, m */
    uint64_t n_vertices, n_triangles; /* of arrays: f32 [n_vertices][3], u32 [n_triangles][3] */
    uint64_t size;                    /* bytes of the arrays or the file */
    char name[STATE_NAME];
} mesh_header;
static_assert(sizeof(mesh_header) == 112, "the header is written as it lies in memory");

/* What stands behind the header: from version 3 on a checksum of all else, BLAKE2b; of a surface that was registered
 * open its direction; the arrays or the file. */
enum { CHECKSUM = 32, OPEN_DIRECTION = 3 * sizeof(double) };

/* ---- the list; with the lock held ---- */

/* Where the mesh is, or belongs. A damaged file stands behind a sound one of the same hash. */
static size_t place_of(const state *state, const char *hash, bool is_damaged) {
    size_t low = 0, high = state->n_meshes;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(state->meshes[middle].hash, hash);
        if (order == 0) order = (int)state->meshes[middle].is_damaged - (int)is_damaged;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static stored_mesh *find(const state *state, const char *hash, bool is_damaged) {
    size_t at = place_of(state, hash, is_damaged);
    if (at == state->n_meshes) return NULL;
    stored_mesh *mesh = &state->meshes[at];
    return strcmp(mesh->hash, hash) == 0 && mesh->is_damaged == is_damaged ? mesh : NULL;
}

static void take_out(state *state, stored_mesh *mesh) {
    state->bytes -= mesh->bytes;
    size_t at = (size_t)(mesh - state->meshes);
    memmove(mesh, mesh + 1, (--state->n_meshes - at) * sizeof *mesh);
}

/* Its bytes are counted by the caller. */
static bool list(state *state, const stored_mesh *mesh) {
    stored_mesh *old = find(state, mesh->hash, mesh->is_damaged);
    if (old) take_out(state, old);
    if (state->n_meshes == state->room_meshes) {
        size_t room = state->room_meshes ? 2 * state->room_meshes : 64;
        stored_mesh *grown = realloc(state->meshes, room * sizeof *grown);
        if (!grown) return false;
        state->meshes = grown;
        state->room_meshes = room;
    }
    size_t at = place_of(state, mesh->hash, mesh->is_damaged);
    memmove(&state->meshes[at + 1], &state->meshes[at], (state->n_meshes++ - at) * sizeof *mesh);
    state->meshes[at] = *mesh;
    return true;
}

static void file_name(char name[FILE_NAME], const char *hash, const char *suffix) {
    snprintf(name, FILE_NAME, "%.32s%s", hash, suffix);
}

static void remove_files(state *state, const stored_mesh *mesh) {
    char name[FILE_NAME];
    file_name(name, mesh->hash, mesh->is_damaged ? DAMAGED : "");
    unlinkat(state->meshes_fd, name, 0);
    if (find(state, mesh->hash, !mesh->is_damaged)) return; /* whose owners these are, too */
    file_name(name, mesh->hash, OWNERS);
    unlinkat(state->meshes_fd, name, 0);
}

bool state_evict_mesh(state *state) {
    stored_mesh *oldest = NULL;
    for (size_t i = 0; i < state->n_meshes; i++) {
        stored_mesh *mesh = &state->meshes[i];
        if (oldest && oldest->is_damaged && !mesh->is_damaged) continue;
        bool is_older = !oldest || mesh->used_ns < oldest->used_ns || (mesh->is_damaged && !oldest->is_damaged);
        if (!is_older || (!mesh->is_damaged && state->is_used && state->is_used(state->context, mesh->hash))) continue;
        oldest = mesh;
    }
    if (!oldest) return false;
    log_debug("state", "%s: mesh %s makes room", state->folder, oldest->hash);
    remove_files(state, oldest);
    take_out(state, oldest);
    metrics_add(state->metrics, METRICS_STATE_EVICTED, 1);
    return true;
}

/* Bytes of those that may make room. */
static uint64_t unused_bytes(const state *state) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < state->n_meshes; i++) {
        const stored_mesh *mesh = &state->meshes[i];
        if (mesh->is_damaged || !state->is_used || !state->is_used(state->context, mesh->hash)) bytes += mesh->bytes;
    }
    return bytes;
}

/* Where all that may go would not be enough, nothing goes. */
static bool make_room(state *state, uint64_t bytes) {
    if (bytes > state->max_bytes) return false;
    if (state->bytes <= state->max_bytes - bytes) return true;
    if (state->bytes - unused_bytes(state) > state->max_bytes - bytes) return false;
    while (state->bytes > state->max_bytes - bytes) {
        if (!state_evict_mesh(state)) return false;
    }
    return true;
}

/* ---- the folder ---- */

/* A file's name is a hash, and what follows it. */
static bool is_hash_with(const char *name, const char *suffix) {
    return strspn(name, "0123456789abcdef") == STATE_HASH - 1 && strcmp(name + STATE_HASH - 1, suffix) == 0;
}

/* Of meshes that are gone: a server may have ended between its removal of the one and the other. */
static void remove_owners_of_none(state *state, DIR *folder) {
    rewinddir(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char hash[STATE_HASH];
        if (!is_hash_with(entry->d_name, OWNERS)) continue;
        snprintf(hash, sizeof hash, "%.32s", entry->d_name);
        if (!find(state, hash, false) && !find(state, hash, true)) unlinkat(state->meshes_fd, entry->d_name, 0);
    }
}

int state_scan_meshes(state *state) {
    int copy = openat(state->meshes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy < 0 ? NULL : fdopendir(copy);
    if (!folder) return errno;
    int why = 0;
    for (const struct dirent *entry; !why && (entry = readdir(folder));) {
        const char *name = entry->d_name;
        struct stat facts;
        size_t length = strlen(name);
        if (length > 4 && strcmp(name + length - 4, ".tmp") == 0) unlinkat(state->meshes_fd, name, 0);
        bool is_damaged = is_hash_with(name, DAMAGED);
        if (!is_damaged && !is_hash_with(name, "")) continue;
        if (fstatat(state->meshes_fd, name, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode)) continue;
        stored_mesh mesh = {.is_damaged = is_damaged,
                            .bytes = (uint64_t)facts.st_size,
                            .used_ns = state_file_use(state, &facts.st_mtim)};
        snprintf(mesh.hash, sizeof mesh.hash, "%.32s", name);
        if (!list(state, &mesh)) why = ENOMEM;
        state->bytes += mesh.bytes;
    }
    if (!why) remove_owners_of_none(state, folder);
    closedir(folder);
    if (!why) make_room(state, 0); /* --state-size may be less than it was */
    return why;
}

void state_set_users(state *state, bool (*is_used)(void *context, const char *hash), void *context) {
    state->is_used = is_used;
    state->context = context;
}

/* ---- reading ---- */

static void note_use(state *state, stored_mesh *mesh) {
    mesh->used_ns = state_next_use(state);
    char name[FILE_NAME];
    file_name(name, mesh->hash, "");
    /* Not UTIME_NOW, which is the clock's last tick: meshes used within a tick would lose their order. If it fails, the
     * mesh only looks older after a restart. */
    const struct timespec used = {.tv_sec = (time_t)(mesh->used_ns / 1000000000),
                                  .tv_nsec = (long)(mesh->used_ns % 1000000000)};
    utimensat(state->meshes_fd, name, (struct timespec[]){used, used}, 0);
}

bool state_has_mesh(state *state, const char *hash) {
    pthread_mutex_lock(&state->lock);
    bool has = find(state, hash, false) != NULL;
    pthread_mutex_unlock(&state->lock);
    return has;
}

static bool has_checksum(const char *bytes, size_t size) {
    unsigned char checksum[CHECKSUM];
    const size_t before = sizeof(mesh_header), after = before + CHECKSUM;
    crypto_generichash_state sum;
    crypto_generichash_init(&sum, NULL, 0, sizeof checksum);
    crypto_generichash_update(&sum, (const unsigned char *)bytes, before);
    crypto_generichash_update(&sum, (const unsigned char *)bytes + after, size - after);
    crypto_generichash_final(&sum, checksum, sizeof checksum);
    return memcmp(checksum, bytes + before, sizeof checksum) == 0;
}

/* Where the parts of a file lie. */
typedef struct layout {
    mesh_header header;
    bool is_new, is_open;
    size_t direction, before; /* where the direction is, and what follows it */
} layout;

/* NULL: it is as it was written. Otherwise what is wrong. */
static const char *check_file(const char *bytes, size_t size, layout *at) {
    if (size < sizeof at->header) return "it is shorter than a header";
    memcpy(&at->header, bytes, sizeof at->header);
    const char *magic = at->header.magic;
    at->is_new = memcmp(magic, magic_3, MAGIC) == 0;
    const bool is_2 = memcmp(magic, magic_2, MAGIC) == 0;
    if (!at->is_new && !is_2 && memcmp(magic, magic_1, MAGIC) != 0) return "it does not begin as a mesh does";
    at->is_open = at->is_new ? at->header.flags & FLAG_OPEN : is_2;
    at->direction = sizeof at->header + (at->is_new ? CHECKSUM : 0);
    at->before = at->direction + (at->is_open ? OPEN_DIRECTION : 0);
    if (size < at->before || at->header.size != size - at->before)
        return "its length is not the one that its header says";
    return at->is_new && !has_checksum(bytes, size) ? "its checksum is not that of its content" : NULL;
}

/* NULL: it is sound, and *out is the mesh. "": nothing is wrong with it, and *cause says why it was not made: no memory,
 * or the work was ended. Otherwise what is wrong. */
static const char *make_mesh(const char *bytes, size_t size, const char *hash, ct_mesh **out, ct_error *cause) {
    layout at;
    const char *why = check_file(bytes, size, &at);
    if (why) return why;
    const mesh_header header = at.header;
    const bool is_new = at.is_new;
    const char *content = bytes + at.before;
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    if (at.is_open) memcpy(options.open_direction, bytes + at.direction, OPEN_DIRECTION);
    ct_status status;
    if (is_new ? header.flags & FLAG_FILE : header.flags) {
        status = ct_mesh_read_with(content, header.size, (ct_mesh_format)header.format, &options, out, NULL, cause);
    } else {
        const ct_dtype dtype = is_new && header.flags & FLAG_DOUBLES ? CT_F64 : CT_F32;
        const uint64_t row = dtype == CT_F64 ? 24 : 12;
        if (header.n_vertices > header.size / row || header.n_triangles != (header.size - row * header.n_vertices) / 12)
            return "its counts are not those of its length";
        status = ct_mesh_create_with(content, dtype, header.n_vertices, content + row * header.n_vertices,
                                     header.n_triangles, &options, out, NULL, cause);
        float deviation;
        memcpy(&deviation, &header.format, sizeof deviation);
        const uint32_t closing = is_new ? header.flags >> CLOSING_SHIFT & CLOSING_MASK : 0;
        if (status == CT_OK && closing && closing <= CT_CLOSING_WRAP && deviation >= 0)
            ct_mesh_set_closing(*out, (ct_closing)closing, (double)deviation);
    }
    if (status == CT_OUT_OF_MEMORY || status == CT_CANCELLED) return "";
    if (status != CT_OK) return "it holds no valid mesh";
    ct_mesh_info info;
    ct_mesh_get_info(*out, &info);
    if (strcmp(info.hash, hash) == 0) return NULL;
    ct_mesh_release(out);
    return "its content has another hash than its name";
}

static void note_sound(state *state, const char *hash) {
    pthread_mutex_lock(&state->lock);
    stored_mesh *mesh = find(state, hash, false);
    if (mesh) mesh->is_sound = true;
    pthread_mutex_unlock(&state->lock);
}

static void set_aside(state *state, const char *hash, const char *why) {
    char name[FILE_NAME], aside[FILE_NAME];
    file_name(name, hash, "");
    file_name(aside, hash, DAMAGED);
    bool is_there = false;
    pthread_mutex_lock(&state->lock);
    stored_mesh *mesh = find(state, hash, false);
    if (mesh) {
        stored_mesh damaged = *mesh;
        damaged.is_damaged = true;
        is_there = renameat(state->meshes_fd, name, state->meshes_fd, aside) == 0 || errno != ENOENT;
        take_out(state, mesh);
        if (is_there && list(state, &damaged)) state->bytes += damaged.bytes;
    }
    pthread_mutex_unlock(&state->lock);
    if (!mesh) return;
    metrics_add(state->metrics, METRICS_STATE_DAMAGED, 1);
    if (is_there)
        log_error("state", "%s/meshes/%s is damaged: %s; it was set aside as %s, and the mesh must be registered again",
                  state->folder, name, why, aside);
    else
        log_error("state", "%s/meshes/%s is gone: the mesh must be registered again", state->folder, name);
}

static bool not_stored(const char *hash, server_error *error) {
    char object[96];
    snprintf(object, sizeof object, "mesh %.32s", hash);
    return server_fail(error, CONTACTD_NOT_FOUND, object, "hash", "no mesh of this hash is stored: register it again");
}

bool state_get_mesh(state *state, const char *hash, ct_mesh **out, char name[STATE_NAME], server_error *error) {
    *out = NULL;
    pthread_mutex_lock(&state->lock);
    stored_mesh *mesh = find(state, hash, false);
    if (mesh) note_use(state, mesh);
    pthread_mutex_unlock(&state->lock);
    if (!mesh) return not_stored(hash, error);
    char at[FILE_NAME];
    size_t size;
    file_name(at, hash, "");
    char *bytes = state_read_file(state->meshes_fd, at, SIZE_MAX / 2, &size);
    ct_error cause = {0};
    const char *why = NULL;
    if (bytes) {
        why = make_mesh(bytes, size, hash, out, &cause);
    } else {
        why = state_is_passing(errno) ? "" : strerror(errno);
        cause.status = CT_OUT_OF_MEMORY;
        snprintf(cause.message, sizeof cause.message, "the stored mesh cannot be read now: %s", strerror(errno));
    }
    if (!why) {
        memcpy(name, bytes + offsetof(mesh_header, name), STATE_NAME);
        name[STATE_NAME - 1] = 0;
        metrics_add(state->metrics, METRICS_STATE_RESTORED, 1);
        note_sound(state, hash);
    }
    free(bytes);
    if (!why) return true;
    if (!why[0]) {
        char object[96];
        snprintf(object, sizeof object, "mesh %.32s", hash);
        return server_fail_work(error, object, &cause);
    }
    set_aside(state, hash, why);
    return not_stored(hash, error);
}

/* ---- storing ---- */

static uint64_t row_bytes(const state_source *source) {
    return source->dtype == CT_F64 ? 24 : 12;
}

static bool is_open(const state_source *source) {
    const double *d = source->open_direction;
    return d[0] || d[1] || d[2];
}

static int write_mesh(state *state, const char *hash, const char *temporary, const mesh_header *header,
                      const state_source *source) {
    unsigned char checksum[CHECKSUM];
    const state_part parts[] = {
        {header, sizeof *header},
        {checksum, sizeof checksum},
        {source->open_direction, is_open(source) ? OPEN_DIRECTION : 0},
        {source->file ? source->file : source->positions,
         source->file ? source->size : row_bytes(source) * source->n_vertices},
        {source->triangles, source->file ? 0 : 12 * source->n_triangles},
    };
    enum { N = sizeof parts / sizeof *parts };
    crypto_generichash_state sum;
    crypto_generichash_init(&sum, NULL, 0, sizeof checksum);
    for (int i = 0; i < N; i++)
        if (parts[i].data != checksum && parts[i].size) crypto_generichash_update(&sum, parts[i].data, parts[i].size);
    crypto_generichash_final(&sum, checksum, sizeof checksum);
    return state_write_file(state->meshes_fd, temporary, hash, parts, N);
}

/* A file that was there before the server may be damaged. It is found now, while somebody has the mesh. */
static void check_stored(state *state, const char *hash) {
    char name[FILE_NAME];
    size_t size;
    layout at;
    file_name(name, hash, "");
    pthread_mutex_lock(&state->lock);
    const stored_mesh *mesh = find(state, hash, false);
    const bool is_in_doubt = mesh && !mesh->is_sound;
    pthread_mutex_unlock(&state->lock);
    if (!is_in_doubt) return;
    char *bytes = state_read_file(state->meshes_fd, name, SIZE_MAX / 2, &size);
    const int cause = errno;
    const char *why = bytes ? check_file(bytes, size, &at) : state_is_passing(cause) ? NULL : strerror(cause);
    const bool is_read = bytes && !why;
    free(bytes);
    if (why) set_aside(state, hash, why);
    if (is_read) note_sound(state, hash);
}

/* Whether so many bytes would be free if all meshes that nobody uses were removed, as far as that is known: of what is
 * left to a user with a quota nothing is. */
static bool can_hold(const state *state, uint64_t bytes, int why) {
    struct statvfs disk;
    if (!state_is_full(why)) return false;
    if (fstatvfs(state->meshes_fd, &disk) != 0) return true;
    const uint64_t free_bytes = why == ENOSPC ? (uint64_t)disk.f_bavail * disk.f_frsize : 0;
    return free_bytes + unused_bytes(state) >= bytes;
}

void state_put_mesh(state *state, const char *hash, const state_source *source) {
    const bool has_doubles = !source->file && source->dtype == CT_F64;
    mesh_header header = {.flags = (source->file ? FLAG_FILE : 0) | (is_open(source) ? FLAG_OPEN : 0) |
                                   (has_doubles ? FLAG_DOUBLES : 0) | (uint32_t)source->closing << CLOSING_SHIFT,
                          .format = (uint32_t)source->format,
                          .n_vertices = source->file ? 0 : source->n_vertices,
                          .n_triangles = source->file ? 0 : source->n_triangles,
                          .size = source->file ? source->size
                                               : row_bytes(source) * source->n_vertices + 12 * source->n_triangles};
    float deviation = (float)source->deviation;
    if ((double)deviation < source->deviation) deviation = nextafterf(deviation, INFINITY); /* it is a bound */
    if (!source->file) memcpy(&header.format, &deviation, sizeof header.format);
    memcpy(header.magic, magic_3, MAGIC);
    snprintf(header.name, sizeof header.name, "%s", source->name ? source->name : "");
    stored_mesh mesh = {.is_sound = true,
                        .bytes = sizeof header + CHECKSUM + (is_open(source) ? OPEN_DIRECTION : 0) + header.size};
    snprintf(mesh.hash, sizeof mesh.hash, "%.32s", hash);
    char temporary[FILE_NAME], what[64];
    snprintf(what, sizeof what, "mesh %.32s", hash);

    check_stored(state, hash);
    pthread_mutex_lock(&state->lock);
    stored_mesh *old = find(state, hash, false);
    if (old) note_use(state, old);
    bool has_room = !old && make_room(state, mesh.bytes);
    if (has_room) state->bytes += mesh.bytes;
    snprintf(temporary, sizeof temporary, "%.32s.%" PRIu64 ".tmp", hash, ++state->n_temporary % 1000000);
    pthread_mutex_unlock(&state->lock);
    if (old) return;
    if (!has_room) {
        metrics_add(state->metrics, METRICS_STATE_FAILURES, 1);
        log_warn("state",
                 "%s: %s of %" PRIu64 " bytes cannot be kept: the meshes in use leave too little of the %" PRIu64
                 " bytes of --state-size",
                 state->folder, what, mesh.bytes, state->max_bytes);
        return;
    }
    int why;
    bool has_evicted = false;
    do {
        why = write_mesh(state, mesh.hash, temporary, &header, source);
        pthread_mutex_lock(&state->lock);
        has_evicted = can_hold(state, mesh.bytes, why) && state_evict_mesh(state); /* it holds less than --state-size */
        pthread_mutex_unlock(&state->lock);
    } while (has_evicted);
    pthread_mutex_lock(&state->lock);
    if (why || !list(state, &mesh))
        state->bytes -= mesh.bytes;
    else
        note_use(state, find(state, mesh.hash, false));
    pthread_mutex_unlock(&state->lock);
    if (why) state_note_failure(state, what, why);
}

void state_drop_mesh(state *state, const char *hash) {
    pthread_mutex_lock(&state->lock);
    stored_mesh *mesh = find(state, hash, false);
    if (mesh) {
        remove_files(state, mesh);
        take_out(state, mesh);
    }
    pthread_mutex_unlock(&state->lock);
}

/* ---- owners ---- */

void state_put_owners(state *state, const char *hash, const state_owner *owners, size_t n) {
    char name[FILE_NAME], temporary[FILE_NAME], what[64];
    file_name(name, hash, OWNERS);
    file_name(temporary, hash, OWNERS ".tmp");
    snprintf(what, sizeof what, "the owners of mesh %.32s", hash);
    if (!state_has_mesh(state, hash)) return;
    state_part *parts = malloc((2 * n + 1) * sizeof *parts);
    for (size_t i = 0; parts && i < n; i++) {
        parts[2 * i] = (state_part){owners[i], strlen(owners[i])};
        parts[2 * i + 1] = (state_part){"\n", 1};
    }
    pthread_mutex_lock(&state->writing);
    int why = parts ? state_write_file(state->meshes_fd, temporary, name, parts, 2 * n) : ENOMEM;
    pthread_mutex_unlock(&state->writing);
    free(parts);
    if (why) state_note_failure(state, what, why);
}

void state_get_owners(state *state, const char *hash, state_owner **out, size_t *n) {
    enum { MOST_BYTES = 1 << 20 };
    char name[FILE_NAME];
    size_t size;
    *out = NULL;
    *n = 0;
    file_name(name, hash, OWNERS);
    char *text = state_read_file(state->meshes_fd, name, MOST_BYTES, &size);
    if (!text) return;
    size_t lines = 0;
    for (const char *c = text; *c; c++) lines += *c == '\n';
    *out = malloc((lines + 1) * sizeof **out);
    for (char *line = text, *end; *out && (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        if (*line && strlen(line) < sizeof **out) snprintf((*out)[(*n)++], sizeof **out, "%s", line);
    }
    free(text);
}
