/* cast.h - bodies given directly in lattice coordinates, and the raster stage run over all bins of a window: for the
 * tests of rasterising. */
#ifndef CAST_H
#define CAST_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/methods/ldi/raster_cpu.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

struct cast_body {
    ct_coords *coords;
    ct_cells *cells;
    struct shape shape; /* for its triangles */
};

/* A fragment and where it is. */
struct cast_fragment {
    int32_t view, row, column;
    ct_fragment f;
};

struct cast {
    struct cast_fragment *fragments; /* in order of view, row, column, tag */
    size_t n;
    int32_t (*winding[3])[2]; /* per view [rows][columns]; 0 where none were counted */
    uint8_t initial[2][3];    /* per body and view, see ct_snapped_body */
};

/* One instruction set's kernels. */
struct cast_set {
    const ct_bin_cpu *bin;
    const ct_raster_cpu *raster;
};
static const struct cast_set cast_sets[] = {{&ct_bin_cpu_base, &ct_raster_cpu_base},
#ifdef __x86_64__
                                            {&ct_bin_cpu_avx2, &ct_raster_cpu_avx2}
#endif
};

/* The number of cast_sets that this CPU supports. */
static inline int cast_n_sets(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) return 2;
#endif
    return 1;
}

struct cast_how {
    const struct cast_set *set;
    int32_t bin_samples;
    uint32_t chunk;      /* triangles per chunk */
    size_t limit;        /* bytes of scratch, 0: none */
    uint32_t first;      /* the body rasterised first */
    bool entries;        /* all triangles are entries of bins: no crossings */
    int32_t bin_columns; /* 0: one bin across */
};

/* Samples of pitch 2^shift; lo and hi beyond every coordinate, so that all crossings become fragments. */
static inline ct_window cast_window(const int32_t n[3], const int32_t shift[3]) {
    ct_window window;
    for (int k = 0; k < 3; k++)
        window.axis[k] = (ct_lattice){0, ldexp(1, shift[k]), 1, 1, shift[k], n[k], -(1 << 29), 1 << 29, n[k]};
    return window;
}

static inline struct cast_body cast_body_of(struct shape shape) {
    struct cast_body body = {calloc(shape.n_vertices, sizeof(ct_coords)), calloc(shape.n_vertices, sizeof(ct_cells)),
                             shape};
    return body;
}

static inline void cast_body_free(struct cast_body *body) {
    free(body->coords);
    free(body->cells);
    shape_free(&body->shape);
}

static inline void cast_fill_cells(const ct_window *window, struct cast_body *body) {
    for (uint32_t v = 0; v < body->shape.n_vertices; v++) {
        body->cells[v] = 0;
        for (int k = 0; k < 3; k++) {
            const ct_lattice *a = &window->axis[k];
            int32_t q = body->coords[v][k];
            ct_cells cell = (ct_cells)ct_samples_below(q, a->shift, a->n);
            if (q < a->lo) cell |= CT_CELL_BEFORE;
            if (q > a->hi) cell |= CT_CELL_AFTER;
            body->cells[v] |= cell << (16 * k);
        }
    }
}

/* By the vertices themselves. */
static inline ct_initial_winding cast_initial(const struct cast_body *body, int w) {
    bool before = false, after = false;
    for (uint32_t v = 0; v < body->shape.n_vertices; v++) {
        before = before || body->cells[v] >> (16 * w) & CT_CELL_BEFORE;
        after = after || body->cells[v] >> (16 * w) & CT_CELL_AFTER;
    }
    return !before ? CT_INITIAL_ZERO : !after ? CT_INITIAL_FROM_BALANCE : CT_INITIAL_COUNTED;
}

static inline int cast_order(const void *x, const void *y) {
    const struct cast_fragment *a = x, *b = y;
    if (a->view != b->view) return a->view < b->view ? -1 : 1;
    if (a->row != b->row) return a->row < b->row ? -1 : 1;
    if (a->column != b->column) return a->column < b->column ? -1 : 1;
    return (a->f.tag > b->f.tag) - (a->f.tag < b->f.tag);
}

/* False: out of memory, and *out is empty. Free with cast_free. */
static inline bool cast_run(const ct_window *window, struct cast_body *bodies, uint32_t n_bodies,
                            const struct cast_how *how, struct cast *out) {
    memset(out, 0, sizeof *out);
    ct_budget budget = {.limit = how->limit};
    ct_binned_tile tiles[3];
    const ct_bin_plan plan =
        ct_bin_plan_views(window, how->bin_samples, how->bin_columns ? how->bin_columns : 8192, tiles);
    ct_snapped_body snapped[2];
    ct_binned_chunk chunks[400];
    ct_bin_scratch scratch;
    memset(&scratch, 0, sizeof scratch);
    size_t n_chunks = 0, capacity = 0;
    memset(chunks, 0, sizeof chunks);
    bool ok = true;
    for (uint32_t i = 0; i < n_bodies; i++) {
        uint32_t b = n_bodies == 2 && how->first ? 1 - i : i;
        cast_fill_cells(window, &bodies[b]);
        const struct shape *s = &bodies[b].shape;
        snapped[b] = (ct_snapped_body){.coords = (const ct_coords *)bodies[b].coords,
                                       .cells = bodies[b].cells,
                                       .triangles = s->triangles,
                                       .n_triangles = s->n_triangles,
                                       .body = b};
        for (int w = 0; w < 3; w++) out->initial[b][w] = snapped[b].initial[w] = (uint8_t)cast_initial(&bodies[b], w);
        for (uint32_t t = 0; ok && t < s->n_triangles; t += how->chunk) {
            uint32_t end = t + how->chunk < s->n_triangles ? t + how->chunk : s->n_triangles;
            assert_true(n_chunks < 400);
            ok = how->set->bin->cull(&scratch, &budget, &snapped[b], &(ct_triangle_run){t, end}, 1) &&
                 how->set->bin->bin(&chunks[n_chunks++], &scratch, &budget, &snapped[b], window, &plan, !how->entries);
        }
    }
    ct_ray_lists rays;
    memset(&rays, 0, sizeof rays);
    for (int w = 0; w < 3; w++)
        out->winding[w] = calloc((size_t)window->axis[ct_view_u(w)].n * (size_t)window->axis[ct_view_v(w)].n, 8);
    for (uint32_t bin = 0; ok && bin < plan.n_bins; bin++) {
        if (!how->set->raster->raster(&rays, &budget, window, &plan, bin, chunks, n_chunks)) {
            ok = false;
            break;
        }
        if (out->n + rays.n_fragments > capacity) {
            capacity = 2 * (out->n + rays.n_fragments);
            out->fragments = realloc(out->fragments, capacity * sizeof *out->fragments);
        }
        size_t before = out->n;
        const ct_bin *b = &rays.bin;
        for (int32_t row = 0; row < b->rows; row++)
            for (int32_t column = 0; column < b->columns; column++) {
                size_t ray = (size_t)row * (size_t)b->columns + (size_t)column;
                if (rays.winding)
                    memcpy(out->winding[rays.view][(size_t)(b->first_row + row) * (size_t)b->of->tile.n_u +
                                                   (size_t)(b->first_column + column)],
                           rays.winding[ray], 8);
                for (uint32_t i = rays.head[ray]; i != CT_END; i = rays.fragments[i].next) {
                    assert_true(out->n - before < rays.n_fragments);
                    out->fragments[out->n++] = (struct cast_fragment){rays.view, b->first_row + row,
                                                                      b->first_column + column, rays.fragments[i].f};
                }
            }
        assert_int_equal(out->n - before, rays.n_fragments);
    }
    if (ok && out->n) qsort(out->fragments, out->n, sizeof *out->fragments, cast_order);
    for (size_t i = 0; i < n_chunks; i++) ct_binned_chunk_free(&chunks[i], &budget);
    ct_bin_scratch_free(&scratch, &budget);
    ct_buffer_free(&rays.head_memory, &budget);
    ct_buffer_free(&rays.winding_memory, &budget);
    ct_buffer_free(&rays.fragment_memory, &budget);
    assert_int_equal(budget.used, 0);
    return ok;
}

static inline void cast_free(struct cast *cast) {
    free(cast->fragments);
    for (int w = 0; w < 3; w++) free(cast->winding[w]);
    memset(cast, 0, sizeof *cast);
}

static inline void cast_assert_same(const ct_window *window, const struct cast *a, const struct cast *b) {
    assert_int_equal(a->n, b->n);
    if (a->n) assert_memory_equal(a->fragments, b->fragments, a->n * sizeof *a->fragments);
    for (int w = 0; w < 3; w++)
        assert_memory_equal(a->winding[w], b->winding[w],
                            (size_t)window->axis[ct_view_u(w)].n * (size_t)window->axis[ct_view_v(w)].n * 8);
}

#endif
