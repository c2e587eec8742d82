"""Packs stools into a box: their poses are moved against the gradient of all that they share with each other and with the walls.

    python client_py/examples/packing.py          # needs jax: pip install jax

The walls are one body, a thick box that is hollow. All pairs are one scene, and one step of the engine for each evaluation."""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from contactd.jax import Scene
from shapes import bricks, stool

INSIDE = 3  # of the walls' bricks, of five


def walls(side: float) -> tuple[np.ndarray, np.ndarray]:
    """A hollow box with so much room inside, m."""
    filled = np.ones((5, 5, 5))
    filled[1:-1, 1:-1, 1:-1] = 0
    return bricks(filled, (side / INSIDE,) * 3)


def poses_of(x: jax.Array) -> jax.Array:
    """(k, 3, 4) of translations and rotation vectors (k, 6)."""
    a, b, c = x[:, 3:].T
    zero = jnp.zeros_like(a)
    skew = jnp.stack([zero, -c, b, c, zero, -a, -b, a, zero], 1).reshape(-1, 3, 3)
    return jnp.concatenate([jax.vmap(jax.scipy.linalg.expm)(skew), x[:, :3, None]], 2)


def pack(count: int, side: float, rate: float, most: int, seed: int) -> tuple[np.ndarray, list[float]]:
    """Poses (count, 6) and the volume shared, m^3, of each evaluation: the last is the first below a hundredth of a cm^3, or of most."""
    scene = Scene([walls(side)] + [stool()] * count, fixed=[0])
    x = jnp.asarray(np.random.default_rng(seed).uniform(-0.25, 0.25, (count, 6)) * [side, side, side, 4, 4, 4])
    evaluate = jax.jit(jax.value_and_grad(lambda x: scene(poses_of(x))))
    history, speed, scale = [], jnp.zeros_like(x), jnp.zeros_like(x)
    for k in range(1, most + 1):
        volume, gradient = evaluate(x)
        history.append(float(volume))
        if history[-1] < 1e-8:
            break
        speed, scale = 0.9 * speed + 0.1 * gradient, 0.99 * scale + 0.01 * gradient**2  # Adam (Kingma and Ba 2015)
        x = x - rate * (speed / (1 - 0.9**k)) / (jnp.sqrt(scale / (1 - 0.99**k)) + 1e-12)
    return np.asarray(x), history


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--side", type=float, default=0.75, help="m, of the box; a stool is 0.3 m wide")
    parser.add_argument("--most", type=int, default=200, help="evaluations")
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    _, history = pack(given.count, given.side, 0.01, given.most, 1)
    print(f"{given.count} stools: {history[0]:.3g} m³ shared at the start, {history[-1]:.3g} after {len(history)} evaluations")


if __name__ == "__main__":
    main()
