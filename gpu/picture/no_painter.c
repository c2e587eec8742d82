/* no_painter.c - the painter in a build without EGL: every call fails with UNSUPPORTED. */
#include "gpu/picture/picture.h"

#ifndef CT_HAVE_EGL

#include "gpu/base/fail.h"

static ct_status refuse(ct_error *error) {
    return ct_fail(error, CT_UNSUPPORTED, "snapshot",
                   "this build cannot draw pictures: build with EGL=1, which needs libepoxy and libpng");
}

ct_status ct_painter_create(ct_painter **out, ct_error *error) {
    *out = NULL;
    return refuse(error);
}

void ct_painter_destroy(ct_painter **painter) {
    *painter = NULL;
}

ct_status ct_painter_draw(ct_painter *painter, const ct_snapshot *snapshot, uint64_t max_glass_bytes, uint8_t *pixels,
                          ct_error *error) {
    (void)painter, (void)snapshot, (void)max_glass_bytes, (void)pixels;
    return refuse(error);
}

ct_status ct_snapshot_png(uint32_t width, uint32_t height, const uint8_t *pixels, uint8_t **png, size_t *size,
                          ct_error *error) {
    (void)width, (void)height, (void)pixels;
    *png = NULL;
    *size = 0;
    return refuse(error);
}

#endif
