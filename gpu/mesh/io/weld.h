/* weld.h - merges equal positions into shared vertices, for formats that repeat vertices in every triangle. */
#ifndef CT_WELD_H
#define CT_WELD_H

#include "gpu/mesh/soup.h"

/* Reads the position of corner i: 3 floats, or 3 doubles where the soup's digits.is_wide. */
typedef void ct_read_corner_fn(const void *corners, size_t i, void *position);

/* Appends n_corners / 3 triangles to an empty soup; corners 3 t to 3 t + 2 are triangle t. Corners with equal positions
 * (-0 equals 0) share a vertex; vertices are in order of first appearance. Expected O(n) for any input, because the
 * hash has a random key. LIMIT_EXCEEDED, OUT_OF_MEMORY; UNSUPPORTED: the system has no random numbers. */
ct_status ct_weld(const void *corners, size_t n_corners, ct_read_corner_fn *read_corner, ct_soup *soup,
                  ct_error *error);

/* The same where corner i is points[i] of n_points, each of which is looked up once. */
ct_status ct_weld_points(const void *corners, size_t n_corners, ct_read_corner_fn *read_corner, const uint32_t *points,
                         size_t n_points, ct_soup *soup, ct_error *error);

#endif
