"""How stiff contacts may be whose forces are explicit: those of one step, from the positions before it. For adapters."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .client import Mesh

STIFFEST = 0.2  # of the mass over the time step's square: modulus times area, over a body's whole width


def moduli_of(masses: ArrayLike, areas: ArrayLike, time_step: float) -> NDArray[np.float64]:
    """N/m^3, of masses in kg that touch over areas in m^2; inf where there is no mass. Of a pair moduli are in series, so the softer one tells."""
    mass = np.asarray(masses, float)
    return np.where(mass > 0, STIFFEST * mass / np.maximum(areas, 1e-30) / time_step**2, np.inf)


def width_of(mesh: Mesh) -> float:
    """m^2, of the sphere around its bounds, as seen from anywhere."""
    return math.pi / 4 * float(np.square(np.ptp(mesh.bounds, axis=0)).sum())


def modulus_of(mass: float, area: float, time_step: float) -> float | None:
    """That of a body; None, rigid, where it has no mass."""
    modulus = float(moduli_of(mass, area, time_step))
    return modulus if math.isfinite(modulus) else None
