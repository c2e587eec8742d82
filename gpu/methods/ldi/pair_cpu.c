/* pair_cpu.c - one pair on the CPU: vertices to the lattice, triangles to bins, bins to spans to sums;
 * finish_cpu.c makes the contacts. The same stages run on one thread for a small pair and on all threads for a large
 * one. */
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/mesh/clusters.h"
#include "gpu/mesh/mesh.h"
#include "gpu/methods/ldi/front_winding.h"
#include "gpu/methods/ldi/pair_cpu.h"

/* ---- vertices to the lattice ---- */

static void snap_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_pair_context *context = argument;
    ct_ldi_scratch *driver = ct_pair_driver(context);
    int b = i >= context->vertex_chunks[0];
    if (b) i -= context->vertex_chunks[0];
    if (context->lists_vertices[b]) return;
    const ct_body *body = context->pair->body[b];
    size_t first = (size_t)i * CT_PAIR_VERTEX_CHUNK, last = first + CT_PAIR_VERTEX_CHUNK;
    if (last > context->vertices[b]) last = context->vertices[b];
    context->device->kernels->snap->snap(&context->pair->window, ct_body_positions(body), ct_body_pose(body), first,
                                         last, context->is_sparse ? NULL : driver->coords[b].data,
                                         context->plan->drawing ? NULL : driver->cells[b].data);
}

/* The vertices of a run of clusters. */
static void snap_run(const ct_pair_context *context, int b, ct_triangle_run run, ct_coords *coords, ct_cells *cells) {
    const ct_body *body = context->pair->body[b];
    const ct_clusters *clusters = body->resident->clusters;
    const uint32_t first = clusters->first_vertex[run.first / CT_CLUSTER_TRIANGLES];
    const uint32_t end = clusters->first_vertex[(run.end + CT_CLUSTER_TRIANGLES - 1) / CT_CLUSTER_TRIANGLES];
    context->device->kernels->snap->snap_list(&context->pair->window, ct_body_positions(body), ct_body_pose(body),
                                              clusters->vertices + first, end - first, coords, cells);
}

/* The vertices of the near clusters alone. On one thread: clusters share vertices. */
static void snap_near(ct_pair_context *context, int b) {
    ct_ldi_scratch *driver = ct_pair_driver(context);
    for (uint32_t r = 0; r < context->near[b].n_runs; r++)
        snap_run(context, b, context->runs[b][r], context->is_sparse ? NULL : driver->coords[b].data,
                 context->plan->drawing ? NULL : driver->cells[b].data);
}

static void snap_bodies(ct_pair_context *context) {
    for (int b = 0; b < 2; b++)
        if (context->lists_vertices[b]) snap_near(context, b);
    if (!context->lists_vertices[0] || !context->lists_vertices[1])
        ct_pair_parallel_for(context, ct_all_vertex_chunks(context), snap_chunk);
}

static uint64_t sample_count(const ct_bin_plan *plan) {
    uint64_t n = 0;
    for (int w = 0; w < 3; w++) n += (uint64_t)plan->tiles[w].tile.n_u * (uint64_t)plan->tiles[w].tile.n_v;
    return n;
}

static uint64_t snapped_vertices(const ct_pair_context *context, int b) {
    return context->lists_vertices[b] ? context->near[b].n_vertices : context->vertices[b];
}

/* With far fewer samples than vertices, few triangles are kept, and writing the coordinates of all vertices would cost
 * more than everything else. Not where several threads work on the pair: two could write one vertex at the same time.
 */
static bool is_sparse(const ct_pair_context *context) {
    return !context->is_spread &&
           8 * sample_count(&context->plan->bins) < snapped_vertices(context, 0) + snapped_vertices(context, 1);
}

/* ---- triangles to bins ---- */

static void bin_chunk(void *argument, uint32_t i, uint32_t worker) {
    ct_pair_context *context = argument;
    ct_device *device = context->device;
    const ct_pair_task *pair = context->pair;
    const ct_bin_cpu *kernels = ct_ldi_kernels_of(device)->bin;
    ct_bin_scratch *scratch = &ct_ldi_scratch_of(context->workspace, worker)->binning;
    ct_binned_chunk *chunk = &ct_pair_driver(context)->chunks[i];
    int b = context->first_body;
    if (i >= context->triangle_chunks[b]) {
        i -= context->triangle_chunks[b];
        b = 1 - b;
    }
    const ct_snapped_body *snapped = &context->snapped[b];
    const uint32_t first = context->chunk_runs[b][i], end = context->chunk_runs[b][i + 1];
    ct_enter_phase("binning triangles");
    if (ct_is_cancelled() || !kernels->cull(scratch, &device->budget, snapped, context->runs[b] + first, end - first)) {
        context->has_failed = true;
        return;
    }
    if (context->is_sparse) {
        const ct_body *body = pair->body[b];
        ct_coords *coords = ct_pair_driver(context)->coords[b].data;
        for (int k = 0; k < CT_KEPT_LISTS; k++)
            device->kernels->snap->snap_corners(&pair->window, ct_body_positions(body), ct_body_pose(body),
                                                snapped->triangles, scratch->kept[k], scratch->n_kept[k], coords);
    }
    if (!kernels->bin(chunk, scratch, &device->budget, snapped, &pair->window, &context->plan->bins,
                      !ct_ldi_device_of(device)->draw))
        context->has_failed = true;
}

static void snap_and_bin(ct_pair_context *context) {
    context->is_sparse = is_sparse(context);
    snap_bodies(context);
    ct_pair_parallel_for(context, ct_all_triangle_chunks(context), bin_chunk);
}

/* ---- bins to quads, for OpenGL, whose plans are uniform and one bin across ---- */

/* The bins of view w that are drawn now: [*first, *end). False: none. */
static bool bins_to_draw(const ct_ray_plan *plan, int w, uint32_t *first, uint32_t *end) {
    *first = plan->tiles[w].first;
    *end = *first + plan->tiles[w].rows;
    if (*first < plan->first_bin) *first = plan->first_bin;
    if (*end > plan->end_bin) *end = plan->end_bin;
    return *first < *end;
}

void ct_cpu_plan_draw_regions(ct_ray_plan *plan, ct_drawing *drawing) {
    for (int w = 0; w < 3; w++) {
        uint32_t first, end;
        if (!bins_to_draw(plan, w, &first, &end)) continue;
        const ct_tile *tile = &plan->tiles[w].tile;
        const ct_bin bin = ct_bin_at(&plan->bins, first), last = ct_bin_at(&plan->bins, end - 1);
        const int32_t rows = last.first_row + last.rows - bin.first_row;
        drawing->regions[drawing->n_regions++] = (ct_draw_region){.columns = tile->n_u,
                                                                  .first_row = bin.first_row,
                                                                  .rows = rows,
                                                                  .first_ray = (int32_t)drawing->n_rays,
                                                                  .shift_u = tile->shift_u,
                                                                  .shift_v = tile->shift_v};
        plan->first_ray[w] = (int64_t)drawing->n_rays - (int64_t)bin.first_row * tile->n_u;
        drawing->n_rays += (uint32_t)rows * (uint32_t)tile->n_u;
    }
}

static void quad_chunk(void *argument, uint32_t i, uint32_t worker) {
    ct_pair_context *context = argument;
    const ct_pair_task *pair = context->pair;
    const ct_binned_chunk *chunk = &ct_pair_driver(context)->chunks[i];
    const bool is_second = (int)chunk->snapped->body != context->first_body;
    ct_quads *to = &ct_ldi_scratch_of(context->workspace, worker)->quads[is_second];
    uint32_t region = context->region, first, end;
    for (int w = 0; w < 3 && !context->has_failed; w++)
        if (bins_to_draw(context->plan, w, &first, &end) &&
            !ct_quads_add(to, &context->device->budget, &pair->window, &context->plan->bins, chunk, first, end,
                          region++))
            context->has_failed = true;
}

/* The rays that OpenGL drew of a bin. */
static void read_drawn_rays(const ct_pair_context *context, uint32_t number, ct_ray_lists *rays) {
    const ct_ray_plan *plan = context->plan;
    const ct_drawing *d = plan->drawing;
    rays->bin = ct_bin_at(&plan->bins, number);
    rays->view = rays->bin.of->view;
    const int64_t first = plan->first_ray[rays->view] + (int64_t)rays->bin.first_row * rays->bin.columns;
    bool is_counted = false;
    for (int b = 0; b < 2; b++) {
        rays->initial[b] = context->snapped[b].initial[rays->view];
        is_counted = is_counted || rays->initial[b] == CT_INITIAL_COUNTED;
    }
    rays->head = d->head + first;
    rays->winding = is_counted ? d->winding + first : NULL;
    rays->fragments = d->fragments;
    rays->first_body = context->first_body;
    rays->n_fragments = 0;
    for (size_t ray = 0; ray < ct_ray_count(rays); ray++)
        for (uint32_t f = rays->head[ray]; f != CT_END; f = rays->fragments[f].next) rays->n_fragments++;
}

/* ---- bins to spans to sums ---- */

bool ct_pair_prepare_sums(ct_pair_context *context, ct_ldi_scratch *worker) {
    const ct_pair_task *pair = context->pair;
    ct_budget *budget = &context->device->budget;
    if (worker->sums_pair == pair->number) return true;
    const size_t n = pair->n_contacts;
    if (!ct_buffer_reserve(&worker->sums_memory, budget, n * sizeof(ct_contact_sums), 0, false)) return false;
    worker->sums = worker->sums_memory.data;
    for (int b = 0; b < 2; b++) {
        const size_t plane = ct_padded_vertices(context, b), groups = plane / CT_VERTEX_GROUP;
        if (!ct_buffer_reserve(&worker->gradient_memory[b], budget, n * 3 * plane * sizeof(int64_t), 0, true) ||
            !ct_buffer_reserve(&worker->touched_memory[b], budget, n * groups, 0, true))
            return false;
        for (size_t c = 0; c < n; c++) {
            for (size_t w = 0; w < 3; w++)
                worker->sums[c].gradient[b][w] = (int64_t *)worker->gradient_memory[b].data + (3 * c + w) * plane;
            worker->sums[c].touched[b] = (uint8_t *)worker->touched_memory[b].data + c * groups;
        }
    }
    for (size_t c = 0; c < n; c++)
        for (int w = 0; w < 3; w++)
            worker->sums[c].length[w] = worker->sums[c].spans[w] = worker->sums[c].inverted[w] = 0;
    if (context->options.grid && !ct_cells_clear(&worker->span.cells, budget, context->options.grid)) return false;
    worker->rays_cast = worker->fragments = 0;
    worker->raster_seconds = worker->span_seconds = 0;
    worker->sums_pair = pair->number;
    return true;
}

/* Adds the spans of a bin to the worker's sums. *rastered_at: when its rays were rasterised and spans remained. */
static bool add_bin(ct_pair_context *context, uint32_t number, ct_ldi_scratch *worker, double *rastered_at) {
    ct_device *device = context->device;
    const ct_pair_task *pair = context->pair;
    const ct_ldi_kernels *kernels = ct_ldi_kernels_of(device);
    const ct_binned_chunk *chunks = ct_pair_driver(context)->chunks;
    const uint32_t n_chunks = ct_all_triangle_chunks(context);
    if (context->plan->drawing) {
        read_drawn_rays(context, number, &worker->rays);
    } else {
        if (ct_may_sum_large_triangles(&context->options)) {
            const ct_large_status status = kernels->span->large_triangles(
                &worker->rays, &pair->window, &context->plan->bins, number, chunks, n_chunks, &context->options,
                worker->sums, &worker->span, &device->budget, rastered_at);
            if (status != CT_LARGE_NOT_APPLICABLE) return status == CT_LARGE_DONE;
        }
        if (!kernels->raster->raster(&worker->rays, &device->budget, &pair->window, &context->plan->bins, number,
                                     chunks, n_chunks))
            return false;
    }
    *rastered_at = ct_now();
    return kernels->span->span(&worker->rays, &context->options, worker->sums, &worker->span, &device->budget);
}

static void compute_bin(void *argument, uint32_t number, uint32_t index) {
    ct_pair_context *context = argument;
    ct_ldi_scratch *worker = ct_ldi_scratch_of(context->workspace, index);
    if (context->has_failed) return;
    const double start = ct_now();
    double rastered_at = start;
    ct_enter_phase("casting rays");
    if (ct_is_cancelled_at("rays", worker->rays_cast) || !ct_pair_prepare_sums(context, worker) ||
        !add_bin(context, number, worker, &rastered_at)) {
        context->has_failed = true;
        return;
    }
    worker->rays_cast += ct_ray_count(&worker->rays);
    worker->fragments += worker->rays.n_fragments;
    worker->raster_seconds += rastered_at - start;
    worker->span_seconds += ct_now() - rastered_at;
}

/* ---- the whole ---- */

/* Lists the triangles of body b that may matter, in runs of at most CT_PAIR_TRIANGLE_CHUNK. Without current cluster
 * boxes that is all of them. */
static ct_near list_near(const ct_pair_context *context, int b, ct_triangle_run *runs) {
    const ct_pair_task *pair = context->pair;
    ct_near_body body;
    if (ct_cpu_near_body(pair, b, &body)) {
        for (int w = 0; w < 3; w++)
            if (context->snapped[b].front_winding[w]) body.initial[w] = CT_INITIAL_FROM_BALANCE; /* drops the front */
        return ct_find_near(&body, &pair->window, CT_PAIR_TRIANGLE_CHUNK, runs);
    }
    const ct_mesh *mesh = pair->body[b]->mesh;
    ct_near near = {.n_triangles = mesh->n_triangles, .n_vertices = mesh->n_vertices};
    for (uint32_t first = 0; first < mesh->n_triangles; first += CT_PAIR_TRIANGLE_CHUNK) {
        const uint32_t left = mesh->n_triangles - first;
        runs[near.n_runs++] =
            (ct_triangle_run){first, first + (left < CT_PAIR_TRIANGLE_CHUNK ? left : CT_PAIR_TRIANGLE_CHUNK)};
    }
    return near;
}

/* Finds what may matter of body b and cuts its triangles into chunks. False: out of memory. */
static bool find_near(ct_pair_context *context, int b) {
    const ct_pair_task *pair = context->pair;
    const ct_mesh *mesh = pair->body[b]->mesh;
    const ct_clusters *clusters = pair->body[b]->resident->clusters;
    ct_buffer *memory = &ct_pair_driver(context)->runs[b];
    const size_t most = clusters ? clusters->n : mesh->n_triangles / CT_PAIR_TRIANGLE_CHUNK + 1; /* runs, and chunks */
    if (!ct_buffer_reserve(memory, &context->device->budget,
                           most * sizeof(ct_triangle_run) + (most + 1) * sizeof(uint32_t), 0, false))
        return false;
    ct_triangle_run *runs = memory->data;
    uint32_t *chunk_runs = (uint32_t *)(runs + most), chunks = 0, triangles = 0;
    context->near[b] = list_near(context, b, runs);
    for (uint32_t r = 0; r < context->near[b].n_runs; r++) {
        const uint32_t n = runs[r].end - runs[r].first;
        if (chunks == 0 || triangles + n > CT_PAIR_TRIANGLE_CHUNK) {
            chunk_runs[chunks++] = r;
            triangles = 0;
        }
        triangles += n;
    }
    if (chunks == 0) chunk_runs[chunks++] = 0; /* a body without triangles near may still contain the window */
    chunk_runs[chunks] = context->near[b].n_runs;
    context->runs[b] = runs;
    context->chunk_runs[b] = chunk_runs;
    context->triangle_chunks[b] = chunks;
    /* Reading vertices from a list takes about twice as long as reading all in a row. */
    context->lists_vertices[b] = clusters && 2 * context->near[b].n_vertices < mesh->n_vertices;
    return true;
}

/* Counting along one axis may meet far fewer clusters than along the other. */
static ct_near find_straddling(const ct_near_body *body, const ct_window *window, int w, bool *along_u) {
    enum { FEW_CLUSTERS = 16 }; /* too few to look for fewer */
    const ct_near by_u = ct_find_straddling(body, window, w, true, NULL);
    *along_u = true;
    if (by_u.n_clusters <= FEW_CLUSTERS) return by_u;
    const ct_near by_v = ct_find_straddling(body, window, w, false, NULL);
    *along_u = by_u.n_clusters <= by_v.n_clusters;
    return *along_u ? by_u : by_v;
}

/* A cluster costs about four times as much where crossings are counted as where loops are followed. */
enum { COUNTING_COST = 4 };

/* Computes the initial winding numbers of a view of body b from the loops of its front, if that is faster than counting
 * the crossings of all that lies in front. False: out of memory. */
static bool find_view_front_winding(ct_pair_context *context, int b, int w, const ct_near_body *body,
                                    int32_t *winding) {
    const ct_window *window = &context->pair->window;
    ct_ldi_scratch *driver = ct_pair_driver(context);
    bool along_u;
    const ct_near near = find_straddling(body, window, w, &along_u);
    if (!ct_has_in_front(body, window, w, near.n_clusters / COUNTING_COST)) return true;
    if (!ct_buffer_reserve(&driver->front_runs, &context->device->budget, near.n_runs * sizeof(ct_triangle_run), 0,
                           false))
        return false;
    ct_triangle_run *runs = driver->front_runs.data;
    ct_find_straddling(body, window, w, along_u, runs);
    for (uint32_t r = 0; r < near.n_runs; r++) snap_run(context, b, runs[r], driver->coords[b].data, NULL);
    const ct_front_loops loops = {.coords = driver->coords[b].data,
                                  .triangles = context->snapped[b].triangles,
                                  .runs = runs,
                                  .n_runs = near.n_runs,
                                  .along_u = along_u};
    ct_count_front_winding(&loops, window, w, winding);
    context->snapped[b].front_winding[w] = winding;
    return true;
}

/* False: out of memory. */
static bool find_front_winding(ct_pair_context *context, int b) {
    const ct_pair_task *pair = context->pair;
    ct_near_body body;
    if (ct_ldi_device_of(context->device)->draw || !ct_cpu_near_body(pair, b, &body)) return true;
    size_t first = 0;
    ct_buffer *memory = &ct_pair_driver(context)->front_winding[b];
    if (!ct_buffer_reserve(memory, &context->device->budget, sample_count(&context->plan->bins) * sizeof(int32_t), 0,
                           false))
        return false;
    for (int w = 0; w < 3; w++) {
        if (body.initial[w] == CT_INITIAL_COUNTED &&
            (ct_is_cancelled() || !find_view_front_winding(context, b, w, &body, (int32_t *)memory->data + first)))
            return false;
        first += (size_t)context->plan->tiles[w].tile.n_u * (size_t)context->plan->tiles[w].tile.n_v;
    }
    return true;
}

static bool reserve_chunks(ct_pair_context *context) {
    ct_ldi_scratch *driver = ct_pair_driver(context);
    const size_t n = ct_all_triangle_chunks(context);
    if (n <= driver->n_chunks) return true;
    if (!ct_buffer_reserve(&driver->chunk_memory, &context->device->budget, n * sizeof(ct_binned_chunk),
                           driver->n_chunks * sizeof(ct_binned_chunk), true))
        return false;
    driver->chunks = driver->chunk_memory.data;
    driver->n_chunks = driver->chunk_memory.capacity / sizeof(ct_binned_chunk);
    return true;
}

/* Part 1 of a body with itself: its sums come from part 0's (sides_k.h), so it has vertices, but nothing of it is
 * snapped or rasterised. */
static void prepare_part_1(ct_pair_context *context) {
    context->snapped[1] = (ct_snapped_body){.body = 1};
    context->near[1] = (ct_near){0};
    context->triangle_chunks[1] = 0;
    context->lists_vertices[1] = true;
}

bool ct_pair_prepare_vertices(ct_pair_context *context) {
    ct_budget *budget = &context->device->budget;
    ct_ldi_scratch *driver = ct_pair_driver(context);
    const ct_pair_task *pair = context->pair;
    context->options = (ct_span_options){.rule = context->plan->rule,
                                         .keep_spans = (pair->step->want & CT_WANT_SPANS) != 0,
                                         .contact = 0,
                                         .has_cell_gradient = (pair->step->want & CT_WANT_ENTRIES) != 0};
    if (pair->settings->cell_size > 0 && !ct_pair_place_walls(context)) return false;
    for (int b = 0; b < 2; b++) {
        const ct_mesh *mesh = pair->body[b]->mesh;
        context->vertices[b] = mesh->n_vertices;
        context->options.triangles[b] = mesh->triangles;
        context->vertex_chunks[b] = (mesh->n_vertices + CT_PAIR_VERTEX_CHUNK - 1) / CT_PAIR_VERTEX_CHUNK;
        if (b == 1 && ct_is_self_task(pair)) break;
        /* Zeroed: SIMD code multiplies the coordinates of vertices without a sum by 0, so they must be initialised. */
        if (!ct_buffer_reserve(&driver->coords[b], budget, ct_padded_vertices(context, b) * sizeof(ct_coords), 0, true))
            return false;
    }
    if (!ct_buffer_reserve(&driver->compacted, budget, ct_all_vertex_chunks(context) * sizeof(ct_compacted_chunk), 0,
                           false))
        return false;
    context->compacted = driver->compacted.data;
    driver->span.n_spans = 0;
    return true;
}

static bool prepare(ct_pair_context *context) {
    ct_device *device = context->device;
    ct_ldi_scratch *driver = ct_pair_driver(context);
    const ct_pair_task *pair = context->pair;
    if (!ct_pair_prepare_vertices(context)) return false;
    for (int b = 0; b < 2; b++) {
        if (b == 1 && ct_is_self_task(pair)) {
            prepare_part_1(context);
            break;
        }
        const ct_mesh *mesh = pair->body[b]->mesh;
        if (!ct_buffer_reserve(&driver->cells[b], &device->budget, mesh->n_vertices * sizeof(ct_cells), 0, false))
            return false;
        context->snapped[b] = (ct_snapped_body){.coords = driver->coords[b].data,
                                                .cells = driver->cells[b].data,
                                                .triangles = mesh->triangles,
                                                .n_triangles = mesh->n_triangles,
                                                .body = (uint32_t)b};
        for (int w = 0; w < 3; w++)
            context->snapped[b].initial[w] =
                (uint8_t)ct_find_initial_winding(&pair->body[b]->box, &pair->body[1 - b]->box, w);
        if (!find_front_winding(context, b) || !find_near(context, b)) return false;
    }
    context->first_body = context->snapped[1].n_triangles > context->snapped[0].n_triangles;
    return reserve_chunks(context);
}

static void compute_drawn_bin(void *argument, uint32_t i, uint32_t worker) {
    const ct_pair_context *context = argument;
    compute_bin(argument, context->plan->first_bin + i, worker);
}

/* Draws the pair's bins and computes their spans: all at once, or as many at a time as fit OpenGL's limits, or memory.
 */
static void draw_bins(ct_pair_context *context) {
    ct_ray_plan *plan = context->plan;
    uint32_t most = plan->bins.n_bins;
    for (plan->first_bin = 0; plan->first_bin < plan->bins.n_bins && !context->has_failed;) {
        ct_draw_region regions[3];
        ct_drawing drawing = {.regions = regions};
        uint32_t left = plan->bins.n_bins - plan->first_bin;
        plan->end_bin = plan->first_bin + (left < most ? left : most);
        double start = ct_now();
        ct_cpu_plan_draw_regions(plan, &drawing);
        ct_pair_parallel_for(context, ct_all_triangle_chunks(context), quad_chunk);
        ct_status status = ct_cpu_draw(context->workspace, context->has_failed ? NULL : &drawing);
        context->pair->seconds[CT_PHASE_RASTER] += ct_now() - start;
        uint32_t n = plan->end_bin - plan->first_bin;
        context->has_failed = status && (status == CT_DEVICE_ERROR || n == 1);
        /* A row of bins that the rasteriser has no room for is a lack of memory: LIMIT_EXCEEDED is for cells. */
        if (context->has_failed) context->status = status == CT_LIMIT_EXCEEDED ? CT_OUT_OF_MEMORY : status;
        if (status) {
            most = n / 2;
            continue;
        }
        plan->drawing = &drawing;
        ct_pair_parallel_for(context, n, compute_drawn_bin);
        plan->drawing = NULL;
        plan->first_bin = plan->end_bin;
    }
}

ct_pair_context ct_pair_context_of(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, bool is_spread) {
    return (ct_pair_context){.device = workspace->device,
                             .workspace = workspace,
                             .pair = pair,
                             .plan = pair->plan,
                             .driver = worker,
                             .is_spread = is_spread,
                             .first_worker = is_spread ? 0 : worker,
                             .end_worker = is_spread ? workspace->device->threads : worker + 1};
}

bool ct_cpu_make_quads(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, uint32_t region) {
    ct_pair_context context = ct_pair_context_of(workspace, pair, worker, false);
    if (!prepare(&context)) return false;
    context.region = region;
    snap_and_bin(&context);
    if (!context.has_failed) ct_pair_parallel_for(&context, ct_all_triangle_chunks(&context), quad_chunk);
    return !context.has_failed;
}

void ct_cpu_compute_pair(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, bool is_spread) {
    ct_pair_context context = ct_pair_context_of(workspace, pair, worker, is_spread);
    double start = ct_now(), binned = start;
    if (!prepare(&context)) {
        context.has_failed = true;
    } else if (context.plan->drawing) { /* already drawn; finishing needs the vertices' coordinates once more */
        snap_bodies(&context);
        binned = ct_now();
        ct_pair_parallel_for(&context, context.plan->bins.n_bins, compute_bin);
    } else {
        snap_and_bin(&context);
        binned = ct_now();
        if (ct_ldi_device_of(workspace->device)->draw && !context.has_failed)
            draw_bins(&context);
        else if (!context.has_failed)
            ct_pair_parallel_for(&context, context.plan->bins.n_bins, compute_bin);
    }
    double summed = ct_now();
    ct_pair_finish(&context);
    pair->seconds[CT_PHASE_RASTER] += binned - start;
    pair->seconds[CT_PHASE_CONTACT] += ct_now() - summed;
    if (context.has_failed) {
        pair->status = context.status ? context.status : ct_failure();
        ct_cpu_clear_pair(pair);
    }
}
