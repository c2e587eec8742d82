"""Unit quaternions (w, x, y, z) as rotations: (4,) arrays."""

from __future__ import annotations

import numpy as np

IDENTITY = np.array([1.0, 0.0, 0.0, 0.0])


def multiply(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """(4,): the rotation q, then p."""
    w = p[0] * q[0] - p[1:] @ q[1:]
    return np.concatenate([[w], p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:])])


def exponential(vector: np.ndarray) -> np.ndarray:
    """(4,): the rotation about `vector` by its length, rad."""
    angle = float(np.linalg.norm(vector))
    return np.concatenate([[np.cos(angle / 2)], np.sinc(angle / (2 * np.pi)) / 2 * np.asarray(vector, float)])


def rotate(q: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """(4,): q, then the rotation about `vector` by its length, rad; of length 1 again."""
    out = multiply(exponential(vector), q)
    return out / np.linalg.norm(out)


def to_matrix(q: np.ndarray) -> np.ndarray:
    """(3, 3)."""
    w, x, y, z = q
    return np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                     [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                     [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])


def from_matrix(r: np.ndarray) -> np.ndarray:
    """(4,) of a (3, 3) rotation: the eigenvector of its largest eigenvalue, accurate for all angles."""
    k = np.array([[r[0, 0] + r[1, 1] + r[2, 2], r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]],
                  [0, r[0, 0] - r[1, 1] - r[2, 2], r[1, 0] + r[0, 1], r[0, 2] + r[2, 0]],
                  [0, 0, r[1, 1] - r[0, 0] - r[2, 2], r[2, 1] + r[1, 2]],
                  [0, 0, 0, r[2, 2] - r[0, 0] - r[1, 1]]])
    q = np.linalg.eigh(k + np.triu(k, 1).T)[1][:, -1]
    return q if q[0] >= 0 else -q
