/* hull.c - finds the corners, and boxes of posed trees from them. */
#include "gpu/voxtree/hull.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Corners of a level's cubes, one flag each. */
enum { MAX_SIDE = (1 << CT_VOXEL_HULL_LEVEL) + 1 };

typedef struct corners {
    uint32_t side; /* corners along an axis */
    uint8_t flag[MAX_SIDE * MAX_SIDE * MAX_SIDE];
} corners;

static void mark_nodes(corners *c, const ct_voxel_level *level) {
    for (uint32_t i = 0; i < level->n_nodes; i++)
        for (uint32_t k = 0; k < 8; k++) {
            const uint8_t *at = level->nodes[i].at;
            const uint32_t x = at[0] + (k & 1), y = at[1] + (k >> 1 & 1), z = at[2] + (k >> 2);
            c->flag[(z * c->side + y) * c->side + x] = 1;
        }
}

/* Clears all but the first and the last flag of the line of corners that begins at `first`. */
static void keep_ends(const corners *all, corners *kept, uint32_t first, uint32_t stride) {
    uint32_t lo = all->side, hi = 0;
    for (uint32_t i = 0; i < all->side; i++)
        if (all->flag[first + i * stride]) {
            if (lo == all->side) lo = i;
            hi = i;
        }
    for (uint32_t i = lo + 1; i < hi; i++) kept->flag[first + i * stride] = 0;
}

static void keep_hull(const corners *all, corners *kept) {
    const uint32_t n = all->side, stride[3] = {1, n, n * n};
    for (int k = 0; k < 3; k++)
        for (uint32_t j = 0; j < n; j++)
            for (uint32_t i = 0; i < n; i++)
                keep_ends(all, kept, i * stride[(k + 1) % 3] + j * stride[(k + 2) % 3], stride[k]);
}

bool ct_voxel_find_hull(ct_voxel_tree *tree) {
    ct_voxel_hull *hull = &tree->hull;
    hull->level = tree->finest < CT_VOXEL_HULL_LEVEL ? tree->finest : CT_VOXEL_HULL_LEVEL;
    const uint32_t side = (1u << hull->level) + 1, n = side * side * side;
    corners *all = calloc(2, sizeof *all);
    if (!all) return false;
    corners *kept = all + 1;
    all->side = side;
    mark_nodes(all, &tree->level[hull->level]);
    memcpy(kept, all, sizeof *all);
    keep_hull(all, kept);
    for (uint32_t i = 0; i < n; i++) hull->n += kept->flag[i];
    hull->corners = malloc((hull->n + 1) * sizeof *hull->corners);
    uint32_t at = 0;
    for (uint32_t i = 0; i < n && hull->corners; i++)
        if (kept->flag[i]) {
            const uint32_t x = i % side, y = i / side % side, z = i / side / side;
            hull->corners[at++] = (ct_voxel_corner){{(float)x, (float)y, (float)z}};
        }
    tree->bytes += (hull->n + 1) * sizeof *hull->corners;
    free(all);
    return hull->corners;
}

void ct_voxel_posed_box(const ct_voxel_tree *tree, const double pose[12], ct_box *box) {
    const ct_voxel_hull *hull = &tree->hull;
    const double cube = ldexp(tree->side, -(int)hull->level);
    for (int k = 0; k < 3; k++) {
        const double *row = pose + 4 * k;
        double step[3], start = row[3], most = fabs(row[3]), lo = INFINITY, hi = -INFINITY;
        for (int j = 0; j < 3; j++) {
            step[j] = cube * row[j];
            start += row[j] * tree->origin[j];
            most += fabs(row[j]) * (fabs(tree->origin[j]) + tree->side);
        }
        for (uint32_t i = 0; i < hull->n; i++) {
            const float *at = hull->corners[i].at;
            const double x = step[0] * at[0] + step[1] * at[1] + step[2] * at[2];
            lo = x < lo ? x : lo;
            hi = x > hi ? x : hi;
        }
        const double rounding = 0x1p-46 * most;
        box->lo[k] = start + lo - rounding;
        box->hi[k] = start + hi + rounding;
    }
}
