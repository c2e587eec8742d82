"""The ZeroMQ socket to one server, and the monitor that tells when it is connected. For _connection."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import zmq
import zmq.utils.monitor

from ._greeting import Greeting
from ._keys import Keys
from ._silence import Silence, can_be_told

HEARTBEAT_MS = 2000
_POLLIN = int(zmq.POLLIN)  # operations of enumerations take longer than the call

_HANDSHAKE_FAILED = (zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
                     | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
_THROTTLED = 500  # of ZAP's status codes, which are all that a refused client hears
_THROTTLED_S = 3.0  # as the server has it (GUARD_FAILURE_MS)
_MECHANISM_MISMATCH = 0x11000002  # ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH


class Change(NamedTuple):
    """The socket was connected, was not, or is not connected any more."""

    is_up: bool
    why: str = ""  # it is not up any more
    is_refusal: bool = False  # the server gave a reason, and will give it again
    is_retry: bool = False  # it was not connected: nothing listens there, and ZeroMQ tries again
    is_heard: bool = False  # something listens there, whose handshake has not ended
    wait: float = 0.0  # seconds that the server asks to wait before the next attempt


class Socket:
    """Closed until `open`. The poller wakes its owner for messages and for changes of the connection."""

    def __init__(self, poller: zmq.Poller, keys: Keys | None) -> None:
        self._poller, self._keys = poller, keys
        self._socket: Any = None  # zmq.Socket; None: closed
        self._monitor: Any = None
        self._context = zmq.Context()
        self._greeting = Greeting(self._context, poller, b"CURVE" if keys else b"NULL")
        self._address = ""
        self._silence: Silence | None = None

    def open(self, address: str) -> None:
        """Begins to connect. Raises: zmq.ZMQError where it is not an address."""
        if address != self._address:
            self._greeting.close()
        self._address = address
        self._socket = socket = self._context.socket(zmq.DEALER)
        socket.linger = 0
        socket.immediate = 1
        if "[" in address:  # not for names: they would be looked up as IPv6 first
            socket.ipv6 = True
        socket.sndhwm = 1000
        # No mark: what is in flight bounds the answers, and libzmq 4.3 may end the process where a heartbeat is due
        # while a mark stops the input.
        socket.rcvhwm = 0
        socket.reconnect_ivl = 50 + random.randrange(50)
        socket.reconnect_ivl_max = 1000
        socket.heartbeat_ivl = HEARTBEAT_MS
        socket.heartbeat_timeout = 0 if address.startswith("tcp://") and can_be_told() else 3 * HEARTBEAT_MS
        self._monitor = socket.get_monitor_socket(zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
                                                  | zmq.EVENT_CONNECT_RETRIED | _HANDSHAKE_FAILED)
        self._poller.register(self._monitor, zmq.POLLIN)
        self._poller.register(socket, zmq.POLLIN)
        if self._keys is not None:
            self._keys.set(socket)
        socket.connect(address)

    def close(self) -> None:
        if self._socket is None:
            return
        for socket in (self._monitor, self._socket):
            if socket in self._poller:  # not where `open` failed before
                self._poller.unregister(socket)
        if self._monitor is not None:
            self._socket.disable_monitor()
            self._monitor.close(0)
        self._socket.close(0)
        self._socket = self._monitor = self._silence = None

    def close_for_good(self) -> None:
        self.close()
        self._greeting.close()
        self._context.term()

    def linger(self, ms: int) -> None:
        """Messages that are still to be sent when it is closed have this long."""
        self._socket.linger = ms

    # ---- messages ----

    def send(self, header: bytes, frames: list[Any]) -> bool:
        """Whether the message was taken. It is not where the pipe is full, or where the connection just went."""
        try:
            if frames:
                self._socket.send_multipart([header, *frames], zmq.NOBLOCK, copy=False)
            else:
                self._socket.send(header, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self) -> list[Any] | None:
        """The frames of the next message; None where there is none, or where the socket is closed."""
        if self._socket is None:
            return None
        try:
            frames: list[Any] = [self._socket.recv(zmq.NOBLOCK)]
        except zmq.Again:
            return None
        while self._socket.get(zmq.RCVMORE):
            frames.append(self._socket.recv(copy=False).buffer)
        return frames

    def peek(self) -> dict[Any, int]:
        """What the poller would give for messages, without a system call: nothing, or that there is one."""
        return {self._socket: zmq.POLLIN} if self._socket.get(zmq.EVENTS) & _POLLIN else {}

    def has_message(self, events: dict[Any, int]) -> bool:
        """Whether the poller's events, or those of `peek`, say so."""
        return self._socket in events

    # ---- the monitor ----

    def is_silent(self, now: float) -> bool:
        """Whether nothing has moved for so long that the server must be gone, or hang. To be asked once a second while its
        answer is waited for."""
        return self._silence is not None and self._silence.is_over_long(now)

    def has_change(self, events: dict[Any, int]) -> bool:
        return self._monitor in events or self._greeting.has_answer(events)

    def next_change(self) -> Change | None:
        """None where there is none, or where the socket is closed."""
        if self._greeting.names_other():
            return _other_mechanism(self._keys is not None)
        while self._monitor is not None and self._monitor.poll(0):
            message = zmq.utils.monitor.recv_monitor_message(self._monitor)
            event = message["event"]
            if event == zmq.EVENT_CONNECTED:
                self._silence = Silence(message["value"]) if self._address.startswith("tcp://") else None
                return Change(False, is_heard=True)
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._greeting.close()
                return Change(True)
            if event == zmq.EVENT_DISCONNECTED:
                self._silence = None
                return Change(False, "the connection was lost")
            if event == zmq.EVENT_CONNECT_RETRIED:
                return Change(False, is_retry=True)
            if event & _HANDSHAKE_FAILED:
                if event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                    self._greeting.ask(self._address)
                return _refusal(event, message["value"], self._keys is not None)
        return None


def _refusal(event: int, value: int, has_keys: bool) -> Change:
    """Why a handshake failed, with the remedy."""
    if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH and value == _THROTTLED:
        return Change(False, f"too many attempts from this address failed: it asks to wait {_THROTTLED_S:.0f} s", wait=_THROTTLED_S)
    if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
        return Change(False, "it does not know this client's key: the public key belongs into the list of principals that it "
                      "was started with (--principals)", is_refusal=True)
    if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and value == _MECHANISM_MISMATCH:
        return _other_mechanism(has_keys)
    return Change(False, "the encrypted handshake was ended: check server_key, the server's public key" if has_keys else
                  "what listens there ends connections before it greets as ZeroMQ does: it is the HTTP port, or passes them on to a "
                  "server that is down")


def _other_mechanism(has_keys: bool) -> Change:
    return Change(False, "it does not encrypt: leave out server_key and client_key, or start it with --stream-key" if has_keys
                  else "it asks for a key: give server_key and client_key", is_refusal=True)
