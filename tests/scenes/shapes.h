/* shapes.h - generated closed triangle meshes, random numbers and poses, for tests, benches and examples.
 *
 * Every shape is closed, manifold, counter-clockwise seen from outside and encloses a positive volume, so
 * ct_mesh_create accepts it. Sizes are in metres. Shapes, boxes excepted, are centred on the origin unless their
 * comment says otherwise. The caller frees each with shape_free. Out of memory aborts: this is for tests and
 * demonstrations.
 */
#ifndef SHAPES_H
#define SHAPES_H

#include <stdint.h>

#include "gpu/include/contact.h"

struct shape {
    float *positions; /* [n_vertices][3] */
    uint32_t n_vertices;
    uint32_t *triangles; /* [n_triangles][3] */
    uint32_t n_triangles;
};

void shape_free(struct shape *shape); /* zeroes it; freeing twice is harmless */
struct shape shape_copy(const struct shape *shape);

/* A mesh of it; NULL with *error filled (it may be NULL) should it be refused. */
ct_mesh *shape_to_mesh(const struct shape *shape, ct_error *error);

/* Exact counts are given as vertices / triangles. Coordinates of box, cube, prism and tetrahedron are exact multiples
 * of their parameters. No shape and no pose uses a library function that platforms may round differently. */
struct shape shape_box(double sx, double sy, double sz);    /* 8 / 12, full side lengths */
struct shape shape_cube(double side, int n);                /* n x n squares a face: 6n^2+2 / 12n^2, n >= 1 */
struct shape shape_l_prism(double size, double height);     /* 12 / 20: an L in x, y (a square less its upper right
                                                               quarter) along z; volume 3/4 size^2 height */
struct shape shape_tetrahedron(double size);                /* 4 / 4: corners 0 and size along each axis; not centred */
struct shape shape_icosphere(double radius, int level);     /* 10*4^level+2 / 20*4^level, level 0..8 */
struct shape shape_torus(double R, double r, int n, int m); /* about z; nm / 2nm; n around, m across, >= 3 */
struct shape shape_cylinder(double r, double height, int n);                    /* about z; 2n+2 / 4n */
struct shape shape_blob(double radius, int level, double bumps, uint64_t seed); /* an icosphere whose radius varies
                                                                  smoothly by up to the fraction bumps (0..0.5) */

/* A slab, square seen along z. Its top is a heightfield of n x n squares, z = shape_slab_top(x, y), in which `waves`
 * whole sine waves of height +-wave run along each side; its bottom is flat, at z = -thickness, and as fine as the top.
 * |wave| < thickness. Crests and troughs cancel: the volume is side^2 thickness. 2(n+1)^2 / 4n^2+8n. */
struct shape shape_slab(double side, double thickness, double wave, int waves, int n);
double shape_slab_top(double side, double wave, int waves, double x, double y);

/* A bolt: one right-handed thread about z over `turns` turns, its ends closed by discs; its radius runs smoothly
 * between r - depth (root) and r (crest). A nut: the same thread moved outward by `gap`, inside a hexagonal prism of
 * the given width across flats. Put in one place they are `gap` apart, also after turning one by a and moving it by
 * a/2pi * pitch. n samples around (nuts: a multiple of 6), m along a turn, q = turns * m. Bolt: n(q+1)+2 / 2n(q+1).
 * Nut: n(q+3) / 2n(q+3). */
struct shape shape_bolt(double r, double depth, double pitch, int turns, int n, int m);
struct shape shape_nut(double r, double depth, double pitch, int turns, int n, int m, double gap, double across_flats);

struct shape shape_merge(const struct shape *a, const struct shape *b); /* both as one mesh, a's vertices first */
void shape_translate(struct shape *shape, double x, double y, double z);
void shape_transform(struct shape *shape, const double pose[12]); /* p := R p + t in double, rounded once */
double shape_volume(const struct shape *shape);                   /* m^3, exact to double rounding */

/* Reorders for invariance tests: vertices and triangles shuffled, corners rotated; the surface stays the same. */
void shape_shuffle(struct shape *shape, uint64_t *rng);

/* splitmix64: the same numbers everywhere. */
uint64_t shape_random(uint64_t *rng);
double shape_uniform(uint64_t *rng, double lo, double hi);

/* Poses are row-major 3x4 [R|t]. */
void shape_pose_identity(double pose[12]);
void shape_pose_random(uint64_t *rng, double reach, double pose[12]); /* any rotation; |t| <= reach on each axis */
void shape_pose_axis(const double axis[3], double turns, const double translation[3], double pose[12]); /* 1 is 2 pi */

#endif
