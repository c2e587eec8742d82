"""by_newton.py - the scenes in Newton, by its solver XPBD on the processor: contacts of its own pipeline, and contactd's."""

from __future__ import annotations

from typing import Callable

import newton
import numpy as np
import warp as wp
from worlds import World

NAME, CONTACTS = "Newton", ("its own", "contactd")
DT = 2e-3  # s
ITERATIONS = 20
wp.config.quiet = True


def version() -> str:
    return f"Newton {newton.__version__} (Warp {wp.__version__})"


def prepare(world: World, contacts: str) -> tuple[float, Callable[[], None], Callable[[], np.ndarray]]:
    """A time step, what makes it, and where the bodies are: (b, 7)."""
    builder = newton.ModelBuilder()
    if world.has_floor:
        builder.add_shape_plane(body=-1, width=0.0, length=0.0, cfg=newton.ModelBuilder.ShapeConfig(mu=world.friction))
    meshes: dict[int, newton.Mesh] = {}
    for body in world.bodies:
        if id(body.mesh) not in meshes:
            meshes[id(body.mesh)] = newton.Mesh(body.mesh[0].astype(np.float32), body.mesh[1].astype(np.int32).ravel())
        place = wp.transform(body.at, wp.quat_identity())
        number = builder.add_body(xform=place) if body.density else -1
        builder.add_shape_mesh(number, xform=None if body.density else place, mesh=meshes[id(body.mesh)],
                               cfg=newton.ModelBuilder.ShapeConfig(density=body.density, mu=world.friction))
    model = builder.finalize(device="cpu")
    solver = newton.solvers.SolverXPBD(model, iterations=ITERATIONS)
    if contacts == "contactd":
        import contactd.newton

        pipeline = contactd.newton.CollisionPipeline(model)
    else:
        pipeline = newton.CollisionPipeline(model)
    found, states, control = pipeline.contacts(), [model.state(), model.state()], model.control()

    def step() -> None:
        states[0].clear_forces()
        pipeline.collide(states[0], found)
        solver.step(states[0], states[1], control, found, DT)
        states.reverse()

    def poses() -> np.ndarray:
        free, q = iter(states[0].body_q.numpy().astype(float)), [0.0, 0.0, 0.0, 1.0]
        return np.array([next(free) if body.density else [*body.at, *q] for body in world.bodies])

    return DT, step, poses
