"""Faure 2008, Fig. 10: linked rings, one fixed, the other swings under gravity; its kinetic energy by the resolution.

The paper reports that stability grows with the resolution, that 32² is needed for a close view, and that at 2² the ring
still does not diverge; it gives no numbers. As there, implicit Euler and viscous friction; steps of 10 ms. The ring is let
go aslant, and an air drag brings it to rest.

Ours agrees: no resolution diverges. What is left in the end comes from ripples of the force and falls with the resolution.
At 2² and 4² the ring hops. By the method exact there are no ripples: the ring still turns slowly into its place."""

from __future__ import annotations

import contactd
import numpy as np
from motion import at, rotation
from shapes import torus

from sim import RigidBody, World, step_by_penalty

RESOLUTIONS = (2, 4, 8, 16, 32, 64, 128, 256)
H = 0.01  # s
STIFFNESS, VISCOSITY, DENSITY = 1e9, 3e6, 1000.0
DRAG = 1.0  # 1/s, so that the ring comes to rest
MAJOR, MINOR = 0.3, 0.07  # m


def hang(client: contactd.Client, settings: dict, steps: int, around: int = 96) -> np.ndarray:
    """(steps,) J, kinetic energy of the lower ring."""
    ring = torus(MAJOR, MINOR, around, around // 2)
    fixed = RigidBody(ring, DENSITY, at(turn=rotation(np.array([np.pi / 2, 0, 0]))), driven=True)
    hanging = RigidBody(ring, DENSITY, at(0.05, 0.0, -2 * (MAJOR - MINOR), rotation(np.array([0, np.pi / 2, 0.2]))))
    energy = np.zeros(steps)
    with World(client, [fixed, hanging], stiffness=STIFFNESS, **settings) as world:
        for i in range(steps):
            step_by_penalty(world, H, VISCOSITY)
            hanging.velocity = hanging.velocity * np.exp(-DRAG * H)
            energy[i] = world.kinetic_energy()
            if hanging.position[2] < -3 * MAJOR:
                raise RuntimeError("the ring has fallen off")
    return energy


def measure(client: contactd.Client, steps: int = 1500, resolutions: tuple[int, ...] = RESOLUTIONS) -> dict:
    settings = {f"{n}²": {"method": "ldi", "resolution": n} for n in resolutions} | {"exact": {"method": "exact"}}
    return {name: {"energy": e, "left": float(e[-steps // 4 :].mean()), "most": float(e.max())}
            for name, of in settings.items() for e in (hang(client, of, steps),)}


PANELS = 2


def plot(axes, data: dict) -> None:
    for name, of in data.items():
        axes[0].semilogy(H * np.arange(len(of["energy"])), np.maximum(of["energy"], 1e-18), label=name, linewidth=0.6)
    axes[0].set(title="Linked rings", xlabel="s", ylabel="kinetic energy, J")
    axes[0].legend(fontsize=7)
    sizes = [name for name in data if name != "exact"]
    axes[1].loglog([int(name[:-1]) for name in sizes], [data[name]["left"] for name in sizes], "-o", label="LDI")
    axes[1].axhline(data["exact"]["left"], color="k", linestyle="--", label="exact")
    axes[1].set(title="What is left in the last quarter", xlabel="resolution", ylabel="kinetic energy, J")
    axes[1].legend()


def numbers(data: dict) -> dict[str, float]:
    return {f"kinetic energy, {what}, J, {name}": of[key] for name, of in data.items()
            for what, key in (("at most", "most"), ("left", "left"))}


PAPER = {"kinetic energy, at most, J, 2²": "no divergence"}
