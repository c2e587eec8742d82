"""Half-spaces: floors and walls without a mesh, through both clients and HTTP."""
import json
import math
import os
import subprocess

import numpy as np
import pytest

import contactd
from conftest import CONTACTCTL, SLOW
from contactd import errors
from geometry import UNIT_BOX
from http_api import Api

BOX = np.asarray(UNIT_BOX[0], float) - np.min(UNIT_BOX[0], axis=0), UNIT_BOX[1]  # from 0 0 0 to 1 1 1


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as c:
        yield c


@pytest.fixture
def api(server):
    return Api(server.http)


def test_python(client):
    scene = client.open_scene()
    floor = scene.add_half_space([0, 0, 2], 0.25)
    box = scene.add_body(client.register_mesh(*BOX), pose=np.eye(4))
    assert (floor.kind, box.kind) == ("half-space", "rigid")
    (contact,) = scene.step(want="all").contacts
    assert contact.bodies == (floor, box)
    assert contact.volume == pytest.approx(0.25, abs=1e-9) and contact.error_bound < 1e-8
    assert contact.normal == pytest.approx([0, 0, -1]) and contact.center == pytest.approx([0.5, 0.5, 0.125])
    vertices, gradient = contact.gradient(floor)
    assert len(vertices) == 0 and gradient.shape == (0, 3)
    assert contact.gradient(box)[1].sum(0) == pytest.approx([0, 0, -1])
    assert contact.generalized_gradient(floor) == pytest.approx([0, 0, 1, 0.5, -0.5, 0], abs=1e-9)
    # Moved by a pose: a wall at x = 0.5, tilted.
    normal, offset = [1, 0, 1], 0.5 / math.sqrt(2)
    (contact,) = scene.step(poses={floor: contactd.plane_pose(normal, offset)}, want="all").contacts
    assert contact.volume == pytest.approx(0.125, abs=1e-9)
    h, volumes = 1e-3, []
    for by in (-h, h):
        volumes.append(scene.step(poses={floor: contactd.plane_pose(normal, offset + by)}).contacts[0].volume)
    along = np.asarray(normal) / math.sqrt(2)
    assert contact.generalized_gradient(floor)[:3] @ along == pytest.approx((volumes[1] - volumes[0]) / (2 * h), abs=1e-4)
    with pytest.raises(errors.ContactdError, match="poses"):
        scene.step(positions={floor: np.zeros((0, 3))})
    scene.remove_body(floor)
    assert not scene.step().contacts


def test_refused_by_name(client):
    with pytest.raises(errors.UnsupportedError, match='"ldi" takes no half-spaces'):
        client.open_scene(resolution=16).add_half_space([0, 0, 1])
    scene = client.open_scene()
    scene.add_half_space([0, 0, 1])
    with pytest.raises(errors.UnsupportedError, match="half-spaces") as refused:
        scene.configure(method="ldi")
    assert refused.value.field == "method"
    for normal, code in (([0, 0, 0], "OUT_OF_RANGE"), ([0, math.nan, 1], "NON_FINITE"), ([1, 2], "WRONG_LENGTH")):
        with pytest.raises(errors.ContactdError) as refused:
            scene.add_half_space(normal)
        assert (refused.value.code.name, refused.value.field) == (code, "normal")
    with pytest.raises(errors.InvalidArgumentError, match="no contact with itself") as refused:
        scene.add_half_space([0, 0, 1], self_contact=True)
    assert refused.value.field == "self_contact" and len(scene.bodies) == 1
    for offset in (math.nan, math.inf):
        with pytest.raises(errors.ContactdError) as refused:
            scene.add_half_space([0, 0, 1], offset)
        assert (refused.value.code.name, refused.value.field) == ("NON_FINITE", "offset")


def test_a_restart_keeps_half_spaces(fresh_server):
    with contactd.connect(fresh_server.stream, timeout=30 * SLOW) as client:
        scene = client.open_scene()
        floor = scene.add_half_space([0, 0, 1])
        scene.add_body(client.register_mesh(*BOX), pose=np.eye(4))
        scene.step(poses={floor: contactd.plane_pose([0, 0, 1], 0.5)})
        for restarted in (False, True):
            if restarted:
                fresh_server.restart()
            (contact,) = scene.step().contacts
            assert contact.volume == pytest.approx(0.5, abs=1e-9)
        assert client.reconnects >= 1  # more where the connection stalled while the scene was made again


def test_http(api):
    scene = api.scene()
    mesh = api("POST", "/v1/meshes", {"vertices": BOX[0].tolist(), "triangles": np.asarray(BOX[1]).tolist()}).json["id"]
    floor = api.post(f"{scene}/bodies", {"kind": "half_space", "normal": [0, 0, 3], "offset": 0.25})
    assert (floor["kind"], floor["mesh"], floor["vertices"]) == ("half_space", None, 0)
    assert floor["hi"][2] == 0.25 and floor["lo"] == [-1e30] * 3
    api.post(f"{scene}/bodies", {"mesh": mesh, "pose": np.eye(4)[:3].flatten().tolist()})
    (contact,) = api.post(f"{scene}/step", {}, 200)["contacts"]
    assert contact["volume"] == pytest.approx(0.25, abs=1e-9)
    pose = contactd.plane_pose([0, 0, 1], 0.75)[:3].flatten().tolist()
    (contact,) = api.post(f"{scene}/step", {"updates": [{"body": floor["id"], "pose": pose}]}, 200)["contacts"]
    assert contact["volume"] == pytest.approx(0.75, abs=1e-9)
    for body, status, code, field in (
            ({"kind": "half_space"}, 400, "INVALID_ARGUMENT", "normal"),
            ({"kind": "half_space", "normal": [0, 0, 1], "mesh": mesh}, 400, "INVALID_ARGUMENT", "mesh"),
            ({"kind": "half_space", "normal": [0, 0, 1], "pose": pose}, 400, "INVALID_ARGUMENT", "pose"),
            ({"kind": "half_space", "normal": [0, 1]}, 422, "WRONG_LENGTH", "normal"),
            ({"kind": "half_space", "normal": [0, 0, 0]}, 422, "OUT_OF_RANGE", "normal"),
            ({"kind": "rigid", "mesh": mesh, "normal": [0, 0, 1]}, 400, "INVALID_ARGUMENT", "normal"),
            ({"mesh": mesh, "offset": 1}, 400, "INVALID_ARGUMENT", "offset")):
        api.refused("POST", f"{scene}/bodies", status, code, body, field=field)
    assert len(api.get(f"{scene}/bodies")["bodies"]) == 2


def test_contactctl(server, tmp_path):
    vertices, triangles = BOX
    box = tmp_path / "box.obj"
    box.write_text("".join(f"v {x} {y} {z}\n" for x, y, z in np.asarray(vertices, float))
                   + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in triangles))

    def run(*args, code=0):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CONTACTD_")}
        done = subprocess.run([*CONTACTCTL, "--server", server.stream, *map(str, args)], capture_output=True,
                              text=True, timeout=60 * SLOW, env=clean)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    answer = json.loads(run("contact", box, "--half-space", "0,0,-1,-0.75", "-o", "json"))
    (contact,) = answer["contacts"]
    assert contact["volume"] == pytest.approx(0.25, abs=1e-9) and contact["gradient_nonzeros"][1] == 0
    assert contact["normal"] == pytest.approx([0, 0, -1]) and answer["bodies"][1]["half_space"] == [0, 0, -1, -0.75]
    assert "half-space below 0.5 along 1 1 0" in run("contact", box, "--half-space", "1 1 0 0.5", "--patches")
    assert "takes no half-spaces" in run("contact", box, "--half-space", "0,0,1,0", "--method", "ldi", code=3)
    assert "expected four numbers" in run("contact", box, "--half-space", "0,0,1", code=2)
    for words in ((box,), (box, box, "--half-space", "0,0,1,0"), (box, "--half-space", "0,0,1,0", "--pose-b", "1")):
        assert "half-space" in run("contact", *words, code=2)


def test_stiffness_products_take_half_spaces(client):
    """A half-space has no vertices, so its displacements have shape (0, 3)."""
    box = client.register_mesh(*BOX)
    with client.open_scene(stiffness=2.0) as scene:
        floor = scene.add_half_space((0, 0, 1), 0.25)
        a = scene.add_body(box, pose=np.eye(4))
        result = scene.step()
        lift = np.tile([0.0, 0.0, 1.0], (8, 1))
        for product in (result.stiffness_product, result.contacts[0].stiffness_product):
            out = product({floor: np.zeros((0, 3)), a: lift})
            assert out[floor].shape == (0, 3)
            assert out[a].sum(0) == pytest.approx([0, 0, -2.0], abs=1e-6)  # -k area^2 of a lift by 1
            assert product({floor: np.zeros((2, 0, 3)), a: np.stack([lift, -lift])})[a][1] == pytest.approx(-out[a])


def test_poses_are_made_rotations(server_or_engine):
    """What has drifted away from a rotation neither scales a body or a plane, nor shears it; what is far from one is refused."""
    rng = np.random.default_rng(8)
    scene = server_or_engine.open_scene(law="pressure")
    floor, box = scene.add_half_space((0, 0, 1), 0.0), scene.add_box((1, 1, 1), np.eye(4), modulus=1e6)
    for _ in range(20):
        drift = np.eye(3) + rng.uniform(-2e-4, 2e-4, (3, 3))
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        turn *= np.linalg.det(turn)
        u, _, v = np.linalg.svd(turn @ drift)
        given, made = np.eye(4), np.eye(4)
        given[:3, :3], made[:3, :3] = turn @ drift, u @ v
        for poses in ({box: (given, made)}, {floor: (given, made)}):
            one, other = (scene.step(poses={body: pose[i] for body, pose in poses.items()}) for i in range(2))
            assert one.volumes[0] > 0.4 and one.volumes == pytest.approx(other.volumes, rel=1e-9)
            assert one.wrench(box) == pytest.approx(other.wrench(box), abs=1e-9 * 1e6)
    with pytest.raises(errors.OutOfRangeError, match="no rotation"):
        scene.step(poses={box: np.diag([1.001, 1, 1, 1])})
