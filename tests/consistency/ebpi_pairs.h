/* ebpi_pairs.h - settings of the method `ebpi`, and pairs of bodies of all kinds in any or axis-aligned orientation:
 * for its tests. */
#ifndef CONSISTENCY_EBPI_PAIRS_H
#define CONSISTENCY_EBPI_PAIRS_H

#include "tests/scenes/build.h"
#include "tests/scenes/stage.h"

static inline ct_scene_settings ebpi_settings(double tolerance, double tolerance_rel, bool strict) {
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_EBPI;
    settings.tolerance = tolerance;
    settings.tolerance_rel = tolerance_rel;
    settings.strict = strict;
    return settings;
}

enum { KINDS = 10 };

static inline struct shape shape_of_kind(int kind, uint64_t *rng) {
    switch (kind) {
    case 0: { /* not as arguments, whose order is the compiler's */
        const double z = shape_uniform(rng, 0.3, 1.5), y = shape_uniform(rng, 0.3, 1.5);
        return shape_box(shape_uniform(rng, 0.3, 1.5), y, z);
    }
    case 1:
        return shape_tetrahedron(shape_uniform(rng, 0.8, 1.5));
    case 2:
        return shape_l_prism(1.2, shape_uniform(rng, 0.2, 1));
    case 3:
        return shape_icosphere(0.6, (int)(shape_random(rng) % 4));
    case 4:
        return shape_torus(0.6, 0.25, 10, 6);
    case 5:
        return shape_cylinder(0.4, shape_uniform(rng, 0.5, 1.5), 12);
    case 6:
        return shape_blob(0.7, 3, 0.5, shape_random(rng));
    case 7:
        return shape_box(1.5, 1.5, 0.01); /* a plate */
    case 8:
        return shape_cube(1, 5);
    default:
        return shape_bolt(0.5, 0.12, 0.3, 2, 8, 6);
    }
}

/* Two bodies with a pose each. */
struct random_pair {
    struct shape shape[2];
    double pose[2][12];
};

/* aligned: along the axes, so that all faces of boxes are steep. */
static inline struct random_pair random_pair(uint64_t *rng, double reach, bool is_aligned) {
    struct random_pair pair;
    for (int k = 0; k < 2; k++) pair.shape[k] = shape_of_kind((int)(shape_random(rng) % KINDS), rng);
    for (int k = 0; k < 2; k++) {
        double *pose = pair.pose[k];
        shape_pose_random(rng, reach, pose);
        if (!is_aligned) continue;
        const double at[3] = {pose[3], pose[7], pose[11]};
        shape_pose_identity(pose);
        for (int j = 0; j < 3; j++) pose[4 * j + 3] = at[j];
    }
    return pair;
}

static inline void random_pair_free(struct random_pair *pair) {
    for (int k = 0; k < 2; k++) shape_free(&pair->shape[k]);
}

#endif
