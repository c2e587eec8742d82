/* cavities.c - finds boundaries with a negative volume, which are those of cavities, and the boundary around each. */
#include "gpu/exact/piece_nodes.h"

/* The boundaries of one perturbation's intersection, before cavities are joined. */
struct boundaries {
    ct_piece_search *search;
    int pass;
    uint32_t *root;           /* [n_nodes] */
    uint32_t *cavity_of_root; /* [n_nodes] 1 + number of a cavity, or 0 */
    double (*extreme)[3];     /* [n_cavities] the point with the largest x, then y, then z */
    uint32_t n_cavities;
};

/* ---- volumes ---- */

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

/* ---- extreme points ---- */

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

/* ---- joining ---- */

/* The ray from a cavity's extreme point along +x leaves the cavity at once. */
static void join_cavity(const struct boundaries *all, uint32_t root) {
    const double *p = all->extreme[all->cavity_of_root[root] - 1];
    const ct_boundary_hit hit = ct_find_next_boundary(all->search, all->pass, p, p[0], all->root, root);
    if (hit.node != CT_NO_NODE) ct_unite(all->search, root, hit.node);
}

void ct_join_cavities(ct_piece_search *search, int pass) {
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
