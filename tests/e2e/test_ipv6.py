"""Both clients reach a server by an IPv6 address."""

from __future__ import annotations

import json
import os
import socket
import subprocess

import contactd
import pytest
from conftest import BUILD, CONTACTCTL, free_port, wait_until
from geometry import UNIT_BOX, moved


@pytest.fixture
def address(make_server) -> str:
    if not socket.has_ipv6 or not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("this machine has no IPv6")
    address = f"tcp://[::1]:{free_port()}"
    server = make_server("--stream", address, start=False)
    server.start(wait=False)
    wait_until(lambda: f"simulators connect to {address}" in server.logs() or not server.alive(), "the server")
    assert server.alive(), server.logs()
    return address


def test_the_python_client(address):
    with contactd.connect(address) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene()
        scene.add_body(mesh, pose=moved(0))
        scene.add_body(mesh, pose=moved(0.75))
        (contact,) = scene.step().contacts
        assert contact.volume == pytest.approx(0.25, rel=1e-6)


def test_the_c_client(address):
    done = subprocess.run([*CONTACTCTL, "--server", address, "-o", "json", "status"], capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)["ready"] is True, done
