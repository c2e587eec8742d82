"""What one client can make the server hold is bounded, whatever it sends and whatever it does not read. The memory of the
process is measured: it stays below the bound, and is given back afterwards."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import resource
import select
import socket
import struct
import subprocess
import sys
import time
import urllib.request

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, INSTRUMENTED, PATIENCE, SLOW, Server, wait_until
from contactd import _wire
from geometry import UNIT_BOX, icosphere, moved
from raw import Raw
from test_bad_input import POSE_0, Bystander, Setup
from test_hostile import frame, metrics, resident, shake_hands, zmtp

MIB = 1 << 20
measures_memory = pytest.mark.skipif(INSTRUMENTED, reason="sanitizers keep freed memory, so its size says nothing")


def cuts(server: Server, reason: str) -> float:
    return metrics(server)[f'contactd_connections_cut_total{{reason="{reason}"}}']


class Peak:
    """The most memory that the process has had since this was made, beyond what it had then."""

    def __init__(self, server: Server):
        self._proc = pathlib.Path(f"/proc/{server.pid}")
        (self._proc / "clear_refs").write_text("5")
        self._before = resident(server.pid)

    def growth(self) -> int:
        (highest,) = re.findall(r"VmHWM:\s+(\d+) kB", (self._proc / "status").read_text())
        return int(highest) * 1024 - self._before


class Boxes:
    """A bare client with a scene of two boxes. An answer with their spans has 75 * resolution^2 bytes."""

    def __init__(self, server: Server, resolution: int):
        self.raw = Raw(server.stream)
        arrays = _wire.Arrays()
        vertices, triangles = UNIT_BOX
        mesh = {"vertices": arrays.add(vertices.astype("<f4")), "triangles": arrays.add(triangles.astype("<u4"))}
        self.mesh = self.raw.ok("RegisterMesh", mesh, arrays)["mesh"]
        self.scene = self.raw.ok("OpenScene", {"settings": {"resolution": (resolution,)}})["scene"]
        for pose in (POSE_0, tuple(moved(0.5, 0.5, 0.5)[:3].ravel())):
            self.body = self.raw.ok("AddBody", {"scene": self.scene, "mesh": self.mesh, "kind": 2, "pose": pose})["body"]
        self.sequence = 0

    def step(self, sequence: int | None = None, want: int = 17) -> dict:
        if sequence is None:
            self.sequence += 1
        return {"scene": self.scene, "sequence": sequence or self.sequence, "want": want}

    def message(self, number: int, body: dict) -> bytes:
        return _wire.encode("Step", body, request=number, session=self.raw.session, epoch=self.raw.epoch)


def steps(boxes: Boxes) -> int:
    """How many were computed."""
    return boxes.raw.ok("GetScene", {"scene": boxes.scene})["steps"]


# ---- answers that are not read ----


@measures_memory
def test_unread_answers(make_server):
    """Beyond its budget a client that does not read gets BUSY, then its connection is cut. No other client waits."""
    server = make_server("--unread-per-client", "16M", "--unread-memory", "24M", "--scene-memory", "64M")
    bystander = Bystander(server.stream)
    deaf = [(Boxes(server, 128), zmtp(server)) for _ in range(2)]
    before, peak = resident(server.pid), Peak(server)
    for _ in range(150):
        for boxes, s in deaf:
            try:
                s.sendall(frame(boxes.message(boxes.sequence, boxes.step()), False))
            except OSError:
                pass  # it is cut
        time.sleep(0.005)
    # Unread answers, kept answers, and what the engine needs for a step.
    assert peak.growth() < (24 + 64 + 48) * MIB
    wait_until(lambda: cuts(server, "unread") >= 1, "a connection cut")
    assert metrics(server)["contactd_busy_total"] > 0
    assert "--unread-" in server.logs() and "cut the connection from 127.0.0.1" in server.logs()
    for boxes, s in deaf:
        s.close()
        boxes.raw.ok("CloseScene", {"scene": boxes.scene})
        boxes.raw.close()
    wait_until(lambda: metrics(server)["contactd_unread_bytes"] == 0, "no unread answers")
    wait_until(lambda: resident(server.pid) - before < 32 * MIB, "the memory given back")
    bystander.finish()


def test_many_small_unread_answers(make_server):
    """As many as ZeroMQ queues for one client: then its connection is cut, which is logged."""
    server = make_server()
    ask = frame(_wire.encode("GetStatus", {}, request=1, session=0, epoch=0), False)
    rest = b""  # of what a full socket took in part: the next send goes on with it, or the stream would be garbage
    left = 120  # times 500 requests, far more than sockets hold answers of, and less than counts as a flood

    def connect() -> socket.socket:
        s = zmtp(server)
        s.setblocking(False)
        return s

    def flood() -> bool:
        nonlocal left, rest, s
        try:
            while rest or left:
                if not rest:
                    rest, left = 500 * ask, left - 1
                rest = rest[s.send(rest):]
        except BlockingIOError:
            pass
        except OSError:  # cut; or, on a slow machine, ended by the kernel, whose bytes stay unread for a minute
            if not cuts(server, "unread"):
                s.close()
                s, rest, left = connect(), b"", 120
        return cuts(server, "unread") >= 1  # twice, where it was ended before it was counted

    s = connect()
    wait_until(flood, "the connection cut")
    assert "cut the connection from 127.0.0.1" in server.logs()
    s.close()


def test_a_refused_step_uses_no_number(make_server):
    """A client that does not read gets BUSY for new steps. All that were computed can be had again, and it goes on."""
    server = make_server("--unread-per-client", "4M")
    boxes = Boxes(server, 128)
    s = zmtp(server)
    for n in range(30):
        s.sendall(frame(boxes.message(n + 1, boxes.step()), False))
    wait_until(lambda: metrics(server)["contactd_busy_total"] > 0, "a step refused as BUSY")
    boxes.raw.ask("Ping", {"nonce": 1})
    wait_until(lambda: metrics(server)["contactd_queue_depth"] == 0, "an empty queue")
    computed = steps(boxes)
    assert 1 <= computed < 30
    for n in range(1, computed + 1):
        assert boxes.raw.ok("Step", boxes.step(n))["cached"]
    assert not boxes.raw.ok("Step", boxes.step(computed + 1))["cached"]
    s.close()
    boxes.raw.close()


def test_a_client_that_stops_reading_is_cut(make_server):
    """It asks for more while what it has asked for fills the kernel's buffers, then its budget, and 10 s pass."""
    server = make_server("--unread-per-client", "2M")
    boxes = Boxes(server, 128)
    s = zmtp(server)

    def is_cut() -> bool:
        time.sleep(0.1)  # so that BUSY answers do not fill its queue before
        try:
            s.sendall(frame(boxes.message(7, boxes.step(steps(boxes) + 1)), False))
        except OSError:
            pass
        return cuts(server, "unread") == 1

    wait_until(is_cut, "the connection cut that does not read")
    assert "it has read next to nothing for 10 s" in server.logs()
    s.close()
    boxes.raw.close()


@pytest.mark.parametrize("budget", ["1M", "3M", "64M"])
def test_a_slow_reader_gets_its_own_answers(make_server, budget):
    """One that keeps reading gets every step's own answer, through BUSY and repeats, however small its budget."""
    server = make_server("--unread-per-client", budget)
    with contactd.connect(server.stream, timeout=60 * SLOW) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene(resolution=128)
        scene.add_body(mesh, pose=moved())
        body = scene.add_body(mesh, pose=moved(0.5, 0.5, 0.5))
        shifts = [(i + 1) / 100 for i in range(20 if INSTRUMENTED else 60)]
        futures = [scene.submit(poses={body: moved(x)}, want=("frame", "spans")) for x in shifts]
        for x, future in zip(shifts, futures):
            (contact,) = future.result().contacts
            assert contact.volume == pytest.approx(1 - x)
            assert len(contact.spans) > 128 * 128
    assert cuts(server, "unread") == 0


# ---- decoded messages ----


def shared_updates(size: int, session: int, epoch: int) -> bytes:
    """A header of `size` bytes whose Step has size / 16 updates, all of them the same table."""
    n = size // 16
    out = bytearray(size)
    of_message, of_step, of_update, message = 8, 24, 40, 56
    step = message + 40
    vector = step + 32
    update = vector + 4 + 4 * n
    pose = update + 12 + (update + 12 + 4) % 8
    struct.pack_into("<I4s", out, 0, message, b"CTD1")
    struct.pack_into("<7H", out, of_message, 14, 36, 8, 16, 24, 4, 32)  # request, session, epoch, body's type, body
    struct.pack_into("<7H", out, of_step, 14, 28, 8, 16, 0, 0, 24)  # scene, sequence, want, deadline_us, updates
    struct.pack_into("<7H", out, of_update, 14, 12, 0, 4, 0, 0, 8)  # body, kind, positions, indices, pose
    struct.pack_into("<iBxxxQQQI", out, message, message - of_message, 24, 7, session, epoch, step - (message + 32))
    struct.pack_into("<ixxxxQQI", out, step, step - of_step, 1, 1, vector - (step + 24))
    struct.pack_into("<I", out, vector, n)
    slots = np.arange(vector + 4, vector + 4 + 4 * n, 4, dtype=np.uint32)
    out[vector + 4 : vector + 4 + 4 * n] = (np.uint32(update) - slots).tobytes()
    struct.pack_into("<iBxxxI", out, update, update - of_update, 4, pose - (update + 8))
    struct.pack_into("<I12d", out, pose, 12, *POSE_0)
    return bytes(out)


@measures_memory
@pytest.mark.parametrize("knows_session", [False, True])
def test_updates_that_share_a_table(make_server, knows_session):
    """Decoded they would take ten times the message's size."""
    server = make_server()
    bystander = Bystander(server.stream)
    raw = Raw(server.stream)
    small = shared_updates(1 << 10, raw.session, raw.epoch)
    raw.socket.send(small)
    code = raw.receive().body["code"]
    assert code in (3, 12), "64 of them are a message like any other, or too many for its size"
    peak = Peak(server)
    raw.socket.send(shared_updates(64 * MIB, raw.session if knows_session else 12345, raw.epoch))
    answer = raw.receive(60)
    assert answer.kind == "Error" and answer.request == 7
    assert answer.body["code"] == (12 if knows_session else 16), answer.body
    # The message and, of a known session, its aligned copy, which may have half of that to spare.
    assert peak.growth() < (2.5 * 64 + 32 if knows_session else 64 + 32) * MIB
    raw.close()
    bystander.finish()


def test_many_small_updates(make_server):
    """Updates as small as real ones get decode, however many there are in one header."""
    server = make_server()
    boxes = Boxes(server, 8)
    soft = [boxes.raw.ok("AddBody", {"scene": boxes.scene, "mesh": boxes.mesh, "kind": 1, "mask": 0})["body"] for _ in range(500)]
    arrays = _wire.Arrays()
    updates = [
        {
            "body": body,
            "kind": 3,
            "positions": arrays.add(np.float32([[0, 0, 7.0 * i]])),
            "indices": arrays.add(np.uint32([0])),
        }
        for i, body in enumerate(soft)
    ]
    boxes.raw.ok("Configure", {"scene": boxes.scene, "settings": {"resolution": (1,)}})
    answer = boxes.raw.ask("Step", boxes.step(want=0) | {"updates": updates}, arrays)
    assert answer.kind == "StepResult" or answer.body["code"] != 12, answer.body
    boxes.raw.close()


# ---- connections that end ----


def test_late_messages_of_a_connection_that_ended(make_server):
    """They do not put a session that is back by another connection among those whose clients are gone, which wait."""
    server = make_server("--threads", "1")
    boxes = Boxes(server, 2048)
    old = boxes.raw
    for k in range(20):
        new = Raw(server.stream, hello=False)
        new.session, new.epoch = old.session, old.epoch
        for _ in range(900):
            old.send("Ping", {"nonce": 1})
        old.socket.close(1000)
        pose = tuple(moved(0.5, 0.5, 0.4 + 0.01 * k)[:3].ravel())
        new.send("Step", boxes.step(want=1) | {"updates": [{"body": boxes.body, "kind": 4, "pose": pose}]})
        assert new.receive().kind == "StepResult"
        old = new
    old.close()


# ---- repeats ----


def test_repeats_of_one_step(make_server):
    """A hundred bytes ask for 20 MB: of many that wait the newest is answered, and no thread that receives encodes it."""
    server = make_server()
    boxes = Boxes(server, 512)
    boxes.raw.ok("Step", boxes.step())
    peak = Peak(server)
    for _ in range(400):
        boxes.raw.send("Step", boxes.step(1))
    last = boxes.raw.send("Step", boxes.step(1))
    n = 1
    while (answer := boxes.raw.receive(60)).request != last:
        assert answer.kind == "StepResult" and answer.body["cached"]
        n += 1
    assert n < 100
    assert metrics(server)["contactd_steps_total"] == 1
    if not INSTRUMENTED:
        assert peak.growth() < (2 * 64 + 64) * MIB
    boxes.raw.close()


# ---- kept answers ----


@measures_memory
def test_kept_answers_count(make_server):
    """A session's answers take a quarter of --scene-memory, all and the scenes the whole; the oldest go first."""
    server = make_server("--scene-memory", "32M")
    clients = [Boxes(server, 128) for _ in range(6)]
    peak = Peak(server)
    for _ in range(20):
        for boxes in clients:
            boxes.raw.ok("Step", boxes.step())
        assert metrics(server)["contactd_scene_bytes"] <= 32 * MIB
    assert peak.growth() < (32 + 64) * MIB
    newest = clients[-1]
    assert newest.raw.ok("Step", newest.step(newest.sequence))["cached"]
    code, _, field, message = newest.raw.refused("Step", newest.step(1))
    assert (code, field) == ("CONFLICT", "sequence") and "no longer kept" in message
    # Where bodies need the room, answers go.
    arrays = _wire.Arrays()
    vertices, triangles = icosphere(1.0, 7)
    ball = {"vertices": arrays.add(vertices.astype("<f4")), "triangles": arrays.add(triangles.astype("<u4"))}
    mesh = newest.raw.ok("RegisterMesh", ball, arrays)["mesh"]
    scene = newest.raw.ok("OpenScene", {})["scene"]
    for _ in range(3):
        newest.raw.ok("AddBody", {"scene": scene, "mesh": mesh, "kind": 1})
    assert metrics(server)["contactd_scene_bytes"] <= 32 * MIB
    for boxes in clients:
        boxes.raw.close()


@measures_memory
@pytest.mark.parametrize("depth", (1, 4))
def test_answers_that_arrived_are_not_kept(make_server, depth):
    """But for the newest of a scene; those of which the client waits are. Without a word, a session's newest are kept."""
    server = make_server()
    held = []
    with contactd.connect(server.stream) as client:
        scene = client.open_scene(resolution=256)
        mesh = client.register_mesh(*UNIT_BOX)
        scene.add_body(mesh, pose=np.eye(4))
        scene.add_body(mesh, pose=moved(0.5, 0.5, 0.5))
        for _ in range(12):
            for future in [scene.submit(want=("gradient", "spans")) for _ in range(depth)]:
                assert future.result(60)
            held.append(metrics(server)["contactd_scene_bytes"])
        one = held[0] / depth
        assert one > 75 * 256**2 / 2 and max(held) < (depth + 0.5) * one


# ---- messages without end ----


def send_until_cut(s: socket.socket, part: bytes, times: int) -> None:
    """Reads what comes meanwhile. Ends when the server does: the kernel would not tell a sender of it for a minute if the
    server took nothing more."""
    s.setblocking(False)
    with contextlib.suppress(OSError):
        for _ in range(times):
            rest = memoryview(part)
            while rest:
                readable, writable, _ = select.select([s], [s], [], PATIENCE)
                assert readable or writable, "the server neither reads nor ends the connection"
                if readable and not s.recv(MIB):
                    return
                if writable:
                    rest = rest[s.send(rest):]


def endless(s: socket.socket, mib: int) -> None:
    send_until_cut(s, frame(b"\0" * MIB, True), mib)


@measures_memory
def test_a_message_without_end(make_server):
    """Its sender is cut off when it has sent twice --max-message, and so is the largest of many that share the total."""
    server = make_server("--max-message", "8M")
    bystander = Bystander(server.stream)
    before, peak = resident(server.pid), Peak(server)
    s = zmtp(server)
    endless(s, 300)
    wait_until(lambda: cuts(server, "unfinished") == 1, "the connection cut")
    assert "without its end" in server.logs()
    assert peak.growth() < (16 + 112) * MIB  # the bound, and what comes between two looks
    crowd = [zmtp(server) for _ in range(10)]
    for s in crowd:
        endless(s, 10)
    wait_until(lambda: cuts(server, "unfinished") > 1, "one of the crowd cut")
    assert peak.growth() < (32 + 112) * MIB
    for s in crowd:
        s.close()
    wait_until(lambda: resident(server.pid) - before < 32 * MIB, "the memory given back")
    bystander.finish()


@measures_memory
def test_a_message_without_end_over_ipc(make_server, tmp_path):
    """The kernel does not count its bytes: the process's growth shows it."""
    path = tmp_path / "socket"
    server = make_server("--max-message", "8M", "--stream", f"ipc://{path}")
    bystander = Bystander(f"ipc://{path}")
    peak = Peak(server)
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(10 * SLOW)
    s.connect(str(path))
    shake_hands(s)
    endless(s, 400)
    wait_until(lambda: cuts(server, "unfinished") == 1, "the connection cut")
    assert peak.growth() < (32 + 160) * MIB
    s.close()
    bystander.finish()


def register_balls(raw: Raw) -> None:
    """Their meshes and the room that making them takes let the process grow by some 50 MB."""
    for n in range(4):
        arrays = _wire.Arrays()
        vertices, triangles = icosphere(1.0 + 0.01 * n, 7)
        raw.ok("RegisterMesh", {"vertices": arrays.add(vertices.astype("<f4")), "triangles": arrays.add(triangles.astype("<u4"))}, arrays)


@measures_memory
def test_who_waits_while_others_need_memory_sends_none(make_server, tmp_path):
    """A connection over ipc that is idle, and one over TCP whose long message comes slowly, after much of others."""
    path = tmp_path / "socket"
    server = make_server("--max-message", "8M", "--stream", f"ipc://{path}")
    idle, busy, slow = Raw(f"ipc://{path}"), Raw(server.stream), zmtp(server)
    before, peak = resident(server.pid), Peak(server)
    register_balls(busy)
    assert peak.growth() > 4 * 8 * MIB
    header = _wire.encode("GetStatus", {}, request=1, session=0, epoch=0)
    message = frame(header, True) + frame(bytes(4 * MIB), False)
    half = len(message) // 2
    slow.sendall(message[:half])
    time.sleep(1.5)  # so that it shows that nothing is completed
    assert cuts(server, "unfinished") == 0, server.logs()
    slow.sendall(message[half:])
    assert select.select([slow], [], [], PATIENCE)[0] and slow.recv(1)
    assert idle.ask("GetStatus", {}).kind == "Status"
    assert resident(server.pid) > before and cuts(server, "unfinished") == 0
    slow.close()


@measures_memory
def test_a_message_of_frames_without_content(make_server):
    """They have 2 bytes each on the wire, and 64 in the server."""
    server = make_server("--max-message", "8M")
    bystander = Bystander(server.stream)
    peak = Peak(server)
    s = zmtp(server)
    send_until_cut(s, b"\1\0" * (MIB // 2), 64)
    wait_until(lambda: cuts(server, "unfinished") == 1, "the connection cut")
    assert peak.growth() < (32 + 160) * MIB
    s.close()
    bystander.finish()


@measures_memory
def test_a_flood_of_messages_without_content(make_server):
    """They are answered faster than their sender reads, which ends the connection before many of them wait."""
    server = make_server()
    bystander = Bystander(server.stream)
    peak = Peak(server)
    s = zmtp(server)
    send_until_cut(s, b"\0\0" * (MIB // 16), 16 * 8)  # 4 million messages, which would be 256 MB
    bystander.finish()
    assert peak.growth() < 160 * MIB
    s.close()


def test_long_messages_are_not_taken_for_endless(make_server):
    """Many of the largest size, one after another, and in 16 frames each."""
    server = make_server("--max-message", "4M", "--queue", "1000")
    setup = Setup(server.stream)
    parts = [bytes(240 << 10)] * 16
    header = _wire.encode("Step", {"scene": setup.scene, "sequence": 99}, request=5, session=setup.raw.session,
                          epoch=setup.raw.epoch)
    for _ in range(100):
        setup.raw.socket.send_multipart([header, *parts])
    for _ in range(100):
        assert setup.raw.receive(60).kind == "Error"
    assert cuts(server, "unfinished") == 0
    assert setup.volume() == pytest.approx(0.5)
    setup.raw.close()


# ---- the machine's limits ----


def memory_group(limit: int) -> pathlib.Path:
    """A control group whose processes get so much memory, where this test may make one."""
    for mount, name, events in (("memory", "memory.limit_in_bytes", "memory.oom_control"), ("", "memory.max", "memory.events")):
        group = pathlib.Path("/sys/fs/cgroup") / mount / f"contactd-test-{os.getpid()}"
        try:
            group.mkdir()
            (group / name).write_text(str(limit))
            assert (group / events).exists()
            return group
        except OSError:
            if group.exists():
                group.rmdir()
    pytest.skip("no control group can be made here")


@measures_memory
def test_a_small_control_group(make_server, tmp_path):
    """With its defaults the server fits into its group: what needs more is refused, and says which limit it met."""
    group = memory_group(300 * MIB)
    server = make_server(start=False)
    script = tmp_path / "confined"
    script.write_text(f'#!/bin/sh\necho $$ > {group}/cgroup.procs\nexec "{server.binary}" "$@"\n')
    script.chmod(0o755)
    server.binary = script
    server.start()
    try:
        assert "memory: 300 MiB may be used" in server.logs()
        many = [Boxes(server, 512) for _ in range(4)]
        for boxes in many:
            for _ in range(6):
                boxes.raw.send("Step", boxes.step())
        answers = [boxes.raw.receive(60) for boxes in many for _ in range(6)]
        refused = [a.body for a in answers if a.kind == "Error"]
        assert len(refused) < len(answers)
        assert all(e["code"] in (14, 15) for e in refused), refused
        # A scene whose triangles need more scratch than a quarter of the group's memory.
        arrays = _wire.Arrays()
        vertices, triangles = icosphere(1.0, 7)
        ball = {"vertices": arrays.add(vertices.astype("<f4")), "triangles": arrays.add(triangles.astype("<u4"))}
        answer = many[0].raw.ask("RegisterMesh", ball, arrays)
        assert answer.kind == "Error" and answer.body["code"] == 12 and "--max-message" in answer.body["message"]
        many[0].raw.ok("Configure", {"scene": many[0].scene, "settings": {"resolution": (4096,)}})
        while True:  # BUSY while the last answer's memory is not yet free
            code, _, _, message = many[0].raw.refused("Step", many[0].step(steps(many[0]) + 1))
            if code != "BUSY":
                break
        assert code == "OUT_OF_MEMORY" and "--scratch-memory" in message
        assert server.alive()
        for boxes in many:
            boxes.raw.close()
    finally:
        if server.alive():
            server.stop()
        wait_until(lambda: not (group / "cgroup.procs").read_text().strip(), "the end of the group's processes")
        group.rmdir()


# ---- connections ----


CROWD = """
import resource, socket, sys
port, n = int(sys.argv[1]), int(sys.argv[2])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, n + 100) if hard > 0 else n + 100, hard))
sockets = []
for _ in range(n):
    sockets.append(socket.create_connection(("127.0.0.1", port), timeout=float(sys.argv[3])))
    try:
        sockets[-1].sendall(sys.argv[4].encode())
    except ConnectionError:
        pass  # it has been cut already
print("connected", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("n", (2000,) if INSTRUMENTED else (2000, 20000))
def test_thousands_of_connections_on_each_port(make_server, n):
    """Neither port's connections take the other's, and both serve whoever comes next. They come from processes of which
    each may have so many files open."""
    each = min(n, 5000)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= hard < each + 100:
        pytest.skip(f"needs {each + 100} open files, of which ulimit -Hn allows {hard}")
    server = make_server("--max-sessions", "100")
    first = Bystander(server.stream)
    starts = {server.stream_port: "", server.http_port: "GET /v1/status HTTP/1.1\r\nHost: "}
    crowds = [subprocess.Popen([sys.executable, "-c", CROWD, str(port), str(each), str(10 * SLOW), start],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
              for port, start in starts.items() for _ in range(n // each)]
    try:
        for crowd in crowds:
            assert crowd.stdout.readline() == "connected\n"
        for path in ("/healthz", "/readyz", "/metrics"):
            with urllib.request.urlopen(server.http + path, timeout=20 * SLOW) as answer:
                assert answer.status == 200
        second = Bystander(server.stream)
        assert metrics(server)["contactd_connections"] <= 164
        assert cuts(server, "limit") > 0.75 * n
        second.finish()
        first.finish()
    finally:
        for crowd in crowds:
            crowd.kill()
            crowd.communicate()


# ---- fair shares ----


def test_limits_that_time_will_mend(make_server):
    """LIMIT_EXCEEDED says whether a retry can help: not if the request alone exceeds the limit."""
    server = make_server("--max-scenes", "1", "--mesh-memory", "64K", "--max-sessions", "2")
    first = Raw(server.stream)
    scene = first.ok("OpenScene", {})["scene"]
    answer = first.ask("OpenScene", {})
    assert answer.body["code"] == 13 and answer.body["retry"] and answer.body["retry_after_ms"] > 0
    first.ok("CloseScene", {"scene": scene})
    first.ok("OpenScene", {})
    arrays = _wire.Arrays()
    vertices, triangles = icosphere(1.0, 5)
    body = {"vertices": arrays.add(vertices.astype("<f4")), "triangles": arrays.add(triangles.astype("<u4"))}
    answer = first.ask("RegisterMesh", body, arrays)
    assert answer.body["code"] == 13 and not answer.body["retry"]
    second = Raw(server.stream)
    third = Raw(server.stream, hello=False)
    answer = third.ask("Hello", {"version": 1, "min_version": 1, "client": "third"})
    if answer.kind == "Error":  # no session was idle for a second yet
        assert answer.body["code"] == 13 and answer.body["retry"]
    for raw in (first, second, third):
        raw.close()


def test_a_goodbye_frees_the_place(make_server):
    """Programs that come and go one after the other need one place, however many they are and however long their leases."""
    server = make_server("--max-sessions", "2")
    first = Bystander(server.stream)
    for _ in range(10):
        with contactd.connect(server.stream, timeout=20 * SLOW) as client:
            client.open_scene()
    for _ in range(5):
        done = subprocess.run([*CONTACTCTL, "--server", server.stream, "status"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    first.finish()


def test_a_flood_leaves_room_for_others(make_server):
    """A client that fills the queue is refused before it is full, and another's steps still get in, all of them."""
    server = make_server("--queue", "64", "--max-in-flight", "64")
    flood, calm = Boxes(server, 256), Boxes(server, 8)
    for _ in range(64):
        flood.raw.send("Step", flood.step(want=0))
    busy = 0
    for _ in range(30):
        busy += calm.raw.ask("Step", calm.step(want=0)).kind == "Error"
    assert busy == 0
    flood.raw.close()
    calm.raw.close()
