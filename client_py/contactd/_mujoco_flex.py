"""Soft bodies of an MjModel, its flexes, as bodies of a scene: their surfaces, where these are, and forces on their vertices. For mujoco."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
from numpy.typing import NDArray

from ._as_found import Makings, register_as_found
from ._mujoco_model import Geoms, flexes_by_bits, mujoco
from ._stiffness import modulus_of
from .body import Body
from .client import Mesh
from .errors import ErrorCode, error_for
from .result import StepResult
from .scene import Scene


def name_of_flex(model: Any, flex: int) -> str:
    return mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_FLEX, flex) or ""


def choose_flexes(model: Any, flexes: str | Sequence[str | int]) -> list[int]:
    """Their numbers, in rising order. NOT_FOUND; INVALID_ARGUMENT: one has no vertices of its own."""
    known = {name_of_flex(model, k): k for k in range(model.nflex)}
    if isinstance(flexes, str):
        if flexes != "all":
            raise error_for(ErrorCode.INVALID_ARGUMENT, f'expected "all" or a list of flexes, got {flexes!r}', field="flexes")
        chosen = list(range(model.nflex))
    else:
        for flex in flexes:
            if isinstance(flex, str) and flex not in known or not isinstance(flex, str) and not 0 <= int(flex) < model.nflex:
                raise error_for(ErrorCode.NOT_FOUND, f"the model has no flex {flex!r}; its {model.nflex} flexes are "
                                f"{', '.join(sorted(filter(None, known))[:20])}", field="flexes")
        chosen = sorted({known[flex] if isinstance(flex, str) else int(flex) for flex in flexes})
    for flex in chosen:
        if model.flex_interp[flex]:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"flex {name_of_flex(model, flex)!r} is interpolated, and forces act on vertices here: give it "
                            'dof="full"', object="model", field="flexes")
    return chosen


def _surface(model: Any, flex: int) -> NDArray[np.int64]:
    """(m, 3) vertices of the flex: of a solid its shell, of a surface all."""
    dim = int(model.flex_dim[flex])
    if dim == 3:
        first, count, data = int(model.flex_shelldataadr[flex]), int(model.flex_shellnum[flex]), model.flex_shell
    elif dim == 2:
        first, count, data = int(model.flex_elemdataadr[flex]), int(model.flex_elemnum[flex]), model.flex_elem
    else:
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"flex {name_of_flex(model, flex)!r} is a line, which bounds no volume", object="model", field="flexes")
    return np.asarray(data[first:first + 3 * count], np.int64).reshape(-1, 3)


def _modulus(model: Any, mesh: Mesh, bodies: NDArray[np.int64]) -> float | None:
    """Of a flex with such bodies of vertices on its surface, of which pinned ones are not moved. None: rigid."""
    moved = np.unique(bodies[model.body_treeid[bodies] >= 0])
    return modulus_of(float(model.body_mass[moved].sum()), mesh.area, model.opt.timestep)


class Flexes:
    """Attributes: bodies: of the scene, in the order of ids. touch: (k, geoms) which geoms they may."""

    def __init__(self, model: Any, data: Any, scene: Scene, ids: Sequence[int], geoms: Geoms, making: Makings, *, modulus: float | None = None,
                 **material: Any) -> None:
        self.model = model
        self._rows = [slice(int(model.flex_vertadr[k]), int(model.flex_vertadr[k] + model.flex_vertnum[k])) for k in ids]
        self.ids, self.touch = list(ids), flexes_by_bits(model)[:, geoms.ids][list(ids)]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_flex(model, data)
        self.bodies: list[Body] = []
        for flex, rows, touch in zip(ids, self._rows, self.touch):
            mesh = register_as_found(scene.client, np.array(data.flexvert_xpos[rows]), _surface(model, flex), f"flex {name_of_flex(model, flex) or flex}",
                                     making, keeps_vertices=True)
            own = _modulus(model, mesh, model.flex_vertbodyid[rows][np.unique(_surface(model, flex))]) if modulus is None else modulus
            left_out = [*self.bodies, *(body for body, may in zip(geoms.bodies, touch) if not may)]  # other flexes stay MuJoCo's
            self.bodies.append(scene.add_body(mesh, ignore=left_out, friction=float(model.flex_friction[flex][0]),
                                              modulus=own, **material))

    def positions(self, data: Any) -> dict[Body, NDArray[np.float64]]:
        return {body: np.array(data.flexvert_xpos[rows]) for body, rows in zip(self.bodies, self._rows)}

    def velocities(self, data: Any) -> dict[Body, NDArray[np.float64]]:
        """m/s, of vertices: each is a point of a body of MuJoCo's."""
        out = {}
        for body, rows in zip(self.bodies, self._rows):
            of = self.model.flex_vertbodyid[rows]
            arms = data.flexvert_xpos[rows] - data.subtree_com[self.model.body_rootid[of]]
            out[body] = np.array(data.cvel[of, 3:] + np.cross(data.cvel[of, :3], arms))
        return out

    def apply(self, data: Any, result: StepResult) -> None:
        """Adds the forces on vertices to the passive ones."""
        places = {body: k for k, body in enumerate(self.bodies)}
        nothing = np.zeros(3)
        for contact in result.contacts:
            for body in set(contact.bodies) & places.keys():
                first = self._rows[places[body]].start
                forces = contact.forces(body) + contact.friction_forces(body)
                for vertex, force in zip((first + contact.vertices(body)).tolist(), forces):
                    mujoco.mj_applyFT(self.model, data, force, nothing, data.flexvert_xpos[vertex], int(self.model.flex_vertbodyid[vertex]),
                                      data.qfrc_passive)
