"""The wire schema as tables of fields, read from contactd.fbs itself, which is part of the package.

For _wire, which encodes and decodes by these tables: nothing of the schema is written twice. Of the schema language, this reads what contactd.fbs uses (enums, tables with explicit
ids, one union) and refuses the rest; tests compare it with flatc.
"""

from __future__ import annotations

import enum
import importlib.resources
import re
from dataclasses import dataclass, field
from typing import Any

# struct format of the scalars
_SCALARS = {"bool": "?", "byte": "b", "ubyte": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "long": "q",
            "ulong": "Q", "float": "f", "double": "d"}
SIZES = {"B": 1, "?": 1, "b": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8, "f": 4, "d": 8}


@dataclass(slots=True, eq=False)
class Field:
    """One field of a table. `kind` is scalar, string, table, union, vector (of scalars), tables or strings."""

    name: str
    id: int
    kind: str
    format: str  # of the scalar, or of a vector's elements; "I" for whatever is stored as an offset
    default: object
    align: int = 0  # of a vector's elements where the schema forces one
    table: Any = None  # the Table of a table, or of a vector of them


@dataclass(slots=True, eq=False)
class Table:
    name: str
    fields: list[Field] = field(default_factory=list)  # in order of id
    layouts: dict[Any, Any] = field(default_factory=dict)  # _wire's caches, by fields present and by vtable
    readers: dict[Any, Any] = field(default_factory=dict)


_DECLARATION = re.compile(r"(enum|table|union)\s+(\w+)\s*(?::\s*(\w+)\s*)?\{([^}]*)\}")
_FIELD = re.compile(r"(\w+)\s*:\s*(\[?)\s*(\w+)\s*\]?\s*(?:=\s*([\w.+-]+)\s*)?\(([^)]*)\)\s*$")


def _parse(text: str) -> tuple[dict[str, Table], dict[str, type[enum.IntEnum]], list[Table | None], bytes]:
    text = re.sub(r"//[^\n]*", "", text)
    found = [m.groups() for m in _DECLARATION.finditer(text)]
    rest = re.sub(r"(namespace\s+[\w.]+|file_identifier\s+\"\w+\"|root_type\s+\w+)\s*;", "", _DECLARATION.sub("", text))
    if rest.strip():
        raise ImportError(f"contactd.fbs: not understood: {rest.split()[:8]}")
    tables = {name: Table(name) for what, name, _, _ in found if what == "table"}
    enums: dict[str, type[enum.IntEnum]] = {}
    formats: dict[str, str] = {}  # of enums
    union: list[Table | None] = [None]
    for what, name, base, content in found:
        if what == "enum":
            pairs = (item.split("=") for item in content.split(",") if item.strip())
            enums[name] = enum.IntEnum(name, {  # type: ignore[assignment]  # the type that it makes
                key.strip(): int(value) for key, value in pairs}, module=__name__)
            formats[name] = _SCALARS[base]
        elif what == "union":
            formats[name] = "union"
            union += [tables[member.strip()] for member in content.split(",")]
    for what, name, _, content in found:
        if what != "table":
            continue
        fields = tables[name].fields
        for line in filter(str.strip, content.split(";")):
            match = _FIELD.match(line.strip())
            if match is None:
                raise ImportError(f"contactd.fbs: {name}: not understood: {line.strip()}")
            key, bracket, base, default, attributes = match.groups()
            value: object
            options = {k.strip(): int(v) for k, v in (a.split(":") for a in attributes.split(","))}
            fmt = _SCALARS.get(base) or formats.get(base)
            table = tables.get(base)
            if fmt == "union":
                fields.append(Field(key + "_type", options["id"] - 1, "scalar", "B", 0))
                kind, fmt, value = "union", "I", None
            elif bracket:
                kind = "tables" if table else "strings" if base == "string" else "vector"
                fmt, value = fmt or "I", None
            elif table or base == "string":
                kind, fmt, value = ("table", "I", None) if table else ("string", "I", "")
            elif fmt:
                kind = "scalar"
                value = float(default or 0) if fmt in "fd" else default == "true" if fmt == "?" else int(default or 0)
            else:
                raise ImportError(f"contactd.fbs: {name}.{key}: unknown type {base}")
            fields.append(Field(key, options["id"], kind, fmt, value, options.get("force_align", 0), table))
        fields.sort(key=lambda f: f.id)
        if [f.id for f in fields] != list(range(len(fields))):
            raise ImportError(f"contactd.fbs: {name}: ids are not 0 to {len(fields) - 1}")
    identifier = re.search(r'file_identifier\s+"(\w{4})"', text)
    if identifier is None:
        raise ImportError("contactd.fbs: no file_identifier")
    return tables, enums, union, identifier.group(1).encode()


TABLES, ENUMS, UNION, IDENTIFIER = _parse(
    importlib.resources.files("contactd").joinpath("contactd.fbs").read_text("utf-8"))
UNION_NUMBER = {table.name: i for i, table in enumerate(UNION) if table is not None}
