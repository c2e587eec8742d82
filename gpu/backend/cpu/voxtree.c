/* voxtree.c - the method VOXTREE on the CPU: all pairs of a batch go down their trees level by level, so that each has
 * an answer whenever the time or the pairs of a step are used up (Dingliana and O'Sullivan 2005). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend/cpu/cpu.h"
#include "gpu/backend/cpu/device.h"
#include "gpu/base/fail.h"
#include "gpu/voxtree/finish.h"

/* Of a time budget, kept for making the answer: in s, and for each pair. */
static const double ANSWER_SECONDS = 10e-6, ANSWER_SECONDS_OF_PAIR = 0.3e-6;

/* A round with less to do than this is done before other threads wake up: in cubes to compare, and PAIR_TESTS for each
 * pair. */
enum { WORTH_THREADS = 4096, PAIR_TESTS = 16, MANY_PAIRS = 64 };

struct voxel_task {
    ct_voxel_pair pair;
    ct_pair_task *task;
    double deadline; /* of ct_now; 0: none */
    double depth;    /* m^3: which pairs of a step come first */
    bool is_active;
    ct_ended ended;
    bool is_refined;
    ct_pair_contact *refined; /* the contact that EXACT found; NULL: none */
};

struct run {
    ct_workspace *workspace;
    const ct_step *steps;
    double start; /* of the batch, ct_now */
    ct_pair_task *pairs;
    const uint32_t *of_pairs; /* [n], the pair of each task */
    struct voxel_task *tasks; /* [n] */
    struct turn *turns;       /* [n] */
    uint32_t *order;          /* [n], of the admitted tasks, then of those to refine */
    uint32_t n;
};

void ct_cpu_free_voxel_tasks(ct_workspace *workspace) {
    struct voxel_task *tasks = workspace->voxel_tasks.data;
    ct_budget *budget = &workspace->device->budget;
    for (uint32_t i = 0; i < workspace->n_voxel_tasks; i++) ct_voxel_pair_free(&tasks[i].pair, budget);
    ct_buffer_free(&workspace->voxel_tasks, budget);
    workspace->n_voxel_tasks = 0;
}

static ct_status plan_pair(const ct_device *device, const ct_scene_settings *settings, ct_pair_task *pair,
                           ct_error *error) {
    (void)device;
    ct_error why = {0};
    for (int b = 0; b < 2; b++)
        if (!ct_voxel_tree_for(pair->body[b]->mesh, settings, &why))
            return ct_fail(error, why.status, why.field, "%s", why.message);
    pair->n_contacts = 1;
    return CT_OK;
}

/* ---- one pair ---- */

static double volume_of_overlap(const ct_pair_task *pair) {
    double volume = 1;
    for (int k = 0; k < 3; k++)
        volume *= fmin(pair->body[0]->box.hi[k], pair->body[1]->box.hi[k]) -
                  fmax(pair->body[0]->box.lo[k], pair->body[1]->box.lo[k]);
    return volume;
}

static void begin_task(struct voxel_task *task, ct_pair_task *pair, double deadline) {
    const ct_scene_settings *settings = pair->settings;
    const ct_voxel_tree *trees[2];
    for (int b = 0; b < 2; b++) trees[b] = ct_voxel_tree_for(pair->body[b]->mesh, settings, NULL);
    const ct_voxel_options options = {.level = settings->level ? settings->level : CT_MAX_VOXEL_LEVEL,
                                      .center_normals = settings->center_normals,
                                      .plain_average = settings->plain_average,
                                      .wants_points = pair->want & CT_WANT_FRAME,
                                      .every_level = deadline > 0 || settings->pair_budget};
    ct_voxel_pair_begin(&task->pair, trees, (const double *const[2]){pair->body[0]->pose, pair->body[1]->pose},
                        &options);
    task->task = pair;
    task->deadline = deadline;
    task->depth = volume_of_overlap(pair);
    task->is_active = true;
    task->ended = CT_ENDED_COMPLETED;
    task->is_refined = false;
    task->refined = NULL;
}

static void end_task(struct voxel_task *task, ct_ended ended) {
    task->is_active = false;
    task->ended = ended;
}

static void descend(struct voxel_task *task, ct_device *device) {
    const double start = ct_now();
    if (task->deadline > 0 && start > task->deadline) {
        end_task(task, CT_ENDED_TIME);
        return;
    }
    switch (device->kernels->voxel->descend(&task->pair, task->deadline, &device->budget)) {
    case CT_VOXEL_NO_MEMORY:
        task->task->status = CT_OUT_OF_MEMORY;
        task->is_active = false;
        break;
    case CT_VOXEL_LATE:
        end_task(task, CT_ENDED_TIME);
        break;
    case CT_VOXEL_DONE:
        task->depth = task->pair.answer.all.estimate;
        if (!ct_voxel_pair_can_descend(&task->pair))
            end_task(task, ct_voxel_pair_is_limited(&task->pair) ? CT_ENDED_LEVEL : CT_ENDED_COMPLETED);
        break;
    }
    task->task->seconds[CT_PHASE_SPAN] += ct_now() - start;
}

/* Of the levels that the driver's tree has. */
static double quality_of(const struct voxel_task *task) {
    const ct_voxel_pair *pair = &task->pair;
    if (!pair->answer.is_examined) return 0;
    if (!pair->answer.n_open || task->is_refined) return 1;
    return (pair->answer.level[0] + 1.0) / (pair->tree[0]->finest + 1.0);
}

/* Makes the pair's contact, if it has one, and its progress. */
static void finish_task(ct_workspace *workspace, struct voxel_task *task, uint32_t worker) {
    ct_pair_task *pair = task->task;
    if (pair->status) return;
    const double start = ct_now();
    ct_voxel_pair *voxels = &task->pair;
    const ct_voxel_answer *answer = &voxels->answer;
    pair->progress = (ct_pair_progress){.body = {pair->body[0]->id, pair->body[1]->id},
                                        .is_examined = answer->is_examined,
                                        .is_refined = task->is_refined,
                                        .ended = task->ended};
    pair->progress.level[voxels->driver] = answer->level[0];
    pair->progress.level[1 - voxels->driver] = answer->level[1];
    pair->quality = quality_of(task);
    pair->fragments = voxels->n_tests;
    const double *const poses[2] = {pair->body[0]->pose, pair->body[1]->pose};
    ct_contact contact = {.body = {pair->body[0]->id, pair->body[1]->id}};
    if (!answer->is_examined || !ct_voxel_finish_contact(voxels, poses, &contact)) return;
    if (task->is_refined && !task->refined) return;
    const uint32_t most = pair->settings->max_points ? pair->settings->max_points : CT_DEFAULT_MAX_POINTS;
    const uint32_t n_points = answer->n_groups < most ? answer->n_groups : most;
    ct_arena *answers = &workspace->workers[worker].answers;
    ct_budget *budget = &workspace->device->answers;
    ct_pair_contact *out = ct_arena_alloc(answers, budget, sizeof *out);
    ct_point *points = ct_arena_alloc(answers, budget, (n_points + 1) * sizeof *points);
    if (!out || !points) {
        pair->status = CT_OUT_OF_MEMORY;
        return;
    }
    contact.n_points = ct_voxel_finish_points(voxels, poses, n_points, points);
    if (task->is_refined) {
        ct_contact *exact = &task->refined->contact;
        exact->volume_lower = fmax(exact->volume - exact->error_bound, 0);
        exact->volume_upper = exact->volume + exact->error_bound;
        exact->n_points = contact.n_points;
        task->refined->points = points;
        pair->contacts = task->refined;
        pair->seconds[CT_PHASE_CONTACT] += ct_now() - start;
        return;
    }
    if (!(pair->want & (CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES))) {
        contact.area = contact.depth = 0;
        memset(contact.normal, 0, sizeof contact.normal);
        memset(contact.tangents, 0, sizeof contact.tangents);
        memset(contact.center, 0, sizeof contact.center);
        memset(contact.generalized_gradient, 0, sizeof contact.generalized_gradient);
    }
    *out = (ct_pair_contact){.is_found = true, .contact = contact, .points = points};
    pair->contacts = out;
    pair->seconds[CT_PHASE_CONTACT] += ct_now() - start;
}

/* ---- the method EXACT in the time left ---- */

/* How long EXACT takes for a unit of its estimate: the most of the last pairs, forgotten slowly. */
static const double FIRST_FACTOR = 8, FORGOTTEN = 0.95;

static void learn_factor(ct_device *device, double factor) {
    const double before = atomic_load_explicit(&device->exact_factor, memory_order_relaxed);
    atomic_store_explicit(&device->exact_factor, fmax(factor, FORGOTTEN * (before > 0 ? before : FIRST_FACTOR)),
                          memory_order_relaxed);
}

/* Whether a pair of this estimate, in ns, is likely to be done in time. */
static bool is_worth_starting(const ct_device *device, double cost, double deadline) {
    const double factor = atomic_load_explicit(&device->exact_factor, memory_order_relaxed);
    return deadline <= 0 || ct_now() + 1e-9 * cost * (factor > 0 ? factor : FIRST_FACTOR) <= deadline;
}

static void refine_task(ct_workspace *workspace, struct voxel_task *task, uint32_t worker, bool is_spread) {
    ct_device *device = workspace->device;
    ct_pair_task *pair = task->task, exact = *pair;
    exact.status = ct_cpu_exact_method.plan(device, pair->settings, &exact, NULL);
    if (exact.status) return; /* bodies too far apart in size for one lattice: the answer stays the trees' */
    if (!is_worth_starting(device, exact.cost, task->deadline)) {
        task->ended = CT_ENDED_TIME;
        return;
    }
    const double start = ct_now();
    ct_cpu_exact_method.compute(workspace, &exact, worker, is_spread);
    pair->status = exact.status;
    memcpy(pair->seconds, exact.seconds, sizeof pair->seconds);
    if (pair->status) return;
    if (!is_spread) learn_factor(device, 1e9 * (ct_now() - start) / exact.cost);
    task->is_refined = true;
    task->refined = exact.contacts && exact.contacts->is_found ? exact.contacts : NULL;
    task->ended = CT_ENDED_COMPLETED;
}

static bool may_refine(const struct voxel_task *task) {
    return task->task->settings->refine && !task->task->status && task->pair.answer.is_examined &&
           task->pair.answer.all.upper > 0;
}

/* ---- all pairs ---- */

/* A task to sort. */
struct turn {
    const ct_pair_task *pair;
    double depth;
    uint32_t task;
};

static void put_turn(const struct run *run, uint32_t task, uint32_t at) {
    run->turns[at] = (struct turn){run->tasks[task].task, run->tasks[task].depth, task};
}

static int compare_turns(const void *a, const void *b) {
    const struct turn *x = a, *y = b;
    if (x->pair->step != y->pair->step) return x->pair->step < y->pair->step ? -1 : 1;
    if (x->depth != y->depth) return x->depth > y->depth ? -1 : 1;
    return (x->pair > y->pair) - (x->pair < y->pair);
}

/* Lists the tasks of the next round, of each step the deepest first. A task whose next level no longer fits its step's
 * budget of pairs ends. Returns how many; *tests: cubes that they compare. */
static uint32_t admit_tasks(const struct run *run, uint64_t *spent, uint64_t *tests) {
    uint32_t n_active = 0, n_admitted = 0;
    for (uint32_t i = 0; i < run->n; i++)
        if (run->tasks[i].is_active) put_turn(run, i, n_active++);
    if (n_active > 1) qsort(run->turns, n_active, sizeof *run->turns, compare_turns);
    *tests = 0;
    for (uint32_t i = 0; i < n_active; i++) {
        const uint32_t at = run->turns[i].task;
        struct voxel_task *task = &run->tasks[at];
        const uint64_t need = ct_voxel_pair_next_tests(&task->pair), budget = task->task->settings->pair_budget;
        const size_t step = task->task->step;
        if (budget && need > budget - spent[step]) {
            end_task(task, CT_ENDED_PAIRS);
            continue;
        }
        spent[step] += need;
        *tests += need;
        run->order[n_admitted++] = at;
    }
    return n_admitted;
}

static void refine_one(void *argument, uint32_t i, uint32_t worker) {
    struct run *run = argument;
    refine_task(run->workspace, &run->tasks[run->order[i]], worker, false);
}

/* Few pairs are each spread over the threads, many are each left to one. */
static void refine_tasks(struct run *run) {
    const ct_device *device = run->workspace->device;
    uint32_t n = 0;
    for (uint32_t i = 0; i < run->n; i++)
        if (may_refine(&run->tasks[i])) put_turn(run, i, n++);
    if (n > 1) qsort(run->turns, n, sizeof *run->turns, compare_turns);
    for (uint32_t i = 0; i < n; i++) run->order[i] = run->turns[i].task;
    if (n >= 2 * device->threads)
        ct_pool_run(device->pool, n, refine_one, run);
    else
        for (uint32_t i = 0; i < n; i++)
            refine_task(run->workspace, &run->tasks[run->order[i]], 0, device->threads > 1);
}

static void begin_one(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    struct run *run = argument;
    ct_pair_task *pair = &run->pairs[run->of_pairs[i]];
    const double budget = run->steps[pair->step].time_budget;
    const double kept = ANSWER_SECONDS + ANSWER_SECONDS_OF_PAIR * run->n;
    begin_task(&run->tasks[i], pair, budget > 0 ? run->start + budget - kept : 0);
}

static void descend_admitted(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    struct run *run = argument;
    descend(&run->tasks[run->order[i]], run->workspace->device);
}

static void finish_one(void *argument, uint32_t i, uint32_t worker) {
    struct run *run = argument;
    finish_task(run->workspace, &run->tasks[i], worker);
}

/* Tasks with their buffers, those of earlier batches kept. NULL: out of memory. */
static struct voxel_task *reserve_tasks(ct_workspace *workspace, uint32_t n) {
    const size_t size = sizeof(struct voxel_task);
    ct_budget *budget = &workspace->device->budget;
    if (!ct_buffer_reserve(&workspace->voxel_tasks, budget, n * size, workspace->n_voxel_tasks * size, true))
        return NULL;
    if (n > workspace->n_voxel_tasks) workspace->n_voxel_tasks = n;
    return workspace->voxel_tasks.data;
}

static void compute_all(ct_workspace *workspace, const ct_step *steps, double start, ct_pair_task *pairs,
                        const uint32_t *order, uint32_t n) {
    if (n == 0) return;
    const size_t last_step = pairs[order[n - 1]].step;
    struct run run = {.workspace = workspace,
                      .steps = steps,
                      .start = start,
                      .pairs = pairs,
                      .of_pairs = order,
                      .tasks = reserve_tasks(workspace, n),
                      .turns = malloc(n * sizeof *run.turns),
                      .order = malloc(n * sizeof *run.order),
                      .n = n};
    uint64_t *spent = calloc(last_step + 1, sizeof *spent);
    if (!run.tasks || !run.turns || !run.order || !spent) {
        for (uint32_t i = 0; i < n; i++) pairs[order[i]].status = CT_OUT_OF_MEMORY;
        run.n = 0;
    }
    ct_pool *pool = workspace->device->threads > 1 ? workspace->device->pool : NULL;
    ct_pool_run(run.n > MANY_PAIRS ? pool : NULL, run.n, begin_one, &run);
    uint64_t tests;
    for (uint32_t k; (k = admit_tasks(&run, spent, &tests)) > 0;)
        ct_pool_run(k > 1 && tests + PAIR_TESTS * k > WORTH_THREADS ? pool : NULL, k, descend_admitted, &run);
    refine_tasks(&run);
    ct_pool_run(run.n > MANY_PAIRS ? pool : NULL, run.n, finish_one, &run);
    free(run.turns);
    free(run.order);
    free(spent);
}

/* A pair that found no memory, once more by itself. It has its step's budget of pairs to itself, and no deadline. */
static void compute_alone(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, bool is_spread) {
    (void)is_spread;
    struct voxel_task task = {0};
    begin_task(&task, pair, 0);
    const uint64_t budget = pair->settings->pair_budget;
    while (task.is_active)
        if (budget && ct_voxel_pair_next_tests(&task.pair) > budget - task.pair.n_tests)
            end_task(&task, CT_ENDED_PAIRS);
        else
            descend(&task, workspace->device);
    if (may_refine(&task)) refine_task(workspace, &task, worker, false);
    finish_task(workspace, &task, worker);
    ct_voxel_pair_free(&task.pair, &workspace->device->budget);
}

void ct_cpu_run_voxtree(ct_device *device, ct_step *steps, size_t n_steps) {
    static const ct_pair_method method = {.plan = plan_pair,
                                          .compute = compute_alone,
                                          .compute_all = compute_all,
                                          .gives_progress = true,
                                          .has_voxel_boxes = true};
    ct_cpu_run_pairs(device, steps, n_steps, &method);
}
