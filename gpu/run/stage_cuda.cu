/* stage_cuda.cu - assembles what a batch sends to its device, in pinned memory: one ct_gpu_step for each scene, and the
 * bodies, positions and poses that changed. It checks the numbers while it copies them: a step that sends one which is
 * not finite is refused, and nothing of it is sent. */
#include "gpu/device/cuda/trace.cuh"
#include "gpu/method/device_cuda.cuh"

extern "C" {
#include "gpu/mesh/closing.h"
#include "gpu/scene/rows.h"
}

/* The lengths of the lists, to truncate them to when a step is refused. */
struct list_lengths {
    uint64_t steps, crowds, box_updates, pose_writes, position_writes, indices, moved_bodies, posed_bodies, members,
        words, stale_tables, directions, direction_values, rows, chunks;
    uint32_t bodies;
    ct_gpu_crowd crowd_end;
};

static list_lengths lengths_of(const ct_workspace *workspace) {
    return {workspace->steps.n,
            workspace->crowds.n,
            workspace->box_updates.n,
            workspace->pose_writes.n,
            workspace->position_writes.n,
            workspace->indices.n,
            workspace->moved_bodies.n,
            workspace->posed_bodies.n,
            workspace->members.n,
            workspace->words.n,
            workspace->stale_tables.n,
            workspace->directions.n,
            workspace->direction_values.n,
            workspace->n_rows,
            workspace->n_box_chunks,
            workspace->n_bodies,
            workspace->crowd_end};
}

static void truncate_to(ct_workspace *workspace, const list_lengths *m) {
    workspace->steps.n = m->steps;
    workspace->crowds.n = m->crowds;
    workspace->box_updates.n = m->box_updates;
    workspace->pose_writes.n = m->pose_writes;
    workspace->position_writes.n = m->position_writes;
    workspace->indices.n = m->indices;
    workspace->moved_bodies.n = m->moved_bodies;
    workspace->posed_bodies.n = m->posed_bodies;
    workspace->members.n = m->members;
    workspace->words.n = m->words;
    workspace->stale_tables.n = m->stale_tables;
    workspace->directions.n = m->directions;
    workspace->direction_values.n = m->direction_values;
    workspace->n_rows = m->rows;
    workspace->n_box_chunks = m->chunks;
    workspace->n_bodies = m->bodies;
    workspace->crowd_end = m->crowd_end;
}

static bool is_finite(const float *p, uint64_t n) {
    uint32_t bad = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, p + i, 4);
        bad |= (bits & 0x7f800000) == 0x7f800000;
    }
    return !bad;
}

/* Copies all rows of an update. False: a number is not finite. A block of 1,024 rows is 12 KiB, which stays in the L1
 * cache between the copy and the check. */
static bool copy_rows(float *to, const ct_update *u) {
    enum { ROWS = 1024 };
    bool ok = true;
    for (uint64_t first = 0; first < u->count; first += ROWS) {
        const uint64_t n = first + ROWS < u->count ? (uint64_t)ROWS : u->count - first;
        if (u->dtype == CT_F32)
            memcpy(to + 3 * first, (const char *)u->positions + 12 * first, 12 * n);
        else
            for (uint64_t k = 0; k < n; k++) ct_update_row(u, first + k, to + 3 * (first + k));
        ok = ok && is_finite(to + 3 * first, 3 * n);
    }
    return ok;
}

/* Rising vertices: none comes twice. */
static bool is_rising(const ct_update *u) {
    uint64_t end = 0;
    const uint64_t pair = u->kind == CT_UPDATE_RANGES ? 2 : 1;
    for (uint64_t i = 0; u->kind != CT_UPDATE_POSITIONS && i < u->n_indices; i += pair) {
        const uint64_t first = ct_update_index(u, i), n = pair == 2 ? ct_update_index(u, i + 1) : 1u;
        if (first < end) return false;
        end = first + n;
    }
    return true;
}

/* How adding an update to the lists ended. */
enum outcome { DONE, NOT_FINITE, NO_MEMORY };

static ct_gpu_position_write write_of(const ct_workspace *workspace, const ct_body *body, uint32_t first_vertex,
                                      uint32_t first_index) {
    return {(float *)(body->resident->body + 1), body->resident->before, workspace->n_rows, first_vertex, first_index};
}

/* Adds the positions of closing vertices behind those of all given ones, which begin at row `given`. */
static bool add_closing(ct_workspace *workspace, const ct_body *body, uint64_t given) {
    const uint32_t n = ct_closing_count(body->mesh), *rim = ct_mesh_rim(body->mesh);
    const ct_gpu_position_write w = write_of(workspace, body, body->resident->n_vertices - n, CT_GPU_NONE);
    if (n == 0) return true;
    float *rows = (float *)workspace->rows_staging.host;
    for (uint32_t i = 0; i < n; i++)
        ct_closing_position(body->mesh, i, rows + 3 * (given + rim[i]), rows + 3 * workspace->n_rows++);
    return ct_host_add(&workspace->position_writes, w);
}

/* An update with rising vertices. Ranges of less than 8 vertices on average are sent as indices, which take fewer
 * bytes. */
static outcome add_rising(ct_workspace *workspace, const ct_body *body, const ct_update *u) {
    float *rows = (float *)workspace->rows_staging.host + 3 * workspace->n_rows;
    if (!copy_rows(rows, u)) return NOT_FINITE;
    if (u->count == 0) return DONE;
    ct_gpu_position_write w = write_of(workspace, body, 0, CT_GPU_NONE);
    const bool by_range = u->kind == CT_UPDATE_RANGES && u->count >= 8 * (u->n_indices / 2);
    if (u->kind == CT_UPDATE_POSITIONS) {
        if (!ct_host_add(&workspace->position_writes, w)) return NO_MEMORY;
        workspace->n_rows += u->count;
        return add_closing(workspace, body, w.first_row) ? DONE : NO_MEMORY;
    }
    if (by_range) {
        for (uint64_t i = 0; i < u->n_indices; i += 2) {
            const uint32_t n = ct_update_index(u, i + 1);
            w.first_vertex = ct_update_index(u, i);
            if (n && !ct_host_add(&workspace->position_writes, w)) return NO_MEMORY;
            w.first_row += n;
        }
    } else {
        w.first_index = (uint32_t)workspace->indices.n;
        uint32_t *to = (uint32_t *)ct_host_append(&workspace->indices, u->count, sizeof *to);
        if (!to || !ct_host_add(&workspace->position_writes, w)) return NO_MEMORY;
        if (u->kind == CT_UPDATE_INDEXED) {
            memcpy(to, u->indices, 4 * u->count);
        } else {
            for (uint64_t i = 0; i < u->n_indices; i += 2) {
                const uint32_t first = ct_update_index(u, i), n = ct_update_index(u, i + 1);
                for (uint32_t k = 0; k < n; k++) *to++ = first + k;
            }
        }
    }
    workspace->n_rows += u->count;
    return DONE;
}

/* Adds row k of an update for a vertex, unless a later row was added for it before; and for the closing vertex that
 * moves with it. */
static outcome add_row(ct_workspace *workspace, const ct_body *body, const ct_update *u, uint64_t k, uint32_t vertex,
                       uint64_t *written) {
    float p[3];
    ct_update_row(u, k, p);
    if (!is_finite(p, 3)) return NOT_FINITE;
    const uint64_t bit = (uint64_t)1 << vertex % 64;
    if (written[vertex / 64] & bit) return DONE;
    written[vertex / 64] |= bit;
    if (!ct_host_add(&workspace->indices, vertex)) return NO_MEMORY;
    float *rows = (float *)workspace->rows_staging.host;
    memcpy(rows + 3 * workspace->n_rows++, p, sizeof p);
    const uint32_t closing = ct_closing_of(body->mesh, vertex);
    if (closing == UINT32_MAX) return DONE;
    if (!ct_host_add(&workspace->indices, closing)) return NO_MEMORY;
    ct_closing_position(body->mesh, closing - (body->resident->n_vertices - ct_closing_count(body->mesh)), p,
                        rows + 3 * workspace->n_rows++);
    return DONE;
}

/* Everything that a step sends for one body, from the last row to the first, as the last row for a vertex counts. */
static outcome add_any(ct_workspace *workspace, const ct_step *step, const ct_body *body, uint64_t *written) {
    const ct_gpu_position_write w = write_of(workspace, body, 0, (uint32_t)workspace->indices.n);
    for (size_t i = step->n_updates; i-- > 0;) {
        const ct_update *u = &step->updates[i];
        if (u->body != body->id) continue;
        uint64_t k = u->count;
        if (u->kind == CT_UPDATE_RANGES) {
            for (uint64_t r = u->n_indices; r > 0; r -= 2) {
                const uint32_t first = ct_update_index(u, r - 2);
                for (uint32_t j = ct_update_index(u, r - 1); j-- > 0;)
                    if (outcome o = add_row(workspace, body, u, --k, first + j, written)) return o;
            }
        } else {
            while (k-- > 0) {
                const uint32_t vertex = u->kind == CT_UPDATE_INDEXED ? ct_update_index(u, k) : (uint32_t)k;
                if (outcome o = add_row(workspace, body, u, k, vertex, written)) return o;
            }
        }
    }
    return workspace->n_rows == w.first_row || ct_host_add(&workspace->position_writes, w) ? DONE : NO_MEMORY;
}

/* Adds all updates of a body in this step; u is the last of them. The pose that a body has already is not sent. */
static outcome add_body(ct_workspace *workspace, const ct_step *step, ct_body *body, const ct_update *u, bool is_only) {
    if (u->kind == CT_UPDATE_POSE && !memcmp(u->pose, body->given, sizeof body->given) && !body->resident->is_behind)
        return DONE;
    const uint64_t n_vertices = body->resident->n_vertices;
    ct_gpu_box_update update;
    update.body = body->resident->body;
    update.first_chunk = workspace->n_box_chunks;
    update.measures_volume =
        workspace->method->needs_volumes || ct_body_will_measure_volume(body, body->resident->n_triangles);
    update.is_rounded = body->resident->will_be_rounded;
    body->resident->is_only_behind = false;
    if (!ct_host_add(&workspace->box_updates, update) || !ct_host_add(&workspace->moved_bodies, body)) return NO_MEMORY;
    workspace->n_box_chunks += body->resident->n_box_chunks;
    if (u->kind == CT_UPDATE_POSE) {
        ct_gpu_pose_write pose;
        pose.body = body->resident->body;
        ct_pose_from_origin(u->pose, ct_mesh_origin(body->mesh), pose.pose);
        for (int k = 0; k < 3; k++) pose.about[k] = u->pose[4 * k + 3];
        return ct_host_add(&workspace->pose_writes, pose) && ct_host_add(&workspace->posed_bodies, body) ? DONE
                                                                                                         : NO_MEMORY;
    }
    const bool is_whole = u->kind == CT_UPDATE_POSITIONS || !ct_closing_count(body->mesh);
    if (is_only && is_whole && is_rising(u)) return add_rising(workspace, body, u);
    uint64_t *written = (uint64_t *)calloc(n_vertices / 64 + 1, sizeof *written);
    outcome o = written ? add_any(workspace, step, body, written) : NO_MEMORY;
    free(written);
    return o;
}

/* Adds a deformable body whose positions are right, but whose box and volume on the device are not. */
static bool add_box(ct_workspace *workspace, ct_body *body) {
    const ct_gpu_box_update update = {body->resident->body, workspace->n_box_chunks, body->low_reach > 0, 1};
    workspace->n_box_chunks += body->resident->n_box_chunks;
    return ct_host_add(&workspace->box_updates, update) && ct_host_add(&workspace->moved_bodies, body);
}

/* Adds the bodies that are behind, unless they are moved again. */
static outcome add_bodies_behind(ct_workspace *workspace, const ct_step *step) {
    ct_scene_table *table = step->scene->table;
    if (!table || !table->may_be_behind) return DONE;
    table->may_be_behind = false;
    for (uint32_t b = 0; b < step->scene->n_bodies; b++) {
        ct_body *body = step->scene->bodies[b];
        if (!body->resident->is_behind) continue;
        table->may_be_behind = true;
        if (body->resident->updates_left) continue;
        body->resident->will_be_rounded = body->low_reach > 0;
        if (body->kind == CT_BODY_RIGID) {
            ct_update update;
            memset(&update, 0, sizeof update);
            update.kind = CT_UPDATE_POSE;
            memcpy(update.pose, body->given, sizeof update.pose);
            if (outcome o = add_body(workspace, step, body, &update, true)) return o;
        } else if (!add_box(workspace, body)) {
            return NO_MEMORY;
        }
        body->resident->is_only_behind = true;
    }
    return DONE;
}

/* Adds bodies whose volume is older than their positions, unless they are moved again, for EXACT to measure. */
static outcome add_old_volumes(ct_workspace *workspace, const ct_step *step) {
    for (uint32_t b = 0; b < step->scene->n_bodies && workspace->method->needs_volumes; b++) {
        ct_body *body = step->scene->bodies[b];
        if (!body->is_volume_old || body->resident->updates_left || body->resident->is_behind) continue;
        if (!add_box(workspace, body)) return NO_MEMORY;
    }
    return DONE;
}

/* Whether float32 holds not all positions of a body that callers gave, after an update. */
static void note_doubles(const ct_update *u, bool *is_rounded) {
    if (u->kind == CT_UPDATE_POSITIONS) *is_rounded = false;
    if (u->kind != CT_UPDATE_POSE && u->dtype == CT_F64 && !*is_rounded)
        *is_rounded = !ct_are_floats(u->positions, 3 * u->count, 1);
}

static outcome add_updates(ct_workspace *workspace, const ct_step *step) {
    for (size_t i = 0; i < step->n_updates; i++) {
        const ct_update *u = &step->updates[i];
        const ct_body *body = ct_scene_find(step->scene, u->body, NULL);
        ct_resident *resident = body->resident;
        if (resident->updates_left++ == 0) resident->will_be_rounded = body->low_reach > 0;
        resident->last_update = u;
        note_doubles(u, &resident->will_be_rounded);
    }
    outcome o = add_bodies_behind(workspace, step);
    if (!o) o = add_old_volumes(workspace, step);
    for (size_t i = 0; i < step->n_updates && !o; i++) {
        ct_body *body = ct_scene_find(step->scene, step->updates[i].body, NULL);
        ct_resident *resident = body->resident;
        if (resident->updates_left == 0) continue; /* added with the body's first update */
        const bool is_only = resident->updates_left == 1;
        resident->updates_left = 0;
        o = add_body(workspace, step, body, resident->last_update, is_only);
    }
    for (size_t i = 0; i < step->n_updates; i++)
        ct_scene_find(step->scene, step->updates[i].body, NULL)->resident->updates_left = 0;
    return o;
}

/* Adds a scene's table of bodies and ignored pairs, if the device has an older version. */
static bool add_scene_table(ct_device *device, ct_workspace *workspace, ct_scene *scene) {
    const ct_stale_table stale = {scene, workspace->words.n, scene->n_bodies + (uint64_t)scene->n_ignored};
    if (!stale.n || (scene->table && scene->table->version == scene->version)) return true;
    ct_scene_refresh(scene);
    uint64_t *words = (uint64_t *)ct_host_append(&workspace->words, stale.n, sizeof *words);
    if (!words || !ct_host_add(&workspace->stale_tables, stale) || !ct_gpu_reserve_table(device, scene)) return false;
    for (uint32_t i = 0; i < scene->n_bodies; i++) memcpy(words++, &scene->bodies[i]->resident->body, sizeof *words);
    if (scene->n_ignored) memcpy(words, scene->ignored, scene->n_ignored * sizeof *words);
    return true;
}

static bool add_crowd(ct_workspace *workspace, uint32_t n_bodies) {
    ct_gpu_crowd crowd = workspace->crowd_end, *end = &workspace->crowd_end;
    crowd.step = (uint32_t)workspace->steps.n;
    crowd.root_level = 1;
    while (crowd.root_level < CT_BVH_MAX_LEVELS - 1 && ct_bvh_level_size(n_bodies, crowd.root_level) > CT_BVH_MAX_ROOTS)
        crowd.root_level++;
    for (uint32_t i = 0; i <= crowd.root_level; i++) {
        crowd.first_node[i] = end->first_node[0];
        end->first_node[0] += (uint32_t)ct_bvh_level_size(n_bodies, i);
    }
    end->first_run += (n_bodies + CT_SORT_RUN - 1) / CT_SORT_RUN;
    end->first_test_chunk +=
        (uint32_t)ct_bvh_level_size(n_bodies, crowd.root_level) * ((n_bodies + CT_BLOCK - 1) / CT_BLOCK);
    end->first_key += n_bodies;
    return ct_host_add(&workspace->crowds, crowd);
}

static bool add_scene(ct_device *device, ct_workspace *workspace, ct_step *step) {
    ct_scene *scene = step->scene;
    ct_gpu_step s;
    memset(&s, 0, sizeof s);
    s.first_body = workspace->n_bodies;
    s.n_bodies = scene->n_bodies;
    s.n_ignored = (uint32_t)scene->n_ignored;
    s.want = step->want;
    memcpy(s.resolution, scene->settings.resolution, sizeof s.resolution);
    s.n_candidates = 1; /* LDI */
    s.pixel_size = scene->settings.pixel_size;
    s.stiffness = scene->settings.stiffness;
    s.n_half_spaces = scene->n_half_spaces;
    if (!add_scene_table(device, workspace, scene)) return false;
    if (!workspace->method->fill_step(workspace, step, &s)) return false;
    s.bodies = scene->table ? scene->table->memory : NULL;
    if (ct_gpu_is_crowd(&s) && !add_crowd(workspace, s.n_bodies)) return false;
    workspace->n_bodies += s.n_bodies;
    return ct_host_add(&workspace->steps, s) && ct_host_add(&workspace->members, step);
}

/* The most rows that an update sends. */
static uint64_t count_rows(const ct_scene *scene, const ct_update *u) {
    if (u->kind == CT_UPDATE_POSE) return 0;
    const uint64_t n_closing = ct_closing_count(ct_scene_find(scene, u->body, NULL)->mesh);
    return u->count + (u->count < n_closing ? u->count : n_closing);
}

ct_staged ct_gpu_stage(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps,
                       bool updates) {
    const ct_trace_range range("stage updates");
    const list_lengths nothing = {};
    truncate_to(workspace, &nothing);
    uint64_t rows = 0;
    for (size_t i = 0; i < n_steps && updates; i++)
        for (size_t u = 0; u < steps[i]->n_updates; u++) rows += count_rows(steps[i]->scene, &steps[i]->updates[u]);
    if (!ct_gpu_reserve_pinned(device, workspace, &workspace->rows_staging, 12 * rows)) return CT_STAGE_NO_MEMORY;
    for (size_t i = 0; i < n_steps; i++) {
        const list_lengths before = lengths_of(workspace);
        const outcome o = updates ? add_updates(workspace, steps[i]) : DONE;
        if (o == NOT_FINITE) {
            for (size_t u = 0; u < steps[i]->n_updates && !steps[i]->error.status; u++)
                if (steps[i]->updates[u].kind != CT_UPDATE_POSE)
                    ct_update_name_offender(&steps[i]->updates[u], &steps[i]->error);
            truncate_to(workspace, &before);
        } else if (o == NO_MEMORY || !add_scene(device, workspace, steps[i])) {
            return CT_STAGE_NO_MEMORY;
        }
    }
    return workspace->members.n ? CT_STAGED : CT_STAGED_NOTHING;
}

/* Copies a list into the staging memory, at the next multiple of 16 bytes; without `write` it only advances *at.
 * Returns where the list will be on the device. */
template <class T> static const T *put(const ct_host_list *list, ct_workspace *workspace, uint64_t *at, bool write) {
    *at = (*at + 15) / 16 * 16;
    const uint64_t first = *at;
    *at += list->n * sizeof(T);
    if (write && list->n) memcpy((char *)workspace->tables_staging.host + first, list->data, list->n * sizeof(T));
    return write ? (const T *)((const char *)workspace->tables.data + first) : NULL;
}

/* Puts, or finds the length of, a table with the owner of element each * i for every i < n: the last of a list's owners
 * whose first element is not behind it. */
template <class T, class First>
static const uint32_t *put_owners(const ct_host_list *list, ct_workspace *workspace, uint64_t *at, bool write,
                                  uint64_t n, uint64_t each, First first_of) {
    const T *owners = (const T *)list->data;
    *at = (*at + 3) / 4 * 4;
    const uint64_t first = *at;
    *at += n * sizeof(uint32_t);
    if (!write) return NULL;
    uint32_t *to = (uint32_t *)((char *)workspace->tables_staging.host + first);
    for (uint64_t i = 0, owner = 0; i < n; i++) {
        while (owner + 1 < list->n && first_of(&owners[owner + 1]) <= i * each) owner++;
        to[i] = (uint32_t)owner;
    }
    return (const uint32_t *)((const char *)workspace->tables.data + first);
}

static uint64_t put_tables(ct_workspace *workspace, ct_batch *b, bool write) {
    uint64_t at = 0;
    b->steps = put<ct_gpu_step>(&workspace->steps, workspace, &at, write);
    b->crowds = put<ct_gpu_crowd>(&workspace->crowds, workspace, &at, write);
    b->box_updates = put<ct_gpu_box_update>(&workspace->box_updates, workspace, &at, write);
    b->pose_writes = put<ct_gpu_pose_write>(&workspace->pose_writes, workspace, &at, write);
    b->position_writes = put<ct_gpu_position_write>(&workspace->position_writes, workspace, &at, write);
    b->indices = put<uint32_t>(&workspace->indices, workspace, &at, write);
    b->directions = put<ct_gpu_direction>(&workspace->directions, workspace, &at, write);
    b->direction_values = put<double>(&workspace->direction_values, workspace, &at, write);
    b->row_chunk_write = put_owners<ct_gpu_position_write>(&workspace->position_writes, workspace, &at, write,
                                                           (workspace->n_rows + CT_BLOCK - 1) / CT_BLOCK, CT_BLOCK,
                                                           [](const ct_gpu_position_write *w) { return w->first_row; });
    b->box_chunk_update =
        put_owners<ct_gpu_box_update>(&workspace->box_updates, workspace, &at, write, workspace->n_box_chunks, 1,
                                      [](const ct_gpu_box_update *u) { return u->first_chunk; });
    return at;
}

static bool copy(ct_device *device, ct_workspace *workspace, void *to, const void *from, uint64_t bytes) {
    if (!bytes) return true;
    device->uploaded += bytes;
    return ct_gpu_ok(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, workspace->stream),
                     "sending a batch");
}

/* Copies the scene tables that changed from the staging memory, from byte `at` on, to their places on the device. */
static bool copy_scene_tables(ct_device *device, ct_workspace *workspace, uint64_t at) {
    const ct_stale_table *stale = (const ct_stale_table *)workspace->stale_tables.data;
    uint64_t *words = (uint64_t *)((char *)workspace->tables_staging.host + at);
    if (workspace->words.n) memcpy(words, workspace->words.data, 8 * workspace->words.n);
    for (uint64_t i = 0; i < workspace->stale_tables.n; i++) {
        ct_scene *scene = stale[i].scene;
        if (!copy(device, workspace, scene->table->memory, words + stale[i].first, 8 * stale[i].n)) return false;
        scene->table->version = scene->version;
    }
    return true;
}

bool ct_gpu_send(ct_device *device, ct_workspace *workspace, ct_batch *b) {
    const uint64_t bytes = put_tables(workspace, b, false), words_at = (bytes + 7) / 8 * 8;
    if (!ct_gpu_reserve_pinned(device, workspace, &workspace->tables_staging, words_at + 8 * workspace->words.n) ||
        !ct_gpu_reserve(device, workspace, &workspace->tables, bytes) ||
        !ct_gpu_reserve(device, workspace, &workspace->rows, 12 * workspace->n_rows))
        return false;
    put_tables(workspace, b, true);
    b->rows = (const float *)workspace->rows.data;
    b->n_rows = workspace->n_rows;
    b->n_box_chunks = workspace->n_box_chunks;
    b->n_steps = (uint32_t)workspace->steps.n;
    b->finds_second = b->finds_pieces = b->finds_own = b->splits_sides = b->finds_cells = false;
    b->most_keys = 0;
    for (uint32_t i = 0; i < b->n_steps; i++) {
        const ct_gpu_step *step = (const ct_gpu_step *)workspace->steps.data + i;
        b->finds_second |= step->wants_second != 0;
        b->finds_pieces |= step->wants_patches != 0;
        b->finds_cells |= step->cell_size > 0;
        if (ct_gpu_is_crowd(step) && step->n_bodies > b->most_keys) b->most_keys = step->n_bodies;
        const bool has_own = ((ct_step **)workspace->members.data)[i]->scene->n_self > 0;
        b->finds_own |= has_own;
        b->splits_sides |= has_own && step->want;
    }
    b->n_bodies = workspace->n_bodies;
    b->n_box_updates = (uint32_t)workspace->box_updates.n;
    b->n_pose_writes = (uint32_t)workspace->pose_writes.n;
    b->n_position_writes = (uint32_t)workspace->position_writes.n;
    b->n_crowds = (uint32_t)workspace->crowds.n;
    b->n_runs = workspace->crowd_end.first_run;
    b->n_keys = workspace->crowd_end.first_key;
    b->n_test_chunks = workspace->crowd_end.first_test_chunk;
    b->n_nodes = workspace->crowd_end.first_node[0];
    return copy_scene_tables(device, workspace, words_at) &&
           copy(device, workspace, workspace->tables.data, workspace->tables_staging.host, bytes) &&
           copy(device, workspace, workspace->rows.data, workspace->rows_staging.host, 12 * workspace->n_rows);
}
