/* crossed.c - lists crossings, and goes from a cluster's crossings to the integrals of its crossed triangles and to the
 * winding numbers of its vertices relative to each other. */
#include <string.h>

#include "gpu/exact/exact_cpu.h"

void ct_list_crossing(ct_crossing_lists *lists, ct_budget *budget, int body, const ct_crossing *crossing) {
    ct_buffer *buffer = &lists->of_body[body];
    const size_t at = lists->n[body], needed = (at + 1) * sizeof(ct_crossing);
    if (needed > buffer->capacity && !ct_buffer_reserve(buffer, budget, needed + needed / 2 + 64 * sizeof(ct_crossing),
                                                        at * sizeof(ct_crossing), false)) {
        lists->is_full = true;
        return;
    }
    ((ct_crossing *)buffer->data)[at] = *crossing;
    lists->n[body]++;
}

static uint64_t key_of(const ct_crossing *c) {
    return (uint64_t)c->triangle << 32 | c->other;
}

/* Shell sort: lists are short, and neighbours were found one after another. */
static void sort_crossings(ct_crossing **list, size_t n) {
    static const size_t gaps[] = {8858, 3937, 1750, 701, 301, 132, 57, 23, 10, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (size_t gap = gaps[g], i = gap; i < n; i++) {
            ct_crossing *moved = list[i];
            const uint64_t key = key_of(moved);
            size_t at = i;
            for (; at >= gap && key_of(list[at - gap]) > key; at -= gap) list[at] = list[at - gap];
            list[at] = moved;
        }
}

static void add_crossing(ct_crossed_triangle *sum, const ct_crossing *crossing) {
    const ct_triangle_share *share = &crossing->share;
    for (int i = 0; i < CT_INTEGRALS; i++) sum->integrals.of[i] += share->integrals.of[i];
    sum->near_area += share->near_area;
    sum->rounding += share->rounding;
    for (int k = 0; k < 3; k++) sum->jump[k] += share->jump[k];
    for (int k = 0; k < 3; k++) sum->turn[k] += crossing->turn[k];
}

/* w at corner `to` less w at corner `from`. */
static int32_t jump_along(const ct_crossed_cluster *crossed, uint32_t triangle, uint32_t from, uint32_t to) {
    const uint32_t number = crossed->number[triangle];
    if (!number || from == to) return 0;
    const int32_t *jump = crossed->triangles[number - 1].jump;
    return to == (from + 1) % 3 ? jump[from] : -jump[to];
}

static void walk(const ct_topology *topology, uint32_t cluster, ct_crossed_cluster *crossed) {
    const uint32_t first = topology->clusters->first_vertex[cluster],
                   end = topology->clusters->first_vertex[cluster + 1];
    const uint16_t(*corners)[3] = topology->corners + (size_t)cluster * CT_CLUSTER_TRIANGLES;
    for (uint32_t i = first; i < end; i++) {
        const ct_walk_step step = topology->walk[i];
        const uint32_t t = ct_walk_triangle(step), from = ct_walk_from(step), to = ct_walk_to(step);
        const int32_t start = from == to ? 0 : crossed->winding[corners[t][from]];
        crossed->winding[corners[t][to]] = start + jump_along(crossed, t, from, to);
    }
}

/* Around every crossed triangle the jumps sum to 0, and along its edges they are the differences of the walk's numbers,
 * which other triangles may have determined. */
static bool is_consistent(const ct_topology *topology, uint32_t cluster, const ct_crossed_cluster *crossed) {
    const uint16_t(*corners)[3] = topology->corners + (size_t)cluster * CT_CLUSTER_TRIANGLES;
    for (uint32_t t = 0; t < CT_CLUSTER_TRIANGLES; t++) {
        if (!crossed->number[t]) continue;
        const int32_t *jump = crossed->triangles[crossed->number[t] - 1].jump;
        for (int k = 0; k < 3; k++)
            if (crossed->winding[corners[t][(k + 1) % 3]] - crossed->winding[corners[t][k]] != jump[k]) return false;
    }
    return true;
}

void ct_sum_crossings(uint32_t cluster, ct_crossing **crossings, size_t n, ct_crossed_cluster *crossed) {
    sort_crossings(crossings, n);
    memset(crossed->number, 0, sizeof crossed->number);
    crossed->n = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t triangle = crossings[i]->triangle - cluster * CT_CLUSTER_TRIANGLES;
        if (!crossed->number[triangle]) {
            memset(&crossed->triangles[crossed->n++], 0, sizeof *crossed->triangles);
            crossed->number[triangle] = (uint8_t)crossed->n;
        }
        add_crossing(&crossed->triangles[crossed->number[triangle] - 1], crossings[i]);
    }
}

bool ct_total_crossings(const ct_topology *topology, uint32_t cluster, ct_crossing **crossings, size_t n,
                        ct_crossed_cluster *crossed) {
    ct_sum_crossings(cluster, crossings, n, crossed);
    walk(topology, cluster, crossed);
    return is_consistent(topology, cluster, crossed);
}
