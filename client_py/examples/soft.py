"""A soft body for the press example: corotational finite elements on a coarse lattice that carries a fine surface.

Every surface vertex moves with the lattice cell it lies in, so contact forces on vertices go to lattice nodes by the
same weights. One implicit step solves (M + h^2 K + contacts) v = M v0 + h f by conjugate gradients.
"""

from __future__ import annotations

from typing import Callable

import numpy as np

CORNERS = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)])


class SoftBody:
    def __init__(self, vertices: np.ndarray, triangles: np.ndarray, *, cell: float, young: float, poisson: float,
                 density: float) -> None:
        self.vertices, self.triangles = np.array(vertices, float), triangles
        lo = self.vertices.min(0) - 1e-4 * cell
        shape = np.floor((self.vertices.max(0) + 1e-4 * cell - lo) / cell).astype(int) + 1
        cells = _inside(self.vertices, triangles, lo, cell, shape)
        home = np.floor((self.vertices - lo) / cell).astype(int)
        cells[tuple(home.T)] = True

        where = np.argwhere(cells)
        corner = where[:, None, :] + CORNERS
        flat = np.ravel_multi_index(tuple(np.moveaxis(corner, -1, 0)), tuple(shape + 1))
        used, self.elements = np.unique(flat, return_inverse=True)
        self.elements = self.elements.reshape(-1, 8)
        self.rest = lo + cell * np.stack(np.unravel_index(used, tuple(shape + 1)), -1)
        number = np.full(tuple(shape), -1)
        number[cells] = np.arange(len(where))
        self.bind = self.elements[number[tuple(home.T)]]  # (n, 8) nodes of each vertex
        t = ((self.vertices - lo) / cell - home)[:, None, :]
        self.weights = np.where(CORNERS == 1, t, 1 - t).prod(-1)  # (n, 8)

        a, b, c = np.moveaxis(self.vertices[triangles], 1, 0)
        filled = float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6) / (len(where) * cell**3)  # the cells overlap the skin
        share = np.bincount(self.elements.ravel(), minlength=len(self.rest)) / 8
        self.mass = density * filled * cell**3 * share
        self.stiffness, self.center_gradient = _hexahedron(cell, young * filled, poisson)
        self.nodes = self.rest.copy()
        self.velocity = np.zeros_like(self.rest)
        self._scatter = self.elements.ravel()
        self._diagonal = np.bincount(self._scatter, np.tile(self.stiffness.diagonal().reshape(8, 3).mean(1),
                                                            len(self.elements)), len(self.rest))

    # ---- the surface ----

    def surface(self) -> np.ndarray:
        return np.einsum("nj,njc->nc", self.weights, self.nodes[self.bind])

    def at(self, which: np.ndarray, field: np.ndarray) -> np.ndarray:
        """A nodal field at some vertices."""
        return np.einsum("nj,njc->nc", self.weights[which], field[self.bind[which]])

    def to_nodes(self, which: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Forces on some vertices as forces on nodes: the transpose of `at`."""
        where = self.bind[which].ravel()
        spread = (self.weights[which][:, :, None] * values[:, None, :]).reshape(-1, values.shape[1])
        return _add_up(where, spread, len(self.nodes))

    def lumped(self, which: np.ndarray, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A factor on each of some vertices as a matrix between the nodes that carry them: nodes (m,), and (m, m)."""
        nodes, local = np.unique(self.bind[which], return_inverse=True)
        local, m = local.reshape(-1, 8), len(nodes)
        w = self.weights[which]
        pairs = local[:, :, None] * m + local[:, None, :]
        values = factors[:, None, None] * w[:, :, None] * w[:, None, :]
        return nodes, np.bincount(pairs.ravel(), values.ravel(), m * m).reshape(m, m)

    # ---- elasticity ----

    def rotations(self) -> np.ndarray:
        """(e, 3, 3): how the elements are turned."""
        f = np.einsum("ejc,jd->ecd", self.nodes[self.elements], self.center_gradient)
        r = np.where((np.linalg.det(f) > 0.05)[:, None, None], f, np.eye(3))
        for _ in range(5):  # Newton's iteration for the polar factor
            r = 0.5 * (r + np.linalg.inv(r).transpose(0, 2, 1))
        return r

    def elastic_forces(self, r: np.ndarray) -> np.ndarray:
        """(nodes, 3) N."""
        # Where a cell is does not matter to its forces, so positions need not be made relative to it.
        return -self._forces(r, _turn(self.nodes[self.elements], r) - self.rest[self.elements])

    def apply_stiffness(self, r: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(nodes, 3): sum over elements of R K (R^T x)."""
        return self._forces(r, _turn(x[self.elements], r))

    def stiffness_matrix(self, r: np.ndarray) -> np.ndarray:
        """(3 nodes, 3 nodes), dense: what apply_stiffness multiplies with."""
        turned = np.einsum("eca,iajb,edb->eicjd", r, self.stiffness.reshape(8, 3, 8, 3), r, optimize=True)
        at = (3 * self.elements[:, :, None] + np.arange(3)).reshape(-1, 24)
        n = 3 * len(self.nodes)
        return np.bincount((n * at[:, :, None] + at[:, None, :]).ravel(), turned.ravel(), n * n).reshape(n, n)

    def _forces(self, r: np.ndarray, local: np.ndarray) -> np.ndarray:
        force = (local.reshape(-1, 24) @ self.stiffness).reshape(-1, 8, 3)
        return _add_up(self._scatter, _turn(force, r.transpose(0, 2, 1)).reshape(-1, 3), len(self.nodes))

    def step(self, h: float, force: np.ndarray, contact: Callable[[np.ndarray], np.ndarray],
             contact_diagonal: np.ndarray, damping: float) -> int:
        """One implicit step.

        Args:
            force: (nodes, 3) N, gravity and contacts at the start of the step.
            contact: v -> h (damping + h stiffness) v of the contacts, symmetric and not negative.
            contact_diagonal: (nodes, 3), its diagonal, for the preconditioner.
            damping: s, of the elements, proportional to their stiffness (Rayleigh).
        Returns: iterations of the solver.
        """
        r = self.rotations()
        elastic = self.elastic_forces(r)
        mass, implicit = self.mass[:, None], h * h + h * damping
        right = mass * self.velocity + h * (force + elastic)
        diagonal = mass + implicit * self._diagonal[:, None] + contact_diagonal
        self.velocity, iterations = _conjugate_gradients(
            lambda v: mass * v + implicit * self.apply_stiffness(r, v) + contact(v), right, self.velocity, 1 / diagonal)
        self.nodes = self.nodes + h * self.velocity
        return iterations


def _turn(x: np.ndarray, r: np.ndarray) -> np.ndarray:
    """(e, 8, 3) row vectors times (e, 3, 3) matrices; numpy's matmul is slow for such small ones."""
    return x[:, :, :1] * r[:, None, 0] + x[:, :, 1:2] * r[:, None, 1] + x[:, :, 2:] * r[:, None, 2]


def _add_up(where: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    return np.stack([np.bincount(where, values[:, c], n) for c in range(values.shape[1])], -1)


def _conjugate_gradients(operator: Callable[[np.ndarray], np.ndarray], b: np.ndarray, x: np.ndarray,
                         preconditioner: np.ndarray, tolerance: float = 1e-4, most: int = 60) -> tuple[np.ndarray, int]:
    residual = b - operator(x)
    z = preconditioner * residual
    p, rz = z, float(np.vdot(residual, z))
    stop = tolerance**2 * max(float(np.vdot(b, preconditioner * b)), 1e-30)
    for i in range(most):
        if rz <= stop:
            return x, i
        q = operator(p)
        alpha = rz / float(np.vdot(p, q))
        x = x + alpha * p
        residual = residual - alpha * q
        z = preconditioner * residual
        rz, old = float(np.vdot(residual, z)), rz
        p = z + (rz / old) * p
    return x, most


def _hexahedron(cell: float, young: float, poisson: float) -> tuple[np.ndarray, np.ndarray]:
    """24x24 stiffness of a cube of side `cell`, and (8, 3) shape gradients at its centre."""
    lam = young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    mu = young / (2 * (1 + poisson))
    elasticity = np.diag([2 * mu] * 3 + [mu] * 3)
    elasticity[:3, :3] += lam

    def gradients(p: np.ndarray) -> np.ndarray:
        side = np.where(CORNERS == 1, p, 1 - p)
        sign = np.where(CORNERS == 1, 1.0, -1.0)
        return np.stack([sign[:, c] * np.delete(side, c, 1).prod(1) for c in range(3)], -1) / cell

    k = np.zeros((24, 24))
    for i, j, l in CORNERS:
        g = gradients(0.5 + (np.array([i, j, l]) - 0.5) / 3**0.5)
        b = np.zeros((6, 24))
        for c in range(3):
            b[c, c::3] = g[:, c]
        for row, (c, d) in enumerate(((0, 1), (1, 2), (2, 0)), 3):
            b[row, c::3], b[row, d::3] = g[:, d], g[:, c]
        k += b.T @ elasticity @ b * cell**3 / 8
    return k, gradients(np.full(3, 0.5))


def _inside(vertices: np.ndarray, triangles: np.ndarray, lo: np.ndarray, cell: float, shape: np.ndarray) -> np.ndarray:
    """Which cells have their centre inside the surface: one ray along z through each column of cells."""
    out = np.zeros(tuple(shape), bool)
    a, b, c = np.moveaxis(vertices[triangles], 1, 0)
    low, high = np.minimum(np.minimum(a, b), c), np.maximum(np.maximum(a, b), c)
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    levels = lo[2] + (np.arange(shape[2]) + 0.5) * cell
    for i in range(shape[0]):
        x = lo[0] + (i + 0.5031) * cell  # off the centre, so that rays miss edges of regular meshes
        strip = np.flatnonzero((low[:, 0] <= x) & (x < high[:, 0]) & (area != 0))
        for j in range(shape[1]):
            y = lo[1] + (j + 0.4973) * cell
            t = strip[(low[strip, 1] <= y) & (y < high[strip, 1])]
            w1 = ((x - a[t, 0]) * (c[t, 1] - a[t, 1]) - (y - a[t, 1]) * (c[t, 0] - a[t, 0])) / area[t]
            w2 = ((b[t, 0] - a[t, 0]) * (y - a[t, 1]) - (b[t, 1] - a[t, 1]) * (x - a[t, 0])) / area[t]
            hit = (w1 >= 0) & (w2 >= 0) & (w1 + w2 <= 1)
            z = (a[t, 2] + w1 * (b[t, 2] - a[t, 2]) + w2 * (c[t, 2] - a[t, 2]))[hit]
            out[i, j] = (z[None, :] > levels[:, None]).sum(1) % 2 == 1
    return out
