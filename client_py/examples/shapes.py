"""Closed triangle meshes of any detail for the examples: torus, blob, box, bricks, bolt and nut. Vertices (n, 3) float64, triangles (m, 3)."""

from __future__ import annotations

from typing import Callable

import numpy as np

Mesh = tuple[np.ndarray, np.ndarray]


def torus(major: float, minor: float, around: int = 96, across: int = 48) -> Mesh:
    """Around the z axis; 2 * around * across triangles."""
    u, v = np.meshgrid(np.arange(around), np.arange(across), indexing="ij")
    a, b = 2 * np.pi * u / around, 2 * np.pi * v / across
    ring = major + minor * np.cos(b)
    vertices = np.stack([ring * np.cos(a), ring * np.sin(a), minor * np.sin(b)], -1).reshape(-1, 3)
    index = lambda i, j: (i % around) * across + j % across
    p, q, r, s = index(u, v), index(u + 1, v), index(u + 1, v + 1), index(u, v + 1)
    return vertices, np.concatenate([np.stack(t, -1).reshape(-1, 3) for t in ((p, q, r), (p, r, s))])


def icosphere(radius: float = 1.0, level: int = 4) -> Mesh:
    """20 * 4^level triangles."""
    phi = (1 + 5**0.5) / 2
    vertices = np.array([[-1, phi, 0], [1, phi, 0], [-1, -phi, 0], [1, -phi, 0], [0, -1, phi], [0, 1, phi],
                         [0, -1, -phi], [0, 1, -phi], [phi, 0, -1], [phi, 0, 1], [-phi, 0, -1], [-phi, 0, 1]])
    triangles = np.array([[0, 11, 5], [0, 5, 1], [0, 1, 7], [0, 7, 10], [0, 10, 11], [1, 5, 9], [5, 11, 4], [11, 10, 2],
                          [10, 7, 6], [7, 1, 8], [3, 9, 4], [3, 4, 2], [3, 2, 6], [3, 6, 8], [3, 8, 9], [4, 9, 5],
                          [2, 4, 11], [6, 2, 10], [8, 6, 7], [9, 8, 1]])
    for _ in range(level):
        edges = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1)
        unique, inverse = np.unique(edges, axis=0, return_inverse=True)
        middle = len(vertices) + inverse.reshape(3, -1).T
        vertices = np.concatenate([vertices, vertices[unique].mean(1)])
        a, b, c = triangles.T
        ab, bc, ca = middle.T
        triangles = np.concatenate([np.stack(t, 1) for t in ((a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca))])
        vertices /= np.linalg.norm(vertices, axis=1, keepdims=True)
    return radius * vertices / np.linalg.norm(vertices, axis=1, keepdims=True), triangles


def blob(radius: float = 1.0, level: int = 4, bumps: float = 0.06) -> Mesh:
    """A sphere with smooth bumps."""
    vertices, triangles = icosphere(1.0, level)
    x, y, z = vertices.T
    r = 1 + bumps * (np.sin(5 * x + 1) * np.cos(4 * y) + np.sin(6 * z) * np.cos(5 * x) + np.cos(7 * y + 2 * z)) / 2
    return radius * r[:, None] * vertices, triangles


def box(lo: tuple[float, float, float], hi: tuple[float, float, float]) -> Mesh:
    vertices = np.array([[(lo, hi)[i][0], (lo, hi)[j][1], (lo, hi)[k][2]]
                         for i in (0, 1) for j in (0, 1) for k in (0, 1)], float)
    triangles = np.array([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6],
                          [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]])
    return vertices, triangles


def bricks(filled: np.ndarray, size: tuple[float, float, float]) -> Mesh:
    """The surface of those bricks of a grid, about its middle, that are filled. Bricks that meet must share a face.

    filled: (i, j, k) booleans. size: m, of a brick.
    """
    padded = np.pad(np.asarray(filled, bool), 1)
    corners, shape = [], np.array(padded.shape)
    for axis in range(3):
        u, v = np.eye(3, dtype=int)[[(axis + 1) % 3, (axis + 2) % 3]]
        for side in (0, 1):
            outside = np.roll(padded, 1 - 2 * side, axis)
            at = np.argwhere(padded & ~outside) + side * np.eye(3, dtype=int)[axis]
            quad = np.stack([at, at + u, at + u + v, at + v], 1)
            corners.append(quad if side else quad[:, ::-1])
    used, quads = np.unique(np.concatenate(corners).reshape(-1, 3), axis=0, return_inverse=True)
    quads = quads.reshape(-1, 4)
    return (used - shape / 2) * size, np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])


def stool(width: float = 0.3, height: float = 0.3) -> Mesh:
    """A square plate on four feet, a third of its width each."""
    filled = np.ones((3, 3, 3))
    filled[1, :, :2] = filled[:, 1, :2] = 0
    return bricks(filled, (width / 3, width / 3, height / 3))


PITCH = 0.4  # m along the axis a turn, of bolt and nut


def thread(height: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """m, the radius of the bolt's surface: a sine wave of one turn a pitch."""
    return 0.5 + 0.06 * np.sin(2 * np.pi * height / PITCH - angle)


def tube(ends: tuple[float, float], radius: Callable[[np.ndarray, np.ndarray], np.ndarray], around: int, along: int) -> Mesh:
    """An open tube, its outside facing away from the axis: (along + 1, around) vertices, in rings."""
    z, a = np.meshgrid(np.linspace(*ends, along + 1), 2 * np.pi * np.arange(around) / around, indexing="ij")
    r = radius(z, a)
    i, j = np.meshgrid(np.arange(along), np.arange(around), indexing="ij")
    at_ = lambda i, j: i * around + j % around
    p, q, s, t = at_(i, j), at_(i, j + 1), at_(i + 1, j + 1), at_(i + 1, j)
    faces = np.concatenate([np.stack(of, -1).reshape(-1, 3) for of in ((p, q, s), (p, s, t))])
    return np.stack([r * np.cos(a), r * np.sin(a), z], -1).reshape(-1, 3), faces


def bolt(around: int, ends: tuple[float, float] = (-1.5, 1.1)) -> Mesh:
    """Along z, of `around` edges a turn; 0.5 m thick."""
    along = round(around * (ends[1] - ends[0]) / 2.5)
    vertices, faces = tube(ends, thread, around, along)
    n, j = len(vertices), np.arange(around)
    k, top = (j + 1) % around, along * around
    caps = [np.stack([k, j, np.full(around, n)], 1), np.stack([top + j, top + k, np.full(around, n + 1)], 1)]
    return np.concatenate([vertices, [[0, 0, ends[0]], [0, 0, ends[1]]]]), np.concatenate([faces, *caps])


def nut(around: int, gap: float = 0.01, ends: tuple[float, float] = (-0.3, 0.3)) -> Mesh:
    """A round nut for the bolt, `gap` m from its thread."""
    along = round(around * (ends[1] - ends[0]) / 2.5)
    inner, faces = tube(ends, lambda z, a: thread(z, a) + gap, around, along)
    outer, other = tube(ends, lambda z, a: np.full_like(z, 0.8), around, along)
    n, j = len(inner), np.arange(around)
    k, top = (j + 1) % around, along * around
    rims = []
    for base, flip in ((0, False), (top, True)):
        i, o, p, q = base + j, n + base + j, base + k, n + base + k
        two = [np.stack([i, p, q], 1), np.stack([i, q, o], 1)]
        rims += [of[:, ::-1] if flip else of for of in two]
    return np.concatenate([inner, outer]), np.concatenate([faces[:, ::-1], other + n, *rims])


def volume(mesh: Mesh) -> float:
    a, b, c = np.moveaxis(mesh[0][mesh[1]], 1, 0)
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)
