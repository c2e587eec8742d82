/* sizes.h - an engine with limited scratch memory, a scene that needs much of it and one that needs little; for tests
 * of concurrent batches and of too little memory. */
#ifndef BACKEND_SIZES_H
#define BACKEND_SIZES_H

#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

static const uint32_t everything = CT_WANT_ALL | CT_WANT_SPANS;

/* limit: bytes of working memory; 0: none. */
static ct_engine *engine_of(uint32_t threads, size_t limit) {
    ct_engine_options options;
    ct_engine *engine;
    ct_engine_options_init(&options);
    options.backend = "cpu";
    options.threads = threads;
    options.max_scratch_bytes = limit;
    assert_int_equal(ct_engine_create(&options, &engine, NULL), CT_OK);
    return engine;
}

/* A deformable ball of 20 * 4^level triangles in a torus of 4 * n^2. */
static struct stage open_ball_and_torus(ct_engine *engine, int level, int n, uint32_t resolution) {
    struct shape a = shape_icosphere(1, level), b = shape_torus(0.9, 0.4, 2 * n, n);
    ct_scene_settings settings = stage_resolution(resolution);
    const struct placed bodies[] = {{&a, NULL, CT_BODY_DEFORMABLE, 0, NULL}, {&b, NULL, CT_BODY_RIGID, 0, NULL}};
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    shape_free(&a);
    shape_free(&b);
    return stage;
}

static struct stage open_small(ct_engine *engine) {
    struct shape a = shape_box(1, 1, 1), b = shape_tetrahedron(1);
    ct_scene_settings settings = stage_resolution(6);
    const struct placed bodies[] = {{&a, NULL, CT_BODY_RIGID, 0, NULL}, {&b, NULL, CT_BODY_RIGID, 0, NULL}};
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    shape_free(&a);
    shape_free(&b);
    return stage;
}

#endif
