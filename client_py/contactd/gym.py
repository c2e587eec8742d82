"""Many environments as one: a gymnasium vector environment whose contacts are one call for all of them.

    envs = contactd.gym.VectorScenes(64, build, observe, reward)
    observations, infos = envs.reset(seed=0)
    observations, rewards, terminated, truncated, infos = envs.step(actions)

Each environment is a scene with law="pressure", a copy of the one that `build` makes. A step integrates the rigid bodies: semi-implicit Euler, with
the wrenches of all contacts, of gravity, and of the actions. Environments that end are reset in the next step, as gymnasium's own vector
environments do by default (AutoresetMode.NEXT_STEP). Needs the package gymnasium.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _arrays
from ._optional import check_version, need
from ._own_engine import own_engine
from .client import Client
from .errors import ErrorCode, error_for
from .scene import Scene

gymnasium: Any = need("gymnasium", "contactd.gym", "gym")
check_version(gymnasium, "contactd.gym", (1, 1), (2, 0))
Array = NDArray[np.float64]
STICTION = 20.0  # m/s^2, times the time step: friction is explicit

__all__ = ["State", "VectorScenes"]


class State:
    """Where the rigid bodies of n environments are: all arrays begin with (n, b), the bodies in the order of the scene's.

    Attributes:
        poses: (n, b, 3, 4) m.  velocities: (n, b, 6) m/s of the origins, rad/s, world axes.
        wrenches: (n, b, 6) N, N m about the origins: of the contacts of the last sub-step.
        time: (n,) s since the reset.
    """

    def __init__(self, n: int, bodies: int) -> None:
        self.poses, self.velocities = np.zeros((n, bodies, 3, 4)), np.zeros((n, bodies, 6))
        self.wrenches, self.time = np.zeros((n, bodies, 6)), np.zeros(n)


class VectorScenes(gymnasium.vector.VectorEnv):  # type: ignore[misc,name-defined,unused-ignore]
    """See the module.

    Args:
        num_envs: n.
        build: of an open scene: adds the bodies, with materials, and returns their masses (b,), kg, one for each body of the scene; 0: it
            does not move. Masses are of homogeneous meshes, whose centre of mass is not the origin in general.
        observe: of a State: (n, k) observations.
        reward: of a State and the actions: (n,) rewards.
        terminated: of a State: (n,) whether an environment has ended; None: never.
        act: of a State and the actions: (n, b, 6) wrenches on the bodies about their origins, N, N m; None: actions are those of the bodies that move,
            (n, moving * 6), flat.
        randomize: of a numpy Generator, the poses (m, b, 3, 4) and the velocities (m, b, 6) of environments that are reset, which it changes in place.
        action_size: numbers of an action; None: 6 for each body that moves.  action_limit: N, N m.
        dt: s, of a sub-step.  substeps: of a step.  max_time: s, after which an environment is truncated; None: never.
        gravity: (3,) m/s^2.
        client: where contacts are computed; None: an engine in this process.
    """

    _scenes: Sequence[Scene] = ()  # of one that could not be made, which gymnasium closes all the same
    metadata = {"render_modes": [], "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int, build: Callable[[Scene], ArrayLike], observe: Callable[[State], Array],
                 reward: Callable[[State, Array], Array], *, terminated: Callable[[State], NDArray[np.bool_]] | None = None,
                 act: Callable[[State, Array], Array] | None = None,
                 randomize: Callable[[np.random.Generator, Array, Array], None] | None = None, action_size: int | None = None,
                 action_limit: float = 1.0, dt: float = 1e-3, substeps: int = 10, max_time: float | None = None,
                 gravity: ArrayLike = (0.0, 0.0, -9.81), client: Client | None = None) -> None:
        self.num_envs, self._client = _arrays.unsigned(num_envs, field="num_envs"), client or own_engine()
        self._observe, self._reward, self._terminated, self._act, self._randomize = observe, reward, terminated, act, randomize
        self._dt, self._substeps, self._max_time = _arrays.real(dt, field="dt"), _arrays.unsigned(substeps, field="substeps"), max_time
        for name, value in (("num_envs", self.num_envs), ("dt", self._dt), ("substeps", self._substeps)):
            if not value > 0:
                raise error_for(ErrorCode.OUT_OF_RANGE, f"expected more than 0, got {value:g}", field=name)
        self._gravity = np.array(_arrays.vector(gravity, (3,), field="gravity"))
        template = self._client.open_scene(method="exact", law="pressure", name="gym", stiction_speed=STICTION * self._dt)
        try:
            self._mass = np.asarray(build(template), float)
            bodies = template._state.bodies
            if self._mass.shape != (len(bodies),):
                raise error_for(ErrorCode.WRONG_LENGTH, f"expected {len(bodies)} masses, one for each body of the scene, got "
                                f"{self._mass.shape}", field="build")
            if not ((self._mass >= 0) & np.isfinite(self._mass)).all():
                raise error_for(ErrorCode.OUT_OF_RANGE, f"expected masses of 0 kg or more, got {self._mass.tolist()}", field="build")
            self._start = np.array([body.pose for body in bodies], float).reshape(-1, 3, 4)
            self._measure(template)
            self._make_spaces(observe, action_size, action_limit)
            self._scenes = self._client.open_scenes(self.num_envs, template)  # last: what fails before leaves none open
        finally:
            template.close()

    def _make_spaces(self, observe: Callable[[State], Array], action_size: int | None, action_limit: float) -> None:
        self.state, self._ended = State(self.num_envs, len(self._mass)), np.zeros(self.num_envs, bool)
        self._set(np.ones(self.num_envs, bool), np.random.default_rng(0))
        size = 6 * int(self._moves.sum()) if action_size is None else action_size
        box = gymnasium.spaces.Box
        shape = np.asarray(observe(self.state)).shape
        if len(shape) != 2 or shape[0] != self.num_envs:
            raise error_for(ErrorCode.WRONG_LENGTH, f"expected observations ({self.num_envs}, k), got {shape}", field="observe")
        self.single_observation_space = box(-np.inf, np.inf, shape[1:], np.float64)
        self.single_action_space = box(-action_limit, action_limit, (size,), np.float64)
        batch = gymnasium.vector.utils.batch_space
        self.observation_space = batch(self.single_observation_space, self.num_envs)
        self.action_space = batch(self.single_action_space, self.num_envs)

    def _measure(self, template: Scene) -> None:
        """Centres of mass and inertia, of homogeneous bodies."""
        self._moves = self._mass > 0
        self._center, self._inertia = np.zeros((len(self._mass), 3)), np.tile(np.eye(3), (len(self._mass), 1, 1))
        for k in np.flatnonzero(self._moves).tolist():
            mesh = template._state.bodies[k].mesh
            info = {} if mesh is None else mesh.info
            if not info.get("volume"):
                raise error_for(ErrorCode.INVALID_ARGUMENT, "a half-space has no mass: give 0", object=str(template.bodies[k]), field="build")
            self._center[k] = info["center_of_mass"]
            self._inertia[k] = self._mass[k] / info["volume"] * np.reshape(info["inertia"], (3, 3))

    # ---- gymnasium ----

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """options: {"reset_mask": (n,) bool} resets some of them alone, as gymnasium's own vector environments do."""
        super().reset(seed=seed)
        which = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, bool)))
        if which.shape != (self.num_envs,) or which.dtype != bool:
            raise error_for(ErrorCode.WRONG_LENGTH, f"expected ({self.num_envs},) of bool, got {which.shape} of {which.dtype}", field="reset_mask")
        self._set(which, self.np_random)
        self._ended &= ~which
        return self._observations(), {}

    def step(self, actions: ArrayLike) -> tuple[Array, Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        given = np.asarray(actions, float)
        if given.shape != self.action_space.shape:
            raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape {self.action_space.shape}, got {given.shape}", field="actions")
        finite = np.isfinite(given.reshape(self.num_envs, -1)).all(1)
        if not finite.all():  # they would stay in the state until the next reset
            raise error_for(ErrorCode.NON_FINITE, f"expected finite numbers, got others for environment {np.argmin(finite)}",
                            field="actions")
        again = self._ended.copy()
        for _ in range(self._substeps):
            self._advance(self._wrenches_of(given), ~again)
        if again.any():
            self._set(again, self.np_random)
        state = self.state
        reward = np.where(again, 0.0, self._of_each(self._reward(state, given), "reward"))
        terminated = np.zeros(self.num_envs, bool) if self._terminated is None else self._of_each(self._terminated(state), "terminated").astype(bool)
        terminated &= ~again
        truncated = np.zeros(self.num_envs, bool) if self._max_time is None else (state.time >= self._max_time - 1e-9) & ~again
        self._ended = terminated | truncated
        return self._observations(), reward, terminated, truncated, {}

    def _of_each(self, value: Any, name: str) -> NDArray[Any]:
        """(n,): one shaped (n, 1) would broadcast to a table."""
        array = np.asarray(value)
        if array.shape not in ((), (self.num_envs,)):
            raise error_for(ErrorCode.WRONG_LENGTH, f"expected {name} ({self.num_envs},), one for each environment, got {array.shape}", field=name)
        return np.broadcast_to(array, (self.num_envs,))

    def close_extras(self, **_: Any) -> None:
        for scene in self._scenes:
            scene.close()

    def _observations(self) -> Array:
        return np.array(self._observe(self.state), float)  # a copy: of a view of the state the next step would make another

    # ---- bodies ----

    def _set(self, which: NDArray[np.bool_], random: np.random.Generator) -> None:
        """To where the template has them, at rest, and from there as randomize says."""
        poses, velocities = np.tile(self._start, (int(which.sum()), 1, 1, 1)), np.zeros((int(which.sum()), len(self._mass), 6))
        if self._randomize is not None:
            self._randomize(random, poses, velocities)
        self.state.poses[which], self.state.velocities[which], self.state.time[which] = poses, velocities, 0.0
        self.state.wrenches[which] = 0.0

    def _wrenches_of(self, actions: Array) -> Array:
        if self._act is not None:
            given = np.asarray(self._act(self.state, actions), float)
            if given.shape != (shape := self.state.velocities.shape):
                raise error_for(ErrorCode.WRONG_LENGTH, f"expected wrenches {shape}, got {given.shape}", field="act")
            return given
        out = np.zeros((self.num_envs, len(self._mass), 6))
        out[:, self._moves] = actions.reshape(self.num_envs, -1, 6)
        return out

    def _advance(self, extra: Array, which: NDArray[np.bool_]) -> None:
        """A sub-step of the environments that have not ended."""
        state, h, moves = self.state, self._dt, self._moves
        places = np.flatnonzero(moves).tolist()
        result = self._client.step_many(self._scenes, (range(len(moves)), state.poses), velocities=(places, state.velocities[:, moves]))
        state.wrenches = result.body_wrenches if len(result) else np.zeros_like(state.velocities)
        turns, total = state.poses[:, moves, :, :3], (state.wrenches + extra)[:, moves]
        arms = np.einsum("nbij,bj->nbi", turns, self._center[moves])
        mass = self._mass[moves][:, None]  # beside vectors (n, b, 3)
        inertia = turns @ self._inertia[moves] @ np.swapaxes(turns, 2, 3)
        linear, spin = state.velocities[:, moves, :3], state.velocities[:, moves, 3:]
        center_speed = linear + np.cross(spin, arms) + h * (total[..., :3] / mass + self._gravity)
        torque = total[..., 3:] - np.cross(arms, total[..., :3])
        torque -= np.cross(spin, np.einsum("nbij,nbj->nbi", inertia, spin))
        spin = spin + h * np.asarray(np.linalg.solve(inertia, torque[..., None])[..., 0], np.float64)
        new_turns = _turned(h * spin) @ turns
        new_arms = np.einsum("nbij,bj->nbi", new_turns, self._center[moves])
        centers = state.poses[:, moves][..., 3] + arms + h * center_speed
        poses, velocities = state.poses.copy(), state.velocities.copy()
        poses[:, moves] = np.concatenate([new_turns, (centers - new_arms)[..., None]], -1)
        velocities[:, moves] = np.concatenate([center_speed - np.cross(spin, new_arms), spin], -1)
        state.poses[which], state.velocities[which] = poses[which], velocities[which]
        state.time[which] += h


def _turned(rotation: Array) -> Array:
    """(…, 3, 3) of rotation vectors (…, 3), rad."""
    angle = np.linalg.norm(rotation, axis=-1)[..., None, None]
    x, y, z = np.moveaxis(rotation, -1, 0)
    zero = np.zeros_like(x)
    k = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).reshape(*rotation.shape[:-1], 3, 3)
    return np.asarray(np.eye(3) + np.sinc(angle / np.pi) * k + 0.5 * np.sinc(angle / (2 * np.pi)) ** 2 * (k @ k))
