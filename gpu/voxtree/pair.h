/* pair.h - two voxel trees against each other, level by level, so that the work can stop after any level and still has
 * an answer (Dingliana and O'Sullivan 2005). For the method VOXTREE.
 *
 * One body drives: the one whose finest cubes are smaller. At each level of its tree the other's level is the finest
 * whose cubes are not smaller. A cube of the driver is settled where all of the other's cubes that its box reaches are
 * full (it counts wholly) or empty (not at all); else it is open, stays in the *front* and is looked at through its
 * children on the next level. So the volume lies between what has been settled and that plus all open cubes, and both
 * ends close in from level to level.
 *
 * What an open cube adds to the estimates is weighted by the other's occupancy there, interpolated between its cubes'
 * centres. The gradient with respect to a translation of the driver is the sum of the weighted area vectors of its
 * boundary nodes.
 *
 * Contact primitives (sections 3.2 to 3.5): an open cube of the driver with each of the other's cubes whose centre is
 * nearer than the sum of their radii, if one of both is a boundary node. A cube's radius is half of its side. */
#ifndef CT_VOXEL_PAIR_H
#define CT_VOXEL_PAIR_H

#include "gpu/voxtree/group_table.h"
#include "gpu/voxtree/tree.h"

typedef struct ct_voxel_options {
    uint32_t level;        /* neither tree is followed below it */
    bool center_normals;   /* normals along the line of centres, instead of equation 6 */
    bool plain_average;    /* primitives count alike, instead of by their probability and surface */
    bool wants_points;     /* primitives are added up */
    bool keeps_primitives; /* each primitive is kept too; with wants_points */
    bool every_level; /* false: only the last level is sure to have estimates, gradient and primitives of open cubes,
                         as the pair is not interrupted before */
} ct_voxel_options;

/* Of all levels; in the driver's mesh's frame. */
typedef struct ct_voxel_sums {
    double lower, upper, estimate; /* m^3, of the volume */
    double gradient[3];            /* m^2: d volume / d translation of the driver */
    double moment[3];              /* m^3: the same of rotations about the driver's mesh's origin */
    double center[3];              /* m^4: volume times centre */
} ct_voxel_sums;

typedef struct ct_voxel_answer {
    bool is_examined;
    ct_voxel_sums settled, all; /* without and with open cubes */
    uint32_t level[2];          /* of the driver, of the other body */
    double cube[2];             /* m, sides */
    uint32_t n_open, n_children;
    ct_buffer open; /* ct_voxel_open */
    ct_voxel_group_table groups;
    uint32_t n_primitives;
    ct_buffer primitives; /* ct_voxel_group_sums of one primitive each, with keeps_primitives */
} ct_voxel_answer;

typedef struct ct_voxel_pair {
    const ct_voxel_tree *tree[2]; /* driver's, other's */
    int driver;                   /* its index in the pair of bodies */
    double turn[9], shift[3];     /* from the driver's mesh frame to the other's: turn p + shift */
    double scale[2];              /* determinants of the poses' rotations, which are rotations to 1e-3 only */
    ct_voxel_options options;
    ct_voxel_answer answer, next;     /* of the last level that is complete, and of the one that is computed */
    ct_voxel_cube_sums settled, open; /* of the level that is computed */
    /* Primitives of settled boundary nodes of all levels, each a pair of its group and CT_VOXEL_INSIDE; in cubes and
     * faces of the level that is computed. */
    ct_voxel_group_table settled_groups;
    double most_area; /* a power of two: the most_area of both trees' levels */
    uint64_t n_tests; /* cubes of the driver compared with the other's, over all levels */
} ct_voxel_pair;

/* Prepares a pair; its buffers, which must be zero or those of an earlier pair, are kept. */
void ct_voxel_pair_begin(ct_voxel_pair *pair, const ct_voxel_tree *const trees[2], const double *const poses[2],
                         const ct_voxel_options *options);

/* Whether there is a next level: some cube is open, and the driver's tree goes on within options.level. */
bool ct_voxel_pair_can_descend(const ct_voxel_pair *pair);
/* Whether only options.level keeps it from going on. */
bool ct_voxel_pair_is_limited(const ct_voxel_pair *pair);
/* The finest level that a side (0: the driver) is followed to. */
uint32_t ct_voxel_stop_level(const ct_voxel_pair *pair, int side);
/* Cubes that the next level compares. */
uint64_t ct_voxel_pair_next_tests(const ct_voxel_pair *pair);

/* Makes `next` ready for the next level, with sums of 0, and tells how the trees lie on it. */
void ct_voxel_begin_level(ct_voxel_pair *pair, ct_voxel_geometry *geometry);

/* Makes the level's answer from its sums, and lets it take the place of the one before. False: out of memory. */
bool ct_voxel_complete_level(ct_voxel_pair *pair, const ct_voxel_geometry *geometry, ct_budget *budget);

void ct_voxel_pair_free(ct_voxel_pair *pair, ct_budget *budget);

#endif
