/* exact_cpu.h - the parts of the method `exact` on the CPU that work on clusters and bodies: its kernels, one set per
 * instruction set; the search of cluster trees; sums of crossings; and the flood of winding numbers. pair_cpu.h puts
 * them together.
 *
 *     cluster boxes -- find_pairs --> pairs of clusters -- cross --> crossings -- total --> integrals of crossed
 *     triangles, relative winding numbers -- flood --> winding numbers -- add --> gradient at every vertex, moments
 */
#ifndef CT_EXACT_CPU_H
#define CT_EXACT_CPU_H

#include <stdbool.h>

#include "gpu/base/scratch.h"
#include "gpu/methods/exact/lattice_k.h"
#include "gpu/methods/exact/second_k.h"
#include "gpu/methods/exact/topology.h"

/* ---- a placed cluster ---- */

/* Boxes around a cluster's blocks on the lattice: they contain the boxes of ct_triangle_floats. */
typedef struct ct_block_boxes {
    float of[6][CT_EXACT_BLOCKS]; /* lo x, y, z, hi x, y, z */
    float lo[3], hi[3];           /* around all of them */
} ct_block_boxes;

/* A box around a cluster's points along axes of its own, units. */
typedef struct ct_turned_box {
    float axis[3][3], middle[3], half[3];
} ct_turned_box;

/* A cluster's triangles in single precision, for tests that leave out most pairs: block by block, in the order of
 * ct_placed_cluster.block_order. Of unused ones the box is empty. */
typedef struct ct_triangle_floats {
    float box[6][CT_CLUSTER_TRIANGLES]; /* lo x, y, z, hi x, y, z, rounded outwards by two units at least */
    float block[6][CT_EXACT_BLOCKS];    /* around the boxes of a block; empty of blocks that were not filled */
    /* Of blocks with boxes that met another cluster's, or, of a shared cluster, of all: */
    float corner[9][CT_CLUSTER_TRIANGLES]; /* x, y, z of the three corners */
    float plane[4][CT_CLUSTER_TRIANGLES];  /* unit normal and distance from the origin; 0 of a triangle without area */
    double shortest;                       /* normal, units^2, at most */
    uint32_t has_planes;                   /* bits of the blocks whose corners and planes are filled */
    /* Made when first needed, by any of the threads: 2 when it is filled, 1 while one fills it. */
    uint32_t turned_box_state;
    ct_turned_box turned_box;
} ct_triangle_floats;

/* A cluster's vertices on the lattice. */
typedef struct ct_placed_cluster {
    uint32_t cluster, n_triangles, n_vertices;
    uint32_t first_vertex;        /* in ct_clusters.vertices */
    const uint32_t *vertices;     /* [n_vertices] the mesh's */
    const float (*positions)[3];  /* [n_vertices] at rest; NULL: look them up by the vertices, with their lower parts */
    const uint16_t (*corners)[3]; /* [n_triangles] into the cluster's vertices */
    const uint8_t *block_order;   /* [n_triangles] its triangles, block by block (topology.h) */
    double (*points)[4];          /* [n_vertices] x, y, z, 0; aligned to 32 bytes */
    ct_triangle_floats *floats;   /* aligned to 32 bytes; NULL: not needed, or not now */
    uint32_t blocks;              /* bits of the blocks whose triangles need floats */
    uint32_t n_pairs_left;        /* pairs of clusters with this one that are not crossed yet */
    bool is_shared;               /* several threads cross it: placing fills all planes, else crossing fills some */
    float lo[3], hi[3];           /* around the boxes of these blocks */
    double residual; /* units: the most that a coordinate was moved to reach the lattice; below 0: points are not
                        filled yet */
} ct_placed_cluster;

/* ---- crossings ---- */

/* What one triangle of another body adds to the triangle of this one that it crosses, or nearly touches. */
typedef struct ct_crossing {
    uint32_t triangle, other; /* numbers in their meshes */
    ct_triangle_share share;
    signed char turn[3];   /* of a body with itself (self_k.h), else 0 */
    uint8_t passes : 2;    /* a bit for each perturbation that finds it; meaningless where lists are of one */
    bool crosses : 1;      /* false: the two are near without crossing */
    bool is_second : 1;    /* in its segment: the triangle is the one that comes second */
    uint32_t worker : 8;   /* whose lists have the segment */
    uint32_t segment : 24; /* 1 + its place there; 0: not kept */
} ct_crossing;

enum { CT_MOST_SEGMENTS = (1 << 24) - 1 }; /* of a thread: what is beyond is not kept */
_Static_assert(sizeof(ct_crossing) == 88, "crossings are packed: their lists are read and written a lot");

/* Two triangles of one body that share a vertex, and its corner in either. */
typedef struct ct_touching_pair {
    uint32_t triangle[2]; /* in their clusters */
    uint8_t corner[2];
} ct_touching_pair;

/* What a thread finds. */
typedef struct ct_crossing_lists {
    ct_buffer of_body[2];
    size_t n[2];         /* ct_crossing; also counts what was dropped for lack of memory */
    bool has_ties;       /* a sign was the perturbation's */
    bool is_full;        /* out of memory, or cancelled */
    uint16_t worker;     /* whose lists they are */
    bool keeps_segments; /* wanted */
    ct_buffer segments;  /* ct_crossing_segment */
    size_t n_segments;
    bool has_both;        /* wanted: the crossings of both perturbations. Only triangles with ties differ, so this costs
                             little,        and much less than to look for them again */
    uint64_t n_looked_at; /* pairs of triangles that no plane separates */
    ct_left_out left_out[2]; /* by perturbation; without has_both, and of a body with itself, both are alike */
    uint64_t n_inconsistent; /* pairs without one start and one end: 0, unless the predicates are wrong */
    bool is_twin; /* wanted, with has_both: of two clusters in one place, each two triangles once. left_out is
                     of both ways */
    /* Of a body with itself: */
    bool is_self;
    ct_buffer touching; /* ct_touching_pair, of the last two clusters: those that `cross` leaves to its caller */
    size_t n_touching;
} ct_crossing_lists;

/* A crossed triangle: the sums over all crossings. */
typedef struct ct_crossed_triangle {
    ct_integrals integrals;
    double near_area, rounding;
    int32_t jump[3], turn[3];
    uint32_t triangle; /* in its cluster */
} ct_crossed_triangle;

/* A cluster with crossings. */
typedef struct ct_crossed_cluster {
    ct_crossed_triangle *triangles;       /* [n] in rising order */
    uint32_t n;                           /* crossed triangles */
    uint8_t number[CT_CLUSTER_TRIANGLES]; /* 1 + index into triangles; 0: not crossed */
    int32_t *winding;                     /* [vertices] relative to the first vertex of their unit */
} ct_crossed_cluster;

/* ---- sums ---- */

/* Sums over a cluster's part of the surface inside the other body, in the order of its triangles. */
typedef struct ct_cluster_sums {
    double moment[3][3];    /* units^3: of coordinate i times gradient j */
    double first_moment[3]; /* units^4: integral over the surface of n_i x_i^2 / 2 */
    double area;            /* units^2: sum of |area vector|_1, times w */
    double near_area;       /* units^2, as in ct_triangle_share */
    double rounding;        /* units^3: see ct_volume_rounding */
    double reach;           /* units: a bound of |x|_1 of its triangles' corners */
    double largest_share;   /* units^2: bounds that of a triangle; planned before anything is added */
    double cut_sides;       /* units: ct_cut_box of the cluster's box and the other body's; planned too */
    uint32_t max_winding;
    uint32_t inverted; /* triangles with a corner at which the other body's winding number is negative */
} ct_cluster_sums;

/* A triangle that is inside, or partly, and the integrals of w over it. */
typedef struct ct_moment_share {
    uint32_t triangle; /* in its cluster */
    double monomials[CT_MONOMIALS];
} ct_moment_share;

typedef struct ct_winding_numbers {
    const ct_crossed_cluster *crossed; /* NULL: none of its triangles is crossed */
    const int32_t *of_unit;            /* of the cluster's units: added to the relative ones */
    const uint8_t *unit_in_cluster;    /* [n_triangles] */
} ct_winding_numbers;

/* Where a body's gradient is added up: fixed point, [vertices][3]. */
typedef struct ct_exact_gradient {
    int64_t (*of)[3];
    uint64_t *touched; /* a bit per vertex */
    uint64_t *groups;  /* a bit per word of touched that is not 0 */
    /* Where threads add runs of clusters at a time, else NULL: */
    uint8_t *marks; /* a byte per vertex, 1 if it is touched: set without read-modify-write, instead of the bits */
    const uint64_t *in_several_runs; /* as in ct_topology */
} ct_exact_gradient;

typedef struct ct_exact_body ct_exact_body;

/* ---- kernels (exact_cpu.simd.c) ---- */

typedef struct ct_exact_cpu {
    /* Places the boxes of a cluster's blocks. */
    void (*place_blocks)(const ct_rigid_blocks *blocks, const ct_cluster_box *box, const ct_lattice_pose *pose,
                         ct_block_boxes *to);
    /* Finds the blocks of two clusters that overlap one of the other cluster: bits. */
    void (*meet_blocks)(const ct_block_boxes *a, const ct_block_boxes *b, uint16_t met[2]);
    /* Places the cluster's vertices, and fills floats if it is not NULL. */
    void (*place)(ct_placed_cluster *cluster, const ct_exact_body *body);
    /* Finds the crossings of the triangles of two clusters. moved: +1 if b's body is perturbed, -1 if a's is; in pass 1
     * of lists->has_both it is the other one. Ends early if cancelled: then lists->is_full. With lists->is_self the
     * clusters are one body's, or are the same: triangles cross that share no vertex, each two once, and of_body[0] and
     * [1] are both that body's crossings, with the others perturbed for either: by `moved` in pass 0, and against it in
     * pass 1. Writes to the floats of clusters that are not shared. */
    void (*cross)(const ct_placed_cluster *a, const ct_placed_cluster *b, int moved, ct_budget *budget,
                  ct_crossing_lists *lists);
    /* Adds the gradient of a placed cluster, in units of 1 / scale units^2. */
    void (*add)(const ct_placed_cluster *cluster, const ct_winding_numbers *w, double scale,
                const ct_exact_gradient *gradient, ct_cluster_sums *sums);
    /* The same of a cluster of whose triangles none but these, in rising order, lies inside or is crossed: at a cost
     * that follows their number. The gradient has no marks. */
    void (*add_some)(const ct_placed_cluster *cluster, const ct_winding_numbers *w, const uint8_t *triangles,
                     uint32_t n, double scale, const ct_exact_gradient *gradient, ct_cluster_sums *sums);
    /* Adds the moments of a placed cluster's triangles about the centre, units. */
    void (*add_moments)(const ct_placed_cluster *cluster, const ct_moment_share *shares, uint32_t n,
                        const double center[3], double sum[CT_MOMENTS]);
} ct_exact_cpu;

extern const ct_exact_cpu ct_exact_cpu_base;
#ifdef __x86_64__
extern const ct_exact_cpu ct_exact_cpu_avx2;
#endif

/* ---- products with the second derivative (second_cpu.simd.c) ---- */

/* A vector for each direction: x of all of them, y, z. Of directions that there are not, up to four at a time: anything
 * finite. */
typedef struct ct_directed {
    double of[3][CT_MAX_DIRECTIONS];
} ct_directed;

/* For `quads` times four directions. Motions are in m, products in units * m; arrays of three are of a triangle's corners. */
typedef struct ct_second_cpu {
    /* How a point of a rigid body moves. twist: translation, m, and rotation; from_origin: m, from the body's. */
    void (*move)(const ct_directed twist[2], const double from_origin[3], uint32_t quads, ct_directed *motion);
    /* Adds what the turning normal of a triangle with sides u and v, units, adds to the products. part: integrals of w
     * lambda_k. */
    void (*turn)(const double u[3], const double v[3], const double part[3], const ct_directed *const motions[3],
                 uint32_t quads, ct_directed *const products[3]);
    /* Adds what the motion of a segment adds. own, other: motions of both triangles' corners. */
    void (*cut)(const ct_recrossing *seen, const ct_directed *const own[3], const ct_directed *const other[3],
                uint32_t quads, ct_directed *const products[3]);
    /* Adds a vertex's products to the force, and to the torque they and the gradient, which moves with it beside the
     * body's origin. point: units; gradient: units^2; force: units * m and units^2 * m. */
    void (*push)(const double point[3], const double gradient[3], const ct_exact_lattice *lattice,
                 const ct_directed *origin, const ct_directed *motion, const ct_directed *product, uint32_t quads,
                 ct_directed force[2]);
    /* Writes n vectors for each direction, [n][n_directions][3]. */
    void (*write)(const ct_directed *from, uint32_t n, uint32_t n_directions, double *to);
} ct_second_cpu;

extern const ct_second_cpu ct_second_cpu_base;
#ifdef __x86_64__
extern const ct_second_cpu ct_second_cpu_avx2;
#endif

/* ---- sums of crossings (cross_cpu.c) ---- */

/* Makes of_body[body] larger. False: out of memory, and is_full is set. */
bool ct_grow_crossings(ct_crossing_lists *lists, ct_budget *budget, int body);

/* Makes segments larger. False: out of memory, and is_full is set. */
bool ct_grow_segments(ct_crossing_lists *lists, ct_budget *budget);

/* Appends a segment without a value. NULL: out of memory, and is_full is set. */
static inline ct_crossing_segment *ct_append_segment(ct_crossing_lists *lists, ct_budget *budget) {
    if ((lists->n_segments + 1) * sizeof(ct_crossing_segment) > lists->segments.capacity &&
        !ct_grow_segments(lists, budget))
        return NULL;
    return (ct_crossing_segment *)lists->segments.data + lists->n_segments++;
}

/* Appends to of_body[body] a crossing without a value. NULL: out of memory, and is_full is set. */
static inline ct_crossing *ct_append_crossing(ct_crossing_lists *lists, ct_budget *budget, int body) {
    if ((lists->n[body] + 1) * sizeof(ct_crossing) > lists->of_body[body].capacity &&
        !ct_grow_crossings(lists, budget, body))
        return NULL;
    return (ct_crossing *)lists->of_body[body].data + lists->n[body]++;
}

/* Adds up a cluster's crossings, which it sorts; n at least 1. triangles: [n] at least; winding: [vertices
 * of the cluster]. So the sums do not depend on the order in which crossings were found. False: the winding numbers
 * along the surface contradict each other. Ends early if cancelled: then neither sums nor the value mean anything. */
bool ct_total_crossings(const ct_topology *topology, uint32_t cluster, ct_crossing **crossings, size_t n,
                        ct_crossed_cluster *crossed);
/* The same without winding numbers. */
void ct_sum_crossings(uint32_t cluster, ct_crossing **crossings, size_t n, ct_crossed_cluster *crossed);

/* ---- bodies and their cluster trees (search_cpu.c, search_cpu.simd.c) ---- */

/* A body while a pair is computed. */
struct ct_exact_body {
    const ct_topology *topology;
    const ct_cluster_box *boxes; /* [nodes] current, in the frame of the positions */
    const float *positions;      /* [vertices][3] */
    const float *low;            /* the same, of what float32 leaves; NULL: nothing */
    ct_lattice_pose pose;
    const ct_rigid_clusters *rigid; /* NULL: the body deforms, or its mesh is small */
    uint32_t n_triangles;
    ct_placed_cluster *placed; /* of all clusters that were placed, in the order in which they were */
    uint32_t n_placed;
    uint32_t *placed_as; /* [clusters] 1 + index into placed; 0: not placed */
};

/* The lattice point of a vertex. */
static inline void ct_exact_place_vertex(const ct_exact_body *body, uint32_t vertex, double out[3]) {
    const size_t at = 3 * (size_t)vertex;
    ct_place_point(&body->pose, body->positions + at, body->low ? body->low + at : NULL, out);
}

ct_node_box ct_exact_node_box(const ct_exact_body *body, uint32_t node);

/* Two clusters that may meet. */
typedef struct ct_cluster_pair {
    uint32_t a, b;
} ct_cluster_pair;

/* Decides as ct_boxes_may_meet (lattice_k.h), eight children of a node at a time. */
typedef struct ct_search_cpu {
    /* Finds all pairs of clusters of two bodies whose boxes may meet. pairs: ct_cluster_pair, grows. False: out of
     * memory. */
    bool (*find_pairs)(const ct_exact_body *a, const ct_exact_body *b, ct_buffer *pairs, size_t *n_pairs,
                       ct_budget *budget);
    /* The same for the clusters of one body: each two once, a <= b, and each with itself. */
    bool (*find_own_pairs)(const ct_exact_body *body, ct_buffer *pairs, size_t *n_pairs, ct_budget *budget);
} ct_search_cpu;

extern const ct_search_cpu ct_search_cpu_base;
#ifdef __x86_64__
extern const ct_search_cpu ct_search_cpu_avx2;
#endif

/* Appends a pair. pairs: ct_cluster_pair, grows. False: out of memory. */
bool ct_add_cluster_pair(ct_buffer *pairs, size_t *n_pairs, ct_budget *budget, ct_cluster_pair pair);

/* Calls visit(argument, cluster) for each cluster whose box meets the ray from p to far, along an axis. */
void ct_find_clusters_towards(const ct_exact_body *body, const double p[3], const double far[3],
                              void (*visit)(void *argument, uint32_t cluster), void *argument);
/* The same along +x. */
void ct_find_clusters_on_ray(const ct_exact_body *body, const double p[3],
                             void (*visit)(void *argument, uint32_t cluster), void *argument);
/* Calls visit(argument, cluster) for each cluster whose box meets the ray from p along +x up to x = *far, which visit
 * may lower. A node's children come in the order in which they begin along the ray, so a ray that ends at the first hit
 * visits few clusters beyond it. */
void ct_visit_clusters_on_ray(const ct_exact_body *body, const double p[3], const double *far,
                              void (*visit)(void *argument, uint32_t cluster), void *argument);

/* ---- the flood (flood_cpu.c) ---- */

/* Along an edge the winding number changes where the edge is crossed, so numbers spread over the surface from wherever
 * one is known: 0 outside the other body's box, or counted along one exact ray. The flood starts at crossed units and
 * goes on into units that are inside; it never visits units that are outside and not crossed, so its cost follows the
 * contact. Connected components that nothing crosses lie wholly inside or outside, which a ray decides. */
typedef struct ct_flood {
    const ct_exact_body *body[2]; /* the surface, and the body that it is in */
    int moved;                    /* +1 if body[1] is perturbed, -1 if body[0] is */
    const uint32_t *crossed_as;   /* [clusters] 1 + index into crossed; 0: no crossings */
    const ct_crossed_cluster *crossed;
    const uint32_t *crossed_clusters; /* [n_crossed] rising */
    uint32_t n_crossed;
    /* Places a cluster of body[i]. NULL: out of memory, or cancelled, which ends the flood. */
    const ct_placed_cluster *(*place)(void *argument, int i, uint32_t cluster);
    void *argument;
    /* Scratch, zeroed: */
    uint8_t *is_crossed, *is_known; /* [units] */
    uint8_t *is_done;               /* [components] */
    uint32_t *queue;                /* [units] */
    /* Out, zeroed before: */
    int32_t *of_unit;     /* [units] to be added to the relative numbers of its vertices */
    uint64_t *has_inside; /* a bit for each cluster: it is crossed, or some of it is inside */
    uint32_t n_rays;
} ct_flood;

/* False: out of memory, or cancelled. */
bool ct_flood_winding_numbers(ct_flood *flood);

/* ---- scratch ---- */

/* One thread's scratch in a workspace. */
typedef struct ct_exact_scratch {
    ct_crossing_lists lists;
    /* For the thread that drives a pair: */
    ct_buffer cluster_pairs; /* ct_cluster_pair */
    ct_buffer gradient[2];   /* int64_t [vertices][3], zero between pairs */
    ct_buffer touched[2];    /* ct_exact_gradient.touched, groups and marks, zero between pairs */
} ct_exact_scratch;

#endif
