/* hull.c - finds the corners, and boxes of posed trees from them. */
#include "gpu/methods/voxtree/tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/simd.h"

/* Corners of a level's cubes, one flag each. */
enum { MAX_SIDE = (1 << CT_VOXEL_HULL_LEVEL) + 1 };

typedef struct corners {
    uint32_t side; /* corners along an axis */
    uint8_t flag[MAX_SIDE * MAX_SIDE * MAX_SIDE];
} corners;

static void mark_nodes(corners *c, const ct_voxel_level *level) {
    for (uint32_t i = 0; i < level->n_nodes && !(CT_POLL_EVERY(i, 1024) && ct_is_cancelled()); i++)
        for (uint32_t k = 0; k < 8; k++) {
            const uint8_t *at = level->nodes[i].at;
            const uint32_t x = at[0] + (k & 1), y = at[1] + (k >> 1 & 1), z = at[2] + (k >> 2);
            c->flag[(z * c->side + y) * c->side + x] = 1;
        }
}

/* Whether a flag is set on the ray from corner `at` along `step`, beyond the corner itself. */
static bool is_flagged_beyond(const corners *c, const int at[3], const int step[3]) {
    const int n = (int)c->side;
    for (int x = at[0] + step[0], y = at[1] + step[1], z = at[2] + step[2];
         (unsigned)x < (unsigned)n && (unsigned)y < (unsigned)n && (unsigned)z < (unsigned)n;
         x += step[0], y += step[1], z += step[2])
        if (c->flag[(z * n + y) * n + x]) return true;
    return false;
}

/* Clears the flags of corners that lie between two of `all` along a direction: those are no vertices of the hull. */
static void keep_ends(const corners *all, corners *kept, const int direction[3]) {
    const int n = (int)all->side, back[3] = {-direction[0], -direction[1], -direction[2]};
    uint8_t *flag = kept->flag;
    for (int z = 0; z < n && !ct_is_cancelled(); z++)
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++, flag++) {
                const int at[3] = {x, y, z};
                if (*flag && is_flagged_beyond(all, at, direction) && is_flagged_beyond(all, at, back)) *flag = 0;
            }
}

/* Short directions remove most. More of them are not worth their time: on curved surfaces what is left are nearly the
 * hull's vertices. */
static void keep_hull(const corners *all, corners *kept) {
    enum { LONGEST = 2 };
    for (int longest = 1; longest <= LONGEST; longest++)
        for (int z = 0; z <= longest; z++)
            for (int y = z ? -longest : 0; y <= longest; y++)
                for (int x = z || y ? -longest : 1; x <= longest; x++) {
                    const bool is_short = abs(x) < longest && abs(y) < longest && z < longest;
                    const bool is_double = !(x % 2) && !(y % 2) && !(z % 2);
                    if (!is_short && !is_double) keep_ends(all, kept, (const int[3]){x, y, z});
                }
}

static uint32_t count_blocks(const ct_voxel_hull *hull) {
    return (hull->n + CT_VOXEL_CORNERS - 1) / CT_VOXEL_CORNERS;
}

static void put_corner(ct_voxel_hull *hull, uint32_t i, const uint32_t at[3]) {
    for (int k = 0; k < 3; k++) hull->corners[i / CT_VOXEL_CORNERS].at[k][i % CT_VOXEL_CORNERS] = (float)at[k];
}

static void repeat_corner(ct_voxel_hull *hull, uint32_t i, uint32_t of) {
    for (int k = 0; k < 3; k++)
        hull->corners[i / CT_VOXEL_CORNERS].at[k][i % CT_VOXEL_CORNERS] =
            hull->corners[of / CT_VOXEL_CORNERS].at[k][of % CT_VOXEL_CORNERS];
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
    if (ct_is_cancelled()) {
        free(all);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) hull->n += kept->flag[i];
    const uint32_t n_blocks = count_blocks(hull);
    hull->corners = calloc(n_blocks, sizeof *hull->corners);
    uint32_t at = 0;
    for (uint32_t i = 0; i < n && hull->corners; i++)
        if (kept->flag[i]) put_corner(hull, at++, (const uint32_t[3]){i % side, i / side % side, i / side / side});
    for (const uint32_t last = at - 1; hull->corners && at % CT_VOXEL_CORNERS; at++) repeat_corner(hull, at, last);
    tree->bytes += n_blocks * sizeof *hull->corners;
    free(all);
    return hull->corners;
}

static ct_v4f choose(ct_v4i which, ct_v4f x, ct_v4f y) {
    return (ct_v4f)(((ct_v4i)x & which) | ((ct_v4i)y & ~which));
}

/* The least and the greatest of the corners' products with `step`, rounded to 24 bits. */
static void find_extent(const ct_voxel_hull *hull, const float step[3], float *lo, float *hi) {
    ct_v4f least = {INFINITY, INFINITY, INFINITY, INFINITY}, most = -least;
    for (uint32_t b = 0, n = count_blocks(hull); b < n; b++) {
        ct_v4f at[3];
        memcpy(at, hull->corners[b].at, sizeof at);
        const ct_v4f x = step[0] * at[0] + step[1] * at[1] + step[2] * at[2];
        least = choose(x < least, x, least);
        most = choose(x > most, x, most);
    }
    *lo = fminf(fminf(least[0], least[1]), fminf(least[2], least[3]));
    *hi = fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3]));
}

void ct_voxel_posed_box(const ct_voxel_tree *tree, const double pose[12], ct_box *box) {
    const ct_voxel_hull *hull = &tree->hull;
    const double cube = ldexp(tree->side, -(int)hull->level);
    for (int k = 0; k < 3; k++) {
        const double *row = pose + 4 * k;
        double start = row[3], most = fabs(row[3]), local = 0;
        float step[3], lo, hi;
        for (int j = 0; j < 3; j++) {
            step[j] = (float)row[j];
            start += row[j] * tree->origin[j];
            most += fabs(row[j]) * (fabs(tree->origin[j]) + tree->side);
            local += fabs(row[j]) * tree->side;
        }
        find_extent(hull, step, &lo, &hi);
        const double rounding = 0x1p-46 * most + 0x1p-20 * local;
        box->lo[k] = start + cube * lo - rounding;
        box->hi[k] = start + cube * hi + rounding;
    }
}
