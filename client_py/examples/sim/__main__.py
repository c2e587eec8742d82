"""Stools and a soft ball fall onto a floor, in a pile: a line every 20 steps, about the contacts and where the time goes.

Each foot has a contact of its own (the scene's setting `patches`), so that stools stand: one volume for a whole pair has one
pressure, which cannot resist a tilt.
"""

from __future__ import annotations

import argparse

import contactd
import numpy as np
from shapes import blob, stool

from . import DeformableBody, HalfSpace, Options, RigidBody, World, step


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__.splitlines()[0])
    parser.add_argument("--server", help="address, e.g. tcp://127.0.0.1:5555")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--step-size", type=float, default=0.01, help="s")
    parser.add_argument("--friction", type=float, default=0.5)
    args = parser.parse_args()

    bodies: list = [HalfSpace((0, 0, 1))]
    for i in range(4):
        pose = np.eye(4)
        pose[:3, 3] = 0.02 * (i % 2), 0.01 * i, 0.16 + 0.32 * i
        bodies.append(RigidBody(stool(), 500.0, pose))
    vertices, triangles = blob(0.12, 3)
    bodies.append(DeformableBody((vertices + [0.02, 0.05, 1.5], triangles), 500.0, cell=0.06, young=5e4, damping=0.01))
    options = Options(friction=args.friction)
    with contactd.connect(args.server, name="sim") as client, World(client, bodies, patches=True) as world:
        contacts = None
        print("  time   contacts  deepest, mm  kinetic energy, J   ms: collision  modelling  motion  solver")
        for i in range(args.steps):
            report = step(world, args.step_size, options, contacts)
            contacts = report.contacts
            if i % 20 == 19:
                deepest = max((c.volume / c.area for c in contacts), default=0.0)
                times = "  ".join(f"{1e3 * s:8.2f}" for s in report.seconds.values())
                print(f"{(i + 1) * args.step_size:6.2f} {len(contacts):8}   {1e3 * deepest:10.3f} "
                      f"{world.kinetic_energy():18.3e}       {times}", flush=True)


if __name__ == "__main__":
    main()
