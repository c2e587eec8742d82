/* state.c - takes possession of the state folder, or says why it cannot. */
#include "server/state/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/state/internal.h"

static const char version_text[] = "contactd state 1\n";
/* The folder is full if less than this can be written: the settings of many scenes, or a small mesh. */
enum { PROBE_BYTES = 1 << 16 };

static bool fail(const state *state, server_error *error, const char *what, int why) {
    const char *remedy = why == EROFS || why == EACCES || why == EPERM
                             ? ": it must be a folder that this server may write to"
                         : state_is_full(why) ? ": it is full; free some of the disk, or name another folder"
                                              : "";
    return server_fail(error, CONTACTD_INVALID_ARGUMENT, state->folder, "state-dir", "--state-dir: %s: %s%s", what,
                       strerror(why), remedy);
}

static bool is_our_name(const char *name) {
    static const char *const ours[] = {".",     "..",     "lock",   "version",   "version.tmp",
                                       "probe", "meshes", "scenes", "lost+found"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (strcmp(name, ours[i]) == 0) return true;
    }
    return false;
}

/* Of a folder without a version: that a mistyped option does not fill somebody's home. */
static bool check_empty(const state *state, int fd, server_error *error) {
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    if (!list) return fail(state, error, "it cannot be listed", errno);
    char stranger[64] = "";
    for (const struct dirent *entry; !stranger[0] && (entry = readdir(list));) {
        if (!is_our_name(entry->d_name)) snprintf(stranger, sizeof stranger, "%.60s", entry->d_name);
    }
    closedir(list);
    if (!stranger[0]) return true;
    return server_fail(error, CONTACTD_INVALID_ARGUMENT, state->folder, "state-dir",
                       "--state-dir: the folder holds %s and was never a state folder: name a new one, or an empty one",
                       stranger);
}

static bool check_version(const state *state, int fd, server_error *error) {
    size_t size;
    char *text = state_read_file(fd, "version", 256, &size);
    if (!text && errno != ENOENT) return fail(state, error, "its file version cannot be read", errno);
    bool is_ours = text && strcmp(text, version_text) == 0;
    if (text && !is_ours) {
        text[strcspn(text, "\n")] = 0;
        server_fail(error, CONTACTD_INVALID_ARGUMENT, state->folder, "state-dir",
                    "--state-dir: its version is \"%.60s\", this server's is \"%.*s\": start the server that wrote it, "
                    "or name another folder",
                    text, (int)sizeof version_text - 2, version_text);
    }
    free(text);
    if (is_ours || error->code != CONTACTD_OK) return is_ours;
    if (!check_empty(state, fd, error)) return false;
    int why = state_write_file(fd, "version.tmp", "version", &(state_part){version_text, sizeof version_text - 1}, 1);
    return !why || fail(state, error, "its file version cannot be written", why);
}

static bool fail_taken(const state *state, server_error *error) {
    char number[32] = "";
    ssize_t n = pread(state->lock_fd, number, sizeof number - 1, 0);
    number[n > 0 ? n : 0] = 0;
    number[strcspn(number, "\n")] = 0;
    return server_fail(error, CONTACTD_CONFLICT, state->folder, "state-dir",
                       "--state-dir: another server uses the folder%s%s: each server needs one of its own",
                       number[0] ? ", process " : "", number);
}

static bool lock_folder(state *state, int fd, server_error *error) {
    state->lock_fd = openat(fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (state->lock_fd < 0) return fail(state, error, "its file lock cannot be opened", errno);
    if (flock(state->lock_fd, LOCK_EX | LOCK_NB) == 0) return true;
    return errno == EWOULDBLOCK ? fail_taken(state, error) : fail(state, error, "it cannot be locked", errno);
}

/* Whether another server has it: the file lock that it holds may have been removed. Some network file systems lock no
 * folders. */
static bool is_taken(const state *state) {
    return flock(state->meshes_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

static bool sign_lock(state *state, int fd, server_error *error) {
    char number[32];
    int n = snprintf(number, sizeof number, "%d\n", (int)getpid());
    if (ftruncate(state->lock_fd, 0) != 0 || pwrite(state->lock_fd, number, (size_t)n, 0) != n)
        return fail(state, error, "its file lock cannot be written", errno ? errno : ENOSPC);
    static const char probe[PROBE_BYTES];
    int why;
    do why = state_write_file(fd, "probe", "probe", &(state_part){probe, sizeof probe}, 1);
    while (state_is_full(why) && state_evict_mesh(state)); /* a mesh can be uploaded again */
    unlinkat(fd, "probe", 0);
    return !why || fail(state, error, "nothing can be written to it", why);
}

static int open_part(int fd, const char *name) {
    if (mkdirat(fd, name, 0700) != 0 && errno != EEXIST) return -1;
    return openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static bool take_folder(state *state, int fd, server_error *error) {
    if (!lock_folder(state, fd, error) || !check_version(state, fd, error)) return false;
    state->meshes_fd = open_part(fd, "meshes");
    if (state->meshes_fd < 0) return fail(state, error, "its folder meshes cannot be opened", errno);
    if (is_taken(state)) return fail_taken(state, error);
    state->scenes_fd = open_part(fd, "scenes");
    if (state->scenes_fd < 0) return fail(state, error, "its folder scenes cannot be opened", errno);
    int why = state_scan_meshes(state);
    if (why) return fail(state, error, "its meshes cannot be listed", why);
    why = state_scan_settings(state);
    if (why) return fail(state, error, "its scenes cannot be listed", why);
    return sign_lock(state, fd, error);
}

bool state_open(state **out, const char *folder, uint64_t max_bytes, metrics *metrics, server_error *error) {
    *out = NULL;
    state *state = calloc(1, sizeof *state);
    if (!state || !(state->folder = strdup(folder))) {
        free(state);
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "state", "state-dir", "no memory for the state folder");
    }
    pthread_mutex_init(&state->lock, NULL);
    pthread_mutex_init(&state->writing, NULL);
    state->max_bytes = max_bytes;
    state->metrics = metrics;
    state->meshes_fd = state->scenes_fd = state->lock_fd = -1;
    bool good = true;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) good = fail(state, error, "it cannot be made", errno);
    int fd = good ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (good && fd < 0) good = fail(state, error, "it cannot be opened", errno);
    good = good && take_folder(state, fd, error);
    if (fd >= 0) close(fd);
    if (!good) state_close(&state);
    *out = state;
    return good;
}

void state_close(state **state) {
    struct state *gone = *state;
    *state = NULL;
    if (!gone) return;
    const int open_fds[] = {gone->meshes_fd, gone->scenes_fd, gone->lock_fd};
    for (size_t i = 0; i < sizeof open_fds / sizeof *open_fds; i++) {
        if (open_fds[i] >= 0) close(open_fds[i]);
    }
    pthread_mutex_destroy(&gone->lock);
    pthread_mutex_destroy(&gone->writing);
    free(gone->meshes);
    free(gone->settings);
    free(gone->folder);
    free(gone);
}

void state_get_facts(state *state, state_facts *out) {
    pthread_mutex_lock(&state->lock);
    *out = (state_facts){.bytes = state->bytes, .max_bytes = state->max_bytes, .scenes = state->n_settings};
    for (size_t i = 0; i < state->n_meshes; i++) out->meshes += !state->meshes[i].is_damaged;
    pthread_mutex_unlock(&state->lock);
}
