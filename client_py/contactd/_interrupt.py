"""Ctrl-C while the engine computes in this process: signals reach Python's code alone, so the engine calls some now and then, on the
main thread, whose signals they are."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Iterator
from typing import Any

from . import _native

_main = threading.main_thread().ident


def _forked() -> None:
    global _main
    _main = threading.get_ident()
    interrupts.cache_clear()  # engines made from now on are this thread's


os.register_at_fork(after_in_child=_forked)


class Interrupts:
    """Of all engines of this process: its main thread makes one call at a time."""

    def __init__(self) -> None:
        ffi, self._lib = _native.load()
        self.error: BaseException | None = None  # what a signal's handler raised, which ended the call
        self.late: collections.deque[Any] = collections.deque()  # results that were dropped meanwhile: the call may hold locks
        self._none = ffi.NULL
        self._cancel = ffi.new("ct_cancel *")
        self._ask_c = ffi.callback("bool(void *)", self._ask, error=True, onerror=self._note)
        self._cancel.ask, self._cancel.asked = self._ask_c, _main

    def outer(self) -> Any:
        """The ct_cancel that ends the calls of this thread, or NULL."""
        return self._cancel if threading.get_ident() == _main else self._none

    def is_here(self) -> Any:
        """Whether the caller is a signal's handler that interrupted a call of the engine."""
        return self._cancel.is_asking and threading.get_ident() == _main

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Around calls of the engine that have no ct_cancel of their own."""
        if threading.get_ident() != _main:
            yield
            return
        before = self._lib.ct_cancel_scope(self.outer())
        try:
            yield
        finally:
            self._lib.ct_cancel_scope(before)
            self._end()

    def run(self, engine: Any, steps: Any, n: int) -> None:
        """ct_engine_run, of steps with outer()."""
        self._lib.ct_engine_run(engine, steps, n)
        if self.error is not None and threading.get_ident() == _main:
            self._lib.ct_steps_free_results(steps, n)
            self._end()

    def _end(self) -> None:
        """Raises what ended the call, if one did, instead of what it failed with."""
        if self.error is not None:
            error, self.error = self.error, None
            self._cancel.reason = self._cancel.is_noted = 0
            raise error from None

    def _ask(self, _: Any) -> bool:
        ctypes.pythonapi.PyErr_CheckSignals()
        return False

    def _note(self, kind: Any, error: BaseException, traceback: Any) -> None:
        self.error = error


@functools.cache
def interrupts() -> Interrupts:
    return Interrupts()
