"""The engine in this process, libcontact, as a link that carries requests out here instead of sending them.

EngineLink stands where Link stands for a server: it takes the same requests and gives the same answers, to the bit, as both
end in the same functions. What a server adds for strangers (sessions, queues, limits of memory, a deadline for whoever waits)
is not here. Steps, and whatever else takes long, run without Python's lock (the GIL).
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import math
import os
import queue
import threading
import time
import weakref
from sys import is_finalizing
from typing import Any, Callable, Iterator

import numpy as np

from ._engine_memory import Answer, Library, StepAnswer
from ._reply import check_not_ending
from ._scene_settings import ROWS
from ._schema import UNION_NUMBER
from ._state import POSE, POSITIONS, RIGID, Meshes, MeshState, PoseUpdates, Request, SceneState, bodies_of
from ._wire import Arrays
from .errors import ClosedError, ContactdError, ErrorCode, StaleHandleError, error_for

_DTYPES = {"<f4": 1, "<f8": 2}
_MANY_POSES = 16  # from here on filling columns takes less time than filling rows
_CHANGES = 5  # kinds of changes that a repair makes


class _Scene:
    """A ct_scene, one thread at a time."""

    def __init__(self, handle: Any, address: int) -> None:
        self.handle, self.address = handle, address  # 0: it was closed
        self.kept: tuple[int, Any, Any, Any] | None = None  # updates, and ct_step, ct_cancel and ct_update[], to use again
        self.lock = threading.RLock()
        self.revision, self.steps, self.contacts = 1, 0, 0
        self.shown: dict[str, Any] = {}  # the settings, as an answer has them
        self.limit = 0.0  # s, max_step_time
        self.name = ""
        self.meshes: dict[int, int] = {}  # by body
        self.waiting = 0  # of its steps, submitted and not done

    def step_for(self, ffi: Any, n: int) -> tuple[Any, Any, Any]:
        """A ct_step with so many updates, and its ct_cancel; those of the step before, if it was as plain."""
        if self.kept is None or self.kept[0] != n:
            step, cancel, updates = ffi.new("ct_step *"), ffi.new("ct_cancel *"), ffi.new("ct_update[]", n)
            step.updates, step.n_updates = updates, n
            self.kept = n, step, cancel, updates
        _, step, cancel, updates = self.kept
        cancel.reason = cancel.is_noted = 0
        return step, cancel, updates


class _HeldMeshes(Meshes):
    """Meshes of an engine, which has no more of them than are held here."""

    def __init__(self) -> None:
        super().__init__()
        self.gone: collections.deque[int] = collections.deque()  # numbers of those that nobody holds any more, once for each

    def add(self, mesh: MeshState) -> None:
        super().add(mesh)
        weakref.finalize(mesh, self.gone.append, mesh.id).atexit = False  # freed later, as a garbage collection may come anywhere


class EngineLink:
    """See Link. Requests are carried out on the calling thread; submitted steps on a thread of the link's, in order."""

    address = "engine"
    is_here = True  # in this process
    reconnects = 0

    def __init__(self, options: dict[str, Any]) -> None:
        self.native = native = Library()
        ffi, lib = native.ffi, native.lib
        self.meshes = _HeldMeshes()
        self.scenes: list[SceneState] = []
        self.traceparent: str | None = None
        self._is_closed = False
        self._pid = os.getpid()
        self._lock = threading.RLock()  # around what is known of meshes and scenes; taken after a scene's own, if that is needed, too
        self._numbers = itertools.count(1)
        self._meshes: dict[int, Any] = {}  # handles, ct_mesh *
        self._mesh_facts: dict[int, dict[str, Any]] = {}
        self._by_hash: dict[str, int] = {}
        self._holders: collections.Counter[int] = collections.Counter()  # by mesh, how often it was registered and is held
        self._scenes: dict[int, _Scene] = {}
        self._queue: queue.SimpleQueue[tuple[Request, _Scene | None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiting = 0  # steps of all scenes, submitted and not done
        self._serving: Any = None  # the future of what the thread carries out
        self._taken_back = ffi.new("ct_cancel *")  # which ends that
        self._began = time.monotonic()
        given = ffi.new("ct_engine_options *")
        lib.ct_engine_options_init(given)
        keep = []
        for name, value in options.items():
            if isinstance(value, str):
                keep.append(value := ffi.new("char[]", value.encode()))
            setattr(given, name, value)
        out, error = ffi.new("ct_engine **"), ffi.new("ct_error *")
        native.check(lib.ct_engine_create(given, out, error), error, "engine")
        # The order in which Python frees what refers to each other is its own: the engine goes after all scenes.
        self._engine = out[0]
        facts = self._facts(0)
        native.backend = native.text(facts.backend)
        methods = ffi.new("ct_method[]", lib.CT_MAX_METHODS)
        n = lib.ct_engine_methods(self._engine, methods)
        self.welcome: dict[str, Any] = {
            "server": "contactd, in this process", "backend": native.backend, "rasterizer": native.text(facts.rasterizer),
            "device": native.text(facts.device), "epoch": 0, "session": 0, "lease_ms": 0, "max_message_bytes": 0,
            "max_in_flight": 0, "max_resolution": 4096, "successors": "", "last_message": len(UNION_NUMBER),
            "methods": [native.text(lib.ct_method_name(methods[i])) for i in range(n)]}

    def is_busy(self, scene: SceneState) -> bool:
        """As Link: whether steps that were submitted wait."""
        return self._scene({"scene": scene.id}).waiting > 0

    # ---- as Link ----

    @property
    def closed(self) -> bool:
        return self._is_closed or is_finalizing()

    def check_thread(self) -> None:
        """As Link: before waiting for what the engine's thread does."""
        if threading.current_thread() is self._thread:
            raise error_for(ErrorCode.INVALID_ARGUMENT, "a future's callback runs on the engine's thread and must not wait for "
                            "steps that were submitted: use submit(), or hand the work to another thread")

    def call(self, request: Request, meanwhile: Callable[[], None] | None = None) -> Any:
        self._check_open()
        scene = self._scene_of(request)
        if scene is not None and scene.waiting:
            self.check_thread()
            self.submit(request)
            return request.future.result()
        return self._carry_out(request)

    def submit(self, request: Request) -> None:
        scene = self._scene_of(request)
        with self._lock:
            self._check_open()
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="contactd engine", daemon=True)
                self._thread.start()
            if scene is not None:
                scene.waiting += 1
                self._waiting += 1
            self._queue.put((request, scene))

    def take_back(self, step: Any, deadline: float) -> None:
        """As Link: ends the step of this future, if it has begun, and does not wait for that."""
        with self._lock:
            if self._serving is step:
                self.native.lib.ct_cancel_request(self._taken_back, self.native.lib.CT_CANCEL_CALLER)

    def _serve_next(self, future: Any) -> None:
        with self._lock:
            self._serving = future
            self._taken_back.reason = self._taken_back.is_noted = 0

    def _outer(self) -> Any:
        """The ct_cancel that ends what this thread computes, or NULL."""
        is_serving = self._serving is not None and threading.current_thread() is self._thread
        return self._taken_back if is_serving else self.native.interrupts.outer()

    def close(self, wait: bool = True) -> None:
        if os.getpid() != self._pid:
            self._is_closed = True
            return  # the parent's
        self._check_not_interrupting()
        if is_finalizing() and not self._is_idle():
            self._is_closed = True
            return  # whoever has its locks stands still
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            if self._thread is not None:
                self._queue.put(None)
        if self._thread is not None and threading.current_thread() is not self._thread and not is_finalizing():
            self._thread.join()
        while self._scenes:  # one by one, as who has a scene's lock may wait for the engine's, or make copies
            for number, scene in list(self._scenes.items()):
                self._free_scene(number, scene)
        with self._lock:
            for mesh in self._meshes.values():
                self.native.free("ct_mesh", mesh)
            self._meshes.clear()
            self.native.free("ct_engine", self._engine)

    def _is_idle(self) -> bool:
        """Whether no other thread has any of its locks."""
        locks = [self._lock, *(scene.lock for scene in self._scenes.values())]
        taken = [lock for lock in locks if lock.acquire(blocking=False)]
        for lock in taken:
            lock.release()
        return len(taken) == len(locks)

    def _free_scene(self, number: int, scene: _Scene) -> None:
        with scene.lock, self._lock:
            if self._scenes.pop(number, None) is not None:
                scene.address = 0
                self.native.free("ct_scene", scene.handle)

    def _check_not_interrupting(self) -> None:
        if self.native.interrupts.is_here():
            raise error_for(ErrorCode.CONFLICT, "a signal's handler interrupted a call of the engine, which has to end first: raise an "
                            "exception, which ends it, or set a flag", object="engine")

    def _check_open(self) -> None:
        self._check_not_interrupting()
        if self._is_closed:
            raise ClosedError("the engine was closed")
        check_not_ending()
        if os.getpid() != self._pid:
            raise ClosedError("the engine belongs to the process that made it: make one after the fork")

    def _scene_of(self, request: Request) -> _Scene | None:
        state = request.scene or request.after or request.behind
        return None if state is None else self._scenes.get(state.id)

    def _loop(self) -> None:
        while (item := self._queue.get()) is not None:
            self._serve(*item)  # whose variables end with it: an answer leads to its client, which is not to be kept
            del item

    def _serve(self, request: Request, scene: _Scene | None) -> None:
        try:
            self._check_open()
            self._serve_next(request.future)  # before it may not be called back any more: what takes it back then finds it here
            if not request.may_be_sent():
                return
            value = self._carry_out(request)
        except BaseException as e:  # whoever waits is told
            request.fail(e)
        else:
            if not request.future.done():
                request.future.set_result(value)
        finally:
            self._serve_next(None)
            if scene is not None:
                with self._lock:
                    scene.waiting -= 1
                    self._waiting -= 1

    def _carry_out(self, request: Request) -> Any:
        if request.scene is not None:
            return self._step(request)
        assert request.build is not None, "steps are carried out by _step"
        body, arrays = request.build()
        work = getattr(self, "_" + request.kind, None)
        if work is None:
            raise error_for(ErrorCode.UNSUPPORTED, f"the engine in this process has no {request.kind}", object="engine")
        self._free_meshes()
        with self.native.interrupts.around():
            answer = work(body, arrays)
        return request.done(answer)

    # ---- meshes ----

    def _RegisterMesh(self, body: dict[str, Any], arrays: Arrays) -> Answer:
        native, (ffi, lib) = self.native, (self.native.ffi, self.native.lib)
        options, changes = ffi.new("ct_mesh_options *"), ffi.new("ct_mesh_changes *")
        lib.ct_mesh_options_init(options)
        options.repair, options.max_hole = body.get("repair", False), body.get("max_hole", 0.0)
        options.scale, options.weld = body.get("scale", 0.0), body.get("weld", 0.0)
        options.closing, options.resolution = body.get("closing", 0), body.get("resolution", 0.0)
        options.open_direction = body.get("open_direction", (0.0, 0.0, 0.0))
        out, error, name = ffi.new("ct_mesh **"), ffi.new("ct_error *"), f"mesh {body['name']}".strip()
        if "file" in body:
            data = arrays.of(body["file"])
            status = lib.ct_mesh_read_with(ffi.from_buffer(data), data.size, body["format"], options, out, changes, error)
        else:
            points, faces = arrays.of(body["vertices"]), arrays.of(body["triangles"])
            status = lib.ct_mesh_create_with(ffi.from_buffer(points), _DTYPES[points.dtype.str], len(points),
                                             ffi.from_buffer(faces), len(faces), options, out, changes, error)
        native.check(status, error, name)
        overlap = ffi.new("double *")
        if options.repair:
            status = lib.ct_mesh_measure_overlap(out[0], overlap, error)
            if status != lib.CT_OK:
                native.free("ct_mesh", out[0])
            native.check(status, error, name)
        facts = self._mesh_info(out[0], body["name"])
        with self._lock:
            number = self._by_hash.get(facts["hash"])
            facts["existed"] = number is not None
            if self._is_closed or number is not None:
                native.free("ct_mesh", out[0])
            self._check_open()
            if number is None:
                number = self._by_hash[facts["hash"]] = next(self._numbers)
                self._meshes[number], self._mesh_facts[number] = out[0], facts
            self._holders[number] += 1
        facts = facts | {"mesh": number, "closing": int(options.closing)}
        facts |= {"deviation": changes.deviation} if options.closing else {}
        facts |= {"uneven_polygons": changes.uneven_polygons, "unevenness": changes.unevenness}
        if options.repair:
            kinds = range(_CHANGES)
            first = [(k, c.index, *c.at, c.edges) for k in kinds
                     for c in changes.of[k].first[0:min(changes.of[k].count, lib.CT_CHANGE_EXAMPLES)]]
            facts["moved"], facts["self_overlap"] = changes.moved, overlap[0]
            facts["repair"] = [*(changes.of[k].count for k in kinds), changes.fill_triangles, *itertools.chain(*first)]
        return Answer("MeshInfo", facts)

    def _mesh_info(self, mesh: Any, name: str) -> dict[str, Any]:
        info = self.native.ffi.new("ct_mesh_info *")
        self.native.lib.ct_mesh_get_info(mesh, info)
        return {"hash": self.native.text(info.hash), "name": name, "vertices": info.vertices, "triangles": info.triangles,
                "bytes": info.bytes, "volume": info.volume, "area": info.area, "lo": tuple(info.lo), "hi": tuple(info.hi),
                "closing_vertices": info.closing_vertices, "shells": info.shells, "doubled_shells": info.doubled_shells,
                "center_of_mass": tuple(info.center_of_mass), "inertia": tuple(x for row in info.inertia for x in row),
                "deviation": info.deviation, "closed_as": int(info.closing), "closing": 0, "repair": None}

    @contextlib.contextmanager
    def _mesh(self, number: int) -> Iterator[Any]:
        """The mesh, which stays although another thread removes it."""
        with self._lock:
            mesh = self.native.lib.ct_mesh_retain(self._known_mesh(number))
        try:
            yield mesh
        finally:
            self.native.free("ct_mesh", mesh)

    def _known_mesh(self, number: int) -> Any:
        mesh = self._meshes.get(number)
        if mesh is None:
            raise error_for(ErrorCode.STALE_HANDLE, "the mesh was removed", object=f"mesh {number}", field="mesh")
        return mesh

    def _bodies_of(self, number: int) -> int:
        return sum(list(scene.meshes.values()).count(number) for scene in list(self._scenes.values()))

    def _GetMesh(self, body: dict[str, Any], _: Any) -> Answer:
        number = body.get("mesh") or self._by_hash.get(body.get("hash", ""), 0)
        with self._lock:
            self._known_mesh(number)
            facts = self._mesh_facts[number] | {"mesh": number}
        if not body.get("with_geometry"):
            return Answer("MeshInfo", facts)
        array, lib = self.native.array, self.native.lib
        vertices = np.empty(3 * facts["vertices"])
        with self._mesh(number) as mesh:
            lib.ct_mesh_positions_f64(mesh, self.native.ffi.from_buffer("double[]", vertices))
            triangles = np.array(array(None, lib.ct_mesh_triangles(mesh), 3 * facts["triangles"], "<u4"))
        rounded = vertices.astype("<f4")
        return Answer("MeshGeometry", facts, vertices=rounded if np.array_equal(rounded, vertices) else vertices, triangles=triangles)

    def _ListMeshes(self, *_: Any) -> Answer:
        with self._lock:
            return Answer("MeshList", {"meshes": [facts | {"mesh": number, "bodies": self._bodies_of(number)}
                                                   for number, facts in self._mesh_facts.items()]})

    def _RemoveMesh(self, body: dict[str, Any], _: Any) -> Answer:
        with self._lock:
            self._check_open()
            number = body["mesh"]
            self._known_mesh(number)
            if used := self._bodies_of(number):
                raise error_for(ErrorCode.CONFLICT, f"{used} bodies use the mesh: remove them or close their scenes first",
                                object=f"mesh {number}", field="mesh")
            self._drop_mesh(number)
        return Answer("Done", {})

    def _drop_mesh(self, number: int) -> None:
        """With the lock. Bodies that have it keep it."""
        mesh = self._meshes.pop(number)
        del self._holders[number], self._by_hash[self._mesh_facts.pop(number)["hash"]]
        self.native.lib.ct_engine_forget_mesh(self._engine, mesh)
        self.native.free("ct_mesh", mesh)

    def _free_meshes(self) -> None:
        """Those that nobody holds any more."""
        if not self.meshes.gone:
            return
        with self._lock:
            self._check_open()
            while self.meshes.gone:
                number = self.meshes.gone.popleft()
                if number in self._holders:  # else it was removed
                    self._holders[number] -= 1
                    if not self._holders[number]:
                        self._drop_mesh(number)

    # ---- scenes ----

    def _change(self, given: dict[str, Any]) -> Any:
        """A ct_settings_change of the wire's Settings."""
        change = self.native.ffi.new("ct_settings_change *")
        for at, row in enumerate(ROWS):
            value = (given.get("voxels") or {} if row.is_voxels else given).get(row.name)
            if value is not None:
                change.given |= 1 << at
                setattr(change.to, row.name, tuple(value) * 3 if row.type == "u32x3" and len(value) == 1 else value)
        return change

    def _OpenScene(self, body: dict[str, Any], _: Any) -> Answer:
        native, (ffi, lib) = self.native, (self.native.ffi, self.native.lib)
        settings, out, error = ffi.new("ct_scene_settings *"), ffi.new("ct_scene **"), ffi.new("ct_error *")
        lib.ct_scene_settings_init(settings)
        native.check(lib.ct_scene_settings_change(settings, self._change(body["settings"]), error), error, "scene")
        with self._lock:
            self._check_open()
            native.check(lib.ct_scene_create(self._engine, settings, out, error), error, "scene")
            scene = _Scene(out[0], native.address(out[0]))
            scene.name = body["name"]
            number = next(self._numbers)
            self._note_settings(scene)
            self._scenes[number] = scene
            return self._scene_info(number, scene)

    def _note_settings(self, scene: _Scene) -> None:
        settings = self.native.ffi.new("ct_scene_settings *")
        self.native.lib.ct_scene_get_settings(scene.handle, settings)
        shown: dict[str, Any] = {"voxels": {}}
        for row in ROWS:
            value: Any = getattr(settings, row.name)
            value = tuple(value) if row.type == "u32x3" else int(value) if row.type != "f64" else value
            if row.type == "u32x3" and not any(value):
                value = None
            (shown["voxels"] if row.is_voxels else shown)[row.name] = value
        scene.shown, scene.limit = shown, settings.max_step_time

    def _scene_info(self, number: int, scene: _Scene) -> Answer:
        running = self.native.ffi.new("ct_scene_settings *")
        self.native.lib.ct_scene_get_running(scene.handle, running)
        return Answer("SceneInfo", {
            "scene": number, "name": scene.name, "settings": scene.shown, "running_method": int(running.method),
            "revision": scene.revision, "bodies": len(scene.meshes), "bytes": self.native.lib.ct_scene_bytes(scene.handle),
            "steps": scene.steps, "contacts": scene.contacts, "mine": True, "owner": ""})

    def _scene(self, body: dict[str, Any]) -> _Scene:
        scene = self._scenes.get(body["scene"])
        if scene is None:
            raise error_for(ErrorCode.STALE_HANDLE, "the scene was closed", object=f"scene {body['scene']}", field="scene")
        return scene

    @contextlib.contextmanager
    def _held(self, body: dict[str, Any]) -> Iterator[_Scene]:
        """The scene, for this thread alone; another may have closed it while this one waited for that."""
        scene = self._scene(body)
        with scene.lock:
            self._check_there(scene, body["scene"])
            yield scene

    def _check_there(self, scene: _Scene, number: int) -> None:
        """By the holder of its lock."""
        if not scene.address:
            self._check_open()
            raise error_for(ErrorCode.STALE_HANDLE, "the scene was closed", object=f"scene {number}", field="scene")

    def _GetScene(self, body: dict[str, Any], _: Any) -> Answer:
        with self._held(body) as scene:
            return self._scene_info(body["scene"], scene)

    def _ListScenes(self, *_: Any) -> Answer:
        found = []
        for number in list(self._scenes):
            with contextlib.suppress(StaleHandleError):  # closed meanwhile
                found.append(self._GetScene({"scene": number}, None).body)
        return Answer("SceneList", {"scenes": found})

    def _Configure(self, body: dict[str, Any], _: Any) -> Answer:
        native, (ffi, lib) = self.native, (self.native.ffi, self.native.lib)
        settings, error = ffi.new("ct_scene_settings *"), ffi.new("ct_error *")
        object = f"scene {body['scene']}"
        with self._held(body) as scene:
            lib.ct_scene_get_settings(scene.handle, settings)
            native.check(lib.ct_scene_settings_change(settings, self._change(body["settings"]), error), error, object)
            native.check(lib.ct_scene_configure(scene.handle, settings, error), error, object)
            scene.revision += 1
            self._note_settings(scene)
            return self._scene_info(body["scene"], scene)

    def _CloseScene(self, body: dict[str, Any], _: Any) -> Answer:
        self._free_scene(body["scene"], self._scene(body))
        return Answer("Done", {})

    def _CloseScenes(self, body: dict[str, Any], _: Any) -> Answer:
        for number in body["scenes"]:
            if number in self._scenes:
                self._CloseScene({"scene": number}, None)
        return Answer("Done", {})

    def _ResetScenes(self, body: dict[str, Any], _: Any) -> Answer:
        for number in body["scenes"]:
            error = self.native.ffi.new("ct_error *")
            with self._held({"scene": number}) as scene:
                self.native.check(self.native.lib.ct_scene_reset(scene.handle, error), error, f"scene {number}")
        return Answer("Done", {})

    def _CopyScene(self, body: dict[str, Any], _: Any) -> Answer:
        ffi, lib = self.native.ffi, self.native.lib
        numbers: list[int] = []
        with self._held(body) as scene:
            for _ in body["keys"]:
                out, error = ffi.new("ct_scene **"), ffi.new("ct_error *")
                try:
                    self.native.check(lib.ct_scene_copy(scene.handle, out, error), error, f"scene {body['scene']}")
                except ContactdError:
                    self._CloseScenes({"scenes": numbers}, None)
                    raise
                made = _Scene(out[0], self.native.address(out[0]))
                made.name, made.meshes = scene.name, dict(scene.meshes)
                made.shown, made.limit = scene.shown, scene.limit
                with self._lock:
                    numbers.append(next(self._numbers))
                    self._scenes[numbers[-1]] = made
            info = self._scene_info(body["scene"], scene).body
        return Answer("ScenesOpened", {"scenes": numbers, "revision": 1,
                                        "settings": info["settings"], "running_method": info["running_method"]})

    # ---- bodies ----

    def _AddBody(self, body: dict[str, Any], _: Any) -> Answer:
        native, (ffi, lib) = self.native, (self.native.ffi, self.native.lib)
        out, error = ffi.new("uint32_t *"), ffi.new("ct_error *")
        options, ignore = self._body_options(body, body["kind"])
        if "pose" in body:
            options.pose = body["pose"]
        with self._mesh(body["mesh"]) if "mesh" in body else contextlib.nullcontext(ffi.NULL) as mesh, self._held(body) as scene:
            native.check(lib.ct_scene_add_body(scene.handle, mesh, options, out, error), error, f"scene {body['scene']}")
            scene.meshes[out[0]] = body.get("mesh", 0)
        return Answer("BodyAdded", {"scene": body["scene"], "body": out[0], "self_contact": options.self_contact})

    def _body_options(self, body: dict[str, Any], kind: int) -> tuple[Any, Any]:
        """Without a pose; and memory that they point to."""
        ffi = self.native.ffi
        options, ignore = ffi.new("ct_body_options *"), ffi.new("uint32_t[]", list(body.get("ignore", ())))
        self.native.lib.ct_body_options_init(options)
        options.kind, options.group, options.mask = kind, body["group"], body["mask"]
        options.self_contact = body.get("self_contact", False)
        options.ignore, options.n_ignore = ignore, len(ignore)
        self._fill_material(options.material, body)
        return options, ignore

    def _AddBodies(self, body: dict[str, Any], _: Any) -> Answer:
        native, (ffi, lib) = self.native, (self.native.ffi, self.native.lib)
        out, error = ffi.new("uint32_t *"), ffi.new("ct_error *")
        options, ignore = self._body_options(body, RIGID)
        poses = np.array(body["poses"]).reshape(-1, 12)
        meshes = body["meshes"] * (len(poses) if len(body["meshes"]) == 1 else 1)
        added: list[int] = []
        with contextlib.ExitStack() as stack:
            handles = {number: stack.enter_context(self._mesh(number)) for number in set(meshes)}
            scene = stack.enter_context(self._held(body))
            place = np.frombuffer(ffi.buffer(ffi.addressof(options, "pose")))  # the options' own memory
            for pose, number in zip(poses, meshes):
                place[:] = pose
                status = lib.ct_scene_add_body(scene.handle, handles[number], options, out, error)
                if status:
                    for other in added:
                        lib.ct_scene_remove_body(scene.handle, other, ffi.NULL)
                        scene.meshes.pop(other)
                    native.check(status, error, f"scene {body['scene']}, body {len(added)} of {len(poses)}, from 0")
                added.append(out[0])
                scene.meshes[out[0]] = number
        return Answer("BodiesAdded", {"scene": body["scene"], "bodies": added})

    @staticmethod
    def _fill_material(material: Any, body: dict[str, Any]) -> None:
        for name in ("modulus", "friction", "dissipation", "static_friction"):
            setattr(material, name, body.get(name, math.nan))

    def _SetMaterial(self, body: dict[str, Any], _: Any) -> Answer:
        ffi, lib = self.native.ffi, self.native.lib
        material, error = ffi.new("ct_material *"), ffi.new("ct_error *")
        self._fill_material(material, body)
        with self._held(body) as scene:
            status = lib.ct_scene_set_material(scene.handle, body["body"], body["other"], material, error)
            self.native.check(status, error, f"scene {body['scene']}")
        return Answer("Done", {})

    def _RemoveBody(self, body: dict[str, Any], _: Any) -> Answer:
        error = self.native.ffi.new("ct_error *")
        with self._held(body) as scene:
            status = self.native.lib.ct_scene_remove_body(scene.handle, body["body"], error)
            self.native.check(status, error, f"body {body['body']}")
            scene.meshes.pop(body["body"], None)
        return Answer("Done", {})

    def _ReplaceMesh(self, body: dict[str, Any], _: Any) -> Answer:
        error = self.native.ffi.new("ct_error *")
        with self._mesh(body["mesh"]) as mesh, self._held(body) as scene:
            status = self.native.lib.ct_scene_replace_mesh(scene.handle, body["body"], mesh, error)
            self.native.check(status, error, f"body {body['body']}")
            scene.meshes[body["body"]] = body["mesh"]
        return Answer("Done", {})

    # ---- steps ----

    def _step(self, request: Request) -> Any:
        scene = self._scene_to_step(request)
        keep: list[Any] = []
        with scene.lock:
            self._check_there(scene, request.scene.id)
            step, is_limited = self._fill_step(request, scene, keep)
            if request.deadline > time.monotonic():
                self.native.interrupts.run(self._engine, step, 1)
            return self._step_done(request, scene, step, is_limited)

    def _scene_to_step(self, request: Request) -> _Scene:
        scene = self._scenes.get(request.scene.id)
        if scene is None or request.scene.closed:
            raise error_for(ErrorCode.STALE_HANDLE, "the scene was closed", object=request.scene.label)
        bodies = bodies_of(request.updates)
        if request.directions or request.velocities:
            bodies = [*bodies, *(part.body for part in request.directions + request.velocities)]
        for body in bodies:
            if body.removed:
                raise error_for(ErrorCode.STALE_HANDLE, "the body was removed", object=f"body {body.id}")
        return scene

    def _fill_step(self, request: Request, scene: _Scene, keep: list[Any]) -> tuple[Any, bool]:
        """The ct_step, and whether the scene's own limit of time ends it first. keep: what the step reads, until it has."""
        ffi = self.native.ffi
        step, cancel, updates = scene.step_for(ffi, len(request.updates))
        if isinstance(request.updates, PoseUpdates) and len(request.updates) >= _MANY_POSES:
            rows = self.native.writable(updates, len(request.updates), "ct_update")
            rows["body"], rows["kind"], rows["pose"] = [body.id for body in request.updates.bodies], POSE, request.updates.rows
        else:
            for row, update in zip(updates, request.updates):
                self._fill_update(row, update, keep)
        step.scene, step.cancel, step.want, step.result = scene.handle, cancel, request.want, ffi.NULL
        for name, parts in (("directions", request.directions), ("velocities", request.velocities)):
            if parts:
                rows = ffi.new("ct_direction[]" if name == "directions" else "ct_velocity[]", len(parts))
                for row, part in zip(rows, parts):
                    self._fill_motion(row, part, name == "directions", keep)
                keep.append(rows)
                setattr(step, name, rows)
                setattr(step, "n_" + name, len(parts))
                scene.kept = None  # the next step has none
        if request.limits:
            step.time_budget = 1e-6 * request.limits.get("time_budget_us", 0)
            step.tolerance, step.viscosity = (request.limits.get(name, 0.0) for name in ("tolerance", "viscosity"))
            scene.kept = None
        keep.append((step, cancel, updates))
        cancel.outer = self._outer()
        now = time.monotonic()
        is_limited = 0 < scene.limit < request.deadline - now
        cancel.until = now + scene.limit if is_limited else request.deadline
        return step, is_limited

    def _step_done(self, request: Request, scene: _Scene, step: Any, is_limited: bool) -> Any:
        """The answer to a step that was run, or its error. The caller holds the scene's lock."""
        native, state = self.native, request.scene
        if step.result == native.ffi.NULL:
            scene.kept = None
            raise self.step_error(step, state.label, scene.limit if is_limited else 0, request.deadline - request.began)
        result = native.ffi.gc(step.result, native.free_result)
        scene.steps += 1
        scene.contacts = result.n_contacts
        state.number += 1
        return request.done(StepAnswer(native, result, scene.shown, scene.revision))  # type: ignore[arg-type]

    def step_error(self, step: Any, label: str, limit: float, seconds: float) -> ContactdError:
        """Of a ct_step that has failed. limit: s, the scene's where it came first, else 0; seconds: what the caller allowed."""
        lib = self.native.lib
        if step.error.status != lib.CT_CANCELLED and step.error.status != lib.CT_OK:
            return self.native.error(step.error, label)
        where = self.native.text(step.error.message) or "it had not begun"
        if self._outer() == self._taken_back and lib.ct_cancel_reason(self._taken_back):
            return error_for(ErrorCode.CANCELLED, f"its caller took it back: {where}: nothing was changed", object=label)
        if limit:
            return error_for(ErrorCode.TIME_LIMIT, f"the step took longer than its limit of {limit:g} s (max_step_time): "
                             f"{where}", object=label, field="max_step_time")
        return error_for(ErrorCode.DEADLINE_EXCEEDED, f"no answer to Step within {seconds:.3g} s: "
                         f"{where}", object=label, field="timeout", retry=True)

    def _fill_update(self, row: Any, update: Any, keep: list[Any]) -> None:
        row.body, row.kind = update.body.id, update.kind
        if update.kind == POSE:
            row.pose = update.pose
            return
        self._fill_array(row, "positions", update.positions, keep)
        row.count = len(update.positions)
        if update.kind != POSITIONS:
            keep.append(indices := self.native.ffi.from_buffer(update.indices))
            row.indices, row.n_indices = indices, update.indices.size

    def _fill_motion(self, row: Any, part: Any, is_direction: bool, keep: list[Any]) -> None:
        row.body = part.body.id
        if is_direction:
            row.index = part.index
        if part.twist is not None:
            row.twist = part.twist
        if part.values is not None:
            self._fill_array(row, "values", part.values, keep)
            row.count = len(part.values)

    def _fill_array(self, row: Any, name: str, array: np.ndarray, keep: list[Any]) -> None:
        keep.append(data := self.native.ffi.from_buffer(array))
        setattr(row, name, data)
        row.dtype = _DTYPES[array.dtype.str]

    # ---- the rest ----

    def _GetSnapshot(self, body: dict[str, Any], _: Any) -> Answer:
        native, (ffi, lib) = self.native, (self.native.ffi, self.native.lib)
        options, taken, error = ffi.new("ct_snapshot_options *"), ffi.new("ct_snapshot **"), ffi.new("ct_error *")
        lib.ct_snapshot_options_init(options)
        for name, value in body.items():
            if name != "scene":
                setattr(options, name, value)
            if name in ("eye", "target"):
                setattr(options, "has_" + name, True)
        label = f"scene {body['scene']}"
        with self._held(body) as scene:
            native.check(lib.ct_snapshot_take(scene.handle, options, taken, error), error, label)
        try:
            pixels = ffi.new("uint8_t[]", 4 * options.width * options.height)
            png, size = ffi.new("uint8_t **"), ffi.new("size_t *")
            native.check(lib.ct_snapshot_draw(taken[0], pixels, error), error, label)
            native.check(lib.ct_snapshot_png(options.width, options.height, pixels, png, size, error), error, label)
        finally:
            lib.ct_snapshot_free(taken)
        try:
            return Answer("Snapshot", {}, png=np.frombuffer(ffi.buffer(png[0], size[0]), "u1").copy())
        finally:
            lib.free(png[0])

    def _Ping(self, *_: Any) -> Answer:
        return Answer("Pong", {})

    def _facts(self, device: int) -> Any:
        facts = self.native.ffi.new("ct_engine_facts *")
        self.native.lib.ct_engine_get_facts(self._engine, device, facts)
        return facts

    def _GetStatus(self, *_: Any) -> Answer:
        with self._lock:  # so that no scene is freed meanwhile
            self._check_open()
            return self._status()

    def _status(self) -> Answer:
        native, lib = self.native, self.native.lib
        devices = []
        for number in range(lib.ct_engine_device_count(self._engine)):
            f = self._facts(number)
            devices.append({name: getattr(f, name) for name in (
                "scenes", "triangles", "memory_budget", "memory_used", "memory_meshes", "memory_bodies", "scratch_bytes",
                "scratch_peak", "uploaded", "downloaded", "launches", "lost")} |
                {"device": native.text(f.device), "lost_reason": native.text(f.lost_reason)})
        f, scenes = self._facts(0), list(self._scenes.values())
        return Answer("Status", {name: self.welcome[name] for name in ("server", "backend", "rasterizer", "device", "methods",
                                                                        "max_resolution", "max_message_bytes", "epoch")} | {
            "simd": native.text(f.simd), "threads": f.threads, "ready": True, "ready_reason": "",
            "uptime_s": time.monotonic() - self._began, "sessions": 1, "scenes": len(scenes), "meshes": len(self._meshes),
            "bodies": sum(len(scene.meshes) for scene in scenes), "mesh_bytes": sum(m["bytes"] for m in self._mesh_facts.values()),
            "mesh_bytes_limit": 0, "scene_bytes": sum(lib.ct_scene_bytes(scene.handle) for scene in scenes),
            "scratch_bytes": sum(d["scratch_bytes"] for d in devices), "queue_depth": sum(s.waiting for s in scenes),
            "queue_capacity": 0, "steps": sum(s.steps for s in scenes), "contacts": sum(s.contacts for s in scenes),
            "devices": devices, "auto_method": native.text(lib.ct_method_name(lib.ct_engine_auto_method(self._engine))),
            "insecure": False})
