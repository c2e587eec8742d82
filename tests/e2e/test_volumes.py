"""What contactd.torch and contactd.jax are made of: quantities of surfaces and their derivatives, against differences, one by one and in
batches, in this process and on a server; and what is said where a package is missing."""

from __future__ import annotations

import gc
import multiprocessing
import subprocess
import sys

import contactd
import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED, ROOT, SLOW
from contactd import _optional, _own_engine, errors
from contactd._volumes import MAX_DIRECTIONS, MOST_KNOWN, Quantity, faces_of, quantity_of
from geometry import UNIT_BOX, box, icosphere, torus

pytestmark = pytest.mark.skipif(INSTRUMENTED, reason="Python is not instrumented, and cannot load a library that is")

BALL, RING = icosphere(1.0, 2), torus(0.8, 0.35, 16, 12)
RNG = np.random.default_rng(11)
A, B = BALL[0] + 0.02 * RNG.normal(size=BALL[0].shape), RING[0] + [0.9, 0.2, 0.3]
MOVES = [RNG.normal(size=(30, *x.shape)) for x in (A, B)]
H = 2.0**-17


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))


@pytest.fixture(params=["engine", "server"])
def client(request, server):
    with contactd.Engine(threads=2, timeout=30 * SLOW) if request.param == "engine" else \
            contactd.connect(server.stream, timeout=30 * SLOW) as client:
        yield client


def of_two(kind: str, client=None, **more) -> Quantity:
    return Quantity([BALL[1], RING[1]], kind, client=client, **more)


def difference(quantity: Quantity, a, b, da, db):
    plus, minus = (quantity.evaluate([(a + s * da)[None], (b + s * db)[None]], True) for s in (H, -H))
    return (plus[0][0] - minus[0][0]) / (2 * H), [(x[0] - y[0]) / (2 * H) for x, y in zip(plus[1], minus[1])]


@pytest.mark.parametrize("kind", ["volume", "energy", "depth"])
def test_derivatives_are_differences(client, kind):
    quantity = of_two(kind, client, stiffness=3.0)
    (value,), gradients = quantity.evaluate([A[None], B[None]], True)
    assert value > 0.1
    moves = [move[0] for move in MOVES]
    first, second = difference(quantity, A, B, *moves)
    along = sum((g[0] * d).sum() for g, d in zip(gradients, moves))
    assert along == pytest.approx(first, rel=1e-6) and abs(along) > 0.1
    for product, reference in zip(quantity.product([A[None], B[None]], [d[None] for d in moves]), second):
        assert np.abs(product[0] - reference).max() < (1e-5 if kind == "depth" else 1e-4) * np.abs(reference).max()


def test_energy_is_that_of_the_law(client):
    """Forces of a scene with law="volume" are its negative gradient."""
    quantity = of_two("energy", client, stiffness=2e3)
    values, gradients = quantity.evaluate([A[None], B[None]], True)
    with client.open_scene(method="exact", stiffness=2e3) as scene:
        bodies = [scene.add_body(client.register_mesh(*mesh)) for mesh in (BALL, RING)]
        (contact,) = scene.step(dict(zip(bodies, (A, B))), want="all").contacts
        assert values[0] == pytest.approx(2e3 * contact.volume**2 / 2, rel=1e-12)
        for body, gradient in zip(bodies, gradients):
            forces = np.zeros((body.vertices, 3))
            forces[contact.vertices(body)] = contact.forces(body)
            assert np.allclose(-gradient[0], forces, rtol=1e-12, atol=1e-12 * np.abs(forces).max())


def test_batches_are_states_one_by_one(client):
    quantity = of_two("volume", client)
    many = A + 0.01 * RNG.normal(size=(5, *A.shape))
    values, gradients = quantity.evaluate([many, B[None]], True)
    products = quantity.product([many, B[None]], [MOVES[0][:5], MOVES[1][:5]])
    assert values.shape == (5,) and [g.shape for g in gradients] == [(5, *A.shape), (5, *B.shape)]
    for k in range(5):
        value, alone = quantity.evaluate([many[k][None], B[None]], True)
        product = quantity.product([many[k][None], B[None]], [m[k][None] for m in MOVES])
        assert value[0] == values[k]
        for side in (0, 1):
            assert np.array_equal(alone[side][0], gradients[side][k]) and np.array_equal(product[side][0], products[side][k])


def test_many_displacements_of_one_state_share_steps(client):
    quantity = of_two("energy", client)
    assert len(MOVES[0]) > 2 * MAX_DIRECTIONS
    together = quantity.product([A[None], B[None]], MOVES)
    for k in (0, MAX_DIRECTIONS - 1, MAX_DIRECTIONS, len(MOVES[0]) - 1):
        for side, alone in enumerate(quantity.product([A[None], B[None]], [m[k][None] for m in MOVES])):
            assert np.array_equal(alone[0], together[side][k])
    assert len(quantity._shelf.kept.free) <= 3  # scenes: one a step


def test_fixed_surfaces_are_no_arguments(client):
    quantity, free = of_two("volume", client, fixed={0: A}), of_two("volume", client)
    (value,), (gradient,) = quantity.evaluate([B[None]], True)
    expected, gradients = free.evaluate([A[None], B[None]], True)
    assert value == pytest.approx(expected[0], rel=1e-12) and np.allclose(gradient, gradients[1], atol=1e-12)


def test_depth_of_corners(client):
    """Of boxes that overlap by w1 w2 w3 at a corner it is h = (1 / w1^2 + 1 / w2^2 + 1 / w3^2)^-1/2; inside and apart it is 0."""
    widths = np.array([[0.25, 0.5, 0.125], [0.3, 0.1, 0.7], [1e-3, 2e-3, 1.5e-3]])
    small = box((0, 0, 0), (1.5, 1.5, 1.5))[0]
    places = np.concatenate([small + 0.5 - widths[:, None], [small / 4 - 0.25, small + 3]])
    quantity = Quantity([UNIT_BOX[1]] * 2, "depth", fixed={0: UNIT_BOX[0]}, client=client)
    values, (gradients,) = quantity.evaluate([places], True)
    q = (widths**-2).sum(1)
    assert values == pytest.approx([*q**-0.5, 0, 0], rel=1e-7)
    assert -gradients[:3].sum(1) == pytest.approx(q[:, None]**-1.5 * widths**-3, rel=1e-6)
    hessians = 3 * (q[:, None, None]**-2.5 * widths[:, :, None]**-3 * widths[:, None]**-3
                    - q[:, None, None]**-1.5 * np.eye(3) * widths[:, :, None]**-4)
    for axis in range(3):
        (products,) = quantity.product([places], [np.tile(np.eye(3)[axis], (5, 8, 1))])
        assert products[:3].sum(1) == pytest.approx(hessians[:, axis], rel=1e-4, abs=1e-5 * np.abs(hessians).max((1, 2)).min())
        assert not products[3:].any() and not gradients[3:].any()


def test_self(client):
    ring = RING[0].copy()
    ring[:72, 0] -= 1.3
    quantity = Quantity([RING[1]], client=client)
    (value,), (gradient,) = quantity.evaluate([ring[None]], True)
    move = MOVES[1][0]
    plus, minus = (quantity.evaluate([(ring + s * move)[None]], False)[0][0] for s in (H, -H))
    assert value > 0.01 and (gradient[0] * move).sum() == pytest.approx((plus - minus) / (2 * H), rel=1e-5)


def test_several_pairs_add_up():
    boxes = [box((x, 0, 0), (x + 1, 1, 1)) for x in (0.0, 0.75, 1.5)]  # the first two and the last two share 0.25 m^3
    quantity = Quantity([UNIT_BOX[1]] * 3, "energy", stiffness=4.0)
    values, gradients = quantity.evaluate([v[None] for v, _ in boxes], True)
    assert values[0] == pytest.approx(2 * 4.0 * 0.25**2 / 2)
    assert [g.sum(axis=(0, 1))[0] for g in gradients] == pytest.approx([4 * 0.25, 0, -4 * 0.25], abs=1e-12)
    assert Quantity([UNIT_BOX[1]] * 3).evaluate([v[None] for v, _ in boxes], False)[0][0] == pytest.approx(0.5)


def test_functions_find_what_they_made_before():
    first = quantity_of([BALL[1], RING[1]], (162, 192), "volume")
    assert quantity_of([BALL[1].copy(), RING[1]], (162, 192), "volume") is first
    assert quantity_of([BALL[1], RING[1][::-1]], (162, 192), "volume") is not first
    first.evaluate([A[None], B[None]], False)
    scene = first._shelf.kept.free[0].scene
    for k in range(MOST_KNOWN):
        other = quantity_of([BALL[1], RING[1]], (162, 192), "energy", stiffness=k + 1)
        other.evaluate([A[None], B[None]], False)
        assert [copy.scene for copy in other._shelf.kept.free] == [scene]  # stiffness is no matter of scenes
    for k in range(MOST_KNOWN):
        quantity_of([BALL[1], np.roll(RING[1], k + 1, axis=0)], (162, 192), "volume")
    assert scene._state.closed and first._shelf.kept is None
    assert quantity_of([BALL[1], RING[1]], (162, 192), "volume") is not first


def scenes_of(client) -> int:
    return client.servers()[0]["scenes"]


def test_what_is_gone_leaves_nothing(client):
    """Whether it is let go, closed, or refused; a mesh that someone else has, too, stays. A server frees meshes when it needs the room."""
    def counts():
        gc.collect()
        of_two("volume", client).evaluate([A[None], B[None]], False)  # releases what was let go before
        return scenes_of(client), client.status()["meshes"] if isinstance(client, contactd.Engine) else 0

    before = counts()
    mesh = client.register_mesh(A, BALL[1])
    for k in range(20):
        quantity = of_two("energy", client, stiffness=k + 1.0)
        quantity.evaluate([A[None] + k, B[None].repeat(2, 0)], False)
        with pytest.raises(errors.WrongLengthError, match="expected 192 vertices"):
            quantity.evaluate([A[None], B[None, 1:]], False)
        if k % 2:
            quantity.close()
        with pytest.raises(errors.InvalidMeshError):
            Quantity([BALL[1], RING[1][1:]], client=client).evaluate([A[None] - k, B[None]], False)
    del quantity
    assert counts() == before
    client.open_scene(method="exact").add_body(mesh)


def test_closing_what_is_in_use(client):
    """Scenes in use are closed when they are not any more, and what is closed makes others."""
    quantity = of_two("volume", client)
    expected, _ = quantity.evaluate([A[None], B[None]], False)
    before = scenes_of(client)
    with quantity._copies(1, quantity.states([A[None], B[None]])) as (_, copies):
        quantity.close()
        assert not copies[0].scene._state.closed and scenes_of(client) == before
    assert copies[0].scene._state.closed and scenes_of(client) == before - 1
    assert quantity.evaluate([A[None], B[None]], False)[0] == expected


def test_the_shared_engine_is_the_processors(monkeypatch):
    """Where there is a GPU, too."""
    asked = []

    class Engine:
        closed = False

        def __init__(self, **options):
            asked.append(options)

    monkeypatch.setattr(_own_engine, "Engine", Engine)
    monkeypatch.setattr(_own_engine, "_engine", None)
    assert _own_engine.own_engine() is _own_engine.own_engine() and [options["backend"] for options in asked] == ["cpu"]


def _volume(queue) -> None:
    queue.put(float(KEPT.evaluate([A[None], B[None]], True)[0][0]))


KEPT = of_two("volume")


def test_a_forked_process_opens_the_engine_anew():
    expected = KEPT.evaluate([A[None], B[None]], True)[0][0]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_volume, args=(queue,))
    process.start()
    assert queue.get(timeout=30 * SLOW) == expected
    process.join()
    assert KEPT.evaluate([A[None], B[None]], True)[0][0] == expected


def test_bad_input(client):
    quantity = of_two("volume", client)
    with pytest.raises(errors.WrongLengthError, match=r"batches of one size, or of 1, got va \(2, 162, 3\), vb \(3"):
        quantity.evaluate([A[None].repeat(2, 0), B[None].repeat(3, 0)], False)
    quantity.evaluate([A[None], B[None]], False)
    with pytest.raises(errors.WrongLengthError, match="va: expected 162 vertices, as in the first call, got 161"):
        quantity.evaluate([A[None, 1:], B[None]], False)
    with pytest.raises(errors.NonFiniteError, match="va: vertex 0 has x = nan, expected a finite number"):
        quantity.evaluate([A[None] * np.nan, B[None]], False)
    many = np.stack([B, B])
    many[1, 5, 1] = 1e39
    with pytest.raises(errors.NonFiniteError, match=r"vb: vertex 5 of state 1 has y = 1e\+39, expected a finite number within float32's range"):
        quantity.evaluate([A[None], many], False)
    with pytest.raises(errors.NonFiniteError, match="displacements of vb: vertex 0 has x = nan"):
        quantity.product([A[None], B[None]], [A[None], B[None] * np.nan])
    with pytest.raises(errors.InvalidMeshError, match="surface b"):
        Quantity([BALL[1], RING[1][1:]], client=client).evaluate([A[None], B[None]], False)
    with pytest.warns(UserWarning, match="surface b is inside out and shares no volume with any"):
        assert quantity.evaluate([A[None], B[None] * [1, 1, -1]], False)[0] == 0
    with pytest.warns(UserWarning, match="surface b is inside out"):
        quantity.evaluate([A[None], np.stack([B, B * [1, 1, -1]])], False)


def test_what_callers_give_is_checked_and_copied():
    """A client that is none did not only fail, but later calls with others, too."""
    for client in (3, "tcp://127.0.0.1:1"):
        with pytest.raises(errors.InvalidArgumentError, match="client: expected what contactd.connect"):
            of_two("volume", client)
    for stiffness in (np.nan, np.inf, None, "much"):
        with pytest.raises(errors.InvalidArgumentError, match="stiffness: expected a finite number"):
            quantity_of([BALL[1], RING[1]], (162, 192), "energy", stiffness)
    with pytest.raises(errors.WrongLengthError, match="fa: expected .m, 3. integers, got rows of several lengths"):
        faces_of([[0, 1], [0, 1, 2]], "fa")
    faces = BALL[1].astype(np.uint32)
    quantity = Quantity([faces, RING[1]])
    faces[:] = 0
    assert quantity.evaluate([A[None], B[None]], False)[0][0] > 0.1


def test_missing_packages_are_named():
    with pytest.raises(ImportError, match=r"contactd.x needs the package no_such_thing: pip install no_such_thing, or pip install 'contactd\[x\]'"):
        _optional.need("no_such_thing", "contactd.x", "x")
    code = "import sys; sys.modules['torch'] = None; import contactd.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "client_py")})
    assert "pip install torch" in done.stderr and done.returncode
    with pytest.raises(ImportError, match=r"contactd.x needs the package thing: pip install thing, or pip install 'contactd\[thing\]'"):
        _optional.need("no_such.part", "contactd.x", package="thing")  # as pydrake.all is of drake


def test_versions_outside_the_range_are_named():
    module = type(sys)("thing")
    module.__version__ = "3.1"
    with pytest.warns(UserWarning, match="contactd.x is made for thing 1.2 to below 3, this is 3.1"):
        _optional.check_version(module, "contactd.x", (1, 2), (3,))
    module.__version__ = "2.9.1+cpu"
    _optional.check_version(module, "contactd.x", (1, 2), (3,))
    nameless = type(sys)("thing")  # as pydrake and pybullet, whose versions are those of the packages
    with pytest.warns(UserWarning, match=f"contactd.x is made for thing 9999 to below 10000, this is {np.__version__}"):
        _optional.check_version(nameless, "contactd.x", (9999,), (10000,), package="numpy")
    _optional.check_version(nameless, "contactd.x", (9999,), (10000,), package="no-such-package")


def test_empty_batches():
    """Of no states there are no volumes, gradients and products."""
    vertices, faces = UNIT_BOX
    quantity = Quantity([faces, faces])
    none, one = np.zeros((0, 8, 3)), np.asarray(vertices, float)[None]
    for states in ((none, none), (none, one), (one, none)):
        values, gradients = quantity.evaluate(states, True)
        assert values.shape == (0,) and [g.shape for g in gradients] == [(0, 8, 3)] * 2
    assert [p.shape for p in quantity.product((none, one), (none, none))] == [(0, 8, 3)] * 2
