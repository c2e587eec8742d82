/* cell_accumulator.h - cuts spans at the walls of cells and adds the parts to the cells (cells_k.h); for *.simd.c files
 * of this stage. */
#ifndef CT_CELL_ACCUMULATOR_H
#define CT_CELL_ACCUMULATOR_H

#include "gpu/span/gradient_accumulator.h"

struct cell_accumulator {
    const ct_cell_grid *grid; /* NULL: there are no cells */
    ct_cell_scratch *scratch;
    ct_budget *budget;
    struct gradient_accumulator *gradient; /* the contact's, to which records are added as well */
    uint32_t view, axis_u, axis_v;
    int64_t ray_area; /* ct_tile.ray_area */
    bool has_gradient;
    size_t run_begin, run_end;      /* rays of one row whose samples are in the same cell along u and v */
    int32_t depth_begin, depth_end; /* lattice coordinates of the depths that are in the same cell along the rays */
    int32_t along[3];               /* that cell */
    /* If is_current, it is cell number `last` of the scratch, whose records have the number `cell`, or NO_CELL if it
     * takes none. Spans that were met since then are added to it later: */
    bool is_current;
    uint32_t cell;
    int64_t length, n_spans;
    ct_cell_record *open[2]; /* per end of a span, the cached record that was added to last */
};
#define NO_CELL UINT32_MAX

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
    a->is_current = false;
    a->length = a->n_spans = 0;
    a->open[0] = a->open[1] = a->scratch->cache;
}

/* Moves a record from the cache to the list, and adds it to the contact's gradient: what walls add cancels out there.
 * False: out of memory. */
static inline bool append_record(struct cell_accumulator *a, const ct_cell_record *record) {
    ct_cell_scratch *scratch = a->scratch;
    if (record->tag == CT_NO_RECORD) return true;
    if (scratch->n_records == scratch->max_records && !ct_cells_grow_records(scratch, a->budget)) return false;
    ct_cell_record *to = (ct_cell_record *)scratch->records.data + scratch->n_records++;
    to->cell = record->cell;
    to->tag = record->tag;
    to->whole = record->whole * a->ray_area;
    to->l1 = record->l1 * a->ray_area;
    to->l2 = record->l2 * a->ray_area;
    struct triangle_contribution *whole = open_contribution(a->gradient, record->tag);
    whole->whole = record->whole;
    whole->l1 = record->l1;
    whole->l2 = record->l2;
    return true;
}

/* Adds spans to the scratch's last cell. */
static inline void add_spans(struct cell_accumulator *a, int64_t length, int64_t n) {
    ct_cell_spans *spans = (ct_cell_spans *)a->scratch->cells.data + a->scratch->last;
    spans->length[a->view] += a->ray_area * length;
    spans->spans[a->view] += a->ray_area * n;
}

/* Whoever changes `along` or the scratch's last cell calls it first. */
static inline void leave_current_cell(struct cell_accumulator *a) {
    if (a->is_current) add_spans(a, a->length, a->n_spans);
    a->length = a->n_spans = 0;
    a->is_current = false;
}

/* Leaves the cache empty. False: out of memory. */
static inline bool end_cells(struct cell_accumulator *a) {
    if (!a->grid) return true;
    bool ok = true;
    leave_current_cell(a);
    for (int i = 0; i < 1 << CT_CELL_CACHE_BITS; i++) {
        ok = ok && append_record(a, &a->scratch->cache[i]);
        a->scratch->cache[i].tag = CT_NO_RECORD;
    }
    return ok;
}

/* What a bound adds to the gradient at the corners of one triangle, as in ct_cell_record. */
struct end_weights {
    int64_t whole, l1, l2;
};

/* One end of a span: one fragment's weights, or two halves where both bodies bound it. */
struct span_end {
    int n;
    uint32_t tag[2];
    struct end_weights of[2];
};

static inline void add_end(struct span_end *end, const ct_fragment *f, int is_shared) {
    int64_t weight[3];
    ct_bound_weights(f, is_shared, weight);
    end->tag[end->n] = f->tag;
    end->of[end->n++] = (struct end_weights){CT_WEIGHT_ONE >> is_shared, weight[1], weight[2]};
}

static inline struct span_end span_end_of(const ct_linked_fragment *fragments, const ct_bound *bound) {
    struct span_end end = {.n = 0};
    const int is_shared = bound->fragment[0] >= 0 && bound->fragment[1] >= 0;
    for (int b = 0; b < 2; b++)
        if (bound->fragment[b] >= 0) add_end(&end, &fragments[bound->fragment[b]].f, is_shared);
    return end;
}

/* The record of a triangle in a cell. NULL: out of memory. */
static inline ct_cell_record *find_record(struct cell_accumulator *a, uint32_t cell, uint32_t tag) {
    ct_cell_record *record = &a->scratch->cache[(tag * 0x9e3779b1u + cell * 0x85ebca6bu) >> (32 - CT_CELL_CACHE_BITS)];
    if (record->tag != tag || record->cell != cell) {
        if (!append_record(a, record)) return NULL;
        *record = (ct_cell_record){.cell = cell, .tag = tag};
    }
    return record;
}

/* Makes the cell of a key the scratch's last. *cell: the number that its records have, or NO_CELL if it takes none;
 * *is_left_out: it is far beyond the limit. False: out of memory. */
static inline bool find_cell(struct cell_accumulator *a, uint64_t key, uint32_t *cell, bool *is_left_out) {
    ct_cell_scratch *scratch = a->scratch;
    const uint32_t max_cells = a->grid->max_cells;
    *cell = NO_CELL;
    *is_left_out = false;
    if (key != scratch->last_key) {
        *is_left_out = scratch->n_cells / CT_CELLS_COUNTED > max_cells;
        if (*is_left_out) return true;
        if (!ct_cells_find(scratch, a->budget, key)) return false;
    }
    if (a->has_gradient && scratch->n_cells <= max_cells) *cell = scratch->last << 2 | a->view;
    return true;
}

/* Adds to a cell what the walls at both ends of a part of a span get of one end of the span: its weights times the
 * difference of the walls' shares of it. *before: the share that the lower wall gets, in; the upper wall's, out. False:
 * out of memory. */
static inline bool add_share(struct cell_accumulator *a, uint32_t cell, uint32_t tag, const struct end_weights *end,
                             int64_t share, struct end_weights *before) {
    const struct end_weights now = {ct_share_weight(end->whole, share), ct_share_weight(end->l1, share),
                                    ct_share_weight(end->l2, share)};
    ct_cell_record *record = find_record(a, cell, tag);
    if (!record) return false;
    record->whole += now.whole - before->whole;
    record->l1 += now.l1 - before->l1;
    record->l2 += now.l2 - before->l2;
    *before = now;
    return true;
}

/* Adds a span that any number of cells share; its lower end is in those of `along`. False: out of memory. */
static __attribute__((noinline)) bool add_cut_span(struct cell_accumulator *a, int32_t lower, int32_t upper,
                                                   const struct span_end *low, const struct span_end *high) {
    const uint32_t w = a->view;
    const int32_t *walls = a->grid->axis[w].walls;
    int32_t cell[3] = {a->along[0], a->along[1], a->along[2]};
    struct end_weights low_before[2] = {low->of[0], low->of[1]}, high_before[2] = {{0, 0, 0}, {0, 0, 0}};
    leave_current_cell(a);
    for (int32_t from = lower; from < upper; cell[w]++) {
        const int32_t wall = walls[cell[w] + 1], to = wall < upper ? wall : upper;
        if (to == from) continue; /* walls coincide */
        const int64_t share = to == upper ? CT_WEIGHT_ONE : ct_wall_share(lower, upper, to);
        uint32_t number;
        bool is_left_out;
        if (!find_cell(a, ct_cell_key(cell), &number, &is_left_out)) return false;
        if (is_left_out) return true;
        add_spans(a, to - from, 1);
        from = to;
        if (number == NO_CELL) continue;
        for (int i = 0; i < high->n; i++)
            if (!add_share(a, number, high->tag[i], &high->of[i], share, &high_before[i])) return false;
        for (int i = 0; i < low->n; i++)
            if (!add_share(a, number, low->tag[i], &low->of[i], CT_WEIGHT_ONE - share, &low_before[i])) return false;
    }
    return true;
}

/* The run of rays in the row of ray number `ray` that are in the same cell. */
static __attribute__((noinline)) void find_run(struct cell_accumulator *a, const ct_ray_lists *rays, size_t ray) {
    const ct_bin *bin = &rays->bin;
    const ct_tile *tile = &bin->of->tile;
    const size_t columns = (size_t)bin->columns, row = ray / columns;
    const int32_t column = bin->first_column + (int32_t)(ray - row * columns);
    const ct_cell_axis *along_u = &a->grid->axis[a->axis_u];
    const int32_t u = ct_tile_u(tile, column);
    leave_current_cell(a);
    a->along[a->axis_u] = ct_cell_at(along_u, u);
    a->along[a->axis_v] = ct_cell_at(&a->grid->axis[a->axis_v], ct_tile_v(tile, bin->first_row + (int32_t)row));
    a->run_begin = ray;
    a->run_end = (row + 1) * columns;
    const int64_t wall = along_u->walls[a->along[a->axis_u] + 1], pitch = (int64_t)1 << tile->shift_u;
    const int64_t more = (wall - u + pitch - 1) / pitch; /* columns from this one on whose samples are below the wall */
    if (more < (int64_t)(a->run_end - ray)) a->run_end = ray + (size_t)more;
}

/* The cell of a depth along the rays. */
static __attribute__((noinline)) void find_depth(struct cell_accumulator *a, int32_t depth) {
    const ct_cell_axis *along = &a->grid->axis[a->view];
    leave_current_cell(a);
    const int32_t cell = ct_cell_at(along, depth);
    a->along[a->view] = cell;
    a->depth_begin = along->walls[cell];
    a->depth_end = along->walls[cell + 1];
}

/* Finds the cells, along each axis, of the lower end of a span of ray number `ray`. */
static inline void find_cells_along(struct cell_accumulator *a, const ct_ray_lists *rays, size_t ray, int32_t lower) {
    if (ray - a->run_begin >= a->run_end - a->run_begin) find_run(a, rays, ray);
    if (lower < a->depth_begin || lower >= a->depth_end) find_depth(a, lower);
}

/* Makes the cell of `along` the current one. False: out of memory. */
static __attribute__((noinline)) bool enter_cell(struct cell_accumulator *a, bool *is_left_out) {
    if (!find_cell(a, ct_cell_key(a->along), &a->cell, is_left_out)) return false;
    a->is_current = !*is_left_out;
    return true;
}

/* Adds one fragment's weights to the current cell, with a sign. False: out of memory. */
static inline bool add_to_current(struct cell_accumulator *a, int end, const ct_fragment *f, int64_t sign) {
    ct_cell_record *record = a->open[end];
    if (record->tag != f->tag || record->cell != a->cell) {
        record = find_record(a, a->cell, f->tag);
        if (!record) return false;
        a->open[end] = record;
    }
    record->whole += sign * CT_WEIGHT_ONE;
    record->l1 += sign * (int32_t)f->l1;
    record->l2 += sign * (int32_t)f->l2;
    return true;
}

static bool cut_between(struct cell_accumulator *a, const ct_fragment *first, const ct_fragment *last) {
    struct span_end low = {.n = 0}, high = {.n = 0};
    add_end(&low, first, 0);
    add_end(&high, last, 0);
    return add_cut_span(a, ct_fragment_depth(first->key), ct_fragment_depth(last->key), &low, &high);
}

/* Adds a span whose ends are one fragment each. False: out of memory. */
static inline bool add_span_to_cells(struct cell_accumulator *a, const ct_ray_lists *rays, size_t ray,
                                     const ct_fragment *first, const ct_fragment *last) {
    const int32_t lower = ct_fragment_depth(first->key), upper = ct_fragment_depth(last->key);
    find_cells_along(a, rays, ray, lower);
    if (upper > a->depth_end) return cut_between(a, first, last);
    bool is_left_out = false;
    if (!a->is_current && !enter_cell(a, &is_left_out)) return false;
    if (is_left_out) return true;
    a->length += upper - lower;
    a->n_spans++;
    return a->cell == NO_CELL || (add_to_current(a, 0, first, -1) && add_to_current(a, 1, last, 1));
}

/* Adds any span. False: out of memory. */
static inline bool add_event_to_cells(struct cell_accumulator *a, const ct_ray_lists *rays, size_t ray,
                                      const ct_span_event *span) {
    const ct_linked_fragment *fragments = rays->fragments;
    const int64_t *low = span->lower.fragment, *high = span->upper.fragment;
    const int64_t first = low[low[0] < 0], last = high[high[0] < 0];
    if ((low[0] < 0 || low[1] < 0) && (high[0] < 0 || high[1] < 0))
        return add_span_to_cells(a, rays, ray, &fragments[first].f, &fragments[last].f);
    const struct span_end low_end = span_end_of(fragments, &span->lower),
                          high_end = span_end_of(fragments, &span->upper);
    const int32_t lower = ct_fragment_depth(fragments[first].f.key);
    find_cells_along(a, rays, ray, lower);
    return add_cut_span(a, lower, ct_fragment_depth(fragments[last].f.key), &low_end, &high_end);
}

#endif
