/* bands.c - how a view's rows are cut into bands, and what holds the triangles of each. */
#include "gpu/raster/raster_cpu.h"

ct_bands ct_bands_plan(const ct_window *window, int32_t samples) {
    ct_bands bands = {0};
    for (int w = 0; w < 3; w++) {
        int32_t columns = window->axis[ct_view_u(w)].n, rows = window->axis[ct_view_v(w)].n;
        int32_t shift = 0;
        while ((2 << shift) * (int64_t)columns <= samples && (1 << shift) < rows) shift++;
        bands.shift[w] = shift;
        bands.count[w] = (uint32_t)((rows + (1 << shift) - 1) >> shift);
        bands.first[w] = bands.total;
        bands.total += bands.count[w];
    }
    return bands;
}

void ct_set_band_extent(ct_ray_lists *rays, const ct_window *window, const ct_bands *bands, uint32_t band,
                        const ct_bin *bins, size_t n_bins) {
    int w = band >= bands->first[2] ? 2 : band >= bands->first[1] ? 1 : 0;
    int32_t n_rows = window->axis[ct_view_v(w)].n;
    rays->view = w;
    rays->columns = window->axis[ct_view_u(w)].n;
    rays->first_row = (int32_t)(band - bands->first[w]) << bands->shift[w];
    rays->rows = 1 << bands->shift[w];
    if (rays->rows > n_rows - rays->first_row) rays->rows = n_rows - rays->first_row;
    rays->entry[0] = rays->entry[1] = CT_INITIAL_ZERO;
    for (size_t i = 0; i < n_bins; i++)
        rays->entry[bins[i].placed->body] = (ct_initial_winding)bins[i].placed->entry[w];
    rays->first_body = n_bins ? (int32_t)bins[0].placed->body : 0;
}

static void free_crossings(struct ct_crossing_memory memory[3], ct_budget *budget) {
    for (int w = 0; w < 3; w++) {
        ct_buffer_free(&memory[w].front, budget);
        ct_buffer_free(&memory[w].back, budget);
        ct_buffer_free(&memory[w].where, budget);
    }
}

void ct_bin_free(ct_bin *bin, ct_budget *budget) {
    ct_buffer_free(&bin->offsets, budget);
    ct_buffer_free(&bin->entry_memory, budget);
    free_crossings(bin->crossing_memory, budget);
}

void ct_bin_scratch_free(ct_bin_scratch *scratch, ct_budget *budget) {
    ct_buffer_free(&scratch->kept_memory, budget);
    ct_buffer_free(&scratch->listed, budget);
    free_crossings(scratch->crossed, budget);
}
