"""What torch and jax have in common: a quantity of surfaces that overlap, by their vertices, and its derivatives, in batches.

A Quantity holds what does not change, the triangles; its arguments are positions, (B, n, 3) of each surface that moves. Each of
the B states is a step of a scene of its own, all in one batch. Scenes are made when they are needed and kept for the next call,
so that several threads may call at once. In a process that was forked everything is made anew.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import os
import threading
import warnings
import weakref
from typing import Any, Iterator, Literal, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _arrays
from ._columns import ranges
from ._own_engine import own_engine
from ._want import Want
from .client import Client
from .errors import ErrorCode, error_for
from .result import StepResult

Kind = Literal["volume", "energy", "depth"]
Array = NDArray[np.float64]
MAX_DIRECTIONS = 12  # of a step
NAMES = "abcdefghijklmnopqrstuvwxyz"

_lock = threading.Lock()
_known: "collections.OrderedDict[tuple[Any, ...], Quantity]" = collections.OrderedDict()
_all: "weakref.WeakSet[Quantity]" = weakref.WeakSet()
MOST_KNOWN = 32  # of the functions' quantities


def _forked() -> None:
    global _lock, _known
    _lock, _known = threading.Lock(), collections.OrderedDict()
    for quantity in list(_all):
        quantity._forget()


os.register_at_fork(after_in_child=_forked)


def name_of(k: int) -> str:
    return NAMES[k] if k < len(NAMES) else str(k)


class _Copy:
    """A scene that holds one state of the surfaces."""

    def __init__(self, quantity: "Quantity", client: Client, meshes: Sequence[Any]) -> None:
        self.scene = client.open_scene(method="exact", stiffness=quantity.stiffness)
        self.bodies = [self.scene.add_body(mesh, np.eye(4), self_contact=quantity.is_self) if k in quantity.fixed else
                       self.scene.add_body(mesh, self_contact=quantity.is_self) for k, mesh in enumerate(meshes)]


class Quantity:
    """Volume, energy or depth of surfaces.

    Args:
        faces: (m, 3) integers of each surface, counter-clockwise seen from outside.
        kind: "volume": of the intersections of all pairs, m^3; of a single surface, that of it with itself. "energy": the sum
            over pairs of stiffness volume^2 / 2, J. "depth": of two surfaces, volume / area, m.
        stiffness: N/m^5.
        fixed: positions of the surfaces that do not move, by their place; they are no arguments.
        client: where it is computed; None: own_engine().
    """

    def __init__(self, faces: Sequence[ArrayLike], kind: Kind = "volume", stiffness: float = 1.0,
                 fixed: Mapping[int, ArrayLike] | None = None, client: Client | None = None) -> None:
        self.faces = [_arrays.indices(f, field=f"f{name_of(k)}", columns=3) for k, f in enumerate(faces)]
        self.kind, self.stiffness, self.client = kind, _arrays.real(stiffness, field="stiffness"), client
        self.is_self = len(self.faces) == 1
        self.fixed = {k: np.array(_arrays.points(v, field=f"v{name_of(k)}")) for k, v in (fixed or {}).items()}
        self.moving = [k for k in range(len(self.faces)) if k not in self.fixed]
        self._forget()
        _all.add(self)

    @classmethod
    def of_pair(cls, rest: Sequence[Any], faces: Sequence[np.ndarray], kind: Any, stiffness: float, client: Client | None) -> "Quantity":
        """rest: positions of a surface that does not move, or None of one that does."""
        if kind not in ("volume", "energy", "depth"):
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected volume, energy or depth, got {kind!r}", field="quantity")
        fixed = {k: v for k, v in enumerate(rest) if v is not None}
        if len(fixed) == 2:
            raise error_for(ErrorCode.INVALID_ARGUMENT, "both surfaces rest: leave va or vb None", field="va")
        return cls(faces, kind, stiffness, fixed, client)

    @classmethod
    def of_many(cls, rest: Sequence[Any], faces: Sequence[np.ndarray], kind: Any, fixed: Sequence[int], stiffness: float,
                client: Client | None) -> "Quantity":
        """rest: positions of all; fixed: places of those that do not move."""
        if kind not in ("volume", "energy"):
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected volume or energy, got {kind!r}", field="quantity")
        if len(faces) < 2:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected two surfaces or more, got {len(faces)}; of one with itself: "
                            "self_intersection_volume", field="surfaces")
        if not set(fixed) < set(range(len(faces))):
            raise error_for(ErrorCode.OUT_OF_RANGE, f"expected some of 0 to {len(faces) - 1}, not all, got {list(fixed)}", field="fixed")
        return cls(faces, kind, stiffness, {k: rest[k] for k in fixed}, client)

    def check_moving(self, given: Sequence[Any]) -> None:
        """That positions are given of the surfaces that move, and of no other."""
        for k, positions in enumerate(given):
            if (positions is None) != (k in self.fixed):
                raise error_for(ErrorCode.INVALID_ARGUMENT, "the surface moves: give its positions" if positions is None else
                                "the surface rests: leave it out, or make the Pair with None in its place", field=f"v{name_of(k)}")

    def check_poses(self, shape: Sequence[int]) -> None:
        k = len(self.moving)
        if len(shape) not in (3, 4) or shape[-3] != k or tuple(shape[-2:]) not in ((3, 4), (4, 4)):
            raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape ({k}, 4, 4) or (B, {k}, 4, 4), got {tuple(shape)}", field="poses")

    def __getstate__(self) -> dict[str, Any]:
        if self.client is not None:
            raise error_for(ErrorCode.INVALID_ARGUMENT, "a connection cannot go to another process: leave client out, or make it there",
                            object=repr(self.client), field="client")
        return {name: getattr(self, name) for name in ("faces", "kind", "stiffness", "client", "is_self", "fixed", "moving")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()
        _all.add(self)

    def _forget(self) -> None:
        """What belongs to this process."""
        self._lock = threading.Lock()
        self._free: list[_Copy] = []
        self._meshes: list[Any] | None = None
        self._client: Client | None = None

    # ---- arguments ----

    def states(self, positions: Sequence[Any]) -> list[np.ndarray]:
        """Checked: (B or 1, n, 3) of each moving surface, one of them B."""
        arrays = []
        for k, given in zip(self.moving, positions):
            array = _arrays.numbers(given, f"v{name_of(k)}", "")
            if array.ndim != 3 or array.shape[2] != 3:
                raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape (n, 3) or (B, n, 3), got {array.shape}",
                                field=f"v{name_of(k)}")
            arrays.append(np.ascontiguousarray(array, array.dtype if array.dtype in (np.float32, np.float64) else "<f8"))
        sizes = {len(array) for array in arrays} - {1}
        if len(sizes) > 1:
            raise error_for(ErrorCode.WRONG_LENGTH, "expected batches of one size, or of 1, got "
                            + ", ".join(f"v{name_of(k)} {a.shape}" for k, a in zip(self.moving, arrays)), field="B")
        return arrays

    @contextlib.contextmanager
    def _copies(self, count: int, states: Sequence[np.ndarray]) -> Iterator[tuple[Client, list[_Copy]]]:
        """So many scenes, for this caller alone. states: whose first is what meshes are registered with."""
        client = self.client or own_engine()
        with self._lock:
            if self._client is not client:
                self._free, self._meshes, self._client = [], None, client
            if self._meshes is None:
                rest = self.fixed | {k: array[0] for k, array in zip(self.moving, states)}
                self._meshes = [client.register_mesh(rest[k], faces, name=f"surface {name_of(k)}")
                                for k, faces in enumerate(self.faces)]
            taken, meshes = [self._free.pop() for _ in range(min(count, len(self._free)))], self._meshes
        for state, k in zip(states, self.moving):
            if state.shape[1] != meshes[k].vertex_count:
                raise error_for(ErrorCode.WRONG_LENGTH, f"expected {meshes[k].vertex_count} vertices, as in the first call, got "
                                f"{state.shape[1]}", field=f"v{name_of(k)}")
        while len(taken) < count:
            taken.append(_Copy(self, client, meshes))
        try:
            yield client, taken
        finally:
            with self._lock:
                if self._client is client:
                    self._free += taken

    def close(self) -> None:
        """Closes the scenes that it keeps."""
        with self._lock:
            free, self._free = self._free, []
        for copy in free:
            copy.scene.close()

    # ---- steps ----

    def _steps(self, states: list[np.ndarray], rows: Sequence[int], want: Want | Sequence[Want], client: Client, copies: list[_Copy],
               directions: Sequence[Any] | None = None) -> list[StepResult]:
        """Of copy k with row rows[k] of the states."""
        steps = []
        for at, (copy, row) in enumerate(zip(copies, rows)):
            positions = {copy.bodies[k]: state[row if len(state) > 1 else 0] for k, state in zip(self.moving, states)}
            steps.append((copy.scene, {"positions": positions, "want": want,
                                       "directions": None if directions is None else directions[at]}))
        results = client._step_each(steps)
        for warning in (w for result in results[:1] for w in result.warnings if w.code == "BODY_INVERTED"):
            which = [body.id for body in copies[0].bodies].index(warning.body.id)
            warnings.warn(f"surface {name_of(which)} is inside out: its volume counts negatively; turn its triangles", stacklevel=5)
        return results

    def evaluate(self, positions: Sequence[Any], with_gradient: bool) -> tuple[Array, list[Array]]:
        """The quantity (B,), and its gradient (B, n, 3) by each argument; without: no arrays."""
        states = self.states(positions)
        count = max((len(state) for state in states), default=1)
        with self._copies(count, states) as (client, copies):
            want: Want = "frame" if self.kind == "depth" else "gradient" if with_gradient else "volume"
            results = self._steps(states, range(count), want, client, copies)
            values = np.array([self._value(result) for result in results])
            if not with_gradient:
                return values, []
            if self.kind == "depth":
                return values, self._depth_gradients(states, client, copies, results)
            return values, self._split(np.stack([_gradient(copies[0], result, self._weights(result)) for result in results]), copies[0])

    def _value(self, result: StepResult) -> float:
        volumes = result.volumes
        if self.kind == "energy":
            return float(self.stiffness / 2 * (volumes @ volumes))
        if self.kind == "depth":
            return float(result.depths.sum())  # of one contact, or none
        return float(volumes.sum())

    def _weights(self, result: StepResult) -> Array:
        """The quantity's derivative by each contact's volume."""
        return np.asarray(self.stiffness * result.volumes if self.kind == "energy" else np.ones(len(result)))

    def _split(self, dense: Array, copy: _Copy) -> list[Array]:
        first = _first(copy)
        return [np.ascontiguousarray(dense[:, first[k]:first[k + 1]]) for k in self.moving]

    def product(self, positions: Sequence[Any], displacements: Sequence[Any]) -> list[Array]:
        """The second derivative times displacements (D or 1, n, 3): (D, n, 3). Positions (D or 1, n, 3); where they are one state
        alone, up to 12 displacements are of one step."""
        states = self.states(positions)
        moves = [np.asarray(d, np.float64) for d in displacements]
        count = max(len(array) for array in (*states, *moves))
        one_state = all(len(state) == 1 for state in states)
        size = MAX_DIRECTIONS if one_state else 1
        groups = [range(at, min(at + size, count)) for at in range(0, count, size)]
        with self._copies(len(groups), states) as (client, copies):
            directions = [[{copy.bodies[k]: move[i if len(move) > 1 else 0] for k, move in zip(self.moving, moves)} for i in group]
                          for copy, group in zip(copies, groups)]
            results = self._steps(states, [group[0] for group in groups], "gradient", client, copies, directions)
            out = []
            for result, group in zip(results, groups):
                for at, i in enumerate(group):
                    product = _product(copies[0], result, at, self._weights(result))
                    if self.kind == "energy" and len(result):
                        moved = np.zeros((_first(copies[0])[-1], 3))
                        for k, move in zip(self.moving, moves):
                            moved[_first(copies[0])[k]:_first(copies[0])[k + 1]] = move[i if len(move) > 1 else 0]
                        product += _gradient(copies[0], result, self.stiffness * _along(copies[0], result, moved))
                    out.append(product)
            return self._split(np.stack(out), copies[0])

    def _depth_gradients(self, states: list[np.ndarray], client: Client, copies: list[_Copy], results: list[StepResult]) -> list[Array]:
        """Of V / A. A is |dV/dt|, t a translation of one of the surfaces, so that dA/dx is the second derivative of V times a
        unit translation of it along the contact's normal."""
        side = self.moving[0]
        normals = [-result.normals[0] if len(result) else np.zeros(3) for result in results]
        sign = 1.0 if side == 0 else -1.0
        directions = [[{copy.bodies[side]: np.broadcast_to(sign * normal, (copy.bodies[side].vertices, 3))}]
                      for copy, normal in zip(copies, normals)]
        results = self._steps(states, range(len(copies)), ("frame", "gradient"), client, copies, directions)
        rows = []
        for copy, result in zip(copies, results):
            areas = result.areas
            safe = np.where(areas > 0, areas, np.inf)  # a nested body has no area, and no depth
            rows.append(_gradient(copy, result, 1 / safe) - _product(copy, result, 0, result.volumes / safe**2))
        return self._split(np.stack(rows), copies[0])


def _first(copy: _Copy) -> NDArray[np.int64]:
    """Where each body's vertices begin if all follow each other, and their end."""
    return np.cumsum([0, *(body.vertices for body in copy.bodies)])


def _spread(copy: _Copy, result: StepResult, vertices: np.ndarray, values: np.ndarray, of: str,
            weights: np.ndarray) -> Array:
    """The sum over contacts of weight times values (k, 3) at vertices, as (all vertices, 3)."""
    first = _first(copy)
    out = np.zeros((first[-1], 3))
    if not len(result):
        return out
    begin, count = (np.stack([result._field(f"{name}{of}_{side}") for side in "ab"], 1).astype(np.int64).ravel()
                    for name in ("first", "count"))
    listed = ranges(begin, count)
    rows = vertices[listed] + np.repeat(first[result.body_pairs.ravel()], count)
    scaled = values[listed] * np.repeat(np.repeat(weights, 2), count)[:, None]
    for axis in range(3):
        out[:, axis] = np.bincount(rows, scaled[:, axis], len(out))
    return out


def _gradient(copy: _Copy, result: StepResult, weights: np.ndarray) -> Array:
    return _spread(copy, result, result.entries.vertex, result.entries.gradient, "", weights)


def _product(copy: _Copy, result: StepResult, direction: int, weights: np.ndarray) -> Array:
    vertices = result._array("product_vertices", 0)
    rows = result._array("products", 0).reshape(len(vertices), result.directions, 3)
    return _spread(copy, result, vertices, rows[:, direction], "_product", weights)


def _along(copy: _Copy, result: StepResult, moved: Array) -> Array:
    """(n,) of each contact: its gradient times a displacement of all vertices."""
    first, (begin, count) = _first(copy), result._counts
    listed = ranges(begin.ravel(), count.ravel())
    rows = result.entries.vertex[listed] + np.repeat(first[result.body_pairs.ravel()], count.ravel())
    parts = (result.entries.gradient[listed] * moved[rows]).sum(1)
    return np.asarray(np.bincount(np.repeat(np.arange(len(count)), count.sum(1)), parts, len(count)), np.float64)


def quantity_of(faces: Sequence[Any], sizes: Sequence[int], kind: Kind, stiffness: float = 1.0, client: Client | None = None) -> Quantity:
    """That of earlier calls with the same triangles and numbers of vertices, or a new one."""
    arrays = [np.ascontiguousarray(f) for f in faces]
    digest = hashlib.blake2b(b"".join(a.tobytes() + repr((a.shape, a.dtype.str)).encode() for a in arrays), digest_size=16).digest()
    key = (digest, tuple(sizes), kind, float(stiffness), id(client))
    with _lock:
        found = _known.get(key)
        if found is not None and found.client is client:
            _known.move_to_end(key)
            return found
        found = _known[key] = Quantity(arrays, kind, stiffness, client=client)
        dropped = _known.popitem(last=False)[1] if len(_known) > MOST_KNOWN else None
    if dropped is not None:
        dropped.close()
    return found
