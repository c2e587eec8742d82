// codec.cpp - messages to and from FlatBuffers, behind the plain C of codec.h: the one C++ file of stream and C client.
// Decoding trusts nothing that was received; encoding trusts its caller. Neither allocates once its buffers have grown.

#include "proto/codec_decode.hpp"
#include "proto/codec_encode.hpp"

// ---- the lists agree ------------------------------------------------------------------------------------------------

#define CHECK_CODE(name, number, http, retry, text)                                                                    \
    static_assert(int(fb::ErrorCode_##name) == number, "contactd.fbs and errors.h differ in " #name);
CONTACTD_ERROR_MAP(CHECK_CODE)
#define COUNT_CODE(name, number, http, retry, text) +1
static_assert(0 CONTACTD_ERROR_MAP(COUNT_CODE) == int(fb::ErrorCode_MAX) + 1, "errors.h lacks a code of contactd.fbs");

// clang-format off
#define WIRE_TYPE_MAP(X)                                                                                               \
    X(HELLO, Hello) X(WELCOME, Welcome) X(PING, Ping) X(PONG, Pong) X(ERROR, Error) X(REGISTER_MESH, RegisterMesh)     \
    X(MESH_INFO, MeshInfo) X(GET_MESH, GetMesh) X(MESH_GEOMETRY, MeshGeometry) X(LIST_MESHES, ListMeshes)              \
    X(MESH_LIST, MeshList) X(REMOVE_MESH, RemoveMesh) X(OPEN_SCENE, OpenScene) X(SCENE_INFO, SceneInfo)                \
    X(CONFIGURE, Configure) X(GET_SCENE, GetScene) X(LIST_SCENES, ListScenes) X(SCENE_LIST, SceneList)                 \
    X(CLOSE_SCENE, CloseScene) X(ADD_BODY, AddBody) X(BODY_ADDED, BodyAdded) X(REMOVE_BODY, RemoveBody) X(DONE, Done)  \
    X(STEP, Step) X(STEP_RESULT, StepResult) X(GET_STATUS, GetStatus) X(STATUS, Status)                    \
    X(GET_SNAPSHOT, GetSnapshot) X(SNAPSHOT, Snapshot) X(REPLACE_MESH, ReplaceMesh)    \
    X(GET_REPORT, GetReport) X(REPORT, Report) X(DRAIN, Drain) X(SET_MATERIAL, SetMaterial)    \
    X(STEP_MANY, StepMany) X(MANY_RESULT, ManyResult) X(CANCEL, Cancel) X(RESET_SCENES, ResetScenes)                   \
    X(CLOSE_SCENES, CloseScenes) X(COPY_SCENE, CopyScene) X(SCENES_OPENED, ScenesOpened)                               \
    X(ADD_BODIES, AddBodies) X(BODIES_ADDED, BodiesAdded)
// clang-format on
#define CHECK_TYPE(c, f) static_assert(int(WIRE_##c) == int(fb::Body_##f), "codec.h and the union differ in " #f);
WIRE_TYPE_MAP(CHECK_TYPE)
static_assert(int(WIRE_TYPE_END) == int(fb::Body_MAX) + 1, "codec.h lacks a message of the union");
static_assert(int(WIRE_UPDATE_POSE) == int(fb::UpdateKind_MAX) && int(WIRE_BODY_HALF_SPACE) == int(fb::BodyKind_MAX) &&
                  int(WIRE_FORMAT_GLTF) == int(fb::MeshFormat_MAX) && int(WIRE_U64) == int(fb::DType_MAX) &&
                  int(WIRE_REPORT_CONTACTS) == int(fb::ReportKind_MAX),
              "codec.h and contactd.fbs differ in an enum");

#define CHECK_WARNING(name, number, text)                                                                              \
    static_assert(int(fb::WarningCode_##name) == number, "contactd.fbs and warnings.h differ in " #name);
CONTACTD_WARNING_MAP(CHECK_WARNING)
#define COUNT_WARNING(name, number, text) +1
static_assert(0 CONTACTD_WARNING_MAP(COUNT_WARNING) == int(fb::WarningCode_MAX), "warnings.h lacks a code");

static_assert(sizeof(wire_welcome::methods) / sizeof(char *) == WIRE_METHODS &&
                  sizeof(wire_status::methods) / sizeof(char *) == WIRE_METHODS,
              "a list of methods has another length");

static const struct {
    int code, http;
    bool retry;
    const char *name, *text;
} codes[] = {
#define CODE_ROW(name, number, http, retry, text) {number, http, retry != 0, #name, text},
    CONTACTD_ERROR_MAP(CODE_ROW)};

// The codes run from 0 without a gap, which the assertions above establish.
static bool known(int code) {
    return code >= 0 && size_t(code) < sizeof codes / sizeof *codes;
}
extern "C" const char *wire_code_name(int code) {
    return known(code) ? codes[code].name : "UNKNOWN";
}
extern "C" const char *wire_code_text(int code) {
    return known(code) ? codes[code].text : "an error that this version does not know";
}
extern "C" bool wire_code_retry(int code) {
    return known(code) && codes[code].retry;
}

extern "C" const char *wire_ended_name(wire_ended ended) {
    static const char *const names[] = {"completed", "ray_budget", "pass_limit", "precision", "level", "pairs", "time"};
    static_assert(sizeof names / sizeof *names == int(fb::Ended_MAX) + 1, "a name is missing");
    return number(ended) < sizeof names / sizeof *names ? names[number(ended)] : "unknown";
}
static const struct {
    int code;
    const char *name, *text;
} warnings[] = {
#define WARNING_ROW(name, number, text) {number, #name, text},
    CONTACTD_WARNING_MAP(WARNING_ROW)};

extern "C" const char *wire_warning_name(int code) {
    for (const auto &row : warnings)
        if (row.code == code) return row.name;
    return "UNKNOWN";
}
extern "C" const char *wire_warning_text(int code) {
    for (const auto &row : warnings)
        if (row.code == code) return row.text;
    return "a warning that this version does not know";
}

extern "C" size_t wire_dtype_size(wire_dtype dtype) {
    static const uint8_t sizes[] = {0, 4, 8, 4, 1, 8};
    return unsigned(dtype) < sizeof sizes ? sizes[dtype] : 0;
}

extern "C" const char *wire_type_name(wire_type type) {
    return unsigned(type) >= WIRE_TYPE_END ? "unknown"
           : type == WIRE_NO_BODY          ? "none"
                                           : fb::EnumNameBody(fb::Body(type));
}

extern "C" const char *const wire_timing_names[WIRE_TIMINGS] = {"queue", "upload",  "broadphase", "raster",
                                                                "span",  "contact", "download"};

// ---- decoding -------------------------------------------------------------------------------------------------------

extern "C" wire_scratch *wire_scratch_new(void) {
    return static_cast<wire_scratch *>(calloc(1, sizeof(wire_scratch)));
}
extern "C" void wire_scratch_free(wire_scratch **scratch) {
    if (!scratch || !*scratch) return;
    free((*scratch)->header.data);
    free((*scratch)->items.data);
    free((*scratch)->others.data);
    free((*scratch)->velocities.data);
    free(*scratch);
    *scratch = nullptr;
}

extern "C" size_t wire_scratch_bytes(const wire_scratch *scratch) {
    return scratch->header.size + scratch->items.size + scratch->others.size + scratch->velocities.size;
}
extern "C" void wire_scratch_set_limit(wire_scratch *scratch, size_t bytes) {
    scratch->limit = bytes;
}

// Reads 64-bit fields of a Message that is not verified; a field that is absent reads as 0, its default.
struct RootTable {
    const uint8_t *data;
    size_t size;
    uint32_t root;
    int64_t vtable;
    uint16_t length;

    bool find() {
        int32_t to_vtable;
        if (size < 8) return false;
        memcpy(&root, data, 4);
        if (root > size - 4) return false;
        memcpy(&to_vtable, data + root, 4);
        vtable = int64_t(root) - to_vtable;
        if (vtable < 0 || uint64_t(vtable) + 4 > size) return false;
        memcpy(&length, data + vtable, 2);
        return uint64_t(vtable) + length <= size;
    }

    bool read(unsigned slot, uint64_t *out) const {
        uint16_t offset = 0;
        *out = 0;
        if (slot + 2u <= length) memcpy(&offset, data + vtable + slot, 2);
        if (offset == 0) return true;
        if (offset < 4 || uint64_t(root) + offset + 8 > size) return false;
        memcpy(out, data + root + offset, 8);
        return true;
    }
};

// The request number of a message that failed verification, so that the answer finds the one who waits; 0 if not told.
static uint64_t guess_request(const uint8_t *data, size_t size) {
    RootTable table{data, size, 0, 0, 0};
    uint64_t request = 0;
    return table.find() && table.read(fb::Message::VT_REQUEST, &request) ? request : 0;
}

extern "C" bool wire_peek_session(const wire_frame *header, wire_message *out) {
    RootTable table{static_cast<const uint8_t *>(header->data), header->size, 0, 0, 0};
    memset(out, 0, sizeof *out);
    return header->size >= 8 && memcmp(table.data + 4, fb::MessageIdentifier(), 4) == 0 && table.find() &&
           table.read(fb::Message::VT_REQUEST, &out->request) && table.read(fb::Message::VT_SESSION, &out->session) &&
           table.read(fb::Message::VT_EPOCH, &out->epoch);
}

extern "C" bool wire_decode_envelope(const wire_frame *frames, size_t n_frames, wire_scratch *scratch,
                                     wire_message *out, wire_fault *fault) {
    memset(out, 0, sizeof *out);
    memset(fault, 0, sizeof *fault);
    Decoder decoder{frames, n_frames, scratch, fault, nullptr, 0};
    if (n_frames == 0) return decoder.fail(CONTACTD_MALFORMED, "header", "the message has no frames");
    if (n_frames > 1 + WIRE_MAX_FRAMES)
        return decoder.fail(CONTACTD_TOO_LARGE, "frames", "the message has %zu array frames, at most %d are allowed",
                            n_frames - 1, WIRE_MAX_FRAMES);
    size_t size = frames[0].size;
    if (size > WIRE_MAX_HEADER)
        return decoder.fail(CONTACTD_TOO_LARGE, "header", "the header has %zu bytes, at most %u are allowed", size,
                            WIRE_MAX_HEADER);
    if (!scratch->header.reserve(size))
        return decoder.fail(CONTACTD_OUT_OF_MEMORY, "header", "no memory for a header of %zu bytes", size);
    if (size) memcpy(scratch->header.data, frames[0].data, size);
    const uint8_t *data = static_cast<const uint8_t *>(scratch->header.data);

    // A table that is worth sending takes more than 16 bytes; many references to one table would cost us, not the
    // sender.
    flatbuffers::Verifier verifier(data, size, 8, flatbuffers::uoffset_t(size / 16 + 64));
    if (!fb::VerifyMessageBuffer(verifier)) {
        fault->request = guess_request(data, size);
        bool ours = size >= 8 && memcmp(data + 4, fb::MessageIdentifier(), 4) == 0;
        return decoder.fail(CONTACTD_MALFORMED, "header",
                            ours ? "the header is truncated or corrupt (%zu bytes)"
                                 : "the header (%zu bytes) does not carry the file identifier CTD1",
                            size);
    }
    const fb::Message *message = fb::GetMessage(data);
    fault->request = message->request();
    if (message->body_type() > fb::Body_MAX)
        return decoder.fail(CONTACTD_UNSUPPORTED, "body", "message type %u is not known here",
                            unsigned(message->body_type()));
    if (message->body_type() != fb::Body_NONE && !message->body())
        return decoder.fail(CONTACTD_MALFORMED, "body", "the message has a type but no body");
    out->request = message->request();
    out->session = message->session();
    out->epoch = message->epoch();
    out->traceparent = message->traceparent() ? message->traceparent()->c_str() : nullptr;
    out->type = wire_type(message->body_type());
    return true;
}

extern "C" bool wire_decode_body(const wire_frame *frames, size_t n_frames, wire_scratch *scratch, wire_message *out,
                                 wire_fault *fault) {
    Decoder decoder{frames, n_frames, scratch, fault, nullptr, 0};
    return decoder.body(fb::GetMessage(scratch->header.data), out);
}

extern "C" bool wire_decode(const wire_frame *frames, size_t n_frames, wire_scratch *scratch, wire_message *out,
                            wire_fault *fault) {
    return wire_decode_envelope(frames, n_frames, scratch, out, fault) &&
           wire_decode_body(frames, n_frames, scratch, out, fault);
}

// ---- encoding -------------------------------------------------------------------------------------------------------

extern "C" wire_encoder *wire_encoder_new(void) {
    return static_cast<wire_encoder *>(calloc(1, sizeof(wire_encoder)));
}
extern "C" void wire_encoder_free(wire_encoder **encoder) {
    if (!encoder || !*encoder) return;
    free((*encoder)->header.data);
    free((*encoder)->items.data);
    free((*encoder)->places.data);
    free(*encoder);
    *encoder = nullptr;
}

extern "C" bool wire_encode(wire_encoder *encoder, const wire_message *message, size_t inline_bytes,
                            wire_encoded *out) {
    Encoder e{encoder, nullptr};
    if (!e.collect(*message)) return false;
    size_t in_header = e.assign(inline_bytes, out);
    if (in_header > WIRE_MAX_HEADER) return false;
    size_t need = Encoder::bound(*message) + text_bytes(message->traceparent) + in_header;
    // The bound is some 2.5 times what most contacts take, so messages that would fit may be bounded by much more.
    if (need > 4u * WIRE_MAX_HEADER) return false;
    if (!encoder->header.reserve(need) || !encoder->items.reserve(4 * list_length(*message) + 4)) return false;
    Fixed allocator(encoder->header);
    flatbuffers::FlatBufferBuilder fbb(need, &allocator);
    e.fbb = &fbb;
    auto body = e.body(*message);
    flatbuffers::Offset<flatbuffers::String> trace;
    if (message->traceparent) trace = fbb.CreateString(message->traceparent);
    fb::FinishMessageBuffer(fbb, fb::CreateMessage(fbb, message->request, message->session, message->epoch,
                                                   fb::Body(message->type), body, trace));
    out->frames[0] = wire_frame{fbb.GetBufferPointer(), fbb.GetSize()};
    return fbb.GetSize() <= WIRE_MAX_HEADER;
}
