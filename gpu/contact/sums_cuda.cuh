/* sums_cuda.cuh - the gradient's sums per vertex of a part (plan_cuda.cuh): claimed where a triangle may bound a span
 * (raster stage), added to (span stage) and read (contact stage).
 *
 * Sums have memory only where a triangle was met: a page holds the sums of CT_PAGE consecutive vertices, and the page
 * table has one word for each page that a part could have. Which candidate a span belongs to is known in the span
 * stage, so the raster stage claims a triangle's pages in every candidate of its pair.
 */
#ifndef CT_CUDA_SUMS_CUH
#define CT_CUDA_SUMS_CUH

#include "gpu/view/plan_cuda.cuh"

enum { CT_PAGE = 64, CT_CHUNK_PAGES = CT_VERTEX_CHUNK / CT_PAGE };
enum { CT_NO_PAGE = 0, CT_CLAIMING_PAGE = 1, CT_FIRST_PAGE = 2 };

/* All zero between batches. */
struct ct_sum_tables : ct_plan_tables {
    uint32_t *page_table; /* [CT_CHUNK_PAGES capacity.vertex_chunks] CT_FIRST_PAGE + index of the page */
    int64_t *page_sums;   /* [capacity.pages][CT_PAGE][3] */
};

/* The page table's word for a vertex of a part. */
CT_DEVICE uint32_t *ct_page_slot(const ct_sum_tables &b, uint64_t part, uint32_t vertex) {
    return &b.page_table[b.vertex_chunk_offset[part] * CT_CHUNK_PAGES + vertex / CT_PAGE];
}

/* Claims a page unless it has been claimed. A page beyond the capacity is counted all the same. */
CT_DEVICE void ct_claim_page(const ct_sum_tables &b, uint32_t *slot) {
    if (ct_peek(slot) != CT_NO_PAGE || atomicMax(slot, (uint32_t)CT_CLAIMING_PAGE) != CT_NO_PAGE) return;
    atomicExch(slot, (uint32_t)ct_append_index(&b.counts->pages) + CT_FIRST_PAGE);
}

/* Claims a page for each corner of a side's triangle, in all candidates of the side's pair. The sums of a body with
 * itself are divided between both parts (gpu/contact/sides_cuda.cuh), so either may have a page for each. */
CT_DEVICE void ct_claim_pages(const ct_sum_tables &b, uint64_t side, const uint32_t *corner) {
    const uint64_t p = side / 2, end = b.candidate_offset[p + 1];
    const bool has_both = ct_is_self_pair(&b.pairs[p]);
    for (uint64_t c = b.candidate_offset[p]; c < end; c++)
        for (int k = 0; k < 3; k++) {
            ct_claim_page(b, ct_page_slot(b, 2 * c + (side & 1), corner[k]));
            if (has_both) ct_claim_page(b, ct_page_slot(b, 2 * c + 1, corner[k]));
        }
}

/* A vertex's sums [3], on its page. */
CT_DEVICE int64_t *ct_vertex_sums(const ct_sum_tables &b, uint32_t page, uint64_t vertex) {
    return &b.page_sums[3 * ((uint64_t)(page - CT_FIRST_PAGE) * CT_PAGE + vertex % CT_PAGE)];
}

#endif
