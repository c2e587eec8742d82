"""Methods by name: what auto runs, what a resolution changes, and what each method's answers say of their error. From
Python, over HTTP, on the stream, and with contactctl, which is the C client."""

from __future__ import annotations

import json
import os
import subprocess

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from contactd import errors
from geometry import UNIT_BOX, blob, icosphere, moved, torus, turned
from http_api import Api
from raw import Raw

SHARE = 0.75 * 0.5 * 0.25  # of two unit boxes, one of which is moved by 0.25 0.5 0.75


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        yield client


@pytest.fixture
def api(server):
    return Api(server.http)


@pytest.fixture
def open_pair(client):
    """A scene of two unit boxes that share SHARE."""
    def open_pair(**settings):
        mesh = client.register_mesh(*UNIT_BOX)
        scene = client.open_scene(**settings)
        scene.add_body(mesh, pose=np.eye(4))
        scene.add_body(mesh, pose=moved(0.25, 0.5, 0.75))
        return scene

    return open_pair


def expect(result, method: str) -> None:
    (contact,) = result.contacts
    assert result.method == method and contact.index == 0
    assert contact.volume == pytest.approx(SHARE, rel=1e-6)
    assert np.allclose(contact.volumes, SHARE, rtol=1e-6)
    if method == "exact":
        assert abs(contact.volume - SHARE) <= contact.error_bound == contact.error_estimate < 0.01
        assert contact.max_winding == 1 and list(contact.volumes) == [contact.volume] * 3
        assert list(contact.error_bounds) == [contact.error_bound] * 3
    else:
        assert contact.error_bound is contact.error_bounds is None and contact.error_estimate >= 0 and contact.max_winding == 0


def test_a_scene_without_anything_is_exact(open_pair):
    for settings in ({}, {"method": "auto"}, {"method": "exact"}, {"pixel_size": 0}, {"stiffness": 5}):
        scene = open_pair(**settings)
        assert (scene.method, scene.running_method) == (settings.get("method", "auto"), "exact")
        assert scene.resolution is None and scene.pixel_size == 0
        result = scene.step(want="all")
        expect(result, "exact")
        (contact,) = result.contacts
        assert contact.area > 0 and np.linalg.norm(contact.normal) == pytest.approx(1)
        a, b = contact.bodies
        assert contact.gradient(a)[1].sum(0) == pytest.approx(-contact.gradient(b)[1].sum(0), abs=1e-9)


def test_a_sampling_means_ldi(open_pair):
    for settings in ({"resolution": 32}, {"pixel_size": 1 / 32}, {"method": "ldi"}, {"method": "ldi", "resolution": 32},
                     {"method": "auto", "resolution": 32}):
        scene = open_pair(**settings)
        assert (scene.method, scene.running_method) == (settings.get("method", "ldi"), "ldi")
        assert scene.resolution == (settings.get("resolution", 64),) * 3 or "pixel_size" in settings
        assert scene.step().method == "ldi"
    expect(open_pair(resolution=32).step(), "ldi")


def test_configured_on_the_way(open_pair):
    scene = open_pair()
    expect(scene.step(), "exact")
    scene.configure(resolution=16)
    assert (scene.method, scene.running_method, scene.resolution) == ("ldi", "ldi", (16, 16, 16))
    result = scene.step()
    expect(result, "ldi")
    assert result.rays == 3 * 16**2
    scene.configure(method="exact")  # drops the resolution, as the answer shows
    assert (scene.method, scene.running_method, scene.resolution) == ("exact", "exact", None)
    expect(scene.step(), "exact")
    scene.configure(pixel_size=1 / 32)
    assert (scene.method, scene.running_method) == ("ldi", "ldi")
    assert scene.step().method == "ldi"
    scene.configure(method="auto")
    assert (scene.method, scene.running_method, scene.resolution, scene.pixel_size) == ("auto", "exact", None, 0)
    scene.configure(method="ldi")
    assert scene.resolution == (64, 64, 64)
    assert scene.step().rays == 3 * 64**2
    info = scene.info()
    assert info["settings"]["method"] == info["running_method"] == "ldi"


def test_refused(open_pair, client, server):
    for field, sampling in (("resolution", {"resolution": 8}), ("pixel_size", {"pixel_size": 0.5})):
        words = f'method "exact" takes no {field}: leave it out, or choose method "ldi"'
        with pytest.raises(errors.InvalidArgumentError, match=words) as refused:
            client.open_scene(method="exact", **sampling)
        assert refused.value.field == field
        scene = open_pair()
        with pytest.raises(errors.InvalidArgumentError, match=words):
            scene.configure(method="exact", **sampling)
        assert (scene.info()["running_method"], scene.method, scene.resolution) == ("exact", "auto", None)  # as before
    with pytest.raises(errors.InvalidArgumentError, match='"exact" gives no spans.*choose method "ldi"') as refused:
        scene.step(want="spans")
    assert refused.value.field == "want"
    with pytest.raises(errors.InvalidArgumentError, match='"exact" takes no tolerance'):
        open_pair(method="exact").step(tolerance=1e-9)
    with pytest.raises(errors.OutOfRangeError, match="names it, got 0: leave it out for the scene's own"):
        open_pair(method="ebpi", tolerance=1e-3).step(tolerance=0)
    expect(scene.step(), "exact")
    with pytest.raises(errors.UnsupportedError, match="expected auto or ldi or exact or ebpi or voxtree, got"):
        client.open_scene(method="magic")
    raw = Raw(server.stream)
    code, _, field, message = raw.refused("OpenScene", {"settings": {"method": 9}})
    assert (code, field) == ("UNSUPPORTED", "method") and "method 9 is unknown: this build has ldi, exact, ebpi, voxtree" in message
    raw.close()


def test_a_tolerance_means_ebpi(open_pair, client):
    for settings in ({"tolerance": 1e-3}, {"tolerance_rel": 1e-2}, {"method": "ebpi", "tolerance": 1e-3},
                     {"method": "auto", "tolerance": 1e-3, "strict": True}):
        scene = open_pair(**settings)
        assert (scene.method, scene.running_method) == (settings.get("method", "ebpi"), "ebpi")
        assert (scene.tolerance, scene.tolerance_rel) == (settings.get("tolerance", 0), settings.get("tolerance_rel", 0))
        assert (scene.strict, scene.ray_budget) == (settings.get("strict", False), 0)
        result = scene.step(want="all")
        (contact,) = result.contacts
        assert (result.method, result.ended) == ("ebpi", "completed") and result.rays > 0 and result.passes > 0
        assert abs(contact.volume - SHARE) <= contact.error_bound <= max(1e-3, 1e-2 * contact.volume)
        assert (abs(contact.volumes - SHARE) <= contact.error_bounds).all()
        assert contact.error_bound == pytest.approx(3 / (1 / contact.error_bounds).sum(), rel=1e-12)
        a, b = contact.bodies
        assert contact.gradient(a)[1].sum(0) == pytest.approx(-contact.gradient(b)[1].sum(0), abs=1e-12)
    scene = open_pair()
    assert scene.step(tolerance=1e-3).method == "ebpi" and scene.step().method == "exact"
    scene.configure(tolerance=1e-4, strict=True, ray_budget=100)
    assert (scene.method, scene.tolerance, scene.strict, scene.ray_budget) == ("ebpi", 1e-4, True, 100)
    result = scene.step()
    assert result.ended == "ray_budget" and result.rays <= 100 and result.contacts[0].error_bound > 1e-4
    scene.configure(ray_budget=0, tolerance=1e-2)
    assert scene.step().ended == "completed"
    scene.configure(method="auto")  # drops the tolerance and what goes with it
    assert (scene.running_method, scene.tolerance, scene.strict, scene.ray_budget) == ("exact", 0, False, 0)
    for bad, error in (({"tolerance": -1}, errors.OutOfRangeError), ({"tolerance": float("nan")}, errors.ContactdError),
                       ({"method": "ebpi"}, errors.InvalidArgumentError), ({"strict": True}, errors.InvalidArgumentError),
                       ({"tolerance_rel": 2}, errors.OutOfRangeError), ({"tolerance": 1, "resolution": 8}, errors.InvalidArgumentError),
                       ({"tolerance": 1, "ray_budget": 2**40}, errors.OutOfRangeError)):
        with pytest.raises(error):
            client.open_scene(**bad)
    for flag in ("strict", "optimize_directions"):  # a word such as "no" is no answer
        with pytest.raises(errors.InvalidArgumentError, match="expected True or False, got 'no'") as refused:
            client.open_scene(tolerance=1e-3, **{flag: "no"})
        assert refused.value.field == flag
    for bad in (float("nan"), float("inf")):
        for call in (lambda: scene.step(tolerance=bad), lambda: client.open_scene(tolerance=bad)):
            with pytest.raises(errors.NonFiniteError, match="expected a finite number") as refused:
                call()
            assert refused.value.field == "tolerance"
    for bad in (0, -1):
        with pytest.raises(errors.OutOfRangeError, match="up to 1e300 m.3; the smallest depends on the bodies") as refused:
            scene.step(tolerance=bad)
        assert refused.value.field == "tolerance"
        if bad:
            with pytest.raises(errors.OutOfRangeError, match="up to 1e300 m.3; the smallest depends on the bodies"):
                client.open_scene(tolerance=bad)
    with pytest.raises(errors.OutOfRangeError, match="ask for .* or more") as refused:
        open_pair(tolerance=1e-15).step()
    assert refused.value.field == "tolerance"


def test_a_restart_keeps_what_was_asked_for(fresh_server):
    with contactd.connect(fresh_server.stream, timeout=30 * SLOW) as client:
        mesh = client.register_mesh(*UNIT_BOX)
        scenes = [client.open_scene(), client.open_scene(method="exact"), client.open_scene(resolution=16)]
        for scene in scenes:
            scene.add_body(mesh, pose=np.eye(4))
            scene.add_body(mesh, pose=moved(0.25, 0.5, 0.75))
        for restarted in (False, True):
            if restarted:
                fresh_server.restart()
            for scene, method, running in zip(scenes, ("auto", "exact", "ldi"), ("exact", "exact", "ldi")):
                expect(scene.step(), running)
                assert (scene.method, scene.running_method) == (method, running)
        assert client.reconnects >= 1  # more where the connection stalled while the scene was made again


def test_lists(client):
    assert client.server["methods"] == client.status()["methods"] == ["ldi", "exact", "ebpi", "voxtree"]
    assert client.status()["auto_method"] == "exact"
    client.open_scene(name="listed")
    (listed,) = [s for s in client.scenes() if s["name"] == "listed"]
    assert (listed["settings"]["method"], listed["settings"]["resolution"], listed["running_method"]) == ("auto", None, "exact")


def test_http(api):
    assert api.get("/v1/status")["methods"] == ["ldi", "exact", "ebpi", "voxtree"] and api.get("/v1/status")["auto_method"] == "exact"
    mesh, scene = api.box()["id"], api.scene()
    for pose in (np.eye(4), moved(0.25, 0.5, 0.75)):
        api.post(f"{scene}/bodies", {"mesh": mesh, "pose": np.asarray(pose)[:3].flatten().tolist()})

    def check(method: str, running: str, resolution) -> dict:
        shown = api.get(scene)
        assert (shown["method"], shown["running_method"], shown["resolution"]) == (method, running, resolution)
        answer = api.post(f"{scene}/step", {}, 200)
        assert answer["method"] == running
        return answer["contacts"][0]

    contact = check("auto", "exact", None)
    assert abs(contact["volume"] - SHARE) <= contact["error_bound"] == contact["error_estimate"]
    assert (contact["index"], contact["max_winding"]) == (0, 1)
    assert api("PATCH", scene, {"resolution": 8}).json["running_method"] == "ldi"
    contact = check("ldi", "ldi", [8, 8, 8])
    assert (contact["error_bound"], contact["index"], contact["max_winding"]) == (None, 0, 0)
    assert api("PATCH", scene, {"method": "auto"}).json["running_method"] == "exact"
    check("auto", "exact", None)
    problem = api.refused("PATCH", scene, 400, "INVALID_ARGUMENT", {"method": "exact", "resolution": 8}, field="resolution")
    assert "takes no resolution" in problem["detail"]
    api.refused("POST", f"{scene}/step", 400, "INVALID_ARGUMENT", {"want": ["spans"]}, field="want")
    assert api("PATCH", scene, {"tolerance": 1e-3, "strict": True}).json["running_method"] == "ebpi"
    contact = check("ebpi", "ebpi", None)
    assert len(contact["error_bounds"]) == 3 and all(0 < bound <= 1e-3 for bound in contact["error_bounds"])
    assert abs(contact["volume"] - SHARE) <= contact["error_bound"] <= 1e-3
    answer = api.post(f"{scene}/step", {"tolerance": 1e-2}, 200)
    assert (answer["ended"], answer["contacts"][0]["error_bound"] <= 1e-2) == ("completed", True) and answer["passes"] > 0
    assert api("PATCH", scene, {"method": "auto"}).json["tolerance"] == 0
    problem = api.refused("POST", "/v1/scenes", 400, "INVALID_ARGUMENT", {"method": "magic"}, field="method")
    assert "auto, ldi, exact, ebpi, voxtree" in problem["detail"]


@pytest.fixture
def ctl(server, tmp_path):
    vertices, triangles = UNIT_BOX
    box = tmp_path / "box.obj"
    box.write_text("".join(f"v {x} {y} {z}\n" for x, y, z in np.asarray(vertices, float))
                   + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in triangles))

    def run(*args, code: int = 0) -> str:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CONTACTD_")}
        words = [box if a == "BOX" else a for a in args]
        done = subprocess.run([*CONTACTCTL, "--server", server.stream, *map(str, words)], capture_output=True,
                              text=True, timeout=60 * SLOW, env=clean)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


def test_contactctl(ctl):
    pose = "1 0 0 0.25  0 1 0 0.5  0 0 1 0.75"
    for options, method in (((), "exact"), (("--method", "auto"), "exact"), (("--method", "exact"), "exact"),
                            (("--method", "ldi"), "ldi"), (("--resolution", 16), "ldi"), (("--pixel-size", 0.01), "ldi")):
        answer = json.loads(ctl("contact", "BOX", "BOX", "--pose-b", pose, "-o", "json", *options))
        (contact,) = answer["contacts"]
        assert answer["method"] == method and contact["index"] == 0
        assert (contact["error_bound"] is None, contact["max_winding"]) == ((False, 1) if method == "exact" else (True, 0))
        text = ctl("contact", "BOX", "BOX", "--pose-b", pose, *options)
        assert (f"computed   {method} on" in text and ("error      at most" in text) == (method == "exact")
                and ("along x" in text) == (method == "ldi")), text
        assert "winding" not in text  # only above 1
    assert "takes no resolution" in ctl("contact", "BOX", "BOX", "--method", "exact", "--resolution", 8, code=3)
    for options in (("--tolerance", 1e-3), ("--method", "ebpi", "--tolerance-rel", 0.02, "--strict"),
                    ("--tolerance", 1e-3, "--optimize-directions", "--strict"),
                    ("--tolerance", 2e-3, "--allocation", "per_pixel")):
        answer = json.loads(ctl("contact", "BOX", "BOX", "--pose-b", pose, "-o", "json", *options))
        (contact,) = answer["contacts"]
        assert (answer["method"], answer["ended"]) == ("ebpi", "completed") and answer["rays"] > 0 and answer["passes"] > 0
        assert len(answer["contacts"][0]["error_bounds"]) == 3
        assert abs(contact["volume"] - SHARE) <= contact["error_bound"] <= 2e-3
        text = ctl("contact", "BOX", "BOX", "--pose-b", pose, *options)
        assert ("by the published bound" in text) == ("--strict" not in options)
    text = ctl("contact", "BOX", "BOX", "--pose-b", pose, "--tolerance", 1e-5, "--ray-budget", 50)
    assert "ended      ray_budget: the bound is above the tolerance" in text
    for wrong in (("--tolerance", -1), ("--tolerance", "nan"), ("--tolerance", "inf")):
        assert "a volume above 0, up to 1e300 m^3; the smallest depends on" in ctl("contact", "BOX", "BOX", *wrong, code=2)
    for wrong in (("--tolerance", -1), ("--tolerance", "nan"), ("--tolerance-rel", -0.5), ("--ray-budget", 0.5)):
        assert f"{wrong[0]} is" in ctl("contact", "BOX", "BOX", *wrong, code=2)
    assert "ask for" in ctl("contact", "BOX", "BOX", "--pose-b", pose, "--tolerance", 1e-15, code=3)
    assert "takes no tolerance" in ctl("contact", "BOX", "BOX", "--method", "ldi", "--tolerance", 1, code=3)
    said = ctl("contact", "BOX", "BOX", "--method", "magic", code=2)
    assert "expected auto, ldi, exact, ebpi or voxtree" in said


def test_contactctl_lists(ctl, client):
    scene = client.open_scene(name="by ctl")
    assert "methods    ldi exact ebpi voxtree; auto runs exact" in ctl("status")
    status = json.loads(ctl("status", "-o", "json"))
    assert (status["methods"], status["auto_method"]) == (["ldi", "exact", "ebpi", "voxtree"], "exact")
    shown = json.loads(ctl("scene", "show", scene.id, "-o", "json"))
    assert (shown["method"], shown["running_method"], shown["resolution"]) == ("auto", "exact", None)
    assert "auto (exact)" in ctl("scene", "list")
    shown = json.loads(ctl("scene", "set", scene.id, "--resolution", 8, "-o", "json"))
    assert (shown["method"], shown["running_method"], shown["resolution"]) == ("ldi", "ldi", [8, 8, 8])
    shown = json.loads(ctl("scene", "set", scene.id, "--method", "exact", "-o", "json"))
    assert (shown["method"], shown["running_method"], shown["resolution"]) == ("exact", "exact", None)


def test_views_along_axes_of_their_own(client):
    """Bodies along the world's axes: others are taken. The answer is in world axes, and the same each time."""
    scene = client.open_scene(method="ebpi", tolerance=1e-3, strict=True)
    for x in (0.0, 0.25):
        scene.add_body(client.register_mesh(*UNIT_BOX), pose=moved(x, x, x))
    assert not scene.optimize_directions
    straight = scene.step().contacts[0]
    scene.configure(optimize_directions=True)
    assert scene.optimize_directions
    result, again = scene.step(), scene.step()
    (contact,) = result.contacts
    assert result.settings["optimize_directions"] and contact.volumes[0] != straight.volumes[0]
    assert abs(contact.volume - 0.75**3) <= contact.error_bound <= 1e-3
    sums = sum(contact.gradient(body)[1].sum(0) for body in contact.bodies)
    assert not sums.any() and contact.volume == again.contacts[0].volume
    assert contact.normal == pytest.approx(straight.normal, abs=0.02)
    scene.configure(method="exact")
    assert not scene.optimize_directions
    with pytest.raises(errors.InvalidArgumentError, match="optimize_directions"):
        scene.configure(method="exact", optimize_directions=True)


def test_allocations(client):
    """The same bound is reached by each allocation, with the fewest rays by the optimal one, which is the default."""
    scene = client.open_scene(method="ebpi", tolerance=1e-2, strict=True)
    for x in (0.0, 0.25):
        scene.add_body(client.register_mesh(*UNIT_BOX), pose=moved(x, x, x))
    assert scene.allocation == "optimal"
    rays = {}
    for allocation in ("optimal", "published", "per_pixel"):
        scene.configure(allocation=allocation)
        result = scene.step()
        (contact,) = result.contacts
        assert scene.allocation == result.settings["allocation"] == allocation
        assert abs(contact.volume - 0.75**3) <= contact.error_bound <= 1e-2 and result.ended == "completed"
        rays[allocation] = result.rays
    assert 4 * rays["optimal"] < min(rays["published"], rays["per_pixel"])
    with pytest.raises(errors.InvalidArgumentError, match="optimal or published or per_pixel"):
        scene.configure(allocation="equal")
    scene.configure(method="exact")
    assert scene.allocation == "optimal"
    with pytest.raises(errors.InvalidArgumentError, match="allocation"):
        scene.configure(allocation="published")


@pytest.mark.parametrize("tolerance, strict", [(1e-2, False), (2e-3, False), (2e-3, True), (5e-4, False)])
def test_estimates_hold_at_any_tolerance(engine, tolerance, strict):
    """Where surfaces bend the same way all over, what tiles are off has one sign, and does not cancel as tiles get more."""
    rng = np.random.default_rng(12)
    meshes = [engine.register_mesh(*mesh) for mesh in (icosphere(0.5, 3), blob(0.5, 3), torus(0.4, 0.2, 48, 24))]
    held = []
    for i in range(30):
        poses, found = (np.eye(4), turned(rng, 0.2)), []
        for settings in ({"method": "exact"}, {"tolerance_rel": tolerance, "strict": strict}):
            with engine.open_scene(**settings) as scene:
                for k, pose in enumerate(poses):
                    scene.add_body(meshes[(i + k * (i // 3)) % 3], pose)
                found += scene.step(want="volume").contacts
        truth, contact = found
        held.append(abs(contact.volume - truth.volume) <= contact.error_estimate + truth.error_bound <= 2 * contact.error_bound)
    assert np.mean(held) >= 0.9
