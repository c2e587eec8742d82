"""Points of contacts by exact and ldi, from Python, over HTTP and with contactctl; the setting, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from contactd import errors
from geometry import box, icosphere, moved, place, torus, turned
from http_api import Api, off

FLOOR = box((-2, -2, -1), (2, 2, 0))
BLOCK = box((-0.25, -0.375, -0.0625), (0.25, 0.375, 0.5))
CORNERS = sorted((x, y, -0.03125) for x in (-0.25, 0.25) for y in (-0.375, 0.375))
AREA = 0.5 * 0.75


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        yield client


def add_both(client, scene):
    a = scene.add_body(client.register_mesh(*FLOOR), pose=np.eye(4))
    b = scene.add_body(client.register_mesh(*BLOCK), pose=np.eye(4))
    return a, b


def check(positions, depths, areas):
    np.testing.assert_allclose(sorted(map(tuple, np.round(positions, 6))), CORNERS, atol=2e-5)
    np.testing.assert_allclose(depths, 0.0625, atol=2e-5)
    np.testing.assert_allclose(areas, AREA / 4, rtol=1e-3)


@pytest.mark.parametrize("settings", [{}, {"method": "exact"}, {"pixel_size": 1 / 64}, {"tolerance_rel": 0.01}])
def test_corners(client, settings):
    scene = client.open_scene(max_points=8, **settings)
    add_both(client, scene)
    result = scene.step()
    (contact,) = result.contacts
    points = contact.points
    check(points.position, points.depth, points.area)
    np.testing.assert_allclose(points.normal, [[0, 0, -1]] * 4, atol=1e-9)  # the faces', also where the contact's leans
    assert points.weight.sum() == pytest.approx(1)
    assert points.area.sum() == pytest.approx(contact.area)
    assert points.group.tolist() == [[0, 65535]] * 4
    assert contact.interval is None
    scene.configure(max_points=1)
    assert len(scene.step().contacts[0].points.depth) == 1
    scene.configure(max_points=0)
    with pytest.raises(contactd.errors.InvalidArgumentError, match='want=."points"'):
        scene.step().contacts[0].points
    assert len(scene.step(want="points").contacts[0].points.depth) == 4 and len(scene.step(want=("points", "ids")).points.id) == 4


def test_beside_spans_and_separations(client):
    """All of a step's rows come over the wire together."""
    scene = client.open_scene(pixel_size=1 / 64, max_points=8, margin=1)
    a, b = add_both(client, scene)
    c = scene.add_body(client.register_mesh(*BLOCK), pose=moved(1, 0, 0.25))
    result = scene.step(want=("spans", "gradient"))
    (contact,) = result.contacts
    check(contact.points.position, contact.points.depth, contact.points.area)
    assert len(contact.spans) == len(contact.span_axes) > 0
    apart = {pair.bodies: pair.distance for pair in result.separations}
    assert apart == pytest.approx({(a, c): 0.1875, (b, c): 0.5})


def test_settings(client):
    scene = client.open_scene(max_points=4)
    assert (scene.method, scene.running_method, scene.voxels["max_points"]) == ("auto", "exact", 4)
    scene.configure(resolution=32)
    assert (scene.method, scene.voxels["max_points"]) == ("ldi", 4)
    scene.configure(method="exact")
    assert scene.voxels["max_points"] == 4
    scene.configure(level=3)
    assert (scene.method, scene.voxels["max_points"]) == ("voxtree", 4)
    scene.configure(method="exact")  # points of voxel trees are others
    assert scene.voxels["max_points"] == 0
    with pytest.raises(errors.OutOfRangeError, match="1 to 4096, or 0 for none") as caught:
        scene.configure(max_points=4097)
    assert caught.value.field == "max_points"


def test_patches_cells_and_balls(client):
    scene = client.open_scene(method="exact", patches=True, max_points=4)
    floor = client.register_mesh(*FLOOR)
    ball = client.register_mesh(*icosphere(0.5, 4))
    scene.add_body(floor, pose=np.eye(4))
    for x in (-1, 1):
        scene.add_body(ball, pose=moved(x, 0, 0.47))
    contacts = scene.step().contacts
    assert [len(contact.points.depth) for contact in contacts] == [1, 1]
    cells = client.open_scene(pixel_size=1 / 64, cell_size=0.25, max_points=6)
    add_both(client, cells)
    (contact,) = cells.step().contacts
    assert len(contact.points.depth) == 6 < len(contact.cells)
    for center, group in zip(contact.points.position, contact.points.group):
        cube = 0.25 * np.array(contact.cells[group[1]].cell)
        assert np.all(cube <= center) and np.all(center <= cube + 0.25)
    assert len(contact.cells[0].points.depth) == 0


def test_http(server):
    api = Api(server.http)
    scene = api("POST", "/v1/scenes", {"max_points": 4}).json
    assert (scene["method"], scene["max_points"]) == ("auto", 4)
    for vertices, triangles in (FLOOR, BLOCK):
        mesh = api("POST", "/v1/meshes", {"name": "box", "vertices": np.asarray(vertices).tolist(),
                                          "triangles": np.asarray(triangles).tolist()}).json
        body = api("POST", f"/v1/scenes/{scene['id']}/bodies",
                   {"mesh": mesh["id"], "kind": "rigid", "pose": np.eye(4)[:3].ravel().tolist()})
        assert body.status == 201
    (contact,) = api("POST", f"/v1/scenes/{scene['id']}/step", {"want": []}).json["contacts"]
    points = contact["points"]
    check([p["position"] for p in points], [p["depth"] for p in points], [p["area"] for p in points])
    assert "volume_lower" not in contact and points[0]["group"] == [0, None]
    api("PATCH", f"/v1/scenes/{scene['id']}", {"max_points": 0})
    (contact,) = api("POST", f"/v1/scenes/{scene['id']}/step", {"want": []}).json["contacts"]
    assert "points" not in contact


def test_contactctl(server, tmp_path):
    files = []
    for name, shape in (("floor", FLOOR), ("block", BLOCK)):
        files.append(tmp_path / f"{name}.off")
        files[-1].write_bytes(off(*(np.asarray(part).tolist() for part in shape)))

    def run(*options):
        return subprocess.run([*CONTACTCTL, "--server", server.stream, "contact", *map(str, files), *options],
                              env={**os.environ, "CONTACTD_SERVER": ""}, capture_output=True, text=True, timeout=60 * SLOW)

    answer = json.loads(run("--max-points", "4", "-o", "json").stdout)
    points = answer["contacts"][0]["points"]
    check([p["position"] for p in points], [p["depth"] for p in points], [p["area"] for p in points])
    assert [p["group"] for p in points] == [[0, None]] * 4
    assert run("--max-points", "4").stdout.count("point  ") == 4
    assert "points" not in json.loads(run("--max-points", "0", "-o", "json").stdout)["contacts"][0]


def stretches(corners, at, normal):
    """Along the line at + s normal: the (enter, leave) of the closed surface with corners (m, 3, 3), in rising order of s, and how
    close the line comes to an edge of a triangle, relative to the triangle's size."""
    edges = np.roll(corners, -1, axis=1) - corners
    sides = np.einsum("tci,i->tc", np.cross(corners - at, edges), normal)
    scale = np.abs(edges).max(axis=(1, 2)) ** 2
    crossed = (sides > 0).all(axis=1) | (sides < 0).all(axis=1)
    close = (np.abs(sides).min(axis=1) / scale)[(sides >= -1e-9 * scale[:, None]).all(axis=1) | (sides <= 1e-9 * scale[:, None]).all(axis=1)]
    area = np.cross(edges[crossed, 0], edges[crossed, 1])
    height = np.einsum("ti,ti->t", area, corners[crossed, 0] - at) / (area @ normal)
    order = np.argsort(height)
    winding = np.cumsum(np.where(area @ normal < 0, 1, -1)[order])
    height = height[order]
    return [(height[i], height[i + 1]) for i in range(len(height) - 1) if winding[i] > 0], close.min(initial=1)


@pytest.mark.parametrize("method", ["exact", "ldi"])
def test_depths_are_what_a_line_is_inside_both(client, method):
    """Each position is the middle of a stretch of its line along its normal that is inside both bodies, and depth that one's
    length: also where outlines slope, as turned boxes' do, and for bodies that a line enters more than once."""
    rng = np.random.default_rng(11)
    shapes = [box((-0.5,) * 3, (0.5,) * 3), icosphere(2), torus(24, 12)]
    meshes = [client.register_mesh(*shape) for shape in shapes]
    checked = 0
    for i in range(60):
        kinds = [0, 0] if i < 30 else list(rng.integers(0, 3, 2))
        poses = [np.eye(4), turned(rng, 0.9)]
        with client.open_scene(method=method, max_points=8, **({"resolution": 32} if method == "ldi" else {})) as scene:
            for kind, pose in zip(kinds, poses):
                scene.add_body(meshes[kind], pose=pose)
            result = scene.step()
        for contact in result.contacts:
            points = contact.points
            for at, normal, depth in zip(points.position, points.normal, points.depth):
                lines = [stretches(place(pose, np.asarray(shapes[k][0], "f4").astype(float))[np.asarray(shapes[k][1])], at, normal)
                         for k, pose in zip(kinds, poses)]
                if min(close for _, close in lines) < 1e-6:
                    continue  # the line runs along an edge
                both = [(max(a[0], b[0]), min(a[1], b[1])) for a in lines[0][0] for b in lines[1][0]]
                (around,) = [(lo, hi) for lo, hi in both if lo < 0 < hi]
                assert around[1] - around[0] == pytest.approx(depth, rel=1e-6, abs=1e-9), (i, kinds, depth, around)
                assert around[0] + around[1] == pytest.approx(0, abs=1e-6 * depth + 1e-9)
                assert normal @ contact.normal > 0
                checked += 1
    assert checked > 100
