"""What a scene takes of an MjModel: its geoms as bodies, which pairs of them may touch, and where they are. For mujoco."""

from __future__ import annotations

import contextlib
import math
import operator
import warnings
from typing import Any, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ._as_found import Makings, register_as_found
from ._optional import check_version, need
from ._stiffness import moduli_of
from .body import Body
from .client import Mesh
from .errors import ErrorCode, error_for
from .result import StepResult
from .scene import Scene

mujoco: Any = need("mujoco", "contactd.mujoco")
check_version(mujoco, "contactd.mujoco", (3, 3), (5, 0))
GEOM = mujoco.mjtGeom
WORLD_UP = np.array([0.0, 0.0, 1.0])


def name_of(model: Any, geom: int) -> str:
    name = model.geom(geom).name
    body = model.body(int(model.geom_bodyid[geom])).name
    return f"geom {name!r}" if name else f"geom {geom} of body {body!r}"


def _kind(model: Any, geom: int) -> str:
    return str(GEOM(int(model.geom_type[geom])).name).removeprefix("mjGEOM_").lower()


def choose(model: Any, geoms: str | Sequence[str | int], groups: Sequence[int] | None, ignore_bits: bool = False, n_flexes: int = 0) -> list[int]:
    """The geoms that are taken, in rising order; n_flexes: that are taken, too. NOT_FOUND, INVALID_ARGUMENT."""
    known = {name: k for k in range(model.ngeom) if (name := model.geom(k).name)}
    if isinstance(geoms, str):
        if geoms != "all":
            raise error_for(ErrorCode.INVALID_ARGUMENT, f'expected "all" or a list of geoms, got {geoms!r}', field="geoms")
        chosen = [k for k in range(model.ngeom) if ignore_bits or model.geom_contype[k] or model.geom_conaffinity[k]]
    else:
        for geom in geoms:
            if isinstance(geom, str) and geom not in known or not isinstance(geom, str) and not 0 <= operator.index(geom) < model.ngeom:
                names = ", ".join(sorted(known)[:20])
                raise error_for(ErrorCode.NOT_FOUND, f"the model has no geom {geom!r}; its {model.ngeom} geoms are {names}", field="geoms")
        chosen = sorted({known[geom] if isinstance(geom, str) else int(geom) for geom in geoms})
    if groups is not None:
        chosen = [k for k in chosen if int(model.geom_group[k]) in set(groups)]
    taken = [k for k in chosen if _kind(model, k) in _ADD]
    for k in sorted(set(chosen) - set(taken)):
        warnings.warn(f"{name_of(model, k)} is of kind {_kind(model, k)}, which is not taken: it stays with MuJoCo", stacklevel=4)
    if model.nflex > n_flexes:
        warnings.warn(f"the model has {model.nflex - n_flexes} flexes, which are not taken: they stay with MuJoCo", stacklevel=4)
    if not taken:
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"no geom is taken: of the model's {model.ngeom} geoms none is chosen, "
                        f"of kinds {', '.join(_ADD)}, and has a contype or conaffinity (or ignore_bits=True)", field="geoms")
    return taken


# ---- which pairs ----

def by_bits(model: Any) -> NDArray[np.bool_]:
    """(ngeom, ngeom): that contype and conaffinity let touch."""
    kind, affinity = model.geom_contype.astype(np.int64), model.geom_conaffinity.astype(np.int64)
    one_way = (kind[:, None] & affinity[None]) != 0
    return np.asarray(one_way | one_way.T)


def flexes_by_bits(model: Any) -> NDArray[np.bool_]:
    """(nflex, ngeom): the same of flexes and geoms."""
    kind, affinity = (getattr(model, f"geom_{name}").astype(np.int64) for name in ("contype", "conaffinity"))
    of_kind, of_affinity = (getattr(model, f"flex_{name}").astype(np.int64)[:, None] for name in ("contype", "conaffinity"))
    return np.asarray((of_kind & affinity | kind & of_affinity) != 0)


def may_touch(model: Any, geoms: Sequence[int], ignore_bits: bool = False) -> NDArray[np.bool_]:
    """(k, k) of these geoms, by MuJoCo's own rules: bits, if they count, bodies that are one or parent and child, or both cannot be moved (fixed
    to the world, or mocap), <exclude>, <pair>."""
    at = np.asarray(geoms)
    body = model.geom_bodyid[at]
    weld = model.body_weldid[body]
    parent = model.body_weldid[model.body_parentid[weld]]
    out = (by_bits(model)[np.ix_(at, at)] | ignore_bits) & (weld[:, None] != weld[None])
    if not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT:
        related = (weld[:, None] == parent[None]) & (weld[:, None] != 0) & (weld[None] != 0)
        out &= ~(related | related.T)
    is_still = model.body_treeid[body] < 0
    out &= ~(is_still[:, None] & is_still[None])
    for signature in model.exclude_signature.tolist():
        one, other = body == signature >> 16, body == (signature & 0xFFFF)
        both = one[:, None] & other[None]
        out &= ~(both | both.T)
    place = {geom: k for k, geom in enumerate(geoms)}
    for a, b in zip(model.pair_geom1.tolist(), model.pair_geom2.tolist()):
        if a in place and b in place:
            out[place[a], place[b]] = out[place[b], place[a]] = True
    return np.asarray(out)


class Takeover:
    """Keeps MuJoCo from looking for contacts between the geoms that are taken. Those of a taken geom with another one, or
    with a flex, stay."""

    def __init__(self, model: Any, geoms: Sequence[int], flexes: Sequence[int] = ()) -> None:
        self.model = model
        names = ("geom_contype", "geom_conaffinity", "body_contype", "body_conaffinity", "flex_contype", "pair_margin")
        self._before = {name: getattr(model, name).copy() for name in names if hasattr(model, name)}
        taken = np.zeros(model.ngeom, bool)
        taken[list(geoms)] = True
        pairs = [k for k, (a, b) in enumerate(zip(model.pair_geom1.tolist(), model.pair_geom2.tolist())) if taken[a] and taken[b]]
        if pairs and model.opt.enableflags & int(mujoco.mjtEnableBit.mjENBL_OVERRIDE):
            raise error_for(ErrorCode.INVALID_ARGUMENT, 'the model has <flag override="enable"/>, with which the contacts of a <pair> cannot be kept from '
                            "MuJoCo: disable it, or leave a geom of each pair out", object="model", field="override")
        self._set_bits(taken, np.isin(np.arange(model.nflex), flexes))
        for k in pairs:
            # MuJoCo compares squares, and its colliders of convex shapes know no negative margin: with one of both bounding radii it finds
            # no two spheres near each other, unless their middles are one point (see left_of_pairs). A plane has no such radius.
            bounds = model.geom_rbound[[model.pair_geom1[k], model.pair_geom2[k]]]
            model.pair_margin[k] = -bounds.sum() if (bounds > 0).all() else -1e6

    def _set_bits(self, taken: NDArray[np.bool_], taken_flexes: NDArray[np.bool_]) -> None:
        """Taken geoms get no type, and the affinity for bits that are added to the types of other geoms and of other flexes, one for each kind
        of them."""
        model = self.model
        geoms, flexes = by_bits(model)[:, taken], flexes_by_bits(model)[:, taken] & ~taken_flexes[:, None]
        rows = {tuple(row) for row in [*geoms[~taken].tolist(), *flexes.tolist()]} - {(False,) * int(taken.sum())}
        used = int(np.bitwise_or.reduce(np.concatenate([model.geom_contype, model.geom_conaffinity, model.flex_contype,
                                                        model.flex_conaffinity]), initial=0))
        free = [1 << bit for bit in range(31) if not used >> bit & 1]
        if len(rows) > len(free):
            raise error_for(ErrorCode.LIMIT_EXCEEDED, f"{len(rows)} bits of contype are needed to keep the contacts with what is not "
                            f"taken, and {len(free)} are free: take all geoms, or use fewer bits", field="geoms")
        bits = dict(zip(sorted(rows), free))
        for k in np.flatnonzero(~taken):
            model.geom_contype[k] |= bits.get(tuple(geoms[k].tolist()), 0)
        for flex, row in enumerate(flexes.tolist()):
            model.flex_contype[flex] |= bits.get(tuple(row), 0)
        for place, k in enumerate(np.flatnonzero(taken)):
            model.geom_contype[k], model.geom_conaffinity[k] = 0, sum(bit for row, bit in bits.items() if row[place])
        for name in ("contype", "conaffinity"):
            if "body_" + name in self._before:
                for body in range(model.nbody):
                    of_body = getattr(model, "geom_" + name)[model.geom_bodyid == body]
                    getattr(model, "body_" + name)[body] = np.bitwise_or.reduce(of_body, initial=0)

    @staticmethod
    def left_of_pairs(data: Any) -> NDArray[np.bool_]:
        """(ncon,) contacts of <pair> that MuJoCo has made nevertheless."""
        return np.asarray(data.contact.includemargin < 0)

    def undo(self) -> None:
        self._put(self._before)

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """The model has its own values in the block, and those of the takeover again after it."""
        now = {name: getattr(self.model, name).copy() for name in self._before}
        self.undo()
        try:
            yield
        finally:
            self._put(now)

    def _put(self, values: dict[str, Any]) -> None:
        for name, array in values.items():
            getattr(self.model, name)[:] = array


# ---- geoms as bodies ----

def _box(scene: Scene, model: Any, k: int, options: dict[str, Any], making: Makings) -> Body:
    return scene.add_box(2 * model.geom_size[k], **options)


def _sphere(scene: Scene, model: Any, k: int, options: dict[str, Any], making: Makings) -> Body:
    return scene.add_sphere(model.geom_size[k][0], **options)


def _ellipsoid(scene: Scene, model: Any, k: int, options: dict[str, Any], making: Makings) -> Body:
    return scene.add_ellipsoid(model.geom_size[k], **options)


def _capsule(scene: Scene, model: Any, k: int, options: dict[str, Any], making: Makings) -> Body:
    return scene.add_capsule(model.geom_size[k][0], 2 * model.geom_size[k][1], **options)


def _cylinder(scene: Scene, model: Any, k: int, options: dict[str, Any], making: Makings) -> Body:
    return scene.add_cylinder(model.geom_size[k][0], 2 * model.geom_size[k][1], **options)


def _plane(scene: Scene, model: Any, k: int, options: dict[str, Any], making: Makings) -> Body:
    options.pop("pose")
    return scene.add_half_space(WORLD_UP, 0.0, **options)  # its pose is that of the first step


def _mesh(scene: Scene, model: Any, k: int, options: dict[str, Any], making: Makings) -> Body:
    m = int(model.geom_dataid[k])
    v, f = int(model.mesh_vertadr[m]), int(model.mesh_faceadr[m])
    vertices, faces = model.mesh_vert[v:v + model.mesh_vertnum[m]], model.mesh_face[f:f + model.mesh_facenum[m]]
    mesh = register_as_found(scene.client, vertices, faces, f"{model.mesh(m).name or m} of {name_of(model, k)}", making)
    return scene.add_body(mesh, **options)


def _hfield(scene: Scene, model: Any, k: int, options: dict[str, Any], making: Makings) -> Body:
    h = int(model.geom_dataid[k])
    rows, columns = int(model.hfield_nrow[h]), int(model.hfield_ncol[h])
    x, y, top, _ = model.hfield_size[h]
    first = int(model.hfield_adr[h])
    heights = model.hfield_data[first:first + rows * columns].reshape(rows, columns).T * top
    return scene.add_height_field(np.asarray(heights, float), (2 * x / (columns - 1), 2 * y / (rows - 1)), **options)


_ADD = {"plane": _plane, "hfield": _hfield, "sphere": _sphere, "capsule": _capsule, "ellipsoid": _ellipsoid, "cylinder": _cylinder,
        "box": _box, "mesh": _mesh, "sdf": _mesh}
_MESHES = ("mesh", "sdf")


def _moduli(model: Any, geoms: NDArray[np.int64]) -> list[float | None]:
    """Of what may be moved: that of all that is welded together, all of whose geoms may touch at once. None: rigid."""
    weld, body = model.body_weldid, model.geom_bodyid[geoms]
    masses = np.bincount(weld, model.body_mass, model.nbody)
    areas = np.bincount(weld[body], np.pi * model.geom_rbound[geoms] ** 2, model.nbody)
    moduli = moduli_of(masses, areas, model.opt.timestep)[weld]
    return [float(moduli[k]) if model.body_treeid[k] >= 0 and math.isfinite(moduli[k]) else None for k in body]


class Geoms:
    """Geoms of a model as bodies of a scene, in the same order.

    Attributes:
        ids: (k,) of geoms.  bodies: of the scene.  touch: (k, k) which may.  meshes: of geoms that are meshes.
        moving: places of those that may move; the others are where `data` has them.
    """

    def __init__(self, model: Any, data: Any, scene: Scene, ids: Sequence[int], making: Makings, ignore_bits: bool = False,
                 modulus: float | None = None, **material: Any) -> None:
        self.model, self.ids, self.touch = model, np.asarray(ids), may_touch(model, ids, ignore_bits)
        self._offset = np.zeros((len(ids), 3))  # from a geom's origin to its body's, in its frame
        for k, geom in enumerate(ids):
            if model.geom_type[geom] == GEOM.mjGEOM_HFIELD:
                self._offset[k, :2] = -model.hfield_size[int(model.geom_dataid[geom])][:2]
        self._shifted = np.flatnonzero(self._offset.any(axis=1)).tolist()
        self.is_plane = model.geom_type[self.ids] == GEOM.mjGEOM_PLANE
        self._middle, self._half = model.geom_aabb[self.ids].reshape(-1, 2, 3).transpose(1, 0, 2)
        self._thickness = np.where(self.is_plane, np.inf, 2 * self._half.min(axis=1))
        body = model.geom_bodyid[self.ids]
        is_mocap = model.body_mocapid[model.body_rootid[body]] >= 0
        self.moving = np.flatnonzero((model.body_weldid[body] != 0) | is_mocap)
        moduli = _moduli(model, self.ids) if modulus is None else [modulus] * len(ids)
        mujoco.mj_kinematics(model, data)
        poses = self.poses(data)
        self.bodies: list[Body] = []
        for k, geom in enumerate(ids):
            options = {"pose": poses[k], "ignore": [b for j, b in enumerate(self.bodies) if not self.touch[k, j]], **material,
                       "friction": float(model.geom_friction[geom][0])}
            if material:
                options["modulus"] = moduli[k]
            self.bodies.append(_ADD[_kind(model, geom)](scene, model, geom, options, making))
        self.meshes = {int(geom): Mesh(scene.client, state) for geom, body in zip(ids, self.bodies)
                       if _kind(model, geom) in _MESHES and (state := body._state.mesh)}
        scene.step(poses=(self.bodies, poses), want="volume")
        self.movers = [self.bodies[k] for k in self.moving]

    def poses(self, data: Any) -> NDArray[np.float64]:
        """(k, 3, 4) of all of them."""
        out = np.empty((len(self.ids), 3, 4))
        out[:, :, :3] = data.geom_xmat[self.ids].reshape(-1, 3, 3)
        out[:, :, 3] = data.geom_xpos[self.ids]
        for k in self._shifted:
            out[k, :, 3] += out[k, :, :3] @ self._offset[k]
        return out

    def bounded(self, data: Any, result: StepResult) -> NDArray[np.float64]:
        """(n,) m: depths, none of which is more than the extent of either geom along the normal. Volume / area grows beyond all bounds where next to
        nothing of a geom is still outside."""
        depths, pairs = result.depths, result.body_pairs
        deep = np.flatnonzero(depths > self._thickness[pairs].min(axis=1))
        if len(deep):
            depths = depths.copy()
        for row in deep:
            if result.areas[row] > 0:
                depths[row] = min(depths[row], *(2 * self._reach(data, k, result.normals[row]) for k in pairs[row] if not self.is_plane[k]))
        return depths

    def sunk(self, data: Any, a: int, b: int) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """Of two geoms, one a plane that the other is wholly below: minus the depth of its lowest point, the middle of it, and the direction from a to b
        in which they come apart."""
        plane, other = (a, b) if self.is_plane[a] else (b, a)
        up, geom = data.geom_xmat[self.ids[plane]].reshape(3, 3)[:, 2], self.ids[other]
        middle = data.geom_xpos[geom] + data.geom_xmat[geom].reshape(3, 3) @ self._middle[other]
        distance = float(up @ (middle - data.geom_xpos[self.ids[plane]])) - self._reach(data, other, up)
        return distance, middle, up if plane == a else -up

    def _reach(self, data: Any, k: int, direction: NDArray[np.float64]) -> float:
        """Half the extent of geom k along a direction."""
        return float(np.abs(direction @ data.geom_xmat[self.ids[k]].reshape(3, 3)) @ self._half[k])

    def twists(self, data: Any, origins: NDArray[np.float64]) -> NDArray[np.float64]:
        """(m, 6) of those that may move, about the origins of their bodies (m, 3), world axes: linear, then angular."""
        body = self.model.geom_bodyid[self.ids[self.moving]]
        turning, linear = data.cvel[body, :3], data.cvel[body, 3:]
        arms = origins - data.subtree_com[self.model.body_rootid[body]]
        return np.concatenate([linear + np.cross(turning, arms), turning], axis=1)


