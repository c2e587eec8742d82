/* sides_cuda.cu - moves the sums of a body with itself between the two parts of its contact. */
#include "gpu/contact/sides_cuda.cuh"

#include "gpu/device/cuda/collective.cuh"

/* The sums of a vertex in a part, or NULL: it has none. */
CT_DEVICE int64_t *sums_of(const ct_answer_tables &b, uint64_t part, uint32_t vertex) {
    const uint32_t page = *ct_page_slot(b, part, vertex);
    return page == CT_NO_PAGE ? NULL : ct_vertex_sums(b, page, vertex);
}

CT_DEVICE bool has_sums(const ct_answer_tables &b, uint64_t part, uint32_t vertex) {
    const int64_t *sums = sums_of(b, part, vertex);
    return sums && (sums[0] | sums[1] | sums[2]);
}

/* The body whose row this is. */
CT_DEVICE const ct_gpu_self *owner_of_row(const ct_side_tables &sides, uint64_t row) {
    return &sides.list[ct_find_owner(sides.n, row, [&](uint64_t i) { return sides.list[i].first_row; })];
}

CT_KERNEL gather_sides(const ct_answer_tables b, const ct_side_tables sides) {
    if (ct_gpu_raster_shortage(b.counts, &b.capacity)) return;
    CT_FOR(row, sides.n_rows) {
        const ct_gpu_self *self = owner_of_row(sides, row);
        const int64_t *sums = sums_of(b, 2 * (uint64_t)self->candidate, (uint32_t)(row - self->first_row));
        for (int w = 0; w < 3; w++) sides.sums[3 * row + (uint64_t)w] = sums ? sums[w] : 0;
    }
    CT_FOR(i, sides.n * sides.fact_words) {
        const uint64_t of = i / sides.fact_words, word = i % sides.fact_words;
        const char *facts = (const char *)sides.facts + sides.list[of].pair * sides.fact_stride;
        sides.own_facts[of * ct_own_fact_words(&sides) + word] = ((const uint32_t *)facts)[word];
    }
}

CT_KERNEL split_sides(const ct_answer_tables b, const ct_side_tables sides) {
    if (ct_gpu_raster_shortage(b.counts, &b.capacity)) return;
    CT_FOR(row, sides.n_rows) {
        if (!sides.is_part_1[row]) continue;
        const ct_gpu_self *self = owner_of_row(sides, row);
        const uint64_t part = 2 * (uint64_t)self->candidate;
        const uint32_t vertex = (uint32_t)(row - self->first_row);
        int64_t *from = sums_of(b, part, vertex), *to = sums_of(b, part + 1, vertex); /* both claimed */
        for (int w = 0; w < 3; w++) {
            to[w] = from[w];
            from[w] = 0;
        }
    }
}

/* The part that most corners of the lower end's triangle are in. */
CT_KERNEL find_lower_sides(const ct_answer_tables b) {
    if (ct_gpu_raster_shortage(b.counts, &b.capacity)) return;
    const uint64_t n = b.counts->spans < b.capacity.spans ? b.counts->spans : b.capacity.spans;
    CT_FOR(i, n) {
        ct_gpu_span *span = &b.spans[i];
        const ct_gpu_pair *pair = &b.pairs[b.candidate_pair[span->candidate]];
        if (!ct_is_self_pair(pair)) continue;
        const uint32_t *corner = b.bodies[pair->body[0]]->triangles + 3 * (uint64_t)span->span.lower_body;
        const uint64_t part = 2 * (uint64_t)span->candidate;
        int balance = 0;
        for (int k = 0; k < 3; k++)
            balance += (int)has_sums(b, part + 1, corner[k]) - (int)has_sums(b, part, corner[k]);
        span->span.lower_body = balance > 0;
    }
}

const ct_kernel_entry ct_side_kernels[] = {CT_KERNEL_ENTRY(gather_sides), CT_KERNEL_ENTRY(split_sides),
                                           CT_KERNEL_ENTRY(find_lower_sides), CT_KERNELS_END};

unsigned ct_cuda_gather_sides(const ct_answer_tables *tables, const ct_side_tables *sides, unsigned grid,
                              cudaStream_t stream) {
    return CT_LAUNCH(gather_sides, grid, stream, *tables, *sides);
}

unsigned ct_cuda_split_sides(const ct_answer_tables *tables, const ct_side_tables *sides, unsigned grid,
                             cudaStream_t stream) {
    const unsigned n = CT_LAUNCH(split_sides, grid, stream, *tables, *sides);
    return n + CT_LAUNCH(find_lower_sides, grid, stream, *tables);
}
