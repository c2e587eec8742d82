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
        bands.n[w] = (int16_t)window->axis[w].n;
        bands.fine[w] = window->axis[w].shift <= 23;
    }
    return bands;
}

void ct_bin_free(ct_bin *bin, ct_budget *budget) {
    ct_buffer_free(&bin->lists, budget);
    ct_buffer_free(&bin->offsets, budget);
    ct_buffer_free(&bin->memory, budget);
}
