"""The fields of all contacts of a result, a column each. Generated from proto/catalogue by `make catalogue`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Column(NamedTuple):
    name: str  # of the contact's attribute
    fields: tuple[str, ...]  # in the wire's table Contact; two: of each part
    shape: tuple[int, ...]  # of a contact's
    is_symmetric: bool  # the wire has xx, yy, zz, xy, yz, zx
    group: str  # what it is given with: "frame", "inertia", "slip", "law", "ids", "bounds", "interval" or "cell"; "":
    # always


COLUMNS = {
    "indices": Column("index", ('index',), (), False, ""),
    "volumes": Column("volume", ('volume',), (), False, ""),
    "view_volumes": Column("volumes", ('volumes',), (3,), False, ""),
    "error_bounds": Column("error_bound", ('error_bound',), (), False, ""),
    "view_error_bounds": Column("error_bounds", ('error_bounds',), (3,), False, "bounds"),
    "error_estimates": Column("error_estimate", ('error_estimate',), (), False, ""),
    "max_windings": Column("max_winding", ('max_winding',), (), False, ""),
    "inverted_triangles": Column("inverted_triangles", ('inverted_triangles',), (), False, ""),
    "inverted_volumes": Column("inverted_volume", ('inverted_volume',), (), False, ""),
    "lower_volumes": Column("volume_lower", ('volume_lower',), (), False, "interval"),
    "upper_volumes": Column("volume_upper", ('volume_upper',), (), False, "interval"),
    "areas": Column("area", ('area',), (), False, "frame"),
    "depths": Column("depth", ('depth',), (), False, "frame"),
    "normals": Column("normal", ('normal',), (3,), False, "frame"),
    "tangents": Column("tangents", ('tangents',), (2, 3), False, "frame"),
    "centers": Column("center", ('center',), (3,), False, "frame"),
    "side_centers": Column("side_centers", ('side_centers',), (2, 3), False, "frame"),
    "generalized_gradients": Column("generalized_gradient", ('generalized_a', 'generalized_b'), (2, 6), False, "frame"),
    "are_nested": Column("is_nested", ('is_nested',), (), False, "frame"),
    "ids": Column("id", ('id',), (), False, "ids"),
    "are_new": Column("is_new", ('is_new',), (), False, "ids"),
    "inertias": Column("inertia", ('inertia',), (3, 3), True, "inertia"),
    "relative_velocities": Column("relative_velocity", ('relative_velocity',), (3,), False, "slip"),
    "spins": Column("spin", ('spin',), (), False, "slip"),
    "frictions": Column("friction", ('friction_a', 'friction_b'), (2, 6), False, "slip"),
    "wrenches": Column("wrench", ('wrench_a', 'wrench_b'), (2, 6), False, "law"),
    "extents": Column("extents", ('extents',), (2,), False, "law"),
    "axes": Column("axes", ('axes',), (2, 3), False, "law"),
    "cubes": Column("cell", ('cell',), (3,), False, "cell"),
}


class ContactColumns:
    """Row i of each column is of contact i. What the step did not ask for is an error that names `want`."""

    def _column(self, name: str) -> np.ndarray:
        raise NotImplementedError

    @property
    def indices(self) -> NDArray[np.int64]:
        """(n,) among the contacts of this pair of bodies, from 0."""
        return self._column("indices")

    @property
    def volumes(self) -> NDArray[np.float64]:
        """(n,) m^3: of the intersection; ldi: the mean of the three views, weighted by what they resolve."""
        return self._column("volumes")

    @property
    def view_volumes(self) -> NDArray[np.float64]:
        """(n, 3) m^3: ldi, ebpi: the volume as seen along x, y, z; exact: all are volume."""
        return self._column("view_volumes")

    @property
    def error_bounds(self) -> NDArray[np.float64]:
        """(n,) m^3: guaranteed bound of the error of volume (by ebpi only if strict); NaN where the method gives none
        (ldi)."""
        return self._column("error_bounds")

    @property
    def view_error_bounds(self) -> NDArray[np.float64]:
        """(n, 3) m^3: bounds of the errors of volumes, guaranteed as error_bound is; NaN, all three, where the method gives
        none (ldi). Only of a method that bounds the errors of single views."""
        return self._column("view_error_bounds")

    @property
    def error_estimates(self) -> NDArray[np.float64]:
        """(n,) m^3: an estimate of the error of volume, no bound. ldi: in 93 to 97 of 100 contacts the error is below it, the
        less the coarser. exact: error_bound. ebpi: the larger of what independent errors of tiles come to and a quarter of the
        bound, above 95 of 100 errors. voxtree: above 95 of 100 errors. LDI's is made from the spread of the three volumes and
        their rays. VOXTREE's is a part of error_bound: a quarter where volume_lower is above 0, half where it is 0, and all of
        it on levels 0 and 1."""
        return self._column("error_estimates")

    @property
    def max_windings(self) -> NDArray[np.int64]:
        """(n,) largest |winding number| of one body at points of the other's surface; 0: not counted (ldi, ebpi, voxtree).
        Above 1 that body overlaps itself there, and the volume counts the place as often. 1 does not exclude it: a body that
        overlaps itself where no surface of the other one passes, as where it lies wholly inside the other, is counted as often
        too. Of a body with itself: just outside its surface, 1 where it overlaps itself once."""
        return self._column("max_windings")

    @property
    def inverted_triangles(self) -> NDArray[np.int64]:
        """(n,) of both surfaces, those with a corner inside the other body where that is inside out: its winding number is
        negative, and the volume there counts negatively; 0 too where max_winding is 0 (ldi). Of a body with itself: just
        outside a corner, and the volume there counts positively."""
        return self._column("inverted_triangles")

    @property
    def inverted_volumes(self) -> NDArray[np.float64]:
        """(n,) m^3: sampled: the volume inside both bodies where one or both are inside out, which volume leaves out: one of
        the winding numbers is negative, and none is 0; NaN: not sampled (exact, voxtree, and cells). The views' mean, weighted
        as volume's. Of a body with itself: where its winding number is negative."""
        return self._column("inverted_volumes")

    @property
    def lower_volumes(self) -> NDArray[np.float64]:
        """(n,) m^3: voxtree: guaranteed lower end of the volume; 0: the bodies may have no contact. Other methods: NaN. Both
        ends close in from level to level. Volume where one of the bodies overlaps itself counts once. Only of a method that
        gives an interval."""
        return self._column("lower_volumes")

    @property
    def upper_volumes(self) -> NDArray[np.float64]:
        """(n,) m^3: voxtree: guaranteed upper end of the volume. Other methods: NaN. Only of a method that gives an
        interval."""
        return self._column("upper_volumes")

    @property
    def areas(self) -> NDArray[np.float64]:
        """(n,) m^2: |dV/d(translation)|: that of the contact as seen along its normal, where it is not nested; the sum of one
        part's friction weights. Only of steps that want a frame, or what comes with one: weights, inertia, ids, points,
        surface."""
        return self._column("areas")

    @property
    def depths(self) -> NDArray[np.float64]:
        """(n,) m: mean depth: volume / area; 0 where area is 0. Only of steps that want a frame, or what comes with one:
        weights, inertia, ids, points, surface."""
        return self._column("depths")

    @property
    def normals(self) -> NDArray[np.float64]:
        """(n, 3) unit vector that pushes the first body out of the second; 0 if no direction does (nested bodies). Only of
        steps that want a frame, or what comes with one: weights, inertia, ids, points, surface."""
        return self._column("normals")

    @property
    def tangents(self) -> NDArray[np.float64]:
        """(n, 2, 3) unit vectors, orthogonal to the normal and to each other. Only of steps that want a frame, or what comes
        with one: weights, inertia, ids, points, surface."""
        return self._column("tangents")

    @property
    def centers(self) -> NDArray[np.float64]:
        """(n, 3) m: ldi: midpoint of the two surfaces' weighted barycentres; exact: the intersection's centre of gravity. Only
        of steps that want a frame, or what comes with one: weights, inertia, ids, points, surface."""
        return self._column("centers")

    @property
    def side_centers(self) -> NDArray[np.float64]:
        """(n, 2, 3) m: the barycentre of each part's surface, its vertices weighted by friction weights. See Allard 2010. It
        is center where the weights cancel, as in nested bodies. Only of steps that want a frame, or what comes with one:
        weights, inertia, ids, points, surface."""
        return self._column("side_centers")

    @property
    def generalized_gradients(self) -> NDArray[np.float64]:
        """(n, 2, 6) m^2, m^3: per part: dV/d(translation), then dV/d(rotation about the body's origin). The origin is a rigid
        body's t, a deformable body's 0 0 0. Only of steps that want a frame, or what comes with one: weights, inertia, ids,
        points, surface."""
        return self._column("generalized_gradients")

    @property
    def are_nested(self) -> NDArray[np.bool_]:
        """(n,) the surface of one of the bodies is wholly inside the other: no direction lessens the volume, and the contact
        has no normal, and no force but that of the law pressure, the shortest way out of a rigid body or half-space. A warning
        of the step names the inner body. Move a nested body out along the way that it came in, or take smaller steps, so that
        surfaces meet first. Of a body with itself: a closed part of its surface is wholly inside. Not known by voxtree's
        trees. Only of steps that want a frame, or what comes with one: weights, inertia, ids, points, surface."""
        return self._column("are_nested")

    @property
    def ids(self) -> NDArray[np.int64]:
        """(n,) the contact's own number: it keeps it from step to step while it persists; 0 of a cell. Numbers count from 1 in
        each scene, rise in the order in which contacts begin, and are never given twice. gpu/after/identity.h says which
        contact of a step is which of the step before it that wanted ids. Only of steps that want ids."""
        return self._column("ids")

    @property
    def are_new(self) -> NDArray[np.bool_]:
        """(n,) it began with this step: the step before it that wanted ids does not have it. Only of steps that want ids."""
        return self._column("are_new")

    @property
    def inertias(self) -> NDArray[np.float64]:
        """(n, 3, 3) m^5: the integral over the intersection of |r|^2 - r r^T, r from center; times a density, the inertia
        tensor about center. Only of steps that want inertia."""
        return self._column("inertias")

    @property
    def relative_velocities(self) -> NDArray[np.float64]:
        """(n, 3) m/s: of the second part relative to the first: the sum of friction weight times velocity, over area. Where
        both bodies only translate, it is the difference of their velocities. Only of steps with velocities."""
        return self._column("relative_velocities")

    @property
    def spins(self) -> NDArray[np.float64]:
        """(n,) rad/s: of the second part relative to the first, about the normal. Only of steps with velocities."""
        return self._column("spins")

    @property
    def frictions(self) -> NDArray[np.float64]:
        """(n, 2, 6) N, N m: per part: friction, and its torque about the body's origin; by the law volume it is viscous, by
        pressure Coulomb's. It acts on both bodies at one point, or at the same points: torques about any point are opposite,
        too. Only of steps with velocities."""
        return self._column("frictions")

    @property
    def wrenches(self) -> NDArray[np.float64]:
        """(n, 2, 6) N, N m: per part: the force of pressure and friction on the body, and its torque about the body's origin.
        The wrenches of both parts are opposite: their forces, and their torques about any common point. Only of scenes with
        the law pressure."""
        return self._column("wrenches")

    @property
    def extents(self) -> NDArray[np.float64]:
        """(n, 2) m: half extents along axes of the rectangle with the contact's area moments: sqrt(3) times their standard
        deviations. Only of scenes with the law pressure."""
        return self._column("extents")

    @property
    def axes(self) -> NDArray[np.float64]:
        """(n, 2, 3) unit vectors of the longer and the shorter extent, orthogonal to the normal and to each other. Only of
        scenes with the law pressure."""
        return self._column("axes")
