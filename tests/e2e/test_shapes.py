"""Shapes without meshes: how far their triangles are off, that each is made once, and contacts against closed forms."""

from __future__ import annotations

import math
import pathlib
import subprocess

import contactd
import numpy as np
import pytest
from conftest import CC, SLOW
from contactd import errors, shapes
from geometry import moved
from test_client_c import pkg_config

SIZE = {"sphere": (0.05,), "ellipsoid": ((0.3, 0.2, 0.1),), "capsule": (0.1, 0.5), "cylinder": (0.2, 0.7)}
VOLUME = {"sphere": 4 / 3 * math.pi * 0.05**3, "ellipsoid": 4 / 3 * math.pi * 0.006,
          "capsule": math.pi * 0.01 * (0.5 + 4 / 3 * 0.1), "cylinder": math.pi * 0.04 * 0.7}
AREA = {"sphere": 4 * math.pi * 0.05**2, "ellipsoid": 4 * math.pi * 0.09, "capsule": math.pi * 0.2 * 0.7, "cylinder": math.pi * 0.4 * 0.7}
HALF = {"sphere": 0.05, "ellipsoid": 0.3, "capsule": 0.35, "cylinder": 0.35}


@pytest.fixture
def client(server_or_engine):
    return server_or_engine


def depth_in(kind: str, p: np.ndarray) -> np.ndarray:
    """How far points lie inside the curved part of a shape; of an ellipsoid as seen from its centre, which is further."""
    if kind == "cylinder":
        return 0.2 - np.hypot(p[:, 0], p[:, 1])
    if kind == "capsule":
        return 0.1 - np.sqrt(p[:, 0]**2 + p[:, 1]**2 + np.maximum(np.abs(p[:, 2]) - 0.25, 0)**2)
    radii = np.array((0.05, 0.05, 0.05) if kind == "sphere" else SIZE["ellipsoid"][0])
    return (1 / np.linalg.norm(p / radii, axis=1) - 1) * np.linalg.norm(p, axis=1)


def samples(vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Points of all triangles: corners, edges, middles."""
    weights = np.array([(a, b, 6 - a - b) for a in range(7) for b in range(7 - a)]) / 6
    return (weights @ vertices[triangles]).reshape(-1, 3)


@pytest.mark.parametrize("kind", list(SIZE))
@pytest.mark.parametrize("part", [0.3, 2e-2, None, 4e-4])
def test_within_tolerance(client, kind, part):
    radius = {"sphere": 0.05, "ellipsoid": 0.3, "capsule": 0.1, "cylinder": 0.2}[kind]
    tolerance = (2e-3 if part is None else part) * radius
    mesh = getattr(client, kind)(*SIZE[kind], tolerance=None if part is None else tolerance)
    assert kind != "sphere" or part is not None or mesh.triangle_count == 3528  # as the documentation has it
    vertices, triangles = mesh.geometry()
    p = samples(vertices.astype(float), triangles)
    curved = np.abs(np.abs(p[:, 2]) - 0.35) > 1e-6 if kind == "cylinder" else np.ones(len(p), bool)
    depth, rounding = depth_in(kind, p[curved]), 2e-7 * HALF[kind]
    assert depth.min() >= -rounding
    assert depth.max() <= tolerance
    if part != 0.3:
        assert depth.max() >= tolerance / 3  # no more triangles than it takes
    assert VOLUME[kind] - AREA[kind] * tolerance < mesh.volume < VOLUME[kind] * (1 + 1e-6)
    assert mesh.n_shells == 1 and mesh.center_of_mass == pytest.approx(0, abs=1e-7)
    if kind != "cylinder":  # its axes end in vertices
        half = {"sphere": (0.05,) * 3, "ellipsoid": (0.3, 0.2, 0.1), "capsule": (0.1, 0.1, 0.35)}[kind]
        assert mesh.bounds[1] == pytest.approx(half, rel=1e-7) and (mesh.bounds[0] == -mesh.bounds[1]).all()


def test_deviation_of_spheres():
    """The constant behind their number of triangles, at all small numbers."""
    for f in list(range(1, 40)) + [150]:
        vertices, triangles = shapes.sphere_of(f)
        a, b, c = np.moveaxis(vertices[triangles], 1, 0)
        normal = np.cross(b - a, c - a)
        size = np.linalg.norm(normal, axis=1)
        planes = (normal * a).sum(1) / size
        assert (planes > 0).all() and (1 - planes).max() * f * f <= shapes._DEVIATION
        assert len(vertices) == 4 * f * f + 2 and len(triangles) == 8 * f * f
        assert shapes.sphere_parts(shapes._DEVIATION / f**2 * (1 + 1e-12)) == f


def test_box_is_exact(client):
    mesh = client.box((2, 1, 0.5))
    assert (mesh.volume, mesh.area) == (1.0, 7.0) and (mesh.bounds == [(-1, -0.5, -0.25), (1, 0.5, 0.25)]).all()
    assert client.overlap(mesh, mesh, None, moved(1.5, 0.25, 0.25)).volume == pytest.approx(0.5 * 0.75 * 0.25, abs=1e-12)
    assert np.diag(mesh.inertia) == pytest.approx([(1 + 0.25) / 12, (4 + 0.25) / 12, 5 / 12])


def test_rest_on_a_floor(client):
    """Each shape rests d deep in a floor: the cap of a sphere, the whole base of a cylinder and a box."""
    scene = client.open_scene()
    scene.add_half_space((0, 0, 1))
    d, tolerance = 0.01, 1e-5
    ball = scene.add_sphere(0.05, moved(0, 0, 0.05 - d), tolerance=tolerance, friction=0.5)
    can = scene.add_cylinder(0.1, 0.4, moved(1, 0, 0.2 - d), tolerance=tolerance)
    crate = scene.add_box((0.5, 0.5, 0.5), moved(2, 0, 0.25 - d))
    pill = scene.add_capsule(0.05, 0.2, moved(3, 0, 0.15 - d), tolerance=tolerance)
    egg = scene.add_ellipsoid((0.1, 0.1, 0.05), moved(4, 0, 0.05 - d), tolerance=tolerance)
    cap = math.pi * d * d * (3 * 0.05 - d) / 3
    expected = {ball: cap, can: math.pi * 0.01 * d, crate: 0.25 * d, pill: cap, egg: 4 * cap}
    result = scene.step()
    assert len(result.contacts) == len(expected)
    for contact in result.contacts:
        body = contact.bodies[1]
        # the surface is inside by the tolerance at most, over the area that is in the floor
        off = tolerance * 2 * expected[body] / d * 1.5
        assert expected[body] - off < contact.volume < expected[body] * (1 + 1e-5), body
        assert contact.normal == pytest.approx([0, 0, -1], abs=1e-6)


def test_made_once(client, monkeypatch):
    made = []
    monkeypatch.setattr(shapes, "sphere_of", lambda f, make=shapes.sphere_of: (made.append(f), make(f))[1])
    before = len(client.meshes())
    scene = client.open_scene()
    a, b = scene.add_sphere(0.123), scene.add_sphere(0.123, moved(1))
    mesh = client.sphere(0.123)
    assert made == [21] and len(client.meshes()) == before + 1 and mesh.triangle_count == 8 * 21**2
    client.sphere(0.123, tolerance=1e-2)
    assert len(made) == 2
    a.remove(), b.remove()
    mesh.remove()
    with pytest.raises(errors.StaleHandleError):
        scene.add_body(mesh)
    assert scene.add_sphere(0.123).vertices == 4 * 21**2 + 2 and len(made) == 3
    height = np.zeros((3, 4))
    assert client.height_field(height).hash == client.height_field(height.copy()).hash != client.height_field(height, 2).hash


def test_height_field(client):
    n, m, dx, dy = 9, 6, 0.5, 0.25
    x, y = np.meshgrid(np.arange(n) * dx, np.arange(m) * dy, indexing="ij")
    scene = client.open_scene()
    ground = scene.add_height_field(0.25 * x + 0.5 * y, (dx, dy), moved(0, 0, -1))
    assert ground.kind == "rigid" and ground.vertices == n * m
    # over the box's base the plane is a linear function, so the volume is area times what it has in the middle
    box = scene.add_box((1, 0.5, 4), moved(2, 0.625, 1.5))
    (contact,) = scene.step().contacts
    assert contact.bodies == (ground, box)
    assert contact.volume == pytest.approx(0.5 * (0.25 * 2 + 0.5 * 0.625 - 1 + 0.5), abs=1e-7)
    middle = client.height_field(((0, 0, 0), (0, 1, 0), (0, 0, 0)))
    assert middle.bounds[1] == pytest.approx([2, 2, 1]) and middle.closing_vertices == 8


@pytest.mark.parametrize("kind, arguments, field, said", [
    ("sphere", (0,), "radius", "expected more than 0 m, got 0"),
    ("sphere", (-1.0,), "radius", "expected more than 0 m"),
    ("sphere", (math.nan,), "radius", "finite"),
    ("sphere", ("wide",), "radius", "expected a number"),
    ("ellipsoid", ((1, 2),), "radii", "expected 3 numbers"),
    ("capsule", (1, 0), "length", "expected more than 0 m"),
    ("cylinder", (1, math.inf), "height", "finite"),
    ("box", ((1, -1, 1),), "extents", "expected more than 0 m"),
    ("box", (1,), "extents", "expected 3 numbers"),
    ("height_field", (np.zeros(4),), "heights", r"got \(4,\)"),
    ("height_field", (np.zeros((1, 4)),), "heights", "both 2 or more"),
    ("height_field", ([[0, 1], [2, math.nan]],), "heights", r"got nan at \[1, 1\]"),
    ("height_field", (np.zeros((2, 2)), 0), "spacing", "expected more than 0 m"),
    ("height_field", (np.zeros((2, 2)), (1, 2, 3)), "spacing", "expected 2 numbers"),
])
def test_refused_by_name(client, kind, arguments, field, said):
    with pytest.raises(errors.ContactdError, match=said) as e:
        getattr(client, kind)(*arguments)
    assert e.value.field == field and e.value.object == kind.replace("_", " ")


def test_tolerance_refused(client):
    for tolerance, said in ((9e-8, "expected 1e-07 m or more"), (0, "more than 0 m"), (math.nan, "finite")):
        with pytest.raises(errors.ContactdError, match=said) as e:
            client.sphere(0.1, tolerance=tolerance)
        assert e.value.field == "tolerance"
    assert client.capsule(1e-5, 1.0).triangle_count > 8  # of a needle the default is what rounding allows


def test_c_makes_the_same(server, binaries, tmp_path):
    """The C client's meshes have the hashes of Python's, so their bits and order; its errors name the field."""
    program = str(tmp_path / "shapes")
    subprocess.run([*CC, "-Wall", "-Wextra", "-Werror", str(pathlib.Path(__file__).with_name("shapes.c")),
                    *pkg_config(binaries), "-o", program], check=True)
    done = subprocess.run([program, server.stream], capture_output=True, text=True, timeout=60 * SLOW, check=True)
    lines = done.stdout.splitlines()
    heights = (0.1 * (np.arange(12) % 5)).reshape(3, 4)
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        mine = [client.sphere(0.05), client.sphere(0.123, tolerance=1e-5), client.ellipsoid((0.3, 0.2, 0.1)),
                client.capsule(0.1, 0.5, tolerance=3e-4), client.cylinder(0.2, 0.7, tolerance=1e-4), client.box((0.1, 0.2, 0.3)),
                client.sphere(1, tolerance=1), client.height_field(heights, (0.5, 0.25))]
        scene = client.open_scene()
        scene.add_half_space((0, 0, 1))
        scene.add_sphere(0.05, moved(0, 0, 0.04))
        (contact,) = scene.step().contacts
        assert lines[:8] == [mesh.hash for mesh in mine]
    assert lines[8:-3] == [
        "error height field heights: expected 2 or more samples along x and y, and less than 2^32 together, got 1 and 4",
        "error height field spacing[1]: expected more than 0 m, got -1",
        "error shape kind: kind 0 is none of contactd_shape_kind",
        "error sphere size[0]: expected more than 0 m, got 0",
        "error sphere size[1]: expected 0, as a sphere has 1 of them, got 1",
        "error capsule size[1]: expected a finite number of m, got nan",
        "error sphere tolerance: expected 1e-07 m or more, 1e-06 of the largest half-extent, got 9e-08 m",
        "error sphere tolerance: expected more than 0 m, got -1"]
    assert lines[-3:] == ["once", "anew", f"{contact.volume:.17g}"]
