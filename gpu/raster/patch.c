/* patch.c - makes patches from binned triangles, one per triangle and bin. */
#include "gpu/raster/patch.h"

bool ct_patches_add(ct_patches *patches, ct_budget *budget, const ct_window *window, const ct_bin_plan *plan,
                    const ct_binned_chunk *chunk, uint32_t first, uint32_t end, uint32_t region) {
    const ct_snapped_body *snapped = chunk->snapped;
    const size_t max_patches = patches->n + (chunk->offset[end] - chunk->offset[first]);
    if (max_patches * sizeof(ct_patch) > patches->memory.capacity &&
        !ct_buffer_reserve(&patches->memory, budget, max_patches * sizeof(ct_patch), patches->n * sizeof(ct_patch),
                           false))
        return false;
    ct_patch *p = (ct_patch *)patches->memory.data + patches->n;
    for (uint32_t number = first; number < end; number++) {
        const ct_bin bin = ct_bin_at(plan, number);
        const int w = bin.of->view;
        const bool is_counted = snapped->initial[w] == CT_INITIAL_COUNTED;
        for (uint32_t i = chunk->offset[number]; i < chunk->offset[number + 1]; i++) {
            const uint32_t *k = snapped->triangles + 3 * (size_t)chunk->entries[i];
            const int32_t *const q[3] = {snapped->coords[k[0]], snapped->coords[k[1]], snapped->coords[k[2]]};
            if (!ct_make_patch(p, window, w, is_counted, q, bin.first_row, bin.first_row + bin.rows)) continue;
            p->tag = snapped->body << 31 | chunk->entries[i];
            p->region = region;
            patches->samples += (uint64_t)(p->u1 - p->u0) * (uint64_t)(p->v1 - p->v0);
            p++;
        }
    }
    patches->n = (size_t)(p - (ct_patch *)patches->memory.data);
    return true;
}
