/* pieces.c - finds the pieces of an intersection: numbers the nodes, unites them along edges and curves, and lists each
 * piece's clusters. */
#include "gpu/exact/pieces.h"

#include <string.h>

#include "gpu/exact/piece_nodes.h"

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
    search->moments = ct_piece_allocate(search, n * sizeof *search->moments);
    if (search->has_failed) return;
    for (uint32_t i = 0; i < n; i++) search->parent[i] = i;
    memset(search->volumes, 0, n * sizeof *search->volumes);
    memset(search->slacks, 0, n * sizeof *search->slacks);
    memset(search->moments, 0, n * sizeof *search->moments);
}

/* Numbers the pairs of both bodies as body 0 lists them. */
static void number_pairs(ct_piece_search *search, int pass) {
    for (int b = 0; b < 2; b++) {
        const ct_piece_surface *surface = &search->surface[pass][b], *first = &search->surface[pass][0];
        uint32_t *pair_of = ct_piece_allocate(search, surface->n_crossings * sizeof *pair_of);
        if (!pair_of) return;
        for (uint32_t i = 0; i < surface->n_crossings; i++)
            pair_of[i] =
                b ? ct_first_crossing_from(first, surface->crossings[i].other, surface->crossings[i].triangle) : i;
        search->pair_of[pass][b] = pair_of;
    }
}

/* For the triangle with the most crossings of either perturbation: the search for what both find looks at the triangles
 * of either. */
static void make_scratch(ct_piece_search *search) {
    uint32_t most = 0;
    for (int pass = 0; pass < search->n_passes; pass++)
        for (int b = 0; b < 2; b++) {
            const ct_piece_surface *surface = &search->surface[pass][b];
            for (uint32_t i = 0, end; i < surface->n_crossings; i = end) {
                end = ct_end_of_crossings(surface, i);
                if (end - i > most) most = end - i;
            }
        }
    search->stretches = ct_piece_allocate(search, most * sizeof *search->stretches);
    search->edge_crossings = ct_piece_allocate(search, most * sizeof *search->edge_crossings);
}

/* ---- curves ---- */

/* Where a curve leaves a triangle over an edge, it goes on on the triangle across. */
static void unite_curves(ct_piece_search *search, int pass, int b) {
    const ct_piece_surface *surface = &search->surface[pass][b];
    for (uint32_t i = 0; i < surface->n_crossings; i++) {
        const ct_crossing *crossing = &surface->crossings[i];
        for (int k = 0; k < 3; k++) {
            if (crossing->share.jump[k] >= 0) continue; /* the one that starts there looks back */
            const uint32_t across = ct_triangle_across(search, b, crossing->triangle, k);
            ct_unite(search, ct_pair_node(search, pass, b, i),
                     ct_pair_node(search, pass, b, ct_first_crossing_from(surface, across, crossing->other)));
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

static void unite_edges(ct_piece_search *search, int pass, int b) {
    const ct_piece_surface *surface = &search->surface[pass][b];
    uint32_t first = 0;
    for (uint32_t i = 0; i < surface->n_crossed; i++) {
        const uint32_t cluster = surface->crossed_clusters[i];
        const ct_placed_cluster *placed = ct_placed_of(search, b, cluster);
        for (uint32_t t = 0; t < placed->n_triangles; t++) {
            const uint32_t triangle = cluster * CT_CLUSTER_TRIANGLES + t;
            uint32_t end = first;
            if (first < surface->n_crossings && surface->crossings[first].triangle == triangle)
                end = ct_end_of_crossings(surface, first);
            for (int k = 0; k < 3; k++) unite_edge(search, pass, b, triangle, first, end, k);
            first = end;
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
        for (uint32_t unit = topology->first_unit[cluster]; unit < topology->first_unit[cluster + 1]; unit++)
            if (surface->of_unit[unit]) unite_unit(search, pass, b, unit, table);
    }
}

static void unite_surface(ct_piece_search *search, int pass, int b) {
    const ct_piece_surface *surface = &search->surface[pass][b];
    const uint32_t n_vertices =
        search->vertex_nodes[pass][b][surface->n_crossed] - (surface->n_crossed ? search->vertex_nodes[pass][b][0] : 0);
    const struct vertex_table table = make_table(search, surface->n_crossed ? n_vertices : 0);
    if (search->has_failed) return;
    unite_curves(search, pass, b);
    unite_edges(search, pass, b);
    unite_vertices(search, pass, b, &table);
    unite_units(search, pass, b, &table);
}

/* ---- parts ---- */

/* Numbers pieces as they are met, and lists the parts in the order of passes, bodies and clusters. */
struct part_list {
    ct_piece_search *search;
    uint32_t *piece_of_root; /* CT_NO_NODE: not met yet */
    uint32_t *last_part;     /* [pieces met] 1 + number of the last part */
    ct_piece_part *parts;
    size_t n, capacity;
    size_t first_of_cluster; /* the number of the first part of the present cluster */
};

static void note_part(struct part_list *list, int pass, int b, uint32_t cluster, uint32_t node) {
    ct_piece_search *search = list->search;
    uint32_t *piece = &list->piece_of_root[ct_find_root(search, node)];
    if (*piece == CT_NO_NODE) {
        *piece = search->n_pieces++;
        list->last_part[*piece] = 0;
    }
    if (list->last_part[*piece] > list->first_of_cluster) return; /* listed already */
    if (list->n == list->capacity) {
        const size_t larger = 2 * list->capacity + 64;
        ct_piece_part *parts = ct_piece_allocate(search, larger * sizeof *parts);
        if (!parts) return;
        if (list->n) memcpy(parts, list->parts, list->n * sizeof *parts);
        list->parts = parts;
        list->capacity = larger;
    }
    list->parts[list->n++] = (ct_piece_part){*piece, (uint8_t)pass, (uint8_t)b, cluster};
    list->last_part[*piece] = (uint32_t)list->n;
}

static void note_crossed_cluster(struct part_list *list, int pass, int b, uint32_t cluster) {
    const ct_piece_search *search = list->search;
    const ct_piece_surface *surface = &search->surface[pass][b];
    const ct_topology *topology = search->body[b]->topology;
    const uint32_t *first_vertex = topology->clusters->first_vertex;
    for (uint32_t step = first_vertex[cluster]; step < first_vertex[cluster + 1]; step++) {
        const struct walked_vertex v = walk_to(topology, surface, cluster, step);
        if (v.winding)
            note_part(list, pass, b, cluster,
                      search->vertex_nodes[pass][b][surface->crossed_as[cluster] - 1] + v.vertex);
    }
    for (uint32_t i = ct_first_crossing_of_cluster(surface, cluster);
         i < surface->n_crossings && surface->crossings[i].triangle / CT_CLUSTER_TRIANGLES == cluster; i++)
        note_part(list, pass, b, cluster, ct_pair_node(search, pass, b, i));
}

static void note_cluster(struct part_list *list, int pass, int b, uint32_t cluster) {
    const ct_piece_search *search = list->search;
    const ct_piece_surface *surface = &search->surface[pass][b];
    const ct_topology *topology = search->body[b]->topology;
    list->first_of_cluster = list->n;
    if (surface->crossed_as[cluster]) {
        note_crossed_cluster(list, pass, b, cluster);
        return;
    }
    for (uint32_t unit = topology->first_unit[cluster]; unit < topology->first_unit[cluster + 1]; unit++)
        if (surface->of_unit[unit]) note_part(list, pass, b, cluster, search->unit_nodes[pass][b] + unit);
}

/* Sorts the parts by piece, and keeps their order otherwise. */
static void sort_parts(ct_piece_search *search, const struct part_list *list) {
    uint32_t *at = ct_piece_allocate(search, (search->n_pieces + 1) * sizeof *at);
    search->parts = ct_piece_allocate(search, list->n * sizeof *search->parts);
    search->n_parts = list->n;
    if (search->has_failed) return;
    memset(at, 0, (search->n_pieces + 1) * sizeof *at);
    for (size_t i = 0; i < list->n; i++) at[list->parts[i].piece + 1]++;
    for (uint32_t p = 0; p < search->n_pieces; p++) at[p + 1] += at[p];
    for (size_t i = 0; i < list->n; i++) search->parts[at[list->parts[i].piece]++] = list->parts[i];
}

static void list_parts(ct_piece_search *search) {
    const size_t bytes = search->n_nodes * sizeof(uint32_t);
    struct part_list list = {.search = search,
                             .piece_of_root = ct_piece_allocate(search, bytes),
                             .last_part = ct_piece_allocate(search, bytes)};
    if (search->has_failed) return;
    memset(list.piece_of_root, 0xff, bytes);
    for (int pass = 0; pass < search->n_passes; pass++)
        for (int b = 0; b < 2; b++)
            for (uint32_t k = 0; k < search->surface[pass][b].n_added && !search->has_failed; k++)
                note_cluster(&list, pass, b, search->surface[pass][b].added[k]);
    if (!search->has_failed) sort_parts(search, &list);
    for (uint32_t i = 0; i < search->n_nodes; i++) search->parent[i] = ct_find_root(search, i);
    for (uint32_t i = 0; i < search->n_nodes; i++) search->parent[i] = list.piece_of_root[search->parent[i]];
}

bool ct_find_pieces(ct_piece_search *search) {
    search->n_pieces = 0;
    number_nodes(search);
    make_scratch(search);
    for (int pass = 0; pass < search->n_passes && !search->has_failed; pass++) {
        number_pairs(search, pass);
        for (int b = 0; b < 2 && !search->has_failed; b++) unite_surface(search, pass, b);
        if (!search->has_failed) ct_join_holes(search, pass);
        if (!search->has_failed) ct_join_cavities(search, pass);
    }
    if (search->n_passes == 2 && !search->has_failed) ct_join_passes(search);
    if (!search->has_failed) list_parts(search);
    return !search->has_failed;
}

/* ---- winding numbers of a part ---- */

uint32_t ct_first_crossing_of_cluster(const ct_piece_surface *surface, uint32_t cluster) {
    return ct_first_crossing_from(surface, cluster * CT_CLUSTER_TRIANGLES, 0);
}

uint32_t ct_piece_of_crossing(const ct_piece_search *search, int pass, int b, uint32_t crossing) {
    return search->parent[ct_pair_node(search, pass, b, crossing)];
}

static bool make_crossed(ct_piece_search *search, const ct_piece_part *part, ct_crossed_cluster *crossed) {
    const ct_piece_surface *surface = &search->surface[part->pass][part->body];
    const ct_topology *topology = search->body[part->body]->topology;
    const uint32_t *first_vertex = topology->clusters->first_vertex, cluster = part->cluster;
    const uint32_t first = ct_first_crossing_of_cluster(surface, cluster);
    uint32_t end = first;
    while (end < surface->n_crossings && surface->crossings[end].triangle / CT_CLUSTER_TRIANGLES == cluster) end++;
    const uint32_t most = end - first < CT_CLUSTER_TRIANGLES ? end - first : CT_CLUSTER_TRIANGLES;
    memset(crossed, 0, sizeof *crossed);
    crossed->winding = ct_piece_allocate(search, count_vertices(topology, cluster) * sizeof *crossed->winding);
    crossed->triangles = ct_piece_allocate(search, most * sizeof *crossed->triangles);
    if (search->has_failed) return false;
    const uint32_t *pieces =
        search->parent + search->vertex_nodes[part->pass][part->body][surface->crossed_as[cluster] - 1];
    for (uint32_t step = first_vertex[cluster]; step < first_vertex[cluster + 1]; step++) {
        const struct walked_vertex v = walk_to(topology, surface, cluster, step);
        crossed->winding[v.vertex] = v.winding && pieces[v.vertex] == part->piece ? v.winding : 0;
    }
    for (uint32_t i = first; i < end; i++) {
        if (ct_piece_of_crossing(search, part->pass, part->body, i) != part->piece) continue;
        const uint32_t triangle = surface->crossings[i].triangle % CT_CLUSTER_TRIANGLES;
        uint8_t *number = &crossed->number[triangle];
        if (!*number) {
            crossed->triangles[crossed->n] = (ct_crossed_triangle){.triangle = triangle};
            *number = (uint8_t)++crossed->n;
        }
        ct_crossed_triangle *sum = &crossed->triangles[*number - 1];
        const ct_triangle_share *share = &surface->crossings[i].share;
        for (int k = 0; k < CT_INTEGRALS; k++) sum->integrals.of[k] += share->integrals.of[k];
        sum->rounding += share->rounding;
    }
    return true;
}

bool ct_make_piece_winding(ct_piece_search *search, const ct_piece_part *part, int32_t *of_unit,
                           ct_crossed_cluster *crossed) {
    const ct_piece_surface *surface = &search->surface[part->pass][part->body];
    const ct_topology *topology = search->body[part->body]->topology;
    const uint32_t first = topology->first_unit[part->cluster], end = topology->first_unit[part->cluster + 1];
    const uint32_t *pieces = search->parent + search->unit_nodes[part->pass][part->body];
    const bool is_crossed = surface->crossed_as[part->cluster];
    for (uint32_t unit = first; unit < end; unit++)
        of_unit[unit - first] =
            !is_crossed && surface->of_unit[unit] && pieces[unit] == part->piece ? surface->of_unit[unit] : 0;
    return !is_crossed || make_crossed(search, part, crossed);
}
