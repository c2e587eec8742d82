"""Messages to bytes and back: a FlatBuffers writer and reader driven by the tables of _schema.

For _connection, its parts and result. Messages are dictionaries of the schema's names; absent fields are left out. Large
arrays travel as frames of their own and are never copied; small ones go inline. Steps are on the hot path, so each
combination of fields is laid out once and then packed or unpacked by a single struct call.
"""

from __future__ import annotations

import functools
import struct
from operator import itemgetter
from typing import Any, Mapping, Sequence

import numpy as np

from . import _schema
from ._schema import SIZES, TABLES, UNION, UNION_NUMBER, Field, Table

VERSION = 1
MAX_FRAMES = 16  # array frames after the header
FEW_TABLES = 2  # that are quicker read by themselves than all together
INLINE_BYTES = 65536  # arrays of one message up to this total go into the header

_DTYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 2: np.dtype("<f8"), 3: np.dtype("<u4"), 4: np.dtype("u1"), 5: np.dtype("<u8")}
_DTYPE_NUMBERS = {d: n for n, d in _DTYPES.items()}
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_U16 = struct.Struct("<H")
_ONE = {format: struct.Struct("<" + format).unpack_from for format in SIZES}  # one number

Buffer = bytes | bytearray | memoryview


@functools.lru_cache(256)
def _numbers(fmt: str, n: int) -> struct.Struct:
    return struct.Struct(f"<{n}{fmt}")


class MalformedMessage(Exception):
    """The bytes are not a message of this protocol."""


# ---- writing -----------------------------------------------------------------------------------------------------


def _size(f: Field) -> int:
    return SIZES[f.format] if f.kind == "scalar" else 4


class _Layout:
    """How a table with one particular set of fields is laid out: its vtable, one struct for all its scalars, and where
    the offsets of its children go."""

    __slots__ = ("vtable", "align", "pack", "scalars", "children")

    def __init__(self, table: Table, present: frozenset[str]) -> None:
        fields = [f for f in table.fields if f.name in present]
        unknown = present - {f.name for f in fields}
        if unknown:
            raise KeyError(f"{table.name} has no field {', '.join(sorted(unknown))}")
        placed, position, form = [], 4, "<i"
        for f in sorted(fields, key=lambda f: (-_size(f), f.id)):
            size = _size(f)
            pad = -position % size
            form += f"{pad}x" * (pad > 0) + (f.format if f.kind == "scalar" else "4x")
            position += pad
            placed.append((f, position))
            position += size
        offsets = [0] * (max((f.id for f in fields), default=-1) + 1)
        for f, at in placed:
            offsets[f.id] = at
        self.vtable = struct.pack(f"<HH{len(offsets)}H", 4 + 2 * len(offsets), position, *offsets)
        self.align = max([4] + [_size(f) for f in fields])
        self.pack = struct.Struct(form).pack
        names = [f.name for f, _ in placed if f.kind == "scalar"]
        self.scalars: Any = itemgetter(*names) if len(names) > 1 else lambda values: [values[name] for name in names]
        self.children: list[Any] = [(f, f.name, at, _WRITERS[f.kind]) for f, at in placed if f.kind != "scalar"]


def _write_table(out: bytearray, table: Table, values: Mapping[str, Any]) -> int:
    key = tuple(values)
    layout = table.layouts.get(key)
    if layout is None:
        layout = table.layouts[key] = _Layout(table, frozenset(key))
    vtable = len(out)
    if vtable & 1:
        out.append(0)
        vtable += 1
    start = vtable + len(layout.vtable)
    pad = -start % layout.align
    if pad:  # the vtable moves instead, so that the padding needs no second append
        out += b"\0" * pad
        vtable += pad
        start += pad
    out += layout.vtable
    out += layout.pack(start - vtable, *layout.scalars(values))
    for f, name, at, write in layout.children:
        at += start
        _U32.pack_into(out, at, write(out, f, values[name]) - at)
    return start


def _write_string(out: bytearray, _f: Field, value: str) -> int:
    data = value.encode("utf-8", "replace")
    out += b"\0" * (-len(out) % 4)
    at = len(out)
    out += _U32.pack(len(data)) + data + b"\0"
    return at


def _write_vector(out: bytearray, f: Field, value: Any) -> int:
    size = SIZES[f.format]
    align = max(f.align, size, 4)
    out += b"\0" * (-(len(out) + 4) % align)
    at = len(out)
    if size == 1:  # bytes, or anything with the buffer interface
        data = memoryview(value).cast("B")
        out += _U32.pack(len(data))
        out += data
    else:
        out += _U32.pack(len(value))
        out += _numbers(f.format, len(value)).pack(*value)
    return at


def _write_offsets(out: bytearray, f: Field, value: Sequence[Any], write: Any) -> int:
    out += b"\0" * (-len(out) % 4)
    at = slot = len(out)
    out += _U32.pack(len(value)) + b"\0" * (4 * len(value))
    for element in value:
        slot += 4
        _U32.pack_into(out, slot, write(out, f, element) - slot)
    return at


def _write_child(out: bytearray, f: Field, value: Mapping[str, Any]) -> int:
    return _write_table(out, f.table, value)


_WRITERS: dict[str, Any] = {
    "string": _write_string,
    "vector": _write_vector,
    "table": _write_child,
    "union": lambda out, f, value: _write_table(out, TABLES[value[0]], value[1]),
    "tables": lambda out, f, value: _write_offsets(out, f, value, _write_child),
    "strings": lambda out, f, value: _write_offsets(out, f, value, _write_string),
}


class Arrays:
    """Collects the arrays of one message, then decides which go inline and which into frames.

    Inline while their total stays within INLINE_BYTES; else each that is large gets a frame, and where there are more
    than MAX_FRAMES of them the smallest go inline.
    """

    def __init__(self) -> None:
        self._tables: list[tuple[dict[str, Any], np.ndarray]] = []
        self.frames: list[Buffer] = []
        self._placed = False

    def add(self, array: np.ndarray) -> dict[str, Any]:
        """A table `Array` for a C-contiguous little-endian array; it becomes valid with `place`."""
        table: dict[str, Any] = {"dtype": _DTYPE_NUMBERS[array.dtype], "count": array.size}
        self._tables.append((table, array))
        return table

    def of(self, table: dict[str, Any]) -> np.ndarray:
        """The array that `add` gave this table for."""
        return next(array for known, array in self._tables if known is table)

    @property
    def empty(self) -> bool:
        return not self._tables

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for _, array in self._tables)

    def place(self) -> None:
        """Decides; once, so that the message can be sent again."""
        if self._placed:
            return
        self._placed = True
        framed: set[int] = set()
        if sum(a.nbytes for _, a in self._tables) > INLINE_BYTES:
            by_size = sorted(range(len(self._tables)), key=lambda i: -self._tables[i][1].nbytes)
            few = len(by_size) <= MAX_FRAMES
            framed = {i for i in by_size[:MAX_FRAMES] if few or self._tables[i][1].nbytes > 0}
        for i, (table, array) in enumerate(self._tables):
            data: Any = array.reshape(-1).view("u1").data if array.size else b""
            if i in framed and array.size:
                self.frames.append(data)
                table["frame"] = len(self.frames)
            else:
                table["bytes"] = data


def encode(kind: str, body: Mapping[str, Any], *, request: int, session: int = 0, epoch: int = 0,
           traceparent: str | None = None) -> bytes:
    """Frame 0 of a message: `kind` is a member of the schema's union Body."""
    out = bytearray(b"\0\0\0\0" + _schema.IDENTIFIER)
    message = {"request": request, "session": session, "epoch": epoch, "body_type": UNION_NUMBER[kind],
               "body": (kind, body)}
    if traceparent:
        message["traceparent"] = traceparent
    _U32.pack_into(out, 0, _write_table(out, TABLES["Message"], message))
    return bytes(out)


# ---- reading -----------------------------------------------------------------------------------------------------


class _Reader:
    """How to read tables that share one vtable: a struct for everything stored in the table itself, the offsets of
    children included, and how to read those."""

    __slots__ = ("unpack", "names", "children", "defaults", "places")

    def __init__(self, table: Table, vtable: bytes) -> None:
        offsets = struct.unpack(f"<{len(vtable) // 2}H", vtable)[2:]
        self.defaults: dict[str, Any] = {f.name: f.default for f in table.fields}
        here = sorted(((offsets[f.id], f) for f in table.fields if f.id < len(offsets) and offsets[f.id]),
                      key=lambda pair: pair[0])
        position, form = 4, "<4x"
        self.names = [f.name for _, f in here]
        self.children: list[tuple[str, int, Any, Field]] = [(f.name, at, _READERS[f.kind], f) for at, f in here if f.kind != "scalar"]
        for at, f in here:
            if at < position:
                raise MalformedMessage(f"{table.name}: overlapping fields")
            fmt = f.format if f.kind == "scalar" else "I"
            form += f"{at - position}x" * (at > position) + fmt
            position = at + SIZES[fmt]
        self.unpack = struct.Struct(form).unpack_from
        self.places: dict[str, tuple[int, Any, Any, Field]] = {f.name: (at, _ONE[f.format if f.kind == "scalar" else "I"], _READERS.get(f.kind), f) for at, f in here}


def read_table(buffer: bytes, position: int, table: Table) -> dict[str, Any]:
    """All fields of a table, absent ones at their defaults; tables inside are read too.

    Vectors of numbers come as tuples, of bytes as memoryviews; the tables of a vector as a list of dictionaries. What
    _LATER names comes as Later, or LaterTables.
    """
    reader = _reader_of(buffer, position, table)
    values = reader.defaults.copy()
    values.update(zip(reader.names, reader.unpack(buffer, position)))
    for name, at, read, f in reader.children:
        values[name] = read(buffer, position + at + values[name], f)
    return values


def _reader_of(buffer: bytes, position: int, table: Table) -> _Reader:
    vtable = position - _I32.unpack_from(buffer, position)[0]
    if vtable < 0 or position < 0:
        raise MalformedMessage(f"{table.name}: an offset leads outside the message")
    key = buffer[vtable : vtable + _U16.unpack_from(buffer, vtable)[0]]
    reader: _Reader | None = table.readers.get(key)
    if reader is None:
        if len(key) < 4 or len(key) % 2 or len(key) != _U16.unpack_from(buffer, vtable)[0]:
            raise MalformedMessage(f"{table.name}: not a table")
        if len(table.readers) > 256:  # one per combination of fields; more is someone's noise
            table.readers.clear()
        reader = table.readers[key] = _Reader(table, key)
    return reader


def _length(buffer: bytes, at: int, size: int) -> int:
    """Of the vector here, whose elements have so many bytes and lie inside the message."""
    n: int = _U32.unpack_from(buffer, at)[0]
    if at + 4 + n * size > len(buffer):
        raise MalformedMessage("a vector reaches outside the message")
    return n


def _read_string(buffer: bytes, at: int, _f: Field) -> str:
    n = _length(buffer, at, 1)
    return buffer[at + 4 : at + 4 + n].decode("utf-8", "replace")


def _read_vector(buffer: bytes, at: int, f: Field) -> Any:
    n = _length(buffer, at, SIZES[f.format])
    if f.format == "B":
        return memoryview(buffer)[at + 4 : at + 4 + n]
    return _numbers(f.format, n).unpack_from(buffer, at + 4)


def _offsets(buffer: bytes, at: int) -> list[int]:
    n = _length(buffer, at, 4)
    return [at + 4 + 4 * i + o for i, o in enumerate(_numbers("I", n).unpack_from(buffer, at + 4))]


class Later:
    """A table that is read when it is first looked at: what a step answers, of which few use all."""

    __slots__ = ("buffer", "position", "table")

    def __init__(self, buffer: bytes, position: int, table: Table) -> None:
        self.buffer, self.position, self.table = buffer, position, table

    def read(self) -> dict[str, Any]:
        try:
            return read_table(self.buffer, self.position, self.table)
        except (struct.error, IndexError, KeyError, TypeError, ValueError) as e:
            raise MalformedMessage(f"{self.table.name}: {e}") from None


class LaterRow(Later):
    """One of many tables with many fields."""

    __slots__ = ("_reader",)

    def fields(self) -> "LaterRow":
        """Of which each is read when it is asked for."""
        try:
            self._reader = _reader_of(self.buffer, self.position, self.table)
        except (struct.error, IndexError) as e:
            raise MalformedMessage(f"{self.table.name}: {e}") from None
        return self

    def __getitem__(self, name: str) -> Any:
        place = self._reader.places.get(name)
        if place is None:
            return self._reader.defaults[name]
        at, unpack, read, f = place
        try:
            value = unpack(self.buffer, self.position + at)[0]
            return value if read is None else read(self.buffer, self.position + at + value, f)
        except (struct.error, IndexError, KeyError, TypeError, ValueError) as e:
            raise MalformedMessage(f"{self.table.name}.{name}: {e}") from None


class LaterTables:
    """A vector of tables of one type, read when it is looked at: one table, or a field of all of them at once."""

    __slots__ = ("buffer", "positions", "table", "_vtables", "_which", "_rows")

    def __init__(self, buffer: bytes, at: int, table: Table) -> None:
        n = _length(buffer, at, 4)
        self.buffer, self.table = buffer, table
        self.positions = at + 4 + 4 * np.arange(n) + np.frombuffer(buffer, "<u4", n, at + 4)
        self._vtables: list[tuple[int, ...]] | None = None  # the different ones: offsets of the fields
        self._which: np.ndarray = self.positions  # of these, each table's; once there are _vtables
        self._rows: list[LaterRow] | None = None  # of few tables, which are read one by one

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, i: int) -> "LaterRow":
        return LaterRow(self.buffer, int(self.positions[i]), self.table)

    def column(self, name: str, shape: tuple[int, ...] = ()) -> np.ndarray:
        """The field of all tables, a row each; of a vector, its numbers in this shape. Where a table has no field, the
        default; where it has no vector, NaN or 0."""
        f = self._field(name)
        if len(self) <= FEW_TABLES:
            return self._column_of_few(f, shape)
        try:
            at = self.positions + self._offsets_of(f)
            is_there = at != self.positions
            whole = bool(is_there.all())
            if not whole:
                at = at[is_there]
            if f.kind == "scalar":
                values = self._numbers(f.format, at)
                missing = f.default
            else:
                count = int(np.prod(shape))
                at = at + self._numbers("I", at)
                if (self._numbers("I", at) != count).any():
                    raise MalformedMessage(f"{self.table.name}.{name}: not {count} numbers")
                values = self._numbers(f.format, at + 4, count).reshape(-1, *shape)
                missing = np.nan if f.format in "fd" else 0
            if whole:
                return values
            out = np.full((len(self), *shape), missing, values.dtype)
            out[is_there] = values
            return out
        except (struct.error, IndexError) as e:
            raise MalformedMessage(f"{self.table.name}.{name}: {e}") from None

    def _column_of_few(self, f: Field, shape: tuple[int, ...]) -> np.ndarray:
        if self._rows is None:
            self._rows = [self[i].fields() for i in range(len(self))]
        values = [row[f.name] for row in self._rows]
        if f.kind != "scalar":
            count = int(np.prod(shape))
            missing = (np.nan if f.format in "fd" else 0,) * count
            values = [missing if value is None else value for value in values]
            if any(len(value) != count for value in values):
                raise MalformedMessage(f"{self.table.name}.{f.name}: not {count} numbers")
        return np.array(values, "<" + f.format).reshape(-1, *shape)

    def has(self, name: str) -> bool:
        """Whether the first table has this field."""
        return bool(len(self)) and bool(self._offsets_of(self._field(name))[0])

    def _field(self, name: str) -> Field:
        return next(f for f in self.table.fields if f.name == name)

    def _offsets_of(self, f: Field) -> np.ndarray:
        """From the beginning of each table to its field; 0: it has none."""
        if self._vtables is None:
            found, self._which = np.unique(self.positions - self._numbers("i", self.positions), return_inverse=True)
            sizes = self._numbers("H", found)
            self._vtables = [tuple(self._numbers("H", at + 2 * np.arange(2, size // 2)).tolist())
                             for at, size in zip(found.tolist(), sizes.tolist())]
        offsets = np.array([fields[f.id] if f.id < len(fields) else 0 for fields in self._vtables], np.int64)
        return np.asarray(offsets[self._which])

    def _numbers(self, fmt: str, at: np.ndarray, count: int = 0) -> np.ndarray:
        """The number of this format at each of these places, or a row of so many. FlatBuffers aligns numbers to their
        size."""
        size = SIZES[fmt]
        if at.size and (int(at.min()) < 0 or (at & (size - 1)).any()):
            raise MalformedMessage(f"{self.table.name}: an offset leads outside the message, or between numbers")
        all_numbers: np.ndarray = np.frombuffer(self.buffer, "<" + fmt, len(self.buffer) // size)
        if count and len(all_numbers) < count:
            raise MalformedMessage(f"{self.table.name}: a vector reaches outside the message")
        rows = np.lib.stride_tricks.sliding_window_view(all_numbers, count) if count else all_numbers
        return np.asarray(rows[at >> size.bit_length() - 1])


_LATER = {TABLES["Contact"], TABLES["Array"]}


def _read_child(buffer: bytes, at: int, f: Field) -> Any:
    return Later(buffer, at, f.table) if f.table in _LATER else read_table(buffer, at, f.table)


def _read_children(buffer: bytes, at: int, f: Field) -> Any:
    if f.table in _LATER:
        return LaterTables(buffer, at, f.table)
    return [read_table(buffer, p, f.table) for p in _offsets(buffer, at)]


_READERS = {
    "string": _read_string,
    "vector": _read_vector,
    "table": _read_child,
    "union": lambda buffer, at, f: at,  # decode() reads it, once it knows the type
    "tables": _read_children,
    "strings": lambda buffer, at, f: [_read_string(buffer, p, f) for p in _offsets(buffer, at)],
}


class Decoded:
    """A received message."""

    __slots__ = ("kind", "body", "request", "session", "epoch", "header", "frames", "_arrays")

    kind: str
    body: dict[str, Any]
    request: int
    session: int
    epoch: int
    header: bytes
    frames: Sequence[Buffer]
    _arrays: dict[str, np.ndarray | None]

    def __reduce__(self) -> tuple[Any, ...]:
        return decode, ([bytes(frame) for frame in (self.header, *self.frames)],)

    def array(self, name: str) -> np.ndarray | None:
        """The array in field `name` as a read-only one-dimensional view of the message, or None where absent."""
        if name not in self._arrays:
            self._arrays[name] = array_of(self.body[name], self.frames, name)
        return self._arrays[name]


def array_of(later: Later | None, frames: Sequence[Buffer], name: str) -> np.ndarray | None:
    if later is None:
        return None
    table = later.read()
    if table["dtype"] == 0:
        return None
    dtype = _DTYPES.get(table["dtype"])
    if dtype is None:
        raise MalformedMessage(f"{name}: unknown dtype {table['dtype']}")
    if table["frame"] > len(frames):
        raise MalformedMessage(f"{name}: frame {table['frame']} of {len(frames)}")
    data = frames[table["frame"] - 1] if table["frame"] else table["bytes"]
    if data is None:
        data = b""
    if len(data) != table["count"] * dtype.itemsize:
        raise MalformedMessage(f"{name}: {len(data)} bytes for {table['count']} numbers of {dtype.itemsize}")
    array: np.ndarray = np.frombuffer(data, dtype)
    array.flags.writeable = False
    return array


def decode(frames: Sequence[Buffer]) -> Decoded:
    """Raises MalformedMessage for anything that is not a message of this protocol."""
    header = bytes(frames[0])  # the tables; large arrays have frames of their own, which are not copied
    try:
        if header[4:8] != _schema.IDENTIFIER:
            raise MalformedMessage("no CTD1 identifier")
        message = read_table(header, _U32.unpack_from(header, 0)[0], TABLES["Message"])
        out = Decoded()
        table = UNION[message["body_type"]] if message["body_type"] < len(UNION) else None
        if table is None or message["body"] is None:
            raise MalformedMessage(f"unknown message type {message['body_type']}")
        out.kind = table.name
        out.body = read_table(header, message["body"], table)
        out.request, out.session, out.epoch = message["request"], message["session"], message["epoch"]
        out.header, out.frames = header, frames[1:]
        out._arrays = {}
        return out
    except (struct.error, IndexError, KeyError, TypeError, ValueError) as e:
        raise MalformedMessage(str(e)) from None
