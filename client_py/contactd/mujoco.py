"""contactd as the contacts of a MuJoCo model: exact intersections of meshes as they are, not of their convex hulls.

    contacts = contactd.mujoco.attach(model, data)      # then mujoco.mj_step(model, data) as usual
    ...
    contacts.detach()

Geoms are taken as bodies of a scene: meshes, boxes, spheres, capsules, cylinders, ellipsoids, height fields and planes. Which of them may
touch is as MuJoCo has it: contype and conaffinity, bodies that are one or parent and child, <exclude>, <pair>. What is not taken (other
kinds of geoms, flexes that `flexes` does not name, geoms that `geoms` and `groups` leave out) stays with MuJoCo, its contacts with geoms that are taken too.

how="constraints": each connected part of an intersection is one contact of MuJoCo's solver, of 6 dimensions (condim 6): at its centre, along
its normal, with friction, and with limits of twisting and tilting that follow from the contact's extents (Bouchard et al. 2015); with
patches=False all that two geoms have with each other is one. Friction (none where condim is 1), solref, solimp and priority are the geoms'. It is
done in MuJoCo's control callback, between positions and accelerations; a callback that was set before is called first; one that is set later
with mujoco.set_mjcb_control ends it, until the next model is attached.

how="wrenches": the contact law "pressure" acts as forces, with friction as MuJoCo mixes it. They are explicit: modulus times area, N/m,
has to be well below the mass over the time step's square. It is done in MuJoCo's passive callback, likewise. Flexes that `flexes` names get forces
on their vertices.

Both count for all MjData of the model, also those that mj_step is given in turn or by several threads. A copy of a model that is attached has
neither these contacts nor MuJoCo's: copy it before. Frictions, solref and solimp may change while
the model is attached; margins are not taken. mj_inverse calls no control callback: it knows of wrenches alone. Other models may be loaded, and
are stepped as before. (Where a callback of Python was set before, or there is no libcontact, the callback is called for all models, and
MuJoCo can compile none, "Python exception raised": load them before.) Needs the package mujoco.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import math
import operator
import pathlib
import threading
import warnings
from typing import Any, Literal, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _arrays, _native
from ._as_found import Makings, makings
from ._judge import Report, judge_scene
from ._mujoco_flex import Flexes, choose_flexes, name_of_flex
from ._mujoco_model import Geoms, Takeover, choose, mujoco, name_of
from ._mujoco_parameters import LEAST_FRICTION, frictions_of, read_parameters, softness_of
from ._own_engine import own_engine
from ._want import Want
from .client import Client, Closing
from .errors import ErrorCode, UnsupportedError, error_for
from .result import StepResult

How = Literal["constraints", "wrenches"]
STICTION = 100.0  # m/s^2, times the time step: friction is explicit, and a stack's lowest body bears the weight of all
CURVED = 0.995  # length of the mean of a pair's normals, below which its contacts are points
LEAST = 1e-5  # m, of what limits twisting and tilting
_CORNERS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])

__all__ = ["Attachment", "attach", "judge"]


class _Callback:
    """One of MuJoCo's callbacks, shared by all attachments; there is one for the process."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number, self.before = name, number, None
        self._calls_python: int | None = None  # MuJoCo's function that does
        self.attached: list[Attachment] = []
        self._running = threading.local()

    def __call__(self, model: Any, data: Any) -> None:
        running: set[int] = self._running.__dict__.setdefault("data", set())
        if id(data) in running:
            return  # by the callback that was there before, which was made around this one
        running.add(id(data))
        try:
            if callable(self.before):
                self.before(model, data)
            for attachment in self.attached:
                if attachment.model is model:
                    attachment._act(data)
        finally:
            running.remove(id(data))

    def add(self, attachment: "Attachment") -> None:
        self.attached.append(attachment)
        current = getattr(mujoco, f"get_mjcb_{self.name}")()
        if current is not self:
            self.before = current
            getattr(mujoco, f"set_mjcb_{self.name}")(self)
        self._filter()

    def remove(self, attachment: "Attachment") -> None:
        self.attached.remove(attachment)
        if not self.attached and getattr(mujoco, f"get_mjcb_{self.name}")() is self:
            getattr(mujoco, f"set_mjcb_{self.name}")(self.before)
        self._filter()

    def _filter(self) -> None:
        """MuJoCo also calls while it compiles a model, which fails for a callback of Python, as that knows of no such model. So what calls
        Python is called for models alone that are attached, and by the engine's library: errors leave MuJoCo's functions by longjmp."""
        libraries = _libraries()
        if libraries is None or not self.attached or self.before is not None or getattr(mujoco, f"get_mjcb_{self.name}")() is not self:
            return
        (ffi, lib), mujocos = libraries
        place, hook = ctypes.c_void_p.in_dll(mujocos, f"mjcb_{self.name}"), int(ffi.cast("uintptr_t", lib.ct_hook(self.number)))
        if place.value != hook:
            self._calls_python = place.value
        models = [ffi.cast("void *", attachment.model._address) for attachment in self.attached]
        fits = lib.ct_hook_set(self.number, ffi.cast("ct_hook_call", self._calls_python), models, len(models))
        place.value = hook if fits else self._calls_python


_CALLBACKS = {"constraints": _Callback("control", 0), "wrenches": _Callback("passive", 1)}


@functools.cache
def _libraries() -> tuple[Any, ctypes.CDLL] | None:
    """The engine's and MuJoCo's, as this process has it. None: there is no engine's, in a client of a server, or an older one."""
    try:
        engine = _native.load()
    except UnsupportedError:
        return None
    maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
    path = next((line.split(maxsplit=5)[5] for line in maps if "/libmujoco.so" in line), None)
    return (engine, ctypes.CDLL(path)) if path and hasattr(engine[1], "ct_hook") else None


class _Known(threading.local):
    """Contacts to fill in by places of two geoms, of one thread, while the parameters of geoms are these."""

    def __init__(self) -> None:
        self.parameters = b""
        self.pairs: dict[tuple[int, int], tuple[Any, float]] = {}  # with the friction


class Attachment:
    """What attach returns. Use it in a `with` block, or detach it, or leave it for good.

    Attributes:
        scene: of contactd, whose bodies are the geoms.
        geoms: their numbers in the model, in the order of scene.bodies.
        meshes: of geoms that are meshes, by their numbers: Mesh.repair and Mesh.closing say what was done to one that was not closed.
        result: of the last step: volumes, depths, wrenches and so on; None before the first.
    """

    def __init__(self, model: Any, data: Any, geoms: Sequence[int], how: How, client: Client, material: dict[str, Any],
                 making: Makings, solref: ArrayLike | None, solimp: ArrayLike | None, ignore_bits: bool, patches: bool, points: int, flexes: Sequence[int]) -> None:
        self._solref, self._solimp = (None if v is None else np.array(_arrays.vector(v, (n,), field=name)) for v, n, name in (
            (solref, 2, "solref"), (solimp, 5, "solimp")))
        for field, given in (("solref", self._solref), ("solimp", self._solimp)):
            if given is not None and not np.isfinite(given).all():  # with which MuJoCo does not return
                raise error_for(ErrorCode.NON_FINITE, f"expected finite numbers, got {given.tolist()}", field=field)
        self.model, self.how, self.geoms = model, how, list(geoms)
        self._want: tuple[Want, ...] = ("frame", *(("points",) if points else ()), *(("forces", "friction") if flexes else ()))
        self.result: StepResult | None = None
        self.scene = client.open_scene(method="exact", law="pressure", patches=patches, name="MuJoCo", max_points=points or None,
                                       stiction_speed=STICTION * model.opt.timestep)
        try:
            self._geoms = Geoms(model, data, self.scene, geoms, making, ignore_bits, **material)
            self.meshes = self._geoms.meshes
            self._flexes = Flexes(model, data, self.scene, flexes, self._geoms, making, **material) if flexes else None
            self._read = read_parameters(model)
            if how == "wrenches":
                self._begin_frictions()
            self._takeover = Takeover(model, geoms, flexes)
            self._is_taken = np.zeros(model.ngeom + 1, bool)  # the last is that of no geom, -1
            self._is_taken[self.geoms] = True
        except BaseException:
            self.scene.close()
            raise
        self._known = _Known()
        self._adheres = _adheres(model)
        self._act = self._add_constraints if how == "constraints" else self._add_wrenches
        self._nested: set[tuple[int, int]] = set()
        _CALLBACKS[how].add(self)

    def detach(self) -> None:
        """Gives the model's contacts back to MuJoCo. Detaching twice is allowed."""
        if self in _CALLBACKS[self.how].attached:
            _CALLBACKS[self.how].remove(self)
            self._takeover.undo()
            self.scene.close()

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def __repr__(self) -> str:
        return f"<Attachment of {len(self.geoms)} geoms by {self.how}>"

    # ---- what callbacks do ----

    def _step(self, data: Any, velocities: bool) -> StepResult:
        geoms = self._geoms
        poses = geoms.poses(data)[geoms.moving]
        twists: Any = (geoms.movers, geoms.twists(data, poses[:, :, 3])) if velocities else None
        soft: Any = None
        if self._flexes:
            soft = self._flexes.positions(data)
            twists = dict(zip(*twists)) | self._flexes.velocities(data)
        result = self.scene.step(positions=soft, poses=(geoms.movers, poses), velocities=twists, want=self._want)
        if len(result) and not (result.areas > 0).all():
            self._warn(result)
        self.result = result
        return result

    def _warn(self, result: StepResult) -> None:
        for row in np.flatnonzero(result.are_nested):
            a, b = result.body_pairs[row].tolist()
            if (a, b) not in self._nested and not self._is_in_plane(a, b):
                self._nested.add((a, b))
                warnings.warn(f"of {self._name_of(a)} and {self._name_of(b)} one is wholly inside the other, and the shortest way out, which it is "
                              "pushed, may be the wrong one: take smaller time steps, or let them start apart", stacklevel=2)

    def _is_in_plane(self, a: int, b: int) -> bool:
        """Whether one is a plane, which pushes the other out."""
        return any(k < len(self.geoms) and self._geoms.is_plane[k] for k in (a, b))

    def _name_of(self, body: int) -> str:
        flex = body - len(self.geoms)
        return name_of(self.model, self.geoms[body]) if flex < 0 or self._flexes is None else f"flex {name_of_flex(self.model, self._flexes.ids[flex])!r}"

    def _add_constraints(self, data: Any) -> None:
        # Contacts between taken geoms are this attachment's. Where MuJoCo skips the position stage, as mjd_transitionFD has it do, it keeps them.
        left = self._drop_pairs(data)
        if data.ncon and (self._is_taken[data.contact.geom].all(axis=1) & (data.contact.exclude != 1)).any():
            return
        result = self._step(data, velocities=False)
        if not len(result):
            if left:
                self._constrain(data)
            return
        areas, depths, normals = result.areas, self._geoms.bounded(data, result), result.normals
        centers, extents, axes = result.centers, result.extents, result.axes
        frames = np.concatenate([-normals, axes[:, 0], _cross(axes[:, 0], normals)], axis=1)
        twisting = np.hypot(extents[:, 0], extents[:, 1]) / 2
        self._look_at_parameters()
        is_curved = self._add_points(data, result)
        for row, (a, b) in enumerate(result.body_pairs.tolist()):
            if is_curved[row]:
                continue
            contact, friction = self._known.pairs.get((a, b)) or self._pair(a, b)
            if not areas[row] > 0:
                self._push_out(data, result, row, contact)
                continue
            contact.dist, contact.frame = -depths[row], frames[row]
            if friction <= LEAST_FRICTION:
                self._put_corners(data, contact, centers[row], extents[row][:, None] * axes[row])
                continue
            contact.dim, contact.pos = 6, centers[row]
            # A torque about the first axis shifts the centre of pressure along the second, and the other way round.
            contact.friction = (friction, friction, max(friction * twisting[row], LEAST), max(extents[row, 1], LEAST),
                                max(extents[row, 0], LEAST))
            self._put(data, contact)
        self._constrain(data)

    def _put_corners(self, data: Any, contact: Any, center: NDArray[np.float64], along: NDArray[np.float64]) -> None:
        """A contact without friction: normal forces alone, at the corners of its rectangle; along: (2, 3), half its sides. MuJoCo gives all that a
        contact of more dimensions has the softness of its friction's square: without any, what limits tilting would be rigid, and break the solver."""
        contact.dim = 1
        for corner in _CORNERS @ along:
            contact.pos = center + corner
            self._put(data, contact)

    def _push_out(self, data: Any, result: StepResult, row: int, contact: Any) -> None:
        """Of a geom that is wholly inside another: out of a plane along its normal, and else the way that the law pushes it, the shortest."""
        a, b = result.body_pairs[row]
        if self._is_in_plane(a, b):
            contact.dist, contact.pos, away = self._geoms.sunk(data, a, b)
        else:
            push = -result.wrenches[row, 0, :3]
            if not push.any():
                return
            away = push / np.linalg.norm(push)
            contact.dist, contact.pos = -np.cbrt(result.volumes[row]) / 2, result.centers[row]  # at least
        contact.dim, contact.friction = (1 if contact.mu <= LEAST_FRICTION else 3), (contact.mu, contact.mu, LEAST, LEAST, LEAST)
        contact.frame = _frames_of(away[None])[0]
        self._put(data, contact)

    def _drop_pairs(self, data: Any) -> bool:
        """Whether there are contacts of MuJoCo's own between taken geoms, which from the next _constrain on do not count."""
        if not (self.model.npair and data.ncon):
            return False
        left = self._takeover.left_of_pairs(data) & self._is_taken[data.contact.geom].all(axis=1)
        for k in np.flatnonzero(left):
            data.contact[k].exclude = 1
        return bool(left.any())

    def _constrain(self, data: Any) -> None:
        """MuJoCo's constraints, of the contacts that there are now."""
        for stage in (mujoco.mj_makeConstraint, mujoco.mj_island, mujoco.mj_projectConstraint, mujoco.mj_referenceConstraint):
            stage(self.model, data)
        if self._adheres:
            mujoco.mj_transmission(self.model, data)  # it shares adhesion among the contacts that there are

    def _add_points(self, data: Any, result: StepResult) -> NDArray[np.bool_]:
        """Adds the points of curved contacts; (n,) which these are. A contact is curved where normals differ between its pair's points: one normal
        cannot say how a thread turns, and limits of tilting, of each of its patches, would hold it."""
        if "points" not in self._want:
            return np.zeros(len(result), bool)
        points = result.points
        pair = np.unique(result.body_pairs @ (len(self.geoms), 1), return_inverse=True)[1]
        of_pair, weight = pair[points.contact], points.area
        sums = [np.bincount(of_pair, weight * along, minlength=len(result)) for along in points.normal.T]
        is_even = np.linalg.norm(sums, axis=0) >= CURVED * np.bincount(of_pair, weight, minlength=len(result))
        is_curved = ~is_even[pair] & (np.bincount(points.contact, minlength=len(result)) > 0)
        frames, pairs = _frames_of(-points.normal), result.body_pairs.tolist()
        rows = np.flatnonzero(is_curved[points.contact])
        of_rows = zip(points.contact[rows].tolist(), points.depth[rows].tolist(), points.position[rows], frames[rows])
        for of, group in itertools.groupby(of_rows, key=operator.itemgetter(0)):
            a, b = pairs[of]
            contact, friction = self._known.pairs.get((a, b)) or self._pair(a, b)
            contact.dim, contact.friction = (1 if friction <= LEAST_FRICTION else 3), (friction, friction, LEAST, LEAST, LEAST)
            for _, depth, position, frame in group:
                contact.dist, contact.pos, contact.frame = -depth, position, frame
                self._put(data, contact)
        return np.asarray(is_curved)

    def _put(self, data: Any, contact: Any) -> None:
        if mujoco.mj_addContact(self.model, data, contact):
            raise error_for(ErrorCode.LIMIT_EXCEEDED, f"MuJoCo's memory is full after {data.ncon} contacts: give the model more, "
                            '<size memory="...">', object="model", field="memory")

    def _look_at_parameters(self) -> None:
        """Whoever draws frictions at random writes them into the model."""
        now, known = self._read(), self._known
        if now != known.parameters:
            known.parameters, known.pairs = now, {}

    def _pair(self, a: int, b: int) -> tuple[Any, float]:
        contact = mujoco.MjContact()
        one, other = self.geoms[a], self.geoms[b]
        friction = float(frictions_of(self.model, (one, other))[0, 1])
        solref, solreffriction, solimp = softness_of(self.model, one, other)
        contact.solref = solref if self._solref is None else self._solref
        contact.solimp = solimp if self._solimp is None else self._solimp
        contact.geom1, contact.geom2, contact.geom = one, other, (one, other)
        contact.flex, contact.elem, contact.vert = (-1, -1), (-1, -1), (-1, -1)
        contact.solreffriction = solreffriction
        contact.dim, contact.mu, contact.efc_address = 6, friction, -1
        self._known.pairs[a, b] = contact, friction
        return contact, friction

    def _begin_frictions(self) -> None:
        """What the scene has where nobody has said more: the geometric mean of bodies' own."""
        ids = self._flexes.ids if self._flexes else []
        own = np.sqrt(np.concatenate([self.model.geom_friction[self.geoms, 0], self.model.flex_friction[ids, 0]]))
        touch = np.triu(self._geoms.touch, 1)
        if self._flexes:
            touch = np.block([[touch, self._flexes.touch.T], [np.zeros((len(ids), len(own)), bool)]])
        self._frictions, self._friction_pairs, self._set_at = own[:, None] * own, touch, b""
        self._set_frictions()

    def _set_frictions(self) -> None:
        """Of pairs whose friction the scene does not have."""
        now = self._read()
        if now == self._set_at:
            return
        bodies = [*self._geoms.bodies, *(self._flexes.bodies if self._flexes else ())]
        wanted = frictions_of(self.model, self.geoms, self._flexes.ids if self._flexes else ())
        for a, b in np.argwhere(self._friction_pairs & ~np.isclose(wanted, self._frictions, rtol=1e-9, atol=0)).tolist():
            self.scene.set_pair(bodies[a], bodies[b], friction=float(wanted[a, b]))
            self._frictions[a, b] = wanted[a, b]
        self._set_at = now

    def _add_wrenches(self, data: Any) -> None:
        if self._drop_pairs(data):
            self._constrain(data)
        self._set_frictions()
        result, geoms, model = self._step(data, velocities=True), self._geoms, self.model
        wrenches = result.body_wrenches if len(result) else np.zeros((0, 6))
        if self._flexes:
            self._flexes.apply(data, result)
        for place in geoms.moving if len(result) else ():
            wrench = wrenches[place]
            if wrench.any():
                origin = data.geom_xpos[self.geoms[place]] + data.geom_xmat[self.geoms[place]].reshape(3, 3) @ geoms._offset[place]
                mujoco.mj_applyFT(model, data, wrench[:3], wrench[3:], origin, int(model.geom_bodyid[self.geoms[place]]), data.qfrc_passive)


def _cross(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """As numpy's, of few rows, in a quarter of its time."""
    return a[:, [1, 2, 0]] * b[:, [2, 0, 1]] - a[:, [2, 0, 1]] * b[:, [1, 2, 0]]


def _frames_of(normals: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 9) frames as MuJoCo has them, whose first axes are the normals (n, 3)."""
    across = _cross(normals, np.eye(3)[np.abs(normals).argmin(axis=1)])
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    return np.concatenate([normals, across, _cross(normals, across)], axis=1)


def _attached(model: Any) -> Attachment | None:
    return next((a for callback in _CALLBACKS.values() for a in callback.attached if a.model is model), None)


def _adheres(model: Any) -> bool:
    return bool((model.actuator_trntype == int(mujoco.mjtTrn.mjTRN_BODY)).any())


def _check_flags(model: Any, how: How) -> None:
    """INVALID_ARGUMENT where MuJoCo leaves out the callback, or the contacts that it adds."""
    bits = {name.removeprefix("mjDSBL_").lower(): int(bit) for name, bit in mujoco.mjtDisableBit.__members__.items()}
    passive = ("passive",) if "passive" in bits else ("spring", "damper")  # older MuJoCo has one flag for both
    for names in [("constraint",), ("contact",), ("actuation",)] if how == "constraints" else [passive]:
        if all(model.opt.disableflags & bits[name] for name in names):
            flags = " ".join(f'{name}="disable"' for name in names)
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"the model has <flag {flags}/>, with which MuJoCo calls nothing: enable "
                            + " or ".join(names), object="model", field=names[0])
    if model.opt.enableflags & int(getattr(mujoco.mjtEnableBit, "mjENBL_SLEEP", 0)):
        raise error_for(ErrorCode.INVALID_ARGUMENT, "the model has <flag sleep=\"enable\"/>: MuJoCo wakes bodies by its own contacts alone, so that "
                        "none would wake by these: disable sleep", object="model", field="sleep")


def attach(model: Any, data: Any, *, geoms: str | Sequence[str | int] = "all", groups: Sequence[int] | None = None,
           how: How = "constraints", client: Client | None = None, solref: ArrayLike | None = None,
           solimp: ArrayLike | None = None, modulus: float | None = None, dissipation: float = 1.0,
           repair: bool = False, closing: Closing | None = None, ignore_bits: bool = False, patches: bool = True, points: int = 0, flexes: str | Sequence[str | int] = ()) -> Attachment:
    """Gives a model's contacts to contactd; see the module.

    Args:
        model, data: MjModel, MjData. Geoms that do not move are where `data` has them now. Sizes and meshes are those of now, too.
        geoms: "all" that may touch anything, or some by name or number.
        groups: of these, those in MuJoCo's groups (geom_group).
        how: "constraints", or "wrenches".
        client: where contacts are computed; None: an engine in this process.
        solref, solimp: (2,) and (5,), of all contacts, for "constraints", in place of the geoms'. With MuJoCo's own defaults bodies sink in by
            tenths of a millimetre; (0.005, 1) and (0.99, 0.999, 1e-4, 0.5, 2) let them sink a tenth of that, with time steps of 2 ms.
        modulus: N/m^3, pressure by depth, of each geom, for "wrenches"; None: of each as much as the time step lets its body's mass have. Of a pair they
            are in series, so that the softer one tells; what is fixed to the world is rigid then.
        dissipation: s/m, likewise (Hunt and Crossley).
        repair, closing: as of Client.register_mesh, for meshes that are not closed, of both the repair first; closed ones are taken as they are.
            Attachment.meshes tells what was done.
        ignore_bits: geoms that are taken may touch each other whatever their contype and conaffinity say, such as the meshes that a model shows
            (name them, or their group), in place of the simpler geoms that it collides. Those keep their contacts: give them no bits.
        patches: whether each connected part of an intersection is a contact; False: all that two geoms have with each other is one. That takes a fraction
            of the time where there are many parts, as between threads or nested bowls, and is wrong where they push in opposite directions, as the
            two walls of a slot do.
        points: for "constraints": a curved contact, as of a thread, a socket or a peg, is up to so many contacts of 3 dimensions, 64 at most, each with the normal
            that is between the surfaces there. They cost a few times as much. 0: it is one of 6 dimensions, as flat ones are.
        flexes: for "wrenches": "all", or some by name or number: soft bodies, whose contacts with the geoms that are taken are forces on their vertices.
            Solids, or closed surfaces, with vertices of their own (dof="full"); contacts of flexes with each other stay MuJoCo's.
    Raises: InvalidMeshError names the mesh, what is wrong, and what mends it; NotFoundError; InvalidArgumentError where the model has contacts
        or actuation disabled, by "wrenches" springs and dampers both; ConflictError where it is attached already.
    """
    if how not in _CALLBACKS:
        raise error_for(ErrorCode.INVALID_ARGUMENT, f'expected "constraints" or "wrenches", got {how!r}', field="how")
    if not 0 <= points <= 64 or points and how != "constraints":
        raise error_for(ErrorCode.INVALID_ARGUMENT, f'expected 0 to 64, and 0 but with how="constraints", got {points}', field="points")
    if _attached(model):
        raise error_for(ErrorCode.CONFLICT, "the model is attached already: detach it first", object="model")
    _check_flags(model, how)
    soft = choose_flexes(model, flexes)
    if soft and how != "wrenches":
        raise error_for(ErrorCode.INVALID_ARGUMENT, 'flexes get forces on their vertices: how="wrenches" does that', field="flexes")
    ids = choose(model, geoms, groups, ignore_bits, len(soft))
    if how == "wrenches" and _adheres(model):
        warnings.warn("the model has adhesion, which MuJoCo lets act at its own contacts alone: how=\"constraints\" makes such", stacklevel=2)
    material = {"modulus": modulus, "dissipation": dissipation} if how == "wrenches" else {}
    return Attachment(model, data, ids, how, client or own_engine(), material, makings(repair, closing), solref, solimp, ignore_bits, patches, points, soft)


def _mocap(given: ArrayLike | None, name: str, frames: int, bodies: int, k: int) -> np.ndarray | None:
    if given is None:
        return None
    rows = np.asarray(given, float)
    if rows.shape != (frames, bodies, k):
        raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape {(frames, bodies, k)}, got {rows.shape}", field=name)
    return rows


def judge(model: Any, qpos: ArrayLike, *, times: ArrayLike | None = None, geoms: str | Sequence[str | int] = "all",
          groups: Sequence[int] | None = None, client: Client | None = None, repair: bool = False,
          closing: Closing | None = None, mocap_pos: ArrayLike | None = None, mocap_quat: ArrayLike | None = None, ignore_bits: bool = False) -> Report:
    """How far a trajectory's geoms are inside each other, whatever has simulated it; see contactd.judge.

    Args:
        model: MjModel.
        qpos: (T, nq), as data.qpos was.
        times: (T,) s; None: a time step of the model each.
        mocap_pos, mocap_quat: (T, nmocap, 3), (T, nmocap, 4), as in data; None: mocap bodies are where the model has them.
        geoms, groups, repair, closing, client, ignore_bits: as of attach. Pairs that MuJoCo lets touch are looked at, as they are where the model is not
            attached. While it judges no other thread may step a model that is attached.
    """
    rows = np.asarray(qpos, float)
    if rows.ndim != 2 or rows.shape[1] != model.nq:
        raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape (T, {model.nq}), got {rows.shape}", field="qpos")
    pos, quat = (_mocap(given, name, len(rows), model.nmocap, k)
                 for given, name, k in ((mocap_pos, "mocap_pos", 3), (mocap_quat, "mocap_quat", 4)))
    data, own = mujoco.MjData(model), _attached(model)
    with (client or own_engine()).open_scene(method="exact", patches=True, name="judge") as scene:
        with own._takeover.suspended() if own else contextlib.nullcontext():
            ids = choose(model, geoms, groups, ignore_bits)
            bodies = Geoms(model, data, scene, ids, makings(repair, closing), ignore_bits)
        poses = np.empty((len(rows), len(ids), 3, 4))
        for frame, row in enumerate(rows):
            data.qpos[:] = row
            if pos is not None:
                data.mocap_pos[:] = pos[frame]
            if quat is not None:
                data.mocap_quat[:] = quat[frame]
            mujoco.mj_kinematics(model, data)
            poses[frame] = bodies.poses(data)
        names = [model.geom(k).name or name_of(model, k) for k in ids]
        return judge_scene(scene, poses, names, np.arange(len(rows)) * model.opt.timestep if times is None else times)
