/* test_device_cuda.c - the CUDA backend's host side, on the shim: which devices can be opened and why not, what is
 * resident, what is copied and launched, and every failure. Needs a build with CUDA=shim; skipped in others. */
#include "tests/consistency/patch_shapes.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CT_CUDA_SHIM

#include "tests/unit/backend/shim.h"

static ct_engine_options cuda_options(void) {
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = "cuda";
    return options;
}

static ct_engine *open_plain(void) {
    ct_engine_options options = cuda_options();
    return open_engine(&options);
}

/* ---- which devices ---- */

static void test_missing_parts(void **state) {
    (void)state;
    ct_engine_options options = cuda_options();
    set("CT_SHIM_DRIVER", "0");
    expect_refused(&options, CT_UNSUPPORTED, "backend", "no NVIDIA driver was found");
    set("CT_SHIM_DRIVER", "11040");
    expect_refused(&options, CT_UNSUPPORTED, "backend",
                   "driver is for CUDA 11.4, older than this build's runtime 13.0");
    set("CT_SHIM_DRIVER", NULL);
    set("CT_SHIM_DEVICES", "0");
    expect_refused(&options, CT_UNSUPPORTED, "backend", "sees no GPU");
    set("CT_SHIM_DEVICES", NULL);
    set("CT_SHIM_CAPABILITY", "61");
    expect_refused(&options, CT_UNSUPPORTED, "devices", "compute capability 6.1, and this build needs at least 7.5");
    set("CT_SHIM_CAPABILITY", NULL);
    set("CT_SHIM_FAIL", "cudaGetDeviceCount:1:3");
    expect_refused(&options, CT_UNSUPPORTED, "backend", "cannot list devices");
    set("CT_SHIM_FAIL", NULL);
    options.rasterizer = "vulkan";
    expect_refused(&options, CT_UNSUPPORTED, "rasterizer", "no rasterizer \"vulkan\"");
#ifndef CT_HAVE_EGL
    options.rasterizer = "egl";
    expect_refused(&options, CT_UNSUPPORTED, "rasterizer", "\"egl\" is not in this build");
#endif
}

static void test_auto_is_not_the_shim(void **state) {
    (void)state;
    ct_engine_options options;
    ct_engine_options_init(&options);
    ct_engine *engine = open_engine(&options);
    assert_string_equal(facts_of(engine).backend, "cpu");
    ct_engine_destroy(&engine);
}

static void test_lists_of_devices(void **state) {
    (void)state;
    static const struct {
        const char *text, *part;
    } bad[] = {{"x", "expected \"all\", or numbers"},
               {"0,", "expected \"all\", or numbers"},
               {"0,,1", "expected \"all\", or numbers"},
               {"-1", "expected \"all\", or numbers"},
               {" 0", "expected \"all\", or numbers"},
               {"0 1", "expected \"all\", or numbers"},
               {"3", "no device 3, the driver sees 3: 0 to 2"},
               {"0,99999999999999999999", "no device"},
               {"1,0,1", "device 1 is named twice"}};
    set("CT_SHIM_DEVICES", "3");
    ct_engine_options options = cuda_options();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        options.devices = bad[i].text;
        expect_refused(&options, CT_INVALID_ARGUMENT, "devices", bad[i].part);
    }
    static const struct {
        const char *text;
        size_t n;
    } good[] = {{"all", 3}, {NULL, 3}, {"", 3}, {"2,0", 2}, {"1", 1}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        options.devices = good[i].text;
        ct_engine *engine = open_engine(&options);
        assert_int_equal(ct_engine_device_count(engine), good[i].n);
        ct_engine_destroy(&engine);
    }
}

static void test_full_device(void **state) {
    (void)state;
    set("CT_SHIM_MEMORY", "1073741824");
    set("CT_SHIM_USED", "1063741824");
    ct_engine_options options = cuda_options();
    expect_refused(&options, CT_OUT_OF_MEMORY, "max_device_bytes", "has 9 MiB free of 1024, but 64 MiB are needed");
    set("CT_SHIM_USED", "536870912");
    options.max_device_bytes = (uint64_t)600 << 20;
    expect_refused(&options, CT_OUT_OF_MEMORY, "max_device_bytes", "512 MiB free of 1024, but 600 MiB are needed");
    options.max_device_bytes = (uint64_t)500 << 20;
    ct_engine *engine = open_engine(&options);
    assert_int_equal(facts_of(engine).memory_budget, (uint64_t)500 << 20);
    ct_engine_destroy(&engine);
}

static void test_first_kernel_fails(void **state) {
    (void)state;
    ct_engine_options options = cuda_options();
    set("CT_SHIM_FAIL", "launch:1:209");
    expect_refused(&options, CT_DEVICE_ERROR, "device", "launching a first kernel");
    set("CT_SHIM_FAIL", "launch:1:719");
    expect_refused(&options, CT_DEVICE_ERROR, "device", "a first kernel");
    set("CT_SHIM_FAIL", NULL);
    ct_engine *engine = open_engine(&options); /* the process is as if it had been started anew */
    ct_engine_destroy(&engine);
    set("CT_SHIM_FAIL", "launch:1:2");
    expect_refused(&options, CT_OUT_OF_MEMORY, "max_device_bytes",
                   "no memory for the local memory of kernels, 0 bytes a thread"); /* not what hold_local_memory has */
    set("CT_SHIM_FAIL", "launch:2:209");
    expect_refused(&options, CT_DEVICE_ERROR, "device", "launching a probe");
    set("CT_SHIM_FAIL", "cudaStreamCreateWithFlags:2:1");
    expect_refused(&options, CT_DEVICE_ERROR, "device", "making a stream");
    set("CT_SHIM_FAIL", "cudaHostAlloc:1+:2");
    expect_refused(&options, CT_OUT_OF_MEMORY, "device", "pinned memory");
}

static void test_kernels_that_do_not_load(void **state) {
    (void)state;
    ct_engine_options options = cuda_options();
    set("CT_SHIM_FAIL", "cudaFuncGetAttributes:3:2");
    expect_refused(&options, CT_OUT_OF_MEMORY, "max_device_bytes", "has no memory for kernel compute_boxes");
    set("CT_SHIM_FAIL", "cudaFuncGetAttributes:2:209");
    expect_refused(&options, CT_DEVICE_ERROR, "device", "cannot load kernel write_positions_and_poses: cudaError");
    set("CT_SHIM_FAIL", NULL);
    set("CT_SHIM_MAX_THREADS", "32");
    expect_refused(&options, CT_DEVICE_ERROR, "device", "runs kernel probe with at most 32 threads a block");
}

/* ---- scenes ---- */

static void test_any_order_of_threads(void **state) {
    (void)state;
    static const char *const orders[] = {"0", "255", "85", "1"};
    char expected[33];
    reference(40, expected);
    for (size_t i = 0; i < 4; i++) {
        set("CT_SHIM_ORDER", orders[i]);
        ct_engine *engine = open_plain();
        struct stage stage = open_pair(engine, 40);
        expect_hash(&stage, expected);
        stage_close(&stage);
        ct_engine_destroy(&engine);
    }
}

/* One body in each position to the other along x, y and z that decides how a ray's initial winding number is found: the
 * smaller before, after, inside and exactly at the other's ends. */
static void test_every_initial_winding(void **state) {
    (void)state;
    static const double shifts[] = {-0.8, -0.5, 0, 0.5, 0.8};
    struct shape large = shape_icosphere(1, 2), small = shape_torus(0.35, 0.15, 16, 8), box = shape_box(1, 1, 1);
    const struct shape *inner[2] = {&small, &box};
    ct_engine *engines[2] = {stage_engine(1, NULL), open_plain()};
    for (int shape = 0; shape < 2; shape++)
        for (int i = 0; i < 5 * 5; i++) {
            const double x = shifts[i % 5], y = shifts[i / 5], pose[12] = {1, 0, 0, x, 0, 1, 0, y, 0, 0, 1, -y};
            char hex[2][33];
            uint64_t fragments[2];
            for (int e = 0; e < 2; e++) {
                ct_scene_settings settings = stage_resolution(12);
                struct stage stage = stage_open(
                    engines[e], &settings,
                    (struct placed[]){{&large, NULL, CT_BODY_RIGID}, {inner[shape], pose, CT_BODY_RIGID}}, 2);
                ct_result *result = stage_step(&stage, NULL, 0, everything);
                stage_hash(result, hex[e]);
                fragments[e] = result->fragments;
                ct_result_free(&result);
                stage_close(&stage);
            }
            assert_string_equal(hex[0], hex[1]);
            assert_true(fragments[1] > 0);
        }
    for (int e = 0; e < 2; e++) ct_engine_destroy(&engines[e]);
    shape_free(&large);
    shape_free(&small);
    shape_free(&box);
}

/* ---- what is resident ---- */

static void test_memory_comes_back(void **state) {
    (void)state;
    ct_engine *engine = open_plain();
    struct shape ball = shape_icosphere(1, 3);
    ct_mesh *mesh = shape_to_mesh(&ball, NULL), *same = shape_to_mesh(&ball, NULL);
    ct_scene_settings settings = stage_resolution(8);
    ct_body_options options;
    ct_body_options_init(&options);
    const uint64_t mesh_bytes = 12 * (uint64_t)(ball.n_vertices + ball.n_triangles);
    uint64_t before = facts_of(engine).memory_used;
    assert_int_equal(before, 0);
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    for (int round = 0; round < 3; round++) {
        ct_scene *scene;
        uint32_t ids[3];
        assert_int_equal(ct_scene_create(engine, &settings, &scene, NULL), CT_OK);
        for (int i = 0; i < 3; i++) {
            options.kind = i == 1 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
            assert_int_equal(ct_scene_add_body(scene, i ? same : mesh, &options, &ids[i], NULL), CT_OK);
        }
        ct_engine_facts facts = facts_of(engine);
        /* One copy of the mesh, and the positions of the two deformable bodies, twice: a step keeps what it overwrites.
         */
        assert_in_range(facts.memory_meshes, mesh_bytes, mesh_bytes + 512);
        assert_int_equal(ct_engine_mesh_bytes(engine, info.hash), facts.memory_meshes);
        assert_in_range(facts.memory_bodies, 2 * 24 * (uint64_t)ball.n_vertices,
                        2 * 24 * (uint64_t)ball.n_vertices + 2048);
        assert_in_range(facts.memory_used, facts.memory_meshes + facts.memory_bodies,
                        facts.memory_meshes + facts.memory_bodies + facts.scratch_bytes);
        assert_int_equal(ct_scene_device_bytes(scene), facts.memory_bodies);
        ct_step step = {.scene = scene}; /* sends the list of its bodies */
        assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
        ct_result_free(&step.result);
        assert_int_equal(ct_scene_device_bytes(scene), facts_of(engine).memory_bodies);
        assert_in_range(ct_scene_device_bytes(scene), facts.memory_bodies + 3 * 8, facts.memory_bodies + 512);
        assert_true(ct_scene_bytes(scene) > ct_scene_device_bytes(scene));
        ct_engine_forget_mesh(engine, mesh); /* in use: stays */
        assert_int_equal(facts_of(engine).memory_meshes, facts.memory_meshes);
        assert_int_equal(ct_scene_remove_body(scene, ids[2], NULL), CT_OK);
        assert_in_range(facts_of(engine).memory_bodies, 24 * (uint64_t)ball.n_vertices,
                        24 * (uint64_t)ball.n_vertices + 1536);
        assert_int_equal(ct_scene_device_bytes(scene), facts_of(engine).memory_bodies);
        ct_scene_destroy(&scene);
        assert_int_equal(facts_of(engine).memory_bodies, 0);
        assert_int_equal(facts_of(engine).memory_meshes, facts.memory_meshes); /* kept for the next body */
        if (round == 1) {
            ct_engine_forget_mesh(engine, same);
            assert_int_equal(facts_of(engine).memory_meshes, 0);
            assert_int_equal(ct_engine_mesh_bytes(engine, info.hash), 0);
            assert_int_equal(facts_of(engine).memory_used, facts_of(engine).scratch_bytes);
        }
    }
    ct_mesh_release(&mesh);
    ct_mesh_release(&same);
    shape_free(&ball);
    ct_engine_destroy(&engine);
}

static void test_unused_meshes_are_evicted(void **state) {
    (void)state;
    ct_engine_options options = cuda_options();
    options.max_device_bytes = 300000;
    ct_engine *engine = open_engine(&options);
    ct_scene_settings settings = stage_resolution(4);
    ct_scene *scene;
    assert_int_equal(ct_scene_create(engine, &settings, &scene, NULL), CT_OK);
    ct_body_options body;
    ct_body_options_init(&body);
    for (int i = 0; i < 12; i++) { /* 70 kB each, with 31 kB of positions */
        struct shape ball = shape_icosphere(1 + 0.1 * i, 4);
        ct_mesh *mesh = shape_to_mesh(&ball, NULL);
        uint32_t id;
        assert_int_equal(ct_scene_add_body(scene, mesh, &body, &id, NULL), CT_OK);
        assert_int_equal(ct_scene_remove_body(scene, id, NULL), CT_OK);
        ct_mesh_release(&mesh);
        shape_free(&ball);
        assert_true(facts_of(engine).memory_used <= 300000);
    }
    struct shape large = shape_icosphere(1, 6);
    ct_mesh *mesh = shape_to_mesh(&large, NULL);
    uint32_t id = 0;
    ct_error error = {0};
    assert_int_equal(ct_scene_add_body(scene, mesh, &body, &id, &error), CT_OUT_OF_MEMORY);
    assert_non_null(strstr(error.message, "40962 vertices and 81920 triangles"));
    assert_non_null(strstr(error.message, "1490432 bytes"));
    assert_non_null(strstr(error.message, "budget of 300000"));
    assert_int_equal(facts_of(engine).memory_bodies, 0);
    ct_mesh_release(&mesh);
    shape_free(&large);
    ct_scene_destroy(&scene);
    ct_engine_destroy(&engine);
}

/* Pinned memory is the device's to read and write, and counts as scratch. */
static void test_pinned_memory_is_counted(void **state) {
    (void)state;
    ct_engine *engine = open_plain();
    struct stage stage = open_pair(engine, 60);
    uint64_t scratch[2];
    for (int spans = 0; spans < 2; spans++) {
        ct_result *result = stage_step(&stage, NULL, 0, spans ? CT_WANT_SPANS : 0);
        scratch[spans] = facts_of(engine).scratch_bytes;
        if (spans) assert_true(scratch[1] >= scratch[0] + result->n_spans * sizeof(ct_span));
        ct_result_free(&result);
    }
    stage_close(&stage);
    ct_engine_destroy(&engine);
    char expected[33];
    reference(20, expected);
    set("CT_SHIM_POOLS", "0"); /* the same without memory pools */
    engine = open_plain();
    stage = open_pair(engine, 20);
    expect_hash(&stage, expected);
    stage_close(&stage);
    assert_int_equal(facts_of(engine).memory_bodies, 0);
    ct_engine_destroy(&engine);
}

/* ---- copies and launches ---- */

static void test_only_what_changed_is_sent(void **state) {
    (void)state;
    ct_engine *engine = open_plain();
    struct stage stage = open_pair(engine, 16);
    struct shape a = shape_icosphere(1, 3);
    ct_update pose = {.body = stage.body[1], .kind = CT_UPDATE_POSE};
    shape_pose_identity(pose.pose);
    uint32_t five[] = {1, 5, 9, 100, 600};
    const ct_update all = {stage.body[0], CT_UPDATE_POSITIONS, a.positions, CT_F32, a.n_vertices, NULL, 0, {0}},
                    some = {stage.body[0], CT_UPDATE_INDEXED, a.positions, CT_F32, 5, five, 5, {0}};
    const struct {
        const ct_update *update;
        uint64_t least, most;             /* bytes */
    } cases[] = {{NULL, 0, 112},          /* one line for the scene */
                 {&pose, 120, 120 + 144}, /* and the point of torques */
                 {&pose, 0, 112},         /* the body has it already */
                 {&some, 5 * 16, 5 * 16 + 192},
                 {&all, 12 * (uint64_t)a.n_vertices, 12 * (uint64_t)a.n_vertices + 192}};
    uint64_t last = 0; /* bytes of the last answer */
    for (int round = 0; round < 2; round++) {
        pose.pose[3] = 0.02 * (round + 1);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            ct_engine_facts before = facts_of(engine);
            ct_result *result = stage_step(&stage, cases[i].update, cases[i].update ? 1 : 0, CT_WANT_GRADIENT);
            ct_engine_facts after = facts_of(engine);
            assert_in_range(after.uploaded - before.uploaded, cases[i].least, cases[i].most);
            /* A gradient of 24 bytes and a vertex of 4 per entry, and one contact. Every run's copy takes as much as
             * the last answer lets expect. */
            const uint64_t bytes = 28 * result->n_entries, most = bytes > last ? bytes : last;
            assert_in_range(after.downloaded - before.downloaded, bytes,
                            (1 + after.reruns - before.reruns) * (most + most / 16 + 4096));
            last = bytes;
            ct_result_free(&result);
        }
    }
    shape_free(&a);
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

/* The list of a scene's bodies and ignored pairs is sent only after it changed. */
static void test_scene_tables_are_sent_once(void **state) {
    (void)state;
    enum { N = 150 };
    ct_engine *engine = open_plain();
    struct shape box = shape_box(1, 1, 1);
    ct_mesh *mesh = shape_to_mesh(&box, NULL);
    ct_scene_settings settings = stage_resolution(2);
    ct_scene *scene;
    uint32_t ids[N];
    ct_body_options options;
    ct_body_options_init(&options);
    assert_int_equal(ct_scene_create(engine, &settings, &scene, NULL), CT_OK);
    options.kind = CT_BODY_RIGID;
    uint64_t moved = 0, list = 0;
    for (int k = 0; k < N + 3; k++) {
        if (k < N) {
            options.ignore = ids;
            options.n_ignore = (size_t)k;
            options.pose[3] = 0.9 * k;
            assert_int_equal(ct_scene_add_body(scene, mesh, &options, &ids[k], NULL), CT_OK);
            list += 8 * (1 + (uint64_t)k);
            if (k % 49) continue;
        } else if (k == N + 1) {
            assert_int_equal(ct_scene_remove_body(scene, ids[7], NULL), CT_OK);
            list -= 8 * N;
        }
        ct_step step = {.scene = scene};
        for (int round = 0; round < 3; round++) {
            const uint64_t before = facts_of(engine).uploaded;
            assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
            assert_int_equal(step.result->pairs, 0); /* all are ignored */
            ct_result_free(&step.result);
            moved = facts_of(engine).uploaded - before;
            if (round == 0 && k != N + 2)
                assert_in_range(moved, list, list + 160);
            else
                assert_in_range(moved, 0, 160);
        }
    }
    ct_scene_destroy(&scene);
    assert_int_equal(facts_of(engine).memory_bodies, 0);
    ct_mesh_release(&mesh);
    shape_free(&box);
    ct_engine_destroy(&engine);
}

static void test_launches(void **state) {
    (void)state;
    enum { N = 30 };
    ct_engine *engine = open_plain();
    struct stage stages[N];
    ct_step steps[N];
    ct_update poses[N];
    for (int i = 0; i < N; i++) {
        stages[i] = open_pair(engine, 6 + (uint32_t)i % 5);
        poses[i] = (ct_update){.body = stages[i].body[1], .kind = CT_UPDATE_POSE};
        shape_pose_identity(poses[i].pose);
        steps[i] = (ct_step){.scene = stages[i].scene, .updates = &poses[i], .n_updates = 1, .want = everything};
    }
    for (int round = 0; round < 4; round++) {
        ct_engine_facts before = facts_of(engine);
        for (int i = 0; i < N; i++) {
            steps[i].n_updates = round != 3;
            poses[i].pose[3] = 0.01 * (round + 1);
        }
        size_t n = round == 2 ? 1 : N;
        assert_int_equal(ct_engine_run(engine, steps, n), CT_OK);
        ct_engine_facts after = facts_of(engine);
        for (size_t i = 0; i < n; i++) ct_result_free(&steps[i].result);
        if (round == 0) { /* tables grow, and the batch runs again each time */
            assert_true(after.reruns > before.reruns && after.reruns < before.reruns + 8);
        } else {
            assert_int_equal(after.reruns, before.reruns);
            assert_int_equal(after.launches - before.launches, round == 3 ? 12 : 14);
        }
    }
    for (int i = 0; i < N; i++) stage_close(&stages[i]);
    ct_engine_destroy(&engine);
}

/* The blocks of a launch follow the work of the batches before: however many there are, the bits are the same. */
static void test_grids(void **state) {
    (void)state;
    static const uint32_t resolutions[] = {100, 6, 6, 100, 100, 6};
    enum { N = sizeof resolutions / sizeof *resolutions };
    set("CT_SHIM_SMS", "20"); /* 160 blocks at most, 20 at least */
    ct_engine *engine = open_plain();
    for (int i = 0; i < N; i++) {
        char expected[33];
        reference(resolutions[i], expected);
        struct stage stage = open_pair(engine, resolutions[i]);
        expect_hash(&stage, expected);
        stage_close(&stage);
    }
    ct_engine_destroy(&engine);
}

/* ---- too little memory ---- */

static void test_budgets(void **state) {
    (void)state;
    char expected[33];
    reference(40, expected);
    int passed = 0, failed = 0;
    for (uint64_t limit = 50000; limit < 6000000; limit += limit / 4) {
        ct_engine_options options = cuda_options();
        options.max_device_bytes = limit;
        ct_engine *engine = open_engine(&options);
        struct shape a = shape_icosphere(1, 3), b = shape_torus(0.9, 0.4, 30, 15);
        ct_mesh *meshes[2] = {shape_to_mesh(&a, NULL), shape_to_mesh(&b, NULL)};
        ct_scene_settings settings = stage_resolution(40);
        ct_scene *scene;
        uint32_t ids[2];
        ct_body_options body;
        ct_body_options_init(&body);
        bool there = true;
        assert_int_equal(ct_scene_create(engine, &settings, &scene, NULL), CT_OK);
        for (int i = 0; i < 2; i++) {
            body.kind = i ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
            there = there && ct_scene_add_body(scene, meshes[i], &body, &ids[i], NULL) == CT_OK;
        }
        ct_step step = {.scene = scene, .want = everything};
        for (int round = 0; round < 2 && there; round++) {
            if (ct_engine_run(engine, &step, 1) == CT_OK) {
                char hex[33];
                stage_hash(step.result, hex);
                assert_string_equal(hex, expected);
                ct_result_free(&step.result);
                passed++;
            } else {
                assert_int_equal(step.error.status, CT_OUT_OF_MEMORY);
                assert_string_equal(step.error.field, "scratch");
                assert_non_null(strstr(step.error.message, "bodies 1 and 2 need"));
                assert_non_null(strstr(step.error.message, "budget of"));
                failed++;
            }
            assert_true(facts_of(engine).memory_used <= limit);
        }
        ct_scene_destroy(&scene);
        for (int i = 0; i < 2; i++) ct_mesh_release(&meshes[i]);
        shape_free(&a);
        shape_free(&b);
        ct_engine_destroy(&engine);
    }
    assert_true(passed > 4 && failed > 4);
}

/* The same with patches, for which the batch stops halfway: memory may be short before, while and after pairs are
 * split. Faces that coincide, so that rays are followed as well. */
static void test_budgets_of_patches(void **state) {
    (void)state;
    struct shape teeth = comb(12), slab = box_between((const double[]){0, 0, 0.75}, (const double[]){11.5, 1, 1});
    ct_scene_settings settings = stage_exact();
    settings.patches = true;
    const struct placed bodies[] = {{&teeth, NULL, CT_BODY_RIGID, 0}, {&slab, NULL, CT_BODY_RIGID, 0}};
    char expected[33] = "";
    int passed = 0, failed = 0;
    for (uint64_t limit = 8000000; limit > 50000; limit -= limit / 8) {
        ct_engine_options options = cuda_options();
        options.max_device_bytes = limit;
        ct_engine *engine = open_engine(&options);
        ct_scene *scene;
        ct_body_options body;
        bool is_there = true;
        ct_body_options_init(&body);
        body.kind = CT_BODY_RIGID;
        assert_int_equal(ct_scene_create(engine, &settings, &scene, NULL), CT_OK);
        for (int i = 0; i < 2; i++) {
            uint32_t id;
            ct_mesh *mesh = shape_to_mesh(bodies[i].shape, NULL);
            is_there = is_there && ct_scene_add_body(scene, mesh, &body, &id, NULL) == CT_OK;
            ct_mesh_release(&mesh);
        }
        ct_step step = {.scene = scene, .want = everything & ~(uint32_t)CT_WANT_SPANS};
        for (int round = 0; round < 2 && is_there; round++) {
            if (ct_engine_run(engine, &step, 1) == CT_OK) {
                char hex[33];
                assert_int_equal(step.result->n_contacts, 12);
                stage_hash(step.result, hex);
                if (!*expected) memcpy(expected, hex, sizeof hex);
                assert_string_equal(hex, expected);
                ct_result_free(&step.result);
                passed++;
            } else {
                assert_int_equal(step.error.status, CT_OUT_OF_MEMORY);
                assert_string_equal(step.error.field, "scratch");
                assert_non_null(strstr(step.error.message, "bodies 1 and 2 need"));
                failed++;
            }
            assert_true(facts_of(engine).memory_used <= limit);
        }
        ct_scene_destroy(&scene);
        ct_engine_destroy(&engine);
    }
    assert_true(passed > 4 && failed > 4);
    shape_free(&teeth);
    shape_free(&slab);
}

/* One step of a batch needs more memory than there is; the others are answered. */
static void test_one_of_a_batch(void **state) {
    (void)state;
    enum { N = 7 };
    char expected[33], hex[33];
    reference(12, expected);
    ct_engine_options options = cuda_options();
    options.max_device_bytes = 1500000;
    ct_engine *engine = open_engine(&options);
    struct stage stages[N];
    ct_step steps[N];
    for (int i = 0; i < N; i++) {
        stages[i] = open_pair(engine, i == 4 ? 400 : 12);
        steps[i] = (ct_step){.scene = stages[i].scene, .want = everything};
    }
    for (int round = 0; round < 2; round++) {
        assert_int_equal(ct_engine_run(engine, steps, N), CT_OUT_OF_MEMORY);
        for (int i = 0; i < N; i++) {
            assert_int_equal(steps[i].error.status, i == 4 ? CT_OUT_OF_MEMORY : CT_OK);
            if (i == 4) continue;
            stage_hash(steps[i].result, hex);
            assert_string_equal(hex, expected);
            ct_result_free(&steps[i].result);
        }
    }
    for (int i = 0; i < N; i++) stage_close(&stages[i]);
    ct_engine_destroy(&engine);
}

/* A large body meets many small ones, each at a few of its vertices: only pages of sums that are used take memory. */
static void test_sums_are_sparse(void **state) {
    (void)state;
    enum { N = 60 };
    struct shape large = shape_icosphere(10, 6), small = shape_icosphere(0.3, 1);
    const uint64_t all_sums = N * (uint64_t)large.n_vertices * 24; /* 59 MB */
    ct_mesh *meshes[2] = {shape_to_mesh(&large, NULL), shape_to_mesh(&small, NULL)};
    ct_engine_options options = cuda_options();
    options.max_device_bytes = 16000000;
    ct_engine *engines[2] = {stage_engine(1, NULL), open_engine(&options)};
    char hex[2][33];
    for (int e = 0; e < 2; e++) {
        ct_scene_settings settings = stage_resolution(12);
        ct_scene *scene;
        assert_int_equal(ct_scene_create(engines[e], &settings, &scene, NULL), CT_OK);
        for (int i = 0; i <= N; i++) {
            uint32_t id;
            ct_body_options body;
            ct_body_options_init(&body);
            body.kind = CT_BODY_RIGID;
            for (int k = 0; k < 3 && i > 0; k++) body.pose[4 * k + 3] = (double)large.positions[3 * 640 * i + k];
            assert_int_equal(ct_scene_add_body(scene, meshes[i > 0], &body, &id, NULL), CT_OK);
        }
        for (int round = 0; round < 2; round++) {
            ct_step step = {.scene = scene, .want = everything};
            assert_int_equal(ct_engine_run(engines[e], &step, 1), CT_OK);
            assert_in_range(step.result->n_contacts, N, 2 * N);
            stage_hash(step.result, hex[e]);
            ct_result_free(&step.result);
        }
        assert_string_equal(hex[0], hex[e]);
        if (e == 1) assert_in_range(facts_of(engines[e]).scratch_peak, 1, all_sums / 5);
        ct_scene_destroy(&scene);
        ct_engine_destroy(&engines[e]);
    }
    for (int i = 0; i < 2; i++) ct_mesh_release(&meshes[i]);
    shape_free(&large);
    shape_free(&small);
}

/* Each allocation fails in turn. */
static void test_allocations_fail(void **state) {
    (void)state;
    static const char *const names[] = {"cudaMallocFromPoolAsync", "cudaMalloc", "cudaHostAlloc"};
    char expected[33], hex[33];
    reference(20, expected);
    for (int f = 0; f < 3; f++)
        for (int nth = 1; nth < 16; nth++) {
            set("CT_SHIM_POOLS", f == 1 ? "0" : NULL);
            ct_engine *engine = open_plain();
            struct stage stage = open_pair(engine, 20);
            char fail_at[64];
            snprintf(fail_at, sizeof fail_at, "%s:%d:2", names[f], nth);
            set("CT_SHIM_FAIL", fail_at);
            for (int round = 0; round < 2; round++) {
                ct_step step = {.scene = stage.scene, .want = everything};
                if (ct_engine_run(engine, &step, 1)) {
                    assert_int_equal(step.error.status, CT_OUT_OF_MEMORY);
                    continue;
                }
                stage_hash(step.result, hex);
                assert_string_equal(hex, expected);
                ct_result_free(&step.result);
            }
            assert_false(facts_of(engine).lost);
            set("CT_SHIM_FAIL", NULL);
            expect_hash(&stage, expected);
            stage_close(&stage);
            ct_engine_destroy(&engine);
        }
}

/* A soft body that touches itself and a rigid ball, both of which a step moves. */
struct moved {
    struct stage stage;
    float *positions;
    ct_update updates[2];
};

static ct_scene_settings settings_of_launches(int method) {
    ct_scene_settings s = method < 2 ? stage_resolution(8) : method < 4 ? stage_exact() : stage_voxtree(3, 0);
    s.cell_size = method == 1 ? 0.5 : 0;
    s.patches = method == 3;
    s.refine = method == 5;
    if (method == 6) {
        s = stage_exact();
        s.method = CT_METHOD_EBPI;
        s.tolerance = 0.05;
    }
    return s;
}

static struct moved open_moved(ct_engine *engine, int method) {
    static const double beside[12] = {1, 0, 0, 0.8, 0, 1, 0, 0.1, 0, 0, 1, 0.05};
    const ct_scene_settings settings = settings_of_launches(method);
    const ct_body_kind kind = method < 4 ? CT_BODY_DEFORMABLE : CT_BODY_RIGID;
    struct shape l = shape_l_prism(1, 0.5), ball = shape_icosphere(0.5, 2);
    struct moved m = {.stage = stage_open(engine, &settings,
                                          (struct placed[]){{&l, NULL, kind, method < 3, NULL},
                                                            {&ball, beside, CT_BODY_RIGID, 0, NULL}},
                                          2)};
    m.positions = malloc(12 * (size_t)l.n_vertices);
    for (uint32_t i = 0; i < 3 * l.n_vertices; i++) m.positions[i] = l.positions[i] * 1.1F;
    m.updates[0] =
        kind == CT_BODY_DEFORMABLE
            ? (ct_update){m.stage.body[0], CT_UPDATE_POSITIONS, m.positions, CT_F32, l.n_vertices, NULL, 0, {0}}
            : (ct_update){.body = m.stage.body[0], .kind = CT_UPDATE_POSE};
    shape_pose_identity(m.updates[0].pose);
    m.updates[0].pose[3] = 0.1;
    m.updates[1] = (ct_update){.body = m.stage.body[1], .kind = CT_UPDATE_POSE};
    memcpy(m.updates[1].pose, beside, sizeof beside);
    m.updates[1].pose[3] = 0.6;
    shape_free(&l);
    shape_free(&ball);
    return m;
}

static void close_moved(struct moved *m) {
    free(m->positions);
    stage_close(&m->stage);
}

static uint32_t wishes_of_launches(int method) {
    return method == 4 || method == 5 ? CT_WANT_GRADIENT : CT_WANT_GRADIENT | CT_WANT_FRAME;
}

static void hash_moved(struct moved *m, size_t n_updates, int method, char hex[33]) {
    ct_result *result = stage_step(&m->stage, m->updates, n_updates, wishes_of_launches(method));
    stage_hash(result, hex);
    ct_result_free(&result);
}

/* Whichever launch finds no memory: the step fails, has changed nothing, and the next one succeeds. */
static void test_launches_without_memory(void **state) {
    (void)state;
    for (int method = 0; method < 7; method++) {
        char expected[2][33], hex[33]; /* before and after the bodies are moved */
        int n_failed = 0;
        bool has_failed = true;
        ct_engine *engine = open_plain();
        struct moved m = open_moved(engine, method);
        for (int i = 0; i < 2; i++) hash_moved(&m, i ? 2 : 0, method, expected[i]);
        close_moved(&m);
        for (int nth = 1; has_failed; nth++) {
            m = open_moved(engine, method);
            hash_moved(&m, 0, method, hex);
            assert_string_equal(hex, expected[0]);
            char fail_at[64];
            snprintf(fail_at, sizeof fail_at, "launch:%d:2", nth);
            set("CT_SHIM_FAIL", fail_at);
            ct_step step = {
                .scene = m.stage.scene, .updates = m.updates, .n_updates = 2, .want = wishes_of_launches(method)};
            has_failed = ct_engine_run(engine, &step, 1) != CT_OK;
            set("CT_SHIM_FAIL", NULL);
            if (has_failed) {
                n_failed++;
                assert_int_equal(step.error.status, CT_OUT_OF_MEMORY);
                assert_non_null(strstr(step.error.message, "no memory left to launch a kernel"));
                hash_moved(&m, 0, method, hex);
                assert_string_equal(hex, expected[0]);
                hash_moved(&m, 2, method, hex);
            } else {
                stage_hash(step.result, hex);
                ct_result_free(&step.result);
            }
            assert_string_equal(hex, expected[1]);
            assert_false(facts_of(engine).lost);
            close_moved(&m);
        }
        assert_true(n_failed >= (method == 4 ? 1 : 5));
        ct_engine_destroy(&engine);
    }
}

/* ---- a device that is lost ---- */

static void test_lost(void **state) {
    (void)state;
    static const char *const failures[] = {
        "launch:1:719",          "launch:7:700",          "cudaStreamSynchronize:1:719", "cudaMemcpyAsync:1:700",
        "cudaMemsetAsync:2:719", "cudaEventRecord:3:719", "cudaStreamSynchronize:1:214"};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        ct_engine *engine = open_plain();
        struct stage stages[2] = {open_pair(engine, 8), open_pair(engine, 9)};
        ct_step steps[2] = {{.scene = stages[0].scene, .want = everything}, {.scene = stages[1].scene, .want = 0}};
        set("CT_SHIM_FAIL", failures[i]);
        for (int round = 0; round < 2; round++) {
            assert_int_equal(ct_engine_run(engine, steps, 2), CT_DEVICE_ERROR);
            for (int s = 0; s < 2; s++) {
                assert_int_equal(steps[s].error.status, CT_DEVICE_ERROR);
                assert_string_equal(steps[s].error.field, "device");
                assert_non_null(strstr(steps[s].error.message, "CPU shim (no GPU)"));
                assert_non_null(strstr(steps[s].error.message, "cudaError"));
                assert_null(steps[s].result);
            }
        }
        ct_engine_facts facts = facts_of(engine);
        assert_true(facts.lost);
        assert_non_null(strstr(facts.lost_reason, "cudaError"));
        struct shape box = shape_box(1, 1, 1);
        ct_mesh *mesh = shape_to_mesh(&box, NULL);
        ct_body_options options;
        uint32_t id;
        ct_body_options_init(&options);
        assert_int_equal(ct_scene_add_body(stages[0].scene, mesh, &options, &id, NULL), CT_DEVICE_ERROR);
        ct_engine_forget_mesh(engine, mesh);
        ct_mesh_release(&mesh);
        shape_free(&box);
        for (int s = 0; s < 2; s++) stage_close(&stages[s]);
        ct_engine_destroy(&engine);
        set("CT_SHIM_FAIL", NULL);
    }
    /* While a body is uploaded. */
    ct_engine *engine = open_plain();
    struct stage stage = open_pair(engine, 8);
    set("CT_SHIM_FAIL", "cudaMemcpyAsync:2:719");
    struct shape box = shape_box(1, 1, 1);
    ct_mesh *mesh = shape_to_mesh(&box, NULL);
    ct_body_options options;
    uint32_t id;
    ct_body_options_init(&options);
    assert_int_equal(ct_scene_add_body(stage.scene, mesh, &options, &id, NULL), CT_DEVICE_ERROR);
    assert_true(facts_of(engine).lost);
    ct_mesh_release(&mesh);
    shape_free(&box);
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

/* ---- several batches at a time ---- */

struct runner {
    ct_engine *engine;
    struct stage stage;
    const char *expected;
    int wrong;
};

static void *run_steps(void *argument) {
    struct runner *r = argument;
    for (int i = 0; i < 6; i++) {
        ct_step step = {.scene = r->stage.scene, .want = everything};
        char hex[33] = "";
        if (ct_engine_run(r->engine, &step, 1) == CT_OK) stage_hash(step.result, hex);
        ct_result_free(&step.result);
        r->wrong += strcmp(hex, r->expected) != 0;
    }
    return NULL;
}

static void test_concurrent_batches(void **state) {
    (void)state;
    char expected[2][33];
    reference(30, expected[0]);
    reference(11, expected[1]);
    for (int tight = 0; tight < 2; tight++) { /* tight: one batch at a time fits, so they wait for each other */
        ct_engine_options options = cuda_options();
        if (tight) options.max_device_bytes = 3500000;
        ct_engine *engine = open_engine(&options);
        struct runner runners[4];
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            runners[i] = (struct runner){engine, open_pair(engine, i % 2 ? 11 : 30), expected[i % 2], 0};
        for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_steps, &runners[i]), 0);
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(runners[i].wrong, 0);
            stage_close(&runners[i].stage);
        }
        ct_engine_destroy(&engine);
    }
}

/* Threads that add and remove bodies of one mesh, which the first of them uploads, while others step. */
struct uploader {
    ct_engine *engine;
    ct_mesh *mesh;
    int failed;
};

static void *add_bodies(void *argument) {
    struct uploader *u = argument;
    ct_scene_settings settings = stage_resolution(4);
    for (int i = 0; i < 6; i++) {
        ct_scene *scene = NULL;
        ct_body_options options;
        ct_body_options_init(&options);
        uint32_t id;
        if (ct_scene_create(u->engine, &settings, &scene, NULL) != CT_OK) {
            u->failed++;
            continue;
        }
        options.kind = i % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
        u->failed += ct_scene_add_body(scene, u->mesh, &options, &id, NULL) != CT_OK;
        ct_scene_destroy(&scene);
        ct_engine_forget_mesh(u->engine, u->mesh);
    }
    return NULL;
}

static void test_uploads_beside_steps(void **state) {
    (void)state;
    enum { UPLOADERS = 3 };
    char expected[33];
    reference(11, expected);
    ct_engine *engine = open_plain();
    struct shape ball = shape_icosphere(2, 4);
    struct runner runner = {engine, open_pair(engine, 11), expected, 0};
    struct uploader uploaders[UPLOADERS];
    pthread_t threads[UPLOADERS + 1];
    ct_mesh *mesh = shape_to_mesh(&ball, NULL);
    assert_int_equal(pthread_create(&threads[UPLOADERS], NULL, run_steps, &runner), 0);
    for (int i = 0; i < UPLOADERS; i++) {
        uploaders[i] = (struct uploader){engine, mesh, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, add_bodies, &uploaders[i]), 0);
    }
    for (int i = 0; i <= UPLOADERS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < UPLOADERS; i++) assert_int_equal(uploaders[i].failed, 0);
    assert_int_equal(runner.wrong, 0);
    /* No upload gets memory: threads that wait for it fail too, and nothing stays behind. */
    ct_engine_forget_mesh(engine, mesh);
    const uint64_t used = facts_of(engine).memory_used;
    set("CT_SHIM_FAIL", "cudaMallocFromPoolAsync:1+:2");
    for (int i = 0; i < UPLOADERS; i++) {
        uploaders[i].failed = 0;
        assert_int_equal(pthread_create(&threads[i], NULL, add_bodies, &uploaders[i]), 0);
    }
    for (int i = 0; i < UPLOADERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(uploaders[i].failed, 6);
    }
    set("CT_SHIM_FAIL", NULL);
    assert_true(facts_of(engine).memory_used <= used); /* scratch of idle workspaces may be freed */
    assert_false(facts_of(engine).lost);
    expect_hash(&runner.stage, expected);
    stage_close(&runner.stage);
    assert_int_equal(facts_of(engine).memory_bodies, 0);
    ct_mesh_release(&mesh);
    shape_free(&ball);
    ct_engine_destroy(&engine);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup(f, default_devices)
#define ONE_THREAD(f)                                                                                                  \
    { #f, UNIT_RACES_ONLY ? unit_left_out : f, default_devices, NULL, NULL }
    const struct CMUnitTest tests[] = {
        ONE_THREAD(test_missing_parts),
        ONE_THREAD(test_auto_is_not_the_shim),
        ONE_THREAD(test_lists_of_devices),
        ONE_THREAD(test_full_device),
        ONE_THREAD(test_first_kernel_fails),
        ONE_THREAD(test_kernels_that_do_not_load),
        TEST(test_any_order_of_threads),
        ONE_THREAD(test_every_initial_winding),
        ONE_THREAD(test_memory_comes_back),
        ONE_THREAD(test_unused_meshes_are_evicted),
        ONE_THREAD(test_pinned_memory_is_counted),
        ONE_THREAD(test_only_what_changed_is_sent),
        TEST(test_scene_tables_are_sent_once),
        ONE_THREAD(test_launches),
        ONE_THREAD(test_grids),
        ONE_THREAD(test_budgets),
        ONE_THREAD(test_budgets_of_patches),
        TEST(test_one_of_a_batch),
        ONE_THREAD(test_sums_are_sparse),
        ONE_THREAD(test_allocations_fail),
        ONE_THREAD(test_launches_without_memory),
        TEST(test_lost),
        TEST(test_concurrent_batches),
        TEST(test_uploads_beside_steps),
    };
    return cmocka_run_group_tests_name("cuda device", tests, NULL, NULL);
}

#else

int main(void) {
    printf("SKIPPED: the CUDA backend's host side is tested in builds with CUDA=shim\n");
    return 0;
}

#endif
