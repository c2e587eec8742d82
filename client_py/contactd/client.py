"""The connection to a server, and meshes registered there. `connect` is where a program starts."""

from __future__ import annotations

import asyncio
import os
import pathlib
import re
import reprlib
import socket
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Generator, Iterable, Literal, Sequence, SupportsIndex, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _arrays, _embedded, _gltf, _link_scenes, _settings
from ._addresses import Addresses, is_several, unknown_name, with_scheme
from ._keys import keys_of
from ._link import VERSION, Link
from ._link_many import step_many
from ._schema import ENUMS
from ._servers import MAX_BUCKETS, Servers
from ._scene_opener import SceneOpener
from ._scene_settings import Method
from ._reply import Reply
from ._many import ManyResult, Motion, Scenes, Together, check_want, step_each
from ._state import MeshState, Request, SceneState
from ._want import FRAME, Want
from ._wire import Decoded
from .body import Body
from .errors import ErrorCode, ForbiddenError, NotFoundError, StaleHandleError, UnreachableError, error_for
from .result import StepResult
from .scene import Scene
from .shapes import ShapeMaker

DEFAULT_ADDRESS = "tcp://127.0.0.1:5555"
MOST_TOGETHER = 4  # lists of scenes that step_many knows from calls before


def _refuse_greenlets() -> None:
    """A connection has a thread of its own, which waits in ZeroMQ. As a greenlet it would block all others for ever."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    patched = gevent is not None and gevent.is_module_patched("threading")
    if patched or (eventlet is not None and eventlet.is_monkey_patched("thread")):
        library, remedy = ("gevent", "gevent.monkey.patch_all(thread=False)") if patched else \
            ("eventlet", "eventlet.monkey_patch(thread=False)")
        raise error_for(ErrorCode.UNSUPPORTED, f"{library} has replaced this process's threads by greenlets, and a connection "
                        f"needs a real one: patch without them, {remedy}", object="client")


def connect(address: str | Sequence[str] | None = None, *, timeout: float = 30.0, lease: float = 0.0, name: str | None = None,
            spin: float = 2e-3, server_key: str | os.PathLike[str] | None = None,
            client_key: str | os.PathLike[str] | None = None, placement: str = "load",
            connections: int | None = None, wait: float = 0.0) -> "Client":
    """Connects to a contactd server, or to several that look like one. Without an address, to one that runs on this machine
    or, where there is none, to one of this process's own, which ends with its last client: see docs/three-places.md.

    With several, scenes are spread over them. Where a server dies or drains, its scenes are built again on the others, and
    their steps go on there, none lost and none answered twice; where one joins or comes back, it takes its share. Results
    have the same bits everywhere.

    Args:
        address: host:port (or tcp://host:port), or ipc://path. None: $CONTACTD_SERVER; else tcp://127.0.0.1:5555 where something listens
            there, or keys are given; else "embedded": a server that this process starts for itself, over ipc:// in a
            private folder. Several servers: a list of addresses, or one text with commas. An item may also be
            dns://host:port, all addresses that the name has, or file:path, a file with an address on each line, or a
            folder of such files; both are looked at again and again.
            A server that drains may name successors (its --successor): the client goes there, with a single address also
            when the server is gone without a word.
        timeout: seconds that any call of this client may take unless told otherwise; connecting too.
        wait: seconds to wait for a server that is about to start; where nothing listens then, UnreachableError says so at
            once. One server only; several are waited for as long as `timeout` says.
        lease: seconds of silence after which the server may close this client's scenes; 0: the server's own. A client
            that lives is never silent: it pings by itself.
        name: tells clients apart in the server's log and lists.
        spin: seconds for which a call first looks for its answer, again and again, before it sleeps: to wake a sleeping
            core often costs more than a small step. Where that was in vain, the next calls sleep at once; so do all
            where the process has other Python threads, which would wait meanwhile. 0: always.
        server_key, client_key: for a server started with --stream-key: its public key, and this client's secret key, which
            must be in the server's list of principals. Each is a key of 40 characters, or the path of a file that
            `contactctl keys new` wrote; $CONTACTD_SERVER_KEY and $CONTACTD_CLIENT_KEY where None.
        placement: with several servers, where a new scene goes: "load", to the one that has the fewest scenes and, of those,
            the shortest queue; "hash", where its name is hashed to (without a name: evenly).
        connections: with several servers, how many connections, which move as a whole, scenes are divided over, at most 64.
            Where None, twice the servers, and 8 or more where servers may join. Each costs the client a thread.
    Raises: UnreachableError where no server answers in time, UnsupportedError where gevent or eventlet has replaced threads, ConflictError where two addresses are one server, UnauthenticatedError where it refuses the key, VersionMismatchError where it speaks another protocol.
    """
    _refuse_greenlets()
    timeout = _arrays.seconds(timeout, field="timeout")
    has_keys = bool(server_key or client_key)
    if address is None:
        address = os.environ.get("CONTACTD_SERVER") or _nearest(has_keys or "CONTACTD_CLIENT_KEY" in os.environ)
    if address == "embedded":
        if has_keys:
            raise error_for(ErrorCode.INVALID_ARGUMENT, "an embedded server takes no keys: only this user reaches it",
                            field="server_key" if server_key else "client_key")
        return _connect_embedded(timeout=timeout, lease=lease, name=name, spin=spin)
    client = Client(address, timeout=timeout, lease=lease, placement=placement, connections=connections, wait=wait,
                    name=name, spin=spin, server_key=server_key or os.environ.get("CONTACTD_SERVER_KEY"),
                    client_key=client_key or os.environ.get("CONTACTD_CLIENT_KEY"))
    try:
        client.ping()
    except BaseException as e:
        client.close()
        if isinstance(e, UnreachableError) and isinstance(address, str) and (why := unknown_name(with_scheme(address))):
            raise error_for(ErrorCode.UNREACHABLE, why, object="server", field="address", retry=True) from None
        raise
    return client


class connect_async:
    """connect for asyncio: `async with connect_async(...) as client`, or `client = await connect_async(...)`. Arguments as of
    connect. Other tasks run while the server is waited for; the client's steps are awaited by Scene.step_async and submit."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self._arguments, self._more = arguments, more
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, "Client"]:
        return asyncio.to_thread(connect, *self._arguments, **self._more).__await__()

    async def __aenter__(self) -> "Client":
        self._client = await self
        return self._client

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await asyncio.to_thread(self._client.close)


def _nearest(has_keys: bool) -> str:
    """Where a client goes that names no server: to one at the default address, or to one of its own; with keys, which such
    a one does not take, to the former in any case."""
    if has_keys:
        return DEFAULT_ADDRESS
    host, port = DEFAULT_ADDRESS.removeprefix("tcp://").split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1.0).close()
    except OSError:
        return "embedded"
    return DEFAULT_ADDRESS


def _connect_embedded(**options: Any) -> "Client":
    server = _embedded.acquire(options["timeout"])
    try:
        client = Client(server.address, **options)
    except BaseException:
        server.release()
        raise
    client.address, client._own_server = "embedded", server
    server.add(client._link)
    try:
        client.ping()
    except BaseException:
        client.close()
        raise
    return client


@dataclass(frozen=True, slots=True)
class Overlap:
    """The intersection of two meshes a and b; see Client.overlap and Contact, whose names these are.

    Attributes:
        volume: m^3; 0 if they do not overlap.
        error_bound: m^3, guaranteed; None where the method gives none ("ldi"), and where they do not overlap.
        error_estimate: m^3.
        center: (3,) m; None where they do not overlap. "exact": the centroid.
        area, depth: m^2, m.
        normal: (3,) unit vector that pushes a out of b; zero where no direction does.
        generalized_gradient: (2, 6), of a and of b: dV/d(translation), m^2, and dV/d(rotation about the pose's origin), m^3.
        method: that ran.
    """

    volume: float
    error_bound: float | None
    error_estimate: float
    center: NDArray[np.float64] | None
    area: float
    depth: float
    normal: NDArray[np.float64]
    generalized_gradient: NDArray[np.float64]
    method: str


@dataclass(frozen=True)
class MeshChange:
    """One change that a repair made."""

    index: int  # of the triangle or vertex, as registered; of a hole: one of its vertices
    at: tuple[float, float, float]  # m: the triangle's first corner, the vertex, or the middle of the hole
    edges: int  # of a hole, else 0


@dataclass(frozen=True)
class MeshRepair:
    """What a repair did."""

    degenerate_triangles: int  # dropped: they name a vertex twice, or lie on a line and close nothing
    duplicate_triangles: int  # dropped
    welded_vertices: int
    turned_triangles: int
    filled_holes: int
    fill_triangles: int  # that fill them
    moved: float  # m, the most that welding has moved a corner of a triangle
    first: dict[str, list[MeshChange]]  # by the names of the first five: up to four changes of each
    self_overlap: float | None  # m^3, in which the mesh overlaps itself, which a repair does not mend; None: not measured

    @property
    def changed(self) -> bool:
        return any((self.degenerate_triangles, self.duplicate_triangles, self.welded_vertices, self.turned_triangles,
                    self.filled_holes))


_CHANGES = ("degenerate_triangles", "duplicate_triangles", "welded_vertices", "turned_triangles", "filled_holes")


Closing = Literal["hull", "wrap"]
_CLOSINGS: dict[str, int] = {"hull": ENUMS["MeshClosing"]["Hull"].value, "wrap": ENUMS["MeshClosing"]["Wrap"].value}
Unit = Literal["m", "dm", "cm", "mm", "um", "in", "ft"]
_UNITS = {"m": 1.0, "dm": 0.1, "cm": 0.01, "mm": 1e-3, "um": 1e-6, "in": 0.0254, "ft": 0.3048}


def _scale_of(scale: float | None, unit: str, object: str) -> float:
    if unit not in _UNITS:
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected {', '.join(_UNITS)}, got {unit!r}", object=object, field="unit")
    if scale is not None and unit != "m":
        raise error_for(ErrorCode.INVALID_ARGUMENT, "a unit and a scale say the same: leave out one of them", object=object,
                        field="scale")
    out = _UNITS[unit] if scale is None else _arrays.real(scale, field="scale", object=object)
    if not out > 0:
        raise error_for(ErrorCode.OUT_OF_RANGE, f"expected more than 0, got {out:g}", object=object, field="scale")
    return out


def _making(repair: bool, max_hole: float, weld: float, open_direction: Sequence[float] | None, scale: float | None,
            unit: str, closing: str | None, resolution: float, object: str) -> dict[str, Any]:
    if not isinstance(repair, (bool, np.bool_)):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected True or False, got {repair!r}", object=object, field="repair")
    wide = _arrays.real(max_hole, field="max_hole")
    factor = _scale_of(scale, unit, object)
    out = ({"repair": True} if repair else {}) | ({"max_hole": wide} if wide else {}) | ({"scale": factor} if factor != 1 else {})
    near = _arrays.real(weld, field="weld", object=object)
    out |= {"weld": near} if near else {}
    if closing not in (None, *_CLOSINGS):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected None or {', '.join(map(repr, _CLOSINGS))}, got {closing!r}", object=object,
                        field="closing")
    out |= {"closing": _CLOSINGS[closing]} if closing is not None else {}
    side = _arrays.real(resolution, field="resolution", object=object)
    out |= {"resolution": side} if side else {}
    if open_direction is None:
        return out
    if not np.iterable(open_direction) or isinstance(open_direction, str):
        direction: tuple[float, ...] = ()
    else:
        direction = tuple(_arrays.real(x, field="open_direction", object=object) for x in open_direction)
    if len(direction) != 3 or not any(direction):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected three numbers, not all 0, got {open_direction!r}",
                        object=object, field="open_direction")
    return out | {"open_direction": direction}


class Mesh:
    """A mesh on the server; immutable. Registering the same content again, by anyone, shares one copy, here too.

    The client keeps what was registered, for a server that has forgotten it, as long as a Mesh or a body holds it. The server
    keeps it until remove(), or until it needs the room and no body uses it; an Engine as long as one of them holds it.
    """

    def __init__(self, client: "Client", state: MeshState) -> None:
        self.client, self._state = client, state
        self._copies: dict[Link, MeshState] = {}  # on the other connections, with several servers

    @property
    def name(self) -> str:
        return self._state.name

    @property
    def hash(self) -> str:
        """Of its content, hexadecimal."""
        return str(self._state.info["hash"])

    @property
    def vertex_count(self) -> int:
        return int(self._state.info["vertices"])

    @property
    def closing_vertices(self) -> int:
        """How many of the vertices, the last, close a surface that was registered open; else 0."""
        return int(self._state.info.get("closing_vertices", 0))

    @property
    def triangle_count(self) -> int:
        return int(self._state.info["triangles"])

    @property
    def volume(self) -> float:
        """m^3."""
        return float(self._state.info["volume"])

    @property
    def area(self) -> float:
        """m^2."""
        return float(self._state.info["area"])

    @property
    def bounds(self) -> NDArray[np.float64]:
        """(2, 3) m: lower and upper corner."""
        return np.array([self._state.info["lo"], self._state.info["hi"]])

    def _fact(self, name: str) -> Any:
        if not self._state.info.get("shells"):
            raise error_for(ErrorCode.UNSUPPORTED, "the server is too old to tell", object=f"mesh {self.name!r}", field=name)
        return self._state.info[name]

    @property
    def center_of_mass(self) -> NDArray[np.float64]:
        """(3,) m, of the volume; of a mesh that was registered open with what closes it."""
        return np.array(self._fact("center_of_mass"), float)

    @property
    def inertia(self) -> NDArray[np.float64]:
        """(3, 3) m^5, about the centre of mass: times a density in kg/m^3 it is in kg m^2."""
        return np.array(self._fact("inertia"), float).reshape(3, 3)

    @property
    def n_shells(self) -> int:
        """Of how many closed surfaces it consists."""
        return int(self._fact("shells"))

    @property
    def doubled_shells(self) -> int:
        """How many of its shells lie where another does, by accident as a rule: what is inside counts twice. With
        repair=True they are dropped."""
        return int(self._fact("doubled_shells"))

    @property
    def info(self) -> dict[str, Any]:
        """What the server knows of it, by names of the properties here."""
        names = ("name", "hash", "vertex_count", "triangle_count", "closing_vertices", "volume", "area", "bounds", "center_of_mass",
                 "inertia", "n_shells", "doubled_shells", "bytes", "closing", "deviation", "uneven_polygons", "unevenness", "repair")
        return {name: getattr(self, name) for name in names}

    @property
    def bytes(self) -> int:
        """Memory that it holds on the server."""
        return int(self._state.info["bytes"])

    @property
    def closing(self) -> Closing | None:
        """"hull": it was registered as the convex hull of its surface, "wrap": as a closed surface around its triangles; None: as it
        was given."""
        number = self._state.info.get("closing") or 0
        return next((name for name in get_args(Closing) if _CLOSINGS[name] == number), None)

    @property
    def deviation(self) -> float:
        """m, of a wrap: no point of it is further from the triangles given. 0: it is none."""
        return self._state.info.get("deviation") or 0.0 if self.closing == "wrap" else 0.0

    @property
    def uneven_polygons(self) -> int:
        """Of a file: how many of its faces of more than three corners were not flat. Each is cut where its area is least."""
        return int(self._state.info.get("uneven_polygons") or 0)

    @property
    def unevenness(self) -> float:
        """m, the most that a corner of one of the uneven_polygons is off the plane of its face."""
        return float(self._state.info.get("unevenness") or 0.0)

    @property
    def repair(self) -> MeshRepair | None:
        """What the repair changed; None: none was asked for."""
        numbers = self._state.info.get("repair")
        if numbers is None:
            return None
        rows = np.asarray(numbers[6:]).reshape(-1, 6)
        where = {name: [MeshChange(int(row[1]), (float(row[2]), float(row[3]), float(row[4])), int(row[5])) for row in rows if row[0] == k]
                 for k, name in enumerate(_CHANGES)}
        a, b, c, d, e, f = (int(n) for n in numbers[:6])
        overlap = self._state.info.get("self_overlap", -1.0)
        return MeshRepair(a, b, c, d, e, f, self._state.info.get("moved") or 0.0, where, None if overlap < 0 else overlap)

    def geometry(self, timeout: float | None = None) -> tuple[NDArray[np.floating[Any]], NDArray[np.uint32]]:
        """(n, 3) rest positions and (m, 3) triangles, as the server has them; for meshes registered from a file. float64 where
        float32 does not hold the positions that were registered, else float32."""

        def done(answer: Decoded) -> tuple[np.ndarray, np.ndarray]:
            vertices, triangles = (np.asarray(answer.array(name)).reshape(-1, 3) for name in ("vertices", "triangles"))
            return vertices, triangles

        self.client._own(self)
        request = Request("GetMesh", lambda: ({"mesh": self._state.id, "with_geometry": True, "takes_doubles": True}, None), done,
                          timeout=self.client._timeout(timeout))
        request.mesh = self._state
        geometry: tuple[NDArray[np.floating[Any]], NDArray[np.uint32]] = self.client._link.call(request)
        return geometry

    def remove(self, timeout: float | None = None) -> None:
        """Frees it on the server, with several on each that answers; ConflictError while bodies use it.

        With several, bodies of this client are looked for first, and where there are any no server is asked. Where bodies of
        other clients keep it on a server, it may be called again; servers that freed it before get it again when it is used.
        """
        client, servers = self.client, self.client._servers
        client._own(self)
        states = {client._link: self._state, **self._copies}

        def forget(link: Link) -> None:
            link.meshes.remove(states[link])

        if servers is None:
            client._link.call(Request("RemoveMesh", lambda: ({"mesh": self._state.id}, None), lambda _: forget(client._link),
                                      timeout=client._timeout(timeout)))
            return
        used = sum(body.mesh is state for link, state in states.items() for scene in list(link.scenes)
                   for body in list(scene.bodies))
        if used:
            raise error_for(ErrorCode.CONFLICT, f"{used} bodies of this client use the mesh: remove them or close their "
                            "scenes first", object=str(self), field="mesh")
        for link in servers.visit_each():
            try:
                link.call(Request("RemoveMesh", lambda: ({"hash": self.hash}, None), timeout=client._timeout(timeout)))
            except (NotFoundError, StaleHandleError, ForbiddenError):
                pass  # not there, or only others'
        for link in states:
            forget(link)
        self._copies.clear()

    def __str__(self) -> str:
        return f"mesh {self.name or self.hash[:8]}"

    def __repr__(self) -> str:
        return f"<Mesh {self.name or self.hash[:8]}, {self.vertex_count} vertices, {self.triangle_count} triangles>"


class Client(SceneOpener, ShapeMaker):
    """A session with a server. All methods may be called from any thread; use it in a `with` block, or close it.

    Attributes:
        address: the server's.
        timeout: seconds that a call may take unless told otherwise.
    """

    _own_server: _embedded.EmbeddedServer | None = None  # that it holds
    _together: tuple[Together, ...] = ()  # of the last calls of step_many, the last one first: programs step one half beside the other

    def __init__(self, address: str | Sequence[str], *, timeout: float = 30.0, lease: float = 0.0, name: str | None = None,
                 spin: float = 2e-3, server_key: str | os.PathLike[str] | None = None,
                 client_key: str | os.PathLike[str] | None = None, placement: str = "load",
                 connections: int | None = None, wait: float | None = None) -> None:
        super().__init__()
        self.address = address if isinstance(address, str) else ",".join(map(str, address))
        self.timeout = timeout = _arrays.seconds(timeout, field="timeout")
        spin = _arrays.seconds(spin, field="spin")
        if placement not in ("load", "hash"):
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected load or hash, got {placement!r}", field="placement")
        if connections is not None and not 1 <= _arrays.unsigned(connections, field="connections") <= MAX_BUCKETS:
            raise error_for(ErrorCode.OUT_OF_RANGE, f"expected 1 to {MAX_BUCKETS}, got {connections}", field="connections")
        if wait is not None and not (wait := _arrays.real(wait, field="wait")) >= 0:
            raise error_for(ErrorCode.OUT_OF_RANGE, f"expected 0 or more seconds, got {wait:g}", field="wait")
        keys = keys_of(server_key, client_key)
        own_name = f"contactd-python {VERSION}" if name is None else _arrays.text(name, field="name")
        self._servers: Servers | None = None
        if not is_several(address):
            self._link = Link(with_scheme(address), name=own_name, lease_s=lease, spin_s=spin, keys=keys,  # type: ignore
                              wait_s=wait)
            return

        def make(where: str, servers: Servers, bucket: int) -> Link:
            link = Link(where, name=own_name, lease_s=lease, spin_s=spin, keys=keys,
                        elsewhere=lambda at, why: servers.elsewhere(bucket, at, why), learn=servers.learn)
            link.traceparent = self._link.traceparent if hasattr(self, "_link") else None
            return link

        self._servers = Servers(Addresses(address), make, keys, placement=placement, connections=connections, timeout=timeout)
        self._link = self._servers.first()  # for what is not about a scene

    # ---- meshes ----

    def register_mesh(self, vertices: ArrayLike, triangles: ArrayLike, *, name: str = "", repair: bool = False,
                      max_hole: float = 0, weld: float = 0, open_direction: Sequence[float] | None = None,
                      scale: float | None = None, unit: Unit = "m", closing: Closing | None = None, resolution: float = 0,
                      timeout: float | None = None) -> Mesh:
        """Registers a closed surface, its triangles counter-clockwise seen from outside.

        Args:
            vertices: (n, 3) in `unit`; kept in m, as float32 or, where that does not hold them, in double precision. Their order is that of gradients.
            triangles: (m, 3) integers.
            repair: drop degenerate and duplicate triangles (of faces that are there for both sides one stays, unless they are a
                sheet), weld vertices at the same position on open edges, make directions consistent and outward (a cavity keeps
                its own, but in a body that was mirrored as a whole), and fill holes with triangles between their vertices. Vertices keep their number and order. Mesh.repair tells what was changed, and where. A
                changed mesh has the hash of what became of it.
            max_hole: m, the widest hole that the repair fills; 0: a tenth of the mesh's diagonal.
            weld: m, the distance within which the repair welds vertices on open edges; 0: 1e-4 of the mesh's diagonal.
                Mesh.repair.moved tells how far it went.
            open_direction: the mesh is an open surface, such as a heightfield or a bowl, that bounds the volume behind
                it, along this direction, down to ten diagonals below its furthest point. Its triangles face against the
                direction or stand along it, and seen along it the rim is made of simple loops. The server closes it
                with Mesh.closing_vertices, the last of the mesh's, which no entry of a contact has: what they have is
                added to the rim's vertices. A deformable body takes positions of the vertices as registered: walls
                stay along the direction wherever the rim moves, and the cap keeps its distance from the rim. With repair no
                hole is filled, and parts that face along the direction are turned.
            unit, scale: what a 1 in the vertices is: a unit by name, or a number of m (1e-3 for mm). All else is in m.
            closing: "hull": the mesh is the convex hull, exact, of the vertices that triangles use, whatever these do: for surfaces
                that cannot be repaired. Vertices keep their number and order.
                "wrap": the mesh is a closed surface around the triangles, with vertices of its own. Inside is what cannot be reached from
                afar without passing a triangle or a gap narrower than 3 resolutions. Where nothing is behind a triangle, as of a sheet,
                the surface runs around it at 0.9 resolutions, at its rim up to twice as far; edges and corners are cut by a resolution at most. Mesh.deviation
                tells how far it is from the triangles.
                Neither takes a repair or an open_direction. Mesh.closing tells it.
            resolution: m, of a wrap: the side of its grid's cubes; 0: a hundredth of the diagonal.
        Raises: InvalidMeshError (a ValueError) naming the defect, the first offenders and the remedy; NonFiniteError;
            OutOfRangeError; LimitExceededError.
        """
        points = _arrays.points(vertices, field="vertices", object=f"mesh {name}".strip())
        faces = _arrays.indices(triangles, field="triangles", object=f"mesh {name}".strip(), columns=3)
        making = _making(repair, max_hole, weld, open_direction, scale, unit, closing, resolution, f"mesh {name}".strip())
        return self._register(MeshState(_arrays.text(name, field="name"), points.copy(), faces.copy(), making=making), timeout)

    def load(self, path: str | os.PathLike[str], *, format: str = "auto", name: str | None = None,
             repair: bool = False, max_hole: float = 0, weld: float = 0,
             open_direction: Sequence[float] | None = None, scale: float | None = None, unit: Unit = "m",
             closing: Closing | None = None, resolution: float = 0,
             timeout: float | None = None) -> Mesh:
        """Registers a GLB, glTF, OBJ, OFF, PLY or STL file of this machine; the server reads it, in double precision where the file's digits
        say so (docs/meshes.md). Of a .gltf file, buffers in files beside it are read, too. repair, max_hole, weld, open_direction,
        scale, unit, closing and resolution: as of register_mesh.

        Raises: OSError where it cannot be opened; ParseError naming the line or byte; as register_mesh.
        """
        path = pathlib.Path(path)
        known = {m.name.lower(): m.value for m in ENUMS["MeshFormat"]}
        if format.lower() not in known:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected {', '.join(known)}, got {format!r}", field="format")
        data = np.frombuffer(_gltf.embed(path, path.read_bytes()), "u1")
        own_name = os.fsencode(path.name).decode(errors="replace")  # which may be no text
        state = MeshState(own_name if name is None else _arrays.text(name, field="name"), file=data, format=known[format.lower()],
                          making=_making(repair, max_hole, weld, open_direction, scale, unit, closing, resolution, f"mesh {own_name}"))
        return self._register(state, timeout)

    register_mesh_file = load  # its name before

    def _known_mesh(self, state: MeshState) -> Mesh | None:
        return Mesh(self, state) if state in self._link.meshes else None

    def _register(self, state: MeshState, timeout: float | None) -> Mesh:
        def done(answer: Decoded) -> Mesh:
            state.id, state.info = answer.body["mesh"], answer.body
            state.check_made(state.info)
            self._link.meshes.add(state)
            mesh = Mesh(self, state)
            doubled, shells = state.info.get("doubled_shells"), state.info.get("shells")
            if doubled:
                warnings.warn(f"{mesh}: {doubled} of its {shells} shells lie where another does, so that what is inside counts "
                              "twice: repair=True drops them", stacklevel=4)
            return mesh

        mesh: Mesh = self._link.call(Request("RegisterMesh", state.message, done, timeout=self._timeout(timeout)))
        return mesh

    def meshes(self, timeout: float | None = None) -> list[dict[str, Any]]:
        """All meshes on the server, of all clients: mesh, hash, name, vertices, triangles, bytes, volume, area, lo, hi,
        bodies (that use it now)."""
        return self._ask_each("ListMeshes", lambda answer: list(answer.body["meshes"] or ()), timeout)

    # ---- scenes ----

    def _open_scene(self, given: dict[str, Any], name: str, timeout: float | None) -> Scene:
        state = SceneState(_arrays.text(name, field="name"), _settings.message(given, self.server.get("methods")))
        state.link = self._link_for(state)
        return self._open_state(state, timeout)

    def _open_state(self, state: SceneState, timeout: float | None) -> Scene:
        reply = Reply()

        def done(answer: Decoded) -> Scene | None:  # without the request, which has it: each would keep the other
            if reply.done():
                return None  # given up: `undo` closes it
            body = answer.body
            _settings.check_known(state.settings, body["settings"])
            state.id = body["scene"]
            state.adopt(_settings.of_answer(body["settings"]), body["running_method"], body["revision"])
            state.link.scenes.append(state)
            return Scene(self, state)

        def undo(answer: Decoded) -> Request:
            scene = answer.body["scene"]
            return Request("CloseScene", lambda: ({"scene": scene}, None), timeout=self.timeout)

        request = Request("OpenScene", lambda: (state.open_message(), None), done, undo=undo,
                          timeout=self._timeout(timeout), future=reply)
        scene: Scene = state.link.call(request)
        return scene

    def open_scenes(self, count: int, template: Scene, timeout: float | None = None) -> Scenes:
        """Copies of a scene: its settings, and its bodies with their meshes, poses (those of the last step), groups, masks,
        materials and what they ignore. Deformable bodies start at their meshes' positions. Meshes are shared. One request for all of
        them, which waits for steps submitted before. For step_many."""
        if not isinstance(template, Scene):
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected a Scene, got {template!r}", field="template")
        template._check_open()
        n, link = _arrays.unsigned(count, field="count"), template._state.link
        copies = _link_scenes.copy(link, template._state, n, self._timeout(timeout)) if n else []
        if copies is not None:
            return Scenes(Scene(self, state) for state in copies)
        return Scenes(self._copy(template, timeout) for _ in range(n))

    def _copy(self, template: Scene, timeout: float | None) -> Scene:
        """On a server that makes none itself."""
        state = SceneState(template.name, dict(template._state.settings))
        state.link = template._state.link  # which has the meshes
        scene = self._open_state(state, timeout)
        copies: dict[int, Any] = {}
        for body in template._state.bodies:
            copy = copies[body.id] = body.anew([copies[other.id] for other in body.ignore if other.id in copies])
            scene._add(copy, timeout)
        for pair, material in template._state.pairs.items():
            both = [Body(scene, copies[body.id]) for body in pair]
            scene.set_pair(both[0], both[-1], **material, timeout=timeout)
        return scene

    def reset(self, scenes: Sequence[Scene], timeout: float | None = None) -> None:
        """Takes all bodies of the scenes back to where they were when they were added, or copied by open_scenes: rigid ones to their
        poses, deformable ones to their meshes' positions. Settings, materials and steps' numbers stay, continuous frames begin anew.
        It waits for steps submitted before, and is one request for all scenes of which none is on its way. Where it fails, some of them
        may be reset.

        Raises: UnsupportedError where the server is too old.
        """
        for link, states in self._by_link(scenes).items():
            _link_scenes.reset(link, states, self._timeout(timeout))

    def close_scenes(self, scenes: Sequence[Scene], timeout: float | None = None) -> None:
        """Closes all of them in one request, as Scene.close does one; those that are closed already are left out."""
        open_ones = [scene for scene in _list_of(scenes) if not scene._state.closed]
        for link, states in self._by_link(open_ones).items():
            for state in states:
                state.close()
            _link_scenes.close(link, states, self._timeout(timeout))
            for state in states:
                self._forget_scene(state)

    def _by_link(self, scenes: Sequence[Scene]) -> dict[Any, list[SceneState]]:
        """The scenes' states, each once, by where they are."""
        states: dict[Any, dict[int, SceneState]] = {}
        for scene in _list_of(scenes):
            if scene.client is not self:
                raise error_for(ErrorCode.INVALID_ARGUMENT, "a scene of another client", object=str(scene), field="scenes")
            scene._check_open()
            states.setdefault(scene._state.link, {})[id(scene._state)] = scene._state
        return {link: list(part.values()) for link, part in states.items()}

    def step_many(self, scenes: Sequence[Scene], poses: Any = None, *, positions: ArrayLike | None = None, velocities: Any = None,
                  want: Want | Sequence[Want] | None = None, timeout: float | None = None,
                  return_errors: bool = False) -> ManyResult:
        """A step of each of many scenes, whose bodies are alike: as open_scenes makes them. It is one batch, and on a
        server one message with one answer. Where a server is older, the scenes are on several servers or have continuous frames, or
        steps of them are on their way, it is a step for each scene, all on their way at once. The bits are those of steps one by one.

        Args:
            scenes: n different ones.
            poses: (n, b, 3, 4), (n, b, 4, 4) or (n, b, 7), of the b rigid bodies of each scene in their order; or (places, array)
                of the bodies at these places of `scene.bodies`, half-spaces among them.
            positions: (n, v, 3) m, of all vertices of all deformable bodies of each scene, one body's after the other's.
            velocities: (n, b, 6) twists, as poses. They add "frame" to `want`.
            want: "frame" by default; "volume", "inertia", "ids". For gradients and forces step a scene.
            timeout: seconds, of all of it.
            return_errors: what a scene's step fails with is in the result's `errors`; else the first error is raised, after all
                steps are done. A step that failed has changed nothing in its scene.
        """
        bits = check_want(want)
        these = _list_of(scenes)
        together = Together.of(these, self._together)
        self._together = together, *[one for one in self._together if one is not together and one.is_current][:MOST_TOGETHER - 1]
        if together.clients - {id(self)}:
            other = next(scene for scene in these if scene.client is not self)
            raise error_for(ErrorCode.INVALID_ARGUMENT, "a scene of another client", object=str(other), field="scenes")
        motion = Motion(together, these, poses, positions, velocities)
        if motion.twists is not None:
            bits |= FRAME
        result = self._step_batch(motion, bits, self._timeout(timeout))
        if result is None:
            result = step_each(motion, "frame" if want is None else want, timeout)
        if result.errors and not return_errors:
            raise result.errors[min(result.errors)]
        return result

    def _step_batch(self, motion: Motion, want: int, timeout: float) -> ManyResult | None:
        """All of them at once. None: they must be stepped one by one."""
        links = motion.together.links
        return step_many(next(iter(links)), motion, want, timeout) if len(links) == 1 else None

    def _step_each(self, steps: Sequence[tuple[Scene, dict[str, Any]]]) -> list[StepResult]:
        """Steps of different scenes, each with arguments of its own as of Scene.submit, all on their way at once. The first error
        is raised when all are done."""
        for link in {scene._state.link for scene, _ in steps}:
            link.check_thread()
        futures = [scene.submit(**arguments) for scene, arguments in steps]
        return raise_first([future.exception() or future.result() for future in futures])

    def overlap(self, a: Mesh, b: Mesh, pose_a: ArrayLike | None = None, pose_b: ArrayLike | None = None, *,
                method: Method | None = None, resolution: int | Sequence[int] | None = None,
                pixel_size: float | None = None, max_step_time: float | None = None,
                timeout: float | None = None) -> Overlap:
        """The intersection of two meshes, each as it is or at a pose, (4, 4) or (3, 4), in one call. No scene stays.

        method, resolution, pixel_size, max_step_time: as of Scene.configure, but for "ebpi", which needs a tolerance. timeout: of each of the
        five requests it takes.
        """
        if method == "ebpi":
            raise error_for(ErrorCode.INVALID_ARGUMENT,
                            'an overlap takes "auto", "ldi", "exact" or "voxtree", and no tolerance, which "ebpi" needs: open a '
                            "scene for it", field="method")
        with self.open_scene(method, resolution, pixel_size, name="overlap", max_step_time=max_step_time,
                             timeout=timeout) as scene:
            bodies = [scene.add_body(mesh, np.eye(4) if pose is None else pose, timeout=timeout)
                      for mesh, pose in ((a, pose_a), (b, pose_b))]
            result = scene.step(want="frame", timeout=timeout)
        if not result.contacts:
            return Overlap(0.0, None, 0.0, None, 0.0, 0.0, np.zeros(3), np.zeros((2, 6)), result.method)
        (c,) = result.contacts
        return Overlap(c.volume, c.error_bound, c.error_estimate, c.center, c.area, c.depth, c.normal,
                       np.stack([c.generalized_gradient(body) for body in bodies]), result.method)

    def scenes(self, timeout: float | None = None) -> list[dict[str, Any]]:
        """All scenes on the server, of all clients: scene, name, settings, running_method, bodies, bytes, steps, contacts,
        mine, owner."""
        found = self._ask_each("ListScenes", lambda answer: [_settings.public(s) for s in answer.body["scenes"] or ()], timeout)
        if self._servers is not None:  # the server knows only those of the connection that asked
            mine = {(link.address, scene.id) for link in self._links() for scene in list(link.scenes)}
            found = [scene | {"mine": (scene["server"], scene["scene"]) in mine} for scene in found]
        return found

    # ---- the server ----

    @property
    def server(self) -> dict[str, Any]:
        """What the server said on connecting: server, backend, rasterizer, device, methods, epoch and its limits."""
        return dict(self._link.welcome)

    def status(self, timeout: float | None = None) -> dict[str, Any]:
        """The server's state: backend, ready, sessions, scenes, meshes, mesh_bytes, queue_depth, steps and more; methods are
        those of its backend, and auto_method is the one that "auto" runs without a resolution; devices lists what
        computes, each with its memory, scenes and whether it is lost; insecure tells that it was started with
        --insecure."""
        each = self._ask_each("GetStatus", lambda answer: [answer.body | {"devices": answer.body["devices"] or []}], timeout)
        return each[0] if self._servers is None else _together(each)

    def servers(self) -> list[dict[str, Any]]:
        """The servers that this client was given: address, up, why it is not, and how many of this client's scenes it has."""
        if self._servers is None:
            return [{"address": self.address, "up": not self.closed, "why": "", "scenes": len(self._link.scenes)}]
        return self._servers.facts()

    @property
    def moves(self) -> int:
        """How often a connection, with its scenes if it has any, was given to another server."""
        return 0 if self._servers is None else self._servers.moves

    def ping(self, timeout: float | None = None) -> float:
        """Seconds to the server and back."""
        began = time.monotonic()
        self._link.call(Request("Ping", lambda: ({"nonce": 1}, None), timeout=self._timeout(timeout)))
        return time.monotonic() - began

    @property
    def traceparent(self) -> str | None:
        """The trace that requests belong to, for the server's log: "00-<32 digits>-<16 digits>-<2 digits>" of W3C Trace
        Context, or None."""
        return self._link.traceparent

    @traceparent.setter
    def traceparent(self, value: str | None) -> None:
        if value is not None and not re.fullmatch(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}",
                                                  value):
            raise error_for(ErrorCode.INVALID_ARGUMENT, "not of the form 00-TRACE_ID-PARENT_ID-FLAGS of W3C Trace Context",
                            object="client", field="traceparent")
        for link in self._links():
            link.traceparent = value

    @property
    def reconnects(self) -> int:
        """How often the server had lost this session and everything was registered again."""
        return sum(link.reconnects for link in self._links())

    # ---- the end ----

    @property
    def closed(self) -> bool:
        return self._link.closed

    def close(self) -> None:
        """Closes this client's scenes on the server and ends what is in flight with ClosedError. Takes a second at most."""
        if self._servers is not None:
            self._servers.close()
        else:
            self._link.close()
        self._let_go()

    def _let_go(self, wait: bool = True) -> None:
        server, self._own_server = self._own_server, None
        if server is not None:
            server.release(wait)

    def __enter__(self) -> "Client":
        return self

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise error_for(ErrorCode.INVALID_ARGUMENT, "a client, its scenes, bodies and meshes belong to this process, and cannot be copied "
                        "or pickled: make a client where they are to be; results can be pickled", object=repr(self))

    def __del__(self) -> None:
        if not callable(os.getpid):
            return  # Python ends, has taken its modules apart, and this was kept by one that it leaves for later
        servers, link = getattr(self, "_servers", None), getattr(self, "_link", None)
        if servers is not None:
            servers.close(wait=False)
        elif link is not None:
            link.close(wait=False)
        self._let_go(wait=False)

    def __repr__(self) -> str:
        return f"<Client of {self.address}>"

    def _ask(self, kind: str, done: Any, timeout: float | None) -> Any:
        return self._link.call(Request(kind, lambda: ({}, None), done, timeout=self._timeout(timeout)))

    def _ask_each(self, kind: str, done: Callable[[Decoded], list[dict[str, Any]]], timeout: float | None) -> list[dict[str, Any]]:
        """What all servers answer; with several, each item names its server."""
        if self._servers is None:
            found: list[dict[str, Any]] = self._ask(kind, done, timeout)
            return found
        request = {where: link.call(Request(kind, lambda: ({}, None), done, timeout=self._timeout(timeout)))
                   for where, link in self._servers.link_of_each()}
        return [item | {"server": where} if kind != "GetStatus" else item | {"address": where}
                for where, items in request.items() for item in items]

    def _links(self) -> list[Link]:
        return [self._link] if self._servers is None else self._servers.links

    def _link_for(self, scene: SceneState) -> Link:
        return self._link if self._servers is None else self._servers.link_for(scene)

    def _forget_scene(self, scene: SceneState) -> None:
        self._together = ()  # which may have it
        if self._servers is not None:
            self._servers.closed(scene)

    def _mesh_on(self, link: Link, mesh: Mesh, timeout: float | None) -> MeshState:
        """The mesh as this connection knows it; on servers that do not have it, it is registered first."""
        if link is self._link:
            return mesh._state
        if link not in mesh._copies:
            known = mesh._state
            copy = MeshState(known.name, known.vertices, known.triangles, known.file, known.format, info=known.info,
                             making=known.making)

            def done(answer: Decoded) -> None:
                copy.id = answer.body["mesh"]
                link.meshes.add(copy)

            try:
                link.call(Request("GetMesh", lambda: ({"hash": mesh.hash}, None), done, timeout=self._timeout(timeout)))
            except (NotFoundError, StaleHandleError, ForbiddenError):
                link.call(Request("RegisterMesh", copy.message, done, timeout=self._timeout(timeout)))
            mesh._copies[link] = copy
        return mesh._copies[link]

    def _timeout(self, timeout: float | None) -> float:
        if timeout is None:
            return self.timeout
        if (seconds := _arrays.real(timeout, field="timeout")) != seconds:
            raise error_for(ErrorCode.NON_FINITE, "expected seconds, got nan", field="timeout")
        return seconds

    def _own(self, mesh: Mesh) -> None:
        if not isinstance(mesh, Mesh):
            raise error_for(ErrorCode.INVALID_ARGUMENT, "expected a Mesh, of register_mesh(vertices, triangles) or load(path), got "
                            f"{reprlib.repr(mesh)}", field="mesh")
        if mesh.client is not self:
            raise error_for(ErrorCode.NOT_FOUND, "the mesh was registered by another client: register it here too, "
                            "which costs no memory", object=str(mesh), field="mesh")
        if mesh._state not in self._link.meshes:
            raise error_for(ErrorCode.STALE_HANDLE, "the mesh was removed", object=str(mesh), field="mesh")


def mesh_from(client: Client, mesh: Any, name: str, unit: Unit) -> Mesh:
    """What the judge and adapters take as a mesh: a Mesh, the path of a file, or (vertices, triangles)."""
    if isinstance(mesh, Mesh):
        return mesh
    if isinstance(mesh, (str, os.PathLike)):
        return client.load(mesh, name=name, unit=unit)
    if not isinstance(mesh, (tuple, list)) or len(mesh) != 2:
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected a file's path, (vertices, triangles) or a contactd.Mesh, got {reprlib.repr(mesh)}",
                        object=name)
    return client.register_mesh(*mesh, name=name, unit=unit)


def _list_of(scenes: Any) -> list[Scene]:
    """Of what should be scenes."""
    each: list[Scene] = list(scenes) if isinstance(scenes, Iterable) else [scenes]
    if isinstance(scenes, Scene) or not all(issubclass(kind, Scene) for kind in set(map(type, each))):
        stranger = next((scene for scene in each if not isinstance(scene, Scene)), scenes)
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected a list of scenes, got {reprlib.repr(stranger)}", field="scenes")
    return each


def raise_first(answers: list[Any]) -> list[StepResult]:
    """The answers, where no error is among them."""
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return answers


def _together(each: list[dict[str, Any]]) -> dict[str, Any]:
    """The status of several servers as that of one, and of each by itself in `servers`."""
    out = dict(each[0])
    for name, value in each[0].items():
        values = [status[name] for status in each]
        if name in ("uptime_s", "max_resolution", "max_message_bytes", "epoch"):
            out[name] = min(values)
        elif isinstance(value, bool):
            out[name] = all(values) if name == "ready" else any(values)
        elif isinstance(value, (int, float)):
            out[name] = sum(values)
        elif name == "devices":
            out[name] = [device for devices in values for device in devices]
        elif isinstance(value, str):
            out[name] = ", ".join(dict.fromkeys(filter(None, values)))
    out.pop("address")
    return out | {"servers": each}
