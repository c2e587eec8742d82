"""Steps of many scenes at once: one call, and one set of columns for all of them."""

from __future__ import annotations

import functools
import operator
from types import SimpleNamespace
from typing import Any, Sequence, SupportsIndex, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _arrays, _state
from ._columns import Columns, Source, table_of, values_of
from ._contact_columns import COLUMNS, ContactColumns
from ._want import FRAME, IDS, INERTIA, Want, want_bits
from .errors import ContactdError, ErrorCode, error_for
from .result import StepResult, record_of
from .scene import Scene

FRAME_OR_LESS = FRAME | INERTIA | IDS


class Scenes(list[Scene]):
    """Scenes that are stepped together: a list from which an array of indices takes some, and so does a mask, as `scenes[done]`."""

    # Arrays before indices, unlike in list: an array is a SupportsIndex, too, for those of one number.
    @overload  # type: ignore[override]
    def __getitem__(self, at: slice | NDArray[np.bool_] | NDArray[np.integer[Any]]) -> "Scenes": ...  # type: ignore[overload-overlap]

    @overload
    def __getitem__(self, at: SupportsIndex) -> Scene: ...

    def __getitem__(self, at: Any) -> Any:  # pyright: ignore
        if isinstance(at, slice):
            return Scenes(super().__getitem__(at))
        if not isinstance(at, np.ndarray) or not at.ndim:
            return super().__getitem__(at)
        if at.dtype == bool and at.shape == (len(self),):
            at = np.flatnonzero(at)
        if at.ndim != 1 or not np.issubdtype(at.dtype, np.integer):
            raise error_for(ErrorCode.WRONG_LENGTH, f"expected indices, or a mask of shape ({len(self)},), got {at.dtype} {at.shape}",
                            object="scenes")
        return Scenes(super(Scenes, self).__getitem__(i) for i in at.tolist())


class Together:
    """Scenes that are stepped at once, and what is found once for all of their steps: it holds while `is_current`, until a scene or
    a body comes or goes. It has their states alone, not the scenes: these lead to the client, which keeps it."""

    def __init__(self, scenes: list[Scene]) -> None:
        self._change = _state.latest_change()
        self.states = [scene._state for scene in scenes]
        if len({id(state) for state in self.states}) < len(scenes):
            raise error_for(ErrorCode.INVALID_ARGUMENT, "a scene is there twice", field="scenes")
        for scene in scenes:
            scene._check_open()
        self.clients = {id(scene.client) for scene in scenes}
        self.links = {state.link for state in self.states}
        self._rows: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        self.made: dict[Any, Any] = {}  # what a link keeps here

    @classmethod
    def of(cls, scenes: list[Scene], last: "Sequence[Together]" = ()) -> "Together":
        """last: of the calls before, for one of which these were mostly the same."""
        states = [scene._state for scene in scenes]
        return next((one for one in last if one.is_current and one.states == states), None) or cls(scenes)

    @property
    def is_current(self) -> bool:
        return self._change == _state.latest_change()

    @functools.cached_property
    def has_continuous_frames(self) -> bool:
        """Whether a scene has, whose tangents each step of it by itself carries on."""
        return any([state.frames is not None for state in self.states])

    @functools.cached_property
    def ids(self) -> NDArray[np.int64]:
        """(n, most + 1) of each scene's bodies; 0 where it has none."""
        known = [[body.id for body in state.bodies] for state in self.states]
        ids = np.zeros((len(known), max(map(len, known), default=0) + 1), np.int64)
        for row, numbers in zip(ids, known):
            row[:len(numbers)] = numbers
        return ids

    def rows(self, which: Sequence[int], field: str, kind: int) -> list[tuple[Any, ...]]:
        """The states of each scene's bodies at these places, all of this kind."""
        key = *which, kind
        if key not in self._rows:
            self._rows[key] = self._find_rows(which, field, kind)
        return self._rows[key]

    def _find_rows(self, which: Sequence[int], field: str, kind: int) -> list[tuple[Any, ...]]:
        if not which:
            return [()] * len(self.states)
        first, *more = which
        take = operator.itemgetter(first, *more) if more else lambda bodies: (bodies[first],)
        is_soft = kind == _state.DEFORMABLE
        try:
            rows = [take(state.bodies) for state in self.states]
        except IndexError:
            rows = []
        if rows and all((body.kind == _state.DEFORMABLE) == is_soft for row in rows for body in row):
            return rows
        return [tuple(_bodies(which, state, field, kind)) for state in self.states]  # which names what is wrong


def _bodies(which: Sequence[int], scene: _state.SceneState, field: str, kind: int) -> list[Any]:
    """The states of a scene's bodies by place, all of this kind."""
    found, bodies = [], scene.bodies
    for place in which:
        if not -len(bodies) <= place < len(bodies):
            raise error_for(ErrorCode.OUT_OF_RANGE, f"the scene has {len(bodies)} bodies, so none at {place}",
                            object=scene.label, field=field)
        state = bodies[place]
        if (state.kind == _state.DEFORMABLE) != (kind == _state.DEFORMABLE):
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"body {place} is {'deformable' if kind == _state.RIGID else 'rigid'}",
                            object=scene.label, field=field)
        found.append(state)
    return found


class ManyResult(ContactColumns):
    """The contacts of many scenes' steps, one scene's after the other's: row i of each column is of contact i.

    Attributes:
        scenes: as they were given; `scene_index` and `body_pairs` point to them and their bodies.
        offsets: (s + 1,) scene k has the rows from offsets[k] to offsets[k + 1].
        errors: what steps failed with, by the scene's index, where `return_errors` asked for them.
    """

    def __init__(self, scenes: Sequence[Scene], counts: NDArray[np.int64], errors: dict[int, ContactdError]) -> None:
        self.scenes, self.errors = list(scenes), errors
        self.offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def __len__(self) -> int:
        """The number of contacts, of all scenes."""
        return int(self.offsets[-1])

    @property
    def scene_index(self) -> NDArray[np.int64]:
        """(n,) which of `scenes` a contact is of."""
        return np.repeat(np.arange(len(self.scenes)), np.diff(self.offsets))

    @property
    def body_pairs(self) -> NDArray[np.int64]:
        """(n, 2) which of its scene's `bodies` a contact is of."""
        raise NotImplementedError

    @property
    def body_wrenches(self) -> NDArray[np.float64]:
        """(s, b, 6) N and N m about the body's origin, of all contacts on each body of each scene, b the most bodies of a
        scene. Of scenes with law="pressure"."""
        out = np.zeros((len(self.scenes), self._most_bodies(), 6))
        index, pairs, wrenches = self.scene_index, self.body_pairs, self.wrenches
        np.add.at(out, (index[:, None], pairs), wrenches)
        return out

    def to_dict(self) -> dict[str, np.ndarray]:
        """As StepResult.to_dict, for pandas.DataFrame and the like, with `scene_index` first."""
        return table_of(self, self._is_given, scene_index=self.scene_index, bodies_0=self.body_pairs[:, 0], bodies_1=self.body_pairs[:, 1])

    def _is_given(self, name: str) -> bool:
        """Whether some step has given the column."""
        raise NotImplementedError

    def _most_bodies(self) -> int:
        return max((len(scene._state.bodies) for scene in self.scenes), default=0)

    def __reduce__(self) -> tuple[Any, ...]:
        """Its scenes are then what is known of them, as in StepResult's pickles."""
        columns: dict[str, np.ndarray | ContactdError] = {}
        for name in (name for name, column in COLUMNS.items() if column.group != "cell"):
            try:
                columns[name] = self._column(name)
            except ContactdError as e:
                columns[name] = e
        return KeptResult, ([record_of(scene) for scene in self.scenes], np.diff(self.offsets), self.errors, columns, self.body_pairs, self._most_bodies())

    def __repr__(self) -> str:
        return f"<ManyResult of {len(self.scenes)} scenes: {len(self)} contacts>"


class _Asked(Source):
    """Of one batch."""

    def __init__(self, tables: Any, want: int) -> None:
        self._answer, self.want = SimpleNamespace(body={"contacts": tables}), want  # no cycle, which would keep its memory for long


class GatheredResult(ManyResult):
    """Of one batch."""

    def __init__(self, motion: Motion, tables: Any, counts: NDArray[np.int64], errors: dict[int, ContactdError], want: int) -> None:
        super().__init__(motion.scenes, counts, errors)
        self._columns = Columns(_Asked(tables, want), "contacts")
        self._ids = motion.together.ids

    def _column(self, name: str) -> np.ndarray:
        return self._columns._column(name)

    def _is_given(self, name: str) -> bool:
        return self._columns._is_given(name)

    @property
    def body_pairs(self) -> NDArray[np.int64]:
        pairs = np.stack([self._columns._field("body_a"), self._columns._field("body_b")], axis=1)
        found: NDArray[np.int64] = (self._ids[self.scene_index][:, None, :] == pairs[:, :, None]).argmax(2)
        return found


class StackedResult(ManyResult):
    """Of steps that were made one by one."""

    def __init__(self, scenes: Sequence[Scene], parts: Sequence[StepResult | ContactdError]) -> None:
        self._parts: list[StepResult] = [part for part in parts if not isinstance(part, Exception)]
        super().__init__(scenes, np.array([0 if isinstance(part, Exception) else len(part) for part in parts], np.int64),
                         {k: part for k, part in enumerate(parts) if isinstance(part, ContactdError)})

    def _column(self, name: str) -> np.ndarray:
        parts = [part for part in self._parts if len(part)] or self._parts
        if not self._is_given(name):
            return getattr(parts[0], name) if parts else values_of(None, COLUMNS[name].fields[0], COLUMNS[name].shape)  # or raises
        return np.concatenate([getattr(part, name) if part._is_given(name) else np.zeros((len(part), *COLUMNS[name].shape)) for part in parts])

    def _is_given(self, name: str) -> bool:
        return any(part._is_given(name) for part in self._parts)

    @property
    def body_pairs(self) -> NDArray[np.int64]:
        return np.concatenate([part.body_pairs for part in self._parts] or [np.zeros((0, 2), np.int64)])


class KeptResult(ManyResult):
    """That comes out of a pickle, or is a copy."""

    def __init__(self, scenes: Sequence[Any], counts: NDArray[np.int64], errors: dict[int, ContactdError], columns: dict[str, np.ndarray | ContactdError],
                 body_pairs: NDArray[np.int64], most_bodies: int) -> None:
        super().__init__(scenes, counts, errors)
        self._columns, self._pairs, self._most = columns, body_pairs, most_bodies

    def _column(self, name: str) -> np.ndarray:
        column = self._columns[name]
        if isinstance(column, ContactdError):
            raise column.with_traceback(None)
        return column

    def _is_given(self, name: str) -> bool:
        return isinstance(self._columns.get(name), np.ndarray)

    @property
    def body_pairs(self) -> NDArray[np.int64]:
        return self._pairs

    def _most_bodies(self) -> int:
        return self._most


class Motion:
    """What moves in each of many scenes: the same bodies, by their place among the scene's, in all of them."""

    def __init__(self, together: Together, scenes: list[Scene], poses: Any, positions: ArrayLike | None, velocities: Any) -> None:
        self.together, self.scenes = together, scenes
        self._is_own = False
        self.posed, self.poses = self._of_rigid(poses, "poses")
        self.moving, self.twists = self._of_rigid(velocities, "velocities")
        self.soft, self.positions = self._of_soft(positions)

    def has_like_bodies(self) -> bool:
        """Whether the deformable bodies that move have as many vertices in each scene."""
        if not self.soft:
            return True
        vertices = [[body.vertices for body in row] for row in self.together.rows(self.soft, "positions", _state.DEFORMABLE)]
        return all(row == vertices[0] for row in vertices)

    def own(self) -> None:
        """Replaces the caller's arrays by copies, once, for when the caller may change them again."""
        if self._is_own:
            return
        self._is_own = True
        self.poses = None if self.poses is None else self.poses.copy()
        self.twists = None if self.twists is None else self.twists.copy()
        self.positions = None if self.positions is None else self.positions.copy()

    def _of_rigid(self, given: Any, field: str) -> tuple[list[int], NDArray[np.float64] | None]:
        """Places of bodies and (n, b, 12 or 6); given: (places, array), or the array of all rigid bodies."""
        if given is None:
            return [], None
        if isinstance(given, tuple):
            places, value = [int(place) for place in given[0]], given[1]
        else:
            first = self.scenes[0]._state.bodies if self.scenes else []
            places, value = [k for k, body in enumerate(first) if body.kind == _state.RIGID], given
        array = _arrays.numbers(value, field, "")
        shape = (len(self.scenes), len(places))
        if array.shape[:2] != shape:
            raise error_for(ErrorCode.WRONG_LENGTH, f"expected an array ({shape[0]}, {shape[1]}, ...), a row for each of these bodies "
                            f"in each scene, got {array.shape}", field=field)
        if field == "velocities":
            if array.shape[2:] != (6,):
                raise error_for(ErrorCode.WRONG_LENGTH, f"expected twists of 6 numbers, got {array.shape[2:]}", field=field)
            return places, np.ascontiguousarray(array, float)
        rows = _arrays.poses(array.reshape(-1, *array.shape[2:]), shape[0] * shape[1])
        return places, np.ascontiguousarray(rows, float).reshape(*shape, 12)

    def _of_soft(self, given: ArrayLike | None) -> tuple[list[int], np.ndarray | None]:
        if given is None:
            return [], None
        first = self.scenes[0]._state.bodies if self.scenes else []
        places = [k for k, body in enumerate(first) if body.kind == _state.DEFORMABLE]
        array = _arrays.numbers(given, "positions", "")
        rows = sum(first[k].vertices for k in places)
        if array.shape != (len(self.scenes), rows, 3):
            raise error_for(ErrorCode.WRONG_LENGTH, f"expected {(len(self.scenes), rows, 3)}, the vertices of all deformable bodies of "
                            f"each scene, got {array.shape}", field="positions")
        return places, np.ascontiguousarray(array, "<f4" if array.dtype.newbyteorder("=") == np.float32 else "<f8")

    def arguments(self, k: int) -> dict[str, Any]:
        """Of Scene.submit, for scene k."""
        scene = self.scenes[k]
        out: dict[str, Any] = {}
        bodies = scene.bodies
        if self.poses is not None:
            _bodies(self.posed, scene._state, "poses", _state.RIGID)
            out["poses"] = ([bodies[place] for place in self.posed], self.poses[k].reshape(-1, 3, 4))
        if self.positions is not None:
            _bodies(self.soft, scene._state, "positions", _state.DEFORMABLE)
            out["positions"] = ([bodies[place] for place in self.soft], self.positions[k])
        if self.twists is not None:
            _bodies(self.moving, scene._state, "velocities", _state.RIGID)
            out["velocities"] = {bodies[place]: twist for place, twist in zip(self.moving, self.twists[k])}
        return out


def check_want(want: Want | Sequence[Want] | None) -> int:
    bits = want_bits("frame" if want is None else want)
    if bits & ~FRAME_OR_LESS:
        raise error_for(ErrorCode.INVALID_ARGUMENT, 'many scenes are asked for columns of contacts: "volume", "frame", "inertia" or "ids"; for '
                        "gradients and forces step a scene", field="want")
    return bits


def step_each(motion: Motion, want: Any, timeout: float | None) -> StackedResult:
    """Step by step, all on their way at once."""
    for link in motion.together.links:
        link.check_thread()
    futures = [scene.submit(**motion.arguments(k), want=want, timeout=timeout) for k, scene in enumerate(motion.scenes)]
    parts: list[Any] = []
    for future in futures:
        try:
            parts.append(future.result())
        except ContactdError as e:
            parts.append(e)
    return StackedResult(motion.scenes, parts)
