/* refine.c - the passes of a pair: first tiles, target, cuts, until the bound holds or nothing more helps. It goes from one thing that
 * the backend has to do to the next (ct_ebpi_next). */
#include "gpu/methods/ebpi/refine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/arena.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"

/* ---- planning ---- */

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

ct_status ct_ebpi_check_tolerance(double tolerance, double relative, const ct_window *window, ct_error *error) {
    const double smallest = smallest_tolerance(window);
    if (relative > 0 || !(tolerance > 0 && tolerance < smallest)) return CT_OK;
    return ct_fail(error, CT_OUT_OF_RANGE, "tolerance",
                   "a tolerance of %g m^3 is below what their coordinates can carry: ask for %g m^3 or more", tolerance,
                   smallest * (1 + 1e-5));
}

/* Pixels along the longer side of a view: so many that few faces are over each, and not more than may have a ray. */
static int32_t choose_pixels(const ct_ebpi_refinement *of, double n_faces) {
    const double most = floor(sqrt((double)of->ray_budget / 3));
    return (int32_t)fmin(fmin(fmax(sqrt(n_faces / 2), 8), 256), most);
}

/* Gathering for the published allocation begins with so many pixels along the longer side. */
static const double COARSEST = 8;

/* The optimal allocation takes about this over the square root of the tolerance, a part of the volume, as the side of
 * an image of as many pixels as it has tiles in the end: measured on spheres, blobs and tori from 10^-1 to 10^-3. */
static const double TILES_ALONG = 6.5;

/* Pixels along the longer side of the image that the first tiles are those of: a coarser one, of pixels that are
 * gathered until their bound asks for finer ones. */
static int32_t choose_first_pixels(const ct_ebpi_refinement *of, int32_t most) {
    if (of->allocation == CT_ALLOCATION_PER_PIXEL) return most;
    double first = COARSEST;
    if (of->allocation == CT_ALLOCATION_OPTIMAL) {
        double volume = 1; /* of the window; that of the contact is not known yet */
        for (int k = 0; k < 3; k++) volume *= of->window->axis[k].pitch * of->window->axis[k].n;
        first = fmax(COARSEST, TILES_ALONG / sqrt(fmax(of->tolerance / volume, of->tolerance_rel)));
    }
    return first < most ? (int32_t)first : most;
}

/* m^3 of a lattice unit of depth over a pitch, of a view. */
static double unit_of(const ct_window *window, int w) {
    const ct_lattice *axis = window->axis;
    return axis[ct_view_u(w)].pitch * axis[ct_view_v(w)].pitch * axis[w].unit;
}

/* The pixels of a view under the equal allocation. */
static bool begin_share(ct_ebpi_refinement *of, int w, int32_t most) {
    const ct_ebpi_view fine = ct_ebpi_view_plan(of->window, w, most);
    const size_t pixels = (size_t)fine.columns * (size_t)fine.rows;
    of->share[w] = (ct_ebpi_share){.pixel_shift = fine.pixel_shift,
                                   .columns = fine.columns,
                                   .rows = fine.rows,
                                   .unit = unit_of(of->window, w),
                                   .pixel = ct_arena_alloc(of->arena, of->budget, pixels * sizeof(ct_ebpi_pixel))};
    return of->share[w].pixel != NULL;
}

bool ct_ebpi_plan_views(ct_ebpi_refinement *of, double n_faces) {
    const int32_t most = choose_pixels(of, n_faces), first = choose_first_pixels(of, most);
    for (int w = 0; w < 3; w++) {
        if (of->allocation != CT_ALLOCATION_OPTIMAL && !begin_share(of, w, most)) return false;
        of->view[w] = ct_ebpi_view_plan(of->window, w, first);
    }
    return true;
}

/* ---- tiles ---- */

/* Memory for n tiles beside the current ones. NULL: out of memory. */
static ct_ebpi_tile *reserve_tiles(ct_ebpi_refinement *of, size_t n) {
    ct_buffer *buffer = &of->tile_memory[1 - of->current];
    if (!ct_buffer_reserve(buffer, of->budget, n ? n * sizeof(ct_ebpi_tile) : 1, 0, false)) return NULL;
    return buffer->data;
}

static void use_tiles(ct_ebpi_refinement *of, ct_ebpi_tile *tiles, uint32_t n) {
    of->tiles = tiles;
    of->n = n;
    of->current = 1 - of->current;
}

/* The first tile of every pixel that both bodies are over: the others hold nothing. */
static bool make_first_tiles(ct_ebpi_refinement *of) {
    size_t n = 0;
    for (int w = 0; w < 3; w++) n += (size_t)of->view[w].columns * (size_t)of->view[w].rows;
    ct_ebpi_tile *tiles = reserve_tiles(of, n);
    if (!tiles) return false;
    n = 0;
    for (int w = 0; w < 3; w++) {
        const ct_ebpi_view *view = &of->view[w];
        for (int32_t row = 0; row < view->rows; row++)
            for (int32_t column = 0; column < view->columns; column++) {
                if (!ct_ebpi_is_under_both(view, column, row)) continue;
                tiles[n] = ct_ebpi_pixel_tile(view, column, row);
                tiles[n++].bound = CT_EBPI_UNMEASURED;
            }
    }
    use_tiles(of, tiles, (uint32_t)n);
    return true;
}

/* In the tiles' order, which depends on no order of faces or threads. */
static void add_up(ct_ebpi_refinement *of) {
    double unit[3];
    for (int w = 0; w < 3; w++) unit[w] = unit_of(of->window, w);
    memset(of->totals, 0, sizeof of->totals);
    for (uint32_t i = 0; i < of->n; i++) {
        const ct_ebpi_tile *tile = &of->tiles[i];
        const ct_ebpi_view *view = &of->view[tile->view];
        ct_ebpi_totals *to = &of->totals[tile->view];
        const double bound = ct_ebpi_bound_of(view, tile, unit[tile->view]);
        to->bound += bound;
        to->square += bound * bound;
        to->volume += (double)tile->length * (double)ct_ebpi_area(view, tile) * unit[tile->view];
    }
    for (int w = 0; w < 3; w++) /* also for the rounding of these sums */
        of->totals[w].bound = of->totals[w].bound * (1 + 0x1p-30) + of->moved + 0x1p-40 * of->totals[w].volume;
}

static ct_ebpi_operation ask_to_measure(ct_ebpi_refinement *of, uint64_t n_new) {
    of->rays += n_new;
    of->passes++;
    return CT_EBPI_MEASURE;
}

/* ---- cuts ---- */

void ct_ebpi_make_parts(const ct_ebpi_tile *tile, ct_ebpi_cut whole, ct_ebpi_tile *to) {
    const ct_ebpi_cut cut = ct_ebpi_cut_at_once(whole);
    uint32_t n = 0;
    for (int32_t j = 0; j < 1 << cut.v; j++)
        for (int32_t i = 0; i < 1 << cut.u; i++) {
            ct_ebpi_tile *part = &to[n++];
            *part = *tile;
            part->shift_u = (uint8_t)(tile->shift_u - cut.u);
            part->shift_v = (uint8_t)(tile->shift_v - cut.v);
            part->u = tile->u + (i << part->shift_u);
            part->v = tile->v + (j << part->shift_v);
            part->bound = CT_EBPI_UNMEASURED;
            part->cut[0] = (ct_ebpi_cut){(uint8_t)(whole.u - cut.u), (uint8_t)(whole.v - cut.v)};
        }
}

/* As of->cut says, each side twice at most. */
static ct_ebpi_operation ask_to_cut(ct_ebpi_refinement *of) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < of->n; i++) n += ct_ebpi_count_parts(ct_ebpi_cut_at_once(of->cut[i]));
    of->parts = n <= UINT32_MAX && !ct_is_cancelled() ? reserve_tiles(of, n) : NULL;
    of->n_parts = (uint32_t)n;
    return of->parts ? CT_EBPI_CUT : CT_EBPI_FAILED;
}

/* Of every tile, none. NULL: out of memory. */
static ct_ebpi_cut *reserve_cuts(ct_ebpi_refinement *of) {
    const size_t bytes = (size_t)of->n * sizeof(ct_ebpi_cut);
    if (!ct_buffer_reserve(of->cut_memory, of->budget, bytes + 1, 0, false)) return NULL;
    memset(of->cut_memory->data, 0, bytes);
    return of->cut = of->cut_memory->data;
}

/* What is left of the cuts, then to measure the last parts. */
static ct_ebpi_operation go_on_cutting(ct_ebpi_refinement *of) {
    bool is_done = true;
    use_tiles(of, of->parts, of->n_parts);
    if (!reserve_cuts(of)) return CT_EBPI_FAILED;
    for (uint32_t i = 0; i < of->n; i++) {
        const ct_ebpi_tile *tile = &of->tiles[i];
        if (tile->bound != CT_EBPI_UNMEASURED || ct_ebpi_count_parts(tile->cut[0]) == 1) continue;
        of->cut[i] = tile->cut[0];
        is_done = false;
    }
    return is_done ? ask_to_measure(of, of->n_new) : ask_to_cut(of);
}

/* ---- target ---- */

/* The bound that every view has to reach, m^3. */
static double target_of(const ct_ebpi_refinement *of) {
    double least = INFINITY;
    for (int w = 0; w < 3; w++) least = fmin(least, of->totals[w].volume - of->totals[w].bound);
    return fmax(of->tolerance, of->tolerance_rel * fmax(least, 0));
}

/* The part of the target that each pitch may have in its bound: of those that the first tiles hold, and but for what no
 * ray changes. */
static void find_shares(ct_ebpi_refinement *of) {
    double volume = INFINITY;
    for (int w = 0; w < 3; w++) volume = fmin(volume, of->totals[w].volume);
    /* Once the bound is a part r of the volume V, V - bound >= (1 - r) V is certain (target_of). */
    const double target = fmax(of->tolerance, of->tolerance_rel * (1 - of->tolerance_rel) * volume);
    int64_t area[3] = {0};
    for (int w = 0; w < 3; w++)
        memset(of->share[w].pixel, 0,
               (size_t)of->share[w].columns * (size_t)of->share[w].rows * sizeof *of->share[w].pixel);
    for (uint32_t i = 0; i < of->n; i++) {
        const ct_ebpi_tile *tile = &of->tiles[i];
        area[tile->view] += ct_ebpi_area(&of->view[tile->view], tile);
        ct_ebpi_add_to_pixel(&of->view[tile->view], &of->share[tile->view], tile);
    }
    for (int w = 0; w < 3; w++) {
        const double fixed = of->moved + 0x1p-29 * of->totals[w].bound + 0x1p-40 * of->totals[w].volume;
        of->share[w].of_pitch = area[w] ? fmax(target - fixed, 0) / (double)area[w] : 0;
    }
}

/* ---- passes ---- */

/* The first tile of view w: tiles are in the order of their views. */
static uint32_t first_of_view(const ct_ebpi_refinement *of, int w) {
    uint32_t first = 0, end = of->n;
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        if (of->tiles[middle].view < w)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

static ct_ebpi_pass pass_of(const ct_ebpi_refinement *of, int w, double target, uint64_t most) {
    const uint32_t first = first_of_view(of, w);
    return (ct_ebpi_pass){.view = &of->view[w],
                          .tiles = of->tiles + first,
                          .n = first_of_view(of, w + 1) - first,
                          .unit = unit_of(of->window, w),
                          .bound = of->totals[w].bound,
                          .target = target,
                          .most = most,
                          .cut = of->cut + first};
}

/* Chooses by the optimal allocation, and counts the rays that it takes. False: out of memory. */
static bool choose_optimal(ct_ebpi_refinement *of, bool *is_short) {
    const double target = target_of(of);
    ct_ebpi_level *level = malloc(CT_EBPI_LEVELS * sizeof *level);
    if (!level) return false;
    of->n_new = 0;
    for (int w = 0; w < 3; w++) {
        if (of->totals[w].bound <= target) continue;
        const uint64_t used = of->rays + of->n_new;
        ct_ebpi_pass pass = pass_of(of, w, target, of->ray_budget > used ? of->ray_budget - used : 0);
        ct_ebpi_choose_optimal(&pass, level);
        of->n_new += pass.n_new;
        *is_short = *is_short || pass.is_short;
    }
    free(level);
    return true;
}

/* Counts the rays of the equal allocation's cuts. Where they need more than the budget has left, the rays that are left go to the
 * tiles whose bound they lower most. False: out of memory. */
static bool check_equal(ct_ebpi_refinement *of, bool *is_short) {
    of->n_new = 0;
    for (uint32_t i = 0; i < of->n; i++)
        if (of->cut[i].u || of->cut[i].v) of->n_new += (uint64_t)1 << (of->cut[i].u + of->cut[i].v);
    if (of->rays + of->n_new <= of->ray_budget) return true;
    memset(of->cut, 0, of->n * sizeof *of->cut);
    return choose_optimal(of, is_short);
}

static bool are_within(const ct_ebpi_refinement *of, double bound) {
    return of->totals[0].bound <= bound && of->totals[1].bound <= bound && of->totals[2].bound <= bound;
}

static bool is_met(const ct_ebpi_refinement *of, double target) {
    if (are_within(of, target)) return true;
    /* A part of nothing cannot be reached. */
    return of->tolerance == 0 && of->totals[0].volume + of->totals[1].volume + of->totals[2].volume == 0 &&
           are_within(of, fmax(smallest_tolerance(of->window), 2 * of->moved));
}

/* How far view w's volume can be from another's by that one's bound, m^3. At most its own bound, if both are right. */
static double difference_of(const ct_ebpi_refinement *of, int w) {
    double most = 0;
    for (int other = 0; other < 3; other++) {
        const double apart = fabs(of->totals[w].volume - of->totals[other].volume);
        if (apart > of->totals[w].bound + of->totals[other].bound) most = fmax(most, apart + of->totals[other].bound);
    }
    return most;
}

static bool is_refuted(const ct_ebpi_refinement *of) {
    return difference_of(of, 0) > 0 || difference_of(of, 1) > 0 || difference_of(of, 2) > 0;
}

static void widen_bounds(ct_ebpi_refinement *of) {
    double difference[3];
    for (int w = 0; w < 3; w++) difference[w] = difference_of(of, w);
    for (int w = 0; w < 3; w++) {
        of->totals[w].bound = fmax(of->totals[w].bound, difference[w]);
        of->totals[w].square = fmax(of->totals[w].square, difference[w] * difference[w]);
    }
}

static uint64_t count_pixels(const ct_ebpi_refinement *of) {
    uint64_t n = 0;
    for (int w = 0; w < 3; w++) n += (uint64_t)of->view[w].columns * (uint64_t)of->view[w].rows;
    return n;
}

/* ---- what is done next ---- */

/* From the first tiles on. */
static ct_ebpi_operation begin(ct_ebpi_refinement *of) {
    of->last_pass = of->passes + CT_MAX_PASSES;
    of->ended = CT_ENDED_COMPLETED;
    return CT_EBPI_LIST;
}

static ct_ebpi_operation end(ct_ebpi_refinement *of) {
    if (is_met(of, target_of(of))) of->ended = CT_ENDED_COMPLETED;
    if (of->is_strict || !is_refuted(of)) return CT_EBPI_DONE;
    of->is_strict = of->rays + count_pixels(of) <= of->ray_budget;
    if (of->is_strict) return begin(of);
    widen_bounds(of);
    of->ended = CT_ENDED_RAY_BUDGET;
    return CT_EBPI_DONE;
}

/* The cuts of a pass are chosen. */
static ct_ebpi_operation begin_cutting(ct_ebpi_refinement *of, bool is_short) {
    if (ct_is_cancelled_at("rays", of->rays)) return CT_EBPI_FAILED;
    if (is_short)
        of->ended = CT_ENDED_RAY_BUDGET;
    else if (of->n_new == 0)
        of->ended = CT_ENDED_PRECISION;
    return of->n_new ? ask_to_cut(of) : end(of);
}

/* All tiles are measured. */
static ct_ebpi_operation begin_pass(ct_ebpi_refinement *of) {
    /* By the equal allocation each tile has to keep to its part, also where the sum is within the target. */
    const bool is_equal = of->allocation != CT_ALLOCATION_OPTIMAL;
    bool is_short = false;
    if (of->ended != CT_ENDED_COMPLETED || (!is_equal && is_met(of, target_of(of)))) return end(of);
    if (of->passes == of->last_pass) {
        of->ended = CT_ENDED_PASS_LIMIT;
        return end(of);
    }
    if (!reserve_cuts(of)) return CT_EBPI_FAILED;
    if (is_equal) {
        find_shares(of);
        return CT_EBPI_CUT_EQUALLY;
    }
    return choose_optimal(of, &is_short) ? begin_cutting(of, is_short) : CT_EBPI_FAILED;
}

static ct_ebpi_operation next_of(ct_ebpi_refinement *of) {
    bool is_short = false;
    switch (of->asked) {
    case CT_EBPI_BEGIN:
        of->rays = 0;
        of->passes = 0;
        return begin(of);
    case CT_EBPI_LIST:
        return make_first_tiles(of) ? ask_to_measure(of, of->n) : CT_EBPI_FAILED;
    case CT_EBPI_MEASURE:
        add_up(of);
        return begin_pass(of);
    case CT_EBPI_CUT_EQUALLY:
        return check_equal(of, &is_short) ? begin_cutting(of, is_short) : CT_EBPI_FAILED;
    case CT_EBPI_CUT:
        return go_on_cutting(of);
    default:
        return of->asked;
    }
}

ct_ebpi_operation ct_ebpi_next(ct_ebpi_refinement *of) {
    return of->asked = next_of(of);
}

void ct_ebpi_view_errors(const ct_ebpi_refinement *of, double bound[3], double deviation[3]) {
    for (int w = 0; w < 3; w++) {
        bound[w] = of->totals[w].bound;
        deviation[w] = sqrt(of->totals[w].square) + of->moved;
    }
}

/* ---- pictures ---- */

void ct_ebpi_describe_tile(const ct_ebpi_refinement *of, const ct_ebpi_tile *tile, ct_ray_tile *to, double part[4][3]) {
    const ct_ebpi_view *view = &of->view[tile->view];
    const ct_lattice *axis = of->window->axis;
    const ct_lattice *u = &axis[view->u], *v = &axis[view->v], *w = &axis[view->axis];
    *to = (ct_ray_tile){.axis = (uint32_t)view->axis,
                        .length = (float)(tile->length * w->unit),
                        .bound = ct_ebpi_bound_of(view, tile, unit_of(of->window, view->axis))};
    memset(part, 0, 4 * sizeof *part);
    part[0][view->u] = u->origin + tile->u * u->unit;
    part[0][view->v] = v->origin + tile->v * v->unit;
    part[0][view->axis] = w->origin + view->lo * w->unit;
    part[1][view->u] = (1 << tile->shift_u) * u->unit;
    part[2][view->v] = (1 << tile->shift_v) * v->unit;
    part[3][view->axis] = (view->hi - view->lo) * w->unit;
}

void ct_ebpi_set_parts(ct_ray_tile *to, const double part[4][3]) {
    float *const of[4] = {to->corner, to->u, to->v, to->along};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) of[i][k] = (float)part[i][k];
}

/* ---- memory on the host, where the device refines ---- */

struct ct_ebpi_memory {
    ct_budget budget; /* without a limit */
    ct_arena arena;
    ct_buffer tiles[2], cuts;
};

ct_ebpi_memory *ct_ebpi_memory_new(void) {
    return calloc(1, sizeof(ct_ebpi_memory));
}

void ct_ebpi_memory_free(ct_ebpi_memory **memory) {
    ct_ebpi_memory *of = *memory;
    *memory = NULL;
    if (!of) return;
    ct_arena_free(&of->arena, &of->budget);
    for (int k = 0; k < 2; k++) ct_buffer_free(&of->tiles[k], &of->budget);
    ct_buffer_free(&of->cuts, &of->budget);
    free(of);
}

void ct_ebpi_memory_use(ct_ebpi_memory *memory, ct_ebpi_refinement *of) {
    ct_arena_reset(&memory->arena, &memory->budget);
    of->arena = &memory->arena;
    of->budget = &memory->budget;
    of->tile_memory = memory->tiles;
    of->cut_memory = &memory->cuts;
}

void *ct_ebpi_memory_alloc(ct_ebpi_memory *memory, size_t bytes) {
    return ct_arena_alloc(&memory->arena, &memory->budget, bytes ? bytes : 1);
}
