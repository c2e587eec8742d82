/* edge_walk.c - where an edge is pierced, in order. */
#include "gpu/exact/piece_nodes.h"

static uint32_t list_crossings(ct_piece_search *search, int pass, int b, uint32_t first, uint32_t end, int k) {
    signed char(*const jumps)[4] = search->jumps[pass][b];
    uint32_t n = 0;
    for (uint32_t i = first; i < end; i++) {
        const int jump = (int)jumps[i][k];
        if (CT_POLL_EVERY(i, 1024) && ct_piece_is_cancelled(search, "crossings", i)) return 0;
        if (!jump) continue;
        struct ct_edge_crossing *to = &search->edge_crossings[n++];
        to->jump = jump;
        to->node = ct_pair_node(search, pass, b, i);
        to->crossing = i;
    }
    return n;
}

static void find_piercings(ct_piece_search *search, int pass, int b, int k, struct ct_edge_crossing *list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const ct_crossing *crossing = &search->surface[pass][b].crossings[list[i].crossing];
        const double *p[3], *q[3];
        if (CT_POLL_EVERY(i, 512) && ct_piece_is_cancelled(search, "crossings", i)) return;
        ct_load_corners(search, b, crossing->triangle, p);
        ct_load_corners(search, 1 - b, crossing->other, q);
        const ct_piercing piercing = ct_piercing_of(p[k], p[(k + 1) % 3], q);
        list[i].at = piercing.length ? (double)piercing.start / (double)piercing.length : NAN;
        list[i].piercing = i;
        search->piercings[i] = piercing;
    }
}

/* Bounds the rounding of the difference of two parts of the way, which are 1 at most, four times. */
static const double AT_ROUNDING = 0x1p-48;

static inline int compare(const ct_piece_search *search, const struct ct_edge_crossing *a,
                          const struct ct_edge_crossing *b, int moved) {
    const double difference = a->at - b->at;
    if (difference > AT_ROUNDING) return 1;
    if (difference < -AT_ROUNDING) return -1;
    return ct_compare_piercings(&search->piercings[a->piercing], &search->piercings[b->piercing], moved);
}

/* Shell sort: most edges are pierced once or twice, few a thousand times. Beyond 8,858 each gap is 2.25 times the next.
 */
static void sort_crossings(ct_piece_search *search, struct ct_edge_crossing *list, uint32_t n, int moved) {
    static const uint32_t gaps[] = {3821520944, 1698453753, 754868335, 335497038, 149109795, 66271020, 29453787,
                                    13090572,   5818032,    2585792,   1149241,   510774,    227011,   100894,
                                    44842,      19930,      8858,      3937,      1750,      701,      301,
                                    132,        57,         23,        10,        4,         1};
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (uint32_t gap = gaps[g], i = gap; i < n; i++) {
            const struct ct_edge_crossing one = list[i];
            uint32_t at = i;
            if (CT_POLL_EVERY(i, 64) && ct_piece_is_cancelled(search, "crossings", i)) return;
            for (; at >= gap && compare(search, &list[at - gap], &one, moved) > 0; at -= gap) list[at] = list[at - gap];
            list[at] = one;
        }
}

/* Orders crossings that coincide so that each, if one does, brings the winding number nearer to 0: what only touches is
 * not connected. Each swaps its place with the next one of its kind. Returns the winding number behind them. */
static int32_t order_equals(struct ct_edge_crossing *list, uint32_t n, int32_t winding) {
    uint32_t next[2] = {0, 0}; /* by whether it raises the number: none is in i .. next - 1 */
    for (uint32_t i = 0; i < n; i++) {
        const int raises = winding <= 0;
        uint32_t at = next[raises] > i ? next[raises] : i;
        while (at < n && (list[at].jump > 0) != raises) at++;
        next[raises] = at;
        if (at < n && at > i) {
            const struct ct_edge_crossing first = list[i];
            list[i] = list[at];
            list[at] = first;
        }
        winding += list[i].jump;
    }
    return winding;
}

uint32_t ct_walk_edge(ct_piece_search *search, int pass, int b, uint32_t triangle, uint32_t first, uint32_t end,
                      int k) {
    struct ct_edge_crossing *const list = search->edge_crossings;
    const uint32_t n = list_crossings(search, pass, b, first, end, k);
    const int moved = b ? search->moved[pass] : -search->moved[pass]; /* +1: the edge's body is perturbed */
    if (n < 2) return n;
    find_piercings(search, pass, b, k, list, n);
    if (search->has_failed) return 0;
    int32_t winding = ct_winding_at(search, pass, b, triangle, k);
    sort_crossings(search, list, n, moved);
    for (uint32_t i = 0, next; i < n && !search->has_failed; i = next) {
        if (CT_POLL_EVERY(i, 64) && ct_piece_is_cancelled(search, "crossings", i)) return 0;
        for (next = i + 1; next < n && compare(search, &list[next], &list[i], moved) == 0;) {
            if (CT_POLL_EVERY(next, 512) && ct_piece_is_cancelled(search, "crossings", next)) return 0;
            next++;
        }
        winding = order_equals(list + i, next - i, winding);
    }
    return n;
}
