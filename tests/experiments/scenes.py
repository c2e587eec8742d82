"""Allard 2010, Table 1: a rigid pair of 692k triangles, a grasp, and stacks of 10, 20 and 40 soft bodies of 18k triangles:
contacts, steps a second, and ms by phase.

The paper's armadillos and toys are scans; ours are tori with as many triangles: a pair of which one rolls on the other, and
soft ones in a box. The grasp is a soft ball between two fingers that close, and lift it by friction alone. The paper's
contacts are cells of several volumes a pair; ours is one a pair, so there are fewer.

Its times are of a GeForce GTX 285 and a Core i7 975. Ours are of the CPU for "collision" (whole round trips to the server,
one a step and one more for each correction of positions), and of Python for the rest: dense matrices, and solvers that
visit one contact at a time. The figure to compare is the collision's."""

from __future__ import annotations

import contactd
import numpy as np
from motion import at, rotation
from shapes import box, icosphere, torus

from sim import DeformableBody, HalfSpace, Options, RigidBody, World, step

H = 0.01
OPTIONS = Options(friction=0.5, sweeps=50, tolerance=1e-6, most_corrections=2)


def rigid_pair(triangles: int) -> list:
    n = round((triangles / 2) ** 0.5)
    ring = torus(0.6, 0.35, n, n)
    return [RigidBody(ring, 500.0, driven=True), RigidBody(ring, 500.0, at(0.5, 0.0, 0.72, rotation(np.array([0.1, 0.5, 0]))))]


def grasp(level: int = 4) -> list:
    """A soft ball on a floor, and two fingers."""
    vertices, triangles = icosphere(0.05, level)
    ball = DeformableBody((vertices + [0, 0, 0.0499], triangles), 500.0, cell=0.034, young=3e4, damping=0.01)
    finger = box((-0.01, -0.02, -0.02), (0.01, 0.02, 0.02))
    return [HalfSpace((0, 0, 1)), ball, *(RigidBody(finger, 1000.0, at(s * 0.062, 0, 0.05), driven=True) for s in (-1, 1))]


def move_fingers(bodies: list, i: int) -> None:
    """Half of a centimetre in, in 0.25 s, then up at 0.1 m/s."""
    for finger, sign in zip(bodies[2:], (1, -1)):
        finger.velocity = np.array([sign * 0.03 if i < 25 else 0, 0, 0 if i < 25 else 0.1, 0, 0, 0], float)


def stack(n: int, triangles: int) -> list:
    """n soft tori in layers of four, in a box of half-spaces."""
    across = round((triangles / 5) ** 0.5)
    vertices, faces = torus(0.35, 0.14, triangles // (2 * across), across)
    wall = 1.02
    bodies: list = [HalfSpace((0, 0, 1)), HalfSpace((1, 0, 0), -wall), HalfSpace((-1, 0, 0), -wall),
                    HalfSpace((0, 1, 0), -wall), HalfSpace((0, -1, 0), -wall)]
    for i in range(n):
        layer, place = divmod(i, 4)
        centre = np.array([(place % 2 - 0.5) * 1.0, (place // 2 - 0.5) * 1.0, 0.139 + 0.278 * layer])
        turned = vertices @ rotation(np.array([0, 0, 0.3 * i])).T
        bodies.append(DeformableBody((turned + centre, faces), 300.0, cell=0.247, young=2e5, damping=0.01))
    return bodies


def run(client: contactd.Client, bodies: list, steps: int, settings: dict, drive=None) -> dict:
    """Means over the second half of the steps."""
    seconds, counts, trips, contacts = [], [], [], None
    with World(client, bodies, **settings) as world:
        for i in range(steps):
            if drive:
                drive(bodies, i)
            report = step(world, H, OPTIONS, contacts)
            contacts = report.contacts
            if i >= steps // 2:
                seconds.append(report.seconds)
                counts.append(len(contacts))
                trips.append(1 + report.corrections)
    out = {phase: 1e3 * float(np.mean([s[phase] for s in seconds])) for phase in seconds[0]}
    return out | {"contacts": max(counts), "steps a second": 1e3 / sum(out.values()), "round trips a step": float(np.mean(trips))}


def measure(client: contactd.Client, stacks: tuple[int, ...] = (10, 20, 40), steps: int = 40, triangles: int = 18_120,
            **settings) -> dict:
    """triangles: of a body in a stack; those of the pair have 19 times as many."""
    out = {"rigid pair": run(client, rigid_pair(19 * triangles), steps, settings)}
    held = grasp()
    out["grasp"] = run(client, held, 2 * steps + 20, settings, move_fingers)
    out["grasp"]["lifted"] = float(held[1].soft.nodes[:, 2].mean())
    return out | {f"stack of {n}": run(client, stack(n, triangles), steps, settings) for n in stacks}


PHASES = ("collision", "modelling", "motion", "solver")


def plot(axes, data: dict) -> None:
    bottom = np.zeros(len(data))
    for phase in PHASES:
        heights = np.array([of[phase] for of in data.values()])
        axes.bar(range(len(data)), heights, bottom=bottom, label=phase)
        bottom += heights
    axes.plot(range(len(data)), [float(PAPER[f"{name}: collision, ms"]) for name in data], "k_", markersize=30,
              label="the paper's collision")
    axes.set_xticks(range(len(data)), list(data), rotation=30)
    axes.set(title="A step by constraints", ylabel="ms", yscale="log")
    axes.legend()


def numbers(data: dict) -> dict[str, float]:
    out = {}
    for name, of in data.items():
        out[f"{name}: contacts"] = of["contacts"]
        out[f"{name}: steps a second"] = of["steps a second"]
        out[f"{name}: round trips a step"] = of["round trips a step"]
        out |= {f"{name}: {phase}, ms": of[phase] for phase in PHASES}
    return out | {"grasp: the ball's centre at last, m": data["grasp"]["lifted"]}


PAPER = {f"{name}: {what}": f"{value:g}" for name, row in {
    "rigid pair": (16, 41.1, 18.48, 1.15, 0.48, 4.08), "grasp": (10, 54.0, 2.73, 0.97, 7.36, 6.18),
    "stack of 10": (99, 7.29, 16.61, 1.64, 71.24, 34.82), "stack of 20": (242, 2.44, 28.79, 2.37, 146.94, 207.02),
    "stack of 40": (544, 0.88, 44.45, 3.43, 309.48, 723.83)}.items()
    for what, value in zip(("contacts", "steps a second", *(f"{phase}, ms" for phase in PHASES)), row)}
