/* edge_walk.c - where an edge is pierced, in order. */
#include "gpu/exact/piece_nodes.h"

static uint32_t list_crossings(ct_piece_search *search, int pass, int b, uint32_t first, uint32_t end, int k) {
    const ct_piece_surface *surface = &search->surface[pass][b];
    uint32_t n = 0;
    for (uint32_t i = first; i < end; i++) {
        const ct_crossing *crossing = &surface->crossings[i];
        if (!crossing->share.jump[k]) continue;
        const double *p[3], *q[3];
        ct_load_corners(search, b, crossing->triangle, p);
        ct_load_corners(search, 1 - b, crossing->other, q);
        search->edge_crossings[n++] = (struct ct_edge_crossing){
            ct_piercing_of(p[k], p[(k + 1) % 3], q), crossing->share.jump[k], ct_pair_node(search, pass, b, i), i};
    }
    return n;
}

static int compare(const struct ct_edge_crossing *a, const struct ct_edge_crossing *b, int moved) {
    return ct_compare_piercings(&a->piercing, &b->piercing, moved);
}

/* Shell sort: most edges are pierced once or twice, few a thousand times. */
static void sort_crossings(struct ct_edge_crossing *list, uint32_t n, int moved) {
    static const uint32_t gaps[] = {8858, 3937, 1750, 701, 301, 132, 57, 23, 10, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (uint32_t gap = gaps[g], i = gap; i < n; i++) {
            const struct ct_edge_crossing one = list[i];
            uint32_t at = i;
            for (; at >= gap && compare(&list[at - gap], &one, moved) > 0; at -= gap) list[at] = list[at - gap];
            list[at] = one;
        }
}

/* Swaps to the front of the crossings that coincide with the first the one that brings the winding number nearer to 0,
 * so that what only touches is not connected. */
static void choose_among_equals(struct ct_edge_crossing *list, uint32_t n, int moved, int32_t winding) {
    const int wanted = winding > 0 ? -1 : 1;
    uint32_t at = 0;
    while (at < n && list[at].jump != wanted && compare(&list[at], &list[0], moved) == 0) at++;
    if (at == n || compare(&list[at], &list[0], moved) != 0) return;
    const struct ct_edge_crossing first = list[at];
    list[at] = list[0];
    list[0] = first;
}

uint32_t ct_walk_edge(ct_piece_search *search, int pass, int b, uint32_t triangle, uint32_t first, uint32_t end,
                      int k) {
    const uint32_t n = list_crossings(search, pass, b, first, end, k);
    const int moved = b ? search->moved[pass] : -search->moved[pass]; /* +1: the edge's body is perturbed */
    int32_t winding = ct_winding_at(search, pass, b, triangle, k);
    sort_crossings(search->edge_crossings, n, moved);
    for (uint32_t i = 0; i < n; i++) {
        choose_among_equals(search->edge_crossings + i, n - i, moved, winding);
        winding += search->edge_crossings[i].jump;
    }
    return n;
}
