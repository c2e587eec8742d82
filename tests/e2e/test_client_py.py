"""The Python client against a real server: exact answers, the contact's invariants, and every call."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading

import contactd
import numpy as np
import pytest
from conftest import SLOW, wait_until
from contactd import _state, errors
from geometry import UNIT_BOX, blob, icosphere, moved, place, torus, turned


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=10 * SLOW) as client:
        yield client


def two_boxes(client, **settings):
    mesh = client.register_mesh(*UNIT_BOX)
    scene = client.open_scene(**({"resolution": 32} | settings))
    return scene, scene.add_body(mesh, pose=np.eye(4)), scene.add_body(mesh, pose=np.eye(4))


def test_boxes_are_exact(client):
    scene, a, b = two_boxes(client)
    result = scene.step(poses={b: moved(0.25, 0.5, 0.75)})
    (contact,) = result.contacts
    assert contact.bodies == (a, b)
    expected = 0.75 * 0.5 * 0.25
    assert contact.volume == pytest.approx(expected, rel=1e-6)
    assert contact.volumes == pytest.approx([expected] * 3, rel=1e-6)
    assert contact.error_bound is None and 0 < contact.error_estimate < 0.01 * contact.volume
    # V = (1 - x)(1 - y)(1 - z), so dV/d(translation of b) is minus the three faces' areas.
    faces = np.array([0.5 * 0.25, 0.75 * 0.25, 0.75 * 0.5])
    assert contact.generalized_gradient(b)[:3] == pytest.approx(-faces, rel=1e-6)
    assert contact.generalized_gradient(a)[:3] == pytest.approx(faces, rel=1e-6)
    assert contact.normal == pytest.approx(-faces / np.linalg.norm(faces), rel=1e-6)
    assert contact.tangents @ contact.normal == pytest.approx([0, 0], abs=1e-12)
    assert contact.tangents @ contact.tangents.T == pytest.approx(np.eye(2), abs=1e-12)
    assert contact.area > 0 and contact.depth == pytest.approx(contact.volume / contact.area)
    assert result.method == "ldi" and result.backend == "cpu" and result.pairs == 1 and not result.cached
    assert result.rays == 3 * 32 * 32
    assert set(result.timings) == {"queue", "upload", "broadphase", "raster", "span", "contact", "download"}
    assert 0 < sum(result.timings.values()) < result.latency * 8
    assert set(result.wall_timings) == set(result.timings)
    assert 0 < sum(result.wall_timings.values()) <= result.latency


def test_warnings(client):
    vertices, triangles = UNIT_BOX
    vertices = np.asarray(vertices, np.float32)
    mesh = client.register_mesh(vertices, triangles)
    scene = client.open_scene(resolution=8)
    scene.add_body(mesh, pose=np.eye(4))
    soft = [scene.add_body(mesh) for _ in range(2)]
    assert scene.step().warnings == []
    result = scene.step(positions={soft[0]: vertices * [1, 1, -1], soft[1]: vertices * [1, 0, 1]})
    assert result.warnings == [contactd.StepWarning("BODY_INVERTED", soft[0], -1.0),
                               contactd.StepWarning("BODY_COLLAPSED", soft[1], 0.0)]
    with pytest.raises(errors.NonFiniteError):
        scene.step(positions={soft[0]: np.where(vertices > 0, np.nan, vertices)})
    assert [w.code for w in scene.step().warnings] == ["BODY_INVERTED", "BODY_COLLAPSED"]
    assert scene.step(positions={soft[0]: vertices}).warnings == [contactd.StepWarning("BODY_COLLAPSED", soft[1], 0.0)]


def test_apart_and_touching(client):
    scene, a, b = two_boxes(client)
    for shift in (1.0, 1.5, -1.0, 100.0):
        assert scene.step(poses={b: moved(x=shift)}).contacts == []


@pytest.mark.parametrize("seed", range(4))
def test_newton_and_the_gradient(client, seed):
    """Gradients add up to nothing, and tell how the volume changes."""
    rng = np.random.default_rng(seed)
    shapes = [blob(1.0, 3), torus(0.8, 0.35, 48, 24)]
    meshes = [client.register_mesh(*s) for s in shapes]
    scene = client.open_scene(resolution=256)
    a, b = scene.add_body(meshes[0]), scene.add_body(meshes[1], pose=turned(rng, 0.7))
    (contact,) = scene.step().contacts
    parts = {body: contact.gradient(body) for body in (a, b)}
    total = sum(g.sum(0) for _, g in parts.values())
    assert np.abs(total).max() <= 1e-12 * contact.area
    for body, (vertices, gradient) in parts.items():
        assert (np.diff(vertices.astype(int)) > 0).all() and len(vertices) == len(gradient) > 0
        assert vertices.max() < body.vertices and np.abs(gradient).max() > 0
        weights = contact.friction_weights(body)
        assert weights == pytest.approx(gradient @ contact.normal, abs=1e-12)
        assert contact.generalized_gradient(body)[:3] == pytest.approx(gradient.sum(0), abs=1e-9 * contact.area)
    vertices, gradient = parts[a]
    x = shapes[0][0]
    torque = np.cross(x[vertices].astype(np.float32), gradient).sum(0)
    assert contact.generalized_gradient(a)[3:] == pytest.approx(torque, abs=1e-6 * contact.area)

    # A small smooth motion of all vertices of the deformable body.
    motion = np.stack([np.sin(x[:, 1] * 2), np.cos(x[:, 2]), x[:, 0] * 0.5], 1)
    h = 0.02
    up = scene.step(positions={a: x + h * motion}).contacts[0].volume
    down = scene.step(positions={a: x - h * motion}).contacts[0].volume
    assert (up - down) / (2 * h) == pytest.approx((gradient * motion[vertices]).sum(), rel=0.02, abs=2e-3)


def test_spheres(client):
    """The lens of two unit spheres; the polyhedra are a little smaller."""
    scene = client.open_scene(resolution=128)
    mesh = client.register_mesh(*icosphere(1.0, 4))
    a, b = scene.add_body(mesh, pose=np.eye(4)), scene.add_body(mesh, pose=np.eye(4))
    for d in (0.5, 1.0, 1.6):
        (contact,) = scene.step(poses={b: moved(z=d)}).contacts
        lens = np.pi * (4 + d) * (2 - d) ** 2 / 12
        assert contact.volume == pytest.approx(lens, rel=0.02)
        assert contact.generalized_gradient(b)[2] == pytest.approx(-np.pi * (4 - d * d) / 4, rel=0.02)
        assert contact.normal == pytest.approx([0, 0, -1], abs=5e-3)
        assert contact.center == pytest.approx([0, 0, d / 2], abs=5e-3)


def test_penalty_forces_and_stiffness(client):
    rng = np.random.default_rng(5)
    vertices, triangles = blob(1.0, 3)
    mesh = client.register_mesh(vertices, triangles)
    scene = client.open_scene(resolution=64, stiffness=250.0)
    a, b = scene.add_body(mesh), scene.add_body(mesh, pose=moved(0.9, 0.2))
    result = scene.step(want="all")
    (contact,) = result.contacts
    for body in (a, b):
        _, gradient = contact.gradient(body)
        assert contact.forces(body) == pytest.approx(-250.0 * contact.volume * gradient, rel=1e-9, abs=1e-12)
    d = {body: rng.normal(size=(body.vertices, 3)) for body in (a, b)}
    e = {body: rng.normal(size=(body.vertices, 3)) for body in (a, b)}
    kd, ke = contact.stiffness_product(d), result.stiffness_product(e)
    along = sum((contact.gradient(x)[1] * d[x][contact.gradient(x)[0]]).sum() for x in (a, b))
    assert sum(np.vdot(d[x], kd[x]) for x in (a, b)) == pytest.approx(-250.0 * along**2)
    assert sum(np.vdot(e[x], kd[x]) for x in (a, b)) == pytest.approx(sum(np.vdot(d[x], ke[x]) for x in (a, b)))


def test_limits_that_the_method_does_not_take(client):
    scene, a, b = two_boxes(client)
    for limit in ({"time_budget": 1e-3}, {"tolerance": 1e-6}):
        (name,) = limit
        with pytest.raises(errors.InvalidArgumentError, match=f'method "ldi" takes no {name}') as refused:
            scene.step(**limit)
        assert refused.value.field == name
        with pytest.raises(errors.InvalidArgumentError):
            scene.submit(**limit).result()
        with pytest.raises(errors.OutOfRangeError):
            scene.step(**{name: 0})
    assert scene.step(poses={b: moved(0.5, 0.5, 0.5)}).contacts
    with pytest.raises(errors.UnsupportedError, match="ldi"):
        client.open_scene(method="magic")
    assert client.status()["methods"] == client.server["methods"] == ["ldi", "exact", "ebpi", "voxtree"]


def test_spans_fill_the_volume(client):
    scene, a, b = two_boxes(client)
    result = scene.step(poses={b: moved(0.5, 0.5, 0.5)}, want=("spans",))
    (contact,) = result.contacts
    spans, axes = contact.spans, contact.span_axes
    assert spans.shape == (3 * 32 * 32, 2, 3) and spans.min() == 0 and spans.max() == 0.5
    for axis in range(3):
        length = (spans[axes == axis, 1] - spans[axes == axis, 0])[:, axis]
        assert length.sum() * 0.25 / 32**2 == pytest.approx(0.125, rel=1e-6)
    with pytest.raises(errors.InvalidArgumentError):
        contact.gradient(a)


def test_updates_of_parts(client):
    """All, ranges, indices: the same state, the same answer to the last bit."""
    rng = np.random.default_rng(3)
    vertices, triangles = blob(1.0, 3)
    mesh = client.register_mesh(vertices.astype(np.float32), triangles)
    ball = client.register_mesh(*icosphere(1.0, 3))
    scene = client.open_scene(resolution=64)
    a = scene.add_body(mesh)
    scene.add_body(ball, pose=moved(1.0))
    x = vertices.astype(np.float32)
    for _ in range(5):
        at = np.sort(rng.choice(len(x), 40, replace=False))
        x[at] *= 1 + 0.05 * rng.random((40, 1)).astype(np.float32)
        part = scene.step(indexed={a: (at, x[at])}).contacts[0]
        x[10:30] *= np.float32(1.01)
        x[50:55] *= np.float32(0.97)
        part = scene.step(ranges={a: ([[10, 20], [50, 5]], np.concatenate([x[10:30], x[50:55]]))}).contacts[0]
        whole = scene.step(positions={a: x}).contacts[0]
        double = scene.step(positions={a: x.astype(float)}).contacts[0]
        assert part.volume == whole.volume == double.volume
        assert (part.gradient(a)[1] == whole.gradient(a)[1]).all()


def test_arrays_of_any_layout(client):
    vertices, triangles = UNIT_BOX
    plain = client.register_mesh(vertices.astype(np.float32), triangles.astype(np.uint32))
    others = [
        client.register_mesh(vertices.tolist(), triangles.tolist()),
        client.register_mesh(np.asfortranarray(vertices), triangles.astype(np.int64)[:, :]),
        client.register_mesh(vertices.astype(">f8"), triangles.astype(">i4")),
        client.register_mesh(np.repeat(vertices, 2, 0)[::2], np.repeat(triangles, 2, 1)[:, ::2]),
    ]
    assert {m.hash for m in others} == {plain.hash}
    scene = client.open_scene(resolution=16)
    a = scene.add_body(plain)
    scene.add_body(plain, pose=moved(0.5))
    volumes = {scene.step(positions={a: v}).contacts[0].volume
               for v in (vertices, vertices.tolist(), np.asfortranarray(vertices), vertices.astype(">f4"))}
    assert volumes == {0.5}


def test_arrays_that_are_not_numbers_here(client):
    """What cannot be read is named: an array in a GPU's memory, one with masked values."""
    class OnDevice:
        __cuda_array_interface__ = {"shape": (8, 3), "typestr": "<f4", "data": (4096, False), "version": 3}

    vertices, triangles = UNIT_BOX
    with pytest.raises(errors.InvalidArgumentError, match="OnDevice in a GPU's memory: copy it"):
        client.register_mesh(OnDevice(), triangles)
    masked = np.ma.array(vertices, mask=np.zeros(vertices.shape, bool))
    assert client.register_mesh(masked, triangles).hash == client.register_mesh(vertices, triangles).hash
    masked[2] = np.ma.masked
    with pytest.raises(errors.InvalidArgumentError, match="3 are masked"):
        client.register_mesh(masked, triangles)
    with pytest.raises(errors.WrongLengthError, match="triangles: .*inhomogeneous"):
        client.register_mesh(vertices, [[0, 1, 2], [0, 1]])
    one, other = (client.open_scene("ldi", resolution=k).step().settings["resolution"] for k in (np.array(16), 16))
    assert one == other
    with pytest.raises(errors.InvalidArgumentError, match="1 are masked"):
        client.register_mesh(vertices, np.ma.array(triangles, mask=np.arange(triangles.size).reshape(triangles.shape) == 4))


def test_large_arrays_travel_as_frames(client):
    vertices, triangles = icosphere(1.0, 6)  # 82k triangles, half a megabyte of positions
    mesh = client.register_mesh(vertices, triangles)
    assert (mesh.vertex_count, mesh.triangle_count) == (len(vertices), len(triangles))
    scene = client.open_scene(resolution=32)
    a, b = scene.add_body(mesh), scene.add_body(mesh)
    (contact,) = scene.step(positions={a: vertices, b: vertices + [1.0, 0, 0]}).contacts
    assert contact.volume == pytest.approx(5 * np.pi / 12, rel=0.01)


def test_meshes(client, server):
    vertices, triangles = torus(1.0, 0.4, 24, 12)
    mesh = client.register_mesh(vertices, triangles, name="ring")
    assert mesh.volume == pytest.approx(2 * np.pi**2 * 0.16, rel=0.1) and mesh.area > 0
    assert mesh.bounds == pytest.approx(np.array([vertices.min(0), vertices.max(0)]), abs=1e-6)
    back, faces = mesh.geometry()
    assert back.dtype == np.float64 and np.abs(back - vertices).max() < 1e-14
    assert {tuple(np.roll(t, -t.argmin())) for t in faces} == {tuple(np.roll(t, -t.argmin())) for t in triangles}
    again = client.register_mesh(vertices, triangles)
    assert again.hash == mesh.hash and again._state.id == mesh._state.id
    (listed,) = [m for m in client.meshes() if m["hash"] == mesh.hash]
    assert listed["name"] == "ring" and listed["bodies"] == 0 and listed["bytes"] <= 96 * len(triangles)
    scene = client.open_scene()
    body = scene.add_body(mesh)
    with pytest.raises(errors.ConflictError):
        mesh.remove()
    body.remove()
    mesh.remove()
    assert mesh.hash not in {m["hash"] for m in client.meshes()}
    with pytest.raises(errors.StaleHandleError):
        scene.add_body(mesh)


def test_mesh_files(client, tmp_path):
    vertices, triangles = UNIT_BOX
    off = tmp_path / "box.off"
    off.write_text("OFF\n8 12 0\n" + "".join(f"{x} {y} {z}\n" for x, y, z in vertices)
                   + "".join(f"3 {a} {b} {c}\n" for a, b, c in triangles))
    mesh = client.register_mesh_file(off)
    assert mesh.name == "box.off" and mesh.hash == client.register_mesh(vertices, triangles).hash
    bad = tmp_path / "bad.obj"
    bad.write_text("v 0 0 0\nv 1 0 zero\n")
    with pytest.raises(errors.ParseError) as e:
        client.register_mesh_file(bad)
    assert "2" in e.value.message, "the line is not named"
    with pytest.raises(FileNotFoundError):
        client.register_mesh_file(tmp_path / "none.ply")


def test_refused_meshes_name_the_defect(client):
    vertices, triangles = UNIT_BOX
    with pytest.raises(ValueError) as e:
        client.register_mesh(vertices, triangles[:-1])
    assert isinstance(e.value, errors.InvalidMeshError) and "3" in e.value.message and "edge" in e.value.message
    with pytest.raises(errors.InvalidMeshError, match="[Ii]nside|orient|revers"):
        client.register_mesh(vertices, triangles[:, ::-1])
    with pytest.raises(errors.InvalidMeshError, match="vertex 8"):
        client.register_mesh(vertices, np.where(triangles == 7, 8, triangles))
    broken = vertices.copy()
    broken[3, 1] = np.nan
    with pytest.raises(errors.NonFiniteError) as e:
        client.register_mesh(broken, triangles)
    assert "3" in e.value.message


def test_real_meshes(client, meshes):
    mesh = client.register_mesh_file(meshes / "sphere_5.ply")
    bunny = client.register_mesh_file(meshes / "bunny_7k.ply")
    scene = client.open_scene(resolution=64)
    a, b = scene.add_body(bunny), scene.add_body(mesh, pose=moved(0.3))
    (contact,) = scene.step().contacts
    assert 0 < contact.volume < min(mesh.volume, bunny.volume)
    assert np.abs(sum(contact.gradient(x)[1].sum(0) for x in (a, b))).max() <= 1e-12 * contact.area


def test_filters(client):
    mesh = client.register_mesh(*UNIT_BOX)
    scene = client.open_scene(resolution=8)
    a = scene.add_body(mesh, group=1, mask=0b110)
    b = scene.add_body(mesh, group=2)
    c = scene.add_body(mesh, group=4, ignore=[b])
    d = scene.add_body(mesh, group=8)
    pairs = {contact.bodies for contact in scene.step().contacts}
    assert pairs == {(a, b), (a, c), (b, d), (c, d)}
    c.remove()
    assert {contact.bodies for contact in scene.step().contacts} == {(a, b), (b, d)}
    with pytest.raises(errors.StaleHandleError) as e:
        scene.step(positions={c: UNIT_BOX[0]})
    assert str(c) in str(e.value)


def test_configure(client):
    scene, a, b = two_boxes(client)
    assert scene.step(poses={b: moved(0.5)}).rays == 3 * 32**2
    scene.configure(resolution=(8, 16, 4), stiffness=7)
    assert (scene.resolution, scene.stiffness, scene.method, scene.running_method) == ((8, 16, 4), 7.0, "ldi", "ldi")
    assert scene.step().rays == 16 * 4 + 8 * 4 + 8 * 16
    scene.configure(pixel_size=1 / 64)
    result = scene.step()
    assert result.contacts[0].volume == pytest.approx(0.5, rel=0.05) and result.rays > 3 * 32**2
    scene.configure(pixel_size=0)
    assert scene.step().rays == 16 * 4 + 8 * 4 + 8 * 16
    info = scene.info()
    assert info["steps"] == 4 and info["bodies"] == 2 and info["contacts"] == 1 and info["mine"]


def test_lists_and_status(client):
    scene, a, b = two_boxes(client)
    scene.step()
    (mine,) = [s for s in client.scenes() if s["scene"] == scene.id]
    assert mine["mine"] and mine["owner"].startswith("contactd-python")
    status = client.status()
    assert status["ready"] and status["backend"] == "cpu" and status["steps"] > 0 and status["scenes"] >= 1
    assert client.server["server"].startswith("contactd ") and client.server["methods"] == ["ldi", "exact", "ebpi", "voxtree"]
    assert 0 < client.ping() < 10 * SLOW
    scene.close()
    assert scene.id not in {s["scene"] for s in client.scenes()}
    with pytest.raises(errors.StaleHandleError):
        scene.step()
    scene.close()


def test_pipelining_keeps_order(client):
    scene, a, b = two_boxes(client, resolution=8)
    shifts = [i / 1000 for i in range(500)]
    seen = []
    futures = [scene.submit(poses={b: moved(x=s)}, want="volume") for s in shifts]
    for f in futures:
        f.add_done_callback(lambda f: seen.append(f.result().sequence))
    assert [f.result(60 * SLOW).contacts[0].volume for f in futures] == pytest.approx([1 - s for s in shifts], rel=1e-6)
    wait_until(lambda: len(seen) == len(futures), "all callbacks")  # a future wakes who waits before it calls back
    assert seen == list(range(1, 501))


def test_asyncio(client):
    scene, a, b = two_boxes(client, resolution=8)

    async def main():
        results = await asyncio.gather(*(asyncio.wrap_future(scene.submit(poses={b: moved(y=s)})) for s in (0.1, 0.6)))
        return [r.contacts[0].volume for r in results]

    assert asyncio.run(main()) == pytest.approx([0.9, 0.4])


def test_two_clients_share_a_mesh(server):
    vertices, triangles = blob(1.0, 4, 0.07)
    with contactd.connect(server.stream, name="first") as one, contactd.connect(server.stream, name="second") as two:
        a, b = one.register_mesh(vertices, triangles), two.register_mesh(vertices, triangles)
        assert a.hash == b.hash and len([m for m in one.meshes() if m["hash"] == a.hash]) == 1
        failures = []

        def work(client, mesh, shift):
            try:
                scene = client.open_scene(resolution=32)
                scene.add_body(mesh)
                moving = scene.add_body(mesh, pose=np.eye(4))
                volumes = [scene.step(poses={moving: moved(shift)}).contacts[0].volume for _ in range(20)]
                assert len(set(volumes)) == 1 and volumes[0] > 0
                seen[shift] = volumes[0]
            except Exception as e:
                failures.append(e)

        seen: dict[float, float] = {}
        threads = [threading.Thread(target=work, args=(c, m, s)) for c, m, s in ((one, a, 0.5), (two, b, 1.2))]
        [t.start() for t in threads]
        [t.join(60 * SLOW) for t in threads]
        assert not failures and seen[0.5] > seen[1.2]


def test_rotated_state_is_the_same_rigid_or_deformable(client):
    rng = np.random.default_rng(11)
    vertices, triangles = blob(0.5, 3)
    mesh = client.register_mesh(vertices, triangles)
    pose = turned(rng, 0.4)
    scene = client.open_scene(resolution=128)
    a = scene.add_body(mesh, pose=np.eye(4))
    b = scene.add_body(mesh, pose=pose)
    rigid = scene.step().contacts[0]
    b.remove()
    c = scene.add_body(mesh)
    soft = scene.step(positions={c: place(pose, vertices.astype(np.float32).astype(float))}).contacts[0]
    assert soft.volume == pytest.approx(rigid.volume, rel=1e-4)
    assert a in soft.bodies


def test_what_cannot_go_to_another_process_says_so(server_or_engine):
    client = server_or_engine
    mesh, scene = client.register_mesh(*UNIT_BOX), client.open_scene()
    for thing in (client, mesh, scene, scene.add_body(mesh, np.eye(4)), client.open_scenes(1, scene)):
        for take in (pickle.dumps, copy.deepcopy):
            with pytest.raises(errors.InvalidArgumentError, match="belong to this process"):
                take(thing)
    with pytest.raises(errors.InvalidArgumentError):
        copy.copy(client)  # whose end would be that of the first
    assert client.ping() >= 0


def test_odd_arguments_do_not_end_the_connection(server_or_engine, tmp_path):
    client = server_or_engine
    scene = client.open_scene(method="exact")
    body = scene.add_body(client.register_mesh(*UNIT_BOX))
    scene.add_half_space((0, 0, 1), 0.1)
    volume = scene.step(timeout=float("inf")).volumes.tobytes()
    for name in (b"bytes", 3, "\udcff"):
        for use in (lambda: client.register_mesh(*UNIT_BOX, name=name), lambda: client.open_scene(name=name)):
            with pytest.raises(errors.InvalidArgumentError, match="expected text"):
                use()
    path = tmp_path / "b\udcffx.off"  # bytes that are no text
    path.write_text("OFF\n4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 2 1\n3 0 1 3\n3 0 3 2\n3 1 2 3\n")
    assert client.load(path).name == "b\ufffdx.off"
    assert scene.step(timeout=float("inf")).volumes.tobytes() == volume and client.step_many([scene], timeout=float("inf")).volumes.tobytes() == volume
    assert client.reconnects == 0 and body.vertices == 8


def test_what_is_sent_to_a_server_that_began_again_has_all_digits():
    """Of positions in double precision, of which some vertices moved since."""
    mesh = _state.MeshState("box", np.array(UNIT_BOX[0], "<f8"))
    for first in (True, False):
        body = _state.BodyState(mesh, _state.DEFORMABLE, None, 1, 1, [], vertices=8)
        expected = np.array(UNIT_BOX[0], float) + (0.1 if first else 0)
        if first:
            body.apply(_state.Update(body, _state.POSITIONS, expected.copy()))
        expected[[2, 5]] = [[1 / 3, 1 / 7, 1 / 9], [0.1, 0.2, 0.3]]
        body.apply(_state.Update(body, _state.INDEXED, expected[[2, 5]], np.array([2, 5], "<u4")))
        whole = body.whole(None)
        at = slice(None) if whole.indices is None else whole.indices
        assert np.array_equal(whole.positions, expected[at]) and len(whole.positions) == (8 if first else 2)
        body.doubt()
        assert np.array_equal(body.whole(None).positions, expected)
