/* directions.h - axes of a pair's views that few faces are parallel to (Wang 2012, section 4.4). For the method EBPI.
 *
 * Rays along a face see a step of its depth, which takes many tiles. The paper penalises faces that a view's axis is
 * orthogonal to, since the other two are then parallel to them (equation 12):
 *
 *     e(q) = sum_i sum_j A_i (n_i . a_j(q))^4,    A_i, n_i: area and normal of face i, a_j: axis j turned by q
 *
 * e is largest, the whole area, for a box along the axes, and least, a third, where all normals are on the diagonals.
 * The paper adds up the areas in a cube map, the extended Gaussian image, and sums over its texels. In e each axis only
 * meets the tensor of the fourth moments of the image, 15 numbers; these are added up here, without a cube map and
 * without its rounding.
 *
 * The answer depends on the faces alone. The paper starts from the last step's axes; that would make the bits of an
 * answer depend on the steps before, so the search begins at the same axes each time.
 */
#ifndef CT_EBPI_DIRECTIONS_H
#define CT_EBPI_DIRECTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/base/box.h"

/* Products of powers x, y, z of the normals: exponents of each of the 15. */
enum { CT_GAUSSIAN_MOMENTS = 15 };

/* The fourth moments of an extended Gaussian image. Integers, so that no order of faces changes a bit. */
typedef struct ct_gaussian_image {
    __int128 moment[CT_GAUSSIAN_MOMENTS];
    double scale; /* units per m^2 */
} ct_gaussian_image;

/* An image without faces, for faces no longer than `extent`, m. */
void ct_gaussian_image_begin(ct_gaussian_image *image, double extent);

/* Adds those faces of a body that meet the box, which may be some that only come close to it.
 * pose: row-major 3 x 4, positions to world; NULL: they are in the world. */
void ct_gaussian_image_add(ct_gaussian_image *image, const float *positions, const uint32_t *triangles,
                           uint32_t n_triangles, const double *pose, const ct_box *box);

/* Finds axes of low energy by Fletcher-Reeves on quaternions, from several starts. axes: rows, orthonormal and
 * right-handed. False: axes along the world's are nearly as good (CT_WORTH_TURNING), and are what is returned. */
bool ct_optimize_axes(const ct_gaussian_image *image, double axes[3][3]);

/* Axes are turned where that leaves less than this part of the energy: turned windows are larger. */
#define CT_WORTH_TURNING 0.9

#endif
