"""The engine in this process: a Client without a server."""

from __future__ import annotations

import operator
from typing import Any, Sequence

from . import _arrays
from ._engine_many import ManyLink
from ._many import ManyResult, Motion
from .client import Client, raise_first
from .errors import ErrorCode, error_for
from .result import StepResult
from .scene import Scene
from .shapes import ShapeMaker


class Engine(Client):
    """Meshes, scenes and steps in this process: the interface of a Client, without a server, and with the same bits.

    Close it, use it in a `with` block, or let it go. It does not outlive a fork: the child makes its own.

    Args:
        threads: of the processor; None: as many as it has.
        backend: "auto": a GPU where libcontact was built with CUDA and there is one; "cpu"; "cuda".
        devices: GPUs, "all" or numbers such as "0,2".
        simd: instruction set of the CPU's kernels, to force one: "auto", "base", "avx2".
        timeout: seconds that a call may take unless told otherwise; a step that takes longer is ended and changes nothing. So does
            Ctrl-C, or whatever a signal's handler raises, with a call of the main thread.
    Raises: UnsupportedError: there is no libcontact here, or not that backend. InvalidArgumentError: an argument is none.
    """

    def __init__(self, threads: int | None = None, *, backend: str = "auto", devices: str = "all", simd: str = "auto",
                 timeout: float = 30.0) -> None:
        number = 0 if threads is None else operator.index(threads) if hasattr(threads, "__index__") else -1
        if not 0 <= number < 1 << 32:
            raise error_for(ErrorCode.INVALID_ARGUMENT, "expected a whole number that is not negative, or None for as many as the "
                            f"processor has, got {threads!r}", object="engine", field="threads")
        for field, value in (("backend", backend), ("devices", devices), ("simd", simd)):
            if not isinstance(value, str):
                raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected a text, got {value!r}", object="engine", field=field)
        ShapeMaker.__init__(self)
        self.address, self.timeout, self._servers = "engine", _arrays.seconds(timeout, field="timeout"), None
        self._link = ManyLink({"threads": number, "backend": backend, "devices": devices,  # type: ignore[assignment]
                               "simd": simd})

    def _step_batch(self, motion: Motion, want: int, timeout: float) -> ManyResult | None:
        assert isinstance(self._link, ManyLink)
        return self._link.step_many(motion, want, timeout)

    def _step_each(self, steps: Sequence[tuple[Scene, dict[str, Any]]]) -> list[StepResult]:
        assert isinstance(self._link, ManyLink)
        requests = [scene._request_of(**arguments) for scene, arguments in steps]
        answers = self._link.step_each(requests)
        return super()._step_each(steps) if answers is None else raise_first(answers)

    def __repr__(self) -> str:
        return f"<Engine, {self._link.welcome['backend']}>"
