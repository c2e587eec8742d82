"""What the method `exact` takes: by the number of triangles, of crossing pairs of triangles, and by depth; LDI at 128² beside
it. Medians of the engine's own time, summed over its threads."""

from __future__ import annotations

from typing import Any

import contactd
import numpy as np
from motion import at, rotation
from shapes import box, icosphere, torus

METHODS = {"exact": {"method": "exact"}, "LDI 128²": {"resolution": 128}}


def time_of(scene: contactd.Scene, poses: list[dict[contactd.Body, Any]]) -> tuple[float, float]:
    """ms and crossing pairs (of exact), medians over the poses; each is new, so that nothing is kept from the last."""
    taken = []
    for pose in poses:
        result = scene.step(poses=pose, want=("frame", "gradient"))
        t = result.timings
        taken.append((1e3 * sum(t[phase] for phase in ("upload", "broadphase", "raster", "span", "contact")), result.fragments))
    return tuple(np.median(taken[1:], axis=0))


def two_tori(client: contactd.Client, triangles: int, settings: dict, repeats: int) -> tuple[float, float]:
    """Two tori, linked and overlapping."""
    across = max(8, int(np.sqrt(triangles / 4)))
    mesh = client.register_mesh(*torus(0.6, 0.25, 2 * across, across))
    scene = client.open_scene(**settings)
    a, b = scene.add_body(mesh, pose=np.eye(4)), scene.add_body(mesh, pose=np.eye(4))
    turn = rotation(np.array([1.3, 0.2, 0.1]))
    out = time_of(scene, [{a: np.eye(4), b: at(0.5 + 1e-4 * i, 0.05, 0.02, turn)} for i in range(repeats + 1)])
    scene.close()
    mesh.remove()
    return out


def by_triangles(client: contactd.Client, most: int, repeats: int) -> dict:
    counts = [n for n in (1000, 4000, 16000, 64000, 250000, 1000000, 4000000) if n <= most]
    out = {"triangles": np.array(counts)}
    for name, settings in METHODS.items():
        out[name] = np.array([two_tori(client, n // 2, settings, repeats)[0] for n in counts])
    return out


def rough_balls(level: int, share: float) -> tuple[Any, Any]:
    """A rough ball, and another that is as large in a cap of this share of its surface, where their triangles cross in a
    tangle; elsewhere it is smaller."""
    vertices, triangles = icosphere(0.5, level)
    rng = np.random.default_rng(5)
    rough = [vertices * (1 + 5e-4 * rng.uniform(-1, 1, (len(vertices), 1))) for _ in range(2)]
    rough[1] = np.where(vertices[:, 2:] > 0.5 - share, rough[1], 0.97 * vertices)
    return (rough[0], triangles), (rough[1], triangles)


def by_crossings(client: contactd.Client, level: int, repeats: int) -> dict:
    rows: dict[str, list] = {name: [] for name in METHODS}
    crossings = []
    for share in (1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0):
        meshes = [client.register_mesh(*ball) for ball in rough_balls(level, share)]
        for name, settings in METHODS.items():
            scene = client.open_scene(**settings)
            a, b = (scene.add_body(mesh, pose=np.eye(4)) for mesh in meshes)
            ms, found = time_of(scene, [{a: np.eye(4), b: at(1e-7 * i)} for i in range(repeats + 1)])
            rows[name].append(ms)
            if name == "exact":
                crossings.append(found)
            scene.close()
    return {"crossings": np.array(crossings)} | {name: np.array(of) for name, of in rows.items()}


def by_depth(client: contactd.Client, level: int, repeats: int) -> dict:
    """A ball pressed into a slab."""
    ball, slab = client.register_mesh(*icosphere(0.5, level)), client.register_mesh(*box((-1.0, -1.0, -2.0), (1.0, 1.0, 0.0)))
    depths = np.array([1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 0.9])
    turn = rotation(np.array([0.3, 0.9, 0.4]))
    out = {"depth": depths}
    for name, settings in METHODS.items():
        scene = client.open_scene(**settings)
        scene.add_body(slab, pose=np.eye(4))
        b = scene.add_body(ball, pose=np.eye(4))
        out[name] = np.array([time_of(scene, [{b: at(0.01 * i, 0, 0.5 - d, turn)} for i in range(repeats + 1)])[0]
                              for d in depths])
        scene.close()
    return out


def measure(client: contactd.Client, most: int = 4_000_000, level: int = 6, repeats: int = 9) -> dict:
    return {"triangles": by_triangles(client, most, repeats), "crossings": by_crossings(client, level, repeats),
            "depth": by_depth(client, level, repeats)}


PANELS = 3


def plot(axes, data: dict) -> None:
    for where, key, label in zip(axes, data, ("triangles of both bodies", "pairs of triangles that cross", "depth, m")):
        of = data[key]
        for name in METHODS:
            where.loglog(of[key], of[name], "-o", label=name)
        where.set(title=f"Time by {key}", xlabel=label, ylabel="ms")
        where.legend()


def numbers(data: dict) -> dict[str, float]:
    out = {}
    for key, of in data.items():
        for name in METHODS:
            out[f"{name}: {of[key][0]:g} {key}, ms"] = float(of[name][0])
            out[f"{name}: {of[key][-1]:g} {key}, ms"] = float(of[name][-1])
    return out
