/* box_k.h - boxes of clusters on the lattice, and which pairs of them may meet.
 *
 * Which pairs of clusters are looked at is a part of the answer: triangles that are near each other without crossing
 * count in the bound. So it is decided here, by the boxes of the two clusters alone. Boxes that contain others, as
 * those of a tree's inner nodes do, are compared with some slack, so that rounding never drops a pair of clusters.
 */
#ifndef CT_EXACT_BOX_K_H
#define CT_EXACT_BOX_K_H

#include "gpu/exact/lattice_k.h"
#include "gpu/mesh/cluster_k.h"

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

/* The plane of the top of a block that stands for a half-space (view/half_space_k.h): z = 0 in its own axes. */
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
