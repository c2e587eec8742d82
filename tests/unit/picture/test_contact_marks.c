/* test_contact_marks.c - contacts as marks: films close around what the bodies share, arrows follow gradients, words
 * that do not fit are refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/method/engine.h"
#include "gpu/picture/picture.h"
#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

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

static ct_snapshot *take(struct stage *stage, uint32_t show) {
    ct_snapshot_options o;
    ct_snapshot *snapshot;
    ct_error error = {0};
    ct_snapshot_options_init(&o);
    o.show = show;
    if (ct_snapshot_take(stage->scene, &o, &snapshot, &error)) fail_msg("%s", error.message);
    return snapshot;
}

/* Six times the volume that the films of a colour close around, by the divergence theorem; their area. */
static double volume_of(const ct_snapshot *snapshot, const uint8_t color[3], double *area) {
    const ct_mark_list *films = &snapshot->marks[CT_MARK_FILM];
    double sum = 0;
    *area = 0;
    for (uint32_t i = 0; i < films->n; i++) {
        if (memcmp(films->marks[i].color, color, 3) != 0) continue;
        double p[3][3], n[3];
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < 3; k++) p[c][k] = (double)films->marks[i].at[c][k] + snapshot->camera.origin[k];
        for (int k = 0; k < 3; k++) {
            const int a = (k + 1) % 3, b = (k + 2) % 3;
            n[k] = (p[1][a] - p[0][a]) * (p[2][b] - p[0][b]) - (p[1][b] - p[0][b]) * (p[2][a] - p[0][a]);
            sum += n[k] * p[0][k];
        }
        *area += 0.5 * sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    }
    return sum / 6;
}

/* Two unit cubes share a cube of half their size: each has three of its faces. */
static void films_around_a_cube(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1);
    double pose[12], area;
    shape_pose_identity(pose);
    pose[3] = pose[7] = pose[11] = 0.5;
    const ct_body_kind kinds[2] = {CT_BODY_RIGID, CT_BODY_DEFORMABLE};
    for (int i = 0; i < 2; i++) {
        const struct placed bodies[2] = {{&cube, NULL, kinds[i]}, {&cube, pose, kinds[1 - i]}};
        const ct_scene_settings settings[2] = {stage_exact(), stage_resolution(8)};
        struct stage stage = stage_open(engine, &settings[i], bodies, 2);
        ct_snapshot *snapshot = take(&stage, CT_SHOW_CONTACTS);
        const double volume = volume_of(snapshot, ct_contact_color[0], &area);
        assert_true(fabs(volume - 0.125) < 1e-3 && fabs(area - 1.5) < 5e-3);
        assert_int_equal(snapshot->marks[CT_MARK_ARROW].n, 1);
        assert_int_equal(snapshot->marks[CT_MARK_FILM].n + 1, snapshot->n_marks);
        ct_snapshot_free(&snapshot);
        stage_close(&stage);
    }
    shape_free(&cube);
}

/* The films of random pairs close around the volume that the step gives; films are not where bodies are apart. */
static void films_close_around_volumes(void **state) {
    (void)state;
    struct shape blob = shape_blob(1, 3, 0.4, 5), cube = shape_box(1, 1.5, 0.8);
    const struct shape *shapes[2] = {&blob, &cube};
    uint64_t rng = 7;
    for (int i = 0; i < 12; i++) {
        double pose[12], area;
        shape_pose_random(&rng, 0.8, pose);
        const struct placed bodies[2] = {{shapes[i % 2], NULL, CT_BODY_RIGID},
                                         {shapes[i / 2 % 2], pose, CT_BODY_RIGID}};
        const ct_scene_settings settings = stage_exact();
        struct stage stage = stage_open(engine, &settings, bodies, 2);
        ct_result *result = stage_step(&stage, NULL, 0, 0);
        ct_snapshot *snapshot = take(&stage, CT_SHOW_CONTACTS);
        const double expected = result->n_contacts ? result->contacts[0].volume : 0;
        const double volume = volume_of(snapshot, ct_contact_color[0], &area);
        if (fabs(volume - expected) > 0.003 * area) fail_msg("pair %d: %g around %g", i, volume, expected);
        if (!result->n_contacts) assert_int_equal(snapshot->n_marks, 0);
        ct_snapshot_free(&snapshot);
        ct_result_free(&result);
        stage_close(&stage);
    }
    shape_free(&blob);
    shape_free(&cube);
}

/* A bar through a body of two balls: each patch has a colour of its own, also where a face of the bar bounds both. */
static void patches_have_colors(void **state) {
    (void)state;
    struct shape large = shape_icosphere(1, 4), small = shape_icosphere(0.8, 4), bar = shape_box(6, 0.5, 0.5);
    shape_translate(&large, -1.5, 0, 0);
    shape_translate(&small, 1.5, 0, 0);
    struct shape both = shape_merge(&large, &small);
    ct_scene_settings settings = stage_exact();
    settings.patches = true;
    const struct placed bodies[2] = {{&both, NULL, CT_BODY_RIGID}, {&bar, NULL, CT_BODY_RIGID}};
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_FRAME);
    ct_snapshot *snapshot = take(&stage, CT_SHOW_CONTACTS);
    assert_int_equal(result->n_contacts, 2);
    for (uint32_t i = 0; i < 2; i++) {
        double area;
        const double volume = volume_of(snapshot, ct_contact_color[i], &area), expected = result->contacts[i].volume;
        assert_true(fabs(volume - expected) < 0.02 * expected);
    }
    ct_snapshot_free(&snapshot);
    ct_result_free(&result);
    stage_close(&stage);
    shape_free(&both);
    shape_free(&small);
    shape_free(&large);
    shape_free(&bar);
}

/* Below a half-space: the film of the plane closes that of the ball. */
static void films_of_half_spaces(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 4);
    double plane[12], area;
    const double normal[3] = {0.6, 0, 0.8};
    assert_int_equal(ct_plane_pose(normal, -0.3, plane, NULL), CT_OK);
    const struct placed bodies[2] = {{&ball, NULL, CT_BODY_RIGID}, {NULL, plane, CT_BODY_HALF_SPACE}};
    const ct_scene_settings settings = stage_exact();
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    ct_result *result = stage_step(&stage, NULL, 0, 0);
    ct_snapshot *snapshot = take(&stage, CT_SHOW_CONTACTS);
    const double volume = volume_of(snapshot, ct_contact_color[0], &area);
    assert_true(fabs(volume - result->contacts[0].volume) < 0.01 * result->contacts[0].volume);
    ct_snapshot_free(&snapshot);
    ct_result_free(&result);
    stage_close(&stage);
    shape_free(&ball);
}

/* One arrow for each entry, from its vertex along its gradient, the longest as long as the header says. */
static void arrows_along_gradients(void **state) {
    (void)state;
    struct shape blob = shape_blob(1, 2, 0.4, 5);
    double pose[12], largest = 0, longest = 0;
    uint64_t rng = 3;
    shape_pose_random(&rng, 0.6, pose);
    const struct placed bodies[2] = {{&blob, NULL, CT_BODY_RIGID}, {&blob, pose, CT_BODY_RIGID}};
    const ct_scene_settings settings = stage_exact();
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_GRADIENT | CT_WANT_FRAME);
    ct_snapshot *snapshot = take(&stage, CT_SHOW_GRADIENTS);
    const ct_mark_list *arrows = &snapshot->marks[CT_MARK_ARROW];
    const ct_contact *contact = &result->contacts[0];
    assert_true(result->n_entries > 20);
    assert_int_equal(arrows->n, result->n_entries);
    assert_int_equal(snapshot->n_marks, arrows->n);
    for (uint64_t i = 0; i < result->n_entries; i++) {
        const double *g = result->gradient + 3 * i;
        largest = fmax(largest, sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2]));
    }
    const double scale = 0.12 * 720 * snapshot->camera.pixel / largest;
    for (int part = 0; part < 2; part++)
        for (uint64_t i = contact->first[part]; i < contact->first[part] + contact->count[part]; i++) {
            double from[3], square = 0;
            const double *m = part ? pose : NULL;
            const float *p = blob.positions + 3 * (size_t)result->vertices[i];
            for (int k = 0; k < 3; k++) {
                const float *ends[2] = {arrows->marks[i].at[0], arrows->marks[i].at[1]};
                from[k] = m ? m[4 * k] * p[0] + m[4 * k + 1] * p[1] + m[4 * k + 2] * p[2] + m[4 * k + 3] : p[k];
                assert_true(fabs((double)ends[0][k] + snapshot->camera.origin[k] - from[k]) < 1e-5);
                assert_true(fabs((double)(ends[1][k] - ends[0][k]) - scale * result->gradient[3 * i + k]) < 1e-5);
                square += (double)(ends[1][k] - ends[0][k]) * (ends[1][k] - ends[0][k]);
            }
            longest = fmax(longest, sqrt(square));
        }
    assert_true(fabs(longest - 0.12 * 720 * snapshot->camera.pixel) < 1e-4);
    ct_snapshot_free(&snapshot);
    snapshot = take(&stage, CT_SHOW_GRADIENTS | CT_SHOW_CONTACTS); /* with the normal, at the centre */
    const ct_mark *normal = &snapshot->marks[CT_MARK_ARROW].marks[result->n_entries];
    assert_int_equal(snapshot->marks[CT_MARK_ARROW].n, result->n_entries + 1);
    for (int k = 0; k < 3; k++) {
        assert_true(fabs((double)normal->at[0][k] + snapshot->camera.origin[k] - contact->center[k]) < 1e-5);
        const double along = 0.2 * 720 * snapshot->camera.pixel * contact->normal[k];
        assert_true(fabs((double)(normal->at[1][k] - normal->at[0][k]) - along) < 1e-5);
    }
    ct_snapshot_free(&snapshot);
    ct_result_free(&result);
    stage_close(&stage);
    shape_free(&blob);
}

static struct stage open_cubes(struct shape *cube, const ct_scene_settings *settings) {
    static double pose[12];
    shape_pose_identity(pose);
    pose[3] = pose[7] = pose[11] = 0.5;
    const struct placed bodies[2] = {{cube, NULL, CT_BODY_RIGID}, {cube, pose, CT_BODY_RIGID}};
    return stage_open(engine, settings, bodies, 2);
}

static void words_that_do_not_fit(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1);
    const ct_scene_settings settings = stage_voxtree(4, 0);
    struct stage stage = open_cubes(&cube, &settings);
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    o.show |= CT_SHOW_GRADIENTS;
    ct_snapshot *snapshot = (void *)1;
    ct_error error = {0};
    assert_int_equal(ct_snapshot_take(stage.scene, &o, &snapshot, &error), CT_INVALID_ARGUMENT);
    assert_null(snapshot);
    assert_string_equal(error.field, "show");
    assert_non_null(strstr(error.message, "names gradients"));
    assert_non_null(strstr(error.message, "voxtree"));
    assert_non_null(strstr(error.message, "bodies,samples,axes"));
    stage_close(&stage);
    shape_free(&cube);
}

static void too_many_marks(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1);
    const ct_scene_settings settings = stage_exact();
    struct stage stage = open_cubes(&cube, &settings);
    ct_snapshot *snapshot = take(&stage, CT_SHOW_BODIES);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_GRADIENT | CT_WANT_FRAME | CT_WANT_SURFACE);
    ct_error error = {0};
    snapshot->n_marks = CT_MAX_MARKS - 1;
    assert_int_equal(ct_mark_surface(snapshot, result, &error), CT_LIMIT_EXCEEDED);
    assert_non_null(strstr(error.message, "the contact surfaces would need more than 1048576 marks"));
    for (uint32_t show = CT_SHOW_CONTACTS; show <= CT_SHOW_GRADIENTS; show <<= 1) {
        error = (ct_error){0};
        snapshot->options.show = show;
        snapshot->n_marks = CT_MAX_MARKS - 3;
        assert_int_equal(ct_mark_contacts(snapshot, result, &error), CT_LIMIT_EXCEEDED);
        assert_string_equal(error.field, "show");
        assert_non_null(strstr(error.message, "1048576 marks"));
        assert_non_null(strstr(error.message, show == CT_SHOW_CONTACTS ? "the films" : "the arrows"));
    }
    ct_result_free(&result);
    ct_snapshot_free(&snapshot);
    stage_close(&stage);
    shape_free(&cube);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(films_around_a_cube),    cmocka_unit_test(films_close_around_volumes),
        cmocka_unit_test(patches_have_colors),    cmocka_unit_test(films_of_half_spaces),
        cmocka_unit_test(arrows_along_gradients), cmocka_unit_test(words_that_do_not_fit),
        cmocka_unit_test(too_many_marks),
    };
    return cmocka_run_group_tests_name("contact marks", tests, open_engine, close_engine);
}
