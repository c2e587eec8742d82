"""Meshes of several shells: those inside out are refused by name or turned, doubled ones are told or dropped, and their mass
properties are known, over every interface."""

from __future__ import annotations

import json
import subprocess
import warnings

import contactd
import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from contactd import errors
from geometry import UNIT_BOX, as_obj, box
from http_api import Api

PATIENT = 30 * SLOW


def merged(*parts):
    """(vertices, triangles), or the same and True: inside out."""
    vertices, triangles, n = [], [], 0
    for points, faces, *turned in parts:
        vertices.append(np.asarray(points, float))
        triangles.append((np.asarray(faces)[:, ::-1] if turned else np.asarray(faces)) + n)
        n += len(points)
    return np.concatenate(vertices), np.concatenate(triangles)


LARGE, SMALL, PROBE = box((0, 0, 0), (3, 2, 2)), box((5, 0, 0), (6, 1, 2)), box((5.25, 0.25, 0.25), (5.75, 0.75, 3))
OVERLAP = 0.5 * 0.5 * 1.75


def test_a_part_inside_out(server_or_engine):
    body = merged(LARGE, (*SMALL, True))
    with pytest.raises(errors.InvalidMeshError, match=r"shell 2 of 2, 12 triangles from triangle 12 .*encloses -2 m\^3.*repair"):
        server_or_engine.register_mesh(*body)
    mesh = server_or_engine.register_mesh(*body, repair=True)
    assert mesh.repair.turned_triangles == 12
    assert mesh.volume == pytest.approx(14) and mesh.n_shells == 2
    probe = server_or_engine.register_mesh(*PROBE)
    for method in ("exact", "ldi"):
        assert server_or_engine.overlap(mesh, probe, method=method).volume == pytest.approx(OVERLAP, rel=1e-2)


def test_cavities_are_taken_as_they_are(server_or_engine):
    cavity, island = box((1, 0.5, 0.5), (2, 1.5, 1.5)), box((1.25, 0.75, 0.75), (1.5, 1, 1))
    mesh = server_or_engine.register_mesh(*merged(island, (*cavity, True), LARGE))
    assert mesh.volume == pytest.approx(12 - 1 + 1 / 64) and mesh.n_shells == 3
    with pytest.raises(errors.InvalidMeshError, match="shell 1 of 3"):
        server_or_engine.register_mesh(*merged((*island, True), (*cavity, True), LARGE))


def test_flat_parts_have_no_direction(server_or_engine):
    """A label or a plate without a thickness, with two faces that are divided differently: which way it encloses something is rounding, however it
    is turned, and wherever it is. One that is as thick as ten steps of float32 still has a direction."""
    rng = np.random.default_rng(4)
    corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0.0]]) / 4
    faces = np.array([[0, 1, 2], [0, 2, 3], [1, 3, 2], [1, 0, 3]])  # above; below
    probe = server_or_engine.register_mesh(*PROBE)
    signs = set()
    for k in range(20):
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        at = rng.uniform(-1, 1, 3) * (5 if k % 2 else 300)
        label = (corners * rng.uniform(0.1, 4) @ turn + at).astype(np.float32)
        p = label.astype(float)
        signs.add(int(np.sign(np.einsum("ij,ij->i", p[faces[:, 0]] - p[0], np.cross(p[faces[:, 1]] - p[0], p[faces[:, 2]] - p[0])).sum())))
        mesh = server_or_engine.register_mesh(*merged(LARGE, SMALL, (label, faces)))
        assert mesh.n_shells == 3 and mesh.volume == pytest.approx(14, rel=1e-4)
        if k < 4:
            assert server_or_engine.overlap(mesh, probe).volume == pytest.approx(OVERLAP, rel=1e-4)
        thin = corners + [[0, 0, 0], [0, 0, 10 * 2**-24 * 300], [0, 0, 0], [0, 0, 10 * 2**-24 * 300]]
        with pytest.raises(errors.InvalidMeshError, match="shell 2 of 2"):
            server_or_engine.register_mesh(*merged(LARGE, ((thin + [300, 0, 0]).astype(np.float32), faces)))
    assert {-1, 1} <= signs


def test_a_body_mirrored_as_a_whole(server_or_engine):
    """A scale of -1 turns a body's cavities with it; a repair turns all back, and nothing of the bodies beside it."""
    cavity, island = box((1, 0.5, 0.5), (2, 1.5, 1.5)), box((1.25, 0.75, 0.75), (1.5, 1, 1))
    hollow, beside = merged(island, (*cavity, True), LARGE), merged(SMALL)
    for rest in ((), (beside,)):
        mirrored = merged((*hollow, True), *rest)
        with pytest.raises(errors.InvalidMeshError, match="shell 1 of 4.*2 more shells.*repair" if rest else "the surface is inside out.*repair"):
            server_or_engine.register_mesh(*mirrored)
        mesh = server_or_engine.register_mesh(*mirrored, repair=True)
        assert mesh.volume == pytest.approx(12 - 1 + 1 / 64 + 2 * len(rest))
        assert mesh.repair.turned_triangles == 36 and mesh.repair.self_overlap == pytest.approx(0, abs=1e-9)
        probe = server_or_engine.register_mesh(*box((1.1, 0.6, 0.6), (1.2, 0.7, 3)))        # through the cavity, beside the island
        assert server_or_engine.overlap(mesh, probe).volume == pytest.approx(0.01 * 0.5, rel=1e-6)


def test_a_doubled_shell(server_or_engine):
    twice = merged(SMALL, LARGE, SMALL)
    with pytest.warns(UserWarning, match="1 of its 3 shells .*repair=True"):
        mesh = server_or_engine.register_mesh(*twice)
    assert mesh.doubled_shells == 1 and mesh.volume == pytest.approx(16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mesh = server_or_engine.register_mesh(*twice, repair=True)
    assert mesh.doubled_shells == 0 and mesh.volume == pytest.approx(14) and mesh.repair.duplicate_triangles == 12


def test_mass_properties(server_or_engine):
    mesh = server_or_engine.register_mesh(*merged(LARGE, SMALL))
    assert mesh.center_of_mass == pytest.approx([(12 * 1.5 + 2 * 5.5) / 14, (12 * 1 + 2 * 0.5) / 14, 1])
    # From a million points, each with its share of the volume.
    rng = np.random.default_rng(3)
    points = np.concatenate([rng.uniform((0, 0, 0), (3, 2, 2), (600_000, 3)), rng.uniform((5, 0, 0), (6, 1, 2), (100_000, 3))])
    arms = points - mesh.center_of_mass
    second = arms.T @ arms * (14 / len(points))
    assert mesh.inertia == pytest.approx(np.trace(second) * np.eye(3) - second, rel=0.01, abs=0.1)
    assert mesh.bounds == pytest.approx(np.array([(0, 0, 0), (6, 2, 2)]))


def test_http_and_contactctl(server, tmp_path):
    api = Api(server.http)
    turned, twice = as_obj(*merged(LARGE, (*SMALL, True))), as_obj(*merged(LARGE, SMALL, SMALL))
    api.refused("POST", "/v1/meshes", 422, "INVALID_MESH", turned.encode())
    mesh = api("POST", "/v1/meshes", twice.encode()).json
    assert (mesh["shells"], mesh["doubled_shells"]) == (3, 1)
    mesh = api("POST", "/v1/meshes?repair=1", turned.encode()).json
    assert (mesh["shells"], mesh["doubled_shells"]) == (2, 0)
    assert mesh["center_of_mass"] == pytest.approx([29 / 14, 13 / 14, 1])
    (tmp_path / "twice.obj").write_text(twice)

    def add(*options):
        return subprocess.run([*CONTACTCTL, "--server", server.stream, "mesh", "add", tmp_path / "twice.obj", *options],
                              capture_output=True, text=True, check=True, timeout=PATIENT).stdout

    assert "1 of its 3 shells lies where another does" in add()
    (listed,) = json.loads(add("--repair", "-o", "json"))
    assert (listed["shells"], listed["doubled_shells"]) == (2, 0)
    assert listed["inertia"] == [pytest.approx(row) for row in mesh["inertia"]]


def test_units(server_or_engine, tmp_path):
    """A box of 20 x 30 x 40 mm is as large by every door; what cannot be a scale is refused."""
    points, faces = box((0, 0, 0), (20, 30, 40))
    (tmp_path / "mm.obj").write_text(as_obj(points, faces))
    made = [server_or_engine.register_mesh(np.asarray(points, dtype), faces, **how) for dtype in ("f4", "f8")
            for how in ({"unit": "mm"}, {"scale": 1e-3})]
    made += [server_or_engine.register_mesh_file(tmp_path / "mm.obj", unit="mm"), server_or_engine.register_mesh(np.asarray(points) / 10, faces, unit="cm")]
    for mesh in made:
        assert mesh.volume == pytest.approx(2.4e-5, rel=1e-6) and mesh.bounds[1] == pytest.approx([0.02, 0.03, 0.04], rel=1e-6)
    assert server_or_engine.register_mesh(points, faces, scale=2).volume == pytest.approx(8 * 24000)
    for how, field, error in (({"unit": "yard"}, "unit", errors.InvalidArgumentError), ({"scale": 0}, "scale", errors.OutOfRangeError),
                              ({"scale": -1}, "scale", errors.OutOfRangeError), ({"scale": 1e13}, "scale", errors.OutOfRangeError),
                              ({"scale": float("nan")}, "scale", errors.ContactdError),
                              ({"unit": "mm", "scale": 1}, "scale", errors.InvalidArgumentError)):
        with pytest.raises(error) as caught:
            server_or_engine.register_mesh(points, faces, **how)
        assert caught.value.field == field
    with pytest.raises(errors.NonFiniteError):
        server_or_engine.register_mesh(np.asarray(points, "f4") * 1e30, faces, scale=1e10)


def test_faces_that_are_not_flat(server, server_or_engine, tmp_path):
    """A box of quads, one corner of which is 1 cm too high: the top's cut is the one with the least area, and is told."""
    corners = [(x, y, z) for z in (0, 1) for y in (0, 1) for x in (0, 1)]
    faces = [(1, 3, 4, 2), (5, 6, 8, 7), (1, 2, 6, 5), (3, 7, 8, 4), (1, 5, 7, 3), (2, 4, 8, 6)]
    for high in (0, 1e-2):
        path = tmp_path / f"box{high}.obj"
        path.write_text("".join(f"v {x} {y} {z + high * (x + y + z == 3)}\n" for x, y, z in corners)
                        + "".join("f %d %d %d %d\n" % f for f in faces))
        mesh = server_or_engine.load(path)
        assert mesh.uneven_polygons == (1 if high else 0) and mesh.info["unevenness"] == mesh.unevenness
        assert mesh.volume == pytest.approx(1 + high / 3, abs=high / 3 + 1e-7)
        assert 0.2 * high <= mesh.unevenness <= high
        answer = Api(server.http)("POST", "/v1/meshes", path.read_bytes()).json
        assert answer.get("uneven_polygons", 0) == mesh.uneven_polygons and answer.get("unevenness", 0) == pytest.approx(mesh.unevenness)

        def add(*options):
            return subprocess.run([*CONTACTCTL, "--server", server.stream, "mesh", "add", path, *options], capture_output=True, text=True,
                                  timeout=PATIENT).stdout

        assert ("1 of its faces are not flat" in add()) == (high > 0)
        assert json.loads(add("-o", "json"))[0].get("uneven_polygons", 0) == mesh.uneven_polygons


def test_units_and_repairs_on_the_command_line_and_over_http(server, tmp_path):
    points, faces = box((0, 0, 0), (20, 30, 40))
    (tmp_path / "mm.obj").write_text(as_obj(points, faces))
    broken = np.concatenate([faces, faces[:1]])  # a face is there twice
    (tmp_path / "broken.obj").write_text(as_obj(points, broken))
    api = Api(server.http)
    assert api("POST", "/v1/meshes?scale=0.001", (tmp_path / "mm.obj").read_bytes()).json["volume"] == pytest.approx(2.4e-5, rel=1e-6)
    for unit, m in contactd.client._UNITS.items():
        answer = api("POST", f"/v1/meshes?unit={unit}", (tmp_path / "mm.obj").read_bytes())
        assert answer.json["volume"] == pytest.approx(24000 * m**3, rel=1e-6)
        added = subprocess.run([*CONTACTCTL, "--server", server.stream, "mesh", "add", tmp_path / "mm.obj", "--unit", unit, "-o", "json"],
                               capture_output=True, text=True, timeout=PATIENT)
        assert json.loads(added.stdout)[0]["hash"] == answer.json["hash"]
    api.refused("POST", "/v1/meshes?unit=inch", 400, "INVALID_ARGUMENT", (tmp_path / "mm.obj").read_bytes(), field="unit")
    api.refused("POST", "/v1/meshes?unit=mm&scale=1", 400, "INVALID_ARGUMENT", (tmp_path / "mm.obj").read_bytes(), field="scale")
    for options, words in ((("--unit", "mile"), "um, in or ft"), (("--unit", "mm", "--scale", "1"), "leave out one of them")):
        refused = subprocess.run([*CONTACTCTL, "--server", server.stream, "mesh", "add", tmp_path / "mm.obj", *options], capture_output=True,
                                 text=True, timeout=PATIENT)
        assert refused.returncode == 2 and words in refused.stderr
    for bad in ("0", "x", "-1", "nan"):
        assert api("POST", f"/v1/meshes?scale={bad}", (tmp_path / "mm.obj").read_bytes(), check=False).status in (400, 422)

    def contact(*options):
        return subprocess.run([*CONTACTCTL, "--server", server.stream, "contact", tmp_path / "broken.obj", tmp_path / "mm.obj",
                               "-o", "json", *options], capture_output=True, text=True, timeout=PATIENT)

    refused = contact()
    assert refused.returncode != 0 and "(repair)" in refused.stderr
    (found,) = json.loads(contact("--repair", "--scale", "0.001", "--pose-b", "1 0 0 0.01  0 1 0 0  0 0 1 0").stdout)["contacts"]
    assert found["volume"] == pytest.approx(0.01 * 0.03 * 0.04, rel=1e-6)
    assert "OUT_OF_RANGE: scale is -1 m" in contact("--repair", "--scale", "-1").stderr


def test_slits_are_welded(server_or_engine):
    """A box whose triangles have corners of their own, off by up to 1e-6 m; and by 1 mm, which is welded where that is asked for."""
    points, faces = box((0, 0, 0), (1, 1, 1))
    rng, torn = np.random.default_rng(2), np.arange(3 * len(faces)).reshape(-1, 3)
    for off, weld in ((1e-6, 0), (1e-3, 2e-3)):
        corners = np.asarray(points, float)[np.asarray(faces).ravel()]
        corners += rng.uniform(-off / 4, off / 4, corners.shape)
        mesh = server_or_engine.register_mesh(corners, torn, repair=True, weld=weld)
        assert mesh.volume == pytest.approx(1, abs=3 * off)
        assert mesh.repair.welded_vertices == len(corners) - 8 and 0 < mesh.repair.moved <= off
        if weld:
            with pytest.raises(errors.InvalidMeshError):
                server_or_engine.register_mesh(corners, torn, repair=True)
    for how, error in (({"weld": -1, "repair": True}, errors.OutOfRangeError), ({"weld": 1}, errors.InvalidArgumentError)):
        with pytest.raises(error) as caught:
            server_or_engine.register_mesh(points, faces, **how)
        assert caught.value.field == "weld"


def test_info(server_or_engine, tmp_path):
    path = tmp_path / "box.off"
    vertices, triangles = UNIT_BOX
    path.write_text(f"OFF {len(vertices)} {len(triangles)} 0\n" + "".join("%g %g %g\n" % tuple(v) for v in vertices)
                    + "".join("3 %d %d %d\n" % tuple(t) for t in triangles))
    mesh = server_or_engine.load(path, unit="mm")
    assert mesh.info["volume"] == mesh.volume == pytest.approx(1e-9) and mesh.info["name"] == "box.off"
    assert mesh.info["n_shells"] == 1 and mesh.info["closing"] is mesh.info["repair"] is None
    assert np.array_equal(mesh.info["inertia"], mesh.inertia) and mesh.info["hash"] == mesh.hash
