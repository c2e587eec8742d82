/* node_k.h - how the cubes of a voxel tree (tree.h) lie in memory, on the host and on a device. */
#ifndef CT_VOXEL_NODE_K_H
#define CT_VOXEL_NODE_K_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/base/kernel.h"

/* Of occupancies, and of a full or empty cube's: at most this fraction of the cube. */
#define CT_VOXEL_ERROR 1e-6

typedef struct ct_voxel {
    float occupancy; /* 0..1 */
    float area[3]; /* outward area vector of the surface inside, in faces of the cube. Minus this is the gradient of the
                      occupancy over a cube's length: equation 6 without differences */
    uint8_t center[3]; /* of that surface, weighted by area: (c + 0.5) / 256 of the cube */
    uint8_t at[3];     /* the cube's indices along x, y, z */
    uint16_t group;    /* see groups.c */
} ct_voxel;

typedef struct ct_voxel_brick {
    uint64_t full, boundary; /* bit x & 3 | (y & 3) << 2 | (z & 3) << 4. A full boundary node lies wholly inside up to
                                CT_VOXEL_ERROR; its triangles lie in its faces */
    uint32_t first;          /* node of the lowest boundary bit */
    uint32_t unused;
} ct_voxel_brick;

/* In place of a group: the cube has no boundary node. */
enum { CT_VOXEL_INSIDE = 0xffff };

/* Empty cubes around the root in an index, so that cubes next to it can be looked up too. */
enum { CT_VOXEL_PLAIN = 2, CT_VOXEL_BORDER = 2, CT_MAX_VOXEL_INDEX = 64 };

typedef struct ct_voxel_level {
    uint32_t n;             /* cubes along each axis: 2^level */
    uint32_t n_bricks;      /* along each axis */
    ct_voxel_brick *bricks; /* [n_bricks^3], x fastest */
    ct_voxel *nodes;        /* [n_nodes], in the order of bricks and bits; before them CT_VOXEL_PLAIN more, which stand
                               for an empty and a full cube without a node and are in the group CT_VOXEL_INSIDE */
    uint16_t *index;        /* [(n + 2 CT_VOXEL_BORDER)^3], x fastest: CT_VOXEL_PLAIN + node, 0 or 1; NULL: more than
                               64 cubes along each axis, or nodes that 16 bits do not count */
    uint32_t n_nodes;
    float most_area; /* a power of two, at least 1, that no component of a node's area vector exceeds */
    uint64_t n_full; /* full cubes, full boundary nodes included */
    double size;     /* m, a cube's side */
} ct_voxel_level;

CT_FN uint32_t ct_voxel_count_bits(uint64_t bits) {
#ifdef __CUDA_ARCH__
    return (uint32_t)__popcll(bits);
#else
    return (uint32_t)__builtin_popcountll(bits);
#endif
}

CT_FN const ct_voxel_brick *ct_voxel_brick_at(const ct_voxel_level *level, uint32_t x, uint32_t y, uint32_t z) {
    return &level->bricks[((size_t)(z >> 2) * level->n_bricks + (y >> 2)) * level->n_bricks + (x >> 2)];
}

CT_FN uint32_t ct_voxel_bit(uint32_t x, uint32_t y, uint32_t z) {
    return (x & 3) | (y & 3) << 2 | (z & 3) << 4;
}

/* The boundary node of this bit of the brick. */
CT_FN const ct_voxel *ct_voxel_node(const ct_voxel_level *level, const ct_voxel_brick *brick, uint32_t bit) {
    const uint64_t below = brick->boundary & (((uint64_t)1 << bit) - 1);
    return &level->nodes[brick->first + ct_voxel_count_bits(below)];
}

/* The cube's boundary node, or NULL; *is_full: the cube is wholly inside. Indices must be in range. */
CT_FN const ct_voxel *ct_voxel_find(const ct_voxel_level *level, uint32_t x, uint32_t y, uint32_t z, bool *is_full) {
    const ct_voxel_brick *brick = ct_voxel_brick_at(level, x, y, z);
    const uint32_t bit = ct_voxel_bit(x, y, z);
    *is_full = brick->full >> bit & 1;
    return brick->boundary >> bit & 1 ? ct_voxel_node(level, brick, bit) : NULL;
}

/* The eight cubes of a brick that lie together, from the lowest bit on: those in one cube of the coarser level, or
 * those around a point. */
#define CT_VOXEL_OCTANT ((uint64_t)0x330033)

#endif
