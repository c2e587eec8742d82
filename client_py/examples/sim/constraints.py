"""A step by constraints on intersection volumes: Algorithm 1 of Allard 2010."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from .pgs import solve_friction, solve_pressures
from .world import ContactRows, World


@dataclass
class Options:
    friction: float = 0.5  # Coulomb's coefficient
    target_depth: float = 1e-3  # m: contacts keep the volume target_depth x area, so that they are not lost (section 4.3)
    most_corrections: int = 5  # position problems in a step
    excess: float = 0.01  # a volume is corrected where it is more than this share above its target
    sweeps: int = 200
    tolerance: float = 1e-10  # of the solvers, relative


@dataclass
class Report:
    """What a step did.

    Attributes:
        contacts: those at its end, which the next step begins with.
        pressures: (m, 3) of those at its beginning: pressure and two tractions, each times h, Pa s.
        corrections: position problems solved. sweeps: of the velocity problem.
        gained: J of kinetic energy that position corrections added.
        seconds: by phase, the columns of Allard's Table 1: "collision" (waiting for the server), "modelling" (rows),
            "motion" (bodies without contacts), "solver".
    """

    contacts: list[ContactRows]
    pressures: np.ndarray
    corrections: int = 0
    sweeps: int = 0
    gained: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)


class Clock:
    """Adds up seconds by phase."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("collision", "modelling", "motion", "solver"), 0.0)
        self._since = time.perf_counter()

    def stop(self, phase: str) -> None:
        """What passed since the last call was that phase."""
        now = time.perf_counter()
        self.seconds[phase] += now - self._since
        self._since = now


def step(world: World, h: float, options: Options, contacts: list[ContactRows] | None = None) -> Report:
    """Moves the world's bodies by h s.

    Args:
        contacts: where the bodies are now: those of the last step's report; asked for if None.
    """
    clock = Clock()
    if contacts is None:
        contacts = _collide(world, clock)
    velocity = []
    for body in world.bodies:
        body.begin_step(h)
        velocity.append(body.free_velocity(h, world.gravity))
    clock.stop("motion")

    # Lines 1-2: velocities, with friction.
    report = Report(contacts, np.zeros((0, 3)))
    if contacts:
        align_tangents(contacts, velocity)
        w, mobility = delassus(world, contacts, 3)
        b = np.concatenate([sum(rows @ velocity[i] for i, rows in c.rows.items()) for c in contacts])
        report.pressures, report.sweeps = solve_friction(w, b, options.friction, options.sweeps, options.tolerance)
        for i, change in _responses(mobility, contacts, report.pressures).items():
            velocity[i] = velocity[i] + change
    clock.stop("solver")

    # Line 3: positions.
    for body, v in zip(world.bodies, velocity):
        body.velocity = v
        body.advance(h)
    clock.stop("motion")

    # Lines 4-9: positions are corrected, velocities stay.
    report.contacts = _collide(world, clock)
    before = world.kinetic_energy()
    while report.corrections < options.most_corrections and _is_too_deep(report.contacts, options):
        correct_positions(world, report.contacts, options)
        report.corrections += 1
        clock.stop("solver")
        report.contacts = _collide(world, clock)
    report.gained = world.kinetic_energy() - before
    report.seconds = clock.seconds
    return report


def align_tangents(contacts: list[ContactRows], velocity: list[np.ndarray]) -> None:
    """Turns each contact's tangents so that the first lies along v_rel (eq. 20) of these velocities. A pyramid is as strong
    as the cone only at its corners, which lie on the tangents; so friction acts straight against the sliding."""
    for c in contacts:
        relative = sum(rows[1:] @ velocity[i] for i, rows in c.rows.items())
        speed = np.linalg.norm(relative)
        if speed > 0:
            x, y = relative / speed
            for rows in c.rows.values():
                rows[1:] = np.array([[x, y], [-y, x]]) @ rows[1:]


def correct_positions(world: World, contacts: list[ContactRows], options: Options) -> None:
    """One position problem (eq. 18-19): bodies move apart until each volume, as its gradient predicts, is at most its
    target. World.bodies must have begun a step."""
    w, mobility = delassus(world, contacts, 1)
    b = np.array([options.target_depth * c.area - c.volume for c in contacts])
    pressures = solve_pressures(w, b, options.sweeps, options.tolerance)
    for i, change in _responses(mobility, contacts, pressures[:, None]).items():
        world.bodies[i].displace(change)


def delassus(world: World, contacts: list[ContactRows], n: int) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """The first n rows of every contact against each other: (n m, n m) J A^-1 J^T; and for each body that can move
    A^-1 J^T, (n_dof, n m') for its own m' contacts."""
    w = np.zeros((n * len(contacts), n * len(contacts)))
    mobility = {}
    for i, body in enumerate(world.bodies):
        at = [k for k, c in enumerate(contacts) if i in c.rows]
        if not at or body.driven:
            continue
        rows = np.concatenate([contacts[k].rows[i][:n] for k in at])
        mobility[i] = body.apply_inverse(rows.T)
        where = np.concatenate([np.arange(n * k, n * k + n) for k in at])
        w[np.ix_(where, where)] += rows @ mobility[i]
    return w, mobility


def _responses(mobility: dict[int, np.ndarray], contacts: list[ContactRows],
               pressures: np.ndarray) -> dict[int, np.ndarray]:
    """(n_dof,) for each body that can move: A^-1 J^T pressures."""
    return {i: part @ np.concatenate([pressures[k] for k, c in enumerate(contacts) if i in c.rows])
            for i, part in mobility.items()}


def _is_too_deep(contacts: list[ContactRows], options: Options) -> bool:
    return any(c.volume > options.target_depth * c.area * (1 + options.excess) for c in contacts)


def _collide(world: World, clock: Clock) -> list[ContactRows]:
    contacts = world.collide()
    clock.stop("modelling")
    clock.seconds["modelling"] -= world.result.latency
    clock.seconds["collision"] += world.result.latency
    return contacts
