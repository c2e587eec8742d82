/* voxtree_cpu.c - the method VOXTREE on the CPU: all pairs of a batch go down their trees level by level, so that each has
 * an answer whenever the time or the pairs of a step are used up (Dingliana and O'Sullivan 2005). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/method/backend_cpu.h"
#include "gpu/method/device_cpu.h"
#include "gpu/methods/voxtree/pair.h"
#include "gpu/methods/voxtree/task.h"

/* A round with less to do than this is done before other threads wake up: in cubes to compare, and PAIR_TESTS for each
 * pair. */
enum { WORTH_THREADS = 4096, PAIR_TESTS = 16, MANY_PAIRS = 64 };

struct voxel_task {
    ct_voxel_task of;
    ct_pair_task *task;
    ct_pair_contact *refined; /* the contact that EXACT found; NULL: none */
};

/* What a thread found of the answers' load: contacts and groups. */
struct thread_load {
    ct_voxel_answer_load of;
    char apart[64]; /* threads write to different cache lines */
};

struct run {
    ct_workspace *workspace;
    const ct_step *steps;
    double start; /* of the batch, ct_now */
    ct_pair_task *pairs;
    const uint32_t *of_pairs; /* [n], the pair of each task */
    struct voxel_task *tasks; /* [n] */
    ct_voxel_turn *turns;     /* [n], of the admitted tasks, each of a voxel_task, then of those to refine */
    uint32_t n;
    struct thread_load *found; /* [threads] */
};

/* ---- slots ---- */

struct device_slot {
    _Atomic double exact_factor;  /* time of a pair of EXACT in parts of its estimate; 0: not known */
    _Atomic double answer_factor; /* time of a batch's answers in parts of its estimate; 0: not known */
};

struct workspace_slot {
    ct_buffer tasks; /* struct voxel_task [n_tasks], with buffers of their own */
    uint32_t n_tasks;
    double answers_at, answers_expected; /* when they were begun, ct_now, and how long: s */
};

static struct device_slot *slot_of_device(const ct_device *device) {
    return device->of_method[CT_METHOD_VOXTREE];
}

static struct workspace_slot *slot_of(const ct_workspace *workspace) {
    return workspace->of_method[CT_METHOD_VOXTREE];
}

static void release(ct_workspace *workspace) {
    struct workspace_slot *slot = slot_of(workspace);
    struct voxel_task *tasks = slot->tasks.data;
    ct_budget *budget = &workspace->device->budget;
    for (uint32_t i = 0; i < slot->n_tasks; i++) ct_voxel_pair_free(&tasks[i].of.pair, budget);
    ct_buffer_free(&slot->tasks, budget);
    slot->n_tasks = 0;
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

/* step: its index in the batch. */
static void begin_task(struct voxel_task *task, ct_pair_task *pair, size_t step, uint32_t number, double deadline) {
    ct_voxel_task *of = &task->of;
    for (int b = 0; b < 2; b++) of->body[b] = pair->body[b];
    of->settings = pair->settings;
    of->step = step;
    of->number = number;
    of->want = pair->step->want;
    of->deadline = deadline;
    ct_voxel_task_begin(of);
    task->task = pair;
    task->refined = NULL;
}

static const ct_voxel_cpu *kernels_of(const ct_device *device) {
    return device->kernels_of_method[CT_METHOD_VOXTREE];
}

static bool has_contact(const ct_voxel_answer *answer) {
    return answer->is_examined && answer->all.upper > 0;
}

/* found: of the pair, more than before is added to it. */
static void descend(struct voxel_task *task, ct_device *device, ct_voxel_answer_load *found) {
    const double start = ct_now();
    ct_voxel_task *of = &task->of;
    const ct_voxel_answer *answer = &of->pair.answer;
    const uint64_t n_contacts = has_contact(answer), n_groups = answer->groups.n;
    if (of->deadline > 0 && start > of->deadline) {
        ct_voxel_task_end(of, CT_ENDED_TIME);
        return;
    }
    const ct_working before = ct_work_for(NULL, of->body[0]->id, of->body[1]->id);
    const ct_voxel_descent descent = kernels_of(device)->descend(&of->pair, of->deadline, &device->budget);
    ct_work_back(before);
    switch (descent) {
    case CT_VOXEL_NO_MEMORY:
        task->task->status = ct_failure();
        of->is_active = false;
        break;
    case CT_VOXEL_LATE:
        ct_voxel_task_end(of, CT_ENDED_TIME);
        break;
    case CT_VOXEL_DONE:
        ct_voxel_task_advance(of);
        found->n_contacts += has_contact(answer) - n_contacts; /* modulo 2^64, as the sum of all threads' */
        found->n_groups += answer->groups.n - n_groups;
        break;
    }
    task->task->seconds[CT_PHASE_SPAN] += ct_now() - start;
}

/* Makes the pair's contact, if it has one, and its progress. */
static void finish_task(ct_workspace *workspace, struct voxel_task *task, uint32_t worker) {
    ct_pair_task *pair = task->task;
    if (pair->status || ct_is_cancelled()) return;
    const double start = ct_now();
    const ct_voxel_task *of = &task->of;
    pair->progress = ct_voxel_task_progress(of);
    pair->quality = ct_voxel_task_quality(of);
    pair->fragments = of->pair.n_tests;
    ct_contact contact;
    if (!ct_voxel_task_contact(of, &contact) || (of->is_refined && !task->refined)) return;
    const uint32_t n_points = ct_voxel_task_most_points(of);
    ct_arena *answers = &workspace->workers[worker].answers;
    ct_budget *budget = &workspace->device->answers;
    ct_pair_contact *out = ct_arena_alloc(answers, budget, sizeof *out);
    ct_point *points = ct_arena_alloc(answers, budget, (n_points + 1) * sizeof *points);
    if (!out || !points) {
        pair->status = ct_failure();
        return;
    }
    contact.n_points = ct_voxel_task_points(of, points);
    if (of->is_refined) {
        ct_voxel_task_use_exact(&task->refined->contact, contact.n_points);
        task->refined->points = points;
        pair->contacts = task->refined;
        pair->seconds[CT_PHASE_CONTACT] += ct_now() - start;
        return;
    }
    ct_voxel_task_trim(of, &contact);
    *out = (ct_pair_contact){.is_found = true, .contact = contact, .points = points};
    pair->contacts = out;
    pair->seconds[CT_PHASE_CONTACT] += ct_now() - start;
}

/* ---- the method EXACT in the time left ---- */

/* How long EXACT takes for a unit of its estimate: the most of the last pairs, forgotten slowly. */
static const double FIRST_FACTOR = 8, FORGOTTEN = 0.95;

static void learn_factor(ct_device *device, double factor) {
    const double before = atomic_load_explicit(&slot_of_device(device)->exact_factor, memory_order_relaxed);
    atomic_store_explicit(&slot_of_device(device)->exact_factor,
                          fmax(factor, FORGOTTEN * (before > 0 ? before : FIRST_FACTOR)), memory_order_relaxed);
}

/* Whether a pair of this estimate, in ns, is likely to be done in time. */
static bool is_worth_starting(const ct_device *device, double cost, double deadline) {
    const double factor = atomic_load_explicit(&slot_of_device(device)->exact_factor, memory_order_relaxed);
    return deadline <= 0 || ct_now() + 1e-9 * cost * (factor > 0 ? factor : FIRST_FACTOR) <= deadline;
}

static void refine_task(ct_workspace *workspace, struct voxel_task *task, uint32_t worker, bool is_spread) {
    ct_device *device = workspace->device;
    ct_pair_task *pair = task->task, exact = *pair;
    exact.status = ct_cpu_exact_method.plan(device, pair->settings, &exact, NULL);
    if (exact.status) return; /* bodies too far apart in size for one lattice: the answer stays the trees' */
    if (!is_worth_starting(device, exact.cost, task->of.deadline)) {
        task->of.ended = CT_ENDED_TIME;
        return;
    }
    const double start = ct_now();
    ct_cpu_exact_method.compute(workspace, &exact, worker, is_spread);
    pair->status = exact.status;
    memcpy(pair->seconds, exact.seconds, sizeof pair->seconds);
    if (pair->status) return;
    if (!is_spread) learn_factor(device, 1e9 * (ct_now() - start) / exact.cost);
    task->refined = exact.contacts && exact.contacts->is_found ? exact.contacts : NULL;
    ct_voxel_task_end_refined(&task->of);
}

static bool may_refine(const struct voxel_task *task) {
    return !task->task->status && ct_voxel_task_may_refine(&task->of);
}

/* ---- all pairs ---- */

static struct voxel_task *task_of(ct_voxel_task *of) {
    return (struct voxel_task *)of; /* its first member */
}

static void refine_one(void *argument, uint32_t i, uint32_t worker) {
    struct run *run = argument;
    refine_task(run->workspace, task_of(run->turns[i].task), worker, false);
}

/* Few pairs are each spread over the threads, many are each left to one. */
static void refine_tasks(struct run *run) {
    const ct_device *device = run->workspace->device;
    uint32_t n = 0;
    for (uint32_t i = 0; i < run->n; i++)
        if (may_refine(&run->tasks[i])) run->turns[n++] = ct_voxel_turn_of(&run->tasks[i].of);
    ct_voxel_sort_turns(run->turns, n);
    if (n >= 2 * device->threads)
        ct_pool_run(run->workspace->pool, n, refine_one, run);
    else
        for (uint32_t i = 0; i < n; i++)
            refine_task(run->workspace, task_of(run->turns[i].task), 0, device->threads > 1);
}

static void begin_one(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    struct run *run = argument;
    ct_pair_task *pair = &run->pairs[run->of_pairs[i]];
    const double budget = pair->step->time_budget;
    begin_task(&run->tasks[i], pair, (size_t)(pair->step - run->steps), i, budget > 0 ? run->start + budget : 0);
}

static void descend_admitted(void *argument, uint32_t i, uint32_t worker) {
    struct run *run = argument;
    descend(task_of(run->turns[i].task), run->workspace->device, &run->found[worker].of);
}

/* ---- the time for answers ---- */

static double answer_factor(const ct_device *device) {
    const double factor = atomic_load_explicit(&slot_of_device(device)->answer_factor, memory_order_relaxed);
    return factor > 0 ? factor : 1;
}

/* Half of the pairs that have not been examined are expected to have a contact. */
static ct_voxel_answer_load find_load(const struct run *run, bool is_first_round) {
    ct_voxel_answer_load load = {.n_pairs = run->n, .n_contacts = is_first_round ? run->n / 2 : 0};
    for (uint32_t w = 0; w < run->workspace->device->threads; w++) {
        load.n_contacts += run->found[w].of.n_contacts;
        load.n_groups += run->found[w].of.n_groups;
    }
    return load;
}

static void learn_answer_time(ct_workspace *workspace) {
    ct_device *device = workspace->device;
    struct workspace_slot *slot = slot_of(workspace);
    const double expected = slot->answers_expected;
    if (expected <= 0) return; /* no pairs */
    slot->answers_expected = 0;
    const double took = (ct_now() - slot->answers_at) / expected;
    atomic_store_explicit(&slot_of_device(device)->answer_factor,
                          ct_voxel_learn_answer_factor(answer_factor(device), took), memory_order_relaxed);
}

/* Sets when the k admitted tasks must end their next level, so that there is time left for the answer. A level has up
 * to about twice the groups of the one before. */
static void set_deadlines(struct run *run, uint32_t k, bool is_first_round) {
    ct_voxel_answer_load load = find_load(run, is_first_round);
    load.n_groups *= 2;
    const double expected = ct_voxel_answer_seconds(&load);
    const double kept = answer_factor(run->workspace->device) * expected;
    slot_of(run->workspace)->answers_expected = expected;
    for (uint32_t i = 0; i < k; i++) {
        ct_voxel_task *task = run->turns[i].task;
        const double budget = run->steps[task->step].time_budget;
        if (budget > 0) task->deadline = run->start + budget - kept;
    }
}

/* ---- a batch ---- */

static void finish_one(void *argument, uint32_t i, uint32_t worker) {
    struct run *run = argument;
    finish_task(run->workspace, &run->tasks[i], worker);
}

/* Tasks with their buffers, those of earlier batches kept. NULL: out of memory. */
static struct voxel_task *reserve_tasks(ct_workspace *workspace, uint32_t n) {
    const size_t size = sizeof(struct voxel_task);
    ct_budget *budget = &workspace->device->budget;
    struct workspace_slot *slot = slot_of(workspace);
    if (!ct_buffer_reserve(&slot->tasks, budget, n * size, slot->n_tasks * size, true)) return NULL;
    if (n > slot->n_tasks) slot->n_tasks = n;
    return slot->tasks.data;
}

static void compute_all(ct_workspace *workspace, const ct_step *steps, double start, ct_pair_task *pairs,
                        const uint32_t *order, uint32_t n) {
    if (n == 0) return;
    const size_t last_step = (size_t)(pairs[order[n - 1]].step - steps);
    struct run run = {.workspace = workspace,
                      .steps = steps,
                      .start = start,
                      .pairs = pairs,
                      .of_pairs = order,
                      .tasks = reserve_tasks(workspace, n),
                      .turns = malloc(n * sizeof *run.turns),
                      .n = n,
                      .found = calloc(workspace->device->threads, sizeof *run.found)};
    uint64_t *spent = calloc(last_step + 1, sizeof *spent);
    ct_enter_phase("comparing voxels");
    if (!run.tasks || !run.turns || !run.found || !spent) {
        for (uint32_t i = 0; i < n; i++) pairs[order[i]].status = CT_OUT_OF_MEMORY;
        run.n = 0;
    }
    ct_pool *pool = workspace->device->threads > 1 ? workspace->pool : NULL;
    ct_pool_run(run.n > MANY_PAIRS ? pool : NULL, run.n, begin_one, &run);
    for (bool is_first = true;; is_first = false) {
        uint64_t tests;
        uint32_t k = 0;
        const double now = ct_now();
        for (uint32_t i = 0; i < run.n; i++) {
            ct_voxel_task *of = &run.tasks[i].of;
            if (CT_POLL_EVERY(i, 1024) && ct_is_cancelled()) break;
            if (!of->is_active) continue;
            if (of->deadline > 0 && now > of->deadline)
                ct_voxel_task_end(of, CT_ENDED_TIME);
            else
                run.turns[k++] = ct_voxel_turn_of(of);
        }
        k = ct_voxel_admit_tasks(run.turns, k, spent, &tests);
        if (!k || ct_is_cancelled()) break;
        set_deadlines(&run, k, is_first);
        ct_pool_run(k > 1 && tests + PAIR_TESTS * k > WORTH_THREADS ? pool : NULL, k, descend_admitted, &run);
    }
    if (!ct_is_cancelled()) refine_tasks(&run);
    slot_of(workspace)->answers_at = ct_now();
    ct_pool_run(run.n > MANY_PAIRS ? pool : NULL, run.n, finish_one, &run);
    if (ct_is_cancelled()) {
        slot_of(workspace)->answers_expected = 0; /* nothing is learned from it */
        for (uint32_t i = 0; i < n; i++) pairs[order[i]].status = CT_CANCELLED;
    }
    free(run.turns);
    free(run.found);
    free(spent);
}

/* A pair that found no memory, once more by itself. It has its step's budget of pairs to itself, and no deadline. */
static void compute_alone(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, bool is_spread) {
    (void)is_spread;
    struct voxel_task task = {0};
    begin_task(&task, pair, 0, 0, 0);
    const uint64_t budget = pair->settings->pair_budget;
    ct_voxel_task *of = &task.of;
    while (of->is_active && !ct_is_cancelled())
        if (budget && ct_voxel_pair_next_tests(&of->pair) > budget - of->pair.n_tests)
            ct_voxel_task_end(of, CT_ENDED_PAIRS);
        else
            descend(&task, workspace->device, &(ct_voxel_answer_load){0});
    if (ct_is_cancelled()) pair->status = CT_CANCELLED;
    if (may_refine(&task)) refine_task(workspace, &task, worker, false);
    finish_task(workspace, &task, worker);
    ct_voxel_pair_free(&of->pair, &workspace->device->budget);
}

const ct_cpu_method ct_cpu_voxtree_method = {.kernels = CT_KERNELS(ct_voxel_cpu),
                                             .device_bytes = sizeof(struct device_slot),
                                             .workspace_bytes = sizeof(struct workspace_slot),
                                             .release = release,
                                             .plan = plan_pair,
                                             .compute = compute_alone,
                                             .compute_all = compute_all,
                                             .answered = learn_answer_time,
                                             .gives_progress = true,
                                             .has_voxel_boxes = true};

void ct_cpu_run_voxtree(ct_device *device, ct_step *steps, size_t n_steps) {
    ct_cpu_run_pairs(device, steps, n_steps, &ct_cpu_voxtree_method);
}
