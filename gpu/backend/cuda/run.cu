/* run.cu - runs a batch on a workspace: sends it, launches all stages, waits once. After a shortage it grows the tables
 * and launches again. If they cannot grow it halves the batch, so that the scene that needs too much fails alone. */
#include "gpu/backend/cuda/interop.cuh"
#include "gpu/backend/cuda/trace.cuh"
#include "gpu/exact/self_cuda.cuh"

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
    pthread_cond_broadcast(&device->workspace_free);
}

/* Waits until no other batch runs, then acquires all workspaces and frees their scratch. It releases its own while it
 * waits, as two threads that wait here would wait for each other. */
static void acquire_all_workspaces(ct_device *device, ct_workspace *workspace) {
    ct_guard guard(device);
    const bool is_exact = workspace->is_exact, is_ebpi = workspace->is_ebpi; /* another batch may get it meanwhile */
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
    workspace->is_exact = is_exact;
    workspace->is_ebpi = is_ebpi;
}

static void release_other_workspaces(ct_device *device, const ct_workspace *workspace) {
    ct_guard guard(device);
    for (ct_workspace &other : device->workspaces)
        if (&other != workspace) other.busy = false;
    pthread_cond_broadcast(&device->workspace_free);
}

/* ---- tables ---- */

/* Bytes for each pair, candidate, fragment, entry and chunk of vertices in the tables that share one buffer. */
enum : uint64_t {
    PAIR_BYTES = sizeof(ct_gpu_pair) + sizeof(ct_gpu_plan) + sizeof(ct_gpu_unsorted_pair) +
                 (1 + 2 + 1 + 3 + 3) * sizeof(uint64_t),
    CANDIDATE_BYTES =
        2 * sizeof(ct_gpu_part_sums) + 3 * sizeof(int64_t[3]) + (2 + 1) * sizeof(uint64_t) + sizeof(uint32_t),
    FRAGMENT_BYTES = sizeof(ct_gpu_fragment) + sizeof(uint32_t),
    ENTRY_BYTES = sizeof(int64_t[3]) + sizeof(uint32_t),
    VERTEX_CHUNK_BYTES = sizeof(uint64_t) + sizeof(uint32_t),
    CHUNK_PAGES_BYTES = CT_CHUNK_PAGES * sizeof(uint32_t),
    PAGE_BYTES = CT_PAGE * sizeof(int64_t[3]),
    /* Of the method `exact`: */
    EXACT_PAIR_BYTES =
        sizeof(ct_exact_plan) + 4 * sizeof(ct_exact_side_sums) + sizeof(ct_second_of_pair) + (1 + 2) * sizeof(uint64_t),
    EXACT_CHUNK_BYTES = 3 * sizeof(ct_exact_best),
    SLOT_BYTES = sizeof(ct_exact_slot) + 2 * sizeof(ct_exact_sums) + sizeof(ct_second_of_slot),
    CROSSING_BYTES =
        sizeof(ct_exact_crossing) + 2 * sizeof(ct_exact_total) + 2 * sizeof(uint64_t) + 2 * sizeof(uint32_t),
    SLACK = 256, /* the offsets' one element more, and the alignment of each table */
    /* The near clusters are counted once all else is planned, which would cost a run of its own. So the list gets
     * memory for all clusters at first, unless they are more than these: 8 MiB. */
    FEW_CLUSTERS = 1 << 20,
};

/* Elements that fit into a buffer with SLACK. */
static uint64_t elements_in(uint64_t bytes, uint64_t each) {
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

static void find_capacity(const ct_workspace *workspace, ct_gpu_capacity *capacity) {
    capacity->pairs = elements_in(workspace->pairs.bytes, PAIR_BYTES);
    capacity->candidates = elements_in(workspace->candidates.bytes, CANDIDATE_BYTES);
    capacity->chunks = workspace->chunks.bytes / sizeof(ct_gpu_chunk);
    capacity->near_clusters = workspace->near_clusters.bytes / sizeof(ct_gpu_near_cluster);
    capacity->rays = workspace->rays.bytes / sizeof(ct_gpu_ray);
    capacity->vertex_chunks = smaller(elements_in(workspace->vertex_chunks.bytes, VERTEX_CHUNK_BYTES),
                                      workspace->page_table.bytes / CHUNK_PAGES_BYTES);
    capacity->pages = workspace->pages.bytes / PAGE_BYTES;
    capacity->fragments = smaller(workspace->fragments.bytes / FRAGMENT_BYTES, UINT32_MAX - 1);
    capacity->large_triangles = workspace->large_triangles.bytes / sizeof(ct_gpu_large_triangle);
    capacity->entries = workspace->entries.bytes / ENTRY_BYTES;
    capacity->spans = workspace->spans.bytes / sizeof(ct_gpu_span);
    capacity->cell_spans = workspace->cell_spans.bytes / sizeof(ct_gpu_cell_span);
    capacity->exact_pairs = elements_in(workspace->exact_pairs.bytes, EXACT_PAIR_BYTES);
    capacity->exact_chunks = workspace->exact_chunks.bytes / EXACT_CHUNK_BYTES;
    capacity->slots = smaller(workspace->slots.bytes / SLOT_BYTES, UINT32_MAX - 1);
    capacity->side_clusters = workspace->side_clusters.bytes / sizeof(uint32_t);
    capacity->units = workspace->units.bytes / sizeof(int32_t[2]);
    capacity->components = workspace->components.bytes / sizeof(int32_t[2]);
    capacity->cluster_pairs = workspace->cluster_pairs.bytes / sizeof(uint32_t[2]);
    capacity->triangle_pairs = workspace->triangle_pairs.bytes / sizeof(ct_exact_triangle_pair);
    capacity->crossings = smaller(workspace->crossings.bytes / CROSSING_BYTES, UINT32_MAX - 1);
    capacity->crossed = workspace->crossed.bytes / sizeof(ct_exact_crossed);
    capacity->windings = workspace->windings.bytes / sizeof(int32_t);
    capacity->own_numbers = workspace->own_numbers.bytes / sizeof(int32_t);
    capacity->recrossings = workspace->recrossings.bytes / (2 * sizeof(ct_second_crossing));
    capacity->second_sums = workspace->second_sums.bytes / sizeof(double);
    capacity->found_units = workspace->found_units.bytes / sizeof(ct_found_unit);
    capacity->found_facings = workspace->found_facings.bytes / sizeof(ct_piece_facing[CT_PIECE_FACINGS]);
    capacity->ray_hits = workspace->ray_hits.bytes / sizeof(ct_met_triangle);
    capacity->answer_bytes = smaller(workspace->answer.bytes, workspace->answer_host.bytes);
    if (workspace->gl && !workspace->is_exact) ct_gpu_gl_limit(workspace, capacity);
}

/* The tables of the method `exact`. */
static void lay_out_exact(const ct_workspace *workspace, ct_batch *b) {
    const ct_gpu_capacity *capacity = &workspace->capacity;
    char *at = (char *)workspace->exact_pairs.data;
    b->exact = carve<ct_exact_plan>(&at, capacity->exact_pairs);
    b->side_sums = carve<ct_exact_side_sums>(&at, 4 * capacity->exact_pairs);
    b->second_pairs = carve<ct_second_of_pair>(&at, capacity->exact_pairs);
    b->cluster_tile_offset = carve<uint64_t>(&at, capacity->exact_pairs + 1);
    b->component_offset = carve<uint64_t>(&at, 2 * capacity->exact_pairs + 1);
    b->chunk_best = (ct_exact_best *)workspace->exact_chunks.data;
    at = (char *)workspace->slots.data;
    b->slots = carve<ct_exact_slot>(&at, capacity->slots);
    b->slot_sums = carve<ct_exact_sums>(&at, 2 * capacity->slots);
    b->second_slots = carve<ct_second_of_slot>(&at, capacity->slots);
    b->slot_of_cluster = (uint32_t *)workspace->side_clusters.data;
    b->potential = (int32_t *)workspace->units.data;
    b->base = (int32_t *)workspace->components.data;
    b->cluster_pairs = (uint32_t(*)[2])workspace->cluster_pairs.data;
    b->triangle_pairs = (ct_exact_triangle_pair *)workspace->triangle_pairs.data;
    at = (char *)workspace->crossings.data;
    b->crossings = carve<ct_exact_crossing>(&at, capacity->crossings);
    b->totals = carve<ct_exact_total>(&at, 2 * capacity->crossings);
    b->crossing_keys = carve<uint64_t>(&at, 2 * capacity->crossings);
    b->crossing_index = carve<uint32_t>(&at, 2 * capacity->crossings);
    b->crossed = (ct_exact_crossed *)workspace->crossed.data;
    b->windings = (int32_t *)workspace->windings.data;
    b->own_numbers = (int32_t *)workspace->own_numbers.data;
    b->recrossings = (ct_second_crossing *)workspace->recrossings.data;
    b->second_sums = (double *)workspace->second_sums.data;
    memset(&b->pieces, 0, sizeof b->pieces);
}

/* Tells the batch where its tables are and how many elements fit into each. Within a buffer the tables follow each
 * other from the largest alignment to the smallest. */
static void lay_out(ct_workspace *workspace, ct_batch *b) {
    find_capacity(workspace, &workspace->capacity);
    const ct_gpu_capacity *capacity = &workspace->capacity;
    b->capacity = *capacity;
    b->follows_loops = !workspace->gl;
    b->casts_tiles = workspace->is_ebpi;
    b->view_errors = NULL;
    b->turned = NULL;

    char *at = (char *)workspace->pairs.data;
    const uint64_t n = capacity->pairs;
    b->plans = carve<ct_gpu_plan>(&at, n);
    b->candidate_offset = carve<uint64_t>(&at, n + 1);
    b->cluster_offset = carve<uint64_t>(&at, 2 * n + 1);
    b->pair_vertex_chunk_offset = carve<uint64_t>(&at, n + 1);
    b->ray_chunk_offset = carve<uint64_t>(&at, 3 * n + 1);
    b->ray_offset = carve<uint64_t>(&at, 3 * n + 1);
    b->pairs = carve<ct_gpu_pair>(&at, n);
    b->unsorted_pairs = carve<ct_gpu_unsorted_pair>(&at, n);
    at = (char *)workspace->candidates.data;
    b->part_sums = carve<ct_gpu_part_sums>(&at, 2 * capacity->candidates);
    b->span_length = carve<int64_t>(&at, 3 * capacity->candidates);
    b->span_count = carve<int64_t>(&at, 3 * capacity->candidates);
    b->inverted_length = carve<int64_t>(&at, 3 * capacity->candidates);
    b->vertex_chunk_offset = carve<uint64_t>(&at, 2 * capacity->candidates + 1);
    b->contact_offset = carve<uint64_t>(&at, capacity->candidates + 1);
    b->candidate_pair = carve<uint32_t>(&at, capacity->candidates);
    b->chunks = (ct_gpu_chunk *)workspace->chunks.data;
    b->near_clusters = (ct_gpu_near_cluster *)workspace->near_clusters.data;
    b->rays = (ct_gpu_ray *)workspace->rays.data;
    b->page_table = (uint32_t *)workspace->page_table.data;
    b->page_sums = (int64_t *)workspace->pages.data;
    at = (char *)workspace->vertex_chunks.data;
    b->entry_offset = carve<uint64_t>(&at, capacity->vertex_chunks + 1);
    b->entry_count = carve<uint32_t>(&at, capacity->vertex_chunks);
    at = (char *)workspace->fragments.data;
    b->fragments = carve<ct_gpu_fragment>(&at, capacity->fragments);
    b->next = carve<uint32_t>(&at, capacity->fragments);
    b->large_triangles = (ct_gpu_large_triangle *)workspace->large_triangles.data;
    at = (char *)workspace->entries.data;
    b->entry_sums = carve<int64_t>(&at, 3 * capacity->entries);
    b->entry_vertices = carve<uint32_t>(&at, capacity->entries);
    b->spans = (ct_gpu_span *)workspace->spans.data;
    b->cell_spans = (ct_gpu_cell_span *)workspace->cell_spans.data;

    lay_out_exact(workspace, b);

    at = (char *)workspace->small.data;
    b->shards = carve<ct_gpu_shard>(&at, CT_SHARDS);
    b->counts = carve<ct_gpu_counts>(&at, 1);
    b->step_fragments = carve<uint64_t>(&at, b->n_steps);
    b->step_box_tests = carve<uint64_t>(&at, b->n_steps);
    b->step_rays = carve<uint64_t>(&at, b->n_steps);
    b->bodies = carve<ct_gpu_body *>(&at, b->n_bodies);
    b->curve_keys = carve<uint64_t>(&at, b->n_keys);
    b->nodes = carve<ct_gpu_node>(&at, b->n_nodes);
    b->step_entries = carve<ct_gpu_step_entries>(&at, b->n_steps);
    b->row_offset = carve<uint64_t>(&at, (uint64_t)b->n_bodies + 1);
    b->split_row_offset = carve<uint64_t>(&at, (uint64_t)b->n_bodies + 1);
    b->found_row_offset = b->row_offset;
    b->found_pairs = b->pairs;
    b->step_refused = carve<uint32_t>(&at, b->n_steps);
    b->row_count = carve<uint32_t>(&at, b->n_bodies);
    b->heavy_rows = carve<uint32_t>(&at, b->n_bodies);

    b->answer = at = (char *)workspace->answer.data;
    carve<ct_gpu_counts>(&at, 1);
    b->out_steps = carve<ct_gpu_step_totals>(&at, b->n_steps);
    b->out_boxes = carve<ct_box>(&at, b->n_box_updates);
    b->out_volumes = carve<double>(&at, b->n_box_updates);
    b->out_contacts = (ct_gpu_contact *)at;
}

/* Of the answer: counts, steps' totals, boxes and volumes. */
static uint64_t head_bytes(const ct_batch *b) {
    return sizeof(ct_gpu_counts) + b->n_steps * sizeof(ct_gpu_step_totals) +
           b->n_box_updates * (sizeof(ct_box) + sizeof(double));
}

static uint64_t small_bytes(const ct_batch *b) {
    return CT_SHARDS * sizeof(ct_gpu_shard) + sizeof(ct_gpu_counts) +
           b->n_steps * (3 * sizeof(uint64_t) + sizeof(ct_gpu_step_entries) + sizeof(uint32_t)) +
           b->n_bodies * (2 * sizeof(uint64_t) + sizeof(ct_gpu_body *) + 2 * sizeof(uint32_t)) +
           b->n_keys * sizeof(uint64_t) + b->n_nodes * sizeof(ct_gpu_node) + SLACK;
}

/* Reserves what is known before the batch runs. Tables of offsets have one element even where there is no pair. */
static bool reserve_known(ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    return (workspace->is_exact ? ct_gpu_reserve(device, workspace, &workspace->exact_pairs, SLACK)
                                : !workspace->gl || ct_gpu_gl_reserve(device, workspace)) &&
           ct_gpu_reserve(device, workspace, &workspace->small, small_bytes(b)) &&
           ct_gpu_reserve(device, workspace, &workspace->pairs, SLACK) &&
           ct_gpu_reserve(device, workspace, &workspace->candidates, SLACK) &&
           ct_gpu_reserve(device, workspace, &workspace->vertex_chunks, SLACK) &&
           ct_gpu_reserve(device, workspace, &workspace->answer, head_bytes(b)) &&
           ct_gpu_reserve_pinned(device, workspace, &workspace->answer_host, head_bytes(b));
}

static bool grow(ct_device *device, ct_workspace *workspace, ct_gpu_buffer *buffer, uint64_t bytes, const char *what,
                 ct_gpu_need *n) {
    n->what = what;
    n->bytes = bytes;
    return ct_gpu_reserve(device, workspace, buffer, bytes);
}

static bool grow_pinned(ct_device *device, const ct_workspace *workspace, ct_gpu_pinned *pinned, uint64_t bytes,
                        const char *what, ct_gpu_need *n) {
    n->what = what;
    n->bytes = bytes;
    return ct_gpu_reserve_pinned(device, workspace, pinned, bytes);
}

/* The tables of the method `exact`. */
static bool grow_exact(ct_device *device, ct_workspace *workspace, const ct_gpu_counts *c, uint32_t shortage,
                       ct_gpu_need *n) {
    bool ok = true;
    if (shortage & CT_SHORT_EXACT_PAIRS)
        ok = ok &&
             grow(device, workspace, &workspace->exact_pairs, c->exact_pairs * EXACT_PAIR_BYTES + SLACK, "pairs", n);
    if (shortage & CT_SHORT_VERTEX_CHUNKS)
        ok =
            ok && grow(device, workspace, &workspace->exact_chunks, c->exact_chunks * EXACT_CHUNK_BYTES, "vertices", n);
    if (shortage & CT_SHORT_SLOTS)
        ok = ok && grow(device, workspace, &workspace->slots, c->slots * SLOT_BYTES, "clusters of triangles", n);
    if (shortage & CT_SHORT_SIDES)
        ok = ok &&
             grow(device, workspace, &workspace->side_clusters, c->side_clusters * sizeof(uint32_t),
                  "the bodies' clusters", n) &&
             grow(device, workspace, &workspace->units, c->units * sizeof(int32_t[2]), "winding numbers", n) &&
             grow(device, workspace, &workspace->components, c->components * sizeof(int32_t[2]),
                  "the bodies' connected components", n) &&
             grow(device, workspace, &workspace->own_numbers, c->own_numbers * sizeof(int32_t),
                  "winding numbers of bodies with themselves", n);
    if (shortage & CT_SHORT_CLUSTER_PAIRS)
        ok = ok && grow(device, workspace, &workspace->cluster_pairs, c->cluster_pairs * sizeof(uint32_t[2]),
                        "pairs of clusters", n);
    if (shortage & CT_SHORT_TRIANGLE_PAIRS)
        ok = ok && grow(device, workspace, &workspace->triangle_pairs,
                        c->triangle_pairs * sizeof(ct_exact_triangle_pair), "pairs of triangles", n);
    if (shortage & CT_SHORT_CROSSINGS)
        ok = ok && grow(device, workspace, &workspace->crossings, c->crossings * CROSSING_BYTES, "crossings", n);
    if (shortage & CT_SHORT_CROSSED)
        ok = ok &&
             grow(device, workspace, &workspace->crossed, c->crossed * sizeof(ct_exact_crossed), "crossed clusters",
                  n) &&
             grow(device, workspace, &workspace->windings, c->windings * sizeof(int32_t), "winding numbers", n);
    if (shortage & CT_SHORT_SECOND)
        ok = ok &&
             grow(device, workspace, &workspace->recrossings, c->recrossings * 2 * sizeof(ct_second_crossing),
                  "segments of crossing triangles", n) &&
             grow(device, workspace, &workspace->second_sums, c->second_sums * sizeof(double), "second derivatives", n);
    return ok;
}

static bool grow_tables(ct_device *device, ct_workspace *workspace, const ct_gpu_counts *c, uint32_t shortage,
                        ct_gpu_need *n) {
    if (c->fragments >= UINT32_MAX - 1) {
        n->what = "more than 2^32 ray crossings";
        n->bytes = c->fragments * FRAGMENT_BYTES;
        return false;
    }
    bool ok = true;
    if (shortage & CT_SHORT_PAIRS)
        ok = ok && grow(device, workspace, &workspace->pairs, c->pairs * PAIR_BYTES + SLACK, "pairs", n);
    if (shortage & CT_SHORT_RAYS)
        ok = ok && grow(device, workspace, &workspace->rays, c->rays * sizeof(ct_gpu_ray), "rays", n);
    if (shortage & CT_SHORT_CANDIDATES)
        ok = ok && grow(device, workspace, &workspace->candidates, c->candidates * CANDIDATE_BYTES + SLACK,
                        "contact candidates", n);
    if (shortage & CT_SHORT_CHUNKS)
        ok = ok &&
             grow(device, workspace, &workspace->chunks, c->chunks * sizeof(ct_gpu_chunk),
                  "the list of vertices and rays", n) &&
             grow(device, workspace, &workspace->near_clusters,
                  smaller(c->clusters, FEW_CLUSTERS) * sizeof(ct_gpu_near_cluster), "clusters of triangles", n);
    if (shortage & CT_SHORT_CLUSTERS)
        ok = ok && grow(device, workspace, &workspace->near_clusters, c->near_clusters * sizeof(ct_gpu_near_cluster),
                        "clusters of triangles", n);
    if (shortage & CT_SHORT_VERTEX_CHUNKS)
        ok = ok &&
             grow(device, workspace, &workspace->vertex_chunks, c->vertex_chunks * VERTEX_CHUNK_BYTES + SLACK,
                  "vertices", n) &&
             grow(device, workspace, &workspace->page_table, c->vertex_chunks * CHUNK_PAGES_BYTES, "vertices", n);
    if (shortage & CT_SHORT_PAGES)
        ok = ok && grow(device, workspace, &workspace->pages, c->pages * PAGE_BYTES, "sums of vertices", n);
    if (shortage & CT_SHORT_FRAGMENTS)
        ok = ok && grow(device, workspace, &workspace->fragments, c->fragments * FRAGMENT_BYTES, "ray crossings", n);
    if (shortage & CT_SHORT_LARGE)
        ok = ok &&
             grow(device, workspace, &workspace->large_triangles,
                  ct_large_triangle_count(c->large_triangles) * sizeof(ct_gpu_large_triangle), "large triangles", n);
    if (shortage & CT_SHORT_ENTRIES)
        ok = ok && grow(device, workspace, &workspace->entries, c->entries * ENTRY_BYTES, "the sparse gradient", n);
    if (shortage & CT_SHORT_SPANS)
        ok = ok && grow(device, workspace, &workspace->spans, c->spans * sizeof(ct_gpu_span), "spans", n);
    if (shortage & CT_SHORT_CELL_SPANS)
        ok = ok && grow(device, workspace, &workspace->cell_spans, c->cell_spans * sizeof(ct_gpu_cell_span),
                        "spans of cells", n);
    if (shortage & CT_SHORT_ANSWER)
        ok = ok && grow(device, workspace, &workspace->answer, c->answer_bytes, "the answer", n) &&
             grow_pinned(device, workspace, &workspace->answer_host, c->answer_bytes, "the answer on the host", n);
    return ok && (workspace->is_exact ? grow_exact(device, workspace, c, shortage, n)
                                      : !workspace->gl || ct_gpu_gl_grow(device, workspace, c, shortage, n));
}

/* ---- computing ---- */

/* Event p marks the end of phase p - 1 and the beginning of phase p. */
static bool record_phase(ct_device *device, ct_workspace *workspace, int event) {
    return ct_gpu_ok(device, cudaEventRecord(workspace->events[event], workspace->stream), "recording an event");
}

static bool clear(ct_device *device, ct_workspace *workspace, void *memory, uint64_t bytes) {
    return !bytes || ct_gpu_ok(device, cudaMemsetAsync(memory, 0, bytes, workspace->stream), "clearing memory");
}

/* Clears rays, sums and their page table. A finished batch leaves them zero; new memory and a batch with a shortage do
 * not. */
static bool clear_scratch(ct_device *device, ct_workspace *workspace) {
    return clear(device, workspace, workspace->rays.data, workspace->rays.bytes) &&
           clear(device, workspace, workspace->page_table.data, workspace->page_table.bytes) &&
           clear(device, workspace, workspace->pages.data, workspace->pages.bytes);
}

/* The first tables of the small buffer (lay_out), and the refused pairs. */
static bool clear_counts(ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    return clear(device, workspace, workspace->small.data,
                 CT_SHARDS * sizeof(ct_gpu_shard) + sizeof(ct_gpu_counts) + 3 * b->n_steps * sizeof(uint64_t)) &&
           clear(device, workspace, b->step_refused, b->n_steps * sizeof(uint32_t));
}

/* ---- the answer's copy ---- */

static bool copy_answer(ct_device *device, ct_workspace *workspace, uint64_t first, uint64_t end) {
    device->downloaded += end - first;
    return ct_gpu_ok(device,
                     cudaMemcpyAsync((char *)workspace->answer_host.host + first,
                                     (const char *)workspace->answer.data + first, end - first, cudaMemcpyDeviceToHost,
                                     workspace->stream),
                     "copying the answer") &&
           record_phase(device, workspace, CT_PHASE_DOWNLOAD + 1);
}

/* Queues the copy of as much of the answer as is expected: its size is known on the device only. */
static bool copy_expected(ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    uint64_t bytes = smaller(workspace->expected_answer, workspace->capacity.answer_bytes);
    if (bytes < head_bytes(b)) bytes = head_bytes(b);
    workspace->copied_answer = bytes;
    return copy_answer(device, workspace, 0, bytes);
}

/* ---- stages: each launches its kernels and marks the end of its phase ---- */

static bool launch_update(ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    const ct_trace_range range("update bodies");
    if (b->n_box_updates) device->launches += ct_cuda_update_bodies(b, device->grid, workspace->stream);
    return record_phase(device, workspace, CT_PHASE_UPLOAD + 1);
}

static bool launch_broad_phase(ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    const ct_trace_range range("broad phase");
    device->launches += ct_cuda_build_crowds(b, device->grid, workspace->stream);
    device->launches += ct_cuda_find_pairs(b, device->grid, workspace->stream);
    device->launches += ct_cuda_plan(b, device->grid, workspace->stream);
    return record_phase(device, workspace, CT_PHASE_BROADPHASE + 1);
}

static bool launch_raster(ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    const ct_trace_range range("raster");
    unsigned n = 0;
    bool ok = true;
    if (workspace->gl)
        ok = ct_gpu_gl_draw(device, workspace, b, &n);
    else
        n = ct_cuda_raster(b, device->grid, workspace->stream);
    device->launches += n;
    return ok && record_phase(device, workspace, CT_PHASE_RASTER + 1);
}

static bool launch_spans(ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    const ct_trace_range range("spans");
    device->launches += ct_cuda_spans(b, device->grid, workspace->stream);
    return record_phase(device, workspace, CT_PHASE_SPAN + 1);
}

static bool launch_answer(ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    const ct_trace_range range("answer");
    device->launches += ct_cuda_answer(b, device->grid, workspace->stream);
    return record_phase(device, workspace, CT_PHASE_CONTACT + 1) && copy_expected(device, workspace, b);
}

/* All stages of the method `exact` after the update of the bodies. */
static bool launch_exact(ct_device *device, ct_workspace *workspace, ct_batch *b, ct_gpu_need *n) {
    const ct_trace_range range("exact");
    if (!clear_counts(device, workspace, b)) return false;
    device->launches += ct_cuda_build_crowds(b, device->grid, workspace->stream);
    device->launches += ct_cuda_find_pairs(b, device->grid, workspace->stream);
    if (!record_phase(device, workspace, CT_PHASE_BROADPHASE + 1)) return false;
    device->launches += ct_cuda_plan_exact(b, device->grid, workspace->stream);
    device->launches += ct_cuda_cross(b, device->grid, workspace->stream);
    device->launches += ct_cuda_total_crossings(b, device->grid, workspace->stream);
    if (!record_phase(device, workspace, CT_PHASE_RASTER + 1)) return false;
    device->launches += ct_cuda_find_windings(b, device->grid, workspace->stream);
    if (b->finds_own) device->launches += ct_cuda_find_own_windings(b, device->grid, workspace->stream);
    if (b->finds_pieces) b->lacks_memory = !ct_gpu_split_pairs(device, workspace, b, n);
    if (device->lost) return false;
    device->launches += ct_cuda_add_surface(b, device->grid, workspace->stream);
    if (b->splits_sides && !b->lacks_memory) b->lacks_memory = !ct_gpu_split_sides(device, workspace, b, n);
    if (device->lost || !record_phase(device, workspace, CT_PHASE_SPAN + 1)) return false;
    device->launches += ct_cuda_finish_exact(b, device->grid, workspace->stream);
    return record_phase(device, workspace, CT_PHASE_CONTACT + 1) && copy_expected(device, workspace, b) &&
           ct_gpu_ok(device, cudaGetLastError(), "launching kernels");
}

/* All stages of the method `ebpi` after the update of the bodies. Where it lacks memory the answer is launched all the
 * same, and of no use. */
static bool launch_ebpi(ct_device *device, ct_workspace *workspace, ct_batch *b, ct_gpu_need *n) {
    const ct_trace_range range("ebpi");
    if (!clear_counts(device, workspace, b) || !launch_broad_phase(device, workspace, b)) return false;
    b->lacks_memory = !ct_gpu_refine_pairs(device, workspace, b, n);
    return !device->lost && record_phase(device, workspace, CT_PHASE_RASTER + 1) &&
           record_phase(device, workspace, CT_PHASE_SPAN + 1) && launch_answer(device, workspace, b) &&
           ct_gpu_ok(device, cudaGetLastError(), "launching kernels");
}

/* Where it lacks memory the answer is launched all the same, and of no use. */
static bool split_sums(ct_device *device, ct_workspace *workspace, ct_batch *b, ct_gpu_need *n) {
    b->lacks_memory = (b->splits_sides && !ct_gpu_split_sides(device, workspace, b, n)) ||
                      (b->finds_cells && !ct_gpu_find_cells(device, workspace, b, n));
    return !device->lost;
}

/* All stages after the update of the bodies. */
static bool launch(ct_device *device, ct_workspace *workspace, ct_batch *b, ct_gpu_need *n) {
    if (workspace->is_exact) return launch_exact(device, workspace, b, n);
    if (workspace->is_ebpi) return launch_ebpi(device, workspace, b, n);
    return clear_counts(device, workspace, b) && launch_broad_phase(device, workspace, b) &&
           launch_raster(device, workspace, b) && launch_spans(device, workspace, b) &&
           split_sums(device, workspace, b, n) && launch_answer(device, workspace, b) &&
           ct_gpu_ok(device, cudaGetLastError(), "launching kernels");
}

static bool wait(ct_device *device, ct_workspace *workspace) {
    const ct_trace_range range("wait");
    return ct_gpu_ok(device, cudaStreamSynchronize(workspace->stream), "computing a batch");
}

/* Copies what the first copy did not take of a computed answer, and expects the next one to have up to a sixteenth
 * more, as the answers of consecutive steps are alike. */
static bool copy_rest(ct_device *device, ct_workspace *workspace, uint64_t bytes) {
    workspace->expected_answer = bytes + bytes / 16 + 512;
    if (bytes <= workspace->copied_answer) return true;
    return copy_answer(device, workspace, workspace->copied_answer, bytes) && wait(device, workspace);
}

/* Copies the boxes and poses that the device now has to the bodies on the host. */
static void copy_state_to_host(ct_workspace *workspace, const ct_batch *b) {
    ct_body **moved = (ct_body **)workspace->moved_bodies.data, **posed = (ct_body **)workspace->posed_bodies.data;
    const ct_box *boxes = (const ct_box *)((const char *)workspace->answer_host.host + sizeof(ct_gpu_counts) +
                                           b->n_steps * sizeof(ct_gpu_step_totals));
    const ct_gpu_pose_write *poses = (const ct_gpu_pose_write *)workspace->pose_writes.data;
    const double *volumes = (const double *)(boxes + b->n_box_updates);
    ct_step *const *steps = (ct_step *const *)workspace->members.data;
    for (uint32_t i = 0; i < b->n_steps; i++) steps[i]->scene->is_moved = true;
    for (uint32_t i = 0; i < b->n_box_updates; i++) {
        ct_gpu_keep_body(moved[i]);
        moved[i]->box = boxes[i];
        moved[i]->resident->box_level = 0;
        moved[i]->resident->is_behind = false;
        const bool is_due =
            !moved[i]->resident->is_only_behind && ct_body_volume_is_due(moved[i], moved[i]->resident->n_triangles);
        moved[i]->resident->is_only_behind = false;
        if (is_due || workspace->is_exact) ct_body_set_volume(moved[i], volumes[i]);
    }
    for (uint32_t i = 0; i < b->n_pose_writes; i++) memcpy(posed[i]->pose, poses[i].pose, sizeof poses[i].pose);
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
    if (!record_phase(device, workspace, CT_PHASE_UPLOAD) || !ct_gpu_send(device, workspace, b) ||
        !reserve_known(device, workspace, b))
        return false;
    lay_out(workspace, b);
    if (!launch_update(device, workspace, b) || (!workspace->is_clean && !clear_scratch(device, workspace)))
        return false;
    workspace->is_clean = false;
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
            device->clusters += counts.clusters + counts.side_clusters;
            device->near_clusters += counts.near_clusters + counts.slots;
            if (!copy_rest(device, workspace, counts.answer_bytes) ||
                !ct_gpu_copy_second(device, workspace, b, &counts, n))
                return false;
            break;
        }
        device->reruns++;
        if (!grow_tables(device, workspace, &counts, shortage, n) || !clear_scratch(device, workspace)) return false;
        lay_out(workspace, b);
    }
    workspace->is_clean = true;
    return true;
}

bool ct_gpu_move_bodies(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps,
                        ct_gpu_need *need) {
    ct_batch batch = {};
    need->what = "what it sends";
    workspace->is_exact = true; /* its tables are never OpenGL's */
    const ct_staged staged = ct_gpu_stage(device, workspace, steps, n_steps, true);
    if (staged != CT_STAGED) return staged == CT_STAGED_NOTHING;
    if (!ct_gpu_send(device, workspace, &batch) || !reserve_known(device, workspace, &batch)) return false;
    lay_out(workspace, &batch);
    if (!launch_update(device, workspace, &batch) || !clear_counts(device, workspace, &batch)) return false;
    device->launches += ct_cuda_build_crowds(&batch, device->grid, workspace->stream);
    device->launches += ct_cuda_find_pairs(&batch, device->grid, workspace->stream); /* it lists the boxes, too */
    if (!copy_answer(device, workspace, 0, head_bytes(&batch)) || !wait(device, workspace)) return false;
    copy_state_to_host(workspace, &batch);
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
            "%s need %llu bytes of working memory for %s, but %llu of the device's budget of %llu are in use: %s, or "
            "raise the budget",
            whose, (unsigned long long)n->bytes, n->what, (unsigned long long)device->used,
            (unsigned long long)device->limit,
            step->scene->settings.method == CT_METHOD_EXACT     ? "choose method \"ldi\""
            : step->scene->settings.method == CT_METHOD_VOXTREE ? "use a lower level"
            : ct_method_of_step(step) == CT_METHOD_EBPI         ? "use a lower ray_budget or a larger tolerance"
                                                                : "use a lower resolution or a larger pixel_size");
}

static void run_part(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps, bool applied,
                     bool alone) {
    ct_gpu_need n = {"its tables", 0, 0};
    ct_batch batch = {};
    /* The host's part of a batch of one step is cancelled with it. */
    const ct_working before = n_steps == 1 ? ct_work_for(steps[0]->cancel, 0, 0) : ct_thread_working;
    ct_enter_phase("computing on the device");
    const bool is_ready = !workspace->is_exact || ct_gpu_prepare_exact(device, workspace, steps, n_steps, &n);
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
    workspace->is_exact = true;
    run_part(device, workspace, steps, n_steps, true, alone);
    workspace->is_exact = false;
}

/* The same for the method `voxtree`, which has no tables in common with the others. */
static void run_voxels(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps, double start,
                       bool alone) {
    ct_gpu_need n = {"its tables", 0, 0};
    const ct_working before = n_steps == 1 ? ct_work_for(steps[0]->cancel, 0, 0) : ct_thread_working;
    ct_enter_phase("comparing voxels on the device");
    const bool is_done = ct_gpu_compute_voxels(device, workspace, steps, n_steps, start, alone, &n);
    ct_work_back(before);
    if (is_done) return;
    wait(device, workspace); /* before its memory is used for anything else */
    for (size_t i = 0; i < n_steps && !device->lost; i++) fail_cancelled(steps[i]);
    if (device->lost) {
        fail_all(device, steps, n_steps);
    } else if (n_steps > 1) {
        run_voxels(device, workspace, steps, n_steps / 2, start, alone);
        run_voxels(device, workspace, steps + n_steps / 2, n_steps - n_steps / 2, start, alone);
    } else if (!alone) {
        acquire_all_workspaces(device, workspace);
        run_voxels(device, workspace, steps, 1, start, true);
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
        workspace->is_exact = method == CT_METHOD_EXACT;
        workspace->is_ebpi = method == CT_METHOD_EBPI;
        if (device->lost || !ct_gpu_ok(device, cudaSetDevice(device->ordinal), "choosing the device"))
            fail_all(device, live, n);
        else if (method == CT_METHOD_VOXTREE)
            run_voxels(device, workspace, live, n, start, false);
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
