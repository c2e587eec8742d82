/* close.h - closes an open surface along a direction, for those who declare one: ct_mesh_options.open_direction, where
 * the header says what is accepted. closing.h moves what closes it. */
#ifndef CT_CLOSE_H
#define CT_CLOSE_H

#include "gpu/mesh/mesh.h"
#include "gpu/mesh/soup.h"

/* Appends to the soup a copy of each vertex of the rim, moved along `direction` (of length 1) to the far plane, walls
 * between rim and copies, and a cap on the plane. *rim: the vertices that were copied, in the order of their copies;
 * the caller frees it. INVALID_MESH, NON_FINITE, LIMIT_EXCEEDED, OUT_OF_MEMORY. */
ct_status ct_close_along(ct_soup *soup, const double direction[3], uint32_t **rim, uint32_t *n_rim, ct_error *error);

#endif
