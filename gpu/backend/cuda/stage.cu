/* stage.cu - what a batch sends to its device, put together in pinned memory: a line for each scene, and of lists of
 * bodies, positions and poses what changed. Numbers are looked at on the way, so a step that sends one that is not
 * finite is refused before anything of it has left the host. */
#include "gpu/backend/cuda/device.cuh"

extern "C" {
#include "gpu/scene/rows.h"
}

/* Where the lists end: a step that is refused is taken out again. */
struct mark {
    uint64_t steps, crowds, box_updates, pose_writes, position_writes, indices, moved_bodies, posed_bodies, members,
        words, stale_tables, rows, chunks;
    uint32_t bodies;
    ct_gpu_crowd crowd_end;
};

static mark mark_of(const ct_workspace *l) {
    return {l->steps.n,        l->crowds.n,       l->box_updates.n,  l->pose_writes.n, l->position_writes.n,
            l->indices.n,      l->moved_bodies.n, l->posed_bodies.n, l->members.n,     l->words.n,
            l->stale_tables.n, l->n_rows,         l->n_box_chunks,   l->n_bodies,      l->crowd_end};
}

static void back_to(ct_workspace *l, const mark *m) {
    l->steps.n = m->steps;
    l->crowds.n = m->crowds;
    l->box_updates.n = m->box_updates;
    l->pose_writes.n = m->pose_writes;
    l->position_writes.n = m->position_writes;
    l->indices.n = m->indices;
    l->moved_bodies.n = m->moved_bodies;
    l->posed_bodies.n = m->posed_bodies;
    l->members.n = m->members;
    l->words.n = m->words;
    l->stale_tables.n = m->stale_tables;
    l->n_rows = m->rows;
    l->n_box_chunks = m->chunks;
    l->n_bodies = m->bodies;
    l->crowd_end = m->crowd_end;
}

template <class T> static bool add(ct_host_list *list, const T &value) {
    void *at = ct_host_add(list, 1, sizeof value);
    if (at) memcpy(at, &value, sizeof value);
    return at;
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

/* All rows of an update, one after the other; false: a number is not finite. A block stays in the cache between being
 * copied and being looked at. */
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

/* No vertex twice, told from the order. */
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

/* What came of putting an update into the lists. */
enum outcome { DONE, NOT_FINITE, NO_MEMORY };

static float *positions_of(const ct_body *body) {
    return (float *)(body->resident->body + 1);
}

/* Vertices in rising order. Ranges of a few vertices each are sent as indices, which are fewer bytes. */
static outcome add_rising(ct_workspace *l, const ct_body *body, const ct_update *u) {
    float *rows = (float *)l->rows_staging.host + 3 * l->n_rows;
    if (!copy_rows(rows, u)) return NOT_FINITE;
    if (u->count == 0) return DONE;
    ct_gpu_position_write w = {positions_of(body), l->n_rows, 0, CT_GPU_NONE};
    const bool by_range = u->kind == CT_UPDATE_RANGES && u->count >= 8 * (u->n_indices / 2);
    if (u->kind == CT_UPDATE_POSITIONS) {
        if (!add(&l->position_writes, w)) return NO_MEMORY;
    } else if (by_range) {
        for (uint64_t i = 0; i < u->n_indices; i += 2) {
            const uint32_t n = ct_update_index(u, i + 1);
            w.first_vertex = ct_update_index(u, i);
            if (n && !add(&l->position_writes, w)) return NO_MEMORY;
            w.first_row += n;
        }
    } else {
        w.first_index = (uint32_t)l->indices.n;
        uint32_t *to = (uint32_t *)ct_host_add(&l->indices, u->count, sizeof *to);
        if (!to || !add(&l->position_writes, w)) return NO_MEMORY;
        if (u->kind == CT_UPDATE_INDEXED) {
            memcpy(to, u->indices, 4 * u->count);
        } else {
            for (uint64_t i = 0; i < u->n_indices; i += 2) {
                const uint32_t first = ct_update_index(u, i), n = ct_update_index(u, i + 1);
                for (uint32_t k = 0; k < n; k++) *to++ = first + k;
            }
        }
    }
    l->n_rows += u->count;
    return DONE;
}

/* Takes row k of an update for a vertex, unless a later one has it already. */
static outcome add_row(ct_workspace *l, const ct_update *u, uint64_t k, uint32_t vertex, uint64_t *taken) {
    float p[3];
    ct_update_row(u, k, p);
    if (!is_finite(p, 3)) return NOT_FINITE;
    const uint64_t bit = (uint64_t)1 << vertex % 64;
    if (taken[vertex / 64] & bit) return DONE;
    taken[vertex / 64] |= bit;
    if (!add(&l->indices, vertex)) return NO_MEMORY;
    memcpy((float *)l->rows_staging.host + 3 * l->n_rows++, p, sizeof p);
    return DONE;
}

/* All that a step sends of one body, from its last number to the first: what comes later counts. */
static outcome add_any(ct_workspace *l, const ct_step *step, const ct_body *body, uint64_t *taken) {
    ct_gpu_position_write w = {positions_of(body), l->n_rows, 0, (uint32_t)l->indices.n};
    for (size_t i = step->n_updates; i-- > 0;) {
        const ct_update *u = &step->updates[i];
        if (u->body != body->id) continue;
        uint64_t k = u->count;
        if (u->kind == CT_UPDATE_RANGES) {
            for (uint64_t r = u->n_indices; r > 0; r -= 2) {
                const uint32_t first = ct_update_index(u, r - 2);
                for (uint32_t j = ct_update_index(u, r - 1); j-- > 0;)
                    if (outcome o = add_row(l, u, --k, first + j, taken)) return o;
            }
        } else {
            while (k-- > 0) {
                const uint32_t vertex = u->kind == CT_UPDATE_INDEXED ? ct_update_index(u, k) : (uint32_t)k;
                if (outcome o = add_row(l, u, k, vertex, taken)) return o;
            }
        }
    }
    return l->n_rows == w.first_row || add(&l->position_writes, w) ? DONE : NO_MEMORY;
}

/* The last of a body's updates in this step has come. */
static outcome add_body(ct_workspace *l, const ct_step *step, ct_body *body, const ct_update *u, bool is_only) {
    ct_mesh_info info;
    ct_mesh_get_info(body->mesh, &info);
    ct_gpu_box_update update = {body->resident->body, l->n_box_chunks};
    if (!add(&l->box_updates, update) || !add(&l->moved_bodies, body)) return NO_MEMORY;
    l->n_box_chunks += (info.vertices + CT_BOX_CHUNK - 1) / CT_BOX_CHUNK;
    if (u->kind == CT_UPDATE_POSE) {
        ct_gpu_pose_write pose;
        pose.body = body->resident->body;
        memcpy(pose.pose, u->pose, sizeof pose.pose);
        return add(&l->pose_writes, pose) && add(&l->posed_bodies, body) ? DONE : NO_MEMORY;
    }
    if (is_only && is_rising(u)) return add_rising(l, body, u);
    uint64_t *taken = (uint64_t *)calloc(info.vertices / 64 + 1, sizeof *taken);
    outcome o = taken ? add_any(l, step, body, taken) : NO_MEMORY;
    free(taken);
    return o;
}

static outcome add_updates(ct_workspace *l, const ct_step *step) {
    for (size_t i = 0; i < step->n_updates; i++)
        ct_scene_find(step->scene, step->updates[i].body, NULL)->updates_left++;
    outcome o = DONE;
    for (size_t i = 0; i < step->n_updates && !o; i++) {
        const ct_update *u = &step->updates[i];
        ct_body *body = ct_scene_find(step->scene, u->body, NULL);
        if (body->updates_left == 0) continue; /* taken with an earlier one */
        const bool is_only = body->updates_left == 1;
        body->updates_left = 0;
        const ct_update *last = u;
        for (size_t k = i; k < step->n_updates; k++)
            if (step->updates[k].body == u->body) last = &step->updates[k];
        o = add_body(l, step, body, last, is_only);
    }
    for (size_t i = 0; i < step->n_updates; i++)
        ct_scene_find(step->scene, step->updates[i].body, NULL)->updates_left = 0;
    return o;
}

/* Bodies and ignored pairs, if the device has others of this scene. */
static bool add_table(ct_device *device, ct_workspace *l, ct_scene *scene) {
    const ct_stale_table stale = {scene, l->words.n, scene->n_bodies + (uint64_t)scene->n_ignored};
    if (!stale.n || (scene->table && scene->table->version == scene->version)) return true;
    ct_scene_refresh(scene);
    uint64_t *words = (uint64_t *)ct_host_add(&l->words, stale.n, sizeof *words);
    if (!words || !add(&l->stale_tables, stale) || !ct_gpu_reserve_table(device, scene)) return false;
    for (uint32_t i = 0; i < scene->n_bodies; i++) memcpy(words++, &scene->bodies[i]->resident->body, sizeof *words);
    if (scene->n_ignored) memcpy(words, scene->ignored, scene->n_ignored * sizeof *words);
    return true;
}

static bool add_crowd(ct_workspace *l, uint32_t n_bodies) {
    ct_gpu_crowd crowd = l->crowd_end, *end = &l->crowd_end;
    crowd.step = (uint32_t)l->steps.n;
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
    return add(&l->crowds, crowd);
}

static bool add_scene(ct_device *device, ct_workspace *l, ct_step *step) {
    ct_scene *scene = step->scene;
    ct_gpu_step s;
    memset(&s, 0, sizeof s);
    s.first_body = l->n_bodies;
    s.n_bodies = scene->n_bodies;
    s.n_ignored = (uint32_t)scene->n_ignored;
    s.want = step->want;
    memcpy(s.resolution, scene->settings.resolution, sizeof s.resolution);
    s.n_candidates = 1; /* LDI */
    s.pixel_size = scene->settings.pixel_size;
    s.stiffness = scene->settings.stiffness;
    if (!add_table(device, l, scene)) return false;
    s.bodies = scene->table ? scene->table->memory : NULL;
    if (ct_gpu_is_crowd(&s) && !add_crowd(l, s.n_bodies)) return false;
    l->n_bodies += s.n_bodies;
    return add(&l->steps, s) && add(&l->members, step);
}

ct_staged ct_gpu_stage(ct_device *device, ct_workspace *l, ct_step *const *steps, size_t n_steps, bool updates) {
    const mark nothing = {};
    back_to(l, &nothing);
    uint64_t rows = 0;
    for (size_t i = 0; i < n_steps && updates; i++)
        for (size_t u = 0; u < steps[i]->n_updates; u++)
            if (steps[i]->updates[u].kind != CT_UPDATE_POSE) rows += steps[i]->updates[u].count;
    if (!ct_gpu_reserve_pinned(device, &l->rows_staging, 12 * rows)) return CT_STAGE_NO_MEMORY;
    for (size_t i = 0; i < n_steps; i++) {
        const mark before = mark_of(l);
        const outcome o = updates ? add_updates(l, steps[i]) : DONE;
        if (o == NOT_FINITE) {
            for (size_t u = 0; u < steps[i]->n_updates && !steps[i]->error.status; u++)
                if (steps[i]->updates[u].kind != CT_UPDATE_POSE)
                    ct_update_name_offender(&steps[i]->updates[u], &steps[i]->error);
            back_to(l, &before);
        } else if (o == NO_MEMORY || !add_scene(device, l, steps[i])) {
            return CT_STAGE_NO_MEMORY;
        }
    }
    return l->members.n ? CT_STAGED : CT_STAGED_NOTHING;
}

/* Puts a list into the tables' staging memory, or finds how long they get. */
template <class T> static const T *put(const ct_host_list *list, ct_workspace *l, uint64_t *at, bool write) {
    *at = (*at + 15) / 16 * 16;
    const uint64_t first = *at;
    *at += list->n * sizeof(T);
    if (write && list->n) memcpy((char *)l->tables_staging.host + first, list->data, list->n * sizeof(T));
    return write ? (const T *)((const char *)l->tables.data + first) : NULL;
}

/* Puts, or finds the length of, a table with the owner of element each * i for every i < n: the last of a list's owners
 * whose first element is not behind it. */
template <class T, class First>
static const uint32_t *put_owners(const ct_host_list *list, ct_workspace *l, uint64_t *at, bool write, uint64_t n,
                                  uint64_t each, First first_of) {
    const T *owners = (const T *)list->data;
    *at = (*at + 3) / 4 * 4;
    const uint64_t first = *at;
    *at += n * sizeof(uint32_t);
    if (!write) return NULL;
    uint32_t *to = (uint32_t *)((char *)l->tables_staging.host + first);
    for (uint64_t i = 0, owner = 0; i < n; i++) {
        while (owner + 1 < list->n && first_of(&owners[owner + 1]) <= i * each) owner++;
        to[i] = (uint32_t)owner;
    }
    return (const uint32_t *)((const char *)l->tables.data + first);
}

static uint64_t put_tables(ct_workspace *l, ct_batch *b, bool write) {
    uint64_t at = 0;
    b->steps = put<ct_gpu_step>(&l->steps, l, &at, write);
    b->crowds = put<ct_gpu_crowd>(&l->crowds, l, &at, write);
    b->box_updates = put<ct_gpu_box_update>(&l->box_updates, l, &at, write);
    b->pose_writes = put<ct_gpu_pose_write>(&l->pose_writes, l, &at, write);
    b->position_writes = put<ct_gpu_position_write>(&l->position_writes, l, &at, write);
    b->indices = put<uint32_t>(&l->indices, l, &at, write);
    b->row_chunk_write =
        put_owners<ct_gpu_position_write>(&l->position_writes, l, &at, write, (l->n_rows + CT_BLOCK - 1) / CT_BLOCK,
                                          CT_BLOCK, [](const ct_gpu_position_write *w) { return w->first_row; });
    b->box_chunk_update = put_owners<ct_gpu_box_update>(&l->box_updates, l, &at, write, l->n_box_chunks, 1,
                                                        [](const ct_gpu_box_update *u) { return u->first_chunk; });
    return at;
}

static bool copy(ct_device *device, ct_workspace *l, void *to, const void *from, uint64_t bytes) {
    if (!bytes) return true;
    device->uploaded += bytes;
    return ct_gpu_ok(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, l->stream), "sending a batch");
}

/* Each straight to where it stays, from so many bytes into the staging memory on. */
static bool copy_scene_tables(ct_device *device, ct_workspace *l, uint64_t at) {
    const ct_stale_table *stale = (const ct_stale_table *)l->stale_tables.data;
    uint64_t *words = (uint64_t *)((char *)l->tables_staging.host + at);
    if (l->words.n) memcpy(words, l->words.data, 8 * l->words.n);
    for (uint64_t i = 0; i < l->stale_tables.n; i++) {
        ct_scene *scene = stale[i].scene;
        if (!copy(device, l, scene->table->memory, words + stale[i].first, 8 * stale[i].n)) return false;
        scene->table->version = scene->version;
    }
    return true;
}

bool ct_gpu_send(ct_device *device, ct_workspace *l, ct_batch *b) {
    const uint64_t bytes = put_tables(l, b, false), fresh_at = (bytes + 7) / 8 * 8;
    if (!ct_gpu_reserve_pinned(device, &l->tables_staging, fresh_at + 8 * l->words.n) ||
        !ct_gpu_reserve(device, l, &l->tables, bytes) || !ct_gpu_reserve(device, l, &l->rows, 12 * l->n_rows))
        return false;
    put_tables(l, b, true);
    b->rows = (const float *)l->rows.data;
    b->n_rows = l->n_rows;
    b->n_box_chunks = l->n_box_chunks;
    b->n_steps = (uint32_t)l->steps.n;
    b->n_bodies = l->n_bodies;
    b->n_box_updates = (uint32_t)l->box_updates.n;
    b->n_pose_writes = (uint32_t)l->pose_writes.n;
    b->n_position_writes = (uint32_t)l->position_writes.n;
    b->n_crowds = (uint32_t)l->crowds.n;
    b->n_runs = l->crowd_end.first_run;
    b->n_keys = l->crowd_end.first_key;
    b->n_test_chunks = l->crowd_end.first_test_chunk;
    b->n_nodes = l->crowd_end.first_node[0];
    return copy_scene_tables(device, l, fresh_at) && copy(device, l, l->tables.data, l->tables_staging.host, bytes) &&
           copy(device, l, l->rows.data, l->rows_staging.host, 12 * l->n_rows);
}
