/* pieces.h - the connected pieces of the intersection of two bodies, for the method `exact`. For patches: each piece is
 * a contact of its own.
 *
 * The intersection's boundary is made of the parts of both surfaces that lie inside the other body. They hang together
 * through edges of either mesh and through the curves in which the surfaces cross, which bound parts of both:
 *
 *     body 0  ______________________________        nodes:  a vertex that is inside the other body, or a whole unit of
 *                  | part |      | part |                   a cluster that nothing crosses; two triangles that cross,
 *     body 1       | of 1 |      | of 1 |                   which stand for their stretch of a curve
 *                  |______|      |______|           unions: the ends of an edge's stretch inside; neighbours on a
 * curve; piece 0        piece 1                    a hole in a triangle's part, and what lies around it
 *
 * A piece with cavities has several boundaries that nothing connects. A cavity's has a negative volume; the ray from
 * its extreme point along +x leaves the cavity for the piece, and joins it with the boundary that it meets next.
 *
 * A surface parts what lies on both sides of it, also where a body's own faces coincide and leave no space between
 * them: where an edge pierces two such faces it leaves the first part before it enters the next (edge_walk.c), and the
 * region beside two curves that coincide is the one that begins there (triangle_map.c). But a vertex of a mesh is one
 * node, so parts that meet in a vertex that they share are one if it is inside the other body.
 *
 * What coincides with the other body the perturbation of predicates_k.h parts. Where ties were broken there are two
 * perturbations, each with pieces of its own. A point inside a piece of one of them lies in a piece of the other: the
 * two are one, half of which either perturbation contributes. So pieces that are joined in one perturbation are one,
 * also by a part without a volume, between two faces that coincide. Where bodies only touch, one perturbation has a
 * piece without a volume, which is none of the other's (piece_passes.c).
 */
#ifndef CT_EXACT_PIECES_H
#define CT_EXACT_PIECES_H

#include "gpu/base/arena.h"
#include "gpu/exact/body.h"
#include "gpu/exact/piece_unit_k.h"
#include "gpu/mesh/adjacency.h"

/* What one perturbation found of a body's surface. */
typedef struct ct_piece_surface {
    const uint32_t *crossed_clusters;  /* [n_crossed] rising */
    const uint32_t *crossed_as;        /* [clusters] 1 + index of a crossed cluster, or 0 */
    const ct_crossed_cluster *crossed; /* [n_crossed] */
    uint32_t n_crossed;
    const int32_t *of_unit; /* [units] */
    const uint32_t *added;  /* [n_added] rising: clusters of which some lies inside the other body, or is crossed */
    uint32_t n_added;
    const ct_crossing *crossings; /* [n_crossings] in rising order of (triangle, other); all cross */
    uint32_t n_crossings;         /* of both surfaces the same */
} ct_piece_surface;

/* A cluster's part of a piece. */
typedef struct ct_piece_part {
    uint32_t piece;
    uint8_t pass, body;
    uint32_t cluster;
} ct_piece_part;

/* The only coordinates that a search has are those of crossed clusters, which `body` has placed. It asks for what else
 * it needs, so that they need not be where it runs. */
typedef struct ct_piece_source {
    /* What the triangles of a unit of an uncrossed cluster add up to. NULL: out of memory. */
    const ct_unit_summary *(*summarize)(void *argument, int pass, int b, uint32_t unit);
    /* Calls report(to, hit) for the triangles of body b that the ray from p along +x meets, in any order. False: out
     * of memory. */
    bool (*find_hits)(void *argument, int b, const double p[3], void (*report)(void *to, const ct_met_triangle *hit),
                      void *to);
    void *argument;
} ct_piece_source;

typedef struct ct_piece_search {
    /* In: */
    const ct_exact_body *body[2];
    const ct_adjacency *adjacency[2];
    ct_piece_surface surface[2][2]; /* [pass][body] */
    int moved[2];                   /* by pass: +1 if body 1 is perturbed, -1 if body 0 is */
    int n_passes;
    ct_arena *arena; /* of all that follows */
    ct_budget *budget;
    ct_piece_source source;
    /* Out: */
    uint32_t n_pieces;
    ct_piece_part *parts; /* [n_parts] in rising order of piece, pass, body, cluster */
    size_t n_parts;
    /* Nodes: */
    uint32_t *parent; /* [n_nodes] a forest; afterwards each node's piece */
    uint32_t n_nodes;
    uint32_t *vertex_nodes[2][2]; /* [n_crossed + 1] the first node of each crossed cluster's vertices */
    uint32_t unit_nodes[2][2];    /* the first node of the units */
    uint32_t pair_nodes[2];       /* by pass: the first node of surface[pass][0].crossings */
    uint32_t *pair_of[2][2];      /* [n_crossings] index of a crossing in surface[pass][0].crossings */
    struct ct_stretch *stretches; /* scratch: one for each crossing of a triangle */
    struct ct_edge_crossing *edge_crossings;
    double *volumes;    /* [n_nodes] units^3: of the boundary whose root a node is, so of other nodes 0 */
    double *slacks;     /* [n_nodes] units^3: bound the rounding of volumes */
    ct_moment *moments; /* [n_nodes] as volumes */
    bool has_failed;    /* out of memory */
} ct_piece_search;

/* Finds the pieces. All clusters in `added` are listed in body[i]->placed, the crossed ones with their points. False:
 * out of memory. */
bool ct_find_pieces(ct_piece_search *search);

/* The first crossing of a cluster's triangles. */
uint32_t ct_first_crossing_of_cluster(const ct_piece_surface *surface, uint32_t cluster);
/* The piece that a crossing belongs to. */
uint32_t ct_piece_of_crossing(const ct_piece_search *search, int pass, int b, uint32_t crossing);

/* The winding numbers of a part: those of its cluster, but 0 outside the piece. Fills of_unit [units of the cluster]
 * or, if the cluster is crossed, `crossed`, whose arrays are from the search's arena; of_unit is then 0. False: out of
 * memory.
 */
bool ct_make_piece_winding(ct_piece_search *search, const ct_piece_part *part, int32_t *of_unit,
                           ct_crossed_cluster *crossed);

#endif
