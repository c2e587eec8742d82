"""contactd.Engine, in this process, beside a server: the same interface, the same bits, the same errors."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import weakref

import contactd
import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED, ROOT, SLOW
from contactd import _native, errors
from contactd._contact_columns import COLUMNS
from geometry import UNIT_BOX, icosphere, moved, torus

pytestmark = pytest.mark.skipif(INSTRUMENTED, reason="Python is not instrumented, and cannot load a library that is")
PATIENT = 20 * SLOW


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))


@pytest.fixture
def engine():
    with contactd.Engine(threads=2, backend="cpu", timeout=PATIENT) as engine:
        yield engine


def run(client, settings: dict, want="all", **step) -> contactd.StepResult:
    """A scene of all kinds of bodies that the method takes, after two steps."""
    box, ball, ring = (client.register_mesh(*m) for m in (UNIT_BOX, icosphere(2), torus(20, 10)))
    scene = client.open_scene(**settings)
    a, b, c = scene.add_body(box, np.eye(4)), scene.add_body(ball, moved(0.8)), scene.add_body(ring, moved(0.4, 0.9, 0.3))
    if settings["method"] == "exact":
        scene.add_half_space((0.1, 0.2, 1.0), -0.3)
    poses = {b: moved(0.7, 0.6, 0.5)}
    if settings["method"] != "voxtree":
        soft = scene.add_body(ball, self_contact=settings["method"] in ("exact", "ldi") and not settings.get("patches"))
        vertices = np.asarray(icosphere(2)[0], np.float32) * 1.1 + np.float32(0.4)
        scene.step(positions={soft: vertices}, poses={c: moved(0.45, 0.9, 0.3)}, want="volume")
        scene.step(indexed={soft: ([3, 5], vertices[[3, 5]] * 1.01)}, want="volume")
        scene.step(ranges={soft: ([[0, 2], [9, 1]], vertices[[0, 1, 9]])}, want="volume")
        step = {name: values(a, soft) for name, values in step.items()}
    if step:
        step["viscosity"] = 0.3
        if settings["method"] == "exact":
            step["directions"] = [{a: [1, 2, 3, 0.1, 0.2, 0.3]}, {soft: np.ones((soft.vertices, 3))}]
    return scene.step(poses=poses, want=want, **step)


def test_a_result_goes_with_its_last_reference(engine):
    """Its memory, which may be much, does not wait until Python looks for cycles."""
    result = run(engine, {"method": "exact"})
    assert len(result.volumes) == len(result.error_bounds) > 0 and len(result.entries.gradient) and result.wall_timings
    entries, gone = result.entries.gradient, weakref.ref(result._answer)
    expected = entries.tobytes()
    gc.collect()
    gc.disable()
    try:
        del result
        assert gone() is None
        assert entries.tobytes() == expected  # an array keeps what it is a view of
    finally:
        gc.enable()


def test_the_group_of_one_point_has_its_own_memory(engine):
    """A column of one row could be a view of the engine's memory, which it would not keep."""
    box = engine.register_mesh(*UNIT_BOX)
    scene = engine.open_scene(method="exact", max_points=1)
    scene.add_body(box), scene.add_body(box, moved(0.5, 0.4, 0.3))
    result = scene.step(want="points")
    assert len(result.points.depth) == 1
    groups = result._answer.array("point_groups")
    assert groups.flags.owndata or groups.base.flags.owndata


def velocities(a, soft):
    return {a: [0.1, 0.2, 0.3, 1.0, 2.0, 3.0], soft: np.full((soft.vertices, 3), 0.25)}


def assert_same(mine: contactd.StepResult, theirs: contactd.StepResult) -> None:
    assert len(mine) == len(theirs) > 0
    assert np.array_equal(mine.body_pairs, theirs.body_pairs)
    for name in COLUMNS:
        if theirs._is_given(name):
            a, b = getattr(mine, name), getattr(theirs, name)
            assert a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes(), name
        assert mine._is_given(name) == theirs._is_given(name), name
    for name in ("vertices", "gradient", "weights", "forces", "friction_forces", "spans", "span_axes", "product_vertices",
                 "products", "generalized_products", "points", "point_groups", "separations"):
        a, b = mine._answer.array(name), theirs._answer.array(name)
        assert (a is None or not len(a)) == (b is None or not len(b)), name
        if a is not None and len(a):
            assert a.dtype == b.dtype and a.tobytes() == b.tobytes(), name
    for a, b in zip(mine.contacts, theirs.contacts):
        assert a.volume == b.volume and a.index == b.index and a.interval == b.interval and a.error_bound == b.error_bound
        if mine.settings["cell_size"]:
            assert [c.cell for c in a.cells] == [c.cell for c in b.cells]
        if mine.method == "voxtree" or mine.settings["voxels"]["max_points"]:
            assert [str(p) for p in a.points] == [str(p) for p in b.points]
        for mine_body, their_body in zip(a.bodies, b.bodies):
            if mine.want & 2:
                assert np.array_equal(a.gradient(mine_body)[1], b.gradient(their_body)[1])
    for name in ("rays", "pairs", "ended", "passes", "quality", "method", "settings", "directions", "backend"):
        assert getattr(mine, name) == getattr(theirs, name), name
    assert [p[1:] for p in mine.progress] == [p[1:] for p in theirs.progress]
    assert [(w.code, w.value) for w in mine.warnings] == [(w.code, w.value) for w in theirs.warnings]


SETTINGS = [{"method": "exact"}, {"method": "exact", "patches": True, "max_points": 4, "margin": 0.2},
            {"method": "ldi", "resolution": (16, 20, 24), "max_points": 3}, {"method": "ldi", "pixel_size": 0.05, "cell_size": 0.3},
            {"method": "ebpi", "tolerance": 2e-3, "strict": True, "optimize_directions": True}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_bits_are_the_servers(server, engine, settings):
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        for step in ({}, {"velocities": velocities}):
            mine, theirs = run(engine, settings, **step), run(client, settings, **step)
            assert_same(mine, theirs)
    again = pickle.loads(pickle.dumps(mine))
    assert_same(again, theirs)
    assert again.stiffness_product({}).keys() == again.stiffness_product({}).keys()


@pytest.mark.parametrize("want", ["volume", "frame", ("gradient",), ("frame", "spans"), "all"])
def test_what_is_wanted(server, engine, want):
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        settings = {"method": "ldi", "resolution": 8}
        assert_same(run(engine, settings, want), run(client, settings, want))


def test_voxtree(server, engine):
    with contactd.connect(server.stream, timeout=PATIENT) as client:
        for settings in ({"method": "voxtree", "voxel_level": 4}, {"method": "voxtree", "voxel_level": 4, "refine": True}):
            assert_same(run(engine, settings, ("frame", "gradient")), run(client, settings, ("frame", "gradient")))


def outcome(call) -> tuple:
    try:
        return "ok", call()
    except contactd.ContactdError as e:
        return type(e), e.field, e.message


def test_errors_are_the_servers(server, engine):
    def wrongs(client):
        vertices, triangles = UNIT_BOX
        scene = client.open_scene("exact")
        mesh = client.register_mesh(*UNIT_BOX)
        body = scene.add_body(mesh, np.eye(4))
        soft = scene.add_body(mesh)
        far = np.eye(4)
        far[0, 3] = 1e30
        yield lambda: client.register_mesh(vertices, triangles[:-1])
        yield lambda: client.register_mesh(np.asarray(vertices) * np.nan, triangles)
        yield lambda: client.open_scene("exact", 16)
        yield lambda: client.open_scene("ldi", patches=True)
        yield lambda: client.open_scene("voxtree", voxel_level=4).add_body(mesh)
        yield lambda: scene.configure(stiffness=-1.0)
        yield lambda: scene.configure(tolerance=1e-3, method="exact")
        yield lambda: scene.step(poses={body: far})
        yield lambda: scene.step(poses={body: 2 * np.eye(4)[:3]})
        yield lambda: scene.step(positions={soft: np.full((8, 3), np.inf)})
        yield lambda: scene.step(want="spans")
        yield lambda: scene.step(tolerance=1e-3)
        yield lambda: scene.step(viscosity=1.0)
        yield lambda: scene.step(velocities={body: [np.nan] * 6})
        yield lambda: scene.add_half_space((0, 0, 0))
        yield lambda: scene.add_body(mesh, np.eye(4), self_contact=True) and "added"
        body.remove()
        yield lambda: scene.step(poses={body: np.eye(4)})
        yield lambda: mesh.remove()

    with contactd.connect(server.stream, timeout=PATIENT) as client:
        for mine, theirs in zip(wrongs(engine), wrongs(client)):
            a, b = outcome(mine), outcome(theirs)
            assert a[:2] == b[:2] and (a[0] == "ok" or a[0] is errors.ConflictError or a[2] == b[2]), (a, b)


def test_meshes_and_scenes_are_listed_and_freed(engine):
    mesh = engine.register_mesh(*UNIT_BOX, name="box")
    again = engine.register_mesh(*UNIT_BOX)
    assert again.hash == mesh.hash and [m["name"] for m in engine.meshes()] == ["box"]
    assert mesh.volume == pytest.approx(1) and mesh.bounds.tolist() == [[-0.5] * 3, [0.5] * 3] and mesh.repair is None
    assert mesh.geometry()[0].shape == (8, 3) and mesh.geometry()[1].shape == (12, 3)
    with engine.open_scene(name="one") as scene:
        body = scene.add_body(mesh, np.eye(4))
        assert scene.info()["bodies"] == 1 and [s["name"] for s in engine.scenes()] == ["one"]
        scene.configure(method="ldi", resolution=9)
        assert scene.resolution == (9, 9, 9) and scene.running_method == "ldi"
        scene.replace_mesh(body, engine.register_mesh(*icosphere(1)))
        with pytest.raises(errors.ConflictError):
            engine.register_mesh(*icosphere(1)).remove()
        mesh.remove()
    assert engine.scenes() == [] and engine.status()["meshes"] == 1 and engine.status()["backend"] == "cpu"
    assert engine.ping() >= 0
    torn = np.vstack([UNIT_BOX[0], UNIT_BOX[0]]), np.array(UNIT_BOX[1]) + np.arange(12)[:, None] % 2 * 8
    repaired = engine.register_mesh(*torn, repair=True)
    assert repaired.repair.welded_vertices == 8 and repaired.volume == pytest.approx(1)
    assert engine.overlap(repaired, repaired, pose_b=moved(0.5)).volume == pytest.approx(0.5)


def test_results_outlive_the_scene_and_the_engine():
    engine = contactd.Engine(threads=1, timeout=PATIENT)
    mesh = engine.register_mesh(*UNIT_BOX)
    scene = engine.open_scene("exact")
    scene.add_body(mesh, np.eye(4)), scene.add_body(mesh, moved(0.5))
    result = scene.step(want="all")
    gradient = result.entries.gradient
    del result
    gc.collect()
    assert np.abs(gradient).max() == pytest.approx(0.5, rel=1)
    result = scene.step(want="all")
    engine.close()
    engine.close()
    assert result.volumes[0] == pytest.approx(0.5) and result.entries.force.shape == result.entries.gradient.shape
    for call in (scene.step, lambda: engine.register_mesh(*UNIT_BOX), engine.ping):
        with pytest.raises(errors.ClosedError):
            call()


def test_futures_keep_their_order(engine):
    mesh = engine.register_mesh(*UNIT_BOX)
    scene = engine.open_scene("exact")
    scene.add_body(mesh, np.eye(4))
    body = scene.add_body(mesh, np.eye(4))
    futures = [scene.submit(poses={body: moved(0.01 * i)}) for i in range(1, 50)]
    last = scene.step()  # after all of them
    assert [f.result(PATIENT).volumes[0] for f in futures] == pytest.approx([1 - 0.01 * i for i in range(1, 50)])
    assert last.volumes[0] == futures[-1].result().volumes[0] and last.sequence == 50
    with pytest.raises(errors.OutOfRangeError):
        scene.submit(poses={body: moved(1e30)}).result(PATIENT)

    async def wait():
        return await asyncio.wrap_future(scene.submit())

    assert asyncio.run(wait()).volumes[0] == last.volumes[0]


def test_a_step_ends_at_its_limit_and_changes_nothing(engine):
    mesh = engine.register_mesh(*icosphere(6))
    scene = engine.open_scene("exact")
    bodies = [scene.add_body(mesh, moved(0.05 * i, 0.03 * i, 0.02 * i)) for i in range(12)]  # for longer than a clock's tick
    b = bodies[1]
    before = scene.step().volumes[0]
    scene.configure(max_step_time=1e-6)
    with pytest.raises(errors.TimeLimitError, match="max_step_time"):
        scene.step(poses={b: moved(0.4)})
    scene.configure(max_step_time=1e6)
    with pytest.raises(errors.DeadlineExceededError):
        scene.step(poses={b: moved(0.4)}, timeout=1e-6)
    assert scene.step().volumes[0] == before


def test_threads_share_an_engine(engine):
    mesh = engine.register_mesh(*icosphere(3))
    expected = {}

    def work(shift):
        with engine.open_scene("exact") as scene:
            scene.add_body(mesh, np.eye(4))
            body = scene.add_body(mesh, np.eye(4))
            expected[shift] = [scene.step(poses={body: moved(shift + 0.1 * i)}).volumes[0] for i in range(20)]

    threads = [threading.Thread(target=work, args=(shift,)) for shift in (0.1, 0.2, 0.1001)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert expected[0.1][1:] == pytest.approx(expected[0.2][:-1]) and len(expected) == 3


def in_child(engine, scene) -> None:
    scene.close()
    scene.close()
    try:
        engine.ping()
        os._exit(1)
    except contactd.errors.ClosedError:
        pass
    with contactd.Engine(threads=1) as own:
        own.register_mesh(*UNIT_BOX)
    engine.close()
    os._exit(7)


def test_after_a_fork(engine):
    scene = engine.open_scene("exact")
    child = multiprocessing.get_context("fork").Process(target=in_child, args=(engine, scene))
    child.start()
    child.join(PATIENT)
    assert child.exitcode == 7 and len(scene.step()) == 0


def test_no_library_is_said_so(monkeypatch, tmp_path):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(tmp_path / "libcontact.so"))
    monkeypatch.setattr(_native, "load", _native.load.__wrapped__)
    with pytest.raises(errors.UnsupportedError, match="CONTACTD_LIBRARY"):
        contactd.Engine()
    (tmp_path / "libcontact.so").write_bytes(b"no library")
    (tmp_path / "libcontact.cdef.0").write_text("extern int x;")
    with pytest.raises(errors.UnsupportedError, match="cannot be used"):
        contactd.Engine()
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontactd.so"))                   # the client's, beside the engine's
    with pytest.raises(errors.UnsupportedError, match=r"libcontactd\.so is not the engine's library"):
        contactd.Engine()


@pytest.mark.parametrize("arguments", [{"threads": -1}, {"threads": 1.5}, {"threads": "2"}, {"threads": 1 << 40}, {"backend": 3},
                                       {"simd": None}, {"devices": (0, 1)}])
def test_arguments_that_are_none(arguments):
    with pytest.raises(errors.InvalidArgumentError, match="engine, " + next(iter(arguments))):
        contactd.Engine(**arguments)


def test_numbers_of_numpy_and_times_that_are_none():
    with contactd.Engine(threads=np.int64(1), timeout=np.float32(3)) as engine:
        assert engine.status()["threads"] == 1 and engine.timeout == 3.0
    for make in (contactd.Engine, contactd.connect):
        for timeout in (None, "soon", -1.0, np.nan):
            with pytest.raises((errors.InvalidArgumentError, errors.OutOfRangeError), match="timeout: expected"):
                make(timeout=timeout)


def test_a_wish_that_is_none(engine):
    scene = engine.open_scene()
    for want in (3, 0.5, object()):
        with pytest.raises(errors.InvalidArgumentError, match="want: expected some of volume"):
            scene.step(want=want)


def test_backends_that_are_not_there(engine):
    with pytest.raises(errors.ContactdError, match="backend|CUDA|cuda"):
        contactd.Engine(backend="tpu")
    with pytest.raises(errors.ContactdError):
        contactd.Engine(simd="avx9000")


@pytest.mark.skipif("CT_HAVE_EGL" not in (BUILD / "flags").read_text(), reason="built without pictures")
def test_a_picture(engine):
    mesh = engine.register_mesh(*UNIT_BOX)
    scene = engine.open_scene("exact")
    a, b = scene.add_body(mesh, np.eye(4)), scene.add_body(mesh, moved(0.5, 0.2, 0.1))
    assert scene.snapshot(width=64, height=48, show=["bodies", "contacts"], contact=[a, b], eye=(3, 3, 3))[:4] == b"\x89PNG"
    with pytest.raises(errors.InvalidArgumentError):
        scene.snapshot(show="nodes")


def test_an_engine_has_the_meshes_that_are_held(engine):
    """Not those of all scenes and models that a program ever had."""
    hashes = lambda: {m["hash"] for m in engine.meshes()}  # noqa: E731
    ball = engine.sphere(2.0)
    for radius in (0.5, 0.6, 0.7):
        with engine.open_scene(method="exact") as template:
            template.add_sphere(radius), template.add_body(ball, moved(1.0))
            copies = engine.open_scenes(2, template)
            assert len(engine.step_many(copies)) == 2
            template.close(), engine.close_scenes(copies)
        del template, copies
    gc.collect()
    assert hashes() == {ball.hash}
    scene, mesh = engine.open_scene(method="exact"), engine.register_mesh(*UNIT_BOX)
    scene.add_body(mesh, np.eye(4)), scene.add_body(mesh, moved(0.5))
    known, volume, again = {ball.hash, mesh.hash}, scene.step().volumes[0], engine.register_mesh(*UNIT_BOX)
    del mesh
    assert hashes() == known and scene.step().volumes[0] == volume
    scene.close()
    del scene
    gc.collect()
    assert hashes() == known and again.geometry()[0].shape == (8, 3)
    del again
    assert hashes() == {ball.hash}
    ball.remove()
    del ball
    assert hashes() == set()


WAITS = {
    "step": lambda scene, mesh: scene.step(),
    "info": lambda scene, mesh: scene.info(),
    "add": lambda scene, mesh: scene.add_body(mesh, np.eye(4)),
    "configure": lambda scene, mesh: scene.configure(margin=0.1),
    "copy": lambda scene, mesh: scene.client.open_scenes(2, scene),
    "material": lambda scene, mesh: scene.set_material(scene.bodies[0], friction=0.1),
    "many": lambda scene, mesh: scene.client.step_many([scene]),
}


@pytest.mark.parametrize("end", ["scene", "engine"])
@pytest.mark.parametrize("wait", WAITS)
def test_who_waits_for_a_scene_that_another_thread_closes_is_told(engine, wait, end):
    mesh, scene, told = engine.register_mesh(*UNIT_BOX), engine.open_scene(method="exact"), []
    scene.add_body(mesh, np.eye(4))
    inside = engine._link._scenes[scene.id]
    is_waiting = threading.Event()

    class Lock:
        """The scene's, which tells that another thread is about to wait for it."""

        def __init__(self, lock):
            self.lock = lock

        def acquire(self):
            if threading.current_thread() is not threading.main_thread():
                is_waiting.set()
            self.lock.acquire()

        __enter__ = acquire

        def release(self, *_):
            self.lock.release()

        __exit__ = release

    def work():
        try:
            WAITS[wait](scene, mesh)
        except contactd.ContactdError as e:
            told.append(type(e))

    inside.lock = Lock(inside.lock)
    thread = threading.Thread(target=work)
    with inside.lock:
        thread.start()
        assert is_waiting.wait(PATIENT)
        (scene if end == "scene" else engine).close()
        others = [contactd.Engine(threads=1, backend="cpu").open_scene() for _ in range(2)]  # where its memory was
    thread.join(PATIENT)
    assert told == [errors.StaleHandleError if end == "scene" else errors.ClosedError] and len(others) == 2


@pytest.mark.parametrize("wait", ["step", "many", "reset", "add_bodies"])
def test_callbacks_must_not_wait(engine, wait):
    """For steps that only the thread which calls them back carries out."""
    mesh, scene, told = engine.register_mesh(*UNIT_BOX), engine.open_scene(method="exact"), []
    waits = {"step": scene.step, "many": lambda: engine.step_many([scene]), "reset": scene.reset,
             "add_bodies": lambda: scene.add_bodies(mesh, [np.eye(4)])}
    done = threading.Event()

    def callback(_):
        try:
            waits[wait]()
        except contactd.ContactdError as e:
            told.append(e)
        done.set()

    with engine._link._scenes[scene.id].lock:  # so that there is a callback before the step is done
        future = scene.submit()
        future.add_done_callback(callback)
    assert done.wait(PATIENT)
    assert isinstance(told[0], errors.InvalidArgumentError) and "callback" in told[0].message
    waits[wait]()


INTERRUPTED = """
import gc, os, signal, sys, threading
import contactd, numpy as np
from geometry import UNIT_BOX, moved

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored, and Python then leaves it so
SECONDS = float(sys.argv[1])
engine = contactd.Engine(timeout=SECONDS)
mesh = engine.register_mesh(*UNIT_BOX)

def a_scene(**settings):
    scene = engine.open_scene(max_step_time=SECONDS, **settings)
    return scene, [scene.add_body(mesh, pose=np.eye(4)) for _ in range(2)]

def ends(call, error):
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        call()
    except error as e:
        print(type(e).__name__)
    timer.join()

long, (_, b) = a_scene(method="ebpi", tolerance=3e-8, ray_budget=2**28)  # seconds
short, (_, d) = a_scene(method="exact")
kept = short.step(poses={d: moved(0.5)})
ends(lambda: long.step(poses={b: moved(0.3, 0.2, 0.1)}), KeyboardInterrupt)
print(short.step(poses={d: moved(0.75)}).volumes[0])
many = engine.open_scenes(3, long)
poses = np.tile(np.array([np.eye(4), moved(0.3, 0.2, 0.1)]), (3, 1, 1, 1))
ends(lambda: engine.step_many(many, poses), KeyboardInterrupt)
ends(lambda: engine._step_each([(scene, {"poses": dict(zip(scene.bodies, poses[0]))}) for scene in many]), KeyboardInterrupt)

def handler(*_):  # which is in the midst of a call
    global kept
    kept = None
    gc.collect()
    engine.close()

signal.signal(signal.SIGINT, handler)
ends(lambda: long.step(), contactd.errors.ConflictError)
print(short.step(poses={d: moved(0.25)}).volumes[0])
"""


def test_ctrl_c_ends_a_call():
    """While it computes: of one scene, of many, of many with arguments of their own; the next one is as ever. What a handler may not do in
    the midst of a call is told."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, str(40 * SLOW)], capture_output=True, text=True, timeout=100 * SLOW,
                          env=os.environ | {"CONTACTD_LIBRARY": str(BUILD / "libcontact.so"),
                                            "PYTHONPATH": f"{ROOT / 'client_py'}:{ROOT / 'tests' / 'e2e'}"})
    assert done.returncode == 0, done.stderr
    interrupt = "KeyboardInterrupt"
    assert done.stdout.split() == [interrupt, "0.25", interrupt, interrupt, "ConflictError", "0.75"], done.stdout + done.stderr


@pytest.mark.parametrize("end", ["", "engine.close()"])
def test_an_engine_that_is_kept_to_pythons_end_says_nothing(end):
    """As by a diagram of Drake: it goes when Python has taken apart what closing needs."""
    program = f"import codecs, contactd\ncodecs.kept = engine = contactd.Engine()\nengine.box((1, 1, 1))\n{end}\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENT,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "client_py")})
    assert (done.returncode, done.stderr) == (0, "")


AT_THE_END = """
import sys
import contactd
from geometry import icosphere

class Holder:
    def __init__(self, client, what):
        self.client, self.what, self.closed = client, what, contactd.errors.ClosedError
        vertices, triangles = icosphere(5)
        mesh = client.register_mesh(vertices, triangles)
        self.scene = client.open_scene()
        self.body = self.scene.add_body(mesh)
        self.scene.add_body(client.register_mesh(vertices + 1e-3, triangles))
        self.futures = [self.scene.submit(positions={self.body: vertices + 1e-4}) for _ in range(100)]

    def __del__(self):
        try:
            getattr(self, self.what)()
            print("ended")
        except self.closed as e:
            print(e)

    def close(self):
        self.scene.close()
        self.client.close()

    def step(self):
        self.scene.step()

    def wait(self):
        self.futures[-1].result()

kept = Holder(contactd.Engine(threads=1) if sys.argv[2] == "engine" else contactd.connect(sys.argv[2]), sys.argv[1])
"""


@pytest.mark.parametrize("what, said", [("close", "ended"), ("step", "ClosedError: Python is ending"), ("wait", "ClosedError: Python is ending")])
@pytest.mark.parametrize("place", ["engine", "server"])
def test_a_destructor_at_pythons_end_does_not_wait(server, place, what, said):
    """For threads that stand still then: as of an environment that closes its scene, with steps on their way."""
    done = subprocess.run([sys.executable, "-c", AT_THE_END, what, server.stream if place == "server" else place], capture_output=True, text=True,
                          timeout=PATIENT, env=os.environ | {"PYTHONPATH": f"{ROOT / 'client_py'}:{ROOT / 'tests' / 'e2e'}"})
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, said, "")
