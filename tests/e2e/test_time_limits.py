"""Every step ends: at its limit, at its deadline, with its scene, its client or the server; and while it runs everybody else
is served. Nothing here is timed: the steps that are to be ended would take minutes."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import contactd
import numpy as np
import pytest
from contactd.errors import TimeLimitError
from conftest import BUILD, PATIENCE, ROOT, SLOW, Server, pause, wait_until
from geometry import UNIT_BOX, icosphere, moved
from http_api import Api
from raw import Raw

HOUR = "1h"


def endless(client: contactd.Client, **settings) -> contactd.Scene:
    """A scene whose steps take minutes: 60 boxes in one place, through 4,096 x 4,096 rays along each axis."""
    mesh = client.register_mesh(*UNIT_BOX)
    scene = client.open_scene(method="ldi", resolution=4096, **settings)
    for _ in range(60):
        scene.add_body(mesh, pose=np.eye(4))
    return scene


def two_boxes(client: contactd.Client, **settings) -> tuple[contactd.Scene, contactd.Body]:
    mesh = client.register_mesh(*UNIT_BOX)
    scene = client.open_scene(**settings)
    scene.add_body(mesh, pose=np.eye(4))
    return scene, scene.add_body(mesh, pose=moved(x=0.5))


def running(server: Server) -> list[dict]:
    return Api(server.http)("GET", "/v1/status").json["running"]


def metric(server: Server, name: str) -> float:
    with urllib.request.urlopen(server.http + "/metrics", timeout=PATIENCE) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
    raise KeyError(name)


@pytest.fixture
def connect():
    """Clients that are closed in the end, whatever runs."""
    clients: list[contactd.Client] = []

    def make(server: Server, **options) -> contactd.Client:
        clients.append(contactd.connect(server.stream, timeout=PATIENCE, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        yield pool


# ---- limits ----


def test_a_mesh_that_takes_longer_than_the_limit(make_server, connect):
    client = connect(make_server("--max-step-time", "1ms"))
    with pytest.raises(TimeLimitError, match=r"cancelled while .*--max-step-time"):
        client.register_mesh(*icosphere(1.0, 6), repair=True)


def test_a_step_ends_at_its_limit(make_server, connect):
    limit = SLOW / 2.5  # s: enough for the step after it
    server = make_server("--max-step-time", f"{limit:g}")
    scene = endless(connect(server))
    with pytest.raises(TimeLimitError) as error:
        scene.step(want="frame")
    text = str(error.value)
    assert f"scene {scene.id}" in text and f"{limit:g} s (--max-step-time)" in text and "cancelled while" in text
    assert metric(server, 'contactd_steps_cancelled_total{reason="limit"}') == 1
    # The scene is as it was, and its next step is right.
    scene.configure(resolution=8)
    fresh, _ = two_boxes(connect(server), method="ldi", resolution=8)
    assert len(scene.step(want="frame").contacts) == 60 * 59 // 2
    assert len(fresh.step(want="frame").contacts) == 1


def test_a_scene_may_ask_for_less(make_server, connect):
    server = make_server("--max-step-time", HOUR)
    client = connect(server)
    scene = endless(client, max_step_time=0.5)
    with pytest.raises(TimeLimitError, match="max_step_time of the scene"):
        scene.step(want="frame")
    more, _ = two_boxes(client, max_step_time=1e9)
    assert more.step().settings["max_step_time"] == 3600  # lowered, and said
    answer = Api(server.http)("POST", "/v1/scenes", {"max_step_time": 7200})
    assert answer.json["max_step_time"] == 3600


def test_a_deadline_holds_while_the_step_runs(make_server, connect):
    server = make_server("--max-step-time", HOUR)
    client = connect(server)
    scene = endless(client)
    answer = Api(server.http)("POST", f"/v1/scenes/{scene.id}/step", {"deadline_us": 700000}, check=False)
    assert answer.status == 504 and answer.json["code"] == "DEADLINE_EXCEEDED", answer.json
    assert metric(server, 'contactd_steps_cancelled_total{reason="deadline"}') == 1
    assert "cancelled while" in answer.json["detail"]


@pytest.mark.parametrize("value", ["0", "0s", "-1", "-1s", "nan", "inf", "soon", "", "1e3", "10 s", "2d", "25h"])
def test_limits_that_are_none(binaries, value):
    done = subprocess.run([str(BUILD / "contactd"), "--max-step-time", value, "--http", "off"], capture_output=True, text=True,
                          timeout=PATIENCE)
    assert done.returncode == 2 and "max-step-time" in done.stderr, done.stderr


@pytest.mark.parametrize("value", ["0", "-1", "nan", "soon", ""])
def test_limits_of_principals_that_are_none(binaries, tmp_path, value):
    listed = tmp_path / "principals"
    listed.write_text(f"anna simulator uid=1 max_step_time={value}\n")
    done = subprocess.run([str(BUILD / "contactd"), "--principals", str(listed), "--http", "off",
                           "--stream", f"ipc://{tmp_path}/s"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and "max_step_time" in done.stderr, done.stderr


def test_a_principal_has_a_limit_of_its_own(make_server, tmp_path, connect):
    listed = tmp_path / "principals"
    listed.write_text(f"anna admin uid={os.getuid()} max_step_time=500ms\n")
    listed.chmod(0o600)
    socket = f"ipc://{tmp_path}/contactd"
    server = make_server("--max-step-time", HOUR, "--principals", str(listed), "--stream", socket)
    client = contactd.connect(socket, timeout=PATIENCE)
    try:
        with pytest.raises(TimeLimitError, match="max_step_time of the principal"):
            endless(client).step(want="frame")
    finally:
        client.close()
    assert server.alive()


# ---- what else ends a step ----


def begin(server: Server, pool, scene: contactd.Scene) -> concurrent.futures.Future:
    """A step that runs when this returns."""
    step = pool.submit(scene.step, want="frame")
    wait_until(lambda: [r for r in running(server) if r["scene"] == scene.id], "the step that runs")
    return step


def test_closing_its_scene_ends_a_step(make_server, connect, pool):
    server = make_server("--max-step-time", HOUR)
    scene = endless(connect(server))
    step = begin(server, pool, scene)
    Api(server.http)("DELETE", f"/v1/scenes/{scene.id}")
    with pytest.raises(contactd.ContactdError, match="closed while this ran"):
        step.result(PATIENCE)
    assert metric(server, 'contactd_steps_cancelled_total{reason="closed"}') == 1
    assert running(server) == []


LONG_CLIENT = """
import sys
sys.path[:0] = sys.argv[2:]
import contactd, test_time_limits
scene = test_time_limits.endless(contactd.connect(sys.argv[1], timeout=3600))
print(scene.id, flush=True)
scene.step(want="frame")
"""


@pytest.mark.parametrize("transport", ["tcp", "ipc"])
def test_the_end_of_its_client_ends_a_step(make_server, tmp_path, transport):
    address = f"ipc://{tmp_path}/contactd"
    server = make_server("--max-step-time", HOUR, "--lease", "2s", *(("--stream", address) if transport == "ipc" else ()))
    address = address if transport == "ipc" else server.stream
    client = subprocess.Popen([sys.executable, "-c", LONG_CLIENT, address, *map(str, (ROOT / "client_py", pathlib.Path(__file__).parent))],
                              stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    try:
        scene = int(client.stdout.readline())
        wait_until(lambda: running(server), "the step that runs")
    finally:
        client.send_signal(signal.SIGKILL)
        client.wait()
    wait_until(lambda: metric(server, 'contactd_steps_cancelled_total{reason="client"}') == 1, "the step's end")
    wait_until(lambda: not running(server), "nothing that runs")
    wait_until(lambda: Api(server.http)("GET", f"/v1/scenes/{scene}", check=False).status == 404, "the scene closed with its lease")


def leave(server: Server, method: str, path: str, body: bytes, how: str, asked, media: str = "application/json") -> None:
    """Sends a request over HTTP, waits until `asked` says that it runs, and goes."""
    address = urllib.parse.urlsplit(server.http)
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE) as s:
        s.sendall(f"{method} {path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: {media}\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        wait_until(asked, "what was asked for runs")
        if how == "resets":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if how == "half":  # no more is sent; TCP tells the same of a client that was killed
            s.shutdown(socket.SHUT_WR)
            wait_until(lambda: not running(server), "nothing that runs")


@pytest.mark.parametrize("how", ["closes", "resets", "half"])
def test_a_client_that_leaves_over_http_ends_its_step(make_server, connect, how):
    server = make_server("--max-step-time", HOUR)
    scene = endless(connect(server))
    before = Api(server.http).get(f"/v1/scenes/{scene.id}")
    leave(server, "POST", f"/v1/scenes/{scene.id}/step", b"{}", how, lambda: running(server))
    wait_until(lambda: metric(server, 'contactd_steps_cancelled_total{reason="client"}') == 1, "the step's end")
    wait_until(lambda: not running(server), "nothing that runs")
    assert Api(server.http).get(f"/v1/scenes/{scene.id}")["steps"] == before["steps"]


def test_leaving_ends_overlaps_and_pictures(make_server, connect):
    """Also of what waits: it is not begun, or at once ended."""
    server = make_server("--max-step-time", HOUR)
    client = connect(server)
    dense = client.register_mesh(*icosphere(5))
    body = json.dumps({"a": {"mesh": dense.hash}, "b": {"mesh": dense.hash}, "method": "ldi", "resolution": 4096}).encode()
    leave(server, "POST", "/v1/overlap", body, "closes", lambda: running(server))
    wait_until(lambda: not running(server), "nothing that runs")
    wait_until(lambda: Api(server.http).get("/v1/scenes")["scenes"] == [], "its scene is closed")
    scene = endless(client)
    path = f"/v1/scenes/{scene.id}/snapshot.png?resolution=256&show=gradients"  # takes a step of the scene
    leave(server, "GET", path, b"", "closes", lambda: running(server))
    wait_until(lambda: not running(server), "nothing that runs")


def nested_boxes(n: int) -> bytes:
    """A mesh file whose reading takes long: n boxes around each other, every other inwards, so that directions are told."""
    points, faces = np.asarray(UNIT_BOX[0]) - 0.5, np.asarray(UNIT_BOX[1])
    lines = []
    for i in range(n):
        lines += ["v %r %r %r" % tuple(map(float, v)) for v in points * (2 - i / n)]
    for i in range(n):
        lines += ["f %d %d %d" % tuple(8 * i + k + 1 for k in (f if i % 2 == 0 else f[::-1])) for f in faces]
    return ("\n".join(lines) + "\n").encode()


def test_meshes_that_are_read_are_named_and_end_with_their_client(make_server):
    server = make_server("--max-step-time", HOUR)
    seen = []

    def reads():
        seen.extend(running(server))
        return seen and "has run for" in server.logs()

    leave(server, "POST", "/v1/meshes?name=onion", nested_boxes(60_000), "closes", reads, media="model/obj")
    assert (seen[-1]["command"], seen[-1]["scene"], seen[-1]["client"]) == ("register_mesh", 0, "") and seen[-1]["phase"]
    assert "register_mesh" in server.logs()
    wait_until(lambda: not running(server), "nothing that runs")
    assert Api(server.http).get("/v1/meshes")["meshes"] == []


def open_endless(server: Server, raw: Raw, client: contactd.Client) -> int:
    client.register_mesh(*UNIT_BOX)
    mesh = Api(server.http)("GET", "/v1/meshes").json["meshes"][0]["id"]
    scene = raw.ok("OpenScene", {"settings": {"method": 1, "resolution": (4096,)}})["scene"]
    for _ in range(60):
        raw.ok("AddBody", {"scene": scene, "mesh": mesh, "kind": 2})
    return scene


def test_a_client_that_comes_back_gets_its_answer(make_server, connect):
    """Its step is ended with its connection, and runs again when it is heard again. Meanwhile others may use the scene."""
    server = make_server("--max-step-time", HOUR)
    raw = Raw(server.stream)
    scene = open_endless(server, raw, connect(server))
    raw.send("Step", {"scene": scene, "sequence": 1})
    wait_until(lambda: running(server), "the step that runs")
    raw.close()
    wait_until(lambda: metric(server, 'contactd_steps_cancelled_total{reason="client"}') == 1, "the step's end")
    wait_until(lambda: not running(server), "nothing that runs")
    Api(server.http)("PATCH", f"/v1/scenes/{scene}", {"resolution": 8})
    assert Api(server.http)("GET", f"/v1/scenes/{scene}").json["pending"] == 1
    again = Raw(server.stream, hello=False)
    again.session, again.epoch = raw.session, raw.epoch
    answer = again.ok("Step", {"scene": scene, "sequence": 1})
    assert not answer["cached"] and len(answer["contacts"]) == 60 * 59 // 2
    calm = again.ok("Step", {"scene": scene, "sequence": 2})
    assert [str(c.read()) for c in answer["contacts"]] == [str(c.read()) for c in calm["contacts"]]
    again.close()


@pytest.mark.parametrize("drain", ["0", "500ms"])
def test_sigterm_ends_what_runs(make_server, connect, drain):
    server = make_server("--max-step-time", HOUR, "--drain", drain)
    raw = Raw(server.stream)
    scene = open_endless(server, raw, connect(server))
    raw.send("Step", {"scene": scene, "sequence": 1})
    wait_until(lambda: running(server), "the step that runs")
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    answer = raw.receive()
    assert answer.kind == "Error" and answer.body["code"] == contactd.ErrorCode.SHUTTING_DOWN, answer.body
    assert server.wait(PATIENCE) == 0
    assert "ended" in server.logs()
    raw.close()


def test_time_in_which_the_server_was_stopped_is_no_time(make_server, connect, pool):
    """SIGSTOP, as a debugger or a paused container: the step that ran then has all of its time once more."""
    limit = SLOW / 2.5
    server = make_server("--max-step-time", f"{limit:g}")
    scene = endless(connect(server))
    with pytest.raises(TimeLimitError):
        scene.step(want="frame")  # from now on it is known to take long, and is not preempted
    step = pool.submit(scene.step, want="frame")
    wait_until(lambda: running(server), "the step that runs")
    assert server.process is not None
    pause(server.process)
    time.sleep(3 * limit)
    server.process.send_signal(signal.SIGCONT)
    with pytest.raises(TimeLimitError) as error:
        step.result(PATIENCE)
    assert limit <= float(str(error.value).split("after ")[1].split()[0]) < 3 * limit  # seconds that it ran the last time


# ---- neighbours ----


def test_neighbours_are_served_beside_slow_scenes(make_server, connect, pool):
    """Small steps, large ones, probes and new clients, while four clients' steps would take minutes each."""
    server = make_server("--max-step-time", HOUR)
    neighbour = connect(server)
    small, body = two_boxes(neighbour)
    slow = [endless(connect(server)) for _ in range(3)]
    steps = [begin(server, pool, scene) for scene in slow]
    for i in range(50):
        assert len(small.step(poses={body: moved(x=0.3 + 0.01 * i)}).contacts) == 1
    fresh, _ = two_boxes(connect(server))
    assert len(fresh.step().contacts) == 1
    large, ball = two_boxes(neighbour, method="ldi", resolution=1024)
    for i in range(3):
        assert len(large.step(poses={ball: moved(x=0.3 + 0.1 * i)}).contacts) == 1
    Api(server.http)("GET", "/healthz")
    assert {r["scene"] for r in running(server)} == {s.id for s in slow}
    assert not any(step.done() for step in steps)
    for scene, step in zip(slow, steps):
        Api(server.http)("DELETE", f"/v1/scenes/{scene.id}")
        with pytest.raises(contactd.ContactdError):
            step.result(PATIENCE)


def test_one_client_does_not_take_all_runners(make_server, connect, pool):
    server = make_server("--max-step-time", HOUR)
    greedy, other = connect(server), connect(server)
    slow = [endless(greedy) for _ in range(6)]
    steps = [pool.submit(scene.step, want="frame") for scene in slow]
    wait_until(lambda: running(server), "the first step")
    theirs, _ = two_boxes(other, method="ldi", resolution=1024)
    assert len(theirs.step().contacts) == 1
    assert len(running(server)) == 1
    for scene in slow:
        Api(server.http)("DELETE", f"/v1/scenes/{scene.id}")
    for step in steps:
        with pytest.raises(contactd.ContactdError):
            step.result(PATIENCE)


def test_a_step_that_turns_long_is_preempted(make_server, connect):
    """A scene whose steps were quick, and whose next one is not: it is moved aside, and has the bits of one that was not."""
    server = make_server("--max-step-time", HOUR)
    client = connect(server)
    ball = icosphere(4)

    def open_balls(distance: float):
        scene = client.open_scene(method="ebpi", strict=True, tolerance=2e-2, ray_budget=1 << 22)
        mesh = client.register_mesh(*ball)
        scene.add_body(mesh, pose=np.eye(4))
        return scene, scene.add_body(mesh, pose=moved(x=distance))

    quick, body = open_balls(9.0)
    for _ in range(5):
        assert not quick.step(want="frame").contacts
    before = metric(server, "contactd_steps_preempted_total")
    turned = quick.step(poses={body: moved(x=0.7, y=0.2)}, want=("frame", "gradient"))
    assert metric(server, "contactd_steps_preempted_total") == before + 1
    calm, other = open_balls(0.7)
    straight = calm.step(poses={other: moved(x=0.7, y=0.2)}, want=("frame", "gradient"))
    for a, b in zip(turned.contacts, straight.contacts, strict=True):
        assert a.volume == b.volume and np.array_equal(a.normal, b.normal)
    assert metric(server, "contactd_steps_preempted_total") == before + 1


# ---- what is seen ----


def test_what_runs_long_is_named(make_server, connect, pool):
    server = make_server("--max-step-time", HOUR)
    scene = endless(connect(server))
    step = begin(server, pool, scene)
    wait_until(lambda: "has run for" in server.logs(), "a line in the log")
    assert f"scene {scene.id}" in server.logs()
    row = running(server)[0]
    assert row["command"] == "step" and row["phase"] and row["seconds"] > 0
    assert metric(server, "contactd_longest_running_step_seconds") > 0
    Api(server.http)("DELETE", f"/v1/scenes/{scene.id}")
    with pytest.raises(contactd.ContactdError):
        step.result(PATIENCE)
    wait_until(lambda: "ran for" in server.logs(), "a line at its end")
    assert metric(server, "contactd_longest_running_step_seconds") == 0
