/* test_painter_gl.c - drawn pictures: expected colours, glass layers in depth order, the same pixels every time. */
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

/* Seen from afar along +x with z up, 1 m is `scale` pixels. */
static ct_snapshot_options looking_along_x(uint32_t size, double scale) {
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    o.width = o.height = size;
    o.has_eye = o.has_target = true;
    o.eye[0] = 1000;
    o.field_of_view = 2 * atan(size / scale / 2 / 1000) * 180 / acos(-1);
    if (o.field_of_view < 1) o.field_of_view = 1;
    o.show = CT_SHOW_BODIES;
    return o;
}

static uint8_t *draw(struct stage *stage, const ct_snapshot_options *o) {
    ct_snapshot *snapshot;
    ct_error error = {0};
    uint8_t *pixels = malloc((size_t)o->width * o->height * 4);
    if (ct_snapshot_take(stage->scene, o, &snapshot, &error) || ct_snapshot_draw(snapshot, pixels, &error))
        fail_msg("%s", error.message);
    ct_snapshot_free(&snapshot);
    return pixels;
}

/* A row of cubes along x, the first the nearest. */
static struct stage row_of_cubes(struct shape *cube, int n, const int *order) {
    struct placed bodies[STAGE_MAX] = {0};
    static double poses[STAGE_MAX][12];
    ct_scene_settings settings = stage_resolution(4);
    for (int i = 0; i < n; i++) {
        shape_pose_identity(poses[i]);
        poses[i][3] = -3.0 * order[i];
        bodies[i] = (struct placed){cube, poses[i], CT_BODY_RIGID};
    }
    return stage_open(engine, &settings, bodies, n);
}

static const uint8_t *at(const uint8_t *pixels, uint32_t size, uint32_t x, uint32_t y) {
    return pixels + 4 * ((size_t)y * size + x);
}

/* Opaque bodies hide bodies behind them, in either order of adding: the palette's first colour is bluish, its second
 * sandy. */
static void nearer_is_in_front(void **state) {
    (void)state;
    struct shape cube = shape_box(4, 4, 2);
    for (int first = 0; first < 2; first++) {
        struct stage stage = row_of_cubes(&cube, 2, first ? (int[]){2, 0} : (int[]){0, 2});
        ct_snapshot_options o = looking_along_x(64, 1);
        o.opacity = 1;
        o.target[0] = -3;
        uint8_t *pixels = draw(&stage, &o);
        const uint8_t *p = at(pixels, 64, 32, 32);
        assert_true(first ? p[0] > p[2] + 20 : p[2] > p[0] + 20);
        free(pixels);
        stage_close(&stage);
    }
    shape_free(&cube);
}

/* Glass lets through, less with every layer; and which of two is in front can be seen. */
static void glass_in_order(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 20, 20);
    int before = 255;
    uint8_t two[2][3] = {{0}};
    for (int n = 1; n <= 6; n++) {
        struct stage stage = row_of_cubes(&cube, n, (int[]){0, 1, 2, 3, 4, 5});
        ct_snapshot_options o = looking_along_x(32, 1);
        uint8_t *pixels = draw(&stage, &o);
        const uint8_t *p = at(pixels, 32, 16, 16), *outside = at(pixels, 32, 2, 2);
        int sum = (p[0] + p[1] + p[2]) / 3;
        assert_true(sum < before && sum > 40);
        assert_true(outside[0] == 255 && outside[1] == 255 && outside[2] == 255 && outside[3] == 255);
        before = sum;
        free(pixels);
        stage_close(&stage);
    }
    for (int first = 0; first < 2; first++) {
        struct stage stage = row_of_cubes(&cube, 2, first ? (int[]){1, 0} : (int[]){0, 1});
        ct_snapshot_options o = looking_along_x(32, 1);
        o.opacity = 0.6;
        uint8_t *pixels = draw(&stage, &o);
        memcpy(two[first], at(pixels, 32, 16, 16), 3);
        free(pixels);
        stage_close(&stage);
    }
    assert_true(two[0][2] > two[1][2] + 10 && two[1][0] > two[0][0] + 10); /* bluish in front; sandy in front */
    shape_free(&cube);
}

static void transparent_background(void **state) {
    (void)state;
    struct shape cube = shape_box(10, 10, 10);
    struct stage stage = row_of_cubes(&cube, 1, (int[]){0});
    ct_snapshot_options o = looking_along_x(32, 1);
    o.background[3] = 0;
    uint8_t *pixels = draw(&stage, &o);
    assert_int_equal(at(pixels, 32, 1, 1)[3], 0);
    int inside = at(pixels, 32, 16, 16)[3];
    assert_true(inside > 60 && inside < 200); /* two layers of 0.3 and less */
    free(pixels);
    stage_close(&stage);
    shape_free(&cube);
}

/* The ends of rays along x are red squares across x, as many as there are rays. */
static void samples_where_they_are(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1);
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.5;
    const struct placed bodies[2] = {{&cube, NULL, CT_BODY_RIGID}, {&cube, pose, CT_BODY_RIGID}};
    ct_scene_settings settings = stage_resolution(4);
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    ct_snapshot_options o = looking_along_x(1, 1);
    o.width = o.height = 160;
    o.eye[0] = 50;
    o.field_of_view = 2 * atan(1.0 / 50) * 180 / acos(-1); /* 80 pixels to a metre */
    o.show = CT_SHOW_SAMPLES;
    uint8_t *pixels = draw(&stage, &o);
    int red = 0, gap = 0;
    for (uint32_t y = 0; y < 160; y++)
        for (uint32_t x = 0; x < 160; x++) {
            const uint8_t *p = at(pixels, 160, x, y);
            bool inside = x > 42 && x < 117 && y > 42 && y < 117;
            bool outside = x < 37 || x > 122 || y < 37 || y > 122;
            bool is_red = p[0] > p[1] + 80 && p[0] > p[2] + 80;
            red += is_red;
            if (outside) assert_true(p[0] == 255 && p[1] == 255 && p[2] == 255);
            gap += inside && !is_red;
        }
    assert_true(red > 0.7 * 80 * 80 && red < 82 * 82 && gap > 100); /* 4 x 4 squares with gaps */
    free(pixels);
    stage_close(&stage);
    shape_free(&cube);
}

/* A snapshot of nothing but a mark, seen along x: 1 m is 20 pixels, and the middle of the picture is the origin. */
static uint8_t *draw_mark(struct stage *stage, ct_mark_kind kind, const double (*at)[3], const uint8_t color[4],
                          double size) {
    ct_snapshot_options o = looking_along_x(160, 20);
    ct_snapshot *snapshot;
    ct_error error = {0};
    o.eye[0] = 50;
    o.field_of_view = 2 * atan(4.0 / 50) * 180 / acos(-1);
    o.show = CT_SHOW_CONTACTS;
    uint8_t *pixels = malloc((size_t)o.width * o.height * 4);
    if (ct_snapshot_take(stage->scene, &o, &snapshot, &error) ||
        ct_marks_add(snapshot, kind, at, color, size, "it", "none", &error) ||
        ct_snapshot_draw(snapshot, pixels, &error))
        fail_msg("%s", error.message);
    assert_int_equal(snapshot->n_marks, 1);
    ct_snapshot_free(&snapshot);
    return pixels;
}

static bool is_white(const uint8_t p[4]) {
    return p[0] == 255 && p[1] == 255 && p[2] == 255;
}

/* Of the pixels that are not white: how many, and their bounds {x0, y0, x1, y1}, both inclusive. */
static int inked(const uint8_t *pixels, int bounds[4]) {
    int n = 0;
    bounds[0] = bounds[1] = 160;
    bounds[2] = bounds[3] = -1;
    for (int y = 0; y < 160; y++)
        for (int x = 0; x < 160; x++) {
            if (is_white(at(pixels, 160, (uint32_t)x, (uint32_t)y))) continue;
            n++;
            if (x < bounds[0]) bounds[0] = x;
            if (y < bounds[1]) bounds[1] = y;
            if (x > bounds[2]) bounds[2] = x;
            if (y > bounds[3]) bounds[3] = y;
        }
    return n;
}

/* Every kind is where it should be, as large as it should be, in its colour. Seen along x, y is to the right. */
static void marks_where_they_are(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1);
    struct stage stage = row_of_cubes(&cube, 1, (int[]){0});
    const uint8_t red[4] = {200, 0, 0, 255}, half[4] = {200, 0, 0, 128};
    static const struct {
        ct_mark_kind kind;
        double at[4][3], size;
        int bounds[4], least, most; /* of pixels */
    } cases[] = {
        {CT_MARK_POINT, {{0, 1, 0}}, 6, {97, 77, 102, 82}, 36, 36},
        {CT_MARK_LINE, {{0, -2, 1}, {0, 2, 1}}, 4, {38, 58, 121, 61}, 336, 336},
        {CT_MARK_ARROW, {{0, -2, 0}, {0, 2, 0}}, 4, {40, 73, 119, 86}, 64 * 4 + 90, 64 * 4 + 150},
        {CT_MARK_TILE, {{0, 0, 0}, {0, 2, 0}, {0, 0, 1}}, 0, {80, 60, 119, 79}, 800, 800},
        {CT_MARK_CUBE, {{0, -1, -1}, {2, -1, -1}, {0, 1, -1}, {0, -1, 1}}, 1, {58, 58, 101, 101}, 1600, 1900},
        {CT_MARK_FILM, {{0, 0, 0}, {0, 2, 0}, {0, 2, 2}}, 0, {80, 40, 119, 79}, 780, 860},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool is_film = cases[i].kind == CT_MARK_FILM;
        uint8_t *pixels = draw_mark(&stage, cases[i].kind, cases[i].at, is_film ? half : red, cases[i].size);
        int bounds[4];
        const int n = inked(pixels, bounds);
        for (int k = 0; k < 4; k++)
            if (abs(bounds[k] - cases[i].bounds[k]) > 1)
                fail_msg("kind %zu: bound %d is %d, not %d", i, k, bounds[k], cases[i].bounds[k]);
        if (n < 0.95 * cases[i].least || n > 1.05 * cases[i].most) fail_msg("kind %zu: %d pixels", i, n);
        const uint8_t *p = at(pixels, 160, (uint32_t)(bounds[2] - 3), (uint32_t)((bounds[1] + bounds[3]) / 2));
        if (cases[i].kind != CT_MARK_CUBE)
            assert_true(is_film ? p[0] > p[1] + 20 && p[1] > 60 : p[0] > 190 && p[1] < 10);
        free(pixels);
    }
    stage_close(&stage);
    shape_free(&cube);
}

/* An arrow's head is at its end; a line that begins behind the eye is cut there; one in a body is seen through it. */
static void arrows_point(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1);
    struct stage stage = row_of_cubes(&cube, 1, (int[]){0});
    const uint8_t red[4] = {200, 0, 0, 255};
    for (int turn = 0; turn < 4; turn++) {
        const double along[3] = {0, (turn & 1) ? 0 : 1 - turn, (turn & 1) ? 2 - turn : 0};
        const double ends[2][3] = {{0, -along[1], -along[2]}, {0, along[1], along[2]}};
        uint8_t *pixels = draw_mark(&stage, CT_MARK_ARROW, ends, red, 2);
        double sum[2] = {0, 0};
        int n = 0;
        for (int y = 0; y < 160; y++)
            for (int x = 0; x < 160; x++)
                if (!is_white(at(pixels, 160, (uint32_t)x, (uint32_t)y))) {
                    sum[0] += x - 79.5;
                    sum[1] += 79.5 - y;
                    n++;
                }
        assert_true((sum[0] * along[1] + sum[1] * along[2]) / n > 1.5); /* pixels: the head is heavier */
        assert_true(fabs(sum[0] * along[2] + sum[1] * along[1]) / n < 0.5);
        free(pixels);
    }
    const double behind[2][3] = {{60, 0, 0}, {0, 2, 0}};
    int bounds[4];
    uint8_t *pixels = draw_mark(&stage, CT_MARK_LINE, behind, red, 2);
    assert_true(inked(pixels, bounds) > 40 && bounds[2] >= 118);
    free(pixels);
    const double away[2][3] = {{60, 0, 0}, {70, 1, 1}};
    pixels = draw_mark(&stage, CT_MARK_LINE, away, red, 2);
    assert_int_equal(inked(pixels, bounds), 0);
    free(pixels);
    stage_close(&stage);
    shape_free(&cube);
}

/* Contacts of a scene: the film's colour is where what bodies share is seen, and nowhere else. */
static void contacts_where_they_are(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1);
    double pose[12];
    shape_pose_identity(pose);
    pose[7] = pose[11] = 0.5;
    pose[3] = 0.25;
    const struct placed bodies[2] = {{&cube, NULL, CT_BODY_RIGID}, {&cube, pose, CT_BODY_RIGID}};
    const ct_scene_settings settings = stage_exact();
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    ct_snapshot_options o = looking_along_x(160, 80);
    o.eye[0] = 50;
    o.field_of_view = 2 * atan(1.0 / 50) * 180 / acos(-1); /* 80 pixels to a metre */
    o.show = CT_SHOW_CONTACTS;
    uint8_t *pixels = draw(&stage, &o);
    int strange = 0, n = 0;
    for (uint32_t y = 0; y < 160; y++)
        for (uint32_t x = 0; x < 160; x++) {
            const uint8_t *p = at(pixels, 160, x, y);
            const bool is_in = x > 82 && x < 117 && y > 42 && y < 77; /* the shared part is 0..0.5 along y and z */
            const bool is_out = x < 77 || x > 122 || y < 37 || y > 82;
            if (is_in && !(p[0] > p[1] + 30 && p[1] >= p[2])) strange++; /* orange */
            if (is_out && !is_white(p)) n++;                             /* of the normal's arrow alone */
        }
    assert_true(strange < 0.2 * 34 * 34); /* the arrow */
    assert_true(n < 250);
    free(pixels);
    stage_close(&stage);
    shape_free(&cube);
}

/* Also a picture that is drawn in parts. */
static void the_same_pixels_again(void **state) {
    (void)state;
    struct shape blob = shape_blob(1, 3, 0.4, 5);
    double pose[12];
    uint64_t rng = 1;
    shape_pose_random(&rng, 0.5, pose);
    const struct placed bodies[2] = {{&blob, NULL, CT_BODY_DEFORMABLE}, {&blob, pose, CT_BODY_RIGID}};
    ct_scene_settings settings = stage_resolution(16);
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    o.width = 1100;
    o.height = 20;
    o.show = CT_SHOW_BODIES | CT_SHOW_SAMPLES | CT_SHOW_CONTACTS | CT_SHOW_GRADIENTS;
    uint8_t *pixels = draw(&stage, &o), *again = draw(&stage, &o);
    assert_memory_equal(pixels, again, (size_t)o.width * o.height * 4);
    free(again);
    free(pixels);
    stage_close(&stage);
    shape_free(&blob);
}

/* Where it may be cancelled it is drawn in pieces, with the same pixels. Cancelled, it ends, and the next is whole. */
static void pieces_have_the_same_pixels(void **state) {
    (void)state;
    struct shape blob = shape_blob(1, 4, 0.4, 5);
    double pose[12];
    uint64_t rng = 2;
    shape_pose_random(&rng, 0.5, pose);
    const struct placed bodies[2] = {{&blob, NULL, CT_BODY_DEFORMABLE}, {&blob, pose, CT_BODY_RIGID}};
    ct_scene_settings settings = stage_resolution(100);
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    o.width = 700;
    o.height = 500;
    o.show = CT_SHOW_BODIES | CT_SHOW_SAMPLES | CT_SHOW_CONTACTS | CT_SHOW_GRADIENTS;
    uint8_t *whole = draw(&stage, &o), *again = malloc((size_t)o.width * o.height * 4), *png = NULL;
    size_t size;
    ct_snapshot *snapshot;
    ct_error error = {0};
    assert_int_equal(ct_snapshot_take(stage.scene, &o, &snapshot, &error), CT_OK);
    for (int is_late = 0; is_late < 3; is_late++) { /* not cancelled, cancelled, cancelled while it draws */
        ct_cancel cancel;
        ct_cancel_init(&cancel, is_late == 1 ? 1e-9 : is_late == 2 ? 0.05 : 0);
        ct_cancel *before = ct_cancel_scope(&cancel);
        memset(&error, 0, sizeof error);
        const ct_status status = ct_snapshot_draw(snapshot, again, &error);
        if (is_late == 1) assert_int_equal(ct_snapshot_png(o.width, o.height, whole, &png, &size, NULL), CT_CANCELLED);
        ct_cancel_scope(before);
        if (is_late == 1) assert_int_equal(status, CT_CANCELLED);
        if (status == CT_OK)
            assert_memory_equal(whole, again, (size_t)o.width * o.height * 4);
        else
            assert_non_null(strstr(error.message, "cancelled while drawing the picture"));
    }
    assert_null(png);
    uint8_t *last = draw(&stage, &o);
    assert_memory_equal(whole, last, (size_t)o.width * o.height * 4);
    ct_snapshot_free(&snapshot);
    free(whole), free(again), free(last);
    stage_close(&stage);
    shape_free(&blob);
}

/* With less memory it takes more parts, down to a pixel; the picture is the same but for the rounding of positions. */
static void little_memory_for_glass(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 3);
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.7;
    const struct placed bodies[2] = {{&ball, NULL, CT_BODY_RIGID}, {&ball, pose, CT_BODY_RIGID}};
    ct_scene_settings settings = stage_resolution(8);
    struct stage stage = stage_open(engine, &settings, bodies, 2);
    ct_snapshot_options o;
    ct_snapshot_options_init(&o);
    o.width = 40;
    o.height = 24;
    ct_snapshot *snapshot;
    ct_painter *painter;
    ct_error error = {0};
    assert_int_equal(ct_snapshot_take(stage.scene, &o, &snapshot, &error), CT_OK);
    if (ct_painter_create(&painter, &error)) fail_msg("%s", error.message);
    static uint8_t plenty[40 * 24 * 4], little[40 * 24 * 4];
    assert_int_equal(ct_painter_draw(painter, snapshot, UINT64_C(1) << 26, plenty, &error), CT_OK);
    for (uint64_t glass = 4000; glass >= 400;
         glass /= 3) { /* bytes; a pixel's samples may have 16 surfaces of 16 bytes */
        memset(little, 0, sizeof little);
        if (ct_painter_draw(painter, snapshot, glass, little, &error)) fail_msg("%s", error.message);
        long off = 0;
        for (size_t i = 0; i < sizeof plenty; i++) off += abs(plenty[i] - little[i]);
        assert_true(off < (long)sizeof plenty); /* less than one of 255 on average */
    }
    assert_int_equal(ct_painter_draw(painter, snapshot, 40, little, &error), CT_LIMIT_EXCEEDED);
    assert_non_null(strstr(error.message, "surfaces"));
    ct_painter_destroy(&painter);
    ct_snapshot_free(&snapshot);
    stage_close(&stage);
    shape_free(&ball);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearer_is_in_front),      cmocka_unit_test(glass_in_order),
        cmocka_unit_test(transparent_background),  cmocka_unit_test(samples_where_they_are),
        cmocka_unit_test(marks_where_they_are),    cmocka_unit_test(arrows_point),
        cmocka_unit_test(contacts_where_they_are), cmocka_unit_test(the_same_pixels_again),
        cmocka_unit_test(little_memory_for_glass), cmocka_unit_test(pieces_have_the_same_pixels),
    };
    return cmocka_run_group_tests_name("painter", tests, open_engine, close_engine);
}
