"""Friction and softness of what touches in an MjModel, mixed as MuJoCo does it. For mujoco."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ._mujoco_model import mujoco

Vector = NDArray[np.float64]
LEAST_FRICTION = 1e-5  # MuJoCo's own (mjMINMU): its solver divides by friction
_OF_PARTS = ("friction", "condim", "priority", "solmix", "solref", "solimp")
_OF_PAIRS = ("friction", "dim", "solref", "solreffriction", "solimp")


def _is_overridden(model: Any) -> bool:
    return bool(model.opt.enableflags & int(mujoco.mjtEnableBit.mjENBL_OVERRIDE))


def frictions_of(model: Any, geoms: Sequence[int], flexes: Sequence[int] = ()) -> Vector:
    """(n, n) of geoms, then flexes; without friction (condim 1) the least."""
    at, soft = list(geoms), list(flexes)
    friction, dim, priority = (np.concatenate([getattr(model, f"geom_{name}")[at], getattr(model, f"flex_{name}")[soft]]) for name in _OF_PARTS[:3])
    friction = friction[:, 0]
    first, second = priority[:, None] > priority, priority[:, None] < priority
    mixed, dims = (np.where(first, values[:, None], np.where(second, values, np.maximum(values[:, None], values))) for values in (friction, dim))
    place = {geom: k for k, geom in enumerate(geoms)}
    for k, (a, b) in enumerate(zip(model.pair_geom1.tolist(), model.pair_geom2.tolist())):
        if a in place and b in place:
            for i, j in ((place[a], place[b]), (place[b], place[a])):
                mixed[i, j], dims[i, j] = model.pair_friction[k][0], model.pair_dim[k]
    if _is_overridden(model):
        mixed[:] = model.opt.o_friction[0]
    return np.where(dims == 1, LEAST_FRICTION, np.maximum(mixed, LEAST_FRICTION))


def softness_of(model: Any, a: int, b: int) -> tuple[Vector, Vector, Vector]:
    """solref, solreffriction and solimp of two geoms."""
    if _is_overridden(model):
        return np.array(model.opt.o_solref), np.array(model.opt.o_solref), np.array(model.opt.o_solimp)
    for k, pair in enumerate(zip(model.pair_geom1.tolist(), model.pair_geom2.tolist())):
        if set(pair) == {a, b}:
            return model.pair_solref[k], model.pair_solreffriction[k], model.pair_solimp[k]
    first, second, nothing = int(model.geom_priority[a]), int(model.geom_priority[b]), np.zeros(2)
    if first != second:
        chosen = a if first > second else b
        return model.geom_solref[chosen], nothing, model.geom_solimp[chosen]
    weights = np.maximum(np.array([model.geom_solmix[a], model.geom_solmix[b]]), 1e-15)
    share = float(weights[0] / weights.sum())
    both = np.stack([model.geom_solref[a], model.geom_solref[b]])
    solref = share * both[0] + (1 - share) * both[1] if (both[:, 0] > 0).all() else both.min(axis=0)
    return solref, nothing, share * model.geom_solimp[a] + (1 - share) * model.geom_solimp[b]


def read_parameters(model: Any) -> Callable[[], bytes]:
    """What tells whether any of them has changed."""
    names = [f"{kind}_{name}" for kind, names in (("geom", _OF_PARTS), ("flex", _OF_PARTS), ("pair", _OF_PAIRS)) for name in names]
    arrays = [getattr(model, name) for name in names if getattr(model, name).size]  # views of the model's own memory
    option = model.opt
    arrays += [option.o_friction, option.o_solref, option.o_solimp]
    flag = int(mujoco.mjtEnableBit.mjENBL_OVERRIDE)
    return lambda: b"".join([array.tobytes() for array in arrays]) + bytes([option.enableflags & flag])
