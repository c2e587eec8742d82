"""Meshes as another program has them, whose closed ones are to stay as they are. For adapters."""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .client import Client, Closing, Mesh
from .errors import InvalidMeshError

Makings = list[dict[str, Any]]  # options of Client.register_mesh


def makings(repair: bool, closing: Closing | None) -> Makings:
    """What may be done to a mesh that is not closed, in the order in which it is tried."""
    return [{"repair": True}] * repair + [{"closing": closing}] * (closing is not None)


def first_closed(ways: Iterable[Callable[[], Mesh]]) -> Mesh:
    """The mesh of the first way that gives one; there is one way at least. InvalidMeshError is that of the last."""
    last: InvalidMeshError | None = None
    for way in ways:
        try:
            return way()
        except InvalidMeshError as error:
            last = error
    assert last
    raise last


def register_as_found(client: Client, vertices: ArrayLike, triangles: ArrayLike, name: str, making: Makings,
                      keeps_vertices: bool = False) -> Mesh:
    """The mesh as it is; else, unless it has to keep its vertices, with those at the very same position made one, which moves nothing: loaders double
    them to give each face normals of its own; else as `making` allows. InvalidMeshError says what is wrong after the last of these."""
    return first_closed(functools.partial(client.register_mesh, points, faces, name=name, **how)
                        for points, faces, how in _ways(np.asarray(vertices), np.asarray(triangles), making, keeps_vertices))


def _ways(points: NDArray[Any], faces: NDArray[Any], making: Makings, keeps_vertices: bool) -> Iterator[tuple[NDArray[Any], NDArray[Any], dict[str, Any]]]:
    yield points, faces, {}
    if not keeps_vertices:
        welded, places = np.unique(points, axis=0, return_inverse=True)
        if len(welded) < len(points):
            yield welded, places.reshape(-1)[faces], {}
    for how in making:
        yield points, faces, how
