/* contact.h - the engine's public interface: meshes, scenes of bodies, and steps that compute contacts.
 *
 * Make an engine and some meshes, open a scene, add bodies to it, then step: each step moves bodies and returns, for
 * every pair of bodies that overlap, the volume of their intersection, its gradient with respect to every vertex, and
 * quantities that follow from the two (contact frame, friction weights, penalty forces). The method (ct_method) decides
 * how the volume is computed. The engine knows nothing of sockets or servers.
 *
 * Units are SI: lengths in m, volumes in m^3, gradients dV/dx in m^2, forces in N. Vectors are in world axes. A mesh is
 * a closed surface whose triangles are counter-clockwise seen from outside. A pose is [R|t]: p_world = R p + t.
 *
 * Ownership: the caller owns an object returned in `out` and frees it with the function named there.
 * Arrays passed in are read during the call and not kept.
 *
 * Errors: a function that can fail returns a ct_status. Where a ct_error is passed (NULL is allowed), it names the
 * object and the field at fault, what was expected, what was found, and the remedy. A failed call changes nothing,
 * unless its comment says otherwise. Option and settings structs carry a cookie that their _init function sets: one
 * that was not initialised, or comes from another version, is INVALID_ARGUMENT.
 *
 * Threads: up to CT_MAX_CONCURRENT_BATCHES threads may call ct_engine_run at a time, with different scenes. One thread
 * at a time may use a scene. Any number of threads may share a mesh.
 *
 * Determinism: the same step gives the same bits with any number of threads, any instruction set, any backend and any
 * order of triangles, vertices or bodies. One exception: where two shells of a mesh coincide exactly, the order of
 * triangles decides which of the two gets the gradient.
 *
 * Papers: Faure et al. 2008, "Image-based collision detection and response between arbitrary volume objects" (volume,
 * gradient, penalty forces); Allard et al. 2010, "Volume contact constraints at arbitrary resolution" (contact frames,
 * friction weights, the world-anchored lattice); Dingliana and O'Sullivan 2005, "A voxel-based approach to approximate
 * collision handling" (VOXTREE).
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

/* Zero it before the call. The first failure fills it; a later failure and success leave it unchanged. */
typedef struct ct_error {
    ct_status status;
    char field[48];    /* the argument at fault, e.g. "positions"; may be empty */
    char message[464]; /* object, expected, actual, remedy: one or two sentences */
} ct_error;

/* ---- meshes ---- */

/* Immutable, reference-counted, identified by the hash of its content. A mesh also keeps data that methods derive from
 * it, such as its edge adjacency: made when a step first needs it, freed with the mesh. */
typedef struct ct_mesh ct_mesh;

typedef enum ct_dtype { CT_F32 = 1, CT_F64 = 2 } ct_dtype;

typedef enum ct_mesh_format {
    CT_FORMAT_AUTO = 0, /* recognised by the content */
    CT_FORMAT_OBJ,
    CT_FORMAT_OFF,
    CT_FORMAT_PLY, /* ascii, binary little and big endian */
    CT_FORMAT_STL, /* ascii and binary; bitwise equal vertices are welded */
} ct_mesh_format;

typedef struct ct_mesh_limits {
    uint64_t max_vertices;
    uint64_t max_triangles;
} ct_mesh_limits;

/* 2^26 vertices, 2^27 triangles. The engine's own limit is 2^30 of either. */
void ct_mesh_limits_init(ct_mesh_limits *limits);

/* Reads a mesh file from memory. Polygons are split into fans; everything but geometry is ignored. The caller owns one
 * reference to *out. limits NULL: the defaults.
 * PARSE_ERROR, INVALID_MESH, NON_FINITE, LIMIT_EXCEEDED, OUT_OF_MEMORY. */
ct_status ct_mesh_read(const void *bytes, size_t size, ct_mesh_format format, const ct_mesh_limits *limits,
                       ct_mesh **out, ct_error *error);

/* Makes a mesh from arrays: positions [n_vertices][3] of dtype, in m, and triangles [n_triangles][3] of uint32. Neither
 * pointer needs to be aligned. Vertices keep their order: vertex k of a gradient is vertex k here. float64 is rounded
 * to float32. Fails as ct_mesh_read does, but for PARSE_ERROR; also INVALID_ARGUMENT. */
ct_status ct_mesh_create(const void *positions, ct_dtype dtype, size_t n_vertices, const void *triangles_u32,
                         size_t n_triangles, const ct_mesh_limits *limits, ct_mesh **out, ct_error *error);

/* What a repair did. */
typedef enum ct_change_kind {
    CT_CHANGE_DEGENERATE, /* triangles dropped that name a vertex twice */
    CT_CHANGE_DUPLICATE,  /* triangles dropped of those between the same three vertices: all but one, or all if as many
                             face one way as the other */
    CT_CHANGE_WELDED,     /* vertices whose triangles were given another vertex at the same position */
    CT_CHANGE_TURNED,     /* triangles turned over */
    CT_CHANGE_FILLED,     /* holes filled */
    CT_CHANGE_KINDS
} ct_change_kind;

enum { CT_CHANGE_EXAMPLES = 4 };

typedef struct ct_mesh_change {
    uint64_t count;
    struct ct_change_example {
        uint64_t index;          /* of the triangle or vertex, as it was given; of a hole: one of its vertices */
        double at[3];            /* m: the triangle's first corner, the vertex, or the middle of the hole's box */
        uint32_t edges;          /* of a hole, else 0 */
    } first[CT_CHANGE_EXAMPLES]; /* [min(count, CT_CHANGE_EXAMPLES)] */
} ct_mesh_change;

typedef struct ct_mesh_changes {
    bool is_changed;         /* some count is not 0 */
    uint64_t fill_triangles; /* that fill the holes, behind those given */
    ct_mesh_change of[CT_CHANGE_KINDS];
} ct_mesh_changes;

#define CT_DEFAULT_HOLE 0.1 /* 1, of the diagonal of the mesh's box */
#define CT_OPEN_DEPTH   10  /* 1, diagonals of the box of an open surface from its furthest point to the far plane */

/* How a mesh is made, beyond reading it.
 *
 * A repair changes triangles alone, so that vertices keep their number and order, and gradients and positions are those
 * of the vertices as given; a vertex that was welded to another is part of no triangle, and its gradient is 0. In this
 * order it
 *  - drops triangles that name a vertex twice, and duplicates;
 *  - welds vertices on open edges that lie at the same position (to the bit; -0 is 0);
 *  - makes each shell (triangles connected by edges) consistent;
 *  - fills holes of up to max_hole and 1,024 edges with triangles between their vertices. It does not check whether
 *    these cross other parts of the surface;
 *  - turns shells outwards that lie in no other shell. Of those inside others it keeps the direction if they were
 *    consistent as given, for cavities face inwards; else they become cavities inside an odd number of shells.
 * Edges of more than two triangles, surfaces with one side only, and larger holes are refused.
 * A mesh that needs no repair is the same as without.
 *
 * With an open_direction the mesh is an open surface, such as a heightfield or a bowl, that bounds the volume behind
 * it: all points that lie from it along the direction. Its triangles face against the direction or stand along it (a
 * wall that stands along it has no thickness of its own), they are connected, and seen along the direction the rim is
 * made of simple loops; else it is refused. The volume ends CT_OPEN_DEPTH diagonals behind the furthest vertex: walls
 * between the rim and copies of its vertices there, and a cap on a plane, close it. The copies are `closing_vertices`,
 * the last of the mesh's, and move as if fixed to their vertices of the rim: what a result has of one (gradient,
 * weight, forces, products) is added to that vertex. So entries have the given vertices alone and still sum to the same
 * force; the 6-vectors count walls where they are. Such a mesh is for rigid bodies only. */
typedef struct ct_mesh_options {
    uint32_t cookie; /* set by ct_mesh_options_init */
    ct_mesh_limits limits;
    bool repair;
    double max_hole;          /* m, the longest side of a hole's box; 0: CT_DEFAULT_HOLE of the mesh's diagonal */
    double open_direction[3]; /* into the volume, of any length; all 0: the surface is closed. Not with a repair */
} ct_mesh_options;

void ct_mesh_options_init(ct_mesh_options *options); /* the default limits, no repair */

/* The rim's vertices that closing ones are copies of, [closing_vertices], owned by the mesh; NULL: there are none. */
const uint32_t *ct_mesh_rim(const ct_mesh *mesh);

/* As ct_mesh_read and ct_mesh_create, with options. *changes (NULL is allowed) is what the repair did. A changed mesh
 * has the hash of what became of it: the same as that of an upload of its positions and triangles (ct_mesh_positions,
 * ct_mesh_triangles). Also INVALID_ARGUMENT, OUT_OF_RANGE, NON_FINITE: the options. */
ct_status ct_mesh_read_with(const void *bytes, size_t size, ct_mesh_format format, const ct_mesh_options *options,
                            ct_mesh **out, ct_mesh_changes *changes, ct_error *error);
ct_status ct_mesh_create_with(const void *positions, ct_dtype dtype, size_t n_vertices, const void *triangles_u32,
                              size_t n_triangles, const ct_mesh_options *options, ct_mesh **out,
                              ct_mesh_changes *changes, ct_error *error);

ct_mesh *ct_mesh_retain(ct_mesh *mesh); /* adds a reference; returns mesh */
void ct_mesh_release(ct_mesh **mesh);   /* drops a reference and nulls the pointer; NULL is allowed */

typedef struct ct_mesh_info {
    uint64_t vertices;         /* with the closing ones */
    uint64_t triangles;        /* with those that close an open surface */
    uint64_t closing_vertices; /* the last of `vertices`: of walls and cap of an open surface (ct_mesh_options) */
    uint64_t bytes;      /* host memory that the mesh holds now. Grows when a method derives something from the mesh,
                            which it does when a body joins a scene with that method */
    uint32_t components; /* connected components; triangles that share a vertex are connected */
    double volume;       /* m^3, of the rest positions; > 0 */
    double area;         /* m^2 */
    double lo[3], hi[3]; /* m, bounding box of the rest positions */
    char hash[33];       /* 128-bit content hash of (positions as float32, triangles), hex */
} ct_mesh_info;

void ct_mesh_get_info(const ct_mesh *mesh, ct_mesh_info *info);
const float *ct_mesh_positions(const ct_mesh *mesh); /* [vertices][3], rest positions, owned by the mesh */
/* [triangles][3], owned by the mesh. Not in the order given, and corners may be rotated; orientation is kept. */
const uint32_t *ct_mesh_triangles(const ct_mesh *mesh);

/* ---- methods ---- */

/* How contacts are computed. gpu/methods.c is the table of methods, and of the backends that have them. */
typedef enum ct_method {
    CT_METHOD_NONE = 0,    /* no method */
    CT_METHOD_LDI = 1,     /* layered depth images: rays along three axes on a regular lattice (Faure 2008) */
    CT_METHOD_EXACT = 2,   /* volume and gradient in closed form, from the triangles that cross; no samples */
    CT_METHOD_EBPI = 4,    /* volume to a requested tolerance, with adaptive rays (Wang, Faure and Pai 2012) */
    CT_METHOD_VOXTREE = 5, /* estimates and guaranteed intervals from voxel trees, which may be interrupted at any time;
                              rigid bodies only (Dingliana and O'Sullivan 2005) */
    CT_METHOD_AUTO = 3,    /* a setting of scenes, not a method: see ct_scene_settings. No result has it */
} ct_method;

enum { CT_MAX_METHODS = 8 };

/* "ldi"; "auto"; "unknown" for a number that is no method of this build */
const char *ct_method_name(ct_method method);
ct_method ct_method_at(size_t i); /* the i-th method of this build, from 0; NONE: there are no more. Never AUTO */
/* The method of this name, or AUTO. UNSUPPORTED: this build has none; the message lists those it has. */
ct_status ct_method_find(const char *name, ct_method *out, ct_error *error);

/* ---- engine ---- */

typedef struct ct_engine ct_engine;

typedef struct ct_engine_options {
    uint32_t cookie;            /* set by ct_engine_options_init */
    const char *backend;        /* "cpu", "cuda", or "auto": cuda where a device ran a kernel, else cpu */
    const char *rasterizer;     /* "native", "egl", or "auto": native */
    const char *devices;        /* CUDA: "all", or device numbers such as "0,2"; at most CT_MAX_DEVICES */
    uint64_t max_device_bytes;  /* memory to use on each device; 0: most of what is free at the start */
    uint32_t threads;           /* CPU threads; 0: as many as the machine has */
    const char *simd;           /* "auto", or a name from ct_engine_facts.simd_available to force that code path */
    uint64_t max_scratch_bytes; /* a step that needs more scratch memory fails with OUT_OF_MEMORY; 0: no limit */
    uint32_t max_cells; /* of one contact; a step that needs more fails with LIMIT_EXCEEDED. At most CT_MAX_CELLS, and 0
                           is CT_DEFAULT_CELLS */
} ct_engine_options;

void ct_engine_options_init(ct_engine_options *options);
/* A backend asked for by name that cannot run is an error; "auto" goes on to the next one. UNSUPPORTED,
 * INVALID_ARGUMENT, OUT_OF_RANGE, OUT_OF_MEMORY, DEVICE_ERROR. Destroy it after its scenes. */
ct_status ct_engine_create(const ct_engine_options *options, ct_engine **out, ct_error *error);
void ct_engine_destroy(ct_engine **engine); /* nulls; NULL is allowed */

/* Batches that may run at a time on each device; a further ct_engine_run waits. A batch that starts while another runs
 * gets the idle resources only (on the CPU: its caller's thread and the pool's idle threads), so a small step does not
 * wait for a large one. */
enum { CT_MAX_CONCURRENT_BATCHES = 2 };

enum { CT_MAX_DEVICES = 64 };
size_t ct_engine_device_count(const ct_engine *engine); /* at least 1 */

/* Why this backend was chosen: "asked for", or why "auto" rejected the ones before it. For logs. */
const char *ct_engine_reason(const ct_engine *engine);

/* The methods that this engine's backend has; returns how many. The same on all of its devices. */
size_t ct_engine_methods(const ct_engine *engine, ct_method out[CT_MAX_METHODS]);
/* The method that AUTO runs on this engine in scenes that name no sampling: EXACT if the backend has it, else LDI. */
ct_method ct_engine_auto_method(const ct_engine *engine);

typedef struct ct_engine_facts { /* of one device; each device has its own */
    char backend[16];            /* "cpu", "cuda" */
    char rasterizer[16];         /* "native", "egl" */
    char device[96];             /* e.g. the processor's name */
    char simd[16];               /* e.g. "avx2"; empty for a backend without SIMD paths */
    char simd_available[64];     /* separated by spaces */
    uint32_t threads;
    uint64_t scratch_bytes; /* held now */
    uint64_t scratch_peak;  /* high-water mark */

    /* Of a device with memory of its own, else 0: */
    uint64_t memory_budget;                /* bytes that the engine may use */
    uint64_t memory_used;                  /* bytes: meshes, bodies and scratch */
    uint64_t memory_meshes, memory_bodies; /* bytes, of memory_used */
    uint64_t uploaded, downloaded;         /* bytes copied since the start */
    uint64_t launches;                     /* kernels launched since the start */
    uint64_t reruns; /* batches computed again because a buffer was too small; stops rising once buffers have grown */
    uint64_t clusters, near_clusters; /* since the start: runs of 128 triangles of the bodies of all pairs, and those of
                                         them that were looked at because they can matter to the pair */

    uint64_t scenes, triangles; /* scenes opened on this device; triangles of all their bodies */
    bool lost;                  /* the device failed for good: every further step on it fails with DEVICE_ERROR */
    char lost_reason[128];
} ct_engine_facts;

void ct_engine_get_facts(const ct_engine *engine, size_t device, ct_engine_facts *facts); /* device < count */

/* Frees the devices' copies of a mesh that no body uses. Without this call they are freed when memory runs short. */
void ct_engine_forget_mesh(ct_engine *engine, const ct_mesh *mesh);

/* Bytes of the devices' own memory that hold the mesh of this hash, summed over the devices. */
uint64_t ct_engine_mesh_bytes(ct_engine *engine, const char *hash);

/* ---- scenes and bodies ---- */

typedef struct ct_scene ct_scene;

/* Ray samples along one axis of a window: the box in which the boxes of two bodies overlap, or, where the bodies meet
 * in far less, the part of it that both surfaces reach into. */
#define CT_MAX_RESOLUTION     4096
#define CT_DEFAULT_RESOLUTION 64

#define CT_DEFAULT_RAY_BUDGET 1048576
#define CT_MAX_RAY_BUDGET     268435456

/* Cells of one contact: by default, and at most; and along one axis of a window. */
#define CT_DEFAULT_CELLS   4096
#define CT_MAX_CELLS       (1 << 20)
#define CT_MAX_CELLS_ALONG 4096

/* Levels of voxel trees: level l divides the cube around a mesh into 2^l cubes along each axis. */
#define CT_MIN_VOXEL_LEVEL    3
#define CT_MAX_VOXEL_LEVEL    8
#define CT_MAX_POINTS         4096
#define CT_DEFAULT_MAX_POINTS 8

/* The sampling is resolution and pixel_size. It is named if one of them is not 0. LDI reads it: without one it takes
 * CT_DEFAULT_RESOLUTION. EXACT has no samples and refuses a sampling (INVALID_ARGUMENT) rather than ignore it. AUTO
 * runs LDI where a sampling is named, and else what ct_engine_auto_method says. */
/* How EBPI spends rays on a tolerance. */
typedef enum ct_allocation {
    CT_ALLOCATION_OPTIMAL =
        0, /* the fewest rays for a sum of bounds within the tolerance: one multiplier for all tiles */
    CT_ALLOCATION_PUBLISHED = 1, /* the same part of the tolerance for each pixel, tiles of one size in it, and pixels
                                    gathered where they need no rays of their own (Wang 2012, section 4.3) */
    CT_ALLOCATION_PER_PIXEL = 2, /* the same without gathering */
} ct_allocation;

/* "optimal", "published", "per_pixel"; NULL: none of them. */
const char *ct_allocation_name(ct_allocation allocation);

typedef struct ct_scene_settings {
    uint32_t cookie;  /* set by ct_scene_settings_init */
    ct_method method; /* one that the engine's backend has, or AUTO */
    uint32_t
        resolution[3]; /* ray samples across the window along x, y, z (Faure 2008); 1..CT_MAX_RESOLUTION, or all 0 */
    double pixel_size; /* m; > 0: rays on a world-anchored lattice of this pitch (Allard 2010); 0: use resolution */
    double tolerance;  /* m^3; EBPI: error bound of each contact's volume to reach; 0: none. A step may name its own */
    double tolerance_rel;     /* 1; EBPI: the same, as a fraction of the volume; 0: none. Of both the larger counts */
    bool strict;              /* EBPI: a bound that is proven, instead of the published one */
    bool optimize_directions; /* EBPI: each pair's views lie along axes that few of its faces are parallel to (Wang
                                 2012, section 4.4), instead of the world's; volumes[w] and error_bounds[w] are then of
                                 those views. All else is in world axes; gradients sum to exactly 0. The axes are found
                                 from the faces in each step anew, so answers do not depend on earlier steps */
    ct_allocation allocation; /* EBPI: which parts of the views get more rays */
    uint64_t ray_budget;      /* EBPI: rays that a pair may cast, those of refined tiles included, from 3 on; 0:
                                 CT_DEFAULT_RAY_BUDGET. A ray takes some 200 bytes of working memory (max_scratch_bytes), and
                                 4 more for each face over its tile */
    double stiffness;         /* k of the penalty energy E = k V^2 / 2, in N/m^5; scales forces; >= 0 */
    bool patches;     /* each connected piece of a pair's intersection is a contact (ct_contact). EXACT gives them, and
                         with patches AUTO runs it; other methods refuse them */
    double cell_size; /* m; > 0: contacts are divided by a grid of cubes of this size that is fixed in the world, one
                         of whose corners is the origin (ct_result.cells; Allard 2010, section 5). LDI on the CPU gives
                         cells, and with a cell_size AUTO runs it; other methods and backends refuse it. 0: no cells */
    double margin;    /* m; > 0: pairs of bodies without a contact that are closer than this are listed with their
                         distance (ct_result.separations). Every method on the CPU; other backends refuse it. 0: none */

    /* VOXTREE; other methods refuse what is not 0 (INVALID_ARGUMENT). Answers have the same bits whatever the threads
     * and the backend as long as the step has no time budget. */
    uint32_t voxel_level; /* finest level of the meshes' trees, CT_MIN_VOXEL_LEVEL to CT_MAX_VOXEL_LEVEL. A tree is made
                             when a body is added. 0: cubes about as large as the mesh's triangles, 5 to 7 */
    uint32_t level;       /* no tree is followed below this level, which is at most voxel_level; 0: to its finest */
    uint64_t pair_budget; /* pairs of a cube and the cubes that it may meet which a step may compare, shared by its
                             pairs of bodies, level by level and the deepest overlaps first; 0: no limit */
    bool center_normals;  /* points' normals along the line of the cubes' centres (section 3.2) instead of from the
                             gradients of their occupancies (equation 6) */
    bool plain_average;   /* points by equations 7 and 8, instead of weighted with probabilities (9 and 10) */
    bool refine;          /* after the trees, pairs in contact are computed as EXACT computes them, the largest volumes
                             first: all of them, or with a time budget those that are expected to take no longer than
                             the time left. See ct_pair_progress.is_refined. On the CPU; other backends refuse it */

    uint32_t max_points; /* of each contact (ct_point), up to CT_MAX_POINTS: the ones that matter most. 0: none;
                            VOXTREE: CT_DEFAULT_MAX_POINTS. With points a step wants FRAME and FRICTION as well */
} ct_scene_settings;

void ct_scene_settings_init(ct_scene_settings *settings); /* AUTO, no sampling, stiffness 1, no patches, no cells */
/* Checks the settings without an engine: UNSUPPORTED (an unknown method), INVALID_ARGUMENT, OUT_OF_RANGE. */
ct_status ct_scene_settings_check(const ct_scene_settings *settings, ct_error *error);

/* Opens a scene on the device with the fewest triangles, where it stays; _on: on this device, device < count. Fails as
 * ct_scene_settings_check does; also UNSUPPORTED: the engine's backend lacks the method, and the message lists those it
 * has; OUT_OF_MEMORY. */
ct_status ct_scene_create(ct_engine *engine, const ct_scene_settings *settings, ct_scene **out, ct_error *error);
ct_status ct_scene_create_on(ct_engine *engine, size_t device, const ct_scene_settings *settings, ct_scene **out,
                             ct_error *error);
void ct_scene_destroy(ct_scene **scene); /* drops its bodies and their references to meshes; nulls; NULL is allowed */
/* Replaces the settings, from the next step on. Fails as ct_scene_create does; also UNSUPPORTED: a body has
 * self_contact, which the method does not find on this backend, or is deformable, which VOXTREE does not take;
 * LIMIT_EXCEEDED, OUT_OF_MEMORY: what the method derives from the bodies' meshes. */
ct_status ct_scene_configure(ct_scene *scene, const ct_scene_settings *settings, ct_error *error);
/* The settings as they were given, but with CT_DEFAULT_RESOLUTION for LDI without a sampling. */
void ct_scene_get_settings(const ct_scene *scene, ct_scene_settings *settings);
/* What steps run: the settings with a method in place of AUTO, and with a sampling if that method is LDI. */
void ct_scene_get_running(const ct_scene *scene, ct_scene_settings *running);

#define CT_ENDLESS 1e30 /* m */

typedef enum ct_body_kind {
    CT_BODY_DEFORMABLE = 1, /* moved by the world positions of its vertices, float32; starts at the rest positions */
    CT_BODY_RIGID = 2,      /* moved by a pose in double precision, applied to the rest positions */
    CT_BODY_HALF_SPACE = 3, /* all points below a plane: z <= 0 in its own axes, which a pose places in the world. A
                               floor or wall without a mesh: it has no vertices, so its part of a gradient is empty, but
                               its 6-vector is complete. EXACT only. Two half-spaces have no contact */
} ct_body_kind;

typedef struct ct_body_options {
    uint32_t cookie; /* set by ct_body_options_init */
    ct_body_kind kind;
    double pose[12]; /* rigid, half-space: row-major 3x4 [R|t], p_world = R p + t; R must be a rotation (to 1e-3) */
    uint32_t group, mask;   /* a pair is computed if (a.group & b.mask) and (b.group & a.mask) are both non-zero */
    const uint32_t *ignore; /* [n_ignore] bodies of this scene that are never paired with this one */
    size_t n_ignore;
    /* Also computes the contact of the body with itself: where its winding number is 2 or more (Faure 2008, self-
     * collision). group, mask and ignore are about other bodies. Only for methods that find it (LDI, and on the CPU
     * EXACT without patches), and not for a half-space. */
    bool self_contact;
} ct_body_options;

void ct_body_options_init(ct_body_options *options); /* deformable, identity, group 1, mask ~0, no self-contact */

/* The scene takes its own reference to the mesh, which is NULL for a half-space and for nothing else. *body is the
 * body's handle, non-zero. Handles rise in the order in which bodies are added, as long as none has been removed. The
 * handle of a removed body is refused; it is given out again only after 4,096 other bodies have used its slot.
 * NOT_FOUND (a body of ignore), INVALID_ARGUMENT, OUT_OF_RANGE, NON_FINITE, UNSUPPORTED (self_contact, a half-space or
 * a deformable body: what the scene runs does not take it), LIMIT_EXCEEDED (also of a voxel tree), OUT_OF_MEMORY,
 * DEVICE_ERROR. */
ct_status ct_scene_add_body(ct_scene *scene, ct_mesh *mesh, const ct_body_options *options, uint32_t *body,
                            ct_error *error);

/* The pose of the half-space of all points p with n . p <= offset, where n is the normal scaled to length 1: its z axis
 * is n and its origin n * offset. NON_FINITE, or OUT_OF_RANGE: the normal has no length. */
ct_status ct_plane_pose(const double normal[3], double offset, double pose[12], ct_error *error);
/* Adds that half-space. options: for group, mask and ignore; NULL: the defaults. Fails as ct_scene_add_body and
 * ct_plane_pose do; UNSUPPORTED: the scene's method takes no half-spaces. A scene with half-spaces
 * cannot be configured to such a method. */
ct_status ct_scene_add_half_space(ct_scene *scene, const double normal[3], double offset,
                                  const ct_body_options *options, uint32_t *body, ct_error *error);
ct_status ct_scene_remove_body(ct_scene *scene, uint32_t body, ct_error *error);
/* Gives a body another mesh, after cutting or remeshing; the next step sees it. The body keeps its handle, its kind,
 * its filters and self_contact. A rigid body keeps its pose, a deformable one starts at the new mesh's rest positions.
 * From now on updates and directions have the new mesh's vertices: those of the old size are WRONG_LENGTH. The scene
 * takes its own reference to the mesh and drops that to the old one. NOT_FOUND, INVALID_ARGUMENT (a half-space has no
 * mesh), OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_scene_replace_mesh(ct_scene *scene, uint32_t body, ct_mesh *mesh, ct_error *error);

typedef struct ct_body_info {
    uint32_t body;
    ct_body_kind kind;
    uint64_t vertices;
    const ct_mesh *mesh; /* NULL: a half-space */
    double pose[12];
    double lo[3], hi[3]; /* m, world bounding box at the last step, or of the start state; -+ CT_ENDLESS where a
                            half-space has no end. With VOXTREE after a step, the smallest around the cubes of the
                            body's tree, of level 5 at most */
    bool self_contact;   /* as asked for when it was added */
} ct_body_info;

size_t ct_scene_device(const ct_scene *scene); /* index of the device it is on */
size_t ct_scene_body_count(const ct_scene *scene);
/* Bodies in rising order of handle. OUT_OF_RANGE: index is not below the count. */
ct_status ct_scene_body_at(const ct_scene *scene, size_t index, ct_body_info *info);
ct_status ct_scene_body_info(const ct_scene *scene, uint32_t body, ct_body_info *info, ct_error *error); /* NOT_FOUND */
uint64_t ct_scene_bytes(const ct_scene *scene);        /* memory that the scene holds, without its meshes */
uint64_t ct_scene_device_bytes(const ct_scene *scene); /* of ct_scene_bytes, the part in a device's own memory */

/* ---- steps ---- */

typedef enum ct_update_kind {
    CT_UPDATE_POSITIONS = 1, /* all vertices of a deformable body */
    CT_UPDATE_RANGES = 2,    /* indices holds (first, count) pairs; positions has their vertices, range after range */
    CT_UPDATE_INDEXED = 3,   /* indices holds one vertex index for each of the positions */
    CT_UPDATE_POSE = 4,      /* the pose of a rigid body or a half-space */
} ct_update_kind;

typedef struct ct_update {
    uint32_t body;
    ct_update_kind kind;
    const void *positions; /* [count][3] of dtype, world axes, m; need not be aligned */
    ct_dtype dtype;
    uint64_t count;      /* vertices */
    const void *indices; /* [n_indices] of uint32; need not be aligned */
    uint64_t n_indices;  /* numbers, not pairs */
    double pose[12];     /* POSE: row-major 3x4 [R|t] */
} ct_update;

/* Optional results of a step. Each contact's bodies, volumes and error are always computed. */
enum {
    CT_WANT_FRAME = 1u << 0,    /* area, depth, normal, tangents, centre, generalised gradients */
    CT_WANT_GRADIENT = 1u << 1, /* sparse dV/dx */
    CT_WANT_FRICTION = 1u << 2, /* friction weights, one per entry of the sparse gradient (implies FRAME) */
    CT_WANT_FORCES = 1u << 3,   /* penalty forces -k V dV/dx, one per entry of the sparse gradient */
    CT_WANT_SPANS = 1u << 4,    /* the end points of every span, for debugging and pictures. EXACT has none: a step that
                                   wants them fails with INVALID_ARGUMENT */
    CT_WANT_INERTIA =
        1u << 5,             /* second moments of the intersection (implies FRAME). EXACT only, else INVALID_ARGUMENT */
    CT_WANT_TILES = 1u << 6, /* the tiles that EBPI divided its views into, for pictures. Else INVALID_ARGUMENT */
    CT_WANT_ALL = CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES,
};

/* Directions along which a step differentiates the gradient: see ct_step.directions. Twelve are those of two rigid
 * bodies. */
enum { CT_MAX_DIRECTIONS = 12 };

/* One body's part of a direction; a body without a part does not move along it. */
typedef struct ct_direction {
    uint32_t body;
    uint32_t index;     /* which direction this is a part of: 0 .. CT_MAX_DIRECTIONS - 1 */
    const void *values; /* deformable: [count][3] of dtype, m, a displacement of every vertex; need not be aligned */
    ct_dtype dtype;
    uint64_t count;  /* vertices */
    double twist[6]; /* rigid: translation, m, then rotation about the body's origin, rad; world axes */
} ct_direction;

/* One body's velocity in a step; a body without one is at rest. */
typedef struct ct_velocity {
    uint32_t body;
    const void *values; /* deformable: [count][3] of dtype, m/s, of every vertex; need not be aligned */
    ct_dtype dtype;
    uint64_t count;  /* vertices */
    double twist[6]; /* rigid, half-space: of the body's origin, m/s, then angular velocity, rad/s; world axes */
} ct_velocity;

/* One volume V in which two bodies overlap, or in which a body overlaps itself. V > 0: bodies that only touch have no
 * contact.
 *
 * LDI weighs a view by its detail q = n / (u + v): its samples inside the contact (at most u v) for each sample along
 * the outline, where the window is u by v pitches in that view; q falls off where u or v is below 2. The weight is as
 * min(q, Q)^2, Q = min(12, half of the largest q): views that resolve the contact count equally, one that sees it
 * edge-on or between its samples hardly counts. The gradient has one component from each view whatever the weights, as
 * each view's volume estimates the same V. So the force is the gradient of V to the accuracy of sampling, not of the
 * weighted sum itself.
 *
 * A pair of bodies may have several contacts, where the method divides its intersection. They are `index` 0, 1, 2... of
 * the pair, and their volumes and gradients sum to the pair's. LDI gives one contact per pair, and so does EXACT
 * without patches.
 *
 * With patches EXACT gives one contact for each connected piece of the intersection, the largest first (of equal ones
 * that with the smaller centre along x, then y, then z). Pieces that only touch are two; a piece with cavities is one.
 * Each has its own gradient, frame, 6-vectors and bound, and each obeys Newton's third law to the last bit. They sum to
 * the pair's contact but for rounding, of the last bits of each number, and for faces that only touch: the pair's
 * gradient has half of those. A piece whose volume cannot be told from 0 is left out, as a pair's is: where bodies only
 * touch, and pieces smaller than their bound. The bound holds as long as moving vertices by half a step of the lattice
 * neither joins pieces nor parts them. A pair whose intersection is one piece has the same bits with patches and
 * without.
 *
 * What is connected where faces coincide does not depend on the order of bodies, vertices or triangles:
 *   - A surface parts what lies on both sides of it. Two closed parts of one body that share a face, an edge or a
 * corner are two, as if a thin wall stood between them, and so are their pieces; a part without faces inside is one.
 * But a vertex that parts share in the mesh joins them where it lies inside the other body.
 *   - Where faces of both bodies coincide, parts are one piece if they are connected once one of the bodies is moved by
 *     (e, e^2, e^3), e > 0 infinitesimal, or by its opposite. So the legs of a table that stand in a block are one
 * patch if its plate lies on the block, and one each if it does not reach it. Whether bodies that meet along an edge or
 * at a corner alone are connected there depends on which way it faces in the world's axes.
 *
 * VOXTREE lists a contact unless it is certain that there is none: volume_upper > 0. Its 6-vectors are estimates, of
 * opposite forces on one line; it gives no gradients of vertices (count is 0).
 *
 * In a contact of a body with itself, body[0] == body[1], and the parts 0 and 1 below are the two surfaces of that body
 * that bound V. A vertex may then be in both parts, and dV/dx of a vertex is the sum of its entries in both. All that
 * is linear in the gradient adds up the same way: weights, forces, generalised gradients. LDI puts each vertex in one
 * part and looks at the whole body's box, which is the window; its normal's largest component is positive, and pushes
 * part 0 out of part 1 (gpu/contact/sides_k.h). A closed surface wholly inside another of the same body is all in part
 * 0, without a normal.
 *
 * EXACT divides vertices in the same way. Its V is the integral of w (w - 1) / 2, with w the body's winding number:
 * what the body covers twice counts once, and what it covers three times counts three times, once for each two layers,
 * as several shells would as several bodies; LDI counts it once. Where the body is inside out, w = -1, V counts once
 * too, so that forces turn it back, and inverted_triangles tells; LDI leaves such parts out. Triangles that share
 * vertices cross like others, but for what they share (gpu/exact/self_k.h). Its products with the second derivative are
 * all part 0's. */
typedef struct ct_contact {
    uint32_t body[2];       /* handles; body[0] <= body[1] */
    uint32_t index;         /* among the contacts of this pair, from 0 */
    double volume;          /* m^3. LDI: the mean of three views, weighted by what they resolve (below) */
    double volumes[3];      /* m^3. LDI: seen along x, y, z; exact: all are volume */
    double error_bounds[3]; /* m^3, bounds of the errors of volumes[], guaranteed as error_bound is; or all NaN */
    double error_bound;     /* m^3, guaranteed bound of |error of volume|; NaN where the method gives none (LDI) */
    double error_estimate; /* m^3, an estimate of |error of volume|. LDI: from the spread of the three volumes and their
                              rays; in 97 of 100 contacts the error is below it, but it is no bound. Exact: error_bound.
                              VOXTREE: a quarter of error_bound, above 95 of 100 errors */
    double pitch[3];       /* m between neighbouring rays along x, y, z. Exact: 0. VOXTREE: the finest cubes' side */
    /* m^3, guaranteed by VOXTREE: the volume lies between them, and they close in from level to level. Volume where one
     * of the bodies overlaps itself counts once. Other methods: NaN. */
    double volume_lower, volume_upper;

    uint32_t max_winding; /* largest |winding number| of one body at the other's vertices inside it, at least 1. Above 1
                             a body overlaps itself, and the volume there is counted as often. 0: not counted (LDI).
                             Of a body with itself: the largest |winding number| just outside its surface, 1 where it
                             overlaps itself once */
    uint32_t
        inverted_triangles; /* of both surfaces, those with a corner inside the other body where that is inside out:
                               its winding number is negative, and the volume there counts negatively. Of a body with
                               itself: just outside a corner, and the volume there counts positively. Not counted
                               by LDI, whose max_winding is 0: there an inverted region counts as outside */
    double inverted_volume; /* m^3, sampled: the volume inside both bodies where one or both are inside out, so that
                               `volume` leaves it out: both winding numbers are not 0, and one is negative. The views'
                               mean, weighted as volume's. Of a body with itself: where its winding number is negative.
                               LDI and EBPI. NaN: not sampled (EXACT, VOXTREE, and cells) */

    /* The contact frame (Allard 2010 section 4.2), for steps that want FRAME, FRICTION, GRADIENT or FORCES; else 0. */
    double area;      /* m^2, sum of the positive friction weights */
    double depth;     /* m, volume / area; 0 where area is 0 */
    double normal[3]; /* unit vector that pushes body[0] out of body[1]; zero if no direction does (nested bodies) */
    double tangents[2][3];    /* unit vectors, orthogonal to the normal and to each other */
    double center[3];         /* m. LDI: midpoint of the two surfaces' weighted barycentres; exact: the
                                 intersection's centre of gravity */
    double side_center[2][3]; /* m. The barycentre of each part's surface, its vertices weighted by friction weights
                                 (Allard 2010); `center` where they cancel, as in nested bodies */
    double inertia[3][3];     /* m^5, for steps that want INERTIA, else 0: the integral over the intersection of
                                 |r|^2 - r r^T, r from center; times a density, the inertia tensor about center */
    double generalized_gradient[2][6]; /* per part: dV/d(translation) in m^2, then dV/d(rotation about the body's
                                          origin) in m^3. The origin is a rigid body's t, a deformable body's 0 0 0 */

    /* How part 1 slides on part 0, for steps with velocities, else 0; 0 too where there is no normal. A_k are the
     * friction weights, v_k the velocities of vertices p_k, n the normal, c the barycentre of the part's vertices.
     *   relative_velocity = sum of A_k v_k / area: that of part 1 relative to part 0, m/s
     *   spin: of part 1 relative to part 0 about n, rad/s; a part's is that of the turn about n through c that fits its
     *     velocities best: sum of A_k v_k . (n x (p_k - c)) / J_part, J_part = sum of A_k |n x (p_k - c)|^2
     * With a viscosity ν the force on each vertex is (Faure 2008 section 3.3, with the relative velocity of the contact
     * in place of that of a ray)
     *   f_k = -ν A_k (t + J / |J_part| spin n x (p_k - c)),  t: relative_velocity without its part along n,
     * where J = area^2 / (2 pi), that of a disc. So a flat patch of `area` sliding at t is held back by ν area t, and
     * one that turns by the torque ν J spin: exact for a disc, 5 % low for a square, more for a long patch. Forces on
     * both parts sum to 0, and they never add energy: their power is -ν (area |t|^2 + J spin^2). */
    double relative_velocity[3], spin;
    double friction[2][6]; /* per part: the sum of f_k, N, and of their torques about the body's origin, N m */

    /* The contact's entries in the result's arrays. Part i is entries first[i] .. first[i] + count[i] - 1, one per
     * vertex of body[i] with a non-zero gradient, in rising order of vertex. A half-space has none; its weights still
     * count for `area`. */
    uint64_t first[2], count[2];
    uint64_t first_span, n_spans;
    uint64_t first_tile, n_tiles;
    uint64_t first_point, n_points; /* VOXTREE: in falling order of weight; else in that in which they were chosen; a
                                       cell has none of its own */
    /* The same of ct_result.products: part i has one per vertex of body[i] at which some product is not 0. */
    uint64_t first_product[2], count_product[2];
    uint64_t first_cell, n_cells; /* its cells in ct_result.cells; 0 without a cell_size, and of a cell */
    int32_t cell[3]; /* of a cell: the cube from cell to cell + 1, times cell_size, along x, y, z; else 0 */
} ct_contact;

typedef struct ct_span {
    float lower[3], upper[3]; /* m, world: the ends of a depth interval in which a ray is inside both bodies,
                                 or twice inside one that overlaps itself */
    uint32_t axis;            /* of the ray: 0 x, 1 y, 2 z */
    uint32_t lower_body;      /* 0 or 1: the part (see ct_contact) whose surface is the lower end */
} ct_span;

/* A tile of a view of EBPI in the end, with the one ray through its middle (Wang 2012, Figure 6): a box of the window,
 * from corner to corner + u + v + along. */
typedef struct ct_ray_tile {
    float corner[3], u[3], v[3]; /* m, world; u and v are the tile's sides */
    float along[3];              /* m, along the ray, through the whole window */
    uint32_t axis;               /* the view: 0, 1, 2 for rays along the method's x, y, z */
    float length;                /* m, of the ray inside both bodies */
    double bound;                /* m^3, of the error of the tile's volume */
} ct_ray_tile;

#define CT_NO_GROUP 0xffffu

/* A point that stands for a region of a contact, for solvers that work with points.
 *
 * VOXTREE: the mean of cubes that met, of one group of each surface.
 *
 * Other methods choose points as solvers that reduce contact manifolds do, for max_points > 0. The depth at a point is
 * the length of the line along the contact's normal through both bodies there, of its longest stretch inside both; the
 * position is the middle of that stretch. Candidates are, seen along the normal, the corners of the intersection:
 * vertices of one body in the other, and where edges of one pierce the other. Of them
 *   1. the deepest (of equally deep ones the farthest from the contact's centre),
 *   2. the one farthest from it, its distance times its depth,
 *   3. and then, again and again, the one that adds most to the area of the chosen ones' convex hull, times its depth
 * are points, until there are max_points, or none adds more than a fiftieth of the whole. Left out is what does not
 * rise above a paraboloid from a chosen point down to the intersection's outline, by a quarter of the depth: so a ball
 * has one point, a cylinder on its side two, and a box on its face four. Points come from the surfaces themselves, in
 * double precision: LDI's have no error of sampling but that of the normal.
 *
 * Shares of the contact's area (weight) are as equal as they can be where their barycentre is that of the two surfaces,
 * the mean of side_center; where the points do not surround it, as near to it as shares >= 0 come.
 *
 * With a cell_size points are cells instead: those of most volume, in falling order, each with its centre, normal and
 * depth, and with a weight in proportion to its area. A contact without a normal has no points. */
typedef struct ct_point {
    double position[3]; /* m, world */
    double normal[3];   /* unit vector, the direction that pushes body[0] out */
    double depth;       /* m, >= 0. VOXTREE: the mean of d_K (equation 4), at most a cube's side */
    double weight;     /* 1, >= 0: the weights of a contact sum to 1. VOXTREE: the point's importance; else its share of
                          ct_contact.area: the point's own area is weight x area, m^2 */
    uint32_t group[2]; /* VOXTREE: the parts that met of the surfaces of body[0] and body[1]; each is connected and
                          faces alike, and is numbered by mesh. CT_NO_GROUP: the inside of the body. Else the contact's
                          index, and the cell's, or CT_NO_GROUP */
} ct_point;

/* Two bodies that have no contact and whose surfaces are closer than the scene's margin: never a volume, and no part of
 * any. The distance is that of the closest features (corners, edges, faces) of all their triangles, or of the lowest
 * vertex over a half-space: not sampled, exact for the surfaces as they are, but for rounding in double precision, some
 * 1e-15 of the coordinates; up to 1e-12 of them it is 0. Where several features are as close, as faces that are
 * parallel, points are a corner and its foot, the smallest in x, then y, then z.
 *
 * Surfaces that touch, or that cross where the method found no volume, have distance 0. Where the method misses a body
 * that is wholly inside another (LDI, below its sampling), the distance is that of the surfaces. Filters, group and
 * mask hold as for contacts; self_contact does not. The search is no part of a step's time_budget, nor of its seconds.
 */
typedef struct ct_separation {
    uint32_t body[2];   /* handles; body[0] < body[1] */
    double distance;    /* m, >= 0 */
    double normal[3];   /* unit vector that pushes body[0] away from body[1]; zero where they touch at edges alone */
    double point[2][3]; /* m, world: the closest points of the two surfaces */
} ct_separation;

typedef enum ct_phase {
    CT_PHASE_UPLOAD,     /* applying updates */
    CT_PHASE_BROADPHASE, /* boxes, pairs */
    CT_PHASE_RASTER,     /* rays against triangles */
    CT_PHASE_SPAN,       /* sorting crossings, winding numbers, spans, sums */
    CT_PHASE_CONTACT,    /* compaction, frames, forces */
    CT_PHASE_DOWNLOAD,   /* copying the answer to the host */
    CT_PHASES
} ct_phase;

const char *ct_phase_name(ct_phase phase); /* "upload" */

enum { CT_MAX_PASSES = 24 };

/* Why a method stopped working on a step: the last of these that holds of any of its pairs. */
typedef enum ct_ended {
    CT_ENDED_COMPLETED = 0,  /* everything asked for was computed; EBPI: every pair's bound is within the tolerance */
    CT_ENDED_RAY_BUDGET = 1, /* EBPI: a pair would have needed more rays than its budget */
    CT_ENDED_PASS_LIMIT = 2, /* EBPI: a pair was not done after CT_MAX_PASSES passes */
    CT_ENDED_PRECISION = 3,  /* EBPI: the lattice's precision or finest tile does not carry a pair's tolerance */
    CT_ENDED_LEVEL = 4,      /* VOXTREE: the trees go on below ct_scene_settings.level */
    CT_ENDED_PAIRS = 5,      /* VOXTREE: the next level did not fit ct_scene_settings.pair_budget */
    CT_ENDED_TIME = 6,       /* VOXTREE: the time budget was over */
} ct_ended;

const char *ct_ended_name(ct_ended ended); /* "ray_budget"; "unknown" for a number that is none */

/* How far a method that can be interrupted came with a pair of bodies. */
typedef struct ct_pair_progress {
    uint32_t body[2];  /* handles; body[0] < body[1] */
    bool is_examined;  /* false: no level was completed, so whether the bodies touch is not known. level is then 0 */
    bool is_refined;   /* the pair's contact is that of EXACT, with its error_bound, and with a sparse gradient if the
                          step wants one; if it has none, the bodies do not touch. Points are still the trees' */
    uint32_t level[2]; /* of the trees that the answer is from */
    ct_ended ended;    /* of a pair that is refined: COMPLETED */
} ct_pair_progress;

/* A condition of a body under which its contacts mean nothing or less than they seem to.
 *
 * A deformable body's signed volume is the volume that its surface encloses, counted negative where the surface is
 * inside out. A mesh has a positive one when it is created, but positions sent later may mirror the body, turn part of
 * it inside out or flatten it. An inverted body has no contacts, and a collapsed one hardly any. A body that is partly
 * inverted, but whose signed volume is above CT_COLLAPSED_FRACTION of its rest volume, gives no warning. Nor do rigid
 * bodies: their poses are rotations.
 *
 * Bodies of up to 16,384 triangles are looked at after every step that sends positions of theirs, larger ones after
 * every eighth, so that their warnings may begin and end up to seven such steps late.
 *
 * Both conditions leave a margin around 0, so that the rounding of a flat body's positions to float32 does not decide
 * between the two.
 *
 * name, number, text. Numbers are never reused. */
#define CT_WARNING_MAP(X)                                                                                              \
    X(BODY_INVERTED, 1, "the body is inside out: its signed volume is negative")                                       \
    X(BODY_COLLAPSED, 2, "the body is flat: it encloses almost no volume")

typedef enum ct_warning_code {
    CT_WARNING_NONE = 0,
#define CT_WARNING_ENUM(name, number, text) CT_WARNING_##name = number,
    CT_WARNING_MAP(CT_WARNING_ENUM)
#undef CT_WARNING_ENUM
} ct_warning_code;

/* 1, of the rest volume (ct_mesh_info.volume): BODY_INVERTED is a signed volume below minus this fraction, and
 * BODY_COLLAPSED one that lies from minus this fraction to this fraction. */
#define CT_COLLAPSED_FRACTION 1e-6

const char *ct_warning_name(ct_warning_code code); /* "BODY_INVERTED"; "unknown" for a number that is none */
const char *ct_warning_text(ct_warning_code code);

/* Given by every step's result while the condition lasts. */
typedef struct ct_warning {
    ct_warning_code code;
    uint32_t body; /* handle */
    double value;  /* m^3: the body's signed volume, exact but for the rounding of each triangle's share to double */
} ct_warning;

/* Cells: with a cell_size each contact is also given cube by cube, as Allard 2010 (section 5) divides it, so that one
 * part of it can stick while another slides. A cell is a ct_contact of its own: volume V_c of the intersection inside
 * the cube, gradient, frame, 6-vectors, weights and forces (-k V_c dV_c/dx). Only cubes that hold volume in some view
 * are listed. `index` counts the contact's cells.
 *
 * The gradient of a cell counts that its walls cut the intersection, not that they stand still: where a ray leaves the
 * cube at depth W between the ends z- and z+ of its span, W = alpha z+ + (1 - alpha) z-, the wall is taken to move with
 * them, and adds alpha dz+ + (1 - alpha) dz- (equations 22 and 23). So each cell's gradient sums to 0 over both bodies,
 * and the cells' gradients and volumes sum to the contact's. Both hold exactly for the integers that the numbers are
 * made of: volumes[] are integers times the pitches of the rays and of depth, an entry of the gradient is one times
 * 2^-30 of a ray's area. Their doubles are rounded once; volume, the mean of volumes[] with the contact's own weights,
 * once more. A cell's error_estimate is made as a contact's is.
 *
 * Across its rays, a view has the whole of a ray in the cube that its sample is in; on a wall, in the one above it.
 * So cubes smaller than the pitch hold what the rays in them stand for. Vertices are in the same part as in the
 * contact, and spans are the contact's alone.
 *
 * A window has at most CT_MAX_CELLS_ALONG cubes along one axis, and a contact at most ct_engine_options.max_cells
 * cells: beyond that the step fails with LIMIT_EXCEEDED; OUT_OF_RANGE: 2^31 cubes or more from the origin. Either names
 * both bodies. */
typedef struct ct_result {
    size_t n_contacts;
    ct_contact *contacts; /* in rising order of (body[0], body[1], index) */
    uint64_t n_cells;
    ct_contact *cells;  /* [n_cells], or NULL: of all contacts, each's in rising order of cell[0], cell[1], cell[2]. The
                           functions below take contacts, not cells */
    uint64_t n_entries; /* length of the sparse arrays, which the contacts and cells of the step share: */
    uint32_t *vertices; /* [n_entries], or NULL where none of the following is wanted */
    double *gradient;   /* [n_entries][3], m^2, or NULL */
    double *weights;    /* [n_entries], m^2, or NULL */
    double *forces;     /* [n_entries][3], N, or NULL */
    double
        *friction_forces; /* [n_entries][3], N: f_k of ct_contact; NULL: the step has no velocities or no viscosity */
    bool has_slip;        /* the step had velocities */
    uint64_t n_spans;
    ct_span *spans; /* [n_spans], or NULL */
    uint64_t n_tiles;
    ct_ray_tile *tiles; /* [n_tiles], or NULL */
    uint64_t n_points;
    ct_point *points; /* [n_points], or NULL */
    size_t n_separations;
    ct_separation
        *separations; /* [n_separations], in rising order of (body[0], body[1]); NULL: none within the margin */
    uint64_t n_progress;
    ct_pair_progress *progress; /* [n_progress] all pairs of bodies whose boxes overlap, those without a contact too;
                                   NULL (all methods but VOXTREE) */
    /* Of a step with directions d_0, d_1, ...: the exact second derivative H of the volume with respect to all vertices
     * of both bodies, times each of them. A direction moves a rigid body's vertices by its twist. Where surfaces
     * coincide H is the mean of those of both bodies moved apart by infinitesimal amounts either way, as the gradient
     * is; it does not count the jump that the gradient has there. H d is 0 for a common translation of all bodies. */
    uint32_t n_directions;       /* 1 + the largest index of the step's directions; 0: it has none */
    uint64_t n_products;         /* vertices in product_vertices, in rising order in each contact's part */
    uint32_t *product_vertices;  /* [n_products], or NULL */
    double *products;            /* [n_products][n_directions][3], m^2: d(gradient of the vertex) along the direction */
    double *generalized_product; /* [n_contacts][n_directions][2][6]: the derivative of generalized_gradient along the
                                    direction, whose arms start at the moving origin of a rigid body. For rigid bodies
                                    it is the Jacobian of force and torque that Newton's method needs: symmetric but
                                    for the rotation's own part, half of (rotation x torque) */
    uint32_t want;               /* the step's CT_WANT_* bits */
    ct_method method;
    ct_ended ended;
    double quality;  /* 0..1: how much of its work the method did; 1 if it completed */
    uint64_t pairs;  /* pairs whose boxes overlap and that no filter excludes; bodies with self_contact add one each */
    uint32_t passes; /* EBPI: passes over the tiles, of the pair that took most; else 0 */
    uint64_t rays;   /* ray samples cast; EBPI: also those of tiles that were then refined */
    uint64_t fragments; /* a measure of work. LDI: ray-triangle crossings kept, which are those that can bound a span;
                           exact: pairs of triangles that cross or nearly touch; VOXTREE: cubes compared with the
                           other body's */
    double seconds[CT_PHASES]; /* this step's part of the batch's time by phase, summed over threads */
    /* The same by the clock. What a batch's threads do side by side is shared out among its steps and phases in
     * proportion to `seconds`, so the sum over phases and over all steps of a batch is at most the time that the batch
     * took. */
    double wall_seconds[CT_PHASES];
    size_t n_warnings;
    ct_warning *warnings; /* [n_warnings], in rising order of body, at most one of each body; NULL if there is none */
} ct_result;

void ct_result_free(ct_result **result); /* nulls; NULL is allowed */

typedef struct ct_step { /* zero it, then fill in what the step needs */
    ct_scene *scene;     /* each scene at most once in a batch */
    const ct_update *updates;
    size_t n_updates;
    uint32_t want; /* CT_WANT_... */

    /* Limits for methods that adapt to them. A step with a limit that the scene's method does not take fails
     * with INVALID_ARGUMENT: a limit is never ignored. */
    double time_budget; /* s, wall-clock time from the start of the batch in which to answer as well as possible; 0:
                           none. VOXTREE takes it: the CPU looks at the clock after each few cubes, other backends
                           after each level of all pairs, so they may be late by the time of a level */
    double tolerance;   /* m^3, error of each contact's volume to aim at; 0: none */

    /* Directions for products with the exact second derivative. Each (body, index) at most once. The products are those
     * of the bodies after the step's updates; they imply FRAME. EXACT only, else INVALID_ARGUMENT.
     * NOT_FOUND, INVALID_ARGUMENT (values for a rigid body, a twist for a deformable one is not read), WRONG_LENGTH,
     * OUT_OF_RANGE, NON_FINITE. */
    const ct_direction *directions; /* [n_directions]; read during the call */
    size_t n_directions;

    /* Velocities after the step's updates, for slip and friction (ct_contact.relative_velocity); at most one of each
     * body. They imply FRAME and FRICTION, which are added to `want`. Every method and backend takes them. NOT_FOUND,
     * INVALID_ARGUMENT (values for a rigid body, or a viscosity without velocities), WRONG_LENGTH, OUT_OF_RANGE,
     * NON_FINITE. */
    const ct_velocity *velocities; /* [n_velocities]; read during the call */
    size_t n_velocities;
    double viscosity; /* N s/m^3, >= 0: friction per area and sliding velocity; 0: slip without friction */

    ct_result *result; /* out: the caller frees it; NULL if the step failed */
    ct_error error;    /* out: status OK, or why the step failed. A step that fails because of its own arguments has
                          changed nothing. One that fails later (LIMIT_EXCEEDED or OUT_OF_RANGE of a window,
                          OUT_OF_MEMORY, DEVICE_ERROR) has moved its bodies */
} ct_step;

/* Applies every step's updates and computes its contacts; the whole batch runs as one where methods allow it. OK: every
 * step went well. Else the status of the first step that failed; each step has its own in error.status. */
ct_status ct_engine_run(ct_engine *engine, ct_step *steps, size_t n_steps);

/* out -= k g (g . in) with g = dV/dx: the stiffness product K d of implicit integration (Faure 2008 equation 2),
 * without assembling K. in[i] and out[i] are dense [vertices of body[i]][3]; out is added to, so contacts accumulate.
 * Needs GRADIENT. For a contact of a body with itself pass that body's arrays twice: in[0] == in[1], out[0] == out[1].
 */
void ct_contact_stiffness_product(const ct_result *result, size_t contact, double stiffness, const double *const in[2],
                                  double *const out[2]);

/* One body's part of vectors with three components for each vertex of each body. */
typedef struct ct_body_vectors {
    uint32_t body;     /* handle */
    uint64_t vertices; /* of the body */
    const double *in;  /* [n_vectors][vertices][3]; NULL: all 0 */
    double *out;       /* [n_vectors][vertices][3], added to; NULL: not wanted. It may not overlap any `in` */
} ct_body_vectors;

/* out += K d for n_vectors vectors d at once, over all contacts of a result: the sum of ct_contact_stiffness_product.
 * Bodies are in rising order of handle; one that is left out does not move. Each product has the same bits whatever
 * other vectors come with it. Needs GRADIENT. INVALID_ARGUMENT: no gradient, or the bodies' order; WRONG_LENGTH: a
 * contact has a vertex that `vertices` does not. A call that fails has added nothing. */
ct_status ct_result_stiffness_products(const ct_result *result, double stiffness, const ct_body_vectors *bodies,
                                       size_t n_bodies, size_t n_vectors, ct_error *error);

/* out += H d for direction `direction` of the step, from ct_result.products: dense [vertices of body[i]][3]. The exact
 * derivative of the penalty force -k V g along d is -k (V H d + g (g . d)); its second term is the product above. */
void ct_contact_hessian_product(const ct_result *result, size_t contact, uint32_t direction, double *const out[2]);

/* Makes the frames of a result follow those of the scene's step before, so that tangents do not jump: the tangents of
 * each contact that `previous` has too (the same bodies and index, both with a normal) become those there, projected
 * across the new normal and scaled. Without it tangents depend on the normal alone, continuously but at one direction;
 * with it, also on the results passed here before. Nothing else changes. For results that have frames. */
void ct_result_continue_frames(const ct_result *previous, ct_result *result);

/* The volume that a position solver leaves in the contact for its surfaces to overlap by `depth` (Allard 2010, the
 * target of equations 18 and 19): depth x area, m^3. */
double ct_contact_target_volume(const ct_contact *contact, double depth);

#ifdef __cplusplus
}
#endif
#endif
