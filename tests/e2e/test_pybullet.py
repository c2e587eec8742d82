"""contactd.pybullet with the real PyBullet: bodies that rest as deep as the law says, bowls that nest, links of robots, and wrong numbers."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED
from contactd import errors
from contactd._stiffness import modulus_of
from geometry import UNIT_BOX, as_obj, volume

from crates import bowl  # an example, where geometry found its shapes

if INSTRUMENTED:
    pytest.skip("Python is not instrumented, and cannot load a library that is", allow_module_level=True)
bullet = pytest.importorskip("pybullet", reason="pip install pybullet runs these", exc_type=ImportError)
PLATE = UNIT_BOX[0] * [0.2, 0.2, 0.1], UNIT_BOX[1]


@pytest.fixture
def cb(monkeypatch):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))
    import contactd.pybullet

    bullet.connect(bullet.DIRECT)
    bullet.setGravity(0, 0, -9.81)
    bullet.setTimeStep(5e-4)
    yield contactd.pybullet
    bullet.disconnect()


def body(mass, at, inertia=None, **options) -> int:
    """Without a shape of PyBullet's own; without its damping."""
    number = bullet.createMultiBody(mass, basePosition=at, **options)
    bullet.changeDynamics(number, -1, linearDamping=0, angularDamping=0, localInertiaDiagonal=inertia or [mass * 5e-3] * 3)
    return number


def run(contacts, seconds):
    for _ in range(round(seconds / 5e-4)):
        contacts.apply()
        bullet.stepSimulation()


def test_a_box_rests_as_deep_as_the_law_says(cb):
    number = body(0.5, [0, 0, 0.05])
    with cb.Contacts({number: PLATE}, modulus=1e6, dissipation=20.0) as contacts:
        run(contacts, 0.5)
        height = bullet.getBasePositionAndOrientation(number)[0][2]
        assert 0.05 - height == pytest.approx(0.5 * 9.81 / (1e6 * 0.04), rel=0.02)
        assert contacts.result.wrench(contacts.scene.bodies[0])[2] == pytest.approx(0.5 * 9.81, rel=0.01)
        assert np.abs(bullet.getBaseVelocity(number)).max() < 1e-3


def test_light_and_heavy_bodies_rest_by_themselves(cb):
    """With PyBullet's own time step, and moduli by their masses: none is thrown off, none is lost below the floor, and the fixed one is rigid."""
    dt = 1 / 240
    bullet.setTimeStep(dt)
    masses = [0.02, 0.5, 20.0, 0.0]
    numbers = [body(mass, [k, 0, 0.25 if mass else -0.05]) for k, mass in enumerate(masses)]
    on = body(1.0, [3, 0, 0.2])  # falls on the fixed one
    with cb.Contacts({number: PLATE for number in [*numbers, on]}, ground=None) as over, cb.Contacts({number: PLATE for number in numbers[:3]}) as contacts:
        highest = 0.0
        for _ in range(round(2 / dt)):
            over.apply()
            contacts.apply()
            bullet.stepSimulation()
            highest = max(highest, *(bullet.getBasePositionAndOrientation(number)[0][2] for number in [*numbers, on]))
        assert highest < 0.26
        for number, mass in zip([*numbers, on], [*masses, 1.0]):
            assert np.abs(bullet.getBaseVelocity(number)).max() < 0.02
            if mass:
                modulus = modulus_of(mass, contacts.scene.client.register_mesh(*PLATE), dt)
                height = bullet.getBasePositionAndOrientation(number)[0][2]
                assert 0.05 - height == pytest.approx(mass * 9.81 / (modulus * 0.04), rel=0.05)


@pytest.mark.parametrize("turn", [[0, 0, 0], [0.4, -0.7, 1.1]])
def test_torques_act_about_the_right_axes(cb, turn):
    """A body that is turned, with its centre of mass off its frame's origin: what a wrench about the origin makes of its velocity."""
    bullet.setGravity(0, 0, 0)
    q = bullet.getQuaternionFromEuler(turn)
    number = body(2.0, [0, 0, 1], [0.3, 0.3, 0.3], baseOrientation=q, baseInertialFramePosition=[0.1, 0.2, -0.1])
    contacts = cb.Contacts({number: PLATE}, ground=None)
    pose, _ = cb._state_of(number, -1, 0)
    center = np.array(bullet.getBasePositionAndOrientation(number)[0])
    assert pose[:, :3] @ [0.1, 0.2, -0.1] + pose[:, 3] == pytest.approx(center)
    wrench = np.array([1.0, -2.0, 0.5, 0.3, 0.4, -0.6])
    contacts._push(number, -1, pose[:, 3], wrench)
    bullet.stepSimulation()
    linear, angular = map(np.array, bullet.getBaseVelocity(number))
    assert linear == pytest.approx(wrench[:3] / 2.0 * 5e-4, rel=1e-6)
    about_center = wrench[3:] + np.cross(pose[:, 3] - center, wrench[:3])
    assert angular == pytest.approx(about_center / 0.3 * 5e-4, rel=1e-4)
    assert cb._state_of(number, -1, 0)[1][:3] == pytest.approx(linear + np.cross(angular, pose[:, 3] - center), rel=1e-2)


def test_bowls_nest(cb):
    mesh = bowl(around=24)
    numbers = [body(600 * volume(mesh), [0.002 * k, -0.001 * k, 0.002 + 0.032 * k]) for k in range(3)]
    contacts = cb.Contacts({number: mesh for number in numbers}, modulus=2e7, dissipation=20.0)
    run(contacts, 0.15)
    heights = [bullet.getBasePositionAndOrientation(number)[0][2] for number in numbers]
    assert np.diff(heights) == pytest.approx([0.030, 0.030], abs=3e-3)
    assert {tuple(pair) for pair in contacts.result.body_pairs.tolist()} >= {(0, 1), (1, 2), (0, 3)}


URDF = """<robot name="arm"><link name="base"><inertial><mass value="0"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="plate"><inertial><origin xyz="0.02 0 0.01"/><mass value="0.5"/><inertia ixx="1e-2" iyy="1e-2" izz="1e-2" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="slide" type="prismatic"><parent link="base"/><child link="plate"/><axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1e3" velocity="1e3"/></joint>
</robot>"""


def test_a_link_of_a_robot_rests(cb, tmp_path):
    """It slides down on a rail, onto a fixed block."""
    (tmp_path / "arm.urdf").write_text(URDF)
    (tmp_path / "plate.obj").write_text(as_obj(*PLATE))
    arm = bullet.loadURDF(str(tmp_path / "arm.urdf"), [0, 0, 0.1502], useFixedBase=True)
    bullet.setJointMotorControl2(arm, 0, bullet.VELOCITY_CONTROL, force=0)
    block = body(0, [0, 0, 0.05])
    contacts = cb.Contacts({(arm, 0): tmp_path / "plate.obj", block: PLATE}, ground=None, modulus=1e6, dissipation=20.0)
    run(contacts, 0.4)
    sunk = 0.15 - (0.1502 + bullet.getJointState(arm, 0)[0])
    assert sunk == pytest.approx(0.5 * 9.81 / (0.5e6 * 0.04), rel=0.05)  # two like bodies in series
    assert abs(bullet.getJointState(arm, 0)[1]) < 1e-2


def test_its_own_contacts_are_switched_off_and_come_back(cb):
    shape = bullet.createCollisionShape(bullet.GEOM_BOX, halfExtents=[0.1, 0.1, 0.05])
    lower, upper = (body(mass, [0, 0, z], baseCollisionShapeIndex=shape) for mass, z in ((0, 0.05), (0.5, 0.149)))
    other = body(0.5, [0.15, 0, 0.149], baseCollisionShapeIndex=shape)
    bullet.stepSimulation()
    assert bullet.getContactPoints(lower, upper) and bullet.getContactPoints(lower, other)
    contacts = cb.Contacts({lower: PLATE, upper: PLATE}, ground=None)
    contacts.apply()
    bullet.stepSimulation()
    assert not bullet.getContactPoints(lower, upper) and bullet.getContactPoints(lower, other)
    contacts.close()
    contacts.close()
    bullet.stepSimulation()
    assert bullet.getContactPoints(lower, upper)


def test_a_simulation_that_ends_first(cb):
    physics = bullet.connect(bullet.DIRECT)
    numbers = [bullet.createMultiBody(1.0, basePosition=[0, 0, z], physicsClientId=physics) for z in (0.05, 0.1499)]
    with cb.Contacts(dict.fromkeys(numbers, PLATE), physics=physics) as contacts:
        assert len(contacts.apply()) == 1
        bullet.disconnect(physics)
    with pytest.raises(errors.StaleHandleError):
        contacts.scene.step()


def test_pairs_that_are_ignored(cb):
    numbers = [body(0.5, [0, 0, 0.0999 * k]) for k in range(3)]
    contacts = cb.Contacts(dict.fromkeys(numbers, PLATE), ground=None, ignore=[(numbers[0], (numbers[1], -1))])
    assert contacts.apply().body_pairs.tolist() == [[1, 2]]


def test_bad_input(cb):
    number = body(0.5, [0, 0, 1])
    with pytest.raises(errors.NotFoundError, match="no body 7; its bodies are 0"):
        cb.Contacts({7: PLATE})
    with pytest.raises(errors.NotFoundError, match="body 0 has no link 3; its links are -1, its base, to -1"):
        cb.Contacts({(number, 3): PLATE})
    with pytest.raises(errors.InvalidMeshError, match="body 0"):
        cb.Contacts({number: (PLATE[0], PLATE[1][1:])})
    for mesh in (None, PLATE[:1], PLATE[0]):
        with pytest.raises(errors.InvalidArgumentError, match=r"body 0: expected a file's path, \(vertices, triangles\) or a contactd.Mesh, got "):
            cb.Contacts({number: mesh})
    with pytest.raises(errors.InvalidArgumentError, match="bodies: expected meshes"):
        cb.Contacts({})
    bullet.setPhysicsEngineParameter(numSubSteps=4)
    with pytest.raises(errors.InvalidArgumentError, match="sub-steps alone, got 4"):
        cb.Contacts({number: PLATE})
