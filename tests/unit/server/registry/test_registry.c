/* The registry: handles, shared meshes and their memory limit, sessions and their leases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu/mesh/adjacency.h"
#include "gpu/methods/voxtree/tree.h"
#include "server/base/clock.h"
#include "server/registry/internal.h"
#include "tests/scenes/shapes.h"

static metrics *counts;

static registry *make(uint64_t mesh_bytes) {
    registry_limits limits = {mesh_bytes, 1 << 30, 3, 2, 4, 1000};
    registry *registry = registry_new(&limits, NULL, counts);
    assert_non_null(registry);
    return registry;
}

static const identity none = {.principal = PRINCIPAL_NONE};

static bool put_as(registry *registry, const identity *who, double size, const char *name, mesh_record *out,
                   server_error *error) {
    struct shape box = shape_box(size, size, size);
    bool good = registry_register_arrays(registry, box.positions, CT_F32, box.n_vertices, box.triangles,
                                         box.n_triangles, name, NULL, who, out, NULL, error);
    shape_free(&box);
    return good;
}

static bool put(registry *registry, double size, const char *name, mesh_record *out, server_error *error) {
    return put_as(registry, &none, size, name, out, error);
}

static void test_slots(void **state) {
    (void)state;
    slots slots = {0};
    int items[200];
    uint64_t handles[200];
    bool stale;
    assert_null(slots_get(&slots, 0, &stale));
    assert_false(stale);
    for (int i = 0; i < 200; i++) assert_int_equal(handles[i] = slots_add(&slots, &items[i]), i + 1);
    assert_ptr_equal(slots_get(&slots, handles[150], NULL), &items[150]);
    slots_remove(&slots, handles[7]);
    slots_remove(&slots, handles[3]);
    assert_null(slots_get(&slots, handles[7], &stale));
    assert_true(stale);
    assert_null(slots_get(&slots, 201, &stale));
    assert_false(stale);
    uint64_t again = slots_add(&slots, &items[0]);
    assert_int_equal(again & 0xffffff, 8); /* the one that was freed first */
    assert_true(again < UINT64_C(1) << 52);
    assert_null(slots_get(&slots, handles[7], &stale));
    assert_true(stale);
    assert_int_equal(slots.used, 199);
    uint32_t at = 0, n = 0;
    while (slots_next(&slots, &at)) n++;
    assert_int_equal(n, 199);
    slots_free(&slots);
}

static void test_meshes_are_shared_by_content(void **state) {
    (void)state;
    registry *registry = make(1 << 20);
    server_error error = {0};
    mesh_record first, second, found;
    assert_true(put(registry, 1, "box", &first, &error));
    assert_false(first.existed);
    assert_string_equal(first.name, "box");
    assert_int_equal(first.info.triangles, 12);
    assert_true(put(registry, 1, "the same", &second, &error));
    assert_true(second.existed);
    assert_int_equal(second.handle, first.handle);
    assert_string_equal(second.name, "box");
    assert_true(registry_find_mesh(registry, first.handle, NULL, NULL, &found, NULL, &error));
    assert_true(registry_find_mesh(registry, 0, first.info.hash, NULL, &found, NULL, &error));
    char prefix[9];
    snprintf(prefix, sizeof prefix, "%.8s", first.info.hash);
    assert_true(registry_find_mesh(registry, 0, prefix, NULL, &found, NULL, &error));
    assert_int_equal(found.handle, first.handle);
    prefix[7] = 0;
    assert_false(registry_find_mesh(registry, 0, prefix, NULL, &found, NULL, &error));
    assert_int_equal(error.code, CONTACTD_INVALID_ARGUMENT);
    registry_totals totals;
    registry_get_totals(registry, &totals);
    assert_int_equal(totals.meshes, 1);
    assert_int_equal(totals.mesh_bytes, first.info.bytes);

    error = (server_error){0};
    assert_true(registry_remove_mesh(registry, first.handle, NULL, &error));
    registry_get_totals(registry, &totals);
    assert_int_equal(totals.meshes, 0);
    assert_int_equal(totals.mesh_bytes, 0);
    assert_false(registry_find_mesh(registry, first.handle, NULL, NULL, NULL, NULL, &error));
    assert_int_equal(error.code, CONTACTD_STALE_HANDLE);
    error = (server_error){0};
    assert_false(registry_find_mesh(registry, 77, NULL, NULL, NULL, NULL, &error));
    assert_int_equal(error.code, CONTACTD_NOT_FOUND);
    assert_string_equal(error.object, "mesh 77");
    registry_free(&registry);
}

static void test_refused_mesh_says_why(void **state) {
    (void)state;
    registry *registry = make(1 << 20);
    server_error error = {0};
    mesh_record out;
    assert_false(registry_register_file(registry, "v 0 0\n", 6, CT_FORMAT_OBJ, "bad", NULL, &none, &out, NULL, &error));
    assert_int_equal(error.code, CONTACTD_PARSE_ERROR);
    assert_string_equal(error.object, "mesh \"bad\"");
    assert_true(strlen(error.message) > 10);
    error = (server_error){0};
    assert_false(registry_register_file(registry, "x", 1, CT_FORMAT_AUTO, "", NULL, &none, &out, NULL, &error));
    assert_string_equal(error.object, "the mesh");
    registry_free(&registry);
}

static void test_memory_limit(void **state) {
    (void)state;
    registry *registry = make(1 << 20);
    server_error error = {0};
    mesh_record a, b, c, d;
    ct_mesh *mesh;
    assert_true(put(registry, 1, "a", &a, &error));
    uint64_t one = a.info.bytes;
    registry_free(&registry);

    registry = make(3 * one);
    assert_true(put(registry, 1, "a", &a, &error));
    assert_true(put(registry, 2, "b", &b, &error));
    assert_true(put(registry, 3, "c", &c, &error));
    mesh_entry *used = mesh_use(registry, a.handle, NULL, &mesh, &error); /* the oldest, but in use */
    assert_non_null(used);
    assert_true(registry_find_mesh(registry, b.handle, NULL, NULL, NULL, NULL, &error)); /* b is now younger than c */
    assert_true(put(registry, 4, "d", &d, &error));
    assert_false(registry_find_mesh(registry, c.handle, NULL, NULL, NULL, NULL, &error));
    assert_int_equal(error.code, CONTACTD_STALE_HANDLE);
    error = (server_error){0};
    assert_true(registry_find_mesh(registry, a.handle, NULL, NULL, NULL, NULL, &error));
    assert_true(registry_find_mesh(registry, b.handle, NULL, NULL, NULL, NULL, &error));
    assert_int_equal(metrics_counter_value(counts, METRICS_MESHES_EVICTED), 1);

    assert_false(registry_remove_mesh(registry, a.handle, NULL, &error));
    assert_int_equal(error.code, CONTACTD_CONFLICT);
    error = (server_error){0};
    mesh_entry *also[2] = {mesh_use(registry, b.handle, NULL, &mesh, &error),
                           mesh_use(registry, d.handle, NULL, &mesh, &error)};
    assert_false(put(registry, 5, "e", &c, &error));
    assert_int_equal(error.code, CONTACTD_LIMIT_EXCEEDED);
    char number[32];
    snprintf(number, sizeof number, "needs %llu", (unsigned long long)one);
    assert_non_null(strstr(error.message, number));
    snprintf(number, sizeof number, "of the %llu", (unsigned long long)(3 * one));
    assert_non_null(strstr(error.message, number));
    registry_totals totals;
    registry_get_totals(registry, &totals);
    assert_int_equal(totals.meshes, 3); /* a refusal evicts nothing */
    mesh_unuse(registry, used);
    mesh_unuse(registry, also[0]);
    mesh_unuse(registry, also[1]);
    registry_free(&registry);

    registry = make(one - 1);
    error = (server_error){0};
    assert_false(put(registry, 1, "a", &a, &error));
    assert_int_equal(error.code, CONTACTD_LIMIT_EXCEEDED);
    registry_free(&registry);
}

/* Three principals of weight 1: each has a sixth of the memory for itself, and half is first come, first served. */
static void test_shares_of_meshes(void **state) {
    (void)state;
    const identity flood = {.principal = 1, .name = "flood", .others_weight = 2},
                   quiet = {.principal = 2, .name = "quiet", .others_weight = 2},
                   third = {.principal = 3, .name = "third", .others_weight = 2};
    registry *registry = make(1 << 20);
    server_error error = {0};
    mesh_record a, mine[2], other;
    ct_mesh *mesh;
    registry_totals totals;
    assert_true(put(registry, 1, "a", &a, &error));
    const uint64_t one = a.info.bytes;
    registry_free(&registry);

    registry = make(12 * one);
    assert_true(put_as(registry, &quiet, 101, "mine", &mine[0], &error));
    assert_true(put_as(registry, &quiet, 102, "mine", &mine[1], &error));
    /* Its own oldest ones make room for a flood's meshes, and those that are kept for others stay. */
    for (int i = 0; i < 30; i++) assert_true(put_as(registry, &flood, 1 + i, "flood", &a, &error));
    registry_get_totals(registry, &totals);
    assert_int_equal(totals.meshes, 2 + 8);
    for (int i = 0; i < 2; i++)
        assert_true(registry_find_mesh(registry, mine[i].handle, NULL, NULL, NULL, NULL, &error));
    /* What the flood has beyond its share goes for others, also where they go beyond theirs. */
    assert_true(put_as(registry, &third, 201, "third", &other, &error));
    assert_true(put_as(registry, &third, 202, "third", &other, &error));
    for (int i = 0; i < 6; i++) assert_true(put_as(registry, &quiet, 103 + i, "mine", &other, &error));
    registry_get_totals(registry, &totals);
    assert_int_equal(totals.mesh_bytes, 12 * one);
    assert_int_equal(shares_used(&registry->mesh_bytes, 1), 2 * one);
    assert_int_equal(shares_used(&registry->mesh_bytes, 3), 2 * one);
    assert_int_equal(shares_used(&registry->mesh_bytes, 2), 8 * one);
    registry_free(&registry);

    /* In use they cannot go: a refusal names the share and the remedy, says that time may help, and evicts nothing. */
    registry = make(12 * one);
    mesh_entry *used[8];
    for (int i = 0; i < 8; i++) {
        assert_true(put_as(registry, &flood, 1 + i, "flood", &a, &error));
        used[i] = mesh_use(registry, a.handle, NULL, &mesh, &error);
    }
    assert_false(put_as(registry, &flood, 99, "flood", &a, &error));
    assert_int_equal(error.code, CONTACTD_LIMIT_EXCEEDED);
    assert_non_null(strstr(error.message, "flood"));
    assert_non_null(strstr(error.message, "--principals"));
    char share[64];
    snprintf(share, sizeof share, "share of --mesh-memory is %llu bytes", (unsigned long long)(2 * one));
    assert_non_null(strstr(error.message, share));
    assert_true(server_error_may_retry(&error));
    error = (server_error){0};
    assert_true(put_as(registry, &quiet, 101, "mine", &mine[0], &error));
    assert_true(put_as(registry, &third, 201, "third", &other, &error));
    for (int i = 0; i < 8; i++) mesh_unuse(registry, used[i]);
    /* A mesh counts for the first of its owners; when that one leaves it, for the next. */
    bool others;
    assert_true(put_as(registry, &third, 101, "mine", &other, &error));
    assert_int_equal(shares_used(&registry->mesh_bytes, 2), one);
    registry_disown_mesh(registry, mine[0].handle, &quiet, &others);
    assert_true(others);
    assert_int_equal(shares_used(&registry->mesh_bytes, 2), 0);
    assert_int_equal(shares_used(&registry->mesh_bytes, 3), 2 * one);
    registry_free(&registry);
}

/* What methods derive from a mesh counts: in its record, in the totals, against the limit; and is gone with it. */
static void test_derived_memory(void **state) {
    (void)state;
    registry *registry = make(1 << 20);
    server_error error = {0};
    mesh_record a, b, *list;
    ct_mesh *mesh;
    size_t n;
    registry_totals totals;
    assert_true(put(registry, 1, "a", &a, &error));
    const uint64_t one = a.info.bytes;
    assert_true(registry_find_mesh(registry, a.handle, NULL, NULL, NULL, &mesh, &error));
    assert_non_null(ct_mesh_adjacency(mesh, NULL));
    registry_get_totals(registry, &totals);
    const uint64_t grown = totals.mesh_bytes;
    assert_true(grown > one + 12 * 36);
    assert_true(registry_find_mesh(registry, a.handle, NULL, NULL, &a, NULL, &error));
    assert_int_equal(a.info.bytes, grown);
    assert_true(registry_list_meshes(registry, &list, &n, &error));
    assert_int_equal(list[0].info.bytes, grown);
    free(list);
    assert_true(put(registry, 1, "again", &a, &error));
    assert_true(a.existed);
    assert_int_equal(a.info.bytes, grown);
    ct_mesh_release(&mesh);
    registry_free(&registry);

    registry = make(grown + one + one / 2);
    assert_true(put(registry, 1, "a", &a, &error));
    mesh_entry *used = mesh_use(registry, a.handle, NULL, &mesh, &error);
    assert_non_null(ct_mesh_adjacency(mesh, NULL));
    assert_true(put(registry, 2, "b", &b, &error)); /* fits; "c" does not, and "b" makes room for it */
    assert_true(put(registry, 3, "c", &b, &error));
    registry_get_totals(registry, &totals);
    assert_int_equal(totals.meshes, 2);
    assert_int_equal(totals.mesh_bytes, grown + one);
    mesh_unuse(registry, used);
    assert_true(registry_remove_mesh(registry, a.handle, NULL, &error));
    registry_get_totals(registry, &totals);
    assert_int_equal(totals.mesh_bytes, one);
    assert_true(registry_remove_mesh(registry, b.handle, NULL, &error));
    registry_get_totals(registry, &totals);
    assert_int_equal(totals.mesh_bytes, 0);
    registry_free(&registry);
}

/* A voxel tree is asked for before it is made, for whoever pays for its mesh: it is refused with the need and the
 * limit, makes unused meshes go but its own, and goes with the last that holds it. */
static void test_voxel_trees(void **state) {
    (void)state;
    enum { LEVEL = 5 };
    const identity one = {.principal = 1, .name = "one", .others_weight = 1};
    registry *registry = make(1 << 24);
    server_error error = {0};
    ct_error why = {0};
    mesh_record a, b;
    ct_mesh *mesh, *other;
    registry_totals totals;
    assert_true(put(registry, 1, "a", &a, &error));
    const uint64_t small = a.info.bytes;
    assert_true(registry_find_mesh(registry, a.handle, NULL, NULL, NULL, &mesh, &error));
    assert_true(ct_voxel_tree_hold(mesh, LEVEL, &why));
    const ct_voxel_tree *made = ct_voxel_tree_of(mesh, LEVEL, NULL);
    registry_get_totals(registry, &totals);
    const uint64_t with_tree = totals.mesh_bytes, of_tree = with_tree - small;
    assert_true(of_tree >= made->bytes && of_tree < made->bytes + 100);
    assert_true(ct_voxel_tree_hold(mesh, LEVEL, &why));
    ct_voxel_tree_drop(mesh, LEVEL);
    assert_ptr_equal(ct_voxel_tree_of(mesh, LEVEL, NULL), made);
    ct_voxel_tree_drop(mesh, LEVEL);
    registry_get_totals(registry, &totals);
    assert_in_range(totals.mesh_bytes, small, small + 100); /* of the tree, its place in the mesh's list stays */
    ct_mesh_release(&mesh);
    registry_free(&registry);

    registry = make(with_tree + of_tree / 2);
    assert_true(put_as(registry, &one, 1, "a", &a, &error));
    assert_true(put_as(registry, &one, 2, "b", &b, &error));
    mesh_entry *uses[2] = {mesh_use(registry, a.handle, NULL, &mesh, &error),
                           mesh_use(registry, b.handle, NULL, &other, &error)};
    assert_true(ct_voxel_tree_hold(mesh, LEVEL, &why));
    assert_in_range(shares_used(&registry->mesh_bytes, 1), with_tree + small, with_tree + small + 100);
    assert_false(ct_voxel_tree_hold(other, LEVEL, &why));
    assert_int_equal(why.status, CT_LIMIT_EXCEEDED);
    assert_string_equal(why.field, "mesh-memory");
    assert_non_null(strstr(why.message, "voxel tree of level 5"));
    assert_non_null(strstr(why.message, " bytes"));
    assert_in_range(shares_used(&registry->mesh_bytes, 1), with_tree + small, with_tree + small + 200);
    mesh_unuse(registry, uses[0]);
    /* The mesh that has a tree goes; the one that asks stays, though no body uses it yet. */
    ct_voxel_tree_drop(mesh, LEVEL);
    mesh_unuse(registry, uses[1]);
    why = (ct_error){0};
    ct_mesh_retain(other);
    assert_true(ct_voxel_tree_hold(other, LEVEL, &why));
    assert_true(registry_find_mesh(registry, b.handle, NULL, NULL, NULL, NULL, &error));
    ct_voxel_tree_drop(other, LEVEL);
    ct_mesh_release(&other);
    registry_free(&registry);
}

static void test_names(void **state) {
    (void)state;
    char name[REGISTRY_NAME];
    registry_copy_name(name, NULL);
    assert_string_equal(name, "");
    registry_copy_name(name, "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    assert_string_equal(name, "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    registry_copy_name(name, "\xff \xc3( \xc0\xaf \xed\xa0\x80 \xe2\x82");
    assert_string_equal(name, "? ?( ?? ??? ??");
    char text[2 * REGISTRY_NAME + 1] = "";
    while (strlen(text) < sizeof text - 3) strcat(text, "\xc3\xa9");
    registry_copy_name(name, text);
    assert_int_equal(strlen(name), REGISTRY_NAME - 2);
}

static bool is_known(registry *registry, uint64_t token, server_error *error) {
    bool had_left;
    return registry_touch_session(registry, token, 0, &had_left, error);
}

static void test_sessions(void **state) {
    (void)state;
    registry *registry = make(1 << 20);
    server_error error = {0};
    session_record all[4];
    const char *long_name = "a name of more than sixty-three bytes, which is cut before the letter \xc3\xa9";
    for (int i = 0; i < 3; i++) assert_true(registry_open_session(registry, long_name, 0, &all[i], &error));
    assert_int_equal(strlen(all[0].client), REGISTRY_NAME - 1);
    assert_int_equal(all[0].lease_ms, 1000);
    assert_true(all[0].token != 0 && all[0].token != all[1].token);
    assert_false(registry_open_session(registry, "one more", 0, &all[3], &error));
    assert_int_equal(error.code, CONTACTD_LIMIT_EXCEEDED);
    error = (server_error){0};
    for (int i = 0; i < 3; i++) assert_true(is_known(registry, all[i].token, &error));
    assert_false(is_known(registry, all[0].token + 1, &error));
    assert_int_equal(error.code, CONTACTD_STATE_LOST);
    error = (server_error){0};
    assert_false(is_known(registry, 0, &error));
    assert_int_equal(error.code, CONTACTD_STATE_LOST);
    registry_free(&registry);
}

static void test_silent_sessions_are_taken_out(void **state) {
    (void)state;
    registry *registry = make(1 << 20);
    server_error error = {0};
    session_record a, b, c;
    session *gone[4];
    const uint64_t before = clock_ns(), ms = 1000000;
    assert_true(registry_open_session(registry, "a", 10, &a, &error));
    assert_true(registry_open_session(registry, "b", 10, &b, &error));
    const uint64_t between = clock_ns();
    assert_true(registry_open_session(registry, "c", 1000, &c, &error));
    session *busy = session_acquire(registry, b.token, &error);
    atomic_store(&busy->pending, 1); /* it waits for an answer: not silent */
    assert_int_equal(registry_take_silent_sessions(registry, before + 9 * ms, gone, 4), 0);
    assert_int_equal(registry_take_silent_sessions(registry, between + 20 * ms, gone, 4), 1);
    assert_int_equal(gone[0]->token, a.token);
    session_release(&gone[0]);
    assert_false(is_known(registry, a.token, &error));
    error = (server_error){0};
    assert_true(is_known(registry, b.token, &error));
    assert_true(is_known(registry, c.token, &error));
    atomic_store(&busy->pending, 0);
    session_release(&busy);
    assert_int_equal(registry_take_silent_sessions(registry, clock_ns() + 2000 * ms, gone, 1), 1);
    session_release(&gone[0]);
    registry_free(&registry);
}

static void test_silence_that_could_not_be_heard_is_excused(void **state) {
    (void)state;
    registry *registry = make(1 << 20);
    server_error error = {0};
    session_record a;
    session *gone[1];
    const uint64_t second = 1000000000;
    assert_true(registry_open_session(registry, "a", 1000, &a, &error));
    const uint64_t begun = clock_ns();
    registry_excuse_silence(registry, 5 * second, begun + 5 * second);
    assert_int_equal(registry_take_silent_sessions(registry, begun + 5 * second + second / 2, gone, 1), 0);
    registry_excuse_silence(registry, 60 * second, begun + 5 * second); /* not into the future */
    assert_int_equal(registry_take_silent_sessions(registry, begun + 7 * second, gone, 1), 1);
    session_release(&gone[0]);
    registry_free(&registry);
}

/* One that left is not waited for until its lease ends, but for what its client could come back to. */
static void test_sessions_that_left_are_taken_out(void **state) {
    (void)state;
    registry_limits limits = {1 << 20, 1 << 20, 3, 2, 1, 60000};
    registry *registry = registry_new(&limits, NULL, counts);
    server_error error = {0};
    session_record a, all, *list;
    session *gone[2], *same;
    size_t n;
    const uint64_t second = 1000000000;
    assert_true(registry_open_session(registry, "a", 0, &a, &error));
    assert_true(registry_open_session(registry, "stays", 0, &all, &error));
    same = session_acquire(registry, a.token, &error);
    atomic_store(&same->heard_ns, clock_ns() - 50 * second);
    assert_int_equal(registry_take_silent_sessions(registry, clock_ns() + 6 * second, gone, 2), 0);
    registry_leave_session(registry, a.token);
    const uint64_t left = clock_ns();
    assert_true(registry_list_sessions(registry, &list, &n, &error));
    assert_true(n == 2 && !list[0].is_connected && list[1].is_connected);
    free(list);
    assert_int_equal(registry_take_silent_sessions(registry, left + 4 * second, gone, 2), 0); /* it may come back */
    assert_true(is_known(registry, a.token, &error));
    assert_int_equal(registry_take_silent_sessions(registry, clock_ns() + 30 * second, gone, 2), 0);
    registry_leave_session(registry, a.token);
    registry_leave_session(registry, a.token); /* told twice, it left once */
    same->scenes = 1;
    assert_int_equal(registry_take_silent_sessions(registry, clock_ns() + 30 * second, gone, 2), 0);
    same->scenes = 0;
    atomic_store(&same->pending, 1);
    assert_int_equal(registry_take_silent_sessions(registry, clock_ns() + 30 * second, gone, 2), 0);
    atomic_store(&same->pending, 0);
    const uint64_t then = clock_ns();
    registry_excuse_silence(registry, 20 * second, then + 20 * second); /* the server was stopped */
    assert_int_equal(registry_take_silent_sessions(registry, then + 22 * second, gone, 2), 0);
    assert_int_equal(registry_take_silent_sessions(registry, then + 26 * second, gone, 2), 1);
    assert_int_equal(gone[0]->token, a.token);
    session_release(&gone[0]);
    session_release(&same);
    assert_true(is_known(registry, all.token, &error));
    registry_free(&registry);
}

/* At the limit the session that is unheard the longest makes room, if it holds nothing and was not heard just now. */
static void test_idle_sessions_make_room(void **state) {
    (void)state;
    registry *registry = make(1 << 20);
    server_error error = {0};
    session_record old[3], fresh, unwanted;
    session *sessions[3];
    for (int i = 0; i < 3; i++) {
        assert_true(registry_open_session(registry, "old", 0, &old[i], &error));
        sessions[i] = session_acquire(registry, old[i].token, &error);
        atomic_store(&sessions[i]->heard_ns, clock_ns() - UINT64_C(1000000000) * (uint64_t)(8 - i));
    }
    sessions[0]->scenes = 1;
    atomic_store(&sessions[1]->pending, 1);
    assert_true(registry_open_session(registry, "fresh", 0, &fresh, &error)); /* in the place of the third */
    assert_int_equal(metrics_counter_value(counts, METRICS_SESSIONS_REAPED), 1);
    assert_false(is_known(registry, old[2].token, &error));
    assert_int_equal(error.code, CONTACTD_STATE_LOST);
    error = (server_error){0};
    session *new = session_acquire(registry, fresh.token, &error);
    atomic_store(&new->heard_ns, clock_ns() + UINT64_C(60000000000)); /* just now, however long this takes */
    session_release(&new);
    assert_false(registry_open_session(registry, "one more", 0, &unwanted, &error)); /* the others are busy, or new */
    assert_int_equal(error.code, CONTACTD_LIMIT_EXCEEDED);
    error = (server_error){0};
    registry_leave_session(registry, fresh.token + 1); /* of no session */
    assert_false(registry_open_session(registry, "one more", 0, &unwanted, &error));
    registry_leave_session(registry, fresh.token);
    assert_true(is_known(registry, fresh.token, &error)); /* it came back */
    assert_false(registry_open_session(registry, "one more", 0, &unwanted, &error));
    error = (server_error){0};
    registry_leave_session(registry, fresh.token);
    assert_true(registry_open_session(registry, "in its place", 0, &fresh, &error));
    sessions[0]->scenes = 0;
    atomic_store(&sessions[1]->pending, 0);
    assert_true(registry_open_session(registry, "one more", 0, &fresh, &error)); /* the longest unheard went */
    assert_false(is_known(registry, old[0].token, &error));
    error = (server_error){0};
    assert_true(is_known(registry, old[1].token, &error));
    for (int i = 0; i < 3; i++) session_release(&sessions[i]);
    registry_free(&registry);
}

/* Opening and losing many: no token is lost when its neighbours in the table go. */
static void test_session_table(void **state) {
    (void)state;
    registry_limits limits = {1 << 20, 1 << 20, 1000, 2, 1, 60000};
    registry *registry = registry_new(&limits, NULL, counts);
    server_error error = {0};
    session_record all[1000];
    session *gone[1000];
    for (int i = 0; i < 1000; i++) {
        assert_true(registry_open_session(registry, "x", i % 3 ? 60000 : 1, &all[i], &error));
    }
    assert_int_equal(registry_take_silent_sessions(registry, clock_ns() + 100000000, gone, 1000), 334);
    for (int i = 0; i < 334; i++) session_release(&gone[i]);
    for (int i = 0; i < 1000; i++) {
        server_error lost = {0};
        assert_int_equal(is_known(registry, all[i].token, &lost), i % 3 != 0);
    }
    registry_free(&registry);
}

static int setup(void **state) {
    (void)state;
    counts = metrics_new();
    return counts ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    metrics_free(&counts);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_names),
        cmocka_unit_test_setup_teardown(test_meshes_are_shared_by_content, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_mesh_says_why, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shares_of_meshes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_derived_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_voxel_trees, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sessions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silent_sessions_are_taken_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silence_that_could_not_be_heard_is_excused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sessions_that_left_are_taken_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_idle_sessions_make_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_session_table, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
