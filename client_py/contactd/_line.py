"""What the parts of a connection share: which server it is at, whether it is up, and the session there. For _connection.

Here it is lost, and moved to another server; what takes messages and what sends them is above.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any, Callable

import zmq

from . import _wire
from ._keys import Keys
from ._schema import UNION_NUMBER
from ._socket import Socket
from ._successors import Successors
from ._tables import Tables
from ._wire import Arrays

MOST_SCENES = 65536  # that a message names
LINGER_MS = 1000  # for the farewell to a server that is left


@dataclass
class SessionState:
    id: int = 0
    epoch: int = 0
    is_whole: bool = False  # the server has all meshes and scenes
    welcome: dict[str, Any] = field(default_factory=dict)  # the server's last answer to Hello
    reconnects: int = 0  # sessions set up after the first
    is_end_announced: bool = False  # the server said that it shuts down
    procedure: Any = None  # that sets it up, under way; see _session

    def forget(self) -> None:
        """The next connection begins with a new session."""
        self.id, self.is_whole = 0, False


class Line:
    def __init__(self, address: str, *, keys: Keys | None, poller: zmq.Poller, elsewhere: Callable[[str, str], str] | None,
                 learn: Callable[[list[str]], None] | None) -> None:
        self.address = address
        self.traceparent: str | None = None
        self.tables = Tables()
        self.session = SessionState()
        self.successors = Successors(elsewhere, learn)
        self.target = ""  # the address to go to as soon as nothing is in flight; "": stay
        self.is_up = False  # connected
        self.is_ready = False  # connected, and the session is in order
        self.why_not = "nothing answers at this address"
        # Since when this server is waited for to be connected, before another is asked for; 0: it does not matter.
        self.down_at = 0.0 if self.successors.is_empty else time.monotonic()
        self.is_refused = False  # an attempt to connect to it failed
        self.is_unheard = False  # the last attempt found nothing that listens
        self.reopen_at = 0.0
        self._failures = 0
        self.last_sent = 0.0
        self.socket = Socket(poller, keys)

    def open(self) -> None:
        """Raises: zmq.ZMQError where the address is none."""
        self.socket.open(self.address)

    def has_in_flight(self) -> bool:
        """Whether a request that was sent has no answer yet."""
        return bool(self.tables.flying or self.tables.steps)

    def awaits_answer(self) -> bool:
        """Of a server that is connected."""
        return self.is_up and (bool(self.tables.flying or self.tables.steps) or self.session.procedure is not None)

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

    def note_ready(self) -> None:
        """The session is in order."""
        if self.is_up:
            self.is_ready = True
            self._failures = 0

    def lose(self, why: str, wait: float = 0.0) -> None:
        """Starts over with a new socket, so that nothing of the old connection can arrive late. wait: seconds before that."""
        self.socket.close()
        self.is_refused, self.is_unheard = not self.is_up, False
        self.is_up = self.is_ready = False
        self.why_not = why
        self.session.procedure = None
        self._failures += 1
        delay = wait * random.uniform(1.0, 1.2) or min(1.0, 0.01 * 2 ** min(self._failures, 7)) * random.uniform(0.5, 1.0)
        self.reopen_at = time.monotonic() + delay
        if not self.successors.is_empty and not self.down_at:
            self.down_at = time.monotonic()

    def leave_drained(self) -> None:
        """The server drains: to another, if there is one, as soon as what is in flight has been answered."""
        address = self.successors.next(self.address, "it drains")
        self.target = address if address != self.address else ""

    def _close_scenes(self) -> None:
        """Without waiting for that."""
        numbers = [scene.id for scene in self.tables.scenes if scene.id]
        if self.session.welcome.get("last_message", 0) >= UNION_NUMBER["CloseScenes"]:
            for at in range(0, len(numbers), MOST_SCENES):
                self.transmit("CloseScenes", {"scenes": numbers[at:at + MOST_SCENES]}, None, next(self.tables.numbers))
            return
        for number in numbers:
            if self.is_ready:  # not where sending to one of them lost the connection
                self.transmit("CloseScene", {"scene": number}, None, next(self.tables.numbers))

    def move(self, address: str) -> None:
        """To another server, where a new session begins. What is in flight is sent again there."""
        if self.is_up and self.is_ready:  # it may go on without us
            self.socket.linger(LINGER_MS)
            self._close_scenes()
        self.target = ""
        self.address = address
        self.session.forget()
        for mesh in self.tables.meshes:
            mesh.error = None
        self.lose(f"going to {address}")
        self._failures, self.is_refused = 0, False
        self.reopen_at = self.down_at = time.monotonic()
