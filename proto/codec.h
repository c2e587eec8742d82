/* codec.h - the stream protocol as plain C structs: what server and C client share. FlatBuffers stop behind it.
 *
 * A message is a header (a FlatBuffers buffer, frame 0) and up to WIRE_MAX_FRAMES raw array frames. Decoding verifies
 * everything (file identifier, FlatBuffers offsets, array lengths against their frames, vector lengths against their
 * meaning) and never reads outside the frames; it copies the header to aligned scratch first. Strings and arrays in a
 * decoded message point into the frames or the scratch, so they live as long as both. See contactd.fbs for the meaning
 * and unit of each field.
 */
#ifndef CONTACTD_CODEC_H
#define CONTACTD_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/contact_fields.h"
#include "proto/errors.h"
#include "proto/material.h"
#include "proto/setting_rows.h"
#include "proto/warnings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Small structs on a line, as in contactd.fbs. */
/* clang-format off */

#define WIRE_VERSION 1
#define WIRE_MAX_FRAMES 16              /* array frames after the header */
#define WIRE_INLINE_BYTES 65536         /* arrays of one message up to this total go into the header */
#define WIRE_MAX_HEADER (64u << 20)     /* a header larger than this is refused: a few MiB of contacts, no arrays */

const char *wire_code_name(int code);   /* "NOT_FOUND"; "UNKNOWN" for a number that is not in the list */
const char *wire_code_text(int code);
bool wire_code_retry(int code);

typedef enum wire_dtype { WIRE_NONE = 0, WIRE_F32 = 1, WIRE_F64 = 2, WIRE_U32 = 3, WIRE_U8 = 4, WIRE_U64 = 5 } wire_dtype;
size_t wire_dtype_size(wire_dtype dtype); /* bytes; 0 for WIRE_NONE */

typedef struct wire_array { /* dtype WIRE_NONE: absent */
    wire_dtype dtype;
    uint64_t count;   /* numbers */
    const void *data; /* little-endian, may be unaligned */
} wire_array;

/* Same order as the union in contactd.fbs, which starts at 1. */
typedef enum wire_type {
    WIRE_NO_BODY = 0,
    WIRE_HELLO, WIRE_WELCOME, WIRE_PING, WIRE_PONG, WIRE_ERROR,
    WIRE_REGISTER_MESH, WIRE_MESH_INFO, WIRE_GET_MESH, WIRE_MESH_GEOMETRY, WIRE_LIST_MESHES, WIRE_MESH_LIST,
    WIRE_REMOVE_MESH,
    WIRE_OPEN_SCENE, WIRE_SCENE_INFO, WIRE_CONFIGURE, WIRE_GET_SCENE, WIRE_LIST_SCENES, WIRE_SCENE_LIST,
    WIRE_CLOSE_SCENE,
    WIRE_ADD_BODY, WIRE_BODY_ADDED, WIRE_REMOVE_BODY, WIRE_DONE,
    WIRE_STEP, WIRE_STEP_RESULT,
    WIRE_GET_STATUS, WIRE_STATUS,
    WIRE_GET_SNAPSHOT, WIRE_SNAPSHOT,
    WIRE_REPLACE_MESH,
    WIRE_GET_REPORT, WIRE_REPORT, WIRE_DRAIN,
    WIRE_SET_MATERIAL,
    WIRE_STEP_MANY, WIRE_MANY_RESULT,
    WIRE_CANCEL,
    WIRE_RESET_SCENES, WIRE_CLOSE_SCENES, WIRE_COPY_SCENE, WIRE_SCENES_OPENED,
    WIRE_ADD_BODIES, WIRE_BODIES_ADDED,
    WIRE_TYPE_END, /* no message: one beyond the last */
} wire_type;
const char *wire_type_name(wire_type type); /* "Step" */

/* Strings are NUL-terminated UTF-8 without NUL inside (decoding checks); NULL encodes as absent and absent decodes as
 * "". A code, warning or method that this build does not know decodes as its number, so that a newer peer's can be
 * reported. */

typedef struct wire_hello { uint16_t version, min_version; const char *client; uint32_t lease_ms; } wire_hello;
typedef struct wire_welcome {
    uint16_t version;
    uint64_t epoch, session;
    const char *server, *backend, *rasterizer, *device;
    uint32_t lease_ms;
    uint64_t max_message_bytes, max_triangles, max_vertices;
    uint32_t max_resolution, max_in_flight;
    const char *methods[8]; uint32_t n_methods; /* WIRE_METHODS of them at most */
    const char *successors;
    uint8_t last_message; /* of wire_type; 0: a server older than the field */
} wire_welcome;
typedef struct wire_ping { uint64_t nonce; } wire_ping; /* and pong */
typedef struct wire_error {
    contactd_code code;
    const char *object, *field, *message;
    bool retry;
    uint32_t retry_after_ms;
    const char *successors;
} wire_error;

typedef enum wire_mesh_format {
    WIRE_FORMAT_AUTO = 0, WIRE_FORMAT_OBJ, WIRE_FORMAT_OFF, WIRE_FORMAT_PLY, WIRE_FORMAT_STL, WIRE_FORMAT_GLTF,
} wire_mesh_format;
typedef enum wire_mesh_closing { WIRE_CLOSING_NONE = 0, WIRE_CLOSING_HULL, WIRE_CLOSING_WRAP } wire_mesh_closing;
typedef struct wire_register_mesh {
    wire_array vertices, triangles, file;
    wire_mesh_format format;
    const char *name;
    bool repair;
    double max_hole; /* m; 0: the default */
    double open_direction[3]; /* all 0: the surface is closed */
    double scale; /* m; 0: 1 */
    double weld; /* m; 0: the default */
    wire_mesh_closing closing;
    double resolution; /* m, of a wrap; 0: the default */
} wire_register_mesh;
enum { WIRE_REPAIR_COUNTS = 6, WIRE_REPAIR_ROW = 6, WIRE_REPAIR_ROWS = 20 }; /* of wire_mesh_info.repair */
typedef struct wire_mesh_info {
    uint64_t mesh;
    const char *hash, *name;
    uint64_t vertices, triangles, bytes;
    double volume, area, lo[3], hi[3];
    uint32_t bodies;
    bool existed;
    const double *repair; /* [n_repair], see contactd.fbs; NULL: no repair was asked for */
    uint32_t n_repair;
    uint64_t closing_vertices;
    uint32_t shells, doubled_shells;
    double center_of_mass[3], inertia[9]; /* 0 where absent */
    double moved; /* m, by the repair */
    wire_mesh_closing closing;
    double deviation; /* m, of a wrap */
    uint8_t closed_as; /* a wire_mesh_closing, or one of a later version */
    double self_overlap; /* m^3, with a repair, else 0; -1: not measured */
    uint64_t uneven_polygons;
    double unevenness; /* m */
} wire_mesh_info;
typedef struct wire_get_mesh { uint64_t mesh; const char *hash; bool with_geometry, takes_doubles; } wire_get_mesh;
typedef struct wire_mesh_geometry { wire_mesh_info info; wire_array vertices, triangles; } wire_mesh_geometry;
typedef struct wire_mesh_list { const wire_mesh_info *meshes; uint32_t n; } wire_mesh_list;
typedef struct wire_remove_mesh { uint64_t mesh; const char *hash; } wire_remove_mesh;

typedef enum wire_ended { WIRE_COMPLETED = 0, WIRE_RAY_BUDGET, WIRE_PASS_LIMIT, WIRE_PRECISION, WIRE_ENDED_LEVEL, WIRE_ENDED_PAIRS, WIRE_ENDED_TIME } wire_ended;
const char *wire_ended_name(wire_ended ended);     /* "ray_budget"; "unknown" for a number that is not in the list */
enum { WIRE_METHODS = 8 };                         /* names in a list of methods: the first eight */
typedef ct_settings_change wire_settings;          /* partial in requests; in answers complete, but for what 0 leaves out */
typedef struct wire_open_scene { wire_settings settings; const char *name; uint64_t key, revision; } wire_open_scene;
typedef struct wire_scene_info {
    uint64_t scene;
    const char *name;
    wire_settings settings;
    uint32_t bodies;
    uint64_t bytes, steps;
    uint32_t contacts;
    bool mine;
    const char *owner;
    ct_method running_method; /* NONE: the server is older than the field, and runs the method of the settings */
    uint64_t revision;          /* 0: the server is older than the field */
} wire_scene_info;
typedef struct wire_configure { uint64_t scene; wire_settings settings; } wire_configure;
typedef struct wire_scene_ref { uint64_t scene; } wire_scene_ref; /* get_scene */
typedef struct wire_close_scene { uint64_t scene; bool of_others; } wire_close_scene;
typedef struct wire_scene_list { const wire_scene_info *scenes; uint32_t n; } wire_scene_list;

typedef enum wire_body_kind { WIRE_BODY_NONE = 0, WIRE_BODY_DEFORMABLE = 1, WIRE_BODY_RIGID = 2, WIRE_BODY_HALF_SPACE = 3 } wire_body_kind;
typedef struct wire_add_body {
    uint64_t scene, mesh;
    wire_body_kind kind;
    double pose[12]; /* identity where absent */
    uint32_t group, mask;
    const uint32_t *ignore; uint32_t n_ignore;
    bool self_contact;
    ct_material material;
    double start[12]; /* pose where absent */
} wire_add_body;
typedef struct wire_body_added { uint64_t scene; uint32_t body; bool self_contact; } wire_body_added;
typedef struct wire_add_bodies {
    uint64_t scene;
    const uint64_t *meshes; uint32_t n_meshes; /* n, or 1 */
    const double *poses; uint32_t n;           /* [n][12] */
    uint32_t group, mask;
    const uint32_t *ignore; uint32_t n_ignore;
    bool self_contact;
    ct_material material;
} wire_add_bodies;
typedef struct wire_bodies_added { uint64_t scene; const uint32_t *bodies; uint32_t n; } wire_bodies_added;
typedef struct wire_body_ref { uint64_t scene; uint32_t body; } wire_body_ref; /* remove_body */
typedef struct wire_replace_mesh { uint64_t scene; uint32_t body; uint64_t mesh; } wire_replace_mesh;
typedef struct wire_set_material { uint64_t scene; uint32_t body, other; ct_material material; } wire_set_material;

typedef enum wire_update_kind {
    WIRE_UPDATE_NONE = 0, WIRE_UPDATE_POSITIONS, WIRE_UPDATE_RANGES, WIRE_UPDATE_INDEXED, WIRE_UPDATE_POSE,
} wire_update_kind;
typedef struct wire_update {
    uint32_t body;
    wire_update_kind kind;
    wire_array positions, indices;
    double pose[12];
} wire_update;
typedef struct wire_direction { /* has_twist: twist, of a rigid body; else values */
    uint32_t body, index;
    wire_array values;
    bool has_twist;
    double twist[6];
} wire_direction;
typedef struct wire_step {
    uint64_t scene, sequence;
    uint64_t received; /* see contactd.fbs */
    uint32_t want, deadline_us;
    const wire_update *updates; uint32_t n_updates;
    uint32_t time_budget_us; /* 0: none */
    double tolerance;        /* m^3; 0: none */
    const wire_direction *directions; uint32_t n_directions; /* parts, see contactd.fbs */
    const wire_direction *velocities; uint32_t n_velocities; /* index 0 */
    double viscosity;        /* N s/m^3; 0: none */
} wire_step;

enum { WIRE_POINT = 8, WIRE_PROGRESS = 6, WIRE_SEPARATION = 12, WIRE_POLYGON = 16, WIRE_POLYGON_VERTEX = 5 }; /* numbers of a row of each */
const char *wire_warning_name(int code); /* "BODY_INVERTED"; "UNKNOWN" for a number that is not in the list */
const char *wire_warning_text(int code);
typedef struct wire_warning { contactd_warning_code code; uint32_t body; double value; } wire_warning;
enum { WIRE_TIMINGS = 7 }; /* queue, upload, broadphase, raster, span, contact, download */
extern const char *const wire_timing_names[WIRE_TIMINGS];
typedef struct wire_step_result {
    uint64_t scene, sequence;
    const ct_contact *contacts; uint32_t n_contacts;
    unsigned groups; /* CT_CONTACT_FRAME, INERTIA, SLIP: that contacts and cells have; decoded: that all contacts have */
    wire_array vertices, gradient, weights, forces, spans, span_axes;
    ct_method method;
    const char *backend;
    uint64_t pairs, rays, fragments;
    double timings_us[WIRE_TIMINGS];
    bool cached;
    const wire_warning *warnings; uint32_t n_warnings;
    uint32_t directions;
    wire_array product_vertices, products, generalized_products;
    wire_settings settings; /* only where revision is not 0 */
    uint64_t revision;      /* 0: the server is older than the field */
    wire_ended ended;
    uint32_t passes;
    wire_array friction_forces;
    const ct_contact *cells; uint32_t n_cells;
    double quality;
    wire_array points, point_groups, progress, separations, surface_polygons, surface_offsets,
        surface_vertices, point_ids, ended_ids; /* see contactd.fbs */
    bool has_wall; double wall_us[WIRE_TIMINGS];
} wire_step_result;

enum { WIRE_MOST_SCENES = 65536, WIRE_MOST_BODIES = 65536, WIRE_LEAST_VERTICES = 4 }; /* of a message, of which AddBodies has bodies; of a StepMany's deformable bodies */
typedef struct wire_bodies { /* which bodies of each scene: `n` of them */
    const uint32_t *bodies;  /* [n], of every scene; or, by_scene, [scenes][n] */
    uint32_t n;
    bool by_scene;
} wire_bodies;
typedef struct wire_step_many {
    const uint64_t *scenes, *sequences; uint32_t n;
    uint32_t want, deadline_us;
    wire_bodies posed, moving, soft;
    wire_array poses, twists, positions; /* see contactd.fbs */
    const uint64_t *vertices;            /* [soft.n] */
} wire_step_many;
typedef struct wire_many_error { uint32_t index; wire_error error; bool is_answer; } wire_many_error;
typedef struct wire_column { uint16_t field; wire_dtype dtype; uint32_t width; uint64_t offset; } wire_column;
typedef struct wire_many_result {
    const uint32_t *counts; uint32_t n; /* scenes */
    const wire_column *columns; uint32_t n_columns;
    wire_array data;
    const wire_many_error *errors; uint32_t n_errors;
    const uint8_t *ended; /* [n] */
} wire_many_result;

typedef struct wire_cancel { uint64_t request; } wire_cancel;
typedef struct wire_scene_ids { const uint64_t *scenes; uint32_t n; } wire_scene_ids; /* reset_scenes, close_scenes */
typedef struct wire_copy_scene { uint64_t scene; const uint64_t *keys; uint32_t n; } wire_copy_scene;
typedef struct wire_scenes_opened {
    const uint64_t *scenes; uint32_t n;
    wire_settings settings;
    uint64_t revision;
    ct_method running_method;
} wire_scenes_opened;

typedef struct wire_device {
    const char *device;
    uint64_t scenes, triangles, memory_budget, memory_used, memory_meshes, memory_bodies, scratch_bytes, scratch_peak;
    uint64_t uploaded, downloaded, launches;
    bool lost;
    const char *lost_reason;
} wire_device;
typedef struct wire_status {
    const char *server, *backend, *rasterizer, *device, *simd;
    uint32_t threads;
    bool ready;
    const char *ready_reason;
    uint64_t epoch;
    double uptime_s;
    uint32_t sessions, scenes, meshes, bodies;
    uint64_t mesh_bytes, mesh_bytes_limit, scene_bytes, scratch_bytes;
    uint32_t queue_depth, queue_capacity;
    uint64_t steps, contacts;
    uint32_t max_resolution;
    uint64_t max_message_bytes;
    const wire_device *devices; uint32_t n_devices;
    const char *methods[8]; uint32_t n_methods; /* as in wire_welcome */
    const char *auto_method;
    bool insecure;
} wire_status;

typedef struct wire_get_snapshot { /* 0 and NaN: absent */
    uint64_t scene;
    uint32_t width, height, contact[2], show, resolution;
    bool has_up, has_eye, has_target, has_background;
    double azimuth, elevation, zoom, field_of_view, opacity;
    double up[3], eye[3], target[3], background[4];
} wire_get_snapshot;
typedef struct wire_snapshot { uint64_t scene; uint32_t width, height; wire_array png; } wire_snapshot;

typedef enum wire_report_kind { WIRE_REPORT_NONE = 0, WIRE_REPORT_SESSIONS, WIRE_REPORT_BODIES, WIRE_REPORT_STATUS,
    WIRE_REPORT_CONTACTS } wire_report_kind;
typedef struct wire_get_report { wire_report_kind kind; uint64_t scene; } wire_get_report;
typedef struct wire_report { wire_array json; } wire_report;

typedef struct wire_message {
    uint64_t request, session, epoch;
    const char *traceparent; /* NULL: none. Not checked, see trace.h */
    wire_type type;
    union {
        wire_hello hello;
        wire_welcome welcome;
        wire_ping ping, pong;
        wire_error error;
        wire_register_mesh register_mesh;
        wire_mesh_info mesh_info;
        wire_get_mesh get_mesh;
        wire_mesh_geometry mesh_geometry;
        wire_mesh_list mesh_list;
        wire_remove_mesh remove_mesh;
        wire_open_scene open_scene;
        wire_scene_info scene_info;
        wire_configure configure;
        wire_scene_ref get_scene;
        wire_close_scene close_scene;
        wire_scene_list scene_list;
        wire_add_body add_body;
        wire_body_added body_added;
        wire_add_bodies add_bodies;
        wire_bodies_added bodies_added;
        wire_body_ref remove_body;
        wire_replace_mesh replace_mesh;
        wire_set_material set_material;
        wire_step step;
        wire_step_result step_result;
        wire_step_many step_many;
        wire_many_result many_result;
        wire_cancel cancel;
        wire_scene_ids reset_scenes, close_scenes;
        wire_copy_scene copy_scene;
        wire_scenes_opened scenes_opened;
        wire_status status;
        wire_get_snapshot get_snapshot;
        wire_snapshot snapshot;
        wire_get_report get_report;
        wire_report report;
    } u; /* list_meshes, list_scenes, done, get_status, drain have no content */
} wire_message;

typedef struct wire_frame { const void *data; size_t size; } wire_frame;

/* clang-format on */

/* ---- decoding ---- */

typedef struct wire_scratch wire_scratch; /* reusable memory behind decoded messages; grows, never shrinks */
wire_scratch *wire_scratch_new(void);     /* NULL: out of memory */
void wire_scratch_free(wire_scratch **scratch);
size_t wire_scratch_bytes(const wire_scratch *scratch); /* allocated by it */
/* Elements of vectors may take so many bytes once decoded, else decoding fails with TOO_LARGE; 0, as at first: no
 * limit. Many elements of a hostile vector may refer to one table, so a message can be far smaller than what it decodes
 * to. */
void wire_scratch_set_limit(wire_scratch *scratch, size_t bytes);

/* What was wrong with a message that could not be decoded. `request` is the message's number where it could be read. */
typedef struct wire_fault {
    contactd_code code;
    uint64_t request;
    char field[48];
    char message[200];
} wire_fault;

/* frames[0] is the header. False: *fault says why (MALFORMED, WRONG_LENGTH, TOO_LARGE, UNSUPPORTED, OUT_OF_MEMORY). The
 * message is valid until the scratch is used again or the frames are freed. */
bool wire_decode(const wire_frame *frames, size_t n_frames, wire_scratch *scratch, wire_message *out,
                 wire_fault *fault);
/* The same in two parts. The first verifies the header and fills in request, session, epoch and type; the second, with
 * the same arguments, the rest. Only the second one's memory can exceed twice the header's. */
bool wire_decode_envelope(const wire_frame *frames, size_t n_frames, wire_scratch *scratch, wire_message *out,
                          wire_fault *fault);
bool wire_decode_body(const wire_frame *frames, size_t n_frames, wire_scratch *scratch, wire_message *out,
                      wire_fault *fault);
/* Reads request, session and epoch of a header that is not verified, without copying it. They may be any numbers.
 * False: it is no message, or the fields are out of bounds. */
bool wire_peek_session(const wire_frame *header, wire_message *out);

/* ---- encoding ---- */

typedef struct wire_encoder wire_encoder; /* reusable builder */
wire_encoder *wire_encoder_new(void);
void wire_encoder_free(wire_encoder **encoder);

typedef struct wire_encoded {
    wire_frame frames[1 + WIRE_MAX_FRAMES]; /* frames[0] is owned by the encoder until its next use; the others are the
                                               caller's arrays themselves, not copied */
    size_t n_frames;
} wire_encoded;

/* Arrays go into the header while their total stays within inline_bytes (0: all into frames), larger ones each into a
 * frame of its own; where more than WIRE_MAX_FRAMES are large (a step that updates many bodies) the smallest of them go
 * inline. False: out of memory, or the header would be larger than WIRE_MAX_HEADER. */
bool wire_encode(wire_encoder *encoder, const wire_message *message, size_t inline_bytes, wire_encoded *out);

#ifdef __cplusplus
}
#endif
#endif
