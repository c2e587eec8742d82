"""Wang 2012, Fig. 1b: a cube slides over a plate towards a very small obstacle, which uniform rays miss.

The paper shows, without numbers, that its cube is stopped by an obstacle that a uniform resolution does not detect, since the
area of contact with the ground is so much larger. Here a cube of 0.5 m slides along x, 1 mm deep in a plate that has a wart of
20 x 20 x 20 mm on its top: 1/625 of the area. The cube is guided along x, and pushed by the penalty force of the
contact: -k V dV/dx. Only the part of V that lies above the plate's top counts, so that the cube is pushed by the wart
alone. The tolerance of `ebpi` is 3/8 of the wart's volume.

At 8² the wart lies between the rays of LDI, and the cube slides over it. At 32² a ray stands for 16 x 16 mm: the cube
feels a wart of another size. `ebpi` feels it in each step, and stops where exact stops. Most of its rays do
not go to the wart: the plate's top is parallel to the rays of two views, and there each tile counts as a step of 0.5 m, as the paper
says of a cube whose faces are parallel to the rays. With a smaller wart the tolerance would take more rays than the budget has, or finer
tiles than there are, and the answer would say so.

A cube that is fast enough to cross the wart within one step passes it with any method, since contacts are found where
steps end; the paper says so too ("fast").

What differs from the paper: its cube may turn and leave the ground, and has friction. The height above the ground is held here, so
that only the wart can stop the cube."""

from __future__ import annotations

import contactd
import numpy as np
from motion import at
from shapes import box, bricks

METHODS = {"exact": {"method": "exact"}, "ebpi": {"tolerance": 3e-6, "strict": True}, "LDI 8²": {"resolution": 8},
           "LDI 32²": {"resolution": 32}}
SIDE = 0.5  # m, of the cube
WART = 0.02  # m, each side
DEPTH = 0.001  # m
FLAT = SIDE**2 * DEPTH  # m^3, of the contact without the wart
START = 0.0053  # m, between the cube's front face and the wart
SPEED, FAST = 1.0, 200.0  # m/s
DT = 5e-4  # s
MASS = 1.0  # kg
STIFFNESS = 2.5e10  # N/m^5


def plate() -> tuple[np.ndarray, np.ndarray]:
    """Its top lies in z = 0, the wart's near face in x = 0. The wart stands on one brick of a grid of 3 x 3."""
    filled = np.zeros((3, 3, 2), bool)
    filled[:, :, 0] = True
    filled[1, 1, 1] = True
    vertices, triangles = bricks(filled, (1.0, 1.0, 1.0))
    grid = [np.array([-1.0, 0.0, WART, 1.0]), np.array([-0.503, 0.1, 0.1 + WART, 0.507]), np.array([-0.2, 0.0, WART])]
    at_grid = np.round(vertices + [1.5, 1.5, 1.0]).astype(int)
    return np.stack([grid[k][at_grid[:, k]] for k in range(3)], 1), triangles


def open_pair(client: contactd.Client, settings: dict) -> tuple[contactd.Scene, contactd.Body]:
    scene = client.open_scene(**settings)
    scene.add_body(client.register_mesh(*plate()), pose=np.eye(4))
    return scene, scene.add_body(client.register_mesh(*box((-SIDE, -SIDE / 2, -DEPTH), (0.0, SIDE / 2, SIDE - DEPTH))), pose=np.eye(4))


def feel(client: contactd.Client, settings: dict, fronts: np.ndarray) -> dict[str, np.ndarray]:
    """By the position of the cube's front: the volume, its bound, dV/dx, rays, whether the tolerance was reached."""
    scene, cube = open_pair(client, settings)
    rows = []
    for x in fronts:
        result = scene.step(poses={cube: at(x)}, want="frame")
        (contact,) = result.contacts
        rows.append((contact.volume, contact.error_bound, contact.generalized_gradient(cube)[0], result.rays,
                     result.ended == "completed"))
    scene.close()
    return dict(zip(("volume", "bound", "area", "rays", "reached"), np.array(rows, float).T))


def slide(client: contactd.Client, settings: dict, speed: float, dt: float, steps: int) -> np.ndarray:
    """(steps, 2) positions of the front face and velocities along x."""
    scene, cube = open_pair(client, settings)
    x, out = -START, []
    for _ in range(steps):
        result = scene.step(poses={cube: at(x)}, want="frame")
        force = sum(-STIFFNESS * max(c.volume - FLAT, 0) * c.generalized_gradient(cube)[0] for c in result.contacts)
        speed += dt * force / MASS
        x += dt * speed
        out.append((x, speed))
    scene.close()
    return np.array(out)


def measure(client: contactd.Client, positions: int = 61, steps: int = 200) -> dict:
    fronts = np.linspace(-0.02, 0.04, positions) + 1e-5
    return {"front": fronts, "feel": {name: feel(client, settings, fronts) for name, settings in METHODS.items()},
            "slide": {name: slide(client, settings, SPEED, DT, steps) for name, settings in METHODS.items()},
            "fast": slide(client, METHODS["ebpi"], FAST, 1e-3, 5)}


PANELS = 2


def plot(axes, data: dict) -> None:
    for name in METHODS:
        axes[0].plot(1e3 * data["front"], 1e6 * data["feel"][name]["area"], label=name)
        axes[1].plot(1e3 * DT * np.arange(len(data["slide"][name])), 1e3 * data["slide"][name][:, 0], label=name)
    axes[0].set(title="What the cube feels along x", xlabel="front face, mm from the wart", ylabel="dV/dx, mm²")
    axes[1].set(title="The cube slides", xlabel="ms", ylabel="front face, mm from the wart")
    for panel in axes:
        panel.legend()


def numbers(data: dict) -> dict[str, float]:
    front, truth = data["front"], data["feel"]["exact"]
    over = (front > 0) & (front < WART)
    out = {}
    for name, of in data["feel"].items():
        out[f"{name}: error of dV/dx over the wart / its area, mean"] = float(
            np.abs(of["area"] - truth["area"])[over].mean() / (WART**2))
        out[f"{name}: positions over the wart where nothing is felt, %"] = 100 * float((of["area"][over] == 0).mean())
        out[f"{name}: error of the volume / the wart's, largest"] = float(
            np.abs(of["volume"] - truth["volume"])[over].max() / (WART**3))
        if name == "ebpi":
            out[f"{name}: tolerances reached, %"] = 100 * float(of["reached"].mean())
        out[f"{name}: rays"] = float(of["rays"].mean())
        out[f"{name}: farthest front, mm"] = 1e3 * float(data["slide"][name][:, 0].max())
        out[f"{name}: speed at the end, m/s"] = float(data["slide"][name][-1, 1])
    return out | {"fast, ebpi: farthest front, mm": 1e3 * float(data["fast"][:, 0].max())}


PAPER = {"ebpi: farthest": "stopped", "LDI 8²: farthest": "not stopped", "LDI 32²: farthest": "not stopped",
         "fast": "skips the obstacle"}
