"""Contacts of a body with itself, over every interface: one mesh of two shells against the two as a pair, and refusals."""

from __future__ import annotations

import json
import os
import subprocess

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from contactd import errors
from fake_server import FakeServer
from geometry import box, icosphere, moved
from http_api import Api

PITCH = 1 / 32


def merge(*meshes):
    first = np.cumsum([0, *(len(vertices) for vertices, _ in meshes)])
    return np.concatenate([v for v, _ in meshes]), np.concatenate([np.asarray(t) + k for (_, t), k in zip(meshes, first)])


A = box((-0.5, -0.5, -0.5), (0.5, 0.5, 0.5))
B = box((0.25, -0.125, -0.375), (1.25, 0.375, 0.375))
BOTH = merge(A, B)
VOLUME = 0.25 * 0.5 * 0.75


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        yield client


@pytest.mark.parametrize("kind", ["rigid", "deformable"])
def test_two_shells_are_the_pair(client, kind):
    scene = client.open_scene(pixel_size=PITCH, stiffness=2.0)
    body = scene.add_body(client.register_mesh(*BOTH), kind=kind, self_contact=True)
    (contact,) = scene.step(want=["frame", "gradient", "friction", "forces"]).contacts
    assert contact.bodies == (body, body) and contact.index == 0
    assert contact.volume == pytest.approx(VOLUME, rel=1e-9)
    assert contact.normal == pytest.approx([1, 0, 0], abs=1e-9)
    assert contact.area == pytest.approx(0.5 * 0.75) and contact.depth == pytest.approx(0.25)
    vertices, gradient = contact.gradient(body)
    assert np.abs(gradient.sum(0)).max() < 1e-12  # over the whole body; each side has a force
    assert np.abs(contact.generalized_gradient(body)).max() < 1e-12
    sides = [contact.side_vertices(side) for side in (0, 1)]
    assert set(sides[0]) <= set(range(8, 16)) and set(sides[1]) <= set(range(8))
    assert sorted([*sides[0], *sides[1]]) == list(vertices)
    of_b = gradient[np.isin(vertices, sides[0])].sum(0)
    assert of_b == pytest.approx([-0.5 * 0.75, 0, 0], abs=1e-9)

    pair_scene = client.open_scene(pixel_size=PITCH)
    a, b = (pair_scene.add_body(client.register_mesh(*mesh), kind=kind) for mesh in (A, B))
    (pair,) = pair_scene.step(want=["frame", "gradient"]).contacts
    for shell, first in ((a, 0), (b, 8)):
        at, expected = pair.gradient(shell)
        dense = np.zeros((16, 3))
        dense[vertices] = gradient
        assert dense[at + first] == pytest.approx(expected, abs=1e-9)
    assert contact.volumes == pytest.approx(pair.volumes, rel=1e-9)

    along = np.random.default_rng(1).normal(size=(16, 3))
    product = contact.stiffness_product({body: along})[body]
    dense = np.zeros((16, 3))
    dense[vertices] = gradient
    assert product == pytest.approx(-2 * dense * np.sum(dense * along))


def test_only_those_that_ask(client):
    mesh = client.register_mesh(*BOTH)
    scene = client.open_scene(pixel_size=PITCH)
    a, b = scene.add_body(mesh, pose=np.eye(4)), scene.add_body(mesh, pose=moved(5), self_contact=True, group=0, mask=0)
    whole = scene.add_body(client.register_mesh(*icosphere(0.5, 2)), pose=moved(0, 9), self_contact=True)
    (contact,) = scene.step().contacts
    assert contact.bodies == (b, b)
    scene.remove_body(whole)
    assert scene.step(poses={b: moved(0.5, 7)}).contacts[0].volume == pytest.approx(VOLUME, rel=1e-6)
    scene.remove_body(b)
    assert len(scene.step().contacts) == 0
    assert a in scene.bodies


def test_auto_is_exact(client):
    """Exact finds it with a bound, and is what a scene without a method runs."""
    mesh = client.register_mesh(*BOTH)
    scene = client.open_scene(stiffness=2.0)
    body = scene.add_body(mesh, self_contact=True)
    result = scene.step(want=["frame", "gradient", "forces"])
    (contact,) = result.contacts
    assert result.method == "exact" and contact.bodies == (body, body)
    assert abs(contact.volume - VOLUME) <= contact.error_bound < 1e-10 and contact.max_winding == 1
    assert contact.normal == pytest.approx([1, 0, 0], abs=1e-9) and contact.depth == pytest.approx(0.25)
    sides = [contact.side_vertices(side) for side in (0, 1)]
    assert set(sides[0]) <= set(range(8, 16)) and set(sides[1]) <= set(range(8))

    pair_scene = client.open_scene()
    a, b = (pair_scene.add_body(client.register_mesh(*mesh), kind="deformable") for mesh in (A, B))
    (pair,) = pair_scene.step(want=["frame", "gradient"]).contacts
    vertices, gradient = contact.gradient(body)
    dense = np.zeros((16, 3))
    dense[vertices] = gradient
    for shell, first in ((a, 0), (b, 8)):
        at, expected = pair.gradient(shell)
        assert dense[at + first] == pytest.approx(expected, abs=1e-9)


def test_the_method_refuses_by_name(client):
    mesh = client.register_mesh(*BOTH)
    scene = client.open_scene(method="voxtree")
    with pytest.raises(errors.ContactdError) as e:
        scene.add_body(mesh, kind="rigid", self_contact=True)
    assert e.value.code.name == "UNSUPPORTED" and e.value.field == "self_contact"
    assert 'method "voxtree" on backend "cpu" finds no contact of a body with itself' in e.value.message
    assert scene.bodies == [] and len(scene.step().contacts) == 0
    scene.configure(method="auto")
    body = scene.add_body(mesh, kind="rigid", self_contact=True)
    for settings in ({"method": "voxtree"}, {"patches": True}):
        with pytest.raises(errors.ContactdError) as e:
            scene.configure(**settings)
        assert e.value.code.name == "UNSUPPORTED" and e.value.field == "self_contact"
    (contact,) = scene.step(want=["frame", "inertia"]).contacts
    assert contact.bodies == (body, body)
    size = (0.25, 0.5, 0.75)  # of the overlap, a box
    expected = [VOLUME / 12 * (size[1] ** 2 + size[2] ** 2), VOLUME / 12 * (size[0] ** 2 + size[2] ** 2),
                VOLUME / 12 * (size[0] ** 2 + size[1] ** 2)]
    assert np.diag(contact.inertia) == pytest.approx(expected, rel=1e-9)


def test_an_older_server_is_found_out():
    """It ignores the wish: the client takes the body out again rather than compute without."""
    fake = FakeServer()
    try:
        with contactd.connect(fake.address, timeout=30 * SLOW) as client:
            scene = client.open_scene()
            with pytest.raises(errors.ContactdError) as e:
                scene.add_body(client.register_mesh(*A), self_contact=True)
            assert e.value.code.name == "UNSUPPORTED" and e.value.field == "self_contact"
            assert scene.bodies == []
            (state,) = fake.scenes.values()
            assert state.removed == [1]
    finally:
        fake.close()


def test_after_a_restart(make_server):
    server = make_server()
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        scene = client.open_scene(pixel_size=PITCH)
        body = scene.add_body(client.register_mesh(*BOTH), self_contact=True)
        before = scene.step().contacts[0].volume
        server.stop()
        server.start()
        (contact,) = scene.step().contacts
        assert contact.bodies == (body, body) and contact.volume == before


def test_http(server):
    api = Api(server.http)
    vertices, triangles = (np.asarray(x).tolist() for x in BOTH)
    mesh = api("POST", "/v1/meshes", {"vertices": vertices, "triangles": triangles}).json["id"]
    scene = api.scene(pixel_size=PITCH)
    body = api.post(f"{scene}/bodies", {"mesh": mesh, "kind": "rigid", "self_contact": True})
    other = api.post(f"{scene}/bodies", {"mesh": mesh, "kind": "rigid", "self_contact": False, "group": 0})
    assert (body["self_contact"], other["self_contact"]) == (True, False)
    assert [b["self_contact"] for b in api.get(f"{scene}/bodies")["bodies"]] == [True, False]
    (contact,) = api.post(f"{scene}/step", {"want": ["frame", "gradient"]}, 200)["contacts"]
    assert contact["bodies"] == [body["id"], body["id"]]
    assert contact["volume"] == pytest.approx(VOLUME, rel=1e-9)
    assert contact["gradient_nonzeros"] == [8, 4]
    forces = np.array(contact["generalized_gradient"])
    assert forces[0] == pytest.approx(-forces[1], abs=1e-12) and forces[0][0] == pytest.approx(-0.375)
    api.refused("POST", f"{scene}/bodies", 400, "INVALID_ARGUMENT", {"mesh": mesh, "self_contact": 1}, field="self_contact")
    exact = api.scene(method="exact")
    api.post(f"{exact}/bodies", {"mesh": mesh, "self_contact": True})
    answer = api.post(f"{exact}/step", {"want": ["frame"]}, 200)
    assert answer["method"] == "exact" and answer["contacts"][0]["volume"] == pytest.approx(VOLUME, rel=1e-9)
    patches = api.scene(patches=True)
    problem = api.refused("POST", f"{patches}/bodies", 501, "UNSUPPORTED", {"mesh": mesh, "self_contact": True},
                          field="self_contact")
    assert "patches" in problem["detail"]


def test_contactctl(server, binaries, tmp_path):
    def run(*arguments, expect=0):
        done = subprocess.run([*CONTACTCTL, "--server", server.stream, "contact", *map(str, arguments)],
                              capture_output=True, text=True, timeout=60 * SLOW, env=dict(os.environ))
        assert done.returncode == expect, done.stderr
        return done.stdout if expect == 0 else done.stderr

    files = []
    for name, (vertices, triangles) in (("both", BOTH), ("a", A)):
        files.append(tmp_path / f"{name}.off")
        files[-1].write_text(f"OFF\n{len(vertices)} {len(triangles)} 0\n" + "".join("%g %g %g\n" % tuple(v) for v in vertices)
                             + "".join("3 %d %d %d\n" % tuple(t) for t in triangles))
    both, a = files
    out = json.loads(run(both, "--self", "--pixel-size", PITCH, "-o", "json"))
    (contact,) = out["contacts"]
    assert contact["bodies"] == [1, 1] and contact["volume"] == pytest.approx(VOLUME, rel=1e-9)
    assert len(out["bodies"]) == 1 and out["method"] == "ldi"
    text = run(both, "--self", "--pixel-size", PITCH)
    assert "body 1 overlaps itself" in text and "(pushes part 1 out)" in text and "gradient   part 2" in text
    pose = "1 0 0 0  0 1 0 0  0 0 1 0.5"
    out = json.loads(run(both, a, "--self", "--pose-b", pose, "--pixel-size", PITCH, "-o", "json"))
    assert [c["bodies"] for c in out["contacts"]] == [[1, 1], [1, 2]]
    assert "or contact A --self" in run(both, expect=2)
    assert "no file B" in run(both, "--self", "--pose-b", pose, expect=2)
    for method in ([], ["--method", "exact"]):
        out = json.loads(run(both, "--self", *method, "-o", "json"))
        (contact,) = out["contacts"]
        assert out["method"] == "exact" and abs(contact["volume"] - VOLUME) <= contact["error_bound"]
    assert "self_contact" in run(both, "--self", "--patches", expect=3)
