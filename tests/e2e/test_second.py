"""Products with the exact second derivative, and the inertia of the intersection: from Python, over HTTP and after a
restart of the server; refused where they make no sense; and Newton's method, which they are for."""

from __future__ import annotations

import contactd
import numpy as np
import pytest
from conftest import SLOW
from contactd import errors
from geometry import UNIT_BOX, blob, icosphere, moved, place, turned
from http_api import Api

import newton  # an example, where geometry found its shapes


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=10 * SLOW) as client:
        yield client


def on_grid(x: np.ndarray, step: float) -> np.ndarray:
    """Multiples of a power of two, which float32 holds, also after small steps."""
    return np.round(x / step) * step


@pytest.fixture
def pair(client):
    """A deformable blob and a rigid ball that overlap: the scene, both bodies, their states and a direction of each."""
    rng = np.random.default_rng(7)
    vertices, triangles = blob(0.7, 3)
    scene = client.open_scene(method="exact")
    soft = scene.add_body(client.register_mesh(vertices, triangles))
    rigid = scene.add_body(client.register_mesh(*icosphere(0.6, 2)), pose=np.eye(4))
    x = on_grid(place(turned(rng, 0.1), vertices), 2.0**-10)
    d = on_grid(rng.uniform(-1, 1, x.shape), 0.125)
    return scene, soft, rigid, x, turned(rng, 0.5), d, rng.uniform(-1, 1, 6)


def dense(body, sparse) -> np.ndarray:
    out = np.zeros((body.vertices, 3))
    out[sparse[0]] = sparse[1]
    return out


def test_products_are_differences(pair):
    scene, soft, rigid, x, pose, d, twist = pair
    h = 2.0**-16
    both = [scene.step({soft: x + s * d}, {rigid: newton.moved(pose, s * twist)}).contacts[0] for s in (h, -h)]
    result = scene.step({soft: x}, {rigid: pose}, directions={soft: d, rigid: twist}, want="gradient")
    (contact,) = result.contacts
    assert result.directions == 1
    for body in (soft, rigid):
        product = dense(body, contact.hessian_product(body))
        difference = (dense(body, both[0].gradient(body)) - dense(body, both[1].gradient(body))) / (2 * h)
        assert np.linalg.norm(product - difference) < 1e-4 * np.linalg.norm(product)
        six = (both[0].generalized_gradient(body) - both[1].generalized_gradient(body)) / (2 * h)
        assert contact.generalized_product(body) == pytest.approx(six, rel=1e-4, abs=1e-5)
        assert (np.diff(contact.hessian_product(body)[0].astype(int)) > 0).all()


def test_many_directions(pair):
    """Twelve at a time are what they are one by one, whatever the order, and linear; a body without a part rests."""
    scene, soft, rigid, x, pose, d, twist = pair
    directions = [{rigid: np.eye(6)[k]} for k in range(6)] + [{soft: d * k} for k in range(1, 6)] + [{soft: d, rigid: twist}]
    (many,) = scene.step({soft: x}, {rigid: pose}, directions=directions).contacts
    for k in (0, 5, 8, 11):
        (one,) = scene.submit(directions=[directions[k]]).result().contacts
        for body in (soft, rigid):
            assert (dense(body, one.hessian_product(body)) == dense(body, many.hessian_product(body, k))).all()
            assert (one.generalized_product(body) == many.generalized_product(body, k)).all()
    for body in (soft, rigid):
        total = sum(twist[k] * dense(body, many.hessian_product(body, k)) for k in range(6))
        total += dense(body, many.hessian_product(body, 6))
        assert total == pytest.approx(dense(body, many.hessian_product(body, 11)), abs=1e-12)
    symmetric = np.stack([many.generalized_product(rigid, k) for k in range(3)])[:, :3]
    assert symmetric == pytest.approx(symmetric.T, abs=1e-12)


def test_stiffness_product_is_the_other_term(pair):
    """The derivative of the forces -k V g is -k (V H d + g (g . d))."""
    scene, soft, rigid, x, pose, d, _ = pair
    h = 2.0**-16
    forces = [dense(soft, (c.vertices(soft), c.forces(soft))) for s in (h, -h)
              for c in scene.step({soft: x + s * d}, {rigid: pose}, want=("forces", "gradient")).contacts]
    (contact,) = scene.step({soft: x}, directions={soft: d}).contacts
    exact = contact.stiffness_product({soft: d}, 1.0)[soft] - contact.volume * dense(soft, contact.hessian_product(soft))
    difference = (forces[0] - forces[1]) / (2 * h)
    assert np.linalg.norm(exact - difference) < 1e-4 * np.linalg.norm(difference)


def test_restart(pair, server):
    scene, soft, rigid, x, pose, d, twist = pair
    directions = {soft: d, rigid: twist}
    before = scene.step({soft: x}, {rigid: pose}, directions=directions, want=("gradient", "inertia")).contacts[0]
    server.kill()
    server.start()
    after = scene.step(directions=directions, want=("gradient", "inertia")).contacts[0]
    assert (after.inertia == before.inertia).all()
    for body in (soft, rigid):
        assert (dense(body, after.hessian_product(body)) == dense(body, before.hessian_product(body))).all()


def test_inertia_of_boxes(client):
    mesh = client.register_mesh(*UNIT_BOX)
    scene = client.open_scene()
    scene.add_body(mesh, pose=np.eye(4))
    scene.add_body(mesh, pose=moved(0.5, 0.25, 0.75))
    (contact,) = scene.step(want="inertia").contacts
    x, y, z = 0.5, 0.75, 0.25
    expected = np.diag([y * y + z * z, x * x + z * z, x * x + y * y]) * x * y * z / 12
    assert contact.inertia == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert contact.center == pytest.approx([0.25, 0.125, 0.375])


def test_refused(pair, client):
    scene, soft, rigid, x, pose, d, twist = pair
    scene.step({soft: x}, {rigid: pose})
    wrong = [({soft: d[:5]}, errors.WrongLengthError), ({rigid: twist[:5]}, errors.WrongLengthError),
             ({rigid: d}, errors.WrongLengthError), ([{rigid: twist}] * 13, errors.OutOfRangeError),
             ({soft: np.full_like(d, np.inf)}, errors.NonFiniteError), ({rigid: twist * np.nan}, errors.NonFiniteError)]
    for directions, error in wrong:
        with pytest.raises(error) as refused:
            scene.step(directions=directions)
        assert refused.value.field == "directions"
    (contact,) = scene.step(directions={rigid: twist}).contacts
    with pytest.raises(errors.OutOfRangeError, match="direction below 1"):
        contact.hessian_product(soft, 1)
    with pytest.raises(errors.InvalidArgumentError, match="want=.'inertia'"):
        contact.inertia
    (plain,) = scene.step().contacts
    with pytest.raises(errors.OutOfRangeError, match="no directions"):
        plain.generalized_product(soft)
    scene.configure(resolution=16)
    with pytest.raises(errors.InvalidArgumentError, match='"ldi" gives no products.*"exact"'):
        scene.step(directions={rigid: twist})
    with pytest.raises(errors.InvalidArgumentError, match='"ldi" gives no inertia'):
        scene.step(want="inertia")


def test_over_http(pair, server):
    scene, soft, rigid, x, pose, d, twist = pair
    (contact,) = scene.step({soft: x}, {rigid: pose}, directions=[{soft: d}, {rigid: twist}], want="inertia").contacts
    path = f"/v1/scenes/{scene.info()['scene']}/step"
    a, b = (body._state.id for body in (soft, rigid))
    parts = [{"body": a, "values": d.tolist()}, {"body": b, "index": 1, "twist": twist.tolist()}]
    (answer,) = Api(server.http).post(path, {"want": ["inertia"], "directions": parts}, 200)["contacts"]
    assert (np.array(answer["inertia"]) == contact.inertia).all()
    for body, of in zip((soft, rigid), answer["products"]):
        for k in range(2):
            assert (np.array(of["vertices"]) == contact.hessian_product(body, k)[0]).all()
            assert (np.array(of["values"])[:, k] == contact.hessian_product(body, k)[1]).all()
    for k in range(2):
        six = [contact.generalized_product(body, k) for body in (soft, rigid)]
        assert (np.array(answer["generalized_product"][k]) == six).all()


@pytest.mark.parametrize("part, code, field", [
    ({}, "INVALID_ARGUMENT", "directions[0].body"),
    ({"body": 2}, "INVALID_ARGUMENT", "directions[0]"),
    ({"body": 2, "twist": [0] * 6, "values": []}, "INVALID_ARGUMENT", "directions[0]"),
    ({"body": 2, "twist": [0] * 5}, "WRONG_LENGTH", "directions[0]"),
    ({"body": 2, "twist": [0] * 6, "index": 12}, "OUT_OF_RANGE", "directions[0].index"),
    ({"body": 1, "twist": [0] * 6}, "WRONG_LENGTH", "directions"),  # deformable
    ({"body": 99, "twist": [0] * 6}, "NOT_FOUND", "body"),
    ([], "INVALID_ARGUMENT", "directions[0]"),
])
def test_refused_over_http(pair, server, part, code, field):
    scene = pair[0]
    answer = Api(server.http)("POST", f"/v1/scenes/{scene.info()['scene']}/step", {"directions": [part]})
    assert 400 <= answer.status < 500 and (answer.json["code"], answer.json["field"]) == (code, field), answer.json


def test_newton_converges_quadratically(client):
    """Each step squares the error, down to rounding; Gauss-Newton hardly gets anywhere, as it sees no tilt."""
    left, gauss = newton.settle(client), newton.settle(client, has_second=False)
    assert left[0] == gauss[0] > 1000
    assert min(left) < 1e-4 and left[5] < 1e-3
    assert min(gauss) > 1
    last = next(i for i, f in enumerate(left) if f < 1e-3)
    assert left[last] < 1e-2 * left[last - 1] < 1e-3 * left[last - 2]
