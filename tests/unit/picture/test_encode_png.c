/* test_encode_png.c - decoding an encoded picture gives the same pixels. */
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/include/snapshot.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

static void round_trip(uint32_t width, uint32_t height, bool opaque) {
    size_t size = (size_t)width * height * 4, n;
    uint8_t *pixels = malloc(size), *back = malloc(size), *file;
    uint64_t rng = width * 7919 + height;
    for (size_t i = 0; i < size; i++) pixels[i] = (uint8_t)shape_random(&rng);
    for (size_t i = 3; opaque && i < size; i += 4) pixels[i] = 255;
    ct_error error = {0};
    assert_int_equal(ct_snapshot_png(width, height, pixels, &file, &n, &error), CT_OK);
    png_image image = {.version = PNG_IMAGE_VERSION};
    assert_true(png_image_begin_read_from_memory(&image, file, n));
    assert_int_equal(image.width, width);
    assert_int_equal(image.height, height);
    assert_int_equal(image.format & PNG_FORMAT_FLAG_ALPHA, opaque ? 0 : PNG_FORMAT_FLAG_ALPHA);
    image.format = PNG_FORMAT_RGBA;
    assert_true(png_image_finish_read(&image, NULL, back, 0, NULL));
    assert_memory_equal(back, pixels, size);
    free(pixels);
    free(back);
    free(file);
}

static void pixels_come_back(void **state) {
    (void)state;
    for (int opaque = 0; opaque < 2; opaque++) {
        round_trip(16, 16, opaque);
        round_trip(961, 17, opaque);
        round_trip(64, 1000, opaque);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pixels_come_back)};
    return cmocka_run_group_tests_name("PNG", tests, NULL, NULL);
}
