"""Allard 2010, Fig. 7: a snake that is pulled sideways at its head, by one contact and by many, beside vertices.

With one volume a contact either sticks or slides as a whole, so that the snake spins about its middle; with cells its head
slides while its tail sticks, and it comes to rest bent. The paper's table has the difference from a penetration-based
approach, of the mean and of the farthest place, as a share of the snake's length.

Ours: a bar of rubber with a square section on a floor. The reference has a contact of its own for each of its lowest
vertices, with their depth and friction, by the same solver. Cells are cubes of length / n; where the snake lies across a wall
between rows of cells it has more contacts than n: those at the end are given. The paper does not give the snake's shape,
stiffness, weight and pull, nor when it measured; here the mean and the largest difference are over all steps and vertices.

One volume differs by 3 % on average and by 19 % at most after 0.6 s, and ever more as it goes on spinning, 4 cells by 0.2 %
and 0.9 %, 40 cells by 0.03 % and 0.09 %. How much cells gain depends on the scene: this bar is soft enough to bend by a
quarter of its length. One 14 times stiffer, over 100 steps, differed by 6.9 % and 24 % with one volume and by 0.06 % with 4
cells, so it hardly tells cells apart. From 7 to 20 cells the mean stays at 0.1 %, and with 20 one place is off by 2.6 %."""

from __future__ import annotations

from typing import Any

import contactd
import numpy as np
from motion import at
from shapes import box, bricks

from sim import DeformableBody, Options, RigidBody, World, step
from sim.world import ContactRows

LENGTH, DEPTH, H = 1.0, 1e-4, 0.01  # m, m, s
PULL = 0.3  # of the friction that the whole snake has
OPTIONS = Options(friction=0.5, target_depth=DEPTH, tolerance=1e-8)
DENSITY, YOUNG = 1000.0, 5e5  # kg/m^3, Pa
COUNTS = (1, 4, 7, 12, 20, 40)


class Snake(DeformableBody):
    """Pulled along y by a force on the lowest nodes of its head, where x is largest."""

    def __init__(self, elements: int, y: float) -> None:
        side = LENGTH / elements
        vertices, triangles = bricks(np.ones((elements, 1, 1)), (side,) * 3)
        place = np.array([LENGTH / 2, y, side / 2 - DEPTH])
        super().__init__((vertices + place, triangles), DENSITY, cell=1.001 * side, young=YOUNG, damping=0.02)
        self.lowest = np.flatnonzero(vertices[:, 2] < 0)
        rest = self.soft.rest
        head = (rest[:, 0] > rest[:, 0].max() - side / 2) & (rest[:, 2] < rest[:, 2].min() + side / 2)
        self.pull = np.zeros((len(rest), 3))
        self.pull[head, 1] = PULL * OPTIONS.friction * 9.81 * self.mass / head.sum()

    def free_velocity(self, h: float, gravity: np.ndarray) -> np.ndarray:
        return super().free_velocity(h, gravity) + h * self.apply_inverse(self.pull.ravel())


class WorldOfVertices(World):
    """Its contacts are the snake's lowest vertices, where they are below the floor's top, z = 0."""

    def collide(self, divided: bool = True, viscosity: float = 0.0) -> list[ContactRows]:
        super().collide(divided, viscosity)
        snake = self.bodies[1]
        z, area = snake.soft.surface()[snake.lowest, 2], LENGTH * LENGTH / len(snake.lowest)
        contacts = []
        for k in np.flatnonzero(z < 0):
            nodal = snake.soft.to_nodes(snake.lowest[k : k + 1], np.full((1, 1), area))
            rows = np.array([np.outer(nodal, axis).ravel() for axis in np.eye(3)[[2, 0, 1]]])
            contacts.append(ContactRows(None, -z[k] * area, area, {1: rows}))  # type: ignore[arg-type]
        return contacts


def pull(client: contactd.Client, n: int | None, steps: int, elements: int) -> tuple[np.ndarray, int]:
    """(steps, lowest vertices, 3) m, the snake's places from where it was; and the contacts at the end. n: cells along it;
    1: none. None: the reference."""
    settings: dict[str, Any] = {"method": "ldi", "pixel_size": LENGTH / elements / 4}
    if n and n > 1:
        settings["cell_size"] = LENGTH / n
    snake = Snake(elements, LENGTH / (2 * n) if n else 0.0)  # in the middle of a row of cells
    floor = RigidBody(box((-2.0, -2.0, -0.25), (3.0, 2.0, 0.0)), 1.0, at(), driven=True)
    start, places, contacts = snake.soft.surface()[snake.lowest], [], None
    with (World if n else WorldOfVertices)(client, [floor, snake], **settings) as world:
        for _ in range(steps):
            contacts = step(world, H, OPTIONS, contacts).contacts
            places.append(snake.soft.surface()[snake.lowest] - start)
    return np.array(places), len(contacts or ())


def measure(client: contactd.Client, steps: int = 60, elements: int = 25, counts: tuple[int, ...] = COUNTS) -> dict:
    reference, n_vertices = pull(client, None, steps, elements)
    out: dict = {"reference": {"places": reference[-1], "contacts": n_vertices}}
    for n in counts:
        places, contacts = pull(client, n, steps, elements)
        off = np.linalg.norm(places - reference, axis=-1) / LENGTH
        out[f"{n} cells"] = {"places": places[-1], "contacts": contacts, "average": float(off.mean()),
                             "largest": float(off.max())}
    return out


def plot(axes, data: dict) -> None:
    for name, of in data.items():
        places = np.asarray(of["places"])
        axes.plot(np.linspace(0, 1, len(places) // 2), sorted_along(places), "--" if name == "reference" else "-", label=name)
    axes.set(title="The snake at the end", xlabel="along it at rest, of its length", ylabel="moved sideways, m")
    axes.legend()


def sorted_along(places: np.ndarray) -> np.ndarray:
    """(half,) m: of each pair of lowest vertices across the snake, which bricks() lists one after the other, the mean."""
    return places[:, 1].reshape(-1, 2).mean(1)


def numbers(data: dict) -> dict[str, float]:
    out = {}
    for name, of in data.items():
        if name != "reference":
            for what in ("average", "largest"):
                out[f"{what} difference, {name}"] = of[what]
            out[f"contacts at the end, {name}"] = of["contacts"]
    return out


PAPER = {f"{what} difference, {n} cells": f"{100 * of:.3g} % of the length".replace("e+01", "")
         for n, *both in ((1, 0.2621, 0.6130), (4, 0.0347, 0.0994), (7, 0.0385, 0.0658), (12, 0.0040, 0.0083),
                          (20, 0.0025, 0.0046), (40, 0.0018, 0.0035))
         for what, of in zip(("average", "largest"), both)}
