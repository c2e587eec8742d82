"""MemoryError in each function of the Python client once, on any of its threads, over a session's script: every call ends,
with an error that says so or with the answer; the next client does everything; no thread and no file is left behind."""

from __future__ import annotations

import gc
import os
import pathlib
import sys
import threading

import contactd
import numpy as np
import pytest
from conftest import SLOW, wait_until
from geometry import UNIT_BOX, moved

CLIENT = str(pathlib.Path(contactd.__file__).parent)
# The connection's thread itself, which Python starts or does not start, and its last steps, which it repeats until they go.
UNFAILING = {"_run", "_insist", "<lambda>"}


class Fuse:
    """A profile function that makes the n-th call of one of the client's own functions fail."""

    def __init__(self, n: int):
        self.n, self.calls = n, 0

    def __call__(self, frame, event, _):
        if event != "call" or not frame.f_code.co_filename.startswith(CLIENT) or frame.f_code.co_name in UNFAILING:
            return
        self.calls += 1
        if self.calls == self.n:
            raise MemoryError(f"in {frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name}")

    def __enter__(self):
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)

    @property
    def blown(self) -> bool:
        return 0 < self.n <= self.calls


def run_session(address: str) -> None:
    with contactd.connect(address, timeout=20 * SLOW) as client:
        mesh = client.register_mesh(*UNIT_BOX, name="box")
        scene = client.open_scene(resolution=8)
        a, b = scene.add_body(mesh), scene.add_body(mesh, pose=np.eye(4))
        futures = [scene.submit(poses={b: moved(0.1 * k)}) for k in (1, 2)]
        for k, future in zip((1, 2), futures):
            assert future.result().contacts[0].volume == pytest.approx(1 - 0.1 * k, rel=1e-6)
        result = scene.step(positions={a: np.asarray(UNIT_BOX[0], np.float32)}, poses={b: moved(0.5)})
        assert result.contacts[0].generalized_gradient(b)[0] == pytest.approx(-1, rel=1e-6)
        assert client.status()["ready"]
        scene.close()


def n_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def count_calls(address: str) -> int:
    with Fuse(0) as fuse:
        run_session(address)
    return fuse.calls


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a finaliser there is no one to tell
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_memory_error_in_each_function(server):
    run_session(server.stream)
    threads, files = threading.active_count(), n_files()
    calls = count_calls(server.stream)
    assert calls > 200
    told = 0
    for n in range(1, calls + 1):
        try:
            with Fuse(n) as fuse:
                run_session(server.stream)
        except (MemoryError, contactd.ContactdError) as error:
            assert str(error)
            told += 1
        assert fuse.blown or fuse.calls < calls
        # A client whose close() failed is closed when it is collected. The error may hold it in a cycle until then, and the
        # next fuse is not for that.
        if threading.active_count() > threads:
            gc.collect()
        run_session(server.stream)
    assert told > calls / 10
    wait_until(lambda: threading.active_count() <= threads, "the clients' threads to end")
    wait_until(lambda: n_files() <= files, "the clients' files to be closed")
