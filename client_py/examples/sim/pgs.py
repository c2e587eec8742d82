"""Projected Gauss-Seidel for the two complementarity problems of Allard 2010."""

from __future__ import annotations

import numpy as np


def solve_pressures(w: np.ndarray, b: np.ndarray, sweeps: int = 1000, tolerance: float = 1e-10) -> np.ndarray:
    """x with 0 <= w x + b, x >= 0, and x (w x + b) = 0: the position problem (eq. 18-19).

    Args:
        w: (m, m), symmetric and not negative: J A^-1 J^T. b: (m,).
        tolerance: of the change of x in a sweep, of its largest entry.
    Returns: (m,). A row of w that is 0 has x = 0: nothing can move there.
    """
    x = np.zeros(len(b))
    diagonal = w.diagonal().copy()
    active = np.flatnonzero(diagonal > 0)
    for _ in range(sweeps):
        change = 0.0
        for i in active:
            new = max(0.0, x[i] - (w[i] @ x + b[i]) / diagonal[i])
            change = max(change, abs(new - x[i]))
            x[i] = new
        if change <= tolerance * x.max(initial=0.0):
            break
    return x


def solve_friction(w: np.ndarray, b: np.ndarray, friction: float, sweeps: int = 200, tolerance: float = 1e-10,
                   start: np.ndarray | None = None) -> tuple[np.ndarray, int]:
    """The velocity problem with pyramidal Coulomb friction (eq. 9-10 and 16-17).

    Each contact has three rows: normal, and two tangents. Its unknowns are a pressure p >= 0 and tangential tractions
    t1, t2 with |t1| + |t2| <= friction p. The four weights beta of eq. 9-10 are the positive and negative parts of t1
    and t2. The normal rate w x + b is not negative, and 0 where p > 0; tractions oppose sliding, as strongly as they may.

    Args:
        w: (3 m, 3 m) J A^-1 J^T. b: (3 m,) J times the velocities that contacts would not change.
        start: (m, 3), for instance the last step's answer.
    Returns: (m, 3) p, t1, t2; and the number of sweeps.
    """
    m = len(b) // 3
    x = np.zeros(3 * m) if start is None else np.array(start, float).ravel()
    blocks = [w[3 * i : 3 * i + 3, 3 * i : 3 * i + 3].tolist() for i in range(m)]
    done = 0
    while done < sweeps:
        done += 1
        change = 0.0
        for i, block in enumerate(blocks):
            if block[0][0] <= 0:
                continue
            at = slice(3 * i, 3 * i + 3)
            p, t1, t2 = x[at].tolist()
            rate, c1, c2 = (w[at] @ x + b[at]).tolist()
            new = max(0.0, p - rate / block[0][0])
            # Tangential rates if this contact's tractions were 0, at the new pressure.
            c1 += block[1][0] * (new - p) - block[1][1] * t1 - block[1][2] * t2
            c2 += block[2][0] * (new - p) - block[2][1] * t1 - block[2][2] * t2
            u1, u2 = least_power(block[1][1], block[1][2], block[2][2], c1, c2, friction * new)
            change = max(change, abs(new - p), abs(u1 - t1), abs(u2 - t2))
            x[at] = new, u1, u2
        if change <= tolerance * np.abs(x).max(initial=0.0):
            break
    return x.reshape(m, 3), done


def least_power(a11: float, a12: float, a22: float, c1: float, c2: float, limit: float) -> tuple[float, float]:
    """(x1, x2) that minimises x.(a x) / 2 + c.x over |x1| + |x2| <= limit, a being symmetric and positive.

    These are the tractions of maximal dissipation: inside the pyramid nothing slides, on its border something may.
    """
    determinant = a11 * a22 - a12 * a12
    if limit <= 0 or determinant <= 0:
        return 0.0, 0.0
    x1, x2 = (a12 * c2 - a22 * c1) / determinant, (a12 * c1 - a11 * c2) / determinant
    if abs(x1) + abs(x2) <= limit:
        return x1, x2
    best, least = (0.0, 0.0), float("inf")
    for s1, s2 in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        # The side x = limit (s1 (1 - s), s2 s), 0 <= s <= 1.
        q = a11 - 2 * s1 * s2 * a12 + a22
        s = (limit * (a11 - s1 * s2 * a12) + s1 * c1 - s2 * c2) / (limit * q)
        s = min(max(s, 0.0), 1.0)
        x1, x2 = limit * s1 * (1 - s), limit * s2 * s
        value = (a11 * x1 * x1 + 2 * a12 * x1 * x2 + a22 * x2 * x2) / 2 + c1 * x1 + c2 * x2
        if value < least:
            best, least = (x1, x2), value
    return best
