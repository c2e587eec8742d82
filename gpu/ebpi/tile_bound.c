/* tile_bound.c - tiles of whole pixels, and the memory of the kernels that measure tiles. */
#include "gpu/ebpi/tile_cpu.h"

void ct_ebpi_scratch_free(ct_ebpi_scratch *scratch, ct_budget *budget) {
    ct_buffer_free(&scratch->faces, budget);
    ct_buffer_free(&scratch->intervals, budget);
    ct_buffer_free(&scratch->slots, budget);
    ct_buffer_free(&scratch->records, budget);
    ct_buffer_free(&scratch->tags, budget);
    ct_buffer_free(&scratch->parts, budget);
}

bool ct_ebpi_is_under_both(const ct_ebpi_view *view, int32_t column, int32_t row) {
    const size_t pixels = (size_t)view->columns * (size_t)view->rows;
    const size_t pixel = (size_t)row * (size_t)view->columns + (size_t)column;
    const uint32_t second = view->next[0][(view->parts[0] - 1) * pixels + pixel]; /* behind body 0's */
    return view->first[pixel] < second && second < view->first[pixel + 1];
}

ct_ebpi_tile ct_ebpi_pixel_tile(const ct_ebpi_view *view, int32_t column, int32_t row) {
    const ct_ebpi_rect rect = ct_ebpi_pixel_rect(view, column, row);
    const size_t pixel = (size_t)row * (size_t)view->columns + (size_t)column;
    return (ct_ebpi_tile){.faces = view->faces + view->first[pixel],
                          .n_faces = view->first[pixel + 1] - view->first[pixel],
                          .u = rect.u0,
                          .v = rect.v0,
                          .view = (uint8_t)view->axis,
                          .shift_u = (uint8_t)(view->pixel_shift + view->pitch_shift[0]),
                          .shift_v = (uint8_t)(view->pixel_shift + view->pitch_shift[1])};
}
