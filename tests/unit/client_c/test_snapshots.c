/* test_snapshots.c - what the C client asks for when it asks for a picture: the server's own numbers of scene and
 * bodies, and nothing for what was not given. */
#include <math.h>
#include <unistd.h>

#include "client_c/contactd.h"
#include "tests/unit/client_c/fake_server.h"
#include "tests/unit/unit.h"

static const float positions[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
static const uint32_t triangles[12] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3};

typedef struct world {
    fake_server *server;
    contactd_client *client;
    contactd_scene scene, other;
    contactd_body bodies[2];
} world;

static int set_up(void **state) {
    world *w = calloc(1, sizeof *w);
    w->server = fake_start();
    contactd_options options;
    contactd_mesh mesh;
    contactd_options_init(&options);
    options.server = w->server->endpoint;
    assert_int_equal(contactd_connect(&options, &w->client, NULL), CONTACTD_OK);
    assert_int_equal(contactd_register_mesh(w->client, "tetra", positions, 4, triangles, 4, &mesh), CONTACTD_OK);
    assert_int_equal(contactd_open_scene(w->client, "other", NULL, &w->other), CONTACTD_OK);
    assert_int_equal(contactd_open_scene(w->client, "mine", NULL, &w->scene), CONTACTD_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(contactd_add_body(w->client, w->scene, mesh, NULL, &w->bodies[i]), CONTACTD_OK);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    world *w = *state;
    contactd_close(&w->client);
    fake_stop(w->server);
    free(w);
    return 0;
}

static wire_get_snapshot asked(world *w, const contactd_snapshot_options *options) {
    const void *png;
    size_t size;
    wire_get_snapshot request;
    if (contactd_snapshot(w->client, w->scene, options, &png, &size))
        fail_msg("%s", contactd_last_error(w->client)->message);
    assert_int_equal(size, sizeof request);
    memcpy(&request, png, size);
    return request;
}

static void nothing_is_given(void **state) {
    world *w = *state;
    contactd_snapshot_options options;
    contactd_snapshot_options_init(&options);
    for (int given = 0; given < 2; given++) {
        wire_get_snapshot r = asked(w, given ? &options : NULL);
        assert_true(r.scene > w->scene); /* the server's number */
        assert_int_equal(r.width | r.height | r.contact[0] | r.contact[1] | r.show | r.resolution, 0);
        assert_false(r.has_up || r.has_eye || r.has_target || r.has_background);
        assert_true(isnan(r.azimuth) && isnan(r.elevation) && isnan(r.zoom) && isnan(r.field_of_view) &&
                    isnan(r.opacity));
    }
}

static void everything_is_given(void **state) {
    world *w = *state;
    const double up[3] = {0, 1, 0}, eye[3] = {1, 2, 3}, target[3] = {4, 5, 6}, background[4] = {0.1, 0.2, 0.3, 0.4};
    contactd_snapshot_options o;
    contactd_snapshot_options_init(&o);
    o.width = 64;
    o.height = 48;
    o.contact[0] = w->bodies[1];
    o.contact[1] = w->bodies[0];
    o.show = CONTACTD_SHOW_SAMPLES;
    o.resolution = 9;
    o.azimuth = 1, o.elevation = 2, o.zoom = 3, o.field_of_view = 4, o.opacity = 0.5;
    o.up = up, o.eye = eye, o.target = target, o.background = background;
    for (int round = 0; round < 2; round++) { /* and again with a server that has forgotten everything */
        wire_get_snapshot r = asked(w, &o);
        assert_true(r.width == 64 && r.height == 48 && r.show == 2 && r.resolution == 9);
        assert_true(r.contact[0] > 1u << 20 && r.contact[0] == r.contact[1] + 1); /* the fake counts from there */
        assert_true(r.azimuth == 1 && r.elevation == 2 && r.zoom == 3 && r.field_of_view == 4 && r.opacity == 0.5);
        assert_true(r.has_up && r.has_eye && r.has_target && r.has_background);
        assert_memory_equal(r.up, up, sizeof up);
        assert_memory_equal(r.eye, eye, sizeof eye);
        assert_memory_equal(r.target, target, sizeof target);
        assert_memory_equal(r.background, background, sizeof background);
        atomic_store(&w->server->forget_session, true);
        while (atomic_load(&w->server->forget_session)) usleep(1000);
    }
    const void *png;
    size_t size;
    assert_int_equal(contactd_snapshot_by_id(w->client, 12345, &o, &png, &size), CONTACTD_NOT_FOUND);
    assert_null(png);
}

static void mistakes(void **state) {
    world *w = *state;
    contactd_snapshot_options o;
    const void *png = &o;
    size_t size;
    contactd_snapshot_options_init(&o);
    o.cookie++;
    assert_int_equal(contactd_snapshot(w->client, w->scene, &o, &png, &size), CONTACTD_INVALID_ARGUMENT);
    assert_string_equal(contactd_last_error(w->client)->field, "options");
    contactd_snapshot_options_init(&o);
    o.contact[0] = w->bodies[0];
    o.contact[1] = 77;
    assert_int_equal(contactd_snapshot(w->client, w->scene, &o, &png, &size), CONTACTD_NOT_FOUND);
    assert_string_equal(contactd_last_error(w->client)->object, "body 77");
    assert_int_equal(contactd_snapshot(w->client, 99, NULL, &png, &size), CONTACTD_NOT_FOUND);
    assert_int_equal(contactd_close_scene(w->client, w->scene), CONTACTD_OK);
    assert_int_equal(contactd_snapshot(w->client, w->scene, NULL, &png, &size), CONTACTD_STALE_HANDLE);
    assert_true(!png && !size);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(nothing_is_given), TEST(everything_is_given), TEST(mistakes)};
    return cmocka_run_group_tests_name("client snapshots", tests, NULL, NULL);
}
