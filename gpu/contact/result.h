/* result.h - a step's result as its caller gets it, for every backend. */
#ifndef CT_RESULT_H
#define CT_RESULT_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/contact/frame_k.h"

/* The arrays of entries, as ct_result has them; NULL: not wanted. */
typedef struct ct_entry_arrays {
    uint32_t *vertices;
    double *gradient, *weights, *forces;
} ct_entry_arrays;

/* Allocates the arrays of n entries that `want` asks for; freed by ct_entry_arrays_free. False: no memory, and *arrays
 * is zero. */
bool ct_entry_arrays_new(ct_entry_arrays *arrays, uint32_t want, uint64_t n);
void ct_entry_arrays_free(ct_entry_arrays *arrays);

/* An empty result with the arrays that `want` asks for; NULL, with *error, if there is no memory. Its contacts, counted
 * by n_contacts, and the arrays are still to be filled; but where `filled` is not NULL, those of the entries are taken
 * from there. */
ct_result *ct_result_new(uint32_t want, size_t n_contacts, uint64_t n_entries, uint64_t n_spans,
                         ct_entry_arrays *filled, ct_error *error);

/* Adds a contact whose count[] and n_spans are set and gives it its place in the arrays: *entry and *span are where the
 * next one's begin. */
ct_contact *ct_result_add(ct_result *result, const ct_contact *contact, uint64_t *entry, uint64_t *span);

/* Fills the arrays of a contact's entries, both bodies' one after the other, from arrays of these entries alone. */
void ct_result_copy(ct_result *result, const ct_contact *contact, const ct_entry_arrays *from);

#endif
