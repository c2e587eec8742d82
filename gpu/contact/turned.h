/* turned.h - contacts of a pair whose views lie along axes of its own (view/turned_k.h), on the host of every backend.
 */
#ifndef CT_TURNED_H
#define CT_TURNED_H

#include "gpu/include/contact.h"
#include "gpu/view/turned_k.h"

/* Turns normal, tangents, centres, 6-vectors and entries to the world's axes. gradient, forces: [n][3] of all entries
 * of the contact, n = contact->count[0] + count[1]; or NULL. The gradients add up to exactly 0 afterwards, in any
 * order: they are rounded to multiples of a power of two that is 2^-52 of their sum of sizes, and the first entry takes
 * what rounding has left. */
void ct_turn_back_contact(const ct_turned_views *views, ct_contact *contact, double *gradient, double *forces);

#endif
