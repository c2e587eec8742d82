/* job.c - one pair on the CPU: vertices to the lattice, triangles to bands, bands to spans to sums, of which finish.c
 * makes the answer. The same stages run on one thread for a small pair and spread over all threads for a large one. */
#include <string.h>

#include "gpu/backend/cpu/pair_context.h"
#include "gpu/mesh/mesh.h"

enum { TRIANGLE_CHUNK = 1 << 14 };

/* ---- vertices to the lattice ---- */

static const float *positions_of(const ct_body *body) {
    return body->kind == CT_BODY_RIGID ? body->mesh->positions : body->resident->positions;
}

static const double *pose_of(const ct_body *body) {
    return body->kind == CT_BODY_RIGID ? body->pose : NULL;
}

static void snap_chunk(void *context, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_pair_context *run = context;
    ct_thread_scratch *driver = &run->workspace->workers[run->driver];
    int b = i >= run->vertex_chunks[0];
    if (b) i -= run->vertex_chunks[0];
    const ct_body *body = run->job->body[b];
    size_t first = (size_t)i * CT_PAIR_VERTEX_CHUNK, last = first + CT_PAIR_VERTEX_CHUNK;
    if (last > run->vertices[b]) last = run->vertices[b];
    run->device->kernels->snap->snap(&run->job->window, positions_of(body), pose_of(body), first, last,
                                     run->sparse ? NULL : driver->coords[b].data,
                                     run->job->drawing ? NULL : driver->cells[b].data);
}

/* Where there are far fewer samples than vertices, few triangles are kept, and writing the coordinates of all
 * vertices would cost more than all the rest. (Not where threads share vertices: two would write one at the same time.)
 */
static bool is_sparse(const ct_pair_context *run) {
    uint64_t samples = 0;
    for (int w = 0; w < 3; w++) {
        const ct_lattice *a = run->job->window.axis;
        samples += (uint64_t)a[ct_view_u(w)].n * (uint64_t)a[ct_view_v(w)].n;
    }
    return !run->spread && 8 * samples < (uint64_t)run->vertices[0] + run->vertices[1];
}

/* ---- triangles to bands ---- */

static void bin_chunk(void *context, uint32_t i, uint32_t worker) {
    ct_pair_context *run = context;
    ct_device *device = run->device;
    const ct_kernels *kernels = device->kernels;
    ct_bin_scratch *scratch = &run->workspace->workers[worker].binning;
    ct_bin *bin = &run->workspace->workers[run->driver].bins[i];
    int b = run->first;
    if (i >= run->triangle_chunks[b]) {
        i -= run->triangle_chunks[b];
        b = 1 - b;
    }
    const ct_snapped_body *placed = &run->placed[b];
    uint32_t first = i * TRIANGLE_CHUNK, last = first + TRIANGLE_CHUNK;
    if (last > placed->n_triangles) last = placed->n_triangles;
    if (!kernels->bin->cull(scratch, &device->budget, placed, first, last)) {
        run->failed = true;
        return;
    }
    if (run->sparse) {
        const ct_body *body = run->job->body[b];
        ct_coords *coords = run->workspace->workers[run->driver].coords[b].data;
        for (int k = 0; k < CT_KEPT_LISTS; k++)
            kernels->snap->snap_corners(&run->job->window, positions_of(body), pose_of(body), placed->triangles,
                                        scratch->kept[k], scratch->n_kept[k], coords);
    }
    if (!kernels->bin->bin(bin, scratch, &device->budget, placed, &run->job->window, &run->job->bands, !device->drawer))
        run->failed = true;
}

/* All triangles in bins, and where they are. */
static void place(ct_pair_context *run) {
    run->sparse = is_sparse(run);
    ct_pair_parallel_for(run, run->vertex_chunks[0] + run->vertex_chunks[1], snap_chunk);
    ct_pair_parallel_for(run, run->triangle_chunks[0] + run->triangle_chunks[1], bin_chunk);
}

/* ---- bands to patches, for OpenGL ---- */

/* The bands of view w that are to be drawn, [*first, *end). False: none. */
static bool bands_to_draw(const ct_pair_task *job, int w, uint32_t *first, uint32_t *end) {
    *first = job->bands.first[w];
    *end = *first + job->bands.count[w];
    if (*first < job->first_band) *first = job->first_band;
    if (*end > job->end_band) *end = job->end_band;
    return *first < *end;
}

void ct_cpu_plan_draw_regions(ct_pair_task *job, ct_drawing *drawing) {
    for (int w = 0; w < 3; w++) {
        uint32_t first, end;
        if (!bands_to_draw(job, w, &first, &end)) continue;
        const ct_lattice *lu = &job->window.axis[ct_view_u(w)], *lv = &job->window.axis[ct_view_v(w)];
        int32_t first_row = (int32_t)(first - job->bands.first[w]) << job->bands.shift[w];
        int32_t end_row = (int32_t)(end - job->bands.first[w]) << job->bands.shift[w];
        if (end_row > lv->n) end_row = lv->n;
        drawing->tiles[drawing->n_tiles++] = (ct_draw_region){.columns = lu->n,
                                                              .first_row = first_row,
                                                              .rows = end_row - first_row,
                                                              .first_ray = (int32_t)drawing->n_rays,
                                                              .shift_u = lu->shift,
                                                              .shift_v = lv->shift};
        job->first_ray[w] = (int64_t)drawing->n_rays - (int64_t)first_row * lu->n;
        drawing->n_rays += (uint32_t)(end_row - first_row) * (uint32_t)lu->n;
    }
}

static void patch_chunk(void *context, uint32_t i, uint32_t index) {
    ct_pair_context *run = context;
    const ct_pair_task *job = run->job;
    const ct_bin *bin = &run->workspace->workers[run->driver].bins[i];
    ct_patches *to = &run->workspace->workers[index].patches[(int)bin->placed->body != run->first];
    uint32_t tile = run->tile, first, end;
    for (int w = 0; w < 3 && !run->failed; w++)
        if (bands_to_draw(job, w, &first, &end) &&
            !ct_patches_add(to, &run->device->budget, &job->window, &job->bands, bin, w, first, end, tile++))
            run->failed = true;
}

/* What OpenGL drew of band i. */
static void take_rays(const ct_pair_context *run, uint32_t i, ct_ray_lists *rays) {
    const ct_pair_task *job = run->job;
    const ct_drawing *d = job->drawing;
    int w = i >= job->bands.first[2] ? 2 : i >= job->bands.first[1] ? 1 : 0;
    int32_t n_rows = job->window.axis[ct_view_v(w)].n;
    rays->view = w;
    rays->columns = job->window.axis[ct_view_u(w)].n;
    rays->first_row = (int32_t)(i - job->bands.first[w]) << job->bands.shift[w];
    rays->rows = 1 << job->bands.shift[w];
    if (rays->rows > n_rows - rays->first_row) rays->rows = n_rows - rays->first_row;
    int64_t first = job->first_ray[w] + (int64_t)rays->first_row * rays->columns;
    bool counted = false;
    for (int b = 0; b < 2; b++) {
        rays->entry[b] = run->placed[b].entry[w];
        counted = counted || rays->entry[b] == CT_INITIAL_COUNTED;
    }
    rays->head = d->head + first;
    rays->winding = counted ? d->winding + first : NULL;
    rays->fragments = d->fragments;
    rays->first_body = run->first;
    rays->n_fragments = 0;
    for (int64_t ray = 0; ray < (int64_t)rays->rows * rays->columns; ray++)
        for (uint32_t f = rays->head[ray]; f != CT_END; f = rays->fragments[f].next) rays->n_fragments++;
}

/* ---- bands to spans to sums ---- */

static bool prepare_sums(ct_pair_context *run, ct_thread_scratch *worker) {
    if (worker->sums_job == run->job->number) return true;
    for (int b = 0; b < 2; b++) {
        const size_t plane = ct_padded_vertices(run, b), marks = plane / CT_VERTEX_GROUP;
        /* The sums are all zero, so are kept so when they have to grow. */
        if (!ct_buffer_reserve(&worker->gradient_memory[b], &run->device->budget, 3 * plane * sizeof(int64_t), 0,
                               true) ||
            !ct_buffer_reserve(&worker->touched_memory[b], &run->device->budget, marks, 0, true))
            return false;
        for (int w = 0; w < 3; w++)
            worker->sums.gradient[b][w] = (int64_t *)worker->gradient_memory[b].data + (size_t)w * plane;
        worker->sums.touched[b] = worker->touched_memory[b].data;
    }
    memset(worker->sums.length, 0, sizeof worker->sums.length);
    worker->rays_cast = worker->fragments = 0;
    worker->raster_seconds = worker->span_seconds = 0;
    worker->sums_job = run->job->number;
    return true;
}

static void band(void *context, uint32_t i, uint32_t index) {
    ct_pair_context *run = context;
    ct_device *device = run->device;
    ct_thread_scratch *worker = &run->workspace->workers[index], *driver = &run->workspace->workers[run->driver];
    const ct_kernels *k = device->kernels;
    if (run->failed) return;
    const uint32_t n_bins = run->triangle_chunks[0] + run->triangle_chunks[1];
    const bool keep = run->job->want & CT_WANT_SPANS;
    double start = ct_now();
    ct_large_status coarse = CT_LARGE_NOT_APPLICABLE;
    bool ok = prepare_sums(run, worker);
    if (ok && run->job->drawing)
        take_rays(run, i, &worker->rays);
    else if (ok && !keep)
        coarse = k->span->coarse(&worker->rays, &run->job->window, &run->job->bands, i, driver->bins, n_bins,
                                 run->triangles, &worker->sums, &worker->span, &device->budget);
    if (ok && !run->job->drawing && coarse == CT_LARGE_NOT_APPLICABLE)
        ok = k->raster->raster(&worker->rays, &device->budget, &run->job->window, &run->job->bands, i, driver->bins,
                               n_bins);
    if (!ok || coarse == CT_LARGE_FAILED) {
        run->failed = true;
        return;
    }
    double middle = ct_now();
    worker->rays_cast += (uint64_t)worker->rays.rows * (uint64_t)worker->rays.columns;
    worker->fragments += worker->rays.n_fragments;
    worker->raster_seconds += middle - start; /* a coarse band is done by now */
    if (coarse == CT_LARGE_DONE) return;
    if (!k->span->span(&worker->rays, run->triangles, &worker->sums, &worker->span, &device->budget, keep))
        run->failed = true;
    worker->span_seconds += ct_now() - middle;
}

/* ---- the whole ---- */

static bool prepare(ct_pair_context *run) {
    ct_device *device = run->device;
    ct_thread_scratch *driver = &run->workspace->workers[run->driver];
    for (int b = 0; b < 2; b++) {
        const ct_mesh *mesh = run->job->body[b]->mesh;
        run->vertices[b] = mesh->n_vertices;
        run->triangles[b] = mesh->triangles;
        run->vertex_chunks[b] = (mesh->n_vertices + CT_PAIR_VERTEX_CHUNK - 1) / CT_PAIR_VERTEX_CHUNK;
        run->triangle_chunks[b] = (mesh->n_triangles + TRIANGLE_CHUNK - 1) / TRIANGLE_CHUNK;
        /* Coordinates of vertices without a sum are multiplied by it, whatever they are: but they are something. */
        if (!ct_buffer_reserve(&driver->coords[b], &device->budget, ct_padded_vertices(run, b) * sizeof(ct_coords), 0,
                               true) ||
            !ct_buffer_reserve(&driver->cells[b], &device->budget, mesh->n_vertices * sizeof(ct_cells), 0, false))
            return false;
        run->placed[b] = (ct_snapped_body){.coords = driver->coords[b].data,
                                           .cells = driver->cells[b].data,
                                           .triangles = mesh->triangles,
                                           .n_triangles = mesh->n_triangles,
                                           .body = (uint32_t)b};
        for (int w = 0; w < 3; w++)
            run->placed[b].entry[w] =
                (uint8_t)ct_find_initial_winding(&run->job->body[b]->box, &run->job->body[1 - b]->box, w);
    }
    const size_t chunks = (size_t)run->vertex_chunks[0] + run->vertex_chunks[1];
    if (!ct_buffer_reserve(&driver->gathered, &device->budget, chunks * sizeof(ct_compacted_chunk), 0, false))
        return false;
    run->gathered = driver->gathered.data;
    run->first = run->placed[1].n_triangles > run->placed[0].n_triangles;
    size_t bins = run->triangle_chunks[0] + run->triangle_chunks[1];
    if (bins > driver->n_bins) {
        if (!ct_buffer_reserve(&driver->bins_memory, &device->budget, bins * sizeof(ct_bin),
                               driver->n_bins * sizeof(ct_bin), true))
            return false;
        driver->bins = driver->bins_memory.data;
        driver->n_bins = driver->bins_memory.capacity / sizeof(ct_bin);
    }
    driver->span.n_spans = 0;
    return true;
}

static void drawn_band(void *context, uint32_t i, uint32_t index) {
    const ct_pair_context *run = context;
    band(context, run->job->first_band + i, index);
}

/* Draws the job's bands and takes their spans: all at once, or as many at a time as OpenGL, or memory, has room for. */
static void draw_bands(ct_pair_context *run) {
    ct_pair_task *job = run->job;
    uint32_t most = job->bands.total;
    for (job->first_band = 0; job->first_band < job->bands.total && !run->failed;) {
        ct_draw_region tiles[3];
        ct_drawing drawing = {.tiles = tiles};
        uint32_t left = job->bands.total - job->first_band;
        job->end_band = job->first_band + (left < most ? left : most);
        double start = ct_now();
        ct_cpu_plan_draw_regions(job, &drawing);
        ct_pair_parallel_for(run, run->triangle_chunks[0] + run->triangle_chunks[1], patch_chunk);
        ct_status status = ct_cpu_draw(run->workspace, run->failed ? NULL : &drawing);
        job->seconds[CT_PHASE_RASTER] += ct_now() - start;
        uint32_t n = job->end_band - job->first_band;
        run->failed = status && (status == CT_DEVICE_ERROR || n == 1);
        if (run->failed) run->status = status;
        if (status) {
            most = n / 2;
            continue;
        }
        job->drawing = &drawing;
        ct_pair_parallel_for(run, n, drawn_band);
        job->drawing = NULL;
        job->first_band = job->end_band;
    }
}

static ct_pair_context run_of(ct_workspace *workspace, ct_pair_task *job, uint32_t worker, bool wide) {
    return (ct_pair_context){.device = workspace->device,
                             .workspace = workspace,
                             .job = job,
                             .driver = worker,
                             .spread = wide,
                             .first_worker = wide ? 0 : worker,
                             .end_worker = wide ? workspace->device->threads : worker + 1};
}

bool ct_cpu_make_patches(ct_workspace *workspace, ct_pair_task *job, uint32_t worker, uint32_t tile) {
    ct_pair_context run = run_of(workspace, job, worker, false);
    if (!prepare(&run)) return false;
    run.tile = tile;
    place(&run);
    if (!run.failed) ct_pair_parallel_for(&run, run.triangle_chunks[0] + run.triangle_chunks[1], patch_chunk);
    return !run.failed;
}

void ct_cpu_compute_pair(ct_workspace *workspace, ct_pair_task *job, uint32_t worker, bool wide) {
    ct_pair_context run = run_of(workspace, job, worker, wide);
    double start = ct_now(), placed = start;
    if (!prepare(&run)) {
        run.failed = true;
    } else if (job->drawing) { /* by ct_cpu_draw_pairs; where vertices are is asked for once more, by the frames */
        ct_pair_parallel_for(&run, run.vertex_chunks[0] + run.vertex_chunks[1], snap_chunk);
        placed = ct_now();
        ct_pair_parallel_for(&run, job->bands.total, band);
    } else {
        place(&run);
        placed = ct_now();
        if (workspace->device->drawer && !run.failed)
            draw_bands(&run);
        else if (!run.failed)
            ct_pair_parallel_for(&run, job->bands.total, band);
    }
    double summed = ct_now();
    ct_pair_finish(&run);
    job->seconds[CT_PHASE_RASTER] += placed - start;
    job->seconds[CT_PHASE_CONTACT] += ct_now() - summed;
    if (run.failed) {
        job->status = run.status == CT_DEVICE_ERROR ? CT_DEVICE_ERROR : CT_OUT_OF_MEMORY;
        ct_cpu_clear_pair(job);
    }
}
