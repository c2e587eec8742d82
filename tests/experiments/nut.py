"""Wang 2012, Fig. 1a: a nut on a bolt, a tight fit. It turns itself down the thread under gravity, without friction.

The paper's contact resolves the penetration of a wrong relative orientation, and the frictionless nut then unscrews by itself; it
gives no numbers. Here both threads are sine waves of one turn a pitch, made by triangles as fine along each other, with 2 % of the radius
between them. The nut starts turned by 0.05 turns too far, so that its thread lies inside the bolt's. It has two degrees of freedom,
along the axis and about it (the paper's has six), and is pushed by penalty forces, damped along the gradient.

Once it fits, both are coupled as a thread couples them. Its acceleration has a closed form then, that of a body which must turn to fall:
g / (1 + (I / m) (2π / pitch)²). Compared is the mean over the last half of the steps. "Slip" is how far the nut's fall and turn
differ from the thread's, beside what fits.

With LDI of 8² the thread is sampled by rays further apart than the two surfaces, and the force along the axis and the torque about
it do not belong to one thread. The tolerance of `ebpi` bounds the volume alone, not the force; that the nut keeps to the thread
shows what the force is worth."""

from __future__ import annotations

import contactd
import numpy as np
from motion import at, rotation
from shapes import PITCH, bolt, nut

METHODS = {"exact": {"method": "exact"}, "ebpi": {"tolerance": 5e-5, "tolerance_rel": 0.1}, "LDI 8²": {"resolution": 8}}
DT = 4e-3  # s
MASS, INERTIA, G = 1.0, 0.4, 9.81  # kg, kg m^2 about the axis, m/s^2
STIFFNESS, DAMPING = 6e4, 1500.0  # N/m^5, N s/m^5
START = 0.05  # turns too far


def unscrew(client: contactd.Client, settings: dict, around: int, steps: int) -> dict[str, np.ndarray]:
    """By step: height (m), angle (rad), speed (m/s), volume (m^3)."""
    scene = client.open_scene(**settings)
    scene.add_body(client.register_mesh(*bolt(around)), pose=np.eye(4))
    body = scene.add_body(client.register_mesh(*nut(around)), pose=np.eye(4))
    place, speed = np.array([0.0, 2 * np.pi * START]), np.zeros(2)  # along the axis, about it
    rows = []
    for _ in range(steps):
        result = scene.step(poses={body: at(0, 0, place[0], rotation(np.array([0, 0, place[1]])))}, want="frame")
        force = np.array([-MASS * G, 0.0])
        volume = 0.0
        for contact in result.contacts:
            g = contact.generalized_gradient(body)[[2, 5]]
            volume += contact.volume
            force -= STIFFNESS * contact.volume * g + DAMPING * g * max(g @ speed, -STIFFNESS / DAMPING * contact.volume)
        speed = speed + DT * force / [MASS, INERTIA]
        place = place + DT * speed
        rows.append((*place, speed[0], volume, result.rays, result.ended == "completed"))
    scene.close()
    return dict(zip(("height", "angle", "speed", "volume", "rays", "reached"), np.array(rows, float).T))


def acceleration() -> float:
    """m/s^2, in closed form."""
    return -G / (1 + INERTIA / MASS * (2 * np.pi / PITCH) ** 2)


def measure(client: contactd.Client, steps: int = 200, around: int = 48) -> dict:
    return {name: unscrew(client, settings, around, steps) for name, settings in METHODS.items()}


PANELS = 2


def plot(axes, data: dict) -> None:
    for name, of in data.items():
        seconds = DT * np.arange(len(of["height"]))
        axes[0].plot(seconds, of["speed"], label=name)
        axes[1].semilogy(seconds, np.maximum(of["volume"], 1e-7), label=name)
    axes[0].plot(seconds, acceleration() * seconds, "k:", label="closed form")
    axes[0].set(title="The nut falls along the thread", xlabel="s", ylabel="m/s")
    axes[1].set(title="Volume shared", xlabel="s", ylabel="m³")
    for panel in axes:
        panel.legend()


def numbers(data: dict) -> dict[str, float]:
    out = {}
    for name, of in data.items():
        half = len(of["speed"]) // 2
        mean = (of["speed"][-1] - of["speed"][half]) / (DT * (len(of["speed"]) - 1 - half))
        slip = of["height"] - PITCH * of["angle"] / (2 * np.pi)
        out[f"{name}: acceleration / closed form"] = float(mean / acceleration())
        out[f"{name}: slip while it falls, mm"] = 1e3 * float(np.ptp(slip[half:]))
        out[f"{name}: volume at the start, m³"] = float(of["volume"][0])
        out[f"{name}: volume at the end, m³"] = float(of["volume"][-1])
        if name == "ebpi":
            out[f"{name}: rays"] = float(of["rays"].mean())
            out[f"{name}: tolerances reached, %"] = 100 * float(of["reached"].mean())
    return out


PAPER = {"ebpi: acceleration": "unscrews", "ebpi: volume at the end": "resolved"}
