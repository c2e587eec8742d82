/* pieces.h - the connected pieces of the intersection of two bodies, for the method `exact`. For patches: each piece is
 * a contact of its own.
 *
 * The intersection's boundary is made of the parts of both surfaces that lie inside the other body. They hang together
 * through edges of either mesh and through the curves in which the surfaces cross, which bound parts of both:
 *
 *     body 0  ______________________________        nodes:  a vertex that is inside the other body, or a whole unit of
 *                  | part |      | part |                   a cluster that nothing crosses; two triangles that cross,
 *     body 1       | of 1 |      | of 1 |                   which stand for their stretch of a curve
 *                  |______|      |______|           unions: the ends of an edge's stretch inside; neighbours on a curve;
 *                  piece 0       piece 1                    a hole in a triangle's part, and what lies around it
 *
 * A piece with cavities has several boundaries that nothing connects. A cavity's has a negative volume; the ray from
 * its extreme point along +x leaves the cavity for the piece, and joins it with the boundary that it meets next.
 *
 * A surface parts what lies on both sides of it, also where a body's own faces coincide and leave no space between
 * them: where an edge pierces two such faces it leaves the first part before it enters the next (piece_map.c), and the
 * region beside two curves that coincide is the one that begins there (piece_map.c). But a vertex of a mesh is one
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
#include "gpu/mesh/adjacency.h"
#include "gpu/methods/exact/exact_cpu.h"
#include "gpu/methods/exact/pieces_k.h"

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

/* A range of one of a search's lists. */
typedef struct ct_piece_range {
    uint32_t first, n;
} ct_piece_range;

/* A cluster's part of a piece. A cluster may have parts of many pieces, so each lists what is its own. */
typedef struct ct_piece_part {
    uint32_t piece;
    uint8_t pass, body;
    uint32_t cluster;
    ct_piece_range inside;    /* of ct_piece_search.inside */
    ct_piece_range crossings; /* of ct_piece_search.crossings */
    ct_piece_range triangles; /* of ct_piece_search.triangles */
} ct_piece_part;

/* Takes a hit. Returns the x, units, beyond which hits do not matter any more. */
typedef double (*ct_report_hit_fn)(void *to, const ct_met_triangle *hit);

/* The only coordinates that a search has are those of crossed clusters, which `body` has placed. It asks for what else
 * it needs, so that they need not be where it runs. */
typedef struct ct_piece_source {
    /* What the triangles of a unit of an uncrossed cluster add up to. NULL: out of memory. */
    const ct_unit_summary *(*summarize)(void *argument, int pass, int b, uint32_t unit);
    /* Calls report(to, hit) for the triangles of body b that the ray from p along +x meets, in any order. Those beyond
     * x = far may be left out, or beyond what report returned. False: out of memory, or cancelled. */
    bool (*find_hits)(void *argument, int b, const double p[3], double far, ct_report_hit_fn report, void *to);
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
    /* What the parts have, part by part: */
    uint16_t *inside; /* vertices of a crossed cluster that are inside, as steps of its walk; else its units inside */
    uint32_t *crossings; /* of the surface, rising */
    uint8_t *triangles;  /* of the cluster, rising: those of which some lies in the piece */
    /* Nodes: */
    uint32_t *parent; /* [n_nodes] a forest */
    uint32_t n_nodes;
    uint32_t *vertex_nodes[2][2]; /* [n_crossed + 1] the first node of each crossed cluster's vertices */
    uint32_t unit_nodes[2][2];    /* the first node of the units */
    uint32_t pair_nodes[2];       /* by pass: the first node of surface[pass][0].crossings */
    /* Of crossings, by pass and body: */
    uint32_t
        *first_of[2][2]; /* [n_crossed * CT_CLUSTER_TRIANGLES + 1] where those of a crossed cluster's triangles begin */
    uint32_t *others[2][2];        /* [n_crossings] the other triangles, side by side */
    signed char (*jumps[2][2])[4]; /* [n_crossings] ct_triangle_share.jump, side by side; and 0 */
    uint32_t *partner[2][2];       /* [n_crossings] the same crossing among those of the other body */
    /* Scratch for a triangle, one for each of its crossings, of which no triangle has more than most_crossings: */
    uint32_t most_crossings;
    struct ct_stretch *stretches;
    struct ct_meeting *meetings;
    uint32_t *by_loop, *first_of_loop; /* first_of_loop: two more */
    struct ct_edge_crossing *edge_crossings;
    struct ct_piercing *piercings;
    struct ct_gap_view *views; /* [3] by edge */
    /* Maps of triangles with many crossings, which many rays may meet: made when first asked for. */
    struct ct_kept_map *kept[2][2]; /* [n_kept] by pass and body, in rising order of triangles */
    uint32_t n_kept[2][2];
    double *volumes;    /* [n_nodes] units^3: of the boundary whose root a node is, so of other nodes 0 */
    double *slacks;     /* [n_nodes] units^3: bound the rounding of volumes */
    ct_moment *moments; /* [n_nodes] as volumes; NULL: there is one pass, with nothing to compare */
    bool has_failed;    /* out of memory, or cancelled */
} ct_piece_search;

/* Finds the pieces. All clusters in `added` are listed in body[i]->placed, the crossed ones with their points. Parts
 * are listed if there are two pieces or more. False: out of memory, or cancelled. */
bool ct_find_pieces(ct_piece_search *search);

/* The winding numbers of a part: those of its cluster, but 0 outside the piece. Sets those that are not 0, of units of
 * the cluster, or of its vertices if it is crossed. Returns the largest size of one. */
int32_t ct_set_piece_winding(const ct_piece_search *search, const ct_piece_part *part, int32_t *of_unit,
                             int32_t *of_vertex);
/* Sets them to 0 again. */
void ct_clear_piece_winding(const ct_piece_search *search, const ct_piece_part *part, int32_t *of_unit,
                            int32_t *of_vertex);

/* Adds up the crossings of a crossed cluster's part. crossed: its numbers are 0; its triangles have room for as many as
 * the part has crossings, or for all that a cluster has. */
void ct_total_piece_crossings(const ct_piece_search *search, const ct_piece_part *part, ct_crossed_cluster *crossed);

#endif
