"""Coulomb: a block on a tilted plane sticks below the friction angle and slides above it.

Allard 2010 speaks of the stability of static friction (section 6) and gives no number. Ours: the angle at which a flat
block begins to slide, found by bisection, beside arctan(friction), and its acceleration beyond it beside
g (sin a - friction cos a). There are three coefficients and three directions of the slope, since a pyramid of fixed tangents
would be weaker between them by up to 30 %. The reference simulator lays the first tangent along the sliding, where the
pyramid is as strong as the cone.

The block is flat (its height is a fiftieth of its side): with one volume a contact, a pressure is uniform, and a high
block would tilt by its depth over its length before its pressure could carry it."""

from __future__ import annotations

import contactd
import numpy as np
from motion import at, rotation
from shapes import box

from sim import HalfSpace, Options, RigidBody, World, step

METHODS = {"exact": {"method": "exact"}, "LDI 64²": {"method": "ldi", "resolution": 64}}
FRICTION, DIRECTIONS = (0.2, 0.5, 1.0), (0.0, 0.5, 1.1)
H, G, DEPTH = 5e-3, 9.81, 1e-4


def slide(client: contactd.Client, settings: dict, friction: float, angle: float, direction: float,
          steps: int) -> tuple[float, float]:
    """m/s along the slope at the end, and m/s^2 over the second half. Gravity is tilted rather than the plane; a
    direction is the slope's, rad, in the plane."""
    along = np.array([np.cos(direction), np.sin(direction), 0.0])
    gravity = G * (np.sin(angle) * along - np.cos(angle) * np.array([0, 0, 1]))
    block = RigidBody(box((-0.5, -0.5, 0), (0.5, 0.5, 0.02)), 500.0, at(z=-DEPTH, turn=rotation(np.array([0, 0, 0.3]))))
    # Half-spaces are for the method exact; rays see a slab.
    floor = HalfSpace((0, 0, 1)) if settings["method"] == "exact" else RigidBody(
        box((-3.0, -3.0, -0.5), (3.0, 3.0, 0.0)), 1000.0, driven=True)
    contacts, speed = None, np.zeros(steps)
    with World(client, [floor, block], gravity=gravity, **settings) as world:
        for i in range(steps):
            contacts = step(world, H, Options(friction=friction, target_depth=DEPTH), contacts).contacts
            speed[i] = along @ block.velocity[:3]
    return float(speed[-1]), float((speed[-1] - speed[steps // 2]) / (H * (steps - 1 - steps // 2)))


def critical_angle(client: contactd.Client, settings: dict, friction: float, direction: float, steps: int,
                   halvings: int) -> float:
    """rad: between the angle at which the block rests and that at which it slides, within 20 % / 2^halvings."""
    true = np.arctan(friction)
    low, high = 0.9 * true, 1.1 * true
    for _ in range(halvings):
        middle = (low + high) / 2
        # A block that slides at 0.05 % beyond the angle gains this speed.
        slides = slide(client, settings, friction, middle, direction, steps)[0] > 5e-4 * true * G * H * steps
        low, high = (low, middle) if slides else (middle, high)
    return (low + high) / 2


def measure(client: contactd.Client, steps: int = 60, halvings: int = 8) -> dict:
    out: dict = {}
    for name, of in METHODS.items():
        rows = out[name] = {"friction": [], "direction": [], "angle": [], "acceleration": []}
        for friction in FRICTION:
            for direction in DIRECTIONS:
                angle = critical_angle(client, of, friction, direction, steps, halvings)
                beyond = 1.3 * np.arctan(friction)
                true = G * (np.sin(beyond) - friction * np.cos(beyond))
                rows["friction"].append(friction)
                rows["direction"].append(direction)
                rows["angle"].append(float(angle / np.arctan(friction) - 1))
                rows["acceleration"].append(slide(client, of, friction, beyond, direction, steps)[1] / true - 1)
    return out


def plot(axes, data: dict) -> None:
    for name, of in data.items():
        axes.plot(100 * np.array(of["angle"]), "-o", label=f"{name}: angle")
        axes.plot(100 * np.array(of["acceleration"]), ":s", label=f"{name}: acceleration beyond it")
    axes.set(title="A block on a tilted plane: errors", ylabel="%", xlabel="friction coefficient, direction of the slope")
    of = data["exact"]
    axes.set_xticks(range(len(of["friction"])), [f"{f}, {d}" for f, d in zip(of["friction"], of["direction"])], rotation=45)
    axes.legend()


def numbers(data: dict) -> dict[str, float]:
    return {f"largest error of the {what}, {name}": max(map(abs, of[what])) for name, of in data.items()
            for what in ("angle", "acceleration")}
