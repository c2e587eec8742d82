/* patch.c - makes patches from binned triangles, one per triangle and band. */
#include "gpu/raster/patch.h"

bool ct_patches_add(ct_patches *patches, ct_budget *budget, const ct_window *window, const ct_bands *bands,
                    const ct_bin *bin, int w, uint32_t first, uint32_t end, uint32_t tile) {
    const ct_snapped_body *placed = bin->placed;
    const bool counts_before = placed->entry[w] == CT_INITIAL_COUNTED;
    size_t max_patches = patches->n + (bin->offset[end] - bin->offset[first]);
    if (max_patches * sizeof(ct_patch) > patches->memory.capacity &&
        !ct_buffer_reserve(&patches->memory, budget, max_patches * sizeof(ct_patch), patches->n * sizeof(ct_patch),
                           false))
        return false;
    ct_patch *p = (ct_patch *)patches->memory.data + patches->n;
    for (uint32_t band = first; band < end; band++) {
        int32_t row = (int32_t)(band - bands->first[w]) << bands->shift[w];
        for (uint32_t i = bin->offset[band]; i < bin->offset[band + 1]; i++) {
            const uint32_t *k = placed->triangles + 3 * (size_t)bin->entries[i];
            const int32_t *const q[3] = {placed->coords[k[0]], placed->coords[k[1]], placed->coords[k[2]]};
            if (!ct_make_patch(p, window, w, counts_before, q, row, row + (1 << bands->shift[w]))) continue;
            p->tag = placed->body << 31 | bin->entries[i];
            p->tile = tile;
            patches->samples += (uint64_t)(p->u1 - p->u0) * (uint64_t)(p->v1 - p->v0);
            p++;
        }
    }
    patches->n = (size_t)(p - (ct_patch *)patches->memory.data);
    return true;
}
