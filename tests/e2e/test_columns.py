"""All contacts of a result as arrays: each row is what the contact's object says; pickles, copies, and damaged answers."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import contactd
import numpy as np
import pytest
from conftest import SLOW
from contactd import errors
from contactd._columns import _places
from contactd._contact_columns import COLUMNS
from contactd._wire import Decoded, LaterTables, MalformedMessage, decode
from geometry import UNIT_BOX, icosphere, moved


@pytest.fixture
def client(server):
    with contactd.connect(server.stream, timeout=10 * SLOW) as client:
        yield client


def pile(client, **settings):
    """Boxes in a row, each in the next, a ball on top of two of them, and one body removed, so that numbers have a gap."""
    box, ball = client.register_mesh(*UNIT_BOX), client.register_mesh(*icosphere(2))
    scene = client.open_scene(**settings)
    gone = scene.add_body(box, pose=moved(x=-5.0))
    bodies = [scene.add_body(box, pose=moved(x=0.9 * i, y=0.013 * i)) for i in range(5)]
    gone.remove()
    bodies.append(scene.add_body(ball, pose=moved(x=0.9, y=0.5, z=1.6)))
    return scene, bodies


def motion(bodies):
    return {body: np.array([0.1 * i, 0.2, -0.3, 0.4, 0.5, -0.1 * i]) for i, body in enumerate(bodies)}


def same(column, values):
    if isinstance(values, np.ndarray):
        return np.array_equal(column, values, equal_nan=True)
    return np.array_equal(column, np.array([np.nan if value is None else value for value in values]), equal_nan=True)


@pytest.mark.parametrize("settings, want, has_slip", [
    ({"method": "exact"}, "all", True), ({"method": "exact"}, ("frame", "gradient", "inertia"), False),
    ({"method": "ldi", "resolution": 24, "max_points": 4}, "all", False), ({"method": "ldi", "resolution": 24, "cell_size": 0.4}, "all", True),
    ({"method": "ebpi", "tolerance": 1e-3, "strict": True}, "all", False), ({"method": "voxtree"}, "frame", False),
    ({"method": "exact", "patches": True}, "volume", False)])
def test_rows_are_the_contacts(client, settings, want, has_slip):
    scene, bodies = pile(client, **settings)
    result = scene.step(want=want, velocities=motion(bodies) if has_slip else None)
    contacts = result.contacts
    assert len(result) == len(contacts) >= 5 and result
    assert [tuple(result.bodies[i] for i in row) for row in result.body_pairs] == [c.bodies for c in contacts]
    assert result.bodies == bodies
    assert same(result.volumes, [c.volume for c in contacts]) and same(result.indices, [c.index for c in contacts])
    assert same(result.view_volumes, [c.volumes for c in contacts])
    assert same(result.error_bounds, [c.error_bound for c in contacts])
    assert same(result.view_error_bounds, [[np.nan] * 3 if c.error_bounds is None else c.error_bounds for c in contacts])
    assert same(result.lower_volumes, [(c.interval or (np.nan, 0))[0] for c in contacts])
    assert same(result.upper_volumes, [(c.interval or (0, np.nan))[1] for c in contacts])
    for name in ("error_estimates", "max_windings", "inverted_triangles", "inverted_volumes"):
        assert same(getattr(result, name), [getattr(c, COLUMNS[name].name) for c in contacts]), name
    if want == "volume":
        with pytest.raises(errors.InvalidArgumentError, match="want"):
            result.normals
        return
    for name in ("are_nested", "areas", "depths", "normals", "tangents", "centers", "side_centers"):
        assert same(getattr(result, name), [getattr(c, COLUMNS[name].name) for c in contacts]), name
    assert same(result.generalized_gradients, [[c.generalized_gradient(b) for b in c.bodies] for c in contacts])
    if "inertia" in want:
        assert same(result.inertias, [c.inertia for c in contacts])
    if has_slip:
        assert same(result.relative_velocities, [c.relative_velocity for c in contacts])
        assert same(result.spins, [c.spin for c in contacts])
        assert same(result.frictions, [[c.friction(b) for b in c.bodies] for c in contacts])
    else:
        with pytest.raises(errors.InvalidArgumentError, match="velocities"):
            result.spins
    if "max_points" in settings or settings["method"] == "voxtree":
        points = result.points
        for i, contact in enumerate(contacts):
            rows = slice(points.offsets[i], points.offsets[i + 1])
            assert all(same(mine[rows], theirs) for mine, theirs in zip(points[:6], contact.points))
            assert (points.contact[rows] == i).all()
    else:
        for ask in (lambda: result.points, lambda: contacts[0].points):
            with pytest.raises(errors.InvalidArgumentError, match="max_points"):
                ask()
    if want != "all":
        return
    entries = result.entries
    assert repr(entries) == f"<Entries of {len(contacts)} contacts: {len(entries.vertex)}>"
    for contact, sides in zip(contacts, entries.offsets):
        for body, (begin, end) in zip(contact.bodies, sides):
            vertices, gradient = contact.gradient(body)
            assert same(entries.vertex[begin:end], vertices) and same(entries.gradient[begin:end], gradient)
            assert same(entries.weight[begin:end], contact.friction_weights(body))
            assert same(entries.force[begin:end], contact.forces(body))
    if "cell_size" not in settings:
        for ask in (lambda: result.cells, lambda: contacts[0].cells):
            with pytest.raises(errors.InvalidArgumentError, match="cell_size"):
                ask()
        return
    cells = result.cells
    each = [(i, cell) for i, contact in enumerate(contacts) for cell in contact.cells]
    assert len(cells) == len(each) and len(each) > 5
    assert same(cells.contacts, [i for i, _ in each]) and same(cells.volumes, [cell.volume for _, cell in each])
    assert same(cells.cubes, [cell.cell for _, cell in each])


def test_continuous_frames_are_columns_too(client):
    scene, bodies = pile(client, method="exact")
    scene.continuous_frames = True
    first = scene.step()
    second = scene.step(poses={bodies[1]: moved(x=0.9, y=0.2)})
    assert same(second.tangents, [c.tangents for c in second.contacts])
    assert len(first) == len(second) and not np.array_equal(first.tangents, second.tangents)


def test_no_contact_has_empty_columns(client):
    scene = client.open_scene("ldi", max_points=4, cell_size=0.5)
    scene.add_body(client.register_mesh(*UNIT_BOX), pose=np.eye(4))
    result = scene.step(want="all")
    assert len(result) == 0 and result.contacts == [] and result.volumes.shape == (0,)
    assert result.body_pairs.shape == (0, 2) and result.normals.shape == (0, 3)
    assert result.generalized_gradients.shape == (0, 2, 6) and result.entries.offsets.shape == (0, 2, 2)
    assert result.points.position.shape == (0, 3) and len(result.cells) == 0
    assert {len(column) for column in result.to_dict().values()} == {0}


@pytest.mark.parametrize("settings, want", [({"law": "pressure"}, ("gradient", "friction", "forces", "surface", "points", "ids")),
                                            ({"method": "ldi", "resolution": 16}, ("spans", "points")), ({"method": "voxtree"}, "frame")])
def test_arrays_without_rows_have_the_same_kinds_of_numbers(server_or_engine, settings, want):
    scene, bodies = pile(server_or_engine, **settings)

    def kinds(result):
        arrays = {f"points.{name}": array for name, array in result.points._asdict().items()}
        if "surface" in want:
            arrays |= {name: getattr(result.surface, name) for name in ("polygons", "vertices", "depth", "pressure", "normal", "area")}
            arrays |= {name: getattr(result.entries, name) for name in ("vertex", "gradient", "weight", "force")}
        if "spans" in want:
            arrays |= {"spans": result._array("spans", 16, 6), "span_axes": result._array("span_axes", 16)}
        return {name: (array.dtype, array.shape[1:]) for name, array in arrays.items()}

    full = scene.step(want=want)
    apart = scene.step(want=want, poses={body: moved(9.0 * i) for i, body in enumerate(bodies)})
    assert len(full) >= 5 and len(apart) == 0 and kinds(apart) == kinds(full)


def test_to_dict_is_flat_and_arrays_are_handed_on(client):
    scene, bodies = pile(client, method="exact")
    result = scene.step(want="all", velocities=motion(bodies))
    table = result.to_dict()
    assert all(column.shape == (len(result),) for column in table.values())
    assert same(table["normals_2"], result.normals[:, 2])
    assert same(table["generalized_gradients_1_3"], result.generalized_gradients[:, 1, 3]) and "spins" in table
    assert "normals_0" not in scene.step(want="volume").to_dict() and "spins" not in scene.step().to_dict()
    assert same(np.from_dlpack(result.generalized_gradients), result.generalized_gradients)
    assert result.volumes.__array_interface__["shape"] == (len(result),)


def test_notebooks_show_results_and_scenes(client):
    scene, bodies = pile(client, method="exact")
    result = scene.step()
    shown = result._repr_html_()
    assert shown.count("<tr>") == 1 + len(result) and f"{result.volumes.max():.6g}" in shown and "depth" in shown
    assert "&lt;StepResult" in shown and "depth" not in scene.step(want="volume")._repr_html_()
    picture = scene._repr_png_()
    assert picture is None or picture[:4] == b"\x89PNG"
    scene.close()
    assert scene._repr_png_() is None


def total(result):  # at the top of the module: for another process
    return float(result.volumes.sum()), [str(body) for body in result.bodies], result.contacts[0].volume


def test_results_pickle_and_copy(client):
    scene, bodies = pile(client, method="ldi", resolution=24, cell_size=0.4)
    result = scene.step(want="all", velocities=motion(bodies))
    again = pickle.loads(pickle.dumps(result))
    assert same(again.volumes, result.volumes) and same(again.entries.gradient, result.entries.gradient)
    assert again.sequence == result.sequence and str(again.scene) == str(scene) and again.settings == result.settings
    assert [str(b) for b in again.bodies] == [str(b) for b in bodies] and again.bodies[0].kind == "rigid"
    for mine, theirs in zip(again.contacts, result.contacts):
        for a, b in zip(mine.bodies, theirs.bodies):
            assert same(mine.gradient(a)[1], theirs.gradient(b)[1]) and same(mine.friction(a), theirs.friction(b))
    products = again.stiffness_product({again.bodies[0]: np.ones((8, 3))})
    expected = result.stiffness_product({bodies[0]: np.ones((8, 3))})
    assert [str(b) for b in products] == [str(b) for b in expected]
    assert all(same(mine, theirs) for mine, theirs in zip(products.values(), expected.values()))
    assert pickle.loads(pickle.dumps(again)).bodies == again.bodies  # equal by what they are
    cell = pickle.loads(pickle.dumps(result.contacts[0].cells[0]))
    assert cell.cell == result.contacts[0].cells[0].cell and cell.volume == result.contacts[0].cells[0].volume
    assert same(copy.deepcopy(result).volumes, result.volumes) and copy.copy(result).contacts[0].bodies[0] in bodies
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(total, (result,)) == total(result)


def test_damaged_tables_are_refused(client):
    """Whatever the bytes say, a column is numbers of the message or MalformedMessage."""
    scene, _ = pile(client, method="ebpi", tolerance=1e-3, strict=True)
    answer = scene.step(want="all")._answer
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(300):
        damaged = bytearray(answer.header)
        for at in rng.integers(0, len(damaged), 24):
            damaged[at] = rng.integers(256)
        try:
            message = decode([bytes(damaged), *answer.frames])
        except MalformedMessage:
            continue
        tables = message.body.get("contacts")
        for column in COLUMNS.values() if isinstance(tables, LaterTables) else ():
            shape = (6,) if column.is_symmetric else column.shape[len(column.fields) > 1:]
            for field in column.fields:
                try:
                    assert tables.column(field, shape).shape == (len(tables), *shape)
                except MalformedMessage:
                    refused += 1
    assert refused > 100
    cut = decode([answer.header, *answer.frames])
    cut.body["contacts"].positions = cut.body["contacts"].positions + 2
    with pytest.raises(MalformedMessage):
        cut.body["contacts"].column("volume")
    assert isinstance(cut, Decoded)


def rotation(x, y, z, w):
    """Of a unit quaternion."""
    return np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                     [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                     [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]])


def test_many_bodies_move_by_one_array(client):
    scene, bodies = pile(client, method="exact")
    rng = np.random.default_rng(3)
    quaternions = rng.normal(size=(len(bodies), 4))
    quaternions /= np.linalg.norm(quaternions, axis=1)[:, None]
    poses = np.tile(np.eye(4), (len(bodies), 1, 1))
    for pose, q in zip(poses, quaternions):
        pose[:3, :3], pose[:3, 3] = rotation(*q), rng.uniform(-0.5, 0.5, 3)
    expected = scene.step(poses=dict(zip(bodies, poses))).volumes
    assert len(expected) > 3
    sevens = np.hstack([poses[:, :3, 3], quaternions])
    for given in (poses, poses[:, :3], (bodies, poses), (bodies, poses[:, :3].astype(np.float64)), (bodies[::-1], poses[::-1])):
        assert same(scene.step(poses=given).volumes, expected)
    for given in (sevens, (bodies, sevens * [1, 1, 1, -1.0005, -1.0005, -1.0005, -1.0005])):
        assert scene.step(poses=given).volumes == pytest.approx(expected, rel=1e-12)
    some = scene.submit(poses=(bodies[:2], poses[2:4])).result()
    assert same(some.volumes, scene.step(poses=dict(zip(bodies[:2], poses[2:4]))).volumes)
    assert len(scene.step(poses=([], np.zeros((0, 7))))) == len(some)


def test_many_deformable_bodies_move_by_one_array(client):
    box, ball = client.register_mesh(*UNIT_BOX), client.register_mesh(*icosphere(2))
    scene = client.open_scene("exact")
    bodies = [scene.add_body(box), scene.add_body(box), scene.add_body(ball)]
    corners, sphere = np.asarray(UNIT_BOX[0], float), np.asarray(icosphere(2)[0], float)
    moved_boxes = np.stack([corners, corners + 0.25])
    expected = scene.step(positions={bodies[0]: moved_boxes[0], bodies[1]: moved_boxes[1], bodies[2]: sphere + 0.5}).volumes
    assert len(expected) == 3
    scene.step(positions={bodies[0]: corners + 9})
    assert same(scene.step(positions=(bodies[:2], moved_boxes)).volumes, expected)
    flat = np.vstack([*moved_boxes, sphere + 0.5]).astype(np.float32)
    scene.step(positions={bodies[2]: sphere + 9})
    assert scene.step(positions=(bodies, flat)).volumes == pytest.approx(expected, rel=1e-6)


class OnDevice:
    """As a tensor in a GPU's memory is to numpy."""

    device = "cuda:0"

    def __array__(self, *_, **__):
        raise TypeError("copy it to host memory first")


@pytest.mark.parametrize("poses, error", [
    (lambda b: (b, OnDevice()), "OnDevice on cuda:0"), (lambda b: OnDevice(), "OnDevice on cuda:0"), (lambda b: {b[0]: OnDevice()}, "cuda:0"),
    (lambda b: [1, 2], "one pose for each body"),
    (lambda b: np.zeros((2, 3, 4)), "one pose for each body"), (lambda b: (b, np.zeros((3, 4))), "one pose for each body"),
    (lambda b: (b, np.zeros((len(b), 4, 4))), "last rows"), (lambda b: (b, np.zeros((len(b), 7))), "of length 1"),
    (lambda b: (b, np.full((len(b), 7), np.nan)), "of length 1"), (lambda b: (b, "poses"), "float"), (lambda b: (b,), "bodies, array"),
    (lambda b: (5, np.zeros((1, 7))), "bodies, array"), (lambda b: (b + b, np.tile(np.eye(4), (2 * len(b), 1, 1))), "twice"),
    (lambda b: ([None], np.eye(4)[None]), "Body"), (lambda b: (b, np.zeros((len(b), 3, 4), complex)), "dtype")])
def test_arrays_of_many_that_are_wrong(client, poses, error):
    scene, bodies = pile(client, method="exact")
    with pytest.raises(errors.ContactdError, match=error):
        scene.step(poses=poses(bodies))
    with pytest.raises(errors.ContactdError, match="positions, ranges|shape|takes poses|bodies, array"):
        scene.step(positions=(bodies, np.zeros((len(bodies), 8, 3))))


def test_few_tables_are_read_as_many_are(client):
    scene, bodies = pile(client, method="ebpi", tolerance=1e-3, strict=True)
    answer = scene.step(want="all", velocities=motion(bodies))._answer
    many, few = (decode([answer.header, *answer.frames]).body["contacts"] for _ in range(2))
    few.positions = few.positions[:2]
    for column in COLUMNS.values():
        shape = (6,) if column.is_symmetric else column.shape[len(column.fields) > 1:]
        for field in column.fields:
            a, b = few.column(field, shape), many.column(field, shape)[:2]
            assert a.dtype == b.dtype and same(a, b), field


@pytest.mark.parametrize("known", [[2, 5, 9], [5, 2, 9], [9, 5, 2]])
def test_places_of_bodies(known):
    """Whatever order their identifiers are in; an unknown one is the server's fault."""
    known = np.array(known)
    ids = np.array([[2, 9], [5, 5], [9, 2]])
    assert (known[_places(known, ids)] == ids).all()
    for unknown in (1, 3, 10):
        with pytest.raises(errors.ContactdError) as raised:
            _places(known, np.array([[2, unknown]]))
        assert raised.value.code is errors.ErrorCode.MALFORMED
    assert _places(known, ids[:0]).shape == _places(known[:0], ids[:0]).shape == (0, 2)
