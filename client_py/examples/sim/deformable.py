"""A deformable body: the co-rotational finite elements of examples/soft.py, and the matrix of an implicit step with them."""

from __future__ import annotations

from typing import Any

import contactd
import numpy as np
from soft import SoftBody


class DeformableBody:
    """A lattice of cubic elements that carries a fine surface. Every surface vertex moves with the element it lies in.

    Its velocity is that of the lattice's nodes, one after the other. The matrix of a step is dense, so a body should have
    some hundred nodes at most; constraints then need no more than its inverse.

    Attributes:
        soft: the elements (soft.SoftBody); soft.nodes (k, 3) m are where its nodes are.
        handle: the body of the server's scene, once it is in a World.
    """

    driven = False

    def __init__(self, mesh: tuple[np.ndarray, np.ndarray], density: float, *, cell: float, young: float,
                 poisson: float = 0.4, damping: float = 0.0, velocity: np.ndarray | None = None) -> None:
        """mesh: vertices (n, 3) in the world, m, and triangles (m, 3). density: kg/m^3. cell: m, an element's side.
        young: Pa. damping: s, proportional to stiffness (Rayleigh). velocity: (3,) m/s of all nodes."""
        self.soft = SoftBody(*mesh, cell=cell, young=young, poisson=poisson, density=density)
        self.damping = damping
        self.n_dof = 3 * len(self.soft.nodes)
        self.velocity = np.tile(np.zeros(3) if velocity is None else np.asarray(velocity, float), len(self.soft.nodes))
        self._mass = np.repeat(self.soft.mass, 3)
        self.handle: contactd.Body | None = None

    @property
    def mass(self) -> float:
        """kg."""
        return float(self.soft.mass.sum())

    # ---- the server's view ----

    def add_to(self, scene: contactd.Scene, **options: Any) -> None:
        mesh = scene.client.register_mesh(self.soft.vertices, self.soft.triangles)
        self.handle = scene.add_body(mesh, **options)

    def update(self) -> np.ndarray:
        """(n, 3) m, positions of the surface's vertices."""
        return self.soft.surface()

    # ---- dynamics ----

    def begin_step(self, h: float) -> None:
        """A = M + (h^2 + h damping) K, K the stiffness of the turned elements (eq. 2), and its inverse."""
        self._turns = self.soft.rotations()
        self._implicit = h * (h + self.damping)
        self._matrix = self._implicit * self.soft.stiffness_matrix(self._turns)
        self._matrix[np.diag_indices(self.n_dof)] += self._mass
        self._inverse = np.linalg.inv(self._matrix)

    def free_velocity(self, h: float, gravity: np.ndarray) -> np.ndarray:
        """(n_dof,) by backward Euler with one Newton iteration (eq. 2-3)."""
        v = self.velocity.reshape(-1, 3)
        force = self.soft.elastic_forces(self._turns) + self.soft.mass[:, None] * gravity
        right = h * force - self._implicit * self.soft.apply_stiffness(self._turns, v)
        return self.velocity + self._inverse @ right.ravel()

    def apply(self, x: np.ndarray) -> np.ndarray:
        return self._matrix @ x

    def apply_inverse(self, x: np.ndarray) -> np.ndarray:
        return self._inverse @ x

    def displace(self, dq: np.ndarray) -> None:
        self.soft.nodes = self.soft.nodes + dq.reshape(-1, 3)

    def advance(self, h: float) -> None:
        self.displace(h * self.velocity)

    # ---- contacts ----

    def volume_gradient(self, contact: contactd.Contact) -> np.ndarray:
        """(n_dof,) dV/dq, m^2."""
        return self.soft.to_nodes(*contact.gradient(self.handle)).ravel()

    def friction_rows(self, contact: contactd.Contact) -> np.ndarray:
        """(2, n_dof): sum of A_k t . dp_k/dq for both tangents t (eq. 21)."""
        which, weights = contact.vertices(self.handle), contact.friction_weights(self.handle)
        nodal = self.soft.to_nodes(which, weights[:, None])
        return np.array([np.outer(nodal, t).ravel() for t in contact.tangents])

    def to_vertices(self, v: np.ndarray) -> np.ndarray:
        return self.soft.at(np.arange(len(self.soft.vertices)), v.reshape(-1, 3))

    def from_vertices(self, forces: np.ndarray) -> np.ndarray:
        return self.soft.to_nodes(np.arange(len(self.soft.vertices)), forces).ravel()

    def motion(self) -> np.ndarray:
        """(n, 3) m/s of the surface's vertices, as Scene.step takes velocities."""
        return self.to_vertices(self.velocity)

    def friction(self, contact: contactd.Contact) -> np.ndarray:
        """(n_dof,) the server's viscous friction, N."""
        forces = np.zeros((len(self.soft.vertices), 3))
        np.add.at(forces, contact.vertices(self.handle), contact.friction_forces(self.handle))
        return self.from_vertices(forces)

    # ---- what tests look at ----

    def kinetic_energy(self) -> float:
        return float(self._mass @ self.velocity**2) / 2

    def linear_momentum(self) -> np.ndarray:
        return self.soft.mass @ self.velocity.reshape(-1, 3)

    def angular_momentum(self) -> np.ndarray:
        """(3,) about the world's origin."""
        return np.cross(self.soft.nodes, self.soft.mass[:, None] * self.velocity.reshape(-1, 3)).sum(0)
