/* test_copies.c - copies of scenes and scenes that are reset: the bits of scenes that were built so. */
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

/* A scene that gets the mesh holds a reference of its own. */
static ct_mesh *mesh_of(const ct_body_info *info) {
    return (ct_mesh *)(uintptr_t)info->mesh;
}

static ct_engine *engine;
static struct shape ball, box;
static double away[12];

/* A half-space, a rigid box, a deformable ball, and a box that ignores the first; one slot was used before. */
static struct stage open_scene(void) {
    const struct placed bodies[] = {{&box, away, CT_BODY_RIGID, 0},
                                    {&box, away, CT_BODY_RIGID, 0},
                                    {&ball, NULL, CT_BODY_DEFORMABLE, 0},
                                    {NULL, NULL, CT_BODY_HALF_SPACE, 0}};
    ct_scene_settings settings = stage_exact();
    settings.law = CT_LAW_PRESSURE;
    struct stage stage = stage_open(engine, &settings, bodies, 4);
    assert_int_equal(ct_scene_remove_body(stage.scene, stage.body[0], NULL), CT_OK);
    ct_body_options options;
    ct_body_options_init(&options);
    options.kind = CT_BODY_RIGID;
    options.ignore = &stage.body[1];
    options.n_ignore = 1;
    options.material.modulus = 1e6;
    ct_body_info info;
    assert_int_equal(ct_scene_body_info(stage.scene, stage.body[1], &info, NULL), CT_OK);
    assert_int_equal(ct_scene_add_body(stage.scene, mesh_of(&info), &options, &stage.body[0], NULL), CT_OK);
    assert_true(stage.body[0] > 1 << 20); /* the second in its slot */
    const ct_material material = {3e6, 0.5, 0, 0.6};
    assert_int_equal(ct_scene_set_material(stage.scene, stage.body[1], stage.body[2], &material, NULL), CT_OK);
    return stage;
}

static ct_result *step(ct_scene *scene, const ct_update *updates, size_t n) {
    ct_step step = {.scene = scene, .updates = updates, .n_updates = n, .want = CT_WANT_ALL};
    if (ct_engine_run(engine, &step, 1)) fail_msg("%s", step.error.message);
    return step.result;
}

static void same_bits(ct_result *a, ct_result *b) {
    char hashes[2][33];
    assert_true(a->n_contacts >= 3);
    stage_hash(a, hashes[0]);
    stage_hash(b, hashes[1]);
    assert_string_equal(hashes[0], hashes[1]);
    ct_result_free(&a);
    ct_result_free(&b);
}

/* Moves the rigid body, and the deformable one. */
static void move(const struct stage *stage, ct_scene *scene, double x) {
    float *positions = malloc(ball.n_vertices * 12);
    assert_non_null(positions);
    for (uint32_t i = 0; i < 3 * ball.n_vertices; i++) positions[i] = 1.1f * ball.positions[i];
    ct_update updates[2] = {{.body = stage->body[1], .kind = CT_UPDATE_POSE},
                            {.body = stage->body[2],
                             .kind = CT_UPDATE_POSITIONS,
                             .positions = positions,
                             .dtype = CT_F32,
                             .count = ball.n_vertices}};
    memcpy(updates[0].pose, away, sizeof away);
    updates[0].pose[3] = x;
    ct_result *result = step(scene, updates, 2);
    ct_result_free(&result);
    free(positions);
}

static void test_reset(void **state) {
    (void)state;
    struct stage fresh = open_scene(), used = open_scene();
    for (int round = 0; round < 2; round++) {
        move(&used, used.scene, 0.2);
        assert_int_equal(ct_scene_reset(used.scene, NULL), CT_OK);
        same_bits(step(fresh.scene, NULL, 0), step(used.scene, NULL, 0));
    }
    ct_body_info info;
    assert_int_equal(ct_scene_body_info(used.scene, used.body[1], &info, NULL), CT_OK);
    assert_memory_equal(info.pose, away, sizeof away);
    stage_close(&fresh);
    stage_close(&used);
}

static void test_reset_ends_identity(void **state) {
    (void)state;
    struct stage stage = open_scene();
    uint64_t last = 0;
    for (int round = 0; round < 3; round++) { /* the second as the first; the third after a reset */
        if (round == 2) assert_int_equal(ct_scene_reset(stage.scene, NULL), CT_OK);
        ct_step step = {.scene = stage.scene, .want = CT_WANT_IDS};
        assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
        const ct_result *r = step.result;
        assert_true(r->n_contacts >= 3 && r->n_ended_ids == 0);
        for (size_t i = 0; i < r->n_contacts; i++) {
            assert_true(r->contacts[i].is_new == (round != 1));
            if (round == 2) assert_true(r->contacts[i].id > last);
        }
        for (size_t i = 0; i < r->n_contacts; i++) last = r->contacts[i].id > last ? r->contacts[i].id : last;
        ct_result_free(&step.result);
    }
    stage_close(&stage);
}

static void test_copy(void **state) {
    (void)state;
    struct stage stage = open_scene();
    ct_scene *copy;
    move(&stage, stage.scene, 0.3);
    assert_int_equal(ct_scene_copy(stage.scene, &copy, NULL), CT_OK);
    assert_int_equal(ct_scene_body_count(copy), 4);
    for (size_t i = 0; i < 4; i++) { /* the same handles, poses and meshes */
        ct_body_info a, b;
        assert_int_equal(ct_scene_body_at(stage.scene, i, &a), CT_OK);
        assert_int_equal(ct_scene_body_at(copy, i, &b), CT_OK);
        assert_true(a.body == b.body && a.kind == b.kind && a.mesh == b.mesh);
        assert_memory_equal(a.pose, b.pose, sizeof a.pose);
    }
    /* Deformable bodies begin at rest; from the same positions on the bits are the same, and each scene is its own. */
    move(&stage, stage.scene, 0.1);
    move(&stage, copy, 0.1);
    same_bits(step(stage.scene, NULL, 0), step(copy, NULL, 0));
    /* The copy's start is where it was copied. */
    assert_int_equal(ct_scene_reset(copy, NULL), CT_OK);
    ct_body_info info;
    assert_int_equal(ct_scene_body_info(copy, stage.body[1], &info, NULL), CT_OK);
    assert_true(info.pose[3] == 0.3);
    assert_int_equal(ct_scene_reset(stage.scene, NULL), CT_OK);
    const ct_update back = {
        .body = stage.body[1], .kind = CT_UPDATE_POSE, .pose = {1, 0, 0, 0.3, 0, 1, 0, 0, 0, 0, 1, 0}};
    same_bits(step(stage.scene, &back, 1), step(copy, NULL, 0));
    /* Handles go on as in the scene itself. */
    ct_body_options options;
    ct_body_options_init(&options);
    uint32_t ids[2];
    for (int i = 0; i < 2; i++) {
        ct_scene *scene = i ? copy : stage.scene;
        assert_int_equal(ct_scene_remove_body(scene, stage.body[2], NULL), CT_OK);
        assert_int_equal(ct_scene_add_body(scene, mesh_of(&info), &options, &ids[i], NULL), CT_OK);
    }
    assert_int_equal(ids[0], ids[1]);
    stage_close(&stage);
    ct_scene_destroy(&copy);
}

static void test_start(void **state) {
    (void)state;
    struct stage stage = open_scene();
    ct_body_info info;
    ct_body_options options;
    ct_error error;
    uint32_t body;
    assert_int_equal(ct_scene_body_info(stage.scene, stage.body[1], &info, NULL), CT_OK);
    ct_body_options_init(&options);
    options.kind = CT_BODY_RIGID;
    options.has_start = true;
    memcpy(options.start, away, sizeof away);
    options.start[3] = 5;
    assert_int_equal(ct_scene_add_body(stage.scene, mesh_of(&info), &options, &body, NULL), CT_OK);
    assert_int_equal(ct_scene_body_info(stage.scene, body, &info, NULL), CT_OK);
    assert_true(info.pose[3] == 0);
    assert_int_equal(ct_scene_reset(stage.scene, NULL), CT_OK);
    assert_int_equal(ct_scene_body_info(stage.scene, body, &info, NULL), CT_OK);
    assert_true(info.pose[3] == 5);
    options.start[0] = 2; /* no rotation */
    assert_int_equal(ct_scene_add_body(stage.scene, mesh_of(&info), &options, &body, &error), CT_OUT_OF_RANGE);
    stage_close(&stage);
}

int main(void) {
    engine = stage_engine(2, NULL);
    ball = shape_icosphere(0.6, 2);
    box = shape_box(1, 1, 1);
    shape_pose_identity(away);
    away[3] = 0.4;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_reset_ends_identity),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_start),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    shape_free(&ball);
    shape_free(&box);
    ct_engine_destroy(&engine);
    return failed;
}
