/* spans_cuda.cu - rays to spans to sums. A thread takes a ray: puts its fragments in order, walks them, and adds what
 * bounds a span to the sums of the triangle's corners. Rays are left as they have to be for the next batch: empty. */
#include "gpu/backend/cuda/collective.cuh"
#include "gpu/span/chain_k.h"
#include "gpu/span/span_world_k.h"

/* Rays of up to so many crossings, which is nearly all, are ordered beside the memory that holds them. */
enum { SHORT = 12 };

/* A ray's fragments in order. */
struct ordered {
    uint32_t *link; /* of a short one, n of them, in shared memory, CT_BLOCK words apart */
    uint32_t n, taken;
    uint32_t at; /* of one that is not, and n is 0: the next */
};

CT_DEVICE uint32_t take(ordered *o, const uint32_t *next) {
    if (o->n) return o->taken < o->n ? o->link[CT_BLOCK * o->taken++] : 0;
    const uint32_t link = o->at;
    if (link) o->at = next[link - 1];
    return link;
}

/* Returns the number of fragments. */
CT_DEVICE uint32_t order(const ct_batch &b, uint32_t head, ordered *o) {
    uint32_t n = 0;
    for (uint32_t link = head; link; link = b.next[link - 1], n++) {
        if (n >= SHORT) continue;
        const ct_fragment fragment = b.fragments[link - 1];
        uint32_t at = n;
        for (; at > 0; at--) {
            const uint32_t before = o->link[CT_BLOCK * (at - 1)];
            if (!ct_fragment_before(&fragment, &b.fragments[before - 1])) break;
            o->link[CT_BLOCK * at] = before;
        }
        o->link[CT_BLOCK * at] = link;
    }
    o->taken = 0;
    o->n = n <= SHORT ? n : 0;
    o->at = n <= SHORT ? 0 : ct_chain_sort(b.fragments, b.next, head);
    return n;
}

/* What all rays of a block have in common. */
struct place {
    const uint32_t *triangles[2];
    const uint32_t *page[2];
    int view;
};

/* Adds what bounds a span from one side. Neighbouring rays mostly meet the same triangle: the threads of a warp that do
 * add together, so that a large triangle's corners are not added to by all of them in turn. */
CT_DEVICE void add_fragment(const ct_batch &b, const place *at, const ct_fragment *f, bool upper, bool shared) {
    int64_t weight[3];
    ct_bound_weights(f, shared, weight);
    const unsigned peers = ct_peers((uint64_t)upper << 33 | (uint64_t)shared << 32 | f->tag);
    const int first = ct_first_peer(peers);
    int64_t sum1 = weight[1], sum2 = weight[2];
    ct_sum_peers(peers, &sum1, &sum2);
    if ((int)ct_warp_lane() != first) return;
    const int64_t sum0 = (int64_t)ct_count_peers(peers) * (CT_WEIGHT_ONE >> shared) - sum1 - sum2;
    const bool second = f->tag >> 31;
    const uint32_t *corner = (second ? at->triangles[1] : at->triangles[0]) + 3 * (uint64_t)(f->tag & 0x7fffffff);
    const uint32_t *page = second ? at->page[1] : at->page[0];
    const int64_t sums[3] = {sum0, sum1, sum2};
    for (int k = 0; k < 3; k++)
        ct_atomic_sum(ct_sums_on(b, page[corner[k] / CT_PAGE], corner[k]) + at->view, upper ? sums[k] : -sums[k]);
}

/* Returns the depth of the bound. */
CT_DEVICE int32_t add_bound(const ct_batch &b, const place *at, const ct_bound *bound, bool upper) {
    const int64_t i = bound->fragment[0], j = bound->fragment[1];
    const bool shared = i >= 0 && j >= 0;
    if (i >= 0) add_fragment(b, at, &b.fragments[i], upper, shared);
    if (j >= 0) add_fragment(b, at, &b.fragments[j], upper, shared);
    return ct_fragment_depth(b.fragments[i >= 0 ? i : j].key);
}

CT_DEVICE void show(const ct_batch &b, uint64_t pair, int view, uint64_t ray, int32_t z0, int32_t z1, int lower_body) {
    const uint64_t place = ct_append_index(&b.counts->spans);
    if (place >= b.room.spans) return;
    ct_gpu_span s;
    for (int k = 0; k < 2; k++) s.body[k] = b.pairs[pair].body[k];
    s.view = (uint32_t)view;
    s.ray = ray;
    s.lower = z0;
    s.upper = z1;
    const uint64_t columns = (uint64_t)b.pairs[pair].window.axis[ct_view_u(view)].n;
    ct_span_to_world(&b.pairs[pair].window, view, (int32_t)(ray % columns), (int32_t)(ray / columns), z0, z1,
                     lower_body, &s.span);
    b.out_spans[place] = s;
}

/* One crossing, or one of several that share depth and orientation. Which body's it is, is a constant in each of the
 * two calls: a walk that is indexed by a variable would not stay in registers. */
CT_DEVICE int cross_one(ct_walk *walk, uint32_t key, uint32_t tag, int64_t index, ct_bound *upper) {
    upper->fragment[0] = tag >> 31 ? -1 : index;
    upper->fragment[1] = tag >> 31 ? index : -1;
    return tag >> 31 ? ct_walk_one(walk, key & 1, 1, index) : ct_walk_one(walk, key & 1, 0, index);
}
CT_DEVICE void cross_together(ct_coincident_crossings *group, ct_walk *walk, uint32_t key, uint32_t tag,
                              int64_t index) {
    if (tag >> 31)
        ct_coincident_add(group, walk, key & 1, 1, index);
    else
        ct_coincident_add(group, walk, key & 1, 0, index);
}

/* Returns the sum of its spans' lengths. */
CT_DEVICE int64_t walk_ray(const ct_batch &b, const place *at, uint64_t pair, uint64_t ray, const ct_gpu_ray *r,
                           ordered *o, bool keep) {
    ct_walk walk = {{r->winding[0], r->winding[1]}, {{-1, -1}}};
    int64_t total = 0;
    uint32_t link = take(o, b.next);
    while (link) {
        const uint32_t key = b.fragments[link - 1].key;
        uint32_t after = take(o, b.next);
        ct_bound upper;
        int closed;
        if (!after || b.fragments[after - 1].key != key) {
            closed = cross_one(&walk, key, b.fragments[link - 1].tag, (int64_t)link - 1, &upper);
        } else {
            ct_coincident_crossings group;
            ct_coincident_start(&group, &walk);
            cross_together(&group, &walk, key, b.fragments[link - 1].tag, (int64_t)link - 1);
            while (after && b.fragments[after - 1].key == key) {
                cross_together(&group, &walk, key, b.fragments[after - 1].tag, (int64_t)after - 1);
                after = take(o, b.next);
            }
            upper = group.crossed;
            closed = ct_coincident_end(&group, &walk);
        }
        link = after;
        if (!closed) continue;
        const int32_t z0 = add_bound(b, at, &walk.lower, false), z1 = add_bound(b, at, &upper, true);
        total += z1 - z0;
        if (keep) show(b, pair, at->view, ray, z0, z1, walk.lower.fragment[0] >= 0 ? 0 : 1);
    }
    return total;
}

CT_KERNEL spans(const ct_batch b) {
    CT_SHARED int64_t length[CT_BLOCK], met[CT_BLOCK];
    CT_SHARED uint32_t links[SHORT * CT_BLOCK];
    if (ct_gpu_raster_shortage(b.counts, &b.room)) return;
    const uint64_t n = b.counts->ray_chunks, n_views = 3 * b.counts->pairs;
    CT_EACH_BLOCK(chunk, n) {
        const uint64_t index = ct_find(n_views, chunk, [&](uint64_t i) { return b.ray_chunk[i]; }), p = index / 3;
        ct_gpu_pair *pair = &b.pairs[p];
        place at;
        at.view = (int)(index % 3);
        for (int k = 0; k < 2; k++) {
            at.triangles[k] = b.bodies[pair->body[k]]->triangles;
            at.page[k] = ct_page_of(b, 2 * p + (uint64_t)k, 0);
        }
        const bool keep = b.steps[pair->step].want & CT_WANT_SPANS;
        const uint64_t first = (chunk - b.ray_chunk[index]) * CT_BLOCK;
        CT_THREADS(t) {
            length[t] = met[t] = 0;
            const uint64_t ray = b.ray[index] + first + t;
            if (ray >= b.ray[index + 1]) continue;
            const ct_gpu_ray r = b.rays[ray];
            if (!(r.head | (uint32_t)r.winding[0] | (uint32_t)r.winding[1])) continue;
            const ct_gpu_ray empty = {0, {0, 0}, 0};
            b.rays[ray] = empty;
            ordered o = {links + t, 0, 0, 0};
            if (r.head) met[t] = order(b, r.head, &o);
            if (met[t] > 1) length[t] = walk_ray(b, &at, p, first + t, &r, &o, keep); /* a span has two bounds */
        }
        CT_BARRIER();
        for (unsigned d = CT_BLOCK / 2; d > 0; d /= 2) {
            CT_THREADS(t) {
                if (t >= d) continue;
                length[t] += length[t + d];
                met[t] += met[t + d];
            }
            CT_BARRIER();
        }
        CT_THREADS(t) {
            if (t == 0 && length[0]) ct_atomic_sum(&pair->length[at.view], length[0]);
            if (t == 1 && met[0]) ct_atomic_add(&b.step_fragments[pair->step], (uint64_t)met[0]);
        }
        CT_BARRIER();
    }
}

unsigned ct_cuda_spans(const ct_batch *batch, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(spans, grid, stream, *batch);
}
