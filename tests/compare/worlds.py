"""worlds.py - the scenes of the comparison, for any simulator: which bodies, where they begin, how long it takes, and what is right.

Meshes are those of the examples. Lengths are in m; poses are 7 numbers, a translation and a quaternion x y z w.
"""

from __future__ import annotations

import pathlib
import sys
from dataclasses import dataclass, field
from typing import Callable

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "client_py"), str(ROOT / "client_py" / "examples")]

import contactd  # noqa: E402
import crates  # noqa: E402
import shapes  # noqa: E402

Mesh = tuple[np.ndarray, np.ndarray]
AT_REST = 0.01  # m/s
G = 9.81  # m/s^2
NUT_AROUND = 80  # edges of nut and bolt a turn
SCREW = 0.016  # m, of a metre of the example's nut and bolt: the thread's radius is 8 mm
FLOOR = (np.array([-0.8, -0.8, -0.2]), np.array([0.8, 0.8, 0.0]))  # a block whose top is the floor


@dataclass(frozen=True)
class Body:
    name: str
    mesh: Mesh
    density: float  # kg/m^3; 0: it is fixed
    at: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class World:
    """Attributes:
    has_floor: at z = 0.
    right: what is to come out, in words.
    rests: whether bodies are to come to rest.
    outcome: of the times (T,) and poses (T, b, 7): numbers by name, and whether it is right.
    """

    name: str
    title: str
    bodies: tuple[Body, ...]
    has_floor: bool
    friction: float
    seconds: float
    right: str
    rests: bool
    outcome: Callable[[np.ndarray, np.ndarray], tuple[dict[str, float], bool]] = field(repr=False)

    def free(self) -> list[int]:
        return [k for k, body in enumerate(self.bodies) if body.density > 0]


def mass_properties(body: Body) -> tuple[float, np.ndarray, np.ndarray]:
    """kg; (3,) m, the centre; (3, 3) kg m^2 about it."""
    mesh = ENGINE().register_mesh(*body.mesh)
    return body.density * mesh.volume, mesh.center_of_mass, body.density * mesh.inertia


_engine: list[contactd.Engine] = []


def ENGINE() -> contactd.Engine:
    if not _engine:
        _engine.append(contactd.Engine())
    return _engine[0]


# ---- the scenes ----

def _stacked(mesh: Mesh, density: float, first: float, gap: float, askew: float) -> tuple[Body, ...]:
    return tuple(Body(f"b{k}", mesh, density, (askew * k, -askew / 2 * k, first + gap * k)) for k in range(3))


def _heights(times: np.ndarray, poses: np.ndarray) -> tuple[dict[str, float], bool]:
    error = float(poses[-1, 2, 2] - 0.25)
    return {"height of the top crate, mm from 250": 1e3 * error}, abs(error) < 1e-3


def _gaps(times: np.ndarray, poses: np.ndarray) -> tuple[dict[str, float], bool]:
    gap = np.diff(poses[-1, :, 2])
    return {"from bowl to bowl, mm": 1e3 * float(gap.mean())}, bool((np.abs(gap - 0.0295) < 2e-3).all())


def _turned(poses: np.ndarray) -> np.ndarray:
    """(T,) rad about z, of the nut, continuous."""
    return np.unwrap(2 * np.arctan2(poses[:, 1, 5], poses[:, 1, 6]), period=2 * np.pi)


def _screw(times: np.ndarray, poses: np.ndarray) -> tuple[dict[str, float], bool]:
    """Without friction a body that has to turn to fall has the acceleration g / (1 + I / m (2 pi / pitch)^2)."""
    nut, pitch = _screw_bodies(NUT_AROUND)[1], shapes.PITCH * SCREW
    mass, _, inertia = mass_properties(nut)
    expected = -G / (1 + inertia[2, 2] / mass * (2 * np.pi / pitch) ** 2) * times[-1] ** 2 / 2
    fallen, turned = float(poses[-1, 1, 2]), float(_turned(poses)[-1] / (2 * np.pi) * pitch)
    aside = float(np.hypot(*poses[-1, 1, :2]))
    said = {"fallen, of the closed form without friction": fallen / expected, "fallen, mm": -1e3 * fallen,
            "as its turning says, mm": -1e3 * turned, "beside the axis, mm": 1e3 * aside}
    return said, bool(0.75 < fallen / expected < 1.25 and abs(fallen - turned) < 4e-4 and aside < 4e-4)


def _screw_bodies(around: int) -> tuple[Body, ...]:
    bolt, nut = shapes.bolt(around), shapes.nut(around)
    return Body("bolt", (SCREW * bolt[0], bolt[1]), 0.0), Body("nut", (SCREW * nut[0], nut[1]), 7800.0)


def worlds() -> dict[str, World]:
    crate, bowl = crates.crate(), crates.bowl()
    return {w.name: w for w in (
        World("crates", "Three open crates", _stacked(crate, 400.0, 0.0501, 0.1, 0.004), True, 0.6, 0.6,
              "the top one stands 250 mm high within 1 mm, at rest (below 10 mm/s)", True, _heights),
        World("bowls", "Three nested bowls", _stacked(bowl, 600.0, 0.002, 0.032, 0.0005), True, 0.6, 0.6,
              "27.5 to 31.5 mm from bowl to bowl, as they are made, at rest (below 10 mm/s)", True, _gaps),
        World("nut", "A nut on a bolt, nearly without friction", _screw_bodies(NUT_AROUND), False, 1e-3, 0.3,
              "it turns itself down the thread: it falls by its turns times the pitch, within 0.4 mm of play, and within a quarter as far as without friction", False, _screw))}
