/* run_cuda.cu - runs a batch on a workspace: sends it, launches all stages, waits once. After a shortage it grows the
 * tables and launches again. If they cannot grow it halves the batch, so that the scene that needs too much fails
 * alone. */
#include "gpu/device/cuda/trace.cuh"
#include "gpu/method/device_cuda.cuh"

#include <assert.h>

/* ---- workspaces ---- */

static ct_workspace *acquire_workspace(ct_device *device) {
    ct_guard guard(device);
    for (;;) {
        for (ct_workspace &workspace : device->workspaces)
            if (!workspace.busy) {
                workspace.busy = true;
                return &workspace;
            }
        pthread_cond_wait(&device->workspace_free, &device->mutex);
    }
}

static void release_workspace(ct_device *device, ct_workspace *workspace) {
    ct_guard guard(device);
    workspace->busy = false;
    workspace->used_until = ct_gpu_now();
    pthread_cond_broadcast(&device->workspace_free);
}

/* Waits until no other batch runs, then acquires all workspaces and frees their scratch. It releases its own while it
 * waits, as two threads that wait here would wait for each other. */
static void acquire_all_workspaces(ct_device *device, ct_workspace *workspace) {
    ct_guard guard(device);
    const ct_gpu_method *method = workspace->method; /* another batch may get it meanwhile */
    workspace->busy = false;
    pthread_cond_broadcast(&device->workspace_free);
    for (;;) {
        bool any = false;
        for (const ct_workspace &other : device->workspaces) any = any || other.busy;
        if (!any) break;
        pthread_cond_wait(&device->workspace_free, &device->mutex);
    }
    for (ct_workspace &other : device->workspaces) {
        other.busy = true;
        ct_gpu_free_scratch(device, &other);
    }
    workspace->method = method;
}

static void release_other_workspaces(ct_device *device, const ct_workspace *workspace) {
    ct_guard guard(device);
    for (ct_workspace &other : device->workspaces)
        if (&other != workspace) other.busy = false;
    pthread_cond_broadcast(&device->workspace_free);
}

/* ---- computing ---- */

static bool launch_update(ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    const ct_trace_range range("update bodies");
    const unsigned n = b->n_box_updates ? ct_cuda_update_bodies(b, workspace->grid, workspace->stream) : 0;
    device->launches += n;
    workspace->has_moved_bodies = n > 0; /* the first kernel writes, the others measure */
    return ct_gpu_end_phase(device, workspace, CT_PHASE_UPLOAD);
}

/* The first tables of the small buffer: see lay_out_small. */
static bool clear_counts(ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    return ct_gpu_clear(device, workspace, b->counts, (uint64_t)((char *)b->bodies - (char *)b->counts));
}

/* All stages after the update of the bodies. */
static bool launch(ct_device *device, ct_workspace *workspace, ct_batch *b, ct_gpu_need *need) {
    return clear_counts(device, workspace, b) && workspace->method->launch(device, workspace, b, need);
}

static bool wait(ct_device *device, ct_workspace *workspace) {
    const ct_trace_range range("wait");
    return ct_gpu_wait(device, workspace, "computing a batch");
}

/* Copies what the first copy did not take of a computed answer, and expects the next one to have up to a sixteenth
 * more, as the answers of consecutive steps are alike. */
static bool copy_rest(ct_device *device, ct_workspace *workspace, uint64_t bytes) {
    workspace->expected_answer = bytes + bytes / 16 + 512;
    if (bytes <= workspace->copied_answer) return true;
    return ct_gpu_copy_answer(device, workspace, workspace->copied_answer, bytes) && wait(device, workspace);
}

/* Copies the boxes and poses that the device now has to the bodies on the host. */
static void copy_state_to_host(ct_workspace *workspace, const ct_batch *b) {
    ct_body **moved = (ct_body **)workspace->moved_bodies.data, **posed = (ct_body **)workspace->posed_bodies.data;
    const ct_box *boxes = (const ct_box *)((const char *)workspace->answer_host.host + sizeof(ct_gpu_counts) +
                                           b->n_steps * sizeof(ct_gpu_step_totals));
    const ct_gpu_box_update *updates = (const ct_gpu_box_update *)workspace->box_updates.data;
    const ct_gpu_pose_write *poses = (const ct_gpu_pose_write *)workspace->pose_writes.data;
    const double *volumes = (const double *)(boxes + b->n_box_updates);
    ct_step *const *steps = (ct_step *const *)workspace->members.data;
    for (uint32_t i = 0; i < b->n_steps; i++) steps[i]->scene->is_moved = true;
    for (uint32_t i = 0; i < b->n_box_updates; i++) {
        ct_gpu_keep_body(moved[i]);
        moved[i]->box = boxes[i];
        moved[i]->resident->box_level = 0;
        if (moved[i]->kind != CT_BODY_RIGID) ct_gpu_note_rounding(moved[i], updates[i].is_rounded);
        moved[i]->resident->is_behind = false;
        const bool is_due =
            !moved[i]->resident->is_only_behind && ct_body_volume_is_due(moved[i], moved[i]->resident->n_triangles);
        moved[i]->resident->is_only_behind = false;
        if (is_due || workspace->method->needs_volumes) ct_body_set_volume(moved[i], volumes[i]);
    }
    for (uint32_t i = 0; i < b->n_pose_writes; i++) {
        double given[12];
        memcpy(given, poses[i].pose, sizeof given);
        for (int k = 0; k < 3; k++) given[4 * k + 3] = poses[i].about[k];
        ct_body_place(posed[i], given, ct_mesh_origin(posed[i]->mesh));
    }
}

static bool is_cancelled(const ct_step *step) {
    const ct_working before = ct_work_for(step->cancel, 0, 0);
    const bool is = ct_is_cancelled();
    ct_work_back(before);
    return is;
}

/* Some step of the batch is: it is not computed further, and the others run again without those. */
static bool is_any_cancelled(const ct_workspace *workspace) {
    ct_step *const *steps = (ct_step *const *)workspace->members.data;
    for (uint64_t i = 0; i < workspace->members.n; i++)
        if (is_cancelled(steps[i])) return true;
    return false;
}

static void fail_cancelled(ct_step *step) {
    const ct_working before = ct_work_for(step->cancel, 0, 0);
    if (!step->error.status && ct_is_cancelled()) ct_fail_cancelled(&step->error);
    ct_work_back(before);
}

/* Computes the batch. False: no memory for what *n says, a step was cancelled, or the device is lost. Sets *applied
 * once the steps' updates are written, after which they must not be sent again. */
static bool compute(ct_device *device, ct_workspace *workspace, ct_batch *b, bool *applied, ct_gpu_need *n) {
    n->what = "what it sends";
    n->bytes = workspace->tables_staging.bytes + workspace->rows_staging.bytes;
    if (!ct_gpu_ok(device, cudaEventRecord(workspace->events[0], workspace->stream), "recording an event") ||
        !ct_gpu_send(device, workspace, b) || !ct_gpu_reserve_known(device, workspace, b))
        return false;
    ct_gpu_lay_out(device, workspace, b);
    ct_gpu_choose_grid(device, workspace, b);
    if (!launch_update(device, workspace, b) ||
        (!ct_gpu_are_tables_clean(workspace) && !ct_gpu_clear_tables(device, workspace)))
        return false;
    ct_gpu_mark_tables(workspace, false);
    for (;;) {
        if (*applied && is_any_cancelled(workspace)) return false;
        if (!launch(device, workspace, b, n) || !wait(device, workspace)) return false;
        const ct_gpu_counts counts = *(const ct_gpu_counts *)workspace->answer_host.host; /* it may grow below */
        if (!*applied) copy_state_to_host(workspace, b);
        *applied = true;
        if (b->lacks_memory || is_any_cancelled(workspace)) return false;
        const uint32_t shortage = ct_gpu_shortage(&counts, &workspace->capacity);
        if (!shortage) {
            assert(counts.inconsistent == 0);
            ct_gpu_note_work(workspace, &counts);
            device->clusters += counts.clusters + counts.side_clusters;
            device->near_clusters += counts.near_clusters + counts.slots;
            if (!copy_rest(device, workspace, counts.answer_bytes) ||
                (workspace->method->copy_more && !workspace->method->copy_more(device, workspace, b, &counts, n)))
                return false;
            break;
        }
        device->reruns++;
        workspace->grid = device->grid; /* the stages after the shortage have not counted */
        if (!ct_gpu_grow_tables(device, workspace, &counts, shortage, n) || !ct_gpu_clear_tables(device, workspace))
            return false;
        ct_gpu_lay_out(device, workspace, b);
    }
    ct_gpu_mark_tables(workspace, true);
    return true;
}

static bool move_staged(ct_device *device, ct_workspace *workspace, ct_batch *b) {
    if (!ct_gpu_send(device, workspace, b) || !ct_gpu_reserve_known(device, workspace, b)) return false;
    ct_gpu_lay_out(device, workspace, b);
    ct_gpu_choose_grid(device, workspace, b);
    if (!launch_update(device, workspace, b) || !clear_counts(device, workspace, b) ||
        !ct_gpu_launch_pairs(device, workspace, b) || /* it lists the boxes, too */
        !ct_gpu_copy_answer(device, workspace, 0, (uint64_t)((char *)b->out_contacts - b->answer)) ||
        !wait(device, workspace))
        return false;
    copy_state_to_host(workspace, b);
    return true;
}

bool ct_gpu_move_bodies(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps,
                        ct_gpu_need *need) {
    ct_batch batch = {};
    need->what = "what it sends";
    const ct_gpu_method *method = workspace->method;
    workspace->method = ct_gpu_method_of(CT_METHOD_EXACT);
    const ct_staged staged = ct_gpu_stage(device, workspace, steps, n_steps, true);
    const bool ok = staged == CT_STAGED && move_staged(device, workspace, &batch);
    workspace->method = method;
    return ok || staged == CT_STAGED_NOTHING;
}

/* ---- a batch ---- */

static void fail_all(ct_device *device, ct_step *const *steps, size_t n_steps) {
    for (size_t i = 0; i < n_steps; i++)
        if (!steps[i]->error.status) ct_gpu_lost(device, &steps[i]->error);
}

/* A kernel was not launched. What was moved is taken back, and what the device could give memory back is given. */
static void fail_launch(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps) {
    ct_body **moved = (ct_body **)workspace->moved_bodies.data;
    for (uint64_t i = 0; workspace->has_moved_bodies && i < workspace->moved_bodies.n; i++) ct_gpu_keep_body(moved[i]);
    for (size_t i = 0; i < n_steps; i++) {
        if (steps[i]->error.status) continue;
        steps[i]->scene->is_moved = steps[i]->scene->is_moved || workspace->has_moved_bodies;
        ct_fail(&steps[i]->error, CT_OUT_OF_MEMORY, "scratch",
                "device %d, %s, has no memory left to launch a kernel: end what else runs on it, or lower "
                "max_device_bytes",
                device->ordinal, device->name);
    }
    workspace->lacks_launch = false;
    ct_gpu_trim_pool(device);
}

static void fail_one(const ct_device *device, ct_step *step, const ct_gpu_need *n) {
    const ct_scene *scene = step->scene;
    char whose[64];
    if (scene->n_bodies == 2)
        snprintf(whose, sizeof whose, "bodies %u and %u", scene->bodies[0]->id, scene->bodies[1]->id);
    else
        snprintf(whose, sizeof whose, "the scene's %u bodies", scene->n_bodies);
    if (n->most) {
        ct_fail(&step->error, CT_OUT_OF_MEMORY, "scratch",
                "%s need %llu bytes for %s, of which OpenGL reaches %llu at once: use a lower resolution or a larger "
                "pixel_size, or the native rasterizer",
                whose, (unsigned long long)n->bytes, n->what, (unsigned long long)n->most);
        return;
    }
    ct_fail(&step->error, CT_OUT_OF_MEMORY, "scratch",
            "%s need %llu bytes of working memory for %s, but %llu of the device's budget of %llu are in use: %s, or "
            "raise the budget",
            whose, (unsigned long long)n->bytes, n->what, (unsigned long long)device->used,
            (unsigned long long)device->limit, ct_gpu_method_of(ct_method_of_step(step))->remedy);
}

static void run_part(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps, bool applied,
                     bool alone) {
    ct_gpu_need n = {};
    n.what = "its tables";
    ct_batch batch = {};
    /* The host's part of a batch of one step is cancelled with it. */
    const ct_working before = n_steps == 1 ? ct_work_for(steps[0]->cancel, 0, 0) : ct_thread_working;
    ct_enter_phase("computing on the device");
    const ct_gpu_method *method = workspace->method;
    const bool is_ready = !method->prepare || method->prepare(device, workspace, steps, n_steps, &n);
    const ct_staged staged = is_ready ? ct_gpu_stage(device, workspace, steps, n_steps, !applied) : CT_STAGE_NO_MEMORY;
    const bool is_done =
        staged == CT_STAGED_NOTHING || (staged == CT_STAGED && compute(device, workspace, &batch, &applied, &n));
    if (is_done && staged == CT_STAGED) ct_gpu_answer(device, workspace, &batch);
    ct_work_back(before);
    if (is_done) return;
    wait(device, workspace); /* before its memory is used for anything else */
    if (device->lost) {
        fail_all(device, steps, n_steps);
        return;
    }
    if (workspace->lacks_launch) {
        fail_launch(device, workspace, steps, n_steps);
        return;
    }
    /* Steps that were refused have their errors already. */
    ct_step **left = (ct_step **)malloc(n_steps * sizeof *left);
    size_t n_left = 0, n_cancelled = 0;
    for (size_t i = 0; left && i < n_steps; i++) {
        if (steps[i]->error.status) continue;
        fail_cancelled(steps[i]);
        n_cancelled += steps[i]->error.status != CT_OK;
        if (!steps[i]->error.status) left[n_left++] = steps[i];
    }
    if (!left) {
        for (size_t i = 0; i < n_steps; i++)
            ct_fail(&steps[i]->error, CT_OUT_OF_MEMORY, "", "no memory for a batch of %zu steps", n_steps);
    } else if (n_cancelled && n_left) {
        run_part(device, workspace, left, n_left, applied, alone);
    } else if (n_left > 1) {
        run_part(device, workspace, left, n_left / 2, applied, alone);
        run_part(device, workspace, left + n_left / 2, n_left - n_left / 2, applied, alone);
    } else if (n_left == 1 && !alone) {
        /* Other workspaces may hold the memory that is missing. */
        acquire_all_workspaces(device, workspace);
        run_part(device, workspace, left, 1, applied, true);
        release_other_workspaces(device, workspace);
    } else if (n_left == 1) {
        fail_one(device, left[0], &n);
    }
    free(left);
}

void ct_gpu_run_exact_on(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps,
                         bool alone) {
    const ct_gpu_method *method = workspace->method;
    workspace->method = ct_gpu_method_of(CT_METHOD_EXACT);
    run_part(device, workspace, steps, n_steps, true, alone);
    workspace->method = method;
}

/* The same for a method that computes batches itself. */
static void compute_itself(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps,
                           double start, bool alone) {
    ct_gpu_need n = {};
    n.what = "its tables";
    const ct_working before = n_steps == 1 ? ct_work_for(steps[0]->cancel, 0, 0) : ct_thread_working;
    ct_enter_phase("comparing voxels on the device");
    const bool is_done = workspace->method->compute(device, workspace, steps, n_steps, start, alone, &n);
    ct_work_back(before);
    if (is_done) return;
    wait(device, workspace); /* before its memory is used for anything else */
    for (size_t i = 0; i < n_steps && !device->lost; i++) fail_cancelled(steps[i]);
    if (device->lost) {
        fail_all(device, steps, n_steps);
    } else if (workspace->lacks_launch) {
        fail_launch(device, workspace, steps, n_steps);
    } else if (n_steps > 1) {
        compute_itself(device, workspace, steps, n_steps / 2, start, alone);
        compute_itself(device, workspace, steps + n_steps / 2, n_steps - n_steps / 2, start, alone);
    } else if (!alone) {
        acquire_all_workspaces(device, workspace);
        compute_itself(device, workspace, steps, 1, start, true);
        release_other_workspaces(device, workspace);
    } else if (!steps[0]->error.status) {
        fail_one(device, steps[0], &n);
    }
}

static void run_steps(ct_device *device, ct_step *steps, size_t n_steps, ct_method method) {
    const double start = ct_gpu_now();
    ct_step **live = (ct_step **)malloc((n_steps ? n_steps : 1) * sizeof *live);
    size_t n = 0;
    for (size_t i = 0; i < n_steps; i++) {
        if (steps[i].error.status) continue;
        fail_cancelled(&steps[i]);
        if (steps[i].error.status) continue;
        ct_gpu_forget_kept(&steps[i]);
        if (live)
            live[n++] = &steps[i];
        else
            ct_fail(&steps[i].error, CT_OUT_OF_MEMORY, "", "no memory for a batch of %zu steps", n_steps);
    }
    if (n) {
        ct_workspace *workspace = acquire_workspace(device);
        workspace->method = ct_gpu_method_of(method);
        workspace->has_moved_bodies = workspace->lacks_launch = false;
        if (device->lost || !ct_gpu_ok(device, cudaSetDevice(device->ordinal), "choosing the device"))
            fail_all(device, live, n);
        else if (workspace->method->compute)
            compute_itself(device, workspace, live, n, start, false);
        else
            run_part(device, workspace, live, n, false, false);
        release_workspace(device, workspace);
    }
    free(live);
}

void ct_gpu_run_ldi(ct_device *device, ct_step *steps, size_t n_steps) {
    run_steps(device, steps, n_steps, CT_METHOD_LDI);
}

void ct_gpu_run_exact(ct_device *device, ct_step *steps, size_t n_steps) {
    run_steps(device, steps, n_steps, CT_METHOD_EXACT);
}

void ct_gpu_run_ebpi(ct_device *device, ct_step *steps, size_t n_steps) {
    run_steps(device, steps, n_steps, CT_METHOD_EBPI);
}

void ct_gpu_run_voxtree(ct_device *device, ct_step *steps, size_t n_steps) {
    run_steps(device, steps, n_steps, CT_METHOD_VOXTREE);
}
