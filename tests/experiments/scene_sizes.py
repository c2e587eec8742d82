"""Wang 2012, Table 1: times by phase of pairs of 332k, 1.2M and 4.4M triangles.

The paper times a bolt with its nut and colliding armadillos, images of 512 x 512, on a GPU of 2012. Ours are two tori of
which one lies on the other, and the CPU of the machine that runs this, with a tolerance of 1 % of the volume, published. The
first step after bodies are added also makes what lasts as long as they do; it is left out.

Phases differ where the methods do. The paper's "raster" draws edges into the image and finds the sampling resolutions; its
"casting" also tests for transient edges and refines. Here refinement casts a tile's ray to bound the tile, so that both are one
phase, "raster and casting"; "spans" turns the rays of the last tiles into sums. The paper updates bounding volume
hierarchies for its ray tracer; there are none here, as rays of a tile only look at the triangles over its pixel. "Read
back" here makes entries and frames and writes the answer. Our images have at most 256 x 256 pixels."""

from __future__ import annotations

import contactd
import numpy as np
from motion import at, rotation
from shapes import torus

TOLERANCE = 1e-2  # of the volume
PHASES = {"raster and casting": ("raster",), "spans": ("span",), "read back": ("contact", "download"),
          "upload and boxes": ("upload", "broadphase")}
TABLE = {332_000: (54.3 + 20.0, 52.8, 92_000), 1_200_000: (112.4 + 6.9, 17.5, 44_000),
         4_400_000: (415.9 + 7.8, 32.1, 42_000)}  # triangles: raster and casting ms, read back ms, rays


def name_of(size: int) -> str:
    return f"{size / 1e3:.0f}k triangles"


def measure(client: contactd.Client, sizes: tuple[int, ...] = tuple(TABLE), repeats: int = 5) -> dict:
    """sizes: triangles of each pair, about. The step with the median time counts."""
    out = {}
    for size in sizes:
        n = round((size / 4) ** 0.5)
        mesh = client.register_mesh(*torus(0.6, 0.35, n, n))
        scene = client.open_scene(tolerance_rel=TOLERANCE)
        scene.add_body(mesh, pose=np.eye(4))
        body = scene.add_body(mesh, pose=np.eye(4))
        steps = []
        for i in range(repeats + 1):
            result = scene.step(poses={body: at(0.5, 0.0, 0.65 + 1e-4 * i, rotation(np.array([0.1, 0.5, 0.0])))},
                                want=("frame", "gradient"))
            (contact,) = result.contacts
            ms = {name: 1e3 * sum(result.timings[phase] for phase in of) for name, of in PHASES.items()}
            steps.append(ms | {"rays": result.rays, "bound / volume": contact.error_bound / contact.volume,
                               "reached": float(result.ended == "completed")})
        steps = sorted(steps[1:], key=lambda of: sum(of[name] for name in PHASES))
        out[name_of(size)] = steps[len(steps) // 2]
        scene.close()
        mesh.remove()
    return out


def plot(axes, data: dict) -> None:
    bottom = np.zeros(len(data))
    for phase in PHASES:
        heights = np.array([of[phase] for of in data.values()])
        axes.bar(range(len(data)), heights, bottom=bottom, label=phase)
        bottom += heights
    axes.set_xticks(range(len(data)), list(data))
    for i, name in enumerate(data):
        for casting, back, _ in (row for size, row in TABLE.items() if name_of(size) == name):
            axes.plot([i], [casting + back], "k_", markersize=40)
    axes.set(title="A step by phase (dash: the paper's GPU, without its BVH)", ylabel="ms")
    axes.legend()


def numbers(data: dict) -> dict[str, float]:
    return {f"{name}: {what}{', ms' if what in PHASES else ''}": float(value) for name, of in data.items()
            for what, value in of.items()}


def paper_of(size: int, row: tuple[float, float, int]) -> dict[str, str]:
    name = name_of(size)
    return {f"{name}: raster and casting": f"{row[0]:g}", f"{name}: read back": f"{row[1]:g}", f"{name}: rays": f"{row[2]:,}"}


PAPER = {key: text for size, row in TABLE.items() for key, text in paper_of(size, row).items()}
