"""contactd.pybullet with the real PyBullet: bodies that rest as deep as the law says, bowls that nest, links of robots, and wrong numbers."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED
from contactd import errors
from contactd.client import Mesh
from contactd._stiffness import modulus_of, width_of
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
                modulus = modulus_of(mass, width_of(contacts.scene.client.register_mesh(*PLATE)), dt)
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


DUMBBELL = """<robot name="d"><link name="base"><inertial><origin xyz="0 0 0.01" rpy="0.3 0 0"/><mass value="1"/><inertia ixx="1e-2" iyy="1e-2" izz="1e-2" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><origin xyz="0 0.2 0" rpy="0 1.5707963 0"/><geometry><cylinder radius="0.05" length="0.1"/></geometry></collision>
<collision><origin xyz="0 -0.2 0" rpy="0 1.5707963 0"/><geometry><cylinder radius="0.05" length="0.1"/></geometry></collision>
<collision><origin xyz="0 0 0.05"/><geometry><box size="0.05 0.3 0.02"/></geometry></collision></link></robot>"""


def bounds_of(contacts, k) -> np.ndarray:
    """(2, 3) in the world, of shape k where it is now."""
    link, place = contacts._links[k], contacts._places[k]
    frame = np.vstack([bullet_state(link), [0, 0, 0, 1]]) @ place
    lo, hi = Mesh(contacts.scene.client, contacts._bodies[k]._state.mesh).bounds
    corners = np.array(np.meshgrid(*zip(lo, hi))).reshape(3, -1).T @ frame[:3, :3].T + frame[:3, 3]
    return np.array([corners.min(0), corners.max(0)])


def bullet_state(link) -> np.ndarray:
    import contactd.pybullet

    return contactd.pybullet._state_of(*link, 0)[0]


def test_what_pybullet_collides_is_taken(cb, tmp_path):
    """Where PyBullet has it, by its own boxes; and it comes to rest on the plane that PyBullet has, as high as it is, where PyBullet's own contacts hold
    nothing any more."""
    (tmp_path / "plate.obj").write_text(as_obj(*PLATE))
    (tmp_path / "dumbbell.urdf").write_text(DUMBBELL)
    make = bullet.createCollisionShape
    floor = body(0, [0, 0, 0], baseCollisionShapeIndex=make(bullet.GEOM_PLANE, planeNormal=[0, 0, 1]))
    shapes = [(make(bullet.GEOM_BOX, halfExtents=[0.1, 0.08, 0.05]), 0.05), (make(bullet.GEOM_CYLINDER, radius=0.1, height=0.1), 0.05),
              (make(bullet.GEOM_MESH, fileName=str(tmp_path / "plate.obj"), meshScale=[0.5, 0.5, 0.5]), 0.025),
              (make(bullet.GEOM_MESH, vertices=(np.array(PLATE[0])).tolist()), 0.05), (make(bullet.GEOM_SPHERE, radius=0.1), 0.1),
              (make(bullet.GEOM_CAPSULE, radius=0.05, height=0.2), None)]
    turned = bullet.getQuaternionFromEuler([0.4, -0.3, 0.9])
    numbers = [body(0.5, [k, 0, 0.5], baseCollisionShapeIndex=shape, baseOrientation=turned) for k, (shape, _) in enumerate(shapes)]
    numbers.append(bullet.loadURDF(str(tmp_path / "dumbbell.urdf"), [7, 0, 0.5], turned))
    with cb.Contacts([floor, *numbers]) as contacts:
        assert len(contacts.scene.bodies) == 1 + 6 + 3
        for k in range(1, 7):
            lower, upper = map(np.array, bullet.getAABB(*contacts._links[k]))
            # PyBullet's have a margin, and these of round ones are those of a turned box around them.
            assert bounds_of(contacts, k) == pytest.approx(np.array([lower, upper]), abs=0.045 if k < 5 else 0.08), k
        together = np.array([bounds_of(contacts, k) for k in (7, 8, 9)])
        lower, upper = map(np.array, bullet.getAABB(*contacts._links[7]))
        assert together[:, 0].min(0) == pytest.approx(lower, abs=0.045) and together[:, 1].max(0) == pytest.approx(upper, abs=0.045)
        for k, number in enumerate(numbers):
            height = 0.05 if k > 5 else shapes[k][1] or 0.15
            bullet.resetBasePositionAndOrientation(number, [k, 0, height + 0.001], [0, 0, 0, 1] if k != 6 else bullet.getQuaternionFromEuler([0.3, 0, 0]))
            bullet.resetBaseVelocity(number, [0, 0, 0], [0, 0, 0])
        run(contacts, 0.5)
        assert not bullet.getContactPoints(numbers[0], floor)
        for k, number in enumerate(numbers[:5]):
            assert bullet.getBasePositionAndOrientation(number)[0][2] == pytest.approx(shapes[k][1], abs=4e-3), k
        assert bullet_state((numbers[6], -1))[2, 3] == pytest.approx(0.05, abs=2e-3)


def of_file(name: str, scale: str = "1 1 1") -> str:
    return (f'<robot name="m"><link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
            f'<collision><geometry><mesh filename="{name}" scale="{scale}"/></geometry></collision></link></robot>')


def test_meshes_of_urdfs_are_taken_as_they_are(cb, tmp_path):
    """PyBullet collides a bowl's hull."""
    mesh = bowl(around=24)
    (tmp_path / "bowl.obj").write_text(as_obj(*mesh))
    (tmp_path / "bowl.urdf").write_text(of_file("bowl.obj", "0.5 0.5 0.5"))
    numbers = [bullet.loadURDF(str(tmp_path / "bowl.urdf"), [0, 0, 1 + 0.0152 * k]) for k in range(2)]
    with cb.Contacts(numbers) as contacts:
        contacts.apply()
        assert Mesh(contacts.scene.client, contacts.scene.bodies[0]._state.mesh).volume == pytest.approx(volume(mesh) / 8, rel=1e-5)


def test_shapes_that_pybullet_does_not_tell(cb, tmp_path):
    (tmp_path / "plate.obj").write_text(as_obj(*PLATE))
    (tmp_path / "open.obj").write_text(as_obj(PLATE[0], PLATE[1][1:]))
    (tmp_path / "longer.urdf").write_text(of_file("plate.obj", "1 1 2"))
    (tmp_path / "open.urdf").write_text(of_file("open.obj"))
    concave = bullet.createCollisionShape(bullet.GEOM_MESH, fileName=str(tmp_path / "plate.obj"), flags=bullet.GEOM_FORCE_CONCAVE_TRIMESH)
    for number, error, message in ((body(0.0, [0, 0, 0], baseCollisionShapeIndex=concave), errors.InvalidArgumentError,
                                    r"PyBullet does not tell its triangles: give the link's mesh, \{\(0, -1\): mesh\}"),
                                   (bullet.loadURDF(str(tmp_path / "longer.urdf")), errors.InvalidArgumentError, "plate.obj is scaled by 1, 1 and 2"),
                                   (bullet.loadURDF(str(tmp_path / "open.urdf")), errors.InvalidMeshError, "open.obj of link -1 of body 2.*repair"),
                                   (body(0.0, [0, 0, 0]), errors.InvalidArgumentError, "PyBullet collides nothing of 3: give meshes")):
        with pytest.raises(error, match=message):
            cb.Contacts([number])
    cb.Contacts([2], closing="hull").close()
    with pytest.raises(errors.NotFoundError, match="no body 9"):
        cb.Contacts([9])


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
