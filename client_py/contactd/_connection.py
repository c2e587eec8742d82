"""The connection to one server at a time: lost and opened again, and moved to another server. For _link.

The holder of the I/O lock calls it (_link says who that is). When the connection drops, requests in flight are sent again: to
the same server, which answers repeated steps from its cache, or, where it restarted or forgot the session, after meshes,
scenes and bodies have been built again (_session) from what the client keeps of them (_state). But what two servers were at
work on when they ended is not sent to a third (_tables.note_end).
"""

from __future__ import annotations

import functools
import random
import time
from typing import Any, Callable

import zmq

from . import _wire
from ._answers import Answers
from ._keys import Keys
from ._request import Request
from ._sender import Sender
from ._session import Session
from ._socket import Socket
from ._state import SceneState
from ._successors import Successors
from ._tables import Tables
from ._wire import Arrays
from .errors import ClosedError, ContactdError, ErrorCode, error_for

REACH_S = 0.25  # for a connection where nothing listens, before another server is asked for
SILENCE_S = 2.0  # where who listens does not answer: it may only be busy, and to leave it would cost the scenes' state
LINGER_MS = 1000  # for the farewell to a server that is left


class Connection:
    def __init__(self, address: str, *, name: str, lease_s: float, keys: Keys | None, poller: zmq.Poller,
                 elsewhere: Callable[[str, str], str] | None, learn: Callable[[list[str]], None] | None) -> None:
        self.address, self._has_keys = address, keys is not None
        self.traceparent: str | None = None
        self.tables = Tables()
        self.session = Session(self, self.tables, name, lease_s)
        self.successors = Successors(elsewhere, learn)
        self._sender = Sender(self, self.tables)
        self._answers = Answers(self, self.tables)
        self.target = ""  # the address to go to as soon as nothing is in flight; "": stay
        self.is_closing = False
        self.why_closing: ContactdError | None = None  # where its owner did not ask for it
        self.is_up = False  # connected
        self.is_ready = False  # connected, and the session is in order
        self._why_not = "nothing answers at this address"
        # Since when this server is waited for to be connected, before another is asked for; 0: it does not matter.
        self._down_at = 0.0 if self.successors.is_empty else time.monotonic()
        self._is_refused = False  # an attempt to connect to it failed
        self._is_unheard = False  # the last attempt found nothing that listens
        self.patient_until = 0.0  # a server that nothing listens for is waited for until then; 0: as long as requests wait
        self._reopen_at = 0.0
        self._failures = 0
        self.last_sent = 0.0
        self.socket = Socket(poller, keys)

    def open(self) -> None:
        """Raises: zmq.ZMQError where the address is none."""
        self.socket.open(self.address)

    # ---- one round ----

    def work(self, events: dict[Any, int]) -> None:
        """Takes what has come, sends what can be sent."""
        if self.socket.has_change(events):
            self._watch()
        if self.socket.has_message(events):
            self._receive()
        self.tables.empty_inbox()
        now = time.monotonic()
        self.tables.expire(now, "" if self.is_ready else f"{self.address}: {self._why_not}")
        if self.patient_until and self._is_unheard and now >= self.patient_until:
            self.tables.fail_all(error_for(ErrorCode.UNREACHABLE, f"nothing listens at {self.address}: start contactd there, give "
                                           "another address, or connect(..., wait=seconds) for a server that is about to start",
                                           object="server", retry=True))
        self._run_timers(now)
        if self.is_ready:
            self._sender.send_ready(now)

    def _run_timers(self, now: float) -> None:
        if self._reopen_at and now >= self._reopen_at:
            self._reopen_at = 0.0
            self.open()
        if self._down_at and now >= self._reach_by() and not self.is_closing:
            self._down_at = 0.0
            if (address := self.target or self.successors.next(self.address, self._why_not)) != self.address:
                self.move(address)
            else:
                self._down_at = now
        elif self.target and self.is_ready and not self.has_in_flight() and not self.is_closing:
            self.move(self.target)
        self.session.run_timers(now)

    def _reach_by(self) -> float:
        return self._down_at + (REACH_S if self._is_refused else SILENCE_S)

    def next_time(self) -> float:
        """When there is something to do, by time.monotonic(), if nothing comes before."""
        times = [time.monotonic() + 3600]
        if self.tables.deadlines:
            times.append(self.tables.deadlines[0][0])
        if self._reopen_at:
            times.append(self._reopen_at)
        if self.patient_until > times[0] - 3600:
            times.append(self.patient_until)
        if self._down_at:
            times.append(self._reach_by())
        if (session := self.session.next_time()) is not None:
            times.append(session)
        if self.is_ready:
            times += [s.hold_until for s in self.tables.scenes if s.hold_until]
            if self.tables.next_suspect_at:
                times.append(self.tables.next_suspect_at)
            if self.tables.queue:
                times.append(self.tables.queue[0].not_before)
        return min(times)

    def has_in_flight(self) -> bool:
        """Whether a request that was sent has no answer yet."""
        return bool(self.tables.flying or self.tables.steps)

    # ---- messages ----

    def transmit(self, kind: str, body: dict[str, Any], arrays: Arrays | None, number: int) -> None:
        frames: list[Any] = []
        if arrays is not None:
            arrays.place()
            frames = arrays.frames
        header = _wire.encode(kind, body, request=number, session=self.session.id, epoch=self.session.epoch,
                              traceparent=self.traceparent)
        if not self.socket.send(header, frames) and self.is_up:  # what was not sent is sent again
            self.lose("the server takes nothing more: it ended, or it hangs")
        self.last_sent = time.monotonic()

    def _receive(self) -> None:
        while (frames := self.socket.receive()) is not None:
            try:
                answer = _wire.decode(frames)
            except _wire.MalformedMessage as e:
                self.tables.fail_flying(error_for(ErrorCode.MALFORMED, f"{self.address} sent what is no answer of this "
                                                  f"protocol: {e}", object="server"))
                self.lose("the server sent what is no answer of this protocol")
                return
            self._answers.take(answer)
            if not (self.has_in_flight() or self.session.procedure):
                return  # nothing more can come, and asking is a system call

    # ---- up and down ----

    def _watch(self) -> None:
        while (change := self.socket.next_change()) is not None:
            if change.is_up:
                self.is_up, self._is_refused, self._down_at = True, False, 0.0
                self.patient_until = 0.0  # it may go and come again
                self._why_not = "connected, but no contactd server answers"
                self.session.begin()
            elif change.is_retry:
                self._is_refused = self._is_unheard = True
            elif change.is_refusal:  # ZeroMQ gives up such a connection: the callers are told, and it is tried again
                self.lose(f"the server refuses the connection: {change.why}")
                self.tables.fail_all(error_for(ErrorCode.UNAUTHENTICATED, f"{self.address} refuses the connection: "
                                               f"{change.why}", object="client",
                                               field="client_key" if self._has_keys else "server_key"))
            else:
                self.lose(change.why, change.wait)

    def note_ready(self) -> None:
        """The session is in order."""
        if self.is_up:
            self.is_ready = True
            self._failures = 0

    def lose(self, why: str, wait: float = 0.0) -> None:
        """Starts over with a new socket, so that nothing of the old connection can arrive late. wait: seconds before that."""
        self.socket.close()
        self._is_refused, self._is_unheard = not self.is_up, False
        self.is_up = self.is_ready = False
        self._why_not = why
        self.session.procedure = None
        self._failures += 1
        delay = wait * random.uniform(1.0, 1.2) or min(1.0, 0.01 * 2 ** min(self._failures, 7)) * random.uniform(0.5, 1.0)
        self._reopen_at = time.monotonic() + delay
        if not self.successors.is_empty and not self._down_at:
            self._down_at = time.monotonic()

    def start_over(self, why: str) -> None:
        """After work that was interrupted: the tables are put in order, and all else begun anew."""
        self.tables.mend()
        self.session.forget()
        self.lose(why)

    def leave_drained(self) -> None:
        """The server drains: to another, if there is one, as soon as what is in flight has been answered."""
        address = self.successors.next(self.address, "it drains")
        self.target = address if address != self.address else ""

    def move(self, address: str) -> None:
        """To another server, where a new session begins. What is in flight is sent again there."""
        if self.is_up and self.is_ready:  # it may go on without us
            self.socket.linger(LINGER_MS)
            for scene in self.tables.scenes:
                if scene.id and self.is_ready:  # not where sending to one of them lost the connection
                    self.transmit("CloseScene", {"scene": scene.id}, None, next(self.tables.numbers))
        self.target = ""
        self.address = address
        self.session.forget()
        for mesh in self.tables.meshes:
            mesh.error = None
        self.lose(f"going to {address}")
        self._failures, self._is_refused = 0, False
        self._reopen_at = self._down_at = time.monotonic()

    # ---- the end ----

    def say_goodbye(self, timeout: float) -> None:
        """Fails what is in flight, and closes the scenes on the server, whose answers may take this long."""
        self.tables.fail_all(self.why_closing or ClosedError("the client was closed"))
        for scene in self.tables.scenes:
            if scene.id and self.is_ready:
                self.tables.add(Request("CloseScene", functools.partial(_naming, scene), timeout=timeout))
        if self.is_ready:
            self._sender.send_ready(time.monotonic())


def _naming(scene: SceneState) -> tuple[dict[str, Any], None]:
    return {"scene": scene.id}, None
