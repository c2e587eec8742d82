"""What a step answers: StepResult and its Contacts, as views of the received message.

Arrays are read-only and not copied out of the message; keep a copy of what you need and let the result go where memory
matters. Lengths are in metres, so a volume is in m^3 and a gradient dV/dx in m^2.
"""

from __future__ import annotations

import functools
import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterable, Mapping, NamedTuple, Sequence, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _settings
from ._contact_columns import COLUMNS
from ._columns import AllPoints, Columns, Source, no_law, no_velocities, point_ids, points_of, ranges, table_of
from ._frames import Frames
from ._schema import ENUMS
from ._surface import Surface, surface_of
from ._want import FORCES, FRAME, IDS, POINTS, SURFACE, not_asked
from ._wire import Decoded
from .body import Body
from .errors import ErrorCode, error_for

if TYPE_CHECKING:
    from .scene import Scene

HTML_ROWS = 20
PHASES = ("queue", "upload", "broadphase", "raster", "span", "contact", "download")


def method_name(number: int) -> str:
    """"ldi"; "unknown" for a number that only a newer server knows."""
    try:
        return ENUMS["Method"](number).name.lower()
    except ValueError:
        return "unknown"


def _ended_name(number: int) -> str:
    """"level"; "unknown" for a number that only a newer server knows."""
    try:
        return ENUMS["Ended"](number).name.lower()
    except ValueError:
        return "unknown"


def _vectors(displacements: Mapping[Body, ArrayLike],
             bodies: Iterable[Body]) -> tuple[dict[Body, np.ndarray], int]:
    """(m, n, 3) of each of these bodies that moves, and m; m is 0 where they are given as (n, 3)."""
    vectors: dict[Body, np.ndarray] = {}
    shapes = set()
    for body in bodies:
        if body not in displacements:
            continue
        d = np.asarray(displacements[body], dtype=float)
        if d.shape[-2:] != (body.vertices, 3) or d.ndim > 3 or d.shape[:-2] == (0,):
            raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape ({body.vertices}, 3) or (m, {body.vertices}, 3), got "
                            f"{d.shape}", object=str(body), field="displacements")
        shapes.add(d.shape[:-2])
        vectors[body] = d if d.ndim == 3 else d[None]
    if len(shapes) > 1:
        raise error_for(ErrorCode.WRONG_LENGTH, "expected as many vectors for each body, got "
                        + ", ".join(str(len(v)) for v in vectors.values()), field="displacements")
    (many,) = shapes or {()}
    return vectors, many[0] if many else 0


class Points(NamedTuple):
    """Points of a contact: by "voxtree" in falling order of weight, else the ones that matter most first."""

    position: NDArray[np.float64]  # (n, 3) m, world
    normal: NDArray[np.float64]  # (n, 3) unit vectors that push bodies[0] out there; not by "voxtree": between the
    # surfaces at the ends of the point's line
    depth: NDArray[np.float64]  # (n,) m
    weight: NDArray[np.float64]  # (n,), sum to 1
    group: NDArray[np.uint32]  # (n, 2) "voxtree": parts of both surfaces that met, or 65535, the body's inside; else the
    # contact's index, and the index of the cell that the point is, or 65535
    area: NDArray[np.float64]  # (n,) m^2, the point's share of the contact's area: weight times that. NaN by "voxtree", whose
    # weights are shares of the volume's gradient, which points to all sides, not of the area
    id: NDArray[np.int64]  # (n,) as Contact.id, and of the same numbers, of steps that want ids; else 0


class Separation(NamedTuple):
    """Two bodies that have no contact and are closer than the scene's margin: the distance of the closest features of all
    their triangles, in double precision. It is no volume, and no part of any."""

    bodies: tuple[Body, Body]
    distance: float  # m, >= 0; 0: the surfaces touch, or cross where the method found no volume
    normal: NDArray[np.float64]  # (3,) unit vector that pushes bodies[0] away from bodies[1]
    points: NDArray[np.float64]  # (2, 3) m, world: the closest points of the two surfaces


class PairProgress(NamedTuple):
    """How far "voxtree" came with a pair of bodies."""

    bodies: tuple[Body, Body]
    examined: bool  # False: not at all, so whether they touch is not known: no contact, and no separation either
    levels: tuple[int, int]  # of their trees that the answer is from
    ended: str  # as StepResult.ended
    refined: bool  # the contact is that of "exact"; if there is none, they do not touch


class Contact:
    """A volume in which two bodies overlap, or in which a body overlaps itself.

    A pair of bodies has one contact, or with the setting `patches`, of "exact", one for each connected part of its intersection. In a
    contact of a body with itself both of `bodies` are that body, and what a method returns for it is for the whole body:
    its two surfaces that bound the volume are what `side_vertices` tells apart. `normal` pushes side 0 out of side 1.

    Attributes that the step did not ask for raise an error naming `want`.
    """

    __slots__ = ("_result", "_rows", "_number", "_values")

    def __init__(self, result: "StepResult", rows: Columns, number: int) -> None:
        self._result, self._rows, self._number = result, rows, number
        self._values: dict[str, Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _contact_again, (self._result, self._rows is not self._result, self._number)

    def _get(self, name: str, want: int = 0) -> Any:
        self._result._check_asked(want, name)
        values = self._values
        if values is None:
            values = self._values = self._rows._tables[self._number].fields()
        return values[name]

    def _vector(self, name: str, want: int = 0, shape: tuple[int, ...] = (3,)) -> NDArray[np.float64]:
        return np.array(self._get(name, want), dtype=float).reshape(shape)

    @property
    def bodies(self) -> tuple[Body, Body]:
        """The two bodies, in the order in which they were added; after bodies were removed, those added since may come in another."""
        return (self._result._body(self._get("body_a")), self._result._body(self._get("body_b")))

    @property
    def id(self) -> int:
        """The contact's own number, which it keeps from step to step while it persists, of a step with want="ids".

        Numbers count from 1 in each scene, rise in the order in which contacts begin, and are never given twice. Contacts
        are compared with those of the step before that wanted ids: by bodies, and by where they lie on them. After the
        scene went to another server, or its server began again, all contacts are new, and numbers begin from 1.
        """
        return int(self._get("id", IDS))

    @property
    def is_new(self) -> bool:
        """Whether it began with this step: the step before that wanted ids does not have it."""
        return bool(self._get("is_new", IDS))

    @property
    def index(self) -> int:
        """Among the contacts of this pair of bodies, from 0."""
        return int(self._get("index"))

    @property
    def volume(self) -> float:
        """Volume of the intersection, m^3. "ldi": the mean of the three views."""
        return float(self._get("volume"))

    @property
    def volumes(self) -> NDArray[np.float64]:
        """(3,) m^3: the volume as seen along x, y and z by "ldi" and "ebpi"; by "exact" each is `volume`."""
        return self._vector("volumes")

    @property
    def interval(self) -> tuple[float, float] | None:
        """m^3, a lower and an upper end between which the volume is guaranteed to lie, by "voxtree"; they close in from
        level to level. Where the lower end is 0 the bodies may have no contact. None: the method gives none."""
        lower, upper = self._get("volume_lower"), self._get("volume_upper")
        return None if lower != lower else (lower, upper)

    @property
    def points(self) -> "Points":
        """Points that stand for the contact, for engines that work with points. By "voxtree" means of what met, the most
        probable first. By other methods, of steps with want="points" (at most 4) and in scenes with `max_points`, what reducing a contact manifold leaves: the
        deepest corner of the intersection, the one farthest from it, and then those that add most to the area between
        them, farthest and area times depth. A ball has one, a box on its face four. Each has a `normal` of its own, between
        the surfaces there; `depth` is the length of the line along it inside both bodies, `position` its middle. Areas sum
        to the contact's, with its surfaces' barycentre where the points surround it. In a scene with a cell_size points are the cells of most
        volume. Nested bodies, which no direction pushes apart, and cells themselves have no points. InvalidArgumentError
        where they were not asked for, but by "voxtree"."""
        self._result._check_points()
        first, n = self._get("first_point"), self._get("n_points")
        rows = self._result._array("points", 0, 8)[first:first + n]
        groups = self._result._array("point_groups", 0, 2)[first:first + n]
        area = self._get("area") if self.interval is None else np.nan
        return Points(rows[:, :3], rows[:, 3:6], rows[:, 6], rows[:, 7], groups, rows[:, 7] * area,
                      point_ids(self._result)[first:first + n])

    @property
    def surface(self) -> Surface:
        """The contact surface, of a step with want="surface": polygons between both bodies. Cells and nested bodies have none."""
        n = int(self._get("n_polygons", SURFACE))
        return Surface(self._result, self._result, int(self._get("first_polygon")), n, np.full(n, self._number))

    @property
    def error_bound(self) -> float | None:
        """Guaranteed bound on the error of `volume`, m^3; None where the method gives none ("ldi"). By "ebpi" it is
        proven only if the scene is strict."""
        bound = self._get("error_bound")
        return None if bound != bound else bound

    @property
    def error_bounds(self) -> NDArray[np.float64] | None:
        """(3,) m^3: bounds on the errors of `volumes`, as `error_bound`; None where the method gives none ("ldi")."""
        return None if self._get("error_bounds") is None else self._vector("error_bounds")

    @property
    def error_estimate(self) -> float:
        """Estimated error of `volume`, m^3. "ldi": in 93 to 97 of 100 contacts the error is below it, but it is no bound;
        "exact": `error_bound`; "ebpi": in 95 of 100 contacts the error is below it, no bound;
        "voxtree": in 95 of 100 contacts the error is below it, no bound.
        """
        return float(self._get("error_estimate"))

    @property
    def max_winding(self) -> int:
        """The largest |winding number| of one body at points of the other's surface.

        Above 1 that body overlaps itself there, and `volume` counts the place as often. 1 does not exclude it: a body
        that overlaps itself where no surface of the other one passes, as where it lies wholly inside the other, is
        counted as often too. 0: the method does not count it ("ldi", "ebpi", "voxtree"). Of a body with itself: just
        outside its surface, 1 where it overlaps itself once.
        """
        return int(self._get("max_winding"))

    @property
    def inverted_triangles(self) -> int:
        """Of both surfaces, those with a corner inside the other body where that is inside out: its winding number is
        negative, and `volume` counts the part negatively (of a body with itself, positively). 0 too where max_winding is 0 ("ldi")."""
        return int(self._get("inverted_triangles"))

    @property
    def inverted_volume(self) -> float | None:
        """m^3, sampled: the volume inside both bodies where one or both are inside out, which `volume` leaves out.

        One of the winding numbers is negative there, and none is 0; of a body with itself, its winding number is
        negative. "ldi" and "ebpi"; None where it is not sampled ("exact", which counts `inverted_triangles` instead,
        "voxtree", and cells).
        """
        value = self._get("inverted_volume")
        return None if value != value else value

    @property
    def is_nested(self) -> bool:
        """Whether the surface of one of the bodies is wholly inside the other, so that no direction lessens the volume.

        The contact has a volume, but no normal, and no force but that of the law "pressure", the shortest way out of a rigid body. A warning
        "NESTED" of the step names the inner body. Move it out along the way that it came in, or take smaller steps, so that surfaces meet first.
        """
        self._result._check_asked(FRAME, "is_nested")
        return bool(self._get("is_nested"))

    @property
    def area(self) -> float:
        """Contact area, m^2."""
        return float(self._get("area", 1))

    @property
    def depth(self) -> float:
        """Mean depth, m: volume / area."""
        return float(self._get("depth", 1))

    @property
    def normal(self) -> NDArray[np.float64]:
        """(3,) unit vector that pushes the first body out; zero where no direction does (a nested body)."""
        return self._vector("normal", 1)

    @property
    def tangents(self) -> NDArray[np.float64]:
        """(2, 3) unit vectors, orthogonal to the normal and to each other; see Scene.continuous_frames."""
        if self._result._carried is not None and self._rows is self._result:
            return np.array(self._result._carried[self._number])
        return self._vector("tangents", 1, (2, 3))

    @property
    def center(self) -> NDArray[np.float64]:
        """(3,) m. "ldi": midpoint of the two surfaces' weighted barycentres; "exact": centre of gravity of the volume."""
        return self._vector("center", 1)

    @property
    def side_centers(self) -> NDArray[np.float64]:
        """(2, 3) m: the barycentre of each side's surface, its vertices weighted by friction weights."""
        return self._vector("side_centers", 1, (2, 3))

    def target_volume(self, depth: float) -> float:
        """depth * area, m^3: the volume that a position solver leaves for the surfaces to overlap by `depth`, m."""
        return depth * self.area

    @property
    def relative_velocity(self) -> NDArray[np.float64]:
        """(3,) m/s, of the second body relative to the first: the sum of friction weight times velocity over both bodies,
        divided by `area`. Of a step with velocities."""
        self._check_slip()
        return self._vector("relative_velocity", 1)

    @property
    def spin(self) -> float:
        """rad/s, of the second body relative to the first about the normal. Of a step with velocities."""
        self._check_slip()
        return float(self._get("spin", 1))

    def wrench(self, body: Body) -> NDArray[np.float64]:
        """(6,): N and N m about the body's origin (a rigid body's t), of pressure and friction on the body. The other body
        has the opposite force, and the opposite torque about any point. Of a scene with law="pressure"."""
        self._check_law()
        parts = [self._vector("wrench_" + side, 1, (6,)) for side in self._sides(body)]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    @property
    def extents(self) -> NDArray[np.float64]:
        """(2,) m: half extents, along `axes`, of the rectangle with the area moments of the contact; for solvers that take
        contacts with an extent (Bouchard 2015). Of a scene with law="pressure"."""
        self._check_law()
        return self._vector("extents", 1, (2,))

    @property
    def axes(self) -> NDArray[np.float64]:
        """(2, 3): unit vectors of the longer and the shorter extent. Of a scene with law="pressure"."""
        self._check_law()
        return self._vector("axes", 1, (2, 3))

    def friction_forces(self, body: Body) -> NDArray[np.float64]:
        """(k, 3) N: friction on the vertices of `vertices(body)`. Of a step with velocities, and by the law "volume" a
        viscosity, by "pressure" want="forces"."""
        self._check_slip()
        if self._result._answer.array("friction_forces") is None:
            if self._get("wrench_a") is not None:
                raise not_asked(FORCES, "friction on vertices")
            raise error_for(ErrorCode.INVALID_ARGUMENT, "the step had no viscosity: step(..., velocities=..., viscosity=...)",
                            field="viscosity")
        return self._entries(body, "friction_forces", 4, 3)

    def friction(self, body: Body) -> NDArray[np.float64]:
        """(6,): friction on the body, N, and its torque about the body's origin, N m: the sum of friction_forces.

        By the law "volume" it is viscous: on a flat patch that slides at t -viscosity area t, and on one that turns the
        torque -viscosity area^2 / (2 pi) spin, that of a disc. By "pressure" it is Coulomb's. It never adds energy, and
        both bodies get opposite forces, and opposite torques about any point.
        """
        self._check_slip()
        parts = [self._vector("friction_" + side, 1, (6,)) for side in self._sides(body)]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def _check_law(self) -> None:
        if self._get("wrench_a") is None:
            raise no_law()

    def _check_slip(self) -> None:
        if self._get("relative_velocity") is None:
            raise no_velocities()

    @property
    def inertia(self) -> NDArray[np.float64]:
        """(3, 3) m^5: the integral over the intersection of |r|^2 - r r^T, r from `center`. Times a density it is the
        inertia tensor about the centre of gravity. "exact" only."""
        xx, yy, zz, xy, yz, zx = self._get("inertia", 32)
        return np.array([[xx, xy, zx], [xy, yy, yz], [zx, yz, zz]])

    @property
    def cells(self) -> list["Contact"]:
        """With a cell_size: the part of this contact in each cube of the grid that holds volume, in rising order of `cell`
        (Allard 2010, section 5). Each is a contact of its own, without spans and products: its gradient sums to 0 over both
        bodies, and the cells' volumes and gradients sum to this contact's but for the rounding of each number.

        Where a cube's wall cuts the volume, the wall is taken to move with the surfaces that bound the ray there
        (equations 22 and 23). A ray is in the cube of its sample; on a wall, in the one above. Empty for a cell;
        InvalidArgumentError without a cell_size.
        """
        self._result._check_cells()
        first = self._get("first_cell")
        return [Contact(self._result, self._result.cells, number) for number in range(first, first + self._get("n_cells"))]

    @property
    def cell(self) -> tuple[int, int, int] | None:
        """Of one of `cells`: it is the cube from cell to cell + 1, times the cell_size, along x, y and z. None: no cell."""
        cell: tuple[int, int, int] | None = self._get("cell")
        return cell

    def generalized_gradient(self, body: Body) -> NDArray[np.float64]:
        """(6,): dV/d(translation), m^2, and dV/d(rotation about the body's origin), m^3.

        A rigid body's origin is its pose's translation, a deformable's is the world's.
        """
        parts = [self._vector("generalized_" + side, 1, (6,)) for side in self._sides(body)]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def gradient(self, body: Body) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        """(k,) vertex indices in rising order, and (k, 3) dV/dx of these vertices in world axes, m^2.

        Against it is the way out: moving the vertices by d changes the volume by the sum of gradient . d.
        """
        return self._entries(body, "vertices", 2), self._entries(body, "gradient", 2, 3)

    def vertices(self, body: Body) -> NDArray[np.uint32]:
        """(k,) indices, in rising order, of the vertices that gradient, friction_weights and forces speak of."""
        return self._entries(body, "vertices", 0)

    def side_vertices(self, side: int) -> NDArray[np.uint32]:
        """(k,) indices, in rising order, of the vertices with a gradient of side 0 or 1: of the first or the second body, or
        of the first or the second surface of a contact of a body with itself."""
        first, count = (self._get(f"{name}_{'ab'[side]}") for name in ("first", "count"))
        return self._result._array("vertices", 0)[first:first + count]

    def friction_weights(self, body: Body) -> NDArray[np.float64]:
        """(k,) m^2: normal . dV/dx of the vertices of `vertices(body)`. Weights times vertex velocities, added up over both
        bodies and divided by `area`, are the velocity of the second body relative to the first."""
        weights = self._entries(body, "weights", 4)
        self._check_gradient("friction weights")
        return weights

    def forces(self, body: Body) -> NDArray[np.float64]:
        """(k, 3) N, on the vertices of `vertices(body)`: -stiffness V dV/dx by the law "volume"; by "pressure" what amounts
        to `wrench(body)` without friction, which friction_forces has."""
        forces = self._entries(body, "forces", 8, 3)
        self._check_gradient("forces")
        return forces

    @property
    def spans(self) -> NDArray[np.float32]:
        """(s, 2, 3) m: lower and upper end of every ray's depth interval inside both bodies."""
        return self._result._array("spans", 16, 6)[self._spans()].reshape(-1, 2, 3)

    @property
    def span_axes(self) -> NDArray[np.uint8]:
        """(s,): the axis of each span's ray, 0 x, 1 y, 2 z."""
        return self._result._array("span_axes", 16)[self._spans()]

    def stiffness_product(self, displacements: Mapping[Body, ArrayLike],
                          stiffness: float | None = None) -> dict[Body, NDArray[np.float64]]:
        """K d = -k g (g . d) with g = dV/dx: the stiffness product of implicit integration, never assembled.

        Args:
            displacements: (n, 3) for each body, all its vertices, or (m, n, 3) for m vectors at once; a body left out does
                not move.
            stiffness: k in N/m^5; the scene's where None.
        Returns: (n, 3), or (m, n, 3), for each of the contact's bodies.
        """
        k = self._result.scene.stiffness if stiffness is None else stiffness
        bodies = dict.fromkeys(self.bodies)  # one, for a contact of a body with itself
        vectors, many = _vectors(displacements, bodies)
        parts = [self.gradient(b) for b in bodies]
        self._check_gradient("stiffness product")
        along = np.zeros(many or 1)
        for body, (at, g) in zip(bodies, parts):
            if body in vectors:
                along += np.einsum("ij,mij->m", g, vectors[body][:, at])
        out = {}
        for body, (at, g) in zip(bodies, parts):
            out[body] = np.zeros((len(along), body.vertices, 3))
            out[body][:, at] = (-k * along)[:, None, None] * g
        return out if many else {body: product[0] for body, product in out.items()}

    def hessian_product(self, body: Body, direction: int = 0) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        """H d for a direction of the step: (k,) vertex indices in rising order, and (k, 3) m^2, the derivatives of these
        vertices' gradients along it.

        H is the exact second derivative of the volume with respect to all vertices of both bodies, symmetric to rounding.
        The derivative of the penalty forces is -stiffness (volume H d + g (g . d)); stiffness_product is its second term.
        """
        self._check_direction(direction)
        vertices = self._result._array("product_vertices", 0)
        rows = self._result._array("products", 0).reshape(vertices.size, self._result.directions, 3)
        return _merged(vertices, rows[:, direction], self._parts(body, "_product"))

    def generalized_product(self, body: Body, direction: int = 0) -> NDArray[np.float64]:
        """(6,): the derivative of generalized_gradient(body) along a direction of the step.

        For rigid bodies that is a column of the Jacobian which Newton's method needs. Its arms begin at the moving origin;
        it is symmetric but for half of (rotation x torque), which rotations bring with them.
        """
        self._check_direction(direction)
        rows = self._result._array("generalized_products", 0).reshape(-1, self._result.directions, 2, 6)
        parts = [rows[self._number, direction, "ab".index(side)] for side in self._sides(body)]
        product: NDArray[np.float64] = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        return product

    def _check_gradient(self, what: str) -> None:
        """UNSUPPORTED: the method gives the contact no gradient of vertices, of which this is made."""
        if self.interval is None or self._get("count_a") + self._get("count_b"):
            return
        raise error_for(ErrorCode.UNSUPPORTED, f'method "voxtree" gave the contact no gradient of vertices, and so no {what}: '
                        'set refine, or choose method "exact"', field="method")

    def _check_direction(self, direction: int) -> None:
        n = self._result.directions
        if not 0 <= direction < n:
            raise error_for(ErrorCode.OUT_OF_RANGE, f"expected a direction below {n}, got {direction}" if n else
                            "the step had no directions: step(..., directions=...)", field="direction")

    def _sides(self, body: Body) -> list[str]:
        """"a" or "b"; both for a contact of a body with itself."""
        identifier = self._result._id(body)
        sides = [side for side in "ab" if self._get("body_" + side) == identifier]
        if not sides:
            raise error_for(ErrorCode.NOT_FOUND, f"this contact is of {self.bodies[0]} and {self.bodies[1]}",
                            object=str(body), field="body")
        return sides

    def _entries(self, body: Body, name: str, want: int, columns: int = 1) -> np.ndarray:
        """The body's part of a sparse array. A vertex of a contact of a body with itself may have an entry on both
        sides: they are added up."""
        parts = self._parts(body)
        vertices = self._result._array("vertices", 0)
        if name == "vertices":
            return vertices[parts[0]] if len(parts) == 1 else np.unique(np.concatenate([vertices[part] for part in parts]))
        return _merged(vertices, self._result._array(name, want, columns), parts)[1]

    def _parts(self, body: Body, of: str = "") -> list[slice]:
        """The body's part of what entries, or rows of products, are for."""
        return [slice(first := self._get(f"first{of}_{side}"), first + self._get(f"count{of}_{side}"))
                for side in self._sides(body)]

    def _spans(self) -> slice:
        first = self._get("first_span")
        return slice(first, first + self._get("n_spans"))

    def __repr__(self) -> str:
        a, b = self.bodies
        return f"<Contact of {a} and {b}: volume {self.volume:.6g}>"


@dataclass(frozen=True, slots=True)
class StepWarning:
    """A condition under which a body's contacts mean little.

    Given by every step's result while the condition lasts: BODY_INVERTED for a signed volume below minus 1e-6 of the
    mesh's, BODY_COLLAPSED for one of at most 1e-6 of it on either side of 0; NO_VELOCITIES where, with the law "pressure",
    a contact has friction or dissipation, and the step no velocities, so that neither acts; NESTED where the body is wholly
    inside another (Contact.is_nested), so that its volume has no gradient; the law "pressure" pushes it the shortest way out of a rigid body.
    UNPLACED, in scenes with skip_unplaced, where a pair of the body is left out, as the method's coordinates cannot hold both.

    Attributes:
        code: "BODY_INVERTED", "BODY_COLLAPSED", "NO_VELOCITIES", "NESTED" or "UNPLACED"; "WARNING_" and its number for one that only a newer server knows.
        body: the body.
        value: its signed volume, m^3; of NO_VELOCITIES and NESTED that of the first such contact, of UNPLACED NaN.
    """

    code: str
    body: Body
    value: float


class Cells(Columns):
    """The cells of all contacts: the columns of a result, but for cells; see Contact.cells."""

    def __repr__(self) -> str:
        return f"<Cells of {self._of}: {len(self)}>"

    @property
    def cubes(self) -> NDArray[np.int64]:
        """(n, 3): a cell is the cube from here to one more, times the cell_size, along x, y and z."""
        return self._column("cubes")

    @property
    def contacts(self) -> NDArray[np.int64]:
        """(n,) row of the contact that a cell is part of."""
        result = cast(StepResult, self._of)
        first, count = result._field("first_cell"), result._field("n_cells")
        out = np.zeros(len(self), np.int64)
        out[ranges(first, count)] = np.repeat(np.arange(len(count)), count)
        return out


class StepResult(Columns, Source):
    """The answer to one step.

    Its contacts, the volumes that bodies share, are in rising order of their bodies on the server: as objects (`contacts`)
    and as columns, arrays whose row i is of contact i, which cost no loop: `volumes`, `body_pairs`, `normals`, `entries`
    and so on. A result can be pickled and copied; what comes out of a pickle knows its scene and bodies by number and name.

    Attributes:
        scene: the scene.
        sequence: counts the scene's steps from 1.
        latency: seconds from the call to the answer.
    """

    def __init__(self, scene: "Scene", answer: Decoded, by_id: Mapping[int, Any], want: int, sequence: int,
                 latency: float) -> None:
        super().__init__(None, "contacts")
        self._answer, self._by_id = answer, by_id
        self.scene, self.want, self.sequence, self.latency = scene, want, sequence, latency
        self._ids: dict[Any, int] | None = None  # of the bodies' states
        self._contacts: list[Contact] | None = None
        self._carried: NDArray[np.float64] | None = None  # (n, 2, 3) tangents, where frames are continuous
        self._layout: tuple[dict[Body, int], np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None = None

    @property
    def contacts(self) -> list[Contact]:
        """A view of each row of the columns."""
        if self._contacts is None:
            # Theirs is a twin of it that has all but this list: as a cycle it would stay until Python looks for cycles.
            twin = StepResult.__new__(StepResult)
            twin.__dict__.update(self.__dict__)
            self._contacts = [Contact(twin, twin, number) for number in range(len(self))]
        return self._contacts

    @functools.cached_property
    def bodies(self) -> list[Body]:
        """The scene's bodies at the time of the step, to which `body_pairs` points."""
        return [self.scene._body(state) for state in self._by_id.values()]

    @property
    def tangents(self) -> NDArray[np.float64]:
        """(n, 2, 3) unit vectors, orthogonal to the normals and to each other; see Scene.continuous_frames."""
        return self._column("tangents") if self._carried is None else self._carried

    @property
    def body_wrenches(self) -> NDArray[np.float64]:
        """(b, 6): N and N m about the body's origin, of all contacts on each of `bodies`, in their order: zeros where it has
        none. Of a scene with law="pressure"."""
        made = self._made.get("body_wrenches")
        if made is None:
            made = np.zeros((len(self._by_id), 6))
            np.add.at(made, self.body_pairs, self.wrenches)
            self._made["body_wrenches"] = made
        return made

    def wrench(self, body: Body) -> NDArray[np.float64]:
        """(6,): a copy of the body's row of body_wrenches."""
        return np.array(self.body_wrenches[self._rows[self._id(body)]])

    @functools.cached_property
    def _rows(self) -> dict[int, int]:
        return {number: row for row, number in enumerate(self._by_id)}

    @property
    def begun_ids(self) -> NDArray[np.int64]:
        """Of contacts that began with this step, in rising order; see Contact.id."""
        return self.ids[self.are_new]

    @property
    def ended_ids(self) -> NDArray[np.int64]:
        """Of contacts that the step before it which wanted ids had, and this one has not, in rising order."""
        return self._array("ended_ids", IDS).astype(np.int64)

    @property
    def points(self) -> AllPoints:
        """The points of all contacts; see Contact.points."""
        self._check_points()
        return points_of(self)

    @property
    def surface(self) -> Surface:
        """The contact surfaces of all contacts, of a step with want="surface"; see Contact.surface."""
        return surface_of(self, self)

    @property
    def cells(self) -> Cells:
        """The cells of all contacts, as columns."""
        self._check_cells()
        return Cells(self, "cells")

    def to_dict(self) -> dict[str, np.ndarray]:
        """What the step has given of each contact, by names of columns, for pandas.DataFrame and the like: arrays (n,);
        a column with more numbers a contact comes as several, as normals_0 to normals_2."""
        return table_of(self, self._is_given, bodies_0=self.body_pairs[:, 0], bodies_1=self.body_pairs[:, 1])

    def _repr_html_(self) -> str:
        """For notebooks: the contacts, the largest volumes first."""
        names = [name for name in ("volumes", "error_bounds", "areas", "depths") if self._is_given(name)]
        rows = [[str(self.bodies[body]) for body in self.body_pairs[row]] + [f"{getattr(self, name)[row]:.6g}" for name in names]
                for row in np.argsort(-self.volumes, kind="stable")[:HTML_ROWS]]
        head = "".join(f"<th>{html.escape(COLUMNS[name].name)}</th>" for name in names)
        lines = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        more = f"<p>and {len(self) - HTML_ROWS} more</p>" if len(self) > HTML_ROWS else ""
        return f"<p>{html.escape(repr(self))}</p><table><tr><th>body</th><th>body</th>{head}</tr>{lines}</table>{more}"

    def __len__(self) -> int:
        """The number of contacts."""
        return super().__len__()

    def __bool__(self) -> bool:
        return True

    def __copy__(self) -> "StepResult":
        return self  # nothing in it changes

    def __deepcopy__(self, memo: dict[int, Any]) -> "StepResult":
        return self

    def _continue(self, frames: Frames) -> None:
        """Makes its tangents follow those of the scene's result before."""
        if self.want & FRAME:
            bodies = self.bodies
            keys = ((bodies[a], bodies[b], index) for (a, b), index in zip(self.body_pairs.tolist(), self.indices.tolist()))
            self._carried = frames.follow(keys, self.normals, self.tangents)

    def __reduce__(self) -> tuple[Any, ...]:
        scene = record_of(self.scene)
        bodies = [body._state if isinstance(body._state, BodyRecord) else BodyRecord(
            scene, body.id, body._state.kind, body.vertices) for body in self.bodies]
        return _result_again, (scene, bodies, self._answer, self.want, self.sequence, self.latency, self._carried)

    @functools.cached_property
    def _lists(self) -> tuple[bool, bool]:
        """Whether contacts have points, and cells; an older server does not tell."""
        settings = self.settings
        if settings is None:
            return True, True
        has_points = self.method == "voxtree" or settings["voxels"]["max_points"] > 0 or self.want & POINTS > 0
        return has_points, settings["cell_size"] > 0

    def _check_points(self) -> None:
        if not self._lists[0]:
            raise error_for(ErrorCode.INVALID_ARGUMENT, 'points were not asked for: step(..., want=("points", ...)), or of every step '
                            "open_scene(max_points=...)", field="want")

    def _check_cells(self) -> None:
        if not self._lists[1]:
            raise error_for(ErrorCode.INVALID_ARGUMENT, "cells were not asked for: open_scene(cell_size=...), or "
                            "configure(cell_size=...)", field="cell_size")

    @property
    def warnings(self) -> list[StepWarning]:
        """Conditions of bodies as they are after this step's updates, in rising order of the bodies on the server."""
        return [StepWarning(_warning_name(w["code"]), self._body(w["body"]), w["value"])
                for w in self._answer.body["warnings"] or ()]

    @property
    def timings(self) -> dict[str, float]:
        """Seconds by phase: queue, upload, broadphase, raster, span, contact, download; the engine's (all but queue) are
        summed over its threads, so together they may be more than `latency`."""
        return {name: us * 1e-6 for name, us in zip(PHASES, self._answer.body["timings_us"] or ())}

    @property
    def wall_timings(self) -> dict[str, float]:
        """Seconds by phase as in `timings`, but by the clock: the engine's are the step's part of the time that its batch
        took, so together they are at most `latency`. Empty if the server is older than this."""
        return {name: us * 1e-6 for name, us in zip(PHASES, self._answer.body["wall_us"] or ())}

    @property
    def rays(self) -> int:
        """Rays cast. "ldi": the samples; "ebpi": also those of tiles that were then refined; "exact": few or none, where
        winding numbers need them."""
        return int(self._answer.body["rays"])

    @property
    def fragments(self) -> int:
        """A measure of work. "ldi": crossings of rays and triangles; "exact": pairs of triangles that cross or nearly do."""
        return int(self._answer.body["fragments"])

    @property
    def pairs(self) -> int:
        """Pairs of bodies whose boxes overlap."""
        return int(self._answer.body["pairs"])

    @property
    def ended(self) -> str:
        """Why the method stopped: "completed", or, where the bound of a pair is above the tolerance, "ray_budget",
        "pass_limit" or "precision" ("ebpi"); by "voxtree" the last that holds of a pair of bodies of "level" (the trees go
        on below the scene's level), "pairs" (the budget of pairs) and "time" (time_budget)."""
        return _ended_name(self._answer.body["ended"])

    @property
    def passes(self) -> int:
        """Passes of "ebpi" over its tiles, of the pair that took most; else 0."""
        return int(self._answer.body["passes"])

    @property
    def quality(self) -> float:
        """How much of its work the method did, 0 to 1; 1 if it completed."""
        return float(self._answer.body["quality"])

    @property
    def separations(self) -> list[Separation]:
        """In scenes with a `margin`: the pairs of bodies that have no contact and are closer than it, in rising order of
        their bodies on the server, each with its distance and closest points. Pairs that "voxtree" did not examine
        (`progress`) are not listed, as their bodies may overlap."""
        if self._answer.body["separations"] is None:
            return []
        return [Separation((self._body(int(row[0])), self._body(int(row[1]))), float(row[2]), row[3:6], row[6:].reshape(2, 3))
                for row in self._array("separations", 0, 12)]

    @property
    def progress(self) -> list[PairProgress]:
        """How far "voxtree" came with each pair of bodies whose boxes overlap; other methods: empty."""
        if self._answer.body["progress"] is None:
            return []
        return [PairProgress((self._body(int(a)), self._body(int(b))), bool(examined), (int(k), int(l)), _ended_name(ended),
                             bool(examined > 1))
                for a, b, examined, k, l, ended in self._array("progress", 0, 6)]

    @property
    def backend(self) -> str:
        return str(self._answer.body["backend"])

    @property
    def method(self) -> str:
        """The method that ran, such as "exact" or "ldi"; never "auto"."""
        return method_name(self._answer.body["method"])

    @property
    def settings(self) -> dict[str, Any] | None:
        """What the step ran with, as of Scene.configure (method: as asked for, "auto" too; max_step_time 0: the server's), those
        of voxel trees in voxels, and revision, which rises with every change of them. Not only this client may change them: an operator
        may too. None: the server is older than this."""
        table = self._answer.body["settings"]
        if table is None:
            return None
        return _settings.shown_all(_settings.of_answer(table)) | {"revision": self._answer.body["revision"]}

    @property
    def directions(self) -> int:
        """How many directions the step had."""
        return int(self._answer.body["directions"])

    @property
    def cached(self) -> bool:
        """The server had answered this step before, and its answer was lost on the way."""
        return bool(self._answer.body["cached"])

    def stiffness_product(self, displacements: Mapping[Body, ArrayLike],
                          stiffness: float | None = None) -> dict[Body, NDArray[np.float64]]:
        """Sum of Contact.stiffness_product over all contacts, for every body that has one. Its cost follows the gradients'
        entries; the number of contacts hardly matters, and m vectors at once, (m, n, 3), cost less than m calls."""
        k = self.scene.stiffness if stiffness is None else stiffness
        first, entries, rows, begins, of_entry = self._entry_layout()
        gradient = self._array("gradient", 2, 3)[entries]
        without = ~np.isnan(self._field("volume_lower")) & (self._counts[1].sum(axis=1) == 0)
        for row in np.flatnonzero(without)[:1]:
            self.contacts[row]._check_gradient("stiffness product")
        vectors, many = _vectors(displacements, first)
        moved = np.zeros((many or 1, sum(body.vertices for body in first), 3))
        for body, values in vectors.items():
            moved[:, first[body]:first[body] + body.vertices] = values
        out = np.zeros_like(moved)
        if gradient.size:
            along = np.add.reduceat(np.einsum("ij,mij->mi", gradient, moved[:, rows]), begins, axis=1)
            for vector in range(len(moved)):
                pressure = -k * along[vector, of_entry]
                for axis in range(3):
                    out[vector, :, axis] = np.bincount(rows, pressure * gradient[:, axis], moved.shape[1])
        out = out if many else out[0]
        return {body: out[..., at:at + body.vertices, :] for body, at in first.items()}

    def _entry_layout(self) -> tuple[dict[Body, int], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The entries of all contacts, one contact after the other, if the vertices of all bodies that have contacts follow
        each other: each body's first row; each entry's index in the arrays, and its row; where the entries of each contact
        that has some begin; and which of these contacts an entry belongs to."""
        if self._layout is None:
            begin, count = self._counts
            pairs, bodies = self.body_pairs.ravel(), self.bodies
            first: dict[Body, int] = {}
            starts = np.zeros(len(bodies), np.int64)
            size = 0
            for at in dict.fromkeys(pairs.tolist()):  # in the order in which contacts name them
                first[bodies[at]] = starts[at] = size
                size += bodies[at].vertices
            listed = ranges(begin.ravel(), count.ravel())
            rows = self._array("vertices", 0)[listed].astype(np.int64) + np.repeat(starts[pairs], count.ravel())
            sizes = count.sum(axis=1)
            sizes = sizes[sizes > 0]
            begins = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64)
            self._layout = first, listed, rows, begins, np.repeat(np.arange(len(sizes)), sizes)
        return self._layout

    def _body(self, identifier: int) -> Body:
        return self.scene._body(self._by_id[identifier])

    def _id(self, body: Body) -> int:
        if self._ids is None:
            self._ids = {state: identifier for identifier, state in self._by_id.items()}
        identifier = self._ids.get(getattr(body, "_state", None))
        if identifier is None:
            raise error_for(ErrorCode.NOT_FOUND, "not a body of this scene", object=str(body), field="body")
        return identifier

    def __repr__(self) -> str:
        return f"<StepResult {self.sequence} of {self.scene}: {len(self)} contacts>"


@dataclass(frozen=True, slots=True)
class SceneRecord:
    """What a result that comes out of a pickle knows of its scene."""

    key: int  # the scene's for all servers
    id: int
    name: str
    stiffness: float

    def _body(self, record: "BodyRecord") -> Body:
        return Body(self, record)  # type: ignore[arg-type]  # which have what a Body asks for

    def __str__(self) -> str:
        return f"scene {self.id}"


def record_of(scene: "Scene | SceneRecord") -> SceneRecord:
    if isinstance(scene, SceneRecord):
        return scene
    return SceneRecord(scene._state.key, scene.id, scene.name, scene.stiffness)


@dataclass(frozen=True, slots=True)
class BodyRecord:
    """What a result that comes out of a pickle knows of a body; Body has its attributes."""

    scene: SceneRecord
    id: int
    kind: int
    vertices: int


def _result_again(scene: SceneRecord, bodies: list[BodyRecord], answer: Decoded, want: int, sequence: int, latency: float,
                  carried: NDArray[np.float64] | None) -> StepResult:
    result = StepResult(scene, answer, {body.id: body for body in bodies}, want, sequence, latency)  # type: ignore
    result._carried = carried
    return result


def _contact_again(result: StepResult, is_cell: bool, number: int) -> Contact:
    return Contact(result, result.cells if is_cell else result, number)


def _merged(vertices: np.ndarray, rows: np.ndarray, parts: Sequence[slice],
            ) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """The vertices of the parts, each once, in rising order, and the sums of their rows."""
    if len(parts) == 1:
        return vertices[parts[0]], rows[parts[0]]
    merged, at = np.unique(np.concatenate([vertices[part] for part in parts]), return_inverse=True)
    total = np.zeros((merged.size,) + rows.shape[1:])
    np.add.at(total, at, np.concatenate([rows[part] for part in parts]))
    return merged, total


def _warning_name(code: int) -> str:
    try:
        return ENUMS["WarningCode"](code).name
    except ValueError:
        return f"WARNING_{code}"
