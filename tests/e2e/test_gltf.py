"""glTF over every interface: binary and text, with buffers in files beside it, and what is refused."""

from __future__ import annotations

import base64
import json
import subprocess

import contactd
import numpy as np
import pytest
from conftest import BUILD, CONTACTCTL, INSTRUMENTED, SLOW
from contactd import errors
from geometry import icosphere
from http_api import Api

VERTICES, TRIANGLES = icosphere(0.5, 2)
CORNERS = np.asarray(VERTICES, "<f4")[np.asarray(TRIANGLES)].reshape(-1, 3)  # each triangle has vertices of its own, as for flat shading


def document(uri: str | None = None, **node) -> dict:
    buffer = {"byteLength": CORNERS.nbytes} | ({} if uri is None else {"uri": uri})
    return {"asset": {"version": "2.0"}, "buffers": [buffer], "bufferViews": [{"buffer": 0, "byteLength": CORNERS.nbytes}],
            "accessors": [{"bufferView": 0, "componentType": 5126, "count": len(CORNERS), "type": "VEC3"}],
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}], "nodes": [{"mesh": 0} | node]}


def text(uri: str | None = None, **node) -> bytes:
    return json.dumps(document(uri or "data:application/octet-stream;base64," + base64.b64encode(CORNERS.tobytes()).decode(), **node)).encode()


def glb(**node) -> bytes:
    head, binary = json.dumps(document(**node)).encode(), CORNERS.tobytes()
    head += b" " * (-len(head) % 4)
    return b"".join([b"glTF", np.array([2, 28 + len(head) + len(binary), len(head)], "<u4").tobytes(), b"JSON", head,
                     np.array([len(binary)], "<u4").tobytes(), b"BIN\0", binary])


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        yield client


def write(path, content: bytes):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def test_python(client, tmp_path):
    whole = client.register_mesh(VERTICES, TRIANGLES)
    mesh = client.load(write(tmp_path / "ball.glb", glb()))
    assert mesh.vertex_count == whole.vertex_count and mesh.volume == pytest.approx(whole.volume, rel=1e-6)
    assert client.load(write(tmp_path / "ball.gltf", text())).hash == mesh.hash
    assert client.load(tmp_path / "ball.gltf", format="gltf").hash == mesh.hash
    large = client.load(write(tmp_path / "large.glb", glb(scale=[2, 2, 2], translation=[1, 0, 0])), unit="mm")
    assert large.volume == pytest.approx(8e-9 * whole.volume, rel=1e-5)
    assert large.bounds[0][0] == pytest.approx(0, abs=1e-9)


def test_buffers_beside_the_file(client, server, tmp_path):
    mesh = client.load(write(tmp_path / "ball.glb", glb()))
    write(tmp_path / "part" / "ball 1.bin", CORNERS.tobytes())
    path = write(tmp_path / "ball.gltf", text("part/ball%201.bin"))
    assert client.load(path).hash == mesh.hash
    outside = write(tmp_path / "part" / "outside.gltf", text("../part/ball%201.bin"))
    with pytest.raises(errors.InvalidArgumentError, match="save the mesh as one file"):
        client.load(outside)
    with pytest.raises(FileNotFoundError):
        client.load(write(tmp_path / "missing.gltf", text("none.bin")))

    def add(file):
        return subprocess.run([*CONTACTCTL, "--server", server.stream, "mesh", "add", file, "-o", "json"], capture_output=True, text=True,
                              timeout=60 * SLOW)

    for file in (path, tmp_path / "ball.glb"):
        assert json.loads(add(file).stdout)[0]["hash"] == mesh.hash
    assert "save the mesh as one file" in add(outside).stderr
    assert "none.bin" in add(tmp_path / "missing.gltf").stderr
    broken = write(tmp_path / "broken.gltf", b'{"asset": {"version": "2.0"')
    assert "broken at line 1" in add(broken).stderr
    with pytest.raises(errors.ParseError, match="broken at line 1"):
        client.load(broken)


def test_http(server):
    api = Api(server.http)
    moved = {"translation": [0, 7, 0]}  # no other test has it
    first = api.post("/v1/meshes?name=ball", glb(**moved), **{"Content-Type": "model/gltf-binary"})
    for body, kind in ((glb(**moved), "application/octet-stream"), (text(**moved), "model/gltf+json"), (text(**moved), "text/plain")):
        assert api.post("/v1/meshes?name=ball", body, 200, **{"Content-Type": kind})["hash"] == first["hash"]
    # The server's own glTF comes back as the same mesh, but for the order of its vertices.
    again = api("POST", "/v1/meshes", api("GET", f"/v1/meshes/{first['hash']}/geometry").body, {"Content-Type": "model/gltf-binary"}).json
    assert again["vertices"] == first["vertices"] and again["volume"] == pytest.approx(first["volume"], rel=1e-6)
    problem = api.refused("POST", "/v1/meshes", 400, "PARSE_ERROR", text("box.bin"), {"Content-Type": "model/gltf+json"})
    assert "another file" in problem["detail"] and ".glb" in problem["detail"]


@pytest.mark.skipif(INSTRUMENTED, reason="Python is not instrumented, and cannot load a library that is")
def test_in_this_process(monkeypatch, tmp_path):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))
    with contactd.Engine(threads=1, backend="cpu") as engine:
        assert engine.load(write(tmp_path / "ball.glb", glb())).vertex_count == len(VERTICES)


def test_a_stored_one_comes_back(make_server, tmp_path):
    options = ("--state-dir", str(tmp_path / "state"))
    server = make_server(*options)
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        mesh = client.load(write(tmp_path / "ball.glb", glb(rotation=[0, 0, 0.6, 0.8])))
        found, volume = mesh.hash, mesh.volume
    server.stop()
    server = make_server(*options)
    assert Api(server.http).get(f"/v1/meshes/{found}")["volume"] == volume
