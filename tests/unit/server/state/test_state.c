/* The state folder: what was put is there again, for every damage of a byte or a length something is said and nothing
 * false is given, and meshes make room in the order of their use. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/base/log.h"
#include "server/state/state.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

static char folder[64];
static metrics *counts;
static int n_refused; /* files that a disk with a quota does not take yet */

int fsync(int fd) {
    if (n_refused == 0) return fdatasync(fd);
    n_refused--;
    errno = EDQUOT;
    return -1;
}

static int set_up(void **unused) {
    (void)unused;
    snprintf(folder, sizeof folder, "/tmp/contactd-state-XXXXXX");
    counts = metrics_new();
    char message[256];
    log_open("text", "error", "/dev/null", message, sizeof message); /* hundreds of files are damaged */
    return mkdtemp(folder) && counts ? 0 : -1;
}

static void remove_all(const char *path) {
    DIR *list = opendir(path);
    for (struct dirent *entry; list && (entry = readdir(list));) {
        char inner[512];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (remove(inner) != 0) remove_all(inner);
    }
    if (list) closedir(list);
    remove(path);
}

static int tear_down(void **unused) {
    (void)unused;
    remove_all(folder);
    metrics_free(&counts);
    log_close();
    return 0;
}

static state *open_state(uint64_t max_bytes) {
    state *state;
    server_error error = {0};
    if (!state_open(&state, folder, max_bytes, counts, &error)) fail_msg("%s", error.message);
    return state;
}

static void put_settings(state *state, uint64_t key, const char *principal, const ct_scene_settings *settings,
                         uint64_t revision) {
    state_place place;
    server_error error = {0};
    if (!state_take_place(state, &place, &error)) fail_msg("%s", error.message);
    state_put_settings(state, &place, key, principal, settings, revision);
    assert_int_equal(place.fd, -1);
}

static uint64_t counted(metrics_counter which) {
    return metrics_counter_value(counts, which);
}

/* A box of this size, stored; its hash. */
static void put_box(state *state, double size, ct_dtype dtype, char hash[STATE_HASH]) {
    struct shape box = shape_box(size, size, size);
    double positions[3 * 64];
    ct_mesh *mesh;
    ct_mesh_info info;
    assert_true(box.n_vertices <= 64);
    for (size_t i = 0; i < 3 * box.n_vertices; i++) positions[i] = (double)box.positions[i] * (1 + 1e-12);
    const void *given = dtype == CT_F64 ? (const void *)positions : box.positions;
    assert_int_equal(ct_mesh_create(given, dtype, box.n_vertices, box.triangles, box.n_triangles, NULL, &mesh, NULL),
                     CT_OK);
    ct_mesh_get_info(mesh, &info);
    ct_mesh_release(&mesh);
    memcpy(hash, info.hash, STATE_HASH);
    state_put_mesh(state, hash,
                   &(state_source){.name = "box",
                                   .positions = given,
                                   .dtype = dtype,
                                   .n_vertices = box.n_vertices,
                                   .triangles = box.triangles,
                                   .n_triangles = box.n_triangles});
    shape_free(&box);
}

static bool get(state *state, const char *hash) {
    ct_mesh *mesh;
    char name[STATE_NAME];
    server_error error = {0};
    if (!state_get_mesh(state, hash, &mesh, name, &error)) {
        assert_int_equal(error.code, CONTACTD_NOT_FOUND);
        return false;
    }
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    assert_string_equal(info.hash, hash);
    ct_mesh_release(&mesh);
    return true;
}

static void meshes_are_there_again(void **unused) {
    (void)unused;
    char of_floats[STATE_HASH], of_doubles[STATE_HASH], of_file[STATE_HASH] = "";
    static const char off[] = "OFF\n4 4 6\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 2 1\n3 0 1 3\n3 0 3 2\n3 1 2 3\n";
    state *state = open_state(1 << 20);
    put_box(state, 1, CT_F32, of_floats);
    put_box(state, 3, CT_F64, of_doubles);
    ct_mesh *mesh;
    ct_mesh_info info;
    assert_int_equal(ct_mesh_read(off, sizeof off - 1, CT_FORMAT_AUTO, NULL, &mesh, NULL), CT_OK);
    ct_mesh_get_info(mesh, &info);
    ct_mesh_release(&mesh);
    memcpy(of_file, info.hash, sizeof of_file);
    state_put_mesh(state, of_file, &(state_source){.name = "a\nname", .file = off, .size = sizeof off - 1});
    state_put_owners(state, of_file, (state_owner[]){"lab-7", "alice"}, 2);
    for (int round = 0; round < 2; round++) {
        state_owner *owners;
        size_t n;
        assert_true(get(state, of_floats) && get(state, of_doubles) && get(state, of_file));
        assert_false(state_has_mesh(state, "0123456789abcdef0123456789abcdef"));
        state_get_owners(state, of_file, &owners, &n);
        assert_int_equal(n, 2);
        assert_string_equal(owners[0], "lab-7");
        assert_string_equal(owners[1], "alice");
        free(owners);
        state_get_owners(state, of_floats, &owners, &n);
        assert_int_equal(n, 0);
        free(owners);
        state_close(&state);
        state = open_state(1 << 20);
    }
    state_drop_mesh(state, of_file);
    assert_false(get(state, of_file));
    state_facts facts;
    state_get_facts(state, &facts);
    assert_int_equal(facts.meshes, 2);
    state_close(&state);
    assert_int_equal(counted(METRICS_STATE_DAMAGED), 0);
}

static size_t read_bytes(const char *path, char *bytes, size_t size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(bytes, 1, size, file);
    fclose(file);
    return n;
}

static void write_bytes(const char *path, const char *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

enum { HEADER = 112, CHECKSUM = 32 };

/* A mesh whose file has other bytes is never given: each changed bit is found, and each other length. */
static void damage_is_found(void **unused) {
    (void)unused;
    char hash[STATE_HASH], path[160], aside[168], bytes[2048], changed[2048];
    state *state = open_state(1 << 20);
    put_box(state, 1, CT_F32, hash);
    snprintf(path, sizeof path, "%s/meshes/%s", folder, hash);
    snprintf(aside, sizeof aside, "%s.damaged", path);
    size_t size = read_bytes(path, bytes, sizeof bytes);
    assert_true(size > HEADER + CHECKSUM && size < sizeof bytes);
    uint64_t found = 0;
    for (size_t i = 0; i < 2 * size; i += i % size < HEADER ? 1 : 13) { /* one bit changed, or the file cut there */
        size_t at = i % size;
        bool is_cut = i >= size;
        memcpy(changed, bytes, size);
        changed[at] ^= (char)(1 << at % 8);
        state_close(&state);
        write_bytes(path, is_cut ? bytes : changed, is_cut ? at : size);
        state = open_state(1 << 20);
        if (get(state, hash)) fail_msg("byte %zu, %s", at, is_cut ? "cut" : "changed");
        found++;
        assert_int_equal(access(aside, F_OK), 0);
        assert_false(state_has_mesh(state, hash));
    }
    assert_int_equal(counted(METRICS_STATE_DAMAGED), found);
    state_close(&state);
}

/* A mesh that is put while its file is damaged is stored anew, and one that is sound stays as it is. */
static void damage_is_mended(void **unused) {
    (void)unused;
    char hash[STATE_HASH], path[160], bytes[2048], again[2048];
    state *state = open_state(1 << 20);
    put_box(state, 1, CT_F32, hash);
    snprintf(path, sizeof path, "%s/meshes/%s", folder, hash);
    const size_t size = read_bytes(path, bytes, sizeof bytes);
    for (uint64_t damaged = 0; damaged < 3; damaged++) { /* a cut file, a changed one, a sound one */
        state_close(&state);
        bytes[size - 1] ^= damaged == 1;
        write_bytes(path, bytes, damaged ? size : size / 2);
        bytes[size - 1] ^= damaged == 1;
        state = open_state(1 << 20);
        put_box(state, 1, CT_F32, hash);
        assert_int_equal(read_bytes(path, again, sizeof again), size);
        assert_same_bytes(again, bytes, size);
        assert_int_equal(counted(METRICS_STATE_DAMAGED), damaged < 2 ? damaged + 1 : 2);
        state_close(&state);
        state = open_state(1 << 20);
        assert_true(get(state, hash));
    }
    state_close(&state);
}

/* Files of versions 1 and 2, which have no checksum. */
static void old_files_are_read(void **unused) {
    (void)unused;
    char hash[STATE_HASH], path[160], bytes[2048], old[2048];
    state *state = open_state(1 << 20);
    put_box(state, 1, CT_F32, hash);
    state_close(&state);
    snprintf(path, sizeof path, "%s/meshes/%s", folder, hash);
    size_t size = read_bytes(path, bytes, sizeof bytes);
    for (int version = 1; version <= 3; version++) {
        memcpy(old, bytes, HEADER);
        memcpy(old + HEADER, bytes + HEADER + CHECKSUM, size - HEADER - CHECKSUM);
        old[14] = (char)('0' + version);
        write_bytes(path, old, size - CHECKSUM);
        state = open_state(1 << 20);
        assert_int_equal(get(state, hash), version == 1); /* 2 has a direction, 3 a checksum */
        state_close(&state);
        write_bytes(path, bytes, size);
    }
}

static const char *in_use;

static bool is_used(void *context, const char *hash) {
    assert_ptr_equal(context, &in_use);
    return in_use && strcmp(in_use, hash) == 0;
}

static void the_oldest_unused_make_room(void **unused) {
    (void)unused;
    char hashes[6][STATE_HASH];
    state_facts facts;
    state *state = open_state(1 << 20);
    put_box(state, 1, CT_F32, hashes[0]);
    state_get_facts(state, &facts);
    state_close(&state);
    const uint64_t room = 3 * facts.bytes + 10;
    state = open_state(room);
    state_set_users(state, is_used, &in_use);
    put_box(state, 2, CT_F32, hashes[1]);
    put_box(state, 3, CT_F32, hashes[2]);
    in_use = hashes[1];
    assert_true(get(state, hashes[0])); /* used last */
    put_box(state, 4, CT_F32, hashes[3]);
    assert_true(state_has_mesh(state, hashes[0]) && state_has_mesh(state, hashes[1]));
    assert_false(state_has_mesh(state, hashes[2]));
    put_box(state, 5, CT_F32, hashes[4]);
    assert_false(state_has_mesh(state, hashes[0]));
    state_get_facts(state, &facts);
    assert_int_equal(facts.meshes, 3);
    assert_true(facts.bytes <= room);
    state_close(&state);
    /* The order outlives the server, and what was damaged goes first. */
    char path[160];
    snprintf(path, sizeof path, "%s/meshes/%s", folder, hashes[4]);
    write_bytes(path, "x", 1);
    state = open_state(room);
    assert_false(get(state, hashes[4]));
    put_box(state, 6, CT_F32, hashes[5]);
    put_box(state, 3, CT_F32, hashes[2]);
    assert_false(state_has_mesh(state, hashes[1]));
    assert_true(state_has_mesh(state, hashes[3]) && state_has_mesh(state, hashes[5]));
    state_close(&state);
    assert_int_equal(counted(METRICS_STATE_FAILURES), 0);
    /* One that alone is too large is not kept, and that is counted. */
    state = open_state(50);
    state_get_facts(state, &facts);
    assert_int_equal(facts.meshes, 0);
    put_box(state, 1, CT_F32, hashes[0]);
    assert_false(state_has_mesh(state, hashes[0]));
    assert_int_equal(counted(METRICS_STATE_FAILURES), 1);
    state_close(&state);
}

/* One for which even all unused meshes would not make room drives none out. */
static void none_goes_in_vain(void **unused) {
    (void)unused;
    char hashes[3][STATE_HASH];
    static const char large[900];
    state_facts facts;
    state *state = open_state(1 << 20);
    for (int i = 0; i < 3; i++) put_box(state, 1 + i, CT_F32, hashes[i]);
    state_get_facts(state, &facts);
    state_close(&state);
    assert_true(facts.bytes > sizeof large && facts.bytes * 2 / 3 < sizeof large);
    state = open_state(facts.bytes + 10);
    in_use = hashes[1];
    state_set_users(state, is_used, &in_use);
    state_put_mesh(state, "0123456789abcdef0123456789abcdef",
                   &(state_source){.name = "large", .file = large, .size = sizeof large});
    assert_int_equal(counted(METRICS_STATE_FAILURES), 1);
    for (int i = 0; i < 3; i++) assert_true(state_has_mesh(state, hashes[i]));
    state_close(&state);
}

/* What keeps a sound mesh from being read now says nothing against its file. */
static void a_sound_mesh_stays(void **unused) {
    (void)unused;
    char hash[STATE_HASH], name[STATE_NAME];
    ct_mesh *mesh;
    server_error error = {0};
    state *state = open_state(1 << 20);
    put_box(state, 1, CT_F32, hash);
    ct_cancel cancel;
    ct_cancel_init(&cancel, 0);
    cancel.until = 1e-9; /* its time has passed */
    ct_cancel_scope(&cancel);
    assert_false(state_get_mesh(state, hash, &mesh, name, &error));
    assert_int_equal(error.code, CONTACTD_TIME_LIMIT);
    ct_cancel_init(&cancel, 0);
    ct_cancel_request(&cancel, CT_CANCEL_CALLER); /* the server ends */
    server_clear(&error);
    assert_false(state_get_mesh(state, hash, &mesh, name, &error));
    assert_int_equal(error.code, CONTACTD_SHUTTING_DOWN);
    ct_cancel_scope(NULL);
    struct rlimit files, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = files.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    server_clear(&error);
    const bool is_read = state_get_mesh(state, hash, &mesh, name, &error);
    put_box(state, 1, CT_F32, hash);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_false(is_read);
    assert_int_equal(error.code, CONTACTD_OUT_OF_MEMORY);
    assert_non_null(strstr(error.message, "Too many open files"));
    assert_true(get(state, hash));
    assert_int_equal(counted(METRICS_STATE_DAMAGED), 0);
    state_close(&state);
}

/* Where the clock goes back, what was used last still is what was used last. */
static void the_order_outlives_the_clock(void **unused) {
    (void)unused;
    char hashes[4][STATE_HASH], path[256];
    state_facts facts;
    state *state = open_state(1 << 20);
    for (int i = 0; i < 2; i++) put_box(state, 1 + i, CT_F32, hashes[i]);
    state_get_facts(state, &facts);
    state_close(&state);
    const uint64_t room = facts.bytes * 3 / 2 + 10; /* three */
    const time_t years[] = {-1, (time_t)1 << 40};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/meshes/%s", folder, hashes[i]);
        const struct timespec then = {.tv_sec = years[i]};
        assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){then, then}, 0), 0);
    }
    state = open_state(room);
    assert_true(get(state, hashes[0]));
    put_box(state, 3, CT_F32, hashes[2]);
    put_box(state, 4, CT_F32, hashes[3]);
    assert_false(state_has_mesh(state, hashes[1])); /* of the year 36812 */
    state_close(&state);
    state = open_state(room);
    put_box(state, 2, CT_F32, hashes[1]);
    assert_false(state_has_mesh(state, hashes[0]));
    assert_true(state_has_mesh(state, hashes[2]) && state_has_mesh(state, hashes[3]));
    state_close(&state);
}

/* A user's part of a disk is a limit as the disk's size is. */
static void a_quota_makes_old_meshes_go(void **unused) {
    (void)unused;
    char hashes[4][STATE_HASH];
    state *state = open_state(1 << 20);
    for (int i = 0; i < 3; i++) put_box(state, 1 + i, CT_F32, hashes[i]);
    n_refused = 2;
    put_box(state, 4, CT_F32, hashes[3]);
    n_refused = 0;
    assert_false(state_has_mesh(state, hashes[0]) || state_has_mesh(state, hashes[1]));
    assert_true(state_has_mesh(state, hashes[2]) && get(state, hashes[3]));
    assert_int_equal(counted(METRICS_STATE_FAILURES), 0);
    state_close(&state);
}

/* The list of a mesh's owners goes with it, also where the server ended in between. */
static void owners_go_with_their_mesh(void **unused) {
    (void)unused;
    char hash[STATE_HASH], gone[STATE_HASH], path[160], owners[168], other[168];
    state *state = open_state(1 << 20);
    put_box(state, 1, CT_F32, hash);
    put_box(state, 2, CT_F32, gone);
    state_put_owners(state, hash, (state_owner[]){"lab"}, 1);
    state_put_owners(state, gone, (state_owner[]){"lab"}, 1);
    state_close(&state);
    snprintf(path, sizeof path, "%s/meshes/%s", folder, gone);
    snprintf(other, sizeof other, "%s.owners", path);
    assert_int_equal(unlink(path), 0);
    state = open_state(1 << 20);
    assert_int_not_equal(access(other, F_OK), 0);
    snprintf(path, sizeof path, "%s/meshes/%s", folder, hash);
    snprintf(owners, sizeof owners, "%s.owners", path);
    write_bytes(path, "x", 1);
    assert_false(get(state, hash));
    assert_int_equal(access(owners, F_OK), 0); /* of the one that is registered again */
    state_close(&state);
    state = open_state(1);
    state_close(&state);
    assert_int_equal(access(owners, F_OK), 0);
    state = open_state(0);
    assert_int_not_equal(access(owners, F_OK), 0); /* the damaged one has made room */
    /* One that somebody removed is not damaged. */
    state_close(&state);
    state = open_state(1 << 20);
    put_box(state, 1, CT_F32, hash);
    assert_int_equal(unlink(path), 0);
    assert_false(get(state, hash));
    state_facts facts;
    state_get_facts(state, &facts);
    assert_true(facts.meshes == 0 && facts.bytes == 0);
    put_box(state, 1, CT_F32, hash);
    assert_true(get(state, hash));
    state_close(&state);
}

static bool same_settings(const ct_scene_settings *a, const ct_scene_settings *b) {
    return a->method == b->method && memcmp(a->resolution, b->resolution, sizeof a->resolution) == 0 &&
           a->pixel_size == b->pixel_size && a->stiffness == b->stiffness && a->patches == b->patches &&
           a->tolerance == b->tolerance && a->tolerance_rel == b->tolerance_rel && a->strict == b->strict &&
           a->ray_budget == b->ray_budget && a->cell_size == b->cell_size && a->margin == b->margin &&
           a->max_step_time == b->max_step_time && a->voxel_level == b->voxel_level && a->level == b->level &&
           a->pair_budget == b->pair_budget && a->max_points == b->max_points &&
           a->center_normals == b->center_normals && a->plain_average == b->plain_average && a->refine == b->refine &&
           a->optimize_directions == b->optimize_directions && a->allocation == b->allocation;
}

static void settings_are_there_again(void **unused) {
    (void)unused;
    const uint64_t key = 0xfedcba9876543210;
    ct_scene_settings settings, found;
    uint64_t revision;
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_LDI;
    settings.resolution[0] = 5, settings.resolution[1] = 6, settings.resolution[2] = 7;
    settings.pixel_size = 0.1;
    settings.stiffness = 1e300 / 3;
    settings.tolerance = 1e-9;
    settings.tolerance_rel = 0.125;
    settings.strict = settings.optimize_directions = true;
    settings.allocation = CT_ALLOCATION_PER_PIXEL;
    settings.ray_budget = UINT64_MAX;
    settings.patches = true;
    settings.cell_size = 0.7;
    settings.margin = 0.01;
    settings.max_step_time = 0.3;
    settings.voxel_level = 7;
    settings.level = 6;
    settings.pair_budget = 1ull << 40;
    settings.max_points = 5;
    settings.center_normals = settings.plain_average = settings.refine = true;
    state *state = open_state(1 << 20);
    put_settings(state, key, "lab 7", &settings, 4);
    settings.stiffness = 2;
    put_settings(state, key, "lab 7", &settings, 3); /* older */
    put_settings(state, 1, "", &settings, UINT64_MAX);
    settings.stiffness = 1e300 / 3;
    for (int round = 0; round < 2; round++) {
        assert_true(state_get_settings(state, key, "lab 7", &found, &revision));
        assert_true(same_settings(&found, &settings));
        assert_int_equal(revision, 4);
        assert_false(state_get_settings(state, key, "", &found, &revision));
        assert_false(state_get_settings(state, key, "lab 8", &found, &revision));
        assert_true(state_get_settings(state, 1, "", &found, &revision));
        assert_true(revision == UINT64_MAX);
        state_close(&state);
        state = open_state(1 << 20);
    }
    state_drop_settings(state, key, "lab 8");
    assert_true(state_get_settings(state, key, "lab 7", &found, &revision));
    state_drop_settings(state, key, "lab 7");
    assert_false(state_get_settings(state, key, "lab 7", &found, &revision));
    state_close(&state);
    state = open_state(1 << 20);
    assert_false(state_get_settings(state, key, "lab 7", &found, &revision));
    assert_true(state_get_settings(state, 1, "", &found, &revision));
    state_close(&state);
    assert_int_equal(counted(METRICS_STATE_DAMAGED), 0);
}

/* A place that is taken and left leaves nothing behind, and a server that ended in between leaves nothing for the next.
 */
static void places_are_left(void **unused) {
    (void)unused;
    state_place first, second;
    server_error error = {0};
    char path[160];
    state *state = open_state(1 << 20);
    assert_true(state_take_place(state, &first, &error) && state_take_place(state, &second, &error));
    snprintf(path, sizeof path, "%s/scenes/%s", folder, first.name);
    assert_int_equal(access(path, F_OK), 0);
    state_leave_place(state, &first);
    state_leave_place(state, &first); /* none any more */
    assert_int_not_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/scenes/%s", folder, second.name);
    assert_int_equal(access(path, F_OK), 0);
    state_close(&state);
    close(second.fd);
    state = open_state(1 << 20);
    assert_int_not_equal(access(path, F_OK), 0);
    state_close(&state);
}

/* Each cut file, and each with a byte made unlikely. */
static void damaged_settings_are_found(void **unused) {
    (void)unused;
    ct_scene_settings settings, found;
    uint64_t revision;
    char path[160], bytes[4096];
    ct_scene_settings_init(&settings);
    state *state = open_state(1 << 20);
    put_settings(state, 7, "p", &settings, 1);
    state_close(&state);
    snprintf(path, sizeof path, "%s/scenes/%016d", folder, 7);
    size_t size = read_bytes(path, bytes, sizeof bytes), n = 0;
    for (size_t at = 0; at < size; at++) {
        char changed[4096];
        memcpy(changed, bytes, size);
        changed[at] = '?';
        write_bytes(path, at % 2 ? changed : bytes, at % 2 ? size : at);
        state = open_state(1 << 20);
        bool is_principal = at % 2 && changed[at] != bytes[at] && state_get_settings(state, 7, "?", &found, &revision);
        assert_false(state_get_settings(state, 7, "p", &found, &revision));
        n += !is_principal;
        state_close(&state);
    }
    assert_int_equal(counted(METRICS_STATE_DAMAGED), n);
    assert_true(n >= size - 1);
}

/* Settings that this server cannot read are left for one that can. */
static void unreadable_settings_stay(void **unused) {
    (void)unused;
    ct_scene_settings settings, found;
    uint64_t revision;
    char path[160], aside[168];
    ct_scene_settings_init(&settings);
    state *state = open_state(1 << 20);
    put_settings(state, 7, "p", &settings, 3);
    state_close(&state);
    snprintf(path, sizeof path, "%s/scenes/%016d", folder, 7);
    snprintf(aside, sizeof aside, "%s/elsewhere", folder);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(symlink(aside, path), 0); /* links are not followed; nobody keeps root from reading a file */
    for (int round = 0; round < 2; round++) {
        state = open_state(1 << 20);
        assert_false(state_get_settings(state, 7, "p", &found, &revision));
        state_close(&state);
    }
    assert_int_equal(counted(METRICS_STATE_DAMAGED), 0);
    assert_int_equal(counted(METRICS_STATE_FAILURES), 2);
    assert_int_equal(rename(aside, path), 0);
    state = open_state(1 << 20);
    assert_true(state_get_settings(state, 7, "p", &found, &revision));
    state_close(&state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(meshes_are_there_again),
        TEST(damage_is_found),
        TEST(old_files_are_read),
        TEST(places_are_left),
        TEST(the_oldest_unused_make_room),
        TEST(settings_are_there_again),
        TEST(damaged_settings_are_found),
        TEST(damage_is_mended),
        TEST(none_goes_in_vain),
        TEST(a_sound_mesh_stays),
        TEST(the_order_outlives_the_clock),
        TEST(a_quota_makes_old_meshes_go),
        TEST(owners_go_with_their_mesh),
        TEST(unreadable_settings_stay),
    };
    return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
