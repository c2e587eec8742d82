"""Repairs at registration, over every interface: what was changed is told, nothing happens unasked, and a stored mesh
comes back as it was repaired."""

from __future__ import annotations

import json
import subprocess

import contactd
import numpy as np
import pytest
from conftest import BUILD, CONTACTCTL, INSTRUMENTED, SLOW
from contactd import errors
from geometry import box, icosphere
from http_api import Api

VERTICES, TRIANGLES = icosphere(0.5, 2)
WHOLE = np.asarray(TRIANGLES)


def damaged():
    """Two triangles are missing, three are turned, one is there twice, one has no area."""
    triangles = WHOLE.copy()
    triangles[[10, 20, 30]] = triangles[[10, 20, 30]][:, ::-1]
    return np.concatenate([triangles[2:], triangles[50:51], [[7, 7, 8]]])


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        yield client


def test_python(client):
    whole = client.register_mesh(VERTICES, TRIANGLES)
    assert whole.repair is None
    with pytest.raises(errors.InvalidMeshError):
        client.register_mesh(VERTICES, damaged())
    mesh = client.register_mesh(VERTICES, damaged(), repair=True, max_hole=0.5)
    done = mesh.repair
    assert done.changed and done.turned_triangles == 3 and done.fill_triangles == 2 and 1 <= done.filled_holes <= 2
    assert (done.degenerate_triangles, done.duplicate_triangles, done.welded_vertices) == (1, 1, 0)
    assert [c.index for c in done.first["turned_triangles"]] == [8, 18, 28]
    assert done.first["degenerate_triangles"][0].index == len(WHOLE) - 2 + 1
    assert done.first["turned_triangles"][0].at == pytest.approx(VERTICES[damaged()[8, 0]], abs=1e-6)
    assert sum(c.edges for c in done.first["filled_holes"]) == done.fill_triangles + 2 * done.filled_holes
    assert mesh.volume == pytest.approx(whole.volume, rel=1e-2) and mesh.vertex_count == len(VERTICES)

    # Its vertices are those of the upload: gradients have their indices.
    scene = client.open_scene(method="exact")
    probe = client.register_mesh(*box((0.1, -1, -1), (2, 1, 1)))
    a, b = scene.add_body(mesh, pose=np.eye(4)), scene.add_body(probe, pose=np.eye(4))
    (contact,) = scene.step(want=["frame", "gradient"]).contacts
    vertices, _ = contact.gradient(a)
    assert (np.asarray(VERTICES)[vertices, 0] > -0.2).all() and len(vertices) > 20

    again = client.register_mesh(*mesh.geometry())
    assert again.hash == mesh.hash and again.repair is None
    untouched = client.register_mesh(VERTICES, TRIANGLES, repair=True)
    assert untouched.hash == whole.hash and not untouched.repair.changed


def test_refusals(client):
    with pytest.raises(errors.InvalidMeshError, match="repair fills holes of up to 1e-05 m"):
        client.register_mesh(VERTICES, damaged(), repair=True, max_hole=1e-5)
    with pytest.raises(errors.InvalidArgumentError, match="no repair is asked for"):
        client.register_mesh(VERTICES, TRIANGLES, max_hole=1)
    with pytest.raises(errors.OutOfRangeError, match="max_hole"):
        client.register_mesh(VERTICES, TRIANGLES, repair=True, max_hole=-1)
    with pytest.raises(errors.InvalidArgumentError):
        client.register_mesh(VERTICES, TRIANGLES, repair="yes")
    fin = np.concatenate([WHOLE, [[0, WHOLE[0][1], 100]]])
    with pytest.raises(errors.InvalidMeshError, match="what the repair leaves is refused"):
        client.register_mesh(VERTICES, fin, repair=True)


def test_self_overlap(client, tmp_path, server):
    """Two boxes that share half of each, as one mesh: no repair mends that, but its answer tells it."""
    points, faces = (np.asarray(x) for x in box((0, 0, 0), (1, 1, 1)))
    both = np.concatenate([points, points + [0.5, 0, 0]]), np.concatenate([faces, faces + len(points)])
    assert client.register_mesh(*both, repair=True).repair.self_overlap == pytest.approx(0.5, rel=1e-9)
    assert client.register_mesh(points, faces, repair=True).repair.self_overlap == 0
    # Boxes that share an edge: it has four faces, where `exact` looks for no contact of a body with itself.
    beside = points + [1, 1, 0]
    same = [np.flatnonzero((points == p).all(1)) for p in beside]
    number = np.array([s[0] if len(s) else len(points) + k for k, s in enumerate(same)])
    touching = client.register_mesh(np.concatenate([points, beside]), np.concatenate([faces, number[faces]]), repair=True)
    assert touching.repair.self_overlap is None and touching.volume == pytest.approx(2)

    file = write_obj(tmp_path / "both.obj", *both)
    shown = subprocess.run([*CONTACTCTL, "--server", server.stream, "mesh", "add", file, "--repair"], capture_output=True, text=True,
                           timeout=60 * SLOW).stdout
    assert "it overlaps itself in 0.5 m^3" in shown
    api = Api(server.http)
    assert api.post("/v1/meshes?repair=1", file.read_bytes(), 200)["repair"]["self_overlap"] == pytest.approx(0.5)
    touching_file = write_obj(tmp_path / "touching.obj", np.concatenate([points, beside]), np.concatenate([faces, number[faces]]))
    assert api.post("/v1/meshes?repair=1", touching_file.read_bytes(), 200)["repair"]["self_overlap"] is None


@pytest.mark.skipif(INSTRUMENTED, reason="Python is not instrumented, and cannot load a library that is")
def test_self_overlap_in_this_process(monkeypatch):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))
    points, faces = (np.asarray(x) for x in box((0, 0, 0), (1, 1, 1)))
    with contactd.Engine(threads=1, backend="cpu") as engine:
        both = np.concatenate([points, points + [0, 0, 0.75]]), np.concatenate([faces, faces + len(points)])
        assert engine.register_mesh(*both, repair=True).repair.self_overlap == pytest.approx(0.25, rel=1e-9)
        assert engine.register_mesh(*both).repair is None


def write_obj(path, vertices, triangles):
    lines = ["v %r %r %r" % tuple(map(float, v)) for v in vertices] + ["f %d %d %d" % tuple(k + 1 for k in t) for t in triangles]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_contactctl_and_http(server, tmp_path):
    file = write_obj(tmp_path / "damaged.obj", VERTICES, damaged())

    def add(*options):
        return subprocess.run([*CONTACTCTL, "--server", server.stream, "mesh", "add", file, *options],
                              capture_output=True, text=True, timeout=60 * SLOW)

    assert add().returncode == 3
    (mesh,) = json.loads(add("--repair", "--max-hole", "0.5", "-o", "json").stdout)
    text = add("--repair", "--max-hole", "0.5").stdout
    assert "repair: 3 triangles turned: 8 at (" in text and "1 duplicate triangles dropped" in text
    whole = write_obj(tmp_path / "whole.obj", VERTICES, TRIANGLES)
    assert "nothing to do" in subprocess.run([*CONTACTCTL, "--server", server.stream, "mesh", "add", whole,
                                              "--repair"], capture_output=True, text=True, timeout=60 * SLOW).stdout
    assert add("--max-hole", "1").returncode != 0

    api = Api(server.http)
    assert api("POST", "/v1/meshes", file.read_bytes()).status == 422
    answer = api("POST", "/v1/meshes?repair=1&max_hole=0.5", file.read_bytes())
    assert answer.status == 200 and answer.json["hash"] == mesh["hash"]  # it is there already
    assert answer.json["repair"] == mesh["repair"] and mesh["repair"]["turned_triangles"]["count"] == 3
    assert "repair" not in api.get(f"/v1/meshes/{mesh['hash']}")
    body = {"vertices": np.asarray(VERTICES).tolist(), "triangles": damaged().tolist()}
    arrays = api("POST", "/v1/meshes?repair=1&max_hole=0.5", body)
    assert arrays.json["repair"]["duplicate_triangles"]["first"][0]["index"] == len(WHOLE) - 2
    for query in ("repair=2", "repair=1&repair=1", "max_hole=x", "max_hole=1", "repair=1&max_hole=-1", "repare=1"):
        assert api("POST", f"/v1/meshes?{query}", file.read_bytes()).status in (400, 422), query
    assert "unknown query parameter repare; known are: name repair" in api("POST", "/v1/meshes?repare=1", file.read_bytes()).json["detail"]


def test_a_stored_mesh_comes_back(make_server, tmp_path):
    options = ("--state-dir", str(tmp_path / "state"))
    server = make_server(*options)
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        mesh = client.register_mesh(VERTICES, damaged(), repair=True, max_hole=0.5)
        found, volume = mesh.hash, mesh.volume
    server.stop()
    server = make_server(*options)
    found_again = Api(server.http).get(f"/v1/meshes/{found}")
    assert found_again["volume"] == pytest.approx(volume)
