"""contactd.torch: gradients and second derivatives that torch's own checks accept at their defaults, batches, modules, threads and the
processes of a DataLoader. What it has in common with contactd.jax is tested in test_volumes."""

from __future__ import annotations

import pickle
import threading

import contactd
import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED, SLOW
from contactd import errors
from geometry import icosphere, torus

if INSTRUMENTED:  # before what takes a second to import
    pytest.skip("Python is not instrumented, and cannot load a library that is", allow_module_level=True)
torch = pytest.importorskip("torch", reason="pip install torch runs these", exc_type=ImportError)

BALL, RING = icosphere(1.0, 1), torus(0.8, 0.35, 12, 8)


@pytest.fixture
def ct(monkeypatch):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))
    import contactd.torch

    return contactd.torch


@pytest.fixture
def states():
    rng = np.random.default_rng(3)
    a = torch.tensor(BALL[0] + 0.03 * rng.normal(size=BALL[0].shape), requires_grad=True)
    b = torch.tensor(RING[0] + [0.9, 0.2, 0.3], requires_grad=True)
    return a, b


def crossed():
    """A ring of which one side is pushed through the other."""
    v = RING[0].copy()
    v[:48, 0] -= 1.3
    return torch.tensor(v, requires_grad=True)


def near(a, b):
    return float((a - b).abs().max()) <= 1e-12 * (1 + float(b.abs().max()))


@pytest.mark.parametrize("name", ["intersection_volume", "penetration_energy"])
def test_first_and_second_derivatives(ct, states, name):
    function = getattr(ct, name)
    assert torch.autograd.gradcheck(lambda a, b: function(a, BALL[1], b, RING[1]), states)
    assert torch.autograd.gradgradcheck(lambda a, b: function(a, BALL[1], b, RING[1]), states)


def test_self_intersection(ct):
    def function(v):
        return ct.self_intersection_volume(v, RING[1])

    assert function(crossed()).item() > 0.01
    assert torch.autograd.gradcheck(function, (crossed(),))
    assert torch.autograd.gradgradcheck(function, (crossed(),), fast_mode=True)


def test_depth(ct, states):
    def function(a, b):
        return ct.penetration_depth(a, BALL[1], b, RING[1])

    assert torch.autograd.gradcheck(function, states)
    assert torch.autograd.gradgradcheck(function, states, fast_mode=True)


def test_batches(ct, states):
    a, b = states
    many = (a.detach() + 0.01 * torch.randn(3, *a.shape, dtype=a.dtype, generator=torch.Generator().manual_seed(0))).requires_grad_()

    def function(a, b):
        return ct.intersection_volume(a, BALL[1], b, RING[1])

    volumes = function(many, b)
    assert volumes.shape == (3,)
    assert torch.equal(volumes, torch.stack([function(x, b) for x in many]))
    assert torch.autograd.gradcheck(function, (many, b), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (many, b), fast_mode=True)
    with pytest.raises(errors.WrongLengthError, match="batches of one size"):
        function(many, b.expand(2, *b.shape))


def test_transforms_of_torch(ct, states):
    a, b = (x.detach() for x in states)
    many = a + 0.01 * torch.randn(3, *a.shape, dtype=a.dtype, generator=torch.Generator().manual_seed(0))

    def function(a):
        return ct.intersection_volume(a, BALL[1], b, RING[1])

    hessian = torch.autograd.functional.hessian(function, a)
    assert float(hessian.abs().max()) > 0.1
    assert near(torch.func.hessian(function)(a), hessian) and near(torch.func.jacrev(torch.func.jacrev(function))(a), hessian)
    assert torch.equal(torch.func.vmap(function)(many), function(many))
    each = torch.stack([torch.func.grad(function)(x) for x in many])
    assert near(torch.func.vmap(torch.func.grad(function))(many), each)
    assert near(torch.func.jacfwd(function)(a), torch.func.grad(function)(a))
    with pytest.raises(errors.UnsupportedError, match="no third"):
        torch.func.grad(lambda x: torch.func.hessian(function)(x).sum())(a)


def test_second_derivatives_in_every_way(ct, states):
    """Torch makes 0 of a jvp of a jvp, unless that switches tangents on again."""
    a, b = (x.detach() for x in states)
    move = torch.linspace(-1, 1, a.numel(), dtype=a.dtype).reshape(a.shape)
    for name in ("intersection_volume", "penetration_energy"):
        def function(t, name=name):
            return getattr(ct, name)(a + t, BALL[1], torch.stack([b - 0.1 * t.sum(0) ** 2, b + 0.1]), RING[1]).sum()

        at = torch.tensor([0.03, -0.02, 0.05], dtype=a.dtype).expand(a.shape)[:1]
        hessian = torch.autograd.functional.hessian(function, at).reshape(3, 3)
        assert float(hessian.abs().max()) > 0.1
        ways = [getattr(torch.func, way) for way in ("jacfwd", "jacrev")]
        for outer in ways:
            for inner in ways:
                assert near(outer(inner(function))(at).reshape(3, 3), hessian)
                for third in ways:
                    with pytest.raises(errors.UnsupportedError, match="no third"):
                        third(outer(inner(function)))(at)
        along = move[:1] + 0.5
        for product in (torch.autograd.functional.hvp, torch.autograd.functional.vhp):
            assert near(product(function, at, along)[1].ravel(), hessian @ along.ravel())
        curvature = torch.func.grad(lambda v: (v * torch.func.vjp(torch.func.grad(function), at)[1](v)[0]).sum())
        assert near(curvature(along).ravel(), 2 * hessian @ along.ravel())  # a product is linear in displacements
        assert near(torch.func.vmap(curvature)(torch.stack([along, along]))[1].ravel(), 2 * hessian @ along.ravel())


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoints(ct, states, use_reentrant):
    a, b = states[0], states[1].detach()

    def function(a):
        return ct.intersection_volume(a, BALL[1], b, RING[1])

    (expected,) = torch.autograd.grad(function(a), a)
    torch.utils.checkpoint.checkpoint(function, a, use_reentrant=use_reentrant).backward()
    assert torch.equal(a.grad, expected)


def test_float32_stays(ct, states):
    a, b = (x.detach().float().requires_grad_() for x in states)
    volume = ct.intersection_volume(a, torch.tensor(BALL[1]), b, RING[1])
    volume.backward()
    assert volume.dtype == a.grad.dtype == torch.float32
    exact = ct.intersection_volume(a.detach().double(), BALL[1], b.detach().double(), RING[1])
    assert float(volume) == pytest.approx(float(exact), rel=1e-6)


def test_apart_is_zero(ct, states):
    a, b = states
    far = (b.detach() + 10).requires_grad_()
    volume = ct.intersection_volume(a, BALL[1], far, RING[1])
    volume.backward()
    assert float(volume) == 0 and not a.grad.any() and not far.grad.any()


def test_modules(ct, states):
    a, b = states
    pair = ct.Pair(BALL[0], BALL[1], None, RING[1])
    assert float(pair(vb=b)) == pytest.approx(float(ct.intersection_volume(torch.tensor(BALL[0]), BALL[1], b, RING[1])), rel=1e-12)
    assert torch.autograd.gradcheck(lambda b: pair(vb=b), (b,), fast_mode=True)
    with pytest.raises(errors.InvalidArgumentError, match="rests"):
        pair(a, b)
    scene = ct.Scene([BALL, RING, BALL], quantity="energy", stiffness=2.0)
    poses = torch.eye(4, dtype=torch.float64).repeat(3, 1, 1)
    poses[1, :3, 3], poses[2, 0, 3] = torch.tensor([0.9, 0.2, 0.3]), 0.7
    poses = poses[:, :3].clone().requires_grad_()
    assert scene(poses.expand(2, *poses.shape)).shape == (2,)
    assert torch.autograd.gradcheck(scene, (poses,)) and torch.autograd.gradgradcheck(scene, (poses,), fast_mode=True)
    again = pickle.loads(pickle.dumps(scene))
    assert torch.equal(again(poses), scene(poses))


def test_poses_are_not_rounded_by_autocast(ct):
    """Nor by TF32: bfloat16 has 8 bits of a rotated position."""
    scene, poses = ct.Scene([BALL, RING]), torch.eye(4).repeat(2, 1, 1)
    poses[1, :3, 3] = torch.tensor([0.9, 0.2, 0.3])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = scene(poses)
    assert torch.equal(rounded, scene(poses)) and float(rounded) == pytest.approx(float(scene(poses.double())), rel=1e-6)


def test_within_what_is_compiled(ct, states):
    """torch.compile leaves it as it is: it stumbled over arrays that are the engine's memory."""
    a, b = states
    pair, scene, poses = ct.Pair(None, BALL[1], None, RING[1]), ct.Scene([BALL, RING]), torch.eye(4, dtype=torch.float64).repeat(2, 1, 1)

    def loss(a, b):
        return 2 * ct.intersection_volume(a * 1.0, BALL[1], b, RING[1]) + pair(a, b) + scene(poses + 0.01 * a[0, 0]) + a.sum()

    expected = torch.autograd.grad(loss(a, b), (a, b))
    found = torch.autograd.grad(torch.compile(loss, backend="aot_eager")(a, b), (a, b))
    assert all(near(x, y) for x, y in zip(found, expected))
    hessian = torch.func.hessian(lambda b: pair(a.detach(), b))
    assert near(torch.compile(hessian, backend="aot_eager")(b.detach()), hessian(b.detach()))


def test_a_vmap_over_nothing(ct, states):
    a, b = (x.detach() for x in states)
    none = a.expand(0, *a.shape)

    def function(a):
        return ct.intersection_volume(a, BALL[1], b, RING[1])

    assert torch.func.vmap(function)(none).shape == (0,)
    assert torch.func.vmap(torch.func.grad(function))(none).shape == none.shape
    assert torch.func.vmap(torch.func.hessian(function))(none).shape == (0, *a.shape, *a.shape)


def test_any_client(ct, server, states):
    a, b = states
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
        volume = ct.intersection_volume(a, BALL[1], b, RING[1], client=client)
        assert torch.equal(volume, ct.intersection_volume(a, BALL[1], b, RING[1]))
        many = a.detach().expand(5, *a.shape)
        assert torch.equal(ct.intersection_volume(many, BALL[1], b, RING[1], client=client), volume.detach().expand(5))
        with pytest.raises(errors.InvalidArgumentError, match="another process"):
            pickle.dumps(ct.Pair(None, BALL[1], None, RING[1], client=client))


def test_bad_input(ct, states):
    a, b = states
    with pytest.raises(errors.InvalidArgumentError, match="float32 or float64, got torch.float16"):
        ct.intersection_volume(a.half(), BALL[1], b, RING[1])
    with pytest.raises(errors.WrongLengthError, match=r"vb: expected shape \(n, 3\)"):
        ct.intersection_volume(a, BALL[1], b[:, :2], RING[1])
    with pytest.raises(errors.InvalidMeshError, match="surface b"):
        ct.intersection_volume(a, BALL[1], b, RING[1][:-1])
    with pytest.raises(errors.NonFiniteError, match="va: vertex 0 has x = nan"):
        ct.intersection_volume(a * float("nan"), BALL[1], b, RING[1])
    with pytest.raises(errors.InvalidArgumentError, match="stiffness: .* no derivative by it: multiply that of stiffness 1"):
        ct.penetration_energy(a, BALL[1], b, RING[1], stiffness=torch.tensor(2.0, requires_grad=True))
    with pytest.raises(errors.InvalidArgumentError, match="poses: expected a tensor of float32 or float64, got ndarray: use torch.as_tensor"):
        ct.Scene([BALL, RING])(np.eye(4)[None].repeat(2, 0))
    for fixed in ([-1], [2], [0.0]):
        with pytest.raises(errors.ContactdError, match="fixed: expected"):
            ct.Scene([BALL, RING], fixed=fixed)
    assert torch.equal(ct.intersection_volume(torch._neg_view(-a), BALL[1], b, RING[1]), ct.intersection_volume(a, BALL[1], b, RING[1]))


class Volumes:
    """A data set of which each item takes the engine."""

    def __init__(self, item) -> None:
        self.item = item

    def __len__(self) -> int:
        return 6

    def __getitem__(self, k: int):
        return self.item(torch.tensor(RING[0] + [0.9, 0.1 * k, 0.3]))


def by_function(x):
    import contactd.torch

    return contactd.torch.intersection_volume(torch.tensor(BALL[0]), BALL[1], x, RING[1])


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_processes_of_a_data_loader(ct, context):
    pair = ct.Pair(BALL[0], BALL[1], None, RING[1])
    here = [float(x) for x in map(Volumes(by_function).__getitem__, range(6))]  # the engine is open when processes fork
    data, workers = (Volumes(by_function), 2) if context == "fork" else (Volumes(PairOf(pair)), 1)
    loader = torch.utils.data.DataLoader(data, num_workers=workers, batch_size=None, multiprocessing_context=context)
    assert [float(x) for x in loader] == pytest.approx(here, rel=1e-12)


class PairOf:
    def __init__(self, pair) -> None:
        self.pair = pair

    def __call__(self, x):
        return self.pair(vb=x)


def test_threads(ct):
    expected = [float(Volumes(by_function)[k]) for k in range(6)]
    found: dict[int, list[float]] = {}

    def work(number: int) -> None:
        found[number] = [float(Volumes(by_function)[k]) for k in range(6)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == expected for number in range(4))


def test_the_example(ct):
    import free_object

    palm, ball = free_object.fingers(), icosphere(0.3, 2)
    start = torch.zeros(3, 6, dtype=torch.float64)
    start[:, 0] = torch.tensor([-0.3, 0.1, 0.4])
    x, history = free_object.free(ct.Pair(palm[0], palm[1], None, ball[1]), torch.tensor(ball[0]), start, 0.02, 1e-9, 100)
    assert history[0] > 1e-3 and history[-1] <= 1e-9 and float((x - start)[:, :3].norm(dim=1).max()) < 1
