/* pairs_cuda.cu - the broad phase of a batch: all pairs of overlapping boxes of each scene, in rising order, and what
 * each needs of every list. A body is tried against all those after it in its scene, a block's worth of them at a time
 * in shared memory. */
#include "gpu/backend/cuda/collective.cuh"
#include "gpu/broadphase/broadphase.h"

/* Of several steps that begin at one body all but the last are empty. */
CT_DEVICE uint64_t step_of(const ct_batch &b, uint64_t body) {
    return ct_find(b.n_steps, body, [&](uint64_t i) { return (uint64_t)b.steps[i].first_body; });
}

CT_DEVICE bool is_ignored(const uint64_t *keys, uint64_t n, uint64_t key) {
    uint64_t lo = 0, hi = n;
    while (lo < hi) {
        uint64_t middle = lo + (hi - lo) / 2;
        if (keys[middle] < key)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < n && keys[lo] == key;
}

struct candidate {
    double lo[3], hi[3];
    uint32_t group, mask;
};

CT_DEVICE candidate candidate_of(const ct_gpu_body *body) {
    candidate c;
    const ct_box box = ct_gpu_box(body);
    bool is_empty = false;
    for (int k = 0; k < 3; k++) {
        c.lo[k] = box.lo[k];
        c.hi[k] = box.hi[k];
        is_empty = is_empty || !(box.lo[k] < box.hi[k]);
    }
    c.group = is_empty ? 0 : body->group; /* meets nothing */
    c.mask = body->mask;
    return c;
}

CT_DEVICE bool may_touch(const candidate *a, const candidate *b) {
    if (!(a->group & b->mask) || !(b->group & a->mask)) return false;
    for (int k = 0; k < 3; k++)
        if (!(a->lo[k] < b->hi[k] && b->lo[k] < a->hi[k])) return false;
    return true;
}

/* Counts the pairs of which each body is the first, or writes them down. */
template <bool WRITE> CT_DEVICE void try_bodies(const ct_batch &b) {
    CT_SHARED candidate mine[CT_BLOCK], theirs[CT_BLOCK];
    CT_SHARED uint32_t step[CT_BLOCK], found[CT_BLOCK];
    const uint64_t n_blocks = (b.n_bodies + CT_BLOCK - 1) / CT_BLOCK;
    CT_EACH_BLOCK(c, n_blocks) {
        const uint64_t first = c * CT_BLOCK;
        const uint64_t last = first + CT_BLOCK < b.n_bodies ? first + CT_BLOCK : b.n_bodies;
        CT_THREADS(t) {
            found[t] = 0;
            if (first + t >= last) continue;
            mine[t] = candidate_of(b.bodies[first + t]);
            step[t] = (uint32_t)step_of(b, first + t);
        }
        CT_BARRIER();
        const ct_gpu_step *final = &b.steps[step[last - 1 - first]];
        const uint64_t end = (uint64_t) final->first_body + final->n_bodies;
        for (uint64_t base = first; base < end; base += CT_BLOCK) {
            CT_THREADS(t) {
                if (base + t < end) theirs[t] = candidate_of(b.bodies[base + t]);
            }
            CT_BARRIER();
            CT_THREADS(t) {
                const uint64_t row = first + t;
                if (row >= last) continue;
                const ct_gpu_step *s = &b.steps[step[t]];
                uint64_t to = (uint64_t)s->first_body + s->n_bodies, from = row + 1 > base ? row + 1 : base;
                if (to > base + CT_BLOCK) to = base + CT_BLOCK;
                for (uint64_t other = from; other < to; other++) {
                    if (!may_touch(&mine[t], &theirs[other - base])) continue;
                    if (s->n_ignored && is_ignored(b.ignored + s->first_ignored, s->n_ignored,
                                                   (row - s->first_body) << 32 | (other - s->first_body)))
                        continue;
                    if (WRITE) {
                        ct_gpu_pair *pair = &b.pairs[b.row_first[row] + found[t]];
                        pair->step = step[t];
                        pair->body[0] = (uint32_t)row;
                        pair->body[1] = (uint32_t)other;
                    }
                    found[t]++;
                }
            }
            CT_BARRIER();
        }
        CT_THREADS(t) {
            if (!WRITE && first + t < last) b.row_count[first + t] = found[t];
        }
        CT_BARRIER();
    }
}

CT_KERNEL count(const ct_batch b) {
    CT_FOR(i, b.n_boxed) b.out_boxes[i] = ct_gpu_box(b.boxed[i].body);
    try_bodies<false>(b);
    if (!ct_is_last_block(&b.counts->done[0])) return;
    const uint64_t total = ct_scan(
        b.n_bodies, [&](uint64_t i) { return (uint64_t)b.row_count[i]; },
        [&](uint64_t i, uint64_t before) { b.row_first[i] = before; });
    CT_THREADS(t) {
        if (t > 0) continue;
        b.row_first[b.n_bodies] = total;
        b.counts->pairs = total;
    }
}

CT_KERNEL fill(const ct_batch b) {
    if (b.counts->pairs > b.room.pairs) return;
    try_bodies<true>(b);
}

CT_DEVICE uint64_t chunks(uint64_t n, uint64_t size) {
    return (n + size - 1) / size;
}

CT_DEVICE uint64_t rays_of(const ct_gpu_pair *pair, int w) {
    if (pair->plan) return 0;
    return (uint64_t)pair->window.axis[ct_view_u(w)].n * (uint64_t)pair->window.axis[ct_view_v(w)].n;
}

CT_KERNEL plan(const ct_batch b) {
    const uint64_t n = b.counts->pairs;
    if (n > b.room.pairs) return;
    CT_FOR(p, n) {
        ct_gpu_pair *pair = &b.pairs[p];
        const ct_gpu_step *step = &b.steps[pair->step];
        const ct_box boxes[2] = {ct_gpu_box(b.bodies[pair->body[0]]), ct_gpu_box(b.bodies[pair->body[1]])};
        ct_plan_need need;
        pair->plan = CT_PLAN_OK;
        for (int k = 0; k < 3 && !pair->plan; k++)
            pair->plan = ct_plan_axis(boxes[0].lo[k], boxes[0].hi[k], boxes[1].lo[k], boxes[1].hi[k], step->pixel_size,
                                      step->resolution[k], CT_MAX_RESOLUTION, &pair->window.axis[k], &need);
        if (pair->plan) atomicMax(&b.step_refused[pair->step], ~(uint32_t)p);
        for (int w = 0; w < 3; w++) pair->length[w] = 0;
    }
    CT_FOR(i, 2 * CT_WIDES * 2 * n)((int64_t *)b.sides)[i] = 0;
    if (!ct_is_last_block(&b.counts->done[1])) return;

    /* A pair that got no window has nothing to be done. */
    const uint64_t triangle_chunks = ct_scan(
        2 * n,
        [&](uint64_t s) {
            const ct_gpu_pair *pair = &b.pairs[s / 2];
            return pair->plan ? 0 : chunks(b.bodies[pair->body[s & 1]]->n_triangles, CT_BLOCK);
        },
        [&](uint64_t s, uint64_t before) { b.triangle_chunk[s] = before; });
    const uint64_t vertex_chunks = ct_scan(
        2 * n,
        [&](uint64_t s) {
            const ct_gpu_pair *pair = &b.pairs[s / 2];
            return pair->plan ? 0 : chunks(b.bodies[pair->body[s & 1]]->n_vertices, CT_VERTEX_CHUNK);
        },
        [&](uint64_t s, uint64_t before) { b.vertex_chunk[s] = before; });
    const uint64_t slots = ct_scan(
        2 * n,
        [&](uint64_t s) {
            const ct_gpu_pair *pair = &b.pairs[s / 2];
            return pair->plan ? (uint64_t)0 : (uint64_t)b.bodies[pair->body[s & 1]]->n_vertices;
        },
        [&](uint64_t s, uint64_t before) { b.slot[s] = before; });
    const uint64_t ray_chunks = ct_scan(
        3 * n, [&](uint64_t i) { return chunks(rays_of(&b.pairs[i / 3], (int)(i % 3)), CT_BLOCK); },
        [&](uint64_t i, uint64_t before) { b.ray_chunk[i] = before; });
    const uint64_t rays = ct_scan(
        3 * n, [&](uint64_t i) { return rays_of(&b.pairs[i / 3], (int)(i % 3)); },
        [&](uint64_t i, uint64_t before) { b.ray[i] = before; });
    CT_THREADS(t) {
        if (t > 0) continue;
        b.counts->triangle_chunks = b.triangle_chunk[2 * n] = triangle_chunks;
        b.counts->vertex_chunks = b.vertex_chunk[2 * n] = vertex_chunks;
        b.counts->slots = b.slot[2 * n] = slots;
        b.counts->ray_chunks = b.ray_chunk[3 * n] = ray_chunks;
        b.counts->rays = b.ray[3 * n] = rays;
    }
}

unsigned ct_cuda_pairs(const ct_batch *batch, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(count, grid, stream, *batch);
    n += CT_LAUNCH(fill, grid, stream, *batch);
    n += CT_LAUNCH(plan, grid, stream, *batch);
    return n;
}
