"""Faure 2008, Fig. 8 (left): a cube stands on an edge, crosswise on the edge of a fixed one; they touch in a point.

Unit masses and sides, earth gravity, 256², implicit Euler with steps of 1 ms, k = 10^10 N/m^5. The paper keeps this
unstable equilibrium "with no visible intersection during a few seconds". In closed form the depth is (3 m g / 4 k)^(1/5),
1.5 cm; a tilt grows by e in 0.31 s, so what a method adds to the torque decides how long the cube stands.

By LDI the cube stands for about as long as in the paper. By the method exact it stands for longer: its torque is off by
no more than the rounding of coordinates to a lattice, about 10^-10 of the contact."""

from __future__ import annotations

import contactd
import numpy as np
from motion import at, rotation
from shapes import box

from sim import RigidBody, World, step_by_penalty

METHODS = {"exact": {"method": "exact"}, "LDI 256²": {"resolution": 256}}
STIFFNESS, MASS, H = 1e10, 1.0, 1e-3
DEPTH = (3 * MASS * 9.81 / (4 * STIFFNESS)) ** 0.2  # m: V = 2/3 d^3 of two crossed wedges, and k V dV/dd = m g
FALLEN = 0.1  # rad


def balance(client: contactd.Client, settings: dict, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(n,) rad of tilt, and (n,) m of depth, after each step until it has fallen."""
    cube = box((-0.5, -0.5, -0.5), (0.5, 0.5, 0.5))
    turns = [rotation(np.pi / 4 * axis) for axis in np.eye(3)[:2]]
    fixed = RigidBody(cube, MASS, at(turn=turns[0]), driven=True)
    upper = RigidBody(cube, MASS, at(z=2**0.5 - DEPTH, turn=turns[1]))
    tilt, depth = [], []
    with World(client, [fixed, upper], stiffness=STIFFNESS, **settings) as world:
        for _ in range(steps):
            step_by_penalty(world, H)
            turned = upper.update()[:3, :3] @ turns[1].T
            tilt.append(float(np.arccos(np.clip(turned[2, 2], -1, 1)) if turned[2, 2] < 0.999 else
                              np.linalg.norm(turned[:2, 2])))
            depth.append(2**0.5 - upper.position[2])
            if tilt[-1] > FALLEN:
                break
    return np.array(tilt), np.array(depth)


def measure(client: contactd.Client, steps: int = 12000) -> dict:
    out = {}
    for name, settings in METHODS.items():
        tilt, depth = balance(client, settings, steps)
        upright = depth[tilt < 0.01]
        out[name] = {"tilt": tilt, "stands": H * len(tilt), "depth": float(upright.mean() / DEPTH - 1)}
    return out


def plot(axes, data: dict) -> None:
    for name, of in data.items():
        axes.semilogy(H * np.arange(len(of["tilt"])), np.maximum(of["tilt"], 1e-18), label=name)
    axes.set(title="A cube balances on an edge", xlabel="s", ylabel="tilt, rad")
    axes.legend()


def numbers(data: dict) -> dict[str, float]:
    out = {}
    for name, of in data.items():
        out[f"stands for, s, {name}"] = of["stands"]
        out[f"depth beside its closed form, relative, {name}"] = of["depth"]
    return out


PAPER = {"stands for, s": "a few", "depth beside its closed form, relative": "not visible"}
