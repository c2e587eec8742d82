/* ebpi_pair.c - the method EBPI on the CPU (Wang, Faure and Pai 2012): views of tiles that are refined until the bound
 * of the volume's error is within the tolerance; then each tile's ray adds its spans. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend/cpu/cpu.h"
#include "gpu/backend/cpu/pair_context.h"
#include "gpu/backend/cpu/turned_views.h"
#include "gpu/base/fail.h"

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
    int cuts[3]; /* log2 of how often a pass cuts a side of a view's tiles */
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
    for (int w = 0; w < 3; w++) {
        ebpi->view[w] = ct_ebpi_view_plan(&pair->window, w, most);
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

static void measure_chunk(void *argument, uint32_t i, uint32_t worker) {
    struct ebpi *ebpi = argument;
    ct_pair_context *context = ebpi->context;
    const ct_ebpi_bound bound = context->pair->strict ? CT_EBPI_STRICT : CT_EBPI_PUBLISHED;
    const uint32_t first = i * MEASURE_CHUNK, left = ebpi->n - first,
                   end = first + (left < MEASURE_CHUNK ? left : MEASURE_CHUNK);
    ct_ebpi_scratch *scratch = &context->workspace->workers[worker].ebpi;
    for (uint32_t t = first; t < end; t++) {
        ct_ebpi_tile *tile = &ebpi->tiles[t];
        if (tile->bound != UNMEASURED) continue;
        if (!context->device->kernels->ebpi->measure(&ebpi->view[tile->view], bound, tile, scratch,
                                                     &context->device->budget))
            context->has_failed = true;
    }
}

/* The area of a tile in pitches. */
static int64_t area_of(const struct ebpi *ebpi, const ct_ebpi_tile *tile) {
    const ct_ebpi_view *view = &ebpi->view[tile->view];
    return (int64_t)1 << (tile->shift_u - view->pitch_shift[0] + tile->shift_v - view->pitch_shift[1]);
}

/* m^3 of a lattice unit of depth over a pitch, of a view. */
static double unit_of(const struct ebpi *ebpi, int w) {
    const ct_lattice *axis = ebpi->context->pair->window.axis;
    return axis[ct_view_u(w)].pitch * axis[ct_view_v(w)].pitch * axis[w].unit;
}

/* Bound of a tile, m^3. */
static double bound_of(const struct ebpi *ebpi, const ct_ebpi_tile *tile) {
    return (double)tile->bound * (double)area_of(ebpi, tile) * (1.0 / (1 << CT_EBPI_DEPTH_BITS)) *
           unit_of(ebpi, tile->view);
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
        to->volume += (double)tile->length * (double)area_of(ebpi, tile) * unit_of(ebpi, tile->view);
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

/* Bounds are sorted into levels, 64 to each factor of 2 below the largest one; the last has all that are smaller. */
enum { LEVELS = 64 * 40 };

struct level {
    double bound; /* m^3, of its tiles */
    uint64_t rays;
};

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 46; /* sign, exponent and 6 bits: rises with x >= 0 */
}

static uint32_t level_of(uint64_t largest, double bound) {
    const uint64_t below = largest - bits_of(bound);
    return below < LEVELS ? (uint32_t)below : LEVELS - 1;
}

/* log2 of how often a side is cut, or less where it comes to whole pitches. */
static int cuts_of(const struct ebpi *ebpi, int w, int shift, int pitch_shift) {
    return shift - pitch_shift < ebpi->cuts[w] ? shift - pitch_shift : ebpi->cuts[w];
}

static uint32_t children_of(const struct ebpi *ebpi, const ct_ebpi_tile *tile) {
    const ct_ebpi_view *view = &ebpi->view[tile->view];
    return 1u << (cuts_of(ebpi, tile->view, tile->shift_u, view->pitch_shift[0]) +
                  cuts_of(ebpi, tile->view, tile->shift_v, view->pitch_shift[1]));
}

/* Cutting each side into 2 or 4 leaves about this part of a tile's bound: an edge crosses 4 to 7 of 16 tiles, and has a
 * quarter of the error in each; a step of the depth has all of it. */
static const double LEFT_AFTER[] = {1, 0.4, 0.25};

/* A view whose bound is more than this many targets is cut 4 x 4 (section 5), others 2 x 2, which needs fewer rays. */
static const double FAR_OFF = 2.5;

/* A pass aims at no less than this part of the bound: all tiles together could not go far below it, and those of
 * negligible bounds would be refined in vain. */
static const double LEFT_AFTER_PASS = 0.4;

static bool may_refine(const struct ebpi *ebpi, const ct_ebpi_tile *tile, int w) {
    return tile->view == w && tile->bound > 0 && children_of(ebpi, tile) > 1;
}

/* Marks the tiles of a view to refine, those of the largest bounds first, until what is left should be within the
 * target: for a given sum of bounds that takes the fewest rays. Returns how many tiles they become; *is_short: it would
 * take more than `most`. level: [LEVELS]. */
static uint64_t choose_in_view(const struct ebpi *ebpi, int w, double target, uint64_t most, struct level *level,
                               uint8_t *is_refined, bool *is_short) {
    double largest = 0;
    for (uint32_t i = 0; i < ebpi->n; i++)
        if (may_refine(ebpi, &ebpi->tiles[i], w)) largest = fmax(largest, bound_of(ebpi, &ebpi->tiles[i]));
    const uint64_t top = bits_of(largest);
    memset(level, 0, LEVELS * sizeof *level);
    for (uint32_t i = 0; i < ebpi->n; i++) {
        const ct_ebpi_tile *tile = &ebpi->tiles[i];
        if (!may_refine(ebpi, tile, w)) continue;
        struct level *of = &level[level_of(top, bound_of(ebpi, tile))];
        of->bound += bound_of(ebpi, tile);
        of->rays += children_of(ebpi, tile);
    }
    double left = ebpi->totals[w].bound;
    const double goal = fmax(target, LEFT_AFTER_PASS * left);
    uint64_t rays = 0;
    uint32_t n_whole = 0; /* levels that are refined as a whole */
    for (; n_whole < LEVELS; n_whole++) {
        const double after = left - (1 - LEFT_AFTER[ebpi->cuts[w]]) * level[n_whole].bound;
        if (after <= goal || rays + level[n_whole].rays > most) break;
        left = after;
        rays += level[n_whole].rays;
    }
    bool goes_on = true; /* in the next level */
    for (uint32_t i = 0; i < ebpi->n; i++) {
        const ct_ebpi_tile *tile = &ebpi->tiles[i];
        if (!may_refine(ebpi, tile, w)) continue;
        const double bound = bound_of(ebpi, tile);
        const uint32_t of = level_of(top, bound), children = children_of(ebpi, tile);
        if (of < n_whole) is_refined[i] = 1;
        if (of != n_whole || !goes_on) continue;
        if (left <= goal) {
            goes_on = false;
        } else if (rays + children > most) {
            *is_short = true;
            goes_on = false;
        } else {
            rays += children;
            is_refined[i] = 1;
            left -= (1 - LEFT_AFTER[ebpi->cuts[w]]) * bound;
        }
    }
    return rays;
}

static bool cut_tile(const struct ebpi *ebpi, const ct_ebpi_tile *tile, ct_ebpi_tile *to, ct_thread_scratch *worker) {
    const ct_ebpi_view *view = &ebpi->view[tile->view];
    const int cu = cuts_of(ebpi, tile->view, tile->shift_u, view->pitch_shift[0]);
    const int cv = cuts_of(ebpi, tile->view, tile->shift_v, view->pitch_shift[1]);
    uint32_t n = 0;
    for (int32_t j = 0; j < 1 << cv; j++)
        for (int32_t i = 0; i < 1 << cu; i++) {
            ct_ebpi_tile *child = &to[n++];
            *child = *tile;
            child->shift_u = (uint8_t)(tile->shift_u - cu);
            child->shift_v = (uint8_t)(tile->shift_v - cv);
            child->u = tile->u + (i << child->shift_u);
            child->v = tile->v + (j << child->shift_v);
            child->bound = UNMEASURED;
        }
    ct_device *device = ebpi->context->device;
    return device->kernels->ebpi->share(view, to, cu, cv, &worker->ebpi, &worker->exact.arena, &device->budget);
}

struct cutting {
    struct ebpi *ebpi;
    const uint8_t *is_refined;
    const uint32_t *first; /* per chunk of MEASURE_CHUNK tiles, where it goes */
    ct_ebpi_tile *to;
};

static void cut_chunk(void *argument, uint32_t i, uint32_t worker) {
    const struct cutting *cutting = argument;
    struct ebpi *ebpi = cutting->ebpi;
    const uint32_t first = i * MEASURE_CHUNK, left = ebpi->n - first;
    ct_ebpi_tile *to = cutting->to + cutting->first[i];
    for (uint32_t t = first; t < first + (left < MEASURE_CHUNK ? left : MEASURE_CHUNK); t++) {
        if (!cutting->is_refined[t]) {
            *to++ = ebpi->tiles[t];
            continue;
        }
        if (!cut_tile(ebpi, &ebpi->tiles[t], to, &ebpi->context->workspace->workers[worker]))
            ebpi->context->has_failed = true;
        to += children_of(ebpi, &ebpi->tiles[t]);
    }
}

/* Replaces the marked tiles by smaller ones. */
static bool cut_tiles(struct ebpi *ebpi, const uint8_t *is_refined, uint64_t n_new) {
    const ct_pair_context *context = ebpi->context;
    const uint32_t n_chunks = (ebpi->n + MEASURE_CHUNK - 1) / MEASURE_CHUNK;
    ct_ebpi_tile *tiles = reserve_tiles(ebpi, ebpi->n + n_new);
    uint32_t *first = malloc((n_chunks + 1) * sizeof *first), n = 0;
    struct cutting cutting = {ebpi, is_refined, first, tiles};
    if (!tiles || !first) {
        free(first);
        return false;
    }
    for (uint32_t i = 0; i < ebpi->n; i++) {
        if (i % MEASURE_CHUNK == 0) first[i / MEASURE_CHUNK] = n;
        n += is_refined[i] ? children_of(ebpi, &ebpi->tiles[i]) : 1;
    }
    if (context->is_spread)
        ct_pool_run(context->device->pool, n_chunks, cut_chunk, &cutting);
    else
        for (uint32_t i = 0; i < n_chunks; i++) cut_chunk(&cutting, i, context->driver);
    free(first);
    use_tiles(ebpi, tiles, n);
    return !context->has_failed;
}

/* A byte for each tile, all 0. NULL: out of memory. */
static uint8_t *reserve_marks(struct ebpi *ebpi) {
    ct_buffer *buffer = &ct_pair_driver(ebpi->context)->ebpi_marks;
    if (!ct_buffer_reserve(buffer, &ebpi->context->device->budget, (size_t)ebpi->n + 1, 0, false)) return NULL;
    memset(buffer->data, 0, ebpi->n);
    return buffer->data;
}

/* One pass. *goes_on: another may help. */
static bool refine_once(struct ebpi *ebpi, double target, bool *goes_on) {
    ct_pair_task *pair = ebpi->context->pair;
    struct level *list = malloc(LEVELS * sizeof *list);
    uint8_t *is_refined = reserve_marks(ebpi);
    uint64_t n_new = 0;
    bool is_short = false, is_done = false;
    for (int w = 0; w < 3 && list && is_refined; w++) {
        const uint64_t used = pair->rays + n_new;
        ebpi->cuts[w] = ebpi->totals[w].bound > FAR_OFF * target ? 2 : 1;
        if (ebpi->totals[w].bound > target)
            n_new += choose_in_view(ebpi, w, target, pair->ray_budget > used ? pair->ray_budget - used : 0, list,
                                    is_refined, &is_short);
    }
    if (is_short) pair->ended = CT_ENDED_RAY_BUDGET;
    if (!is_short && n_new == 0) pair->ended = CT_ENDED_PRECISION;
    *goes_on = pair->ended == CT_ENDED_COMPLETED;
    if (list && is_refined) is_done = n_new == 0 || (cut_tiles(ebpi, is_refined, n_new) && measure(ebpi, n_new));
    free(list);
    return is_done;
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
    for (bool goes_on = true; goes_on && !is_met(ebpi, target_of(ebpi));) {
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
    const ct_binned_tile of = {.tile.ray_area = area_of(ebpi, tiles[0]), .view = tiles[0]->view};
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
