"""closing="hull": surfaces that nothing repairs become their convex hull, which the answer names, over every interface."""

from __future__ import annotations

import json
import subprocess

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from contactd import errors
from geometry import as_obj, box, moved
from http_api import Api

PATIENT = 30 * SLOW

# A notched, open soup: an L of unit squares from which faces are missing, with a loose triangle inside.
POINTS = np.array([(x, y, z) for z in (0, 1) for x, y in ((0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2))] +
                  [(0.25, 0.25, 0.25), (0.5, 0.25, 0.25), (0.25, 0.5, 0.25)], float)
SOUP = np.array([(0, 1, 2), (0, 2, 3), (0, 3, 4), (6, 8, 9), (6, 10, 11), (7, 8, 2), (12, 13, 14), (5, 4, 10)])
VOLUME = 3.5  # a square of side 2 less the triangle beyond the notch


def test_python(server_or_engine):
    for repair in (False, True):
        with pytest.raises(errors.InvalidMeshError):
            server_or_engine.register_mesh(POINTS, SOUP, repair=repair)
    mesh = server_or_engine.register_mesh(POINTS, SOUP, closing="hull")
    assert mesh.closing == "hull" and mesh.repair is None
    assert mesh.volume == pytest.approx(VOLUME) and mesh.n_shells == 1 and mesh.vertex_count == len(POINTS)
    vertices, triangles = mesh.geometry()
    assert np.array_equal(vertices, POINTS) and set(np.unique(triangles)) == {0, 1, 2, 4, 5, 6, 7, 8, 10, 11}
    plain = server_or_engine.register_mesh(vertices, triangles)  # what became of it is a mesh like any other
    assert plain.hash == mesh.hash and plain.closing is None
    # the part beyond the notch, which the soup does not have: a prism over a right triangle of sides 1/2
    corner = server_or_engine.register_mesh(*box((1, 1, -1), (3, 3, 0.5)))
    assert server_or_engine.overlap(mesh, corner).volume == pytest.approx(0.5 * 0.5, abs=1e-9)
    soft = server_or_engine.open_scene().add_body(mesh)
    assert soft.vertices == len(POINTS)


def test_file_and_scale(server_or_engine, tmp_path):
    path = tmp_path / "soup.obj"
    path.write_text(as_obj(POINTS * 1000, SOUP))
    mesh = server_or_engine.register_mesh_file(path, closing="hull", unit="mm")
    assert mesh.closing == "hull" and mesh.volume == pytest.approx(VOLUME)


def test_refused_by_name(server_or_engine):
    def refused(error, said, vertices=POINTS, **options):
        with pytest.raises(error, match=said) as e:
            server_or_engine.register_mesh(vertices, SOUP, **{"closing": "hull"} | options)
        return e.value.field

    assert refused(errors.InvalidArgumentError, "'hull', 'wrap', got 'ball'", closing="ball") == "closing"
    assert refused(errors.InvalidArgumentError, "leave out repair", repair=True) == "closing"
    assert refused(errors.InvalidArgumentError, "leave out open_direction", open_direction=(0, 0, 1)) == "closing"
    assert refused(errors.InvalidMeshError, "in a plane", POINTS * (1, 1, 0)) == "positions"
    assert refused(errors.InvalidMeshError, "on a line", POINTS * (1, 0, 0)) == "positions"


def test_http(server):
    api = Api(server.http)
    body = {"vertices": POINTS.tolist(), "triangles": SOUP.tolist()}
    made = api("POST", "/v1/meshes?closing=hull", body).json
    assert made["closing"] == "hull" and "repair" not in made and made["volume"] == pytest.approx(VOLUME)
    assert api.get(f"/v1/meshes/{made['hash']}")["closing"] == "hull"
    wrong = api.refused("POST", "/v1/meshes?closing=ball", 400, "INVALID_ARGUMENT", body, field="closing")
    assert "neither hull nor wrap" in wrong["detail"]
    api.refused("POST", "/v1/meshes?closing=hull&repair=1", 400, "INVALID_ARGUMENT", body, field="closing")


def test_contactctl(server, tmp_path):
    path = tmp_path / "soup.obj"
    path.write_text(as_obj(POINTS, SOUP))

    def run(*options):
        return subprocess.run([*CONTACTCTL, "--server", server.stream, "mesh", "add", str(path), *options], capture_output=True,
                              text=True, timeout=PATIENT)

    assert run().returncode != 0
    done = run("--closing", "hull")
    assert done.returncode == 0 and "it is the convex hull" in done.stdout, done.stderr
    (made,) = json.loads(run("--closing", "hull", "--json").stdout)
    assert made["closing"] == "hull" and made["volume"] == pytest.approx(VOLUME)
    done = run("--closing", "ball")
    assert done.returncode == 2 and "--closing takes hull or wrap, not ball" in done.stderr


def test_found_again_after_a_restart(make_server):
    """The client registers it again, as a hull, with a server that knows nothing of it."""
    server = make_server()
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        mesh = client.register_mesh(POINTS, SOUP, closing="hull")
        scene = client.open_scene()
        scene.add_body(mesh, np.eye(4))
        scene.add_box((2, 2, 2), moved(0, 0, -0.5))
        before = scene.step().contacts[0].volume
        server.restart()
        assert scene.step().contacts[0].volume == before
        assert client.reconnects == 1
