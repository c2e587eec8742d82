/* point_places.c - finds a contact's places for points by one pass over its vertices, and by casting its long edges. */
#include "gpu/after/point_places.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/array.h"
#include "gpu/base/cancel.h"
#include "gpu/base/large.h"
#include "gpu/base/simd.h"
#include "gpu/base/vec.h"
#include "gpu/mesh/mesh.h"

/* Squares of the grid along a side: for as many points as FEW, and for more. */
enum { FEW = 8, COARSE = 6, FINE = 16 };
/* Directions for the outermost vertices, and for edges where there are more than MOST_EDGES: then the outermost
 * EDGES_PER_DIRECTION of each count. */
enum { DIRECTIONS = 8, MOST_EDGES = 64, EDGES_PER_DIRECTION = 4 };
/* Of sides that both have more vertices than this, either's stand for the other's nearby. */
enum { DENSE = 64 };
/* Vertices between polls. */
enum { POLL = 4096 };
/* Of the contact's depth: what a vertex on the window's outline may be less deep than one in its middle, and count. */
static const double OUTWARDS = 1e-3;

/* Of a square: edges that are longer count. */
static const double LONG = 1.5;
/* The sine of the angle between two triangles of one plane: far above what floats round. */
static const double FLAT = 1e-6;

/* Along no edge that meshes are likely to have. */
static const double directions[DIRECTIONS][2] = {{0.934, 0.357},   {0.408, 0.913},   {-0.357, 0.934}, {-0.913, 0.408},
                                                 {-0.934, -0.357}, {-0.408, -0.913}, {0.357, -0.934}, {0.913, -0.408}};

typedef struct ct_point_edge {
    double end[2][3];          /* m: of its part in the window */
    int side;                  /* whose */
    uint32_t triangle, corner; /* its first triangle, and the corner that it begins at there */
    bool is_chosen;
} ct_point_edge;

static bool add_place(ct_point_places *places, const double at[3], int side) {
    if (!ct_array_grow(&places->all, &places->capacity, places->n + 1)) return false;
    places->all[places->n++] = (ct_point_place){{at[0], at[1], at[2]}, 0, side};
    return true;
}

/* ---- vertices ---- */

/* The vertex of the largest key; of equal ones that of the smallest u, then v, then the deepest. */
struct best {
    double key;
    const double *at; /* NULL: none yet */
};

static bool comes_before(const double *at, const double *other, double down) {
    for (int k = 0; k < 2; k++)
        if (at[k] != other[k]) return at[k] < other[k];
    return down * at[2] > down * other[2];
}

static void keep_better(struct best *best, double key, const double *at, double down) {
    if (!best->at || key > best->key || (key == best->key && comes_before(at, best->at, down)))
        *best = (struct best){key, at};
}

/* The grid of one side, and the outermost. */
struct grid {
    const ct_point_lines *lines;
    int side;
    int across;                 /* squares along a side */
    double middle[2], scale[2]; /* of the window; squares / m */
    double down, outwards;      /* a vertex's key is down * w + outwards * (its distance from the middle, m)^2 */
    struct best squares[FINE * FINE], outermost[DIRECTIONS];
};

static void start_grid(struct grid *grid, const ct_point_lines *lines, int side, int across, double depth) {
    double diagonal = 0;
    grid->lines = lines;
    grid->side = side;
    grid->across = across;
    for (int k = 0; k < 2; k++) {
        const double width = lines->hi[k] - lines->lo[k];
        grid->middle[k] = 0.5 * (lines->lo[k] + lines->hi[k]);
        grid->scale[k] = width > 0 ? across / width : 0;
        diagonal += 0.25 * width * width;
    }
    grid->down = (side == 0 ? -1 : 1) * lines->sense;
    grid->outwards = diagonal > 0 ? OUTWARDS * depth / diagonal : 0;
    memset(grid->squares, 0, (size_t)(across * across) * sizeof *grid->squares);
    memset(grid->outermost, 0, sizeof grid->outermost);
}

static void add_vertex(struct grid *grid, const double at[3]) {
    int square = 0;
    double far = 0;
    for (int k = 0; k < 2; k++) {
        if (at[k] < grid->lines->lo[k] || at[k] > grid->lines->hi[k]) return;
        const int i = (int)((at[k] - grid->lines->lo[k]) * grid->scale[k]);
        square = square * grid->across + (i < grid->across ? i : grid->across - 1);
        far += (at[k] - grid->middle[k]) * (at[k] - grid->middle[k]);
    }
    keep_better(&grid->squares[square], grid->down * at[2] + grid->outwards * far, at, grid->down);
    for (int d = 0; d < DIRECTIONS; d++)
        keep_better(&grid->outermost[d], directions[d][0] * at[0] + directions[d][1] * at[1], at, grid->down);
}

/* Drops the vertices in squares where both sides have one, of one side in each: of the body that the contact's axis pushes
 * along in one half of them, as on a chessboard, and of the other one in the rest. */
static void take_turns(struct grid grid[2], int sense) {
    for (int i = 0; i < grid->across * grid->across; i++) {
        const int lower = (i / grid->across + i % grid->across) % 2;
        if (grid[0].squares[i].at && grid[1].squares[i].at) grid[sense > 0 ? lower : 1 - lower].squares[i].at = NULL;
    }
}

/* Adds the vertices that were kept, each once. */
static bool add_kept(ct_point_places *places, const struct grid *grid) {
    for (int i = 0; i < grid->across * grid->across; i++)
        if (grid->squares[i].at && !add_place(places, grid->squares[i].at, grid->side)) return false;
    for (int d = 0; d < DIRECTIONS; d++) {
        const double *at = grid->outermost[d].at;
        bool is_there = !at;
        for (int i = 0; i < grid->across * grid->across && !is_there; i++) is_there = grid->squares[i].at == at;
        for (int i = 0; i < d && !is_there; i++) is_there = grid->outermost[i].at == at;
        if (!is_there && !add_place(places, at, grid->side)) return false;
    }
    return true;
}

static bool add_side(struct grid *grid, const ct_point_lines *lines) {
    const double(*at)[3] = (const double(*)[3])lines->vertices + (grid->side ? lines->n_vertices[0] : 0);
    for (size_t i = 0; i < lines->n_vertices[grid->side]; i++) {
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled_at("points", lines->n_points)) return false;
        add_vertex(grid, at[i]);
    }
    return true;
}

static bool add_vertices(ct_point_places *places, const ct_point_lines *lines, int across, double depth) {
    struct grid grid[2];
    for (int s = 0; s < 2; s++) {
        start_grid(&grid[s], lines, s, across, depth);
        if (!add_side(&grid[s], lines)) return false;
    }
    if (lines->n_vertices[0] > DENSE && lines->n_vertices[1] > DENSE) take_turns(grid, lines->sense);
    return add_kept(places, &grid[0]) && add_kept(places, &grid[1]);
}

/* ---- edges ---- */

/* The part of an edge that is in the window. False: none is. */
static bool clip(const ct_point_lines *lines, const double p[3], const double q[3], double ends[2][3]) {
    double from = 0, to = 1;
    for (int k = 0; k < 3; k++) {
        const double along = q[k] - p[k], lo = lines->lo[k] - p[k], hi = lines->hi[k] - p[k];
        if (along == 0) {
            if (lo > 0 || hi < 0) return false;
            continue;
        }
        from = fmax(from, (along > 0 ? lo : hi) / along);
        to = fmin(to, (along > 0 ? hi : lo) / along);
    }
    if (!(from < to)) return false;
    for (int k = 0; k < 3; k++) {
        ends[0][k] = p[k] + from * (q[k] - p[k]);
        ends[1][k] = p[k] + to * (q[k] - p[k]);
    }
    return true;
}

static bool comes_first(const double p[3], const double q[3]) {
    for (int k = 0; k < 3; k++)
        if (p[k] != q[k]) return p[k] < q[k];
    return false;
}

/* The edges of a triangle that are longer than a square, each by one of its two triangles. */
static bool add_long_edges(ct_point_places *places, const ct_point_lines *lines, int side, uint32_t triangle,
                           double square) {
    const ct_line_body *body = &lines->body[side];
    const uint32_t *corner = body->surface->body->mesh->triangles + 3 * (size_t)triangle;
    if (lines->is_divided && !ct_point_lines_are_listed(body, triangle)) return true;
    for (int k = 0; k < 3; k++) {
        const uint32_t from = corner[k], to = corner[(k + 1) % 3];
        const float *a = body->surface->positions + 3 * (size_t)from, *b = body->surface->positions + 3 * (size_t)to;
        double squared = 0, p[3], q[3];
        for (int i = 0; i < 3; i++) squared += ((double)b[i] - (double)a[i]) * ((double)b[i] - (double)a[i]);
        if (!(squared > square * square)) continue;
        ct_point_edge edge = {.side = side, .triangle = triangle, .corner = (uint32_t)k};
        ct_point_lines_vertex(body, from, p);
        ct_point_lines_vertex(body, to, q);
        if (!comes_first(p, q) || !clip(lines, p, q, edge.end)) continue;
        if (!ct_array_grow(&places->edges, &places->edge_capacity, places->n_edges + 1)) return false;
        places->edges[places->n_edges++] = edge;
    }
    return true;
}

/* Whether a box of a body reaches into the window, and an edge in it may be longer than a square. */
static bool may_have_long_edges(const ct_point_lines *lines, const ct_line_body *body, const ct_cluster_box *box,
                                double square) {
    double squared = 0;
    for (int k = 0; k < 3; k++) {
        const double side = (double)box->hi[k] - (double)box->lo[k];
        squared += side * side;
    }
    if (!(squared > square * square)) return false;
    for (int k = 0; k < 3; k++) {
        double range[2];
        ct_point_lines_range(body, box, k, range);
        if (range[1] < lines->lo[k] || range[0] > lines->hi[k]) return false;
    }
    return true;
}

/* Of four triangles, a bit for each that has an edge longer than a square, but for rounding. */
static uint32_t have_long_edges(const ct_surface_cluster *cluster, uint32_t at, float square) {
    const ct_v4f most = {square * square, square * square, square * square, square * square};
    ct_v4i is_long = {0, 0, 0, 0};
    for (int c = 0; c < 3; c++) {
        ct_v4f squared = {0, 0, 0, 0};
        for (int k = 0; k < 3; k++) {
            const ct_v4f *p = (const void *)&cluster->corner[c][k][at],
                         *q = (const void *)&cluster->corner[(c + 1) % 3][k][at];
            squared += (*q - *p) * (*q - *p);
        }
        is_long |= squared > most;
    }
    return ct_v4i_signs(is_long);
}

static bool find_in_cluster(ct_point_places *places, ct_point_lines *lines, int side, double square, uint32_t index) {
    ct_line_body *body = &lines->body[side];
    const ct_surface_cluster *cluster = ct_surface_cluster_of(body->surface, index);
    const uint32_t n = body->surface->body->mesh->n_triangles, first = index * CT_CLUSTER_TRIANGLES;
    if (!cluster) return false;
    for (uint32_t at = 0; at < CT_CLUSTER_TRIANGLES && first + at < n; at += 4) {
        if (at % CT_PART_OF_CLUSTER == 0 &&
            !may_have_long_edges(lines, body, &cluster->part[at / CT_PART_OF_CLUSTER], square)) {
            at += CT_PART_OF_CLUSTER - 4;
            continue;
        }
        for (uint32_t lanes = have_long_edges(cluster, at, (float)(square * 0.999)); lanes; lanes &= lanes - 1) {
            const uint32_t triangle = first + at + (uint32_t)__builtin_ctz(lanes);
            if (triangle < n && !add_long_edges(places, lines, side, triangle, square)) return false;
        }
    }
    lines->visits += CT_CLUSTER_TRIANGLES;
    return true;
}

static bool find_long_edges(ct_point_places *places, ct_point_lines *lines, int side, double square, uint32_t level,
                            uint32_t node) {
    const ct_line_body *body = &lines->body[side];
    const ct_clusters *clusters = body->surface->clusters;
    lines->visits++;
    if (!may_have_long_edges(lines, body, &body->surface->boxes[node], square)) return true;
    if (ct_point_lines_are_cancelled(lines)) return false;
    if (level > 0) {
        const uint32_t first = clusters->level[level - 1] + (node - clusters->level[level]) * CT_CLUSTER_FAN;
        for (uint32_t n = first; n < first + CT_CLUSTER_FAN && n < clusters->level[level]; n++)
            if (!find_long_edges(places, lines, side, square, level - 1, n)) return false;
        return true;
    }
    return find_in_cluster(places, lines, side, square, node);
}

/* The same from the body's column over the window, which has all triangles there. */
static bool find_in_column(ct_point_places *places, ct_point_lines *lines, int side, double square) {
    const ct_point_column *column = &lines->column[side];
    ct_v4f lo[3], hi[3];
    for (int k = 0; k < 3; k++) {
        lo[k] = ct_v4f_of(lines->lo[k]);
        hi[k] = ct_v4f_of(lines->hi[k]);
    }
    for (uint32_t at = 0; at < column->n; at += 4)
        for (uint32_t lanes = ct_point_column_meets(column, at, lo, hi); lanes; lanes &= lanes - 1)
            if (!add_long_edges(places, lines, side, column->triangle[at + (uint32_t)__builtin_ctz(lanes)], square))
                return false;
    lines->visits += column->n;
    return true;
}

/* How far the edge reaches in a direction. */
static double reach_of(const ct_point_edge *edge, const double direction[2]) {
    return fmax(direction[0] * edge->end[0][0] + direction[1] * edge->end[0][1],
                direction[0] * edge->end[1][0] + direction[1] * edge->end[1][1]);
}

static bool is_farther(const ct_point_edge *a, const ct_point_edge *b, const double direction[2]) {
    const double of_a = reach_of(a, direction), of_b = reach_of(b, direction);
    if (of_a != of_b) return of_a > of_b;
    const double *p = a->end[0], *q = b->end[0];
    for (int k = 0; k < 6; k++)
        if (p[k] != q[k]) return p[k] < q[k];
    return false;
}

/* False: cancelled. */
static bool choose_edges(ct_point_places *places, const double direction[2]) {
    ct_point_edge *best[EDGES_PER_DIRECTION];
    int n = 0;
    for (size_t i = 0; i < places->n_edges; i++) {
        ct_point_edge *edge = &places->edges[i];
        int to = n;
        if (CT_POLL_EVERY(i, 4096) && ct_is_cancelled()) return false;
        while (to > 0 && is_farther(edge, best[to - 1], direction)) to--;
        if (to == EDGES_PER_DIRECTION) continue;
        if (n < EDGES_PER_DIRECTION) n++;
        for (int k = n - 1; k > to; k--) best[k] = best[k - 1];
        best[to] = edge;
    }
    for (int k = 0; k < n; k++) best[k]->is_chosen = true;
    return true;
}

/* Whether the triangle on the edge's other side is in the same cluster and lies in the same plane: the edge is none, as the
 * diagonals of a box's faces are. */
static bool is_in_face(const ct_point_lines *lines, const ct_point_edge *edge) {
    const ct_line_body *body = &lines->body[edge->side];
    const uint32_t *all = body->surface->body->mesh->triangles, *mine = all + 3 * (size_t)edge->triangle;
    const uint32_t from = mine[edge->corner], to = mine[(edge->corner + 1) % 3];
    const uint32_t first = edge->triangle / CT_CLUSTER_TRIANGLES * CT_CLUSTER_TRIANGLES;
    for (uint32_t t = first; t < first + CT_CLUSTER_TRIANGLES && t < body->surface->body->mesh->n_triangles; t++)
        for (int k = 0; k < 3; k++) {
            const uint32_t *other = all + 3 * (size_t)t;
            if (other[k] != to || other[(k + 1) % 3] != from) continue;
            double p[3], q[3], r[3], s[3], normal[3];
            ct_point_lines_vertex(body, from, p);
            ct_point_lines_vertex(body, to, q);
            ct_point_lines_vertex(body, mine[(edge->corner + 2) % 3], r);
            ct_point_lines_vertex(body, other[(k + 2) % 3], s);
            ct_sub3(q, p, q);
            ct_sub3(r, p, r);
            ct_sub3(s, p, s);
            ct_cross3(q, r, normal);
            return fabs(ct_dot3(normal, s)) <= FLAT * sqrt(ct_dot3(normal, normal) * ct_dot3(s, s));
        }
    return false;
}

/* Where an edge first and last pierces the other body. */
static bool add_piercings(ct_point_places *places, ct_point_lines *lines, const ct_point_edge *edge) {
    const double *p = edge->end[0], *q = edge->end[1];
    double t[2] = {INFINITY, -INFINITY};
    if (is_in_face(lines, edge)) return true;
    if (!ct_point_lines_cross(lines, lines->is_self ? 0 : 1 - edge->side, p, q)) return false;
    for (size_t i = 0; i < lines->n_hits; i++) {
        t[0] = fmin(t[0], lines->hits[i].t);
        t[1] = fmax(t[1], lines->hits[i].t);
    }
    for (int k = 0; k < (t[0] < t[1] ? 2 : t[0] == t[1]); k++) {
        double at[3];
        for (int i = 0; i < 3; i++) at[i] = p[i] + t[k] * (q[i] - p[i]);
        if (!add_place(places, at, -1)) return false;
    }
    return true;
}

static bool add_edges(ct_point_places *places, ct_point_lines *lines, int across) {
    const double square = LONG * fmax(lines->hi[0] - lines->lo[0], lines->hi[1] - lines->lo[1]) / across;
    places->n_edges = 0;
    for (int s = 0; s < (lines->is_self ? 1 : 2); s++) {
        const ct_line_body *body = &lines->body[s];
        if (body->is_half_space) continue;
        const ct_clusters *clusters = body->surface->clusters;
        if (lines->column[s].is_whole) {
            if (!find_in_column(places, lines, s, square)) return false;
            continue;
        }
        if (!find_long_edges(places, lines, s, square, clusters->n_levels - 1, clusters->n_nodes - 1)) return false;
    }
    for (int d = 0; d < DIRECTIONS && places->n_edges > MOST_EDGES; d++)
        if (!choose_edges(places, directions[d])) return false;
    for (size_t i = 0; i < places->n_edges; i++)
        if ((places->n_edges <= MOST_EDGES || places->edges[i].is_chosen) &&
            !add_piercings(places, lines, &places->edges[i]))
            return false;
    return true;
}

/* ---- all ---- */

/* Vertices first, and the outermost of either. */
static int by_order(const void *a, const void *b) {
    const ct_point_place *p = a, *q = b;
    if ((p->side < 0) != (q->side < 0)) return p->side < 0 ? 1 : -1;
    if (p->far != q->far) return p->far > q->far ? -1 : 1;
    for (int k = 0; k < 3; k++)
        if (p->at[k] != q->at[k]) return p->at[k] < q->at[k] ? -1 : 1;
    return 0;
}

bool ct_point_places_find(ct_point_places *places, ct_point_lines *lines, double depth, size_t most) {
    const int across = most > FEW ? FINE : COARSE;
    places->n = 0;
    if (!add_vertices(places, lines, across, depth)) return false;
    if (!add_edges(places, lines, across)) return false;
    for (size_t i = 0; i < places->n; i++) {
        ct_point_place *place = &places->all[i];
        place->far = 0;
        for (int k = 0; k < 2; k++) {
            const double off = place->at[k] - 0.5 * (lines->lo[k] + lines->hi[k]);
            place->far += off * off;
        }
    }
    return ct_sort_large(places->all, places->n, sizeof *places->all, by_order);
}

void ct_point_places_free(ct_point_places *places) {
    free(places->all);
    free(places->edges);
    memset(places, 0, sizeof *places);
}
