"""Rigid bodies: free, driven along a given twist, and half-spaces that rest."""

from __future__ import annotations

from typing import Any

import contactd
import numpy as np

from . import quaternion
from .mass import mass_properties


class RigidBody:
    """A rigid body of uniform density.

    Its velocity is a twist: that of its centre of mass, m/s, and its spin, rad/s, both in world axes. Its mesh is
    registered about the centre of mass, which is the origin of its pose.

    Attributes:
        vertices: (n, 3) m, about the centre of mass, in the body's axes. triangles: (m, 3).
        mass: kg. body_inertia: (3, 3) kg m^2, in the body's axes.
        position: (3,) m, of the centre of mass. turn: (4,) quaternion.
        driven: nothing moves it but its velocity.
        handle: the body of the server's scene, once it is in a World.
    """

    n_dof = 6

    def __init__(self, mesh: tuple[np.ndarray, np.ndarray], density: float, pose: np.ndarray | None = None,
                 velocity: np.ndarray | None = None, driven: bool = False) -> None:
        """mesh: vertices (n, 3), triangles (m, 3). pose: (4, 4) of the mesh's own frame. velocity: (6,)."""
        pose = np.eye(4) if pose is None else np.asarray(pose, float)
        given, self.triangles = np.asarray(mesh[0], float), np.asarray(mesh[1])
        self.mass, centre, self.body_inertia = mass_properties(given, self.triangles, density)
        # The server holds vertices as float32; the same ones here, so that both speak of one surface.
        self.vertices = np.float32(given - centre).astype(float)
        self.position = pose[:3, :3] @ centre + pose[:3, 3]
        self.turn = quaternion.from_matrix(pose[:3, :3])
        self.velocity = np.zeros(6) if velocity is None else np.array(velocity, float)
        self.driven = driven
        self.handle: contactd.Body | None = None

    # ---- the server's view ----

    def add_to(self, scene: contactd.Scene, **options: Any) -> None:
        mesh = scene.client.register_mesh(self.vertices, self.triangles)
        self.handle = scene.add_body(mesh, pose=self.update(), **options)

    def update(self) -> np.ndarray:
        """(4, 4) pose."""
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = quaternion.to_matrix(self.turn), self.position
        return pose

    # ---- dynamics ----

    def inertia(self) -> np.ndarray:
        """(3, 3) kg m^2 about the centre of mass, in world axes."""
        r = quaternion.to_matrix(self.turn)
        return r @ self.body_inertia @ r.T

    def begin_step(self, h: float) -> None:
        self._matrix = np.zeros((6, 6))
        self._matrix[:3, :3] = self.mass * np.eye(3)
        self._matrix[3:, 3:] = self.inertia()
        self._inverse = np.zeros((6, 6)) if self.driven else np.linalg.inv(self._matrix)

    def free_velocity(self, h: float, gravity: np.ndarray) -> np.ndarray:
        """(6,). What turning does to the spin is in `advance`."""
        return self.velocity if self.driven else self.velocity + h * np.concatenate([gravity, np.zeros(3)])

    def apply(self, x: np.ndarray) -> np.ndarray:
        return self._matrix @ x

    def apply_inverse(self, x: np.ndarray) -> np.ndarray:
        return self._inverse @ x

    def displace(self, dq: np.ndarray) -> None:
        """Moves by dq (6,), m and rad. The spin turns with the body, so that its kinetic energy stays."""
        self.position = self.position + dq[:3]
        self.turn = quaternion.rotate(self.turn, dq[3:])
        spin = quaternion.to_matrix(quaternion.exponential(dq[3:])) @ self.velocity[3:]
        self.velocity = np.concatenate([self.velocity[:3], spin])

    def advance(self, h: float) -> None:
        """Moves by its velocity for h s. The angular momentum stays, to rounding; so does the energy, to h^2: the spin is
        that at half of the way (the implicit midpoint rule, by fixed-point iteration)."""
        if self.driven:
            self.displace(h * self.velocity)
            return
        momentum = self.inertia() @ self.velocity[3:]
        start, spin = self.turn, self.velocity[3:]
        for _ in range(4):
            self.turn = quaternion.rotate(start, h / 2 * spin)
            spin = np.linalg.solve(self.inertia(), momentum)
        self.position = self.position + h * self.velocity[:3]
        self.turn = quaternion.rotate(start, h * spin)
        self.velocity = np.concatenate([self.velocity[:3], np.linalg.solve(self.inertia(), momentum)])

    # ---- contacts ----

    def arms(self, which: np.ndarray) -> np.ndarray:
        """(k, 3) from the centre of mass to some vertices, world axes."""
        return self.vertices[which] @ quaternion.to_matrix(self.turn).T

    def volume_gradient(self, contact: contactd.Contact) -> np.ndarray:
        """(6,) dV/dq, m^2 and m^3."""
        return contact.generalized_gradient(self.handle)

    def friction_rows(self, contact: contactd.Contact) -> np.ndarray:
        """(2, 6): sum of A_k t . dp_k/dq for both tangents t (eq. 21)."""
        weights, arms = contact.friction_weights(self.handle), self.arms(contact.vertices(self.handle))
        total, moment = weights.sum(), weights @ arms
        return np.array([np.concatenate([total * t, np.cross(moment, t)]) for t in contact.tangents])

    def to_vertices(self, v: np.ndarray) -> np.ndarray:
        """(n, 3) m/s of all vertices by a twist (6,)."""
        return v[:3] + np.cross(v[3:], self.arms(np.arange(len(self.vertices))))

    def from_vertices(self, forces: np.ndarray) -> np.ndarray:
        """(6,) of forces (n, 3) on all vertices: the transpose of to_vertices."""
        return np.concatenate([forces.sum(0), np.cross(self.arms(np.arange(len(self.vertices))), forces).sum(0)])

    def motion(self) -> np.ndarray:
        """(6,) twist, as Scene.step takes velocities: the origin of the pose is the centre of mass."""
        return self.velocity

    def friction(self, contact: contactd.Contact) -> np.ndarray:
        """(6,) the server's viscous friction, N and N m."""
        return contact.friction(self.handle)

    # ---- what tests look at ----

    def kinetic_energy(self) -> float:
        v, w = self.velocity[:3], self.velocity[3:]
        return float(self.mass * v @ v + w @ self.inertia() @ w) / 2

    def linear_momentum(self) -> np.ndarray:
        return self.mass * self.velocity[:3]

    def angular_momentum(self) -> np.ndarray:
        """(3,) about the world's origin."""
        return np.cross(self.position, self.linear_momentum()) + self.inertia() @ self.velocity[3:]


class HalfSpace:
    """A floor or wall that rests: all points p with n . p <= offset. It has no vertices and no degrees of freedom."""

    n_dof, driven = 0, True

    def __init__(self, normal: np.ndarray, offset: float = 0.0) -> None:
        self.normal, self.offset = np.asarray(normal, float), float(offset)
        self.velocity = np.zeros(0)
        self.handle: contactd.Body | None = None

    def add_to(self, scene: contactd.Scene, **options: Any) -> None:
        self.handle = scene.add_half_space(self.normal, self.offset, **options)

    def update(self) -> np.ndarray:
        return contactd.plane_pose(self.normal, self.offset)

    def begin_step(self, h: float) -> None:
        pass

    def free_velocity(self, h: float, gravity: np.ndarray) -> np.ndarray:
        return self.velocity

    def apply(self, x: np.ndarray) -> np.ndarray:
        return x

    apply_inverse = apply

    def displace(self, dq: np.ndarray) -> None:
        pass

    advance = displace

    def volume_gradient(self, contact: contactd.Contact) -> np.ndarray:
        return np.zeros(0)

    def friction_rows(self, contact: contactd.Contact) -> np.ndarray:
        return np.zeros((2, 0))

    def to_vertices(self, v: np.ndarray) -> np.ndarray:
        return np.zeros((0, 3))

    def from_vertices(self, forces: np.ndarray) -> np.ndarray:
        return np.zeros(0)

    def friction(self, contact: contactd.Contact) -> np.ndarray:
        return np.zeros(0)

    def kinetic_energy(self) -> float:
        return 0.0

    def linear_momentum(self) -> np.ndarray:
        return np.zeros(3)

    angular_momentum = linear_momentum
