/* descend_k.h - what one cube of the driver adds to a level of a pair of voxel trees (pair.h). The CPU and a device do
 * the same with each cube, and all sums are integers, so the order of cubes changes no bit.
 *
 * Fixed point: a level has at most 2^24 cubes of the driver (CT_MAX_VOXEL_LEVEL is 8), and each makes at most eight
 * primitives.
 *
 *     sum                      one term is at most     step    so the sum is below
 *     volume, centre, gradient 1                       2^-36   2^60
 *     moment                   2                       2^-36   2^61
 *     normal                   1 + sqrt(3)             2^-28   2^57
 *     normal of plain average  1, weighted by 1        2^-35   2^62
 *     point, depth             1, weighted by 1        2^-35   2^62
 *     probability              1                       2^-17   2^44
 *
 * Volumes are in cubes of the driver, areas in its faces and in most_area of the level, centres and arms in its root's
 * side from the root's lowest corner. Normals are in the driver's faces and in most_area of both trees. */
#ifndef CT_VOXEL_DESCEND_K_H
#define CT_VOXEL_DESCEND_K_H

#include "gpu/methods/voxtree/node_k.h"

enum { CT_VOXEL_SUM_BITS = 36, CT_VOXEL_WEIGHT_BITS = 17, CT_VOXEL_VECTOR_BITS = 18, CT_VOXEL_NORMAL_BITS = 28 };

/* Sums over settled or over open cubes of one level, in rows of four, which the CPU adds up as vectors. */
typedef struct ct_voxel_cube_sums {
    int64_t volume[4];       /* that is estimated to be shared, and times its centre along x, y, z */
    int64_t gradient[4];     /* the last: occupancy of boundary nodes, whatever the other body has there */
    int64_t moment[4];       /* arm x gradient; the last is 0 */
    int64_t n_full, n_nodes; /* cubes without and with a boundary node */
    int64_t n_children;      /* that the next level compares for open cubes */
} ct_voxel_cube_sums;
enum { CT_VOXEL_CUBE_SUMS = sizeof(ct_voxel_cube_sums) / sizeof(int64_t) };

/* A level of a pair: how the driver's cubes lie among the other's. Coordinates are the other's cubes of this level from
 * its root's lowest corner. Rows of four have 0 in the last, so that the CPU computes them as vectors. */
typedef struct ct_voxel_geometry {
    ct_voxel_level a, finer, b;  /* the driver's, its next one where it has one, the other's */
    double step[3][4];           /* step[k]: along the driver's axis k by a cube */
    double corner[4];            /* the driver's root corner */
    double reach[4];             /* half of the box of a cube of the driver */
    double facing[9];            /* turns an area of the driver into the other's axes: in faces of the other for plain
                                    averages, else in faces of the driver */
    double other_facing;         /* brings an area of the other to the same scale */
    double normal_steps;         /* of fixed point, for 1 of that scale */
    double cube, other_cube;     /* sides of cubes, of their roots' */
    double part;                 /* of a cube of the driver, that the other's root can cover */
    double inverse_area;         /* 1 / a.most_area */
    double radii, inverse_scale; /* R_a + R_b; 1 / (2 min(R_a, R_b)) */
    double along;                /* of the line from the driver's centre to the other's: the point, R_a / (R_a + R_b) */
    uint32_t has_finer;
    uint32_t finds_estimates;              /* of open cubes: estimates and gradient */
    uint32_t finds_points, settles_points; /* primitives of open cubes, of settled ones */
    uint32_t has_center_normals, has_plain_average;
} ct_voxel_geometry;

/* An open cube. */
typedef struct ct_voxel_open {
    uint8_t at[3];
    uint8_t is_boundary;
} ct_voxel_open;

typedef enum ct_voxel_status { CT_VOXEL_IS_EMPTY, CT_VOXEL_IS_FULL, CT_VOXEL_IS_OPEN } ct_voxel_status;

/* ---- positions ---- */

/* floor, for numbers from -1 to 2^30. Just below an integer it may give that integer. */
CT_FN int ct_voxel_floor(double x) {
    return (int)(x + 1) - 1;
}

/* Where a point of the driver's cubes lies among the other's. */
CT_FN void ct_voxel_place(const ct_voxel_geometry *g, const double at[3], double u[4]) {
    for (int k = 0; k < 4; k++)
        u[k] = g->corner[k] + at[0] * g->step[0][k] + at[1] * g->step[1][k] + at[2] * g->step[2][k];
}

/* Cubes from one to another along an axis, at most four, lie in at most two bricks. */
typedef struct ct_voxel_range {
    uint32_t brick[2]; /* the second is the first, or the next */
    uint32_t from, to; /* from the first brick's first cube: 0..3, 0..6 */
} ct_voxel_range;

CT_FN ct_voxel_range ct_voxel_find_range(uint32_t from, uint32_t to) {
    ct_voxel_range range;
    range.brick[0] = from >> 2;
    range.brick[1] = to >> 2;
    range.from = from & 3;
    range.to = to - (from & ~3u);
    return range;
}

/* Bits of both bricks between the range's ends, whatever the places along the other axes; 0: none. */
CT_FN void ct_voxel_x_bits(const ct_voxel_range *x, uint64_t bits[2]) {
    const uint64_t cubes = ((uint64_t)2 << x->to) - ((uint64_t)1 << x->from);
    bits[0] = (cubes & 15) * 0x1111111111111111;
    bits[1] = (cubes >> 4) * 0x1111111111111111;
}
CT_FN void ct_voxel_y_bits(const ct_voxel_range *y, uint64_t bits[2]) {
    const uint64_t cubes = ((uint64_t)16 << 4 * y->to) - ((uint64_t)1 << 4 * y->from);
    bits[0] = (cubes & 0xffff) * 0x0001000100010001;
    bits[1] = (cubes >> 16) * 0x0001000100010001;
}
CT_FN void ct_voxel_z_bits(const ct_voxel_range *z, uint64_t bits[2]) {
    const uint64_t all = ~(uint64_t)0;
    const bool ends_here = z->to < 4;
    bits[0] = all << 16 * z->from & all >> (ends_here ? 16 * (3 - z->to) : 0);
    bits[1] = ends_here ? 0 : all >> (16 * (7 - z->to) & 63);
}

/* What the other's cubes are from lo to hi, of which those beyond the root are empty. */
CT_FN ct_voxel_status ct_voxel_classify(const ct_voxel_level *level, const int lo[3], const int hi[3]) {
    const int last = (int)level->n - 1;
    bool has_empty = false;
    ct_voxel_range range[3];
    for (int k = 0; k < 3; k++) {
        has_empty |= lo[k] < 0 || hi[k] > last;
        range[k] = ct_voxel_find_range((uint32_t)(lo[k] > 0 ? lo[k] : 0), (uint32_t)(hi[k] < last ? hi[k] : last));
    }
    uint64_t in_x[2], in_y[2], in_z[2], full = 0, not_full = 0, partial = 0;
    ct_voxel_x_bits(&range[0], in_x);
    ct_voxel_y_bits(&range[1], in_y);
    ct_voxel_z_bits(&range[2], in_z);
    for (int i = 0; i < 4; i++) {
        const ct_voxel_brick *row =
            level->bricks + (range[2].brick[i >> 1] * level->n_bricks + range[1].brick[i & 1]) * level->n_bricks;
        const uint64_t bits = in_z[i >> 1] & in_y[i & 1];
        for (int j = 0; j < 2; j++) {
            const ct_voxel_brick *brick = row + range[0].brick[j];
            const uint64_t mine = bits & in_x[j], others = ~brick->full & mine;
            full |= brick->full & mine;
            not_full |= others;
            partial |= brick->boundary & others;
        }
    }
    has_empty |= not_full != 0;
    if (partial || (full && has_empty)) return CT_VOXEL_IS_OPEN;
    return full ? CT_VOXEL_IS_FULL : CT_VOXEL_IS_EMPTY;
}

/* ---- the other's cubes around a point ---- */

/* The eight cubes whose centres surround a point. Bit 0 of an index is along x, bit 1 along y, bit 2 along z. */
typedef struct ct_voxel_around {
    int base[4];             /* the first cube */
    double center[4];        /* of that cube */
    double from[4];          /* the point from there, 0..1 */
    const ct_voxel *node[8]; /* those that stand for empty and full cubes included */
} ct_voxel_around;

/* Finds between which of the other's cubes the point lies, but not yet these. Below -1.5 it may name a cube too high,
 * which is outside the root too. */
CT_FN void ct_voxel_look(const double u[4], ct_voxel_around *out) {
    for (int k = 0; k < 4; k++) {
        out->base[k] = (int)(u[k] + 1.5) - 2;
        out->center[k] = out->base[k] + 0.5;
        out->from[k] = u[k] - out->center[k];
    }
}

CT_FN void ct_voxel_find_indexed(const ct_voxel_level *level, ct_voxel_around *out) {
    const int n = (int)level->n;
    const uint32_t side = level->n + 2 * CT_VOXEL_BORDER;
    uint32_t at[3];
    for (int k = 0; k < 3; k++) {
        const int base = out->base[k] > -CT_VOXEL_BORDER ? out->base[k] : -CT_VOXEL_BORDER;
        at[k] = (uint32_t)((base < n ? base : n) + CT_VOXEL_BORDER);
    }
    const uint16_t *first = level->index + ((at[2] * side + at[1]) * side + at[0]);
    const ct_voxel *plain = level->nodes - CT_VOXEL_PLAIN;
    for (uint32_t i = 0; i < 8; i++) out->node[i] = plain + first[(i & 1) + ((i >> 1 & 1) + (i >> 2) * side) * side];
}

/* Finds the cubes around base. */
CT_FN void ct_voxel_find_around(const ct_voxel_level *level, ct_voxel_around *out) {
    if (level->index) {
        ct_voxel_find_indexed(level, out);
        return;
    }
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t x = (uint32_t)out->base[0] + (i & 1), y = (uint32_t)out->base[1] + (i >> 1 & 1);
        const uint32_t z = (uint32_t)out->base[2] + (i >> 2);
        bool is_full = false;
        const ct_voxel *node = NULL;
        if (x < level->n && y < level->n && z < level->n) node = ct_voxel_find(level, x, y, z, &is_full);
        out->node[i] = node ? node : level->nodes - CT_VOXEL_PLAIN + is_full;
    }
}

/* Whether some of the cubes are inside and some outside, or some partly: surely where it says so. */
CT_FN bool ct_voxel_are_mixed(const ct_voxel *const node[8]) {
    float least = node[0]->occupancy, most = least;
    for (int i = 1; i < 8; i++) {
        const float x = node[i]->occupancy;
        least = x < least ? x : least;
        most = x > most ? x : most;
    }
    return most > 0 && least < (float)(1 - CT_VOXEL_ERROR);
}

/* The occupancy between these cubes: trilinear interpolation between their centres. */
CT_FN double ct_voxel_interpolate(const ct_voxel *const node[8], const double from[3]) {
    double x[4];
    for (int i = 0; i < 4; i++) {
        const double low = (double)node[2 * i]->occupancy, high = (double)node[2 * i + 1]->occupancy;
        x[i] = low + from[0] * (high - low);
    }
    const double y[2] = {x[0] + from[1] * (x[1] - x[0]), x[2] + from[1] * (x[3] - x[2])};
    return y[0] + from[2] * (y[1] - y[0]);
}

/* What the other's cubes are that the box around u reaches: as its level is the finest with cubes that are not smaller,
 * at most three along an axis. Of an open cube *around becomes the cubes around u. */
CT_FN ct_voxel_status ct_voxel_test(const ct_voxel_geometry *g, const double u[4], ct_voxel_around *around) {
    const double n = g->b.n;
    const int last = (int)g->b.n - 1;
    int lo[4], hi[4];
    for (int k = 0; k < 4; k++) {
        const double low = u[k] - g->reach[k], high = u[k] + g->reach[k];
        const double a = low > -1 ? low : -1, b = high > -1 ? high : -1;
        lo[k] = ct_voxel_floor(a < n ? a : n);
        hi[k] = ct_voxel_floor(b < n ? b : n);
    }
    if ((hi[0] | hi[1] | hi[2] | (last - lo[0]) | (last - lo[1]) | (last - lo[2])) < 0) return CT_VOXEL_IS_EMPTY;
    ct_voxel_look(u, around);
    ct_voxel_find_around(&g->b, around);
    int beyond = 0; /* negative where one of the cubes around is not in the box */
    for (int k = 0; k < 3; k++) beyond |= (around->base[k] - lo[k]) | (hi[k] - around->base[k] - 1);
    if (beyond >= 0 && ct_voxel_are_mixed(around->node)) return CT_VOXEL_IS_OPEN; /* most end here */
    return ct_voxel_classify(&g->b, lo, hi);
}

/* ---- sums ---- */

/* x in steps of 2^-CT_VOXEL_SUM_BITS, rounded to the nearest: adding 1.5 * 2^52 of these steps leaves it in the low
 * bits of the mantissa. For |x| < 2^14. */
CT_FN int64_t ct_voxel_fixed(double x) {
    union {
        double d;
        int64_t i;
    } bits, magic;
    magic.d = 1.5 * (double)(1 << (52 - CT_VOXEL_SUM_BITS));
    bits.d = x + magic.d;
    return bits.i - magic.i;
}

/* volume: in cubes; at: its centre, in cubes. */
CT_FN void ct_voxel_add_volume(const ct_voxel_geometry *g, double volume, const double at[3],
                               ct_voxel_cube_sums *sums) {
    const double c = volume * g->cube, row[4] = {volume, c * at[0], c * at[1], c * at[2]};
    for (int k = 0; k < 4; k++) sums->volume[k] += ct_voxel_fixed(row[k]);
}

/* at: the surface's centre, in cubes; weight: how much of it counts. */
CT_FN void ct_voxel_add_surface(const ct_voxel_geometry *g, const ct_voxel *node, double weight, const double at[3],
                                ct_voxel_cube_sums *sums) {
    const double w = weight * g->inverse_area;
    const double x = at[0] * g->cube, y = at[1] * g->cube, z = at[2] * g->cube;
    const double area[4] = {w * (double)node->area[0], w * (double)node->area[1], w * (double)node->area[2], 0};
    const double moment[4] = {y * area[2] - z * area[1], z * area[0] - x * area[2], x * area[1] - y * area[0], 0};
    for (int k = 0; k < 4; k++) sums->gradient[k] += ct_voxel_fixed(area[k]);
    for (int k = 0; k < 4; k++) sums->moment[k] += ct_voxel_fixed(moment[k]);
}

CT_FN void ct_voxel_surface_center(const ct_voxel *node, double at[3]) {
    for (int k = 0; k < 3; k++) at[k] = node->at[k] + (node->center[k] + 0.5) * (1.0 / 256);
}

/* Counts a cube; node: NULL if it is full and no boundary node. Returns its occupancy. */
CT_FN double ct_voxel_count(const ct_voxel *node, ct_voxel_cube_sums *sums) {
    if (!node) {
        sums->n_full++;
        return 1;
    }
    sums->n_nodes++;
    sums->gradient[3] += ct_voxel_fixed((double)node->occupancy);
    return (double)node->occupancy;
}

/* The whole cube counts; center: its own, in cubes. */
CT_FN void ct_voxel_add_settled(const ct_voxel_geometry *g, const ct_voxel *node, const double center[3],
                                ct_voxel_cube_sums *sums) {
    ct_voxel_add_volume(g, ct_voxel_count(node, sums), center, sums);
    if (!node) return;
    double at[3];
    ct_voxel_surface_center(node, at);
    ct_voxel_add_surface(g, node, 1, at, sums);
}

/* The volume that an open cube with these of the other's around its centre is estimated to share; occupancy: its own.
 */
CT_FN void ct_voxel_add_shared(const ct_voxel_geometry *g, double occupancy, const double center[3],
                               const ct_voxel_around *around, ct_voxel_cube_sums *sums) {
    const double shared = ct_voxel_interpolate(around->node, around->from) * (g->part * occupancy);
    ct_voxel_add_volume(g, shared, center, sums);
}

/* The surface of an open boundary node: weighted by the other's occupancy at its centre. */
CT_FN void ct_voxel_add_open_surface(const ct_voxel_geometry *g, const ct_voxel *node, ct_voxel_cube_sums *sums) {
    double at[3], v[4];
    ct_voxel_surface_center(node, at);
    ct_voxel_place(g, at, v);
    ct_voxel_around there;
    ct_voxel_look(v, &there);
    ct_voxel_find_around(&g->b, &there);
    ct_voxel_add_surface(g, node, ct_voxel_interpolate(there.node, there.from), at, sums);
}

/* What an open cube with these of the other's around its centre is estimated to add. */
CT_FN void ct_voxel_add_open(const ct_voxel_geometry *g, const ct_voxel *node, const double center[3],
                             const ct_voxel_around *around, ct_voxel_cube_sums *sums) {
    const double occupancy = ct_voxel_count(node, sums);
    if (!g->finds_estimates) return;
    ct_voxel_add_shared(g, occupancy, center, around, sums);
    if (node) ct_voxel_add_open_surface(g, node, sums);
}

/* ---- primitives ---- */

/* Sums over primitives. Two rows of four, which the CPU adds up as vectors. Points lie in the other body's root, depths
 * are of the sum of the radii. */
typedef struct ct_voxel_group_sums {
    int64_t normal[3], probability; /* see meet_k.h, or n of equation 8; P of equation 1 */
    int64_t point[3], depth;        /* P p of equation 10, or p of equation 7; P d_K of equation 4 */
    uint64_t n;                     /* primitives */
    uint32_t group[2];              /* of the driver, of the other body; CT_VOXEL_INSIDE */
} ct_voxel_group_sums;

/* From a cube's centre to that of its surface, in cubes, of a byte of ct_voxel.center. */
CT_FN double ct_voxel_arm(uint32_t center) {
    return center * (1.0 / 256) + (0.5 / 256 - 0.5);
}

/* A cube of the driver as its primitives see it, in the other's axes. */
typedef struct ct_voxel_side {
    double occupancy;
    double area[3]; /* vector of its surface, in the scale of ct_voxel_geometry.facing */
    double arm[3];  /* from its centre to the surface's, in the other's cubes */
} ct_voxel_side;

/* node: NULL if the cube is full. */
CT_FN void ct_voxel_find_side(const ct_voxel_geometry *g, const ct_voxel *node, ct_voxel_side *out) {
    out->occupancy = node ? (double)node->occupancy : 1;
    for (int k = 0; k < 3; k++) {
        out->area[k] = node ? g->facing[3 * k] * (double)node->area[0] + g->facing[3 * k + 1] * (double)node->area[1] +
                                  g->facing[3 * k + 2] * (double)node->area[2]
                            : 0;
        out->arm[k] = node ? ct_voxel_arm(node->center[0]) * g->step[0][k] +
                                 ct_voxel_arm(node->center[1]) * g->step[1][k] +
                                 ct_voxel_arm(node->center[2]) * g->step[2][k]
                           : 0;
    }
}

/* The primitive that a settled boundary node, with its centre at u, stands for: it lies wholly in full cubes. Its depth
 * follows from its probability. */
CT_FN void ct_voxel_settle_primitive(const ct_voxel_geometry *g, const ct_voxel *node, const double u[4],
                                     ct_voxel_group_sums *out) {
    ct_voxel_side side;
    ct_voxel_find_side(g, node, &side);
    out->probability = ct_round_i32(side.occupancy * (double)(1 << CT_VOXEL_WEIGHT_BITS));
    out->depth = 0;
    for (int k = 0; k < 3; k++) {
        out->normal[k] = -(int64_t)ct_round_i32(side.area[k] * g->normal_steps);
        out->point[k] = out->probability * ct_round_i32(u[k] * (g->other_cube * (double)(1 << CT_VOXEL_VECTOR_BITS)));
    }
    out->n = 1;
}

/* ---- children ---- */

/* The cubes that an open cube is looked at through on the level g.a: bits of *brick. */
CT_FN uint64_t ct_voxel_children(const ct_voxel_level *level, const ct_voxel_open *parent,
                                 const ct_voxel_brick **brick) {
    const uint32_t x = 2u * parent->at[0], y = 2u * parent->at[1], z = 2u * parent->at[2];
    *brick = ct_voxel_brick_at(level, x, y, z);
    const uint64_t bits = CT_VOXEL_OCTANT << ct_voxel_bit(x, y, z);
    return parent->is_boundary ? bits & ((*brick)->full | (*brick)->boundary) : bits;
}

/* How many cubes the next level compares for an open cube of this one. */
CT_FN uint32_t ct_voxel_count_children(const ct_voxel_geometry *g, const ct_voxel_open *open) {
    if (!g->has_finer) return 0;
    const ct_voxel_brick *brick;
    return ct_voxel_count_bits(ct_voxel_children(&g->finer, open, &brick));
}

/* The cube of this bit of the brick around a parent. */
CT_FN void ct_voxel_child_at(const ct_voxel_open *parent, uint32_t bit, uint8_t at[3]) {
    at[0] = (uint8_t)(((2u * parent->at[0]) & ~3u) | (bit & 3));
    at[1] = (uint8_t)(((2u * parent->at[1]) & ~3u) | (bit >> 2 & 3));
    at[2] = (uint8_t)(((2u * parent->at[2]) & ~3u) | bit >> 4);
}

#endif
