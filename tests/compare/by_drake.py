"""by_drake.py - the scenes in Drake: points between convex hulls, hydroelastic contact of tetrahedra, and contactd's forces."""

from __future__ import annotations

import importlib.metadata
import pathlib
import tempfile
from typing import Callable

import numpy as np
import pydrake.all as drake
from worlds import Body, World, mass_properties

NAME, CONTACTS = "Drake", ("hull", "hydroelastic", "contactd")
DT = {"hull": 2e-3, "hydroelastic": 2e-3, "contactd": 5e-4}  # s; contactd's forces are explicit here
MODULUS = 1e8  # Pa over the whole depth, of hydroelastic bodies
DISSIPATION = {"hull": 1.0, "hydroelastic": 20.0, "contactd": 20.0}  # s/m
COARSE = 200  # triangles: a surface with fewer is divided, or its tetrahedra are too few for a pressure
PRESSURE = 2e7  # N/m^3, of contactd's: what steps of 0.5 ms stand


def version() -> str:
    return f"Drake {importlib.metadata.version('drake')}"


def divided(mesh: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The same surface, each triangle in four."""
    vertices, triangles = mesh
    edges = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1)
    unique, inverse = np.unique(edges, axis=0, return_inverse=True)
    ab, bc, ca = len(vertices) + inverse.reshape(3, -1)
    a, b, c = triangles.T
    return (np.concatenate([vertices, vertices[unique].mean(1)]),
            np.concatenate([np.stack(t, 1) for t in ((a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca))]))


def tetrahedra(mesh: tuple[np.ndarray, np.ndarray]) -> str:
    """A VTK file of tetrahedra within the surface, which stays as it is, by gmsh; Drake then divides those that have no pressure."""
    import gmsh

    while len(mesh[1]) < COARSE:
        mesh = divided(mesh)
    gmsh.initialize(interruptible=False)
    try:
        gmsh.option.setNumber("General.Verbosity", 1)
        vertices, triangles = mesh
        gmsh.model.addDiscreteEntity(2, 1)
        gmsh.model.mesh.addNodes(2, 1, list(range(1, len(vertices) + 1)), vertices.ravel().tolist())
        gmsh.model.mesh.addElementsByType(1, 2, [], (triangles + 1).ravel().tolist())
        gmsh.model.geo.addVolume([gmsh.model.geo.addSurfaceLoop([1])])
        gmsh.model.geo.synchronize()
        gmsh.model.mesh.generate(3)
        tags, positions, _ = gmsh.model.mesh.getNodes()
        points = positions.reshape(-1, 3)
        place = {int(tag): k for k, tag in enumerate(tags)}
        _, corners = gmsh.model.mesh.getElementsByType(4)
        cells = [[place[int(tag)] for tag in row] for row in corners.reshape(-1, 4)]
    finally:
        gmsh.finalize()
    if not cells:
        raise RuntimeError("gmsh made no tetrahedra")
    head = f"# vtk DataFile Version 3.0\ntetrahedra\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS {len(points)} double\n"
    body = "".join(" ".join(map(repr, p)) + "\n" for p in points.tolist())
    body += f"CELLS {len(cells)} {5 * len(cells)}\n" + "".join("4 " + " ".join(map(str, c)) + "\n" for c in cells)
    return head + body + f"CELL_TYPES {len(cells)}\n" + "10\n" * len(cells)


def _refined(mesh: tuple[np.ndarray, np.ndarray], folder: pathlib.Path, name: str) -> pathlib.Path:
    (folder / "raw.vtk").write_text(tetrahedra(mesh))
    path = folder / f"{name}.vtk"
    path.write_text(drake.RefineVolumeMeshIntoVtkFileContents(drake.MeshSource(folder / "raw.vtk")))
    return path


def _obj(mesh: tuple[np.ndarray, np.ndarray], folder: pathlib.Path, name: str) -> pathlib.Path:
    path = folder / f"{name}.obj"
    path.write_text("".join(f"v {x!r} {y!r} {z!r}\n" for x, y, z in mesh[0].tolist())
                    + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in mesh[1].tolist()))
    return path


def _properties(world: World, contacts: str) -> drake.ProximityProperties:
    out = drake.ProximityProperties()
    drake.AddContactMaterial(friction=drake.CoulombFriction(world.friction, world.friction), properties=out,
                             dissipation=DISSIPATION[contacts])
    if contacts == "hydroelastic":
        drake.AddCompliantHydroelasticProperties(0.05, MODULUS, out)
    return out


def _register(plant: drake.MultibodyPlant, world: World, contacts: str, folder: pathlib.Path) -> None:
    """The bodies' shapes, and the floor, for Drake's own contacts."""
    files: dict[int, pathlib.Path] = {}
    for body in world.bodies:
        if id(body.mesh) not in files:
            files[id(body.mesh)] = (_refined if contacts == "hydroelastic" else _obj)(body.mesh, folder, f"m{len(files)}")
        plant.RegisterCollisionGeometry(plant.GetBodyByName(body.name), drake.RigidTransform(), drake.Mesh(files[id(body.mesh)]), body.name,
                                        _properties(world, contacts))
    if world.has_floor:
        floor = _properties(world, "hull")
        if contacts == "hydroelastic":
            drake.AddRigidHydroelasticProperties(0.1, floor)
        plant.RegisterCollisionGeometry(plant.world_body(), drake.RigidTransform(), drake.HalfSpace(), "floor", floor)


def _inertia(body: Body) -> drake.SpatialInertia:
    if not body.density:
        return drake.SpatialInertia.SolidSphereWithMass(1.0, 0.1)  # it is welded
    mass, center, i = mass_properties(body)
    about = drake.RotationalInertia(i[0, 0], i[1, 1], i[2, 2], i[0, 1], i[0, 2], i[1, 2])
    return drake.SpatialInertia.MakeFromCentralInertia(mass, center, about)


def prepare(world: World, contacts: str) -> tuple[float, Callable[[], None], Callable[[], np.ndarray]]:
    """A time step, what makes it, and where the bodies are: (b, 7)."""
    dt, builder = DT[contacts], drake.DiagramBuilder()
    model = "hydroelastic" if contacts == "hydroelastic" else "point"
    plant, _ = drake.AddMultibodyPlant(drake.MultibodyPlantConfig(time_step=dt, contact_model=model), builder)
    for body in world.bodies:
        added = plant.AddRigidBody(body.name, _inertia(body))
        if not body.density:
            plant.WeldFrames(plant.world_frame(), added.body_frame(), drake.RigidTransform(body.at))
    with tempfile.TemporaryDirectory() as folder:
        if contacts != "contactd":
            _register(plant, world, contacts, pathlib.Path(folder))
        plant.Finalize()
        if contacts == "contactd":
            import contactd.drake

            contactd.drake.add(builder, plant, {body.name: body.mesh for body in world.bodies}, ground=0.0 if world.has_floor else None,
                               modulus=PRESSURE, friction=world.friction, dissipation=DISSIPATION[contacts])
        diagram = builder.Build()
        simulator = drake.Simulator(diagram)
    context = plant.GetMyMutableContextFromRoot(simulator.get_mutable_context())
    for body in world.bodies:
        if body.density:
            plant.SetFreeBodyPose(context, plant.GetBodyByName(body.name), drake.RigidTransform(body.at))
    simulator.Initialize()
    bodies = [plant.GetBodyByName(body.name) for body in world.bodies]
    steps = [0]

    def step() -> None:
        steps[0] += 1
        simulator.AdvanceTo(steps[0] * dt)

    def poses() -> np.ndarray:
        found = [plant.EvalBodyPoseInWorld(context, body) for body in bodies]
        return np.array([[*pose.translation(), *np.roll(pose.rotation().ToQuaternion().wxyz(), -1)] for pose in found])

    return dt, step, poses
