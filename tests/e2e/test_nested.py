"""A body wholly inside another: the contact says so, and the step has a word, through the stream, HTTP and contactctl."""

from __future__ import annotations

import json
import subprocess

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from contactd import errors
from geometry import UNIT_BOX, box, moved
from http_api import Api, off

SMALL = box((-0.125,) * 3, (0.125,) * 3)


def test_stream(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client, client.open_scene() as scene:
        scene.add_body(client.register_mesh(*UNIT_BOX), pose=np.eye(4))
        inner = scene.add_body(client.register_mesh(*SMALL), pose=np.eye(4))
        result = scene.step()
        (contact,), (warning,) = result.contacts, result.warnings
        assert contact.is_nested is True and result.are_nested.tolist() == [True] and not contact.normal.any()
        assert (warning.code, warning.body) == ("NESTED", inner)
        assert warning.value == contact.volume == pytest.approx(0.25**3, rel=1e-6)
        with pytest.raises(errors.InvalidArgumentError, match="want"):
            scene.step(want="volume").contacts[0].is_nested
        emerged = scene.step(poses={inner: moved(0.5, 0, 0)})
        assert emerged.contacts[0].is_nested is False and emerged.warnings == []


def test_http_and_contactctl(server, tmp_path):
    api = Api(server.http)
    scene, files = api("POST", "/v1/scenes", {}).json["id"], []
    for name, shape in (("big", UNIT_BOX), ("small", SMALL)):
        vertices, triangles = (np.asarray(part).tolist() for part in shape)
        files.append(tmp_path / f"{name}.off")
        files[-1].write_bytes(off(vertices, triangles))
        mesh = api("POST", "/v1/meshes", {"name": name, "vertices": vertices, "triangles": triangles}).json
        body = {"mesh": mesh["id"], "kind": "rigid", "pose": np.eye(4)[:3].ravel().tolist()}
        assert api("POST", f"/v1/scenes/{scene}/bodies", body).status == 201
    answer = api("POST", f"/v1/scenes/{scene}/step", {"want": ["frame"]}).json
    assert answer["contacts"][0]["is_nested"] is True and answer["warnings"][0]["code"] == "NESTED"

    def run(*options):
        return subprocess.run([*CONTACTCTL, "--server", server.stream, "contact", *map(str, files), *options],
                              capture_output=True, text=True, timeout=60 * SLOW).stdout

    assert json.loads(run("-o", "json"))["contacts"][0]["is_nested"] is True
    assert "nested     one surface is wholly inside the other" in run()
