"""contactd as the contacts of bodies in PyBullet: exact intersections of meshes as they are, where PyBullet takes the convex hulls of what moves.

    contacts = contactd.pybullet.Contacts([plane, robot])  # numbers that createMultiBody or loadURDF gave; or with meshes, {nut: "nut.obj", …}
    while True:
        contacts.apply()                                   # forces by the law "pressure", for the step that follows
        pybullet.stepSimulation()

Meshes that are given are about the frames of the links. PyBullet's own contacts between these bodies are switched off, those with others stay. Forces are explicit:
modulus times a contact's area, N/m, has to be well below the mass over the time step's square; numSubSteps has to be 0. Needs the package pybullet.
"""

from __future__ import annotations

import itertools
from typing import Any, Literal, Mapping, Sequence, Union

import numpy as np

from ._as_found import Makings, makings
from ._own_engine import own_engine
from ._pybullet_shapes import Array, bullet, frame_of, shapes_of
from ._stiffness import modulus_of, width_of
from .body import Body
from .client import Client, Closing, Mesh, Unit, mesh_from
from .errors import ErrorCode, error_for
from .result import StepResult

STICTION = 20.0  # m/s^2, times the time step: friction is explicit
BASE = -1  # as PyBullet numbers the link that is a body's base
Link = Union[int, "tuple[int, int]"]
Part = tuple[tuple[int, int], Union[Mesh, None], Array]  # a link, what of it touches (None: a half-space), and where that is in its frame

__all__ = ["Contacts"]


class Contacts:
    """Contacts between some bodies of a simulation, and of these with the ground.

    Args:
        bodies: a list of PyBullet's numbers of bodies, with all their links, or of (body, link): what PyBullet itself collides of them, meshes of URDFs as
            they are in their files; of meshes that createCollisionShape made PyBullet tells hulls alone. Or meshes by such numbers, for bodies' bases, or by (body, link): a path of a GLB, glTF, OBJ, OFF, PLY or STL file,
            (vertices, triangles), or a contactd.Mesh of `client`. Links of one body do not touch each other.
        ground: m, the height of a floor, or None; "auto": 0, or None where `bodies` is a list, which may have a floor.
        modulus: N/m^3, of each body; None: as much as its mass and the time step let it have, and what PyBullet does not move is rigid.
        friction: of each.  dissipation: s/m.
        ignore: pairs of such keys that never touch.
        unit: of the meshes' vertices.
        client: where contacts are computed; None: an engine in this process.
        physics: PyBullet's number of the simulation (physicsClientId).
        repair, closing: as of Client.register_mesh, for files of a list's bodies that are not closed, of both the repair first.
    Raises: NotFoundError: there is no such body or link; InvalidArgumentError: numSubSteps, a shape that PyBullet does not tell; InvalidMeshError.

    Attributes: scene; result: of the last apply.
    """

    def __init__(self, bodies: Mapping[Link, Any] | Sequence[Link], *, ground: float | None | Literal["auto"] = "auto", modulus: float | None = None,
                 friction: float = 0.5, dissipation: float = 1.0, ignore: Sequence[tuple[Link, Link]] = (), unit: Unit = "m",
                 client: Client | None = None, physics: int = 0, repair: bool = False, closing: Closing | None = None) -> None:
        self.physics = physics
        self.result: StepResult | None = None
        if not bodies:
            raise error_for(ErrorCode.INVALID_ARGUMENT, "expected meshes by bodies' numbers, or a list of these, got none", field="bodies")
        for key in bodies:
            _link_of(key, physics)
        parameters = bullet.getPhysicsEngineParameters(physicsClientId=physics)
        if parameters["numSubSteps"]:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected 0, as PyBullet applies forces in the first of its sub-steps alone, got "
                            f"{parameters['numSubSteps']}: make the time step shorter instead", field="numSubSteps")
        apart = {frozenset(_link_of(key, physics) for key in pair) for pair in ignore}
        self.scene = (client or own_engine()).open_scene(method="exact", law="pressure", patches=True, name="PyBullet",
                                                         stiction_speed=STICTION * parameters["fixedTimeStep"])
        try:
            parts = self._parts_of(bodies, unit, makings(repair, closing))
            self._links = [link for link, _, _ in parts]
            self._places = np.array([place for _, _, place in parts])
            moduli = {} if modulus is not None else self._moduli(parts, parameters["fixedTimeStep"])
            self._bodies: list[Body] = []
            for link, mesh, _ in parts:
                options: dict[str, Any] = {"ignore": [b for b, other in zip(self._bodies, self._links) if self._never_touch(link, other, apart)],
                                           "friction": friction, "dissipation": dissipation, "modulus": moduli.get(link, modulus)}
                self._bodies.append(self.scene.add_body(mesh, np.eye(4), **options) if mesh else self.scene.add_half_space((0, 0, 1), 0.0, **options))
            if ground == "auto":
                ground = 0.0 if isinstance(bodies, Mapping) else None
            if ground is not None:
                self.scene.add_half_space((0, 0, 1), ground, friction=friction, dissipation=dissipation)
        except BaseException:
            self.scene.close()
            raise
        self._set_own_contacts(False)

    def _parts_of(self, bodies: Mapping[Link, Any] | Sequence[Link], unit: Unit, making: Makings) -> list[Part]:
        client = self.scene.client
        if isinstance(bodies, Mapping):
            return [(_link_of(key, self.physics), mesh_from(client, mesh, f"body {key}", unit), np.eye(4)) for key, mesh in bodies.items()]
        parts: list[Part] = []
        for key in bodies:
            own, link = _link_of(key, self.physics)
            links = [link] if isinstance(key, tuple) else range(BASE, bullet.getNumJoints(own, physicsClientId=self.physics))
            parts += [((own, k), *shape) for k in links for shape in shapes_of(client, own, k, making, self.physics)]
        if not parts:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"PyBullet collides nothing of {', '.join(map(str, bodies))}: give meshes", field="bodies")
        return parts

    def _moduli(self, parts: list[Part], time_step: float) -> dict[tuple[int, int], float | None]:
        """Of each link, all of whose shapes may touch at once."""
        areas: dict[tuple[int, int], float] = {}
        for link, mesh, _ in parts:
            areas[link] = areas.get(link, 0.0) + (width_of(mesh) if mesh else 0.0)
        return {link: modulus_of(self._mass_of(link), area, time_step) for link, area in areas.items()}

    def _mass_of(self, link: tuple[int, int]) -> float:
        return float(bullet.getDynamicsInfo(*link, physicsClientId=self.physics)[0])

    def _never_touch(self, one: tuple[int, int], other: tuple[int, int], apart: set[frozenset[tuple[int, int]]]) -> bool:
        return one[0] == other[0] or frozenset((one, other)) in apart or not (self._mass_of(one) or self._mass_of(other))

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
        for (body, link), (other, its) in itertools.combinations(dict.fromkeys(self._links), 2):
            bullet.setCollisionFilterPair(body, other, link, its, int(on), physicsClientId=self.physics)

    def apply(self) -> StepResult:
        """Computes the contacts, and applies their forces in the step that follows."""
        states = {link: _state_of(*link, self.physics) for link in dict.fromkeys(self._links)}
        frames, twists = (np.array(rows) for rows in zip(*(states[link] for link in self._links)))
        arms = (frames[:, :, :3] @ self._places[:, :3, 3:])[:, :, 0]
        poses = np.concatenate([frames[:, :, :3] @ self._places[:, :3, :3], (frames[:, :, 3] + arms)[:, :, None]], axis=2)
        twists[:, :3] += np.cross(twists[:, 3:], arms)
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
    return frame_of(origin, turn)[:3], np.concatenate([velocity, angular])
