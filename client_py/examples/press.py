#!/usr/bin/env python3
"""A soft body on a plate, pressed and twisted by a rigid tool: a simulator that gets its contacts from contactd.

Every step sends the body's vertices and the tool's pose, and gets volumes, sparse gradients and friction weights back.
Contact forces are f = -k V dV/dx; their stiffness k (dV/dx)(dV/dx)^T goes into the implicit solve as one rank-one term a
contact; Coulomb friction acts on each vertex in proportion to its friction weight.

    press.py --server tcp://127.0.0.1:5555 --steps 300 --csv press.csv --dump out/
"""

from __future__ import annotations

import argparse
import csv
import pathlib
import sys
import time

import numpy as np

import contactd
import shapes
from contactd.result import PHASES
from soft import SoftBody

H = 0.01  # s, a step
GRAVITY = np.array([0.0, 0.0, -9.81])
FRICTION = 0.6
SIZE = 0.2  # m, the soft body's longest side
YOUNG, POISSON, DENSITY, DAMPING = 2e4, 0.4, 1000.0, 4e-3  # Pa, 1, kg/m^3, s
TAU = 0.1  # s, contacts damp like a spring of this relaxation time
CREEP = 5e-3  # m/s: slower than this, friction is viscous


class Tool:
    """Waits until the body has come to rest, comes down on it, stays down and twists, goes up again; all smooth in time.

    `low`: z of the tool's lowest point; `parked`: z that it waits at; `press`: how far it goes in, of the body's height.
    """

    def __init__(self, low: float, parked: float, press: float, duration: float) -> None:
        self.low, self.parked, self.press, self.duration = low, parked, press, duration
        self.target = np.array([0.0, 0.0, parked])

    def aim(self, surface: np.ndarray, floor: float) -> None:
        """At the middle of the body as it lies now."""
        lo, hi = surface.min(0), surface.max(0)
        self.target[:2] = (lo + hi)[:2] / 2
        self.target[2] = hi[2] - self.low - self.press * (hi[2] - floor)

    def pose(self, t: float) -> np.ndarray:
        s = t / self.duration
        down = _smooth((s - 0.15) / 0.3) - _smooth((s - 0.78) / 0.22)
        angle = 1.2 * _smooth((s - 0.45) / 0.28)
        out = np.eye(4)
        out[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        out[:3, 3] = *self.target[:2], self.parked + down * (self.target[2] - self.parked)
        return out

    def twist(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Linear and angular velocity."""
        a, b = self.pose(t - 1e-4), self.pose(t + 1e-4)
        angle = np.arctan2(b[1, 0], b[0, 0]) - np.arctan2(a[1, 0], a[0, 0])
        return (b[:3, 3] - a[:3, 3]) / 2e-4, np.array([0, 0, angle / 2e-4])


def _smooth(s: float) -> float:
    s = min(max(s, 0.0), 1.0)
    return s * s * s * (10 + s * (6 * s - 15))


class Forces:
    """The contact forces of one step's result on the soft body, and their linearisation for the implicit solve."""

    def __init__(self, body: SoftBody, handle: contactd.Body, result: contactd.StepResult, k: float,
                 twist_of: dict[contactd.Body, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> None:
        self.body = body
        self.force = np.zeros_like(body.nodes)
        self.diagonal = np.zeros_like(body.nodes)
        self.rank_one: list[tuple[np.ndarray, float]] = []  # gradient on nodes, factor
        self.friction: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # nodes, their matrix, tangential projector
        surface = body.surface()
        for contact in result.contacts:
            if handle not in contact.bodies:
                continue
            other = contact.bodies[contact.bodies[0] == handle]
            which, gradient = contact.gradient(handle)
            nodal = body.to_nodes(which, gradient)
            linear, angular, origin = twist_of[other]
            approach = contact.generalized_gradient(other) @ np.concatenate([linear, angular])  # m^3/s, by its motion
            # f = -k (V + TAU dV/dt) g at the end of the step: what the tool's motion adds is known, the rest is implicit.
            self.force -= k * (contact.volume + (H + TAU) * approach) * nodal
            self.rank_one.append((nodal, H * (H + TAU) * k))

            n = contact.normal
            against = linear + np.cross(angular, surface[which] - origin)
            slip = body.at(which, body.velocity) - against
            slip -= np.outer(slip @ n, n)
            pressing = k * contact.volume * np.abs(contact.friction_weights(handle))  # N, of each vertex
            c = FRICTION * pressing / np.maximum(np.linalg.norm(slip, axis=1), CREEP)
            tangential = np.eye(3) - np.outer(n, n)
            nodes, matrix = body.lumped(which, H * c)
            self.friction.append((nodes, matrix, tangential))
            self.diagonal[nodes] += np.outer(matrix.diagonal(), tangential.diagonal())
            self.force += body.to_nodes(which, c[:, None] * (against @ tangential))

    def operator(self, v: np.ndarray) -> np.ndarray:
        out = np.zeros_like(v)
        for g, factor in self.rank_one:
            out += (factor * np.vdot(g, v)) * g
        for nodes, matrix, tangential in self.friction:
            out[nodes] += matrix @ v[nodes] @ tangential
        return out


def load(client: contactd.Client, path: str | None, default: shapes.Mesh, size: float) -> shapes.Mesh:
    """A user's file, laid flat, centred and scaled to `size`, or the default."""
    if path is None:
        return default
    mesh = client.load(path)
    vertices, triangles = mesh.geometry()
    mesh.remove()
    axes = np.linalg.eigh(np.cov(vertices.T.astype(float)))[1][:, ::-1]  # longest extent along x, shortest along z
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    vertices = vertices @ axes
    lo, hi = vertices.min(0), vertices.max(0)
    return (vertices - (lo + hi) / 2) * (size / (hi - lo).max()), np.array(triangles)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default=None, help="address, e.g. tcp://127.0.0.1:5555")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--resolution", type=int, help="ray samples across a contact's window; the server chooses the "
                        "method where absent")
    parser.add_argument("--csv", type=pathlib.Path, help="one line a step")
    parser.add_argument("--dump", type=pathlib.Path, help="folder for the state at the deepest step")
    parser.add_argument("--mesh-a", help="the soft body (GLB, glTF, OBJ, OFF, PLY, STL)")
    parser.add_argument("--mesh-b", help="the tool")
    parser.add_argument("--progress", action="store_true")
    args = parser.parse_args()

    with contactd.connect(args.server, name="press") as client:
        vertices, triangles = load(client, args.mesh_a, shapes.blob(SIZE / 2, 5), SIZE)
        tool_vertices, tool_triangles = load(client, args.mesh_b, shapes.torus(0.28 * SIZE, 0.085 * SIZE, 128, 64),
                                             0.73 * SIZE)
        soft = SoftBody(vertices, triangles, cell=SIZE / 9, young=YOUNG, poisson=POISSON, density=DENSITY)
        floor = vertices[:, 2].min()
        plate = shapes.box((-SIZE, -SIZE, floor - 0.1 * SIZE), (SIZE, SIZE, floor))
        low = tool_vertices[:, 2].min()
        tool = Tool(low, vertices[:, 2].max() - low + 0.02 * SIZE, 0.42, args.steps * H)

        # A contact as large as half of the body's footprint is to give way by a fiftieth of its size under its weight.
        weight = soft.mass.sum() * 9.81
        k = weight / ((0.25 * SIZE) ** 4 * 0.02 * SIZE)

        scene = client.open_scene(resolution=args.resolution, stiffness=k, name="press")
        soft_mesh = client.register_mesh(soft.surface(), triangles, name="soft body")
        tool_mesh = client.register_mesh(tool_vertices, tool_triangles, name="tool")
        plate_mesh = client.register_mesh(*plate, name="plate")
        body = scene.add_body(soft_mesh)
        press = scene.add_body(tool_mesh, pose=tool.pose(0))
        table = scene.add_body(plate_mesh, pose=np.eye(4), ignore=[press])

        if args.dump:
            args.dump.mkdir(parents=True, exist_ok=True)
        rows, solver, began = [], 0, time.monotonic()
        deepest = round(0.74 * args.steps)
        for i in range(args.steps):
            t = i * H
            surface = soft.surface()
            if i == round(0.15 * args.steps):
                tool.aim(surface, floor)
            pose = tool.pose(t)
            result = scene.step(positions={body: surface}, poses={press: pose}, want=("gradient", "friction"))
            if args.dump and i == deepest:
                dump(args.dump / "press.npz", ask_spans(scene),
                     [(surface, triangles), (move(pose, tool_vertices), tool_triangles), plate], (body, press))
            still = np.zeros(3), np.zeros(3), np.zeros(3)
            forces = Forces(soft, body, result, k, {press: (*tool.twist(t), pose[:3, 3]), table: still})
            solver += soft.step(H, forces.force + soft.mass[:, None] * GRAVITY, forces.operator,
                                forces.diagonal, DAMPING)
            if not np.isfinite(soft.nodes).all():
                print(f"press: the simulation diverged at step {i}", file=sys.stderr)
                return 1

            pressed = [c for c in result.contacts if press in c.bodies]
            force = sum(k * c.volume * np.linalg.norm(c.generalized_gradient(press)[:3]) for c in pressed)
            rows.append([i, t, len(result.contacts), sum(c.volume for c in result.contacts), force,
                         result.latency * 1e6, *(result.timings[p] * 1e6 for p in PHASES)])
            if args.progress and (i % 20 == 19 or i == args.steps - 1):
                rate = (i + 1) / (time.monotonic() - began)
                print(f"press: step {i + 1}/{args.steps}, {len(result.contacts)} contacts, tool force {force:6.1f} N, "
                      f"{rate:.0f} steps/s, {solver / (i + 1):.0f} iterations", flush=True)
        if args.csv:
            with args.csv.open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["step", "time", "contacts", "volume", "force", "latency_us"] + [p + "_us" for p in PHASES])
                writer.writerows([f"{x:.9g}" for x in row] for row in rows)
        if not rows[deepest][4] > 0:
            print("press: the tool does not touch the body when it is down", file=sys.stderr)
            return 1
    return 0


def move(pose: np.ndarray, vertices: np.ndarray) -> np.ndarray:
    return vertices @ pose[:3, :3].T + pose[:3, 3]


def ask_spans(scene: contactd.Scene) -> contactd.StepResult:
    """Contacts of the bodies where they are, with spans, which the method "ldi" has; the scene's method stays."""
    method = scene.method
    scene.configure(method="ldi")
    result = scene.step(want="spans")
    if method != "ldi":
        scene.configure(method=method)
    return result


def dump(path: pathlib.Path, result: contactd.StepResult, bodies: list[shapes.Mesh], pair: tuple) -> None:
    """What a picture of this step needs."""
    contact = next((c for c in result.contacts if set(c.bodies) == set(pair)), None)
    arrays = {"spans": contact.spans if contact else np.zeros((0, 2, 3)),
              "axes": contact.span_axes if contact else np.zeros(0)}
    for i, (vertices, triangles) in enumerate(bodies):
        arrays[f"vertices{i}"], arrays[f"triangles{i}"] = vertices, triangles
    np.savez(path, **arrays)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (contactd.ContactdError, OSError) as e:
        print(f"press: {e}", file=sys.stderr)
        sys.exit(1)
