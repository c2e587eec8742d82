/* contact_mesh.h - meshes: read, made, repaired, closed; what is known of them.
 * Part of contact.h, which says what holds of all: units, ownership, errors, threads. */
#ifndef CONTACT_MESH_H
#define CONTACT_MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/include/contact_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- meshes ---- */

/* Immutable, reference-counted, identified by the hash of its content. A mesh also keeps data that methods derive from
 * it, such as its edge adjacency: made when a step first needs it, freed with the mesh. */
typedef struct ct_mesh ct_mesh;

typedef enum ct_dtype { CT_F32 = 1, CT_F64 = 2 } ct_dtype;

typedef enum ct_mesh_format {
    CT_FORMAT_AUTO = 0, /* recognised by the content */
    CT_FORMAT_OBJ,
    CT_FORMAT_OFF,
    CT_FORMAT_PLY,  /* ascii, binary little and big endian */
    CT_FORMAT_STL,  /* ascii and binary; bitwise equal vertices are welded */
    CT_FORMAT_GLTF, /* glTF 2.0, text with its buffers in it, and binary (GLB): all triangles of its scene, where its
                       nodes place them; bitwise equal vertices are welded. Without jansson UNSUPPORTED */
} ct_mesh_format;

typedef struct ct_mesh_limits {
    uint64_t max_vertices;
    uint64_t max_triangles;
} ct_mesh_limits;

/* 2^26 vertices, 2^27 triangles. The engine's own limit is 2^30 of either. */
void ct_mesh_limits_init(ct_mesh_limits *limits);

/* Reads a mesh file from memory. Polygons are cut into triangles: as a fan where that
 * folds over nowhere, else by clipping ears; of those that are not flat the cut is taken whose area is least.
 * Everything but geometry is ignored. Positions are float32, or float64 where float32 does not hold the file's digits
 * (gpu/mesh/digits.h has the rule). The surface has to be closed: as many triangles run through each edge one way as
 * the other. Of more than two those are neighbours between which the volume lies: parts touch there. The caller owns
 * one reference to *out. limits NULL: the defaults.
 * PARSE_ERROR, INVALID_MESH, NON_FINITE, LIMIT_EXCEEDED, OUT_OF_MEMORY, CANCELLED (ct_cancel_scope). */
ct_status ct_mesh_read(const void *bytes, size_t size, ct_mesh_format format, const ct_mesh_limits *limits,
                       ct_mesh **out, ct_error *error);

/* Makes a mesh from arrays: positions [n_vertices][3] of dtype, in m, and triangles [n_triangles][3] of uint32. Neither
 * pointer needs to be aligned. Vertices keep their order: vertex k of a gradient is vertex k here. float64
 * keeps 48 bits beside an origin near the mesh, so that it may lie anywhere; where float32 holds every number, it is
 * the same mesh as in float32. Repairs and checks look at the upper 24 bits. Fails as ct_mesh_read does, but for
 * PARSE_ERROR; also INVALID_ARGUMENT. */
ct_status ct_mesh_create(const void *positions, ct_dtype dtype, size_t n_vertices, const void *triangles_u32,
                         size_t n_triangles, const ct_mesh_limits *limits, ct_mesh **out, ct_error *error);

/* ---- repairs and open surfaces ---- */

/* What a repair changes. */
typedef enum ct_change_kind {
    CT_CHANGE_DEGENERATE, /* triangles dropped that name a vertex twice, or whose vertices lie on a line and that close
                             nothing */
    CT_CHANGE_DUPLICATE, /* triangles dropped of those between the same three vertices: all but one, or all where they have
                             no thickness (see ct_mesh_options) */
    CT_CHANGE_WELDED,    /* vertices whose triangles were given another vertex at the same position */
    CT_CHANGE_TURNED,    /* triangles turned over */
    CT_CHANGE_FILLED,    /* holes filled */
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
    double moved;        /* m, the most that a corner of a triangle was moved by welding */
    double self_overlap; /* m^3, -1: not measured, which is ct_mesh_measure_overlap's to do, when the mesh is there */
    uint64_t uneven_polygons; /* of a file: faces that are not flat, with or without a repair */
    double unevenness;        /* m, the most that a corner of one is off the plane of its face */
    double deviation;         /* m, of a wrap: no point of it is further from the surface given; see ct_closing */
} ct_mesh_changes;

#define CT_DEFAULT_HOLE 0.1  /* 1, of the diagonal of the mesh's box */
#define CT_DEFAULT_WELD 1e-4 /* 1, likewise */
#define CT_OPEN_DEPTH   10   /* 1, diagonals of the box of an open surface from its furthest point to the far plane */

/* What becomes of a surface that is not closed. */
typedef enum ct_closing {
    CT_CLOSING_NONE = 0, /* the surface is closed as it is, or after the repair, or it has an open_direction */
    CT_CLOSING_HULL,     /* the mesh is the convex hull of the vertices that triangles use, whatever these do: exact for
                        float32, and for the upper 24 bits of float64; with all vertices in their order. Takes no repair and no open_direction */
    CT_CLOSING_WRAP, /* the mesh is a closed surface around the triangles, whatever these do, made on a grid of cubes of
                        `resolution`. It has vertices of its own. Inside is what cannot be reached from afar without
                        passing a triangle or a gap narrower than 3 resolutions: cavities are filled. Where nothing is
                        behind a triangle, as of a sheet, the surface runs around it at 0.9 resolutions, at its rim up to twice as far; edges and corners
                        are cut by a resolution at most. ct_mesh_changes.deviation tells how far it is from the triangles.
                        Takes no repair and no open_direction */
} ct_closing;

#define CT_DEFAULT_WRAP 0.01 /* 1, of the diagonal of the box of the vertices that triangles use */

/* How a mesh is made, beyond reading it.
 *
 * A repair changes triangles alone, so that vertices keep their number and order, and gradients and positions are those
 * of the vertices as given; a vertex that was welded to another is part of no triangle, and its gradient is 0. In this
 * order it
 *  - drops triangles that name a vertex twice, and duplicates. Of faces that are there for both sides, one stays where they
 *    make a closed surface or close a hole in the rest; sheets without thickness, fins and walls inside go;
 *  - welds vertices on open edges that lie at the same position (-0 is 0), and of those that are left those within a
 *    distance of `weld` of each other: no surface moves by more (ct_mesh_changes.moved);
 *  - drops triangles whose vertices lie on a line where each of their edges has an odd number of triangles;
 *  - makes each shell (triangles connected by edges) consistent;
 *  - fills holes of up to max_hole and 1,024 edges with triangles between their vertices. It does not check whether
 *    these cross other parts of the surface. Where a hole's vertices lie on a line, as where an edge is split on one of
 *    its sides alone, it may be of any length, and the triangles have no area;
 *  - turns shells that face inwards and are no cavity, so that the winding number is negative nowhere in them, and the
 *    cavities of a body that was mirrored as a whole. A shell that was not consistent as given becomes a cavity inside an
 *    odd number of others, and faces outwards else.
 * Edges that more triangles run through one way than the other, surfaces with one side only, and larger holes are
 * refused. A mesh that needs no repair is the same as without. Of an open surface (open_direction) no hole is filled,
 * and shells are turned that face along the direction more than against it.
 *
 * With an open_direction the mesh is an open surface, such as a heightfield or a bowl, that bounds the volume behind
 * it: all points that lie from it along the direction. Its triangles face against the direction or stand along it (a
 * wall that stands along it has no thickness of its own), they are connected, and seen along the direction the rim is
 * made of simple loops; else it is refused. The volume ends CT_OPEN_DEPTH diagonals behind the furthest vertex: walls
 * between the rim and copies of its vertices there, and a cap on a plane, close it. The copies are `closing_vertices`,
 * the last of the mesh's, and move as if fixed to their vertices of the rim: what a result has of one (gradient,
 * weight, forces, products) is added to that vertex. So entries have the given vertices alone and still sum to the same
 * force; the 6-vectors count walls where they are.
 *
 * Updates, velocities and directions of a deformable body with such a mesh have the given vertices alone. The direction
 * is one of the world then, whatever the positions: each closing vertex keeps the distance along it that it has at rest
 * from its vertex of the rim. So walls stand along the direction wherever the border moves, and gradients are those
 * with respect to the given vertices, exact for EXACT. The cap follows the rim, at least CT_OPEN_DEPTH diagonals of the
 * rest shape behind it; where the rim bends, so does the cap, which is meant to be out of reach. Positions are not
 * checked as the mesh was: a surface that comes to hang over beside its own walls, or that stretches as far as the cap,
 * crosses itself, and its winding numbers count as those of any body that does. */
typedef struct ct_mesh_options {
    uint32_t cookie; /* set by ct_mesh_options_init */
    ct_mesh_limits limits;
    bool repair;
    double max_hole; /* m, the longest side of a hole's box; 0: CT_DEFAULT_HOLE of the mesh's diagonal */
    double weld;     /* m, of the repair; 0: CT_DEFAULT_WELD of the mesh's diagonal */
    double scale;    /* m, what a 1 in the file or the arrays is; 0: 1 m. First of all: lengths here are in m */
    double open_direction[3]; /* into the volume, of any length; all 0: the surface is closed */
    ct_closing closing;
    double resolution; /* m, of CT_CLOSING_WRAP; 0: CT_DEFAULT_WRAP of the diagonal */
} ct_mesh_options;

#define CT_LEAST_SCALE 1e-12
#define CT_MOST_SCALE  1e12

void ct_mesh_options_init(ct_mesh_options *options); /* the default limits, no repair */

/* As ct_mesh_read and ct_mesh_create, with options. *changes (NULL is allowed) is what the repair did. A changed mesh
 * has the hash of what became of it: the same as that of an upload of its positions and triangles
 * (ct_mesh_positions_f64, ct_mesh_triangles). Also INVALID_ARGUMENT, OUT_OF_RANGE, NON_FINITE: the options. */
ct_status ct_mesh_read_with(const void *bytes, size_t size, ct_mesh_format format, const ct_mesh_options *options,
                            ct_mesh **out, ct_mesh_changes *changes, ct_error *error);
ct_status ct_mesh_create_with(const void *positions, ct_dtype dtype, size_t n_vertices, const void *triangles_u32,
                              size_t n_triangles, const ct_mesh_options *options, ct_mesh **out,
                              ct_mesh_changes *changes, ct_error *error);

/* ---- references ---- */

ct_mesh *ct_mesh_retain(ct_mesh *mesh); /* adds a reference; returns mesh */
void ct_mesh_release(ct_mesh **mesh);   /* drops a reference and nulls the pointer; NULL is allowed */

/* ---- what a mesh is ---- */

typedef struct ct_mesh_info {
    uint64_t vertices;         /* with the closing ones */
    uint64_t triangles;        /* with those that close an open surface */
    uint64_t closing_vertices; /* the last of `vertices`: of walls and cap of an open surface (ct_mesh_options) */
    uint64_t bytes;      /* host memory that the mesh holds now. Grows when a method derives something from the mesh,
                            which it does when a body joins a scene with that method; shrinks when no body needs a
                            voxel tree any more */
    uint32_t components; /* connected components; triangles that share a vertex are connected */
    uint32_t shells;     /* triangles that are connected by edges, each a closed surface */
    uint32_t
        doubled_shells; /* of them, those that lie where another does, triangle on triangle: by accident, as a rule,
                                and all that lies inside counts twice. A repair drops them */
    double volume;      /* m^3, of the rest positions; > 0 */
    double area;        /* m^2 */
    /* Of the volume at density 1, for integrators; of an open surface with what closes it. */
    double center_of_mass[3]; /* m */
    double inertia[3][3];     /* m^5, about the centre of mass: times a density in kg/m^3, kg m^2 */
    ct_dtype dtype;           /* CT_F64: float32 holds not all of its positions */
    double origin[3];         /* m, what ct_mesh_positions counts from; 0 for float32 */
    double lo[3], hi[3];      /* m, bounding box of the rest positions; vertices that no triangle uses count nowhere */
    ct_closing
        closing; /* what made it so, where it was made first; the same content may have been given as it is later */
    double deviation; /* m, of a wrap, likewise */
    char hash[33];    /* 128-bit content hash of (positions, triangles), hex */
} ct_mesh_info;

void ct_mesh_get_info(const ct_mesh *mesh, ct_mesh_info *info);

/* For whoever keeps what a closing made and makes the mesh of it again, before others use the mesh. */
void ct_mesh_set_closing(ct_mesh *mesh, ct_closing closing, double deviation);

/* Bounds the memory of what methods derive from a mesh and what may be much larger than the mesh: voxel trees. */
typedef struct ct_mesh_room {
    /* Called before `bytes` are allocated. false with *error (LIMIT_EXCEEDED): they are not, and the call that needs
     * them fails with this error. On any thread, also for one mesh by several at a time. It may not call functions that
     * add bodies with this mesh, or configure their scenes. */
    bool (*ask)(void *context, const ct_mesh *mesh, uint64_t bytes, ct_error *error);
    /* What the `bytes` were granted for was made, and counts as ct_mesh_info.bytes from now on, or could not be made.
     */
    void (*settle)(void *context, const ct_mesh *mesh, uint64_t bytes);
    void *context;
} ct_mesh_room;
/* Before a body uses the mesh. Without it, or with a NULL ask, nothing is refused. */
void ct_mesh_set_room(ct_mesh *mesh, const ct_mesh_room *room);

const float *
ct_mesh_positions(const ct_mesh *mesh); /* [vertices][3], rest positions, rounded to float32 and counted from
                                                        ct_mesh_info.origin; owned by the mesh */
/* The rest positions in full, to out[vertices][3]. */
void ct_mesh_positions_f64(const ct_mesh *mesh, double *out);
/* [triangles][3], owned by the mesh. Not in the order given, and corners may be rotated; orientation is kept. */
const uint32_t *ct_mesh_triangles(const ct_mesh *mesh);
/* The rim's vertices that closing ones are copies of, [closing_vertices], owned by the mesh; NULL: there are none. */
const uint32_t *ct_mesh_rim(const ct_mesh *mesh);

#ifdef __cplusplus
}
#endif
#endif
