/* shim.h - for tests of the CUDA backend's host side: engines whose kernels the shim runs, on devices that environment
 * variables describe, and a pair of bodies to step. */
#ifndef BACKEND_SHIM_H
#define BACKEND_SHIM_H

#include <stdlib.h>
#include <string.h>

#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

static const uint32_t everything = CT_WANT_ALL | CT_WANT_SPANS;

/* NULL: unset. */
static inline void set(const char *name, const char *value) {
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

/* Every test begins without any of the shim's variables. */
static inline int default_devices(void **state) {
    (void)state;
    static const char *const names[] = {"CT_SHIM_DEVICES",     "CT_SHIM_MEMORY", "CT_SHIM_USED",
                                        "CT_SHIM_DRIVER",      "CT_SHIM_FAIL",   "CT_SHIM_ORDER",
                                        "CT_SHIM_MAX_THREADS", "CT_SHIM_POOLS",  "CT_SHIM_CAPABILITY",
                                        "CT_SHIM_GL_DEVICE",   "CT_SHIM_SMS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    return 0;
}

static inline ct_engine *open_engine(const ct_engine_options *options) {
    ct_engine *engine = NULL;
    ct_error error = {0};
    if (ct_engine_create(options, &engine, &error)) fail_msg("%s: %s", error.field, error.message);
    return engine;
}

static inline void expect_refused(const ct_engine_options *options, ct_status status, const char *field,
                                  const char *part) {
    ct_engine *engine = NULL;
    ct_error error = {0};
    assert_int_equal(ct_engine_create(options, &engine, &error), status);
    assert_null(engine);
    assert_int_equal(error.status, status);
    assert_string_equal(error.field, field);
    if (!strstr(error.message, part)) fail_msg("\"%s\" says nothing of \"%s\"", error.message, part);
}

static inline ct_engine_facts facts_of(const ct_engine *engine) {
    ct_engine_facts facts;
    ct_engine_get_facts(engine, 0, &facts);
    return facts;
}

static inline struct stage open_pair(ct_engine *engine, uint32_t resolution) {
    struct shape a = shape_icosphere(1, 3), b = shape_torus(0.9, 0.4, 30, 15);
    ct_scene_settings settings = stage_resolution(resolution);
    struct stage stage =
        stage_open(engine, &settings,
                   (struct placed[]){{&a, NULL, CT_BODY_DEFORMABLE, 0, NULL}, {&b, NULL, CT_BODY_RIGID, 0, NULL}}, 2);
    shape_free(&a);
    shape_free(&b);
    return stage;
}

/* The hash of the pair's answer from the CPU backend. */
static inline void reference(uint32_t resolution, char hex[33]) {
    ct_engine *engine = stage_engine(1, NULL);
    struct stage stage = open_pair(engine, resolution);
    ct_result *result = stage_step(&stage, NULL, 0, everything);
    stage_hash(result, hex);
    ct_result_free(&result);
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

static inline void expect_hash(struct stage *stage, const char *expected) {
    char hex[33];
    ct_result *result = stage_step(stage, NULL, 0, everything);
    stage_hash(result, hex);
    ct_result_free(&result);
    assert_string_equal(hex, expected);
}

#endif
