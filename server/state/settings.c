/* settings.c - settings of scenes that outlive the server: a small text file for each, all of them in memory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/setting_rows.h"
#include "server/base/log.h"
#include "server/state/internal.h"

enum { FILE_NAME = 40, KEY_DIGITS = 16, MOST_BYTES = 4096, RETRY_AFTER_MS = 10000 };

/* ---- the list; with the lock held ---- */

static size_t place_of(const state *state, uint64_t key) {
    size_t low = 0, high = state->n_settings;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (state->settings[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static stored_settings *find(const state *state, uint64_t key, const char *principal) {
    size_t at = place_of(state, key);
    if (at == state->n_settings || state->settings[at].key != key) return NULL;
    return strcmp(state->settings[at].principal, principal) == 0 ? &state->settings[at] : NULL;
}

static void take_out(state *state, size_t at) {
    char name[FILE_NAME];
    snprintf(name, sizeof name, "%016" PRIx64, state->settings[at].key);
    unlinkat(state->scenes_fd, name, 0);
    memmove(&state->settings[at], &state->settings[at + 1], (--state->n_settings - at) * sizeof *state->settings);
}

static void drop_oldest(state *state) {
    size_t oldest = 0;
    for (size_t i = 1; i < state->n_settings; i++) {
        if (state->settings[i].used_ns < state->settings[oldest].used_ns) oldest = i;
    }
    take_out(state, oldest);
}

/* Replaces what the key has. */
static bool list(state *state, const stored_settings *settings) {
    size_t at = place_of(state, settings->key);
    if (at < state->n_settings && state->settings[at].key == settings->key) {
        state->settings[at] = *settings;
        return true;
    }
    if (state->n_settings == state->room_settings) {
        size_t room = state->room_settings ? 2 * state->room_settings : 64;
        stored_settings *grown = realloc(state->settings, room * sizeof *grown);
        if (!grown) return false;
        state->settings = grown;
        state->room_settings = room;
    }
    memmove(&state->settings[at + 1], &state->settings[at], (state->n_settings++ - at) * sizeof *settings);
    state->settings[at] = *settings;
    return true;
}

/* ---- files ---- */

/* A setting's lines: the method by its name, numbers to the bit, and of three one each. Returns the characters. */
static int print_setting(const ct_setting_row *row, const ct_scene_settings *s, char *text, size_t size) {
    if (row == &ct_setting_rows[CT_SETTING_METHOD])
        return snprintf(text, size, "%s %s\n", row->name, ct_method_name(s->method));
    if (row->type == CT_SETTING_IS_F64) return snprintf(text, size, "%s %a\n", row->name, ct_setting_number(row, s));
    if (row->type == CT_SETTING_IS_U32X3)
        return snprintf(text, size, "%s_x %" PRIu64 "\n%s_y %" PRIu64 "\n%s_z %" PRIu64 "\n", row->name,
                        (uint64_t)ct_setting_integer(row, s, 0), row->name, (uint64_t)ct_setting_integer(row, s, 1),
                        row->name, (uint64_t)ct_setting_integer(row, s, 2));
    return snprintf(text, size, "%s %" PRIu64 "\n", row->name, (uint64_t)ct_setting_integer(row, s, 0));
}

static int print(const stored_settings *in, char *text, size_t size) {
    int n = snprintf(text, size, "contactd scene 1\nprincipal %s\nrevision %" PRIu64 "\n", in->principal, in->revision);
    for (int s = 0; s < CT_SETTINGS; s++)
        n += print_setting(&ct_setting_rows[s], &in->settings, text + n, size - (size_t)n);
    return n + snprintf(text + n, size - (size_t)n, "end\n");
}

/* What follows a name and a space on one of the lines; NULL: none has the name. */
static const char *value_of(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        if (strncmp(line, name, length) == 0 && line[length] == ' ') return line + length + 1;
    }
    return NULL;
}

static bool copy_word(char *to, size_t size, const char *value) {
    size_t length = value ? strcspn(value, "\n") : size;
    if (length >= size) return false;
    memcpy(to, value, length);
    to[length] = 0;
    return true;
}

/* Reads a setting. Returns the number of its lines that the file lacks. */
static unsigned parse_setting(const char *text, const ct_setting_row *row, ct_scene_settings *s) {
    unsigned absent = 0;
    const bool is_three = row->type == CT_SETTING_IS_U32X3;
    for (int i = 0; i < (is_three ? 3 : 1); i++) {
        char name[40];
        snprintf(name, sizeof name, is_three ? "%s_%c" : "%s", row->name, "xyz"[i]);
        const char *value = value_of(text, name);
        if (!value)
            absent++;
        else if (row->type == CT_SETTING_IS_F64)
            ct_setting_set_number(row, s, strtod(value, NULL));
        else
            ct_setting_set_integer(row, s, i, (int64_t)strtoull(value, NULL, 10));
    }
    return absent;
}

/* Settings that the file does not have keep their defaults; but for these, print makes the same text of it, or it is
 * damaged. */
static bool parse(const char *text, uint64_t key, stored_settings *out) {
    char method[16];
    *out = (stored_settings){.key = key};
    ct_scene_settings *s = &out->settings;
    ct_scene_settings_init(s);
    const char *value = value_of(text, "revision");
    if (!value || !copy_word(out->principal, sizeof out->principal, value_of(text, "principal")) ||
        !copy_word(method, sizeof method, value_of(text, "method")))
        return false;
    out->revision = strtoull(value, NULL, 10);
    int64_t number;
    const bool is_known = ct_setting_choice_find(&ct_setting_rows[CT_SETTING_METHOD], method, &number);
    unsigned absent = 0;
    for (int k = 0; k < CT_SETTINGS; k++)
        if (k != CT_SETTING_METHOD) absent += parse_setting(text, &ct_setting_rows[k], s);
    if (is_known) s->method = (ct_method)number;
    char again[MOST_BYTES];
    print(out, again, sizeof again);
    unsigned lines = 0, expected = 0;
    for (const char *c = text; *c; c++) lines += *c == '\n';
    bool is_same = true;
    for (char *line = again, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        expected++;
        const char *space = strchr(line, ' ');
        char name[32] = "";
        if (space) snprintf(name, sizeof name, "%.*s", (int)(space - line), line);
        const char *found = space ? value_of(text, name) : NULL;
        size_t length = space ? strlen(space + 1) : 0;
        is_same = is_same && (!found || (strncmp(found, space + 1, length) == 0 && found[length] == '\n'));
    }
    size_t size = strlen(text);
    bool is_whole = strncmp(text, "contactd scene 1\n", 17) == 0 && size > 5 && strcmp(text + size - 5, "\nend\n") == 0;
    return is_known && is_same && is_whole && lines + absent == expected;
}

static int read_one(state *state, const char *name) {
    size_t size;
    struct stat facts;
    char *text = state_read_file(state->scenes_fd, name, MOST_BYTES - 1, &size);
    const int why = text ? 0 : errno;
    if (state_is_passing(why)) return why;
    if (why && why != EFBIG && why != EINVAL) { /* who may not read it may lose what it says */
        metrics_add(state->metrics, METRICS_STATE_FAILURES, 1);
        log_error("state", "%s/scenes/%s cannot be read: %s: its scene has the settings that its client asks for",
                  state->folder, name, strerror(why));
        return 0;
    }
    stored_settings settings;
    bool is_sound = text && strlen(text) == size && parse(text, strtoull(name, NULL, 16), &settings);
    free(text);
    if (!is_sound) {
        char aside[FILE_NAME];
        snprintf(aside, sizeof aside, "%.16s.damaged", name);
        renameat(state->scenes_fd, name, state->scenes_fd, aside);
        metrics_add(state->metrics, METRICS_STATE_DAMAGED, 1);
        log_error("state",
                  "%s/scenes/%s is damaged and was set aside as %s: its scene has the settings that its client "
                  "asks for",
                  state->folder, name, aside);
        return 0;
    }
    if (fstatat(state->scenes_fd, name, &facts, 0) == 0) settings.used_ns = state_file_use(state, &facts.st_mtim);
    return list(state, &settings) ? 0 : ENOMEM;
}

int state_scan_settings(state *state) {
    int copy = openat(state->scenes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy < 0 ? NULL : fdopendir(copy);
    if (!folder) return errno;
    int why = 0;
    /* Those left by an earlier start: of the damaged ones, the log has told once. */
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const char *end = entry->d_name + strspn(entry->d_name, "0123456789abcdef");
        const size_t length = strlen(entry->d_name);
        if ((length > 4 && strcmp(entry->d_name + length - 4, ".tmp") == 0) || strcmp(end, ".damaged") == 0)
            unlinkat(state->scenes_fd, entry->d_name, 0);
    }
    rewinddir(folder);
    for (const struct dirent *entry; !why && (entry = readdir(folder));) {
        size_t digits = strspn(entry->d_name, "0123456789abcdef");
        if (digits == KEY_DIGITS && !entry->d_name[digits]) why = read_one(state, entry->d_name);
    }
    closedir(folder);
    while (!why && state->n_settings > STATE_MAX_SCENES) drop_oldest(state);
    return why;
}

/* ---- the calls ---- */

bool state_take_place(state *state, state_place *out, server_error *error) {
    static const char what[] = "room for what is to be configured";
    pthread_mutex_lock(&state->lock);
    snprintf(out->name, sizeof out->name, "place-%" PRIu64 ".tmp", ++state->n_temporary);
    pthread_mutex_unlock(&state->lock);
    out->fd = openat(state->scenes_fd, out->name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int why = out->fd < 0 ? errno : posix_fallocate(out->fd, 0, MOST_BYTES);
    if (!why) return true;
    state_leave_place(state, out);
    state_note_failure(state, what, why);
    server_fail(error, CONTACTD_LIMIT_EXCEEDED, "scene", "state-dir",
                "nothing was changed, as the change could not be stored (--state-dir): %s", strerror(why));
    if (error) error->retry_after_ms = RETRY_AFTER_MS;
    return false;
}

void state_leave_place(state *state, state_place *place) {
    if (place->fd < 0) return;
    close(place->fd);
    unlinkat(state->scenes_fd, place->name, 0);
    place->fd = -1;
}

void state_put_settings(state *state, state_place *place, uint64_t key, const char *principal,
                        const ct_scene_settings *settings, uint64_t revision) {
    stored_settings stored = {.key = key, .settings = *settings, .revision = revision};
    snprintf(stored.principal, sizeof stored.principal, "%s", principal);
    char text[MOST_BYTES], name[FILE_NAME], what[64];
    int size = print(&stored, text, sizeof text);
    snprintf(name, sizeof name, "%016" PRIx64, key);
    snprintf(what, sizeof what, "what was configured (scene key %016" PRIx64 ")", key);

    pthread_mutex_lock(&state->writing);
    pthread_mutex_lock(&state->lock);
    const stored_settings *old = find(state, key, principal);
    bool is_newer = !old || old->revision < revision;
    pthread_mutex_unlock(&state->lock);
    int why = 0;
    if (is_newer) {
        why = state_fill_file(state->scenes_fd, place->fd, place->name, name, &(state_part){text, (size_t)size}, 1);
        place->fd = -1;
        pthread_mutex_lock(&state->lock);
        stored.used_ns = state_next_use(state);
        /* A server that goes on keeps it in mind even so. */
        if (!list(state, &stored) && !why) why = ENOMEM;
        if (state->n_settings > STATE_MAX_SCENES) drop_oldest(state);
        pthread_mutex_unlock(&state->lock);
    }
    pthread_mutex_unlock(&state->writing);
    state_leave_place(state, place);
    if (why) state_note_failure(state, what, why);
}

bool state_get_settings(state *state, uint64_t key, const char *principal, ct_scene_settings *out, uint64_t *revision) {
    pthread_mutex_lock(&state->lock);
    const stored_settings *found = find(state, key, principal);
    if (found) {
        *out = found->settings;
        *revision = found->revision;
    }
    pthread_mutex_unlock(&state->lock);
    return found != NULL;
}

void state_drop_settings(state *state, uint64_t key, const char *principal) {
    pthread_mutex_lock(&state->lock);
    const stored_settings *found = find(state, key, principal);
    if (found) take_out(state, (size_t)(found - state->settings));
    pthread_mutex_unlock(&state->lock);
}
