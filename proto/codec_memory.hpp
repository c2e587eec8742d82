// codec_memory.hpp - what both directions of the codec share: the generated code, reusable buffers, enums of newer
// peers. Only for codec.cpp.
#ifndef CONTACTD_CODEC_MEMORY_HPP
#define CONTACTD_CODEC_MEMORY_HPP

#include <cstdlib>
#include <cstring>

#include "proto/codec.h"
#include "proto/utf8.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "contactd_generated.h"
#pragma GCC diagnostic pop

namespace fb = contactd::wire;
using flatbuffers::Offset;

static_assert(FLATBUFFERS_LITTLEENDIAN, "arrays are little-endian on the wire and are not converted");

struct WireBuffer { // reusable memory; zeroed is empty
    void *data;
    size_t size;

    // Contents are lost where it grows.
    bool reserve(size_t need) {
        if (need <= size) return true;
        size_t grown = need + need / 2;
        free(data);
        data = malloc(grown);
        size = data ? grown : 0;
        return data != nullptr;
    }
};

struct wire_scratch {
    WireBuffer header, items, others; // the aligned copy; the elements of the message's vector; those of a second one
    WireBuffer velocities;            // the elements of a step's third vector, and of an answer's
    size_t limit;                     // bytes that elements of vectors may take; 0: any
};
struct wire_encoder {
    WireBuffer header, items, places; // the buffer built; offsets of a vector's elements; where each array goes
    size_t n_places, next_place;
};

namespace {

// Hands FlatBufferBuilder the encoder's buffer. It was sized by Encoder::bound, so the builder never asks for more.
class Fixed final : public flatbuffers::Allocator {
  public:
    explicit Fixed(const WireBuffer &buffer) : buffer_(buffer) {
    }
    uint8_t *allocate(size_t size) override {
        if (size > buffer_.size) abort();
        return static_cast<uint8_t *>(buffer_.data);
    }
    void deallocate(uint8_t *, size_t) override {
    }
    uint8_t *reallocate_downward(uint8_t *, size_t, size_t, size_t, size_t) override {
        abort();
    }

  private:
    const WireBuffer &buffer_;
};

// Where a table's field with this id is looked up.
inline flatbuffers::voffset_t field_of(unsigned id) {
    return flatbuffers::voffset_t(4 + 2 * id);
}

// An enum of C may hold a number that its list lacks (a newer peer's); C++ must not load that as the enum.
template <class E> unsigned number(const E &e) {
    static_assert(sizeof(E) == sizeof(unsigned), "");
    unsigned n;
    memcpy(&n, &e, sizeof n);
    return n;
}
template <class E> void set_number(E *e, unsigned n) {
    memcpy(e, &n, sizeof n);
}

const double identity[12] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};

} // namespace

#endif
