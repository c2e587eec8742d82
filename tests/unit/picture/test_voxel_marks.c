/* test_voxel_marks.c - voxel trees as marks: cubes with their occupancies, and primitives that reduce to the points of
 * the step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/mesh.h"
#include "gpu/methods/voxtree/finish.h"
#include "gpu/picture/picture.h"
#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

enum { LEVEL = 4 };

static ct_engine *engine;

static int open_engine(void **state) {
    (void)state;
    engine = stage_engine(2, NULL);
    return 0;
}
static int close_engine(void **state) {
    (void)state;
    ct_engine_destroy(&engine);
    return 0;
}

typedef struct scene {
    struct shape ball, box;
    double pose[12];
    struct stage stage;
} scene;

static scene open_scene(void) {
    scene s = {.ball = shape_icosphere(0.6, 3), .box = shape_box(1, 1, 1)};
    uint64_t rng = 11;
    shape_pose_random(&rng, 0, s.pose);
    s.pose[3] = 0.8;
    s.pose[7] = 0.2;
    s.pose[11] = 0.1;
    const struct placed bodies[2] = {{&s.ball, NULL, CT_BODY_RIGID}, {&s.box, s.pose, CT_BODY_RIGID}};
    ct_scene_settings settings = stage_voxtree(5, LEVEL);
    settings.max_points = CT_MAX_POINTS;
    s.stage = stage_open(engine, &settings, bodies, 2);
    return s;
}

static void close_scene(scene *s) {
    stage_close(&s->stage);
    shape_free(&s->ball);
    shape_free(&s->box);
}

static ct_snapshot *take(scene *s, uint32_t show, bool is_close_up) {
    ct_snapshot_options o;
    ct_snapshot *snapshot;
    ct_error error = {0};
    ct_snapshot_options_init(&o);
    o.show = show;
    for (int i = 0; i < 2 && is_close_up; i++) o.contact[i] = s->stage.body[i];
    if (ct_snapshot_take(s->stage.scene, &o, &snapshot, &error)) fail_msg("%s", error.message);
    return snapshot;
}

static const ct_voxel_tree *tree_of(scene *s, const ct_snapshot_body *body) {
    ct_scene_settings settings;
    ct_scene_get_settings(s->stage.scene, &settings);
    return ct_voxel_tree_for(body->mesh, &settings, NULL);
}

/* A cube for each boundary node of both trees, in its place and of its colour. */
static void cubes_of_a_level(void **state) {
    (void)state;
    scene s = open_scene();
    ct_snapshot *snapshot = take(&s, CT_SHOW_NODES, false);
    const ct_mark_list *cubes = &snapshot->marks[CT_MARK_CUBE];
    uint32_t at = 0, pale = 0;
    double volume = 0;
    for (int b = 0; b < 2; b++) {
        const ct_snapshot_body *body = &snapshot->bodies[b];
        const ct_voxel_level *level = &tree_of(&s, body)->level[LEVEL];
        assert_true(level->n_nodes > 100 && at + level->n_nodes <= cubes->n);
        for (uint32_t i = 0; i < level->n_nodes; i++, at++) {
            const ct_voxel *node = &level->nodes[i];
            const ct_mark *mark = &cubes->marks[at];
            uint8_t color[4];
            ct_color_scale(0.2 + 0.8 * (double)node->occupancy, color);
            assert_memory_equal(mark->color, color, 4);
            pale += node->occupancy < 0.3F;
            if (b == 0) volume += (double)node->occupancy * level->size * level->size * level->size;
            for (int k = 0; k < 3; k++) {
                double length = 0, corner = body->pose[4 * k + 3];
                for (int j = 0; j < 3; j++) {
                    const double side = (double)(mark->at[1 + k][j] - mark->at[0][j]);
                    length += side * side;
                    corner += body->pose[4 * k + j] * (tree_of(&s, body)->origin[j] + node->at[j] * level->size);
                }
                assert_true(fabs(sqrt(length) - level->size) < 1e-5);
                assert_true(fabs((double)mark->at[0][k] + snapshot->camera.origin[k] - corner) < 1e-5);
            }
        }
    }
    assert_int_equal(at, cubes->n);
    assert_int_equal(snapshot->n_marks, cubes->n);
    assert_true(pale > 20 && volume > 0.1 && volume < shape_volume(&s.ball));
    ct_snapshot_free(&snapshot);
    close_scene(&s);
}

/* Of two bodies, the cubes that reach into both boxes. */
static void cubes_of_a_contact(void **state) {
    (void)state;
    scene s = open_scene();
    ct_snapshot *all = take(&s, CT_SHOW_NODES, false), *some = take(&s, CT_SHOW_NODES, true);
    ct_body_info info[2];
    double lo[3], hi[3];
    for (int b = 0; b < 2; b++) assert_int_equal(ct_scene_body_info(s.stage.scene, s.stage.body[b], &info[b], NULL), 0);
    for (int k = 0; k < 3; k++) {
        lo[k] = fmax(info[0].lo[k], info[1].lo[k]) - 1e-4;
        hi[k] = fmin(info[0].hi[k], info[1].hi[k]) + 1e-4;
    }
    uint32_t reaching = 0;
    for (int pass = 0; pass < 2; pass++) {
        const ct_snapshot *of = pass ? some : all;
        const ct_mark_list *cubes = &of->marks[CT_MARK_CUBE];
        for (uint32_t i = 0; i < cubes->n; i++) {
            bool reaches = true;
            for (int k = 0; k < 3; k++) {
                const float *at = &cubes->marks[i].at[0][k]; /* of the next corner 3 further */
                double least = (double)at[0] + of->camera.origin[k], most = least;
                for (int c = 1; c < 4; c++) {
                    least += fmin((double)(at[3 * c] - at[0]), 0);
                    most += fmax((double)(at[3 * c] - at[0]), 0);
                }
                reaches = reaches && most >= lo[k] && least <= hi[k];
            }
            if (!pass) reaching += reaches;
            if (pass) assert_true(reaches);
        }
    }
    const uint32_t n = some->marks[CT_MARK_CUBE].n;
    assert_true(n > 20 && n < all->marks[CT_MARK_CUBE].n && n <= reaching && n + 5 >= reaching);
    ct_snapshot_free(&all);
    ct_snapshot_free(&some);
    close_scene(&s);
}

/* Plain averages of the primitives group by group are the step's points (equations 7 and 8). */
static void primitives_reduce_to_points(void **state) {
    (void)state;
    scene s = open_scene();
    ct_scene_settings settings;
    ct_scene_get_settings(s.stage.scene, &settings);
    settings.plain_average = true;
    assert_int_equal(ct_scene_configure(s.stage.scene, &settings, NULL), CT_OK);
    ct_snapshot *snapshot = take(&s, CT_SHOW_NORMALS, false);
    ct_result *result = stage_step(&s.stage, NULL, 0, CT_WANT_FRAME);
    const ct_voxel_tree *trees[2] = {tree_of(&s, &snapshot->bodies[0]), tree_of(&s, &snapshot->bodies[1])};
    const double *poses[2] = {snapshot->bodies[0].pose, snapshot->bodies[1].pose};
    ct_point *raw;
    uint32_t n;
    assert_true(ct_voxel_list_primitives(trees, poses, &settings, result->progress[0].level, &raw, &n));
    assert_true(n > 100 && result->n_points > 2);
    assert_int_equal(snapshot->marks[CT_MARK_LINE].n, n);
    assert_int_equal(snapshot->marks[CT_MARK_ARROW].n, result->n_points);
    assert_int_equal(snapshot->n_marks, n + result->n_points);
    uint32_t used = 0;
    for (uint64_t p = 0; p < result->n_points; p++) {
        const ct_point *point = &result->points[p];
        double count = 0, weight = 0, depth = 0, normal[3] = {0}, position[3] = {0}, length = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (raw[i].group[0] != point->group[0] || raw[i].group[1] != point->group[1]) continue;
            used++;
            count++;
            weight += raw[i].weight;
            depth += raw[i].weight * raw[i].depth;
            for (int k = 0; k < 3; k++) {
                normal[k] += raw[i].normal[k];
                position[k] += raw[i].position[k];
            }
        }
        for (int k = 0; k < 3; k++) length += normal[k] * normal[k];
        assert_true(fabs(point->weight - count / n) < 1e-9 && fabs(point->depth - depth / weight) < 1e-9);
        for (int k = 0; k < 3; k++) {
            assert_true(fabs(point->normal[k] - normal[k] / sqrt(length)) < 1e-5); /* steps of 2^-18 */
            assert_true(fabs(point->position[k] - position[k] / count) < 1e-9);
        }
    }
    assert_int_equal(used, n);
    /* Lines go from the primitives along their normals, as long as they are probable. */
    const double longest = 0.06 * ct_snapshot_shorter_side(snapshot);
    for (uint32_t i = 0; i < n; i++) {
        const ct_mark *line = &snapshot->marks[CT_MARK_LINE].marks[i];
        for (int k = 0; k < 3; k++) {
            const double from = raw[i].position[k], along = longest * raw[i].weight * raw[i].normal[k];
            assert_true(fabs((double)line->at[0][k] + snapshot->camera.origin[k] - from) < 1e-5);
            assert_true(fabs((double)(line->at[1][k] - line->at[0][k]) - along) < 1e-5);
        }
    }
    free(raw);
    ct_snapshot_free(&snapshot);
    ct_result_free(&result);
    close_scene(&s);
}

static void refusals(void **state) {
    (void)state;
    scene s = open_scene();
    ct_snapshot *snapshot = take(&s, CT_SHOW_BODIES, false);
    ct_result *result = stage_step(&s.stage, NULL, 0, CT_WANT_FRAME);
    ct_scene_settings settings;
    ct_scene_get_settings(s.stage.scene, &settings);
    for (uint32_t show = CT_SHOW_NODES; show <= CT_SHOW_NORMALS; show <<= 1) {
        ct_error error = {0};
        snapshot->options.show = show;
        snapshot->n_marks = CT_MAX_MARKS - 10;
        assert_int_equal(ct_mark_voxels(snapshot, &settings, result, &error), CT_LIMIT_EXCEEDED);
        assert_non_null(strstr(error.message, "1048576 marks"));
        assert_non_null(strstr(error.message, "level"));
    }
    ct_snapshot_free(&snapshot);
    ct_result_free(&result);
    const ct_scene_settings exact = stage_exact();
    assert_int_equal(ct_scene_configure(s.stage.scene, &exact, NULL), CT_OK);
    ct_snapshot_options o;
    ct_error error = {0};
    ct_snapshot_options_init(&o);
    o.show |= CT_SHOW_NODES | CT_SHOW_NORMALS;
    assert_int_equal(ct_snapshot_take(s.stage.scene, &o, &snapshot, &error), CT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "names nodes,normals,"));
    close_scene(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cubes_of_a_level), cmocka_unit_test(cubes_of_a_contact),
                                       cmocka_unit_test(primitives_reduce_to_points), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests_name("voxel marks", tests, open_engine, close_engine);
}
