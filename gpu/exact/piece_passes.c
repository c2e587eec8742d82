/* piece_passes.c - finds which pieces of one perturbation are pieces of the other one too: a point inside a piece lies,
 * but for an infinitesimal, in both. */
#include <math.h>
#include <string.h>

#include "gpu/exact/piece_nodes.h"

struct match {
    ct_piece_search *search;
    uint32_t *root;   /* [n_nodes] as each perturbation by itself has them */
    uint32_t *number; /* [n_nodes] of roots: 1 + index of the piece; 0: none, or without volume */
    ct_piece_facing (*facings)[CT_PIECE_FACINGS]; /* [pieces] by falling area */
    ct_boundary_hits hits;                        /* of the present ray */
};

/* ---- parts of triangles ---- */

static void note_facing(struct match *match, uint32_t root, const ct_piece_facing *facing) {
    if (match->number[root]) /* else it has no volume */
        ct_note_facing(match->facings[match->number[root] - 1], facing);
}

/* The parts of a triangle: by root, integrals of 1, x and y. */
struct parts {
    uint32_t *root;
    double (*integrals)[3];
    uint32_t n;
};

static void add_to_part(struct parts *parts, uint32_t root, const ct_integrals *integrals) {
    uint32_t i = 0;
    while (i < parts->n && parts->root[i] != root) i++;
    if (i == parts->n) {
        parts->root[parts->n++] = root;
        memset(parts->integrals[i], 0, sizeof parts->integrals[i]);
    }
    for (int k = 0; k < 3; k++) parts->integrals[i][k] += integrals->of[k];
}

static void note_triangle(struct match *match, int pass, int b, uint32_t triangle, uint32_t first, uint32_t end,
                          struct parts *parts) {
    const ct_piece_search *search = match->search;
    const int32_t winding = ct_winding_at(search, pass, b, triangle, 1);
    const double *p[3];
    if (!winding && first == end) return;
    ct_load_corners(search, b, triangle, p);
    parts->n = 0;
    if (winding) {
        const ct_integrals whole = ct_whole_integrals(winding);
        add_to_part(parts, match->root[ct_corner_node(search, pass, b, triangle, 1)], &whole);
    }
    for (uint32_t i = first; i < end; i++)
        add_to_part(parts, match->root[ct_pair_node(search, pass, b, i)],
                    &search->surface[pass][b].crossings[i].share.integrals);
    for (uint32_t i = 0; i < parts->n; i++) {
        ct_piece_facing facing;
        if (ct_make_facing(p, parts->integrals[i], (uint32_t)b, triangle, &facing))
            note_facing(match, parts->root[i], &facing);
    }
}

static void note_units(struct match *match, int pass, int b, uint32_t cluster) {
    ct_piece_search *search = match->search;
    const uint32_t *first_unit = search->body[b]->topology->first_unit;
    for (uint32_t unit = first_unit[cluster]; unit < first_unit[cluster + 1]; unit++) {
        if (!search->surface[pass][b].of_unit[unit]) continue;
        const ct_unit_summary *summary = ct_summarize_unit(search, pass, b, unit);
        const uint32_t root = match->root[search->unit_nodes[pass][b] + unit];
        for (int i = 0; summary && i < CT_PIECE_FACINGS && summary->facings[i].area > 0; i++)
            note_facing(match, root, &summary->facings[i]);
    }
}

static bool note_triangles(struct match *match, int pass, int b) {
    ct_piece_search *search = match->search;
    const ct_piece_surface *surface = &search->surface[pass][b];
    struct parts parts = {.root = ct_piece_allocate(search, ((size_t)surface->n_crossings + 1) * sizeof *parts.root),
                          .integrals =
                              ct_piece_allocate(search, ((size_t)surface->n_crossings + 1) * sizeof *parts.integrals)};
    uint32_t first = 0;
    for (uint32_t k = 0; k < surface->n_added && !search->has_failed; k++) {
        const ct_placed_cluster *placed = ct_placed_of(search, b, surface->added[k]);
        if (!surface->crossed_as[surface->added[k]]) {
            note_units(match, pass, b, surface->added[k]);
            continue;
        }
        for (uint32_t t = 0; t < placed->n_triangles; t++) {
            const uint32_t triangle = surface->added[k] * CT_CLUSTER_TRIANGLES + t;
            uint32_t end = first;
            while (end < surface->n_crossings && surface->crossings[end].triangle == triangle) end++;
            note_triangle(match, pass, b, triangle, first, end, &parts);
            first = end;
        }
    }
    return !search->has_failed;
}

/* ---- points ---- */

/* Pieces thinner than this, in units, only touch. */
static const double LEAST_THICKNESS = 4;

/* The point in a piece half-way between a part of its boundary and what the ray along +x meets of it next; other pieces
 * may touch it at either end. False: the piece is thin there. */
static bool find_inside(struct match *match, int pass, uint32_t root, const ct_piece_facing *facing, double p[3]) {
    const double near = facing->point[0] + LEAST_THICKNESS;
    double end = INFINITY;
    memcpy(p, facing->point, sizeof facing->point);
    ct_list_boundary_hits(match->search, pass, p, p[0] - LEAST_THICKNESS, match->root, &match->hits);
    for (uint32_t i = 0; i < match->hits.n; i++) {
        const ct_listed_hit *hit = &match->hits.of[i];
        if (hit->root != root || (hit->body == (int)facing->body && hit->triangle == facing->triangle)) continue;
        if (hit->x <= near) return false;
        end = fmin(end, hit->x);
    }
    if (end == INFINITY) return false;
    p[0] = 0.5 * (p[0] + end);
    return true;
}

/* True: the hit's boundary is entered, too, where the hit leaves it, so what lies between has no volume there. */
static bool is_flat_at(const ct_boundary_hits *hits, const ct_listed_hit *at) {
    for (uint32_t i = 0; i < hits->n; i++)
        if (hits->of[i].root == at->root && !hits->of[i].leaves && fabs(hits->of[i].x - at->x) <= LEAST_THICKNESS)
            return true;
    return false;
}

/* The root of the piece around p: that which the ray leaves first. CT_NO_NODE: there is none, or it leaves several at
 * once. */
static uint32_t find_around(struct match *match, int pass, const double p[3]) {
    const ct_boundary_hits *hits = &match->hits;
    const ct_listed_hit *first = NULL;
    ct_list_boundary_hits(match->search, pass, p, p[0], match->root, &match->hits);
    for (uint32_t i = 0; i < hits->n; i++) {
        const ct_listed_hit *hit = &hits->of[i];
        if (hit->leaves && !(first && first->x <= hit->x) && !is_flat_at(hits, hit)) first = hit;
    }
    for (uint32_t i = 0; i < hits->n && first; i++) {
        const ct_listed_hit *hit = &hits->of[i];
        if (hit->leaves && hit->root != first->root && hit->x <= first->x + LEAST_THICKNESS && !is_flat_at(hits, hit))
            return CT_NO_NODE;
    }
    return first ? first->root : (uint32_t)CT_NO_NODE;
}

/* Looks up a point behind the centroid of a part in the other perturbation. False: the part does not tell. */
static bool match_at(struct match *match, int pass, uint32_t root, const ct_piece_facing *facing) {
    ct_piece_search *search = match->search;
    double p[3];
    if (facing->area == 0) return false;
    const uint32_t node = ct_node_at(search, pass, (int)facing->body, facing->triangle, facing->at);
    if (node == CT_NO_NODE || match->root[node] != root || !find_inside(match, pass, root, facing, p)) return false;
    const uint32_t other = find_around(match, 1 - pass, p);
    if (search->has_failed || other == CT_NO_NODE) return false;
    ct_unite(search, root, other);
    return true;
}

static bool make_tables(struct match *match) {
    ct_piece_search *search = match->search;
    uint32_t n = 0;
    match->root = ct_piece_allocate(search, search->n_nodes * sizeof *match->root);
    match->number = ct_piece_allocate(search, search->n_nodes * sizeof *match->number);
    for (uint32_t i = 0; i < search->n_nodes && !search->has_failed; i++) {
        match->root[i] = ct_find_root(search, i);
        match->number[i] = fabs(search->volumes[i]) > search->slacks[i] ? ++n : 0;
    }
    match->facings = ct_piece_allocate(search, n * sizeof *match->facings);
    if (search->has_failed) return false;
    memset(match->facings, 0, n * sizeof *match->facings);
    return true;
}

void ct_join_passes(ct_piece_search *search) {
    struct match match = {.search = search};
    if (!make_tables(&match)) return;
    for (int pass = 0; pass < 2; pass++)
        for (int b = 0; b < 2; b++)
            if (!note_triangles(&match, pass, b)) return;
    const uint32_t of_second = search->vertex_nodes[1][0][0]; /* the first node of pass 1 */
    for (uint32_t i = 0; i < search->n_nodes; i++)
        for (int k = 0; match.number[i] && k < CT_PIECE_FACINGS; k++)
            if (match_at(&match, i >= of_second, i, &match.facings[match.number[i] - 1][k])) break;
}
