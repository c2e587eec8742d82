/* task.c - shares a step's budgets among its pairs. */
#include "gpu/methods/voxtree/task.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/large.h"
#include "gpu/methods/voxtree/finish.h"

/* Measured on two threads, with 1,900 pairs of which half have a contact: much of it is that a thread finishes pairs
 * that the other one went on with. */
double ct_voxel_answer_seconds(const ct_voxel_answer_load *load) {
    return 10e-6 + 0.08e-6 * (double)load->n_pairs + 0.2e-6 * (double)load->n_contacts + 10e-9 * (double)load->n_groups;
}

double ct_voxel_learn_answer_factor(double factor, double took) {
    static const double UP = 1.1, DOWN = 0.998; /* at rest, ln UP times the share above is -ln DOWN times the rest */
    static const double LEAST = 0.25, MOST = 64;
    return fmax(LEAST, fmin(MOST, factor * (took > factor ? UP : DOWN)));
}

static double volume_of_overlap(const ct_voxel_task *task) {
    double volume = 1;
    for (int k = 0; k < 3; k++)
        volume *= fmin(task->body[0]->box.hi[k], task->body[1]->box.hi[k]) -
                  fmax(task->body[0]->box.lo[k], task->body[1]->box.lo[k]);
    return volume;
}

void ct_voxel_task_begin(ct_voxel_task *task) {
    const ct_scene_settings *settings = task->settings;
    const ct_voxel_tree *trees[2];
    for (int b = 0; b < 2; b++) trees[b] = ct_voxel_tree_for(task->body[b]->mesh, settings, NULL);
    const ct_voxel_options options = {.level = settings->level ? settings->level : CT_MAX_VOXEL_LEVEL,
                                      .center_normals = settings->center_normals,
                                      .plain_average = settings->plain_average,
                                      .wants_points = task->want & CT_WANT_FRAME,
                                      .every_level = task->deadline > 0 || settings->pair_budget};
    ct_voxel_pair_begin(&task->pair, trees, (const double *const[2]){task->body[0]->pose, task->body[1]->pose},
                        &options);
    task->depth = volume_of_overlap(task);
    task->is_active = true;
    task->is_refined = false;
    task->ended = CT_ENDED_COMPLETED;
}

void ct_voxel_task_end(ct_voxel_task *task, ct_ended ended) {
    task->is_active = false;
    task->ended = ended;
}

void ct_voxel_task_advance(ct_voxel_task *task) {
    task->depth = task->pair.answer.all.estimate;
    if (!ct_voxel_pair_can_descend(&task->pair))
        ct_voxel_task_end(task, ct_voxel_pair_is_limited(&task->pair) ? CT_ENDED_LEVEL : CT_ENDED_COMPLETED);
}

static int compare_turns(const void *a, const void *b) {
    const ct_voxel_turn *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    if (x->depth != y->depth) return x->depth > y->depth ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

void ct_voxel_sort_turns(ct_voxel_turn *turns, uint32_t n) {
    /* Cancelled, they may be in any order: whoever goes on with them ends. */
    if (n > 1 && !ct_sort_large(turns, n, sizeof *turns, compare_turns) && !ct_is_cancelled())
        qsort(turns, n, sizeof *turns, compare_turns);
}

uint32_t ct_voxel_admit_tasks(ct_voxel_turn *active, uint32_t n, uint64_t *spent, uint64_t *tests) {
    uint32_t n_admitted = 0;
    ct_voxel_sort_turns(active, n);
    *tests = 0;
    for (uint32_t i = 0; i < n; i++) {
        ct_voxel_task *task = active[i].task;
        const uint64_t need = ct_voxel_pair_next_tests(&task->pair), budget = task->settings->pair_budget;
        if (budget && need > budget - spent[task->step]) {
            ct_voxel_task_end(task, CT_ENDED_PAIRS);
            continue;
        }
        spent[task->step] += need;
        *tests += need;
        active[n_admitted++] = active[i];
    }
    return n_admitted;
}

bool ct_voxel_task_may_refine(const ct_voxel_task *task) {
    const ct_voxel_answer *answer = &task->pair.answer;
    return task->settings->refine && answer->is_examined && answer->all.upper > 0;
}

void ct_voxel_task_end_refined(ct_voxel_task *task) {
    ct_voxel_task_end(task, CT_ENDED_COMPLETED);
    task->is_refined = true;
}

void ct_voxel_task_use_exact(ct_contact *exact, uint64_t n_points) {
    exact->volume_lower = fmax(exact->volume - exact->error_bound, 0);
    exact->volume_upper = exact->volume + exact->error_bound;
    exact->n_points = n_points;
}

double ct_voxel_task_quality(const ct_voxel_task *task) {
    const ct_voxel_answer *answer = &task->pair.answer;
    if (!answer->is_examined) return 0;
    if (task->is_refined) return 1;
    return answer->n_open ? (answer->level[0] + 1.0) / (task->pair.tree[0]->finest + 1.0) : 1;
}

ct_pair_progress ct_voxel_task_progress(const ct_voxel_task *task) {
    const ct_voxel_pair *pair = &task->pair;
    ct_pair_progress progress = {.body = {task->body[0]->id, task->body[1]->id},
                                 .is_examined = pair->answer.is_examined,
                                 .is_refined = task->is_refined,
                                 .ended = task->ended};
    progress.level[pair->driver] = pair->answer.level[0];
    progress.level[1 - pair->driver] = pair->answer.level[1];
    return progress;
}

bool ct_voxel_task_contact(const ct_voxel_task *task, ct_contact *contact) {
    const double *const poses[2] = {task->body[0]->pose, task->body[1]->pose};
    *contact = (ct_contact){.body = {task->body[0]->id, task->body[1]->id}};
    return task->pair.answer.is_examined && ct_voxel_finish_contact(&task->pair, poses, contact);
}

void ct_voxel_task_trim(const ct_voxel_task *task, ct_contact *contact) {
    if (task->want & (CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES)) return;
    contact->area = contact->depth = 0;
    memset(contact->normal, 0, sizeof contact->normal);
    memset(contact->tangents, 0, sizeof contact->tangents);
    memset(contact->center, 0, sizeof contact->center);
    memset(contact->generalized_gradient, 0, sizeof contact->generalized_gradient);
}

uint32_t ct_voxel_task_most_points(const ct_voxel_task *task) {
    const uint32_t most = task->settings->max_points ? task->settings->max_points : CT_DEFAULT_MAX_POINTS;
    return task->pair.answer.groups.n < most ? task->pair.answer.groups.n : most;
}

uint32_t ct_voxel_task_points(const ct_voxel_task *task, ct_point *points) {
    const double *const poses[2] = {task->body[0]->pose, task->body[1]->pose};
    return ct_voxel_finish_points(&task->pair, poses, ct_voxel_task_most_points(task), points);
}
