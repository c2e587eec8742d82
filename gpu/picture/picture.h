/* picture.h - internals of snapshots: the copied scene, the camera and the painter. For this folder, for snapshot.c and
 * for the engine, which owns the painter. */
#ifndef CT_PICTURE_H
#define CT_PICTURE_H

#include "gpu/base/box.h"
#include "gpu/include/snapshot.h"
#include "gpu/mesh/strays.h"

/* ---- the camera (camera.c) ---- */

/* A perspective camera that looks along -back; right, up and back are orthonormal. */
typedef struct ct_camera {
    double eye[3], right[3], up[3], back[3]; /* m, world */
    double origin[3];  /* the GPU draws relative to this point near the middle, where float32 is most precise */
    double tangent[2]; /* of half the field of view, across and upwards */
    double near, far;  /* m along -back */
    double pixel;      /* m that one pixel spans at the distance of the target, or of the framed points' middle */
} ct_camera;

/* Computes the camera for a set of points. Framed points must be inside the picture; drawn points only set the depth
 * range and may lie outside. */
typedef struct ct_camera_fit {
    const ct_snapshot_options *options;
    ct_camera camera;
    double low[2], high[2];            /* bounds of eye -+ tangent * depth, see camera.c */
    double framed_lo[3], framed_hi[3]; /* of the framed points along right, up, back; lo > hi if there are none */
    double drawn_lo[3], drawn_hi[3];   /* of all points, framed ones included */
} ct_camera_fit;

void ct_camera_fit_begin(ct_camera_fit *fit, const ct_snapshot_options *options);
void ct_camera_fit_add_framed(ct_camera_fit *fit, const double p[3]);
void ct_camera_fit_add_drawn(ct_camera_fit *fit, const double p[3]);
ct_camera ct_camera_fit_end(ct_camera_fit *fit);

/* View and projection for part {x0, y0, x1, y1} (pixels, y from the top) of a picture of size {width, height}: maps
 * world coordinates relative to camera->origin to clip space. Column-major. */
void ct_camera_matrix(const ct_camera *camera, const uint32_t size[2], const uint32_t part[4], float matrix[16]);

/* Writes the names of what the bits show, separated by commas, and returns `text` (options.c). */
const char *ct_show_names(uint32_t bits, char *text, size_t size);

/* ---- marks (marks.c) ---- */

/* What a picture shows besides bodies and the ends of spans. Lines, arrows and cubes' edges are `size` pixels thick and
 * points `size` pixels wide whatever their distance; they are opaque. Films are translucent; those of size 0 are lit
 * as glass is, others have their colour as it is. */
typedef enum ct_mark_kind {
    CT_MARK_FILM,  /* a triangle: at[0], at[1], at[2] */
    CT_MARK_POINT, /* a square around at[0] that faces the camera */
    CT_MARK_LINE,  /* from at[0] to at[1] */
    CT_MARK_ARROW, /* from at[0] to its tip, at[1] */
    CT_MARK_TILE,  /* a parallelogram: at[0] is a corner, at[1] and at[2] are those beside it */
    CT_MARK_CUBE,  /* a parallelepiped with its edges: at[0] is a corner, the others are those beside it. Its faces are
                      paler than its colour */
    CT_MARK_KINDS
} ct_mark_kind;

typedef struct ct_mark {
    float at[4][3];   /* m, relative to the camera's origin; as many as the kind has */
    uint8_t color[4]; /* sRGB; opacity, which films have */
    float size;       /* pixels */
} ct_mark;

enum { CT_MAX_MARKS = 1 << 20 }; /* of a snapshot: 56 MiB */

typedef struct ct_mark_list {
    ct_mark *marks; /* [n] */
    uint32_t n, capacity;
} ct_mark_list;

/* Appends a mark whose points are in world coordinates. LIMIT_EXCEEDED: the snapshot has CT_MAX_MARKS already; the
 * message has `what` needs them and the remedy. OUT_OF_MEMORY. */
ct_status ct_marks_add(ct_snapshot *snapshot, ct_mark_kind kind, const double (*at)[3], const uint8_t color[4],
                       double size, const char *what, const char *remedy, ct_error *error);

/* sRGB colours of contacts, of which the i-th shown has the i % CT_CONTACT_COLORS-th. */
enum { CT_CONTACT_COLORS = 8 };
extern const uint8_t ct_contact_color[CT_CONTACT_COLORS][3];

/* ---- the snapshot (../snapshot.c) ---- */

typedef struct ct_snapshot_body {
    uint32_t id;
    ct_mesh *mesh; /* one reference */
    bool rigid;
    bool is_backdrop; /* a half-space's sheet, which the picture need not frame */
    double pose[12];  /* of the positions */
    float *positions; /* [vertices][3], world; NULL for a rigid body, which has its mesh's positions */
    bool is_half_space;
    double plane[4]; /* of a half-space: all points p with plane[0..2] . p <= plane[3] */
} ct_snapshot_body;

typedef struct ct_snapshot_contact {
    uint64_t first_span, n_spans;
    double pitch[3]; /* m between samples along x, y, z */
} ct_snapshot_contact;

struct ct_snapshot {
    ct_engine *engine;
    ct_snapshot_options options;
    ct_camera camera;
    ct_snapshot_body *bodies; /* [n_bodies], by ascending id */
    size_t n_bodies;
    ct_snapshot_contact *contacts; /* [n_contacts] */
    size_t n_contacts;
    ct_span *spans; /* [n_spans] */
    uint64_t n_spans;
    ct_mark_list marks[CT_MARK_KINDS]; /* by kind */
    uint32_t n_marks;                  /* of all kinds */
};

/* Whether the picture has the contacts of these two bodies. Where two bodies are selected, their contacts with each
 * other are shown, and none of either with itself. */
bool ct_snapshot_shows(const ct_snapshot_options *options, const uint32_t body[2]);

/* A body's place in bodies; SIZE_MAX: it is not shown. */
size_t ct_snapshot_find_body(const ct_snapshot *snapshot, uint32_t id);

static inline const float *ct_snapshot_body_positions(const ct_snapshot_body *body) {
    return body->positions ? body->positions : ct_mesh_rest(body->mesh);
}

/* World position of a body's vertex. */
static inline void ct_snapshot_vertex(const ct_snapshot_body *body, size_t vertex, double at[3]) {
    const float *p = ct_snapshot_body_positions(body) + 3 * vertex;
    const double *m = body->pose;
    for (int r = 0; r < 3; r++)
        at[r] = m[4 * r] * (double)p[0] + m[4 * r + 1] * (double)p[1] + m[4 * r + 2] * (double)p[2] + m[4 * r + 3];
}

/* ---- what methods find, as marks ---- */

/* CT_SHOW_CONTACTS and CT_SHOW_GRADIENTS (marks.c): marks the shown contacts of a step that wanted FRAME and
 * GRADIENT. For a snapshot that has its bodies and its camera, as the others too. */
ct_status ct_mark_contacts(ct_snapshot *snapshot, const ct_result *result, ct_error *error);

/* Films over the parts of both surfaces that bound the contacts `first` to `first + n - 1`, which are those of one pair
 * of bodies; the first of them has color `color` (films.c). */
ct_status ct_mark_films(ct_snapshot *snapshot, const ct_result *result, size_t first, size_t n, uint32_t color,
                        ct_error *error);

/* CT_SHOW_SURFACE (marks.c): marks the contact surface of the shown contacts of a step that wanted it. */
ct_status ct_mark_surface(ct_snapshot *snapshot, const ct_result *result, ct_error *error);

/* CT_SHOW_RAYS_... (marks.c): marks the tiles of the shown contacts of a step that wanted TILES. */
ct_status ct_mark_tiles(ct_snapshot *snapshot, const ct_result *result, ct_error *error);

/* CT_SHOW_NODES and CT_SHOW_NORMALS (marks.c): marks the trees of the scene's bodies at the levels of a step of
 * VOXTREE, and the primitives and points of its shown contacts. */
ct_status ct_mark_voxels(ct_snapshot *snapshot, const ct_scene_settings *settings, const ct_result *result,
                         ct_error *error);

/* m, of the picture's shorter side at the distance at which the camera looks (marks.c). */
double ct_snapshot_shorter_side(const ct_snapshot *snapshot);

/* A colour for 0..1 (marks.c): pale blue over yellow to dark red. */
void ct_color_scale(double part, uint8_t color[4]);

/* ---- pixels ---- */

typedef struct ct_painter ct_painter; /* an OpenGL context and its programs (painter_gl.c) */

ct_status ct_painter_create(ct_painter **out, ct_error *error);
void ct_painter_destroy(ct_painter **painter); /* nulls; NULL is allowed */
/* Draws bodies, span ends and marks. One thread at a time. The lists of glass layers take at most `max_glass_bytes`
 * bytes of the GPU's memory; a picture that needs more is drawn in parts. LIMIT_EXCEEDED: one pixel alone needs more.
 */
ct_status ct_painter_draw(ct_painter *painter, const ct_snapshot *snapshot, uint64_t max_glass_bytes, uint8_t *pixels,
                          ct_error *error);

/* Draws the legend, three arrows with letters, over a finished picture (axes.c). */
void ct_axes_draw(const ct_camera *camera, uint32_t width, uint32_t height, uint8_t *pixels);

/* sRGB colours of the legend's arrows and of span ends on rays along x, y and z. */
extern const float ct_axis_color[3][3];

/* A power of two, 1 / the size of positions [vertices][3]: edges times it have cross products that float32 holds. */
float ct_per_size(const float *positions, size_t n_vertices);

/* Computes area-weighted unit normals of a mesh's vertices, [vertices][3]; 0 0 0 where the normals of the adjacent
 * faces cancel. */
void ct_vertex_normals(const float *positions, const uint32_t *triangles, size_t n_vertices, size_t n_triangles,
                       float *normals);

#endif
