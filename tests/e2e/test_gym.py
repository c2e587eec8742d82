"""contactd.gym: gymnasium's vector environments, whose contacts are one call for all."""

from __future__ import annotations

import contactd
import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED
from contactd import errors
from geometry import UNIT_BOX, moved

if INSTRUMENTED:  # before what takes a second to import
    pytest.skip("Python is not instrumented, and cannot load a library that is", allow_module_level=True)
gymnasium = pytest.importorskip("gymnasium", reason="pip install gymnasium runs these", exc_type=ImportError)


@pytest.fixture
def cg(monkeypatch):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))
    import contactd.gym

    return contactd.gym


def build(scene):
    """A box of 1 kg on the ground, its origin not at its middle."""
    scene.add_half_space((0, 0, 1), 0.0, modulus=1e5, friction=0.5)
    mesh = scene.client.register_mesh(UNIT_BOX[0] * 0.2 + [0.03, 0, 0.1], UNIT_BOX[1])
    scene.add_body(mesh, pose=moved(0, 0, 0), modulus=1e5, friction=0.5, dissipation=20.0)
    return [0.0, 1.0]


def made(cg, n=4, **more):
    def observe(state):
        return np.concatenate([state.poses[:, 1, :, 3], state.velocities[:, 1]], 1)

    def reward(state, actions):
        return state.poses[:, 1, 0, 3]

    return cg.VectorScenes(n, build, observe, reward, **{"action_limit": 20.0, **more})


def test_a_box_rests_and_slides(cg):
    """A force of 3 N is held by friction of 0.5 · 9.81 N; one of 8 N is not: the box slides."""
    env = made(cg, max_time=None)
    observations, _ = env.reset(seed=1)
    assert observations.shape == (4, 9) and env.observation_space.contains(observations)
    for _ in range(20):
        env.step(np.zeros((4, 6)))
    actions = np.zeros((4, 6))
    actions[1, 0], actions[2, 0], actions[3, 1] = 3, 8, -8
    actions[:, 3:] = np.cross([0.03, 0, 0], actions[:, :3])  # through the middle of the sole
    before = env.state.velocities[:, 1, :3].copy()
    for _ in range(10):
        observations, rewards, terminated, truncated, _ = env.step(actions)
    assert env.state.wrenches[:, 1, 2] == pytest.approx([9.81] * 4, rel=0.02)
    gained = (env.state.velocities[:, 1, :3] - before) / 0.1
    assert np.abs(gained[:2]).max() < 0.3  # it creeps
    assert gained[2, 0] > 2.5 and gained[3, 1] < -2.5
    force = env.state.wrenches[:, 1]
    assert force[2, 0] == pytest.approx(-0.5 * force[2, 2], rel=0.02) and force[3, 1] == pytest.approx(0.5 * force[3, 2], rel=0.02)
    assert force[1, 0] == pytest.approx(-3, rel=0.05)
    assert np.array_equal(rewards, observations[:, 0]) and not (terminated | truncated).any()
    env.close()


def test_a_free_body_turns_about_its_centre(cg):
    env = made(cg, 1, gravity=(0, 0, 0), dt=1e-3, substeps=100)
    env.state.poses[:, 1, 2, 3] = 5
    env.state.velocities[:, 1] = [0, -0.03, 0, 0, 0, 1.0]  # about z through the centre, which rests
    env.step(np.zeros((1, 6)))
    pose = env.state.poses[0, 1]
    assert pose[:, :3] @ [0.03, 0, 0.1] + pose[:, 3] == pytest.approx([0.03, 0, 5.1], abs=1e-9)
    assert np.arctan2(pose[1, 0], pose[0, 0]) == pytest.approx(0.1, abs=1e-9)


def test_ends_and_resets(cg):
    def randomize(random, poses, velocities):
        poses[:, 1, 0, 3] += random.uniform(-1, 1, len(poses))

    env = made(cg, 3, max_time=0.02, randomize=randomize, terminated=lambda state: state.poses[:, 1, 0, 3] > 5)
    first, _ = env.reset(seed=3)
    again, _ = env.reset(seed=3)
    assert np.array_equal(first, again) and np.ptp(first[:, 0]) > 0.01
    env.state.poses[0, 1, 0, 3] = 6
    _, _, terminated, truncated, _ = env.step(np.zeros((3, 6)))
    assert terminated.tolist() == [True, False, False] and not truncated.any()
    observations, rewards, terminated, truncated, _ = env.step(np.zeros((3, 6)))
    assert rewards[0] == 0 and abs(observations[0, 0]) < 1 and env.state.time.tolist() == pytest.approx([0, 0.02, 0.02])
    assert not terminated.any() and truncated.tolist() == [False, True, True]
    first, _ = env.reset(seed=3)
    env.step(np.zeros((3, 6)))
    assert env.state.time.tolist() == pytest.approx([0.01] * 3)  # it is reset once
    assert env.state.poses[:, 1, 0, 3] == pytest.approx(first[:, 0], abs=0.01)


def test_some_are_reset(cg):
    """As gymnasium's own: the others go on, and one that has ended begins anew in its next step."""
    env = made(cg, 3, randomize=lambda random, poses, velocities: np.copyto(poses[:, 1, 2, 3], 1.0), terminated=lambda state: state.poses[:, 1, 0, 3] > 5)
    env.reset(seed=1)
    env.step(np.zeros((3, 6)))
    env.state.poses[1:, 1, 0, 3] = 6
    before, *_ = env.step(np.zeros((3, 6)))
    observations, _ = env.reset(options={"reset_mask": np.array([True, True, False])})
    assert observations[:2, 2].tolist() == [1, 1] and np.array_equal(observations[2], before[2]) and env.state.time.tolist() == pytest.approx([0, 0, 0.02])
    env.step(np.zeros((3, 6)))
    assert env.state.time.tolist() == pytest.approx([0.01, 0.01, 0])
    for wrong in (np.array([True, False]), np.array([1, 0, 0])):
        with pytest.raises(errors.WrongLengthError, match=r"reset_mask: expected \(3,\) of bool"):
            env.reset(options={"reset_mask": wrong})
    env.close()


def test_bad_input(cg):
    with pytest.raises(errors.WrongLengthError, match="expected 2 masses"):
        cg.VectorScenes(2, lambda scene: build(scene)[:1], None, None)
    with pytest.raises(errors.InvalidArgumentError, match="a half-space has no mass"):
        cg.VectorScenes(2, lambda scene: build(scene) and [1.0, 1.0], None, None)
    cg.VectorScenes.__new__(cg.VectorScenes).close_extras()  # as gymnasium does where it is not whole
    env, actions = made(cg), np.zeros((4, 6))
    env.reset(seed=0)
    actions[2, 1] = np.nan
    with pytest.raises(errors.NonFiniteError, match="actions: expected finite numbers, got others for environment 2"):
        env.step(actions)
    env.step(np.zeros((4, 6)))  # as ever
    with pytest.raises(errors.WrongLengthError, match=r"actions: expected shape \(4, 6\)"):
        made(cg).step(np.zeros((4, 2)))
    with contactd.Engine() as engine:
        with pytest.raises(errors.WrongLengthError, match="observations"):
            cg.VectorScenes(2, build, lambda state: state.time, None, client=engine)
        assert engine.status()["scenes"] == 0
    with pytest.raises(errors.OutOfRangeError, match="masses of 0 kg or more"):
        cg.VectorScenes(2, lambda scene: build(scene) and [0.0, -1.0], None, None)
    for wrong in ({"n": 0}, {"dt": 0.0}, {"substeps": 0}):
        with pytest.raises(errors.OutOfRangeError, match=f"{'num_envs' if 'n' in wrong else next(iter(wrong))}: expected more than 0"):
            made(cg, **wrong)
    observe = lambda state: state.poses[:, 1, :, 3]  # noqa: E731
    for more, field in (({"reward": lambda state, actions: state.poses[:, 1, :1, 3]}, "reward"), ({"terminated": lambda state: np.zeros((4, 1), bool)}, "terminated"),
                        ({"act": lambda state, actions: np.zeros((4, 1, 6))}, "act")):
        env = cg.VectorScenes(4, build, observe, **{"reward": lambda state, actions: 0.0, **more})
        env.reset(seed=1)
        with pytest.raises(errors.WrongLengthError, match=f"{field}: expected"):
            env.step(np.zeros((4, 6)))
        env.close()


def test_observations_stay_as_they_were(cg):
    """Also those that are a view of the state, which the next step changes: a replay buffer keeps them."""
    env = cg.VectorScenes(2, build, lambda state: state.poses[:, 1, :, 3], lambda state, actions: np.zeros(2))
    first, _ = env.reset(seed=1)
    second, *_ = env.step(np.zeros((2, 6)))
    kept = first.copy(), second.copy()
    third, *_ = env.step(np.full((2, 6), 1.0))
    assert np.array_equal(first, kept[0]) and np.array_equal(second, kept[1]) and not np.array_equal(second, third)
    env.close()
