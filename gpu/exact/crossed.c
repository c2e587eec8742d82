/* crossed.c - lists crossings, and goes from a cluster's crossings to the integrals of its crossed triangles and to the
 * winding numbers of its vertices relative to each other. */
#include <string.h>

#include "gpu/exact/exact_cpu.h"

bool ct_grow_crossings(ct_crossing_lists *lists, ct_budget *budget, int body) {
    const size_t at = lists->n[body], needed = (at + 1) * sizeof(ct_crossing);
    if (ct_buffer_reserve(&lists->of_body[body], budget, needed + needed / 2 + 64 * sizeof(ct_crossing),
                          at * sizeof(ct_crossing), false))
        return true;
    lists->is_full = true;
    return false;
}

static uint64_t key_of(const ct_crossing *c) {
    return (uint64_t)c->triangle << 32 | c->other;
}

/* Shell sort. */
static void sort_long_list(ct_crossing **list, size_t n) {
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

enum { SHORT_LIST = 256 };

/* To their triangles' places, of which there are 128. Within one, where few are, by insertion. */
static void sort_short_list(uint32_t first_triangle, ct_crossing **list, size_t n) {
    ct_crossing *of_triangle[SHORT_LIST];
    uint32_t end[CT_CLUSTER_TRIANGLES] = {0}, sum = 0;
    uint64_t has_some[CT_CLUSTER_TRIANGLES / 64] = {0};
    for (size_t i = 0; i < n; i++) {
        const uint32_t t = list[i]->triangle - first_triangle;
        end[t]++;
        has_some[t / 64] |= 1ull << t % 64;
    }
    for (uint32_t w = 0; w < CT_CLUSTER_TRIANGLES / 64; w++)
        for (uint64_t left = has_some[w]; left; left &= left - 1) {
            const uint32_t t = 64 * w + (uint32_t)__builtin_ctzll(left), count = end[t];
            end[t] = sum;
            sum += count;
        }
    for (size_t i = 0; i < n; i++) of_triangle[end[list[i]->triangle - first_triangle]++] = list[i];
    for (size_t i = 0; i < n; i++) {
        ct_crossing *moved = of_triangle[i];
        const uint64_t key = key_of(moved);
        size_t at = i;
        for (; at > 0 && key_of(list[at - 1]) > key; at--) list[at] = list[at - 1];
        list[at] = moved;
    }
}

/* By triangle, then by the other one. */
static void sort_crossings(uint32_t cluster, ct_crossing **list, size_t n) {
    if (n <= SHORT_LIST)
        sort_short_list(cluster * CT_CLUSTER_TRIANGLES, list, n);
    else
        sort_long_list(list, n);
}

static void add_crossing(ct_crossed_triangle *sum, const ct_crossing *crossing) {
    const ct_triangle_share *share = &crossing->share;
    for (int i = 0; i < CT_INTEGRALS; i++) sum->integrals.of[i] += share->integrals.of[i];
    sum->near_area += share->near_area;
    sum->rounding += share->rounding;
    for (int k = 0; k < 3; k++) sum->jump[k] += share->jump[k];
    for (int k = 0; k < 3; k++) sum->turn[k] += crossing->turn[k];
}

/* w at corner `to` of a crossed triangle less w at corner `from`. */
static int32_t jump_along(const ct_crossed_cluster *crossed, uint32_t triangle, uint32_t from, uint32_t to) {
    if (from == to) return 0;
    const int32_t *jump = crossed->triangles[crossed->number[triangle] - 1].jump;
    return to == (from + 1) % 3 ? jump[from] : -jump[to];
}

static void walk(const ct_topology *topology, uint32_t cluster, ct_crossed_cluster *crossed) {
    const uint32_t first = topology->clusters->first_vertex[cluster],
                   end = topology->clusters->first_vertex[cluster + 1];
    const uint16_t(*const corners)[3] = topology->corners + (size_t)cluster * CT_CLUSTER_TRIANGLES;
    const ct_walk_step *const walk = topology->walk;
    int32_t *const winding = crossed->winding;
    for (uint32_t i = first; i < end; i++) {
        const uint32_t t = ct_walk_triangle(walk[i]), from = ct_walk_from(walk[i]), to = ct_walk_to(walk[i]);
        const int32_t start = from == to ? 0 : winding[corners[t][from]];
        const int32_t jump = crossed->number[t] ? jump_along(crossed, t, from, to) : 0;
        winding[corners[t][to]] = start + jump;
    }
}

/* Around every crossed triangle the jumps sum to 0, and along its edges they are the differences of the walk's numbers,
 * which other triangles may have determined. */
static bool is_consistent(const ct_topology *topology, uint32_t cluster, const ct_crossed_cluster *crossed) {
    const uint16_t(*corners)[3] = topology->corners + (size_t)cluster * CT_CLUSTER_TRIANGLES;
    for (uint32_t i = 0; i < crossed->n; i++) {
        const uint32_t t = crossed->triangles[i].triangle;
        const int32_t *jump = crossed->triangles[i].jump;
        for (int k = 0; k < 3; k++)
            if (crossed->winding[corners[t][(k + 1) % 3]] - crossed->winding[corners[t][k]] != jump[k]) return false;
    }
    return true;
}

void ct_sum_crossings(uint32_t cluster, ct_crossing **crossings, size_t n, ct_crossed_cluster *crossed) {
    sort_crossings(cluster, crossings, n);
    memset(crossed->number, 0, sizeof crossed->number);
    crossed->n = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t triangle = crossings[i]->triangle - cluster * CT_CLUSTER_TRIANGLES;
        if (!crossed->number[triangle]) {
            crossed->triangles[crossed->n++] = (ct_crossed_triangle){.triangle = triangle};
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
