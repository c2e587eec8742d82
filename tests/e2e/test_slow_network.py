"""Connections whose bytes move slowly are not taken for dead ones, and servers that hang are, over TCP."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import threading
import time

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, PATIENCE, pause
from geometry import UNIT_BOX, icosphere, moved
from http_api import obj

FAST = 1e9


class SlowRelay:
    """Stands before a server, has small buffers, and passes so many bytes a second on to it, and back."""

    def __init__(self, address: str, up: float = FAST, down: float = FAST):
        self.host, self.port = address.removeprefix("tcp://").split(":")
        self.up, self.down, self.connections = up, down, 0
        self.door = self._socket()
        self.door.bind(("127.0.0.1", 0))
        self.door.listen()
        self.address = f"tcp://127.0.0.1:{self.door.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    @staticmethod
    def _socket() -> socket.socket:
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        return s

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.door.accept()
                self.connections += 1
                server = self._socket()
                server.connect((self.host, int(self.port)))
                for pump in ((client, server, self.up), (server, client, self.down)):
                    threading.Thread(target=self._pump, args=pump, daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket, rate: float) -> None:
        with contextlib.suppress(OSError), sink:
            while piece := source.recv(min(1 << 16, int(rate / 20))):
                sink.sendall(piece)
                time.sleep(len(piece) / rate)


def test_an_answer_that_comes_slowly(server):
    vertices, triangles = icosphere(1.0, 5)
    relay = SlowRelay(server.stream, down=triangles.size * 4 / 12)  # the triangles, one frame, take 12 s
    with contactd.connect(relay.address, timeout=PATIENCE) as client:
        mesh = client.register_mesh(vertices, triangles)
        again = mesh.geometry()
    assert again[0].shape == vertices.shape and again[1].shape == triangles.shape
    assert relay.connections == 1, "it was cut, and asked again"


def test_a_mesh_that_is_sent_slowly_by_c(server, tmp_path):
    path = tmp_path / "ball.obj"
    path.write_bytes(obj(*(a.tolist() for a in icosphere(1.0, 5))))
    relay = SlowRelay(server.stream, up=path.stat().st_size / 15)
    done = subprocess.run([*CONTACTCTL, "--server", relay.address, "mesh", "add", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert relay.connections <= 2, "it was cut, and sent again"  # one shows how far it is


def test_a_server_that_hangs_is_left(make_server, monkeypatch):
    """Its system takes what is sent to it, all the same."""
    monkeypatch.setattr("contactd._connection.SILENCE_S", 2.0)
    servers = [make_server(), make_server()]
    with contactd.connect([s.stream for s in servers], timeout=PATIENCE, connections=2) as client:
        scene = client.open_scene()
        scene.add_bodies(client.register_mesh(*UNIT_BOX), [np.eye(4), moved(0.5)])
        scene.step()
        address = scene._state.link.address
        (hung,) = (server for server in servers if server.stream == address)
        pause(hung.process)
        try:
            assert scene.step().contacts[0].volume == pytest.approx(0.5)
            assert scene._state.link.address != address
        finally:
            hung.process.send_signal(signal.SIGCONT)
