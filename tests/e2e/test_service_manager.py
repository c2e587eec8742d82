"""What a service manager passes to the server and is told by it, with this process as the manager: sd_notify's datagrams
and sd_listen_fds' sockets. No systemd is needed."""

from __future__ import annotations

import fcntl
import os
import pathlib
import re
import socket
import subprocess
import urllib.request

import contactd
import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED, PATIENCE, SLOW, Server, wait_until
from geometry import UNIT_BOX, icosphere, moved
from test_signals import end_unfinished, keep_busy

EXIT_OTHER, EXIT_ADDRESS = 1, 3


class Manager:
    """The socket that NOTIFY_SOCKET names, and what came to it."""

    def __init__(self, name: str):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name.replace("@", "\0", 1))
        self.socket.settimeout(PATIENCE)
        self.name = name

    def next(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())

    def forget(self) -> None:
        """What has come until now."""
        self.socket.settimeout(0)
        try:
            while self.socket.recv(4096):
                pass
        except BlockingIOError:
            self.socket.settimeout(PATIENCE)

    def until(self, key: str) -> dict[str, str]:
        while key not in (message := self.next()):
            pass
        return message


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path) -> Manager:
    return Manager(str(tmp_path / "notify") if request.param == "path" else f"@contactd-test-{os.getpid()}-{id(request)}")


def test_it_tells_when_it_is_ready_alive_and_stopping(manager, make_server):
    environment = {"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "2000000"}
    server = make_server("--drain", "7s", env=environment)
    ready = manager.until("READY")
    assert ready == {"READY": "1", "STATUS": f"serving on {server.stream}"}
    for _ in range(3):
        assert manager.next() == {"WATCHDOG": "1"}
    assert server.stop() == 0
    stopping = manager.until("STOPPING")
    assert int(stopping["EXTEND_TIMEOUT_USEC"]) > 10_000_000  # the drain, and 3 s for the last answers


def test_a_long_step_does_not_look_like_a_hung_server(make_server, tmp_path):
    """The I/O thread tells that it is alive. A step of minutes does not hold it up."""
    manager = Manager(str(tmp_path / "notify"))
    server = make_server("--drain", "0", env={"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "1000000"})
    raw = keep_busy(server)
    manager.forget()
    for _ in range(3):
        assert "WATCHDOG" in manager.until("WATCHDOG")
    server.process.kill()
    server.process.wait()
    raw.close()
    end_unfinished(server)


def test_no_watchdog_unless_asked(make_server, tmp_path):
    manager = Manager(str(tmp_path / "notify"))
    # A watchdog for another process: the variables of a parent that runs under systemd itself.
    server = make_server(env={"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"})
    assert "READY" in manager.next()
    assert server.stop() == 0
    assert "STOPPING" in manager.next()  # and nothing between


def test_a_notify_socket_that_is_none_is_an_error(make_server, tmp_path):
    server = make_server(start=False, env={"NOTIFY_SOCKET": str(tmp_path / "no-manager")}).start(wait=False)
    assert server.wait() == EXIT_OTHER
    assert "service manager: " in server.logs() and "No such file or directory" in server.logs()
    server.process = None


# ---- sockets that are passed


def start_with(server: Server, sockets: list[tuple[str, socket.socket]], *flags: str) -> None:
    """Starts the server as systemd does: sockets from number 3 on, and LISTEN_PID is the server's own."""
    names = ":".join(name for name, _ in sockets)
    script = 'LISTEN_PID=$$ exec "$0" "$@"'
    server.env |= {"LISTEN_FDS": str(len(sockets)), "LISTEN_FDNAMES": names}

    def place() -> None:
        copies = [fcntl.fcntl(s, fcntl.F_DUPFD, 10) for _, s in sockets]  # out of the way of the places
        for i, fd in enumerate(copies):
            os.dup2(fd, 3 + i, inheritable=True)

    with server.log_path.open("ab") as log:
        server.process = subprocess.Popen(["sh", "-c", script, str(BUILD / "contactd"), *flags], stdin=subprocess.DEVNULL,
                                          stdout=log, stderr=subprocess.STDOUT, env=server.env, preexec_fn=place,
                                          close_fds=False)  # fmt: skip


def listening(family: socket.AddressFamily, address: object) -> socket.socket:
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(address)
    made.listen(64)
    made.set_inheritable(False)
    return made


def volume_by(address: str) -> float:
    with contactd.connect(address) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene()
        scene.add_body(mesh, pose=moved(0))
        scene.add_body(mesh, pose=moved(0.75))
        (contact,) = scene.step().contacts
        return contact.volume


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_both_ports_are_taken_over_and_survive_a_restart(make_server, host):
    server = make_server(start=False)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sockets = [("http", listening(family, (host, server.http_port))), ("stream", listening(family, (host, server.stream_port)))]
    except OSError as error:
        pytest.skip(f"this machine has no address {host}: {error}")
    shown = f"[{host}]" if ":" in host else host
    for _ in range(2):
        # Whoever connects before the server runs is answered when it does: nothing is refused across a restart.
        early = socket.create_connection((host, server.http_port), timeout=PATIENCE)
        early.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        start_with(server, sockets)
        with early, early.makefile("rb") as answer:
            assert answer.readline().startswith(b"HTTP/1.1 200")
        with urllib.request.urlopen(f"http://{shown}:{server.http_port}/readyz", timeout=PATIENCE) as answer:
            assert answer.status == 200
        assert volume_by(f"tcp://{shown}:{server.stream_port}") == pytest.approx(0.25, rel=1e-6)
        assert server.stop() == 0
    assert "replace --stream (1) and --http (1)" in server.logs()


def test_a_socket_file_is_taken_over_and_the_other_port_is_opened(make_server, tmp_path):
    server = make_server(start=False)
    path = tmp_path / "stream"
    start_with(server, [("stream", listening(socket.AF_UNIX, str(path)))], "--http", f"127.0.0.1:{server.http_port}")
    server.wait_ready()
    assert volume_by(f"ipc://{path}") == pytest.approx(0.25, rel=1e-6)
    assert server.stop() == 0
    assert path.exists()  # it is the manager's


def refused(server: Server, sockets: list[tuple[str, socket.socket]]) -> str:
    start_with(server, sockets, "--http", "off")
    assert server.wait() == EXIT_ADDRESS
    server.process = None
    return server.logs()


def test_sockets_that_cannot_be_used_are_refused(make_server, tmp_path):
    good = listening(socket.AF_INET, ("127.0.0.1", 0))
    assert "expected FileDescriptorName=stream" in refused(make_server(start=False), [("unknown", good)])
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    assert "ListenStream=" in refused(make_server(start=False), [("http", datagrams)])
    assert "one for http" in refused(make_server(start=False), [("http", good), ("http", good)])
    file = listening(socket.AF_UNIX, str(tmp_path / "http"))
    assert "over TCP alone" in refused(make_server(start=False), [("http", file)])


def test_sockets_for_another_process_are_left_alone(make_server):
    server = make_server(env={"LISTEN_PID": "1", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "stream:http"})
    assert "replace" not in server.logs()
    wait_until(lambda: pathlib.Path(f"/proc/{server.pid}").exists(), "the server")


# ---- limits of resources ----


def limited(make_server, limits: str, *flags: str) -> Server:
    """A server that a shell starts under its `ulimit`."""
    server = make_server(*flags, start=False)
    wrapper = server.log_path.with_suffix(".sh")
    wrapper.write_text(f'#!/bin/bash\nulimit {limits} || exit 99\nexec "{server.binary}" "$@"\n')
    wrapper.chmod(0o755)
    server.binary = wrapper
    return server


@pytest.mark.skipif(INSTRUMENTED, reason="sanitizers reserve terabytes of addresses")
@pytest.mark.parametrize("limit", ["-v 700000", "-d 700000"])
def test_a_limit_of_addresses_counts_as_memory(make_server, limit):
    """Sizes that follow from the memory follow from it, and a mesh that does not fit is refused, not the connection."""
    server = limited(make_server, limit).start()
    told = int(re.search(r"memory: (\d+) MiB may be used \(of ulimit", server.logs())[1])
    assert 700000 // 1024 // 4 <= told < 700000 // 1024
    n = 500_000
    corners = np.arange(9 * n, dtype=np.float32).reshape(-1, 3)
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        with pytest.raises(contactd.ContactdError, match="TOO_LARGE.*max-message"):
            client.register_mesh(corners, np.arange(3 * n, dtype=np.uint32).reshape(-1, 3))
        client.register_mesh(*UNIT_BOX)
    # An option may allow more. Then it is made, or refused with an error, and the connection stays.
    server.stop()
    server.flags += ("--max-message", "256M")
    server.start()
    assert "--max-message 256 MiB is more than a quarter" in server.logs()
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        try:
            client.register_mesh(*icosphere(1.0, 8))  # 24 MB
        except contactd.ContactdError as e:
            assert e.code.name in ("LIMIT_EXCEEDED", "OUT_OF_MEMORY"), e
            assert e.code.name == "LIMIT_EXCEEDED" or "no memory for a mesh" in server.logs()
        client.register_mesh(*UNIT_BOX)


def test_too_few_files_are_refused_at_the_start(make_server):
    server = limited(make_server, "-n 12").start(wait=False)
    assert server.wait() == 1
    assert "12 files may be open at once (ulimit -n" in server.logs()
    server.process = None
    limited(make_server, "-n 32").start()


@pytest.mark.skipif(INSTRUMENTED, reason="sanitizers need larger stacks")
def test_a_small_stack_is_refused_at_the_start(make_server):
    server = limited(make_server, "-s 64").start(wait=False)
    assert server.wait() == 1
    assert "threads need 1024 KiB" in server.logs() and "ulimit -s" in server.logs()
    server.process = None
    limited(make_server, "-s 1024").start()
