/* pair_cpu.c - the method EBPI on the CPU (Wang, Faure and Pai 2012): views of tiles that are refined until the bound
 * of the volume's error is within the tolerance; then each tile's ray adds its spans. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/method/backend_cpu.h"
#include "gpu/methods/ebpi/refine.h"
#include "gpu/methods/ebpi/tile_cpu.h"
#include "gpu/methods/ebpi/turned_views.h"
#include "gpu/methods/ldi/pair_cpu.h"

/* ---- slots ---- */

/* One thread's scratch. */
struct scratch {
    ct_ebpi_scratch tiles;
    ct_buffer tile_memory[2]; /* ct_ebpi_tile: of a pair that this thread drives, before and after a pass */
    ct_buffer cut_memory;     /* ct_ebpi_cut of each of these tiles */
};

static struct scratch *scratch_of(const ct_workspace *workspace, uint32_t worker) {
    return workspace->workers[worker].of_method[CT_METHOD_EBPI];
}

static const ct_ebpi_cpu *kernels_of(const ct_pair_context *context) {
    return context->device->kernels_of_method[CT_METHOD_EBPI];
}

static void release(ct_workspace *workspace) {
    ct_budget *budget = &workspace->device->budget;
    for (uint32_t w = 0; w < workspace->device->threads; w++) {
        struct scratch *scratch = scratch_of(workspace, w);
        ct_ebpi_scratch_free(&scratch->tiles, budget);
        for (int k = 0; k < 2; k++) ct_buffer_free(&scratch->tile_memory[k], budget);
        ct_buffer_free(&scratch->cut_memory, budget);
    }
}

/* ---- planning ---- */

static void turn_views(const ct_device *device, ct_pair_task *pair) {
    ct_ray_plan *plan = pair->plan;
    ct_turned_body bodies[2];
    for (int b = 0; b < 2; b++) {
        const ct_body *body = pair->body[b];
        bodies[b] = (ct_turned_body){.positions = ct_body_positions(body),
                                     .pose = ct_body_pose(body),
                                     .triangles = body->mesh->triangles,
                                     .n_vertices = body->mesh->n_vertices,
                                     .n_triangles = body->mesh->n_triangles,
                                     .box = body->box};
    }
    ct_turn_views(bodies, device->kernels->snap, &plan->part, &pair->window, &plan->turned);
}

static ct_status plan_window(const ct_device *device, const ct_scene_settings *settings, ct_pair_task *pair,
                             ct_error *error) {
    const ct_box boxes[2] = {pair->body[0]->box, pair->body[1]->box};
    ct_ray_plan *plan = pair->plan;
    plan->part = ct_cpu_find_part(pair);
    plan->turned.is_turned = false;
    const ct_status status = ct_ebpi_plan_window(boxes, &plan->part, &pair->window, error);
    if (status) return status;
    if (settings->optimize_directions) turn_views(device, pair);
    return CT_OK;
}

/* Along the axes of the views. NULL: positions are along them. */
static const double *view_pose(const ct_pair_context *context, int body) {
    const ct_turned_views *turned = &context->plan->turned;
    return turned->is_turned ? turned->pose[body] : ct_body_pose(context->pair->body[body]);
}

static const ct_box *view_box(const ct_pair_context *context, int body) {
    const ct_turned_views *turned = &context->plan->turned;
    return turned->is_turned ? &turned->box[body] : &context->pair->body[body]->box;
}

/* m^3: the step's, else the scene's; 0: the scene has a tolerance_rel alone. */
static double tolerance_of(const ct_pair_task *pair) {
    return pair->step->tolerance > 0 ? pair->step->tolerance : pair->settings->tolerance;
}

static ct_status plan_pair(const ct_device *device, const ct_scene_settings *settings, ct_pair_task *pair,
                           ct_error *error) {
    ct_status status = plan_window(device, settings, pair, error);
    if (status) return status;
    for (int b = 0; b < 2; b++)
        if (!ct_mesh_adjacency(pair->body[b]->mesh, error)) return CT_OUT_OF_MEMORY;
    status = ct_ebpi_check_tolerance(tolerance_of(pair), settings->tolerance_rel, &pair->window, error);
    if (status) return status;
    ((ct_ray_plan *)pair->plan)->rule = CT_SPAN_OF_PAIR;
    pair->n_contacts = 1;
    pair->cost = 1e6 + 200.0 * ((double)pair->body[0]->mesh->n_triangles + pair->body[1]->mesh->n_triangles);
    return CT_OK;
}

/* ---- a pair ---- */

struct ebpi {
    ct_ebpi_refinement refinement;
    ct_pair_context *context;
    ct_ebpi_body body[2];
    __int128 moved_by[2 * CT_EBPI_MOST_PARTS]; /* cubic units: by snapping, each part of a body */
};

static void snap_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_pair_context *context = argument;
    const int b = i >= context->vertex_chunks[0];
    if (b) i -= context->vertex_chunks[0];
    const ct_body *body = context->pair->body[b];
    const size_t first = (size_t)i * CT_PAIR_VERTEX_CHUNK, last = first + CT_PAIR_VERTEX_CHUNK;
    context->device->kernels->snap->snap(&context->pair->window, ct_body_positions(body), view_pose(context, b), first,
                                         last < context->vertices[b] ? last : context->vertices[b],
                                         ct_pair_driver(context)->coords[b].data, NULL);
}

static void run_tasks(struct ebpi *ebpi, uint32_t n, ct_pool_fn task) {
    const ct_pair_context *context = ebpi->context;
    if (context->is_spread)
        ct_pool_run(context->workspace->pool, n, task, ebpi);
    else
        for (uint32_t i = 0; i < n; i++) task(ebpi, i, context->driver);
}

/* Tasks that look at all triangles of a part of a body. */
static uint32_t count_parts(const struct ebpi *ebpi) {
    return ebpi->refinement.view[0].parts[0] + ebpi->refinement.view[0].parts[1];
}

static void count_faces(void *argument, uint32_t i, uint32_t worker) {
    struct ebpi *ebpi = argument;
    const ct_ebpi_list_cpu *list = kernels_of(ebpi->context)->list;
    const uint32_t first = ebpi->refinement.view[0].parts[0], part = i < first ? i : i - first;
    (void)worker;
    list->count(ebpi->refinement.view, 3, i >= first, part);
    ebpi->moved_by[i] = list->bound_moved(&ebpi->context->pair->window, ebpi->refinement.view, i >= first, part);
}

/* m^3, of what snapping changes, once it is known of all parts. */
static double add_moved(const struct ebpi *ebpi) {
    const ct_lattice *axis = ebpi->context->pair->window.axis;
    const double unit[3] = {axis[0].unit, axis[1].unit, axis[2].unit};
    __int128 sum[2] = {0, 0};
    for (uint32_t i = 0; i < count_parts(ebpi); i++) sum[i >= ebpi->refinement.view[0].parts[0]] += ebpi->moved_by[i];
    return (double)sum[0] * unit[0] * unit[1] * unit[2] + (double)sum[1] * unit[0] * unit[1] * unit[2];
}

static void write_faces(void *argument, uint32_t i, uint32_t worker) {
    struct ebpi *ebpi = argument;
    const uint32_t first = ebpi->refinement.view[0].parts[0];
    (void)worker;
    kernels_of(ebpi->context)->list->write(ebpi->refinement.view, 3, i >= first, i < first ? i : i - first);
}

static bool begin(struct ebpi *ebpi) {
    ct_pair_context *context = ebpi->context;
    const ct_pair_task *pair = context->pair;
    ct_ldi_scratch *driver = ct_pair_driver(context);
    if (!ct_pair_prepare_vertices(context)) return false;
    ct_pair_parallel_for(context, ct_all_vertex_chunks(context), snap_chunk);
    for (int b = 0; b < 2; b++) {
        ct_mesh *mesh = pair->body[b]->mesh;
        ebpi->body[b] = (ct_ebpi_body){.coords = driver->coords[b].data,
                                       .triangles = mesh->triangles,
                                       .adjacency = ct_mesh_adjacency(mesh, NULL), /* made when the pair was planned */
                                       .n_triangles = mesh->n_triangles};
    }
    ct_ebpi_refinement *of = &ebpi->refinement;
    if (!ct_ebpi_plan_views(of, (double)ebpi->body[0].n_triangles + ebpi->body[1].n_triangles)) return false;
    for (int w = 0; w < 3; w++)
        for (int b = 0; b < 2; b++)
            of->view[w].initial[b] =
                (uint8_t)ct_find_initial_winding(view_box(context, b), view_box(context, 1 - b), w);
    return true;
}

/* CT_EBPI_LIST. Counting the faces also finds what snapping moves. */
static bool list(struct ebpi *ebpi) {
    ct_ebpi_refinement *of = &ebpi->refinement;
    ct_arena *arena = &ebpi->context->workspace->workers[ebpi->context->driver].arena;
    ct_budget *budget = &ebpi->context->device->budget;
    for (int w = 0; w < 3; w++)
        if (!ct_ebpi_view_begin(&of->view[w], ebpi->body, arena, budget)) return false;
    ct_enter_phase("listing faces");
    run_tasks(ebpi, count_parts(ebpi), count_faces);
    if (ct_is_cancelled()) return false; /* counts may lack faces */
    of->moved = add_moved(ebpi);
    for (int w = 0; w < 3; w++)
        if (!ct_ebpi_view_place(&of->view[w], arena, budget)) return false;
    run_tasks(ebpi, count_parts(ebpi), write_faces);
    return !ct_is_cancelled();
}

/* ---- tiles ---- */

/* Tiles of which one task measures those that are not measured yet. */
enum { MEASURE_CHUNK = 64 };

static ct_ebpi_bound bound_kind(const struct ebpi *ebpi) {
    return ebpi->refinement.is_strict ? CT_EBPI_STRICT : CT_EBPI_PUBLISHED;
}

static bool measure_tile(struct ebpi *ebpi, ct_ebpi_tile *tile, ct_ebpi_polynomial *polynomial, uint32_t worker) {
    ct_pair_context *context = ebpi->context;
    return kernels_of(context)->measure(&ebpi->refinement.view[tile->view], bound_kind(ebpi), tile, polynomial,
                                        &scratch_of(context->workspace, worker)->tiles, &context->device->budget);
}

static void measure_chunk(void *argument, uint32_t i, uint32_t worker) {
    struct ebpi *ebpi = argument;
    ct_pair_context *context = ebpi->context;
    const uint32_t first = i * MEASURE_CHUNK, left = ebpi->refinement.n - first;
    for (uint32_t t = first; t < first + (left < MEASURE_CHUNK ? left : MEASURE_CHUNK); t++) {
        ct_ebpi_tile *tile = &ebpi->refinement.tiles[t];
        ct_ebpi_polynomial polynomial;
        if (tile->bound != CT_EBPI_UNMEASURED) continue;
        if (context->has_failed) return;
        if (ct_is_cancelled_at("rays", ebpi->refinement.rays) || !measure_tile(ebpi, tile, &polynomial, worker))
            context->has_failed = true;
        else if (tile->bound > 0)
            ct_ebpi_plan_cuts(&ebpi->refinement.view[tile->view], &polynomial, tile);
    }
}

static uint32_t count_chunks(const struct ebpi *ebpi) {
    return (ebpi->refinement.n + MEASURE_CHUNK - 1) / MEASURE_CHUNK;
}

/* CT_EBPI_MEASURE */
static bool measure(struct ebpi *ebpi) {
    ct_enter_phase("casting rays");
    run_tasks(ebpi, count_chunks(ebpi), measure_chunk);
    return !ebpi->context->has_failed;
}

/* Parts that are not cut further are measured at once. */
static bool cut_tile(const struct ebpi *ebpi, const ct_ebpi_tile *tile, ct_ebpi_cut whole, ct_ebpi_tile *to,
                     uint32_t worker) {
    const ct_ebpi_view *view = &ebpi->refinement.view[tile->view];
    const ct_ebpi_cut cut = ct_ebpi_cut_at_once(whole);
    const bool is_last = cut.u == whole.u && cut.v == whole.v;
    ct_ebpi_polynomial polynomial[CT_EBPI_PARTS_AT_ONCE];
    const ct_workspace *workspace = ebpi->context->workspace;
    ct_ebpi_make_parts(tile, whole, to);
    if (!kernels_of(ebpi->context)
             ->share(view, bound_kind(ebpi), to, cut.u, cut.v, is_last ? polynomial : NULL,
                     &scratch_of(workspace, worker)->tiles, &workspace->workers[worker].arena,
                     &workspace->device->budget))
        return false;
    for (uint32_t i = 0; i < ct_ebpi_count_parts(cut) && is_last; i++)
        if (to[i].bound > 0) ct_ebpi_plan_cuts(view, &polynomial[i], &to[i]);
    return true;
}

struct cutting {
    struct ebpi *ebpi;
    const uint32_t *first; /* per chunk of MEASURE_CHUNK tiles, where it goes */
    ct_ebpi_tile *to;
};

static void cut_chunk(void *argument, uint32_t i, uint32_t worker) {
    const struct cutting *cutting = argument;
    struct ebpi *ebpi = cutting->ebpi;
    const uint32_t first = i * MEASURE_CHUNK, left = ebpi->refinement.n - first;
    ct_ebpi_tile *to = cutting->to + cutting->first[i];
    for (uint32_t t = first; t < first + (left < MEASURE_CHUNK ? left : MEASURE_CHUNK); t++) {
        const uint32_t n = ct_ebpi_count_parts(ct_ebpi_cut_at_once(ebpi->refinement.cut[t]));
        if (ebpi->context->has_failed) return;
        if (n == 1)
            *to = ebpi->refinement.tiles[t];
        else if (ct_is_cancelled_at("rays", ebpi->refinement.rays) ||
                 !cut_tile(ebpi, &ebpi->refinement.tiles[t], ebpi->refinement.cut[t], to, worker))
            ebpi->context->has_failed = true;
        to += n;
    }
}

/* CT_EBPI_CUT */
static bool cut(struct ebpi *ebpi) {
    const ct_ebpi_refinement *of = &ebpi->refinement;
    const ct_pair_context *context = ebpi->context;
    const uint32_t n_chunks = count_chunks(ebpi);
    uint32_t *first = malloc((n_chunks + 1) * sizeof *first), n = 0;
    if (!first) return false;
    for (uint32_t i = 0; i < of->n; i++) {
        if (i % MEASURE_CHUNK == 0) first[i / MEASURE_CHUNK] = n;
        n += ct_ebpi_count_parts(ct_ebpi_cut_at_once(of->cut[i]));
    }
    struct cutting cutting = {ebpi, first, of->parts};
    if (context->is_spread)
        ct_pool_run(context->workspace->pool, n_chunks, cut_chunk, &cutting);
    else
        for (uint32_t i = 0; i < n_chunks; i++) cut_chunk(&cutting, i, context->driver);
    free(first);
    return !context->has_failed;
}

/* ---- the equal allocation ---- */

static void cut_chunk_equally(void *argument, uint32_t i, uint32_t worker) {
    struct ebpi *ebpi = argument;
    ct_pair_context *context = ebpi->context;
    const uint32_t first = i * MEASURE_CHUNK, left = ebpi->refinement.n - first;
    for (uint32_t t = first; t < first + (left < MEASURE_CHUNK ? left : MEASURE_CHUNK); t++) {
        ct_ebpi_tile *tile = &ebpi->refinement.tiles[t]; /* measured again for its polynomial */
        const ct_ebpi_view *view = &ebpi->refinement.view[tile->view];
        ct_ebpi_polynomial polynomial = {{0}, 0, 0};
        if (context->has_failed) return;
        if (tile->bound > 0 &&
            (ct_is_cancelled_at("rays", ebpi->refinement.rays) || !measure_tile(ebpi, tile, &polynomial, worker))) {
            context->has_failed = true;
            return;
        }
        ebpi->refinement.cut[t] = ct_ebpi_equal_cut(view, &ebpi->refinement.share[tile->view], tile, &polynomial);
    }
}

/* CT_EBPI_CUT_EQUALLY */
static bool cut_equally(struct ebpi *ebpi) {
    run_tasks(ebpi, count_chunks(ebpi), cut_chunk_equally);
    return !ebpi->context->has_failed;
}

/* ---- spans ---- */

/* Tiles whose rays are walked together: of one view and size. */
enum { RAYS_AT_ONCE = 64, SPAN_CHUNK = 1024 };

static bool append_fragment(ct_ray_lists *rays, ct_budget *budget, size_t ray, const ct_fragment *f) {
    const size_t used = rays->n_fragments * sizeof *rays->fragments;
    if (used + sizeof *rays->fragments > rays->fragment_memory.capacity &&
        !ct_buffer_reserve(&rays->fragment_memory, budget, 2 * used + 4096, used, false))
        return false;
    rays->fragments = rays->fragment_memory.data;
    rays->fragments[rays->n_fragments] = (ct_linked_fragment){*f, rays->head[ray]};
    rays->head[ray] = rays->n_fragments++;
    return true;
}

/* Lists the crossings of a tile's ray; body 0's come first, as ct_ray_lists.first_body says. Counts where it begins. */
static bool cast_ray(const struct ebpi *ebpi, const ct_ebpi_tile *tile, ct_ray_lists *rays, size_t ray,
                     ct_budget *budget) {
    const ct_ebpi_view *view = &ebpi->refinement.view[tile->view];
    const int32_t u = tile->u + (1 << tile->shift_u) / 2, v = tile->v + (1 << tile->shift_v) / 2;
    for (int b = 0; b < 2; b++) {
        const bool is_from_balance = view->initial[b] == CT_INITIAL_FROM_BALANCE;
        rays->winding[ray][b] = tile->start[b];
        for (uint32_t i = 0; i < tile->n_crossed[b]; i++) {
            const uint32_t tag = tile->faces[tile->begin[b] + i];
            const int32_t *corner[3];
            ct_triangle_setup setup;
            ct_ebpi_corners(&view->body[b], tag & 0x7fffffff, corner);
            if (!ct_make_setup(&setup, corner[0], corner[1], corner[2], view->u, view->v, view->axis, u, v, 0, 0))
                continue;
            const ct_fragment f = ct_fragment_at(&setup, (double)setup.edge[1], (double)setup.edge[2], tag);
            if (is_from_balance) rays->winding[ray][b] += f.key & 1 ? -1 : 1;
            if (!append_fragment(rays, budget, ray, &f)) return false;
        }
    }
    return true;
}

static bool walk_tiles(struct ebpi *ebpi, const ct_ebpi_tile *const *tiles, size_t n, ct_ldi_scratch *worker) {
    if (ct_is_cancelled_at("rays", ebpi->refinement.rays)) return false;
    ct_pair_context *context = ebpi->context;
    ct_budget *budget = &context->device->budget;
    ct_ray_lists *rays = &worker->rays;
    const ct_binned_tile of = {.tile.ray_area = ct_ebpi_area(&ebpi->refinement.view[tiles[0]->view], tiles[0]),
                               .view = tiles[0]->view};
    if (!ct_buffer_reserve(&rays->head_memory, budget, n * sizeof *rays->head, 0, false) ||
        !ct_buffer_reserve(&rays->winding_memory, budget, n * sizeof *rays->winding, 0, false))
        return false;
    rays->head = rays->head_memory.data;
    rays->winding = rays->winding_memory.data;
    rays->fragments = rays->fragment_memory.data;
    rays->n_fragments = 0;
    rays->bin = (ct_bin){.of = &of, .columns = (int32_t)n, .rows = 1};
    rays->view = of.view;
    rays->first_body = 0;
    bool is_counted = false;
    for (size_t i = 0; i < n; i++) {
        rays->head[i] = CT_END;
        is_counted = is_counted || tiles[i]->start[0] || tiles[i]->start[1];
        if (!cast_ray(ebpi, tiles[i], rays, i, budget)) return false;
    }
    if (!is_counted) rays->winding = NULL;
    for (int b = 0; b < 2; b++) {
        const bool is_from_balance = ebpi->refinement.view[of.view].initial[b] == CT_INITIAL_FROM_BALANCE;
        rays->initial[b] = is_counted        ? CT_INITIAL_COUNTED
                           : is_from_balance ? CT_INITIAL_FROM_BALANCE
                                             : CT_INITIAL_ZERO; /* no listed face is left out in front */
    }
    worker->fragments += rays->n_fragments;
    return ct_ldi_kernels_of(context->device)->span->span(rays, &context->options, worker->sums, &worker->span, budget);
}

static bool is_walked_with(const ct_ebpi_tile *a, const ct_ebpi_tile *b) {
    return a->view == b->view && a->shift_u + a->shift_v == b->shift_u + b->shift_v;
}

static void span_chunk(void *argument, uint32_t i, uint32_t index) {
    struct ebpi *ebpi = argument;
    ct_ldi_scratch *worker = ct_ldi_scratch_of(ebpi->context->workspace, index);
    const double start = ct_now();
    const ct_ebpi_tile *run[RAYS_AT_ONCE];
    size_t n = 0;
    const uint32_t first = i * SPAN_CHUNK, left = ebpi->refinement.n - first,
                   end = first + (left < SPAN_CHUNK ? left : SPAN_CHUNK);
    bool ok = !ebpi->context->has_failed && ct_pair_prepare_sums(ebpi->context, worker);
    for (uint32_t t = first; t < end && ok; t++) {
        const ct_ebpi_tile *tile = &ebpi->refinement.tiles[t];
        if (!tile->length) continue;
        if (n == RAYS_AT_ONCE || (n && !is_walked_with(run[0], tile))) {
            ok = walk_tiles(ebpi, run, n, worker);
            n = 0;
        }
        run[n++] = tile;
    }
    if (ok && n) ok = walk_tiles(ebpi, run, n, worker);
    if (!ok)
        ebpi->context->has_failed = true;
    else
        worker->span_seconds += ct_now() - start;
}

static void add_spans(struct ebpi *ebpi) {
    ct_enter_phase("adding spans");
    run_tasks(ebpi, (ebpi->refinement.n + SPAN_CHUNK - 1) / SPAN_CHUNK, span_chunk);
}

/* ---- tiles, for pictures ---- */

static void write_tile(const struct ebpi *ebpi, const ct_ebpi_tile *tile, ct_ray_tile *to) {
    double part[4][3]; /* corner, u, v, along */
    ct_ebpi_describe_tile(&ebpi->refinement, tile, to, part);
    for (int i = 0; i < 4; i++) ct_turn_out_of_views(&ebpi->context->plan->turned, part[i]);
    ct_ebpi_set_parts(to, (const double(*)[3])part);
}

/* Hands the tiles out with the pair's contact, if it has one. False: out of memory. */
static bool keep_tiles(struct ebpi *ebpi) {
    const ct_pair_context *context = ebpi->context;
    ct_pair_contact *contact = context->pair->contacts;
    if (!contact || !contact->is_found) return true;
    ct_ray_tile *tiles = ct_pair_allocate(context, (ebpi->refinement.n ? ebpi->refinement.n : 1) * sizeof *tiles);
    if (!tiles) return false;
    for (uint32_t i = 0; i < ebpi->refinement.n; i++) write_tile(ebpi, &ebpi->refinement.tiles[i], &tiles[i]);
    contact->tiles = tiles;
    contact->contact.n_tiles = ebpi->refinement.n;
    return true;
}

/* ---- the whole ---- */

static struct ebpi ebpi_of(ct_pair_context *context) {
    const ct_pair_task *pair = context->pair;
    const ct_scene_settings *settings = pair->settings;
    struct scratch *scratch = scratch_of(context->workspace, context->driver);
    return (struct ebpi){
        .refinement = {.window = &pair->window,
                       .tolerance = tolerance_of(pair),
                       .tolerance_rel = settings->tolerance_rel,
                       .allocation = settings->allocation,
                       .ray_budget = settings->ray_budget ? settings->ray_budget : CT_DEFAULT_RAY_BUDGET,
                       .is_strict = settings->strict,
                       .arena = &context->workspace->workers[context->driver].arena,
                       .budget = &context->device->budget,
                       .tile_memory = scratch->tile_memory,
                       .cut_memory = &scratch->cut_memory},
        .context = context};
}

static bool carry_out(struct ebpi *ebpi, ct_ebpi_operation asked) {
    switch (asked) {
    case CT_EBPI_LIST:
        return list(ebpi);
    case CT_EBPI_MEASURE:
        return measure(ebpi);
    case CT_EBPI_CUT:
        return cut(ebpi);
    case CT_EBPI_CUT_EQUALLY:
        return cut_equally(ebpi);
    default:
        return false;
    }
}

static bool refine(struct ebpi *ebpi) {
    ct_ebpi_operation asked;
    while ((asked = ct_ebpi_next(&ebpi->refinement)) != CT_EBPI_DONE)
        if (!carry_out(ebpi, asked)) return false;
    return true;
}

static void compute_pair(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, bool is_spread) {
    ct_pair_context context = ct_pair_context_of(workspace, pair, worker, is_spread);
    struct ebpi ebpi = ebpi_of(&context);
    const double start = ct_now();
    if (!begin(&ebpi) || !refine(&ebpi)) context.has_failed = true;
    const double refined = ct_now();
    if (!context.has_failed) {
        double bound[3], deviation[3];
        ct_ebpi_view_errors(&ebpi.refinement, bound, deviation);
        context.plan->has_view_errors = true;
        for (int w = 0; w < 3; w++) context.plan->view_error[w] = (ct_view_error){bound[w], deviation[w]};
        pair->rays += ebpi.refinement.rays;
        pair->passes = ebpi.refinement.passes;
        pair->ended = ebpi.refinement.ended;
        add_spans(&ebpi);
    }
    const double summed = ct_now();
    ct_pair_finish(&context);
    if (!context.has_failed && pair->step->want & CT_WANT_TILES && !keep_tiles(&ebpi)) context.has_failed = true;
    pair->seconds[CT_PHASE_RASTER] += refined - start;
    pair->seconds[CT_PHASE_CONTACT] += ct_now() - summed;
    for (uint32_t i = context.first_worker; i < context.end_worker; i++)
        ct_arena_reset(&workspace->workers[i].arena, &workspace->device->budget);
    if (context.has_failed) {
        pair->status = ct_failure();
        ct_cpu_clear_pair(pair);
    }
}

const ct_cpu_method ct_cpu_ebpi_method = {.kernels = CT_KERNELS(ct_ebpi_cpu),
                                          .thread_bytes = sizeof(struct scratch),
                                          .pair_bytes = sizeof(ct_ray_plan),
                                          .release = release,
                                          .plan = plan_pair,
                                          .compute = compute_pair,
                                          .remedy = "lower ray_budget or a larger tolerance"};

void ct_cpu_run_ebpi(ct_device *device, ct_step *steps, size_t n_steps) {
    ct_cpu_run_pairs(device, steps, n_steps, &ct_cpu_ebpi_method);
}
