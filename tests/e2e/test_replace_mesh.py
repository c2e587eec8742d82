"""A body gets another mesh in mid-run, over the stream, over HTTP and across a restart of the server."""

from __future__ import annotations

import contactd
import numpy as np
import pytest
from conftest import SLOW
from contactd import errors
from geometry import box, icosphere, moved
from http_api import Api

CUBE = box((-0.5, -0.5, -0.5), (0.5, 0.5, 0.5))
SLAB = box((-0.5, -0.5, -0.25), (0.5, 0.5, 0.25))
BALL = icosphere(0.5, 2)[0].astype(np.float32), icosphere(0.5, 2)[1]


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        yield client


def volume(scene, **step):
    return sum(c.volume for c in scene.step(**step).contacts)


def test_rigid(client):
    cube, slab = client.register_mesh(*CUBE), client.register_mesh(*SLAB)
    scene = client.open_scene()
    a, b = scene.add_body(cube, pose=np.eye(4)), scene.add_body(cube, pose=moved(0.75))
    assert volume(scene) == pytest.approx(0.25)
    scene.replace_mesh(b, slab)
    assert volume(scene) == pytest.approx(0.125)  # at its pose
    assert volume(scene, poses={b: moved(0.5)}) == pytest.approx(0.25)
    scene.replace_mesh(a, slab)
    scene.replace_mesh(b, cube)
    assert volume(scene) == pytest.approx(0.25) and scene.bodies == [a, b]
    assert {m["hash"]: m["bodies"] for m in client.meshes()} == {cube.hash: 1, slab.hash: 1}


def test_deformable_and_stale_positions(client):
    cube, ball = client.register_mesh(*CUBE), client.register_mesh(*BALL)
    scene = client.open_scene()
    a, b = scene.add_body(cube), scene.add_body(cube, pose=moved(10))
    assert volume(scene, positions={a: CUBE[0] + [10, 0, 0]}) == pytest.approx(1)
    before = scene.submit(positions={a: CUBE[0] + [9.5, 0, 0]})  # of the old size, submitted before
    scene.replace_mesh(a, ball)
    assert sum(c.volume for c in before.result(30 * SLOW).contacts) == pytest.approx(0.5)
    assert a.vertices == len(BALL[0])
    assert volume(scene) == 0  # where the ball was registered
    full = volume(scene, positions={a: BALL[0] + [10, 0, 0]})
    assert 0.4 < full < np.pi / 6
    with pytest.raises(errors.WrongLengthError, match="positions"):
        scene.step(positions={a: CUBE[0]})
    scene.replace_mesh(a, cube)
    with pytest.raises(errors.OutOfRangeError):
        scene.step(indexed={a: ([10], np.zeros((1, 3)))})
    vertices, _ = scene.step(positions={a: CUBE[0] + [10, 0, 0]}).contacts[0].gradient(a)
    assert vertices.max() < 8


def test_refused(client):
    cube = client.register_mesh(*CUBE)
    scene, other = client.open_scene(), client.open_scene()
    floor, body = scene.add_half_space([0, 0, 1]), scene.add_body(cube, pose=np.eye(4))
    with pytest.raises(errors.InvalidArgumentError, match="half-space"):
        scene.replace_mesh(floor, cube)
    with pytest.raises(errors.NotFoundError):
        other.replace_mesh(body, cube)
    with pytest.raises(errors.InvalidArgumentError, match="Mesh"):
        scene.replace_mesh(body, "cube")
    gone = client.register_mesh(*BALL)
    gone.remove()
    with pytest.raises(errors.StaleHandleError):
        scene.replace_mesh(body, gone)
    assert volume(scene) == pytest.approx(0.5)


def test_remembered_across_a_restart(make_server):
    server = make_server()
    with contactd.connect(server.stream, timeout=60 * SLOW) as client:
        cube, ball = client.register_mesh(*CUBE), client.register_mesh(*BALL)
        scene = client.open_scene()
        soft, hard = scene.add_body(cube), scene.add_body(cube, pose=moved(0.25))
        scene.step(positions={soft: CUBE[0] * 0.5})
        scene.replace_mesh(soft, ball)
        x = np.array(BALL[0], np.float32)
        x[:9] *= 0.75
        calm = volume(scene, indexed={soft: (np.arange(9), x[:9])})
        server.restart(hard=True)
        assert volume(scene) == calm
        assert volume(scene, positions={soft: x}) == calm
        server.restart(hard=True)
        scene.replace_mesh(hard, ball)
        reference = client.open_scene()
        reference.add_body(ball)
        reference.add_body(ball, pose=moved(0.25))
        assert volume(scene, positions={soft: BALL[0]}) == volume(reference)


def test_http(server):
    api = Api(server.http)
    cube, scene = api.box(), api.scene()
    first = api.post(f"{scene}/bodies", {"mesh": cube["id"], "kind": "rigid"})
    second = api.post(f"{scene}/bodies", {"mesh": cube["id"], "pose": [1, 0, 0, 0.75, 0, 1, 0, 0, 0, 0, 1, 0]})
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        slab = client.register_mesh(*SLAB)
        path = f"{scene}/bodies/{second['id']}"
        assert api("PATCH", path, {"mesh": slab.hash}).json["mesh_hash"] == slab.hash
        found = api.get(path)
        assert found["id"] == second["id"] and found["pose"][3] == 0.75 and found["vertices"] == 8
        (contact,) = api.post(f"{scene}/step", {}, status=200)["contacts"]
        assert contact["bodies"] == [first["id"], second["id"]]
    api.refused("PATCH", path, 400, "INVALID_ARGUMENT", {}, field="mesh")
    api.refused("PATCH", path, 400, "INVALID_ARGUMENT", {"mesh": cube["id"], "kind": "rigid"}, field="kind")
    api.refused("PATCH", path, 404, "NOT_FOUND", {"mesh": 10**6})
    api.refused("PATCH", f"{scene}/bodies/99", 404, "NOT_FOUND", {"mesh": cube["id"]})
    assert api("PATCH", path, {"mesh": cube["id"]}).json["mesh"] == cube["id"]
