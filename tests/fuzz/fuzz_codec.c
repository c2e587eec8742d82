/* fuzz_codec.c - any bytes may come as a message: nothing crashes, and what decodes says the same after it was encoded
 * and decoded again. Input: a byte for the number of array frames, their lengths (two bytes each), then header and
 * frames one after another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/codec.h"
#include "tests/unit/proto/messages.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(bool good, const char *what) {
    if (good) return;
    fprintf(stderr, "fuzz_codec: %s\n", what);
    abort();
}

/* Decodes what was encoded. The decoder takes a table for each 16 bytes of a header, and 64 more. A list of tables
 * without content needs fewer bytes than that, so its header may be refused. It is then decoded again with zeros behind
 * it, which give it the bytes. */
static void decode_again(const wire_encoded *encoded, wire_scratch *scratch, wire_message *out) {
    enum { MOST_TABLES = 1 << 16 };
    wire_fault fault;
    if (wire_decode(encoded->frames, encoded->n_frames, scratch, out, &fault)) return;
    wire_frame frames[1 + WIRE_MAX_FRAMES];
    memcpy(frames, encoded->frames, encoded->n_frames * sizeof *frames);
    frames[0].size += (size_t)16 * MOST_TABLES;
    unsigned char *longer = calloc(1, frames[0].size);
    check(longer != NULL, "no memory");
    memcpy(longer, encoded->frames[0].data, encoded->frames[0].size);
    frames[0].data = longer;
    const bool is_good = wire_decode(frames, encoded->n_frames, scratch, out, &fault);
    free(longer);
    check(is_good, fault.message);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    static wire_scratch *scratch, *again;
    static wire_encoder *encoder;
    if (!encoder) {
        scratch = wire_scratch_new();
        again = wire_scratch_new();
        encoder = wire_encoder_new();
        check(scratch && again && encoder, "no memory");
    }
    size_t arrays = size ? data[0] % (WIRE_MAX_FRAMES + 1) : 0, lengths = 1 + 2 * arrays;
    if (size < lengths) return 0;
    wire_frame frames[1 + WIRE_MAX_FRAMES] = {{data + lengths, size - lengths}};
    for (size_t i = arrays; i > 0; i--) { /* each takes its length from the end */
        size_t length = (size_t)data[2 * i - 1] | (size_t)data[2 * i] << 8;
        if (length > frames[0].size) length = frames[0].size;
        frames[0].size -= length;
        frames[i] = (wire_frame){data + lengths + frames[0].size, length};
    }
    /* In blocks of their own, so that a read beyond one is seen. */
    void *blocks[1 + WIRE_MAX_FRAMES];
    for (size_t i = 0; i <= arrays; i++) {
        blocks[i] = malloc(frames[i].size ? frames[i].size : 1);
        check(blocks[i] != NULL, "no memory");
        if (frames[i].size) memcpy(blocks[i], frames[i].data, frames[i].size);
        frames[i].data = blocks[i];
    }
    wire_message first, second;
    wire_fault fault;
    if (wire_decode(frames, 1 + arrays, scratch, &first, &fault)) {
        static const size_t inlines[] = {0, 64, WIRE_INLINE_BYTES};
        for (size_t k = 0; k < sizeof inlines / sizeof *inlines; k++) {
            wire_encoded encoded;
            check(wire_encode(encoder, &first, inlines[k], &encoded), "what decodes does not encode");
            decode_again(&encoded, again, &second);
            const char *differs = differ_message(&first, &second);
            if (differs) check(false, differs);
        }
    } else {
        check(fault.code != CONTACTD_OK && fault.message[0], "refused without a reason");
    }
    for (size_t i = 0; i <= arrays; i++) free(blocks[i]);
    return 0;
}
