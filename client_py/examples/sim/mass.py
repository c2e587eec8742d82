"""Mass properties of a body of uniform density, bounded by a closed mesh."""

from __future__ import annotations

import numpy as np


def mass_properties(vertices: np.ndarray, triangles: np.ndarray,
                    density: float) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia, exact but for rounding: each triangle spans a signed tetrahedron with a point near
    the mesh, whose moments have a closed form.

    Args:
        vertices: (n, 3) m. triangles: (m, 3), counter-clockwise from outside. density: kg/m^3.
    Returns: kg; (3,) m; (3, 3) kg m^2 about the centre of mass, in the axes of the vertices.
    """
    about = vertices.mean(0)
    a, b, c = np.moveaxis(np.asarray(vertices, float)[triangles] - about, 1, 0)
    volumes = np.einsum("ij,ij->i", a, np.cross(b, c)) / 6
    volume = volumes.sum()
    total = a + b + c
    centre = volumes @ total / (4 * volume)
    # The integral of x x^T over the tetrahedron 0abc is V / 20 (a a^T + b b^T + c c^T + (a + b + c) (a + b + c)^T).
    second = sum(np.einsum("i,ij,ik->jk", volumes, p, p) for p in (a, b, c, total)) / 20
    second -= volume * np.outer(centre, centre)
    inertia = density * (np.trace(second) * np.eye(3) - second)
    return float(density * volume), about + centre, inertia
