/* wrap_grid.h - the grid of a wrap: distances to the triangles at nodes near them, what is outside, and a field that is
 * negative inside the wrap. Lengths are in sides of the grid's cubes, and points count from its first node. For wrap.c. */
#ifndef CT_WRAP_GRID_H
#define CT_WRAP_GRID_H

#include "gpu/mesh/soup.h"

enum {
    CT_WRAP_SIDE = 8,                                           /* nodes of a block along an axis */
    CT_WRAP_NODES = CT_WRAP_SIDE * CT_WRAP_SIDE * CT_WRAP_SIDE, /* of a block */
    CT_WRAP_PAD = 5,                                            /* nodes around the box */
};
#define CT_WRAP_BAND   2.5f /* distances up to this are known */
#define CT_WRAP_GAP    1.5f /* half the width of the widest gap that is closed */
#define CT_WRAP_WALL   0.5f /* of two neighbours on either side of a triangle one is nearer to it, or as near */
#define CT_WRAP_OFFSET 0.9  /* of sheets: above half the diagonal of a cube, so that no edge passes through one */

/* Blocks without a node that is near a triangle. */
#define CT_WRAP_UNKNOWN UINT32_MAX
#define CT_WRAP_OUTSIDE (UINT32_MAX - 1)
#define CT_WRAP_INSIDE  (UINT32_MAX - 2)

typedef struct ct_wrap_block {
    float distance[CT_WRAP_NODES];   /* at most CT_WRAP_BAND */
    float field[CT_WRAP_NODES];      /* the wrap is where it is 0 */
    uint32_t nearest[CT_WRAP_NODES]; /* the triangle; UINT32_MAX: further than CT_WRAP_BAND */
    uint8_t is_outside[CT_WRAP_NODES];
} ct_wrap_block;

typedef struct ct_wrap_grid {
    double origin[3], side; /* m: of the first node; of a cube */
    int64_t n_blocks[3];
    uint32_t *directory;   /* [n_blocks x, y, z] a number of a block, or CT_WRAP_... */
    ct_wrap_block *blocks; /* [n] */
    uint32_t n;
    double *points;      /* [n_vertices][3] the soup's */
    uint32_t *triangles; /* [n_triangles][3] the soup's, near ones next to each other */
    size_t n_triangles;
    struct ct_wrap_box *tree; /* wrap_tree.c */
    size_t n_leaves;          /* a power of two */
} ct_wrap_grid;

/* Makes the grid of a soup, with its field. The caller frees it, also after a failure. */
ct_status ct_make_wrap_grid(const ct_soup *soup, double resolution, ct_wrap_grid *grid, ct_error *error);
void ct_free_wrap_grid(ct_wrap_grid *grid);

/* ---- wrap_tree.c: the triangle next to any point ---- */

/* Over the grid's points and triangles. False: out of memory, or cancelled. */
bool ct_make_wrap_tree(ct_wrap_grid *grid);
/* The distance of a point from the triangles, and the one that is next to it. */
double ct_wrap_distance(const ct_wrap_grid *grid, const double point[3], uint32_t *nearest);

/* The square of the distance to a triangle, and the point of it that is next. closest NULL: not wanted. */
double ct_wrap_square(const ct_wrap_grid *grid, uint32_t triangle, const double point[3], double *closest);

static inline uint32_t ct_wrap_entry(const ct_wrap_grid *grid, const int64_t node[3]) {
    int64_t at = 0;
    for (int k = 0; k < 3; k++) at = at * grid->n_blocks[k] + node[k] / CT_WRAP_SIDE;
    return grid->directory[at];
}

static inline int ct_wrap_local(const int64_t node[3]) {
    int at = 0;
    for (int k = 0; k < 3; k++) at = at * CT_WRAP_SIDE + (int)(node[k] % CT_WRAP_SIDE);
    return at;
}

static inline bool ct_wrap_has(const ct_wrap_grid *grid, const int64_t node[3]) {
    for (int k = 0; k < 3; k++)
        if (node[k] < 0 || node[k] >= CT_WRAP_SIDE * grid->n_blocks[k]) return false;
    return true;
}

#endif
