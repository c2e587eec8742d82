"""contactd.jax: derivatives in every order of jit, grad, vmap and hessian; what it has in common with contactd.torch is tested in
test_volumes."""

from __future__ import annotations

import importlib.util

import contactd
import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED, SLOW
from contactd import errors
from geometry import icosphere, torus

pytestmark = [pytest.mark.skipif(INSTRUMENTED, reason="Python is not instrumented, and cannot load a library that is"),
              pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="pip install jax runs these")]
BALL, RING = icosphere(1.0, 1), torus(0.8, 0.35, 12, 8)
RNG = np.random.default_rng(3)
A, B = BALL[0] + 0.03 * RNG.normal(size=BALL[0].shape), RING[0] + [0.9, 0.2, 0.3]
D = RNG.normal(size=A.shape)
MANY = A + 0.01 * RNG.normal(size=(4, *A.shape))


@pytest.fixture(autouse=True)
def imported():
    """Not where tests are collected, which all workers do: JAX has threads, and other tests fork."""
    global jax, jnp, A, B, D, MANY
    jax, jnp = importlib.import_module("jax"), importlib.import_module("jax.numpy")
    jax.config.update("jax_enable_x64", True)
    A, B, D, MANY = map(jnp.asarray, (A, B, D, MANY))


@pytest.fixture
def cj(monkeypatch):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))
    import contactd.jax

    return contactd.jax


def near(a, b, rel=1e-12):
    return float(jnp.abs(a - b).max()) <= rel * float(jnp.abs(b).max())


@pytest.mark.parametrize("name", ["intersection_volume", "penetration_energy"])
def test_first_and_second_derivatives_are_differences(cj, name):
    h = 2.0**-17

    def function(a):
        return getattr(cj, name)(a, BALL[1], B, RING[1])

    gradient = jax.grad(function)
    assert float(jnp.vdot(gradient(A), D)) == pytest.approx(float(function(A + h * D) - function(A - h * D)) / (2 * h), rel=1e-6)
    product = (gradient(A + h * D) - gradient(A - h * D)) / (2 * h)
    assert near(jax.jvp(gradient, (A,), (D,))[1], product, 1e-4)


def test_every_order_of_transforms(cj):
    def function(a):
        return cj.intersection_volume(a, BALL[1], B, RING[1])

    hessian = jax.hessian(function)(A)
    depth_hessian = jax.hessian(lambda a: cj.penetration_depth(a, BALL[1], B, RING[1]))(A)
    assert near(depth_hessian, jnp.transpose(depth_hessian, (2, 3, 0, 1)), 1e-5) and float(jnp.abs(depth_hessian).max()) > 0.1
    assert near(hessian, jnp.transpose(hessian, (2, 3, 0, 1)), 1e-9) and float(jnp.abs(hessian).max()) > 0.1
    assert near(jax.jacrev(jax.jacrev(function))(A), hessian)
    assert near(jax.jacrev(jax.jacfwd(function))(A), hessian)
    assert near(jax.jit(jax.hessian(function))(A), hessian)
    product = jnp.einsum("ijkl,kl->ij", hessian, D)
    assert near(jax.grad(lambda a: jnp.vdot(jax.grad(function)(a), D))(A), product, 1e-9)
    assert float(jax.jit(function)(A)) == float(function(A))


def test_batches_and_vmap(cj):
    def function(a, b=B):
        return cj.intersection_volume(a, BALL[1], b, RING[1])

    volumes = function(MANY)
    assert volumes.shape == (4,) and jnp.array_equal(volumes, jnp.stack([function(a) for a in MANY]))
    assert jnp.array_equal(jax.vmap(function)(MANY), volumes)
    assert jnp.array_equal(jax.vmap(jax.vmap(function))(MANY.reshape(2, 2, *A.shape)).ravel(), volumes)
    each = jnp.stack([jax.grad(function)(a) for a in MANY])
    assert near(jax.vmap(jax.grad(function))(MANY), each) and near(jax.grad(lambda a: function(a).sum())(MANY), each)
    by_b = jax.grad(lambda b: function(MANY, b).sum())(B)
    assert near(by_b, sum(jax.grad(function, 1)(a, B) for a in MANY))
    products = jax.vmap(lambda a: jax.jvp(jax.grad(function), (a,), (D,))[1])(MANY)
    assert near(products[2], jax.jvp(jax.grad(function), (MANY[2],), (D,))[1])
    with pytest.raises(errors.WrongLengthError, match="batches of one size"):
        function(MANY, jnp.stack([B, B]))


def test_modules(cj):
    pair = cj.Pair(BALL[0], BALL[1], None, RING[1])
    expected = jax.value_and_grad(lambda b: cj.intersection_volume(jnp.asarray(BALL[0]), BALL[1], b, RING[1]))(B)
    found = jax.value_and_grad(lambda b: pair(vb=b))(B)
    assert float(found[0]) == pytest.approx(float(expected[0]), rel=1e-12) and near(found[1], expected[1], 1e-9)
    scene = cj.Scene([BALL, RING, BALL], quantity="energy", stiffness=2.0)
    poses = jnp.stack([jnp.eye(4)] * 3).at[1, :3, 3].set(jnp.array([0.9, 0.2, 0.3])).at[2, 0, 3].set(0.7)
    direction, h = jnp.zeros((3, 4, 4)).at[:, :3].set(RNG.normal(size=(3, 3, 4))), 2.0**-17
    along = float(jnp.vdot(jax.grad(scene)(poses), direction))
    assert along == pytest.approx(float(scene(poses + h * direction) - scene(poses - h * direction)) / (2 * h), rel=1e-6)
    assert scene(jnp.stack([poses, poses])).shape == (2,)


def test_poses_are_not_rounded_on_a_gpu(cj):
    """Where products of matrices of float32 are TF32's, with 11 bits, unless told otherwise."""
    import jax

    assert "HIGHEST" in str(jax.make_jaxpr(cj.transform)(BALL[0], np.eye(4)))


def test_float32_stays(cj):
    a, b = A.astype(jnp.float32), B.astype(jnp.float32)
    assert cj.intersection_volume(a, BALL[1], b, RING[1]).dtype == jnp.float32
    assert jax.grad(lambda a: cj.intersection_volume(a, BALL[1], b, RING[1]))(a).dtype == jnp.float32


def test_any_client(cj, server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        there = cj.intersection_volume(MANY, BALL[1], B, RING[1], client=client)
    assert jnp.array_equal(there, cj.intersection_volume(MANY, BALL[1], B, RING[1]))


def test_what_there_is_not(cj):
    def function(a):
        return cj.intersection_volume(a, BALL[1], B, RING[1])

    with pytest.raises(errors.UnsupportedError, match="no third"):
        jax.grad(lambda a: jax.hessian(function)(a).sum())(A)
    with pytest.raises(errors.InvalidArgumentError, match="fa: faces are no arguments of JAX"):
        jax.jit(cj.intersection_volume)(A, BALL[1], B, RING[1])
    with pytest.raises(errors.InvalidArgumentError, match="stiffness: .* no derivative by it: multiply that of stiffness 1"):
        jax.grad(lambda k: cj.penetration_energy(A, BALL[1], B, RING[1], stiffness=k))(2.0)
    with pytest.raises(errors.InvalidArgumentError, match="va: expected float32 or float64, got int"):
        cj.intersection_volume(jnp.zeros((4, 3), int), BALL[1], B, RING[1])


def test_the_example(cj):
    packing = importlib.import_module("packing")
    poses, history = packing.pack(2, 0.5, 0.01, 60, 1)
    assert poses.shape == (2, 6) and history[-1] < 0.3 * history[0]


def test_calls_outside_of_jit_are_compiled_once_at_most(cj):
    """Else each takes tens of milliseconds, and a megabyte that stays."""
    def function(a):
        return cj.intersection_volume(a, BALL[1], B, RING[1])

    calls = [function, jax.grad(function), lambda a: jax.jvp(jax.grad(function), (a,), (D,)), jax.vmap(function), jax.vmap(jax.grad(function))]
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: compiled.append(event) if "backend_compile" in event else None)
    given = [A, A, A, MANY, MANY]
    first = [call(x) for call, x in zip(calls, given)]
    compiled.clear()
    second = [call(x) for call, x in zip(calls, given)]
    assert not compiled
    jax.jit(lambda a: 3 * a)(A)
    assert compiled  # it is told
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert np.array_equal(one, other)
