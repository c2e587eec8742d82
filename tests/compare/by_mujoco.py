"""by_mujoco.py - the scenes in MuJoCo: contacts of convex hulls, of signed distance fields, and contactd's."""

from __future__ import annotations

from typing import Any, Callable

import mujoco
import numpy as np
from worlds import World

from crates import STIFF

NAME, CONTACTS = "MuJoCo", ("hull", "SDF", "contactd", "contactd, points")
DT = 2e-3  # s
POINTS: dict[str, Any] = {"points": 16, "patches": False}  # of each pair whose contact is curved


def version() -> str:
    return f"MuJoCo {mujoco.__version__}"


def mjcf(world: World, contacts: str) -> str:
    kind = "sdf" if contacts == "SDF" else "mesh"
    meshes: dict[int, str] = {}
    assets, bodies = "", '<geom name="floor" type="plane" size="1 1 .1"/>' if world.has_floor else ""
    for body in world.bodies:
        if id(body.mesh) not in meshes:
            meshes[id(body.mesh)] = f"m{len(meshes)}"
            v, f = (" ".join(map(repr, part.ravel().tolist())) for part in body.mesh)
            assets += f'<mesh name="{meshes[id(body.mesh)]}" vertex="{v}" face="{f}" inertia="exact"/>'
        at = " ".join(map(repr, body.at))
        joint, mass = ("<freejoint/>", f'density="{body.density}"') if body.density else ("", "")
        bodies += (f'<body name="{body.name}" pos="{at}">{joint}<geom name="{body.name}" type="{kind}" mesh="{meshes[id(body.mesh)]}" '
                   f'{mass}/></body>')
    solref, solimp = (" ".join(map(str, STIFF[key])) for key in ("solref", "solimp"))
    return (f'<mujoco><option timestep="{DT}" integrator="implicitfast" cone="elliptic" sdf_initpoints="40" sdf_iterations="10"/>'
            f'<default><geom friction="{world.friction}" solref="{solref}" solimp="{solimp}"/></default><asset>{assets}</asset><worldbody>{bodies}</worldbody></mujoco>')


def prepare(world: World, contacts: str) -> tuple[float, Callable[[], None], Callable[[], np.ndarray]]:
    """A time step, what makes it, and where the bodies are: (b, 7)."""
    model = mujoco.MjModel.from_xml_string(mjcf(world, contacts))
    data = mujoco.MjData(model)
    if contacts.startswith("contactd"):
        import contactd.mujoco

        contactd.mujoco.attach(model, data, **POINTS if contacts.endswith("points") else {})
    ids = [model.body(body.name).id for body in world.bodies]
    mujoco.mj_forward(model, data)

    def poses() -> np.ndarray:
        return np.concatenate([data.xpos[ids], data.xquat[ids][:, [1, 2, 3, 0]]], axis=1)

    return DT, lambda: mujoco.mj_step(model, data), poses


