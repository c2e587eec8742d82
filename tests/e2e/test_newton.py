"""contactd.newton with the real Newton: contacts of every kind of shape, numbers that points keep, which shapes may touch, and crates that rest by
its solver XPBD, whose kernels take a minute to compile where they have not been before."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED
from contactd import errors
from geometry import UNIT_BOX

from crates import crate  # an example, where geometry found its shapes

if INSTRUMENTED:  # before what takes seconds to import
    pytest.skip("Python is not instrumented, and cannot load a library that is", allow_module_level=True)
newton = pytest.importorskip("newton", reason="pip install newton runs these", exc_type=ImportError)
wp = pytest.importorskip("warp", exc_type=ImportError)
wp.config.quiet = True
DENSE = {"density": 600.0, "mu": 0.6}


@pytest.fixture
def cn(monkeypatch):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))
    import contactd.newton

    return contactd.newton


def config(**more):
    return newton.ModelBuilder.ShapeConfig(**DENSE, **more)


def at(x, y, z, q=(0.0, 0.0, 0.0, 1.0)):
    return wp.transform((x, y, z), wp.quat(*q))


def mesh_of(mesh):
    return newton.Mesh(np.asarray(mesh[0], np.float32), np.asarray(mesh[1], np.int32).ravel())


def rows(contacts) -> dict[str, np.ndarray]:
    k = int(contacts.rigid_contact_count.numpy()[0])
    names = ("shape0", "shape1", "point0", "point1", "normal", "margin0", "offset1")
    return {name: getattr(contacts, f"rigid_contact_{name}").numpy()[:k].copy() for name in names}


def world(state, bodies, points) -> np.ndarray:
    """Points in the frames of bodies, in the world."""
    q = state.body_q.numpy()
    return np.array([wp.transform_point(wp.transform(*q[b]), wp.vec3(*p)) if b >= 0 else p for b, p in zip(bodies, points.tolist())])


def collide(cn, builder, **options):
    model = builder.finalize(device="cpu")
    pipeline = cn.CollisionPipeline(model, **options)
    contacts, state = pipeline.contacts(), model.state()
    pipeline.collide(state, contacts)
    return model, pipeline, contacts, state


LAID = (0.0, 2**-0.5, 0.0, 2**-0.5)  # its z axis lies along x
KINDS = {
    "box": (lambda b, k: b.add_shape_box(k, hx=0.1, hy=0.1, hz=0.05, cfg=config()), 0.05, 4),
    "sphere": (lambda b, k: b.add_shape_sphere(k, radius=0.1, cfg=config()), 0.1, 1),
    "ellipsoid": (lambda b, k: b.add_shape_ellipsoid(k, rx=0.2, ry=0.1, rz=0.05, cfg=config()), 0.05, 1),
    "cylinder": (lambda b, k: b.add_shape_cylinder(k, radius=0.1, half_height=0.05, cfg=config()), 0.05, 4),
    "capsule": (lambda b, k: b.add_shape_capsule(k, xform=at(0, 0, 0, LAID), radius=0.05, half_height=0.1, cfg=config()), 0.05, 2),
    "mesh": (lambda b, k: b.add_shape_mesh(k, mesh=mesh_of((UNIT_BOX[0], UNIT_BOX[1])), scale=wp.vec3(0.2, 0.2, 0.1), cfg=config()), 0.05, 4),
    "hull": (lambda b, k: b.add_shape_convex_hull(k, mesh=mesh_of((UNIT_BOX[0], UNIT_BOX[1])), scale=wp.vec3(0.2, 0.2, 0.1), cfg=config()), 0.05, 4),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("ground", ["plane", "box"])
def test_kinds_of_shapes(cn, name, ground):
    """Each is 1 mm deep in the ground, a metre up and aside, on a body that is turned about z and whose shape sits off its origin."""
    add, height, count = KINDS[name]
    builder, turn = newton.ModelBuilder(), (0.0, 0.0, 0.5, 0.75**0.5)
    if ground == "plane":
        builder.add_shape_plane(body=-1, xform=at(0, 0, 1), width=0.0, length=0.0)
    else:
        builder.add_shape_box(-1, xform=at(3, 2, 0.5), hx=1, hy=1, hz=0.5)
    body = builder.add_body(xform=at(3, 2, 1 + height - 1e-3, turn))
    add(builder, body)
    model, _, contacts, state = collide(cn, builder)
    found = rows(contacts)
    assert len(found["normal"]) >= min(count, 2) and (found["shape0"] == 0).all() and (found["shape1"] == 1).all()
    assert found["normal"] == pytest.approx(np.tile([0, 0, 1.0], (len(found["normal"]), 1)), abs=0.2)  # from the ground up
    body_of = model.shape_body.numpy()
    a = world(state, body_of[found["shape0"]], found["point0"])
    b = world(state, body_of[found["shape1"]], found["point1"])
    depths = -np.einsum("ij,ij->i", found["normal"], b - a)
    assert depths.max() == pytest.approx(1e-3, rel=0.05)
    assert a[:, 2] == pytest.approx(1, abs=2e-4) and np.abs(a[:, :2] - [3, 2]).max() < 0.21
    assert not found["margin0"].any() and not found["offset1"].any()


def test_height_fields(cn):
    """A ramp along x, from -0.1 to 0.3 m; a ball touches it 1 mm deep at x = 0.5, y = 0.2."""
    builder = newton.ModelBuilder()
    data = np.tile(np.linspace(-0.1, 0.3, 9), (5, 1))
    builder.add_shape_heightfield(heightfield=newton.Heightfield(data, 5, 9, hx=1.0, hy=0.5))
    normal = np.array([-0.2, 0, 1]) / np.hypot(0.2, 1)
    builder.add_shape_sphere(builder.add_body(xform=at(*(np.array([0.5, 0.2, 0.2]) + 0.099 * normal))), radius=0.1, cfg=config())
    _, _, contacts, _ = collide(cn, builder)
    found = rows(contacts)
    assert len(found["normal"]) and found["normal"] == pytest.approx(np.tile(normal, (len(found["normal"]), 1)), abs=0.1)
    assert found["point0"][0] == pytest.approx([0.5, 0.2, 0.2], abs=0.02)


def two_boxes(gap=-1e-3, more=()):
    builder = newton.ModelBuilder()
    for z in (0.0, 0.1 + gap, *more):
        builder.add_shape_box(builder.add_body(xform=at(0, 0, z)), hx=0.1, hy=0.1, hz=0.05, cfg=config())
    return builder


@pytest.mark.parametrize("ground", ["plane", "box"])
def test_what_is_wholly_inside_comes_out(cn, ground):
    """It has a point that points out, with a number that it keeps, also where another shape has points; XPBD takes it out of what it fell into, and throws it as it does with contacts
    of Newton's own."""
    builder = newton.ModelBuilder()
    builder.add_shape_plane(cfg=config()) if ground == "plane" else builder.add_shape_box(-1, xform=at(0, 0, -0.2), hx=2.0, hy=2.0, hz=0.2, cfg=config())
    for x, z in ((0.0, -0.08), (1.0, 0.049)):
        builder.add_shape_box(builder.add_body(xform=at(x, 0, z)), hx=0.1, hy=0.1, hz=0.05, cfg=config())
    model, pipeline, contacts, state = collide(cn, builder, contact_matching="latest")
    solver, after, control = newton.solvers.SolverXPBD(model), model.state(), model.control()
    number = pipeline.point_ids[pipeline.point_ids < 0]
    assert len(number) == 1 and len(pipeline.point_ids) == 5
    found = rows(contacts)
    (row,) = np.flatnonzero(found["shape0"] + found["shape1"] == 1)
    assert abs(found["normal"][row]).tolist() == pytest.approx([0, 0, 1], abs=1e-6)
    apart = [world(state, model.shape_body.numpy()[found[f"shape{k}"]], found[f"point{k}"])[row] for k in (0, 1)]
    assert found["normal"][row] @ (apart[1] - apart[0]) == pytest.approx(-np.cbrt(0.2 * 0.2 * 0.1) / 2, rel=1e-4)
    pipeline.collide(state, contacts)
    assert (pipeline.point_ids < 0).sum() == 1 and number in pipeline.point_ids and contacts.rigid_contact_match_index.numpy()[:5].tolist() == [0, 1, 2, 3, 4]
    for _ in range(20):
        state.clear_forces()
        pipeline.collide(state, contacts)
        solver.step(state, after, control, contacts, 1 / 400)
        state, after = after, state
    z = state.body_q.numpy()[:, 2]
    assert 0.05 < z[0] < 3.0 and z[1] == pytest.approx(0.05, abs=0.02) and (pipeline.point_ids >= 0).all()


def test_points_keep_their_numbers(cn):
    model, pipeline, contacts, state = collide(cn, two_boxes(more=(0.2 - 2e-3, 1.0)), contact_matching="latest", contact_report=True)
    assert contacts.contact_matching_mode == "latest"
    first, shapes = pipeline.point_ids.copy(), rows(contacts)["shape0"].tolist()
    assert len(first) == 8 == len(set(first.tolist())) and (contacts.rigid_contact_match_index.numpy()[:8] == -1).all()
    assert contacts.rigid_contact_new_count.numpy()[0] == 8 and contacts.rigid_contact_match_generation.numpy()[0] == -1
    assert contacts.rigid_contact_point_id.numpy()[:8].tolist() == first.tolist()
    generation = int(contacts.contact_generation.numpy()[0])
    q = state.body_q.numpy()
    q[0, 2] -= 0.5  # the lowest falls off; the uppermost lands
    q[1, 0] += 1e-4
    q[3, 2] = 0.3 - 3e-3
    state.body_q.assign(q)
    pipeline.collide(state, contacts)
    kept = [shape == 1 for shape in shapes]
    match = contacts.rigid_contact_match_index.numpy()[:8]
    assert sorted(match[match >= 0].tolist()) == np.flatnonzero(kept).tolist()
    assert (pipeline.point_ids[match >= 0] == first[match[match >= 0]]).all() and not set(pipeline.point_ids[match < 0]) & set(first)
    assert contacts.rigid_contact_new_count.numpy()[0] == 4 == contacts.rigid_contact_broken_count.numpy()[0]
    assert contacts.rigid_contact_broken_indices.numpy()[:4].tolist() == np.flatnonzero(np.logical_not(kept)).tolist()
    assert contacts.rigid_contact_new_indices.numpy()[:4].tolist() == np.flatnonzero(match < 0).tolist()
    assert contacts.rigid_contact_match_generation.numpy()[0] == generation < contacts.contact_generation.numpy()[0]
    other = pipeline.contacts()  # another buffer has nothing to be matched with
    pipeline.collide(state, other)
    assert (other.rigid_contact_match_index.numpy()[:8] == -1).all() and other.rigid_contact_match_generation.numpy()[0] == -1


def test_which_may_touch_is_the_models(cn):
    """Not shapes of one body, of bodies whose pair is filtered, of groups that do not match, or of different worlds."""
    one = newton.ModelBuilder()
    a, b, c = (one.add_body(xform=at(0, 0, 0.099 * k)) for k in range(3))
    shapes = [one.add_shape_box(k, hx=0.1, hy=0.1, hz=0.05, cfg=config()) for k in (a, b, c)]
    one.add_shape_box(a, xform=at(0, 0, 0.05), hx=0.02, hy=0.02, hz=0.02, cfg=config(collision_group=7))
    one.add_shape_collision_filter_pair(shapes[0], shapes[1])
    builder = newton.ModelBuilder()
    builder.add_shape_plane(body=-1, xform=at(0, 0, -0.049), width=0.0, length=0.0)
    for _ in range(2):
        builder.add_world(one)
    model, pipeline, contacts, _ = collide(cn, builder)
    found = rows(contacts)
    pairs = {tuple(sorted(pair)) for pair in zip(found["shape0"].tolist(), found["shape1"].tolist())}
    allowed = {tuple(sorted(pair)) for pair in model.shape_contact_pairs.numpy().tolist()}
    assert pairs and pairs <= allowed and pairs == {(0, 1), (2, 3), (0, 5), (6, 7)}
    assert len(pipeline.scene.bodies) == model.shape_count == 9


def test_crates_rest_by_xpbd(cn):
    builder = newton.ModelBuilder()
    builder.add_ground_plane()
    shape = mesh_of(crate())
    for k in range(3):
        builder.add_shape_mesh(builder.add_body(xform=at(0.004 * k, -0.003 * k, 0.0501 + 0.1 * k)), mesh=shape, cfg=config())
    model = builder.finalize(device="cpu")
    solver, pipeline = newton.solvers.SolverXPBD(model, iterations=20), cn.CollisionPipeline(model)
    contacts, state, after, control = pipeline.contacts(), model.state(), model.state(), model.control()
    for _ in range(60):
        state.clear_forces()
        pipeline.collide(state, contacts)
        solver.step(state, after, control, contacts, 2e-3)
        state, after = after, state
    assert state.body_q.numpy()[:, 2] == pytest.approx([0.05, 0.15, 0.25], abs=3e-4)
    assert np.abs(state.body_qd.numpy()).max() < 1e-2
    assert pipeline.result.body_pairs.tolist() == [[0, 1], [1, 2], [2, 3]] and pipeline.result.volumes.min() > 0


def test_bad_input(cn):
    def made(*shapes):
        builder = newton.ModelBuilder()
        for add in shapes:
            add(builder, builder.add_body())
        return builder.finalize(device="cpu")

    box = KINDS["box"][0]
    cone = made(box, lambda b, k: b.add_shape_cone(k, cfg=config()), lambda b, k: b.add_shape_cylinder(k, barrel_radius=2.0, cfg=config()))
    with pytest.warns(UserWarning) as warned:
        assert cn.CollisionPipeline(cone).shapes == [0]
    assert ["is of kind cone, which is not taken" in str(w.message) for w in warned] == [True, False]
    assert "is of kind cylinder with a barrel, which is not taken" in str(warned[1].message)
    with pytest.raises(errors.InvalidArgumentError, match="has a margin of 0.01 m"):
        cn.CollisionPipeline(made(lambda b, k: b.add_shape_box(k, cfg=config(margin=0.01))))
    with pytest.raises(errors.InvalidArgumentError, match="nothing collides: of the model's 1 shapes"):
        cn.CollisionPipeline(made(lambda b, k: b.add_shape_box(k, cfg=config(has_shape_collision=False))))
    for wrong in ({"contact_matching": "sticky"}, {"contact_report": True}):
        with pytest.raises(errors.InvalidArgumentError, match=next(iter(wrong))):
            cn.CollisionPipeline(made(box), **wrong)
    opened = mesh_of((UNIT_BOX[0], UNIT_BOX[1][1:]))
    with pytest.raises(errors.InvalidMeshError, match="repair"):
        cn.CollisionPipeline(made(lambda b, k: b.add_shape_mesh(k, mesh=opened, cfg=config())))
    with pytest.raises(errors.LimitExceededError, match="give CollisionPipeline a larger rigid_contact_max"):
        collide(cn, two_boxes(), rigid_contact_max=3)
    _, pipeline, contacts, state = collide(cn, two_boxes(gap=1e-3))
    assert contacts.rigid_contact_count.numpy()[0] == 0 and len(pipeline.result) == 0 and not len(pipeline.point_ids)
