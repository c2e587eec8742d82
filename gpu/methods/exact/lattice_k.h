/* lattice_k.h - the integer lattice on which the method `exact` places a pair of bodies, boxes of clusters on it, and
 * which pairs of them may meet.
 *
 * Coordinates are integers below 2^39 in size, kept in doubles, which hold them exactly. Differences of two are below
 * 2^40, so products of three, as orientation predicates have them, fit in 128-bit integers. The unit is a power of two,
 * so positions in float32 of deformable bodies are lattice points wherever their last bit is at least a unit; a
 * position between lattice points is moved by half a unit at most along each axis. The origin lies near the contact,
 * where coordinates are small.
 */
#ifndef CT_EXACT_LATTICE_K_H
#define CT_EXACT_LATTICE_K_H

#include <math.h>
#include <stddef.h>

#include "gpu/base/box.h"
#include "gpu/base/kernel.h"
#include "gpu/mesh/cluster_k.h"

#define CT_LATTICE_LIMIT 549755813888.0 /* 2^39 */

typedef struct ct_exact_lattice {
    double origin[3];     /* m, world; a multiple of unit */
    double unit, inverse; /* m, a power of two; 1 / unit */
} ct_exact_lattice;

/* The middle of the lattice is `about`; NULL: along each axis, the middle of the two boxes' overlap. Swapping the boxes
 * changes no bit. About a half-space's plane are the two triangles of its top, which are larger than any contact: a point
 * of it in the middle keeps the rounding of what is integrated over them as small as the contact (finish_k.h). */
CT_FN ct_exact_lattice ct_plan_exact_lattice(const ct_box *a, const ct_box *b, const double *about) {
    ct_exact_lattice lattice;
    double size = 0, middle[3];
    for (int k = 0; k < 3; k++) {
        middle[k] = about ? about[k] : 0.5 * (fmax(a->lo[k], b->lo[k]) + fmin(a->hi[k], b->hi[k]));
        size = fmax(size, fmax(fmax(a->hi[k], b->hi[k]) - middle[k], middle[k] - fmin(a->lo[k], b->lo[k])));
    }
    int exponent;
    frexp(size, &exponent); /* size < 2^exponent; one bit to spare for the rounding of the boxes and the origin */
    lattice.unit = ldexp(1.0, exponent - 38);
    lattice.inverse = ldexp(1.0, 38 - exponent);
    for (int k = 0; k < 3; k++) {
        const double steps = middle[k] * lattice.inverse;
        /* Beyond 2^52 every double is an integer. */
        lattice.origin[k] = fabs(steps) < 4503599627370496.0 ? nearbyint(steps) * lattice.unit : middle[k];
    }
    return lattice;
}

CT_FN double ct_extent_of(const ct_box *box) {
    return fmax(box->hi[0] - box->lo[0], fmax(box->hi[1] - box->lo[1], box->hi[2] - box->lo[2]));
}

/* The lattice spans both bodies. The smaller one needs 2^16 steps of it: float32 positions have 24 bits, so fewer would
 * move its vertices by more than what a body can be expected to be modelled to. 0: one has fewer. */
CT_FN int ct_extents_fit(const ct_box *a, const ct_box *b) {
    const double least = 65536 * ct_plan_exact_lattice(a, b, NULL).unit;
    const double extent_a = ct_extent_of(a), extent_b = ct_extent_of(b);
    return !(extent_a > 0 && extent_a < least) && !(extent_b > 0 && extent_b < least);
}

/* The nearest lattice coordinate of x, in units, |x| < 2^51. */
CT_FN double ct_round_to_lattice(double x) {
    return (x + CT_ROUND_MAGIC) - CT_ROUND_MAGIC;
}

/* A pose that takes rest positions to units of the lattice. */
typedef struct ct_lattice_pose {
    double row[3][4];
    double rounding; /* units: bounds the rounding of a coordinate before it is placed on the lattice */
    double scale;    /* units per m */
    int is_turned;   /* the body's axes are not the world's */
} ct_lattice_pose;

/* pose: row-major 3x4 [R|t], or NULL for positions in world axes. reach: m, the largest |coordinate| of a rest
 * position; a deformable body's coordinates are subtracted without rounding, or with one that is counted here. */
CT_FN ct_lattice_pose ct_lattice_pose_of(const ct_exact_lattice *lattice, const double *pose, double reach) {
    ct_lattice_pose p;
    p.rounding = 0;
    p.scale = lattice->inverse;
    p.is_turned = 0;
    for (int k = 0; k < 3; k++) {
        double size = 0;
        for (int j = 0; j < 3; j++) {
            const double r = pose ? pose[4 * k + j] : (double)(j == k);
            p.row[k][j] = r * lattice->inverse;
            p.is_turned |= r != (double)(j == k);
            size += fabs(r) * reach;
        }
        p.row[k][3] = ((pose ? pose[4 * k + 3] : 0) - lattice->origin[k]) * lattice->inverse;
        if (pose) p.rounding = fmax(p.rounding, 0x1p-50 * (size * lattice->inverse + fabs(p.row[k][3])));
    }
    return p;
}

/* The lattice point of a position and, unless it is NULL, its lower part (mesh/split.h). Returns the most that a coordinate was moved to reach it, units. */
CT_FN double ct_place_point(const ct_lattice_pose *pose, const float *position, const float *low, double out[3]) {
    double residual = 0, p[3];
    for (int k = 0; k < 3; k++) p[k] = (double)position[k] + (low ? (double)low[k] : 0);
    for (int k = 0; k < 3; k++) {
        const double *row = pose->row[k];
        const double x = row[0] * p[0] + row[1] * p[1] + row[2] * p[2] + row[3];
        out[k] = ct_round_to_lattice(x);
        residual = fmax(residual, fabs(x - out[k]));
    }
    return residual;
}

/* ---- boxes of clusters ---- */

/* Which pairs of clusters are looked at is a part of the answer: triangles that are near each other without crossing
 * count in the bound. So it is decided here, by the boxes of the two clusters alone. Boxes that contain others, as
 * those of a tree's inner nodes do, are compared with some slack, so that rounding never drops a pair of clusters. */

/* A node's box on the lattice. */
typedef struct ct_node_box {
    double lo[3], hi[3]; /* units, rounded outwards by two units at least */
} ct_node_box;

CT_FN ct_node_box ct_place_box(const ct_cluster_box *box, const ct_lattice_pose *pose) {
    ct_node_box out;
    double middle[3], half[3];
    for (int j = 0; j < 3; j++) {
        middle[j] = 0.5 * ((double)box->lo[j] + (double)box->hi[j]);
        half[j] = 0.5 * ((double)box->hi[j] - (double)box->lo[j]);
    }
    for (int k = 0; k < 3; k++) {
        const double *row = pose->row[k];
        const double at = row[0] * middle[0] + row[1] * middle[1] + row[2] * middle[2] + row[3];
        const double size = fabs(row[0]) * half[0] + fabs(row[1]) * half[1] + fabs(row[2]) * half[2];
        /* The rounding of these sums, of placing, and two units. */
        const double margin = 0x1p-48 * (fabs(at) + size + fabs(row[3])) + pose->rounding + 3;
        out.lo[k] = at - size - margin;
        out.hi[k] = at + size + margin;
    }
    return out;
}

/* Units. The coordinates of boxes and of a box that contains them are rounded by less than a part of this. */
#define CT_NODE_SLACK 1.0

CT_FN int ct_node_boxes_meet(const ct_node_box *a, const ct_node_box *b, double slack) {
    for (int k = 0; k < 3; k++)
        if (a->lo[k] > b->hi[k] + slack || b->lo[k] > a->hi[k] + slack) return 0;
    return 1;
}

CT_FN int ct_node_boxes_overlap(const ct_node_box *a, const ct_node_box *b) {
    return ct_node_boxes_meet(a, b, 0);
}

/* Of a box, cut to a window: its largest face, units^2, and the sum of its sides, units. */
typedef struct ct_cut_box {
    double face, sides;
} ct_cut_box;

CT_FN ct_cut_box ct_cut_to_window(const ct_node_box *box, const ct_node_box *window) {
    ct_cut_box cut;
    double size[3];
    cut.face = cut.sides = 0;
    for (int k = 0; k < 3; k++) {
        size[k] = ct_greater(0.0, ct_lesser(box->hi[k], window->hi[k]) - ct_greater(box->lo[k], window->lo[k]));
        cut.sides += size[k];
    }
    for (int k = 0; k < 3; k++) cut.face = ct_greater(cut.face, size[k] * size[(k + 1) % 3]);
    return cut;
}

/* ---- along a body's own axes ---- */

/* World boxes around the boxes of a turned body are up to 1.7 times as wide as these, so a second look along the body's
 * own axes leaves far fewer pairs. */
typedef struct ct_own_axes {
    double row[3][4];  /* takes the other body's coordinates to this body's axes, in units from its origin */
    double size[3][3]; /* |row| */
    double margin[3], scale;
    int is_turned; /* 0: nothing else is filled, the world's axes are the body's */
} ct_own_axes;

/* A pose's matrix is a rotation to 1e-3 only, so its transpose is not quite its inverse: how far, in units, a point of
 * the body's box may be from its coordinate along an axis. root: around the whole body. */
CT_FN double ct_find_skew(const ct_lattice_pose *pose, const ct_cluster_box *root, int axis) {
    const double one = 1 / pose->scale;
    double skew = 0;
    for (int j = 0; j < 3; j++) {
        double product = -(double)(j == axis);
        for (int i = 0; i < 3; i++) product += pose->row[i][axis] * one * (pose->row[i][j] * one);
        skew += fabs(product) * fmax(fabs((double)root->lo[j]), fabs((double)root->hi[j])) * pose->scale;
    }
    return skew;
}

CT_FN ct_own_axes ct_find_own_axes(const ct_lattice_pose *own, const ct_cluster_box *own_root,
                                   const ct_lattice_pose *other, const ct_cluster_box *other_root) {
    ct_own_axes axes;
    const double one = 1 / own->scale;
    axes.is_turned = own->is_turned;
    axes.scale = own->scale;
    for (int k = 0; k < 3 && axes.is_turned; k++) {
        double most = 0;
        for (int j = 0; j < 4; j++) {
            double sum = 0, part = 0;
            for (int i = 0; i < 3; i++) {
                const double to = other->row[i][j] - (j == 3 ? own->row[i][3] : 0);
                sum += own->row[i][k] * one * to;
                part += fabs(own->row[i][k] * one) * (fabs(other->row[i][j]) + fabs(own->row[i][3]));
            }
            axes.row[k][j] = sum;
            if (j < 3) axes.size[k][j] = fabs(sum);
            most += part * (j < 3 ? 1 + fmax(fabs((double)other_root->lo[j]), fabs((double)other_root->hi[j])) : 1);
        }
        axes.margin[k] = 0x1p-46 * most + ct_find_skew(own, own_root, k) + own->rounding + other->rounding + 6;
    }
    return axes;
}

/* a: a box of the body with these axes, b: one of the other body; both in the frames of their positions. */
CT_FN int ct_are_apart_along(const ct_own_axes *axes, const ct_cluster_box *a, const ct_cluster_box *b, double slack) {
    for (int k = 0; k < 3; k++) {
        double at = axes->row[k][3] - 0.5 * axes->scale * ((double)a->lo[k] + (double)a->hi[k]);
        double reach = axes->margin[k] + 0.5 * axes->scale * ((double)a->hi[k] - (double)a->lo[k]);
        for (int j = 0; j < 3; j++) {
            at += axes->row[k][j] * (0.5 * ((double)b->lo[j] + (double)b->hi[j]));
            reach += axes->size[k][j] * (0.5 * ((double)b->hi[j] - (double)b->lo[j]));
        }
        if (fabs(at) > reach + slack) return 1;
    }
    return 0;
}

/* Boxes of body 0 and 1: on the lattice, and in the frames of their positions. slack: 0 for two clusters, CT_NODE_SLACK
 * where one of the boxes contains others. */
CT_FN int ct_boxes_may_meet(const ct_node_box *a, const ct_node_box *b, const ct_cluster_box *const box[2],
                            const ct_own_axes axes[2], double slack) {
    if (!ct_node_boxes_meet(a, b, slack)) return 0;
    for (int k = 0; k < 2; k++)
        if (axes[k].is_turned && ct_are_apart_along(&axes[k], box[k], box[1 - k], slack)) return 0;
    return 1;
}

/* ---- the top of a half-space's block ---- */

/* The plane of the top of a block that stands for a half-space (scene/half_space_k.h): z = 0 in its own axes. */
typedef struct ct_top_plane {
    double normal[3], point[3]; /* units; the normal's length is about 1 */
} ct_top_plane;

CT_FN ct_top_plane ct_find_top_plane(const ct_lattice_pose *block) {
    ct_top_plane top;
    double length = 0, u[3], v[3];
    for (int k = 0; k < 3; k++) {
        u[k] = block->row[k][0];
        v[k] = block->row[k][1];
        top.point[k] = block->row[k][3];
    }
    for (int k = 0; k < 3; k++) {
        top.normal[k] = u[(k + 1) % 3] * v[(k + 2) % 3] - u[(k + 2) % 3] * v[(k + 1) % 3];
        length += top.normal[k] * top.normal[k];
    }
    for (int k = 0; k < 3; k++) top.normal[k] /= sqrt(length);
    return top;
}

/* Where a box lies. The block's corners are rounded to the lattice, triangles within two units count as near, and sums
 * are rounded: those are the 32 units. A box around others gets slack, so that it never lies further away than they do.
 */
enum { CT_BELOW_TOP = -1, CT_AT_TOP = 0, CT_ABOVE_TOP = 1 };

CT_FN int ct_find_side_of_top(const ct_top_plane *top, const ct_node_box *box, double slack) {
    double distance = 0, reach = 0, size = 0;
    for (int k = 0; k < 3; k++) {
        const double lo = box->lo[k], hi = box->hi[k];
        distance += top->normal[k] * (0.5 * (lo + hi) - top->point[k]);
        reach += fabs(top->normal[k]) * 0.5 * (hi - lo);
        size += fabs(lo) + fabs(hi) + fabs(top->point[k]);
    }
    if (fabs(distance) <= reach + 32 + 0x1p-44 * size + 4 * slack) return CT_AT_TOP;
    return distance < 0 ? CT_BELOW_TOP : CT_ABOVE_TOP;
}

#endif
