/* raster_cuda.cu - triangles to fragments, in a linked list for each ray. One thread tests a small triangle at the
 * samples that its box covers in each view. A large triangle is queued; whole blocks test its squares in a second
 * kernel, so that a triangle as large as the window does not stall its warp.
 *
 * The lists need one pass, whatever the depth complexity. The span stage sorts them (spans_cuda.cu). */
#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/ldi/front_winding_k.h"
#include "gpu/methods/ldi/ldi_cuda.cuh"

/* A triangle whose box covers more samples of a view is large: a warp that tests small triangles then runs at most 32
 * iterations. */
enum { MAX_SMALL_SAMPLES = 32 };
/* An edge in front of the window that has more samples before it is large. More than of a triangle, because a sample
 * costs an addition alone, and an edge along one line of samples has up to a line of them. */
enum { MAX_SMALL_EDGE_SAMPLES = 256 };

struct snapped_triangle {
    int32_t q[3][3]; /* corners' lattice coordinates */
    uint32_t tag;    /* of its fragments */
    bool is_counted; /* on the view being rasterised it lies in front of the window: its crossings are only counted */
};

struct rectangle {
    int32_t u0, u1, v0, v1; /* samples [u0, u1) x [v0, v1) */
};

/* The samples that the triangle's box covers on view w, and whether its crossings are only counted. None where they do
 * not matter: behind the window's depths, and in front of them unless they have to be counted and are not by loops. */
CT_DEVICE rectangle covered_box(snapped_triangle *s, const ct_gpu_plan *plan, int w) {
    const ct_lattice *axis = plan->window.axis;
    const int u = ct_view_u(w), v = ct_view_v(w);
    rectangle r = {0, 0, 0, 0};
    s->is_counted = ct_max3(s->q[0][w], s->q[1][w], s->q[2][w]) < axis[w].lo;
    if (s->is_counted && (plan->initial_winding[s->tag >> 31][w] != CT_INITIAL_COUNTED || plan->loops[s->tag >> 31][w]))
        return r;
    if (ct_min3(s->q[0][w], s->q[1][w], s->q[2][w]) > axis[w].hi) return r;
    r.u0 = ct_samples_below(ct_min3(s->q[0][u], s->q[1][u], s->q[2][u]), axis[u].shift, axis[u].n);
    r.u1 = ct_samples_below(ct_max3(s->q[0][u], s->q[1][u], s->q[2][u]), axis[u].shift, axis[u].n);
    r.v0 = ct_samples_below(ct_min3(s->q[0][v], s->q[1][v], s->q[2][v]), axis[v].shift, axis[v].n);
    r.v1 = ct_samples_below(ct_max3(s->q[0][v], s->q[1][v], s->q[2][v]), axis[v].shift, axis[v].n);
    return r;
}

/* Records the crossing of a ray and a triangle. True: it may bound a span. */
CT_DEVICE bool add_crossing(const ct_raster_tables &b, const ct_triangle_setup *setup, const snapped_triangle *s,
                            uint64_t ray, int64_t e1, int64_t e2) {
    ct_gpu_ray *r = &b.rays[ray];
    if (s->is_counted) {
        atomicAdd(&r->winding[s->tag >> 31], -setup->ccw);
        return false;
    }
    const uint64_t shard = CT_BLOCK_INDEX % CT_SHARDS, shard_capacity = b.capacity.fragments / CT_SHARDS;
    const uint64_t k = ct_append_index(&b.shards[shard].n_fragments), index = shard * shard_capacity + k;
    if (k >= shard_capacity) return true;
    ct_gpu_fragment fragment;
    static_cast<ct_fragment &>(fragment) = ct_fragment_at(setup, (double)e1, (double)e2, s->tag);
    b.fragments[index] = fragment;
    b.next[index] = atomicExch(&r->head, (uint32_t)index + 1);
    return true;
}

CT_DEVICE bool make_setup_at(ct_triangle_setup *setup, const snapped_triangle *s, const ct_lattice *axis, int w,
                             int32_t u0, int32_t v0) {
    const int u = ct_view_u(w), v = ct_view_v(w);
    return ct_make_setup(setup, s->q[0], s->q[1], s->q[2], u, v, w, ct_sample_coord(u0, axis[u].shift),
                         ct_sample_coord(v0, axis[v].shift), axis[u].shift, axis[v].shift);
}

/* Tests a small triangle at all samples of its box. True: one of its crossings may bound a span. */
CT_DEVICE bool raster_small(const ct_raster_tables &b, const snapped_triangle *s, const ct_lattice *axis, int w,
                            rectangle r, uint64_t first_ray) {
    ct_triangle_setup setup;
    bool any = false;
    if (!make_setup_at(&setup, s, axis, w, r.u0, r.v0)) return false;
    int64_t row[3] = {setup.edge[0], setup.edge[1], setup.edge[2]};
    for (int32_t v = r.v0; v < r.v1; v++) {
        int64_t e0 = row[0], e1 = row[1], e2 = row[2];
        const uint64_t line = first_ray + (uint64_t)v * (uint64_t)axis[ct_view_u(w)].n;
        for (int32_t u = r.u0; u < r.u1; u++) {
            if (ct_covers(&setup, e0, e1, e2)) any |= add_crossing(b, &setup, s, line + (uint64_t)u, e1, e2);
            e0 += setup.step_u[0];
            e1 += setup.step_u[1];
            e2 += setup.step_u[2];
        }
        for (int k = 0; k < 3; k++) row[k] += setup.step_v[k];
    }
    return any;
}

CT_DEVICE uint64_t squares_across(int32_t from, int32_t to) {
    return ((uint64_t)(to - from) + CT_LARGE_SQUARE - 1) / CT_LARGE_SQUARE;
}

CT_DEVICE void queue_large(const ct_raster_tables &b, uint64_t side, uint64_t triangle, int w, bool is_front_edge,
                           rectangle r) {
    const uint64_t squares = squares_across(r.u0, r.u1) * squares_across(r.v0, r.v1);
    const uint64_t packed = ct_atomic_add(&b.counts->large_triangles, (uint64_t)1 << CT_LARGE_SQUARE_BITS | squares);
    const uint64_t index = ct_large_triangle_count(packed);
    if (index >= b.capacity.large_triangles) return;
    const ct_gpu_large_triangle large = {ct_large_square_count(packed), (uint32_t)side, (uint32_t)triangle, (uint32_t)w,
                                         is_front_edge};
    b.large_triangles[index] = large;
}

CT_DEVICE snapped_triangle snap_triangle(const ct_window *window, const ct_gpu_body *body, uint64_t side,
                                         uint64_t triangle) {
    snapped_triangle s;
    s.tag = (uint32_t)(side & 1) << 31 | (uint32_t)triangle;
    s.is_counted = false;
    for (int k = 0; k < 3; k++) ct_gpu_coords(body, window, body->triangles[3 * triangle + k], s.q[k]);
    return s;
}

/* ---- loops in front of the window ---- */

/* The triangle's edge in the loops of its body on view w. False: there is none. */
CT_DEVICE bool find_edge(const ct_gpu_plan *plan, const snapped_triangle *s, int w, ct_front_plane *plane,
                         ct_front_edge *edge) {
    *plane = ct_front_plane_of(&plan->window, w, plan->loops[s->tag >> 31][w] == CT_LOOPS_ALONG_U);
    return ct_find_front_edge(plane, s->q[0], s->q[1], s->q[2], w, plan->window.axis[w].lo, edge);
}

/* Samples that an edge can lie beyond, those along the lines as u. */
CT_DEVICE rectangle lines_before(const ct_front_plane *plane, const ct_front_edge *edge) {
    const int64_t farthest = edge->low.along > edge->high.along ? edge->low.along : edge->high.along;
    /* A sample at the coordinate itself may count too. */
    const int32_t n = ct_samples_below((int32_t)farthest, plane->shift_along, plane->n_along) + 1;
    const rectangle r = {0, n < plane->n_along ? n : plane->n_along, edge->first, edge->end};
    return r;
}

/* Adds the edge to the winding numbers of the samples of lines [v0, v1) that lie before it and in columns [u0, u1). */
CT_DEVICE void add_edge(const ct_raster_tables &b, const snapped_triangle *s, const ct_front_plane *plane,
                        const ct_front_edge *edge, uint64_t first_ray, uint64_t columns, rectangle r) {
    for (int32_t i = r.v0; i < r.v1; i++) {
        const int32_t before = ct_samples_before_edge(plane, edge, i), end = before < r.u1 ? before : r.u1;
        for (int32_t j = r.u0; j < end; j++) {
            const uint64_t ray =
                plane->along_u ? (uint64_t)i * columns + (uint64_t)j : (uint64_t)j * columns + (uint64_t)i;
            atomicAdd(&b.rays[first_ray + ray].winding[s->tag >> 31], edge->sign);
        }
    }
}

/* Follows the loops through a triangle on view w. */
CT_DEVICE void follow_loops(const ct_raster_tables &b, const ct_gpu_near_triangle *at, const snapped_triangle *s,
                            int w) {
    ct_front_plane plane;
    ct_front_edge edge;
    if (!find_edge(at->plan, s, w, &plane, &edge)) return;
    const rectangle r = lines_before(&plane, &edge);
    if ((int64_t)r.u1 * (r.v1 - r.v0) > MAX_SMALL_EDGE_SAMPLES)
        queue_large(b, at->side, at->triangle, w, true, r);
    else
        add_edge(b, s, &plane, &edge, b.ray_offset[3 * (uint64_t)(at->side / 2) + (uint64_t)w],
                 (uint64_t)at->plan->window.axis[ct_view_u(w)].n, r);
}

/* ---- triangles ---- */

CT_KERNEL raster_triangles(const ct_raster_tables b) {
    if (ct_gpu_cluster_shortage(b.counts, &b.capacity)) return;
    const uint64_t n = CT_CLUSTER_TRIANGLES * b.counts->near_clusters;
    CT_FOR(i, n) {
        const ct_gpu_near_triangle at = ct_near_triangle_at(b, i);
        if (!(at.views | at.straddles)) continue;
        const ct_window *window = &at.plan->window;
        snapped_triangle s = snap_triangle(window, at.body, at.side, at.triangle);
        bool any = false;
        CT_UNROLL
        for (int w = 0; w < 3; w++) {
            if (at.straddles >> w & 1) follow_loops(b, &at, &s, w);
            if (!(at.views >> w & 1)) continue;
            const rectangle r = covered_box(&s, at.plan, w);
            if (r.u0 >= r.u1 || r.v0 >= r.v1) continue;
            if ((int64_t)(r.u1 - r.u0) * (r.v1 - r.v0) > MAX_SMALL_SAMPLES)
                queue_large(b, at.side, at.triangle, w, false, r);
            else
                any |= raster_small(b, &s, window->axis, w, r, b.ray_offset[3 * (uint64_t)(at.side / 2) + (uint64_t)w]);
        }
        if (any) ct_claim_pages(b, at.side, at.body->triangles + 3 * at.triangle);
    }
}

/* One square of a large triangle on view w. The caller passes w as a constant, so that arrays which it indexes stay in
 * registers. */
CT_DEVICE void raster_square(const ct_raster_tables &b, const ct_gpu_large_triangle *large, uint64_t index, int w) {
    const ct_gpu_plan *plan = &b.plans[large->side / 2];
    const ct_gpu_body *body = b.bodies[b.pairs[large->side / 2].body[large->side & 1]];
    const ct_lattice *axis = plan->window.axis;
    snapped_triangle s = snap_triangle(&plan->window, body, large->side, large->triangle);
    const rectangle r = covered_box(&s, plan, w);
    const uint64_t across = squares_across(r.u0, r.u1);
    if (!across) return; /* does not happen: a large triangle has squares */
    const int32_t u0 = r.u0 + (int32_t)(index % across) * CT_LARGE_SQUARE,
                  v0 = r.v0 + (int32_t)(index / across) * CT_LARGE_SQUARE;
    ct_triangle_setup setup;
    if (!make_setup_at(&setup, &s, axis, w, u0, v0)) return;
    const uint64_t first_ray = b.ray_offset[3 * (uint64_t)(large->side / 2) + (uint64_t)w];
    const uint64_t columns = (uint64_t)axis[ct_view_u(w)].n;
    CT_THREADS(t) {
        const int32_t i = (int32_t)(t % CT_LARGE_SQUARE);
        bool any = false;
        if (u0 + i >= r.u1) continue;
        for (int32_t j = (int32_t)(t / CT_LARGE_SQUARE); j < CT_LARGE_SQUARE && v0 + j < r.v1;
             j += (int32_t)(CT_BLOCK / CT_LARGE_SQUARE)) {
            int64_t e[3];
            for (int k = 0; k < 3; k++) e[k] = setup.edge[k] + i * setup.step_u[k] + j * setup.step_v[k];
            if (ct_covers(&setup, e[0], e[1], e[2]))
                any |= add_crossing(b, &setup, &s, first_ray + (uint64_t)(v0 + j) * columns + (uint64_t)(u0 + i), e[1],
                                    e[2]);
        }
        if (any) ct_claim_pages(b, large->side, body->triangles + 3 * (uint64_t)large->triangle);
    }
}

/* One square of a large edge in front of view w. */
CT_DEVICE void add_edge_in_square(const ct_raster_tables &b, const ct_gpu_large_triangle *large, uint64_t index,
                                  int w) {
    const ct_gpu_plan *plan = &b.plans[large->side / 2];
    const ct_gpu_body *body = b.bodies[b.pairs[large->side / 2].body[large->side & 1]];
    snapped_triangle s = snap_triangle(&plan->window, body, large->side, large->triangle);
    ct_front_plane plane;
    ct_front_edge edge;
    if (!find_edge(plan, &s, w, &plane, &edge)) return; /* does not happen: there was one */
    const rectangle all = lines_before(&plane, &edge);
    const uint64_t across = squares_across(all.u0, all.u1);
    const int32_t u0 = all.u0 + (int32_t)(index % across) * CT_LARGE_SQUARE,
                  v0 = all.v0 + (int32_t)(index / across) * CT_LARGE_SQUARE;
    CT_THREADS(t) {
        const int32_t u = u0 + (int32_t)(t % CT_LARGE_SQUARE);
        for (int32_t v = v0 + (int32_t)(t / CT_LARGE_SQUARE); v < v0 + CT_LARGE_SQUARE && v < all.v1;
             v += (int32_t)(CT_BLOCK / CT_LARGE_SQUARE)) {
            const rectangle one = {u, u < all.u1 ? u + 1 : u, v, v + 1};
            add_edge(b, &s, &plane, &edge, b.ray_offset[3 * (uint64_t)(large->side / 2) + (uint64_t)w],
                     (uint64_t)plan->window.axis[ct_view_u(w)].n, one);
        }
    }
}

CT_KERNEL raster_large(const ct_raster_tables b) {
    if (ct_gpu_cluster_shortage(b.counts, &b.capacity)) return;
    const uint64_t n_large = ct_large_triangle_count(b.counts->large_triangles);
    const uint64_t n_squares = ct_large_square_count(b.counts->large_triangles);
    if (n_large > b.capacity.large_triangles) return;
    CT_EACH_BLOCK(square, n_squares) {
        const ct_gpu_large_triangle large = b.large_triangles[ct_find_owner(
            n_large, square, [&](uint64_t i) { return b.large_triangles[i].first_square; })];
        if (large.is_front_edge) {
            add_edge_in_square(b, &large, square - large.first_square, (int)large.view);
            continue;
        }
        CT_UNROLL
        for (int w = 0; w < 3; w++)
            if (large.view == (uint32_t)w) raster_square(b, &large, square - large.first_square, w);
    }
    if (!ct_is_last_block(&b.counts->finished_blocks[CT_LAST_OF_RASTER])) return;
    uint64_t most = 0; /* fragments of one shard */
    for (int i = 0; i < CT_SHARDS; i++) most = b.shards[i].n_fragments > most ? b.shards[i].n_fragments : most;
    CT_THREADS(t) {
        if (t == 0) b.counts->fragments = CT_SHARDS * most;
    }
}

const ct_kernel_entry ct_raster_kernels[] = {CT_KERNEL_ENTRY(raster_triangles), CT_KERNEL_ENTRY(raster_large),
                                             CT_KERNELS_END};

unsigned ct_cuda_raster(const ct_raster_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(raster_triangles, grid, stream, *tables);
    n += CT_LAUNCH(raster_large, grid, stream, *tables);
    return n;
}
