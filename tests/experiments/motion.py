"""Rigid motion for the experiments: poses, rotations, and bodies of equal inertia about all axes, whose free motion is
exact."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


def rotation(vector: np.ndarray) -> np.ndarray:
    """(3, 3) about the vector, by its length in rad."""
    angle = np.linalg.norm(vector)
    if angle == 0:
        return np.eye(3)
    x, y, z = vector / angle
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def at(x: float = 0.0, y: float = 0.0, z: float = 0.0, turn: np.ndarray | None = None) -> np.ndarray:
    """A pose."""
    pose = np.eye(4)
    pose[:3, 3] = x, y, z
    if turn is not None:
        pose[:3, :3] = turn
    return pose


@dataclass
class RigidBody:
    """A ball's inertia, so that no torque is needed to keep it spinning."""

    mass: float  # kg
    inertia: float  # kg m^2, about every axis
    position: np.ndarray
    turn: np.ndarray = field(default_factory=lambda: np.eye(3))
    velocity: np.ndarray = field(default_factory=lambda: np.zeros(3))
    spin: np.ndarray = field(default_factory=lambda: np.zeros(3))  # rad/s, world axes

    def pose(self) -> np.ndarray:
        return at(*self.position, self.turn)

    def drift(self, dt: float) -> None:
        self.position = self.position + dt * self.velocity
        self.turn = rotation(dt * self.spin) @ self.turn

    def kick(self, impulse: np.ndarray) -> None:
        """impulse: (6,) force and torque, times the time."""
        self.velocity = self.velocity + impulse[:3] / self.mass
        self.spin = self.spin + impulse[3:] / self.inertia

    def twist(self) -> np.ndarray:
        return np.concatenate([self.velocity, self.spin])

    def kinetic_energy(self) -> float:
        return float(self.mass * self.velocity @ self.velocity + self.inertia * self.spin @ self.spin) / 2
