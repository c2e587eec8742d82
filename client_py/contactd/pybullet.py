"""contactd as the contacts of bodies in PyBullet: exact intersections of meshes as they are, where PyBullet takes the convex hulls of what moves.

    contacts = contactd.pybullet.Contacts({nut: "nut.obj", bolt: "bolt.obj"}, ground=0.0)   # numbers that createMultiBody or loadURDF gave
    while True:
        contacts.apply()                                   # forces by the law "pressure", for the step that follows
        pybullet.stepSimulation()

Meshes are about the frames of the links. PyBullet's own contacts between these bodies are switched off, those with others stay. Forces are explicit:
modulus times a contact's area, N/m, has to be well below the mass over the time step's square; numSubSteps has to be 0. Needs the package pybullet.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence, Union

import numpy as np
from numpy.typing import NDArray

from ._optional import need
from ._own_engine import own_engine
from ._stiffness import modulus_of
from .body import Body
from .client import Client, Unit, mesh_from
from .errors import ErrorCode, error_for
from .result import StepResult

bullet: Any = need("pybullet", "contactd.pybullet")
STICTION = 20.0  # m/s^2, times the time step: friction is explicit
BASE = -1  # as PyBullet numbers the link that is a body's base
Link = Union[int, "tuple[int, int]"]
Array = NDArray[np.float64]

__all__ = ["Contacts"]


class Contacts:
    """Contacts between some bodies of a simulation, and of these with the ground.

    Args:
        bodies: meshes by PyBullet's numbers of bodies, for their bases, or by (body, link): a path of a GLB, glTF, OBJ, OFF, PLY or STL file,
            (vertices, triangles), or a contactd.Mesh of `client`. Links of one body do not touch each other.
        ground: m, the height of a floor, or None.
        modulus: N/m^3, of each body; None: as much as its mass and the time step let it have, and what PyBullet does not move is rigid.
        friction: of each.  dissipation: s/m.
        ignore: pairs of such keys that never touch.
        unit: of the meshes' vertices.
        client: where contacts are computed; None: an engine in this process.
        physics: PyBullet's number of the simulation (physicsClientId).
    Raises: NotFoundError: there is no such body or link; InvalidArgumentError: numSubSteps; InvalidMeshError.

    Attributes: scene; result: of the last apply.
    """

    def __init__(self, bodies: Mapping[Link, Any], *, ground: float | None = 0.0, modulus: float | None = None, friction: float = 0.5,
                 dissipation: float = 1.0, ignore: Sequence[tuple[Link, Link]] = (), unit: Unit = "m", client: Client | None = None,
                 physics: int = 0) -> None:
        self.physics = physics
        self.result: StepResult | None = None
        if not bodies:
            raise error_for(ErrorCode.INVALID_ARGUMENT, "expected meshes by bodies' numbers, got none", field="bodies")
        self._links = [_link_of(key, physics) for key in bodies]
        parameters = bullet.getPhysicsEngineParameters(physicsClientId=physics)
        if parameters["numSubSteps"]:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected 0, as PyBullet applies forces in the first of its sub-steps alone, got "
                            f"{parameters['numSubSteps']}: make the time step shorter instead", field="numSubSteps")
        apart = {frozenset(_link_of(key, physics) for key in pair) for pair in ignore}
        self.scene = (client or own_engine()).open_scene(method="exact", law="pressure", patches=True, name="PyBullet",
                                                         stiction_speed=STICTION * parameters["fixedTimeStep"])
        try:
            self._bodies: list[Body] = []
            for (key, given), link in zip(bodies.items(), self._links):
                mesh = mesh_from(self.scene.client, given, f"body {key}", unit)
                mass = bullet.getDynamicsInfo(*link, physicsClientId=physics)[0]
                own = modulus_of(mass, mesh, parameters["fixedTimeStep"]) if modulus is None else modulus
                left_out = [b for b, other in zip(self._bodies, self._links) if other[0] == link[0] or frozenset((other, link)) in apart]
                self._bodies.append(self.scene.add_body(mesh, np.eye(4), ignore=left_out, modulus=own, friction=friction, dissipation=dissipation))
            if ground is not None:
                self.scene.add_half_space((0, 0, 1), ground, friction=friction, dissipation=dissipation)
        except BaseException:
            self.scene.close()
            raise
        self._set_own_contacts(False)

    def close(self) -> None:
        """Gives the bodies' contacts back to PyBullet, if the simulation is there still. Closing twice is allowed."""
        self.scene.close()
        if self._bodies and bullet.isConnected(self.physics):
            self._set_own_contacts(True)
        self._bodies = []

    def __enter__(self) -> "Contacts":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _set_own_contacts(self, on: bool) -> None:
        for k, (body, link) in enumerate(self._links):
            for other, its in self._links[:k]:
                bullet.setCollisionFilterPair(body, other, link, its, int(on), physicsClientId=self.physics)

    def apply(self) -> StepResult:
        """Computes the contacts, and applies their forces in the step that follows."""
        states = [_state_of(body, link, self.physics) for body, link in self._links]
        poses, twists = (np.array(rows) for rows in zip(*states))
        self.result = result = self.scene.step(poses=(self._bodies, poses), velocities=(self._bodies, twists), want="frame")
        wrenches = result.body_wrenches if len(result) else np.zeros((0, 6))
        for (body, link), pose, wrench in zip(self._links, poses, wrenches):
            if wrench.any():
                self._push(body, link, pose[:3, 3], wrench)
        return result

    def _push(self, body: int, link: int, origin: Array, wrench: Array) -> None:
        """Until the next step."""
        for call, arguments in ((bullet.applyExternalForce, (wrench[:3].tolist(), origin.tolist())),
                                (bullet.applyExternalTorque, (wrench[3:].tolist(),))):
            call(body, link, *arguments, bullet.WORLD_FRAME, physicsClientId=self.physics)


def _link_of(key: Link, physics: int) -> tuple[int, int]:
    """(body, link) of a key, which exists."""
    body, link = key if isinstance(key, tuple) else (key, BASE)
    numbers = [bullet.getBodyUniqueId(k, physicsClientId=physics) for k in range(bullet.getNumBodies(physicsClientId=physics))]
    if body not in numbers:
        raise error_for(ErrorCode.NOT_FOUND, f"the simulation has no body {body!r}; its bodies are {', '.join(map(str, numbers)) or 'none'}",
                        field="bodies")
    links = bullet.getNumJoints(body, physicsClientId=physics)
    if not BASE <= link < links:
        raise error_for(ErrorCode.NOT_FOUND, f"body {body} has no link {link!r}; its links are {BASE}, its base, to {links - 1}", field="bodies")
    return body, link


def _matrix(quaternion: Sequence[float]) -> Array:
    return np.array(bullet.getMatrixFromQuaternion(quaternion)).reshape(3, 3)


def _state_of(body: int, link: int, physics: int) -> tuple[Array, Array]:
    """The pose (3, 4) of a link's frame, and the velocity (6,) of its origin and angular, world axes."""
    if link == BASE:
        center, turn = bullet.getBasePositionAndOrientation(body, physicsClientId=physics)
        linear, angular = bullet.getBaseVelocity(body, physicsClientId=physics)
        offset, tilt = bullet.getDynamicsInfo(body, BASE, physicsClientId=physics)[3:5]  # of the centre of mass, in the link's frame
        origin, turn = bullet.multiplyTransforms(center, turn, *bullet.invertTransform(offset, tilt))
    else:
        state = bullet.getLinkState(body, link, computeLinkVelocity=1, computeForwardKinematics=1, physicsClientId=physics)
        center, origin, turn, linear, angular = state[0], state[4], state[5], state[6], state[7]
    at = np.array(origin)
    velocity = np.array(linear) + np.cross(angular, at - np.array(center))
    return np.column_stack([_matrix(turn), at]), np.concatenate([velocity, angular])
