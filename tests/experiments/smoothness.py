"""How smooth the force is: a ball slides over another, whose facets it crosses, in steps of 10^-5 m.

The force's true trend over such a way is a cubic to far more digits than either method has ripples. The ripple is the total
variation of what is left beside the cubic that fits best, divided by the mean force."""

from __future__ import annotations

import contactd
import numpy as np
from motion import at, rotation
from shapes import icosphere

METHODS = {"exact": {"method": "exact"}, "LDI 64²": {"resolution": 64}, "LDI 256²": {"resolution": 256}}
STEP = 1e-5  # m


def slide(client: contactd.Client, settings: dict, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(steps,) m along the way, and (steps, 3) N of a stiffness of 1e6 N/m^5."""
    scene = client.open_scene(**settings)
    ball = client.register_mesh(*icosphere(0.5, 5))
    ground = scene.add_body(ball, pose=np.eye(4))
    slider = scene.add_body(ball, pose=np.eye(4))
    turn = rotation(np.array([0.3, -0.7, 0.2]))
    way = STEP * np.arange(steps)
    forces = np.zeros((steps, 3))
    for i, x in enumerate(way):
        result = scene.step(poses={ground: at(turn=turn), slider: at(x, 0.0, 0.97)}, want="frame")
        for contact in result.contacts:
            forces[i] = -1e6 * contact.volume * contact.generalized_gradient(slider)[:3]
    scene.close()
    return way, forces


def ripple(way: np.ndarray, forces: np.ndarray) -> float:
    """Total variation beside the trend, over the mean force."""
    x = way / way[-1]
    left = [f - np.polyval(np.polyfit(x, f, 3), x) for f in forces.T]
    return float(sum(np.abs(np.diff(f)).sum() for f in left) / np.linalg.norm(forces, axis=1).mean())


def measure(client: contactd.Client, steps: int = 2000) -> dict:
    out = {}
    for name, settings in METHODS.items():
        way, forces = slide(client, settings, steps)
        out[name] = {"way": way, "forces": forces, "ripple": ripple(way, forces)}
    return out


def plot(axes, data: dict) -> None:
    for name, of in data.items():
        axes.plot(of["way"] * 1e3, of["forces"][:, 0], label=f"{name}: ripple {of['ripple']:.2g}", linewidth=0.8)
    axes.set(title="A ball slides over facets", xlabel="way, mm", ylabel="force along it, N")
    axes.legend()


def numbers(data: dict) -> dict[str, float]:
    return {f"ripple, {name}": of["ripple"] for name, of in data.items()}
