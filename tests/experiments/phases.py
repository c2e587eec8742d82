"""Faure 2008, Table 1: the time of each phase of a step, for a rigid body of 21,553 or 69,674 triangles and a cube, at 16²
and 128² (and by the method exact, which has no resolution).

The paper's bunny lies on a cube; ours is a torus with about as many triangles, since no mesh that we may pass on has them.
The paper's times are of a GeForce 8600 GTS and one core of a Core 2 Duo of 2008. Ours are of the CPU, the engine's summed
over its threads: "raster" is the paper's LDI, "span" and "contact" its volume. Meshes stay on the server, so an upload is
a pose. "Simulation" is the reference simulator's, in Python, and moves all vertices for each product of its solver. The
paper's rendering is left out of its totals here."""

from __future__ import annotations

import time

import contactd
import numpy as np
from motion import at, rotation
from shapes import box, torus

from sim import RigidBody, World, step_by_penalty

MESHES = {"coarse": (125, 86), "fine": (225, 155)}  # 21,500 and 69,750 triangles
METHODS = {"16²": {"resolution": 16}, "128²": {"resolution": 128}, "exact": {"method": "exact"}}
PHASES = {"broad phase": ("broadphase",), "upload": ("upload",), "LDI": ("raster",), "volume": ("span", "contact")}
STIFFNESS = 1e6  # N/m^5

PAPER = {f"{mesh}, {size}: {phase}, ms": f"{ms:g}" for mesh, size, row in (
    ("coarse", "16²", (0.077, 0.478, 2.101, 0.039, 0.315, 3.18)),
    ("coarse", "128²", (0.074, 0.492, 7.874, 1.905, 0.4, 11.18)),
    ("fine", "16²", (0.508, 2.964, 15.2, 0.046, 0.23, 19.62)),
    ("fine", "128²", (0.494, 2.842, 36.97, 1.949, 0.258, 43.23)))
    for phase, ms in zip(("broad phase", "upload", "LDI", "volume", "simulation", "total"), row)}


def time_steps(client: contactd.Client, around: int, across: int, settings: dict, steps: int) -> dict[str, float]:
    """ms of each phase, medians over the steps in which the bodies touch."""
    rows = []
    cube = RigidBody(box((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0)), 1000.0, driven=True)
    ring = RigidBody(torus(0.65, 0.35, around, across), 100.0, at(0.1, 0.2, 1.3, rotation(np.array([0.2, 0.1, 0.0]))))
    with World(client, [cube, ring], stiffness=STIFFNESS, **settings) as world:
        for _ in range(steps):
            begin = time.perf_counter()
            step_by_penalty(world, 0.01, 1e4)
            took = time.perf_counter() - begin
            result = world.result
            if not result.contacts:
                continue
            row = {phase: sum(result.timings[t] for t in parts) for phase, parts in PHASES.items()}
            row["simulation"] = took - result.latency
            rows.append(row | {"total": took})
    return {phase: 1e3 * float(np.median([row[phase] for row in rows])) for phase in rows[0]}


def measure(client: contactd.Client, steps: int = 60) -> dict:
    return {f"{mesh}, {name}": time_steps(client, *size, settings, steps)
            for mesh, size in MESHES.items() for name, settings in METHODS.items()}


def plot(axes, data: dict) -> None:
    bottom = np.zeros(len(data))
    for phase in (*PHASES, "simulation"):
        heights = np.array([of[phase] for of in data.values()])
        axes.bar(range(len(data)), heights, bottom=bottom, label=phase)
        bottom += heights
    paper = [sum(float(PAPER.get(f"{case}: {phase}, ms", "nan")) for phase in (*PHASES, "simulation")) for case in data]
    axes.plot(range(len(data)), paper, "k_", markersize=30, label="the paper's total")
    axes.set_xticks(range(len(data)), list(data), rotation=30)
    axes.set(title="Phases of a step", ylabel="ms", yscale="log")
    axes.legend()


def numbers(data: dict) -> dict[str, float]:
    return {f"{case}: {phase}, ms": ms for case, of in data.items() for phase, ms in of.items()}
