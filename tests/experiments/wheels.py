"""Wang 2012, Fig. 1c: Ruina's wheels. Two wheels of equal corners roll; their sides bulge a little, or are a little hollow.

The paper shows, without numbers, that its convex wheel rolls further than its concave one: the contact moves along a bulging side
without a hit, while the corners of hollow sides hit the ground one after the other, and each hit takes energy. Sides are
circular arcs here that leave the chord by 4 % of its length at most, as 8 straight pieces. The convex wheel's arcs are made to
meet without a kink (its sides are a circle's), so that it has no corners at all; one whose arcs bulge half as much ("slightly
convex") has some.

A wheel that only rolls, and whose hits are plastic, has a closed form: the angular momentum about the new corner stays,
so that a hit leaves (I + m r² cos β) / (I + m r²) of the spin, β the angle between corners. "Corners" draws that law for
the hollow wheel; it ends where the spin no longer carries the wheel over a corner. Bulging sides hit at a kink of a smaller angle,
which takes less.

Steps are those of the reference simulator, by constraints with friction 1 (Allard 2010, Algorithm 1); the paper's are impulses with
later stabilisation. A contact has one volume, and where two corners touch at once, one pressure for both; it lets the wheel rock
by about its depth, 0.3 mm. The exact wheel follows the law all the same. With `ebpi`, whose tolerance bounds the volume and not its
gradient, the concave wheel loses more in a hit: a corner that has just touched shares less than the tolerance, and rays
that are few there say little of where it pushes. Both concave wheels stay behind the convex ones, as in the paper."""

from __future__ import annotations

import contactd
import numpy as np
from shapes import Mesh, box

from sim import Options, RigidBody, World, step

METHODS = {"exact": {"method": "exact"}, "ebpi": {"tolerance": 1e-8, "tolerance_rel": 0.02}}
SIDES, PIECES = 10, 8
RADIUS, WIDTH = 0.25, 0.2  # m: of the corners
H = 4e-3  # s
SPEED = 0.9  # m/s at the start
OPTIONS = Options(friction=1.0, target_depth=3e-4, most_corrections=3)
CIRCLE = (1 - np.cos(np.pi / SIDES)) / (2 * np.sin(np.pi / SIDES))  # sagitta / chord of a circle through the corners
WHEELS = {"convex": CIRCLE, "slightly convex": CIRCLE / 2, "concave": -0.04}


def wheel(bulge: float) -> Mesh:
    """Its axis is y. bulge: how far its sides leave their chords, of the chord."""
    corner = RADIUS * np.exp(2j * np.pi * np.arange(SIDES) / SIDES)
    chord = abs(corner[1] - corner[0])
    t = np.arange(PIECES) / PIECES
    outline = []
    for a, b in zip(corner, np.roll(corner, -1)):
        along, out = (b - a) / chord, (b - a) / chord / 1j
        if bulge == 0:
            outline.append(a + (b - a) * t)
            continue
        r = chord * (1 + 4 * bulge**2) / (8 * abs(bulge))  # of the arc
        half = np.arcsin(chord / (2 * r))
        angle = half * (2 * t - 1)
        rise = r * (np.cos(angle) - np.cos(half)) * np.sign(bulge)
        outline.append((a + b) / 2 + along * r * np.sin(angle) + out * rise)
    ring = np.concatenate(outline)
    n = len(ring)
    flat = np.stack([ring.real, ring.imag], 1)
    vertices = [np.insert(flat, 1, y, 1) for y in (-WIDTH / 2, WIDTH / 2)] + [np.array([[0, -WIDTH / 2, 0], [0, WIDTH / 2, 0]])]
    i = np.arange(n)
    j = (i + 1) % n
    caps = [np.stack([i, j, np.full(n, 2 * n)], 1), np.stack([n + j, n + i, np.full(n, 2 * n + 1)], 1)]
    return np.concatenate(vertices), np.concatenate([np.stack([i, n + i, n + j], 1), np.stack([i, n + j, j], 1), *caps])


def roll(client: contactd.Client, settings: dict, bulge: float, steps: int) -> dict[str, np.ndarray]:
    """Along the way: position (m), speed (m/s), kinetic energy (J), by step."""
    floor = RigidBody(box((-1.0, -0.5, -0.3), (9.0, 0.5, 0.0)), 1000.0, driven=True)
    turned = np.eye(4)
    angle = np.pi / 2 - np.pi / SIDES  # one side below
    turned[:3, :3] = [[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]]
    body = RigidBody(wheel(bulge), 500.0, turned)
    lowest = (body.vertices @ turned[:3, :3].T)[:, 2].min()
    body.position = np.array([0.0, 0.0, -lowest])
    body.velocity = np.array([SPEED, 0, 0, 0, SPEED / RADIUS, 0])
    rows, contacts = [], None
    with World(client, [floor, body], **settings) as world:
        for _ in range(steps):
            report = step(world, H, OPTIONS, contacts)
            contacts = report.contacts
            rows.append((body.position[0], body.velocity[0], body.kinetic_energy()))
    return dict(zip(("way", "speed", "energy"), np.array(rows).T))


def law_of_corners(steps: int) -> np.ndarray:
    """(steps,) way of a wheel with plastic hits, as if its height did not matter between them."""
    angle = 2 * np.pi / SIDES
    ratio = 0.5  # I / (m r^2), of a disc
    left = (ratio + np.cos(angle)) / (ratio + 1)
    over = np.sqrt(2 * 9.81 * (1 - np.cos(angle / 2)) / ((ratio + 1) * RADIUS))  # rad/s that carry it over a corner
    way, speed, out, to_next = 0.0, SPEED / RADIUS, [], 0.0
    for _ in range(steps):
        if to_next >= angle:
            to_next -= angle
            speed *= left
            if speed < over:
                speed = 0.0
        to_next += speed * H
        way += speed * H * RADIUS * np.sin(angle / 2) / (angle / 2)
        out.append(way)
    return np.array(out)


def measure(client: contactd.Client, steps: int = 500) -> dict:
    out: dict = {f"{name}, {method}": roll(client, settings, bulge, steps) for name, bulge in WHEELS.items()
                 for method, settings in METHODS.items()}
    return out | {"corners": {"way": law_of_corners(steps)}}


PANELS = 2


def plot(axes, data: dict) -> None:
    for i, (name, of) in enumerate(data.items()):
        style = {"color": "k", "linestyle": ":"} if name == "corners" else {"color": f"C{i // 2}",
                                                                           "linestyle": "-" if "exact" in name else "--"}
        axes[0].plot(H * np.arange(len(of["way"])), of["way"], label=name, **style)
        if "energy" in of:
            axes[1].plot(H * np.arange(len(of["way"])), of["energy"], label=name, **style)
    axes[0].set(title="Wheels roll", xlabel="s", ylabel="m")
    axes[1].set(title="Kinetic energy", xlabel="s", ylabel="J")
    for panel in axes:
        panel.legend(fontsize="small")


def numbers(data: dict) -> dict[str, float]:
    out = {}
    for name, of in data.items():
        out[f"{name}: way, m"] = float(of["way"][-1])
        if "speed" in of:
            out[f"{name}: speed at the end, m/s"] = float(of["speed"][-1])
    return out


PAPER = {"convex, ebpi: way": "further than concave", "concave, ebpi: way": "the shortest"}
