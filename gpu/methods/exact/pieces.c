/* pieces.c - finds the pieces of an intersection: numbers the nodes, unites them along edges and curves, and lists each
 * piece's clusters. */
#include "gpu/methods/exact/pieces.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/methods/exact/piece_nodes.h"

/* ---- nodes ---- */

static uint32_t count_vertices(const ct_topology *topology, uint32_t cluster) {
    return topology->clusters->first_vertex[cluster + 1] - topology->clusters->first_vertex[cluster];
}

static void number_nodes(ct_piece_search *search) {
    uint32_t n = 0;
    for (int pass = 0; pass < search->n_passes; pass++) {
        for (int b = 0; b < 2; b++) {
            const ct_piece_surface *surface = &search->surface[pass][b];
            const ct_topology *topology = search->body[b]->topology;
            uint32_t *nodes = ct_piece_allocate(search, (surface->n_crossed + 1) * sizeof *nodes);
            if (!nodes) return;
            for (uint32_t i = 0; i < surface->n_crossed; i++) {
                nodes[i] = n;
                n += count_vertices(topology, surface->crossed_clusters[i]);
            }
            nodes[surface->n_crossed] = n;
            search->vertex_nodes[pass][b] = nodes;
            search->unit_nodes[pass][b] = n;
            n += topology->n_units;
        }
        search->pair_nodes[pass] = n;
        n += search->surface[pass][0].n_crossings;
    }
    search->n_nodes = n;
    search->parent = ct_piece_allocate(search, n * sizeof *search->parent);
    search->volumes = ct_piece_allocate(search, n * sizeof *search->volumes);
    search->slacks = ct_piece_allocate(search, n * sizeof *search->slacks);
    search->moments = search->n_passes == 2 ? ct_piece_allocate(search, n * sizeof *search->moments) : NULL;
    if (search->has_failed) return;
    for (uint32_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i, 4096) && ct_piece_is_cancelled(search, "crossings", i)) return;
        search->parent[i] = i;
        search->volumes[i] = search->slacks[i] = 0;
        if (search->moments) search->moments[i] = (ct_moment){0, 0};
    }
}

/* Makes the tables of crossings. */
static void index_crossings(ct_piece_search *search, int pass) {
    for (int b = 0; b < 2; b++) {
        const ct_piece_surface *surface = &search->surface[pass][b];
        const size_t n_triangles = (size_t)surface->n_crossed * CT_CLUSTER_TRIANGLES;
        uint32_t *first_of = ct_piece_allocate(search, (n_triangles + 1) * sizeof *first_of);
        uint32_t *others = ct_piece_allocate(search, surface->n_crossings * sizeof *others);
        signed char(*jumps)[4] = ct_piece_allocate(search, surface->n_crossings * sizeof *jumps);
        search->partner[pass][b] = ct_piece_allocate(search, surface->n_crossings * sizeof **search->partner[pass]);
        if (search->has_failed) return;
        size_t n = 0; /* triangles whose first crossing is known */
        for (uint32_t i = 0; i < surface->n_crossings; i++) {
            const uint32_t triangle = surface->crossings[i].triangle,
                           as = surface->crossed_as[triangle / CT_CLUSTER_TRIANGLES];
            const size_t at = (size_t)(as - 1) * CT_CLUSTER_TRIANGLES + triangle % CT_CLUSTER_TRIANGLES;
            if (CT_POLL_EVERY(i, 1024) && ct_piece_is_cancelled(search, "crossings", i)) return;
            while (n <= at) first_of[n++] = i;
            others[i] = surface->crossings[i].other;
            for (int k = 0; k < 3; k++) jumps[i][k] = surface->crossings[i].share.jump[k];
            jumps[i][3] = 0;
        }
        while (n <= n_triangles) first_of[n++] = surface->n_crossings;
        search->first_of[pass][b] = first_of;
        search->others[pass][b] = others;
        search->jumps[pass][b] = jumps;
    }
}

/* Body 0's crossings come in rising order of (triangle, other), so each triangle of body 1 has its partners in its
 * order. */
static void find_partners(ct_piece_search *search, int pass) {
    const ct_piece_surface *surface = &search->surface[pass][1];
    const size_t n_triangles = (size_t)surface->n_crossed * CT_CLUSTER_TRIANGLES;
    uint32_t *next = ct_piece_allocate(search, (n_triangles + 1) * sizeof *next);
    if (search->has_failed) return;
    memcpy(next, search->first_of[pass][1], (n_triangles + 1) * sizeof *next);
    for (uint32_t i = 0; i < surface->n_crossings; i++) {
        const uint32_t other = search->others[pass][0][i], as = surface->crossed_as[other / CT_CLUSTER_TRIANGLES];
        if (CT_POLL_EVERY(i, 1024) && ct_piece_is_cancelled(search, "crossings", i)) return;
        const uint32_t partner = next[(size_t)(as - 1) * CT_CLUSTER_TRIANGLES + other % CT_CLUSTER_TRIANGLES]++;
        search->partner[pass][0][i] = partner;
        search->partner[pass][1][partner] = i;
    }
}

/* For the triangle with the most crossings of either perturbation: the search for what both find looks at the triangles
 * of either. */
static void make_scratch(ct_piece_search *search) {
    uint32_t most = 0;
    for (int pass = 0; pass < search->n_passes && !search->has_failed; pass++)
        for (int b = 0; b < 2; b++) {
            const ct_piece_surface *surface = &search->surface[pass][b];
            uint32_t n_large = 0, n = 0;
            for (uint32_t i = 0, end; i < surface->n_crossings; i = end) {
                if (ct_piece_is_cancelled(search, "crossings", i)) return;
                end = ct_end_of_crossings(search, pass, b, i);
                if (end - i > most) most = end - i;
                n_large += end - i >= CT_LARGE_TRIANGLE;
            }
            struct ct_kept_map *kept = ct_piece_allocate(search, n_large * sizeof *kept);
            if (!kept) return;
            for (uint32_t i = 0, end; i < surface->n_crossings && n < n_large; i = end) {
                end = ct_end_of_crossings(search, pass, b, i);
                if (end - i >= CT_LARGE_TRIANGLE) kept[n++] = (struct ct_kept_map){.first = i};
            }
            search->kept[pass][b] = kept;
            search->n_kept[pass][b] = n_large;
        }
    search->most_crossings = most;
    search->stretches = ct_piece_allocate(search, most * sizeof *search->stretches);
    search->meetings = ct_piece_allocate(search, most * sizeof *search->meetings);
    search->by_loop = ct_piece_allocate(search, most * sizeof *search->by_loop);
    search->first_of_loop = ct_piece_allocate(search, ((size_t)most + 2) * sizeof *search->first_of_loop);
    search->edge_crossings = ct_piece_allocate(search, most * sizeof *search->edge_crossings);
    search->piercings = ct_piece_allocate(search, most * sizeof *search->piercings);
    search->views = ct_piece_allocate(search, 3 * sizeof *search->views);
    if (search->views) memset(search->views, 0, 3 * sizeof *search->views);
}

/* ---- curves ---- */

/* Where a curve leaves a triangle over an edge, it goes on on the triangle across. */
static void unite_curves(ct_piece_search *search, int pass, int b) {
    const ct_piece_surface *surface = &search->surface[pass][b];
    for (uint32_t i = 0; i < surface->n_crossings; i++) {
        if (CT_POLL_EVERY(i, 1024) && ct_piece_is_cancelled(search, "crossings", i)) return;
        for (int k = 0; k < 3; k++) {
            if (search->jumps[pass][b][i][k] >= 0) continue; /* the one that starts there looks back */
            const ct_crossing *crossing = &surface->crossings[i];
            const uint32_t across = ct_triangle_across(search, b, crossing->triangle, k);
            ct_unite(search, ct_pair_node(search, pass, b, i),
                     ct_pair_node(search, pass, b, ct_find_crossing(search, pass, b, across, crossing->other)));
        }
    }
}

/* ---- edges ---- */

/* Unites the ends of an edge's stretches inside the other body. */
static void unite_edge(ct_piece_search *search, int pass, int b, uint32_t triangle, uint32_t first, uint32_t end,
                       int k) {
    const uint32_t n = ct_walk_edge(search, pass, b, triangle, first, end, k);
    int32_t winding = ct_winding_at(search, pass, b, triangle, k);
    uint32_t node = ct_corner_node(search, pass, b, triangle, k);
    for (uint32_t i = 0; i < n; i++) {
        const struct ct_edge_crossing *next = &search->edge_crossings[i];
        if (winding) ct_unite(search, node, next->node);
        winding += next->jump;
        node = next->node;
    }
    if (winding) ct_unite(search, node, ct_corner_node(search, pass, b, triangle, (k + 1) % 3));
}

/* Unites the corners of a triangle that nothing crosses, if it is inside the other body. */
static void unite_corners(ct_piece_search *search, int pass, int b, uint32_t triangle) {
    if (!ct_winding_at(search, pass, b, triangle, 0)) return;
    const uint32_t node = ct_corner_node(search, pass, b, triangle, 0);
    for (int k = 1; k < 3; k++) ct_unite(search, node, ct_corner_node(search, pass, b, triangle, k));
}

static void unite_edges(ct_piece_search *search, int pass, int b) {
    const ct_piece_surface *surface = &search->surface[pass][b];
    for (uint32_t i = 0; i < surface->n_crossed; i++) {
        const uint32_t cluster = surface->crossed_clusters[i];
        const ct_placed_cluster *placed = ct_placed_of(search, b, cluster);
        for (uint32_t t = 0; t < placed->n_triangles; t++) {
            const uint32_t triangle = cluster * CT_CLUSTER_TRIANGLES + t;
            const ct_crossing_range range = ct_crossings_of(search, pass, b, triangle);
            if (CT_POLL_EVERY(t, 32) && ct_piece_is_cancelled(search, "crossings", range.first)) return;
            if (range.first == range.end)
                unite_corners(search, pass, b, triangle);
            else
                for (int k = 0; k < 3; k++) unite_edge(search, pass, b, triangle, range.first, range.end, k);
        }
    }
}

/* ---- vertices that clusters share ---- */

/* The nodes of vertices of crossed clusters that are inside, by the mesh's vertex. */
struct vertex_table {
    uint32_t *vertex, *node; /* node CT_NO_NODE: free */
    uint32_t mask;
};

static uint32_t slot_of(const struct vertex_table *table, uint32_t vertex) {
    uint32_t slot = vertex * 2654435761u & table->mask;
    while (table->node[slot] != CT_NO_NODE && table->vertex[slot] != vertex) slot = (slot + 1) & table->mask;
    return slot;
}

static struct vertex_table make_table(ct_piece_search *search, uint32_t n) {
    struct vertex_table table = {.mask = 15};
    while (table.mask < 2 * (uint64_t)n) table.mask = 2 * table.mask + 1;
    table.vertex = ct_piece_allocate(search, ((size_t)table.mask + 1) * sizeof *table.vertex);
    table.node = ct_piece_allocate(search, ((size_t)table.mask + 1) * sizeof *table.node);
    if (table.node) memset(table.node, 0xff, ((size_t)table.mask + 1) * sizeof *table.node);
    return table;
}

/* A vertex of a crossed cluster, by its step of the walk. */
struct walked_vertex {
    uint32_t vertex; /* in the cluster's list */
    int32_t winding;
};

static struct walked_vertex walk_to(const ct_topology *topology, const ct_piece_surface *surface, uint32_t cluster,
                                    uint32_t step) {
    const ct_walk_step at = topology->walk[step];
    const size_t t = (size_t)cluster * CT_CLUSTER_TRIANGLES + ct_walk_triangle(at);
    const uint32_t vertex = topology->corners[t][ct_walk_to(at)];
    return (struct walked_vertex){vertex,
                                  surface->of_unit[topology->first_unit[cluster] + topology->unit_in_cluster[t]] +
                                      surface->crossed[surface->crossed_as[cluster] - 1].winding[vertex]};
}

static void unite_vertices(ct_piece_search *search, int pass, int b, const struct vertex_table *table) {
    const ct_piece_surface *surface = &search->surface[pass][b];
    const ct_topology *topology = search->body[b]->topology;
    const uint32_t *first_vertex = topology->clusters->first_vertex;
    for (uint32_t i = 0; i < surface->n_crossed; i++) {
        const uint32_t cluster = surface->crossed_clusters[i];
        if (ct_piece_is_cancelled(search, "crossings", surface->n_crossings)) return;
        for (uint32_t step = first_vertex[cluster]; step < first_vertex[cluster + 1]; step++) {
            const struct walked_vertex v = walk_to(topology, surface, cluster, step);
            if (!v.winding) continue;
            const uint32_t node = search->vertex_nodes[pass][b][i] + v.vertex,
                           vertex = topology->clusters->vertices[first_vertex[cluster] + v.vertex],
                           slot = slot_of(table, vertex);
            if (table->node[slot] == CT_NO_NODE) {
                table->vertex[slot] = vertex;
                table->node[slot] = node;
            } else {
                ct_unite(search, table->node[slot], node);
            }
        }
    }
}

/* ---- units that nothing crosses ---- */

static void unite_unit_with_vertices(ct_piece_search *search, int pass, int b, uint32_t unit,
                                     const struct vertex_table *table) {
    const ct_topology *topology = search->body[b]->topology;
    const uint32_t cluster = topology->cluster_of_unit[unit];
    const ct_placed_cluster *placed = ct_placed_of(search, b, cluster);
    for (uint32_t t = 0; t < placed->n_triangles; t++) {
        if (topology->unit_in_cluster[(size_t)cluster * CT_CLUSTER_TRIANGLES + t] !=
            unit - topology->first_unit[cluster])
            continue;
        for (int k = 0; k < 3; k++) {
            const uint32_t slot = slot_of(table, placed->vertices[placed->corners[t][k]]);
            if (table->node[slot] != CT_NO_NODE)
                ct_unite(search, search->unit_nodes[pass][b] + unit, table->node[slot]);
        }
    }
}

static void unite_unit(ct_piece_search *search, int pass, int b, uint32_t unit, const struct vertex_table *table) {
    const ct_piece_surface *surface = &search->surface[pass][b];
    const ct_topology *topology = search->body[b]->topology;
    bool meets_crossed = false;
    for (uint32_t i = topology->first_neighbour[unit]; i < topology->first_neighbour[unit + 1]; i++) {
        const uint32_t next = topology->neighbours[i].unit;
        if (surface->crossed_as[topology->cluster_of_unit[next]])
            meets_crossed = true; /* they may share more vertices than the one that is listed */
        else
            ct_unite(search, search->unit_nodes[pass][b] + unit, search->unit_nodes[pass][b] + next);
    }
    if (meets_crossed) unite_unit_with_vertices(search, pass, b, unit, table);
}

static void unite_units(ct_piece_search *search, int pass, int b, const struct vertex_table *table) {
    const ct_piece_surface *surface = &search->surface[pass][b];
    const ct_topology *topology = search->body[b]->topology;
    for (uint32_t k = 0; k < surface->n_added; k++) {
        const uint32_t cluster = surface->added[k];
        if (surface->crossed_as[cluster]) continue;
        if (ct_piece_is_cancelled(search, "crossings", surface->n_crossings)) return;
        for (uint32_t unit = topology->first_unit[cluster]; unit < topology->first_unit[cluster + 1]; unit++)
            if (surface->of_unit[unit]) unite_unit(search, pass, b, unit, table);
    }
}

static void unite_surface(ct_piece_search *search, int pass, int b) {
    const ct_piece_surface *surface = &search->surface[pass][b];
    const uint32_t n_vertices =
        search->vertex_nodes[pass][b][surface->n_crossed] - (surface->n_crossed ? search->vertex_nodes[pass][b][0] : 0);
    const struct vertex_table table = make_table(search, surface->n_crossed ? n_vertices : 0);
    if (!search->has_failed) unite_curves(search, pass, b);
    if (!search->has_failed) unite_edges(search, pass, b);
    if (!search->has_failed) unite_vertices(search, pass, b, &table);
    if (!search->has_failed) unite_units(search, pass, b, &table);
}

/* ---- cavities: their boundaries are united with those around them ---- */

/* The boundaries of one perturbation's intersection, before cavities are joined. */
struct boundaries {
    ct_piece_search *search;
    int pass;
    uint32_t *root;           /* [n_nodes] */
    uint32_t *cavity_of_root; /* [n_nodes] 1 + number of a cavity, or 0 */
    double (*extreme)[3];     /* [n_cavities] the point with the largest x, then y, then z */
    uint32_t n_cavities;
};

/* Moves the volumes of nodes, and their slacks, to their roots. */
static void gather_volumes(ct_piece_search *search) {
    for (uint32_t i = 0; i < search->n_nodes; i++) {
        const uint32_t root = ct_find_root(search, i);
        if (CT_POLL_EVERY(i, 4096) && ct_piece_is_cancelled(search, "crossings", i)) return;
        if (root == i || search->slacks[i] == 0) continue;
        search->volumes[root] += search->volumes[i];
        search->slacks[root] += search->slacks[i];
        search->volumes[i] = search->slacks[i] = 0;
        if (!search->moments) continue;
        search->moments[root].value += search->moments[i].value;
        search->moments[root].slack += search->moments[i].slack;
        search->moments[i] = (ct_moment){0, 0};
    }
}

static void add_volume(ct_piece_search *search, uint32_t node, double volume, double slack) {
    search->volumes[node] += volume;
    search->slacks[node] += slack;
}

/* Adds to the volumes of the nodes of a crossed cluster. */
static void measure_crossed(ct_piece_search *search, int pass, int b, uint32_t cluster) {
    const ct_piece_surface *surface = &search->surface[pass][b];
    const ct_placed_cluster *placed = ct_placed_of(search, b, cluster);
    for (uint32_t t = 0; t < placed->n_triangles; t++) {
        const uint32_t triangle = cluster * CT_CLUSTER_TRIANGLES + t;
        const int32_t winding = ct_winding_at(search, pass, b, triangle, 1);
        const double *p[3];
        const ct_crossing_range range = ct_crossings_of(search, pass, b, triangle);
        if (!winding && range.first == range.end) continue;
        ct_load_corners(search, b, triangle, p);
        const ct_measured_triangle measured = ct_measure_triangle(p);
        if (winding) {
            const ct_integrals whole = ct_whole_integrals(winding);
            const uint32_t node = ct_corner_node(search, pass, b, triangle, 1);
            add_volume(search, node, ct_volume_of_part(&measured, &whole), ct_volume_slack(&measured, &whole));
            if (search->moments) ct_add_moment(&search->moments[node], p, &whole, 0);
        }
        for (uint32_t crossing = range.first; crossing < range.end; crossing++) {
            const ct_triangle_share *share = &surface->crossings[crossing].share;
            const uint32_t node = ct_pair_node(search, pass, b, crossing);
            if (CT_POLL_EVERY(crossing, 1024) && ct_piece_is_cancelled(search, "crossings", crossing)) return;
            add_volume(search, node, ct_volume_of_part(&measured, &share->integrals),
                       ct_volume_slack(&measured, &share->integrals) + ct_volume_rounding(p, share->rounding));
            if (search->moments) ct_add_moment(&search->moments[node], p, &share->integrals, share->rounding);
        }
    }
}

/* The volume that each boundary encloses, by the divergence theorem: first of each node, then their sums, in the order
 * of nodes. */
static void measure_volumes(ct_piece_search *search, int pass) {
    for (int b = 0; b < 2; b++) {
        const ct_piece_surface *surface = &search->surface[pass][b];
        for (uint32_t k = 0; k < surface->n_added && !search->has_failed; k++) {
            const uint32_t cluster = surface->added[k];
            if (ct_piece_is_cancelled(search, "crossings", surface->n_crossings)) return;
            if (surface->crossed_as[cluster]) {
                measure_crossed(search, pass, b, cluster);
                continue;
            }
            const uint32_t *first_unit = search->body[b]->topology->first_unit;
            for (uint32_t unit = first_unit[cluster]; unit < first_unit[cluster + 1]; unit++) {
                const ct_unit_summary *summary =
                    surface->of_unit[unit] ? ct_summarize_unit(search, pass, b, unit) : NULL;
                if (search->has_failed) return;
                if (!summary) continue;
                add_volume(search, search->unit_nodes[pass][b] + unit, summary->volume, summary->slack);
                if (search->moments) search->moments[search->unit_nodes[pass][b] + unit] = summary->moment;
            }
        }
    }
    gather_volumes(search);
}

/* A boundary without a volume, as where bodies touch, has one of either sign by rounding. */
static bool is_cavity(const ct_piece_search *search, uint32_t node) {
    return search->volumes[node] < -search->slacks[node];
}

/* ---- cavities: extreme points ---- */

static void note_point(struct boundaries *all, uint32_t node, const double p[3]) {
    const uint32_t cavity = all->cavity_of_root[all->root[node]];
    if (cavity) ct_note_extreme(all->extreme[cavity - 1], p);
}

static bool has_cavity(const struct boundaries *all, int b, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++)
        if (all->cavity_of_root[all->root[ct_pair_node(all->search, all->pass, b, i)]]) return true;
    return false;
}

/* The joints of curves on a triangle. */
static void note_joints(struct boundaries *all, int b, uint32_t first, uint32_t end) {
    ct_piece_search *search = all->search;
    const double *p[3];
    ct_triangle_map map;
    if (!has_cavity(all, b, first, end) || !ct_map_triangle(search, all->pass, b, first, &map)) return;
    ct_load_corners(search, b, map.triangle, p);
    for (uint32_t i = 0; i < end - first; i++) {
        const struct ct_stretch *s = &map.stretches[i];
        double at[3];
        for (int k = 0; k < 3; k++)
            at[k] = p[0][k] + s->from[0] * (p[1][k] - p[0][k]) + s->from[1] * (p[2][k] - p[0][k]);
        note_point(all, s->node, at);
    }
}

/* The vertices inside of an added cluster. */
static void note_vertices(struct boundaries *all, int b, uint32_t cluster) {
    ct_piece_search *search = all->search;
    const ct_piece_surface *surface = &search->surface[all->pass][b];
    if (surface->crossed_as[cluster]) {
        const ct_placed_cluster *placed = ct_placed_of(search, b, cluster);
        for (uint32_t t = 0; t < placed->n_triangles; t++)
            for (int corner = 0; corner < 3; corner++) {
                const uint32_t triangle = cluster * CT_CLUSTER_TRIANGLES + t;
                if (ct_winding_at(search, all->pass, b, triangle, corner))
                    note_point(all, ct_corner_node(search, all->pass, b, triangle, corner),
                               placed->points[placed->corners[t][corner]]);
            }
        return;
    }
    const uint32_t *first_unit = search->body[b]->topology->first_unit;
    for (uint32_t unit = first_unit[cluster]; unit < first_unit[cluster + 1]; unit++) {
        const uint32_t node = search->unit_nodes[all->pass][b] + unit;
        if (!surface->of_unit[unit] || !all->cavity_of_root[all->root[node]]) continue;
        const ct_unit_summary *summary = ct_summarize_unit(search, all->pass, b, unit);
        if (summary) note_point(all, node, summary->extreme);
    }
}

static void find_extremes(struct boundaries *all) {
    ct_piece_search *search = all->search;
    for (uint32_t i = 0; i < all->n_cavities; i++)
        for (int k = 0; k < 3; k++) all->extreme[i][k] = -INFINITY;
    for (int b = 0; b < 2; b++) {
        const ct_piece_surface *surface = &search->surface[all->pass][b];
        for (uint32_t k = 0; k < surface->n_added; k++) {
            if (ct_piece_is_cancelled(all->search, "patches", all->n_cavities)) return;
            note_vertices(all, b, surface->added[k]);
        }
        for (uint32_t first = 0, end; first < surface->n_crossings; first = end) {
            if (ct_piece_is_cancelled(all->search, "patches", all->n_cavities)) return;
            end = ct_end_of_crossings(all->search, all->pass, b, first);
            note_joints(all, b, first, end);
        }
    }
}

/* ---- cavities: joining ---- */

/* The ray from a cavity's extreme point along +x leaves the cavity at once. */
static void join_cavity(const struct boundaries *all, uint32_t root) {
    const double *p = all->extreme[all->cavity_of_root[root] - 1];
    const ct_boundary_hit hit = ct_find_next_boundary(all->search, all->pass, p, p[0], all->root, root);
    if (hit.node != CT_NO_NODE) ct_unite(all->search, root, hit.node);
}

/* Unites the boundaries of cavities with those around them. */
static void join_cavities(ct_piece_search *search, int pass) {
    struct boundaries all = {.search = search, .pass = pass};
    measure_volumes(search, pass);
    if (search->has_failed) return;
    for (uint32_t i = 0; i < search->n_nodes; i++) {
        if (CT_POLL_EVERY(i, 4096) && ct_piece_is_cancelled(search, "crossings", i)) return;
        all.n_cavities += is_cavity(search, i);
    }
    if (!all.n_cavities) return;
    all.root = ct_piece_allocate(search, search->n_nodes * sizeof *all.root);
    all.cavity_of_root = ct_piece_allocate(search, search->n_nodes * sizeof *all.cavity_of_root);
    all.extreme = ct_piece_allocate(search, all.n_cavities * sizeof *all.extreme);
    if (search->has_failed) return;
    all.n_cavities = 0;
    for (uint32_t i = 0; i < search->n_nodes; i++) {
        if (CT_POLL_EVERY(i, 4096) && ct_piece_is_cancelled(search, "crossings", i)) return;
        all.root[i] = ct_find_root(search, i);
        all.cavity_of_root[i] = is_cavity(search, i) ? ++all.n_cavities : 0;
    }
    find_extremes(&all);
    for (uint32_t i = 0; i < search->n_nodes && !search->has_failed; i++) {
        if (!all.cavity_of_root[i]) continue;
        if (ct_piece_is_cancelled(search, "patches", all.cavity_of_root[i])) return;
        join_cavity(&all, i);
    }
    gather_volumes(search);
}

/* ---- parts ---- */

/* What the parts have of one kind, in the order in which it is met. */
struct item_list {
    uint32_t *part; /* [n] numbers of parts */
    uint32_t *item; /* [n] */
    uint32_t n;
};

/* Numbers pieces as they are met, and lists the parts in the order of passes, bodies and clusters. */
struct part_list {
    ct_piece_search *search;
    uint32_t *piece_of_root; /* CT_NO_NODE: not met yet */
    uint32_t *last_part;     /* [pieces met] 1 + number of the last part */
    ct_piece_part *parts;
    size_t n, capacity;
    size_t first_of_cluster; /* the number of the first part of the present cluster */
    struct item_list inside, crossings, triangles;
};

/* Returns the number of the present cluster's part to which a node belongs, which is listed if it is new. */
static uint32_t note_part(struct part_list *list, int pass, int b, uint32_t cluster, uint32_t node) {
    ct_piece_search *search = list->search;
    uint32_t *piece = &list->piece_of_root[ct_find_root(search, node)];
    if (*piece == CT_NO_NODE) {
        *piece = search->n_pieces++;
        list->last_part[*piece] = 0;
    }
    if (list->last_part[*piece] > list->first_of_cluster) return list->last_part[*piece] - 1; /* listed already */
    if (list->n == list->capacity) {
        const size_t larger = 2 * list->capacity + 64;
        ct_piece_part *parts = ct_piece_allocate(search, larger * sizeof *parts);
        if (!parts) return 0;
        if (list->n) memcpy(parts, list->parts, list->n * sizeof *parts);
        list->parts = parts;
        list->capacity = larger;
    }
    list->parts[list->n++] =
        (ct_piece_part){.piece = *piece, .pass = (uint8_t)pass, .body = (uint8_t)b, .cluster = cluster};
    list->last_part[*piece] = (uint32_t)list->n;
    return (uint32_t)list->n - 1;
}

static void note_item(struct item_list *list, uint32_t part, uint32_t item) {
    list->part[list->n] = part;
    list->item[list->n++] = item;
}

/* Triangles of a cluster come in rising order, so a part has a triangle already if that is its last one. */
static void note_triangle(struct part_list *list, uint32_t part, uint32_t t) {
    ct_piece_range *range = &list->parts[part].triangles; /* here: first is 1 + the last triangle */
    if (range->first == t + 1) return;
    range->first = t + 1;
    note_item(&list->triangles, part, t);
}

static void note_crossed_cluster(struct part_list *list, int pass, int b, uint32_t cluster) {
    ct_piece_search *search = list->search;
    const ct_piece_surface *surface = &search->surface[pass][b];
    const ct_topology *topology = search->body[b]->topology;
    const uint32_t *first_vertex = topology->clusters->first_vertex;
    const uint32_t node = search->vertex_nodes[pass][b][surface->crossed_as[cluster] - 1];
    for (uint32_t step = first_vertex[cluster]; step < first_vertex[cluster + 1]; step++) {
        const struct walked_vertex v = walk_to(topology, surface, cluster, step);
        if (v.winding)
            note_item(&list->inside, note_part(list, pass, b, cluster, node + v.vertex), step - first_vertex[cluster]);
    }
    const uint32_t *first_of =
        search->first_of[pass][b] + (size_t)(surface->crossed_as[cluster] - 1) * CT_CLUSTER_TRIANGLES;
    const uint32_t of_first = list->crossings.n;
    for (uint32_t i = first_of[0]; i < first_of[CT_CLUSTER_TRIANGLES]; i++) {
        if (CT_POLL_EVERY(i, 1024) && ct_piece_is_cancelled(search, "crossings", i)) return;
        note_item(&list->crossings, note_part(list, pass, b, cluster, ct_pair_node(search, pass, b, i)), i);
    }
    if (search->has_failed) return;
    uint32_t at = of_first;
    for (uint32_t t = 0; t < ct_placed_of(search, b, cluster)->n_triangles; t++) {
        const uint32_t triangle = cluster * CT_CLUSTER_TRIANGLES + t;
        if (ct_winding_at(search, pass, b, triangle, 1))
            note_triangle(list, note_part(list, pass, b, cluster, ct_corner_node(search, pass, b, triangle, 1)), t);
        for (; at < of_first + first_of[t + 1] - first_of[0]; at++) note_triangle(list, list->crossings.part[at], t);
    }
}

static void note_units(struct part_list *list, int pass, int b, uint32_t cluster) {
    ct_piece_search *search = list->search;
    const ct_piece_surface *surface = &search->surface[pass][b];
    const ct_topology *topology = search->body[b]->topology;
    const uint32_t first = topology->first_unit[cluster], end = topology->first_unit[cluster + 1];
    const uint8_t *unit_in_cluster = topology->unit_in_cluster + (size_t)cluster * CT_CLUSTER_TRIANGLES;
    uint32_t part_of_unit[CT_CLUSTER_TRIANGLES];
    for (uint32_t unit = first; unit < end; unit++) {
        if (!surface->of_unit[unit]) continue;
        part_of_unit[unit - first] = note_part(list, pass, b, cluster, search->unit_nodes[pass][b] + unit);
        note_item(&list->inside, part_of_unit[unit - first], unit - first);
    }
    if (search->has_failed) return;
    for (uint32_t t = 0; t < ct_placed_of(search, b, cluster)->n_triangles; t++)
        if (surface->of_unit[first + unit_in_cluster[t]]) note_triangle(list, part_of_unit[unit_in_cluster[t]], t);
}

static void note_cluster(struct part_list *list, int pass, int b, uint32_t cluster) {
    list->first_of_cluster = list->n;
    if (list->search->surface[pass][b].crossed_as[cluster])
        note_crossed_cluster(list, pass, b, cluster);
    else
        note_units(list, pass, b, cluster);
}

static void make_items(ct_piece_search *search, struct item_list *list, size_t most) {
    list->part = ct_piece_allocate(search, most * sizeof *list->part);
    list->item = ct_piece_allocate(search, most * sizeof *list->item);
}

/* Memory for as many items as there may be. */
static void make_item_lists(struct part_list *list) {
    ct_piece_search *search = list->search;
    size_t inside = 0, crossings = 0, triangles = 0;
    for (int pass = 0; pass < search->n_passes; pass++)
        for (int b = 0; b < 2; b++) {
            const ct_piece_surface *surface = &search->surface[pass][b];
            const uint32_t *first_unit = search->body[b]->topology->first_unit;
            crossings += surface->n_crossings;
            for (uint32_t k = 0; k < surface->n_added; k++) {
                const uint32_t cluster = surface->added[k];
                const ct_placed_cluster *placed = ct_placed_of(search, b, cluster);
                triangles += placed->n_triangles;
                inside +=
                    surface->crossed_as[cluster] ? placed->n_vertices : first_unit[cluster + 1] - first_unit[cluster];
            }
            /* A triangle is listed once for each piece that has some of it. */
            triangles += surface->n_crossings;
        }
    make_items(search, &list->inside, inside);
    make_items(search, &list->crossings, crossings);
    make_items(search, &list->triangles, triangles);
}

/* Sorts the parts by piece, and keeps their order otherwise. Returns [n_parts]: where each part went. */
static uint32_t *sort_parts(ct_piece_search *search, const struct part_list *list) {
    uint32_t *at = ct_piece_allocate(search, (search->n_pieces + 1) * sizeof *at);
    uint32_t *sorted_as = ct_piece_allocate(search, list->n * sizeof *sorted_as);
    search->parts = ct_piece_allocate(search, list->n * sizeof *search->parts);
    search->n_parts = list->n;
    if (search->has_failed) return NULL;
    memset(at, 0, (search->n_pieces + 1) * sizeof *at);
    for (size_t i = 0; i < list->n; i++) at[list->parts[i].piece + 1]++;
    for (uint32_t p = 0; p < search->n_pieces; p++) at[p + 1] += at[p];
    for (size_t i = 0; i < list->n; i++) {
        if (CT_POLL_EVERY(i, 1024) && ct_piece_is_cancelled(search, "patches", i)) return NULL;
        sorted_as[i] = at[list->parts[i].piece]++;
        search->parts[sorted_as[i]] = list->parts[i];
    }
    return sorted_as;
}

/* Where a part's range of items is. */
enum item_kind { INSIDE, CROSSINGS, TRIANGLES };

static ct_piece_range *range_of(ct_piece_part *part, enum item_kind kind) {
    return kind == INSIDE ? &part->inside : kind == CROSSINGS ? &part->crossings : &part->triangles;
}

/* Replaces the parts of a list's items by places in the order of the sorted parts, and sets the parts' ranges. */
static bool place_items(ct_piece_search *search, const uint32_t *sorted_as, struct item_list *list,
                        enum item_kind kind) {
    uint32_t first = 0;
    for (size_t i = 0; i < search->n_parts; i++) *range_of(&search->parts[i], kind) = (ct_piece_range){0, 0};
    for (uint32_t i = 0; i < list->n; i++) {
        if (CT_POLL_EVERY(i, 4096) && ct_piece_is_cancelled(search, "crossings", i)) return false;
        range_of(&search->parts[sorted_as[list->part[i]]], kind)->n++;
    }
    for (size_t i = 0; i < search->n_parts; i++) {
        ct_piece_range *range = range_of(&search->parts[i], kind);
        range->first = first;
        first += range->n;
        range->n = 0;
    }
    for (uint32_t i = 0; i < list->n; i++) {
        if (CT_POLL_EVERY(i, 1024) && ct_piece_is_cancelled(search, "crossings", i)) return false;
        ct_piece_range *range = range_of(&search->parts[sorted_as[list->part[i]]], kind);
        list->part[i] = range->first + range->n++;
    }
    return true;
}

static void sort_items(ct_piece_search *search, const uint32_t *sorted_as, struct part_list *list) {
    search->inside = ct_piece_allocate(search, list->inside.n * sizeof *search->inside);
    search->crossings = ct_piece_allocate(search, list->crossings.n * sizeof *search->crossings);
    search->triangles = ct_piece_allocate(search, list->triangles.n * sizeof *search->triangles);
    if (search->has_failed || !place_items(search, sorted_as, &list->inside, INSIDE) ||
        !place_items(search, sorted_as, &list->crossings, CROSSINGS) ||
        !place_items(search, sorted_as, &list->triangles, TRIANGLES))
        return;
    for (uint32_t i = 0; i < list->inside.n; i++) {
        if (CT_POLL_EVERY(i, 4096) && ct_piece_is_cancelled(search, "patches", search->n_pieces)) return;
        search->inside[list->inside.part[i]] = (uint16_t)list->inside.item[i];
    }
    for (uint32_t i = 0; i < list->crossings.n; i++) {
        if (CT_POLL_EVERY(i, 4096) && ct_piece_is_cancelled(search, "patches", search->n_pieces)) return;
        search->crossings[list->crossings.part[i]] = list->crossings.item[i];
    }
    for (uint32_t i = 0; i < list->triangles.n; i++) {
        if (CT_POLL_EVERY(i, 4096) && ct_piece_is_cancelled(search, "patches", search->n_pieces)) return;
        search->triangles[list->triangles.part[i]] = (uint8_t)list->triangles.item[i];
    }
}

static void list_parts(ct_piece_search *search) {
    const size_t bytes = search->n_nodes * sizeof(uint32_t);
    struct part_list list = {.search = search,
                             .piece_of_root = ct_piece_allocate(search, bytes),
                             .last_part = ct_piece_allocate(search, bytes)};
    make_item_lists(&list);
    if (search->has_failed) return;
    memset(list.piece_of_root, 0xff, bytes);
    for (int pass = 0; pass < search->n_passes; pass++)
        for (int b = 0; b < 2; b++)
            for (uint32_t k = 0; k < search->surface[pass][b].n_added && !search->has_failed; k++) {
                note_cluster(&list, pass, b, search->surface[pass][b].added[k]);
                ct_piece_is_cancelled(search, "patches", search->n_pieces);
            }
    if (search->has_failed || search->n_pieces < 2) return; /* the whole pair is one contact */
    const uint32_t *sorted_as = sort_parts(search, &list);
    if (sorted_as) sort_items(search, sorted_as, &list);
}

/* ---- one boundary ---- */

/* Sets *root to the root of a node; false: another node had another one. */
static bool is_same_root(ct_piece_search *search, uint32_t node, uint32_t *root) {
    const uint32_t own = ct_find_root(search, node);
    if (*root == CT_NO_NODE) *root = own;
    return own == *root;
}

static bool has_one_root(ct_piece_search *search, int b, uint32_t cluster, uint32_t *root) {
    const ct_piece_surface *surface = &search->surface[0][b];
    const ct_topology *topology = search->body[b]->topology;
    if (!surface->crossed_as[cluster]) {
        for (uint32_t unit = topology->first_unit[cluster]; unit < topology->first_unit[cluster + 1]; unit++)
            if (surface->of_unit[unit] && !is_same_root(search, search->unit_nodes[0][b] + unit, root)) return false;
        return true;
    }
    const uint32_t *first_vertex = topology->clusters->first_vertex;
    const uint32_t node = search->vertex_nodes[0][b][surface->crossed_as[cluster] - 1];
    for (uint32_t step = first_vertex[cluster]; step < first_vertex[cluster + 1]; step++) {
        const struct walked_vertex v = walk_to(topology, surface, cluster, step);
        if (v.winding && !is_same_root(search, node + v.vertex, root)) return false;
    }
    return true;
}

/* Whether all that list_parts would list is of one boundary, as of most pairs: there is no cavity then, and one piece. Of
 * one perturbation: two may find different pieces. */
static bool has_one_boundary(ct_piece_search *search) {
    uint32_t root = CT_NO_NODE;
    if (search->n_passes != 1) return false;
    for (uint32_t i = 0; i < search->surface[0][0].n_crossings; i++) {
        if (CT_POLL_EVERY(i, 4096) && ct_piece_is_cancelled(search, "crossings", i)) return false;
        if (!is_same_root(search, search->pair_nodes[0] + i, &root)) return false;
    }
    for (int b = 0; b < 2; b++)
        for (uint32_t k = 0; k < search->surface[0][b].n_added; k++) {
            if (CT_POLL_EVERY(k, 64) && ct_piece_is_cancelled(search, "patches", 1)) return false;
            if (!has_one_root(search, b, search->surface[0][b].added[k], &root)) return false;
        }
    return root != CT_NO_NODE;
}

bool ct_find_pieces(ct_piece_search *search) {
    search->n_pieces = 0;
    ct_enter_phase("finding patches");
    number_nodes(search);
    for (int pass = 0; pass < search->n_passes && !search->has_failed; pass++) {
        index_crossings(search, pass);
        if (!search->has_failed) find_partners(search, pass);
    }
    if (!search->has_failed) make_scratch(search);
    for (int pass = 0; pass < search->n_passes && !search->has_failed; pass++) {
        for (int b = 0; b < 2 && !search->has_failed; b++) unite_surface(search, pass, b);
        if (!search->has_failed) ct_join_holes(search, pass);
        if (search->has_failed) break;
        if (has_one_boundary(search)) {
            search->n_pieces = 1;
            return true;
        }
        ct_enter_phase("finding cavities");
        join_cavities(search, pass);
        ct_enter_phase("finding patches");
    }
    if (search->n_passes == 2 && !search->has_failed) ct_join_passes(search);
    if (!search->has_failed) list_parts(search);
    return !search->has_failed;
}

/* ---- what a part has ---- */

int32_t ct_set_piece_winding(const ct_piece_search *search, const ct_piece_part *part, int32_t *of_unit,
                             int32_t *of_vertex) {
    const ct_piece_surface *surface = &search->surface[part->pass][part->body];
    const ct_topology *topology = search->body[part->body]->topology;
    const uint16_t *inside = search->inside + part->inside.first;
    const uint32_t first = topology->clusters->first_vertex[part->cluster];
    int32_t most = 0;
    for (uint32_t i = 0; i < part->inside.n; i++) {
        int32_t winding;
        if (surface->crossed_as[part->cluster]) {
            const struct walked_vertex v = walk_to(topology, surface, part->cluster, first + inside[i]);
            of_vertex[v.vertex] = winding = v.winding;
        } else {
            of_unit[inside[i]] = winding = surface->of_unit[topology->first_unit[part->cluster] + inside[i]];
        }
        if (abs(winding) > most) most = abs(winding);
    }
    return most;
}

void ct_clear_piece_winding(const ct_piece_search *search, const ct_piece_part *part, int32_t *of_unit,
                            int32_t *of_vertex) {
    const ct_piece_surface *surface = &search->surface[part->pass][part->body];
    const ct_topology *topology = search->body[part->body]->topology;
    const uint16_t *inside = search->inside + part->inside.first;
    const uint32_t first = topology->clusters->first_vertex[part->cluster];
    for (uint32_t i = 0; i < part->inside.n; i++)
        if (surface->crossed_as[part->cluster])
            of_vertex[walk_to(topology, surface, part->cluster, first + inside[i]).vertex] = 0;
        else
            of_unit[inside[i]] = 0;
}

void ct_total_piece_crossings(const ct_piece_search *search, const ct_piece_part *part, ct_crossed_cluster *crossed) {
    const ct_piece_surface *surface = &search->surface[part->pass][part->body];
    crossed->n = 0;
    for (uint32_t i = 0; i < part->crossings.n; i++) {
        const ct_crossing *crossing = &surface->crossings[search->crossings[part->crossings.first + i]];
        const uint32_t triangle = crossing->triangle % CT_CLUSTER_TRIANGLES;
        uint8_t *number = &crossed->number[triangle];
        if (!*number) {
            crossed->triangles[crossed->n] = (ct_crossed_triangle){.triangle = triangle};
            *number = (uint8_t)++crossed->n;
        }
        ct_crossed_triangle *sum = &crossed->triangles[*number - 1];
        for (int k = 0; k < CT_INTEGRALS; k++) sum->integrals.of[k] += crossing->share.integrals.of[k];
        sum->rounding += crossing->share.rounding;
    }
}
