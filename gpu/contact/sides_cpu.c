/* sides_cpu.c - finds the connected pieces of a body's contact surface and the side of each (sides_k.h). */
#include "gpu/contact/sides_cpu.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/contact/sides.h"
#include "gpu/contact/sides_k.h"

static const uint32_t NO_PIECE = UINT32_MAX; /* of a vertex without a gradient */

struct force {
    ct_wide of[3]; /* in units of ct_weight_units */
};

struct split {
    const ct_self_surface *surface;
    const ct_weight_units *units;
    const ct_contact_sums *sums;
    uint32_t *piece_of; /* [vertices]; while pieces are joined, a vertex of the same piece, or the vertex itself */
    struct force *forces;
    uint32_t n_pieces;
    bool goes_on; /* a triangle has corners with a gradient, and others without one */
};

static bool load_gradient(const ct_contact_sums *sums, int part, uint32_t vertex, int64_t of_vertex[3]) {
    if (!sums->touched[part][vertex / CT_VERTEX_GROUP]) return false;
    for (int w = 0; w < 3; w++) of_vertex[w] = sums->gradient[part][w][vertex];
    return of_vertex[0] | of_vertex[1] | of_vertex[2];
}

/* ---- pieces ---- */

/* The first vertex of a vertex's piece, as far as pieces are joined. */
static uint32_t first_of(uint32_t *piece_of, uint32_t vertex) {
    while (piece_of[vertex] != vertex) vertex = piece_of[vertex] = piece_of[piece_of[vertex]];
    return vertex;
}

static void join_corners(struct split *s, const uint32_t corner[3]) {
    uint32_t joined = NO_PIECE, n = 0;
    for (int k = 0; k < 3; k++) {
        if (s->piece_of[corner[k]] == NO_PIECE) continue;
        uint32_t first = first_of(s->piece_of, corner[k]);
        n++;
        if (joined == NO_PIECE) joined = first;
        if (first < joined) {
            const uint32_t other = joined;
            joined = first;
            first = other;
        }
        s->piece_of[first] = joined;
    }
    s->goes_on = s->goes_on || n == 1 || n == 2;
}

/* False: cancelled. */
static bool find_pieces(struct split *s) {
    const ct_self_surface *surface = s->surface;
    int64_t gradient[3];
    for (uint32_t v = 0; v < surface->n_vertices; v++)
        s->piece_of[v] = load_gradient(s->sums, 0, v, gradient) ? v : NO_PIECE;
    for (uint32_t r = 0; r < surface->n_runs; r++)
        for (uint32_t t = surface->runs[r].first; t < surface->runs[r].end; t++) {
            if (CT_POLL_EVERY(t + 1, 8192) && ct_is_cancelled()) return false;
            join_corners(s, surface->triangles + 3 * (size_t)t);
        }
    for (uint32_t v = 0; v < surface->n_vertices; v++) {
        if (s->piece_of[v] == NO_PIECE) continue;
        /* A piece's first vertex comes before its others, which therefore find the piece's number there. */
        const uint32_t before = s->piece_of[v] == v ? s->n_pieces++ : s->piece_of[s->piece_of[v]];
        s->piece_of[v] = before;
    }
    return true;
}

static void add_forces(struct split *s) {
    memset(s->forces, 0, s->n_pieces * sizeof *s->forces);
    for (uint32_t v = 0; v < s->surface->n_vertices; v++) {
        int64_t gradient[3];
        if (s->piece_of[v] == NO_PIECE) continue;
        load_gradient(s->sums, 0, v, gradient);
        for (int w = 0; w < 3; w++) s->forces[s->piece_of[v]].of[w] += gradient[w];
    }
}

/* ---- sides ---- */

/* Force of piece i, or of vertex i, in m^2. False: it is 0. */
static bool find_force(const struct split *s, bool by_vertex, uint32_t i, double force[3]) {
    int64_t gradient[3];
    if (by_vertex) {
        if (!load_gradient(s->sums, 0, i, gradient)) return false;
        ct_frame_gradient(s->units, gradient, force);
        return true;
    }
    bool has_force = false;
    for (int w = 0; w < 3; w++) {
        const ct_wide sum = s->forces[i].of[w];
        force[w] = ct_wide_to_double(sum) * s->units->of[w];
        has_force = has_force || sum > s->surface->rounding || sum < -s->surface->rounding;
    }
    return has_force;
}

/* False: no piece, or vertex, has a force. */
static bool find_axis(const struct split *s, bool by_vertex, double axis[3]) {
    const uint32_t n = by_vertex ? s->surface->n_vertices : s->n_pieces;
    double largest = 0, force[3];
    for (uint32_t i = 0; i < n; i++)
        if (find_force(s, by_vertex, i, force))
            for (int w = 0; w < 3; w++) largest = fmax(largest, fabs(force[w]));
    if (largest == 0) return false;
    const double scale = ct_product_scale(largest);
    ct_force_products products;
    memset(&products, 0, sizeof products);
    for (uint32_t i = 0; i < n; i++)
        if (find_force(s, by_vertex, i, force)) ct_force_products_add(&products, scale, force);
    return ct_force_axis(&products, axis);
}

/* The vertex is on the axis's positive side. */
static bool is_ahead(const struct split *s, bool by_vertex, const double axis[3], uint32_t vertex) {
    double force[3];
    if (s->piece_of[vertex] == NO_PIECE) return false;
    return find_force(s, by_vertex, by_vertex ? vertex : s->piece_of[vertex], force) && ct_side_of(axis, force);
}

/* Turns the axis around if the normal that follows from it has a negative largest component. */
static void orient_axis(const struct split *s, bool by_vertex, double axis[3]) {
    struct force ahead = {{0, 0, 0}};
    for (uint32_t v = 0; v < s->surface->n_vertices; v++) {
        int64_t gradient[3];
        if (!is_ahead(s, by_vertex, axis, v)) continue;
        load_gradient(s->sums, 0, v, gradient);
        for (int w = 0; w < 3; w++) ahead.of[w] += gradient[w];
    }
    double force[3], largest = 0;
    for (int w = 0; w < 3; w++) {
        force[w] = ct_wide_to_double(ahead.of[w]) * s->units->of[w];
        if (fabs(force[w]) > fabs(largest)) largest = force[w];
    }
    for (int w = 0; w < 3 && largest < 0; w++) axis[w] = -axis[w];
}

static void move_part_1(const struct split *s, bool by_vertex, const double axis[3]) {
    for (uint32_t v = 0; v < s->surface->n_vertices; v++) {
        if (!is_ahead(s, by_vertex, axis, v)) continue;
        s->sums->touched[1][v / CT_VERTEX_GROUP] = 1;
        for (int w = 0; w < 3; w++) {
            s->sums->gradient[1][w][v] = s->sums->gradient[0][w][v];
            s->sums->gradient[0][w][v] = 0;
        }
    }
}

bool ct_split_sides(const ct_self_surface *surface, const ct_weight_units *units, const ct_contact_sums *sums,
                    ct_side_scratch *scratch, ct_budget *budget) {
    struct split s = {.surface = surface, .units = units, .sums = sums};
    if (!ct_buffer_reserve(&scratch->pieces, budget, surface->n_vertices * sizeof *s.piece_of, 0, false)) return false;
    s.piece_of = scratch->pieces.data;
    if (!find_pieces(&s)) return false;
    if (!ct_buffer_reserve(&scratch->forces, budget, s.n_pieces * sizeof *s.forces, 0, false)) return false;
    s.forces = scratch->forces.data;
    if (s.n_pieces == 0) return true;
    add_forces(&s);
    if (ct_is_cancelled()) return false;
    double axis[3];
    bool by_vertex = false;
    if (!find_axis(&s, by_vertex, axis)) {
        by_vertex = true;
        if (!s.goes_on || !find_axis(&s, by_vertex, axis)) return true;
    }
    orient_axis(&s, by_vertex, axis);
    move_part_1(&s, by_vertex, axis);
    return true;
}

int ct_side_of_triangle(const uint32_t corner[3], const ct_contact_sums *sums) {
    int balance = 0;
    int64_t gradient[3];
    for (int k = 0; k < 3; k++)
        balance += load_gradient(sums, 1, corner[k], gradient) - load_gradient(sums, 0, corner[k], gradient);
    return balance > 0;
}

/* ---- from rows of sums (sides.h) ---- */

/* Cuts memory into the planes of both parts, each of n elements, and their flags. */
static void lay_out(void *memory, size_t n, ct_contact_sums *sums) {
    int64_t *at = memory;
    for (int part = 0; part < 2; part++)
        for (int w = 0; w < 3; w++, at += n) sums->gradient[part][w] = at;
    for (int part = 0; part < 2; part++) sums->touched[part] = (uint8_t *)at + (size_t)part * (n / CT_VERTEX_GROUP);
}

bool ct_find_part_1(const ct_side_rows *rows, const ct_weight_units *units, uint8_t *is_part_1) {
    const size_t n = ((size_t)rows->n_vertices + CT_VERTEX_GROUP) / CT_VERTEX_GROUP * CT_VERTEX_GROUP;
    void *memory = calloc(n, 6 * sizeof(int64_t) + 1);
    if (!memory) return false;
    ct_contact_sums sums = {.length = {0}};
    lay_out(memory, n, &sums);
    for (uint32_t v = 0; v < rows->n_vertices; v++) {
        for (int w = 0; w < 3; w++) sums.gradient[0][w][v] = rows->sums[v][w];
        sums.touched[0][v / CT_VERTEX_GROUP] = 1;
    }
    const ct_triangle_run all = {0, rows->n_triangles};
    const ct_self_surface surface = {rows->n_vertices, rows->triangles, &all, 1, rows->rounding};
    ct_budget budget = {.limit = 0};
    ct_side_scratch scratch = {.pieces = {0}};
    const bool ok = ct_split_sides(&surface, units, &sums, &scratch, &budget);
    for (uint32_t v = 0; v < rows->n_vertices && ok; v++)
        is_part_1[v] = (sums.gradient[1][0][v] | sums.gradient[1][1][v] | sums.gradient[1][2][v]) != 0;
    ct_buffer_free(&scratch.pieces, &budget);
    ct_buffer_free(&scratch.forces, &budget);
    free(memory);
    return ok;
}
