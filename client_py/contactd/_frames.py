"""Contact frames that are continuous in time: the tangents of a scene's contacts as of its last answered step."""

from __future__ import annotations

import math
from typing import Any, Iterable, Sequence

import numpy as np


def carry(before: Any, normal: Sequence[float] | np.ndarray) -> np.ndarray:
    """(2, 3) tangents at `normal` that are closest to those before."""
    n = np.asarray(normal)
    t = before[0] - np.dot(before[0], n) * n
    size = math.sqrt(t @ t)
    if size > 0.5:
        t = t / size
        return np.stack([t, np.cross(n, t)])
    u = before[1] - np.dot(before[1], n) * n  # the normal has turned to the first tangent: then the second is across it
    u = u / math.sqrt(u @ u)
    return np.stack([np.cross(u, n), u])


class Frames:
    """Of one scene. Steps that do not ask for frames leave them as they are."""

    def __init__(self) -> None:
        self._tangents: dict[tuple[Any, ...], np.ndarray] = {}  # by bodies and index

    def follow(self, keys: Iterable[tuple[Any, ...]], normals: np.ndarray, tangents: np.ndarray) -> np.ndarray:
        """(n, 2, 3) tangents of a step's contacts that follow those of the step before. keys: of each, bodies and index."""
        now, tangents = {}, tangents.copy()
        for row, (key, normal) in enumerate(zip(keys, normals)):
            if not normal.any():
                continue
            before = self._tangents.get(key)
            if before is not None:
                tangents[row] = carry(before, normal)
            now[key] = tangents[row]
        self._tangents = now
        return tangents
