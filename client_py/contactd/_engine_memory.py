"""What the engine in this process has in its memory, as answers of servers have it: tables of contacts, answers, and the library that reads
its structs. For _engine, the link."""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

import numpy as np

from . import _native
from ._interrupt import interrupts
from .errors import ContactdError, ErrorCode, error_for


class EngineTables:
    """An array of ct_contact where answers of servers have tables; see _wire.LaterTables."""

    __slots__ = ("_rows", "_left_out", "_owner")

    def __init__(self, rows: np.ndarray, left_out: frozenset[str], owner: Any = None) -> None:
        self._rows, self._left_out = rows, left_out  # fields that a server would leave out
        self._owner = owner  # of the rows' memory

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, i: int) -> "EngineRow":
        return EngineRow(self._rows[i].tobytes(), self._rows.dtype, self._left_out)

    def __reduce__(self) -> tuple[Any, ...]:
        return EngineTables, (np.array(self._rows), self._left_out)

    def column(self, name: str, shape: tuple[int, ...] = ()) -> np.ndarray:
        return _field(self._rows, name).copy()

    def both_sides(self, name: str) -> np.ndarray:
        """A field of both sides, by the first one's name: each row's cache lines are fetched once."""
        base = name.removesuffix("_a")
        return np.asarray(self._rows[_NAMES.get(base, base)]).copy()

    def has(self, name: str) -> bool:
        return name not in self._left_out


class EngineRow:
    """One of them, which unpacks what is asked for: numpy takes ten times as long for one field of one row."""

    __slots__ = ("_bytes", "_dtype", "_left_out")

    def __init__(self, row: bytes, dtype: np.dtype, left_out: frozenset[str]) -> None:
        self._bytes, self._dtype, self._left_out = row, dtype, left_out

    def fields(self) -> "EngineRow":
        return self

    def __getitem__(self, name: str) -> Any:
        if name in self._left_out:
            return None
        place = _PLACES.get(name)
        if place is None:
            place = _PLACES[name] = _place_of(self._dtype, name)
        values: tuple[Any, ...] = place.unpack(self._bytes, place.offset)
        if place.is_scalar:
            return values[0]
        if name == "inertia":
            return tuple(values[i] for i in (0, 4, 8, 1, 5, 6))
        return None if name == "error_bounds" and all(map(math.isnan, values)) else values


class _Place(NamedTuple):
    """Where a field lies in a ct_contact."""

    unpack: Any
    offset: int
    is_scalar: bool


_PLACES: dict[str, _Place] = {}  # by the field's name on the wire
_FORMATS = {"f8": "d", "f4": "f", "u8": "Q", "i8": "q", "u4": "I", "i4": "i", "u2": "H", "u1": "B", "b1": "?"}


def _place_of(dtype: np.dtype, name: str) -> _Place:
    fields: Any = dtype.fields
    base, _, side = name.rpartition("_")
    is_side = name not in fields and side in ("a", "b")
    field, offset = fields[name if name in fields else _NAMES.get(base, base) if is_side else _NAMES[name]][:2]
    shape = field.shape[is_side:]
    unpack = struct.Struct(f"<{math.prod(shape)}{_FORMATS[field.base.str[1:]]}")
    return _Place(unpack.unpack_from, offset + unpack.size * (is_side and side == "b"), not shape)


# The wire's name of a field of which a part, or another form, is in ct_contact.
_NAMES = {"generalized": "generalized_gradient", "side_centers": "side_center"}
_SLIP = frozenset({"relative_velocity", "friction_a", "friction_b"})
_LAW = frozenset({"wrench_a", "wrench_b", "extents", "axes"})


_LEFT_OUT = {(slip, law): frozenset({"cell"}) | (frozenset() if slip else _SLIP) | (frozenset() if law else _LAW)
             for slip in (False, True) for law in (False, True)}


def left_out_of(has_slip: bool, has_wrenches: bool) -> frozenset[str]:
    """Fields of contacts that a server would leave out."""
    return _LEFT_OUT[has_slip, has_wrenches]


def _field(rows: Any, name: str) -> np.ndarray:
    """A field of ct_contact by the name that it has on the wire."""
    if name in rows.dtype.names:
        values = rows[name]
        return np.asarray(values[..., [0, 1, 2, 0, 1, 2], [0, 1, 2, 1, 2, 0]] if name == "inertia" else values)
    base, _, side = name.rpartition("_")
    if side not in ("a", "b"):
        return np.asarray(rows[_NAMES[name]])
    values = rows[_NAMES.get(base, base)]
    at = values.ndim - (2 if base in ("generalized", "friction", "wrench") else 1)
    return np.asarray(values[(slice(None),) * at + ("ab".index(side),)])


class _Memory:
    """Memory of the engine's for numpy, which keeps its owner alive."""

    def __init__(self, owner: Any, address: int, shape: tuple[int, ...], dtype: Any) -> None:
        self._owner = owner
        self.__array_interface__ = {"version": 3, "data": (address, True), "shape": shape,
                                    "typestr": dtype.str, "descr": dtype.descr}


class StepAnswer:
    """The answer to a step, made of a ct_result as it is looked at; what an answer of a server has (_wire.Decoded)."""

    kind = "StepResult"

    def __init__(self, native: "Library", result: Any, settings: dict[str, Any], revision: int) -> None:
        self._native, self._result, self._settings, self._revision = native, result, settings, revision
        self._arrays: dict[str, np.ndarray | None] = {}
        self._body: _Body | None = None

    @property
    def body(self) -> "_Body":
        if self._body is None:
            self._body = _Body(self._native, self._result, self._settings, self._revision)
        return self._body

    def array(self, name: str) -> np.ndarray | None:
        if name not in self._arrays:
            self._arrays[name] = _array_of(self._native, self._result, name)
        return self._arrays[name]

    def __reduce__(self) -> tuple[Any, ...]:
        names = ("vertices", "gradient", "weights", "forces", "friction_forces", "spans", "span_axes", "product_vertices",
                 "products", "generalized_products", "points", "point_groups", "separations", "progress", "surface_polygons",
                 "surface_offsets", "surface_vertices", "point_ids", "ended_ids")
        return _answer_again, ({name: self.body[name] for name in _Body.MADE},
                               {name: np.array(a) for name in names if (a := self.array(name)) is not None})


def _array_of(native: "Library", r: Any, name: str) -> np.ndarray | None:
    """An array of an answer, by the name that it has on the wire; what it is a view of belongs to the ct_result r."""
    entries = {"vertices": ("<u4", 1), "gradient": ("<f8", 3), "weights": ("<f8", 1), "forces": ("<f8", 3),
               "friction_forces": ("<f8", 3)}
    if name in entries:
        dtype, columns = entries[name]
        return native.array(r, getattr(r, name), r.n_entries * columns, dtype)
    if name == "product_vertices":
        return native.array(r, r.product_vertices, r.n_products, "<u4")
    if name == "products":
        return native.array(r, r.products, r.n_products * r.n_directions * 3, "<f8")
    if name == "generalized_products":
        return native.array(r, r.generalized_product, r.n_contacts * r.n_directions * 12, "<f8")
    if name == "surface_offsets":
        return native.array(r, r.polygon_first, r.n_polygons + 1, "<u4")
    if name in ("surface_polygons", "surface_vertices"):  # rows of doubles
        pointer, n, columns = ((r.polygons, r.n_polygons, 16) if name == "surface_polygons"
                               else (r.polygon_vertices, r.n_polygon_vertices, 5))
        return native.array(r, pointer, n * columns, "<f8")
    if name in ("spans", "span_axes"):
        rows = native.rows(r.spans, r.n_spans, "ct_span")
        if rows is None:
            return None
        return rows["axis"].astype("u1") if name == "span_axes" else np.hstack([rows["lower"], rows["upper"]]).ravel()
    if name == "ended_ids":
        return native.array(r, r.ended_ids, r.n_ended_ids, "<u8")
    if name in ("points", "point_groups", "point_ids"):
        rows = native.rows(r.points, r.n_points, "ct_point")
        if rows is None:
            return None
        if name == "point_groups":
            return rows["group"].copy()
        if name == "point_ids":
            return rows["id"].copy()
        return np.column_stack([rows["position"], rows["normal"], rows["depth"], rows["weight"]]).ravel()
    if name == "separations":
        rows = native.rows(r.separations, r.n_separations, "ct_separation")
        if rows is None:
            return None
        return np.column_stack([rows["body"], rows["distance"], rows["normal"], rows["point"].reshape(-1, 6)]).ravel()
    rows = native.rows(r.progress, r.n_progress, "ct_pair_progress")
    if rows is None:
        return None
    examined = rows["is_examined"].astype("<u4") + rows["is_refined"]
    return np.column_stack([rows["body"], examined, rows["level"], rows["ended"]]).astype("<u4").ravel()


class _Body(dict[str, Any]):
    """The fields of a step's answer, each made when it is first looked at."""

    MADE = ("contacts", "cells", "warnings", "timings_us", "wall_us", "rays", "fragments", "pairs", "ended", "passes", "quality",
            "method", "backend", "directions", "separations", "progress", "settings", "revision", "cached")

    def __init__(self, native: "Library", result: Any, settings: dict[str, Any], revision: int) -> None:
        super().__init__(settings=settings, revision=revision, cached=False, backend=native.backend)
        self._native, self._result = native, result

    def __missing__(self, name: str) -> Any:
        value = self[name] = self._make(name)
        return value

    def _make(self, name: str) -> Any:
        native, r = self._native, self._result
        if name in ("contacts", "cells"):
            rows = native.rows(getattr(r, name), getattr(r, "n_" + name), "ct_contact")
            left_out = left_out_of(r.has_slip, r.has_wrenches)
            if name == "cells":
                left_out = left_out - {"cell"} | _LAW
            return None if rows is None else EngineTables(rows, left_out, r)
        if name == "warnings":
            return [{"code": int(w.code), "body": w.body, "value": w.value} for w in r.warnings[0:r.n_warnings]]
        if name in ("timings_us", "wall_us"):
            seconds = r.seconds if name == "timings_us" else r.wall_seconds
            return [0.0, *(1e6 * s for s in seconds)]  # nothing waits in a queue here
        if name in ("separations", "progress"):
            return _array_of(native, r, name)  # which only tells whether there are any
        if name == "directions":
            return r.n_directions
        return getattr(r, name)


class _KeptAnswer:
    """A step's answer that comes out of a pickle."""

    kind = "StepResult"

    def __init__(self, body: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.body, self._arrays = body, arrays

    def array(self, name: str) -> np.ndarray | None:
        return self._arrays.get(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _answer_again, (self.body, self._arrays)


def _answer_again(body: dict[str, Any], arrays: dict[str, np.ndarray]) -> _KeptAnswer:
    return _KeptAnswer(body, arrays)


class Answer:
    """Another answer."""

    def __init__(self, kind: str, body: dict[str, Any], **arrays: np.ndarray) -> None:
        self.kind, self.body, self._arrays = kind, body, arrays

    def array(self, name: str) -> np.ndarray | None:
        return self._arrays.get(name)


class Library:
    """ffi and library, and what reads memory of theirs."""

    def __init__(self) -> None:
        self.ffi, self.lib = _native.load()
        self.interrupts = interrupts()
        self.backend = ""
        # Python may free objects while cffi looks up a type or a function, under its lock: what is called then is known.
        self._frees = {kind: (self.ffi.typeof(f"{kind} **"), getattr(self.lib, function)) for kind, function in (
            ("ct_result", "ct_result_free"), ("ct_scene", "ct_scene_destroy"), ("ct_mesh", "ct_mesh_release"),
            ("ct_engine", "ct_engine_destroy"))}
        self._dtypes: dict[str, np.dtype] = {}

    def text(self, chars: Any) -> str:
        return bytes(self.ffi.string(chars)).decode("utf-8", "replace")

    def check(self, status: int, error: Any, object: str) -> None:
        """Raises what a call has failed with."""
        if status:
            raise self.error(error, object)

    def error(self, error: Any, object: str, code: ErrorCode | None = None) -> ContactdError:
        code = code or ErrorCode[self.text(self.lib.ct_status_name(error.status))]
        return error_for(code, self.text(error.message), object=object, field=self.text(error.field))

    def free(self, kind: str, object: Any) -> None:
        """Frees an object of the engine's, or drops the reference to it."""
        pointer, function = self._frees[kind]
        function(self.ffi.new(pointer, object))

    def free_result(self, result: Any) -> None:
        late = self.interrupts.late
        if self.interrupts.is_here():
            late.append(result)
            return
        self.free("ct_result", result)
        while late:
            self.free("ct_result", late.popleft())

    def array(self, owner: Any, pointer: Any, count: int, dtype: str) -> np.ndarray | None:
        """A read-only view of count numbers; None: NULL."""
        if pointer == self.ffi.NULL:
            return None
        if not count:
            return np.zeros(0, dtype)
        return np.asarray(_Memory(owner, int(self.ffi.cast("uintptr_t", pointer)), (count,), np.dtype(dtype)))

    def rows(self, pointer: Any, count: int, struct: str) -> np.ndarray | None:
        """A view of an array of structs, which does not keep them alive; None: NULL, or none."""
        if pointer == self.ffi.NULL or not count:
            return None
        dtype = self.dtype(struct)
        return np.ndarray((count,), dtype, self.ffi.buffer(pointer, count * dtype.itemsize))

    def writable(self, memory: Any, count: int, struct: str) -> np.ndarray:
        """The same of memory of ours, which may be none; pointers in it are numbers."""
        return np.ndarray((count,), self.dtype(struct), self.ffi.buffer(memory)) if count else np.zeros(0, self.dtype(struct))

    def address(self, pointer: Any) -> int:
        return int(self.ffi.cast("uintptr_t", pointer))

    def dtype(self, struct: str) -> np.dtype:
        if struct not in self._dtypes:
            self._dtypes[struct] = self._dtype_of(struct)
        return self._dtypes[struct]

    def _dtype_of(self, struct: str) -> np.dtype:
        kinds = {"float": "<f4", "double": "<f8", "_Bool": "?", "bool": "?"}
        names, formats, offsets = [], [], []
        for name, field in self.ffi.typeof(struct).fields:
            item, shape = field.type, []
            while item.kind == "array":
                shape.append(item.length)
                item = item.item
            names.append(name)
            other = f"V{self.ffi.sizeof(item)}" if item.kind == "struct" else \
                f"<{'i' if item.cname.startswith('int') else 'u'}{self.ffi.sizeof(item)}"
            formats.append((kinds.get(item.cname, other), tuple(shape)))
            offsets.append(field.offset)
        return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": self.ffi.sizeof(struct)})
