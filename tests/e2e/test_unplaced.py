"""A pair that the method's coordinates cannot hold: it fails the step, by name, or the scene goes on without it."""

from __future__ import annotations

import math
import subprocess

import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from contactd import errors
from geometry import UNIT_BOX, box, moved
from http_api import Api, off

PIN, PLANET = box((-1e-7,) * 3, (1e-7,) * 3), box((-1e9,) * 3, (1e9,) * 3)
SETTINGS = [{"method": "exact"}, {"law": "pressure"}, {"method": "exact", "patches": True, "margin": 0.1},
            {"method": "ldi", "pixel_size": 0.01}]


def fill(scene):
    """A pin that sticks in a planet, and far from both two boxes that share 0.3 m^3."""
    return [scene.add_body(scene.client.register_mesh(*shape), pose) for shape, pose in (
        (PLANET, moved(0, 0, -1e9)), (PIN, np.eye(4)), (UNIT_BOX, moved(3e9, 0, 0.3)), (UNIT_BOX, moved(3e9, 0, 1)))]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: " ".join(map(str, settings.values())))
def test_the_step_goes_on(server_or_engine, settings):
    scene = server_or_engine.open_scene(skip_unplaced=True, **settings)
    planet, pin, *_ = fill(scene)
    for pose in (np.eye(4), moved(1e-8, 0, 0), None):  # the last time nothing has moved
        result = scene.step(poses={pin: pose} if pose is not None else None)
        assert result.volumes == pytest.approx([0.3], rel=1e-3)
        assert [(w.code, w.body) for w in result.warnings] == [("UNPLACED", planet), ("UNPLACED", pin)]
        assert all(math.isnan(w.value) for w in result.warnings)
    away = scene.step(poses={pin: moved(0, 0, 5)})
    assert away.volumes == pytest.approx([0.3], rel=1e-3) and away.warnings == []
    scene.step(poses={pin: np.eye(4)})
    scene.configure(skip_unplaced=False)
    with pytest.raises(errors.OutOfRangeError, match=f"bodies {planet.id} and {pin.id}"):
        scene.step()
    scene.configure(skip_unplaced=True)
    assert len(scene.step()) == 1


def test_many_scenes(server_or_engine):
    scene = server_or_engine.open_scene(method="exact", skip_unplaced=True)
    fill(scene)
    scenes = server_or_engine.open_scenes(3, scene)
    poses = np.stack([[moved(0, 0, -1e9), moved(1e-8 * i, 0, 0), moved(3e9, 0, 0.3), moved(3e9, 0, 1)] for i in range(3)])
    assert server_or_engine.step_many(scenes, poses[:, :, :3]).volumes == pytest.approx([0.3] * 3, rel=1e-3)


def test_too_many_samples_are_an_error_all_the_same(server_or_engine):
    """The bodies can be placed: what is asked of them is too much."""
    scene = server_or_engine.open_scene(method="ldi", pixel_size=1e-4, skip_unplaced=True)
    box_ = scene.client.register_mesh(*UNIT_BOX)
    scene.add_body(box_, np.eye(4)), scene.add_body(box_, moved(0.1, 0, 0))
    with pytest.raises(errors.LimitExceededError, match="pixel_size"):
        scene.step()


def test_http(server):
    api = Api(server.http)
    scene = f"/v1/scenes/{api.post('/v1/scenes', {'skip_unplaced': True})['id']}"
    for shape, pose in ((PLANET, moved(0, 0, -1e9)), (PIN, np.eye(4))):
        mesh = api("POST", "/v1/meshes", {"vertices": np.asarray(shape[0]).tolist(), "triangles": np.asarray(shape[1]).tolist()}).json["id"]
        api.post(f"{scene}/bodies", {"mesh": mesh, "pose": pose[:3].ravel().tolist()})
    answer = api.post(f"{scene}/step", {}, status=200)
    assert answer["contacts"] == [] and answer["settings"]["skip_unplaced"] is True
    assert [(w["code"], w["volume"]) for w in answer["warnings"]] == [("UNPLACED", None)] * 2
    api("PATCH", scene, {"skip_unplaced": False})
    api.refused("POST", f"{scene}/step", 422, "OUT_OF_RANGE", {}, field="method")


def test_contactctl(server, tmp_path):
    """What has no volume is told without one."""
    files = [tmp_path / "planet.off", tmp_path / "pin.off"]
    for path, shape in zip(files, (PLANET, PIN)):
        path.write_bytes(off(*(np.asarray(part).tolist() for part in shape)))
    command = [*CONTACTCTL, "--server", server.stream, "contact", *map(str, files), "--pose-a", "1 0 0 0  0 1 0 0  0 0 1 -1e9",
               "--pose-b", "1 0 0 0  0 1 0 0  0 0 1 0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 * SLOW)
    assert done.returncode == 3 and "bodies 1 and 2" in done.stderr
    done = subprocess.run([*command, "--skip-unplaced"], capture_output=True, text=True, timeout=60 * SLOW)
    assert done.returncode == 0 and "no overlap" in done.stdout
    assert done.stderr.count("UNPLACED") == 2 and "nan" not in done.stderr and "UNPLACED" in server.logs() and "nan m" not in server.logs()


def test_not_taken(server_or_engine):
    with pytest.raises(errors.InvalidArgumentError, match="skip_unplaced"):
        server_or_engine.open_scene(method="voxtree", skip_unplaced=True)
