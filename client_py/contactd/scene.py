"""Scenes, their bodies, and steps.

A scene holds bodies; a step tells where they are now and answers which of them intersect. Handles stay valid when the
server restarts: what it lost is registered again, and the steps in flight are repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import operator
import time
from concurrent.futures import Future as _BaseFuture
from concurrent.futures import TimeoutError as _BaseTimeout
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _arrays, _link_scenes, _settings, _state
from ._frames import Frames
from ._reply import Reply, check_not_ending
from ._scene_settings import SceneSettings
from ._state import BodyState, Direction, PoseUpdates, Request, SceneState, Update, bodies_of, no_self_contact
from ._want import WANT, Want, want_bits
from ._wire import Decoded
from .body import Body
from .errors import ClosedError, ContactdError, ErrorCode, StaleHandleError, error_for
from .result import StepResult, method_name
from .shapes import ShapeAdder

if TYPE_CHECKING:
    from .client import Client, Mesh


Show = Literal["bodies", "samples", "axes", "contacts", "gradients", "rays", "rays_x", "rays_y", "rays_z", "nodes", "normals", "surface"]
Kind = Literal["rigid", "deformable"]
# What moves: a value for each body, or bodies and one array of all their values, or the array alone, of all bodies of the scene.
Velocities = Mapping[Body, ArrayLike] | tuple[Sequence[Body], ArrayLike]
Poses = Mapping[Body, ArrayLike] | tuple[Sequence[Body], ArrayLike] | ArrayLike
Positions = Mapping[Body, ArrayLike] | tuple[Sequence[Body], ArrayLike]
Directions = Mapping[Body, ArrayLike] | Sequence[Mapping[Body, ArrayLike]]


class Future(_BaseFuture[StepResult]):
    """A step on its way: a concurrent.futures.Future that can be awaited, too.

    It always ends, at the latest by the timeout it was submitted with. To cancel the task that awaits it cancels it.
    """

    _take_back: Callable[["Future"], None] | None = None  # once it was submitted

    def cancel(self) -> bool:
        """Takes it back. True: it had not been sent, or in this process had not begun. False: it was done, or the server or engine is
        asked to end it, which changes nothing in the scene: then it fails with a CancelledError, or has its result where that came first. On
        a server that is too old, a step that has begun goes on."""
        if super().cancel():
            return True
        if self._take_back is not None and not self.done():
            self._take_back(self)
        return False

    def __await__(self) -> Generator[Any, None, StepResult]:
        return asyncio.wrap_future(self).__await__()

    def result(self, timeout: float | None = None) -> StepResult:
        """Waits for the answer; raises the step's error, or DeadlineExceededError when `timeout` seconds pass first."""
        if not self.done():
            check_not_ending()
        try:
            return super().result(timeout)
        except _BaseTimeout as e:
            if self.done():
                raise
            raise error_for(ErrorCode.DEADLINE_EXCEEDED, f"no answer yet after {timeout} s; it may still come",
                            field="timeout", retry=True) from e


_TOGETHER = 256  # requests for bodies that are on the way at once
_MOST_TOGETHER = 65536  # bodies of one request


def _material(modulus: float | None, friction: float | None, dissipation: float | None,
              static_friction: float | None) -> dict[str, float]:
    given = {"modulus": modulus, "friction": friction, "dissipation": dissipation, "static_friction": static_friction}
    material = {name: _arrays.real(value, field=name) for name, value in given.items() if value is not None}
    for name, value in material.items():
        if value != value:  # the wire's word for what is not given
            raise error_for(ErrorCode.NON_FINITE, "expected a number, or None for not given, got nan", field=name)
    return material


class Scene(SceneSettings, ShapeAdder):
    """A scene on the server. Use it in a `with` block, or close it: it lives there until then, or until its client ends,
    also where no Scene refers to it any more."""

    __slots__ = ("client", "_state", "__weakref__")  # so that a misspelt name is an error

    def __init__(self, client: "Client", state: SceneState) -> None:
        self.client, self._state = client, state

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _settings.BY_NAME:
            raise AttributeError(f"a setting is changed by a call: scene.configure({name}=...)", name=name, obj=self)
        super().__setattr__(name, value)

    # ---- settings ----

    @property
    def id(self) -> int:
        """The server's number of it; differs after the server restarts."""
        return self._state.id

    @property
    def name(self) -> str:
        return self._state.name

    @property
    def running_method(self) -> str:
        """What steps run: `method`, or the one that the server has chosen for "auto"."""
        return method_name(self._state.running_method or self._state.settings["method"])

    @property
    def voxels(self) -> dict[str, Any]:
        """The settings of voxel trees together: voxel_level, level, pair_budget, max_points and so on."""
        return _settings.shown_voxels(self._state.settings)

    def _setting(self, name: str) -> Any:
        return _settings.shown(self._state.settings, name)

    def _configure(self, given: dict[str, Any], timeout: float | None) -> None:
        settings = _settings.message(given, self.client.server.get("methods"))

        def done(answer: Decoded) -> dict[str, Any]:
            info = self._refresh(answer)
            _settings.check_known(settings, answer.body["settings"])
            return info

        request = Request("Configure", lambda: ({"scene": self._state.id, "settings": settings}, None), done,
                          timeout=self.client._timeout(timeout))
        request.behind = self._state
        self._info(request)

    @property
    def continuous_frames(self) -> bool:
        """Whether the tangents of contacts follow those before, so that they do not jump; False by default.

        The tangents of a contact are then those of the contact with the same bodies and index in the step answered before,
        projected across the new normal and scaled; a contact that step did not have begins with those of its normal
        alone, as cells do. Setting it forgets them. They outlive a restart of the server.
        """
        return self._state.frames is not None

    @continuous_frames.setter
    def continuous_frames(self, on: bool) -> None:
        self._state.frames = Frames() if on else None
        _state.note_change()

    def info(self, timeout: float | None = None) -> dict[str, Any]:
        """What the server knows of the scene: bodies, bytes, steps, contacts of the last step, settings."""
        return self._info(Request("GetScene", lambda: ({"scene": self._state.id}, None), self._refresh,
                                  timeout=self.client._timeout(timeout)))

    def _info(self, request: Request) -> dict[str, Any]:
        self._check_open()
        info: dict[str, Any] = self._state.link.call(request)
        return info

    def _refresh(self, answer: Decoded) -> dict[str, Any]:
        settings = _settings.of_answer(answer.body["settings"])
        self._state.adopt(settings, answer.body["running_method"], answer.body["revision"])
        return _settings.public(answer.body)

    # ---- bodies ----

    @property
    def bodies(self) -> list[Body]:
        return [Body(self, state) for state in list(self._state.bodies)]

    def add_body(self, mesh: "Mesh", pose: ArrayLike | None = None, *, kind: Kind | None = None, group: int = 1,
                 mask: int = 0xFFFFFFFF, ignore: Iterable[Body] = (), self_contact: bool = False,
                 modulus: float | None = None, friction: float | None = None, dissipation: float | None = None,
                 static_friction: float | None = None, timeout: float | None = None) -> Body:
        """Adds a body.

        Args:
            mesh: from client.register_mesh; bodies share it.
            pose: (4, 4) or (3, 4) rigid pose, p_world = R p + t, or (7,), t and a quaternion x y z w. With a pose the body is rigid and moves by `poses`;
                without one it is deformable, starts at the mesh's own positions and moves by `positions`. Each axis of t
                may be 2**36 times the body's extent at most: beyond, move the scene's origin near the bodies.
            kind: "rigid" or "deformable", where that is not what `pose` says.
            group, mask: two bodies can touch if (a.group & b.mask) and (b.group & a.mask) are both non-zero.
            ignore: bodies that this one never touches.
            self_contact: also computes the contact of the body with itself, where its winding number is 2 or more (Faure
                2008), with the scene's method and resolution. "ldi" finds it, and "exact" without patches; UNSUPPORTED
                elsewhere. What is covered three times counts for each two layers by "exact", and once by "ldi".
            modulus: N/m^3, of the material, for scenes with law="pressure": pressure by depth of a foundation beneath the
                surface, in series with the other body's. None: the body is rigid; of two rigid bodies 1e7.
            friction: Coulomb's coefficient, of surfaces that slide. Of a pair sqrt(a b); None: the other's counts, of
                neither 0.
            dissipation: s/m: pressure grows by this times the approach speed (Hunt and Crossley 1975). None: the other's
                counts, of neither 0.
            static_friction: the coefficient of surfaces that stick, friction or more; combined like it. None: friction. It
                falls to friction around 20 times the scene's stiction_speed.
        """
        if kind not in (None, "rigid", "deformable"):
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected rigid or deformable, got {kind!r}", field="kind")
        rigid = kind == "rigid" or (kind is None and pose is not None)
        if pose is not None and not rigid:
            raise error_for(ErrorCode.INVALID_ARGUMENT, "a deformable body has no pose: give positions in the next step",
                            field="pose")
        self.client._own(mesh)
        registered = self.client._mesh_on(self._state.link, mesh, timeout)
        return self._add(BodyState(registered, _state.RIGID if rigid else _state.DEFORMABLE,
                                   None if pose is None else _arrays.pose(pose),
                                   _arrays.unsigned(group, field="group"), _arrays.unsigned(mask, field="mask"),
                                   self._ignored(ignore), self_contact=bool(self_contact),
                                   material=_material(modulus, friction, dissipation, static_friction),
                                   vertices=mesh.vertex_count - mesh.closing_vertices), timeout)

    def add_bodies(self, meshes: "Mesh | Sequence[Mesh]", poses: ArrayLike | None = None, *, group: int = 1, mask: int = 0xFFFFFFFF,
                   ignore: Iterable[Body] = (), self_contact: bool = False, modulus: float | None = None,
                   friction: float | None = None, dissipation: float | None = None, static_friction: float | None = None,
                   timeout: float | None = None) -> list[Body]:
        """Adds many bodies: all or none. Rigid ones go in one request, or in one for each 65,536 of them; deformable ones, and
        all to an older server, in a request each, which wait for each other's answers no more than they have to.

        Args:
            meshes: of each body, or one of all.
            poses: (n, 4, 4), (n, 3, 4) or (n, 7), as of step. Without them the bodies are deformable, one for each of `meshes`.
            group, mask, ignore, self_contact, modulus, friction, dissipation, static_friction: of each, as of add_body.
            timeout: seconds, of all of it.
        Returns: the bodies in the order of `meshes` and `poses`, in which they also stand in `bodies`, behind those before.
        """
        given = None if poses is None else _arrays.numbers(poses, "poses", "")
        each: list[Mesh] = list(meshes) if isinstance(meshes, Iterable) else [meshes] * (1 if given is None else _arrays.count_of_poses(given))
        rows: list[Any] = [None] * len(each) if given is None else _arrays.poses(given, len(each)).tolist()
        flags, others = (_arrays.unsigned(group, field="group"), _arrays.unsigned(mask, field="mask")), self._ignored(ignore)
        material = _material(modulus, friction, dissipation, static_friction)
        on_link: dict[Mesh, Any] = {}
        for mesh in each:
            if mesh not in on_link:
                self.client._own(mesh)
                on_link[mesh] = self.client._mesh_on(self._state.link, mesh, timeout)
        kind = _state.DEFORMABLE if poses is None else _state.RIGID
        states = [BodyState(on_link[mesh], kind, row and tuple(row), *flags, list(others), self_contact=bool(self_contact),
                            material=material, vertices=mesh.vertex_count - mesh.closing_vertices)
                  for mesh, row in zip(each, rows)]
        if poses is None or not _link_scenes.knows(self._state.link, "AddBodies"):
            return self._add_each(states, timeout)
        try:
            return self._add_all(states, rows, timeout)
        except StaleHandleError:  # a mesh, which a server has dropped to make room: by itself, each is brought back
            return self._add_each([state.anew(list(others)) for state in states], timeout)  # some were added, and removed again

    def _add_all(self, states: list[BodyState], poses: list[list[float]], timeout: float | None) -> list[Body]:
        deadline = time.monotonic() + self.client._timeout(timeout)
        self._state.link.check_thread()
        self._check_open()
        try:
            for at in range(0, len(states), _MOST_TOGETHER):
                part = slice(at, at + _MOST_TOGETHER)
                _link_scenes.add_bodies(self._state, states[part], poses[part], max(deadline - time.monotonic(), 0))
        except ContactdError:
            for state in states:
                if state.id:
                    self.remove_body(Body(self, state))
            raise
        return [Body(self, state) for state in states]

    def _add_each(self, states: list[BodyState], timeout: float | None) -> list[Body]:
        deadline = time.monotonic() + self.client._timeout(timeout)
        link, bodies, failed = self._state.link, [], None
        link.check_thread()
        for begin in range(0, len(states), _TOGETHER):
            self._check_open()
            requests = [self._adding(state, max(deadline - time.monotonic(), 0)) for state in states[begin:begin + _TOGETHER]]
            for request in requests:
                link.submit(request)
            for request in requests:
                try:
                    body = request.future.result()
                    if body is None:
                        raise no_self_contact(str(self))
                    bodies.append(body)
                except ContactdError as e:
                    failed = failed or e
            if failed is not None:
                break
        if failed is not None:
            for state in states:
                if state.id:
                    self.remove_body(Body(self, state))
            raise failed
        self._state.put_last(states)  # the answers to requests that had to be sent again came later
        return bodies

    def _add(self, state: BodyState, timeout: float | None) -> Body:
        self._check_open()
        body: Body | None = self._state.link.call(self._adding(state, self.client._timeout(timeout)))
        if body is None:
            self._state.link.call(Request("RemoveBody", lambda: ({"scene": self._state.id, "body": state.id}, None),
                                           timeout=self.client._timeout(timeout)))
            raise no_self_contact(str(self))
        return body

    def _adding(self, state: BodyState, timeout: float) -> Request:
        """Its future is the body, or None of a server too old for self_contact."""

        reply = Reply()

        def done(answer: Decoded) -> Body | None:
            if reply.done():
                return None  # given up: `undo` removes it
            state.id = answer.body["body"]
            if state.self_contact and not answer.body["self_contact"]:
                return None  # an older server added it without: it is taken out again
            self._state.add(state)
            return Body(self, state)

        def undo(answer: Decoded) -> Request:
            removed = {"scene": answer.body["scene"], "body": answer.body["body"]}
            return Request("RemoveBody", lambda: (removed, None), timeout=self.client.timeout)

        request = Request("AddBody", lambda: (state.message(self._state), None), done, undo=undo, timeout=timeout, future=reply)
        request.mesh, request.behind = state.mesh, self._state
        return request

    def add_half_space(self, normal: ArrayLike, offset: float = 0.0, *, group: int = 1, mask: int = 0xFFFFFFFF,
                       ignore: Iterable[Body] = (), self_contact: bool = False, modulus: float | None = None,
                       friction: float | None = None, dissipation: float | None = None,
                       static_friction: float | None = None, timeout: float | None = None) -> Body:
        """Adds a floor or wall without a mesh: all points p with n . p <= offset, n the normal scaled to length 1.

        Steps move it by `poses`, as a rigid body: plane_pose(normal, offset) makes one. It has no vertices, so its part of
        a contact's gradient is empty, but its generalized_gradient is complete. For "exact" only.

        Args:
            normal: (3,) out of the half-space, towards free space; of any length.
            offset: m, of the plane from the origin along the normal.
            group, mask, ignore: as of add_body.
            self_contact: False: a half-space has no contact with itself.
            modulus, friction, dissipation, static_friction: as of add_body.
        """
        if self_contact:
            raise error_for(ErrorCode.INVALID_ARGUMENT, "a half-space has no contact with itself: leave self_contact out",
                            field="self_contact")
        return self._add(BodyState(None, _state.HALF_SPACE, _arrays.pose(plane_pose(normal, offset)),
                                   _arrays.unsigned(group, field="group"), _arrays.unsigned(mask, field="mask"),
                                   self._ignored(ignore),
                                   material=_material(modulus, friction, dissipation, static_friction)), timeout)

    def remove_body(self, body: Body, timeout: float | None = None) -> None:
        """Takes a body out of the scene."""
        state = self._own(body, "body")
        self._check_open()
        request = Request("RemoveBody", lambda: ({"scene": self._state.id, "body": state.id}, None),
                          lambda _: self._state.remove(state), timeout=self.client._timeout(timeout))
        request.behind = self._state
        self._state.link.call(request)

    def replace_mesh(self, body: Body, mesh: "Mesh", timeout: float | None = None) -> None:
        """Gives a body another mesh, after cutting or remeshing; the next step sees it.

        It waits for the steps submitted before. The body stays the same key of dictionaries, and keeps its kind and
        filters, a rigid one its pose; a deformable one starts at the new mesh's positions. From now on `positions` and
        directions have the new mesh's vertices: arrays of the old size are a WrongLengthError. A step already submitted by
        another thread meets whichever mesh it comes to. After a timeout it is unknown whether it was done: calling it
        again is safe.
        """
        state = self._own(body, "body")
        self._check_open()
        self.client._own(mesh)
        if state.mesh is None:
            raise error_for(ErrorCode.INVALID_ARGUMENT, "a half-space has no mesh to replace", object=str(body),
                            field="body")
        new = self.client._mesh_on(self._state.link, mesh, timeout)
        vertices = mesh.vertex_count - mesh.closing_vertices

        def message() -> tuple[dict[str, Any], None]:
            if new.error is not None:
                raise new.error
            return {"scene": self._state.id, "body": state.id, "mesh": new.id}, None

        request = Request("ReplaceMesh", message, lambda _: state.replace_mesh(new, vertices),
                          timeout=self.client._timeout(timeout))
        request.after, request.mesh = self._state, new
        self._state.link.call(request)

    def set_material(self, body: Body, *, modulus: float | None = None, friction: float | None = None,
                     dissipation: float | None = None, static_friction: float | None = None,
                     timeout: float | None = None) -> None:
        """Changes what a body is made of, from the next step on: as of add_body; what is left out is not given any more."""
        state = self._own(body, "body")
        material = _material(modulus, friction, dissipation, static_friction)
        self._set_material(state, None, material, lambda: setattr(state, "material", material), timeout)

    def set_pair(self, a: Body, b: Body, *, modulus: float | None = None, friction: float | None = None,
                 dissipation: float | None = None, static_friction: float | None = None,
                 timeout: float | None = None) -> None:
        """Says what counts between two bodies, for scenes with law="pressure", in place of what their materials come to.

        What is left out still comes of the bodies' materials, but that friction without static_friction is both. Leaving out
        everything ends what was said before. Both may be the same body, for its contact with itself.

        Args:
            modulus: N/m^3, of the pair.
            friction, dissipation, static_friction: likewise the pair's.
        """
        first, second = self._own(a, "a"), self._own(b, "b")
        material = _material(modulus, friction, dissipation, static_friction)
        self._set_material(first, second, material, lambda: self._state.set_pair(first, second, material), timeout)

    def _set_material(self, body: BodyState, other: BodyState | None, material: dict[str, float],
                      done: Callable[[], None], timeout: float | None) -> None:
        self._check_open()
        request = Request("SetMaterial", lambda: (_state.material_message(self._state, body, other, material), None),
                          lambda _: done(), timeout=self.client._timeout(timeout))
        request.after = self._state
        self._state.link.call(request)

    # ---- steps ----

    def step(self, positions: Positions | None = None, poses: Poses | None = None, *,
             ranges: Mapping[Body, tuple[ArrayLike, ArrayLike]] | None = None,
             indexed: Mapping[Body, tuple[ArrayLike, ArrayLike]] | None = None,
             want: Want | Sequence[Want] | None = None, time_budget: float | None = None,
             tolerance: float | None = None, directions: Directions | None = None,
             velocities: Velocities | None = None, viscosity: float = 0.0,
             timeout: float | None = None) -> StepResult:
        """Moves bodies and computes their contacts. Bodies not named stay where they are.

        Args:
            positions: (n, 3) world positions of all vertices of a deformable body, m. float32 and float64 are
                sent as they are, without a copy; integers as float64.
                Of many bodies: (bodies, array) with the array (b, n, 3), or that of all their vertices one body after the
                other, (sum of n, 3).
            poses: (4, 4), (3, 4) or (7,) pose of a rigid body, as of add_body. Of many: (bodies, array) with (b, 4, 4), (b, 3, 4), or (b, 7),
                translations and quaternions x y z w; the array alone is of all bodies of the scene, in the order of `bodies`.
            ranges: (r, 2) integers (first vertex, number of vertices), and the positions of these vertices, one range
                after another, (k, 3).
            indexed: (k,) vertex indices, and their positions (k, 3).
            want: what to compute beside volumes: some of "frame" (area, normal, tangents, centre, generalised
                gradients; of the law "pressure" wrenches, too, for which "wrench" is another word), "gradient", "friction", "forces", "spans", "inertia", "ids", "points", "surface" (polygons
                between both bodies); "all" is everything but spans, inertia, surface, ids and points; "volume" nothing more. Frame, gradient and friction by default.
            time_budget: s, wall-clock time of the computation; for "voxtree".
            tolerance: m^3, error of each contact's volume to aim at; in place of the scene's. Only for "ebpi", and for "auto"
                without a resolution, which then runs it.
            directions: up to 12 directions in which bodies move, for Contact.hessian_product and generalized_product:
                for each a displacement (n, 3) of all vertices of a deformable body, m, and a twist (6,) of a rigid one:
                translation, m, and rotation about the body's origin, rad. What a direction does not name rests. One
                direction needs no list. For "exact".
            velocities: (n, 3) of all vertices of a deformable body, m/s, and a twist (6,) of a rigid one: the velocity of
                its origin, m/s, and its angular velocity, rad/s. Of many: (bodies, array) with the twists of rigid bodies, (b, 6).
                What is not named is at rest. Adds "frame" and "friction" to `want`, and Contact.relative_velocity and spin to its contacts.
            viscosity: N s/m^3: viscous friction per area and sliding velocity, Contact.friction_forces and friction.
            timeout: seconds for everything: queueing, computing, reconnecting. The client's where None.
        Raises: ContactdError; see contactd.errors. A step that failed has changed nothing, except one that timed out here.
            TimeLimitError: it took longer than max_step_time, or than the server allows. ServerEndedError: the server ended
            twice while it computed this step, which is not sent again. The scene is usable after both: its bodies are
            where the last step that was answered left them.
        """
        request = self._request(positions, poses, ranges, indexed, want, time_budget, tolerance, directions, velocities,
                                viscosity, timeout, None)

        def own() -> None:
            for part in request.parts():
                part.own()

        result: StepResult = self._state.link.call(request, own)
        return result

    def submit(self, positions: Positions | None = None, poses: Poses | None = None, *,
               ranges: Mapping[Body, tuple[ArrayLike, ArrayLike]] | None = None,
               indexed: Mapping[Body, tuple[ArrayLike, ArrayLike]] | None = None,
               want: Want | Sequence[Want] | None = None, time_budget: float | None = None,
               tolerance: float | None = None, directions: Directions | None = None,
               velocities: Velocities | None = None, viscosity: float = 0.0,
               timeout: float | None = None) -> Future:
        """Like step, but returns at once, with a Future. Steps of a scene are done, and answered, in order, and what changes the scene
        afterwards (bodies, materials, settings) waits for them.

        Arrays are copied, so they may be changed as soon as this returns. Callbacks added to the future run on the
        thread that serves the connection, its own or that of another call that waits: they must be short and must not
        wait for another answer.
        """
        request = self._request(positions, poses, ranges, indexed, want, time_budget, tolerance, directions, velocities,
                                viscosity, timeout, Future())
        for part in request.parts():
            part.own()
        link, future = self._state.link, request.future
        link.submit(request)
        assert isinstance(future, Future)
        if (take_back := getattr(link, "take_back", None)) is not None:
            future._take_back = functools.partial(take_back, deadline=request.deadline)  # without the request, which has the future
        return future

    async def step_async(self, positions: Positions | None = None, poses: Poses | None = None, *,
                         ranges: Mapping[Body, tuple[ArrayLike, ArrayLike]] | None = None,
                         indexed: Mapping[Body, tuple[ArrayLike, ArrayLike]] | None = None,
                         want: Want | Sequence[Want] | None = None, time_budget: float | None = None,
                         tolerance: float | None = None, directions: Directions | None = None,
                         velocities: Velocities | None = None, viscosity: float = 0.0,
                         timeout: float | None = None) -> StepResult:
        """As step, for asyncio: `await scene.submit(...)`. Other tasks run while it is computed."""
        return await self.submit(positions, poses, ranges=ranges, indexed=indexed, want=want, time_budget=time_budget,
                                 tolerance=tolerance, directions=directions, velocities=velocities, viscosity=viscosity,
                                 timeout=timeout)

    def _request_of(self, *, positions: Any = None, poses: Any = None, want: Any = None, directions: Any = None,
                    velocities: Any = None, timeout: float | None = None) -> Request:
        """Of a step that is carried out at once, so that arrays are not copied."""
        return self._request(positions, poses, None, None, want, None, None, directions, velocities, 0.0, timeout, None)

    def _request(self, positions: Any, poses: Any, ranges: Any, indexed: Any, want: Any, time_budget: float | None,
                 tolerance: float | None, directions: Directions | None, velocities: Velocities | None,
                 viscosity: float, timeout: Any, future: Future | None) -> Request:
        self._check_open()
        limits = limits_message(time_budget, tolerance)
        updates: list[Update] = []
        together: PoseUpdates | None = None  # in place of them
        if isinstance(positions, tuple):
            updates += self._positions_of_many(*_pair(positions, "positions"))
        else:
            for body, value in _items(positions, "positions"):
                state = self._own(body, "positions", _state.DEFORMABLE)
                updates.append(Update(state, _state.POSITIONS, _arrays.points(
                    value, field="positions", object=body, rows=state.vertices)))
        if poses is not None and not isinstance(poses, Mapping):
            bodies, value = _pair(poses, "poses") if isinstance(poses, tuple) else (self.bodies, poses)
            moved = PoseUpdates(self._own_all(bodies, "poses", _state.RIGID), _arrays.poses(value, len(bodies)))
            if not self._state.link.is_here or updates or ranges or indexed:
                updates += moved
            elif future is None:
                together = moved
            else:
                together = moved.copy()
        else:
            for body, value in _items(poses, "poses"):
                state = self._own(body, "poses", _state.RIGID)
                updates.append(Update(state, _state.POSE, pose=_arrays.pose(value, object=body)))
        for body, (at, value) in _items(ranges, "ranges"):
            state = self._own(body, "ranges", _state.DEFORMABLE)
            pairs = _arrays.indices(at, field="ranges", object=body, columns=2)
            wide = pairs.astype(np.int64)
            _check_range(int((wide.sum(1)).max(initial=0)), state, body, "ranges")
            updates.append(Update(state, _state.RANGES, _arrays.points(
                value, field="positions", object=body, rows=int(wide[:, 1].sum())), pairs))
        for body, (at, value) in _items(indexed, "indexed"):
            state = self._own(body, "indexed", _state.DEFORMABLE)
            at = _arrays.indices(at, field="indices", object=body)
            _check_range(int(at.max(initial=0)) + (at.size > 0), state, body, "indices")
            updates.append(Update(state, _state.INDEXED, _arrays.points(
                value, field="positions", object=body, rows=at.size), at))
        moving = bodies_of(together or updates)
        if len(set(moving)) < len(moving):
            seen: set[BodyState] = set()
            twice = next(body for body in moving if body in seen or seen.add(body))  # type: ignore[func-returns-value]
            raise error_for(ErrorCode.CONFLICT, "updated twice in one step", object=f"body {twice.id}", field="updates")

        def done(answer: Decoded) -> StepResult:  # without the request, which has it: each would keep the other
            result = StepResult(self, answer, self._state.by_id, wanted, self._state.number, time.monotonic() - began)
            if self._state.frames is not None:
                result._continue(self._state.frames)
            return result

        request = Request("Step", done=done, timeout=self.client._timeout(timeout), future=future)
        request.scene, request.updates, request.want = self._state, together or updates, want_bits(want)
        request.limits = limits
        if directions is not None:
            request.directions = self._directions(directions)
            request.want |= WANT["frame"]
        if velocities is not None:
            each = self._twists_of_many(*_pair(velocities, "velocities")) if isinstance(velocities, tuple) else \
                _items(velocities, "velocities")
            request.velocities = [self._motion(body, value, 0, "velocities") for body, value in each]
            request.want |= WANT["frame"] | WANT["friction"] if request.velocities else 0
        if viscosity:
            request.limits["viscosity"] = _not_negative(viscosity, "viscosity")
        wanted, began = request.want, request.began
        return request

    def _positions_of_many(self, bodies: Sequence[Body], value: ArrayLike) -> list[Update]:
        states = [self._own(body, "positions", _state.DEFORMABLE) for body in bodies]
        array = _arrays.numbers(value, "positions", "")
        total = sum(state.vertices for state in states)
        if array.size == len(states) == 0:
            return []
        if array.ndim == 3 and any(state.vertices != array.shape[1] for state in states) or array.ndim not in (2, 3):
            odd = next((body for body in bodies if array.ndim == 3 and body.vertices != array.shape[1]), "")
            raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape (bodies, vertices, 3), or (all vertices, 3) with {total} of "
                            f"{len(states)} bodies, got {array.shape}", object=str(odd), field="positions")
        rows = _arrays.points(array.reshape(-1, array.shape[-1]), field="positions", rows=total)
        ends = np.cumsum([state.vertices for state in states]).tolist()
        return [Update(state, _state.POSITIONS, rows[end - state.vertices:end]) for state, end in zip(states, ends)]

    @staticmethod
    def _twists_of_many(bodies: Sequence[Body], value: ArrayLike) -> Iterable[tuple[Body, np.ndarray]]:
        array = _arrays.numbers(value, "velocities", "")
        if array.size == len(bodies) == 0:
            return ()
        if array.shape != (len(bodies), 6):
            raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape ({len(bodies)}, 6), a twist of each body, got {array.shape}",
                            field="velocities")
        return zip(bodies, array)

    def _directions(self, directions: Directions) -> list[Direction]:
        """The parts of all directions."""
        parts = []
        if not np.iterable(directions):
            _items(directions, "directions")
        for index, direction in enumerate([directions] if isinstance(directions, Mapping) else directions):
            parts += [self._motion(body, value, index, "directions") for body, value in _items(direction, "directions")]
        return parts

    def _motion(self, body: Body, value: ArrayLike, index: int, field: str) -> Direction:
        state = self._own(body, field)
        if state.kind != _state.DEFORMABLE:
            return Direction(state, index, twist=tuple(_arrays.vector(
                value, (6,), field=field, object=body, expected=f"a twist of 6 numbers, as the body is {body.kind}")))
        what = "velocities" if field == "velocities" else "displacements"
        array = _arrays.numbers(value, field, body)
        if array.shape == (6,):
            raise error_for(ErrorCode.WRONG_LENGTH, f"expected {what} of shape ({state.vertices}, 3), one for each vertex "
                            "of a deformable body, got a twist", object=str(body), field=field)
        return Direction(state, index, values=_arrays.points(array.astype("<f8", copy=False), field=field, object=body,
                                                             rows=state.vertices, what=what))

    # ---- pictures ----

    def snapshot(self, *, contact: Sequence[Body] | None = None, width: int | None = None, height: int | None = None,
                 show: Show | Sequence[Show] | None = None, resolution: int | None = None, azimuth: float | None = None,
                 elevation: float | None = None, up: ArrayLike | None = None, eye: ArrayLike | None = None,
                 target: ArrayLike | None = None, zoom: float | None = None, field_of_view: float | None = None,
                 opacity: float | None = None, background: ArrayLike | None = None,
                 timeout: float | None = None) -> bytes:
        """A picture of the scene as its last step left it: the bytes of a PNG file. The scene is not changed.

        Bodies are drawn as tinted glass, and in them the ends of the intersection's rays: red, green and blue for rays
        along x, y and z. What is None has the server's default.

        Args:
            contact: two bodies; only they and their contacts with each other are shown, where they touch.
            width, height: pixels, 16 to 4096; 960 x 720.
            show: some of "bodies", "samples" and "axes", which are the default, and of what the scene's method finds:
                "contacts" and "gradients" (all methods but voxtree), "surface", "rays", "nodes" and "normals". "contacts" draws each contact, or patch, in a
                colour of its own, as a film over the surfaces that bound it, with an arrow along its normal;
                "gradients" draws dV/dx of each vertex as an arrow, the largest 0.12 of the picture's shorter side;
                "surface" (exact) the contact surface, from pale blue over yellow to dark red the larger its pressure is, or its
                depth without the law "pressure";
                "rays" (ebpi) the tiles of its three views behind the contact, from pale blue over yellow to dark red the
                denser their rays are, "rays_x", "rays_y" and "rays_z" those of one view; "nodes" (voxtree) the cubes of
                the level that steps come to, in the same colours the fuller they are, and "normals" (voxtree) those of
                all pairs of cubes that meet as red lines, and the reduced ones as green arrows.
            resolution: ray samples across the window, to see another than the scene's.
            azimuth: degrees about `up`, from where the camera looks; -60.
            elevation: degrees above the plane across `up`; 20.
            up: (3,) direction; z.
            eye: (3,) m, where the camera is, instead of azimuth, elevation and zoom.
            target: (3,) m, where it looks; the middle of what is shown.
            zoom: 1 shows all that is there.
            field_of_view: degrees from the lower to the upper edge; 30.
            opacity: of bodies seen face on; 0.3.
            background: (3,) or (4,) red, green, blue and alpha in 0..1; white.
        Raises: UnsupportedError where the server has no OpenGL; NotFoundError, OutOfRangeError, InvalidArgumentError.
        """
        self._check_open()
        if contact is not None and not isinstance(contact, Iterable):
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected two bodies, got {contact!r}", field="contact")
        bodies = None if contact is None else [self._own(body, "contact") for body in contact]
        given = {"width": width, "height": height, "resolution": resolution}
        fields: dict[str, Any] = {name: _arrays.unsigned(value, field=name) for name, value in given.items()
                                  if value is not None}
        fields |= {name: _arrays.real(value, field=name) for name, value in (
            ("azimuth", azimuth), ("elevation", elevation), ("zoom", zoom), ("field_of_view", field_of_view),
            ("opacity", opacity)) if value is not None}
        fields |= {name: _arrays.vector(value, (3,), field=name) for name, value in (
            ("up", up), ("eye", eye), ("target", target)) if value is not None}
        if background is not None:
            fields["background"] = (_arrays.vector(background, (3, 4), field="background") + [1.0])[:4]
        if show is not None:
            fields["show"] = _show_bits(show)

        def message() -> tuple[dict[str, Any], None]:
            pair = {} if bodies is None else {"contact": [body.id for body in bodies]}
            return {"scene": self._state.id} | fields | pair, None

        png: np.ndarray = self._state.link.call(Request("GetSnapshot", message, lambda answer: answer.array("png"),
                                                        timeout=self.client._timeout(timeout)))
        return png.tobytes()

    def _repr_png_(self) -> bytes | None:
        """For notebooks: the scene as its last step left it; None where no picture can be had."""
        try:
            return self.snapshot(width=640, height=480)
        except ContactdError:
            return None

    # ---- the end ----

    def reset(self, timeout: float | None = None) -> None:
        """Takes all bodies back to where they were when they were added: Client.reset, which resets many scenes at once."""
        self.client.reset([self], timeout)

    def close(self, timeout: float | None = None) -> None:
        """Closes the scene on the server, which frees its memory. Closing twice is allowed, and so is closing in a forked process, which does nothing."""
        if self._state.closed or self.client.closed:
            return
        self._state.close()

        def done(_: Decoded) -> None:
            if self._state in self._state.link.scenes:
                self._state.link.scenes.remove(self._state)
            self.client._forget_scene(self._state)

        with contextlib.suppress(ClosedError):
            self._state.link.call(Request("CloseScene", lambda: ({"scene": self._state.id}, None), done, timeout=self.client._timeout(timeout)))

    def __enter__(self) -> "Scene":
        return self

    async def __aenter__(self) -> "Scene":
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._state.closed:
            raise error_for(ErrorCode.STALE_HANDLE, "the scene was closed", object=str(self))

    def _own(self, body: Body, field: str, kind: int = 0) -> BodyState:
        """The state of one of this scene's bodies, of the kind that `field` is for."""
        if not isinstance(body, Body):
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected a Body, got {body!r}", object=str(self), field=field)
        if body.scene._state is not self._state:
            raise error_for(ErrorCode.NOT_FOUND, f"{body} is one of {body.scene}", object=str(self), field=field)
        if body._state.removed:
            raise error_for(ErrorCode.STALE_HANDLE, "the body was removed", object=str(body), field=field)
        if kind and (kind == _state.DEFORMABLE) != (body._state.kind == _state.DEFORMABLE):
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"the body is {body.kind}: it takes "
                            + ("poses" if kind != _state.RIGID else "positions, ranges or indexed"), object=str(body),
                            field=field)
        return body._state

    def _ignored(self, ignore: Iterable[Body]) -> list[BodyState]:
        if not isinstance(ignore, Iterable):
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected a list of bodies, got {ignore!r}", object=str(self), field="ignore")
        return [self._own(body, "ignore") for body in ignore]

    def _own_all(self, bodies: Sequence[Body], field: str, kind: int) -> list[BodyState]:
        """_own of each, in a fraction of the time."""
        mine, is_soft = self._state, kind == _state.DEFORMABLE
        states = [state for body in bodies if isinstance(body, Body) and body.scene._state is mine
                  and not (state := body._state).removed and (state.kind == _state.DEFORMABLE) == is_soft]
        return states if len(states) == len(bodies) else [self._own(body, field, kind) for body in bodies]

    def _body(self, state: BodyState) -> Body:
        return Body(self, state)

    def __str__(self) -> str:
        return self._state.label

    def __repr__(self) -> str:
        return f"<Scene {self._state.id} {self._state.name!r}, {len(self._state.bodies)} bodies>"


def plane_pose(normal: ArrayLike, offset: float = 0.0) -> NDArray[np.float64]:
    """(4, 4) pose of the half-space of all points p with n . p <= offset, n the normal scaled to length 1: its z axis is n,
    its origin n * offset."""
    given = np.asarray(_arrays.vector(normal, (3,), field="normal"))
    if not np.isfinite(given).all():
        raise error_for(ErrorCode.NON_FINITE, f"expected finite numbers, got {normal!r}", field="normal")
    if not 1e-150 <= np.abs(given).max() <= 1e150:
        raise error_for(ErrorCode.OUT_OF_RANGE, f"expected a length from 1e-150 to 1e150, got {normal!r}", field="normal")
    n = given / math.sqrt(float(given @ given))
    least = int(np.argmin(np.abs(n)))
    i, j = (least + 1) % 3, (least + 2) % 3
    across = math.sqrt(n[i] ** 2 + n[j] ** 2)
    pose = np.eye(4)
    pose[[least, i, j], 0] = 0.0, n[j] / across, -n[i] / across
    pose[:3, 1] = np.cross(n, pose[:3, 0])
    pose[:3, 2] = n
    along = _arrays.real(offset, field="offset")
    if not math.isfinite(along):
        raise error_for(ErrorCode.NON_FINITE, f"expected a finite number, got {along:g}", field="offset")
    pose[:3, 3] = n * along
    return pose


def limits_message(time_budget: float | None, tolerance: float | None) -> dict[str, Any]:
    """The wire's limits of a step, with only what is given; 0 on the wire says that there is none."""
    out: dict[str, Any] = {}
    if time_budget is not None:
        microseconds = _positive(time_budget, "time_budget") * 1e6
        if microseconds >= 2**32:
            raise error_for(ErrorCode.OUT_OF_RANGE, f"expected less than 4294 s, got {time_budget:g}", field="time_budget")
        out["time_budget_us"] = max(1, int(microseconds))
    if tolerance is not None:
        out["tolerance"] = _settings.message({"tolerance": tolerance})["tolerance"]
        if out["tolerance"] == 0:
            expected = _settings.BY_NAME["tolerance"].expected.removesuffix(", or 0 for none")
            raise error_for(ErrorCode.OUT_OF_RANGE, f"expected {expected}, got 0: leave it out for the scene's own", field="tolerance")
    return out


def _not_negative(value: Any, field: str) -> float:
    number = _arrays.real(value, field=field)
    if number < 0:
        raise error_for(ErrorCode.OUT_OF_RANGE, f"expected 0 or more, got {number:g}", field=field)
    return number


def _positive(value: Any, field: str) -> float:
    number = _arrays.real(value, field=field)
    if not number > 0:
        raise error_for(ErrorCode.OUT_OF_RANGE, f"expected more than 0, got {number:g}", field=field)
    return number


def _check_range(end: int, state: BodyState, body: Body, field: str) -> None:
    if end > state.vertices:
        raise error_for(ErrorCode.OUT_OF_RANGE, f"expected vertices 0 to {state.vertices - 1}, got {end - 1}",
                        object=str(body), field=field)


def _pair(given: tuple[Any, ...], field: str) -> tuple[Sequence[Any], Any]:
    """Bodies and the array of all their values."""
    if len(given) != 2 or not isinstance(given[0], Sequence):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected (bodies, array), got a tuple of {len(given)}", field=field)
    return given[0], given[1]


def _items(given: Any, field: str) -> Iterable[tuple[Any, Any]]:
    """What a step's argument names for each body."""
    if given is None:
        return ()
    if not hasattr(given, "items"):
        raise error_for(ErrorCode.INVALID_ARGUMENT,
                        f"expected a dictionary with bodies as keys{', or (bodies, array)' if field in ('positions', 'poses', 'velocities') else ''}, "
                        f"got {type(given).__name__}", field=field)
    items: Iterable[tuple[Any, Any]] = given.items()
    return items


def _show_bits(show: str | Sequence[str]) -> int:
    names = ("bodies", "samples", "axes", "contacts", "gradients", "rays_x", "rays_y", "rays_z", "nodes",
             "normals", "surface")  # bit by bit
    bits = {name: 1 << bit for bit, name in enumerate(names)} | {"rays": 0b111 << 5}
    words = [show] if isinstance(show, str) else list(show)
    if not words or any(word not in bits for word in words):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected some of {', '.join(bits)}, got {show!r}", field="show")
    return functools.reduce(operator.or_, (bits[word] for word in words))
