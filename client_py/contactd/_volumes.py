"""What torch and jax have in common: a quantity of surfaces that overlap, by their vertices, and its derivatives, in batches.

A Quantity holds what does not change, the triangles; its arguments are positions, (B, n, 3) of each surface that moves. Each of
the B states is a step of a scene of its own, all in one batch. Scenes are made when they are needed and kept for the next call,
so that several threads may call at once. Those of a Quantity that is gone are closed when the next one is called. In a process that was
forked everything is made anew.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import math
import os
import threading
import warnings
import weakref
from typing import Any, Callable, Iterator, Literal, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _arrays
from ._columns import ranges
from ._own_engine import own_engine
from ._want import Want
from .client import Client, Mesh
from .engine import Engine
from .errors import ConflictError, ContactdError, ErrorCode, NonFiniteError, NotFoundError, StaleHandleError, error_for
from .result import StepResult

Kind = Literal["volume", "energy", "depth"]
Array = NDArray[np.float64]
MAX_DIRECTIONS = 12  # of a step
SHIFT = 1e-5  # see Quantity._depth_products
_Directions = Sequence[Sequence[Mapping[Any, Array]]]  # of each copy, by body
NAMES = "abcdefghijklmnopqrstuvwxyz"

_lock = threading.Lock()
_known: "collections.OrderedDict[tuple[Any, ...], Quantity]" = collections.OrderedDict()
_all: "weakref.WeakSet[Quantity]" = weakref.WeakSet()
MOST_KNOWN = 32  # of the functions' quantities
_shelves: "weakref.WeakValueDictionary[tuple[Any, ...], _Shelf]" = weakref.WeakValueDictionary()  # of those
_garbage: "collections.deque[_Kept]" = collections.deque()  # what no quantity has any more
_meshes_lock = threading.Lock()  # around looking whether a mesh is another's, too, and removing it


def _forked() -> None:
    global _lock, _known, _shelves, _meshes_lock
    _lock, _known, _shelves, _meshes_lock = threading.Lock(), collections.OrderedDict(), weakref.WeakValueDictionary(), threading.Lock()
    for quantity in list(_all):
        quantity._forget()


os.register_at_fork(after_in_child=_forked)


def name_of(k: int) -> str:
    return NAMES[k] if k < len(NAMES) else str(k)


class _Copy:
    """A scene that holds one state of the surfaces."""

    def __init__(self, quantity: "Quantity", client: Client, meshes: Sequence[Mesh]) -> None:
        self.scene = client.open_scene(method="exact")
        try:
            self.bodies = [self.scene.add_body(mesh, np.eye(4), self_contact=quantity.is_self) if k in quantity.fixed else
                           self.scene.add_body(mesh, self_contact=quantity.is_self) for k, mesh in enumerate(meshes)]
        except BaseException:
            self.scene.close()
            raise


class _Kept:
    """What a client has of some surfaces: their meshes, and scenes that nobody uses at the moment."""

    def __init__(self, client: Client) -> None:
        self.client, self.process = client, os.getpid()
        self.meshes: list[Mesh] = []
        self.free: list[_Copy] = []
        self.users = 0  # calls that are under way

    def release(self) -> None:
        self.client.close_scenes([copy.scene for copy in self.free])
        self.free.clear()
        if isinstance(self.client, Engine):  # a server frees meshes when it needs the room
            for mesh in self.meshes:
                self._remove(mesh)
        self.meshes.clear()

    def _remove(self, mesh: Mesh) -> None:
        with _meshes_lock:
            held = self.client._link.meshes
            if any(state is not mesh._state and state.info.get("hash") == mesh.hash for state in held):
                held.remove(mesh._state)  # whoever holds the other one keeps it
                return
            with contextlib.suppress(ConflictError, NotFoundError, StaleHandleError):
                mesh.remove()


class _Shelf:
    """Where calls find what is kept. Quantities that differ in kind or stiffness alone share one. When it is gone, what it has is garbage:
    that is released later, as calls of an engine have no place in a garbage collection."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kept: _Kept | None = None
        self._end: weakref.finalize[..., "_Shelf"] | None = None

    def use(self, client: Client, register: Callable[[], Iterator[Mesh]]) -> _Kept:
        """What is kept of that client, for one more call. register: of the meshes, where there are none."""
        with self.lock:
            if self.kept is None or self.kept.client is not client:
                self._drop()
                self.kept = _Kept(client)
                self._end = weakref.finalize(self, _garbage.append, self.kept)
                self._end.atexit = False
                try:
                    with _meshes_lock:
                        self.kept.meshes.extend(register())
                except BaseException:
                    self._drop()
                    raise
            self.kept.users += 1
            return self.kept

    def give_back(self, kept: _Kept, taken: list[_Copy]) -> None:
        with self.lock:
            kept.users -= 1
            kept.free += taken
            is_last = kept is not self.kept and not kept.users
        if is_last:
            _garbage.append(kept)
            _drain(kept.client)

    def close(self) -> None:
        """Closes the scenes that are not in use; the others when they are not any more."""
        with self.lock:
            client = None if self.kept is None else self.kept.client
            self._drop()
        if client is not None:
            _drain(client)

    def _drop(self) -> None:
        kept, self.kept = self.kept, None
        if self._end is not None:
            self._end.detach()
        if kept is not None and not kept.users:
            _garbage.append(kept)


def _drain(client: Client) -> None:
    """Releases what this client has and no quantity any more. A call does it for its own client alone, as another may not answer."""
    for _ in range(len(_garbage)):
        try:
            kept = _garbage.popleft()
        except IndexError:  # another thread was faster
            return
        if kept.process != os.getpid() or kept.client.closed:
            continue
        if kept.client is not client:
            _garbage.append(kept)
            continue
        with contextlib.suppress(ContactdError):  # it is no matter of this call; scenes of a connection that is lost end with it
            kept.release()


def number_of(stiffness: Any) -> float:
    try:
        number = math.nan if getattr(stiffness, "requires_grad", False) else float(stiffness)
    except (TypeError, ValueError):  # the first is that of a tracer of JAX, too
        number = math.nan
    if not math.isfinite(number):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected a finite number, got {stiffness!r}; an energy has no derivative by it: "
                        "multiply that of stiffness 1 by what varies", field="stiffness")
    return number


def faces_of(given: Any, field: str) -> np.ndarray:
    try:
        array = np.asarray(given)
        found = f"{array.shape} of {array.dtype}"
    except ValueError:
        found = "rows of several lengths"
    else:
        if array.ndim == 2 and array.shape[1] == 3 and array.dtype.kind in "iu":
            return array
    raise error_for(ErrorCode.WRONG_LENGTH, f"expected (m, 3) integers, got {found}", field=field)


def _checked(client: Any) -> Client | None:
    if client is not None and not isinstance(client, Client):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected what contactd.connect() or contactd.Engine() gives, got {client!r}",
                        field="client")
    return client


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
        self.faces = [np.array(_arrays.indices(f, field=f"f{name_of(k)}", columns=3)) for k, f in enumerate(faces)]
        self.kind, self.stiffness, self.client = kind, number_of(stiffness), _checked(client)
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
        fixed = [_arrays.unsigned(k, field="fixed", maximum=len(faces) - 1) for k in (fixed if np.iterable(fixed) else [fixed])]
        if not set(fixed) < set(range(len(faces))):
            raise error_for(ErrorCode.OUT_OF_RANGE, f"expected some of 0 to {len(faces) - 1}, not all, got {fixed}", field="fixed")
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
        self._shelf = _Shelf()

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
        client, shelf = self.client or own_engine(), self._shelf
        _drain(client)

        def register() -> Iterator[Mesh]:
            rest = self.fixed | {k: array[0] for k, array in zip(self.moving, states)}
            return (client.register_mesh(rest[k], faces, name=f"surface {name_of(k)}") for k, faces in enumerate(self.faces))

        kept, taken = shelf.use(client, register), []
        try:
            for state, k in zip(states, self.moving):
                if state.shape[1] != kept.meshes[k].vertex_count:
                    raise error_for(ErrorCode.WRONG_LENGTH, f"expected {kept.meshes[k].vertex_count} vertices, as in the first call, got "
                                    f"{state.shape[1]}", field=f"v{name_of(k)}")
            with shelf.lock:
                taken += [kept.free.pop() for _ in range(min(count, len(kept.free)))]
            while len(taken) < count:
                taken.append(_Copy(self, client, kept.meshes))
            yield client, taken
        finally:
            shelf.give_back(kept, taken)

    def close(self) -> None:
        """Closes the scenes that it keeps, those of calls under way when these are done. It may be called again."""
        self._shelf.close()

    # ---- steps ----

    def _steps(self, states: list[np.ndarray], rows: Sequence[int], want: Want | Sequence[Want], client: Client, copies: list[_Copy],
               directions: Sequence[Any] | None = None, moves: Sequence[Array] = ()) -> list[StepResult]:
        """Of copy k with row rows[k] of the states, and with those directions, which are of the displacements moves."""
        steps = []
        for at, (copy, row) in enumerate(zip(copies, rows)):
            positions = {copy.bodies[k]: state[row if len(state) > 1 else 0] for k, state in zip(self.moving, states)}
            steps.append((copy.scene, {"positions": positions, "want": want,
                                       "directions": None if directions is None else directions[at]}))
        try:
            results = client._step_each(steps)
        except NonFiniteError:  # which names a scene that the caller does not know
            self._check_finite(states, "")
            self._check_finite(moves, "displacements of ")
            raise
        for which in {copy.bodies.index(warning.body) for copy, result in zip(copies, results) if result._answer.body["warnings"]
                      for warning in result.warnings if warning.code == "BODY_INVERTED"}:
            warnings.warn(f"surface {name_of(which)} is inside out and shares no volume with any: turn its triangles, or mirror its positions back", stacklevel=5)
        return results

    def _check_finite(self, arrays: Sequence[np.ndarray], of: str) -> None:
        for k, array in zip(self.moving, arrays):
            with np.errstate(over="ignore"):
                wrong = np.argwhere(~np.isfinite(array.astype(np.float32)))
            if len(wrong):
                row, vertex, axis = wrong[0]
                state = f" of state {row}" if len(array) > 1 else ""
                raise error_for(ErrorCode.NON_FINITE, f"vertex {vertex}{state} has {'xyz'[axis]} = {array[row, vertex, axis]:g}, expected "
                                "a finite number within float32's range", field=f"{of}v{name_of(k)}")

    def evaluate(self, positions: Sequence[Any], with_gradient: bool) -> tuple[Array, list[Array]]:
        """The quantity (B,), and its gradient (B, n, 3) by each argument; without: no arrays."""
        states = self.states(positions)
        count = max((len(state) for state in states), default=1)
        if any(len(state) == 0 for state in states):  # of an empty batch
            return np.zeros(0), [np.zeros((0, *state.shape[1:])) for state in states] if with_gradient else []
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
        if any(len(array) == 0 for array in (*states, *moves)):
            return [np.zeros((0, *state.shape[1:])) for state in states]
        count = max(len(array) for array in (*states, *moves))
        one_state = all(len(state) == 1 for state in states)
        size = (MAX_DIRECTIONS - 3 if self.kind == "depth" else MAX_DIRECTIONS) if one_state else 1
        groups = [range(at, min(at + size, count)) for at in range(0, count, size)]
        with self._copies(len(groups), states) as (client, copies):
            directions = [[{copy.bodies[k]: move[i if len(move) > 1 else 0] for k, move in zip(self.moving, moves)} for i in group]
                          for copy, group in zip(copies, groups)]
            dense = self._depth_products if self.kind == "depth" else self._products
            return self._split(dense(states, [group[0] for group in groups], directions, moves, client, copies), copies[0])

    def _products(self, states: list[np.ndarray], rows: Sequence[int], directions: _Directions, moves: Sequence[Array], client: Client,
                  copies: list[_Copy]) -> Array:
        """Of each direction of each copy, whose state is that row: (D, all vertices, 3)."""
        out = []
        for copy, result, given in zip(copies, self._steps(states, rows, "gradient", client, copies, directions, moves), directions):
            weights = self._weights(result)
            for at, direction in enumerate(given):
                out.append(_product(copy, result, at, weights))
                if self.kind == "energy" and len(result):
                    out[-1] += _gradient(copy, result, self.stiffness * _along(copy, result, _dense(copy, direction)))
        return np.stack(out)

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

    def _depth_products(self, states: list[np.ndarray], rows: Sequence[int], directions: _Directions, moves: Sequence[Array],
                        client: Client, copies: list[_Copy]) -> Array:
        """As _products, of V / A. With g = dV/dt, A = |g|, n = g / A, H the second derivative of V, and T that translates a surface,

            d(V/A)/dx = dV/dx / A - V p / A^2,  p = dA/dx = H T n.

        One part of its derivative along u is not made of H: the change of H along u, times T n. Third derivatives are symmetric, so this
        is the change of H u along T n: the difference of two exact products, with the surface moved to either side, by SHIFT of the mean
        of depth and extent: what is rounded is in units of the extent, and the depth is how far V may be taken for smooth."""
        side = self.moving[0]
        units = [[{copy.bodies[side]: np.broadcast_to(axis, (copy.bodies[side].vertices, 3))} for axis in np.eye(3)] for copy in copies]
        both = [[*unit, *given] for unit, given in zip(units, directions)]
        here = self._steps(states, rows, ("frame", "gradient"), client, copies, both, moves)
        volumes, areas = np.array([(result.volumes.sum(), result.areas.sum()) for result in here]).T
        areas[areas == 0] = np.inf  # as in _depth_gradients
        side_rows = slice(*_first(copies[0])[side:side + 2])
        gradients = np.stack([_sums(copy, result)[0] for copy, result in zip(copies, here)])
        normals = gradients[:, side_rows].sum(1) / areas[:, None]
        placed = [state[rows if len(state) > 1 else [0] * len(rows)].astype(np.float64) for state in states]
        depths, extents = volumes / areas, np.ptp(placed[0], axis=1).max(1)
        shifts = np.minimum(SHIFT * np.sqrt(depths * extents), 1e-3 * depths)

        def shifted(by: Array) -> list[StepResult]:
            there = placed[0] + (by[:, None] * normals)[:, None]
            return self._steps([there, *placed[1:]], range(len(copies)), "gradient", client, copies, directions, moves)

        out = []
        for k, (plus, minus) in enumerate(zip(shifted(shifts), shifted(-shifts))):
            copy, normal, gradient, volume, area = copies[k], normals[k], gradients[k], volumes[k], areas[k]
            products = _sums(copy, here[k])[1:]
            by_axis, by_area = products[:3], np.tensordot(normal, products[:3], 1)
            for direction, product, ahead, behind in zip(directions[k], products[3:], _sums(copy, plus)[1:], _sums(copy, minus)[1:]):
                moved, turning = _dense(copy, direction), product[side_rows].sum(0) / area
                third = (ahead - behind) / (2 * shifts[k] or np.inf) + np.tensordot(turning - normal * (normal @ turning), by_axis, 1)
                along, widening = (gradient * moved).sum(), (by_area * moved).sum()
                out.append(product / area - (gradient * widening + by_area * along + volume * third) / area**2
                           + 2 * volume * widening / area**3 * by_area)
        return np.stack(out)


def _dense(copy: _Copy, displacements: Mapping[Any, Array]) -> Array:
    """(all vertices, 3) of those of some bodies."""
    return np.concatenate([displacements.get(body, np.zeros((body.vertices, 3))) for body in copy.bodies])


def _sums(copy: _Copy, result: StepResult) -> Array:
    """(1 + D, all vertices, 3): the volume's gradient, and its second derivative times each direction."""
    ones = np.ones(len(result))
    return np.stack([_gradient(copy, result, ones), *(_product(copy, result, at, ones) for at in range(result.directions))])


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
    surfaces = (digest, tuple(sizes), id(client))
    key = (*surfaces, kind, number_of(stiffness))
    with _lock:
        found = _known.get(key)
        if found is not None and found.client is client:
            _known.move_to_end(key)
            return found
        found = _known[key] = Quantity(arrays, kind, stiffness, client=client)
        found._shelf = _shelves.setdefault(surfaces, found._shelf)
        dropped = _known.popitem(last=False)[1]._shelf if len(_known) > MOST_KNOWN else None
        if dropped is not None and any(other._shelf is dropped for other in _known.values()):
            dropped = None
    if dropped is not None:
        dropped.close()
    return found
