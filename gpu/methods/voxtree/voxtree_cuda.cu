/* voxtree_cuda.cu - the method VOXTREE: the host moves bodies, finds pairs and shares budgets (rounds.h), the device
 * computes one level of all pairs at a time (descend_cuda.cuh). So a time budget is looked at between levels.
 */
#include "gpu/device/cuda/trace.cuh"
#include "gpu/method/device_cuda.cuh"
#include "gpu/methods/voxtree/drive_cuda.cuh"

extern "C" {
#include "gpu/methods/voxtree/rounds.h"
#include "gpu/methods/voxtree/tree.h"
}

/* ---- trees on the device ---- */

/* What the method has in a workspace. */
struct voxel_scratch {
    ct_gpu_buffer pairs, fronts[2], sums, slots;
    ct_gpu_pinned staging, host;
};

static voxel_scratch *scratch_of(const ct_workspace *workspace) {
    return (voxel_scratch *)workspace->room[CT_METHOD_VOXTREE].scratch;
}

/* Of a mesh's tree: its levels, with pointers of the device. The method keeps a tree of each finest level. */
struct tree_levels {
    ct_voxel_level level[CT_MAX_VOXEL_LEVEL + 1];
};

static ct_mesh_part *tree_part(ct_mesh_copy *copy, uint32_t finest) {
    return &copy->part[CT_METHOD_VOXTREE][finest];
}

/* What is sent, on the host, and where it will lie on the device; without a host's memory, only its length. */
struct tree_image {
    char *host, *device;
    uint64_t at;
};

template <class T> static T *put(tree_image *to, const T *from, uint64_t n) {
    const uint64_t first = (to->at + 15) / 16 * 16;
    to->at = first + n * sizeof(T);
    if (!to->host) return NULL;
    memcpy(to->host + first, from, n * sizeof(T));
    return (T *)(to->device + first);
}

static void put_level(tree_image *to, const ct_voxel_level *from, ct_voxel_level *level) {
    const uint64_t n_bricks = from->n_bricks, side = from->n + 2 * CT_VOXEL_BORDER;
    *level = *from;
    level->bricks = put(to, from->bricks, n_bricks * n_bricks * n_bricks);
    ct_voxel *nodes = put(to, from->nodes - CT_VOXEL_PLAIN, CT_VOXEL_PLAIN + (uint64_t)from->n_nodes);
    if (nodes) level->nodes = nodes + CT_VOXEL_PLAIN;
    if (from->index) level->index = put(to, from->index, side * side * side);
}

static void put_tree(tree_image *to, const ct_voxel_tree *from, tree_levels *tree) {
    to->at = 0;
    for (uint32_t l = 0; l <= from->finest; l++) put_level(to, &from->level[l], &tree->level[l]);
}

/* Under the mutex. */
static bool upload_tree(ct_device *device, ct_workspace *workspace, const ct_voxel_tree *from, ct_mesh_part *to,
                        ct_gpu_need *need) {
    tree_levels *tree = (tree_levels *)calloc(1, sizeof *tree);
    tree_image image = {NULL, NULL, 0};
    need->what = "a voxel tree";
    need->bytes = sizeof *tree;
    if (!tree) return false;
    put_tree(&image, from, tree);
    const uint64_t bytes = need->bytes = image.at;
    image.host = (char *)malloc(bytes);
    image.device = image.host ? (char *)ct_gpu_alloc(device, bytes, CT_MEMORY_MESHES, workspace) : NULL;
    bool ok = image.device;
    if (ok) {
        put_tree(&image, from, tree);
        device->uploaded += bytes;
        ok = ct_gpu_ok(device, cudaMemcpyAsync(image.device, image.host, bytes, cudaMemcpyHostToDevice, device->setup),
                       "copying a voxel tree") &&
             ct_gpu_ok(device, cudaStreamSynchronize(device->setup), "copying a voxel tree");
    }
    free(image.host);
    if (ok) {
        *to = {image.device, bytes, tree};
        return true;
    }
    ct_gpu_free(device, image.device, bytes, CT_MEMORY_MESHES);
    free(tree);
    return false;
}

/* Points a pair's levels at the trees on the device. */
static bool find_trees(ct_device *device, ct_workspace *workspace, const ct_voxel_round_pair *pair,
                       ct_voxel_geometry *geometry, ct_gpu_need *need) {
    *geometry = pair->geometry;
    for (int b = 0; b < 2; b++) {
        ct_guard guard(device);
        const ct_voxel_tree *tree = pair->tree[b];
        ct_mesh_part *part = tree_part(pair->body[b]->resident->mesh, tree->finest);
        if (!part->data && !upload_tree(device, workspace, tree, part, need)) return false;
        const ct_voxel_level *level = &((const tree_levels *)part->host)->level[pair->level[b]];
        (b ? geometry->b : geometry->a) = *level;
        if (!b && geometry->has_finer) geometry->finer = level[1];
    }
    return true;
}

/* ---- bodies ---- */

/* Bodies have the boxes of their trees, and the device does not get their poses. */
static void move_on_host(ct_step *step) {
    ct_scene *scene = step->scene;
    if (!scene->table) scene->table = (ct_scene_table *)calloc(1, sizeof *scene->table);
    if (!scene->table) {
        ct_fail(&step->error, CT_OUT_OF_MEMORY, "scene", "no memory for a scene's table");
        return;
    }
    scene->table->may_be_behind = true;
    scene->is_moved = true;
    for (size_t i = 0; i < step->n_updates; i++) {
        ct_body *body = ct_scene_find(scene, step->updates[i].body, NULL);
        ct_gpu_keep_body(body);
        if (memcmp(body->given, step->updates[i].pose, sizeof body->given) != 0) body->resident->box_level = 0;
        ct_body_place(body, step->updates[i].pose, ct_mesh_origin(body->mesh));
    }
    for (uint32_t b = 0; b < scene->n_bodies; b++) {
        ct_body *body = scene->bodies[b];
        if (body->is_half_space) continue;
        const ct_voxel_tree *tree = ct_voxel_tree_for(body->mesh, &scene->settings, &step->error);
        if (!tree) return;
        if (body->resident->box_level == tree->finest) continue;
        ct_voxel_posed_box(tree, body->pose, &body->box);
        body->resident->box_level = tree->finest;
        body->resident->is_behind = true;
    }
}

/* Scenes that are refined have the boxes of vertices, as those of the method `exact` have. */
static bool move_bodies(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps,
                        ct_gpu_need *need) {
    ct_step **refined = (ct_step **)malloc(n_steps * sizeof *refined);
    size_t n = 0;
    if (!refined) return false;
    for (size_t i = 0; i < n_steps; i++)
        if (steps[i]->scene->settings.refine)
            refined[n++] = steps[i];
        else
            move_on_host(steps[i]);
    const bool ok = !n || ct_gpu_move_bodies(device, workspace, refined, n, need);
    free(refined);
    return ok;
}

/* ---- a level ---- */

static const uint64_t FIRST_SLOTS = 1 << 12;

/* A round on the device. */
struct voxel_round {
    const ct_voxel_round_pair *pairs;
    uint32_t n;
    uint64_t tests;
    ct_voxel_tables tables;
};

/* Sends the round's pairs; before the first level also a root of each as its open cube. */
static bool send_round(ct_device *device, ct_workspace *workspace, voxel_round *round, uint32_t n_pairs,
                       ct_gpu_need *need) {
    const uint64_t place_at = round->n * sizeof(ct_voxel_geometry), roots_at = (place_at + 4 * n_pairs + 7) / 8 * 8;
    const uint64_t bytes = roots_at + round->n * sizeof(ct_voxel_front);
    if (!ct_gpu_reserve_for(device, workspace, &scratch_of(workspace)->pairs, bytes, "pairs", need) ||
        !ct_gpu_reserve_pinned(device, workspace, &scratch_of(workspace)->staging, bytes))
        return false;
    char *host = (char *)scratch_of(workspace)->staging.host, *at = (char *)scratch_of(workspace)->pairs.data;
    uint32_t *place = (uint32_t *)(host + place_at);
    ct_voxel_front *roots = (ct_voxel_front *)(host + roots_at);
    for (uint32_t i = 0; i < n_pairs; i++) place[i] = CT_GPU_NONE;
    for (uint32_t i = 0; i < round->n; i++) {
        place[round->pairs[i].number] = i;
        memset(&roots[i], 0, sizeof roots[i]);
        roots[i].pair = round->pairs[i].number;
        if (!find_trees(device, workspace, &round->pairs[i], (ct_voxel_geometry *)host + i, need)) return false;
    }
    ct_voxel_tables *tables = &round->tables;
    tables->geometry = (const ct_voxel_geometry *)at;
    tables->place = (const uint32_t *)(at + place_at);
    tables->is_root = round->pairs[0].is_root;
    if (tables->is_root) {
        tables->front = (const ct_voxel_front *)(at + roots_at);
        tables->n_front = round->n;
    }
    device->uploaded += bytes;
    return ct_gpu_ok(device, cudaMemcpyAsync(at, host, bytes, cudaMemcpyHostToDevice, workspace->stream),
                     "sending voxel trees' pairs");
}

static bool fetch(ct_device *device, ct_workspace *workspace, const void *from, uint64_t bytes) {
    device->downloaded += bytes;
    return ct_gpu_reserve_pinned(device, workspace, &scratch_of(workspace)->host, bytes) &&
           ct_gpu_ok(device,
                     cudaMemcpyAsync(scratch_of(workspace)->host.host, from, bytes, cudaMemcpyDeviceToHost,
                                     workspace->stream),
                     "copying a level") &&
           ct_gpu_wait(device, workspace, "computing a level");
}

/* Launches the level with so many slots and waits for its counts and sums, which are then in the scratch's host. */
static bool launch_level(ct_device *device, ct_workspace *workspace, voxel_round *round, uint64_t n_slots,
                         ct_gpu_need *need) {
    ct_voxel_tables *tables = &round->tables;
    const uint64_t sums = sizeof(ct_voxel_counts) + round->n * sizeof(ct_voxel_pair_sums);
    if (!ct_gpu_reserve_for(device, workspace, &scratch_of(workspace)->sums, sums, "sums", need) ||
        !ct_gpu_reserve_for(device, workspace, &scratch_of(workspace)->slots, 2 * n_slots * sizeof(ct_voxel_slot),
                            "groups", need))
        return false;
    tables->counts = (ct_voxel_counts *)scratch_of(workspace)->sums.data;
    tables->sums = (ct_voxel_pair_sums *)(tables->counts + 1);
    tables->slots = (ct_voxel_slot *)scratch_of(workspace)->slots.data;
    tables->groups = tables->slots + n_slots;
    tables->n_slots = n_slots;
    if (!ct_gpu_clear(device, workspace, scratch_of(workspace)->sums.data, sums) ||
        !ct_gpu_clear(device, workspace, tables->slots, n_slots * sizeof(ct_voxel_slot)))
        return false;
    const uint64_t threads = n_slots > 8 * tables->n_front ? n_slots : 8 * tables->n_front;
    device->launches += ct_cuda_descend(tables, ct_gpu_grid_of(device, threads), workspace->stream);
    return fetch(device, workspace, tables->counts, sums);
}

static bool has_groups(const ct_voxel_geometry *g) {
    return g->settles_points || (g->finds_points && g->finds_estimates);
}

static bool wants_points(const voxel_round *round) {
    for (uint32_t i = 0; i < round->n; i++)
        if (has_groups(&round->pairs[i].geometry)) return true;
    return false;
}

/* Hands the sums of groups, in the scratch's host, to their pairs. */
static bool add_groups(const ct_workspace *workspace, ct_voxel_rounds *rounds, uint64_t n) {
    const ct_voxel_slot *slots = (const ct_voxel_slot *)scratch_of(workspace)->host.host;
    for (uint64_t i = 0; i < n; i++) {
        ct_voxel_group_sums sums = slots[i].sums;
        sums.group[0] = (uint32_t)(slots[i].key >> 16) & 0xffff;
        sums.group[1] = (uint32_t)slots[i].key & 0xffff;
        const bool is_settled = slots[i].key >> 32 & 1;
        if (!ct_voxel_rounds_add_group(rounds, (uint32_t)(slots[i].key >> 33) - 1, &sums, is_settled)) return false;
    }
    return true;
}

/* Computes a level of the round's pairs. */
static bool compute_level(ct_device *device, ct_workspace *workspace, ct_voxel_rounds *rounds, voxel_round *round,
                          ct_gpu_need *need) {
    if (!send_round(device, workspace, round, ct_voxel_rounds_pairs(rounds), need)) return false;
    ct_gpu_buffer *next = &scratch_of(workspace)->fronts[round->pairs[0].level[0] & 1];
    if (!ct_gpu_reserve_for(device, workspace, next, round->tests * sizeof(ct_voxel_front), "open cubes", need))
        return false;
    round->tables.next = (ct_voxel_front *)next->data;
    uint64_t n_slots = wants_points(round) ? FIRST_SLOTS : 0;
    ct_voxel_counts counts;
    do { /* until there is a slot for each pair of groups */
        if (!launch_level(device, workspace, round, n_slots, need)) return false;
        counts = *(const ct_voxel_counts *)scratch_of(workspace)->host.host;
        n_slots *= 4;
        device->reruns += counts.n_lost != 0;
    } while (counts.n_lost);
    const uint64_t bytes = round->n * sizeof(ct_voxel_pair_sums);
    ct_voxel_pair_sums *sums = (ct_voxel_pair_sums *)malloc(bytes);
    need->what = "the sums of a level, on the host";
    need->bytes = bytes;
    bool ok = sums;
    if (ok) memcpy(sums, (const char *)scratch_of(workspace)->host.host + sizeof counts, bytes);
    if (ok && counts.n_groups)
        ok = fetch(device, workspace, round->tables.groups, counts.n_groups * sizeof(ct_voxel_slot)) &&
             add_groups(workspace, rounds, counts.n_groups);
    for (uint32_t i = 0; i < round->n && ok; i++)
        ok = ct_voxel_rounds_complete(rounds, i, &sums[i].settled, &sums[i].open);
    free(sums);
    round->tables.front = round->tables.next;
    round->tables.n_front = counts.n_next;
    return ok;
}

static bool is_any_cancelled(ct_step *const *steps, size_t n_steps) {
    bool is_any = false;
    for (size_t i = 0; i < n_steps && !is_any; i++) {
        const ct_working before = ct_work_for(steps[i]->cancel, 0, 0);
        is_any = !steps[i]->error.status && ct_is_cancelled();
        ct_work_back(before);
    }
    return is_any;
}

static bool compute(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps, double start,
                    bool alone, ct_gpu_need *need) {
    const ct_trace_range range("voxel trees");
    need->what = "the list of steps, on the host";
    if (!move_bodies(device, workspace, steps, n_steps, need)) return false;
    need->what = "the list of pairs, on the host";
    ct_voxel_rounds *rounds = ct_voxel_rounds_begin(steps, n_steps, start);
    bool ok = rounds;
    voxel_round round = {};
    const double begun = ct_gpu_now();
    while (ok && (round.n = ct_voxel_rounds_next(rounds, ct_gpu_now(), &round.pairs, &round.tests)) > 0)
        ok = !is_any_cancelled(steps, n_steps) && compute_level(device, workspace, rounds, &round, need);
    ok = ok && ct_gpu_refine_voxels(device, workspace, rounds, alone, need);
    const double computed = ct_gpu_now();
    if (ok) ct_voxel_rounds_answer(rounds);
    ct_voxel_rounds_free(&rounds);
    const double seconds[3] = {begun - start, computed - begun, ct_gpu_now() - computed};
    const ct_phase phase[3] = {CT_PHASE_UPLOAD, CT_PHASE_SPAN, CT_PHASE_DOWNLOAD};
    for (size_t i = 0; i < n_steps && ok; i++)
        for (int p = 0; p < 3 && steps[i]->result; p++)
            steps[i]->result->seconds[phase[p]] = steps[i]->result->wall_seconds[phase[p]] =
                seconds[p] / (double)n_steps;
    return ok;
}

static const ct_kernel_entry *const KERNELS[] = {ct_descend_kernels, NULL};

static ct_gpu_method describe(void) {
    ct_gpu_method method = {};
    method.method = CT_METHOD_VOXTREE;
    method.kernels = KERNELS;
    method.scratch_bytes = sizeof(voxel_scratch);
    method.destroy_scratch = ct_gpu_destroy_scratch<voxel_scratch>;
    method.remedy = "use a lower level";
    method.compute = compute;
    return method;
}

extern const ct_gpu_method ct_gpu_voxtree_method = describe();
