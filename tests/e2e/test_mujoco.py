"""contactd.mujoco with the real MuJoCo: what comes to rest where MuJoCo's hulls cannot, what stays MuJoCo's, kinds of geoms, and the judge
of its trajectories."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import subprocess
import sys
import warnings

import contactd
import numpy as np
import pytest
from conftest import BUILD, INSTRUMENTED, ROOT, SLOW
from contactd import errors
from geometry import box, icosphere

if INSTRUMENTED:  # before what takes a second to import
    pytest.skip("Python is not instrumented, and cannot load a library that is", allow_module_level=True)
mujoco = pytest.importorskip("mujoco", reason="pip install mujoco runs these", exc_type=ImportError)
sys.path.insert(0, str(ROOT / "tests" / "experiments"))

import nut as threads  # noqa: E402
from crates import STIFF, bowl, crate, stack  # noqa: E402


@pytest.fixture
def cm(monkeypatch):
    monkeypatch.setenv("CONTACTD_LIBRARY", str(BUILD / "libcontact.so"))
    import contactd.mujoco

    yield contactd.mujoco
    for callback in contactd.mujoco._CALLBACKS.values():
        for attachment in list(callback.attached):
            attachment.detach()
    mujoco.set_mjcb_control(None)


def made(xml: str):
    model = mujoco.MjModel.from_xml_string(xml)
    return model, mujoco.MjData(model)


def made_and_stepped(xml: str):
    model, data = made(xml)
    mujoco.mj_step(model, data)
    return data


def scene(*bodies: str, options: str = "", assets: str = "", more: str = "") -> str:
    return (f"<mujoco><option timestep='0.002' {options}/><asset>{assets}</asset><worldbody><geom name='floor' type='plane' size='1 1 .1'/>"
            f"{''.join(bodies)}</worldbody>{more}</mujoco>")


def free(name: str, geom: str, pos: str = "0 0 1") -> str:
    return f"<body name='{name}' pos='{pos}'><freejoint/><geom name='{name}' mass='0.5' {geom}/></body>"


def run(model, data, seconds: float) -> np.ndarray:
    rows = []
    for _ in range(round(seconds / model.opt.timestep)):
        mujoco.mj_step(model, data)
        rows.append(data.qpos.copy())
    return np.array(rows)


def test_crates_rest(cm):
    model, data = made(stack(crate(), 0.1, 0.0501))
    with cm.attach(model, data, **STIFF) as contacts:
        track = run(model, data, 0.4)
        assert data.ncon == 3 and (data.contact.dim == 6).all()
        assert contacts.result.volumes.min() > 0
    assert np.abs(data.qvel).max() < 1e-4
    assert data.qpos[2::7] == pytest.approx([0.05, 0.15, 0.25], abs=5e-5)
    report = cm.judge(model, track)
    assert report.names == ["floor", "g0", "g1", "g2"] and report.pairs.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert 0 < report.depth[-1].max() < 2e-5


def test_bowls_nest(cm):
    """28 to 30 mm apart; their hulls are 59 mm apart."""
    model, data = made(stack(bowl(around=24), 0.032, 0.002))
    with cm.attach(model, data, **STIFF):
        run(model, data, 0.3)
    assert np.diff(data.qpos[2::7]) == pytest.approx([0.030, 0.030], abs=1.5e-3)
    assert np.abs(data.qvel[2::6]).max() < 0.1


def test_a_nut_stays_on_its_bolt(cm):
    """Its hull is thrown off at once. Scaled to 8 mm of radius; nearly without friction it turns itself down by its pitch."""
    assets = ""
    for name, mesh in (("bolt", threads.bolt(40)), ("nut", threads.nut(40))):
        v, f = (" ".join(map(repr, part.ravel().tolist())) for part in (mesh[0] * 0.016, mesh[1]))
        assets += f"<mesh name='{name}' vertex='{v}' face='{f}'/>"
    model, data = made("<mujoco><option timestep='0.002' cone='elliptic'/><asset>" + assets + "</asset><worldbody>"
                       "<geom name='bolt' type='mesh' mesh='bolt' friction='1e-3'/><body name='nut'><freejoint/>"
                       "<geom name='nut' type='mesh' mesh='nut' density='7800' friction='1e-3'/></body></worldbody></mujoco>")
    with cm.attach(model, data, **STIFF):
        run(model, data, 0.24)
    x, y, z, w, i, j, k = data.qpos
    assert np.hypot(x, y) < 2e-4 and np.hypot(i, j) < 0.02  # neither off to the side nor tilted
    turned = 2 * np.arctan2(k, w) / (2 * np.pi) * threads.PITCH * 0.016
    assert z < -5e-4 and turned == pytest.approx(z, abs=3e-4)  # the threads have 0.16 mm of play


def screw(around: int, friction: float = 1e-3):
    """A nut on a fixed bolt, scaled to 8 mm of radius: the model, its data, and the acceleration of the nut without friction."""
    assets = ""
    for name, mesh in (("bolt", threads.bolt(around)), ("nut", threads.nut(around))):
        v, f = (" ".join(map(repr, part.ravel().tolist())) for part in (mesh[0] * 0.016, mesh[1]))
        assets += f"<mesh name='{name}' vertex='{v}' face='{f}' inertia='exact'/>"
    model, data = made("<mujoco><option timestep='0.002' cone='elliptic'/><asset>" + assets + "</asset><worldbody>"
                       f"<geom name='bolt' type='mesh' mesh='bolt' friction='{friction}'/><body name='nut'><freejoint/>"
                       f"<geom name='nut' type='mesh' mesh='nut' density='7800' friction='{friction}'/></body></worldbody></mujoco>")
    inertia = model.body_inertia[1].max()  # about the axis: it is the largest
    return model, data, 9.81 / (1 + inertia / model.body_mass[1] * (2 * np.pi / (threads.PITCH * 0.016)) ** 2)


def test_curved_contacts_as_points(cm):
    """A thread so fine that its contact is one patch around the bolt, whose one normal lies along the axis: as points it turns the nut. Points of
    all that nut and bolt have with each other are fewer than those of each patch, and spread over it."""
    fallen = {}
    for points, patches in ((0, True), (8, True), (16, False)):
        model, data, acceleration = screw(80)
        with cm.attach(model, data, points=points, patches=patches, **STIFF) as contacts:
            run(model, data, 0.2)
            assert patches or len(contacts.result) == 1
        assert (data.contact.dim == 3).any() == bool(points)
        fallen[points] = -data.qpos[2] / (acceleration * 0.2**2 / 2)
        if points:
            turned = 2 * np.arctan2(data.qpos[6], data.qpos[3]) / (2 * np.pi) * threads.PITCH * 0.016
            assert turned == pytest.approx(data.qpos[2], abs=3e-4) and np.hypot(*data.qpos[:2]) < 2e-4
    assert 0.6 < fallen[8] < 1.2 and 0.9 < fallen[16] < 1.1 and fallen[0] < 0.4


def test_pairs_are_one_contact_where_patches_are_not_wanted(cm):
    """Four feet are four contacts, or one of the extents of all, on which they stand as well."""
    feet = [box((x - 0.05, y - 0.05, -0.05), (x + 0.05, y + 0.05, 0.05)) for x in (-0.4, 0.4) for y in (-0.4, 0.4)]
    v, f = np.concatenate([v for v, _ in feet]), np.concatenate([f + 8 * k for k, (_, f) in enumerate(feet)])
    v, f = (" ".join(map(repr, part.ravel().tolist())) for part in (v, f))
    for patches, contacts in ((True, 4), (False, 1)):
        model, data = made(scene(free("feet", "type='mesh' mesh='feet'", "0 0 .0501"), assets=f"<mesh name='feet' vertex='{v}' face='{f}'/>"))
        with cm.attach(model, data, patches=patches, **STIFF):
            run(model, data, 0.2)
            assert data.ncon == contacts and (data.contact.dim == 6).all()
            assert np.abs(data.qvel).max() < 1e-4 and data.qpos[2] == pytest.approx(0.05, abs=5e-5)
            data.xfrc_applied[1, :] = 0, 0, 0, 0.5 * 9.81 * 0.4, 0, 0  # it would turn over an edge nearer than the feet's own
            run(model, data, 0.2)
            assert np.abs(data.qpos[4:]).max() < 1e-3


def test_flat_contacts_stay_whole_beside_points(cm):
    model, data = made(stack(crate(), 0.1, 0.0501))
    with cm.attach(model, data, points=4, **STIFF):
        run(model, data, 0.1)
        assert (data.contact.dim == 6).all() and data.ncon == 3
    for wrong in ({"points": -1}, {"points": 65}, {"points": 4, "how": "wrenches"}):
        with pytest.raises(errors.InvalidArgumentError, match="points"):
            cm.attach(model, data, **wrong)


@pytest.mark.parametrize("how", ["constraints", "wrenches"])
@pytest.mark.parametrize("geom, height", [
    ("type='box' size='.1 .1 .05'", 0.05), ("type='sphere' size='.1'", 0.1), ("type='cylinder' size='.1 .05'", 0.05),
    ("type='ellipsoid' size='.1 .1 .05'", 0.05), ("type='capsule' size='.05 .1' euler='0 90 0'", 0.05)])
def test_kinds_of_geoms_rest(cm, how, geom, height):
    model, data = made(scene(free("thing", geom, f"0 0 {height + 5e-4}")))
    model.opt.timestep = 5e-4
    with cm.attach(model, data, how=how, dissipation=20.0, **(STIFF if how == "constraints" else {})) as contacts:
        run(model, data, 0.3)
        assert contacts.scene.client.server["server"].endswith("in this process")
        if how == "wrenches":
            assert data.ncon == 0 and contacts.result.wrench(contacts.scene.bodies[1])[2] == pytest.approx(0.5 * 9.81, rel=0.05)
    assert data.qpos[2] == pytest.approx(height, abs=1e-4 if how == "constraints" else 4e-3) and np.abs(data.qvel[:3]).max() < 0.01


def test_height_fields(cm):
    """A ramp along x, of 0.2 m over 2 m, on which a box stands where it is put."""
    heights = " ".join(str(column / 4) for _ in range(3) for column in range(5))
    assets = f"<hfield name='h' nrow='3' ncol='5' size='1 0.5 0.2 0.1' elevation='{heights}'/>"
    model, data = made(f"<mujoco><asset>{assets}</asset><worldbody><geom name='ground' type='hfield' hfield='h' pos='0 0 1' friction='1'/>"
                       + free("box", "type='box' size='.05 .05 .05' friction='1'", "0.5 0.1 1.215") + "</worldbody></mujoco>")
    with cm.attach(model, data, **STIFF):
        run(model, data, 0.3)
    assert data.qpos[:2] == pytest.approx([0.5, 0.1], abs=0.01)
    assert data.qpos[2] == pytest.approx(1.15 + 0.05 / np.cos(np.arctan(0.1)), abs=2e-3)


def test_what_is_not_taken_stays_with_mujoco(cm):
    """Two boxes are contactd's; a ball is MuJoCo's, on the floor and on a box."""
    xml = scene(free("a", "type='box' size='.1 .1 .05'", "0 0 .0501"), free("b", "type='box' size='.1 .1 .05'", "0 0 .1503"),
                free("ball", "type='sphere' size='.05' contype='2' conaffinity='3'", "0 0 .252"),
                free("other", "type='sphere' size='.05'", ".5 0 .0501"))
    model, data = made(xml)
    before = model.geom_contype.copy(), model.geom_conaffinity.copy(), model.body_contype.copy()
    with cm.attach(model, data, geoms=["a", "b", "floor"], **STIFF) as contacts:
        run(model, data, 0.1)
        pairs = {frozenset(model.geom(int(g)).name for g in pair): int(dim) for pair, dim in zip(data.contact.geom, data.contact.dim)}
        assert pairs == {frozenset({"floor", "a"}): 6, frozenset({"a", "b"}): 6, frozenset({"b", "ball"}): 3,
                         frozenset({"floor", "other"}): 3}
        assert len(contacts.scene.bodies) == 3 and repr(contacts) == "<Attachment of 3 geoms by constraints>"
    after = model.geom_contype, model.geom_conaffinity, model.body_contype
    assert all(np.array_equal(x, y) for x, y in zip(before, after))
    mujoco.mj_step(model, data)
    assert (data.contact.dim == 3).all()


def test_pairs_are_mujocos(cm):
    """Bits, parents, <exclude> and <pair>; bodies that are fixed to the world, or mocap, do not touch each other."""
    nested = ("<body name='p' pos='0 0 1'><freejoint/><geom name='p' type='box' size='.1 .1 .1'/><body name='c' pos='0 0 .1'>"
              "<joint type='hinge'/><geom name='c' type='box' size='.1 .1 .1'/></body></body>")
    bits = "type='box' size='.1 .1 .1'"
    more = "<contact><exclude body1='x' body2='y'/><pair geom1='x' geom2='quiet'/></contact>"
    model, data = made(scene(nested, free("x", bits), free("y", bits), free("quiet", bits + " contype='0' conaffinity='0'"),
                             "<geom name='wall' type='box' size='.1 .1 .1'/>",
                             "<body mocap='true'><geom name='hand' type='box' size='.1 .1 .1'/></body>", more=more))
    from contactd._mujoco_model import may_touch

    names = [model.geom(k).name for k in range(model.ngeom)]
    touch = may_touch(model, range(model.ngeom))
    found = {frozenset({names[i], names[j]}) for i, j in np.argwhere(touch)}
    expected = {frozenset(pair.split()) for pair in (
        "floor p", "floor c", "floor x", "floor y", "wall p", "wall c", "wall x", "wall y", "p x", "p y", "c x", "c y", "x quiet",
        "hand p", "hand c", "hand x", "hand y")}
    assert found == expected
    run(model, data, 0.002)
    for pair in data.contact.geom:
        assert touch[pair[0], pair[1]]


def test_bits_can_be_ignored(cm):
    """A crate that is shown, and has no bits, holds what the box that stands for it in collisions cannot."""
    vertices, faces = (" ".join(map(repr, part.ravel().tolist())) for part in crate())
    shown = "<geom name='shown' type='mesh' mesh='c' group='2' contype='0' conaffinity='0' mass='.5'/>"
    xml = (f"<mujoco><option timestep='0.002'/><asset><mesh name='c' vertex='{vertices}' face='{faces}'/></asset><worldbody>"
           "<geom name='floor' type='plane' size='1 1 .1'/><body pos='0 0 .05'><freejoint/>" + shown + "<geom name='simple' type='box' "
           "size='.1 .1 .05' group='3' contype='0' conaffinity='0' mass='0'/></body>" + free("ball", "type='sphere' size='.03'", "0 0 .0401") + "</worldbody></mujoco>")
    model, data = made(xml)
    geoms = ["floor", "shown", "ball"]
    with cm.attach(model, data, geoms=geoms, ignore_bits=True, **STIFF) as contacts:
        run(model, data, 0.2)
        touching = {frozenset(model.geom(contacts.geoms[k]).name for k in pair) for pair in contacts.result.body_pairs.tolist()}
        assert touching == {frozenset({"floor", "shown"}), frozenset({"shown", "ball"})}
    assert data.qpos[2] == pytest.approx(0.05, abs=1e-4) and data.qpos[9] == pytest.approx(0.04, abs=1e-4)
    assert not model.geom_contype[1:3].any()  # as they were
    report = cm.judge(model, data.qpos[None], geoms=geoms, ignore_bits=True)
    assert sorted(report.pair_name(k) for k in range(len(report.pairs))) == ["floor – shown", "shown – ball"]
    assert cm.judge(model, data.qpos[None], geoms=geoms).worst is None
    with cm.attach(model, data, groups=[0, 2], ignore_bits=True) as contacts:
        assert [model.geom(k).name for k in contacts.geoms] == geoms


def test_callbacks_that_were_there_are_called(cm):
    model, data = made(scene(free("a", "type='box' size='.1 .1 .05'", "0 0 .0495")))
    stranger, its = made(scene(free("a", "type='box' size='.1 .1 .05'", "0 0 .049")))
    called = []
    mujoco.set_mjcb_control(lambda m, d: called.append(d.time))
    contacts = cm.attach(model, data)
    mujoco.mj_step(model, data)
    assert len(called) == 1 and data.ncon == 1
    other = mujoco.MjData(model)
    mujoco.mj_step(model, other)
    assert other.ncon == 1
    mujoco.mj_step(stranger, its)
    assert (its.contact.dim == 3).all() and its.ncon
    contacts.detach()
    contacts.detach()
    mujoco.mj_step(model, data)
    assert len(called) == 4 and (data.contact.dim == 3).all()


@pytest.mark.parametrize("how", ["constraints", "wrenches"])
def test_other_models_are_loaded_and_stepped_meanwhile(cm, how):
    """Also from files and specs, and copied; errors still leave mj_step."""
    xml = scene(free("a", "type='box' size='.1 .1 .05'", "0 0 .0495"))
    (model, data), attachments = made(xml), []
    alone = made(xml)[1]
    attachments.append(cm.attach(model, data, how=how))
    for k in range(3):
        other, its = made(xml)
        mujoco.MjSpec.from_string(xml).compile()
        mujoco.MjModel.from_xml_string(xml).body_mass[1] = 1
        mujoco.mj_step(other, its)
        assert its.ncon and (its.contact.dim == 3).all() and its.qpos.tolist() == made_and_stepped(xml).qpos.tolist()
        attachments.append(cm.attach(other, its, how=how))
    for k in (1, 0):
        attachments.pop(k).detach()
    for attachment in attachments:
        its = mujoco.MjData(attachment.model)
        mujoco.mj_step(attachment.model, its)
        assert attachment.result is not None and len(attachment.result) == 1
    mujoco.mj_step(model, data)
    mujoco.mj_step(model, alone)
    assert (data.contact.dim == 3).all() and data.qpos.tolist() == alone.qpos.tolist()
    attachments[0].scene.close()
    with pytest.raises(errors.ContactdError, match="closed"):
        mujoco.mj_step(attachments[0].model, mujoco.MjData(attachments[0].model))
    for attachment in attachments:
        attachment.detach()
    made(xml)


@pytest.mark.parametrize("geoms", ["all", ["a", "floor"]])
def test_the_judge_of_a_model_that_is_attached(cm, geoms):
    """It finds what it finds without, and leaves the model to the attachment."""
    model, data = made(scene(free("a", "type='box' size='.1 .1 .05'", "0 0 .049"), free("b", "type='sphere' size='.1'", ".5 0 .098")))
    before = cm.judge(model, data.qpos[None], geoms=geoms)
    with cm.attach(model, data) as contacts:
        report = cm.judge(model, data.qpos[None], geoms=geoms)
        mujoco.mj_step(model, data)
        assert (data.contact.dim == 6).all() and data.ncon == 2 == len(contacts.result)
    assert report.names == before.names and np.array_equal(report.pairs, before.pairs) and len(report.pairs) == (2 if geoms == "all" else 1)
    assert np.array_equal(report.volume, before.volume)


def test_the_judge_sees_mocap_bodies(cm):
    model, _ = made(scene(free("a", "type='box' size='.1 .1 .05'") + "<body mocap='true'><geom name='hand' type='sphere' size='.1'/></body>"))
    qpos = np.tile([0, 0, 1, 1, 0, 0, 0], (3, 1)).astype(float)
    at = np.array([[[0, 0, 2]], [[0, 0, 1.1]], [[0, 0, 1.14]]], float)
    report = cm.judge(model, qpos, mocap_pos=at)
    assert [volume > 0 for volume in report.volume.sum(1)] == [False, True, True]


def test_flexes_stay_with_mujoco(cm):
    """A cloth lies on a floor that is taken, beside a box; one whose bits do not match the floor's touches nothing, attached or not."""
    cloth = ("<flexcomp name='{0}' type='grid' count='4 4 1' spacing='.05 .05 .05' pos='{1} 0 .009' radius='.01' mass='.1' dim='2'>"
             "<edge equality='true'/><contact selfcollide='none' {2}/></flexcomp>")
    model, data = made(scene(free("a", "type='box' size='.1 .1 .05'", "0 .5 .0499"), cloth.format("cloth", 0, ""),
                             cloth.format("other", 0.5, "contype='4' conaffinity='8'")))
    mujoco.mj_forward(model, data)
    own = data.contact.flex.max(axis=1)
    assert own.max() == 0 and (own == 0).sum() == 16
    before = model.flex_contype.copy()
    with pytest.warns(UserWarning, match="2 flexes"), cm.attach(model, data):
        mujoco.mj_forward(model, data)
        of_flex = data.contact.flex.max(axis=1) >= 0
        assert of_flex.sum() == 16 and (data.contact.flex[of_flex].max(axis=1) == 0).all()
        assert (~of_flex).sum() == 1 and data.contact.dim[~of_flex] == 6
    assert np.array_equal(model.flex_contype, before)


def soft(name: str, at: str, more: str = "", contact: str = "", count: str = "4 4 3") -> str:
    """A block of 0.15 x 0.15 x 0.1 m, 0.5 kg, about `at`."""
    return (f"<flexcomp name='{name}' type='grid' count='{count}' spacing='.05 .05 .05' pos='{at}' radius='.001' mass='.5' dim='3' {more}>"
            f"<contact selfcollide='none' {contact}/><elasticity young='3e4' poisson='0.2' damping='0.002'/></flexcomp>")


def test_a_soft_block_rests_in_a_crate(cm):
    """As deep as the law says; MuJoCo's own contacts would hold it on the crate's hull."""
    vertices, faces = (" ".join(map(repr, part.ravel().tolist())) for part in crate())
    assets = f"<mesh name='c' vertex='{vertices}' face='{faces}'/>"
    model, data = made(scene("<geom name='crate' type='mesh' mesh='c' pos='0 0 .05'/>", soft("block", "0 0 .0605"), assets=assets))
    model.opt.timestep = 2.5e-4
    with cm.attach(model, data, how="wrenches", flexes=["block"], modulus=2e6, dissipation=5.0) as contacts:
        run(model, data, 0.5)
        assert data.ncon == 0
        assert contacts.result.body_pairs.tolist() == [[1, 2]]
        block = contacts.scene.bodies[2]
        assert contacts.result.wrench(block)[2] == pytest.approx(0.5 * 9.81, rel=0.05)
        lowest = data.flexvert_xpos[:, 2].min()
        depth = 0.5 * 9.81 / (2e6 / 2 * 0.15**2)  # of two like bodies in series, on the crate's floor of 10 mm
        assert contacts.result.depths[0] == pytest.approx(depth, rel=0.1) and 0.009 < lowest < 0.01
        assert np.abs(data.qvel).max() < 0.02
    mujoco.mj_forward(model, data)
    assert data.ncon  # it is MuJoCo's again


def test_a_soft_block_slides_and_is_held(cm):
    """Velocities of vertices count: friction stops it where there is some, the larger one as MuJoCo has it."""
    ways = {}
    for mu, floor in ((0.0, 0.0), (0.5, 0.1)):
        xml = scene(soft("block", "0 0 .0499", contact=f"friction='{mu}'")).replace("name='floor'", f"name='floor' friction='{floor}'")
        model, data = made(xml)
        model.opt.timestep = 5e-4
        data.qvel[0::3] = 0.5
        with cm.attach(model, data, how="wrenches", flexes="all", modulus=2e6, dissipation=5.0):
            run(model, data, 0.15)
        ways[mu] = data.flexvert_xpos[:, 0].mean(), data.qvel[0::3].mean()
    assert ways[0.0] == pytest.approx((0.075, 0.5), rel=0.02)
    assert ways[0.5][0] == pytest.approx(0.5**2 / (2 * 0.5 * 9.81), rel=0.2) and abs(ways[0.5][1]) < 0.05


def test_a_soft_block_that_is_inside_a_geom_is_named(cm):
    model, data = made(scene(soft("block", "0 0 .5"), free("big", "type='box' size='.3 .3 .3'", "0 0 .5")))
    with cm.attach(model, data, how="wrenches", flexes="all"), pytest.warns(UserWarning, match="of geom 'big' and flex 'block' one is wholly inside"):
        mujoco.mj_step(model, data)


def test_flexes_that_cannot_be_taken(cm):
    cloth = ("<flexcomp name='cloth' type='grid' count='4 4 1' spacing='.05 .05 .05' pos='0 0 1' radius='.01' mass='.1' dim='2'>"
             "<edge equality='true'/></flexcomp>")
    model, data = made(scene(soft("block", "0 0 .5"), cloth, soft("few", "0 0 .8", more="dof='trilinear'")))
    for flexes, how, error, message in (
            (["none"], "wrenches", errors.NotFoundError, "no flex 'none'; its 3 flexes are block, cloth, few"),
            ("some", "wrenches", errors.InvalidArgumentError, 'expected "all" or a list of flexes'),
            (["block"], "constraints", errors.InvalidArgumentError, 'how="wrenches" does that'),
            (["few"], "wrenches", errors.InvalidArgumentError, 'flex \'few\' is interpolated.*dof="full"'),
            (["cloth"], "wrenches", errors.InvalidMeshError, "flex cloth")):
        with pytest.warns(UserWarning) if how == "wrenches" and flexes == ["cloth"] else contextlib.nullcontext():
            with pytest.raises(error, match=message):
                cm.attach(model, data, how=how, flexes=flexes)
    with pytest.warns(UserWarning, match="has 2 flexes, which are not taken"):
        cm.attach(model, data, how="wrenches", flexes=[0]).detach()


SLIDES = {
    "no friction": ("friction='0'", ""),
    "condim 1": ("friction='1' condim='1'", ""),
    "the pair's": ("friction='1'", "<contact><pair geom1='floor' geom2='a' friction='.3 .3 1e-5 1e-5 1e-5'/></contact>"),
    "the pair's condim": ("friction='1'", "<contact><pair geom1='floor' geom2='a' condim='1'/></contact>"),
    "priority": ("friction='.3' priority='1'", ""),
    "the larger": ("friction='.3'", "<default><geom friction='.3'/></default>"),
}


@pytest.mark.parametrize("how", ["constraints", "wrenches"])
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("name", SLIDES)
def test_friction_is_mixed_as_mujoco_does(cm, how, cone, name):
    """A box slides on a floor whose friction is 1 where nothing else is said: it slows by mu g, mu 0 or 0.3."""
    geom, more = SLIDES[name]
    floor = " friction='0' condim='1'" if name in ("no friction", "condim 1") else " friction='.1'" if name == "the larger" else ""
    xml = scene(free("a", f"type='box' size='.1 .1 .05' {geom}", "0 0 .0499"), options=f"cone='{cone}'", more=more)
    model, data = made(xml.replace("name='floor'", "name='floor'" + floor))
    model.opt.timestep = 5e-4
    data.qvel[0] = 1.0
    with cm.attach(model, data, how=how, dissipation=20.0, **(STIFF if how == "constraints" else {})):
        run(model, data, 0.1)
    mu = 0.3 if name in ("the pair's", "priority", "the larger") else 0.0
    assert data.qvel[0] == pytest.approx(1 - mu * 9.81 * 0.1, abs=0.02 if cone == "elliptic" else 0.04)  # of a pyramid tilting takes a part
    assert data.qpos[2] == pytest.approx(0.05, abs=4e-3)


@pytest.mark.parametrize("options", ["", "o_solref='.03 .9' o_solimp='.8 .9 .002 .4 1' o_friction='.3 .3 .01 1e-3 1e-3'"])
def test_parameters_are_mixed_as_mujoco_does(cm, options):
    """Those of MuJoCo's own contacts between the same geoms."""
    random = np.random.default_rng(1)

    def numbers(*ranges):
        return " ".join(f"{random.uniform(*r):.4f}" for r in ranges)

    bodies, pairs = "", ""
    for k in range(30):
        for name, at in ((f"a{k}", ".05"), (f"b{k}", ".1499")):
            soft = numbers((-2000, -500), (-80, -10)) if random.random() < 0.3 else numbers((0.01, 0.05), (0.5, 1.5))
            geom = (f"<geom name='{name}' type='box' size='.05 .05 .05' friction='{numbers((0, 2))}' condim='{random.choice([1, 3, 4])}' priority='"
                    f"{random.integers(2)}' solmix='{random.choice([0, 1, 2.5])}' solref='{soft}' solimp='{numbers((0.7, 0.9), (0.91, 0.99), (1e-3, 2e-3))}'/>")
            bodies += f"<body pos='{k} 0 {at}'>{'<freejoint/>' if name[0] == 'b' else ''}{geom}</body>"
        if k % 3 == 0 and not options:
            pairs += (f"<pair geom1='a{k}' geom2='b{k}' friction='{numbers(*[(0.1, 2)] * 5)}' condim='{random.choice([1, 3])}' "
                      f"solref='{numbers((0.01, 0.05), (0.5, 1.5))}' solreffriction='{numbers((0.01, 0.05), (0.5, 1.5))}'/>")
    flag = "<flag override='enable'/>" if options else ""
    model, data = made(f"<mujoco><option {options}>{flag}</option><worldbody>{bodies}</worldbody><contact>{pairs}</contact></mujoco>")

    def parameters():
        mujoco.mj_forward(model, data)
        return {tuple(c.geom.tolist()): (c.solref.tolist(), c.solreffriction.tolist(), c.solimp.tolist(), 1e-5 if c.dim == 1 else c.friction[0])
                for c in data.contact}

    own = parameters()
    with cm.attach(model, data):
        taken = parameters()
    assert len(own) == 30 and own.keys() == taken.keys()
    for pair, values in own.items():
        for one, other in zip(values, taken[pair]):
            assert other == pytest.approx(one, rel=1e-12), pair


@pytest.mark.parametrize("how", ["constraints", "wrenches"])
def test_frictions_that_change(cm, how):
    """A box slides by what the model says now, whatever it has said before."""
    model, data = made(scene(free("a", "type='box' size='.1 .1 .05'", "0 0 .0499"), options="cone='elliptic'"))
    model.opt.timestep = 5e-4
    with cm.attach(model, data, how=how, dissipation=20.0, **(STIFF if how == "constraints" else {})):
        for mu in (0.5, 0.1, 0.3):
            mujoco.mj_resetData(model, data)
            model.geom_friction[:, 0] = mu
            data.qvel[0] = 1.0
            run(model, data, 0.1)
            assert data.qvel[0] == pytest.approx(1 - mu * 9.81 * 0.1, abs=0.03)


@pytest.mark.parametrize("how", ["constraints", "wrenches"])
def test_threads_step_data_of_one_model(cm, how):
    bodies = [free(f"b{k}", f"type='box' size='.05 {0.05 + 0.004 * k} .05'", f"0 0 {0.0501 + 0.1001 * k}") for k in range(6)]
    model, data = made(scene(*bodies))

    def stepped(seed):
        mine, random = mujoco.MjData(model), np.random.default_rng(seed)
        for k in range(6):
            mine.qpos[7 * k:7 * k + 2] = random.normal(0, 0.005, 2)
        run(model, mine, 0.1)
        return mine.qpos.tolist()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with cm.attach(model, data, how=how), concurrent.futures.ThreadPoolExecutor(4) as threads:
            assert list(threads.map(stepped, range(4))) == [stepped(seed) for seed in range(4)]
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_adhesion_holds(cm, cone):
    """A box hangs from a ceiling, pressed by what adhesion has beyond its weight."""
    xml = (f"<mujoco><option cone='{cone}'/><worldbody><geom type='box' size='1 1 .1' pos='0 0 1.1'/><body name='b' pos='0 0 .9505'><freejoint/>"
           "<geom type='box' size='.05 .05 .05' mass='.5'/><site name='s' type='box' size='.1 .1 .1'/></body></worldbody>"
           "<actuator><adhesion body='b' ctrlrange='0 1' gain='20'/></actuator><sensor><touch site='s'/></sensor></mujoco>")
    model, data = made(xml)
    with cm.attach(model, data):
        data.ctrl[0] = 1
        run(model, data, 0.4)
        assert data.qpos[2] == pytest.approx(0.9505, abs=5e-4) and data.sensordata[0] == pytest.approx(20 - 0.5 * 9.81, rel=1e-3)
        data.ctrl[0] = 0
        run(model, data, 0.2)
        assert data.qpos[2] < 0.85
    with pytest.warns(UserWarning, match="adhesion"):
        cm.attach(model, data, how="wrenches").detach()


def test_stages_that_are_skipped_keep_contacts(cm):
    """mjd_transitionFD steps many times without positions; its derivatives are those of a contact that is there once."""
    model, data = made(scene(free("a", "type='box' size='.1 .1 .05'", "0 0 .0499")))
    with cm.attach(model, data, **STIFF):
        mujoco.mj_forward(model, data)
        assert data.ncon == 1
        rows, acceleration = data.nefc, data.qacc.copy()
        mujoco.mj_forwardSkip(model, data, mujoco.mjtStage.mjSTAGE_POS, 0)
        assert data.ncon == 1 and data.nefc == rows and data.qacc == pytest.approx(acceleration, abs=1e-6)
        transition = np.zeros((2 * model.nv, 2 * model.nv))
        mujoco.mjd_transitionFD(model, data, 1e-6, True, transition, None, None, None)
        assert data.ncon == 1 and data.nefc == rows and np.isfinite(transition).all()
        assert transition[model.nv + 2, model.nv + 2] < 0.9  # the contact brakes it


def test_callbacks_that_are_replaced(cm):
    """The next attachment installs contactd's again, for both models; one that someone has put around it does not call it twice."""
    xml = scene(free("a", "type='box' size='.1 .1 .05'", "0 0 .0495"))
    (model, data), (second, its) = made(xml), made(xml)
    first = cm.attach(model, data)
    mujoco.set_mjcb_control(None)
    with cm.attach(second, its):
        for m, d in ((model, data), (second, its)):
            mujoco.mj_step(m, d)
            assert d.ncon == 1 and d.contact.dim[0] == 6
    first.detach()
    first, calls = cm.attach(model, data), []
    installed = mujoco.get_mjcb_control()

    def around(m, d):
        calls.append(d.time)
        installed(m, d)

    mujoco.set_mjcb_control(around)
    mujoco.mj_step(model, data)
    assert len(calls) == 1 and data.ncon == 1
    first.detach()
    with cm.attach(model, data):
        mujoco.mj_step(model, data)
        assert len(calls) == 2 and data.ncon == 1 and data.contact.dim[0] == 6


def test_bad_input(cm):
    box = free("a", "type='box' size='.1 .1 .05'")
    model, data = made(scene(box))
    with pytest.raises(errors.NotFoundError, match="no geom 'b'; its 2 geoms are a, floor"):
        cm.attach(model, data, geoms=["b"])
    unnamed = made("<mujoco><worldbody><geom type='sphere' size='1'/></worldbody></mujoco>")
    with pytest.raises(errors.NotFoundError, match="no geom ''"):
        cm.attach(*unnamed, geoms=[""])
    with pytest.raises(TypeError):
        cm.attach(model, data, geoms=[0.5])
    for value in (np.nan, np.inf, -1.0):
        with pytest.raises(errors.ContactdError, match="modulus"):
            cm.attach(model, data, how="wrenches", modulus=value)
    for field, value in (("solref", [np.nan, 1]), ("solimp", [0.9, np.inf, 1e-3, 0.5, 2])):
        with pytest.raises(errors.NonFiniteError, match=f"{field}: expected finite"):
            cm.attach(model, data, **{field: value})
    with pytest.raises(errors.InvalidArgumentError, match='expected "constraints" or "wrenches"'):
        cm.attach(model, data, how="points")
    with pytest.raises(errors.InvalidArgumentError, match="no geom is taken"):
        cm.attach(model, data, groups=[4])
    with cm.attach(model, data), pytest.raises(errors.ConflictError, match="attached already"):
        cm.attach(model, data)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    with pytest.raises(errors.InvalidArgumentError, match='<flag contact="disable"/>'):
        cm.attach(model, data)
    mujoco.mj_resetData(model, data)
    data.qpos[2] = 0.049
    with cm.attach(model, data, how="wrenches"):  # MuJoCo's contacts are not what it needs
        mujoco.mj_step(model, data)
        assert data.qfrc_passive[2] > 0
    model.opt.disableflags = int(mujoco.mjtDisableBit.mjDSBL_SPRING) | int(mujoco.mjtDisableBit.mjDSBL_DAMPER)
    with pytest.raises(errors.InvalidArgumentError, match='<flag spring="disable" damper="disable"/>.*enable spring or damper'):
        cm.attach(model, data, how="wrenches")
    for flag in ("constraint='disable'", "sleep='enable'"):
        sleeper, its = made(scene(box).replace("/><asset>", f"><flag {flag}/></option><asset>"))
        with pytest.raises(errors.InvalidArgumentError, match=flag.split("=")[0]):
            cm.attach(sleeper, its)
    paired, its = made(scene(box, more="<contact><pair geom1='a' geom2='floor'/></contact>").replace("/><asset>", "><flag override='enable'/></option><asset>"))
    before = paired.geom_contype.tolist()
    with pytest.raises(errors.InvalidArgumentError, match="override.*<pair>"):
        cm.attach(paired, its)
    assert paired.geom_contype.tolist() == before
    with pytest.raises(errors.WrongLengthError, match=r"qpos: expected shape \(T, 7\)"):
        cm.judge(model, np.zeros((3, 6)))
    with pytest.raises(errors.WrongLengthError, match=r"mocap_pos: expected shape \(3, 0, 3\)"):
        cm.judge(model, np.zeros((3, 7)), mocap_pos=np.zeros((3, 3)))
    v, f = icosphere(0.1, 1)
    v, f = (" ".join(map(repr, part.ravel().tolist())) for part in (v, f[1:]))
    model, data = made(scene(free("open", "type='mesh' mesh='m'"), assets=f"<mesh name='m' vertex='{v}' face='{f}'/>"))
    with pytest.raises(errors.InvalidMeshError, match="mesh m of geom 'open'"):
        cm.attach(model, data)
    with cm.attach(model, data, closing="hull") as contacts:
        assert len(contacts.geoms) == 2


def test_meshes_that_are_not_closed(cm):
    """Closed ones stay as they are, whatever is asked for the others; faces that have vertices of their own at one position are closed."""
    (v, f), (cv, cf), (sv, sf) = box((0, 0, 0), (0.1, 0.1, 0.1)), crate(), icosphere(0.1, 2)
    meshes = {"split": (v[f].reshape(-1, 3), np.arange(3 * len(f)).reshape(-1, 3)), "crate": (cv, cf), "holed": (sv, sf[1:]),
              "halved": (sv, sf[np.flatnonzero(sv[sf].mean(axis=1)[:, 2] > 0)])}
    assets = "".join(f"<mesh name='{name}' vertex='{' '.join(map(repr, at.ravel().tolist()))}' face='{' '.join(map(str, corners.ravel()))}'/>"
                     for name, (at, corners) in meshes.items())
    bodies = [free(name, f"type='mesh' mesh='{name}'", f"{k} 0 1") for k, name in enumerate(meshes)]
    model, data = made(scene(*bodies[:2], assets=assets))
    with cm.attach(model, data) as contacts:
        assert list(contacts.meshes) == [1, 2]
        assert contacts.meshes[1].volume == pytest.approx(1e-3, rel=1e-6) and contacts.meshes[1].vertex_count == 8
    model, data = made(scene(*bodies, assets=assets))
    with pytest.raises(errors.InvalidMeshError, match="mesh holed of geom 'holed'"):
        cm.attach(model, data)
    with pytest.raises(errors.InvalidMeshError, match="mesh halved of geom 'halved'.*repair fills holes of up to"):
        cm.attach(model, data, repair=True)
    with cm.attach(model, data, repair=True, closing="hull") as contacts:
        _, split, whole, holed, halved = (None, *contacts.meshes.values())
        assert split.closing is None and split.repair is None
        assert whole.closing is None and whole.volume < 0.6 * np.prod(np.ptp(whole.bounds, axis=0))
        assert holed.closing is None and holed.repair is not None
        assert halved.closing == "hull"


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("points", [0, 8])
def test_without_friction_nothing_is_rigid(cm, cone, points):
    """MuJoCo makes all of a contact but its normal as soft as the square of its friction, and divides by it. A box whose mass is near one of its edges
    rests nevertheless."""
    body = "<body name='a' pos='0 0 .0499'><freejoint/><geom name='a' type='box' size='.1 .1 .05' mass='0.1' condim='1'/><geom type='sphere' mass='0.5' size='.01' pos='.06 0 0' contype='0' conaffinity='0'/></body>"
    model, data = made(scene(body, options=f"cone='{cone}'").replace("name='floor'", "name='floor' condim='1'"))
    with cm.attach(model, data, points=points, **STIFF):
        run(model, data, 0.3)
        assert data.ncon == 4 and (data.contact.dim == 1).all()
        corners = data.contact.pos[:, :2] - data.contact.pos[:, :2].mean(axis=0)
        assert len(np.unique(np.sign(corners), axis=0)) == 4 and np.abs(corners[:, 1]) == pytest.approx(0.1, abs=1e-3)
        assert data.contact.pos[:, :2].mean(axis=0) == pytest.approx(data.subtree_com[1, :2], abs=2e-3)  # it has tilted until they bear alike
        assert data.efc_D.max() < 100 * model.body_mass.sum() / STIFF["solimp"][1]
        assert data.efc_force.sum() == pytest.approx(0.6 * 9.81, rel=1e-3)
        assert data.qpos[2] == pytest.approx(0.05, abs=1e-4) and abs(data.qpos[5]) < 1e-3 and np.abs(data.qvel).max() < 1e-3


@pytest.mark.parametrize("how", ["constraints", "wrenches"])
@pytest.mark.parametrize("floor", ["first", "last"])
def test_what_is_wholly_below_a_plane_comes_out(cm, how, floor):
    """As a thin body does that was thrown at it; whichever of both geoms comes first. It is not thrown out."""
    stick = free("a", "type='capsule' size='.01 .05' euler='0 90 0'", "0 0 -.05")
    plane = "<geom name='floor' type='plane' size='1 1 1'/>"
    bodies = plane + stick if floor == "first" else stick + f"<body>{plane}</body>"
    model, data = made(f"<mujoco><option timestep='.002'/><worldbody>{bodies}</worldbody></mujoco>")
    data.qvel[2] = -5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with cm.attach(model, data, how=how):
            track = run(model, data, 0.6)
    assert track[:, 2].max() < 0.1 and 0 < data.qpos[2] < 0.012


@pytest.mark.parametrize("how", ["constraints", "wrenches"])
@pytest.mark.parametrize("mu", [0, 1])
@pytest.mark.parametrize("table", ["first", "last"])
def test_what_is_wholly_inside_a_table_comes_out(cm, how, mu, table):
    stick = free("a", f"type='capsule' size='.01 .05' euler='0 90 0' friction='{mu}'", "0 0 -.025")
    top = f"<geom name='table' type='box' size='.4 .4 .1' pos='0 0 -.1' euler='0 0 20' friction='{mu}'/>"
    model, data = made(f"<mujoco><option timestep='.002'/><worldbody>{top + stick if table == 'first' else f'{stick}<body>{top}</body>'}</worldbody></mujoco>")
    data.qvel[2] = -2
    with cm.attach(model, data, how=how), pytest.warns(UserWarning, match="'a'.*wholly inside.*shortest way out"):
        track = run(model, data, 0.6)
    assert track[:, 2].max() < 0.1 and 0.008 < data.qpos[2] < 0.012 and np.abs(track[:, :2]).max() < 0.02


def test_each_body_is_as_stiff_as_its_mass_lets_it(cm):
    """With one modulus of all, that of the lightest, the heavier ones would fall through the floor. A flex is as stiff as the mass of its surface lets
    it, and a mass on it rests as deep as both are in series."""
    masses = {"a": 20.0, "b": 0.5, "c": 1e-3}
    boxes = [f"<body pos='{k} 0 .05'><freejoint/><geom name='{name}' type='box' size='.05 .05 .05' mass='{mass}'/></body>"
             for k, (name, mass) in enumerate(masses.items())]
    model, data = made(scene(*boxes))
    with cm.attach(model, data, how="wrenches", dissipation=20.0) as contacts:
        run(model, data, 0.6)
        assert data.qpos[2::7].min() > 0.045 and np.abs(data.qvel).max() < 0.02
        radius, dt = float(model.geom_rbound[1]), model.opt.timestep  # m g is the modulus times the area times the depth; the floor is rigid
        modulus = contactd._stiffness.STIFFEST * 20.0 / (np.pi * radius**2) / dt**2
        assert contacts.result.depths[0] == pytest.approx(20.0 * 9.81 / (modulus * 0.01), rel=0.02)
    model, data = made(scene(soft("block", "0 0 .06"), free("a", "type='box' size='.05 .05 .05'", "0 0 .17")))
    model.opt.timestep = 5e-4
    with cm.attach(model, data, how="wrenches", flexes="all", dissipation=5.0) as contacts:
        run(model, data, 0.5)
        assert sorted(map(tuple, contacts.result.body_pairs.tolist())) == [(0, 2), (1, 2)] and np.abs(data.qvel).max() < 0.2
        assert contacts.result.depths.max() < 0.005


def test_depths_are_no_larger_than_bodies(cm):
    """Where next to nothing of a body sticks out, its volume divided by its section is more than it measures."""
    model, data = made(scene(free("a", "type='capsule' size='.01 .05' euler='0 90 0'", "0 0 -.00999")))
    with cm.attach(model, data) as contacts:
        mujoco.mj_forward(model, data)
        assert contacts.result.depths[0] > 0.05
        assert data.contact.dist.tolist() == pytest.approx([-0.02], rel=1e-6)


def test_the_example(tmp_path, cm):
    done = subprocess.run([sys.executable, str(ROOT / "client_py" / "examples" / "crates.py"), "--seconds", "0.1", "--html",
                           str(tmp_path / "judge.html")], capture_output=True, text=True, timeout=60 * SLOW,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "client_py"), "PYTHONIOENCODING": "utf-8"})
    assert done.returncode == 0 and "worst penetration" in done.stdout, done.stderr
    assert (tmp_path / "judge.html").exists()


@pytest.mark.parametrize("how", ["constraints", "wrenches"])
@pytest.mark.parametrize("z", [0, 0.18])
@pytest.mark.parametrize("kind", ['"sphere" size=".2"', '"ellipsoid" size=".2 .2 .25"', '"mesh" mesh="m"'])
def test_contacts_of_pairs_are_taken_over(cm, how, z, kind):
    """MuJoCo's colliders of convex shapes take no heed of a margin below 0. At z = 0 both geoms' middles are one point."""
    outcomes = []
    for pair in ('<pair geom1="a" geom2="b" condim="3"/>', ""):
        model, data = made(f"""<mujoco><asset><mesh name="m" vertex="0 0 0 .5 0 0 0 .5 0 0 0 .5"/></asset><worldbody>
            <geom name="a" type={kind}/><body pos="0 0 {z}"><freejoint/><geom name="b" mass="1" type={kind}/></body></worldbody>
            <contact>{pair}</contact></mujoco>""")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of geoms wholly inside each other
            with cm.attach(model, data, how=how) as contacts:
                mujoco.mj_step(model, data, 2)
                assert len(contacts.result) == 1
                outcomes.append((data.nefc, data.qvel.tolist()))
    assert outcomes[0] == outcomes[1]
