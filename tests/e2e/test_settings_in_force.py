"""The settings that a step ran with are told by its answer; what an operator changed outlives the server."""

from __future__ import annotations

import json
import math
import os
import subprocess

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from contactd import errors
from contactd._scene_settings import ROWS
from geometry import UNIT_BOX, moved
from http_api import Api
from raw import Raw

# What nobody has given: numbers are 0 then, flags false, of choices it is the first.
NOT_GIVEN = {row.name: False if row.type == "flag" else next(iter(row.choices), 0) for row in ROWS}
NO_VOXELS = {row.name: NOT_GIVEN.pop(row.name) for row in ROWS if row.is_voxels}


@pytest.fixture
def world(make_server):
    server = make_server()
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene(resolution=32, name="lab")
        scene.add_body(mesh)
        b = scene.add_body(mesh, pose=moved(0.5))
        yield server, client, scene, b


def test_a_patch_is_told_and_outlives_the_server(world):
    server, client, scene, b = world
    api = Api(server.http)
    result = scene.step()
    assert result.settings == {**NOT_GIVEN, "method": "ldi", "resolution": (32, 32, 32), "stiffness": 1, "revision": 1,
                               "voxels": NO_VOXELS}
    before = api.get(f"/v1/scenes/{scene.id}")
    assert before["revision"] == 1
    after = api("PATCH", f"/v1/scenes/{scene.id}", {"resolution": 64, "stiffness": 5}).json
    assert (after["resolution"], after["revision"]) == ([64, 64, 64], 2)
    assert scene.resolution == (32, 32, 32)  # the client was not told yet
    result = scene.step()
    assert (result.settings["resolution"], result.settings["stiffness"], result.settings["revision"]) == ((64,) * 3, 5, 2)
    assert result.rays == 3 * 64 * 64
    assert (scene.resolution, scene.stiffness) == ((64, 64, 64), 5)
    for _ in range(2):
        server.restart(hard=True)
        result = scene.step()
        assert result.rays == 3 * 64 * 64
        assert (result.settings["stiffness"], result.settings["revision"]) == (5, 2)
    assert client.reconnects == 2
    scene.configure(resolution=16)  # whoever comes last is right, the client too
    server.restart(hard=True)
    result = scene.step()
    assert result.rays == 3 * 16 * 16 and result.settings["revision"] == 3


def test_a_patch_of_the_method(world):
    server, client, scene, b = world
    Api(server.http)("PATCH", f"/v1/scenes/{scene.id}", {"method": "exact"})
    assert scene.step().settings["method"] == "exact"
    assert (scene.method, scene.running_method, scene.resolution) == ("exact", "exact", None)
    server.restart(hard=True)
    result = scene.step()
    assert result.method == result.settings["method"] == "exact" and result.settings["resolution"] is None


def test_steps_in_flight_bring_no_old_settings_back(world):
    server, client, scene, b = world
    futures = [scene.submit(poses={b: moved(0.5 + i / 100)}) for i in range(20)]
    scene.configure(resolution=8)
    last = scene.submit()
    revisions = [future.result(60 * SLOW).settings["revision"] for future in futures]
    assert sorted(revisions) == revisions and set(revisions) <= {1, 2}
    assert last.result(60 * SLOW).rays == 3 * 8 * 8 and scene.resolution == (8, 8, 8)


def test_http_steps_tell_their_settings(world):
    server, client, scene, b = world
    api = Api(server.http)
    opened = api("POST", "/v1/scenes", {"pixel_size": 0.125}).json
    settings = api("POST", f"/v1/scenes/{opened['id']}/step", {}).json["settings"]
    assert settings == {**NOT_GIVEN, **NO_VOXELS, "method": "ldi", "resolution": opened["resolution"], "pixel_size": 0.125, "stiffness": 1,
                        "revision": 1}
    api("PATCH", f"/v1/scenes/{opened['id']}", {"method": "auto", "patches": True})
    settings = api("POST", f"/v1/scenes/{opened['id']}/step", {}).json["settings"]
    assert settings == {**NOT_GIVEN, **NO_VOXELS, "method": "auto", "resolution": None, "stiffness": 1, "patches": True, "revision": 2}
    precision = {"tolerance": 0.001, "tolerance_rel": 0.25, "strict": True, "optimize_directions": True,
                 "allocation": "published", "ray_budget": 5000}
    api("PATCH", f"/v1/scenes/{opened['id']}", {"method": "ebpi", "patches": False, **precision})
    settings = api("POST", f"/v1/scenes/{opened['id']}/step", {}).json["settings"]
    assert settings == {**NOT_GIVEN, **NO_VOXELS, "method": "ebpi", "resolution": None, "stiffness": 1, **precision, "revision": 3}


def test_a_limit_of_the_step_time_is_told_and_kept(world):
    server, client, scene, b = world
    api = Api(server.http)
    assert scene.max_step_time == 0 and scene.step().settings["max_step_time"] == 0  # the server's limit holds
    server.restart(hard=True)
    scene.step()  # no limit of its own is not asked for as one of 0
    scene.configure(max_step_time=5)
    assert scene.max_step_time == 5 and scene.info()["settings"]["max_step_time"] == 5
    for method in ("exact", "ldi", "auto"):
        scene.configure(method=method)
        assert scene.step().settings["max_step_time"] == 5, method
    server.restart(hard=True)
    assert scene.step().settings["max_step_time"] == 5
    assert client.open_scene(max_step_time=0.5).max_step_time == 0.5
    opened = api("POST", "/v1/scenes", {"max_step_time": 2.5}).json
    assert opened["max_step_time"] == 2.5
    assert api("PATCH", f"/v1/scenes/{opened['id']}", {"max_step_time": 1.5}).json["max_step_time"] == 1.5
    assert api("PATCH", f"/v1/scenes/{opened['id']}", {"resolution": 8}).json["max_step_time"] == 1.5
    assert api("POST", f"/v1/scenes/{opened['id']}/step", {}).json["settings"]["max_step_time"] == 1.5
    mesh = client.register_mesh(*UNIT_BOX)
    assert client.overlap(mesh, mesh, pose_b=moved(0.5), max_step_time=5).volume == pytest.approx(0.5)
    both = {"a": {"mesh": mesh.hash}, "b": {"mesh": mesh.hash}}
    assert api("POST", "/v1/overlap", both | {"max_step_time": 5}).status == 200
    assert api("POST", "/v1/overlap", both | {"max_step_time": 0}).status == 422


@pytest.mark.parametrize("seconds, error", [
    (0, errors.OutOfRangeError), (-1, errors.OutOfRangeError), (-2, errors.OutOfRangeError), (math.nan, errors.NonFiniteError),
    (math.inf, errors.NonFiniteError)])
def test_a_limit_that_is_no_time_is_refused(world, seconds, error):
    server, client, scene, b = world
    for refused in (lambda: client.open_scene(max_step_time=seconds), lambda: scene.configure(max_step_time=seconds)):
        with pytest.raises(error) as caught:
            refused()
        assert caught.value.field == "max_step_time"
    raw = Raw(server.stream)
    if seconds != -1:  # says on the wire that there is none
        code, _, field, _ = raw.refused("OpenScene", {"settings": {"max_step_time": seconds}})
        assert (code, field) == (error.code.name, "max_step_time")
    raw.close()
    done = subprocess.run([*CONTACTCTL, "scene", "set", str(scene.id), "--max-step-time", str(seconds)],
                          env=os.environ | {"CONTACTD_SERVER": server.stream}, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--max-step-time" in done.stderr
    assert scene.info()["settings"]["max_step_time"] == 0


def test_contactctl_shows_the_limit(world):
    server, client, scene, b = world

    def run(*words: str) -> str:
        return subprocess.run([*CONTACTCTL, *words], env=os.environ | {"CONTACTD_SERVER": server.stream}, capture_output=True,
                              text=True, check=True).stdout

    assert "max_step_time" not in run("scene", "show", str(scene.id))
    assert "steps are ended after 2.5 s" in run("scene", "set", str(scene.id), "--max-step-time", "2.5")
    assert "steps are ended after 2.5 s" in run("scene", "show", str(scene.id))
    assert json.loads(run("scene", "show", str(scene.id), "--json"))["max_step_time"] == 2.5
    assert scene.step().settings["max_step_time"] == 2.5
