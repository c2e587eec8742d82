"""closing="wrap": a closed surface around any triangles, over every interface; later answers name it, also after a restart."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
from conftest import CONTACTCTL, SLOW
from contactd import errors
from geometry import box
from http_api import Api
from test_hull import as_obj

PATIENT = 30 * SLOW
V, T = box((0, 0, 0), (1, 1, 1))
LID = (V[np.asarray(T)][:, :, 2] == 1).all(1)
OPEN = np.asarray(T)[~LID]  # without its lid: five walls
H = 0.05


def check(mesh):
    assert mesh.closing == "wrap" and mesh.repair is None and mesh.n_shells == 1
    assert 5 * 1.5 * H < mesh.volume < 5 * 2.1 * H
    assert 0 < mesh.deviation < 2 * H


def test_python(server_or_engine):
    for repair in (False, True):
        with pytest.raises(errors.InvalidMeshError, match="closing .hull or wrap."):
            server_or_engine.register_mesh(V, OPEN, repair=repair)
    mesh = server_or_engine.register_mesh(V, OPEN, closing="wrap", resolution=H)
    check(mesh)
    vertices, triangles = mesh.geometry()
    assert np.abs(vertices - 0.5).max() < 0.5 + H
    plain = server_or_engine.register_mesh(vertices, triangles)  # what became of it is a mesh like any other
    assert plain.hash == mesh.hash and plain.closing is None and plain.deviation == 0
    inside = server_or_engine.register_mesh(*box((0.4, 0.4, 0.4), (0.6, 0.6, 0.6)))  # in the open box, not in its walls
    assert server_or_engine.overlap(mesh, inside).volume == 0
    through = server_or_engine.register_mesh(*box((0.4, 0.4, -1), (0.6, 0.6, 0.5)))
    assert 0.04 * 1.5 * H < server_or_engine.overlap(mesh, through).volume < 0.04 * 2.1 * H
    assert server_or_engine.register_mesh(V, T, closing="wrap").volume == pytest.approx(1, abs=6 * 0.06 * 0.0174)


def test_refused_by_name(server_or_engine):
    def refused(error, said, **options):
        with pytest.raises(error, match=said) as e:
            server_or_engine.register_mesh(V, OPEN, **options)
        return e.value.field

    assert refused(errors.InvalidArgumentError, "leave out repair", closing="wrap", repair=True) == "closing"
    assert refused(errors.InvalidArgumentError, "no wrap is asked for", resolution=0.1) == "resolution"
    assert refused(errors.LimitExceededError, "give a larger resolution", closing="wrap", resolution=5e-4) == "resolution"
    assert refused(errors.OutOfRangeError, "too fine for float32", closing="wrap", resolution=1e-6) == "resolution"
    assert refused(errors.OutOfRangeError, "0 or more", closing="wrap", resolution=-1) == "resolution"


def test_http_and_restart(make_server):
    server = make_server()
    api = Api(server.http)
    body = {"vertices": V.tolist(), "triangles": OPEN.tolist()}
    made = api("POST", f"/v1/meshes?closing=wrap&resolution={H}", body).json
    assert made["closing"] == "wrap" and 0 < made["deviation"] < 2 * H and "repair" not in made
    kept = api.get(f"/v1/meshes/{made['hash']}")
    assert kept["closing"] == "wrap" and kept["deviation"] == made["deviation"]
    assert kept["center_of_mass"] == made["center_of_mass"] and kept["inertia"] == made["inertia"]
    api.refused("POST", "/v1/meshes?closing=wrap&resolution=x", 400, "INVALID_ARGUMENT", body, field="resolution")


def test_state(make_server, tmp_path):
    server = make_server("--state-dir", str(tmp_path / "state"))
    body = {"vertices": V.tolist(), "triangles": OPEN.tolist()}
    made = {closing: Api(server.http)("POST", f"/v1/meshes?closing={closing}", body).json for closing in ("wrap", "hull")}
    server.restart()
    for closing, before in made.items():
        after = Api(server.http).get(f"/v1/meshes/{before['hash']}")
        assert after["closing"] == closing and after["volume"] == pytest.approx(before["volume"], rel=1e-12)
    assert after.get("deviation", 0) == made["hull"].get("deviation", 0)
    wrap = Api(server.http).get(f"/v1/meshes/{made['wrap']['hash']}")
    assert wrap["deviation"] == pytest.approx(made["wrap"]["deviation"], rel=1e-6)
    assert wrap["center_of_mass"] == pytest.approx(made["wrap"]["center_of_mass"], abs=1e-12)


def test_contactctl(server, tmp_path):
    path = tmp_path / "open.obj"
    path.write_text(as_obj(V, OPEN))

    def run(*options):
        return subprocess.run([*CONTACTCTL, "--server", server.stream, "mesh", "add", str(path), *options], capture_output=True,
                              text=True, timeout=PATIENT)

    assert run().returncode != 0
    done = run("--closing", "wrap", "--wrap-resolution", str(H))
    assert done.returncode == 0 and "it is a wrap, at most" in done.stdout, done.stderr
    (made,) = json.loads(run("--closing", "wrap", "--wrap-resolution", str(H), "--json").stdout)
    assert made["closing"] == "wrap" and 0 < made["deviation"] < 2 * H
