/* snapshot.h - pictures of a scene, or of the contacts of two bodies: bodies as tinted glass, and in them the ends of
 * the intersection's spans as small squares, red, green and blue for rays along x, y and z (after Faure 2008, figure
 * 10), or what the scene's method finds, as CT_SHOW_... says. A half-space is a thin sheet, opposite the bodies shown
 * and 1.5 times as wide as all of them; it changes nothing of what the camera frames.
 *
 * A picture is made in two calls. Taking a snapshot runs a step without updates, so it is as quick as a step and leaves
 * the scene unchanged. Drawing it is slow, and needs neither the scene nor the thread that took it. Drawing needs
 * OpenGL 4.5: where there is none it fails with UNSUPPORTED, and the message says what to install. The same snapshot
 * drawn by the same driver gives the same pixels.
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
#define CT_SNAPSHOT_MIN_SIDE 16
#define CT_SNAPSHOT_MAX_SIDE 4096

enum {
    CT_SHOW_BODIES = 1u << 0,
    CT_SHOW_SAMPLES = 1u << 1, /* both ends of every span */
    CT_SHOW_AXES = 1u << 2,    /* a small legend of x, y and z in the lower left corner */

    /* What the scene's method finds in a step without updates, with the scene's settings. In a scene whose method does
     * not have it a picture is refused (INVALID_ARGUMENT), and the message says what the method does have. */

    /* Methods with gradients of vertices. Every contact, or patch, has a colour of its own; after eight they recur. A
     * film of it covers the parts of both surfaces that bound the intersection, and a thick arrow at the contact's
     * centre is its normal, of 0.2 of the picture's shorter side where the camera looks. Where a triangle bounds
     * several patches, each part of its film has the colour of the patch whose centre is nearest. A film's outline is
     * exact to a fraction of a pixel, but what is smaller than 16 pixels may be missing inside a triangle. */
    CT_SHOW_CONTACTS = 1u << 3,
    /* Methods with gradients of vertices. dV/dx of every vertex as an arrow from it in its contact's colour, as long as
     * dV/dx is large: the largest one of the picture has 0.12 of the picture's shorter side. */
    CT_SHOW_GRADIENTS = 1u << 4,

    /* EBPI: the tiles of its views along x, y and z, each on the far side of the contact's window: the rays that the
     * method casts (Wang 2012, Figures 6 and 8). Pale blue for the largest tile of the view, over yellow to dark red
     * for the smallest. There is no tile where the bodies cannot both be. */
    CT_SHOW_RAYS_X = 1u << 5,
    CT_SHOW_RAYS_Y = 1u << 6,
    CT_SHOW_RAYS_Z = 1u << 7,
    CT_SHOW_RAYS = CT_SHOW_RAYS_X | CT_SHOW_RAYS_Y | CT_SHOW_RAYS_Z,

    /* VOXTREE: the cubes, with their edges, that the bodies' surfaces reach into, at the level of the trees that the
     * step came to (ct_scene_settings.level sets it), from pale blue over yellow to dark red the more of a cube is
     * inside (Dingliana and O'Sullivan 2005, Figure 1). With `contact` only those that reach into both bodies' boxes.
     */
    CT_SHOW_NODES = 1u << 8,
    /* VOXTREE: a thin red line along the normal of each pair of cubes that meet, as long as their probability is
     * large and at most 0.06 of the picture's shorter side, and a thick green arrow of 0.16 along each of the reduced
     * points (Figure 9). */
    CT_SHOW_NORMALS = 1u << 9,

    /* EXACT: the contact surface (CT_WANT_SURFACE), pale blue over yellow to dark red the larger the pressure of the law
     * "pressure", or else the depth, is beside the largest of the picture. */
    CT_SHOW_SURFACE = 1u << 10,

    CT_SHOW_DEFAULT = CT_SHOW_BODIES | CT_SHOW_SAMPLES | CT_SHOW_AXES,
    CT_SHOW_ALL = CT_SHOW_DEFAULT | CT_SHOW_CONTACTS | CT_SHOW_GRADIENTS | CT_SHOW_RAYS | CT_SHOW_NODES |
                  CT_SHOW_NORMALS | CT_SHOW_SURFACE,
};

/* What is shown has names, for options and queries: "bodies", "samples", "axes", "contacts", "gradients", "rays_x",
 * "rays_y", "rays_z", "nodes", "normals", "surface", and "rays" for the three of rays. The bits of a name of `length` bytes; 0:
 * there is no such name. */
uint32_t ct_show_find(const char *name, size_t length);
/* all of them, for messages */
#define CT_SHOW_WORDS "bodies,samples,axes,contacts,gradients,rays,rays_x,rays_y,rays_z,nodes,normals,surface"

typedef struct ct_snapshot_options {
    uint32_t cookie;        /* set by ct_snapshot_options_init */
    uint32_t width, height; /* pixels, CT_SNAPSHOT_MIN_SIDE..CT_SNAPSHOT_MAX_SIDE; 960 x 720 */
    uint32_t contact[2];    /* two bodies: only they and their contacts with each other are shown, and the picture is of
                               where their boxes overlap; 0 0: all */
    uint32_t show;          /* CT_SHOW_...; DEFAULT */
    uint32_t resolution;    /* ray samples across the window of this picture's step; 0: the scene's. Samples are LDI's
                               spans, whatever method the scene runs, and CT_DEFAULT_RESOLUTION if that has none */
    double azimuth;         /* degrees about `up`, of the direction from which the camera looks; -60 */
    double elevation;       /* degrees above the plane orthogonal to `up`, within +-90; 20 */
    double up[3];           /* direction that is up in the picture, of any length but 0; 0 0 1 */
    bool has_eye;           /* the camera is at `eye` and looks at `target`; azimuth, elevation and zoom are ignored */
    double eye[3];          /* m */
    bool has_target;        /* false: the camera looks at the middle of what is shown */
    double target[3];       /* m */
    double zoom;            /* 1: everything shown fits; 2: as if from half the distance; 0.01..100 */
    double field_of_view;   /* degrees from the lower to the upper edge, 1..150; 30 */
    double opacity;         /* of bodies seen face on, 0..1; 0.3 */
    double background[4];   /* red, green, blue, alpha in 0..1; 1 1 1 1 */
} ct_snapshot_options;

void ct_snapshot_options_init(ct_snapshot_options *options);
/* Checks that every option is within its bounds. INVALID_ARGUMENT, OUT_OF_RANGE, NON_FINITE. */
ct_status ct_snapshot_options_check(const ct_snapshot_options *options, ct_error *error);

typedef struct ct_snapshot ct_snapshot; /* immutable once taken */

/* Copies what the picture needs: positions, poses, and the spans of a step without updates, or what its method finds.
 * A scene without bodies gives an empty picture. The caller owns *out. NOT_FOUND (a body of `contact`),
 * INVALID_ARGUMENT (`show` names what the scene's method does not have), LIMIT_EXCEEDED (more spans or marks than a
 * picture can show: 2^22 and 2^20; or 2^24 spans with those of contacts that are not shown), and what a step can fail
 * with. Where rays are many, a step with few of them says first how many spans there will be, so that too many are
 * refused and not taken. Besides a step's memory a snapshot takes up to 128 MiB of spans and 56 MiB of marks. Ended by
 * ct_cancel_scope: CANCELLED. */
ct_status ct_snapshot_take(ct_scene *scene, const ct_snapshot_options *options, ct_snapshot **out, ct_error *error);
void ct_snapshot_free(ct_snapshot **snapshot); /* nulls; NULL is allowed */

/* Draws it into pixels [height][width][4]: red, green, blue, alpha (sRGB, not premultiplied), top row first. On any
 * thread; concurrent calls wait for each other. The engine must not be destroyed before. Takes up to 256 MiB for glass,
 * 100 MiB for samples of a part of 1,024 x 1,024 pixels, and copies of what is drawn. Ended by ct_cancel_scope, also
 * while it waits, some 50 ms after where the processor draws. UNSUPPORTED (no OpenGL), OUT_OF_MEMORY, LIMIT_EXCEEDED,
 * DEVICE_ERROR, CANCELLED. */
ct_status ct_snapshot_draw(const ct_snapshot *snapshot, uint8_t *pixels, ct_error *error);

/* Encodes pixels as a PNG file; the caller frees *png with free(). */
ct_status ct_snapshot_png(uint32_t width, uint32_t height, const uint8_t *pixels, uint8_t **png, size_t *size,
                          ct_error *error);

#ifdef __cplusplus
}
#endif
#endif
