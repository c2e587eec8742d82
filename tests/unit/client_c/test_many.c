/* test_many.c - steps of many scenes in the C client: columns as they come, bodies and errors by the caller's names, and
 * state that outlives the server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client_c/contactd.h"
#include "tests/unit/client_c/fake_server.h"

static const float positions[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
static const uint32_t triangles[12] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3};

enum { N = 3 };
static fake_server *server;
static contactd_client *client;
static contactd_scene scenes[N];
static contactd_body rigid, soft;
static contactd_many_result *result;

/* Scenes with a body that is gone, a rigid and a deformable one. */
static int set_up(void **state) {
    (void)state;
    server = fake_start();
    contactd_options options;
    contactd_mesh mesh;
    contactd_body_options body;
    contactd_body gone;
    contactd_options_init(&options);
    contactd_body_options_init(&body);
    body.rigid = true;
    options.server = server->endpoint;
    options.timeout_ms = 60000;
    contactd_code code = contactd_connect(&options, &client, NULL);
    if (!code) code = contactd_register_mesh(client, "tetra", positions, 4, triangles, 4, &mesh);
    for (int k = 0; k < N && !code; k++) {
        code = contactd_open_scene(client, NULL, NULL, &scenes[k]);
        if (!code && k == 1) /* handles are the same in all, the server's numbers are not */
            code = contactd_add_body(client, scenes[k], mesh, &body, &gone) ||
                   contactd_remove_body(client, scenes[k], gone) || contactd_close_scene(client, scenes[k]) ||
                   contactd_open_scene(client, NULL, NULL, &scenes[k]);
        if (!code) code = contactd_add_body(client, scenes[k], mesh, &body, &rigid);
        if (!code) code = contactd_add_body(client, scenes[k], mesh, NULL, &soft);
    }
    return code != CONTACTD_OK;
}

static int tear_down(void **state) {
    (void)state;
    contactd_many_result_free(&result);
    contactd_close(&client);
    fake_stop(server);
    return 0;
}

/* Moves scene k's rigid body to x + k along x; the fake server's volume has it four times. */
typedef struct motion {
    contactd_many many;
    double poses[N][12], points[N][12];
} motion;
static void fill_motion(motion *m, double x) {
    memset(m, 0, sizeof *m);
    contactd_many_init(&m->many);
    m->many.scenes = scenes;
    m->many.n_scenes = N;
    m->many.posed = &rigid;
    m->many.n_posed = 1;
    m->many.poses = m->poses[0];
    m->many.soft = &soft;
    m->many.n_soft = 1;
    m->many.positions = m->points[0];
    m->many.n_positions = 4 * N;
    m->many.float64 = true;
    for (int k = 0; k < N; k++) {
        m->poses[k][3] = x + k;
        m->points[k][0] = 100 * k;
    }
}
static contactd_code step_to(double x) {
    motion m;
    fill_motion(&m, x);
    return contactd_step_many(client, &m.many, &result);
}
static const void *value(contactd_column_id id, size_t contact) {
    contactd_column column;
    assert_int_equal(contactd_many_column(result, id, &column), CONTACTD_OK);
    assert_int_equal(column.n, result->n_contacts);
    assert_true(column.rows && column.columns && (uintptr_t)column.data % (column.type ? 4 : 8) == 0);
    return (const char *)column.data + contact * column.stride;
}
static double volume(size_t contact) {
    return *(const double *)value(CONTACTD_COLUMN_VOLUME, contact);
}

static void columns_of_all_scenes(void **state) {
    (void)state;
    assert_int_equal(step_to(5), CONTACTD_OK);
    assert_true(result->n_scenes == N && result->n_contacts == N && result->n_errors == 0);
    for (uint32_t k = 0; k < N; k++) {
        const double *gradient = value(CONTACTD_COLUMN_GENERALIZED_GRADIENT, k);
        const double *inertia = value(CONTACTD_COLUMN_INERTIA, k);
        const contactd_body *bodies = value(CONTACTD_COLUMN_BODIES, k);
        const double symmetric[9] = {1, 4, 6, 4, 2, 5, 6, 5, 3};
        assert_true(result->scene_index[k] == k && result->offsets[k] == k && result->offsets[k + 1] == k + 1);
        assert_true(volume(k) == 4 * (5 + k) + 100 * k);
        assert_true(bodies[0] == rigid && bodies[1] == soft);
        for (uint32_t c = 0; c < 12; c++) assert_true(gradient[c] == 100 * (c / 6) + 10 * k + c % 6);
        assert_memory_equal(inertia, symmetric, sizeof symmetric);
        assert_string_equal(result->ended[k], "completed");
    }
    contactd_column column;
    assert_int_equal(contactd_many_column(result, CONTACTD_COLUMN_WRENCH, &column), CONTACTD_NOT_FOUND);
    assert_int_equal(contactd_many_column(result, (contactd_column_id)9999, &column), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_many_column(NULL, CONTACTD_COLUMN_VOLUME, &column), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_many_column(result, CONTACTD_COLUMN_VOLUME, NULL), CONTACTD_INVALID_ARGUMENT);
}

static void a_result_outlives_its_client_and_memory_is_used_again(void **state) {
    (void)state;
    assert_int_equal(step_to(1), CONTACTD_OK);
    contactd_many_result *const first = result;
    assert_int_equal(step_to(2), CONTACTD_OK);
    assert_ptr_equal(result, first);
    contactd_many_result *other = NULL;
    motion m;
    fill_motion(&m, 3);
    assert_int_equal(contactd_step_many(client, &m.many, &other), CONTACTD_OK);
    contactd_close(&client);
    assert_true(volume(0) == 8);
    contactd_many_result_free(&result);
    result = other;
    assert_true(volume(0) == 12 && volume(2) == 20 + 200);
    contactd_many_result_free(NULL);
}

/* Single steps and those of many scenes see each other's state; so does a server that knows nothing any more. */
static void state_is_one(void **state) {
    (void)state;
    const contactd_result *single;
    contactd_ticket ticket;
    const float at[12] = {7};
    const contactd_update update = contactd_deform(soft, at, 4);
    assert_int_equal(step_to(1), CONTACTD_OK);
    assert_int_equal(contactd_step_submit(client, scenes[1], &update, 1, NULL, &ticket), CONTACTD_OK);
    motion m;
    fill_motion(&m, 2);
    m.many.n_soft = m.many.n_positions = 0;
    assert_int_equal(contactd_step_many(client, &m.many, &result), CONTACTD_OK);
    assert_true(volume(0) == 8 && volume(1) == 12 + 7 && volume(2) == 16 + 200);
    assert_int_equal(contactd_step_wait(client, ticket, &single), CONTACTD_OK);
    assert_true(single->contacts[0].volume == 8 + 7);
    for (int i = 0; i < 2; i++) {
        atomic_store(i ? &server->forget_session : &server->restart, true);
        m.many.n_posed = 0;
        assert_int_equal(contactd_step_many(client, &m.many, &result), CONTACTD_OK);
        assert_true(volume(0) == 8 && volume(1) == 12 + 7 && volume(2) == 16 + 200);
    }
    assert_int_equal(contactd_step(client, scenes[2], NULL, 0, NULL, &single), CONTACTD_OK);
    assert_true(single->contacts[0].volume == 16 + 200);
}

static void a_lost_answer_is_asked_for_again(void **state) {
    (void)state;
    atomic_store(&server->drop, 1);
    assert_int_equal(step_to(1), CONTACTD_OK);
    assert_int_equal(atomic_load(&server->computed), N);
    assert_int_equal(atomic_load(&server->repeated), N);
    atomic_store(&server->busy, 2);
    assert_int_equal(step_to(2), CONTACTD_OK);
    assert_true(volume(2) == 16 + 200);
}

static void one_fails_alone(void **state) {
    (void)state;
    motion m;
    fill_motion(&m, 1);
    m.poses[1][3] = FAKE_LONG;
    assert_int_equal(contactd_step_many(client, &m.many, &result), CONTACTD_OK);
    assert_true(result->n_errors == 1 && result->n_contacts == 2 && result->errors[0].scene == 1);
    assert_true(result->scene_index[1] == 2 && result->offsets[1] == 1 && result->offsets[2] == 1);
    assert_int_equal(result->errors[0].error.code, CONTACTD_TIME_LIMIT);
    assert_string_equal(result->errors[0].error.object, "body 1");
    assert_true(!result->ended[1] && volume(1) == 12 + 200);
    /* Its number is used up, and where the server thinks otherwise its scene is built again. */
    assert_int_equal(step_to(2), CONTACTD_OK);
    assert_int_equal(result->n_errors, 0);
    atomic_store(&server->skip_number, true);
    assert_int_equal(step_to(3), CONTACTD_OK);
    assert_true(result->n_errors == 1 && result->errors[0].error.code == CONTACTD_CONFLICT);
    const int opened = atomic_load(&server->opened);
    assert_int_equal(step_to(4), CONTACTD_OK);
    assert_true(result->n_errors == 0 && volume(0) == 16 && atomic_load(&server->opened) == opened + 1);
}

static void after_silence_the_state_is_as_before(void **state) {
    (void)state;
    assert_int_equal(step_to(1), CONTACTD_OK);
    atomic_store(&server->silent, true);
    assert_int_equal(contactd_set_timeout(client, 50), CONTACTD_OK);
    assert_int_equal(step_to(2), CONTACTD_DEADLINE_EXCEEDED);
    assert_true(volume(2) == 4 * 3 + 200); /* the result of before */
    atomic_store(&server->silent, false);
    assert_int_equal(contactd_set_timeout(client, 60000), CONTACTD_OK);
    motion m;
    fill_motion(&m, 0);
    m.many.n_soft = m.many.n_posed = m.many.n_positions = 0;
    assert_int_equal(contactd_step_many(client, &m.many, &result), CONTACTD_OK);
    assert_true(volume(2) == 4 * 3 + 200);
}

/* Where bodies start outlives the server. */
static void reset_and_copies(void **state) {
    (void)state;
    contactd_scene copies[2];
    motion m;
    assert_int_equal(step_to(2), CONTACTD_OK);
    assert_int_equal(contactd_copy_scene(client, scenes[0], 2, copies), CONTACTD_OK);
    assert_int_equal(step_to(3), CONTACTD_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(contactd_reset_scenes(client, scenes, N), CONTACTD_OK);
        fill_motion(&m, 0);
        m.many.n_soft = m.many.n_posed = m.many.n_positions = 0;
        assert_int_equal(contactd_step_many(client, &m.many, &result), CONTACTD_OK);
        for (size_t k = 0; k < N; k++) assert_true(volume(k) == volume(0));
        assert_true(volume(0) == 1 + 6 + 11 + 0.5 * 78); /* the identity, and all coordinates at rest */
        m.many.scenes = copies;
        m.many.n_scenes = 2;
        if (i) assert_int_equal(contactd_reset_scenes(client, copies, 2), CONTACTD_OK);
        assert_int_equal(contactd_step_many(client, &m.many, &result), CONTACTD_OK);
        assert_true(volume(0) == volume(1) && *(const contactd_body *)value(CONTACTD_COLUMN_BODIES, 1) == rigid);
        const contactd_result *single;
        const contactd_update away = contactd_move(rigid, (const double[12]){0, 0, 0, 77});
        assert_int_equal(contactd_step(client, copies[1], &away, 1, NULL, &single), CONTACTD_OK);
        assert_true(single->contacts[0].volume == 4 * 77 + 0.5 * 78);
        if (!i) atomic_store(&server->restart, true);
    }
    assert_true(volume(0) == 4 * 2 + 0.5 * 78); /* where it was when it was copied */
    assert_int_equal(contactd_close_scenes(client, copies, 2), CONTACTD_OK);
    assert_int_equal(contactd_close_scenes(client, copies, 2), CONTACTD_STALE_HANDLE);
    assert_int_equal(contactd_close_scenes(client, scenes, N), CONTACTD_OK);
    assert_int_equal(atomic_load(&server->closings), 2);
    contactd_mesh_info info;
    assert_int_equal(contactd_get_mesh_info(client, 1, &info), CONTACTD_OK);
    assert_int_equal(contactd_remove_mesh(client, 1), CONTACTD_OK); /* no body of this client uses it */
}

static void copies_whose_answer_is_lost_are_made_again(void **state) {
    (void)state;
    contactd_scene copies[2];
    atomic_store(&server->drop, 1);
    assert_int_equal(contactd_copy_scene(client, scenes[0], 2, copies), CONTACTD_OK);
    const contactd_result *single;
    for (int i = 0; i < 2; i++) assert_int_equal(contactd_step(client, copies[i], NULL, 0, NULL, &single), CONTACTD_OK);
    atomic_store(&server->drop, 1);
    assert_int_equal(contactd_reset_scenes(client, copies, 2), CONTACTD_OK);
    assert_int_equal(atomic_load(&server->resets), 2);
}

static void no_scenes(void **state) {
    (void)state;
    motion m;
    fill_motion(&m, 1);
    m.many.n_scenes = 0;
    assert_int_equal(contactd_step_many(client, &m.many, &result), CONTACTD_OK);
    assert_true(result->n_scenes == 0 && result->n_contacts == 0 && result->offsets[0] == 0);
    contactd_column column;
    assert_int_equal(contactd_many_column(result, CONTACTD_COLUMN_WRENCH, &column), CONTACTD_OK);
    assert_true(!column.data && column.rows == 2 && column.columns == 6);
    assert_int_equal(contactd_many_column(result, CONTACTD_COLUMN_BODIES, &column), CONTACTD_OK);
    assert_int_equal(column.n, 0);
}

static void refused(motion *m, contactd_code code, const char *field, const char *object) {
    assert_int_equal(contactd_step_many(client, &m->many, &result), code);
    const contactd_error *error = contactd_last_error(client);
    assert_string_equal(error->field, field);
    assert_non_null(strstr(error->object, object));
    fill_motion(m, 1);
}

static void bad_input(void **state) {
    (void)state;
    motion m;
    fill_motion(&m, 1);
    m.many.cookie++;
    refused(&m, CONTACTD_INVALID_ARGUMENT, "many", "many scenes");
    m.many.want = CONTACTD_WANT_GRADIENT;
    refused(&m, CONTACTD_INVALID_ARGUMENT, "want", "many scenes");
    m.many.n_scenes = WIRE_MOST_SCENES + 1;
    refused(&m, CONTACTD_TOO_LARGE, "n_scenes", "many scenes");
    m.many.poses = NULL;
    refused(&m, CONTACTD_INVALID_ARGUMENT, "poses", "many scenes");
    m.many.n_positions--;
    refused(&m, CONTACTD_WRONG_LENGTH, "positions", "many scenes");
    m.many.posed = &soft;
    refused(&m, CONTACTD_CONFLICT, "pose", "scene 1");
    m.many.soft = &rigid;
    refused(&m, CONTACTD_CONFLICT, "positions", "body 1");
    m.many.moving = &soft;
    m.many.n_moving = 1;
    m.many.twists = m.poses[0];
    refused(&m, CONTACTD_CONFLICT, "twists", "body 2");
    m.many.n_posed = 1000;
    refused(&m, CONTACTD_OUT_OF_RANGE, "n_posed, n_moving, n_soft", "many scenes");
    const contactd_body none = 77;
    m.many.posed = &none;
    refused(&m, CONTACTD_NOT_FOUND, "body", "body 77 of scene 1");
    const contactd_scene twice[N] = {scenes[0], scenes[2], scenes[0]}, unknown[N] = {scenes[0], 99, scenes[2]};
    m.many.scenes = twice;
    refused(&m, CONTACTD_INVALID_ARGUMENT, "scenes", "scene 1");
    m.many.scenes = unknown;
    refused(&m, CONTACTD_NOT_FOUND, "scene", "scene 99");
    assert_int_equal(contactd_set_continuous_frames(client, scenes[2], true), CONTACTD_OK);
    refused(&m, CONTACTD_INVALID_ARGUMENT, "scenes", "scene");
    assert_int_equal(contactd_step_many(client, &m.many, NULL), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_step_many(client, NULL, &result), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_step_many(NULL, &m.many, &result), CONTACTD_INVALID_ARGUMENT);
    contactd_many_init(NULL);
    assert_int_equal(atomic_load(&server->computed), 0);
    assert_null(result);
}

/* Their poses count in the fake's volume; they outlive the server, and an answer that is lost. */
static void many_bodies(void **state) {
    (void)state;
    double poses[3][12] = {{0}};
    contactd_body bodies[3];
    const contactd_result *single;
    const contactd_mesh mesh = 1;
    assert_int_equal(contactd_step(client, scenes[0], NULL, 0, NULL, &single), CONTACTD_OK);
    const double before = single->contacts[0].volume;
    for (int i = 0; i < 3; i++) poses[i][0] = 1000 * (i + 1);
    for (int lost = 0; lost < 2; lost++) {
        if (lost) atomic_store(&server->drop, 1);
        const contactd_mesh meshes[3] = {mesh, mesh, mesh};
        assert_int_equal(contactd_add_bodies(client, scenes[0], meshes, lost ? 1 : 3, poses, 3, NULL, bodies),
                         CONTACTD_OK);
        assert_true(bodies[1] == bodies[0] + 1 && bodies[2] == bodies[0] + 2);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(contactd_step(client, scenes[0], NULL, 0, NULL, &single), CONTACTD_OK);
            assert_true(single->contacts[0].volume == before + 6000 * (lost + 1));
            if (!lost) atomic_store(&server->restart, true);
        }
    }
    const contactd_update moved = contactd_move(bodies[2], (const double[12]){5000});
    assert_int_equal(contactd_step(client, scenes[0], &moved, 1, NULL, &single), CONTACTD_OK);
    assert_true(single->contacts[0].volume == before + 14000);
    assert_int_equal(contactd_remove_body(client, scenes[0], bodies[2]), CONTACTD_OK);
    assert_int_equal(contactd_step(client, scenes[0], NULL, 0, NULL, &single), CONTACTD_OK);
    assert_true(single->contacts[0].volume == before + 9000);
    assert_int_equal(contactd_forget_mesh(client, mesh), CONTACTD_CONFLICT); /* bodies use it */
    assert_int_equal(contactd_add_bodies(client, scenes[0], NULL, 0, NULL, 0, NULL, NULL), CONTACTD_OK);
}

static void an_old_server_is_named(void **state) {
    (void)state;
    atomic_store(&server->is_old, true);
    atomic_store(&server->restart, true);
    assert_int_equal(contactd_ping(client, NULL), CONTACTD_OK);
    contactd_mesh_info info;
    assert_int_equal(contactd_get_mesh_info(client, 1, &info), CONTACTD_OK); /* another Welcome */
    motion m;
    fill_motion(&m, 1);
    refused(&m, CONTACTD_UNSUPPORTED, "scenes", "many scenes");
    contactd_scene copy;
    assert_int_equal(contactd_reset_scenes(client, scenes, N), CONTACTD_UNSUPPORTED);
    assert_int_equal(contactd_copy_scene(client, scenes[0], 1, &copy), CONTACTD_UNSUPPORTED);
    contactd_body body = 7;
    const contactd_mesh mesh = 1;
    assert_int_equal(contactd_add_bodies(client, scenes[0], &mesh, 1, &(const double[12]){1}, 1, NULL, &body),
                     CONTACTD_UNSUPPORTED);
    assert_true(body == 0);
    assert_int_equal(contactd_close_scenes(client, scenes, N), CONTACTD_OK); /* one by one */
    assert_int_equal(atomic_load(&server->closings), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(columns_of_all_scenes),
        TEST(a_result_outlives_its_client_and_memory_is_used_again),
        TEST(state_is_one),
        TEST(a_lost_answer_is_asked_for_again),
        TEST(one_fails_alone),
        TEST(after_silence_the_state_is_as_before),
        TEST(many_bodies),
        TEST(reset_and_copies),
        TEST(copies_whose_answer_is_lost_are_made_again),
        TEST(no_scenes),
        TEST(bad_input),
        TEST(an_old_server_is_named),
    };
    return cmocka_run_group_tests_name("many", tests, NULL, NULL);
}
