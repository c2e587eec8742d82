/* exact_cuda.cuh - the method `exact` on a device: the tables of a batch, and what all its kernels share.
 *
 *     pairs ── plan_exact ──▶ near clusters ("slots") ── pair_clusters ──▶ cluster pairs ── find_triangle_pairs ──▶
 *     triangle pairs ── cross_triangles ──▶ crossings ── scatter_crossings, total_crossings ──▶ integrals, relative
 *     winding numbers ── find_windings ──▶ winding numbers ── mark_inside, plan_fixed_point, add_surface ──▶ gradient,
 *     cluster sums ── finish_exact_cuda.cu ──▶ contacts
 *
 * Both perturbations (predicates_k.h) are computed at once: a pair of triangles without ties crosses alike in both, so
 * only those with ties are crossed twice. A pass is one of the two; a pair of bodies without ties has one.
 *
 * A side is a body of a pair, 2 p + k as in plan_cuda.cuh; as each pair has one candidate, sides are also parts. A
 * body's pair with itself has slots on side 0 only, where each cluster has one, and instead of find_windings self_cuda.cu. A
 * slot is a cluster of a side that may meet the other body; those of a side follow each other in rising order of
 * clusters, so sums over them are those of the CPU to the last bit. Points are placed on the lattice wherever they are
 * needed: that takes fewer operations than a load from memory.
 */
#ifndef CT_EXACT_CUDA_CUH
#define CT_EXACT_CUDA_CUH

#include "gpu/contact/sides_cuda.cuh"
#include "gpu/methods/exact/finish_k.h"
#include "gpu/methods/exact/lattice_k.h"
#include "gpu/methods/exact/segment_k.h"

extern "C" {
#include "gpu/methods/exact/pieces_k.h"
#include "gpu/methods/exact/topology.h"
}

/* ---- of a mesh ---- */

/* ct_topology on the device, with the spanning forest of its units. */
struct ct_gpu_topology {
    uint32_t n_clusters, n_units, n_components, unused;
    ct_cluster_box root;        /* around the rest positions of all triangles */
    double reach;               /* m: the largest |coordinate| of a rest position */
    const ct_cluster_box *rest; /* [n_clusters] of the rest positions */
    const ct_unit_link *links;  /* [n_units] */
    const uint32_t *first_vertex, *vertices, *first_unit, *component_of_unit, *first_of_component, *cluster_of_unit;
    const uint16_t (*corners)[3];
    const ct_walk_step *walk;
    const uint8_t *unit_in_cluster;
};

/* What a flood over a body's own surface needs of its mesh (self_k.h), on the device. */
struct ct_gpu_own_surface {
    uint32_t n_components, unused;
    const uint32_t (*opposite)[3]; /* [n_triangles], as in ct_adjacency */
    const ct_triangle_link *links; /* [n_triangles] */
    const uint32_t *roots;         /* [n_components] */
};

CT_FN uint32_t ct_vertices_of_cluster(const ct_gpu_topology *topology, uint32_t cluster) {
    return topology->first_vertex[cluster + 1] - topology->first_vertex[cluster];
}

CT_FN uint32_t ct_triangles_of_cluster(uint32_t n_triangles, uint32_t cluster) {
    const uint32_t left = n_triangles - cluster * CT_CLUSTER_TRIANGLES;
    return left < CT_CLUSTER_TRIANGLES ? left : (uint32_t)CT_CLUSTER_TRIANGLES;
}

enum { CT_CLUSTER_CORNERS = 3 * CT_CLUSTER_TRIANGLES };

/* ---- of a batch ---- */

/* Of a body's pair with itself; 0 of others, but for first_component. Its numbers are the winding numbers just outside
 * its triangles, in ct_exact_tables.own_numbers from first_number on: for each cluster [2][its triangles], per pass;
 * and then for each triangle [2], in the order of the forest. */
struct ct_own_plan {
    uint64_t first_number, first_component; /* among those of all pairs */
    uint32_t max_winding, inverted[2];      /* along edges; inverted: triangles, per pass */
    uint32_t n_added;                       /* clusters that are inside or crossed, in each pass */
    double part_1[9];                       /* units^3: the moment of the vertices that are in part 1 */
};

struct ct_exact_plan {
    ct_exact_lattice lattice;
    ct_lattice_pose pose[2];
    ct_own_axes axes[2];
    ct_cluster_box root[2];                                  /* around either body, in the frame of its positions */
    ct_node_box window[2];                                   /* the same on the lattice */
    uint64_t first_slot[2], first_cluster[2], first_unit[2]; /* among those of all sides */
    uint32_t n_slots[2];
    uint32_t is_skipped; /* the bodies do not fit the lattice, or cannot meet: nothing is computed */
    uint32_t has_ties;
    uint64_t found[2];          /* pairs of triangles that cross or are near, per pass */
    ct_left_out left_out[2];    /* per pass; its residual is in left_out_moved */
    uint64_t left_out_moved[2]; /* ct_order_key */
    int32_t exponent;           /* a step of the gradient's fixed point is 2^exponent units^2 */
    uint32_t is_contact;
    double moved_volume; /* units^3: of a piece, what its bound has of the whole pair's */
    double step;         /* m^2 per step of the fixed point */
    ct_own_plan own;
    ct_contact contact;
};

/* A cluster that may meet the other body. */
struct ct_exact_slot {
    uint32_t side, cluster;
    ct_cluster_box rest; /* m, in the frame of the positions */
    ct_node_box box;
    uint32_t n_crossings, n_scattered;
    uint32_t crossed;  /* 1 + index among the crossed clusters; 0: no crossings */
    uint32_t is_added; /* bit per pass: some of it is inside, or crossed */
    double share[2];   /* units^2, per pass: bounds a triangle's share of the gradient */
    double residual; /* units: the most that a coordinate was moved to reach the lattice; of clusters that are added */
    uint64_t moved;  /* ct_order_key of the same; of clusters with a pair */
    /* With patches: */
    uint32_t is_split; /* others stand for it, its parts in pieces */
    uint32_t is_part;  /* a part in a piece; its units' winding numbers are in windings, from `units` on */
    uint64_t units;    /* [2][units of the cluster], per pass */
};

/* Triangles whose boxes meet, by their numbers in the two clusters of a pair. */
struct ct_exact_triangle_pair {
    uint32_t cluster_pair;
    uint8_t triangle[2], unused[2];
};

/* What a pair of triangles adds to one of them. */
struct ct_exact_crossing {
    uint32_t slot, other; /* other: number of the other body's triangle */
    uint8_t triangle;     /* in its cluster */
    uint8_t passes;       /* a bit for each pass in which they cross or are near */
    signed char jump[3];
    uint8_t crosses;     /* 0: they are near */
    uint8_t turn_corner; /* of a body with itself: the corner that the triangles share, and the turn there */
    signed char turn;
    double of[CT_INTEGRALS + 2]; /* integrals, near_area, rounding */
};

/* A crossed triangle: the sums over its crossings in one pass. */
struct ct_exact_total {
    double of[CT_INTEGRALS + 2];
    int32_t jump[3];
    uint32_t n;      /* 0: it is not crossed in this pass */
    int32_t turn[3]; /* filled of bodies with themselves alone */
    uint32_t unused;
};

struct ct_exact_crossed {
    uint64_t first;         /* its crossings, in the order of triangles, then of others */
    uint64_t first_winding; /* [2][vertices of the cluster], per pass: relative to the first vertex of their unit */
    uint32_t slot, sorted;  /* sorted: which of the two lists of keys is in order */
    uint32_t n_in_pass[2];
    uint32_t first_of[CT_CLUSTER_TRIANGLES]; /* 1 + index of a triangle's first crossing; 0: it has none */
};

/* Sums over a cluster's part of the surface inside, as in ct_cluster_sums; 0 of what is not inside. */
enum {
    CT_SUM_MOMENT = 0,
    CT_SUM_FIRST_MOMENT = 9,
    CT_SUM_AREA = 12,
    CT_SUM_NEAR = 13,
    CT_SUM_ROUNDING = 14,
    CT_SUM_MOVED = 15, /* ct_bound_moved_area */
    CT_SUM_ARITHMETIC = 16,
    CT_SLOT_SUMS = 17
};

struct ct_exact_sums {
    double of[CT_SLOT_SUMS];
    uint32_t max_winding, inverted;
};

/* Sums over the clusters of one side in one pass, in their order. CT_SUM_NEAR includes CT_SUM_MOVED, which is the sum
 * of ct_bound_layers. */
struct ct_exact_side_sums {
    double of[CT_SLOT_SUMS], residual; /* residual: the largest of the clusters that are inside or crossed */
    uint32_t max_winding, inverted;
};

/* The largest entry of a gradient along an axis. */
struct ct_exact_best {
    int64_t size;
    double at[3]; /* units */
    uint32_t part, vertex;
};

/* ---- of the few batches that want second derivatives or moments ---- */

/* A segment that was found again, in one pass. */
struct ct_second_crossing {
    ct_recrossing segment;
    uint32_t is_found, unused;
};

/* For the host, which merges the sums of clusters: where they lie, and what it needs of their pair. */
struct ct_second_of_slot {
    uint32_t cluster, passes; /* passes: a bit for each of which there are sums */
    uint64_t first;           /* in second_sums: of the first of these passes, then of the other one */
};

struct ct_second_of_pair {
    double unit, origin[3];
    uint64_t first_slot[2];
    uint32_t n_slots[2];
    uint32_t n_passes, unused;
};

/* ---- of the few batches with patches ---- */

/* Once winding numbers are known, the host splits the batch (split_cuda.cu, pieces_k.h). What follows
 * then works on the pieces as on pairs: pairs, exact, row_offset and component_offset are those of split pairs, and
 * slots, crossed, crossing_keys, crossing_index and windings are continued by the pieces' own. */
struct ct_piece_tables {
    /* Found, for the host: */
    ct_found_pair *pairs;                         /* [counts.pairs] */
    ct_found_crossed *crossed;                    /* [counts.crossed] */
    ct_found_crossing *crossings;                 /* [counts.crossings] */
    double (*points)[4];                          /* [counts.windings / 2] */
    ct_found_unit *units;                         /* [capacity.found_units] */
    ct_piece_facing (*facings)[CT_PIECE_FACINGS]; /* [capacity.found_facings] */
    ct_met_triangle *hits;                        /* [capacity.ray_hits] */
    uint64_t ray_side;                            /* of the triangles that a ray is to hit */
    double ray_from[3];
    /* Split, by the host: */
    const ct_split_pair *split_pairs;
    const ct_split_slot *split_slots;
    const ct_split_crossed *split_crossed;
    uint64_t n_split_pairs, n_split_slots, n_split_crossed;
    uint64_t n_pairs, n_slots, n_crossed, n_crossings, n_windings; /* as they were found */
    ct_exact_plan *plans;                                          /* of found pairs */
    uint64_t *component_offset;                                    /* the same */
};

struct ct_exact_tables : ct_answer_tables {
    ct_exact_side_sums *side_sums; /* [2 capacity.exact_pairs][2] per side and pass */
    ct_exact_plan *exact;          /* [capacity.exact_pairs] */
    uint64_t *cluster_tile_offset; /* [capacity.exact_pairs + 1] tiles of pairs of slots */
    uint64_t *component_offset;    /* [2 capacity.exact_pairs + 1] per side */
    ct_exact_slot *slots;          /* [capacity.slots] */
    ct_exact_sums *slot_sums;      /* [capacity.slots][2] per pass */
    uint32_t *slot_of_cluster;     /* [capacity.side_clusters] 1 + slot; 0: not near */
    int32_t *potential;            /* [capacity.units][2] in the order of the forest; relative to the first unit */
    int32_t *base;                 /* [capacity.components][2] winding number of the first unit */
    uint32_t (*cluster_pairs)[2];  /* [capacity.cluster_pairs] slots */
    ct_exact_triangle_pair *triangle_pairs; /* [capacity.triangle_pairs] */
    ct_exact_crossing *crossings;           /* [capacity.crossings] */
    ct_exact_total *totals;                 /* [capacity.crossings][2]: at a triangle's first crossing */
    uint64_t *crossing_keys;                /* [2][capacity.crossings] triangle, other, passes */
    uint32_t *crossing_index;               /* [2][capacity.crossings] */
    ct_exact_crossed *crossed;              /* [capacity.crossed] */
    int32_t *windings;                      /* [capacity.windings] */
    int32_t *own_numbers;                   /* [capacity.own_numbers]: see ct_own_plan */
    ct_exact_best *chunk_best;              /* [capacity.exact_chunks][3] */
    ct_second_crossing *recrossings;        /* [capacity.recrossings][2] per crossing and pass */
    ct_second_of_pair *second_pairs;        /* [capacity.exact_pairs] */
    ct_second_of_slot *second_slots;        /* [capacity.slots] */
    double *second_sums;                    /* [capacity.second_sums] */
    bool finds_second;                      /* some step wants second derivatives or moments */
    bool finds_own;                         /* some body has a contact with itself */
    const ct_gpu_pair *found_pairs;         /* [capacity.pairs] as `pairs`, but never pieces */
    const uint64_t *found_row_offset;       /* [n_bodies + 1] the same of row_offset */
    ct_piece_tables pieces;
};

CT_DEVICE uint32_t ct_pass_count(const ct_exact_plan *plan) {
    return plan->has_ties ? 2 : 1;
}

CT_DEVICE const ct_gpu_body *ct_body_of_side(const ct_exact_tables &b, uint64_t side) {
    return b.bodies[b.pairs[side / 2].body[side & 1]];
}

/* +1 if body k's opposite is perturbed in this pass, -1 if body k is: body 1 moves along (e, e^2, e^3) in pass 0. */
CT_DEVICE int ct_moved_against(uint64_t k, uint32_t pass) {
    return (pass ? -1 : 1) * (k ? -1 : 1);
}

/* Returns how far it was moved to reach the lattice: ct_place_point. */
CT_DEVICE double ct_place_vertex(const ct_exact_plan *plan, const ct_gpu_body *body, uint64_t k, uint32_t vertex,
                                 double out[3]) {
    return ct_place_point(&plan->pose[k], body->positions + 3 * (uint64_t)vertex, NULL, out);
}

/* Triangle i of the body, by its number in the mesh: its corners on the lattice. Returns the most that one was moved.
 */
CT_DEVICE double ct_place_triangle(const ct_exact_plan *plan, const ct_gpu_body *body, uint64_t k, uint64_t i,
                                   double out[3][3]) {
    double residual = 0;
    for (int c = 0; c < 3; c++)
        residual = fmax(residual, ct_place_vertex(plan, body, k, body->triangles[3 * i + (uint64_t)c], out[c]));
    return residual;
}

/* A cluster's box in the frame of the positions. Of deformable bodies with few triangles it is found anew. */
CT_DEVICE ct_cluster_box ct_box_of_cluster(const ct_gpu_body *body, uint32_t cluster) {
    if (body->rigid) return body->topology->rest[cluster];
    if (body->cluster_boxes) return body->cluster_boxes[cluster];
    const ct_gpu_topology *topology = body->topology;
    ct_cluster_box box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
    for (uint32_t i = topology->first_vertex[cluster]; i < topology->first_vertex[cluster + 1]; i++) {
        const float *p = body->positions + 3 * (uint64_t)topology->vertices[i];
        for (int k = 0; k < 3; k++) {
            if (p[k] < box.lo[k]) box.lo[k] = p[k];
            if (p[k] > box.hi[k]) box.hi[k] = p[k];
        }
    }
    return box;
}

/* A vertex's winding number relative to the first vertex of its unit. */
CT_DEVICE int32_t ct_relative_winding(const ct_exact_tables &b, const ct_gpu_topology *topology, uint64_t first_cluster,
                                      uint32_t cluster, uint32_t vertex, uint32_t pass) {
    const uint32_t slot = b.slot_of_cluster[first_cluster + cluster];
    if (!slot || !b.slots[slot - 1].crossed) return 0;
    const ct_exact_crossed *crossed = &b.crossed[b.slots[slot - 1].crossed - 1];
    return b.windings[crossed->first_winding + pass * (uint64_t)ct_vertices_of_cluster(topology, cluster) + vertex];
}

/* A unit's winding number: that of its first vertex. */
CT_DEVICE int32_t ct_winding_of_unit(const ct_exact_tables &b, const ct_gpu_topology *topology, uint64_t side,
                                     uint32_t unit, uint32_t pass) {
    const uint64_t component = b.component_offset[side] + topology->component_of_unit[unit];
    const uint64_t at = b.exact[side / 2].first_unit[side & 1] + topology->links[unit].first;
    return b.base[2 * component + pass] + b.potential[2 * at + pass];
}

/* ---- launches ---- */

unsigned ct_cuda_plan_exact(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_cross(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_total_crossings(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_find_windings(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_describe_pairs(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_describe_units(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_find_hits(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_split_pairs(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_total_parts(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_add_surface(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_find_second(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_finish_exact(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream);

/* Of bodies with themselves. The winding numbers just outside their surfaces, once crossings are totalled. */
unsigned ct_cuda_find_own_windings(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream);

/* The moments of the vertices of part 1, from the sums and parts in *sides: ct_own_plan.part_1. */
unsigned ct_cuda_sum_part_1(const ct_exact_tables *tables, const ct_side_tables *sides, unsigned grid,
                            cudaStream_t stream);

extern const ct_kernel_entry ct_plan_exact_kernels[], ct_cross_kernels[], ct_crossed_kernels[], ct_flood_kernels[],
    ct_surface_kernels[], ct_second_kernels[], ct_finish_exact_kernels[], ct_piece_kernels[], ct_own_kernels[];

#endif
