/* answer_cuda.cu - sums to answers: which candidates are contacts, the sparse gradient's entries, forces and torques on
 * both bodies, friction weights, and the contacts. It leaves the sums and their page table zero for the next batch. */
#include "gpu/contact/entries_cuda.cuh"

#include <string.h>

enum { THREAD_VERTICES = CT_VERTEX_CHUNK / (int)CT_BLOCK }; /* consecutive vertices of a thread */

/* Fills the contact's volumes. False: candidate c is no contact. */
CT_DEVICE bool fill_volumes(const ct_answer_tables &b, uint64_t c, ct_contact *contact) {
    const bool is_found =
        ct_frame_volumes(&b.plans[b.candidate_pair[c]].window, b.span_length + 3 * c, b.span_count + 3 * c, contact);
    return b.view_errors ? ct_frame_bounded_volume(b.view_errors + 3 * c, contact) : is_found;
}

CT_DEVICE bool is_contact(const ct_answer_tables &b, uint64_t c) {
    ct_contact contact;
    return fill_volumes(b, c, &contact);
}

/* A chunk of a part's vertices. */
struct vertex_range {
    uint64_t part, candidate, pair;
    const ct_gpu_step *step;
    const ct_gpu_body *body;
    const ct_window *window;
    const double *pose;   /* of turned views; NULL: the body's */
    uint64_t first, last; /* vertices [first, last) */
    uint32_t *page_slots; /* of the body's first vertices */
};

CT_DEVICE vertex_range range_of_chunk(const ct_answer_tables &b, uint64_t chunk) {
    const ct_gpu_chunk owned = ct_vertex_chunks(b)[chunk];
    vertex_range at;
    at.part = owned.owner;
    at.candidate = at.part / 2;
    at.pair = b.candidate_pair[at.candidate];
    const ct_gpu_pair *pair = &b.pairs[at.pair];
    at.step = &b.steps[pair->step];
    at.body = b.bodies[pair->body[at.part & 1]];
    at.window = &b.plans[at.pair].window;
    at.pose = b.turned && b.turned[at.candidate].is_turned ? b.turned[at.candidate].pose[at.part & 1] : NULL;
    at.first = (uint64_t)owned.index * CT_VERTEX_CHUNK;
    at.last = at.first + CT_VERTEX_CHUNK < at.body->n_vertices ? at.first + CT_VERTEX_CHUNK : at.body->n_vertices;
    at.page_slots = ct_page_slot(b, at.part, 0);
    return at;
}

CT_DEVICE void coords_of(const vertex_range *at, uint32_t vertex, int32_t q[3]) {
    if (at->pose)
        ct_gpu_posed_coords(at->body, at->pose, at->window, vertex, q);
    else
        ct_gpu_coords(at->body, at->window, vertex, q);
}

/* A vertex's sums, or NULL where all of them are zero. */
CT_DEVICE int64_t *nonzero_sums(const ct_answer_tables &b, const vertex_range *at, uint64_t vertex) {
    const uint32_t page = at->page_slots[vertex / CT_PAGE];
    if (page == CT_NO_PAGE) return NULL;
    int64_t *sums = ct_vertex_sums(b, page, vertex);
    return sums[0] | sums[1] | sums[2] ? sums : NULL;
}

/* ---- counts, and where everything lies in the answer ---- */

/* Entries before candidate c, once the chunks' entries are scanned. */
CT_DEVICE uint64_t entries_before(const ct_answer_tables &b, uint64_t c) {
    return b.entry_offset[b.vertex_chunk_offset[2 * c]];
}

/* Entries before the pairs of body `row` of the batch, and so of the bodies before it. */
CT_DEVICE uint64_t entries_before_row(const ct_answer_tables &b, uint64_t row) {
    return entries_before(b, b.candidate_offset[b.row_offset[row]]);
}

/* The entries of step i, whose arrays are not placed yet. */
CT_DEVICE ct_gpu_step_entries entries_of_step(const ct_answer_tables &b, uint64_t i) {
    const ct_gpu_step *step = &b.steps[i];
    ct_gpu_step_entries entries;
    entries.first = entries_before_row(b, step->first_body);
    entries.n = entries_before_row(b, step->first_body + step->n_bodies) - entries.first;
    entries.arrays = 0;
    return entries;
}

/* Counts the entries of each chunk and the contacts, lays the answer out, and clears the sums over entries. */
CT_KERNEL count_entries(const ct_answer_tables b) {
    if (ct_gpu_raster_shortage(b.counts, &b.capacity)) return;
    const uint64_t n_chunks = b.counts->vertex_chunks, n_candidates = b.counts->candidates;
    CT_EACH_BLOCK(chunk, n_chunks) {
        const vertex_range at = range_of_chunk(b, chunk);
        const bool wanted = (at.step->want & CT_WANT_ENTRIES) && is_contact(b, at.candidate);
        uint32_t n_entries = 0;
        CT_THREADS(t) {
            for (uint64_t v = at.first + t; wanted && v < at.last; v += CT_BLOCK)
                n_entries += nonzero_sums(b, &at, v) != NULL;
        }
        n_entries = ct_block_sum(n_entries);
        CT_THREADS(t) {
            if (t == 0) b.entry_count[chunk] = n_entries;
        }
    }
    CT_FOR(i, 2 * CT_WIDE_SUMS * 2 * n_candidates)((int64_t *)b.part_sums)[i] = 0;
    if (!ct_is_last_block(&b.counts->finished_blocks[CT_LAST_OF_COUNT_ENTRIES])) return;
    const uint64_t entries = ct_scan<uint64_t>(
        n_chunks, [&](uint64_t i) { return (uint64_t)b.entry_count[i]; },
        [&](uint64_t i, uint64_t before) { b.entry_offset[i] = before; });
    const uint64_t contacts = ct_scan<uint64_t>(
        n_candidates, [&](uint64_t c) { return (uint64_t)is_contact(b, c); },
        [&](uint64_t c, uint64_t before) { b.contact_offset[c] = before; });
    CT_THREADS(t) {
        if (t > 0) continue;
        b.entry_offset[n_chunks] = entries;
        b.contact_offset[n_candidates] = contacts;
    }
    CT_BARRIER();
    CT_THREADS(t) {
        if (t == 0) b.counts->entries = entries;
    }
    ct_lay_out_answer(b, contacts, [&](uint64_t i) { return entries_of_step(b, i); });
}

/* ---- entries ---- */

/* Writes the entries of each chunk in rising order of vertices, clears the sums and their pages, and sums forces and
 * moments over the entries. */
CT_KERNEL compact_gradient(const ct_answer_tables b) {
    if (ct_gpu_shortage(b.counts, &b.capacity)) return;
    const uint64_t n_chunks = b.counts->vertex_chunks;
    CT_EACH_BLOCK(chunk, n_chunks) {
        const vertex_range at = range_of_chunk(b, chunk);
        const uint64_t first_entry = b.entry_offset[chunk], last_entry = first_entry + b.entry_count[chunk];
        const bool any = first_entry < last_entry;
        uint32_t n_before = 0, total;
        CT_THREADS(t) {
            for (uint64_t v = at.first + t * THREAD_VERTICES; v < at.first + (t + 1) * THREAD_VERTICES && v < at.last;
                 v++)
                n_before += any && nonzero_sums(b, &at, v);
        }
        if (any) n_before = ct_block_prefix_sum(n_before, &total);
        CT_THREADS(t) {
            uint64_t entry = first_entry + n_before;
            for (uint64_t v = at.first + t * THREAD_VERTICES; v < at.first + (t + 1) * THREAD_VERTICES && v < at.last;
                 v++) {
                int64_t *sums = nonzero_sums(b, &at, v);
                if (!sums) continue;
                if (any) {
                    b.entry_vertices[entry] = (uint32_t)v;
                    for (int k = 0; k < 3; k++) b.entry_sums[3 * entry + k] = sums[k];
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
        ct_moments moments = {{0, 0, 0}, {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}};
        CT_THREADS(t) {
            for (uint64_t e = first_entry + t; e < last_entry; e += CT_BLOCK) {
                int32_t q[3];
                coords_of(&at, b.entry_vertices[e], q);
                ct_moments_add(&moments, q, b.entry_sums + 3 * e);
            }
        }
        CT_UNROLL
        for (int k = 0; k < CT_MOMENT_SUMS; k++)
            ct_add_wide_sum(((const ct_wide *)&moments)[k], &b.part_sums[at.part], k);
    }
}

/* dV/d(translation) of part 0 of a candidate, m^2. */
CT_DEVICE void force_on_part_0(const ct_answer_tables &b, uint64_t c, const ct_weight_units *units, double force[3]) {
    for (int k = 0; k < 3; k++) force[k] = ct_wide_to_double(ct_gpu_wide_sum(&b.part_sums[2 * c], k)) * units->of[k];
}

/* Writes an entry's numbers. i: index among the step's entries. */
CT_DEVICE void write_entry(const ct_entry_pointers *to, uint64_t i, uint32_t vertex, const int64_t sums[3],
                           const ct_weight_units *units, const ct_contact *contact, double pressure) {
    double g[3];
    ct_frame_gradient(units, sums, g);
    ct_write_entry(to, i, vertex, g, to->weights ? ct_frame_friction(contact, g) : 0, pressure);
}

/* With the contacts' normals known: writes the entries' arrays into the answer, and sums the friction weights and the
 * weighted positions, which give each contact's area and centre. */
CT_KERNEL finish_entries(const ct_answer_tables b) {
    if (ct_gpu_shortage(b.counts, &b.capacity)) return;
    const uint64_t n_chunks = b.counts->vertex_chunks;
    CT_EACH_BLOCK(chunk, n_chunks) {
        if (b.entry_count[chunk] == 0) continue;
        const vertex_range at = range_of_chunk(b, chunk);
        const ct_weight_units units = ct_frame_units(at.window);
        const double scale = ct_barycentre_scale(at.window);
        const ct_gpu_step_entries *step_entries = &b.step_entries[at.step - b.steps];
        const ct_entry_pointers to = ct_arrays_of_step(b, at.step, step_entries);
        double force[3];
        ct_contact contact;
        fill_volumes(b, at.candidate, &contact);
        force_on_part_0(b, at.candidate, &units, force);
        const int has_normal = ct_frame_normal(&contact, force, 0);
        const double pressure = -at.step->stiffness * contact.volume;
        const uint64_t first = b.entry_offset[chunk], last = first + b.entry_count[chunk];
        ct_barycentre barycentre = {{0, 0, 0}, {0, 0, 0}, 0, 0};
        CT_THREADS(t) {
            for (uint64_t e = first + t; e < last; e += CT_BLOCK) {
                int32_t q[3];
                coords_of(&at, b.entry_vertices[e], q);
                ct_barycentre_add(&barycentre, &contact, has_normal, scale, &units, q, b.entry_sums + 3 * e);
                write_entry(&to, e - step_entries->first, b.entry_vertices[e], b.entry_sums + 3 * e, &units, &contact,
                            pressure);
            }
        }
        CT_UNROLL
        for (int k = 0; k < CT_BARYCENTRE_SUMS; k++)
            ct_add_wide_sum(((const ct_wide *)&barycentre)[k], &b.part_sums[at.part], CT_MOMENT_SUMS + k);
    }
}

/* ---- contacts ---- */

CT_DEVICE ct_moments moments_of(const ct_gpu_part_sums *part) {
    ct_moments m;
    for (int k = 0; k < CT_MOMENT_SUMS; k++) ((ct_wide *)&m)[k] = ct_gpu_wide_sum(part, k);
    return m;
}

CT_DEVICE ct_barycentre barycentre_of(const ct_gpu_part_sums *part) {
    ct_barycentre c;
    for (int k = 0; k < CT_BARYCENTRE_SUMS; k++) ((ct_wide *)&c)[k] = ct_gpu_wide_sum(part, CT_MOMENT_SUMS + k);
    return c;
}

/* Writes candidate c if it is a contact. */
CT_DEVICE void write_contact(const ct_answer_tables &b, uint64_t c) {
    const uint64_t p = b.candidate_pair[c];
    const ct_gpu_pair *pair = &b.pairs[p];
    const ct_window *window = &b.plans[p].window;
    const ct_gpu_part_sums *parts = &b.part_sums[2 * c];
    ct_gpu_contact out;
    memset(&out, 0, sizeof out);
    ct_contact *contact = &out.contact;
    if (!fill_volumes(b, c, contact)) return;
    contact->inverted_volume = ct_frame_inverted_volume(window, b.inverted_length + 3 * c, b.span_count + 3 * c);
    out.candidate = (uint32_t)c;
    contact->index = (uint32_t)(b.contact_offset[c] - b.contact_offset[b.candidate_offset[p]]);
    for (uint64_t k = 0; k < 2; k++) {
        const uint64_t part = 2 * c + k;
        out.body[k] = pair->body[k];
        contact->count[k] =
            b.entry_offset[b.vertex_chunk_offset[part + 1]] - b.entry_offset[b.vertex_chunk_offset[part]];
    }
    if (b.steps[pair->step].want & CT_WANT_ENTRIES) {
        const ct_weight_units units = ct_frame_units(window);
        for (int k = 0; k < 2; k++) {
            const ct_gpu_body *body = b.bodies[pair->body[k]];
            double origin[3] = {0, 0, 0};
            for (int i = 0; i < 3; i++) origin[i] = body->about[i];
            if (b.turned) ct_turn_into_views(&b.turned[c], origin);
            const ct_moments moments = moments_of(&parts[k]);
            ct_moments_finish(&moments, window, &units, origin, contact->generalized_gradient[k]);
        }
        ct_frame_normal(contact, contact->generalized_gradient[0], 0);
        const ct_barycentre barycentres[2] = {barycentre_of(&parts[0]), barycentre_of(&parts[1])};
        ct_frame_finish(window, barycentres, contact);
    }
    b.out_contacts[b.contact_offset[c]] = out;
}

CT_DEVICE void write_step_totals(const ct_answer_tables &b, uint64_t i) {
    const ct_gpu_step *step = &b.steps[i];
    ct_gpu_step_totals totals;
    memset(&totals, 0, sizeof totals);
    const uint64_t first = b.row_offset[step->first_body], last = b.row_offset[step->first_body + step->n_bodies];
    const uint64_t first_contact = b.contact_offset[b.candidate_offset[first]];
    totals.pairs = last - first;
    totals.box_tests =
        ct_gpu_is_crowd(step) ? b.step_box_tests[i] : step->n_bodies * (uint64_t)(step->n_bodies - 1) / 2;
    totals.rays = b.ray_offset[3 * last] - b.ray_offset[3 * first];
    totals.fragments = b.step_fragments[i];
    totals.first_contact = first_contact;
    totals.n_contacts = b.contact_offset[b.candidate_offset[last]] - first_contact;
    totals.n_entries = b.step_entries[i].n;
    totals.arrays = b.step_entries[i].arrays;
    totals.refused = ~b.step_refused[i];
    if (totals.refused != CT_GPU_NONE)
        for (int k = 0; k < 2; k++) totals.body[k] = b.pairs[totals.refused].body[k];
    b.out_steps[i] = totals;
}

CT_KERNEL write_contacts(const ct_answer_tables b) {
    CT_THREADS(t) {
        if (t == 0 && CT_BLOCK_INDEX == 0) *(ct_gpu_counts *)b.answer = *b.counts;
    }
    if (ct_gpu_shortage(b.counts, &b.capacity)) return;
    ct_gpu_span *spans = (ct_gpu_span *)(b.answer + b.counts->first_span);
    CT_FOR(c, b.counts->candidates) write_contact(b, c);
    CT_FOR(i, b.n_steps) write_step_totals(b, i);
    CT_FOR(i, b.counts->spans) spans[i] = b.spans[i];
}

const ct_kernel_entry ct_answer_kernels[] = {CT_KERNEL_ENTRY(count_entries), CT_KERNEL_ENTRY(compact_gradient),
                                             CT_KERNEL_ENTRY(finish_entries), CT_KERNEL_ENTRY(write_contacts),
                                             CT_KERNELS_END};

unsigned ct_cuda_answer(const ct_answer_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(count_entries, grid, stream, *tables);
    n += CT_LAUNCH(compact_gradient, grid, stream, *tables);
    n += CT_LAUNCH(finish_entries, grid, stream, *tables);
    n += CT_LAUNCH(write_contacts, grid, stream, *tables);
    return n;
}
