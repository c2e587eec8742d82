"""Faure 2008, Fig. 6: a sphere and a cube traverse fixed slabs, a thick and a thin one; the penalty force along the way.

The paper draws the curves without numbers: the force rises as the body enters the thick slab (O), is 0 while the body is
wholly inside (A to B), and pushes it out of the other side (B to C). A cube's force jumps in A and B, where faces match.
In a thin slab the force goes through 0 in the middle without a jump.

Ours are those curves, beside closed forms for a ball and a cube. What differs from the ball's is the mesh (20,480
triangles), not the method; at the jumps of the cube both one-sided values are right."""

from __future__ import annotations

import contactd
import numpy as np
from motion import at
from shapes import box, icosphere

METHODS = {"exact": {"method": "exact"}, "LDI 64²": {"resolution": 64}}
STIFFNESS = 1.0  # N/m^5
HALF = 0.5  # m: the ball's radius, half of the cube's side
SLABS = {"thick": 1.5, "thin": 0.4}  # m


def swallowed(shape: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) m^3 and m^2: volume of the ball or cube about 0 with coordinates below x, and its derivative."""
    x = np.clip(x, -HALF, HALF)
    if shape == "cube":
        return (x + HALF) * 4 * HALF**2, np.where(np.abs(x) < HALF, 4 * HALF**2, 0.0)
    return np.pi * (HALF + x) ** 2 * (2 * HALF - x) / 3, np.pi * (HALF**2 - x**2)


def truth(shape: str, thickness: float, way: np.ndarray) -> np.ndarray:
    """(n,) N along the way, of a body whose centre is `way` from the slab's front face."""
    (low, low_area), (high, high_area) = (swallowed(shape, face - way) for face in (0.0, thickness))
    return -STIFFNESS * (high - low) * (low_area - high_area)


def traverse(client: contactd.Client, settings: dict, shape: str, thickness: float, way: np.ndarray) -> np.ndarray:
    scene = client.open_scene(**settings)
    body_mesh = icosphere(HALF, 5) if shape == "sphere" else box((-HALF,) * 3, (HALF,) * 3)
    scene.add_body(client.register_mesh(*box((0.0, -2.0, -2.0), (thickness, 2.0, 2.0))), pose=np.eye(4))
    body = scene.add_body(client.register_mesh(*body_mesh), pose=np.eye(4))
    force = np.zeros(len(way))
    for i, x in enumerate(way):
        for contact in scene.step(poses={body: at(x)}, want="frame").contacts:
            force[i] = -STIFFNESS * contact.volume * contact.generalized_gradient(body)[0]
    scene.close()
    return force


def measure(client: contactd.Client, steps: int = 401) -> dict:
    out: dict = {}
    for shape in ("sphere", "cube"):
        for slab, thickness in SLABS.items():
            way = np.linspace(-0.7, thickness + 0.7, steps)
            expected = truth(shape, thickness, way)
            case = out[f"{shape}, {slab}"] = {"way": way, "closed form": expected}
            # At a cube's jumps either side is right, and positions are rounded to float32.
            jump = np.min([np.abs(way - face - end) for face in (0, thickness) for end in (-HALF, HALF)], axis=0) < 1e-6
            for name, settings in METHODS.items():
                case[name] = traverse(client, settings, shape, thickness, way)
                case["error, " + name] = float(np.abs(case[name] - expected)[~jump].max() / np.abs(expected).max())
    return out


PANELS = 2


def plot(axes, data: dict) -> None:
    for case, of in data.items():
        panel = axes[1 if case.endswith("thin") else 0]
        for name in METHODS:
            panel.plot(of["way"], of[name], "-" if name == "exact" else ":", label=f"{case}: {name}")
        panel.plot(of["way"], of["closed form"], "k--", linewidth=0.5)
        panel.set(title=f"Force in a {case.split()[-1]} slab; dashed: closed forms", xlabel="way, m", ylabel="N")
        panel.legend(fontsize=7)


def numbers(data: dict) -> dict[str, float]:
    return {f"{case}: largest error of the force, {name}": of["error, " + name] for case, of in data.items()
            for name in METHODS}
