/* test_wire.c - messages written by the first release decode to the samples of tests/unit/proto/messages.h; the files
 * are in tests/golden/wire. A file is never changed; CONTACTD_WRITE_GOLDEN=1 writes missing files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/proto/messages.h"

#define FOLDER "tests/golden/wire/"
enum { MOST = 1 << 16 };

/* A file: the number of frames and the size of each as little-endian 32-bit numbers, then the frames. */
static void write_golden(const char *path, const wire_message *m) {
    wire_encoder *encoder = wire_encoder_new();
    wire_encoded e;
    assert_true(encoder && wire_encode(encoder, m, 64, &e));
    FILE *file = fopen(path, "wbx");
    if (file) {
        uint32_t numbers[2 + WIRE_MAX_FRAMES] = {(uint32_t)e.n_frames};
        for (size_t i = 0; i < e.n_frames; i++) numbers[1 + i] = (uint32_t)e.frames[i].size;
        assert_int_equal(fwrite(numbers, 4, 1 + e.n_frames, file), 1 + e.n_frames);
        for (size_t i = 0; i < e.n_frames; i++)
            assert_int_equal(fwrite(e.frames[i].data, 1, e.frames[i].size, file), e.frames[i].size);
        fclose(file);
    }
    wire_encoder_free(&encoder);
}

static size_t read_golden(const char *path, unsigned char *bytes, wire_frame *frames) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s is missing", path);
    size_t size = fread(bytes, 1, MOST, file), at;
    fclose(file);
    uint32_t n, length;
    assert_true(size > 8 && size < MOST);
    memcpy(&n, bytes, 4);
    assert_true(n >= 1 && n <= 1 + WIRE_MAX_FRAMES);
    at = 4 + 4 * (size_t)n;
    for (uint32_t i = 0; i < n; i++) {
        memcpy(&length, bytes + 4 + 4 * i, 4);
        frames[i] = (wire_frame){bytes + at, length};
        at += length;
    }
    assert_int_equal(at, size);
    return n;
}

static void every_message_still_decodes(void **state) {
    (void)state;
    static samples store;
    static unsigned char bytes[MOST];
    wire_scratch *scratch = wire_scratch_new();
    assert_non_null(scratch);
    sample_store(&store);
    for (wire_type t = WIRE_HELLO; t < WIRE_TYPE_END; t++) {
        char path[128];
        wire_message expected = sample_message(&store, t), m;
        wire_frame frames[1 + WIRE_MAX_FRAMES];
        wire_fault fault;
        snprintf(path, sizeof path, FOLDER "%s.bin", wire_type_name(t));
        if (getenv("CONTACTD_WRITE_GOLDEN")) write_golden(path, &expected);
        size_t n = read_golden(path, bytes, frames);
        if (!wire_decode(frames, n, scratch, &m, &fault)) fail_msg("%s: %s: %s", path, fault.field, fault.message);
        const char *differs = differ_message(&expected, &m);
        if (differs) fail_msg("%s: %s differs", path, differs);
    }
    wire_scratch_free(&scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_message_still_decodes)};
    return cmocka_run_group_tests_name("golden wire", tests, NULL, NULL);
}
