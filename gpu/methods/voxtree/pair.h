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

#include "gpu/base/scratch.h"
#include "gpu/methods/voxtree/descend_k.h"
#include "gpu/methods/voxtree/tree.h"

/* ---- sums of contact primitives by pair of groups, in a hash table ---- */

/* 0 is an empty table. */
typedef struct ct_voxel_group_table {
    ct_buffer sums;  /* ct_voxel_group_sums [n], in the order in which the pairs of groups were met */
    ct_buffer slots; /* uint32_t [n_slots], a power of two: 1 + index in sums, or 0 */
    uint32_t n, n_slots;
} ct_voxel_group_table;

/* Gives a pair of groups that the table does not have sums of 0. NULL: out of memory. */
ct_voxel_group_sums *ct_voxel_add_group(ct_voxel_group_table *table, ct_budget *budget, uint32_t a, uint32_t b);

static inline uint32_t ct_voxel_hash_groups(uint32_t a, uint32_t b) {
    return (a * 0x9e3779b1u ^ b * 0x85ebca6bu) * 0xc2b2ae35u >> 7;
}

/* The sums of a pair of groups, of 0 at the first call; until the next call. NULL: out of memory. */
static inline ct_voxel_group_sums *ct_voxel_group(ct_voxel_group_table *table, ct_budget *budget, uint32_t a,
                                                  uint32_t b) {
    const uint32_t *slots = table->slots.data, mask = table->n_slots - 1;
    ct_voxel_group_sums *all = table->sums.data;
    for (uint32_t at = ct_voxel_hash_groups(a, b) & mask; table->n_slots && slots[at]; at = (at + 1) & mask) {
        ct_voxel_group_sums *sums = all + (slots[at] - 1);
        if (sums->group[0] == a && sums->group[1] == b) return sums;
    }
    return ct_voxel_add_group(table, budget, a, b);
}

static inline void ct_voxel_add_sums(ct_voxel_group_sums *to, const ct_voxel_group_sums *from) {
    for (int k = 0; k < 3; k++) {
        to->normal[k] += from->normal[k];
        to->point[k] += from->point[k];
    }
    to->probability += from->probability;
    to->depth += from->depth;
    to->n += from->n;
}

/* Room for one more at the end of a buffer of n sums. NULL: out of memory. */
ct_voxel_group_sums *ct_voxel_append_sums(ct_buffer *buffer, ct_budget *budget, size_t n);

/* ---- a pair ---- */

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
    double gradient_error;         /* m^2: how long the rounding of cubes can make a gradient of 0 */
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
/* Cubes that the next level compares. */
uint64_t ct_voxel_pair_next_tests(const ct_voxel_pair *pair);

/* Makes `next` ready for the next level, with sums of 0, and tells how the trees lie on it. */
void ct_voxel_begin_level(ct_voxel_pair *pair, ct_voxel_geometry *geometry);

/* Makes the level's answer from its sums, and lets it take the place of the one before. False: out of memory. */
bool ct_voxel_complete_level(ct_voxel_pair *pair, const ct_voxel_geometry *geometry, ct_budget *budget);

void ct_voxel_pair_free(ct_voxel_pair *pair, ct_budget *budget);

/* ---- the CPU's kernel, one set per instruction set (descend_cpu.simd.c) ---- */

typedef enum ct_voxel_descent { CT_VOXEL_DONE, CT_VOXEL_LATE, CT_VOXEL_NO_MEMORY } ct_voxel_descent;

typedef struct ct_voxel_cpu {
    /* Computes the next level of a pair that can descend. LATE: the deadline (of ct_now, 0: none) passed before it was
     * complete, and NO_MEMORY, which also says that it was cancelled: the answer is still that of the level before. */
    ct_voxel_descent (*descend)(ct_voxel_pair *pair, double deadline, ct_budget *budget);
} ct_voxel_cpu;

extern const ct_voxel_cpu ct_voxel_cpu_base;
#ifdef __x86_64__
extern const ct_voxel_cpu ct_voxel_cpu_avx2;
#endif

#endif
