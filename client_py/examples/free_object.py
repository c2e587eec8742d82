"""Frees objects that a hand, or whatever holds them, penetrates: 6 numbers each, moved against the gradient of the intersection volume.

    python client_py/examples/free_object.py                                    # needs torch: pip install torch
    python client_py/examples/free_object.py --holder hand.ply --object ring.ply --scale 0.25 --count 64

Without files the holder is a palm with fingers and the object a ball with bumps. All objects are one batch: one call of the engine for each evaluation."""

from __future__ import annotations

import argparse
import time

import contactd
import numpy as np
import torch
from contactd.torch import Pair, transform
from shapes import blob, bricks


def poses_of(x: torch.Tensor) -> torch.Tensor:
    """(B, 3, 4) of translations and rotation vectors (B, 6)."""
    zero, (a, b, c) = torch.zeros_like(x[:, 0]), x[:, 3:].unbind(1)
    skew = torch.stack([zero, -c, b, c, zero, -a, -b, a, zero], 1).reshape(-1, 3, 3)
    return torch.cat([torch.linalg.matrix_exp(skew), x[:, :3, None]], 2)


def free(pair: Pair, vertices: torch.Tensor, start: torch.Tensor, rate: float, tolerance: float, most: int) -> tuple[torch.Tensor, list]:
    """Positions and rotations at which no volume is above the tolerance, m^3, and the largest volume of each evaluation."""
    x, history = start.clone().requires_grad_(), []
    optimizer = torch.optim.Adam([x], lr=rate)
    for _ in range(most):
        optimizer.zero_grad()
        volumes = pair(None, transform(vertices, poses_of(x)))
        history.append(float(volumes.detach().max()))
        if history[-1] <= tolerance:
            break
        volumes.sum().backward()
        x.grad[volumes.detach() <= tolerance] = 0  # those that are free stay near
        optimizer.step()
    return x.detach(), history


def fingers() -> tuple[np.ndarray, np.ndarray]:
    """A palm with three fingers, 2 m wide."""
    filled = np.zeros((5, 1, 6))
    filled[:, :, 0] = filled[::2] = 1
    return bricks(filled, (0.4, 0.4, 0.3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--holder", help="a mesh file; without: fingers")
    parser.add_argument("--object", help="a mesh file; without: a ball")
    parser.add_argument("--scale", type=float, default=1.0, help="of the object")
    parser.add_argument("--count", type=int, default=8, help="objects, at places of their own")
    given = parser.parse_args()
    with contactd.Engine() as engine:
        holder = engine.register_mesh_file(given.holder).geometry() if given.holder else fingers()
        thing = engine.register_mesh_file(given.object).geometry() if given.object else blob(0.3, 3)
    vertices = torch.tensor(np.asarray(thing[0], float) * given.scale)
    start = torch.zeros(given.count, 6, dtype=torch.float64)
    start[1:, :3] = 0.1 * torch.randn(given.count - 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    began = time.perf_counter()
    x, history = free(Pair(holder[0], holder[1], None, thing[1]), vertices, start, 0.02, 1e-9, 300)
    print(f"{given.count} objects, {len(history)} evaluations in {time.perf_counter() - began:.2f} s: largest overlap {history[0]:.3g} to "
          f"{history[-1]:.3g} m³; the first moved by {float((x - start)[0, :3].norm()):.3f} m and {float(x[0, 3:].norm()):.3f} rad")


if __name__ == "__main__":
    main()
