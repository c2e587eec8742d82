"""Settings of scenes on their way to the wire and back, by the rows of _scene_settings."""

from __future__ import annotations

import math
from typing import Any, Mapping, Sequence

import numpy as np

from . import _arrays
from ._scene_settings import ROWS, Row
from .errors import ErrorCode, error_for

# The largest that each type of the wire has; the server checks ranges, but what does not fit is refused here.
WIRE_MOST = {"u32": 2**31 - 1, "u64": 2**63 - 1}
BY_NAME = {row.name: row for row in ROWS}


def message(given: Mapping[str, Any], offered: Sequence[str] | None = None) -> dict[str, Any]:
    """The wire's Settings, with only what is not None. offered: the server's methods, for messages."""
    out: dict[str, Any] = {}
    for row in ROWS:
        value = given.get(row.name)
        if value is not None:
            where = out.setdefault("voxels", {}) if row.is_voxels else out
            where[row.name] = _value(row, value, offered)
    return out


def _value(row: Row, value: Any, offered: Sequence[str] | None) -> Any:
    if row.type == "choice":
        if not isinstance(value, str) or value not in row.choices:
            names = ["auto", *offered] if offered and row.name == "method" else list(row.choices)
            code = ErrorCode.UNSUPPORTED if row.name == "method" else ErrorCode.INVALID_ARGUMENT
            raise error_for(code, f"expected {' or '.join(names)}, got {value!r}", field=row.name)
        return row.choices[value]
    if row.type == "flag":
        if not isinstance(value, (bool, np.bool_)):  # a word such as "no" would be true
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected True or False, got {value!r}", field=row.name)
        return int(value)
    if row.type == "u32x3":
        return _arrays.resolution(value)
    if row.type != "f64":
        return _arrays.unsigned(value, field=row.name, maximum=WIRE_MOST[row.type], expected=row.expected)
    number = _arrays.real(value, field=row.name)
    if not math.isfinite(number):
        raise error_for(ErrorCode.NON_FINITE, f"expected a finite number, got {number:g}", field=row.name)
    # Below 0 would say on the wire that nothing is given.
    if not (row.least <= number <= row.most or number == 0) or number == 0 and not row.may_be_zero:
        raise error_for(ErrorCode.OUT_OF_RANGE, f"expected {row.expected}, got {number:g}", field=row.name)
    return number


def check_known(asked: Mapping[str, Any], answered: Mapping[str, Any]) -> None:
    """Of the wire's Settings. Raises: UNSUPPORTED where the answer leaves one out that was asked for: the server is older than it."""
    for row in ROWS:
        wanted, told = ((table.get("voxels") or {} if row.is_voxels else table).get(row.name) for table in (asked, answered))
        if wanted and row.may_be_zero and (told is None or told < 0):
            raise error_for(ErrorCode.UNSUPPORTED, f"the server is too old for {row.name}: leave it out", object="scene", field=row.name)


def of_answer(table: Mapping[str, Any]) -> dict[str, Any]:
    """The wire's Settings of an answer, complete: what an older server leaves out is 0."""
    out: dict[str, Any] = {"voxels": {}}
    voxels = table["voxels"] or {}
    for row in ROWS:
        value = (voxels if row.is_voxels else table).get(row.name)
        if row.type != "u32x3":
            value = max(value or 0, 0)
        if row.type == "flag" and not row.is_voxels:
            value = value == 1
        (out["voxels"] if row.is_voxels else out)[row.name] = value
    return out


def of_request(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Complete settings as a request for them: without what a request says by leaving it out."""
    return {name: value for name, value in settings.items()
            if value is not None and (name == "voxels" or value != 0 or BY_NAME[name].may_be_zero)}


def shown(settings: Mapping[str, Any], name: str) -> Any:
    """A setting as users see it."""
    row = BY_NAME[name]
    value = (settings["voxels"] if row.is_voxels else settings)[name]
    if row.type == "choice":
        return next((n for n, number in row.choices.items() if number == value), "unknown")
    if row.type == "u32x3":
        return None if value is None else tuple(value)
    return bool(value) if row.type == "flag" else value


def shown_voxels(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {row.name: shown(settings, row.name) for row in ROWS if row.is_voxels}


def shown_all(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {row.name: shown(settings, row.name) for row in ROWS if not row.is_voxels} | {"voxels": shown_voxels(settings)}


def public(scene: Mapping[str, Any]) -> dict[str, Any]:
    """The wire's SceneInfo as users see it."""
    running = scene["running_method"]
    return dict(scene) | {"settings": shown_all(of_answer(scene["settings"])),
                          "running_method": shown({"method": running}, "method") if running else ""}
