/* piece_nodes.h - the nodes of a search for pieces, and the look-ups that its steps share. See pieces.h. */
#ifndef CT_EXACT_PIECE_NODES_H
#define CT_EXACT_PIECE_NODES_H

#include "gpu/base/cancel.h"
#include "gpu/methods/exact/pieces.h"
#include "gpu/methods/exact/predicates_k.h"

enum { CT_NO_NODE = UINT32_MAX };

static inline void *ct_piece_allocate(ct_piece_search *search, size_t bytes) {
    void *memory = ct_arena_alloc(search->arena, search->budget, bytes ? bytes : 1);
    if (!memory) search->has_failed = true;
    return memory;
}

/* The poll. True: the search has failed. */
static inline bool ct_piece_is_cancelled(ct_piece_search *search, const char *what, uint64_t count) {
    if (!ct_is_cancelled_at(what, count)) return false;
    search->has_failed = true;
    return true;
}

static inline uint32_t ct_find_root(ct_piece_search *search, uint32_t node) {
    uint32_t *parent = search->parent;
    while (parent[node] != node) node = parent[node] = parent[parent[node]];
    return node;
}

/* The lower root becomes the root of both. */
static inline void ct_unite(ct_piece_search *search, uint32_t a, uint32_t b) {
    a = ct_find_root(search, a);
    b = ct_find_root(search, b);
    if (a < b)
        search->parent[b] = a;
    else
        search->parent[a] = b;
}

/* ---- triangles ---- */

typedef struct ct_triangle_place {
    uint32_t cluster, in_cluster;
    uint32_t crossed_as; /* of its cluster */
    uint32_t unit;
} ct_triangle_place;

static inline ct_triangle_place ct_place_of_triangle(const ct_piece_search *search, int pass, int b,
                                                     uint32_t triangle) {
    const uint32_t cluster = triangle / CT_CLUSTER_TRIANGLES;
    const ct_topology *topology = search->body[b]->topology;
    return (ct_triangle_place){cluster, triangle % CT_CLUSTER_TRIANGLES, search->surface[pass][b].crossed_as[cluster],
                               topology->first_unit[cluster] + topology->unit_in_cluster[triangle]};
}

static inline uint32_t ct_corner_of(const ct_piece_search *search, int b, uint32_t triangle, int corner) {
    return search->body[b]->topology->corners[triangle][corner]; /* in its cluster's list of vertices */
}

/* The winding number of the other body at a corner of a triangle. */
static inline int32_t ct_winding_at(const ct_piece_search *search, int pass, int b, uint32_t triangle, int corner) {
    const ct_triangle_place at = ct_place_of_triangle(search, pass, b, triangle);
    const ct_piece_surface *surface = &search->surface[pass][b];
    const int32_t of_unit = surface->of_unit[at.unit];
    return at.crossed_as
               ? of_unit + surface->crossed[at.crossed_as - 1].winding[ct_corner_of(search, b, triangle, corner)]
               : of_unit;
}

static inline uint32_t ct_corner_node(const ct_piece_search *search, int pass, int b, uint32_t triangle, int corner) {
    const ct_triangle_place at = ct_place_of_triangle(search, pass, b, triangle);
    return at.crossed_as ? search->vertex_nodes[pass][b][at.crossed_as - 1] + ct_corner_of(search, b, triangle, corner)
                         : search->unit_nodes[pass][b] + at.unit;
}

static inline const ct_placed_cluster *ct_placed_of(const ct_piece_search *search, int b, uint32_t cluster) {
    return &search->body[b]->placed[search->body[b]->placed_as[cluster] - 1];
}

/* What a unit of an uncrossed cluster adds up to. NULL: out of memory. */
static inline const ct_unit_summary *ct_summarize_unit(ct_piece_search *search, int pass, int b, uint32_t unit) {
    const ct_unit_summary *summary = search->source.summarize(search->source.argument, pass, b, unit);
    if (!summary) search->has_failed = true;
    return summary;
}

/* Of a crossed cluster. */
static inline void ct_load_corners(const ct_piece_search *search, int b, uint32_t triangle, const double *p[3]) {
    const ct_placed_cluster *c = ct_placed_of(search, b, triangle / CT_CLUSTER_TRIANGLES);
    for (int k = 0; k < 3; k++) p[k] = c->points[c->corners[triangle % CT_CLUSTER_TRIANGLES][k]];
}

/* ---- crossings ---- */

/* A triangle's crossings: first .. end - 1, none of a triangle that nothing crosses. */
typedef struct ct_crossing_range {
    uint32_t first, end;
} ct_crossing_range;

static inline ct_crossing_range ct_crossings_of(const ct_piece_search *search, int pass, int b, uint32_t triangle) {
    const uint32_t as = search->surface[pass][b].crossed_as[triangle / CT_CLUSTER_TRIANGLES];
    if (!as) return (ct_crossing_range){0, 0};
    const uint32_t *first =
        search->first_of[pass][b] + (size_t)(as - 1) * CT_CLUSTER_TRIANGLES + triangle % CT_CLUSTER_TRIANGLES;
    return (ct_crossing_range){first[0], first[1]};
}

/* The end of the crossings of a crossing's triangle. */
static inline uint32_t ct_end_of_crossings(const ct_piece_search *search, int pass, int b, uint32_t crossing) {
    return ct_crossings_of(search, pass, b, search->surface[pass][b].crossings[crossing].triangle).end;
}

/* The crossing of a triangle with another one, which crosses it. */
static inline uint32_t ct_find_crossing(const ct_piece_search *search, int pass, int b, uint32_t triangle,
                                        uint32_t other) {
    const ct_crossing_range range = ct_crossings_of(search, pass, b, triangle);
    const uint32_t *others = search->others[pass][b];
    uint32_t first = range.first, n = range.end - range.first;
    while (n) {
        const uint32_t half = n / 2;
        if (others[first + half] < other) {
            first += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return first;
}

static inline uint32_t ct_pair_node(const ct_piece_search *search, int pass, int b, uint32_t crossing) {
    return search->pair_nodes[pass] + (b ? search->partner[pass][1][crossing] : crossing);
}

/* The triangle on the other side of an edge. */
static inline uint32_t ct_triangle_across(const ct_piece_search *search, int b, uint32_t triangle, int edge) {
    return ct_half_edge_triangle(search->adjacency[b]->opposite[triangle][edge]);
}

/* ---- the order along an edge ---- */

/* The order in which an edge of one body pierces triangles of the other, exact and without ties but for triangles that
 * coincide. */

/* Where an edge from `a` to `b` pierces a triangle: at the part start / length of the way. Below 2^125 in size. */
typedef struct ct_piercing {
    ct_int128 start, length;
    ct_int128 normal[3]; /* of the triangle */
} ct_piercing;

/* The edge pierces the triangle u. */
static inline ct_piercing ct_piercing_of(const double *a, const double *b, const double *const u[3]) {
    const ct_int3 v = ct_int3_between(u[0], u[1]), w = ct_int3_between(u[0], u[2]);
    const ct_int128 start = ct_orientation(u[0], u[1], u[2], a);
    return (ct_piercing){.start = start,
                         .length = start - ct_orientation(u[0], u[1], u[2], b),
                         .normal = {(ct_int128)v.y * w.z - (ct_int128)v.z * w.y,
                                    (ct_int128)v.z * w.x - (ct_int128)v.x * w.z,
                                    (ct_int128)v.x * w.y - (ct_int128)v.y * w.x}};
}

/* Size of a product of two integers of 128 bits. */
typedef struct ct_wide_size {
    unsigned __int128 high, low;
} ct_wide_size;

static inline ct_wide_size ct_multiply_sizes(unsigned __int128 a, unsigned __int128 b) {
    const uint64_t a1 = (uint64_t)(a >> 64), a0 = (uint64_t)a, b1 = (uint64_t)(b >> 64), b0 = (uint64_t)b;
    const unsigned __int128 low = (unsigned __int128)a0 * b0, cross = (unsigned __int128)a0 * b1,
                            other = (unsigned __int128)a1 * b0;
    const unsigned __int128 middle = (low >> 64) + (uint64_t)cross + (uint64_t)other;
    return (ct_wide_size){(unsigned __int128)a1 * b1 + (cross >> 64) + (other >> 64) + (middle >> 64),
                          middle << 64 | (uint64_t)low};
}

static inline unsigned __int128 ct_size_of_int128(ct_int128 x) {
    return x < 0 ? -(unsigned __int128)x : (unsigned __int128)x;
}

/* Sign of a b - c d. */
static inline int ct_compare_products(ct_int128 a, ct_int128 b, ct_int128 c, ct_int128 d) {
    const int left = ct_sign_of(a) * ct_sign_of(b), right = ct_sign_of(c) * ct_sign_of(d);
    if (left != right) return left < right ? -1 : 1;
    const ct_wide_size x = ct_multiply_sizes(ct_size_of_int128(a), ct_size_of_int128(b)),
                       y = ct_multiply_sizes(ct_size_of_int128(c), ct_size_of_int128(d));
    if (x.high != y.high) return x.high < y.high ? -left : left;
    if (x.low != y.low) return x.low < y.low ? -left : left;
    return 0;
}

/* Below 0: the edge pierces the first triangle first. 0: the two coincide where it does. moved: +1 if the edge's body
 * is perturbed, -1 if the triangles' is. The perturbation moves `start` along the normal and leaves `length`. */
static inline int ct_compare_piercings(const ct_piercing *x, const ct_piercing *y, int moved) {
    const int sign = ct_sign_of(x->length) * ct_sign_of(y->length);
    int order = ct_compare_products(x->start, y->length, y->start, x->length);
    for (int k = 0; k < 3 && !order; k++)
        order = moved * ct_compare_products(x->normal[k], y->length, y->normal[k], x->length);
    return sign * order;
}

/* ---- steps ---- */

/* piece_map.c: */

struct ct_edge_crossing {
    double at;         /* the part of the way, in double precision; NaN: it has none */
    uint32_t piercing; /* index of it in search->piercings */
    uint32_t node, crossing;
    int jump;
};

/* Lists where an edge of a triangle, whose crossings are first .. end - 1, is pierced, from corner k to the next one,
 * in search->edge_crossings. Returns how many. */
uint32_t ct_walk_edge(ct_piece_search *search, int pass, int b, uint32_t triangle, uint32_t first, uint32_t end, int k);

/* A stretch of a curve on a triangle, in its barycentric coordinates (lambda_1, lambda_2), with the other body's inside
 * on its left. */
struct ct_stretch {
    double from[2], to[2];
    uint32_t node;
    uint32_t next; /* the stretch that goes on from `to`; UINT32_MAX: it ends on an edge */
    uint32_t
        loop; /* number of the closed loop that it belongs to, from 1; 0: it belongs to a curve from edge to edge */
};

/* The longest stretch of an edge that nothing pierces. */
struct ct_gap {
    double length; /* of the edge's 1 */
    double at[2];  /* a point in it */
    int32_t winding;
    uint32_t node; /* of an end of it; meaningless where winding is 0 */
};

/* Where a line meets a stretch. */
struct ct_meeting {
    double where; /* part of the way */
    int jump;     /* of the winding number: 1 from a stretch's right to its left */
    uint32_t stretch;
};

/* A triangle and where curves cross it. */
typedef struct ct_triangle_map {
    int pass, body;
    uint32_t triangle;
    uint32_t first, end; /* its crossings */
    uint32_t n_loops;
    struct ct_stretch *stretches; /* [end - first] */
    struct ct_gap gaps[3];        /* by edge */
    struct ct_gap_view *views;    /* [3] by edge; NULL: it has few crossings */
} ct_triangle_map;

/* Of a triangle with so many crossings, the curves that a line meets are searched in trees, and rays map it once. */
enum { CT_LARGE_TRIANGLE = 32 };

/* Stretches by the directions in which they are seen from a gap. */
struct ct_gap_view {
    struct ct_seen_stretch *seen; /* [crossings] by rising lo; NULL: there is no memory for them yet */
    bool is_made;
};

struct ct_kept_map {
    uint32_t first; /* of its crossings */
    bool is_made;
    ct_triangle_map map;
    struct ct_gap_view views[3]; /* by edge */
};

/* Maps the triangle whose crossings begin at `first`. Unless it is kept, it lasts until the next triangle is mapped.
 * False: out of memory, or cancelled. */
bool ct_map_triangle(ct_piece_search *search, int pass, int b, uint32_t first, ct_triangle_map *map);

/* Unites the holes in a triangle's parts with what lies around them. */
void ct_join_holes(ct_piece_search *search, int pass);

/* Where a ray meets the intersection's boundary. */
typedef struct ct_boundary_hit {
    double x;      /* meaningless if it does not */
    uint32_t node; /* CT_NO_NODE: it does not */
} ct_boundary_hit;

/* The node of a surface at a point of a triangle, in barycentric coordinates. CT_NO_NODE: the point is outside the
 * other body. is_at_curve: it is so near to a curve that rounding may have chosen its side. */
uint32_t ct_node_at(ct_piece_search *search, int pass, int b, uint32_t triangle, const double at[2], bool *is_at_curve);

/* The nearest boundary on the ray from p along +x, not before x = least_x; not the boundary whose nodes have the root
 * `own`. root: of all nodes. Inclusive: a ray that grazes an edge meets it. */
ct_boundary_hit ct_find_next_boundary(ct_piece_search *search, int pass, const double *p, double least_x,
                                      const uint32_t *root, uint32_t own);

/* All that a ray meets. */
typedef struct ct_ray_hits {
    ct_met_triangle *of;
    uint32_t n, capacity;
} ct_ray_hits;

/* Lists the triangles that the ray from p along +x meets, in no order that matters: all up to the largest x of this
 * triangle, which it meets, at least. Begins the list anew, which is empty at first, or another ray's. */
void ct_list_hits(ct_piece_search *search, const double p[3], int b, uint32_t triangle, ct_ray_hits *hits);

/* piece_passes.c: unites the pieces that both perturbations find. */
void ct_join_passes(ct_piece_search *search);

#endif
