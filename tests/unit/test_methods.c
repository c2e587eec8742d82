/* test_methods.c - the table of methods: names, what an engine's backend has, what is refused and when; limits of a
 * step; what a result says of its end; batches of steps that run in different ways; products with contacts made by
 * hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/method/engine.h"
#include "gpu/picture/picture.h"
#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

static void expect(const ct_error *error, ct_status status, const char *field, const char *words) {
    assert_string_equal(ct_status_name(error->status), ct_status_name(status));
    assert_string_equal(error->field, field);
    if (!strstr(error->message, words)) fail_msg("\"%s\" does not say \"%s\"", error->message, words);
}

static void test_names(void **state) {
    (void)state;
    size_t n = 0;
    for (ct_method method; (method = ct_method_at(n)) != CT_METHOD_NONE; n++) {
        for (size_t i = 0; i < n; i++) assert_string_not_equal(ct_method_name(ct_method_at(i)), ct_method_name(method));
    }
    assert_true(n >= 1 && n <= CT_MAX_METHODS);
    assert_string_equal(ct_method_name(CT_METHOD_LDI), "ldi");
    assert_string_equal(ct_method_name(CT_METHOD_EXACT), "exact");
    assert_string_equal(ct_method_name(CT_METHOD_AUTO), "auto");
    assert_string_equal(ct_method_name(CT_METHOD_NONE), "unknown");
    assert_string_equal(ct_method_name((ct_method)99), "unknown");
    for (size_t i = 0; i < n; i++) assert_int_not_equal(ct_method_at(i), CT_METHOD_AUTO);
    ct_error error = {0};
    assert_null(ct_method_row_of((ct_method)99, &error));
    expect(&error, CT_UNSUPPORTED, "method", "method 99 is unknown: this build has ldi, exact, ebpi, voxtree");
}

static void test_every_backend_has_its_column(void **state) {
    (void)state;
    const ct_method_row *row = ct_method_row_of(CT_METHOD_LDI, NULL);
    for (size_t i = 0; ct_backend_at(i); i++) assert_non_null(ct_method_run_on(row, ct_backend_at(i)->name));
    assert_null(ct_method_run_on(row, "abacus"));
    ct_engine *engine = stage_engine(1, NULL);
    ct_method methods[CT_MAX_METHODS];
    assert_int_equal(ct_engine_methods(engine, methods), 4);
    assert_int_equal(methods[0], CT_METHOD_LDI);
    assert_int_equal(methods[1], CT_METHOD_EXACT);
    assert_int_equal(methods[2], CT_METHOD_EBPI);
    ct_engine_destroy(&engine);
}

/* An engine whose backend lacks the method refuses it when a scene is opened or changed, not when it is stepped. */
static void test_lacking(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(1, NULL);
    struct shape box = shape_box(1, 1, 1);
    ct_scene_settings settings = stage_resolution(4);
    struct stage stage = stage_open(engine, &settings, (struct placed[]){{&box, NULL, 0}}, 1);
    ct_method_run *run = engine->run[0], *exact = engine->run[1];
    engine->run[0] = engine->run[1] = engine->run[2] = engine->run[3] = NULL;
    ct_method methods[CT_MAX_METHODS];
    assert_int_equal(ct_engine_methods(engine, methods), 0);
    ct_scene *scene = NULL;
    ct_error error = {0};
    assert_int_equal(ct_scene_create(engine, &settings, &scene, &error), CT_UNSUPPORTED);
    assert_null(scene);
    expect(&error, CT_UNSUPPORTED, "method", "method \"ldi\" is not available on backend \"cpu\", which has: none");
    error.status = CT_OK;
    settings.resolution[0] = 9;
    assert_int_equal(ct_scene_configure(stage.scene, &settings, &error), CT_UNSUPPORTED);
    expect(&error, CT_UNSUPPORTED, "method", "\"ldi\"");
    ct_scene_get_settings(stage.scene, &settings);
    assert_int_equal(settings.resolution[0], 4);
    assert_int_equal(ct_scene_settings_check(&settings, NULL), CT_OK); /* a method of this build all the same */
    engine->run[0] = run;

    /* A backend with LDI alone: auto runs it, and exact is refused. */
    ct_scene_settings_init(&settings);
    assert_int_equal(ct_engine_auto_method(engine), CT_METHOD_LDI);
    assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
    ct_scene_get_running(stage.scene, &settings);
    assert_int_equal(settings.method, CT_METHOD_LDI);
    assert_int_equal(settings.resolution[1], CT_DEFAULT_RESOLUTION);
    ct_scene_get_settings(stage.scene, &settings);
    assert_int_equal(settings.method, CT_METHOD_AUTO);
    assert_int_equal(settings.resolution[1], 0);
    settings.method = CT_METHOD_EXACT;
    error.status = CT_OK;
    assert_int_equal(ct_scene_create(engine, &settings, &scene, &error), CT_UNSUPPORTED);
    expect(&error, CT_UNSUPPORTED, "method", "method \"exact\" is not available on backend \"cpu\", which has: ldi");
    engine->run[1] = exact;
    assert_int_equal(ct_engine_auto_method(engine), CT_METHOD_EXACT);
    stage_close(&stage);
    ct_engine_destroy(&engine);
    shape_free(&box);
}

/* EXACT takes no sampling and gives no spans, and says so. Its results name it. A picture's samples are LDI's. */
static void test_exact(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(1, NULL);
    struct shape box = shape_box(1, 1, 1);
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.5;
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    struct stage stage = stage_open(engine, &settings, (struct placed[]){{&box, NULL, 0}, {&box, pose, 0}}, 2);
    for (int named = 0; named < 3; named++) {
        static const char *const fields[] = {"resolution", "pixel_size", "pixel_size"};
        ct_scene_settings_init(&settings);
        settings.method = CT_METHOD_EXACT;
        if (named == 0) settings.resolution[2] = 8;
        if (named > 0) settings.pixel_size = named == 1 ? 0.25 : NAN;
        ct_error error = {0};
        assert_int_equal(ct_scene_configure(stage.scene, &settings, &error), CT_INVALID_ARGUMENT);
        expect(&error, CT_INVALID_ARGUMENT, fields[named], "method \"exact\" takes no ");
        expect(&error, CT_INVALID_ARGUMENT, fields[named], "choose method \"ldi\"");
    }
    for (int k = 0; k < 2; k++) {
        ct_scene_settings_init(&settings);
        settings.method = k ? CT_METHOD_EXACT : CT_METHOD_AUTO;
        assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
        ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL};
        assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
        assert_int_equal(step.result->method, CT_METHOD_EXACT);
        assert_int_equal(step.result->n_contacts, 1);
        const ct_contact *c = step.result->contacts;
        assert_true(c->error_bound >= 0 && c->error_bound == c->error_estimate && c->max_winding == 1);
        assert_true(c->volumes[0] == c->volume && c->volumes[1] == c->volume && c->volumes[2] == c->volume);
        assert_true(c->n_spans == 0 && c->index == 0);
        ct_result_free(&step.result);
        step.want |= CT_WANT_SPANS;
        assert_int_equal(ct_engine_run(engine, &step, 1), CT_INVALID_ARGUMENT);
        assert_null(step.result);
        expect(&step.error, CT_INVALID_ARGUMENT, "want", "method \"exact\" gives no spans");
        ct_snapshot_options options;
        ct_snapshot *snapshot = NULL;
        ct_error error = {0};
        ct_snapshot_options_init(&options);
        if (ct_snapshot_take(stage.scene, &options, &snapshot, &error)) fail_msg("%s", error.message);
        assert_int_equal(snapshot->n_spans, 3 * CT_DEFAULT_RESOLUTION * CT_DEFAULT_RESOLUTION);
        ct_snapshot_free(&snapshot);
        ct_scene_get_running(stage.scene, &settings);
        assert_int_equal(settings.method, CT_METHOD_EXACT); /* the picture has changed nothing */
        assert_int_equal(settings.resolution[0], 0);
    }
    stage_close(&stage);
    ct_engine_destroy(&engine);
    shape_free(&box);
}

/* EBPI needs a tolerance that can be reached; AUTO runs it where one is named; the others refuse it. */
static void test_ebpi(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(1, NULL);
    struct shape box = shape_box(1, 1, 1);
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.5;
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    struct stage stage = stage_open(engine, &settings, (struct placed[]){{&box, NULL, 0}, {&box, pose, 0}}, 2);
    const struct {
        ct_method method;
        double tolerance, tolerance_rel, pixel_size;
        uint64_t ray_budget;
        ct_status status;
        const char *field, *words;
    } cases[] = {
        {CT_METHOD_EBPI, 0, 0, 0, 0, CT_INVALID_ARGUMENT, "tolerance", "needs a tolerance"},
        {CT_METHOD_EBPI, -1, 0, 0, 0, CT_OUT_OF_RANGE, "tolerance", "-1"},
        {CT_METHOD_EBPI, NAN, 0, 0, 0, CT_NON_FINITE, "tolerance", "nan"},
        {CT_METHOD_EBPI, INFINITY, 0, 0, 0, CT_NON_FINITE, "tolerance", "inf"},
        {CT_METHOD_EBPI, 0, 1e-9, 0, 0, CT_OUT_OF_RANGE, "tolerance_rel", "from 1e-06 to 1"},
        {CT_METHOD_EBPI, 0, NAN, 0, 0, CT_NON_FINITE, "tolerance_rel", "nan"},
        {CT_METHOD_EBPI, 1, 0, 0, (uint64_t)CT_MAX_RAY_BUDGET + 1, CT_OUT_OF_RANGE, "ray_budget", "expected 3"},
        {CT_METHOD_EBPI, 1, 0, 0, 2, CT_OUT_OF_RANGE, "ray_budget", "expected 3"},
        {CT_METHOD_EBPI, 1, 0, 0.5, 0, CT_INVALID_ARGUMENT, "pixel_size", "method \"ebpi\" takes no pixel_size"},
        {CT_METHOD_AUTO, 1, 0, 0.5, 0, CT_INVALID_ARGUMENT, "pixel_size", "takes no pixel_size"},
        {CT_METHOD_AUTO, 0, 0, 0, 5, CT_INVALID_ARGUMENT, "tolerance", "needs a tolerance"},
        {CT_METHOD_LDI, 1, 0, 0, 0, CT_INVALID_ARGUMENT, "tolerance", "method \"ldi\" takes no tolerance"},
        {CT_METHOD_EXACT, 0, 1, 0, 0, CT_INVALID_ARGUMENT, "tolerance_rel", "choose method \"ebpi\""},
        {CT_METHOD_EXACT, 0, 0, 0, 5, CT_INVALID_ARGUMENT, "ray_budget", "takes no ray_budget"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_scene_settings_init(&settings);
        settings.method = cases[i].method;
        settings.tolerance = cases[i].tolerance;
        settings.tolerance_rel = cases[i].tolerance_rel;
        settings.pixel_size = cases[i].pixel_size;
        settings.ray_budget = cases[i].ray_budget;
        ct_error error = {0};
        assert_int_equal(ct_scene_configure(stage.scene, &settings, &error), cases[i].status);
        expect(&error, cases[i].status, cases[i].field, cases[i].words);
    }
    const struct {
        double seconds;
        ct_status status;
    } limits[] = {{-1, CT_OUT_OF_RANGE}, {NAN, CT_NON_FINITE}, {INFINITY, CT_NON_FINITE}, {-INFINITY, CT_NON_FINITE}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        ct_scene_settings_init(&settings);
        settings.max_step_time = limits[i].seconds;
        ct_error error = {0};
        assert_int_equal(ct_scene_configure(stage.scene, &settings, &error), limits[i].status);
        expect(&error, limits[i].status, "max_step_time", "expected a positive number");
    }
    ct_scene_settings turned;
    ct_error refused = {0};
    ct_scene_settings_init(&turned);
    turned.method = CT_METHOD_EXACT;
    turned.optimize_directions = true;
    assert_int_equal(ct_scene_configure(stage.scene, &turned, &refused), CT_INVALID_ARGUMENT);
    expect(&refused, CT_INVALID_ARGUMENT, "optimize_directions", "choose method \"ebpi\"");
    turned.optimize_directions = false;
    turned.allocation = CT_ALLOCATION_PUBLISHED;
    refused = (ct_error){0};
    assert_int_equal(ct_scene_configure(stage.scene, &turned, &refused), CT_INVALID_ARGUMENT);
    expect(&refused, CT_INVALID_ARGUMENT, "allocation", "choose method \"ebpi\"");
    turned.method = CT_METHOD_EBPI;
    turned.tolerance = 1e-2;
    turned.allocation = (ct_allocation)3;
    refused = (ct_error){0};
    assert_int_equal(ct_scene_configure(stage.scene, &turned, &refused), CT_OUT_OF_RANGE);
    expect(&refused, CT_OUT_OF_RANGE, "allocation", "expected optimal, published or per_pixel");
    assert_null(ct_allocation_name((ct_allocation)3));
    /* AUTO as it is: exact, and EBPI in a step that names a tolerance. */
    ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL};
    for (int k = 0; k < 3; k++) {
        step.tolerance = k == 1 ? 1e-2 : 0;
        assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
        assert_int_equal(step.result->method, k == 1 ? CT_METHOD_EBPI : CT_METHOD_EXACT);
        assert_int_equal(step.result->ended, CT_ENDED_COMPLETED);
        assert_true(step.result->quality == 1 && step.result->n_contacts == 1);
        const ct_contact *c = step.result->contacts;
        assert_true(fabs(c->volume - 0.5) <= c->error_bound && c->error_bound <= 1e-2);
        assert_true((step.result->passes > 0) == (k == 1));
        ct_result_free(&step.result);
    }
    /* Below what coordinates carry: the message says what can be asked for, and that can be. */
    step.tolerance = 1e-14;
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_OUT_OF_RANGE);
    expect(&step.error, CT_OUT_OF_RANGE, "tolerance", "ask for ");
    step.tolerance = strtod(strstr(step.error.message, "ask for ") + 8, NULL);
    assert_true(step.tolerance > 1e-14 && step.tolerance < 1e-7);
    ct_scene_settings_init(&settings);
    settings.ray_budget = 1000;
    settings.tolerance = 1;
    assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
    ct_scene_get_running(stage.scene, &settings);
    assert_int_equal(settings.method, CT_METHOD_EBPI);
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK); /* it can be asked for, though not with so few rays */
    assert_string_equal(ct_ended_name(step.result->ended), "ray_budget");
    assert_true(step.result->quality == 0 && step.result->rays <= 1000);
    assert_true(step.result->contacts[0].error_bound > step.tolerance);
    assert_true(fabs(step.result->contacts[0].volume - 0.5) <= step.result->contacts[0].error_bound);
    ct_result_free(&step.result);
    step.want |= CT_WANT_SPANS;
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_INVALID_ARGUMENT);
    expect(&step.error, CT_INVALID_ARGUMENT, "want", "method \"ebpi\" gives no spans");
    step.want = CT_WANT_ALL | CT_WANT_INERTIA;
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_INVALID_ARGUMENT);
    expect(&step.error, CT_INVALID_ARGUMENT, "want", "method \"ebpi\" gives no inertia");
    settings.patches = true;
    ct_error error = {0};
    assert_int_equal(ct_scene_configure(stage.scene, &settings, &error), CT_INVALID_ARGUMENT);
    expect(&error, CT_INVALID_ARGUMENT, "patches", "method \"ebpi\" takes no patches");
    error = (ct_error){0};
    settings.method = CT_METHOD_AUTO;
    assert_int_equal(ct_scene_configure(stage.scene, &settings, &error), CT_INVALID_ARGUMENT);
    expect(&error, CT_INVALID_ARGUMENT, "patches", "takes no tolerance");
    assert_string_equal(ct_ended_name((ct_ended)99), "unknown");
    stage_close(&stage);
    ct_engine_destroy(&engine);
    shape_free(&box);
}

/* EBPI refuses what it does not have, in a scene and where a step's tolerance chooses it. */
static void test_ebpi_refuses(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(1, NULL);
    struct shape box = shape_box(1, 1, 1);
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.patches = true;
    struct stage stage = stage_open(engine, &settings, (struct placed[]){{&box, NULL, 0}}, 1);
    ct_step step = {.scene = stage.scene, .tolerance = 1e-3};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_INVALID_ARGUMENT);
    expect(&step.error, CT_INVALID_ARGUMENT, "patches", "method \"ebpi\" takes no patches");
    settings.patches = false;
    assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
    ct_result_free(&step.result);

    ct_body_options options;
    ct_body_options_init(&options);
    options.kind = CT_BODY_HALF_SPACE;
    uint32_t body;
    assert_int_equal(ct_scene_add_body(stage.scene, NULL, &options, &body, NULL), CT_OK);
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_UNSUPPORTED);
    expect(&step.error, CT_UNSUPPORTED, "tolerance", "method \"ebpi\" takes no half-spaces");
    settings.method = CT_METHOD_EBPI;
    settings.tolerance = 1e-3;
    ct_error error = {0};
    assert_int_equal(ct_scene_configure(stage.scene, &settings, &error), CT_UNSUPPORTED);
    expect(&error, CT_UNSUPPORTED, "method", "method \"ebpi\" takes no half-spaces");
    assert_int_equal(ct_scene_remove_body(stage.scene, body, NULL), CT_OK);
    assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
    error = (ct_error){0};
    assert_int_equal(ct_scene_add_body(stage.scene, NULL, &options, &body, &error), CT_UNSUPPORTED);
    expect(&error, CT_UNSUPPORTED, "kind", "method \"ebpi\" takes no half-spaces");

    options.kind = CT_BODY_RIGID;
    options.self_contact = true;
    ct_mesh *mesh = shape_to_mesh(&box, NULL);
    error = (ct_error){0};
    assert_int_equal(ct_scene_add_body(stage.scene, mesh, &options, &body, &error), CT_UNSUPPORTED);
    ct_mesh_release(&mesh);
    expect(&error, CT_UNSUPPORTED, "self_contact", "method \"ebpi\" on backend \"cpu\" finds no contact");
    const ct_direction direction = {.body = stage.body[0]};
    step.tolerance = 0;
    step.directions = &direction;
    step.n_directions = 1;
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_INVALID_ARGUMENT);
    expect(&step.error, CT_INVALID_ARGUMENT, "directions", "method \"ebpi\" gives no products");
    stage_close(&stage);
    ct_engine_destroy(&engine);
    shape_free(&box);
}

static void test_limits(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(1, NULL);
    struct shape box = shape_box(1, 1, 1);
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.5;
    ct_scene_settings settings = stage_resolution(4);
    struct stage stage = stage_open(engine, &settings, (struct placed[]){{&box, NULL, 0}, {&box, pose, 0}}, 2);
    const struct {
        double time_budget, tolerance;
        ct_status status;
        const char *field, *words;
    } cases[] = {
        {1e-3, 0, CT_INVALID_ARGUMENT, "time_budget", "method \"ldi\" takes no time_budget"},
        {0, 1e-6, CT_INVALID_ARGUMENT, "tolerance", "method \"ldi\" takes no tolerance"},
        {-1, 0, CT_OUT_OF_RANGE, "time_budget", "-1"},
        {NAN, 0, CT_NON_FINITE, "time_budget", "nan"},
        {0, INFINITY, CT_OUT_OF_RANGE, "tolerance", "inf"},
        {0, -2, CT_OUT_OF_RANGE, "tolerance", "-2"},
    };
    ct_update update = {.body = stage.body[1], .kind = CT_UPDATE_POSE};
    shape_pose_identity(update.pose);
    update.pose[3] = 0.25;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_step step = {.scene = stage.scene,
                        .updates = &update,
                        .n_updates = 1,
                        .time_budget = cases[i].time_budget,
                        .tolerance = cases[i].tolerance};
        assert_int_equal(ct_engine_run(engine, &step, 1), cases[i].status);
        assert_null(step.result);
        expect(&step.error, cases[i].status, cases[i].field, cases[i].words);
        ct_body_info info;
        assert_int_equal(ct_scene_body_info(stage.scene, stage.body[1], &info, NULL), CT_OK);
        assert_true(info.pose[3] == 0.5); /* nothing has moved */
    }
    ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
    assert_int_equal(step.result->method, CT_METHOD_LDI);
    assert_int_equal(step.result->ended, CT_ENDED_COMPLETED);
    assert_true(step.result->quality == 1);
    assert_int_equal(step.result->n_points, 0);
    assert_null(step.result->points);
    assert_int_equal(step.result->n_contacts, 1);
    assert_int_equal(step.result->contacts[0].index, 0);
    assert_int_equal(step.result->contacts[0].n_points, 0);
    ct_result_free(&step.result);
    stage_close(&stage);
    ct_engine_destroy(&engine);
    shape_free(&box);
}

/* ---- batches ---- */

enum { SCENES = 7 };
static struct {
    size_t n_steps[SCENES];
    const ct_scene *first[SCENES];
    size_t calls;
} noted;

static void note(ct_step *steps, size_t n_steps) {
    noted.first[noted.calls] = steps[0].scene;
    noted.n_steps[noted.calls++] = n_steps;
}

static ct_method_run *real_run;

static void noted_run(ct_device *device, ct_step *steps, size_t n_steps) {
    note(steps, n_steps);
    real_run(device, steps, n_steps);
}

/* Steps of several devices, in one batch: a call for each device, answers in the places of their steps. */
static void test_parts(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(1, "base");
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.threads = 1;
    assert_int_equal(engine->backend->create(&options, 0, &engine->devices[1].device, NULL), CT_OK);
    engine->n_devices = 2;
    real_run = engine->run[0];
    engine->run[0] = noted_run;
    struct shape box = shape_box(1, 1, 1);
    ct_mesh *mesh = shape_to_mesh(&box, NULL);
    ct_scene_settings settings = stage_resolution(4);
    ct_step steps[SCENES] = {0};
    for (size_t i = 0; i < SCENES; i++) {
        assert_int_equal(ct_scene_create_on(engine, i % 3 == 1, &settings, &steps[i].scene, NULL), CT_OK);
        for (size_t b = 0; b <= i; b++) { /* so many bodies in one place: i (i + 1) / 2 pairs */
            ct_body_options body;
            uint32_t handle;
            ct_body_options_init(&body);
            body.kind = CT_BODY_RIGID;
            assert_int_equal(ct_scene_add_body(steps[i].scene, mesh, &body, &handle, NULL), CT_OK);
        }
    }
    steps[4].tolerance = 1; /* refused, and the others are not */
    noted.calls = 0;
    assert_int_equal(ct_engine_run(engine, steps, SCENES), CT_INVALID_ARGUMENT);
    assert_int_equal(noted.calls, 2);
    assert_int_equal(noted.n_steps[0], 5); /* 0 2 3 5 6 */
    assert_int_equal(noted.n_steps[1], 2); /* 1 4 */
    assert_ptr_equal(noted.first[1], steps[1].scene);
    for (size_t i = 0; i < SCENES; i++) {
        if (i == 4) {
            assert_null(steps[i].result);
            assert_string_equal(steps[i].error.field, "tolerance");
        } else {
            assert_int_equal(steps[i].result->pairs, i * (i + 1) / 2);
            assert_true(steps[i].result->quality == 1);
        }
        ct_result_free(&steps[i].result);
        ct_scene_destroy(&steps[i].scene);
    }
    assert_int_equal(ct_engine_run(engine, NULL, 0), CT_OK);
    ct_mesh_release(&mesh);
    shape_free(&box);
    ct_engine_destroy(&engine);
}

/* ---- contacts made by hand ---- */

/* A body with itself: vertices 0 1 in one part, 1 2 in the other. Given that body's arrays twice, the product is that
 * of the sum of both parts. And a second contact of the same pair accumulates. */
static void test_stiffness_of_a_body_with_itself(void **state) {
    (void)state;
    uint32_t vertices[] = {0, 1, 1, 2};
    double gradient[] = {1, 0, 0, 0, 2, 0, 0, -3, 1, 4, 0, 0};
    ct_contact contacts[2] = {{.body = {5, 5}, .first = {0, 2}, .count = {2, 2}},
                              {.body = {5, 5}, .index = 1, .first = {1, 4}, .count = {1, 0}}};
    ct_result result = {.n_contacts = 2, .contacts = contacts, .vertices = vertices, .gradient = gradient};
    const double g[2][9] = {{1, 0, 0, 0, -1, 1, 4, 0, 0}, {0, 0, 0, 0, 2, 0, 0, 0, 0}};
    const double d[9] = {0.5, 1, 2, -1, 3, 0.25, 1.5, 7, 8};
    double out[9], expected[9];
    for (int k = 0; k < 9; k++) out[k] = expected[k] = 0.125 * k;
    for (size_t i = 0; i < 2; i++) {
        double along = 0;
        for (int k = 0; k < 9; k++) along += g[i][k] * d[k];
        for (int k = 0; k < 9; k++) expected[k] -= 10 * along * g[i][k];
        ct_contact_stiffness_product(&result, i, 10, (const double *const[2]){d, d}, (double *const[2]){out, out});
    }
    for (int k = 0; k < 9; k++) assert_true(fabs(out[k] - expected[k]) < 1e-12);
}

/* exact: one lattice holds both bodies, so one must not be too small for the other's. */
static void test_extents_of_exact(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(1, NULL);
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_EXACT;
    const struct {
        double size;
        bool is_refused;
    } cases[] = {{1e6, false}, {1e8, true}};
    for (int i = 0; i < 2; i++) {
        struct shape large = shape_box(cases[i].size, cases[i].size, cases[i].size), small = shape_box(1, 1, 1);
        double pose[12];
        shape_pose_identity(pose);
        pose[11] = cases[i].size / 2;
        struct stage stage = stage_open(engine, &settings, (struct placed[]){{&large, NULL, 0}, {&small, pose, 0}}, 2);
        ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL};
        if (cases[i].is_refused) {
            assert_int_equal(ct_engine_run(engine, &step, 1), CT_OUT_OF_RANGE);
            expect(&step.error, CT_OUT_OF_RANGE, "method", "extend over 1e+08 m and 1 m");
        } else {
            assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
            assert_int_equal(step.result->n_contacts, 1);
            const ct_contact *c = &step.result->contacts[0];
            assert_true(fabs(c->volume - 0.5) <= c->error_bound && fabs(c->volume - 0.5) < 1e-9);
        }
        ct_result_free(&step.result);
        stage_close(&stage);
        shape_free(&large);
        shape_free(&small);
    }
    ct_engine_destroy(&engine);
}

/* What is made of gradients of vertices, which VOXTREE has of refined pairs alone. */
static void test_voxtree_without_gradient(void **state) {
    (void)state;
    ct_engine *engine = stage_engine(1, NULL);
    struct shape box = shape_box(1, 1, 1);
    double pose[12], d[24], out[24] = {0};
    shape_pose_identity(pose);
    for (int k = 0; k < 3; k++) pose[4 * k + 3] = 0.5;
    for (int i = 0; i < 24; i++) d[i] = i;
    for (int refine = 0; refine < 2; refine++) {
        const ct_scene_settings settings = {
            .cookie = stage_exact().cookie, .method = CT_METHOD_VOXTREE, .voxel_level = 4, .refine = refine};
        struct stage stage = stage_open(
            engine, &settings, (struct placed[]){{&box, NULL, CT_BODY_RIGID, 0}, {&box, pose, CT_BODY_RIGID, 0}}, 2);
        ct_step step = {.scene = stage.scene, .want = CT_WANT_GRADIENT | CT_WANT_FORCES};
        assert_int_equal(ct_engine_run(engine, &step, 1), refine ? CT_OK : CT_INVALID_ARGUMENT);
        if (!refine) expect(&step.error, CT_INVALID_ARGUMENT, "want", "gives no forces on vertices");
        ct_result_free(&step.result);
        step.want = CT_WANT_ALL;
        assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
        const ct_result *r = step.result;
        assert_int_equal(r->n_contacts, 1);
        assert_int_equal(ct_contact_has_gradient(r, 0), refine);
        const ct_body_vectors bodies[] = {{r->contacts[0].body[0], 8, d, out}};
        ct_error error = {0};
        assert_int_equal(
            ct_contact_stiffness_product(r, 0, 1, (const double *const[2]){d, d}, (double *const[2]){out, out}),
            refine ? CT_OK : CT_UNSUPPORTED);
        assert_int_equal(ct_result_stiffness_products(r, 1, bodies, 1, 1, &error), refine ? CT_OK : CT_UNSUPPORTED);
        if (!refine) expect(&error, CT_UNSUPPORTED, "method", "no gradient of vertices");
        bool is_changed = false;
        for (int i = 0; i < 24; i++) is_changed |= out[i] != 0;
        assert_int_equal(is_changed, refine);
        ct_result_free(&step.result);
        stage_close(&stage);
    }
    shape_free(&box);
    ct_engine_destroy(&engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_extents_of_exact),
                                       cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_every_backend_has_its_column),
                                       cmocka_unit_test(test_lacking),
                                       cmocka_unit_test(test_exact),
                                       cmocka_unit_test(test_ebpi),
                                       cmocka_unit_test(test_ebpi_refuses),
                                       cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_voxtree_without_gradient),
                                       cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_stiffness_of_a_body_with_itself)};
    return cmocka_run_group_tests_name("methods", tests, NULL, NULL);
}
