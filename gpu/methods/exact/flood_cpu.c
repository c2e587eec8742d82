/* flood_cpu.c - the winding numbers of the method `exact` on the CPU: spreads them over a body's units. */
#include <assert.h>
#include <math.h>

#include "gpu/base/cancel.h"
#include "gpu/methods/exact/pair_cpu.h"
#include "gpu/methods/exact/predicates_k.h"

/* Units, or components, between two polls: some 50 us; clusters with their crossed triangles: some 20 us. */
enum { UNIT_POLL = 512, CLUSTER_POLL = 64 };

/* ---- one exact ray ---- */

struct ray {
    ct_flood *flood;
    const double *p;
    double far[3];
    int axis;
    int32_t winding;
    bool has_failed;
};

/* Where a point lies, seen from the ray's start. A triangle's box has the ray in it if its corners together have all of
 * these. */
enum { IS_AHEAD = 1, IS_LEFT = 2, IS_RIGHT = 4, IS_ABOVE = 8, IS_BELOW = 16, IS_AROUND = 31 };

static inline uint8_t place_of(const double *q, const double *p, int axis, bool is_up) {
    const int u = (axis + 1) % 3, v = (axis + 2) % 3;
    const int is_ahead = is_up ? q[axis] >= p[axis] : q[axis] <= p[axis];
    return (uint8_t)(is_ahead * IS_AHEAD | (q[u] >= p[u]) * IS_LEFT | (q[u] <= p[u]) * IS_RIGHT |
                     (q[v] >= p[v]) * IS_ABOVE | (q[v] <= p[v]) * IS_BELOW);
}

static void hit_cluster(void *argument, uint32_t cluster) {
    struct ray *ray = argument;
    if (ray->has_failed) return;
    const ct_placed_cluster *c = ct_is_cancelled() ? NULL : ray->flood->place(ray->flood->argument, 1, cluster);
    const bool is_up = ray->far[ray->axis] > 0;
    uint8_t place[3 * CT_CLUSTER_TRIANGLES];
    if (!c) {
        ray->has_failed = true;
        return;
    }
    for (uint32_t v = 0; v < c->n_vertices; v++) place[v] = place_of(c->points[v], ray->p, ray->axis, is_up);
    for (uint32_t t = 0; t < c->n_triangles; t++) {
        const uint16_t *corner = c->corners[t];
        if ((place[corner[0]] | place[corner[1]] | place[corner[2]]) != IS_AROUND) continue;
        const double *const q[3] = {c->points[corner[0]], c->points[corner[1]], c->points[corner[2]]};
        ray->winding += ct_ray_hit_towards(ray->p, ray->far, q, ray->flood->moved);
    }
}

/* The winding number of the other body at p, a point in its box, along the shortest way out of the box: on a wide slab
 * that is up or down, past a cluster or two. False: out of memory. */
static bool count_along_ray(ct_flood *flood, const double *p, const ct_node_box *box, int32_t *winding) {
    struct ray ray = {.flood = flood, .p = p, .far = {p[0], p[1], p[2]}};
    double least = INFINITY, end = 0;
    for (int k = 0; k < 3; k++) {
        const double up = box->hi[k] - p[k], down = p[k] - box->lo[k];
        if (fmin(up, down) >= least) continue;
        least = fmin(up, down);
        ray.axis = k;
        end = up <= down ? CT_LATTICE_LIMIT : -CT_LATTICE_LIMIT;
    }
    ray.far[ray.axis] = end;
    flood->n_rays++;
    ct_find_clusters_towards(flood->body[1], p, ray.far, hit_cluster, &ray);
    *winding = ray.winding;
    return !ray.has_failed;
}

/* ---- units ---- */

/* The number of a vertex of a cluster relative to the first one of its unit. */
static int32_t relative_winding(const ct_flood *flood, uint32_t cluster, uint32_t vertex) {
    const uint32_t as = flood->crossed_as[cluster];
    return as ? flood->crossed[as - 1].winding[vertex] : 0;
}

/* Sets a unit's number, and queues it if the flood goes on from there. */
static uint32_t set_unit(ct_flood *flood, uint32_t unit, int32_t number, uint32_t tail) {
    flood->is_known[unit] = 1;
    flood->of_unit[unit] = number;
    if (!number && !flood->is_crossed[unit]) return tail;
    const uint32_t cluster = flood->body[0]->topology->cluster_of_unit[unit];
    flood->has_inside[cluster / 64] |= 1ull << cluster % 64;
    flood->queue[tail] = unit;
    return tail + 1;
}

/* Spreads from one unit whose number is known. False: cancelled. */
static bool spread(ct_flood *flood, uint32_t seed, int32_t number) {
    const ct_topology *topology = flood->body[0]->topology;
    uint32_t head = 0, tail = set_unit(flood, seed, number, 0), n_looked_at = 0;
    while (head < tail) {
        const uint32_t unit = flood->queue[head++], cluster = topology->cluster_of_unit[unit];
        for (uint32_t i = topology->first_neighbour[unit]; i < topology->first_neighbour[unit + 1]; i++) {
            const ct_unit_neighbour n = topology->neighbours[i];
            if (CT_POLL_EVERY(++n_looked_at, 4 * UNIT_POLL) && ct_is_cancelled()) return false;
            const int32_t here = flood->of_unit[unit] + relative_winding(flood, cluster, n.own_vertex);
            const int32_t there = relative_winding(flood, topology->cluster_of_unit[n.unit], n.its_vertex);
            assert(!flood->is_known[n.unit] || flood->of_unit[n.unit] + there == here);
            if (!flood->is_known[n.unit]) tail = set_unit(flood, n.unit, here - there, tail);
        }
    }
    return true;
}

static bool is_outside(const ct_node_box *box, const double *p) {
    int is_out = 0; /* all are compared: which is out is hard to guess for a branch */
    for (int k = 0; k < 3; k++) is_out |= (p[k] < box->lo[k]) | (p[k] > box->hi[k]);
    return is_out;
}

/* Any vertex of a unit, and one outside a box if there is one: then true. */
static bool find_outside(const ct_topology *topology, const ct_placed_cluster *c, uint32_t unit, const ct_node_box *box,
                         uint32_t *vertex) {
    const uint32_t first = topology->first_unit[c->cluster];
    *vertex = UINT32_MAX;
    if (topology->first_unit[c->cluster + 1] - first == 1) { /* most clusters */
        for (*vertex = 0; *vertex < c->n_vertices; (*vertex)++)
            if (is_outside(box, c->points[*vertex])) return true;
        *vertex = 0;
        return false;
    }
    const uint8_t *unit_in_cluster = topology->unit_in_cluster + (size_t)c->cluster * CT_CLUSTER_TRIANGLES;
    for (uint32_t t = 0; t < c->n_triangles; t++)
        for (int k = 0; unit_in_cluster[t] == unit - first && k < 3; k++) {
            const uint32_t v = c->corners[t][k];
            const bool is_found = is_outside(box, c->points[v]);
            if (is_found || *vertex == UINT32_MAX) *vertex = v;
            if (is_found) return true;
        }
    return false;
}

/* Finds a unit's number from one of its vertices: one outside the other body's box if there is one, else by a ray. */
static bool seed_unit(ct_flood *flood, uint32_t unit) {
    if (ct_is_cancelled()) return false;
    const ct_topology *topology = flood->body[0]->topology;
    const uint32_t cluster = topology->cluster_of_unit[unit];
    const ct_placed_cluster *c = flood->place(flood->argument, 0, cluster);
    if (!c) return false;
    const ct_node_box box = ct_exact_node_box(flood->body[1], flood->body[1]->topology->clusters->n_nodes - 1);
    uint32_t vertex;
    int32_t winding = 0;
    if (!find_outside(topology, c, unit, &box, &vertex) && !count_along_ray(flood, c->points[vertex], &box, &winding))
        return false;
    return spread(flood, unit, winding - relative_winding(flood, cluster, vertex));
}

/* Marks the crossed units. False: cancelled. */
static bool mark_crossed(ct_flood *flood) {
    const ct_topology *topology = flood->body[0]->topology;
    for (uint32_t i = 0; i < flood->n_crossed; i++) {
        if (CT_POLL_EVERY(i, CLUSTER_POLL) && ct_is_cancelled()) return false;
        const uint32_t cluster = flood->crossed_clusters[i];
        const uint8_t *unit_in_cluster = topology->unit_in_cluster + (size_t)cluster * CT_CLUSTER_TRIANGLES;
        const ct_crossed_cluster *crossed = &flood->crossed[i];
        for (uint32_t k = 0; k < crossed->n; k++)
            flood->is_crossed[topology->first_unit[cluster] + unit_in_cluster[crossed->triangles[k].triangle]] = 1;
    }
    return true;
}

static bool seed_crossed_units(ct_flood *flood) {
    const ct_topology *topology = flood->body[0]->topology;
    for (uint32_t i = 0; i < flood->n_crossed; i++) {
        const uint32_t cluster = flood->crossed_clusters[i];
        for (uint32_t u = topology->first_unit[cluster]; u < topology->first_unit[cluster + 1]; u++)
            if (flood->is_crossed[u] && !flood->is_known[u] && !seed_unit(flood, u)) return false;
    }
    return true;
}

static void mark_crossed_components(ct_flood *flood) {
    const ct_topology *topology = flood->body[0]->topology;
    for (uint32_t i = 0; i < flood->n_crossed; i++) {
        const uint32_t cluster = flood->crossed_clusters[i];
        for (uint32_t u = topology->first_unit[cluster]; u < topology->first_unit[cluster + 1]; u++)
            if (flood->is_crossed[u]) flood->is_done[topology->component_of_unit[u]] = 1;
    }
}

/* Components that nothing crosses. One inside the other body has all of its clusters' boxes meet that body's. */
static bool seed_other_components(ct_flood *flood) {
    const ct_topology *topology = flood->body[0]->topology;
    const ct_node_box box = ct_exact_node_box(flood->body[1], flood->body[1]->topology->clusters->n_nodes - 1);
    mark_crossed_components(flood);
    for (uint32_t i = 0; i < topology->n_components; i++) {
        if (CT_POLL_EVERY(i, UNIT_POLL) && ct_is_cancelled()) return false;
        if (flood->is_done[i]) continue;
        const uint32_t unit = topology->first_of_component[i];
        const ct_node_box of_cluster = ct_exact_node_box(flood->body[0], topology->cluster_of_unit[unit]);
        if (ct_node_boxes_overlap(&of_cluster, &box) && !seed_unit(flood, unit)) return false;
    }
    return true;
}

bool ct_flood_winding_numbers(ct_flood *flood) {
    return mark_crossed(flood) && seed_crossed_units(flood) && seed_other_components(flood);
}

/* ---- both bodies ---- */

/* On the driving thread. Body i of the flood is part `first`, or the other one. */
struct placer {
    ct_exact_pair *exact;
    int first;
};

static const ct_placed_cluster *place_for_flood(void *argument, int i, uint32_t cluster) {
    const struct placer *placer = argument;
    return ct_exact_place(placer->exact, i ? 1 - placer->first : placer->first, cluster);
}

static void find_winding_numbers(ct_exact_pair *exact, int b) {
    ct_exact_surface *surface = &exact->part[b].surface[exact->pass];
    const ct_topology *topology = exact->part[b].body.topology;
    const uint32_t n_clusters = topology->clusters->n;
    struct placer placer = {exact, b};
    surface->of_unit = ct_exact_allocate_zeroed(exact, topology->n_units * sizeof *surface->of_unit);
    ct_flood flood = {.body = {&exact->part[b].body, &exact->part[1 - b].body},
                      .moved = b == 0 ? ct_exact_moved_in(exact->pass) : -ct_exact_moved_in(exact->pass),
                      .crossed_as = surface->crossed_as,
                      .crossed = surface->crossed,
                      .crossed_clusters = surface->crossed_clusters,
                      .n_crossed = surface->n_crossed,
                      .place = place_for_flood,
                      .argument = &placer,
                      .is_crossed = ct_exact_allocate_zeroed(exact, topology->n_units),
                      .is_known = ct_exact_allocate_zeroed(exact, topology->n_units),
                      .is_done = ct_exact_allocate_zeroed(exact, topology->n_components),
                      .queue = ct_exact_allocate(exact, topology->n_units * sizeof *flood.queue),
                      .of_unit = surface->of_unit,
                      .has_inside = ct_exact_allocate_zeroed(exact, ct_count_set_words(n_clusters) * sizeof(uint64_t))};
    if (exact->has_failed) return;
    if (!ct_flood_winding_numbers(&flood)) {
        exact->has_failed = true;
        return;
    }
    exact->pair->rays += exact->is_twin ? 2 * flood.n_rays : flood.n_rays;
    surface->n_added = ct_count_set(flood.has_inside, n_clusters);
    surface->added = ct_exact_allocate(exact, surface->n_added * sizeof *surface->added);
    surface->sums = ct_exact_allocate_zeroed(exact, surface->n_added * sizeof *surface->sums);
    if (exact->has_failed) return;
    ct_list_set(flood.has_inside, n_clusters, surface->added);
}

/* Lists the clusters inside that have no coordinates yet; ct_exact_sum places them. */
static void list_added(ct_exact_pair *exact, int b) {
    const ct_exact_surface *surface = &exact->part[b].surface[exact->pass];
    for (uint32_t k = 0; k < surface->n_added && !exact->has_failed; k++) {
        if (CT_POLL_EVERY(k, CT_CLUSTER_POLL) && ct_exact_is_cancelled(exact, NULL, 0)) return;
        ct_exact_list_cluster(exact, b, surface->added[k], false);
    }
}

void ct_exact_flood(ct_exact_pair *exact) {
    if (exact->has_failed) return;
    ct_enter_phase("finding winding numbers");
    if (exact->is_self) ct_exact_find_own_winding(exact);
    for (int b = 0; !exact->is_self && b < ct_exact_count_surfaces(exact) && !exact->has_failed; b++)
        find_winding_numbers(exact, b);
    for (int b = 0; b < 2 && !exact->has_failed; b++) list_added(exact, b);
}
