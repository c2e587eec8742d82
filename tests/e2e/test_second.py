"""Products with the exact second derivative, and the inertia of the intersection: from Python, over HTTP and after a
restart of the server; refused where they make no sense; and Newton's method, which they are for."""

from __future__ import annotations

import json
import subprocess

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from contactd import errors
from geometry import UNIT_BOX, blob, icosphere, moved, place, torus, turned
from http_api import Api

import equilibrium  # an example, where geometry found its shapes


# Of the box of 0.5, 0.75 and 0.25 m that two unit boxes share of which one is moved by 0.5, 0.25, 0.75, m^5.
INERTIA = np.diag([0.75**2 + 0.25**2, 0.5**2 + 0.25**2, 0.5**2 + 0.75**2]) * 0.5 * 0.75 * 0.25 / 12


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=30 * SLOW) as client:
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
    both = [scene.step({soft: x + s * d}, {rigid: equilibrium.moved(pose, s * twist)}).contacts[0] for s in (h, -h)]
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


def test_patches_add_up(client):
    """Two tori that meet in several pieces: products add up to the pair's, and so do second moments about one point."""
    ring = client.register_mesh(*torus(0.6, 0.2, 48, 24))
    turn = equilibrium.moved(np.eye(4), np.array([0, 0, 0, 1.2, 0.3, 0]))
    turn[:3, 3] = 0.1, 0.05, 0.0
    rng = np.random.default_rng(2)
    found = {}
    for patches in (False, True):
        scene = client.open_scene(method="exact", patches=patches)
        a, b = scene.add_body(ring), scene.add_body(ring, pose=turn)
        d = rng.normal(size=(a.vertices, 3)) if not found else d
        contacts = scene.step(directions=[{a: d, b: np.ones(6)}, {b: np.arange(6.0)}], want=("frame", "inertia")).contacts
        moments = sum(c.inertia + c.volume * (c.center @ c.center * np.eye(3) - np.outer(c.center, c.center)) for c in contacts)
        products = [sum(dense(body, c.hessian_product(body, k)) for c in contacts) for body in (a, b) for k in range(2)]
        sixes = [sum(c.generalized_product(body, k) for c in contacts) for body in (a, b) for k in range(2)]
        found[patches] = len(contacts), moments, products, sixes
    assert found[False][0] == 1 and found[True][0] > 1
    for one, other in zip(found[False][2] + found[False][3], found[True][2] + found[True][3]):
        assert np.linalg.norm(one - other) < 1e-11 * np.linalg.norm(one)
    assert found[True][1] == pytest.approx(found[False][1], rel=1e-9, abs=1e-12)


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
    assert contact.inertia == pytest.approx(INERTIA, rel=1e-9, abs=1e-12)
    assert contact.center == pytest.approx([0.25, 0.125, 0.375])


def inertia_of(vertices: np.ndarray, triangles: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Of a closed mesh about a point, from the tetrahedra between it and the triangles."""
    p = vertices[triangles] - center
    volumes = np.linalg.det(p) / 6
    total = p.sum(1)
    moments = np.einsum("t,ti,tj->ij", volumes, total, total) + np.einsum("t,tki,tkj->ij", volumes, p, p)
    return (np.eye(3) * np.trace(moments) - moments) / 20


def test_inertia_by_manifold(client):
    """Blobs, tori, balls and boxes, turned in all ways, beside an intersection computed as a mesh."""
    manifold3d = pytest.importorskip("manifold3d")
    rng = np.random.default_rng(3)
    meshes = [blob(0.7, 3), torus(0.6, 0.25, 24, 16), icosphere(0.6, 2), UNIT_BOX]
    registered = [client.register_mesh(*mesh) for mesh in meshes]
    scene = client.open_scene(method="exact")
    compared = 0
    for i, a in enumerate(meshes):
        for j, b in enumerate(meshes):
            poses = [turned(rng, 0.1), turned(rng, 0.3)]
            bodies = [scene.add_body(registered[k], pose=pose) for k, pose in zip((i, j), poses)]
            contacts = scene.step(want="inertia").contacts
            solids = [manifold3d.Manifold(manifold3d.Mesh64(place(pose, np.float32(mesh[0]).astype(float)),
                                                            mesh[1].astype(np.uint64)))
                      for pose, mesh in zip(poses, (a, b))]
            mesh = (solids[0] ^ solids[1]).to_mesh64()
            for contact in contacts:
                compared += 1
                expected = inertia_of(mesh.vert_properties[:, :3], mesh.tri_verts.astype(int), contact.center)
                assert np.abs(contact.inertia - expected).max() < 1e-7 * np.abs(expected).max()
            for body in bodies:
                scene.remove_body(body)
    assert compared > 10


def test_contactctl(server, tmp_path):
    vertices, triangles = UNIT_BOX
    text = "".join(f"v {x} {y} {z}\n" for x, y, z in vertices) + "".join(f"f {a} {b} {c}\n" for a, b, c in triangles + 1)
    (tmp_path / "box.obj").write_text(text)

    def ctl(*arguments: str) -> subprocess.CompletedProcess:
        box = str(tmp_path / "box.obj")
        return subprocess.run([*CONTACTCTL, "--server", server.stream, "contact", box, box, "--pose-b",
                               "1 0 0 0.5  0 1 0 0.25  0 0 1 0.75", *arguments],
                              capture_output=True, text=True, timeout=60 * SLOW)

    (contact,) = json.loads(ctl("--inertia", "-o", "json").stdout)["contacts"]
    assert np.array(contact["inertia"]) == pytest.approx(INERTIA, rel=1e-9, abs=1e-12)
    assert "inertia    0.00488" in ctl("--inertia").stdout
    assert "inertia" not in json.loads(ctl("-o", "json").stdout)["contacts"][0]
    refused = ctl("--inertia", "--resolution", "8")
    assert refused.returncode == 3 and '"ldi" gives no inertia' in refused.stderr


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
    ({"body": 1, "twist": [0] * 6}, "INVALID_ARGUMENT", "directions"),  # deformable
    ({"body": 99, "twist": [0] * 6}, "NOT_FOUND", "body"),
    ([], "INVALID_ARGUMENT", "directions[0]"),
])
def test_refused_over_http(pair, server, part, code, field):
    scene = pair[0]
    answer = Api(server.http)("POST", f"/v1/scenes/{scene.info()['scene']}/step", {"directions": [part]})
    assert 400 <= answer.status < 500 and (answer.json["code"], answer.json["field"]) == (code, field), answer.json


def test_newton_converges_quadratically(client):
    """Each step squares the error, down to rounding; Gauss-Newton hardly gets anywhere, as it sees no tilt."""
    left, gauss = equilibrium.settle(client), equilibrium.settle(client, has_second=False)
    assert left[0] == gauss[0] > 1000
    assert min(left) < 1e-4 and left[5] < 1e-3
    assert min(gauss) > 1
    last = next(i for i, f in enumerate(left) if f < 1e-3)
    assert left[last] < 1e-2 * left[last - 1] < 1e-3 * left[last - 2]
