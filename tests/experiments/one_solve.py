"""Allard 2010, Fig. 6: the volume that is left after one solve of the position problem, against cells.

The paper shows two convex bodies and no numbers. With one volume a contact some of it is left, since the area shrinks as
the bodies part, so that the volume changes by less than its gradient predicts; several solves are needed. With cells less
is left: those outside are given up by the solver, which parts the bodies by the depth of the deepest.

Ours: with one volume, two balls, for which both the prediction and what is left have closed forms, two bumpy bodies, and a
cube in a slab, whose area does not shrink, so that one solve is enough; then the balls again, by rays, with ever smaller
cells."""

from __future__ import annotations

import contactd
import numpy as np
from motion import at, rotation
from shapes import blob, box, icosphere

from sim import Options, RigidBody, World
from sim.constraints import correct_positions

OVERLAP = 0.3  # m, of bodies of 2 m across
OPTIONS = Options(target_depth=0.0)
CELLS = (0.8, 0.4, 0.2, 0.1)  # m


def pairs() -> dict[str, tuple[RigidBody, RigidBody]]:
    ball, bumpy = icosphere(1.0, 5), blob(1.0, 5, 0.1)
    cube, slab = box((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0)), box((-3.0, -3.0, -1.0), (3.0, 3.0, 1.0))
    return {"balls": (RigidBody(ball, 1.0), RigidBody(ball, 1.0, at(2 - OVERLAP))),
            "bumpy bodies": (RigidBody(bumpy, 1.0), RigidBody(bumpy, 1.0, at(2 - OVERLAP, 0.1, 0, rotation(np.ones(3))))),
            "cube in a slab": (RigidBody(slab, 1.0), RigidBody(cube, 1.0, at(z=2 - OVERLAP)))}


def lens(distance: float) -> tuple[float, float]:
    """m^3 and m^2: what two balls of radius 1 share, and its section."""
    return np.pi * (4 + distance) * (2 - distance) ** 2 / 12, np.pi * (1 - distance**2 / 4)


def balls_in_closed_form(solves: int) -> np.ndarray:
    """(solves + 1,): the volume left, of the first."""
    distance, left = 2 - OVERLAP, []
    for _ in range(solves + 1):
        volume, area = lens(distance)
        left.append(volume)
        distance += volume / area
    return np.array(left) / left[0]


def solve(client: contactd.Client, bodies: tuple[RigidBody, RigidBody], solves: int, settings: dict) -> tuple[np.ndarray, int]:
    """(solves + 1,): the volume left after each solve, of the first; and how many contacts or cells there are at first."""
    left, first = np.zeros(solves + 1), 0
    with World(client, bodies, gravity=(0, 0, 0), **settings) as world:
        for body in bodies:
            body.begin_step(0.01)
        for i in range(solves + 1):
            contacts = world.collide()
            left[i] = sum(c.volume for c in contacts)
            first = first or len(contacts)
            if i < solves:
                correct_positions(world, contacts, OPTIONS)
    return left / left[0], first


def measure(client: contactd.Client, solves: int = 8, cells: tuple[float, ...] = CELLS, **settings) -> dict:
    """settings: of the scenes with one volume a contact."""
    out = {name: solve(client, bodies, solves, settings)[0] for name, bodies in pairs().items()}
    out["balls, closed form"] = balls_in_closed_form(solves)
    for size in cells:
        left, n = solve(client, pairs()["balls"], solves, {"method": "ldi", "resolution": 128, "cell_size": size})
        out[f"balls, {n} cells"] = left
    return out


def plot(axes, data: dict) -> None:
    for name, left in data.items():
        axes.semilogy(np.maximum(left, 1e-9), "--" if name.endswith("form") else "-o", label=name)
    axes.set(title="Volume left after solves of the position problem", xlabel="solves", ylabel="of the first")
    axes.legend()


def numbers(data: dict) -> dict[str, float]:
    return {f"left after {n} solve{'s' * (n > 1)}, {name}": float(left[n]) for name, left in data.items() for n in (1, 4)}


PAPER = {"left after 1 solve, balls": "less with cells", "left after 4 solves": "\"several iterations to converge\""}
