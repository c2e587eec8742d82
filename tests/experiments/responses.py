"""Dingliana 2005, Fig. 8: error of the response to a collision, over frames in which balls and boxes collide at random,
by level of the voxel trees, weighted by probability beside plain averages.

The bodies fly freely within a ball of 3 m, whose wall sends them back. In each frame in which two bodies touch and approach, an
impulse without friction, with a restitution of one half, acts on them at the contact's point along its normal: those of
exact, by which the bodies then fly on, and those of voxtree, from the same velocities. The errors are the paper's: the
difference of the first body's angular and linear speed after the impulse, and the angle between its linear velocities. The
paper has 100 frames, and bars without numbers.

Weights make the response better at all levels, by 2 to 18 %. The error is less that of averaging than that of what a
level can know: a frame's contact is seldom deeper than a few of its cubes.

Where no point was found (see contact_levels), or where the normal found has the bodies part already, there is no impulse: that
is an error as well, and counts."""

from __future__ import annotations

from dataclasses import dataclass

import contactd
import numpy as np
from motion import at, rotation
from random_contacts import RADII, SIDES, Answer, angle, frame_of, mean_point, random_turn, shapes

from sim.mass import mass_properties

PANELS = 3
FINEST = 6
H = 1 / 30  # s, a frame
WALL = 3.0  # m
RESTITUTION = 0.5
VARIANTS = {"weighted": {"plain_average": False}, "plain": {"plain_average": True}}
ERRORS = ("angular speed, rad/s", "linear speed, m/s", "direction, degrees")


@dataclass
class Flyer:
    """A free rigid body. Its mesh's origin is its centre of mass."""

    mass: float  # kg
    inertia: np.ndarray  # (3, 3) kg m^2, in its own axes
    position: np.ndarray
    turn: np.ndarray
    velocity: np.ndarray
    spin: np.ndarray  # rad/s, world axes

    def drift(self) -> None:
        momentum = self.turn @ self.inertia @ self.turn.T @ self.spin
        self.position = self.position + H * self.velocity
        self.turn = rotation(H * self.spin) @ self.turn
        self.spin = self.inverse_inertia() @ momentum
        if np.linalg.norm(self.position) > WALL and self.velocity @ self.position > 0:
            out = self.position / np.linalg.norm(self.position)
            self.velocity = self.velocity - 2 * (self.velocity @ out) * out

    def inverse_inertia(self) -> np.ndarray:
        return self.turn @ np.linalg.inv(self.inertia) @ self.turn.T

    def after(self, impulse: np.ndarray, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Velocity and spin after an impulse in N s."""
        return (self.velocity + impulse / self.mass,
                self.spin + self.inverse_inertia() @ np.cross(point - self.position, impulse))

    def speed_at(self, point: np.ndarray) -> np.ndarray:
        return self.velocity + np.cross(self.spin, point - self.position)


def impulse_on(a: Flyer, b: Flyer, answer: Answer | None) -> np.ndarray:
    """Of the first body; zero where the bodies part."""
    if answer is None:
        return np.zeros(3)
    normal, point = answer
    closing = normal @ (a.speed_at(point) - b.speed_at(point))
    if closing >= 0:
        return np.zeros(3)
    give = 1 / a.mass + 1 / b.mass
    for body in (a, b):
        arm = np.cross(point - body.position, normal)
        give += arm @ body.inverse_inertia() @ arm
    return -(1 + RESTITUTION) * closing / give * normal


def respond(a: Flyer, b: Flyer, answer: Answer | None) -> tuple[np.ndarray, np.ndarray]:
    """The first body's velocity and spin after the impulse."""
    return a.after(impulse_on(a, b, answer), answer[1] if answer else a.position)


def launch(meshes: dict, n: int, rng: np.random.Generator) -> tuple[list[str], list[Flyer]]:
    names = [list(meshes)[k] for k in rng.integers(len(RADII) + len(SIDES), size=n)]
    flyers = []
    for k, name in enumerate(names):
        mass, _, inertia = mass_properties(*meshes[name], density=100.0)
        place = 2.2 * (np.stack(np.unravel_index(k, (2, 2, n)), -1) - [0.5, 0.5, (n - 4) / 8])
        flyers.append(Flyer(mass, inertia, place, random_turn(rng), 2 * rng.normal(size=3), 2 * rng.normal(size=3)))
    return names, flyers


def measure(client: contactd.Client, frames: int = 400, bodies: int = 8, levels: range = range(1, FINEST + 1)) -> dict:
    """frames: in which some bodies collide; others do not count."""
    rng = np.random.default_rng(8)
    meshes = shapes()
    names, flyers = launch(meshes, bodies, rng)
    registered = {name: client.register_mesh(*meshes[name]) for name in sorted(set(names))}
    scenes = {}
    for variant, settings in ({"exact": {"method": "exact"}} | {
            (name, level): {"method": "voxtree", "voxel_level": FINEST, "level": level, "max_points": 4096} | of
            for name, of in VARIANTS.items() for level in levels}).items():
        scene = client.open_scene(**settings)
        scenes[variant] = scene, [scene.add_body(registered[name], pose=np.eye(4)) for name in names]

    def contacts_of(variant, answer_of) -> dict[tuple[int, int], Answer | None]:
        scene, of = scenes[variant]
        number = {body.id: k for k, body in enumerate(of)}
        poses = {body: at(*flyer.position, flyer.turn) for body, flyer in zip(of, flyers)}
        return {(number[contact.bodies[0].id], number[contact.bodies[1].id]): answer_of(contact)
                for contact in scene.step(poses=poses, want="frame").contacts}

    errors: dict = {variant: [] for variant in scenes if variant != "exact"}
    colliding = 0
    while colliding < frames:
        for flyer in flyers:
            flyer.drift()
        truth = {pair: answer for pair, answer in contacts_of("exact", frame_of).items()
                 if impulse_on(flyers[pair[0]], flyers[pair[1]], answer).any()}
        if not truth:
            continue
        colliding += 1
        for variant, of in errors.items():
            found = contacts_of(variant, mean_point)
            for (i, j), answer in truth.items():
                velocity, spin = respond(flyers[i], flyers[j], answer)
                other, turned = respond(flyers[i], flyers[j], found.get((i, j)))
                of.append((abs(np.linalg.norm(turned) - np.linalg.norm(spin)),
                           abs(np.linalg.norm(other) - np.linalg.norm(velocity)), angle(other, velocity)))
        for (i, j), answer in truth.items():
            impulse = impulse_on(flyers[i], flyers[j], answer)
            for k, sign in ((i, 1), (j, -1)):
                flyers[k].velocity, flyers[k].spin = flyers[k].after(sign * impulse, answer[1])
    for scene, _ in scenes.values():
        scene.close()
    out = {name: np.array([np.mean(errors[name, level], axis=0) for level in levels]) for name in VARIANTS}
    return out | {"levels": list(levels), "collisions": len(next(iter(errors.values())))}


def plot(axes, data: dict) -> None:
    for name in VARIANTS:
        for axis, what, errors in zip(axes, ERRORS, data[name].T):
            axis.plot(data["levels"], errors, "o-", label=name)
            axis.set(title=f"Error of the response: {what.split(',')[0]}", xlabel="level", ylabel=what.split(", ")[1], ylim=(0, None))
            axis.legend()


def numbers(data: dict) -> dict[str, float]:
    out = {"collisions": data["collisions"]}
    for i, level in enumerate(data["levels"]):
        out |= {f"{what}, level {level}, {name}": float(data[name][i, k])
                for k, what in enumerate(ERRORS) for name in VARIANTS}
    return out


PAPER = {what: "weighted below plain" for what in ERRORS}
