/* run.cu - a batch on a lane: sends it, launches all that computes it, waits once. Where a list was too short it makes
 * room and computes again; where there is no room to be had it takes the batch in parts, so that one scene's need fails
 * no other. */
#include "gpu/backend/cuda/interop.cuh"

/* ---- lanes ---- */

static ct_lane *take_lane(ct_device *device) {
    ct_guard guard(device);
    for (;;) {
        for (ct_lane &lane : device->lanes)
            if (!lane.busy) {
                lane.busy = true;
                return &lane;
            }
        pthread_cond_wait(&device->lane_free, &device->mutex);
    }
}

static void give_lane(ct_device *device, ct_lane *lane) {
    ct_guard guard(device);
    lane->busy = false;
    pthread_cond_broadcast(&device->lane_free);
}

/* Gives the lane up and comes back with it when no other runs; they keep nothing. */
static void take_all(ct_device *device, ct_lane *lane) {
    ct_guard guard(device);
    lane->busy = false;
    pthread_cond_broadcast(&device->lane_free);
    for (;;) {
        bool any = false;
        for (const ct_lane &other : device->lanes) any = any || other.busy;
        if (!any) break;
        pthread_cond_wait(&device->lane_free, &device->mutex);
    }
    for (ct_lane &other : device->lanes) {
        other.busy = true;
        ct_gpu_free_scratch(device, &other);
    }
}

static void give_others(ct_device *device, const ct_lane *lane) {
    ct_guard guard(device);
    for (ct_lane &other : device->lanes)
        if (&other != lane) other.busy = false;
    pthread_cond_broadcast(&device->lane_free);
}

/* ---- room ---- */

/* Bytes of a pair in its tables, and of a fragment, an entry, a chunk of vertices in theirs. */
enum : uint64_t {
    PAIR_BYTES = sizeof(ct_gpu_pair) + 2 * sizeof(ct_gpu_side) + sizeof(ct_gpu_draft) + 11 * sizeof(uint64_t),
    FRAGMENT_BYTES = sizeof(ct_fragment) + sizeof(uint32_t),
    ENTRY_BYTES = sizeof(int64_t[3]) + sizeof(uint32_t),
    CHUNK_BYTES = sizeof(uint64_t) + sizeof(uint32_t),
    CHUNK_PAGES_BYTES = CT_CHUNK_PAGES * sizeof(uint32_t),
    PAGE_BYTES = CT_PAGE * sizeof(int64_t[3]),
    SLACK = 256, /* each table is one longer than its list, and aligned */
};

static uint64_t fits(uint64_t bytes, uint64_t each) {
    return bytes > SLACK ? (bytes - SLACK) / each : 0;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

template <class T> static T *carve(char **at, uint64_t n) {
    T *first = (T *)*at;
    *at += n * sizeof(T);
    return first;
}

/* Tells the batch where everything is and how much of it there is room for. */
static void lay_out(ct_lane *lane, ct_batch *b) {
    ct_gpu_room *room = &lane->room;
    room->pairs = fits(lane->pairs.bytes, PAIR_BYTES);
    room->rays = lane->rays.bytes / sizeof(ct_gpu_ray);
    room->vertex_chunks = smaller(fits(lane->chunks.bytes, CHUNK_BYTES), lane->page_table.bytes / CHUNK_PAGES_BYTES);
    room->pages = lane->pages.bytes / PAGE_BYTES;
    room->fragments = smaller(lane->fragments.bytes / FRAGMENT_BYTES, UINT32_MAX - 1);
    room->large = lane->large.bytes / sizeof(ct_gpu_large);
    room->entries = smaller(lane->entries.bytes, lane->out_entries.bytes) / ENTRY_BYTES;
    room->contacts = lane->found.bytes / sizeof(ct_gpu_found);
    room->spans = lane->spans.bytes / sizeof(ct_gpu_span);
    if (lane->gl) ct_gpu_gl_limit(lane, room);
    b->room = *room;

    char *at = (char *)lane->pairs.data;
    const uint64_t n = room->pairs;
    b->sides = carve<ct_gpu_side>(&at, 2 * n);
    b->pairs = carve<ct_gpu_pair>(&at, n);
    b->triangle_chunk = carve<uint64_t>(&at, 2 * n + 1);
    b->vertex_chunk = carve<uint64_t>(&at, 2 * n + 1);
    b->ray_chunk = carve<uint64_t>(&at, 3 * n + 1);
    b->ray = carve<uint64_t>(&at, 3 * n + 1);
    b->contact = carve<uint64_t>(&at, n + 1);
    b->drafts = carve<ct_gpu_draft>(&at, n);
    b->rays = (ct_gpu_ray *)lane->rays.data;
    b->page = (uint32_t *)lane->page_table.data;
    b->sums_of = (int64_t *)lane->pages.data;
    at = (char *)lane->chunks.data;
    b->chunk_first = carve<uint64_t>(&at, room->vertex_chunks + 1);
    b->chunk_count = carve<uint32_t>(&at, room->vertex_chunks);
    at = (char *)lane->fragments.data;
    b->fragments = carve<ct_fragment>(&at, room->fragments);
    b->next = carve<uint32_t>(&at, room->fragments);
    b->large = (ct_gpu_large *)lane->large.data;
    at = (char *)lane->entries.data;
    b->sums = carve<int64_t>(&at, 3 * room->entries);
    b->vertices = carve<uint32_t>(&at, room->entries);

    at = (char *)lane->small.data;
    b->shards = carve<ct_gpu_shard>(&at, CT_SHARDS);
    b->counts = carve<ct_gpu_counts>(&at, 1);
    b->step_fragments = carve<uint64_t>(&at, b->n_steps);
    b->step_tests = carve<uint64_t>(&at, b->n_steps);
    b->bodies = carve<ct_gpu_body *>(&at, b->n_bodies);
    b->keys = carve<uint64_t>(&at, b->n_keys);
    b->nodes = carve<ct_gpu_node>(&at, b->n_nodes);
    b->row_first = carve<uint64_t>(&at, (uint64_t)b->n_bodies + 1);
    b->step_refused = carve<uint32_t>(&at, b->n_steps);
    b->row_count = carve<uint32_t>(&at, b->n_bodies);

    at = (char *)lane->head.device;
    b->out_counts = carve<ct_gpu_counts>(&at, 1);
    b->out_shares = carve<ct_gpu_share>(&at, b->n_steps);
    b->out_boxes = carve<ct_box>(&at, b->n_boxed);
    b->out_found = (ct_gpu_found *)lane->found.device;
    at = (char *)lane->out_entries.device;
    b->out_sums = carve<int64_t>(&at, 3 * room->entries);
    b->out_vertices = carve<uint32_t>(&at, room->entries);
    b->out_spans = (ct_gpu_span *)lane->spans.device;
}

static uint64_t small_bytes(const ct_batch *b) {
    return CT_SHARDS * sizeof(ct_gpu_shard) + sizeof(ct_gpu_counts) +
           b->n_steps * (2 * sizeof(uint64_t) + sizeof(uint32_t)) +
           b->n_bodies * (sizeof(uint64_t) + sizeof(ct_gpu_body *) + sizeof(uint32_t)) + b->n_keys * sizeof(uint64_t) +
           b->n_nodes * sizeof(ct_gpu_node) + SLACK;
}

/* Tables that are one longer than their lists are there even where there is no pair. */
static bool reserve_known(ct_device *device, ct_lane *lane, const ct_batch *b) {
    return (!lane->gl || ct_gpu_gl_reserve(device, lane)) &&
           ct_gpu_reserve(device, lane, &lane->small, small_bytes(b)) &&
           ct_gpu_reserve(device, lane, &lane->pairs, SLACK) && ct_gpu_reserve(device, lane, &lane->chunks, SLACK) &&
           ct_gpu_reserve_pinned(device, &lane->head,
                                 sizeof(ct_gpu_counts) + b->n_steps * sizeof(ct_gpu_share) +
                                     b->n_boxed * sizeof(ct_box));
}

static bool grow(ct_device *device, ct_lane *lane, ct_gpu_buffer *buffer, uint64_t bytes, const char *what,
                 ct_gpu_need *n) {
    n->what = what;
    n->bytes = bytes;
    return ct_gpu_reserve(device, lane, buffer, bytes);
}

static bool grow_pinned(ct_device *device, ct_gpu_pinned *pinned, uint64_t bytes, const char *what, ct_gpu_need *n) {
    n->what = what;
    n->bytes = bytes;
    return ct_gpu_reserve_pinned(device, pinned, bytes);
}

static bool make_room(ct_device *device, ct_lane *lane, const ct_gpu_counts *c, uint32_t lack, ct_gpu_need *n) {
    if (c->fragments >= UINT32_MAX - 1) {
        n->what = "more than 2^32 ray crossings";
        n->bytes = c->fragments * FRAGMENT_BYTES;
        return false;
    }
    bool ok = true;
    if (lack & CT_LACK_PAIRS) ok = ok && grow(device, lane, &lane->pairs, c->pairs * PAIR_BYTES + SLACK, "pairs", n);
    if (lack & CT_LACK_RAYS) ok = ok && grow(device, lane, &lane->rays, c->rays * sizeof(ct_gpu_ray), "rays", n);
    if (lack & CT_LACK_CHUNKS)
        ok = ok && grow(device, lane, &lane->chunks, c->vertex_chunks * CHUNK_BYTES + SLACK, "vertices", n) &&
             grow(device, lane, &lane->page_table, c->vertex_chunks * CHUNK_PAGES_BYTES, "vertices", n);
    if (lack & CT_LACK_PAGES) ok = ok && grow(device, lane, &lane->pages, c->pages * PAGE_BYTES, "sums of vertices", n);
    if (lack & CT_LACK_FRAGMENTS)
        ok = ok && grow(device, lane, &lane->fragments, c->fragments * FRAGMENT_BYTES, "ray crossings", n);
    if (lack & CT_LACK_LARGE)
        ok = ok &&
             grow(device, lane, &lane->large, (c->large >> CT_TILE_BITS) * sizeof(ct_gpu_large), "large triangles", n);
    if (lack & CT_LACK_ENTRIES)
        ok = ok && grow(device, lane, &lane->entries, c->entries * ENTRY_BYTES, "the sparse gradient", n) &&
             grow_pinned(device, &lane->out_entries, c->entries * ENTRY_BYTES, "the sparse gradient on the host", n);
    if (lack & CT_LACK_CONTACTS)
        ok = ok && grow_pinned(device, &lane->found, c->contacts * sizeof(ct_gpu_found), "contacts on the host", n);
    if (lack & CT_LACK_SPANS)
        ok = ok && grow_pinned(device, &lane->spans, c->spans * sizeof(ct_gpu_span), "spans on the host", n);
    return ok && (!lane->gl || ct_gpu_gl_make_room(device, lane, c, lack, n));
}

/* ---- computing ---- */

static bool stamp(ct_device *device, ct_lane *lane, int event) {
    return ct_gpu_ok(device, cudaEventRecord(lane->events[event], lane->stream), "taking the time");
}

static bool clear(ct_device *device, ct_lane *lane, void *memory, uint64_t bytes) {
    return !bytes || ct_gpu_ok(device, cudaMemsetAsync(memory, 0, bytes, lane->stream), "clearing memory");
}

/* Rays, sums of vertices and the table of their pages are left as they were found: all zero. But not by a batch that
 * was cut short, and not in memory that is new. */
static bool clear_scratch(ct_device *device, ct_lane *lane) {
    return clear(device, lane, lane->rays.data, lane->rays.bytes) &&
           clear(device, lane, lane->page_table.data, lane->page_table.bytes) &&
           clear(device, lane, lane->pages.data, lane->pages.bytes);
}

static bool launch(ct_device *device, ct_lane *lane, const ct_batch *b) {
    unsigned n = 0;
    bool ok = clear(device, lane, lane->small.data,
                    CT_SHARDS * sizeof(ct_gpu_shard) + sizeof(ct_gpu_counts) + 2 * b->n_steps * sizeof(uint64_t)) &&
              clear(device, lane, b->step_refused, b->n_steps * sizeof(uint32_t));
    n += ct_cuda_crowds(b, device->grid, lane->stream);
    n += ct_cuda_pairs(b, device->grid, lane->stream);
    ok = ok && stamp(device, lane, 2);
    if (lane->gl)
        ok = ok && ct_gpu_gl_draw(device, lane, b, &n);
    else
        n += ct_cuda_raster(b, device->grid, lane->stream);
    ok = ok && stamp(device, lane, 3);
    n += ct_cuda_spans(b, device->grid, lane->stream);
    ok = ok && stamp(device, lane, 4);
    n += ct_cuda_answer(b, device->grid, lane->stream);
    ok = ok && stamp(device, lane, 5);
    device->launches += n;
    return ok && ct_gpu_ok(device, cudaGetLastError(), "launching kernels");
}

static bool wait(ct_device *device, ct_lane *lane) {
    return ct_gpu_ok(device, cudaStreamSynchronize(lane->stream), "computing a batch");
}

/* The state on the host follows that on the device. */
static void note_applied(ct_device *device, ct_lane *lane, const ct_batch *b) {
    ct_body **boxed = (ct_body **)lane->boxed_bodies.data, **posed = (ct_body **)lane->pose_bodies.data;
    const ct_box *boxes =
        (const ct_box *)((const char *)lane->head.host + sizeof(ct_gpu_counts) + b->n_steps * sizeof(ct_gpu_share));
    const ct_gpu_pose *poses = (const ct_gpu_pose *)lane->poses.data;
    for (uint32_t i = 0; i < b->n_boxed; i++) boxed[i]->box = boxes[i];
    for (uint32_t i = 0; i < b->n_poses; i++) memcpy(posed[i]->pose, poses[i].pose, sizeof poses[i].pose);
    device->downloaded += b->n_boxed * sizeof(ct_box);
}

/* True: the lane has what answers are made of. `applied`: what the steps send is in place. */
static bool compute(ct_device *device, ct_lane *lane, ct_batch *b, bool *applied, ct_gpu_need *n) {
    n->what = "what it sends";
    n->bytes = lane->tables_staging.bytes + lane->rows_staging.bytes;
    if (!stamp(device, lane, 0) || !ct_gpu_send(device, lane, b) || !reserve_known(device, lane, b)) return false;
    lay_out(lane, b);
    if (b->n_boxed) device->launches += ct_cuda_apply(b, device->grid, lane->stream);
    if (!stamp(device, lane, 1) || (!lane->is_clean && !clear_scratch(device, lane))) return false;
    lane->is_clean = false;
    for (;;) {
        if (!launch(device, lane, b) || !wait(device, lane)) return false;
        const ct_gpu_counts *counts = (const ct_gpu_counts *)lane->head.host;
        if (!*applied) note_applied(device, lane, b);
        *applied = true;
        const uint32_t lack = ct_gpu_lack(counts, &lane->room);
        if (!lack) break;
        device->reruns++;
        if (!make_room(device, lane, counts, lack, n) || !clear_scratch(device, lane)) return false;
        lay_out(lane, b);
    }
    lane->is_clean = true;
    return true;
}

/* ---- a batch ---- */

static void fail_all(ct_device *device, ct_step *const *steps, size_t n_steps) {
    for (size_t i = 0; i < n_steps; i++)
        if (!steps[i]->error.status) ct_gpu_lost(device, &steps[i]->error);
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
            "%s need %llu bytes of working memory for %s, but %llu of the device's budget of %llu are in use: use a "
            "lower resolution or a larger pixel_size, or raise the budget",
            whose, (unsigned long long)n->bytes, n->what, (unsigned long long)device->used,
            (unsigned long long)device->limit);
}

static void run_part(ct_device *device, ct_lane *lane, ct_step *const *steps, size_t n_steps, bool applied,
                     bool alone) {
    ct_gpu_need n = {"its tables", 0, 0};
    ct_batch batch;
    memset(&batch, 0, sizeof batch);
    const ct_staged staged = ct_gpu_stage(device, lane, steps, n_steps, !applied);
    if (staged == CT_STAGED_NOTHING) return;
    if (staged == CT_STAGED && compute(device, lane, &batch, &applied, &n)) {
        ct_gpu_answer(device, lane, &batch);
        return;
    }
    wait(device, lane); /* nothing of it is left behind */
    if (device->lost) {
        fail_all(device, steps, n_steps);
        return;
    }
    /* Those that were refused are done with. */
    ct_step **left = (ct_step **)malloc(n_steps * sizeof *left);
    size_t n_left = 0;
    for (size_t i = 0; left && i < n_steps; i++)
        if (!steps[i]->error.status) left[n_left++] = steps[i];
    if (!left) {
        for (size_t i = 0; i < n_steps; i++)
            ct_fail(&steps[i]->error, CT_OUT_OF_MEMORY, "", "no memory for a batch of %zu steps", n_steps);
    } else if (n_left > 1) {
        run_part(device, lane, left, n_left / 2, applied, alone);
        run_part(device, lane, left + n_left / 2, n_left - n_left / 2, applied, alone);
    } else if (n_left == 1 && !alone) {
        /* What it lacked may be what others work with or keep: it gets all there is. */
        take_all(device, lane);
        run_part(device, lane, left, 1, applied, true);
        give_others(device, lane);
    } else if (n_left == 1) {
        fail_one(device, left[0], &n);
    }
    free(left);
}

void ct_gpu_run(ct_device *device, ct_step *steps, size_t n_steps) {
    ct_step **live = (ct_step **)malloc((n_steps ? n_steps : 1) * sizeof *live);
    size_t n = 0;
    for (size_t i = 0; i < n_steps; i++) {
        if (steps[i].error.status) continue;
        if (live)
            live[n++] = &steps[i];
        else
            ct_fail(&steps[i].error, CT_OUT_OF_MEMORY, "", "no memory for a batch of %zu steps", n_steps);
    }
    if (n) {
        ct_lane *lane = take_lane(device);
        if (device->lost || !ct_gpu_ok(device, cudaSetDevice(device->ordinal), "choosing the device"))
            fail_all(device, live, n);
        else
            run_part(device, lane, live, n, false, false);
        give_lane(device, lane);
    }
    free(live);
}
