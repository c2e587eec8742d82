/* kept_cpu.h - answers of pairs whose bodies have not moved, kept from step to step: time follows change. */
#ifndef CT_KEPT_CPU_H
#define CT_KEPT_CPU_H

#include "gpu/method/device_cpu.h"

/* The answer of a pair, as a step with the same bodies, settings and wishes computes it. */
struct ct_kept_pair {
    uint64_t key;        /* ct_pair_key of the bodies' ids */
    uint64_t n_moves[2]; /* of ct_resident: the bodies are where they were */
    uint32_t want;       /* ct_step.want */
    uint32_t n_contacts;
    ct_pair_contact *contacts; /* [n_contacts], and then their entries: one block of memory; NULL: there is none */
    size_t bytes;              /* of the block */
    /* As in ct_pair_task: */
    ct_ended ended;
    uint32_t passes;
    uint64_t rays, fragments;
};

/* A scene's, in the order of its pairs. */
typedef struct ct_kept {
    uint64_t version; /* of the scene: answers of another version are none */
    ct_kept_pair *pairs;
    size_t n, bytes; /* bytes: of the blocks */
} ct_kept;

/* A walk through a scene's answers, beside that of the step's pairs. */
typedef struct ct_kept_walk {
    ct_kept_pair *next, *end;
} ct_kept_walk;

ct_kept_walk ct_kept_begin(const ct_step *step, const ct_cpu_method *method);
/* The kept answer of the step's next pair; NULL: there is none. */
ct_kept_pair *ct_kept_find(ct_kept_walk *walk, const ct_step *step, const ct_body *a, const ct_body *b);
/* The pair's answer is the one that is kept of it, at no cost. */
void ct_kept_answer(ct_pair_task *pair);

/* Keeps for the next step what the step's pairs answered whose bodies have not moved since the step before, and drops
 * all else; for want of memory, less. Before the result takes over entries of a pair. */
void ct_kept_update(const ct_step *step, const ct_cpu_method *method, ct_pair_task *pairs, size_t n_pairs);

void ct_kept_forget(ct_scene *scene);

#endif
