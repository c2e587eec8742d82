"""Steps of many scenes at once in this process: one call of the engine, whose arguments and answers are arrays."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Iterator

import numpy as np

from ._engine import EngineLink
from ._many import GatheredResult, ManyResult, Motion
from ._state import DEFORMABLE, POSE, POSITIONS, RIGID, Request
from .errors import ContactdError, ErrorCode, error_for


BATCH = 256  # scenes that the engine takes at once: what it keeps of more of them leaves the processor's caches


@contextlib.contextmanager
def _held(scenes: list[Any]) -> Iterator[None]:
    """Their locks, in one order, so that two calls do not wait for each other."""
    held = []
    try:
        for scene in sorted(scenes, key=id):
            scene.lock.acquire()
            held.append(scene.lock)
        yield
    finally:
        for lock in held:
            lock.release()


def _fill_updates(link: EngineLink, motion: Motion) -> tuple[Any, int]:
    """ct_update[n][b], the poses first."""
    native, n = link.native, len(motion.scenes)
    per = len(motion.posed) + len(motion.soft)
    memory = native.ffi.new("ct_update[]", n * per)
    rows = native.writable(memory, n * per, "ct_update").reshape(n, per)
    if motion.poses is not None:
        rows["body"][:, :len(motion.posed)] = [[body.id for body in row] for row in motion.states(motion.posed, "poses", RIGID)]
        rows["kind"][:, :len(motion.posed)] = POSE
        rows["pose"][:, :len(motion.posed)] = motion.poses
    first = 0
    for at, place in enumerate(motion.soft, len(motion.posed)):
        assert motion.positions is not None
        states = [motion.bodies([place], scene, "positions", DEFORMABLE)[0] for scene in motion.scenes]
        if len({state.vertices for state in states}) > 1:
            raise error_for(ErrorCode.WRONG_LENGTH, f"body {place} has another number of vertices in another scene", field="positions")
        rows["body"][:, at], rows["kind"][:, at] = [state.id for state in states], POSITIONS
        rows["count"][:, at], rows["dtype"][:, at] = states[0].vertices, 1 if motion.positions.dtype.itemsize == 4 else 2
        rows["positions"][:, at] = (motion.positions.ctypes.data + first * motion.positions.strides[1]
                                    + np.arange(n, dtype=np.uint64) * motion.positions.strides[0])
        first += states[0].vertices
    return memory, per


def _fill_velocities(link: EngineLink, motion: Motion) -> tuple[Any, int]:
    """ct_velocity[n][b]."""
    native, n, per = link.native, len(motion.scenes), len(motion.moving)
    memory = native.ffi.new("ct_velocity[]", n * per)
    if motion.twists is not None:
        rows = native.writable(memory, n * per, "ct_velocity").reshape(n, per)
        rows["body"] = [[body.id for body in row] for row in motion.states(motion.moving, "velocities", RIGID)]
        rows["twist"] = motion.twists
    return memory, per


def _step_many(link: EngineLink, motion: Motion, want: int, timeout: float) -> GatheredResult:
    native, (ffi, lib), n = link.native, (link.native.ffi, link.native.lib), len(motion.scenes)
    deadline = time.monotonic() + timeout
    scenes = [link._scene({"scene": scene.id}) for scene in motion.scenes]
    updates, n_updates = _fill_updates(link, motion)
    velocities, n_velocities = _fill_velocities(link, motion)
    steps, cancel = ffi.new("ct_step[]", n), ffi.new("ct_cancel *")
    rows = native.writable(steps, n, "ct_step")
    numbers = np.arange(n, dtype=np.uint64)
    for name, memory, per in (("updates", updates, n_updates), ("velocities", velocities, n_velocities)):
        if per:
            rows[name] = native.address(memory) + numbers * np.uint64(per * ffi.sizeof(ffi.typeof(memory).item))
            rows["n_" + name] = per
    rows["want"], rows["cancel"] = want, native.address(cancel)
    with _held(scenes):
        rows["scene"] = [scene.address for scene in scenes]
        cancel.until = deadline
        if time.monotonic() >= deadline:
            raise error_for(ErrorCode.DEADLINE_EXCEEDED, f"no answer within {timeout:.3g} s: it had not begun", field="timeout",
                            retry=True)
        for at in range(0, n, BATCH):
            lib.ct_engine_run(link._engine, steps + at, min(BATCH, n - at))
        is_late = time.monotonic() >= deadline
        try:
            first = np.zeros(n + 1, np.uint64)
            counts_at = ffi.from_buffer("uint64_t[]", first, require_writable=True)
            total = lib.ct_steps_gather(steps, n, ffi.NULL, counts_at)
            contacts = np.zeros(total, native.dtype("ct_contact"))
            if total:
                lib.ct_steps_gather(steps, n, ffi.from_buffer("ct_contact[]", contacts, require_writable=True), counts_at)
            left_out = link.left_out(steps[int(np.flatnonzero(rows["result"])[0])].result) if total else frozenset()
            errors = {k: link.step_error(steps[k], motion.scenes[k]._state.label, 0 if is_late else scenes[k].limit, timeout)
                      for k in np.flatnonzero(rows["result"] == 0).tolist()}
        finally:
            lib.ct_steps_free_results(steps, n)
        counts = np.diff(first).astype(np.int64)
        for scene, count in zip(scenes, counts.tolist()):
            scene.steps += 1
            scene.contacts = count
    for k, scene_of in enumerate(motion.scenes):
        scene_of._state.number += k not in errors
    return GatheredResult(motion, link.tables(contacts, left_out), counts, errors, want | (1 if want & 32 else 0))


def _step_each(link: EngineLink, requests: list[Request]) -> list[Any]:
    """The answer to each, or what it failed with."""
    native, (ffi, lib) = link.native, (link.native.ffi, link.native.lib)
    keep: list[Any] = []
    scenes = [link._scene_to_step(request) for request in requests]
    memory, limited = ffi.new("ct_step[]", len(requests)), []
    with _held(scenes):
        for k, (request, scene) in enumerate(zip(requests, scenes)):
            step, is_limited = link._fill_step(request, scene, keep)
            memory[k] = step[0]
            limited.append(is_limited)
        for at in range(0, len(requests), BATCH):
            if min(request.deadline for request in requests) > time.monotonic():
                lib.ct_engine_run(link._engine, memory + at, min(BATCH, len(requests) - at))
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
        if any(self._scenes[request.scene.id].waiting for request in requests if request.scene.id in self._scenes):
            return None
        return _step_each(self, requests)

    def step_many(self, motion: Motion, want: int, timeout: float) -> ManyResult | None:
        """None: steps submitted before wait for some of the scenes, so that these have to wait, too."""
        self._check_open()
        if any(self._scenes[scene.id].waiting for scene in motion.scenes if scene.id in self._scenes):
            return None
        return _step_many(self, motion, want, timeout)
