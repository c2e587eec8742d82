"""peers.py - the time of manifold3d for scenes that the method exact is measured on, for bench.py: the only other library
that gives the volume of two meshes' intersection exactly. It gives the volume alone here; exact's time has the gradient in it.

A figure is (id, what it says, unit, the figure to reach, whether less is better), as in bench.py.
"""
import pathlib
import re
import statistics
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
FIGURES = [
    ("manifold_bunny_cube_deforming", "manifold3d: 69.7k triangles against a cube, all positions new, as a multiple of exact's time", "x", 50.0, False),
    ("manifold_armadillos", "manifold3d: two bodies of 346k triangles, deep, rigid, as a multiple of exact's time on 2 threads", "x", 25.0, False),
]


def pose(name):
    """That of bench_engine: 3 x 4, or the identity."""
    for source in ("poses.h", "bench_engine.c"):
        if found := re.search(rf"double {name}\[12\] = \{{(.*?)\}}", (HERE / source).read_text(), re.DOTALL):
            return np.array([float(x) for x in found[1].split(",")]).reshape(3, 4)
    return np.eye(3, 4)


def read_ply(path):
    """A binary PLY file of float positions and triangles."""
    header, body = path.read_bytes().split(b"end_header\n", 1)
    counts = {words[1]: int(words[2]) for words in (line.split() for line in header.decode().splitlines())
              if words[0] == "element"}
    faces = np.frombuffer(body[12 * counts["vertex"]:], [("n", "u1"), ("corners", "<u4", 3)], counts["face"])
    return np.frombuffer(body, "<f4", 3 * counts["vertex"]).reshape(-1, 3), faces["corners"]


def measure(meshes, engine, seconds):
    """figure id -> (ratio, (low, high), None, None). Empty where manifold3d or the meshes are missing."""
    try:
        import manifold3d
    except ImportError:
        return {}
    files = {name: pathlib.Path(meshes) / f"{name}.ply" for name in ("bunny_capped", "armadillo_346k")}
    if not all(path.exists() for path in files.values()):
        return {}

    def solid(positions, triangles, at):
        moved = positions @ at[:, :3].T + at[:, 3]
        return manifold3d.Manifold(manifold3d.Mesh64(moved, triangles.astype(np.uint64)))

    bunny, armadillo = (read_ply(files[name]) for name in ("bunny_capped", "armadillo_346k"))
    bunny_pose = pose("bunny_pose")
    cube = manifold3d.Manifold.cube([2, 2, 2], True).transform(pose("cube_pose"))
    still, other = solid(*armadillo, pose("none")), solid(*armadillo, pose("armadillo_pose"))
    ways = {  # a mesh whose positions are new has to be made again
        "manifold_bunny_cube_deforming": lambda: (solid(*bunny, bunny_pose) ^ cube).volume(),
        "manifold_armadillos": lambda: (still ^ other).volume(),
    }
    found = {}
    for name, compute in ways.items():
        run = next(r for r in engine if r["scene"] == name.replace("manifold", "exact") and r["method"] == "exact")
        if abs(compute() / run["volume"] - 1) > 0.1:  # the bench moves its bodies a little
            raise SystemExit(f"bench: {name} is not the scene of {run['scene']}: {compute()} m^3, not {run['volume']}")
        ms, end = [], time.monotonic() + seconds
        while len(ms) < 5 or time.monotonic() < end:
            begin = time.monotonic()
            compute()
            ms.append(1e3 * (time.monotonic() - begin))
        low, *_, high = statistics.quantiles(ms, n=10, method="inclusive")
        ours = run["ms"]["median"]
        found[name] = (statistics.median(ms) / ours, (low / ours, high / ours), None, None)
    return found
