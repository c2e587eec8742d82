"""Fixtures for black-box tests: contactd servers on free loopback ports, with their logs kept.

`server`        one server for all tests of a module; revived if a test left it dead
`fresh_server`  a server for one test alone
`engine`        the engine in this process; `server_or_engine` is either in turn
`make_server`   a factory: make_server("--flag", "value", env={...}) starts one more, ended with the test

The binaries are taken from build/, or from the folder that BUILD names (BUILD=build/address runs the
tests against the instrumented ones). No other CONTACTD_ variable reaches a server.
"""

from __future__ import annotations

import collections
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from typing import Any, Callable

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
INSTRUMENTED = BUILD.name in ("address", "thread", "undefined")
SLOW = 20.0 if INSTRUMENTED else 5.0  # how much longer than on an idle machine it may take until it counts as hung
PATIENCE = 12 * SLOW  # seconds: a wait that takes longer hangs, on however busy a machine
CONTACTCTL = [str(BUILD / "contactctl"), "--timeout", str(PATIENCE)]  # its own 10 s may be over on a busy machine
MESHES = pathlib.Path(os.environ.get("CONTACTD_MESHES", ROOT / ".." / "shared" / "meshes"))
# What compiles programs that link the libraries: a user's compilers, but where the libraries are instrumented those that
# built them, with the same sanitizers.
CC, CXX = ["cc"], ["c++"]
if INSTRUMENTED:
    _flags = (BUILD / "flags").read_text()
    _sanitizers = list(dict.fromkeys(re.findall(r"-f(?:no-)?sanitize=\S+", _flags)))
    CC = [*_flags.split(" -std=c17")[0].split(), *_sanitizers]
    CXX = [*_flags.split(" -std=c++17")[0].split(" / ")[-1].split(), *_sanitizers]
SANITIZER_REPORT = re.compile(
    r"ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:|AddressSanitizer:DEADLYSIGNAL"
)


# Files that take long, which begin first: one that begins last keeps the other workers waiting for its end.
LONG = ("containers", "bounds", "ray", "restart", "fleet", "record", "state", "time_limits", "http_server", "installed", "wheel", "devices", "servers",
        "client_c", "many", "drain", "guard", "operators", "openapi", "demo", "experiments", "experiments_papers", "page", "service_manager",
        "newton", "no_memory", "contactctl", "slow_network", "voxtree", "wrap", "sim", "readme", "compare", "hostile")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long files first, the others by the number of their tests."""
    count = collections.Counter(item.path for item in items)
    names = {path: path.stem.removeprefix("test_") for path in count}
    items.sort(key=lambda item: (LONG.index(names[item.path]) if names[item.path] in LONG else len(LONG), -count[item.path]))


def _ports() -> range:
    """Not those that the system gives to whoever connects somewhere, or asks for any: a server that starts again must
    find its own free."""
    try:
        given = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        given = 32768
    return range(10000, given) if given > 11000 else range(10000, 65536)


def pause(process: subprocess.Popen) -> None:
    """Stops a child of this process, and waits until it stands: on a busy machine its threads go on for a while after the signal."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def wait_until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Repeats `condition()` until it is true, and returns its value. Fails the test, naming `what`, if it stays false."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"after {seconds:.0f} s there is still not: {what}"
        time.sleep(0.005)
    return value


_claims: list[socket.socket] = []


def free_port() -> int:
    """A port that no other test is given, in whatever process, as long as this one lives."""
    while True:
        port = random.SystemRandom().choice(_ports())
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0contactd test port {port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port


class Server:
    """A contactd process. `http` and `stream` stay the same across restarts."""

    def __init__(self, folder: pathlib.Path, flags: tuple[str, ...] = (), env: dict[str, str] | None = None):
        self.binary = BUILD / "contactd"
        self.flags = flags
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CONTACTD_")} | (env or {})
        self.log_path = folder / f"contactd-{time.monotonic_ns()}.log"
        self.http_port, self.stream_port = free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def stream(self) -> str:
        return f"tcp://127.0.0.1:{self.stream_port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def logs(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, wait: bool = True) -> "Server":
        assert not self.alive(), "already running"
        # On a busy machine, or instrumented, a step that is meant to end may take longer than the server's own limit.
        limit = () if "--max-step-time" in self.flags else ("--max-step-time", "1h")
        command = [str(self.binary), "--http", f"127.0.0.1:{self.http_port}", "--stream", self.stream, *limit, *self.flags]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=self.env, cwd=ROOT
            )
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout: float = 10.0) -> None:
        deadline = time.monotonic() + timeout * SLOW
        while True:
            if not self.alive():
                raise AssertionError(f"contactd ended with {self.process.returncode}:\n{self.logs()}")
            try:
                with urllib.request.urlopen(self.http + "/readyz", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            if time.monotonic() > deadline:
                raise AssertionError(f"contactd is not ready after {timeout * SLOW:.0f} s:\n{self.logs()}")
            time.sleep(0.01)

    def wait(self, timeout: float = 10.0) -> int:
        assert self.process is not None
        return self.process.wait(timeout * SLOW)

    def stop(self, timeout: float = 10.0) -> int:
        """SIGTERM and wait: the exit status."""
        assert self.process is not None
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self) -> None:
        """SIGKILL: what a power cut leaves."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def restart(self, hard: bool = False) -> "Server":
        """The same addresses and flags, a new epoch."""
        if self.alive():
            self.kill() if hard else self.stop()
        return self.start()

    def finish(self) -> None:
        """Ends the process and fails on anything that a test did not ask for: a bad exit, a sanitizer's report."""
        if self.alive():
            try:
                status = self.stop()
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"contactd did not end within its time after SIGTERM:\n{self.logs()}") from None
            assert status == 0, f"contactd ended with {status}:\n{self.logs()}"
        report = SANITIZER_REPORT.search(self.logs())
        assert report is None, f"{report.group(0)} in contactd's log:\n{self.logs()}"


@pytest.fixture(scope="session", autouse=True)
def patient_clients():
    """The Python client waits a second for its scenes to be closed, and two for a server that may be down: a busy machine may
    take as long."""
    from contactd import _connection, _link, _servers

    _link.GOODBYE_S = _connection.SILENCE_S = _servers.PROBE_S = 10 * SLOW


@pytest.fixture(scope="session")
def binaries() -> pathlib.Path:
    if not (BUILD / "contactd").exists():
        pytest.fail(f"{BUILD / 'contactd'} does not exist: run make first")
    return BUILD


@pytest.fixture(scope="module")
def _module_server(binaries, tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server")).start()
    yield server
    server.finish()


@pytest.fixture
def server(_module_server) -> Server:
    if not _module_server.alive():
        _module_server.start()
    return _module_server


@pytest.fixture
def engine(monkeypatch, binaries):
    """contactd.Engine with the library that was built."""
    import contactd

    if INSTRUMENTED:
        pytest.skip("Python is not instrumented, and cannot load a library that is")
    monkeypatch.setenv("CONTACTD_LIBRARY", str(binaries / "libcontact.so"))
    with contactd.Engine(threads=2, backend="cpu", timeout=PATIENCE) as engine:
        yield engine


@pytest.fixture(params=["server", "engine"])
def server_or_engine(request):
    """A client of `server`, and `engine`."""
    import contactd

    if request.param == "engine":
        yield request.getfixturevalue("engine")
    else:
        with contactd.connect(request.getfixturevalue("server").stream, timeout=PATIENCE) as client:
            yield client


@pytest.fixture
def make_server(binaries, tmp_path):
    servers: list[Server] = []

    def make(*flags: str, env: dict[str, str] | None = None, start: bool = True) -> Server:
        server = Server(tmp_path, flags, env)
        servers.append(server)
        return server.start() if start else server

    yield make
    for server in servers:
        server.finish()


@pytest.fixture
def fresh_server(make_server) -> Server:
    return make_server()


@pytest.fixture(scope="session")
def meshes() -> pathlib.Path:
    """The folder of real meshes; tests that need it are skipped where it is absent."""
    if not MESHES.is_dir():
        pytest.skip(f"no folder of real meshes at {MESHES} (set CONTACTD_MESHES)")
    return MESHES
