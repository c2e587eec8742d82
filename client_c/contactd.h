/* contactd.h - the C client of contactd, a service that computes contacts between meshes for physics simulators.
 *
 * Every call returns a contactd_code; CONTACTD_OK is 0. contactd_last_error says the rest: which object, which field,
 * what was expected, and whether a retry can help. A call that fails has changed nothing.
 *
 * Units are SI: positions in m, volumes in m^3, gradients dV/dx in m^2, forces in N. Poses are row-major 3x4 [R|t] with
 * p_world = R p + t, where each axis of t may be 2^36 times the body's extent at most (OUT_OF_RANGE beyond: move the
 * scene's origin near the bodies). Meshes are closed surfaces, counter-clockwise seen from outside.
 *
 * Every call ends within the client's timeout. When the connection breaks or the server restarts, the client connects
 * again, registers the meshes it kept, reopens its scenes, restores the last state and repeats what was not answered:
 * the caller sees at most one slow call, and its handles stay valid.
 *
 * A pointer that is NULL where nothing says that it may be is INVALID_ARGUMENT, and the field is the argument's name.
 *
 * Names of clients, meshes and scenes are for lists and logs, which have their first 63 bytes.
 *
 * A client is used by one thread at a time. Clients share nothing, print nothing and install no signal handlers.
 */
#ifndef CONTACTD_H
#define CONTACTD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/errors.h"
#include "proto/material.h"
#include "proto/settings.h"
#include "proto/warnings.h"

#ifdef __cplusplus
extern "C" {
#endif

const char *contactd_code_name(contactd_code code); /* "INVALID_MESH" */
const char *contactd_code_text(contactd_code code);

typedef struct contactd_error {
    contactd_code code;
    char object[96];         /* "scene 2", "mesh bunny"; may be empty */
    char field[64];          /* "positions"; may be empty */
    char message[512];       /* expected, actual, remedy */
    bool retry;              /* the same call may succeed later */
    uint32_t retry_after_ms; /* a hint; 0: none */
} contactd_error;

/* ---- client ---- */

typedef struct contactd_client contactd_client;

typedef struct contactd_options {
    uint32_t cookie; /* set by contactd_options_init */
    /* "host:port", "tcp://host:port" or "ipc://..."; $CONTACTD_SERVER, else tcp://127.0.0.1:5555. Several between
     * commas, of which the client uses one at a time: when that one is gone for 250 ms, or drains, it builds its
     * scenes again on the next, in an order that differs from client to client. An item may also be dns://host:port,
     * all addresses of the name, or file:PATH, a file with an address on each line or a folder of such files; they
     * are read again when a server is left. One that drains may name successors (its --successor), which are then
     * used like others; with a single address also when it is gone without a word. */
    const char *server;
    const char *name;    /* for the server's logs and lists */
    uint32_t timeout_ms; /* of every call; > 0; 10,000 */
    uint32_t resend_ms; /* a step without an answer for this long is sent again, which never computes it twice; 3,000 */
    uint32_t lease_ms;  /* the server closes the scenes of a client silent for longer; 0: the server's default */
    bool keep_meshes;   /* keep what was registered, for a server that lost it; true */
    /* A wait for an answer first busy-polls for so long, calling sched_yield between two looks, and then sleeps, as
     * waking a sleeping core often costs more than a small step. Where answers take longer, or others want the cores,
     * the next waits sleep at once. Never beyond timeout_ms. us; 0: always sleep at once; 2,000 */
    uint32_t spin_us;
    /* For a server started with --stream-key: its public key, and this client's secret key, which must be in the
     * server's list of principals. Each is a key of 40 characters or 64 hexadecimal digits, or the path of a file that
     * contactctl keys new wrote. $CONTACTD_SERVER_KEY, $CONTACTD_CLIENT_KEY; NULL: no encryption. Not kept: the caller
     * may erase it after connecting. */
    const char *server_key, *client_key;
} contactd_options;

void contactd_options_init(contactd_options *options);
/* error may be NULL; *out is NULL unless the call went well. UNREACHABLE, UNAUTHENTICATED, VERSION_MISMATCH,
 * INVALID_ARGUMENT. */
contactd_code contactd_connect(const contactd_options *options, contactd_client **out, contactd_error *error);
void contactd_close(contactd_client **client); /* closes its scenes on the server too; nulls; NULL is allowed */

/* Of the last call on this client; code OK if it went well. Valid until the next. */
const contactd_error *contactd_last_error(const contactd_client *client);
contactd_code contactd_set_timeout(contactd_client *client, uint32_t timeout_ms);
/* The trace that the requests from now on belong to, for the server's log: "00-<32 digits>-<16 digits>-<2 digits>" of
 * W3C Trace Context. NULL or empty: none. INVALID_ARGUMENT where it is none. */
contactd_code contactd_set_traceparent(contactd_client *client, const char *traceparent);

typedef struct contactd_server { /* as the server said when it was last connected to; valid until the next call */
    const char *server, *backend, *rasterizer, *device;
    uint64_t epoch; /* differs after every server start */
    uint32_t protocol, lease_ms, max_resolution, max_in_flight;
    uint64_t max_message_bytes, max_triangles, max_vertices;
    const char *methods[8];
    uint32_t n_methods;
    uint32_t recoveries; /* times this client had to restore its state */
} contactd_server;

contactd_code contactd_get_server(contactd_client *client, contactd_server *out);
contactd_code contactd_ping(contactd_client *client, double *round_trip_us); /* may be NULL */

typedef struct contactd_device { /* what computes; strings and counters as in contactd_status */
    const char *device;
    uint64_t scenes, triangles;            /* open on it; of the bodies in them */
    uint64_t memory_budget, memory_used;   /* bytes of its own memory: may be used, are; 0: it has none */
    uint64_t memory_meshes, memory_bodies; /* of those used */
    uint64_t scratch_bytes, scratch_peak;
    uint64_t uploaded, downloaded, launches; /* bytes moved and kernels started since the server's start */
    bool lost;                               /* it failed for good; lost_reason says how */
    const char *lost_reason;
} contactd_device;

typedef struct contactd_status {
    const char *server, *backend, *rasterizer, *device, *simd, *ready_reason; /* valid until the next call */
    bool ready; /* a real step ran on the requested backend; else ready_reason says what is wrong */
    uint32_t threads;
    uint64_t epoch;
    double uptime_s;
    uint32_t sessions, scenes, meshes, bodies, queue_depth, queue_capacity, max_resolution;
    uint64_t mesh_bytes, mesh_bytes_limit, scene_bytes, scratch_bytes, steps, contacts, max_message_bytes;
    const contactd_device *devices; /* [n_devices], valid until the next call; device above is the first one's name */
    size_t n_devices;
    const char *methods[8]; /* [n_methods] that a scene can have; valid until the next call */
    uint32_t n_methods;
    const char *auto_method; /* that "auto" runs where no resolution and no pixel size is named */
    bool insecure; /* started with --insecure: other machines may reach it without keys, tokens and encryption */
} contactd_status;

contactd_code contactd_get_status(contactd_client *client, contactd_status *out);

typedef enum contactd_report {
    CONTACTD_REPORT_SESSIONS = 1, /* GET /v1/sessions */
    CONTACTD_REPORT_BODIES = 2,   /* GET /v1/scenes/{scene}/bodies */
    CONTACTD_REPORT_STATUS = 3,   /* GET /v1/status: more than contactd_status */
    CONTACTD_REPORT_CONTACTS = 4, /* GET /v1/scenes/{scene}/contacts: all of the last step */
} contactd_report;

/* The JSON document that HTTP answers (openapi.json describes it), with what this client's role may see. scene: the
 * server's handle, for BODIES and CONTACTS. *json has *size bytes and no NUL at its end, and is valid until the next
 * call on this client. UNSUPPORTED or MALFORMED: the server is older than this. */
contactd_code contactd_get_report(contactd_client *client, contactd_report kind, uint64_t scene, const char **json,
                                  size_t *size);
/* Ends the server, as SIGTERM does: it answers what it has, refuses new work with SHUTTING_DOWN, and ends. FORBIDDEN:
 * the role is simulator. */
contactd_code contactd_drain(contactd_client *client);

/* ---- meshes ---- */

/* Handles of meshes, scenes and bodies are numbers. A program that defines CONTACTD_STRICT_HANDLES before it includes
 * this file has them as types of their own instead, whose member `id` is the number: the compiler then refuses one in
 * the place of another. Both link to the same library. */
#ifdef CONTACTD_STRICT_HANDLES
#define CONTACTD_HANDLE(name)                                                                                          \
    typedef struct name {                                                                                              \
        uint32_t id;                                                                                                   \
    } name
#else
#define CONTACTD_HANDLE(name) typedef uint32_t name
#endif

CONTACTD_HANDLE(contactd_mesh); /* 0 is none; never reused by the same client */

typedef enum contactd_format {
    CONTACTD_FORMAT_AUTO = 0, /* told from the content */
    CONTACTD_FORMAT_OBJ,
    CONTACTD_FORMAT_OFF,
    CONTACTD_FORMAT_PLY,
    CONTACTD_FORMAT_STL,
    CONTACTD_FORMAT_GLTF, /* 2.0, text or binary (GLB), in one file; PARSE_ERROR or UNSUPPORTED of a server without */
} contactd_format;

typedef struct contactd_mesh_info {
    uint64_t id;      /* the server's handle */
    const char *hash; /* of the content; strings are valid until the next call */
    const char *name;
    uint64_t vertices, triangles, bytes;
    double volume, area, lo[3], hi[3]; /* m^3, m^2, m: of the rest positions */
    uint32_t bodies;                   /* that use it, of all clients */
    bool existed;                      /* resident before it was registered */
    uint64_t closing_vertices;         /* the last of `vertices`: of the walls behind an open surface */
    uint32_t shells;                   /* closed surfaces that it consists of; 0: the server is too old to tell, and of
                                          the rest, too */
    uint32_t doubled_shells;           /* of them, those that lie where another does, by accident as a rule: what is
                                          inside counts twice. A repair drops them */
    double center_of_mass[3];          /* m */
    double inertia[3][3];              /* m^5, about the centre of mass: times a density in kg/m^3, kg m^2 */
    int closing;      /* a contactd_closing, or that of a later version: of the registration that made it
                                          resident */
    double deviation; /* m, of a wrap: no point of it is further from the triangles given */
} contactd_mesh_info;

/* positions [n_vertices][3], triangles [n_triangles][3]; name may be NULL. Index k of a gradient is vertex k here.
 * INVALID_MESH names open or non-manifold edges, wrong orientation, and so on. Registering one content twice is cheap.
 */
contactd_code contactd_register_mesh(contactd_client *client, const char *name, const float *positions,
                                     size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                     contactd_mesh *out);
contactd_code contactd_register_mesh_f64(contactd_client *client, const char *name, const double *positions,
                                         size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                         contactd_mesh *out);
/* The bytes of a GLB, glTF, OBJ, OFF, PLY or STL file. */
contactd_code contactd_register_mesh_bytes(contactd_client *client, const char *name, const void *bytes, size_t size,
                                           contactd_format format, contactd_mesh *out);
/* Reads the file and uploads it. INVALID_ARGUMENT with field "path" if it cannot be read. */
contactd_code contactd_register_mesh_file(contactd_client *client, const char *path, contactd_mesh *out);

typedef enum contactd_closing {
    CONTACTD_CLOSING_NONE = 0,
    CONTACTD_CLOSING_HULL,
    CONTACTD_CLOSING_WRAP
} contactd_closing;

/* How a mesh is registered. A repair drops degenerate and duplicate triangles (of faces that are there for both sides
 * it keeps one, unless they are a sheet), welds vertices on open edges that lie at the same position, makes the triangles'
 * directions consistent and outward (a cavity keeps its own, but in a body that was mirrored as a whole), and fills
 * holes with triangles between their vertices. Vertices keep their number and order, so index k of a gradient is vertex
 * k as registered; a vertex that was welded to another is part of no triangle. A changed mesh has the hash of what
 * became of it. What cannot be repaired is INVALID_MESH, with the reason. */
typedef struct contactd_mesh_options {
    uint32_t cookie; /* set by contactd_mesh_options_init: no repair */
    int repair;      /* 0 or 1 */
    double max_hole; /* m, the widest hole to fill; 0: a tenth of the mesh's diagonal */
    double weld;     /* m, within which the repair welds vertices on open edges; 0: 1e-4 of the mesh's diagonal */
    double scale;    /* m, what a 1 in the file or the arrays is: 1e-3 for a file in mm; 0: 1 m. All else is in m.
                        UNSUPPORTED: the server is too old for it */
    /* Not all 0: the mesh is an open surface, such as a heightfield or a bowl, that bounds the volume behind it, along
     * this direction, down to ten diagonals below its furthest point. Triangles face against it or stand along it, and
     * seen along it the rim is made of simple loops, else INVALID_MESH. contactd_mesh_info.closing_vertices close it,
     * the last of the mesh's: entries do not have them, for theirs are added to the rim's vertices. A deformable
     * body takes positions, velocities and directions of the given vertices: walls stay along the direction wherever
     * the rim moves, and the cap keeps its distance from the rim. */
    double open_direction[3];
    /* CONTACTD_CLOSING_HULL: the mesh is the convex hull, exact, of the vertices that triangles use, whatever these do:
     * for surfaces that cannot be repaired. Vertices keep their number and order.
     * CONTACTD_CLOSING_WRAP: the mesh is a closed surface around the triangles, with vertices of its own. Inside is
     * what cannot be reached from afar without passing a triangle or a gap narrower than 3 resolutions. Where nothing
     * is behind a triangle, as of a sheet, the surface runs around it at 0.9 resolutions, at its rim up to twice as
     * far; edges and corners are cut by a resolution at most. contactd_repair.deviation tells how far it is from the
     * triangles.
     * Neither takes a repair or an open_direction. UNSUPPORTED: the server is too old for it. contactd_repair.closing
     * tells it. */
    contactd_closing closing;
    double resolution; /* m, of a wrap: the side of its grid's cubes; 0: a hundredth of the diagonal */
} contactd_mesh_options;
void contactd_mesh_options_init(contactd_mesh_options *options);
/* For `scale`: a unit of length in m, 0.001 of "mm"; also m, dm, cm, um, in, ft. 0: there is no such unit. */
double contactd_unit(const char *name);
/* As contactd_register_mesh and contactd_register_mesh_bytes; options NULL: the defaults. */
contactd_code contactd_register_mesh_with(contactd_client *client, const char *name, const float *positions,
                                          size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                          const contactd_mesh_options *options, contactd_mesh *out);
contactd_code contactd_register_mesh_bytes_with(contactd_client *client, const char *name, const void *bytes,
                                                size_t size, contactd_format format,
                                                const contactd_mesh_options *options, contactd_mesh *out);

/* ---- shapes ---- */

/* Meshes that need no triangles of the caller's, about the origin. Vertices lie on the shape, so a curved one is
 * convex, lies inside the shape, and is nowhere further from it than its tolerance. Boxes are exact. */
typedef enum contactd_shape_kind {
    CONTACTD_SPHERE = 1, /* size: radius */
    CONTACTD_ELLIPSOID,  /* the three semi-axes along x, y and z */
    CONTACTD_CAPSULE,    /* radius, and the length along z between the centres of its ends */
    CONTACTD_CYLINDER,   /* radius, height along z */
    CONTACTD_BOX,        /* the three whole sides along x, y and z */
} contactd_shape_kind;

#define CONTACTD_DEFAULT_TOLERANCE 2e-3 /* of the radius, of an ellipsoid the largest: 3,528 triangles of a sphere */
#define CONTACTD_LEAST_TOLERANCE   1e-6 /* of the largest half-extent */

typedef struct contactd_shape {
    contactd_shape_kind kind;
    double size[3]; /* m; what the kind does not have is 0 */
    double
        tolerance; /* m, at least CONTACTD_LEAST_TOLERANCE; 0: CONTACTD_DEFAULT_TOLERANCE, or the least if that is more.
                         Triangles of a sphere go as 1 / tolerance. A box has none */
} contactd_shape;

/* The mesh of a shape. The same shape is the same handle, made and sent once, until that is removed or forgotten. */
contactd_code contactd_register_shape(contactd_client *client, const contactd_shape *shape, contactd_mesh *out);
/* Ground below heights [n][m], m, down to ten diagonals of it: sample (i, j) is at x = i spacing[0], y = j spacing[1],
 * z its height; squares are cut from (i, j) to (i + 1, j + 1). n and m are 2 or more, spacing is in m. An open surface,
 * see contactd_mesh_options.open_direction. Each call registers one. */
contactd_code contactd_register_height_field(contactd_client *client, const double *heights, size_t n, size_t m,
                                             const double spacing[2], contactd_mesh *out);

/* What a repair, or closing, did. */
typedef enum contactd_change_kind {
    CONTACTD_DEGENERATE_TRIANGLES = 0, /* dropped: they name a vertex twice, or lie on a line and close nothing */
    CONTACTD_DUPLICATE_TRIANGLES,      /* dropped */
    CONTACTD_WELDED_VERTICES,
    CONTACTD_TURNED_TRIANGLES,
    CONTACTD_FILLED_HOLES,
    CONTACTD_CHANGE_KINDS
} contactd_change_kind;
typedef struct contactd_change {
    contactd_change_kind kind;
    uint64_t index; /* of the triangle or vertex as registered; of a hole: one of its vertices */
    double at[3];   /* m: the triangle's first corner, the vertex, or the middle of the hole */
    uint32_t edges; /* of a hole, else 0 */
} contactd_change;
typedef struct contactd_repair {
    contactd_closing closing;
    double deviation; /* m, of a wrap: no point of it is further from the triangles given */
    /* Of a file: faces of more than three corners that are not flat, cut where the area is least, and the most, m, that
     * a corner of one is off the plane of its face. */
    uint64_t uneven_polygons;
    double unevenness;
    int was_asked; /* 0: the mesh was registered without a repair; all below is 0 */
    uint64_t counts[CONTACTD_CHANGE_KINDS], fill_triangles;
    double moved;        /* m, the most that welding has moved a corner of a triangle */
    double self_overlap; /* m^3, in which the mesh overlaps itself, which a repair does not mend; NaN: not measured, as
                            parts of it share edges */
    uint32_t n_changes;
    contactd_change changes[4 * CONTACTD_CHANGE_KINDS]; /* [n_changes], up to four of each kind */
} contactd_repair;
contactd_code contactd_get_mesh_repair(contactd_client *client, contactd_mesh mesh, contactd_repair *out);

contactd_code contactd_get_mesh_info(contactd_client *client, contactd_mesh mesh, contactd_mesh_info *out);
/* The mesh as the server has it: what a file holds, without reading the format. Valid until the next call. */
typedef struct contactd_geometry {
    const float *positions; /* [n_vertices][3], m; rounded, where float32 does not hold what was registered */
    size_t n_vertices;
    const uint32_t *triangles; /* [n_triangles][3] */
    size_t n_triangles;
} contactd_geometry;
contactd_code contactd_get_mesh_geometry(contactd_client *client, contactd_mesh mesh, contactd_geometry *out);
/* Frees it on the server and here. CONFLICT while bodies use it. */
contactd_code contactd_remove_mesh(contactd_client *client, contactd_mesh mesh);
/* Drops the copy kept for a server that loses its meshes, and the handle; bodies of this client must not use it. */
contactd_code contactd_forget_mesh(contactd_client *client, contactd_mesh mesh);

/* All meshes of the server, whoever registered them. The list is valid until the next call on this client. */
contactd_code contactd_list_meshes(contactd_client *client, const contactd_mesh_info **out, size_t *n);
contactd_code contactd_find_mesh(contactd_client *client, const char *hash, contactd_mesh_info *out); /* >= 8 digits */
/* A handle for a mesh that the server has, whoever registered it, by 8 digits of its hash or more. No copy is kept
 * here: a server that loses the mesh loses this one's. */
contactd_code contactd_use_mesh(contactd_client *client, const char *hash, contactd_mesh *out);
contactd_code contactd_remove_mesh_by_hash(contactd_client *client, const char *hash);

/* ---- scenes and bodies ---- */

CONTACTD_HANDLE(contactd_scene);
CONTACTD_HANDLE(contactd_body); /* of one scene; counts from 1, never reused */

/* The settings of a scene: proto/settings.h has the struct, a comment for each member, and the methods;
 * docs/settings.md tells more. After contactd_settings_init every member is left out: opening a scene then takes its
 * default, configuring keeps its value. Left out is -1, converted to the member's type: CONTACTD_DEFAULT of the three
 * of a resolution.
 *
 * Settings that name a resolution or a pixel size, but no method, make the method LDI; else a tolerance makes it EBPI,
 * and else something of voxel trees VOXTREE. A change of the method drops what the new one does not take (but patches,
 * beside which it is refused); naming what the method does not take is INVALID_ARGUMENT. */
#define CONTACTD_DEFAULT UINT32_MAX
typedef ct_scene_settings contactd_settings;

void contactd_settings_init(contactd_settings *settings);

const char *contactd_method_name(ct_method method); /* "exact"; "unknown": this library does not know the number */
/* False: the library knows none of this name. "auto" is one. */
bool contactd_method_find(const char *name, ct_method *out);

/* settings may be NULL, name too. */
contactd_code contactd_open_scene(contactd_client *client, const char *name, const contactd_settings *settings,
                                  contactd_scene *out);
/* settings NULL: changes nothing. */
contactd_code contactd_configure(contactd_client *client, contactd_scene scene, const contactd_settings *settings);
contactd_code contactd_close_scene(contactd_client *client, contactd_scene scene); /* steps in flight are dropped */

typedef struct contactd_scene_info {
    uint64_t id;                /* the server's handle */
    const char *name, *owner;   /* valid until the next call; owner: the name of the client; "": none */
    contactd_settings settings; /* complete */
    ct_method running_method;   /* what steps run: settings.method, or what AUTO stands for */
    uint64_t revision;          /* of the settings: rises with every change of them; 0: the server is older than this */
    uint32_t bodies, contacts;  /* contacts of the last step */
    uint64_t bytes, steps;
    bool mine;
} contactd_scene_info;

contactd_code contactd_get_scene_info(contactd_client *client, contactd_scene scene, contactd_scene_info *out);
/* All scenes of the server. The list is valid until the next call on this client. */
contactd_code contactd_list_scenes(contactd_client *client, const contactd_scene_info **out, size_t *n);
/* Any scene, by the server's handle. settings NULL: only looks. out may be NULL. */
contactd_code contactd_configure_by_id(contactd_client *client, uint64_t id, const contactd_settings *settings,
                                       contactd_scene_info *out);

/* Takes all bodies of the scenes back to where they were when they were added, or copied by contactd_copy_scene: rigid
 * ones to their poses, deformable ones to their meshes' positions. One request for all scenes, 65,536 at most, each
 * once; it waits for their steps in flight. Settings and materials stay, continuous frames begin anew. Where it fails,
 * some of the scenes may be reset. UNSUPPORTED: the server is too old for it. */
contactd_code contactd_reset_scenes(contactd_client *client, const contactd_scene *scenes, size_t n);
/* Opens n scenes, 65,536 at most, with the settings, bodies, filters and materials of another one, in one request: for
 * contactd_step_many. Bodies have the same handles. They are at the poses of the scene's last step; deformable ones at
 * their meshes' positions. out: [n], all 0 where it fails. UNSUPPORTED: the server is too old for it. */
contactd_code contactd_copy_scene(contactd_client *client, contactd_scene scene, size_t n, contactd_scene *out);
/* As contactd_close_scene, in one request. An older server gets one for each. */
contactd_code contactd_close_scenes(contactd_client *client, const contactd_scene *scenes, size_t n);

/* Any scene, by the server's handle, also of another session if the role may (admin; simulator: its principal's). */
contactd_code contactd_close_scene_by_id(contactd_client *client, uint64_t id);

typedef struct contactd_body_options {
    uint32_t cookie;             /* set by contactd_body_options_init */
    bool rigid;                  /* a pose moves it; else its positions are given, starting at the mesh's */
    double pose[12];             /* rigid only */
    uint32_t group, mask;        /* a pair is computed if (a.group & b.mask) and (b.group & a.mask) */
    const contactd_body *ignore; /* never paired with this one */
    size_t n_ignore;
    bool self_contact; /* also computes the contact of the body with itself: where its winding number is 2 or more. Both
                          of the contact's bodies are then this one, and its parts are the two surfaces that bound the
                          overlap. It has the scene's method and resolution. UNSUPPORTED: the method finds none (exact
                          without patches and ldi do). Where it is covered three times, exact counts each two layers,
                          ldi once */
    ct_material material; /* for scenes with the law "pressure"; NaN: not given */
} contactd_body_options;

void contactd_body_options_init(
    contactd_body_options *options); /* deformable, identity, group 1, mask ~0, no self-contact */
/* The pose of the half-space of all points p with n . p <= offset, where n is the normal scaled to length 1: its z axis
 * is n, its origin n * offset. False: a pointer is NULL, the numbers are not finite, or the normal has no length from
 * 1e-150 to 1e150. */
bool contactd_plane_pose(const double normal[3], double offset, double pose[12]);
/* Adds that half-space: a floor or wall without a mesh. Steps move it by a pose, as a rigid body; contactd_plane_pose
 * makes one. It has no vertices: its part of a contact's gradient is empty, but its generalized_gradient is complete.
 * Method "exact" only. options: for group, mask and ignore; may be NULL. */
contactd_code contactd_add_half_space(contactd_client *client, contactd_scene scene, const double normal[3],
                                      double offset, const contactd_body_options *options, contactd_body *out);
contactd_code contactd_add_body(contactd_client *client, contactd_scene scene, contactd_mesh mesh,
                                const contactd_body_options *options, contactd_body *out); /* options may be NULL */
/* n rigid bodies in one request, all of them or none. meshes: of each, or with n_meshes 1 of all. poses: of each.
 * options: of each, for all but `rigid` and the pose; may be NULL. out: [n], zeros after an error. TOO_LARGE: n is
 * above 65,536; UNSUPPORTED: the server is too old for it; WRONG_LENGTH: n_meshes is neither n nor 1; else as
 * contactd_add_body. */
contactd_code contactd_add_bodies(contactd_client *client, contactd_scene scene, const contactd_mesh *meshes,
                                  size_t n_meshes, const double (*poses)[12], size_t n,
                                  const contactd_body_options *options, contactd_body *out);
/* A rigid body of a shape: contactd_register_shape, then contactd_add_body. options: for its pose and all else; may be
 * NULL. */
contactd_code contactd_add_shape(contactd_client *client, contactd_scene scene, const contactd_shape *shape,
                                 const contactd_body_options *options, contactd_body *out);
contactd_code contactd_remove_body(contactd_client *client, contactd_scene scene, contactd_body body);
/* Gives a body another mesh, after cutting or remeshing; the next step sees it. Waits for the scene's steps in flight.
 * The body keeps its handle, kind and filters, a rigid one its pose; a deformable one starts at the new mesh's
 * positions. From now on its updates and directions have the new mesh's vertices: those of the old size are
 * WRONG_LENGTH. After a timeout it is unknown whether it was done: calling it again is safe. UNSUPPORTED: the server is
 * too old for it. */
contactd_code contactd_replace_mesh(contactd_client *client, contactd_scene scene, contactd_body body,
                                    contactd_mesh mesh);

/* Changes what a body is made of (for scenes with the law "pressure"), or, with `other` not 0, what counts between the
 * two in place of what their materials come to: a field that is not given (NaN) is still the bodies' then, and
 * CT_MATERIAL_NONE ends it. Both may be the same body, for its contact with itself. Waits for the scene's steps in
 * flight, and outlives a restart of the server. UNSUPPORTED: the server is too old for it. */
contactd_code contactd_set_material(contactd_client *client, contactd_scene scene, contactd_body body,
                                    contactd_body other, const ct_material *material);

/* Whether the frames of the scene's contacts follow those before, so that tangents do not jump (off by default). The
 * tangents of a contact are then those of the contact with the same bodies and index in the scene's step that was
 * waited for before, projected across the new normal and scaled; a contact that step did not have begins with those of
 * its normal alone, as cells do. Setting it forgets them. They outlive a restart of the server. */
contactd_code contactd_set_continuous_frames(contactd_client *client, contactd_scene scene, bool on);

/* ---- steps ---- */

typedef enum contactd_update_kind {
    CONTACTD_POSITIONS = 1, /* all vertices of a deformable body */
    CONTACTD_RANGES = 2,    /* indices holds (first, count) pairs, positions their vertices one range after another */
    CONTACTD_INDEXED = 3,   /* indices holds a vertex for each of the positions */
    CONTACTD_POSE = 4,      /* a rigid body's pose */
} contactd_update_kind;

typedef struct contactd_update {
    contactd_body body;
    contactd_update_kind kind;
    const void *positions; /* [count][3], world axes, m; read during the call */
    bool float64;          /* positions are double, else float */
    uint64_t count;        /* vertices */
    const uint32_t *indices;
    uint64_t n_indices; /* numbers, not pairs */
    double pose[12];
} contactd_update;

contactd_update contactd_move(contactd_body body, const double pose[12]);
contactd_update contactd_deform(contactd_body body, const float *positions, size_t n_vertices);

enum {                              /* what a step returns, beside bodies, volumes and error estimate */
       CONTACTD_WANT_FRAME = 1,     /* generalized gradients, area, normal, tangents, centre, depth */
       CONTACTD_WANT_GRADIENT = 2,  /* sparse dV/dx */
       CONTACTD_WANT_FRICTION = 4,  /* friction weights */
       CONTACTD_WANT_FORCES = 8,    /* f = -k V dV/dx */
       CONTACTD_WANT_SPANS = 16,    /* where each ray lies inside both bodies, for pictures; ldi only */
       CONTACTD_WANT_INERTIA = 32,  /* second moments of the intersection; exact only */
       CONTACTD_WANT_SURFACE = 128, /* the contact surface, contactd_polygon; exact only */
       CONTACTD_WANT_IDS = 256,     /* numbers that contacts and points keep from step to step */
       CONTACTD_WANT_POINTS = 512,  /* points of contacts: the scene's max_points, or 4 where that is 0 */
       CONTACTD_WANT_ALL = 15,      /* frame, gradient, friction and forces */
};

enum { CONTACTD_MAX_DIRECTIONS = 12 }; /* of a step: those of two rigid bodies */

/* One body's part of a direction; a body without a part does not move along it. */
typedef struct contactd_direction {
    contactd_body body;
    uint32_t index;       /* which direction this is a part of: 0 .. CONTACTD_MAX_DIRECTIONS - 1 */
    const double *values; /* of a deformable body: [vertices][3], m, a displacement of every vertex; NULL: a twist */
    double twist[6];      /* of a rigid one: translation, m, then rotation about the body's origin, rad; world axes */
} contactd_direction;

/* One body's velocity; a body without one is at rest. */
typedef struct contactd_velocity {
    contactd_body body;
    const double *values; /* of a deformable body: [vertices][3], m/s, of every vertex; NULL: a twist */
    double twist[6];      /* of a rigid one: of its origin, m/s, then angular velocity, rad/s; world axes */
} contactd_velocity;

typedef struct contactd_step_options {
    uint32_t cookie;      /* set by contactd_step_options_init */
    uint32_t want;        /* CONTACTD_WANT_...; ALL */
    uint32_t deadline_us; /* the server answers DEADLINE_EXCEEDED if it has not ended by then; 0: none */
    /* Limits for methods that adapt to them. INVALID_ARGUMENT if the scene's method does not take the limit (only
     * voxtree takes a time budget). A scene with "auto" and no sampling runs "ebpi" in a step with a tolerance. */
    uint32_t time_budget_us; /* wall-clock time of the computation, for voxtree; 0: none */
    double tolerance;        /* m^3, in place of the scene's; 0: the scene's */
    /* Directions for products with the exact second derivative, at the state after the step's updates; read during the
     * call. Each body and index at most once. INVALID_ARGUMENT if the scene's method gives none; "exact" does. */
    const contactd_direction *directions; /* [n_directions] parts */
    size_t n_directions;
    /* Velocities at the state after the step's updates, for slip and friction (contactd_contact.relative_velocity);
     * read during the call. At most one of each body. They imply FRAME and FRICTION. */
    const contactd_velocity *velocities; /* [n_velocities] */
    size_t n_velocities;
    double viscosity; /* N s/m^3, of friction; 0: none. INVALID_ARGUMENT without velocities */
} contactd_step_options;

void contactd_step_options_init(contactd_step_options *options);

typedef struct contactd_sparse { /* one part's vertices with a non-zero gradient, in rising order */
    uint64_t n;
    const uint32_t *vertices;
    const double *gradient; /* [n][3], m^2; NULL unless wanted, as the following */
    const double *weights;  /* [n], m^2 */
    const double *forces;   /* [n][3], N, without friction */
    const double
        *friction; /* [n][3], N; NULL in a step without velocities, without viscosity, or, with the law "pressure",
                               without forces */
} contactd_sparse;

/* Products of the second derivative H of the volume with a step's directions: one part's vertices at which some product
 * is not 0, in rising order. */
typedef struct contactd_products {
    uint64_t n;
    const uint32_t *vertices;
    const double *values; /* [n][contactd_result.n_directions][3], m^2: the derivative of dV/dx along the direction */
} contactd_products;

/* A part of the contact surface: flat, convex, between both bodies. Lines along the contact's normal run through both
 * bodies; where they begin on the surface of one and end on the other's is a polygon, at the same fraction of the way
 * in all of a contact, which is as flat there as it can be. With the law "pressure" the forces of a contact's polygons
 * sum to its wrench. */
typedef struct contactd_polygon {
    double center[3]; /* m, world: the centroid */
    double normal[3]; /* unit vector that pushes bodies[0] out */
    double area;      /* m^2 */
    /* m/s: of the surface of bodies[1] relative to that of bodies[0], along the polygon; 0 without velocities. */
    double slip[3];
    /* N: of pressure and friction on bodies[0], opposite on bodies[1]; 0 but with the law "pressure". */
    double force[3];
    double torque[3]; /* N m: of these, about center */
} contactd_polygon;

typedef struct contactd_polygon_vertex {
    double position[3]; /* m, world */
    double depth;       /* m: the length of the line inside both bodies; linear on a polygon */
    double pressure;    /* Pa: 0 but with the law "pressure" */
} contactd_polygon_vertex;

/* A volume that two bodies share. A pair of bodies has one contact, or with the setting patches one for each connected
 * part of its intersection. In a contact of a body with itself both bodies are the same, and the parts 0 and 1 are the
 * two surfaces of it that bound the volume. A vertex may be in both: add up the two parts' gradients (sparse,
 * generalized_gradient).
 *
 * With a viscosity ν, friction on a flat patch that slides at t is -ν area t, on one that turns the torque
 * -ν area^2 / (2 pi) spin, that of a disc. The forces on both parts are opposite, as are their torques about any point,
 * and never add energy. With the law "pressure" friction is Coulomb's, and wrench has it. */
typedef struct contactd_contact {
    contactd_body bodies[2];
    /* clang-format off */
    /* catalogue: begin contact */
    /* among the contacts of this pair of bodies, from 0 */
    uint32_t index;
    /* m^3: of the intersection; ldi: the mean of the three views, weighted by what they resolve */
    double volume;
    /* m^3: ldi, ebpi: the volume as seen along x, y, z; exact: all are volume */
    double volumes[3];
    /* m^3: guaranteed bound of the error of volume (by ebpi only if strict); none where the method gives none (ldi);
       else NaN */
    double error_bound;
    /* m^3: bounds of the errors of volumes, guaranteed as error_bound is; none, all three, where the method gives none
       (ldi); else NaN */
    double error_bounds[3];
    /* m^3: an estimate of the error of volume, no bound. ldi: in 93 to 97 of 100 contacts the error is below it, the
       less the coarser. exact: error_bound. ebpi: the larger of what independent errors of tiles come to and a quarter
       of the bound, above 95 of 100 errors. voxtree: above 95 of 100 errors. LDI's is made from the spread of the three
       volumes and their rays. VOXTREE's is a part of error_bound: a quarter where volume_lower is above 0, half where
       it is 0, and all of it on levels 0 and 1 */
    double error_estimate;
    /* largest |winding number| of one body at points of the other's surface; 0: not counted (ldi, ebpi, voxtree). Above
       1 that body overlaps itself there, and the volume counts the place as often. 1 does not exclude it: a body that
       overlaps itself where no surface of the other one passes, as where it lies wholly inside the other, is counted as
       often too. Of a body with itself: just outside its surface, 1 where it overlaps itself once */
    uint32_t max_winding;
    /* of both surfaces, those with a corner inside the other body where that is inside out: its winding number is
       negative, and the volume there counts negatively; 0 too where max_winding is 0 (ldi). Of a body with itself: just
       outside a corner, and the volume there counts positively */
    uint32_t inverted_triangles;
    /* m^3: sampled: the volume inside both bodies where one or both are inside out, which volume leaves out: one of the
       winding numbers is negative, and none is 0; none: not sampled (exact, voxtree, and cells). The views' mean,
       weighted as volume's. Of a body with itself: where its winding number is negative; else NaN */
    double inverted_volume;
    /* m^3: voxtree: guaranteed lower end of the volume; 0: the bodies may have no contact. Other methods: none. Both
       ends close in from level to level. Volume where one of the bodies overlaps itself counts once; else NaN */
    double volume_lower;
    /* m^3: voxtree: guaranteed upper end of the volume. Other methods: none; else NaN */
    double volume_upper;
    /* m^2: |dV/d(translation)|: that of the contact as seen along its normal, where it is not nested; the sum of one
       part's friction weights */
    double area;
    /* m: mean depth: volume / area; 0 where area is 0 */
    double depth;
    /* unit vector that pushes the first body out of the second; 0 if no direction does (nested bodies) */
    double normal[3];
    /* unit vectors, orthogonal to the normal and to each other */
    double tangents[2][3];
    /* m: ldi: midpoint of the two surfaces' weighted barycentres; exact: the intersection's centre of gravity */
    double center[3];
    /* m: the barycentre of each part's surface, its vertices weighted by friction weights. See Allard 2010. It is
       center where the weights cancel, as in nested bodies */
    double side_center[2][3];
    /* m^2, m^3: per part: dV/d(translation), then dV/d(rotation about the body's origin). The origin is a rigid body's
       t, a deformable body's 0 0 0 */
    double generalized_gradient[2][6];
    /* the surface of one of the bodies is wholly inside the other: no direction lessens the volume, and the contact has
       no normal, and no force but that of the law pressure, the shortest way out of a rigid body or half-space. A
       warning of the step names the inner body. Move a nested body out along the way that it came in, or take smaller
       steps, so that surfaces meet first. Of a body with itself: a closed part of its surface is wholly inside. Not
       known by voxtree's trees */
    bool is_nested;
    /* the contact's own number: it keeps it from step to step while it persists; 0 of a cell. Numbers count from 1 in
       each scene, rise in the order in which contacts begin, and are never given twice. gpu/after/identity.h says which
       contact of a step is which of the step before it that wanted ids */
    uint64_t id;
    /* it began with this step: the step before it that wanted ids does not have it */
    bool is_new;
    /* m^5: the integral over the intersection of |r|^2 - r r^T, r from center; times a density, the inertia tensor
       about center */
    double inertia[3][3];
    /* m/s: of the second part relative to the first: the sum of friction weight times velocity, over area. Where both
       bodies only translate, it is the difference of their velocities */
    double relative_velocity[3];
    /* rad/s: of the second part relative to the first, about the normal */
    double spin;
    /* N, N m: per part: friction, and its torque about the body's origin; by the law volume it is viscous, by pressure
       Coulomb's. It acts on both bodies at one point, or at the same points: torques about any point are opposite, too
       */
    double friction[2][6];
    /* N, N m: per part: the force of pressure and friction on the body, and its torque about the body's origin. The
       wrenches of both parts are opposite: their forces, and their torques about any common point */
    double wrench[2][6];
    /* m: half extents along axes of the rectangle with the contact's area moments: sqrt(3) times their standard
       deviations */
    double extents[2];
    /* unit vectors of the longer and the shorter extent, orthogonal to the normal and to each other */
    double axes[2][3];
    /* of a cell: the cube from cell to cell + 1, times cell_size, along x, y, z */
    int32_t cell[3];
    /* catalogue: end contact */
    /* clang-format on */
    contactd_sparse sparse[2]; /* per part */
    uint64_t n_spans;
    const float *spans;            /* [n_spans][6]: lower xyz, upper xyz, m; or NULL */
    const uint8_t *span_axes;      /* [n_spans]: 0 x, 1 y, 2 z */
    contactd_products products[2]; /* per part; n is 0 in a step without directions */
    /* [n_directions][2][6]: the derivative of generalized_gradient along each direction; NULL: no directions. For rigid
     * bodies the Jacobian that Newton's method needs. */
    const double *generalized_product;
    /* With a cell_size, the part of the contact in each cube of the grid that holds volume (Allard 2010, section 5), in
     * rising order of cell[0], cell[1], cell[2]. A cell is a contact of its own, without spans and products: it has a
     * gradient that sums to 0 over both bodies, a frame, weights, slip, and forces -k V_c dV_c/dx. The cells' volumes
     * and gradients sum to the contact's but for the rounding of each number to double. */
    uint32_t n_cells;
    const struct contactd_contact *cells; /* [n_cells]; NULL: none */
    /* Points that stand for the contact, of steps that want them, of scenes with max_points, and by voxtree.
     * [n_points][8]: position in m, unit normal that pushes bodies[0] out, depth in m, weight; weights sum to 1.
     * voxtree: means of what met, in falling order of weight. Other methods: weight is the point's share of `area`; the
     * normal is the point's own, between the surfaces there, depth the length of the line along it inside both bodies,
     * position its middle. They are corners of the intersection, seen along the normal: the deepest, the farthest from
     * it, and then those that add most to the area between them, each times its depth; a ball has one, a box on its
     * face four. With a cell_size they are the cells of most volume. Cells and nested bodies have none. */
    uint64_t n_points;
    const double *points;
    const uint32_t *point_groups; /* [n_points][2], voxtree: the parts of both surfaces that met; 65535: the body's
                                     inside. Else the contact's index, and the cell's, or 65535 */
    const uint64_t *point_ids;    /* [n_points], of steps that want ids: as `id`, and of the same numbers; else NULL */
    /* The contact surface, of steps that want it. Polygon i has the vertices from polygon_vertices[polygon_offsets[i]]
     * to before [polygon_offsets[i + 1]], counter-clockwise about its normal. Cells and nested bodies have none. */
    uint64_t n_polygons;
    const contactd_polygon *polygons;                /* [n_polygons]; NULL: not wanted, as the following */
    const uint32_t *polygon_offsets;                 /* [n_polygons + 1] */
    const contactd_polygon_vertex *polygon_vertices; /* of all contacts of the result */
} contactd_contact;

/* How far voxtree came with a pair of bodies. */
typedef struct contactd_pair_progress {
    contactd_body bodies[2];
    bool is_examined; /* false: not at all, so whether they touch is not known: no contact, and no separation either */
    bool is_refined;  /* the contact is that of "exact"; if there is none, they do not touch */
    uint32_t levels[2]; /* of their trees that the answer is from */
    const char *ended;  /* as contactd_result.ended */
} contactd_pair_progress;

/* Two bodies that have no contact and are closer than the scene's margin: the distance of the closest features of all
 * their triangles, in double precision. It is no volume, and no part of any. */
typedef struct contactd_separation {
    contactd_body bodies[2];
    double distance;     /* m, >= 0; 0: the surfaces touch, or cross where the method found no volume */
    double normal[3];    /* unit vector that pushes bodies[0] away from bodies[1]; 0 where they touch at edges alone */
    double points[2][3]; /* m, world: the closest points of the two surfaces */
} contactd_separation;

enum { CONTACTD_PHASES = 7 };
const char *contactd_phase_name(int phase); /* queue, upload, broadphase, raster, span, contact, download; or "" */

/* A condition under which a body's contacts mean little; of several of one body the first of these. BODY_INVERTED: the
 * signed volume of a deformable body is below minus 1e-6 of its mesh's. BODY_COLLAPSED: it is at most 1e-6 of that on
 * either side of 0. NO_VELOCITIES: with the law "pressure" its contact has friction or dissipation, and the step no
 * velocities, so that neither acts. NESTED: the body is wholly inside another (contactd_contact.is_nested), so that
 * its volume has no gradient; the law "pressure" pushes it the shortest way out of a rigid body. UNPLACED: a pair of the
 * body is left out, as the method's coordinates cannot hold both (skip_unplaced). Given by every step's
 * result while the condition lasts. A newer server may send codes that this version does not know. */
typedef struct contactd_warning {
    contactd_warning_code code;
    contactd_body body;
    double value; /* m^3: the body's signed volume; of NO_VELOCITIES and NESTED the contact's; of UNPLACED NaN */
} contactd_warning;

const char *contactd_warning_name(contactd_warning_code code); /* "BODY_INVERTED" */
const char *contactd_warning_text(contactd_warning_code code);

typedef struct contactd_result {
    uint32_t n_contacts; /* in rising order of their bodies on the server */
    const contactd_contact *contacts;
    const char *method, *backend;       /* that ran */
    uint64_t pairs, rays, fragments;    /* fragments: a measure of work */
    double timings_us[CONTACTD_PHASES]; /* the engine's are summed over its threads */
    double wall_us[CONTACTD_PHASES];    /* the same by the clock: the step's part of the time that its batch took; all
                                           0 from a server that is older than this field */
    double latency_us;                  /* from submission to the answer's arrival here */
    uint32_t n_warnings;                /* in rising order of their bodies on the server */
    const contactd_warning *warnings;
    uint32_t n_directions; /* 1 + the largest index of the step's directions; 0: it had none */
    /* What the step ran with, complete but that a resolution of 0 0 0 is none. Whoever may configure the scene can have
     * changed it. */
    contactd_settings settings;
    uint64_t revision; /* of the settings; 0: the server is older than this, and settings are those asked for */
    /* Why the method stopped: "completed", or, if the bound of a pair is above the tolerance, "ray_budget",
     * "pass_limit" or "precision" (ebpi); by voxtree the last that holds of a pair of bodies of "level" (the trees go
     * on below the scene's), "pairs" (the budget of pairs) and "time" (time_budget_us). */
    const char *ended;
    uint32_t passes; /* ebpi: over the tiles, of the pair that took most */
    /* Whether contacts tell of slip: the step had velocities, the server knows them, and there is a contact. */
    bool has_slip;
    bool has_wrenches; /* contacts have a wrench: the scene has the law "pressure", and there is a contact */
    double quality;    /* 0..1: how much of its work the method did; 1 if it completed */
    uint32_t n_progress;
    const contactd_pair_progress *progress; /* [n_progress]: voxtree: every pair of bodies whose boxes overlap */
    uint32_t n_separations;                 /* in rising order of their bodies on the server */
    const contactd_separation *separations; /* [n_separations]: in scenes with a margin */
    uint64_t n_ended_ids;
    const uint64_t *ended_ids; /* [n_ended_ids] in rising order, of steps that want ids: of the contacts that the step
                                  before it which wanted them had, and this one has not */
    uint32_t groups;           /* of fields that contacts have, as bits: for contactd_result_column */
} contactd_result;

/* Of a field of contacts, for contactd_result_column; a number is never given to another field. */
typedef enum contactd_column_id {
    CONTACTD_COLUMN_BODIES = 0, /* u32[2], handles */
    /* clang-format off */
    /* catalogue: begin columns */
    CONTACTD_COLUMN_INDEX = 19, /* u32 */
    CONTACTD_COLUMN_VOLUME = 2, /* f64, m^3 */
    CONTACTD_COLUMN_VOLUMES = 3, /* f64[3], m^3 */
    CONTACTD_COLUMN_ERROR_BOUND = 4, /* f64, m^3 */
    CONTACTD_COLUMN_ERROR_BOUNDS = 39, /* f64[3], m^3 */
    CONTACTD_COLUMN_ERROR_ESTIMATE = 5, /* f64, m^3 */
    CONTACTD_COLUMN_MAX_WINDING = 20, /* u32 */
    CONTACTD_COLUMN_INVERTED_TRIANGLES = 31, /* u32 */
    CONTACTD_COLUMN_INVERTED_VOLUME = 40, /* f64, m^3 */
    CONTACTD_COLUMN_VOLUME_LOWER = 35, /* f64, m^3 */
    CONTACTD_COLUMN_VOLUME_UPPER = 36, /* f64, m^3 */
    CONTACTD_COLUMN_AREA = 6, /* f64, m^2 */
    CONTACTD_COLUMN_DEPTH = 7, /* f64, m */
    CONTACTD_COLUMN_NORMAL = 8, /* f64[3] */
    CONTACTD_COLUMN_TANGENTS = 9, /* f64[2][3] */
    CONTACTD_COLUMN_CENTER = 10, /* f64[3], m */
    CONTACTD_COLUMN_SIDE_CENTER = 26, /* f64[2][3], m */
    CONTACTD_COLUMN_GENERALIZED_GRADIENT = 11, /* f64[2][6], m^2, m^3 */
    CONTACTD_COLUMN_IS_NESTED = 45, /* flag */
    CONTACTD_COLUMN_ID = 48, /* u64 */
    CONTACTD_COLUMN_IS_NEW = 49, /* flag */
    CONTACTD_COLUMN_INERTIA = 21, /* f64[3][3], m^5 */
    CONTACTD_COLUMN_RELATIVE_VELOCITY = 27, /* f64[3], m/s */
    CONTACTD_COLUMN_SPIN = 28, /* f64, rad/s */
    CONTACTD_COLUMN_FRICTION = 29, /* f64[2][6], N, N m */
    CONTACTD_COLUMN_WRENCH = 41, /* f64[2][6], N, N m */
    CONTACTD_COLUMN_EXTENTS = 43, /* f64[2], m */
    CONTACTD_COLUMN_AXES = 44, /* f64[2][3] */
    /* catalogue: end columns */
    /* clang-format on */
} contactd_column_id;

typedef enum contactd_column_type {                        /* of each number */
                                    CONTACTD_TYPE_F64 = 0, /* double */
                                    CONTACTD_TYPE_U32,
                                    CONTACTD_TYPE_I32,
                                    CONTACTD_TYPE_FLAG, /* bool */
                                    CONTACTD_TYPE_U64,
} contactd_column_type;

/* One field of all contacts of a result, where it lies: the value of contact i begins at (const char *)data + i *
 * stride. */
typedef struct contactd_column {
    const void *data; /* NULL: there is no contact */
    size_t stride;    /* bytes from one contact to the next */
    size_t n;         /* contacts */
    contactd_column_type type;
    uint32_t rows, columns;  /* of a contact's value, row after row without gaps; 1 and 1: a number */
    const char *name, *unit; /* "generalized_gradient", "m^2, m^3"; unit "": none */
} contactd_column;

/* Valid for as long as the result. NOT_FOUND: the step did not ask for the field, or has no such thing (wrenches
 * without the law "pressure"); INVALID_ARGUMENT: there is no such column, or a pointer is NULL. */
contactd_code contactd_result_column(const contactd_result *result, contactd_column_id id, contactd_column *out);

typedef uint64_t contactd_ticket; /* a step in flight; 0 is none */

/* Hands a step to the server and returns. At most contactd_server.max_in_flight of a client are in flight: beyond that
 * it waits for the oldest to be answered. options may be NULL. Updates name each body at most once. */
contactd_code contactd_step_submit(contactd_client *client, contactd_scene scene, const contactd_update *updates,
                                   size_t n_updates, const contactd_step_options *options, contactd_ticket *out);
/* *out is valid until the next wait on this client, or for longer with contactd_result_keep. Steps may be waited for in
 * any order, each once. After DEADLINE_EXCEEDED or UNREACHABLE of this client's own timeout (field "timeout_ms") the
 * step is still in flight: wait again. TIME_LIMIT: the step took longer than the scene's max_step_time, or than the
 * server allows. SERVER_ENDED: the server ended twice while it computed the step, which is not sent again. After both,
 * as after all errors of a step, the bodies are where the last answered step left them, and the scene can be stepped
 * on. */
contactd_code contactd_step_wait(contactd_client *client, contactd_ticket ticket, const contactd_result **out);
contactd_code contactd_step(contactd_client *client, contactd_scene scene, const contactd_update *updates,
                            size_t n_updates, const contactd_step_options *options, const contactd_result **out);
/* Makes a result of the last wait on this client the caller's: it stays valid, with all that it points to, until
 * contactd_result_release or contactd_close, through any other call. Any number may be kept; each keeps its answer's
 * memory. NOT_FOUND: it is not the last one, or is kept already. */
contactd_code contactd_result_keep(contactd_client *client, const contactd_result *result);
/* *result becomes NULL; NULL is allowed. NOT_FOUND: it is not kept by this client. */
contactd_code contactd_result_release(contactd_client *client, const contactd_result **result);

/* ---- steps of many scenes ---- */

/* A step of each of many scenes, in one message and one batch: for the environments of learning, which are built alike.
 * The same bodies move in all of them: scenes that were built in the same order have the same handles. */
typedef struct contactd_many {
    uint32_t cookie;              /* set by contactd_many_init: nothing moves, want FRAME */
    const contactd_scene *scenes; /* [n_scenes], each once, 65,536 at most; none with continuous frames */
    size_t n_scenes;
    const contactd_body *posed; /* [n_posed] rigid bodies, of every scene */
    size_t n_posed;
    const double *poses;         /* [n_scenes][n_posed][12] */
    const contactd_body *moving; /* [n_moving] rigid bodies with a velocity; the others are at rest */
    size_t n_moving;
    const double *twists;      /* [n_scenes][n_moving][6], m/s and rad/s, as contactd_velocity.twist */
    const contactd_body *soft; /* [n_soft] deformable bodies */
    size_t n_soft;
    const void *positions; /* [n_scenes][the sum of these bodies' vertices][3], m */
    /* Rows of positions, of all scenes: WRONG_LENGTH where the bodies have other numbers of vertices. */
    size_t n_positions;
    bool float64; /* positions are double, else float */
    /* CONTACTD_WANT_FRAME, CONTACTD_WANT_INERTIA, CONTACTD_WANT_IDS; 0: bodies, volumes and their errors. */
    uint32_t want;
    uint32_t deadline_us; /* as contactd_step_options */
} contactd_many;

typedef struct contactd_many_error { /* of a step that failed, alone */
    size_t scene;                    /* its index in contactd_many.scenes */
    contactd_error error;
} contactd_many_error;

/* The contacts of many scenes' steps, one scene's after the other's. It is the caller's, and needs no client. */
typedef struct contactd_many_result {
    size_t n_scenes, n_contacts;
    const uint32_t *offsets;     /* [n_scenes + 1]: scene k has the contacts from offsets[k] to before offsets[k + 1] */
    const uint32_t *scene_index; /* [n_contacts]: which of the scenes a contact is of */
    const char *const *ended;    /* [n_scenes]: as contactd_result.ended; NULL: its step failed */
    size_t n_errors;
    const contactd_many_error *errors; /* [n_errors], in rising order of scene */
    struct contactd_many_parts *parts; /* the library's own */
} contactd_many_result;

void contactd_many_init(contactd_many *many);
/* Steps all the scenes and waits for the answer, and first for steps of them in flight. *result must be NULL, or a
 * result of before, whose memory is used again; it is to be freed. A step that fails fails alone: the call is OK, and
 * errors has it. A call that fails has changed no scene and no result. The bits are those of single steps. UNSUPPORTED:
 * the server is too old for it: submit the steps one by one. TOO_LARGE: the message or the answer; take fewer
 * scenes. */
contactd_code contactd_step_many(contactd_client *client, const contactd_many *many, contactd_many_result **result);
/* As contactd_result_column; wrenches and whatever else has two parts are [2][6] here too. */
contactd_code contactd_many_column(const contactd_many_result *result, contactd_column_id id, contactd_column *out);
void contactd_many_result_free(contactd_many_result **result); /* nulls; NULL is allowed */

/* ---- beside other work: event loops ---- */

/* A descriptor for poll, select or epoll (readable), of this client's connection; -1: client is NULL. It tells of
 * changes once, not for as long as something is there: after it is readable, and after any other call of this client
 * that may have sent or taken in something, call contactd_process before waiting for it again. Only wait for it: never
 * read, write or close it. A client that is given another server gets another descriptor: ask again after each
 * contactd_process. */
int contactd_fd(const contactd_client *client);
/* Takes in the answers that have come, sends what waits to be sent, and does not wait for more. *wait_ms (may be NULL):
 * call it again after at most so many milliseconds, though the descriptor stays silent, as a step is to be sent again,
 * or the connection to be looked after; -1: no step is in flight. Only to bring back scenes on a server that was
 * started anew it takes as long as that takes, up to the client's timeout. Errors are of the connection; those of steps
 * come with the steps. */
contactd_code contactd_process(contactd_client *client, int *wait_ms);
/* contactd_process, and the step's result, as contactd_step_wait gives it, if it has been answered; OK with *out NULL:
 * not yet. */
contactd_code contactd_step_try_wait(contactd_client *client, contactd_ticket ticket, const contactd_result **out);
/* Waits until some step in flight is answered: *out is the first of them that was submitted, for contactd_step_wait,
 * which then does not wait. 0: none is in flight. DEADLINE_EXCEEDED, UNREACHABLE: as contactd_step_wait. */
contactd_code contactd_wait_any(contactd_client *client, contactd_ticket *out);

/* ---- pictures ---- */

enum { /* what a picture shows */
       CONTACTD_SHOW_BODIES = 1,
       CONTACTD_SHOW_SAMPLES = 2, /* the ends of the intersections' rays: red, green, blue along x, y, z */
       CONTACTD_SHOW_AXES = 4,
       /* What the scene's method finds, where it has it; else INVALID_ARGUMENT: */
       CONTACTD_SHOW_CONTACTS = 8,   /* each contact or patch in a colour of its own, with its normal */
       CONTACTD_SHOW_GRADIENTS = 16, /* an arrow along dV/dx from every vertex */
       CONTACTD_SHOW_RAYS_X = 32,    /* ebpi: the tiles of the view along x, coloured by the density of their rays */
       CONTACTD_SHOW_RAYS_Y = 64,
       CONTACTD_SHOW_RAYS_Z = 128,
       CONTACTD_SHOW_RAYS = 224,    /* all three */
       CONTACTD_SHOW_NODES = 256,   /* voxtree: the cubes of the level that steps come to, coloured by occupancy */
       CONTACTD_SHOW_NORMALS = 512, /* voxtree: normals of all pairs of cubes that meet, red, and reduced ones, green */
       CONTACTD_SHOW_SURFACE = 1024, /* exact: the contact surface, coloured by its pressure, or its depth */
};

typedef struct contactd_snapshot_options { /* the server's default: 0, or NaN for a double */
    uint32_t cookie;                       /* set by contactd_snapshot_options_init: every field default */
    uint32_t width, height;                /* pixels, 16..4096; 960 x 720 */
    uint32_t contact[2];                   /* two bodies: only they, and where they touch */
    uint32_t show;                         /* CONTACTD_SHOW_...; bodies, samples and axes */
    uint32_t resolution;                   /* ray samples across the window; the scene's */
    double azimuth, elevation;             /* degrees about and above the plane across `up`; -60, 20 */
    double zoom, field_of_view, opacity;   /* 1, 30 degrees, 0.3 */
    const double *up, *eye, *target;       /* [3], m, or NULL: 0 0 1, a place from which all is seen, the middle */
    const double *background;              /* [4] red, green, blue, alpha in 0..1, or NULL: white */
} contactd_snapshot_options;

void contactd_snapshot_options_init(contactd_snapshot_options *options);
/* A PNG file, valid until the next call. options may be NULL. The scene is as its last step left it, and stays so.
 * UNSUPPORTED: the server has no OpenGL. */
contactd_code contactd_snapshot(contactd_client *client, contactd_scene scene, const contactd_snapshot_options *options,
                                const void **png, size_t *size);
/* Of any scene, by the server's handle; then `contact` holds the server's numbers of bodies too. */
contactd_code contactd_snapshot_by_id(contactd_client *client, uint64_t id, const contactd_snapshot_options *options,
                                      const void **png, size_t *size);

/* One body's part of vectors with three components for each vertex of each body. */
typedef struct contactd_body_vectors {
    contactd_body body;
    uint64_t vertices; /* of the body */
    const double *in;  /* [n_vectors][vertices][3]; NULL: all 0 */
    double *out;       /* [n_vectors][vertices][3], added to; NULL: not wanted. It may not overlap any `in` */
} contactd_body_vectors;

/* out += K d for n_vectors vectors d at once, over all contacts of the result: the sum of contactd_stiffness_product.
 * Bodies are in rising order; one that is left out does not move. Needs GRADIENT. INVALID_ARGUMENT (no gradient, the
 * bodies' order), UNSUPPORTED: a contact of voxtree that was not refined, which has no gradient of vertices;
 * WRONG_LENGTH: a contact has a vertex that `vertices` does not. A call that fails has added nothing, and
 * contactd_last_error tells the rest. */
contactd_code contactd_stiffness_products(contactd_client *client, const contactd_result *result, double stiffness,
                                          const contactd_body_vectors *bodies, size_t n_bodies, size_t n_vectors);

/* out += -k g (g . in) with g = dV/dx of the contact: the stiffness product of implicit integration, never assembled.
 * in[i] and out[i] are dense [vertices][3] of bodies[i]; either may be NULL: that body's part is left out. For a
 * contact of a body with itself one of the two is enough, and stands for both. Needs GRADIENT. UNSUPPORTED, with
 * nothing added: a contact of voxtree that was not refined, which has no gradient of vertices. INVALID_ARGUMENT: NULL
 */
contactd_code contactd_stiffness_product(const contactd_contact *contact, double stiffness, const double *const in[2],
                                         double *const out[2]);

/* out += H d for direction `direction` of the step: dense, as above. With it the exact derivative of the penalty force
 * along d is -k (V H d + g (g . d)), whose second term is the product above. Does nothing if the result has no such
 * direction. */
void contactd_hessian_product(const contactd_result *result, const contactd_contact *contact, uint32_t direction,
                              double *const out[2]);

/* The intersection of two meshes a and b; the names are those of contactd_contact. */
typedef struct contactd_overlap {
    double volume;                      /* m^3; 0: they do not overlap, and what follows is 0 too */
    double error_bound, error_estimate; /* m^3; the bound is NaN where the method gives none (ldi) */
    double center[3];                   /* m; exact: the centroid */
    double area, depth, normal[3];      /* the normal pushes a out of b */
    double generalized_gradient[2][6];  /* of a, of b; rotation about the pose's origin */
    const char *method;                 /* that ran */
} contactd_overlap;

/* The intersection in one call: each mesh as it is (pose NULL), or at a pose. settings: method and sampling; may be
 * NULL. No scene stays. It is a step like any other: results of steps that were waited for, and are not kept, are no
 * longer valid. */
contactd_code contactd_find_overlap(contactd_client *client, contactd_mesh a, const double pose_a[12], contactd_mesh b,
                                    const double pose_b[12], const contactd_settings *settings, contactd_overlap *out);

/* depth * area, m^3: the volume that a position solver leaves in the contact for its surfaces to overlap by `depth`, m.
 */
double contactd_target_volume(const contactd_contact *contact, double depth);

/* ---- several servers as one ---- */

/* A fleet is a few clients, its connections, that are spread over several servers. A scene belongs to one connection
 * for as long as it lives and is used through it like any scene, so the handles that contactd_fleet_open_scene returns
 * stay valid when the connection moves to another server. A server that is gone for 250 ms, or drains, loses its
 * connections: each goes by itself to the server that ranks highest for it (rendezvous hashing), builds its scenes
 * there again with their bodies, meshes and last positions, and repeats the steps that were not answered. All others
 * stay. contactd_fleet_look lets servers join.
 *
 * No thread runs behind a fleet. One thread at a time uses the fleet and its clients; between two calls of the fleet,
 * each client may be used by a thread of its own. A call of the fleet counts as a call on each of its clients. */
typedef struct contactd_fleet contactd_fleet;

typedef enum contactd_placement {                            /* of a new scene */
                                  CONTACTD_PLACE_FEWEST = 0, /* on the server with the fewest scenes of this fleet */
                                  CONTACTD_PLACE_BY_NAME, /* where its name is hashed to: the same for all fleets with
                                                             the same servers and connections; a scene without a name as
                                                             FEWEST */
                                  CONTACTD_PLACE_BY_LOAD, /* on the server that says it has the fewest scenes of all
                                                             clients, then the fewest commands in its queue; each is
                                                             asked */
} contactd_placement;

typedef struct contactd_fleet_options {
    uint32_t cookie;         /* set by contactd_fleet_options_init */
    contactd_options client; /* of every connection. server lists the servers. keep_meshes: true, whatever it is; keys
                                are kept for servers that join, and erased by contactd_fleet_close */
    contactd_placement placement;
    uint32_t connections; /* 1 to 1024; 0: two for each server that is listed when the fleet is opened, at least 8 where
                             others may be listed later (file:, dns:) */
    uint32_t probe_ms;    /* a server that has not answered for so long, when it is looked for or connected to, is down;
                             2,000 */
} contactd_fleet_options;

void contactd_fleet_options_init(contactd_fleet_options *options);
/* Asks all servers; those that do not answer are down. error may be NULL; *out is NULL unless the call went well.
 * CONFLICT: two addresses are one server, and which. UNREACHABLE: none answers within client.timeout_ms; else as
 * contactd_connect. */
contactd_code contactd_fleet_open(const contactd_fleet_options *options, contactd_fleet **out, contactd_error *error);
void contactd_fleet_close(contactd_fleet **fleet); /* and all its clients; nulls; NULL is allowed */
/* Of the last call on this fleet; code OK if it went well. Valid until the next. */
const contactd_error *contactd_fleet_last_error(const contactd_fleet *fleet);

CONTACTD_HANDLE(contactd_fleet_mesh); /* of one fleet; 0 is none; never reused */

/* As contactd_register_mesh_with, the same of doubles, and contactd_register_mesh_file, once for all servers: one of
 * them checks the mesh, and the fleet keeps the only copy until the mesh is removed or the fleet closed; it goes to
 * each server that comes to need it. options may be NULL. */
contactd_code contactd_fleet_register_mesh(contactd_fleet *fleet, const char *name, const float *positions,
                                           size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                           const contactd_mesh_options *options, contactd_fleet_mesh *out);
contactd_code contactd_fleet_register_mesh_f64(contactd_fleet *fleet, const char *name, const double *positions,
                                               size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                               const contactd_mesh_options *options, contactd_fleet_mesh *out);
contactd_code contactd_fleet_register_mesh_file(contactd_fleet *fleet, const char *path, contactd_fleet_mesh *out);
/* The mesh as a handle of one of the fleet's clients, for contactd_add_body and its like: the same at each call. Sends
 * nothing: the server gets the mesh when it is used. NOT_FOUND: there is no such mesh; STALE_HANDLE: it was removed.
 * INVALID_ARGUMENT: the client is not the fleet's. */
contactd_code contactd_fleet_get_mesh(contactd_fleet *fleet, contactd_fleet_mesh mesh, contactd_client *client,
                                      contactd_mesh *out);
/* Frees the mesh, on each server that answered the last look too, and the handles that contactd_fleet_get_mesh gave.
 * CONFLICT: bodies use it, those of this fleet (then nothing was done) or others' on a server; after that, as after any
 * other error, the fleet still has the mesh, servers that freed it get it again when it is used, and this may be called
 * again. A server that is down keeps what its state folder has. STALE_HANDLE: it was removed; NOT_FOUND: there was
 * none.
 */
contactd_code contactd_fleet_remove_mesh(contactd_fleet *fleet, contactd_fleet_mesh mesh);

/* Opens the scene on a server chosen by the fleet's placement. name and settings may be NULL. The client remains the
 * fleet's: it must not be closed. contactd_close_scene ends the scene. */
contactd_code contactd_fleet_open_scene(contactd_fleet *fleet, const char *name, const contactd_settings *settings,
                                        contactd_client **client, contactd_scene *scene);

/* Reads the sources of addresses again and asks all servers. A server that joined or came back takes connections from
 * the fullest servers, those that rank it highest; those of a server that is down or no longer listed go to the least
 * occupied; all others stay. It waits for the steps in flight of connections that move, so none is computed twice;
 * their results can still be waited for. moved, which may be NULL, is the number of connections. To be called every
 * second or so. A source that cannot be read takes no server away. CONFLICT: two addresses are one server; UNREACHABLE:
 * no server answers; then nothing moved. OUT_OF_MEMORY: what moved before stays moved. */
contactd_code contactd_fleet_look(contactd_fleet *fleet, uint32_t *moved);

typedef struct contactd_fleet_server {
    const char *address;
    bool is_up;           /* it answered the last look */
    uint64_t epoch;       /* of its process; 0: it never answered */
    uint32_t connections; /* of this fleet, now */
    uint32_t scenes;      /* of this fleet, now */
} contactd_fleet_server;
/* In the order of their addresses' sources; valid until the next call on this fleet. Asks nobody. */
contactd_code contactd_fleet_list_servers(contactd_fleet *fleet, const contactd_fleet_server **out, size_t *n);

#ifdef __cplusplus
}
#endif
#endif
