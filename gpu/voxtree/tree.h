/* tree.h - a mesh's voxel tree (Dingliana and O'Sullivan 2005, section 3.1): uniform cubes at each level, in the mesh's
 * own axes, each with its occupancy: the fraction of its volume inside the surface. For the method VOXTREE.
 *
 * Level l divides the root, a cube around the mesh, into 2^l cubes along each axis. A cube is empty, full, or a
 * *boundary node*, which some triangle reaches into; only boundary nodes have data. Cubes are found through bricks of
 * 4 x 4 x 4: a bit each for full and for boundary, and a brick's nodes lie one after the other. A cube's children are
 * the 2 x 2 x 2 cubes of the next level in its place, so no links are stored.
 *
 * Occupancies are closed forms, not samples: triangles are cut at the cubes' faces, and each piece adds the prism
 * between it and the cube's bottom. They are sums in steps of 2^-38 of a finest cube, so the order of triangles does
 * not matter, kept as float32: a node's error is below CT_VOXEL_ERROR.
 *
 * A body that overlaps itself is counted with its winding number, cut off to 0..1; see overlaps_itself. */
#ifndef CT_VOXEL_TREE_H
#define CT_VOXEL_TREE_H

#include "gpu/mesh/mesh.h"

/* Bytes that one tree may hold. A tree of level 8 around a smooth body takes about 12 MiB. */
#define CT_MAX_VOXEL_BYTES ((uint64_t)256 << 20)

/* Of occupancies, and of a full or empty cube's: at most this fraction of the cube. */
#define CT_VOXEL_ERROR 1e-6

typedef struct ct_voxel {
    float occupancy; /* 0..1 */
    float area[3]; /* outward area vector of the surface inside, in faces of the cube. Minus this is the gradient of the
                      occupancy over a cube's length: equation 6 without differences */
    uint8_t center[3]; /* of that surface, weighted by area: (c + 0.5) / 256 of the cube */
    uint8_t at[3];     /* the cube's indices along x, y, z */
    uint16_t group;    /* see groups.h */
} ct_voxel;

typedef struct ct_voxel_brick {
    uint64_t full, boundary; /* bit x & 3 | (y & 3) << 2 | (z & 3) << 4. A full boundary node lies wholly inside up to
                                CT_VOXEL_ERROR; its triangles lie in its faces */
    uint32_t first;          /* node of the lowest boundary bit */
    uint32_t unused;
} ct_voxel_brick;

typedef struct ct_voxel_level {
    uint32_t n;             /* cubes along each axis: 2^level */
    uint32_t n_bricks;      /* along each axis */
    ct_voxel_brick *bricks; /* [n_bricks^3], x fastest */
    ct_voxel *nodes;        /* [n_nodes], in the order of bricks and bits */
    uint32_t n_nodes;
    uint64_t n_full; /* full cubes, full boundary nodes included */
    double size;     /* m, a cube's side */
} ct_voxel_level;

/* Corners of cubes whose convex hull contains the mesh; see hull.h. */
enum { CT_VOXEL_HULL_LEVEL = 5, CT_VOXEL_CORNERS = 4 };
typedef struct ct_voxel_corners {
    float at[3]
            [CT_VOXEL_CORNERS]; /* in cubes of the level, from the root's lowest corner; the last block repeats one */
} ct_voxel_corners;
typedef struct ct_voxel_hull {
    uint32_t level, n;         /* corners */
    ct_voxel_corners *corners; /* blocks of them */
} ct_voxel_hull;

typedef struct ct_voxel_tree {
    double origin[3]; /* m, the root's lowest corner */
    double side;      /* m, of the root: the mesh's longest extent */
    uint32_t finest;  /* level */
    uint32_t n_groups;
    /* The winding number was seen to leave 0..1: the body overlaps itself. The occupancy of boundary nodes may then be
     * too large or too small. An overlap that no whole cube or occupancy shows is not seen. */
    bool overlaps_itself;
    uint64_t bytes, n_nodes; /* nodes: boundary and full cubes of all levels */
    ct_voxel_level level[CT_MAX_VOXEL_LEVEL + 1];
    ct_voxel_hull hull;
} ct_voxel_tree;

/* The finest level that suits the mesh's detail: cubes about as large as its triangles, from 5 to 7. */
uint32_t ct_voxel_default_level(const ct_mesh *mesh);

/* The mesh's tree down to a level, CT_MIN_VOXEL_LEVEL to CT_MAX_VOXEL_LEVEL; made at the first call. Lives as long as
 * the mesh. NULL with *error: LIMIT_EXCEEDED (CT_MAX_VOXEL_BYTES), OUT_OF_MEMORY. */
const ct_voxel_tree *ct_voxel_tree_of(ct_mesh *mesh, uint32_t finest, ct_error *error);

/* The tree that a scene with these settings uses: of its voxel_level, or else of the default level, but not above the
 * level that it is to be followed to. Fails as ct_voxel_tree_of does. */
const ct_voxel_tree *ct_voxel_tree_for(ct_mesh *mesh, const ct_scene_settings *settings, ct_error *error);

/* ---- access ---- */

static inline const ct_voxel_brick *ct_voxel_brick_at(const ct_voxel_level *level, uint32_t x, uint32_t y, uint32_t z) {
    return &level->bricks[((size_t)(z >> 2) * level->n_bricks + (y >> 2)) * level->n_bricks + (x >> 2)];
}

static inline uint32_t ct_voxel_bit(uint32_t x, uint32_t y, uint32_t z) {
    return (x & 3) | (y & 3) << 2 | (z & 3) << 4;
}

/* The boundary node of this bit of the brick. */
static inline const ct_voxel *ct_voxel_node(const ct_voxel_level *level, const ct_voxel_brick *brick, uint32_t bit) {
    const uint64_t below = brick->boundary & (((uint64_t)1 << bit) - 1);
    return &level->nodes[brick->first + (uint32_t)__builtin_popcountll(below)];
}

/* The cube's boundary node, or NULL; *is_full: the cube is wholly inside. Indices must be in range. */
static inline const ct_voxel *ct_voxel_find(const ct_voxel_level *level, uint32_t x, uint32_t y, uint32_t z,
                                            bool *is_full) {
    const ct_voxel_brick *brick = ct_voxel_brick_at(level, x, y, z);
    const uint32_t bit = ct_voxel_bit(x, y, z);
    *is_full = brick->full >> bit & 1;
    return brick->boundary >> bit & 1 ? ct_voxel_node(level, brick, bit) : NULL;
}

#endif
