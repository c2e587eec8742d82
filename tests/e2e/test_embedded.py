"""The embedded server: started by connect() where no server runs, ended with its last client or its process, restarted once."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

import contactd
from contactd import _embedded, errors
from contactd import client as client_module

from conftest import BUILD, PATIENCE, free_port, wait_until
from http_api import box


@pytest.fixture(autouse=True)
def environment(monkeypatch, binaries):
    for name in [name for name in os.environ if name.startswith("CONTACTD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CONTACTD_PROGRAM", str(binaries / "contactd"))


@contextlib.contextmanager
def embedded():
    with contactd.connect("embedded", timeout=PATIENCE) as client:
        yield client, client._own_server


def is_alive(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter where it ends while it is read
        return False


def two_boxes(client: contactd.Client, shift: float = 0.5):
    mesh = client.register_mesh(*box())
    pose = np.eye(4)
    pose[:3, 3] = shift
    scene = client.open_scene()
    scene.add_body(mesh, pose=np.eye(4))
    scene.add_body(mesh, pose=pose)
    return scene


def run(code: str, **options) -> subprocess.Popen[str]:
    """A program of its own, with a client of an embedded server whose pid and folder it prints."""
    head = ("import contactd, os, sys, time\nclient = contactd.connect('embedded', timeout=%d)\nserver = client._own_server\n"
            "print(server.pid, server.folder, flush=True)\n" % PATIENCE)
    return subprocess.Popen([sys.executable, "-c", head + code], stdout=subprocess.PIPE, text=True, **options)


def test_computes_and_leaves_nothing_behind(server):
    with embedded() as (client, own):
        assert repr(client) == "<Client of embedded>"
        assert stat.S_IMODE(os.stat(own.folder).st_mode) == 0o700
        assert os.getsid(own.pid) != os.getsid(0)  # Ctrl-C is not for it
        result = two_boxes(client).step()
        with contactd.connect(server.stream, timeout=PATIENCE) as remote:
            again = two_boxes(remote).step()
        assert result.volumes[0] == pytest.approx(0.125, rel=1e-6)
        for name in ("volumes", "centers", "generalized_gradients"):
            assert getattr(result, name).tobytes() == getattr(again, name).tobytes()
        assert is_alive(own.pid)
    assert not is_alive(own.pid) and not os.path.exists(own.folder)


def test_clients_of_a_process_share_it(tmp_path):
    with embedded() as (first, own):
        with embedded() as (second, same):
            assert same is own and second.status()["sessions"] == 2
        assert first.ping() > 0
        del second
        third = contactd.connect("embedded", timeout=PATIENCE)
        thread_made: list[contactd.Client] = []
        thread = threading.Thread(target=lambda: thread_made.append(contactd.connect("embedded", timeout=PATIENCE)))
        thread.start()
        thread.join()
        first.close()
        first.close()  # once more lets nothing go
        assert third.ping() > 0 and thread_made[0].ping() > 0
        third.close()
        pid = own.pid
        assert thread_made[0].ping() > 0
        thread_made.clear()  # collected, not closed
        wait_until(lambda: not is_alive(pid) and not os.path.exists(own.folder), "the end of the server")


def test_is_restarted_once_then_an_error():
    with embedded() as (client, own):
        scene = two_boxes(client)
        volumes = scene.step().volumes.tobytes()
        first = own.pid
        os.kill(first, signal.SIGKILL)
        assert scene.step().volumes.tobytes() == volumes
        assert own.pid != first and client.reconnects == 1
        os.kill(own.pid, signal.SIGKILL)
        with pytest.raises(contactd.UnreachableError, match="ended twice, by SIGKILL.*connect.. starts a new one"):
            scene.step()
        with pytest.raises(contactd.UnreachableError, match="ended twice"):
            client.ping()
        with embedded() as (fresh, other):
            assert other is not own and fresh.ping() > 0
    wait_until(lambda: not os.path.exists(own.folder), "the end of the folder")


@pytest.mark.parametrize("how", ["killed", "exit", "os._exit"])
def test_ends_with_its_process(how):
    program = run({"killed": "time.sleep(3600)", "exit": "", "os._exit": "os._exit(0)"}[how])
    pid, folder = program.stdout.readline().split()
    if how == "killed":
        program.kill()
    assert program.wait(PATIENCE) == (-signal.SIGKILL if how == "killed" else 0)
    wait_until(lambda: not is_alive(int(pid)) and not os.path.exists(folder), "the end of the server and its folder")


def test_fork():
    """The child cannot use its parent's client, does not keep nor end its server, and may have one of its own."""
    program = run("""
scene = client.open_scene()
child = os.fork()
if child == 0:
    try:
        client.ping()
    except contactd.errors.ClosedError as e:
        assert "forked" in str(e)
    scene.close()
    client.close()
    with contactd.connect("embedded") as other:
        assert other.ping() > 0 and other._own_server.pid != server.pid
    print("child done", flush=True)
    sys.stdin.readline()
    os._exit(0)
print("parent", client.ping() > 0 and len(scene.step()) == 0, flush=True)
client.close()
print("closed", flush=True)
sys.stdin.readline()
""", stdin=subprocess.PIPE)
    pid, folder = program.stdout.readline().split()
    assert {program.stdout.readline().strip() for _ in range(3)} == {"parent True", "child done", "closed"}
    assert not is_alive(int(pid)) and not os.path.exists(folder)  # though the child lives
    program.communicate("\n\n", PATIENCE)
    assert program.returncode == 0


def test_without_an_address(server, monkeypatch):
    monkeypatch.setattr(client_module, "DEFAULT_ADDRESS", f"tcp://127.0.0.1:{free_port()}")
    with contactd.connect(timeout=PATIENCE) as client:
        assert client.address == "embedded"
    with pytest.raises(contactd.UnreachableError, match="nothing listens"):  # where keys are given, they are for a server
        contactd.connect(timeout=0.3, server_key="rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7",
                         client_key="JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6")
    monkeypatch.setattr(client_module, "DEFAULT_ADDRESS", server.stream)
    with contactd.connect(timeout=PATIENCE) as client:
        assert client.address == server.stream
    monkeypatch.setenv("CONTACTD_SERVER", "embedded")
    with contactd.connect(timeout=PATIENCE) as client:
        assert client.address == "embedded"
    monkeypatch.setenv("CONTACTD_SERVER", server.stream)
    with contactd.connect(timeout=PATIENCE) as client:
        assert client.address == server.stream


def test_environment(monkeypatch, tmp_path):
    """Settings of what computes reach it; doors and lists of others do not, and a folder too long for sockets is passed by."""
    monkeypatch.setenv("CONTACTD_THREADS", "1")
    monkeypatch.setenv("CONTACTD_HTTP", "127.0.0.1:1")
    monkeypatch.setenv("CONTACTD_PRINCIPALS", "/nowhere")
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere")
    far = tmp_path / ("long" * 25)
    far.mkdir()
    monkeypatch.setenv("TMPDIR", str(far))
    with embedded() as (client, own):
        assert client.status()["threads"] == 1
        assert not own.folder.startswith(str(far))


def test_what_cannot_be_started(monkeypatch, tmp_path):
    monkeypatch.setenv("CONTACTD_PROGRAM", "/nowhere/contactd")
    with pytest.raises(contactd.UnreachableError, match="/nowhere/contactd cannot be started: No such file"):
        contactd.connect("embedded")
    monkeypatch.delenv("CONTACTD_PROGRAM")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(contactd.UnreachableError, match="no program contactd.*CONTACTD_PROGRAM"):
        contactd.connect("embedded")
    program = tmp_path / "contactd"
    program.symlink_to(BUILD / "contactd")
    assert _embedded.program() == str(program)
    monkeypatch.setenv("CONTACTD_THREADS", "many")
    with pytest.raises(contactd.UnreachableError, match='exit code 2.*CONTACTD_THREADS: "many" is not a whole number'):
        contactd.connect("embedded", timeout=PATIENCE)
    with pytest.raises(errors.InvalidArgumentError, match="takes no keys"):
        contactd.connect("embedded", server_key="x")
