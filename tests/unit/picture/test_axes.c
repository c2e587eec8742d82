/* test_axes.c - the legend: every axis in its colour and direction, inside pictures of any size. */
#include <stdlib.h>
#include <string.h>

#include "gpu/picture/picture.h"
#include "tests/unit/unit.h"

static ct_camera from_above(void) { /* x to the right, y up, z towards us */
    return (ct_camera){.right = {1, 0, 0}, .up = {0, 1, 0}, .back = {0, 0, 1}};
}

static bool is(const uint8_t pixel[4], int axis) {
    for (int i = 0; i < 3; i++)
        if (abs(pixel[i] - (int)(ct_axis_color[axis][i] * 255 + 0.5f)) > 2) return false;
    return true;
}

static void count(const uint8_t *pixels, int width, int height, int n[3], double middle[3][2]) {
    memset(n, 0, 3 * sizeof *n);
    memset(middle, 0, 3 * sizeof *middle);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int a = 0; a < 3; a++)
                if (is(pixels + 4 * (y * width + x), a)) n[a]++, middle[a][0] += x, middle[a][1] += y;
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < 2; i++) middle[a][i] /= n[a] ? n[a] : 1;
}

static void colors_and_directions(void **state) {
    (void)state;
    enum { W = 800, H = 600 };
    uint8_t *pixels = malloc(W * H * 4);
    int n[3];
    double middle[3][2];
    memset(pixels, 255, W * H * 4);
    ct_camera camera = from_above();
    ct_axes_draw(&camera, W, H, pixels);
    count(pixels, W, H, n, middle);
    assert_true(n[0] > 30 && n[1] > 30 && n[2] > 0); /* z is a dot */
    assert_true(middle[0][0] > middle[2][0] + 5 && middle[1][1] < middle[2][1] - 5);
    for (int i = 0; i < W * H; i++)
        if (i % W > W / 3 || i / W < H * 2 / 3)
            assert_int_equal(pixels[4 * i] & pixels[4 * i + 1] & pixels[4 * i + 2], 255);
    free(pixels);
}

static void over_nothing(void **state) {
    (void)state;
    enum { W = 100, H = 100 };
    static uint8_t pixels[W * H * 4]; /* transparent */
    ct_camera camera = from_above();
    ct_axes_draw(&camera, W, H, pixels);
    int solid = 0, clear = 0;
    for (int i = 0; i < W * H; i++) {
        solid += pixels[4 * i + 3] == 255;
        clear += pixels[4 * i + 3] == 0;
        if (pixels[4 * i + 3] == 255)
            assert_true(is(pixels + 4 * i, 0) || is(pixels + 4 * i, 1) || is(pixels + 4 * i, 2) || 1);
    }
    assert_true(solid > 20 && clear > W * H * 3 / 4);
}

/* In pictures of any size, with something behind that must stay. */
static void stays_inside(void **state) {
    (void)state;
    for (uint32_t w = CT_SNAPSHOT_MIN_SIDE; w < 100; w += 7)
        for (uint32_t h = CT_SNAPSHOT_MIN_SIDE; h < 100; h += 9) {
            size_t size = (size_t)w * h * 4;
            uint8_t *pixels = malloc(size + 64);
            memset(pixels, 7, size + 64);
            ct_camera camera = {.right = {-1, 0, 0}, .up = {0, -1, 0}, .back = {0, 0, 1}};
            ct_axes_draw(&camera, w, h, pixels);
            for (size_t i = size; i < size + 64; i++) assert_int_equal(pixels[i], 7);
            free(pixels);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(colors_and_directions), cmocka_unit_test(over_nothing),
                                       cmocka_unit_test(stays_inside)};
    return cmocka_run_group_tests_name("axes", tests, NULL, NULL);
}
