/* contact_pair.h - what a step finds of two bodies, or of one with itself: contacts and their parts, or a separation.
 * Part of contact.h, which says what holds of all: units, ownership, errors, threads. */
#ifndef CONTACT_PAIR_H
#define CONTACT_PAIR_H

#include <stdint.h>

#include "proto/contact_fields.h"

/* ---- contacts ---- */

/* One volume V in which two bodies overlap, or in which a body overlaps itself. V > 0: bodies that only touch have no
 * contact.
 *
 * A pair of bodies may have several contacts, where the method divides its intersection. They are `index` 0, 1, 2... of
 * the pair, and their volumes and gradients sum to the pair's. Only EXACT with patches divides intersections. With a
 * cell_size each contact also has cells (below).
 *
 * The views of LDI. A view is weighed by its detail q = n / (u + v): its samples inside the contact (at most u v) for
 * each sample along the outline, where the window is u by v pitches in that view; q falls off where u or v is below 2.
 * The weight is as min(q, Q)^2, Q = min(12, half of the largest q): views that resolve the contact count equally, one
 * that sees it edge-on or between its samples hardly counts. The gradient has one component from each view whatever the
 * weights, as each view's volume estimates the same V. So the force is the gradient of V to the accuracy of sampling,
 * not of the weighted sum itself.
 *
 * VOXTREE lists a contact unless it is certain that there is none: volume_upper > 0. Its 6-vectors are estimates, of
 * opposite forces on one line; it gives no gradients of vertices (count is 0).
 *
 * Patches. EXACT gives one contact for each connected piece of the intersection, the largest first (of equal ones that
 * with the smaller centre along x, then y, then z). Pieces that only touch are two; a piece with cavities is one. Each
 * has its own gradient, frame, 6-vectors and bound, and each obeys Newton's third law to the last bit. They sum to the
 * pair's contact but for rounding, of the last bits of each number, and for faces that only touch: the pair's gradient
 * has half of those. A piece whose volume cannot be told from 0 is left out, as a pair's is: where bodies only touch,
 * and pieces smaller than their bound. The bound holds as long as moving vertices by half a step of the lattice neither
 * joins pieces nor parts them. A pair whose intersection is one piece has the same bits with patches and without.
 * What is connected where faces coincide does not depend on the order of bodies, vertices or triangles:
 *   - A surface parts what lies on both sides of it. Two closed parts of one body that share a face, an edge or a
 *     corner are two, as if a thin wall stood between them, and so are their pieces; a part without faces inside is
 *     one. But a vertex that parts share in the mesh joins them where it lies inside the other body.
 *   - Where faces of both bodies coincide, parts are one piece if they are connected once one of the bodies is moved by
 *     (e, e^2, e^3), e > 0 infinitesimal, or by its opposite. So the legs of a table that stand in a block are one
 *     patch if its plate lies on the block, and one each if it does not reach it. Whether bodies that meet along an
 *     edge or at a corner alone are connected there depends on which way it faces in the world's axes.
 *
 * A body with itself. body[0] == body[1], and the parts 0 and 1 below are the two surfaces of that body that bound V. A
 * vertex may then be in both parts, and dV/dx of a vertex is the sum of its entries in both. All that is linear in the
 * gradient adds up the same way: weights, forces, generalised gradients. The normal's largest component is positive,
 * and the normal pushes part 0 out of part 1 (gpu/contact/sides_k.h). A closed surface wholly inside another of the
 * same body is all in part 0, without a normal.
 *   - LDI puts each vertex in one part and looks at the whole body's box, which is the window. What the body covers
 *     three times counts once. Parts where the body is inside out are left out.
 *   - EXACT divides vertices in the same way. Its V is the integral of w (w - 1) / 2, with w the body's winding number:
 *     what the body covers twice counts once, and what it covers three times counts three times, once for each two
 *     layers, as the contacts of three bodies would. Where the body is inside out, w = -1, V counts once too, so that
 *     forces turn it back, and inverted_triangles tells. Triangles that share vertices cross like others, but for what
 *     they share (gpu/methods/exact/self_k.h). Its products with the second derivative are all part 0's.
 *
 * Slip. How part 1 slides on part 0, for steps with velocities; 0 too where there is no normal. A_k are the friction
 * weights, v_k the velocities of vertices p_k, n the normal, c the barycentre of the part's vertices.
 *   relative_velocity = sum of A_k v_k / area: that of part 1 relative to part 0, m/s
 *   spin: of part 1 relative to part 0 about n, rad/s: of rigid bodies the difference of their angular velocities; of
 *     vertices that of the turn that fits their velocities best
 * With a viscosity ν (law "volume") friction acts on both parts at the point midway between side_center[0] and [1]: the
 * force -ν area t on part 1, t the velocity there relative to part 0 without its part along n, and the torque
 * -ν J spin n, J = area^2 / (2 pi), that of a disc: 5 % low for a square, more for a long patch (Faure 2008 section
 * 3.3, with the relative velocity of the contact in place of that of a ray). Forces and torques on both parts are
 * opposite, and never add energy. Those on vertices amount to them: A_k t, a turn about n, and along n what makes up
 * for the distance between the two surfaces.
 *
 * With the law "pressure" contacts have wrench, extents and axes, and friction is Coulomb's: gpu/after/law.c says how.
 * Beneath both surfaces is a foundation of the pair's modulus k (ct_material), and h, the intersection's thickness
 * along n, is pressed together: the pressure k h (1 + d v), v the approach speed, and never less than 0. Where flat
 * faces meet the force is exactly k V n, through the volume's centre.
 *
 * The struct is in proto/contact_fields.h, with the unit of each field. The contact frame (Allard 2010 section 4.2) is
 * for steps that want FRAME, FRICTION, GRADIENT or FORCES, else 0. */

/* ---- cells ---- */

/* With a cell_size each contact is also given cube by cube, as Allard 2010 (section 5) divides it, so that one part of
 * it can stick while another slides. A cell is a ct_contact of its own: volume V_c of the intersection inside
 * the cube, gradient, frame, 6-vectors, weights and forces (-k V_c dV_c/dx). Only cubes that hold volume in some view
 * are listed. `index` counts the contact's cells.
 *
 * The gradient of a cell counts that its walls cut the intersection, not that they stand still: where a ray leaves the
 * cube at depth W between the ends z- and z+ of its span, W = alpha z+ + (1 - alpha) z-, the wall is taken to move with
 * them, and adds alpha dz+ + (1 - alpha) dz- (equations 22 and 23). So each cell's gradient sums to 0 over both bodies,
 * and the cells' gradients and volumes sum to the contact's. Both hold exactly for the integers that the numbers are
 * made of: volumes[] are integers times the pitches of the rays and of depth, an entry of the gradient is one times
 * 2^-30 of a ray's area. Their doubles are rounded once; volume, the mean of volumes[] with the contact's own weights,
 * once more. A cell's error_estimate is made as a contact's is.
 *
 * Across its rays, a view has the whole of a ray in the cube that its sample is in; on a wall, in the one above it.
 * So cubes smaller than the pitch hold what the rays in them stand for. Vertices are in the same part as in the
 * contact, and spans are the contact's alone.
 *
 * A window has at most CT_MAX_CELLS_ALONG cubes along one axis, and a contact at most ct_engine_options.max_cells
 * cells: beyond that the step fails with LIMIT_EXCEEDED; OUT_OF_RANGE: 2^31 cubes or more from the origin. Either names
 * both bodies. */

/* ---- spans and tiles, for pictures ---- */

typedef struct ct_span {
    float lower[3], upper[3]; /* m, world: the ends of a depth interval in which a ray is inside both bodies,
                                 or twice inside one that overlaps itself */
    uint32_t axis;            /* of the ray: 0 x, 1 y, 2 z */
    uint32_t lower_body;      /* 0 or 1: the part (see ct_contact) whose surface is the lower end */
} ct_span;

/* A tile of a view of EBPI in the end, with the one ray through its middle (Wang 2012, Figure 6): a box of the window,
 * from corner to corner + u + v + along. */
typedef struct ct_ray_tile {
    float corner[3], u[3], v[3]; /* m, world; u and v are the tile's sides */
    float along[3];              /* m, along the ray, through the whole window */
    uint32_t axis;               /* the view: 0, 1, 2 for rays along the method's x, y, z */
    float length;                /* m, of the ray inside both bodies */
    double bound;                /* m^3, of the error of the tile's volume */
} ct_ray_tile;

/* ---- the contact surface ---- */

/* Of a step that wants a SURFACE: polygons between the two bodies of a contact, flat and convex.
 *
 * Along lines that are parallel to the contact's normal n, the intersection begins at one body's surface and ends at
 * the other's. Where both surfaces are flat is a polygon: it lies between them, at the same fraction of the way
 * everywhere in the contact, so that the contact's surface is as flat as there is one. Depth is the length of the line
 * within both bodies, and linear on a polygon. Lines that end on the body on which they begin have no polygon.
 *
 * With the law "pressure", pressure is k h (1 + d w), h the depth, w the approach speed, and never less than 0: that of
 * an elastic foundation, place by place. A polygon's force has it along the polygon's normal, and Coulomb's friction
 * against slip. The law finds a contact's wrench by its moments (gpu/after/law.c); what its polygons' forces lack of
 * it, which is rounding where flat faces meet, is spread over them by their pressure: so they sum to the wrench. With
 * other laws pressure, force and torque are 0.
 *
 * A contact without a normal has no polygons, nor has one between a body and itself: a step with such a body fails. */
typedef struct ct_surface_polygon {
    double center[3]; /* m, world: the centroid */
    double normal[3]; /* unit vector that points out of part 1, into part 0 */
    double area;      /* m^2 */
    double
        slip[3]; /* m/s: of part 1's surface relative to part 0's at center, along the polygon; 0 without velocities */
    double force[3];  /* N: of pressure and friction on part 0; on part 1 it is opposite */
    double torque[3]; /* N m: of these, about center */
} ct_surface_polygon;

typedef struct ct_surface_vertex {
    double position[3]; /* m, world */
    double depth;       /* m */
    double pressure;    /* Pa */
} ct_surface_vertex;

/* A step with more fails with LIMIT_EXCEEDED: an answer is one message. */
#define CT_MAX_POLYGONS (1u << 19)

/* ---- points ---- */

#define CT_NO_GROUP 0xffffu

/* A point that stands for a region of a contact, for solvers that work with points.
 *
 * VOXTREE: the mean of cubes that met, of one group of each surface.
 *
 * Other methods choose points as solvers that reduce contact manifolds do, for max_points > 0. A point is on a line
 * through both bodies along its own normal: the position is the middle of a stretch that is inside both, and the depth
 * that stretch's length. The normal lies between those of the surfaces where the stretch ends: so points on the flanks
 * of a thread, or all over a socket, each push along the surfaces there, and a box on its face pushes along that face
 * whatever the contact's normal. Where no such stretch is found, as in a corner sharper than the surfaces beside it,
 * the normal is the contact's. normal . ct_contact.normal is above 0.
 *
 * Candidates are, seen along the contact's normal, vertices of one body in the other and places where edges of one
 * pierce the other: in each square of a grid of 6 x 6 over the contact (16 x 16 for more than 8 points) the vertex of
 * either body that is deepest, or of one of them where both have more than 64; in 8 directions the outermost vertex;
 * and of edges longer than 1.5 squares where they first and last pierce, of more than 64 such edges those that are
 * outermost. Of two that are nearer to one another than a 64th of the contact one counts. The line of one is just
 * inside the outline, along the contact's normal, and its longest stretch counts; where the outline slopes, so that
 * depths there are next to nothing, a quarter of the contact's depth inside, or a 32nd of its extent. Its depth is that
 * of the line times the cosine to the direction between the surfaces. Of the candidates
 *   1. the deepest (of those within a thousandth of its depth the farthest from the contact's centre),
 *   2. the one farthest from it, its distance times its depth,
 *   3. and then, again and again, the one that adds most to the area of the chosen ones' convex hull, times its depth
 * are points, until there are max_points, or none adds more than a fiftieth of the whole. Left out is what does not
 * rise above a paraboloid from a chosen point down to the intersection's outline, by a quarter of the depth, unless it
 * pushes in another direction, by 26 degrees or more: so a ball has one point, a cylinder on its side two, and a box on
 * its face four. Points come from the surfaces themselves, in double precision: LDI's have no error of sampling. They
 * are the same for any number of threads, on every backend and, but for the sign of normals, in either order of bodies.
 *
 * Shares of the contact's area (weight) are as equal as they can be where their barycentre is that of the two surfaces,
 * the mean of side_center; where the points do not surround it, as near to it as shares >= 0 come.
 *
 * The time that points take is that of one look at each entry of the contact and of 30 to 150 lines in most contacts,
 * at most some 800 (4,000 for more than 8 points), however many triangles the bodies have.
 *
 * With a cell_size points are cells instead: those of most volume, in falling order. A point has the cell's normal, its
 * centre (where that is outside of the cell's cube: the cube's middle, moved along the normal as far as the centre is),
 * its depth (at most what the cube has along the normal), and a weight in proportion to its area. A contact without a
 * normal has no points. */
typedef struct ct_point {
    double position[3]; /* m, world */
    double normal[3];   /* unit vector, the direction that pushes body[0] out there */
    double depth;       /* m, >= 0. VOXTREE: the mean of d_K (equation 4), at most a cube's side */
    double weight; /* 1, >= 0: the weights of a contact sum to 1. VOXTREE: the point's share of the volume's gradient,
                      or of its contact primitives with plain_average; else of ct_contact.area: the point's own area is
                      weight x area, m^2 */
    uint32_t group[2]; /* VOXTREE: the parts that met of the surfaces of body[0] and body[1]; each is connected and
                          faces alike, and is numbered by mesh. CT_NO_GROUP: the inside of the body. Else the contact's
                          index, and the cell's, or CT_NO_GROUP */
    uint64_t
        id; /* of a step that wants ids: kept from step to step as a contact's is, and from the same numbers; else 0 */
} ct_point;

/* ---- separations ---- */

/* Two bodies that have no contact and whose surfaces are closer than the scene's margin: never a volume, and no part of
 * any. The distance is that of the closest features (corners, edges, faces) of all their triangles, or of the lowest
 * vertex over a half-space: not sampled, exact for the surfaces as they are, but for rounding in double precision, some
 * 1e-15 of the coordinates; up to 1e-12 of them it is 0. Where several features are as close, as faces that are
 * parallel, points are a corner and its foot, the smallest in x, then y, then z. Where faces touch at a corner, the
 * normal is that of the face which is nearest to the line through the middles of both bodies' boxes, and of such faces
 * the smallest in x, then y, then z.
 *
 * Surfaces that touch, or that cross where the method found no volume, have distance 0. Where the method misses a body
 * that is wholly inside another (LDI, below its sampling), the distance is that of the surfaces. A pair that VOXTREE
 * did not examine (ct_pair_progress.is_examined) is no separation: its bodies may overlap. Filters, group and mask hold
 * as for contacts; self_contact does not. The search is no part of a step's time_budget; its time is among that of the
 * phase `contact`.
 *
 * A step lists at most CT_MAX_SEPARATIONS, from at most CT_MAX_NEAR_PAIRS pairs of bodies without a contact whose boxes
 * are within the margin; with more it fails with LIMIT_EXCEEDED, and a smaller margin helps. */
typedef struct ct_separation {
    uint32_t body[2];   /* handles; body[0] < body[1] */
    double distance;    /* m, >= 0 */
    double normal[3];   /* unit vector that pushes body[0] away from body[1]; zero where they touch at edges alone */
    double point[2][3]; /* m, world: the closest points of the two surfaces */
} ct_separation;

#endif
