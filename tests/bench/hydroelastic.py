"""Contact surfaces of the same meshes by Drake's hydroelastic contact and by contactd, in turns, on one thread: how long one takes,
and what both say of it. Drake's bodies are compliant, of the tetrahedra between a ball's triangles and its middle; contactd's are of
the law "pressure", with wrench and surface. What Python adds to either is left out. PyPI's drake is needed: pip install drake."""

from __future__ import annotations

import argparse
import importlib.metadata
import pathlib
import statistics
import sys
import tempfile
import time
from typing import Callable

import contactd
import numpy as np
import pydrake.all as drake

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client_py" / "examples"))
from shapes import icosphere  # noqa: E402

MODULUS = 1e7


def tetrahedra(vertices: np.ndarray, triangles: np.ndarray, path: pathlib.Path) -> pathlib.Path:
    """A VTK file of the tetrahedra between a star-shaped surface and the origin."""
    n = len(vertices)
    points = "\n".join(" ".join(map(repr, map(float, p))) for p in [*vertices, (0, 0, 0)])
    cells = "\n".join(f"4 {n} {a} {b} {c}" for a, b, c in triangles)
    path.write_text(f"# vtk DataFile Version 3.0\nball\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS {n + 1} double\n{points}\n"
                    f"CELLS {len(triangles)} {5 * len(triangles)}\n{cells}\nCELL_TYPES {len(triangles)}\n" + "10\n" * len(triangles))
    return path


def by_drake(mesh: tuple[np.ndarray, np.ndarray], other: str, folder: pathlib.Path) -> Callable[[np.ndarray], tuple[float, int, float]]:
    """Takes a ball's place; gives seconds, polygons and area."""
    builder = drake.DiagramBuilder()
    plant, graph = drake.AddMultibodyPlantSceneGraph(builder, 0.0)
    shape = drake.Mesh(str(tetrahedra(*mesh, folder / "ball.vtk")))

    def properties(is_rigid: bool) -> drake.ProximityProperties:
        out = drake.ProximityProperties()
        drake.AddContactMaterial(friction=drake.CoulombFriction(0, 0), properties=out)
        if is_rigid:
            drake.AddRigidHydroelasticProperties(0.1, out)
        else:
            drake.AddCompliantHydroelasticProperties(0.1, MODULUS, out)
        return out

    body = plant.AddRigidBody("ball", drake.SpatialInertia.SolidSphereWithMass(1, 1))
    plant.RegisterCollisionGeometry(body, drake.RigidTransform(), shape, "ball", properties(False))
    if other == "ball":
        fixed = plant.AddRigidBody("fixed", drake.SpatialInertia.SolidSphereWithMass(1, 1))
        plant.RegisterCollisionGeometry(fixed, drake.RigidTransform(), shape, "fixed", properties(False))
        plant.WeldFrames(plant.world_frame(), fixed.body_frame())
    else:
        plant.RegisterCollisionGeometry(plant.world_body(), drake.RigidTransform([0, 0, -0.5]), drake.Box(4, 4, 1), "slab", properties(True))
    plant.Finalize()
    diagram = builder.Build()
    context = diagram.CreateDefaultContext()
    of_plant, of_graph = plant.GetMyContextFromRoot(context), graph.GetMyContextFromRoot(context)

    def step(place: np.ndarray) -> tuple[float, int, float]:
        plant.SetFreeBodyPose(of_plant, body, drake.RigidTransform(place))
        query = graph.get_query_output_port().Eval(of_graph)
        start = time.perf_counter()
        (surface,) = query.ComputeContactSurfaces(drake.HydroelasticContactRepresentation.kPolygon)
        seconds = time.perf_counter() - start
        return seconds, surface.num_faces(), surface.total_area()

    return step


def by_contactd(engine: contactd.Engine, mesh: tuple[np.ndarray, np.ndarray], other: str) -> Callable[[np.ndarray], tuple[float, int, float]]:
    scene = engine.open_scene(law="pressure")
    if other == "ball":
        scene.add_body(engine.register_mesh(*mesh), pose=np.eye(4), modulus=MODULUS)
    else:
        scene.add_box((4, 4, 1), pose=[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, -0.5], [0, 0, 0, 1]], modulus=1e3 * MODULUS)
    ball = scene.add_body(engine.register_mesh(*mesh), pose=np.eye(4), modulus=MODULUS)

    def step(place: np.ndarray) -> tuple[float, int, float]:
        pose = np.eye(4)
        pose[:3, 3] = place
        result = scene.step(poses={ball: pose}, want=("frame", "surface"))
        seconds = sum(taken for phase, taken in result.timings.items() if phase != "queue")
        surface = result.contacts[0].surface
        return seconds, len(surface.area), float(surface.area.sum())

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=40)
    turns = parser.parse_args().turns
    print(f"Drake {importlib.metadata.version('drake')}; medians of {turns} turns, each at another place (least, most)")
    with contactd.Engine(threads=1) as engine, tempfile.TemporaryDirectory() as folder:
        for other in ("slab", "ball"):
            for level in (3, 4, 5):
                mesh = icosphere(0.5, level)
                steps = {"Drake": by_drake(mesh, other, pathlib.Path(folder)), "contactd": by_contactd(engine, mesh, other)}
                rows: dict[str, list] = {name: [] for name in steps}
                for k in range(turns):
                    place = np.array([1e-3 * k, 7e-4 * k, 0.48 if other == "slab" else 0.96])
                    for name, step in steps.items():
                        rows[name].append(step(place))
                for name, of in rows.items():
                    taken = [1e6 * row[0] for row in of]
                    print(f"ball of {len(mesh[1])} triangles on a {other}: {name:8s} {statistics.median(taken):8.0f} us ({min(taken):.0f}-{max(taken):.0f}), "
                          f"{statistics.median(row[1] for row in of):.0f} polygons, {statistics.median(row[2] for row in of):.5f} m^2")
                ratio = statistics.median(a[0] / b[0] for a, b in zip(rows["Drake"], rows["contactd"]))
                print(f"    contactd is {ratio:.1f} times as fast")


if __name__ == "__main__":
    main()
