/* piece_map.c - where the other body's surface cuts one triangle: where its edges are pierced, in order; the
 * stretches of curves on it, how they follow one another, and which region a point lies in; and the boundary along a
 * ray. */
#include <string.h>

#include "gpu/methods/exact/piece_nodes.h"

/* ---- along an edge ---- */

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

/* ---- ends of stretches ---- */

/* The edge along which w of the other body changes by `jump`. -1: none. */
static int edge_with_jump(const signed char *jumps, int jump) {
    for (int k = 0; k < 3; k++)
        if (jumps[k] == jump) return k;
    return -1;
}

/* An end of a stretch: an edge of one triangle pierces the other one. */
struct end {
    int own;  /* 0: the edge is the mapped triangle's; 1: the other one's */
    int edge; /* from this corner on */
};

/* The start, or the end, of the stretch of a crossing. See segment_k.h for the signs. */
static struct end find_end(const ct_piece_search *search, int pass, int b, uint32_t crossing, bool is_start) {
    const int own = edge_with_jump(search->jumps[pass][b][crossing], is_start ? -1 : 1);
    if (own >= 0) return (struct end){0, own};
    const uint32_t partner = search->partner[pass][b][crossing]; /* the same crossing as the other triangle's */
    return (struct end){1, edge_with_jump(search->jumps[pass][1 - b][partner], is_start ? 1 : -1)};
}

/* ---- links ---- */

/* Links the stretches of a triangle's crossings first .. end - 1, without coordinates. */
static ct_triangle_map link_stretches(ct_piece_search *search, int pass, int b, uint32_t first, uint32_t end,
                                      struct ct_stretch *stretches) {
    const ct_piece_surface *surface = &search->surface[pass][b];
    const uint32_t n = end - first;
    ct_triangle_map map = {.pass = pass,
                           .body = b,
                           .triangle = surface->crossings[first].triangle,
                           .first = first,
                           .end = end,
                           .stretches = stretches};
    for (uint32_t i = 0; i < n; i++) {
        const struct end to = find_end(search, pass, b, first + i, false);
        if (CT_POLL_EVERY(i, 512) && ct_piece_is_cancelled(search, "crossings", first + i)) return map;
        stretches[i] = (struct ct_stretch){.node = ct_pair_node(search, pass, b, first + i), .next = UINT32_MAX};
        if (to.own == 0) continue;
        const uint32_t across = ct_triangle_across(search, 1 - b, search->others[pass][b][first + i], to.edge);
        stretches[i].next = ct_find_crossing(search, pass, b, map.triangle, across) - first;
    }
    /* What cannot be reached from a stretch that starts on an edge belongs to a loop. */
    for (uint32_t i = 0; i < n; i++) stretches[i].loop = UINT32_MAX;
    uint32_t n_walked = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (edge_with_jump(search->jumps[pass][b][first + i], -1) < 0) continue;
        for (uint32_t at = i; at != UINT32_MAX; at = stretches[at].next, n_walked++) {
            if (CT_POLL_EVERY(n_walked, 4096) && ct_piece_is_cancelled(search, "crossings", first + i)) return map;
            stretches[at].loop = 0;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        if (stretches[i].loop != UINT32_MAX) continue;
        map.n_loops++;
        for (uint32_t at = i; stretches[at].loop == UINT32_MAX; at = stretches[at].next, n_walked++) {
            if (CT_POLL_EVERY(n_walked, 4096) && ct_piece_is_cancelled(search, "crossings", first + i)) return map;
            stretches[at].loop = map.n_loops;
        }
    }
    return map;
}

/* ---- coordinates ---- */

/* A triangle that is mapped. */
struct mapped {
    const double *p[3];
    ct_edges edges; /* seen from p[0] */
    int moved;      /* +1: the other triangles' body is perturbed, -1: its own is */
};

static ct_normal normal_of(const double *const p[3]) {
    double u[3], v[3];
    for (int k = 0; k < 3; k++) {
        u[k] = p[1][k] - p[0][k];
        v[k] = p[2][k] - p[0][k];
    }
    return ct_normal_of(u, v);
}

/* Where edge i of the triangle pierces another one, q: as ct_find_end, of which only the values that this end needs are
 * computed, by the same arithmetic. */
static void locate_own_end(const struct mapped *mapped, const double *const q[3], int i, double at[2]) {
    const double *const ends[3] = {mapped->p[i], mapped->p[(i + 1) % 3], mapped->p[i]};
    const ct_normal its = normal_of(q);
    ct_plane_sides sides;
    int has_ties = 0;
    ct_find_sides(ends, q, &its, -mapped->moved, &sides, &has_ties);
    const double tau = sides.value[0] / (sides.value[0] - sides.value[1]);
    const double of_edge[3] = {tau, 1 - tau, 0};
    at[0] = of_edge[i];
    at[1] = of_edge[(i + 2) % 3];
}

/* Where edge j of another triangle, q, pierces the triangle. As ct_measure_edges and ct_decide_edges, of one edge: its
 * ends lie on two sides, so no value is left out there. */
static void locate_other_end(const struct mapped *mapped, const double *const q[3], int j, double at[2]) {
    const ct_edges *own = &mapped->edges;
    const double *const *p = mapped->p, *from = q[j], *to = q[(j + 1) % 3];
    double start[3], along[3], moment[3], size[3], value[3];
    for (int k = 0; k < 3; k++) {
        start[k] = from[k] - p[0][k];
        along[k] = (to[k] - p[0][k]) - start[k];
    }
    for (int k = 0; k < 3; k++) {
        const int x = (k + 1) % 3, y = (k + 2) % 3;
        const double u = start[x] * along[y], v = start[y] * along[x];
        moment[k] = u - v;
        size[k] = fabs(u) + fabs(v);
    }
    for (int i = 0; i < 3; i++) {
        value[i] = own->along[0][i] * moment[0] + own->along[1][i] * moment[1] + own->along[2][i] * moment[2] +
                   (along[0] * own->moment[0][i] + along[1] * own->moment[1][i] + along[2] * own->moment[2][i]);
        const double error =
            (fabs(own->along[0][i]) * size[0] + fabs(own->along[1][i]) * size[1] + fabs(own->along[2][i]) * size[2] +
             (fabs(along[0]) * own->size[0][i] + fabs(along[1]) * own->size[1][i] + fabs(along[2]) * own->size[2][i])) *
            CT_FILTER;
        if (fabs(value[i]) > error * CT_PRECISE) continue;
        const int next = (i + 1) % 3;
        value[i] = error > 0 ? ct_exact_edges(p[i], p[next], from, to, mapped->moved).value
                             : ct_tied_edges(p[i], p[next], from, to, mapped->moved).value;
    }
    const double sum = value[0] + value[1] + value[2];
    at[0] = value[2] / sum;
    at[1] = value[0] / sum;
}

static void locate_end(const struct mapped *mapped, const double *const q[3], struct end end, double at[2]) {
    if (end.own)
        locate_other_end(mapped, q, end.edge, at);
    else
        locate_own_end(mapped, q, end.edge, at);
}

static void place_all(ct_piece_search *search, const ct_triangle_map *map) {
    struct ct_stretch *stretches = map->stretches;
    struct mapped mapped = {.moved = map->body == 0 ? search->moved[map->pass] : -search->moved[map->pass]};
    ct_load_corners(search, map->body, map->triangle, mapped.p);
    ct_find_edges(mapped.p, mapped.p[0], &mapped.edges);
    for (uint32_t i = 0; i < map->end - map->first; i++) {
        const uint32_t crossing = map->first + i;
        const double *q[3];
        if (CT_POLL_EVERY(i, 256) && ct_piece_is_cancelled(search, "crossings", crossing)) return;
        ct_load_corners(search, 1 - map->body, search->others[map->pass][map->body][crossing], q);
        locate_end(&mapped, q, find_end(search, map->pass, map->body, crossing, true), stretches[i].from);
        if (stretches[i].next == UINT32_MAX)
            locate_end(&mapped, q, find_end(search, map->pass, map->body, crossing, false), stretches[i].to);
    }
    /* A joint has one place, so that no line slips through between two stretches. */
    for (uint32_t i = 0; i < map->end - map->first; i++) {
        if (stretches[i].next == UINT32_MAX) continue;
        stretches[i].to[0] = stretches[stretches[i].next].from[0];
        stretches[i].to[1] = stretches[stretches[i].next].from[1];
    }
}

/* The point of edge k at this part of the way, as in ct_find_end. */
static void point_on_edge(int k, double part, double at[2]) {
    at[0] = k == 0 ? part : k == 1 ? 1 - part : 0;
    at[1] = k == 1 ? part : k == 2 ? 1 - part : 0;
}

static double part_of_edge(int k, const double at[2]) {
    return k == 0 ? at[0] : k == 1 ? at[1] : 1 - at[1];
}

/* Not in the middle, where a line to it would meet what is symmetric. */
static const double IN_GAP = 0.4567;

static struct ct_gap find_gap(ct_piece_search *search, const ct_triangle_map *map, int k) {
    const uint32_t n = ct_walk_edge(search, map->pass, map->body, map->triangle, map->first, map->end, k);
    struct ct_gap best = {.length = -1};
    int32_t winding = ct_winding_at(search, map->pass, map->body, map->triangle, k);
    uint32_t node = ct_corner_node(search, map->pass, map->body, map->triangle, k);
    double from = 0;
    for (uint32_t i = 0; i <= n; i++) {
        const struct ct_edge_crossing *next = &search->edge_crossings[i];
        const struct ct_stretch *s = i < n ? &map->stretches[next->crossing - map->first] : NULL;
        const double to = i < n ? part_of_edge(k, next->jump > 0 ? s->to : s->from) : 1;
        if (to - from > best.length) {
            best = (struct ct_gap){.length = to - from, .winding = winding, .node = node};
            point_on_edge(k, from + IN_GAP * (to - from), best.at);
        }
        if (i == n) break;
        winding += next->jump;
        node = next->node;
        from = to;
    }
    return best;
}

/* Fills in the coordinates of the stretches, and the gaps. */
static void place_stretches(ct_piece_search *search, ct_triangle_map *map) {
    place_all(search, map);
    for (int k = 0; k < 3 && !search->has_failed; k++) map->gaps[k] = find_gap(search, map, k);
}

/* ---- kept maps ---- */

/* NULL: the triangle has few crossings. */
static struct ct_kept_map *find_kept(const ct_piece_search *search, int pass, int b, uint32_t first) {
    struct ct_kept_map *kept = search->kept[pass][b];
    uint32_t from = 0, end = search->n_kept[pass][b];
    while (from < end) {
        const uint32_t middle = from + (end - from) / 2;
        if (kept[middle].first < first)
            from = middle + 1;
        else
            end = middle;
    }
    return from < search->n_kept[pass][b] && kept[from].first == first ? &kept[from] : NULL;
}

bool ct_map_triangle(ct_piece_search *search, int pass, int b, uint32_t first, ct_triangle_map *map) {
    struct ct_kept_map *kept = find_kept(search, pass, b, first);
    const uint32_t end = ct_end_of_crossings(search, pass, b, first);
    if (kept && kept->is_made) {
        *map = kept->map;
        return true;
    }
    struct ct_stretch *stretches =
        kept ? ct_piece_allocate(search, (end - first) * sizeof *stretches) : search->stretches;
    if (!stretches) return false;
    *map = link_stretches(search, pass, b, first, end, stretches);
    if (!search->has_failed) place_stretches(search, map);
    if (kept && !search->has_failed) {
        map->views = kept->views;
        kept->map = *map;
        kept->is_made = true;
    }
    return !search->has_failed;
}

/* Maps a triangle once, in scratch. One without loops has no coordinates. False: out of memory, or cancelled. */
static bool map_loops(ct_piece_search *search, int pass, int b, uint32_t first, uint32_t end, ct_triangle_map *map) {
    *map = link_stretches(search, pass, b, first, end, search->stretches);
    if (end - first >= CT_LARGE_TRIANGLE) {
        map->views = search->views;
        for (int k = 0; k < 3; k++) map->views[k].is_made = false;
    }
    if (map->n_loops && !search->has_failed) place_stretches(search, map);
    return !search->has_failed;
}

/* ---- lines ---- */

/* Of the way from a gap: what is nearer to each other coincides but for rounding. */
static const double TOUCHING = 1e-9;

/* The barycentric coordinate that is 0 on edge k. */
static double height_over_edge(int k, const double at[2]) {
    return k == 0 ? at[1] : k == 1 ? 1 - at[0] - at[1] : at[0];
}

/* The line from the gap of an edge, whose winding number is known, to a point. */
struct sight {
    const struct ct_gap *gap;
    double way[2];
};

static struct sight look_from_gap(const ct_triangle_map *map, int k, const double at[2]) {
    const struct ct_gap *gap = &map->gaps[k];
    return (struct sight){gap, {at[0] - gap->at[0], at[1] - gap->at[1]}};
}

/* A curve may lie on the gap's edge itself, where faces coincide: the line meets it there. False: the line does not
 * meet the stretch. */
static bool meet_stretch(const struct sight *sight, const struct ct_stretch *s, struct ct_meeting *meeting) {
    const double *way = sight->way;
    const double p[2] = {s->from[0] - sight->gap->at[0], s->from[1] - sight->gap->at[1]};
    const double q[2] = {s->to[0] - sight->gap->at[0], s->to[1] - sight->gap->at[1]};
    const double from = way[0] * p[1] - way[1] * p[0], to = way[0] * q[1] - way[1] * q[0];
    if ((from >= 0) == (to >= 0)) return false;
    const double part = from / (from - to);
    const double x = p[0] + part * (q[0] - p[0]), y = p[1] + part * (q[1] - p[1]);
    meeting->where = (x * way[0] + y * way[1]) / (way[0] * way[0] + way[1] * way[1]);
    meeting->jump = to < from ? 1 : -1;
    return true;
}

/* The square of the distance of a point from a stretch. */
static double distance_from(const struct ct_stretch *s, const double at[2]) {
    const double way[2] = {s->to[0] - s->from[0], s->to[1] - s->from[1]};
    const double p[2] = {at[0] - s->from[0], at[1] - s->from[1]};
    const double square = way[0] * way[0] + way[1] * way[1], along = p[0] * way[0] + p[1] * way[1];
    const double part = square > 0 ? fmin(fmax(along / square, 0), 1) : 0;
    const double x = p[0] - part * way[0], y = p[1] - part * way[1];
    return x * x + y * y;
}

/* A stretch as it is seen from a gap: the directions to its points, from -1 along the edge to 1 back along it (see
 * direction_of). A tree of intervals: the middle one of a range has the largest hi of the range. */
struct ct_seen_stretch {
    double lo, hi, most;
    uint32_t stretch;
};

/* Rounding of directions is far below, and what lies behind the edge by less is on it. */
static const double SEEN_MARGIN = 1e-7;

/* Rises with the angle from the direction of edge k, from -1 to 1. above: its part of the way is along the edge's inner
 * normal, else 0. */
static double direction_of(int k, const double way[2], double *above) {
    static const double along[3][2] = {{1, 0}, {-0.70710678118654752, 0.70710678118654752}, {0, -1}};
    const double u = way[0] * along[k][0] + way[1] * along[k][1], v = way[1] * along[k][0] - way[0] * along[k][1];
    const double size = fabs(u) + fabs(v);
    *above = size > 0 ? v / size : 0;
    return size > 0 ? -u / size : 0;
}

/* Widens the directions in which a stretch is seen by one of its ends. */
static void see_end(const ct_triangle_map *map, int k, const double end[2], struct ct_seen_stretch *seen) {
    const double way[2] = {end[0] - map->gaps[k].at[0], end[1] - map->gaps[k].at[1]};
    double above, direction = direction_of(k, way, &above);
    if (above < SEEN_MARGIN) { /* on the edge, if it is not the gap's point itself */
        const bool is_on_edge = above > -SEEN_MARGIN && fabs(direction) > 0.5;
        seen->lo = fmin(seen->lo, is_on_edge && direction > 0 ? 1 : -1);
        seen->hi = fmax(seen->hi, is_on_edge && direction < 0 ? -1 : 1);
        return;
    }
    seen->lo = fmin(seen->lo, direction);
    seen->hi = fmax(seen->hi, direction);
}

/* Merge sort by lo. False: cancelled. */
static bool sort_seen(ct_piece_search *search, struct ct_seen_stretch *list, struct ct_seen_stretch *scratch,
                      uint32_t n) {
    struct ct_seen_stretch *from = list, *to = scratch;
    for (uint32_t width = 1; width < n; width *= 2) {
        for (uint32_t first = 0; first < n; first += 2 * width) {
            const uint32_t middle = n - first < width ? n : first + width,
                           end = n - first < 2 * width ? n : first + 2 * width;
            uint32_t a = first, b = middle;
            for (uint32_t i = first; i < end; i++) {
                if (CT_POLL_EVERY(i, 1024) && ct_piece_is_cancelled(search, "crossings", i)) return false;
                to[i] = a < middle && (b == end || from[a].lo <= from[b].lo) ? from[a++] : from[b++];
            }
        }
        struct ct_seen_stretch *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != list) memcpy(list, from, n * sizeof *list);
    return true;
}

static double fill_most(ct_piece_search *search, struct ct_seen_stretch *seen, uint32_t first, uint32_t end) {
    if (first == end) return -INFINITY;
    if (end - first >= 2048 && ct_piece_is_cancelled(search, "crossings", first)) return -INFINITY;
    const uint32_t middle = first + (end - first) / 2;
    const double below = fill_most(search, seen, first, middle), above = fill_most(search, seen, middle + 1, end);
    return seen[middle].most = fmax(seen[middle].hi, fmax(below, above));
}

/* NULL: out of memory, or cancelled. */
static const struct ct_seen_stretch *view_from_gap(ct_piece_search *search, const ct_triangle_map *map, int k) {
    _Static_assert(sizeof(struct ct_seen_stretch) <= sizeof(ct_piercing), "one's scratch is the other's");
    struct ct_gap_view *view = &map->views[k];
    const uint32_t n = map->end - map->first;
    if (view->is_made) return view->seen;
    if (!view->seen) /* in scratch for any triangle */
        view->seen =
            ct_piece_allocate(search, (map->views == search->views ? search->most_crossings : n) * sizeof *view->seen);
    struct ct_seen_stretch *seen = view->seen;
    if (!seen) return NULL;
    for (uint32_t i = 0; i < n; i++) {
        seen[i] = (struct ct_seen_stretch){.lo = INFINITY, .hi = -INFINITY, .stretch = i};
        if (CT_POLL_EVERY(i, 1024) && ct_piece_is_cancelled(search, "crossings", i)) return NULL;
        see_end(map, k, map->stretches[i].from, &seen[i]);
        see_end(map, k, map->stretches[i].to, &seen[i]);
    }
    if (!sort_seen(search, seen, (void *)search->piercings, n)) return NULL;
    fill_most(search, seen, 0, n);
    if (search->has_failed) return NULL;
    view->is_made = true;
    return seen;
}

/* What is asked of the stretches that a line passes. */
struct line_search {
    ct_piece_search *search;
    const ct_triangle_map *map;
    struct sight sight;
    double lo, hi; /* directions */
    const double *at;
    double nearest; /* square of the distance of a stretch from `at` */
    uint32_t n;     /* of search->meetings */
};

static void look_at_stretch(struct line_search *line, uint32_t stretch) {
    const struct ct_stretch *s = &line->map->stretches[stretch];
    struct ct_meeting *meeting = &line->search->meetings[line->n];
    if (meet_stretch(&line->sight, s, meeting)) {
        meeting->stretch = stretch;
        line->n++;
    }
    line->nearest = fmin(line->nearest, distance_from(s, line->at));
}

static void look_at_seen(struct line_search *line, const struct ct_seen_stretch *seen, uint32_t first, uint32_t end) {
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        if (seen[middle].most < line->lo) return;
        look_at_seen(line, seen, first, middle);
        if (seen[middle].lo > line->hi) return;
        if (seen[middle].hi >= line->lo) look_at_stretch(line, seen[middle].stretch);
        first = middle + 1;
    }
}

/* A point that is nearer to a curve, in barycentric coordinates, does not tell on which side of it it is. */
static const double LEAST_CLEARANCE = 1e-9;

/* Lists in search->meetings where the line from the gap of edge k to a point, and its continuation, meet stretches, in
 * no order that matters. Where the map is large, it looks only at those seen in nearly the line's direction. */
static struct line_search meet_line(ct_piece_search *search, const ct_triangle_map *map, int k, const double at[2]) {
    struct line_search line = {
        .search = search, .map = map, .sight = look_from_gap(map, k, at), .at = at, .nearest = INFINITY};
    const uint32_t n = map->end - map->first;
    const double length = ct_length(line.sight.way[0], line.sight.way[1], 0);
    double above;
    const double direction = direction_of(k, line.sight.way, &above);
    if (map->views && length > 1e-3 && above > 4 * SEEN_MARGIN) {
        const struct ct_seen_stretch *seen = view_from_gap(search, map, k);
        const double margin = SEEN_MARGIN + 2 * LEAST_CLEARANCE / length;
        line.lo = direction - margin;
        line.hi = direction + margin;
        if (seen && !ct_piece_is_cancelled(search, "crossings", map->first)) look_at_seen(&line, seen, 0, n);
        return line;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i, 1024) && ct_piece_is_cancelled(search, "crossings", map->first)) break;
        look_at_stretch(&line, i);
    }
    return line;
}

/* ---- regions ---- */

/* Where a point of a triangle lies. */
struct region {
    int32_t winding;
    uint32_t node;    /* of what bounds the region; meaningless where winding is 0 */
    bool is_at_curve; /* so near to a curve that rounding may have chosen its side */
};

/* The region that a line reaches before this part of its way. Where curves coincide, the order of their crossings
 * decides. */
static struct region find_region_before(const struct line_search *line, double where) {
    const struct ct_gap *gap = line->sight.gap;
    struct region region = {.winding = gap->winding, .node = gap->node};
    const struct ct_meeting *nearest[2] = {NULL,
                                           NULL}; /* of stretches that lower the winding number, and that raise it */
    for (uint32_t i = 0; i < line->n; i++) {
        const struct ct_meeting *meeting = &line->search->meetings[i];
        if (!(meeting->where < where)) continue;
        const struct ct_meeting **best = &nearest[meeting->jump > 0];
        region.winding += meeting->jump;
        if (!*best || meeting->where > (*best)->where ||
            (meeting->where == (*best)->where && meeting->stretch < (*best)->stretch))
            *best = meeting;
    }
    /* Where stretches coincide, rounding orders them. The region begins where the winding number last left 0. */
    if (nearest[region.winding > 0]) region.node = line->map->stretches[nearest[region.winding > 0]->stretch].node;
    return region;
}

/* The region of the point `at` of a placed triangle. */
static struct region find_region(ct_piece_search *search, const ct_triangle_map *map, const double at[2]) {
    int best = 0;
    for (int k = 1; k < 3; k++)
        if (map->gaps[k].length * height_over_edge(k, at) > map->gaps[best].length * height_over_edge(best, at))
            best = k;
    const struct line_search line = meet_line(search, map, best, at);
    struct region region = find_region_before(&line, 1 - TOUCHING);
    region.is_at_curve = sqrt(line.nearest) < LEAST_CLEARANCE;
    return region;
}

/* ---- holes ---- */

/* Bounds the rounding of a joint's coordinates. */
static const double JOINT_ROUNDING = 0x1p-34;

/* Fills search->by_loop with the stretches of each loop, in their order, and first_of_loop with where they begin. */
static void sort_by_loop(ct_piece_search *search, const ct_triangle_map *map) {
    const uint32_t n = map->end - map->first;
    uint32_t *first = search->first_of_loop;
    memset(first, 0, ((size_t)map->n_loops + 2) * sizeof *first);
    for (uint32_t i = 0; i < n; i++) first[map->stretches[i].loop + 1]++;
    for (uint32_t loop = 0; loop <= map->n_loops; loop++) first[loop + 1] += first[loop];
    for (uint32_t i = 0; i < n; i++) search->by_loop[first[map->stretches[i].loop]++] = i;
    for (uint32_t loop = map->n_loops + 1; loop > 0; loop--) first[loop] = first[loop - 1];
    first[0] = 0;
}

/* The sign of the area that a loop goes around: negative if the other body's inside is around it; it is a hole. 0: it
 * has no area, as where an edge touches the triangle. */
static int side_of_loop(const ct_piece_search *search, const ct_triangle_map *map, uint32_t loop) {
    double area = 0, length = 0;
    for (uint32_t i = search->first_of_loop[loop]; i < search->first_of_loop[loop + 1]; i++) {
        const struct ct_stretch *s = &map->stretches[search->by_loop[i]];
        area += s->from[0] * s->to[1] - s->from[1] * s->to[0];
        length += fabs(s->to[0] - s->from[0]) + fabs(s->to[1] - s->from[1]);
    }
    return fabs(area) <= length * JOINT_ROUNDING ? 0 : area > 0 ? 1 : -1;
}

/* What is around a loop where a line from a gap first meets it. */
struct surroundings {
    struct region region; /* in front of it */
    /* Of other stretches that coincide with it there, those that lower and that raise the winding number: how many, and
     * the node of the last one. */
    uint32_t n_touching[2], touching[2];
};

/* False: the line does not meet it. */
static bool look_at_loop(const struct line_search *line, uint32_t loop, struct surroundings *around) {
    const struct ct_meeting *const meetings = line->search->meetings, *met = NULL;
    const struct ct_stretch *const stretches = line->map->stretches;
    uint32_t last[2] = {0, 0};
    for (uint32_t i = 0; i < line->n; i++) {
        const struct ct_meeting *meeting = &meetings[i];
        if (stretches[meeting->stretch].loop != loop || !(meeting->where <= (met ? met->where : 1 + TOUCHING)))
            continue;
        if (!met || meeting->where < met->where || meeting->stretch > met->stretch) met = meeting;
    }
    if (!met) return false;
    *around = (struct surroundings){.region = find_region_before(line, met->where - TOUCHING)};
    for (uint32_t i = 0; i < line->n; i++) {
        const struct ct_meeting *meeting = &meetings[i];
        if (meeting == met || fabs(meeting->where - met->where) > TOUCHING) continue;
        const int raises = meeting->jump > 0;
        if (around->n_touching[raises]++ && meeting->stretch < last[raises]) continue;
        last[raises] = meeting->stretch;
        around->touching[raises] = stretches[meeting->stretch].node;
    }
    return true;
}

/* How reliable the region found around a loop is. 3: no other curve touches the loop at the point that was tested. 2:
 * one curve touches a hole there, from inside the hole. 1: one curve touches a hole there, and the hole is part of that
 * curve's own boundary, without a region between them. 0: not reliable. */
static int rate(const struct surroundings *around, bool is_hole) {
    if (!around->n_touching[0] && !around->n_touching[1]) return 3;
    if (!is_hole || around->n_touching[0] || around->n_touching[1] > 1) return 0;
    return around->region.winding ? 2 : 1;
}

/* Unites a loop with what bounds the region around it, if that is inside. What only touches it is not joined, so the
 * loop is looked at where nothing touches it, if there is such a place. That of loops which are no holes matters only
 * in a body that overlaps itself. */
static void join_loop(ct_piece_search *search, const ct_triangle_map *map, uint32_t loop) {
    enum { TRIES = 8 };
    const int side = side_of_loop(search, map, loop);
    const bool is_hole = side < 0;
    struct surroundings best = {.region = {0}};
    uint32_t node = 0, tries = 0;
    int sure = 0;
    if (side == 0) return; /* what is inside of it is infinitesimal, and joins nothing */
    for (uint32_t i = search->first_of_loop[loop];
         i < search->first_of_loop[loop + 1] && sure < 3 && (is_hole || tries < TRIES); i++) {
        const struct ct_stretch *s = &map->stretches[search->by_loop[i]];
        const double at[2] = {s->from[0] + IN_GAP * (s->to[0] - s->from[0]),
                              s->from[1] + IN_GAP * (s->to[1] - s->from[1])};
        node = s->node;
        for (int k = 0; k < 3 && sure < 3; k++, tries++) {
            struct surroundings around;
            if (!(map->gaps[k].length > TOUCHING && height_over_edge(k, at) > TOUCHING)) continue; /* along the edge */
            const struct line_search line = meet_line(search, map, k, at);
            if (search->has_failed) return;
            const int rated = look_at_loop(&line, loop, &around) ? rate(&around, is_hole) : 0;
            if (rated <= sure) continue;
            sure = rated;
            best = around;
        }
    }
    if (sure >= 2 && best.region.winding)
        ct_unite(search, node, best.region.node);
    else if (sure == 1)
        ct_unite(search, node, best.touching[1]);
}

void ct_join_holes(ct_piece_search *search, int pass) {
    for (int b = 0; b < 2; b++) {
        const ct_piece_surface *surface = &search->surface[pass][b];
        for (uint32_t first = 0, end; first < surface->n_crossings; first = end) {
            ct_triangle_map map;
            end = ct_end_of_crossings(search, pass, b, first);
            if (!map_loops(search, pass, b, first, end, &map)) return;
            if (!map.n_loops) continue;
            sort_by_loop(search, &map);
            for (uint32_t loop = 1; loop <= map.n_loops && !search->has_failed; loop++) join_loop(search, &map, loop);
        }
    }
}

/* ---- along a ray: which boundaries belong together ---- */

uint32_t ct_node_at(ct_piece_search *search, int pass, int b, uint32_t triangle, const double at[2],
                    bool *is_at_curve) {
    const ct_crossing_range range = ct_crossings_of(search, pass, b, triangle);
    ct_triangle_map map;
    *is_at_curve = false;
    if (range.first == range.end) /* most triangles */
        return ct_winding_at(search, pass, b, triangle, 0) ? ct_corner_node(search, pass, b, triangle, 0)
                                                           : (uint32_t)CT_NO_NODE;
    if (!ct_map_triangle(search, pass, b, range.first, &map)) return CT_NO_NODE;
    const struct region region = find_region(search, &map, at);
    *is_at_curve = region.is_at_curve;
    return region.winding ? region.node : (uint32_t)CT_NO_NODE;
}

struct ray {
    ct_piece_search *search;
    int pass;
    double least_x;
    const uint32_t *root;
    uint32_t own;
    ct_met_triangle nearest;
    uint32_t node; /* of the nearest hit; CT_NO_NODE: there is none yet */
    double far;    /* where it is; INFINITY: there is none yet */
};

/* By x, so that the nearest hit does not depend on the order in which hits are reported. */
static bool is_nearer(const ct_met_triangle *hit, const ct_met_triangle *than) {
    if (hit->x != than->x) return hit->x < than->x;
    return hit->body != than->body ? hit->body < than->body : hit->triangle < than->triangle;
}

static double look_at_hit(void *argument, const ct_met_triangle *hit) {
    struct ray *ray = argument;
    bool is_at_curve;
    if (hit->x < ray->least_x || (ray->node != CT_NO_NODE && !is_nearer(hit, &ray->nearest))) return ray->far;
    const uint32_t node = ct_node_at(ray->search, ray->pass, hit->body, hit->triangle, hit->at, &is_at_curve);
    if (node == CT_NO_NODE || ray->root[node] == ray->own) return ray->far;
    ray->nearest = *hit;
    ray->node = node;
    return ray->far = hit->x;
}

ct_boundary_hit ct_find_next_boundary(ct_piece_search *search, int pass, const double *p, double least_x,
                                      const uint32_t *root, uint32_t own) {
    struct ray ray = {.search = search,
                      .pass = pass,
                      .least_x = least_x,
                      .root = root,
                      .own = own,
                      .node = CT_NO_NODE,
                      .far = INFINITY};
    const ct_piece_source *source = &search->source;
    for (int b = 0; b < 2 && !search->has_failed; b++)
        if (!source->find_hits(source->argument, b, p, ray.far, look_at_hit, &ray)) search->has_failed = true;
    return (ct_boundary_hit){ray.nearest.x, ray.node};
}

/* ---- all that a ray meets ---- */

struct hit_list {
    ct_piece_search *search;
    ct_ray_hits *hits;
    int body;
    uint32_t triangle;
    double far; /* the triangle's largest x; INFINITY: it has not been met yet */
};

static double list_hit(void *argument, const ct_met_triangle *hit) {
    struct hit_list *list = argument;
    ct_ray_hits *hits = list->hits;
    if (hits->n == hits->capacity && !list->search->has_failed) {
        const uint32_t larger = 2 * hits->capacity + 16;
        ct_met_triangle *of = ct_piece_allocate(list->search, larger * sizeof *of);
        if (!of) return list->far;
        if (hits->n) memcpy(of, hits->of, hits->n * sizeof *of);
        hits->of = of;
        hits->capacity = larger;
    }
    if (!list->search->has_failed) hits->of[hits->n++] = *hit;
    if (hit->body == list->body && hit->triangle == list->triangle)
        list->far = fmax(hit->corner[0][0], fmax(hit->corner[1][0], hit->corner[2][0]));
    return list->far;
}

void ct_list_hits(ct_piece_search *search, const double p[3], int b, uint32_t triangle, ct_ray_hits *hits) {
    struct hit_list list = {.search = search, .hits = hits, .body = b, .triangle = triangle, .far = INFINITY};
    const ct_piece_source *source = &search->source;
    hits->n = 0;
    for (int i = 0; i < 2 && !search->has_failed; i++) { /* first that body: it tells how far */
        if (!source->find_hits(source->argument, i ? 1 - b : b, p, list.far, list_hit, &list))
            search->has_failed = true;
    }
}
