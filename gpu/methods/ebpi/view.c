/* view.c - plans the pixels of a view, and where the lists of their faces lie. */
#include "gpu/methods/ebpi/view.h"

#include "gpu/base/arena.h"
#include "gpu/methods/ebpi/tile_cpu.h"

ct_ebpi_view ct_ebpi_view_plan(const ct_window *window, int axis, int32_t most) {
    ct_ebpi_view view = {.axis = axis, .u = ct_view_u(axis), .v = ct_view_v(axis)};
    const ct_lattice *u = &window->axis[view.u], *v = &window->axis[view.v];
    const int32_t longer = u->n > v->n ? u->n : v->n;
    view.lo = window->axis[axis].lo - 1;
    view.hi = window->axis[axis].hi + 1;
    view.pitch_shift[0] = u->shift;
    view.pitch_shift[1] = v->shift;
    while (((longer - 1) >> view.pixel_shift) + 1 > most) view.pixel_shift++;
    view.columns = ((u->n - 1) >> view.pixel_shift) + 1;
    view.rows = ((v->n - 1) >> view.pixel_shift) + 1;
    return view;
}

ct_ebpi_rect ct_ebpi_pixel_rect(const ct_ebpi_view *view, int32_t column, int32_t row) {
    const int u = view->pixel_shift + view->pitch_shift[0], v = view->pixel_shift + view->pitch_shift[1];
    return (ct_ebpi_rect){column << u, (column + 1) << u, row << v, (row + 1) << v};
}

bool ct_ebpi_face_meets(const ct_ebpi_view *view, const int32_t *const corner[3], const ct_ebpi_rect *rect) {
    return ct_ebpi_triangle_meets(corner[0], corner[1], corner[2], view->u, view->v, rect);
}

/* ---- lists ---- */

/* A part is large enough to be worth the counters of all pixels. */
enum { PART_TRIANGLES = 1 << 15 };

bool ct_ebpi_view_begin(ct_ebpi_view *view, const ct_ebpi_body body[2], ct_arena *arena, ct_budget *budget) {
    const size_t pixels = (size_t)view->columns * (size_t)view->rows;
    view->body = body;
    view->first = ct_arena_alloc(arena, budget, (pixels + 1) * sizeof *view->first);
    for (int b = 0; b < 2; b++) {
        const uint32_t parts = (body[b].n_triangles + PART_TRIANGLES - 1) / PART_TRIANGLES;
        view->parts[b] = parts < CT_EBPI_MOST_PARTS ? parts : CT_EBPI_MOST_PARTS;
        view->next[b] = ct_arena_alloc(arena, budget, view->parts[b] * pixels * sizeof *view->next[b]);
    }
    return view->first && view->next[0] && view->next[1];
}

bool ct_ebpi_view_place(ct_ebpi_view *view, ct_arena *arena, ct_budget *budget) {
    const size_t pixels = (size_t)view->columns * (size_t)view->rows;
    uint64_t n = 0;
    for (size_t p = 0; p < pixels; p++) {
        view->first[p] = (uint32_t)n;
        for (int b = 0; b < 2; b++)
            for (uint32_t part = 0; part < view->parts[b]; part++) {
                uint32_t *next = &view->next[b][part * pixels + p];
                const uint32_t count = *next;
                *next = (uint32_t)n;
                n += count;
            }
    }
    if (n > UINT32_MAX) return false;
    view->first[pixels] = (uint32_t)n;
    view->faces = ct_arena_alloc(arena, budget, n ? n * sizeof *view->faces : 1);
    return view->faces != NULL;
}

/* ---- tiles of whole pixels, and the memory of the kernels that measure tiles ---- */

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
