/* test_clusters_cuda.c - which clusters of triangles the CUDA backend looks at, on the shim: those that the CPU's
 * search of the cluster tree finds, and few of bodies that barely touch. Needs a build with CUDA=shim; skipped in
 * others. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CT_CUDA_SHIM

#include "gpu/mesh/mesh.h"
#include "gpu/view/near.h"
#include "gpu/view/snap_cpu.h"
#include "gpu/view/view.h"
#include "gpu/view/winding_k.h"
#include "tests/unit/backend/shim.h"

static ct_engine *open_plain(void) {
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = "cuda";
    return open_engine(&options);
}

struct touched {
    uint64_t near, all;
};

/* The clusters of one step. */
static struct touched step_once(struct stage *stage, const ct_update *updates, size_t n_updates) {
    const ct_engine_facts before = facts_of(stage->engine);
    ct_result *result = stage_step(stage, updates, n_updates, CT_WANT_FRAME);
    ct_result_free(&result);
    const ct_engine_facts after = facts_of(stage->engine);
    return (struct touched){after.near_clusters - before.near_clusters, after.clusters - before.clusters};
}

/* ---- against the CPU's search ---- */

/* Clusters that the CPU's search finds: without those in front of views whose crossings there have to be counted, with
 * them, and those that straddle the begin of such a view. */
struct found {
    uint64_t kept, counted, straddling;
};

/* Adds what the search finds of one of two bodies. pose NULL: the positions are the world's. */
static void add_found(struct found *found, ct_mesh *mesh, const double *pose, const ct_box *box, const ct_box *other,
                      const ct_window *window) {
    const ct_clusters *clusters = ct_mesh_clusters(mesh, NULL);
    ct_near_body body = {clusters, clusters->rest, pose, {0}, mesh->n_triangles};
    for (int w = 0; w < 3; w++) body.initial[w] = (uint8_t)ct_find_initial_winding(box, other, w);
    found->counted += ct_find_near(&body, window, UINT32_MAX, NULL).n_clusters;
    for (int w = 0; w < 3; w++) {
        if (body.initial[w] != CT_INITIAL_COUNTED) continue;
        body.initial[w] = CT_INITIAL_FROM_BALANCE;
        for (int along = 0; along < 2; along++)
            found->straddling += ct_find_straddling(&body, window, w, along == 0, NULL).n_clusters;
    }
    found->kept += ct_find_near(&body, window, UINT32_MAX, NULL).n_clusters;
}

static struct found find_of_pair(const struct stage *stage, ct_mesh *const meshes[2], const double poses[2][12],
                                 const ct_scene_settings *settings) {
    struct found found = {0, 0, 0};
    ct_box box[2];
    ct_window window;
    for (int b = 0; b < 2; b++) {
        ct_body_info info;
        assert_int_equal(ct_scene_body_info(stage->scene, stage->body[b], &info, NULL), CT_OK);
        memcpy(box[b].lo, info.lo, sizeof info.lo);
        memcpy(box[b].hi, info.hi, sizeof info.hi);
    }
    if (ct_view_plan(&box[0], &box[1], settings, &window, NULL)) return found;
    for (int b = 0; b < 2; b++) add_found(&found, meshes[b], poses[b], &box[b], &box[1 - b], &window);
    return found;
}

static void test_the_same_clusters(void **state) {
    (void)state;
    struct shape shapes[2] = {shape_icosphere(1, 4), shape_torus(0.9, 0.3, 60, 40)};
    ct_mesh *meshes[2] = {shape_to_mesh(&shapes[0], NULL), shape_to_mesh(&shapes[1], NULL)};
    ct_engine *engine = open_plain();
    uint64_t rng = 12, culled = 0, exact = 0, in_front = 0;
    for (int pixel = 0; pixel < 2; pixel++) {
        const ct_scene_settings settings = pixel ? stage_pixel(0.05) : stage_resolution(20);
        struct stage stage =
            stage_open(engine, &settings, (struct placed[]){{&shapes[0], NULL, 0}, {&shapes[1], NULL, 0}}, 2);
        for (int round = 0; round < 20; round++) {
            ct_update updates[2];
            double poses[2][12];
            for (int b = 0; b < 2; b++) {
                updates[b] = (ct_update){.body = stage.body[b], .kind = CT_UPDATE_POSE};
                shape_pose_random(&rng, 0.7, updates[b].pose);
                memcpy(poses[b], updates[b].pose, sizeof poses[b]);
            }
            const struct touched touched = step_once(&stage, updates, 2);
            const struct found found = find_of_pair(&stage, meshes, poses, &settings);
            /* Where crossings in front have to be counted, loops may be followed instead. */
            assert_in_range(touched.near, found.kept, found.counted + found.straddling);
            exact += found.kept == found.counted + found.straddling;
            in_front += found.straddling > 0;
            if (touched.near) assert_int_equal(touched.all, 40 + 38);
            culled += touched.near < touched.all;
        }
        stage_close(&stage);
    }
    assert_true(culled > 20 && exact > 5 && in_front > 5);
    for (int b = 0; b < 2; b++) {
        ct_mesh_release(&meshes[b]);
        shape_free(&shapes[b]);
    }
    ct_engine_destroy(&engine);
}

/* ---- how few ---- */

/* Two copies of a mesh whose boxes share a tenth along x. */
static void check_a_tenth(ct_mesh *mesh, ct_body_kind kind, const float *positions) {
    ct_engine *engine = open_plain();
    const ct_scene_settings settings = stage_resolution(64);
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    struct stage stage = {.engine = engine, .n = 2};
    assert_int_equal(ct_scene_create(engine, &settings, &stage.scene, NULL), CT_OK);
    for (int b = 0; b < 2; b++) {
        ct_body_options options;
        ct_body_options_init(&options);
        options.kind = b ? CT_BODY_RIGID : kind;
        if (b) options.pose[3] = 0.9 * (info.hi[0] - info.lo[0]);
        assert_int_equal(ct_scene_add_body(stage.scene, mesh, &options, &stage.body[b], NULL), CT_OK);
    }
    struct touched touched = step_once(&stage, NULL, 0);
    print_message("%llu triangles each, a tenth shared: %llu of %llu clusters\n", (unsigned long long)info.triangles,
                  (unsigned long long)touched.near, (unsigned long long)touched.all);
    assert_true(touched.near > 0 && 5 * touched.near < touched.all);
    if (kind == CT_BODY_DEFORMABLE) { /* moved into the other by all but a tenth, then back */
        float *moved = malloc(12 * info.vertices);
        assert_non_null(moved);
        for (uint64_t i = 0; i < 3 * info.vertices; i++)
            moved[i] = positions[i] + (i % 3 ? 0 : (float)(0.8 * (info.hi[0] - info.lo[0])));
        ct_update update = {stage.body[0], CT_UPDATE_POSITIONS, moved, CT_F32, info.vertices, NULL, 0, {0}};
        touched = step_once(&stage, &update, 1);
        assert_true(2 * touched.near > touched.all);
        update.positions = positions;
        touched = step_once(&stage, &update, 1);
        assert_true(touched.near > 0 && 5 * touched.near < touched.all);
        free(moved);
    }
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

static void test_a_tenth_touches_few(void **state) {
    (void)state;
    struct shape blob = shape_blob(1, UNIT_RACES_ONLY ? 5 : 6, 0.4, 2);
    ct_mesh *mesh = shape_to_mesh(&blob, NULL);
    check_a_tenth(mesh, CT_BODY_RIGID, NULL);
    check_a_tenth(mesh, CT_BODY_DEFORMABLE, blob.positions);
    ct_mesh_release(&mesh);
    shape_free(&blob);
}

static void test_small_bodies_on_a_ground(void **state) {
    (void)state;
    enum { N = 6 };
    struct shape ground = shape_slab(30, 0.5, 0.1, 3, 100), box = shape_box(0.5, 0.5, 0.5);
    struct placed bodies[1 + N] = {{&ground, NULL, 0}};
    double poses[N][12];
    for (int i = 0; i < N; i++) {
        shape_pose_identity(poses[i]);
        poses[i][3] = 4 * i - 11;
        poses[i][7] = 9 - 3.5 * i;
        bodies[1 + i] = (struct placed){&box, poses[i], CT_BODY_RIGID};
    }
    ct_engine *engine = open_plain();
    const ct_scene_settings settings = stage_resolution(16);
    struct stage stage = stage_open(engine, &settings, bodies, 1 + N);
    const struct touched touched = step_once(&stage, NULL, 0);
    print_message("ground: %llu of %llu clusters\n", (unsigned long long)touched.near, (unsigned long long)touched.all);
    /* Each box has one cluster. Of the ground, which lies in front of the box along x and y, only the triangles at the
     * window's begin are looked at. */
    assert_true(touched.near > 2 * N && touched.near < 16 * N && touched.all == 320 * N);
    stage_close(&stage);
    ct_engine_destroy(&engine);
    shape_free(&ground);
    shape_free(&box);
}

/* Small meshes are rasterised whole. */
static void test_small_meshes_are_not_culled(void **state) {
    (void)state;
    ct_engine *engine = open_plain();
    struct stage stage = open_pair(engine, 10);
    const struct touched touched = step_once(&stage, NULL, 0);
    assert_int_equal(touched.near, 10 + 8); /* of 1,280 and 900 triangles */
    assert_int_equal(touched.all, touched.near);
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

/* ---- boxes of posed bodies ---- */

static ct_box box_of_body(const struct stage *stage) {
    ct_body_info info;
    ct_box box;
    assert_int_equal(ct_scene_body_info(stage->scene, stage->body[0], &info, NULL), CT_OK);
    memcpy(box.lo, info.lo, sizeof info.lo);
    memcpy(box.hi, info.hi, sizeof info.hi);
    return box;
}

/* Poses a body alone; its box has the bits of the CPU's pass over all vertices. */
static void check_posed_boxes(ct_mesh *mesh, int rounds) {
    ct_engine *engine = open_plain();
    const ct_scene_settings settings = stage_resolution(4);
    struct stage stage = {.engine = engine, .n = 1};
    ct_body_options options;
    ct_body_options_init(&options);
    options.kind = CT_BODY_RIGID;
    assert_int_equal(ct_scene_create(engine, &settings, &stage.scene, NULL), CT_OK);
    assert_int_equal(ct_scene_add_body(stage.scene, mesh, &options, &stage.body[0], NULL), CT_OK);
    uint64_t rng = 31;
    for (int round = 0; round < rounds; round++) {
        ct_update pose = {.body = stage.body[0], .kind = CT_UPDATE_POSE};
        shape_pose_random(&rng, round % 3 == 2 ? 1e7 : 2, pose.pose);
        if (round == 1) shape_pose_identity(pose.pose);
        step_once(&stage, &pose, 1);
        ct_box expected, box = box_of_body(&stage);
        assert_true(ct_snap_cpu_base.box(mesh->positions, mesh->n_vertices, pose.pose, &expected));
        for (int k = 0; k < 3; k++) assert_true(box.lo[k] == expected.lo[k] && box.hi[k] == expected.hi[k]);
        const ct_engine_facts before = facts_of(engine); /* the same pose again is not sent */
        step_once(&stage, &pose, 1);
        const ct_engine_facts after = facts_of(engine);
        assert_true(after.uploaded - before.uploaded < 128 && after.launches - before.launches < 13);
        box = box_of_body(&stage);
        for (int k = 0; k < 3; k++) assert_true(box.lo[k] == expected.lo[k] && box.hi[k] == expected.hi[k]);
    }
    stage_close(&stage);
    ct_engine_destroy(&engine);
}

static void test_posed_boxes(void **state) {
    (void)state;
    /* 655,360 triangles, so that the box is searched among clusters, and few. */
    struct shape shapes[3] = {shape_torus(1, 0.4, 1280, 256), shape_blob(1, 4, 0.3, 1), shape_torus(1, 0.4, 1280, 256)};
    /* A vertex that no triangle uses belongs to the body's box, but to no cluster. */
    shapes[2].positions = realloc(shapes[2].positions, 12 * ((size_t)shapes[2].n_vertices + 1));
    assert_non_null(shapes[2].positions);
    for (int k = 0; k < 3; k++) shapes[2].positions[3 * shapes[2].n_vertices + (uint32_t)k] = 3;
    shapes[2].n_vertices++;
    for (int i = 0; i < 3; i++) {
        ct_mesh *mesh = shape_to_mesh(&shapes[i], NULL);
        assert_int_equal(ct_cluster_count(mesh->n_triangles) > 2048, i != 1);
        assert_int_equal(ct_mesh_clusters(mesh, NULL)->has_all_vertices, i != 2);
        check_posed_boxes(mesh, UNIT_RACES_ONLY ? 2 : 6);
        ct_mesh_release(&mesh);
        shape_free(&shapes[i]);
    }
}

/* 871,306 triangles. */
static void test_scanned_dragons(void **state) {
    (void)state;
    ct_mesh *mesh = stage_scanned_mesh("dragon_871k.ply");
    if (!mesh) {
        print_message("SKIPPED: no dragon_871k.ply; set CONTACTD_MESHES\n");
        skip();
    }
    check_a_tenth(mesh, CT_BODY_RIGID, NULL);
    check_posed_boxes(mesh, 4);
    ct_mesh_release(&mesh);
}

/* ---- the list grows ---- */

/* A batch finds more near clusters than fit into the least memory of a list (some 500) in an engine whose other lists
 * are long enough: it is computed again, with the bits of an engine that had the memory from the beginning. */
static void test_the_list_grows(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 6), tool = shape_icosphere(0.9, 6);
    const ct_scene_settings settings = stage_resolution(8);
    const double apart[12] = {1, 0, 0, 1.85, 0, 1, 0, 0, 0, 0, 1, 0}, near[12] = {1, 0, 0, 0.1, 0, 1, 0, 0, 0, 0, 1, 0};
    char hex[2][33];
    for (int grown = 0; grown < 2; grown++) {
        ct_engine *engine = open_plain();
        struct stage stage = stage_open(engine, &settings, (struct placed[]){{&ball, NULL, 0}, {&tool, near, 0}}, 2);
        struct stage pair = open_pair(engine, 60);
        if (grown) { /* its chunks of rays are more than all chunks of the balls */
            ct_result *result = stage_step(&pair, NULL, 0, everything);
            ct_result_free(&result);
        }
        ct_update pose = {.body = stage.body[1], .kind = CT_UPDATE_POSE};
        memcpy(pose.pose, apart, sizeof apart);
        assert_true(step_once(&stage, &pose, 1).near < 300);
        memcpy(pose.pose, near, sizeof near);
        const uint64_t reruns = facts_of(engine).reruns;
        assert_true(step_once(&stage, &pose, 1).near > 1000);
        if (grown) assert_true(facts_of(engine).reruns > reruns);
        ct_result *result = stage_step(&stage, NULL, 0, everything);
        stage_hash(result, hex[grown]);
        ct_result_free(&result);
        stage_close(&pair);
        stage_close(&stage);
        ct_engine_destroy(&engine);
    }
    assert_string_equal(hex[0], hex[1]);
    shape_free(&ball);
    shape_free(&tool);
}

/* ---- threads in any order ---- */

/* A deformable body that reaches out of the window on all sides, so that the list of clusters, in whatever order, has
 * those that are rasterised and those along whose edges loops are followed. */
static void hash_of_deformed(ct_engine *engine, char hex[33]) {
    struct shape soft = shape_icosphere(1, 4), tool = shape_torus(0.4, 0.15, 20, 12);
    const ct_scene_settings settings = stage_resolution(40);
    const double pose[12] = {1, 0, 0, 0.1, 0, 1, 0, 0.7, 0, 0, 1, -0.2};
    struct stage stage =
        stage_open(engine, &settings, (struct placed[]){{&soft, NULL, CT_BODY_DEFORMABLE}, {&tool, pose, 0}}, 2);
    for (uint32_t i = 0; i < 3 * soft.n_vertices; i++) soft.positions[i] *= i % 3 ? 1.05F : 1.2F;
    const ct_update update = {
        stage.body[0], CT_UPDATE_POSITIONS, soft.positions, CT_F32, soft.n_vertices, NULL, 0, {0}};
    ct_result *result = stage_step(&stage, &update, 1, everything);
    assert_int_equal(result->n_contacts, 1);
    stage_hash(result, hex);
    ct_result_free(&result);
    stage_close(&stage);
    shape_free(&soft);
    shape_free(&tool);
}

static void test_any_order_of_threads(void **state) {
    (void)state;
    static const char *const orders[] = {"0", "255", "85", "1"};
    char expected[33], hex[33];
    ct_engine *cpu = stage_engine(1, NULL);
    hash_of_deformed(cpu, expected);
    ct_engine_destroy(&cpu);
    for (size_t i = 0; i < 4; i++) {
        set("CT_SHIM_ORDER", orders[i]);
        ct_engine *engine = open_plain();
        hash_of_deformed(engine, hex);
        assert_string_equal(hex, expected);
        const ct_engine_facts facts = facts_of(engine);
        assert_true(facts.near_clusters > 4 && facts.near_clusters < facts.clusters);
        ct_engine_destroy(&engine);
    }
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup(f, default_devices)
#define ONE_THREAD(f)                                                                                                  \
    { #f, UNIT_RACES_ONLY ? unit_left_out : f, default_devices, NULL, NULL }
    const struct CMUnitTest tests[] = {
        ONE_THREAD(test_the_same_clusters),        TEST(test_a_tenth_touches_few),
        ONE_THREAD(test_scanned_dragons),          TEST(test_posed_boxes),
        ONE_THREAD(test_small_bodies_on_a_ground), ONE_THREAD(test_small_meshes_are_not_culled),
        ONE_THREAD(test_the_list_grows),           TEST(test_any_order_of_threads)};
    return cmocka_run_group_tests_name("cuda clusters", tests, NULL, NULL);
}

#else

int main(void) {
    printf("SKIPPED: the CUDA backend's clusters are counted in builds with CUDA=shim\n");
    return 0;
}

#endif
