"""contactd as a system in a Drake diagram: poses and velocities of bodies in, spatial forces out, by the contact law "pressure".

    plant.Finalize()
    contacts = contactd.drake.add(builder, plant, {"nut": "nut.obj", "bolt": "bolt.obj"}, ground=0.0)
    diagram = builder.Build()

Forces are explicit: modulus times a contact's area, N/m, has to be well below the mass over the time step's square. Drake's own contacts of
geometries that are registered with a SceneGraph stay Drake's: register none for these bodies, or leave them out here. Needs the package drake.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ._optional import check_version, need
from ._own_engine import own_engine
from ._stiffness import modulus_of, width_of
from .body import Body
from .client import Client, Unit, mesh_from
from .errors import ErrorCode, error_for
from .result import StepResult

pydrake: Any = need("pydrake.all", "contactd.drake", package="drake")
check_version(need("pydrake", "contactd.drake", package="drake"), "contactd.drake", (1, 40), (2, 0), package="drake")
STICTION = 20.0  # m/s^2, times the time step: friction is explicit

__all__ = ["ContactSystem", "add"]


class ContactSystem(pydrake.LeafSystem):  # type: ignore[misc,name-defined,unused-ignore]
    """The system; `add` connects it.

    Ports: inputs body_poses and body_spatial_velocities, as MultibodyPlant's outputs of these names; output applied_spatial_forces, for its input
    of a similar name.

    Args:
        plant: a MultibodyPlant, finalized.
        bodies: meshes by the names of the plant's bodies, each about its body's frame: a path of a GLB, glTF, OBJ, OFF, PLY or STL file, (vertices, triangles), or
            a contactd.Mesh of `client`. Bodies that a joint connects do not touch each other.
        ground: m, the height of a floor, or None.
        model_instance: of the bodies, where names alone are not unique.
        modulus: N/m^3, of each body; None: as much as its mass and the time step let it have, and what is welded to the world is rigid.
        friction: of each.  dissipation: s/m.
        time_step: s, of explicit forces; None: the plant's, or 1 ms where that is continuous.
        ignore: pairs of names that never touch.
        unit: of the meshes' vertices.
        client: where contacts are computed; None: an engine in this process.

    Attributes: scene; result: of the last evaluation.
    """

    def __init__(self, plant: Any, bodies: Mapping[str, Any], *, ground: float | None = 0.0, model_instance: Any = None,
                 modulus: float | None = None, friction: float = 0.5, dissipation: float = 1.0, time_step: float | None = None,
                 ignore: Sequence[tuple[str, str]] = (), unit: Unit = "m", client: Client | None = None) -> None:
        super().__init__()
        if not plant.is_finalized():
            raise error_for(ErrorCode.INVALID_ARGUMENT, "the plant has to be finalized first: plant.Finalize()", object="plant")
        step = plant.time_step() or 1e-3 if time_step is None else time_step
        self.scene = (client or own_engine()).open_scene(method="exact", law="pressure", patches=True, name="Drake",
                                                         stiction_speed=STICTION * step)
        self.result: StepResult | None = None
        of_plant = [_body_of(plant, name, model_instance) for name in bodies]
        self._indices = [body.index() for body in of_plant]
        apart = _joined(plant) | {frozenset(_body_of(plant, name, model_instance).index() for name in pair) for pair in ignore}
        self._bodies: list[Body] = []
        still = {body.index() for body in plant.GetBodiesWeldedTo(plant.world_body())}
        for (name, given), index in zip(bodies.items(), self._indices):
            mesh = mesh_from(self.scene.client, given, name, unit)
            mass = 0.0 if index in still else plant.get_body(index).default_mass()
            own = modulus_of(mass, width_of(mesh), step) if modulus is None else modulus
            left_out = [b for b, other in zip(self._bodies, self._indices) if frozenset((index, other)) in apart]
            self._bodies.append(self.scene.add_body(mesh, np.eye(4), ignore=left_out, modulus=own, friction=friction, dissipation=dissipation))
        if ground is not None:
            self.scene.add_half_space((0, 0, 1), ground, friction=friction, dissipation=dissipation)
        make = pydrake.AbstractValue.Make
        self._poses = self.DeclareAbstractInputPort("body_poses", make([pydrake.RigidTransform()]))
        self._velocities = self.DeclareAbstractInputPort("body_spatial_velocities", make([pydrake.SpatialVelocity()]))
        self.DeclareAbstractOutputPort("applied_spatial_forces", lambda: make([pydrake.ExternallyAppliedSpatialForce()]), self._forces)

    def _forces(self, context: Any, output: Any) -> None:
        poses, velocities = self._poses.Eval(context), self._velocities.Eval(context)
        at = [int(index) for index in self._indices]
        twists = np.array([np.concatenate([velocities[k].translational(), velocities[k].rotational()]) for k in at])
        result = self.scene.step(poses=(self._bodies, np.array([poses[k].GetAsMatrix34() for k in at])),
                                 velocities=(self._bodies, twists), want="frame")
        self.result = result
        wrenches: NDArray[np.float64] = result.body_wrenches if len(result) else np.zeros((len(at), 6))
        forces = []
        for index, wrench in zip(self._indices, wrenches):
            if wrench.any():
                force = pydrake.ExternallyAppliedSpatialForce()
                force.body_index, force.p_BoBq_B = index, np.zeros(3)
                force.F_Bq_W = pydrake.SpatialForce(tau=wrench[3:], f=wrench[:3])
                forces.append(force)
        output.set_value(forces)


def _body_of(plant: Any, name: str, model_instance: Any) -> Any:
    given = (name,) if model_instance is None else (name, model_instance)
    if not plant.HasBodyNamed(*given):
        names = ", ".join(sorted(plant.get_body(pydrake.BodyIndex(k)).name() for k in range(plant.num_bodies()))[:20])
        raise error_for(ErrorCode.NOT_FOUND, f"the plant has no body {name!r}; its bodies are {names}", object="plant", field="bodies")
    return plant.GetBodyByName(*given)


def _joined(plant: Any) -> set[frozenset[Any]]:
    """Pairs of bodies that a joint connects, but for the world's."""
    pairs = set()
    for index in plant.GetJointIndices():
        joint = plant.get_joint(index)
        ends = joint.parent_body().index(), joint.child_body().index()
        if plant.world_body().index() not in ends:
            pairs.add(frozenset(ends))
    return pairs


def add(builder: Any, plant: Any, bodies: Mapping[str, Any], **options: Any) -> ContactSystem:
    """A ContactSystem in a DiagramBuilder, connected with the plant. Arguments as of ContactSystem."""
    system: ContactSystem = builder.AddSystem(ContactSystem(plant, bodies, **options))
    builder.Connect(plant.get_body_poses_output_port(), system.GetInputPort("body_poses"))
    builder.Connect(plant.get_body_spatial_velocities_output_port(), system.GetInputPort("body_spatial_velocities"))
    builder.Connect(system.GetOutputPort("applied_spatial_forces"), plant.get_applied_spatial_force_input_port())
    return system
