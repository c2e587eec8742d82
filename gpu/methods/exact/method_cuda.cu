/* method_cuda.cu - the method `exact` on CUDA: its tables, and the order of its stages. */
#include "gpu/device/cuda/trace.cuh"
#include "gpu/methods/exact/drive_cuda.cuh"

extern "C" {
#include "gpu/methods/exact/exact.h"
}

namespace {

using row_tables = ct_exact_tables;

constexpr ct_gpu_table TABLES[] = {
    CT_TABLE(exact_pairs, c->exact_pairs, CT_SHORT_EXACT_PAIRS, CT_PLAIN, "pairs", CT_COLUMN(exact, 1),
             CT_COLUMN(side_sums, 4), CT_COLUMN(second_pairs, 1), CT_OFFSETS(cluster_tile_offset, 1),
             CT_OFFSETS(component_offset, 2)),
    CT_TABLE(exact_chunks, c->exact_chunks, CT_SHORT_VERTEX_CHUNKS, CT_PLAIN, "vertices", CT_COLUMN(chunk_best, 3)),
    CT_TABLE(slots, c->slots, CT_SHORT_SLOTS, CT_INDEXED, "clusters of triangles", CT_COLUMN(slots, 1),
             CT_COLUMN(slot_sums, 2), CT_COLUMN(second_slots, 1)),
    CT_TABLE(side_clusters, c->side_clusters, CT_SHORT_SIDES, CT_PLAIN, "the bodies' clusters",
             CT_COLUMN(slot_of_cluster, 1)),
    CT_TABLE(units, c->units, CT_SHORT_SIDES, CT_PLAIN, "winding numbers", CT_COLUMN(potential, 2)),
    CT_TABLE(components, c->components, CT_SHORT_SIDES, CT_PLAIN, "the bodies' connected components",
             CT_COLUMN(base, 2)),
    CT_TABLE(own_numbers, c->own_numbers, CT_SHORT_SIDES, CT_PLAIN, "winding numbers of bodies with themselves",
             CT_COLUMN(own_numbers, 1)),
    CT_TABLE(cluster_pairs, c->cluster_pairs, CT_SHORT_CLUSTER_PAIRS, CT_INDEXED, "pairs of clusters",
             CT_COLUMN(cluster_pairs, 1)),
    CT_TABLE(triangle_pairs, c->triangle_pairs, CT_SHORT_TRIANGLE_PAIRS, CT_PLAIN, "pairs of triangles",
             CT_COLUMN(triangle_pairs, 1)),
    CT_TABLE(crossings, c->crossings, CT_SHORT_CROSSINGS, CT_INDEXED, "crossings", CT_COLUMN(crossings, 1),
             CT_COLUMN(totals, 2), CT_COLUMN(crossing_keys, 2), CT_COLUMN(crossing_index, 2)),
    CT_TABLE(crossed, c->crossed, CT_SHORT_CROSSED, CT_PLAIN, "crossed clusters", CT_COLUMN(crossed, 1)),
    CT_TABLE(windings, c->windings, CT_SHORT_CROSSED, CT_PLAIN, "winding numbers", CT_COLUMN(windings, 1)),
    CT_TABLE(recrossings, c->recrossings, CT_SHORT_SECOND, CT_PLAIN, "segments of crossing triangles",
             CT_COLUMN(recrossings, 2)),
    CT_TABLE(second_sums, c->second_sums, CT_SHORT_SECOND, CT_PLAIN, "second derivatives", CT_COLUMN(second_sums, 1)),
};

const ct_kernel_entry *const KERNELS[] = {
    ct_plan_exact_kernels, ct_cross_kernels,        ct_crossed_kernels, ct_flood_kernels, ct_surface_kernels,
    ct_second_kernels,     ct_finish_exact_kernels, ct_piece_kernels,   ct_own_kernels,   NULL};

bool fill_step(ct_workspace *workspace, const ct_step *step, ct_gpu_step *to) {
    to->takes_half_spaces = 1;
    to->wants_patches = step->scene->settings.patches != 0;
    return ct_gpu_send_directions(workspace, step, to);
}

void limit(const ct_workspace *workspace, ct_gpu_capacity *capacity) {
    const ct_gpu_exact_scratch *scratch = ct_gpu_exact(workspace);
    capacity->found_units = scratch->found_units.bytes / sizeof(ct_found_unit);
    capacity->found_facings = scratch->found_facings.bytes / sizeof(ct_piece_facing[CT_PIECE_FACINGS]);
    capacity->ray_hits = scratch->ray_hits.bytes / sizeof(ct_met_triangle);
}

/* ---- stages ---- */

bool has_shortage(const ct_gpu_counts *counts, const ct_gpu_capacity *capacity) {
    return ct_gpu_raster_shortage(counts, capacity) || ct_exact_cross_shortage(counts, capacity);
}

/* As ct_exact_split_sides: areas are in one unit, and a share is rounded to a step at each of its triangle's corners.
 */
void read_facts(const void *n_added, ct_weight_units *units, int64_t *rounding) {
    *units = {{1, 1, 1}};
    *rounding = (int64_t)(1.5 * CT_CLUSTER_TRIANGLES * (double)*(const uint32_t *)n_added);
}

/* Only where the step wants it, as on the CPU, whose volume has the rounding of the two sides' sums then. */
bool split_sides(ct_device *device, ct_workspace *workspace, const ct_exact_tables *tables, ct_gpu_need *need) {
    const uint32_t *n_added = &tables->exact->own.n_added;
    const ct_side_source source = {tables->vertex_chunk_offset,
                                   2,
                                   (uint32_t)CT_WANT_ENTRIES | (uint32_t)CT_WANT_INERTIA,
                                   n_added,
                                   sizeof *n_added,
                                   sizeof *tables->exact,
                                   has_shortage,
                                   read_facts};
    ct_side_tables sides = {};
    if (!ct_gpu_split_sides(device, workspace, tables, &source, &sides, need)) return false;
    if (sides.n) device->launches += ct_cuda_sum_part_1(tables, &sides, workspace->grid, workspace->stream);
    return true;
}

bool launch(ct_device *device, ct_workspace *workspace, ct_batch *b, ct_gpu_need *need) {
    const ct_trace_range range("exact");
    cudaStream_t stream = workspace->stream;
    const unsigned grid = workspace->grid;
    ct_exact_tables *tables = &ct_gpu_exact(workspace)->tables;
    *tables = ct_exact_tables();
    *(ct_answer_tables *)tables = *b;
    ct_gpu_point_tables(workspace, &workspace->room[CT_METHOD_EXACT], tables);
    tables->finds_own = b->finds_own;
    tables->finds_second = b->finds_second;
    tables->found_pairs = b->pairs;
    tables->found_row_offset = b->row_offset;
    if (!ct_gpu_launch_pairs(device, workspace, b)) return false;
    device->launches += ct_cuda_plan_exact(tables, grid, stream);
    device->launches += ct_cuda_cross(tables, grid, stream);
    device->launches += ct_cuda_total_crossings(tables, grid, stream);
    if (!ct_gpu_end_phase(device, workspace, CT_PHASE_RASTER)) return false;
    device->launches += ct_cuda_find_windings(tables, grid, stream);
    if (b->finds_own) device->launches += ct_cuda_find_own_windings(tables, grid, stream);
    if (b->finds_pieces) b->lacks_memory = !ct_gpu_split_pairs(device, workspace, tables, need);
    if (ct_gpu_is_over(device, workspace)) return false;
    device->launches += ct_cuda_add_surface(tables, grid, stream);
    if (b->splits_sides && !b->lacks_memory) b->lacks_memory = !split_sides(device, workspace, tables, need);
    if (ct_gpu_is_over(device, workspace) || !ct_gpu_end_phase(device, workspace, CT_PHASE_SPAN)) return false;
    device->launches += ct_cuda_finish_exact(tables, grid, stream);
    return ct_gpu_end_phase(device, workspace, CT_PHASE_CONTACT) && ct_gpu_copy_expected(device, workspace, b);
}

ct_gpu_method describe(void) {
    ct_gpu_method method = {};
    method.method = CT_METHOD_EXACT;
    method.kernels = KERNELS;
    method.tables = TABLES;
    method.n_tables = sizeof TABLES / sizeof *TABLES;
    method.scratch_bytes = sizeof(ct_gpu_exact_scratch);
    method.destroy_scratch = ct_gpu_destroy_scratch<ct_gpu_exact_scratch>;
    method.needs_volumes = true;
    method.remedy = "choose method \"ldi\"";
    method.prepare = ct_gpu_prepare_exact;
    method.fill_step = fill_step;
    method.limit = limit;
    method.launch = launch;
    method.copy_more = ct_gpu_copy_second;
    method.finish_result = ct_gpu_add_second;
    return method;
}

} // namespace

extern const ct_gpu_method ct_gpu_exact_method = describe();
