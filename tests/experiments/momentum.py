"""Momentum: two bumpy bodies attract each other and rub, with friction, for 10,000 steps; nothing else acts on them.

Allard 2010 constrains every contact with equal and opposite pressures and tractions, so linear momentum is kept; the
paper gives no figure. Ours: its drift is rounding.

Angular momentum is kept as well by pressures alone, since a turn of both bodies changes no volume. Friction does not keep
it: tractions act on two surfaces that lie a depth apart (the paper's "ghost torque", section 4.2). Nor do position steps,
which move bodies and not their velocities. Both are shown."""

from __future__ import annotations

import contactd
import numpy as np
from motion import at, rotation
from shapes import blob

from sim import Options, RigidBody, World, step

METHODS = {"exact": {"method": "exact"}, "LDI 64²": {"resolution": 64}}
H = 2e-3  # s
PULL = 20.0  # N between the centres


def rub(client: contactd.Client, settings: dict, steps: int, friction: float = 0.5,
        corrections: int = 5) -> tuple[np.ndarray, np.ndarray, float]:
    """(steps, 3) N s and (steps, 3) N m s: the total momenta less those at the start; and N s exchanged by contacts.
    corrections: position problems in a step, at most."""
    options = Options(friction=friction, most_corrections=corrections)
    mesh = blob(0.1, 3, 0.1)
    bodies = [RigidBody(mesh, 800.0, at(-0.12), np.array([0.1, 0.2, 0.0, 3.0, -2.0, 1.0])),
              RigidBody(mesh, 1200.0, at(0.12, 0.02, 0, rotation(np.array([0.5, 1.0, -0.3]))),
                        np.array([0.0, -0.1, 0.1, -2.0, 1.0, 4.0]))]
    linear, angular = np.zeros((steps, 3)), np.zeros((steps, 3))
    exchanged, contacts = 0.0, None
    with World(client, bodies, gravity=(0, 0, 0), **settings) as world:
        start = world.linear_momentum(), world.angular_momentum()
        for i in range(steps):
            away = bodies[1].position - bodies[0].position
            for body, sign in zip(bodies, (1, -1)):
                body.velocity[:3] += sign * H * PULL / body.mass * away / np.linalg.norm(away)
            report = step(world, H, options, contacts)
            exchanged += sum(p[0] * c.area for p, c in zip(report.pressures, contacts or ()))
            contacts = report.contacts
            linear[i], angular[i] = world.linear_momentum() - start[0], world.angular_momentum() - start[1]
    return linear, angular, float(exchanged)


def measure(client: contactd.Client, steps: int = 10000) -> dict:
    out = {}
    for name, settings in METHODS.items():
        linear, angular, exchanged = rub(client, settings, steps)
        _, pressed, _ = rub(client, settings, steps // 10, friction=0.0, corrections=0)
        out[name] = {"linear": np.linalg.norm(linear, axis=1), "angular": np.linalg.norm(angular, axis=1),
                     "pressed": np.linalg.norm(pressed, axis=1), "exchanged": exchanged}
    return out


def plot(axes, data: dict) -> None:
    for name, of in data.items():
        axes.semilogy(np.maximum(of["linear"], 1e-18), label=f"{name}: linear, N s")
        axes.semilogy(np.maximum(of["angular"], 1e-18), ":", label=f"{name}: angular, N m s")
        axes.semilogy(np.maximum(of["pressed"], 1e-18), "--", label=f"{name}: angular, pressures alone")
    axes.set(title="Two bodies attract each other and rub", xlabel="step", ylabel="drift of the total momentum")
    axes.legend()


def numbers(data: dict) -> dict[str, float]:
    out = {}
    for name, of in data.items():
        out[f"drift of linear momentum, N s, {name}"] = float(of["linear"].max())
        out[f"drift, of the momentum exchanged, {name}"] = float(of["linear"].max() / of["exchanged"])
        out[f"drift of angular momentum, N m s, {name}"] = float(of["angular"].max())
        out[f"drift of angular momentum by pressures alone, N m s, {name}"] = float(of["pressed"].max())
    return out
