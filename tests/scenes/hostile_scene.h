/* hostile_scene.h - scenes of hostile shapes (hostile.h): where the shapes are put, with any method and settings. For
 * fuzzing, benches and tests of time limits. A scene is described by words such as "shape=star place=self
 * triangles=4000 method=ldi resolution=4096", or made from any bytes.
 */
#ifndef HOSTILE_SCENE_H
#define HOSTILE_SCENE_H

#include "tests/scenes/hostile.h"

/* place, name */
#define HOSTILE_PLACE_MAP(X)                                                                                           \
    X(PAIR, "pair")     /* both variants, as they are */                                                               \
    X(SAME, "same")     /* one variant twice, at the same pose */                                                      \
    X(ASIDE, "aside")   /* one variant twice, the second moved a little */                                             \
    X(TURNED, "turned") /* both variants, at random poses that overlap */                                              \
    X(SELF, "self")     /* one body, with itself */                                                                    \
    X(FLOOR, "floor")   /* one body in a half-space */                                                                 \
    X(CROWD, "crowd")   /* many bodies at random poses, all in reach of each other */

typedef enum hostile_place {
#define HOSTILE_ENUM(place, name) HOSTILE_##place,
    HOSTILE_PLACE_MAP(HOSTILE_ENUM)
#undef HOSTILE_ENUM
        HOSTILE_PLACES
} hostile_place;

typedef struct hostile_scene {
    hostile_kind kind;
    hostile_place place;
    uint32_t triangles; /* of a body, at most */
    uint32_t bodies;    /* of a crowd */
    uint64_t seed;
    bool is_deformable;
    uint32_t want, directions; /* directions: of the first body */
    bool has_velocities;
    bool has_updates; /* the step moves all bodies a little */
    ct_scene_settings settings;
} hostile_scene;

hostile_scene hostile_scene_default(void); /* a pair of balls of 1,000 triangles, exact */
/* Takes a word; false: there is no such word or value. Settings have the names of ct_scene_settings. */
bool hostile_scene_set(hostile_scene *scene, const char *word);
void hostile_scene_print(const hostile_scene *scene, char *text, size_t size); /* as words; the defaults are left out */
/* From any bytes: within the limits of triangles of a body and of bodies, and with settings that are allowed. */
hostile_scene hostile_scene_of(const uint8_t *bytes, size_t size, uint32_t max_triangles, uint32_t max_bodies);
/* Settings that would take more work than so small a scene is meant to: for what runs it to its end. */
void hostile_scene_shrink(hostile_scene *scene);

/* ---- in an engine ---- */

typedef struct hostile_stage {
    ct_engine *engine;
    ct_scene *scene;
    ct_mesh *meshes[2];
    uint32_t *bodies;
    size_t n_bodies;
    double *poses; /* [n_bodies][12] */
    double *moved; /* [largest mesh's vertices][3], what directions, velocities and updates have for a vertex */
    ct_update *updates;
    ct_direction *directions;
    ct_velocity *velocities;
} hostile_stage;

/* Makes meshes and bodies. Fails as the engine does; close it in any case. shapes: hostile_scene_shapes's. */
ct_status hostile_open(hostile_stage *stage, ct_engine *engine, const hostile_scene *scene,
                       const struct shape shapes[2], ct_error *error);
void hostile_close(hostile_stage *stage);
/* The step to run; its arrays are the stage's. */
ct_step hostile_step(const hostile_stage *stage, const hostile_scene *scene);

/* Both variants, or one and an empty shape where the second is not needed. The caller frees both. */
void hostile_scene_shapes(const hostile_scene *scene, struct shape shapes[2]);

#endif
