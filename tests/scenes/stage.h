/* stage.h - creates a scene with bodies and steps it, in one or two calls; for property tests, golden hashes and
 * benches. Any failure prints the engine's message and aborts.
 */
#ifndef STAGE_H
#define STAGE_H

#include "tests/scenes/shapes.h"

enum { STAGE_MAX = 64 };

struct placed {
    const struct shape *shape; /* NULL: a half-space */
    const double *pose;        /* 3x4; NULL: as it is */
    ct_body_kind kind;         /* deformable: R p + t is rounded to float32; 0: rigid */
    int self_contact;          /* ct_body_options.self_contact */
    const double *open;        /* ct_mesh_options.open_direction; NULL: the shape is closed */
};

struct stage {
    ct_engine *engine;
    ct_scene *scene;
    uint32_t body[STAGE_MAX]; /* ids, in order of placing, which is rising */
    int n;
};

ct_engine *stage_engine(uint32_t threads, const char *simd); /* NULL: auto */
ct_scene_settings stage_resolution(uint32_t n);
ct_scene_settings stage_pixel(double pixel_size);
ct_scene_settings stage_exact(void);                                   /* the method exact */
ct_scene_settings stage_voxtree(uint32_t voxel_level, uint32_t level); /* the method voxtree; 0: the defaults */

struct stage stage_open(ct_engine *engine, const ct_scene_settings *settings, const struct placed *bodies, int n);
void stage_close(struct stage *stage);
ct_result *stage_step(struct stage *stage, const ct_update *updates, size_t n_updates, uint32_t want);
/* The scene is configured anew, with its own settings: its next step computes all pairs, also those of bodies at
 * rest. */
void stage_forget_answers(const struct stage *stage);
ct_result *stage_run(struct stage *stage, ct_step step); /* step.scene is the stage's */

/* Opens, steps and closes; the caller frees the result. Bodies have ids 1 .. n there. */
ct_result *stage_once(ct_engine *engine, const ct_scene_settings *settings, const struct placed *bodies, int n,
                      uint32_t want);

/* A mesh file of $CONTACTD_MESHES or ../shared/meshes. NULL: it is not there. */
ct_mesh *stage_scanned_mesh(const char *file);

/* Hashes all bits of an answer, except timings and the fragment count, which describe the work done. Hexadecimal. */
void stage_hash(const ct_result *result, char hex[33]);

#endif
