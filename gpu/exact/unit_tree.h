/* unit_tree.h - a spanning forest of a mesh's units, for devices: it turns the flood of winding numbers into a prefix
 * sum. In depth-first order, the units whose path to the root crosses a link follow each other. So where the winding
 * number jumps along a link, it jumps for one range of units.
 *
 *     0 ── 1 ── 2          order 0 1 2 3 4: what jumps between 0 and 1 jumps for 1, 2 and 3
 *     │    └─── 3
 *     └─── 4
 */
#ifndef CT_EXACT_UNIT_TREE_H
#define CT_EXACT_UNIT_TREE_H

#include "gpu/exact/topology.h"

#define CT_NO_PARENT UINT32_MAX

typedef struct ct_unit_link {
    uint32_t parent;                 /* a neighbouring unit, or CT_NO_PARENT: it is its component's lowest unit */
    uint16_t own_vertex, its_vertex; /* as in ct_unit_neighbour */
    uint32_t first, end;             /* the unit's place in depth-first order, and the end of those below it */
} ct_unit_link;

/* links: [n_units]. False: out of memory. */
bool ct_make_unit_tree(const ct_topology *topology, ct_unit_link *links);

#endif
