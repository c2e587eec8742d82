"""by_pybullet.py - the scenes in PyBullet: contacts of convex hulls, of convex parts (V-HACD), and contactd's forces."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import pathlib
import sys
import tempfile
from typing import Callable, Iterator

import numpy as np
import pybullet
from worlds import Body, World, mass_properties

NAME, CONTACTS = "PyBullet", ("hull", "convex parts", "contactd")
DT = {"hull": 2e-3, "convex parts": 2e-3, "contactd": 5e-4}  # s; contactd's forces are explicit here
PRESSURE = 2e7  # N/m^3


def version() -> str:
    return f"PyBullet {importlib.metadata.version('pybullet')}"


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """V-HACD writes to the standard output, past Python."""
    sys.stdout.flush()
    kept, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(null)


def _shape(mesh: tuple[np.ndarray, np.ndarray], contacts: str, is_fixed: bool, folder: pathlib.Path) -> int:
    """What is fixed is taken as it is, by either."""
    path = folder / f"{id(mesh)}.obj"
    path.write_text("".join(f"v {x!r} {y!r} {z!r}\n" for x, y, z in mesh[0].tolist())
                    + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in mesh[1].tolist()))
    if contacts == "convex parts" and not is_fixed:
        parts = folder / f"{id(mesh)}-parts.obj"
        if not parts.exists():
            with silent():
                pybullet.vhacd(str(path), str(parts), str(folder / "log.txt"), resolution=1_000_000, maxNumVerticesPerCH=64)
        path = parts
    flags = pybullet.GEOM_FORCE_CONCAVE_TRIMESH if is_fixed else 0
    return int(pybullet.createCollisionShape(pybullet.GEOM_MESH, fileName=str(path), flags=flags))


def _principal(inertia: np.ndarray) -> tuple[list[float], list[float]]:
    """Moments, and the quaternion of their axes."""
    moments, axes = np.linalg.eigh(inertia)
    if np.linalg.det(axes) < 0:
        axes[:, 2] *= -1
    w = np.sqrt(max(0.0, 1 + np.trace(axes))) / 2
    if w > 1e-6:
        x, y, z = np.array([axes[2, 1] - axes[1, 2], axes[0, 2] - axes[2, 0], axes[1, 0] - axes[0, 1]]) / (4 * w)
    else:  # half a turn
        x, y, z = np.sqrt(np.maximum(0, (np.diag(axes) + 1) / 2)) * np.sign(axes[np.argmax(np.diag(axes))] + 1e-300)
    return moments.tolist(), [float(x), float(y), float(z), float(w)]


def _add(body: Body, world: World, contacts: str, folder: pathlib.Path) -> tuple[int, list[float], list[float]]:
    """The body's number; where its frame is in that of its centre of mass."""
    shape = -1 if contacts == "contactd" else _shape(body.mesh, contacts, not body.density, folder)
    if not body.density:
        return pybullet.createMultiBody(0, shape, basePosition=body.at), [0.0] * 3, [0.0, 0, 0, 1]
    mass, center, inertia = mass_properties(body)
    moments, turn = _principal(inertia)
    number = pybullet.createMultiBody(mass, shape, basePosition=(np.array(body.at) + center).tolist(), baseOrientation=turn,
                                      baseInertialFramePosition=center.tolist(), baseInertialFrameOrientation=turn)
    pybullet.resetBasePositionAndOrientation(number, (np.array(body.at) + center).tolist(), turn)
    pybullet.changeDynamics(number, -1, localInertiaDiagonal=moments, linearDamping=0, angularDamping=0, lateralFriction=world.friction,
                            collisionMargin=1e-4)
    return number, *map(list, pybullet.invertTransform(center.tolist(), turn))


def prepare(world: World, contacts: str) -> tuple[float, Callable[[], None], Callable[[], np.ndarray]]:
    """A time step, what makes it, and where the bodies are: (b, 7)."""
    pybullet.connect(pybullet.DIRECT)
    pybullet.setGravity(0, 0, -9.81)
    pybullet.setTimeStep(DT[contacts])
    if world.has_floor and contacts != "contactd":
        floor = pybullet.createMultiBody(0, pybullet.createCollisionShape(pybullet.GEOM_PLANE))
        pybullet.changeDynamics(floor, -1, lateralFriction=1.0)  # Bullet multiplies both
    with tempfile.TemporaryDirectory() as folder:
        added = [_add(body, world, contacts, pathlib.Path(folder)) for body in world.bodies]
    if contacts == "contactd":
        import contactd.pybullet

        forces = contactd.pybullet.Contacts({number: body.mesh for (number, _, _), body in zip(added, world.bodies)}, modulus=PRESSURE,
                                            ground=0.0 if world.has_floor else None, friction=world.friction, dissipation=20.0)

    def step() -> None:
        if contacts == "contactd":
            forces.apply()
        pybullet.stepSimulation()

    def poses() -> np.ndarray:
        rows = []
        for number, offset, turn in added:
            at, q = pybullet.multiplyTransforms(*pybullet.getBasePositionAndOrientation(number), offset, turn)
            rows.append([*at, *q])
        return np.array(rows)

    return DT[contacts], step, poses
