"""Meshes and exact answers for end-to-end tests: boxes, spheres, poses."""

from __future__ import annotations

import sys

import numpy as np

import conftest

sys.path.insert(0, str(conftest.ROOT / "client_py" / "examples"))

from shapes import blob, box, icosphere, torus, volume  # noqa: E402, F401

UNIT_BOX = box((-0.5, -0.5, -0.5), (0.5, 0.5, 0.5))


def moved(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, 3] = x, y, z
    return pose


def turned(rng: np.random.Generator, shift: float) -> np.ndarray:
    """A random rotation and a random shift of that length."""
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q *= np.sign(np.diag(r))
    if np.linalg.det(q) < 0:
        q[:, 0] *= -1
    pose = np.eye(4)
    pose[:3, :3] = q
    direction = rng.normal(size=3)
    pose[:3, 3] = shift * direction / np.linalg.norm(direction)
    return pose


def place(pose: np.ndarray, vertices: np.ndarray) -> np.ndarray:
    return vertices @ pose[:3, :3].T + pose[:3, 3]


def as_obj(vertices: np.ndarray, triangles: np.ndarray) -> str:
    """The text of an OBJ file."""
    return "".join("v %r %r %r\n" % tuple(map(float, v)) for v in vertices) + \
        "".join("f %d %d %d\n" % tuple(k + 1 for k in t) for t in triangles)
