"""Bad input over the stream: each kind has its code, names the object and the field, and disturbs no other client.

Sent by a bare client, since the Python client would stop most of it itself. Throughout, another client goes on stepping
and checks every answer.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading

import contactd
import numpy as np
import pytest
from conftest import SLOW, wait_until
from contactd import _wire
from contactd.errors import ErrorCode
from geometry import UNIT_BOX, icosphere, moved
from raw import Raw

POSITIONS, RANGES, INDEXED, POSE = 1, 2, 3, 4
F32, F64, U32 = 1, 2, 3
POSE_0 = (1.0, 0, 0, 0.5, 0, 1.0, 0, 0, 0, 0, 1.0, 0)


class Bystander:
    """A client that steps two boxes all the while, in a thread, and notes anything but the exact answer."""

    def __init__(self, address: str):
        self.client = contactd.connect(address, name="bystander", timeout=10 * SLOW)
        mesh = self.client.register_mesh(*UNIT_BOX)
        self.scene = self.client.open_scene(resolution=8)
        self.scene.add_body(mesh, pose=np.eye(4))
        self.body = self.scene.add_body(mesh, pose=np.eye(4))
        self.wrong: list[object] = []
        self.steps = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._stop.is_set():
            shift = (self.steps % 90 + 1) / 100
            try:
                (contact,) = self.scene.step(poses={self.body: moved(x=shift)}, want="volume").contacts
                if abs(contact.volume - (1 - shift)) > 1e-6:
                    self.wrong.append((shift, contact.volume))
            except Exception as e:
                self.wrong.append(e)
                return
            self.steps += 1
            self._stop.wait(0.005)

    def finish(self) -> None:
        """Ends it, and requires that it went undisturbed, and still answers."""
        before = self.steps
        wait_until(lambda: self.steps > before + 1 or self.wrong, "two more steps of the bystander")
        self._stop.set()
        self._thread.join()
        assert self.wrong == [] and self.steps > before + 1
        assert self.client.reconnects == 0, "the server restarted, or lost the session"
        self.client.close()


@pytest.fixture
def bystander(server):
    bystander = Bystander(server.stream)
    yield bystander
    bystander.finish()


class Setup:
    """A bare client with one scene: body `soft`, body `rigid`, and the next sequence number."""

    def __init__(self, address: str):
        self.raw = Raw(address)
        arrays = _wire.Arrays()
        vertices, triangles = UNIT_BOX
        body = {"vertices": arrays.add(vertices.astype("<f4")), "triangles": arrays.add(triangles.astype("<u4"))}
        self.mesh = self.raw.ok("RegisterMesh", body, arrays)["mesh"]
        self.scene = self.raw.ok("OpenScene", {"settings": {"resolution": (8,)}})["scene"]
        self.soft = self.add({"kind": 1})
        self.rigid = self.add({"kind": 2, "pose": POSE_0})
        self.sequence = 0

    def add(self, options: dict) -> int:
        return self.raw.ok("AddBody", {"scene": self.scene, "mesh": self.mesh} | options)["body"]

    def update(self, kind: int, positions=None, indices=None, body=None, pose=None) -> tuple[dict, _wire.Arrays]:
        arrays = _wire.Arrays()
        out: dict = {"body": self.soft if body is None else body, "kind": kind}
        if positions is not None:
            out["positions"] = arrays.add(np.ascontiguousarray(positions))
        if indices is not None:
            out["indices"] = arrays.add(np.asarray(indices, "<u4"))
        if pose is not None:
            out["pose"] = tuple(pose)
        return out, arrays

    def step(self, update: dict | None = None, arrays: _wire.Arrays | None = None, **more) -> tuple[dict, _wire.Arrays]:
        body = {"scene": self.scene, "sequence": self.sequence + 1, "want": 7} | more
        if update is not None:
            body["updates"] = [update]
        return body, arrays or _wire.Arrays()

    def volume(self) -> float:
        """Of one more, good, step: the scene is as it was."""
        for _ in range(3):
            answer = self.raw.ask("Step", *self.step())
            self.sequence += 1  # a repeat of a number that the refused step had used up gets that error again
            if answer.kind == "StepResult":
                (contact,) = answer.body["contacts"]
                return contact.read()["volume"]
            if answer.body["code"] == 6:
                self.sequence = int(answer.body["message"].split("expected ")[1].split(",")[0]) - 1
        raise AssertionError("no step goes through any more")


@pytest.fixture
def setup(server, bystander):
    setup = Setup(server.stream)
    assert setup.volume() == pytest.approx(0.5)
    yield setup
    assert setup.volume() == pytest.approx(0.5), "the scene is not what it was before the bad message"
    setup.raw.close()


BOX = UNIT_BOX[0].astype("<f4")
NAN = BOX.copy()
NAN[5, 1] = np.nan
INF = BOX.astype("<f8")
INF[2, 2] = np.inf
HUGE = np.full((8, 3), 1e300)


@pytest.mark.parametrize(
    "update, code, field, says",
    [
        (dict(kind=POSITIONS, positions=BOX[:7]), "WRONG_LENGTH", "positions", "8"),
        (dict(kind=POSITIONS, positions=np.tile(BOX, (2, 1))), "WRONG_LENGTH", "positions", "8"),
        (dict(kind=POSITIONS, positions=BOX.ravel()[:23]), "WRONG_LENGTH", "positions", "23"),
        (dict(kind=POSITIONS, positions=NAN), "NON_FINITE", "positions", "5"),
        (dict(kind=POSITIONS, positions=INF), "NON_FINITE", "positions", "2"),
        (dict(kind=POSITIONS, positions=HUGE), "NON_FINITE", "positions", ""),
        (dict(kind=POSITIONS), "MALFORMED", "positions", ""),
        (dict(kind=INDEXED, positions=BOX[:2], indices=[1, 8]), "OUT_OF_RANGE", "indices", "8"),
        (dict(kind=INDEXED, positions=BOX[:2], indices=[1]), "WRONG_LENGTH", "", "1"),
        (dict(kind=RANGES, positions=BOX[:2], indices=[7, 2]), "OUT_OF_RANGE", "indices", "8"),
        (dict(kind=RANGES, positions=BOX[:2], indices=[0, 2**32 - 1]), None, "", ""),
        (dict(kind=RANGES, positions=BOX[:2], indices=[0, 1]), "WRONG_LENGTH", "", "1"),
        (dict(kind=RANGES, positions=BOX[:2], indices=[0, 1, 2]), "WRONG_LENGTH", "", "3"),
        (dict(kind=POSE, pose=POSE_0), "INVALID_ARGUMENT", "", "deformable"),
        (dict(kind=POSE, pose=POSE_0[:11]), "WRONG_LENGTH", "pose", "12"),
        (dict(kind=9, positions=BOX), "MALFORMED", "kind", "9"),
        (dict(kind=POSITIONS, positions=BOX, body=4097), "NOT_FOUND", "body", "4097"),
    ],
)
def test_updates(setup, update, code, field, says):
    got, _, where, message = setup.raw.refused("Step", *setup.step(*setup.update(**update)))
    assert code in (None, got) and got in ("WRONG_LENGTH", "OUT_OF_RANGE", "NON_FINITE", "INVALID_ARGUMENT", "NOT_FOUND",
                                          "MALFORMED")
    assert field in where and says in message


@pytest.mark.parametrize(
    "pose, code",
    [
        ((float("nan"),) + POSE_0[1:], "NON_FINITE"),
        (POSE_0[:3] + (float("inf"),) + POSE_0[4:], "NON_FINITE"),
        ((2.0,) + POSE_0[1:], "OUT_OF_RANGE"),
        ((-1.0,) + POSE_0[1:], "OUT_OF_RANGE"),
        ((0.0,) * 12, "OUT_OF_RANGE"),
    ],
)
def test_poses(setup, pose, code):
    got, _, field, message = setup.raw.refused("Step", *setup.step(*setup.update(POSE, body=setup.rigid, pose=pose)))
    assert (got, field) == (code, "pose") or (got, field) == ("INVALID_ARGUMENT", "pose"), message


def test_positions_for_a_rigid_body(setup):
    code, *_, message = setup.raw.refused("Step", *setup.step(*setup.update(POSITIONS, BOX, body=setup.rigid)))
    assert code == "INVALID_ARGUMENT" and "rigid" in message


@pytest.mark.parametrize(
    "settings, code, field",
    [
        ({"resolution": (0,)}, "OUT_OF_RANGE", "resolution"),
        ({"resolution": (10**6,)}, "OUT_OF_RANGE", "resolution"),
        ({"resolution": (64, 64, 4097)}, "OUT_OF_RANGE", "resolution"),
        ({"resolution": (64, 64)}, "WRONG_LENGTH", "resolution"),
        ({"pixel_size": float("nan")}, "NON_FINITE", "pixel_size"),
        ({"pixel_size": float("inf")}, "NON_FINITE", "pixel_size"),
        ({"stiffness": float("nan")}, "NON_FINITE", "stiffness"),
        ({"patches": 2}, "OUT_OF_RANGE", "patches"),
        ({"cell_size": -2.0}, "OUT_OF_RANGE", "cell_size"),
        ({"cell_size": 1e-31}, "OUT_OF_RANGE", "cell_size"),
        ({"cell_size": float("nan")}, "NON_FINITE", "cell_size"),
        ({"cell_size": float("inf")}, "NON_FINITE", "cell_size"),
        ({"cell_size": 0.1, "patches": 1, "method": 3}, "INVALID_ARGUMENT", "cell_size"),
        ({"cell_size": 0.1, "method": 2}, "INVALID_ARGUMENT", "cell_size"),
        ({"cell_size": 0.1, "method": 3, "tolerance": 1e-6}, "INVALID_ARGUMENT", "cell_size"),
        ({"patches": 1, "method": 1}, "INVALID_ARGUMENT", "patches"),
        ({"method": 99}, "UNSUPPORTED", "method"),
    ],
)
def test_settings(setup, settings, code, field):
    for kind, body in (("OpenScene", {}), ("Configure", {"scene": setup.scene})):
        got, _, where, message = setup.raw.refused(kind, body | {"settings": settings})
        assert field in where and got in (code, "OUT_OF_RANGE", "INVALID_ARGUMENT"), (got, where, message)
        assert message


def test_a_pixel_size_that_needs_too_many_rays(setup):
    setup.raw.ok("Configure", {"scene": setup.scene, "settings": {"pixel_size": 1e-7}})
    code, *_, field, message = setup.raw.refused("Step", *setup.step())
    assert code in ("OUT_OF_RANGE", "LIMIT_EXCEEDED", "OUT_OF_MEMORY") and "pixel" in field + message
    setup.raw.ok("Configure", {"scene": setup.scene, "settings": {"pixel_size": 0.0}})


def test_unknown_and_stale_handles(setup):
    raw = setup.raw
    for kind, body in (("Step", {"scene": 10**9, "sequence": 1}), ("Configure", {"scene": 10**9}),
                       ("GetScene", {"scene": 0}), ("CloseScene", {"scene": 2**63}),
                       ("AddBody", {"scene": setup.scene, "mesh": 10**9, "kind": 1}),
                       ("GetMesh", {"mesh": 10**9}), ("RemoveMesh", {"hash": "0123456789abcdef"}),
                       ("RemoveBody", {"scene": setup.scene, "body": 10**9}),
                       ("ReplaceMesh", {"scene": setup.scene, "body": 10**9, "mesh": setup.mesh}),
                       ("ReplaceMesh", {"scene": setup.scene, "body": setup.soft, "mesh": 10**9})):
        code, where, field, message = raw.refused(kind, body)
        assert code == "NOT_FOUND" and (where or field) and message, (kind, code, where, field, message)

    gone = raw.ok("OpenScene", {})["scene"]
    raw.ok("CloseScene", {"scene": gone})
    for kind, body in (("Step", {"scene": gone, "sequence": 1}), ("CloseScene", {"scene": gone}),
                       ("AddBody", {"scene": gone, "mesh": setup.mesh, "kind": 1})):
        assert raw.refused(kind, body)[0] == "STALE_HANDLE"

    extra = setup.add({"kind": 1})
    raw.ok("RemoveBody", {"scene": setup.scene, "body": extra})
    code, where, *_ = raw.refused("Step", *setup.step(*setup.update(POSITIONS, BOX, body=extra)))
    assert code in ("NOT_FOUND", "STALE_HANDLE") and str(extra) in where + _[-1]


def test_another_clients_scene(server, setup):
    other = Raw(server.stream)
    for kind, body in (("Step", {"scene": setup.scene, "sequence": 1}), ("CloseScene", {"scene": setup.scene}),
                       ("AddBody", {"scene": setup.scene, "mesh": setup.mesh, "kind": 1}),
                       ("RemoveBody", {"scene": setup.scene, "body": setup.soft}),
                       ("ReplaceMesh", {"scene": setup.scene, "body": setup.soft, "mesh": setup.mesh})):
        code, where, _, message = other.refused(kind, body)
        assert code == "FORBIDDEN" and str(setup.scene) in where and "another client" in message
    other.close()


@pytest.mark.parametrize("name", ["\u202egpj.exe", "a\u200bb", "a\nb", "\u2069", "\x7f"])
def test_names_with_characters_that_are_not_shown(server, setup, name):
    """They would turn lines of logs and lists around, or look like another's."""
    arrays = _wire.Arrays()
    body = {"vertices": arrays.add(BOX), "triangles": arrays.add(UNIT_BOX[1].astype("<u4")), "name": name}
    hello = {"version": 1, "min_version": 1, "client": name}
    with contextlib.closing(Raw(server.stream, hello=False)) as stranger:
        for client, kind, asked, more in ((setup.raw, "OpenScene", {"name": name}, None), (setup.raw, "RegisterMesh", body, arrays),
                                          (stranger, "Hello", hello, None)):
            answer = client.ask(kind, asked, more) if more else client.ask(kind, asked)
            assert answer.kind == "Error", (kind, answer)
            told = answer.body
            assert ErrorCode(told["code"]).name == "INVALID_ARGUMENT" and told["field"] == "name", told
            assert "U+" in told["message"] and name not in told["message"]


def test_sequence_numbers(setup):
    """A gap is a conflict that names what is expected; a repeat gets the old answer and computes nothing."""
    raw = setup.raw
    code, _, field, message = raw.refused("Step", {"scene": setup.scene, "sequence": setup.sequence + 3})
    assert (code, field) == ("CONFLICT", "sequence") and str(setup.sequence + 1) in message
    body, arrays = setup.step(*setup.update(POSE, body=setup.rigid, pose=POSE_0[:3] + (0.75,) + POSE_0[4:]))
    first = raw.ok("Step", body, arrays)
    steps = raw.ok("GetScene", {"scene": setup.scene})["steps"]
    again = raw.ok("Step", *setup.step(*setup.update(POSE, body=setup.rigid, pose=POSE_0)))
    assert again["cached"] and not first["cached"]
    assert str(again["contacts"][0].read()) == str(first["contacts"][0].read())
    assert raw.ok("GetScene", {"scene": setup.scene})["steps"] == steps
    setup.sequence += 1
    raw.ok("Step", *setup.step(*setup.update(POSE, body=setup.rigid, pose=POSE_0)))
    setup.sequence += 1
    assert raw.refused("Step", {"scene": setup.scene, "sequence": 0})[0] == "INVALID_ARGUMENT"


def test_sessions(server, setup):
    """Without Hello, with another's epoch, with a session that never was: STATE_LOST, which tells to start over."""
    stranger = Raw(server.stream, hello=False)
    for session, epoch in ((0, 0), (setup.raw.session, 1), (12345, setup.raw.epoch)):
        code, *_, message = stranger.refused("OpenScene", {}, session=session, epoch=epoch)
        assert code == "STATE_LOST" and message
    assert stranger.refused("Hello", {"version": 9, "min_version": 7})[0] == "VERSION_MISMATCH"
    code, *_, message = stranger.refused("Hello", {"version": 0, "min_version": 0})
    assert code == "VERSION_MISMATCH" and "1" in message
    assert stranger.ask("Ping", {"nonce": 5}).body["nonce"] == 5
    code, *_ = setup.raw.refused("Pong", {"nonce": 1})
    assert code == "MALFORMED"
    stranger.close()


def test_steps_past_their_deadline(server, setup):
    """A step that cannot begin in time is answered so, and has changed nothing."""
    client = setup.raw
    client.ok("Configure", {"scene": setup.scene, "settings": {"resolution": (1024,)}})
    numbers = []
    for _ in range(6):
        numbers.append(client.send("Step", *setup.step(deadline_us=200)))
        setup.sequence += 1
    answers = [client.receive() for _ in numbers]
    late = [a for a in answers if a.kind == "Error"]
    assert late and all(a.body["code"] == 17 for a in late), [a.body for a in late]
    client.ok("Configure", {"scene": setup.scene, "settings": {"resolution": (8,)}})


def test_bad_meshes(setup):
    vertices, triangles = UNIT_BOX

    def register(vertices, triangles, dtype="<f4"):
        arrays = _wire.Arrays()
        return {"vertices": arrays.add(np.asarray(vertices, dtype)), "triangles": arrays.add(np.asarray(triangles, "<u4")),
                "name": "bad"}, arrays

    def file(data: bytes, format: int = 0):
        arrays = _wire.Arrays()
        return {"file": arrays.add(np.frombuffer(data, "u1")), "format": format, "name": "bad"}, arrays

    flipped = triangles.copy()
    flipped[4] = flipped[4][::-1]
    for code, (body, arrays) in (
        ("INVALID_MESH", register(vertices, triangles[1:])),
        ("INVALID_MESH", register(vertices, np.concatenate([triangles, triangles[:1]]))),
        ("INVALID_MESH", register(vertices, flipped)),
        ("INVALID_MESH", register(vertices, triangles[:, ::-1])),
        ("INVALID_MESH", register(vertices, np.where(triangles == 7, 2**32 - 1, triangles))),
        ("INVALID_MESH", register(vertices * 0, triangles)),
        ("INVALID_MESH", register(vertices, triangles[:0])),
        ("NON_FINITE", register(np.where(vertices > 0, np.nan, vertices), triangles)),
        ("NON_FINITE", register(np.where(vertices > 0, 1e300, vertices), triangles, "<f8")),
        ("WRONG_LENGTH", register(vertices.ravel()[:-1], triangles)),
        ("WRONG_LENGTH", register(vertices, triangles.ravel()[:-1])),
        ("PARSE_ERROR", file(b"")),
        ("PARSE_ERROR", file(b"\x00\x01\x02\x03")),
        ("PARSE_ERROR", file(b"ply\nformat ascii 1.0\nelement vertex 4000000000\nend_header\n")),
        ("PARSE_ERROR", file(b"OFF\n3 1 0\n0 0 0\n1 0 0\n", 2)),
        ("PARSE_ERROR", file(b"v 0 0 0\nf 1 2 3\n", 1)),
        ("PARSE_ERROR", file(b"\0" * 80 + b"\xff\xff\xff\xff", 4)),
    ):
        got, where, field, message = setup.raw.refused("RegisterMesh", body, arrays)
        assert got == code or {got, code} <= {"INVALID_MESH", "PARSE_ERROR", "WRONG_LENGTH", "MALFORMED"}, (code, got, message)
        assert message and ("bad" in where or got in ("WRONG_LENGTH", "MALFORMED")), (got, where, message)


def test_a_mesh_over_the_memory_limit(make_server):
    server = make_server("--mesh-memory", "1M")
    with contactd.connect(server.stream) as client:
        small = client.register_mesh(*icosphere(1.0, 3))
        scene = client.open_scene(resolution=8)
        scene.add_body(small)
        scene.add_body(small, pose=moved(0.5))
        before = scene.step().contacts[0].volume
        with pytest.raises(contactd.errors.LimitExceededError) as e:
            client.register_mesh(*icosphere(1.0, 6), name="ball")
        assert "ball" in e.value.object and "--mesh-memory" in e.value.message
        assert scene.step().contacts[0].volume == before
        # Unused meshes make room; their owner does not notice.
        idle = client.register_mesh(*icosphere(0.9, 4))
        for k in range(6):
            client.register_mesh(*icosphere(1.0 + k, 4))
        other = client.open_scene(resolution=8)
        other.add_body(idle)
        other.add_body(small)
        assert other.step().contacts[0].volume > 0


def test_a_message_over_the_size_limit(make_server):
    server = make_server("--max-message", "64K")
    bystander = Bystander(server.stream)
    raw = Raw(server.stream)
    arrays = _wire.Arrays()
    vertices, triangles = icosphere(1.0, 4)
    body = {"vertices": arrays.add(vertices.astype("<f4")), "triangles": arrays.add(triangles.astype("<u4"))}
    code, *_, message = raw.refused("RegisterMesh", body, arrays)
    assert code == "TOO_LARGE" and "--max-message" in message and "65536" in message
    raw.socket.send_multipart([b"x"] * 40)
    answer = raw.receive()
    assert answer.kind == "Error" and answer.body["code"] == 12 and "40 frames" in answer.body["message"]
    raw.close()
    hostile = Raw(server.stream)
    hostile.socket.send(b"\0" * (1 << 20))  # beyond what the socket takes at all: the connection ends
    assert not hostile.socket.poll(200)
    hostile.close()
    with contactd.connect(server.stream) as client:
        with pytest.raises(contactd.errors.TooLargeError):
            client.register_mesh(vertices, triangles)
        client.ping()
    bystander.finish()


def test_more_steps_than_may_be_in_flight(make_server):
    server = make_server("--max-in-flight", "8", "--queue", "16")
    setup = Setup(server.stream)
    setup.raw.ok("Configure", {"scene": setup.scene, "settings": {"resolution": (512,)}})
    busy, done = [], []
    while not busy and len(done) < 40 * 50:  # until they come faster than they are computed
        for i in range(40):
            setup.raw.send("Step", {"scene": setup.scene, "sequence": len(done) + i + 1})
        answers = [setup.raw.receive() for _ in range(40)]
        busy = [a.body for a in answers if a.kind == "Error"]
        done += [a.body["sequence"] for a in answers if a.kind == "StepResult"]
    assert 0 < len(busy) <= 32 and all(b["code"] == 15 and b["retry"] and b["retry_after_ms"] > 0 for b in busy)
    assert done == list(range(1, len(done) + 1))
    setup.raw.close()
    # The Python client keeps within the limit, so its caller sees none of this.
    with contactd.connect(server.stream) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene(resolution=8)
        scene.add_body(mesh)
        b = scene.add_body(mesh, pose=np.eye(4))
        futures = [scene.submit(poses={b: moved(i / 100)}) for i in range(90)]
        assert [f.result(20 * SLOW).contacts[0].volume for f in futures] == pytest.approx([1 - i / 100 for i in range(90)])


def test_a_second_server_on_the_port(server, binaries, bystander):
    for flags in (["--http", "off", "--stream", server.stream],
                  ["--http", server.http.removeprefix("http://"), "--stream", "tcp://127.0.0.1:*"]):
        run = subprocess.run([binaries / "contactd", *flags], capture_output=True, text=True, timeout=20 * SLOW)
        assert run.returncode != 0
        address = flags[1] if flags[0] == "--http" and flags[1] != "off" else server.stream
        assert address.rsplit(":", 1)[1] in run.stderr and "in use" in run.stderr.lower(), run.stderr


def test_an_unwritable_log(binaries, tmp_path):
    run = subprocess.run([binaries / "contactd", "--http", "off", "--stream", "tcp://127.0.0.1:*", "--log-file",
                          tmp_path / "none" / "log"], capture_output=True, text=True, timeout=20 * SLOW)
    assert run.returncode != 0 and str(tmp_path / "none" / "log") in run.stderr and "log" in run.stderr


@pytest.mark.parametrize("flags, says", [(["--threads", "-1"], "threads"), (["--nonsense"], "nonsense"),
                                         (["--lease", "5"], "lease"), (["--config", "/nonexistent"], "/nonexistent"),
                                         (["--backend", "magic"], "backend"), (["--stream", "carrier-pigeon"], "carrier"),
                                         (["--stream", "tcp://127.0.0.1:99999"], "a port from 1 to 65535"),
                                         (["--stream", "tcp://127.0.0.1:12x"], "a port from 1 to 65535")])
def test_options_that_are_none(binaries, flags, says):
    run = subprocess.run([binaries / "contactd", "--http", "off", *flags], capture_output=True, text=True,
                         timeout=20 * SLOW)
    assert run.returncode not in (0, -6, -11) and says in run.stderr, run.stderr
