"""Friction and softness of what touches in an MjModel, mixed as MuJoCo does it. For mujoco."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from numpy.typing import NDArray

from ._mujoco_model import mujoco

Part = tuple[str, int]  # "geom" or "flex", and which
Vector = NDArray[np.float64]
LEAST_FRICTION = 1e-5  # MuJoCo's own (mjMINMU): its solver divides by friction
_OF_PARTS = ("friction", "condim", "priority", "solmix", "solref", "solimp")
_OF_PAIRS = ("friction", "dim", "solref", "solreffriction", "solimp")


def parameters_of(model: Any, a: Part, b: Part) -> tuple[float, Vector, Vector, Vector]:
    """Friction, solref, solreffriction and solimp of two parts; without friction (condim 1) the least."""
    friction, dim, solref, solreffriction, solimp = _mixed(model, a, b)
    if model.opt.enableflags & int(mujoco.mjtEnableBit.mjENBL_OVERRIDE):
        friction, solimp = float(model.opt.o_friction[0]), np.array(model.opt.o_solimp)
        solref = solreffriction = np.array(model.opt.o_solref)
    return LEAST_FRICTION if dim == 1 else max(friction, LEAST_FRICTION), solref, solreffriction, solimp


def _mixed(model: Any, a: Part, b: Part) -> tuple[float, int, Vector, Vector, Vector]:
    """Friction, condim, solref, solreffriction and solimp."""
    if a[0] == b[0] == "geom":
        for k, pair in enumerate(zip(model.pair_geom1.tolist(), model.pair_geom2.tolist())):
            if set(pair) == {a[1], b[1]}:
                return (float(model.pair_friction[k][0]), int(model.pair_dim[k]), model.pair_solref[k], model.pair_solreffriction[k],
                        model.pair_solimp[k])
    (friction, dim, priority, solmix, solref, solimp), of_b = (
        [getattr(model, f"{kind}_{name}")[k] for name in _OF_PARTS] for kind, k in (a, b))
    friction, dim, nothing = float(friction[0]), int(dim), np.zeros(2)
    if priority != of_b[2]:
        if priority < of_b[2]:
            friction, dim, solref, solimp = float(of_b[0][0]), int(of_b[1]), of_b[4], of_b[5]
        return friction, dim, solref, nothing, solimp
    weights = np.maximum(np.array([solmix, of_b[3]]), 1e-15)
    share = float(weights[0] / weights.sum())
    both = np.stack([solref, of_b[4]])
    solref = share * both[0] + (1 - share) * both[1] if (both[:, 0] > 0).all() else both.min(axis=0)
    return max(friction, float(of_b[0][0])), max(dim, int(of_b[1])), solref, nothing, share * solimp + (1 - share) * of_b[5]


def read_parameters(model: Any) -> Callable[[], bytes]:
    """What tells whether any of them has changed."""
    names = [f"{kind}_{name}" for kind, names in (("geom", _OF_PARTS), ("flex", _OF_PARTS), ("pair", _OF_PAIRS)) for name in names]
    arrays = [getattr(model, name) for name in names if getattr(model, name).size]  # views of the model's own memory
    option = model.opt
    arrays += [option.o_friction, option.o_solref, option.o_solimp]
    flag = int(mujoco.mjtEnableBit.mjENBL_OVERRIDE)
    return lambda: b"".join([array.tobytes() for array in arrays]) + bytes([option.enableflags & flag])
