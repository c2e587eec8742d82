"""Two bumpy balls collide without friction and part again: the force is the gradient of k V^2 / 2, so the energy returns.

Leapfrog, which keeps the energy of a smooth force up to the square of the step, also while it acts."""

from __future__ import annotations

import contactd
import numpy as np
from motion import RigidBody, rotation
from shapes import blob

METHODS = {"exact": {"method": "exact"}, "LDI 64²": {"resolution": 64}}
STIFFNESS = 1e6  # N/m^5


def collide(client: contactd.Client, settings: dict, steps: int, duration: float = 0.5) -> np.ndarray:
    """(steps, 2) J: kinetic energy, and that of the contact."""
    scene = client.open_scene(**settings)
    mesh = client.register_mesh(*blob(0.5, 4, 0.1))
    bodies = [RigidBody(10.0, 1.0, np.array([-0.6, 0.1, 0.0]), rotation(np.array([0.3, 0.2, 0.5]))),
              RigidBody(15.0, 1.5, np.array([0.6, -0.1, 0.05]), rotation(np.array([-0.6, 1.0, 0.1])))]
    bodies[0].velocity, bodies[1].velocity = np.array([1.0, 0.1, 0.0]), np.array([-1.0, 0.0, 0.1])
    bodies[0].spin = np.array([0.5, -1.0, 0.3])
    handles = [scene.add_body(mesh, pose=body.pose()) for body in bodies]
    dt = duration / steps
    energies = np.zeros((steps, 2))
    for i in range(steps):
        for body in bodies:
            body.drift(dt / 2)
        result = scene.step(poses={h: b.pose() for h, b in zip(handles, bodies)}, want="frame")
        before = sum(body.kinetic_energy() for body in bodies)
        for contact in result.contacts:
            for handle, body in zip(handles, bodies):
                body.kick(-dt * STIFFNESS * contact.volume * contact.generalized_gradient(handle))
            energies[i, 1] = STIFFNESS * contact.volume**2 / 2
        energies[i, 0] = (before + sum(body.kinetic_energy() for body in bodies)) / 2
        for body in bodies:
            body.drift(dt / 2)
    scene.close()
    return energies


def measure(client: contactd.Client, steps: int = 10000) -> dict:
    out = {}
    for name, settings in METHODS.items():
        e = collide(client, settings, steps)
        if e[-1, 1] or not e[:, 1].any():
            raise RuntimeError("the bodies have not met, or not parted")
        out[name] = {"energies": e, "change": float(abs(e[-1, 0] / e[0, 0] - 1))}
    return out


def plot(axes, data: dict) -> None:
    for name, of in data.items():
        total = of["energies"].sum(1)
        axes.plot(np.linspace(0, 1, len(total)), total / total[0] - 1, linewidth=0.8,
                  label=f"{name}: {of['change']:.1e} in the end")
    axes.set(title="Two bodies collide without friction", xlabel="time", ylabel="energy / energy before - 1")
    axes.set_yscale("symlog", linthresh=1e-8)
    axes.legend()


def numbers(data: dict) -> dict[str, float]:
    return {f"change of energy in a collision, {name}": of["change"] for name, of in data.items()}
