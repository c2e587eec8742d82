/* turned_views.h - a pair whose views lie along axes of its own instead of the world's: what its window is planned
 * from, and how its contacts are turned back. For the method EBPI.
 *
 * Positions are turned while they are snapped to the lattice, so all stages on the lattice are those of views along the
 * world's axes. Vectors and points of a contact are in the turned frame until ct_turn_back_contact.
 */
#ifndef CT_TURNED_VIEWS_H
#define CT_TURNED_VIEWS_H

#include "gpu/backend/cpu/device.h"

/* Finds the pair's axes (ebpi/directions.h) and what follows from them, for the part of the window that pair->part has.
 * The world's axes are kept where others are hardly better, and where the bodies' boxes along them do not meet. */
void ct_turn_views(const ct_device *device, ct_pair_task *pair);

/* Along the pair's axes. NULL: positions are along them. */
const double *ct_view_pose(const ct_pair_task *pair, int body);
const ct_box *ct_view_box(const ct_pair_task *pair, int body);

/* a to its coordinates along the pair's axes, and back to the world's. */
void ct_turn_into_views(const ct_pair_task *pair, double a[3]);
void ct_turn_out_of_views(const ct_pair_task *pair, double a[3]);

/* Turns normal, tangents, centres, 6-vectors and entries to the world's axes. The gradients of all entries add up to
 * exactly 0 afterwards, in any order: they are rounded to multiples of a power of two that is 2^-52 of their sum of
 * sizes, and the first entry takes what rounding has left. */
void ct_turn_back_contact(const ct_pair_task *pair, ct_pair_contact *contact);

#endif
