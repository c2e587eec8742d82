/* picture.h - pictures inside: what a snapshot holds, where its camera stands, and the parts that make pixels of it.
 * For the files of this folder and for the engine, which keeps the painter. */
#ifndef CT_PICTURE_H
#define CT_PICTURE_H

#include "gpu/base/box.h"
#include "gpu/include/snapshot.h"

/* ---- the camera (camera.c) ---- */

/* Looks along -back; right, up and back are orthonormal. */
typedef struct ct_camera {
    double eye[3], right[3], up[3], back[3]; /* m, world */
    double origin[3];                        /* what is drawn is drawn relative to this: floats, near the middle */
    double tangent[2];                       /* of half the field of view, across and upwards */
    double near, far;                        /* m along -back */
    double pixel;                            /* m at the middle of what is shown that make one pixel */
} ct_camera;

/* Finds the camera from which all points are seen. Points to frame and points that are merely drawn: */
typedef struct ct_fit {
    const ct_snapshot_options *options;
    ct_camera camera;
    double low[2], high[2];      /* bounds of eye -+ tangent * depth, see camera.c */
    double lo[3], hi[3];         /* of the framed points along right, up, back; none: lo > hi */
    double all_lo[3], all_hi[3]; /* of all points */
} ct_fit;

void ct_fit_begin(ct_fit *fit, const ct_snapshot_options *options);
void ct_fit_frame(ct_fit *fit, const double p[3]); /* must be in the picture */
void ct_fit_draw(ct_fit *fit, const double p[3]);  /* may be outside of it */
ct_camera ct_fit_end(ct_fit *fit);

/* The camera's view and projection of part of a picture: columns x0..x1, rows y0..y1 (from the top) of width x height;
 * column-major, from world relative to the origin to clip space. */
void ct_camera_matrix(const ct_camera *camera, const uint32_t size[2], const uint32_t part[4], float matrix[16]);

/* ---- the snapshot (../snapshot.c) ---- */

typedef struct ct_shown_body {
    uint32_t id;
    ct_mesh *mesh; /* one reference */
    bool rigid;
    double pose[12];  /* identity for a deformable body */
    float *positions; /* [vertices][3], world: of a deformable body; else NULL: the mesh's */
} ct_shown_body;

typedef struct ct_shown_contact {
    uint64_t first_span, n_spans;
    double pitch[3]; /* m between samples along x, y, z */
} ct_shown_contact;

struct ct_snapshot {
    ct_engine *engine;
    ct_snapshot_options options;
    ct_camera camera;
    ct_shown_body *bodies; /* [n_bodies], rising id */
    size_t n_bodies;
    ct_shown_contact *contacts; /* [n_contacts] */
    size_t n_contacts;
    ct_span *spans; /* [n_spans] */
    uint64_t n_spans;
};

static inline const float *ct_shown_positions(const ct_shown_body *body) {
    return body->positions ? body->positions : ct_mesh_positions(body->mesh);
}

/* ---- pixels ---- */

typedef struct ct_painter ct_painter; /* an OpenGL context and its programs (painter_gl.c) */

ct_status ct_painter_create(ct_painter **out, ct_error *error);
void ct_painter_destroy(ct_painter **painter); /* nulls; NULL is allowed */
/* Bodies and samples. By one thread at a time. Glass takes `most_glass` bytes of the device's memory at once, or less;
 * what needs more is drawn in parts. */
ct_status ct_painter_draw(ct_painter *painter, const ct_snapshot *snapshot, uint64_t most_glass, uint8_t *pixels,
                          ct_error *error);

/* Draws the legend over a picture: three arrows with letters (axes.c). */
void ct_axes_draw(const ct_camera *camera, uint32_t width, uint32_t height, uint8_t *pixels);

/* sRGB colours of rays along x, y and z, and of their arrows. */
extern const float ct_axis_color[3][3];

/* Area-weighted normals of a mesh's vertices, [vertices][3]; zero where there is none (normals.c). */
void ct_vertex_normals(const float *positions, const uint32_t *triangles, size_t n_vertices, size_t n_triangles,
                       float *normals);

#endif
