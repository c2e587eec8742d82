/* patch.h - makes lists of patches (patch_k.h) from triangles that the CPU has binned, for the OpenGL rasteriser. */
#ifndef CT_PATCH_H
#define CT_PATCH_H

#include "gpu/raster/patch_k.h"
#include "gpu/raster/raster_cpu.h"

/* A growing list of patches. To reuse its memory, set n and samples to 0. */
typedef struct ct_patches {
    ct_buffer memory; /* ct_patch [n] */
    size_t n;
    uint64_t samples; /* in all their rectangles: an upper bound of the number of fragments */
} ct_patches;

/* Appends the patches of a chunk's entries in bins [first, end) of one view, which region number `region` of a drawing
 * shows. The plan is uniform and one bin across; the chunk holds no crossings. False: out of memory. */
bool ct_patches_add(ct_patches *patches, ct_budget *budget, const ct_window *window, const ct_bin_plan *plan,
                    const ct_binned_chunk *chunk, uint32_t first, uint32_t end, uint32_t region);

#endif
