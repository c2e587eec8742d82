"""What the caller of a request waits on, and how long a wait looks before it sleeps. For _link, its parts and users."""

from __future__ import annotations

import threading
from sys import is_finalizing
from typing import Any

from .errors import ClosedError


def check_not_ending() -> None:
    """As Python ends, its other threads stand still, with the locks that they have: what a __del__ waits for then would never come."""
    if is_finalizing():
        raise ClosedError("Python is ending")


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
