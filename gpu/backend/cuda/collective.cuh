/* collective.cuh - what whole blocks do together: searches, prefix sums, the block that finishes last. */
#ifndef CT_COLLECTIVE_CUH
#define CT_COLLECTIVE_CUH

#include "gpu/backend/cuda/batch.cuh"

/* The last i < n with first(i) <= x, of n > 0 numbers that do not fall, the first of which is not above x. */
template <class First> CT_DEVICE uint64_t ct_find(uint64_t n, uint64_t x, First first) {
    uint64_t lo = 0, hi = n;
    while (hi - lo > 1) {
        uint64_t middle = lo + (hi - lo) / 2;
        if (first(middle) <= x)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

/* Shared values[CT_BLOCK]: each becomes the sum of those before it. Returns the sum of all. */
CT_DEVICE uint64_t ct_block_scan(uint64_t *values, uint64_t *other) {
    CT_BARRIER();
    for (unsigned d = 1; d < CT_BLOCK; d *= 2) { /* an even number of rounds */
        CT_THREADS(t) other[t] = values[t] + (t >= d ? values[t - d] : 0);
        CT_BARRIER();
        uint64_t *swap = values;
        values = other;
        other = swap;
    }
    uint64_t total = values[CT_BLOCK - 1];
    CT_THREADS(t) other[t] = t ? values[t - 1] : 0;
    CT_BARRIER();
    CT_THREADS(t) values[t] = other[t];
    CT_BARRIER();
    return total;
}

/* store(i, sum of load(k) of all k < i) for every i < n, by one block. Returns the sum of all. What is stored must not
 * be what is loaded. */
template <class Load, class Store> CT_DEVICE uint64_t ct_scan(uint64_t n, Load load, Store store) {
    enum { EACH = 8 };
    CT_SHARED uint64_t part[CT_BLOCK], other[CT_BLOCK];
    uint64_t before = 0;
    for (uint64_t base = 0; base < n; base += CT_BLOCK * EACH) {
        CT_THREADS(t) {
            uint64_t sum = 0;
            for (unsigned k = 0; k < EACH; k++)
                if (base + t * EACH + k < n) sum += load(base + t * EACH + k);
            part[t] = sum;
        }
        uint64_t total = ct_block_scan(part, other);
        CT_THREADS(t) {
            uint64_t sum = before + part[t];
            for (unsigned k = 0; k < EACH; k++) {
                uint64_t i = base + t * EACH + k;
                if (i >= n) continue;
                uint64_t x = load(i);
                store(i, sum);
                sum += x;
            }
        }
        CT_BARRIER();
        before += total;
    }
    return before;
}

/* True in one block, when all others have come here and what they wrote before can be read. The barriers hand on to the
 * block what the fences order for one of its threads. */
CT_DEVICE bool ct_is_last_block(uint32_t *done) {
    CT_SHARED bool last;
    CT_BARRIER();
    CT_THREADS(t) {
        if (t > 0) continue;
        __threadfence();
        last = atomicAdd(done, 1u) == CT_GRID_SIZE - 1;
        __threadfence();
    }
    CT_BARRIER();
    return last;
}

/* The page, or none, of a vertex of one body in one pair. */
CT_DEVICE uint32_t *ct_page_of(const ct_batch &b, uint64_t side, uint32_t vertex) {
    return &b.page[b.vertex_chunk[side] * CT_CHUNK_PAGES + vertex / CT_PAGE];
}

/* A triangle's corners, and their neighbours, get a page for their sums, if they have none. It is counted even where
 * there is no room. */
CT_DEVICE void ct_claim_pages(const ct_batch &b, uint64_t side, const uint32_t *corner) {
    for (int k = 0; k < 3; k++) {
        uint32_t *page = ct_page_of(b, side, corner[k]);
        if (ct_peek(page) != CT_NO_PAGE || atomicMax(page, (uint32_t)CT_CLAIMING_PAGE) != CT_NO_PAGE) continue;
        atomicExch(page, (uint32_t)ct_append_index(&b.counts->pages) + CT_FIRST_PAGE);
    }
}

/* A vertex's sums [3], on its page. */
CT_DEVICE int64_t *ct_sums_on(const ct_batch &b, uint32_t page, uint64_t vertex) {
    return &b.sums_of[3 * ((uint64_t)(page - CT_FIRST_PAGE) * CT_PAGE + vertex % CT_PAGE)];
}

/* Lattice coordinates of a body's vertex. */
CT_DEVICE void ct_gpu_coords(const ct_gpu_body *body, const ct_window *window, uint32_t vertex, int32_t q[3]) {
    const float *p = body->positions + 3 * (uint64_t)vertex;
    const float x = p[0], y = p[1], z = p[2];
    for (int k = 0; k < 3; k++) {
        const double row = body->rigid ? ct_pose_coord(body->pose + 4 * k, x, y, z)
                                       : (double)(k == 0   ? x
                                                  : k == 1 ? y
                                                           : z);
        q[k] = ct_snap(row, window->axis[k].origin, window->axis[k].scale);
    }
}

#endif
