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

#include "gpu/base/box.h"
#include "gpu/include/contact.h"
#include "gpu/methods/voxtree/node_k.h"

/* Bytes that one tree may hold. A tree of level 8 around a smooth body takes about 12 MiB. */
#define CT_MAX_VOXEL_BYTES ((uint64_t)256 << 20)

/* Pieces that triangles may be cut into for one tree, some 0.1 us each. Making it takes up to 0.5 GB beside the tree,
 * in proportion to its nodes. */
#define CT_MAX_VOXEL_PIECES ((uint64_t)1 << 28)

/* Corners of cubes whose convex hull contains the mesh; see ct_voxel_find_hull. */
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
 * the mesh, or as long as a body holds it. NULL with *error: LIMIT_EXCEEDED (CT_MAX_VOXEL_PIECES, before anything is
 * made; CT_MAX_VOXEL_BYTES, or ct_mesh_room), OUT_OF_MEMORY, CANCELLED. */
const ct_voxel_tree *ct_voxel_tree_of(ct_mesh *mesh, uint32_t finest, ct_error *error);

/* The finest level of the tree that a scene with these settings uses: its voxel_level, or else the default level, but
 * not above the level that it is to be followed to. */
uint32_t ct_voxel_level_for(const ct_mesh *mesh, const ct_scene_settings *settings);
/* The tree of that level. Fails as ct_voxel_tree_of does. */
const ct_voxel_tree *ct_voxel_tree_for(ct_mesh *mesh, const ct_scene_settings *settings, ct_error *error);

/* The tree of a level for a body, which keeps it until it drops it: trees are large, and the last body that drops one
 * frees it. False as ct_voxel_tree_of does. */
bool ct_voxel_tree_hold(ct_mesh *mesh, uint32_t finest, ct_error *error);
void ct_voxel_tree_drop(ct_mesh *mesh, uint32_t finest);

/* ---- a box around a posed mesh in a microsecond (hull.c): bodies of VOXTREE need no tighter one ---- */

/* Fills tree->hull: corners of the boundary nodes of a level with at most 2^CT_VOXEL_HULL_LEVEL cubes along an axis,
 * without those that lie between two others along a short direction: a few hundred at most. Their convex hull is that
 * of the nodes, so it contains the mesh. False: out of memory, or cancelled. */
bool ct_voxel_find_hull(ct_voxel_tree *tree);

/* A box that contains the posed mesh: the smallest around the hull, wider than the mesh's own by less than two cubes of
 * the hull's level on each side. */
void ct_voxel_posed_box(const ct_voxel_tree *tree, const double pose[12], ct_box *box);

/* ---- groups of boundary nodes whose contacts are safe to average (groups.c; Dingliana and O'Sullivan 2005, section
 * 4.3) ---- */

enum { CT_MAX_VOXEL_GROUPS = 0xffff }; /* groups are numbered below it */

/* Gives the finest level's nodes their groups and sets tree->n_groups. A group is connected, over faces, edges and
 * corners of cubes, and its surface faces within 57 degrees of that of its first node, so that a box has six; where
 * that makes too many groups, within a wider angle. sizes: areas of the surface in each node, in faces of a cube.
 * False: out of memory, or cancelled. */
bool ct_voxel_grow_groups(ct_voxel_tree *tree, const double *sizes);

/* Gives a coarser node the group of its child with the longest area vector. False: cancelled. */
bool ct_voxel_inherit_groups(ct_voxel_tree *tree);

#endif
