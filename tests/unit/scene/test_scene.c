/* test_scene.c - scenes and bodies through the engine's public functions: settings, handles and their generations,
 * filters, information, memory. A call that fails does not change the scene. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/scene/scene.h"
#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

static ct_engine *engine;
static ct_mesh *cube;

static ct_scene *new_scene(void) {
    ct_scene_settings settings = stage_resolution(4);
    ct_scene *scene;
    assert_int_equal(ct_scene_create(engine, &settings, &scene, NULL), CT_OK);
    return scene;
}

static uint32_t add(ct_scene *scene, const ct_body_options *options) {
    ct_body_options plain;
    ct_body_options_init(&plain);
    uint32_t body = 0;
    ct_error error = {0};
    if (ct_scene_add_body(scene, cube, options ? options : &plain, &body, &error)) fail_msg("%s", error.message);
    assert_true(body != 0);
    return body;
}

/* The pairs of the scene's next step; no pair is more than a volume or less. */
static uint64_t pairs(ct_scene *scene) {
    ct_step step = {.scene = scene};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
    uint64_t n = step.result->pairs;
    assert_int_equal(n, step.result->n_contacts);
    ct_result_free(&step.result);
    return n;
}

static void expect_error(const ct_error *error, ct_status status, const char *field, const char *words) {
    assert_int_equal(error->status, status);
    assert_string_equal(error->field, field);
    if (!strstr(error->message, words)) fail_msg("\"%s\" does not say \"%s\"", error->message, words);
}

/* ---- settings ---- */

static void test_settings(void **state) {
    (void)state;
    ct_scene_settings s, read;
    ct_scene_settings_init(&s);
    assert_int_equal(ct_scene_settings_check(&s, NULL), CT_OK);
    static const struct {
        ct_status status;
        const char *field, *words;
    } expected[] = {
        {CT_INVALID_ARGUMENT, "settings", "ct_scene_settings_init"},
        {CT_UNSUPPORTED, "method", "9"},
        {CT_OUT_OF_RANGE, "resolution", "resolution is 0 along x"},
        {CT_OUT_OF_RANGE, "resolution", "resolution is 4097 along z"},
        {CT_OUT_OF_RANGE, "pixel_size", "-1"},
        {CT_NON_FINITE, "pixel_size", "nan"},
        {CT_NON_FINITE, "pixel_size", "inf"},
        {CT_OUT_OF_RANGE, "pixel_size", "1e-31"},
        {CT_OUT_OF_RANGE, "stiffness", "-0.5"},
        {CT_NON_FINITE, "stiffness", "nan"},
    };
    ct_scene *scene = new_scene(), *none = scene;
    for (int i = 0; i < 10; i++) {
        ct_scene_settings_init(&s);
        if (i == 0) s.cookie++;
        if (i == 1) s.method = (ct_method)9;
        if (i == 2) s.resolution[1] = 8; /* some of the three, but not all */
        if (i == 3) memcpy(s.resolution, (const uint32_t[]){8, 8, 4097}, sizeof s.resolution);
        if (i >= 4 && i <= 7) s.pixel_size = (const double[]){-1, NAN, INFINITY, 1e-31}[i - 4];
        if (i >= 8) s.stiffness = i == 8 ? -0.5 : NAN;
        ct_error error = {0};
        assert_int_equal(ct_scene_configure(scene, &s, &error), expected[i].status);
        expect_error(&error, expected[i].status, expected[i].field, expected[i].words);
        none = scene;
        assert_int_equal(ct_scene_create(engine, &s, &none, NULL), expected[i].status);
        assert_null(none);
        ct_scene_get_settings(scene, &read);
        assert_int_equal(read.resolution[0], 4); /* as before */
        assert_true(read.pixel_size == 0 && read.stiffness == 1);
    }
    ct_scene_settings_init(&s);
    memcpy(s.resolution, (const uint32_t[]){8, CT_MAX_RESOLUTION, 8}, sizeof s.resolution);
    s.pixel_size = 0.5;
    assert_int_equal(ct_scene_configure(scene, &s, NULL), CT_OK);
    ct_scene_get_settings(scene, &read);
    assert_int_equal(read.resolution[1], CT_MAX_RESOLUTION);
    assert_true(read.pixel_size == 0.5);
    ct_scene_destroy(&scene);
    assert_null(scene);
    ct_scene_destroy(&scene);
}

/* What AUTO and an unnamed sampling stand for: {given} and {get_settings, get_running}. */
static void test_defaults(void **state) {
    (void)state;
    const ct_method chosen = ct_engine_auto_method(engine);
    const struct {
        ct_method method;
        uint32_t resolution;
        double pixel_size;
        uint32_t asked_resolution;
        ct_method running;
        uint32_t running_resolution;
    } cases[] = {
        {CT_METHOD_AUTO, 0, 0, 0, chosen, chosen == CT_METHOD_LDI ? CT_DEFAULT_RESOLUTION : 0},
        {CT_METHOD_AUTO, 8, 0, 8, CT_METHOD_LDI, 8},
        {CT_METHOD_AUTO, 0, 0.5, 0, CT_METHOD_LDI, CT_DEFAULT_RESOLUTION},
        {CT_METHOD_LDI, 0, 0, CT_DEFAULT_RESOLUTION, CT_METHOD_LDI, CT_DEFAULT_RESOLUTION},
        {CT_METHOD_LDI, 8, 0.5, 8, CT_METHOD_LDI, 8},
        {CT_METHOD_EXACT, 0, 0, 0, CT_METHOD_EXACT, 0},
    };
    ct_scene *configured = new_scene(), *created;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_scene_settings given, asked[2], running[2];
        ct_scene_settings_init(&given);
        assert_int_equal(given.method, CT_METHOD_AUTO);
        given.method = cases[i].method;
        given.pixel_size = cases[i].pixel_size;
        for (int k = 0; k < 3; k++) given.resolution[k] = cases[i].resolution;
        assert_int_equal(ct_scene_configure(configured, &given, NULL), CT_OK);
        assert_int_equal(ct_scene_create(engine, &given, &created, NULL), CT_OK);
        for (int k = 0; k < 2; k++) {
            ct_scene_get_settings(k ? created : configured, &asked[k]);
            ct_scene_get_running(k ? created : configured, &running[k]);
            assert_int_equal(asked[k].method, given.method);
            assert_int_equal(asked[k].resolution[2], cases[i].asked_resolution);
            assert_int_equal(running[k].method, cases[i].running);
            assert_int_equal(running[k].resolution[2], cases[i].running_resolution);
            assert_true(asked[k].pixel_size == given.pixel_size && running[k].pixel_size == given.pixel_size);
        }
        assert_int_equal(ct_scene_configure(configured, &asked[0], NULL), CT_OK); /* what is read can be given again */
        ct_scene_destroy(&created);
    }
    ct_scene_destroy(&configured);
}

/* ---- handles ---- */

static void gone(ct_scene *scene, uint32_t body, const char *words) {
    ct_body_info info;
    ct_error error = {0};
    assert_int_equal(ct_scene_body_info(scene, body, &info, &error), CT_NOT_FOUND);
    expect_error(&error, CT_NOT_FOUND, "body", words);
    assert_int_equal(ct_scene_remove_body(scene, body, NULL), CT_NOT_FOUND);
}

static void test_handles(void **state) {
    (void)state;
    ct_scene *scene = new_scene();
    gone(scene, 0, "body 0 is not in the scene");
    gone(scene, 1, "body 1 is not in the scene, which has 0");
    uint32_t a = add(scene, NULL), b = add(scene, NULL), c = add(scene, NULL);
    assert_true(a < b && b < c);
    assert_int_equal(ct_scene_body_count(scene), 3);
    gone(scene, c + 1, "not in the scene, which has 3");
    gone(scene, UINT32_MAX, "not in the scene");
    assert_int_equal(pairs(scene), 3);
    assert_int_equal(ct_scene_remove_body(scene, b, NULL), CT_OK);
    gone(scene, b, "was removed");
    assert_int_equal(ct_scene_body_count(scene), 2);
    assert_int_equal(pairs(scene), 1);
    uint32_t d = add(scene, NULL); /* takes b's place under another name */
    assert_true(d != a && d != b && d != c);
    gone(scene, b, "was removed");
    assert_int_equal(pairs(scene), 3);
    ct_body_info info;
    uint32_t last = 0;
    for (size_t i = 0; i < 3; i++) { /* in rising order */
        assert_int_equal(ct_scene_body_at(scene, i, &info), CT_OK);
        assert_true(info.body > last);
        last = info.body;
    }
    assert_int_equal(ct_scene_body_at(scene, 3, &info), CT_OUT_OF_RANGE);
    ct_scene_destroy(&scene);
}

/* A place's names do not come back before 4,096 others had them. */
static void test_generations(void **state) {
    (void)state;
    ct_scene *scene = new_scene();
    uint32_t keeper = add(scene, NULL), first = add(scene, NULL);
    assert_int_equal(ct_scene_remove_body(scene, first, NULL), CT_OK);
    for (int i = 1; i < 4096; i++) {
        uint32_t body = add(scene, NULL);
        assert_true(body != first && body != keeper);
        assert_int_equal(ct_scene_remove_body(scene, body, NULL), CT_OK);
    }
    assert_int_equal(add(scene, NULL), first);
    assert_int_equal(ct_scene_body_count(scene), 2);
    ct_scene_destroy(&scene);
}

static void test_many_come_and_go(void **state) {
    (void)state;
    ct_scene *scene = new_scene();
    uint64_t rng = 41;
    enum { MAX = 200 };
    uint32_t live[MAX], n = 0;
    for (int round = 0; round < 3000; round++) {
        if (n < MAX && (n == 0 || shape_random(&rng) % 100 < (round < 1500 ? 70 : 30))) {
            uint32_t body = add(scene, NULL);
            for (uint32_t i = 0; i < n; i++) assert_true(live[i] != body);
            live[n++] = body;
        } else {
            uint32_t i = (uint32_t)(shape_random(&rng) % n);
            assert_int_equal(ct_scene_remove_body(scene, live[i], NULL), CT_OK);
            gone(scene, live[i], "removed");
            live[i] = live[--n];
        }
        assert_int_equal(ct_scene_body_count(scene), n);
        ct_body_info info;
        for (uint32_t i = 0; round % 100 == 0 && i < n; i++) {
            assert_int_equal(ct_scene_body_info(scene, live[i], &info, NULL), CT_OK);
            assert_int_equal(info.body, live[i]);
        }
    }
    ct_scene_destroy(&scene);
}

/* ---- adding ---- */

static void test_refused_bodies(void **state) {
    (void)state;
    ct_scene *scene = new_scene();
    uint32_t a = add(scene, NULL), stale = add(scene, NULL), body = 77;
    assert_int_equal(ct_scene_remove_body(scene, stale, NULL), CT_OK);
    const struct {
        ct_status status;
        const char *field, *words;
    } expected[] = {
        {CT_INVALID_ARGUMENT, "options", "ct_body_options_init"},
        {CT_INVALID_ARGUMENT, "kind", "kind 7"},
        {CT_NON_FINITE, "pose", "number 3"},
        {CT_OUT_OF_RANGE, "pose", "no rotation"},
        {CT_OUT_OF_RANGE, "pose", "no rotation"},
        {CT_NOT_FOUND, "ignore", "ignore[1] names body 2"},
        {CT_NOT_FOUND, "ignore", "ignore[1] names body 999"},
    };
    for (int i = 0; i < 7; i++) {
        ct_body_options o;
        ct_body_options_init(&o);
        o.kind = CT_BODY_RIGID;
        const uint32_t ignore[2] = {a, i == 5 ? stale : 999};
        if (i == 0) o.cookie = 0;
        if (i == 1) o.kind = (ct_body_kind)7;
        if (i == 2) o.pose[3] = INFINITY;
        if (i == 3) o.pose[0] = 1.01; /* scaled */
        if (i == 4) o.pose[0] = -1;   /* mirrored */
        if (i >= 5) o.ignore = ignore, o.n_ignore = 2;
        ct_error error = {0};
        assert_int_equal(ct_scene_add_body(scene, cube, &o, &body, &error), expected[i].status);
        expect_error(&error, expected[i].status, expected[i].field, expected[i].words);
        assert_int_equal(body, 77);
        assert_int_equal(ct_scene_body_count(scene), 1);
    }
    ct_body_options o;
    ct_body_options_init(&o);
    o.kind = CT_BODY_RIGID;
    o.pose[0] = 1.0003; /* as far off as a simulator's rounding may be */
    assert_int_equal(ct_scene_add_body(scene, cube, &o, &body, NULL), CT_OK);
    ct_scene_destroy(&scene);
}

/* A pose so far away that doubles do not hold the body's shape is refused: when the body is added, moved, and given
 * another mesh. */
static void test_poses_out_of_reach(void **state) {
    (void)state;
    ct_scene *scene = new_scene();
    uint32_t body = 0;
    ct_error error = {0};
    ct_body_options o;
    ct_body_options_init(&o);
    o.kind = CT_BODY_RIGID;
    o.pose[7] = -1.001 * CT_POSE_REACH; /* the cube's side is 1 m */
    assert_int_equal(ct_scene_add_body(scene, cube, &o, &body, &error), CT_OUT_OF_RANGE);
    expect_error(&error, CT_OUT_OF_RANGE, "pose", "expected at most 6.87195e+10 m for a body of 1 m");
    assert_non_null(strstr(error.message, "Move the scene's origin"));
    o.pose[7] = -CT_POSE_REACH;
    assert_int_equal(ct_scene_add_body(scene, cube, &o, &body, &error), CT_OK);
    ct_update update = {.body = body, .kind = CT_UPDATE_POSE};
    memcpy(update.pose, o.pose, sizeof update.pose);
    update.pose[11] = 1e16;
    ct_step step = {.scene = scene, .updates = &update, .n_updates = 1};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_OUT_OF_RANGE);
    expect_error(&step.error, CT_OUT_OF_RANGE, "pose", "1e+16 m from the origin");
    struct shape half = shape_cube(0.5, 1);
    ct_mesh *mesh = shape_to_mesh(&half, NULL);
    memset(&error, 0, sizeof error);
    assert_int_equal(ct_scene_replace_mesh(scene, body, mesh, &error), CT_OUT_OF_RANGE);
    expect_error(&error, CT_OUT_OF_RANGE, "pose", "for a body of 0.5 m");
    ct_mesh_release(&mesh);
    shape_free(&half);
    ct_scene_destroy(&scene);
}

static void test_ignore_lists(void **state) {
    (void)state;
    ct_scene *scene = new_scene();
    uint32_t a = add(scene, NULL), b = add(scene, NULL);
    ct_body_options o;
    ct_body_options_init(&o);
    const uint32_t ignore[] = {b, a, a};
    o.ignore = ignore;
    o.n_ignore = 3;
    uint32_t c = add(scene, &o);
    assert_int_equal(pairs(scene), 1); /* a b */
    uint32_t d = add(scene, NULL);
    assert_int_equal(pairs(scene), 4); /* and d with each */
    assert_int_equal(ct_scene_remove_body(scene, b, NULL), CT_OK);
    assert_int_equal(pairs(scene), 2); /* a d, c d: c still ignores a */
    uint32_t e = add(scene, NULL);     /* in b's place: no body ignores it */
    assert_int_equal(e & CT_MAX_BODIES, b & CT_MAX_BODIES);
    assert_int_equal(pairs(scene), 5);
    assert_int_equal(ct_scene_remove_body(scene, c, NULL), CT_OK);
    assert_int_equal(ct_scene_remove_body(scene, d, NULL), CT_OK);
    assert_int_equal(pairs(scene), 1);
    ct_scene_destroy(&scene);
}

static void test_groups(void **state) {
    (void)state;
    ct_scene *scene = new_scene();
    ct_body_options o;
    ct_body_options_init(&o);
    o.group = 2, o.mask = 4;
    add(scene, &o);
    add(scene, &o); /* their group is not in their mask */
    assert_int_equal(pairs(scene), 0);
    o.group = 4, o.mask = 2;
    add(scene, &o);
    assert_int_equal(pairs(scene), 2);
    o.group = 4, o.mask = 8; /* one side alone refuses */
    add(scene, &o);
    assert_int_equal(pairs(scene), 2);
    ct_scene_destroy(&scene);
}

/* ---- information ---- */

static void test_info_and_references(void **state) {
    (void)state;
    struct shape box = shape_box(1, 2, 4);
    ct_mesh *mesh = shape_to_mesh(&box, NULL);
    ct_scene *scene = new_scene();
    ct_body_options o;
    ct_body_options_init(&o);
    o.kind = CT_BODY_RIGID;
    const double axis[3] = {0, 0, 1}, move[3] = {10, 0, 0};
    shape_pose_axis(axis, 0.25, move, o.pose);
    uint32_t rigid, soft;
    assert_int_equal(ct_scene_add_body(scene, mesh, &o, &rigid, NULL), CT_OK);
    o.kind = CT_BODY_DEFORMABLE; /* the pose is a rigid body's */
    assert_int_equal(ct_scene_add_body(scene, mesh, &o, &soft, NULL), CT_OK);
    ct_body_info info;
    const ct_mesh *same = mesh;
    ct_mesh_release(&mesh); /* the scene has its own references */
    assert_int_equal(ct_scene_body_info(scene, rigid, &info, NULL), CT_OK);
    assert_int_equal(info.body, rigid);
    assert_int_equal(info.kind, CT_BODY_RIGID);
    assert_int_equal(info.vertices, 8);
    assert_ptr_equal(info.mesh, same);
    assert_memory_equal(info.pose, o.pose, sizeof o.pose);
    const double lo[3] = {9, -0.5, -2}, hi[3] = {11, 0.5, 2};
    for (int k = 0; k < 3; k++) assert_true(fabs(info.lo[k] - lo[k]) < 1e-12 && fabs(info.hi[k] - hi[k]) < 1e-12);
    assert_int_equal(ct_scene_body_info(scene, soft, &info, NULL), CT_OK);
    assert_int_equal(info.kind, CT_BODY_DEFORMABLE);
    for (int k = 0; k < 3; k++) assert_true(info.hi[k] == (1 << k) / 2.0 && info.lo[k] == -info.hi[k]);
    assert_true(info.pose[0] == 1 && info.pose[3] == 0);
    ct_scene_destroy(&scene);
    shape_free(&box);
}

static void test_bytes(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 4);
    ct_mesh *mesh = shape_to_mesh(&ball, NULL);
    ct_scene *scene = new_scene();
    ct_body_options o;
    ct_body_options_init(&o);
    uint64_t empty = ct_scene_bytes(scene), before;
    uint32_t body, bodies[10];
    assert_true(empty >= sizeof(ct_scene));
    for (int i = 0; i < 10; i++) {
        before = ct_scene_bytes(scene);
        o.kind = i % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
        assert_int_equal(ct_scene_add_body(scene, mesh, &o, &body, NULL), CT_OK);
        bodies[i] = body;
        uint64_t grown = ct_scene_bytes(scene) - before, positions = i % 2 ? 0 : 12ull * ball.n_vertices;
        assert_true(grown >= positions + sizeof(ct_body) && grown < positions + 2000);
    }
    before = ct_scene_bytes(scene);
    pairs(scene);
    assert_true(ct_scene_bytes(scene) > before); /* the broad phase's memory */
    before = ct_scene_bytes(scene);
    assert_int_equal(ct_scene_remove_body(scene, body, NULL), CT_OK);
    assert_int_equal(before - ct_scene_bytes(scene), sizeof(ct_body));
    /* Bodies that are made anew count once, with the mesh that they have then. */
    struct shape small = shape_icosphere(1, 2);
    ct_mesh *other = shape_to_mesh(&small, NULL);
    before = ct_scene_bytes(scene);
    assert_int_equal(ct_scene_reset(scene, NULL), CT_OK);
    assert_int_equal(ct_scene_bytes(scene), before);
    for (int i = 0; i < 2; i++) assert_int_equal(ct_scene_replace_mesh(scene, bodies[i], other, NULL), CT_OK);
    assert_int_equal(before - ct_scene_bytes(scene), 12 * (ball.n_vertices - small.n_vertices)); /* of the first */
    before = ct_scene_bytes(scene);
    for (int i = 0; i < 9; i++) assert_int_equal(ct_scene_remove_body(scene, bodies[i], NULL), CT_OK);
    assert_int_equal(before - ct_scene_bytes(scene),
                     9 * sizeof(ct_body) + 12 * (4 * (uint64_t)ball.n_vertices + small.n_vertices));
    ct_scene_destroy(&scene);
    ct_mesh_release(&mesh);
    ct_mesh_release(&other);
    shape_free(&ball);
    shape_free(&small);
}

/* ---- another mesh ---- */

/* The scene answers as one whose body had the mesh from the start, whatever the kind. */
static void test_another_mesh(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(0.7, 3), small = shape_cube(1, 1);
    ct_mesh *mesh = shape_to_mesh(&ball, NULL), *old = shape_to_mesh(&small, NULL);
    double away[12];
    shape_pose_identity(away);
    away[3] = 0.5;
    for (int rigid = 0; rigid < 2; rigid++) {
        const ct_body_kind kind = rigid ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
        const struct placed bodies[] = {{&small, away, CT_BODY_RIGID, 0}, {&ball, rigid ? away : NULL, kind, 0}};
        struct placed first[] = {bodies[0], bodies[1]};
        first[1].shape = &small;
        ct_scene_settings settings = stage_exact();
        struct stage fresh = stage_open(engine, &settings, bodies, 2),
                     changed = stage_open(engine, &settings, first, 2);
        ct_result_free(&(ct_result *){stage_step(&changed, NULL, 0, CT_WANT_ALL)});
        ct_error error = {0};
        const uint64_t bytes = ct_scene_bytes(changed.scene);
        assert_int_equal(ct_scene_replace_mesh(changed.scene, changed.body[1], mesh, &error), CT_OK);
        assert_int_equal(ct_scene_bytes(changed.scene) - bytes,
                         rigid ? 0 : 12ull * (ball.n_vertices - small.n_vertices));
        ct_body_info info;
        assert_int_equal(ct_scene_body_info(changed.scene, changed.body[1], &info, NULL), CT_OK);
        assert_ptr_equal(info.mesh, mesh);
        assert_int_equal(info.kind, kind);
        assert_int_equal(info.vertices, ball.n_vertices);
        assert_true(info.pose[3] == (rigid ? 0.5 : 0));
        char hashes[2][33];
        ct_result *results[2] = {stage_step(&fresh, NULL, 0, CT_WANT_ALL), stage_step(&changed, NULL, 0, CT_WANT_ALL)};
        assert_int_equal(results[0]->n_contacts, 1);
        for (int i = 0; i < 2; i++) {
            stage_hash(results[i], hashes[i]);
            ct_result_free(&results[i]);
        }
        assert_string_equal(hashes[0], hashes[1]);
        if (!rigid) { /* positions of the old size */
            const ct_update stale = {
                changed.body[1], CT_UPDATE_POSITIONS, small.positions, CT_F32, small.n_vertices, NULL, 0, {0}};
            ct_step step = {.scene = changed.scene, .updates = &stale, .n_updates = 1};
            assert_int_equal(ct_engine_run(engine, &step, 1), CT_WRONG_LENGTH);
            expect_error(&step.error, CT_WRONG_LENGTH, "positions", "positions of 8 vertices, expected 642");
            /* An inverted body's warning ends with its mesh. */
            float *mirrored = malloc(ball.n_vertices * 12);
            assert_non_null(mirrored);
            for (uint32_t i = 0; i < 3 * ball.n_vertices; i++)
                mirrored[i] = i % 3 ? ball.positions[i] : -ball.positions[i];
            const ct_update inverted = {
                changed.body[1], CT_UPDATE_POSITIONS, mirrored, CT_F32, ball.n_vertices, NULL, 0, {0}};
            ct_result *result = stage_step(&changed, &inverted, 1, 0);
            assert_int_equal(result->n_warnings, 1);
            ct_result_free(&result);
            assert_int_equal(ct_scene_replace_mesh(changed.scene, changed.body[1], old, NULL), CT_OK);
            result = stage_step(&changed, NULL, 0, 0);
            assert_int_equal(result->n_warnings, 0);
            assert_int_equal(result->n_contacts, 1);
            ct_result_free(&result);
            free(mirrored);
        }
        stage_close(&fresh);
        stage_close(&changed);
    }
    ct_mesh_release(&mesh);
    ct_mesh_release(&old);
    shape_free(&ball);
    shape_free(&small);
}

static void test_refused_meshes(void **state) {
    (void)state;
    ct_scene_settings settings = stage_exact();
    ct_scene *scene;
    ct_error error = {0};
    uint32_t plane;
    assert_int_equal(ct_scene_create(engine, &settings, &scene, NULL), CT_OK);
    const uint32_t body = add(scene, NULL);
    assert_int_equal(ct_scene_add_half_space(scene, (const double[]){0, 0, 1}, 0, NULL, &plane, NULL), CT_OK);
    assert_int_equal(ct_scene_replace_mesh(scene, plane, cube, &error), CT_INVALID_ARGUMENT);
    expect_error(&error, CT_INVALID_ARGUMENT, "body", "half-space");
    error = (ct_error){0};
    assert_int_equal(ct_scene_replace_mesh(scene, body, NULL, &error), CT_INVALID_ARGUMENT);
    expect_error(&error, CT_INVALID_ARGUMENT, "mesh", "no mesh was given");
    error = (ct_error){0};
    assert_int_equal(ct_scene_replace_mesh(scene, 77, cube, &error), CT_NOT_FOUND);
    expect_error(&error, CT_NOT_FOUND, "body", "body 77");
    assert_int_equal(pairs(scene), 1);
    ct_scene_destroy(&scene);
}

static uint64_t bytes_of(const ct_mesh *mesh) {
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    return info.bytes;
}

/* What the method exact derives from a mesh is made when a body joins a scene that runs it, or when a scene with bodies
 * is configured to it: not in a step. */
static void test_methods_prepare_meshes(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 4), small = shape_icosphere(1, 2);
    for (int late = 0; late < 2; late++) {
        ct_mesh *mesh = shape_to_mesh(&ball, NULL);
        ct_scene *scene = new_scene();
        ct_scene_settings exact = stage_exact();
        ct_body_options o;
        ct_body_options_init(&o);
        o.kind = CT_BODY_RIGID;
        uint32_t body;
        if (!late) assert_int_equal(ct_scene_configure(scene, &exact, NULL), CT_OK);
        const uint64_t plain = bytes_of(mesh);
        for (int i = 0; i < 2; i++) assert_int_equal(ct_scene_add_body(scene, mesh, &o, &body, NULL), CT_OK);
        if (late) {
            ct_step step = {.scene = scene};
            assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK); /* LDI keeps clusters, and no topology */
            ct_result_free(&step.result);
            const uint64_t by_rays = bytes_of(mesh);
            assert_int_equal(ct_scene_configure(scene, &exact, NULL), CT_OK);
            assert_true(bytes_of(mesh) >= by_rays + 6 * (uint64_t)ball.n_triangles);
        }
        const uint64_t prepared = bytes_of(mesh);
        assert_true(prepared >= plain + 6 * (uint64_t)ball.n_triangles);
        ct_step step = {.scene = scene, .want = CT_WANT_ALL};
        assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
        assert_int_equal(step.result->n_contacts, 1);
        ct_result_free(&step.result);
        assert_int_equal(bytes_of(mesh), prepared);
        ct_mesh *other = shape_to_mesh(&small, NULL); /* another one in its place */
        const uint64_t others = bytes_of(other);
        assert_int_equal(ct_scene_replace_mesh(scene, body, other, NULL), CT_OK);
        assert_true(bytes_of(other) > others + 6 * (uint64_t)small.n_triangles);
        ct_mesh_release(&other);
        exact.patches = true;
        assert_int_equal(ct_scene_configure(scene, &exact, NULL), CT_OK);
        assert_true(bytes_of(mesh) > prepared); /* the edges */
        ct_scene_destroy(&scene);
        ct_mesh_release(&mesh);
    }
    shape_free(&ball);
    shape_free(&small);
}

int main(void) {
    engine = stage_engine(1, NULL);
    struct shape shape = shape_cube(1, 1);
    cube = shape_to_mesh(&shape, NULL);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_settings),
                                       cmocka_unit_test(test_handles),
                                       cmocka_unit_test(test_generations),
                                       cmocka_unit_test(test_many_come_and_go),
                                       cmocka_unit_test(test_refused_bodies),
                                       cmocka_unit_test(test_poses_out_of_reach),
                                       cmocka_unit_test(test_ignore_lists),
                                       cmocka_unit_test(test_groups),
                                       cmocka_unit_test(test_info_and_references),
                                       cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_defaults),
                                       cmocka_unit_test(test_methods_prepare_meshes),
                                       cmocka_unit_test(test_another_mesh),
                                       cmocka_unit_test(test_refused_meshes)};
    int failed = cmocka_run_group_tests_name("scene", tests, NULL, NULL);
    ct_mesh_release(&cube);
    ct_engine_destroy(&engine);
    shape_free(&shape);
    return failed;
}
