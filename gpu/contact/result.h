/* result.h - builds a step's ct_result, which the caller gets; for every backend. */
#ifndef CT_RESULT_H
#define CT_RESULT_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/contact/frame_k.h"

/* Arrays of entries with the layout of ct_result; NULL: not wanted. */
typedef struct ct_entry_arrays {
    uint32_t *vertices;
    double *gradient, *weights, *forces;
} ct_entry_arrays;

/* Allocates the arrays of n entries that `want` (CT_WANT_*) asks for; freed by ct_entry_arrays_free. False: out of
 * memory; *arrays is all NULL. */
bool ct_entry_arrays_new(ct_entry_arrays *arrays, uint32_t want, uint64_t n);
void ct_entry_arrays_free(ct_entry_arrays *arrays);
struct ct_arena;
struct ct_budget;
/* As ct_entry_arrays_new, but allocated from an arena: reset or free the arena to free them. */
bool ct_entry_arrays_in(struct ct_arena *arena, struct ct_budget *budget, ct_entry_arrays *arrays, uint32_t want,
                        uint64_t n);

/* A result with capacity for n_contacts contacts, of which it has none yet, and with the arrays that `want` asks for,
 * which the caller fills. If `filled` is not NULL, the result takes over its entry arrays instead of allocating them,
 * and *filled becomes all NULL. NULL with *error: out of memory. */
ct_result *ct_result_new(uint32_t want, size_t n_contacts, uint64_t n_entries, uint64_t n_spans,
                         ct_entry_arrays *filled, ct_error *error);

/* Appends a contact whose count[] and n_spans are set, and assigns it the entries from *entry on and the spans from
 * *span on. Advances both to the next contact's first. */
ct_contact *ct_result_add(ct_result *result, const ct_contact *contact, uint64_t *entry, uint64_t *span);

/* Gives the result capacity for n_cells cells, of which it has none yet. False with *error: out of memory. */
bool ct_result_add_cells(ct_result *result, uint64_t n_cells, ct_error *error);

/* Appends a cell to the contact that was added last, as ct_result_add does with contacts. */
ct_contact *ct_result_add_cell(ct_result *result, const ct_contact *cell, uint64_t *entry);

/* Gives the result arrays for n_products rows of products along n_directions directions, and for n_contacts
 * contacts. False with *error: out of memory. */
bool ct_result_add_products(ct_result *result, size_t n_contacts, uint64_t n_products, uint32_t n_directions,
                            ct_error *error);

/* Fills a contact's entries, body 0's and then body 1's, by copying from `from`, which holds only these. */
void ct_result_copy(ct_result *result, const ct_contact *contact, const ct_entry_arrays *from);

#endif
