"""Messages to bytes and back: a FlatBuffers writer and reader driven by the tables of _schema.

For _link and result. Messages are dictionaries of the schema's names; absent fields are left out. Large arrays travel as
frames of their own and are never copied; small ones go inline. Steps are on the hot path, so each combination of fields
is laid out once and then packed or unpacked by a single struct call.
"""

from __future__ import annotations

import struct
from typing import Any, Mapping, Sequence

import numpy as np

from . import _schema
from ._schema import SIZES, TABLES, UNION, UNION_NUMBER, Field, Table

VERSION = 1
MAX_FRAMES = 16  # array frames after the header
INLINE_BYTES = 65536  # arrays of one message up to this total go into the header

_DTYPES = {1: np.dtype("<f4"), 2: np.dtype("<f8"), 3: np.dtype("<u4"), 4: np.dtype("u1")}
_DTYPE_NUMBERS = {d: n for n, d in _DTYPES.items()}
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_VTABLE_HEAD = struct.Struct("<HH")

Buffer = bytes | bytearray | memoryview


class MalformedMessage(Exception):
    """The bytes are not a message of this protocol."""


# ---- writing -----------------------------------------------------------------------------------------------------


def _size(f: Field) -> int:
    return SIZES[f.format] if f.kind == "scalar" else 4


class _Layout:
    """How a table with one particular set of fields is laid out: its vtable, and one struct for all its fields."""

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
            form += f"{pad}x" * (pad > 0) + (f.format if f.kind == "scalar" else "I")
            position += pad
            placed.append((f, position))
            position += size
        offsets = [0] * (max((f.id for f in fields), default=-1) + 1)
        for f, at in placed:
            offsets[f.id] = at
        self.vtable = struct.pack(f"<HH{len(offsets)}H", 4 + 2 * len(offsets), position, *offsets)
        self.align = max([4] + [_size(f) for f in fields])
        self.pack = struct.Struct(form).pack
        self.scalars = [f.name if f.kind == "scalar" else None for f, _ in placed]
        self.children = [(f, at) for f, at in placed if f.kind != "scalar"]


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
    out += layout.pack(start - vtable, *[0 if name is None else values[name] for name in layout.scalars])
    for f, at in layout.children:
        at += start
        child = _WRITERS[f.kind](out, f, values[f.name])
        _U32.pack_into(out, at, child - at)
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
        out += struct.pack(f"<{len(value)}{f.format}", *value)
    return at


def _write_offsets(out: bytearray, f: Field, value: Sequence[Any], write: Any) -> int:
    out += b"\0" * (-len(out) % 4)
    at = len(out)
    out += _U32.pack(len(value)) + b"\0" * (4 * len(value))
    for i, element in enumerate(value):
        slot = at + 4 + 4 * i
        _U32.pack_into(out, slot, write(out, f, element) - slot)
    return at


_WRITERS = {
    "string": _write_string,
    "vector": _write_vector,
    "table": lambda out, f, value: _write_table(out, f.table, value),
    "union": lambda out, f, value: _write_table(out, UNION[UNION_NUMBER[value[0]]], value[1]),
    "tables": lambda out, f, value: _write_offsets(
        out, f, value, lambda o, g, element: _write_table(o, g.table, element)),
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
            data = memoryview(array.reshape(-1).view("u1")) if array.size else b""
            if i in framed and array.size:
                self.frames.append(data)
                table["frame"] = len(self.frames)
            else:
                table["bytes"] = data


def encode(kind: str, body: Mapping[str, Any], *, request: int, session: int = 0, epoch: int = 0) -> bytes:
    """Frame 0 of a message: `kind` is a member of the schema's union Body."""
    out = bytearray(b"\0\0\0\0" + _schema.IDENTIFIER)
    message = {"request": request, "session": session, "epoch": epoch, "body_type": UNION_NUMBER[kind],
               "body": (kind, body)}
    _U32.pack_into(out, 0, _write_table(out, TABLES["Message"], message))
    return bytes(out)


# ---- reading -----------------------------------------------------------------------------------------------------


class _Reader:
    """How to read tables that share one vtable: a struct for everything stored in the table itself."""

    __slots__ = ("unpack", "parts", "defaults")

    def __init__(self, table: Table, vtable: bytes) -> None:
        offsets = struct.unpack(f"<{len(vtable) // 2}H", vtable)[2:]
        self.defaults = {f.name: f.default for f in table.fields}
        here = sorted(((offsets[f.id], f) for f in table.fields if f.id < len(offsets) and offsets[f.id]),
                      key=lambda pair: pair[0])
        position, form = 4, "<4x"
        self.parts: list[tuple[Field, int]] = []
        for at, f in here:
            if at < position:
                raise MalformedMessage(f"{table.name}: overlapping fields")
            fmt = f.format if f.kind == "scalar" else "I"
            form += f"{at - position}x" * (at > position) + fmt
            position = at + SIZES[fmt]
            self.parts.append((f, at))
        self.unpack = struct.Struct(form).unpack_from


def read_table(buffer: Buffer, position: int, table: Table) -> dict[str, Any]:
    """All fields of a table, absent ones at their defaults; tables inside are read too.

    Vectors of numbers come as tuples, of bytes as memoryviews; the tables of a vector as a list of dictionaries.
    """
    vtable = position - _I32.unpack_from(buffer, position)[0]
    if vtable < 0 or position < 0:
        raise MalformedMessage(f"{table.name}: an offset leads outside the message")
    size = _VTABLE_HEAD.unpack_from(buffer, vtable)[0]
    key = bytes(buffer[vtable : vtable + size])
    reader = table.readers.get(key)
    if reader is None:
        if size < 4 or size % 2 or len(key) != size:
            raise MalformedMessage(f"{table.name}: not a table")
        if len(table.readers) > 256:  # one per combination of fields; more is someone's noise
            table.readers.clear()
        reader = table.readers[key] = _Reader(table, key)
    values = reader.defaults.copy()
    for (f, at), value in zip(reader.parts, reader.unpack(buffer, position)):
        values[f.name] = value if f.kind == "scalar" else _READERS[f.kind](buffer, position + at + value, f)
    return values


def _read_string(buffer: Buffer, at: int, _f: Field) -> str:
    (n,) = _U32.unpack_from(buffer, at)
    return bytes(_slice(buffer, at + 4, n)).decode("utf-8", "replace")


def _slice(buffer: Buffer, start: int, size: int) -> Buffer:
    if start + size > len(buffer):
        raise MalformedMessage("a vector reaches outside the message")
    return buffer[start : start + size]


def _read_vector(buffer: Buffer, at: int, f: Field) -> Any:
    (n,) = _U32.unpack_from(buffer, at)
    if f.format == "B":
        return _slice(memoryview(buffer), at + 4, n)
    _slice(buffer, at + 4, n * SIZES[f.format])
    return struct.unpack_from(f"<{n}{f.format}", buffer, at + 4)


def _offsets(buffer: Buffer, at: int) -> list[int]:
    (n,) = _U32.unpack_from(buffer, at)
    _slice(buffer, at + 4, 4 * n)
    return [at + 4 + 4 * i + o for i, o in enumerate(struct.unpack_from(f"<{n}I", buffer, at + 4))]


class Later:
    """A table that is read when it is first looked at; for the contacts of a step."""

    __slots__ = ("buffer", "position", "table")

    def __init__(self, buffer: Buffer, position: int, table: Table) -> None:
        self.buffer, self.position, self.table = buffer, position, table

    def read(self) -> dict[str, Any]:
        try:
            return read_table(self.buffer, self.position, self.table)
        except (struct.error, IndexError, KeyError, TypeError, ValueError) as e:
            raise MalformedMessage(f"{self.table.name}: {e}") from None


def _read_tables(buffer: Buffer, at: int, f: Field) -> list[Any]:
    positions = _offsets(buffer, at)
    if f.table is TABLES["Contact"]:
        return [Later(buffer, p, f.table) for p in positions]
    return [read_table(buffer, p, f.table) for p in positions]


_READERS = {
    "string": _read_string,
    "vector": _read_vector,
    "table": lambda buffer, at, f: read_table(buffer, at, f.table),
    "union": lambda buffer, at, f: at,  # decode() reads it, once it knows the type
    "tables": _read_tables,
    "strings": lambda buffer, at, f: [_read_string(buffer, p, f) for p in _offsets(buffer, at)],
}


class Decoded:
    """A received message: `kind`, `body` (a dictionary), `request`, `session`, `epoch`, and its array frames."""

    __slots__ = ("kind", "body", "request", "session", "epoch", "frames")

    def array(self, name: str) -> np.ndarray | None:
        """The array in field `name` as a read-only one-dimensional view of the message, or None where absent."""
        return array_of(self.body[name], self.frames, name)


def array_of(table: Mapping[str, Any] | None, frames: Sequence[Buffer], name: str) -> np.ndarray | None:
    if table is None or table["dtype"] == 0:
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
    array = np.frombuffer(data, dtype)
    array.flags.writeable = False
    return array


def decode(frames: Sequence[Buffer]) -> Decoded:
    """Raises MalformedMessage for anything that is not a message of this protocol."""
    header = frames[0]
    try:
        if bytes(header[4:8]) != _schema.IDENTIFIER:
            raise MalformedMessage("no CTD1 identifier")
        message = read_table(header, _U32.unpack_from(header, 0)[0], TABLES["Message"])
        out = Decoded()
        table = UNION[message["body_type"]] if message["body_type"] < len(UNION) else None
        if table is None or message["body"] is None:
            raise MalformedMessage(f"unknown message type {message['body_type']}")
        out.kind = table.name
        out.body = read_table(header, message["body"], table)
        out.request, out.session, out.epoch = message["request"], message["session"], message["epoch"]
        out.frames = frames[1:]
        return out
    except (struct.error, IndexError, KeyError, TypeError, ValueError) as e:
        raise MalformedMessage(str(e)) from None
