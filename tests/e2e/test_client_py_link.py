"""The Python client's connection against a scripted server: refusals, silence, nonsense, lost state, late answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import os
import random
import signal
import subprocess
import threading
import time

import contactd
import numpy as np
import pytest
import zmq
from contactd import _tables, errors
from contactd._reply import Spin
from contactd._socket import Socket
from contactd.errors import ErrorCode
from conftest import CONTACTCTL, PATIENCE, wait_until
from fake_server import FakeServer, Refusal
from test_contactctl_details import BOX as BOX_FILE

BOX = np.zeros((8, 3), np.float32)
FACES = np.arange(36).reshape(12, 3) % 8


@pytest.fixture
def fake():
    server = FakeServer()
    yield server
    server.close()


@pytest.fixture
def client(fake):
    with contactd.connect(fake.address, timeout=PATIENCE) as client:
        yield client


def scene_of_two(client):
    mesh = client.register_mesh(BOX, FACES)
    scene = client.open_scene()
    return scene, scene.add_body(mesh), scene.add_body(mesh, pose=np.zeros((3, 4)))


def volume(result) -> float:
    return result.contacts[0].volume


def full(value: float) -> np.ndarray:
    return np.full((8, 3), value, np.float32)


def pose(value: float) -> np.ndarray:
    return np.full((3, 4), value)


def test_step_and_pipeline(client):
    scene, a, b = scene_of_two(client)
    assert volume(scene.step(positions={a: full(1)}, poses={b: pose(2)})) == 24 + 24
    futures = [scene.submit(positions={a: full(i)}) for i in range(100)]
    assert [volume(f.result(PATIENCE)) for f in futures] == [24 * i + 24 for i in range(100)]
    assert [f.result().sequence for f in futures] == list(range(2, 102))


def test_warnings_that_only_a_newer_server_knows(client, fake):
    scene, a, b = scene_of_two(client)
    fake.warnings = [{"code": 77, "body": 1, "value": 0.5}, {"code": 1, "body": 2, "value": -2.0}]
    assert scene.step().warnings == [contactd.StepWarning("WARNING_77", a, 0.5),
                                     contactd.StepWarning("BODY_INVERTED", b, -2.0)]


def test_several_contacts_of_a_pair_and_of_a_body_with_itself(client, fake):
    """What a body with itself has on both sides is added up; a pair's contacts are all there."""
    scene, a, b = scene_of_two(client)
    self_contact = {"body_a": 1, "body_b": 1, "volume": 1.0, "count_a": 2, "first_b": 2, "count_b": 2,
                    "generalized_a": tuple(range(6)), "generalized_b": (10.0,) * 6}
    pair = [{"body_a": 1, "body_b": 2, "volume": v, "first_a": f, "count_a": 1, "first_b": f + 1, "count_b": 1,
             "generalized_a": (1.0,) * 6, "generalized_b": (-1.0,) * 6} for v, f in ((2.0, 3), (4.0, 4))]
    fake.by_hand = [self_contact, *pair]
    result = scene.step(want="all")
    assert [c.volume for c in result.contacts] == [1, 2, 4]
    assert [c.bodies for c in result.contacts] == [(a, a), (a, b), (a, b)]
    own, first, second = result.contacts
    entry = np.arange(18.0).reshape(6, 3)

    which, gradient = own.gradient(a)
    assert which.tolist() == [0, 1, 2] and which.dtype == np.uint32
    assert (gradient == [entry[0], entry[1] + entry[2], entry[3]]).all()
    assert (own.vertices(a) == which).all() and own.friction_weights(a).tolist() == gradient[:, 0].tolist()
    assert (own.forces(a) == -gradient).all()
    assert own.generalized_gradient(a).tolist() == [10, 11, 12, 13, 14, 15]
    with pytest.raises(errors.NotFoundError):
        own.gradient(b)

    assert first.gradient(a)[0].tolist() == [2] and first.gradient(b)[0].tolist() == [3]
    assert second.gradient(a)[0].tolist() == [3] and second.gradient(b)[0].tolist() == [0]
    assert first.generalized_gradient(b).tolist() == [-1] * 6

    d = {a: np.arange(24.0).reshape(8, 3), b: np.ones((8, 3))}
    dense = {a: np.zeros((8, 3)), b: np.zeros((8, 3))}
    for contact in result.contacts:
        product = contact.stiffness_product(d, 2.0)
        assert set(product) == set(contact.bodies)
        g = {x: np.zeros((8, 3)) for x in product}
        for x in g:
            at, rows = contact.gradient(x)
            g[x][at] = rows
        along = sum((g[x] * d[x]).sum() for x in g)
        for x in g:
            assert product[x] == pytest.approx(-2 * along * g[x])
            dense[x] += product[x]
    total = result.stiffness_product(d, 2.0)
    for x in (a, b):
        assert total[x] == pytest.approx(dense[x])

    # Many vectors at once; a body that does not move; shapes that are wrong.
    rng = np.random.default_rng(4)
    many = {x: rng.normal(size=(3, 8, 3)) for x in (a, b)}
    together, of_first = result.stiffness_product(many, 2.0), first.stiffness_product(many, 2.0)
    for i in range(3):
        single = {x: v[i] for x, v in many.items()}
        for x in (a, b):
            assert together[x][i] == pytest.approx(result.stiffness_product(single, 2.0)[x])
            assert of_first[x][i] == pytest.approx(first.stiffness_product(single, 2.0)[x])
    alone = result.stiffness_product({b: d[b]}, 2.0)
    expected = result.stiffness_product({a: np.zeros((8, 3)), b: d[b]}, 2.0)
    assert all(alone[x] == pytest.approx(expected[x]) for x in (a, b)) and np.abs(alone[a]).max() > 0
    for wrong in ({a: np.ones((7, 3))}, {a: np.ones((0, 8, 3))}, {a: np.ones((1, 2, 8, 3))},
                  {a: np.ones((2, 8, 3)), b: np.ones((3, 8, 3))}, {a: np.ones((8, 3)), b: np.ones((1, 8, 3))}):
        with pytest.raises(errors.WrongLengthError):
            result.stiffness_product(wrong)
        with pytest.raises(errors.WrongLengthError):
            first.stiffness_product(wrong)


def test_submitted_arrays_may_change_at_once(client):
    scene, a, b = scene_of_two(client)
    x = full(1)
    futures = []
    for i in range(20):
        x[:] = i
        futures.append(scene.submit(positions={a: x}))
    assert [volume(f.result(PATIENCE)) for f in futures] == [24.0 * i for i in range(20)]


def test_partial_updates(client):
    scene, a, b = scene_of_two(client)
    assert volume(scene.step(indexed={a: ([1, 3], np.ones((2, 3)))})) == 6
    assert volume(scene.step(ranges={a: ([[4, 2], [7, 1]], np.ones((3, 3)))})) == 15
    with pytest.raises(errors.OutOfRangeError) as e:
        scene.step(ranges={a: ([[7, 2]], np.ones((2, 3)))})
    assert e.value.field == "ranges" and "7" in e.value.message


def test_busy_is_retried_in_order(fake, client):
    scene, a, b = scene_of_two(client)
    refusals = {5: 3, 6: 1, 11: 2}  # sequence number: times
    behind, submitted = [], threading.Event()

    def hook(kind, body):
        if kind != "Step":
            return
        submitted.wait(PATIENCE)  # so that there are steps behind the refused one
        state = fake.scenes[body["scene"]]
        if body["sequence"] == state.sequence + 1 and refusals.get(body["sequence"], 0) > 0:
            refusals[body["sequence"]] -= 1
            state.refused = True
            raise Refusal(ErrorCode.BUSY, retry_after_ms=5)
        if body["sequence"] > state.sequence + 1:
            behind.append(body["sequence"])
            raise Refusal(ErrorCode.BUSY if state.refused else ErrorCode.CONFLICT, field="sequence")
        state.refused = False

    fake.hook = hook
    futures = [scene.submit(positions={a: full(i)}) for i in range(30)]
    submitted.set()
    assert [volume(f.result(PATIENCE)) for f in futures] == [24.0 * i for i in range(30)]
    (state,) = fake.scenes.values()
    assert state.steps == list(range(1, 31))
    assert behind, "nothing was refused behind a refused step"


def test_busy_until_the_deadline(fake, client):
    scene, a, b = scene_of_two(client)

    def hook(kind, body):
        if kind == "Step":
            raise Refusal(ErrorCode.BUSY, retry_after_ms=10)

    fake.hook = hook
    began = time.monotonic()
    with pytest.raises(TimeoutError) as e:
        scene.step(positions={a: full(1)}, timeout=0.3)
    assert isinstance(e.value, contactd.ContactdError) and 0.25 < time.monotonic() - began < PATIENCE
    fake.hook = lambda kind, body: None
    assert volume(scene.step(positions={a: full(2)})) == 48


def test_a_failed_step_uses_its_number_up(fake, client):
    scene, a, b = scene_of_two(client)

    def hook(kind, body):
        if kind == "Step" and body["sequence"] == 2:
            fake.scenes[body["scene"]].sequence += 1
            raise Refusal(ErrorCode.NON_FINITE, "position 3 is NaN", field="positions", object="body 1")

    fake.hook = hook
    futures = [scene.submit(positions={a: full(i)}) for i in range(4)]
    assert volume(futures[0].result(PATIENCE)) == 0
    with pytest.raises(ValueError) as e:
        futures[1].result(PATIENCE)
    assert (e.value.code, e.value.object, e.value.field) == (ErrorCode.NON_FINITE, "body 1", "positions")
    assert "position 3" in str(e.value)
    assert [volume(f.result(PATIENCE)) for f in futures[2:]] == [48, 72]


def test_a_refused_step_does_not(fake, client):
    scene, a, b = scene_of_two(client)
    once = []

    def hook(kind, body):
        if kind == "Step" and body["sequence"] == 2 and not once:
            once.append(1)
            raise Refusal(ErrorCode.TOO_LARGE, object="message")

    fake.hook = hook
    futures = [scene.submit(positions={a: full(i)}) for i in range(5)]
    with pytest.raises(errors.TooLargeError):
        futures[1].result(PATIENCE)
    assert [volume(futures[i].result(PATIENCE)) for i in (0, 2, 3, 4)] == [0, 48, 72, 96]


def test_restart_mid_stream(fake, client):
    """Nothing lost, nothing twice, and state that was not sent again comes back: also partial state."""
    scene, a, b = scene_of_two(client)
    scene.step(poses={b: pose(1)})
    expected, futures = [], []
    x = np.zeros((8, 3))
    for i in range(60):
        x[i % 8] = i
        futures.append(scene.submit(indexed={a: ([i % 8], x[[i % 8]])}))
        expected.append(x.sum() + 12)
        if i in (20, 40):
            futures[-1].result(PATIENCE)
            fake.crash()
            fake.start()
    assert [volume(f.result(PATIENCE)) for f in futures] == expected
    assert client.reconnects == 2
    assert volume(scene.step()) == expected[-1]


def test_a_crash_while_reconnecting(fake, client):
    scene, a, _ = scene_of_two(client)
    asked = threading.Event()

    def hook(kind, _):
        if kind == "Hello":
            asked.set()
            return "silence"

    fake.crash()
    fake.hook = hook
    fake.start()
    future = scene.submit(positions={a: full(3)})
    assert asked.wait(PATIENCE)
    fake.crash()
    fake.hook = lambda kind, body: None
    fake.start()
    assert volume(future.result(PATIENCE)) == 72
    assert client.reconnects == 1


def test_a_connection_lost_while_a_session_is_set_up(fake, client):
    """The server still knows that session, but not all that belongs into it."""
    mesh = client.register_mesh(BOX, FACES)
    scene = client.open_scene()
    body = scene.add_body(mesh, pose=np.eye(4))
    before = scene.step(poses={body: 3 * np.eye(4)[:3]}).contacts[0].volume
    fake.hook = lambda kind, body: "silence" if kind == "Step" else None
    future = scene.submit()  # in flight when the nonsense comes, and so ended by it
    wait_until(lambda: fake.heard.count("Step") >= 2, "the second step at the server")
    fake.crash()
    answers = iter([b"nonsense"])
    fake.hook = lambda kind, body: next(answers, None) if kind == "OpenScene" else None
    fake.start()
    with pytest.raises(errors.MalformedError):
        future.result(PATIENCE)
    assert scene.step().contacts[0].volume == before
    assert fake.heard.count("Hello") == 3


def test_steps_in_flight_survive_a_crash(fake, client):
    scene, a, b = scene_of_two(client)
    scene.step(positions={a: full(1)})
    fake.hook = lambda kind, body: "silence" if kind == "Step" else None
    futures = [scene.submit(positions={a: full(i)}) for i in range(10)]
    wait_until(lambda: fake.heard.count("Step") == 11, "the eleventh step at the server")
    fake.crash()
    fake.hook = lambda kind, body: None
    fake.start()
    assert [volume(f.result(PATIENCE)) for f in futures] == [24.0 * i for i in range(10)]


def test_the_connection_goes_while_a_caller_serves_it(client, monkeypatch):
    """The caller's own work may find that the connection is gone; what it asked for is answered over the next one."""
    scene, a, _ = scene_of_two(client)
    link = client._link
    work, gone = link._work, []

    def work_and_lose(events):
        work(events)
        if link._holder == threading.get_ident() and link._tables.steps and not gone:  # a step is in flight
            gone.append(True)
            link._connection.lose("a test said so")

    monkeypatch.setattr(link, "_work", work_and_lose)
    monkeypatch.setattr(link._spin, "begin", lambda: 0.01)  # looks at the socket before it sleeps
    for _ in range(1000):  # until a call serves itself, which a busy machine may put off
        assert volume(scene.step(positions={a: full(1)})) == 24
        if gone:
            break
    assert gone and client.reconnects == 1


@pytest.mark.parametrize("kind", ["CloseScene", "RemoveBody", "RemoveMesh"])
def test_the_connection_goes_before_something_is_known_to_be_gone(fake, client, kind):
    """The request that is sent again does not find it: it was taken away."""
    scene, body, _ = scene_of_two(client)
    mesh = client.register_mesh(BOX + 1, FACES)
    take_away = {"CloseScene": scene.close, "RemoveBody": lambda: scene.remove_body(body), "RemoveMesh": mesh.remove}[kind]
    heard = []

    def take_away_and_hang_up(asked, _):
        if asked != kind:
            return None
        heard.append(asked)
        if len(heard) > 1:
            raise Refusal(ErrorCode.STALE_HANDLE, "it is gone")
        fake.hang_up()
        return "silence"

    fake.hook = take_away_and_hang_up
    take_away()
    assert len(heard) >= 2 and client.reconnects == 0


def test_what_is_gone_the_first_time(fake, client):
    scene = client.open_scene()

    def refuse(kind, _):
        if kind == "CloseScene":
            raise Refusal(ErrorCode.STALE_HANDLE, "it is gone")

    fake.hook = refuse
    with pytest.raises(contactd.ContactdError, match="it is gone"):
        scene.close()


def test_the_farewell_does_not_go_out(fake, client, monkeypatch):
    """A client that moves to another server tells the old one to close its scenes, where that still can be told."""
    scenes = [scene_of_two(client) for _ in range(3)]
    heir = FakeServer()
    try:
        connection, refused = client._link._connection, []
        send = connection.socket.send

        def send_but_one(header, frames):
            if not refused:
                refused.append(connection.address)
                return False  # as where the pipe is full
            return send(header, frames)

        monkeypatch.setattr(connection.socket, "send", send_but_one)
        client._link.leave(heir.address)
        wait_until(lambda: client._link.address == heir.address, "the other server")
        assert [volume(scene.step(positions={a: full(1)})) for scene, a, _ in scenes] == [24] * 3
        assert refused == [fake.address] and heir.heard.count("OpenScene") == 3
    finally:
        client.close()
        heir.close()


def test_state_lost_without_a_disconnect(fake, client):
    """A session whose lease ran out while the process was suspended."""
    scene, a, b = scene_of_two(client)
    scene.step(positions={a: full(1)}, poses={b: pose(1)})
    fake.sessions.clear()
    fake.scenes.clear()
    futures = [scene.submit(poses={b: pose(i)}) for i in range(10)]
    assert [volume(f.result(PATIENCE)) for f in futures] == [24 + 12 * i for i in range(10)]


def test_refused_on_re_registration(fake, client):
    scene, a, b = scene_of_two(client)

    def hook(kind, body):
        if kind == "RegisterMesh":
            raise Refusal(ErrorCode.LIMIT_EXCEEDED, "the memory limit would be exceeded", object="mesh")

    fake.crash()
    fake.hook = hook
    fake.start()
    with pytest.raises(errors.LimitExceededError):
        scene.step(timeout=PATIENCE)
    client.ping()


@pytest.mark.parametrize("setting", [{"law": "pressure"}, {"stiction_speed": 0.1}, {"max_points": 3}, {"margin": 0.5}])
def test_a_setting_that_an_older_server_leaves_out(fake, client, setting):
    with pytest.raises(errors.UnsupportedError, match=f"too old for {next(iter(setting))}"):
        client.open_scene(**setting)
    wait_until(lambda: "CloseScene" in fake.heard and not fake.scenes, "what it opened instead is closed")
    assert client.open_scene(stiffness=1.0, law="volume", margin=0).id in fake.scenes  # what it does anyway


def test_a_scene_does_not_go_to_a_server_too_old_for_its_settings(fake, client):
    fake.more_settings = {"law": 1}
    scene = client.open_scene(law="pressure")
    scene.step()
    fake.crash()
    fake.more_settings = {}
    fake.start()
    with pytest.raises(errors.UnsupportedError, match="too old for law"):
        scene.step(timeout=PATIENCE)
    client.ping()


@pytest.mark.parametrize("making", [{"scale": 0.001}, {"unit": "mm"}, {"closing": "hull"}])
def test_a_mesh_that_an_older_server_makes_otherwise(fake, client, making):
    with pytest.raises(errors.UnsupportedError, match="too old"):
        client.register_mesh(BOX, FACES, **making)
    scene, a, b = scene_of_two(client)  # the client lives
    assert volume(scene.step(positions={a: full(1)})) == 24


def test_contactctl_tells_what_an_older_server_leaves_out(fake, tmp_path):
    (tmp_path / "box.off").write_text(BOX_FILE)
    done = subprocess.run([*CONTACTCTL, "--server", fake.address, "contact", "box.off", "box.off", "--law", "pressure"], cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == 3 and "UNSUPPORTED: the server is too old for law: leave it out [law]" in done.stderr
    assert fake.heard.count("OpenScene") == fake.heard.count("CloseScene") == 1 and not fake.scenes


def test_a_mesh_that_made_room_is_registered_again(fake, client):
    mesh = client.register_mesh(BOX, FACES)
    scene = client.open_scene()
    once = []

    def hook(kind, body):
        if kind == "AddBody" and not once:
            once.append(body["mesh"])
            raise Refusal(ErrorCode.STALE_HANDLE, object=f"mesh {body['mesh']}")

    fake.hook = hook
    scene.add_body(mesh)
    assert fake.heard.count("RegisterMesh") == 2 and mesh._state.id != once[0]
    once.clear()
    fake.has_meshes = True  # in its state folder, say
    scene.add_body(mesh)
    assert fake.heard.count("RegisterMesh") == 2 and mesh._state.id != once[0]


def test_no_server_there():
    began = time.monotonic()
    with pytest.raises(ConnectionError) as e:
        contactd.connect("127.0.0.1:9", timeout=10 * PATIENCE)
    assert isinstance(e.value, contactd.UnreachableError) and "nothing listens at tcp://127.0.0.1:9" in str(e.value)
    with pytest.raises(contactd.UnreachableError, match="nothing listens at ipc:"):
        contactd.connect("ipc:///nowhere/at/all", timeout=10 * PATIENCE, wait=0.2)
    assert time.monotonic() - began < PATIENCE  # and not until the timeout
    with pytest.raises(errors.OutOfRangeError):
        contactd.connect("localhost:9", wait=-1)


def test_no_contactd_there(fake):
    fake.hook = lambda kind, body: "silence"
    for timeout in (1.5, 15, PATIENCE):  # on a busy machine the connection itself may take the first of these
        with pytest.raises(ConnectionError) as e:
            contactd.connect(fake.address, timeout=timeout)
        if fake.heard:
            break
    assert "no contactd server answers" in str(e.value)


@pytest.mark.parametrize("address", ["nonsense", "localhost:99999", "tcp://localhost:99999", "tcp://localhost:0", "tcp://localhost:x", "localhost"])
def test_address_that_is_none(address):
    with pytest.raises(ValueError) as e:
        contactd.connect(address)
    assert e.value.field == "address"


def test_a_name_that_there_is_not():
    with pytest.raises(contactd.UnreachableError, match="the name no-such-host.invalid has no address"):
        contactd.connect("no-such-host.invalid:5555")


def test_other_version(fake):
    def hook(kind, body):
        raise Refusal(ErrorCode.VERSION_MISMATCH, "the server speaks 7 to 9", field="version")

    fake.hook = hook
    with pytest.raises(errors.VersionMismatchError, match="7 to 9"):
        contactd.connect(fake.address, timeout=PATIENCE)


def test_waits_for_a_server_that_is_not_up_yet(fake):
    fake.crash()
    threading.Timer(0.3, fake.start).start()
    with contactd.connect(fake.address.removeprefix("tcp://"), timeout=PATIENCE, wait=PATIENCE) as client:
        client.ping()


@pytest.mark.parametrize("answer", [b"", b"garbage", b"\x10\0\0\0CTD1", b"\xff" * 64])
def test_nonsense_is_an_error(fake, client, answer):
    scene, a, b = scene_of_two(client)
    fake.hook = lambda kind, body: answer if kind == "Step" else None
    with pytest.raises(errors.MalformedError):
        scene.step(timeout=PATIENCE)
    fake.hook = lambda kind, body: None
    assert volume(scene.step(positions={a: full(1)})) == 24


def test_silence_ends_by_the_deadline(fake, client):
    scene, a, b = scene_of_two(client)
    fake.hook = lambda kind, body: "silence" if kind == "Step" else None
    with pytest.raises(TimeoutError) as e:
        scene.step(timeout=0.2)
    assert e.value.code == ErrorCode.DEADLINE_EXCEEDED
    future = scene.submit(timeout=0.2)
    with pytest.raises(TimeoutError):
        future.result(0.01)
    assert isinstance(future.exception(PATIENCE), errors.DeadlineExceededError)


def test_late_answers_are_taken_back(fake, client):
    """A scene that opened after its caller had given up is closed again."""
    gate = threading.Event()

    def hook(kind, body):
        if kind == "OpenScene":
            gate.wait(PATIENCE)

    fake.hook = hook
    while "OpenScene" not in fake.heard:  # on a busy machine the request may expire before it is sent
        with pytest.raises(TimeoutError):
            client.open_scene(timeout=0.5)
    gate.set()
    wait_until(lambda: "CloseScene" in fake.heard and not fake.scenes, "the end of the scene")
    client.ping()


def test_in_flight_limit(fake):
    fake.max_in_flight = 4
    held = []

    def hook(kind, body):
        if kind == "Step":
            held.append(body["sequence"])
            return "silence" if len(held) <= 4 else None

    fake.hook = hook
    with contactd.connect(fake.address, timeout=PATIENCE) as client:
        scene, a, b = scene_of_two(client)
        for i in range(10):
            scene.submit(positions={a: full(i)}, timeout=PATIENCE)
        wait_until(lambda: len(held) >= 4, "the fourth step at the server")
        time.sleep(0.2)
        assert held == [1, 2, 3, 4]


def test_keeps_its_lease(fake):
    fake.lease_ms = 600
    pings = []

    def hook(kind, _):
        if kind == "Ping":
            pings.append(time.monotonic())

    fake.hook = hook
    with contactd.connect(fake.address):
        # One of its own after its first one, and the next one in time; where others keep the cores from it, some day.
        wait_until(lambda: any(b - a < 0.6 for a, b in zip(pings[1:], pings[2:])), "two pings within a lease")


def test_asyncio(client):
    scene, a, b = scene_of_two(client)

    async def main():
        futures = [asyncio.wrap_future(scene.submit(positions={a: full(i)})) for i in range(5)]
        return [volume(r) for r in await asyncio.gather(*futures)]

    assert asyncio.run(main()) == [0, 24, 48, 72, 96]


def test_callbacks_must_not_wait(fake, client):
    scene, a, b = scene_of_two(client)
    seen, done, added = [], threading.Event(), threading.Event()

    def hook(kind, _):
        if kind == "Step":  # an answer before there is a callback would have it called right here
            added.wait(PATIENCE)

    def callback(future):
        try:
            client.ping()
        except contactd.ContactdError as e:
            seen.append(e)
        done.set()

    fake.hook = hook
    scene.submit().add_done_callback(callback)
    added.set()
    assert done.wait(PATIENCE) and "callback" in seen[0].message


def test_many_threads(client):
    mesh = client.register_mesh(BOX, FACES)
    failures = []

    def work(k):
        try:
            with client.open_scene() as scene:
                a = scene.add_body(mesh)
                for i in range(30):
                    assert volume(scene.step(positions={a: full(i + k)})) == 24.0 * (i + k)
        except Exception as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    [t.start() for t in threads]
    [t.join(PATIENCE) for t in threads]
    assert not failures and not any(t.is_alive() for t in threads)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it came in a destructor
def test_ctrl_c_in_the_midst_of_calls(client):
    """It comes while a call waits, or tears the client's own work apart: the next call goes on all the same."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals come to the main thread only")
    scene, a, b = scene_of_two(client)
    rng = random.Random(1)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for i in range(100):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(5e-5, 4e-3))
                for _ in range(200):  # Python drops exceptions from handlers that run in a destructor
                    scene.step(positions={a: full(-1)}, poses={b: pose(-1)})
            except KeyboardInterrupt:
                pass
            assert volume(scene.step(positions={a: full(i)}, poses={b: pose(i)})) == 24 * i + 12 * i
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_futures_end_while_callers_serve_themselves(client):
    """What was submitted is answered though the connection's thread stands aside for the calls around it."""
    scene, a, b = scene_of_two(client)
    took = []
    for i in range(30):
        assert volume(scene.step(positions={a: full(i)})) == 24 * i  # now it stands aside
        began = time.monotonic()
        future = scene.submit(positions={a: full(2 * i)})
        if i % 3 == 0:
            client.ping()
        assert volume(future.result(PATIENCE)) == 48 * i
        took.append(time.monotonic() - began)
        assert sum(took) < PATIENCE
    assert np.median(took) < 2


def test_two_callers_of_different_patience(fake, client):
    """One caller's long wait, during which it serves the connection, delays no other, nor is it delayed."""
    scene, a, b = scene_of_two(client)
    one, other = client.open_scene(), client.open_scene()
    heard, ends = threading.Event(), []

    def hook(kind, body):
        if kind == "Step" and body["scene"] != scene.id:
            if body["scene"] == other.id:
                heard.set()
            return "silence"

    def wait(slow, timeout, error):
        with pytest.raises(error):
            slow.step(timeout=timeout)
        ends.append(time.monotonic())

    fake.hook = hook
    began = time.monotonic()
    brief = threading.Thread(target=wait, args=(one, 0.5, errors.DeadlineExceededError))
    brief.start()
    i = 0
    while not ends:  # it ends amid the others' calls
        assert volume(scene.step(positions={a: full(i)})) == 24 * i
        i += 1
        assert time.monotonic() - began < PATIENCE, "the slow call waited for the quick ones"
    brief.join()
    assert ends.pop() - began >= 0.5

    long = threading.Thread(target=wait, args=(other, 2 * PATIENCE, errors.ClosedError))
    long.start()
    assert heard.wait(PATIENCE)
    for i in range(20):
        assert volume(scene.step(positions={a: full(i)})) == 24 * i
    client.ping()
    assert not ends, "the quick calls waited for the slow one"
    client.close()
    long.join(PATIENCE)
    assert ends


def spinning(spin: Spin, n: int, spun: float, slept: float) -> int:
    """How many of n waits spin, of which those that do and those that sleep take so long each."""
    count = 0
    for _ in range(n):
        spins = spin.begin() > 0
        count += spins
        spin.end(spun if spins else slept)
    return count


def test_which_waits_spin(monkeypatch):
    """The rules of proto/spin.h; tests/unit/proto/test_spin.c has the C client's and the server's."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # the test runner has threads of its own
    spin = Spin(1e-3)
    assert spinning(spin, 100, 0.1e-3, 0) == 100
    assert 8 <= spinning(spin, 2000, 10e-3, 10e-3) <= 12  # in vain
    spinning(spin, 1025, 0.9e-3, 2e-3)  # one is tried among these, and is quicker than those asleep
    assert spinning(spin, 100, 0.9e-3, 2e-3) == 100
    spin = Spin(1e-3)
    spinning(spin, 2, 10e-3, 0.1e-3)
    assert 10 <= spinning(spin, 10000, 0.9e-3, 0.1e-3) <= 30  # in vain, as it takes much longer than to sleep
    assert spinning(Spin(0), 100, 0, 0) == 0


def share_of_a_core(seconds: float) -> float:
    """What this process uses of one, for so long; what runs on and on uses all it can get, however long one looks."""
    began, before = time.monotonic(), time.process_time()
    time.sleep(seconds)
    return (time.process_time() - before) / (time.monotonic() - began)


@pytest.mark.parametrize("spin", [0, 500e-6, 1.0])
def test_nothing_runs_between_calls(fake, spin):
    with contactd.connect(fake.address, spin=spin) as client:
        for _ in range(50):
            client.ping()
        time.sleep(0.2)
        fake.crash()  # whose thread is of this process, and looks around every few milliseconds
        time.sleep(0.2)
        assert any(share_of_a_core(0.5) < 0.05 for _ in range(20))


def test_close_ends_everything(fake):
    client = contactd.connect(fake.address)
    scene, a, b = scene_of_two(client)
    fake.hook = lambda kind, body: "silence" if kind == "Step" else None
    future = scene.submit()
    client.close()
    assert isinstance(future.exception(PATIENCE), errors.ClosedError)
    assert not fake.scenes, "the scene was not closed on the server"
    for call in (client.ping, scene.step, client.status):
        with pytest.raises(errors.ClosedError):
            call()
    client.close()


def test_closing_again_leaves_others_files_alone(fake):
    """The numbers of what a client closed are soon those of other files."""
    client = contactd.connect(fake.address, timeout=PATIENCE)
    client.close()
    pipes = [os.pipe() for _ in range(20)]
    try:
        client.close()
        client.__del__()
        for read, _ in pipes:
            os.set_blocking(read, False)
            with pytest.raises(BlockingIOError):
                os.read(read, 1)
    finally:
        for pipe in pipes:
            for end in pipe:
                os.close(end)


def test_a_dropped_client_goes_away(fake):
    client = contactd.connect(fake.address)
    thread = client._link.thread
    del client
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "call, code, field",
    [
        (lambda c, s, a, b: s.step(positions={a: full(1)[:7]}), ErrorCode.WRONG_LENGTH, "positions"),
        (lambda c, s, a, b: s.step(positions={a: np.zeros((8, 2))}), ErrorCode.WRONG_LENGTH, "positions"),
        (lambda c, s, a, b: s.step(positions={a: np.zeros((8, 3), complex)}), ErrorCode.INVALID_ARGUMENT, "positions"),
        (lambda c, s, a, b: s.step(positions={a: [["x"] * 3] * 8}), ErrorCode.INVALID_ARGUMENT, "positions"),
        (lambda c, s, a, b: s.step(positions={b: full(1)}), ErrorCode.INVALID_ARGUMENT, "positions"),
        (lambda c, s, a, b: s.step(positions={7: full(1)}), ErrorCode.INVALID_ARGUMENT, "positions"),
        (lambda c, s, a, b: s.step(poses={a: np.eye(4)}), ErrorCode.INVALID_ARGUMENT, "poses"),
        (lambda c, s, a, b: s.step(poses={b: np.eye(3)}), ErrorCode.WRONG_LENGTH, "pose"),
        (lambda c, s, a, b: s.step(poses={b: np.ones((4, 4))}), ErrorCode.INVALID_ARGUMENT, "pose"),
        (lambda c, s, a, b: s.step(want="everything"), ErrorCode.INVALID_ARGUMENT, "want"),
        (lambda c, s, a, b: s.step({a: full(1)}, indexed={a: ([0], [[1, 1, 1]])}), ErrorCode.CONFLICT, "updates"),
        (lambda c, s, a, b: s.step(indexed={a: ([0.5], [[1, 1, 1]])}), ErrorCode.INVALID_ARGUMENT, "indices"),
        (lambda c, s, a, b: s.step(indexed={a: ([8], [[1, 1, 1]])}), ErrorCode.OUT_OF_RANGE, "indices"),
        (lambda c, s, a, b: s.step(indexed={a: ([-1], [[1, 1, 1]])}), ErrorCode.OUT_OF_RANGE, "indices"),
        (lambda c, s, a, b: s.step(indexed={a: ([1, 2], [[1, 1, 1]])}), ErrorCode.WRONG_LENGTH, "positions"),
        (lambda c, s, a, b: c.register_mesh(BOX, FACES.astype(float)), ErrorCode.INVALID_ARGUMENT, "triangles"),
        (lambda c, s, a, b: c.register_mesh(BOX, FACES - 1), ErrorCode.OUT_OF_RANGE, "triangles"),
        (lambda c, s, a, b: c.register_mesh(BOX[:, :2], FACES), ErrorCode.WRONG_LENGTH, "vertices"),
        (lambda c, s, a, b: c.open_scene(method="magic"), ErrorCode.UNSUPPORTED, "method"),
        (lambda c, s, a, b: c.open_scene(resolution=-1), ErrorCode.OUT_OF_RANGE, "resolution"),
        (lambda c, s, a, b: c.open_scene(resolution=(1, 2)), ErrorCode.WRONG_LENGTH, "resolution"),
        (lambda c, s, a, b: c.open_scene(resolution=1.5), ErrorCode.INVALID_ARGUMENT, "resolution"),
        (lambda c, s, a, b: c.open_scene(pixel_size=-1), ErrorCode.OUT_OF_RANGE, "pixel_size"),
        (lambda c, s, a, b: s.configure(stiffness="x"), ErrorCode.INVALID_ARGUMENT, "stiffness"),
        (lambda c, s, a, b: c.open_scene(cell_size=-1), ErrorCode.OUT_OF_RANGE, "cell_size"),
        (lambda c, s, a, b: s.configure(patches=1), ErrorCode.INVALID_ARGUMENT, "patches"),
        (lambda c, s, a, b: s.add_body(c, np.eye(4)), ErrorCode.INVALID_ARGUMENT, "mesh"),
        (lambda c, s, a, b: s.step(want="volume").contacts[0].area, ErrorCode.INVALID_ARGUMENT, "want"),
        (lambda c, s, a, b: s.step().contacts[0].forces(a), ErrorCode.INVALID_ARGUMENT, "want"),
        (lambda c, s, a, b: c.open_scene().step(positions={a: full(1)}), ErrorCode.NOT_FOUND, "positions"),
    ],
)
def test_arguments_are_checked_by_name(client, call, code, field):
    scene, a, b = scene_of_two(client)
    with pytest.raises(contactd.ContactdError) as e:
        call(client, scene, a, b)
    assert (e.value.code, e.value.field) == (code, field) and e.value.message
    assert volume(scene.step(positions={a: full(1)})) == 24, "the scene was disturbed"


def test_numbers_out_of_step_are_made_good(fake, client):
    """Whatever made the server's count differ, the next step goes through, on a scene built anew."""
    scene, a, b = scene_of_two(client)
    scene.step(positions={a: full(1)}, poses={b: pose(1)})
    (state,) = fake.scenes.values()
    state.sequence += 3
    assert volume(scene.step(poses={b: pose(2)})) == 24 + 24
    assert volume(scene.step(poses={b: pose(3)})) == 24 + 36


@pytest.mark.parametrize("spare", [0, 1, 2])
def test_close_after_failed_open(fake, spare):
    """Where a process is out of sockets, opening stops anywhere; what there is of it is closed, and opens later."""
    poller = zmq.Poller()
    socket = Socket(poller, None)
    socket._context.max_sockets = 3  # its own, and both ends of the monitor
    others = [socket._context.socket(zmq.PAIR) for _ in range(3 - spare)]
    with pytest.raises(zmq.ZMQError) as caught:
        socket.open(fake.address)
    assert caught.value.errno == errno.EMFILE
    socket.close()
    assert not poller.sockets
    for other in others:
        other.close(0)
    wait_until(lambda: opens(socket, fake.address), "free sockets")
    assert len(poller.sockets) == 2
    socket.close_for_good()
    assert not poller.sockets


def opens(socket, address):
    """Sockets that were closed are counted until another thread is done with them."""
    try:
        socket.open(address)
    except zmq.ZMQError:
        socket.close()
        return False
    return True


# ---- servers that end over what they are asked ----

POISON = 666


def is_poison(kind, body):
    return kind == "Step" and any(u["kind"] == 4 and u["pose"][0] == POISON for u in body["updates"] or ())


class Deadly:
    """Steps with the poison are not answered, and none behind them; when a test ends the server, it looks as if they had
    done it."""

    def __init__(self, fake):
        self.fake, self.sent, self.stuck = fake, 0, None
        fake.hook = self

    def __call__(self, kind, body):
        if is_poison(kind, body):
            self.sent += 1
            self.stuck = self.fake.epoch, body["scene"]
        return "silence" if kind == "Step" and self.stuck == (self.fake.epoch, body["scene"]) else None

    def end_server(self, after: int) -> None:
        """As soon as the poison was sent so often."""
        wait_until(lambda: self.sent >= after, f"the step sent {after} times")
        self.fake.crash()
        self.fake.start()


def test_a_step_is_not_sent_to_a_third_server_that_ends_over_it(client, fake):
    scene, a, b = scene_of_two(client)
    other, c, d = scene_of_two(client)
    scene.step(poses={b: pose(1)})
    deadly = Deadly(fake)
    bad = scene.submit(poses={b: pose(POISON)})
    behind = scene.submit(positions={a: full(1)})
    deadly.end_server(1)
    wait_until(lambda: deadly.sent == 2, "the step sent again")
    assert volume(other.step(poses={d: pose(3)})) == 36
    deadly.end_server(2)
    with pytest.raises(errors.ServerEndedError) as caught:
        bad.result(PATIENCE)
    e = caught.value
    assert isinstance(e, ConnectionError) and e.code == ErrorCode.SERVER_ENDED and not e.retry
    assert e.object.startswith("scene ") and "step 2 " in e.message and "twice" in e.message and "what was running" in e.message
    assert volume(behind.result(PATIENCE)) == 24 + 12  # without what the bad one would have moved
    assert volume(scene.step(poses={b: pose(2)})) == 24 + 24
    assert volume(other.step()) == 36
    assert deadly.sent == 2


@pytest.mark.parametrize("announces", [True, False])
def test_a_server_that_announces_its_end_or_goes_on_does_not_count(client, fake, announces):
    scene, a, b = scene_of_two(client)
    deadly = Deadly(fake)
    asked, is_to_hang_up = [], threading.Event()

    def hook(kind, body):
        if kind != "GetStatus":
            return deadly(kind, body)
        asked.append(kind)
        if announces:
            raise Refusal(ErrorCode.SHUTTING_DOWN, "the server is shutting down")
        if is_to_hang_up.is_set():
            is_to_hang_up.clear()
            fake.hang_up()
        return "silence"

    fake.hook = hook
    bad = scene.submit(poses={b: pose(POISON)})
    for i in range(1, 4):
        wait_until(lambda: deadly.sent == i, f"the step sent {i} times")
        asked.clear()
        is_to_hang_up.set()
        is_told = False
        while not is_told:  # on a busy machine the question may expire before it is heard or the answer is
            with pytest.raises((TimeoutError, ConnectionError, errors.ShuttingDownError)) as e:
                client.status(timeout=0.2)
            is_told = isinstance(e.value, errors.ShuttingDownError) if announces else bool(asked)
        if announces:
            fake.crash()
            fake.start()
    wait_until(lambda: deadly.sent == 4, "the step sent once more")
    assert not bad.done()
    fake.crash()  # the client would wait for answers to what it asked


@pytest.mark.parametrize("kind, ask", [
    ("RegisterMesh", lambda client, scene, mesh, body: client.register_mesh(BOX + 1, FACES, name="deadly")),
    ("AddBody", lambda client, scene, mesh, body: scene.add_body(mesh, group=7)),
    ("Configure", lambda client, scene, mesh, body: scene.configure(method="voxtree")),
    ("ReplaceMesh", lambda client, scene, mesh, body: scene.replace_mesh(body, mesh))])
def test_other_work_is_not_sent_to_a_third_server_that_ends_over_it(client, fake, kind, ask):
    scene, a, b = scene_of_two(client)
    mesh = client.register_mesh(BOX, FACES)
    fake.has_meshes = True
    sent = []

    def deadly(asked, body):
        is_other = asked == "AddBody" and body["group"] != 7 or asked == "RegisterMesh" and body["name"] != "deadly"
        if asked != kind or is_other or len(sent) == 2:
            return None
        sent.append(asked)
        return "silence"

    fake.hook = deadly
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(ask, client, scene, mesh, a)
        for i in (1, 2):
            wait_until(lambda: len(sent) >= i, f"{kind} sent {i} times")
            fake.crash()
            fake.start()
        with pytest.raises(errors.ServerEndedError, match="worked on this"):
            asked.result(PATIENCE)
    assert scene.step(positions={a: full(1)}).contacts[0].volume == 24


def test_a_step_beside_one_that_ends_servers_is_told_from_it(client, fake, monkeypatch):
    """Both were in flight when the first server ended: then they are sent one after the other. A server that is at work on
    the bad one answers no step at all."""
    monkeypatch.setattr(_tables, "ALONE_S", PATIENCE)
    scene, a, b = scene_of_two(client)
    other, c, d = scene_of_two(client)
    deadly = Deadly(fake)
    held = []

    def hold(kind, body):
        is_stuck = deadly.stuck is not None and deadly.stuck[0] == fake.epoch
        if kind == "Step" and not is_poison(kind, body) and is_stuck:
            held.append(body)
            return "silence"
        return deadly(kind, body)

    fake.hook = hold
    bad, good = scene.submit(poses={b: pose(POISON)}), other.submit(poses={d: pose(3)})
    wait_until(lambda: held, "the step beside it")
    deadly.end_server(1)
    deadly.end_server(2)
    with pytest.raises(errors.ServerEndedError):
        bad.result(PATIENCE)
    assert volume(good.result(PATIENCE)) == 36 and len(held) == 1


def test_a_step_beside_one_that_is_not_answered_waits_a_moment_only(client, fake):
    scene, a, b = scene_of_two(client)
    other, c, d = scene_of_two(client)
    deadly = Deadly(fake)
    held = []

    def hold(kind, body):
        if kind == "Step" and not is_poison(kind, body) and not held:
            held.append(body)
            return "silence"
        return deadly(kind, body)

    fake.hook = hold
    bad, good = scene.submit(poses={b: pose(POISON)}), other.submit(poses={d: pose(3)})
    wait_until(lambda: held, "the step beside it")
    deadly.end_server(1)
    assert volume(good.result(PATIENCE)) == 36
    assert deadly.sent == 2 and not bad.done()


def test_a_scene_whose_restoring_ends_servers_is_left_out(client, fake):
    scene, a, b = scene_of_two(client)
    other, c, d = scene_of_two(client)
    sent = []

    def deadly(kind, body):
        if kind == "OpenScene" and body["key"] == scene._state.key and len(sent) < 2:
            sent.append(kind)
            return "silence"
        return None

    fake.hook = deadly
    fake.crash()
    fake.start()
    for i in (1, 2):
        wait_until(lambda: len(sent) == i, f"the scene opened again {i} times")
        fake.crash()
        fake.start()
    assert volume(other.step(poses={d: pose(3)})) == 36
    with pytest.raises(errors.ServerEndedError, match="restored this"):
        scene.step()
    fake.crash()
    fake.start()
    assert volume(other.step()) == 36
    assert volume(scene.step(poses={b: pose(1)})) == 12  # the next server is asked again


@pytest.mark.parametrize("code", [ErrorCode.TIME_LIMIT, ErrorCode.DEADLINE_EXCEEDED])
def test_a_step_that_takes_too_long_is_not_sent_again(client, fake, code):
    scene, a, b = scene_of_two(client)
    sent = []

    def refuse(kind, body):
        if is_poison(kind, body):
            sent.append(kind)
            scene_there = fake.scenes[body["scene"]]
            scene_there.sequence += 1  # as of every step that was begun
            raise Refusal(code, "cancelled while finding patches", object=f"scene {body['scene']}")

    fake.hook = refuse
    bad, behind = scene.submit(poses={b: pose(POISON)}), scene.submit(positions={a: full(1)})
    with pytest.raises(TimeoutError, match="finding patches") as caught:
        bad.result(PATIENCE)
    assert caught.value.code == code and not caught.value.retry
    assert volume(behind.result(PATIENCE)) == 24 and len(sent) == 1
    assert volume(scene.step(poses={b: pose(1)})) == 24 + 12
