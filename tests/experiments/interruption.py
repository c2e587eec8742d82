"""Interruption: the error of an answer by voxel trees against the budget it had, 20 us to 5 ms, beside exact; one curve a scene.

The scenes: two tori of 70,000 triangles that are linked and overlap, and a heap of 64 bumpy balls of 5,120 triangles, of which
each overlaps its neighbours. The error of the volume is the sum of the contacts' differences over the sum of their
volumes, the error of the force the like of their forces' vectors. A pair that was not examined in time has no volume and no force,
and counts with both; so does one that is not in contact, but said to be.

Budgets are those of the server's computation; what it takes to answer over the socket comes on top. The errors depend on the
machine and on what else it does. By pairs of cubes instead of time (by="pairs") they are the same everywhere."""

from __future__ import annotations

from typing import Iterator

import contactd
import numpy as np
from motion import at, rotation
from random_contacts import random_turn
from shapes import blob, torus

PANELS = 2
TIMES = (20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3)  # s
LEVEL = 6


def linked_tori(client: contactd.Client, around: int, scene: contactd.Scene) -> list:
    ring = client.register_mesh(*torus(0.6, 0.3, around, around))
    poses = [np.eye(4), at(0.55, 0.1, 0.05, rotation(np.array([1.3, 0.2, 0.1])))]
    return [(scene.add_body(ring, pose=pose), pose) for pose in poses]


def heap(client: contactd.Client, level: int, scene: contactd.Scene) -> list:
    rng = np.random.default_rng(1)
    ball = client.register_mesh(*blob(0.5, level))
    places = np.stack(np.unravel_index(np.arange(64), (4, 4, 4)), 1)
    poses = [at(*(0.9 * place), random_turn(rng)) for place in places]
    return [(scene.add_body(ball, pose=pose), pose) for pose in poses]


def paths(bodies: list, steps: int) -> Iterator[dict]:
    """Poses at each step: all bodies stray from where they started by up to 2 cm along each axis."""
    rng = np.random.default_rng(2)
    for _ in range(steps):
        yield {body: at(*(pose[:3, 3] + rng.uniform(-0.02, 0.02, 3)), pose[:3, :3]) for body, pose in bodies}


def sums_of(result: contactd.StepResult) -> dict[tuple[int, int], np.ndarray]:
    """(4,) volume and force on the first body, by pair of bodies."""
    return {(contact.bodies[0].id, contact.bodies[1].id):
            np.append(contact.volume, contact.generalized_gradient(contact.bodies[0])[:3]) for contact in result.contacts}


def follow(scene: contactd.Scene, bodies: list, steps: int, by: str, budgets: tuple) -> dict:
    """Means over the steps, by budget."""
    scene.configure(method="exact")
    truth = [sums_of(scene.step(poses=poses, want="frame")) for poses in paths(bodies, steps)]
    scene.configure(method="voxtree", voxel_level=LEVEL)
    scene.step(want="frame")  # makes the trees
    out: dict = {"volume": [], "force": [], "examined": [], "quality": []}
    for budget in budgets:
        rows = []
        if by == "pairs":
            scene.configure(pair_budget=budget)
        for poses, exact in zip(paths(bodies, steps), truth):
            result = scene.step(poses=poses, want="frame", **({"time_budget": budget} if by == "time" else {}))
            found, none = sums_of(result), np.zeros(4)
            off = [found.get(pair, none) - exact.get(pair, none) for pair in found.keys() | exact.keys()]
            rows.append((sum(abs(of[0]) for of in off) / sum(of[0] for of in exact.values()),
                         sum(np.linalg.norm(of[1:]) for of in off) / sum(np.linalg.norm(of[1:]) for of in exact.values()),
                         np.mean([pair.examined for pair in result.progress]), result.quality))
        for name, value in zip(out, np.mean(rows, axis=0)):
            out[name].append(float(value))
    return {name: np.array(values) for name, values in out.items()} | {"budgets": list(budgets), "by": by}


def measure(client: contactd.Client, steps: int = 20, by: str = "time", budgets: tuple = TIMES, around: int = 187,
            level: int = 4) -> dict:
    """budgets: s, or pairs of cubes where by is "pairs". around, level: of the tori and the balls."""
    out = {}
    for name, make, detail in (("two tori", linked_tori, around), ("heap of 64", heap, level)):
        scene = client.open_scene(method="exact")
        out[name] = follow(scene, make(client, detail, scene), steps, by, budgets)
        scene.close()
    return out


def plot(axes, data: dict) -> None:
    for name, of in data.items():
        axes[0].loglog(of["budgets"], of["volume"], "o-", label=f"volume, {name}")
        axes[0].loglog(of["budgets"], of["force"], "s--", label=f"force, {name}")
        axes[1].semilogx(of["budgets"], of["examined"], "o-", label=f"pairs examined, {name}")
        axes[1].semilogx(of["budgets"], of["quality"], "s--", label=f"quality, {name}")
    axes[0].set(title="Error of an interrupted answer", ylabel="relative")
    axes[1].set(title="How far it came", ylim=(0, None))
    for axis in axes:
        axis.set_xlabel("budget, s" if of["by"] == "time" else "budget, pairs of cubes")
        axis.legend()


def numbers(data: dict) -> dict[str, float]:
    out = {}
    for name, of in data.items():
        for i, budget in enumerate(of["budgets"]):
            label = f"{1e6 * budget:g} us" if of["by"] == "time" else f"{budget} pairs"
            out[f"error of the volume, {label}, {name}"] = float(of["volume"][i])
            out[f"error of the force, {label}, {name}"] = float(of["force"][i])
            out[f"pairs examined, {label}, {name}"] = float(of["examined"][i])
    return out
