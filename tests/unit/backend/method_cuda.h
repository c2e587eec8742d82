/* method_cuda.h - for tests of one method on the CUDA backend, on the shim: a scene's answers in any order of threads,
 * with too little memory and with allocations that fail, against the CPU backend's. */
#ifndef BACKEND_METHOD_CUDA_H
#define BACKEND_METHOD_CUDA_H

#include <stdio.h>

#include "tests/unit/backend/shim.h"

/* A scene in one of two variants. */
struct method_scene {
    ct_method method;
    struct stage (*open)(ct_engine *engine, bool variant);
    size_t least_contacts[2], most_contacts[2]; /* of each variant */
};

/* max_device_bytes: 0, no limit. */
static inline ct_engine *open_cuda(uint64_t max_device_bytes) {
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = "cuda";
    options.max_device_bytes = max_device_bytes;
    return open_engine(&options);
}

/* The hash of the CPU backend's answer. */
static inline void find_expected(const struct method_scene *scene, bool variant, char hex[33]) {
    ct_engine *engine = stage_engine(1, NULL);
    struct stage stage = scene->open(engine, variant);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_ALL);
    assert_int_equal(result->method, scene->method);
    assert_in_range(result->n_contacts, scene->least_contacts[variant], scene->most_contacts[variant]);
    stage_hash(result, hex);
    ct_result_free(&result);
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

/* Frees the result. */
static inline void expect_result(ct_result **result, const char *expected) {
    char hex[33];
    stage_hash(*result, hex);
    ct_result_free(result);
    assert_string_equal(hex, expected);
}

static inline void expect_same(struct stage *stage, const char *expected) {
    ct_result *result = stage_step(stage, NULL, 0, CT_WANT_ALL);
    expect_result(&result, expected);
}

/* Steps of a new scene, with the shim's threads in this order. */
static inline void check_order(const struct method_scene *scene, bool variant, const char *order, int n_steps) {
    char expected[33];
    find_expected(scene, variant, expected);
    set("CT_SHIM_ORDER", order);
    ct_engine *engine = open_cuda(0);
    struct stage stage = scene->open(engine, variant);
    for (int step = 0; step < n_steps; step++) expect_same(&stage, expected);
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

struct outcomes {
    int passed, failed;
};

/* Two steps of a scene of three bodies with `limit` bytes of device memory: the expected answer, or an error with the
 * remedy. */
static inline void step_within(ct_engine *engine, ct_scene *scene, uint64_t limit, const char *expected,
                               const char *remedy, struct outcomes *outcomes) {
    ct_step step = {.scene = scene, .want = CT_WANT_ALL};
    for (int round = 0; round < 2; round++) {
        if (ct_engine_run(engine, &step, 1) == CT_OK) {
            expect_result(&step.result, expected);
            outcomes->passed++;
        } else {
            assert_int_equal(step.error.status, CT_OUT_OF_MEMORY);
            assert_string_equal(step.error.field, "scratch");
            assert_non_null(strstr(step.error.message, "the scene's 3 bodies need"));
            assert_non_null(strstr(step.error.message, remedy));
            outcomes->failed++;
        }
        assert_true(facts_of(engine).memory_used <= limit);
    }
}

/* Which allocations of a step fail: the first, and every `stride`-th after it up to `last`. */
struct failures {
    int last, stride;
    int all_from;      /* 1, 0: all that follow an odd one fail too, or an even one */
    const char *words; /* to count among the errors' messages; NULL: none */
};

/* An error or the right answer, and the next step is answered. Returns how many failed; n_worded: of them with the
 * words. */
static inline int fail_allocations(const struct method_scene *scene, bool variant, const struct failures *failures,
                                   int *n_worded) {
    static const char *const functions[] = {"cudaMallocFromPoolAsync", "cudaHostAlloc"};
    char expected[33];
    find_expected(scene, variant, expected);
    int n_failed = 0;
    *n_worded = 0;
    for (size_t f = 0; f < 2; f++)
        for (int n = 1; n <= failures->last; n += failures->stride) {
            char failure[64];
            ct_engine *engine = open_cuda(0);
            struct stage stage = scene->open(engine, variant);
            snprintf(failure, sizeof failure, "%s:%d%s:2", functions[f], n, n % 2 == failures->all_from ? "+" : "");
            set("CT_SHIM_FAIL", failure);
            ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL};
            if (ct_engine_run(engine, &step, 1) == CT_OK) {
                expect_result(&step.result, expected);
            } else {
                assert_int_equal(step.error.status, CT_OUT_OF_MEMORY);
                *n_worded += failures->words && strstr(step.error.message, failures->words);
                n_failed++;
            }
            set("CT_SHIM_FAIL", NULL);
            expect_same(&stage, expected);
            stage_close(&stage);
            ct_engine_destroy(&engine);
        }
    return n_failed;
}

/* What a method derives from a mesh is sent with the first step, counts as the mesh's memory, `least` to `most` bytes
 * for two bodies of the mesh that are `shift` apart, and goes with the mesh. */
static inline void check_memory_of_mesh(const ct_scene_settings *settings, const struct shape *shape, double shift,
                                        uint64_t least, uint64_t most) {
    ct_engine *engine = open_cuda(0);
    ct_mesh *mesh = shape_to_mesh(shape, NULL);
    ct_scene *scene;
    ct_body_options body;
    ct_body_options_init(&body);
    assert_int_equal(ct_scene_create(engine, settings, &scene, NULL), CT_OK);
    const uint64_t before = facts_of(engine).memory_meshes;
    for (int i = 0; i < 2; i++) {
        uint32_t id;
        body.pose[3] = shift * i;
        assert_int_equal(ct_scene_add_body(scene, mesh, &body, &id, NULL), CT_OK);
    }
    const uint64_t added = facts_of(engine).memory_meshes;
    ct_step step = {.scene = scene, .want = CT_WANT_ALL};
    for (int round = 0; round < 2; round++) {
        assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
        assert_int_equal(step.result->n_contacts, 1);
        ct_result_free(&step.result);
        assert_in_range(facts_of(engine).memory_meshes - added, least, most); /* one copy for both bodies */
    }
    ct_scene_destroy(&scene);
    ct_engine_forget_mesh(engine, mesh);
    assert_int_equal(facts_of(engine).memory_meshes, before);
    ct_mesh_release(&mesh);
    ct_engine_destroy(&engine);
}

#endif
