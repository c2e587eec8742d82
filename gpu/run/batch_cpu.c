/* batch_cpu.c - a batch of steps on the CPU: updates and broad phase per step, then all pairs of all steps over the
 * threads, then a result per step. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"
#include "gpu/method/device_cpu.h"
#include "gpu/method/method.h"
#include "gpu/run/kept_cpu.h"

/* Up to this many steps are set up and answered one after the other, each by all threads where it is worth it. */
enum { FEW_STEPS = 8 };

struct step_state {
    size_t first_pair, n_pairs;
    double upload, broadphase; /* s */
};

/* A part of a batch that threads share: what it took by the clock, and the sum over its threads. */
struct section {
    double wall, threads; /* s */
};

struct batch {
    ct_device *device;
    ct_workspace *workspace;
    const ct_cpu_method *method;
    double start;          /* of ct_now */
    struct section update; /* that ended before pairs are listed */
    ct_step *steps;
    struct step_state *states;
    ct_pair_task *pairs;
    const uint32_t *order; /* of the pairs that are not spread */
    atomic_bool is_over;   /* its only step is cancelled: what is left of its pairs is not looked at */
    bool has_one_step;
    bool is_wide; /* more than FEW_STEPS: steps are spread over the threads, not the work of one */
};

/* ---- bodies and pairs ---- */

static void move_and_pair(struct batch *batch, ct_step *step, struct step_state *state) {
    double start = ct_now();
    ct_enter_phase("moving bodies");
    if (ct_cpu_upload(batch->device, step)) return;
    if (batch->method->needs_volumes) ct_cpu_measure_old_volumes(batch->device, step->scene);
    ct_cpu_find_posed_boxes(batch->device, step, batch->method->has_voxel_boxes && !step->scene->settings.refine,
                            batch->is_wide ? NULL : batch->workspace->pool);
    double uploaded = ct_now();
    state->upload = uploaded - start;
    ct_enter_phase("finding pairs of bodies");
    ct_scene_find_pairs(step->scene, &step->error);
    double paired = ct_now();
    state->broadphase = paired - uploaded;
    if (!batch->is_wide) return;
    ct_cpu_refit_clusters(batch->device, step, batch->method->needs_boxes, NULL);
    state->upload += ct_now() - paired;
}

static void update_bodies(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    struct batch *batch = argument;
    ct_step *step = &batch->steps[i];
    if (step->error.status) return;
    const ct_working before = ct_work_for(step->cancel, 0, 0);
    if (ct_is_cancelled())
        ct_fail_cancelled(&step->error);
    else
        move_and_pair(batch, step, &batch->states[i]);
    ct_work_back(before);
}

/* The thread works for the pair from here on, in a step that may be cancelled. */
static ct_working work_for_pair(const ct_pair_task *pair) {
    return ct_work_for(pair->step->cancel, pair->body[0]->id, pair->body[1]->id);
}

/* The pairs' tasks, and then their plans. is_last_try: else the batch is divided, and tries again. */
static bool reserve_pairs(const struct batch *batch, size_t n, bool is_last_try) {
    ct_workspace *workspace = batch->workspace;
    ct_budget *budget = &workspace->device->budget;
    const size_t bytes = n * (sizeof(ct_pair_task) + batch->method->pair_bytes);
    if (ct_buffer_reserve(&workspace->pairs, budget, bytes, 0, false)) return true;
    if (!is_last_try) return false;
    if (!ct_workspace_begin_exclusive(workspace)) return false;
    ct_workspaces_free_scratch(workspace->device);
    bool fits = ct_buffer_reserve(&workspace->pairs, budget, bytes, 0, false);
    ct_workspace_end_exclusive(workspace);
    return fits;
}

/* Half-spaces have no contact with each other. A method that takes none runs beside them only for a picture's samples,
 * which are those of the other bodies. */
static bool has_no_contact(const struct batch *batch, const ct_body *a, const ct_body *b) {
    return batch->method->takes_half_spaces ? a->is_half_space && b->is_half_space
                                            : a->is_half_space || b->is_half_space;
}

/* What a cancelled step leaves to do costs nothing: a list of millions of pairs takes long merely to be walked. */
static void note_cancelled(struct batch *batch) {
    if (batch->has_one_step) batch->is_over = true;
}

/* Lists the pairs of one step from pairs[0] and plans on, and returns how many there are. */
static size_t list_step_pairs(struct batch *batch, const ct_step *step, ct_pair_task *pairs, char *plans) {
    const size_t plan_bytes = batch->method->pair_bytes;
    const ct_scene *scene = step->scene;
    const uint32_t n_directions = ct_directions_count(step->directions, step->n_directions);
    ct_kept_walk kept = ct_kept_begin(step, batch->method);
    size_t n = 0;
    for (size_t p = 0; p < scene->broad.n_pairs; p++) {
        const ct_body *a = scene->bodies[scene->broad.pairs[p].a], *b = scene->bodies[scene->broad.pairs[p].b];
        if (has_no_contact(batch, a, b)) continue;
        if (CT_POLL_EVERY(p + 1, 256) && ct_is_cancelled_at("pairs of bodies", p)) {
            note_cancelled(batch);
            return 0;
        }
        if (plan_bytes) memset(plans + n * plan_bytes, 0, plan_bytes);
        pairs[n] = (ct_pair_task){.step = step,
                                  .settings = &scene->settings,
                                  .body = {a, b},
                                  .number = batch->workspace->next_pair++,
                                  .n_directions = n_directions,
                                  .is_alone = scene->broad.n_pairs == 1 && scene->settings.cell_size == 0,
                                  .kept = ct_kept_find(&kept, step, a, b),
                                  .plan = plan_bytes ? plans + n * plan_bytes : NULL};
        n++;
    }
    return n;
}

static void plan_pair(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    struct batch *batch = argument;
    ct_pair_task *pair = &batch->pairs[i];
    if (batch->is_over) return;
    if (pair->kept) {
        ct_kept_answer(pair);
        return;
    }
    const ct_working before = work_for_pair(pair);
    ct_enter_phase("planning pairs");
    pair->status = ct_is_cancelled_at("pairs of bodies", i)
                       ? CT_CANCELLED
                       : batch->method->plan(batch->device, pair->settings, pair, NULL);
    if (ct_is_cancelled()) {
        pair->status = CT_CANCELLED; /* the plan may lack something */
        note_cancelled(batch);
    }
    ct_work_back(before);
}

/* A pair that cannot be planned fails its step, which then has no pairs, unless the scene goes on without such pairs. */
static void refuse_step(struct batch *batch, ct_pair_task *pair) {
    const size_t index = (size_t)(pair->step - batch->steps);
    ct_step *step = &batch->steps[index];
    struct step_state *state = &batch->states[index];
    ct_error why = {0};
    if (step->error.status) return;
    const ct_working before = work_for_pair(pair);
    if (pair->status == CT_CANCELLED) {
        ct_fail_cancelled(&step->error);
    } else if (ct_method_leaves_out(step, pair->body)) {
        pair->is_left_out = true;
        pair->status = CT_OK;
    } else if (batch->method->plan(batch->device, pair->settings, pair, &why)) {
        char name[CT_PAIR_NAME];
        ct_fail(&step->error, why.status, why.field, "%s: %s", ct_name_pair(pair, name), why.message);
    }
    if (step->error.status) state->n_pairs = 0;
    ct_work_back(before);
}

/* False: out of memory. */
static bool plan_pairs(struct batch *batch, size_t n_steps, size_t *n_pairs) {
    enum { FEW_PAIRS = 32 }; /* planned faster than other threads wake up */
    const size_t plan_bytes = batch->method->pair_bytes;
    size_t n = 0;
    for (size_t i = 0; i < n_steps; i++)
        if (!batch->steps[i].error.status) n += batch->steps[i].scene->broad.n_pairs;
    if (!reserve_pairs(batch, n, n_steps == 1)) return false;
    batch->pairs = batch->workspace->pairs.data;
    char *plans = (char *)(batch->pairs + n);
    n = 0;
    for (size_t i = 0; i < n_steps; i++) {
        struct step_state *state = &batch->states[i];
        state->first_pair = n;
        state->n_pairs = batch->steps[i].error.status
                             ? 0
                             : list_step_pairs(batch, &batch->steps[i], batch->pairs + n, plans + n * plan_bytes);
        n += state->n_pairs;
    }
    ct_pool_run(n > FEW_PAIRS ? batch->workspace->pool : NULL, (uint32_t)n, plan_pair, batch);
    if (batch->is_over) n = batch->states[0].n_pairs = 0;
    for (size_t i = 0; i < n; i++)
        if (batch->pairs[i].status) refuse_step(batch, &batch->pairs[i]);
    *n_pairs = n;
    return true;
}

/* ---- computing ---- */

static void compute_pair(struct batch *batch, ct_pair_task *pair, uint32_t worker, bool is_spread) {
    const ct_working before = work_for_pair(pair);
    ct_enter_phase("computing contacts");
    if (ct_is_cancelled_at("pairs of bodies", (uint64_t)(pair - batch->pairs)))
        pair->status = CT_CANCELLED;
    else
        batch->method->compute(batch->workspace, pair, worker, is_spread);
    if (pair->status == CT_CANCELLED) note_cancelled(batch);
    ct_work_back(before);
}

static void compute_small_pair(void *argument, uint32_t i, uint32_t worker) {
    struct batch *batch = argument;
    if (!batch->is_over) compute_pair(batch, &batch->pairs[batch->order[i]], worker, false);
}

/* ns; below this much work, waking other threads costs more than they save. */
static const double WORTH_SPREADING = 150e3;

/* A pair that is a large part of the batch is spread, as it would leave the other threads idle at the end. Spans are
 * kept in the order of the bins, so such a pair stays on one thread. */
static bool is_worth_spreading(const ct_pair_task *pair, double total, uint32_t threads) {
    return pair->cost > WORTH_SPREADING && 2 * threads * pair->cost > total && !(pair->step->want & CT_WANT_SPANS);
}

/* Pair i belongs to a step that failed. */
static bool is_refused(const struct batch *batch, size_t i) {
    return batch->pairs[i].step->error.status != CT_OK;
}

/* It belongs to a step that failed, or has its answer already, or gets none. */
static bool has_ended(const struct batch *batch, size_t i) {
    return is_refused(batch, i) || batch->pairs[i].kept || batch->pairs[i].is_left_out;
}

static void compute_pairs(struct batch *batch, size_t n, uint32_t *order) {
    ct_device *device = batch->device;
    double total = 0;
    for (size_t i = 0; i < n && !batch->is_over; i++) {
        if (CT_POLL_EVERY(i + 1, 1024) && ct_is_cancelled_at("pairs of bodies", i)) note_cancelled(batch);
        if (!has_ended(batch, i)) total += batch->pairs[i].cost;
    }
    const bool uses_threads = device->threads > 1 && total > WORTH_SPREADING;
    uint32_t n_small = 0;
    for (size_t i = 0; i < n && !batch->is_over; i++) {
        if (has_ended(batch, i)) continue;
        if (uses_threads && !batch->method->compute_all && is_worth_spreading(&batch->pairs[i], total, device->threads))
            compute_pair(batch, &batch->pairs[i], 0, true);
        else
            order[n_small++] = (uint32_t)i;
    }
    batch->order = order;
    const ct_cpu_method *method = batch->method;
    if (method->compute_all)
        method->compute_all(batch->workspace, batch->steps, batch->start, batch->pairs, order, n_small);
    else if (method->compute_small &&
             method->compute_small(batch->workspace, batch->pairs, order, n_small, uses_threads))
        ; /* done */
    else if (uses_threads)
        ct_pool_run(batch->workspace->pool, n_small, compute_small_pair, batch);
    else
        for (uint32_t i = 0; i < n_small; i++) compute_small_pair(batch, i, 0);
}

/* Memory that a pair was refused may be held as scratch by other threads or another batch. It gets another try with all
 * memory to itself, so that whether a step fits does not depend on the steps before or beside it (but for the pair
 * lists of those). */
static void retry_pairs(struct batch *batch, size_t n) {
    bool is_exclusive = false;
    for (size_t i = 0; i < n; i++) {
        ct_pair_task *pair = &batch->pairs[i];
        if (pair->status != CT_OUT_OF_MEMORY || is_refused(batch, i)) continue;
        if (!is_exclusive) {
            const ct_working before = work_for_pair(pair);
            ct_enter_phase("waiting for memory");
            is_exclusive = ct_workspace_begin_exclusive(batch->workspace);
            ct_work_back(before);
        }
        if (!is_exclusive) { /* cancelled meanwhile */
            pair->status = CT_CANCELLED;
            continue;
        }
        ct_workspaces_free_scratch(batch->device);
        pair->status = CT_OK;
        pair->rays = pair->fragments = 0;
        memset(pair->seconds, 0, sizeof pair->seconds);
        compute_pair(batch, pair, 0, false);
    }
    if (is_exclusive) ct_workspace_end_exclusive(batch->workspace);
}

static void answer_step(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    struct batch *batch = argument;
    ct_step *step = &batch->steps[i];
    const struct step_state *state = &batch->states[i];
    if (step->error.status) return;
    double start = ct_now();
    const ct_working before = ct_work_for(step->cancel, 0, 0);
    ct_enter_phase("making the result");
    ct_cpu_answer(batch->device, step, batch->method, batch->pairs + state->first_pair, state->n_pairs);
    ct_work_back(before);
    if (!step->result) return;
    step->result->seconds[CT_PHASE_UPLOAD] = state->upload;
    step->result->seconds[CT_PHASE_BROADPHASE] = state->broadphase;
    step->result->seconds[CT_PHASE_DOWNLOAD] = ct_now() - start;
}

static void drop_answers(struct batch *batch, uint32_t n_steps) {
    for (uint32_t i = 0; i < n_steps; i++) { /* other pairs have nothing but what is in arenas */
        ct_pair_task *first = &batch->pairs[batch->states[i].first_pair];
        if (batch->states[i].n_pairs == 1 && first->is_alone) ct_cpu_clear_pair(first);
    }
    for (uint32_t w = 0; w < batch->device->threads; w++) {
        ct_arena *answers = &batch->workspace->workers[w].answers;
        if (batch->is_over)
            ct_arena_free(answers, &batch->device->answers);
        else
            ct_arena_reset(answers, &batch->device->answers);
    }
}

/* ---- time ---- */

/* Time by the clock of work that took `seconds` of one thread: the section's time is shared out in proportion. */
static double wall_of(const struct section *section, double seconds) {
    return section->threads > 0 ? seconds * section->wall / section->threads : 0;
}

static struct section sum_update(const struct batch *batch, size_t n_steps, double wall) {
    struct section section = {wall, 0};
    for (size_t i = 0; i < n_steps; i++) section.threads += batch->states[i].upload + batch->states[i].broadphase;
    return section;
}

static struct section sum_pairs(const struct batch *batch, size_t n_pairs, double wall) {
    struct section section = {wall, 0};
    for (size_t i = 0; i < n_pairs; i++)
        for (int p = 0; p < CT_PHASES; p++) section.threads += batch->pairs[i].seconds[p];
    return section;
}

/* Steps without a result take part in the sum, but their time is told nowhere. */
static void share_wall(const struct batch *batch, size_t n_steps, const struct section *pairs, double answer_wall) {
    struct section answer = {answer_wall, 0};
    for (size_t i = 0; i < n_steps; i++)
        if (batch->steps[i].result) answer.threads += batch->steps[i].result->seconds[CT_PHASE_DOWNLOAD];
    for (size_t i = 0; i < n_steps; i++) {
        ct_result *r = batch->steps[i].result;
        for (int p = 0; r && p < CT_PHASES; p++) {
            bool is_update = p == CT_PHASE_UPLOAD || p == CT_PHASE_BROADPHASE;
            const struct section *of = is_update ? &batch->update : p == CT_PHASE_DOWNLOAD ? &answer : pairs;
            r->wall_seconds[p] = wall_of(of, r->seconds[p]);
        }
    }
}

/* From pairs to answers. If the pair list does not fit, the steps are computed in two halves, so that one scene's list
 * does not fail the others. */
static void compute(struct batch *batch, uint32_t n_steps) {
    size_t n_pairs = 0;
    const double start = ct_now();
    batch->is_over = false;
    batch->has_one_step = n_steps == 1;
    const ct_working before = n_steps == 1 ? ct_work_for(batch->steps[0].cancel, 0, 0) : ct_thread_working;
    uint32_t *order = plan_pairs(batch, n_steps, &n_pairs) ? malloc((n_pairs ? n_pairs : 1) * sizeof *order) : NULL;
    if (order) {
        compute_pairs(batch, n_pairs, order);
        if (batch->is_over) {
            ct_fail_cancelled(&batch->steps[0].error);
            n_pairs = 0;
        }
        ct_work_back(before);
        retry_pairs(batch, n_pairs);
        const double computed = ct_now();
        const struct section pairs = sum_pairs(batch, n_pairs, computed - start);
        ct_pool_run(n_steps > FEW_STEPS ? batch->workspace->pool : NULL, n_steps, answer_step, batch);
        share_wall(batch, n_steps, &pairs, ct_now() - computed);
        drop_answers(batch, n_steps);
        if (batch->method->answered) batch->method->answered(batch->workspace);
    } else if (n_steps > 1) {
        ct_work_back(before);
        uint32_t half = n_steps / 2;
        struct batch rest = *batch;
        rest.steps += half;
        rest.states += half;
        compute(batch, half);
        compute(&rest, n_steps - half);
    } else {
        const ct_scene *scene = batch->steps[0].scene;
        ct_fail(&batch->steps[0].error, CT_OUT_OF_MEMORY, "scratch",
                "%zu pairs of %u bodies overlap: their list does not fit the working memory", scene->broad.n_pairs,
                scene->n_bodies);
        ct_work_back(before);
    }
    free(order);
    if (batch->is_over) ct_workspace_give_back(batch->workspace); /* it may have grown large for nothing */
}

/* Only decides which workspace the batch uses. */
static bool is_large(const ct_step *steps, size_t n_steps) {
    enum { LARGE = 1 << 17 };
    uint64_t triangles = 0;
    for (size_t i = 0; i < n_steps; i++)
        for (uint32_t b = 0; b < steps[i].scene->n_bodies && triangles < LARGE; b++)
            triangles += steps[i].scene->bodies[b]->mesh->n_triangles;
    return triangles >= LARGE;
}

/* Fails the steps that are cancelled. False: all of them, or none could go on anyway. */
static bool fail_cancelled(ct_step *steps, size_t n_steps) {
    bool goes_on = false;
    for (size_t i = 0; i < n_steps; i++) {
        if (steps[i].error.status) continue;
        const ct_working before = ct_work_for(steps[i].cancel, 0, 0);
        ct_enter_phase("waiting for other batches");
        if (ct_is_cancelled()) ct_fail_cancelled(&steps[i].error);
        ct_work_back(before);
        goes_on = goes_on || !steps[i].error.status;
    }
    return goes_on;
}

void ct_cpu_run_pairs(ct_device *device, ct_step *steps, size_t n_steps, const ct_cpu_method *method) {
    struct batch batch = {
        .device = device, .steps = steps, .method = method, .start = ct_now(), .is_wide = n_steps > FEW_STEPS};
    batch.states = calloc(n_steps ? n_steps : 1, sizeof *batch.states);
    const bool large = is_large(steps, n_steps);
    while (batch.states && fail_cancelled(steps, n_steps) && !batch.workspace)
        batch.workspace = ct_workspace_try(device, large, steps[0].in_background);
    if (batch.workspace) {
        ct_pool_run(batch.is_wide ? batch.workspace->pool : NULL, (uint32_t)n_steps, update_bodies, &batch);
        for (size_t i = 0; i < n_steps && !batch.is_wide; i++)
            ct_cpu_refit_clusters(device, &steps[i], method->needs_boxes, batch.workspace->pool);
        batch.update = sum_update(&batch, n_steps, ct_now() - batch.start);
        compute(&batch, (uint32_t)n_steps);
        ct_workspace_release(batch.workspace);
    }
    for (size_t i = 0; i < n_steps && !batch.states; i++)
        ct_fail(&steps[i].error, CT_OUT_OF_MEMORY, "", "no memory for a batch of %zu steps", n_steps);
    free(batch.states);
}
