"""What contactctl shows on a terminal of what takes longer than a second, and that it shows nothing anywhere else."""

from __future__ import annotations

import contextlib
import os
import pty
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from fcntl import ioctl

import pytest

from conftest import CONTACTCTL, PATIENCE, ROOT, SLOW
from test_contactctl_details import BOX

REFUSED = 3


class Relay:
    """Stands before a server. Once `holds` says so of the bytes and pieces that a connection has sent, it reads no more until
    `reads` is set, then passes nothing on until `passes` is set."""

    def __init__(self, server, holds: Callable[[int, int], bool]):
        self.holds, self.server, self.reads, self.passes = holds, server.stream, threading.Event(), threading.Event()
        self.door = socket.socket()
        self.door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # so that little is confirmed that was not read
        self.door.bind(("127.0.0.1", 0))
        self.door.listen()
        self.address = f"tcp://127.0.0.1:{self.door.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        host, port = self.server.removeprefix("tcp://").split(":")
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.door.accept()
                server = socket.create_connection((host, int(port)))
                for pump, *ends in ((self._up, client, server), (self._down, server, client)):
                    threading.Thread(target=pump, args=ends, daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        n = pieces = 0
        with contextlib.suppress(OSError), server:
            while piece := client.recv(1 << 16):
                n, pieces = n + len(piece), pieces + 1
                if self.holds(n, pieces):
                    piece = self._hold(client, piece)
                server.sendall(piece)

    def _hold(self, client: socket.socket, piece: bytes) -> bytes:
        kept = bytearray(piece)
        self.reads.wait(PATIENCE)
        client.settimeout(0.02)
        while not self.passes.is_set():
            with contextlib.suppress(TimeoutError):
                kept += client.recv(1 << 16)
        client.settimeout(None)
        return bytes(kept)

    def _down(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            while piece := server.recv(1 << 16):
                client.sendall(piece)


@pytest.fixture
def relay(server) -> Iterator[Callable[[Callable[[int, int], bool]], Relay]]:
    made: list[Relay] = []

    def make(holds: Callable[[int, int], bool]) -> Relay:
        made.append(Relay(server, holds))
        return made[-1]

    yield make
    for each in made:
        each.reads.set()
        each.passes.set()
        each.door.close()


class OnTerminal:
    """contactctl, whose stderr is a terminal."""

    def __init__(self, *words: str, columns: int = 100, kind: str = "xterm"):
        self.outside, inside = pty.openpty()
        ioctl(inside, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        self.process = subprocess.Popen([*CONTACTCTL, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=inside,
                                        env={**os.environ, "TERM": kind}, text=True)
        os.close(inside)
        self.seen = b""

    def wait(self, text: bytes) -> None:
        while text not in self.seen:
            try:
                self.seen += os.read(self.outside, 4096)
            except OSError:
                pytest.fail(f"it ended without {text!r}: {self.seen!r}")

    def end(self, code: int = 0) -> str:
        """What it wrote on stdout."""
        assert self.process.stdout
        with contextlib.suppress(OSError):  # all of the other side's descriptors are closed
            while piece := os.read(self.outside, 4096):
                self.seen += piece
        out = self.process.stdout.read()
        assert self.process.wait(PATIENCE) == code, self.seen
        os.close(self.outside)
        return out

    def lines(self) -> list[bytes]:
        """That were drawn, one over the other."""
        return [line.removesuffix(b"\033[K") for line in self.seen.split(b"\r")[1:]]


def test_a_mesh_that_is_sent(relay, tmp_path):
    large = tmp_path / "lärge.off"
    large.write_text(BOX + ("#" * 1023 + "\n") * (16 << 10))
    size = large.stat().st_size
    slow = relay(lambda n, pieces: n > 1 << 20)
    ctl = OnTerminal("--server", slow.address, "mesh", "add", str(large), "--repair")
    ctl.wait(b" %, ")
    slow.reads.set()
    ctl.wait("lärge.off is sent; the server works on it, ".encode())
    slow.passes.set()
    out = ctl.end()
    assert "repair: nothing to do" in out and "\033" not in out and size > 16 << 20
    lines = ctl.lines()
    assert lines[0].startswith("sending lärge.off [".encode()) and lines[-1] == b"", lines


def test_a_recording_that_is_replayed(relay, server, tmp_path):
    path = tmp_path / "t.rec"
    program = ("import contactd\nwith contactd.connect() as client:\n    scene = client.open_scene()\n"
               "    for i in range(60): scene.step()\n")
    subprocess.run([*CONTACTCTL, "--server", server.stream, "record", str(path), "--", sys.executable, "-c", program],
                   env={**os.environ, "PYTHONPATH": str(ROOT / "client_py")}, check=True, capture_output=True)
    slow = relay(lambda n, pieces: pieces > 30)
    slow.passes.set()
    ctl = OnTerminal("--server", slow.address, "replay", str(path))
    ctl.wait(b" %, ")
    slow.reads.set()
    assert "0 answers differ" in ctl.end() and ctl.lines()[-1] == b""
    assert any(line.startswith(b"replaying ") for line in ctl.lines())


BENCH = ["bench", "--seconds", "1"]


@pytest.mark.parametrize("columns", [100, 34, 1])
def test_a_bench(server, columns):
    ctl = OnTerminal("--server", server.stream, *BENCH, columns=columns)
    assert "round trip" in ctl.end()
    assert ctl.lines()[-1] == b"" and all(len(line) < columns for line in ctl.lines())
    bar = b"[####" if columns < 100 else b"measuring [####"
    assert columns == 1 or any(bar in line for line in ctl.lines())


def test_nothing_is_shown_elsewhere(server):
    words = [*CONTACTCTL, "--server", server.stream, *BENCH]
    done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, check=True)
    assert done.stderr == b"" and b"round trip" in done.stdout and b"measuring" not in done.stdout
    ctl = OnTerminal("--server", server.stream, *BENCH, kind="dumb")
    assert "round trip" in ctl.end() and ctl.seen == b""


def test_an_error_stands_in_a_line_of_its_own(relay, tmp_path):
    path = tmp_path / "bad.off"
    path.write_text("OFF\n1 1 0\n0 0 0\n3 0 0 7\n" + ("#" * 1023 + "\n") * 1024)
    slow = relay(lambda n, pieces: n > 1 << 19)
    slow.reads.set()
    ctl = OnTerminal("--server", slow.address, "mesh", "add", str(path))
    ctl.wait(b"bad.off is sent")
    slow.passes.set()
    ctl.end(REFUSED)
    assert b"\r\033[Kcontactctl: " in ctl.seen and ctl.seen.endswith(b"\n")
