"""Bodies that rest, slide, roll, spin, screw and collide by the contact law "pressure", each beside its closed form.

    python resting.py                   # all scenes, in this process
    python resting.py five slope        # some of them
    python resting.py --server HOST     # on a server

The integrator is symplectic Euler, the simplest that there is: forces and torques are what a step answers, body_wrenches.
Its time step has to be short beside the contacts' own times: sqrt(m / k A) of a mass m on an area A, and m v / (mu N) of
friction that regularises at the speed v. What friction holds creeps, at less than that speed.
"""

from __future__ import annotations

import argparse
import math
from typing import Any, Callable

import contactd
import numpy as np
from crates import bowl
from shapes import PITCH, bolt, box, icosphere, nut
from sim.mass import mass_properties
from sim.quaternion import exponential, from_matrix, rotate, to_matrix

GRAVITY = 9.81


class Rigid:
    def __init__(self, mesh: tuple[Any, Any], mass: float, position: Any, rotation: Any = np.eye(3), velocity: Any = (0, 0, 0),
                 spin: Any = (0, 0, 0), fixed: bool = False, **material: float) -> None:
        vertices, faces = np.asarray(mesh[0], float), np.asarray(mesh[1])
        volume, center, inertia = mass_properties(vertices, faces, 1.0)
        self.mesh, self.mass, self.material, self.fixed = (vertices - center, faces), mass, material, fixed
        self.center = center  # in the mesh as given
        self.reach = float(np.linalg.norm(vertices - center, axis=1).max())
        self.inertia = inertia * (mass / volume)  # about the centre, at rest
        self.position, self.velocity = np.array(position, float), np.array(velocity, float)
        self.turn = from_matrix(np.asarray(rotation, float))
        self.momentum = self.inertia_now() @ np.array(spin, float)  # angular

    def rotation(self) -> np.ndarray:
        return to_matrix(self.turn)

    def inertia_now(self) -> np.ndarray:
        rotation = self.rotation()
        return rotation @ self.inertia @ rotation.T

    def spin(self) -> np.ndarray:
        return np.linalg.solve(self.inertia_now(), self.momentum)

    def pose(self) -> np.ndarray:
        return np.c_[self.rotation(), self.position]

    def twist(self) -> np.ndarray:
        return np.r_[self.velocity, self.spin()]

    def speed(self) -> float:
        """m/s: no point of it moves faster."""
        return float(np.linalg.norm(self.velocity) + np.linalg.norm(self.spin()) * self.reach)

    def move(self, wrench: np.ndarray, gravity: np.ndarray, h: float) -> None:
        if self.fixed:
            return
        self.velocity += h * (wrench[:3] / self.mass + gravity)
        self.momentum += h * wrench[3:]
        self.turn = rotate(self.turn, h * self.spin())
        self.position += h * self.velocity


class World:
    def __init__(self, client: contactd.Client, rigid: list[Rigid], floor: Any = (0, 0, 1), gravity: Any = (0, 0, -GRAVITY),
                 stiction_speed: float = 1e-3, friction: float = 0.0) -> None:
        self.scene = client.open_scene(law="pressure", stiction_speed=stiction_speed)
        self.rigid, self.gravity = rigid, np.array(gravity, float)
        self.bodies = [self.scene.add_body(client.register_mesh(*r.mesh), pose=r.pose(), **r.material) for r in rigid]
        if floor is not None:
            self.scene.add_half_space(floor, 0.0, friction=friction)

    def run(self, seconds: float, h: float, each: Callable[[], None] = lambda: None) -> None:
        for _ in range(round(seconds / h)):
            result = self.scene.step(poses={b: r.pose() for b, r in zip(self.bodies, self.rigid)},
                                     velocities={b: r.twist() for b, r in zip(self.bodies, self.rigid)}, want=("frame",))
            wrenches = dict(zip(result.bodies, result.body_wrenches if len(result) else np.zeros((len(result.bodies), 6))))
            for body, rigid in zip(self.bodies, self.rigid):
                rigid.move(wrenches[body], self.gravity, h)
            each()

    def momenta(self) -> np.ndarray:
        """(6,) linear, and angular about the world's origin."""
        return np.sum([np.r_[r.mass * r.velocity, r.momentum + np.cross(r.position, r.mass * r.velocity)] for r in self.rigid],
                      axis=0)

    def kinetic(self) -> float:
        return sum(float(r.mass * r.velocity @ r.velocity + r.momentum @ r.spin()) / 2 for r in self.rigid)


def turned(axis: Any, angle: float) -> np.ndarray:
    return to_matrix(exponential(angle * np.asarray(axis, float) / np.linalg.norm(axis)))


def block(x: float, y: float, z: float) -> tuple[Any, Any]:
    return box((-x / 2, -y / 2, -z / 2), (x / 2, y / 2, z / 2))


def cylinder(radius: float, height: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    angle = np.arange(n) * 2 * np.pi / n
    ring = radius * np.c_[np.cos(angle), np.sin(angle)]
    ends = [np.c_[ring, np.full(n, z)] for z in (-height / 2, height / 2)]
    i = np.arange(n)
    j, low, high = (i + 1) % n, np.full(n, 2 * n), np.full(n, 2 * n + 1)
    faces = [np.c_[i, j, n + i], np.c_[j, n + j, n + i], np.c_[low, j, i], np.c_[high, n + i, n + j]]
    return np.concatenate([*ends, [[0, 0, -height / 2], [0, 0, height / 2]]]), np.concatenate(faces)


# ---- scenes: each gives what it measured, and what the closed form says ----


def stack(client: contactd.Client, sizes: list[tuple[float, float, float]], seconds: float, depth: float,
          h: float = 2e-4) -> dict[str, float]:
    """Blocks of 1 kg on one another, each as deep in the next as one block would be by its weight."""
    height, rigid = 0.0, []
    for x, y, z in sizes:
        modulus = GRAVITY / (x * y * depth) * (2 if len(sizes) > 1 else 1)  # of two bodies in series
        rigid.append(Rigid(block(x, y, z), 1.0, (0, 0, height + z / 2), modulus=modulus, friction=0.5, dissipation=2.0))
        height += z
    world = World(client, rigid, stiction_speed=0.02, friction=0.5)
    world.run(seconds, h)
    return {"tilt": max(math.acos(min(1.0, r.rotation()[2, 2])) for r in rigid),
            "drift": max(float(np.abs(r.position[:2]).max()) for r in rigid),
            "speed": max(float(np.abs(r.twist()).max()) for r in rigid),
            "sink": height - sizes[-1][2] / 2 - float(rigid[-1].position[2])}


def slope(client: contactd.Client, friction: float, seconds: float = 1.0, h: float = 1e-4) -> dict[str, float]:
    """A block on a slope of tan 0.35: the acceleration down it, and how much it leans."""
    angle = math.atan(0.35)
    normal, down = np.array((math.sin(angle), 0, math.cos(angle))), np.array((math.cos(angle), 0, -math.sin(angle)))
    body = Rigid(block(0.1, 0.1, 0.1), 1.0, 0.05 * normal, turned((0, 1, 0), angle), modulus=1e6, friction=friction,
                 dissipation=20.0)
    world = World(client, [body], normal, friction=friction)
    world.run(seconds / 2, h)
    before = body.velocity @ down
    world.run(seconds / 2, h)
    return {"acceleration": float(body.velocity @ down - before) / (seconds / 2), "speed": float(body.velocity @ down),
            "lean": math.acos(min(1.0, float(body.rotation()[:, 2] @ normal))),
            "expected": max(0.0, GRAVITY * (math.sin(angle) - friction * math.cos(angle)))}


def roll(client: contactd.Client, seconds: float = 0.5, h: float = 1e-4) -> dict[str, float]:
    """A ball rolls down a slope: 5/7 g sin."""
    angle = 0.2
    normal = np.array((math.sin(angle), 0, math.cos(angle)))
    ball = Rigid(icosphere(0.1, 5), 1.0, 0.0999 * normal, modulus=1e8, friction=0.6)
    world = World(client, [ball], normal, friction=0.6)
    world.run(seconds / 2, h)
    before = np.linalg.norm(ball.velocity)
    world.run(seconds / 2, h)
    return {"acceleration": float(np.linalg.norm(ball.velocity) - before) / (seconds / 2),
            "expected": 5 / 7 * GRAVITY * math.sin(angle)}


def spin(client: contactd.Client, seconds: float = 0.25, h: float = 2e-4) -> dict[str, float]:
    """A disc spins on a floor: its torque is mu N 2/3 R."""
    radius, mu, depth = 0.2, 0.3, 1e-4
    modulus = GRAVITY / (math.pi * radius**2 * depth)
    disc = Rigid(cylinder(radius, 0.1, 128), 1.0, (0, 0, 0.05 - depth), spin=(0, 0, 20), modulus=modulus, friction=mu,
                 dissipation=1.0)
    World(client, [disc], friction=mu).run(seconds, h)
    slower = mu * GRAVITY * 2 / 3 * radius / (radius**2 / 2) * seconds
    return {"slower": 20 - float(disc.spin()[2]), "expected": slower}


def bowls(client: contactd.Client, seconds: float = 2.0, h: float = 5e-5) -> dict[str, float]:
    """Three bowls of 0.5 kg, two of them 5 degrees askew in the one below: as fast as any point of them still is."""
    rigid = []
    for i in range(3):
        body = Rigid(bowl(), 0.5, (0, 0, 0), turned((1, 0.7 * i, 0), math.radians(5 * (i > 0))), modulus=1e8, friction=0.4,
                     dissipation=20.0)
        body.position[2] = 0.0305 * i + 2e-4 - float((body.rotation() @ body.mesh[0].T)[2].min())
        rigid.append(body)
    World(client, rigid, friction=0.4).run(seconds, h)
    return {"speed": max(r.speed() for r in rigid), "apart": float(rigid[2].position[2] - rigid[0].position[2]) / 2}


def screw(client: contactd.Client, friction: float, seconds: float = 1.0, stiction_speed: float = 1e-3,
          around: int = 96) -> dict[str, float]:
    """A nut of 1 kg on a fixed bolt, 6 mm off its thread, by its weight: how far it fell and turned after it had settled."""
    start = Rigid(nut(around, 0.006), 1.0, (0, 0, 0))
    body = Rigid(nut(around, 0.006), 1.0, start.center, modulus=1e7, friction=friction, dissipation=5.0)
    fixed = Rigid(bolt(around, (-0.6, 0.6)), 1.0, (0, 0, 0), fixed=True, friction=friction)
    fixed.position = fixed.center
    world = World(client, [fixed, body], floor=None, stiction_speed=stiction_speed)
    turn, before = 0.0, 0.0

    def note() -> None:
        nonlocal turn, before
        rotation = body.rotation()
        angle = math.atan2(rotation[1, 0], rotation[0, 0])
        turn += math.remainder(angle - before, 2 * math.pi)
        before = angle

    world.run(seconds / 4, 1e-4, note)
    height, settled = float(body.position[2]), turn
    world.run(3 * seconds / 4, 1e-4, note)
    return {"fell": height - float(body.position[2]), "thread": PITCH * (settled - turn) / (2 * math.pi),
            "speed": body.speed()}


def drop(client: contactd.Client, h: float = 2e-5) -> dict[str, float]:
    """A ball meets a floor at 1 m/s: the work of k V along the way in is its energy, and it leaves as it came."""
    r, k = 0.1, 1e7
    ball = Rigid(icosphere(r, 5), 1.0, (0, 0, r), velocity=(0, 0, -1), modulus=k)
    lowest = r

    def note() -> None:
        nonlocal lowest
        lowest = min(lowest, float(ball.position[2]))

    World(client, [ball], gravity=(0, 0, 0)).run(0.04, h, note)
    depth = r - lowest
    return {"work": k * math.pi * (r * depth**3 / 3 - depth**4 / 12), "energy": 0.5, "speed": float(ball.velocity[2])}


def collide(client: contactd.Client, seed: int = 0, dissipation: float = 0.2, friction: float = 0.4,
            seconds: float = 1.0, h: float = 1e-4) -> dict[str, float]:
    """Two boxes that turn, collide and rub in free space: momenta, and the most of the kinetic energy."""
    rng = np.random.default_rng(seed)
    rigid = []
    for side in (-1, 1):
        turn = rng.normal(size=4)
        rigid.append(Rigid(block(1, 0.8, 1.2), 1 + 0.5 * side, (1.1 * side, 0.2 * side, 0), to_matrix(turn / np.linalg.norm(turn)),
                           (-2 * side, 0, 0.1), rng.normal(size=3), modulus=1e5, friction=friction, dissipation=dissipation))
    world = World(client, rigid, floor=None, gravity=(0, 0, 0))
    before, energy = world.momenta(), world.kinetic()
    most = energy

    def note() -> None:
        nonlocal most
        most = max(most, world.kinetic())

    world.run(seconds, h, note)
    return {"momentum": float(np.abs(world.momenta() - before).max()), "energy": energy, "most": most,
            "left": world.kinetic()}


SCENES: dict[str, Callable[[contactd.Client], dict[str, float]]] = {
    "cube": lambda client: stack(client, [(0.1, 0.1, 0.1)], 2.0, 1e-3),
    "column": lambda client: stack(client, [(0.05, 0.05, 0.2)], 2.0, 1e-3),
    "five": lambda client: stack(client, [(0.1, 0.1, 0.1)] * 5, 2.0, 1e-4),
    "ten": lambda client: stack(client, [(0.1, 0.1, 0.1)] * 10, 2.0, 2e-5, 1e-4),
    "sticks": lambda client: slope(client, 0.5),
    "slides": lambda client: slope(client, 0.2),
    "bowls": bowls,
    "holds": lambda client: screw(client, 0.3),
    "unscrews": lambda client: screw(client, 0.01, stiction_speed=1e-2),
    "roll": roll, "spin": spin, "drop": drop, "collide": collide,
    "undamped": lambda client: collide(client, dissipation=0.0, friction=0.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("scenes", nargs="*", choices=[[], *SCENES], default=[])
    parser.add_argument("--server", help="an address; left out: in this process")
    options = parser.parse_args()
    with contactd.connect(options.server) if options.server else contactd.Engine() as client:
        for name in options.scenes or SCENES:
            print(f"{name:8}", "  ".join(f"{what} {value:.4g}" for what, value in SCENES[name](client).items()))


if __name__ == "__main__":
    main()
