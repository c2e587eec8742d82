"""A ball rests on a box, which rests on the ground: their equilibrium by Newton's method.

The unknowns are the poses of two rigid bodies, the equations that force and torque on each vanish: the contacts' penalty
forces -k V dV/dq and the weight. Newton's method needs their Jacobian, -k (V H + G G^T) with G = dV/dq and H = d2V/dq2;
the server gives H times twelve directions with a step. Without H what is left, G G^T, is the Gauss-Newton method. It
knows how a contact resists being pressed, but not how it resists being tilted.

    python equilibrium.py [--server tcp://127.0.0.1:5555]
"""

from __future__ import annotations

import argparse

import contactd
import numpy as np
from shapes import box, icosphere

STIFFNESS = 1e6  # k of the energy k V^2 / 2, N/m^5
MASSES = np.array([40.0, 15.0])  # kg: box, ball


def moved(pose: np.ndarray, twist: np.ndarray) -> np.ndarray:
    """The pose after a translation and a rotation about its own origin."""
    angle = np.linalg.norm(twist[3:])
    x, y, z = twist[3:] / (angle or 1)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    out = pose.copy()
    out[:3, :3] = (np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross) @ pose[:3, :3]
    out[:3, 3] += twist[:3]
    return out


def forces_and_jacobian(result: contactd.StepResult, bodies: list[contactd.Body],
                        has_second: bool) -> tuple[np.ndarray, np.ndarray]:
    """(12,) force and torque on each of the two bodies, and (12, 12) their derivative."""
    force, jacobian = np.zeros(12), np.zeros((12, 12))
    force[[2, 8]] = -9.81 * MASSES
    for contact in result.contacts:
        gradient = np.zeros(12)
        second = np.zeros((12, 12))
        for i, body in enumerate(bodies):
            if body not in contact.bodies:
                continue
            gradient[6 * i : 6 * i + 6] = contact.generalized_gradient(body)
            for k in range(12 if has_second else 0):
                second[6 * i : 6 * i + 6, k] = contact.generalized_product(body, k)
        force -= STIFFNESS * contact.volume * gradient
        jacobian -= STIFFNESS * (contact.volume * second + np.outer(gradient, gradient))
    return force, jacobian


def settle(client: contactd.Client, has_second: bool = True, steps: int = 12) -> list[float]:
    """Solves for the equilibrium; returns the size of what is left of the forces, N and N m, before each step."""
    scene = client.open_scene(method="exact")
    ground = client.register_mesh(*box((-2.0, -2.0, -1.0), (2.0, 2.0, 0.0)))
    cube = client.register_mesh(*box((-0.5, -0.5, -0.5), (0.5, 0.5, 0.5)))
    ball = client.register_mesh(*icosphere(0.5, 3))
    scene.add_body(ground, pose=np.eye(4))
    bodies = [scene.add_body(mesh, pose=np.eye(4)) for mesh in (cube, ball)]
    poses = [np.eye(4), np.eye(4)]
    poses[0][:3, 3] = 0.0, 0.0, 0.495
    poses[1][:3, 3] = 0.02, 0.01, 1.465
    poses[0] = moved(poses[0], np.array([0, 0, 0, 0.002, -0.003, 0]))
    directions = [{bodies[k // 6]: np.eye(6)[k % 6]} for k in range(12)]
    left = []
    for _ in range(steps):
        result = scene.step(poses=dict(zip(bodies, poses)), want="frame", directions=directions if has_second else None)
        force, jacobian = forces_and_jacobian(result, bodies, has_second)
        left.append(float(np.linalg.norm(force)))
        # Sliding over the ground and turning about the vertical change nothing: the least squares leave them alone.
        twist = np.linalg.lstsq(jacobian, -force, rcond=1e-9)[0]
        poses = [moved(pose, twist[6 * i : 6 * i + 6]) for i, pose in enumerate(poses)]
    scene.close()
    return left


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", default="tcp://127.0.0.1:5555")
    with contactd.connect(parser.parse_args().server) as client:
        newton, gauss = settle(client), settle(client, has_second=False)
    print("step  Newton       Gauss-Newton   (force that is left, N)")
    for i, (a, b) in enumerate(zip(newton, gauss)):
        print(f"{i:4}  {a:<11.3e}  {b:.3e}")


if __name__ == "__main__":
    main()
