"""Many scenes at once: the bits of steps one by one, in this process and on a server; what fails alone; bad input."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import time
import weakref

import contactd
import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED, SLOW
from contactd import errors
from contactd._line import Line
from contactd._contact_columns import COLUMNS
from contactd._link import Link
from contactd._many import Motion, Together, step_each
from contactd._schema import UNION_NUMBER
from contactd._state import Request
from geometry import UNIT_BOX, icosphere, moved

PATIENT = 20 * SLOW


@pytest.fixture(params=["engine", "server"])
def client(request, monkeypatch):
    if request.param == "server":
        with contactd.connect(request.getfixturevalue("server").stream, timeout=PATIENT) as client:
            yield client
        return
    if INSTRUMENTED:
        pytest.skip("Python is not instrumented, and cannot load a library that is")
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))
    with contactd.Engine(threads=2, backend="cpu", timeout=PATIENT) as client:
        yield client


def scenes_of(client, n: int, **settings) -> list[contactd.Scene]:
    template = client.open_scene(**settings)
    template.add_half_space((0, 0, 1), -0.4, friction=0.5)
    box = template.add_body(client.register_mesh(*UNIT_BOX), np.eye(4), modulus=1e6)
    template.add_body(client.register_mesh(*icosphere(0.6)), moved(0.7), ignore=[box] if settings.get("name") else [])
    return [template, *client.open_scenes(n - 1, template)]


def motions(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    poses = np.tile(np.eye(4)[:3], (n, 2, 1, 1))
    poses[:, :, :, 3] = rng.uniform(-0.3, 0.3, (n, 2, 3))
    poses[:, 1, 0, 3] += 1
    return poses, rng.normal(size=(n, 2, 6))


@pytest.mark.parametrize("settings", [{"law": "pressure"}, {"method": "exact", "patches": True}])
def test_the_bits_of_single_steps(client, settings):
    n = 9
    many, alone = scenes_of(client, n, **settings), scenes_of(client, n, **settings)
    for seed in (1, 2):
        poses, twists = motions(n, seed)
        result = client.step_many(many, ([1, 2], poses), velocities=([1, 2], twists))
        singles = [scene.step(poses=(scene.bodies[1:], poses[k]), velocities=dict(zip(scene.bodies[1:], twists[k])), want="frame")
                   for k, scene in enumerate(alone)]
        assert len(result) == sum(map(len, singles)) > n
        assert result.offsets.tolist() == np.concatenate([[0], np.cumsum([len(single) for single in singles])]).tolist()
        assert np.array_equal(result.scene_index, np.repeat(np.arange(n), [len(single) for single in singles]))
        assert np.array_equal(result.body_pairs, np.concatenate([single.body_pairs for single in singles]))
        for name, column in COLUMNS.items():
            if column.group in ("", "frame", "slip") or column.group == "law" and "law" in settings:
                expected = np.concatenate([getattr(single, name) for single in singles])
                assert np.array_equal(getattr(result, name), expected, equal_nan=expected.dtype.kind == "f"), name
        if "law" in settings:
            assert np.allclose(result.body_wrenches, np.stack([single.body_wrenches for single in singles]), rtol=1e-14, atol=1e-9)


@pytest.mark.parametrize("how", ["at once", "one by one"])
def test_scenes_of_two_laws(client, how):
    """Wrenches are given where a contact has one, whichever scene it is of, and are zeros in scenes of the other law."""
    scenes, away = scenes_of(client, 3), np.tile(np.eye(4)[:3], (3, 2, 1, 1))
    away[:, :, 2, 3], away[:, 1, 0, 3] = 9, 9
    if how == "one by one":
        scenes[0].continuous_frames = True

    def stepped(laws):
        for scene, law in zip(scenes, laws):
            scene.configure(law=law)
        return client.step_many(scenes, here)

    here = motions(3)[0]
    result = stepped(["volume", "pressure", "volume"])
    with_law = result.scene_index == 1
    assert with_law.any() and not with_law.all() and (np.abs(result.wrenches[with_law]).max(axis=(1, 2)) > 0).all()
    assert not result.wrenches[~with_law].any() and not result.body_wrenches[[0, 2]].any() and result.body_wrenches[1].any()
    here = np.concatenate([motions(3)[0][:1], away[1:]])  # the scenes with the law have no contact
    for laws in (["volume", "pressure", "pressure"], ["volume"] * 3):
        result = stepped(laws)
        assert len(result) and not result.scene_index.any()
        with pytest.raises(errors.InvalidArgumentError, match="law"):
            result.wrenches
    scenes[0].configure(law="pressure")
    assert client.step_many(scenes, here).wrenches.any()


def test_velocities_want_a_frame(client):
    scenes, (poses, twists) = scenes_of(client, 2), motions(2)
    result = client.step_many(scenes, poses, velocities=twists, want="volume")
    assert len(result) and result.normals.any() and result.relative_velocities.any()


def test_batches_of_the_engine(client, monkeypatch):
    """A call has several, of which some have more contacts than scenes, and some none."""
    monkeypatch.setattr("contactd._engine_many.BATCH", 4)
    poses, _ = motions(9)
    poses[4:8, :, 2, 3] += 10 * np.arange(1, 3)
    whole = client.step_many(scenes_of(client, 9), ([1, 2], poses))
    assert np.bincount(whole.scene_index, minlength=9)[4:8].sum() == 0 and len(whole) > 5
    alone = [client.step_many([scene], ([1, 2], poses[k:k + 1])) for k, scene in enumerate(scenes_of(client, 9))]
    assert np.concatenate([one.volumes for one in alone]).tobytes() == whole.volumes.tobytes()


def test_a_result_is_freed_with_its_last_reference(client):
    scenes, (poses, _) = scenes_of(client, 3), motions(3)
    result = client.step_many(scenes, ([1, 2], poses))
    volumes, gone = result.volumes, weakref.ref(result._columns._of)
    gc.collect()
    gc.disable()
    try:
        del result
        assert gone() is None and volumes.shape[0] > 0
    finally:
        gc.enable()


def test_deformable(client):
    template = client.open_scene(method="exact")
    vertices, faces = (np.asarray(part) for part in icosphere(1.0))
    template.add_body(client.register_mesh(*UNIT_BOX), np.eye(4))
    template.add_body(client.register_mesh(vertices, faces))
    scenes = [template, *client.open_scenes(3, template)]
    positions = np.stack([vertices + (0.7 + 0.1 * k, 0, 0) for k in range(4)])
    for dtype in ("<f4", "<f8", ">f4", ">f8", np.longdouble):
        given = positions.astype(dtype)
        result = client.step_many(scenes, positions=given)
        assert np.all(np.diff(result.volumes) < 0) and len(result) == 4
        assert result.volumes[2] == scenes[2].step(want="volume").volumes[0]
        assert result.volumes[2] == scenes[2].step(positions={scenes[2].bodies[1]: given[2]}, want="volume").volumes[0]


def test_of_no_scenes(client):
    result = client.step_many([])
    assert len(result) == 0 and result.body_wrenches.shape == (0, 0, 6) and result.normals.shape == (0, 3)


def test_copies(client):
    first, second = scenes_of(client, 2, law="pressure", stiction_speed=0.01, name="a")
    assert second.law == "pressure" and second.stiction_speed == 0.01 and len(second.bodies) == 3
    first.step(poses={first.bodies[1]: moved(0.1)})
    (third,) = client.open_scenes(1, first)  # at the poses of the last step
    assert np.array_equal(first.step().volumes, third.step().volumes)
    assert len(third.step()) == len(first.step())  # the ball ignores the box in both
    assert client.open_scenes(0, first) == []


def test_scenes_are_taken_by_masks(client):
    scenes = client.open_scenes(4, scenes_of(client, 1)[0])
    done = np.array([True, False, False, True])
    assert scenes[done] == [scenes[0], scenes[3]] == scenes[np.array([0, -1])] == scenes[::3]
    assert scenes[done][np.array([False, True])] == [scenes[3]] and scenes[np.zeros(4, bool)] == []
    rest = client.step_many(scenes[done]).volumes
    moved_away = client.step_many(scenes, ([1, 2], motions(4)[0]))
    assert not np.array_equal(client.step_many(scenes[done]).volumes, rest)
    client.reset(scenes[done])
    assert np.array_equal(client.step_many(scenes[done]).volumes, rest)
    assert np.array_equal(client.step_many(scenes[~done]).volumes, moved_away.volumes[np.isin(moved_away.scene_index, [1, 2])])
    for wrong in (np.zeros(3, bool), np.zeros((4, 1), bool), np.zeros(4), np.zeros((2, 2), int)):
        with pytest.raises(errors.WrongLengthError, match="scenes"):
            scenes[wrong]
    with pytest.raises(IndexError):
        scenes[np.array([4])]


def test_scenes_and_bodies_change_between(client):
    """What is found once for all steps of the same scenes is found again: each time the bits of single steps."""
    many, alone = scenes_of(client, 4), scenes_of(client, 4)
    box, ball = client.register_mesh(*UNIT_BOX), client.register_mesh(*icosphere(0.3, 2))

    def check():
        result = client.step_many(many, ([1, 2], motions(len(many), 5)[0]))
        singles = [scene.step(poses=(scene.bodies[1:3], poses)) for scene, poses in zip(alone, motions(len(alone), 5)[0])]
        assert np.array_equal(result.volumes, np.concatenate([single.volumes for single in singles]))
        assert np.array_equal(result.body_pairs, np.concatenate([single.body_pairs for single in singles]))
        assert [scene.step(want="volume").sequence for scene in many] == [scene.step(want="volume").sequence for scene in alone]
        return len(result)

    before = check()
    for scenes in (many, alone):
        scenes[1].add_body(box, moved(0.4))
        scenes[2].add_body(ball, moved(0.1))
    assert check() > before
    for scenes in (many, alone):
        scenes[1].remove_body(scenes[1].bodies[3])
        scenes[2].replace_mesh(scenes[2].bodies[3], box)
    check()
    for scenes in (many, alone):
        scenes[0].close()
        scenes[:2] = [scenes[2], scenes[1]]
        del scenes[2]
    check()
    many[1].close()
    with pytest.raises(errors.StaleHandleError):
        client.step_many(many, ([1, 2], motions(3)[0]))


def test_one_fails_alone(client):
    scenes = scenes_of(client, 3)
    poses, _ = motions(3)
    poses[1, 0, :, :3] *= 2  # no rotation
    with pytest.raises(errors.OutOfRangeError):
        client.step_many(scenes, ([1, 2], poses))
    result = client.step_many(scenes, ([1, 2], poses), return_errors=True)
    assert list(result.errors) == [1] and result.offsets[1] == result.offsets[2] and len(result) > 0


def test_time_that_is_over(client):
    """A step that would take minutes, beside a brief one."""
    scenes = [client.open_scene(method="ebpi", tolerance_rel=1e-6, strict=True, ray_budget=2**20, max_step_time=limit)
              for limit in (0.2, None)]
    ball = client.register_mesh(*icosphere(1.0, 4))
    for scene, n in zip(scenes, (40, 1)):
        for k in range(n):
            scene.add_body(ball, moved(0.01 * k, 0.002 * k))
    result = client.step_many(scenes, return_errors=True)
    assert list(result.errors) == [0] and isinstance(result.errors[0], errors.TimeLimitError)
    assert result.offsets.tolist() == [0, 0, 0]
    with pytest.raises(errors.TimeLimitError):
        client.step_many(scenes)
    with pytest.raises(errors.DeadlineExceededError):
        client.step_many(scenes[1:], timeout=1e-9)


def test_nothing_moves_and_no_scenes(client):
    scenes = scenes_of(client, 2)
    assert np.array_equal(client.step_many(scenes).volumes[:1], scenes[0].step().volumes[:1])
    nothing = client.step_many([])
    assert len(nothing) == 0 and nothing.body_pairs.shape == (0, 2) and nothing.scene_index.shape == (0,)


def test_results_pickle_and_copy(client):
    """Of one batch, and of steps made one by one; of others one fails."""
    scenes, poses = scenes_of(client, 3, law="pressure"), motions(3)[0]
    gathered = client.step_many(scenes, ([1, 2], poses))
    stacked = step_each(Motion(Together.of(scenes), scenes, ([1, 2], poses), None, None), "volume", None)
    poses[1, :, :, :3] *= 2
    failed = client.step_many(scenes, ([1, 2], poses), return_errors=True)
    assert list(failed.errors) == [1] and len(gathered) > len(failed) > 0
    for result in (gathered, stacked, failed):
        for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(pickle.loads(pickle.dumps(result)))):
            assert repr(again) == repr(result) and again.offsets.tolist() == result.offsets.tolist()
            assert [scene.id for scene in again.scenes] == [scene.id for scene in scenes]
            assert {k: str(e) for k, e in again.errors.items()} == {k: str(e) for k, e in result.errors.items()}
            assert np.array_equal(again.volumes, result.volumes) and np.array_equal(again.body_pairs, result.body_pairs)
            assert np.array_equal(again.scene_index, result.scene_index)
            assert list(again.to_dict()) == list(result.to_dict())
            for name in ("normals", "ids", "wrenches", "body_wrenches"):
                try:
                    expected = getattr(result, name)
                except contactd.ContactdError as e:
                    with pytest.raises(type(e), match=re.escape(str(e))):
                        getattr(again, name)
                else:
                    assert np.array_equal(getattr(again, name), expected)


def test_to_dict_is_flat(client):
    """Of one batch, and of steps made one by one, with the columns of a step by itself."""
    scenes, poses = scenes_of(client, 3, law="pressure"), motions(3)[0]
    results = [client.step_many(scenes, ([1, 2], poses)),
               step_each(Motion(Together.of(scenes), scenes, ([1, 2], poses), None, None), "frame", None)]
    for result in results:
        table = result.to_dict()
        assert list(table) == ["scene_index", *scenes[0].step(want="frame").to_dict()] and "spins" not in table
        assert all(column.shape == (len(result),) for column in table.values()) and len(result) > 3
        assert np.array_equal(table["scene_index"], result.scene_index) and np.array_equal(table["bodies_1"], result.body_pairs[:, 1])
        assert np.array_equal(table["wrenches_1_2"], result.wrenches[:, 1, 2])
    assert "normals_0" not in client.step_many(scenes, want="volume").to_dict()


@pytest.mark.parametrize("how, error, field", [
    (lambda s: dict(poses=np.zeros((2, 1, 3, 4))), errors.WrongLengthError, "poses"),
    (lambda s: dict(poses=([5], np.zeros((2, 1, 3, 4)))), errors.OutOfRangeError, "poses"),
    (lambda s: dict(poses=([1], np.zeros((2, 1, 5)))), errors.WrongLengthError, "poses"),
    (lambda s: dict(velocities=([1], np.zeros((2, 1, 5)))), errors.WrongLengthError, "velocities"),
    (lambda s: dict(positions=np.zeros((2, 7, 3))), errors.WrongLengthError, "positions"),
    (lambda s: dict(want="gradient"), errors.InvalidArgumentError, "want"),
])
def test_bad_input(client, how, error, field):
    scenes = scenes_of(client, 2)
    with pytest.raises(error) as caught:
        client.step_many(scenes, **how(scenes))
    assert caught.value.field == field


def test_twice_or_closed(client):
    scenes = scenes_of(client, 2)
    with pytest.raises(errors.InvalidArgumentError, match="twice"):
        client.step_many([scenes[0], scenes[0]])
    for stranger in (None, 3, scenes[0].bodies[0]):
        with pytest.raises(errors.InvalidArgumentError, match="scenes: expected a list of scenes, got"):
            client.step_many([scenes[0], stranger])
    scenes[1].close()
    with pytest.raises(contactd.ContactdError):
        client.step_many(scenes)


# ---- on a server: one message ----

def message_kinds(monkeypatch) -> list[str]:
    sent: list[str] = []
    real = Line.transmit

    def transmit(self, kind, *rest):
        sent.append(kind)
        real(self, kind, *rest)

    monkeypatch.setattr(Line, "transmit", transmit)
    return sent


@pytest.fixture
def remote(server):
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        yield client


def test_one_message(remote, monkeypatch):
    scenes = scenes_of(remote, 5)
    poses, _ = motions(5)
    sent = message_kinds(monkeypatch)
    first = remote.step_many(scenes, ([1, 2], poses), want="inertia")
    second = remote.step_many(scenes[::-1], ([1, 2], poses[::-1]))
    assert [kind for kind in sent if kind != "Ping"] == ["StepMany", "StepMany"]
    assert first.inertias.shape == (len(first), 3, 3) and len(first) == len(second)
    assert np.array_equal(second.volumes, np.concatenate([first.volumes[a:b] for a, b in
                                                          zip(first.offsets[-2::-1], first.offsets[:0:-1])]))
    with pytest.raises(errors.InvalidArgumentError):
        second.inertias


def test_steps_follow_it(remote):
    """Numbers, poses and the order hold when steps of the scenes are on their way before and behind."""
    scenes, alone = scenes_of(remote, 3), scenes_of(remote, 1)
    poses, _ = motions(3)
    before = scenes[0].submit(poses={scenes[0].bodies[1]: moved(0.2)})
    many = remote.step_many(scenes, ([1, 2], poses))
    after = [scene.submit() for scene in scenes]
    assert len(before.result()) >= 0
    expected = alone[0].step(poses=(alone[0].bodies[1:], poses[0]))
    assert np.array_equal(after[0].result().volumes, expected.volumes)
    assert np.array_equal(many.volumes[:many.offsets[1]], expected.volumes)


def test_an_older_server(remote, monkeypatch):
    scenes = scenes_of(remote, 3)
    poses, _ = motions(3)
    expected = remote.step_many(scenes, ([1, 2], poses))
    monkeypatch.setitem(remote._link.welcome, "last_message", 0)  # as a server that is older says
    sent = message_kinds(monkeypatch)
    result = remote.step_many(scenes, ([1, 2], poses))
    assert "StepMany" not in sent and sent.count("Step") == 3
    assert np.array_equal(result.volumes, expected.volumes)


def test_a_scene_closed_meanwhile(remote, server):
    """By an administrator, say: it fails alone, and the others go on."""
    scenes = scenes_of(remote, 3)
    with contactd.connect(server.stream, timeout=PATIENT) as other:
        other._link.call(Request("CloseScene", lambda: ({"scene": scenes[1].id, "of_others": True}, None), timeout=PATIENT))
    for _ in range(2):
        result = remote.step_many(scenes, return_errors=True)
        assert list(result.errors) == [1] and isinstance(result.errors[1], LookupError)
        assert len(scenes[0].step()) == result.offsets[1] > 0


def test_a_scene_of_another_client(remote, server):
    with contactd.connect(server.stream, timeout=PATIENT) as other:
        theirs, mine = scenes_of(other, 1), scenes_of(remote, 2)
        monkey = mine[1]._state.id
        mine[1]._state.id = theirs[0]._state.id
        result = remote.step_many(mine, return_errors=True)
        mine[1]._state.id = monkey
        assert list(result.errors) == [1] and isinstance(result.errors[1], errors.ForbiddenError)
        assert len(mine[1].step()) == len(theirs[0].step())  # no number was used up


def test_numbers_that_are_none(remote):
    scenes = scenes_of(remote, 3)
    poses, twists = motions(3)
    poses[2, 1, 0, 3] = np.nan
    result = remote.step_many(scenes, ([1, 2], poses), return_errors=True)
    assert list(result.errors) == [2] and isinstance(result.errors[2], errors.NonFiniteError)
    twists[0, 0, 0] = np.inf
    poses[2, 1, 0, 3] = 1
    result = remote.step_many(scenes, ([1, 2], poses), velocities=([1, 2], twists), return_errors=True)
    assert list(result.errors) == [0] and isinstance(result.errors[0], errors.NonFiniteError)


def test_hostile_messages(remote):
    """What the client would not send: named, and nothing is stepped."""
    scenes = scenes_of(remote, 2)
    ids = [scene.id for scene in scenes]

    def ask(**body):
        return remote._link.call(Request("StepMany", lambda: (dict(scenes=ids, sequences=[1, 1]) | body, None),
                                         timeout=PATIENT))

    for body, field in ((dict(scenes=[ids[0], ids[0]]), "scenes"), (dict(scenes=ids[::-1] + ids[:1], sequences=[1] * 3), "scenes"),
                        (dict(sequences=[1]), "sequences"), (dict(want=2), "want"), (dict(posed=[1, 2]), "poses"),
                        (dict(soft=[1], vertices=[2**63]), "vertices"), (dict(scenes=[1] * 65537, sequences=[1] * 65537), "scenes")):
        with pytest.raises(contactd.ContactdError) as caught:
            ask(**body)
        assert caught.value.field == field
    assert len(remote.step_many(scenes)) > 0


def test_an_answer_that_is_too_large(make_server):
    server = make_server("--max-message", "64K")
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        template = client.open_scene(method="exact")
        for shift in (0, 0.5):
            template.add_body(client.register_mesh(*UNIT_BOX), moved(shift))
        scenes = [template, *client.open_scenes(199, template)]
        with pytest.raises(errors.TooLargeError, match="--max-message"):
            client.step_many(scenes)
        assert len(client.step_many(scenes[:100])) == 100  # the next steps, with everything sent again
        assert len(client.step_many(scenes[:100])) == 100


@pytest.mark.parametrize("how", ["plain", "scaled", "repaired"])
def test_soft_bodies_are_where_they_were_though_an_answer_was_lost(make_server, how):
    """Steps that were computed, and whose answer is too large: the client's bodies have not moved, or it says that it cannot know."""
    server = make_server("--max-message", "64K")
    making = {"plain": {}, "scaled": {"scale": 0.5}, "repaired": {"repair": True}}[how]
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        template = client.open_scene(method="exact")
        vertices, faces = (np.asarray(part) for part in UNIT_BOX)
        template.add_body(client.register_mesh(vertices * (1, 2, 2), faces), moved(0.5))
        template.add_body(client.register_mesh(vertices / making.get("scale", 1), faces, **making))
        scenes = [template, *client.open_scenes(199, template)]
        positions = np.tile((vertices + (0.25, 0, 0)).astype("f4"), (200, 1, 1))
        with pytest.raises(errors.TooLargeError, match="--max-message"):
            client.step_many(scenes, positions=positions)
        if how == "repaired":
            with pytest.raises(errors.ConflictError, match="give all its positions, or reset the scene"):
                scenes[0].step()
            assert scenes[0].step(positions={scenes[0].bodies[1]: vertices}, want="volume").volumes[0] == pytest.approx(0.5)
            client.reset(scenes[1:100])
        else:
            assert scenes[0].step(want="volume").volumes[0] == pytest.approx(0.5)
        assert client.step_many(scenes[:100]).volumes == pytest.approx(0.5)


def test_a_client_that_leaves_ends_it(remote, server):
    with contactd.connect(server.stream, timeout=PATIENT) as other:
        scenes = [other.open_scene(method="ebpi", tolerance_rel=1e-6, strict=True, ray_budget=2**20) for _ in range(2)]
        ball = other.register_mesh(*icosphere(1.0, 4))
        for k in range(40):
            scenes[0].add_body(ball, moved(0.01 * k, 0.002 * k))
        with pytest.raises(errors.DeadlineExceededError):
            other.step_many(scenes, timeout=0.5)
    assert len(scenes_of(remote, 1)[0].step()) > 0  # the server has its time again


def test_a_lost_connection_repeats_it(remote, monkeypatch):
    scenes = scenes_of(remote, 4)
    poses, _ = motions(4)
    sent = message_kinds(monkeypatch)
    lost = []
    real = Link._sleep

    def sleep(self, goodbye):
        if "StepMany" in sent and not lost:
            lost.append(True)
            self._connection.lose("the test says so")
        return real(self, goodbye)

    monkeypatch.setattr(Link, "_sleep", sleep)
    monkeypatch.setattr(Link, "_look", lambda self, now: {})  # nor is the answer there before it sleeps
    result = remote.step_many(scenes, ([1, 2], poses))
    assert lost and sent.count("StepMany") == 2
    assert np.array_equal(result.volumes, remote.step_many(scenes, ([1, 2], poses)).volumes)


def same(a, b) -> bool:
    return len(a) == len(b) > 0 and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("volumes", "body_pairs", "wrenches"))


def soft_scene(client) -> contactd.Scene:
    """With a body that is gone, materials, and one that is deformable."""
    scene = scenes_of(client, 1, law="pressure", name="soft")[0]
    gone = scene.add_body(client.register_mesh(*UNIT_BOX), moved(0.2))
    scene.add_body(client.register_mesh(*icosphere(0.7)), modulus=2e6)
    scene.remove_body(gone)
    scene.set_pair(scene.bodies[1], scene.bodies[3], modulus=3e6)
    return scene


def shake(scene: contactd.Scene) -> contactd.StepResult:
    vertices = np.asarray(icosphere(0.7)[0])
    return scene.step(poses={scene.bodies[1]: moved(0.1), scene.bodies[2]: moved(0.5)}, positions={scene.bodies[3]: 1.2 * vertices})


def test_reset(client):
    """One and many; steps on their way come before it, and the bits are those of scenes that never moved."""
    fresh = soft_scene(client).step()
    scenes = [soft_scene(client) for _ in range(3)]
    assert not same(shake(scenes[0]), fresh)
    scenes[0].reset()
    assert same(scenes[0].step(), fresh)
    for scene in scenes[:2]:
        shake(scene)
    future = scenes[2].submit(poses={scenes[2].bodies[1]: moved(0.3)})
    client.reset(scenes)
    assert future.done()
    for scene in scenes:
        assert same(scene.step(), fresh)
    client.reset(scenes + scenes)
    client.reset([])
    many = client.step_many(scenes)
    assert same(many, client.step_many([soft_scene(client) for _ in range(3)]))


def test_a_reset_that_fails_part_way(remote, server):
    """The scenes that it took back are where the caller left them in their next step, although that names no body."""
    scenes = [soft_scene(remote) for _ in range(2)]
    moved_by = {scenes[0].bodies[1]: moved(0.1), scenes[0].bodies[2]: moved(0.5)}
    expected = scenes[0].step(poses=moved_by)
    with contactd.connect(server.stream, timeout=PATIENT) as other:
        state = scenes[1]._state
        mine, state.id = state.id, scenes_of(other, 1)[0]._state.id
        with pytest.raises(errors.ForbiddenError):
            remote.reset(scenes)
        state.id = mine
        assert same(scenes[0].step(), expected)


def test_more_scenes_than_may_be_in_flight(make_server):
    server = make_server("--max-in-flight", "8")
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        scenes = scenes_of(client, 40)
        client.reset(scenes)
        assert len(client.step_many(scenes)) > 0


def test_a_reset_names_a_scene_twice(remote):
    ids = [scene.id for scene in scenes_of(remote, 2)]
    for twice in ([ids[0], ids[0]], [*ids, ids[0]]):
        with pytest.raises(errors.InvalidArgumentError, match="twice") as caught:
            remote._link.call(Request("ResetScenes", lambda: ({"scenes": twice}, None), timeout=PATIENT))
        assert caught.value.field == "scenes"


def test_reset_begins_frames_anew(client):
    scene = soft_scene(client)
    scene.continuous_frames = True
    fresh = scene.step().tangents
    turned = scene.step(poses={scene.bodies[1]: moved(0.1, 0.02)})
    assert len(turned)
    scene.reset()
    assert np.array_equal(scene.step().tangents, fresh)


def test_frames_are_continuous_in_steps_of_many(client):
    """Tangents follow those of the step before, whichever call made it."""
    alone, together = soft_scene(client), soft_scene(client)
    for scene in (alone, together):
        scene.continuous_frames = True
    for k in range(8):
        angle, turned = 0.4 * k, moved(0.1, 0.02)
        turned[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        one = alone.step(poses={alone.bodies[1]: turned})
        two = client.step_many([together], poses=([1], turned[None, None])) if k % 2 else together.step(poses={together.bodies[1]: turned})
        assert len(one) and np.array_equal(one.normals, two.normals) and np.array_equal(one.tangents, two.tangents)


def test_copies_of_what_moved(client):
    """They start where the template was then; filters, materials and numbers of bodies are the same."""
    template = soft_scene(client)
    template.submit(poses={template.bodies[1]: moved(0.1)})
    copies = client.open_scenes(3, template)
    plain = soft_scene(client)
    expected = plain.step(poses={plain.bodies[1]: moved(0.1)})
    assert all(same(copy.step(), expected) for copy in copies)
    assert copies[0].law == "pressure" and copies[2].info()["bodies"] == 4 and copies[1].info()["name"] == "soft"
    copies[0].step(poses={copies[0].bodies[1]: moved(0.4)})
    copies[0].reset()
    assert same(copies[0].step(), expected)
    template.reset()
    assert same(template.step(), soft_scene(client).step())
    copies[1].configure(law="volume")
    assert copies[0].law == "pressure"
    copies[0].remove_body(copies[0].bodies[3])
    assert len(copies[1].bodies) == 4 and len(copies[0].bodies) == 3


def test_close_scenes(client):
    scenes = scenes_of(client, 200)
    scenes[3].close()
    client.close_scenes(scenes[1:])
    client.close_scenes(scenes[1:5])
    assert [scene["scene"] for scene in client.scenes() if scene["mine"]] == [scenes[0]._state.id]
    with pytest.raises(errors.StaleHandleError):
        scenes[7].step()
    assert len(scenes[0].step()) > 0


def test_scenes_of_another_client_or_closed(client):
    scenes = scenes_of(client, 2)
    scenes[1].close()
    with pytest.raises(errors.StaleHandleError):
        client.reset(scenes)
    with pytest.raises(errors.StaleHandleError):
        client.open_scenes(2, scenes[1])
    with pytest.raises(errors.ContactdError):
        client.open_scenes(-1, scenes[0])


@pytest.fixture
def old_server(server):
    """A client whose server says that it is older than what `kind` needs."""
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        client._link.welcome["last_message"] = UNION_NUMBER["Cancel"]
        yield client


def test_old_servers(old_server):
    scenes = scenes_of(old_server, 3, law="pressure", name="old")
    assert same(old_server.step_many(scenes[:2]), old_server.step_many(scenes[1:]))
    with pytest.raises(errors.UnsupportedError, match="too old"):
        old_server.reset(scenes)
    old_server.close_scenes(scenes[1:])
    assert len(scenes[0].step()) > 0


def test_copies_that_do_not_fit(make_server):
    """What was copied until then is closed again."""
    server = make_server("--max-scenes", "12")
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        template = scenes_of(client, 1)[0]
        with pytest.raises(errors.LimitExceededError):
            client.open_scenes(40, template)
        assert len(client.open_scenes(11, template)) == 11


def test_thousands_of_scenes_come_and_go(make_server, monkeypatch):
    """No client is cut for answers that it does not read while it closes them, with messages of today and of before."""
    server, most, transmit = make_server(), 0, Line.transmit

    def watched(line, *arguments):
        nonlocal most
        most = max(most, len(line.tables.flying))
        transmit(line, *arguments)

    monkeypatch.setattr(Line, "transmit", watched)
    for last_message in (None, UNION_NUMBER["Cancel"]):
        with contactd.connect(server.stream, timeout=5 * PATIENT) as client:
            scenes = client.open_scenes(300 if INSTRUMENTED else 1500, scenes_of(client, 1)[0])
            assert len(client.step_many(scenes)) > 0
            if last_message:
                client._link.welcome["last_message"] = last_message
            most = 0
        assert most == (1 if last_message is None else 64)
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        deadline = time.monotonic() + PATIENT
        while client.scenes() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert client.scenes() == []
    assert "it has not read" not in server.logs()


@pytest.mark.parametrize("kind, body, error", [
    ("ResetScenes", {"scenes": [999]}, errors.NotFoundError),
    ("ResetScenes", {"scenes": [0] * 65537}, errors.TooLargeError),
    ("CloseScenes", {"scenes": [0] * 65537}, errors.TooLargeError),
    ("CopyScene", {"scene": 999, "keys": [1]}, errors.NotFoundError),
    ("CopyScene", {"scene": 999, "keys": []}, errors.InvalidArgumentError),
    ("CopyScene", {"scene": "theirs", "keys": [1, 2]}, errors.ForbiddenError),
    ("ResetScenes", {"scenes": ["theirs"]}, errors.ForbiddenError),
    ("CloseScenes", {"scenes": ["theirs"]}, errors.ForbiddenError),
])
def test_refused_by_the_server(server, kind, body, error):
    with contactd.connect(server.stream, timeout=PATIENT) as client, contactd.connect(server.stream, timeout=PATIENT) as other:
        theirs = scenes_of(other, 1)[0]._state.id
        body = {name: theirs if value == "theirs" else [theirs if one == "theirs" else one for one in value] if isinstance(value, list)
                else value for name, value in body.items()}
        with pytest.raises(error):
            client._link.call(Request(kind, lambda: (body, None), timeout=PATIENT))
        assert theirs in [scene["scene"] for scene in other.scenes()]


def test_reset_after_a_restart(make_server):
    """The server that comes back knows from the client where bodies started."""
    server = make_server()
    with contactd.connect(server.stream, timeout=5 * PATIENT) as client:
        scenes = [soft_scene(client), *client.open_scenes(1, soft_scene(client))]
        fresh = scenes[0].step()
        for scene in scenes:
            shake(scene)
        server.kill()
        server.start()
        client.reset(scenes)
        assert all(same(scene.step(), fresh) for scene in scenes)


def test_poses_after_a_restart(make_server):
    """Of bodies that moved together, then some of them alone, then all together."""
    server = make_server()
    with contactd.connect(server.stream, timeout=5 * PATIENT) as client:
        scenes = scenes_of(client, 3, law="pressure")
        for together in (False, True):
            poses, _ = motions(3)
            client.step_many(scenes, ([1, 2], poses))
            poses[:] = np.nan  # the caller's again
            client.reset(scenes[:1])
            scenes[1].step(poses={scenes[1].bodies[1]: moved(0.1)})
            if together:
                client.step_many(scenes, ([1, 2], motions(3, 1)[0]))
            before = [scene.step() for scene in scenes]
            server.kill()
            server.start()
            assert all(same(scene.step(), step) for scene, step in zip(scenes, before))
