/* accumulate.h - the accumulators behind the walk: volume and gradient always, kept spans and cells if asked for; for
 * *.simd.c files of this stage. A further accumulator is one more call in accumulate_span. */
#ifndef CT_ACCUMULATE_H
#define CT_ACCUMULATE_H

#include "gpu/methods/ldi/cell_accumulator.h"
#include "gpu/methods/ldi/gradient_accumulator.h"

struct accumulators {
    struct gradient_accumulator gradient;
    struct cell_accumulator cells;
    bool is_gradient_of_cells; /* the cells add to the gradient */
    int64_t length;            /* of all spans, in units of the view's axis */
    int64_t n_spans;
    int64_t inverted;      /* length of all intervals in which a body is inside out (ct_is_inverted), in these units */
    ct_span_scratch *kept; /* NULL: spans are not kept */
    ct_span_rule rule;
    ct_budget *budget; /* of kept spans */
};

static inline void begin_accumulating(struct accumulators *to, const ct_ray_lists *rays, const ct_span_options *options,
                                      ct_contact_sums *sums, ct_span_scratch *scratch, ct_budget *budget) {
    begin_gradient(&to->gradient, rays, options, sums);
    begin_cells(&to->cells, &to->gradient, rays, options, scratch, budget);
    to->is_gradient_of_cells = options->grid && options->has_cell_gradient;
    to->length = to->n_spans = to->inverted = 0;
    to->kept = options->keep_spans ? scratch : NULL;
    to->rule = options->rule;
    to->budget = budget;
}

/* False: out of memory. */
static inline bool end_accumulating(struct accumulators *to, const ct_ray_lists *rays, const ct_span_options *options,
                                    ct_contact_sums *sums) {
    const bool ok = end_cells(&to->cells);
    flush_contributions(&to->gradient);
    sums[options->contact].length[rays->view] += rays->bin.of->tile.ray_area * to->length;
    sums[options->contact].spans[rays->view] += rays->bin.of->tile.ray_area * to->n_spans;
    sums[options->contact].inverted[rays->view] += rays->bin.of->tile.ray_area * to->inverted;
    return ok;
}

static inline int32_t depth_of_bound(const ct_linked_fragment *fragments, const ct_bound *bound) {
    return ct_fragment_depth(fragments[bound->fragment[bound->fragment[0] < 0]].f.key);
}

static inline void accumulate_bound(struct gradient_accumulator *to, const ct_linked_fragment *fragments,
                                    const ct_bound *bound, int side) {
    int64_t a = bound->fragment[0], b = bound->fragment[1];
    if (a >= 0 && b >= 0) {
        add_fragment_bound(to, &fragments[a].f, side, HALF);
        add_fragment_bound(to, &fragments[b].f, side, HALF + 1);
    } else {
        add_fragment_bound(to, &fragments[a >= 0 ? a : b].f, side, ALONE);
    }
}

/* False: out of memory. */
static bool keep_span(struct accumulators *to, ct_raw_span span) {
    ct_span_scratch *scratch = to->kept;
    size_t used = scratch->n_spans * sizeof span;
    if (used + sizeof span > scratch->spans.capacity &&
        !ct_buffer_reserve(&scratch->spans, to->budget, 2 * used + 4096, used, false))
        return false;
    ((ct_raw_span *)scratch->spans.data)[scratch->n_spans++] = span;
    return true;
}

/* Takes a span of ray number `ray` of the bin. False: out of memory. */
static inline bool accumulate_span(struct accumulators *to, const ct_ray_lists *rays, size_t ray,
                                   const ct_span_event *span) {
    const ct_linked_fragment *fragments = rays->fragments;
    const int32_t lower = depth_of_bound(fragments, &span->lower), upper = depth_of_bound(fragments, &span->upper);
    if (!to->is_gradient_of_cells) {
        accumulate_bound(&to->gradient, fragments, &span->lower, LOWER);
        accumulate_bound(&to->gradient, fragments, &span->upper, UPPER);
    }
    to->length += upper - lower;
    to->n_spans++;
    if (to->cells.grid && !add_event_to_cells(&to->cells, rays, ray, span)) return false;
    if (!to->kept) return true;
    const ct_bin *bin = &rays->bin;
    const int32_t column = bin->first_column + (int32_t)(ray % (size_t)bin->columns);
    const int32_t row = bin->first_row + (int32_t)(ray / (size_t)bin->columns);
    const int64_t by_body_0 = span->lower.fragment[0];
    const int32_t lower_body =
        to->rule == CT_SPAN_OF_SELF ? (int32_t)(fragments[by_body_0].f.tag & INT32_MAX) : by_body_0 < 0;
    return keep_span(to, (ct_raw_span){ct_tile_u(&bin->of->tile, column), ct_tile_v(&bin->of->tile, row), lower, upper,
                                       rays->view, lower_body});
}

#endif
