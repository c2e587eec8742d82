"""The connection to one server at a time: lost and opened again, and moved to another server. For _link.

The holder of the I/O lock calls it (_link says who that is). When the connection drops, requests in flight are sent again: to
the same server, which answers repeated steps from its cache, or, where it restarted or forgot the session, after meshes,
scenes and bodies have been built again (_session) from what the client keeps of them (_state). But what two servers were at
work on when they ended is not sent to a third (_tables.note_end).
"""

from __future__ import annotations

import functools
import time
from typing import Any, Callable

import zmq

from . import _wire
from ._answers import Answers
from ._keys import Keys
from ._line import MOST_SCENES, Line
from ._schema import UNION_NUMBER
from ._sender import Sender
from ._session import Setup
from ._silence import LOOK_S
from ._state import Request, SceneState
from .errors import ClosedError, ContactdError, ErrorCode, error_for

REACH_S = 0.25  # for a connection where nothing listens, before another server is asked for
SILENCE_S = 2.0  # where who listens does not answer: it may only be busy, and to leave it would cost the scenes' state


class Connection(Line):
    def __init__(self, address: str, *, name: str, lease_s: float, keys: Keys | None, poller: zmq.Poller,
                 elsewhere: Callable[[str, str], str] | None, learn: Callable[[list[str]], None] | None) -> None:
        super().__init__(address, keys=keys, poller=poller, elsewhere=elsewhere, learn=learn)
        self._has_keys = keys is not None
        self._setup = Setup(self, name, lease_s)
        self._sender = Sender(self)
        self._answers = Answers(self, self._setup)
        self._look_at = 0.0  # when to look whether the server is silent
        self.is_closing = False
        self.why_closing: ContactdError | None = None  # where its owner did not ask for it
        self.patient_until = 0.0  # a server that nothing listens for is waited for until then; 0: as long as requests wait

    def work(self, events: dict[Any, int]) -> None:
        """Takes what has come, sends what can be sent."""
        if self.socket.has_change(events):
            self._watch()
        if self.socket.has_message(events):
            self._receive()
        self.tables.empty_inbox()
        now = time.monotonic()
        self.tables.expire(now, "" if self.is_ready else f"{self.address}: {self.why_not}")
        if self.patient_until and self.is_unheard and now >= self.patient_until:
            self.tables.fail_all(error_for(ErrorCode.UNREACHABLE, f"nothing listens at {self.address}: start contactd there, give "
                                           "another address, or connect(..., wait=seconds) for a server that is about to start",
                                           object="server", retry=True))
        self._run_timers(now)
        if self.is_ready:
            self._sender.send_ready(now)

    def _run_timers(self, now: float) -> None:
        if self.reopen_at and now >= self.reopen_at:
            self.reopen_at = 0.0
            self.open()
        if self.down_at and now >= self._reach_by() and not self.is_closing:
            self.down_at = 0.0
            if (address := self.target or self.successors.next(self.address, self.why_not)) != self.address:
                self.move(address)
            else:
                self.down_at = now
        elif self.target and self.is_ready and not self.has_in_flight() and not self.is_closing:
            self.move(self.target)
        self._setup.run_timers(now)
        if now >= self._look_at and self.awaits_answer():
            self._look_at = now + LOOK_S
            if self.socket.is_silent(now):
                self.lose("the server was silent: it is gone, or it hangs")

    def _reach_by(self) -> float:
        return self.down_at + (REACH_S if self.is_refused else SILENCE_S)

    def next_time(self) -> float:
        """When there is something to do, by time.monotonic(), if nothing comes before."""
        times = [time.monotonic() + 3600]
        if self.tables.deadlines:
            times.append(self.tables.deadlines[0][0])
        if self.reopen_at:
            times.append(self.reopen_at)
        if self.awaits_answer():
            times.append(self._look_at)
        if self.patient_until > times[0] - 3600:
            times.append(self.patient_until)
        if self.down_at:
            times.append(self._reach_by())
        if (setup := self._setup.next_time()) is not None:
            times.append(setup)
        if self.is_ready:
            times += [s.hold_until for s in self.tables.waiting if s.hold_until]
            if self.tables.next_suspect_at:
                times.append(self.tables.next_suspect_at)
            if self.tables.queue:
                times.append(self.tables.queue[0].not_before)
        return min(times)

    # ---- messages ----

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
                self.is_up, self.is_refused, self.down_at = True, False, 0.0
                self.patient_until = 0.0  # it may go and come again
                self.why_not = "connected, but no contactd server answers"
                self._setup.begin()
            elif change.is_retry:
                self.is_refused = self.is_unheard = True
            elif change.is_heard:
                self.why_not = "what listens there does not greet as ZeroMQ does: it is the HTTP port, or a server that hangs"
            elif change.is_refusal:  # ZeroMQ gives up such a connection: the callers are told, and it is tried again
                self.lose(f"the server refuses the connection: {change.why}")
                self.tables.fail_all(error_for(ErrorCode.UNAUTHENTICATED, f"{self.address} refuses the connection: "
                                               f"{change.why}", object="client",
                                               field="client_key" if self._has_keys else "server_key"))
            else:
                self.lose(change.why, change.wait)

    def start_over(self, why: str) -> None:
        """After work that was interrupted: the tables are put in order, and all else begun anew."""
        self.tables.mend()
        self.session.forget()
        self.lose(why)

    # ---- the end ----

    def say_goodbye(self, timeout: float) -> None:
        """Fails what is in flight, and closes the scenes on the server, whose answers may take this long."""
        self.tables.fail_all(self.why_closing or ClosedError("the client was closed"))
        scenes = [scene for scene in self.tables.scenes if scene.id]
        if self.is_ready and scenes and self.session.welcome.get("last_message", 0) >= UNION_NUMBER["CloseScenes"]:
            for at in range(0, len(scenes), MOST_SCENES):
                numbers = [scene.id for scene in scenes[at:at + MOST_SCENES]]
                self.tables.add(Request("CloseScenes", functools.partial(_naming_all, numbers), timeout=timeout))
        elif self.is_ready:
            for scene in scenes:
                self.tables.add(Request("CloseScene", functools.partial(_naming, scene), timeout=timeout))
        if self.is_ready:
            self._sender.send_ready(time.monotonic())


def _naming(scene: SceneState) -> tuple[dict[str, Any], None]:
    return {"scene": scene.id}, None


def _naming_all(scenes: list[int]) -> tuple[dict[str, Any], None]:
    return {"scenes": scenes}, None
