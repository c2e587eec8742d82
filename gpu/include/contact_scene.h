/* contact_scene.h - scenes: their settings, and the bodies in them.
 * Part of contact.h, which says what holds of all: units, ownership, errors, threads. */
#ifndef CONTACT_SCENE_H
#define CONTACT_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/include/contact_engine.h"
#include "proto/material.h"
#include "proto/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- settings ---- */

/* ct_scene_settings, its enumerations and its limits are those of the wire and the clients, too: proto/settings.h.
 *
 * The sampling is resolution and pixel_size. It is named if one of them is not 0. LDI reads it: without one it takes
 * CT_DEFAULT_RESOLUTION rays along each axis of a window: the box in which the boxes of two bodies overlap, or, where
 * the bodies meet in far less, the part of it that both surfaces reach into. EXACT has no samples and refuses a
 * sampling (INVALID_ARGUMENT) rather than ignore it. AUTO runs LDI where a sampling is named, and else what
 * ct_engine_auto_method says. */
#define CT_DEFAULT_RESOLUTION 64

/* Rays that EBPI may cast for a pair, if the settings name none. */
#define CT_DEFAULT_RAY_BUDGET 1048576

/* Cells of one contact: by default, and at most; and along one axis of a window. */
#define CT_DEFAULT_CELLS   4096
#define CT_MAX_CELLS       (1 << 20)
#define CT_MAX_CELLS_ALONG 4096

/* m/s, with the law "pressure", if the settings name none. */
#define CT_DEFAULT_STICTION_SPEED 1e-3

/* Points of one contact with VOXTREE, if the settings name none. */
#define CT_DEFAULT_MAX_POINTS 8 /* of VOXTREE */
#define CT_DEFAULT_POINTS     4 /* of steps that want points, in scenes without max_points */

/* Of one step with a margin: separations, and pairs of bodies without a contact whose boxes are within the margin. A
 * step that has more fails with LIMIT_EXCEEDED: no list is ever shortened. */
#define CT_MAX_SEPARATIONS (1u << 20)
#define CT_MAX_NEAR_PAIRS  (1u << 23)

/* "optimal", "published", "per_pixel"; NULL: none of them. */
const char *ct_allocation_name(ct_allocation allocation);

void ct_scene_settings_init(ct_scene_settings *settings); /* the defaults: AUTO, no sampling, stiffness 1 */
/* Checks the settings without an engine: UNSUPPORTED (an unknown method), INVALID_ARGUMENT, OUT_OF_RANGE, NON_FINITE.
 */
ct_status ct_scene_settings_check(const ct_scene_settings *settings, ct_error *error);
/* Applies a request for some settings as the service does: what it gives chooses a method where it names none, and a
 * change of the method drops what the new one does not take. The result is not checked. OUT_OF_RANGE: it gives 0 where
 * 0 says that nothing is named. */
ct_status ct_scene_settings_change(ct_scene_settings *settings, const ct_settings_change *change, ct_error *error);

/* ---- scenes ---- */

typedef struct ct_scene ct_scene;

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

/* ---- bodies ---- */

typedef enum ct_body_kind {
    CT_BODY_DEFORMABLE = 1, /* moved by the world positions of its vertices, float32, or float64, of which 48 bits count
                               (on CUDA 24); starts at the rest positions */
    CT_BODY_RIGID = 2,      /* moved by a pose in double precision, applied to the rest positions */
    CT_BODY_HALF_SPACE = 3, /* all points below a plane: z <= 0 in its own axes, which a pose places in the world. A
                               floor or wall without a mesh: it has no vertices, so its part of a gradient is empty, but
                               its 6-vector is complete. EXACT only. Two half-spaces have no contact */
} ct_body_kind;

/* A rigid body's pose may place its origin at most so many times the largest side of its mesh's bounding box from the
 * world's origin, along each axis. There a double's last bit is 2^-16 of that side; further out it would be coarser
 * than the body's shape, whose volume and contacts it would round away. Farther poses are OUT_OF_RANGE: the remedy is
 * to move the scene's origin near the bodies. A half-space has no size; a step refuses a pair (OUT_OF_RANGE) if doubles
 * do not tell how much of the other body is below the plane. */
#define CT_POSE_REACH 0x1p36

typedef struct ct_body_options {
    uint32_t cookie; /* set by ct_body_options_init */
    ct_body_kind kind;
    double pose[12]; /* rigid, half-space: row-major 3x4 [R|t], p_world = R p + t; R is a rotation, or off one by up
                        to 1e-3, and then the nearest one is taken; t lies within CT_POSE_REACH */
    uint32_t group, mask;   /* a pair is computed if (a.group & b.mask) and (b.group & a.mask) are both non-zero */
    const uint32_t *ignore; /* [n_ignore] bodies of this scene that are never paired with this one */
    size_t n_ignore;
    /* Also computes the contact of the body with itself: where its winding number is 2 or more (Faure 2008, self-
     * collision). group, mask and ignore are about other bodies. Only for methods that find it (LDI, and EXACT
     * without patches), and not for a half-space; EXACT not where the mesh's parts share edges (INVALID_ARGUMENT). */
    bool self_contact;
    ct_material material; /* for the law "pressure" */
    bool has_start;
    double start[12]; /* rigid, half-space, if has_start: where ct_scene_reset takes it back to, as pose; else pose */
} ct_body_options;

/* Deformable, identity, group 1, mask ~0, no self-contact, no material. */
void ct_body_options_init(ct_body_options *options);

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
 * mesh), OUT_OF_RANGE (the pose is beyond CT_POSE_REACH for this mesh), OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_scene_replace_mesh(ct_scene *scene, uint32_t body, ct_mesh *mesh, ct_error *error);
/* All bodies as they were when they were added: at their poses, deformable ones at their meshes' positions. Settings,
 * materials and filters stay; contacts of the next step that wants ids are all new. On an error nothing has changed:
 * OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_scene_reset(ct_scene *scene, ct_error *error);
/* Another scene with the same settings, bodies, filters and materials, on the same device. Its bodies have the same
 * handles; they are at the poses of now, which ct_scene_reset takes them back to, deformable ones at their meshes'
 * positions. The caller owns *out, which is NULL after an error, as ct_scene_create and ct_scene_add_body tell it. */
ct_status ct_scene_copy(const ct_scene *scene, ct_scene **out, ct_error *error);
/* Changes what a body is made of, or, with `other` not 0, what counts between the two in place of what their materials
 * come to: a field that is not given (NaN) is still the bodies' then, and CT_MATERIAL_NONE ends it. Both may be the
 * same body, for its contact with itself. From the next step on. NOT_FOUND, OUT_OF_RANGE, INVALID_ARGUMENT
 * (static_friction below friction), OUT_OF_MEMORY. */
ct_status ct_scene_set_material(ct_scene *scene, uint32_t body, uint32_t other, const ct_material *material,
                                ct_error *error);

#define CT_ENDLESS 1e30 /* m, where a half-space has no end */

typedef struct ct_body_info {
    uint32_t body;
    ct_body_kind kind;
    uint64_t vertices;   /* that positions, directions and entries may have: without closing ones */
    const ct_mesh *mesh; /* NULL: a half-space */
    double pose[12];
    double lo[3], hi[3];  /* m, world bounding box at the last step, or of the start state; -+ CT_ENDLESS where a
                            half-space has no end. With VOXTREE after a step, the smallest around the cubes of the
                            body's tree, of level 5 at most */
    bool self_contact;    /* as asked for when it was added */
    ct_material material; /* likewise */
} ct_body_info;

size_t ct_scene_device(const ct_scene *scene); /* index of the device it is on */
size_t ct_scene_body_count(const ct_scene *scene);
/* Bodies in rising order of handle. OUT_OF_RANGE: index is not below the count. */
ct_status ct_scene_body_at(const ct_scene *scene, size_t index, ct_body_info *info);
ct_status ct_scene_body_info(const ct_scene *scene, uint32_t body, ct_body_info *info, ct_error *error); /* NOT_FOUND */
/* World positions of a body's vertices as the last step left them, m, rounded to float32, to out[vertices of its
 * mesh][3]: closing ones, too, in the mesh's order. NOT_FOUND; INVALID_ARGUMENT: a half-space; OUT_OF_MEMORY,
 * DEVICE_ERROR. */
ct_status ct_scene_body_positions(const ct_scene *scene, uint32_t body, float *out, ct_error *error);
uint64_t ct_scene_bytes(const ct_scene *scene);        /* memory that the scene holds, without its meshes */
uint64_t ct_scene_device_bytes(const ct_scene *scene); /* of ct_scene_bytes, the part in a device's own memory */

#ifdef __cplusplus
}
#endif
#endif
