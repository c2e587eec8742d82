/* snapshot.h - pictures of a scene or of one contact: bodies as tinted glass, and in them the ends of the spans as
 * small squares, red, green and blue for rays along x, y and z (after Faure 2008, figure 10).
 *
 * Taking a snapshot costs one step of its scene and does not change the scene. Drawing it is slow; it may happen on
 * another thread, and after the scene is closed. Drawing needs OpenGL; without OpenGL it fails with UNSUPPORTED, and
 * the message says which packages to install. The same snapshot drawn by the same driver gives the same pixels.
 *
 * Status, errors, units and ownership are as in contact.h.
 */
#ifndef CT_SNAPSHOT_H
#define CT_SNAPSHOT_H

#include "gpu/include/contact.h"

#ifdef __cplusplus
extern "C" {
#endif

/* bounds of width and height, pixels */
#define CT_SNAPSHOT_LEAST 16
#define CT_SNAPSHOT_MOST  4096

enum {
    CT_SHOW_BODIES = 1u << 0,
    CT_SHOW_SAMPLES = 1u << 1, /* both ends of every span */
    CT_SHOW_AXES = 1u << 2,    /* a small legend of x, y and z in the lower left corner */
    CT_SHOW_ALL = CT_SHOW_BODIES | CT_SHOW_SAMPLES | CT_SHOW_AXES,
};

typedef struct ct_snapshot_options {
    uint32_t cookie;        /* set by ct_snapshot_options_init */
    uint32_t width, height; /* pixels, CT_SNAPSHOT_LEAST..MOST; 960 x 720 */
    uint32_t contact[2]; /* ids of two bodies: shows only them, and frames the overlap of their boxes; 0 0: shows all */
    uint32_t show;       /* CT_SHOW_...; ALL */
    uint32_t resolution; /* rays across each window, to try other settings; 0: the scene's resolution or pixel_size */
    double azimuth;      /* of the camera's position, degrees about `up`; -60 */
    double elevation;    /* of the camera's position, degrees above the plane perpendicular to `up`, within +-90; 20 */
    double up[3];        /* the direction that is up in the picture, of any length but 0; 0 0 1 */
    bool has_eye;        /* the camera is at `eye` and looks at `target`; azimuth, elevation and zoom are not used */
    double eye[3];       /* m */
    bool has_target;     /* the camera looks at `target`; otherwise at the middle of the shown bodies or contact */
    double target[3];    /* m */
    double zoom;         /* 1: everything shown fits; 2: half the distance; 0.01..100 */
    double field_of_view; /* degrees from the lower to the upper edge, 1..150; 30 */
    double opacity;       /* of bodies seen face on, 0..1; 0.3 */
    double background[4]; /* red, green, blue, alpha in 0..1; 1 1 1 1 */
} ct_snapshot_options;

void ct_snapshot_options_init(ct_snapshot_options *options);
/* Checks that all options are within their bounds. INVALID_ARGUMENT, OUT_OF_RANGE, NON_FINITE. */
ct_status ct_snapshot_options_check(const ct_snapshot_options *options, ct_error *error);

typedef struct ct_snapshot ct_snapshot; /* immutable once taken */

/* Copies positions, poses and the spans of a step without updates. NOT_FOUND: a body of `contact` does not exist;
 * LIMIT_EXCEEDED: more than 2^22 spans; also the errors of a step. A scene without bodies gives an empty picture. The
 * caller owns *out. */
ct_status ct_snapshot_take(ct_scene *scene, const ct_snapshot_options *options, ct_snapshot **out, ct_error *error);
void ct_snapshot_free(ct_snapshot **snapshot); /* nulls; NULL is allowed */

/* Draws the snapshot into pixels [height][width][4]: red, green, blue, alpha (sRGB, not premultiplied), top row first.
 * May be called from any thread while the engine exists; concurrent calls run one after another. UNSUPPORTED: no
 * OpenGL; OUT_OF_MEMORY, LIMIT_EXCEEDED, DEVICE_ERROR. */
ct_status ct_snapshot_draw(const ct_snapshot *snapshot, uint8_t *pixels, ct_error *error);

/* Encodes pixels as a PNG file; the caller frees *png with free(). */
ct_status ct_snapshot_png(uint32_t width, uint32_t height, const uint8_t *pixels, uint8_t **png, size_t *size,
                          ct_error *error);

#ifdef __cplusplus
}
#endif
#endif
