"""Tells a connection whose bytes still move, however slowly, from one that is silent. For _socket.

libzmq's own timeout of heartbeats knows whole frames alone: one that takes longer to come, of a large answer over a slow
network, would end the connection again and again. So over TCP the kernel is asked for the bytes that came, and for those
that the other side has taken.
"""

from __future__ import annotations

import socket
import struct

LOOK_S = 1.0  # between two looks; whoever looks less often has not been watching
SILENT_S = 6.0  # libzmq asks for a sign of life every two
MOVED_BYTES = 4096  # that were taken: fewer may be questions for a sign of life, which the kernel of one that hangs takes, too
BYTES_PER_S = 65536  # at least, of what was sent and is on its way behind the other side's kernel, as in a tunnel
_COUNTS = struct.Struct("=24xI92xQQ")  # of struct tcp_info: packets that were not taken yet, bytes taken, bytes received


def can_be_told() -> bool:
    """Whether this system counts bytes."""
    try:
        with socket.socket() as s:
            return _counts(s.fileno()) is not None
    except OSError:
        return False


def _counts(fd: int) -> tuple[int, int, int] | None:
    """None: it has ended, or the system does not count."""
    try:
        s = socket.socket(fileno=fd)
    except OSError:
        return None
    try:
        info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        return _COUNTS.unpack_from(info) if len(info) >= _COUNTS.size else None
    except OSError:
        return None
    finally:
        s.detach()  # it is libzmq's


class Silence:
    def __init__(self, fd: int) -> None:
        """fd: of the connection."""
        self._fd = fd
        self._looked = self._moved = 0.0  # when; and when bytes were last seen to have moved
        self._received = self._taken = 0  # bytes, then
        self._taken_then = 0  # when some last came

    def is_over_long(self, now: float) -> bool:
        """Whether nothing has moved for so long that the server must be gone, or hang."""
        counts = _counts(self._fd)
        if counts is None:
            return False
        left, taken, received = counts
        if received != self._received or now - self._looked > 3 * LOOK_S:
            self._moved, self._taken, self._taken_then = now, taken, taken
        elif taken - self._taken >= MOVED_BYTES:
            self._moved, self._taken = now, taken
        self._looked, self._received = now, received
        on_its_way = 0 if left else self._taken - self._taken_then
        return now - self._moved >= SILENT_S + on_its_way / BYTES_PER_S
