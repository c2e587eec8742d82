/* contact.h - the engine's only door: meshes, scenes of bodies, and batches of contact steps.
 *
 * The engine computes, for every pair of overlapping bodies, the volume of their intersection, its gradient with
 * respect to every vertex, and what follows from those (contact frame, friction weights, penalty forces), by layered
 * depth images (Faure et al. 2008; Allard et al. 2010). It knows nothing of sockets or servers.
 *
 * Units are SI: lengths in metres, so a volume is m^3 and a gradient dV/dx is m^2. Surfaces are closed and oriented
 * counter-clockwise seen from outside.
 *
 * Errors: every call that can fail returns a ct_status and, where a ct_error is passed (it may be NULL), says in it
 * which object and which field was wrong, what was expected and what was found. A failed call changes nothing.
 *
 * Threads: ct_engine_run may be called from up to CT_MAX_CONCURRENT_BATCHES threads at a time, with different scenes; a
 * scene is touched by one thread at a time; meshes are immutable and may be shared freely. Distinct scenes may be built
 * from distinct threads.
 *
 * Determinism: the same step gives the same bits on any number of threads, on any instruction set and in any order of
 * triangles, vertices or bodies. (Within a mesh that has two shells in exactly the same place, which of them a gradient
 * falls to is told by the order of triangles.)
 */
#ifndef CONTACT_H
#define CONTACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ---- */

/* name, text */
#define CT_STATUS_MAP(X)                                                                                               \
    X(OK, "ok")                                                                                                        \
    X(INVALID_ARGUMENT, "invalid argument")                                                                            \
    X(NOT_FOUND, "no such object")                                                                                     \
    X(PARSE_ERROR, "the bytes are not a mesh in that format")                                                          \
    X(INVALID_MESH, "the mesh is not a closed, consistently oriented surface around a volume")                         \
    X(WRONG_LENGTH, "an array has the wrong length")                                                                   \
    X(NON_FINITE, "a number is NaN or infinite")                                                                       \
    X(OUT_OF_RANGE, "a number is outside its range")                                                                   \
    X(LIMIT_EXCEEDED, "a configured limit would be exceeded")                                                          \
    X(OUT_OF_MEMORY, "not enough memory")                                                                              \
    X(UNSUPPORTED, "not supported by this build or machine")                                                           \
    X(DEVICE_ERROR, "the compute device failed")

typedef enum ct_status {
#define CT_STATUS_ENUM(name, text) CT_##name,
    CT_STATUS_MAP(CT_STATUS_ENUM)
#undef CT_STATUS_ENUM
} ct_status;

const char *ct_status_name(ct_status status); /* "INVALID_MESH" */
const char *ct_status_text(ct_status status);

/* What went wrong. Filled by the first failure; untouched on success. */
typedef struct ct_error {
    ct_status status;
    char field[48];    /* the argument at fault, e.g. "positions"; may be empty */
    char message[464]; /* one or two sentences naming object, expected and actual, and the remedy where there is one */
} ct_error;

/* ---- meshes ---- */

typedef struct ct_mesh ct_mesh; /* immutable, reference-counted, identified by the hash of its content */

typedef enum ct_dtype { CT_F32 = 1, CT_F64 = 2 } ct_dtype;

typedef enum ct_mesh_format {
    CT_FORMAT_AUTO = 0, /* told from the content */
    CT_FORMAT_OBJ,
    CT_FORMAT_OFF,
    CT_FORMAT_PLY, /* ascii, binary little and big endian */
    CT_FORMAT_STL, /* ascii and binary; bitwise equal vertices are welded */
} ct_mesh_format;

typedef struct ct_mesh_limits {
    uint64_t max_vertices;
    uint64_t max_triangles;
} ct_mesh_limits;

/* 2^26 vertices, 2^27 triangles; the engine itself can do no more than 2^30 of either. */
void ct_mesh_limits_init(ct_mesh_limits *limits);

/* Reads a mesh file from memory. Polygons are split into fans; everything but geometry is ignored.
 * PARSE_ERROR, INVALID_MESH, NON_FINITE, LIMIT_EXCEEDED, OUT_OF_MEMORY. The caller owns one reference to *out. */
ct_status ct_mesh_read(const void *bytes, size_t size, ct_mesh_format format, const ct_mesh_limits *limits,
                       ct_mesh **out, ct_error *error);

/* Makes a mesh of arrays: positions [n_vertices][3] of dtype, triangles [n_triangles][3]. Neither pointer needs any
 * alignment. Vertices keep their order: index k in a gradient is index k here. float64 is rounded to float32. */
ct_status ct_mesh_create(const void *positions, ct_dtype dtype, size_t n_vertices, const void *triangles_u32,
                         size_t n_triangles, const ct_mesh_limits *limits, ct_mesh **out, ct_error *error);

ct_mesh *ct_mesh_retain(ct_mesh *mesh);
void ct_mesh_release(ct_mesh **mesh); /* drops one reference and nulls the pointer; NULL is allowed */

typedef struct ct_mesh_info {
    uint64_t vertices;
    uint64_t triangles;
    uint64_t bytes;      /* memory held by this mesh, all in */
    uint32_t components; /* connected pieces */
    double volume;       /* m^3, of the rest positions; > 0 */
    double area;         /* m^2 */
    double lo[3], hi[3]; /* m, bounding box of the rest positions */
    char hash[33];       /* 128-bit content hash of (positions as float32, triangles), hex */
} ct_mesh_info;

void ct_mesh_get_info(const ct_mesh *mesh, ct_mesh_info *info);
const float *ct_mesh_positions(const ct_mesh *mesh);    /* [vertices][3], rest positions, owned by the mesh */
const uint32_t *ct_mesh_triangles(const ct_mesh *mesh); /* [triangles][3]; reordered, corners rotated, never flipped */

/* ---- engine ---- */

typedef struct ct_engine ct_engine;

typedef struct ct_engine_options {
    uint32_t cookie;            /* set by ct_engine_options_init */
    const char *backend;        /* "cpu", "cuda", or "auto": cuda where a device ran a kernel, else cpu */
    const char *rasterizer;     /* "native", "egl", or "auto": native */
    const char *devices;        /* of a backend with several: "all", or numbers such as "0,2"; CT_MAX_DEVICES at most */
    uint64_t max_device_bytes;  /* memory to use of each device; 0: most of what is free at the start */
    uint32_t threads;           /* CPU threads, 0: as many as the machine has */
    const char *simd;           /* "auto", or a name from ct_engine_facts.simd_available to force that path */
    uint64_t max_scratch_bytes; /* a step that needs more fails with OUT_OF_MEMORY; 0: no limit but the machine's */
} ct_engine_options;

/* What a backend that was asked for by name lacks is an error; "auto" takes the next one. */
void ct_engine_options_init(ct_engine_options *options);
ct_status ct_engine_create(const ct_engine_options *options, ct_engine **out, ct_error *error);
void ct_engine_destroy(ct_engine **engine); /* after its scenes */

/* So many batches run at a time on each device; a further call waits. One that finds another running does with what is
 * left (on the CPU: its caller's thread, and those of the pool that are idle), so that a small step need not wait for a
 * huge one. */
enum { CT_MAX_CONCURRENT_BATCHES = 2 };

/* What the engine runs on. A scene stays on the device that it was opened on. */
enum { CT_MAX_DEVICES = 64 };
size_t ct_engine_device_count(const ct_engine *engine); /* at least 1 */

/* Why this backend: that it was asked for, or what "auto" found wrong with those before it. For logs. */
const char *ct_engine_reason(const ct_engine *engine);

typedef struct ct_engine_facts {
    char backend[16];        /* what runs: "cpu", "cuda" */
    char rasterizer[16];     /* "native", "egl" */
    char device[96];         /* e.g. the processor's name */
    char simd[16];           /* e.g. "avx2"; empty for a backend without */
    char simd_available[64]; /* space-separated */
    uint32_t threads;
    uint64_t scratch_bytes; /* held now */
    uint64_t scratch_peak;  /* high-water mark */

    /* Of a device with memory of its own, else 0: */
    uint64_t memory_budget; /* bytes that the engine may use */
    uint64_t memory_used;   /* meshes, bodies and scratch */
    uint64_t memory_meshes, memory_bodies;
    uint64_t uploaded, downloaded; /* bytes moved since the start */
    uint64_t launches;             /* kernels started since the start */
    uint64_t reruns;               /* batches computed again because a list had to grow: none once all have grown */

    uint64_t scenes, triangles; /* opened on this device; of the bodies in them. New scenes go where least is */
    bool lost;                  /* the device failed for good: every step on it is a DEVICE_ERROR from now on */
    char lost_reason[128];
} ct_engine_facts;

void ct_engine_get_facts(const ct_engine *engine, size_t device, ct_engine_facts *facts); /* device < count */

/* Drops what devices keep of a mesh that no body uses any longer. They would drop it by themselves, but only when
 * memory is short. */
void ct_engine_forget_mesh(ct_engine *engine, const ct_mesh *mesh);

/* Memory that devices with memory of their own hold for the mesh of this hash, all of them together. */
uint64_t ct_engine_mesh_bytes(ct_engine *engine, const char *hash);

/* ---- scenes and bodies ---- */

typedef struct ct_scene ct_scene;

typedef enum ct_method { CT_METHOD_LDI = 1 } ct_method;

#define CT_MAX_RESOLUTION 4096 /* ray samples along one axis of a window */

typedef struct ct_scene_settings {
    uint32_t cookie;        /* set by ct_scene_settings_init */
    ct_method method;       /* LDI */
    uint32_t resolution[3]; /* ray samples across the window along x, y, z (Faure 2008); 1..CT_MAX_RESOLUTION */
    double pixel_size; /* m; > 0: a world-anchored lattice of this pitch instead (Allard 2010); 0: use resolution */
    double stiffness;  /* k of E = k V^2 / 2, in N/m^5; scales forces; >= 0 */
} ct_scene_settings;

void ct_scene_settings_init(ct_scene_settings *settings); /* LDI, 64^3, stiffness 1 */
ct_status ct_scene_settings_check(const ct_scene_settings *settings, ct_error *error);

/* On the device that has the fewest triangles; or on the one named, device < count, which the caller then answers for.
 */
ct_status ct_scene_create(ct_engine *engine, const ct_scene_settings *settings, ct_scene **out, ct_error *error);
ct_status ct_scene_create_on(ct_engine *engine, size_t device, const ct_scene_settings *settings, ct_scene **out,
                             ct_error *error);
void ct_scene_destroy(ct_scene **scene); /* drops its bodies and their references to meshes */
ct_status ct_scene_configure(ct_scene *scene, const ct_scene_settings *settings, ct_error *error);
void ct_scene_get_settings(const ct_scene *scene, ct_scene_settings *settings);

typedef enum ct_body_kind {
    CT_BODY_DEFORMABLE = 1, /* world positions of its vertices, float32, resident; start at the rest positions */
    CT_BODY_RIGID = 2,      /* a pose in double precision applied to the rest positions */
} ct_body_kind;

typedef struct ct_body_options {
    uint32_t cookie; /* set by ct_body_options_init */
    ct_body_kind kind;
    double pose[12];        /* rigid: row-major 3x4 [R|t], p_world = R p + t; R must be a rotation (to 1e-3) */
    uint32_t group, mask;   /* a pair is computed if (a.group & b.mask) and (b.group & a.mask) are both non-zero */
    const uint32_t *ignore; /* bodies of this scene never to be paired with this one; read during the call */
    size_t n_ignore;
} ct_body_options;

void ct_body_options_init(ct_body_options *options); /* deformable, identity, group 1, mask ~0 */

/* The scene takes its own reference to the mesh. *body is non-zero and never reused within the scene's life before
 * 4,096 other bodies have taken and left its place. */
ct_status ct_scene_add_body(ct_scene *scene, ct_mesh *mesh, const ct_body_options *options, uint32_t *body,
                            ct_error *error);
ct_status ct_scene_remove_body(ct_scene *scene, uint32_t body, ct_error *error);

typedef struct ct_body_info {
    uint32_t body;
    ct_body_kind kind;
    uint64_t vertices;
    const ct_mesh *mesh;
    double pose[12];
    double lo[3], hi[3]; /* m, world bounding box at the last step (or of the start state) */
} ct_body_info;

size_t ct_scene_device(const ct_scene *scene); /* index of the device it is on */
size_t ct_scene_body_count(const ct_scene *scene);
ct_status ct_scene_body_at(const ct_scene *scene, size_t index, ct_body_info *info); /* index < count; OUT_OF_RANGE */
ct_status ct_scene_body_info(const ct_scene *scene, uint32_t body, ct_body_info *info, ct_error *error);
uint64_t ct_scene_bytes(const ct_scene *scene);        /* memory held by the scene without its meshes */
uint64_t ct_scene_device_bytes(const ct_scene *scene); /* of it, memory of a device that has its own, else 0 */

/* ---- steps ---- */

typedef enum ct_update_kind {
    CT_UPDATE_POSITIONS = 1, /* all vertices of a deformable body */
    CT_UPDATE_RANGES = 2,    /* indices holds (first, count) pairs; positions their vertices, one range after another */
    CT_UPDATE_INDEXED = 3,   /* indices holds one vertex index for each of the positions */
    CT_UPDATE_POSE = 4,      /* a rigid body's pose */
} ct_update_kind;

typedef struct ct_update {
    uint32_t body;
    ct_update_kind kind;
    const void *positions; /* [count][3] of dtype, world axes, m; no alignment needed; read during the call */
    ct_dtype dtype;
    uint64_t count;      /* vertices */
    const void *indices; /* uint32, no alignment needed */
    uint64_t n_indices;  /* numbers, not pairs */
    double pose[12];     /* row-major 3x4 */
} ct_update;

/* What a step returns, beside bodies, volumes and error estimate. */
enum {
    CT_WANT_FRAME = 1u << 0,    /* per-body 6-vectors, area, normal, tangents, centre, mean depth */
    CT_WANT_GRADIENT = 1u << 1, /* sparse dV/dx */
    CT_WANT_FRICTION = 1u << 2, /* friction weights, one per vertex of the sparse gradient (implies FRAME) */
    CT_WANT_FORCES = 1u << 3,   /* f = -k V dV/dx, one per vertex of the sparse gradient */
    CT_WANT_SPANS = 1u << 4,    /* every span's two end points, for debugging and pictures */
    CT_WANT_ALL = CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES,
};

typedef struct ct_contact {
    uint32_t body[2];      /* body[0] < body[1] */
    double volume;         /* m^3, mean of the three views */
    double volumes[3];     /* m^3, seen along x, y, z */
    double error_bound;    /* m^3, guaranteed; NaN where the method gives none (LDI) */
    double error_estimate; /* m^3, half the spread of the three volumes */

    /* FRAME (Allard 2010 section 4.2). Zero for a step that asks for volumes or spans alone: */
    double area;      /* m^2, sum of the positive friction weights */
    double depth;     /* m, volume / area; 0 where area is 0 */
    double normal[3]; /* unit, the direction that pushes body[0] out; zero if no direction does (a nested body) */
    double tangents[2][3];
    double center[3];                  /* m, midpoint of the two surfaces' weighted barycentres */
    double generalized_gradient[2][6]; /* per body: dV/d(translation), m^2; dV/d(rotation about the body's origin), m^3.
                                          A rigid body's origin is its pose's translation, a deformable's the world's */

    /* The sparse arrays' part of body[i]: entries first[i] .. first[i]+count[i]-1, in rising order of vertex. */
    uint64_t first[2], count[2];
    uint64_t first_span, n_spans;
} ct_contact;

typedef struct ct_span {
    float lower[3], upper[3]; /* m, world: the ends of the depth interval that lies inside both bodies */
    uint32_t axis;            /* of the ray: 0 x, 1 y, 2 z */
    uint32_t lower_body;      /* index 0 or 1 in the contact of the surface bounding it from below */
} ct_span;

typedef enum ct_phase {
    CT_PHASE_UPLOAD,     /* updates applied */
    CT_PHASE_BROADPHASE, /* boxes, pairs */
    CT_PHASE_RASTER,     /* rays against triangles */
    CT_PHASE_SPAN,       /* sorting rays, winding numbers, spans, sums */
    CT_PHASE_CONTACT,    /* compaction, frames, forces */
    CT_PHASE_DOWNLOAD,   /* the answer brought to the host */
    CT_PHASES
} ct_phase;

const char *ct_phase_name(ct_phase phase); /* "upload" */

typedef struct ct_result {
    size_t n_contacts;
    ct_contact *contacts; /* in rising order of (body[0], body[1]); only pairs with a volume > 0 */
    uint64_t n_entries;   /* length of the sparse arrays, which all contacts of the step share: */
    uint32_t *vertices;   /* [n_entries] */
    double *gradient;     /* [n_entries][3], m^2, or NULL */
    double *weights;      /* [n_entries], m^2, or NULL */
    double *forces;       /* [n_entries][3], N, or NULL */
    uint64_t n_spans;
    ct_span *spans; /* or NULL */
    uint32_t want;  /* what was asked for */
    ct_method method;
    uint64_t pairs;            /* pairs whose boxes overlap and that no filter excludes */
    uint64_t rays;             /* ray samples cast */
    uint64_t fragments;        /* ray-triangle crossings kept: those that could bound a span. Tells of the work done */
    double seconds[CT_PHASES]; /* this step's share of the batch, by phase; summed over threads */
} ct_result;

void ct_result_free(ct_result **result); /* nulls; NULL is allowed */

typedef struct ct_step {
    ct_scene *scene; /* each scene at most once in a batch */
    const ct_update *updates;
    size_t n_updates;
    uint32_t want;     /* CT_WANT_... */
    ct_result *result; /* out: the caller frees it; NULL if the step failed */
    ct_error error;    /* out: status OK or why. A step whose updates are refused has changed nothing; one that fails
                          later (LIMIT_EXCEEDED or OUT_OF_RANGE of a window, OUT_OF_MEMORY) has moved its bodies */
} ct_step;

/* Applies every step's updates and computes its contacts: one pass for the whole batch. Returns the first status that
 * is not OK of its steps (each has its own in steps[i].error), so OK means that all went well. */
ct_status ct_engine_run(ct_engine *engine, ct_step *steps, size_t n_steps);

/* K d = -k g (g . d) with g = dV/dx, the stiffness product of implicit integration (Faure 2008 equation 2), never
 * assembled: in and out are dense [vertices][3] of each of the contact's bodies, in body[0], body[1] order; out is
 * added to, so that contacts accumulate. Needs GRADIENT in the result. */
void ct_contact_stiffness_product(const ct_result *result, size_t contact, double stiffness, const double *const in[2],
                                  double *const out[2]);

#ifdef __cplusplus
}
#endif
#endif
