"""The volume in which a body is inside out, over every interface."""

from __future__ import annotations

import json
import subprocess

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from geometry import box
from http_api import Api

# A box with a cavity that sticks out of it, which leaves a volume where the winding number is -1; and in either a smaller box.
OUTER, CAVITY = box((0, 0, 0), (1, 1, 1)), box((0.75, 0.25, 0.25), (1.5, 0.75, 0.75))
INNER = box((0.125, 0.125, 0.125), (0.625, 0.625, 0.625)), box((1.125, 0.375, 0.375), (1.375, 0.625, 0.625))


def split(vertices, triangles, times):
    """The first triangle split in three, then the next, and so on: all new edges lie inside the first ones."""
    vertices, triangles = [tuple(v) for v in vertices], [tuple(t) for t in triangles]
    queue, rest = triangles[:2], triangles[2:]
    for _ in range(times):
        (a, b, c), *queue = queue
        vertices.append(tuple(np.mean([vertices[a], vertices[b], vertices[c]], axis=0)))
        n = len(vertices) - 1
        queue += [(a, b, n), (b, c, n), (c, a, n)]
    return np.array(vertices), np.array(queue + rest)


# Registration looks at a few places of a shell, in its triangles' order: it takes this one for a cavity, as nearly all of its triangles,
# which come first, are inside the outer box.
INWARD = np.asarray(CAVITY[1])[:, ::-1]
INWARD = INWARD[np.argsort(np.asarray(CAVITY[0])[INWARD, 0].sum(axis=1), kind="stable")]
INWARD = split(CAVITY[0], INWARD, 40)
BODY = np.concatenate([OUTER[0], INWARD[0]]), np.concatenate([OUTER[1], INWARD[1] + 8])
PROBES = np.concatenate([INNER[0][0], INNER[1][0]]), np.concatenate([INNER[0][1], np.asarray(INNER[1][1]) + 8])
VOLUME, INVERTED = 0.125, 1 / 64


def test_python(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        meshes = client.register_mesh(*BODY), client.register_mesh(*PROBES)
        for method in ("ldi", "exact"):
            scene = client.open_scene(method=method, **({"pixel_size": 1 / 32} if method == "ldi" else {}))
            for mesh in meshes:
                scene.add_body(mesh, pose=np.eye(4))
            (contact,) = scene.step(want=["frame"]).contacts
            if method == "ldi":
                assert contact.volume == pytest.approx(VOLUME, rel=1e-6)
                assert contact.inverted_volume == pytest.approx(INVERTED, rel=1e-6)
                assert contact.inverted_triangles == 0
            else:
                assert contact.volume == pytest.approx(VOLUME - INVERTED, rel=1e-6)
                assert contact.inverted_volume is None and contact.inverted_triangles == 12


def write_obj(path, vertices, triangles):
    lines = ["v %r %r %r" % tuple(map(float, v)) for v in vertices] + ["f %d %d %d" % tuple(k + 1 for k in t) for t in triangles]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_contactctl_and_http(server, tmp_path):
    files = [write_obj(tmp_path / name, *mesh) for name, mesh in (("a.obj", BODY), ("b.obj", PROBES))]

    def contact(*options):
        return subprocess.run([*CONTACTCTL, "--server", server.stream, *options, "contact", *files,
                               "--method", "ldi", "--pixel-size", "0.03125"],
                              capture_output=True, text=True, check=True, timeout=60 * SLOW).stdout

    (found,) = json.loads(contact("-o", "json"))["contacts"]
    assert found["inverted_volume"] == pytest.approx(INVERTED, rel=1e-6)
    assert "inverted   0.015625 m^3" in contact()

    api = Api(server.http)
    scene = "/v1/scenes/%d" % api.post("/v1/scenes", {"method": "ldi", "pixel_size": 0.03125}, 201)["id"]
    for file in files:
        mesh = api("POST", "/v1/meshes", file.read_bytes()).json["id"]
        api.post(f"{scene}/bodies", {"mesh": mesh, "pose": np.eye(4)[:3].flatten().tolist()})
    (found,) = api.post(f"{scene}/step", {}, 200)["contacts"]
    assert found["inverted_volume"] == pytest.approx(INVERTED, rel=1e-6)
