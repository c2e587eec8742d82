"""Requests in flight, what their callers wait on, and how long a wait looks before it sleeps. For _link, its parts and users."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any, Callable

from ._wire import Arrays, Decoded

if TYPE_CHECKING:
    from ._state import Direction, MeshState, SceneState, Update

Message = tuple[dict[str, Any], Arrays | None]


class Reply:
    """A future for the one caller who waits; nothing in it waits, or is woken, where he serves himself."""

    __slots__ = ("_done", "_value", "_error", "_waiter")

    def __init__(self) -> None:
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._waiter: Any = None  # a lock that ends its wait

    def done(self) -> bool:
        return self._done

    def set_result(self, value: Any) -> None:
        self._value = value
        self._end()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._end()

    def _end(self) -> None:
        self._done = True
        if self._waiter is not None:
            self._waiter.release()

    def result(self) -> Any:
        if not self._done:
            waiter = threading.Lock()
            waiter.acquire()
            self._waiter = waiter  # before looking again: an end in between is seen, or releases it
            if not self._done:
                waiter.acquire()
        if self._error is not None:
            raise self._error
        return self._value


class Request:
    """One question: how to build it (when it is sent, and again when it is sent again), and what to do with the answer.

    `done` runs on the thread that holds the I/O lock and makes the future's value; `undo` names a request that takes back what the
    server did although the caller had given up waiting.
    """

    __slots__ = ("kind", "build", "done", "undo", "future", "deadline", "scene", "updates", "want", "limits", "directions", "velocities", "sequence", "began",
                 "sent", "whole", "not_before", "mesh", "after", "is_repeat", "epoch", "ends")

    def __init__(self, kind: str, build: Callable[[], Message] | None = None,
                 done: Callable[[Decoded], Any] = lambda answer: None, *, timeout: float,
                 undo: Callable[[Decoded], "Request"] | None = None, future: Future[Any] | None = None) -> None:
        self.kind, self.build, self.done, self.undo = kind, build, done, undo
        self.future: Any = Reply() if future is None else future  # or a concurrent.futures.Future
        self.began = time.monotonic()
        self.deadline = self.began + timeout
        self.scene: Any = None  # SceneState, of a step
        self.updates: list[Update] = []
        self.directions: list[Direction] = []
        self.velocities: list[Direction] = []
        self.want = 0
        self.limits: dict[str, Any] = {}  # of a step: time_budget_us, tolerance
        self.sequence = 0
        self.sent = False
        self.is_repeat = False  # sent before, over a connection that was lost before the answer came
        self.epoch = 0  # of the server that it was sent to last
        self.ends = 0  # of servers that were at work on it
        self.whole = False  # a step sent with the state of all bodies
        self.not_before = 0.0
        self.after: SceneState | None = None  # it waits for the steps of this scene, and later ones wait for it
        self.mesh: Any = None  # MeshState: that it uses, and that the server may have dropped to make room

    def may_be_sent(self) -> bool:
        """From now on it cannot be called back. False: it was."""
        return self.sent or not isinstance(self.future, Future) or self.future.running() or \
            self.future.set_running_or_notify_cancel()

    def fail(self, error: BaseException) -> None:
        """Ends it with this error, unless it has ended."""
        try:
            if not self.future.done():
                self.future.set_exception(error)
        except InvalidStateError:
            pass  # its owner has called it back meanwhile


class Spin:
    """How long a wait looks for its answer before it sleeps; see proto/spin.h, whose rules these are.

    Python code of other threads would have to wait meanwhile, so it is not done where there are any.
    """

    own_threads: set[threading.Thread] = set()  # of all connections; they do not count

    def __init__(self, bound: float) -> None:
        self.bound = bound
        self._pause = self._left = 0
        self._slept = 0.0  # what waits that slept took, on average
        self._spins = False

    def begin(self) -> float:
        self._spins = False
        if self._left:
            self._left -= 1
        elif self.bound and threading.active_count() - len(Spin.own_threads) <= 1:
            self._spins = True
        return self.bound if self._spins else 0.0

    def end(self, waited: float) -> None:
        if not self._spins:
            self._slept += (waited - self._slept) / 8 if self._slept else waited
        elif waited <= self.bound and not 0 < self._slept < waited / 2:
            self._pause //= 2
        else:
            self._pause = min(1024, 2 * self._pause) or 1
            self._left = self._pause
