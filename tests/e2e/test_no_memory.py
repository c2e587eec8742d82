"""Each allocation of the server's own code fails once, over everything that a session asks for: the answer is a clear
error, or the one expected; the server goes on, and nothing is left behind."""

from __future__ import annotations

import mmap
import os
import pathlib
import struct
import subprocess

import numpy as np
import pytest
from conftest import INSTRUMENTED, SLOW, wait_until
from contactd import _wire
from contactd.errors import ErrorCode
from geometry import UNIT_BOX, moved
from http_api import Api, box
from raw import Raw
from test_bounds import metrics

POSE = tuple(np.eye(4)[:3].ravel())
MOVED = tuple(moved(x=0.5)[:3].ravel())
# What a failed allocation may be answered with. STATE_LOST and the like follow where an earlier request failed.
CODES = {"OUT_OF_MEMORY", "INTERNAL", "BUSY", "STATE_LOST", "NOT_FOUND", "STALE_HANDLE", "CONFLICT", "INVALID_ARGUMENT"}


class Fuse:
    """How many allocations there are still to succeed before one fails."""

    def __init__(self, folder: pathlib.Path):
        self.library, self.path = folder / "failing_malloc.so", folder / "left"
        source = pathlib.Path(__file__).with_name("failing_malloc.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", str(source), "-o", str(self.library)], check=True)
        self.path.write_bytes(bytes(mmap.PAGESIZE))
        with self.path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    @property
    def env(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "FAILING_MALLOC": str(self.path)}

    @property
    def left(self) -> int:
        return struct.unpack_from("<q", self._page)[0]

    @left.setter
    def left(self, n: int) -> None:
        struct.pack_into("<q", self._page, 0, n)


class Session:
    """Asks for everything that there is, one after the other, and takes errors as they come."""

    def __init__(self, address: str):
        self.raw = Raw(address, hello=False)
        self.errors: list[str] = []

    def ask(self, kind: str, body: dict, arrays: _wire.Arrays | None = None) -> dict:
        """The answer, or {} after an error. A request that gets no answer, as there was no memory for one, goes again."""
        numbers = set()
        for _ in range(200):
            numbers.add(self.raw.send(kind, body, arrays))
            answer = None
            while answer is None and self.raw.socket.poll(20 * SLOW):
                answer = _wire.decode(self.raw.socket.recv_multipart())
                if answer.request not in numbers:
                    answer = None  # late, of a request that was given up
            if answer is None:
                continue
            if answer.kind != "Error":
                return answer.body
            name = ErrorCode(answer.body["code"]).name
            assert name in CODES, (kind, answer.body)
            assert answer.body["message"]
            self.errors.append(name)
            return {}
        raise AssertionError(f"{kind} was never answered")

    def run(self) -> None:
        welcome = self.ask("Hello", {"version": 1, "min_version": 1, "client": "raw"})
        self.raw.session, self.raw.epoch = welcome.get("session", 0), welcome.get("epoch", 0)
        arrays = _wire.Arrays()
        vertices, triangles = UNIT_BOX
        mesh = {"vertices": arrays.add(vertices.astype("<f4")), "triangles": arrays.add(triangles.astype("<u4"))}
        mesh_id = self.ask("RegisterMesh", mesh, arrays).get("mesh", 1)
        scene = self.ask("OpenScene", {"settings": {"resolution": (8,)}}).get("scene", 1)
        bodies = [self.ask("AddBody", {"scene": scene, "mesh": mesh_id, "kind": 2, "pose": pose}).get("body", 1)
                  for pose in (POSE, MOVED)]
        self.ask("Step", {"scene": scene, "sequence": 1, "want": 7})
        self.ask("Configure", {"scene": scene, "settings": {"method": 2}})
        self.ask("Step", {"scene": scene, "sequence": 2, "want": 7})
        for kind, body in (("GetScene", {"scene": scene}), ("ListScenes", {}), ("ListMeshes", {}), ("GetStatus", {}),
                           ("GetMesh", {"mesh": mesh_id, "with_geometry": True}), ("Ping", {"nonce": 1}),
                           ("ReplaceMesh", {"scene": scene, "body": bodies[0], "mesh": mesh_id}), ("RemoveBody", {"scene": scene, "body": bodies[1]}), ("CloseScene", {"scene": scene}),
                           ("RemoveMesh", {"mesh": mesh_id})):
            self.ask(kind, body)

    def close(self) -> None:
        self.raw.close()


def at_rest(server) -> bool:
    values = metrics(server)
    return not any(values[f"contactd_{name}"] for name in ("scenes", "bodies", "meshes", "queue_depth", "mesh_bytes",
                                                           "scene_bytes"))


needs_own_malloc = pytest.mark.skipif(INSTRUMENTED, reason="sanitizers bring their own malloc")


@needs_own_malloc
def test_every_allocation_of_a_session_fails_once(make_server, tmp_path):
    fuse = Fuse(tmp_path)
    server = make_server("--lease", "1s", "--threads", "1", env=fuse.env)

    def session() -> list[str]:
        session = Session(server.stream)
        session.run()
        session.close()
        return session.errors

    for _ in range(3):  # what is kept for later is allocated by now
        assert session() == []
    n, failed = 0, 0
    while True:
        n += 1
        fuse.left = n
        errors = session()
        assert server.alive(), f"the server ended at allocation {n}:\n{server.logs()}"
        if fuse.left:  # none was left to fail
            break
        failed += bool(errors)
        assert session() == [], f"after allocation {n} failed"
    fuse.left = 0
    assert n > 20 and failed > n // 4, (n, failed)
    wait_until(lambda: at_rest(server), "all scenes, bodies and meshes gone")


@needs_own_malloc
def test_a_connection_is_noted_later_where_memory_was_short(make_server, tmp_path):
    """Not noted, it would count as one that has ended for as long as it lasts: what it asks for waits, as that of a
    client that is gone does."""
    fuse = Fuse(tmp_path)
    server = make_server("--threads", "1", env=fuse.env)
    for _ in range(2):  # the first request is kept, and used again
        session = Session(server.stream)
        session.run()
        session.close()
    wait_until(lambda: metrics(server)["contactd_connections"] == 0, "the connections have ended")
    fuse.left = 1
    session = Session(server.stream)
    session.run()
    assert fuse.left == 0
    wait_until(lambda: metrics(server)["contactd_connections"] == 1, "the connection is noted")
    session.close()


@needs_own_malloc
def test_every_allocation_of_http_requests_fails_once(make_server, tmp_path):
    fuse = Fuse(tmp_path)
    server = make_server("--threads", "1", env=fuse.env)
    vertices, triangles = box()

    def requests() -> list[int]:
        """The statuses of what failed. A connection that is dropped counts as 0."""
        failed: list[int] = []

        def ask(method: str, path: str, body=None, **headers) -> dict:
            api = Api(server.http)
            try:
                answer = api(method, path, body, headers, check=False)
            except OSError:
                failed.append(0)
                return {}
            finally:
                api.connection.close()
            if answer.status < 400:
                return answer.json if answer.body[:1] == b"{" else {}
            failed.append(answer.status)
            assert answer.status in (400, 404, 409, 422, 500, 503), answer.body
            return {}

        mesh = ask("POST", "/v1/meshes", {"vertices": vertices, "triangles": triangles}).get("hash", "0" * 32)
        path = f"/v1/scenes/{ask('POST', '/v1/scenes', {'resolution': 8}).get('id', 1)}"
        for shift in (0, 0.5):
            pose = [1, 0, 0, shift, 0, 1, 0, 0, 0, 0, 1, 0]
            ask("POST", f"{path}/bodies", {"mesh": mesh, "pose": pose})
        ask("POST", f"{path}/step", {"want": ["gradient", "frame"]})
        ask("PATCH", path, {"method": "exact"})
        for where in ("/v1/scenes", "/v1/meshes", "/v1/sessions", "/v1/status", "/metrics", path, f"{path}/bodies",
                      f"{path}/stats", "/healthz"):
            ask("GET", where)
        ask("DELETE", path)
        ask("DELETE", f"/v1/meshes/{mesh}")
        return failed

    for _ in range(2):
        assert requests() == []
    n = failures = 0
    while True:
        n += 1
        fuse.left = n
        failures += bool(requests())
        assert server.alive(), f"the server ended at allocation {n}:\n{server.logs()}"
        if fuse.left:
            break
        # What a request that failed left behind: a scene or a mesh whose number did not arrive.
        api = Api(server.http)
        for scene in api.get("/v1/scenes")["scenes"]:
            assert api("DELETE", f"/v1/scenes/{scene['id']}").status == 204
        for mesh in api.get("/v1/meshes")["meshes"]:
            assert api("DELETE", f"/v1/meshes/{mesh['hash']}").status == 204
        api.connection.close()
        assert requests() == [], f"after allocation {n} failed"
    fuse.left = 0
    assert n > 20 and failures > n // 4, (n, failures)
    wait_until(lambda: at_rest(server), "all scenes, bodies and meshes gone")
