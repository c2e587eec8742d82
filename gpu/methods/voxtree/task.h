/* task.h - a pair of bodies of a step of the method VOXTREE: how far it is followed, which pairs go on first, and what
 * its answer is. For every backend. */
#ifndef CT_VOXEL_TASK_H
#define CT_VOXEL_TASK_H

#include "gpu/methods/voxtree/pair.h"
#include "gpu/scene/scene.h"

typedef struct ct_voxel_task {
    ct_voxel_pair pair;
    const ct_body *body[2];
    const ct_scene_settings *settings;
    size_t step;     /* of the batch; tasks of a step follow each other */
    uint32_t number; /* of the task in the batch */
    uint32_t want;
    double deadline; /* of ct_now; 0: none */
    double depth;    /* m^3: which pairs of a step come first */
    bool is_active, is_refined;
    ct_ended ended;
} ct_voxel_task;

/* What a batch's answers are made from: its pairs, those of them with a contact, and pairs of groups of all contacts.
 */
typedef struct ct_voxel_answer_load {
    uint64_t n_pairs, n_contacts, n_groups;
} ct_voxel_answer_load;

/* How long making a batch's answers is expected to take, s: what is kept of a step's time budget, times a factor that
 * is learned where the batch runs. */
double ct_voxel_answer_seconds(const ct_voxel_answer_load *load);

/* The factor after a batch whose answers took `took` times what was expected. It follows the most that batches take but
 * for one in fifty: one that was interrupted does not make the next ones give up their time. */
double ct_voxel_learn_answer_factor(double factor, double took);

/* Prepares a task whose body, settings, step, number, want and deadline are set. Its pair's buffers are kept. */
void ct_voxel_task_begin(ct_voxel_task *task);

void ct_voxel_task_end(ct_voxel_task *task, ct_ended ended);

/* After a level of its pair is complete: it ends where there is no other. */
void ct_voxel_task_advance(ct_voxel_task *task);

/* A task and a copy of its sorting keys, so that sorting does not have to read the tasks themselves. */
typedef struct ct_voxel_turn {
    ct_voxel_task *task;
    size_t step;
    double depth;
    uint32_t number;
} ct_voxel_turn;

static inline ct_voxel_turn ct_voxel_turn_of(ct_voxel_task *task) {
    return (ct_voxel_turn){task, task->step, task->depth, task->number};
}

/* Orders tasks, those of a step with the deepest overlap first. */
void ct_voxel_sort_turns(ct_voxel_turn *turns, uint32_t n);

/* Orders active tasks, and ends those whose next level no longer fits their step's budget of pairs. spent: of each
 * step, of this budget. Returns how many go on: they are moved to the front of the list. *tests: cubes that they
 * compare. */
uint32_t ct_voxel_admit_tasks(ct_voxel_turn *active, uint32_t n, uint64_t *spent, uint64_t *tests);

/* Whether EXACT may compute the pair once more: the scene wants it, and the trees found that the bodies may touch. */
bool ct_voxel_task_may_refine(const ct_voxel_task *task);
/* EXACT has computed the pair. */
void ct_voxel_task_end_refined(ct_voxel_task *task);
/* Makes the contact that EXACT found the task's: it has the trees' n_points points. */
void ct_voxel_task_use_exact(ct_contact *exact, uint64_t n_points);

/* Of the levels that the driver's tree has, 0..1; 1 for a pair that is refined. */
double ct_voxel_task_quality(const ct_voxel_task *task);

ct_pair_progress ct_voxel_task_progress(const ct_voxel_task *task);

/* The task's contact with all that the trees give. False: it has none, or was not examined. */
bool ct_voxel_task_contact(const ct_voxel_task *task, ct_contact *contact);
/* Leaves out of it what the task does not want. */
void ct_voxel_task_trim(const ct_voxel_task *task, ct_contact *contact);

/* The most points that the task's contact may have, and these points, of which there are at most so many. */
uint32_t ct_voxel_task_most_points(const ct_voxel_task *task);
uint32_t ct_voxel_task_points(const ct_voxel_task *task, ct_point *points);

#endif
