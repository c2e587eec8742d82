"""The contact surface of a step, as arrays. For result."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._columns import Columns, Source, no_law, no_velocities
from ._want import SURFACE

_POLYGON, _VERTEX = 16, 5  # numbers of a row


class Surface:
    """Polygons between the two bodies of a contact: flat, convex, with corners counter-clockwise about their normals.

    Lines along the contact's normal run through both bodies. Where they begin on the surface of one and end on the other's is a
    polygon, at the same fraction of the way in all of a contact, which is as flat there as it can be. Polygon i has the
    vertices from polygons[i] to polygons[i + 1].

    With law="pressure" forces of a contact's polygons sum to its wrench: the law finds that by the contact's moments, and what
    the pressure place by place lacks of it, which is rounding where flat faces meet, is spread over the polygons.
    """

    def __init__(self, source: Source, columns: Columns, first: int, count: int, contact: NDArray[np.int64]) -> None:
        offsets = source._array("surface_offsets", SURFACE)[first:first + count + 1].astype(np.int64)
        corners = slice(offsets[0], offsets[-1]) if len(offsets) else slice(0, 0)
        self._columns = columns
        self._rows = source._array("surface_polygons", SURFACE, _POLYGON)[first:first + count]
        self._corners = source._array("surface_vertices", SURFACE, _VERTEX)[corners]
        self.polygons: NDArray[np.int64] = offsets - offsets[0] if len(offsets) else np.zeros(1, np.int64)  # (m + 1,)
        self.contact = contact  # (m,) row of the contact in the result

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def vertices(self) -> NDArray[np.float64]:
        """(v, 3) m, world."""
        return self._corners[:, :3]

    @property
    def depth(self) -> NDArray[np.float64]:
        """(v,) m, at the vertices: the length of the line inside both bodies; linear on each polygon."""
        return self._corners[:, 3]

    @property
    def pressure(self) -> NDArray[np.float64]:
        """(v,) Pa, at the vertices: modulus times depth, times 1 + dissipation times approach speed. Of law="pressure"."""
        self._check_law()
        return self._corners[:, 4]

    @property
    def center(self) -> NDArray[np.float64]:
        """(m, 3) m, world: centroids."""
        return self._rows[:, :3]

    @property
    def normal(self) -> NDArray[np.float64]:
        """(m, 3) unit vectors that push the contact's first body out."""
        return self._rows[:, 3:6]

    @property
    def area(self) -> NDArray[np.float64]:
        """(m,) m^2."""
        return self._rows[:, 6]

    @property
    def slip(self) -> NDArray[np.float64]:
        """(m, 3) m/s: of the second body's surface relative to the first's at the centroid, along the polygon. Of steps with
        velocities."""
        if len(self._columns) and not self._columns._is_given("relative_velocities"):
            raise no_velocities()
        return self._rows[:, 7:10]

    @property
    def force(self) -> NDArray[np.float64]:
        """(m, 3) N: of pressure and friction on the contact's first body; opposite on the second. Of law="pressure"."""
        self._check_law()
        return self._rows[:, 10:13]

    @property
    def torque(self) -> NDArray[np.float64]:
        """(m, 3) N m: of these, about the centroid. Of law="pressure"."""
        self._check_law()
        return self._rows[:, 13:16]

    def _check_law(self) -> None:
        if len(self._columns) and not self._columns._is_given("wrenches"):
            raise no_law()

    def __repr__(self) -> str:
        return f"<Surface: {len(self)} polygons>"


def surface_of(source: Source, columns: Columns) -> Surface:
    """That of all contacts, one contact's polygons after the other's."""
    counts = columns._field("n_polygons")
    return Surface(source, columns, 0, int(counts.sum()), np.repeat(np.arange(len(counts)), counts))
