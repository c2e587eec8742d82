"""What ends a server or a client, and what comes after: SIGKILL mid-stream, leases, SIGTERM."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import contactd
import numpy as np
import pytest
from conftest import BUILD, ROOT, SLOW, pause, wait_until
from geometry import UNIT_BOX, blob, icosphere, moved
from http_api import Api
from raw import Raw


def soft_run(server, steps: int, disturb=lambda i: None, ahead: int = 1) -> list[float]:
    """Volumes of a run whose every step depends on all before: parts of the positions change, and poses."""
    rng = np.random.default_rng(42)
    vertices, triangles = blob(1.0, 3)
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        soft = client.register_mesh(vertices, triangles)
        ball = client.register_mesh(*icosphere(1.0, 3))
        scene = client.open_scene(resolution=(48, 40, 32))
        a, b = scene.add_body(soft), scene.add_body(ball, pose=moved(0.8))
        idle = scene.add_body(ball, pose=moved(0, 1.2))
        x = vertices.astype(np.float32)
        futures, volumes = [], []
        for i in range(steps):
            at = np.sort(rng.choice(len(x), 30, replace=False))
            x[at] *= 1 + 0.02 * rng.standard_normal((30, 1)).astype(np.float32)
            poses = {b: moved(0.8 + 0.1 * np.sin(i / 7))} if i % 3 == 0 else {}
            if i == 10:
                poses[idle] = moved(0, 1.1, 0.1)
            futures.append(scene.submit(indexed={a: (at, x[at])}, poses=poses))
            disturb(i)
            while len(futures) - len(volumes) > ahead or (i == steps - 1 and len(volumes) < steps):
                result = futures[len(volumes)].result(30 * SLOW)
                assert result.sequence == len(volumes) + 1
                volumes.append(sum(c.volume for c in result.contacts))
        client_saw = client.reconnects
    soft_run.reconnects = client_saw
    return volumes


@pytest.mark.parametrize("ahead", [1, 12])
def test_killed_and_restarted_mid_stream(make_server, ahead):
    """No step lost, none answered twice, none different: the volumes are those of an undisturbed run, to the last bit."""
    server = make_server()
    calm = soft_run(server, 80, ahead=ahead)
    kills = {20, 40, 60}  # so far apart that no step sees two

    def disturb(i):
        if i in kills:
            server.restart(hard=True)

    assert soft_run(server, 80, disturb, ahead) == calm
    assert soft_run.reconnects >= 2


def test_filters_survive_a_restart(make_server):
    """Bodies that were ignored and then removed do not come back as others, which may have their numbers now."""
    server = make_server()
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        box = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene(method="exact")
        gone = [scene.add_body(box, pose=moved(9.0 + 3 * i)) for i in range(4)]
        a = scene.add_body(box, pose=moved(0))
        b = scene.add_body(box, pose=moved(0.5), ignore=gone)
        c = scene.add_body(box, pose=moved(0.25), ignore=[gone[0], a])
        for body in gone:
            body.remove()
        before = scene.step()
        assert [contact.bodies for contact in before.contacts] == [(a, b), (b, c)]
        server.restart(hard=True)
        after = scene.step()
        assert client.reconnects >= 1  # more, where the connection was lost while the session was set up
        assert [contact.bodies for contact in after.contacts] == [(a, b), (b, c)]
        assert [contact.volume for contact in after.contacts] == [contact.volume for contact in before.contacts]


def test_killed_while_steps_run(make_server):
    """The same with the kill from another thread, at no particular moment, but none that a step sees after another."""
    server = make_server()
    calm = soft_run(server, 150, ahead=6)
    begun, over = threading.Event(), threading.Event()
    at = [0]

    def killer():
        begun.wait()
        for delay in (0.05, 0.11, 0.07):
            if over.wait(delay):
                return
            server.restart(hard=True)
            killed_at = at[0]
            while at[0] <= killed_at + 6 and not over.wait(0.001):
                pass

    thread = threading.Thread(target=killer)
    thread.start()

    def disturb(i):
        time.sleep(0.004)
        at[0] = i
        if i == 5:
            begun.set()
        if i == 140:
            thread.join()

    try:
        assert soft_run(server, 150, disturb, ahead=6) == calm
        assert soft_run.reconnects >= 1
    finally:
        over.set()
        begun.set()
        thread.join()


def test_a_slow_step_is_all_the_caller_sees(make_server):
    server = make_server()
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene(resolution=16)
        scene.add_body(mesh)
        b = scene.add_body(mesh, pose=np.eye(4))
        scene.step(poses={b: moved(0.5)})
        server.kill()
        began = time.monotonic()
        threading.Timer(0.3, server.start).start()
        assert scene.step().contacts[0].volume == pytest.approx(0.5)
        assert time.monotonic() - began >= 0.3
        server.wait_ready()
        scene.configure(resolution=4)
        scene.add_body(mesh, pose=moved(9))
        server.restart(hard=True)
        result = scene.step(poses={b: moved(0.25)})
        assert result.contacts[0].volume == pytest.approx(0.75) and result.rays == 3 * 16


def test_a_server_that_stays_away(make_server):
    server = make_server()
    with contactd.connect(server.stream) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene(resolution=16)
        scene.add_body(mesh)
        server.kill()
        for timeout in (2, 10, 60 * SLOW):  # until the client sees that the connection is gone
            with pytest.raises((ConnectionError, TimeoutError)) as e:
                scene.step(timeout=timeout)
            if isinstance(e.value, ConnectionError):
                break
        assert isinstance(e.value, ConnectionError) and server.stream in str(e.value) and e.value.retry
        server.start()
        assert scene.step(timeout=20 * SLOW).contacts == []


def test_two_clients_across_a_restart(make_server):
    server = make_server()
    results: dict[int, list[float]] = {}
    failures = []
    connected = threading.Barrier(3)  # a client that has never been connected is refused at once

    def work(k):
        try:
            with contactd.connect(server.stream, timeout=30 * SLOW) as client:
                connected.wait(30 * SLOW)
                mesh = client.register_mesh(*UNIT_BOX)
                scene = client.open_scene(resolution=8)
                scene.add_body(mesh)
                b = scene.add_body(mesh, pose=np.eye(4))
                out = results.setdefault(k, [])
                for i in range(60):
                    out.append(scene.step(poses={b: moved((i + k) / 100)}).contacts[0].volume)
                    time.sleep(0.005)
        except Exception as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 20)]
    [t.start() for t in threads]
    connected.wait(30 * SLOW)
    time.sleep(0.1)
    server.restart(hard=True)
    [t.join(60 * SLOW) for t in threads]
    assert not failures
    for k in (1, 20):
        assert results[k] == pytest.approx([1 - (i + k) / 100 for i in range(60)])


def metrics(server) -> dict[str, float]:
    with urllib.request.urlopen(server.http + "/metrics", timeout=10 * SLOW) as answer:
        text = answer.read().decode()
    return {m[0]: float(m[1]) for m in re.findall(r"^(contactd_\w+(?:\{[^}]*\})?) (\S+)$", text, re.M)}


def gauge(values: dict[str, float], word: str) -> float:
    names = [n for n in values if word in n and "limit" not in n and "_total" not in n and "bucket" not in n]
    assert names, f"no gauge with {word} in {sorted(values)}"
    return values[min(names, key=len)]


def test_vanished_clients_lose_their_scenes(make_server):
    """A client that is killed sends no farewell: its scenes go when its lease ends, and their memory with them."""
    server = make_server()
    code = f"""
import sys; sys.path.insert(0, {str(ROOT / 'client_py')!r}); sys.path.insert(0, {str(ROOT / 'client_py/examples')!r})
import contactd, shapes, time
client = contactd.connect({server.stream!r}, name="doomed", lease=4)
mesh = client.register_mesh(*shapes.icosphere(1.0, 5))
scene = client.open_scene(resolution=8)
scene.add_body(mesh); scene.add_body(mesh)
scene.step()
print("ready", flush=True)
time.sleep(60)
"""
    with contactd.connect(server.stream, name="stays") as stays:
        mesh = stays.register_mesh(*UNIT_BOX)
        mine = stays.open_scene(resolution=8)
        mine.add_body(mesh)
        idle = metrics(server)
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "ready\n"
        busy = metrics(server)
        assert {s["owner"] for s in stays.scenes()} == {"stays", "doomed"}
        child.kill()
        child.wait()
        wait_until(lambda: len(stays.scenes()) == 1, "the end of the killed client's scene", 30 * SLOW)
        assert [s["owner"] for s in stays.scenes()] == ["stays"]
        after = metrics(server)
        for word in ("scenes", "bodies", "sessions"):
            assert gauge(after, word) == gauge(idle, word) < gauge(busy, word), word
        assert stays.reconnects == 0, "a client that lives lost its lease"
        assert mine.step().contacts == []


def test_deleting_a_mesh_frees_its_memory(make_server):
    server = make_server()
    with contactd.connect(server.stream) as client:
        before = metrics(server)
        mesh = client.register_mesh(*icosphere(1.0, 6))
        held = metrics(server)
        assert gauge(held, "mesh_bytes") - gauge(before, "mesh_bytes") == mesh.bytes > 0
        request = urllib.request.Request(f"{server.http}/v1/meshes/{mesh.hash}", method="DELETE")
        with urllib.request.urlopen(request, timeout=10 * SLOW) as answer:
            assert answer.status in (200, 204)
        after = metrics(server)
        assert gauge(after, "mesh_bytes") == gauge(before, "mesh_bytes")
        # The client has what it needs to make good what an operator deleted.
        scene = client.open_scene(resolution=8)
        scene.add_body(mesh)
        assert gauge(metrics(server), "mesh_bytes") == gauge(held, "mesh_bytes")


def test_sigterm_drains(make_server):
    """What was queued is answered before the server ends, and it ends well."""
    server = make_server("--drain", "5m")
    from test_bad_input import Setup

    setup = Setup(server.stream)
    setup.raw.ok("Configure", {"scene": setup.scene, "settings": {"resolution": (256,)}})
    for i in range(30):
        setup.raw.send("Step", {"scene": setup.scene, "sequence": i + 1})
    setup.raw.send("Ping", {"nonce": 1})
    answers = []
    while not any(a.kind == "Pong" for a in answers):  # after it on the same connection, the steps have arrived
        answers.append(setup.raw.receive())
    server.process.send_signal(signal.SIGTERM)
    while len(answers) < 31:
        answers.append(setup.raw.receive())
    assert [a.kind for a in answers if a.kind != "Pong"] == ["StepResult"] * 30
    assert server.wait() == 0
    setup.raw.close()


def test_sigterm_does_not_wait_for_idle_clients(make_server):
    server = make_server("--drain", "1h")
    with contactd.connect(server.stream) as client:
        client.open_scene().name
        assert server.stop(60) == 0


def test_sigterm_then_restart(make_server):
    """A planned restart in the middle of a run is as harmless as a crash."""
    server = make_server()
    calm = soft_run(server, 40, ahead=4)
    assert soft_run(server, 40, lambda i: server.restart() if i == 20 else None, ahead=4) == calm


def test_suspended_clients_come_back(make_server):
    """A client stopped for longer than its lease finds its scenes gone, and builds them again by itself."""
    server = make_server("--lease", "2s")
    code = f"""
import sys; sys.path.insert(0, {str(ROOT / 'client_py')!r}); sys.path.insert(0, {str(ROOT / 'client_py/examples')!r})
import contactd, shapes, numpy as np
client = contactd.connect({server.stream!r})
mesh = client.register_mesh(*shapes.box((0, 0, 0), (1, 1, 1)))
scene = client.open_scene(resolution=8)
scene.add_body(mesh)
pose = np.eye(4); pose[0, 3] = 0.75
b = scene.add_body(mesh, pose=np.eye(4))
scene.step(poses={{b: pose}})
print("ready", client.reconnects, flush=True)
sys.stdin.readline()
print(scene.step().contacts[0].volume, client.reconnects, flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        word, before = child.stdout.readline().split()
        assert word == "ready"
        pause(child)
        wait_until(lambda: gauge(metrics(server), "sessions") == 0, "the end of its lease", 30 * SLOW)
        os.kill(child.pid, signal.SIGCONT)
        child.stdin.write("go\n")
        child.stdin.flush()
        volume, reconnects = child.stdout.readline().split()
        assert float(volume) == pytest.approx(0.25) and int(reconnects) > int(before)
        assert child.wait(20 * SLOW) == 0
    finally:
        child.kill()
        child.wait()


def no_limit_of_steps() -> tuple[str, ...]:
    """Flags: what is slow is not to be cancelled here, however slow the machine."""
    known = subprocess.run([str(BUILD / "contactd"), "--help"], capture_output=True, text=True, check=True).stdout
    return ("--max-step-time", "1h") if "--max-step-time" in known else ()


def slow_scene(client):
    """Its steps take minutes, but not much memory, of which instrumented servers need many times as much: 780 pairs."""
    ball = client.register_mesh(*icosphere(1.0, 4))
    scene = client.open_scene(method="ebpi", tolerance_rel=1e-6, strict=True, ray_budget=2**20, name="slow")
    bodies = [scene.add_body(ball, pose=moved(0.01 * i, 0.002 * i)) for i in range(40)]
    return scene, bodies


def test_a_step_that_two_servers_ended_over_is_not_sent_to_a_third(make_server):
    """Killed while it runs, as by a watchdog or for want of memory. What is beside it goes on."""
    server = make_server(*no_limit_of_steps())
    with contactd.connect(server.stream, timeout=60 * SLOW) as client:
        scene, bodies = slow_scene(client)
        box = client.register_mesh(*UNIT_BOX)
        other = client.open_scene(method="exact")
        other.add_body(box, pose=moved(0))
        b = other.add_body(box, pose=moved(0.5))
        bad = scene.submit()
        for _ in range(2):
            wait_until(lambda: any(lane["running"] for lane in Api(server.http).get("/v1/status")["lanes"].values()),
                       "the step runs")
            server.kill()
            assert not bad.done()
            server.start()
            assert other.step(poses={b: moved(0.25)}).contacts[0].volume == pytest.approx(0.75)
        with pytest.raises(contactd.errors.ServerEndedError, match="twice while it computed step 1 of this scene") as caught:
            bad.result(60 * SLOW)
        assert "what was running" in str(caught.value) and isinstance(caught.value, ConnectionError)
        pid = server.pid
        scene.configure(tolerance_rel=0.1, strict=False, ray_budget=0)
        for body in bodies[10:]:
            scene.remove_body(body)
        assert len(scene.step(poses={bodies[5]: moved(9)})) == 36  # as much as a step is asked for now
        assert server.alive() and server.pid == pid and client.reconnects >= 2


def test_a_server_that_was_stopped_takes_nobody_for_silent(make_server):
    """Its clients may have spoken meanwhile, which it hears only now."""
    lease = 4.0
    server = make_server()
    api = Api(server.http)
    began = time.monotonic()
    raw = Raw(server.stream, hello=False)
    welcome = raw.ok("Hello", {"version": 1, "min_version": 1, "client": "silent", "lease_ms": round(1000 * lease)})
    raw.session, raw.epoch = welcome["session"], welcome["epoch"]
    scene = raw.ok("OpenScene", {"settings": {}})["scene"]
    kept = api.post("/v1/scenes", {"ttl_s": round(lease)})["id"]
    pause(server.process)
    time.sleep(1.5 * lease)
    server.process.send_signal(signal.SIGCONT)
    time.sleep(1.0)  # it looks for silent ones four times a second
    scenes = {int(s["id"]) for s in api.get("/v1/scenes")["scenes"]}
    if time.monotonic() - began - 1.5 * lease > 0.9 * lease:
        pytest.skip("the machine is too busy to tell")
    assert {scene, int(kept)} <= scenes, server.logs()
    assert raw.ask("Ping", {"nonce": 1}).kind == "Pong"


def test_a_client_that_was_stopped_takes_the_answer_that_came(make_server):
    """Its time is over when it goes on, but the answer had come in time."""
    server = make_server()
    code = f"""
import sys; sys.path.insert(0, {str(ROOT / 'client_py')!r}); sys.path.insert(0, {str(ROOT / 'client_py/examples')!r})
import contactd, shapes, numpy as np
client = contactd.connect({server.stream!r}, timeout=60)
scene = client.open_scene()
pose = np.eye(4); pose[0, 3] = 0.75
scene.add_bodies(client.register_mesh(*shapes.box((0, 0, 0), (1, 1, 1))), [np.eye(4), pose])
scene.step()
print("ready", flush=True)
sys.stdin.readline()
print("asking", flush=True)
print(scene.step(timeout=6).contacts[0].volume, client.reconnects, flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        pause(server.process)
        child.stdin.write("go\n")
        child.stdin.flush()
        assert child.stdout.readline() == "asking\n"
        time.sleep(2)  # until it has asked, on however busy a machine
        pause(child)
        os.kill(server.pid, signal.SIGCONT)
        time.sleep(6)
        os.kill(child.pid, signal.SIGCONT)
        assert float(child.stdout.readline().split()[0]) == pytest.approx(0.25)
    finally:
        os.kill(server.pid, signal.SIGCONT)
        child.kill()
        child.wait()
