"""Random contacts for the experiments with voxel trees: balls and boxes whose contacts have closed forms, real meshes, and
how far an answer is from the true normal and point."""

from __future__ import annotations

import os
import pathlib
from typing import Callable, NamedTuple

import contactd
import numpy as np
from motion import at
from shapes import Mesh, box, icosphere, volume

from sim.quaternion import to_matrix

MESHES = pathlib.Path(os.environ.get("CONTACTD_MESHES",
                                     pathlib.Path(__file__).resolve().parents[2] / ".." / "shared" / "meshes"))
SCANS = ("spot_6k.ply", "bunny_7k.ply", "fertility_9k.ply", "femur_8k.ply", "hand_16k.ply", "rockerarm_20k.ply")
APART = 8.0  # m between pairs in a scene: more than two scans in contact, of 2 m each, reach
RADII = (1.0, 0.6)  # m
SIDES = np.random.default_rng(7).uniform(0.6, 1.8, (12, 3))  # m
DEPTHS = (0.02, 0.2)  # of the smaller radius or half side


Answer = tuple[np.ndarray, np.ndarray]  # normal, and point in m


class Case(NamedTuple):
    """A pair of bodies in contact, and what is true of it."""

    meshes: tuple[str, str]
    poses: tuple[np.ndarray, np.ndarray]
    normal: np.ndarray  # pushes the first body out
    point: np.ndarray  # m, the intersection's centre of gravity
    size: float  # m, the smaller body's radius or half of its longest side


def ball(radius: float) -> Mesh:
    """Of the sphere's volume, so that its facets lie on both sides of the sphere."""
    vertices, triangles = icosphere(radius, 4)
    return vertices * (4 / 3 * np.pi * radius**3 / volume((vertices, triangles))) ** (1 / 3), triangles


def shapes() -> dict[str, Mesh]:
    out = {f"ball {i}": ball(radius) for i, radius in enumerate(RADII)}
    return out | {f"box {i}": box(tuple(-side / 2), tuple(side / 2)) for i, side in enumerate(SIDES)}


def random_turn(rng: np.random.Generator) -> np.ndarray:
    q = rng.normal(size=4)
    return to_matrix(q / np.linalg.norm(q))


def cap(radius: float, height: float) -> tuple[float, float]:
    """Volume of a ball's cap, and the distance of its centre of gravity from the ball's centre."""
    return np.pi * height**2 * (3 * radius - height) / 3, 3 * (2 * radius - height) ** 2 / (4 * (3 * radius - height))


def two_balls(rng: np.random.Generator) -> Case:
    i, j = rng.integers(len(RADII), size=2)
    r, s = RADII[i], RADII[j]
    distance = r + s - rng.uniform(*DEPTHS) * min(r, s)
    normal = random_turn(rng)[0]
    rim = (distance**2 + s**2 - r**2) / (2 * distance)  # along the line of centres, from the second one
    (volume_a, from_a), (volume_b, from_b) = cap(r, r - distance + rim), cap(s, s - rim)
    middle = (volume_b * from_b + volume_a * (distance - from_a)) / (volume_a + volume_b)
    poses = at(*(distance * normal), random_turn(rng)), at(turn=random_turn(rng))
    return Case((f"ball {i}", f"ball {j}"), poses, normal, middle * normal, min(r, s))


def random_face(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A normal of a box in its own axes, and which axes lie in the face."""
    axis = rng.integers(3)
    return rng.choice((-1.0, 1.0)) * np.eye(3)[axis], np.arange(3) != axis


def ball_on_face(rng: np.random.Generator) -> Case | None:
    """A ball that reaches into a face of a box, away from its edges."""
    i, j = rng.integers(len(RADII)), rng.integers(len(SIDES))
    r, half = RADII[i], SIDES[j] / 2
    normal, free = random_face(rng)
    depth = rng.uniform(*DEPTHS) * min(r, half.min())
    rim = np.sqrt(depth * (2 * r - depth))
    if (half[free] < rim).any():
        return None
    foot = normal * half
    foot[free] = rng.uniform(rim - half[free], half[free] - rim)
    centre = foot + (r - depth) * normal
    turn = random_turn(rng)
    return Case((f"ball {i}", f"box {j}"), (at(*(turn @ centre), random_turn(rng)), at(turn=turn)), turn @ normal,
                turn @ (centre - cap(r, depth)[1] * normal), min(r, half.max()))


def corner_on_face(rng: np.random.Generator) -> Case | None:
    """A box that reaches with one corner into a face of another: they share a tetrahedron."""
    i, j = rng.integers(len(SIDES), size=2)
    half, other = SIDES[i] / 2, SIDES[j] / 2
    normal, free = random_face(rng)
    of, turn = random_turn(rng), random_turn(rng)
    signs = -np.sign(of.T @ normal)  # of the corner that is lowest along the normal
    edges = -(of * signs).T  # from this corner
    depth = rng.uniform(*DEPTHS) * min(half.min(), other.min())
    lengths = depth / (edges @ normal)  # to where the edges leave the face
    if (lengths > 2 * half).any():
        return None
    corners = np.vstack([np.zeros(3), edges * lengths[:, None]]) - depth * normal
    low, high = corners[:, free].min(0), corners[:, free].max(0)
    if (high - low > 2 * other[free]).any():
        return None
    foot = normal * other
    foot[free] = rng.uniform(-other[free] - low, other[free] - high)
    centre = foot - depth * normal - of @ (signs * half)
    return Case((f"box {i}", f"box {j}"), (at(*(turn @ centre), turn @ of), at(turn=turn)), turn @ normal,
                turn @ (foot + corners.mean(0)), min(half.max(), other.max()))


KINDS: dict[str, Callable[[np.random.Generator], Case | None]] = {
    "two balls": two_balls, "ball on face": ball_on_face, "corner on face": corner_on_face}


def random_cases(kind: str, n: int, rng: np.random.Generator) -> list[Case]:
    out: list[Case] = []
    while len(out) < n:
        case = KINDS[kind](rng)
        if case is not None:
            out.append(case)
    return out


class Scene:
    """All pairs in one scene, far from each other."""

    def __init__(self, client: contactd.Client, cases: list[Case], meshes: dict[str, contactd.Mesh]) -> None:
        self.scene = client.open_scene(method="exact")
        self.cases = cases
        self.shifts = APART * np.stack(np.unravel_index(np.arange(len(cases)), (32, 32, 32)), 1)
        self.number: dict[int, int] = {}  # of the pair, by its first body's id
        for i, (case, shift) in enumerate(zip(cases, self.shifts)):
            for mesh, pose in zip(case.meshes, case.poses):
                body = self.scene.add_body(meshes[mesh], pose=at(*(pose[:3, 3] + shift), pose[:3, :3]))
                self.number[body.id] = i

    def answers(self, answer_of: Callable, **settings) -> dict[int, Answer]:
        """Normal and point of each pair's contact, where answer_of finds one."""
        self.scene.configure(**settings)
        out = {}
        for contact in self.scene.step(want="frame").contacts:
            answer = answer_of(contact)
            if answer is not None:
                number = self.number[contact.bodies[0].id]
                out[number] = answer[0], answer[1] - self.shifts[number]
        return out

    def errors(self, answers: dict[int, Answer]) -> np.ndarray:
        """(n, 2) degrees between the normals; distance of the points, relative to the smaller body's size."""
        return np.array([(angle(normal, self.cases[i].normal),
                          np.linalg.norm(point - self.cases[i].point) / self.cases[i].size)
                         for i, (normal, point) in sorted(answers.items())]).reshape(-1, 2)


def angle(a: np.ndarray, b: np.ndarray) -> float:
    """Degrees."""
    return float(np.degrees(np.arctan2(np.linalg.norm(np.cross(a, b)), a @ b)))


def frame_of(contact: contactd.Contact) -> Answer:
    """Of exact, and of the 6-vector of voxtree."""
    return contact.normal, contact.center


def mean_point(contact: contactd.Contact) -> Answer | None:
    """All points of a contact averaged into one; None: it has none."""
    points = contact.points
    normal = points.weight @ points.normal
    length = np.linalg.norm(normal)
    return (normal / length, points.weight @ points.position) if length > 0 else None


def random_scans(client: contactd.Client, n: int, rng: np.random.Generator,
                 meshes: dict[str, contactd.Mesh]) -> list[Case]:
    """Pairs of scans that share 10^-4 to 0.02 of what a ball of their size holds; the truth is that of exact."""
    names, out = sorted(meshes), []
    while len(out) < n:
        tried = []
        for _ in range(min(400, 8 * n)):
            poses = at(*(rng.uniform(0.3, 1.6) * random_turn(rng)[0]), random_turn(rng)), at(turn=random_turn(rng))
            pair = tuple(names[k] for k in rng.integers(len(names), size=2))
            tried.append(Case(pair, poses, np.zeros(3), np.zeros(3), 1.0))
        scene = Scene(client, tried, meshes)
        low, high = 1e-4 * 4 / 3 * np.pi, 0.02 * 4 / 3 * np.pi
        found = scene.answers(lambda contact: frame_of(contact) if low < contact.volume < high else None)
        out += [tried[i]._replace(normal=normal, point=point) for i, (normal, point) in sorted(found.items())]
        scene.scene.close()
    return out[:n]


def register_scans(client: contactd.Client) -> dict[str, contactd.Mesh]:
    """Empty where the scans are not there."""
    if not all((MESHES / name).exists() for name in SCANS):
        return {}
    return {name: client.register_mesh_file(MESHES / name) for name in SCANS}
