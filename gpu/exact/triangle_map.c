/* triangle_map.c - the stretches of curves on one triangle: how they follow one another, where they are, and which
 * region a point lies in. */
#include "gpu/exact/piece_nodes.h"

/* ---- ends of stretches ---- */

/* The edge along which w of the other body changes by `jump`. -1: none. */
static int edge_with_jump(const ct_triangle_share *share, int jump) {
    for (int k = 0; k < 3; k++)
        if (share->jump[k] == jump) return k;
    return -1;
}

/* An end of a stretch: an edge of one triangle pierces the other one. */
struct end {
    int own;  /* 0: the edge is the mapped triangle's; 1: the other one's */
    int edge; /* from this corner on */
};

/* The start, or the end, of the stretch of a crossing; partner: the same crossing as the other triangle's. See
 * segment_k.h for the signs. */
static struct end find_end(const ct_crossing *crossing, const ct_crossing *partner, bool is_start) {
    const int own = edge_with_jump(&crossing->share, is_start ? -1 : 1);
    return own >= 0 ? (struct end){0, own} : (struct end){1, edge_with_jump(&partner->share, is_start ? 1 : -1)};
}

static const ct_crossing *partner_of(const ct_piece_search *search, int pass, int b, const ct_crossing *crossing) {
    const ct_piece_surface *other = &search->surface[pass][1 - b];
    return &other->crossings[ct_first_crossing_from(other, crossing->other, crossing->triangle)];
}

/* ---- links ---- */

ct_triangle_map ct_link_stretches(ct_piece_search *search, int pass, int b, uint32_t triangle, uint32_t first,
                                  uint32_t end) {
    const ct_piece_surface *surface = &search->surface[pass][b];
    struct ct_stretch *stretches = search->stretches;
    const uint32_t n = end - first;
    for (uint32_t i = 0; i < n; i++) {
        const ct_crossing *crossing = &surface->crossings[first + i];
        const struct end to = find_end(crossing, partner_of(search, pass, b, crossing), false);
        stretches[i] = (struct ct_stretch){.node = ct_pair_node(search, pass, b, first + i), .next = UINT32_MAX};
        if (to.own == 0) continue;
        const uint32_t other = ct_triangle_across(search, 1 - b, crossing->other, to.edge);
        stretches[i].next = ct_first_crossing_from(surface, crossing->triangle, other) - first;
    }
    /* What cannot be reached from a stretch that starts on an edge belongs to a loop. */
    for (uint32_t i = 0; i < n; i++) stretches[i].loop = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        if (edge_with_jump(&surface->crossings[first + i].share, -1) < 0) continue;
        for (uint32_t at = i; at != UINT32_MAX; at = stretches[at].next) stretches[at].loop = 0;
    }
    uint32_t n_loops = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (stretches[i].loop != UINT32_MAX) continue;
        n_loops++;
        for (uint32_t at = i; stretches[at].loop == UINT32_MAX; at = stretches[at].next) stretches[at].loop = n_loops;
    }
    return (ct_triangle_map){
        .pass = pass, .body = b, .triangle = triangle, .first = first, .end = end, .n_loops = n_loops};
}

/* ---- coordinates ---- */

/* Two triangles, the mapped one first. */
struct meeting {
    ct_plane_sides sides[2];
    ct_edge_signs edges;
};

static ct_normal normal_of(const double *const p[3]) {
    double u[3], v[3];
    for (int k = 0; k < 3; k++) {
        u[k] = p[1][k] - p[0][k];
        v[k] = p[2][k] - p[0][k];
    }
    return ct_normal_of(u, v);
}

static struct meeting meet(const ct_piece_search *search, int pass, int b, const ct_crossing *crossing) {
    struct meeting m;
    const double *p[3], *q[3];
    const int moved = b == 0 ? search->moved[pass] : -search->moved[pass]; /* +1: the other triangle's body is */
    int has_ties = 0;
    ct_load_corners(search, b, crossing->triangle, p);
    ct_load_corners(search, 1 - b, crossing->other, q);
    const ct_normal n = normal_of(p), its = normal_of(q);
    ct_find_sides(p, q, &its, -moved, &m.sides[0], &has_ties);
    ct_find_sides(q, p, &n, moved, &m.sides[1], &has_ties);
    ct_find_edge_signs(p, q, &m.sides[0], &m.sides[1], moved, &m.edges, &has_ties);
    return m;
}

static void locate_end(const struct meeting *m, struct end end, double at[2]) {
    double value[3], error[3], along;
    ct_segment_end found;
    for (int k = 0; k < 3; k++) {
        value[k] = end.own ? m->edges.value[k][end.edge] : m->edges.value[end.edge][k];
        error[k] = end.own ? m->edges.error[k][end.edge] : m->edges.error[end.edge][k];
    }
    ct_find_end(&m->sides[end.own], end.edge, end.own, value, error, &found, &along);
    at[0] = found.at[0][0];
    at[1] = found.at[0][1];
}

static void place_all(ct_piece_search *search, const ct_triangle_map *map) {
    struct ct_stretch *stretches = search->stretches;
    for (uint32_t i = 0; i < map->end - map->first; i++) {
        const ct_crossing *crossing = &search->surface[map->pass][map->body].crossings[map->first + i];
        const ct_crossing *partner = partner_of(search, map->pass, map->body, crossing);
        const struct meeting m = meet(search, map->pass, map->body, crossing);
        locate_end(&m, find_end(crossing, partner, true), stretches[i].from);
        if (stretches[i].next == UINT32_MAX) locate_end(&m, find_end(crossing, partner, false), stretches[i].to);
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
        const struct ct_stretch *s = i < n ? &search->stretches[next->crossing - map->first] : NULL;
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

void ct_place_stretches(ct_piece_search *search, ct_triangle_map *map) {
    place_all(search, map);
    for (int k = 0; k < 3; k++) map->gaps[k] = find_gap(search, map, k);
}

/* ---- regions ---- */

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

/* A stretch that the line meets. A curve may lie on the gap's edge itself, where faces coincide: the line meets it
 * there. */
struct meet {
    double where; /* part of the way */
    int jump;     /* of the winding number: 1 from a stretch's right to its left */
};

/* False: the line does not meet it. */
static bool meet_stretch(const struct sight *sight, const struct ct_stretch *s, struct meet *meet) {
    const double *way = sight->way;
    const double p[2] = {s->from[0] - sight->gap->at[0], s->from[1] - sight->gap->at[1]};
    const double q[2] = {s->to[0] - sight->gap->at[0], s->to[1] - sight->gap->at[1]};
    const double from = way[0] * p[1] - way[1] * p[0], to = way[0] * q[1] - way[1] * q[0];
    if ((from >= 0) == (to >= 0)) return false;
    const double part = from / (from - to);
    const double x = p[0] + part * (q[0] - p[0]), y = p[1] + part * (q[1] - p[1]);
    meet->where = (x * way[0] + y * way[1]) / (way[0] * way[0] + way[1] * way[1]);
    meet->jump = to < from ? 1 : -1;
    return true;
}

/* The region that the line reaches before this part of its way. */
static ct_region find_region_before(const ct_piece_search *search, const ct_triangle_map *map,
                                    const struct sight *sight, double where) {
    ct_region region = {sight->gap->winding, sight->gap->node};
    double nearest[2] = {-INFINITY, -INFINITY}; /* of stretches that lower the winding number, and that raise it */
    uint32_t node[2] = {0, 0};
    for (uint32_t i = 0; i < map->end - map->first; i++) {
        struct meet meet;
        if (!meet_stretch(sight, &search->stretches[i], &meet) || !(meet.where < where)) continue;
        const int raises = meet.jump > 0;
        region.winding += meet.jump;
        if (meet.where <= nearest[raises]) continue;
        nearest[raises] = meet.where;
        node[raises] = search->stretches[i].node;
    }
    /* Where stretches coincide, rounding orders them. The region begins where the winding number last left 0. */
    if (nearest[region.winding > 0] > -INFINITY) region.node = node[region.winding > 0];
    return region;
}

ct_region ct_find_region(const ct_piece_search *search, const ct_triangle_map *map, const double at[2]) {
    int best = 0;
    for (int k = 1; k < 3; k++)
        if (map->gaps[k].length * height_over_edge(k, at) > map->gaps[best].length * height_over_edge(best, at))
            best = k;
    const struct sight sight = look_from_gap(map, best, at);
    return find_region_before(search, map, &sight, 1 - TOUCHING);
}

double ct_find_clearance(const ct_piece_search *search, const ct_triangle_map *map, const double at[2]) {
    double least = INFINITY;
    for (uint32_t i = 0; i < map->end - map->first; i++) {
        const struct ct_stretch *s = &search->stretches[i];
        const double way[2] = {s->to[0] - s->from[0], s->to[1] - s->from[1]};
        const double p[2] = {at[0] - s->from[0], at[1] - s->from[1]};
        const double square = way[0] * way[0] + way[1] * way[1], along = p[0] * way[0] + p[1] * way[1];
        const double part = square > 0 ? fmin(fmax(along / square, 0), 1) : 0;
        const double x = p[0] - part * way[0], y = p[1] - part * way[1];
        least = fmin(least, x * x + y * y);
    }
    return sqrt(least);
}

/* ---- holes ---- */

/* Bounds the rounding of a joint's coordinates. */
static const double JOINT_ROUNDING = 0x1p-34;

/* The sign of the area that a loop goes around: negative if the other body's inside is around it; it is a hole. 0: it
 * has no area, as where an edge touches the triangle. */
static int side_of_loop(const ct_piece_search *search, const ct_triangle_map *map, uint32_t loop) {
    double area = 0, length = 0;
    for (uint32_t i = 0; i < map->end - map->first; i++) {
        const struct ct_stretch *s = &search->stretches[i];
        if (s->loop != loop) continue;
        area += s->from[0] * s->to[1] - s->from[1] * s->to[0];
        length += fabs(s->to[0] - s->from[0]) + fabs(s->to[1] - s->from[1]);
    }
    return fabs(area) <= length * JOINT_ROUNDING ? 0 : area > 0 ? 1 : -1;
}

/* What is around a loop where a line from a gap first meets it. */
struct surroundings {
    ct_region region; /* in front of it */
    /* Of other stretches that coincide with it there, those that lower and that raise the winding number: how many, and
     * the node of one. */
    uint32_t n_touching[2], touching[2];
};

/* False: the line does not meet it. */
static bool look_at_loop(const ct_piece_search *search, const ct_triangle_map *map, const struct sight *sight,
                         uint32_t loop, struct surroundings *around) {
    struct meet meet;
    double first = 1 + TOUCHING;
    uint32_t met = UINT32_MAX;
    for (uint32_t i = 0; i < map->end - map->first; i++) {
        const struct ct_stretch *s = &search->stretches[i];
        if (s->loop != loop || !meet_stretch(sight, s, &meet) || !(meet.where <= first)) continue;
        first = meet.where;
        met = i;
    }
    if (met == UINT32_MAX) return false;
    *around = (struct surroundings){.region = find_region_before(search, map, sight, first - TOUCHING)};
    for (uint32_t i = 0; i < map->end - map->first; i++) {
        if (i == met || !meet_stretch(sight, &search->stretches[i], &meet) || fabs(meet.where - first) > TOUCHING)
            continue;
        around->n_touching[meet.jump > 0]++;
        around->touching[meet.jump > 0] = search->stretches[i].node;
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
    struct surroundings best = {.region = {0, 0}};
    uint32_t node = 0, tries = 0;
    int sure = 0;
    if (side == 0) return; /* what is inside of it is infinitesimal, and joins nothing */
    for (uint32_t i = 0; i < map->end - map->first && sure < 3 && (is_hole || tries < TRIES); i++) {
        const struct ct_stretch *s = &search->stretches[i];
        if (s->loop != loop) continue;
        const double at[2] = {s->from[0] + IN_GAP * (s->to[0] - s->from[0]),
                              s->from[1] + IN_GAP * (s->to[1] - s->from[1])};
        node = s->node;
        for (int k = 0; k < 3 && sure < 3; k++, tries++) {
            const struct sight sight = look_from_gap(map, k, at);
            struct surroundings around;
            if (!(map->gaps[k].length > TOUCHING && height_over_edge(k, at) > TOUCHING)) continue; /* along the edge */
            const int rated = look_at_loop(search, map, &sight, loop, &around) ? rate(&around, is_hole) : 0;
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
            end = ct_end_of_crossings(surface, first);
            ct_triangle_map map = ct_link_stretches(search, pass, b, surface->crossings[first].triangle, first, end);
            if (!map.n_loops) continue;
            ct_place_stretches(search, &map);
            uint32_t loop = 0;
            for (uint32_t i = 0; i < end - first; i++) /* in the order of their numbers */
                if (search->stretches[i].loop == loop + 1) join_loop(search, &map, ++loop);
        }
    }
}
