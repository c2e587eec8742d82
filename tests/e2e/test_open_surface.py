"""Open surfaces that bound the volume behind them, over every interface."""

from __future__ import annotations

import json
import subprocess

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from contactd import errors
from geometry import box, moved
from http_api import Api

N = 4


def heightfield():
    """A level square of side 4 in z = 0, facing up."""
    xs = np.linspace(-2, 2, N + 1)
    vertices = np.array([(x, y, 0) for y in xs for x in xs])
    triangles = []
    for j in range(N):
        for i in range(N):
            a, c = j * (N + 1) + i, (j + 1) * (N + 1) + i
            triangles += [(a, a + 1, c + 1), (a, c + 1, c)]
    return vertices, np.array(triangles)


FIELD = heightfield()
CUBE = box((-0.5, -0.5, -0.5), (0.5, 0.5, 0.5))


def write_obj(file):
    file.write_text("".join("v %r %r %r\n" % tuple(map(float, v)) for v in FIELD[0]) +
                    "".join("f %d %d %d\n" % tuple(k + 1 for k in t) for t in FIELD[1]))


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        yield client


@pytest.mark.parametrize("settings", [{"method": "exact"}, {"method": "ldi", "pixel_size": 1 / 32}])
def test_python(client, settings):
    ground = client.register_mesh(*FIELD, open_direction=(0, 0, -1))
    assert ground.closing_vertices == 4 * N and ground.vertex_count == len(FIELD[0]) + 4 * N
    scene = client.open_scene(**settings)
    a = scene.add_body(ground, pose=np.eye(4))
    b = scene.add_body(client.register_mesh(*CUBE), pose=moved(0.2, 0.1, 0.25))
    (contact,) = scene.step(want=["frame", "gradient"]).contacts
    assert contact.volume == pytest.approx(0.25, rel=1e-3)
    assert contact.normal == pytest.approx([0, 0, -1], abs=1e-6)
    # Half over the edge, deep down: the wall is met as well.
    (contact,) = scene.step(poses={b: moved(2, 0, -1)}, want=["frame", "gradient"]).contacts
    assert contact.volume == pytest.approx(0.5, rel=1e-3)
    vertices, gradient = contact.gradient(a)
    assert vertices.max() < len(FIELD[0]) and (np.diff(vertices.astype(int)) > 0).all()
    assert gradient.sum(0) == pytest.approx(contact.generalized_gradient(a)[:3], abs=1e-6)
    assert gradient.sum(0)[0] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("settings", [{"method": "exact"}, {"method": "ldi", "pixel_size": 1 / 32}])
def test_a_deformable_surface(client, settings):
    """A plane that sinks and is stretched: volumes are boxes', and gradients move them."""
    scene = client.open_scene(**settings)
    a = scene.add_body(client.register_mesh(*FIELD, open_direction=(0, 0, -1)))
    scene.add_body(client.register_mesh(*CUBE), pose=moved(2, 0, 0.25))
    field = np.array(FIELD[0], dtype=float)
    for stretch, rise in ((1, 0), (1, 0.125), (1.125, -0.125), (0.875, 0.25)):
        result = scene.step(positions={a: field * [stretch, stretch, 1] + [0, 0, rise]}, want=["gradient", "frame"])
        (contact,) = result.contacts
        half = np.abs(field[:, 0]).max() * stretch
        wide, deep = min(half, 2.5) - 1.5, 0.25 + rise
        assert contact.volume == pytest.approx(wide * deep, rel=2e-3)
        vertices, gradient = contact.gradient(a)
        assert vertices.max() < len(field)
        # All up: the area. All aside: the wall's height.
        assert gradient.sum(0) == pytest.approx([deep if half < 2.5 else 0, 0, wide], abs=2e-3)
    with pytest.raises(errors.WrongLengthError):
        scene.step(velocities={a: np.zeros((len(field) + 4 * N, 3))})
    assert scene.step(velocities={a: np.ones((len(field), 3))}, viscosity=1).contacts


def test_refusals(client):
    with pytest.raises(errors.InvalidMeshError, match="close the holes"):
        client.register_mesh(*FIELD)
    with pytest.raises(errors.InvalidMeshError, match="faces along the open direction"):
        client.register_mesh(*FIELD, open_direction=(0, 0, 1))
    two_cubes = np.vstack([CUBE[0], np.add(CUBE[0], [3, 0, 0])]), np.vstack([CUBE[1], np.add(CUBE[1], len(CUBE[0]))])
    for closed in (CUBE, two_cubes):
        with pytest.raises(errors.InvalidMeshError, match="has no rim: it is closed, so leave out open_direction"):
            client.register_mesh(*closed, open_direction=(0, 0, -1))
    with pytest.raises(errors.InvalidArgumentError, match="max_hole"):
        client.register_mesh(*FIELD, open_direction=(0, 0, -1), repair=True, max_hole=1)
    for wrong in ((0, 0), (0, 0, 0), 5, np.float64(1), "abc", (0, 0, -1, 0)):
        with pytest.raises(errors.InvalidArgumentError, match="three numbers") as refused:
            client.register_mesh(*FIELD, open_direction=wrong)
        assert refused.value.field == "open_direction"
    with pytest.raises(errors.InvalidArgumentError, match="open_direction: expected a number, got 'a'"):
        client.register_mesh(*FIELD, open_direction=("a", 0, 1))
    ground = client.register_mesh(*FIELD, open_direction=(0, 0, -1))
    scene = client.open_scene()
    a = scene.add_body(ground)
    assert a.vertices == len(FIELD[0])
    with pytest.raises(errors.WrongLengthError, match=f"{len(FIELD[0])}"):  # closing vertices are not given
        scene.step(positions={a: np.zeros((ground.vertex_count, 3))})


def test_contactctl_and_http(server, tmp_path):
    file = tmp_path / "field.obj"
    write_obj(file)

    def add(*options):
        return subprocess.run([*CONTACTCTL, "--server", server.stream, "mesh", "add", file, *options],
                              capture_output=True, text=True, timeout=60 * SLOW)

    assert add().returncode == 3
    (mesh,) = json.loads(add("--open-direction", "0 0 -1", "-o", "json").stdout)
    assert mesh["closing_vertices"] == 4 * N
    api = Api(server.http)
    answer = api("POST", "/v1/meshes?open_direction=0,0,-2", file.read_bytes())
    assert answer.status == 200 and answer.json["hash"] == mesh["hash"]
    assert api.get(f"/v1/meshes/{mesh['hash']}")["closing_vertices"] == 4 * N
    for query in ("open_direction=0,0", "open_direction=0,0,0", "open_direction=a,b,c", "open_direction=0,0,1",
                  "open_direction=0,0,-1,0", "open_direction=0,0,nan"):
        assert api("POST", f"/v1/meshes?{query}", file.read_bytes()).status in (400, 422), query


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_restarted_server_has_it_again(make_server, tmp_path, is_stored):
    folder = tmp_path / "state"
    options = ("--state-dir", str(folder)) if is_stored else ()
    server = make_server(*options)
    file = tmp_path / "field.obj"
    write_obj(file)
    with contactd.connect(server.stream, timeout=60 * SLOW) as client:
        ground = client.register_mesh(*FIELD, open_direction=(0, 0, -1))
        of_file = client.register_mesh_file(file, open_direction=(0.5, 0, -2))
        scene = client.open_scene()
        scene.add_body(ground, pose=np.eye(4))
        scene.add_body(client.register_mesh(*CUBE), pose=moved(0, 0, 0.25))
        other = client.open_scene()
        soft = other.add_body(ground)
        other.add_body(client.register_mesh(*CUBE), pose=moved(0, 0, 0.25))
        raised = np.array(FIELD[0]) + [0, 0, 0.125]
        assert scene.step().contacts[0].volume == pytest.approx(0.25, rel=1e-3)
        assert other.step(positions={soft: raised}).contacts[0].volume == pytest.approx(0.375, rel=1e-3)
        server.stop()
        server = make_server(*options, "--stream", server.stream)
        assert scene.step().contacts[0].volume == pytest.approx(0.25, rel=1e-3)
        assert other.step().contacts[0].volume == pytest.approx(0.375, rel=1e-3)  # the client sends them again
        api = Api(server.http)
        assert api.get(f"/v1/meshes/{of_file.hash}")["closing_vertices"] == 4 * N
        assert api.gauge("contactd_state_restored_total") == (3 if is_stored else 0)
    if is_stored:
        at = folder / "meshes" / ground.hash
        stored = at.read_bytes()
        server.stop()
        at.write_bytes(stored[:112] + np.array([0, 0, 1.0]).tobytes() + stored[136:])  # another direction
        server = make_server(*options)
        Api(server.http).refused("GET", f"/v1/meshes/{ground.hash}", 404, "NOT_FOUND")
        assert at.with_suffix(".damaged").exists()


@pytest.mark.parametrize("method", ["exact", "ldi"])
def test_repaired(client, method):
    """A field whose triangles have vertices of their own, some of them turned, one there twice, all of them turned: the same
    surface, with its holes."""
    vertices = np.array([FIELD[0][k] for triangle in FIELD[1] for k in triangle])
    triangles = np.arange(len(vertices)).reshape(-1, 3)
    torn = np.concatenate([triangles, triangles[5:6]])
    torn[3::4] = torn[3::4, ::-1]
    joined = client.register_mesh(*FIELD, open_direction=(0, 0, -1))
    with pytest.raises(errors.InvalidMeshError, match="repair|several parts"):
        client.register_mesh(vertices, torn, open_direction=(0, 0, -1))
    cube = client.register_mesh(*CUBE)
    for faces in (torn, torn[:, ::-1]):
        mesh = client.register_mesh(vertices, faces, open_direction=(0, 0, -1), repair=True)
        assert mesh.volume == pytest.approx(joined.volume, rel=1e-6) and mesh.closing_vertices == 4 * N
        assert mesh.repair.welded_vertices == len(vertices) - len(FIELD[0]) and mesh.repair.filled_holes == 0
        assert mesh.repair.duplicate_triangles == 1 and mesh.repair.turned_triangles > 0
        found = [client.overlap(m, cube, pose_b=moved(1.75, 0.1, 0.25), method=method).volume for m in (mesh, joined)]
        assert found[0] == pytest.approx(found[1], rel=1e-9) and found[1] > 0.1
    whole = client.register_mesh(*FIELD, open_direction=(0, 0, -1), repair=True)
    assert whole.hash == joined.hash and not whole.repair.changed
    pierced = np.delete(FIELD[1], [2 * N + 3], axis=0)  # a triangle within is missing: the hole stays, and is a shaft
    assert client.register_mesh(FIELD[0], pierced, open_direction=(0, 0, -1), repair=True).repair.filled_holes == 0
