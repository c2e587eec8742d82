/* answer_cuda.cu - sums to answers: the vertices that have any, both bodies' forces and torques, friction weights, and
 * the contacts themselves. Sums, and their pages, are left as they have to be for the next
 * batch: zero. */
#include "gpu/backend/cuda/collective.cuh"

#include <string.h>

/* Anything that needs the sparse gradient. */
enum { WANT_ENTRIES = CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES };
/* Anything that hands it out. */
enum { WANT_ARRAYS = CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES };

enum { EACH = CT_VERTEX_CHUNK / (int)CT_BLOCK }; /* vertices of a thread, one after the other */

CT_DEVICE bool is_found(const ct_gpu_pair *pair) {
    ct_contact contact;
    return !pair->plan && ct_frame_volumes(&pair->window, pair->length, &contact);
}

/* A chunk of one body's vertices in one pair. */
struct chunk_place {
    uint64_t side, first, last; /* vertices [first, last) */
    uint32_t *page;             /* of the body's first vertices */
};

CT_DEVICE chunk_place place_of(const ct_batch &b, uint64_t chunk) {
    chunk_place at;
    at.side = ct_find(2 * b.counts->pairs, chunk, [&](uint64_t i) { return b.vertex_chunk[i]; });
    const uint64_t n = b.bodies[b.pairs[at.side / 2].body[at.side & 1]]->n_vertices;
    at.first = (chunk - b.vertex_chunk[at.side]) * CT_VERTEX_CHUNK;
    at.page = ct_page_of(b, at.side, 0);
    at.last = at.first + CT_VERTEX_CHUNK < n ? at.first + CT_VERTEX_CHUNK : n;
    return at;
}

/* A vertex's sums, if it has any. */
CT_DEVICE int64_t *sums_of(const ct_batch &b, const chunk_place *at, uint64_t vertex) {
    const uint32_t page = at->page[vertex / CT_PAGE];
    if (page == CT_NO_PAGE) return NULL;
    int64_t *sums = ct_sums_on(b, page, vertex);
    return sums[0] | sums[1] | sums[2] ? sums : NULL;
}

CT_KERNEL sift(const ct_batch b) {
    CT_SHARED uint32_t found[CT_BLOCK];
    if (ct_gpu_raster_shortage(b.counts, &b.room)) return;
    const uint64_t n_chunks = b.counts->vertex_chunks, n_pairs = b.counts->pairs;
    CT_EACH_BLOCK(chunk, n_chunks) {
        const chunk_place at = place_of(b, chunk);
        const ct_gpu_pair *pair = &b.pairs[at.side / 2];
        const bool wanted = is_found(pair) && (b.steps[pair->step].want & WANT_ENTRIES);
        CT_THREADS(t) {
            found[t] = 0;
            for (uint64_t v = at.first + t; v < at.last; v += CT_BLOCK) found[t] += wanted && sums_of(b, &at, v);
        }
        CT_BARRIER();
        for (unsigned d = CT_BLOCK / 2; d > 0; d /= 2) {
            CT_THREADS(t) {
                if (t < d) found[t] += found[t + d];
            }
            CT_BARRIER();
        }
        CT_THREADS(t) {
            if (t == 0) b.chunk_count[chunk] = found[0];
        }
        CT_BARRIER();
    }
    if (!ct_is_last_block(&b.counts->done[2])) return;
    const uint64_t entries = ct_scan(
        n_chunks, [&](uint64_t i) { return (uint64_t)b.chunk_count[i]; },
        [&](uint64_t i, uint64_t before) { b.chunk_first[i] = before; });
    const uint64_t contacts = ct_scan(
        n_pairs, [&](uint64_t i) { return (uint64_t)is_found(&b.pairs[i]); },
        [&](uint64_t i, uint64_t before) { b.contact[i] = before; });
    CT_THREADS(t) {
        if (t > 0) continue;
        b.counts->entries = b.chunk_first[n_chunks] = entries;
        b.counts->contacts = b.contact[n_pairs] = contacts;
    }
}

/* Threads of a block that add up wide sums: their parts must fit in shared memory. */
#define SUMMERS (CT_BLOCK / 2)

/* Adds up `wides` [SUMMERS][count] and adds that to a side's from number `first` on. */
CT_DEVICE void add_wides(ct_wide *wides, int count, ct_gpu_side *side, int first) {
    CT_BARRIER();
    for (unsigned d = SUMMERS / 2; d > 0; d /= 2) {
        CT_THREADS(t) {
            if (t >= d) continue;
            for (int k = 0; k < count; k++)
                wides[t * (unsigned)count + (unsigned)k] += wides[(t + d) * (unsigned)count + (unsigned)k];
        }
        CT_BARRIER();
    }
    CT_THREADS(t) {
        if (t >= (unsigned)count || wides[t] == 0) continue;
        ct_atomic_sum(&side->high[first + (int)t], (int64_t)(wides[t] >> 32));
        ct_atomic_sum(&side->low[first + (int)t], (int64_t)(wides[t] & 0xffffffff));
    }
    CT_BARRIER();
}

CT_KERNEL gather(const ct_batch b) {
    CT_SHARED uint64_t before[CT_BLOCK], other[CT_BLOCK];
    CT_SHARED ct_moments moments[SUMMERS];
    if (ct_gpu_shortage(b.counts, &b.room)) return;
    const uint64_t n_chunks = b.counts->vertex_chunks;
    CT_EACH_BLOCK(chunk, n_chunks) {
        const chunk_place at = place_of(b, chunk);
        const ct_gpu_pair *pair = &b.pairs[at.side / 2];
        const ct_gpu_body *body = b.bodies[pair->body[at.side & 1]];
        const uint32_t want = b.steps[pair->step].want;
        const uint64_t first_entry = b.chunk_first[chunk];
        const bool any = b.chunk_count[chunk] > 0;
        CT_THREADS(t) {
            before[t] = 0;
            for (uint64_t v = at.first + t * EACH; v < at.first + (t + 1) * EACH && v < at.last; v++)
                before[t] += any && sums_of(b, &at, v);
        }
        if (any) ct_block_scan(before, other);
        CT_THREADS(t) {
            uint64_t entry = first_entry + before[t];
            for (uint64_t v = at.first + t * EACH; v < at.first + (t + 1) * EACH && v < at.last; v++) {
                int64_t *sums = sums_of(b, &at, v);
                if (!sums) continue;
                if (any) {
                    b.vertices[entry] = (uint32_t)v;
                    if (want & WANT_ARRAYS) b.out_vertices[entry] = (uint32_t)v;
                    for (int k = 0; k < 3; k++) {
                        b.sums[3 * entry + k] = sums[k];
                        if (want & WANT_ARRAYS) b.out_sums[3 * entry + k] = sums[k];
                    }
                    entry++;
                }
                sums[0] = sums[1] = sums[2] = 0;
            }
        }
        CT_BARRIER();
        CT_THREADS(t) {
            if (at.first + t * CT_PAGE < at.last) at.page[at.first / CT_PAGE + t] = CT_NO_PAGE;
        }
        if (!any) continue;
        const uint64_t last_entry = first_entry + b.chunk_count[chunk];
        CT_THREADS(t) {
            if (t >= SUMMERS) continue;
            ct_moments mine = {{0, 0, 0}, {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}};
            for (uint64_t e = first_entry + t; e < last_entry; e += SUMMERS) {
                int32_t q[3];
                ct_gpu_coords(body, &pair->window, b.vertices[e], q);
                ct_moments_add(&mine, q, b.sums + 3 * e);
            }
            moments[t] = mine;
        }
        add_wides((ct_wide *)moments, CT_MOMENTS, &b.sides[at.side], 0);
    }
}

/* Body 0's force of a pair, m^2. */
CT_DEVICE void force_of(const ct_batch &b, uint64_t p, const ct_weight_units *units, double force[3]) {
    for (int k = 0; k < 3; k++) force[k] = ct_wide_to_double(ct_gpu_wide(&b.sides[2 * p], k)) * units->of[k];
}

CT_KERNEL weigh(const ct_batch b) {
    CT_SHARED ct_barycentre parts[SUMMERS];
    if (ct_gpu_shortage(b.counts, &b.room)) return;
    const uint64_t n_chunks = b.counts->vertex_chunks;
    CT_EACH_BLOCK(chunk, n_chunks) {
        if (b.chunk_count[chunk] == 0) continue;
        const chunk_place at = place_of(b, chunk);
        const ct_gpu_pair *pair = &b.pairs[at.side / 2];
        const ct_gpu_body *body = b.bodies[pair->body[at.side & 1]];
        const ct_weight_units units = ct_frame_units(&pair->window);
        const double scale = ct_barycentre_scale(&pair->window);
        double force[3];
        ct_contact contact;
        force_of(b, at.side / 2, &units, force);
        const int has_normal = ct_frame_normal(&contact, force);
        const uint64_t first = b.chunk_first[chunk], last = first + b.chunk_count[chunk];
        CT_THREADS(t) {
            if (t >= SUMMERS) continue;
            ct_barycentre mine = {{0, 0, 0}, {0, 0, 0}, 0, 0};
            for (uint64_t e = first + t; e < last; e += SUMMERS) {
                int32_t q[3];
                ct_gpu_coords(body, &pair->window, b.vertices[e], q);
                ct_barycentre_add(&mine, &contact, has_normal, scale, &units, q, b.sums + 3 * e);
            }
            parts[t] = mine;
        }
        add_wides((ct_wide *)parts, CT_BARYCENTRE, &b.sides[at.side], CT_MOMENTS);
    }
}

CT_DEVICE ct_moments moments_of(const ct_gpu_side *side) {
    ct_moments m;
    for (int k = 0; k < CT_MOMENTS; k++) ((ct_wide *)&m)[k] = ct_gpu_wide(side, k);
    return m;
}

CT_DEVICE ct_barycentre barycentre_of(const ct_gpu_side *side) {
    ct_barycentre c;
    for (int k = 0; k < CT_BARYCENTRE; k++) ((ct_wide *)&c)[k] = ct_gpu_wide(side, CT_MOMENTS + k);
    return c;
}

CT_DEVICE void answer_pair(const ct_batch &b, uint64_t p) {
    const ct_gpu_pair *pair = &b.pairs[p];
    ct_gpu_found found;
    memset(&found, 0, sizeof found);
    ct_contact *contact = &found.contact;
    if (pair->plan || !ct_frame_volumes(&pair->window, pair->length, contact)) return;
    found.units = ct_frame_units(&pair->window);
    found.first_entry = b.chunk_first[b.vertex_chunk[2 * p]];
    for (uint64_t k = 0; k < 2; k++) {
        found.body[k] = pair->body[k];
        contact->count[k] = b.chunk_first[b.vertex_chunk[2 * p + k + 1]] - b.chunk_first[b.vertex_chunk[2 * p + k]];
    }
    if (b.steps[pair->step].want & WANT_ENTRIES) {
        for (int k = 0; k < 2; k++) {
            const ct_gpu_body *body = b.bodies[pair->body[k]];
            double origin[3] = {0, 0, 0};
            for (int i = 0; i < 3 && body->rigid; i++) origin[i] = body->pose[4 * i + 3];
            const ct_moments moments = moments_of(&b.sides[2 * p + (uint64_t)k]);
            ct_moments_finish(&moments, &pair->window, &found.units, origin, contact->generalized_gradient[k]);
        }
        const int has_normal = ct_frame_normal(contact, contact->generalized_gradient[0]);
        const ct_barycentre sides[2] = {barycentre_of(&b.sides[2 * p]), barycentre_of(&b.sides[2 * p + 1])};
        ct_frame_finish(&pair->window, sides, has_normal, ct_barycentre_scale(&pair->window), contact);
    }
    b.out_found[b.contact[p]] = found;
}

CT_DEVICE void answer_step(const ct_batch &b, uint64_t i) {
    const ct_gpu_step *step = &b.steps[i];
    ct_gpu_share share;
    memset(&share, 0, sizeof share);
    const uint64_t first = b.row_first[step->first_body], last = b.row_first[step->first_body + step->n_bodies];
    share.pairs = last - first;
    share.box_tests = ct_gpu_is_crowd(step) ? b.step_tests[i] : step->n_bodies * (uint64_t)(step->n_bodies - 1) / 2;
    share.rays = b.ray[3 * last] - b.ray[3 * first];
    share.fragments = b.step_fragments[i];
    share.first_contact = b.contact[first];
    share.n_contacts = b.contact[last] - b.contact[first];
    share.refused = ~b.step_refused[i];
    if (share.refused != CT_GPU_NONE)
        for (int k = 0; k < 2; k++) share.body[k] = b.pairs[share.refused].body[k];
    b.out_shares[i] = share;
}

CT_KERNEL finish(const ct_batch b) {
    CT_THREADS(t) {
        if (t == 0 && CT_BLOCK_INDEX == 0) *b.out_counts = *b.counts;
    }
    if (ct_gpu_shortage(b.counts, &b.room)) return;
    CT_FOR(p, b.counts->pairs) answer_pair(b, p);
    CT_FOR(i, b.n_steps) answer_step(b, i);
}

unsigned ct_cuda_answer(const ct_batch *batch, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(sift, grid, stream, *batch);
    n += CT_LAUNCH(gather, grid, stream, *batch);
    n += CT_LAUNCH(weigh, grid, stream, *batch);
    n += CT_LAUNCH(finish, grid, stream, *batch);
    return n;
}
