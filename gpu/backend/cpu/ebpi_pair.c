/* ebpi_pair.c - the method EBPI on the CPU (Wang, Faure and Pai 2012): views of tiles that are refined until the bound
 * of the volume's error is within the tolerance; then each tile's ray adds its spans. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend/cpu/cpu.h"
#include "gpu/backend/cpu/pair_context.h"
#include "gpu/backend/cpu/turned_views.h"
#include "gpu/base/fail.h"
#include "gpu/ebpi/allocation.h"

/* ---- planning ---- */

/* Pitches along each axis: the finest tiles. Gradient sums are weights of 30 bits times areas of at most 28, so a
 * vertex may bound 32 layers of the whole window. */
static const double PITCHES = 16384;

/* The window, as fine as the lattice allows. */
static ct_status plan_window(const ct_device *device, const ct_scene_settings *settings, ct_pair_task *pair,
                             ct_error *error) {
    pair->part = ct_cpu_find_part(pair);
    if (settings->optimize_directions) ct_turn_views(device, pair);
    for (int k = 0; k < 3; k++) {
        ct_plan_need need;
        if (ct_plan_axis(ct_view_box(pair, 0), ct_view_box(pair, 1), &pair->part, k, 0, PITCHES, PITCHES,
                         &pair->window.axis[k], &need))
            return ct_fail(error, CT_OUT_OF_RANGE, "", "no lattice can hold them");
    }
    return CT_OK;
}

/* The smallest tolerance that can be asked for: what a surface as large as the window's sides changes by if it moves by
 * two units of the lattice along each axis. */
static double smallest_tolerance(const ct_window *window) {
    double sum = 0;
    for (int w = 0; w < 3; w++) {
        const ct_lattice *u = &window->axis[ct_view_u(w)], *v = &window->axis[ct_view_v(w)];
        sum += 2 * window->axis[w].unit * (u->pitch * u->n) * (v->pitch * v->n);
    }
    return sum;
}

static ct_status plan_pair(const ct_device *device, const ct_scene_settings *settings, ct_pair_task *pair,
                           ct_error *error) {
    ct_status status = plan_window(device, settings, pair, error);
    if (status) return status;
    for (int b = 0; b < 2; b++)
        if (!ct_mesh_adjacency(pair->body[b]->mesh, error)) return CT_OUT_OF_MEMORY;
    if (pair->tolerance == 0) pair->tolerance = settings->tolerance;
    pair->tolerance_rel = settings->tolerance_rel;
    pair->strict = settings->strict;
    pair->allocation = settings->allocation;
    pair->ray_budget = settings->ray_budget ? settings->ray_budget : CT_DEFAULT_RAY_BUDGET;
    const double smallest = smallest_tolerance(&pair->window);
    if (pair->tolerance > 0 && pair->tolerance < smallest)
        return ct_fail(error, CT_OUT_OF_RANGE, "tolerance",
                       "a tolerance of %g m^3 is below what their coordinates can carry: ask for %g m^3 or more",
                       pair->tolerance, smallest * (1 + 1e-5));
    pair->rule = CT_SPAN_OF_PAIR;
    pair->n_contacts = 1;
    pair->cost = 1e6 + 200.0 * ((double)pair->body[0]->mesh->n_triangles + pair->body[1]->mesh->n_triangles);
    return CT_OK;
}

/* ---- a pair ---- */

/* What the tiles of a view come to. */
struct view_totals {
    double bound, square, volume; /* m^3, m^6, m^3 */
};

struct ebpi {
    ct_pair_context *context;
    ct_ebpi_body body[2];
    ct_ebpi_view view[3];
    __int128 moved_by[2 * CT_EBPI_MOST_PARTS]; /* cubic units: by snapping, each part of a body */
    double moved;                              /* m^3: all */
    ct_ebpi_tile *tiles;
    uint32_t n;
    int current; /* which of the driver's buffers holds them */
    struct view_totals totals[3];
    ct_ebpi_cut *cut;       /* [n], of the pass */
    ct_ebpi_share share[3]; /* of the equal allocation */
};

static void snap_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_pair_context *context = argument;
    const int b = i >= context->vertex_chunks[0];
    if (b) i -= context->vertex_chunks[0];
    const ct_body *body = context->pair->body[b];
    const size_t first = (size_t)i * CT_PAIR_VERTEX_CHUNK, last = first + CT_PAIR_VERTEX_CHUNK;
    context->device->kernels->snap->snap(
        &context->pair->window, ct_body_positions(body), ct_view_pose(context->pair, b), first,
        last < context->vertices[b] ? last : context->vertices[b], ct_pair_driver(context)->coords[b].data, NULL);
}

/* Pixels along the longer side of a view: so many that few faces are over each, and not more than may have a ray. */
static int32_t choose_pixels(const ct_pair_task *pair) {
    const double faces = (double)pair->body[0]->mesh->n_triangles + pair->body[1]->mesh->n_triangles;
    const double most = floor(sqrt((double)pair->ray_budget / 3));
    return (int32_t)fmin(fmin(fmax(sqrt(faces / 2), 8), 256), most);
}

/* Gathering for the published allocation begins with so many pixels along the longer side. */
static const double COARSEST = 8;

/* The optimal allocation takes about this over the square root of the tolerance, a part of the volume, as the side of
 * an image of as many pixels as it has tiles in the end: measured on spheres, blobs and tori from 10^-1 to 10^-3. */
static const double TILES_ALONG = 6.5;

/* Pixels along the longer side of the image that the first tiles are those of: a coarser one, of pixels that are
 * gathered until their bound asks for finer ones. */
static int32_t choose_first_pixels(const ct_pair_task *pair, int32_t most) {
    if (pair->allocation == CT_ALLOCATION_PER_PIXEL) return most;
    double first = COARSEST;
    if (pair->allocation == CT_ALLOCATION_OPTIMAL) {
        double volume = 1; /* of the window; that of the contact is not known yet */
        for (int k = 0; k < 3; k++) volume *= pair->window.axis[k].pitch * pair->window.axis[k].n;
        first = fmax(COARSEST, TILES_ALONG / sqrt(fmax(pair->tolerance / volume, pair->tolerance_rel)));
    }
    return first < most ? (int32_t)first : most;
}

static void run_tasks(struct ebpi *ebpi, uint32_t n, ct_pool_fn task) {
    const ct_pair_context *context = ebpi->context;
    if (context->is_spread)
        ct_pool_run(context->device->pool, n, task, ebpi);
    else
        for (uint32_t i = 0; i < n; i++) task(ebpi, i, context->driver);
}

/* Tasks that look at all triangles of a part of a body. */
static uint32_t count_parts(const struct ebpi *ebpi) {
    return ebpi->view[0].parts[0] + ebpi->view[0].parts[1];
}

static void count_faces(void *argument, uint32_t i, uint32_t worker) {
    struct ebpi *ebpi = argument;
    const ct_ebpi_list_cpu *list = ebpi->context->device->kernels->ebpi->list;
    const uint32_t first = ebpi->view[0].parts[0], part = i < first ? i : i - first;
    (void)worker;
    list->count(ebpi->view, 3, i >= first, part);
    ebpi->moved_by[i] = list->bound_moved(&ebpi->context->pair->window, ebpi->view, i >= first, part);
}

/* m^3, of what snapping changes, once it is known of all parts. */
static double add_moved(const struct ebpi *ebpi) {
    const ct_lattice *axis = ebpi->context->pair->window.axis;
    const double unit[3] = {axis[0].unit, axis[1].unit, axis[2].unit};
    __int128 sum[2] = {0, 0};
    for (uint32_t i = 0; i < count_parts(ebpi); i++) sum[i >= ebpi->view[0].parts[0]] += ebpi->moved_by[i];
    return (double)sum[0] * unit[0] * unit[1] * unit[2] + (double)sum[1] * unit[0] * unit[1] * unit[2];
}

static void write_faces(void *argument, uint32_t i, uint32_t worker) {
    struct ebpi *ebpi = argument;
    const uint32_t first = ebpi->view[0].parts[0];
    (void)worker;
    ebpi->context->device->kernels->ebpi->list->write(ebpi->view, 3, i >= first, i < first ? i : i - first);
}

/* m^3 of a lattice unit of depth over a pitch, of a view. */
static double unit_of(const struct ebpi *ebpi, int w) {
    const ct_lattice *axis = ebpi->context->pair->window.axis;
    return axis[ct_view_u(w)].pitch * axis[ct_view_v(w)].pitch * axis[w].unit;
}

/* The pixels of a view under the equal allocation. */
static bool begin_share(struct ebpi *ebpi, int w, int32_t most) {
    ct_pair_context *context = ebpi->context;
    const ct_ebpi_view fine = ct_ebpi_view_plan(&context->pair->window, w, most);
    const size_t pixels = (size_t)fine.columns * (size_t)fine.rows;
    ebpi->share[w] = (ct_ebpi_share){.pixel_shift = fine.pixel_shift,
                                     .columns = fine.columns,
                                     .rows = fine.rows,
                                     .unit = unit_of(ebpi, w),
                                     .pixel = ct_arena_alloc(&ct_pair_driver(context)->exact.arena,
                                                             &context->device->budget, pixels * sizeof(ct_ebpi_pixel))};
    return ebpi->share[w].pixel != NULL;
}

static bool begin(struct ebpi *ebpi) {
    ct_pair_context *context = ebpi->context;
    const ct_pair_task *pair = context->pair;
    ct_thread_scratch *driver = ct_pair_driver(context);
    ct_budget *budget = &context->device->budget;
    if (!ct_pair_prepare_vertices(context)) return false;
    ct_pair_parallel_for(context, ct_all_vertex_chunks(context), snap_chunk);
    for (int b = 0; b < 2; b++) {
        ct_mesh *mesh = pair->body[b]->mesh;
        ebpi->body[b] = (ct_ebpi_body){.coords = driver->coords[b].data,
                                       .triangles = mesh->triangles,
                                       .adjacency = ct_mesh_adjacency(mesh, NULL), /* made when the pair was planned */
                                       .n_triangles = mesh->n_triangles};
    }
    const int32_t most = choose_pixels(pair);
    const int32_t first = choose_first_pixels(pair, most);
    for (int w = 0; w < 3; w++) {
        if (pair->allocation != CT_ALLOCATION_OPTIMAL && !begin_share(ebpi, w, most)) return false;
        ebpi->view[w] = ct_ebpi_view_plan(&pair->window, w, first);
        for (int b = 0; b < 2; b++)
            ebpi->view[w].initial[b] =
                (uint8_t)ct_find_initial_winding(ct_view_box(pair, b), ct_view_box(pair, 1 - b), w);
        if (!ct_ebpi_view_begin(&ebpi->view[w], ebpi->body, &driver->exact.arena, budget)) return false;
    }
    run_tasks(ebpi, count_parts(ebpi), count_faces);
    ebpi->moved = add_moved(ebpi);
    for (int w = 0; w < 3; w++)
        if (!ct_ebpi_view_place(&ebpi->view[w], &driver->exact.arena, budget)) return false;
    run_tasks(ebpi, count_parts(ebpi), write_faces);
    return true;
}

/* ---- tiles ---- */

/* Marks a tile that is not measured yet. */
enum { UNMEASURED = -1 };

/* Memory for n tiles beside the current ones. NULL: out of memory. */
static ct_ebpi_tile *reserve_tiles(struct ebpi *ebpi, size_t n) {
    ct_buffer *buffer = &ct_pair_driver(ebpi->context)->ebpi_tiles[1 - ebpi->current];
    if (!ct_buffer_reserve(buffer, &ebpi->context->device->budget, n ? n * sizeof(ct_ebpi_tile) : 1, 0, false))
        return NULL;
    return buffer->data;
}

static void use_tiles(struct ebpi *ebpi, ct_ebpi_tile *tiles, uint32_t n) {
    ebpi->tiles = tiles;
    ebpi->n = n;
    ebpi->current = 1 - ebpi->current;
}

/* The first tile of every pixel that both bodies are over: the others hold nothing. */
static bool make_first_tiles(struct ebpi *ebpi) {
    size_t n = 0;
    for (int w = 0; w < 3; w++) n += (size_t)ebpi->view[w].columns * (size_t)ebpi->view[w].rows;
    ct_ebpi_tile *tiles = reserve_tiles(ebpi, n);
    if (!tiles) return false;
    n = 0;
    for (int w = 0; w < 3; w++) {
        const ct_ebpi_view *view = &ebpi->view[w];
        for (int32_t row = 0; row < view->rows; row++)
            for (int32_t column = 0; column < view->columns; column++) {
                const ct_ebpi_tile tile = ct_ebpi_pixel_tile(view, column, row);
                if (!tile.n_faces || tile.faces[0] >> 31 == tile.faces[tile.n_faces - 1] >> 31) continue;
                tiles[n] = tile;
                tiles[n++].bound = UNMEASURED;
            }
    }
    use_tiles(ebpi, tiles, (uint32_t)n);
    return true;
}

/* Tiles of which one task measures those that are not measured yet. */
enum { MEASURE_CHUNK = 64 };

static bool measure_tile(struct ebpi *ebpi, ct_ebpi_tile *tile, ct_ebpi_polynomial *polynomial, uint32_t worker) {
    ct_pair_context *context = ebpi->context;
    return context->device->kernels->ebpi->measure(
        &ebpi->view[tile->view], context->pair->strict ? CT_EBPI_STRICT : CT_EBPI_PUBLISHED, tile, polynomial,
        &context->workspace->workers[worker].ebpi, &context->device->budget);
}

static void measure_chunk(void *argument, uint32_t i, uint32_t worker) {
    struct ebpi *ebpi = argument;
    ct_pair_context *context = ebpi->context;
    const uint32_t first = i * MEASURE_CHUNK, left = ebpi->n - first;
    for (uint32_t t = first; t < first + (left < MEASURE_CHUNK ? left : MEASURE_CHUNK); t++) {
        ct_ebpi_tile *tile = &ebpi->tiles[t];
        ct_ebpi_polynomial polynomial;
        if (tile->bound != UNMEASURED) continue;
        if (!measure_tile(ebpi, tile, &polynomial, worker))
            context->has_failed = true;
        else if (tile->bound > 0)
            ct_ebpi_plan_cuts(&ebpi->view[tile->view], &polynomial, tile);
    }
}

/* Bound of a tile, m^3. */
static double bound_of(const struct ebpi *ebpi, const ct_ebpi_tile *tile) {
    return ct_ebpi_bound_of(&ebpi->view[tile->view], tile, unit_of(ebpi, tile->view));
}

/* In the tiles' order, which depends on no order of faces or threads. */
static void add_up(struct ebpi *ebpi) {
    memset(ebpi->totals, 0, sizeof ebpi->totals);
    for (uint32_t i = 0; i < ebpi->n; i++) {
        const ct_ebpi_tile *tile = &ebpi->tiles[i];
        struct view_totals *to = &ebpi->totals[tile->view];
        const double bound = bound_of(ebpi, tile);
        to->bound += bound;
        to->square += bound * bound;
        to->volume +=
            (double)tile->length * (double)ct_ebpi_area(&ebpi->view[tile->view], tile) * unit_of(ebpi, tile->view);
    }
    for (int w = 0; w < 3; w++) /* also for the rounding of these sums */
        ebpi->totals[w].bound = ebpi->totals[w].bound * (1 + 0x1p-30) + ebpi->moved + 0x1p-40 * ebpi->totals[w].volume;
}

static bool measure(struct ebpi *ebpi, uint64_t n_new) {
    ct_pair_task *pair = ebpi->context->pair;
    ct_pair_context *context = ebpi->context;
    run_tasks(ebpi, (ebpi->n + MEASURE_CHUNK - 1) / MEASURE_CHUNK, measure_chunk);
    pair->rays += n_new;
    pair->passes++;
    if (!context->has_failed) add_up(ebpi);
    return !context->has_failed;
}

/* ---- refinement ---- */

/* The bound that every view has to reach, m^3. */
static double target_of(const struct ebpi *ebpi) {
    const ct_pair_task *pair = ebpi->context->pair;
    double least = INFINITY;
    for (int w = 0; w < 3; w++) least = fmin(least, ebpi->totals[w].volume - ebpi->totals[w].bound);
    return fmax(pair->tolerance, pair->tolerance_rel * fmax(least, 0));
}

static uint32_t count_tiles(ct_ebpi_cut cut) {
    return 1u << (cut.u + cut.v);
}

/* The kernel ct_ebpi_cpu.share halves a side twice at most. */
static ct_ebpi_cut cut_at_once(ct_ebpi_cut cut) {
    return (ct_ebpi_cut){cut.u < 2 ? cut.u : 2, cut.v < 2 ? cut.v : 2};
}

/* What is left of the cut waits in the new tiles. */
static bool cut_tile(const struct ebpi *ebpi, const ct_ebpi_tile *tile, ct_ebpi_cut whole, ct_ebpi_tile *to,
                     ct_thread_scratch *worker) {
    const ct_ebpi_view *view = &ebpi->view[tile->view];
    const ct_ebpi_cut cut = cut_at_once(whole);
    uint32_t n = 0;
    for (int32_t j = 0; j < 1 << cut.v; j++)
        for (int32_t i = 0; i < 1 << cut.u; i++) {
            ct_ebpi_tile *child = &to[n++];
            *child = *tile;
            child->shift_u = (uint8_t)(tile->shift_u - cut.u);
            child->shift_v = (uint8_t)(tile->shift_v - cut.v);
            child->u = tile->u + (i << child->shift_u);
            child->v = tile->v + (j << child->shift_v);
            child->bound = UNMEASURED;
            child->cut[0] = (ct_ebpi_cut){(uint8_t)(whole.u - cut.u), (uint8_t)(whole.v - cut.v)};
        }
    ct_device *device = ebpi->context->device;
    return device->kernels->ebpi->share(view, to, cut.u, cut.v, &worker->ebpi, &worker->exact.arena, &device->budget);
}

struct cutting {
    struct ebpi *ebpi;
    const uint32_t *first; /* per chunk of MEASURE_CHUNK tiles, where it goes */
    ct_ebpi_tile *to;
};

static void cut_chunk(void *argument, uint32_t i, uint32_t worker) {
    const struct cutting *cutting = argument;
    struct ebpi *ebpi = cutting->ebpi;
    const uint32_t first = i * MEASURE_CHUNK, left = ebpi->n - first;
    ct_ebpi_tile *to = cutting->to + cutting->first[i];
    for (uint32_t t = first; t < first + (left < MEASURE_CHUNK ? left : MEASURE_CHUNK); t++) {
        const uint32_t n = count_tiles(cut_at_once(ebpi->cut[t]));
        if (n == 1)
            *to = ebpi->tiles[t];
        else if (!cut_tile(ebpi, &ebpi->tiles[t], ebpi->cut[t], to, &ebpi->context->workspace->workers[worker]))
            ebpi->context->has_failed = true;
        to += n;
    }
}

/* Cuts each tile as ebpi->cut says, each side twice at most. */
static bool cut_once(struct ebpi *ebpi) {
    const ct_pair_context *context = ebpi->context;
    const uint32_t n_chunks = (ebpi->n + MEASURE_CHUNK - 1) / MEASURE_CHUNK;
    uint32_t *first = malloc((n_chunks + 1) * sizeof *first);
    uint64_t n = 0;
    if (!first) return false;
    for (uint32_t i = 0; i < ebpi->n; i++) {
        if (i % MEASURE_CHUNK == 0) first[i / MEASURE_CHUNK] = (uint32_t)n;
        n += count_tiles(cut_at_once(ebpi->cut[i]));
    }
    ct_ebpi_tile *tiles = n <= UINT32_MAX ? reserve_tiles(ebpi, n) : NULL;
    struct cutting cutting = {ebpi, first, tiles};
    if (tiles && context->is_spread)
        ct_pool_run(context->device->pool, n_chunks, cut_chunk, &cutting);
    else
        for (uint32_t i = 0; i < n_chunks && tiles; i++) cut_chunk(&cutting, i, context->driver);
    free(first);
    if (!tiles || context->has_failed) return false;
    use_tiles(ebpi, tiles, (uint32_t)n);
    return true;
}

/* Of every tile, none. NULL: out of memory. */
static ct_ebpi_cut *reserve_cuts(struct ebpi *ebpi) {
    ct_buffer *buffer = &ct_pair_driver(ebpi->context)->ebpi_cuts;
    const size_t bytes = (size_t)ebpi->n * sizeof(ct_ebpi_cut);
    if (!ct_buffer_reserve(buffer, &ebpi->context->device->budget, bytes + 1, 0, false)) return NULL;
    memset(buffer->data, 0, bytes);
    return ebpi->cut = buffer->data;
}

/* Cuts each tile as ebpi->cut says. */
static bool cut_tiles(struct ebpi *ebpi) {
    for (bool is_done = false; !is_done;) {
        if (!cut_once(ebpi) || !reserve_cuts(ebpi)) return false;
        is_done = true;
        for (uint32_t i = 0; i < ebpi->n; i++) {
            const ct_ebpi_tile *tile = &ebpi->tiles[i];
            if (tile->bound != UNMEASURED || count_tiles(tile->cut[0]) == 1) continue;
            ebpi->cut[i] = tile->cut[0];
            is_done = false;
        }
    }
    return true;
}

/* ---- the equal allocation ---- */

/* The part of the target that each pitch may have in its bound: of those that the first tiles hold, and but for what no
 * ray changes. */
static void find_shares(struct ebpi *ebpi) {
    const ct_pair_task *pair = ebpi->context->pair;
    double volume = INFINITY;
    for (int w = 0; w < 3; w++) volume = fmin(volume, ebpi->totals[w].volume);
    /* Once the bound is a part r of the volume V, V - bound >= (1 - r) V is certain (target_of). */
    const double target = fmax(pair->tolerance, pair->tolerance_rel * (1 - pair->tolerance_rel) * volume);
    int64_t area[3] = {0};
    for (int w = 0; w < 3; w++)
        memset(ebpi->share[w].pixel, 0,
               (size_t)ebpi->share[w].columns * (size_t)ebpi->share[w].rows * sizeof *ebpi->share[w].pixel);
    for (uint32_t i = 0; i < ebpi->n; i++) {
        const ct_ebpi_tile *tile = &ebpi->tiles[i];
        area[tile->view] += ct_ebpi_area(&ebpi->view[tile->view], tile);
        ct_ebpi_add_to_pixel(&ebpi->view[tile->view], &ebpi->share[tile->view], tile);
    }
    for (int w = 0; w < 3; w++) {
        const double fixed = ebpi->moved + 0x1p-29 * ebpi->totals[w].bound + 0x1p-40 * ebpi->totals[w].volume;
        ebpi->share[w].of_pitch = area[w] ? fmax(target - fixed, 0) / (double)area[w] : 0;
    }
}

static void cut_chunk_equally(void *argument, uint32_t i, uint32_t worker) {
    struct ebpi *ebpi = argument;
    ct_pair_context *context = ebpi->context;
    const uint32_t first = i * MEASURE_CHUNK, left = ebpi->n - first;
    for (uint32_t t = first; t < first + (left < MEASURE_CHUNK ? left : MEASURE_CHUNK); t++) {
        ct_ebpi_tile tile = ebpi->tiles[t]; /* measured again for its polynomial */
        const ct_ebpi_view *view = &ebpi->view[tile.view];
        ct_ebpi_polynomial polynomial = {{0}, 0, 0};
        if (tile.bound > 0 && !measure_tile(ebpi, &tile, &polynomial, worker)) context->has_failed = true;
        ebpi->cut[t] = ct_ebpi_equal_cut(view, &ebpi->share[tile.view], &tile, &polynomial);
    }
}

/* ---- passes ---- */

static ct_ebpi_pass pass_of(const struct ebpi *ebpi, int w, double target, uint64_t most) {
    return (ct_ebpi_pass){.view = &ebpi->view[w],
                          .tiles = ebpi->tiles,
                          .n = ebpi->n,
                          .unit = unit_of(ebpi, w),
                          .bound = ebpi->totals[w].bound,
                          .target = target,
                          .most = most,
                          .cut = ebpi->cut};
}

/* Chooses by the optimal allocation. Returns the rays that it takes. */
static uint64_t choose_optimal(struct ebpi *ebpi, double target, bool *is_short) {
    const ct_pair_task *pair = ebpi->context->pair;
    ct_ebpi_level *level = malloc(CT_EBPI_LEVELS * sizeof *level);
    uint64_t n_new = 0;
    for (int w = 0; w < 3 && level; w++) {
        if (ebpi->totals[w].bound <= target) continue;
        const uint64_t used = pair->rays + n_new;
        ct_ebpi_pass pass = pass_of(ebpi, w, target, pair->ray_budget > used ? pair->ray_budget - used : 0);
        ct_ebpi_choose_optimal(&pass, level);
        n_new += pass.n_new;
        *is_short = *is_short || pass.is_short;
    }
    if (!level) ebpi->context->has_failed = true;
    free(level);
    return n_new;
}

/* Chooses by the equal one, or, where the budget does not suffice, gives what is left of it to the tiles where it does
 * most. */
static uint64_t choose_equal(struct ebpi *ebpi, double target, bool *is_short) {
    const ct_pair_task *pair = ebpi->context->pair;
    uint64_t n_new = 0;
    find_shares(ebpi);
    run_tasks(ebpi, (ebpi->n + MEASURE_CHUNK - 1) / MEASURE_CHUNK, cut_chunk_equally);
    for (uint32_t i = 0; i < ebpi->n; i++)
        if (ebpi->cut[i].u || ebpi->cut[i].v) n_new += (uint64_t)1 << (ebpi->cut[i].u + ebpi->cut[i].v);
    if (pair->rays + n_new <= pair->ray_budget) return n_new;
    memset(ebpi->cut, 0, ebpi->n * sizeof *ebpi->cut);
    return choose_optimal(ebpi, target, is_short);
}

/* One pass. *goes_on: another may help. */
static bool refine_once(struct ebpi *ebpi, double target, bool *goes_on) {
    ct_pair_task *pair = ebpi->context->pair;
    bool is_short = false;
    if (!reserve_cuts(ebpi)) return false;
    const uint64_t n_new = pair->allocation == CT_ALLOCATION_OPTIMAL ? choose_optimal(ebpi, target, &is_short)
                                                                     : choose_equal(ebpi, target, &is_short);
    if (is_short) pair->ended = CT_ENDED_RAY_BUDGET;
    if (!is_short && n_new == 0) pair->ended = CT_ENDED_PRECISION;
    *goes_on = pair->ended == CT_ENDED_COMPLETED;
    return !ebpi->context->has_failed && (n_new == 0 || (cut_tiles(ebpi) && measure(ebpi, n_new)));
}

static bool are_within(const struct ebpi *ebpi, double bound) {
    return ebpi->totals[0].bound <= bound && ebpi->totals[1].bound <= bound && ebpi->totals[2].bound <= bound;
}

static bool is_met(const struct ebpi *ebpi, double target) {
    const ct_pair_task *pair = ebpi->context->pair;
    if (are_within(ebpi, target)) return true;
    /* A part of nothing cannot be reached. */
    return pair->tolerance == 0 && ebpi->totals[0].volume + ebpi->totals[1].volume + ebpi->totals[2].volume == 0 &&
           are_within(ebpi, fmax(smallest_tolerance(&pair->window), 2 * ebpi->moved));
}

/* Refines until the bound is within the tolerance; pair->ended says if it is not. False: out of memory. */
static bool refine(struct ebpi *ebpi) {
    ct_pair_task *pair = ebpi->context->pair;
    pair->ended = CT_ENDED_COMPLETED;
    if (!make_first_tiles(ebpi) || !measure(ebpi, ebpi->n)) return false;
    /* By the equal allocation each tile has to keep to its part, also where the sum is within the target. */
    const bool is_equal = pair->allocation != CT_ALLOCATION_OPTIMAL;
    for (bool goes_on = true; goes_on && (is_equal || !is_met(ebpi, target_of(ebpi)));) {
        if (pair->passes == CT_MAX_PASSES) {
            pair->ended = CT_ENDED_PASS_LIMIT;
            break;
        }
        if (!refine_once(ebpi, target_of(ebpi), &goes_on)) return false;
    }
    if (is_met(ebpi, target_of(ebpi))) pair->ended = CT_ENDED_COMPLETED;
    return true;
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

/* Lists the crossings of a tile's ray; body 0's come first, as ct_ray_lists.first_body says. */
static bool cast_ray(const struct ebpi *ebpi, const ct_ebpi_tile *tile, ct_ray_lists *rays, size_t ray,
                     ct_budget *budget) {
    const ct_ebpi_view *view = &ebpi->view[tile->view];
    const int32_t u = tile->u + (1 << tile->shift_u) / 2, v = tile->v + (1 << tile->shift_v) / 2;
    for (int b = 0; b < 2; b++)
        for (uint32_t i = 0; i < tile->n_crossed[b]; i++) {
            const uint32_t tag = tile->faces[tile->begin[b] + i];
            const int32_t *corner[3];
            ct_triangle_setup setup;
            ct_ebpi_corners(&view->body[b], tag & 0x7fffffff, corner);
            if (!ct_make_setup(&setup, corner[0], corner[1], corner[2], view->u, view->v, view->axis, u, v, 0, 0))
                continue;
            const ct_fragment f = ct_fragment_at(&setup, (double)setup.edge[1], (double)setup.edge[2], tag);
            if (!append_fragment(rays, budget, ray, &f)) return false;
        }
    return true;
}

static bool walk_tiles(struct ebpi *ebpi, const ct_ebpi_tile *const *tiles, size_t n, ct_thread_scratch *worker) {
    ct_pair_context *context = ebpi->context;
    ct_budget *budget = &context->device->budget;
    ct_ray_lists *rays = &worker->rays;
    const ct_binned_tile of = {.tile.ray_area = ct_ebpi_area(&ebpi->view[tiles[0]->view], tiles[0]),
                               .view = tiles[0]->view};
    if (!ct_buffer_reserve(&rays->head_memory, budget, n * sizeof *rays->head, 0, false)) return false;
    rays->head = rays->head_memory.data;
    rays->fragments = rays->fragment_memory.data;
    rays->n_fragments = 0;
    rays->winding = NULL;
    for (int b = 0; b < 2; b++) {
        rays->initial[b] = ebpi->view[of.view].initial[b];
        if (rays->initial[b] == CT_INITIAL_COUNTED) rays->initial[b] = CT_INITIAL_ZERO; /* nothing is left out */
    }
    rays->bin = (ct_bin){.of = &of, .columns = (int32_t)n, .rows = 1};
    rays->view = of.view;
    rays->first_body = 0;
    for (size_t i = 0; i < n; i++) {
        rays->head[i] = CT_END;
        if (!cast_ray(ebpi, tiles[i], rays, i, budget)) return false;
    }
    worker->fragments += rays->n_fragments;
    return context->device->kernels->span->span(rays, &context->options, worker->sums, &worker->span, budget);
}

static bool is_walked_with(const ct_ebpi_tile *a, const ct_ebpi_tile *b) {
    return a->view == b->view && a->shift_u + a->shift_v == b->shift_u + b->shift_v;
}

static void span_chunk(void *argument, uint32_t i, uint32_t index) {
    struct ebpi *ebpi = argument;
    ct_thread_scratch *worker = &ebpi->context->workspace->workers[index];
    const double start = ct_now();
    const ct_ebpi_tile *run[RAYS_AT_ONCE];
    size_t n = 0;
    const uint32_t first = i * SPAN_CHUNK, left = ebpi->n - first,
                   end = first + (left < SPAN_CHUNK ? left : SPAN_CHUNK);
    bool ok = !ebpi->context->has_failed && ct_pair_prepare_sums(ebpi->context, worker);
    for (uint32_t t = first; t < end && ok; t++) {
        const ct_ebpi_tile *tile = &ebpi->tiles[t];
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
    run_tasks(ebpi, (ebpi->n + SPAN_CHUNK - 1) / SPAN_CHUNK, span_chunk);
}

/* ---- tiles, for pictures ---- */

static void write_tile(const struct ebpi *ebpi, const ct_ebpi_tile *tile, ct_ray_tile *to) {
    const ct_ebpi_view *view = &ebpi->view[tile->view];
    const ct_lattice *axis = ebpi->context->pair->window.axis;
    const ct_lattice *u = &axis[view->u], *v = &axis[view->v], *w = &axis[view->axis];
    *to = (ct_ray_tile){
        .axis = (uint32_t)view->axis, .length = (float)(tile->length * w->unit), .bound = bound_of(ebpi, tile)};
    double part[4][3] = {{0}}; /* corner, u, v, along */
    part[0][view->u] = u->origin + tile->u * u->unit;
    part[0][view->v] = v->origin + tile->v * v->unit;
    part[0][view->axis] = w->origin + view->lo * w->unit;
    part[1][view->u] = (1 << tile->shift_u) * u->unit;
    part[2][view->v] = (1 << tile->shift_v) * v->unit;
    part[3][view->axis] = (view->hi - view->lo) * w->unit;
    float *const of[4] = {to->corner, to->u, to->v, to->along};
    for (int i = 0; i < 4; i++) {
        ct_turn_out_of_views(ebpi->context->pair, part[i]);
        for (int k = 0; k < 3; k++) of[i][k] = (float)part[i][k];
    }
}

/* Hands the tiles out with the pair's contact, if it has one. False: out of memory. */
static bool keep_tiles(struct ebpi *ebpi) {
    const ct_pair_context *context = ebpi->context;
    ct_pair_contact *contact = context->pair->contacts;
    if (!contact || !contact->is_found) return true;
    ct_ray_tile *tiles = ct_arena_alloc(&ct_pair_driver(context)->answers, &context->device->answers,
                                        (ebpi->n ? ebpi->n : 1) * sizeof *tiles);
    if (!tiles) return false;
    for (uint32_t i = 0; i < ebpi->n; i++) write_tile(ebpi, &ebpi->tiles[i], &tiles[i]);
    contact->tiles = tiles;
    contact->contact.n_tiles = ebpi->n;
    return true;
}

/* ---- the whole ---- */

static void compute_pair(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, bool is_spread) {
    ct_pair_context context = ct_pair_context_of(workspace, pair, worker, is_spread);
    struct ebpi ebpi = {.context = &context};
    const double start = ct_now();
    pair->passes = 0;
    if (!begin(&ebpi) || !refine(&ebpi)) context.has_failed = true;
    const double refined = ct_now();
    if (!context.has_failed) {
        pair->has_view_errors = true;
        for (int w = 0; w < 3; w++)
            pair->view_error[w] = (ct_view_error){ebpi.totals[w].bound, sqrt(ebpi.totals[w].square) + ebpi.moved};
        add_spans(&ebpi);
    }
    const double summed = ct_now();
    ct_pair_finish(&context);
    if (!context.has_failed && pair->want & CT_WANT_TILES && !keep_tiles(&ebpi)) context.has_failed = true;
    pair->seconds[CT_PHASE_RASTER] += refined - start;
    pair->seconds[CT_PHASE_CONTACT] += ct_now() - summed;
    for (uint32_t i = context.first_worker; i < context.end_worker; i++)
        ct_arena_reset(&workspace->workers[i].exact.arena, &workspace->device->budget);
    if (context.has_failed) {
        pair->status = CT_OUT_OF_MEMORY;
        ct_cpu_clear_pair(pair);
    }
}

void ct_cpu_run_ebpi(ct_device *device, ct_step *steps, size_t n_steps) {
    static const ct_pair_method method = {.plan = plan_pair, .compute = compute_pair};
    ct_cpu_run_pairs(device, steps, n_steps, &method);
}
