/* test_tile_marks.c - the tiles of EBPI's views: they make up the volumes, and each is a mark of its view. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static struct stage open_blobs(struct shape *blob) {
    static double pose[12];
    uint64_t rng = 3;
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_EBPI;
    settings.tolerance_rel = 0.02;
    shape_pose_random(&rng, 0.6, pose);
    *blob = shape_blob(1, 2, 0.3, 5);
    const struct placed bodies[2] = {{blob, NULL, CT_BODY_RIGID}, {blob, pose, CT_BODY_RIGID}};
    return stage_open(engine, &settings, bodies, 2);
}

static double length_of(const float v[3]) {
    return sqrt((double)v[0] * v[0] + (double)v[1] * v[1] + (double)v[2] * v[2]);
}

/* A view's rays times the areas of their tiles are its volume; tiles do not overlap. */
static void tiles_make_up_the_volume(void **state) {
    (void)state;
    struct shape blob;
    struct stage stage = open_blobs(&blob);
    ct_result *with = stage_step(&stage, NULL, 0, CT_WANT_FRAME | CT_WANT_TILES);
    ct_result *without = stage_step(&stage, NULL, 0, CT_WANT_FRAME);
    assert_int_equal(without->n_tiles, 0);
    assert_null(without->tiles);
    const ct_contact *contact = &with->contacts[0];
    assert_int_equal(contact->n_tiles, with->n_tiles);
    assert_int_equal(contact->first_tile, 0);
    assert_true(contact->volume == without->contacts[0].volume);
    double volume[3] = {0, 0, 0}, bound[3] = {0, 0, 0};
    uint64_t with_rays = 0;
    for (uint64_t i = 0; i < with->n_tiles; i++) {
        const ct_ray_tile *tile = &with->tiles[i];
        const uint32_t axis = tile->axis, u = (axis + 1) % 3, v = (axis + 2) % 3;
        assert_true(axis < 3);
        assert_true(tile->u[u] > 0 && tile->v[v] > 0 && tile->along[axis] > 0);
        assert_true(tile->u[axis] == 0 && tile->u[v] == 0 && tile->v[axis] == 0 && tile->v[u] == 0);
        assert_true(tile->length >= 0 && (double)tile->length <= (double)tile->along[axis] * (1 + 1e-6));
        volume[axis] += (double)tile->length * length_of(tile->u) * length_of(tile->v);
        bound[axis] += tile->bound;
        with_rays += tile->length > 0;
    }
    assert_true(with_rays > 100 && with->n_tiles <= with->rays);
    for (int axis = 0; axis < 3; axis++) {
        assert_true(fabs(volume[axis] - contact->volumes[axis]) < 1e-5 * contact->volume);
        assert_true(bound[axis] > 0 && bound[axis] <= contact->error_bounds[axis]);
    }
    ct_result_free(&with);
    ct_result_free(&without);
    stage_close(&stage);
    shape_free(&blob);
}

static double dot_of(const float a[3], const float b[3]) {
    return (double)a[0] * b[0] + (double)a[1] * b[1] + (double)a[2] * b[2];
}

/* Views along axes of the pair's own: tiles are turned with them, and lie where the bodies overlap. */
static void turned_tiles_make_up_the_volume(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    double pose[2][12];
    const double at[2][3] = {{0, 0, 0}, {0.4, 0.3, 0.2}};
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_EBPI;
    settings.tolerance_rel = 0.02;
    settings.optimize_directions = true;
    for (int b = 0; b < 2; b++) shape_pose_axis((const double[]){0, 0, 1}, 0.05 + 0.02 * b, at[b], pose[b]);
    const struct placed bodies[2] = {{&box, pose[0], CT_BODY_RIGID}, {&box, pose[1], CT_BODY_RIGID}};
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_FRAME | CT_WANT_TILES);
    const ct_contact *contact = &result->contacts[0];
    double volume[3] = {0, 0, 0}, turned = 0, middle[3] = {0, 0, 0}, sum = 0;
    for (uint64_t i = 0; i < result->n_tiles; i++) {
        const ct_ray_tile *tile = &result->tiles[i];
        assert_true(fabs(dot_of(tile->u, tile->v)) < 1e-6 * length_of(tile->u) * length_of(tile->v));
        assert_true(fabs(dot_of(tile->u, tile->along)) < 1e-6 * length_of(tile->u) * length_of(tile->along));
        assert_true((double)tile->length <= length_of(tile->along) * (1 + 1e-6));
        const double part = (double)tile->length * length_of(tile->u) * length_of(tile->v);
        volume[tile->axis] += part;
        turned = fmax(turned, fabs((double)tile->along[(tile->axis + 1) % 3]) / length_of(tile->along));
        /* Along the two sides of its tile a ray's middle is the tile's. */
        for (int k = 0; k < 3; k++) {
            double across = (double)tile->corner[k] + 0.5 * ((double)tile->u[k] + (double)tile->v[k]);
            across -= (double)tile->along[k] * (dot_of(tile->corner, tile->along) / dot_of(tile->along, tile->along));
            const double center = contact->center[k] - (double)tile->along[k] *
                                                           ((double)tile->along[0] * contact->center[0] +
                                                            (double)tile->along[1] * contact->center[1] +
                                                            (double)tile->along[2] * contact->center[2]) /
                                                           dot_of(tile->along, tile->along);
            middle[k] += part * (across - center);
        }
        sum += part;
    }
    assert_true(turned > 0.01);
    for (int axis = 0; axis < 3; axis++)
        assert_true(fabs(volume[axis] - contact->volumes[axis]) < 1e-5 * contact->volume);
    for (int k = 0; k < 3; k++) assert_true(fabs(middle[k]) / sum < 0.05);
    ct_result_free(&result);
    stage_close(&stage);
    shape_free(&box);
}

static bool is_color(const uint8_t a[4], double part) {
    uint8_t b[4];
    ct_color_scale(part, b);
    return memcmp(a, b, 4) == 0;
}

static void marks_of_a_view(void **state) {
    (void)state;
    struct shape blob;
    struct stage stage = open_blobs(&blob);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_FRAME | CT_WANT_TILES);
    uint64_t n[3] = {0, 0, 0};
    for (uint64_t i = 0; i < result->n_tiles; i++) n[result->tiles[i].axis]++;
    for (int axis = 0; axis < 4; axis++) {
        ct_snapshot_options o;
        ct_snapshot *snapshot;
        ct_snapshot_options_init(&o);
        o.show = axis == 3 ? CT_SHOW_RAYS : (uint32_t)CT_SHOW_RAYS_X << axis;
        assert_int_equal(ct_snapshot_take(stage.scene, &o, &snapshot, NULL), CT_OK);
        const ct_mark_list *tiles = &snapshot->marks[CT_MARK_TILE];
        assert_int_equal(tiles->n, axis == 3 ? n[0] + n[1] + n[2] : n[axis]);
        assert_int_equal(snapshot->n_marks, tiles->n);
        double largest = 0, smallest = INFINITY;
        int pale = 0, dark = 0;
        for (uint32_t i = 0; i < tiles->n && axis < 3; i++) {
            const ct_mark *mark = &tiles->marks[i];
            float u[3], v[3];
            for (int k = 0; k < 3; k++) {
                u[k] = mark->at[1][k] - mark->at[0][k];
                v[k] = mark->at[2][k] - mark->at[0][k];
            }
            assert_true(u[axis] == 0 && v[axis] == 0);
            assert_true(mark->at[0][axis] == tiles->marks[0].at[0][axis]); /* all on one wall, which is the far one */
            const double area = length_of(u) * length_of(v);
            largest = fmax(largest, area);
            smallest = fmin(smallest, area);
            pale += is_color(mark->color, 0);
            dark += is_color(mark->color, 1);
        }
        if (axis < 3) {
            const double wall = (double)tiles->marks[0].at[0][axis] + snapshot->camera.origin[axis];
            const double middle = result->contacts[0].center[axis];
            assert_true(snapshot->camera.back[axis] > 0 ? wall < middle : wall > middle);
            assert_true(largest > 3 * smallest && pale > 0 && dark > 0);
        }
        ct_snapshot_free(&snapshot);
    }
    ct_result_free(&result);
    stage_close(&stage);
    shape_free(&blob);
}

/* Tiles and their order are the same on any threads. */
static void the_same_on_any_threads(void **state) {
    (void)state;
    char hash[2][33];
    ct_engine *shared = engine;
    for (int i = 0; i < 2; i++) {
        struct shape blob;
        engine = stage_engine(i ? 3 : 1, NULL);
        struct stage stage = open_blobs(&blob);
        ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_FRAME | CT_WANT_TILES);
        assert_true(result->n_tiles > 0);
        stage_hash(result, hash[i]);
        ct_result_free(&result);
        stage_close(&stage);
        ct_engine_destroy(&engine);
        shape_free(&blob);
    }
    engine = shared;
    assert_string_equal(hash[0], hash[1]);
}

static void refusals(void **state) {
    (void)state;
    struct shape blob;
    struct stage stage = open_blobs(&blob);
    ct_snapshot_options o;
    ct_snapshot *snapshot;
    ct_snapshot_options_init(&o);
    o.show = CT_SHOW_BODIES;
    assert_int_equal(ct_snapshot_take(stage.scene, &o, &snapshot, NULL), CT_OK);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_FRAME | CT_WANT_TILES);
    ct_error error = {0};
    snapshot->options.show = CT_SHOW_RAYS;
    snapshot->n_marks = CT_MAX_MARKS - 10;
    assert_int_equal(ct_mark_tiles(snapshot, result, &error), CT_LIMIT_EXCEEDED);
    assert_non_null(strstr(error.message, "1048576 marks"));
    assert_non_null(strstr(error.message, "tolerance"));
    ct_snapshot_free(&snapshot);
    ct_result_free(&result);

    const ct_scene_settings settings = stage_exact(); /* has no tiles */
    assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
    ct_step step = {.scene = stage.scene, .want = CT_WANT_TILES};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_INVALID_ARGUMENT);
    assert_string_equal(step.error.field, "want");
    assert_non_null(strstr(step.error.message, "tiles"));
    o.show = CT_SHOW_BODIES | CT_SHOW_RAYS_Y;
    memset(&error, 0, sizeof error);
    assert_int_equal(ct_snapshot_take(stage.scene, &o, &snapshot, &error), CT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "names rays_y,"));
    assert_non_null(strstr(error.message, "exact"));
    assert_non_null(strstr(error.message, "contacts,gradients"));
    stage_close(&stage);
    shape_free(&blob);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_make_up_the_volume), cmocka_unit_test(turned_tiles_make_up_the_volume),
        cmocka_unit_test(marks_of_a_view), cmocka_unit_test(the_same_on_any_threads), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests_name("tile marks", tests, open_engine, close_engine);
}
