"""Scenes, their bodies, and steps.

A scene holds bodies; a step tells where they are now and answers which of them intersect. Handles stay valid when the
server restarts: what it lost is registered again, and the steps in flight are repeated.
"""

from __future__ import annotations

import functools
import math
import operator
import time
from concurrent.futures import Future as _BaseFuture
from concurrent.futures import TimeoutError as _BaseTimeout
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _arrays, _state
from ._frames import Frames
from ._request import Request
from ._schema import ENUMS
from ._state import ALLOCATIONS, BodyState, Direction, SceneState, Update, no_self_contact, settings_of, shown_voxels
from ._wire import Decoded
from .errors import ErrorCode, error_for
from .result import WANT, StepResult, method_name, want_bits

if TYPE_CHECKING:
    from .client import Client, Mesh


Directions = Mapping["Body", ArrayLike] | Sequence[Mapping["Body", ArrayLike]]


class Future(_BaseFuture):
    """A step on its way; a concurrent.futures.Future, so `await asyncio.wrap_future(future)` works too.

    It always ends, at the latest by the timeout it was submitted with.
    """

    def result(self, timeout: float | None = None) -> StepResult:
        """Waits for the answer; raises the step's error, or DeadlineExceededError when `timeout` seconds pass first."""
        try:
            return super().result(timeout)
        except _BaseTimeout as e:
            if self.done():
                raise
            raise error_for(ErrorCode.DEADLINE_EXCEEDED, f"no answer yet after {timeout} s; it may still come",
                            field="timeout", retry=True) from e


class Body:
    """A body of a scene. Equal and of equal hash whenever it is the same body, so it can be the key of a dictionary."""

    __slots__ = ("scene", "_state")

    def __init__(self, scene: "Scene", state: BodyState) -> None:
        self.scene, self._state = scene, state

    @property
    def id(self) -> int:
        """The server's number of it; differs after the server restarts."""
        return self._state.id

    @property
    def kind(self) -> str:
        """"rigid", "deformable" or "half-space"."""
        return {_state.RIGID: "rigid", _state.HALF_SPACE: "half-space"}.get(self._state.kind, "deformable")

    @property
    def vertices(self) -> int:
        """Number of vertices of its mesh, as registered: without Mesh.closing_vertices."""
        return self._state.vertices

    def remove(self, timeout: float | None = None) -> None:
        """Takes it out of the scene."""
        self.scene.remove_body(self, timeout)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and other._state is self._state

    def __hash__(self) -> int:
        return id(self._state)

    def __str__(self) -> str:
        return f"body {self._state.id}"

    def __repr__(self) -> str:
        return f"<Body {self._state.id} of {self.scene}, {self.kind}, {self.vertices} vertices>"


class Scene:
    """A scene on the server. Use it in a `with` block, or close it."""

    def __init__(self, client: "Client", state: SceneState) -> None:
        self.client, self._state = client, state

    # ---- settings ----

    @property
    def id(self) -> int:
        """The server's number of it; differs after the server restarts."""
        return self._state.id

    @property
    def name(self) -> str:
        return self._state.name

    @property
    def method(self) -> str:
        """The method that was asked for; "auto" where none was."""
        return method_name(self._state.settings["method"])

    @property
    def running_method(self) -> str:
        """What steps run: `method`, or the one that the server has chosen for "auto"."""
        return method_name(self._state.running_method or self._state.settings["method"])

    @property
    def resolution(self) -> tuple[int, int, int] | None:
        """Ray samples across the window of a pair along x, y and z; unused while pixel_size > 0. None where none is named:
        "exact" needs none, and if "auto" runs "ldi" it is 64."""
        resolution = self._state.settings["resolution"]
        return None if resolution is None else tuple(resolution)  # type: ignore[return-value]

    @property
    def pixel_size(self) -> float:
        """Pitch of the world-anchored lattice, m; 0: resolution rules."""
        return self._state.settings["pixel_size"]

    @property
    def stiffness(self) -> float:
        """k of E = k V^2 / 2, N/m^5."""
        return self._state.settings["stiffness"]

    @property
    def patches(self) -> bool:
        """Whether each connected piece of a pair's intersection is a contact of its own."""
        return self._state.settings["patches"]

    @property
    def tolerance(self) -> float:
        """Of "ebpi": bound of the error of each contact's volume to reach, m^3; 0: none."""
        return self._state.settings["tolerance"]

    @property
    def tolerance_rel(self) -> float:
        """Of "ebpi": the same as a fraction of the volume; 0: none. Of both the larger counts."""
        return self._state.settings["tolerance_rel"]

    @property
    def strict(self) -> bool:
        """Of "ebpi": whether the bound is proven, or else the published one."""
        return self._state.settings["strict"]

    @property
    def optimize_directions(self) -> bool:
        """Whether views of "ebpi" lie along axes that few faces are parallel to."""
        return self._state.settings["optimize_directions"]

    @property
    def allocation(self) -> str:
        """Of "ebpi": which parts of the views get more rays: "optimal", "published" or "per_pixel" (see configure)."""
        return ALLOCATIONS[self._state.settings["allocation"]]

    @property
    def ray_budget(self) -> int:
        """Of "ebpi": rays that a pair may cast; 0: 1048576."""
        return self._state.settings["ray_budget"]

    @property
    def cell_size(self) -> float:
        """Size of the cubes that divide contacts into `contact.cells`, m; 0: they are not divided."""
        return self._state.settings["cell_size"]

    @property
    def margin(self) -> float:
        """Pairs of bodies without a contact that are closer are listed in `result.separations`, m; 0: none."""
        return self._state.settings["margin"]

    @property
    def max_step_time(self) -> float:
        """A step that takes longer fails with TIME_LIMIT, s; 0: the server's limit holds."""
        return self._state.settings["max_step_time"]

    @property
    def voxels(self) -> dict[str, Any]:
        """The settings of "voxtree": voxel_level, level, pair_budget, max_points, center_normals, plain_average and refine,
        as of configure; 0 and False are the defaults. max_points is one of every method."""
        return shown_voxels(self._state.settings["voxels"])

    def configure(self, *, method: str | None = None, resolution: int | Sequence[int] | None = None,
                  pixel_size: float | None = None, stiffness: float | None = None, patches: bool | None = None,
                  tolerance: float | None = None, tolerance_rel: float | None = None, strict: bool | None = None,
                  ray_budget: int | None = None, cell_size: float | None = None, margin: float | None = None,
                  optimize_directions: bool | None = None, allocation: str | None = None,
                  max_step_time: float | None = None,
                  voxel_level: int | None = None, level: int | None = None,
                  pair_budget: int | None = None, max_points: int | None = None, center_normals: bool | None = None,
                  plain_average: bool | None = None, refine: bool | None = None, timeout: float | None = None) -> None:
        """Changes settings from the next step on; what is left out keeps its value.

        Args:
            method: one of client.server["methods"], or "auto": client.status()["auto_method"], but "ldi" together with a
                resolution or pixel_size. "exact" takes neither. "auto" and "exact" drop those of before.
            resolution: ray samples across the window, one number or three (x, y, z). Without a method: makes it "ldi".
            pixel_size: m; > 0: a lattice of this pitch, anchored in the world; 0: back to resolution. As above.
            stiffness: N/m^5; scales forces.
            patches: each connected piece of a pair's intersection is a contact of its own (`contact.index`), the largest
                first; they add up to the pair's. For "exact", which "auto" then runs; other methods refuse it.
            tolerance: m^3, the bound of the error of each contact's volume that "ebpi" is to reach; 0: none. Without a
                method and a resolution: makes it "ebpi". Other methods drop what was named before of this and the
                following, and refuse them.
            tolerance_rel: the same as a fraction of the volume, 1e-6 to 1. Of both the larger counts. As above.
            strict: whether the bound is proven, or else the published one.
            ray_budget: rays that a pair may cast; 0: 1048576.
            optimize_directions: for "ebpi": each pair's views lie along axes that few of its faces are parallel to (Wang 2012,
                section 4.4), found in each step anew, so that answers do not depend on earlier steps. Answers are in world
                axes all the same, but `volumes` and `error_bounds` are of those views.
                False: along the world's axes.
            allocation: for "ebpi": which parts of the views get more rays. "optimal": the fewest rays for a sum of bounds within
                the tolerance. "published": each pixel of a view has an equal part of the tolerance (Wang 2012, section
                4.3). "per_pixel": the same without gathering pixels that need no rays of their own.
            cell_size: m; > 0: each contact is also given cube by cube (`contact.cells`), by a grid of cubes of this size
                that is fixed in the world (Allard 2010, section 5); 0: not. For "ldi", which "auto" then runs; other
                methods drop what was named before, and refuse it.
            margin: m; > 0: pairs of bodies that have no contact and are closer than this are listed with their distance
                (`result.separations`); 0: none. For every method.
            max_step_time: s, more than 0; a step that takes longer is ended and raises TimeLimitError, with the scene as it
                was before. Above the server's limit it is lowered to that, as `scene.max_step_time` then tells. For every
                method.
            voxel_level: finest level of the meshes' voxel trees, 3 to 8, for "voxtree": cubes of 2**-level of a mesh's
                longest extent; 0: about as large as its triangles. Without a method and a sampling, this and the following
                make the method "voxtree"; other methods drop those of before, and refuse them.
            level: no tree is followed below it; 0: to its finest.
            pair_budget: cubes that a step may compare with the other body's, shared by its pairs of bodies, the deepest
                overlaps first; 0: no limit.
            max_points: of every method: points of each contact (`contact.points`), up to 4096; 0: none; "voxtree": 8.
            center_normals: points' normals lie along the line of the cubes' centres instead of following from occupancies.
            plain_average: points are plain means instead of weighted with probabilities.
            refine: after the trees, pairs in contact are computed by "exact", the largest volumes first: all of them, or
                in a step with a time budget those that are expected to fit the time left; see PairProgress.refined.
        """
        settings = settings_message(method, resolution, pixel_size, stiffness, patches, tolerance, tolerance_rel, strict,
                                    ray_budget, cell_size, margin, optimize_directions, allocation,
                                    self.client.server.get("methods"), max_step_time) | voxels_message(
            voxel_level, level, pair_budget, max_points, center_normals, plain_average, refine)
        self._info(Request("Configure", lambda: ({"scene": self._state.id, "settings": settings}, None), self._refresh,
                           timeout=self.client._timeout(timeout)))

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

    def info(self, timeout: float | None = None) -> dict[str, Any]:
        """What the server knows of the scene: bodies, bytes, steps, contacts of the last step, settings."""
        return self._info(Request("GetScene", lambda: ({"scene": self._state.id}, None), self._refresh,
                                  timeout=self.client._timeout(timeout)))

    def _info(self, request: Request) -> dict[str, Any]:
        self._check_open()
        return self._state.link.call(request)

    def _refresh(self, answer: Decoded) -> dict[str, Any]:
        settings = settings_of(answer.body["settings"])
        self._state.adopt(settings, answer.body["running_method"], answer.body["revision"])
        return answer.body | {"settings": settings}

    # ---- bodies ----

    @property
    def bodies(self) -> list[Body]:
        return [Body(self, state) for state in list(self._state.bodies)]

    def add_body(self, mesh: "Mesh", pose: ArrayLike | None = None, *, kind: str | None = None, group: int = 1,
                 mask: int = 0xFFFFFFFF, ignore: Iterable[Body] = (), self_contact: bool = False,
                 timeout: float | None = None) -> Body:
        """Adds a body.

        Args:
            mesh: from client.register_mesh; bodies share it.
            pose: (4, 4) or (3, 4) rigid pose, p_world = R p + t. With a pose the body is rigid and moves by `poses`;
                without one it is deformable, starts at the mesh's own positions and moves by `positions`. Each axis of t
                may be 2**36 times the body's extent at most: beyond, move the scene's origin near the bodies.
            kind: "rigid" or "deformable", where that is not what `pose` says.
            group, mask: two bodies can touch if (a.group & b.mask) and (b.group & a.mask) are both non-zero.
            ignore: bodies that this one never touches.
            self_contact: also computes the contact of the body with itself, where its winding number is 2 or more (Faure
                2008), with the scene's method and resolution. "ldi" finds it, and "exact" without patches; UNSUPPORTED
                elsewhere. What is covered three times counts for each two layers by "exact", and once by "ldi".
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
                                   [self._own(b, "ignore") for b in ignore], self_contact=bool(self_contact),
                                   vertices=mesh.vertex_count - mesh.closing_vertices), timeout)

    def _add(self, state: BodyState, timeout: float | None) -> Body:
        self._check_open()

        def done(answer: Decoded) -> Body:
            if request.future.done():
                return None  # given up: `undo` removes it
            state.id = answer.body["body"]
            if state.self_contact and not answer.body["self_contact"]:
                return None  # an older server added it without: it is taken out again
            self._state.add(state)
            return Body(self, state)

        def undo(answer: Decoded) -> Request:
            removed = {"scene": answer.body["scene"], "body": answer.body["body"]}
            return Request("RemoveBody", lambda: (removed, None), timeout=self.client.timeout)

        request = Request("AddBody", lambda: (state.message(self._state), None), done, undo=undo,
                          timeout=self.client._timeout(timeout))
        request.mesh = state.mesh
        body = self._state.link.call(request)
        if body is None:
            self._state.link.call(Request("RemoveBody", lambda: ({"scene": self._state.id, "body": state.id}, None),
                                           timeout=self.client._timeout(timeout)))
            raise no_self_contact(str(self))
        return body

    def add_half_space(self, normal: ArrayLike, offset: float = 0.0, *, group: int = 1, mask: int = 0xFFFFFFFF,
                       ignore: Iterable[Body] = (), self_contact: bool = False, timeout: float | None = None) -> Body:
        """Adds a floor or wall without a mesh: all points p with n . p <= offset, n the normal scaled to length 1.

        Steps move it by `poses`, as a rigid body: plane_pose(normal, offset) makes one. It has no vertices, so its part of
        a contact's gradient is empty, but its generalized_gradient is complete. For "exact" only.

        Args:
            normal: (3,) out of the half-space, towards free space; of any length.
            offset: m, of the plane from the origin along the normal.
            group, mask, ignore: as of add_body.
            self_contact: False: a half-space has no contact with itself.
        """
        if self_contact:
            raise error_for(ErrorCode.INVALID_ARGUMENT, "a half-space has no contact with itself: leave self_contact out",
                            field="self_contact")
        return self._add(BodyState(None, _state.HALF_SPACE, _arrays.pose(plane_pose(normal, offset)),
                                   _arrays.unsigned(group, field="group"), _arrays.unsigned(mask, field="mask"),
                                   [self._own(b, "ignore") for b in ignore]), timeout)

    def remove_body(self, body: Body, timeout: float | None = None) -> None:
        """Takes a body out of the scene."""
        state = self._own(body, "body")
        self._check_open()
        self._state.link.call(Request(
            "RemoveBody", lambda: ({"scene": self._state.id, "body": state.id}, None),
            lambda _: self._state.remove(state), timeout=self.client._timeout(timeout)))

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

    # ---- steps ----

    def step(self, positions: Mapping[Body, ArrayLike] | None = None, poses: Mapping[Body, ArrayLike] | None = None, *,
             ranges: Mapping[Body, tuple[ArrayLike, ArrayLike]] | None = None,
             indexed: Mapping[Body, tuple[ArrayLike, ArrayLike]] | None = None,
             want: str | Sequence[str] | None = None, time_budget: float | None = None,
             tolerance: float | None = None, directions: Directions | None = None,
             velocities: Mapping[Body, ArrayLike] | None = None, viscosity: float = 0.0,
             timeout: float | None = None) -> StepResult:
        """Moves bodies and computes their contacts. Bodies not named stay where they are.

        Args:
            positions: (n, 3) world positions of all vertices of a deformable body, m. float32 is sent as it is, without
                a copy; anything else is rounded to float32 first.
            poses: (4, 4) or (3, 4) pose of a rigid body.
            ranges: (r, 2) integers (first vertex, number of vertices), and the positions of these vertices, one range
                after another, (k, 3).
            indexed: (k,) vertex indices, and their positions (k, 3).
            want: what to compute beside volumes: some of "frame" (area, normal, tangents, centre, generalised
                gradients), "gradient", "friction", "forces", "spans", "inertia"; "all" is everything but spans and
                inertia; "volume" nothing more. Frame, gradient and friction by default.
            time_budget: s, wall-clock time of the computation; for "voxtree".
            tolerance: m^3, error of each contact's volume to aim at; in place of the scene's. Only for "ebpi", and for "auto"
                without a resolution, which then runs it.
            directions: up to 12 directions in which bodies move, for Contact.hessian_product and generalized_product:
                for each a displacement (n, 3) of all vertices of a deformable body, m, and a twist (6,) of a rigid one:
                translation, m, and rotation about the body's origin, rad. What a direction does not name rests. One
                direction needs no list. For "exact".
            velocities: (n, 3) of all vertices of a deformable body, m/s, and a twist (6,) of a rigid one: the velocity of
                its origin, m/s, and its angular velocity, rad/s. What is not named is at rest. Adds "frame" and "friction"
                to `want`, and Contact.relative_velocity and spin to its contacts.
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
            for part in request.updates + request.directions + request.velocities:
                part.own()

        return self._state.link.call(request, own)

    def submit(self, positions: Mapping[Body, ArrayLike] | None = None, poses: Mapping[Body, ArrayLike] | None = None, *,
               ranges: Mapping[Body, tuple[ArrayLike, ArrayLike]] | None = None,
               indexed: Mapping[Body, tuple[ArrayLike, ArrayLike]] | None = None,
               want: str | Sequence[str] | None = None, time_budget: float | None = None,
               tolerance: float | None = None, directions: Directions | None = None,
               velocities: Mapping[Body, ArrayLike] | None = None, viscosity: float = 0.0,
               timeout: float | None = None) -> Future:
        """Like step, but returns at once, with a Future. Steps of a scene are done, and answered, in order.

        Arrays are copied, so they may be changed as soon as this returns. Callbacks added to the future run on the
        thread that serves the connection, its own or that of another call that waits: they must be short and must not
        wait for another answer.
        """
        request = self._request(positions, poses, ranges, indexed, want, time_budget, tolerance, directions, velocities,
                                viscosity, timeout, Future())
        for part in request.updates + request.directions + request.velocities:
            part.own()
        self._state.link.submit(request)
        return request.future  # type: ignore[return-value]

    def _request(self, positions: Any, poses: Any, ranges: Any, indexed: Any, want: Any, time_budget: float | None,
                 tolerance: float | None, directions: Directions | None, velocities: Mapping[Body, ArrayLike] | None,
                 viscosity: float, timeout: Any, future: Future | None) -> Request:
        self._check_open()
        limits = limits_message(time_budget, tolerance)
        updates = []
        for body, value in _items(positions, "positions"):
            state = self._own(body, "positions", _state.DEFORMABLE)
            updates.append(Update(state, _state.POSITIONS, _arrays.points(
                value, field="positions", object=body, rows=state.vertices)))
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
        if len({u.body for u in updates}) < len(updates):
            seen: set[BodyState] = set()
            twice = next(u.body for u in updates if u.body in seen or seen.add(u.body))  # type: ignore[func-returns-value]
            raise error_for(ErrorCode.CONFLICT, "updated twice in one step", object=f"body {twice.id}", field="updates")

        def done(answer: Decoded) -> StepResult:
            result = StepResult(self, answer, self._state.by_id, request.want, self._state.number,
                                time.monotonic() - request.began)
            if self._state.frames is not None:
                self._state.frames.update(result)
            return result

        request = Request("Step", done=done, timeout=self.client._timeout(timeout), future=future)
        request.scene, request.updates, request.want = self._state, updates, want_bits(want)
        request.limits = limits
        if directions is not None:
            request.directions = self._directions(directions)
            request.want |= WANT["frame"]
        if velocities is not None:
            request.velocities = [self._motion(body, value, 0, "velocities")
                                  for body, value in _items(velocities, "velocities")]
            request.want |= WANT["frame"] | WANT["friction"] if request.velocities else 0
        if viscosity:
            request.limits["viscosity"] = _not_negative(viscosity, "viscosity")
        return request

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
                 show: str | Sequence[str] | None = None, resolution: int | None = None, azimuth: float | None = None,
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
                "contacts" and "gradients" (all methods but voxtree) "rays", "nodes" and "normals". "contacts" draws each contact, or patch, in a
                colour of its own, as a film over the surfaces that bound it, with an arrow along its normal;
                "gradients" draws dV/dx of each vertex as an arrow, the largest 0.12 of the picture's shorter side;
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

        return self._state.link.call(Request("GetSnapshot", message, lambda answer: answer.array("png").tobytes(),
                                              timeout=self.client._timeout(timeout)))

    # ---- the end ----

    def close(self, timeout: float | None = None) -> None:
        """Closes the scene on the server, which frees its memory. Closing twice is allowed."""
        if self._state.closed or self.client.closed:
            return
        self._state.closed = True

        def done(_: Decoded) -> None:
            if self._state in self._state.link.scenes:
                self._state.link.scenes.remove(self._state)
            self.client._forget_scene(self._state)

        self._state.link.call(Request("CloseScene", lambda: ({"scene": self._state.id}, None), done,
                                       timeout=self.client._timeout(timeout)))

    def __enter__(self) -> "Scene":
        return self

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


def settings_message(method: str | None, resolution: Any, pixel_size: float | None, stiffness: float | None,
                     patches: bool | None, tolerance: float | None, tolerance_rel: float | None, strict: bool | None,
                     ray_budget: int | None, cell_size: float | None, margin: float | None,
                     optimize_directions: bool | None = None, allocation: str | None = None,
                     offered: Sequence[str] | None = None, max_step_time: float | None = None) -> dict[str, Any]:
    """The wire's Settings, with only what is given. offered: the server's methods, for messages."""
    out: dict[str, Any] = {}
    if method is not None:
        known = {m.name.lower(): m.value for m in ENUMS["Method"] if m.value}
        if method not in known:
            names = ["auto", *offered] if offered else list(known)
            raise error_for(ErrorCode.UNSUPPORTED, f"expected {' or '.join(names)}, got {method!r}", field="method")
        out["method"] = known[method]
    if resolution is not None:
        out["resolution"] = _arrays.resolution(resolution)
    if pixel_size is not None:
        out["pixel_size"] = _not_negative(pixel_size, "pixel_size")
    if stiffness is not None:
        out["stiffness"] = _not_negative(stiffness, "stiffness")
    if patches is not None:
        out["patches"] = _flag(patches, "patches")
    if tolerance is not None:
        out["tolerance"] = _tolerance(tolerance, allows_none=True)
    if tolerance_rel is not None:
        out["tolerance_rel"] = _not_negative(tolerance_rel, "tolerance_rel")
    if strict is not None:
        out["strict"] = _flag(strict, "strict")
    if optimize_directions is not None:
        out["optimize_directions"] = _flag(optimize_directions, "optimize_directions")
    if allocation is not None:
        if allocation not in ALLOCATIONS:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected {' or '.join(ALLOCATIONS)}, got {allocation!r}",
                            field="allocation")
        out["allocation"] = ALLOCATIONS.index(allocation)
    if ray_budget is not None:
        out["ray_budget"] = _arrays.unsigned(ray_budget, field="ray_budget")
    if cell_size is not None:
        out["cell_size"] = _not_negative(cell_size, "cell_size")
    if margin is not None:
        out["margin"] = _not_negative(margin, "margin")
    if max_step_time is not None:
        out["max_step_time"] = _step_time(max_step_time)
    return out


def voxels_message(voxel_level: int | None, level: int | None, pair_budget: int | None, max_points: int | None,
                   center_normals: bool | None, plain_average: bool | None,
                   refine: bool | None) -> dict[str, Any]:
    """The wire's Settings of "voxtree", with only what is given."""
    out: dict[str, Any] = {}
    # The server checks ranges; what does not fit the wire is refused here, by the same ranges.
    for name, value, most, expected in (
            ("voxel_level", voxel_level, 2**31 - 1, "3 to 8, or 0 for one that suits each mesh"),
            ("level", level, 2**31 - 1, "1 to voxel_level, or to 8 without one, or 0 for all levels"),
            ("pair_budget", pair_budget, 2**63 - 1, ""),
            ("max_points", max_points, 2**31 - 1, '1 to 4096, or 0 for none, or for the default of "voxtree"')):
        if value is not None:
            out[name] = _arrays.unsigned(value, field=name, maximum=most, expected=expected)
    for name, flag in (("center_normals", center_normals), ("plain_average", plain_average), ("refine", refine)):
        if flag is not None:
            out[name] = _flag(flag, name)
    return {"voxels": out} if out else {}


def limits_message(time_budget: float | None, tolerance: float | None) -> dict[str, Any]:
    """The wire's limits of a step, with only what is given; 0 on the wire says that there is none."""
    out: dict[str, Any] = {}
    if time_budget is not None:
        microseconds = _positive(time_budget, "time_budget") * 1e6
        if microseconds >= 2**32:
            raise error_for(ErrorCode.OUT_OF_RANGE, f"expected less than 4294 s, got {time_budget:g}", field="time_budget")
        out["time_budget_us"] = max(1, int(microseconds))
    if tolerance is not None:
        out["tolerance"] = _tolerance(tolerance)
    return out


def _tolerance(value: Any, allows_none: bool = False) -> float:
    """allows_none: 0 says that there is none."""
    number = _arrays.real(value, field="tolerance")
    if 0 < number <= 1e300 or allows_none and number == 0:
        return number
    raise error_for(ErrorCode.OUT_OF_RANGE,
                    "expected a volume above 0, up to 1e300 m^3; the smallest depends on the bodies' extents, and a step that "
                    f"asks for less names it{', or 0 for none' * allows_none}; got {number:g}", field="tolerance")


def _flag(value: Any, field: str) -> int:
    if not isinstance(value, (bool, np.bool_)):  # a word such as "no" would be true
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected True or False, got {value!r}", field=field)
    return int(value)


def _not_negative(value: Any, field: str) -> float:
    number = _arrays.real(value, field=field)
    if number < 0:  # on the wire, that would say "keep the old value"
        raise error_for(ErrorCode.OUT_OF_RANGE, f"expected 0 or more, got {number:g}", field=field)
    return number


def _positive(value: Any, field: str) -> float:
    number = _arrays.real(value, field=field)
    if not number > 0:
        raise error_for(ErrorCode.OUT_OF_RANGE, f"expected more than 0, got {number:g}", field=field)
    return number


def _step_time(value: Any) -> float:
    number = _arrays.real(value, field="max_step_time")
    if not math.isfinite(number):
        raise error_for(ErrorCode.NON_FINITE, f"expected a number of seconds, got {number:g}", field="max_step_time")
    return _positive(number, "max_step_time")


def _check_range(end: int, state: BodyState, body: Body, field: str) -> None:
    if end > state.vertices:
        raise error_for(ErrorCode.OUT_OF_RANGE, f"expected vertices 0 to {state.vertices - 1}, got {end - 1}",
                        object=str(body), field=field)


def _items(given: Any, field: str) -> Iterable[tuple[Any, Any]]:
    """What a step's argument names for each body."""
    if given is None:
        return ()
    if not hasattr(given, "items"):
        raise error_for(ErrorCode.INVALID_ARGUMENT,
                        f"expected a dictionary with bodies as keys, got {type(given).__name__}", field=field)
    return given.items()


def _show_bits(show: str | Sequence[str]) -> int:
    names = ("bodies", "samples", "axes", "contacts", "gradients", "rays_x", "rays_y", "rays_z", "nodes",
             "normals")  # bit by bit
    bits = {name: 1 << bit for bit, name in enumerate(names)} | {"rays": 0b111 << 5}
    words = [show] if isinstance(show, str) else list(show)
    if not words or any(word not in bits for word in words):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected some of {', '.join(bits)}, got {show!r}", field="show")
    return functools.reduce(operator.or_, (bits[word] for word in words))
