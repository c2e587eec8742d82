"""VoxTree from Python, over HTTP and with contactctl: estimates with guaranteed intervals, points, budgets, and what is
refused."""

from __future__ import annotations

import json
import os
import subprocess

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from contactd import errors
from geometry import UNIT_BOX, icosphere, moved, torus, turned
from http_api import Api, off

SHARE = 0.75 * 0.5 * 0.25  # of two unit boxes, one of which is moved by 0.25 0.5 0.75


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        yield client


@pytest.fixture
def boxes(client):
    """A scene of two unit boxes that share SHARE."""
    def boxes(**settings):
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene(**settings)
        a = scene.add_body(mesh, pose=np.eye(4))
        b = scene.add_body(mesh, pose=moved(0.25, 0.5, 0.75))
        return scene, a, b

    return boxes


def test_interval_points_and_progress(boxes):
    scene, a, b = boxes(method="voxtree", voxel_level=6, max_points=3)
    assert scene.running_method == "voxtree" and scene.voxels["voxel_level"] == 6
    widths = []
    for level in range(1, 7):
        scene.configure(level=level)
        result = scene.step()
        (contact,) = result.contacts
        lower, upper = contact.interval
        assert lower <= SHARE <= upper and lower <= contact.volume <= upper
        assert contact.error_bound == max(upper - contact.volume, contact.volume - lower)
        widths.append(upper - lower)
        (pair,) = result.progress
        assert pair.bodies == (a, b) and pair.examined and max(pair.levels) <= level
        assert result.ended == pair.ended == ("completed" if level == 6 else "level")
        assert (result.quality == 1) == (level == 6)
    assert widths == sorted(widths, reverse=True) and widths[-1] < 0.5 * widths[0]
    assert contact.volume == pytest.approx(SHARE, rel=0.1)
    force = contact.generalized_gradient(a)[:3]
    exact = np.array([-0.5 * 0.25, -0.75 * 0.25, -0.75 * 0.5]) * -1
    assert np.dot(force, exact) / np.linalg.norm(force) / np.linalg.norm(exact) > 0.998
    points = contact.points
    assert 1 <= len(points.weight) <= 3 and points.position.shape == points.normal.shape == (len(points.weight), 3)
    assert points.weight.sum() == pytest.approx(1) and (np.diff(points.weight) <= 0).all()
    assert (points.depth >= 0).all() and points.group.shape == (len(points.weight), 2)
    assert np.allclose(np.linalg.norm(points.normal, axis=1), 1)
    inside = (points.position > [-0.3, -0.1, 0.1]) & (points.position < [0.6, 0.6, 0.6])
    assert inside.all()
    assert len(contact.gradient(a)[0]) == 0
    assert np.isnan(points.area).all() and len(points.area) == len(points.weight)


def test_nested_bodies_have_no_depth(client):
    """Rounding in the tree leaves some 10^-9 m^2 of the gradient of a closed surface; the volume over that was a depth of 10^7 m."""
    outer, inner = client.register_mesh(*UNIT_BOX), client.register_mesh(*torus(0.25, 0.08, 24, 16))
    scene = client.open_scene(method="voxtree")
    scene.add_body(outer, pose=np.eye(4))
    rng = np.random.default_rng(3)
    ring = scene.add_body(inner, pose=np.eye(4))
    for _ in range(4):
        (contact,) = scene.step(poses={ring: turned(rng, 0.02)}).contacts
        assert contact.volume == pytest.approx(0.0304, rel=1e-2)
        assert contact.depth == contact.area == 0 and not contact.normal.any()


def test_what_is_made_of_gradients_of_vertices_is_refused(boxes):
    scene, a, b = boxes(method="voxtree", voxel_level=5)
    for want in ("forces", ("gradient", "forces"), ("frame", "friction", "forces")):
        with pytest.raises(errors.InvalidArgumentError, match="no forces on vertices: leave them out of want") as caught:
            scene.step(want=want)
        assert caught.value.field == "want"
    d = {a: np.ones((a.vertices, 3))}
    # All four are whatever of them the method gives.
    for result in (scene.step(want=("frame", "gradient")), scene.step(want=("frame", "gradient", "friction", "forces"))):
        for of in (result, result.contacts[0]):
            with pytest.raises(errors.UnsupportedError, match="no gradient of vertices"):
                of.stiffness_product(d)
    for of in (result.contacts[0].forces, result.contacts[0].friction_weights):
        with pytest.raises(errors.UnsupportedError, match="no gradient of vertices"):
            of(a)
    scene.configure(refine=True)
    result = scene.step(want=("gradient", "forces"))
    assert len(result.contacts[0].forces(a)) > 0 and np.abs(result.stiffness_product(d, 1.0)[a]).max() > 0
    late = scene.step(want=("gradient", "forces"), time_budget=1e-6)
    assert late.contacts == [] and late.stiffness_product(d) == {}


def test_budgets(boxes):
    scene, a, b = boxes(method="voxtree", voxel_level=6)
    full = scene.step()
    assert full.ended == "completed" and full.fragments > 500
    scene.configure(pair_budget=full.fragments // 3)
    part = scene.step()
    assert part.ended == part.progress[0].ended == "pairs" and part.fragments <= full.fragments // 3
    assert 0 < part.quality < 1
    scene.configure(pair_budget=0)
    late = scene.step(time_budget=1e-6)  # over before the first level
    assert late.ended == "time" and late.quality == 0 and not late.contacts
    assert not late.progress[0].examined and late.progress[0].levels == (0, 0)
    again = scene.step(time_budget=1000)
    assert again.ended == "completed" and again.contacts[0].volume == full.contacts[0].volume


def test_refined(boxes):
    exact, body, _ = boxes(method="exact")
    truth = exact.step().contacts[0]
    scene, a, b = boxes(method="voxtree", level=3, refine=True)
    assert scene.voxels["refine"]
    result = scene.step()
    assert result.ended == "completed" and result.quality == 1 and result.progress[0].refined is True
    contact = result.contacts[0]
    assert contact.volume == truth.volume and contact.error_bound == truth.error_bound
    assert contact.interval[0] <= truth.volume <= contact.interval[1]
    for mine, its in zip(contact.gradient(a), truth.gradient(body)):
        assert np.array_equal(mine, its)
    assert len(contact.points.weight) > 0
    late = scene.step(time_budget=1e-6)
    assert late.ended == "time" and not late.progress[0].refined
    scene.configure(refine=False)
    assert scene.step().ended == "level" and not scene.step().progress[0].refined


def test_settings_name_the_method(boxes, client):
    scene, _, _ = boxes(level=4)
    assert (scene.method, scene.running_method) == ("voxtree", "voxtree")
    assert scene.voxels == {"voxel_level": 0, "level": 4, "pair_budget": 0, "max_points": 0, "center_normals": False,
                            "plain_average": False, "refine": False}
    scene.configure(center_normals=True, plain_average=True)
    assert scene.voxels["center_normals"] and scene.voxels["plain_average"]
    assert scene.step().settings["voxels"] == scene.voxels
    scene.configure(method="exact")
    assert scene.method == "exact" and not any(scene.voxels.values())
    contact = scene.step().contacts[0]
    assert contact.interval is None
    with pytest.raises(contactd.errors.InvalidArgumentError, match="max_points"):
        contact.points
    scene.configure(resolution=16)
    scene.configure(voxel_level=5)
    assert scene.method == "voxtree" and scene.resolution is None


def test_a_restarted_server_keeps_them(make_server):
    server = make_server()
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene(method="voxtree", level=3)
        scene.add_body(mesh, pose=np.eye(4))
        scene.add_body(mesh, pose=moved(0.5))
        before = scene.step()
        server.restart(hard=True)
        after = scene.step()
        assert after.ended == "level" and after.contacts[0].volume == before.contacts[0].volume
        assert scene.voxels["level"] == 3


def mesh_bytes(client):
    return client.status()["mesh_bytes"]


def test_trees_are_within_the_mesh_memory_and_go_with_their_bodies(make_server):
    """Trees are asked for before they are made, and freed when no body needs them any more."""
    server = make_server("--mesh-memory", "32M")
    with contactd.connect(server.stream, timeout=60 * SLOW) as client:
        meshes = [client.register_mesh(UNIT_BOX[0] * [1, 1, 1 + i / 100], UNIT_BOX[1]) for i in range(4)]
        alone = mesh_bytes(client)
        scene = client.open_scene(method="voxtree", voxel_level=8)
        first = scene.add_body(meshes[0], pose=np.eye(4))
        with_one = mesh_bytes(client)
        assert alone + (8 << 20) < with_one < 32 << 20
        with pytest.raises(errors.LimitExceededError, match=r"voxel tree of level 8.*needs \d+ bytes.* of the 33554432") as caught:
            scene.add_body(meshes[1], pose=np.eye(4))
        assert caught.value.field == "mesh-memory"
        assert mesh_bytes(client) < with_one + 1000 and len(scene.bodies) == 1
        client.register_mesh(*icosphere(0.5, 2)).remove()  # a refusal leaves room for others
        # Another scene shares the tree, and a refused configuration keeps what there was.
        other = client.open_scene(method="voxtree", voxel_level=8)
        other.add_body(meshes[0], pose=moved(0.5))
        small = client.open_scene(method="voxtree", voxel_level=4)
        bodies = [small.add_body(mesh, pose=moved(0.1 * i)) for i, mesh in enumerate(meshes)]
        before = small.step().contacts[0].volume
        with_small = mesh_bytes(client)
        with pytest.raises(errors.LimitExceededError):
            small.configure(voxel_level=8)
        assert mesh_bytes(client) == with_small and small.step().contacts[0].volume == before
        scene.remove_body(first)
        assert mesh_bytes(client) == with_small and other.step().contacts == []
        other.configure(method="exact")
        without = mesh_bytes(client)
        assert without < with_small - (8 << 20)
        small.replace_mesh(bodies[0], meshes[1])
        small.close()
        assert mesh_bytes(client) < without
        # Now there is room for another one, and a closed connection gives it back.
        scene.add_body(meshes[1], pose=np.eye(4))
        scene.close()
        assert mesh_bytes(client) < alone + (1 << 20)


def test_refusals(boxes, client):
    mesh = client.register_mesh(*icosphere(1.0, 2))
    scene, _, _ = boxes(method="voxtree")
    for settings, kind, field, words in [
            ({"voxel_level": 9}, errors.OutOfRangeError, "voxel_level", "expected 3 to 8"),
            ({"voxel_level": 4, "level": 5}, errors.OutOfRangeError, "level", "expected 1 to 4"),
            ({"max_points": 5000}, errors.OutOfRangeError, "max_points", "expected 1 to 4096"),
            ({"method": "voxtree", "resolution": 8}, errors.InvalidArgumentError, "resolution", "takes no resolution"),
            ({"method": "exact", "level": 3}, errors.InvalidArgumentError, "level", 'choose method "voxtree"')]:
        with pytest.raises(kind, match=words) as caught:
            scene.configure(**settings)
        assert caught.value.field == field
    for value in (-1, 1.5, 2**40):
        with pytest.raises(errors.ContactdError) as caught:
            scene.configure(level=value)
        assert caught.value.field == "level"
    for field, words in [("voxel_level", "expected 3 to 8, or 0 for one"), ("level", "expected 1 to 8"),
                         ("max_points", "expected 1 to 4096, or 0"), ("pair_budget", f"expected 1 to {2**63 - 1}")]:
        for value in (-1, 2**63):  # not even the wire takes these
            with pytest.raises(errors.OutOfRangeError, match=f"{words}.*, got {value}") as caught:
                scene.configure(**{field: value})
            assert caught.value.field == field
    with pytest.raises(errors.InvalidArgumentError):
        scene.configure(center_normals=2)
    with pytest.raises(errors.UnsupportedError, match="no deformable bodies"):
        scene.add_body(mesh)
    other = client.open_scene()
    other.add_body(mesh)
    with pytest.raises(errors.UnsupportedError, match="no deformable bodies"):
        other.configure(method="voxtree")
    for budget in (0, -1, float("nan")):
        with pytest.raises(errors.ContactdError) as caught:
            scene.step(time_budget=budget)
        assert caught.value.field == "time_budget"
    exact, _, _ = boxes(method="exact")
    with pytest.raises(errors.InvalidArgumentError, match="takes no time_budget"):
        exact.step(time_budget=0.1)


def test_http(server):
    api = Api(server.http)
    mesh = api("POST", "/v1/meshes", {"name": "box", "vertices": UNIT_BOX[0].tolist(), "triangles": UNIT_BOX[1].tolist()}).json
    scene = api("POST", "/v1/scenes", {"method": "voxtree", "voxel_level": 5, "level": 4, "center_normals": True}).json
    assert (scene["method"], scene["voxel_level"], scene["level"], scene["center_normals"]) == ("voxtree", 5, 4, True)
    for pose in (np.eye(4), moved(0.25, 0.5, 0.75)):
        body = api("POST", f"/v1/scenes/{scene['id']}/bodies",
                   {"mesh": mesh["id"], "kind": "rigid", "pose": np.asarray(pose)[:3].ravel().tolist()})
        assert body.status == 201
    answer = api("POST", f"/v1/scenes/{scene['id']}/step", {"want": ["frame"]}).json
    (contact,) = answer["contacts"]
    assert contact["volume_lower"] <= SHARE <= contact["volume_upper"] and contact["points"]
    assert set(contact["points"][0]) == {"position", "normal", "depth", "weight", "group"}
    assert (answer["ended"], answer["progress"][0]["ended"], answer["progress"][0]["examined"]) == ("level", "level", True)
    late = api("POST", f"/v1/scenes/{scene['id']}/step", {"time_budget_us": 1}).json
    assert late["ended"] == "time" and late["contacts"] == [] and not late["progress"][0]["examined"]
    refused = api("POST", f"/v1/scenes/{scene['id']}/step", {"time_budget_us": 0})
    assert refused.status == 422 and refused.json["field"] == "time_budget_us", refused.json
    refused = api("POST", f"/v1/scenes/{scene['id']}/step", {"want": ["forces"]})
    assert refused.status == 400 and refused.json["field"] == "want" and "no forces" in refused.json["detail"]
    refused = api("PATCH", f"/v1/scenes/{scene['id']}", {"level": 9})
    assert refused.status == 422 and refused.json["field"] == "level"
    refused = api("PATCH", f"/v1/scenes/{scene['id']}", {"level": 6})
    assert refused.status in (400, 422) and "expected 1 to 5" in refused.json["detail"]


def ctl(server, *arguments):
    done = subprocess.run([*CONTACTCTL, *arguments], env=os.environ | {"CONTACTD_SERVER": server.stream},
                          capture_output=True, text=True, timeout=60 * SLOW)
    return done.returncode, done.stdout, done.stderr


def test_contactctl(server, tmp_path):
    box = tmp_path / "box.off"
    box.write_bytes(off(*(part.tolist() for part in UNIT_BOX)))
    pose = "1 0 0 .25 0 1 0 .5 0 0 1 .75"
    code, out, err = ctl(server, "-o", "json", "contact", str(box), str(box), "--pose-b", pose, "--method", "voxtree",
                         "--level", "5")
    assert code == 0, err
    answer = json.loads(out)
    (contact,) = answer["contacts"]
    assert answer["method"] == "voxtree" and answer["ended"] == answer["progress"][0]["ended"] == "completed"
    assert contact["volume_lower"] <= SHARE <= contact["volume_upper"] and contact["points"][0]["weight"] > 0
    code, out, err = ctl(server, "contact", str(box), str(box), "--pose-b", pose, "--method", "voxtree", "--level", "3")
    assert code == 0 and "between" in out and "ended: level" in out and "point " in out
    code, out, err = ctl(server, "contact", str(box), str(box), "--pose-b", pose, "--method", "voxtree", "--budget-us", "1")
    assert code == 0 and "not examined" in out and "no overlap" not in out
    code, out, err = ctl(server, "contact", str(box), str(box), "--pose-b", pose, "--method", "voxtree", "--refine")
    assert code == 0 and "then exactly; ended: completed" in out
    for bad in ("0", "-5", "1.5", "x"):
        code, out, err = ctl(server, "contact", str(box), str(box), "--method", "voxtree", "--budget-us", bad)
        assert code == 2 and "--budget-us" in err
    code, out, err = ctl(server, "contact", str(box), str(box), "--method", "voxtree", "--level", "9")
    assert code == 3 and "expected 1 to 8" in err
    code, out, err = ctl(server, "contact", str(box), str(box), "--method", "exact", "--budget-us", "100")
    assert code == 3 and "takes no time_budget" in err


def test_a_new_mesh_is_voxelised(boxes, client):
    """How a body that deforms now and then is followed: its mesh is replaced."""
    scene, a, b = boxes(method="voxtree", voxel_level=5)
    with pytest.raises(errors.UnsupportedError):
        scene.add_body(client.register_mesh(*UNIT_BOX))  # deformable
    before = scene.step().contacts[0]
    scene.replace_mesh(a, client.register_mesh(UNIT_BOX[0] * [1, 1, 0.875], UNIT_BOX[1]))
    after = scene.step().contacts[0]
    truth = 0.75 * SHARE  # of the height, 0.5 * 0.875 - 0.25 instead of 0.5 - 0.25
    assert before.volume > truth and after.interval[0] <= truth <= after.interval[1]
    assert after.volume == pytest.approx(truth, rel=0.1)
