"""What a client keeps of its meshes, scenes and bodies, so that it can rebuild them on a server that lost them, and its
requests in flight.

For _connection, which owns it (the holder of the I/O lock alone changes what is here), and for the handles in client and
scene. Identifiers are the server's of the moment and change when it restarts; the handles that callers hold do not.
"""

from __future__ import annotations

import itertools
import secrets
import time
import weakref
from collections import deque
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Mapping

import numpy as np

from . import _settings
from ._frames import Frames
from ._reply import Reply
from ._wire import Arrays, Decoded
from .errors import ContactdError, ErrorCode, error_for

Message = tuple[dict[str, Any], Arrays | None]

DEFORMABLE, RIGID, HALF_SPACE = 1, 2, 3
POSITIONS, RANGES, INDEXED, POSE = 1, 2, 3, 4

_numbers = itertools.count(1)
_latest = 0


def latest_change() -> int:
    """Another number as soon as a scene of this process has other bodies, or is closed: what was found of many scenes holds until then."""
    return _latest


def note_change() -> None:
    """After it. Each number is given once, so that no thread's change is lost beside another's."""
    global _latest
    _latest = next(_numbers)


@dataclass(eq=False)
class MeshState:
    name: str
    vertices: Any = None  # arrays, as registered; None for a file
    triangles: Any = None
    file: Any = None
    format: int = 0
    id: int = 0
    info: dict[str, Any] = field(default_factory=dict)
    error: ContactdError | None = None  # why a restarted server refused it
    making: dict[str, Any] = field(default_factory=dict)  # fields of RegisterMesh: how it is made
    ends: int = 0  # of servers that were at work on restoring it

    def message(self) -> tuple[dict[str, Any], Arrays]:
        arrays = Arrays()
        if self.file is not None:
            body: dict[str, Any] = {"file": arrays.add(self.file), "format": self.format}
        else:
            body = {"vertices": arrays.add(self.vertices), "triangles": arrays.add(self.triangles)}
        body["name"] = self.name
        return body | self.making, arrays

    def check_made(self, info: Mapping[str, Any]) -> None:
        """Raises: UNSUPPORTED where the server is older than the way in which it was to be made, and made it in another."""
        if "scale" in self.making and not info.get("shells"):
            raise error_for(ErrorCode.UNSUPPORTED, "the server is too old to scale meshes: scale the vertices or the file",
                            object=f"mesh {self.name!r}", field="scale")
        if self.making.get("closing", 0) != (info.get("closing") or 0):
            raise error_for(ErrorCode.UNSUPPORTED, "the server is too old to close meshes so: register a closed mesh",
                            object=f"mesh {self.name!r}", field="closing")

    def share(self, other: "MeshState") -> None:
        """What it was made of becomes that of another with the same content, so that it is kept once."""
        self.vertices, self.triangles, self.file = other.vertices, other.triangles, other.file
        self.format, self.making = other.format, other.making


class Meshes:
    """Those that someone holds, in the order in which they came. What nobody holds any more is not kept; the server keeps it
    while it has room."""

    def __init__(self) -> None:
        self._held: weakref.WeakKeyDictionary[MeshState, None] = weakref.WeakKeyDictionary()
        self._by_hash: weakref.WeakValueDictionary[str, MeshState] = weakref.WeakValueDictionary()

    def add(self, mesh: MeshState) -> None:
        hash = mesh.info.get("hash")
        if hash and (other := self._by_hash.setdefault(hash, mesh)) is not mesh:
            mesh.share(other)
        self._held[mesh] = None

    def remove(self, mesh: MeshState) -> None:
        self._held.pop(mesh, None)

    def __contains__(self, mesh: object) -> bool:
        return isinstance(mesh, MeshState) and mesh in self._held

    def __iter__(self) -> Iterator[MeshState]:
        return iter(list(self._held))


@dataclass(slots=True, eq=False)
class Update:
    """New state of one body in one step. Arrays are float32 or float64 [k][3] and uint32, contiguous."""

    body: "BodyState"
    kind: int
    positions: Any = None  # arrays
    indices: Any = None
    pose: tuple[float, ...] | None = None

    def message(self, arrays: Arrays) -> dict[str, Any]:
        out: dict[str, Any] = {"body": self.body.id, "kind": self.kind}
        if self.positions is not None:
            out["positions"] = arrays.add(self.positions)
        if self.indices is not None:
            out["indices"] = arrays.add(self.indices)
        if self.pose is not None:
            out["pose"] = self.pose
        return out

    def own(self) -> None:
        """Replaces the caller's arrays by copies, for when the caller may change them again."""
        if self.positions is not None:
            self.positions = self.positions.copy()
        if self.indices is not None:
            self.indices = self.indices.copy()

    def vertex_indices(self) -> np.ndarray:
        if self.kind == INDEXED:
            return np.asarray(self.indices)
        ranges = self.indices.reshape(-1, 2).astype(np.int64)
        starts, counts = ranges[:, 0], ranges[:, 1]
        return np.repeat(starts - np.concatenate(([0], np.cumsum(counts)[:-1])), counts) + np.arange(counts.sum())


def no_self_contact(scene: str) -> ContactdError:
    """The error where a server older than self-contact added a body without it."""
    return error_for(ErrorCode.UNSUPPORTED, "the server is too old to compute the contact of a body with itself",
                     object=scene, field="self_contact")


class PoseUpdates:
    """Poses of many bodies: the engine in this process takes them at once; who wants an Update of each iterates."""

    def __init__(self, bodies: list["BodyState"], rows: np.ndarray) -> None:
        self.bodies, self.rows = bodies, rows  # (n, 12)

    def __len__(self) -> int:
        return len(self.bodies)

    def __iter__(self) -> Iterator[Update]:
        return (Update(body, POSE, None, None, row) for body, row in zip(self.bodies, map(tuple, self.rows.tolist())))

    def copy(self) -> "PoseUpdates":
        return PoseUpdates(self.bodies, self.rows.copy())


def bodies_of(updates: list[Update] | PoseUpdates) -> list["BodyState"]:
    return updates.bodies if isinstance(updates, PoseUpdates) else [update.body for update in updates]


@dataclass(slots=True, eq=False)
class Direction:
    """One body's part of a direction of a step, or its velocity: float64 [vertices][3], or six numbers for a rigid body."""

    body: "BodyState"
    index: int
    values: np.ndarray | None = None
    twist: tuple[float, ...] | None = None

    def message(self, arrays: Arrays) -> dict[str, Any]:
        out: dict[str, Any] = {"body": self.body.id, "index": self.index}
        if self.values is not None:
            out["values"] = arrays.add(self.values)
        if self.twist is not None:
            out["twist"] = self.twist
        return out

    def own(self) -> None:
        """As Update.own."""
        if self.values is not None:
            self.values = self.values.copy()


class Poses:
    """Of bodies that steps of many scenes move together: a row each, so that such a step replaces one array."""

    __slots__ = ("rows", "left")

    def __init__(self, bodies: Iterable["BodyState"]) -> None:
        self.rows: Any = None
        self.left = list(enumerate(bodies))  # that have another pose than their row

    def replace(self, rows: np.ndarray) -> None:
        """All bodies have these."""
        left, self.left, self.rows = self.left, [], rows
        for row, body in left:
            body.pose = None  # it leaves others
            body._together, body._row = self, row


@dataclass(slots=True, eq=False)
class BodyState:
    mesh: MeshState | None  # None: a half-space
    kind: int
    _pose: Any  # of a body that has none with others
    group: int
    mask: int
    ignore: list["BodyState"]
    id: int = 0
    vertices: int = 0
    # State as of the last step answered: the whole of it in `latest`, or what differs from rest in `moved` and `known`.
    latest: Update | None = None
    moved: Any = None  # arrays
    known: Any = None
    is_doubted: bool = False  # vertices that are not known here may have moved in a step whose answer was lost
    removed: bool = False
    self_contact: bool = False
    material: dict[str, float] = field(default_factory=dict)  # modulus, friction and so on, as far as given
    start: Any = None  # the pose that it was added with, which a reset takes it back to
    _together: Poses | None = None
    _row: int = 0

    def __post_init__(self) -> None:
        self.start = self.pose

    @property
    def pose(self) -> Any:
        """12 numbers, or None."""
        return self._pose if self._together is None else self._together.rows[self._row]

    @pose.setter
    def pose(self, pose: Any) -> None:
        if self._together is not None:
            self._together.left.append((self._row, self))
            self._together = None
        self._pose = pose

    def anew(self, ignore: list["BodyState"]) -> "BodyState":
        """The same for another scene."""
        return BodyState(self.mesh, self.kind, self.pose, self.group, self.mask, ignore, vertices=self.vertices,
                         self_contact=self.self_contact, material=self.material)

    def message(self, scene: "SceneState") -> dict[str, Any]:
        body: dict[str, Any] = {"scene": scene.id, "kind": self.kind, "group": self.group, "mask": self.mask}
        if self.mesh is not None:
            if self.mesh.error is not None:
                raise self.mesh.error
            body["mesh"] = self.mesh.id
        if self.self_contact:
            body["self_contact"] = True
        body.update(self.material)
        if self.pose is not None:
            body["pose"] = tuple(self.pose)
            if self.start is not self.pose:
                body["start"] = tuple(self.start)
        if self.ignore:
            body["ignore"] = tuple(b.id for b in self.ignore if not b.removed)  # a removed one's id may be another's now
        return body

    def apply(self, update: Update) -> None:
        """Remembers an update that the server has carried out."""
        if update.kind == POSE:
            self.pose = update.pose
        elif update.kind == POSITIONS:
            self.latest, self.moved, self.known, self.is_doubted = update, None, None, False
        else:
            self._unfold(update.positions.dtype)
            at = update.vertex_indices()
            self.moved[at] = update.positions
            self.known[at] = True

    def reset(self) -> None:
        """The server has taken it back to where it was when it was added."""
        self.pose = self.start
        self.rest()

    def replace_mesh(self, mesh: MeshState, vertices: int) -> None:
        """The server has given it this mesh; a deformable body is at the mesh's own positions."""
        self.mesh, self.vertices = mesh, vertices
        self.rest()
        note_change()

    def rest(self) -> None:
        """In the server a deformable body is at its mesh's own positions."""
        self.latest = self.moved = self.known = None
        self.is_doubted = False

    def doubt(self) -> None:
        """The server may have moved all vertices."""
        self.is_doubted = self.latest is None and (self.known is None or not self.known.all())

    def _unfold(self, dtype: Any) -> None:
        """Into arrays by vertex, which hold numbers of this type, too, as they are."""
        if self.moved is not None:
            self.moved = self.moved.astype(np.promote_types(self.moved.dtype, dtype), copy=False)
        else:
            self.moved = np.zeros((self.vertices, 3), dtype if self.latest is None else np.promote_types(self.latest.positions.dtype, dtype))
            self.known = np.zeros(self.vertices, bool)
            if self.latest is not None:
                self.moved[:] = self.latest.positions
                self.known[:] = True
                self.latest = None

    def whole(self, then: Update | None) -> Update | None:
        """One update that takes a body, wherever it is, to this state and through `then`; None where nothing is known to do."""
        if self.kind == HALF_SPACE or (then is not None and then.kind in (POSE, POSITIONS)):
            return then
        if self.kind == RIGID:
            return Update(self, POSE, pose=self.pose)
        if then is None and self.moved is None and not self.is_doubted:
            return self.latest
        copy = BodyState(self.mesh, self.kind, None, 0, 0, [], self.id, self.vertices, self.latest,
                         None if self.moved is None else self.moved.copy(),
                         None if self.known is None else self.known.copy())
        if self.is_doubted:
            rest = self._rest_positions()
            if copy.known is not None:
                rest = rest.astype(np.promote_types(rest.dtype, copy.moved.dtype))
                rest[copy.known] = copy.moved[copy.known]
            copy.apply(Update(copy, POSITIONS, rest))
        if then is not None:
            try:
                copy.apply(then)
            except (IndexError, ValueError) as e:
                raise error_for(ErrorCode.OUT_OF_RANGE, str(e), object=f"body {self.id}", field="indices") from None
        if copy.latest is not None:
            return Update(self, POSITIONS, copy.latest.positions)
        assert copy.known is not None  # `then`, or what is doubted, made it
        if copy.known.all():
            return Update(self, POSITIONS, copy.moved)
        at = np.flatnonzero(copy.known).astype("<u4")
        return Update(self, INDEXED, copy.moved[at], at)

    def _rest_positions(self) -> np.ndarray:
        mesh = self.mesh
        if mesh is None or mesh.vertices is None or mesh.making.keys() - {"scale"}:
            raise error_for(ErrorCode.CONFLICT, "the answer of a step that may have moved its vertices was lost: give all its positions, "
                            "or reset the scene", object=f"body {self.id}", field="positions")
        scale = mesh.making.get("scale", 1)
        return np.array(mesh.vertices if scale == 1 else mesh.vertices * np.float64(scale))


def material_message(scene: "SceneState", body: BodyState, other: BodyState | None,
                     material: dict[str, float]) -> dict[str, Any]:
    """other None: the body's own."""
    return {"scene": scene.id, "body": body.id, "other": 0 if other is None else other.id, **material}


class Request:
    """One question: how to build it (when it is sent, and again when it is sent again), and what to do with the answer.

    `done` runs on the thread that holds the I/O lock and makes the future's value; `undo` names a request that takes back what the
    server did although the caller had given up waiting. `refused` is told an error that ends it, and whether a step refused so
    has not used its number up.
    """

    __slots__ = ("kind", "build", "done", "undo", "future", "deadline", "scene", "updates", "want", "limits", "directions", "velocities", "sequence", "began",
                 "sent", "whole", "not_before", "mesh", "after", "behind", "is_repeat", "epoch", "ends",
                 "refused")

    def __init__(self, kind: str, build: Callable[[], Message] | None = None,
                 done: Callable[[Decoded], Any] = lambda answer: None, *, timeout: float,
                 undo: Callable[[Decoded], "Request"] | None = None, future: Future[Any] | Reply | None = None,
                 refused: Callable[[ContactdError, bool], None] | None = None) -> None:
        self.kind, self.build, self.done, self.undo = kind, build, done, undo
        self.refused = refused
        self.future: Any = Reply() if future is None else future  # or a concurrent.futures.Future
        self.began = time.monotonic()
        self.deadline = self.began + timeout
        self.scene: Any = None  # SceneState, of a step
        self.updates: list[Update] | PoseUpdates = []
        self.directions: list[Direction] = []
        self.velocities: list[Direction] = []
        self.want = 0
        self.limits: dict[str, Any] = {}  # of a step: time_budget_us, tolerance
        self.sequence = 0
        self.sent = False
        self.is_repeat = False  # sent before, over a connection that was lost before the answer came
        self.epoch = 0  # of the server that it was sent to last
        self.ends = 0  # of servers that were at work on it
        self.whole = False  # a step sent with the state of all bodies
        self.not_before = 0.0
        self.after: SceneState | None = None  # it waits for the steps of this scene, and later ones wait for it
        self.behind: SceneState | None = None  # the same, where steps of it wait or are on their way; else it goes at once
        self.mesh: Any = None  # MeshState: that it uses, and that the server may have dropped to make room

    def parts(self) -> Iterator[Any]:
        """Of a step: all that it says of bodies."""
        return itertools.chain(self.updates, self.directions, self.velocities)

    def may_be_sent(self) -> bool:
        """From now on it cannot be called back. False: it was."""
        return self.sent or not isinstance(self.future, Future) or self.future.running() or \
            self.future.set_running_or_notify_cancel()

    def fail(self, error: BaseException) -> None:
        """Ends it with this error, unless it has ended."""
        try:
            if not self.future.done():
                self.future.set_exception(error)
        except InvalidStateError:
            pass  # its owner has called it back meanwhile


@dataclass(slots=True, eq=False)
class SceneState:
    name: str
    settings: dict[str, Any]
    link: Any = None  # the connection that has it
    id: int = 0
    running_method: int = 0  # 0: an older server, which runs the method of the settings
    key: int = field(default_factory=lambda: secrets.randbits(63) | 1)  # the scene's name for all servers
    revision: int = 0  # of the settings
    pairs: dict[frozenset[BodyState], dict[str, float]] = field(default_factory=dict)  # materials of their own
    bodies: list[BodyState] = field(default_factory=list)
    known: dict[int, BodyState] | None = field(default_factory=dict)  # by_id; None: to be made
    sequence: int = 0  # of the last step sent
    number: int = 0  # of steps answered, for the caller
    pending: deque[Request] = field(default_factory=deque)  # steps to send, and what waits for them
    flying: dict[int, Request] = field(default_factory=dict)  # steps sent, by request number, in order
    refused: list[Request] = field(default_factory=list)  # of those: refused, to be sent again
    gap: int = 0  # the first number that the server refused and did not use up; 0: none
    hold_until: float = 0.0  # no step is sent before
    changing: Request | None = None  # no step is sent before this has been answered
    synced: bool = True  # the server's bodies are where the caller thinks; if not, the next step sends everything
    closed: bool = False
    frames: Frames | None = None  # of the last answered step, if frames are continuous
    error: ContactdError | None = None  # why it could not be rebuilt
    ends: int = 0  # of servers that were at work on rebuilding it

    @property
    def label(self) -> str:
        """What errors call it."""
        return f"scene {self.id}"

    def open_message(self) -> dict[str, Any]:
        return {"settings": _settings.of_request(self.settings), "name": self.name, "key": self.key, "revision": self.revision}

    def adopt(self, settings: dict[str, Any] | None, running_method: int, revision: int) -> None:
        """Remembers settings that a server told, unless newer ones are known: those of a step answered before a change."""
        if settings is not None and revision >= self.revision:
            if settings.get("law") != self.settings.get("law"):
                note_change()
            self.settings, self.running_method, self.revision = settings, running_method, revision

    @property
    def by_id(self) -> dict[int, BodyState]:
        """The server's bodies, in the order of `bodies`: replaced, never changed, as results keep theirs."""
        if self.known is None:
            self.known = {b.id: b for b in self.bodies}
        return self.known

    def forget_known(self) -> None:
        self.known = None
        note_change()

    def close(self) -> None:
        self.closed = True
        note_change()

    def add(self, body: BodyState) -> None:
        self.bodies.append(body)
        self.forget_known()

    def add_all(self, bodies: list[BodyState]) -> None:
        self.bodies += bodies
        self.forget_known()

    def put_last(self, bodies: list[BodyState]) -> None:
        """In this order, behind all others."""
        last = set(bodies)
        self.bodies = [b for b in self.bodies if b not in last] + bodies
        self.forget_known()

    def remove(self, body: BodyState) -> None:
        if not body.removed:
            body.removed = True
            self.bodies.remove(body)
            self.pairs = {pair: material for pair, material in self.pairs.items() if body not in pair}
        self.forget_known()

    def set_pair(self, a: BodyState, b: BodyState, material: dict[str, float]) -> None:
        """What counts between them; empty: nothing of their own any more."""
        pair = frozenset((a, b))
        self.pairs.pop(pair, None)
        if material:
            self.pairs[pair] = material

    def all_updates(self, updates: Iterable[Update]) -> list[Update]:
        """What a step with `updates` must send to a server whose bodies are all at rest."""
        by_body = {u.body: u for u in updates}
        whole = (body.whole(by_body.get(body)) for body in self.bodies)
        return [u for u in whole if u is not None]
