/* flood.c - spreads winding numbers over a body's units. */
#include "gpu/exact/flood.h"

#include <assert.h>

#include "gpu/exact/ray_k.h"

/* ---- one exact ray ---- */

struct ray {
    ct_flood *flood;
    const double *p;
    int32_t winding;
    bool has_failed;
};

static void hit_cluster(void *argument, uint32_t cluster) {
    struct ray *ray = argument;
    const ct_placed_cluster *c = ray->flood->place(ray->flood->argument, 1, cluster);
    if (!c) ray->has_failed = true;
    for (uint32_t t = 0; c && t < c->n_triangles; t++) {
        const double *const q[3] = {c->points[c->corners[t][0]], c->points[c->corners[t][1]],
                                    c->points[c->corners[t][2]]};
        if (ct_ray_may_hit(q, ray->p)) ray->winding += ct_ray_hit(ray->p, q, ray->flood->moved);
    }
}

/* The winding number of the other body at p, along +x. False: out of memory. */
static bool count_along_ray(ct_flood *flood, const double *p, int32_t *winding) {
    struct ray ray = {.flood = flood, .p = p};
    flood->n_rays++;
    ct_find_clusters_on_ray(flood->body[1], p, hit_cluster, &ray);
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
    flood->has_inside[flood->body[0]->topology->cluster_of_unit[unit]] = 1;
    flood->queue[tail] = unit;
    return tail + 1;
}

/* Spreads from one unit whose number is known. */
static void spread(ct_flood *flood, uint32_t seed, int32_t number) {
    const ct_topology *topology = flood->body[0]->topology;
    uint32_t head = 0, tail = set_unit(flood, seed, number, 0);
    while (head < tail) {
        const uint32_t unit = flood->queue[head++], cluster = topology->cluster_of_unit[unit];
        for (uint32_t i = topology->first_neighbour[unit]; i < topology->first_neighbour[unit + 1]; i++) {
            const ct_unit_neighbour n = topology->neighbours[i];
            const int32_t here = flood->of_unit[unit] + relative_winding(flood, cluster, n.own_vertex);
            const int32_t there = relative_winding(flood, topology->cluster_of_unit[n.unit], n.its_vertex);
            assert(!flood->is_known[n.unit] || flood->of_unit[n.unit] + there == here);
            if (!flood->is_known[n.unit]) tail = set_unit(flood, n.unit, here - there, tail);
        }
    }
}

static bool is_outside(const ct_node_box *box, const double *p) {
    for (int k = 0; k < 3; k++)
        if (p[k] < box->lo[k] || p[k] > box->hi[k]) return true;
    return false;
}

/* Finds a unit's number from one of its vertices: one outside the other body's box if there is one, else by a ray. */
static bool seed_unit(ct_flood *flood, uint32_t unit) {
    const ct_topology *topology = flood->body[0]->topology;
    const uint32_t cluster = topology->cluster_of_unit[unit];
    const uint8_t in_cluster = (uint8_t)(unit - topology->first_unit[cluster]);
    const ct_placed_cluster *c = flood->place(flood->argument, 0, cluster);
    if (!c) return false;
    const ct_node_box box = ct_exact_node_box(flood->body[1], flood->body[1]->topology->clusters->n_nodes - 1);
    const uint8_t *unit_in_cluster = topology->unit_in_cluster + (size_t)cluster * CT_CLUSTER_TRIANGLES;
    uint32_t vertex = UINT32_MAX;
    int32_t winding = 0;
    bool is_found = false;
    for (uint32_t t = 0; t < c->n_triangles && !is_found; t++)
        for (int k = 0; unit_in_cluster[t] == in_cluster && k < 3 && !is_found; k++) {
            const uint32_t v = c->corners[t][k];
            is_found = is_outside(&box, c->points[v]);
            if (is_found || vertex == UINT32_MAX) vertex = v;
        }
    if (!is_found && !count_along_ray(flood, c->points[vertex], &winding)) return false;
    spread(flood, unit, winding - relative_winding(flood, cluster, vertex));
    return true;
}

/* Marks the crossed units. */
static void mark_crossed(ct_flood *flood) {
    const ct_topology *topology = flood->body[0]->topology;
    for (uint32_t i = 0; i < flood->n_crossed; i++) {
        const uint32_t cluster = flood->crossed_clusters[i];
        const uint8_t *unit_in_cluster = topology->unit_in_cluster + (size_t)cluster * CT_CLUSTER_TRIANGLES;
        for (uint32_t t = 0; t < CT_CLUSTER_TRIANGLES; t++)
            if (flood->crossed[i].number[t]) flood->is_crossed[topology->first_unit[cluster] + unit_in_cluster[t]] = 1;
    }
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
        if (flood->is_done[i]) continue;
        const uint32_t unit = topology->first_of_component[i];
        const ct_node_box of_cluster = ct_exact_node_box(flood->body[0], topology->cluster_of_unit[unit]);
        if (ct_node_boxes_overlap(&of_cluster, &box) && !seed_unit(flood, unit)) return false;
    }
    return true;
}

bool ct_flood_winding_numbers(ct_flood *flood) {
    mark_crossed(flood);
    return seed_crossed_units(flood) && seed_other_components(flood);
}
