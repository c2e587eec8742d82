/* test_no_memory.c - each allocation of the C client fails once, over a session's script: the call in which it does
 * ends with OUT_OF_MEMORY or goes well, its error says so, nothing leaks, and the same client then does everything.
 *
 * The linker puts __wrap_malloc and its like in the place of those that the program's own objects call (Makefile). Only
 * the test's own thread counts, and only within the script, so the server and libraries always get memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <zmq.h>

#include "client_c/contactd.h"
#include "tests/unit/client_c/fake_server.h"

/* ---- allocations ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

static _Thread_local struct {
    bool counts;
    uint64_t done;  /* allocations since counting began */
    uint64_t fails; /* this one of them; 0: none */
} allocations;

static bool may_allocate(void) {
    if (!allocations.counts || ++allocations.done != allocations.fails) return true;
    errno = ENOMEM;
    return false;
}

void *__wrap_malloc(size_t size) {
    return may_allocate() ? __real_malloc(size) : NULL;
}
void *__wrap_calloc(size_t n, size_t size) {
    return may_allocate() ? __real_calloc(n, size) : NULL;
}
void *__wrap_realloc(void *old, size_t size) {
    return may_allocate() ? __real_realloc(old, size) : NULL;
}

int __real_zmq_msg_init_size(zmq_msg_t *message, size_t size);
int __wrap_zmq_msg_init_size(zmq_msg_t *message, size_t size);
/* Of a frame, which the library allocates. */
int __wrap_zmq_msg_init_size(zmq_msg_t *message, size_t size) {
    return may_allocate() ? __real_zmq_msg_init_size(message, size) : -1;
}

static bool has_failed(void) {
    return allocations.fails && allocations.done >= allocations.fails;
}

/* ---- the script ---- */

static const float positions[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
static const uint32_t triangles[12] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3};
static const char off_file[] = "OFF\n4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 3\n3 0 2 1\n3 0 1 3\n3 0 3 2\n3 1 2 3\n";

enum { N_LARGE = 8000 }; /* so that positions go in a frame of their own */
static double large_positions[3 * N_LARGE];

typedef struct script {
    const fake_server *server;
    contactd_client *client;
    bool is_whole; /* every call so far went well */
    bool has_told; /* OUT_OF_MEMORY was told of */
} script;

/* failed_before: whether the allocation had failed before this call. False: the call failed. */
static bool check(script *s, bool failed_before, contactd_code code, const contactd_error *error, const char *call) {
    if (code == CONTACTD_OK) return true;
    s->is_whole = false;
    if (!error->message[0]) fail_msg("%s: no message", call);
    if (!has_failed()) fail_msg("%s failed without a reason: %s: %s", call, contactd_code_name(code), error->message);
    if (!failed_before && code != CONTACTD_OUT_OF_MEMORY)
        fail_msg("%s: %s instead of OUT_OF_MEMORY: %s", call, contactd_code_name(code), error->message);
    s->has_told = s->has_told || code == CONTACTD_OUT_OF_MEMORY;
    return false;
}

/* Makes the call, unless an earlier one that it needs failed. */
#define DO(call)                                                                                                       \
    do {                                                                                                               \
        bool before = has_failed();                                                                                    \
        contactd_code code = (call);                                                                                   \
        check(s, before, code, contactd_last_error(s->client), #call);                                                 \
    } while (0)

static void connect_script(script *s) {
    contactd_options options;
    contactd_error error = {0};
    contactd_options_init(&options);
    options.server = s->server->endpoint;
    options.name = "test";
    options.timeout_ms = 60000;
    contactd_code code = contactd_connect(&options, &s->client, &error);
    check(s, false, code, &error, "contactd_connect");
    assert_true((code == CONTACTD_OK) == (s->client != NULL));
}

static void run_meshes(script *s, contactd_mesh *mesh, contactd_mesh *other) {
    contactd_mesh_info info;
    contactd_geometry geometry;
    const contactd_mesh_info *list;
    contactd_mesh third;
    size_t n;
    DO(contactd_register_mesh(s->client, "tetra", positions, 4, triangles, 4, mesh));
    DO(contactd_register_mesh_f64(s->client, "large", large_positions, N_LARGE, triangles, 4, other));
    DO(contactd_register_mesh_bytes(s->client, "file", off_file, sizeof off_file - 1, CONTACTD_FORMAT_OFF, &third));
    if (!s->is_whole) return;
    char hash[33] = "";
    DO(contactd_get_mesh_info(s->client, *mesh, &info));
    if (s->is_whole) snprintf(hash, sizeof hash, "%s", info.hash);
    DO(contactd_get_mesh_geometry(s->client, *mesh, &geometry));
    DO(contactd_list_meshes(s->client, &list, &n));
    if (s->is_whole) DO(contactd_find_mesh(s->client, hash, &info));
    DO(contactd_forget_mesh(s->client, third));
}

static void run_steps(script *s, contactd_scene scene, contactd_body soft, contactd_body hard) {
    enum { N = 3 };
    const double pose[12] = {1, 0, 0, 0.25, 0, 1, 0, 0, 0, 0, 1, 0};
    contactd_update updates[2] = {contactd_deform(soft, positions, 4), contactd_move(hard, pose)};
    const contactd_result *result;
    contactd_ticket tickets[N] = {0};
    contactd_step_options options;
    contactd_step_options_init(&options);
    options.want = CONTACTD_WANT_ALL;
    DO(contactd_step(s->client, scene, updates, 2, &options, &result));
    for (int i = 0; i < N; i++) DO(contactd_step_submit(s->client, scene, updates, 2, NULL, &tickets[i]));
    for (int i = 0; i < N; i++)
        if (tickets[i]) DO(contactd_step_wait(s->client, tickets[i], &result));
}

static void run_many(script *s, contactd_scene scene, contactd_body soft, contactd_body hard) {
    const double pose[12] = {1, 0, 0, 0.25, 0, 1, 0, 0, 0, 0, 1, 0};
    contactd_many_result *result = NULL;
    contactd_many many;
    contactd_many_init(&many);
    many.scenes = &scene;
    many.posed = &hard;
    many.soft = &soft;
    many.n_scenes = many.n_posed = many.n_soft = 1;
    many.poses = pose;
    many.positions = positions;
    many.n_positions = 4;
    for (int i = 0; i < 2; i++) DO(contactd_step_many(s->client, &many, &result));
    contactd_many_result_free(&result);
    contactd_body added[2];
    const contactd_mesh alike = 1;
    const double poses[2][12] = {{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}};
    DO(contactd_add_bodies(s->client, scene, &alike, 1, poses, 2, NULL, added));
    contactd_scene copies[2] = {0};
    DO(contactd_copy_scene(s->client, scene, 2, copies));
    DO(contactd_reset_scenes(s->client, &scene, 1));
    if (copies[0]) DO(contactd_close_scenes(s->client, copies, 2));
}

static void run_large_step(script *s, contactd_scene scene, contactd_body body) {
    contactd_update update = {
        .body = body, .kind = CONTACTD_POSITIONS, .positions = large_positions, .float64 = true, .count = N_LARGE};
    const contactd_result *result;
    DO(contactd_step(s->client, scene, &update, 1, NULL, &result));
}

static void run_scene(script *s, contactd_mesh mesh, contactd_mesh other) {
    contactd_scene scene;
    contactd_body soft, hard;
    contactd_body_options rigid;
    contactd_settings settings;
    contactd_scene_info info;
    const contactd_scene_info *list;
    const char *json;
    const void *png;
    size_t n;
    contactd_body_options_init(&rigid);
    contactd_settings_init(&settings);
    settings.resolution[0] = settings.resolution[1] = settings.resolution[2] = 8;
    rigid.rigid = true;
    DO(contactd_open_scene(s->client, "scene", NULL, &scene));
    if (!s->is_whole) return;
    DO(contactd_add_body(s->client, scene, mesh, NULL, &soft));
    DO(contactd_add_body(s->client, scene, mesh, &rigid, &hard));
    DO(contactd_configure(s->client, scene, &settings));
    if (s->is_whole) run_steps(s, scene, soft, hard);
    if (s->is_whole) run_many(s, scene, soft, hard);
    DO(contactd_get_scene_info(s->client, scene, &info));
    DO(contactd_list_scenes(s->client, &list, &n));
    DO(contactd_snapshot(s->client, scene, NULL, &png, &n));
    DO(contactd_get_report(s->client, CONTACTD_REPORT_SESSIONS, 0, &json, &n));
    DO(contactd_drain(s->client));
    if (s->is_whole) DO(contactd_replace_mesh(s->client, scene, soft, other));
    if (s->is_whole) DO(contactd_set_material(s->client, scene, soft, hard, &(ct_material){1e6, 0.5, 0, 0.5}));
    if (s->is_whole) run_large_step(s, scene, soft);
    if (s->is_whole) DO(contactd_remove_body(s->client, scene, hard));
    DO(contactd_close_scene(s->client, scene));
}

static void run_script(script *s) {
    contactd_status status;
    contactd_mesh mesh, other;
    if (!s->client) connect_script(s);
    if (!s->client) return;
    DO(contactd_ping(s->client, NULL));
    DO(contactd_get_status(s->client, &status));
    run_meshes(s, &mesh, &other);
    if (s->is_whole) run_scene(s, mesh, other);
}

/* Allocation n of the script fails. False: the script makes fewer. */
static bool run_failing(uint64_t n) {
    fake_server *server = fake_start();
    script failing = {.server = server, .is_whole = true};
    allocations.done = 0;
    allocations.fails = n;
    allocations.counts = true;
    run_script(&failing);
    allocations.counts = false;
    bool failed = has_failed();
    if (!failing.is_whole) assert_true(failing.has_told);
    allocations.fails = 0;
    script again = {.server = server, .client = failing.client, .is_whole = true};
    run_script(&again);
    assert_true(again.is_whole); /* the same client, where there is one, does everything */
    contactd_close(&again.client);
    fake_stop(server);
    return failed;
}

static void each_allocation_fails_once(void **state) {
    (void)state;
    uint64_t n = 1;
    while (run_failing(n)) n++;
    print_message("the script makes %llu allocations\n", (unsigned long long)n - 1);
    assert_true(n > 50); /* else they are not seen */
}

/* ---- the script of a fleet, whose second server joins after the first step ---- */

typedef struct fleet_script {
    script calls;
    const fake_server *servers[2];
    char path[40]; /* the file that lists them */
    contactd_fleet *fleet;
} fleet_script;

#define DO_FLEET(call)                                                                                                 \
    do {                                                                                                               \
        bool before = has_failed();                                                                                    \
        contactd_code code = (call);                                                                                   \
        check(&s->calls, before, code, contactd_fleet_last_error(s->fleet), #call);                                    \
    } while (0)

static void list_servers(const fleet_script *s, int n) {
    FILE *file = fopen(s->path, "w");
    assert_non_null(file);
    for (int i = 0; i < n; i++) fprintf(file, "%s\n", s->servers[i]->endpoint);
    assert_int_equal(fclose(file), 0);
}

static void open_fleet(fleet_script *s) {
    char source[160];
    contactd_fleet_options options;
    contactd_error error = {0};
    contactd_fleet_options_init(&options);
    snprintf(source, sizeof source, "%s,file:%s", s->servers[0]->endpoint, s->path);
    options.client.server = source;
    options.client.timeout_ms = options.probe_ms = 60000;
    options.placement = CONTACTD_PLACE_BY_LOAD;
    options.connections = 2;
    contactd_code code = contactd_fleet_open(&options, &s->fleet, &error);
    check(&s->calls, false, code, &error, "contactd_fleet_open");
    assert_true((code == CONTACTD_OK) == (s->fleet != NULL));
}

typedef struct fleet_scene {
    contactd_client *client;
    contactd_scene scene;
    contactd_body body, other;
} fleet_scene;

static void open_fleet_scene(fleet_script *s, contactd_fleet_mesh kept, fleet_scene *out) {
    contactd_mesh mesh;
    DO_FLEET(contactd_fleet_open_scene(s->fleet, "scene", NULL, &out->client, &out->scene));
    if (!s->calls.is_whole) return;
    DO_FLEET(contactd_fleet_get_mesh(s->fleet, kept, out->client, &mesh));
    if (!s->calls.is_whole) return;
    contactd_body *bodies[2] = {&out->body, &out->other};
    for (int i = 0; i < 2 && s->calls.is_whole; i++) {
        bool before = has_failed();
        contactd_code code = contactd_add_body(out->client, out->scene, mesh, NULL, bodies[i]);
        check(&s->calls, before, code, contactd_last_error(out->client), "contactd_add_body");
    }
}

/* The fake server's volume is the sum of the coordinates that it has: those given for one body, 0.5 each for the other.
 */
static void step_fleet_scene(fleet_script *s, const fleet_scene *at, bool moves) {
    static const float moved[12] = {1, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3};
    const contactd_result *result;
    contactd_update update = contactd_deform(at->body, moved, 4);
    bool before = has_failed();
    contactd_code code = contactd_step(at->client, at->scene, &update, moves, NULL, &result);
    if (check(&s->calls, before, code, contactd_last_error(at->client), "contactd_step"))
        assert_float_equal(result->contacts[0].volume, 61 + 39, 1e-6);
}

static void run_fleet_script(fleet_script *s) {
    contactd_fleet_mesh mesh;
    const contactd_fleet_server *servers;
    fleet_scene scenes[2];
    size_t n;
    uint32_t moved;
    list_servers(s, 1);
    if (!s->fleet) open_fleet(s);
    if (!s->fleet) return;
    DO_FLEET(contactd_fleet_look(s->fleet, &moved));
    DO_FLEET(contactd_fleet_register_mesh(s->fleet, "tetra", positions, 4, triangles, 4, NULL, &mesh));
    for (int i = 0; i < 2; i++) {
        if (s->calls.is_whole) open_fleet_scene(s, mesh, &scenes[i]);
        if (s->calls.is_whole) step_fleet_scene(s, &scenes[i], true);
    }
    list_servers(s, 2);
    DO_FLEET(contactd_fleet_look(s->fleet, &moved));
    if (s->calls.is_whole) assert_int_equal(moved, 1);
    for (int i = 0; i < 2; i++)
        if (s->calls.is_whole) step_fleet_scene(s, &scenes[i], false);
    DO_FLEET(contactd_fleet_list_servers(s->fleet, &servers, &n));
    if (!s->calls.is_whole) return;
    assert_int_equal(n, 2);
    assert_int_equal(servers[0].connections + servers[1].connections, 2);
    for (int i = 0; i < 2; i++) {
        bool before = has_failed();
        contactd_code code = contactd_close_scene(scenes[i].client, scenes[i].scene);
        check(&s->calls, before, code, contactd_last_error(scenes[i].client), "contactd_close_scene");
    }
    if (s->calls.is_whole) DO_FLEET(contactd_fleet_remove_mesh(s->fleet, mesh));
}

static bool run_failing_fleet(uint64_t n) {
    fake_server *servers[2] = {fake_start(), fake_start()};
    atomic_store(&servers[1]->restart, true); /* else both would have one epoch, and seem to be one server */
    while (atomic_load(&servers[1]->restart)) usleep(100);
    fleet_script failing = {.calls.is_whole = true, .servers = {servers[0], servers[1]}};
    snprintf(failing.path, sizeof failing.path, "/tmp/contactd-servers-%d", (int)getpid());
    allocations.done = 0;
    allocations.fails = n;
    allocations.counts = true;
    run_fleet_script(&failing);
    allocations.counts = false;
    bool failed = has_failed();
    if (!failing.calls.is_whole) assert_true(failing.calls.has_told);
    allocations.fails = 0;
    fleet_script again = failing;
    again.calls = (script){.is_whole = true};
    run_fleet_script(&again);
    assert_true(again.calls.is_whole);
    contactd_fleet_close(&again.fleet);
    unlink(failing.path);
    for (int i = 0; i < 2; i++) fake_stop(servers[i]);
    return failed;
}

static void each_allocation_of_a_fleet_fails_once(void **state) {
    (void)state;
    uint64_t n = 1;
    while (run_failing_fleet(n)) n++;
    print_message("the script of a fleet makes %llu allocations\n", (unsigned long long)n - 1);
    assert_true(n > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_fails_once),
                                       cmocka_unit_test(each_allocation_of_a_fleet_fails_once)};
    return cmocka_run_group_tests_name("no memory", tests, NULL, NULL);
}
