/* test_arguments.c - every public function of the C client with every pointer NULL and with numbers out of range: an
 * error that names the argument, or the default; never a crash, and the client works afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "client_c/contactd.h"
#include "tests/unit/client_c/fake_server.h"

static const float positions[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
static const double doubles[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
static const uint32_t triangles[12] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3};

static fake_server *server;
static contactd_client *client;
static contactd_mesh mesh;
static contactd_scene scene;
static contactd_body soft, hard;

static int set_up(void **state) {
    (void)state;
    server = fake_start();
    contactd_options options;
    contactd_options_init(&options);
    options.server = server->endpoint;
    options.timeout_ms = 60000;
    contactd_body_options rigid;
    contactd_body_options_init(&rigid);
    rigid.rigid = true;
    return contactd_connect(&options, &client, NULL) ||
           contactd_register_mesh(client, "tetra", positions, 4, triangles, 4, &mesh) ||
           contactd_open_scene(client, NULL, NULL, &scene) || contactd_add_body(client, scene, mesh, NULL, &soft) ||
           contactd_add_body(client, scene, mesh, &rigid, &hard);
}

static int tear_down(void **state) {
    (void)state;
    contactd_close(&client);
    fake_stop(server);
    return 0;
}

/* The call failed, and the client says that this argument is to blame. */
static void blames(contactd_code code, contactd_code expected, const char *field) {
    const contactd_error *error = contactd_last_error(client);
    assert_string_equal(contactd_code_name(code), contactd_code_name(expected));
    assert_int_equal(error->code, expected);
    assert_string_equal(error->field, field);
    assert_true(error->message[0]);
}
#define NULL_IS_REFUSED(call, argument) blames(call, CONTACTD_INVALID_ARGUMENT, argument)

/* Every function that takes a client, without one. */
static void test_no_client(void **state) {
    (void)state;
    contactd_server facts;
    contactd_status status;
    contactd_mesh_info info;
    const contactd_mesh_info *infos;
    contactd_geometry geometry;
    contactd_repair repair;
    contactd_scene_info scene_info;
    const contactd_scene_info *scene_infos;
    const contactd_result *result;
    const void *png;
    const char *text;
    contactd_ticket ticket;
    size_t n;
    uint32_t handle;
    const ct_material material = {1, 0, 0, 0};
    const contactd_code codes[] = {
        contactd_set_timeout(NULL, 1),
        contactd_set_traceparent(NULL, NULL),
        contactd_get_server(NULL, &facts),
        contactd_ping(NULL, NULL),
        contactd_get_status(NULL, &status),
        contactd_register_mesh(NULL, "", positions, 4, triangles, 4, &handle),
        contactd_register_mesh_f64(NULL, "", doubles, 4, triangles, 4, &handle),
        contactd_register_mesh_bytes(NULL, "", "x", 1, CONTACTD_FORMAT_AUTO, &handle),
        contactd_register_mesh_file(NULL, "x", &handle),
        contactd_get_mesh_info(NULL, 1, &info),
        contactd_register_mesh_with(NULL, "", positions, 1, triangles, 0, NULL, &handle),
        contactd_register_mesh_bytes_with(NULL, "", "x", 1, CONTACTD_FORMAT_AUTO, NULL, &handle),
        contactd_get_mesh_repair(NULL, 1, &repair),
        contactd_get_mesh_geometry(NULL, 1, &geometry),
        contactd_remove_mesh(NULL, 1),
        contactd_forget_mesh(NULL, 1),
        contactd_list_meshes(NULL, &infos, &n),
        contactd_find_mesh(NULL, "0123456789", &info),
        contactd_use_mesh(NULL, "0123456789", &handle),
        contactd_remove_mesh_by_hash(NULL, "0123456789"),
        contactd_open_scene(NULL, "", NULL, &handle),
        contactd_configure(NULL, 1, NULL),
        contactd_close_scene(NULL, 1),
        contactd_close_scene_by_id(NULL, 1),
        contactd_reset_scenes(NULL, &handle, 1),
        contactd_copy_scene(NULL, 1, 1, &handle),
        contactd_close_scenes(NULL, &handle, 1),
        contactd_get_report(NULL, CONTACTD_REPORT_STATUS, 0, &text, &n),
        contactd_drain(NULL),
        contactd_get_scene_info(NULL, 1, &scene_info),
        contactd_list_scenes(NULL, &scene_infos, &n),
        contactd_configure_by_id(NULL, 1, NULL, &scene_info),
        contactd_add_body(NULL, 1, 1, NULL, &handle),
        contactd_add_bodies(NULL, 1, &handle, 1, NULL, 0, NULL, &handle),
        contactd_add_half_space(NULL, 1, (const double[3]){0, 0, 1}, 0, NULL, &handle),
        contactd_remove_body(NULL, 1, 1),
        contactd_replace_mesh(NULL, 1, 1, 1),
        contactd_set_material(NULL, 1, 1, 0, &material),
        contactd_set_continuous_frames(NULL, 1, true),
        contactd_find_overlap(NULL, 1, NULL, 1, NULL, NULL, NULL),
        contactd_step_submit(NULL, 1, NULL, 0, NULL, &ticket),
        contactd_step_wait(NULL, 1, &result),
        contactd_step_try_wait(NULL, 1, &result),
        contactd_process(NULL, NULL),
        contactd_wait_any(NULL, &ticket),
        contactd_step(NULL, 1, NULL, 0, NULL, &result),
        contactd_result_keep(NULL, NULL),
        contactd_result_release(NULL, NULL),
        contactd_stiffness_products(NULL, NULL, 1, NULL, 0, 0),
        contactd_snapshot(NULL, 1, NULL, &png, &n),
        contactd_snapshot_by_id(NULL, 1, NULL, &png, &n),
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) assert_int_equal(codes[i], CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_fd(NULL), -1);
    assert_int_equal(contactd_last_error(NULL)->code, CONTACTD_INVALID_ARGUMENT);
    assert_non_null(strstr(contactd_last_error(NULL)->message, "client is NULL"));
    contactd_client *none = NULL;
    contactd_close(NULL);
    contactd_close(&none);
}

static void test_connecting(void **state) {
    (void)state;
    contactd_options options;
    contactd_error error;
    contactd_client *other = client;
    contactd_options_init(NULL);
    contactd_options_init(&options);
    options.server = server->endpoint;
    assert_int_equal(contactd_connect(NULL, &other, &error), CONTACTD_INVALID_ARGUMENT);
    assert_null(other);
    assert_string_equal(error.field, "options");
    assert_int_equal(contactd_connect(&options, NULL, &error), CONTACTD_INVALID_ARGUMENT);
    assert_string_equal(error.field, "out");
    assert_int_equal(contactd_connect(&options, NULL, NULL), CONTACTD_INVALID_ARGUMENT);
    options.timeout_ms = 0;
    assert_int_equal(contactd_connect(&options, &other, &error), CONTACTD_INVALID_ARGUMENT);
    assert_string_equal(error.field, "timeout_ms");
    options.timeout_ms = 60000;
    options.server = NULL;
    assert_int_equal(contactd_connect(&options, &other, NULL), CONTACTD_INVALID_ARGUMENT);
    options.server = server->endpoint;
    options.name = NULL;
    assert_int_equal(contactd_connect(&options, &other, NULL), CONTACTD_OK);
    contactd_close(&other);
}

static void test_client(void **state) {
    (void)state;
    NULL_IS_REFUSED(contactd_get_server(client, NULL), "out");
    NULL_IS_REFUSED(contactd_get_status(client, NULL), "out");
    assert_int_equal(contactd_ping(client, NULL), CONTACTD_OK);
    blames(contactd_set_timeout(client, 0), CONTACTD_INVALID_ARGUMENT, "timeout_ms");
    static const char *const broken[] = {"x",
                                         "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                                         "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                         "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                                         "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                                         "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        blames(contactd_set_traceparent(client, broken[i]), CONTACTD_INVALID_ARGUMENT, "traceparent");
    assert_int_equal(contactd_set_traceparent(client, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
                     CONTACTD_OK);
    assert_int_equal(contactd_ping(client, NULL), CONTACTD_OK);
    assert_int_equal(contactd_set_traceparent(client, NULL), CONTACTD_OK);
}

static void test_meshes(void **state) {
    (void)state;
    contactd_mesh_info info;
    contactd_mesh out;
    size_t n;
    const contactd_mesh_info *infos;
    NULL_IS_REFUSED(contactd_register_mesh(client, "m", NULL, 4, triangles, 4, &out), "positions");
    NULL_IS_REFUSED(contactd_register_mesh(client, "m", positions, 4, NULL, 4, &out), "triangles");
    NULL_IS_REFUSED(contactd_register_mesh(client, "m", positions, 4, triangles, 4, NULL), "out");
    NULL_IS_REFUSED(contactd_register_mesh_f64(client, "m", NULL, 4, triangles, 4, &out), "positions");
    NULL_IS_REFUSED(contactd_register_mesh_f64(client, "m", doubles, 4, triangles, 4, NULL), "out");
    blames(contactd_register_mesh(client, "m", positions, SIZE_MAX, triangles, 4, &out), CONTACTD_LIMIT_EXCEEDED,
           "positions");
    blames(contactd_register_mesh_bytes(client, "m", "file", SIZE_MAX, CONTACTD_FORMAT_AUTO, &out), CONTACTD_TOO_LARGE,
           "");
    blames(contactd_register_mesh(client, "m", positions, 4, triangles, SIZE_MAX, &out), CONTACTD_LIMIT_EXCEEDED,
           "triangles");
    assert_int_equal(contactd_register_mesh(client, NULL, positions, 4, triangles, 4, &out), CONTACTD_OK);
    assert_int_equal(contactd_register_mesh_f64(client, NULL, doubles, 4, triangles, 4, &out), CONTACTD_OK);

    const int32_t negative[12] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, -1, 3};
    blames(contactd_register_mesh(client, "m", positions, 4, (const uint32_t *)negative, 4, &out),
           CONTACTD_INVALID_MESH, "triangles");
    assert_string_equal(contactd_last_error(client)->message,
                        "triangle 3 refers to vertex -1, but there are 4 vertices: expected 0 to 3");
    const uint32_t large[12] = {0, 2, 1, 0, 1, 4};
    blames(contactd_register_mesh_f64(client, NULL, doubles, 4, large, 4, &out), CONTACTD_INVALID_MESH, "triangles");
    assert_non_null(strstr(contactd_last_error(client)->message, "triangle 1 refers to vertex 4"));

    NULL_IS_REFUSED(contactd_register_mesh_bytes(client, "m", NULL, 1, CONTACTD_FORMAT_AUTO, &out), "bytes");
    NULL_IS_REFUSED(contactd_register_mesh_bytes(client, "m", "x", 1, CONTACTD_FORMAT_AUTO, NULL), "out");
    blames(contactd_register_mesh_bytes(client, "m", "x", 1, (contactd_format)99, &out), CONTACTD_INVALID_ARGUMENT,
           "format");
    NULL_IS_REFUSED(contactd_register_mesh_file(client, NULL, &out), "path");
    NULL_IS_REFUSED(contactd_register_mesh_file(client, "/dev/null", NULL), "out");
    blames(contactd_register_mesh_file(client, "/nonexistent", &out), CONTACTD_INVALID_ARGUMENT, "path");
    blames(contactd_register_mesh_file(client, "", &out), CONTACTD_INVALID_ARGUMENT, "path");

    contactd_geometry geometry;
    NULL_IS_REFUSED(contactd_get_mesh_info(client, mesh, NULL), "out");
    contactd_mesh_options options = {0};
    contactd_mesh_options_init(NULL);
    blames(contactd_register_mesh_with(client, "m", positions, 4, triangles, 4, &options, &out),
           CONTACTD_INVALID_ARGUMENT, "options");
    blames(contactd_register_mesh_bytes_with(client, "m", "x", 1, CONTACTD_FORMAT_AUTO, &options, &out),
           CONTACTD_INVALID_ARGUMENT, "options");
    contactd_mesh_options_init(&options);
    assert_true(contactd_unit("mm") == 1e-3 && contactd_unit("m") == 1 && contactd_unit("in") == 0.0254);
    assert_true(contactd_unit("mile") == 0 && contactd_unit("") == 0 && contactd_unit("mmm") == 0 &&
                contactd_unit(NULL) == 0);
    assert_true(options.cookie && !options.repair && options.max_hole == 0);
    contactd_repair repair;
    NULL_IS_REFUSED(contactd_get_mesh_repair(client, mesh, NULL), "out");
    blames(contactd_get_mesh_repair(client, 99, &repair), CONTACTD_NOT_FOUND, "mesh");
    assert_int_equal(contactd_get_mesh_repair(client, mesh, &repair), CONTACTD_OK);
    assert_true(!repair.was_asked && repair.n_changes == 0);
    NULL_IS_REFUSED(contactd_get_mesh_geometry(client, mesh, NULL), "out");
    const contactd_mesh none[] = {0, 99, UINT32_MAX};
    for (int i = 0; i < 3; i++) {
        blames(contactd_get_mesh_info(client, none[i], &info), CONTACTD_NOT_FOUND, "mesh");
        blames(contactd_get_mesh_geometry(client, none[i], &geometry), CONTACTD_NOT_FOUND, "mesh");
        blames(contactd_remove_mesh(client, none[i]), CONTACTD_NOT_FOUND, "mesh");
        blames(contactd_forget_mesh(client, none[i]), CONTACTD_NOT_FOUND, "mesh");
    }
    NULL_IS_REFUSED(contactd_list_meshes(client, NULL, &n), "out");
    NULL_IS_REFUSED(contactd_list_meshes(client, &infos, NULL), "n");
    NULL_IS_REFUSED(contactd_find_mesh(client, NULL, &info), "hash");
    NULL_IS_REFUSED(contactd_find_mesh(client, "0123456789", NULL), "out");
    NULL_IS_REFUSED(contactd_remove_mesh_by_hash(client, NULL), "hash");
}

static void test_scenes(void **state) {
    (void)state;
    contactd_settings settings;
    contactd_scene_info info;
    const contactd_scene_info *infos;
    contactd_scene out;
    size_t n;
    contactd_settings_init(NULL);
    contactd_settings_init(&settings);
    NULL_IS_REFUSED(contactd_open_scene(client, "s", &settings, NULL), "out");
    assert_int_equal(contactd_open_scene(client, NULL, NULL, &out), CONTACTD_OK);
    settings.cookie = 0;
    NULL_IS_REFUSED(contactd_open_scene(client, NULL, &settings, &out), "settings");
    NULL_IS_REFUSED(contactd_configure(client, scene, &settings), "settings");
    contactd_settings_init(&settings);
    settings.resolution[1] = 4;
    blames(contactd_configure(client, scene, &settings), CONTACTD_INVALID_ARGUMENT, "resolution");
    contactd_settings_init(&settings);
    settings.method = (ct_method)99;
    blames(contactd_configure(client, scene, &settings), CONTACTD_UNSUPPORTED, "method");
    contactd_settings_init(&settings);
    settings.strict = 2;
    blames(contactd_configure(client, scene, &settings), CONTACTD_OUT_OF_RANGE, "strict");
    contactd_settings_init(&settings);
    settings.ray_budget = (uint64_t)-2;
    blames(contactd_configure(client, scene, &settings), CONTACTD_OUT_OF_RANGE, "ray_budget");
    const double limits[] = {0, -2, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        contactd_settings_init(&settings);
        settings.max_step_time = limits[i];
        blames(contactd_configure(client, scene, &settings),
               isfinite(limits[i]) ? CONTACTD_OUT_OF_RANGE : CONTACTD_NON_FINITE, "max_step_time");
    }
    ct_method method = CT_METHOD_NONE;
    assert_true(contactd_method_find("voxtree", &method) && method == CT_METHOD_VOXTREE);
    assert_false(contactd_method_find("VOXTREE", &method) || contactd_method_find(NULL, &method) ||
                 contactd_method_find("auto", NULL));
    assert_string_equal(contactd_method_name(CT_METHOD_EBPI), "ebpi");
    assert_string_equal(contactd_method_name((ct_method)99), "unknown");
    assert_int_equal(contactd_configure(client, scene, NULL), CONTACTD_OK);
    NULL_IS_REFUSED(contactd_get_scene_info(client, scene, NULL), "out");
    NULL_IS_REFUSED(contactd_list_scenes(client, NULL, &n), "out");
    NULL_IS_REFUSED(contactd_list_scenes(client, &infos, NULL), "n");
    const contactd_scene none[] = {0, 99, UINT32_MAX};
    for (int i = 0; i < 3; i++) {
        blames(contactd_configure(client, none[i], NULL), CONTACTD_NOT_FOUND, "scene");
        blames(contactd_close_scene(client, none[i]), CONTACTD_NOT_FOUND, "scene");
        blames(contactd_get_scene_info(client, none[i], &info), CONTACTD_NOT_FOUND, "scene");
    }
}

static void test_bodies(void **state) {
    (void)state;
    contactd_body_options options;
    contactd_body out;
    contactd_body_options_init(NULL);
    contactd_body_options_init(&options);
    NULL_IS_REFUSED(contactd_add_body(client, scene, mesh, &options, NULL), "out");
    blames(contactd_add_body(client, 0, mesh, &options, &out), CONTACTD_NOT_FOUND, "scene");
    blames(contactd_add_body(client, scene, 0, &options, &out), CONTACTD_NOT_FOUND, "mesh");
    options.n_ignore = 1;
    NULL_IS_REFUSED(contactd_add_body(client, scene, mesh, &options, &out), "ignore");
    options.ignore = (const contactd_body[]){99};
    blames(contactd_add_body(client, scene, mesh, &options, &out), CONTACTD_NOT_FOUND, "ignore");
    options.n_ignore = SIZE_MAX;
    blames(contactd_add_body(client, scene, mesh, &options, &out), CONTACTD_OUT_OF_RANGE, "n_ignore");
    options.cookie = 0;
    NULL_IS_REFUSED(contactd_add_body(client, scene, mesh, &options, &out), "options");
    blames(contactd_remove_body(client, scene, 0), CONTACTD_NOT_FOUND, "body");
    blames(contactd_remove_body(client, scene, UINT32_MAX), CONTACTD_NOT_FOUND, "body");
    blames(contactd_remove_body(client, 0, soft), CONTACTD_NOT_FOUND, "scene");
}

static void test_half_spaces(void **state) {
    (void)state;
    const double up[3] = {0, 0, 2}, none[3] = {0, 0, 0}, broken[3] = {0, NAN, 1};
    contactd_body out = 7;
    double pose[12];
    assert_true(contactd_plane_pose(up, 3, pose));
    assert_true(fabs(pose[11] - 3) < 1e-12);
    assert_false(contactd_plane_pose(NULL, 3, pose));
    assert_false(contactd_plane_pose(up, 3, NULL));
    assert_false(contactd_plane_pose(up, INFINITY, pose));
    assert_false(contactd_plane_pose(broken, 3, pose));
    NULL_IS_REFUSED(contactd_add_half_space(client, scene, up, 0, NULL, NULL), "out");
    NULL_IS_REFUSED(contactd_add_half_space(client, scene, NULL, 0, NULL, &out), "normal");
    blames(contactd_add_half_space(client, 0, up, 0, NULL, &out), CONTACTD_NOT_FOUND, "scene");
    blames(contactd_add_half_space(client, scene, none, 0, NULL, &out), CONTACTD_OUT_OF_RANGE, "normal");
    blames(contactd_add_half_space(client, scene, broken, 0, NULL, &out), CONTACTD_OUT_OF_RANGE, "normal");
    blames(contactd_add_half_space(client, scene, up, NAN, NULL, &out), CONTACTD_OUT_OF_RANGE, "normal");
    contactd_body_options options;
    contactd_body_options_init(&options);
    options.cookie = 0;
    NULL_IS_REFUSED(contactd_add_half_space(client, scene, up, 0, &options, &out), "options");
    assert_int_equal(out, 0);
}

static void refuses_update(contactd_update update, contactd_code code, const char *field) {
    const contactd_result *result;
    contactd_ticket ticket;
    blames(contactd_step(client, scene, &update, 1, NULL, &result), code, field);
    assert_null(result);
    blames(contactd_step_submit(client, scene, &update, 1, NULL, &ticket), code, field);
    assert_int_equal(ticket, 0);
}

static void test_steps(void **state) {
    (void)state;
    contactd_step_options options;
    const contactd_result *result;
    contactd_ticket ticket;
    contactd_step_options_init(NULL);
    contactd_step_options_init(&options);
    NULL_IS_REFUSED(contactd_step(client, scene, NULL, 0, &options, NULL), "out");
    NULL_IS_REFUSED(contactd_step_submit(client, scene, NULL, 0, &options, NULL), "out");
    NULL_IS_REFUSED(contactd_step_wait(client, 1, NULL), "out");
    NULL_IS_REFUSED(contactd_step_try_wait(client, 1, NULL), "out");
    NULL_IS_REFUSED(contactd_wait_any(client, NULL), "out");
    NULL_IS_REFUSED(contactd_step(client, scene, NULL, 1, &options, &result), "updates");
    NULL_IS_REFUSED(contactd_step_submit(client, scene, NULL, 1, NULL, &ticket), "updates");
    blames(contactd_step_wait(client, 0, &result), CONTACTD_NOT_FOUND, "ticket");
    blames(contactd_step_wait(client, UINT64_MAX, &result), CONTACTD_NOT_FOUND, "ticket");
    blames(contactd_step_try_wait(client, 1, &result), CONTACTD_NOT_FOUND, "ticket");
    blames(contactd_step(client, 0, NULL, 0, NULL, &result), CONTACTD_NOT_FOUND, "scene");
    const contactd_update pose = contactd_move(hard, (const double[12]){1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0});
    blames(contactd_step(client, scene, &pose, SIZE_MAX, NULL, &result), CONTACTD_OUT_OF_RANGE, "n_updates");
    options.n_directions = 1;
    NULL_IS_REFUSED(contactd_step(client, scene, NULL, 0, &options, &result), "directions");
    contactd_direction direction = {.body = 77};
    options.directions = &direction;
    blames(contactd_step(client, scene, NULL, 0, &options, &result), CONTACTD_NOT_FOUND, "body");
    direction.body = soft; /* without values */
    blames(contactd_step(client, scene, NULL, 0, &options, &result), CONTACTD_INVALID_ARGUMENT, "directions");
    direction.index = CONTACTD_MAX_DIRECTIONS;
    blames(contactd_step(client, scene, NULL, 0, &options, &result), CONTACTD_OUT_OF_RANGE, "directions");
    direction = (contactd_direction){.body = hard, .values = direction.twist};
    blames(contactd_step_submit(client, scene, NULL, 0, &options, &ticket), CONTACTD_INVALID_ARGUMENT, "directions");
    options.n_directions = SIZE_MAX;
    blames(contactd_step(client, scene, NULL, 0, &options, &result), CONTACTD_OUT_OF_RANGE, "n_directions");
    options.n_directions = 0;
    options.cookie = 0;
    NULL_IS_REFUSED(contactd_step(client, scene, NULL, 0, &options, &result), "options");

    assert_true(isnan(contactd_move(hard, NULL).pose[0])); /* which servers refuse, naming the pose */
    refuses_update(contactd_deform(soft, NULL, 4), CONTACTD_INVALID_ARGUMENT, "positions");
    refuses_update(contactd_deform(soft, positions, 3), CONTACTD_WRONG_LENGTH, "positions");
    refuses_update(contactd_deform(soft, positions, SIZE_MAX), CONTACTD_OUT_OF_RANGE, "count");
    refuses_update(contactd_deform(0, positions, 4), CONTACTD_NOT_FOUND, "body");
    refuses_update(contactd_deform(hard, positions, 4), CONTACTD_CONFLICT, "positions");
    refuses_update((contactd_update){.body = soft}, CONTACTD_INVALID_ARGUMENT, "kind");
    refuses_update((contactd_update){.body = soft, .kind = (contactd_update_kind)99}, CONTACTD_INVALID_ARGUMENT,
                   "kind");
    for (contactd_update_kind kind = CONTACTD_RANGES; kind <= CONTACTD_INDEXED; kind++) {
        contactd_update update = {.body = soft, .kind = kind, .count = 2, .n_indices = 2};
        refuses_update(update, CONTACTD_INVALID_ARGUMENT, "positions");
        update.positions = positions;
        refuses_update(update, CONTACTD_INVALID_ARGUMENT, "indices");
        update.indices = triangles;
        update.n_indices = UINT64_MAX;
        refuses_update(update, CONTACTD_OUT_OF_RANGE, "n_indices");
        update.n_indices = 2;
        update.count = UINT64_MAX;
        refuses_update(update, CONTACTD_OUT_OF_RANGE, "count");
    }
    assert_int_equal(contactd_step(client, scene, NULL, 0, NULL, &result), CONTACTD_OK);
    assert_non_null(result);
}

static void test_snapshots(void **state) {
    (void)state;
    contactd_snapshot_options options;
    const void *png;
    size_t size;
    contactd_snapshot_options_init(NULL);
    contactd_snapshot_options_init(&options);
    NULL_IS_REFUSED(contactd_snapshot(client, scene, &options, NULL, &size), "png");
    NULL_IS_REFUSED(contactd_snapshot(client, scene, &options, &png, NULL), "size");
    NULL_IS_REFUSED(contactd_snapshot_by_id(client, 1, &options, NULL, &size), "png");
    NULL_IS_REFUSED(contactd_snapshot_by_id(client, 1, &options, &png, NULL), "size");
    blames(contactd_snapshot(client, 0, &options, &png, &size), CONTACTD_NOT_FOUND, "scene");
    options.contact[0] = 99;
    blames(contactd_snapshot(client, scene, &options, &png, &size), CONTACTD_NOT_FOUND, "body");
    options.cookie = 0;
    NULL_IS_REFUSED(contactd_snapshot(client, scene, &options, &png, &size), "options");
    NULL_IS_REFUSED(contactd_snapshot_by_id(client, 1, &options, &png, &size), "options");
}

static void test_names_and_products(void **state) {
    (void)state;
    const int numbers[] = {-1, 99, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        assert_non_null(contactd_code_name((contactd_code)numbers[i]));
        assert_non_null(contactd_code_text((contactd_code)numbers[i]));
        assert_non_null(contactd_warning_name((contactd_warning_code)numbers[i]));
        assert_non_null(contactd_warning_text((contactd_warning_code)numbers[i]));
        assert_string_equal(contactd_phase_name(numbers[i]), "");
    }
    const contactd_contact contact = {.bodies = {1, 2}};
    const double *in[2] = {NULL, NULL};
    double *out[2] = {NULL, NULL};
    assert_int_equal(contactd_stiffness_product(NULL, 1, in, out), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_stiffness_product(&contact, 1, NULL, out), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_stiffness_product(&contact, 1, in, NULL), CONTACTD_INVALID_ARGUMENT);
    const contactd_contact exact = {.bodies = {1, 2}, .volume_lower = NAN, .volume_upper = NAN};
    assert_int_equal(contactd_stiffness_product(&exact, 1, in, out), CONTACTD_OK);
    /* voxtree: an interval, and no gradient of vertices */
    assert_int_equal(contactd_stiffness_product(&contact, 1, in, out), CONTACTD_UNSUPPORTED);
    contactd_contact of_trees[] = {contact};
    const contactd_result estimated = {.n_contacts = 1, .contacts = of_trees, .method = "voxtree"};
    assert_int_equal(contactd_stiffness_products(client, &estimated, 1, NULL, 0, 1), CONTACTD_UNSUPPORTED);
    const contactd_result empty = {0};
    NULL_IS_REFUSED(contactd_stiffness_products(client, NULL, 1, NULL, 0, 1), "result");
    NULL_IS_REFUSED(contactd_stiffness_products(client, &empty, 1, NULL, 1, 1), "bodies");
    contactd_hessian_product(NULL, &contact, 0, out);
    contactd_hessian_product(&empty, NULL, 0, out);
    contactd_hessian_product(&empty, &contact, 0, NULL);
    contactd_hessian_product(&empty, &contact, 0, out);
    assert_true(contactd_target_volume(NULL, 1) == 0);
    contactd_overlap overlap;
    NULL_IS_REFUSED(contactd_find_overlap(client, 1, NULL, 1, NULL, NULL, NULL), "out");
    blames(contactd_find_overlap(client, 99, NULL, 99, NULL, NULL, &overlap), CONTACTD_NOT_FOUND, "mesh");
}

/* The fleet's last error is the code and the field. */
static void fleet_blames(const contactd_fleet *fleet, contactd_code code, contactd_code expected, const char *field) {
    assert_int_equal(code, expected);
    assert_int_equal(contactd_fleet_last_error(fleet)->code, expected);
    assert_string_equal(contactd_fleet_last_error(fleet)->field, field);
}

static void test_fleets(void **state) {
    (void)state;
    contactd_fleet *fleet = NULL;
    contactd_fleet_options options = {0};
    contactd_error error;
    contactd_fleet_mesh kept;
    contactd_client *one;
    contactd_scene scene;
    contactd_mesh mesh;
    const contactd_fleet_server *list;
    size_t n;
    const contactd_code refused = CONTACTD_INVALID_ARGUMENT;
    contactd_fleet_options_init(NULL);
    assert_int_equal(contactd_fleet_open(&options, &fleet, &error), refused); /* not filled */
    contactd_fleet_options_init(&options);
    assert_int_equal(contactd_fleet_open(NULL, &fleet, &error), refused);
    assert_int_equal(contactd_fleet_open(&options, NULL, &error), refused);
    options.connections = 1025;
    assert_int_equal(contactd_fleet_open(&options, &fleet, &error), refused);
    assert_string_equal(error.field, "connections");
    options.connections = 1;
    options.placement = (contactd_placement)9;
    assert_int_equal(contactd_fleet_open(&options, &fleet, &error), refused);
    assert_string_equal(error.field, "placement");
    options.placement = CONTACTD_PLACE_FEWEST;
    assert_null(fleet);
    assert_int_equal(contactd_fleet_look(NULL, NULL), refused);
    assert_int_equal(contactd_fleet_last_error(NULL)->code, refused);
    contactd_fleet_close(NULL);
    contactd_fleet_close(&fleet);

    options.client.server = server->endpoint;
    assert_int_equal(contactd_fleet_open(&options, &fleet, &error), CONTACTD_OK);
    fleet_blames(fleet, contactd_fleet_register_mesh(fleet, "", NULL, 4, NULL, 4, NULL, &kept), refused, "positions");
    fleet_blames(fleet, contactd_fleet_register_mesh(fleet, "", NULL, 4, NULL, 4, NULL, NULL), refused, "out");
    fleet_blames(fleet, contactd_fleet_register_mesh_f64(fleet, "", NULL, 4, NULL, 4, NULL, &kept), refused,
                 "positions");
    fleet_blames(fleet, contactd_fleet_register_mesh_f64(fleet, "", NULL, 4, NULL, 4, NULL, NULL), refused, "out");
    fleet_blames(fleet, contactd_fleet_remove_mesh(fleet, 0), CONTACTD_NOT_FOUND, "mesh");
    fleet_blames(fleet, contactd_fleet_remove_mesh(fleet, 1), CONTACTD_NOT_FOUND, "mesh");
    assert_int_equal(contactd_fleet_remove_mesh(NULL, 1), refused);
    fleet_blames(fleet, contactd_fleet_register_mesh_file(fleet, "/nowhere", &kept), refused, "path");
    fleet_blames(fleet, contactd_fleet_register_mesh_file(fleet, "/nowhere", NULL), refused, "out");
    fleet_blames(fleet, contactd_fleet_open_scene(fleet, NULL, NULL, NULL, &scene), refused, "client");
    fleet_blames(fleet, contactd_fleet_open_scene(fleet, NULL, NULL, &one, NULL), refused, "scene");
    fleet_blames(fleet, contactd_fleet_get_mesh(fleet, 1, client, &mesh), refused, "client"); /* not the fleet's */
    fleet_blames(fleet, contactd_fleet_get_mesh(fleet, 1, client, NULL), refused, "out");
    fleet_blames(fleet, contactd_fleet_list_servers(fleet, &list, NULL), refused, "n");
    fleet_blames(fleet, contactd_fleet_list_servers(fleet, NULL, &n), refused, "out");
    assert_int_equal(contactd_fleet_open_scene(fleet, NULL, NULL, &one, &scene), CONTACTD_OK);
    fleet_blames(fleet, contactd_fleet_get_mesh(fleet, 1, one, &mesh), CONTACTD_NOT_FOUND, "mesh");
    contactd_fleet_close(&fleet);
    assert_null(fleet);
}

static void test_shapes(void **state) {
    (void)state;
    const contactd_shape ball = {.kind = CONTACTD_SPHERE, .size = {1}};
    const double heights[4] = {0}, spacing[2] = {1, 1};
    contactd_mesh out_mesh;
    contactd_body out_body;
    assert_int_equal(contactd_register_shape(NULL, &ball, &out_mesh), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_add_shape(NULL, scene, &ball, NULL, &out_body), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_register_height_field(NULL, heights, 2, 2, spacing, &out_mesh),
                     CONTACTD_INVALID_ARGUMENT);
    NULL_IS_REFUSED(contactd_register_shape(client, NULL, &out_mesh), "shape");
    NULL_IS_REFUSED(contactd_register_shape(client, &ball, NULL), "out");
    NULL_IS_REFUSED(contactd_add_shape(client, scene, NULL, NULL, &out_body), "shape");
    NULL_IS_REFUSED(contactd_add_shape(client, scene, &ball, NULL, NULL), "out");
    NULL_IS_REFUSED(contactd_register_height_field(client, NULL, 2, 2, spacing, &out_mesh), "heights");
    NULL_IS_REFUSED(contactd_register_height_field(client, heights, 2, 2, NULL, &out_mesh), "spacing");
    NULL_IS_REFUSED(contactd_register_height_field(client, heights, 2, 2, spacing, NULL), "out");
}

static void test_results(void **state) {
    (void)state;
    contactd_column column;
    NULL_IS_REFUSED(contactd_result_keep(client, NULL), "result");
    NULL_IS_REFUSED(contactd_result_release(client, NULL), "result");
    assert_int_equal(contactd_result_column(NULL, CONTACTD_COLUMN_VOLUME, &column), CONTACTD_INVALID_ARGUMENT);
}

static void test_many_scenes(void **state) {
    (void)state;
    contactd_many many;
    contactd_many_result *result = NULL;
    contactd_column column;
    contactd_many_init(NULL);
    contactd_many_init(&many);
    assert_int_equal(contactd_step_many(NULL, &many, &result), CONTACTD_INVALID_ARGUMENT);
    NULL_IS_REFUSED(contactd_step_many(client, NULL, &result), "many");
    NULL_IS_REFUSED(contactd_step_many(client, &many, NULL), "result");
    assert_int_equal(contactd_many_column(NULL, CONTACTD_COLUMN_VOLUME, &column), CONTACTD_INVALID_ARGUMENT);
    contactd_many_result_free(NULL);
    contactd_many_result_free(&result);
    const contactd_scene twice[2] = {scene, scene}, none = 77;
    contactd_scene copies[2] = {5, 5};
    NULL_IS_REFUSED(contactd_reset_scenes(client, NULL, 1), "scenes");
    NULL_IS_REFUSED(contactd_close_scenes(client, NULL, 1), "scenes");
    NULL_IS_REFUSED(contactd_copy_scene(client, scene, 1, NULL), "out");
    blames(contactd_reset_scenes(client, twice, 2), CONTACTD_INVALID_ARGUMENT, "scenes");
    blames(contactd_close_scenes(client, twice, 2), CONTACTD_INVALID_ARGUMENT, "scenes");
    blames(contactd_reset_scenes(client, &none, 1), CONTACTD_NOT_FOUND, "scene");
    blames(contactd_copy_scene(client, none, 2, copies), CONTACTD_NOT_FOUND, "scene");
    assert_true(copies[0] == 0 && copies[1] == 0);
    blames(contactd_copy_scene(client, scene, WIRE_MOST_SCENES + 1, copies), CONTACTD_TOO_LARGE, "n");
    blames(contactd_close_scenes(client, twice, WIRE_MOST_SCENES + 1), CONTACTD_TOO_LARGE, "n");
    const double poses[2][12] = {{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}};
    const contactd_mesh meshes[3] = {1, 1, 99};
    contactd_body added[2] = {5, 5};
    contactd_body_options wrong = {0};
    NULL_IS_REFUSED(contactd_add_bodies(client, scene, NULL, 1, poses, 2, NULL, added), "meshes");
    NULL_IS_REFUSED(contactd_add_bodies(client, scene, meshes, 1, NULL, 2, NULL, added), "poses");
    NULL_IS_REFUSED(contactd_add_bodies(client, scene, meshes, 1, poses, 2, NULL, NULL), "out");
    blames(contactd_add_bodies(client, none, meshes, 1, poses, 2, NULL, added), CONTACTD_NOT_FOUND, "scene");
    assert_true(added[0] == 0 && added[1] == 0);
    blames(contactd_add_bodies(client, scene, meshes, 3, poses, 2, NULL, added), CONTACTD_WRONG_LENGTH, "meshes");
    blames(contactd_add_bodies(client, scene, meshes + 1, 2, poses, 2, NULL, added), CONTACTD_NOT_FOUND, "mesh");
    blames(contactd_add_bodies(client, scene, meshes, 1, poses, 2, &wrong, added), CONTACTD_INVALID_ARGUMENT,
           "options");
    blames(contactd_add_bodies(client, scene, meshes, 1, poses, WIRE_MOST_BODIES + 1, NULL, added), CONTACTD_TOO_LARGE,
           "n");
    assert_int_equal(contactd_add_bodies(client, scene, NULL, SIZE_MAX / 2, NULL, 0, NULL, NULL), CONTACTD_OK);
    assert_int_equal(contactd_reset_scenes(client, NULL, 0), CONTACTD_OK);
    assert_int_equal(contactd_close_scenes(client, NULL, 0), CONTACTD_OK);
    assert_int_equal(contactd_copy_scene(client, scene, 0, NULL), CONTACTD_OK);
}

/* This file names every exported function. */
static void test_all_functions_are_here(void **state) {
    (void)state;
    static char text[1 << 16];
    FILE *file = fopen("tests/unit/client_c/test_arguments.c", "r");
    FILE *exports = fopen("client_c/contactd.exports", "r");
    if (!file || !exports) skip(); /* not run from the root of the tree */
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    char name[128];
    int n = 0;
    for (char call[130]; fscanf(exports, "%126s", name) == 1; n++) {
        snprintf(call, sizeof call, "%s(", name);
        if (!strstr(text, call)) fail_msg("%s is not tested", name);
    }
    assert_true(n > 40);
    fclose(file);
    fclose(exports);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_client),
        cmocka_unit_test(test_connecting),
        cmocka_unit_test(test_client),
        cmocka_unit_test(test_meshes),
        cmocka_unit_test(test_scenes),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_half_spaces),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_snapshots),
        cmocka_unit_test(test_names_and_products),
        cmocka_unit_test(test_fleets),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_many_scenes),
        cmocka_unit_test(test_all_functions_are_here),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
