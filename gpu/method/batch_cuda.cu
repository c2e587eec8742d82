/* batch_cuda.cu - a batch's tables, by rows that say what each holds; the phases of a batch; and the copy of its answer.
 */
#include "gpu/device/cuda/trace.cuh"
#include "gpu/method/device_cuda.cuh"

/* ---- the tables of all methods ---- */

namespace {

enum : uint64_t {
    SLACK = 256, /* the offsets' one element more, and the alignment of each table */
    /* The near clusters are counted once all else is planned, which would cost a run of its own. So the list gets
     * memory for all clusters at first, unless they are more than these: 8 MiB. */
    FEW_CLUSTERS = 1 << 20,
    LEAST_BLOCKS = 16, /* fragments go to as many shards, by blocks */
};

uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

uint64_t larger(uint64_t a, uint64_t b) {
    return a < b ? b : a;
}

using row_tables = ct_batch;

constexpr ct_gpu_table COMMON_TABLES[] = {
    CT_TABLE(pairs, c->pairs, CT_SHORT_PAIRS, CT_PLAIN, "pairs", CT_COLUMN(plans, 1), CT_OFFSETS(candidate_offset, 1),
             CT_OFFSETS(cluster_offset, 2), CT_OFFSETS(pair_vertex_chunk_offset, 1), CT_OFFSETS(ray_chunk_offset, 3),
             CT_OFFSETS(ray_offset, 3), CT_COLUMN(pairs, 1), CT_COLUMN(unsorted_pairs, 1)),
    CT_TABLE(candidates, c->candidates, CT_SHORT_CANDIDATES, CT_PLAIN, "contact candidates", CT_COLUMN(part_sums, 2),
             CT_COLUMN(span_length, 3), CT_COLUMN(span_count, 3), CT_COLUMN(inverted_length, 3),
             CT_OFFSETS(vertex_chunk_offset, 2), CT_OFFSETS(contact_offset, 1), CT_COLUMN(candidate_pair, 1)),
    CT_TABLE(chunks, c->chunks, CT_SHORT_CHUNKS, CT_PLAIN, "the list of vertices and rays", CT_COLUMN(chunks, 1)),
    CT_TABLE(near_clusters, c->near_clusters ? c->near_clusters : smaller(c->clusters, FEW_CLUSTERS),
             CT_SHORT_CHUNKS | CT_SHORT_CLUSTERS, CT_PLAIN, "clusters of triangles", CT_COLUMN(near_clusters, 1)),
    CT_TABLE(vertex_chunks, c->vertex_chunks, CT_SHORT_VERTEX_CHUNKS, CT_PLAIN, "vertices", CT_OFFSETS(entry_offset, 1),
             CT_COLUMN(entry_count, 1)),
    CT_TABLE(vertex_chunks, c->vertex_chunks, CT_SHORT_VERTEX_CHUNKS, CT_ZERO_BETWEEN_BATCHES, "vertices",
             CT_COLUMN(page_table, CT_CHUNK_PAGES)),
    CT_TABLE(pages, c->pages, CT_SHORT_PAGES, CT_ZERO_BETWEEN_BATCHES, "sums of vertices",
             CT_COLUMN(page_sums, 3 * CT_PAGE)),
    CT_TABLE(entries, c->entries, CT_SHORT_ENTRIES, CT_PLAIN, "the sparse gradient", CT_COLUMN(entry_sums, 3),
             CT_COLUMN(entry_vertices, 1)),
    CT_TABLE(spans, c->spans, CT_SHORT_SPANS, CT_PLAIN, "spans", CT_COLUMN(spans, 1)),
};

/* ---- rows ---- */

/* Bytes that a table of n elements takes. */
uint64_t bytes_of(const ct_gpu_table *row, uint64_t n, uint64_t *slack) {
    uint64_t bytes = 0;
    *slack = 0;
    for (const ct_gpu_column &column : row->column) {
        bytes += column.size * column.each * n;
        if (column.more) *slack = SLACK;
    }
    return bytes;
}

uint64_t elements_in(const ct_gpu_table *row, uint64_t bytes) {
    uint64_t slack;
    const uint64_t each = bytes_of(row, 1, &slack), n = bytes > slack ? (bytes - slack) / each : 0;
    return row->kind == CT_INDEXED ? smaller(n, UINT32_MAX - 1) : n;
}

void find_capacity(const ct_gpu_table_set *set, ct_gpu_capacity *capacity) {
    for (size_t i = 0; i < set->n; i++) capacity->*set->rows[i].capacity = UINT64_MAX;
    for (size_t i = 0; i < set->n; i++) {
        uint64_t *n = &(capacity->*set->rows[i].capacity);
        *n = smaller(*n, elements_in(&set->rows[i], set->buffers[i].bytes));
    }
}

void point_tables(const ct_gpu_table_set *set, const ct_gpu_capacity *capacity, void *tables) {
    for (size_t i = 0; i < set->n; i++) {
        char *at = (char *)set->buffers[i].data;
        for (const ct_gpu_column &column : set->rows[i].column) {
            if (!column.size) break;
            column.point(tables, at);
            at += column.size * (column.each * capacity->*set->rows[i].capacity + column.more);
        }
    }
}

/* Tables of offsets have one element even where there is no pair. */
bool reserve_offsets(ct_device *device, ct_workspace *workspace, ct_gpu_table_set *set) {
    bool ok = true;
    for (size_t i = 0; i < set->n && ok; i++) {
        uint64_t slack;
        bytes_of(&set->rows[i], 1, &slack);
        ok = !slack || ct_gpu_reserve(device, workspace, &set->buffers[i], slack);
    }
    return ok;
}

bool grow(ct_device *device, ct_workspace *workspace, ct_gpu_table_set *set, const ct_gpu_counts *counts,
          uint32_t shortage, ct_gpu_need *need) {
    bool ok = true;
    for (size_t i = 0; i < set->n && ok; i++) {
        const ct_gpu_table *row = &set->rows[i];
        if (!(row->shortage & shortage)) continue;
        uint64_t slack, bytes = bytes_of(row, row->count(counts), &slack);
        if (row->kind == CT_INDEXED && row->count(counts) >= UINT32_MAX - 1) {
            snprintf(need->text, sizeof need->text, "more than 2^32 %s", row->what);
            need->what = need->text;
            need->bytes = bytes;
            return false;
        }
        ok = ct_gpu_reserve_for(device, workspace, &set->buffers[i], bytes + slack, row->what, need);
    }
    return ok;
}

bool clear_zeros(ct_device *device, const ct_workspace *workspace, const ct_gpu_table_set *set) {
    bool ok = true;
    for (size_t i = 0; i < set->n && ok; i++)
        if (set->rows[i].kind == CT_ZERO_BETWEEN_BATCHES)
            ok = ct_gpu_clear(device, workspace, set->buffers[i].data, set->buffers[i].bytes);
    return ok;
}

bool open_set(ct_gpu_table_set *set, const ct_gpu_table *rows, size_t n) {
    set->rows = rows;
    set->n = n;
    set->buffers = (ct_gpu_buffer *)calloc(n + 1, sizeof *set->buffers);
    return set->buffers;
}

ct_gpu_table_set *own_tables(ct_workspace *workspace) {
    return &workspace->room[workspace->method->method].tables;
}

} // namespace

bool ct_gpu_open_tables(ct_workspace *workspace) {
    bool ok = open_set(&workspace->common, COMMON_TABLES, sizeof COMMON_TABLES / sizeof *COMMON_TABLES);
    for (const ct_gpu_method *const *method = ct_gpu_methods; *method && ok; method++) {
        ct_gpu_room *room = &workspace->room[(*method)->method];
        room->scratch = calloc(1, (*method)->scratch_bytes);
        ok = room->scratch && open_set(&room->tables, (*method)->tables, (*method)->n_tables);
    }
    return ok;
}

void ct_gpu_point_tables(const ct_workspace *workspace, const ct_gpu_room *room, void *tables) {
    point_tables(&room->tables, &workspace->capacity, tables);
}

/* ---- tables whose size is known ---- */

template <class T> static T *carve(char **at, uint64_t n) {
    T *first = (T *)*at;
    *at += n * sizeof(T);
    return first;
}

/* Where they lie in `small`. The first ones are zero when a batch begins. Returns their end. */
static char *lay_out_small(ct_batch *b, char *at) {
    b->counts = carve<ct_gpu_counts>(&at, 1);
    b->step_fragments = carve<uint64_t>(&at, b->n_steps);
    b->step_box_tests = carve<uint64_t>(&at, b->n_steps);
    b->step_rays = carve<uint64_t>(&at, b->n_steps);
    b->step_refused = carve<uint32_t>(&at, (b->n_steps + 1) / 2 * 2);
    b->bodies = carve<ct_gpu_body *>(&at, b->n_bodies);
    for (uint64_t *&keys : b->curve_keys) keys = carve<uint64_t>(&at, b->n_keys);
    b->nodes = carve<ct_gpu_node>(&at, b->n_nodes);
    b->step_entries = carve<ct_gpu_step_entries>(&at, b->n_steps);
    b->row_offset = carve<uint64_t>(&at, (uint64_t)b->n_bodies + 1);
    b->row_count = carve<uint32_t>(&at, b->n_bodies);
    b->heavy_rows = carve<uint32_t>(&at, b->n_bodies);
    return at;
}

static uint64_t small_bytes(ct_batch b) {
    char *const anywhere = (char *)(uintptr_t)4096;
    return (uint64_t)(lay_out_small(&b, anywhere) - anywhere);
}

/* Of the answer: counts, steps' totals, boxes and volumes. */
static uint64_t head_bytes(const ct_batch *b) {
    return sizeof(ct_gpu_counts) + b->n_steps * sizeof(ct_gpu_step_totals) +
           b->n_box_updates * (sizeof(ct_box) + sizeof(double));
}

static void lay_out_answer(ct_batch *b, char *at) {
    b->answer = at;
    carve<ct_gpu_counts>(&at, 1);
    b->out_steps = carve<ct_gpu_step_totals>(&at, b->n_steps);
    b->out_boxes = carve<ct_box>(&at, b->n_box_updates);
    b->out_volumes = carve<double>(&at, b->n_box_updates);
    b->out_contacts = (ct_gpu_contact *)at;
}

/* ---- all tables ---- */

bool ct_gpu_reserve_known(ct_device *device, ct_workspace *workspace, ct_batch *b) {
    const ct_gpu_method *method = workspace->method;
    return reserve_offsets(device, workspace, own_tables(workspace)) &&
           (!method->reserve || method->reserve(device, workspace)) &&
           ct_gpu_reserve(device, workspace, &workspace->small, small_bytes(*b)) &&
           reserve_offsets(device, workspace, &workspace->common) &&
           ct_gpu_reserve(device, workspace, &workspace->answer, head_bytes(b)) &&
           ct_gpu_reserve_pinned(device, workspace, &workspace->answer_host, head_bytes(b));
}

void ct_gpu_lay_out(const ct_device *device, ct_workspace *workspace, ct_batch *b) {
    const ct_gpu_method *method = workspace->method;
    ct_gpu_capacity *capacity = &workspace->capacity;
    *capacity = ct_gpu_capacity();
    find_capacity(&workspace->common, capacity);
    find_capacity(own_tables(workspace), capacity);
    capacity->answer_bytes = smaller(workspace->answer.bytes, workspace->answer_host.bytes);
    if (method->limit) method->limit(workspace, capacity);
    b->capacity = *capacity;
    b->follows_loops = !device->gl;
    b->casts_tiles = method->casts_tiles;
    b->view_errors = NULL;
    b->turned = NULL;
    point_tables(&workspace->common, capacity, b);
    lay_out_small(b, (char *)workspace->small.data);
    lay_out_answer(b, (char *)workspace->answer.data);
}

bool ct_gpu_grow_tables(ct_device *device, ct_workspace *workspace, const ct_gpu_counts *c, uint32_t shortage,
                        ct_gpu_need *need) {
    const ct_gpu_method *method = workspace->method;
    return grow(device, workspace, &workspace->common, c, shortage, need) &&
           grow(device, workspace, own_tables(workspace), c, shortage, need) &&
           (!(shortage & CT_SHORT_ANSWER) ||
            (ct_gpu_reserve_for(device, workspace, &workspace->answer, c->answer_bytes, "the answer", need) &&
             ct_gpu_reserve_pinned_for(device, workspace, &workspace->answer_host, c->answer_bytes,
                                       "the answer on the host", need))) &&
           (!method->grow || method->grow(device, workspace, c, shortage, need));
}

bool ct_gpu_are_tables_clean(const ct_workspace *workspace) {
    return workspace->common.is_clean && workspace->room[workspace->method->method].tables.is_clean;
}

void ct_gpu_mark_tables(ct_workspace *workspace, bool are_clean) {
    workspace->common.is_clean = own_tables(workspace)->is_clean = are_clean;
}

bool ct_gpu_clear_tables(ct_device *device, ct_workspace *workspace) {
    return clear_zeros(device, workspace, own_tables(workspace)) && clear_zeros(device, workspace, &workspace->common);
}

bool ct_gpu_reserve_for(ct_device *device, ct_workspace *workspace, ct_gpu_buffer *buffer, uint64_t bytes,
                        const char *what, ct_gpu_need *need) {
    need->what = what;
    need->bytes = bytes;
    return ct_gpu_reserve(device, workspace, buffer, bytes);
}

bool ct_gpu_reserve_pinned_for(ct_device *device, ct_workspace *workspace, ct_gpu_pinned *pinned, uint64_t bytes,
                               const char *what, ct_gpu_need *need) {
    need->what = what;
    need->bytes = bytes;
    return ct_gpu_reserve_pinned(device, workspace, pinned, bytes);
}

bool ct_gpu_clear(ct_device *device, const ct_workspace *workspace, void *memory, uint64_t bytes) {
    return !bytes || ct_gpu_ok(device, cudaMemsetAsync(memory, 0, bytes, workspace->stream), "clearing memory");
}

/* ---- grids ---- */

static uint64_t blocks_of(uint64_t threads) {
    return (threads + CT_BLOCK - 1) / CT_BLOCK;
}

unsigned ct_gpu_grid_of(const ct_device *device, uint64_t threads) {
    const uint64_t blocks = blocks_of(threads);
    return (unsigned)smaller(blocks ? blocks : 1, device->grid);
}

/* Kernels with many registers have one block a multiprocessor, so a full grid is eight rounds of blocks, which for a
 * small scene look at their counts and end. A block for each multiprocessor costs no more time than a single one, and
 * a batch that is suddenly larger than those before it has as many. */
void ct_gpu_choose_grid(const ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    const uint64_t work = workspace->room[workspace->method->method].work;
    const uint64_t known = b->n_box_chunks + b->n_runs + b->n_test_chunks + blocks_of(3 * b->n_rows) +
                           blocks_of(b->n_bodies) + blocks_of(12 * (uint64_t)b->n_pose_writes);
    uint64_t blocks = larger(work, known);
    blocks = larger(blocks, larger(device->grid / CT_MOST_RESIDENT, LEAST_BLOCKS));
    workspace->grid = work ? (unsigned)smaller(blocks, device->grid) : device->grid;
}

/* Work that goes back is forgotten slowly, so that small batches between large ones do not slow these down. The sum over
 * all stages is at least what the largest of them needs. */
void ct_gpu_note_work(ct_workspace *workspace, const ct_gpu_counts *n) {
    uint64_t *work = &workspace->room[workspace->method->method].work;
    const uint64_t blocks = n->chunks + ct_large_square_count(n->large_triangles) + 4 * n->pairs + n->heavy_rows +
                            n->exact_chunks + n->cluster_tiles + n->cluster_pairs + n->slots + n->crossed +
                            n->components + n->own_components;
    const uint64_t threads = CT_CLUSTER_TRIANGLES * n->near_clusters + n->clusters + n->rays + n->quads +
                             n->candidates + 4 * CT_WIDE_SUMS * (n->candidates + n->exact_pairs) + n->spans +
                             n->cell_spans + n->triangle_pairs + n->crossings;
    *work = larger(blocks + blocks_of(threads), *work - *work / 8);
}

/* ---- phases ---- */

/* Event p marks the end of phase p - 1 and the beginning of phase p. */
bool ct_gpu_end_phase(ct_device *device, ct_workspace *workspace, ct_phase phase) {
    return ct_gpu_ok(device, cudaEventRecord(workspace->events[phase + 1], workspace->stream), "recording an event");
}

bool ct_gpu_copy_answer(ct_device *device, ct_workspace *workspace, uint64_t first, uint64_t end) {
    return ct_gpu_copy_out(device, workspace, (char *)workspace->answer_host.host + first,
                           (const char *)workspace->answer.data + first, end - first, "copying the answer") &&
           ct_gpu_end_phase(device, workspace, CT_PHASE_DOWNLOAD);
}

bool ct_gpu_copy_expected(ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    uint64_t bytes = smaller(workspace->expected_answer, workspace->capacity.answer_bytes);
    if (bytes < head_bytes(b)) bytes = head_bytes(b);
    workspace->copied_answer = bytes;
    return ct_gpu_copy_answer(device, workspace, 0, bytes);
}

bool ct_gpu_launch_pairs(ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    const ct_trace_range range("broad phase");
    device->launches += ct_cuda_build_crowds(b, workspace->grid, workspace->stream);
    device->launches += ct_cuda_find_pairs(b, workspace->grid, workspace->stream);
    return ct_gpu_end_phase(device, workspace, CT_PHASE_BROADPHASE);
}

bool ct_gpu_launch_windows(ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    const ct_trace_range range("broad phase");
    device->launches += ct_cuda_build_crowds(b, workspace->grid, workspace->stream);
    device->launches += ct_cuda_find_pairs(b, workspace->grid, workspace->stream);
    device->launches += ct_cuda_plan(b, workspace->grid, workspace->stream);
    return ct_gpu_end_phase(device, workspace, CT_PHASE_BROADPHASE);
}

bool ct_gpu_launch_answer(ct_device *device, ct_workspace *workspace, const ct_batch *b) {
    const ct_trace_range range("answer");
    device->launches += ct_cuda_answer(b, workspace->grid, workspace->stream);
    return ct_gpu_end_phase(device, workspace, CT_PHASE_CONTACT) && ct_gpu_copy_expected(device, workspace, b);
}
