"""All contacts of a result at once, as arrays: row i is of contact i. For result."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._contact_columns import COLUMNS, ContactColumns
from ._schema import TABLES
from ._want import FORCES, FRAME, GRADIENT, IDS, INERTIA, WEIGHTS, not_asked
from .errors import ErrorCode, error_for

_TOLD_BY = {"slip": "relative_velocity", "law": "wrench_a"}  # groups that no wish tells, by a field that all have
_WANTED_FOR = {"frame": FRAME, "slip": FRAME, "inertia": INERTIA, "ids": IDS}  # by a column's group


class AllPoints(NamedTuple):
    """The points of all contacts, one contact's after the other's; see Points."""

    position: NDArray[np.float64]  # (m, 3) m, world
    normal: NDArray[np.float64]  # (m, 3)
    depth: NDArray[np.float64]  # (m,) m
    weight: NDArray[np.float64]  # (m,)
    group: NDArray[np.uint32]  # (m, 2)
    area: NDArray[np.float64]  # (m,) m^2
    contact: NDArray[np.int64]  # (m,) row of the contact
    id: NDArray[np.int64]  # (m,) as Contact.id, of steps that want ids; else 0
    offsets: NDArray[np.int64]  # (n + 1,) contact i has the rows from offsets[i] to offsets[i + 1]


class Source:
    """What has answered a step, for its columns."""

    _answer: Any  # as _wire.Decoded
    _by_id: Mapping[int, Any]  # the server's bodies, in the order of `bodies`
    want: int

    def _check_asked(self, want: int, name: str) -> None:
        if want & ~self.want:
            raise not_asked(want, name)

    def _array(self, name: str, want: int, columns: int = 1) -> np.ndarray:
        self._check_asked(want, name)
        array: np.ndarray | None = self._answer.array(name)
        if array is None:
            array = np.zeros(0, _DTYPES.get(name, "<f8"))
        return array if columns == 1 else array.reshape(-1, columns)


# Of arrays that an answer leaves out where it has none; all others have doubles.
_DTYPES = {"vertices": "<u4", "product_vertices": "<u4", "surface_offsets": "<u4", "point_groups": "<u4", "progress": "<u4",
           "point_ids": "<u8", "ended_ids": "<u8", "spans": "<f4", "span_axes": "u1"}


class Entries:
    """The vertices of all contacts at which the volume has a gradient, and what is known of each: one row a vertex.

    Those of contact i and side s (0 or 1, of body_pairs[i, s]) are the rows from offsets[i, s, 0] to offsets[i, s, 1].
    What the step did not ask for is an error that names `want`.
    """

    def __init__(self, result: Source, first: NDArray[np.int64], count: NDArray[np.int64]) -> None:
        self._result = result
        self.offsets = np.stack([first, first + count], axis=2)  # (n, 2, 2)

    @property
    def vertex(self) -> NDArray[np.uint32]:
        """(k,) of the side's body."""
        return self._result._array("vertices", 0)

    @property
    def gradient(self) -> NDArray[np.float64]:
        """(k, 3) m^2: dV/dx of the contact's volume, world axes."""
        return self._result._array("gradient", GRADIENT, 3)

    @property
    def weight(self) -> NDArray[np.float64]:
        """(k,) m^2: friction weights, normal . dV/dx."""
        return self._result._array("weights", WEIGHTS)

    @property
    def force(self) -> NDArray[np.float64]:
        """(k, 3) N: -stiffness V dV/dx by the law "volume", or the pressure's forces, without friction."""
        return self._result._array("forces", FORCES, 3)

    def __repr__(self) -> str:
        return f"<Entries of {len(self.offsets)} contacts: {len(self.vertex)}>"


def values_of(tables: Any, field: str, shape: tuple[int, ...]) -> np.ndarray:
    """As the wire's table has it; whole numbers as int64, flags as bool."""
    values: np.ndarray
    if tables is None:
        number = next(f.format for f in TABLES["Contact"].fields if f.name == field)
        values = np.zeros((0, *shape), "<" + number)
    else:
        values = tables.column(field, shape)
    return values if values.dtype.kind in "fb" else values.astype(np.int64)


def _places(known: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of each id, its place among those that are known. These rise, unless bodies came and went."""
    if not len(known) and ids.size:
        raise error_for(ErrorCode.MALFORMED, "a contact of a body that the scene does not have", object="server")
    found = known.searchsorted(ids)
    if ids.size and not (known.take(found, mode="clip") == ids).all():
        order = known.argsort()
        found = order.take(known[order].searchsorted(ids), mode="clip")
        if (known[found] != ids).any():
            raise error_for(ErrorCode.MALFORMED, "a contact of a body that the scene does not have", object="server")
    return found


class Columns(ContactColumns):
    """Columns of a result's contacts, or of its cells. Each is made when it is first looked at, and kept; its memory is its
    own, so that DLPack takes it, too. What `entries` has is a view of the message, and read-only."""

    def __init__(self, result: Source | None, field: str) -> None:
        self._result, self._in = result, field  # of the answer; None: its own, and no cycle that keeps it until one is looked for
        self._made: dict[str, np.ndarray] = {}

    @property
    def _of(self) -> Source:
        return self if self._result is None else self._result  # type: ignore[return-value]

    @property
    def _tables(self) -> Any:  # LaterTables or what stands for it; None: there are none
        return self._of._answer.body[self._in]

    def __len__(self) -> int:
        return 0 if self._tables is None else len(self._tables)

    def _is_given(self, name: str) -> bool:
        """Whether the step has asked for the column, or had what it needs."""
        column = COLUMNS[name]
        if column.group in _TOLD_BY and not (len(self) and self._tables.has(_TOLD_BY[column.group])):
            return False
        return not _WANTED_FOR.get(column.group, 0) & ~self._of.want and column.group != "cell"

    def _column(self, name: str) -> np.ndarray:
        made = self._made.get(name)
        if made is None:
            column, tables = COLUMNS[name], self._tables
            if (wanted := _WANTED_FOR.get(column.group, 0)):
                self._of._check_asked(wanted, column.name)
            if column.group in _TOLD_BY and tables and not tables.has(_TOLD_BY[column.group]):
                raise no_velocities() if column.group == "slip" else no_law()
            part_shape = (6,) if column.is_symmetric else column.shape[len(column.fields) > 1:]
            if len(column.fields) == 1:
                values = values_of(tables, column.fields[0], part_shape)
            elif hasattr(tables, "both_sides"):
                values = tables.both_sides(column.fields[0])
            else:
                values = np.empty((len(tables or ()), *column.shape))
                for part, field in enumerate(column.fields):
                    values[:, part] = values_of(tables, field, part_shape)
            if column.is_symmetric:
                values = values[:, [[0, 3, 5], [3, 1, 4], [5, 4, 2]]]
            made = self._made[name] = values
        return made

    def _field(self, field: str, shape: tuple[int, ...] = ()) -> np.ndarray:
        return values_of(self._tables, field, shape)

    @property
    def body_pairs(self) -> NDArray[np.int64]:
        """(n, 2) which of the result's `bodies` a contact is of, in the order of Contact.bodies."""
        made = self._made.get("body_pairs")
        if made is None:
            tables = self._tables
            pairs = np.empty((len(tables or ()), 2), np.int64)
            for side in range(2 * bool(tables)):
                pairs[:, side] = tables.column("body_" + "ab"[side])
            made = self._made["body_pairs"] = _places(np.fromiter(self._of._by_id, np.int64, len(self._of._by_id)), pairs)
        return made

    @property
    def _counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(n, 2) each: of both sides, the first entry and their number."""
        first, count = (np.stack([self._field(f"{name}_{side}") for side in "ab"], axis=1).astype(np.int64)
                        for name in ("first", "count"))
        return first, count

    @property
    def entries(self) -> Entries:
        """The gradients' entries of all contacts."""
        return Entries(self._of, *self._counts)


def table_of(result: ContactColumns, is_given: Callable[[str], bool], **first: np.ndarray) -> dict[str, np.ndarray]:
    """What is given of each contact, behind what comes first: arrays (n,), several where a column has more numbers a contact."""
    out = dict(first)
    for name, column in COLUMNS.items():
        if not is_given(name):
            continue
        values = getattr(result, name)
        if not column.shape:
            out[name] = values
        for at in np.ndindex(*column.shape) if column.shape else ():
            out["_".join([name, *map(str, at)])] = values[(slice(None), *at)]
    return out


def points_of(result: Columns) -> AllPoints:
    source, counts = result._of, result._field("n_points").astype(np.int64)
    rows = ranges(result._field("first_point").astype(np.int64), counts)
    numbers, groups = source._array("points", 0, 8)[rows], source._array("point_groups", 0, 2)[rows]
    contact = np.repeat(np.arange(len(counts)), counts)
    area = np.where(np.isnan(result._field("volume_lower")), result._field("area"), np.nan)[contact] * numbers[:, 7]
    parts = (numbers[:, :3], numbers[:, 3:6], numbers[:, 6], numbers[:, 7], groups, area, contact, point_ids(source)[rows],
             np.concatenate(([0], np.cumsum(counts))))
    return AllPoints(*parts)


def point_ids(result: Source) -> NDArray[np.int64]:
    """Of all points of the answer; 0 where the step did not want ids."""
    ids = result._array("point_ids", 0)
    return ids.astype(np.int64) if len(ids) else np.zeros(len(result._array("points", 0, 8)), np.int64)


def ranges(first: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """first[0], first[0] + 1, ..., count[0] of them, then those from first[1], and so on."""
    ends = np.cumsum(count)
    return np.repeat(first - (ends - count), count) + np.arange(ends[-1] if len(ends) else 0)


def no_velocities() -> Exception:
    return error_for(ErrorCode.INVALID_ARGUMENT, "the step had no velocities: step(..., velocities=...)", field="velocities")


def no_law() -> Exception:
    return error_for(ErrorCode.INVALID_ARGUMENT, 'the scene has another law: open_scene(law="pressure")', field="law")
