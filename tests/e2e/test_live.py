"""GET /v1/scenes/{scene}/live: what viewers are told of a scene, when, and what they cost."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import signal
import time
import urllib.parse

import contactd
import numpy as np
import pytest
from conftest import SLOW, wait_until
from geometry import UNIT_BOX, icosphere, moved
from http_api import Api

PATIENT = 20 * SLOW


class Stream:
    """Server-sent events, as they come."""

    def __init__(self, server, scene: int, query: str = "rate=60", timeout: float = 3 * PATIENT, headers: dict | None = None) -> None:
        url = urllib.parse.urlsplit(server.http)
        self.connection = http.client.HTTPConnection(url.hostname, url.port, timeout=timeout)
        self.connection.request("GET", f"/v1/scenes/{scene}/live?{query}", headers=headers or {})
        self.answer = self.connection.getresponse()
        self.comments = 0

    def __enter__(self) -> Stream:
        assert self.answer.status == 200 and self.answer.headers["Content-Type"] == "text/event-stream", self.answer.read()
        assert self.answer.headers["Cache-Control"] == "no-store"
        return self

    def __exit__(self, *_) -> None:
        self.connection.close()

    def next(self) -> tuple[str, dict] | None:
        name, data = None, None
        while line := self.answer.readline().decode():
            if line.startswith("event: "):
                name = line[7:-1]
            elif line.startswith("data: "):
                data = json.loads(line[6:])
            elif line.startswith(":"):
                self.comments += 1
            elif line == "\n" and name:
                return name, data
        return None

    def frame(self, step: int | None = None) -> dict:
        """The next one, or the first of this step or a later one."""
        while True:
            name, data = self.next()
            assert name in ("scene", "frame"), (name, data)
            if name == "frame" and (step is None or data["step"] >= step):
                return data


def array(text: str, dtype: str, *shape: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype).reshape(*shape)


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        yield client


def a_scene(client, **settings) -> contactd.Scene:
    """A floor, a box on it and a ball that deforms in the box."""
    scene = client.open_scene(name="live", **settings)
    scene.add_half_space((0, 0, 1), 0.0)
    scene.add_body(client.register_mesh(*UNIT_BOX), moved(0, 0, 0.49))
    scene.add_body(client.register_mesh(*icosphere(0.3)))
    return scene


def test_what_a_viewer_is_told(server, client):
    scene = a_scene(client, law="pressure", max_points=4)
    floor, box, ball = scene.bodies
    with Stream(server, scene.id) as stream:
        name, told = stream.next()
        assert name == "scene" and (told["scene"], told["name"], told["method"]) == (scene.id, "live", "exact")
        assert told["settings"]["law"] == "pressure" and [b["kind"] for b in told["bodies"]] == ["half_space", "rigid", "deformable"]
        assert "mesh" not in told["bodies"][0] and told["bodies"][1]["mesh"] == client.register_mesh(*UNIT_BOX).hash and told["bodies"][1]["triangles"] == 12
        first = stream.frame()
        assert (first["step"], first["contacts"], first["n_contacts"]) == (0, [], 0)
        vertices = np.asarray(icosphere(0.3)[0]) + [0, 0, 1.2]
        result = scene.step(poses={box: moved(0.01, 0, 0.495)}, positions={ball: vertices}, want=("frame", "points", "surface", "ids"))
        frame = stream.frame(1)
        assert frame["poses"]["ids"] == [floor.id, box.id]
        poses = array(frame["poses"]["data"], "<f4", 2, 3, 4)
        assert poses[1] == pytest.approx(np.asarray(moved(0.01, 0, 0.495))[:3], abs=1e-6) and poses[0][:, 2] == pytest.approx([0, 0, 1])
        (soft,) = frame["positions"]
        assert soft["id"] == ball.id and array(soft["data"], "<f4", -1, 3) == pytest.approx(vertices, abs=1e-6)
        assert frame["n_contacts"] == len(result) == 2 and not frame["truncated"]
        for told, contact in zip(frame["contacts"], result.contacts):
            assert told["volume"] == pytest.approx(contact.volume) and told["id"] == contact.id and told["index"] == 0
            assert told["center"] == pytest.approx(contact.center, abs=1e-6) and told["depth"] == pytest.approx(contact.depth)
            assert told["wrench"] == pytest.approx(contact.wrench(contact.bodies[0]), rel=1e-5, abs=1e-3)
            assert np.array(told["points"]) == pytest.approx(contact.points.position, abs=1e-6) and len(told["points"]) > 0
            offsets = array(told["surface"]["offsets"], "<u4", -1)
            assert offsets.tolist() == contact.surface.polygons.tolist()
            assert array(told["surface"]["vertices"], "<f4", -1, 3) == pytest.approx(contact.surface.vertices, abs=1e-5)
            assert array(told["surface"]["pressure"], "<f4", -1) == pytest.approx(contact.surface.pressure, rel=1e-5)
    with Stream(server, scene.id, "points=false&surface=false") as stream:
        told = stream.frame()["contacts"][0]
        assert "points" not in told and "surface" not in told and told["volume"] == pytest.approx(result.contacts[0].volume)


def test_bodies_that_come_close(server, client):
    """Those within the margin that have no contact, with the closest points of their surfaces."""
    scene = a_scene(client, margin=0.5)
    floor, box, ball = scene.bodies
    vertices = np.asarray(icosphere(0.3)[0]) + [0, 0, 1.4]
    with Stream(server, scene.id) as stream:
        assert stream.frame()["separations"] == []
        (pair,) = scene.step(poses={box: moved(0, 0, 0.49)}, positions={ball: vertices}).separations
        frame = stream.frame(1)
        (told,) = frame["separations"]
        assert frame["n_separations"] == 1 and told["bodies"] == [box.id, ball.id]
        assert told["distance"] == pytest.approx(pair.distance) and np.array(told["points"]) == pytest.approx(pair.points, abs=1e-6)
        scene.configure(margin=0)
        scene.step()
        assert stream.frame(2)["separations"] == []


def test_changes_and_the_end(server, client):
    scene = a_scene(client)
    with Stream(server, scene.id) as stream, Stream(server, scene.id) as other:
        assert stream.next()[0] == other.next()[0] == "scene"
        scene.add_body(client.register_mesh(*UNIT_BOX), moved(5))
        name = None
        while name != "scene":
            name, told = stream.next()
        assert len(told["bodies"]) == 4
        scene.close()
        while name != "closed":
            name, told = stream.next()
        assert told == {"reason": "the scene was closed", "again": False} and stream.next() is None
        while name != "scene":
            name, told = other.next() or ("scene", None)


def test_the_newest_frame_counts(server, client):
    """A viewer that reads late is behind by what was begun, and by no more."""
    scene = a_scene(client)
    with Stream(server, scene.id) as stream:
        stream.frame()
        for k in range(300):
            scene.step(poses={scene.bodies[1]: moved(1e-4 * k, 0, 0.49)})
        assert stream.frame(300)["step"] == 300


def test_steps_over_http(server):
    api = Api(server.http)
    scene = api.scene()
    api.post(f"{scene}/bodies", {"mesh": api.box()["id"], "pose": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]})
    with Stream(server, int(scene.rsplit("/", 1)[1])) as stream:
        stream.frame()
        api.post(f"{scene}/step", {"updates": [{"body": 1, "pose": [1, 0, 0, 3, 0, 1, 0, 0, 0, 0, 1, 0]}]}, 200)
        assert array(stream.frame(1)["poses"]["data"], "<f4", 3, 4)[0, 3] == 3


@pytest.mark.parametrize("query, field", [("rate=0", "rate"), ("rate=61", "rate"), ("rate=fast", "rate"), ("points=1", "points"),
                                          ("surface=yes", "surface"), ("speed=3", "speed"), ("rate=3&rate=3", "rate")])
def test_bad_queries(server, query, field):
    api = Api(server.http)
    api.refused("GET", f"{api.scene()}/live?{query}", 400, "INVALID_ARGUMENT", field=field)
    api.refused("GET", "/v1/scenes/987654/live", 404, "NOT_FOUND")


def test_so_many_viewers(make_server):
    server = make_server("--http-viewers", "2")
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        scene = a_scene(client)
        with Stream(server, scene.id) as one:
            with Stream(server, scene.id):
                problem = Api(server.http).refused("GET", f"/v1/scenes/{scene.id}/live", 503, "BUSY")
                assert "--http-viewers" in problem["detail"]
            deadline = time.monotonic() + PATIENT
            while (third := Stream(server, scene.id)).answer.status == 503 and time.monotonic() < deadline:
                time.sleep(0.05)
            with third:
                assert third.frame() and one.frame()


def test_viewers_leave_and_the_server_ends(make_server):
    """Viewers who are gone are forgotten; those who are there are told that the server ends, which they do not delay."""
    server = make_server()
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        scene = a_scene(client)
        for _ in range(20):
            with Stream(server, scene.id) as stream:
                stream.next()
        scene.step()
        with Stream(server, scene.id) as stream:
            stream.frame()
            server.stop()
            name, told = "frame", None
            while name == "frame":
                name, told = stream.next()
            assert name == "closed" and "shutting down" in told["reason"] and told["again"]


def test_a_frame_that_is_too_large(make_server):
    """Surfaces beyond --max-message: who does not ask for them still gets frames."""
    server = make_server("--max-message", "64K")
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        scene = client.open_scene(law="pressure")
        ball = client.register_mesh(*icosphere(0.4, 2))
        for k in range(30):
            scene.add_body(ball, moved(0.7 * k, 0.01 * k, 0))
        with Stream(server, scene.id) as all_of_it, Stream(server, scene.id, "surface=false") as less:
            assert all_of_it.frame() and less.frame()
            scene.step(want=("frame", "surface"))
            while (event := all_of_it.next())[0] != "closed":
                assert event[1].get("step", 0) == 0
            assert "--max-message" in event[1]["reason"] and event[1]["again"] is False
            assert less.frame(1)["n_contacts"] == 29


def test_viewers_who_come_while_a_frame_is_made(server, client):
    """Each gets frames of what it asked for, whatever those before it asked for."""
    scene = client.open_scene(law="pressure")
    ball = client.register_mesh(*icosphere(0.4, 4))
    for k in range(24):
        scene.add_body(ball, moved(0.7 * k, 0, 0))
    scene.step(want=("frame", "points", "surface"))
    asked = [f"points={points}&surface={surface}" for points in ("true", "false") for surface in ("true", "false")]
    for _ in range(6):
        with contextlib.ExitStack() as stack:
            for stream in [stack.enter_context(Stream(server, scene.id, what)) for what in asked]:
                assert stream.frame()["n_contacts"] == 23


def test_who_comes_during_a_long_step_hears_that_the_server_is_there(server, client):
    """Every ten seconds: a connection that is silent for thirty is cut."""
    ball = client.register_mesh(*icosphere(1.0, 4))
    scene = client.open_scene(method="ebpi", tolerance_rel=1e-6, strict=True, ray_budget=2**20)
    for i in range(40):
        scene.add_body(ball, pose=moved(0.01 * i, 0.002 * i))
    future = scene.submit()
    api = Api(server.http)
    wait_until(lambda: api.gauge("contactd_queue_depth") >= 1, "the step to be there")
    with Stream(server, scene.id) as stream:
        assert stream.answer.readline() == b": still here\n" and not future.done()
    future.cancel()
    scene.close()


def test_a_full_queue_is_asked_at_the_viewer_s_rate(make_server):
    """A viewer who comes while no command can be queued waits, and costs next to nothing until one can."""
    server = make_server("--queue", "1")
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        scene = a_scene(client)
        busy = client.open_scene(method="ebpi", tolerance_rel=1e-6, strict=True, ray_budget=2**20, max_step_time=1000)
        ball = client.register_mesh(*icosphere(1.0, 4))
        for k in range(40):
            busy.add_body(ball, moved(0.01 * k, 0.002 * k))
        running = busy.submit()
        api = Api(server.http)
        wait_until(lambda: api.gauge("contactd_queue_depth") == 1, "the queue to be full")
        with Stream(server, scene.id) as stream:
            began, before = time.monotonic(), api.gauge("contactd_busy_total")
            time.sleep(1)
            wait_until(lambda: api.gauge("contactd_busy_total") > before, "the viewer refused")  # one that was paused asks later
            refused, took = api.gauge("contactd_busy_total") - before, time.monotonic() - began
            assert refused < 62 * took, "the rate is 60 a second"
            running.cancel()
            assert stream.frame()["step"] == 0


def test_who_may_watch(make_server, tmp_path):
    tokens = {name: f"token-of-{name}-0123456789" for name in ("alice", "bob", "boss")}
    rows = [f"{name} {'operator' if name == 'boss' else 'simulator'} token=sha256:{hashlib.sha256(token.encode()).hexdigest()}"
            for name, token in tokens.items()]
    (tmp_path / "principals").write_text("\n".join(rows) + "\n")
    (tmp_path / "principals").chmod(0o600)
    server = make_server("--principals", str(tmp_path / "principals"))
    api = Api(server.http)

    def ask(name: str | None, method: str, path: str, body=None):
        return api(method, path, body, {"Authorization": f"Bearer {tokens[name]}"} if name else {})

    scene = ask("alice", "POST", "/v1/scenes", {}).json["id"]
    assert ask(None, "GET", f"/v1/scenes/{scene}/live").status == 401
    assert ask("bob", "GET", f"/v1/scenes/{scene}/live").status == 404
    assert ask("bob", "GET", f"/v1/scenes/{scene}/contacts").status == 404
    url = urllib.parse.urlsplit(server.http)
    for name in ("alice", "boss"):
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=PATIENT)
        connection.request("GET", f"/v1/scenes/{scene}/live", headers={"Authorization": f"Bearer {tokens[name]}"})
        answer = connection.getresponse()
        assert answer.status == 200 and answer.readline() == b"event: scene\n"
        connection.close()
    # A list that is read again: who watches must show its token again.
    with Stream(server, scene, headers={"Authorization": f"Bearer {tokens['alice']}"}) as stream:
        assert stream.frame()
        server.process.send_signal(signal.SIGHUP)
        name, told = "frame", None
        while name == "frame":
            name, told = stream.next()
        assert name == "closed" and "principals" in told["reason"] and told["again"]
