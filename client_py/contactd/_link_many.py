"""Steps of many scenes at once on a server: one message, whose answer has the columns of all contacts. For client.

It may be sent where nothing of the scenes is on its way and the server has them as the caller thinks; else they are stepped one
by one. Steps that come behind it wait until it is answered, so its numbers count only then. A lost connection repeats them.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np

from ._answers import error_of
from ._link import Link
from ._many import GatheredResult, ManyResult, Motion
from ._schema import TABLES, UNION_NUMBER
from ._state import DEFORMABLE, POSITIONS, RIGID, BodyState, Message, Poses, Request, SceneState, Update
from ._wire import Arrays, Decoded, MalformedMessage
from .errors import ContactdError

_FIELDS = {field.id: field for field in TABLES["Contact"].fields}
_DTYPES: dict[int, Any] = {2: np.dtype("<f8"), 3: np.dtype("<u4"), 4: np.dtype("?"), 5: np.dtype("<u8")}  # by number on the wire


class ManyTables:
    """Columns of a ManyResult, as LaterTables has those of a StepResult."""

    def __init__(self, columns: dict[str, np.ndarray], count: int) -> None:
        self._columns, self._count = columns, count

    def __len__(self) -> int:
        return self._count

    def column(self, name: str, shape: tuple[int, ...] = ()) -> np.ndarray:
        if not self._count:
            return np.zeros((0, *shape), "f8" if shape else next(f.format for f in _FIELDS.values() if f.name == name))
        return self._columns[name].reshape(self._count, *shape).copy()

    def has(self, name: str) -> bool:
        return name in self._columns


class _Apart(ContactdError):
    """The scenes must be stepped one by one."""


def step_many(link: Link, motion: Motion, want: int, timeout: float) -> ManyResult | None:
    """None: the server is older, or the scenes must be stepped one by one."""
    states = motion.together.states
    if link.welcome.get("last_message", 0) < UNION_NUMBER["StepMany"] or not states:
        return None
    if motion.together.has_continuous_frames or not motion.has_like_bodies():
        return None
    work = _Work(link, motion, states, want, timeout)
    try:
        result: ManyResult = link.call(work.request, work.own)
    except _Apart:
        return None
    del work.request  # it was answered; each would keep the other, and the scenes
    return result


class _Work:
    def __init__(self, link: Link, motion: Motion, states: list[SceneState], want: int, timeout: float) -> None:
        self.link, self.motion, self.states, self.want = link, motion, states, want
        self.request = Request("StepMany", self.build, self.done, timeout=timeout, refused=self.refused)
        self._sequences: list[int] = []  # as sent first
        self._session = (0, 0)  # whose these are
        together = motion.together
        self._posed: list[tuple[BodyState, ...]] = together.rows(motion.posed, "poses", RIGID)
        self._moving: list[tuple[BodyState, ...]] = together.rows(motion.moving, "velocities", RIGID)
        self._soft: list[tuple[BodyState, ...]] = together.rows(motion.soft, "positions", DEFORMABLE)

    def own(self) -> None:
        """The caller may change its arrays again."""
        self.motion.own()

    # ---- with the I/O lock ----

    def build(self) -> Message:
        session = self.link.session
        if self._sequences and session != self._session:
            raise _Apart("the scenes were built again")
        if not self._sequences:
            if self.link.are_busy(self.states):
                raise _Apart("steps of these scenes are on their way")
            self._session, self._sequences = session, [state.sequence + 1 for state in self.states]
        for state in self.states:
            state.changing = self.request
        arrays, motion = Arrays(), self.motion
        left = int(max(1, min(0xFFFFFFFF, (self.request.deadline - time.monotonic()) * 1e6)))
        made, key = motion.together.made, ("scenes", session)
        if key not in made:
            made[key] = [state.id for state in self.states]
        body: dict[str, Any] = {"scenes": made[key], "sequences": self._sequences,
                                "want": self.want, "deadline_us": left}
        if motion.poses is not None:
            body["posed"], body["poses"] = self._ids(motion.posed, self._posed), arrays.add(motion.poses)
        if motion.twists is not None:
            body["moving"], body["twists"] = self._ids(motion.moving, self._moving), arrays.add(motion.twists)
        if motion.positions is not None:
            body["soft"], body["positions"] = self._ids(motion.soft, self._soft), arrays.add(motion.positions)
            body["vertices"] = [state.vertices for state in self._soft[0]]
        return body, None if arrays.empty else arrays

    def _ids(self, which: list[int], rows: list[tuple[BodyState, ...]]) -> list[int]:
        """Once where all scenes have the same, else one scene's after the other's."""
        made, key = self.motion.together.made, ("ids", *which)
        if key in made and self.motion.together.is_current:
            return list(made[key])
        ids = [body.id for row in rows for body in row]
        once = ids[:len(rows[0])]
        found = made[key] = once if ids == once * len(rows) else ids
        return found

    def done(self, answer: Decoded) -> ManyResult:
        if answer.kind != "ManyResult":
            raise KeyError(answer.kind)
        counts = np.array(answer.body["counts"] or (), np.int64)
        if len(counts) != len(self.states):
            raise MalformedMessage(f"{len(counts)} counts of {len(self.states)} scenes")
        errors, unused = {}, set()
        for row in answer.body["errors"] or ():
            errors[row["index"]] = error_of(row["error"])
            if not row["is_answer"]:
                unused.add(row["index"])
        self._note(set(errors), unused)
        tables = _tables(answer, int(counts.sum()))
        return GatheredResult(self.motion, tables, counts, errors, self.want | (1 if self.want & 32 else 0))

    def refused(self, error: ContactdError, is_unused: bool) -> None:
        """All of it. Where the steps may have been computed, the next one of each scene sends everything."""
        everything = set(range(len(self.states)))
        self._note(everything, everything if is_unused else set())
        if not is_unused:
            for state in self.states:
                state.synced = False
            for body in (body for bodies in self._soft for body in bodies):
                body.doubt()

    def _note(self, failed: set[int], unused: set[int]) -> None:
        """What the server has done."""
        request = self.request
        for state in self.states:
            if state.changing is request:
                state.changing = None
            state.sequence += 1
            state.number += 1
        for k in unused:
            self.states[k].sequence -= 1
        for k in failed:
            self.states[k].number -= 1
        self.motion.own()  # if there was no time yet
        if (poses := self.motion.poses) is not None:
            self._note_poses(poses, failed)
        if (positions := self.motion.positions) is not None:
            for k, bodies in enumerate(self._soft):
                if k not in failed:
                    _note_positions(bodies, positions[k])


    def _note_poses(self, poses: np.ndarray, failed: set[int]) -> None:
        if failed:
            for k, bodies in enumerate(self._posed):
                if k not in failed:
                    for body, pose in zip(bodies, poses[k]):
                        body.pose = pose
            return
        made, key = self.motion.together.made, ("poses", *self.motion.posed)
        if key not in made:
            made[key] = Poses(itertools.chain.from_iterable(self._posed))
        made[key].replace(poses.reshape(-1, 12))


def _note_positions(bodies: tuple[BodyState, ...], rows: np.ndarray) -> None:
    first = 0
    for body in bodies:
        body.apply(Update(body, POSITIONS, rows[first:first + body.vertices]))
        first += body.vertices


def _tables(answer: Decoded, count: int) -> ManyTables:
    columns: dict[str, np.ndarray] = {}
    data = answer.array("data")
    for row in answer.body["columns"] or ():
        field, dtype = _FIELDS.get(row["field"]), _DTYPES.get(row["dtype"])
        if field is None or dtype is None:
            continue  # of a newer server
        numbers, size = count * row["width"], 0 if data is None else len(data)
        if data is None or row["offset"] + numbers * dtype.itemsize > size:
            raise MalformedMessage(f"{field.name}: {numbers} numbers from byte {row['offset']} of {size}")
        columns[field.name] = np.frombuffer(data, dtype, numbers, row["offset"])
    return ManyTables(columns, count)
