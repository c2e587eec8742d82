"""A cube comes to rest on a tilted plane: its kinetic energy over 10,000 steps of a millisecond.

Contacts push by -k V dV/dq and damp along dV/dq; springs along the plane and about its normal stand for static friction, from
the first touch on. Whatever kinetic
energy is left in the end comes from ripples of the force."""

from __future__ import annotations

import contactd
import numpy as np
from motion import RigidBody, at, rotation
from shapes import box

METHODS = {"exact": {"method": "exact"}, "LDI 64²": {"resolution": 64}, "LDI 256²": {"resolution": 256}}
DT = 1e-3  # s
STIFFNESS = 1e7  # N/m^5
GRAVITY = np.array([0.0, 0.0, -9.81])
TILT = np.radians(15)


def settle(client: contactd.Client, settings: dict, steps: int) -> np.ndarray:
    """(steps,) J."""
    scene = client.open_scene(**settings)
    turn = rotation(np.array([0.1, TILT, 0.05]))
    plane = client.register_mesh(*box((-2.0, -2.0, -1.0), (2.0, 2.0, 0.0)))
    cube = client.register_mesh(*box((-0.25, -0.25, -0.25), (0.25, 0.25, 0.25)))
    scene.add_body(plane, pose=at(turn=turn))
    handle = scene.add_body(cube, pose=np.eye(4))
    body = RigidBody(mass=20.0, inertia=20.0 * 0.5**2 / 6, position=turn @ np.array([0.0, 0.0, 0.26]),
                     turn=turn @ rotation(np.array([0.01, 0.02, 0.4])))
    foot = body.turn.T @ (turn @ np.array([0.0, 0.0, -0.25]))  # where the spring holds it
    anchor = None
    energy = np.zeros(steps)
    for i in range(steps):
        result = scene.step(poses={handle: body.pose()}, want="frame")
        force = np.concatenate([body.mass * GRAVITY, np.zeros(3)])
        for contact in result.contacts:
            g = contact.generalized_gradient(handle)
            force -= STIFFNESS * contact.volume * g + 2e4 * g * (g @ body.twist())
            arm = body.turn @ foot
            if anchor is None:
                anchor, first = body.position + arm, body.turn
            speed = body.velocity + np.cross(body.spin, arm)
            hold = -2e4 * (body.position + arm - anchor) - 1e3 * speed
            hold -= contact.normal * (contact.normal @ hold)
            force[:3] += hold
            twisted = sum(np.cross(first[:, k], body.turn[:, k]) for k in range(3)) / 2
            about = -contact.normal * (contact.normal @ (1e3 * twisted + 20.0 * body.spin))
            force[3:] += np.cross(arm, hold) + about - 5.0 * body.spin
        body.kick(DT * force)
        body.drift(DT)
        energy[i] = body.kinetic_energy()
    scene.close()
    return energy


def measure(client: contactd.Client, steps: int = 10000) -> dict:
    out = {}
    for name, settings in METHODS.items():
        energy = settle(client, settings, steps)
        out[name] = {"energy": energy, "residual": float(energy[-steps // 4 :].mean())}
    return out


def plot(axes, data: dict) -> None:
    for name, of in data.items():
        axes.semilogy(np.arange(len(of["energy"])) * DT, np.maximum(of["energy"], 1e-35),
                      label=f"{name}: {of['residual']:.1e} J in the end", linewidth=0.6)
    axes.set(title="A cube comes to rest on a tilted plane", xlabel="s", ylabel="kinetic energy, J")
    axes.legend()


def numbers(data: dict) -> dict[str, float]:
    return {f"kinetic energy at rest, {name}, J": of["residual"] for name, of in data.items()}
