"""What callers of the Python client do that it has to bear: poses from other libraries, meshes registered again and again and
dropped, processes without real threads."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import contactd
import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED, ROOT, SLOW
from contactd import errors
from geometry import UNIT_BOX, icosphere, moved

PATIENCE = 30 * SLOW


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=PATIENCE) as client:
        yield client


def exponential(twist):
    """Of a twist, by its series squared ten times, whose last row is 0 0 0 1 to rounding, as scipy.linalg.expm's."""
    w, v = twist[:3], twist[3:]
    a = np.array([[0, -w[2], w[1], v[0]], [w[2], 0, -w[0], v[1]], [-w[1], w[0], 0, v[2]], [0, 0, 0, 0]]) / 1024
    out, term = np.eye(4), np.eye(4)
    for k in range(1, 12):
        term = term @ a / k
        out = out + term
    out[3] = 0, 0, 1e-17, 1 - 2.0 ** -53
    for _ in range(10):
        out = out @ out
    return out


def test_poses_that_other_libraries_make(client):
    mesh, rng = client.register_mesh(*UNIT_BOX), np.random.default_rng(1)
    scene = client.open_scene(method="exact")
    bodies = [scene.add_body(mesh, pose=np.eye(4)) for _ in range(2)]
    for _ in range(20):
        pose = exponential(rng.normal(size=6))
        assert pose[3, 3] != 1
        assert client.overlap(mesh, mesh, pose_a=pose, pose_b=pose).volume == pytest.approx(1, rel=1e-5)
        scene.step(poses=(bodies, np.stack([pose, pose])))
    turned = np.array([0.25, 0, 0, *np.array([0, 0, 3, 4]) / 5])  # about z, by twice the angle whose sine is 0.6
    matrix = moved(0.25, 0, 0)
    matrix[:2, :2] = [[0.28, -0.96], [0.96, 0.28]]
    assert client.overlap(mesh, mesh, pose_a=turned).volume == pytest.approx(client.overlap(mesh, mesh, pose_a=matrix).volume, rel=1e-9)
    scene.add_body(mesh, pose=turned)
    for bad, error in ((np.eye(4) + np.diag([0, 0, 0, 1e-6]), errors.InvalidArgumentError), (turned * 1.1, errors.OutOfRangeError),
                       (np.zeros(6), errors.WrongLengthError)):
        with pytest.raises(error) as caught:
            scene.add_body(mesh, pose=bad)
        assert caught.value.field == "pose"


def test_meshes_are_kept_once_and_let_go(client, server):
    points, faces = icosphere(2)
    first, *others = [client.register_mesh(np.array(points), np.array(faces)) for _ in range(5)]
    assert all(m._state.vertices is first._state.vertices for m in others)
    held = [weakref.ref(m._state) for m in (first, *others)]
    scene = client.open_scene()
    body = scene.add_body(others[-1], pose=np.eye(4))
    del first, others
    gc.collect()
    assert [ref() is not None for ref in held] == [False] * 4 + [True], "all but the one that a body has"
    server.restart()
    scene.add_body(client.register_mesh(points, faces), pose=moved(0.5))
    assert len(scene.step().contacts) == 1, "what a body has is restored"
    scene.remove_body(body)
    del body
    gc.collect()
    assert held[-1]() is None


@pytest.mark.parametrize("library, module, function, patched", [("gevent", "monkey", "is_module_patched", True),
                                                               ("eventlet", "patcher", "is_monkey_patched", True),
                                                               ("gevent", "monkey", "is_module_patched", False)])
def test_threads_that_are_greenlets_are_refused(server, tmp_path, library, module, function, patched):
    (tmp_path / library).mkdir()
    (tmp_path / library / "__init__.py").touch()
    (tmp_path / library / f"{module}.py").write_text(f"def {function}(name):\n    return {patched} and name in ('thread', 'threading')\n")
    program = (f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT / 'client_py')!r}]; import {library}.{module}, contactd\n"
               f"try: contactd.connect({server.stream!r}, timeout={PATIENCE}).close(); print('connected')\n"
               "except contactd.errors.UnsupportedError as e: print(e)\n")
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=2 * PATIENCE, check=True).stdout
    assert f"{library} has replaced" in out and "thread=False" in out if patched else out == "connected\n"


def row_of(n):
    """Unit boxes, each 0.75 m further along x: each overlaps its neighbours by 0.25 m^3."""
    poses = np.tile(np.eye(4), (n, 1, 1))
    poses[:, 0, 3] = 0.75 * np.arange(n)
    return poses


@pytest.mark.parametrize("place", ["server", pytest.param("engine", marks=pytest.mark.skipif(
    INSTRUMENTED, reason="Python is not instrumented, and cannot load a library that is"))])
def test_many_bodies_at_once(server, place, monkeypatch):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))
    with contactd.connect(server.stream, timeout=PATIENCE) if place == "server" else contactd.Engine(threads=1, timeout=PATIENCE) as client:
        scene, mesh, n = client.open_scene(method="exact"), client.register_mesh(*UNIT_BOX), 600
        first = scene.add_body(mesh, pose=moved(-0.75))
        bodies = scene.add_bodies(mesh, row_of(n), group=2, mask=2)
        assert [scene.bodies[0], *bodies] == [first, *bodies] == scene.bodies
        result = scene.step()
        pairs = [tuple(scene.bodies.index(b) for b in c.bodies) for c in result.contacts]
        assert sorted(map(sorted, pairs)) == [[i, i + 1] for i in range(1, n)], "groups 2 and 1 do not meet"
        assert np.allclose(result.volumes, 0.25)
        poses = np.concatenate([[moved(-0.75)], row_of(n)[::-1]])
        assert np.allclose(scene.step(poses=poses).volumes, 0.25), "poses go by the order of bodies"
        if place == "server":
            server.restart()
            assert len(scene.step()) == n - 1
        other = client.register_mesh(*icosphere(1))
        assert [b.vertices for b in scene.add_bodies([other, mesh], np.stack([[0, 9, 0, 0, 0, 0, 1.0], [5, 9, 0, 0, 0, 0, 1]]))] == [other.vertex_count, 8]


PLACES = ["server", pytest.param("engine", marks=pytest.mark.skipif(
    INSTRUMENTED, reason="Python is not instrumented, and cannot load a library that is"))]


@pytest.fixture(params=PLACES)
def place(request, server, monkeypatch):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))
    with contactd.connect(server.stream, timeout=PATIENCE) if request.param == "server" else contactd.Engine(threads=1, timeout=PATIENCE) as client:
        yield client


@pytest.mark.parametrize("is_old", [False, True])
def test_many_bodies_are_as_those_one_by_one(place, is_old, monkeypatch):
    if is_old:  # each has a request of its own
        monkeypatch.setattr(contactd.scene._link_scenes, "knows", lambda link, kind: kind != "AddBodies")
    meshes = [place.register_mesh(*UNIT_BOX), place.register_mesh(*icosphere(0.6))]
    poses = row_of(40)
    poses[:, 1, 3] = np.linspace(0, 0.2, 40)
    material = dict(modulus=2e6, friction=0.4, dissipation=0.5, static_friction=0.6)
    results = []
    for together in (True, False):
        scene = place.open_scene(method="exact", law="pressure")
        ghost = scene.add_body(meshes[0], pose=moved(3.1))
        each, shared = [meshes[i % 2] for i in range(40)], dict(group=3, mask=5, ignore=[ghost], **material)
        if together:
            scene.add_bodies(each, poses, **shared)
        else:
            for mesh, pose in zip(each, poses):
                scene.add_body(mesh, pose=pose, **shared)
        moves = poses + np.eye(4)[2] * 0.01 * (np.arange(40) % 3)[:, None, None] * [0, 0, 0, 1]
        results.append(scene.step(poses=(scene.bodies[1:], moves), velocities={scene.bodies[1]: np.ones(6)}))
        place.reset([scene])
        results.append(scene.step())
    for a, b in (results[0::2], results[1::2]):
        assert len(a) == 39 and (a.body_pairs == b.body_pairs).all() and (a.wrenches == b.wrenches).all()


def test_many_deformable_bodies(place):
    scene, mesh = place.open_scene(method="exact"), place.register_mesh(*UNIT_BOX)
    bodies = scene.add_bodies([mesh] * 5, group=2, mask=2)
    assert scene.bodies == bodies and {body.kind for body in bodies} == {"deformable"}
    x = UNIT_BOX[0] + np.arange(5)[:, None, None] * [0.75, 0, 0]
    result = scene.step(positions=(bodies, x))
    assert len(result) == 4 and np.allclose(result.volumes, 0.25)
    assert scene.add_bodies([]) == [] and [body.kind for body in scene.add_bodies(mesh)] == ["deformable"]


def test_many_bodies_are_all_or_none(place):
    client = place
    scene, mesh = client.open_scene(method="exact"), client.register_mesh(*UNIT_BOX)
    scene.add_body(mesh, pose=np.eye(4))
    bad = row_of(20)
    bad[13, 0, 0] = 3
    with pytest.raises(errors.ContactdError, match="body 13 of 20"):
        scene.add_bodies(mesh, bad)
    with pytest.raises(errors.ContactdError, match="body 13 of 20"):
        scene.add_bodies([mesh] * 20, bad)
    assert len(scene.bodies) == 1 and scene.info()["bodies"] == 1
    for poses, error in ((row_of(3)[:, :2], errors.WrongLengthError), (np.full((2, 4, 4), np.nan), errors.ContactdError)):
        with pytest.raises(error):
            scene.add_bodies([mesh, mesh], poses)
    assert scene.add_bodies(mesh, np.zeros((0, 4, 4))) == [] and len(scene.step()) == 0


def test_many_bodies_whose_mesh_is_gone_after_some_were_added(place, monkeypatch):
    """They are added one by one then, and can be used: those of the first request were removed again."""
    scene, mesh, asked = place.open_scene(method="exact"), place.register_mesh(*UNIT_BOX), []
    add = contactd.scene._link_scenes.add_bodies

    def add_once(state, bodies, poses, timeout):
        asked.append(len(bodies))
        if len(asked) == 2:
            raise errors.StaleHandleError("the mesh is gone")
        add(state, bodies, poses, timeout)

    monkeypatch.setattr(contactd.scene, "_MOST_TOGETHER", 3)
    monkeypatch.setattr(contactd.scene._link_scenes, "add_bodies", add_once)
    bodies = scene.add_bodies(mesh, row_of(5))
    assert asked == [3, 2] and scene.bodies == bodies and scene.info()["bodies"] == 5
    assert len(scene.step(poses=(bodies, row_of(5)))) == 4


def test_poses_of_all_bodies_as_one_array(place):
    """The same as a dictionary of them, in any mix with other bodies; what is wrong is told, and the caller's array stays his."""
    scene, box, ball = place.open_scene(method="exact"), place.register_mesh(*UNIT_BOX), place.register_mesh(*icosphere(0.6))
    bodies = scene.add_bodies(box, row_of(20))
    soft = scene.add_body(ball)
    poses = row_of(20)[:, :3].copy()
    poses[:, 1, 3] = np.linspace(0, 0.3, 20)
    points = icosphere(0.6)[0] + [3.3, 0.2, 0.1]
    for positions in (None, {soft: points}):
        by_array, by_name = scene.step(positions, (bodies, poses)), scene.step(positions, dict(zip(bodies, poses)))
        assert len(by_array) >= 19 and (by_array.volumes == by_name.volumes).all()
    later = scene.submit(poses=(bodies, poses))
    was = by_array.volumes
    poses[:] = np.nan
    assert (later.result().volumes == was).all()
    with pytest.raises(errors.ContactdError, match="NON_FINITE"):
        scene.step(poses=(bodies, poses))
    poses[:] = row_of(20)[:, :3]
    for wrong, error in (([*bodies[:-1], soft], "takes positions"), ([*bodies[:-1], bodies[0]], "updated twice"), ([*bodies[:-1], 3], "expected a Body")):
        with pytest.raises(errors.ContactdError, match=error):
            scene.step(poses=(wrong, poses))
    other = place.open_scene(method="exact").add_body(box, pose=moved(0))
    with pytest.raises(errors.NotFoundError, match="is one of"):
        scene.step(poses=([*bodies[:-1], other], poses))
    scene.remove_body(bodies[7])
    with pytest.raises(errors.StaleHandleError, match="removed"):
        scene.step(poses=(bodies, poses))
    del bodies[7]
    assert len(scene.step(poses=(bodies, np.delete(poses, 7, axis=0)))) >= 17


CHANGES = {  # of a scene, and how many contacts, bodies and settings' changes a step has afterwards
    "configure": (lambda scene, bodies, mesh: scene.configure(margin=0.5), (1, 2, 0.5)),
    "add_body": (lambda scene, bodies, mesh: scene.add_body(mesh, pose=moved(0, 0.75, 0)), (3, 3, 0)),
    "add_bodies": (lambda scene, bodies, mesh: scene.add_bodies(mesh, moved(0, 0.75, 0)[None]), (3, 3, 0)),
    "add_deformable": (lambda scene, bodies, mesh: scene.add_bodies([mesh, mesh]), (6, 4, 0)),
    "remove_body": (lambda scene, bodies, mesh: scene.remove_body(bodies[0]), (0, 1, 0)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_a_scene_waits_for_the_steps_submitted_before(place, change):
    make, after = CHANGES[change]
    mesh, scene = place.register_mesh(*contactd.shapes.sphere_of(20)), place.open_scene()
    bodies = scene.add_bodies(mesh, np.stack([moved(0), moved(0.5)]))

    def seen(result):
        return len(result), len(result.bodies), result.settings["margin"]

    futures = [scene.submit(poses={bodies[0]: moved(0)}) for _ in range(40)]
    make(scene, bodies, mesh)
    assert {seen(future.result()) for future in futures} == {(1, 2, 0)}
    assert seen(scene.step()) == after


def test_lists_may_be_empty(place):
    mesh, scene = place.register_mesh(*UNIT_BOX), place.open_scene()
    assert scene.add_bodies(mesh, []) == scene.add_bodies([], []) == scene.add_bodies(iter([]), np.zeros((0, 7))) == []
    bodies = scene.add_bodies(iter([mesh, mesh]), row_of(2))
    assert len(scene.step(poses=([], []), velocities=([], []))) == len(scene.step(positions=([], []), poses=(bodies, row_of(2)))) == 1
    assert len(place.open_scene().step(poses=[])) == 0


def test_what_stands_where_something_else_belongs_is_told(place):
    mesh, scene = place.register_mesh(*UNIT_BOX), place.open_scene()
    body = scene.add_body(mesh, pose=np.eye(4))
    for call, field, what in (
            (lambda: scene.add_bodies(mesh, 5), "poses", r"\(1, 7\), one pose for each body, got \(\)"),
            (lambda: scene.add_bodies(mesh, np.eye(4)), "poses", r"\(1, 7\), one pose for each body, got \(4, 4\)"),
            (lambda: scene.add_body(mesh, ignore=body), "ignore", "a list of bodies, got <Body 1"),
            (lambda: scene.add_bodies([mesh], ignore=None), "ignore", "a list of bodies, got None"),
            (lambda: scene.add_half_space((0, 0, 1), ignore=body), "ignore", "a list of bodies, got <Body 1"),
            (lambda: scene.add_body((UNIT_BOX[0].tolist() * 999, UNIT_BOX[1])), "mesh", r"register_mesh.*, got \(\[\[.{0,200}$"),
            (lambda: place.open_scenes(scene, 3), "template", "a Scene, got 3"),
            (lambda: place.reset(scene), "scenes", "a list of scenes, got <Scene"),
            (lambda: place.close_scenes([body]), "scenes", "a list of scenes, got <Body"),
            (lambda: place.step_many(scene), "scenes", "a list of scenes, got <Scene"),
            (lambda: scene.step(timeout=float("nan")), "timeout", "seconds, got nan")):
        with pytest.raises(errors.ContactdError, match=f"{field}: expected .*{what}") as caught:
            call()
        assert caught.value.field == field
    with pytest.raises(AttributeError, match=r"scene.configure\(stiffness=...\)"):
        scene.stiffness = 2.0
    with pytest.raises(AttributeError, match="continous_frames"):
        scene.continous_frames = True
