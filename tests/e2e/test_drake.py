"""contactd.drake with the real Drake: bodies that rest, and what is said of wrong names."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED
from contactd import errors
from contactd._stiffness import modulus_of, width_of
from geometry import UNIT_BOX, volume

from crates import bowl  # an example, where geometry found its shapes

if INSTRUMENTED:  # before what takes a second to import
    pytest.skip("Python is not instrumented, and cannot load a library that is", allow_module_level=True)
pytest.importorskip("pydrake", reason="pip install drake runs these", exc_type=ImportError)


@pytest.fixture
def cd(monkeypatch):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))
    import contactd.drake

    return contactd.drake


def simulate(cd, mesh, poses, mass, seconds, step, **options):
    """Bodies of one mesh, fallen for so long: their heights, the fastest velocity, and the system."""
    drake = cd.pydrake
    builder = drake.DiagramBuilder()
    plant = builder.AddSystem(drake.MultibodyPlant(step))
    inertia = drake.SpatialInertia(mass, np.zeros(3), drake.UnitInertia.SolidBox(0.2, 0.2, 0.1))
    bodies = [plant.AddRigidBody(f"b{k}", inertia) for k in range(len(poses))]
    plant.Finalize()
    system = cd.add(builder, plant, {body.name(): mesh for body in bodies}, **options)
    diagram = builder.Build()
    simulator = drake.Simulator(diagram)
    context = plant.GetMyMutableContextFromRoot(simulator.get_mutable_context())
    for body, position in zip(bodies, poses):
        plant.SetFreeBodyPose(context, body, drake.RigidTransform(position))
    simulator.AdvanceTo(seconds)
    heights = [plant.EvalBodyPoseInWorld(context, body).translation()[2] for body in bodies]
    return heights, np.abs(plant.GetVelocities(context)).max(), system


def test_a_box_rests_as_deep_as_the_law_says(cd):
    mesh = UNIT_BOX[0] * [0.2, 0.2, 0.1], UNIT_BOX[1]
    (height,), speed, system = simulate(cd, mesh, [[0, 0, 0.05]], 0.5, 0.6, 5e-4, modulus=1e6, dissipation=20.0)
    assert 0.05 - height == pytest.approx(0.5 * 9.81 / (1e6 * 0.04), rel=0.02) and speed < 1e-3
    assert system.result.wrench(system.scene.bodies[0])[2] == pytest.approx(0.5 * 9.81, rel=0.01)


@pytest.mark.parametrize("mass", [0.02, 20.0])
def test_bodies_rest_by_themselves(cd, mass):
    """As stiff as the mass and the time step let them be."""
    mesh = UNIT_BOX[0] * [0.2, 0.2, 0.1], UNIT_BOX[1]
    (height,), speed, system = simulate(cd, mesh, [[0, 0, 0.2]], mass, 2.0, 4e-3)
    modulus = modulus_of(mass, width_of(system.scene.client.register_mesh(*mesh)), 4e-3)
    assert 0.05 - height == pytest.approx(mass * 9.81 / (modulus * 0.04), rel=0.05) and speed < 0.02


def test_bowls_nest(cd):
    mesh = bowl(around=24)
    heights, _, system = simulate(cd, mesh, [[0.002 * k, -0.001 * k, 0.002 + 0.032 * k] for k in range(3)], 600 * volume(mesh), 0.15, 5e-4,
                                  modulus=2e7, dissipation=20.0)
    assert np.diff(heights) == pytest.approx([0.030, 0.030], abs=3e-3)
    assert {tuple(pair) for pair in system.result.body_pairs.tolist()} >= {(0, 1), (1, 2), (0, 3)}


def test_bad_input(cd):
    drake = cd.pydrake
    plant = drake.MultibodyPlant(1e-3)
    plant.AddRigidBody("a", drake.SpatialInertia.SolidSphereWithMass(1.0, 0.1))
    with pytest.raises(errors.InvalidArgumentError, match="has to be finalized"):
        cd.ContactSystem(plant, {"a": UNIT_BOX})
    plant.Finalize()
    with pytest.raises(errors.NotFoundError, match="no body 'b'; its bodies are a, world"):
        cd.ContactSystem(plant, {"b": UNIT_BOX})
