/* triangle_tree.c - walks over a mesh's triangles from neighbour to neighbour, depth first. */
#include "gpu/exact/triangle_tree.h"

#include <stdlib.h>

#include "gpu/base/cancel.h"

/* What the walk knows of a triangle. */
struct walk {
    uint8_t *next_edge; /* [n_triangles] whose other side is looked at next */
    bool *is_reached;   /* [n_triangles] */
    uint32_t placed;    /* triangles that have a place */
    uint32_t n_steps;
};

static void reach(struct walk *walk, ct_triangle_link *links, uint32_t triangle, uint32_t parent_edge) {
    links[triangle] = (ct_triangle_link){.parent_edge = parent_edge, .first = walk->placed++};
    walk->is_reached[triangle] = true;
}

/* False: cancelled. */
static bool walk_component(struct walk *walk, const ct_adjacency *adjacency, uint32_t root, ct_triangle_link *links) {
    reach(walk, links, root, CT_NO_PARENT_EDGE);
    for (uint32_t triangle = root;;) {
        if (CT_POLL_EVERY(++walk->n_steps, 8192) && ct_is_cancelled()) return false;
        if (walk->next_edge[triangle] == 3) {
            const uint32_t up = links[triangle].parent_edge;
            links[triangle].end = walk->placed;
            if (up == CT_NO_PARENT_EDGE) return true;
            triangle = ct_half_edge_triangle(ct_half_edge_opposite(adjacency, 3 * triangle + up));
            continue;
        }
        const uint32_t half_edge = ct_half_edge_opposite(adjacency, 3 * triangle + walk->next_edge[triangle]++);
        const uint32_t next = ct_half_edge_triangle(half_edge);
        if (walk->is_reached[next]) continue;
        reach(walk, links, next, ct_half_edge_corner(half_edge));
        triangle = next;
    }
}

bool ct_make_triangle_tree(const ct_adjacency *adjacency, uint32_t n_triangles, ct_triangle_link *links,
                           uint32_t *roots, uint32_t *n_roots) {
    struct walk walk = {.next_edge = calloc((size_t)n_triangles + 1, sizeof *walk.next_edge),
                        .is_reached = calloc((size_t)n_triangles + 1, sizeof *walk.is_reached)};
    bool ok = walk.next_edge && walk.is_reached;
    *n_roots = 0;
    for (uint32_t t = 0; ok && t < n_triangles; t++) {
        if (walk.is_reached[t]) continue;
        roots[(*n_roots)++] = t;
        ok = walk_component(&walk, adjacency, t, links);
    }
    free(walk.next_edge);
    free(walk.is_reached);
    return ok;
}
