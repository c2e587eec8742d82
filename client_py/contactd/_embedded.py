"""The embedded server: a contactd process of this one's own, over ipc:// in a private folder. For connect("embedded").

All embedded clients of a process share one. It ends with the last of them, and with this process, however that ends: its
standard input is a pipe that nobody else holds (the server's --until-stdin-ends). Where it dies by itself it is started once
again at the same address, where the clients build their scenes anew as after any restart; when it dies once more, they fail.
"""

from __future__ import annotations

import atexit
import logging
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from typing import IO

from ._link import Link
from .errors import ContactdError, ErrorCode, error_for


END_S = 10.0  # after which a server that was told to end is killed
MOST_BASE = 85  # bytes of the folder's folder: with /contactd-xxxxxxxx/s it fits a socket's 107
REMEDY = "install contactd's wheel or package, or set CONTACTD_PROGRAM to the program's path"
# Of the environment: doors, lists and logs of the server that is not embedded, and the service manager's.
_NOT_ITS = ("CONTACTD_HTTP", "CONTACTD_STREAM", "CONTACTD_PRINCIPALS", "CONTACTD_STATE_", "CONTACTD_SUCCESSOR",
            "CONTACTD_CONFIG", "CONTACTD_LOG_", "CONTACTD_PROGRAM", "CONTACTD_LIBRARY", "NOTIFY_SOCKET", "LISTEN_",
            "WATCHDOG_")

log = logging.getLogger("contactd")


def program() -> str | None:
    """The server's program: where CONTACTD_PROGRAM says, in this package, or on PATH."""
    if named := os.environ.get("CONTACTD_PROGRAM"):
        return named
    own = pathlib.Path(__file__).parent / "bin" / "contactd"
    return str(own) if own.exists() else shutil.which("contactd")


class EmbeddedServer:
    """One of this process. All methods may be called from any thread."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.folder = _make_folder()
        self.address = f"ipc://{self.folder}/s"
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._links: weakref.WeakSet[Link] = weakref.WeakSet()
        self._holders = 0  # clients, and calls that are about to make one
        self._is_ending = False
        self._error: ContactdError | None = None  # it has died for good
        try:
            self._log: IO[bytes] = tempfile.TemporaryFile(dir=self.folder)  # without a name, as the server removes the folder
            self._process = self._spawn()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self._watcher = threading.Thread(target=self._watch, name="contactd embedded", daemon=True)
        self._watcher.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        return self._error is None and not self._is_ending

    def hold(self) -> bool:
        """False: it is about to end."""
        with self._lock:
            self._holders += self.is_usable
            return self.is_usable

    def add(self, link: Link) -> None:
        """A client's, which is told when there is no server any more; the client holds the server already."""
        with self._lock:
            self._links.add(link)
            if self._error is not None:
                link.end(self._error)

    def release(self, wait: bool = True) -> None:
        """By whoever held it: the last ends it."""
        if os.getpid() != self._pid:
            return  # it belongs to the process that forked this one
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
            self._tell_end()
        if wait and threading.current_thread() is not self._watcher:
            self.end()

    def end(self) -> None:
        with self._lock:
            self._tell_end()
        self._watcher.join(END_S)
        if self._watcher.is_alive():
            log.warning("the embedded server did not end within %.0f s: it is killed", END_S)
            self._process.kill()
            self._watcher.join()

    def _tell_end(self) -> None:
        self._is_ending = True
        self._close_stdin()

    def await_socket(self, timeout: float) -> None:
        """Until it listens. Raises: UnreachableError where it has ended, or takes longer."""
        end = time.monotonic() + timeout
        while not os.path.exists(f"{self.folder}/s"):
            if self._error is not None:
                raise self._error
            if time.monotonic() >= end:
                raise _unreachable(f"{self.path} does not listen after {timeout:.3g} s{self._said()}")
            time.sleep(0.002)

    def forget(self) -> None:
        """In a process that was forked: the server is its parent's."""
        self._close_stdin()
        self._process.returncode = 0  # it is no child of this process to wait for

    # ---- the process ----

    def _spawn(self) -> subprocess.Popen[bytes]:
        self._log.seek(0)
        self._log.truncate()
        command = [self.path, "--stream", self.address, "--http", "off", "--until-stdin-ends", "--drain", "0",
                   "--log-level", "warn"]
        env = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_ITS)}
        try:  # in a session of its own, as Ctrl-C in a terminal reaches all processes of one
            return subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._log,
                                    env=env, start_new_session=True)
        except OSError as e:
            raise _unreachable(f"{self.path} cannot be started: {e.strerror}: {REMEDY}") from None

    def _watch(self) -> None:
        """Waits for the process, starts it once again, and cleans up when it is gone."""
        status = self._process.wait()
        with self._lock:
            again = not self._is_ending
            if again:
                log.warning("the embedded server ended (%s) and is started again%s", _how(status), self._said())
                self._close_stdin()
                try:
                    self._process = self._spawn()
                except ContactdError as e:
                    self._fail(e)
                    again = False
        if again:
            status = self._process.wait()
            with self._lock:
                if not self._is_ending:
                    self._fail(_unreachable(f"the embedded server ended twice, {_how(status)}: it is not started again, "
                                            f"but connect() starts a new one{self._said()}"))
        self._clean()

    def _fail(self, error: ContactdError) -> None:
        self._error = error
        for link in list(self._links):
            link.end(error)

    def _close_stdin(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _clean(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._log.close()

    def _said(self) -> str:
        """The last lines of its log, for an error."""
        text = os.pread(self._log.fileno(), 1 << 16, 0)  # which leaves the process's place in it
        lines = text.decode(errors="replace").splitlines()[-5:]
        return "; it said: " + " | ".join(lines) if lines else ""


# ---- the one of this process ----

_current: EmbeddedServer | None = None
_lock = threading.Lock()


def acquire(timeout: float) -> EmbeddedServer:
    """This process's server, started where there is none; the caller holds it and releases it.

    Raises: UnreachableError: there is no program, or it does not start; the error has what it said."""
    global _current
    path = program()
    if path is None:
        raise _unreachable(f"there is no program contactd to start, neither in this package nor on PATH: {REMEDY}")
    with _lock:
        if _current is None or not _current.hold():
            _current = EmbeddedServer(path)
            _current.hold()
        server = _current
    try:
        server.await_socket(timeout)
    except BaseException:
        server.release()
        raise
    return server


def _make_folder() -> str:
    """A folder for this user alone (0700), where the name of a socket is short enough."""
    troubles = []
    bases = [tempfile.tempdir, os.environ.get("TMPDIR"), os.environ.get("XDG_RUNTIME_DIR"), "/tmp", "/dev/shm"]
    for base in dict.fromkeys(filter(None, bases)):
        if len(os.fsencode(base)) > MOST_BASE or re.search(r"[\s,]", base):
            troubles.append(f"{base}: its name is too long for a socket's, or has spaces or commas")
            continue
        try:
            return tempfile.mkdtemp(prefix="contactd-", dir=base)
        except OSError as e:
            troubles.append(f"{base}: {e.strerror}")
    raise _unreachable(f"there is no folder for the embedded server's socket ({'; '.join(troubles)}): set TMPDIR")


def _how(status: int) -> str:
    if status < 0:
        return f"by {signal.Signals(-status).name}"
    return f"with exit code {status}"


def _unreachable(message: str) -> ContactdError:
    return error_for(ErrorCode.UNREACHABLE, message, object="embedded server")


def _forget() -> None:
    global _current, _lock
    _lock = threading.Lock()  # another thread may have held it
    if _current is not None:
        _current.forget()
        _forgotten.append(_current)
    _current = None


_forgotten: list[EmbeddedServer] = []  # kept, as collecting one would look for its process


def _end() -> None:
    if _current is not None and _current.is_usable:
        _current.end()


os.register_at_fork(after_in_child=_forget)
atexit.register(_end)
