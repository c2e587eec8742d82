/* contact_fields.h - the fields of a contact: for the engine, the wire and the C client.
 * Generated from proto/catalogue/results.toml by `make catalogue`. */
#ifndef CT_CONTACT_FIELDS_H
#define CT_CONTACT_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */

/* What fields are given together. Those of a group that is not given are 0, or NaN where that stands for none. */
enum {
    CT_CONTACT_FRAME    =  1, /* of steps that want a frame, or what comes with one: weights, inertia, ids, points, surface */
    CT_CONTACT_INERTIA  =  2, /* of steps that want inertia */
    CT_CONTACT_SLIP     =  4, /* of steps with velocities */
    CT_CONTACT_LAW      =  8, /* of scenes with the law pressure */
    CT_CONTACT_IDS      = 16, /* of steps that want ids */
    CT_CONTACT_BOUNDS   = 32, /* of a method that bounds the errors of single views */
    CT_CONTACT_INTERVAL = 64, /* of a method that gives an interval */
    CT_CONTACT_CELL     = 128, /* of a cell */
};

/* See contact_pair.h for what holds of contacts. Part i is that of body[i]. */
typedef struct ct_contact {
    /* handles; body[0] <= body[1] */
    uint32_t body[2];
    /* among the contacts of this pair of bodies, from 0 */
    uint32_t index;
    /* m^3: of the intersection; ldi: the mean of the three views, weighted by what they resolve */
    double volume;
    /* m^3: ldi, ebpi: the volume as seen along x, y, z; exact: all are volume */
    double volumes[3];
    /* m^3: guaranteed bound of the error of volume (by ebpi only if strict); none where the method gives none (ldi);
       else NaN */
    double error_bound;
    /* m^3: bounds of the errors of volumes, guaranteed as error_bound is; none, all three, where the method gives none
       (ldi); else NaN */
    double error_bounds[3];
    /* m^3: an estimate of the error of volume, no bound. ldi: in 93 to 97 of 100 contacts the error is below it, the
       less the coarser. exact: error_bound. ebpi: the larger of what independent errors of tiles come to and a quarter
       of the bound, above 95 of 100 errors. voxtree: above 95 of 100 errors. LDI's is made from the spread of the three
       volumes and their rays. VOXTREE's is a part of error_bound: a quarter where volume_lower is above 0, half where
       it is 0, and all of it on levels 0 and 1 */
    double error_estimate;
    /* largest |winding number| of one body at points of the other's surface; 0: not counted (ldi, ebpi, voxtree). Above
       1 that body overlaps itself there, and the volume counts the place as often. 1 does not exclude it: a body that
       overlaps itself where no surface of the other one passes, as where it lies wholly inside the other, is counted as
       often too. Of a body with itself: just outside its surface, 1 where it overlaps itself once */
    uint32_t max_winding;
    /* of both surfaces, those with a corner inside the other body where that is inside out: its winding number is
       negative, and the volume there counts negatively; 0 too where max_winding is 0 (ldi). Of a body with itself: just
       outside a corner, and the volume there counts positively */
    uint32_t inverted_triangles;
    /* m^3: sampled: the volume inside both bodies where one or both are inside out, which volume leaves out: one of the
       winding numbers is negative, and none is 0; none: not sampled (exact, voxtree, and cells). The views' mean,
       weighted as volume's. Of a body with itself: where its winding number is negative; else NaN */
    double inverted_volume;
    /* m^3: voxtree: guaranteed lower end of the volume; 0: the bodies may have no contact. Other methods: none. Both
       ends close in from level to level. Volume where one of the bodies overlaps itself counts once; else NaN */
    double volume_lower;
    /* m^3: voxtree: guaranteed upper end of the volume. Other methods: none; else NaN */
    double volume_upper;
    /* m^2: |dV/d(translation)|: that of the contact as seen along its normal, where it is not nested; the sum of one
       part's friction weights */
    double area;
    /* m: mean depth: volume / area; 0 where area is 0 */
    double depth;
    /* unit vector that pushes the first body out of the second; 0 if no direction does (nested bodies) */
    double normal[3];
    /* unit vectors, orthogonal to the normal and to each other */
    double tangents[2][3];
    /* m: ldi: midpoint of the two surfaces' weighted barycentres; exact: the intersection's centre of gravity */
    double center[3];
    /* m: the barycentre of each part's surface, its vertices weighted by friction weights. See Allard 2010. It is
       center where the weights cancel, as in nested bodies */
    double side_center[2][3];
    /* m^2, m^3: per part: dV/d(translation), then dV/d(rotation about the body's origin). The origin is a rigid body's
       t, a deformable body's 0 0 0 */
    double generalized_gradient[2][6];
    /* the surface of one of the bodies is wholly inside the other: no direction lessens the volume, and the contact has
       no normal, and no force but that of the law pressure, the shortest way out of a rigid body or half-space. A
       warning of the step names the inner body. Move a nested body out along the way that it came in, or take smaller
       steps, so that surfaces meet first. Of a body with itself: a closed part of its surface is wholly inside. Not
       known by voxtree's trees */
    bool is_nested;
    /* the contact's own number: it keeps it from step to step while it persists; 0 of a cell. Numbers count from 1 in
       each scene, rise in the order in which contacts begin, and are never given twice. gpu/after/identity.h says which
       contact of a step is which of the step before it that wanted ids */
    uint64_t id;
    /* it began with this step: the step before it that wanted ids does not have it */
    bool is_new;
    /* m^5: the integral over the intersection of |r|^2 - r r^T, r from center; times a density, the inertia tensor
       about center */
    double inertia[3][3];
    /* m/s: of the second part relative to the first: the sum of friction weight times velocity, over area. Where both
       bodies only translate, it is the difference of their velocities */
    double relative_velocity[3];
    /* rad/s: of the second part relative to the first, about the normal */
    double spin;
    /* N, N m: per part: friction, and its torque about the body's origin; by the law volume it is viscous, by pressure
       Coulomb's. It acts on both bodies at one point, or at the same points: torques about any point are opposite, too
       */
    double friction[2][6];
    /* N, N m: per part: the force of pressure and friction on the body, and its torque about the body's origin. The
       wrenches of both parts are opposite: their forces, and their torques about any common point */
    double wrench[2][6];
    /* m: half extents along axes of the rectangle with the contact's area moments: sqrt(3) times their standard
       deviations */
    double extents[2];
    /* unit vectors of the longer and the shorter extent, orthogonal to the normal and to each other */
    double axes[2][3];
    /* of a cell: the cube from cell to cell + 1, times cell_size, along x, y, z */
    int32_t cell[3];
    /* m: between neighbouring rays along x, y, z. EXACT: 0. VOXTREE: the finest cubes' side */
    double pitch[3];
    /* of one that is_nested: the part whose surface is inside the other */
    uint32_t inner_part;
    /* m: of exact: midway between the barycentres of both surfaces, those that side_center is not where weights cancel,
       too */
    double middle[3];
    /* m^3, m^4: of exact with inertia: force and torque, about center, of the pressure 1 Pa/m times the distance from
       center along each tangent; of part 0, the mean of both sides */
    double linear_pressure[2][6];
    /* m^4: with it: second moments of the area seen along the normal, about center: along the first tangent, mixed,
       along the second */
    double plane_moments[3];
    /* part i has entries first[i] .. first[i] + count[i] - 1, one per vertex of body[i] with a non-zero gradient, in
       rising order of vertex; a half-space has none */
    uint64_t first[2];
    /* of these entries */
    uint64_t count[2];
    /* its spans */
    uint64_t first_span;
    /* of these */
    uint64_t n_spans;
    /* its tiles */
    uint64_t first_tile;
    /* of these */
    uint64_t n_tiles;
    /* rows of products, as first and count: part i has one per vertex of body[i] at which some product is not 0 */
    uint64_t first_product[2];
    /* of these rows */
    uint64_t count_product[2];
    /* its cells in the result's; none without a cell_size, and of a cell */
    uint64_t first_cell;
    /* of these */
    uint64_t n_cells;
    /* its points. VOXTREE: in falling order of weight; else in that in which they were chosen; a cell has none of its
       own */
    uint64_t first_point;
    /* of these */
    uint64_t n_points;
    /* its polygons, of a step that wants a surface; a cell has none */
    uint64_t first_polygon;
    /* of these */
    uint64_t n_polygons;
} ct_contact;

/* clang-format on */

#endif
