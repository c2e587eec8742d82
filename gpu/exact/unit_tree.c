/* unit_tree.c - walks over a mesh's units, depth first. */
#include "gpu/exact/unit_tree.h"

#include <stdlib.h>

#include "gpu/base/cancel.h"

bool ct_make_unit_tree(const ct_topology *topology, ct_unit_link *links) {
    const uint32_t n = topology->n_units;
    uint32_t *next_neighbour = malloc(((size_t)n + 1) * sizeof *next_neighbour);
    bool *is_reached = calloc((size_t)n + 1, sizeof *is_reached);
    bool ok = next_neighbour && is_reached;
    uint32_t placed = 0, n_steps = 0;
    for (uint32_t c = 0; ok && c < topology->n_components; c++) {
        const uint32_t root = topology->first_of_component[c];
        links[root] = (ct_unit_link){.parent = CT_NO_PARENT, .first = placed++};
        next_neighbour[root] = topology->first_neighbour[root];
        is_reached[root] = true;
        for (uint32_t unit = root; ok && unit != CT_NO_PARENT;) {
            if (CT_POLL_EVERY(++n_steps, 8192) && ct_is_cancelled()) ok = false;
            if (next_neighbour[unit] == topology->first_neighbour[unit + 1]) {
                links[unit].end = placed;
                unit = links[unit].parent;
                continue;
            }
            const ct_unit_neighbour found = topology->neighbours[next_neighbour[unit]++];
            if (is_reached[found.unit]) continue;
            is_reached[found.unit] = true;
            links[found.unit] = (ct_unit_link){
                .parent = unit, .own_vertex = found.its_vertex, .its_vertex = found.own_vertex, .first = placed++};
            unit = found.unit;
            next_neighbour[unit] = topology->first_neighbour[unit];
        }
    }
    free(next_neighbour);
    free(is_reached);
    return ok;
}
