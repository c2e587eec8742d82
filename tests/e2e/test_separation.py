"""Distances of bodies within a margin, from Python, over HTTP, with contactctl and through its C client."""

from __future__ import annotations

import json
import os
import subprocess

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from contactd import errors
from geometry import UNIT_BOX, icosphere, moved
from http_api import Api, off


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        yield client


@pytest.mark.parametrize("method", ["exact", "ldi", "voxtree"])
def test_boxes(client, method):
    mesh = client.register_mesh(*UNIT_BOX)
    scene = client.open_scene(method=method, margin=0.5)
    assert scene.margin == 0.5
    a = scene.add_body(mesh, pose=np.eye(4))
    b = scene.add_body(mesh, pose=moved(0, 0.25, 1.25))
    result = scene.step()
    assert result.contacts == [] and result.settings["margin"] == 0.5
    (pair,) = result.separations
    assert pair.bodies == (a, b) and pair.distance == pytest.approx(0.25, abs=1e-12)
    np.testing.assert_allclose(pair.normal, (0, 0, -1), atol=1e-12)
    np.testing.assert_allclose(pair.points[0] - pair.points[1], (0, 0, -0.25), atol=1e-12)
    # When they meet there is a contact instead, and when they are farther apart neither.
    result = scene.step(poses={b: moved(0, 0.25, 0.75)})
    assert len(result.contacts) == 1 and result.separations == []
    result = scene.step(poses={b: moved(0, 0.25, 1.5)})
    assert result.contacts == [] and result.separations == []
    scene.configure(margin=2)
    assert len(scene.step().separations) == 1
    scene.configure(method="exact")
    assert scene.margin == 2  # every method has it
    scene.configure(margin=0)
    assert scene.step().separations == []


def test_pairs_that_voxtree_did_not_examine_are_not_apart(client, server, tmp_path):
    small = UNIT_BOX[0] * 0.2, UNIT_BOX[1]  # inside the unit box
    scene = client.open_scene(method="voxtree", margin=2)
    for mesh in (UNIT_BOX, small):
        scene.add_body(client.register_mesh(*mesh), pose=np.eye(4))
    late = scene.step(time_budget=1e-6)
    assert not late.progress[0].examined and late.contacts == [] and late.separations == []
    whole = scene.step()
    assert whole.progress[0].examined and len(whole.contacts) == 1 and whole.separations == []
    paths = [tmp_path / name for name in ("big.off", "small.off")]
    for path, mesh in zip(paths, (UNIT_BOX, small)):
        path.write_bytes(off(*(part.tolist() for part in mesh)))
    done = subprocess.run([*CONTACTCTL, "contact", *map(str, paths), "--method", "voxtree", "--budget-us", "1",
                           "--margin", "2"], env=os.environ | {"CONTACTD_SERVER": server.stream}, capture_output=True,
                          text=True, timeout=60 * SLOW)
    assert done.returncode == 0 and "not examined" in done.stdout and "apart" not in done.stdout, done


def test_half_space_and_deformable(client):
    vertices, triangles = icosphere(0.5, 3)
    scene = client.open_scene(margin=0.1)
    floor = scene.add_half_space((0, 0, 1), 0)
    ball = scene.add_body(client.register_mesh(vertices, triangles))
    result = scene.step(positions={ball: np.asarray(vertices) + (0, 0, 0.55)})
    (pair,) = result.separations
    lowest = np.asarray(vertices, np.float64)[:, 2].min() + 0.55
    assert pair.bodies == (floor, ball) and pair.distance == pytest.approx(lowest, abs=1e-6)
    np.testing.assert_allclose(pair.normal, (0, 0, -1), atol=1e-12)
    assert pair.points[0][2] == pytest.approx(0, abs=1e-12)


def test_more_than_a_step_lists(client):
    """1,450 bodies, all within the margin: an error that names the remedy, which helps; nothing is left out."""
    mesh = client.register_mesh(*UNIT_BOX)
    scene = client.open_scene(margin=1e9)
    for i in range(1450):
        scene.add_body(mesh, pose=moved(0, 0, 1.5 * i))
    with pytest.raises(errors.LimitExceededError, match="1050525 pairs.*at most 1048576.*use a smaller margin") as caught:
        scene.step()
    assert caught.value.field == "margin"
    scene.configure(margin=0.75)
    separations = scene.step().separations
    assert len(separations) == 1449 and all(pair.distance == pytest.approx(0.5) for pair in separations)


def test_refusals(client):
    for value in (-1, float("nan"), float("inf"), 1e31):
        with pytest.raises(errors.ContactdError) as caught:
            client.open_scene(margin=value)
        assert caught.value.field == "margin"


def test_http(server):
    api = Api(server.http)
    scene = api("POST", "/v1/scenes", {"margin": 0.5}).json
    assert scene["margin"] == 0.5
    mesh = api("POST", "/v1/meshes", {"name": "box", "vertices": UNIT_BOX[0].tolist(), "triangles": UNIT_BOX[1].tolist()}).json
    ids = [api("POST", f"/v1/scenes/{scene['id']}/bodies",
               {"mesh": mesh["id"], "kind": "rigid", "pose": np.asarray(pose)[:3].ravel().tolist()}).json["id"]
           for pose in (np.eye(4), moved(1.25, 0, 0))]
    answer = api("POST", f"/v1/scenes/{scene['id']}/step", {"want": []}).json
    (pair,) = answer["separations"]
    assert pair["bodies"] == ids and pair["distance"] == pytest.approx(0.25) and pair["normal"] == [-1, 0, 0]
    assert answer["settings"]["margin"] == 0.5
    api("PATCH", f"/v1/scenes/{scene['id']}", {"margin": 0})
    assert "separations" not in api("POST", f"/v1/scenes/{scene['id']}/step", {"want": []}).json


def test_contactctl(server, tmp_path):
    file = tmp_path / "box.off"
    file.write_bytes(off(*(part.tolist() for part in UNIT_BOX)))

    def run(*options):
        return subprocess.run([*CONTACTCTL, "contact", file, file, "--pose-b", "1 0 0 0 0 1 0 0 0 0 1 1.25", *options],
                              env=os.environ | {"CONTACTD_SERVER": server.stream}, capture_output=True, text=True,
                              timeout=60 * SLOW)

    answer = json.loads(run("--margin", "0.5", "-o", "json").stdout)
    (pair,) = answer["separations"]
    assert pair["distance"] == pytest.approx(0.25) and pair["normal"] == [0, 0, -1] and answer["contacts"] == []
    assert len(pair["points"]) == 2 and pair["points"][1][2] - pair["points"][0][2] == pytest.approx(0.25)
    assert "separations" not in json.loads(run("-o", "json").stdout)
    text = run("--margin", "0.5").stdout
    assert "apart      0.25 m" in text and "no overlap" in text
    refused = run("--margin", "-2")
    assert refused.returncode == 2 and "--margin" in refused.stderr
