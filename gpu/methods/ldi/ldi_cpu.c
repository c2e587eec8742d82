/* ldi_cpu.c - the method LDI on the CPU: three uniform views per pair, one contact (Faure 2008); its slots. */
#include "gpu/mesh/mesh.h"
#include "gpu/method/backend_cpu.h"
#include "gpu/methods/ldi/cells.h"
#include "gpu/methods/ldi/pair_cpu.h"
#include "gpu/view/view.h"

/* A bin's fragments should fit a core's L2 cache: 16,384 rays of a few layers of 20 bytes are about a megabyte. */
enum { BIN_SAMPLES = 16384 };

/* Wider tiles are cut across as well, else a bin would be a strip of few rows that every large triangle crosses. */
enum { BIN_COLUMNS = 1024 };

/* Where OpenGL draws, a bin is also the rectangle that a large triangle is drawn as: the lower it is, the fewer samples
 * beside the triangle are tested. */
enum { DRAWN_BIN_SAMPLES = 2048 };

/* Meshes so small that the estimate need not know how much of them is near. */
enum { FEW_TRIANGLES = 4096 };

/* ---- memory ---- */

static void free_scratch(ct_ldi_scratch *scratch, ct_budget *budget) {
    for (size_t k = 0; k < scratch->n_chunks; k++) ct_binned_chunk_free(&scratch->chunks[k], budget);
    ct_bin_scratch_free(&scratch->binning, budget);
    scratch->chunks = NULL;
    scratch->n_chunks = 0;
    ct_buffer *buffers[] = {&scratch->coords[0],
                            &scratch->coords[1],
                            &scratch->cells[0],
                            &scratch->cells[1],
                            &scratch->runs[0],
                            &scratch->runs[1],
                            &scratch->front_runs,
                            &scratch->front_winding[0],
                            &scratch->front_winding[1],
                            &scratch->chunk_memory,
                            &scratch->quads[0].memory,
                            &scratch->quads[1].memory,
                            &scratch->rays.head_memory,
                            &scratch->rays.fragment_memory,
                            &scratch->rays.winding_memory,
                            &scratch->span.ray,
                            &scratch->span.spans,
                            &scratch->span.covers,
                            &scratch->span.cells.table,
                            &scratch->span.cells.cells,
                            &scratch->span.cells.records,
                            &scratch->span.cells.column_memory,
                            &scratch->cell_sums.sums[0],
                            &scratch->cell_sums.sums[1],
                            &scratch->cell_sums.touched[0],
                            &scratch->cell_sums.touched[1],
                            &scratch->cell_sums.compact,
                            &scratch->walls,
                            &scratch->parts,
                            &scratch->cell_order,
                            &scratch->compacted,
                            &scratch->sums_memory,
                            &scratch->gradient_memory[0],
                            &scratch->gradient_memory[1],
                            &scratch->touched_memory[0],
                            &scratch->touched_memory[1]};
    for (size_t k = 0; k < sizeof buffers / sizeof *buffers; k++) ct_buffer_free(buffers[k], budget);
}

/* The sums of all threads must be zero. */
static void release(ct_workspace *workspace) {
    ct_device *device = workspace->device;
    for (uint32_t w = 0; w < device->threads; w++) free_scratch(ct_ldi_scratch_of(workspace, w), &device->budget);
    ct_cpu_gl_release(workspace);
    ct_buffer_free(&ct_ldi_workspace_of(workspace)->regions, &device->budget);
}

/* ---- pairs ---- */

/* Estimate in ns. Only the choice between one thread and several depends on it. */
static double cost_of(const ct_pair_task *pair) {
    double triangles = 0, samples = 0;
    for (int b = 0; b < (ct_is_self_task(pair) ? 1 : 2); b++) {
        const uint32_t all = pair->body[b]->mesh->n_triangles;
        triangles += all < FEW_TRIANGLES ? all : (double)ct_cpu_count_near(pair, b);
    }
    const ct_ray_plan *plan = pair->plan;
    for (int w = 0; w < 3; w++) samples += (double)plan->tiles[w].tile.n_u * plan->tiles[w].tile.n_v;
    return 2000 + 12 * triangles + 12 * samples;
}

static ct_status plan_pair(const ct_device *device, const ct_scene_settings *settings, ct_pair_task *pair,
                           ct_error *error) {
    ct_ray_plan *plan = pair->plan;
    const bool is_drawn = ct_ldi_device_of(device)->draw;
    plan->part = ct_cpu_find_part(pair);
    ct_status status =
        ct_view_plan_part(&pair->body[0]->box, &pair->body[1]->box, &plan->part, settings, &pair->window, error);
    if (!status && settings->cell_size > 0)
        status = ct_plan_cell_axes(&pair->window, settings->cell_size, plan->cells, error);
    if (status) return status;
    plan->bins = ct_bin_plan_views(&pair->window, is_drawn ? DRAWN_BIN_SAMPLES : BIN_SAMPLES,
                                   is_drawn ? CT_MAX_RESOLUTION : BIN_COLUMNS, plan->tiles);
    plan->rule = ct_is_self_task(pair) ? CT_SPAN_OF_SELF : CT_SPAN_OF_PAIR;
    pair->n_contacts = 1;
    pair->cost = cost_of(pair);
    return CT_OK;
}

static const ct_ldi_kernels kernels_base = {&ct_bin_cpu_base, &ct_raster_cpu_base, &ct_span_cpu_base};
#ifdef __x86_64__
static const ct_ldi_kernels kernels_avx2 = {&ct_bin_cpu_avx2, &ct_raster_cpu_avx2, &ct_span_cpu_avx2};
#endif

const ct_cpu_method ct_cpu_ldi_method = {.kernels = CT_KERNELS(kernels),
                                         .device_bytes = sizeof(ct_ldi_device),
                                         .workspace_bytes = sizeof(ct_ldi_workspace),
                                         .thread_bytes = sizeof(ct_ldi_scratch),
                                         .pair_bytes = sizeof(ct_ray_plan),
                                         .release = release,
                                         .plan = plan_pair,
                                         .compute = ct_cpu_compute_pair,
                                         .compute_small = ct_cpu_draw_pairs,
                                         .keeps_answers = true};

void ct_cpu_run_ldi(ct_device *device, ct_step *steps, size_t n_steps) {
    ct_cpu_run_pairs(device, steps, n_steps, &ct_cpu_ldi_method);
}
