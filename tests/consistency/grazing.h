/* grazing.h - bodies with teeth that graze a huge face: roofs and points whose ridges and tips lie on its plane to
 * within less than a unit of the lattice of the method `exact`. How much of them is below the plane is a closed form in
 * extended precision, from integer coordinates. */
#ifndef CONSISTENCY_GRAZING_H
#define CONSISTENCY_GRAZING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>

#include "tests/scenes/build.h"

typedef long double real;

/* ---- coordinates ---- */

/* All coordinates are integers of this many metres, few of whose bits are set, so that float32 holds them. */
static const double unit = 0x1p-38;

/* Two frames in which the huge face is a plane. In the first it is z = 0; in the second x + y + z = 0, so that a shift
 * of less than half a unit along each axis may lift what is on it by a whole unit once it is rounded. */
struct frame {
    int64_t along[3], across[3], up[3];
};

static const struct frame level = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, tilted = {{1, -1, 0}, {1, 1, -2}, {1, 1, 1}};

struct point {
    int64_t at[3];
    double lift; /* to add to z, the same for all of a tooth */
    real height; /* of up . at, once the body is shifted */
};

/* How teeth lie beside their integers, in units. */
struct offset {
    real shift;  /* of heights, by the body's pose */
    double lift; /* of z, in the mesh, where that is the height */
};

static inline struct point point_of(const struct frame *f, int64_t along, int64_t across, int64_t up,
                                    struct offset offset) {
    struct point p = {.lift = offset.lift};
    real size = 0;
    for (int k = 0; k < 3; k++) {
        p.at[k] = f->along[k] * along + f->across[k] * across + f->up[k] * up;
        size += (real)(f->up[k] * f->up[k]);
    }
    p.height = size * (real)up + offset.shift + offset.lift;
    return p;
}

/* ---- truth ---- */

/* The part of a tetrahedron where heights are below 0. */
static inline real part_below(const real h[4]) {
    real below[4], above[4];
    int n_below = 0, n_above = 0;
    for (int i = 0; i < 4; i++)
        if (h[i] < 0)
            below[n_below++] = h[i];
        else
            above[n_above++] = h[i];
    if (n_below == 0) return 0;
    if (n_above == 0) return 1;
    real cut[2][3] = {{0}}; /* of the edge from a corner below to one above: the part below */
    for (int i = 0; i < n_below && i < 2; i++)
        for (int j = 0; j < n_above; j++) cut[i][j] = below[i] / (below[i] - above[j]);
    if (n_below == 1) return cut[0][0] * cut[0][1] * cut[0][2];
    if (n_below == 3) {
        real rest = 1;
        for (int i = 0; i < 3; i++) rest *= above[0] / (above[0] - below[i]);
        return 1 - rest;
    }
    /* A wedge between the two corners below: three tetrahedra. */
    return cut[0][0] * cut[0][1] + cut[1][0] * cut[1][1] + cut[0][0] * cut[1][1] - cut[0][0] * cut[0][1] * cut[1][1] -
           cut[0][0] * cut[1][0] * cut[1][1];
}

static inline real volume_below(const struct point *const p[4]) {
    __int128 u[3][3];
    real h[4];
    for (int i = 0; i < 4; i++) h[i] = p[i]->height;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) u[i][k] = p[i + 1]->at[k] - p[0]->at[k];
    const __int128 det = u[0][0] * (u[1][1] * u[2][2] - u[1][2] * u[2][1]) +
                         u[0][1] * (u[1][2] * u[2][0] - u[1][0] * u[2][2]) +
                         u[0][2] * (u[1][0] * u[2][1] - u[1][1] * u[2][0]);
    return fabsl((real)det) / 6 * part_below(h) * powl((real)unit, 3);
}

/* ---- bodies ---- */

struct comb {
    struct shape shape;
    real below; /* m^3: its volume below the huge face */
};

static inline void add_point(struct shape *shape, const struct point *p) {
    double at[3];
    for (int k = 0; k < 3; k++) {
        at[k] = ((double)p->at[k] + (k == 2 ? p->lift : 0)) * unit;
        assert_true((double)(float)at[k] == at[k]);
    }
    shape_add_vertex(shape, at[0], at[1], at[2]);
}

static inline void add_faces(struct shape *shape, uint32_t first, const uint32_t (*faces)[3], int n) {
    for (int i = 0; i < n; i++)
        shape_add_triangle(shape, first + faces[i][0], first + faces[i][1], first + faces[i][2]);
}

/* A roof upside down: its ridge, from -length to length, at height `dip`, its eaves `rise` above it. */
static inline void add_roof(struct comb *to, const struct frame *f, int64_t middle, int64_t length, int64_t width,
                            int64_t dip, int64_t rise, struct offset offset) {
    static const uint32_t faces[8][3] = {{0, 4, 5}, {0, 5, 1}, {0, 1, 3}, {0, 3, 2},
                                         {0, 2, 4}, {1, 5, 3}, {2, 3, 5}, {2, 5, 4}};
    struct point p[6];
    for (int i = 0; i < 6; i++)
        p[i] = point_of(f, i % 2 ? length : -length,
                        middle + (i / 2 == 1   ? -width
                                  : i / 2 == 2 ? width
                                               : 0),
                        i < 2 ? dip : dip + rise, offset);
    const uint32_t first = to->shape.n_vertices;
    for (int i = 0; i < 6; i++) add_point(&to->shape, &p[i]);
    add_faces(&to->shape, first, faces, 8);
    to->below += volume_below((const struct point *[]){&p[0], &p[1], &p[2], &p[4]}) +
                 volume_below((const struct point *[]){&p[1], &p[2], &p[3], &p[4]}) +
                 volume_below((const struct point *[]){&p[1], &p[3], &p[4], &p[5]});
}

/* A tetrahedron on its tip, which is at height `dip`. */
static inline void add_point_down(struct comb *to, const struct frame *f, int64_t along, int64_t across, int64_t width,
                                  int64_t dip, int64_t rise, struct offset offset) {
    static const uint32_t faces[4][3] = {{0, 2, 1}, {0, 3, 2}, {0, 1, 3}, {1, 2, 3}};
    const struct point p[4] = {point_of(f, along, across, dip, offset),
                               point_of(f, along + width, across - width, dip + rise, offset),
                               point_of(f, along, across + width, dip + rise, offset),
                               point_of(f, along - width, across - width, dip + rise, offset)};
    const uint32_t first = to->shape.n_vertices;
    for (int i = 0; i < 4; i++) add_point(&to->shape, &p[i]);
    add_faces(&to->shape, first, faces, 4);
    to->below += volume_below((const struct point *[]){&p[0], &p[1], &p[2], &p[3]});
}

static const int64_t reach = 3ll << 35; /* of the huge face: 0.4 m */

/* A tetrahedron under its huge face, which has height 0. */
static inline struct shape make_ground(const struct frame *f) {
    static const uint32_t faces[4][3] = {{0, 1, 2}, {0, 3, 1}, {1, 3, 2}, {2, 3, 0}};
    struct shape ground = shape_begin(4, 4);
    const struct offset none = {0, 0};
    const struct point p[4] = {point_of(f, -reach, -reach, 0, none), point_of(f, reach, -reach, 0, none),
                               point_of(f, 0, reach, 0, none), point_of(f, 0, 0, -reach, none)};
    for (int i = 0; i < 4; i++) add_point(&ground, &p[i]);
    add_faces(&ground, 0, faces, 4);
    return ground;
}

enum { TEETH = 24 };

/* Teeth side by side that graze the face, and amid them a small tip that is deep in it: a contact that no rounding
 * can take away, with little area. All around the origin of the lattice, so that the rounding of integrals does not
 * matter. */
static inline struct comb make_comb(const struct frame *f, int64_t dip, int64_t rise, bool has_ridges,
                                    struct offset offset, int64_t tip) {
    struct comb comb = {.shape = shape_begin(6 * TEETH + 4, 8 * TEETH + 4)};
    const int64_t pitch = 1ll << 31, width = 7ll << 27;
    for (int i = 0; i < TEETH; i++) {
        const int64_t middle = (2 * i + 1 - TEETH) * (pitch / 2);
        if (has_ridges)
            add_roof(&comb, f, middle, 1ll << 35, width, dip, rise, offset);
        else
            add_point_down(&comb, f, (int64_t)(i % 5 - 2) * (1ll << 32), middle, width, dip, rise, offset);
    }
    const struct offset of_tip = {offset.shift, 0};
    add_point_down(&comb, f, 0, 0, tip, -tip / 2, tip, of_tip);
    return comb;
}

#endif
