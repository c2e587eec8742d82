/* pairs_cuda.cu - the broad phase of a batch: all pairs of overlapping boxes of each scene, in rising order, and what
 * each needs of every list. In a scene of few bodies each is tried against all those after it, a block's worth of them
 * at a time in shared memory; crowds have been sorted before (crowd_cuda.cu). */
#include "gpu/broadphase/crowd_cuda.cuh"

/* Counts the pairs of which each body is the first, or writes them down. */
template <bool WRITE> CT_DEVICE void try_few(const ct_batch &b) {
    CT_SHARED ct_gpu_node mine[CT_BLOCK], theirs[CT_BLOCK];
    CT_SHARED uint32_t step[CT_BLOCK], found[CT_BLOCK];
    const uint64_t n_blocks = (b.n_bodies + CT_BLOCK - 1) / CT_BLOCK;
    CT_EACH_BLOCK(c, n_blocks) {
        const uint64_t first = c * CT_BLOCK;
        const uint64_t last = first + CT_BLOCK < b.n_bodies ? first + CT_BLOCK : b.n_bodies;
        CT_THREADS(t) {
            found[t] = 0;
            if (first + t >= last) continue;
            step[t] = (uint32_t)ct_step_of(b, first + t);
            mine[t] = theirs[t] = ct_node_of(&b.steps[step[t]], first + t);
        }
        CT_BARRIER();
        const ct_gpu_step *final = &b.steps[step[last - 1 - first]];
        const uint64_t end = (uint64_t) final->first_body + (ct_gpu_is_crowd(final) ? 0 : final->n_bodies);
        for (uint64_t base = first; base < end; base += CT_BLOCK) {
            CT_THREADS(t) {
                if (base > first && base + t < end) theirs[t] = ct_node_of(final, base + t);
            }
            CT_BARRIER();
            CT_THREADS(t) {
                const uint64_t row = first + t;
                if (row >= last || ct_gpu_is_crowd(&b.steps[step[t]])) continue;
                const ct_gpu_step *s = &b.steps[step[t]];
                uint64_t to = (uint64_t)s->first_body + s->n_bodies, from = row + 1 > base ? row + 1 : base;
                if (to > base + CT_BLOCK) to = base + CT_BLOCK;
                for (uint64_t other = from; other < to; other++) {
                    if (!ct_may_touch(&mine[t], &theirs[other - base])) continue;
                    if (s->n_ignored && ct_is_ignored(s, row - s->first_body, other - s->first_body)) continue;
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
            if (!WRITE && first + t < last && !ct_gpu_is_crowd(&b.steps[step[t]])) b.row_count[first + t] = found[t];
        }
        CT_BARRIER();
    }
}

/* The same for crowds: a body of many is tried by several threads, each with a part of the others. Writing takes what
 * has been counted away again. */
template <bool WRITE> CT_DEVICE void try_crowds(const ct_batch &b) {
    CT_SHARED uint64_t tests[CT_BLOCK];
    CT_EACH_BLOCK(chunk, b.n_chunks) {
        const ct_gpu_crowd *crowd =
            &b.crowds[ct_find(b.n_crowds, chunk, [&](uint64_t i) { return (uint64_t)b.crowds[i].first_chunk; })];
        const ct_gpu_step *step = &b.steps[crowd->step];
        const uint64_t n = step->n_bodies, blocks = (n + CT_BLOCK - 1) / CT_BLOCK;
        const uint64_t part = (chunk - crowd->first_chunk) / blocks, first = (chunk - crowd->first_chunk) % blocks;
        CT_THREADS(t) {
            tests[t] = 0;
            const uint64_t place = first * CT_BLOCK + t;
            if (place >= n) continue;
            const uint32_t body = b.nodes[crowd->level[0] + place].body;
            tests[t] = ct_crowd_try(b, crowd, place, part, [&](uint32_t other) {
                const uint32_t i = body < other ? body : other, j = body < other ? other : body;
                if (step->n_ignored && ct_is_ignored(step, i - step->first_body, j - step->first_body)) return;
                const uint32_t left = atomicAdd(&b.row_count[i], WRITE ? ~(uint32_t)0 : (uint32_t)1);
                if (!WRITE) return;
                const uint64_t to = b.row_first[i] + left - 1;
                const ct_gpu_draft draft = {{i, j}};
                b.drafts[to] = draft;
                b.pairs[to].step = crowd->step;
            });
        }
        if (WRITE) continue;
        CT_BARRIER();
        for (unsigned d = CT_BLOCK / 2; d > 0; d /= 2) {
            CT_THREADS(t) {
                if (t < d) tests[t] += tests[t + d];
            }
            CT_BARRIER();
        }
        CT_THREADS(t) {
            if (t == 0) ct_atomic_add(&b.step_tests[crowd->step], tests[0]);
        }
        CT_BARRIER();
    }
}

CT_KERNEL count(const ct_batch b) {
    CT_FOR(i, b.n_boxed) b.out_boxes[i] = ct_gpu_box(b.boxed[i].body);
    CT_FOR(i, b.n_bodies) {
        const ct_gpu_step *step = &b.steps[ct_step_of(b, i)];
        b.bodies[i] = step->bodies[i - step->first_body];
    }
    try_few<false>(b);
    try_crowds<false>(b);
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
    try_few<true>(b);
    try_crowds<true>(b);
}

CT_DEVICE uint64_t chunks(uint64_t n, uint64_t size) {
    return (n + size - 1) / size;
}

CT_DEVICE uint64_t rays_of(const ct_gpu_pair *pair, int w) {
    if (pair->plan) return 0;
    return (uint64_t)pair->window.axis[ct_view_u(w)].n * (uint64_t)pair->window.axis[ct_view_v(w)].n;
}

/* Where draft p belongs among those of its row, which are in rising order of their second bodies. */
CT_DEVICE uint64_t place_of(const ct_batch &b, uint64_t p) {
    const ct_gpu_draft draft = b.drafts[p];
    uint64_t place = b.row_first[draft.body[0]];
    for (uint64_t q = place, end = b.row_first[draft.body[0] + 1]; q < end; q++)
        if (b.drafts[q].body[1] < draft.body[1]) place++;
    return place;
}

CT_KERNEL plan(const ct_batch b) {
    const uint64_t n = b.counts->pairs;
    if (n > b.room.pairs) return;
    CT_FOR(p, n) {
        const ct_gpu_step *step = &b.steps[b.pairs[p].step];
        const uint64_t place = ct_gpu_is_crowd(step) ? place_of(b, p) : p;
        ct_gpu_pair *pair = &b.pairs[place];
        if (ct_gpu_is_crowd(step))
            for (int k = 0; k < 2; k++) pair->body[k] = b.drafts[p].body[k];
        const ct_box boxes[2] = {ct_gpu_box(b.bodies[pair->body[0]]), ct_gpu_box(b.bodies[pair->body[1]])};
        ct_plan_need need;
        pair->plan = CT_PLAN_OK;
        for (int k = 0; k < 3 && !pair->plan; k++)
            pair->plan = ct_plan_axis(boxes[0].lo[k], boxes[0].hi[k], boxes[1].lo[k], boxes[1].hi[k], step->pixel_size,
                                      step->resolution[k], CT_MAX_RESOLUTION, &pair->window.axis[k], &need);
        if (pair->plan) atomicMax(&b.step_refused[b.pairs[p].step], ~(uint32_t)place);
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
