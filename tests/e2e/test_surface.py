"""The contact surface through the stream, HTTP and contactctl, with the bits of the engine in this process."""

from __future__ import annotations

import json
import pickle
import subprocess

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from contactd import errors
from geometry import UNIT_BOX, icosphere, moved
from http_api import Api

PATIENT = 20 * SLOW
COLUMNS = ("vertices", "polygons", "depth", "pressure", "center", "normal", "area", "slip", "force", "torque", "contact")


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        yield client


def a_scene(client):
    """A box 1 cm deep in a floor, which slides and turns, and a ball on it."""
    scene = client.open_scene(law="pressure", stiction_speed=1e-2)
    mesh, ball = client.register_mesh(*UNIT_BOX), client.register_mesh(*icosphere(1.0, 3))
    bodies = [scene.add_half_space((0, 0, 1), 0.0, friction=0.6),
              scene.add_body(mesh, moved(0, 0, 0.49), modulus=1e8, friction=0.15, dissipation=1.0),
              scene.add_body(ball, moved(0, 0, 1.97))]
    result = scene.step(velocities={bodies[1]: (1, 2, -0.1, 0, 0, 1), bodies[2]: (0, 0, -1, 0.5, 0, 0)}, want="surface")
    return scene, bodies, result


def test_sums(client):
    scene, bodies, result = a_scene(client)
    surface = result.surface
    assert len(result) == 2 and surface.polygons[0] == 0 and surface.polygons[-1] == len(surface.vertices) == len(surface.depth)
    for i, contact in enumerate(result.contacts):
        own = contact.surface
        mine = surface.contact == i
        assert len(own) == mine.sum() > 0 and np.array_equal(own.area, surface.area[mine]) and (own.contact == i).all()
        assert own.polygons[-1] == len(own.vertices)
        wrench = contact.wrench(contact.bodies[0])
        origin = np.zeros(3) if contact.bodies[0] == bodies[0] else np.array([0, 0, 0.49])
        size = np.abs(wrench).sum()
        assert own.force.sum(0) == pytest.approx(wrench[:3], abs=1e-11 * size)
        torque = own.torque.sum(0) + np.cross(own.center - origin, own.force).sum(0)
        assert torque == pytest.approx(wrench[3:], abs=1e-11 * size)
    box = next(c for c in result.contacts if bodies[0] in c.bodies)
    assert box.surface.area.sum() == pytest.approx(1, rel=1e-6)
    assert box.surface.depth == pytest.approx(0.01, rel=1e-5)
    assert box.surface.pressure == pytest.approx(1e8 * 0.01 * 1.1, rel=1e-5)  # approached at 0.1 m/s: 1 + d v
    slip = np.array([1.0, 2.0, 0.0]) + np.cross((0, 0, 1), box.surface.center - (0, 0, 0.49))
    assert box.surface.slip == pytest.approx(slip * [1, 1, 0], abs=1e-9)
    assert np.array_equal(pickle.loads(pickle.dumps(result)).surface.force, surface.force)


def test_the_bits_are_the_engines(client, engine):
    theirs, ours = a_scene(client)[2].surface, a_scene(engine)[2].surface
    for name in COLUMNS:
        assert np.array_equal(getattr(theirs, name), getattr(ours, name)), name
    assert np.array_equal(pickle.loads(pickle.dumps(a_scene(engine)[2])).surface.force, ours.force)


def test_what_a_step_does_not_have(client):
    scene = client.open_scene(method="exact")
    body = scene.add_body(client.register_mesh(*UNIT_BOX), moved(0, 0, 0.49))
    scene.add_half_space((0, 0, 1), 0.0)
    result = scene.step()
    for of in (result, result.contacts[0]):
        with pytest.raises(errors.InvalidArgumentError, match="surface"):
            of.surface
    surface = scene.step(want=("frame", "surface")).surface
    assert surface.area.sum() == pytest.approx(1, rel=1e-6) and surface.depth.max() == pytest.approx(0.01, rel=1e-5)
    for name, wanted in (("pressure", "law"), ("force", "law"), ("torque", "law"), ("slip", "velocities")):
        with pytest.raises(errors.InvalidArgumentError, match=wanted):
            getattr(surface, name)
    empty = scene.step(poses={body: moved(0, 0, 3)}, want="surface")
    assert len(empty) == 0 and len(empty.surface) == 0 and empty.surface.vertices.shape == (0, 3) and len(empty.surface.pressure) == 0


def test_refused(client):
    scene = client.open_scene(method="ldi", resolution=16)
    scene.add_body(client.register_mesh(*UNIT_BOX), moved(0, 0, 0.49))
    with pytest.raises(errors.InvalidArgumentError, match='gives no contact surface.*"exact"'):
        scene.step(want="surface")
    scene = client.open_scene(method="exact")
    scene.add_body(client.register_mesh(*UNIT_BOX), self_contact=True)
    with pytest.raises(errors.UnsupportedError, match="self_contact"):
        scene.step(want="surface")


def test_over_http(server):
    api = Api(server.http)
    mesh = api.post("/v1/meshes", {"vertices": np.asarray(UNIT_BOX[0]).tolist(), "triangles": np.asarray(UNIT_BOX[1]).tolist()}, 200)["id"]
    scene = f"/v1/scenes/{api.post('/v1/scenes', {'law': 'pressure'})['id']}"
    api.post(f"{scene}/bodies", {"kind": "half_space", "normal": [0, 0, 1], "offset": 0})
    api.post(f"{scene}/bodies", {"mesh": mesh, "pose": np.asarray(moved(0, 0, 0.49))[:3].ravel().tolist(), "modulus": 1e6})
    (contact,) = api.post(f"{scene}/step", {"want": ["surface"]}, status=200)["contacts"]
    surface = contact["surface"]
    assert sum(surface["areas"]) == pytest.approx(1, rel=1e-6) and surface["offsets"][-1] == len(surface["vertices"])
    assert np.sum(surface["forces"], 0) == pytest.approx(contact["wrench"][0][:3], abs=1e-7)
    assert len(surface["depths"]) == len(surface["pressures"]) == len(surface["vertices"])
    assert "surface" not in api.post(f"{scene}/step", {}, status=200)["contacts"][0]
    api.refused("POST", f"{scene}/step", 400, "INVALID_ARGUMENT", {"want": ["film"]}, field="want[0]")


def test_contactctl(server, tmp_path):
    (tmp_path / "box.obj").write_text("".join(f"v {x} {y} {z}\n" for x, y, z in UNIT_BOX[0])
                                      + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in UNIT_BOX[1]))
    command = [*CONTACTCTL, "--server", server.stream, "contact", tmp_path / "box.obj", "--half-space", "0 0 1 0.5", "--law", "pressure"]

    def out(*more):
        done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=PATIENT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "polygons" in out("--surface") and "polygons" not in out()
    (contact,) = json.loads(out("--surface", "-o", "json"))["contacts"]
    assert np.sum(contact["surface"]["forces"], 0) == pytest.approx(contact["wrench"][0][:3], rel=1e-6)
