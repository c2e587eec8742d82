/* rounds.c - shares budgets and makes results; the levels themselves are computed elsewhere. */
#include "gpu/methods/voxtree/rounds.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/contact/result.h"
#include "gpu/mesh/mesh.h"
#include "gpu/method/method.h"
#include "gpu/methods/exact/exact.h"
#include "gpu/methods/voxtree/task.h"

struct ct_voxel_rounds {
    ct_step *const *steps;
    size_t n_steps;
    ct_voxel_task *tasks; /* [n_tasks], step after step */
    uint32_t n_tasks;
    uint32_t *first_task;        /* [n_steps + 1] */
    uint64_t *spent;             /* [n_steps] */
    ct_voxel_turn *going;        /* [n_tasks] of the round */
    ct_voxel_round_pair *pairs;  /* [n_tasks] */
    ct_voxel_round_exact *exact; /* [n_tasks] */
    ct_result **refined;         /* [n_tasks] what EXACT found of the pair alone; NULL: the trees' answer counts */
    ct_budget budget;            /* without a limit: the host's memory */
};

/* ---- pairs ---- */

/* False: no memory for a tree; the step has its error. */
static bool has_trees(ct_step *step, const ct_pair *pair) {
    ct_scene *scene = step->scene;
    const ct_body *body[2] = {scene->bodies[pair->a], scene->bodies[pair->b]};
    for (int b = 0; b < 2; b++) {
        ct_error why = {0};
        if (ct_voxel_tree_for(body[b]->mesh, &scene->settings, &why)) continue;
        ct_fail(&step->error, why.status, why.field, "bodies %u and %u: %s", body[0]->id, body[1]->id, why.message);
        return false;
    }
    return true;
}

/* Scenes of this method have no half-spaces, but a picture's samples run beside them. */
static bool has_contact(const ct_scene *scene, const ct_pair *pair) {
    return !scene->bodies[pair->a]->is_half_space && !scene->bodies[pair->b]->is_half_space;
}

static uint32_t list_step(ct_voxel_rounds *rounds, size_t index, double start, uint32_t n_pairs) {
    ct_step *step = rounds->steps[index];
    const ct_scene *scene = step->scene;
    const ct_voxel_answer_load load = {.n_pairs = n_pairs, .n_contacts = n_pairs};
    const double kept = ct_voxel_answer_seconds(&load);
    uint32_t n = 0;
    for (size_t p = 0; p < scene->broad.n_pairs; p++) {
        const ct_pair *pair = &scene->broad.pairs[p];
        if (CT_POLL_EVERY(p, 256) && ct_is_cancelled()) {
            ct_fail_cancelled(&step->error);
            return 0;
        }
        if (!has_contact(scene, pair)) continue;
        if (!has_trees(step, pair)) return 0;
        ct_voxel_task *task = &rounds->tasks[rounds->n_tasks + n];
        task->body[0] = scene->bodies[pair->a];
        task->body[1] = scene->bodies[pair->b];
        task->settings = &scene->settings;
        task->step = index;
        task->number = rounds->n_tasks + n++;
        task->want = step->want;
        task->deadline = step->time_budget > 0 ? start + step->time_budget - kept : 0;
    }
    for (uint32_t i = 0; i < n; i++) ct_voxel_task_begin(&rounds->tasks[rounds->n_tasks + i]);
    return n;
}

ct_voxel_rounds *ct_voxel_rounds_begin(ct_step *const *steps, size_t n_steps, double start) {
    ct_voxel_rounds *rounds = calloc(1, sizeof *rounds);
    if (!rounds) return NULL;
    *rounds = (ct_voxel_rounds){.steps = steps, .n_steps = n_steps};
    size_t n = 0;
    for (size_t i = 0; i < n_steps; i++) {
        if (!steps[i]->error.status) ct_scene_find_pairs(steps[i]->scene, &steps[i]->error);
        if (!steps[i]->error.status) n += steps[i]->scene->broad.n_pairs;
    }
    rounds->first_task = calloc(n_steps + 1, sizeof *rounds->first_task);
    rounds->spent = calloc(n_steps + 1, sizeof *rounds->spent);
    rounds->tasks = calloc(n + 1, sizeof *rounds->tasks);
    rounds->going = malloc((n + 1) * sizeof *rounds->going);
    rounds->pairs = malloc((n + 1) * sizeof *rounds->pairs);
    rounds->exact = malloc((n + 1) * sizeof *rounds->exact);
    rounds->refined = calloc(n + 1, sizeof(ct_result *));
    if (!rounds->first_task || !rounds->spent || !rounds->tasks || !rounds->going || !rounds->pairs || !rounds->exact ||
        !rounds->refined) {
        ct_voxel_rounds_free(&rounds);
        return NULL;
    }
    for (size_t i = 0; i < n_steps; i++) {
        rounds->first_task[i] = rounds->n_tasks;
        if (!steps[i]->error.status) rounds->n_tasks += list_step(rounds, i, start, (uint32_t)n);
    }
    rounds->first_task[n_steps] = rounds->n_tasks;
    return rounds;
}

void ct_voxel_rounds_free(ct_voxel_rounds **rounds) {
    ct_voxel_rounds *r = *rounds;
    *rounds = NULL;
    if (!r) return;
    for (uint32_t i = 0; i < r->n_tasks; i++) {
        ct_voxel_pair_free(&r->tasks[i].pair, &r->budget);
        ct_result_free(&r->refined[i]);
    }
    free(r->first_task);
    free(r->spent);
    free(r->tasks);
    free(r->going);
    free(r->pairs);
    free(r->exact);
    free(r->refined);
    free(r);
}

uint32_t ct_voxel_rounds_pairs(const ct_voxel_rounds *rounds) {
    return rounds->n_tasks;
}

/* ---- rounds ---- */

uint32_t ct_voxel_rounds_next(ct_voxel_rounds *rounds, double now, const ct_voxel_round_pair **pairs, uint64_t *tests) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < rounds->n_tasks; i++) {
        ct_voxel_task *task = &rounds->tasks[i];
        if (!task->is_active) continue;
        if (task->deadline > 0 && now > task->deadline)
            ct_voxel_task_end(task, CT_ENDED_TIME);
        else
            rounds->going[n++] = ct_voxel_turn_of(task);
    }
    n = ct_voxel_admit_tasks(rounds->going, n, rounds->spent, tests);
    for (uint32_t i = 0; i < n; i++) {
        ct_voxel_task *task = rounds->going[i].task;
        ct_voxel_pair *pair = &task->pair;
        ct_voxel_round_pair *out = &rounds->pairs[i];
        out->is_root = !pair->answer.is_examined;
        ct_voxel_begin_level(pair, &out->geometry);
        out->number = task->number;
        for (int b = 0; b < 2; b++) {
            out->body[b] = task->body[b ? 1 - pair->driver : pair->driver];
            out->tree[b] = pair->tree[b];
            out->level[b] = pair->next.level[b];
        }
    }
    *pairs = rounds->pairs;
    return n;
}

bool ct_voxel_rounds_add_group(ct_voxel_rounds *rounds, uint32_t i, const ct_voxel_group_sums *sums, bool is_settled) {
    ct_voxel_pair *pair = &rounds->going[i].task->pair;
    ct_voxel_group_table *table = is_settled ? &pair->settled_groups : &pair->next.groups;
    ct_voxel_group_sums *to = ct_voxel_group(table, &rounds->budget, sums->group[0], sums->group[1]);
    if (to) ct_voxel_add_sums(to, sums);
    return to;
}

bool ct_voxel_rounds_complete(ct_voxel_rounds *rounds, uint32_t i, const ct_voxel_cube_sums *settled,
                              const ct_voxel_cube_sums *open) {
    ct_voxel_task *task = rounds->going[i].task;
    task->pair.settled = *settled;
    task->pair.open = *open;
    if (!ct_voxel_complete_level(&task->pair, &rounds->pairs[i].geometry, &rounds->budget)) return false;
    ct_voxel_task_advance(task);
    return true;
}

/* ---- the method EXACT after the rounds ---- */

uint32_t ct_voxel_rounds_may_refine(ct_voxel_rounds *rounds, const ct_voxel_round_exact **pairs) {
    uint32_t n = 0, n_fit = 0;
    for (uint32_t i = 0; i < rounds->n_tasks; i++)
        if (ct_voxel_task_may_refine(&rounds->tasks[i])) rounds->going[n++] = ct_voxel_turn_of(&rounds->tasks[i]);
    ct_voxel_sort_turns(rounds->going, n);
    for (uint32_t i = 0; i < n; i++) {
        const ct_voxel_task *task = rounds->going[i].task;
        const ct_body *const *body = task->body;
        const uint32_t n_triangles[2] = {body[0]->mesh->n_triangles, body[1]->mesh->n_triangles};
        ct_error why = {0};
        if (ct_check_placement(&(ct_pair_placement){.box = {body[0]->box, body[1]->box}}, &why)) continue;
        ct_voxel_round_exact *out = &rounds->exact[n_fit++];
        *out = (ct_voxel_round_exact){.number = task->number,
                                      .step = rounds->steps[task->step],
                                      .deadline = task->deadline,
                                      .triangles = ct_exact_triangles(&body[0]->box, &body[1]->box, n_triangles)};
        for (int b = 0; b < 2; b++) out->body[b] = ct_scene_find(out->step->scene, body[b]->id, NULL);
    }
    *pairs = rounds->exact;
    return n_fit;
}

void ct_voxel_rounds_refine(ct_voxel_rounds *rounds, uint32_t number, ct_step *of_pair) {
    ct_voxel_task *task = &rounds->tasks[number];
    ct_error *error = &rounds->steps[task->step]->error;
    rounds->refined[number] = of_pair->result;
    of_pair->result = NULL;
    ct_hand_on(error, &of_pair->error);
    if (rounds->refined[number])
        ct_voxel_task_end_refined(task);
    else
        ct_voxel_task_end(task, CT_ENDED_TIME);
}

/* ---- results ---- */

/* The task's contact, the trees' or EXACT's, but for its points. False: it has none. */
static bool find_contact(const ct_voxel_rounds *rounds, const ct_voxel_task *task, ct_contact *contact) {
    const ct_result *refined = rounds->refined[task->number];
    if (!ct_voxel_task_contact(task, contact) || (refined && !refined->n_contacts)) return false;
    if (refined) *contact = refined->contacts[0];
    return true;
}

static void copy_entries(const ct_result *from, ct_result *r, const ct_contact *contact) {
    const ct_entry_arrays arrays = {from->vertices, from->gradient, from->weights, from->forces};
    if (r->vertices) ct_result_copy(r, contact, &arrays);
}

static void add_task(const ct_voxel_rounds *rounds, const ct_voxel_task *task, ct_result *r, uint64_t *first,
                     uint64_t *first_span) {
    const ct_result *refined = rounds->refined[task->number];
    const ct_pair_progress progress = ct_voxel_task_progress(task);
    r->progress[r->n_progress++] = progress;
    if (progress.ended > r->ended) r->ended = progress.ended;
    r->quality += ct_voxel_task_quality(task);
    r->fragments += task->pair.n_tests;
    ct_contact contact;
    if (!find_contact(rounds, task, &contact)) return;
    const uint64_t n = ct_voxel_task_points(task, r->points ? r->points + r->n_points : NULL);
    if (refined)
        ct_voxel_task_use_exact(&contact, n);
    else
        ct_voxel_task_trim(task, &contact);
    ct_contact *out = ct_result_add(r, &contact, first, first_span);
    if (refined) copy_entries(refined, r, out);
    out->first_point = r->n_points;
    out->n_points = n;
    r->n_points += n;
}

static void answer_step(const ct_voxel_rounds *rounds, size_t index) {
    ct_step *step = rounds->steps[index];
    const ct_voxel_task *tasks = rounds->tasks + rounds->first_task[index];
    const uint32_t n = rounds->first_task[index + 1] - rounds->first_task[index];
    size_t n_contacts = 0;
    uint64_t n_points = 0, n_entries = 0;
    ct_contact contact;
    for (uint32_t i = 0; i < n; i++) {
        if (!find_contact(rounds, &tasks[i], &contact)) continue;
        n_contacts++;
        n_entries += contact.count[0] + contact.count[1];
        n_points += ct_voxel_task_most_points(&tasks[i]);
    }
    ct_result *r = ct_result_new(step->want, n_contacts, n_entries, 0, NULL, &step->error);
    if (!r) return;
    if (n_points) r->points = malloc(n_points * sizeof *r->points);
    if (n) r->progress = malloc(n * sizeof *r->progress);
    if ((n_points && !r->points) || (n && !r->progress)) {
        ct_fail(&step->error, CT_OUT_OF_MEMORY, "result", "no memory for %llu points of %u pairs",
                (unsigned long long)n_points, n);
        ct_result_free(&r);
        return;
    }
    r->method = ct_method_of_step(step);
    r->pairs = n;
    uint64_t first = 0, first_span = 0;
    for (uint32_t i = 0; i < n; i++) add_task(rounds, &tasks[i], r, &first, &first_span);
    if (!r->n_points) { /* no group has a normal */
        free(r->points);
        r->points = NULL;
    }
    r->quality = n ? r->quality / n : 1;
    step->result = r;
}

void ct_voxel_rounds_answer(const ct_voxel_rounds *rounds) {
    for (size_t i = 0; i < rounds->n_steps; i++)
        if (!rounds->steps[i]->error.status) answer_step(rounds, i);
}
