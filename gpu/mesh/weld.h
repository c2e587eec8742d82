/* weld.h - one number for each distinct position, for formats that repeat vertices in every triangle. */
#ifndef CT_WELD_H
#define CT_WELD_H

#include "gpu/mesh/soup.h"

/* Turns n_corners positions (three in a row make a triangle; -0 counts as 0) into a soup whose vertices are the
 * distinct ones in order of appearance. `row` gives the position of a corner. Expected O(n) for any input: the hash has
 * a random key. LIMIT_EXCEEDED, OUT_OF_MEMORY. */
typedef void ct_corner_fn(const void *corners, size_t i, float position[3]);
ct_status ct_weld(const void *corners, size_t n_corners, ct_corner_fn *row, ct_soup *soup, ct_error *error);

#endif
