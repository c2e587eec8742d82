"""The engine in this process, on its processor, that those share who name no client. In a process that was forked there is another."""

from __future__ import annotations

import atexit
import os
import threading

from .engine import Engine

PATIENCE = 3600.0  # s: a batch may be large

_lock = threading.Lock()
_engine: Engine | None = None


def own_engine() -> Engine:
    """It is opened when it is first needed, and lives as long as the process."""
    global _engine
    with _lock:
        if _engine is None or _engine.closed:
            _engine = Engine(backend="cpu", timeout=PATIENCE)
        return _engine


@atexit.register
def _end() -> None:
    """Before Python takes apart what closing needs."""
    if _engine is not None:
        _engine.close()


def _forked() -> None:
    global _lock, _engine
    _lock, _engine = threading.Lock(), None


os.register_at_fork(after_in_child=_forked)
