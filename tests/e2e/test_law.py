"""The contact law "pressure": scenes that rest, slide, roll and collide, beside their closed forms; and wrenches through
the stream, HTTP and contactctl, with the bits of the engine in this process."""

from __future__ import annotations

import json
import subprocess
import sys

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, ROOT, SLOW
from contactd import errors
from geometry import UNIT_BOX, box, icosphere, moved, place, turned
from http_api import Api

sys.path.insert(0, str(ROOT / "client_py" / "examples"))
import resting  # noqa: E402
from shapes import bricks, torus  # noqa: E402

PATIENT = 20 * SLOW


@pytest.mark.parametrize("sizes, depth", [([(0.1, 0.1, 0.1)], 1e-3), ([(0.05, 0.05, 0.2)], 1e-3), ([(0.1, 0.1, 0.1)] * 5, 1e-4)])
def test_stacks_stand(engine, sizes, depth):
    found = resting.stack(engine, sizes, 0.4, depth)
    assert found["tilt"] < 1e-3 and found["drift"] < 1e-3
    if len(sizes) == 1:  # as deep as its weight says
        assert found["sink"] == pytest.approx(depth, rel=2e-2)


def test_sticks_and_slides(engine):
    found = resting.slope(engine, 0.5, 0.4)
    assert abs(found["speed"]) < 2e-3 and abs(found["acceleration"]) < 0.05 and found["lean"] < 0.03
    found = resting.slope(engine, 0.2, 0.4)
    assert found["acceleration"] == pytest.approx(found["expected"], rel=0.02) and found["lean"] < 0.03


def test_bowls_come_to_rest(engine):
    found = resting.bowls(engine, 0.4, 1e-4)
    assert found["speed"] < 2e-3 and 0.028 < found["apart"] < 0.0295


def test_a_nut_holds_and_unscrews(engine):
    """Held by friction but for its creep; without, it follows the thread, within what it is loose on it."""
    found = resting.screw(engine, 0.3, 0.4, 1e-2, around=64)
    assert abs(found["fell"]) < 1e-3 and abs(found["thread"]) < 1e-3
    found = resting.screw(engine, 0.01, 0.6, 1e-2, around=64)
    assert found["thread"] > 0.008 and abs(found["fell"] - found["thread"]) < 0.0128


def test_rolls(engine):
    found = resting.roll(engine, 0.5)
    assert found["acceleration"] == pytest.approx(found["expected"], rel=0.01)


def test_torsion_of_a_disc(engine):
    found = resting.spin(engine, 0.05)
    assert found["slower"] == pytest.approx(found["expected"], rel=0.01)


@pytest.mark.parametrize("feet, mean_distance, low", [
    ([(0, 0, 0.5, 0.5)], 0.3826, -0.02),  # a square, middle and half sides; how far below the closed form the torque is
    ([(0, 0, 10, 0.5)], 5.0188, 0.028),
    ([(x, y, 0.01, 0.01) for x in (-0.4, 0.4) for y in (-0.4, 0.4)], 0.4 * 2**0.5, 0.06),
    ([(x, 0, 0.01, 0.01) for x in (-0.5, 0.5)], 0.5, 0.165),
    ([(np.cos(k), np.sin(k), 0.01, 0.01) for k in np.arange(24) * np.pi / 12], 1.0, 0.06)])
def test_torsion_of_other_areas(engine, feet, mean_distance, low):
    """Of a unit load and friction: the mean distance from the middle, as near as eighteen points tell."""
    boxes = [box([x - a, y - b, 0], [x + a, y + b, 0.5]) for x, y, a, b in feet]
    vertices = np.concatenate([v for v, _ in boxes])
    faces = np.concatenate([np.asarray(f) + 8 * i for i, (_, f) in enumerate(boxes)])
    scene = engine.open_scene(law="pressure", stiction_speed=1e-6)
    scene.add_half_space((0, 0, 1), 0.0, friction=1.0)
    body = scene.add_body(engine.register_mesh(vertices, faces), pose=moved(0, 0, -1e-3), modulus=1e6, friction=1.0)
    result = scene.step(velocities={body: [0, 0, 0, 0, 0, 1.0]}, want="frame")
    torque = -result.contacts[0].friction(body)[5] / result.wrench(body)[2]
    assert min(low, 0) - 1e-3 < 1 - torque / mean_distance < max(low, 0) + 1e-3


@pytest.mark.parametrize("share", (0.0, 0.3, 0.5, 0.7, 0.94, 1.2))
def test_a_disc_that_slides_and_turns(engine, share):
    """Its friction, with the point that rests at this share of its radius: within 3.5 % of the load of the integral over the disc, however it is turned."""
    vertices, faces = resting.cylinder(1.0, 0.4, 180)
    across = (np.arange(400) + 0.5) / 200 - 1
    x, y = (p.ravel() for p in np.meshgrid(across, across))
    x, y = x[np.hypot(x, y) < 1], y[np.hypot(x, y) < 1]
    speed = np.hypot(share - y, x)
    expected = -np.array([((share - y) / speed).mean(), 0, (x * x / speed - y * (share - y) / speed).mean()])
    scene = engine.open_scene(law="pressure", stiction_speed=1e-6)
    scene.add_half_space((0, 0, 1), 0.0, friction=1.0)
    body = scene.add_body(engine.register_mesh(vertices, faces), pose=moved(0, 0, 0.199), modulus=1e6, friction=1.0)
    for turn in np.linspace(0, 1, 7):
        c, s = np.cos(turn), np.sin(turn)
        pose = np.c_[[[c, -s, 0], [s, c, 0], [0, 0, 1]], [0, 0, 0.199]]
        result = scene.step(poses={body: pose}, velocities={body: [share, 0, 0, 0, 0, 1.0]}, want="frame")
        assert result.contacts[0].friction(body)[[0, 1, 5]] / result.wrench(body)[2] == pytest.approx(expected, abs=0.035)


def test_a_ball_leaves_as_it_came(engine):
    found = resting.drop(engine, 4e-5)
    assert found["work"] == pytest.approx(found["energy"], rel=0.01) and found["speed"] == pytest.approx(1, rel=1e-2)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_momenta_stay(engine, seed):
    found = resting.collide(engine, seed, seconds=0.6, h=2e-4)
    assert found["momentum"] < 1e-11 and found["most"] <= found["energy"] * (1 + 1e-5)
    assert found["left"] < 0.99 * found["energy"]


def a_scene(client) -> tuple[contactd.Scene, list[contactd.Body], contactd.StepResult]:
    scene = client.open_scene(law="pressure", stiction_speed=1e-2)
    mesh, ball = client.register_mesh(*UNIT_BOX), client.register_mesh(*icosphere(2))
    bodies = [scene.add_half_space((0, 0, 1), 0.0, friction=0.6), scene.add_body(mesh, moved(0, 0, 0.49), modulus=1e8, friction=0.15,
                                                                                  dissipation=1.0),
              scene.add_body(ball, moved(0.9, 0, 0.9)), scene.add_body(mesh, moved(9, 9, 9))]
    result = scene.step(velocities={bodies[1]: (1, 2, -0.1, 0, 0, 1), bodies[2]: (0, 0, -1, 0.5, 0, 0)}, want=("frame", "forces"))
    return scene, bodies, result


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        yield client


def test_wrenches(client):
    scene, bodies, result = a_scene(client)
    floor, block, ball, far = bodies
    assert scene.law == "pressure" and len(result) == 3 and result.wrenches.shape == (3, 2, 6)
    contact = next(c for c in result.contacts if floor in c.bodies and block in c.bodies)
    depth, area = 0.01, 1.0
    assert contact.wrench(block)[2] == pytest.approx(1e8 * depth * area * 1.1, rel=1e-6)  # approached at 0.1 m/s: 1 + d v
    slip = np.array([1.0, 2.0])  # more at the edges, which turn
    assert np.dot(contact.friction(block)[:2], slip) < 0
    assert contact.extents == pytest.approx([0.5, 0.5], rel=1e-6)
    assert np.abs(contact.axes @ contact.normal).max() < 1e-12
    assert contact.forces(block).sum(0)[2] == pytest.approx(contact.wrench(block)[2], rel=1e-9)
    assert contact.friction_forces(block).sum(0)[:2] == pytest.approx(contact.friction(block)[:2], rel=1e-9)
    with pytest.raises(errors.InvalidArgumentError, match="want.*'forces'"):
        scene.step(velocities={block: np.ones(6)}).contacts[0].friction_forces(block)
    with pytest.raises(errors.InvalidArgumentError, match="no velocities"):
        scene.step(want="all").contacts[0].friction_forces(block)
    assert result.wrench(block) == pytest.approx(sum(c.wrench(block) for c in result.contacts if block in c.bodies))
    assert result.body_wrenches.shape == (4, 6) and not result.wrench(far).any()
    assert result.wrench(ball).any()
    again = result.to_dict()
    assert "wrenches_1_5" in again and "extents_0" in again


def test_the_bits_are_the_engines(client, engine):
    theirs, ours = a_scene(client)[2], a_scene(engine)[2]
    for name in ("wrenches", "extents", "axes", "frictions", "volumes"):
        assert np.array_equal(getattr(theirs, name), getattr(ours, name)), name


def test_a_couple(engine):
    """A bar, turned in a slot, is held by both walls: their forces nearly cancel, and what turns it back does not."""
    k, turn, half = 1e7, 0.01, 0.4
    slot = engine.register_mesh(*bricks(np.array([[[1, 1]], [[1, 0]], [[1, 1]]]), (0.2, 1, 0.2)))
    bar = engine.register_mesh(*box((-0.1, -half, 0), (0.1, half, 0.1)))
    closed_form = -2 * k * 0.1 * turn * half**3 / 3  # of both walls: depth turn y, 0.1 m high
    for patches, most in ((False, 2.5), (True, 1.01)):
        for shift in (1e-3, 1e-5, 1e-7, 1e-9):
            scene = engine.open_scene(law="pressure", patches=patches)
            scene.add_body(slot, np.eye(4))
            body = scene.add_body(bar, (shift, 0, 0.05, 0, 0, np.sin(turn / 2), np.cos(turn / 2)), modulus=k)
            torque = scene.step(want="wrench").wrench(body)[5]
            assert 0.99 < torque / closed_form < most, (patches, shift, torque / closed_form)


def about_world(pose, wrench):
    return np.r_[wrench[:3], wrench[3:] + np.cross(pose[:3, 3], wrench[:3])]


def test_deformable_bodies_move_as_rigid_ones(engine):
    """With a rigid body's velocities they have its wrench; with any, friction takes energy and forces amount to the wrench."""
    rng = np.random.default_rng(5)
    vertices, triangles = icosphere(0.5, 2)
    vertices = np.asarray(vertices * (1, 0.7, 0.5), np.float32).astype(float)
    mesh, block = engine.register_mesh(vertices, triangles), engine.register_mesh(*UNIT_BOX)
    found = 0
    for _ in range(20):
        pose, other, twists = turned(rng, 0), turned(rng, 0.7), rng.normal(size=(2, 6))
        placed = place(pose, vertices)
        results = []
        for is_soft in (False, True):
            scene = engine.open_scene(law="pressure", stiction_speed=1e-2)
            a = scene.add_body(mesh, None if is_soft else pose, modulus=1e6, friction=0.5, dissipation=0.3)
            b = scene.add_body(block, other)
            motion = twists[0, :3] + np.cross(twists[0, 3:], placed - pose[:3, 3]) if is_soft else twists[0]
            results.append(scene.step(positions={a: placed} if is_soft else None, velocities={a: motion, b: twists[1]}, want="frame"))
            wrench = results[-1].wrench(a)
            results[-1] = wrench if is_soft else about_world(pose, wrench)
        size = np.abs(results[0]).sum()
        assert results[1] == pytest.approx(results[0], abs=1e-6 * size)
        motion = rng.normal(size=placed.shape)
        for contact in scene.step(velocities={a: motion, b: twists[1]}, want=("frame", "forces")).contacts:
            at, rubs = contact.vertices(a), contact.friction_forces(a)
            power = np.sum(rubs * motion[at]) + contact.friction(b) @ twists[1]
            assert power < 0 and rubs.sum(0) == pytest.approx(contact.friction(a)[:3], abs=1e-9 * size)
            assert np.cross(placed[at], rubs).sum(0) == pytest.approx(contact.friction(a)[3:], abs=1e-9 * size)
            found += 1
    assert found > 15


def test_no_way_leads_out_of_a_deformable_body(client):
    """Its vertices could not be given the reaction: those of what is inside alone are in the contact."""
    scene = client.open_scene(law="pressure", stiffness=1e9)
    body = scene.add_body(client.register_mesh(*UNIT_BOX), modulus=1e6)
    scene.add_body(client.register_mesh(*box((-1.5,) * 3, (1.5,) * 3)))
    (contact,) = scene.step(want="all").contacts
    assert contact.is_nested and not contact.wrench(body).any() and not contact.forces(body).any()


@pytest.mark.parametrize(("level", "off"), [(2, 0.2), (6, 0.02)])
def test_the_shortest_way_out_of_a_body(client, level, off):
    """Of a ball in a ball it leads from middle to middle, as nearly as triangles have it; both wrenches balance."""
    scene, pose, where = client.open_scene(law="pressure"), turned(np.random.default_rng(1), 3), np.array([0.3, -0.5, 0.2])
    ball, big = scene.add_sphere(0.2, np.eye(4), modulus=1e6), scene.add_body(client.register_mesh(*icosphere(2.0, level)), pose)
    arm = pose[:3, :3] @ where
    result = scene.step(poses={ball: moved(*(arm + pose[:3, 3]))})
    push, torque = result.wrench(ball)[:3], result.wrench(ball)[3:]
    force = np.linalg.norm(push)
    assert push / force == pytest.approx(arm / np.linalg.norm(arm), abs=off) and [w.code for w in result.warnings] == ["NESTED"]
    assert torque == pytest.approx(np.zeros(3), abs=1e-6 * force)
    assert result.wrench(big) == pytest.approx([*-push, *np.cross(arm, -push)], abs=1e-5 * force)


def test_what_is_wholly_inside_and_far_from_its_own_origin(client):
    """As scans are, whose coordinates are a survey's."""
    far = np.array([4e5, 5e6, 300.0])
    vertices, triangles = box((-0.05,) * 3, (0.05,) * 3)
    for floor in ("half-space", "box"):
        scene = client.open_scene(law="pressure")
        scene.add_half_space((0, 0, 1), 0.0) if floor == "half-space" else scene.add_box((4, 4, 2), moved(0, 0, -1))
        body = scene.add_body(client.register_mesh(vertices + far, triangles), moved(*(-far + [0, 0, -0.2])), modulus=1e6)
        assert scene.step().wrench(body)[:3] == pytest.approx([0, 0, 1e3 * (1 + 0.15 / 0.1)], rel=1e-5, abs=1e-3)


@pytest.mark.parametrize("is_rigid", [False, True])
@pytest.mark.parametrize("shape", ["box", "ball", "bowl"])
def test_forces_on_vertices_of_what_is_wholly_below(client, shape, is_rigid):
    """They amount to the force at the centre of gravity, in torque, too, and the mean velocity of the volume counts, whatever is wanted."""
    v, f = {"box": UNIT_BOX, "ball": icosphere(0.5, 2), "bowl": resting.bowl()}[shape]
    normal, turning, middle = np.array([1.0, -2.0, 2.0]) / 3, np.array([0.2, 0.1, -0.3]), np.array([3.0, 2.0, -4.0])
    scene = client.open_scene(law="pressure")
    scene.add_half_space(normal, 0.0)
    mesh = client.register_mesh(v, f)
    body = scene.add_body(mesh, np.eye(4) if is_rigid else None, modulus=1e6, dissipation=1.0)
    at, center = v + middle, mesh.center_of_mass + middle
    speed = np.array([0.1, 0.2, -0.3])
    moved_by = {"poses": {body: moved(*middle)}, "velocities": {body: [*(speed + np.cross(turning, middle - center)), *turning]}} if is_rigid else {
        "positions": {body: at}, "velocities": {body: speed + np.cross(turning, at - center)}}
    half = np.abs(normal) @ np.ptp(at, axis=0) / 2
    deeper = -(normal @ (at.min(axis=0) + at.max(axis=0)) / 2 + half)
    expected = 1e6 * mesh.volume * (1 + deeper / (2 * half)) * (1 - speed @ normal) * normal
    for want in ("frame", ("frame", "forces"), ("frame", "friction")):
        (contact,) = scene.step(want=want, **moved_by).contacts
        origin = middle if is_rigid else np.zeros(3)
        assert contact.wrench(body) == pytest.approx([*expected, *np.cross(center - origin, expected)], rel=1e-6, abs=1e-6 * np.linalg.norm(expected))
        if "forces" in want:
            forces, places = contact.forces(body), at[contact.vertices(body)]
            assert forces.sum(axis=0) == pytest.approx(expected, rel=1e-6)
            assert np.cross(places - center, forces).sum(axis=0) == pytest.approx(np.zeros(3), abs=1e-6 * np.linalg.norm(expected))


def test_what_is_wholly_below_a_half_space_is_pushed_out(client):
    """By modulus times volume, as when the last of it went under, and the more the deeper it is; along the plane's normal, wherever that points and
    whichever of both is first; less on the way out. It is no warning, as it would be of a body that nothing pushes."""
    size, normal = np.array([0.2, 0.1, 0.3]), np.array([2.0, -1.0, 2.0]) / 3
    height = size @ np.abs(normal)
    for order in (0, 1):
        scene = client.open_scene(law="pressure", stiction_speed=1e-3)
        if order:
            floor = scene.add_half_space(normal, 0.5)
        body = scene.add_box(size, np.eye(4), modulus=1e6, dissipation=2.0)
        if not order:
            floor = scene.add_half_space(normal, 0.5)
        for deeper, speed in ((-1e-6, 0.0), (0.0, 0.0), (1e-6, 0.0), (height, 0.0), (3 * height, 0.1), (height, -0.2), (height, -2.0)):
            middle = (0.5 - height / 2 - deeper) * normal + np.array([0.3, 0.6, 0.0])  # the latter along the plane
            result = scene.step(poses={body: moved(*middle)}, velocities={body: [*(-speed * normal), 0, 0, 0]})
            force = 1e6 * size.prod() * (1 + max(deeper, 0) / height) * max(1 + 2.0 * speed, 0) * normal
            assert result.wrench(body) == pytest.approx([*force, 0, 0, 0], rel=1e-5, abs=1e-3)
            # About one point, the half-space's origin, both torques are opposite.
            origin = 0.5 * normal
            arm = np.cross(middle - origin, result.wrench(body)[:3])
            assert result.wrench(floor) == pytest.approx([*-force, *-arm], rel=1e-5, abs=1e-2)
            assert not [w for w in result.warnings if w.code == "NESTED"] and (deeper < height or result.are_nested.tolist() == [True])
    result = scene.step(poses={body: moved(0, 0, -3)}, velocities={floor: [*(0.1 * normal), 0, 0, 0]})  # the plane comes up
    deeper = 0.5 - height / 2 + 3 * normal[2]
    assert result.wrench(body)[:3] == pytest.approx(1e6 * size.prod() * (1 + deeper / height) * 1.2 * normal, rel=1e-5)


@pytest.mark.parametrize(("floor", "fallen"), [("half-space", -0.2), ("table", -0.02)])
def test_what_has_fallen_through_the_floor_comes_back(engine, floor, fallen):
    scene = engine.open_scene(law="pressure", stiction_speed=1e-3)
    scene.add_half_space((0, 0, 1), 0.0) if floor == "half-space" else scene.add_box((1, 1, 0.1), moved(0, 0, -0.05))
    plate = scene.add_box((0.1, 0.1, 0.01), np.eye(4), modulus=1e5, dissipation=1.0)
    z, v, dt, mass = fallen, -3.0, 1e-3, 0.5
    for _ in range(1500):
        force = scene.step(poses={plate: moved(0, 0, z)}, velocities={plate: [0, 0, v, 0, 0, 0]}).wrench(plate)[2]
        v += dt * (force / mass - 9.81)
        z += dt * v
    assert z == pytest.approx(0.005 - mass * 9.81 / (1e5 * 0.01), abs=1e-3) and abs(v) < 0.05


def test_deep_contacts(engine):
    """Where bodies wrap around each other, too, forces turn with the scene, and do not jump as a body moves."""
    rng = np.random.default_rng(10)
    ring, stick = engine.register_mesh(*torus(0.5, 0.2, 24, 12)), engine.register_mesh(*box((-0.5, -0.4, -0.1), (0.5, 0.4, 0.1)))
    k, step, jumps = 1e7, 1e-3, []
    for _ in range(40):
        poses, axis = [turned(rng, 0), turned(rng, rng.uniform(0, 0.6))], rng.normal(size=3)
        axis *= step / np.linalg.norm(axis)
        whole = turned(rng, 0)
        rotation = whole[:3, :3]
        scenes = [engine.open_scene(law="pressure") for _ in range(2)]
        bodies = [[scene.add_body(mesh, pose, modulus=k) for mesh, pose in zip((ring, stick), poses)] for scene in scenes]
        before = None
        for i in range(30):
            pose = moved(*(i * axis)) @ poses[1]
            result = scenes[0].step(poses={bodies[0][1]: pose}, want="frame")
            other = scenes[1].step(poses={bodies[1][0]: whole @ poses[0], bodies[1][1]: whole @ pose}, want="frame")
            if not len(result):
                break
            most = k * result.volumes[0]
            wrench, same = result.wrench(bodies[0][1]), other.wrench(bodies[1][1])
            assert np.concatenate([rotation.T @ same[:3], rotation.T @ same[3:]]) == pytest.approx(wrench, abs=1e-5 * most)
            if before is not None and before[1] @ result.normals[0] > 0.999:  # where areas cancel, normals turn fast
                jumps.append(np.abs(wrench - before[0]).max() / most)
            before = wrench, result.normals[0]
    assert len(jumps) > 500 and np.max(jumps) < 0.25, np.sort(jumps)[-5:]


def test_forces_know_no_order_of_bodies(engine):
    """Where bodies wrap around each other and move, too: tangents depend on which of the two is the first."""
    rng = np.random.default_rng(4)
    shapes = [engine.register_mesh(*torus(0.5, 0.2, 24, 12)), engine.register_mesh(*box((-0.5, -0.4, -0.1), (0.5, 0.4, 0.1)))]
    scenes = [engine.open_scene(law="pressure") for _ in range(2)]
    bodies = [[None, None], [None, None]]
    for order, scene, of in zip(((0, 1), (1, 0)), scenes, bodies):
        for i in order:
            of[i] = scene.add_body(shapes[i], np.eye(4), modulus=1e7, dissipation=1.0)
    found = 0
    for _ in range(400):
        poses, twists = [turned(rng, 0), turned(rng, rng.uniform(0, 0.6))], rng.normal(size=(2, 6)) * 0.5
        one, other = (scene.step(poses=dict(zip(of, poses)), velocities=dict(zip(of, twists)), want="frame") for scene, of in zip(scenes, bodies))
        if len(one):
            found += 1
            assert other.wrench(bodies[1][0]) == pytest.approx(one.wrench(bodies[0][0]), abs=1e-5 * 1e7 * one.volumes[0])
    assert found > 300


def test_other_laws_have_none(client):
    scene = client.open_scene()
    body = scene.add_body(client.register_mesh(*UNIT_BOX), moved(0, 0, 0.25), modulus=1e7)
    scene.add_body(client.register_mesh(*box((-2, -2, -1), (2, 2, 0))), np.eye(4))
    result = scene.step()
    assert scene.law == "volume" and "wrenches_0_0" not in result.to_dict()
    for ask in (lambda: result.wrenches, lambda: result.contacts[0].wrench(body), lambda: result.contacts[0].extents):
        with pytest.raises(errors.InvalidArgumentError, match="law"):
            ask()
    scene.configure(law="pressure")
    assert scene.step().wrench(body)[2] > 0


def force_on(scene, body, velocity=None):
    return scene.step(velocities=None if velocity is None else {body: velocity}).wrench(body)[:3]


def test_materials_of_pairs_and_bodies(server, client):
    """A box 1 cm deep in a floor, of 1 m^2: k V along the normal; friction as the pair says; all of it outlives a restart."""
    scene = client.open_scene(law="pressure", stiction_speed=1e-3)
    box_ = scene.add_body(client.register_mesh(*UNIT_BOX), moved(0, 0, 0.49), modulus=2e6, friction=0.5)
    floor = scene.add_half_space((0, 0, 1), modulus=2e6, friction=0.5)
    fast, creep = (10, 0, 0, 0, 0, 0), (4e-3, 0, 0, 0, 0, 0)
    normal = 1e6 * 0.01
    assert force_on(scene, box_, fast) == pytest.approx([-0.5 * normal, 0, normal], rel=1e-6)
    scene.set_pair(floor, box_, friction=0.1, modulus=3e6)
    server.restart()
    assert force_on(scene, box_, fast) == pytest.approx([-0.3 * normal, 0, 3 * normal], rel=1e-6)
    scene.set_pair(box_, floor, friction=0.2, static_friction=0.8)  # in place of what was said before
    assert force_on(scene, box_, fast) == pytest.approx([-0.2 * normal, 0, normal], rel=1e-6)
    # r = 4 / 20 of CT_STRIBECK; sqrt(17): what stiction leaves of it
    expected = (0.2 + 0.6 / (1 + 0.2 ** 4)) * 4 / 17 ** 0.5
    assert force_on(scene, box_, creep)[0] == pytest.approx(-expected * normal, rel=1e-6)
    scene.set_pair(box_, floor)
    scene.set_material(box_, modulus=2e6, friction=0.9, static_friction=1.0)
    server.restart()
    assert force_on(scene, box_, fast) == pytest.approx([-(0.9 * 0.5) ** 0.5 * normal, 0, normal], rel=1e-4)
    with pytest.raises(errors.InvalidArgumentError) as caught:
        scene.set_pair(box_, floor, friction=0.5, static_friction=0.4)
    assert caught.value.field == "static_friction"
    with pytest.raises(errors.OutOfRangeError):
        scene.set_material(floor, modulus=-1.0)
    assert force_on(scene, box_, fast) == pytest.approx([-(0.9 * 0.5) ** 0.5 * normal, 0, normal], rel=1e-4)
    scene.set_pair(box_, floor, friction=0.1)
    scene.remove_body(floor)
    scene.add_half_space((0, 0, 1), friction=0.5, modulus=2e6)  # another body, of which nothing was said
    assert force_on(scene, box_, fast)[0] == pytest.approx(-(0.9 * 0.5) ** 0.5 * normal, rel=1e-4)


def test_sums_of_many_scenes_are_those_of_one(server_or_engine):
    """To the last bit: a body that is the first of some contacts and the second of others."""
    client, rng = server_or_engine, np.random.default_rng(3)
    scene = client.open_scene(law="pressure", patches=True)
    mesh = client.register_mesh(*icosphere(0.5, 2))
    bodies = [scene.add_body(mesh, moved(*rng.uniform(-0.5, 0.5, 3)), modulus=1e6) for _ in range(8)]
    scene.add_half_space((0, 0, 1), 0.0)
    (copy,) = client.open_scenes(1, scene)
    one, many = scene.step(want="wrench"), client.step_many([copy], want="wrench")
    assert len(one) > 20 and np.array_equal(many.body_wrenches[0], one.body_wrenches)
    assert np.array_equal(one.wrench(bodies[3]), one.body_wrenches[3])


def test_pairs_are_copied(engine):
    scene = engine.open_scene(law="pressure")
    box_ = scene.add_body(engine.register_mesh(*UNIT_BOX), moved(0, 0, 0.49))
    scene.set_pair(box_, scene.add_half_space((0, 0, 1)), modulus=5e5)
    (copy,) = engine.open_scenes(1, scene)
    assert copy.step().wrench(copy.bodies[0])[2] == pytest.approx(5e5 * 0.01, rel=1e-6)


def test_missing_velocities_are_told(client):
    scene = client.open_scene(law="pressure")
    box_ = scene.add_body(client.register_mesh(*UNIT_BOX), moved(0, 0, 0.49), friction=0.5)
    floor = scene.add_half_space((0, 0, 1))
    (warning,) = scene.step().warnings
    assert warning.code == "NO_VELOCITIES" and warning.body in (box_, floor) and warning.value == pytest.approx(0.01, rel=1e-6)
    assert scene.step(velocities={box_: (0,) * 6}).warnings == []
    assert scene.step(poses={box_: moved(0, 0, 2)}).warnings == []
    scene.set_material(box_)
    assert scene.step(poses={box_: moved(0, 0, 0.49)}).warnings == []


@pytest.mark.parametrize("field, value", [("modulus", 0.0), ("modulus", -1.0), ("friction", -0.1), ("dissipation", float("inf"))])
def test_bad_materials(client, field, value):
    scene = client.open_scene(law="pressure")
    with pytest.raises(errors.OutOfRangeError) as caught:
        scene.add_body(client.register_mesh(*UNIT_BOX), np.eye(4), **{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["modulus", "friction", "dissipation", "static_friction"])
def test_nan_is_no_material(server_or_engine, field):
    scene = server_or_engine.open_scene(law="pressure")
    body = scene.add_body(server_or_engine.register_mesh(*UNIT_BOX), moved(0, 0, 0.49), modulus=1e6)
    floor = scene.add_half_space((0, 0, 1))
    for ask in (lambda **given: scene.set_material(body, **given), lambda **given: scene.set_pair(body, floor, **given),
                lambda **given: scene.add_half_space((0, 0, 1), **given)):
        with pytest.raises(errors.NonFiniteError) as caught:
            ask(**{field: float("nan")})
        assert caught.value.field == field
    assert scene.step().wrench(body)[2] == pytest.approx(1e6 * 0.01, rel=1e-6)


def test_what_does_not_go_together(client):
    with pytest.raises(errors.InvalidArgumentError, match="law"):
        client.open_scene(method="ldi", law="pressure")
    scene = client.open_scene(law="pressure")
    body = scene.add_body(client.register_mesh(*UNIT_BOX), np.eye(4))
    with pytest.raises(errors.InvalidArgumentError, match="viscosity"):
        scene.step(velocities={body: (0,) * 6}, viscosity=1.0)


def test_over_http(server):
    api = Api(server.http)
    mesh = api.post("/v1/meshes", {"vertices": np.asarray(UNIT_BOX[0]).tolist(), "triangles": np.asarray(UNIT_BOX[1]).tolist()}, 200)["id"]
    scene = f"/v1/scenes/{api.post('/v1/scenes', {'law': 'pressure'})['id']}"
    api.post(f"{scene}/bodies", {"kind": "half_space", "normal": [0, 0, 1], "offset": 0, "friction": 0.5})
    pose = np.asarray(moved(0, 0, 0.49))[:3].ravel().tolist()
    body = api.post(f"{scene}/bodies", {"mesh": mesh, "pose": pose, "modulus": 1e6, "dissipation": 0.5})["id"]
    listed = next(b for b in api("GET", f"{scene}/bodies").json["bodies"] if b["id"] == body)
    assert listed["modulus"] == 1e6 and listed["friction"] is None and listed["dissipation"] == 0.5
    (contact,) = api.post(f"{scene}/step", {}, status=200)["contacts"]
    assert contact["wrench"][1][2] == pytest.approx(1e6 * 0.01, rel=1e-6)
    assert contact["wrench"][0][2] == pytest.approx(-contact["wrench"][1][2], rel=1e-12)
    api.refused("POST", f"{scene}/bodies", 422, "OUT_OF_RANGE", {"mesh": mesh, "modulus": -1}, field="modulus")
    floor = next(b["id"] for b in api("GET", f"{scene}/bodies").json["bodies"] if b["id"] != body)
    changed = api("PATCH", f"{scene}/bodies/{body}", {"material": {"other": floor, "modulus": 3e6}})
    assert changed.status == 200 and changed.json["modulus"] == 1e6
    assert api.post(f"{scene}/step", {}, status=200)["contacts"][0]["wrench"][1][2] == pytest.approx(3e6 * 0.01, rel=1e-6)
    changed = api("PATCH", f"{scene}/bodies/{body}", {"material": {"friction": 0.25, "static_friction": 0.5}})
    assert changed.json["modulus"] is None and changed.json["static_friction"] == 0.5
    as_answered = {name: changed.json[name] for name in ("modulus", "friction", "dissipation", "static_friction")}
    assert None in as_answered.values() and api("PATCH", f"{scene}/bodies/{body}", {"material": as_answered}).json == changed.json
    assert api.post(f"{scene}/bodies", {"mesh": mesh, "pose": pose, **as_answered})["static_friction"] == 0.5
    api.refused("PATCH", f"{scene}/bodies/{body}", 422, "OUT_OF_RANGE", {"material": {"friction": -1}}, field="material.friction")
    api.refused("PATCH", f"{scene}/bodies/{body}", 404, "NOT_FOUND", {"material": {"other": 4000, "friction": 1}})


def test_contactctl(server, tmp_path):
    (tmp_path / "box.obj").write_text("".join(f"v {x} {y} {z}\n" for x, y, z in UNIT_BOX[0])
                                      + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in UNIT_BOX[1]))
    command = [*CONTACTCTL, "--server", server.stream, "contact", tmp_path / "box.obj", "--half-space", "0 0 1 0.5", "--law", "pressure"]
    out = subprocess.run(command, capture_output=True, text=True, timeout=PATIENT)
    assert out.returncode == 0, out.stderr
    assert "wrench" in out.stdout
    out = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, timeout=PATIENT)
    assert json.loads(out.stdout)["contacts"][0]["wrench"][0][2] != 0

    def run(*options):
        return subprocess.run([*command, *options], capture_output=True, text=True, timeout=PATIENT)

    still = json.loads(run("--modulus", "2e6", "-o", "json").stdout)["contacts"][0]
    moved = json.loads(run("--modulus=2e6", "--friction=0.25", "--dissipation=2", "--twist-a", "9 0 -0.1 0 0 0", "-o", "json").stdout)["contacts"][0]
    assert still["wrench"][0][2] == pytest.approx(2e6 * still["volume"], rel=1e-6) and still["wrench"][0][0] == pytest.approx(0, abs=1e-6)
    assert moved["wrench"][0][2] == pytest.approx(1.2 * still["wrench"][0][2], rel=1e-6)
    assert moved["wrench"][0][0] == pytest.approx(-0.25 * moved["wrench"][0][2], rel=1e-6)
    stuck = json.loads(run("--friction=0.25", "--static-friction=0.5", "--twist-a", "0.005 0 0 0 0 0", "-o", "json").stdout)["contacts"][0]
    assert -stuck["wrench"][0][0] / stuck["wrench"][0][2] > 0.45
    for options, code, said in ((("--modulus", "-1"), 3, "modulus is -1"), (("--friction", "nan"), 2, "not finite"),
                                (("--friction", "0.5", "--static-friction", "0.1"), 3, "below friction")):
        out = run(*options)
        assert out.returncode == code and said in out.stderr, out.stderr
    out = subprocess.run([*command[:-2], "--friction", "1"], capture_output=True, text=True, timeout=PATIENT)
    assert out.returncode == 2 and "--law pressure" in out.stderr, out.stderr


def test_velocities_of_many_bodies_as_one_array(server_or_engine):
    scene = server_or_engine.open_scene(law="pressure")
    scene.add_half_space((0, 0, 1), 0.0, friction=0.5)
    box = server_or_engine.register_mesh(*UNIT_BOX)
    bodies = [scene.add_body(box, moved(2 * k, 0, 0.49), modulus=1e6) for k in range(3)]
    twists = np.arange(18.0).reshape(3, 6) / 10
    at_once = scene.step(velocities=(bodies, twists), want="wrench")
    one_by_one = scene.step(velocities=dict(zip(bodies, twists)), want="frame")
    assert np.array_equal(at_once.wrenches, one_by_one.wrenches) and np.array_equal(at_once.relative_velocities,
                                                                                   one_by_one.relative_velocities)
    with pytest.raises(errors.WrongLengthError, match=r"expected shape \(3, 6\)"):
        scene.step(velocities=(bodies, twists[:2]))
    with pytest.raises(errors.WrongLengthError, match="one for each vertex of a deformable body"):
        scene.step(velocities=([scene.add_body(box)], twists[:1]))
