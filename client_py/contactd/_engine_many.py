"""Steps of many scenes at once in this process: one call of the engine, whose arguments and answers are arrays."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Iterator

import numpy as np

from . import _settings
from ._engine import EngineLink
from ._engine_memory import EngineTables, left_out_of
from ._many import GatheredResult, ManyResult, Motion
from ._state import DEFORMABLE, POSE, POSITIONS, RIGID, Request
from .errors import ContactdError, ErrorCode, error_for


BATCH = 512  # scenes that the engine takes at once: fewer wait more often for its threads, more gain nothing


class _Steps:
    """ct_step of scenes that are stepped together, with ct_update and ct_velocity, filled but for what differs from one time to the next.
    It may be used by who holds the locks of all of its scenes."""

    def __init__(self, link: EngineLink, motion: Motion) -> None:
        native, ffi, together = link.native, link.native.ffi, motion.together
        self.scenes = [link._scene({"scene": state.id}) for state in together.states]
        self.in_order = sorted(self.scenes, key=id)
        self.native, self.n, self.n_contacts = native, len(self.scenes), 0  # contacts: of the last time
        posed, moving = (together.rows(which, field, RIGID)
                         for which, field in ((motion.posed, "poses"), (motion.moving, "velocities")))
        soft = [[row[0] for row in together.rows([place], "positions", DEFORMABLE)] for place in motion.soft]
        for place, states in zip(motion.soft, soft):
            if len({state.vertices for state in states}) > 1:
                raise error_for(ErrorCode.WRONG_LENGTH, f"body {place} has another number of vertices in another scene",
                                field="positions")
        n_updates, n_velocities, n = len(motion.posed) + len(soft), len(motion.moving), self.n
        self._memory = ffi.new("ct_update[]", n * n_updates), ffi.new("ct_velocity[]", n * n_velocities)
        updates, velocities = (native.writable(memory, n * per, kind).reshape(n, per) for memory, per, kind in
                               zip(self._memory, (n_updates, n_velocities), ("ct_update", "ct_velocity")))
        self.has_law = np.array([_settings.shown(state.settings, "law") == "pressure" for state in together.states], bool)
        self.steps = ffi.new("ct_step[]", n)
        self.rows = native.writable(self.steps, n, "ct_step")
        self.rows["scene"] = [scene.address for scene in self.scenes]
        for name, rows, memory in (("updates", updates, self._memory[0]), ("velocities", velocities, self._memory[1])):
            if rows.size:
                self.rows[name] = native.address(memory) + np.arange(n, dtype=np.uint64) * np.uint64(rows.strides[0])
                self.rows["n_" + name] = rows.shape[1]
        self._posed, self._soft, self._moving = updates[:, :len(motion.posed)], updates[:, len(motion.posed):], velocities
        if self._posed.size:
            self._posed["body"], self._posed["kind"] = [[body.id for body in row] for row in posed], POSE
        if self._soft.size:
            self._soft["body"], self._soft["kind"] = np.transpose([[state.id for state in states] for states in soft]), POSITIONS
            self._soft["count"] = [states[0].vertices for states in soft]
        if self._moving.size:
            self._moving["body"] = [[body.id for body in row] for row in moving]

    def fill(self, motion: Motion, want: int, cancel: Any) -> None:
        if self._posed.size:
            self._posed["pose"] = motion.poses
        if self._moving.size:
            self._moving["twist"] = motion.twists
        if self._soft.size:
            positions, counts = motion.positions, self._soft["count"][0].astype(np.int64)
            assert positions is not None
            first = (np.cumsum(counts) - counts) * positions.strides[1]
            self._soft["positions"] = positions.ctypes.data + first + np.arange(self.n)[:, None] * positions.strides[0]
            self._soft["dtype"] = 1 if positions.dtype.itemsize == 4 else 2
        self.rows["want"], self.rows["cancel"] = want, self.native.address(cancel)


class _Gathered:
    """Contacts of steps, batch after batch: while they are in the processor's caches, and before their memory is another batch's."""

    def __init__(self, native: Any, most: int) -> None:
        self.native, self.n, self.contacts = native, 0, np.empty(most, native.dtype("ct_contact"))
        self.counts: list[np.ndarray] = []  # (n,) of each batch: contacts of each step; -1 of one that failed

    def add(self, steps: Any, done: np.ndarray) -> None:
        """done: which of the steps have a result."""
        (ffi, lib), n, first = (self.native.ffi, self.native.lib), len(done), np.empty(len(done) + 1, np.uint64)
        counts_at = ffi.from_buffer("uint64_t[]", first, require_writable=True)
        end = self.n + lib.ct_steps_gather(steps, n, ffi.NULL, counts_at)
        if end > len(self.contacts):
            before, self.contacts = self.contacts, np.empty(2 * end, self.contacts.dtype)
            self.contacts[:self.n] = before[:self.n]
        if end > self.n:
            lib.ct_steps_gather(steps, n, ffi.from_buffer("ct_contact[]", self.contacts[self.n:end], require_writable=True), counts_at)
        self.counts.append(np.where(done, np.diff(first).astype(np.int64), -1))
        self.n = end


@contextlib.contextmanager
def _held(scenes: list[Any]) -> Iterator[None]:
    """The locks of scenes, which are in one order, so that two calls do not wait for each other."""
    held = []
    try:
        for scene in scenes:
            scene.lock.acquire()
            held.append(scene)
        yield
    finally:
        for scene in held:
            scene.lock.release()


def _step_many(link: EngineLink, motion: Motion, want: int, timeout: float) -> GatheredResult:
    native, (ffi, lib), n = link.native, (link.native.ffi, link.native.lib), len(motion.scenes)
    deadline = time.monotonic() + timeout
    key = tuple(motion.posed), tuple(motion.soft), tuple(motion.moving)
    made: _Steps | None = motion.together.made.get(key)
    if made is None:
        made = motion.together.made[key] = _Steps(link, motion)
    steps, cancel = made.steps, ffi.new("ct_cancel *")
    cancel.until, cancel.outer = deadline, native.interrupts.outer()
    with _held(made.in_order):
        link._check_open()
        if not motion.together.is_current and not all(scene.address for scene in made.scenes):
            raise error_for(ErrorCode.STALE_HANDLE, "a scene was closed meanwhile", field="scenes")
        if time.monotonic() >= deadline:
            raise error_for(ErrorCode.DEADLINE_EXCEEDED, f"no answer within {timeout:.3g} s: it had not begun", field="timeout",
                            retry=True)
        made.fill(motion, want, cancel)
        gathered = _Gathered(native, max(n, made.n_contacts))
        for at in range(0, n, BATCH):
            here, k = steps + at, min(BATCH, n - at)
            try:
                native.interrupts.run(link._engine, here, k)
                gathered.add(here, made.rows["result"][at:at + k] != 0)
            finally:
                lib.ct_steps_free_results(here, k)
        is_late = time.monotonic() >= deadline
        made.n_contacts = gathered.n
        counts = np.concatenate(gathered.counts or [np.zeros(0, np.int64)])
        errors = {k: link.step_error(steps[k], motion.scenes[k]._state.label, 0 if is_late else made.scenes[k].limit, timeout)
                  for k in np.flatnonzero(counts < 0).tolist()}
        counts[counts < 0] = 0
        for scene, count in zip(made.scenes, counts.tolist()):
            scene.steps += 1
            scene.contacts = count
    for state in motion.together.states:
        state.number += 1
    for k in errors:
        motion.together.states[k].number -= 1
    has_wrenches = bool((made.has_law & (counts > 0)).any())
    tables = EngineTables(gathered.contacts[:gathered.n], left_out_of(bool(motion.moving), has_wrenches))
    return GatheredResult(motion, tables, counts, errors, want | (1 if want & 32 else 0))


def _step_each(link: EngineLink, requests: list[Request]) -> list[Any]:
    """The answer to each, or what it failed with."""
    native, (ffi, lib) = link.native, (link.native.ffi, link.native.lib)
    keep: list[Any] = []
    scenes = [link._scene_to_step(request) for request in requests]
    memory, limited = ffi.new("ct_step[]", len(requests)), []
    with _held(scenes):
        for k, (request, scene) in enumerate(zip(requests, scenes)):
            link._check_there(scene, request.scene.id)
            step, is_limited = link._fill_step(request, scene, keep)
            memory[k] = step[0]
            limited.append(is_limited)
        for at in range(0, len(requests), BATCH):
            if min(request.deadline for request in requests) > time.monotonic():
                try:
                    native.interrupts.run(link._engine, memory + at, min(BATCH, len(requests) - at))
                except BaseException:
                    lib.ct_steps_free_results(memory, at)
                    raise
        answers: list[Any] = []
        for k, (request, scene) in enumerate(zip(requests, scenes)):
            try:
                answers.append(link._step_done(request, scene, memory + k, limited[k]))
            except ContactdError as e:
                answers.append(e)
    return answers


class ManyLink(EngineLink):
    def step_each(self, requests: list[Request]) -> list[Any] | None:
        """Steps of different scenes as one batch: the answer to each, or its error. None: as of step_many."""
        self._check_open()
        if self._waiting and any(self._scenes[request.scene.id].waiting for request in requests if request.scene.id in self._scenes):
            return None
        return _step_each(self, requests)

    def step_many(self, motion: Motion, want: int, timeout: float) -> ManyResult | None:
        """None: steps submitted before wait for some of the scenes, so that these have to wait, too; or frames are continuous."""
        self._check_open()
        if motion.together.has_continuous_frames:
            return None
        if self._waiting and any(self._scenes[scene.id].waiting for scene in motion.scenes if scene.id in self._scenes):
            return None
        return _step_many(self, motion, want, timeout)
