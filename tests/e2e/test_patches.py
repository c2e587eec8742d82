"""Patches: each connected piece of an intersection is a contact of its own, through both clients and HTTP."""
import json
import os
import subprocess

import numpy as np
import pytest

import contactd
from contactd import errors
from conftest import CONTACTCTL, SLOW
from http_api import Api

BOX = np.array([[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1)], float)
FACES = np.array([[0, 3, 1], [0, 2, 3], [4, 5, 7], [4, 7, 6], [0, 1, 5], [0, 5, 4], [2, 7, 3], [2, 6, 7], [0, 4, 6],
                  [0, 6, 2], [1, 3, 7], [1, 7, 5]], np.uint32)


def boxes(*corners):
    """One mesh of several boxes, each from `lo` to `hi`."""
    vertices = [np.asarray(lo) + BOX * (np.asarray(hi) - lo) for lo, hi in corners]
    return np.concatenate(vertices), np.concatenate([FACES + 8 * i for i in range(len(corners))])


LEGS = boxes(([0, 0, 0], [1, 1, 3]), ([4, 0, 0], [5, 1, 4]), ([8, 0, 0], [9, 1, 2]))
BAR = boxes(([-1, 0.25, 1], [12, 0.75, 2.5]))
VOLUMES = [0.75, 0.75, 0.5]  # of the bar's part in the legs


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as c:
        yield c


@pytest.fixture
def api(server):
    return Api(server.http)


def add(scene, client):
    return [scene.add_body(client.register_mesh(*mesh), pose=np.eye(4)) for mesh in (LEGS, BAR)]


def test_python(client):
    scene = client.open_scene(patches=True)
    assert scene.patches and (scene.method, scene.running_method) == ("auto", "exact")
    bodies = add(scene, client)
    result = scene.step(want="all")
    assert [c.index for c in result.contacts] == [0, 1, 2]
    assert [c.volume for c in result.contacts] == pytest.approx(VOLUMES, abs=1e-9)
    assert sorted(c.center[0] for c in result.contacts) == pytest.approx([0.5, 4.5, 8.5])
    scene.configure(patches=False)
    (whole,) = scene.step(want="all").contacts
    assert not scene.patches and whole.volume == pytest.approx(sum(VOLUMES))
    for body, mesh in zip(bodies, (LEGS, BAR)):
        total, expected = np.zeros_like(mesh[0]), np.zeros_like(mesh[0])
        for contact in result.contacts:
            vertices, gradient = contact.gradient(body)
            total[vertices] += gradient
        vertices, gradient = whole.gradient(body)
        expected[vertices] += gradient
        assert total == pytest.approx(expected, abs=1e-11)
        wrench = sum(c.generalized_gradient(body) for c in result.contacts)
        assert wrench == pytest.approx(whole.generalized_gradient(body), abs=1e-10)


def test_refused_by_name(client):
    for settings in ({"method": "ldi"}, {"resolution": 16}, {"pixel_size": 0.1}):
        with pytest.raises(errors.InvalidArgumentError, match="patches") as refused:
            client.open_scene(patches=True, **settings)
        assert refused.value.field == "patches"
    scene = client.open_scene(method="exact", patches=True)
    with pytest.raises(errors.InvalidArgumentError, match='"ldi" takes no patches.*choose method "exact"'):
        scene.configure(method="ldi")
    assert scene.info()["settings"]["patches"] and scene.method == "exact"
    scene.configure(method="ldi", patches=False)
    assert (scene.method, scene.patches) == ("ldi", False)


def test_a_restart_keeps_patches(fresh_server):
    with contactd.connect(fresh_server.stream, timeout=30 * SLOW) as client:
        scene = client.open_scene(patches=True)
        add(scene, client)
        for restarted in (False, True):
            if restarted:
                fresh_server.restart()
            assert len(scene.step().contacts) == 3
        assert client.reconnects >= 1  # more where the connection stalled while the scene was made again


def test_http(api):
    scene = api.scene(patches=True)
    assert api.get(scene)["patches"] is True
    for vertices, triangles in (LEGS, BAR):
        mesh = api("POST", "/v1/meshes", {"vertices": vertices.tolist(), "triangles": triangles.tolist()}).json["id"]
        api.post(f"{scene}/bodies", {"mesh": mesh, "pose": np.eye(4)[:3].flatten().tolist()})
    contacts = api.post(f"{scene}/step", {}, 200)["contacts"]
    assert [c["index"] for c in contacts] == [0, 1, 2]
    assert [c["volume"] for c in contacts] == pytest.approx(VOLUMES, abs=1e-9)
    assert api("PATCH", scene, {"patches": False}).json["patches"] is False
    assert len(api.post(f"{scene}/step", {}, 200)["contacts"]) == 1


def test_contactctl(server, client, tmp_path):
    for name, (vertices, triangles) in (("legs.obj", LEGS), ("bar.obj", BAR)):
        text = "".join("v %r %r %r\n" % tuple(v) for v in vertices.tolist())
        (tmp_path / name).write_text(text + "".join("f %d %d %d\n" % tuple(t + 1) for t in triangles))

    def run(*args, code=0):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CONTACTD_")}
        done = subprocess.run([*CONTACTCTL, "--server", server.stream, *map(str, args)], capture_output=True,
                              text=True, timeout=60 * SLOW, env=clean)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    files = [tmp_path / "legs.obj", tmp_path / "bar.obj"]
    contacts = json.loads(run("contact", *files, "--method", "exact", "--patches", "-o", "json"))["contacts"]
    assert [c["index"] for c in contacts] == [0, 1, 2]
    assert [c["volume"] for c in contacts] == pytest.approx(VOLUMES, abs=1e-9)
    text = run("contact", *files, "--patches")
    assert all(f"patch {i}\n" in text for i in range(3))
    assert "patch" not in run("contact", *files)
    assert "takes no patches" in run("contact", *files, "--method", "ldi", "--patches", code=3)
    scene = client.open_scene(name="patches by contactctl")
    assert json.loads(run("scene", "set", scene.id, "--patches", "-o", "json"))["patches"] is True
    assert json.loads(run("scene", "set", scene.id, "--no-patches", "-o", "json"))["patches"] is False
    assert "exclude each other" in run("scene", "set", scene.id, "--no-patches", "--patches", code=2)
