"""The reference simulator in client_py/examples/sim: its parts against closed forms, its steps against a server."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import contactd
import numpy as np
import pytest
from conftest import PATIENCE, ROOT, SLOW
from geometry import UNIT_BOX, box, icosphere, moved, place, torus, turned

from shapes import bricks, stool, volume
from sim import DeformableBody, HalfSpace, Options, RigidBody, World, quaternion, step, step_by_penalty
from sim.mass import mass_properties
from sim.pgs import least_power, solve_friction, solve_pressures

H = 0.01  # s
REST = np.zeros(3)


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=20 * SLOW) as client:
        yield client


# ---- mass properties ----


def test_mass_of_a_turned_box_away_from_the_origin():
    rng = np.random.default_rng(1)
    sides, density = np.array([1.0, 2.0, 3.0]), 7.0
    vertices, triangles = box(tuple(-sides / 2), tuple(sides / 2))
    pose = turned(rng, 20.0)
    mass, centre, inertia = mass_properties(place(pose, vertices), triangles, density)
    r = pose[:3, :3]
    expected = density * 6 / 12 * r @ np.diag((sides**2).sum() - sides**2) @ r.T
    assert mass == pytest.approx(42)
    assert centre == pytest.approx(pose[:3, 3])
    assert inertia == pytest.approx(expected)


def test_mass_of_a_tetrahedron():
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)
    mass, centre, inertia = mass_properties(vertices, np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]), 6.0)
    # Integrals over the unit tetrahedron: of x^2 1/60, of x y 1/120.
    second = 6.0 * (np.eye(3) / 60 + (1 - np.eye(3)) / 120) - mass * np.full((3, 3), 1 / 16)
    assert mass == pytest.approx(1) and centre == pytest.approx(np.full(3, 0.25))
    assert inertia == pytest.approx(np.trace(second) * np.eye(3) - second)


def test_mass_of_round_bodies_converges():
    mass, _, inertia = mass_properties(*icosphere(2.0, 5), 3.0)
    assert mass == pytest.approx(3 * 4 / 3 * np.pi * 8, rel=2e-3)
    assert inertia == pytest.approx(2 / 5 * mass * 4 * np.eye(3), rel=2e-3, abs=1e-9)
    mass, _, inertia = mass_properties(*torus(1.0, 0.3, 200, 100), 2.0)
    assert mass == pytest.approx(2 * 2 * np.pi**2 * 0.09, rel=2e-3)
    assert inertia[2, 2] == pytest.approx(mass * (1 + 3 / 4 * 0.09), rel=2e-3)


# ---- rotations ----


def test_quaternions_are_rotations():
    rng = np.random.default_rng(2)
    for angle in (0.0, 1e-9, 0.3, 3.0, np.pi):
        axis = rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        r = quaternion.to_matrix(quaternion.exponential(angle * axis))
        x = rng.normal(size=3)
        rodrigues = x * np.cos(angle) + np.cross(axis, x) * np.sin(angle) + axis * (axis @ x) * (1 - np.cos(angle))
        assert r @ x == pytest.approx(rodrigues, abs=1e-14)
        assert quaternion.to_matrix(quaternion.from_matrix(r)) == pytest.approx(r, abs=1e-14)
    p, q = (quaternion.exponential(rng.normal(size=3)) for _ in range(2))
    assert quaternion.to_matrix(quaternion.multiply(p, q)) == pytest.approx(
        quaternion.to_matrix(p) @ quaternion.to_matrix(q), abs=1e-14)


# ---- free bodies ----


def tumbling() -> RigidBody:
    body = RigidBody(box((0, 0, 0), (0.1, 0.2, 0.4)), 500.0, moved(1.0, 2.0, 3.0), np.array([1.0, -2.0, 0.5, 0.3, 9.0, 0.2]))
    assert body.position == pytest.approx([1.05, 2.1, 3.2])
    return body


def energy_error(h: float, duration: float = 1.0) -> float:
    body = tumbling()
    before, momentum = body.kinetic_energy(), body.angular_momentum()
    worst = 0.0
    for _ in range(round(duration / h)):
        body.advance(h)
        worst = max(worst, abs(body.kinetic_energy() / before - 1))
    assert body.angular_momentum() == pytest.approx(momentum, rel=1e-11)
    return worst


def test_a_free_rigid_body_keeps_momentum_and_energy():
    coarse, fine = energy_error(4e-3), energy_error(2e-3)
    assert coarse < 1e-2 and fine < coarse / 3  # of second order


def test_a_body_spins_about_a_main_axis_at_its_rate():
    body = RigidBody(box((-0.1, -0.2, -0.3), (0.1, 0.2, 0.3)), 500.0, velocity=np.array([0, 0, 0, 0, 0, 2.0]))
    for _ in range(50):
        body.advance(H)
    assert body.update()[:2, 0] == pytest.approx([np.cos(1), np.sin(1)], abs=1e-12)


def soft_box(**options) -> DeformableBody:
    return DeformableBody(box((0, 0, 0), (0.3, 0.2, 0.2)), 800.0, cell=0.1, young=1e5, **options)


def test_the_matrix_of_a_deformable_body():
    body = soft_box(damping=0.02)
    rng = np.random.default_rng(3)
    body.soft.nodes = body.soft.nodes @ turned(rng, 0.0)[:3, :3].T + 0.005 * rng.normal(size=body.soft.nodes.shape)
    body.begin_step(H)
    x = rng.normal(size=body.n_dof)
    stiff = body.soft.apply_stiffness(body.soft.rotations(), x.reshape(-1, 3)).ravel()
    expected = np.repeat(body.soft.mass, 3) * x + (H * H + H * 0.02) * stiff
    assert body.apply(x) == pytest.approx(expected, rel=1e-10)
    assert body.apply_inverse(expected) == pytest.approx(x, rel=1e-8, abs=1e-8)
    assert body.soft.elastic_forces(body.soft.rotations()).sum(0) == pytest.approx(REST, abs=1e-8)


def test_a_free_deformable_body_keeps_momentum_and_loses_energy():
    body = soft_box(velocity=np.array([1.0, 0.0, 2.0]))
    assert body.mass == pytest.approx(800 * 0.012)
    rng = np.random.default_rng(4)
    body.velocity += 0.3 * rng.normal(size=body.n_dof)
    momentum = body.linear_momentum()
    before = body.kinetic_energy()
    for _ in range(20):
        body.begin_step(H)
        body.velocity = body.free_velocity(H, REST)
        body.advance(H)
    assert body.linear_momentum() == pytest.approx(momentum, rel=1e-10)
    assert body.kinetic_energy() < before


def test_forces_and_velocities_of_vertices_are_transposes():
    rng = np.random.default_rng(5)
    for body in (tumbling(), soft_box()):
        n = len(body.update()) if body.n_dof != 6 else len(body.vertices)
        f, v = rng.normal(size=(n, 3)), rng.normal(size=body.n_dof)
        assert np.vdot(body.to_vertices(v), f) == pytest.approx(v @ body.from_vertices(f))


# ---- projected Gauss-Seidel ----


def random_matrix(rng: np.random.Generator, n: int, more: int = 2) -> np.ndarray:
    j = rng.normal(size=(n, n + more))
    return j @ j.T


def test_pressures_are_those_of_the_active_set():
    rng = np.random.default_rng(6)
    for _ in range(20):
        n = 5
        w, b = random_matrix(rng, n), rng.normal(size=n)
        for active in itertools.product((False, True), repeat=n):
            at = np.flatnonzero(active)
            x = np.zeros(n)
            x[at] = np.linalg.solve(w[np.ix_(at, at)], -b[at])
            if (x >= 0).all() and (w @ x + b >= -1e-12).all():
                break
        else:
            pytest.fail("a positive definite problem has a solution")
        assert solve_pressures(w, b, 20000, 1e-14) == pytest.approx(x, abs=1e-6)


def test_rows_that_nothing_moves_have_no_pressure():
    assert solve_pressures(np.diag([0.0, 2.0]), np.array([-1.0, -1.0])) == pytest.approx([0, 0.5])
    assert solve_friction(np.zeros((3, 3)), np.full(3, -1.0), 0.5)[0] == pytest.approx(np.zeros((1, 3)))


def test_the_least_power_is_that_of_a_fine_search():
    rng = np.random.default_rng(7)
    s = np.linspace(-1, 1, 401)
    x1, x2 = (g.ravel() for g in np.meshgrid(s, s))
    for _ in range(50):
        a, c = random_matrix(rng, 2), 3 * rng.normal(size=2)
        power = lambda x1, x2: (a[0, 0] * x1**2 + 2 * a[0, 1] * x1 * x2 + a[1, 1] * x2**2) / 2 + c[0] * x1 + c[1] * x2
        found = least_power(a[0, 0], a[0, 1], a[1, 1], c[0], c[1], 0.8)
        assert abs(found[0]) + abs(found[1]) <= 0.8 + 1e-12
        assert power(*found) <= power(x1, x2)[np.abs(x1) + np.abs(x2) <= 0.8].min() + 1e-12


@pytest.mark.parametrize("speed, kept", [((0.3, 0.0), 0.0), ((2.0, 0.0), 1.5), ((0.0, -2.0), -1.5)])
def test_one_contact_sticks_or_slides(speed, kept):
    """A point of mass 2 hits a floor at 1 m/s with friction 0.5, so that it may lose 0.5 m/s along it."""
    b = np.array([-1.0, *speed])
    x, _ = solve_friction(np.eye(3) / 2, b, 0.5)
    after = b + x[0] / 2
    assert x[0, 0] == pytest.approx(2) and after[0] == pytest.approx(0)
    assert after[1:].sum() == pytest.approx(kept)


def test_the_velocity_problem_is_solved():
    """Eq. 9-10 and 17, contact by contact."""
    rng = np.random.default_rng(8)
    stuck = slid = 0
    for _ in range(80):
        w, b = random_matrix(rng, 12, 12), rng.normal(size=12)
        x, _ = solve_friction(w, b, 0.4, 20000, 1e-13)
        rates = (w @ x.ravel() + b).reshape(-1, 3)
        assert (x[:, 0] >= 0).all() and (rates[:, 0] > -1e-8).all() and (x[:, 0] * rates[:, 0] < 1e-7).all()
        for (p, *t), (_, *v) in zip(x, rates):
            slack = 0.4 * p - np.abs(t).sum()
            assert slack > -1e-9
            if slack > 1e-7:
                assert np.abs(v).max() < 1e-7
                stuck += 1
            elif p > 1e-7:  # the traction's power is the most negative that the pyramid allows
                assert np.dot(t, v) == pytest.approx(-0.4 * p * np.abs(v).max(), abs=1e-7)
                slid += 1
    assert stuck > 5 and slid > 5


# ---- steps, against the server ----


def resting(height: float = 1.0) -> list:
    return [HalfSpace((0, 0, 1)), RigidBody(box((-0.5, -0.5, 0), (0.5, 0.5, height)), 1000.0, moved(0, 0, -0.0005))]


def test_a_pressure_carries_the_weight(client):
    with World(client, resting()) as world:
        report = step(world, H, Options())
        assert report.pressures[0, 0] == pytest.approx(1000 * 9.81 * H, rel=1e-6)  # Pa s, on 1 m^2
        assert world.kinetic_energy() == pytest.approx(0, abs=1e-12)
        assert report.contacts[0].volume == pytest.approx(5e-4, rel=1e-4)


def test_friction_stops_a_box_in_its_time(client):
    """From 1 m/s against 0.5 g in 20 steps. The box is flat, since friction in its base also turns it."""
    bodies = resting(0.02)
    bodies[1].velocity[0] = 1.0
    with World(client, bodies) as world:
        contacts = None
        for _ in range(30):
            contacts = step(world, H, Options(friction=0.5), contacts).contacts
    way = sum(H * (1 - 0.5 * 9.81 * H * (i + 1)) for i in range(20))
    assert bodies[1].position[0] == pytest.approx(way, rel=0.02)
    assert abs(bodies[1].velocity[0]) < 1e-3


def test_a_correction_moves_no_velocity(client):
    bodies = [RigidBody(UNIT_BOX, 1.0), RigidBody(UNIT_BOX, 2.0, moved(0.1, 0.2, 0.7))]
    with World(client, bodies, gravity=REST) as world:
        report = step(world, H, Options(target_depth=1e-3, most_corrections=50))
        assert report.corrections > 0 and report.gained == 0
        assert world.kinetic_energy() == 0
        (contact,) = report.contacts
        assert contact.volume <= 1.02e-3 * contact.area
    shift = [body.position for body in bodies]
    assert shift[0] + 2 * shift[1] == pytest.approx([0.2, 0.4, 1.4], abs=1e-6)  # the centre of mass stays


def test_penalty_balances_the_weight(client):
    """k V dV/dz = m g at rest."""
    with World(client, resting(), stiffness=1e7) as world:
        for _ in range(100):
            contacts = step_by_penalty(world, H)
    assert 1e7 * contacts[0].volume * contacts[0].area == pytest.approx(9810, rel=1e-3)


def test_penalty_couples_many_bodies(client):
    """A soft ball on a slab on the floor: each contact carries what is above it."""
    vertices, triangles = icosphere(0.1, 3)
    bodies = [HalfSpace((0, 0, 1)), RigidBody(box((-0.2, -0.2, 0), (0.2, 0.2, 0.04)), 1000.0, moved(0, 0, -1e-4)),
              DeformableBody((vertices + [0, 0, 0.139], triangles), 800.0, cell=0.07, young=1e5, damping=0.02)]
    with World(client, bodies, stiffness=1e7) as world:
        carried = []
        for _ in range(100):
            contacts = step_by_penalty(world, H, viscosity=1e4)
            carried.append([-1e7 * c.volume * c.contact.generalized_gradient(bodies[max(c.rows)].handle)[2] for c in contacts])
    weights = [9.81 * bodies[i].mass for i in (1, 2)]
    assert np.mean(carried[-20:], axis=0) == pytest.approx([sum(weights), weights[1]], rel=0.02)


def test_viscous_forces_keep_momentum(client):
    bodies = [RigidBody(UNIT_BOX, 1.0, velocity=np.array([0, 0, 0, 0, 0, 0.0])),
              RigidBody(UNIT_BOX, 1.0, moved(0, 0, 0.99), np.array([0.5, 0.1, 0, 0, 0, 0]))]
    with World(client, bodies, gravity=REST, stiffness=0.0) as world:
        before = world.linear_momentum()
        step_by_penalty(world, H, viscosity=10.0)
        assert world.linear_momentum() == pytest.approx(before, abs=1e-14)
        # The impulse h nu area^2 slip also turns both: at the contact each has 1 / m + 0.5^2 / I = 2.5 / m of mobility.
        slip = bodies[1].velocity[0] - bodies[0].velocity[0]
        assert slip == pytest.approx(0.5 - 2 * H * 10 * 0.5 / (1 + H * 10 * 5))


@pytest.mark.parametrize("soft", [False, True])
def test_friction_from_velocities(client, soft):
    """A block on a floor, held by its own depth: the force is -friction area times its velocity."""
    block, friction, area = box((-0.25, -0.25, 0), (0.25, 0.25, 0.25)), 200.0, 0.25
    velocity = np.array([0.5, -0.25, 0, 0, 0, 0])
    if soft:  # stiff, so that it moves as a whole
        body = DeformableBody((block[0] + [0, 0, -0.01], block[1]), 800.0, cell=0.13, young=1e9)
        body.velocity = np.tile(velocity[:3], len(body.velocity) // 3)
    else:
        body = RigidBody(block, 800.0, moved(0, 0, -0.01), velocity)
    with World(client, [HalfSpace((0, 0, 1)), body], gravity=REST, stiffness=0.0) as world:
        for _ in range(3):
            before = body.linear_momentum() / body.mass
            (contact,) = step_by_penalty(world, 1e-4, friction=friction)
            # The surface is held back first: a rigid body tips, a soft one shears.
            slip = world.result.contacts[0].relative_velocity
            assert slip[:2] == pytest.approx(before[:2], rel=0.02)
            after = body.linear_momentum() / body.mass
            # Friction acts below the centre of mass and also tips the block: to first order in h that is all.
            assert after[:2] == pytest.approx(before[:2] * (1 - 1e-4 * friction * area / body.mass), rel=1e-4)
            assert after[:2] != pytest.approx(before[:2], rel=1e-6)


def test_friction_slows_a_turn(client):
    """By the torque nu area^2 / (2 pi) spin, and both bodies' angular momentum stays."""
    friction, spin = 50.0, 3.0
    bodies = [RigidBody(box((-1, -1, -1), (1, 1, 0)), 500.0),
              RigidBody(box((-0.25, -0.25, -0.01), (0.25, 0.25, 0.25)), 500.0, velocity=np.array([0, 0, 0, 0, 0, spin]))]
    with World(client, bodies, gravity=REST, stiffness=0.0) as world:
        before = world.angular_momentum()
        (contact,) = step_by_penalty(world, H, friction=friction)
        after = world.angular_momentum()
    torque = friction * contact.area**2 / (2 * np.pi) * spin
    assert bodies[1].velocity[5] == pytest.approx(spin - H * torque / bodies[1].inertia()[2, 2], rel=1e-5)
    assert after == pytest.approx(before, abs=1e-9 * abs(before[2]))


def test_bricks_are_closed_and_as_large_as_they_say(client):
    filled = np.ones((2, 3, 4))
    filled[0, 0, 0] = filled[1, 1:, 3] = 0
    mesh = bricks(filled, (0.5, 0.2, 0.1))
    assert volume(mesh) == pytest.approx(21 * 0.01)
    assert mesh[0].min(0) == pytest.approx([-0.5, -0.3, -0.2]) and mesh[0].max(0) == pytest.approx([0.5, 0.3, 0.2])
    client.register_mesh(*mesh)  # refuses what is not closed
    assert volume(stool(0.3, 0.6)) == pytest.approx(17 * 0.1 * 0.1 * 0.2)


def test_a_pile_of_stools_stands(client):
    """Four contacts a pair: their pressures carry the weights and resist tilting."""
    bodies = [HalfSpace((0, 0, 1)), *(RigidBody(stool(), 500.0, moved(0.02 * i, 0, 0.1495 + 0.2995 * i)) for i in range(3))]
    start = [body.position for body in bodies[1:]]
    with World(client, bodies, patches=True) as world:
        contacts, carried = None, np.zeros(3)
        for i in range(60):
            pairs, areas = [max(c.rows) - 1 for c in contacts or ()], [c.area for c in contacts or ()]
            report = step(world, H, Options(), contacts)
            contacts = report.contacts
            if i >= 40:
                np.add.at(carried, pairs, report.pressures[:, 0] * areas)
        assert len(contacts) == 12
        assert world.kinetic_energy() < 1e-2
    for body, at in zip(bodies[1:], start):
        assert body.position == pytest.approx(at, abs=5e-3)
    weight = 9.81 * bodies[1].mass * 20 * H
    assert carried == pytest.approx([3 * weight, 2 * weight, weight], rel=0.05)


@pytest.mark.parametrize("rays", [{"pixel_size": 0.005}, {"resolution": 64}])
def test_a_cube_stands_on_cells(client, rays):
    """Pressed from one side, a cube with one volume would tilt; sixteen cells carry it, the near ones more."""
    slab = RigidBody(box((-1.0, -1.0, -0.5), (1.0, 1.0, 0.0)), 1000.0, driven=True)
    cube = RigidBody(box((-0.2, -0.2, 0), (0.2, 0.2, 0.4)), 500.0, moved(0, 0, -1e-3))
    with World(client, [slab, cube], method="ldi", cell_size=0.1, **rays) as world:
        contacts = None
        for _ in range(40):
            cube.velocity[3:] += H * np.linalg.inv(cube.inertia()) @ [0, 30.0, 0]  # N m; it would fall at 63
            report = step(world, H, Options(), contacts)
            before, contacts = contacts or report.contacts, report.contacts
        push = report.pressures[:, 0] * [c.area for c in before]
        arms = [c.contact.center[0] - cube.position[0] for c in before]
    assert cube.update()[2, 2] > 1 - 1e-4
    assert push.sum() == pytest.approx(9.81 * cube.mass * H, rel=0.02)
    assert push @ arms == pytest.approx(30 * H, rel=0.1)


def test_driven_bodies_go_their_way(client):
    bodies = [RigidBody(UNIT_BOX, 1000.0, velocity=np.array([0, 0, 0.1, 0, 0, 0]), driven=True),
              RigidBody(UNIT_BOX, 1000.0, moved(0, 0, 0.9995))]
    with World(client, bodies) as world:
        contacts = None
        for _ in range(10):
            contacts = step(world, H, Options(), contacts).contacts
    assert bodies[0].position == pytest.approx([0, 0, 0.01])
    assert bodies[1].position[2] == pytest.approx(1.0095, abs=1e-3)


def test_the_program_tells_of_a_pile(server):
    examples = ROOT / "client_py" / "examples"
    done = subprocess.run([sys.executable, "-m", "sim", "--server", server.stream, "--steps", "20"], cwd=examples,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "client_py")}, capture_output=True, text=True,
                          timeout=PATIENCE, check=True)
    head, line = done.stdout.splitlines()
    assert head.split()[0] == "time" and line.split()[0] == "0.20" and int(line.split()[1]) >= 4
