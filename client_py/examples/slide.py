#!/usr/bin/env python3
"""A ball slides over a bumpy one at a fixed depth, in small steps: the pressing force by each method.

The true force changes smoothly. What a method adds to it is what a simulator feels as shaking: the exact method adds
nothing but the facets of the meshes, sampling adds the rays that cross a facet's edge from one step to the next.

    slide.py --server tcp://127.0.0.1:5555 --csv slide.csv
"""

from __future__ import annotations

import argparse
import csv
import pathlib
import sys

import numpy as np

import contactd
import shapes

STEPS = 600
DEPTH = 2e-3  # m
PATH = 6e-3  # m: about three facets of the ball
METHODS = {"exact": {"method": "exact"}, "ldi_64": {"method": "ldi", "resolution": 64}}


def height_over(vertices: np.ndarray, radius: float, x: float) -> float:
    """z at which the middle of a ball of that radius, at (x, 0), touches the highest of the vertices around it."""
    away = np.hypot(vertices[:, 0] - x, vertices[:, 1])
    near = vertices[away < radius]
    return float((near[:, 2] + np.sqrt(radius**2 - away[away < radius]**2)).max())


def ripple(force: np.ndarray) -> np.ndarray:
    """What is left of a curve beside its trend, a polynomial of degree 5."""
    t = np.linspace(-1, 1, len(force))
    return force - np.polynomial.Polynomial.fit(t, force, 5)(t)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default=None, help="address, e.g. tcp://127.0.0.1:5555")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--csv", type=pathlib.Path, help="one line a step")
    args = parser.parse_args()

    ground, ball = shapes.blob(0.1, 5), shapes.icosphere(0.05, 4)
    height = height_over(ground[0], 0.05, 0.0) - DEPTH
    distance = np.linspace(0, PATH, args.steps)
    force = {}
    with contactd.connect(args.server, name="slide") as client:
        meshes = [client.register_mesh(*ground, name="ground"), client.register_mesh(*ball, name="ball")]
        for name, settings in METHODS.items():
            scene = client.open_scene(**settings, name=f"slide {name}")
            fixed, moved = (scene.add_body(mesh, pose=np.eye(4)) for mesh in meshes)
            force[name] = np.zeros(args.steps)
            for i, x in enumerate(distance):
                pose = np.eye(4)
                pose[:3, 3] = x, 0, height
                for contact in scene.step(poses={fixed: np.eye(4), moved: pose}, want=("frame",)).contacts:
                    force[name][i] = -contact.volume * contact.generalized_gradient(moved)[2]
            scene.close()
    for name, curve in force.items():
        if not (curve > 0).all():
            print(f"slide: {name} lost the contact", file=sys.stderr)
            return 1
        print(f"slide: {name}: the force leaves its trend by {np.std(ripple(curve)) / np.mean(curve):.1e} of itself")
    if args.csv:
        with args.csv.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["distance", *force])
            writer.writerows([f"{v:.9g}" for v in row] for row in zip(distance, *force.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
