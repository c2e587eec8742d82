/* rounds.h - the method VOXTREE for a backend whose device computes one level of all pairs of a batch at once: what the
 * host does before the first level, between levels, and after the last. */
#ifndef CT_VOXEL_ROUNDS_H
#define CT_VOXEL_ROUNDS_H

#include "gpu/methods/voxtree/descend_k.h"
#include "gpu/methods/voxtree/tree.h"
#include "gpu/scene/scene.h"

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

/* The sums of pair i of the round: for each of its pairs of groups, of open or of settled cubes, and then of its cubes.
 * False: out of memory. */
bool ct_voxel_rounds_add_group(ct_voxel_rounds *rounds, uint32_t i, const ct_voxel_group_sums *sums, bool is_settled);
bool ct_voxel_rounds_complete(ct_voxel_rounds *rounds, uint32_t i, const ct_voxel_cube_sums *settled,
                              const ct_voxel_cube_sums *open);

/* A pair that EXACT may compute after the last round. */
typedef struct ct_voxel_round_exact {
    uint32_t number;
    const ct_step *step;
    ct_body *body[2];
    double deadline;  /* of ct_now; 0: none */
    double triangles; /* of both bodies, within reach of the other: its cost */
} ct_voxel_round_exact;

/* Those of all steps, in *pairs, which live as long as the rounds; those of a step with the deepest overlap first.
 * Without pairs whose bodies are too far apart in size for EXACT, which keep the trees' answers. */
uint32_t ct_voxel_rounds_may_refine(ct_voxel_rounds *rounds, const ct_voxel_round_exact **pairs);
/* What EXACT made of such a pair, as a step of its own: the rounds take over its result. An error becomes that of the
 * pair's step. With neither it was not started, for want of time. */
void ct_voxel_rounds_refine(ct_voxel_rounds *rounds, uint32_t number, ct_step *of_pair);

/* Makes the results of the steps that have not failed. */
void ct_voxel_rounds_answer(const ct_voxel_rounds *rounds);

#endif
