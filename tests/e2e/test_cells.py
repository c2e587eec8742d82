"""Cells: contacts divided by a grid of cubes that is fixed in the world, through both clients and HTTP."""
import json
import os
import subprocess

import numpy as np
import pytest

import contactd
from contactd import errors
from conftest import CONTACTCTL, SLOW
from http_api import Api
from test_patches import boxes

A = boxes(([0, 0, 0], [1, 1, 1]))
B = boxes(([0.25, 0, 0.5], [1.25, 1, 1.5]))  # they share [0.25, 1] x [0, 1] x [0.5, 1]
LO, HI = np.array([0.25, 0, 0.5]), np.array([1, 1, 1])
SIZE = 0.375
SETTINGS = {"pixel_size": 0.03125, "cell_size": SIZE}  # walls and faces lie between rays: volumes are exact


def sides(cell):
    """Of the part of the intersection in a cell."""
    at = np.asarray(cell)
    return np.minimum(HI, SIZE * (at + 1)) - np.maximum(LO, SIZE * at)


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as c:
        yield c


@pytest.fixture
def api(server):
    return Api(server.http)


def add(scene, client):
    return [scene.add_body(client.register_mesh(*mesh), pose=np.eye(4)) for mesh in (A, B)]


def test_python(client):
    scene = client.open_scene(**SETTINGS)
    assert (scene.method, scene.cell_size) == ("ldi", SIZE)
    bodies = add(scene, client)
    result = scene.step(want="all")
    (whole,) = result.contacts
    assert result.settings["cell_size"] == SIZE
    assert [c.index for c in whole.cells] == list(range(18))
    assert [c.cell for c in whole.cells] == sorted(c.cell for c in whole.cells)
    assert len({c.cell for c in whole.cells}) == 18
    assert whole.cell is None and not whole.cells[0].cells
    for cell in whole.cells:
        volume = np.prod(sides(cell.cell))
        assert cell.volume == pytest.approx(volume) and cell.volumes == pytest.approx([volume] * 3)
        assert cell.bodies == whole.bodies
        assert sum(np.sum(cell.gradient(b)[1], axis=0) for b in bodies) == pytest.approx(np.zeros(3), abs=1e-15)
        assert cell.forces(bodies[0]) == pytest.approx(-cell.volume * cell.gradient(bodies[0])[1])
        # the wall moves by its share of what moves the ends of the spans
        moved = volume / (HI - LO)
        assert cell.generalized_gradient(bodies[0])[[0, 2]] == pytest.approx(moved[[0, 2]])
        assert cell.normal @ whole.normal > 0.8 and cell.depth == pytest.approx(cell.volume / cell.area)
        assert cell.friction_weights(bodies[0]).size == cell.vertices(bodies[0]).size
    assert sum(c.volume for c in whole.cells) == pytest.approx(whole.volume, rel=1e-14)
    for body in bodies:
        total = np.zeros((8, 3))
        for cell in whole.cells:
            vertices, gradient = cell.gradient(body)
            total[vertices] += gradient
        vertices, gradient = whole.gradient(body)
        assert total[vertices] == pytest.approx(gradient, abs=1e-14)
    scene.configure(cell_size=0)
    with pytest.raises(contactd.errors.InvalidArgumentError, match="cell_size"):
        scene.step(want="all").contacts[0].cells


def test_cells_slip(client):
    scene = client.open_scene(**SETTINGS)
    a, _ = add(scene, client)
    velocity = {a: [0.1, -0.2, 0.3, 0, 0, 0]}
    (whole,) = scene.step(want="all", velocities=velocity, viscosity=2.0).contacts
    for cell in whole.cells:
        assert cell.relative_velocity == pytest.approx([-0.1, 0.2, -0.3])  # of the second body relative to the first
        assert cell.friction(a)[:3] == pytest.approx(np.sum(cell.friction_forces(a), axis=0))


def test_refused_by_name(client):
    for settings in ({"method": "exact"}, {"method": "ebpi", "tolerance": 1e-6}, {"patches": True}):
        with pytest.raises(errors.InvalidArgumentError, match="cell") as refused:
            client.open_scene(cell_size=0.1, **settings)
        assert refused.value.field == "cell_size"
    scene = client.open_scene(cell_size=0.1)
    assert (scene.method, scene.running_method) == ("auto", "ldi")
    scene.configure(method="exact")  # drops it
    assert scene.cell_size == 0
    with pytest.raises(errors.InvalidArgumentError, match='"exact" takes no cell_size.*choose method "ldi"'):
        scene.configure(cell_size=0.1)


def test_limit(make_server):
    server = make_server("--max-cells", "17")
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        scene = client.open_scene(**SETTINGS)
        add(scene, client)
        with pytest.raises(errors.LimitExceededError, match="bodies 1 and 2: .* 18 hold volume.* at most 17") as refused:
            scene.step()
        assert refused.value.field == "cell_size"
        scene.configure(cell_size=0.5)
        assert len(scene.step().contacts[0].cells) == 2 * 2 * 1


def test_http(api):
    scene = api.scene(**SETTINGS)
    assert api.get(scene)["cell_size"] == SIZE
    for vertices, triangles in (A, B):
        mesh = api("POST", "/v1/meshes", {"vertices": vertices.tolist(), "triangles": triangles.tolist()}).json["id"]
        api.post(f"{scene}/bodies", {"mesh": mesh, "pose": np.eye(4)[:3].flatten().tolist()})
    (contact,) = api.post(f"{scene}/step", {"want": ["frame", "gradient"]}, 200)["contacts"]
    assert "cell" not in contact and len(contact["cells"]) == 18
    for cell in contact["cells"]:
        assert cell["volume"] == pytest.approx(np.prod(sides(cell["cell"])))
        assert len(cell["sparse"]) == 2 and "spans" not in cell and "cells" not in cell
    assert api("PATCH", scene, {"cell_size": 0}).json["cell_size"] == 0
    (contact,) = api.post(f"{scene}/step", {}, 200)["contacts"]
    assert "cells" not in contact


def test_contactctl(server, client, tmp_path):
    for name, (vertices, triangles) in (("a.obj", A), ("b.obj", B)):
        text = "".join("v %r %r %r\n" % tuple(v) for v in vertices.tolist())
        (tmp_path / name).write_text(text + "".join("f %d %d %d\n" % tuple(t + 1) for t in triangles))

    def run(*args, code=0):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CONTACTD_")}
        done = subprocess.run([*CONTACTCTL, "--server", server.stream, *map(str, args)], capture_output=True,
                              text=True, timeout=60 * SLOW, env=clean)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    files = [tmp_path / "a.obj", tmp_path / "b.obj"]
    (contact,) = json.loads(run("contact", *files, "--pixel-size", "0.03125", "--cell-size", SIZE, "-o", "json"))["contacts"]
    assert len(contact["cells"]) == 18
    for cell in contact["cells"]:
        assert cell["volume"] == pytest.approx(np.prod(sides(cell["cell"])))
    assert "cells      18 of 0.375 m" in run("contact", *files, "--cell-size", SIZE)
    assert "cells" not in run("contact", *files)
    assert "takes no cell_size" in run("contact", *files, "--method", "exact", "--cell-size", "1", code=3)
    assert "--cell-size" in run("contact", *files, "--cell-size", "-1", code=2)
    scene = client.open_scene(name="cells by contactctl")
    assert json.loads(run("scene", "set", scene.id, "--cell-size", "0.5", "-o", "json"))["cell_size"] == 0.5
    assert json.loads(run("scene", "set", scene.id, "--cell-size", "0", "-o", "json"))["cell_size"] == 0
