"""A bare client for tests: sends any message, or any bytes, and returns what comes back. No checks, no repeats."""

from __future__ import annotations

import itertools
import sys
import weakref
from typing import Any

import zmq

import conftest

sys.path.insert(0, str(conftest.ROOT / "client_py"))

from contactd import _wire  # noqa: E402
from contactd.errors import ErrorCode  # noqa: E402


def _close(context: zmq.Context, socket: zmq.Socket) -> None:
    socket.close(0)
    context.term()


class Raw:
    def __init__(self, address: str, hello: bool = True):
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        # Where a test fails before it closes this, collecting the context before its socket would wait for ever.
        self.close = weakref.finalize(self, _close, self._context, self.socket)
        self.socket.linger = 0
        self.socket.connect(address)
        self._numbers = itertools.count(1)
        self.session = self.epoch = 0
        if hello:
            welcome = self.ask("Hello", {"version": 1, "min_version": 1, "client": "raw"})
            assert welcome.kind == "Welcome", welcome.body
            self.session, self.epoch = welcome.body["session"], welcome.body["epoch"]

    def send(self, kind: str, body: dict[str, Any], arrays: _wire.Arrays | None = None, **more: Any) -> int:
        number = next(self._numbers)
        frames = []
        if arrays is not None:
            arrays.place()
            frames = arrays.frames
        keys = {"session": self.session, "epoch": self.epoch} | more
        self.socket.send_multipart([_wire.encode(kind, body, request=number, **keys), *frames])
        return number

    def receive(self, timeout: float = 10.0) -> _wire.Decoded:
        assert self.socket.poll(timeout * 1000 * conftest.SLOW), "no answer"
        return _wire.decode(self.socket.recv_multipart())

    def ask(self, kind: str, body: dict[str, Any], arrays: _wire.Arrays | None = None, **more: Any) -> _wire.Decoded:
        number = self.send(kind, body, arrays, **more)
        answer = self.receive()
        assert answer.request == number
        return answer

    def refused(self, kind: str, body: dict[str, Any], arrays: _wire.Arrays | None = None, **more: Any) -> tuple:
        """(code's name, object, field, message) of the error that must come."""
        answer = self.ask(kind, body, arrays, **more)
        assert answer.kind == "Error", f"{answer.kind}: {answer.body}"
        return (ErrorCode(answer.body["code"]).name, answer.body["object"], answer.body["field"], answer.body["message"])

    def ok(self, kind: str, body: dict[str, Any], arrays: _wire.Arrays | None = None) -> dict[str, Any]:
        answer = self.ask(kind, body, arrays)
        assert answer.kind != "Error", answer.body
        return answer.body
