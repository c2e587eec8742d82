"""A ball of 20,480 triangles rests 10^-5 m and more deep on a slab: errors of volume and force, in nine orientations.

The truth is the part of the polyhedron below the plane, clipped triangle by triangle."""

from __future__ import annotations

import contactd
import numpy as np
from motion import at, rotation
from shapes import box, icosphere

METHODS = {"exact": {"method": "exact"}, "LDI 64²": {"resolution": 64}}
DEPTHS = [1e-5, 1e-4, 1e-3, 1e-2]


def below_plane(vertices: np.ndarray, triangles: np.ndarray) -> tuple[float, float]:
    """Volume of a closed mesh below z = 0, m^3, and the area of its section there, m^2."""
    volume = area = 0.0
    for polygon in vertices[triangles[(vertices[triangles, 2] < 0).any(1)]]:
        kept = []
        for i, p in enumerate(polygon):
            q = polygon[(i + 1) % 3]
            if p[2] <= 0:
                kept.append(p)
            if (p[2] < 0) != (q[2] < 0):
                kept.append(p + (q - p) * (p[2] / (p[2] - q[2])))
        for b, c in zip(kept[1:-1], kept[2:]):
            normal = np.cross(b - kept[0], c - kept[0])[2] / 2
            volume += normal * (kept[0][2] + b[2] + c[2]) / 3
            area -= normal
    return volume, area


def measure(client: contactd.Client, orientations: int = 9) -> dict:
    vertices, triangles = icosphere(1.0, 5)
    vertices = np.float32(vertices).astype(float)
    ball = client.register_mesh(vertices, triangles)
    slab = client.register_mesh(*box((-3.0, -3.0, -1.0), (3.0, 3.0, 0.0)))
    rng = np.random.default_rng(1)
    turns = [rotation(rng.normal(size=3)) for _ in range(orientations)]
    out = {"depth": np.array(DEPTHS)}
    for name, settings in METHODS.items():
        scene = client.open_scene(**settings)
        scene.add_body(slab, pose=np.eye(4))
        body = scene.add_body(ball, pose=np.eye(4))
        errors = np.zeros((len(DEPTHS), 2))
        for i, depth in enumerate(DEPTHS):
            for turn in turns:
                turned = vertices @ turn.T
                z = -depth - turned[:, 2].min()
                volume, area = below_plane(turned + [0, 0, z], triangles)
                (contact,) = scene.step(poses={body: at(0, 0, z, turn)}, want="frame").contacts
                push = -contact.generalized_gradient(body)[2]
                errors[i] = np.maximum(errors[i], [abs(contact.volume / volume - 1), abs(push / area - 1)])
        out[name] = {"volume": errors[:, 0], "force": errors[:, 1]}
        scene.close()
    return out


def plot(axes, data: dict) -> None:
    for name in METHODS:
        for of, style in (("volume", "-o"), ("force", "--s")):
            axes.loglog(data["depth"], np.maximum(data[name][of], 1e-16), style, label=f"{name}: {of}")
    axes.set(title="A ball rests on a slab", xlabel="depth, m", ylabel="largest relative error")
    axes.legend()


def numbers(data: dict) -> dict[str, float]:
    return {f"error of the force at 1e-5 m, {name}": float(data[name]["force"][0]) for name in METHODS}
