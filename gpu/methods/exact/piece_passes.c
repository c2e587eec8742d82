/* piece_passes.c - finds which pieces of one perturbation are pieces of the other one too: a point inside a piece lies,
 * but for an infinitesimal, in both. */
#include <math.h>
#include <string.h>

#include "gpu/methods/exact/piece_nodes.h"

/* Of a set of pieces that are united: what it has in pass 0 less what it has in pass 1. 0 where the set is complete. */
struct balance {
    double volume, slack;
    ct_moment moment;
};

struct match {
    ct_piece_search *search;
    uint32_t *root;   /* [n_nodes] as each perturbation by itself has them */
    uint32_t *number; /* [n_nodes] of roots: 1 + index of the piece; 0: none, or without volume */
    ct_piece_facing (*facings)[CT_PIECE_FACINGS]; /* [pieces] by falling area */
    struct balance *balance;                      /* [n_nodes] by the present root */
    ct_ray_hits hits;                             /* of the present ray */
    uint32_t *part_of_root;                       /* [n_nodes] 1 + index of a part of the present triangle, or 0 */
};

/* Units. A ray begins this far before a point, whose coordinates were rounded. */
static const double BEFORE_POINT = 4;

/* ---- one point ---- */

/* Both perturbations find the same body just behind a point of a piece's boundary, seen along +x. Where faces of both
 * bodies coincide, each finds another one of them last, and a body's own faces may coincide, too:
 *
 *     pass 0, body 1 is moved towards +x:    body 0  ------| |------      body 1 enters last
 *                                            body 1  - - - - - |-----
 *     pass 1:                                body 0  ------| |------      body 0 enters last
 *                                            body 1  |---------------
 *
 * So the piece behind the point is in each pass that of the last face that enters. If a body only leaves there, there
 * is no volume behind it. */

static bool is_coplanar(const ct_met_triangle *a, const ct_met_triangle *b) {
    for (int k = 0; k < 3; k++)
        if (ct_orientation(a->corner[0], a->corner[1], a->corner[2], b->corner[k]) != 0) return false;
    return true;
}

/* The face of body b at a point that enters it, among those that the line through the point meets. */
struct entered {
    uint32_t node;    /* CT_NO_NODE: none, or it cannot be told */
    bool has, leaves; /* a face enters; one leaves */
};

static struct entered find_entered(struct match *match, int pass, int b, const ct_met_triangle *face) {
    struct entered entered = {.node = CT_NO_NODE};
    bool is_clear = true;
    for (uint32_t i = 0; i < match->hits.n; i++) {
        const ct_met_triangle *hit = &match->hits.of[i];
        if (hit->body != b || !is_coplanar(face, hit)) continue;
        if (hit->leaves) {
            entered.leaves = true;
            continue;
        }
        bool is_at_curve;
        const uint32_t node = ct_node_at(match->search, pass, b, hit->triangle, hit->at, &is_at_curve);
        if (node == CT_NO_NODE || is_at_curve || (entered.has && match->root[node] != match->root[entered.node]))
            is_clear = false;
        entered.has = true;
        entered.node = is_clear ? node : (uint32_t)CT_NO_NODE;
        if (!is_clear) break;
    }
    return entered;
}

/* The node of what bounds the piece just behind a face in a pass. CT_NO_NODE: there is none, or it cannot be told. */
static uint32_t find_bound(struct match *match, int pass, const ct_met_triangle *face) {
    const int last = match->search->moved[pass] > 0; /* body 1 is moved towards +x: it enters last */
    const struct entered of[2] = {find_entered(match, pass, last, face), find_entered(match, pass, 1 - last, face)};
    for (int i = 0; i < 2; i++)
        if (of[i].leaves && !of[i].has) return CT_NO_NODE;
    return of[0].has ? of[0].node : of[1].node;
}

static void unite(struct match *match, uint32_t a, uint32_t b) {
    a = ct_find_root(match->search, a);
    b = ct_find_root(match->search, b);
    if (a == b) return;
    const struct balance *x = &match->balance[a], *y = &match->balance[b];
    const struct balance sum = {x->volume + y->volume,
                                x->slack + y->slack,
                                {x->moment.value + y->moment.value, x->moment.slack + y->moment.slack}};
    ct_unite(match->search, a, b);
    a = ct_find_root(match->search, a);
    match->balance[a] = sum;
}

static bool is_complete(const struct match *match, uint32_t node) {
    const struct balance *of = &match->balance[ct_find_root(match->search, node)];
    return fabs(of->volume) <= of->slack && fabs(of->moment.value) <= of->moment.slack;
}

/* Unites the pieces of both passes behind a part of a boundary, if it tells. */
static void match_at(struct match *match, int pass, uint32_t root, const ct_piece_facing *facing) {
    ct_piece_search *search = match->search;
    const ct_met_triangle *face = NULL;
    if (facing->area == 0 || ct_piece_is_cancelled(search, "patches", match->number[root])) return;
    const double p[3] = {facing->point[0] - BEFORE_POINT, facing->point[1], facing->point[2]};
    ct_list_hits(search, p, (int)facing->body, facing->triangle, &match->hits);
    for (uint32_t i = 0; i < match->hits.n; i++)
        if (match->hits.of[i].body == (int)facing->body && match->hits.of[i].triangle == facing->triangle)
            face = &match->hits.of[i];
    if (!face || search->has_failed) return;
    const uint32_t node[2] = {find_bound(match, 0, face), find_bound(match, 1, face)};
    if (node[0] == CT_NO_NODE || node[1] == CT_NO_NODE || match->root[node[pass]] != root) return;
    unite(match, node[0], node[1]);
}

/* ---- parts of triangles ---- */

/* What is done with each part of a piece with a volume that faces -x. */
typedef void (*look_at_fn)(struct match *match, int pass, uint32_t root, const ct_piece_facing *facing);

/* The parts of a triangle: by root, integrals of 1, x and y. */
struct parts {
    uint32_t *root;
    double (*integrals)[3];
    uint32_t n;
};

static void add_to_part(struct match *match, struct parts *parts, uint32_t root, const ct_integrals *integrals) {
    if (!match->part_of_root[root]) {
        parts->root[parts->n] = root;
        memset(parts->integrals[parts->n], 0, sizeof parts->integrals[0]);
        match->part_of_root[root] = ++parts->n;
    }
    double *sum = parts->integrals[match->part_of_root[root] - 1];
    for (int k = 0; k < 3; k++) sum[k] += integrals->of[k];
}

static void visit_triangle(struct match *match, int pass, int b, uint32_t triangle, struct parts *parts,
                           look_at_fn look_at) {
    ct_piece_search *search = match->search;
    const ct_crossing_range range = ct_crossings_of(search, pass, b, triangle);
    const int32_t winding = ct_winding_at(search, pass, b, triangle, 1);
    const double *p[3];
    if (!winding && range.first == range.end) return;
    ct_load_corners(search, b, triangle, p);
    parts->n = 0;
    if (winding) {
        const ct_integrals whole = ct_whole_integrals(winding);
        add_to_part(match, parts, match->root[ct_corner_node(search, pass, b, triangle, 1)], &whole);
    }
    for (uint32_t i = range.first; i < range.end; i++) {
        if (CT_POLL_EVERY(i, 1024) && ct_piece_is_cancelled(search, "crossings", i)) return;
        add_to_part(match, parts, match->root[ct_pair_node(search, pass, b, i)],
                    &search->surface[pass][b].crossings[i].share.integrals);
    }
    for (uint32_t i = 0; i < parts->n; i++) match->part_of_root[parts->root[i]] = 0;
    for (uint32_t i = 0; i < parts->n && !search->has_failed; i++) {
        ct_piece_facing facing;
        if (match->number[parts->root[i]] && ct_make_facing(p, parts->integrals[i], (uint32_t)b, triangle, &facing))
            look_at(match, pass, parts->root[i], &facing);
    }
}

static void visit_units(struct match *match, int pass, int b, uint32_t cluster, look_at_fn look_at) {
    ct_piece_search *search = match->search;
    const uint32_t *first_unit = search->body[b]->topology->first_unit;
    for (uint32_t unit = first_unit[cluster]; unit < first_unit[cluster + 1]; unit++) {
        if (!search->surface[pass][b].of_unit[unit]) continue;
        const ct_unit_summary *summary = ct_summarize_unit(search, pass, b, unit);
        const uint32_t root = match->root[search->unit_nodes[pass][b] + unit];
        ct_piece_facing facings[CT_PIECE_FACINGS];
        if (search->has_failed) return;
        if (!summary || !match->number[root]) continue;
        memcpy(facings, summary->facings, sizeof facings);
        for (int i = 0; i < CT_PIECE_FACINGS && facings[i].area > 0; i++) look_at(match, pass, root, &facings[i]);
    }
}

static bool visit_parts(struct match *match, int pass, int b, look_at_fn look_at) {
    ct_piece_search *search = match->search;
    const ct_piece_surface *surface = &search->surface[pass][b];
    const size_t most = (size_t)search->most_crossings + 1;
    struct parts parts = {.root = ct_piece_allocate(search, most * sizeof *parts.root),
                          .integrals = ct_piece_allocate(search, most * sizeof *parts.integrals)};
    for (uint32_t k = 0; k < surface->n_added && !search->has_failed; k++) {
        const ct_placed_cluster *placed = ct_placed_of(search, b, surface->added[k]);
        if (ct_piece_is_cancelled(search, "crossings", surface->n_crossings)) return false;
        if (!surface->crossed_as[surface->added[k]]) {
            visit_units(match, pass, b, surface->added[k], look_at);
            continue;
        }
        for (uint32_t t = 0; t < placed->n_triangles && !search->has_failed; t++) {
            const uint32_t triangle = surface->added[k] * CT_CLUSTER_TRIANGLES + t;
            visit_triangle(match, pass, b, triangle, &parts, look_at);
        }
    }
    return !search->has_failed;
}

/* ---- points beside curves ---- */

/* Where parts of several pieces of the other pass meet in one, or a part goes around others, centroids may not tell.
 * So points beside the middle of each stretch are tried, at these parts of its length. */
static const double BESIDE[] = {0.25, 0.03, 0.002};
enum { N_BESIDE = sizeof BESIDE / sizeof *BESIDE };

struct beside {
    uint32_t root;
    ct_piece_facing facing;
};

/* Lists the points beside the stretches of a triangle, inside the other body. Returns how many. */
static uint32_t list_beside(struct match *match, int pass, int b, uint32_t first, uint32_t end, struct beside *list) {
    ct_piece_search *search = match->search;
    const uint32_t triangle = search->surface[pass][b].crossings[first].triangle;
    const double *p[3], whole[3] = {0.5, 0, 0};
    uint32_t n = 0;
    ct_piece_facing facing;
    ct_load_corners(search, b, triangle, p);
    if (!ct_make_facing(p, whole, (uint32_t)b, triangle, &facing)) return 0;
    ct_triangle_map map;
    if (!ct_map_triangle(search, pass, b, first, &map)) return 0;
    for (uint32_t i = 0; i < end - first; i++) {
        const struct ct_stretch *s = &map.stretches[i];
        const double way[2] = {s->to[0] - s->from[0], s->to[1] - s->from[1]};
        for (int k = 0; k < N_BESIDE; k++) {
            const double x = s->from[0] + 0.4567 * way[0] - BESIDE[k] * way[1],
                         y = s->from[1] + 0.4567 * way[1] + BESIDE[k] * way[0];
            if (!(x > 0 && y > 0 && x + y < 1)) continue;
            facing.at[0] = x;
            facing.at[1] = y;
            for (int j = 0; j < 3; j++) facing.point[j] = p[0][j] + x * (p[1][j] - p[0][j]) + y * (p[2][j] - p[0][j]);
            list[n++] = (struct beside){match->root[s->node], facing};
        }
    }
    return n;
}

static void match_beside(struct match *match, int pass, int b) {
    ct_piece_search *search = match->search;
    const ct_piece_surface *surface = &search->surface[pass][b];
    struct beside *list = ct_piece_allocate(search, (size_t)search->most_crossings * N_BESIDE * sizeof *list);
    for (uint32_t first = 0, end; first < surface->n_crossings && !search->has_failed; first = end) {
        bool is_needed = false;
        if (ct_piece_is_cancelled(search, "crossings", first)) return;
        end = ct_end_of_crossings(search, pass, b, first);
        for (uint32_t i = first; i < end; i++) {
            const uint32_t root = match->root[ct_pair_node(search, pass, b, i)];
            is_needed = is_needed || (match->number[root] && !is_complete(match, root));
        }
        const uint32_t n = is_needed ? list_beside(match, pass, b, first, end, list) : 0;
        for (uint32_t i = 0; i < n && !search->has_failed; i++)
            if (match->number[list[i].root] && !is_complete(match, list[i].root))
                match_at(match, pass, list[i].root, &list[i].facing);
    }
}

/* ---- all pieces ---- */

static void note_part(struct match *match, int pass, uint32_t root, const ct_piece_facing *facing) {
    (void)pass;
    ct_note_facing(match->facings[match->number[root] - 1], facing);
}

static void match_if_needed(struct match *match, int pass, uint32_t root, const ct_piece_facing *facing) {
    if (!is_complete(match, root)) match_at(match, pass, root, facing);
}

static bool make_tables(struct match *match) {
    ct_piece_search *search = match->search;
    const uint32_t of_second = search->vertex_nodes[1][0][0]; /* the first node of pass 1 */
    uint32_t n = 0;
    match->root = ct_piece_allocate(search, search->n_nodes * sizeof *match->root);
    match->number = ct_piece_allocate(search, search->n_nodes * sizeof *match->number);
    match->balance = ct_piece_allocate(search, search->n_nodes * sizeof *match->balance);
    match->part_of_root = ct_piece_allocate(search, search->n_nodes * sizeof *match->part_of_root);
    for (uint32_t i = 0; i < search->n_nodes && !search->has_failed; i++) {
        if (CT_POLL_EVERY(i, 4096) && ct_piece_is_cancelled(search, "crossings", i)) return false;
        match->part_of_root[i] = 0;
        match->root[i] = ct_find_root(search, i);
        match->number[i] = fabs(search->volumes[i]) > search->slacks[i] ? ++n : 0;
        const double sign = i < of_second ? 1 : -1;
        match->balance[i] = (struct balance){
            sign * search->volumes[i], search->slacks[i], {sign * search->moments[i].value, search->moments[i].slack}};
    }
    match->facings = ct_piece_allocate(search, n * sizeof *match->facings);
    if (search->has_failed) return false;
    memset(match->facings, 0, n * sizeof *match->facings);
    return true;
}

/* First by the largest parts of each piece, which nearly always tell; then, for sets of pieces whose volumes or
 * moments in both passes differ, by all parts. */
void ct_join_passes(ct_piece_search *search) {
    struct match match = {.search = search};
    if (!make_tables(&match)) return;
    for (int pass = 0; pass < 2; pass++)
        for (int b = 0; b < 2; b++)
            if (!visit_parts(&match, pass, b, note_part)) return;
    const uint32_t of_second = search->vertex_nodes[1][0][0];
    for (uint32_t i = 0; i < search->n_nodes && !search->has_failed; i++)
        for (int k = 0; match.number[i] && k < CT_PIECE_FACINGS && !search->has_failed; k++)
            match_at(&match, i >= of_second, i, &match.facings[match.number[i] - 1][k]);
    bool is_done = true;
    for (uint32_t i = 0; i < search->n_nodes && is_done; i++) is_done = !match.number[i] || is_complete(&match, i);
    for (int pass = 0; pass < 2 && !is_done; pass++)
        for (int b = 0; b < 2; b++) {
            if (!visit_parts(&match, pass, b, match_if_needed)) return;
            match_beside(&match, pass, b);
            if (search->has_failed) return;
        }
}
