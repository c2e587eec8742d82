/* method_cuda.cu - the method LDI on CUDA: its tables, and the order of its stages. */
#include "gpu/device/cuda/trace.cuh"
#include "gpu/methods/ldi/drive_cuda.cuh"

namespace {

using row_tables = ct_span_tables;

constexpr ct_gpu_table TABLES[] = {
    CT_TABLE(rays, c->rays, CT_SHORT_RAYS, CT_ZERO_BETWEEN_BATCHES, "rays", CT_COLUMN(rays, 1)),
    CT_TABLE(fragments, c->fragments, CT_SHORT_FRAGMENTS, CT_INDEXED, "ray crossings", CT_COLUMN(fragments, 1),
             CT_COLUMN(next, 1)),
    CT_TABLE(large_triangles, ct_large_triangle_count(c->large_triangles), CT_SHORT_LARGE, CT_PLAIN, "large triangles",
             CT_COLUMN(large_triangles, 1)),
    CT_TABLE(cell_spans, c->cell_spans, CT_SHORT_CELL_SPANS, CT_PLAIN, "spans of cells", CT_COLUMN(cell_spans, 1)),
};

const ct_kernel_entry *const KERNELS[] = {ct_raster_kernels, ct_draw_kernels, ct_span_kernels, ct_cell_kernels, NULL};

bool fill_step(ct_workspace *, const ct_step *step, ct_gpu_step *to) {
    to->cell_size = step->scene->settings.cell_size;
    return true;
}

/* ---- memory ---- */

constexpr uint64_t SHARD_BYTES = CT_SHARDS * sizeof(ct_gpu_shard);

bool reserve(ct_device *device, ct_workspace *workspace) {
    return ct_gpu_reserve(device, workspace, &ct_gpu_ldi(workspace)->shards, SHARD_BYTES) &&
           (!ct_gpu_ldi(workspace)->gl || ct_gpu_gl_reserve(device, workspace));
}

void limit(const ct_workspace *workspace, ct_gpu_capacity *capacity) {
    if (ct_gpu_ldi(workspace)->gl) ct_gpu_gl_limit(workspace, capacity);
}

bool grow(ct_device *device, ct_workspace *workspace, const ct_gpu_counts *counts, uint32_t shortage,
          ct_gpu_need *need) {
    return !ct_gpu_ldi(workspace)->gl || ct_gpu_gl_grow(device, workspace, counts, shortage, need);
}

void destroy_scratch(void *scratch) {
    ct_gpu_gl_destroy((ct_gpu_ldi_scratch *)scratch);
    ct_gpu_destroy_scratch<ct_gpu_ldi_scratch>(scratch);
}

/* ---- stages ---- */

bool launch_raster(ct_device *device, ct_workspace *workspace, const ct_span_tables *tables) {
    const ct_trace_range range("raster");
    unsigned n = 0;
    bool ok = true;
    if (ct_gpu_ldi(workspace)->gl)
        ok = ct_gpu_gl_draw(device, workspace, tables, &n);
    else
        n = ct_cuda_raster(tables, workspace->grid, workspace->stream);
    device->launches += n;
    return ok && ct_gpu_end_phase(device, workspace, CT_PHASE_RASTER);
}

bool launch_spans(ct_device *device, ct_workspace *workspace, const ct_span_tables *tables) {
    const ct_trace_range range("spans");
    device->launches += ct_cuda_spans(tables, workspace->grid, workspace->stream);
    return ct_gpu_end_phase(device, workspace, CT_PHASE_SPAN);
}

bool has_shortage(const ct_gpu_counts *counts, const ct_gpu_capacity *capacity) {
    return ct_gpu_raster_shortage(counts, capacity) != 0;
}

void read_facts(const void *facts, ct_weight_units *units, int64_t *rounding) {
    *units = ct_frame_units(&((const ct_gpu_plan *)facts)->window);
    *rounding = 0;
}

bool split_sides(ct_device *device, ct_workspace *workspace, const ct_batch *b, ct_gpu_need *need) {
    const ct_side_source source = {b->candidate_offset, 1,         0, b->plans, sizeof *b->plans, sizeof *b->plans,
                                   has_shortage,        read_facts};
    ct_side_tables sides = {};
    return ct_gpu_split_sides(device, workspace, b, &source, &sides, need);
}

/* Where it lacks memory the answer is launched all the same, and of no use. */
bool launch(ct_device *device, ct_workspace *workspace, ct_batch *b, ct_gpu_need *need) {
    ct_span_tables *tables = &ct_gpu_ldi(workspace)->tables;
    *(ct_answer_tables *)tables = *b;
    tables->shards = (ct_gpu_shard *)ct_gpu_ldi(workspace)->shards.data;
    ct_gpu_point_tables(workspace, &workspace->room[CT_METHOD_LDI], tables);
    if (!ct_gpu_clear(device, workspace, tables->shards, SHARD_BYTES) || !ct_gpu_launch_windows(device, workspace, b) ||
        !launch_raster(device, workspace, tables) || !launch_spans(device, workspace, tables))
        return false;
    b->lacks_memory = (b->splits_sides && !split_sides(device, workspace, b, need)) ||
                      (b->finds_cells && !ct_gpu_find_cells(device, workspace, tables, need));
    return !ct_gpu_is_over(device, workspace) && ct_gpu_launch_answer(device, workspace, b);
}

bool refuses_step(const ct_device *device, const ct_workspace *workspace, ct_step *step, uint64_t index,
                  uint32_t refused) {
    return ((const ct_gpu_step *)workspace->steps.data)[index].cell_size > 0 &&
           ct_gpu_refuse_cells(device, workspace, step, index, refused);
}

ct_gpu_method describe(void) {
    ct_gpu_method method = {};
    method.method = CT_METHOD_LDI;
    method.kernels = KERNELS;
    method.tables = TABLES;
    method.n_tables = sizeof TABLES / sizeof *TABLES;
    method.scratch_bytes = sizeof(ct_gpu_ldi_scratch);
    method.destroy_scratch = destroy_scratch;
    method.release = ct_gpu_gl_free;
    method.remedy = "use a lower resolution or a larger pixel_size";
    method.fill_step = fill_step;
    method.reserve = reserve;
    method.limit = limit;
    method.grow = grow;
    method.launch = launch;
    method.refuses_step = refuses_step;
    method.count_cells = ct_gpu_count_cells;
    method.add_cells = ct_gpu_add_cells;
    return method;
}

} // namespace

extern const ct_gpu_method ct_gpu_ldi_method = describe();
