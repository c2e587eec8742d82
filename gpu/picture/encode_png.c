/* encode_png.c - encodes pixels as a PNG file in memory. The only file that includes libpng. */
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/picture/picture.h"

typedef struct output {
    uint8_t *data;
    size_t size, capacity;
} output;

/* libpng's callbacks */

static void append_bytes(png_structp png, png_bytep bytes, size_t n) {
    output *out = png_get_io_ptr(png);
    if (out->size + n > out->capacity) {
        size_t capacity = 2 * (out->size + n);
        uint8_t *grown = realloc(out->data, capacity);
        if (!grown) png_error(png, "no memory");
        out->data = grown;
        out->capacity = capacity;
    }
    memcpy(out->data + out->size, bytes, n);
    out->size += n;
}

static void flush_output(png_structp png) {
    (void)png;
}

static void abort_encoding(png_structp png, png_const_charp message) {
    (void)message;
    png_longjmp(png, 1);
}

static void ignore_warning(png_structp png, png_const_charp message) {
    (void)png, (void)message;
}

static bool is_opaque(const uint8_t *pixels, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i, 1 << 16) && ct_is_cancelled()) return false;
        if (pixels[4 * i + 3] != 255) return false;
    }
    return true;
}

/* Encodes into *out; an opaque picture gets no alpha channel. False: out of memory or cancelled, the only errors
 * possible here. */
static bool encode(png_structp png, png_infop info, output *out, uint32_t width, uint32_t height, const uint8_t *pixels,
                   bool opaque) {
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_write_fn(png, out, append_bytes, flush_output);
    png_set_IHDR(png, info, width, height, 8, opaque ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_RGB_ALPHA,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_sRGB(png, info, PNG_sRGB_INTENT_PERCEPTUAL);
    png_set_compression_level(png, 5);
    png_write_info(png, info);
    if (opaque) png_set_filler(png, 0, PNG_FILLER_AFTER);
    for (uint32_t y = 0; y < height; y++) { /* of 4,096 pixels at most: some 0.5 ms */
        if (ct_is_cancelled_at("pixels", (uint64_t)width * y)) return false;
        png_write_row(png, pixels + 4 * (size_t)width * y);
    }
    png_write_end(png, info);
    return true;
}

ct_status ct_snapshot_png(uint32_t width, uint32_t height, const uint8_t *pixels, uint8_t **bytes, size_t *size,
                          ct_error *error) {
    output out = {0};
    ct_enter_phase("encoding the picture");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, abort_encoding, ignore_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    bool is_encoded = info && encode(png, info, &out, width, height, pixels, is_opaque(pixels, (size_t)width * height));
    png_destroy_write_struct(&png, &info);
    ct_status status = CT_OK;
    if (!is_encoded) {
        free(out.data);
        out = (output){0};
        status =
            ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for a PNG file of %u x %u pixels", width, height);
    }
    *bytes = out.data;
    *size = out.size;
    return status;
}
