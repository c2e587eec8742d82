/* answer_cuda.cu - sums to answers: the sparse gradient's entries, forces and torques on both bodies, friction weights,
 * and the contacts. It leaves the sums and their page table zero for the next batch. */
#include "gpu/backend/cuda/answer.cuh"
#include "gpu/backend/cuda/collective.cuh"

#include <string.h>

/* Wishes that need the sparse gradient. */
enum { WANT_ENTRIES = CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES };
/* Wishes that return arrays made of it. */
enum { WANT_ARRAYS = CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES };

enum { THREAD_VERTICES = CT_VERTEX_CHUNK / (int)CT_BLOCK }; /* consecutive vertices of a thread */

/* Fills the contact's volumes. False: the pair is no contact. */
CT_DEVICE bool pair_volumes(const ct_answer_tables &b, uint64_t p, ct_contact *contact) {
    const ct_gpu_plan *plan = &b.plans[p];
    return !plan->status && ct_frame_volumes(&plan->window, b.span_length + 3 * p, contact);
}

CT_DEVICE bool is_contact(const ct_answer_tables &b, uint64_t p) {
    ct_contact contact;
    return pair_volumes(b, p, &contact);
}

/* The vertices of a chunk. */
struct chunk_range {
    uint64_t side, first, last; /* vertices [first, last) */
    uint32_t *page_slots;       /* of the body's first vertices */
};

CT_DEVICE chunk_range range_of_chunk(const ct_answer_tables &b, uint64_t chunk) {
    chunk_range at;
    at.side = ct_find_owner(2 * b.counts->pairs, chunk, [&](uint64_t i) { return b.vertex_chunk_offset[i]; });
    const uint64_t n = b.bodies[b.pairs[at.side / 2].body[at.side & 1]]->n_vertices;
    at.first = (chunk - b.vertex_chunk_offset[at.side]) * CT_VERTEX_CHUNK;
    at.page_slots = ct_page_slot(b, at.side, 0);
    at.last = at.first + CT_VERTEX_CHUNK < n ? at.first + CT_VERTEX_CHUNK : n;
    return at;
}

/* A vertex's sums, or NULL where all of them are zero. */
CT_DEVICE int64_t *nonzero_sums(const ct_answer_tables &b, const chunk_range *at, uint64_t vertex) {
    const uint32_t page = at->page_slots[vertex / CT_PAGE];
    if (page == CT_NO_PAGE) return NULL;
    int64_t *sums = ct_vertex_sums(b, page, vertex);
    return sums[0] | sums[1] | sums[2] ? sums : NULL;
}

/* Counts the entries of each chunk and the contacts, and clears the sums over entries. */
CT_KERNEL count_entries(const ct_answer_tables b) {
    if (ct_gpu_raster_shortage(b.counts, &b.capacity)) return;
    const uint64_t n_chunks = b.counts->vertex_chunks, n_pairs = b.counts->pairs;
    CT_EACH_BLOCK(chunk, n_chunks) {
        const chunk_range at = range_of_chunk(b, chunk);
        const uint64_t p = at.side / 2;
        const bool wanted = is_contact(b, p) && (b.steps[b.pairs[p].step].want & WANT_ENTRIES);
        uint32_t n_entries = 0;
        CT_THREADS(t) {
            for (uint64_t v = at.first + t; v < at.last; v += CT_BLOCK)
                n_entries += wanted && nonzero_sums(b, &at, v);
        }
        n_entries = ct_block_sum(n_entries);
        CT_THREADS(t) {
            if (t == 0) b.entry_count[chunk] = n_entries;
        }
    }
    CT_FOR(i, 2 * CT_WIDE_SUMS * 2 * n_pairs)((int64_t *)b.side_sums)[i] = 0;
    if (!ct_is_last_block(&b.counts->finished_blocks[CT_LAST_OF_COUNT_ENTRIES])) return;
    const uint64_t entries = ct_scan<uint64_t>(
        n_chunks, [&](uint64_t i) { return (uint64_t)b.entry_count[i]; },
        [&](uint64_t i, uint64_t before) { b.entry_offset[i] = before; });
    const uint64_t contacts = ct_scan<uint64_t>(
        n_pairs, [&](uint64_t i) { return (uint64_t)is_contact(b, i); },
        [&](uint64_t i, uint64_t before) { b.contact_offset[i] = before; });
    CT_THREADS(t) {
        if (t > 0) continue;
        b.counts->entries = b.entry_offset[n_chunks] = entries;
        b.counts->contacts = b.contact_offset[n_pairs] = contacts;
    }
}

/* Adds a chunk's sums, `count` wide ones that thread 0 has, to a part's sums from number `first` on. */
CT_DEVICE void add_wide_sums(const ct_wide *chunk_sums, int count, ct_gpu_side_sums *side, int first) {
    CT_SHARED ct_wide wides[CT_MOMENT_SUMS > CT_BARYCENTRE_SUMS ? CT_MOMENT_SUMS : CT_BARYCENTRE_SUMS];
    CT_THREADS(t) {
        for (int k = 0; k < count && t == 0; k++) wides[k] = chunk_sums[k];
    }
    CT_BARRIER();
    CT_THREADS(t) {
        if (t >= (unsigned)count || wides[t] == 0) continue;
        ct_atomic_sum(&side->high[first + (int)t], (int64_t)(wides[t] >> 32));
        ct_atomic_sum(&side->low[first + (int)t], (int64_t)(wides[t] & 0xffffffff));
    }
    CT_BARRIER();
}

/* Writes the entries of each chunk, clears the sums and their pages, and sums forces and moments over the entries. */
CT_KERNEL compact_gradient(const ct_answer_tables b) {
    if (ct_gpu_shortage(b.counts, &b.capacity)) return;
    const uint64_t n_chunks = b.counts->vertex_chunks;
    CT_EACH_BLOCK(chunk, n_chunks) {
        const chunk_range at = range_of_chunk(b, chunk);
        const ct_gpu_pair *pair = &b.pairs[at.side / 2];
        const ct_gpu_body *body = b.bodies[pair->body[at.side & 1]];
        const uint32_t want = b.steps[pair->step].want;
        const uint64_t first_entry = b.entry_offset[chunk];
        const bool any = b.entry_count[chunk] > 0;
        uint32_t before = 0, total;
        CT_THREADS(t) {
            for (uint64_t v = at.first + t * THREAD_VERTICES; v < at.first + (t + 1) * THREAD_VERTICES && v < at.last;
                 v++)
                before += any && nonzero_sums(b, &at, v);
        }
        if (any) before = ct_block_prefix_sum(before, &total);
        CT_THREADS(t) {
            uint64_t entry = first_entry + before;
            for (uint64_t v = at.first + t * THREAD_VERTICES; v < at.first + (t + 1) * THREAD_VERTICES && v < at.last;
                 v++) {
                int64_t *sums = nonzero_sums(b, &at, v);
                if (!sums) continue;
                if (any) {
                    b.entry_vertices[entry] = (uint32_t)v;
                    if (want & WANT_ARRAYS) b.out_vertices[entry] = (uint32_t)v;
                    for (int k = 0; k < 3; k++) {
                        b.entry_sums[3 * entry + k] = sums[k];
                        if (want & WANT_ARRAYS) b.out_sums[3 * entry + k] = sums[k];
                    }
                    entry++;
                }
                sums[0] = sums[1] = sums[2] = 0;
            }
        }
        CT_BARRIER();
        CT_THREADS(t) {
            if (at.first + t * CT_PAGE < at.last) at.page_slots[at.first / CT_PAGE + t] = CT_NO_PAGE;
        }
        if (!any) continue;
        const uint64_t last_entry = first_entry + b.entry_count[chunk];
        ct_moments moments = {{0, 0, 0}, {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}};
        CT_THREADS(t) {
            for (uint64_t e = first_entry + t; e < last_entry; e += CT_BLOCK) {
                int32_t q[3];
                ct_gpu_coords(body, &b.plans[at.side / 2].window, b.entry_vertices[e], q);
                ct_moments_add(&moments, q, b.entry_sums + 3 * e);
            }
        }
        moments = ct_block_reduce(moments, [](ct_moments x, const ct_moments &y) {
            ct_moments_join(&x, &y);
            return x;
        });
        add_wide_sums((const ct_wide *)&moments, CT_MOMENT_SUMS, &b.side_sums[at.side], 0);
    }
}

/* dV/d(translation) of a pair's body 0, m^2. */
CT_DEVICE void force_of_pair(const ct_answer_tables &b, uint64_t p, const ct_weight_units *units, double force[3]) {
    for (int k = 0; k < 3; k++) force[k] = ct_wide_to_double(ct_gpu_wide_sum(&b.side_sums[2 * p], k)) * units->of[k];
}

/* Sums the friction weights of the entries and the weighted positions, which give the contact's centre. */
CT_KERNEL sum_friction_weights(const ct_answer_tables b) {
    if (ct_gpu_shortage(b.counts, &b.capacity)) return;
    const uint64_t n_chunks = b.counts->vertex_chunks;
    CT_EACH_BLOCK(chunk, n_chunks) {
        if (b.entry_count[chunk] == 0) continue;
        const chunk_range at = range_of_chunk(b, chunk);
        const ct_window *window = &b.plans[at.side / 2].window;
        const ct_gpu_body *body = b.bodies[b.pairs[at.side / 2].body[at.side & 1]];
        const ct_weight_units units = ct_frame_units(window);
        const double scale = ct_barycentre_scale(window);
        double force[3];
        ct_contact contact;
        force_of_pair(b, at.side / 2, &units, force);
        const int has_normal = ct_frame_normal(&contact, force);
        const uint64_t first = b.entry_offset[chunk], last = first + b.entry_count[chunk];
        ct_barycentre barycentre = {{0, 0, 0}, {0, 0, 0}, 0, 0};
        CT_THREADS(t) {
            for (uint64_t e = first + t; e < last; e += CT_BLOCK) {
                int32_t q[3];
                ct_gpu_coords(body, window, b.entry_vertices[e], q);
                ct_barycentre_add(&barycentre, &contact, has_normal, scale, &units, q, b.entry_sums + 3 * e);
            }
        }
        barycentre = ct_block_reduce(barycentre, [](ct_barycentre x, const ct_barycentre &y) {
            ct_barycentre_join(&x, &y);
            return x;
        });
        add_wide_sums((const ct_wide *)&barycentre, CT_BARYCENTRE_SUMS, &b.side_sums[at.side], CT_MOMENT_SUMS);
    }
}

CT_DEVICE ct_moments moments_of(const ct_gpu_side_sums *side) {
    ct_moments m;
    for (int k = 0; k < CT_MOMENT_SUMS; k++) ((ct_wide *)&m)[k] = ct_gpu_wide_sum(side, k);
    return m;
}

CT_DEVICE ct_barycentre barycentre_of(const ct_gpu_side_sums *side) {
    ct_barycentre c;
    for (int k = 0; k < CT_BARYCENTRE_SUMS; k++) ((ct_wide *)&c)[k] = ct_gpu_wide_sum(side, CT_MOMENT_SUMS + k);
    return c;
}

CT_DEVICE void write_contact(const ct_answer_tables &b, uint64_t p) {
    const ct_gpu_pair *pair = &b.pairs[p];
    const ct_window *window = &b.plans[p].window;
    ct_gpu_contact out;
    memset(&out, 0, sizeof out);
    ct_contact *contact = &out.contact;
    if (!pair_volumes(b, p, contact)) return;
    out.units = ct_frame_units(window);
    out.first_entry = b.entry_offset[b.vertex_chunk_offset[2 * p]];
    for (uint64_t k = 0; k < 2; k++) {
        out.body[k] = pair->body[k];
        contact->count[k] =
            b.entry_offset[b.vertex_chunk_offset[2 * p + k + 1]] - b.entry_offset[b.vertex_chunk_offset[2 * p + k]];
    }
    if (b.steps[pair->step].want & WANT_ENTRIES) {
        for (int k = 0; k < 2; k++) {
            const ct_gpu_body *body = b.bodies[pair->body[k]];
            double origin[3] = {0, 0, 0};
            for (int i = 0; i < 3 && body->rigid; i++) origin[i] = body->pose[4 * i + 3];
            const ct_moments moments = moments_of(&b.side_sums[2 * p + (uint64_t)k]);
            ct_moments_finish(&moments, window, &out.units, origin, contact->generalized_gradient[k]);
        }
        const int has_normal = ct_frame_normal(contact, contact->generalized_gradient[0]);
        const ct_barycentre sides[2] = {barycentre_of(&b.side_sums[2 * p]), barycentre_of(&b.side_sums[2 * p + 1])};
        ct_frame_finish(window, sides, has_normal, ct_barycentre_scale(window), contact);
    }
    b.out_contacts[b.contact_offset[p]] = out;
}

CT_DEVICE void write_step_totals(const ct_answer_tables &b, uint64_t i) {
    const ct_gpu_step *step = &b.steps[i];
    ct_gpu_step_totals totals;
    memset(&totals, 0, sizeof totals);
    const uint64_t first = b.row_offset[step->first_body], last = b.row_offset[step->first_body + step->n_bodies];
    totals.pairs = last - first;
    totals.box_tests =
        ct_gpu_is_crowd(step) ? b.step_box_tests[i] : step->n_bodies * (uint64_t)(step->n_bodies - 1) / 2;
    totals.rays = b.ray_offset[3 * last] - b.ray_offset[3 * first];
    totals.fragments = b.step_fragments[i];
    totals.first_contact = b.contact_offset[first];
    totals.n_contacts = b.contact_offset[last] - b.contact_offset[first];
    totals.refused = ~b.step_refused[i];
    if (totals.refused != CT_GPU_NONE)
        for (int k = 0; k < 2; k++) totals.body[k] = b.pairs[totals.refused].body[k];
    b.out_steps[i] = totals;
}

CT_KERNEL write_contacts(const ct_answer_tables b) {
    CT_THREADS(t) {
        if (t == 0 && CT_BLOCK_INDEX == 0) *b.out_counts = *b.counts;
    }
    if (ct_gpu_shortage(b.counts, &b.capacity)) return;
    CT_FOR(p, b.counts->pairs) write_contact(b, p);
    CT_FOR(i, b.n_steps) write_step_totals(b, i);
}

const ct_kernel_entry ct_answer_kernels[] = {CT_KERNEL_ENTRY(count_entries), CT_KERNEL_ENTRY(compact_gradient),
                                             CT_KERNEL_ENTRY(sum_friction_weights), CT_KERNEL_ENTRY(write_contacts),
                                             CT_KERNELS_END};

unsigned ct_cuda_answer(const ct_answer_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(count_entries, grid, stream, *tables);
    n += CT_LAUNCH(compact_gradient, grid, stream, *tables);
    n += CT_LAUNCH(sum_friction_weights, grid, stream, *tables);
    n += CT_LAUNCH(write_contacts, grid, stream, *tables);
    return n;
}
