"""contactd as the collision pipeline of a Newton model: exact intersections of meshes as they are, as points with ids.

    pipeline = contactd.newton.CollisionPipeline(model)        # in place of newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    pipeline.collide(state, contacts)                          # then solver.step(state, after, control, contacts, dt) as usual

Shapes that collide are bodies of a scene: meshes, convex hulls, boxes, spheres, capsules, cylinders, ellipsoids, height fields and planes, which
are infinite. Which of them may touch is as the model has it (model.shape_contact_pairs). Other kinds touch nothing, and are named in a
warning; so are particles. Contacts begin where surfaces meet: a shape's gap is not looked at, and a margin is refused.

Each contact is up to `points` points, each with a normal of its own between the surfaces there, so that a nut holds on its thread. What is wholly
below a plane or inside another shape has one point, which pushes it out along the plane's normal or the shortest way. The engine
computes on processors: states on a GPU are copied there and back. Needs the package newton.
"""

from __future__ import annotations

import warnings
from typing import Any, Callable, Literal, Sequence

import numpy as np
from numpy.typing import NDArray

from ._as_found import Makings, makings, register_as_found
from ._optional import check_version, need
from ._own_engine import own_engine
from .body import Body
from .client import Client, Closing
from .errors import ErrorCode, error_for
from .result import StepResult
from .scene import Scene

newton: Any = need("newton", "contactd.newton")
warp: Any = need("warp", "contactd.newton", "newton")
check_version(newton, "contactd.newton", (1, 8), (2, 0))
KIND = newton.GeoType
Matching = Literal["disabled", "latest"]
Array = NDArray[np.float64]

__all__ = ["CollisionPipeline"]


def _matrices(rows: Array) -> tuple[Array, Array]:
    """Of (n, 7) transforms, the rotations (n, 3, 3) and translations (n, 3)."""
    x, y, z, w = (rows[:, 3:] / np.linalg.norm(rows[:, 3:], axis=1, keepdims=True)).T
    out = np.empty((len(rows), 3, 3))
    out[:, 0] = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)], 1)
    out[:, 1] = np.stack([2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)], 1)
    out[:, 2] = np.stack([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)], 1)
    return out, rows[:, :3]


class CollisionPipeline:
    """Takes the place of newton.CollisionPipeline.

    Args:
        model: newton.Model, finalized. Shapes and meshes are those of now.
        points: of each contact, at most.
        contact_matching: "latest" fills contacts.rigid_contact_match_index: which row of the collision before is the same point.
        contact_report: with it, also the rows that are new, and those that ended.
        rigid_contact_max: rows of contacts; more are an error that names this. None: 16 times `points` of each shape, 1,024 at least.
        repair, closing: as of Client.register_mesh, for meshes that are not closed, of both the repair first; closed ones are taken as they are.
        client: where contacts are computed; None: an engine in this process.
    Raises: InvalidMeshError names the shape, what is wrong, and what mends it; InvalidArgumentError: a shape has a margin, or nothing collides.

    Attributes:
        scene: of contactd, whose bodies are the shapes.
        shapes: their numbers in the model, in the order of scene.bodies.
        result: of the last collision; None before the first.
        point_ids: (rows,) of the last collision: numbers that points keep while they persist.
    """

    def __init__(self, model: Any, *, points: int = 4, contact_matching: Matching = "disabled", contact_report: bool = False,
                 rigid_contact_max: int | None = None, repair: bool = False, closing: Closing | None = None,
                 client: Client | None = None) -> None:
        if contact_matching not in ("disabled", "latest"):
            raise error_for(ErrorCode.INVALID_ARGUMENT, f'expected "disabled" or "latest", got {contact_matching!r}', field="contact_matching")
        if contact_report and contact_matching == "disabled":
            raise error_for(ErrorCode.INVALID_ARGUMENT, 'contact_report needs contact_matching="latest"', field="contact_report")
        self.model, self.contact_matching, self.contact_report = model, contact_matching, contact_report
        self.shapes = _choose(model)
        self.rigid_contact_max = max(1024, 16 * points * len(self.shapes)) if rigid_contact_max is None else rigid_contact_max
        self.result: StepResult | None = None
        self.point_ids: NDArray[np.int64] = np.zeros(0, np.int64)
        self._written: tuple[int, int] | None = None  # which buffer the last collision wrote, and its generation
        self.scene = (client or own_engine()).open_scene(method="exact", law="pressure", patches=True, max_points=points, name="Newton")
        try:
            self._add(makings(repair, closing))
        except BaseException:
            self.scene.close()
            raise

    def close(self) -> None:
        """Closes the scene."""
        self.scene.close()

    def _add(self, making: Makings) -> None:
        model, shapes = self.model, np.array(self.shapes)
        rotations, origins = _matrices(model.shape_transform.numpy()[shapes].astype(float))
        self._body = model.shape_body.numpy()[shapes]
        self._local = np.concatenate([rotations, origins[:, :, None]], axis=2)
        self._moving = np.flatnonzero(self._body >= 0)
        apart = ~_may_touch(model, self.shapes)
        poses = self._poses(model.body_q.numpy().astype(float) if model.body_count else np.zeros((0, 7)))
        bodies: list[Body] = []
        for k, shape in enumerate(self.shapes):
            ignored = [bodies[j] for j in np.flatnonzero(apart[k, :k])]
            bodies.append(_ADD[KIND(int(model.shape_type.numpy()[shape]))](self.scene, model, shape, {"pose": poses[k], "ignore": ignored}, making))
        for k, body in enumerate(bodies):
            if KIND(int(model.shape_type.numpy()[self.shapes[k]])) == KIND.HFIELD:  # its first corner is its body's origin
                field, scale = model.shape_source[self.shapes[k]], model.shape_scale.numpy()[self.shapes[k]]
                self._local[k, :, 3] -= self._local[k, :, :3] @ [field.hx * scale[0], field.hy * scale[1], 0.0]
        poses = self._poses(model.body_q.numpy().astype(float) if model.body_count else np.zeros((0, 7)))
        self.scene.step(poses=(bodies, poses), want="volume")
        self._movers = [bodies[k] for k in self._moving]

    def _poses(self, body_q: Array) -> Array:
        """(k, 3, 4) of all shapes."""
        out = self._local.copy()
        at = self._body[self._moving]
        rotations, origins = _matrices(body_q[at])
        out[self._moving] = rotations @ self._local[self._moving]
        out[self._moving, :, 3] += origins
        return out

    def contacts(self) -> Any:
        """Makes a newton.Contacts of the right size."""
        out = newton.Contacts(self.rigid_contact_max, 0, device=self.model.device, contact_matching=self.contact_matching != "disabled",
                              contact_report=self.contact_report)
        out._contact_matching_mode = self.contact_matching  # solvers that match ask for it, and nothing public sets it
        return out

    def collide(self, state: Any, contacts: Any, *, dt: float | None = None) -> None:
        """Fills `contacts` with those of the state. dt: Newton's solvers may give it; it changes nothing."""
        body_q = state.body_q.numpy().astype(float) if self.model.body_count else np.zeros((0, 7))
        poses = self._poses(body_q)[self._moving]
        self.result = result = self.scene.step(poses=(self._movers, poses), want=("frame", "points", "ids"))
        number, sides, normal, position, depth = _points_of(result)
        if len(number) > contacts.rigid_contact_max:
            raise error_for(ErrorCode.LIMIT_EXCEEDED, f"{len(number)} points do not fit in {contacts.rigid_contact_max} rows: "
                            "give CollisionPipeline a larger rigid_contact_max, and make new contacts", field="rigid_contact_max")
        before = self._generation(contacts)
        contacts.clear()
        reach = normal * depth[:, None] / 2
        for side, ends in ((0, position + reach), (1, position - reach)):
            self._write(contacts, f"rigid_contact_shape{side}", np.array(self.shapes, np.int32)[sides[:, side]])
            self._write(contacts, f"rigid_contact_point{side}", _into_bodies(self._body[sides[:, side]], body_q, ends))
            for name in (f"rigid_contact_offset{side}", f"rigid_contact_margin{side}"):
                getattr(contacts, name).zero_()
        self._write(contacts, "rigid_contact_normal", normal)
        self._write(contacts, "rigid_contact_point_id", number & 0x7FFFFFFF)
        contacts.rigid_contact_count.fill_(len(number))
        if contacts.rigid_contact_match_index is not None:
            self._match(contacts, number, before)
        self.point_ids = number
        self._written = id(contacts), int(contacts.contact_generation.numpy()[0])

    def _write(self, contacts: Any, name: str, values: np.ndarray) -> None:
        target = getattr(contacts, name)
        if len(values):
            target[:len(values)].assign(np.ascontiguousarray(values, target.numpy().dtype))

    def _generation(self, contacts: Any) -> int:
        """That the last collision wrote into this buffer; -1: it wrote another one, or somebody else this one."""
        now = id(contacts), int(contacts.contact_generation.numpy()[0])
        return now[1] if self._written == now else -1

    def _match(self, contacts: Any, ids: NDArray[np.int64], before: int) -> None:
        old = self.point_ids if before >= 0 else np.zeros(0, np.int64)
        place = {number: row for row, number in enumerate(old.tolist())}
        match = np.array([place.get(number, -1) for number in ids.tolist()], np.int32)
        self._write(contacts, "rigid_contact_match_index", match)
        contacts.rigid_contact_match_generation.fill_(before)
        if contacts.rigid_contact_new_indices is not None:
            for name, rows in (("new", np.flatnonzero(match < 0)), ("broken", np.flatnonzero(~np.isin(old, ids)))):
                self._write(contacts, f"rigid_contact_{name}_indices", rows)
                getattr(contacts, f"rigid_contact_{name}_count").fill_(len(rows))


def _points_of(result: StepResult) -> tuple[NDArray[np.int64], NDArray[np.int64], Array, Array, Array]:
    """Of all points their numbers, bodies (n, 2), normals from the first to the second (n, 3), places (n, 3) and depths. A contact without an area has one,
    where the law pushes, as deep as the middle of a cube of its volume would be; its number is below 0, where no point's is."""
    points, pairs = result.points, result.body_pairs.reshape(-1, 2)
    push = -result.wrenches[:, 0, :3] if len(result) else np.zeros((0, 3))
    size = np.linalg.norm(push, axis=1)
    inside = np.flatnonzero((result.areas == 0) & (size > 0))
    return (np.concatenate([points.id, -1 - result.ids[inside]]), np.concatenate([pairs[points.contact], pairs[inside]]).astype(int),
            np.concatenate([-points.normal, push[inside] / size[inside, None]]), np.concatenate([points.position, result.centers[inside]]),
            np.concatenate([points.depth, np.cbrt(result.volumes[inside]) / 2]))


def _into_bodies(bodies: NDArray[np.int32], body_q: Array, points: Array) -> Array:
    """World points in the frames of bodies; those of -1, the world, stay."""
    out, moving = points.copy(), bodies >= 0
    rotations, origins = _matrices(body_q[bodies[moving]])
    out[moving] = np.einsum("nji,nj->ni", rotations, points[moving] - origins)
    return out


# ---- shapes ----

def _name_of(model: Any, shape: int) -> str:
    labels = getattr(model, "shape_label", None)
    return f"shape {labels[shape]!r}" if labels else f"shape {shape}"


def _choose(model: Any) -> list[int]:
    """The shapes that are taken, in rising order."""
    kinds, flags, margins = model.shape_type.numpy(), model.shape_flags.numpy(), model.shape_margin.numpy()
    colliding = [k for k in range(model.shape_count) if flags[k] & int(newton.ShapeFlags.COLLIDE_SHAPES)]
    taken = [k for k in colliding if KIND(int(kinds[k])) in _ADD and not _is_barrel(model, k)]
    for k in sorted(set(colliding) - set(taken)):
        warnings.warn(f"{_name_of(model, k)} is of kind {KIND(int(kinds[k])).name.lower()}{' with a barrel' if _is_barrel(model, k) else ''}, "
                      "which is not taken: it touches nothing", stacklevel=4)
    if model.particle_count:
        warnings.warn(f"the model has {model.particle_count} particles, which are not taken: they touch nothing", stacklevel=4)
    for k in taken:
        if margins[k] != 0:
            raise error_for(ErrorCode.INVALID_ARGUMENT, f"{_name_of(model, k)} has a margin of {margins[k]:g} m, and shapes touch here where their "
                            "surfaces do: set it to 0 (ShapeConfig.margin)", object="model", field="shape_margin")
    if not taken:
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"nothing collides: of the model's {model.shape_count} shapes none is of kinds "
                        f"{', '.join(kind.name.lower() for kind in _ADD)} and collides", object="model")
    return taken


def _is_barrel(model: Any, shape: int) -> bool:
    return bool(model.shape_type.numpy()[shape] == KIND.CYLINDER and model.shape_scale.numpy()[shape][2] != 0)


def _may_touch(model: Any, shapes: Sequence[int]) -> NDArray[np.bool_]:
    """(k, k) of these shapes, as the model has it."""
    out = np.zeros((model.shape_count,) * 2, bool)
    if model.shape_contact_pairs is not None and len(model.shape_contact_pairs):
        first, second = model.shape_contact_pairs.numpy().T
        out[first, second] = out[second, first] = True
    return np.asarray(out[np.ix_(shapes, shapes)])


def _size(model: Any, shape: int) -> list[float]:
    return [float(x) for x in model.shape_scale.numpy()[shape]]


def _plane(scene: Scene, model: Any, shape: int, options: dict[str, Any], making: Makings) -> Body:
    options.pop("pose")
    return scene.add_half_space((0, 0, 1), 0.0, **options)  # its pose is that of the first step


def _sphere(scene: Scene, model: Any, shape: int, options: dict[str, Any], making: Makings) -> Body:
    return scene.add_sphere(_size(model, shape)[0], **options)


def _ellipsoid(scene: Scene, model: Any, shape: int, options: dict[str, Any], making: Makings) -> Body:
    return scene.add_ellipsoid(_size(model, shape), **options)


def _box(scene: Scene, model: Any, shape: int, options: dict[str, Any], making: Makings) -> Body:
    return scene.add_box([2 * half for half in _size(model, shape)], **options)


def _capsule(scene: Scene, model: Any, shape: int, options: dict[str, Any], making: Makings) -> Body:
    radius, half, _ = _size(model, shape)
    return scene.add_capsule(radius, 2 * half, **options)


def _cylinder(scene: Scene, model: Any, shape: int, options: dict[str, Any], making: Makings) -> Body:
    radius, half, _ = _size(model, shape)
    return scene.add_cylinder(radius, 2 * half, **options)


def _geometry(model: Any, shape: int) -> tuple[NDArray[np.float64], NDArray[Any]]:
    source = model.shape_source[shape]
    return np.asarray(source.vertices, float).reshape(-1, 3) * _size(model, shape), np.asarray(source.indices).reshape(-1, 3)


def _mesh(scene: Scene, model: Any, shape: int, options: dict[str, Any], making: Makings) -> Body:
    return scene.add_body(register_as_found(scene.client, *_geometry(model, shape), _name_of(model, shape), making), **options)


def _hull(scene: Scene, model: Any, shape: int, options: dict[str, Any], making: Makings) -> Body:
    return scene.add_body(scene.client.register_mesh(*_geometry(model, shape), name=_name_of(model, shape), closing="hull"), **options)


def _height_field(scene: Scene, model: Any, shape: int, options: dict[str, Any], making: Makings) -> Body:
    field, (sx, sy, sz) = model.shape_source[shape], _size(model, shape)
    heights = sz * (field.min_z + np.asarray(field.data, float).reshape(field.nrow, field.ncol).T * (field.max_z - field.min_z))
    spacing = 2 * field.hx * sx / (field.ncol - 1), 2 * field.hy * sy / (field.nrow - 1)
    return scene.add_height_field(heights, spacing, **options)


_ADD: dict[Any, Callable[[Scene, Any, int, dict[str, Any], Makings], Body]] = {
    KIND.PLANE: _plane, KIND.HFIELD: _height_field, KIND.SPHERE: _sphere, KIND.CAPSULE: _capsule, KIND.ELLIPSOID: _ellipsoid,
    KIND.CYLINDER: _cylinder, KIND.BOX: _box, KIND.MESH: _mesh, KIND.CONVEX_MESH: _hull}
