"""Asks a server which security mechanism it wants. For _socket.

Where the two sides want different mechanisms, the one that notices first closes the connection. A busy server may read the
client's whole greeting at once and close before it has sent its own, and the client then sees only the end of the connection.
So the client connects once more and sends the first 11 bytes of a greeting: a server answers them with its whole greeting,
which names its mechanism (ZMTP 3.0, RFC 23, "Greeting"):

    signature 10 | version 2 | mechanism 20 | as-server 1 | filler 31
"""

from __future__ import annotations

import time

import zmq

_QUESTION = b"\xff\0\0\0\0\0\0\0\1\x7f\3"
_MECHANISM = slice(12, 32)
_AGAIN_S = 1.0  # at most this often


class Greeting:
    """One question at a time. The poller wakes its owner for the answer."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], poller: zmq.Poller, offered: bytes) -> None:
        """offered: the mechanism that this client connects with, NULL or CURVE."""
        self._context, self._poller, self._offered = context, poller, offered
        self._socket: zmq.Socket[bytes] | None = None
        self._bytes = b""
        self._ask_at = 0.0

    def ask(self, address: str) -> None:
        """Over tcp:// only: ZMQ_STREAM connects to no other address."""
        if self._socket is not None or time.monotonic() < self._ask_at or not address.startswith("tcp://"):
            return
        self._ask_at = time.monotonic() + _AGAIN_S
        self._bytes = b""
        self._socket = socket = self._context.socket(zmq.STREAM)
        socket.linger = 0
        socket.ipv6 = "[" in address
        self._poller.register(socket, zmq.POLLIN)
        socket.connect(address)

    def close(self) -> None:
        if self._socket is None:
            return
        if self._socket in self._poller:
            self._poller.unregister(self._socket)
        self._socket.close(0)
        self._socket = None

    def has_answer(self, events: dict[object, int]) -> bool:
        return self._socket is not None and self._socket in events

    def names_other(self) -> bool:
        """Takes what has come. Whether the server wants another mechanism than the client offers."""
        while self._socket is not None:
            try:
                # The connection's routing id, then its bytes; none when it begins, and when it ends.
                routing_id, part = self._socket.recv_multipart(zmq.NOBLOCK)
                if not part and not self._bytes:
                    self._socket.send_multipart([routing_id, _QUESTION], zmq.NOBLOCK)
            except zmq.Again:
                return False
            except zmq.ZMQError:  # the connection ended before the question was sent
                self.close()
                return False
            self._bytes += part
            if len(self._bytes) >= _MECHANISM.stop:
                self.close()
                is_greeting = self._bytes[0] == 0xFF and self._bytes[9] == 0x7F and self._bytes[10] >= 3
                return is_greeting and self._bytes[_MECHANISM] != self._offered.ljust(20, b"\0")
        return False
