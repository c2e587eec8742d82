/* test_client.c - the C client against a server that loses answers, sessions, meshes and its life: what was asked for
 * is done once, the state comes back, every call ends in time, and errors name what is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <time.h>

#include "client_c/contactd.h"
#include "tests/unit/client_c/fake_server.h"

enum { PATIENCE_MS = 60000 }; /* for what comes at once unless the machine is busy */

static const float positions[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
static const uint32_t triangles[12] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3};

typedef struct world {
    fake_server *server;
    contactd_client *client;
    contactd_mesh mesh;
    contactd_scene scene;
    contactd_body soft, hard;
    double soft_sum, hard_sum; /* what the server should make of the bodies' state */
} world;

static void ok(contactd_client *client, contactd_code code) {
    if (code == CONTACTD_OK) return;
    const contactd_error *e = contactd_last_error(client);
    fail_msg("%s: %s.%s: %s", contactd_code_name(code), e->object, e->field, e->message);
}

static contactd_client *connect_to(const fake_server *server, uint32_t timeout_ms, uint32_t resend_ms, bool keep) {
    contactd_options options;
    contactd_options_init(&options);
    options.server = server->endpoint;
    options.name = "test";
    options.timeout_ms = timeout_ms;
    options.resend_ms = resend_ms;
    options.keep_meshes = keep;
    contactd_client *client;
    contactd_error error;
    if (contactd_connect(&options, &client, &error)) fail_msg("%s: %s", error.field, error.message);
    return client;
}

static void open_world(world *w) {
    contactd_body_options rigid;
    contactd_body_options_init(&rigid);
    rigid.rigid = true;
    ok(w->client, contactd_register_mesh(w->client, "tetra", positions, 4, triangles, 4, &w->mesh));
    ok(w->client, contactd_open_scene(w->client, "drop", NULL, &w->scene));
    ok(w->client, contactd_add_body(w->client, w->scene, w->mesh, NULL, &w->soft));
    ok(w->client, contactd_add_body(w->client, w->scene, w->mesh, &rigid, &w->hard));
    w->soft_sum = 0.5 * 78;
    w->hard_sum = 1 + 6 + 11;
}

static int set_up(void **state) {
    world *w = calloc(1, sizeof *w);
    if (!w) return -1;
    w->server = fake_start();
    w->client = connect_to(w->server, PATIENCE_MS, 1000, true);
    open_world(w);
    *state = w;
    return 0;
}
static int tear_down(void **state) {
    world *w = *state;
    contactd_close(&w->client);
    assert_null(w->client);
    fake_stop(w->server);
    free(w);
    return 0;
}

/* Moves the rigid body by x and checks that the server knows the whole state. */
static void step_by_pose(world *w, double x) {
    double pose[12] = {1, 0, 0, x, 0, 1, 0, 0, 0, 0, 1, 0};
    contactd_update update = contactd_move(w->hard, pose);
    const contactd_result *result;
    ok(w->client, contactd_step(w->client, w->scene, &update, 1, NULL, &result));
    w->hard_sum = 1 + 6 + 11 + 4 * x;
    assert_int_equal(result->n_contacts, 1);
    assert_true(fabs(result->contacts[0].volume - w->soft_sum - w->hard_sum) < 1e-9);
    assert_int_equal(result->contacts[0].bodies[0], w->soft);
    assert_int_equal(result->contacts[0].bodies[1], w->hard);
}

/* One vertex of the soft body, so that a restored state is partly known. */
static void step_by_vertex(world *w, uint32_t vertex, double x) {
    double to[3] = {x, x, x};
    contactd_update update = {.body = w->soft,
                              .kind = CONTACTD_INDEXED,
                              .positions = to,
                              .float64 = true,
                              .count = 1,
                              .indices = &vertex,
                              .n_indices = 1};
    const contactd_result *result;
    ok(w->client, contactd_step(w->client, w->scene, &update, 1, NULL, &result));
    w->soft_sum += (x - 0.5) * (9 * vertex + 6);
    assert_true(fabs(result->contacts[0].volume - w->soft_sum - w->hard_sum) < 1e-9);
}

static uint32_t recoveries(contactd_client *client) {
    contactd_server server;
    ok(client, contactd_get_server(client, &server));
    return server.recoveries;
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Gives an order and waits until the server took it. */
static void order(atomic_bool *what) {
    struct timespec t = {0, 1000000};
    atomic_store(what, true);
    while (atomic_load(what)) nanosleep(&t, NULL);
}

/* ---- good weather ---- */

static void results_are_complete(void **state) {
    world *w = *state;
    const contactd_result *result;
    ok(w->client, contactd_step(w->client, w->scene, NULL, 0, NULL, &result));
    const contactd_contact *c = &result->contacts[0];
    assert_int_equal(c->sparse[0].n, 2);
    assert_int_equal(c->sparse[1].n, 1);
    assert_int_equal(c->sparse[0].vertices[1], 2);
    assert_int_equal(c->sparse[1].vertices[0], 1);
    assert_true(c->sparse[0].gradient[5] == 6 && c->sparse[1].gradient[0] == 7 && c->sparse[1].weights[0] == 0.125);
    assert_int_equal((uintptr_t)c->sparse[0].gradient % 8, 0);
    assert_null(c->sparse[0].forces);
    assert_true(isnan(c->error_bound));
    assert_true(c->index == 4 && c->max_winding == 3);
    assert_string_equal(result->method, "ldi");
    assert_true(result->timings_us[3] == 4 && result->latency_us > 0);
    assert_string_equal(contactd_phase_name(3), "raster");

    /* K d = -k g (g . d): g.d = 1*1 + 2*1 + 3*1 (vertex 0) + (4+5+6) (vertex 2) + (7+8+9)*2 (vertex 1 of b) */
    double in_a[12], in_b[12], out_a[12] = {0}, out_b[12] = {0};
    for (int i = 0; i < 12; i++) in_a[i] = 1, in_b[i] = 2;
    contactd_stiffness_product(c, 10, (const double *const[2]){in_a, in_b}, (double *const[2]){out_a, out_b});
    double product = 6 + 15 + 48;
    assert_true(out_a[0] == -10 * product && out_a[8] == -60 * product && out_a[3] == 0 && out_b[4] == -80 * product);

    contactd_step_options options;
    contactd_step_options_init(&options);
    options.want = 0;
    ok(w->client, contactd_step(w->client, w->scene, NULL, 0, &options, &result));
    assert_int_equal(result->contacts[0].sparse[0].n, 0);
    assert_null(result->contacts[0].sparse[0].gradient);
    contactd_geometry geometry;
    ok(w->client, contactd_get_mesh_geometry(w->client, w->mesh, &geometry));
    assert_true(geometry.n_vertices == 3 && geometry.n_triangles == 1 && geometry.positions[1] == 2);
    double us = 0;
    ok(w->client, contactd_ping(w->client, &us));
    assert_true(us > 0);
}

/* Directions of both bodies reach the server, with large arrays and small ones, and products come back. */
static void products_are_of_directions(void **state) {
    world *w = *state;
    const contactd_result *r;
    contactd_step_options options;
    double values[2][12];
    for (int i = 0; i < 24; i++) values[i / 12][i % 12] = i;
    const contactd_direction parts[] = {{.body = w->soft, .index = 1, .values = values[1]},
                                        {.body = w->hard, .index = 0, .twist = {1, 2, 3, 4, 5, 6}},
                                        {.body = w->soft, .index = 0, .values = values[0]}};
    contactd_step_options_init(&options);
    options.want = CONTACTD_WANT_INERTIA;
    options.directions = parts;
    options.n_directions = 3;
    contactd_ticket ticket;
    ok(w->client, contactd_step_submit(w->client, w->scene, NULL, 0, &options, &ticket));
    values[0][6] = 99; /* was copied */
    ok(w->client, contactd_step_wait(w->client, ticket, &r));
    const contactd_contact *c = r->contacts;
    assert_int_equal(r->n_directions, 2);
    assert_true(c->products[0].n == 1 && c->products[0].vertices[0] == 2);
    assert_true(c->products[1].n == 1 && c->products[1].vertices[0] == 1);
    for (int k = 0; k < 3; k++) {
        assert_true(c->products[0].values[k] == 6 + k && c->products[0].values[3 + k] == 18 + k);
        assert_true(c->products[1].values[k] == 1 + k && c->products[1].values[3 + k] == 0);
    }
    for (int k = 0; k < 6; k++)
        assert_true(c->generalized_product[6 + k] == 1 + k && c->generalized_product[12 + 6 + k] == 0);
    assert_true(c->inertia[1][1] == 2 && c->inertia[0][1] == 4 && c->inertia[2][1] == 5 && c->inertia[0][2] == 6);
    double out_a[12] = {1}, out_b[12] = {0};
    contactd_hessian_product(r, c, 1, (double *const[2]){out_a, NULL});
    contactd_hessian_product(r, c, 0, (double *const[2]){NULL, out_b});
    assert_true(out_a[0] == 1 && out_a[6] == 18 && out_a[8] == 20 && out_b[3] == 1 && out_b[5] == 3 && out_b[6] == 0);
    contactd_hessian_product(r, c, 2, (double *const[2]){out_a, out_b}); /* there is none */
    assert_true(out_a[6] == 18 && out_b[5] == 3);
    ok(w->client, contactd_step(w->client, w->scene, NULL, 0, NULL, &r));
    assert_true(r->n_directions == 0 && r->contacts[0].products[0].n == 0 && !r->contacts[0].generalized_product);
    assert_true(r->contacts[0].inertia[1][1] == 0);
}

static void refused(world *w, contactd_code expected, contactd_code code, const char *object, const char *field);

/* Over all contacts: a pair, a contact of a body with itself, and one of a body that is not listed. */
static void products_of_many(void **state) {
    world *w = *state;
    static const uint32_t vertices[] = {0, 2, 1, 2};
    static const double gradient[] = {1, 0, 2, 0, 2, 0, 0, -3, 1, 4, 0, -1};
    const contactd_sparse low = {2, vertices, gradient, NULL, NULL}, high = {2, vertices + 2, gradient + 6, NULL, NULL};
    const contactd_contact contacts[] = {{.bodies = {1, 3}, .sparse = {low, high}},
                                         {.bodies = {3, 3}, .sparse = {high, low}},
                                         {.bodies = {2, 3}, .sparse = {low, low}}};
    const contactd_result result = {.contacts = contacts, .n_contacts = 3};
    enum { MANY = 11, N = 9 };
    double in[2][MANY][N], out[2][MANY][N];
    for (int b = 0; b < 2; b++)
        for (int v = 0; v < MANY; v++)
            for (int k = 0; k < N; k++) in[b][v][k] = ((v * 9 + k * 7 + b * 5) % 13 - 6) / 4.0, out[b][v][k] = 1;
    contactd_body_vectors bodies[] = {{1, 3, in[0][0], out[0][0]}, {3, 3, in[1][0], out[1][0]}};
    ok(w->client, contactd_stiffness_products(w->client, &result, 2, bodies, 2, MANY));
    static const double still[N];
    for (int v = 0; v < MANY; v++) {
        double expected[3][N] = {{0}};
        const double *const moved[] = {in[0][v], still, in[1][v]};
        for (int c = 0; c < 3; c++) {
            const contactd_body *of = contacts[c].bodies;
            contactd_stiffness_product(&contacts[c], 2, (const double *[]){moved[of[0] - 1], moved[of[1] - 1]},
                                       (double *[]){expected[of[0] - 1], expected[of[1] - 1]});
        }
        for (int b = 0; b < 2; b++)
            for (int k = 0; k < N; k++) assert_true(fabs(out[b][v][k] - 1 - expected[2 * b][k]) < 1e-12);
    }
    contactd_client *c = w->client;
    refused(w, CONTACTD_INVALID_ARGUMENT,
            contactd_stiffness_products(c, &result, 2, (contactd_body_vectors[]){bodies[1], bodies[0]}, 2, 1), "result",
            "bodies");
    bodies[1].vertices = 2;
    refused(w, CONTACTD_WRONG_LENGTH, contactd_stiffness_products(c, &result, 2, bodies, 2, 1), "result", "vertices");
    const contactd_contact framed[] = {{.bodies = {1, 3}}};
    const contactd_result without = {.contacts = framed, .n_contacts = 1};
    refused(w, CONTACTD_INVALID_ARGUMENT, contactd_stiffness_products(c, &without, 2, bodies, 2, 1), "result", "want");
    refused(w, CONTACTD_INVALID_ARGUMENT, contactd_stiffness_products(c, NULL, 2, bodies, 2, 1), "result", "result");
    refused(w, CONTACTD_INVALID_ARGUMENT, contactd_stiffness_products(c, &result, 2, NULL, 2, 1), "result", "bodies");
    assert_int_equal(contactd_stiffness_products(NULL, &result, 2, bodies, 2, 1), CONTACTD_INVALID_ARGUMENT);
}

static void warnings_name_bodies(void **state) {
    world *w = *state;
    const contactd_result *r;
    for (int warn = 1; warn >= 0; warn--) {
        atomic_store(&w->server->warn, warn);
        ok(w->client, contactd_step(w->client, w->scene, NULL, 0, NULL, &r));
        assert_int_equal(r->n_warnings, 2 * warn);
        if (!warn) continue;
        assert_int_equal(r->warnings[0].code, 77);
        assert_string_equal(contactd_warning_name(r->warnings[0].code), "UNKNOWN");
        assert_int_equal(r->warnings[1].code, CONTACTD_WARNING_BODY_INVERTED);
        assert_string_equal(contactd_warning_name(r->warnings[1].code), "BODY_INVERTED");
        for (int b = 0; b < 2; b++) assert_int_equal(r->warnings[b].body, r->contacts[0].bodies[b]);
        assert_true(r->warnings[1].value == -0.25);
    }
}

/* A body with itself, vertices 0 1 in one part and 1 2 in the other: one array is enough, and both are the same. */
static void a_body_with_itself(void **state) {
    (void)state;
    static const uint32_t vertices[] = {0, 1, 1, 2};
    static const double gradient[] = {1, 0, 0, 0, 2, 0, 0, -3, 1, 4, 0, 0};
    const contactd_contact self = {
        .bodies = {3, 3}, .sparse = {{2, vertices, gradient, NULL, NULL}, {2, vertices + 2, gradient + 6, NULL, NULL}}};
    const double g[9] = {1, 0, 0, 0, -1, 1, 4, 0, 0}, d[9] = {0.5, 1, 2, -1, 3, 0.25, 1.5, 7, 8};
    double along = 0;
    for (int k = 0; k < 9; k++) along += g[k] * d[k];
    for (int way = 0; way < 3; way++) {
        double out[9] = {0};
        const double *const in[2] = {way == 1 ? NULL : d, way == 0 ? NULL : d};
        double *const to[2] = {way == 1 ? NULL : out, way == 0 ? NULL : out};
        contactd_stiffness_product(&self, 2, in, to);
        for (int k = 0; k < 9; k++) assert_true(fabs(out[k] + 2 * along * g[k]) < 1e-12);
    }
    contactd_contact pair = self;
    pair.bodies[1] = 4; /* of two bodies, one that is left out is left out */
    double out[9] = {0};
    contactd_stiffness_product(&pair, 2, (const double *const[2]){d, NULL}, (double *const[2]){out, NULL});
    assert_true(out[0] == -2 * 6.5 && out[4] == -4 * 6.5 && out[5] == 0 && out[6] == 0);
}

static void updates_of_every_kind(void **state) {
    world *w = *state;
    step_by_pose(w, 0.25);
    step_by_vertex(w, 2, 0.75);
    float all[12];
    for (int i = 0; i < 12; i++) all[i] = (float)i;
    contactd_update update = contactd_deform(w->soft, all, 4);
    const contactd_result *result;
    ok(w->client, contactd_step(w->client, w->scene, &update, 1, NULL, &result));
    w->soft_sum = 0;
    for (int i = 0; i < 12; i++) w->soft_sum += i * (i + 1);
    assert_true(result->contacts[0].volume == w->soft_sum + w->hard_sum);
    uint32_t ranges[4] = {3, 1, 0, 2};
    float part[9] = {1, 1, 1, 2, 2, 2, 3, 3, 3};
    update = (contactd_update){
        .body = w->soft, .kind = CONTACTD_RANGES, .positions = part, .count = 3, .indices = ranges, .n_indices = 4};
    ok(w->client, contactd_step(w->client, w->scene, &update, 1, NULL, &result));
    const float expected[12] = {2, 2, 2, 3, 3, 3, 6, 7, 8, 1, 1, 1};
    w->soft_sum = 0;
    for (int i = 0; i < 12; i++) w->soft_sum += expected[i] * (i + 1);
    assert_true(result->contacts[0].volume == w->soft_sum + w->hard_sum);
    order(&w->server->restart);
    step_by_pose(w, 3); /* ranges are in the mirror too */
    assert_int_equal(recoveries(w->client), 1);
}

static void steps_are_pipelined(void **state) {
    world *w = *state;
    contactd_ticket tickets[12];
    const contactd_result *result;
    atomic_store(&w->server->slow_ms, 2);
    for (int k = 0; k < 12; k++) {
        double pose[12] = {1, 0, 0, k, 0, 1, 0, 0, 0, 0, 1, 0};
        contactd_update update = contactd_move(w->hard, pose);
        ok(w->client, contactd_step_submit(w->client, w->scene, &update, 1, NULL, &tickets[k]));
    }
    for (int k = 0; k < 12; k++) {
        int i = k ^ 1; /* not in order */
        ok(w->client, contactd_step_wait(w->client, tickets[i], &result));
        assert_true(result->contacts[0].volume == w->soft_sum + 18 + 4 * i);
    }
    assert_int_equal(atomic_load(&w->server->computed), 12);
    assert_true(atomic_load(&w->server->awaited) > 1);
    assert_int_equal(contactd_step_wait(w->client, tickets[3], &result), CONTACTD_NOT_FOUND);
    step_by_pose(w, 1); /* with all answers there */
    assert_int_equal(atomic_load(&w->server->awaited), 1);
}

/* ---- bad weather ---- */

static void a_restart_is_not_seen(void **state) {
    world *w = *state;
    contactd_settings settings;
    contactd_settings_init(&settings);
    for (int i = 0; i < 3; i++) settings.resolution[i] = 32;
    ok(w->client, contactd_configure(w->client, w->scene, &settings));
    contactd_body gone, last;
    ok(w->client, contactd_add_body(w->client, w->scene, w->mesh, NULL, &gone));
    ok(w->client, contactd_remove_body(w->client, w->scene, gone));
    step_by_pose(w, 0.5);
    step_by_vertex(w, 1, 0.25);
    for (int k = 1; k <= 3; k++) {
        atomic_store(&w->server->away_ms, 50 * k);
        order(&w->server->restart);
        step_by_pose(w, k);
        step_by_vertex(w, (const uint32_t[]){0, 2, 3}[k - 1], k);
    }
    assert_int_equal(recoveries(w->client), 3);
    contactd_scene_info info;
    ok(w->client, contactd_get_scene_info(w->client, w->scene, &info));
    assert_int_equal(info.settings.resolution[2], 32);
    contactd_body_options options;
    contactd_body_options_init(&options);
    options.ignore = &w->hard;
    options.n_ignore = 1;
    ok(w->client, contactd_add_body(w->client, w->scene, w->mesh, &options, &last));
    assert_int_equal(last, gone + 1); /* handles are not reused */
    assert_int_equal(contactd_remove_body(w->client, w->scene, gone), CONTACTD_STALE_HANDLE);
}

/* Positions in double are restored in double, also of a body that was given some in float, before or after. */
static void doubles_outlive_restarts(void **state) {
    world *w = *state;
    const contactd_result *result;
    float given[12];
    for (int i = 0; i < 12; i++) given[i] = 0.5f;
    contactd_update whole = contactd_deform(w->soft, given, 4);
    step_by_pose(w, 1);
    for (uint32_t v = 0; v < 3; v++) { /* some of the vertices are known at first, then all */
        step_by_vertex(w, v, 1.0 / 3 + v);
        order(&w->server->restart);
        step_by_pose(w, v);
        if (v == 1) {
            ok(w->client, contactd_step(w->client, w->scene, &whole, 1, NULL, &result));
            w->soft_sum = 0.5 * 78;
        }
    }
    assert_int_equal(recoveries(w->client), 3);
}

/* What an operator changes is told by the next step, and asked for again from a server that knows nothing. */
static void settings_in_force_are_told_and_kept(void **state) {
    world *w = *state;
    const contactd_result *result;
    const uint64_t key = atomic_load(&w->server->last_key);
    assert_true(key != 0);
    ok(w->client, contactd_step(w->client, w->scene, NULL, 0, NULL, &result));
    assert_int_equal(result->settings.method, CT_METHOD_AUTO);
    assert_int_equal(result->settings.allocation, CT_ALLOCATION_OPTIMAL);
    assert_int_equal(result->revision, 1);
    atomic_store(&w->server->configure, true);
    ok(w->client, contactd_step(w->client, w->scene, NULL, 0, NULL, &result));
    assert_int_equal(result->revision, 2);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(result->settings.method, CT_METHOD_LDI);
        assert_int_equal(result->settings.resolution[0], 7);
        assert_int_equal(result->settings.resolution[2], 9);
        order(&w->server->restart);
        ok(w->client, contactd_step(w->client, w->scene, NULL, 0, NULL, &result));
        assert_int_equal(result->revision, 2);
        assert_true(atomic_load(&w->server->last_key) == key);
    }
    assert_int_equal(recoveries(w->client), 2);
    /* A server that tells nothing leaves what was known. */
    atomic_store(&w->server->is_old, true);
    order(&w->server->restart);
    ok(w->client, contactd_step(w->client, w->scene, NULL, 0, NULL, &result));
    assert_int_equal(result->revision, 0);
    assert_int_equal(result->settings.resolution[1], 8);
    contactd_scene_info info;
    ok(w->client, contactd_get_scene_info(w->client, w->scene, &info));
    assert_int_equal(info.settings.resolution[0], 7);
    contactd_scene other;
    ok(w->client, contactd_open_scene(w->client, "other", NULL, &other));
    assert_true(atomic_load(&w->server->last_key) != key);
}

/* A body's wish for self-contact outlives a restart; a server too old for it is found out, and rid of the body. */
static void self_contact_is_asked_for(void **state) {
    world *w = *state;
    contactd_body_options options;
    contactd_body body, none;
    contactd_body_options_init(&options);
    assert_false(options.self_contact);
    options.self_contact = true;
    ok(w->client, contactd_add_body(w->client, w->scene, w->mesh, &options, &body));
    assert_int_equal(atomic_load(&w->server->self_added), 1);
    order(&w->server->restart);
    contactd_scene_info info;
    ok(w->client, contactd_get_scene_info(w->client, w->scene, &info));
    assert_int_equal(atomic_load(&w->server->self_added), 2);
    ok(w->client, contactd_remove_body(w->client, w->scene, body));
    atomic_store(&w->server->is_old, true);
    refused(w, CONTACTD_UNSUPPORTED, contactd_add_body(w->client, w->scene, w->mesh, &options, &none),
            "scene 1 \"drop\"", "self_contact");
    atomic_store(&w->server->is_old, false);
    step_by_pose(w, 0.25);
}

/* The fake server is as one that is too old to take hulls: it takes the triangles as they are and does not say how it closed
 * them. */
static void a_hull_that_was_not_taken_is_found_out(void **state) {
    world *w = *state;
    contactd_mesh_options options;
    contactd_mesh mesh;
    contactd_mesh_options_init(&options);
    options.closing = CONTACTD_CLOSING_HULL;
    refused(w, CONTACTD_UNSUPPORTED,
            contactd_register_mesh_with(w->client, "soup", positions, 4, triangles, 4, &options, &mesh), "mesh soup",
            "closing");
    options.closing = (contactd_closing)7;
    refused(w, CONTACTD_INVALID_ARGUMENT,
            contactd_register_mesh_with(w->client, "soup", positions, 4, triangles, 4, &options, &mesh), "mesh",
            "closing");
}

/* A body's new mesh outlives restarts, with the positions sent since; arrays of the old size are refused. */
static void a_mesh_is_replaced(void **state) {
    world *w = *state;
    static const float five[15] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1};
    contactd_mesh mesh;
    contactd_ticket ticket;
    const contactd_result *result;
    ok(w->client, contactd_register_mesh(w->client, "five", five, 5, triangles, 4, &mesh));
    step_by_vertex(w, 1, 0.25);
    contactd_update whole = contactd_deform(w->soft, positions, 4);
    ok(w->client, contactd_step_submit(w->client, w->scene, &whole, 1, NULL, &ticket)); /* of the old size, before */
    ok(w->client, contactd_replace_mesh(w->client, w->scene, w->soft, mesh));
    ok(w->client, contactd_step_wait(w->client, ticket, &result));
    w->soft_sum = 0.5 * 120;
    step_by_pose(w, 0.5);
    refused(w, CONTACTD_WRONG_LENGTH, contactd_step(w->client, w->scene, &whole, 1, NULL, &result), "body 1",
            "positions");
    step_by_vertex(w, 4, 0.25);
    order(&w->server->restart);
    step_by_pose(w, 1);
    step_by_vertex(w, 3, 2);
    assert_int_equal(recoveries(w->client), 1);
    order(&w->server->restart);
    ok(w->client, contactd_replace_mesh(w->client, w->scene, w->soft, w->mesh)); /* and back */
    w->soft_sum = 0.5 * 78;
    step_by_vertex(w, 2, 0.125);
    refused(w, CONTACTD_NOT_FOUND, contactd_replace_mesh(w->client, w->scene, 77, mesh), "body 77", "body");
    refused(w, CONTACTD_NOT_FOUND, contactd_replace_mesh(w->client, w->scene, w->soft, 77), "mesh 77", "mesh");
    ok(w->client, contactd_forget_mesh(w->client, mesh)); /* nothing uses it any more */
}

/* What was said of a pair is said again to a server that has forgotten it; what was taken back is not. */
static void materials_outlive_restarts(void **state) {
    world *w = *state;
    fake_server *server = w->server;
    const ct_material pair = {1e6, 0.25, 0.5, 0.75}, none = CT_MATERIAL_NONE;
    ok(w->client, contactd_set_material(w->client, w->scene, w->hard, w->soft, &pair));
    assert_int_equal(atomic_load(&server->materials), 1);
    const wire_set_material said = fake_material(server);
    assert_memory_equal(&said.material, &pair, sizeof pair);
    order(&server->restart);
    step_by_pose(w, 1);
    assert_int_equal(atomic_load(&server->materials), 2);
    const wire_set_material again = fake_material(server);
    assert_memory_equal(&again.material, &pair, sizeof pair);
    assert_true(again.body == said.other && again.other == said.body);
    ok(w->client, contactd_set_material(w->client, w->scene, w->soft, w->hard, &none));
    ok(w->client, contactd_set_material(w->client, w->scene, w->soft, 0, &pair)); /* with the body itself from now on */
    assert_int_equal(fake_material(server).other, 0);
    order(&server->restart);
    step_by_pose(w, 2);
    assert_int_equal(atomic_load(&server->materials), 4);
    refused(w, CONTACTD_NOT_FOUND, contactd_set_material(w->client, w->scene, w->soft, 77, &pair), "body 77", "body");
    refused(w, CONTACTD_INVALID_ARGUMENT, contactd_set_material(w->client, w->scene, w->soft, 0, NULL), "material",
            "material");
}

static void a_restart_amid_pipelined_steps(void **state) {
    world *w = *state;
    step_by_vertex(w, 0, 0.125);
    contactd_ticket tickets[20];
    const contactd_result *result;
    atomic_store(&w->server->slow_ms, 3);
    int next = 0;
    for (int k = 0; k < 20; k++) {
        double pose[12] = {1, 0, 0, k, 0, 1, 0, 0, 0, 0, 1, 0};
        contactd_update update = contactd_move(w->hard, pose);
        ok(w->client, contactd_step_submit(w->client, w->scene, &update, 1, NULL, &tickets[k]));
        if (k == 7 || k == 14) atomic_store(&w->server->restart, true);
        if (k >= 3) {
            ok(w->client, contactd_step_wait(w->client, tickets[next], &result));
            assert_true(fabs(result->contacts[0].volume - (w->soft_sum + 18 + 4 * next)) < 1e-6);
            next++;
        }
    }
    for (; next < 20; next++) {
        ok(w->client, contactd_step_wait(w->client, tickets[next], &result));
        assert_true(fabs(result->contacts[0].volume - (w->soft_sum + 18 + 4 * next)) < 1e-6);
    }
    assert_true(recoveries(w->client) >= 1);
}

static contactd_ticket submit_pose(world *w, contactd_scene scene, contactd_body body, double x) {
    double pose[12] = {1, 0, 0, x, 0, 1, 0, 0, 0, 0, 1, 0};
    contactd_update update = contactd_move(body, pose);
    contactd_ticket ticket;
    ok(w->client, contactd_step_submit(w->client, scene, &update, 1, NULL, &ticket));
    return ticket;
}

static void expect_server_ended(world *w, contactd_code code, const char *doing) {
    const contactd_error *e = contactd_last_error(w->client);
    assert_int_equal(code, CONTACTD_SERVER_ENDED);
    assert_false(e->retry);
    if (!strstr(e->message, "the server ended twice while it ") || !strstr(e->message, doing) ||
        !strstr(e->message, "what was running"))
        fail_msg("%s: %s", e->object, e->message);
}

/* Nor is a step beside it blamed, which was in flight, too. */
static void a_step_is_not_sent_to_a_third_server_that_ends_over_it(void **state) {
    world *w = *state;
    contactd_scene other;
    contactd_body body;
    contactd_body_options rigid;
    contactd_body_options_init(&rigid);
    rigid.rigid = true;
    ok(w->client, contactd_open_scene(w->client, "other", NULL, &other));
    for (int i = 0; i < 2; i++) ok(w->client, contactd_add_body(w->client, other, w->mesh, &rigid, &body));
    step_by_pose(w, 1);
    atomic_store(&w->server->ends_left, 100);
    const contactd_ticket bad = submit_pose(w, w->scene, w->hard, FAKE_DEADLY);
    const contactd_ticket beside = submit_pose(w, other, body, 3);
    contactd_ticket behind;
    ok(w->client, contactd_step_submit(w->client, w->scene, NULL, 0, NULL, &behind));
    const contactd_result *result;
    char doing[64];
    snprintf(doing, sizeof doing, "computed step %llu of this scene", (unsigned long long)bad);
    expect_server_ended(w, contactd_step_wait(w->client, bad, &result), doing);
    assert_string_equal(contactd_last_error(w->client)->object, "scene 1 \"drop\"");
    assert_int_equal(atomic_load(&w->server->ended), 2);
    ok(w->client, contactd_step_wait(w->client, beside, &result));
    assert_true(fabs(result->contacts[0].volume - (2 * (1 + 6 + 11) + 4 * 3)) < 1e-9);
    ok(w->client, contactd_step_wait(w->client, behind, &result)); /* without the bad one's pose */
    assert_true(fabs(result->contacts[0].volume - w->soft_sum - w->hard_sum) < 1e-9);
    step_by_pose(w, 2);
    assert_int_equal(atomic_load(&w->server->ended), 2);
}

static void a_server_that_announces_its_end_does_not_count(void **state) {
    world *w = *state;
    const contactd_result *result;
    double us;
    atomic_store(&w->server->announces, true);
    atomic_store(&w->server->ends_left, 3);
    const contactd_ticket ticket = submit_pose(w, w->scene, w->hard, FAKE_DEADLY);
    for (int i = 1; i <= 3; i++) {
        ok(w->client, contactd_set_timeout(w->client, 100));
        while (atomic_load(&w->server->ended) < i) contactd_step_wait(w->client, ticket, &result);
        ok(w->client, contactd_set_timeout(w->client, PATIENCE_MS));
        ok(w->client, contactd_ping(w->client, &us)); /* so that it has read what came before */
        order(&w->server->restart);
    }
    ok(w->client, contactd_step_wait(w->client, ticket, &result));
    assert_int_equal(atomic_load(&w->server->ended), 3);
}

static void other_work_is_not_sent_to_a_third_server_that_ends_over_it(void **state) {
    world *w = *state;
    contactd_client *c = w->client;
    contactd_mesh mesh;
    contactd_body body;
    contactd_settings settings;
    contactd_body_options options;
    contactd_snapshot_options picture;
    const void *png;
    size_t size;
    contactd_settings_init(&settings);
    contactd_body_options_init(&options);
    contactd_snapshot_options_init(&picture);
    options.group = 7;
    const wire_type types[] = {WIRE_ADD_BODY, WIRE_CONFIGURE, WIRE_REPLACE_MESH, WIRE_GET_SNAPSHOT};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        atomic_store(&w->server->ended, 0);
        atomic_store(&w->server->ends_over, (int)types[i]);
        atomic_store(&w->server->ends_left, 100);
        contactd_code code = types[i] == WIRE_ADD_BODY       ? contactd_add_body(c, w->scene, w->mesh, &options, &body)
                             : types[i] == WIRE_CONFIGURE    ? contactd_configure(c, w->scene, &settings)
                             : types[i] == WIRE_REPLACE_MESH ? contactd_replace_mesh(c, w->scene, w->soft, w->mesh)
                                                             : contactd_snapshot(c, w->scene, &picture, &png, &size);
        expect_server_ended(w, code, "worked on this");
        assert_int_equal(atomic_load(&w->server->ended), 2);
        step_by_pose(w, 1);
    }
    atomic_store(&w->server->ended, 0);
    atomic_store(&w->server->ends_over, WIRE_REGISTER_MESH);
    expect_server_ended(w, contactd_register_mesh(c, "deadly", positions, 4, triangles, 4, &mesh), "worked on this");
    assert_int_equal(atomic_load(&w->server->ended), 2);
}

static void a_scene_whose_restoring_ends_servers_is_left_out(void **state) {
    world *w = *state;
    const contactd_result *result;
    atomic_store(&w->server->ends_over_all, WIRE_ADD_BODY);
    atomic_store(&w->server->ends_left, 100);
    order(&w->server->restart);
    for (int i = 0; i < 2; i++) {
        expect_server_ended(w, contactd_step(w->client, w->scene, NULL, 0, NULL, &result), "restored this");
        assert_int_equal(atomic_load(&w->server->ended), 2);
    }
    double us;
    atomic_store(&w->server->ends_left, 0);
    order(&w->server->restart);
    ok(w->client, contactd_ping(w->client, &us)); /* so that it knows the next server */
    step_by_pose(w, 1);                           /* the next server is asked again */
}

static void a_step_that_takes_too_long_is_not_sent_again(void **state) {
    world *w = *state;
    const contactd_result *result;
    const int refused = atomic_load(&w->server->refused);
    const contactd_ticket bad = submit_pose(w, w->scene, w->hard, FAKE_LONG);
    assert_int_equal(contactd_step_wait(w->client, bad, &result), CONTACTD_TIME_LIMIT);
    assert_false(contactd_last_error(w->client)->retry);
    /* The server's numbers of bodies are the caller's here. */
    assert_string_equal(contactd_last_error(w->client)->message,
                        "cancelled while finding patches of bodies 2 and 1, after 2 of "
                        "body 1 and 1048578 of body 99");
    assert_int_equal(atomic_load(&w->server->refused), refused + 1);
    step_by_vertex(w, 1, 0.25); /* the pose is the one before */
}

static void a_lost_session_keeps_the_meshes(void **state) {
    world *w = *state;
    step_by_vertex(w, 2, 2);
    int registered = atomic_load(&w->server->registered);
    order(&w->server->forget_session);
    step_by_pose(w, 1);
    assert_int_equal(recoveries(w->client), 1);
    assert_int_equal(atomic_load(&w->server->registered), registered); /* found by hash: not uploaded again */
    order(&w->server->forget_session);
    order(&w->server->forget_meshes);
    step_by_pose(w, 2);
    assert_int_equal(atomic_load(&w->server->registered), registered + 1);
}

static void a_mesh_that_made_room_is_registered_again(void **state) {
    world *w = *state;
    order(&w->server->forget_meshes);
    contactd_body body;
    ok(w->client, contactd_add_body(w->client, w->scene, w->mesh, NULL, &body));
    assert_int_equal(recoveries(w->client), 0);
}

static void without_kept_meshes_the_loss_is_told(void **state) {
    world *w = *state;
    world own = {.server = w->server, .client = connect_to(w->server, PATIENCE_MS, 1000, false)};
    open_world(&own);
    step_by_pose(&own, 1);
    order(&w->server->restart);
    const contactd_result *result;
    assert_int_equal(contactd_step(own.client, own.scene, NULL, 0, NULL, &result), CONTACTD_STATE_LOST);
    const contactd_error *e = contactd_last_error(own.client);
    assert_string_equal(e->object, "mesh tetra");
    assert_string_equal(e->field, "keep_meshes");
    contactd_close(&own.client);
}

/* The server did it, but the answer was lost with the connection: nothing is done twice in one scene. */
static void lost_answers(void **state) {
    world *w = *state;
    step_by_pose(w, 1);
    int computed = atomic_load(&w->server->computed);
    atomic_store(&w->server->drop, 1);
    step_by_pose(w, 2);
    assert_int_equal(atomic_load(&w->server->computed), computed + 1);
    assert_true(atomic_load(&w->server->repeated) >= 1);
    assert_int_equal(recoveries(w->client), 0);

    step_by_vertex(w, 1, 4);
    contactd_body extra;
    atomic_store(&w->server->drop, 1);
    ok(w->client, contactd_add_body(w->client, w->scene, w->mesh, NULL, &extra));
    assert_int_equal(recoveries(w->client), 1); /* a scene with the body once, and the state as it was */
    w->soft_sum += 0.5 * 78;
    step_by_pose(w, 3);
    atomic_store(&w->server->drop, 1);
    ok(w->client, contactd_remove_body(w->client, w->scene, extra));
    w->soft_sum -= 0.5 * 78;
    step_by_pose(w, 4);
    contactd_scene other;
    atomic_store(&w->server->drop, 1);
    ok(w->client, contactd_open_scene(w->client, "other", NULL, &other));
    atomic_store(&w->server->drop, 1);
    ok(w->client, contactd_close_scene(w->client, other));
    step_by_pose(w, 5);
}

/* Of operators, over a connection that loses answers too. */
static void operators_requests(void **state) {
    world *w = *state;
    const char *json;
    size_t size;
    wire_get_report asked;
    for (int drop = 0; drop < 2; drop++) {
        atomic_store(&w->server->drop, drop);
        ok(w->client, contactd_get_report(w->client, CONTACTD_REPORT_BODIES, 1234, &json, &size));
        assert_int_equal(size, sizeof asked);
        memcpy(&asked, json, sizeof asked);
        assert_int_equal(asked.kind, WIRE_REPORT_BODIES);
        assert_int_equal(asked.scene, 1234);
        atomic_store(&w->server->drop, drop);
        ok(w->client, contactd_drain(w->client));
    }
    contactd_scene_info info;
    contactd_scene other;
    ok(w->client, contactd_open_scene(w->client, "other", NULL, &other));
    ok(w->client, contactd_get_scene_info(w->client, other, &info));
    ok(w->client, contactd_close_scene_by_id(w->client, info.id));
    assert_int_equal(contactd_close_scene_by_id(w->client, info.id), CONTACTD_NOT_FOUND);
    assert_int_equal(contactd_get_report(w->client, CONTACTD_REPORT_STATUS, 0, NULL, &size), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_get_report(w->client, CONTACTD_REPORT_STATUS, 0, &json, NULL), CONTACTD_INVALID_ARGUMENT);
    step_by_pose(w, 3);
}

static void busy_servers_are_asked_again(void **state) {
    world *w = *state;
    atomic_store(&w->server->busy, 3);
    step_by_pose(w, 1);
    assert_int_equal(atomic_load(&w->server->busy), 0);
    contactd_ticket tickets[4];
    const contactd_result *result;
    atomic_store(&w->server->busy, 5);
    for (int k = 0; k < 4; k++) {
        double pose[12] = {1, 0, 0, k, 0, 1, 0, 0, 0, 0, 1, 0};
        contactd_update update = contactd_move(w->hard, pose);
        ok(w->client, contactd_step_submit(w->client, w->scene, &update, 1, NULL, &tickets[k]));
    }
    for (int k = 0; k < 4; k++) {
        ok(w->client, contactd_step_wait(w->client, tickets[k], &result));
        assert_true(result->contacts[0].volume == w->soft_sum + 18 + 4 * k);
    }
    assert_int_equal(atomic_load(&w->server->computed), 5);
}

static void numbers_that_differ_are_put_right(void **state) {
    world *w = *state;
    step_by_vertex(w, 0, 2);
    atomic_store(&w->server->skip_number, true);
    step_by_pose(w, 1);
    step_by_pose(w, 2);
    assert_int_equal(recoveries(w->client), 0);
    assert_int_equal(atomic_load(&w->server->opened), 2);
}

static void calls_end_in_time(void **state) {
    world *w = *state;
    ok(w->client, contactd_set_timeout(w->client, 300));
    atomic_store(&w->server->silent, true);
    const contactd_result *result;
    contactd_ticket ticket;
    double pose[12] = {1, 0, 0, 9, 0, 1, 0, 0, 0, 0, 1, 0};
    contactd_update update = contactd_move(w->hard, pose);
    double from = now_ms();
    ok(w->client, contactd_step_submit(w->client, w->scene, &update, 1, NULL, &ticket));
    assert_int_equal(contactd_step_wait(w->client, ticket, &result), CONTACTD_DEADLINE_EXCEEDED);
    assert_string_equal(contactd_last_error(w->client)->field, "timeout_ms");
    assert_int_equal(contactd_ping(w->client, NULL), CONTACTD_DEADLINE_EXCEEDED);
    double took = now_ms() - from;
    assert_true(took > 550 && took < PATIENCE_MS); /* test_waiting.c looks closer */
    /* Still in flight: it comes when the server wakes up. */
    ok(w->client, contactd_set_timeout(w->client, PATIENCE_MS));
    atomic_store(&w->server->silent, false);
    ok(w->client, contactd_step_wait(w->client, ticket, &result));
    assert_true(result->contacts[0].volume == w->soft_sum + 18 + 36);

    ok(w->client, contactd_set_timeout(w->client, 300));
    atomic_store(&w->server->garbage, true);
    contactd_code code = contactd_ping(w->client, NULL); /* too early for the garbage, where others keep the cores */
    for (int i = 0; i < 100 && code == CONTACTD_DEADLINE_EXCEEDED; i++) code = contactd_ping(w->client, NULL);
    assert_int_equal(code, CONTACTD_UNREACHABLE);
    assert_non_null(strstr(contactd_last_error(w->client)->message, "protocol"));
    atomic_store(&w->server->garbage, false);
    ok(w->client, contactd_set_timeout(w->client, PATIENCE_MS));
    ok(w->client, contactd_ping(w->client, NULL));

    /* An abandoned step still counts once it is answered. */
    atomic_store(&w->server->silent, true);
    ok(w->client, contactd_set_timeout(w->client, 300));
    assert_int_equal(contactd_step(w->client, w->scene, &update, 1, NULL, &result), CONTACTD_DEADLINE_EXCEEDED);
    atomic_store(&w->server->silent, false);
    ok(w->client, contactd_set_timeout(w->client, PATIENCE_MS));
    step_by_pose(w, 4);
    step_by_pose(w, 5);
}

static void no_server_there(void **state) {
    (void)state;
    contactd_options options;
    contactd_options_init(&options);
    options.server = "tcp://127.0.0.1:1";
    options.timeout_ms = 200;
    contactd_client *client;
    contactd_error error;
    double from = now_ms();
    assert_int_equal(contactd_connect(&options, &client, &error), CONTACTD_UNREACHABLE);
    assert_null(client);
    assert_true(now_ms() - from < PATIENCE_MS);
    assert_non_null(strstr(error.message, "tcp://127.0.0.1:1"));
    options.server = "http://nonsense";
    assert_int_equal(contactd_connect(&options, &client, &error), CONTACTD_INVALID_ARGUMENT);
    assert_string_equal(error.field, "server");
    memset(&options, 0, sizeof options);
    assert_int_equal(contactd_connect(&options, &client, &error), CONTACTD_INVALID_ARGUMENT);
    assert_string_equal(error.field, "options");
    assert_int_equal(contactd_connect(&options, &client, NULL), CONTACTD_INVALID_ARGUMENT);
}

/* ---- errors ---- */

static void refused(world *w, contactd_code expected, contactd_code code, const char *object, const char *field) {
    const contactd_error *e = contactd_last_error(w->client);
    assert_int_equal(code, expected);
    assert_int_equal(e->code, expected);
    assert_string_equal(e->object, object);
    assert_string_equal(e->field, field);
    assert_true(e->message[0] != 0);
}

/* A scene that named nothing is opened again as such, and one that named a resolution with it. */
static void methods_asked_for_and_running(void **state) {
    world *w = *state;
    contactd_settings settings;
    contactd_scene_info info;
    for (int restarted = 0; restarted < 2; restarted++) {
        if (restarted) order(&w->server->restart);
        step_by_pose(w, 0.5);
        ok(w->client, contactd_get_scene_info(w->client, w->scene, &info));
        assert_int_equal(info.settings.method, CT_METHOD_AUTO);
        assert_int_equal(info.running_method, CT_METHOD_EXACT);
        assert_int_equal(info.settings.resolution[0], 0);
    }
    contactd_settings_init(&settings);
    for (int i = 0; i < 3; i++) settings.resolution[i] = 32;
    ok(w->client, contactd_configure(w->client, w->scene, &settings));
    for (int restarted = 0; restarted < 2; restarted++) {
        if (restarted) order(&w->server->restart);
        step_by_pose(w, 0.5);
        ok(w->client, contactd_get_scene_info(w->client, w->scene, &info));
        assert_int_equal(info.settings.method, CT_METHOD_LDI);
        assert_int_equal(info.running_method, CT_METHOD_LDI);
        assert_int_equal(info.settings.resolution[0], 32);
    }
    contactd_scene scene; /* no server lists "auto", and all have it */
    contactd_settings_init(&settings);
    settings.method = CT_METHOD_AUTO;
    ok(w->client, contactd_open_scene(w->client, "auto", &settings, &scene));
    settings.method = CT_METHOD_EXACT;
    refused(w, CONTACTD_UNSUPPORTED, contactd_open_scene(w->client, "x", &settings, &scene), "scene", "method");
}

static void mistakes_are_named(void **state) {
    world *w = *state;
    contactd_client *c = w->client;
    const contactd_result *result;
    float p[9] = {0};
    double pose[12] = {0};
    uint32_t index[3] = {0, 4, 0};
    contactd_update u = contactd_deform(w->soft, p, 3);
    refused(w, CONTACTD_WRONG_LENGTH, contactd_step(c, w->scene, &u, 1, NULL, &result), "body 1", "positions");
    u = contactd_deform(w->hard, p, 3);
    refused(w, CONTACTD_CONFLICT, contactd_step(c, w->scene, &u, 1, NULL, &result), "body 2", "positions");
    u = contactd_move(w->soft, pose);
    refused(w, CONTACTD_CONFLICT, contactd_step(c, w->scene, &u, 1, NULL, &result), "body 1", "pose");
    u = contactd_move(77, pose);
    refused(w, CONTACTD_NOT_FOUND, contactd_step(c, w->scene, &u, 1, NULL, &result), "body 77", "body");
    u = (contactd_update){
        .body = w->soft, .kind = CONTACTD_INDEXED, .positions = p, .count = 3, .indices = index, .n_indices = 3};
    refused(w, CONTACTD_OUT_OF_RANGE, contactd_step(c, w->scene, &u, 1, NULL, &result), "body 1", "indices");
    u.n_indices = 2;
    refused(w, CONTACTD_WRONG_LENGTH, contactd_step(c, w->scene, &u, 1, NULL, &result), "body 1", "indices");
    u.kind = CONTACTD_RANGES;
    refused(w, CONTACTD_WRONG_LENGTH, contactd_step(c, w->scene, &u, 1, NULL, &result), "body 1", "positions");
    index[1] = 5;
    refused(w, CONTACTD_OUT_OF_RANGE, contactd_step(c, w->scene, &u, 1, NULL, &result), "body 1", "indices");
    u.positions = NULL;
    refused(w, CONTACTD_INVALID_ARGUMENT, contactd_step(c, w->scene, &u, 1, NULL, &result), "body 1", "positions");
    refused(w, CONTACTD_NOT_FOUND, contactd_step(c, 5, NULL, 0, NULL, &result), "scene 5", "scene");
    assert_int_equal(atomic_load(&w->server->computed), 0);

    contactd_body body;
    contactd_scene scene;
    contactd_mesh mesh;
    contactd_settings settings;
    contactd_settings_init(&settings);
    settings.method = CT_METHOD_EBPI;
    refused(w, CONTACTD_UNSUPPORTED, contactd_open_scene(c, "x", &settings, &scene), "scene", "method");
    contactd_settings_init(&settings);
    settings.resolution[1] = 4;
    refused(w, CONTACTD_INVALID_ARGUMENT, contactd_configure(c, w->scene, &settings), "scene 1 \"drop\"", "resolution");
    refused(w, CONTACTD_NOT_FOUND, contactd_add_body(c, w->scene, 9, NULL, &body), "mesh 9", "mesh");
    refused(w, CONTACTD_CONFLICT, contactd_forget_mesh(c, w->mesh), "mesh tetra", "mesh");
    refused(w, CONTACTD_INVALID_ARGUMENT, contactd_register_mesh_file(c, "/nowhere/at/all.ply", &mesh), "all.ply",
            "path");
    static float many[3 * 100000];
    refused(w, CONTACTD_TOO_LARGE, contactd_register_mesh(c, "big", many, 100000, triangles, 4, &mesh), "RegisterMesh",
            "");
    ok(c, contactd_close_scene(c, w->scene));
    refused(w, CONTACTD_STALE_HANDLE, contactd_step(c, w->scene, NULL, 0, NULL, &result), "scene 1", "scene");
    ok(c, contactd_forget_mesh(c, w->mesh));
    refused(w, CONTACTD_STALE_HANDLE, contactd_forget_mesh(c, w->mesh), "mesh 1", "mesh");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(results_are_complete),
        TEST(products_are_of_directions),
        TEST(warnings_name_bodies),
        TEST(products_of_many),
        TEST(a_body_with_itself),
        TEST(updates_of_every_kind),
        TEST(steps_are_pipelined),
        TEST(a_restart_is_not_seen),
        TEST(doubles_outlive_restarts),
        TEST(settings_in_force_are_told_and_kept),
        TEST(self_contact_is_asked_for),
        TEST(a_hull_that_was_not_taken_is_found_out),
        TEST(methods_asked_for_and_running),
        TEST(a_mesh_is_replaced),
        TEST(materials_outlive_restarts),
        TEST(a_restart_amid_pipelined_steps),
        TEST(a_step_is_not_sent_to_a_third_server_that_ends_over_it),
        TEST(a_server_that_announces_its_end_does_not_count),
        TEST(other_work_is_not_sent_to_a_third_server_that_ends_over_it),
        TEST(a_scene_whose_restoring_ends_servers_is_left_out),
        TEST(a_step_that_takes_too_long_is_not_sent_again),
        TEST(a_lost_session_keeps_the_meshes),
        TEST(a_mesh_that_made_room_is_registered_again),
        TEST(without_kept_meshes_the_loss_is_told),
        TEST(lost_answers),
        TEST(operators_requests),
        TEST(busy_servers_are_asked_again),
        TEST(numbers_that_differ_are_put_right),
        TEST(calls_end_in_time),
        cmocka_unit_test(no_server_there),
        TEST(mistakes_are_named),
    };
    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
