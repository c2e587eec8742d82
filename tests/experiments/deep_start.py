"""Deep start: rigid and soft bodies that overlap at t = 0, without gravity, separate without gaining speed.

Allard 2010 (section 6) starts with organs that intersect, separates them in the first step and says that no velocity comes
of it, since the position step moves no velocities. Its scans cannot be had; ours are six bodies within each other's
reach, three of them soft.

Ours: the position steps add exactly 0 J. Rigid bodies stay at rest. Soft ones are deformed as they are pushed apart, and
then swing back: that energy is their own elastic energy, not the contacts'."""

from __future__ import annotations

import contactd
import numpy as np
from motion import at, rotation
from shapes import blob, icosphere, torus

from sim import DeformableBody, Options, RigidBody, World, step

DEPTH = 1e-3  # m


def crowd(soft: bool) -> list:
    """Six bodies in one another."""
    bodies: list = []
    for i in range(6):
        angle = i * np.pi / 3
        centre = np.array([0.13 * np.cos(angle), 0.13 * np.sin(angle), 0.04 * (-1) ** i])
        if soft and i % 2:
            vertices, triangles = icosphere(0.1, 3)
            bodies.append(DeformableBody((vertices + centre, triangles), 1000.0, cell=0.068, young=2e4, damping=0.02))
        else:
            mesh = blob(0.1, 3, 0.1) if i % 4 else torus(0.07, 0.035, 48, 24)
            bodies.append(RigidBody(mesh, 1000.0, at(*centre, rotation(np.array([angle, 0.4, 0.2 * i])))))
    return bodies


def separate(client: contactd.Client, soft: bool, steps: int, settings: dict) -> dict:
    bodies = crowd(soft)
    volume, energy, gained, contacts = np.zeros(steps + 1), np.zeros(steps + 1), 0.0, None
    with World(client, bodies, gravity=(0, 0, 0), **settings) as world:
        first = world.collide()
        volume[0] = sum(c.volume for c in first)
        for i in range(steps):
            report = step(world, 0.01, Options(target_depth=DEPTH, most_corrections=10), contacts)
            contacts = report.contacts
            gained += abs(report.gained)
            volume[i + 1] = sum(c.volume for c in contacts)
            energy[i + 1] = world.kinetic_energy()
    deepest = max((c.volume / c.area for c in contacts if c.area), default=0.0)
    return {"volume": volume, "energy": energy, "gained": gained, "contacts": len(first), "deepest": float(deepest)}


def measure(client: contactd.Client, steps: int = 50, **settings) -> dict:
    return {name: separate(client, soft, steps, settings) for name, soft in (("rigid", False), ("rigid and soft", True))}


PANELS = 2


def plot(axes, data: dict) -> None:
    for name, of in data.items():
        axes[0].semilogy(np.maximum(of["volume"], 1e-12), label=name)
        axes[1].semilogy(np.maximum(of["energy"], 1e-20), label=name)
    axes[0].set(title="Six bodies that start in one another", xlabel="step", ylabel="volume in common, m³")
    axes[1].set(title="Their kinetic energy", xlabel="step", ylabel="J")
    axes[0].legend()


def numbers(data: dict) -> dict[str, float]:
    out = {}
    for name, of in data.items():
        out[f"contacts at t = 0, {name}"] = of["contacts"]
        out[f"volume after the first step, of that at t = 0, {name}"] = float(of["volume"][1] / of["volume"][0])
        out[f"kinetic energy gained by position steps, J, {name}"] = of["gained"]
        out[f"most kinetic energy, J, {name}"] = float(of["energy"].max())
        out[f"mean depth of the deepest contact in the end, mm, {name}"] = 1e3 * of["deepest"]
    return out


PAPER = {"kinetic energy gained": "0", "volume after the first step": "separated"}
