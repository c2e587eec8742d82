/* world.h - a scheduler over the real engine with a box to put into scenes, for the scheduler's tests. */
#ifndef SCHEDULE_WORLD_H
#define SCHEDULE_WORLD_H

#include <stdlib.h>

#include "gpu/method/engine.h"
#include "server/registry/internal.h"
#include "server/schedule/internal.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

typedef struct world {
    ct_engine *engine;
    metrics *metrics;
    registry *registry;
    scheduler *scheduler;
    uint64_t box;
} world;

/* With an engine on the CPU; what else it wants of the engine a test arranges before world_start. */
static inline world *world_new(void) {
    world *world = calloc(1, sizeof *world);
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = "cpu";
    options.threads = 2;
    assert_int_equal(ct_engine_create(&options, &world->engine, NULL), CT_OK);
    return world;
}

/* world->box: the same mesh for all who register it. */
static inline void register_box(world *world, const identity *who) {
    server_error error = {0};
    struct shape box = shape_box(1, 1, 1);
    mesh_record mesh;
    assert_true(registry_register_arrays(world->registry, box.positions, CT_F32, box.n_vertices, box.triangles,
                                         box.n_triangles, "box", NULL, who, &mesh, NULL, &error));
    shape_free(&box);
    world->box = mesh.handle;
}

/* in_flight: steps of a session, and as many sessions and scenes. */
static inline void world_start(world *world, uint32_t queue, uint32_t in_flight, uint64_t window_us) {
    world->metrics = metrics_new();
    registry_limits limits = {1 << 20, 1 << 24, in_flight, in_flight, in_flight, 60000};
    world->registry = registry_new(&limits, world->engine, world->metrics);
    scheduler_options options = {.engine = world->engine,
                                 .backend = "cpu",
                                 .queue = queue,
                                 .max_in_flight = in_flight,
                                 .batch_window_us = window_us};
    server_error error = {0};
    world->scheduler = scheduler_start(&options, world->registry, world->metrics, &error);
    assert_non_null(world->scheduler);
    /* However busy the machine is, a step stays in its lane. */
    pthread_mutex_lock(&world->scheduler->lock);
    world->scheduler->preemption = (preemption){0};
    pthread_mutex_unlock(&world->scheduler->lock);
    register_box(world, &(identity){.principal = PRINCIPAL_NONE});
}

/* Leaves nothing behind: what scenes held is given back when the scheduler ends. */
static inline void world_free(world *world) {
    scheduler_stop(&world->scheduler);
    registry_totals totals;
    registry_get_totals(world->registry, &totals);
    assert_int_equal(totals.scenes, 0);
    assert_int_equal(totals.bodies, 0);
    assert_int_equal(totals.scene_bytes, 0);
    registry_free(&world->registry);
    metrics_free(&world->metrics);
    ct_engine_destroy(&world->engine);
    free(world);
}

static inline uint64_t open_session(world *world) {
    session_record session;
    server_error error = {0};
    assert_true(registry_open_session(world->registry, "test", 0, &session, &error));
    return session.token;
}

static inline uint64_t open_scene(world *world, uint64_t session, uint32_t resolution) {
    command open = {.kind = COMMAND_OPEN, .session = session};
    open.in.open.settings =
        (ct_settings_change){CT_GIVEN(CT_SETTING_RESOLUTION), {.resolution = {resolution, resolution, resolution}}};
    assert_true(scheduler_execute(world->scheduler, &open));
    return open.out.scene.handle;
}

/* A rigid box, shifted along all three axes. */
static inline uint32_t add_box(world *world, uint64_t session, uint64_t scene, double shift) {
    command add = {.kind = COMMAND_ADD_BODY, .session = session, .scene = scene};
    add.in.add_body.mesh = world->box;
    ct_body_options_init(&add.in.add_body.options);
    add.in.add_body.options.kind = CT_BODY_RIGID;
    for (int k = 0; k < 3; k++) add.in.add_body.options.pose[4 * k + 3] = shift;
    assert_true(scheduler_execute(world->scheduler, &add));
    return add.out.body;
}

#endif
