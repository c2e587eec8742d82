/* crossed.c - lists crossings, and goes from a cluster's crossings to the integrals of its crossed triangles and to the
 * winding numbers of its vertices relative to each other. */
#include <stddef.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/exact/exact_cpu.h"

bool ct_grow_crossings(ct_crossing_lists *lists, ct_budget *budget, int body) {
    const size_t at = lists->n[body], needed = (at + 1) * sizeof(ct_crossing);
    if (ct_buffer_reserve(&lists->of_body[body], budget, needed + needed / 2 + 64 * sizeof(ct_crossing),
                          at * sizeof(ct_crossing), false))
        return true;
    lists->is_full = true;
    return false;
}

/* Up to so many crossings a list is sorted by keys of 64 bits. */
enum { SHORT_LIST = 255 };

/* Rises with the triangle, then with the other one, then with the place in the list, which are its lowest eight bits.
 */
static inline uint64_t pack_key(const ct_crossing *c, uint32_t first_triangle, size_t at) {
    return (uint64_t)(c->triangle - first_triangle) << 40 | (uint64_t)c->other << 8 | at;
}

/* By counting triangles, of which there are 128. Within one, where few are, by insertion. */
static void sort_keys(const uint64_t *keys, size_t n, uint64_t *sorted) {
    uint8_t end[CT_CLUSTER_TRIANGLES] = {0}, sum = 0;
    uint64_t has_some[CT_CLUSTER_TRIANGLES / 64] = {0};
    for (size_t i = 0; i < n; i++) {
        const uint32_t t = (uint32_t)(keys[i] >> 40);
        end[t]++;
        has_some[t / 64] |= 1ull << t % 64;
    }
    for (uint32_t w = 0; w < CT_CLUSTER_TRIANGLES / 64; w++)
        for (uint64_t left = has_some[w]; left; left &= left - 1) {
            const uint32_t t = 64 * w + (uint32_t)__builtin_ctzll(left);
            const uint8_t count = end[t];
            end[t] = sum;
            sum = (uint8_t)(sum + count);
        }
    for (size_t i = 0; i < n; i++) sorted[end[keys[i] >> 40]++] = keys[i];
    for (size_t i = 1; i < n; i++) {
        const uint64_t moved = sorted[i];
        size_t at = i;
        for (; at > 0 && sorted[at - 1] > moved; at--) sorted[at] = sorted[at - 1];
        sorted[at] = moved;
    }
}

static void sort_short_list(uint32_t first_triangle, ct_crossing **list, size_t n) {
    uint64_t keys[SHORT_LIST], sorted[SHORT_LIST];
    ct_crossing *unsorted[SHORT_LIST];
    for (size_t i = 0; i < n; i++) {
        unsorted[i] = list[i];
        keys[i] = pack_key(list[i], first_triangle, i);
    }
    sort_keys(keys, n, sorted);
    for (size_t i = 0; i < n; i++) list[i] = unsorted[sorted[i] & 255];
}

/* Crossings between two polls: some 50 us, where they are not in the cache. */
enum { CROSSING_POLL = 2048 };

/* Moves those whose other triangle is `last` or before it to the front. Returns their number. */
static size_t split_list(ct_crossing **list, size_t n, uint32_t last) {
    size_t front = 0;
    for (size_t i = 0; i < n; i++) {
        ct_crossing *c = list[i];
        if (c->other > last) continue;
        list[i] = list[front];
        list[front++] = c;
    }
    return front;
}

/* Of crossings of one triangle, by halving the range of the others' numbers: at most 32 times. False: cancelled. */
static bool sort_others(uint32_t first_triangle, ct_crossing **list, size_t n) {
    while (n > SHORT_LIST) {
        uint32_t least = UINT32_MAX, most = 0;
        for (size_t i = 0; i < n; i++) {
            if (CT_POLL_EVERY(i, CROSSING_POLL) && ct_is_cancelled_at("crossings", n)) return false;
            least = list[i]->other < least ? list[i]->other : least;
            most = list[i]->other > most ? list[i]->other : most;
        }
        if (least == most) return true;
        size_t front = 0;
        const uint32_t middle = least + (most - least) / 2;
        for (size_t at = 0; at < n; at += CROSSING_POLL) {
            if (ct_is_cancelled_at("crossings", n)) return false;
            const size_t left = n - at < CROSSING_POLL ? n - at : CROSSING_POLL;
            const size_t found = split_list(list + at, left, middle);
            for (size_t i = 0; i < found; i++) { /* to the front of all, past which only later ones are */
                ct_crossing *c = list[at + i];
                list[at + i] = list[front];
                list[front++] = c;
            }
        }
        if (!sort_others(first_triangle, list, front)) return false;
        list += front;
        n -= front;
    }
    if (n > 1) sort_short_list(first_triangle, list, n);
    return true;
}

/* By counting triangles, in place; then each triangle's by the others. False: cancelled. */
static bool sort_long_list(uint32_t first_triangle, ct_crossing **list, size_t n) {
    size_t at[CT_CLUSTER_TRIANGLES] = {0}, end[CT_CLUSTER_TRIANGLES], sum = 0, n_moved = 0;
    for (size_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i, CROSSING_POLL) && ct_is_cancelled_at("crossings", n)) return false;
        at[list[i]->triangle - first_triangle]++;
    }
    for (uint32_t t = 0; t < CT_CLUSTER_TRIANGLES; t++) {
        const size_t count = at[t];
        at[t] = sum;
        end[t] = sum += count;
    }
    for (uint32_t t = 0; t < CT_CLUSTER_TRIANGLES; t++)
        while (at[t] < end[t]) {
            ct_crossing *c = list[at[t]];
            const uint32_t to = c->triangle - first_triangle;
            if (CT_POLL_EVERY(++n_moved, CROSSING_POLL) && ct_is_cancelled_at("crossings", n)) return false;
            list[at[t]] = list[at[to]];
            list[at[to]++] = c;
        }
    for (uint32_t t = 0; t < CT_CLUSTER_TRIANGLES; t++) {
        const size_t first = t ? end[t - 1] : 0;
        if (!sort_others(first_triangle, list + first, end[t] - first)) return false;
    }
    return true;
}

/* By triangle, then by the other one. False: cancelled. */
static bool sort_crossings(uint32_t cluster, ct_crossing **list, size_t n) {
    const uint32_t first_triangle = cluster * CT_CLUSTER_TRIANGLES;
    if (n > SHORT_LIST) return sort_long_list(first_triangle, list, n);
    sort_short_list(first_triangle, list, n);
    return true;
}

/* As doubles side by side: integrals, near_area and rounding of a share and of a sum. */
enum { SHARE_DOUBLES = CT_INTEGRALS + 2 };
_Static_assert(offsetof(ct_triangle_share, rounding) == (SHARE_DOUBLES - 1) * sizeof(double), "doubles come first");
_Static_assert(offsetof(ct_crossed_triangle, rounding) == (SHARE_DOUBLES - 1) * sizeof(double), "doubles come first");

typedef int64_t double_bits __attribute__((vector_size(16)));
typedef double doubles2 __attribute__((vector_size(16)));

/* Adds to a sum, or begins one. Which of these is hard to guess, so no branch depends on it. */
static void add_crossing(ct_crossed_triangle *sum, const ct_crossing *crossing, bool begins) {
    const ct_triangle_share *share = &crossing->share;
    const double_bits kept = {begins ? 0 : -1, begins ? 0 : -1};
    double *to = sum->integrals.of;
    const double *from = share->integrals.of;
    for (int i = 0; i < SHARE_DOUBLES; i += 2) {
        doubles2 a, b;
        memcpy(&a, to + i, sizeof a);
        memcpy(&b, from + i, sizeof b);
        a = (doubles2)((double_bits)a & kept) + b;
        memcpy(to + i, &a, sizeof a);
    }
    for (int k = 0; k < 3; k++) sum->jump[k] = (sum->jump[k] & (int32_t)kept[0]) + share->jump[k];
    for (int k = 0; k < 3; k++) sum->turn[k] = (sum->turn[k] & (int32_t)kept[0]) + crossing->turn[k];
}

/* Along a step of a walk: from one corner to another of a triangle that is not crossed, or of a crossed one. */
enum { STEPS = 16 }; /* 4 from + to, as in ct_walk_step */

/* w at the end of each step less w at its start, for the triangles of crossed->number: first those that are not
 * crossed. */
static void list_jumps(const ct_crossed_cluster *crossed, int32_t (*jumps)[STEPS]) {
    memset(jumps[0], 0, sizeof jumps[0]);
    for (uint32_t i = 0; i < crossed->n; i++) {
        const int32_t *jump = crossed->triangles[i].jump;
        int32_t *of = jumps[i + 1];
        of[0] = of[5] = of[10] = 0;
        of[1] = jump[0]; /* from corner 0 to 1 */
        of[6] = jump[1];
        of[8] = jump[2];
        of[4] = -jump[0];
        of[9] = -jump[1];
        of[2] = -jump[2];
    }
}

static void walk(const ct_topology *topology, uint32_t cluster, ct_crossed_cluster *crossed) {
    const uint32_t first = topology->clusters->first_vertex[cluster],
                   end = topology->clusters->first_vertex[cluster + 1];
    const uint16_t(*const corners)[3] = topology->corners + (size_t)cluster * CT_CLUSTER_TRIANGLES;
    const ct_walk_step *const walk = topology->walk;
    int32_t *const winding = crossed->winding;
    int32_t jumps[CT_CLUSTER_TRIANGLES + 1][STEPS];
    list_jumps(crossed, jumps);
    for (uint32_t i = first; i < end; i++) {
        const uint32_t t = ct_walk_triangle(walk[i]), from = ct_walk_from(walk[i]), to = ct_walk_to(walk[i]);
        const int32_t start = from == to ? 0 : winding[corners[t][from]];
        winding[corners[t][to]] = start + jumps[crossed->number[t]][walk[i] % STEPS];
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
    const uint32_t first_triangle = cluster * CT_CLUSTER_TRIANGLES;
    uint32_t n_crossed = 0;
    crossed->n = 0;
    memset(crossed->number, 0, sizeof crossed->number);
    if (!sort_crossings(cluster, crossings, n)) return;
    uint32_t before = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i + 1, CROSSING_POLL) && ct_is_cancelled_at("crossings", i)) {
            memset(crossed->number, 0, sizeof crossed->number); /* of n triangles, which are none */
            return;
        }
        const uint32_t triangle = crossings[i]->triangle - first_triangle;
        const bool begins = triangle != before;
        n_crossed += begins;
        add_crossing(&crossed->triangles[n_crossed - 1], crossings[i], begins);
        crossed->triangles[n_crossed - 1].triangle = before = triangle;
        crossed->number[triangle] = (uint8_t)n_crossed;
    }
    crossed->n = n_crossed;
}

bool ct_total_crossings(const ct_topology *topology, uint32_t cluster, ct_crossing **crossings, size_t n,
                        ct_crossed_cluster *crossed) {
    ct_sum_crossings(cluster, crossings, n, crossed);
    walk(topology, cluster, crossed);
    return is_consistent(topology, cluster, crossed);
}
