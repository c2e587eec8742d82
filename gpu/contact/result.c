/* result.c - allocates results, fills their arrays of entries, and lets their frames follow those before. */
#include "gpu/contact/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/arena.h"
#include "gpu/base/fail.h"
#include "gpu/base/vec.h"

enum { ANY_ARRAY = CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES };

bool ct_entry_arrays_new(ct_entry_arrays *arrays, uint32_t want, uint64_t n) {
    const size_t rows = n ? n : 1; /* malloc(0) may return NULL, which would look like a failure */
    bool ok = true;
    memset(arrays, 0, sizeof *arrays);
    if (want & ANY_ARRAY) ok = (arrays->vertices = malloc(rows * sizeof *arrays->vertices));
    if (want & CT_WANT_GRADIENT) ok = ok && (arrays->gradient = malloc(rows * 3 * sizeof *arrays->gradient));
    if (want & CT_WANT_FRICTION) ok = ok && (arrays->weights = malloc(rows * sizeof *arrays->weights));
    if (want & CT_WANT_FORCES) ok = ok && (arrays->forces = malloc(rows * 3 * sizeof *arrays->forces));
    if (!ok) ct_entry_arrays_free(arrays);
    return ok;
}

void ct_entry_arrays_free(ct_entry_arrays *arrays) {
    free(arrays->vertices);
    free(arrays->gradient);
    free(arrays->weights);
    free(arrays->forces);
    memset(arrays, 0, sizeof *arrays);
}

bool ct_entry_arrays_in(ct_arena *arena, ct_budget *budget, ct_entry_arrays *arrays, uint32_t want, uint64_t n) {
    bool ok = true;
    memset(arrays, 0, sizeof *arrays);
    if (want & ANY_ARRAY) ok = (arrays->vertices = ct_arena_alloc(arena, budget, n * sizeof *arrays->vertices));
    if (want & CT_WANT_GRADIENT)
        ok = ok && (arrays->gradient = ct_arena_alloc(arena, budget, n * 3 * sizeof *arrays->gradient));
    if (want & CT_WANT_FRICTION)
        ok = ok && (arrays->weights = ct_arena_alloc(arena, budget, n * sizeof *arrays->weights));
    if (want & CT_WANT_FORCES)
        ok = ok && (arrays->forces = ct_arena_alloc(arena, budget, n * 3 * sizeof *arrays->forces));
    return ok;
}

static bool allocate(ct_result *r, uint64_t n, uint64_t n_spans, ct_entry_arrays *filled) {
    if (r->want & CT_WANT_SPANS) {
        r->spans = malloc((n_spans ? n_spans : 1) * sizeof *r->spans);
        if (!r->spans) return false;
        r->n_spans = n_spans;
    }
    ct_entry_arrays arrays;
    if (!filled && !ct_entry_arrays_new(&arrays, r->want, n)) return false;
    if (filled) {
        arrays = *filled;
        memset(filled, 0, sizeof *filled);
    }
    r->vertices = arrays.vertices;
    r->gradient = arrays.gradient;
    r->weights = arrays.weights;
    r->forces = arrays.forces;
    if (r->want & ANY_ARRAY) r->n_entries = n;
    return true;
}

/* The contacts lie behind the result, in its memory: most results have few. */
ct_result *ct_result_new(uint32_t want, size_t n_contacts, uint64_t n_entries, uint64_t n_spans,
                         ct_entry_arrays *filled, ct_error *error) {
    ct_result *r = malloc(sizeof *r + n_contacts * sizeof *r->contacts);
    if (r) *r = (ct_result){.want = want, .contacts = (ct_contact *)(r + 1)};
    if (!r || !allocate(r, n_entries, n_spans, filled)) {
        ct_result_free(&r);
        ct_fail(error, CT_OUT_OF_MEMORY, "result", "no memory for an answer of %llu entries and %llu spans",
                (unsigned long long)n_entries, (unsigned long long)n_spans);
    }
    return r;
}

/* Assigns the contact its entries, from *entry on. */
static void assign_entries(const ct_result *r, ct_contact *c, uint64_t *entry) {
    if (r->vertices) {
        c->first[0] = *entry;
        c->first[1] = *entry + c->count[0];
        *entry += c->count[0] + c->count[1];
    } else {
        c->count[0] = c->count[1] = 0;
    }
}

ct_contact *ct_result_add(ct_result *r, const ct_contact *contact, uint64_t *entry, uint64_t *span) {
    ct_contact *c = &r->contacts[r->n_contacts++];
    *c = *contact;
    assign_entries(r, c, entry);
    c->first_cell = r->n_cells;
    if (r->spans) {
        c->first_span = *span;
        *span += c->n_spans;
    }
    return c;
}

bool ct_result_add_cells(ct_result *r, uint64_t n_cells, ct_error *error) {
    r->cells = malloc((n_cells ? n_cells : 1) * sizeof *r->cells);
    if (r->cells) return true;
    ct_fail(error, CT_OUT_OF_MEMORY, "result", "no memory for an answer of %llu cells", (unsigned long long)n_cells);
    return false;
}

ct_contact *ct_result_add_cell(ct_result *r, const ct_contact *cell, uint64_t *entry) {
    ct_contact *contact = &r->contacts[r->n_contacts - 1], *c = &r->cells[r->n_cells++];
    *c = *cell;
    c->index = (uint32_t)contact->n_cells++;
    assign_entries(r, c, entry);
    return c;
}

void ct_result_copy(ct_result *r, const ct_contact *contact, const ct_entry_arrays *from) {
    const uint64_t first = contact->first[0], n = contact->count[0] + contact->count[1];
    if (n == 0) return;
    memcpy(r->vertices + first, from->vertices, n * sizeof *r->vertices);
    if (r->gradient) memcpy(r->gradient + 3 * first, from->gradient, 3 * n * sizeof *r->gradient);
    if (r->weights) memcpy(r->weights + first, from->weights, n * sizeof *r->weights);
    if (r->forces) memcpy(r->forces + 3 * first, from->forces, 3 * n * sizeof *r->forces);
}

bool ct_result_add_products(ct_result *r, size_t n_contacts, uint64_t n_products, uint32_t n_directions,
                            ct_error *error) {
    const size_t rows = n_products ? n_products : 1, all = n_contacts ? n_contacts : 1;
    r->product_vertices = malloc(rows * sizeof *r->product_vertices);
    r->products = malloc(rows * n_directions * 3 * sizeof *r->products);
    r->generalized_product = malloc(all * n_directions * 12 * sizeof *r->generalized_product);
    r->n_directions = n_directions;
    r->n_products = n_products;
    if (r->product_vertices && r->products && r->generalized_product) return true;
    ct_fail(error, CT_OUT_OF_MEMORY, "result", "no memory for products of %u directions at %llu vertices", n_directions,
            (unsigned long long)n_products);
    return false;
}

/* ---- of many steps ---- */

uint64_t ct_steps_gather(const ct_step *steps, size_t n_steps, ct_contact *contacts, uint64_t *first) {
    uint64_t n = 0;
    for (size_t i = 0; i < n_steps; i++) {
        const ct_result *r = steps[i].result;
        first[i] = n;
        if (!r) continue;
        if (contacts && r->n_contacts) memcpy(contacts + n, r->contacts, r->n_contacts * sizeof *contacts);
        n += r->n_contacts;
    }
    first[n_steps] = n;
    return n;
}

void ct_steps_free_results(ct_step *steps, size_t n_steps) {
    for (size_t i = 0; i < n_steps; i++) ct_result_free(&steps[i].result);
}

/* ---- tangents that follow those of the step before ---- */

static int compare(const ct_contact *a, const ct_contact *b) {
    if (a->body[0] != b->body[0]) return a->body[0] < b->body[0] ? -1 : 1;
    if (a->body[1] != b->body[1]) return a->body[1] < b->body[1] ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* The part of v across n, scaled to length 1. False: little of v is across n. */
static bool project(const double v[3], const double n[3], double out[3]) {
    const double along = ct_dot3(v, n);
    for (int i = 0; i < 3; i++) out[i] = v[i] - along * n[i];
    const double size = sqrt(ct_dot3(out, out));
    for (int i = 0; i < 3 && size > 0; i++) out[i] /= size;
    return size > 0.5;
}

void ct_result_continue_frames(const ct_result *previous, ct_result *result) {
    size_t at = 0;
    for (size_t i = 0; i < result->n_contacts; i++) {
        ct_contact *c = &result->contacts[i];
        while (at < previous->n_contacts && compare(&previous->contacts[at], c) < 0) at++;
        if (at == previous->n_contacts) return;
        const ct_contact *before = &previous->contacts[at];
        if (compare(before, c) != 0 || ct_dot3(c->normal, c->normal) == 0 ||
            ct_dot3(before->normal, before->normal) == 0)
            continue;
        double *const t = c->tangents[0], *const u = c->tangents[1];
        if (project(before->tangents[0], c->normal, t)) {
            ct_cross3(c->normal, t, u);
        } else { /* the normal has turned to the first tangent: then the second is across it */
            project(before->tangents[1], c->normal, u);
            ct_cross3(u, c->normal, t);
        }
    }
}
