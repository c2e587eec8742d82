/* rounds.h - the method VOXTREE for a backend whose device computes one level of all pairs of a batch at once: what the
 * host does before the first level, between levels, and after the last. */
#ifndef CT_VOXEL_ROUNDS_H
#define CT_VOXEL_ROUNDS_H

#include "gpu/scene/scene.h"
#include "gpu/voxtree/descend_k.h"
#include "gpu/voxtree/tree.h"

/* All pairs of a batch. A round computes the next level of those that go on. */
typedef struct ct_voxel_rounds ct_voxel_rounds;

/* Finds the pairs of steps whose bodies have their poses, and boxes of their trees. Steps that fail get their errors
 * and have no pairs. start: of ct_now, when the time budgets began. NULL: out of memory. */
ct_voxel_rounds *ct_voxel_rounds_begin(ct_step *const *steps, size_t n_steps, double start);
void ct_voxel_rounds_free(ct_voxel_rounds **rounds);

/* Of all rounds; pairs are numbered below it. */
uint32_t ct_voxel_rounds_pairs(const ct_voxel_rounds *rounds);

/* A pair in a round. */
typedef struct ct_voxel_round_pair {
    uint32_t number;
    const ct_body *body[2];       /* the driver, the other one */
    const ct_voxel_tree *tree[2]; /* the same */
    uint32_t level[2];            /* that the round computes */
    bool is_root;                 /* the level is the first: it compares the root itself */
    ct_voxel_geometry geometry;   /* of the trees on the host */
} ct_voxel_round_pair;

/* The next round: pairs whose budgets are used up end, and so do those whose time is over at `now`, of ct_now. Returns
 * how many go on, in *pairs, which live until the next call; 0: none. *tests: how many cubes they compare. */
uint32_t ct_voxel_rounds_next(ct_voxel_rounds *rounds, double now, const ct_voxel_round_pair **pairs, uint64_t *tests);

/* The sums of pair i of the round: for each of its pairs of groups, and then of its cubes. False: out of memory. */
bool ct_voxel_rounds_add_group(ct_voxel_rounds *rounds, uint32_t i, const ct_voxel_group_sums *sums);
void ct_voxel_rounds_complete(ct_voxel_rounds *rounds, uint32_t i, const ct_voxel_cube_sums *settled,
                              const ct_voxel_cube_sums *open);

/* Makes the results of the steps that have not failed. */
void ct_voxel_rounds_answer(const ct_voxel_rounds *rounds);

#endif
