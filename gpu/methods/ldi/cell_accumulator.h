/* cell_accumulator.h - cuts spans at the walls of cells and adds the parts to the cells (cells_k.h); for *.simd.c files
 * of this stage.
 *
 * Rays of one row whose samples are in the same cell across (a run) pass the same column of cells. Spans within one
 * cell are added to records of that cell and triangle, in a cache. Spans that walls cut are added up per triangle and
 * wall instead, while neighbouring rays meet the same triangle; the sums of two walls then give the record of the cell
 * between them. */
#ifndef CT_CELL_ACCUMULATOR_H
#define CT_CELL_ACCUMULATOR_H

#include "gpu/methods/ldi/cell_walls.h"
#include "gpu/methods/ldi/gradient_accumulator.h"

struct cell_accumulator {
    const ct_cell_grid *grid; /* NULL: there are no cells */
    ct_cell_scratch *scratch;
    ct_budget *budget;
    struct gradient_accumulator *gradient; /* the contact's, which gets what walls do not cut as well */
    uint32_t view, axis_u, axis_v;
    int64_t ray_area; /* ct_tile.ray_area */
    bool has_gradient;
    size_t run_begin, run_end;      /* rays of the run that scratch->column is of */
    int32_t depth_begin, depth_end; /* lattice coordinates of the depths that are in the same cell along the rays */
    int32_t along[3];               /* that cell */
    /* The cell of the column that spans were added to last, and those not yet added to the column: */
    int32_t current; /* or NO_CURRENT */
    uint32_t cell;   /* column.cell of it */
    int64_t length, n_spans;
    ct_cached_record *open[2]; /* per end of a span, the cached record that was added to last */
};
enum { NO_CURRENT = -1 };

static inline void begin_cells(struct cell_accumulator *a, struct gradient_accumulator *gradient,
                               const ct_ray_lists *rays, const ct_span_options *options, ct_span_scratch *scratch,
                               ct_budget *budget) {
    a->grid = options->grid;
    if (!a->grid) return;
    a->scratch = &scratch->cells;
    a->budget = budget;
    a->gradient = gradient;
    a->view = (uint32_t)rays->view;
    a->axis_u = (uint32_t)ct_view_u(rays->view);
    a->axis_v = (uint32_t)ct_view_v(rays->view);
    a->ray_area = rays->bin.of->tile.ray_area;
    a->has_gradient = options->has_cell_gradient;
    a->run_begin = a->run_end = 0;
    a->depth_begin = a->depth_end = 0;
    a->current = NO_CURRENT;
    a->length = a->n_spans = 0;
    a->open[0] = a->open[1] = a->scratch->cache;
}

/* ---- records ---- */

/* Appends a record; l1, l2 and whole are as in ct_cached_record. Beyond the limit of cells there is an error, and no
 * use for records. False: out of memory. */
static inline bool append_record(struct cell_accumulator *a, uint32_t cell, uint32_t tag, int64_t whole, int64_t l1,
                                 int64_t l2) {
    ct_cell_scratch *scratch = a->scratch;
    if (scratch->n_cells > a->grid->max_cells) return true;
    ct_cell_spans *of = (ct_cell_spans *)scratch->cells.data + (cell >> 2);
    if (of->next == of->chunk_end && !ct_cells_add_chunk(scratch, a->budget, of)) return false;
    const uint32_t *corner = corners_of(a->gradient, tag);
    const int64_t area = a->ray_area;
    ((ct_cell_record *)scratch->records.data)[of->next++] =
        (ct_cell_record){{corner[0], corner[1], corner[2]},
                         tag >> 31 << 2 | (cell & 3),
                         {(whole - l1 - l2) * area, l1 * area, l2 * area}};
    return true;
}

/* Appends a record of the cache, and adds it to the contact's gradient. False: out of memory. */
static inline bool append_cached(struct cell_accumulator *a, const ct_cached_record *record) {
    if (record->tag == CT_NO_RECORD) return true;
    add_contribution(a->gradient, record->tag, record->whole, record->l1, record->l2);
    return append_record(a, record->cell, record->tag, record->whole, record->l1, record->l2);
}

/* The record of a triangle in a cell. NULL: out of memory. */
static inline ct_cached_record *find_record(struct cell_accumulator *a, uint32_t cell, uint32_t tag) {
    ct_cached_record *record =
        &a->scratch->cache[(tag * 0x9e3779b1u + cell * 0x85ebca6bu) >> (32 - CT_CELL_CACHE_BITS)];
    if (record->tag != tag || record->cell != cell) {
        __builtin_prefetch(corners_of(a->gradient, tag)); /* for append_record */
        if (!append_cached(a, record)) return NULL;
        *record = (ct_cached_record){.cell = cell, .tag = tag};
    }
    return record;
}

/* ---- the column of a run ---- */

static inline bool is_counted(uint32_t cell) {
    return cell < (uint32_t)CT_UNCOUNTED_CELL;
}

/* Turns the sums of a triangle's ends into records, and clears them. A triangle that several rays of the run meet is
 * likely to be met in the next row: the cache adds those up. False: out of memory. */
static inline bool close_end(struct cell_accumulator *a, ct_end_sums *sums) {
    const uint32_t *cell = a->scratch->column.cell;
    const bool is_cached = sums->n_rays > 1;
    int64_t below[3] = {0, 0, 0}, all[3] = {0, 0, 0};
    bool ok = true;
    for (int32_t c = sums->begin; c < sums->end; c++) {
        int64_t of_cell[3];
        for (int k = 0; k < 3; k++) {
            const int64_t wall = sums->walls[k][c];
            of_cell[k] = sums->ends[c][k] + wall - below[k];
            below[k] = wall;
            all[k] += sums->ends[c][k];
            sums->ends[c][k] = sums->walls[k][c] = 0;
        }
        if (!is_counted(cell[c])) continue; /* its walls coincide, or it is beyond the limit */
        if (is_cached) {
            ct_cached_record *record = find_record(a, cell[c], sums->tag);
            ok = record && ok;
            if (!record) continue;
            record->whole += of_cell[0];
            record->l1 += of_cell[1];
            record->l2 += of_cell[2];
        } else {
            ok = append_record(a, cell[c], sums->tag, of_cell[0], of_cell[1], of_cell[2]) && ok;
        }
    }
    if (sums->n_rays == 1) add_contribution(a->gradient, sums->tag, all[0], all[1], all[2]);
    sums->tag = CT_NO_RECORD;
    sums->begin = sums->end = sums->n_rays = 0;
    return ok;
}

/* Adds the current cell's spans to the column. Before `along`, or the column, changes. */
static inline void leave_current(struct cell_accumulator *a) {
    ct_cell_column *column = &a->scratch->column;
    if (a->current == NO_CURRENT) return;
    column->length[a->current] += a->length;
    column->spans[a->current] += a->n_spans;
    a->length = a->n_spans = 0;
    a->current = NO_CURRENT;
}

/* Closes all ends of the run, and adds its spans to the cells. False: out of memory. */
static __attribute__((noinline)) bool end_run(struct cell_accumulator *a) {
    ct_cell_column *column = &a->scratch->column;
    bool ok = true;
    leave_current(a);
    for (int i = 0; i < 4; i++) ok = close_end(a, &column->end_sums[i / 2][i % 2]) && ok;
    for (int32_t c = column->begin; c < column->end; c++) {
        if (is_counted(column->cell[c])) {
            ct_cell_spans *spans = (ct_cell_spans *)a->scratch->cells.data + (column->cell[c] >> 2);
            spans->length[a->view] += a->ray_area * column->length[c];
            spans->spans[a->view] += a->ray_area * column->spans[c];
        }
        column->cell[c] = (uint32_t)CT_UNKNOWN_CELL;
        column->length[c] = column->spans[c] = 0;
    }
    column->begin = column->end = 0;
    return ok;
}

/* Leaves the cache empty. False: out of memory. */
static inline bool end_cells(struct cell_accumulator *a) {
    if (!a->grid) return true;
    bool ok = end_run(a);
    for (int i = 0; i < 1 << CT_CELL_CACHE_BITS; i++) {
        ok = append_cached(a, &a->scratch->cache[i]) && ok;
        a->scratch->cache[i].tag = CT_NO_RECORD;
    }
    return ok;
}

/* Begins the run of rays in the row of ray number `ray` that are in the same cell. False: out of memory. */
static __attribute__((noinline)) bool begin_run(struct cell_accumulator *a, const ct_ray_lists *rays, size_t ray) {
    const ct_bin *bin = &rays->bin;
    const ct_tile *tile = &bin->of->tile;
    const size_t columns = (size_t)bin->columns, row = ray / columns;
    const int32_t column = bin->first_column + (int32_t)(ray - row * columns);
    const ct_cell_axis *along_u = &a->grid->axis[a->axis_u];
    const int32_t u = ct_tile_u(tile, column);
    if (!end_run(a)) return false;
    a->along[a->axis_u] = ct_cell_at(along_u, u);
    a->along[a->axis_v] = ct_cell_at(&a->grid->axis[a->axis_v], ct_tile_v(tile, bin->first_row + (int32_t)row));
    a->run_begin = ray;
    a->run_end = (row + 1) * columns;
    const int64_t wall = along_u->walls[a->along[a->axis_u] + 1], pitch = (int64_t)1 << tile->shift_u;
    const int64_t more = (wall - u + pitch - 1) / pitch; /* columns from this one on whose samples are below the wall */
    if (more < (int64_t)(a->run_end - ray)) a->run_end = ray + (size_t)more;
    return true;
}

/* The cell of a depth along the rays. */
static __attribute__((noinline)) void find_depth(struct cell_accumulator *a, int32_t depth) {
    const ct_cell_axis *along = &a->grid->axis[a->view];
    const int32_t cell = ct_cell_at(along, depth);
    leave_current(a);
    a->along[a->view] = cell;
    a->depth_begin = along->walls[cell];
    a->depth_end = along->walls[cell + 1];
}

/* Finds the cells, along each axis, of the lower end of a span of ray number `ray`. False: out of memory. */
static inline bool find_cells_along(struct cell_accumulator *a, const ct_ray_lists *rays, size_t ray, int32_t lower) {
    if (ray - a->run_begin >= a->run_end - a->run_begin && !begin_run(a, rays, ray)) return false;
    if (lower < a->depth_begin || lower >= a->depth_end) find_depth(a, lower);
    return true;
}

/* Finds cell c of the column. False: out of memory. */
static __attribute__((noinline)) bool find_cell(struct cell_accumulator *a, int32_t c) {
    ct_cell_scratch *scratch = a->scratch;
    ct_cell_column *column = &scratch->column;
    int32_t cell[3] = {a->along[0], a->along[1], a->along[2]};
    cell[a->view] = c;
    if (column->begin == column->end) column->begin = column->end = c;
    if (c < column->begin) column->begin = c;
    if (c >= column->end) column->end = c + 1;
    column->cell[c] = (uint32_t)CT_UNCOUNTED_CELL;
    if (scratch->n_cells / CT_CELLS_COUNTED > a->grid->max_cells) return true;
    const uint32_t index = ct_cells_find(scratch, a->budget, ct_cell_key(cell));
    if (index == CT_NO_CELL) return false;
    column->cell[c] = index << 2 | a->view;
    return true;
}

/* Adds a part of a span to cell c of the column. False: out of memory. */
static inline bool add_length(struct cell_accumulator *a, int32_t c, int64_t length) {
    ct_cell_column *column = &a->scratch->column;
    column->length[c] += length;
    column->spans[c]++;
    return column->cell[c] != (uint32_t)CT_UNKNOWN_CELL || find_cell(a, c);
}

/* ---- spans that walls cut ---- */

/* Cuts the span [lower, upper], which begins in cell `first` of the column, into parts. Returns the cell in which it
 * ends, or -1: out of memory. */
static inline int32_t cut_length(struct cell_accumulator *a, int32_t first, int32_t lower, int32_t upper) {
    const int32_t *walls = a->grid->axis[a->view].walls;
    for (int32_t c = first, from = lower;; c++) {
        const int32_t wall = walls[c + 1], to = wall < upper ? wall : upper;
        if (to > from && !add_length(a, c, to - from)) return -1; /* walls may coincide */
        if (wall >= upper) return c;
        from = to;
    }
}

/* One end of a span in cells [first, last] of the column, of kind ALONE or HALF + body (gradient_accumulator.h). */
struct cut_end {
    int side, kind;
    int32_t first, last;
};

/* Adds an end of a span whose shares are found. False: out of memory. */
static inline bool add_end(struct cell_accumulator *a, const ct_fragment *f, const struct cut_end *end) {
    const int is_shared = end->kind >= HALF;
    ct_cell_column *column = &a->scratch->column;
    ct_end_sums *sums = &column->end_sums[end->side][end->kind > HALF];
    int64_t weight[3];
    ct_bound_weights(f, is_shared, weight);
    if (sums->tag != f->tag) {
        if (!close_end(a, sums)) return false;
        sums->tag = f->tag;
        sums->begin = end->first;
        __builtin_prefetch(corners_of(a->gradient, f->tag)); /* for append_record */
    }
    sums->n_rays++;
    if (end->first < sums->begin) sums->begin = end->first;
    if (end->last >= sums->end) sums->end = end->last + 1;
    const int64_t sign = end->side == UPPER ? 1 : -1;
    int64_t *at = sums->ends[end->side == UPPER ? end->last : end->first];
    at[0] += sign * (CT_WEIGHT_ONE >> is_shared);
    at[1] += sign * weight[1];
    at[2] += sign * weight[2];
    add_walls(sums, end->side == UPPER ? column->share : column->rest, end->first, end->last, is_shared, weight[1],
              weight[2]);
    return true;
}

/* Adds both fragments of a bound, or the one that it has. False: out of memory. */
static inline bool add_bound_to_cells(struct cell_accumulator *a, const ct_linked_fragment *fragments,
                                      const ct_bound *bound, struct cut_end end) {
    const bool is_shared = bound->fragment[0] >= 0 && bound->fragment[1] >= 0;
    for (int b = 0; b < 2; b++) {
        end.kind = is_shared ? HALF + b : ALONE;
        if (bound->fragment[b] >= 0 && !add_end(a, &fragments[bound->fragment[b]].f, &end)) return false;
    }
    return true;
}

/* Adds a span whose ends are one fragment each, and which walls cut. False: out of memory. */
static __attribute__((noinline)) bool add_cut_span(struct cell_accumulator *a, const ct_fragment *first,
                                                   const ct_fragment *last) {
    const int32_t lower = ct_fragment_depth(first->key), upper = ct_fragment_depth(last->key);
    const int32_t from = a->along[a->view], to = cut_length(a, from, lower, upper);
    if (to < 0 || !a->has_gradient) return to >= 0;
    find_shares(&a->scratch->column, a->grid->axis[a->view].walls, from, to, lower, upper);
    return add_end(a, first, &(struct cut_end){LOWER, ALONE, from, to}) &&
           add_end(a, last, &(struct cut_end){UPPER, ALONE, from, to});
}

/* ---- spans ---- */

/* Makes the cell of `along` the current one. False: out of memory. */
static __attribute__((noinline)) bool enter_cell(struct cell_accumulator *a) {
    const int32_t c = a->along[a->view];
    const uint32_t *cell = &a->scratch->column.cell[c];
    if (*cell == (uint32_t)CT_UNKNOWN_CELL && !find_cell(a, c)) return false;
    a->current = c;
    a->cell = *cell;
    return true;
}

/* Adds one fragment's weights to the current cell, with a sign. False: out of memory. */
static inline bool add_to_cell(struct cell_accumulator *a, int side, const ct_fragment *f, int64_t sign) {
    ct_cached_record *record = a->open[side];
    if (record->tag != f->tag || record->cell != a->cell) {
        record = find_record(a, a->cell, f->tag);
        if (!record) return false;
        a->open[side] = record;
    }
    record->whole += sign * CT_WEIGHT_ONE;
    record->l1 += sign * (int32_t)f->l1;
    record->l2 += sign * (int32_t)f->l2;
    return true;
}

/* Adds a span whose ends are one fragment each. False: out of memory. */
static inline bool add_span_to_cells(struct cell_accumulator *a, const ct_ray_lists *rays, size_t ray,
                                     const ct_fragment *first, const ct_fragment *last) {
    const int32_t lower = ct_fragment_depth(first->key), upper = ct_fragment_depth(last->key);
    if (!find_cells_along(a, rays, ray, lower)) return false;
    if (upper > a->depth_end) return add_cut_span(a, first, last);
    if (a->current == NO_CURRENT && !enter_cell(a)) return false;
    a->length += upper - lower;
    a->n_spans++;
    if (!a->has_gradient || !is_counted(a->cell)) return true;
    return add_to_cell(a, LOWER, first, -1) && add_to_cell(a, UPPER, last, 1);
}

/* Adds any span. False: out of memory. */
static inline bool add_event_to_cells(struct cell_accumulator *a, const ct_ray_lists *rays, size_t ray,
                                      const ct_span_event *span) {
    const ct_linked_fragment *fragments = rays->fragments;
    const int64_t *low = span->lower.fragment, *high = span->upper.fragment;
    const ct_fragment *first = &fragments[low[low[0] < 0]].f, *last = &fragments[high[high[0] < 0]].f;
    if ((low[0] < 0 || low[1] < 0) && (high[0] < 0 || high[1] < 0)) return add_span_to_cells(a, rays, ray, first, last);
    const int32_t lower = ct_fragment_depth(first->key), upper = ct_fragment_depth(last->key);
    if (!find_cells_along(a, rays, ray, lower)) return false;
    const int32_t from = a->along[a->view], to = cut_length(a, from, lower, upper);
    if (to < 0 || !a->has_gradient) return to >= 0;
    find_shares(&a->scratch->column, a->grid->axis[a->view].walls, from, to, lower, upper);
    return add_bound_to_cells(a, fragments, &span->lower, (struct cut_end){LOWER, ALONE, from, to}) &&
           add_bound_to_cells(a, fragments, &span->upper, (struct cut_end){UPPER, ALONE, from, to});
}

#endif
