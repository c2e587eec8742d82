"""Checks what callers pass in before it is sent, and brings it into the form that travels.

For client and scene. Errors are those that the server would give (code, object, field), only sooner. Whether numbers are
finite is left to the server, which looks at each of them anyway. `object` is what the argument is for; messages print it.
"""

from __future__ import annotations

import operator
from typing import Any, Sequence

import numpy as np

from .errors import ErrorCode, error_for

U32_MAX = 0xFFFFFFFF


def points(value: Any, *, field: str, object: Any = "", rows: int | None = None, what: str = "positions") -> np.ndarray:
    """An (n, 3) array as contiguous little-endian float32 or float64; not copied where it is that already. `what`: what
    messages call its rows."""
    array = numbers(value, field, object)
    if array.dtype.newbyteorder("=") not in (np.float32, np.float64):
        array = array.astype("<f8")
    if array.ndim != 2 or array.shape[1] != 3:
        raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape (n, 3), got {array.shape}", object=str(object), field=field)
    if rows is not None and array.shape[0] != rows:
        raise error_for(ErrorCode.WRONG_LENGTH, f"expected {rows} {what}, one for each vertex, got {array.shape[0]}",
                        object=str(object), field=field)
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def indices(value: Any, *, field: str, object: Any = "", columns: int | None = None) -> np.ndarray:
    """Integers, (n,) or (n, columns), as contiguous little-endian uint32."""
    try:
        array = np.asarray(value)
    except ValueError as e:  # ragged lists
        raise error_for(ErrorCode.WRONG_LENGTH, str(e), object=str(object), field=field) from None
    _check_masks(value, field, object)
    if array.size == 0:
        array = array.astype("<u4")
    if array.dtype.kind not in "iu":
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected integers, got dtype {array.dtype}", object=str(object),
                        field=field)
    shape = "(n,)" if columns is None else f"(n, {columns})"
    if array.ndim != (1 if columns is None else 2) or (columns is not None and array.shape[1] != columns):
        raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape {shape}, got {array.shape}", object=str(object), field=field)
    if array.dtype != np.uint32 and array.size:
        lo, hi = int(array.min()), int(array.max())
        if lo < 0 or hi > U32_MAX:
            raise error_for(ErrorCode.OUT_OF_RANGE, f"expected indices from 0 to {U32_MAX}, got {lo if lo < 0 else hi}",
                            object=str(object), field=field)
    return np.ascontiguousarray(array, "<u4")


LAST_ROW = 1e-9  # from 0 0 0 1: what a matrix exponential leaves


def pose(value: Any, *, object: Any = "") -> tuple[float, ...]:
    """A 4x4 or 3x4 matrix, or 7 numbers (translation, quaternion x y z w), as 12 numbers, row-major."""
    array = numbers(value, "pose", object)
    if array.shape not in ((4, 4), (3, 4), (7,)):
        raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape (4, 4), (3, 4) or (7,), got {array.shape}",
                        object=str(object), field="pose")
    if array.dtype.char != "d":
        array = array.astype(float)
    if array.shape == (7,):
        return tuple(_of_quaternions(array[None], "pose", object)[0].tolist())
    x, y, z, *last = array.tolist()
    if last and last[0] != [0.0, 0.0, 0.0, 1.0] and not np.allclose(last[0], (0, 0, 0, 1), rtol=0, atol=LAST_ROW):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected a last row of 0 0 0 1, got {last[0]}",
                        object=str(object), field="pose")
    return (*x, *y, *z)


def poses(value: Any, n: int) -> np.ndarray:
    """n poses, each a row of 12 numbers, [R|t] row-major: of (n, 4, 4) or (n, 3, 4) matrices, or of (n, 7) translations and
    quaternions x y z w, which are scaled to length 1."""
    array = numbers(value, "poses", "")
    if array.size == n == 0:  # an empty list, too
        return np.zeros((0, 12))
    if array.shape not in ((n, 4, 4), (n, 3, 4), (n, 7)):
        raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape ({n}, 3, 4), ({n}, 4, 4) or ({n}, 7), one pose for each body, got "
                        f"{array.shape}", field="poses")
    array = array.astype(float, copy=False)
    if array.shape[1:] == (7,):
        return _of_quaternions(array, "poses")
    if array.shape[1] == 4 and (off := ~(np.abs(array[:, 3] - (0.0, 0.0, 0.0, 1.0)) <= LAST_ROW).all(axis=1)).any():
        row = int(np.flatnonzero(off)[0])
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected last rows of 0 0 0 1, got {array[row, 3].tolist()} in pose {row}",
                        field="poses")
    return array[:, :3].reshape(n, 12)


def count_of_poses(array: np.ndarray) -> int:
    """Of how many poses it is: of one, where it is no array of poses."""
    is_many = array.ndim == 3 or array.ndim == 2 and array.shape[1] == 7 or array.ndim > 0 and array.size == 0
    return len(array) if is_many else 1


def _of_quaternions(rows: np.ndarray, field: str, object: Any = "") -> np.ndarray:
    size = np.sqrt((rows[:, 3:] ** 2).sum(axis=1))
    wrong = ~(np.abs(size - 1) < 1e-3)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        of = f"s x y z w of length 1, got one of {size[row]:g} in pose {row}" if field == "poses" else \
            f" x y z w of length 1, got one of {size[row]:g}"
        raise error_for(ErrorCode.OUT_OF_RANGE, f"expected quaternion{of}", object=str(object), field=field)
    x, y, z, w = (rows[:, 3:] / size[:, None]).T
    out = np.empty((len(rows), 3, 4))
    out[:, 0, 0], out[:, 0, 1], out[:, 0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)
    out[:, 1, 0], out[:, 1, 1], out[:, 1, 2] = 2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)
    out[:, 2, 0], out[:, 2, 1], out[:, 2, 2] = 2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)
    out[:, :, 3] = rows[:, :3]
    return out.reshape(-1, 12)


def vector(value: Any, sizes: tuple[int, ...], *, field: str, object: Any = "", expected: str = "") -> list[float]:
    """A row of as many numbers as one of `sizes`. `expected`: what the error says instead."""
    array = numbers(value, field, object)
    if array.ndim != 1 or array.size not in sizes:
        allowed = " or ".join(map(str, sizes))
        found = repr(value) if array.size <= 12 else f"shape {array.shape}"
        raise error_for(ErrorCode.WRONG_LENGTH, f"expected {expected or f'{allowed} numbers'}, got {found}",
                        object=str(object), field=field)
    return [float(number) for number in array]


def unsigned(value: Any, *, field: str, object: Any = "", maximum: int = U32_MAX, expected: str = "") -> int:
    """The integer from 0 to `maximum`. `expected`: what the error says instead, where the server allows less."""
    try:
        number = operator.index(value)
    except TypeError:
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected an integer, got {value!r}", object=str(object),
                        field=field) from None
    if not 0 <= number <= maximum:
        raise error_for(ErrorCode.OUT_OF_RANGE, f"expected {expected or f'0 to {maximum}'}, got {number}",
                        object=str(object), field=field)
    return number


def real(value: Any, *, field: str, object: Any = "") -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected a number, got {value!r}", object=str(object),
                        field=field) from None


def seconds(value: Any, *, field: str) -> float:
    number = real(value, field=field)
    if not number >= 0:
        raise error_for(ErrorCode.OUT_OF_RANGE, f"expected 0 or more seconds, got {number:g}", field=field)
    return number


def text(value: Any, *, field: str, object: Any = "") -> str:
    """That can be sent."""
    try:
        value.encode()
    except (AttributeError, UnicodeEncodeError):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected text, got {value!r}", object=str(object), field=field) from None
    return str(value)


def resolution(value: Any) -> tuple[int, ...]:
    """One number for all three axes, or three."""
    values: Sequence[Any] = tuple(value) if isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value) else (value,)
    if len(values) not in (1, 3):
        raise error_for(ErrorCode.WRONG_LENGTH, f"expected one number or three, got {len(values)}", field="resolution")
    return tuple(unsigned(v, field="resolution") for v in values)


def numbers(value: Any, field: str, object: Any) -> np.ndarray:
    """An array of numbers, of any shape and numeric type."""
    try:
        array = np.asarray(value)
    except ValueError as e:  # ragged lists
        raise error_for(ErrorCode.WRONG_LENGTH, str(e), object=str(object), field=field) from None
    except (TypeError, RuntimeError) as e:  # such as a tensor in the memory of a GPU, or one with a gradient
        where = f" on {value.device}" if hasattr(value, "device") else ""
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected an array in this machine's memory, got {type(value).__name__}{where}: "
                        f"{e}", object=str(object), field=field) from None
    if array.dtype.kind not in "fiu":
        if array.dtype.kind == "O" and hasattr(value, "__cuda_array_interface__"):
            found = f"{type(value).__name__} in a GPU's memory: copy it to an array of numpy first"
        else:
            found = f"dtype {array.dtype}"
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected float32 or float64 numbers, got {found}",
                        object=str(object), field=field)
    _check_masks(value, field, object)
    return array


def _check_masks(value: Any, field: str, object: Any) -> None:
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected numbers, got an array of which {int(np.count_nonzero(np.ma.getmaskarray(value)))} are masked",
                        object=str(object), field=field)
