/* found_pieces.h - patches of pairs whose crossings a device has found. It copies to the host what the search for
 * pieces (pieces.h) needs: each crossing, the vertices and winding numbers of crossed clusters, and what each unit
 * inside that nothing crosses adds up to. All but the last is proportional to the curves in which the surfaces cross; a
 * unit is most of a cluster of CT_CLUSTER_TRIANGLES triangles, and takes some 70 bytes, with ties twice as much. The
 * host finds the pieces and splits each pair into as many; the device adds up each of them as it does a pair.
 */
#ifndef CT_EXACT_FOUND_PIECES_H
#define CT_EXACT_FOUND_PIECES_H

#include <stdbool.h>

#include "gpu/exact/piece_unit_k.h"
#include "gpu/include/contact.h"

/* ---- what a device finds ---- */

/* A pair of bodies. Its sides, 2 p + k for body k of pair p, are numbered through the batch. */
typedef struct ct_found_pair {
    uint32_t body[2], step; /* as the batch numbers them */
    uint32_t has_ties, wants_patches, is_skipped;
    double rounding[2]; /* ct_lattice_pose */
} ct_found_pair;

/* A cluster with crossings. */
typedef struct ct_found_crossed {
    uint32_t side, cluster, slot, n_crossings;
    uint64_t first;         /* of its crossings, which rise in order of (triangle, other, passes) */
    uint64_t first_winding; /* [2][vertices], per pass; its points are from first_winding / 2 on */
    uint32_t n_in_pass[2];  /* crossings */
    double residual;        /* units: the most that a coordinate was moved to the lattice */
} ct_found_crossed;

typedef struct ct_found_crossing {
    uint32_t index;                    /* among the crossings of the batch, in the device's order */
    uint32_t other;                    /* the other body's triangle */
    uint8_t triangle, passes, crosses; /* triangle: in its cluster; passes: a bit for each; crosses: else it is near */
    signed char jump[3];
    uint8_t unused[2];
    double of[CT_INTEGRALS + 2]; /* integrals, near_area, rounding */
} ct_found_crossing;

/* A unit of a near cluster in a pass, if its winding number is not 0. */
typedef struct ct_found_unit {
    uint32_t side, slot, unit, pass;
    int32_t winding;
    uint32_t facings; /* 1 + index of the first facing; 0: the pair has one pass, or the cluster is crossed */
    double residual;  /* as in ct_found_crossed */
    ct_moment moment;
    double volume, slack,
        extreme[3]; /* and the moment: of ct_unit_summary; meaningless if the cluster is crossed in the pass */
} ct_found_unit;

typedef struct ct_found_batch {
    const ct_found_pair *pairs;
    ct_found_crossed *crossed; /* in any order */
    const ct_found_crossing *crossings;
    double (*points)[4]; /* units */
    int32_t *windings;
    ct_found_unit *units; /* in any order */
    const ct_piece_facing (*facings)[CT_PIECE_FACINGS];
    size_t n_pairs, n_crossed, n_units;
} ct_found_batch;

/* ---- what the host makes of it ---- */

/* A pair as it was found, or one of its pieces. */
typedef struct ct_split_pair {
    uint32_t pair;
    uint32_t is_piece, is_first; /* is_first: of the pieces of its pair */
    uint32_t n_slots[2], unused; /* of a piece */
    uint64_t first_slot[2];      /* among ct_split.slots */
    double moved_volume;         /* units^3, of a piece: see exact_pieces.c */
} ct_split_pair;

/* A cluster's part of a piece, in both passes. */
typedef struct ct_split_slot {
    uint32_t slot, side; /* slot: of the whole cluster; side: 2 i + k for the split pair i */
    uint32_t crossed;    /* 1 + index among ct_split.crossed; 0: not crossed */
    uint32_t n_crossings;
    uint64_t units; /* among ct_split.windings: [2][units of the cluster], per pass */
} ct_split_slot;

typedef struct ct_split_crossed {
    uint32_t slot, passes;         /* slot: among ct_split.slots; passes: a bit for each in which it is crossed */
    uint64_t first, first_winding; /* among ct_split.keys and index; among windings: [2][vertices], per pass */
} ct_split_crossed;

typedef struct ct_split_list {
    void *data;
    size_t n, capacity; /* elements */
} ct_split_list;

typedef struct ct_split {
    ct_split_list pairs;    /* ct_split_pair, in the order of found pairs; pieces in no order that matters */
    ct_split_list slots;    /* ct_split_slot, a side's in rising order of clusters */
    ct_split_list crossed;  /* ct_split_crossed */
    ct_split_list keys;     /* uint64_t: triangle in its cluster << 34 | other << 2 | passes */
    ct_split_list index;    /* uint32_t: crossings by their ct_found_crossing.index, of the same order */
    ct_split_list windings; /* int32_t */
} ct_split;

/* Triangles of body b of the pair that the ray from p along +x meets, as ct_piece_source.find_hits. */
typedef bool (*ct_find_hits_fn)(void *argument, int b, const double p[3], double far,
                                double (*report)(void *to, const ct_met_triangle *hit), void *to);

/* Sorts crossed clusters and units by side, and then as ct_split_found needs them. */
void ct_sort_found(ct_found_batch *found);

/* Appends the pieces of pair p to the lists, or the pair if it has at most one; pairs in rising order. The meshes have
 * their topology and adjacency. False: out of memory, or cancelled. */
bool ct_split_found(ct_split *split, const ct_found_batch *found, size_t p, ct_mesh *const meshes[2],
                    ct_find_hits_fn find_hits, void *argument);

void ct_split_free(ct_split *split);

/* The order of a pair's patches: larger ones first; of two equal ones the one whose centre has the smaller x, then y,
 * then z. So it depends on no numbering of bodies, vertices or triangles. Steps that want volumes alone have no
 * centres, and the bounds tell two equal ones apart. Below 0: x first. */
int ct_compare_patches(const ct_contact *x, const ct_contact *y);

#endif
