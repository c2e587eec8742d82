"""Shapes that need no mesh of the caller's: spheres, boxes, capsules, cylinders, ellipsoids, height fields.

Each is made here as a closed mesh, or for a height field as an open one that the server closes. Vertices lie on the shape,
so a curved one is convex, lies inside the shape, and is nowhere further from it than its tolerance. client_c/shapes.c makes
the same vertices in the same order, so both clients share one mesh on a server.
"""

from __future__ import annotations

import hashlib
import math
import weakref
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _arrays
from ._state import MeshState
from .body import Body
from .errors import ErrorCode, error_for

if TYPE_CHECKING:
    from .client import Mesh

DEFAULT_TOLERANCE = 2e-3  # of the radius
LEAST_TOLERANCE = 1e-6  # of the largest half-extent: 6.6 million triangles of a sphere
_ROUNDING = 2.0**-23  # of the largest half-extent: more than float32 vertices are off
_DEVIATION = 0.85  # how far a sphere of radius 1 is from its mesh of 8 f^2 triangles, at most, times f^2


class Shape(NamedTuple):
    """Positions, m, and triangles counter-clockwise seen from outside."""

    vertices: NDArray[Any]
    triangles: NDArray[np.uint32]


# ---- triangles ----

def _hemisphere(f: int) -> NDArray[np.float64]:
    """Vertices of an octahedron's upper half, each edge in f parts, on the unit sphere: a pole, then rings of 4, 8, … 4 f.

    A vertex with weights a, b, c of a face's corners is at (sin a', sin b', sin c') scaled to length 1, a' = a pi / (2 f):
    triangles are then of nearly one size, and those along the axes' planes of equal angles."""
    sine = np.sin(np.arange(f + 1) * (math.pi / (2 * f)))
    sine[f] = 1.0
    rings = [np.array([[0.0, 0.0, 1.0]])]
    for i in range(1, f + 1):
        j = np.arange(i)
        x, y, z = sine[i - j], sine[j], np.full(i, sine[f - i])
        size = np.sqrt(x * x + y * y + z * z)
        x, y, z = x / size, y / size, z / size
        rings.append(np.concatenate([np.stack(quarter, 1) for quarter in ((x, y, z), (-y, x, z), (-x, -y, z), (y, -x, z))]))
    return np.concatenate(rings) + 0.0  # no -0, so that bits depend on numbers alone


def _hemisphere_triangles(f: int) -> NDArray[np.int64]:
    """Between ring i and i + 1, quarter by quarter."""
    def at(ring: int, k: NDArray[np.int64]) -> NDArray[np.int64]:
        return 2 * ring * (ring - 1) + 1 + k % (4 * ring) if ring else np.zeros_like(k)

    out = []
    for i in range(f):
        for quarter in range(4):
            j = np.arange(i + 1)
            inner, outer = at(i, quarter * i + j), at(i + 1, quarter * (i + 1) + j)
            next_outer = at(i + 1, quarter * (i + 1) + j + 1)
            out.append(np.stack([inner, outer, next_outer], 1))
            out.append(np.stack([inner[:-1], next_outer[:-1], inner[1:]], 1))
    return np.concatenate(out)


def _two_ends(half: NDArray[np.float64], faces: NDArray[np.int64], ring: int, length: float) -> Shape:
    """A cap, its mirror image, both moved apart along z, and a strip between their last rings of so many vertices."""
    n = len(half)
    up, down = half + (0.0, 0.0, length / 2), half * (1.0, 1.0, -1.0) - (0.0, 0.0, length / 2)
    here = np.arange(n - ring, n)
    beside = np.roll(here, -1)
    strip = np.concatenate([np.stack([here, here + n, beside], 1), np.stack([beside, here + n, beside + n], 1)])
    return Shape(np.concatenate([up, down]), np.concatenate([faces, faces[:, ::-1] + n, strip]).astype(np.uint32))


def sphere_of(f: int) -> Shape:
    """Of radius 1: 4 f^2 + 2 vertices, 8 f^2 triangles."""
    half, faces = _hemisphere(f), _hemisphere_triangles(f)
    inner, n = len(half) - 4 * f, len(half)
    below = np.where(faces < inner, faces + n, faces)  # both halves have the last ring
    vertices = np.concatenate([half, half[:inner] * (1.0, 1.0, -1.0)])
    return Shape(vertices, np.concatenate([faces, below[:, ::-1]]).astype(np.uint32))


def capsule_of(f: int, radius: float, length: float) -> Shape:
    return _two_ends(radius * _hemisphere(f), _hemisphere_triangles(f), 4 * f, length)


def cylinder_of(f: int, radius: float, height: float) -> Shape:
    """Of 4 f sides."""
    ring = _hemisphere(f)[-4 * f:] * (radius, radius, 0.0)
    k = np.arange(4 * f)
    disc = np.stack([np.zeros_like(k), 1 + k, 1 + (k + 1) % (4 * f)], 1)
    return _two_ends(np.concatenate([np.zeros((1, 3)), ring]), disc, 4 * f, height)


def box_of(x: float, y: float, z: float) -> Shape:
    """Corner k is on the upper side of axis a where bit a of k is set."""
    corners = np.array([[(k >> a & 1) - 0.5 for a in range(3)] for k in range(8)]) * (x, y, z)
    faces = ((0, 4, 6, 2), (1, 3, 7, 5), (0, 1, 5, 4), (2, 6, 7, 3), (0, 2, 3, 1), (4, 5, 7, 6))
    return Shape(corners, np.array([t for a, b, c, d in faces for t in ((a, b, c), (a, c, d))], np.uint32))


def height_field_of(heights: NDArray[np.float64], dx: float, dy: float) -> Shape:
    """Each cell is cut from its corner (i, j) to (i + 1, j + 1)."""
    n, m = heights.shape
    i, j = np.meshgrid(np.arange(n), np.arange(m), indexing="ij")
    number = (i * m + j)
    a, b, c, d = (part.ravel() for part in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]))
    triangles = np.stack([a, b, c, a, c, d], 1).reshape(-1, 3).astype(np.uint32)
    return Shape(np.stack([i * dx, j * dy, heights], -1).reshape(-1, 3), triangles)


# ---- what callers give ----

def _length(value: Any, field: str, shape: str) -> float:
    number = _arrays.real(value, field=field, object=shape)
    if not math.isfinite(number):
        raise error_for(ErrorCode.NON_FINITE, f"expected a finite number of m, got {number:g}", object=shape, field=field)
    if not number > 0:
        raise error_for(ErrorCode.OUT_OF_RANGE, f"expected more than 0 m, got {number:g}", object=shape, field=field)
    return number


def _allowed(tolerance: float | None, radius: float, half_extent: float, shape: str) -> float:
    """That the triangles may be off beside what rounding takes, as a part of the radius."""
    least = LEAST_TOLERANCE * half_extent
    given = max(DEFAULT_TOLERANCE * radius, least) if tolerance is None else _length(tolerance, "tolerance", shape)
    if given < least:
        raise error_for(ErrorCode.OUT_OF_RANGE, f"expected {least:g} m or more, {LEAST_TOLERANCE:g} of the largest half-extent, got "
                        f"{given:g} m", object=shape, field="tolerance")
    return (given - _ROUNDING * half_extent) / radius


def sphere_parts(allowed: float) -> int:
    """In how many parts an octahedron's edges are cut, so that a sphere of radius 1 is off by no more."""
    return max(1, math.ceil(math.sqrt(_DEVIATION / allowed)))


def circle_parts(allowed: float) -> int:
    """In how many parts a quarter of a circle of radius 1 is cut, likewise."""
    return max(1, math.ceil(math.pi / 4 / math.acos(max(1 - allowed, 0.5))))


def _rounded(shape: Shape, scale: float | tuple[float, float, float] = 1.0) -> Shape:
    return Shape((shape.vertices * scale).astype(np.float32), shape.triangles)


class ShapeMaker:
    """Meshes of shapes: for Client. The same shape is made and sent once, as long as a Mesh or a body of it is there."""

    def __init__(self) -> None:
        self._shapes: weakref.WeakValueDictionary[tuple[Any, ...], MeshState] = weakref.WeakValueDictionary()

    def _register(self, state: MeshState, timeout: float | None) -> "Mesh":
        raise NotImplementedError

    def _known_mesh(self, state: MeshState) -> "Mesh | None":
        """None: it was removed."""
        raise NotImplementedError

    def _shape(self, key: tuple[Any, ...], make: Callable[[], Shape], timeout: float | None,
               making: dict[str, Any] | None = None) -> "Mesh":
        state = self._shapes.get(key)
        if state is not None and (known := self._known_mesh(state)) is not None:
            return known
        shape = make()
        state = MeshState(key[0], np.ascontiguousarray(shape.vertices, shape.vertices.dtype.newbyteorder("<")),
                          np.ascontiguousarray(shape.triangles, "<u4"), making=making or {})
        mesh = self._register(state, timeout)
        self._shapes[key] = state
        return mesh

    def sphere(self, radius: float, *, tolerance: float | None = None, timeout: float | None = None) -> "Mesh":
        """A sphere about the origin.

        Args:
            radius: m.
            tolerance: m, how far its surface may be from the sphere's, inside; None: 2e-3 of the radius (3,528 triangles). The
                number of triangles goes as 1 / tolerance. At least 1e-6 of the radius.
        """
        r = _length(radius, "radius", "sphere")
        f = sphere_parts(_allowed(tolerance, r, r, "sphere"))
        return self._shape(("sphere", f, r), lambda: _rounded(sphere_of(f), r), timeout)

    def ellipsoid(self, radii: ArrayLike, *, tolerance: float | None = None, timeout: float | None = None) -> "Mesh":
        """An ellipsoid about the origin, its axes those of the body.

        Args:
            radii: (3,) m, the semi-axes along x, y and z.
            tolerance: m, as of sphere; None: 2e-3 of the largest of them.
        """
        given = _arrays.vector(radii, (3,), field="radii", object="ellipsoid")
        x, y, z = (_length(r, "radii", "ellipsoid") for r in given)
        largest = max(x, y, z)  # a map that stretches by so much at most makes it of a sphere of radius 1
        f = sphere_parts(_allowed(tolerance, largest, largest, "ellipsoid"))
        return self._shape(("ellipsoid", f, x, y, z), lambda: _rounded(sphere_of(f), (x, y, z)), timeout)

    def capsule(self, radius: float, length: float, *, tolerance: float | None = None, timeout: float | None = None) -> "Mesh":
        """A capsule about the origin along z: all points within `radius` of a line of that length.

        Args:
            radius: m.
            length: m, between the centres of its ends, without these.
            tolerance: m, as of sphere.
        """
        r, long = _length(radius, "radius", "capsule"), _length(length, "length", "capsule")
        f = sphere_parts(_allowed(tolerance, r, r + long / 2, "capsule"))
        return self._shape(("capsule", f, r, long), lambda: _rounded(capsule_of(f, r, long)), timeout)

    def cylinder(self, radius: float, height: float, *, tolerance: float | None = None, timeout: float | None = None) -> "Mesh":
        """A cylinder about the origin along z.

        Args:
            radius, height: m.
            tolerance: m, as of sphere; its ends are flat. None: 2e-3 of the radius.
        """
        r, high = _length(radius, "radius", "cylinder"), _length(height, "height", "cylinder")
        f = circle_parts(_allowed(tolerance, r, max(r, high / 2), "cylinder"))
        return self._shape(("cylinder", f, r, high), lambda: _rounded(cylinder_of(f, r, high)), timeout)

    def box(self, extents: ArrayLike, *, timeout: float | None = None) -> "Mesh":
        """A box about the origin.

        Args:
            extents: (3,) m, its whole sides along x, y and z. Its corners are exact, but for what a server rounds.
        """
        given = _arrays.vector(extents, (3,), field="extents", object="box")
        x, y, z = (_length(side, "extents", "box") for side in given)
        return self._shape(("box", x, y, z), lambda: box_of(x, y, z), timeout)

    def height_field(self, heights: ArrayLike, spacing: float | ArrayLike = 1.0, *, timeout: float | None = None) -> "Mesh":
        """Ground: the volume below heights on a grid, down to ten diagonals of it.

        Sample (i, j) is at x = i * spacing[0], y = j * spacing[1], z = heights[i, j]; the squares between are cut from (i, j) to
        (i + 1, j + 1). Walls stand at its border. It is an open surface, which the server closes: see open_direction of
        register_mesh.

        Args:
            heights: (n, m) m, n and m at least 2.
            spacing: m, between samples along x and y: one number or two.
        """
        array = _arrays.numbers(heights, "heights", "height field")
        if array.ndim != 2 or min(array.shape) < 2:
            raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape (n, m), both 2 or more, got {array.shape}", object="height field",
                            field="heights")
        if not np.isfinite(array).all():
            i, j = (int(k) for k in np.argwhere(~np.isfinite(array))[0])
            raise error_for(ErrorCode.NON_FINITE, f"expected finite numbers of m, got {array[i, j]:g} at [{i}, {j}]",
                            object="height field", field="heights")
        given = [spacing] * 2 if np.ndim(spacing) == 0 else _arrays.vector(spacing, (2,), field="spacing", object="height field")
        dx, dy = (_length(step, "spacing", "height field") for step in given)
        z = np.ascontiguousarray(array, "<f8")
        return self._shape(("height field", dx, dy, z.shape, hashlib.sha256(z.tobytes()).digest()),
                           lambda: height_field_of(z, dx, dy), timeout, {"open_direction": (0.0, 0.0, -1.0)})


class ShapeAdder:
    """Rigid bodies of shapes: for Scene. `pose`: as of add_body, None: the shape as it is made, about the scene's origin. What
    else there is of add_body (group, mask, ignore, modulus, friction, timeout and so on) is taken by name."""

    __slots__ = ()

    client: Any
    add_body: Any  # Scene's

    def _add_shape(self, mesh: "Mesh", pose: ArrayLike | None, options: dict[str, Any]) -> Body:
        body: Body = self.add_body(mesh, np.eye(4) if pose is None else pose, **options)
        return body

    def add_sphere(self, radius: float, pose: ArrayLike | None = None, *, tolerance: float | None = None, **options: Any) -> Body:
        """Adds a rigid sphere: Client.sphere, add_body."""
        return self._add_shape(self.client.sphere(radius, tolerance=tolerance, timeout=options.get("timeout")), pose, options)

    def add_ellipsoid(self, radii: ArrayLike, pose: ArrayLike | None = None, *, tolerance: float | None = None,
                      **options: Any) -> Body:
        """Adds a rigid ellipsoid: Client.ellipsoid, add_body."""
        return self._add_shape(self.client.ellipsoid(radii, tolerance=tolerance, timeout=options.get("timeout")), pose, options)

    def add_capsule(self, radius: float, length: float, pose: ArrayLike | None = None, *, tolerance: float | None = None,
                    **options: Any) -> Body:
        """Adds a rigid capsule along its z: Client.capsule, add_body."""
        return self._add_shape(self.client.capsule(radius, length, tolerance=tolerance, timeout=options.get("timeout")), pose,
                               options)

    def add_cylinder(self, radius: float, height: float, pose: ArrayLike | None = None, *, tolerance: float | None = None,
                     **options: Any) -> Body:
        """Adds a rigid cylinder along its z: Client.cylinder, add_body."""
        return self._add_shape(self.client.cylinder(radius, height, tolerance=tolerance, timeout=options.get("timeout")), pose,
                               options)

    def add_box(self, extents: ArrayLike, pose: ArrayLike | None = None, **options: Any) -> Body:
        """Adds a rigid box of whole sides `extents`: Client.box, add_body."""
        return self._add_shape(self.client.box(extents, timeout=options.get("timeout")), pose, options)

    def add_height_field(self, heights: ArrayLike, spacing: float | ArrayLike = 1.0, pose: ArrayLike | None = None,
                         **options: Any) -> Body:
        """Adds rigid ground below heights on a grid, its first sample at the origin of the pose: Client.height_field, add_body."""
        return self._add_shape(self.client.height_field(heights, spacing, timeout=options.get("timeout")), pose, options)
