/* spans_cuda.cu - rays to spans to sums. One thread sorts the fragments of a ray, walks along them, and adds each bound
 * of a span to the sums of its triangle's corners. Spans that a step wants, and spans of contacts with cells, it lists.
 * It leaves the rays empty for the next batch. */
#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/ldi/chain_k.h"
#include "gpu/methods/ldi/ldi_cuda.cuh"
#include "gpu/methods/ldi/span_k.h"
#include "gpu/view/tile_k.h"

/* A ray with up to so many fragments is sorted in shared memory, which for 256 threads takes 12 KiB of a block; a
 * longer ray, of which there are few, is sorted as a list in global memory. A link is 1 + the index of a fragment; 0:
 * none. */
enum { MAX_SHARED_LINKS = 12 };

struct sorted_ray {
    uint32_t *shared_links;    /* a short ray's, CT_BLOCK words apart */
    uint32_t n_shared, n_read; /* n_shared 0: not a short ray */
    uint32_t list_link;        /* a long ray's next link */
};

CT_DEVICE uint32_t next_link(sorted_ray *o, const uint32_t *next) {
    if (o->n_shared) return o->n_read < o->n_shared ? o->shared_links[CT_BLOCK * o->n_read++] : 0;
    const uint32_t link = o->list_link;
    if (link) o->list_link = next[link - 1];
    return link;
}

/* Sorts a ray's fragments and sums its crossings with each body: +1 where the ray enters it, -1 where it leaves.
 * Returns the number of fragments. */
CT_DEVICE uint32_t sort_ray(const ct_span_tables &b, uint32_t head, sorted_ray *o, int32_t crossings[2]) {
    uint32_t n = 0;
    crossings[0] = crossings[1] = 0;
    for (uint32_t link = head; link; link = b.next[link - 1], n++) {
        const ct_gpu_fragment fragment = b.fragments[link - 1];
        const int32_t crossing = fragment.key & 1 ? 1 : -1;
        crossings[0] += fragment.tag >> 31 ? 0 : crossing;
        crossings[1] += fragment.tag >> 31 ? crossing : 0;
        if (n >= MAX_SHARED_LINKS) continue;
        uint32_t at = n;
        for (; at > 0; at--) {
            const uint32_t before = o->shared_links[CT_BLOCK * (at - 1)];
            const ct_gpu_fragment other = b.fragments[before - 1];
            if (!ct_fragment_before(&fragment, &other)) break;
            o->shared_links[CT_BLOCK * at] = before;
        }
        o->shared_links[CT_BLOCK * at] = link;
    }
    o->n_read = 0;
    o->n_shared = n <= MAX_SHARED_LINKS ? n : 0;
    o->list_link = n <= MAX_SHARED_LINKS ? 0 : ct_chain_sort(b.fragments, b.next, head);
    return n;
}

/* What all rays of a block share. */
struct view_context {
    uint32_t candidate;
    const uint32_t *triangles[2];
    const uint32_t *page_slots[2]; /* of each body's first vertices */
    int axis;
    bool from_balance[2]; /* per body, initial winding numbers are CT_INITIAL_FROM_BALANCE */
};

/* Adds one fragment's part of a bound. Neighbouring rays mostly meet the same triangle, so the threads of a warp that
 * hold the same triangle sum their weights first: one atomic addition a corner, and no contention within the warp. */
CT_DEVICE void add_fragment(const ct_span_tables &b, const view_context *view, const ct_fragment *f, bool upper,
                            bool shared) {
    int64_t weight[3];
    ct_bound_weights(f, shared, weight);
    const unsigned peers = ct_peers((uint64_t)upper << 33 | (uint64_t)shared << 32 | f->tag);
    const int first = ct_first_peer(peers);
    int64_t sum1 = weight[1], sum2 = weight[2];
    ct_sum_peers(peers, &sum1, &sum2);
    if ((int)ct_warp_lane() != first) return;
    const int64_t sum0 = (int64_t)ct_count_peers(peers) * (CT_WEIGHT_ONE >> shared) - sum1 - sum2;
    const bool second = f->tag >> 31;
    const uint32_t *corner = (second ? view->triangles[1] : view->triangles[0]) + 3 * (uint64_t)(f->tag & 0x7fffffff);
    const uint32_t *page_slots = second ? view->page_slots[1] : view->page_slots[0];
    const int64_t sums[3] = {sum0, sum1, sum2};
    for (int k = 0; k < 3; k++)
        ct_atomic_sum(ct_vertex_sums(b, page_slots[corner[k] / CT_PAGE], corner[k]) + view->axis,
                      upper ? sums[k] : -sums[k]);
}

/* Returns the depth of the bound. */
CT_DEVICE int32_t add_bound(const ct_span_tables &b, const view_context *view, const ct_bound *bound, bool upper) {
    const int64_t i = bound->fragment[0], j = bound->fragment[1];
    const bool shared = i >= 0 && j >= 0;
    uint32_t key = 0;
    if (i >= 0) {
        const ct_gpu_fragment fragment = b.fragments[i];
        key = fragment.key;
        add_fragment(b, view, &fragment, upper, shared);
    }
    if (j >= 0) {
        const ct_gpu_fragment fragment = b.fragments[j];
        key = fragment.key;
        add_fragment(b, view, &fragment, upper, shared);
    }
    return ct_fragment_depth(key); /* the same for both */
}

CT_DEVICE void write_span(const ct_span_tables &b, const view_context *view, uint64_t ray, int32_t z0, int32_t z1,
                          int lower_body) {
    const uint64_t index = ct_append_index(&b.counts->spans);
    if (index >= b.capacity.spans) return;
    ct_gpu_span s;
    s.candidate = view->candidate;
    s.view = (uint32_t)view->axis;
    s.ray = ray;
    s.lower = z0;
    s.upper = z1;
    const ct_window *window = &b.plans[b.candidate_pair[view->candidate]].window;
    const ct_tile tile = ct_uniform_tile(window, view->axis);
    const uint64_t columns = (uint64_t)tile.n_u;
    ct_span_to_world(window, view->axis, ct_tile_u(&tile, (int32_t)(ray % columns)),
                     ct_tile_v(&tile, (int32_t)(ray / columns)), z0, z1, lower_body, &s.span);
    b.spans[index] = s;
}

CT_DEVICE void list_for_cells(const ct_span_tables &b, const view_context *view, uint32_t ray,
                              const ct_span_event *span) {
    const uint64_t index = ct_append_index(&b.counts->cell_spans);
    if (index >= b.capacity.cell_spans) return;
    ct_gpu_cell_span s;
    s.candidate = view->candidate;
    s.view = (uint32_t)view->axis;
    s.ray = ray;
    for (int k = 0; k < 2; k++) { /* a fragment's -1 becomes CT_GPU_NONE */
        s.lower[k] = (uint32_t)span->lower.fragment[k];
        s.upper[k] = (uint32_t)span->upper.fragment[k];
    }
    b.cell_spans[index] = s;
}

/* The body is a constant in each of the two calls: indexed by a variable, the walk would not stay in registers. */
CT_DEVICE int walk_crossing(ct_walk *walk, uint32_t key, uint32_t tag, int64_t index, bool has_next_same_key,
                            ct_span_event *span) {
    return tag >> 31 ? ct_walk_crossing(walk, key, 1, index, has_next_same_key, span)
                     : ct_walk_crossing(walk, key, 0, index, has_next_same_key, span);
}

/* What becomes of a view's spans beside their sums, as bits. */
enum { WRITE_SPANS = 1, LIST_FOR_CELLS = 2 };

struct crossing {
    uint32_t link, key, tag; /* of a fragment; link 0: there are no more */
};

CT_DEVICE crossing next_crossing(const ct_span_tables &b, sorted_ray *o) {
    crossing c = {next_link(o, b.next), 0, 0};
    if (!c.link) return c;
    const ct_gpu_fragment fragment = b.fragments[c.link - 1];
    c.key = fragment.key;
    c.tag = fragment.tag;
    return c;
}

/* A ray's spans, and the length in which a body is inside out (ct_is_inverted). The intervals of either kind are
 * disjoint, so that 32 bits hold the sum of their lengths. */
struct span_totals {
    uint32_t length, count, inverted;
};

/* `winding`: the initial winding numbers. The rule is a constant, so that the compiler leaves out what it does not
 * need.
 */
template <ct_span_rule RULE>
CT_DEVICE span_totals walk_ray(const ct_span_tables &b, const view_context *view, uint32_t ray,
                               const int32_t winding[2], sorted_ray *o, unsigned keep) {
    ct_walk walk = ct_walk_begin(RULE, winding[0], winding[1]);
    span_totals total = {0, 0, 0};
    for (crossing c = next_crossing(b, o); c.link;) {
        const crossing after = next_crossing(b, o);
        ct_span_event span;
        const bool has_next_same_key = after.link && after.key == c.key;
        const int ends_span = walk_crossing(&walk, c.key, c.tag, (int64_t)c.link - 1, has_next_same_key, &span);
        c = after;
        if (!ends_span) continue;
        const int32_t z0 = add_bound(b, view, &span.lower, false), z1 = add_bound(b, view, &span.upper, true);
        total.length += (uint32_t)(z1 - z0);
        total.count++;
        if (keep & LIST_FOR_CELLS) list_for_cells(b, view, ray, &span);
        if (!(keep & WRITE_SPANS)) continue;
        const int64_t by_body_0 = span.lower.fragment[0];
        write_span(b, view, ray, z0, z1,
                   RULE == CT_SPAN_OF_SELF ? (int)(b.fragments[by_body_0].tag & 0x7fffffff) : by_body_0 < 0);
    }
    total.inverted = (uint32_t)walk.inverted;
    return total;
}

/* Four blocks leave 64 registers to a thread. Compiled for sm_90 it spills one then; see to it that it spills no more.
 */
CT_KERNEL_RESIDENT(4) find_spans(const ct_span_tables b) {
    CT_SHARED uint32_t links[MAX_SHARED_LINKS * CT_BLOCK];
    if (ct_gpu_raster_shortage(b.counts, &b.capacity)) return;
    const uint64_t n = b.counts->ray_chunks;
    CT_EACH_BLOCK(chunk, n) {
        const ct_gpu_chunk at = ct_ray_chunks(b)[chunk];
        const uint64_t index = at.owner, p = index / 3;
        const ct_gpu_pair *pair = &b.pairs[p];
        const bool is_self = ct_is_self_pair(pair);
        view_context view;
        view.candidate = (uint32_t)b.candidate_offset[p]; /* LDI: the pair's only one */
        view.axis = (int)(index % 3);
        for (int k = 0; k < 2; k++) {
            view.triangles[k] = b.bodies[pair->body[k]]->triangles;
            view.page_slots[k] = ct_page_slot(b, 2 * (uint64_t)view.candidate + (uint64_t)k, 0);
            view.from_balance[k] = b.plans[p].initial_winding[k][view.axis] == CT_INITIAL_FROM_BALANCE;
        }
        const ct_gpu_step *step = &b.steps[pair->step];
        const unsigned keep = (step->want & CT_WANT_SPANS ? (unsigned)WRITE_SPANS : 0) |
                              (step->cell_size > 0 ? (unsigned)LIST_FOR_CELLS : 0);
        const uint32_t first = at.index * CT_BLOCK; /* a view has at most 2^24 rays */
        uint32_t length_of_ray = 0, spans_of_ray = 0, fragments_of_ray = 0, inverted_of_ray = 0;
        CT_THREADS(t) {
            const uint64_t ray = b.ray_offset[index] + first + t;
            if (ray >= b.ray_offset[index + 1]) continue;
            const ct_gpu_ray r = b.rays[ray];
            if (!(r.head | (uint32_t)r.winding[0] | (uint32_t)r.winding[1])) continue;
            const ct_gpu_ray empty = {0, {0, 0}, 0};
            b.rays[ray] = empty;
            sorted_ray o = {links + t, 0, 0, 0};
            int32_t winding[2] = {0, 0};
            if (r.head) fragments_of_ray = sort_ray(b, r.head, &o, winding);
            for (int k = 0; k < 2; k++) winding[k] = view.from_balance[k] ? -winding[k] : r.winding[k];
            if (fragments_of_ray < 2) continue; /* a span has two bounds */
            const span_totals total = is_self ? walk_ray<CT_SPAN_OF_SELF>(b, &view, first + t, winding, &o, keep)
                                              : walk_ray<CT_SPAN_OF_PAIR>(b, &view, first + t, winding, &o, keep);
            length_of_ray = total.length;
            spans_of_ray = total.count;
            inverted_of_ray = total.inverted;
        }
        const uint64_t length = ct_block_sum((uint64_t)length_of_ray);
        /* A batch has fewer than 2^32 fragments, and spans. */
        const uint64_t counts = ct_block_sum((uint64_t)spans_of_ray << 32 | fragments_of_ray);
        const uint64_t inverted = ct_block_sum((uint64_t)inverted_of_ray);
        CT_THREADS(t) {
            if (t > 0 || !counts) continue;
            const uint64_t at_view = 3 * (uint64_t)view.candidate + (uint64_t)view.axis;
            if (length) {
                ct_atomic_sum(&b.span_length[at_view], (int64_t)length);
                ct_atomic_sum(&b.span_count[at_view], (int64_t)(counts >> 32));
            }
            if (inverted) ct_atomic_sum(&b.inverted_length[at_view], (int64_t)inverted);
            ct_atomic_add(&b.step_fragments[pair->step], counts & UINT32_MAX);
        }
    }
}

const ct_kernel_entry ct_span_kernels[] = {CT_KERNEL_ENTRY(find_spans), CT_KERNELS_END};

unsigned ct_cuda_spans(const ct_span_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(find_spans, grid, stream, *tables);
}
